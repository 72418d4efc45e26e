"""Notices that a ledger was replaced by an older copy, by its mark; goes on with one where the owner says so.

The mark is written before a row is handed out, and only forwards.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from dpsql.errors import OperationalError
from dpsql.kernel.ledger import events, kept_results, lasting_streams, part_totals, renewals
from dpsql.kernel.ledger.events import Event
from dpsql.kernel.ledger.part_totals import BY_PARTS
from dpsql.kernel.ledger.renewal_rows import RENEWAL
from dpsql.kernel.ledger.store import Store
from dpsql.kernel.ledger.totals import (
    PERSON,
    DamagedError,
    Row,
    Stored,
    group_scope,
    read,
    read_total,
    restored_cost,
    write,
    write_total,
)
from dpsql.kernel.loss import Totals
from dpsql.ledger.mark import Mark, MarkFile, MarkPlace, StoredMark

ACCEPT: Final = "`dpsql budget --accept-restored`"

OFF: Final = "off"
"""Stands for the identifier of a mark where none is kept."""
_KEPT: Final = "mark"
"""The setting with the identifier of the mark, and the events after which it was another one."""
_MOST: Final = 20


class MarkGuard:
    """Keeps the mark of one ledger, for the threads of one process; without a place, keeps none."""

    def __init__(self, place: MarkPlace | None, path: Path) -> None:
        """Take the mark's place, and the path of the ledger."""
        self._place = place
        self._path = path
        self._last: StoredMark | None = None
        """The mark as this process has last seen or written it."""
        self._process, self._lock = os.getpid(), threading.RLock()
        self.messages: list[str] = []
        """What the user should know."""

    def refuse_missing(self) -> None:
        """Raise `OperationalError` if there is no ledger, and a mark says that there was one."""
        mark = None if self._place is None or os.path.lexists(self._path) else self._place.at(self._path)
        if mark is not None:
            where = "" if mark.path == str(self._path) else f", of the ledger {mark.path}"
            raise OperationalError(
                f"the ledger {self._path} is missing, but its mark is there{where}: {mark.event.n} events are"
                f" missing\nHint: restore it from a backup. Without one, {ACCEPT} begins a new one, in which"
                " what the mark tells is spent. For other data, name another file in [budget] ledger"
            )

    def open(self, store: Store) -> None:
        """Compare a ledger that was just opened with its mark; begin a mark if there is none."""
        if self._place is None:
            return
        with store.read() as connection:
            file = self._place.file(identifier(connection)).for_owner()
        with file.hold_lock():
            kept = file.read()
            with store.read() as connection:
                found, problem = self._read_present(connection), self._find_difference(connection, kept)
            if problem is not None:
                raise self._make_error(problem, f"the ledger {self._path}", f" (mark: {file.path})")
            if kept is None:
                self._last = self._begin(store, file, known=bool(found.begun))
            else:
                self._last = self._replace_mark(file, kept, found)
            self._place.keep(found.ledger, self._path)

    def hold(self, connection: sqlite3.Connection) -> None:
        """Write an event if the mark is another one than when the last answer was stored."""
        hold_mark(connection, OFF if self._last is None else self._last.mark.holder)

    @property
    def is_kept(self) -> bool:
        """Whether there is a mark."""
        return self._place is not None

    def cover(self, store: Store, event: Event) -> None:
        """Write the mark if it is older than an event; only then may rows that it stored be handed out."""
        if self._place is None or self._is_covered(event):
            return
        with self._thread_lock():
            if self._is_covered(event):  # by another thread
                return
            with store.read() as connection:
                found = self._read_present(connection)
            file = self._place.file(found.ledger)
            with file.hold_lock():
                kept = file.read(self._last)
                if kept is not self._last:
                    with store.read() as connection:
                        found, problem = (
                            self._read_present(connection),
                            self._find_difference(connection, kept),
                        )
                    if problem is not None:
                        raise self._make_error(problem, "the ledger")
                self._last = self._replace_mark(file, kept, found)

    def _is_covered(self, event: Event) -> bool:
        """Whether the mark is known to be as new as an event."""
        return self._last is not None and self._last.mark.event.n >= event.n

    def find_problem(self, store: Store) -> str | None:
        """Say what of the ledger is not as the mark tells; None: nothing, or there is no mark."""
        if self._place is None:
            return None
        with store.read() as connection:
            file = self._place.file(identifier(connection)).for_owner()
        kept = file.read()
        with store.read() as connection:  # later than the mark: other processes go on
            return self._find_difference(connection, kept)

    def accept(self, store: Store, lost: Mark | None) -> dict[str, Totals] | None:
        """Count what the mark tells as spent, and begin a new mark; return what was added to each scope.

        `lost` is the mark of a ledger that was at this place and is no more. Returns None if the ledger is as
        its mark tells.
        """
        if self._place is None:
            return None
        with store.read() as connection:
            file = self._place.file(identifier(connection)).for_owner()
        with file.hold_lock():
            kept = file.read()
            with store.read() as connection:
                if lost is None and self._find_difference(connection, kept) is None:
                    return None
            mark = lost or (kept.mark if kept is not None else self._place.at(self._path))
            if mark is None:
                return None
            with store.write() as connection:
                holder = _draw_identifier(connection)
                added = restore(connection, mark, holder)
                found = self._read_present(connection)
            file.write(found)
            self._place.keep(found.ledger, self._path)
        return added

    def find_lost(self) -> Mark | None:
        """Return the mark of the ledger that was here, if there is none any more."""
        return None if self._place is None or os.path.lexists(self._path) else self._place.at(self._path)

    def _read_present(self, connection: sqlite3.Connection) -> Mark:
        return read_present(connection, str(self._path))

    def _begin(self, store: Store, file: MarkFile, *, known: bool) -> StoredMark:
        with store.write() as connection:
            holder = _draw_identifier(connection)
            begin_mark(connection, "mark", {"holder": holder}, holder)
            found = self._read_present(connection)
        if known:
            self.messages.append(
                f"no mark of the ledger was found in {file.path}: whether it is the newest copy is unknown;"
                " a new mark begins"
            )
        return file.write(found)

    def _replace_mark(self, file: MarkFile, kept: StoredMark | None, found: Mark) -> StoredMark:
        """Overwrite the stored mark; the caller holds its lock. A mark that is lost is made again."""
        before = kept or self._last
        if before is None:  # the owner inspects a ledger without one
            raise OperationalError("no mark of the ledger is there")
        return file.write(replace(found, holder=before.mark.holder), kept)

    def _find_difference(self, connection: sqlite3.Connection, kept: StoredMark | None) -> str | None:
        """Say what of the ledger is not as its mark tells; None: nothing."""
        if kept is None:
            other = self._place.at(self._path) if self._place is not None else None
            if other is None or other.ledger == identifier(connection):
                return None
            return f"another ledger was here, and its mark tells of {other.event.n} events"
        mark = kept.mark
        if mark.ledger != identifier(connection):
            return f"its mark is that of another ledger, {Path(mark.path).name}"
        missing = mark.event.n - events.newest(connection).n
        if missing > 0:
            told = "1 event is" if missing == 1 else f"{missing} events are"
            return f"this ledger is older than the mark: {told} missing"
        if events.at(connection, mark.event.n) != mark.event:
            n = mark.event.n
            return f"an older copy of it went on alone: event {n} is not the one that the mark tells of"
        return None

    def _make_error(self, problem: str, ledger: str, mark: str = "") -> OperationalError:
        return OperationalError(
            f"{ledger} cannot be used: {problem}{mark}\nHint: bring the newest ledger back. Without it,"
            f" {ACCEPT} goes on with this one, in which what the mark tells is also spent. A copy for other"
            " data needs another file in [budget] ledger"
        )

    def _thread_lock(self) -> AbstractContextManager[object]:
        """Return the lock that keeps the other threads out; a child of a fork has a lock of its own."""
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), threading.RLock()
        return self._lock


def _draw_identifier(connection: sqlite3.Connection) -> str:
    (made,) = connection.execute("SELECT lower(hex(randomblob(16)))").fetchone()
    return str(made)


def read_present(connection: sqlite3.Connection, path: str) -> Mark:
    """Return the mark of a ledger at a path as one transaction sees it; without a holder if none is kept."""
    holder, begun = _read_setting(connection)
    event, totals = events.newest(connection), events.stored_totals(connection)
    return Mark(identifier(connection), path, holder, event, begun, totals)


def identifier(connection: sqlite3.Connection) -> str:
    """Return the random identifier of a ledger."""
    row = connection.execute("SELECT value FROM setting WHERE name = 'ledger'").fetchone()
    if row is None or not isinstance(row[0], str) or not row[0].isalnum():
        raise DamagedError("it has no identifier")
    return row[0]


def hold_mark(connection: sqlite3.Connection, holder: str) -> None:
    """Write an event if another mark than before is kept from now on.

    So two copies of a ledger that went on under different marks differ in such an event.
    """
    if (_read_setting(connection)[0] or OFF) != holder:
        begin_mark(connection, "mark", {"holder": holder}, holder)


def begin_mark(connection: sqlite3.Connection, kind: str, content: dict[str, Any], holder: str) -> Event:
    """Write an event with the totals of all scopes, after which the mark with an identifier is kept."""
    _, begun = _read_setting(connection)
    event = events.append(connection, kind, content, events.stored_totals(connection))
    kept = [[each.n, each.hash] for each in (*begun, event)[-_MOST:]]
    value = events.canonical({"holder": holder, "begun": kept})
    connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (_KEPT, value))
    return event


def _read_setting(connection: sqlite3.Connection) -> tuple[str, tuple[Event, ...]]:
    row = connection.execute("SELECT value FROM setting WHERE name = ?", (_KEPT,)).fetchone()
    return ("", ()) if row is None else _parse_setting(row[0])


@lru_cache(maxsize=16)
def _parse_setting(text: str) -> tuple[str, tuple[Event, ...]]:
    try:
        kept = json.loads(text)
        return str(kept["holder"]), tuple(Event(int(n), str(found)) for n, found in kept["begun"])
    except (ValueError, KeyError, TypeError):
        raise DamagedError("its setting of the mark is unreadable") from None


def restore(connection: sqlite3.Connection, mark: Mark, holder: str) -> dict[str, Totals]:
    """Count what a mark tells as spent; return what was added to each scope.

    If the ledger is an older copy, the totals become the mark's. If it may have gone on alone, the charges of
    both have to count: the totals become the sum of both, less those of the latest event that both have in
    common for certain. Nothing becomes less than it was. Statements without an end stay charged in full: none
    may be settled any more, since the mark's totals may hold what it was settled to.
    """
    found = read_present(connection, mark.path)
    common, added = _find_common_totals(connection, found, mark), dict[str, tuple[Totals, Row]]()
    renewals.follow(connection, mark.totals, common)
    running = [entry for (entry,) in connection.execute("SELECT entry FROM entry WHERE state = 'reserved'")]
    connection.execute("UPDATE entry SET state = 'cancelled' WHERE state = 'reserved'")
    connection.execute("DELETE FROM running")
    unmeasured, unanswered = kept_results.end_all(connection), lasting_streams.end_all(connection)
    for name, told in mark.totals.items():
        if name.startswith((group_scope(""), BY_PARTS, RENEWAL)):  # added up again when needed, or below
            continue
        if name == PERSON and f"{BY_PARTS}{PERSON}" not in mark.totals:
            continue  # what was charged later is not in it, but in that of the policy
        more = _add_missing(connection, name, told, common.get(name))
        if more is not None:
            added[name] = more.totals, more.row
    for name, told in mark.totals.items():
        if name.startswith(BY_PARTS) and not name.startswith(f"{BY_PARTS}{group_scope('')}"):
            _spend_in_all_parts(connection, name.removeprefix(BY_PARTS), told, added)
    n = events.newest(connection).n + 1
    for name, (_, row) in added.items():
        row_of = (n, name, *row, _highest_told(mark, name))
        connection.execute("INSERT INTO restored VALUES (?, ?, ?, ?, ?, ?, ?)", row_of)
    renewals.add_restored(connection, n)
    for name in events.stored_totals(connection):
        if name.startswith(group_scope("")):
            connection.execute("DELETE FROM total WHERE name = ?", (name,))
            part_totals.forget_tree(connection, name)
    content = {
        "mark": {"ledger": mark.ledger, **asdict(mark.event)},
        "ended": running,
        "ladders": unmeasured,
        "checks": unanswered,
        "added": {name: [*row, _highest_told(mark, name)] for name, (_, row) in added.items()},
    }
    begin_mark(connection, "restored", content, holder)
    return {name: more for name, (more, _) in added.items()}


def _add_missing(connection: sqlite3.Connection, name: str, row: Row, common: Row | None) -> Stored | None:
    """Add to a scope what the mark tells and the ledger does not hold; return that; None: nothing.

    A scope without costs whose losses have no epsilon does not tell how much of them is missing: something
    is added without a cost, so that a group or a later cap, which needs one, refuses.
    """
    told, own = Stored.read(row), read_total(connection, name)
    own = Stored(Totals(), told.order) if own is None else own
    less = Stored(Totals(), told.order) if common is None else Stored.read(common)
    zero = Fraction(0)
    epsilon = None
    if told.totals.epsilon is not None:
        known = [told.totals.epsilon - (each.totals.epsilon or zero) for each in (less, own)]
        epsilon = max(*known, zero)
    delta = max(*(told.totals.delta - each.totals.delta for each in (less, own)), zero)
    cost = zero
    if own.order is not None and told.order == own.order == less.order:
        cost = max(*(told.totals.cost - each.totals.cost for each in (less, own)), zero)
    elif own.order is not None:
        cost = restored_cost((None, None, _highest_cost(row)), own.order)
    more = Totals(epsilon, delta, cost)
    is_known = epsilon is not None or (own.order is not None and own.totals.epsilon is None)
    if not (epsilon or delta or cost) and is_known:
        return None
    write_total(connection, name, Stored(own.totals + more, own.order))
    return Stored(more, own.order)


def _spend_in_all_parts(
    connection: sqlite3.Connection, name: str, row: Row, added: dict[str, tuple[Totals, Row]]
) -> None:
    """Add to a scope, for all parts of units, the largest total of any part that the mark tells of.

    Which parts these were is not told, nor which of them the ledger holds: it counts beside what it holds.
    """
    told = Stored.read(row)
    if told.totals == Totals():
        return
    own = read_total(connection, name) or Stored(Totals(), told.order)
    cost = told.totals.cost
    if own.order is not None and own.order != told.order:
        cost = restored_cost((None, None, _highest_cost(row)), own.order)
    elif own.order is None:
        cost = Fraction(0)
    more = replace(told.totals, cost=cost)
    write_total(connection, name, Stored(own.totals + more, own.order))
    before = added[name][0] if name in added else Totals()
    whole = Stored(before + more, own.order)
    added[name] = whole.totals, whole.row


def _highest_told(mark: Mark, name: str) -> str | None:
    """Return what all that a mark tells of a scope costs at most, of all parts and of any one."""
    told = [mark.totals[each] for each in (name, f"{BY_PARTS}{name}") if each in mark.totals]
    known = [_highest_cost(each) for each in told]
    return None if None in known else write(sum((read(each) for each in known if each), Fraction(0)))


def _highest_cost(told: Row) -> str | None:
    """Return what all that a mark tells of costs at most, at any order; None: that is not known."""
    return told[0]


def _find_common_totals(connection: sqlite3.Connection, found: Mark, mark: Mark) -> Mapping[str, Row]:
    """Return totals that both the ledger and the mark are known to hold."""
    if mark.ledger != found.ledger:
        return {}
    if found.event.n < mark.event.n and found.begun[-1:] == mark.begun[-1:] != ():
        # All answers since then were stored under this mark, here and there: it is the mark's own past.
        return found.totals
    for event in reversed(mark.begun):
        row = connection.execute("SELECT record, hash FROM event WHERE n = ?", (event.n,)).fetchone()
        if row is not None and row[1] == event.hash:
            totals: dict[str, Row] = json.loads(row[0])["totals"]
            return totals
    return {}
