"""Users who may log in (`User`, `Account`, `Users`), and their file, `dpsql-users.toml`.

The file is a closed list: it says who may log in by which password or token, and what he may do. It is TOML
with the server's secret and a table for each user; the owner's commands alone write it.

Several users may be one analyst, whose budget and releases they then share. A user has a password, tokens, or
both; a token is also accepted as a password, by programs that know nothing else.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Self

from dpsql.errors import PolicyError
from dpsql.kernel.loss import exact
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern
from dpsql.login import draw_key, draw_text
from dpsql.login.scram import MOST_KEYS, SALT_BYTES, ScramKeys, Verifier
from dpsql.policy.names import key_path, wrong
from dpsql.policy.toml_values import Section

NAME = lazy_pattern(r"[a-z0-9_.-]{1,63}")
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
    """A token as the users file stores it: its name, its hash and its last day."""

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
        """Return the verifiers of password and tokens that are accepted on a day; None: on any day."""
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
    """Return the hash of a token that is stored: it has 256 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


VERSION = 1
SECRET_BYTES = 32
_TOP = dict.fromkeys(("version", "secret", "users"))
_RIGHTS = ("analyst", "auto_charge", "preview", "max_connections", "expires", "free_below")
_USER = dict.fromkeys(("scram", "tokens", "disabled", *_RIGHTS))
_TOKEN = dict.fromkeys(("id", "sha256", "scram", "expires"))


def read_accounts(path: Path) -> tuple[bytes, dict[str, Account]]:
    """Read a users file: return the server's secret, and the accounts by name; raises `PolicyError`."""
    try:
        return parse_accounts(_read_toml(path))
    except PolicyError as problem:
        raise PolicyError(f"{path.name}: {problem.message}", hint=problem.hint) from None


def _read_toml(path: Path) -> object:
    try:
        with path.open("rb") as file:
            check_private(path, os.fstat(file.fileno()))
            return tomllib.loads(file.read().decode(), parse_float=Decimal)
    except FileNotFoundError:
        raise PolicyError("no such file", hint="`dpsql user add NAME` makes it") from None
    except OSError as problem:
        raise PolicyError(f"cannot be read: {problem.strerror}") from None
    except (ValueError, RecursionError, ArithmeticError):  # its line is not shown: it could hold a verifier
        raise PolicyError("is damaged", hint="restore it from a backup") from None


def check_private(path: Path, found: os.stat_result) -> None:
    """Raise `PolicyError` unless only the owner can read a file with secrets.

    Root's may be readable by a group, as the credentials are that systemd hands to a service.
    """
    if not stat.S_ISREG(found.st_mode):
        raise PolicyError("is no file")
    mode = stat.S_IMODE(found.st_mode)
    if mode & ~(0o640 if found.st_uid == 0 else 0o600):
        raise PolicyError(f"others may read or change it (mode {mode:04o})", hint=f"chmod 600 {path}")


@contextmanager
def change_accounts(path: Path) -> Iterator[dict[str, Account]]:
    """Give the accounts of a users file to a block, and write them as it left them, unless it raises.

    The file is made if there is none. Two commands at the same time change it one after the other.
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as problem:
        raise PolicyError(f"{path}: its folder cannot be opened: {problem.strerror}") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        secret, accounts = read_accounts(path) if os.path.lexists(path) else (draw_key(SECRET_BYTES), {})
        yield accounts
        replace_private(path, accounts_text(secret, accounts).encode())
        os.fsync(folder)
    finally:
        os.close(folder)


def replace_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read: at once, so that no reader sees half of the text."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    draft.unlink(missing_ok=True)
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            with suppress(FileNotFoundError):
                before = path.stat()
                if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                    # Root changes the file of the server's account, which must stay able to read it.
                    os.fchown(handle, before.st_uid, before.st_gid)
            file.write(content)
            file.flush()
            os.fsync(handle)
        draft.replace(path)
    except OSError as problem:
        raise PolicyError(f"{path}: cannot be written: {problem.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)


# -- the text


def accounts_text(secret: bytes, accounts: Mapping[str, Account]) -> str:
    """Return the text of a users file with this secret and these accounts."""
    lines = [
        "# Written by `dpsql user`. Who reads this file can pretend to be the server, and can try passwords.",
        f"version = {VERSION}",
        f"secret = {_quote_toml(base64.b64encode(secret).decode())}",
    ]
    for name, account in accounts.items():
        user = account.user
        lines += ["", f"[{key_path('users', name)}]"]
        if account.password is not None:
            lines.append(f"scram = {_quote_toml(str(account.password))}")
        lines += [
            f"analyst = {_quote_toml(user.analyst)}",
            f"auto_charge = {str(user.auto_charge).lower()}",
            f"preview = {_quote_toml(user.preview)}",
            f"max_connections = {user.max_connections}",
            f"free_below = {_quote_toml(str(user.free_below))}",
        ]
        if user.expires is not None:
            lines.append(f"expires = {user.expires.isoformat()}")
        if account.disabled:
            lines.append("disabled = true")
        if account.tokens:
            lines += ["tokens = [", *(f"  {{ {_token_text(token)} }}," for token in account.tokens), "]"]
    return "\n".join(lines) + "\n"


def _token_text(token: Token) -> str:
    expires = "" if token.expires is None else f", expires = {token.expires.isoformat()}"
    stored = f"sha256 = {_quote_toml(token.sha256)}, scram = {_quote_toml(str(token.scram))}"
    return f"id = {_quote_toml(token.id)}, {stored}{expires}"


def _quote_toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # of printable text, this is TOML's form as well


def parse_accounts(raw: object) -> tuple[bytes, dict[str, Account]]:
    """Return secret and accounts of a users file that is read as TOML; raises `PolicyError` with the key."""
    top = Section(raw, (), _TOP)
    if top.get("version", int, 0) != VERSION:
        raise wrong("version", f"is not {VERSION}", "another version of dpsql has written this file")
    try:
        secret = base64.b64decode(top.get("secret", str, ""), validate=True)
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise wrong("secret", f"is not {SECRET_BYTES} bytes in base64", "restore the file from a backup")
    users: dict[str, object] = top.get("users", dict, {})
    accounts = {name: _read_account(name, section) for name, section in users.items()}
    digests = [token.sha256 for account in accounts.values() for token in account.tokens]
    if len(set(digests)) != len(digests):
        raise wrong("users", "two entries have the same token")
    return secret, accounts


def _read_account(name: str, raw: object) -> Account:
    section = Section(raw, ("users", name), _USER)
    user = User(
        name,
        analyst=section.get("analyst", str, name),
        auto_charge=section.get("auto_charge", bool, False),
        preview=section.get("preview", str, PREVIEWS[0]),
        max_connections=section.get("max_connections", int, CONNECTIONS),
        expires=_read_expiry(section),
        free_below=_read_free_below(section),
    )
    listed: list[object] = section.get("tokens", list, [])
    account = Account(
        user,
        _read_verifier(section) if "scram" in section else None,
        tuple(_read_token(Section(token, (*section.key, "tokens"), _TOKEN)) for token in listed),
        disabled=section.get("disabled", bool, False),
    )
    if account.verifiers(None):
        try:
            Verifier.join(account.verifiers(None))
        except ValueError as problem:
            raise wrong(section.place(), str(problem)) from None
    return account


def _read_free_below(section: Section) -> Fraction:
    try:
        return exact(section.get("free_below", str, "0"))
    except ValueError as problem:
        raise wrong(section.place("free_below"), str(problem)) from None


def _read_token(section: Section) -> Token:
    for key in ("id", "sha256", "scram"):
        section.require(key)
    digest = section.get("sha256", str, "")
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise wrong(section.place("sha256"), "is no SHA-256 in hexadecimal")
    return Token(section.get("id", str, ""), digest, _read_verifier(section), _read_expiry(section))


def _read_verifier(section: Section) -> Verifier:
    try:
        return Verifier.parse(section.get("scram", str, ""))
    except ValueError as problem:
        raise wrong(section.place("scram"), str(problem)) from None


def _read_expiry(section: Section) -> date | None:
    found = section.optional("expires", date)
    if isinstance(found, datetime):
        raise wrong(section.place("expires"), "expected a date, found a timestamp")
    return found


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
        secret, accounts = read_accounts(Path(path))
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

    def accepts(self, name: str, keys: ScramKeys) -> bool:
        """Return whether these are the keys of a password or token of that name today."""
        account = self.accounts.get(name)
        return account is not None and any(keys in each.keys for each in account.verifiers(self.day()))

    def by_token(self, text: str) -> tuple[User, ScramKeys] | None:
        """Return the user of a token, and the stored keys by which the token is checked at login.

        None if the token is unknown or expired, or the user may not log in.
        """
        digest = token_hash(text)
        for account in self.accounts.values():
            for token in account.live_tokens(self.day()):
                if token.sha256 == digest and account.state(self.day()) == "active":
                    return account.user, token.scram.keys[0]
        return None
