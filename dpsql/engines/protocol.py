"""What engines return: exact counts, or one of few constant messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpsql.errors import InternalError, OperationalError
from dpsql.order import OrderedCounts

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from dpsql.analysis import PublicOrder


FAILED = "the engine could not finish the statement; its charge is kept"
"""The one message of every failure at run time: a message that depended on data would disclose it."""


CANCELLED = "the statement was cancelled; its charge is kept"
UNCHARGED = "the statement was cancelled; nothing was charged"


class Cancelled(OperationalError):  # noqa: N818  an event, as `KeyboardInterrupt`
    """The analyst cancelled the statement from another thread. It is no failure; its charge is kept."""


class Untranslatable(Exception):  # noqa: N818  a refusal of the statement for this engine
    """The engine cannot run a part of the statement with DuckDB's result on every value.

    It is raised before anything is charged. `hint` says what to write instead.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Counts:
    """Exact counts of the candidate groups before noise; they are never shown and never stored.

    `keys` has the columns `k0`, ...; `n` has one int64 array for each count, all of the same length.

    `order` is the order proof of the compiled query. Without it the order of rows depends on private rows:
    a mechanism may use the position of a count to find its key again, and for nothing else.
    """

    keys: pa.Table
    n: tuple[NDArray[np.int64], ...]
    order: PublicOrder | None

    def in_order(self, place: int) -> OrderedCounts:
        """Return one count of every group for a mechanism whose output depends on positions."""
        self._need_order()
        return OrderedCounts(self.n[place])

    def rows_in_order(self) -> NDArray[np.int64]:
        """Return the positions of all groups, for a release of the groups in this order."""
        self._need_order()
        return np.arange(self.keys.num_rows, dtype=np.int64)

    def _need_order(self) -> None:
        if self.order is None:
            raise InternalError("these counts have no public order")
