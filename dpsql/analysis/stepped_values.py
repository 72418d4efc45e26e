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
    mapped,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.types import NULL, VARCHAR, SqlType

_WHOLE = frozenset(("ceil", "ceiling", "floor", "round", "trunc"))
_GROWING = frozenset(("cbrt", "exp", "ln", "log", "log10", "log2", "sqrt"))
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
    if ends is None:
        return None
    at = [substitute_columns(step, {name: end}) for end in (ends.low, ends.high)]
    size, values = _find_size(catalog, step), [evaluate_number(catalog, each) for each in at]
    found = sorted(value for value in values if value is not None)
    if size is None or len(found) < len(at) or found[1] - found[0] >= size * MAX_LISTED:
        return None
    first, last = (round(value / size) * size for value in found)
    each = Cast(Column("", "i"), catalog.type_of(duckdb_sql(at[0])))
    value = Item(_put(node, step, each), "v")
    query = Select((value,), Range(first, last + 1, size), distinct=True)
    domain = KeyDomain(query, origin=ends.origin, null=True, complete=ends.sure)
    # What is computed from a step may be NULL, as `nullif(floor(x), 1)`, where the number is not.
    null = ends.null or catalog.count(f"SELECT d.v FROM ({domain.sql}) AS d WHERE d.v IS NULL")
    return add_null(domain) if null else domain.without_null()


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

    mapped(node, find)
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
    if not lows or not highs:
        return None
    (low, above), (high, included) = max(lows), min(highs)
    origin = ORIGIN if bounds is None or sure else bounds.origin or "declared bounds"
    ends = _make_constant(low, column.type, above), _make_constant(high, column.type, -(not included))
    return _Ends(*ends, sure, null, f"computed from {origin}")


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
    return value if node == step else mapped(node, lambda part: _put(part, step, value))
