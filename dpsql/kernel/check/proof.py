"""One proof while it is made: the facts, the steps so far, the relations of queries that were proved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, NoReturn

from dpsql.kernel.check.certificate import NotCertified, Step
from dpsql.kernel.check.derive import ROWS, Rows, Scope
from dpsql.kernel.check.derive import bare as strip_parens
from dpsql.kernel.check.orders import conjuncts
from dpsql.kernel.check.relation import NONE, Names, Relation, name_of
from dpsql.kernel.check.totality import Checked
from dpsql.kernel.check.types_of import Number, Value, common, exact
from dpsql.kernel.check.values import value_of
from dpsql.kernel.facts import Facts
from dpsql.kernel.tree import (
    OPAQUE,
    Aggregate,
    Binary,
    Cast,
    Column,
    Constant,
    Expr,
    InQuery,
    Node,
    Paren,
    Query,
    Select,
    Source,
    Window,
    facts,
    parts,
    plain,
    walk,
)
from dpsql.types import SqlType


@dataclass(slots=True)
class Proof:
    """What is known so far, and how it was concluded.

    Attributes
    ----------
    facts
        What the owner declares.
    values
        The types and intervals of all expressions of the query.
    prove
        Derives the relation of a query.
    outer
        The relations of the queries around a subquery, the outermost first.
    selects
        The SELECTs around the node that is looked at, the outermost first.
    fitting
        Sums that do not overflow, since a unit adds little to each.
    path
        The names of the parts of the tree that lead to the node.
    """

    facts: Facts
    values: Checked
    prove: Callable[[Proof, Query], Relation]
    outer: list[Relation] = field(default_factory=list)
    selects: list[Select] = field(default_factory=list)
    path: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    known: dict[Query, Relation] = field(default_factory=dict)
    fitting: list[tuple[Scope, Node]] = field(default_factory=list)

    def sums_fit(self, expr: Expr, select: Select, low: Number, high: Number) -> None:
        """Record that all sums in an expression are of values between two ends, so that none overflows.

        They are of one row a unit.
        """
        if max(-low, high) * ROWS < 1 << 127:
            sums = (e for e in nodes_of_row(expr) if isinstance(e, Aggregate) and e.name == "SUM")
            self.fitting += [(self.values.scopes[select], each) for each in sums]

    def overflowing(self) -> Node | None:
        """Return a sum of which nothing shows that it does not overflow; None if there is none."""
        for scope, node in self.values.large:
            if not any(scope is other and node == found for other, found in self.fitting):
                return node
        return None

    def refuse(self, rule: str, node: Node | None = None) -> NoReturn:
        """Stop the proof: no rule derives what is needed."""
        raise NotCertified(rule, node)

    def note(self, rule: str, concludes: str) -> None:
        """Record a step of the proof, at the node that is looked at."""
        self.steps.append(Step(rule, concludes, ".".join(self.path)))

    def query(self, query: Query, part: str) -> Relation:
        """Return the relation of a query that is a part of the node that is looked at."""
        if not self.outer and query in self.known:
            return self.known[query]
        self.path.append(part)
        made = self.prove(self, query)
        self.path.pop()
        if not self.outer:
            self.known[query] = made
        return made

    def keeps(self, expr: Expr, other: Expr) -> bool:
        """Return whether different values of an expression differ where it is compared with another one."""
        if expr == other:
            return True
        return self.keeps_type(self._typed(expr), self._typed(other))

    def keeps_type(self, one: Value, other: Value) -> bool:
        """Return whether different values of a type differ where they are compared with those of another."""
        kind = common(one, other)
        return kind is not None and _injective(one.type, kind)

    def rows(self, query: Query) -> Rows:
        """Return what is known of all rows of a query, whosever they are."""
        return self.values.found[plain(query)]

    def _typed(self, expr: Expr) -> Value:
        """Return the type of an expression; that of a column is written in it, and the walk compared it."""
        if isinstance(expr, Column) and expr.type is not None:
            return Value(expr.type)
        return self.value(expr, self.selects[-1])

    def unique(self, query: Query) -> frozenset[Names]:
        """Return the sets of columns that are unique in the result of a query, of several rows or one."""
        rows = self.rows(query)
        named = frozenset(s for s in rows.unique if all(name[0] != "#" for name in s))
        return named | {NONE} if rows.single else named

    def value(self, expr: Expr, select: Select) -> Value:
        """Return the type and the interval of an expression of a SELECT."""
        return value_of(expr, self.values.scopes[select])


def some(number: int, noun: str) -> str:
    """Write a number as all numbers of a proof are, with its noun.

    >>> some(1, "group"), some(1200, "row")
    ('1 group', '1,200 rows')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _injective(one: SqlType, other: SqlType) -> bool:
    """Return whether a conversion between types has a different value for each."""
    if one == other or one.name == "NULL" or (exact(one) and (exact(other) or other.name == "DECIMAL")):
        return True
    pair = (one.name, other.name)
    if pair in (("ENUM", "VARCHAR"), ("DATE", "TIMESTAMP")):
        return True
    return other.name == "DOUBLE" and one.integer and one.bits <= 32


def is_null(expr: Expr) -> bool:
    """Return whether an expression is the constant NULL."""
    while isinstance(expr, (Paren, Cast)):
        expr = expr.inner if isinstance(expr, Paren) else expr.operand
    return isinstance(expr, Constant) and expr.value is None


EQUAL = frozenset({"=", "IS NOT DISTINCT FROM"})


def equalities(conditions: list[Expr]) -> Iterator[tuple[Expr, Expr, bool]]:
    """Return what conditions equate, both ways, and whether NULL equals NULL there."""
    for condition in conditions:
        if isinstance(condition, Binary) and condition.operator in EQUAL:
            null = condition.operator != "="
            left, right = strip_parens(condition.left), strip_parens(condition.right)
            yield left, right, null
            yield right, left, null


def nodes_of_row(expr: Expr) -> Iterator[Expr]:
    """Return the expressions of which an expression is made, without those in its subqueries."""
    waiting: list[Node] = [expr]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Expr):
            yield node
        waiting += [part for part in parts(node) if not isinstance(part, (Query, Source))]


class Traits(NamedTuple):
    """What an expression has among its nodes, those of its subqueries aside.

    It is the same for all equal expressions, so it has no nodes: those of an equal expression of another
    query may have columns of other types.
    """

    aggregates: bool
    """Whether it aggregates rows, beside in windows."""
    windows: bool
    subqueries: bool
    reads: Names
    """The columns that it reads, also in subqueries."""
    bare: Names
    """The columns that it reads without the name of an item of FROM, beside in subqueries."""


_LEAVES = (Column, Constant)


@lru_cache(maxsize=16384)
def _traits(expr: Expr) -> Traits:
    aggregates = windows = subqueries = False
    bare: set[str] = set()
    waiting: list[tuple[Node, bool]] = [(expr, False)]
    while waiting:
        node, inside = waiting.pop()
        if isinstance(node, _LEAVES):
            if isinstance(node, Column) and not node.table:
                bare.add(name_of(node))
            continue
        if isinstance(node, Window):
            windows = inside = True
        elif isinstance(node, Aggregate):
            aggregates |= not inside
        for part in parts(node):
            if isinstance(part, Query):
                if not isinstance(node, Expr):
                    raise NotCertified("a query in what is no expression", node)
                subqueries = True
            elif not isinstance(part, Source):
                waiting.append((part, inside))
    reads = facts(expr).reads
    if OPAQUE in reads:
        reads = frozenset(name_of(node) for node in walk(expr) if isinstance(node, Column))
    return Traits(aggregates, windows, subqueries, reads, frozenset(bare))


def has_aggregate(expr: Expr) -> bool:
    """Return whether an expression aggregates the rows of its query, beside in windows."""
    return not isinstance(expr, _LEAVES) and _traits(expr).aggregates


def has_window(expr: Expr) -> bool:
    """Return whether an expression has a window function, beside those in subqueries."""
    return not isinstance(expr, _LEAVES) and _traits(expr).windows


def subqueries(expr: Expr) -> list[tuple[Expr, Query]]:
    """Return the subqueries of an expression, but not those in them, with the nodes that have them."""
    found: list[tuple[Expr, Query]] = []
    waiting: list[Node] = [] if isinstance(expr, _LEAVES) or not _traits(expr).subqueries else [expr]
    while waiting:
        node = waiting.pop()
        for part in parts(node):
            if isinstance(part, Query) and isinstance(node, Expr):
                found.append((node, part))
            elif not isinstance(part, Source):
                waiting.append(part)
    return found


def bare_columns(expr: Expr) -> Names:
    """Return the columns that an expression names without their item of FROM, beside in subqueries."""
    if isinstance(expr, Column):
        return NONE if expr.table else frozenset((name_of(expr),))
    return NONE if isinstance(expr, Constant) else _traits(expr).bare


def reads_of(expr: Expr) -> Names:
    """Return all columns that an expression reads, also in subqueries."""
    found = facts(expr).reads
    return found if OPAQUE not in found else _traits(expr).reads


def operand_in(expr: Expr) -> Expr | None:
    """Return what is looked up in a subquery by IN; None for other expressions."""
    return strip_parens(expr.operand) if isinstance(expr, InQuery) else None


__all__ = [
    "NONE",
    "Proof",
    "bare_columns",
    "conjuncts",
    "equalities",
    "has_aggregate",
    "has_window",
    "is_null",
    "nodes_of_row",
    "operand_in",
    "reads_of",
    "strip_parens",
    "subqueries",
]
