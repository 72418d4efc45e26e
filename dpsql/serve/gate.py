"""`Gate`: who may log in, how failed logins are slowed down, and whose logins still hold.

A login is of one user, one analyst and one password or token. It ends when the user is removed, disabled or
expires, or belongs to another analyst, and when the password or token is changed, revoked or expires.
`Client` asks for each statement, so that no connection spends after that, whatever the protocol. Delays after
failed logins slow down guessing, and lock nobody out.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from dpsql.lazy_dataclass import dataclass
from dpsql.serve.limits import LoginEnded

if TYPE_CHECKING:
    from dpsql.login.scram import ScramKeys, Verifier
    from dpsql.serve.users import User, Users


FREE = 5
"""Failures in a row that cost no delay."""
WINDOW = 60.0
"""Seconds without a failure after which failures are forgotten."""
LONGEST = 30.0
"""The longest delay, in seconds."""
_ENTRIES = 100_000
_NAME = 64
"""Characters of a name that count: more than any user's name has, and few enough to be kept."""


@dataclass(frozen=True, slots=True)
class Login:
    """A user who proved who he is, and by what."""

    user: User
    """The user as he was then."""
    keys: ScramKeys | None = None
    """What is stored of the password or token; None where a program of the owner's logs somebody in."""

    @property
    def analyst(self) -> str:
        """The analyst whose budget the login uses, to its end."""
        return self.user.analyst


class Throttle:
    """Failed logins of the last minute. Not for several threads: the event loop's alone.

    A name is delayed only where its failures come from: its user, elsewhere, logs in at once.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()

    def delay(self, name: str, address: str) -> float:
        """Return the seconds to wait before a login is answered, whether its proof is right or wrong.

        The wait comes before the proof is checked, else an early answer would tell that it was right.
        """
        count = self._count(_key(name, address))
        return 0.0 if count < FREE else min(LONGEST, 2.0 ** (count - FREE))

    def count_failure(self, name: str, address: str) -> None:
        """Count a failed login of a name from an address."""
        key = _key(name, address)
        count = self._count(key)
        self._failures[key] = (count + 1, self._clock())
        self._failures.move_to_end(key)
        self._forget()

    def forget_failures(self, name: str, address: str) -> None:
        """Forget the failed logins of a name from an address."""
        self._failures.pop(_key(name, address), None)

    def __len__(self) -> int:
        return len(self._failures)

    def _count(self, key: tuple[str, str]) -> int:
        count, last = self._failures.get(key, (0, 0.0))
        return count if self._clock() - last < WINDOW else 0

    def _forget(self) -> None:
        """Forget failed logins that are too old, and the oldest ones where there are too many."""
        while self._failures:
            key, (_, last) = next(iter(self._failures.items()))
            if self._clock() - last < WINDOW and len(self._failures) <= _ENTRIES:
                return
            del self._failures[key]


def _key(name: str, address: str) -> tuple[str, str]:
    return name[:_NAME], network(address)


def network(address: str) -> str:
    """Return the network that an address counts for: an IPv6 /64, else the address itself.

    >>> network("2001:db8:1:2:3::4"), network("::ffff:192.0.2.7"), network("192.0.2.7"), network("")
    ('2001:db8:1:2::/64', '192.0.2.7', '192.0.2.7', '')
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address  # a Unix socket has none
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(found) >> 64 << 64, 64)))


class Gate:
    """The users of this moment, and the failed logins; `user` and `holds` are for any thread."""

    def __init__(self, users: Users, throttle: Throttle | None = None) -> None:
        self.users = users
        """Who may log in; a reload assigns others."""
        self.throttle = Throttle() if throttle is None else throttle

    def verifier(self, name: str) -> Verifier:
        """Return what checks a password of that name; for a name that may not log in, nothing passes."""
        return self.users.verifier(name)

    def delay(self, name: str, address: str) -> float:
        """Return the seconds to wait before a login is answered, whether its proof is right or wrong."""
        return self.throttle.delay(name, address)

    def login(self, name: str, address: str, keys: ScramKeys | None, certified: str | None) -> Login | None:
        """Return the login of a name whose password or token was checked by `keys`; None if it fails.

        `certified` is the name in the client's certificate, None if none is asked for. Failures are counted.
        """
        user = None if keys is None else self.users.user(name)
        if user is None or (certified is not None and certified != name):
            self.throttle.count_failure(name, address)
            return None
        self.throttle.forget_failures(name, address)
        return Login(user, keys)

    def by_token(self, token: str, certified: str | None = None) -> Login | None:
        """Return the login of a token; None if it is invalid, or the certificate names another user."""
        found = self.users.by_token(token)
        if found is None or (certified is not None and certified != found[0].name):
            return None
        return Login(*found)

    def user(self, login: Login) -> User:
        """Return the present account of a login's user; raises `LoginEnded`."""
        user = self.users.user(login.user.name)
        if user is None or user.analyst != login.analyst:
            raise LoginEnded("the login is no longer valid")
        if login.keys is not None and not self.users.accepts(user.name, login.keys):
            raise LoginEnded("the login is no longer valid")
        return user

    def holds(self, login: Login) -> bool:
        """Return whether the user, the analyst and the password or token of a login are still valid."""
        try:
            self.user(login)
        except LoginEnded:
            return False
        return True

    def log_field(self, name: str) -> dict[str, str]:
        """Return a name as a field of the owner's log, if a user has it: people type passwords as names."""
        return {"user": name} if name and self.users.state(name) != "unknown" else {}
