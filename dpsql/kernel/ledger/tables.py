"""The tables of the ledger's file, as SQL, and the triggers by which it only grows."""

from __future__ import annotations

from typing import Final

_REFUSE: Final = "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;"
_RESERVED: Final = "OLD.state <> 'reserved' OR NEW.state = 'reserved'"
_ENDED: Final = "OLD.ended IS NOT NULL OR NEW.ended IS NULL"


def _forbid_deletes(table: str) -> str:
    """Write the trigger by which no row of a table is deleted."""
    return f"CREATE TRIGGER {table}_stays BEFORE DELETE ON {table}\n{_REFUSE}"


def _forbid_changes(table: str) -> str:
    """Write the triggers by which no row of a table is deleted or changed."""
    return f"{_forbid_deletes(table)}\nCREATE TRIGGER {table}_is_final BEFORE UPDATE ON {table}\n{_REFUSE}"


def _allow_one_end(table: str, refused: str, columns: str) -> str:
    """Write the triggers by which no row of a table is deleted, and each is changed once, when it ends.

    `refused` is the condition of any other change; `columns` are those that stay as they are.
    """
    changed = "".join(f" OR NEW.{column} IS NOT OLD.{column}" for column in columns.split())
    once = f"CREATE TRIGGER {table}_ends_once BEFORE UPDATE ON {table}\nWHEN {refused}{changed}"
    return f"{_forbid_deletes(table)}\n{once}\n{_REFUSE}"


META: Final = f"""
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
-- What changed, in order. Each hash is that of the hash before it and of the record.
CREATE TABLE event (
    n INTEGER PRIMARY KEY CHECK (n > 0), record TEXT NOT NULL, hash TEXT NOT NULL CHECK (length(hash) = 64)
);
{_forbid_changes("event")}
CREATE TRIGGER event_follows BEFORE INSERT ON event
WHEN NEW.n IS NOT (SELECT COALESCE(max(n), 0) + 1 FROM event)
{_REFUSE}
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

_ENTRY_STAYS: Final = "entry at analyst statement reading mechanism reserved_loss shared holder"

ENTRY_TRIGGERS: Final = f"""
{_allow_one_end("entry", _RESERVED, _ENTRY_STAYS)}
"""
"""An entry is written when it is reserved, and once more when it ends."""

RELEASE: Final = f"""
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
{_forbid_changes("release")}
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

RESTORED: Final = f"""
-- What is charged beside the entries: the mark of a ledger that was lost or replaced told of it.
CREATE TABLE restored (
    event INTEGER NOT NULL REFERENCES event (n) DEFERRABLE INITIALLY DEFERRED, scope TEXT NOT NULL,
    epsilon TEXT, delta TEXT NOT NULL, cost TEXT, alpha TEXT,
    most TEXT, -- what it costs at most, at any order
    PRIMARY KEY (event, scope)
) WITHOUT ROWID;
{_forbid_changes("restored")}
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

PROGRESS: Final = f"""
-- What streams of processes have spent, of before version 10: written before each answer; no charge is less.
CREATE TABLE progress (
    entry INTEGER NOT NULL REFERENCES entry (entry), step INTEGER NOT NULL CHECK (step > 0),
    epsilon TEXT NOT NULL, delta TEXT NOT NULL,
    PRIMARY KEY (entry, step)
) WITHOUT ROWID;
{_forbid_changes("progress")}
"""

PROGRESS_RUNS: Final = f"""
CREATE TRIGGER progress_while_it_runs BEFORE INSERT ON progress
WHEN (SELECT state FROM entry WHERE entry = NEW.entry) IS NOT 'reserved'
{_REFUSE}
"""

REFINEMENT: Final = f"""
-- Entries that released the count of an earlier release again: at most one for each release, even if it
-- ended without an answer. The epsilon is that of the count's releases together.
CREATE TABLE refinement (
    entry INTEGER PRIMARY KEY REFERENCES entry (entry),
    parent INTEGER NOT NULL UNIQUE REFERENCES release (number),
    epsilon TEXT NOT NULL
) WITHOUT ROWID;
{_forbid_changes("refinement")}
"""

PART: Final = f"""
-- Entries of a statement with several releases: its first entry, and the place of each release, from 1.
-- They are charged together and end together.
CREATE TABLE part (
    entry INTEGER PRIMARY KEY REFERENCES entry (entry),
    first INTEGER NOT NULL REFERENCES entry (entry),
    place INTEGER NOT NULL CHECK (place > 0),
    places INTEGER NOT NULL CHECK (places >= place),
    UNIQUE (first, place)
) WITHOUT ROWID;
{_forbid_changes("part")}
"""

BOUNDS: Final = f"""
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
{_allow_one_end("bounds", _RESERVED, "number at source measure version statement loss holder")}
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
    f"""
-- The parts of units that an entry was charged to, as ranges of their numbers; none: all parts.
CREATE TABLE touch (
    entry INTEGER NOT NULL REFERENCES entry (entry),
    low INTEGER NOT NULL CHECK (low >= 0),
    high INTEGER NOT NULL CHECK (high >= low),
    PRIMARY KEY (entry, low)
) WITHOUT ROWID;
{_forbid_changes("touch")}
-- The scopes that have a tree of nodes, and the order of their costs.
CREATE TABLE tree (scope TEXT PRIMARY KEY, alpha TEXT) WITHOUT ROWID;
"""
    + NODES
)
"""What version 8 added."""

REPORTS: Final = f"""
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
{_allow_one_end("report", _ENDED, "number name analyst at digest statements plan kept event")}
-- The entries that were charged for a report.
CREATE TABLE report_run (
    entry INTEGER PRIMARY KEY REFERENCES entry (entry), report INTEGER NOT NULL REFERENCES report (number)
) WITHOUT ROWID;
CREATE INDEX report_entries ON report_run (report, entry);
{_forbid_changes("report_run")}
"""
"""What version 9 added."""

STREAMS: Final = f"""
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
{_forbid_changes("stream")}
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
{_forbid_deletes("asked")}
CREATE TRIGGER asked_follows BEFORE INSERT ON asked
WHEN NEW.state <> 'begun' OR (SELECT state FROM entry WHERE entry = NEW.entry) IS NOT 'reserved'
    OR NEW.step IS NOT (SELECT COUNT(*) + 1 FROM asked WHERE entry = NEW.entry)
    OR NEW.used < (SELECT COALESCE(max(used), 0) FROM asked WHERE entry = NEW.entry)
    OR NEW.used > (SELECT misses FROM stream WHERE entry = NEW.entry)
{_REFUSE}
CREATE TRIGGER asked_ends_once BEFORE UPDATE ON asked
WHEN OLD.state <> 'begun' OR NEW.state = 'begun' OR NEW.entry IS NOT OLD.entry OR NEW.step IS NOT OLD.step
    OR NEW.at IS NOT OLD.at OR NEW.statement IS NOT OLD.statement OR NEW.series IS NOT OLD.series
    OR NEW.key IS NOT OLD.key OR NEW.holder IS NOT OLD.holder OR NEW.used > OLD.used
    OR NEW.used < (SELECT COALESCE(max(used), 0) FROM asked WHERE entry = OLD.entry AND step < OLD.step)
    OR (NEW.state <> 'answered' AND NEW.used <> OLD.used)
{_REFUSE}
"""
"""What version 10 added: streams that last."""

YEARS: Final = f"""
-- In how many periods of a year one person may be among what an entry was charged to, for ranges of years, by
-- the numbers that these have as parts; none: the person is the unit, and bears it once in every year.
CREATE TABLE periods (
    entry INTEGER NOT NULL REFERENCES entry (entry),
    low INTEGER NOT NULL CHECK (low >= 0),
    high INTEGER NOT NULL CHECK (high >= low),
    times INTEGER NOT NULL CHECK (times > 0),
    PRIMARY KEY (entry, low)
) WITHOUT ROWID;
CREATE TRIGGER periods_stay BEFORE DELETE ON periods
{_REFUSE}
CREATE TRIGGER periods_are_final BEFORE UPDATE ON periods
{_REFUSE}
"""
"""What version 11 added."""

ALL: Final = "".join(
    (
        *(META, ENTRY.format(entry="entry"), RELEASE, RELEASE_EVENT, TOTAL.format(total="total"), RESTORED),
        *(FAILED, RUNNING, CANCELLED),
        *(PROGRESS, REFINEMENT, PART, ENTRY_TRIGGERS, PROGRESS_RUNS, BOUNDS, PARTS, REPORTS, STREAMS),
        YEARS,
    )
)
"""A new ledger."""
