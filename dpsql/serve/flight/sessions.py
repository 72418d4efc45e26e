"""Logins over Flight: by a password once, then by a random bearer token; or by a user's own token.

A session belongs to its token, not to a connection: programs open and close connections as they like.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dpsql.errors import Error
from dpsql.login import entropy
from dpsql.serve.flight.arrow import size_of
from dpsql.serve.flight.errors import FlightError
from dpsql.serve.flight.turn import Turn
from dpsql.serve.gate import Login
from dpsql.serve.settings import Settings
from dpsql.serve.throttle import network

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.policy import ServeConfig
    from dpsql.serve.accounts import Users
    from dpsql.serve.client import Client
    from dpsql.serve.scram import Keys
    from dpsql.serve.service import Service
    from dpsql.serve.throttle import Throttle
    from dpsql.serve.user import User

IDLE = 3_600.0
"""Seconds without a call after which a session ends."""
LONGEST = 43_200.0
"""Seconds after which it ends in any case."""
MOST_PREPARED, MOST_BYTES = 100, 4 << 20
"""Prepared statements of a session, and bytes of them with their values; another one ends the oldest."""
_NAME, _PASSWORD = 200, 1_024
"""The most characters of a name and of a password."""
_AT_ONCE, _OF_NETWORK, _OF_ALL = 5, 20, 100
"""Logins that are tried at the same time: by one name from one network, from one network, in all."""


@dataclass
class PreparedStatement:
    """A statement that a program has prepared, and the values that it has bound."""

    text: str
    values: tuple[object, ...] = ()
    types: tuple[pa.DataType | None, ...] = ()
    size: int = 0
    """Bytes of the values, about."""


@dataclass(eq=False)
class Session:
    """One login of a program."""

    client: Client
    settings: Settings
    keys: Keys | None
    """What the password was checked by: the session ends with it. None for a user's own token."""
    began: float
    seen: float
    prepared: dict[bytes, PreparedStatement] = field(default_factory=dict)
    turn: Turn = field(init=False)

    def __post_init__(self) -> None:
        self.turn = Turn(self.client)

    @property
    def name(self) -> str:
        """The user's name."""
        return self.client.user.name

    def prepare(self, text: str) -> bytes:
        """Keep a statement, and return its handle."""
        handle = entropy.key(16)
        self.prepared[handle] = PreparedStatement(text)
        self._limit()
        return handle

    def bind(
        self, handle: bytes, values: tuple[object, ...], types: tuple[pa.DataType | None, ...], size: int
    ) -> None:
        """Keep the values of a prepared statement's parameters, of so many bytes."""
        found = self.statement(handle)
        self.prepared[handle] = self.prepared.pop(handle)  # the newest
        found.values, found.types, found.size = values, types, size
        self._limit()

    def _limit(self) -> None:
        while len(self.prepared) > MOST_PREPARED or self._bytes > MOST_BYTES:
            del self.prepared[next(iter(self.prepared))]

    @property
    def _bytes(self) -> int:
        return sum(size_of(each.text) + each.size for each in self.prepared.values())

    def statement(self, handle: bytes) -> PreparedStatement:
        """Return a prepared statement by its handle."""
        found = self.prepared.get(handle)
        if found is None:
            raise FlightError("26000", "there is no such prepared statement", "prepare it again")
        return found


class Sessions:
    """The sessions of all programs. Only the thread of the event loop uses it."""

    def __init__(
        self,
        service: Callable[[], Service],
        users: Callable[[], Users],
        config: ServeConfig,
        throttle: Throttle,
        log: Callable[[str, Mapping[str, object]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service = service
        self._users = users
        self._config = config
        self._throttle = throttle
        self._log = log
        self._clock = clock
        self._sessions: dict[bytes, Session] = {}
        """By the hash of the token, so that no time tells anything of one."""
        self._trying: Counter[object] = Counter()
        self._hashing = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._sessions)

    # -- logging in

    async def log_in(self, name: str, password: str, address: str, certified: str | None) -> str:
        """Return the token of a new session; raises `FlightError`, with one text for all that is wrong.

        `certified` is the name in the client's certificate, if one is needed.
        """
        user, keys = await self._checked(name, password, address, certified)
        token = entropy.text(32)
        self._open(_hashed(token), user, keys, address)
        return token

    async def of_call(self, authorization: str, address: str, certified: str | None) -> Session:
        """Return the session of a call by its header `authorization`; raises `FlightError`."""
        scheme, _, rest = authorization.partition(" ")
        match scheme.lower():
            case "bearer":
                session = self._of_token(rest.strip(), address)
            case "basic":
                session = await self._of_password(*basic(rest), address, certified)
            case _:
                raise _unknown("this needs a login", "log in by name and password, or by a token")
        if certified is not None and certified != session.name:
            raise _unknown("the certificate is another user's", None)
        session.seen = self._clock()
        return session

    def _of_token(self, token: str, address: str) -> Session:
        key = _hashed(token)
        session = self._live(key)
        if session is not None and session.keys is not None:
            return session
        user, _ = self._users().by_token(token) or (None, None)
        if user is None:
            self._end(key)
            raise _unknown("the login has ended, or the token is not known", "log in again")
        return session or self._open(key, user, None, address)

    async def _of_password(self, name: str, password: str, address: str, certified: str | None) -> Session:
        """Return the session of a program that sends its password with each call."""
        user, keys = await self._checked(name, password, address, certified)
        key = hashlib.sha256(b"basic " + name.encode() + b" " + keys.stored).digest()
        return self._live(key) or self._open(key, user, keys, address)

    async def _checked(
        self, name: str, password: str, address: str, certified: str | None
    ) -> tuple[User, Keys]:
        with self._attempt(name, address):
            await asyncio.sleep(self._throttle.delay(name, address))
            keys = None
            if len(name) <= _NAME and len(password) <= _PASSWORD:
                verifier = self._users().verifier(name)
                async with self._hashing:  # it takes milliseconds on purpose
                    keys = await asyncio.to_thread(verifier.matched, password)
        user = self._users().user(name) if keys is not None else None
        if keys is None or user is None or (certified is not None and certified != name):
            self._throttle.failed(name, address)
            known = {"user": name} if self._users().state(name) != "unknown" else {}
            fields = {"address": address, "protocol": "flight", "reason": "wrong password"}
            self._log("handshake failed", fields | {"outcome": "28P01"} | known)
            raise FlightError("28P01", "name or password is wrong")
        self._throttle.succeeded(name, address)
        return user, keys

    @contextmanager
    def _attempt(self, name: str, address: str) -> Iterator[None]:
        """Count a login that is tried in this block; raise if there are too many."""
        of = network(address)
        counted = ((name[:_NAME], of), of, None)
        if any(
            self._trying[key] >= most
            for key, most in zip(counted, (_AT_ONCE, _OF_NETWORK, _OF_ALL), strict=True)
        ):
            raise FlightError("53300", "too many clients are logging in", "try again in a few seconds")
        self._trying.update(counted)
        try:
            yield
        finally:
            self._trying.subtract(counted)
            self._trying += Counter()  # without those that are zero

    # -- sessions

    def _open(self, key: bytes, user: User, keys: Keys | None, address: str) -> Session:
        self._make_room(user)
        name, config = user.name, self._config
        settings = Settings(name, config.name, statement_timeout=config.statement_timeout * 1000)
        client = self._service().client(Login(user), entropy.number(31), settings)
        client.protocol, client.address = "flight", address
        loop = asyncio.get_running_loop()

        def terminate() -> None:
            loop.call_soon_threadsafe(self._end, key)

        client.on_terminate = terminate
        now = self._clock()
        self._sessions[key] = session = Session(client, settings, keys, now, now)
        fields = {"user": name, "analyst": user.analyst, "address": address, "protocol": "flight"}
        self._log("connected", fields | {"number": client.number})
        return session

    def _make_room(self, user: User) -> None:
        """End what has expired, and the user's session that was used least recently if he has too many."""
        for key in list(self._sessions):
            self._live(key)
        idle = [(each.seen, key) for key, each in self._sessions.items() if not each.client.running]
        own = [(seen, key) for seen, key in idle if self._sessions[key].name == user.name]
        mine = sum(each.name == user.name for each in self._sessions.values())
        if mine >= user.max_connections:
            if not own:
                raise FlightError(
                    "53300",
                    f"you have {mine} sessions, as many as you may have",
                    "end one that you do not use",
                )
            self._end(min(own)[1])
        elif len(self._sessions) >= self._config.max_connections:
            raise FlightError("53300", "the server has as many sessions as it allows", "try again later")

    def _live(self, key: bytes) -> Session | None:
        """Return a session; None, and end it, if its time is over or its user may not log in any more."""
        session, now = self._sessions.get(key), self._clock()
        if session is None:
            return None
        users = self._users()
        user = users.user(session.name)
        valid = user is not None and user.analyst == session.client.user.analyst
        if session.keys is not None:
            valid = valid and session.keys in users.verifier(session.name).keys
        over = now - session.seen > IDLE or now - session.began > LONGEST
        if not valid or (over and not session.client.running):
            self._end(key)
            return None
        return session

    def end(self, session: Session) -> None:
        """End a session that its program has closed."""
        for key in [key for key, each in self._sessions.items() if each is session]:
            self._end(key)

    def _end(self, key: bytes) -> None:
        session = self._sessions.pop(key, None)
        if session is not None:
            session.client.cancel()
            session.client.close()


def basic(text: str) -> tuple[str, str]:
    """Return name and password of a header `Basic`; raises `FlightError`. Some clients leave the padding out.

    >>> basic("YWxpY2U6YTpi"), basic("Ym9iOmFi")
    (('alice', 'a:b'), ('bob', 'ab'))
    >>> basic("YTpi"), basic("YTpiYw"), basic("YTpiYw==")
    (('a', 'b'), ('a', 'bc'), ('a', 'bc'))
    """
    bare = text.strip().rstrip("=")
    try:
        padded = bare + -len(bare) % 4 * "="
        name, colon, password = base64.b64decode(padded, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        colon = ""
    if not colon:
        raise FlightError("28000", "the header of the login is malformed")
    return name, password


def _unknown(message: str, hint: str | None) -> Error:
    return FlightError("28000", message, hint)


def _hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()
