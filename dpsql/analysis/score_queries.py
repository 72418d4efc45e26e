"""The query of the scores of bounds: how many units exceed each, and by how much.

The score of a bound B is the sum over units of floor(2^20 min((c - B)+ / (B/8), 1)), c being what a unit
has. Bounds double, so a unit with B < c <= 2B counts in full at all bounds below B, by the formula at B, and
not at all above: it is enough to know, of each bound, the units between it and the next one. These are few
numbers whatever the number of bounds, and each unit is compared with 7 of 84 bounds only.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.analysis.grids import saturated, whole
from dpsql.estimates import FULL
from dpsql.tree import Aggregate, Binary, Call, Case, Cast, Column, Derived, Expr, Item, Paren, Select
from dpsql.types import BIGINT

NUMBERS = 3
"""How many numbers the query has in a row."""
_PLACE = 1 << 32
"""What a place is worth in a number that holds a place and a score."""


def scored(units: Select, bounds: Sequence[int], *, by_excess: bool, wide: bool) -> Select:
    """Return the query of the scores of bounds over units, whose column `a` is a whole number from 0 on.

    Its rows are, for each bound that a unit exceeds without exceeding the next one: the place of the bound
    `n0`, the number of such units `n1`, and the sum of their scores at that bound `n2`
    (`estimates.scores_by_place`). The bounds are powers of two in ascending order, perhaps after 0, which any
    unit above it exceeds in full; without `by_excess` that is so at every bound. `wide` says that `a` is a
    HUGEINT; else it is a BIGINT, and so is all that is computed.
    """
    value = Column("v", "a")
    coded = _place(value, bounds, range(len(bounds)), by_excess=by_excess, wide=wide)
    above = Select((Item(coded, "c"),), Derived(units, "v"), Binary(">", value, whole(bounds[0])))
    code = Column("w", "c")
    place = Cast(Paren(Binary("//", code, whole(_PLACE))), BIGINT)
    score = saturated(Aggregate("SUM", (Binary("%", code, whole(_PLACE)),)))
    listed = (Item(place, "n0"), Item(Aggregate("COUNT"), "n1"), Item(score, "n2"))
    return Select(listed, Derived(above, "w"), group=(place,))


def _place(value: Expr, bounds: Sequence[int], places: range, *, by_excess: bool, wide: bool) -> Expr:
    """Return `_PLACE` times the place of the last bound that a value exceeds, plus its score there."""
    if len(places) > 1:
        middle = places[len(places) // 2]
        halves = (range(middle, places.stop), range(places.start, middle))
        upper, lower = (_place(value, bounds, half, by_excess=by_excess, wide=wide) for half in halves)
        return Case(((Binary(">", value, whole(bounds[middle])), upper),), lower)
    (place,) = places
    bound, code = bounds[place], place * _PLACE
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
    score = Cast(beyond, BIGINT) if wide else beyond
    return Binary("+", whole(code), score) if code else score
