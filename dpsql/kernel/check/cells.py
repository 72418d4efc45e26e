"""The values of expressions in the cells of a search, of all cells at once.

In each cell some columns of a unit's row lie between two ends. An expression of them lies there between ends
that follow from theirs. What is computed for one node is computed for all cells in one pass, and kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from dpsql.kernel.check.proof import Proof, is_whole, strip_parens, whole_number
from dpsql.kernel.check.relation import name_of
from dpsql.kernel.check.types_of import Number
from dpsql.kernel.check.types_of import ends as ends_of_type
from dpsql.kernel.tree import Aggregate, Binary, Call, Case, Cast, Column, Expr


class Ends(NamedTuple):
    """The least and the greatest value in each cell."""

    low: Sequence[Number]
    high: Sequence[Number]

    @property
    def known(self) -> bool:
        """Whether there is one value in each cell, a whole number."""
        return self.low == self.high and all(type(x) is int for x in self.low)

    def at(self, cells: Sequence[int]) -> Ends:
        """Return those of some cells."""
        return Ends([self.low[i] for i in cells], [self.high[i] for i in cells])


@dataclass(slots=True, eq=False)
class Cells:
    """Cells, with the ends of columns in them; no column is NULL."""

    number: int
    columns: dict[str, Ends]
    cell: Sequence[int]
    """The number of each cell; parts of one cell have one number."""
    found: dict[Expr, Ends] = field(default_factory=dict)
    """The ends of expressions that were computed."""

    def at(self, cells: Sequence[int]) -> Cells:
        """Return some of the cells."""
        columns = {name: ends.at(cells) for name, ends in self.columns.items()}
        return Cells(len(cells), columns, [self.cell[i] for i in cells])


def ends_in(proof: Proof, expr: Expr, cells: Cells) -> Ends:
    """Return the ends of an expression of a unit's row in each cell; refuse what is not known."""
    made = cells.found.get(expr)
    if made is None:
        made = cells.found[expr] = _ends(proof, strip_parens(expr), cells)
    return made


def key_in(proof: Proof, expr: Expr, cells: Cells) -> Sequence[int]:
    """Return the value of an expression that is one in each cell, the same for all units in it."""
    ends = ends_in(proof, expr, cells)
    if not ends.known:
        proof.refuse("an unknown number of cells", expr)
    return [int(x) for x in ends.low]


def _ends(proof: Proof, expr: Expr, cells: Cells) -> Ends:
    value = whole_number(expr)
    if value is not None:
        same = [value] * cells.number
        return Ends(same, same)
    match expr:
        case Column() if (name := name_of(expr)) in cells.columns:
            return cells.columns[name]
        case Cast(x) if is_whole(expr):
            ends, (least, most) = ends_in(proof, x, cells), ends_of_type(expr.type)
            if not least <= min(ends.low) or not max(ends.high) <= most:
                proof.refuse("a value of cells that may not fit its type", expr)
            return ends
        case Aggregate("MAX" | "MIN", (x,), False, (), None):
            # One value in each cell is that of all its units.
            ends = ends_in(proof, x, cells)
            if ends.known:
                return ends
        case Call(name, arguments) if name.upper() in ("LEAST", "GREATEST"):
            found = [ends_in(proof, x, cells) for x in arguments]
            pick = min if name.upper() == "LEAST" else max
            lows, highs = (
                zip(*(x.low for x in found), strict=True),
                zip(*(x.high for x in found), strict=True),
            )
            return Ends([*map(pick, lows)], [*map(pick, highs)])
        case Call("bit_count", (x,)):
            ends = ends_in(proof, x, cells)
            if ends.known and min(ends.low) >= 0:
                bits = [int(each).bit_count() for each in ends.low]
                return Ends(bits, bits)
        case Binary("+" | "-" | "*" | "//" as operator, x, y):
            return computed(proof, operator, ends_in(proof, x, cells), ends_in(proof, y, cells), expr)
        case Case(branches, default) if default is not None:
            return _chosen(proof, branches, default, cells)
    return proof.refuse("an unknown value of cells", expr)


def _chosen(proof: Proof, branches: tuple[tuple[Expr, Expr], ...], default: Expr, cells: Cells) -> Ends:
    """Return the ends of CASE: in each cell those of the branches that are not ruled out there."""
    low: list[Number | None] = [None] * cells.number
    high: list[Number | None] = [None] * cells.number
    waiting, here = [*range(cells.number)], cells
    for condition, result in (*branches, (None, default)):
        if not waiting:
            break
        holds = [True] * len(waiting) if condition is None else _holds(proof, strip_parens(condition), here)
        met = [i for i, known in enumerate(holds) if known is not False]
        if met:
            ends = ends_in(proof, result, here if len(met) == here.number else here.at(met))
            for i, least, most in zip(met, ends.low, ends.high, strict=True):
                place = waiting[i]
                before, after = low[place], high[place]
                low[place] = least if before is None else min(before, least)
                high[place] = most if after is None else max(after, most)
        left = [i for i, known in enumerate(holds) if known is not True]
        waiting = [waiting[i] for i in left]
        here = _without(strip_parens(condition), here, left) if condition is not None else here
    return Ends([x for x in low if x is not None], [x for x in high if x is not None])


def counted(proof: Proof, expr: Expr, cells: Cells) -> Ends:
    """Return how many rows a unit adds to COUNT(x): 1 or none, where CASE WHEN c THEN 1 END says which."""
    case = strip_parens(expr)
    if isinstance(case, Case) and len(case.branches) == 1 and case.default is None:
        condition, value = case.branches[0]
        if whole_number(value) is not None:
            holds = _holds(proof, strip_parens(condition), cells)
            return Ends([int(known is True) for known in holds], [int(known is not False) for known in holds])
    return Ends([0] * cells.number, [1] * cells.number)


def _without(condition: Expr, cells: Cells, left: Sequence[int]) -> Cells:
    """Return some cells, of units for which a condition does not hold: of `x >= y` that x is less than y.

    The values are whole numbers, and none is NULL.
    """
    made = cells.at(left)
    if isinstance(condition, Binary) and condition.operator == ">=":
        x, y = (cells.found[side].at(left) for side in (condition.left, condition.right))
        high = [min(a, b - 1) for a, b in zip(x.high, y.high, strict=True)]
        made.found[condition.left] = Ends(x.low, high)
    return made


def _holds(proof: Proof, condition: Expr, cells: Cells) -> list[bool | None]:
    """Return whether a comparison holds in all of a cell, in none of it, or (None) in some of it."""
    if not isinstance(condition, Binary) or condition.operator not in ("<", ">", "<=", ">="):
        return [None] * cells.number
    x, y = ends_in(proof, condition.left, cells), ends_in(proof, condition.right, cells)
    if condition.operator in ("<", "<="):
        x, y = y, x
    every = zip(x.low, x.high, y.low, y.high, strict=True)
    if condition.operator in ("<", ">"):
        return [True if a > d else False if b <= c else None for a, b, c, d in every]
    return [True if a >= d else False if b < c else None for a, b, c, d in every]


def computed(proof: Proof, operator: str, x: Ends, y: Ends, expr: Expr) -> Ends:
    """Return the ends of a sum, difference, product, or quotient that is rounded towards 0."""
    if operator == "+":
        return Ends(
            [a + b for a, b in zip(x.low, y.low, strict=True)],
            [a + b for a, b in zip(x.high, y.high, strict=True)],
        )
    if operator == "-":
        return Ends(
            [a - b for a, b in zip(x.low, y.high, strict=True)],
            [a - b for a, b in zip(x.high, y.low, strict=True)],
        )
    if operator == "*":
        every = [
            (_times(a, c), _times(a, d), _times(b, c), _times(b, d))
            for a, b, c, d in zip(x.low, x.high, y.low, y.high, strict=True)
        ]
        return Ends([*map(min, every)], [*map(max, every)])
    if not y.known or min(y.low) < 1:
        proof.refuse("a division by what is not one number", expr)
    divisors = [int(d) for d in y.low]
    return Ends(
        [_towards_zero(a, d) for a, d in zip(x.low, divisors, strict=True)],
        [_towards_zero(b, d) for b, d in zip(x.high, divisors, strict=True)],
    )


def _times(x: Number, factor: Number) -> Number:
    return x * factor if x and factor else 0


def _towards_zero(x: Number, divisor: int) -> Number:
    if isinstance(x, float):
        return x  # an infinity
    return (
        int(Fraction(x, divisor)) if isinstance(x, Fraction) else x // divisor if x >= 0 else -(-x // divisor)
    )
