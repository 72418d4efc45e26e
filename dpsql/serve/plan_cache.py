"""Plans of statements that were prepared before: analysed and compiled, without rows or prices."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dpsql.prepared import PreparedPublic
from dpsql.versions import settled

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from dpsql.database import Engines
    from dpsql.language import Options
    from dpsql.policy import View
    from dpsql.prepared import PreparedComposed, PreparedPrivate

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
        if isinstance(self.prepared, PreparedPublic):
            return self.prepared.engines
        return self.prepared.parts[0].counting.engines

    @property
    def views(self) -> tuple[str, ...]:
        """The policy's views that it reads."""
        return self.prepared.views if isinstance(self.prepared, PreparedPublic) else self.prepared.query.views


def key(text: str, parameters: tuple[object, ...], defaults: Options) -> Key:
    """Return the key of a statement: equal values of different types have different keys."""
    values = tuple((type(value).__name__, repr(value)) for value in parameters)
    return text, values, repr(defaults)


class PlanCache:
    """The plans that were used last, of one policy.

    A plan holds for the data on which it was made: under others it is forgotten when it is asked for.
    """

    def __init__(self, size: int = SIZE) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, Planned] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Key, engines: Engines) -> Planned | None:
        """Return the plan that was made on these engines; None if there is none."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            if found.engines is not engines:
                del self._kept[key]
                return None
            self._kept.move_to_end(key)
            return found

    def put(self, key: Key, planned: Planned, views: Mapping[str, View]) -> None:
        """Keep a plan, in the place of the one that was used longest ago; `views` are the policy's.

        Not kept is one that may read the clock, or that was made on a file which was changed just before:
        such a file may change again without its times telling it.
        """
        texts = [str(key[0]), *(views[name].sql for name in planned.views)]
        if any(len(text) > LONGEST or _CLOCK.search(text) for text in texts):
            return
        if not settled(planned.engines.stamps):
            return
        with self._lock:
            self._kept[key] = planned
            self._kept.move_to_end(key)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
