"""How expressions are derived: what is known of rows, where an expression stands, and the rule of each node.

A rule refuses (`NotCertified`) what can fail on a row, unless it is under TRY, which makes NULL of it; what
depends on the session, on time or on chance; and whatever it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

from dpsql.kernel.check.certificate import NotCertified
from dpsql.kernel.check.types_of import Value, common, ends, fits
from dpsql.kernel.check.words import CHECKS
from dpsql.kernel.tree import Cast, Column, Constant, Expr, Node, Paren, Query, Unary

ROWS = (1 << 41) - 1
"""The assumption: no relation that an engine makes has more rows, 2 * 10^12.

It is what sums of whole numbers rest on: values up to 2^85 in absolute value then fit 128 bits.
"""
LENGTH = 1 << 30
"""The assumption: no text has more bytes, no list more items."""


class Rows(NamedTuple):
    """What is known of the rows of a query or of an item of FROM.

    Attributes
    ----------
    columns
        Its columns by name, in order.
    unique
        Sets of column names in which no two rows are equal; NULL is a value like any other.
    single
        Whether it has one row at most.
    loose
        Columns that an order of rows decides, and other columns for each: the rows of these and of the column
        are the same in every order.
    """

    columns: dict[str, Value]
    unique: frozenset[frozenset[str]] = frozenset()
    single: bool = False
    loose: Mapping[str, frozenset[str]] = MappingProxyType({})


class Checks(Protocol):
    """What checks the queries in expressions; `totality.Walk` does."""

    large: list[tuple[Scope, Node]]
    """Sums of whole numbers that can overflow, as far as their values show."""

    def settled(self, query: Query, outer: Scope | None) -> Rows:
        """Check a query and return what is known of its rows."""


@dataclass(slots=True, eq=False)
class Scope:
    """The columns that expressions of one query can read.

    Attributes
    ----------
    items
        The items of FROM by alias.
    walk
        What checks the queries in expressions.
    outer
        The scope of the query around a subquery.
    padded
        Aliases of items whose rows an outer join can replace by NULL.
    present
        Columns that WHERE says are not NULL, by alias and name.
    known
        What is known of expressions, wherever in the query they stand, by their identity: an equal one may
        have columns of other types.
    """

    items: dict[str, Rows]
    walk: Checks
    outer: Scope | None = None
    padded: frozenset[str] = frozenset()
    present: frozenset[tuple[str, str]] = frozenset()
    known: dict[int, tuple[Expr, Value]] = field(default_factory=dict)


class Around(NamedTuple):
    """Where an expression stands."""

    scope: Scope
    caught: bool = False
    """Whether it is under TRY."""
    narrowed: dict[Expr, Value] | None = None
    """What conditions of CASE say of expressions."""
    parameters: dict[str, Value] | None = None
    found: list[Expr] | None = None
    """Where aggregates and windows are noted; None where there may be none."""
    measured: Expr | None = None
    """The text that becomes NULL where it is longer than `LONGEST`."""


_Rule = Callable[[Any, Around], Value]
_F = TypeVar("_F", bound=_Rule)
RULES: dict[type[Node], _Rule] = {}
"""The rule of each kind of node."""


def rule(*kinds: type[Node]) -> Callable[[_F], _F]:
    """Make a function the rule of some kinds of nodes."""

    def register(found: _F) -> _F:
        RULES.update(dict.fromkeys(kinds, found))
        return found

    return register


def derive(node: Expr, at: Around) -> Value:
    """Return what is known of an expression at its place."""
    if at.narrowed and (known := at.narrowed.get(node)) is not None:
        return known
    kind = type(node)
    found = RULES.get(kind)
    if found is None:
        raise NotCertified("an expression of an unknown kind", node)
    if kind is Column or kind is Constant:
        return found(node, at)
    plain = not (at.caught or at.narrowed or at.parameters or at.measured is not None)
    if plain and (before := at.scope.known.get(id(node))) is not None:
        return before[1]
    check = CHECKS.get(kind)
    if check is not None:
        check(node)
    noted = 0 if at.found is None else len(at.found)
    made = found(node, at)
    if plain and noted == (0 if at.found is None else len(at.found)):  # no aggregate or window is in it
        at.scope.known[id(node)] = node, made
    return made


def check_decided(values: Sequence[Value], node: Node) -> None:
    """Refuse a function of what rows do not decide."""
    if not all(x.settled for x in values):
        raise NotCertified("a function of a DOUBLE of which an order of rows decides the sign", node)


def unwrap(node: Expr) -> Expr:
    """Return an expression without parentheses around it."""
    while isinstance(node, Paren):
        node = node.inner
    return node


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


def needs_try(node: Node, at: Around, what: str) -> None:
    """Refuse what can fail if no TRY is around it."""
    if not at.caught:
        raise NotCertified(what, node)


def check_ends(made: Value, node: Node, at: Around) -> Value:
    """Refuse a number beyond the ends of its type; under TRY it is NULL."""
    low, high = ends(made.type)
    if made.low > made.high or (low <= made.low and made.high <= high):
        return made
    needs_try(node, at, "arithmetic that can overflow")
    return made._replace(low=max(low, made.low), high=min(high, made.high), nullable=True)


def comparable(values: Sequence[Value], node: Node, at: Around) -> None:
    """Refuse a comparison before which a conversion to one type could fail."""
    if any(x.type != values[0].type for x in values):
        unify_values(values, node, caught=at.caught)


def unify_values(values: Sequence[Value], node: Node, *, caught: bool = False) -> Value:
    """Return what is known of a value that is one of several, after their conversion to one type."""
    made = values[0]
    low, high, nullable, canonical = made.low, made.high, made.nullable, made.canonical
    for other in values[1:]:
        low, high = min(low, other.low), max(high, other.high)
        nullable, canonical = nullable or other.nullable, canonical and other.canonical
        if made.literal is other.literal and (made.type is other.type or made.type == other.type):
            continue
        kind = common(made, other)
        if kind is None:
            raise NotCertified("values of types that have no common one", node)
        ends_of_both = min(made.low, other.low), max(made.high, other.high)
        made = Value(kind, *ends_of_both, literal=made.literal and other.literal)
    if not (caught or all(fits(x, made.type) for x in values)):
        raise NotCertified("a conversion to a common type that can fail", node)
    return Value(made.type, low, high, nullable, canonical, settled=all(x.settled for x in values))
