"""The query of the scores of bounds: how many units exceed each, and by how much.

The score of a bound B is the sum over units of floor(2^20 min((c - B)+ / (B/8), 1)), c being what a unit
has. Bounds double, so a unit with B < c <= 2B counts in full at all bounds below B, by the formula at B, and
not at all above: it is enough to know, of each bound, the units between it and the next one. These are few
numbers whatever the number of bounds, and each unit is compared with 7 of 84 bounds only.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from dpsql.analysis.grids import huge, saturated, whole
from dpsql.estimates import FULL
from dpsql.tree import Aggregate, Binary, Call, Case, Cast, Column, Derived, Expr, Item, Paren, Select, items
from dpsql.types import BIGINT

_PLACE = 1 << 32
"""What a place is worth in a number that holds a place and a score."""


class Sums(Enum):
    """What is also summed over the units that exceed equally many bounds."""

    NONE = 3
    SIZES = 5
    """What they have: column `n3`; how far they are beyond the last bound that they exceed: `n4`."""
    SIGNED = 7
    """The same, `n3` of those with more than 0 in column `t`; the number of those with less `n5`, what they
    have `n6`."""


def scored(
    units: Select, bounds: Sequence[int], *, by_excess: bool, wide: bool, sums: Sums = Sums.NONE
) -> Select:
    """Return the query of the scores of bounds over units, whose column `a` is a whole number from 0 on.

    It has a row for the units that exceed equally many bounds: how many `n0`, the number of such units `n1`,
    and the sum of their scores at the last bound that they exceed `n2` (`mechanisms.RungBins`). The bounds
    are powers of two in ascending order, perhaps after 0, which any unit above it exceeds in full; without
    `by_excess` that is so at every bound. `wide` says that `a` is a HUGEINT; else it is a BIGINT, and so is
    all that is computed.
    """
    value = Column("v", "a")
    code = _code(value, bounds, range(len(bounds) + 1), by_excess=by_excess, wide=wide)
    own = [Item(Column("v", name)) for name in ("a", "t")[: _COLUMNS[sums]]]
    coded = Select((Item(code, "c"), *own), Derived(units, "v"))
    place = Cast(Paren(Binary("//", Column("w", "c"), whole(_PLACE))), BIGINT)
    score = saturated(Aggregate("SUM", (Binary("%", Column("w", "c"), whole(_PLACE)),)))
    numbers = (place, Aggregate("COUNT"), score, *_sums(sums, bounds, place))
    return Select(items("n", numbers), Derived(coded, "w"), group=(place,))


_COLUMNS = {Sums.NONE: 0, Sums.SIZES: 1, Sums.SIGNED: 2}


def _sums(sums: Sums, bounds: Sequence[int], place: Expr) -> tuple[Expr, ...]:
    """Return the sums over units that exceed equally many bounds, of which `place` is the number."""
    size, signed, zero = Column("w", "a"), Column("w", "t"), whole(0)
    if sums is Sums.NONE:
        return ()
    # It is cut after the difference: so one unit more never makes it less.
    same = Aggregate("MAX", (place,))
    last = Case(tuple((Binary("=", same, whole(i)), whole(b)) for i, b in enumerate(bounds, 1)), zero)
    below = Paren(Binary("*", huge(Aggregate("COUNT")), huge(last)))
    beyond = saturated(Paren(Binary("-", huge(Aggregate("SUM", (size,))), below)))
    if sums is Sums.SIZES:
        return saturated(Aggregate("SUM", (size,))), beyond
    positive, negative = (Case(((Binary(sign, signed, zero), size),)) for sign in "><")
    cut = [saturated(Aggregate("SUM", (each,))) for each in (positive, negative)]
    return cut[0], beyond, Aggregate("COUNT", (negative,)), cut[1]


def _code(value: Expr, bounds: Sequence[int], numbers: range, *, by_excess: bool, wide: bool) -> Expr:
    """Return `_PLACE` times the number of bounds that a value exceeds, plus its score at the last of them.

    That it exceeds as many as one of `numbers` is known.
    """
    if len(numbers) > 1:
        middle = numbers[len(numbers) // 2]
        halves = (range(middle, numbers.stop), range(numbers.start, middle))
        upper, lower = (_code(value, bounds, half, by_excess=by_excess, wide=wide) for half in halves)
        return Case(((Binary(">", value, whole(bounds[middle - 1])), upper),), lower)
    (number,) = numbers
    if not number:
        return whole(0)
    bound, code = bounds[number - 1], number * _PLACE
    if bound < 8 or not by_excess:  # an eighth of it is less than 1
        return whole(code + FULL)
    # Cut to where the score is full: nothing overflows, whatever value an engine computes it for.
    cut = Call("LEAST", (value, whole(bound + bound // 8)))
    beyond: Expr = Paren(Binary("-", cut, whole(bound)))
    parts = 8 * FULL
    if bound < parts:
        beyond = Paren(Binary("*", beyond, whole(parts // bound)))
    elif bound > parts:
        beyond = Paren(Binary("//", beyond, whole(bound // parts)))
    return Binary("+", whole(code), Cast(beyond, BIGINT) if wide else beyond)
