"""Turns every failure of the ledger's file into one clear error."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpsql.errors import Error, OperationalError
from dpsql.ledger.amounts import DamagedError

BUSY_SECONDS = 5.0
"""How long a charge waits for the ledger while other processes write to it."""

_TEXTS = {
    sqlite3.SQLITE_BUSY: f"is busy: other processes have held it for {BUSY_SECONDS:g} seconds; try again",
    sqlite3.SQLITE_LOCKED: f"is busy: other processes have held it for {BUSY_SECONDS:g} seconds; try again",
    sqlite3.SQLITE_READONLY: "cannot be written: the file or its folder is read-only",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: is there such a folder, and may this user write to it?",
    sqlite3.SQLITE_PERM: "cannot be opened: is there such a folder, and may this user write to it?",
    sqlite3.SQLITE_FULL: "cannot be written: the disk is full",
    sqlite3.SQLITE_IOERR: "cannot be read or written: the disk reports an error or is full",
    sqlite3.SQLITE_CORRUPT: "is damaged: restore it from a backup",
    sqlite3.SQLITE_NOTADB: "is damaged or no ledger of dpsql: restore it, or name another file",
    sqlite3.SQLITE_CONSTRAINT: "is damaged: restore it from a backup",
    sqlite3.SQLITE_TOOBIG: "cannot hold so large a release",
}


def _code(error: sqlite3.Error) -> int:
    # Errors that Python's own module raises carry no code.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds the lock, so that waiting helps."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@contextmanager
def faults(path: Path) -> Iterator[None]:
    """Raise errors of the file as `OperationalError`; dpsql's own errors stay as they are.

    They name the file without its folder: a server's analysts read them.
    """
    try:
        yield
    except Error:
        raise
    except sqlite3.Error as error:
        text = _TEXTS.get(_code(error), "cannot be used: is it damaged?")
        raise OperationalError(f"the ledger {path.name} {text}") from None
    except DamagedError as problem:
        text = f"the ledger {path.name} is damaged: {problem}; restore it from a backup"
        raise OperationalError(text) from None
    except OSError as error:
        raise OperationalError(f"the ledger {path.name} cannot be used: {error.strerror}") from None
