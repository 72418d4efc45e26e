"""The ledger's file: its creation and recognition, and when it is migrated to a newer version."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from dpsql.errors import OperationalError, PolicyError
from dpsql.kernel.ledger import events
from dpsql.kernel.ledger.limits import current
from dpsql.kernel.ledger.tables import ALL

VERSION: Final = 11
"""The version of the tables."""

Migrate = Callable[[sqlite3.Connection, int], None]
"""Brings the tables of an older version up to date; its caller holds the write transaction."""

APPLICATION: Final = 0x64707371
"""`dpsq` in SQLite's `application_id`."""


def create(path: Path, policy_id: str) -> bool:
    """Make a new ledger at `path` unless one is there; return whether this call has made it.

    Raises `sqlite3.Error` or `OSError`.

    The file appears at its name complete and at once: an empty or half-made file there would either be
    taken for a ledger nothing was spent in, or keep the policy from ever being used.
    """
    if os.path.lexists(path):
        return False
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size:
        raise OperationalError(
            f"the ledger {path.name} is missing, but its log {log.name} is there: restore both from a backup"
        )
    own = hashlib.sha256(f"{current()}|{threading.get_ident()}".encode()).hexdigest()[:16]
    draft = path.with_name(f".{path.name}.{own}.new")
    draft.unlink(missing_ok=True)
    try:
        connection = sqlite3.connect(draft, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            run(connection, ALL)
            connection.execute("INSERT INTO setting VALUES ('policy', ?)", (policy_id,))
            connection.execute("INSERT INTO total (name, epsilon, delta) VALUES ('policy', '0/1', '0/1')")
            made = {"ledger": new_id(connection), "policy": policy_id, "version": VERSION}
            events.append(connection, "new", made)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
        finally:
            connection.close()
        try:
            os.link(draft, path)
        except FileExistsError:
            return False  # another process was first
        sync_folder(path.parent)
    finally:
        for left in (draft, Path(f"{draft}-wal"), Path(f"{draft}-shm"), Path(f"{draft}-journal")):
            left.unlink(missing_ok=True)
    return True


def update(connection: sqlite3.Connection, migrate: Migrate) -> None:
    """Migrate a file of an older version in one transaction, before anything else is done with it."""
    if _version(connection) == VERSION:
        return
    connection.execute("PRAGMA foreign_keys = OFF")  # tables are replaced; references are checked at the end
    try:
        connection.execute("BEGIN IMMEDIATE")
        found = _version(connection)
        if found != VERSION:  # another process may have been first
            migrate(connection, found)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute("PRAGMA foreign_keys = ON")


def check_present(connection: sqlite3.Connection, path: Path) -> None:
    """Raise if another process has brought the file to a newer version since this one has opened it."""
    version = _version(connection)
    if version > VERSION:
        raise _newer(path, version)


def _newer(path: Path, version: int) -> OperationalError:
    return OperationalError(
        f"the ledger {path.name} was written by a newer dpsql (schema {version}, known here: {VERSION})"
    )


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def recognise(connection: sqlite3.Connection, path: Path, policy_id: str) -> None:
    """Raise unless the file is a ledger of this policy, in a known version."""
    connection.execute("BEGIN")  # another process may migrate it meanwhile
    try:
        _recognise(connection, path, policy_id)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _recognise(connection: sqlite3.Connection, path: Path, policy_id: str) -> None:
    connection.execute("SELECT 1 FROM sqlite_master").fetchone()  # BEGIN alone takes no snapshot
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    version = _version(connection)
    if application != APPLICATION:
        raise OperationalError(
            f"{path.name} is empty or no ledger of dpsql: restore it, or name another file"
        )
    if version > VERSION:
        raise _newer(path, version)
    if version < 1:
        raise OperationalError(f"the ledger {path.name} is damaged: restore it from a backup")
    table = "setting" if version >= 5 else "meta"
    row = connection.execute(f"SELECT value FROM {table} WHERE name = 'policy'").fetchone()
    if row is None:
        raise OperationalError(f"the ledger {path.name} is damaged: restore it from a backup")
    if row[0] != policy_id:
        raise PolicyError(
            f"budget.ledger: {path.name} belongs to the policy {row[0]}, not to {policy_id}",
            hint="give each policy a ledger of its own, or the policy file its former name",
        )


def run(connection: sqlite3.Connection, script: str) -> None:
    """Run the statements of a script; `executescript` would commit the open transaction."""
    begun = ""
    for line in script.splitlines(keepends=True):
        begun += line
        if sqlite3.complete_statement(begun):
            connection.execute(begun)
            begun = ""


def new_id(connection: sqlite3.Connection) -> str:
    """Give the ledger a random identifier, under which its mark is found; return it."""
    connection.execute("INSERT INTO setting VALUES ('ledger', lower(hex(randomblob(16))))")
    (made,) = connection.execute("SELECT value FROM setting WHERE name = 'ledger'").fetchone()
    return str(made)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable: a file lost in a power failure would be made again, empty."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
