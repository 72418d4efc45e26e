"""A cache of limited size: when it is full, it evicts from the owner who fills most of it."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from dpsql.lazy_dataclass import dataclass

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class _Entry(Generic[_Value]):
    value: _Value
    owner: str
    size: int


class FairCache(Generic[_Key, _Value]):
    """A cache of a limited size; any thread may use it.

    When it is full, the owner who takes most of it loses what was used longest ago: so nobody can displace
    what others use by filling it.
    """

    def __init__(self, entries: int, most_bytes: int | None = None) -> None:
        self._most = entries
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, _Entry[_Value]] = OrderedDict()
        self._counts: Counter[str] = Counter()
        """The entries of each owner."""
        self._sizes: Counter[str] = Counter()
        """The bytes of each owner's entries."""

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: _Key) -> bool:
        return key in self._kept

    def get(self, key: _Key) -> _Value | None:
        """Return the value that is kept under a key; None if there is none."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found.value

    def put(self, key: _Key, value: _Value, owner: str, size: int = 0) -> None:
        """Keep a value of a given number of bytes, unless it alone is larger than all may be."""
        if self._most_bytes is not None and size > self._most_bytes:
            return
        with self._lock:
            self._drop(key)
            self._kept[key] = _Entry(value, owner, size)
            self._counts[owner] += 1
            self._sizes[owner] += size
            while len(self._kept) > self._most:
                self._drop_oldest(self._counts)
            while self._most_bytes is not None and self._sizes.total() > self._most_bytes:
                self._drop_oldest(self._sizes)

    def forget(self, key: _Key, value: _Value) -> None:
        """Drop a value, if it is still the one that is kept under a key."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None and found.value is value:
                self._drop(key)

    def clear(self) -> None:
        """Drop all entries of all clients."""
        with self._lock:
            self._kept.clear()
            self._counts.clear()
            self._sizes.clear()

    def _drop_oldest(self, taken: Counter[str]) -> None:
        """Drop the oldest entry of an owner who takes most of the cache."""
        most = max(taken.values())
        self._drop(next(key for key, entry in self._kept.items() if taken[entry.owner] == most))

    def _drop(self, key: _Key) -> None:
        found = self._kept.pop(key, None)
        if found is None:
            return
        self._counts[found.owner] -= 1
        self._sizes[found.owner] -= found.size
        if not self._counts[found.owner]:
            del self._counts[found.owner], self._sizes[found.owner]
