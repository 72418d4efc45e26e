"""Streams of checks that outlive processes: opened, checked and closed, each inside one write transaction.

A stream is an entry whose whole loss is charged when it is opened, with a row that says how it was opened.
Each check is a row in `asked`: written before data are read, with the misses that it could use, and again
when it ends, with those that it used. So whatever ends a process, the misses used never fall, and what was
shown is stored. One check of a stream runs at a time; the row that has not ended is the lock.

What a stream has cost follows from these rows alone: the threshold's share once anything was asked, and that
of each miss. The noise of the threshold is not in the file, nor what it could be computed of.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any, Final, Literal

from dpsql.errors import InternalError, OperationalError, ProgrammingError
from dpsql.kernel.ledger import charging, events, limits
from dpsql.kernel.ledger.caps import Caps
from dpsql.kernel.ledger.events import Event, Request, Reservation, Settled
from dpsql.kernel.ledger.totals import DamagedError, names_of, read, read_loss, write
from dpsql.kernel.loss import Charge
from dpsql.kernel.unit_parts import PartSet
from dpsql.lazy_dataclass import dataclass

_TOLD: Final = ("entry", "analyst", "name", "round", "options", "misses", "first", "each")
_OPENED: Final = ", ".join((*_TOLD, "event", "seal"))
_FIXED: Final = ("entry", "step", "at", "statement", "series", "key", "holder")
"""The columns of a check that never change."""


class StreamBusy(OperationalError):  # noqa: N818  an event: whoever waits asks again
    """A check of the stream runs, in this process or another one."""


class StreamMoved(OperationalError):  # noqa: N818  likewise: whoever follows from its answers asks anew
    """A check has ended since those on which the one that is to begin rests."""


IsRunning = Callable[[int, int], bool]
"""Whether this process runs a check, by entry and step; one that it does not run was interrupted."""


@dataclass(frozen=True, slots=True)
class StreamTerms:
    """How a stream is opened: all that its later checks need, and nothing private."""

    name: str
    misses: int
    first: Fraction
    """What is charged once anything was asked."""
    each: Fraction
    """What each miss is charged."""
    statement: str
    options: Mapping[str, Any]
    """What else the statement said, as values that JSON has."""

    @property
    def charge(self) -> Charge:
        """The largest charge of the stream, if all its misses are used."""
        return Charge(self.first + self.misses * self.each, self.delta)

    @property
    def word(self) -> str:
        """What its misses are called: those of a board are improvements."""
        return "improvements" if self.options.get("kind") == "board" else "misses"

    @property
    def delta(self) -> Fraction:
        """What is charged once anything was asked, and not given back: of exact answers."""
        return Fraction(self.options.get("delta", 0))

    @property
    def unit_parts(self) -> PartSet | None:
        """The parts of units on which its checks may depend; None: all."""
        found = self.options.get("unit_parts")
        return None if found is None else PartSet(tuple((low, high) for low, high in found))

    @property
    def questions(self) -> int | None:
        """How often it may be asked, for which that delta is; None: that has no limit."""
        found: int | None = self.options.get("questions")
        return found


@dataclass(frozen=True, slots=True)
class StoredStream:
    """A stream of checks as the ledger stores it: its terms, what is used, whether it is open."""

    entry: int
    analyst: str
    terms: StreamTerms
    round: int
    """How often a stream of this name was opened by its analyst."""
    opening: str
    """The hash of the event that opened it."""
    seal: str
    """What shows that the noise of its threshold is still the same (`kernel.threshold_noise`)."""
    state: Literal["open", "closed", "ended"]
    """Ended: a ledger that was restored has ended it, at its full charge."""
    used: int
    """How many misses are used; of a check that has not ended, those that it could use are."""
    asked: int
    """How many checks were asked."""
    charged: Fraction
    """What it has cost until now: of an open one, what it would be settled to."""
    when: datetime
    renewed: bool = False
    """Whether the budget has started anew since, or does with the next charge: then it answers no more."""

    @property
    def said(self) -> str:
        """Its state in words: of an open one, whether it answers no more."""
        if self.state != "open":
            return self.state
        return "closed by a renewal" if self.renewed else "open" if self.left else "used up"

    @property
    def left(self) -> int:
        """How many misses of the stream are left."""
        return self.terms.misses - self.used


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """A check that is to be asked of a stream."""

    statement: str
    key: str
    """Equal ones ask the same of the same data."""
    series: str
    """What its results are found by for later checks that refer to them."""
    most: int
    """How many misses it could use."""
    after: int | None = None
    """How many checks there were when it was made, if it follows from their answers."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class BegunCheck:
    """Permission to run one check: the misses that it could use are used until it has ended."""

    stream: StoredStream
    """As it was before."""
    step: int
    most: int


@dataclass(frozen=True, slots=True)
class StoredCheck:
    """A check of a stream that was answered, as the ledger stores it."""

    entry: int
    step: int
    when: datetime
    statement: str
    used: int
    payload: bytes
    event: Event


def open_stream(
    connection: sqlite3.Connection,
    caps: Caps,
    analyst: str,
    terms: StreamTerms,
    make_seal: Callable[[int, int, str], str],
    *,
    refill: bool,
    is_running: IsRunning,
) -> tuple[StoredStream, Event]:
    """Charge all of a stream and open it, or write nothing; with `refill`, settle the one of its name first.

    `make_seal` returns the seal of the threshold, given entry, round and hash of the opening event.
    """
    last = find(connection, analyst, terms.name)
    if last is not None and last.state == "open":
        if not refill:
            raise ProgrammingError(
                f"the stream {terms.name} is open: CLOSE STREAM {terms.name}, or another name"
            )
        close(connection, last.entry, is_running)
    number = 1 if last is None else last.round + 1
    kind = terms.options.get("kind", "checks")
    called = "stream of exact answers" if kind == "stable" else "stream of checks"
    request = Request(f"{kind} {terms.name}", called, terms.charge, parts=terms.unit_parts)
    reservation = charging.reserve(connection, caps, analyst, terms.statement, [request], lasting=True)
    amounts = terms.misses, write(terms.first), write(terms.each)
    row = (reservation.entry, analyst, terms.name, number, events.canonical(dict(terms.options)), *amounts)
    content = dict(zip(_TOLD, row, strict=True))
    event = events.append(connection, "stream", content, names_of(connection, analyst))
    seal = make_seal(reservation.entry, number, event.hash)
    connection.execute(
        f"INSERT INTO stream ({_OPENED}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, event.n, seal)
    )
    found = find_entry(connection, reservation.entry)
    if found is None:
        raise InternalError("a stream was not written")
    return found, event


def opened_content(connection: sqlite3.Connection, entry: int) -> dict[str, Any] | None:
    """Return what an event says of how a stream was opened; None if there is no such stream."""
    row = connection.execute(f"SELECT {', '.join(_TOLD)} FROM stream WHERE entry = ?", (entry,)).fetchone()
    return None if row is None else dict(zip(_TOLD, row, strict=True))


def find(connection: sqlite3.Connection, analyst: str, name: str) -> StoredStream | None:
    """Return an analyst's latest stream of a name."""
    row = connection.execute(
        "SELECT max(entry) FROM stream WHERE analyst = ? AND name = ?", (analyst, name)
    ).fetchone()
    return None if row[0] is None else find_entry(connection, row[0])


def list_streams(connection: sqlite3.Connection, analyst: str | None) -> list[StoredStream]:
    """Return the latest stream of each name, of an analyst or of all (None), in the order of opening."""
    chosen, given = ("1", ()) if analyst is None else ("analyst = ?", (analyst,))
    rows = connection.execute(
        f"SELECT max(entry) FROM stream WHERE {chosen} GROUP BY analyst, name ORDER BY 1", given
    ).fetchall()
    found = [find_entry(connection, entry) for (entry,) in rows]
    return [each for each in found if each is not None]


def find_entry(connection: sqlite3.Connection, entry: int) -> StoredStream | None:
    """Return the stream that an entry of the ledger paid for."""
    row = connection.execute(
        f"SELECT {', '.join(f's.{name}' for name in _OPENED.split(', '))}, e.state, e.charged_loss, e.at,"
        " e.statement, v.hash FROM stream s JOIN entry e ON e.entry = s.entry"
        " LEFT JOIN event v ON v.n = s.event WHERE s.entry = ?",
        (entry,),
    ).fetchone()
    if row is None:
        return None
    _, analyst, name, number, options, misses, first, each, _, seal, state, loss, at, statement, opening = row
    if opening is None:
        raise DamagedError(f"the event of the stream of entry {entry} is missing")
    terms = StreamTerms(name, misses, read(first), read(each), statement, json.loads(options))
    asked, used = connection.execute(
        "SELECT COUNT(*), COALESCE(max(used), 0) FROM asked WHERE entry = ?", (entry,)
    ).fetchone()
    is_open = state == "reserved"
    charged = _cost(terms, asked, used) if is_open else (read_loss(loss).epsilon or Fraction(0))
    kind: Literal["open", "closed", "ended"] = (
        "open" if is_open else "closed" if state == "settled" else "ended"
    )
    when = datetime.fromisoformat(at)
    return StoredStream(entry, analyst, terms, number, opening, seal, kind, used, asked, charged, when)


def _cost(terms: StreamTerms, asked: int, used: int) -> Fraction:
    return terms.first + used * terms.each if asked else Fraction(0)


def begin(
    connection: sqlite3.Connection, caps: Caps, entry: int, request: CheckRequest, is_running: IsRunning
) -> BegunCheck:
    """Begin a check, which uses all the misses that it could use until it has ended.

    It holds a slot of those that may fail or be cancelled. `StreamBusy`: another one runs. `StreamMoved`: its
    expectation follows from answers that are not the last ones any more.
    """
    _make_free(connection, _find_open(connection, entry), is_running)
    stream = _find_open(connection, entry)
    if request.most < 1:
        raise InternalError("a check may be off")
    if request.after not in (None, stream.asked):
        raise StreamMoved("another check has ended: ask again")
    if not stream.left:
        name = stream.terms.name
        raise OperationalError(
            f"all {stream.terms.misses} {stream.terms.word} of {name} are used up: "
            f"REFILL STREAM {name} charges {float(stream.terms.charge.epsilon):g} again"
        )
    if stream.terms.questions is not None and stream.asked >= stream.terms.questions:
        raise OperationalError(f"all {stream.terms.questions:,} questions of {stream.terms.name} are asked")
    caps.check_listed(stream.analyst)
    limits.check(connection, caps.limits, stream.analyst)
    most, step = min(request.most, stream.left), stream.asked + 1
    row = (entry, step, charging.now(), request.statement, request.series, request.key, limits.current())
    connection.execute(
        f"INSERT INTO asked ({', '.join(_FIXED)}, state, used) VALUES (?, ?, ?, ?, ?, ?, ?, 'begun', ?)",
        (*row, stream.used + most),
    )
    limits.take_slot(connection, stream.analyst)
    return BegunCheck(stream, step, most)


def _find_open(connection: sqlite3.Connection, entry: int) -> StoredStream:
    stream = find_entry(connection, entry)
    if stream is None or stream.state != "open":
        raise ProgrammingError("the stream is closed: OPEN opens another one")
    return stream


def _make_free(
    connection: sqlite3.Connection, stream: StoredStream, is_running: IsRunning, *, by_owner: bool = False
) -> None:
    """Raise `StreamBusy` if a check of a stream runs; end one whose process is gone as failed.

    The owner says that processes of other machines are gone.
    """
    row = connection.execute(
        "SELECT step, holder FROM asked WHERE entry = ? AND state = 'begun'", (stream.entry,)
    ).fetchone()
    if row is None:
        return
    step, holder = row
    mine = holder == limits.current()
    alive = is_running(stream.entry, step) if mine else limits.is_alive(holder)
    if alive:
        raise StreamBusy(f"a check of the stream {stream.terms.name} runs")
    if alive is None and not by_owner:
        raise OperationalError(
            f"another machine or container runs a check of the stream {stream.terms.name}, or was stopped"
            " in it: wait until it has ended; if it is gone, the owner runs `dpsql budget --close-stream`"
        )
    limits.release_slot(connection, stream.analyst, holder)
    limits.add(connection, "failed", stream.analyst)
    _end(connection, stream, step, "failed")


def finish(connection: sqlite3.Connection, begun: BegunCheck, used: int, payload: bytes) -> Event:
    """End a check with the misses that it used, and store its result."""
    if not 0 <= used <= begun.most:
        raise InternalError("a check used more misses than it could use")
    return _end_own(connection, begun, "answered", begun.stream.used + used, payload)


def fail(connection: sqlite3.Connection, begun: BegunCheck, *, failed: bool) -> None:
    """End a check without a result: the misses that it could use stay used, and it counts as failed."""
    state: Literal["failed", "cancelled"] = "failed" if failed else "cancelled"
    limits.add(connection, state, begun.stream.analyst)
    _end_own(connection, begun, state)


def _end_own(
    connection: sqlite3.Connection,
    begun: BegunCheck,
    state: Literal["answered", "failed", "cancelled"],
    used: int | None = None,
    payload: bytes | None = None,
) -> Event:
    stream = begun.stream
    row = connection.execute(
        "SELECT state, holder FROM asked WHERE entry = ? AND step = ?", (stream.entry, begun.step)
    ).fetchone()
    if row != ("begun", limits.current()):
        raise InternalError("a check was ended twice, or is another process's")
    _find_open(connection, stream.entry)
    limits.release_slot(connection, stream.analyst, limits.current())
    return _end(connection, stream, begun.step, state, used, payload)


def _end(
    connection: sqlite3.Connection,
    stream: StoredStream,
    step: int,
    state: Literal["answered", "failed", "cancelled"],
    used: int | None = None,
    payload: bytes | None = None,
) -> Event:
    number = events.newest(connection).n + 1
    connection.execute(
        "UPDATE asked SET state = ?, used = COALESCE(?, used), payload = ?, event = ?"
        " WHERE entry = ? AND step = ?",
        (state, used, payload, number, stream.entry, step),
    )
    content = check_content(connection, stream.entry, step)
    return events.append(connection, "check", content, names_of(connection, stream.analyst))


def check_content(connection: sqlite3.Connection, entry: int, step: int) -> dict[str, Any]:
    """Return what an event says of a check that has ended; empty if there is none."""
    row = connection.execute(
        f"SELECT {', '.join(_FIXED)}, state, used, payload FROM asked WHERE entry = ? AND step = ?",
        (entry, step),
    ).fetchone()
    if row is None:
        return {}
    *fixed, state, used, payload = row
    names = (*_FIXED, "state", "used")
    return {**dict(zip(names, (*fixed, state, used), strict=True)), "payload": events.digest(payload)}


def close(
    connection: sqlite3.Connection, entry: int, is_running: IsRunning, *, by_owner: bool = False
) -> Event:
    """Settle a stream to what it has cost; `StreamBusy`: a check of it runs.

    Its owner also ends a check of a process that nobody can ask.
    """
    _make_free(connection, _find_open(connection, entry), is_running, by_owner=by_owner)
    stream = _find_open(connection, entry)
    (loss,) = connection.execute("SELECT reserved_loss FROM entry WHERE entry = ?", (entry,)).fetchone()
    reservation = Reservation(entry, read_loss(loss), stream=True)
    charge = Charge(stream.charged, stream.terms.delta if stream.asked else Fraction(0))
    return charging.settle(connection, reservation, [Settled(charge)])[1]


def end_all(connection: sqlite3.Connection) -> list[list[int]]:
    """End all checks that have not ended, with the streams that they belong to; return entries and steps."""
    rows = connection.execute("SELECT entry, step FROM asked WHERE state = 'begun' ORDER BY entry").fetchall()
    number = events.newest(connection).n + 1
    connection.execute("UPDATE asked SET state = 'cancelled', event = ? WHERE state = 'begun'", (number,))
    return [list(row) for row in rows]


def find_check(
    connection: sqlite3.Connection,
    entries: Sequence[int],
    column: Literal["key", "series", "state"],
    value: str,
) -> StoredCheck | None:
    """Return the latest answered check of some streams with a key, of a series, or of all."""
    row = connection.execute(
        "SELECT a.entry, a.step, a.at, a.statement, a.used, a.payload, v.n, v.hash FROM asked a"
        f" JOIN event v ON v.n = a.event WHERE a.{column} = ? AND a.state = 'answered' AND a.entry IN"
        f" ({', '.join('?' * len(entries))}) ORDER BY a.entry DESC, a.step DESC LIMIT 1",
        (value, *entries),
    ).fetchone()
    if row is None:
        return None
    entry, step, at, statement, used, payload, n, found = row
    return StoredCheck(entry, step, datetime.fromisoformat(at), statement, used, payload, Event(n, found))


def list_rounds(connection: sqlite3.Connection, analyst: str, name: str) -> list[int]:
    """Return the entries of all rounds of an analyst's stream."""
    rows = connection.execute(
        "SELECT entry FROM stream WHERE analyst = ? AND name = ? ORDER BY entry", (analyst, name)
    )
    return [entry for (entry,) in rows]


def has_open(connection: sqlite3.Connection, but: tuple[str, str]) -> bool:
    """Return whether there is an open stream beside that of an analyst and a name."""
    row = connection.execute(
        "SELECT 1 FROM stream s JOIN entry e ON e.entry = s.entry WHERE e.state = 'reserved'"
        " AND (s.analyst, s.name) <> (?, ?) LIMIT 1",
        but,
    ).fetchone()
    return row is not None
