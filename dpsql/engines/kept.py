"""`KeptCounts`: exact counts of earlier statements, kept in the memory of the process that counted them.

They belong to the engines that counted them, so to one policy and one version of the data. They are never
written anywhere, and they are overwritten when they are dropped, unless a statement still uses them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from dpsql.analysis import CompiledQuery
from dpsql.engines.worker import run, running_statement
from dpsql.errors import OperationalError
from dpsql.kernel.charged_work import CANCELLED, FAILED
from dpsql.kernel.counts import Counts, Wanted
from dpsql.kernel.kept import KeptCopy
from dpsql.kernel.ledger.process_identity import OwnerProcess
from dpsql.lazy_dataclass import dataclass


class KeptCounts:
    """The counts of the compiled queries used last, as far as they fit into a number of bytes.

    Threads may use it at once. What it returns is read-only: statements share it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._owner_process = OwnerProcess("database")
        # A finalizer may close it while its own thread is in here.
        self._lock = threading.RLock()
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._number = 0
        """The number of the newest entry."""
        self._size = 0
        self._closed = False

    @property
    def size(self) -> int:
        """The bytes that are kept."""
        return self._size

    def __len__(self) -> int:
        return len(self._entries)

    def fits(self, compiled: CompiledQuery) -> bool:
        """Whether the counts of a compiled query may fit, as far as it is known before they are counted."""
        groups = None if compiled.groups is None else compiled.groups.size
        columns = len(compiled.keys) + compiled.counts + len(compiled.places)
        return 8 * columns * (groups or 1) <= self._limit

    def find(self, compiled: CompiledQuery) -> Counts | None:
        """Return the kept counts of a compiled query; None if there are none.

        A statement that was cancelled, or whose time is over, ends as it would in the engine.
        """
        self._owner_process.check()  # before the lock: another thread may have held it at a fork
        wanted = Counted.of(compiled)
        with self._lock:
            number = next((n for n, entry in self._entries.items() if wanted <= entry.counted), None)
            if number is None:
                return None
            self._entries.move_to_end(number)
            counts = self._entries[number].counts(compiled)
        found = run(lambda: counts, lambda: None, lambda _: False, CANCELLED)
        if found is None:
            raise OperationalError(FAILED)
        return found

    def keep(self, compiled: CompiledQuery, counts: Counts) -> None:
        """Keep a copy of the counts that an engine returned for a compiled query."""
        self._owner_process.check()
        with running_statement() as statement:
            if self._closed or statement.cancelled or statement.failed or statement.timed_out:
                return
        copy = KeptCopy.of(counts, self._limit)
        if copy is None:
            return
        entry = _Entry(Counted.of(compiled), copy)
        with self._lock:
            if self._closed or copy.size > self._limit:
                copy.wipe()
                return
            for number in [n for n, other in self._entries.items() if other.counted <= entry.counted]:
                self._drop(number)
            self._number += 1
            self._entries[self._number] = entry
            self._size += copy.size
            while self._size > self._limit:
                self._drop(next(iter(self._entries)))

    def _drop(self, number: int) -> None:
        entry = self._entries.pop(number)
        self._size -= entry.copy.size
        entry.copy.wipe()

    def close(self) -> None:
        """Drop everything, and keep nothing more; what no statement uses is overwritten with zeros."""
        if not self._owner_process.in_own_process:
            return
        with self._lock:
            self._closed = True
            for number in list(self._entries):
                self._drop(number)


@dataclass(frozen=True, slots=True)
class Counted:
    """What the columns of counts are; `a <= b` says that counts `a` can be taken from counts `b`."""

    shape: object
    """The rows and the groups, or the SQL of a query that is counted alone."""
    numbers: tuple[object, ...]
    places: tuple[str, ...]
    limit: int | None

    @classmethod
    def of(cls, compiled: CompiledQuery) -> Counted:
        """Return what a compiled query counts."""
        groups = compiled.groups
        if groups is None:
            return cls(compiled.sql, tuple(range(compiled.counts)), compiled.places, None)
        return cls((groups.shape, compiled.tables), groups.numbers, compiled.places, groups.limit)

    def __le__(self, other: Counted) -> bool:
        return (
            self.shape == other.shape
            and set(self.numbers) <= set(other.numbers)
            and set(self.places) <= set(other.places)
            and (self.limit or 0) <= (other.limit or 0)
        )

    def take(self, counts: Counts | KeptCopy, compiled: CompiledQuery) -> Counts:
        """Return the counts of a compiled query from these counts."""
        wanted = Counted.of(compiled)
        numbers = tuple(self.numbers.index(n) for n in wanted.numbers)
        order = None if compiled.order is None else compiled.order.terms
        return counts.take(Wanted(numbers, wanted.places, wanted.limit, compiled.certificate, order))


@dataclass(frozen=True, slots=True)
class _Entry:
    counted: Counted
    copy: KeptCopy

    def counts(self, compiled: CompiledQuery) -> Counts:
        """Return the counts of a compiled query."""
        return self.counted.take(self.copy, compiled)


def take_counts(counts: Counts, query: CompiledQuery, compiled: CompiledQuery) -> Counts:
    """Return the counts of a compiled query from those of a query that has them, too."""
    return Counted.of(query).take(counts, compiled)
