"""Read and replace the users file (`dpsql-users.toml`), which the owner's commands alone write.

It is TOML with the server's secret and a table for each user.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from dpsql.errors import PolicyError
from dpsql.kernel.loss import exact
from dpsql.login.entropy import draw_key
from dpsql.policy.names import key_path, wrong
from dpsql.policy.section import Section
from dpsql.serve.scram import Verifier
from dpsql.serve.user import CONNECTIONS, PREVIEWS, Account, Token, User

VERSION = 1
SECRET_BYTES = 32
_TOP = dict.fromkeys(("version", "secret", "users"))
_RIGHTS = ("analyst", "auto_charge", "preview", "max_connections", "expires", "free_below")
_USER = dict.fromkeys(("scram", "tokens", "disabled", *_RIGHTS))
_TOKEN = dict.fromkeys(("id", "sha256", "scram", "expires"))


def read(path: Path) -> tuple[bytes, dict[str, Account]]:
    """Return the server's secret and the accounts by name; raises `PolicyError`."""
    try:
        return parse(_raw(path))
    except PolicyError as problem:
        raise PolicyError(f"{path.name}: {problem.message}", hint=problem.hint) from None


def _raw(path: Path) -> object:
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
def change(path: Path) -> Iterator[dict[str, Account]]:
    """Give the accounts to a block that changes them, and write them at its end unless it raises.

    The file is made if there is none. Two commands at the same time change it one after the other.
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as problem:
        raise PolicyError(f"{path}: its folder cannot be opened: {problem.strerror}") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        secret, accounts = read(path) if os.path.lexists(path) else (draw_key(SECRET_BYTES), {})
        yield accounts
        replace_private(path, write(secret, accounts).encode())
        os.fsync(folder)
    finally:
        os.close(folder)


def replace_private(path: Path, content: bytes) -> None:
    """Write a file that its owner alone can read: at once, so that no reader sees half of it."""
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


def write(secret: bytes, accounts: Mapping[str, Account]) -> str:
    """Return the file's text."""
    lines = [
        "# Written by `dpsql user`. Who reads this file can pretend to be the server, and can try passwords.",
        f"version = {VERSION}",
        f"secret = {_quote(base64.b64encode(secret).decode())}",
    ]
    for name, account in accounts.items():
        user = account.user
        lines += ["", f"[{key_path('users', name)}]"]
        if account.password is not None:
            lines.append(f"scram = {_quote(str(account.password))}")
        lines += [
            f"analyst = {_quote(user.analyst)}",
            f"auto_charge = {str(user.auto_charge).lower()}",
            f"preview = {_quote(user.preview)}",
            f"max_connections = {user.max_connections}",
            f"free_below = {_quote(str(user.free_below))}",
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
    stored = f"sha256 = {_quote(token.sha256)}, scram = {_quote(str(token.scram))}"
    return f"id = {_quote(token.id)}, {stored}{expires}"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # of printable text, this is TOML's form as well


def parse(raw: object) -> tuple[bytes, dict[str, Account]]:
    """Return the server's secret and the accounts by name; raises `PolicyError` with the key."""
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
    accounts = {name: _account(name, section) for name, section in users.items()}
    digests = [token.sha256 for account in accounts.values() for token in account.tokens]
    if len(set(digests)) != len(digests):
        raise wrong("users", "two entries have the same token")
    return secret, accounts


def _account(name: str, raw: object) -> Account:
    section = Section(raw, ("users", name), _USER)
    user = User(
        name,
        analyst=section.get("analyst", str, name),
        auto_charge=section.get("auto_charge", bool, False),
        preview=section.get("preview", str, PREVIEWS[0]),
        max_connections=section.get("max_connections", int, CONNECTIONS),
        expires=_day(section),
        free_below=_number(section),
    )
    listed: list[object] = section.get("tokens", list, [])
    account = Account(
        user,
        _verifier(section) if "scram" in section else None,
        tuple(_token(Section(token, (*section.key, "tokens"), _TOKEN)) for token in listed),
        disabled=section.get("disabled", bool, False),
    )
    if account.verifiers(None):
        try:
            Verifier.join(account.verifiers(None))
        except ValueError as problem:
            raise wrong(section.place(), str(problem)) from None
    return account


def _number(section: Section) -> Fraction:
    try:
        return exact(section.get("free_below", str, "0"))
    except ValueError as problem:
        raise wrong(section.place("free_below"), str(problem)) from None


def _token(section: Section) -> Token:
    for key in ("id", "sha256", "scram"):
        section.require(key)
    digest = section.get("sha256", str, "")
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise wrong(section.place("sha256"), "is no SHA-256 in hexadecimal")
    return Token(section.get("id", str, ""), digest, _verifier(section), _day(section))


def _verifier(section: Section) -> Verifier:
    try:
        return Verifier.parse(section.get("scram", str, ""))
    except ValueError as problem:
        raise wrong(section.place("scram"), str(problem)) from None


def _day(section: Section) -> date | None:
    found = section.optional("expires", date)
    if isinstance(found, datetime):
        raise wrong(section.place("expires"), "expected a date, found a timestamp")
    return found
