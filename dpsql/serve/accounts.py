"""The closed list of users: who may log in by which password or token."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Self

from dpsql.lazy_dataclass import dataclass
from dpsql.serve import account_file
from dpsql.serve.scram import Keys, Verifier
from dpsql.serve.user import Account, User, token_hash

__all__ = ["User", "Users", "token_hash"]


def today() -> date:
    """Return the date in UTC, by which logins expire."""
    return datetime.now(UTC).date()


@dataclass(frozen=True, slots=True)
class Users:
    """The users of a server, as the file had them when it was read."""

    accounts: Mapping[str, Account]
    secret: bytes = field(repr=False)
    """The server's secret: it makes verifiers of unknown names, hashes for the log, confirmations."""
    day: Callable[[], date] = today

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read the users file; raises `PolicyError`, also if others than its owner may read it."""
        secret, accounts = account_file.read(Path(path))
        return cls(accounts, secret)

    def __iter__(self) -> Iterator[User]:
        return (account.user for account in self.accounts.values())

    def __len__(self) -> int:
        return len(self.accounts)

    def state(self, name: str) -> str:
        """Return `active`, or why nobody can log in by that name: for the owner's log alone."""
        account = self.accounts.get(name)
        return "unknown" if account is None else account.state(self.day())

    def user(self, name: str) -> User | None:
        """Return the user of that name; None if he is unknown, disabled or expired."""
        return self.accounts[name].user if self.state(name) == "active" else None

    def verifier(self, name: str) -> Verifier:
        """Return what checks the password of that name.

        For a name that may not log in nothing passes, and a client cannot see that from the exchange.
        """
        account = self.accounts.get(name)
        ever = () if account is None else account.verifiers(None)
        mock = Verifier.mock(self.secret, name, ever[0] if ever else None)
        if account is None or account.state(self.day()) != "active":
            return mock
        return Verifier.join(account.verifiers(self.day()))

    def accepts(self, name: str, keys: Keys) -> bool:
        """Return whether these are the keys of a password or token of that name today."""
        account = self.accounts.get(name)
        return account is not None and any(keys in each.keys for each in account.verifiers(self.day()))

    def by_token(self, text: str) -> tuple[User, Keys] | None:
        """Return the user of a token, and what is stored of it.

        None if the token is unknown or expired, or the user may not log in.
        """
        digest = token_hash(text)
        for account in self.accounts.values():
            for token in account.live_tokens(self.day()):
                if token.sha256 == digest and account.state(self.day()) == "active":
                    return account.user, token.scram.keys[0]
        return None
