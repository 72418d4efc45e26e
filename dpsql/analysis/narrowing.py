"""Narrower bounds of values: by the conditions that each counted row meets, read from WHERE and joins.

`amount BETWEEN 0 AND 200` says of the counted rows what the policy says of all: the narrower interval of the
two is the cut. A condition that leaves nothing of the declared bounds changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dpsql.analysis.catalog import Catalog
from dpsql.analysis.integers import compares
from dpsql.analysis.intervals import bounds_of
from dpsql.analysis.joined import Joined, substituted
from dpsql.analysis.ranges import ORIGIN, Compared, comparisons, limits_of
from dpsql.analysis.relation import From
from dpsql.analysis.typed import Bounds, Typed, exactly
from dpsql.kernel.tree import Cast, Constant, Expr, Paren, Unary, duckdb_sql
from dpsql.types import DOUBLE

_End = Fraction | None


def narrowed(catalog: Catalog, value: Typed, known: Joined) -> Typed:
    """Return an expression with its bounds, within those of the conditions on the very expression.

    Without bounds of its own it gets those of the conditions, if these set both ends.
    """
    return _narrowed(catalog, value, known, comparisons(known.conditions))


def narrowed_rows(catalog: Catalog, rows: From, known: Joined) -> From:
    """Return FROM with each column narrowed, so that expressions over the columns are narrower, too."""
    found = comparisons(known.conditions)
    if not found:
        return rows
    scope = rows.scope
    origins = tuple(o.mapped(lambda c: _narrowed(catalog, c, known, found)) for o in scope.origins)
    merged = {name: _narrowed(catalog, c, known, found) for name, c in scope.merged.items()}
    return replace(rows, scope=replace(scope, origins=origins, merged=merged))


def _narrowed(catalog: Catalog, value: Typed, known: Joined, found: Sequence[Compared]) -> Typed:
    own = bounds_of(value)
    low, high = _limits(catalog, replace(value, node=substituted(value.guarded_node, known.made_of)), found)
    if own is not None:
        ends = (
            own.low if low is None else max(own.low, low),
            own.high if high is None else min(own.high, high),
        )
        if ends == (own.low, own.high) or ends[0] > ends[1]:
            return replace(value, bounds=own)
        origin = f"{own.origin} and {ORIGIN}" if own.origin else ORIGIN
        return replace(value, bounds=Bounds(*ends, origin, own.step))
    if low is None or high is None or low > high:
        return value
    return replace(value, bounds=Bounds(low, high, ORIGIN))


def _limits(catalog: Catalog, value: Typed, found: Sequence[Compared]) -> tuple[_End, _End]:
    """Return the least and the greatest value that conditions on an expression allow, where they set one."""
    if value.type.moment or value.type.name == "DATE":
        first, last = limits_of(catalog, value.node, value.type, found)
        return None if first is None else Fraction(first), None if last is None else Fraction(last)
    if not value.type.numeric:
        return None, None
    pairs = [_ends(catalog, value, one) for one in found if _is(value.node, one.operand)]
    lows = [low for low, _ in pairs if low is not None]
    highs = [high for _, high in pairs if high is not None]
    return max(lows, default=None), min(highs, default=None)


def _is(node: Expr, operand: Expr) -> bool:
    """Return whether an operand is an expression, or a conversion of it that changes no number."""
    if compares(operand, node):
        return True
    if isinstance(operand, Cast) and (operand.type == DOUBLE or (operand.type.integer and not operand.safe)):
        return operand.operand == node
    return operand == node


def _ends(catalog: Catalog, value: Typed, one: Compared) -> tuple[_End, _End]:
    """Return the ends that one condition sets; `<` and `>` leave the constant out for integers alone."""
    numbers = [number for v in one.values if (number := _number(catalog, v)) is not None]
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


def _number(catalog: Catalog, value: Expr) -> Fraction | None:
    """Return a constant as an exact number; None if it is NULL, NaN, infinite or no number.

    The engine is asked only where the constant is computed: lists may be long.
    """
    if isinstance(value, Paren):
        return _number(catalog, value.inner)
    if isinstance(value, Cast) and (value.type == DOUBLE or not value.safe):
        return _number(catalog, value.operand)
    if isinstance(value, Unary) and value.operator == "-":
        number = _number(catalog, value.operand)
        return None if number is None else -number
    try:
        known = value.value if isinstance(value, Constant) else catalog.evaluate(duckdb_sql(value))
    except ValueError:
        return None
    found = exactly(known)
    return None if found is None else found.low
