"""Compares a ledger with its mark, and writes the mark: before a row is handed out, and only forwards."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import AbstractContextManager
from pathlib import Path

from dpsql.errors import OperationalError
from dpsql.kernel.loss import Totals
from dpsql.ledger import events, restoring
from dpsql.ledger.events import Event
from dpsql.ledger.mark import Mark
from dpsql.ledger.mark_file import Kept, MarkFile
from dpsql.ledger.mark_places import MarkPlace
from dpsql.ledger.seen import OFF, Seen, begin, hold, identifier
from dpsql.ledger.store import Store

ACCEPT = "`dpsql budget --accept-restored`"


class HighWater:
    """Keeps the mark of one ledger, for the threads of one process; without a place, keeps none."""

    def __init__(self, place: MarkPlace | None, path: Path) -> None:
        """Take the mark's place, and the path of the ledger."""
        self._place = place
        self._path = path
        self._last: Kept | None = None
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
            file = self._place.file(identifier(connection)).named()
        with file.locked():
            kept = file.read()
            with store.read() as connection:
                seen, problem = Seen.of(connection), self._problem(connection, kept)
            if problem is not None:
                raise self._refused(problem, f"the ledger {self._path}", f" (mark: {file.path})")
            if kept is None:
                self._last = self._begin(store, file, known=bool(seen.begun))
            else:
                self._last = self._written(file, kept, seen)
            self._place.keep(seen.ledger, self._path)

    def hold(self, connection: sqlite3.Connection) -> None:
        """Write an event if the mark is another one than when the last answer was stored."""
        hold(connection, OFF if self._last is None else self._last.mark.holder)

    @property
    def kept(self) -> bool:
        """Whether there is a mark."""
        return self._place is not None

    def covers(self, event: Event) -> bool:
        """Whether the mark is known to be as new as an event, or none is kept."""
        return self._place is None or (self._last is not None and self._last.mark.event.n >= event.n)

    def cover(self, store: Store, seen: Seen) -> None:
        """Write the mark if it is older than what was seen; only then may rows of it be handed out."""
        with self._alone():
            if self._place is None or self.covers(seen.event):
                return
            file = self._place.file(seen.ledger)
            with file.locked():
                kept = file.read(self._last)
                if kept is not self._last:
                    with store.read() as connection:
                        seen, problem = Seen.of(connection), self._problem(connection, kept)
                    if problem is not None:
                        raise self._refused(problem, "the ledger")
                self._last = self._written(file, kept, seen)

    def problem(self, store: Store) -> str | None:
        """Say what of the ledger is not as the mark tells; None: nothing, or there is no mark."""
        if self._place is None:
            return None
        with store.read() as connection:
            file = self._place.file(identifier(connection)).named()
        kept = file.read()
        with store.read() as connection:  # later than the mark: other processes go on
            return self._problem(connection, kept)

    def accept(self, store: Store, lost: Mark | None) -> dict[str, Totals] | None:
        """Count what the mark tells as spent, and begin a new mark; return what was added to each scope.

        `lost` is the mark of a ledger that was at this place and is no more. Returns None if the ledger is as
        its mark tells.
        """
        if self._place is None:
            return None
        with store.read() as connection:
            file = self._place.file(identifier(connection)).named()
        with file.locked():
            kept = file.read()
            with store.read() as connection:
                if lost is None and self._problem(connection, kept) is None:
                    return None
            mark = lost or (kept.mark if kept is not None else self._place.at(self._path))
            if mark is None:
                return None
            with store.write() as connection:
                holder = _random(connection)
                added = restoring.accept(connection, mark, holder)
                seen = Seen.of(connection)
            file.write(Mark(seen.ledger, str(self._path), holder, seen.event, seen.begun, seen.totals))
            self._place.keep(seen.ledger, self._path)
        return added

    def lost(self) -> Mark | None:
        """Return the mark of the ledger that was here, if there is none any more."""
        return None if self._place is None or os.path.lexists(self._path) else self._place.at(self._path)

    def _begin(self, store: Store, file: MarkFile, *, known: bool) -> Kept:
        with store.write() as connection:
            holder = _random(connection)
            begin(connection, "mark", {"holder": holder}, holder)
            seen = Seen.of(connection)
        if known:
            self.messages.append(
                f"no mark of the ledger was found in {file.path}: whether it is the newest copy is unknown;"
                " a new mark begins"
            )
        mark = Mark(seen.ledger, str(self._path), holder, seen.event, seen.begun, seen.totals)
        return file.write(mark)

    def _written(self, file: MarkFile, kept: Kept | None, seen: Seen) -> Kept:
        """Write what was seen in place of the mark that is kept, by the holder of it or of the one lost."""
        before = kept or self._last
        assert before is not None  # noqa: S101  it was opened
        mark = Mark(seen.ledger, str(self._path), before.mark.holder, seen.event, seen.begun, seen.totals)
        return file.write(mark, kept)

    def _problem(self, connection: sqlite3.Connection, kept: Kept | None) -> str | None:
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

    def _refused(self, problem: str, ledger: str, mark: str = "") -> OperationalError:
        return OperationalError(
            f"{ledger} cannot be used: {problem}{mark}\nHint: bring the newest ledger back. Without it,"
            f" {ACCEPT} goes on with this one, in which what the mark tells is also spent. A copy for other"
            " data needs another file in [budget] ledger"
        )

    def _alone(self) -> AbstractContextManager[object]:
        """Return the lock that keeps the other threads out; a child of a fork has a lock of its own."""
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), threading.RLock()
        return self._lock


def _random(connection: sqlite3.Connection) -> str:
    (made,) = connection.execute("SELECT lower(hex(randomblob(16)))").fetchone()
    return str(made)
