"""What is known of the values of a query: types, exact intervals, NULL; that no row makes it fail; determinism.

This is the second, independent proof of what `dpsql.kernel.tree.guards` ensures when a query is made.

`check_total` walks a whole query once, innermost first. It proves that the query fails on no rows and that its
result is a function of the rows as a set, and returns what is known of every column. `value_of` derives one
expression in the scope of its query. What no rule derives is refused with `NotCertified(rule, node)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpsql.kernel.facts import Facts
from dpsql.kernel.tree import Expr, Query, Select, Source
from dpsql.types import SqlType

INFINITY = float("inf")
"""The end of an interval that has none; only ends that are infinite are floats."""

ROWS = (1 << 48) - 1
"""The assumption: no relation that an engine makes has more rows. At a row each nanosecond it takes 78 hours."""

Number = int | Fraction | float


@dataclass(frozen=True, slots=True)
class Value:
    """What is known of an expression, for all data.

    Attributes
    ----------
    type
        Its type as the engine has it, so that of an instant in a query is TIMESTAMP.
    low, high
        Where it is not NULL (and not NaN), a number is between these; of what is no number they are infinite.
    nullable
        Whether it can be NULL.
    canonical
        Whether equal values are the same: a DOUBLE has one zero and one NaN. Always true without DOUBLEs.
    """

    type: SqlType
    low: Number = -INFINITY
    high: Number = INFINITY
    nullable: bool = True
    canonical: bool = True


@dataclass(frozen=True, slots=True)
class Rows:
    """What is known of the rows of a query or of an item of FROM.

    Attributes
    ----------
    columns
        Its columns by name, in order.
    unique
        Sets of column names in which no two rows are equal (NULL is a value like any other).
    most
        At most so many rows.
    """

    columns: dict[str, Value]
    unique: frozenset[frozenset[str]] = frozenset()
    most: int = ROWS


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that expressions of one query can read, by the alias of their item of FROM and their name."""

    items: dict[str, Rows]
    outer: Scope | None = None
    """The scope of the query around a subquery."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A query that is proved total and deterministic; `scopes` has those of all SELECTs in it, by node."""

    rows: Rows
    scopes: dict[Select, Scope]

    def value(self, expr: Expr, select: Select) -> Value:
        """Return what is known of an expression of one of the query's SELECTs."""
        return value_of(expr, self.scopes[select])


def check_total(query: Query, facts: Facts) -> Checked:
    """Prove that a query fails on no rows and that its result depends on no order of rows; refuse it if not."""
    raise NotImplementedError


def scope_of(source: Source | None, facts: Facts, outer: Scope | None = None) -> Scope:
    """Return the scope of the expressions of a query that reads an item of FROM."""
    raise NotImplementedError


def value_of(expr: Expr, scope: Scope) -> Value:
    """Return what is known of an expression; refused if it can fail on a row or no rule derives it."""
    raise NotImplementedError
