"""The values of a key that has one value for each step of a number: `floor(minutes / 10) * 10`, CAST AS INT.

Where a number lies between two public bounds, a function of it that never falls, or never rises, and whose
values are whole multiples of a step has the multiples between its values at the bounds. The engine computes
these two, so that they are rounded as in the statement. Rows beyond the bounds are in no group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

from dpsql.analysis.facts_of_values import bounds_of, is_never_negative
from dpsql.analysis.public_domains import Candidates, add_null
from dpsql.analysis.row_conditions import KnownRows, substitute_columns
from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.typed_expression import MAX_LISTED, KeyDomain, Typed
from dpsql.analysis.where_ranges import ORIGIN, Comparison, evaluate_number, is_operand, read_ends
from dpsql.kernel.tree import (
    Apply,
    Binary,
    Call,
    Canonical,
    Cast,
    Column,
    Constant,
    Derived,
    Expr,
    Item,
    Paren,
    Query,
    Range,
    Saturated,
    Select,
    SetOperation,
    Try,
    Unary,
    duckdb_sql,
    facts,
    map_parts,
    walk,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.types import NULL, VARCHAR, SqlType

_WHOLE = frozenset(("ceil", "ceiling", "floor", "round", "trunc"))
_GROWING = frozenset(("cbrt", "exp", "ln", "log", "log10", "log2", "sqrt"))
_CAPS = frozenset(("least", "greatest"))
_FAR = {"TINYINT": 1 << 6, "UTINYINT": 1 << 7, "SMALLINT": 1 << 14, "USMALLINT": 1 << 15, "INTEGER": 1 << 30}
"""So far from its end a number of a type is compared with that, to see whether a step rises in it."""
_MONOTONE = frozenset(("+", "-", "*", "/", "//"))
"""Operators that never turn in the first operand while the second is a constant."""


@dataclass(frozen=True, slots=True)
class _Ends:
    """The least and the greatest value of a column; `sure` if no row that counts has another."""

    low: Expr
    high: Expr
    sure: bool
    null: bool
    """Whether the column may be NULL."""
    origin: str


@dataclass(frozen=True, slots=True)
class _End:
    """The one end that a column has, and a value far on the side where it has none."""

    at: Expr
    far: Expr
    sure: bool
    null: bool
    origin: str


def find_stepped_values(
    catalog: Catalog, node: Expr, known: KnownRows, compared: Sequence[Comparison]
) -> KeyDomain | None:
    """Return the values of a key that is `node` on each row; None unless steps of one number decide them."""
    step = _find_step(node)
    if step is None:
        return None
    (name,) = facts(step).reads
    column = known.columns.get(name)
    ends = None if column is None else _find_ends(catalog, column, known, compared)
    if ends is None or column is None:
        return None if column is None else _find_capped_values(catalog, node, step, column, known, compared)
    at = [substitute_columns(step, {name: end}) for end in (ends.low, ends.high)]
    size, values = _find_size(catalog, step), [evaluate_number(catalog, each) for each in at]
    found = sorted(value for value in values if value is not None)
    if size is None or len(found) < len(at) or found[1] - found[0] >= size * MAX_LISTED:
        return None
    first, last = (round(value / size) * size for value in found)
    return _list_steps(catalog, node, step, at[0], range(first, last + 1, size), ends)


def _list_steps(
    catalog: Catalog, node: Expr, step: Expr, at: Expr, steps: range, ends: _Ends | _End
) -> KeyDomain:
    """Return the values of an expression at steps, which have the type that they have at one place."""
    each = Cast(Column("", "i"), catalog.type_of(duckdb_sql(at)))
    value = Item(_put(node, step, each), "v")
    query = Select((value,), Range(steps.start, steps.stop, steps.step), distinct=True)
    domain = KeyDomain(query, origin=ends.origin, null=True, complete=ends.sure)
    # What is computed from a step may be NULL, as `nullif(floor(x), 1)`, where the number is not.
    null = ends.null or catalog.count(f"SELECT d.v FROM ({domain.sql}) AS d WHERE d.v IS NULL")
    return add_null(domain) if null else domain.without_null()


def _find_capped_values(
    catalog: Catalog, node: Expr, step: Expr, column: Typed, known: KnownRows, compared: Sequence[Comparison]
) -> KeyDomain | None:
    """Return the values of a key whose number has one end, where LEAST or GREATEST cuts it beyond some step.

    `LEAST(floor(n / 10), 60)` of a number from 0 on is 60 from 600 on: what is cut never turns in the step,
    and goes towards the cut, so that behind the first step beyond it all others have the value of the cut.
    """
    caps = [each for each in walk(node) if isinstance(each, Call) and each.name.lower() in _CAPS]
    end = _find_end(catalog, column, known, compared)
    if end is None or len(caps) != 1 or len(caps[0].arguments) != 2:
        return None
    inner, *others = sorted(caps[0].arguments, key=lambda each: not facts(each).reads)
    cap, size = evaluate_number(catalog, others[0]), _find_size(catalog, step)
    name = next(iter(facts(step).reads))
    ends = [substitute_columns(step, {name: each}) for each in (end.at, end.far)]
    values = [evaluate_number(catalog, each) for each in ends]
    turns = facts(others[0]).reads or not _never_turns(_put(inner, step, Column("", "i")))
    if turns or size is None or cap is None or None in values or values[0] == values[1]:
        return None
    first, rises = round(Fraction(values[0] or 0) / size) * size, (values[1] or 0) > (values[0] or 0)
    kind, way = catalog.type_of(duckdb_sql(ends[0])), size if rises else -size

    def value_at(steps: int) -> Fraction | None:
        each = Cast(Constant(str(first + way * steps), VARCHAR), kind, safe=False)
        return evaluate_number(catalog, _put(inner, step, each))

    signs = 1 if caps[0].name.lower() == "least" else -1
    near, far = value_at(0), value_at(MAX_LISTED)
    if near is None or far is None or signs * far < signs * near:
        return None
    for power in range(MAX_LISTED.bit_length() - 1):
        value, last = value_at(1 << power), first + (way << power)
        if value is not None and signs * value >= signs * cap:
            steps = range(min(first, last), max(first, last) + 1, size)
            return _list_steps(catalog, node, step, ends[0], steps, end)
    return None


def join_steps(
    catalog: Catalog,
    nodes: Sequence[Expr],
    own: Mapping[int, KeyDomain],
    known: KnownRows,
    compared: Sequence[Comparison],
) -> list[Candidates]:
    """Return the candidates of keys with values of their own, those of steps of one whole number together.

    `floor(n / 10)` and `n > 60` then have the pairs that a value of n between its bounds has, not all.
    """
    found, left = list[Candidates](), dict(own)
    for i in own:
        same = [j for j in left if i in left and facts(nodes[j]).reads == facts(nodes[i]).reads]
        if len(same) > 1 and has_steps(nodes[i]):
            joint = _evaluate_together(catalog, [nodes[j] for j in same], known, compared)
            most = math.prod(catalog.count(own[j].sql) for j in same)
            if joint is not None and catalog.count(joint.sql) < most:
                found.append(Candidates(tuple(same), joint))
                left = {j: each for j, each in left.items() if j not in same}
    return found + [Candidates((i,), each) for i, each in left.items()]


def _evaluate_together(
    catalog: Catalog, nodes: Sequence[Expr], known: KnownRows, compared: Sequence[Comparison]
) -> KeyDomain | None:
    """Return what expressions of one whole number are together, between its bounds; None without bounds."""
    (name,) = facts(nodes[0]).reads
    column = known.columns.get(name)
    ends = None if column is None or not column.type.integer else _find_ends(catalog, column, known, compared)
    if column is None or ends is None:
        return None
    first, last = (evaluate_number(catalog, end) for end in (ends.low, ends.high))
    if first is None or last is None or not 0 <= last - first < MAX_LISTED:
        return None
    number = Cast(Column("", "i"), column.type)
    rows: Query = Select((Item(number, "x"),), Range(int(first), int(last) + 1))
    if ends.null:
        nothing = Cast(Constant(None, NULL), column.type)
        rows = SetOperation(rows, "UNION ALL", Select((Item(nothing, "x"),)))
    items = [
        Item(substitute_columns(node, {name: Column("d", "x")}), f"v{i}") for i, node in enumerate(nodes)
    ]
    query = Select(tuple(items), Derived(rows, "d"), distinct=True)
    return KeyDomain(query, origin=f"combinations {ends.origin}", null=True, complete=ends.sure)


def has_steps(node: Expr) -> bool:
    """Return whether the values of an expression are known where its number lies between two bounds."""
    return _find_step(node) is not None


def _find_step(node: Expr) -> Expr | None:
    """Return the one step of one column that decides an expression; None if there is none, or several."""
    steps = list(dict.fromkeys(_find_steps(node)))
    one = len(facts(node).reads) == 1 and len(steps) == 1 and _is_stepped(steps[0])
    return steps[0] if one else None


def _find_steps(node: Expr) -> list[Expr]:
    """Return the innermost parts of an expression that are whole, or rounded, and never turn in a column.

    A column that is read without one is among them.
    """
    if isinstance(node, Column):
        return [node]
    found: list[Expr] = []

    def find(part: Expr) -> Expr:
        found.extend(_find_steps(part))
        return part

    map_parts(node, find)
    return [node] if _is_stepped(node) and all(isinstance(each, Column) for each in found) else found


def _is_stepped(node: Expr) -> bool:
    match node:
        case Cast(operand, kind):
            return kind.integer and _never_turns(operand)
        case Apply(form, (operand, *digits)) if form.name.lower() in _WHOLE:
            return _never_turns(operand) and (not digits or form.name.lower() == "round")
        case Apply(form, (operand, other)):
            return form.name == "//" and not facts(other).reads and _never_turns(operand)
    return False


def _never_turns(node: Expr) -> bool:
    """Return whether an expression of one column never falls, or never rises, in it."""
    match node:
        case Column():
            return True
        case Paren(inner) | Try(inner) | Canonical(inner) | Saturated(inner) | Unary(_, inner):
            return _never_turns(inner)
        case Cast(operand, kind):
            return kind.numeric and _never_turns(operand)
        case Apply(form, (operand,)) if form.name.lower() in _WHOLE | _GROWING or form.name == "neg":
            return _never_turns(operand)
        case Apply(form, (left, right)) if form.name in _MONOTONE:
            if not facts(right).reads:
                return _never_turns(left)
            return form.name in ("+", "-", "*") and not facts(left).reads and _never_turns(right)
        case Binary(operator, left, right) if operator in ("+", "-", "*"):
            constant, other = (left, right) if not facts(left).reads else (right, left)
            return not facts(constant).reads and _never_turns(other)
    return False


def _find_ends(
    catalog: Catalog, column: Typed, known: KnownRows, compared: Sequence[Comparison]
) -> _Ends | None:
    """Return the ends that conditions on a number set; else its declared bounds, beyond which rows may be."""
    if not column.type.numeric:
        return None
    lows, highs, sure, null = _find_sides(catalog, column, known, compared)
    bounds = bounds_of(column)
    if not lows or not highs:
        return None
    (low, above), (high, included) = max(lows), min(highs)
    origin = ORIGIN if bounds is None or sure else bounds.origin or "declared bounds"
    ends = _make_constant(low, column.type, above), _make_constant(high, column.type, -(not included))
    return _Ends(*ends, sure, null, f"computed from {origin}")


def _find_end(
    catalog: Catalog, column: Typed, known: KnownRows, compared: Sequence[Comparison]
) -> _End | None:
    """Return the one end that conditions on a number set, or that it is never negative; None: not one."""
    if not column.type.numeric:
        return None
    lows, highs, _, null = _find_sides(catalog, column, known, compared)
    if bool(lows) == bool(highs):
        return None
    (value, beside), down = (max(lows), 1) if lows else (min(highs), -1)
    at = _make_constant(value, column.type, beside if lows else -(not beside))
    kind = column.type
    whole = 10 ** (kind.precision - kind.scale) // 2 if kind.name == "DECIMAL" else 1 << 60
    far = _make_constant(value + down * _FAR.get(kind.name, whole), kind, 0)
    sure = any(is_operand(column.node, one.operand) for one in compared)
    return _End(at, far, sure, null, "computed from an end and a cut")


def _find_sides(
    catalog: Catalog, column: Typed, known: KnownRows, compared: Sequence[Comparison]
) -> tuple[list[tuple[Fraction, bool]], list[tuple[Fraction, bool]], bool, bool]:
    """Return the low and high ends of a number, if both are of conditions, and whether it may be NULL."""
    found = [
        (one.operator, *read_ends(catalog, column, one))
        for one in compared
        if is_operand(column.node, one.operand)
    ]
    lows = [(low, operator == ">") for operator, low, _ in found if low is not None]
    highs = [(high, operator != "<") for operator, _, high in found if high is not None]
    sure, bounds = bool(lows and highs), bounds_of(column)
    null = not lows and not highs and not known.never_null(column.node)
    if not lows and (bounds is not None or is_never_negative(column, known.columns)):
        lows.append((Fraction(0) if bounds is None else bounds.low, False))
    if not highs and bounds is not None:
        highs.append((bounds.high, True))
    return lows, highs, sure, null


def _make_constant(value: Fraction, kind: SqlType, beside: int) -> Expr:
    """Return a number as a value of a type, or the one above it (1), or below (-1)."""
    if kind.name == "DECIMAL":
        size = Fraction(1, 10**kind.scale)
        steps = math.ceil(value / size) - 1 if beside < 0 else math.floor(value / size) + beside
        text = f"{Decimal(steps).scaleb(-kind.scale):f}"
    elif kind.integer:
        text = str(math.floor(value))
    else:
        number = float(value)
        text = repr(math.nextafter(number, math.inf * beside) if beside else number)
    return Cast(Constant(text, VARCHAR), kind, safe=False)


def _find_size(catalog: Catalog, step: Expr) -> int | None:
    """Return of what a step is a whole multiple: of 1, or of 10 by `round(x, -1)`; None if of a fraction."""
    match step:
        case Apply(_, (_, digits)) if step.form.name.lower() == "round":
            number = evaluate_number(catalog, digits)
            return None if number is None or not -9 <= number <= 0 else 10 ** int(-number)
    return 1


def _put(node: Expr, step: Expr, value: Expr) -> Expr:
    """Return an expression with a value in the place of a step."""
    return value if node == step else map_parts(node, lambda part: _put(part, step, value))
