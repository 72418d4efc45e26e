"""Copies of exact counts in memory of their own, which is overwritten when they are dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpsql.kernel.changes import UnitChanges
from dpsql.kernel.counts import Counts, Exact, Wanted, exact
from dpsql.kernel.sealed import Sealed, seal, unseal
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


class KeptCopy(Sealed):
    """A sealed copy of counts, of which every use is known: an array that reads its memory exports it."""

    __slots__ = ()

    @classmethod
    def of(cls, counts: Counts, limit: int) -> KeptCopy | None:
        """Copy counts; None if they take more than so many bytes, or keys would come back as other ones."""
        found = exact(counts)
        return cls.of_numbers(found.keys, found.n, found.places, limit)

    @classmethod
    def of_numbers(
        cls,
        keys: pa.Table,
        numbers: Sequence[NDArray[np.int64]],
        places: Mapping[str, NDArray[np.int64]],
        limit: int,
    ) -> KeptCopy | None:
        """Copy keys, numbers and places of groups into memory that is overwritten, or None: too large."""
        if int(keys.nbytes) + sum(n.nbytes for n in (*numbers, *places.values())) > limit:
            return None
        written = _written(keys)
        memory = _Memory(written, tuple(map(_copy, numbers)), {k: _copy(n) for k, n in places.items()})
        read = _read(written)
        if read.schema == keys.schema and read.num_rows == keys.num_rows:
            return seal(cls(), memory)
        del read
        memory.wipe()
        return None

    @property
    def size(self) -> int:
        """The bytes that the copy takes, for the limit of the process alone."""
        return sum(map(len, _memory_of(self).parts()))

    def take(self, wanted: Wanted) -> Counts:
        """Return the `wanted` counts of this copy, as views of its memory that cannot be written."""
        memory = _memory_of(self)
        placed = {name: _array(place) for name, place in memory.places.items()}
        n = tuple(map(_array, memory.numbers))
        every = Exact(_read(memory.keys), n, UnitChanges(()), None, placed)
        return seal(Counts(), every.take(wanted))

    def wipe(self) -> None:
        """Overwrite the memory that nothing reads any more."""
        _memory_of(self).wipe()


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class _Memory:
    keys: bytearray
    """The keys as an Arrow stream."""
    numbers: tuple[bytearray, ...]
    """The counts, as int64."""
    places: dict[str, bytearray]
    """The places, as int64."""

    def parts(self) -> tuple[bytearray, ...]:
        """Return all memory of the copy: keys, counts and places."""
        return self.keys, *self.numbers, *self.places.values()

    def wipe(self) -> None:
        """Overwrite the memory that nothing reads any more."""
        for part in self.parts():
            wipe(part)


def _memory_of(copy: KeptCopy) -> _Memory:
    found: _Memory = unseal(copy)
    return found


def open_numbers(copy: KeptCopy) -> list[NDArray[np.int64]]:
    """Return the numbers of a copy as views of its memory that can be written: for the kernel alone."""
    return [np.frombuffer(n or bytearray(), np.int64) for n in _memory_of(copy).numbers]


def wipe(memory: bytearray) -> bool:
    """Overwrite memory with zeros unless something reads it; return whether it was overwritten."""
    if memory:
        try:
            memory.pop()  # refused while an array reads the memory; it does not move the rest
        except BufferError:
            return False
        np.frombuffer(memory, np.uint8)[:] = 0
    return True


def _copy(numbers: NDArray[np.int64]) -> bytearray:
    return bytearray(np.ascontiguousarray(numbers).data)


def _array(memory: bytearray) -> NDArray[np.int64]:
    """Return the numbers in memory, as an array that cannot be written."""
    if not memory:
        return np.zeros(0, np.int64)
    return np.frombuffer(memoryview(memory).toreadonly(), np.int64)


def _written(keys: pa.Table) -> bytearray:
    """Write a table as an Arrow stream into memory of its own."""
    import pyarrow as pa  # noqa: PLC0415  loaded when rows are

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
    import pyarrow as pa  # noqa: PLC0415  loaded when rows are

    return pa.ipc.open_stream(pa.py_buffer(keys)).read_all()
