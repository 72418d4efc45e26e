"""The tables of a ledger's file in its present version."""

from __future__ import annotations

from typing import Final

VERSION: Final = 7
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

ALL: Final = "".join(
    (
        *(META, ENTRY.format(entry="entry"), RELEASE, RELEASE_EVENT, TOTAL.format(total="total"), RESTORED),
        *(FAILED, RUNNING, CANCELLED),
        *(PROGRESS, REFINEMENT, PART, ENTRY_TRIGGERS, PROGRESS_RUNS, BOUNDS),
    )
)
"""A new ledger."""
