"""What every engine offers: exact counts of a compiled query, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dpsql.errors import InternalError, OperationalError
from dpsql.order import OrderedCounts

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from dpsql.analysis import CompiledQuery, PublicOrder

__all__ = [
    "CANCELLED",
    "FAILED",
    "UNCHARGED",
    "Cancelled",
    "Counts",
    "Engine",
    "Untranslatable",
    "length_check_key",
]

FAILED = "the engine could not finish the statement; its charge is kept"
"""All an analyst learns of a failure at run time: whether it depends on data must not be told."""


CANCELLED = "the statement was cancelled; its charge is kept"
UNCHARGED = "the statement was cancelled; nothing was charged"


class Cancelled(OperationalError):  # noqa: N818  what happened, as `KeyboardInterrupt`
    """Another thread of the analyst's stopped the statement: no failure, but what was charged stays so."""


class Untranslatable(Exception):  # noqa: N818  it is no error: the statement is refused for this engine
    """The engine cannot do a part of the statement with DuckDB's meaning on every value.

    Raised before anything is charged; `hint` says what would do.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def length_check_key(table: str) -> str:
    """Name what the ledger remembers of a table whose values are all within the limit on their length."""
    return f"{table}\nlengths"  # no name of a table has a line break


@dataclass(frozen=True, slots=True)
class Counts:
    """Exact counts of the candidate groups, before any noise: never shown, never stored.

    `keys` has the columns `k0`, ...; `n` is one int64 array a count, all of the same length.

    Engines hand on the `order` of the compiled query. Without it the rows stand in an order that depends on
    private rows: a mechanism may use the position of a count to find its key again, and for nothing else.
    """

    keys: pa.Table
    n: tuple[NDArray[np.int64], ...]
    order: PublicOrder | None

    def in_order(self, place: int) -> OrderedCounts:
        """Return one count of every group for a mechanism whose output depends on positions."""
        self._need_order()
        return OrderedCounts(self.n[place])

    def rows_in_order(self) -> NDArray[np.int64]:
        """Return the positions of all groups, to release the groups in the order they stand in."""
        self._need_order()
        return np.arange(self.keys.num_rows, dtype=np.int64)

    def _need_order(self) -> None:
        if self.order is None:
            raise InternalError("these counts have no public order")


class Engine(Protocol):
    """A private engine: holds the owner's data, locked down, and runs compiled queries alone."""

    def translate(self, compiled: CompiledQuery) -> str:
        """Return the text that `count` will run, for people.

        Raises `Untranslatable` where the engine cannot do a part of it with DuckDB's meaning on every value:
        the statement is refused, and nothing is charged.
        """

    def count(self, compiled: CompiledQuery) -> Counts:
        """Run the counting SQL; any engine error becomes one constant `OperationalError`."""

    def vet(self, table: str) -> bool:
        """Read a private table once, through its declared types and vouched facts; False if it fails."""

    def within_length_limit(self, table: str) -> bool:
        """Whether vetting has seen no value of a private table beyond the limit: its scan need not test."""

    def assume_within_length_limit(self, table: str, short: bool) -> None:
        """Say what an earlier vetting of the same data has seen; no answer depends on it, only speed."""

    def cancel(self) -> None:
        """Stop what runs, from another thread."""

    def close(self) -> None:
        """Let go of the data."""
