"""The values that conditions of WHERE allow: lists of constants, ranges, narrower bounds.

A condition counts if it compares an expression with constants of the statement. Whether it is about a key or
a column is decided by the compiled expression, never by a name.

`amount BETWEEN 0 AND 200` says of the counted rows what the policy says of all: the narrower interval of the
two is the cut. A condition that leaves nothing of the declared bounds changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from datetime import date
from fractions import Fraction

from dpsql.analysis.compiled_relation import From
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.facts_of_values import bounds_of
from dpsql.analysis.public_domains import BOOLEANS, make_distinct_domain, make_domain
from dpsql.analysis.row_conditions import Condition, KnownRows, substitute_columns
from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.total_forms import is_same_integer
from dpsql.analysis.typed_expression import MAX_LISTED, Bounds, KeyDomain, Span, Typed, bounds_of_constant
from dpsql.kernel.tree import (
    Apply,
    Binary,
    Cast,
    Column,
    Constant,
    Derived,
    Expr,
    InList,
    InQuery,
    IsNull,
    Item,
    Not,
    Paren,
    Range,
    Select,
    Try,
    Unary,
    conjunction,
    duckdb_sql,
    facts,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BOOLEAN, DATE, DOUBLE, INTEGER, SqlType

DAY = 86_400_000_000
MAX_NUMBER = 10**17
"""The largest bound: in microseconds more than 3,000 years. Constants beyond it are no bounds."""
_EPOCH = date(1970, 1, 1)
ORIGIN = "the range in WHERE"
"""Whence bounds are that conditions set, as plans say it."""
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition that compares an expression with constants: `=` with one of several, or one bound."""

    operand: Expr
    operator: str
    values: tuple[Expr, ...]


def list_comparisons(conditions: Iterable[Condition]) -> list[Comparison]:
    """Return the comparisons with constants that hold on each counted row."""
    found = (read_comparison(c.expr) for c in conditions if not c.unless)
    return [one for one in found if one is not None]


def read_comparison(condition: Expr) -> Comparison | None:
    """Return the comparison that a condition is; None for any other condition."""
    match condition:
        case Paren(inner):
            return read_comparison(inner)
        case InList(operand, items) if facts(operand).reads and _is_constant(*items):
            return Comparison(operand, "=", items)
        case Binary("OR", left, right):
            a, b = read_comparison(left), read_comparison(right)
            same = a is not None and b is not None and a.operand == b.operand
            if a is None or b is None or not same or a.operator != "=" or b.operator != "=":
                return None
            return Comparison(a.operand, "=", (*a.values, *b.values))
        case Binary(operator, left, right) if operator in _FLIPPED:
            if _is_constant(left):
                left, right, operator = right, left, _FLIPPED[operator]
            if facts(left).reads and _is_constant(right):
                return Comparison(left, operator, (right,))
    return None


def _is_constant(*values: Expr) -> bool:
    """Return whether expressions read no column and contain no subquery."""
    return not any(facts(value).reads for value in values)


def find_list(node: Expr, sql_type: SqlType, found: Iterable[Comparison]) -> KeyDomain | None:
    """Return the constants that an expression is equal to, of the first condition that lists them."""
    for one in found:
        if one.operator == "=" and _is_same_value(node, sql_type, one.operand):
            return make_domain([_convert_constant(v, sql_type) for v in one.values])
    return None


def is_list_alone(one: Comparison | None, node: Expr, sql_type: SqlType) -> bool:
    """Return whether a condition lists the very constants that `find_list` returns for it."""
    return (
        one is not None
        and one.operator == "="
        and one.operand == node
        and all(_convert_constant(v, sql_type) is v for v in one.values)
    )


def _is_same_value(node: Expr, sql_type: SqlType, operand: Expr) -> bool:
    """Return whether an operand is an expression, or converts it so that different values stay apart."""
    if operand == node:
        return True
    if is_same_integer(operand, node):
        return True
    if not isinstance(operand, Cast) or operand.operand != node:
        return False
    whole = sql_type.integer and operand.type.integer and not operand.safe
    return whole or (sql_type.name, operand.type.name) in (("DATE", "TIMESTAMP"), ("ENUM", "VARCHAR"))


def _convert_constant(value: Expr, sql_type: SqlType) -> Expr:
    """Return a constant as a value of a type; NULL where it is none."""
    inner = value
    while isinstance(inner, (Paren, Unary)):
        inner = inner.inner if isinstance(inner, Paren) else inner.operand
    same = isinstance(inner, (Constant, Cast)) and inner.type == sql_type.held
    return value if same else Cast(value, sql_type.held)


def find_range(
    catalog: Catalog, node: Expr, sql_type: SqlType, found: Iterable[Comparison]
) -> KeyDomain | None:
    """Return all integers or days between the bounds of conditions on an expression; None without both."""
    first, last = find_limits(catalog, node, sql_type, found)
    if first is None or last is None or last - first >= MAX_LISTED:
        return None
    i = Column("", "i")
    each: Expr = Cast(i, sql_type)  # NULL beyond the type
    if sql_type.name == "DATE":
        each = Cast(Binary("+", Constant(_EPOCH, DATE), Cast(i, INTEGER)), DATE)
    every = Range(first, max(first, last + 1))
    rows: Expr = IsNull(each, negated=True)
    inner = node.operand if isinstance(node, Try) else node
    if isinstance(inner, Apply) and inner.form.name == "date_trunc":  # first days are their own
        first_day = replace(inner, arguments=(*inner.arguments[:-1], each))
        rows = Binary("=", first_day, each)
    query = Select((Item(each, "v"), Item(i, "o")), every, rows)
    return KeyDomain(query, ordered=True, origin=ORIGIN, complete=True)


def find_span(catalog: Catalog, value: Typed, found: Iterable[Comparison]) -> Span | None:
    """Return the range of a column of moments: the declared one within the bounds of conditions on it."""
    if not value.type.moment or not value.is_column:
        return None
    first, last = find_limits(catalog, value.node, value.type, found)
    if value.span is not None:
        return value.span.within(first, last)
    return None if first is None or last is None else Span(first, last, ORIGIN, complete=True)


def find_integers(catalog: Catalog, value: Typed, found: Iterable[Comparison]) -> Span | None:
    """Return the declared range of an integer column, narrowed by conditions, if too long for a list."""
    if value.span is None or not value.type.integer or not value.is_column:
        return None
    return value.span.within(*find_limits(catalog, value.node, value.type, found))


def find_limits(
    catalog: Catalog, node: Expr, sql_type: SqlType, found: Iterable[Comparison]
) -> tuple[int | None, int | None]:
    """Return the first and the last value that conditions allow, as integers, days or microseconds."""
    limits = [_read_limits(catalog, node, sql_type, one) for one in found if len(one.values) == 1]
    least = [first for first, _ in limits if first is not None]
    most = [last for _, last in limits if last is not None]
    return max(least, default=None), min(most, default=None)


def _read_limits(
    catalog: Catalog, node: Expr, sql_type: SqlType, one: Comparison
) -> tuple[int | None, int | None]:
    """Return the bounds that one condition sets to an expression; None where it sets none."""
    step, whole = 1, sql_type.name == "DATE"
    if sql_type.moment and one.operand in list_day_casts(node):
        step = DAY
    elif not _is_same_value(node, sql_type, one.operand):
        return None, None
    at = _read_number(catalog, sql_type, one.values[0])
    if at is None:
        return None, None
    below, above = (at // DAY, -(-at // DAY)) if whole else (at, at)
    first = {">=": above, "=": above, ">": below + step}.get(one.operator)
    last = {"<=": below + step - 1, "=": below + step - 1, "<": above - 1}.get(one.operator)
    return first, last


def list_day_casts(node: Expr) -> tuple[Expr, ...]:
    """Return the expressions that convert a TIMESTAMP to its day."""
    plain = Cast(node, DATE)
    return plain, Try(plain)


def _read_number(catalog: Catalog, sql_type: SqlType, value: Expr) -> int | None:
    """Return a constant as an integer: of a date or time, the microseconds since 1970."""
    text = duckdb_sql(value)
    try:
        if sql_type.integer:
            number = catalog.evaluate(f"CAST({text} AS HUGEINT)") if catalog.type_of(text).integer else None
        elif sql_type.moment or sql_type.name == "DATE":
            number = catalog.evaluate(f"epoch_us(CAST({text} AS TIMESTAMP))")
        else:
            return None
    except ValueError:  # infinite
        return None
    return number if isinstance(number, int) and abs(number) <= MAX_NUMBER else None


Base = KeyDomain | Span | None


def find_values_of_key(
    catalog: Catalog, key: Typed, node: Expr, found: Sequence[Comparison]
) -> KeyDomain | None:
    """Return the values of a key that is `node` on each row: as conditions list them, or its own domain."""
    listed = find_list(node, key.type, found)
    if listed is not None:
        return listed
    if key.is_column:
        span = find_integers(catalog, key, found)
        return None if span is None else span.integers(key.type)
    if key.type == BOOLEAN:
        return BOOLEANS
    counted = (key.type.integer or key.type.name == "DATE") and key.domain is None
    return find_range(catalog, node, key.type, found) if counted else key.domain


@dataclass(slots=True)
class ColumnValues:
    """The values of private columns that are public: listed in WHERE, declared, or between two bounds."""

    catalog: Catalog
    known: KnownRows
    compared: Sequence[Comparison]
    """The comparisons with constants that the counted rows meet."""
    bases: dict[str, Base] = field(default_factory=dict)
    """What is known so far; of a range that is too long for a list, the range."""

    def exact(self, name: str) -> KeyDomain | None:
        """Return the values of a private column, if they are public and a list."""
        if name not in self.bases:
            column = self.known.columns[name]
            self.bases[name] = (
                find_list(column.node, column.type, self.compared)
                or self._find_public_list(column)
                or self._find_declared(column)
                or (BOOLEANS if column.type == BOOLEAN else None)
                or self._find_between(column)
                or find_span(self.catalog, column, self.compared)
            )
        base = self.bases[name]
        return base if isinstance(base, KeyDomain) else None

    def _find_declared(self, column: Typed) -> KeyDomain | None:
        """Return the declared values; they are complete where conditions leave only such values."""
        domain = column.domain
        if domain is None or domain.complete:
            return domain
        every = find_range(self.catalog, column.node, column.type, self.compared)
        if every is None:
            return domain
        known = InQuery(Column("e", "v"), Select((Item(Column("k", "v")),), Derived(domain.query, "k")))
        there = Paren(Binary("OR", Paren(known), Paren(IsNull(Column("e", "v")))))
        beyond = Select((Item(Column("e", "v")),), Derived(every.query, "e"), Paren(Not(there)))
        return domain if self.catalog.count(duckdb_sql(beyond)) else replace(domain, complete=True)

    def _find_public_list(self, column: Typed) -> KeyDomain | None:
        """Return the values that a query of public tables lists: `page IN (SELECT page FROM pages)`."""
        for listed in self.known.lists:
            rows = listed.query
            if listed.operand == column.node and isinstance(rows, Select) and rows.source is not None:
                domain = make_distinct_domain(rows.items[0].expr, rows.source, "the list in WHERE")
                domain, where = replace(domain, complete=True), rows.where
                if where is None or any(name in self.known.columns for name in facts(where).reads):
                    return domain  # a condition with the row around it leaves out nothing of all rows
                assert isinstance(domain.query, Select)  # noqa: S101  as it was made
                kept = conjunction(c for c in (where, domain.query.where) if c is not None)
                return replace(domain, query=replace(domain.query, where=kept))
        return None

    def _find_between(self, column: Typed) -> KeyDomain | None:
        """Return what conditions leave of all integers or days, or of a long range, if that is a list."""
        span = find_integers(self.catalog, column, self.compared)
        if span is None:
            return find_range(self.catalog, column.node, column.type, self.compared)
        return span.integers(column.type) if span.last - span.first < MAX_LISTED else None

    def base(self, name: str) -> Base:
        """Return the values of a private column, or their range if it is too long for a list."""
        self.exact(name)
        return self.bases[name]


_End = Fraction | None
Excluded = tuple[Typed, _End, _End, Bounds | None]
"""A column of which conditions leave nothing: the ends that they set, and its own bounds."""


def narrow_expression(catalog: Catalog, value: Typed, known: KnownRows) -> Typed:
    """Return an expression with its bounds narrowed by the conditions on this very expression.

    Without bounds of its own it gets those of the conditions, if these set both ends.
    """
    return _narrow_value(catalog, value, known, list_comparisons(known.conditions))


def narrow_rows(compiler: StatementCompiler, rows: From, known: KnownRows) -> From:
    """Return FROM with each column narrowed, so that expressions over the columns are narrower, too.

    It is noted of which columns nothing is left.
    """
    found, catalog, empty = list_comparisons(known.conditions), compiler.catalog, list[Excluded]()
    if not found:
        return rows
    scope = rows.scope
    origins = tuple(
        o.map_columns(lambda c: _narrow_value(catalog, c, known, found, empty)) for o in scope.origins
    )
    merged = {name: _narrow_value(catalog, c, known, found) for name, c in scope.merged.items()}
    if empty or len({one.operand for one in found if one.operator == "="}) < len(found):
        from dpsql.analysis.empty_conditions import note_excluded  # noqa: PLC0415  these are rare

        equal = [(one.operand, one.values) for one in found if one.operator == "="]
        note_excluded(compiler, scope.origins, empty, equal)
    return replace(rows, scope=replace(scope, origins=origins, merged=merged))


def _narrow_value(
    catalog: Catalog,
    value: Typed,
    known: KnownRows,
    found: Sequence[Comparison],
    empty: list[Excluded] | None = None,
) -> Typed:
    own = bounds_of(value)
    node = substitute_columns(value.guarded_node, known.made_of)
    reads = facts(node).reads
    about = [one for one in found if not reads.isdisjoint(facts(one.operand).reads)] if reads else ()
    low, high = _find_ends(catalog, replace(value, node=node), about) if about else (None, None)
    ends = ((), ()) if own is None else ((own.low,), (own.high,))
    least = max((*ends[0], *(() if low is None else (low,))), default=None)
    most = min((*ends[1], *(() if high is None else (high,))), default=None)
    if least is not None and most is not None and least > most and empty is not None:
        empty.append((value, low, high, own))
    if least is None or most is None or least > most or (own and (least, most) == (own.low, own.high)):
        return value if own is None or value.bounds is own else replace(value, bounds=own)
    origin = f"{own.origin} and {ORIGIN}" if own is not None and own.origin else ORIGIN
    return replace(value, bounds=Bounds(least, most, origin, own.step if own is not None else None))


def _find_ends(catalog: Catalog, value: Typed, found: Sequence[Comparison]) -> tuple[_End, _End]:
    """Return the least and the greatest value that conditions on an expression allow, where they set one."""
    if value.type.moment or value.type.name == "DATE":
        first, last = find_limits(catalog, value.node, value.type, found)
        return None if first is None else Fraction(first), None if last is None else Fraction(last)
    if not value.type.numeric:
        return None, None
    pairs = [read_ends(catalog, value, one) for one in found if is_operand(value.node, one.operand)]
    lows = [low for low, _ in pairs if low is not None]
    highs = [high for _, high in pairs if high is not None]
    return max(lows, default=None), min(highs, default=None)


def is_operand(node: Expr, operand: Expr) -> bool:
    """Return whether an operand is an expression, or converts it without changing a number."""
    if is_same_integer(operand, node):
        return True
    if isinstance(operand, Cast) and (operand.type == DOUBLE or (operand.type.integer and not operand.safe)):
        return operand.operand == node
    return operand == node


def read_ends(catalog: Catalog, value: Typed, one: Comparison) -> tuple[_End, _End]:
    """Return the ends that one condition sets; `<` and `>` leave the constant out for integers alone."""
    numbers = [number for v in one.values if (number := _read_constant(catalog, v)) is not None]
    if len(numbers) < len(one.values):
        return None, None
    low, high = min(numbers), max(numbers)
    whole = value.type.integer
    match one.operator:
        case "=":
            return low, high
        case ">":
            return (Fraction(math.floor(low) + 1) if whole else low), None
        case ">=":
            return low, None
        case "<":
            return None, (Fraction(math.ceil(high) - 1) if whole else high)
    return None, high


def _read_constant(catalog: Catalog, value: Expr) -> Fraction | None:
    """Return a constant as an exact number; None if it is NULL, NaN, infinite or no number.

    The engine is asked only where the constant is computed: lists may be long.
    """
    if isinstance(value, Paren):
        return _read_constant(catalog, value.inner)
    if isinstance(value, Cast) and (value.type == DOUBLE or not value.safe):
        return _read_constant(catalog, value.operand)
    if isinstance(value, Unary) and value.operator == "-":
        number = _read_constant(catalog, value.operand)
        return None if number is None else -number
    return evaluate_number(catalog, value)


def evaluate_number(catalog: Catalog, value: Expr) -> Fraction | None:
    """Return what the engine computes of a constant, as an exact number; None if it is none or not finite."""
    try:
        known = value.value if isinstance(value, Constant) else catalog.evaluate(duckdb_sql(value))
    except ValueError:
        return None
    found = bounds_of_constant(known)
    return None if found is None else found.low
