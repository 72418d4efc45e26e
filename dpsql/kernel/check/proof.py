"""One proof while it is made: the facts, the steps so far, the relations of queries that were proved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from dpsql.kernel.check.certificate import NotCertified, Step
from dpsql.kernel.check.derive import ROWS, Scope
from dpsql.kernel.check.derive import bare as strip_parens
from dpsql.kernel.check.relation import NONE, Names, Relation, name_of
from dpsql.kernel.check.totality import Checked
from dpsql.kernel.check.types_of import Number, Value, common, ends, exact
from dpsql.kernel.check.values import value_of
from dpsql.kernel.facts import Facts
from dpsql.kernel.tree import (
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
    Try,
    Unary,
    Window,
    parts,
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
    known: dict[int, Relation] = field(default_factory=dict)
    """By the identity of the query: an equal one may have columns of other types."""
    fitting: list[tuple[Scope, Node]] = field(default_factory=list)

    def sum_fits(self, node: Node, select: Select, low: Number, high: Number) -> None:
        """Record that a sum of one row a unit is of values between two ends, so that it does not overflow."""
        if max(-low, high) * ROWS < 1 << 127:
            self.fitting.append((self.values.scope_of(select), node))

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
        made = None if self.outer else self.known.get(id(query))
        if made is None:
            self.path.append(part)
            made = self.prove(self, query)
            self.path.pop()
            if not self.outer:
                self.known[id(query)] = made
        return made

    def keeps(self, expr: Expr, other: Expr) -> bool:
        """Return whether different values of an expression differ where it is compared with another one."""
        if expr == other:
            return True
        one, two = self._typed(expr), self._typed(other)
        kind = one.type if one.type is two.type else common(one, two)
        return kind is not None and _injective(one.type, kind)

    def _typed(self, expr: Expr) -> Value:
        """Return the type of an expression; that of a column is written in it, and the walk compared it."""
        if isinstance(expr, Column) and expr.type is not None:
            return Value(expr.type)
        return self.value(expr, self.selects[-1])

    def value(self, expr: Expr, select: Select) -> Value:
        """Return the type and the interval of an expression of a SELECT."""
        return value_of(expr, self.values.scope_of(select))


def _injective(one: SqlType, other: SqlType) -> bool:
    """Return whether a conversion between types has a different value for each."""
    if one == other or one.name == "NULL" or (exact(one) and (exact(other) or other.name == "DECIMAL")):
        return True
    pair = (one.name, other.name)
    if pair in (("ENUM", "VARCHAR"), ("DATE", "TIMESTAMP")):
        return True
    return other.name == "DOUBLE" and one.integer and one.bits <= 32


def strip_casts(expr: Expr) -> Expr:
    """Return an expression without parentheses and conversions between numbers around it.

    What is left has the same value wherever the conversion does not make NULL of it.
    """
    while True:
        if isinstance(expr, Paren):
            expr = expr.inner
        elif isinstance(expr, Try) or (isinstance(expr, Cast) and _is_wide(expr)):
            expr = expr.operand
        else:
            return expr


def strip_wide_casts(expr: Expr) -> Expr:
    """Return an expression without parentheses and conversions to 64 bits or more around it."""
    while True:
        if isinstance(expr, Paren):
            expr = expr.inner
        elif isinstance(expr, Cast) and (_is_wide(expr)):
            expr = expr.operand
        else:
            return expr


def _is_wide(cast: Cast) -> bool:
    """Return whether a conversion is to whole numbers of 64 bits or more, with a sign."""
    return cast.type.name == "HUGEINT" or (cast.type.integer and cast.type.bits == 64 and cast.type.signed)


def is_whole(cast: Cast) -> bool:
    """Return whether a conversion is to whole numbers."""
    return cast.type.integer or cast.type.name == "HUGEINT"


def whole_number(expr: Expr) -> int | None:
    """Return the value of a constant whole number; None for other expressions."""
    match expr:
        case Constant(value) if type(value) is int:
            return value
        case Paren(inner):
            return whole_number(inner)
        case Unary("-", operand):
            value = whole_number(operand)
            return None if value is None else -value
        case Cast(operand) if is_whole(expr):
            value = whole_number(operand)
            least, most = ends(expr.type)
            return value if value is not None and least <= value <= most else None
    return None


def is_null(expr: Expr) -> bool:
    """Return whether an expression is the constant NULL."""
    while isinstance(expr, (Paren, Cast)):
        expr = expr.inner if isinstance(expr, Paren) else expr.operand
    return isinstance(expr, Constant) and expr.value is None


def conjuncts(expr: Expr | None) -> list[Expr]:
    """Return the conditions that a condition joins by AND: it is true where all of them are."""
    if expr is None:
        return []
    expr = strip_parens(expr)
    if isinstance(expr, Binary) and expr.operator == "AND":
        return conjuncts(expr.left) + conjuncts(expr.right)
    return [expr]


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


def aggregates_of(expr: Expr) -> list[Aggregate]:
    """Return the aggregates of an expression, beside those of windows."""
    if isinstance(expr, Aggregate):
        return [expr]
    below = [part for part in parts(expr) if isinstance(part, Expr) and traits(part).aggregates]
    return [found for part in below for found in aggregates_of(part)]


class Traits(NamedTuple):
    """What an expression has among its nodes, those of its subqueries aside."""

    aggregates: bool
    """Whether it aggregates rows, beside in windows."""
    windows: bool
    subqueries: bool
    reads: Names
    """The columns that it reads, also in subqueries."""
    bare: Names
    """The columns that it reads without the name of an item of FROM, beside in subqueries."""


def traits(expr: Expr) -> Traits:
    """Return what an expression has among its nodes, computed once for each node from those of its parts."""
    found: Traits | None = getattr(expr, "_traits", None)
    if found is None:
        found = _of_parts(expr)
        object.__setattr__(expr, "_traits", found)
    return found


def _of_parts(expr: Expr) -> Traits:
    if isinstance(expr, Column):
        own = frozenset((name_of(expr),))
        return Traits(False, False, False, own, NONE if expr.table else own)
    aggregates = windows = subqueries = False
    reads = bare = NONE
    waiting = parts(expr)
    for part in waiting:
        if isinstance(part, Expr):
            below = traits(part)
            aggregates |= below.aggregates
            windows |= below.windows
            subqueries |= below.subqueries
            if below.reads:
                reads = reads | below.reads if reads else below.reads
                bare = bare | below.bare if bare else below.bare
        elif isinstance(part, Query):
            subqueries = True
            reads |= {name_of(node) for node in walk(part) if isinstance(node, Column)}
        else:
            waiting += parts(part)
    if isinstance(expr, Window):
        return Traits(False, True, subqueries, reads, bare)
    return Traits(aggregates or isinstance(expr, Aggregate), windows, subqueries, reads, bare)


def has_aggregate(expr: Expr) -> bool:
    """Return whether an expression aggregates the rows of its query, beside in windows."""
    return traits(expr).aggregates


def has_window(expr: Expr) -> bool:
    """Return whether an expression has a window function, beside those in subqueries."""
    return traits(expr).windows


def subqueries(expr: Expr) -> list[tuple[Expr, Query]]:
    """Return the subqueries of an expression, but not those in them, with the nodes that have them."""
    found: list[tuple[Expr, Query]] = []
    waiting: list[Node] = [expr] if traits(expr).subqueries else []
    while waiting:
        node = waiting.pop()
        for part in parts(node):
            if not isinstance(part, Query):
                waiting.append(part)
            elif isinstance(node, Expr):
                found.append((node, part))
            else:
                raise NotCertified("a query in what is no expression", node)
    return found


def reads_of(expr: Expr) -> Names:
    """Return all columns that an expression reads, also in subqueries."""
    return traits(expr).reads


def operand_in(expr: Expr) -> Expr | None:
    """Return what is looked up in a subquery by IN; None for other expressions."""
    return strip_parens(expr.operand) if isinstance(expr, InQuery) else None


__all__ = [
    "NONE",
    "Proof",
    "aggregates_of",
    "conjuncts",
    "equalities",
    "has_aggregate",
    "has_window",
    "is_null",
    "is_whole",
    "nodes_of_row",
    "operand_in",
    "reads_of",
    "strip_casts",
    "strip_parens",
    "strip_wide_casts",
    "subqueries",
    "traits",
    "whole_number",
]
