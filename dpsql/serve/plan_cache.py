"""Plans of statements that were prepared before: analysed and compiled, without rows or prices."""

from __future__ import annotations

import re
import weakref
from dataclasses import field
from typing import TYPE_CHECKING

from dpsql.lazy_dataclass import dataclass
from dpsql.prepared import PreparedPublic
from dpsql.serve.fair_cache import FairCache
from dpsql.versions import settled

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from dpsql.database import Engines
    from dpsql.language import Options
    from dpsql.policy import View
    from dpsql.prepared import PreparedComposed, PreparedPrivate
    from dpsql.privacy import Filter

SIZE = 256
LONGEST = 16_384
"""The most characters of a text whose plan is kept."""

_CLOCK = re.compile(r"\b(now|today|current_\w+|local_?time\w*|transaction_timestamp)\b", re.IGNORECASE)
"""Words of functions that read the clock."""

Key = tuple[object, ...]


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

    @property
    def views(self) -> tuple[str, ...]:
        """The policy's views that it reads."""
        return self.prepared.views if isinstance(self.prepared, PreparedPublic) else self.prepared.query.views


def key(
    text: str, parameters: tuple[object, ...], defaults: Options, filters: tuple[Filter, ...] = ()
) -> Key:
    """Return the key of a statement: equal values of different types have different keys.

    `filters` are those of the scopes that are charged, by which a statement is laid out: analysts with
    another cap have other plans.
    """
    values = tuple((type(value).__name__, repr(value)) for value in parameters)
    return text, values, repr(defaults), filters


Description = tuple[tuple["pa.DataType", ...], "pa.Schema"]
"""The types of a statement's parameters, and the schema of its answers."""


class Descriptions:
    """The descriptions of statements that were given last, for the data on which they were made."""

    def __init__(self, size: int = 4 * SIZE) -> None:
        self._kept: FairCache[Key, tuple[weakref.ref[Engines], Description]] = FairCache(size)

    def __contains__(self, key: Key) -> bool:
        """Whether a description is kept, perhaps one that was made on other data."""
        return key in self._kept

    def get(self, key: Key, engines: Engines) -> Description | None:
        """Return the description that was made on these engines; None if there is none."""
        found = self._kept.get(key)
        return found[1] if found is not None and found[0]() is engines else None

    def put(self, key: Key, engines: Engines, description: Description, analyst: str) -> None:
        """Keep a description that an analyst has asked for."""
        self._kept.put(key, (weakref.ref(engines), description), analyst)


class PlanCache:
    """The plans that were used last, of one policy.

    A plan holds for the data on which it was made: under others it is forgotten when it is asked for.
    """

    def __init__(self, size: int = SIZE) -> None:
        self._kept: FairCache[Key, Planned] = FairCache(size)

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: Key) -> bool:
        """Whether a plan is kept, perhaps one that was made on other data."""
        return key in self._kept

    def get(self, key: Key, engines: Engines) -> Planned | None:
        """Return the plan that was made on these engines; None if there is none."""
        found = self._kept.get(key)
        if found is not None and found.engines is not engines:
            self._kept.forget(key, found)
            return None
        return found

    def put(self, key: Key, planned: Planned, views: Mapping[str, View], analyst: str) -> None:
        """Keep a plan that an analyst has caused to be made; `views` are the policy's.

        Not kept is one that may read the clock, or that was made on a file which was changed just before:
        such a file may change again without its times telling it.
        """
        texts = [str(key[0]), *(views[name].sql for name in planned.views)]
        if any(len(text) > LONGEST or _CLOCK.search(text) for text in texts):
            return
        if settled(planned.engines.stamps):
            self._kept.put(key, planned, analyst)
