"""The dataclasses of a user who may log in: what he may do, and what is stored of his passwords.

Several users may be one analyst, whose budget and releases they then share. A user has a password, tokens, or
both; a token is also accepted as a password, by programs that know nothing else.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from datetime import date
from fractions import Fraction

from dpsql.lazy_dataclass import dataclass
from dpsql.login.entropy import draw_key, draw_text
from dpsql.policy.names import key_path, wrong
from dpsql.serve.scram import MOST_KEYS, SALT_BYTES, Verifier

NAME = re.compile(r"[a-z0-9_.-]{1,63}")
RESERVED = frozenset({"postgres", "dpsql", "public", "owner"})
PREVIEWS = ("refuse", "empty")
CONNECTIONS = 20
"""The most connections of a user at the same time, if the users file does not say."""
MOST_CONNECTIONS = 10_000
TOKEN_PREFIX = "dpsql_"  # noqa: S105  it marks a token, so that scanners for leaked ones find it

SHORTEST_PASSWORD = 12
"""Characters of the shortest password."""
LONGEST_PASSWORD = 256
"""Characters of the longest password; some clients cut longer ones."""
_TOKEN_BYTES = 32
_MOST_TOKENS = MOST_KEYS - 1


def name_problem(name: str) -> str | None:
    """Return what is wrong with a user's name; None for a valid name."""
    if not NAME.fullmatch(name):
        return "a user's name is 1 to 63 of the characters a-z 0-9 _ . -"
    if name in RESERVED:
        return f"the name {name!r} is reserved"
    return None


@dataclass(frozen=True, slots=True)
class User:
    """A user who is logged in, or may log in."""

    name: str
    analyst: str
    """The analyst whose budget and releases are used."""
    auto_charge: bool = False
    """Whether a statement that names no epsilon is charged the policy's `default_epsilon`."""
    preview: str = "refuse"
    """How `SELECT * FROM t LIMIT n` is met: `refuse`, or `empty` (the columns without rows)."""
    max_connections: int = CONNECTIONS
    expires: date | None = None
    """The last day of the login."""
    free_below: Fraction = Fraction(0)
    """The price up to which a program may ask by MCP without having been shown the price."""

    def __post_init__(self) -> None:
        place = ("users", self.name)
        if invalid := name_problem(self.name):
            raise wrong(key_path(*place), invalid)
        if not self.analyst or len(self.analyst) > 200 or not self.analyst.isprintable():
            raise wrong(key_path(*place, "analyst"), "an analyst's name is 1 to 200 printable characters")
        if self.preview not in PREVIEWS:
            raise wrong(key_path(*place, "preview"), "expected one of " + ", ".join(PREVIEWS))
        if not 1 <= self.max_connections <= MOST_CONNECTIONS:
            raise wrong(key_path(*place, "max_connections"), f"must be between 1 and {MOST_CONNECTIONS}")
        if self.free_below < 0:
            raise wrong(key_path(*place, "free_below"), "must be at least 0")


@dataclass(frozen=True, slots=True)
class Token:
    """What is stored of a token."""

    id: str
    sha256: str
    scram: Verifier
    expires: date | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """A user as the file has him, with what is stored of his password and tokens."""

    user: User
    password: Verifier | None = None
    tokens: tuple[Token, ...] = ()
    disabled: bool = False

    def live_tokens(self, day: date) -> tuple[Token, ...]:
        """Return the tokens that have not expired."""
        return tuple(token for token in self.tokens if token.expires is None or day <= token.expires)

    def state(self, day: date) -> str:
        """Return `active`, `disabled`, `expired`, or `no password` if there is no token either."""
        if self.disabled:
            return "disabled"
        if self.user.expires is not None and day > self.user.expires:
            return "expired"
        if self.password is None and not self.tokens:
            return "no password"
        return "active" if self.password is not None or self.live_tokens(day) else "expired"

    def verifiers(self, day: date | None) -> tuple[Verifier, ...]:
        """Return what is accepted as a password on a day; None: ever."""
        tokens = self.tokens if day is None else self.live_tokens(day)
        own = () if self.password is None else (self.password,)
        return (*own, *(token.scram for token in tokens))

    def with_password(self, password: str) -> Account:
        """Return the account with another password; `ValueError` for one that cannot be used."""
        if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
            raise ValueError(f"a password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters")
        return replace(self, password=Verifier.of(password, self._salt(keep=bool(self.tokens))))

    def with_token(self, identifier: str | None, expires: date | None) -> tuple[Account, str, str]:
        """Return the account with a further token, the token's name and its text, which is stored nowhere."""
        if len(self.tokens) >= _MOST_TOKENS:
            raise ValueError(f"a user has at most {_MOST_TOKENS} tokens: revoke one that is not used")
        taken = {token.id for token in self.tokens}
        chosen = identifier or next(f"k{i}" for i in range(1, len(taken) + 2) if f"k{i}" not in taken)
        if chosen in taken:
            raise ValueError(f"there is a token {chosen!r}")
        if len(chosen) > 63 or not chosen.isprintable():
            raise ValueError("a token's name is 1 to 63 printable characters")
        text = TOKEN_PREFIX + draw_text(_TOKEN_BYTES)
        token = Token(chosen, token_hash(text), Verifier.of(text, self._salt(keep=True)), expires)
        return replace(self, tokens=(*self.tokens, token)), chosen, text

    def without_token(self, identifier: str) -> Account:
        """Return the account without a token; `ValueError` if there is none of that name."""
        left = tuple(token for token in self.tokens if token.id != identifier)
        if len(left) == len(self.tokens):
            names = ", ".join(token.id for token in self.tokens) or "none"
            raise ValueError(f"there is no token {identifier!r} (there are: {names})")
        return replace(self, tokens=left)

    def _salt(self, *, keep: bool) -> bytes:
        """Return the account's salt, which all its passwords share; a new one if there is none to keep."""
        found = self.verifiers(None)
        return found[0].salt if keep and found else draw_key(SALT_BYTES)


def token_hash(text: str) -> str:
    """Return what is stored of a token: it has 256 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
