"""What engines return: exact counts, or one of few constant messages."""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING

from dpsql.engines.ordering import sorted_cells, sorted_rows
from dpsql.errors import InternalError, Unknown
from dpsql.kernel.order import OrderedCounts
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from dpsql.analysis import PublicOrder
    from dpsql.engines.ordering import Term


UNCHARGED = "the statement was cancelled; nothing was charged"
KEPT = "the statement was cancelled; what it released is stored, and costs nothing when it is asked again"


class Untranslatable(Exception):  # noqa: N818  a refusal of the statement for this engine
    """The engine cannot run a part of the statement with DuckDB's result on every value.

    It is raised before anything is charged. `hint` says what to write instead.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UnboundQuery(Exception):  # noqa: N818  a refusal of the statement
    """A query over released rows names or types something that is not there; nothing was charged."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def missing(self) -> tuple[Unknown, str]:
        """What is named and does not exist, and its name; empty texts if that is not the reason."""
        for what, pattern in _MISSING.items():
            found = pattern.search(self.message)
            if found is not None:
                return what, found[1]
        return "", ""


_MISSING: dict[Unknown, re.Pattern[str]] = {
    "column": re.compile(r'(?:Referenced column|does not have a column named) "([^"\n]{1,100})"'),
    "function": re.compile(r"Function with name \"?([^\"\s]{1,100})\"? does not exist"),
    "table": re.compile(r"Table with name \"?([^\"\s!]{1,100})\"? does not exist"),
}
"""How DuckDB reports a name that does not exist, by what the name would mean."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Exact counts of the candidate groups before noise; they are never shown and never stored.

    `keys` has the columns `k0`, ...; `n` has one int64 array for each count, all of the same length.

    Rows come as the engine returned them, and their order may depend on private rows: a position serves to
    find a key again, and for nothing else. `order` names the public values that the groups are sorted by
    here: keys, or `places`, the columns `o0`, ... of their places in their domains. None: there is no order.
    """

    keys: pa.Table
    n: tuple[NDArray[np.int64], ...]
    order: PublicOrder | None
    places: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    def _terms(self) -> list[Term]:
        if self.order is None:
            raise InternalError("these counts have no public order")
        return [
            (self.places[name] if name in self.places else self.keys.column(name), descending)
            for name, descending in self.order.terms
        ]

    def in_order(self, place: int) -> tuple[NDArray[np.int64], OrderedCounts]:
        """Return the positions of all groups in the public order, and one of their counts in this order.

        The counts are for a mechanism whose output depends on the order.
        """
        rows = self.rows_in_order()
        return rows, OrderedCounts(self.n[place][rows])

    def rows_in_order(self) -> NDArray[np.int64]:
        """Return the positions of all groups in the public order; groups that are equal in it are refused."""
        rows = sorted_rows(len(self.n[0]), self._terms())
        if rows is None:
            raise InternalError("two groups have the same place")
        return rows

    def cells_in_order(self, *, public: bool = True) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions of all rows by group, in the public order, and by cell.

        Return also where in that order each group begins. The cells of a group are private, and `n` has them.
        If the groups are not `public`, they come by their keys, and that order says nothing.
        """
        terms = self._terms() if public else [(column, False) for column in self.keys.columns]
        return sorted_cells(len(self.n[0]), terms, self.n[0])
