"""`KeptCounts`: exact counts of earlier statements, kept in the memory of the process that counted them.

They belong to the engines that counted them, so to one policy and one version of the data. They are never
written anywhere, and they are overwritten when they are dropped, unless a statement still uses them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsql.analysis import CompiledQuery
from dpsql.engines.protocol import Counts
from dpsql.engines.worker import run, running_statement
from dpsql.errors import OperationalError
from dpsql.kernel.charged_work import CANCELLED, FAILED
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
        if _size(counts) > self._limit:
            return
        entry = _Entry.of(Counted.of(compiled), counts)
        if entry is None:
            return
        with self._lock:
            if self._closed or entry.size > self._limit:
                entry.wipe()
                return
            for number in [n for n, other in self._entries.items() if other.counted <= entry.counted]:
                self._drop(number)
            self._number += 1
            self._entries[self._number] = entry
            self._size += entry.size
            while self._size > self._limit:
                self._drop(next(iter(self._entries)))

    def _drop(self, number: int) -> None:
        entry = self._entries.pop(number)
        self._size -= entry.size
        entry.wipe()

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


def taken(counts: Counts, query: CompiledQuery, compiled: CompiledQuery) -> Counts:
    """Return the counts of a compiled query from those of a query that has them, too."""
    return _taken(counts, Counted.of(query), compiled)


def _taken(counts: Counts, counted: Counted, compiled: CompiledQuery) -> Counts:
    wanted = Counted.of(compiled)
    return Counts(
        counts.keys.slice(0, wanted.limit),
        tuple(counts.n[counted.numbers.index(n)][: wanted.limit] for n in wanted.numbers),
        compiled.order,
        {name: counts.places[name] for name in wanted.places},
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    """Counts in memory of their own, of which every use is known: an array that reads it exports it."""

    counted: Counted
    keys: bytearray
    """The keys as an Arrow stream."""
    numbers: tuple[bytearray, ...]
    """The counts, as int64."""
    places: dict[str, bytearray]
    """The places, as int64."""

    @classmethod
    def of(cls, counted: Counted, counts: Counts) -> _Entry | None:
        """Copy counts; return None for keys that would come back as other ones."""
        keys = _written(counts.keys)
        made = cls(
            counted,
            keys,
            tuple(bytearray(np.ascontiguousarray(n).data) for n in counts.n),
            {name: bytearray(np.ascontiguousarray(n).data) for name, n in counts.places.items()},
        )
        read = _read(keys)
        if read.schema == counts.keys.schema and read.num_rows == counts.keys.num_rows:
            return made
        del read
        made.wipe()
        return None

    @property
    def size(self) -> int:
        """The bytes that it takes."""
        return sum(map(len, self._memory()))

    def counts(self, compiled: CompiledQuery) -> Counts:
        """Return the counts of a compiled query, as views of this memory."""
        numbers = tuple(map(_array, self.numbers))
        places = {name: _array(place) for name, place in self.places.items()}
        return _taken(Counts(_read(self.keys), numbers, None, places), self.counted, compiled)

    def wipe(self) -> None:
        """Overwrite the memory that nothing reads any more."""
        for memory in self._memory():
            wipe(memory)

    def _memory(self) -> tuple[bytearray, ...]:
        return self.keys, *self.numbers, *self.places.values()


def wipe(memory: bytearray) -> bool:
    """Overwrite memory with zeros unless something reads it; return whether it was overwritten."""
    if memory:
        try:
            memory.pop()  # refused while an array reads the memory; it does not move the rest
        except BufferError:
            return False
        np.frombuffer(memory, np.uint8)[:] = 0
    return True


def _array(memory: bytearray) -> NDArray[np.int64]:
    """Return the numbers in memory, as an array that cannot be written."""
    if not memory:
        return np.zeros(0, np.int64)
    return np.frombuffer(memoryview(memory).toreadonly(), np.int64)


def _size(counts: Counts) -> int:
    """Return the bytes that counts take, without copying them."""
    numbers = (*counts.n, *counts.places.values())
    return int(counts.keys.nbytes) + sum(n.nbytes for n in numbers)


def _written(keys: pa.Table) -> bytearray:
    """Write a table as an Arrow stream into memory of its own."""
    measured = pa.MockOutputStream()
    with pa.ipc.new_stream(measured, keys.schema) as writer:
        writer.write_table(keys)
    memory = bytearray(measured.size())
    with (
        pa.FixedSizeBufferWriter(pa.py_buffer(memory)) as sink,
        pa.ipc.new_stream(sink, keys.schema) as writer,
    ):
        writer.write_table(keys)
    return memory


def _read(keys: bytearray) -> pa.Table:
    """Return the table in an Arrow stream, without copying its columns."""
    return pa.ipc.open_stream(pa.py_buffer(keys)).read_all()
