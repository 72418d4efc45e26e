"""`Gate`: who may log in and whose logins still hold, asked by every protocol for every statement.

A login is of one user, one analyst and one password or token. It ends when the user is removed, disabled or
expires, or belongs to another analyst, and when the password or token is changed, revoked or expires.
`Client` asks for each statement, so that no connection spends after that, whatever the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.lazy_dataclass import dataclass
from dpsql.serve.errors import LoginEnded
from dpsql.serve.throttle import Throttle

if TYPE_CHECKING:
    from dpsql.serve.accounts import Users
    from dpsql.serve.scram import Keys, Verifier
    from dpsql.serve.user import User


@dataclass(frozen=True, slots=True)
class Login:
    """A user who proved who he is, and by what."""

    user: User
    """The user as he was then."""
    keys: Keys | None = None
    """What is stored of the password or token; None where a program of the owner's logs somebody in."""

    @property
    def analyst(self) -> str:
        """The analyst whose budget the login uses, to its end."""
        return self.user.analyst


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

    def login(self, name: str, address: str, keys: Keys | None, certified: str | None) -> Login | None:
        """Return the login of a name whose password or token was checked by `keys`; None if it fails.

        `certified` is the name in the client's certificate, None if none is asked for. Failures are counted.
        """
        user = None if keys is None else self.users.user(name)
        if user is None or (certified is not None and certified != name):
            self.throttle.failed(name, address)
            return None
        self.throttle.succeeded(name, address)
        return Login(user, keys)

    def by_token(self, token: str, certified: str | None = None) -> Login | None:
        """Return the login of a token; None for one that does not hold, or of another certificate's user."""
        found = self.users.by_token(token)
        if found is None or (certified is not None and certified != found[0].name):
            return None
        return Login(*found)

    def user(self, login: Login) -> User:
        """Return the user of a login as he is now; raises `LoginEnded`."""
        user = self.users.user(login.user.name)
        if user is None or user.analyst != login.analyst:
            raise LoginEnded("the login is no longer valid")
        if login.keys is not None and not self.users.accepts(user.name, login.keys):
            raise LoginEnded("the login is no longer valid")
        return user

    def holds(self, login: Login) -> bool:
        """Return whether a login still holds."""
        try:
            self.user(login)
        except LoginEnded:
            return False
        return True

    def log_field(self, name: str) -> dict[str, str]:
        """Return a name for the owner's log, if a user has it: people type passwords there."""
        return {"user": name} if name and self.users.state(name) != "unknown" else {}
