"""The tables of streams of checks that outlive processes, which `lasting_streams` writes."""

from __future__ import annotations

from typing import Final

LASTING: Final = """
-- Streams of checks that no process holds: how each was opened, and by which event. `seal` shows that the
-- noise of the threshold is the same; it is computed with a key that is not in this file.
CREATE TABLE stream (
    entry INTEGER PRIMARY KEY REFERENCES entry (entry),
    analyst TEXT NOT NULL,
    name TEXT NOT NULL,
    round INTEGER NOT NULL CHECK (round > 0),
    options TEXT NOT NULL,
    misses INTEGER NOT NULL CHECK (misses > 0),
    first TEXT NOT NULL,
    each TEXT NOT NULL,
    event INTEGER NOT NULL,
    seal TEXT NOT NULL,
    UNIQUE (analyst, name, round)
);
CREATE TRIGGER stream_stays BEFORE DELETE ON stream
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER stream_is_final BEFORE UPDATE ON stream
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
-- The checks of streams: written before data are read, and once more when they end. The misses used in all
-- until then never fall; of a check that has not ended, all that it could use are used.
CREATE TABLE asked (
    entry INTEGER NOT NULL REFERENCES stream (entry),
    step INTEGER NOT NULL CHECK (step > 0),
    at TEXT NOT NULL,
    statement TEXT NOT NULL,
    series TEXT NOT NULL,
    key TEXT NOT NULL,
    holder TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('begun', 'answered', 'failed', 'cancelled')),
    used INTEGER NOT NULL CHECK (used >= 0),
    payload BLOB,
    event INTEGER,
    PRIMARY KEY (entry, step),
    CHECK ((state = 'answered') = (payload IS NOT NULL)),
    CHECK ((state = 'begun') = (event IS NULL))
);
CREATE INDEX asked_key ON asked (key, entry);
CREATE INDEX asked_series ON asked (series, entry);
CREATE UNIQUE INDEX asked_alone ON asked (entry) WHERE state = 'begun';
CREATE TRIGGER asked_stays BEFORE DELETE ON asked
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER asked_follows BEFORE INSERT ON asked
WHEN NEW.state <> 'begun' OR (SELECT state FROM entry WHERE entry = NEW.entry) IS NOT 'reserved'
    OR NEW.step IS NOT (SELECT COUNT(*) + 1 FROM asked WHERE entry = NEW.entry)
    OR NEW.used < (SELECT COALESCE(max(used), 0) FROM asked WHERE entry = NEW.entry)
    OR NEW.used > (SELECT misses FROM stream WHERE entry = NEW.entry)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER asked_ends_once BEFORE UPDATE ON asked
WHEN OLD.state <> 'begun' OR NEW.state = 'begun' OR NEW.entry IS NOT OLD.entry OR NEW.step IS NOT OLD.step
    OR NEW.at IS NOT OLD.at OR NEW.statement IS NOT OLD.statement OR NEW.series IS NOT OLD.series
    OR NEW.key IS NOT OLD.key OR NEW.holder IS NOT OLD.holder OR NEW.used > OLD.used
    OR NEW.used < (SELECT COALESCE(max(used), 0) FROM asked WHERE entry = OLD.entry AND step < OLD.step)
    OR (NEW.state <> 'answered' AND NEW.used <> OLD.used)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""
"""What version 10 added: streams that last."""
