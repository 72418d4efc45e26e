"""The ledger's file: its tables, its creation, its recognition, and its migration to a newer version."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from pathlib import Path

from dpsql.errors import OperationalError, PolicyError
from dpsql.ledger.process_identity import current

APPLICATION = 0x64707371
"""`dpsq` in SQLite's `application_id`."""
VERSION = 4
"""The schema's version, in `user_version`; a newer one is refused, an older one brought up to date."""

_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE entry (
    entry INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    analyst TEXT NOT NULL,
    statement TEXT NOT NULL,
    reading TEXT NOT NULL,
    mechanism TEXT NOT NULL,
    reserved_epsilon TEXT NOT NULL,
    reserved_delta TEXT NOT NULL,
    charged_epsilon TEXT NOT NULL,
    charged_delta TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'settled', 'failed', 'cancelled')),
    release INTEGER REFERENCES release (number),
    shared INTEGER NOT NULL CHECK (shared IN (0, 1)),
    holder TEXT NOT NULL,
    CHECK ((state = 'settled') = (release IS NOT NULL)),
    CHECK (state = 'settled' OR (charged_epsilon = reserved_epsilon AND charged_delta = reserved_delta))
);

CREATE TABLE release (
    number INTEGER PRIMARY KEY,
    entry INTEGER NOT NULL UNIQUE REFERENCES entry (entry),
    at TEXT NOT NULL,
    analyst TEXT NOT NULL,
    reuse_key TEXT,
    payload BLOB
);
CREATE INDEX release_analyst ON release (analyst, reuse_key, number);
CREATE INDEX release_key ON release (reuse_key, number) WHERE reuse_key IS NOT NULL;

-- The totals of the entries, so that a charge does not read them all.
CREATE TABLE scope (name TEXT PRIMARY KEY, epsilon TEXT NOT NULL, delta TEXT NOT NULL) WITHOUT ROWID;
-- How many statements of an analyst failed since the owner last looked.
CREATE TABLE failure (analyst TEXT PRIMARY KEY, n INTEGER NOT NULL CHECK (n >= 0)) WITHOUT ROWID;
-- How many reservations of an analyst each process holds; each may still become a failure.
CREATE TABLE running (
    analyst TEXT NOT NULL, holder TEXT NOT NULL, n INTEGER NOT NULL CHECK (n > 0),
    PRIMARY KEY (analyst, holder)
) WITHOUT ROWID;

CREATE TRIGGER entry_stays BEFORE DELETE ON entry
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER entry_ends_once BEFORE UPDATE ON entry
WHEN OLD.state <> 'reserved' OR NEW.state = 'reserved' OR NEW.entry IS NOT OLD.entry OR NEW.at IS NOT OLD.at
    OR NEW.analyst IS NOT OLD.analyst OR NEW.statement IS NOT OLD.statement
    OR NEW.reading IS NOT OLD.reading OR NEW.mechanism IS NOT OLD.mechanism
    OR NEW.reserved_epsilon IS NOT OLD.reserved_epsilon OR NEW.reserved_delta IS NOT OLD.reserved_delta
    OR NEW.shared IS NOT OLD.shared OR NEW.holder IS NOT OLD.holder
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER release_stays BEFORE DELETE ON release
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER release_is_final BEFORE UPDATE ON release
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""

_TABLES_2 = """
-- How many statements of an analyst were cancelled since the owner last looked.
CREATE TABLE cancelled (analyst TEXT PRIMARY KEY, n INTEGER NOT NULL CHECK (n >= 0)) WITHOUT ROWID;
-- What a stream has spent so far, written before each answer that was paid for; its charge is never less.
CREATE TABLE progress (
    entry INTEGER NOT NULL REFERENCES entry (entry), step INTEGER NOT NULL CHECK (step > 0),
    epsilon TEXT NOT NULL, delta TEXT NOT NULL,
    PRIMARY KEY (entry, step)
) WITHOUT ROWID;
CREATE TRIGGER progress_stays BEFORE DELETE ON progress
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER progress_is_final BEFORE UPDATE ON progress
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER progress_while_it_runs BEFORE INSERT ON progress
WHEN (SELECT state FROM entry WHERE entry = NEW.entry) IS NOT 'reserved'
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""
"""What version 2 added to version 1."""

_TABLES_3 = """
-- Entries that released the count of an earlier release again: at most one for each release, even if it
-- ended without an answer. The epsilon is that of the count's releases together.
CREATE TABLE refinement (
    entry INTEGER PRIMARY KEY REFERENCES entry (entry),
    parent INTEGER NOT NULL UNIQUE REFERENCES release (number),
    epsilon TEXT NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER refinement_stays BEFORE DELETE ON refinement
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER refinement_is_final BEFORE UPDATE ON refinement
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""
"""What version 3 added to version 2."""

_TABLES_4 = """
-- Entries of a statement with several releases: its first entry, and the place of each release, from 1.
-- They are charged together and end together.
CREATE TABLE part (
    entry INTEGER PRIMARY KEY REFERENCES entry (entry),
    first INTEGER NOT NULL REFERENCES entry (entry),
    place INTEGER NOT NULL CHECK (place > 0),
    places INTEGER NOT NULL CHECK (places >= place),
    UNIQUE (first, place)
) WITHOUT ROWID;
CREATE TRIGGER part_stays BEFORE DELETE ON part
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER part_is_final BEFORE UPDATE ON part
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""
"""What version 4 added to version 3."""

_LATER = {2: _TABLES_2, 3: _TABLES_3, 4: _TABLES_4}


def create(path: Path, policy_id: str) -> None:
    """Make a new ledger at `path` unless one is there; raises `sqlite3.Error` or `OSError`.

    The file appears at its name complete and at once: an empty or half-made file there would either be
    taken for a ledger nothing was spent in, or keep the policy from ever being used.
    """
    if os.path.lexists(path):
        return
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
            connection.executescript(f"BEGIN IMMEDIATE;{_TABLES}{''.join(_LATER.values())}")
            connection.execute("INSERT INTO meta VALUES ('policy', ?)", (policy_id,))
            connection.execute("INSERT INTO scope VALUES ('policy', '0/1', '0/1')")
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
        finally:
            connection.close()
        try:
            os.link(draft, path)
        except FileExistsError:
            return  # another process was first
        _sync_folder(path.parent)
    finally:
        for left in (draft, Path(f"{draft}-wal"), Path(f"{draft}-shm"), Path(f"{draft}-journal")):
            left.unlink(missing_ok=True)


def update(connection: sqlite3.Connection) -> None:
    """Migrate a file of an older version in one transaction; charges stay as they are."""
    if _version(connection) == VERSION:
        return
    try:
        connection.execute("BEGIN IMMEDIATE")
        found = _version(connection)  # another process may have been first
        for version, tables in _LATER.items():
            for statement in _statements(tables) if version > found else []:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _statements(script: str) -> list[str]:
    """Split a script into statements; `executescript` would commit the open transaction."""
    found, begun = [], ""
    for line in script.splitlines(keepends=True):
        begun += line
        if sqlite3.complete_statement(begun):
            found.append(begun)
            begun = ""
    return found


def _sync_folder(folder: Path) -> None:
    """Make the file's name durable: a ledger lost in a power failure would be created again, unspent."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def recognise(connection: sqlite3.Connection, path: Path, policy_id: str) -> None:
    """Raise unless the file is a ledger of this policy, in a known version."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    version = _version(connection)
    if application != APPLICATION:
        raise OperationalError(
            f"{path.name} is empty or no ledger of dpsql: restore it, or name another file"
        )
    if version > VERSION:
        raise OperationalError(
            f"the ledger {path.name} was written by a newer dpsql (schema {version}, known here: {VERSION})"
        )
    if version < 1:
        raise OperationalError(f"the ledger {path.name} is damaged: restore it from a backup")
    row = connection.execute("SELECT value FROM meta WHERE name = 'policy'").fetchone()
    if row is None:
        raise OperationalError(f"the ledger {path.name} is damaged: restore it from a backup")
    if row[0] != policy_id:
        raise PolicyError(
            f"budget.ledger: {path.name} belongs to the policy {row[0]}, not to {policy_id}",
            hint="give each policy a ledger of its own, or the policy file its former name",
        )
