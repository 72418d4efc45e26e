"""The ledger's file: its tables, its creation and recognition, and when it is migrated to a newer version."""

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
from dpsql.kernel.ledger.person_totals import YEARS
from dpsql.kernel.ledger.stream_tables import LASTING

VERSION: Final = 11
"""The version of the tables."""

META: Final = """
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
-- What changed, in order. Each hash is that of the hash before it and of the record.
CREATE TABLE event (
    n INTEGER PRIMARY KEY CHECK (n > 0), record TEXT NOT NULL, hash TEXT NOT NULL CHECK (length(hash) = 64)
);
CREATE TRIGGER event_stays BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER event_is_final BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER event_follows BEFORE INSERT ON event
WHEN NEW.n IS NOT (SELECT COALESCE(max(n), 0) + 1 FROM event)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""
"""The settings and the events."""

ENTRY: Final = """
CREATE TABLE {entry} (
    entry INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    analyst TEXT NOT NULL,
    statement TEXT NOT NULL,
    reading TEXT NOT NULL,
    mechanism TEXT NOT NULL,
    reserved_loss TEXT NOT NULL,
    charged_loss TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'settled', 'failed', 'cancelled')),
    release INTEGER REFERENCES release (number),
    shared INTEGER NOT NULL CHECK (shared IN (0, 1)),
    holder TEXT NOT NULL,
    CHECK ((state = 'settled') = (release IS NOT NULL)),
    CHECK (state = 'settled' OR charged_loss = reserved_loss)
);
"""
"""The table of entries, for `str.format` with its name."""

ENTRY_TRIGGERS: Final = """
CREATE TRIGGER entry_stays BEFORE DELETE ON entry
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER entry_ends_once BEFORE UPDATE ON entry
WHEN OLD.state <> 'reserved' OR NEW.state = 'reserved' OR NEW.entry IS NOT OLD.entry OR NEW.at IS NOT OLD.at
    OR NEW.analyst IS NOT OLD.analyst OR NEW.statement IS NOT OLD.statement
    OR NEW.reading IS NOT OLD.reading OR NEW.mechanism IS NOT OLD.mechanism
    OR NEW.reserved_loss IS NOT OLD.reserved_loss
    OR NEW.shared IS NOT OLD.shared OR NEW.holder IS NOT OLD.holder
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""
"""An entry is written when it is reserved, and once more when it ends."""

RELEASE: Final = """
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
CREATE TRIGGER release_stays BEFORE DELETE ON release
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER release_is_final BEFORE UPDATE ON release
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""
"""The stored releases, as in version 1; `RELEASE_EVENT` is added to them."""

RELEASE_EVENT: Final = """
ALTER TABLE release ADD COLUMN event INTEGER;
"""
"""The event that stored a release; NULL for those that are older than the events. It is written before the
event, and is no declared reference: each event would search all releases for those that wait for it."""

TOTAL: Final = """
-- The totals of the scopes, so that a charge does not read all entries.
CREATE TABLE {total} (
    name TEXT PRIMARY KEY, epsilon TEXT, delta TEXT NOT NULL, cost TEXT, alpha TEXT
) WITHOUT ROWID;
"""
"""The table of totals, for `str.format` with its name: `scope` in version 5."""

RESTORED: Final = """
-- What is charged beside the entries: the mark of a ledger that was lost or replaced told of it.
CREATE TABLE restored (
    event INTEGER NOT NULL REFERENCES event (n) DEFERRABLE INITIALLY DEFERRED, scope TEXT NOT NULL,
    epsilon TEXT, delta TEXT NOT NULL, cost TEXT, alpha TEXT,
    most TEXT, -- what it costs at most, at any order
    PRIMARY KEY (event, scope)
) WITHOUT ROWID;
CREATE TRIGGER restored_stays BEFORE DELETE ON restored
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER restored_is_final BEFORE UPDATE ON restored
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""

FAILED: Final = """
-- How many statements of an analyst failed since the owner last looked.
CREATE TABLE failed (analyst TEXT PRIMARY KEY, n INTEGER NOT NULL CHECK (n >= 0)) WITHOUT ROWID;
"""

RUNNING: Final = """
-- How many reservations of an analyst each process holds; each may still become a failure.
CREATE TABLE running (
    analyst TEXT NOT NULL, holder TEXT NOT NULL, n INTEGER NOT NULL CHECK (n > 0),
    PRIMARY KEY (analyst, holder)
) WITHOUT ROWID;
"""

CANCELLED: Final = """
-- How many statements of an analyst were cancelled since the owner last looked.
CREATE TABLE cancelled (analyst TEXT PRIMARY KEY, n INTEGER NOT NULL CHECK (n >= 0)) WITHOUT ROWID;
"""

PROGRESS: Final = """
-- What streams of processes have spent, of before version 10: written before each answer; no charge is less.
CREATE TABLE progress (
    entry INTEGER NOT NULL REFERENCES entry (entry), step INTEGER NOT NULL CHECK (step > 0),
    epsilon TEXT NOT NULL, delta TEXT NOT NULL,
    PRIMARY KEY (entry, step)
) WITHOUT ROWID;
CREATE TRIGGER progress_stays BEFORE DELETE ON progress
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER progress_is_final BEFORE UPDATE ON progress
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""

PROGRESS_RUNS: Final = """
CREATE TRIGGER progress_while_it_runs BEFORE INSERT ON progress
WHEN (SELECT state FROM entry WHERE entry = NEW.entry) IS NOT 'reserved'
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""

REFINEMENT: Final = """
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

PART: Final = """
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

BOUNDS: Final = """
-- The ladders that are kept: what was measured, of which version of the data, at which loss, and the result.
-- Each is released to all analysts, present and future, so its loss counts in every scope.
CREATE TABLE bounds (
    number INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    source TEXT NOT NULL,
    measure TEXT NOT NULL,
    version TEXT NOT NULL,
    statement TEXT NOT NULL,
    loss TEXT NOT NULL,
    holder TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'settled', 'failed', 'cancelled')),
    payload BLOB,
    event INTEGER,
    CHECK ((state = 'settled') = (payload IS NOT NULL)),
    CHECK ((state = 'settled') = (event IS NOT NULL))
);
CREATE INDEX bounds_measure ON bounds (source, measure, number);
CREATE TRIGGER bounds_stays BEFORE DELETE ON bounds
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER bounds_ends_once BEFORE UPDATE ON bounds
WHEN OLD.state <> 'reserved' OR NEW.state = 'reserved' OR NEW.number IS NOT OLD.number OR NEW.at IS NOT OLD.at
    OR NEW.source IS NOT OLD.source OR NEW.measure IS NOT OLD.measure OR NEW.version IS NOT OLD.version
    OR NEW.statement IS NOT OLD.statement OR NEW.loss IS NOT OLD.loss OR NEW.holder IS NOT OLD.holder
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""

NODES: Final = """
-- What was charged to parts of units: a tree for each scope, in whole steps.
CREATE TABLE node (
    scope TEXT NOT NULL,
    level INTEGER NOT NULL CHECK (level BETWEEN 0 AND 5),
    place INTEGER NOT NULL CHECK (place >= 0),
    epsilon INTEGER NOT NULL DEFAULT 0 CHECK (epsilon BETWEEN 0 AND 1 << 60),
    open INTEGER NOT NULL DEFAULT 0 CHECK (open >= 0),
    delta INTEGER NOT NULL DEFAULT 0 CHECK (delta BETWEEN 0 AND 1 << 60),
    cost INTEGER NOT NULL DEFAULT 0 CHECK (cost BETWEEN 0 AND 1 << 60),
    below_epsilon INTEGER NOT NULL DEFAULT 0,
    below_open INTEGER NOT NULL DEFAULT 0,
    below_delta INTEGER NOT NULL DEFAULT 0,
    below_cost INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (scope, level, place)
) WITHOUT ROWID;
"""
"""The nodes of the trees of scopes, with the largest sums below each."""

PARTS: Final = (
    """
-- The parts of units that an entry was charged to, as ranges of their numbers; none: all parts.
CREATE TABLE touch (
    entry INTEGER NOT NULL REFERENCES entry (entry),
    low INTEGER NOT NULL CHECK (low >= 0),
    high INTEGER NOT NULL CHECK (high >= low),
    PRIMARY KEY (entry, low)
) WITHOUT ROWID;
CREATE TRIGGER touch_stays BEFORE DELETE ON touch
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER touch_is_final BEFORE UPDATE ON touch
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
-- The scopes that have a tree of nodes, and the order of their costs.
CREATE TABLE tree (scope TEXT PRIMARY KEY, alpha TEXT) WITHOUT ROWID;
"""
    + NODES
)
"""What version 8 added."""

REPORTS: Final = """
-- Reports: statements registered before their first answer, and what is kept of each part's budget for them.
CREATE TABLE report (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    analyst TEXT NOT NULL,
    at TEXT NOT NULL,
    digest TEXT NOT NULL,
    statements TEXT NOT NULL,
    plan TEXT NOT NULL,
    kept TEXT NOT NULL,
    event INTEGER NOT NULL,
    ended INTEGER
);
CREATE UNIQUE INDEX report_name ON report (name) WHERE ended IS NULL;
CREATE TRIGGER report_stays BEFORE DELETE ON report
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER report_ends_once BEFORE UPDATE ON report
WHEN OLD.ended IS NOT NULL OR NEW.ended IS NULL OR NEW.number IS NOT OLD.number OR NEW.name IS NOT OLD.name
    OR NEW.analyst IS NOT OLD.analyst OR NEW.at IS NOT OLD.at OR NEW.digest IS NOT OLD.digest
    OR NEW.statements IS NOT OLD.statements OR NEW.plan IS NOT OLD.plan OR NEW.kept IS NOT OLD.kept
    OR NEW.event IS NOT OLD.event
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
-- The entries that were charged for a report.
CREATE TABLE report_run (
    entry INTEGER PRIMARY KEY REFERENCES entry (entry), report INTEGER NOT NULL REFERENCES report (number)
) WITHOUT ROWID;
CREATE INDEX report_entries ON report_run (report, entry);
CREATE TRIGGER report_run_stays BEFORE DELETE ON report_run
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER report_run_is_final BEFORE UPDATE ON report_run
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""
"""What version 9 added."""

ALL: Final = "".join(
    (
        *(META, ENTRY.format(entry="entry"), RELEASE, RELEASE_EVENT, TOTAL.format(total="total"), RESTORED),
        *(FAILED, RUNNING, CANCELLED),
        *(PROGRESS, REFINEMENT, PART, ENTRY_TRIGGERS, PROGRESS_RUNS, BOUNDS, PARTS, REPORTS, LASTING),
        YEARS,
    )
)
"""A new ledger."""

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
