"""What is known of an expression and of rows: the rule of each node (`derive`), and the types of DuckDB.

A rule refuses (`NotCertified`) what can fail on a row, unless it is under TRY, which makes NULL of it; what
depends on the session, on time or on chance; and whatever it does not know.

*Types* have ends, a common type of several, and conversions that never fail. Their rules are DuckDB's
(`max_logical_type`, the numeric operators, the casts); where it would convert in a way that can fail or
round, there is no rule here, and the query is refused.

*Templates* (`fit`) are expressions with places, for rules of several operators together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

from dpsql.kernel.check.certificate import NotCertified
from dpsql.kernel.check.words import CHECKS
from dpsql.kernel.tree import Cast, Column, Constant, Expr, Node, Paren, Query, Unary
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BIGINT, DOUBLE, HUGEINT, INTEGER, NULL, TIMESTAMP, VARCHAR, SqlType

INFINITY = float("inf")
"""The end of an interval that has none; no other end of an interval is a float."""

Number = int | Fraction | float


class Value(NamedTuple):
    """What is known of an expression, for all data."""

    type: SqlType
    """Its type as the engine has it: an instant in a query is a TIMESTAMP, a bare NULL has the type NULL."""
    low: Number = -INFINITY
    high: Number = INFINITY
    """Where it is neither NULL nor NaN, a number is between them, TRUE and FALSE as 1 and 0; `low` exceeds
    `high` if it is always NULL. Of what is no number they are infinite."""
    nullable: bool = True
    """Whether it can be NULL."""
    canonical: bool = True
    """Whether equal values are the same: a DOUBLE has one zero and one NaN. True of what has no DOUBLE."""
    literal: bool = False
    """Whether it is a whole number or a text as it is written, which takes the type of what it meets."""
    settled: bool = True
    """Whether rows decide it up to the sign of a zero or NaN. If not, no function may read it."""


def size(x: Value) -> Number:
    """Return the largest distance of a number from 0."""
    return max(-x.low, x.high)


def distance(x: Value) -> Number:
    """Return the least distance of a number from 0."""
    return max(0, x.low, -x.high)


NOTHING = Value(NULL, INFINITY, -INFINITY)
"""A bare NULL."""

_ENDS: dict[str, tuple[int, int]] = {"BOOLEAN": (0, 1), "HUGEINT": (-(1 << 127), (1 << 127) - 1)}
for _bits, _name in ((8, "TINYINT"), (16, "SMALLINT"), (32, "INTEGER"), (64, "BIGINT")):
    _ENDS[_name] = (-(1 << _bits - 1), (1 << _bits - 1) - 1)
    _ENDS["U" + _name] = (0, (1 << _bits) - 1)

_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19, "HUGEINT": 38}
_DIGITS |= {"UTINYINT": 3, "USMALLINT": 5, "UINTEGER": 10, "UBIGINT": 20}
SIGNED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
UBIGINT = SqlType("UBIGINT")
TINYINT = SqlType("TINYINT")


@lru_cache(maxsize=1024)
def whole(sql_type: SqlType, *, nullable: bool = True, canonical: bool = True) -> Value:
    """Return what is known of any value of a type."""
    low, high = ends(sql_type)
    return Value(sql_type, low, high, nullable, canonical or not has_doubles(sql_type))


@lru_cache(maxsize=1024)
def ends(sql_type: SqlType) -> tuple[Number, Number]:
    """Return the least and the largest number of a type."""
    if sql_type.name == "DECIMAL":
        most = Fraction(10**sql_type.precision - 1, 10**sql_type.scale)
        return -most, most
    return _ENDS.get(sql_type.name, (-INFINITY, INFINITY))


@lru_cache(maxsize=1024)
def has_doubles(sql_type: SqlType) -> bool:
    """Return whether a type is DOUBLE, or has DOUBLEs in it."""
    inner = [sql_type.item] if sql_type.item else [kind for _, kind in sql_type.fields]
    return sql_type.name == "DOUBLE" or any(has_doubles(kind) for kind in inner)


def exact(sql_type: SqlType) -> bool:
    """Return whether values of a type are whole numbers."""
    return sql_type.name in _DIGITS


def natural(number: int) -> SqlType:
    """Return the type of a whole number as it is written."""
    for kind in (INTEGER, BIGINT, HUGEINT):
        low, high = _ENDS[kind.name]
        if low <= number <= high:
            return kind
    return DOUBLE


def common(a: Value, b: Value, *, computed: bool = False) -> SqlType | None:
    """Return the type to which DuckDB converts both of two values; None if there is no rule.

    `computed`: for an operator of arithmetic, which has its own rule for a signed and an unsigned number.
    """
    x, y = a.type, b.type
    if x is y or x == y:
        return x
    if x.name == "NULL" or y.name == "NULL":
        return y if x.name == "NULL" else x
    if a.literal != b.literal:
        literal, other = (a, y) if a.literal else (b, x)
        if literal.type.name == "VARCHAR":
            return VARCHAR if other.name == "ENUM" else None
        low, high = ends(other)
        if exact(other) and low <= literal.low and literal.high <= high:
            return other
    return _common(x, y, computed)


@lru_cache(maxsize=4096)
def _common(x: SqlType, y: SqlType, computed: bool) -> SqlType | None:
    names = {x.name, y.name}
    if exact(x) and exact(y):
        return _whole_number(x.name, y.name, computed)
    if "BOOLEAN" in names and not computed:
        other = y if x.name == "BOOLEAN" else x
        return other if exact(other) else None
    if not all(exact(kind) or kind.name in ("DECIMAL", "DOUBLE") for kind in (x, y)):
        if names == {"DATE", "TIMESTAMP"}:
            return TIMESTAMP
        return VARCHAR if names == {"VARCHAR", "ENUM"} or (x.name == y.name == "ENUM") else None
    if "DOUBLE" in names:
        return DOUBLE
    (p, s), (q, t) = digits(x), digits(y)
    before, after = max(p - s, q - t), max(s, t)
    return SqlType("DECIMAL", before + after, after) if before + after <= 38 else None


def digits(sql_type: SqlType) -> tuple[int, int]:
    """Return the precision and scale of the DECIMAL that holds a number."""
    if sql_type.name == "DECIMAL":
        return sql_type.precision, sql_type.scale
    return _DIGITS[sql_type.name], 0


def _whole_number(x: str, y: str, computed: bool) -> SqlType:
    if (x in SIGNED) == (y in SIGNED):
        return SqlType(x if _ENDS[x][1] > _ENDS[y][1] else y)
    signed, unsigned = (x, y) if x in SIGNED else (y, x)
    if _ENDS[signed][1] >= _ENDS[unsigned][1]:
        return SqlType(signed)
    if computed:
        return HUGEINT if unsigned == "UBIGINT" else BIGINT
    return SqlType(SIGNED[SIGNED.index(unsigned[1:]) + 1])


def fits(value: Value, sql_type: SqlType) -> bool:
    """Return whether a conversion to a type fails on no value: CAST, or one that DuckDB adds."""
    x = value.type
    if x is sql_type or x == sql_type or x.name == "NULL" or value.low > value.high:
        return True
    if sql_type.name == "VARCHAR":
        return x.name in _SHOWN or exact(x)
    if exact(x) or x.name in ("DECIMAL", "BOOLEAN"):
        if sql_type.name == "DOUBLE":
            return True
        if sql_type.name == "DECIMAL":
            most = 10 ** (sql_type.precision - sql_type.scale)
            return -most < value.low and value.high < most and digits_kept(x, sql_type)
        low, high = ends(sql_type)
        return exact(sql_type) and low <= value.low and value.high <= high
    if x.name == sql_type.name == "LIST" and x.item and sql_type.item:
        return x.item.name == "NULL" or fits(whole(x.item), sql_type.item)
    return False


_SHOWN = frozenset({"BOOLEAN", "DECIMAL", "DOUBLE", "DATE", "TIMESTAMP", "TIME", "UUID", "ENUM"})
"""Types of which every value has a text, besides whole numbers."""


def digits_kept(x: SqlType, sql_type: SqlType) -> bool:
    """Return whether a conversion to a DECIMAL rounds nothing, so that it cannot round up beyond it."""
    return x.name == "BOOLEAN" or (x.name != "DOUBLE" and digits(x)[1] <= sql_type.scale)


ROWS = (1 << 41) - 1
"""The assumption: no relation that an engine makes has more rows, 2 * 10^12.

It is what sums of whole numbers rest on: values up to 2^85 in absolute value then fit 128 bits.
"""


class Rows(NamedTuple):
    """What is known of the rows of a query or of an item of FROM."""

    columns: dict[str, Value]
    """Its columns by name, in order."""
    unique: frozenset[frozenset[str]] = frozenset()
    """Sets of column names in which no two rows are equal; NULL is a value like any other."""
    single: bool = False
    """Whether it has one row at most."""
    loose: Mapping[str, frozenset[str]] = MappingProxyType({})
    """Columns that an order of rows decides, and other columns for each: the rows of these and of the column
    are the same in every order."""


class Checks(Protocol):
    """What checks the queries in expressions; `totality.Walk` does."""

    large: list[tuple[Scope, Node]]
    """Sums of whole numbers that can overflow, as far as their values show."""

    def check_whole(self, query: Query, outer: Scope | None) -> Rows:
        """Check a query and return what is known of its rows."""


@dataclass(slots=True, eq=False)
class Scope:
    """The columns that expressions of one query can read."""

    items: dict[str, Rows]
    """The items of FROM by alias."""
    walk: Checks
    """What checks the queries in expressions."""
    outer: Scope | None = None
    """The scope of the query around a subquery."""
    padded: frozenset[str] = frozenset()
    """Aliases of items whose rows an outer join can replace by NULL."""
    present: frozenset[tuple[str, str]] = frozenset()
    """Columns that WHERE says are not NULL, by alias and name."""
    known: dict[int, tuple[Expr, Value]] = field(default_factory=dict)
    """What is known of expressions, wherever in the query they stand, by their identity: an equal one may
    have columns of other types."""


class Around(NamedTuple):
    """The place of an expression in a query: the rows it is computed for, and what is known there."""

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
    if kind is Column:
        return found(node, at)
    plain = kind is Constant or not (at.caught or at.narrowed or at.parameters or at.measured is not None)
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
    """Refuse a function of values that the rows alone do not decide."""
    if not all(x.settled for x in values):
        raise NotCertified("a function of a DOUBLE of which an order of rows decides the sign", node)


def unwrap(node: Expr) -> Expr:
    """Return an expression without parentheses around it."""
    while isinstance(node, Paren):
        node = node.inner
    return node


def place(name: str) -> Column:
    """Return a place in a template of `fit`, at which any expression may stand."""
    return Column("?", name)


def fit(template: Expr, expr: Expr) -> dict[str, Expr] | None:
    """Return what an expression has at the places of a template, by their names; None if it has another form.

    Beside the places all is as in the template, but for parentheses and the case of words. A place that the
    template has twice has equal expressions.
    """
    found: dict[str, Expr] = {}
    waiting: list[tuple[object, object]] = [(template, expr)]
    while waiting:
        part, x = waiting.pop()
        x = unwrap(x) if isinstance(x, Paren) else x
        if isinstance(part, Column) and part.table == "?" and isinstance(x, Expr):
            if found.setdefault(part.name, x) != x:
                return None
        elif isinstance(part, tuple) and isinstance(x, tuple) and len(part) == len(x):
            waiting += zip(part, x, strict=True)
        elif isinstance(part, Expr) and type(part) is type(x) and not isinstance(part, Constant):
            waiting += [(getattr(part, name), getattr(x, name)) for name in part.__match_args__]
        elif isinstance(part, str) and isinstance(x, str):
            if part.lower() != x.lower():
                return None
        elif part != x:
            return None
    return found


def is_whole(cast: Cast) -> bool:
    """Return whether a conversion is to a type of whole numbers."""
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
    made, alike = values[0], True
    low, high, nullable, canonical = made.low, made.high, made.nullable, made.canonical
    for other in values[1:]:
        low, high = min(low, other.low), max(high, other.high)
        nullable, canonical = nullable or other.nullable, canonical and other.canonical
        if made.literal is other.literal and (made.type is other.type or made.type == other.type):
            continue
        alike, kind = False, common(made, other)
        if kind is None:
            raise NotCertified("values of types that have no common one", node)
        ends_of_both = min(made.low, other.low), max(made.high, other.high)
        made = Value(kind, *ends_of_both, literal=made.literal and other.literal)
    if not (caught or alike or all(fits(x, made.type) for x in values)):
        raise NotCertified("a conversion to a common type that can fail", node)
    return Value(made.type, low, high, nullable, canonical, settled=all(x.settled for x in values))
