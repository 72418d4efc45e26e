"""Public domains of group keys: the values a key may take, computed from public data only."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from dpsql.analysis.expressions import listed
from dpsql.analysis.typed import KeyDomain
from dpsql.lazy_dataclass import dataclass
from dpsql.tree import (
    Column,
    Constant,
    Expr,
    IsNull,
    Item,
    Join,
    Select,
    Source,
    Values,
)
from dpsql.types import BOOLEAN, INTEGER

_BOTH = Values(tuple((Constant(bool(i), BOOLEAN), Constant(i, INTEGER)) for i in (0, 1)), "r", ("v", "o"))
BOOLEANS = KeyDomain(
    Select((Item(Column("", "v")), Item(Column("", "o"))), _BOTH), ordered=True, origin="FALSE and TRUE"
)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The combinations of values that some keys can take together: columns `v0`, `v1`, .. of the domain.

    Of one key the column is `v`.
    """

    keys: tuple[int, ...]
    """The places of the keys in GROUP BY."""
    domain: KeyDomain

    def columns(self, table: str) -> dict[int, Column]:
        """Return the column of each key."""
        if len(self.keys) == 1:
            return {self.keys[0]: Column(table, "v")}
        return {key: Column(table, f"v{i}") for i, key in enumerate(self.keys)}


def listed_values(values: Sequence[Expr]) -> KeyDomain:
    """Return the domain that consists of the literals of an IN list."""
    return KeyDomain(
        listed(values, IsNull(Column("", "v"), negated=True)), ordered=True, origin="the IN list"
    )


def distinct_values(value: Expr, source: Source, origin: str) -> KeyDomain:
    """Return the domain that consists of the values of an expression over public rows."""
    query = Select((Item(value, "v"),), source, IsNull(value, negated=True), distinct=True)
    return KeyDomain(query, origin=origin)


def cross_join(sources: Sequence[Source]) -> Source:
    """Return all combinations of the rows of several sources."""
    return reduce(lambda left, right: Join(left, "CROSS", right), sources)
