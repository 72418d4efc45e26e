"""What is kept of the statements of one policy: plans, descriptions, answers that consist of stored releases.

A plan is analysed and compiled, without rows or prices. Plans and descriptions hold for the data on which
they were made. An answer follows from the statement, from the releases and, where it joins them, from public
tables: it is given again only to the same analyst, on the same data, and while the ledger has the same
releases.
"""

from __future__ import annotations

import weakref
from dataclasses import field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from dpsql.fair_cache import FairCache
from dpsql.kept_plans import Key, holds_later
from dpsql.lazy_dataclass import dataclass
from dpsql.serve.answer import Encoded

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from dpsql.database import Engines
    from dpsql.ledger import Ledger
    from dpsql.policy import View
    from dpsql.prepared import PreparedComposed, PreparedPrivate, PreparedPublic
    from dpsql.serve.answer import Answer

PLANS, DESCRIPTIONS = 256, 1024
"""The most plans and descriptions that are kept of a policy."""
MOST = 1024
MOST_BYTES = 32 << 20
"""The most answers, and bytes of them, that are kept of a policy."""
SMALL = 1 << 20
"""The most bytes of an answer that is kept among these, with its rows as they were sent."""
LARGE_BYTES = 128 << 20
LARGEST = 64 << 20
"""The most bytes of larger answers together, which displace no small ones, and of each of them."""
_FIXED = 4096
"""Bytes that an answer takes beside its rows."""

_Value = TypeVar("_Value")


@dataclass(eq=False, slots=True)
class Planned:
    """A prepared statement, whose price is not looked at, and what is found out about it later."""

    prepared: PreparedPrivate | PreparedComposed | PreparedPublic
    names_epsilon: bool | None = None
    """Whether the text itself says what may be charged; None: not known yet."""
    schema: pa.Schema | None = field(default=None, repr=False)
    """The columns of its answers; None: not known yet."""

    @property
    def engines(self) -> Engines:
        """The engines on which it was prepared."""
        return self.prepared.engines

    def may_be_kept(self, text: str, views: Mapping[str, View]) -> bool:
        """Return whether the plan of a text holds for other times; `views` are the policy's."""
        return holds_later(self.prepared, text, views)


Description = tuple[tuple["pa.DataType", ...], "pa.Schema"]
"""The types of a statement's parameters, and the schema of its answers."""


class DataCache(Generic[_Value]):
    """The values of statements that were used last, each for the data on which it was made."""

    def __init__(self, size: int) -> None:
        self._kept: FairCache[Key, tuple[weakref.ref[Engines], _Value]] = FairCache(size)

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: Key) -> bool:
        """Whether a value is kept, perhaps one that was made on other data."""
        return key in self._kept

    def get(self, key: Key, engines: Engines) -> _Value | None:
        """Return the value that was made on these engines; None, and forget another one, if there is none."""
        found = self._kept.get(key)
        if found is not None and found[0]() is not engines:
            self._kept.forget(key, found)
            return None
        return None if found is None else found[1]

    def put(self, key: Key, engines: Engines, value: _Value, analyst: str) -> None:
        """Keep a value that an analyst has caused to be made."""
        self._kept.put(key, (weakref.ref(engines), value), analyst)


@dataclass(frozen=True, slots=True)
class _Kept:
    answer: Answer
    engines: weakref.ref[Engines]
    """The engines on whose public tables it was computed, which are not kept open for it."""
    keys: tuple[str, ...] = field(repr=False)
    numbers: tuple[int, ...]
    """The keys of its releases and their numbers in the ledger."""


class StoredAnswers:
    """The stored answers of one policy that were given last; any thread may use it."""

    def __init__(self, entries: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._kept: FairCache[Key, _Kept] = FairCache(entries, most_bytes)
        self._large: FairCache[Key, _Kept] = FairCache(entries, LARGE_BYTES)

    def __len__(self) -> int:
        return len(self._kept) + len(self._large)

    def get(self, key: Key, analyst: str, engines: Engines, ledger: Ledger) -> Answer | None:
        """Return the answer to a statement; None if it is not kept, or does not hold any more."""
        whole = (*key, analyst)
        kept = self._kept.get(whole) or self._large.get(whole)
        if kept is None:
            return None
        if kept.engines() is engines and ledger.numbers(kept.keys, analyst) == kept.numbers:
            return kept.answer
        self._kept.forget(whole, kept)
        self._large.forget(whole, kept)
        return None

    def put(self, key: Key, analyst: str, engines: Engines, keys: tuple[str, ...], answer: Answer) -> Answer:
        """Keep an answer that consists of the releases under these keys; return it as it is kept."""
        release = answer.release
        if release is None:
            return answer
        parts = release.parts or (release,)
        numbers = tuple(part.number for part in parts if part.number is not None and part.reused is not None)
        rows = answer.table.nbytes + release.table.nbytes + sum(part.table.nbytes for part in release.parts)
        size, room = _FIXED + rows, _FIXED + 4 * answer.table.nbytes
        if len(numbers) < len(parts) or len(keys) != len(parts) or size > LARGEST:
            return answer
        if size + room > SMALL:
            entry = _Kept(answer, weakref.ref(engines), keys, numbers)
            self._large.put((*key, analyst), entry, analyst, size)
            return answer
        kept = replace(answer, encoded=Encoded(room))
        entry = _Kept(kept, weakref.ref(engines), keys, numbers)
        self._kept.put((*key, analyst), entry, analyst, size + room)
        return kept
