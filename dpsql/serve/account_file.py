"""Read and replace the users file (`dpsql-users.toml`), which the owner's commands alone write."""

from __future__ import annotations

import fcntl
import os
import stat
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path

from dpsql.errors import PolicyError
from dpsql.login import entropy
from dpsql.serve.account_text import SECRET_BYTES, parse, write
from dpsql.serve.user import Account


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
def changed(path: Path) -> Iterator[dict[str, Account]]:
    """Give the accounts to a block that changes them, and write them at its end unless it raises.

    The file is made if there is none. Two commands at the same time change it one after the other.
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as problem:
        raise PolicyError(f"{path}: its folder cannot be opened: {problem.strerror}") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        secret, accounts = read(path) if os.path.lexists(path) else (entropy.key(SECRET_BYTES), {})
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
