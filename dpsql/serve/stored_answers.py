"""Answers that consist of stored releases, kept whole so that they need not be put together again.

Such an answer follows from the statement, from the releases and, where it joins them, from public tables. An
answer is given again only to the same analyst, on the same data, and while the ledger has the same releases.
"""

from __future__ import annotations

import weakref
from dataclasses import field, replace
from typing import TYPE_CHECKING

from dpsql.lazy_dataclass import dataclass
from dpsql.serve.answer import Encoded
from dpsql.serve.fair_cache import FairCache

if TYPE_CHECKING:
    from dpsql.database import Engines
    from dpsql.ledger import Ledger
    from dpsql.serve.answer import Answer
    from dpsql.serve.plan_cache import Key

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
