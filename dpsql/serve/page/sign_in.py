"""`Logins`: people who have signed in by a password, each kept under a random cookie and a random key.

A browser sends a cookie to every port of a host, so whoever serves another page there gets it. The key is
kept by the page itself, which no other origin can read; the cookie is of no use without it, nor is the key
without the cookie, which no script reads.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dpsql.lazy_dataclass import dataclass
from dpsql.login.entropy import draw_text
from dpsql.serve.gate import network
from dpsql.serve.page.requests import RefusedError

if TYPE_CHECKING:
    from dpsql.serve.gate import Gate, Login
    from dpsql.serve.scram import Keys

IDLE = 3_600.0
"""Seconds without a request after which a login ends."""
LONGEST = 43_200.0
"""Seconds after which it ends in any case."""
MOST = 20
"""Logins of one user; another one ends the one that was used least recently."""
_AT_ONCE = 5
"""Attempts by one name from one network that wait at the same time."""
_NAME, _PASSWORD = 200, 1_024
"""The most characters of a name and of a password."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """What a browser is given for a login: a cookie, and the key that the page sends in a header."""

    cookie: str
    key: str


@dataclass(slots=True)
class SignedIn:
    """A browser that is signed in."""

    login: Login
    key: bytes
    """The hash of the key."""
    began: float
    seen: float


class Logins:
    """The logins of the browsers. Only the thread of the event loop uses it."""

    def __init__(
        self,
        gate: Gate,
        log: Callable[[str, Mapping[str, object]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gate = gate
        self._log = log
        self._clock = clock
        self._logins: dict[bytes, SignedIn] = {}
        """By the hash of the cookie, so that no time tells anything of one."""
        self._waiting: Counter[tuple[str, str]] = Counter()
        self._hashing = asyncio.Semaphore(1)
        """A password is hashed here, not by the client: strangers take one processor with that at most."""

    async def sign_in(self, name: str, password: str, address: str, certified: str | None) -> Secrets:
        """Return cookie and key of a new login; raises `RefusedError`, with one text for all that is wrong.

        `certified` is the name in the client's certificate, if one is needed.
        """
        at = name[:_NAME], network(address)
        if self._waiting[at] >= _AT_ONCE:
            raise RefusedError(429, "too many attempts at the same time", "wait until they are answered")
        self._waiting[at] += 1
        try:
            await asyncio.sleep(self._gate.delay(name, address))
            keys = await self._match(name, password)
        finally:
            self._waiting[at] -= 1
            if not self._waiting[at]:
                del self._waiting[at]
        login = self._gate.login(name, address, keys, certified)
        if login is None:
            fields = {"address": address, "protocol": "http", "reason": "wrong password", "outcome": "28P01"}
            self._log("handshake failed", fields | self._gate.log_field(name))
            raise RefusedError(401, "name or password is wrong")
        fields = {"user": name, "analyst": login.analyst, "address": address, "protocol": "http"}
        self._log("connected", fields)
        return self._new(login)

    async def _match(self, name: str, password: str) -> Keys | None:
        if len(name) > _NAME or len(password) > _PASSWORD:
            return None
        verifier = self._gate.verifier(name)
        async with self._hashing:
            return await asyncio.to_thread(verifier.match, password)  # it takes milliseconds on purpose

    def _new(self, login: Login) -> Secrets:
        now, made = self._clock(), Secrets(draw_text(32), draw_text(32))
        self._logins = {key: each for key, each in self._logins.items() if not _has_ended(each, now)}
        name = login.user.name
        own = sorted((each.seen, key) for key, each in self._logins.items() if each.login.user.name == name)
        for _, key in own[: max(0, len(own) - MOST + 1)]:
            del self._logins[key]
        self._logins[_hash(made.cookie)] = SignedIn(login, _hash(made.key), now, now)
        return made

    def login(self, cookie: str, key: str) -> Login | None:
        """Return whose cookie and key these are; None if the login has ended, or holds no longer."""
        found, now = self._logins.get(_hash(cookie)), self._clock()
        if found is None or not hmac.compare_digest(found.key, _hash(key)):
            return None
        if _has_ended(found, now) or not self._gate.holds(found.login):
            self.sign_out(cookie)
            return None
        found.seen = now
        return found.login

    def sign_out(self, cookie: str) -> None:
        """End a login."""
        self._logins.pop(_hash(cookie), None)


def _has_ended(login: SignedIn, now: float) -> bool:
    return now - login.seen > IDLE or now - login.began > LONGEST


def _hash(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode(errors="surrogatepass")).digest()
