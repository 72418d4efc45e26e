"""The query of the scores of bounds: how many units exceed each, and by how much.

The score of a bound B is the sum over units of floor(2^20 min((c - B)+ / (B/8), 1)), c being what a unit
has. Bounds double, so a unit with B < c <= 2B counts in full at all bounds below B, by the formula at B, and
not at all above: it is enough to know, of each bound, the units between it and the next one. These are few
numbers whatever the number of bounds, and each unit is compared with 7 of 84 bounds only.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from itertools import pairwise

from dpsql.kernel.mechanisms.ladder import FULL
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Call,
    Case,
    Cast,
    Column,
    Derived,
    Expr,
    Item,
    Join,
    Paren,
    Select,
    Values,
    columns,
    items,
    with_text,
)
from dpsql.kernel.tree.exact import BEYOND, clamp, huge, saturated, whole
from dpsql.types import BIGINT

_PARTS = 8 * FULL
"""The score of a unit is so many times its excess over the bound, divided by the bound."""
_FAR = 1 << 31
"""By what bounds beyond BIGINT are divided: parts of them are BIGINTs, too, and so is what a unit has."""


class Sums(Enum):
    """What is also summed over the units that exceed equally many bounds; the value is the query's width."""

    NONE = 3
    SIZES = 5
    """What they have: column `n3`; how far they are beyond the last bound that they exceed: `n4`."""
    SIGNED = 7
    """The same, `n3` with signs, from column `t`; how many have less than 0: `n5`; `n4` with signs: `n6`."""


def score_query(
    units: Select,
    bounds: Sequence[int],
    *,
    by_excess: bool,
    wide: bool,
    sums: Sums = Sums.NONE,
    fine: int | None = None,
    server: bool = False,
    total: str = "t",
) -> Select:
    """Return the query of the scores of bounds over units, whose column `a` is a whole number from 0 on.

    It has a row for the units that exceed equally many bounds: how many `n0`, the number of such units `n1`,
    and the sum of their scores at the last bound that they exceed `n2` (`mechanisms.RungBins`). The bounds
    are the powers of two from 1 on, perhaps after 0, which any unit above it exceeds in full; without
    `by_excess` that is so at every bound. `wide` says that `a` is a HUGEINT; else it is a BIGINT, and so is
    all that is computed. `fine` says in how many steps `n3` has a unit at the last bound that it exceeds: the
    step is the bound divided by it, or 1 if that is less. `server` says that the engine puts the expression
    of a subquery's column in the place of each of its names: the query then names `a` few times, and is
    slower. `total` is the column of what units have with signs: `a` if none has less than 0.
    """
    if server:
        return _query_with_bounds_as_rows(units, bounds, sums, fine, by_excess=by_excess, wide=wide)
    own = ["a", total] if sums is Sums.SIGNED and total != "a" else ["a"]
    if wide:
        small = Cast(Call("LEAST", (Column("v", "a"), whole((1 << 63) - 1))), BIGINT)
        units = Select((*(Item(Column("v", name)) for name in own), Item(small, "b")), Derived(units, "v"))
        own.append("b")
    given = (Item(Column("v", name)) for name in own)
    keyed = Select((_key(tuple(bounds), wide=wide), *given), Derived(units, "v"))
    numbers = _numbers(tuple(bounds), sums, fine, by_excess=by_excess, wide=wide, total=total)
    return Select(numbers, Derived(keyed, "w"), group=(Column("w", "k"),))


@lru_cache(maxsize=64)
def _numbers(
    bounds: tuple[int, ...], sums: Sums, fine: int | None, *, by_excess: bool, wide: bool, total: str
) -> tuple[Item, ...]:
    """Return the numbers of the query, which are the same for all units: see `score_query`."""
    key = Column("w", "k")
    score = _score(bounds, key, Column("w", "b" if wide else "a")) if by_excess else whole(FULL)
    more = _sums(sums, _last(Aggregate("MAX", (key,)), far=bool(_halves(bounds)[1])), fine, total)
    numbers = (_number(bounds, key), Aggregate("COUNT"), saturated(Aggregate("SUM", (score,))), *more)
    return tuple(map(with_text, items("n", numbers)))


def _sums(sums: Sums, last: Expr, fine: int | None, total: str = "t") -> tuple[Expr, ...]:
    """Return the sums over units with one last bound that they exceed."""
    if sums is Sums.NONE:
        return ()
    size, signed = (huge(Aggregate("SUM", (Column("w", name),))) for name in ("a", total))
    # It is cut after the difference: so one unit more never makes it less.
    beyond = _without(size, Aggregate("COUNT"), last)
    if sums is Sums.SIZES:
        return saturated(size), beyond
    negative = Aggregate("COUNT", (Case(((Binary("<", Column("w", total), whole(0)), whole(1)),)),))
    signs = Paren(Binary("-", Aggregate("COUNT"), Paren(Binary("*", negative, whole(2)))))
    net = _without(signed, signs, last)
    if fine is not None:
        step = Call("GREATEST", (Paren(Binary("//", huge(last), huge(whole(fine)))), huge(whole(1))))
        signed = Paren(Binary("//", signed, step))
    return saturated(signed), beyond, negative, net


def _without(total: Expr, times: Expr, last: Expr) -> Expr:
    """Return a sum less so many times the last bound that its units exceed."""
    return saturated(Paren(Binary("-", total, Paren(Binary("*", huge(times), huge(last))))))


def _last(key: Expr, *, far: bool) -> Expr:
    """Return the last bound that a unit with a key exceeds, 0 for none; `far` says that it may be wide."""
    near = Call("GREATEST", (key, whole(0)))
    if not far:
        return near
    there = Paren(Binary("*", huge(_less(whole(0), key)), whole(_FAR)))
    return Case(((Binary("<", key, whole(-1)), there),), huge(near))


def _less(one: Expr, other: Expr) -> Expr:
    return Paren(Binary("-", one, other))


def _query_with_bounds_as_rows(
    units: Select, bounds: Sequence[int], sums: Sums, fine: int | None, *, by_excess: bool, wide: bool
) -> Select:
    """Return the query with the bounds as rows of their own, of which each unit meets one."""
    rows: list[tuple[Expr, ...]] = []
    top = 2 * BEYOND if wide else (1 << 63) - 1
    for place, (lower, upper) in enumerate(pairwise((-1, *bounds, top))):
        times, parts = _ratio(lower) if by_excess and place else (FULL if place else 0, 1)
        # Public values are sent to servers as BIGINTs.
        halves = [half for each in (lower, upper) for half in (_split(each) if wide else (each,))]
        rows.append(tuple(map(whole, (place, times, parts, *halves))))
    names = tuple(f"b{i}" for i in range(len(rows[0])))
    listed = Values(tuple(rows), "v", names)
    each = Select(tuple(Item(Column("v", name), name) for name in names), listed)
    value, (number, more, less, *rest) = Column("w", "a"), columns("r", "b", len(names))
    ends: list[Expr] = [*rest]
    if wide:
        ends = [Paren(Binary("*", *map(huge, rest[i : i + 2]))) for i in (0, 2)]
        ends[0] = Call("LEAST", (ends[0], whole(bounds[-1])))  # which it is without
    low, high = ends
    there = Binary("AND", Binary(">", value, low), Binary("<=", value, high))
    last = Call("GREATEST", (low, whole(0)))
    # Cut before and after they are multiplied, neither of which changes the score.
    beyond = Binary("//", Paren(Binary("-", value, last)), less)
    score = Call("LEAST", (Binary("*", clamp(beyond, whole(FULL)), more), whole(FULL)))
    added = _sums(sums, Aggregate("MAX", (last,)), fine)
    numbers = (Cast(number, BIGINT), Aggregate("COUNT"), saturated(Aggregate("SUM", (score,))), *added)
    source = Join(Derived(units, "w"), "", Derived(each, "r"), there)
    return Select(items("n", numbers), source, group=(number,))


def _split(number: int) -> tuple[int, int]:
    """Return two BIGINTs with a product, which is a power of two or small."""
    return (number >> 40, 1 << 40) if number >> 60 else (number, 1)


def _ratio(bound: int) -> tuple[int, int]:
    """Return the score of a unit by its excess over a bound: times, divided by. One of the two is 1."""
    return (FULL, 1) if bound < 8 else (max(_PARTS // bound, 1), max(bound // _PARTS, 1))


@lru_cache(maxsize=64)
def _key(bounds: tuple[int, ...], *, wide: bool) -> Item:
    """Return the last bound that a unit exceeds as `k`; -1 for none.

    For one beyond BIGINT it is -1/2^31 times the bound. With `wide`, column `b` is what a unit has as BIGINT.
    """
    low, high = _halves(bounds)
    key = _searched(Column("v", "b" if wide else "a"), low, [whole(-1), *map(whole, low)])
    if high:
        value, keys = Column("v", "a"), [whole(-(bound // _FAR)) for bound in high]
        key = Case(((Binary(">", value, whole(high[0])), _searched(value, high[1:], keys)),), key)
    return with_text(Item(Cast(key, BIGINT), "k"))


def _searched(value: Expr, bounds: Sequence[int], results: Sequence[Expr]) -> Expr:
    """Return the result of as many bounds as a value exceeds, by halves."""
    if not bounds:
        return results[0]
    middle = len(bounds) // 2
    upper = _searched(value, bounds[middle + 1 :], results[middle + 1 :])
    lower = _searched(value, bounds[:middle], results[: middle + 1])
    return Case(((Binary(">", value, whole(bounds[middle])), upper),), lower)


def _number(bounds: Sequence[int], key: Expr) -> Expr:
    """Return the number of bounds that a unit with a key exceeds."""
    first = 2 if bounds[0] == 0 else 1
    near, far = (Call("bit_count", (_less(*pair),)) for pair in ((key, whole(1)), (whole(-1), key)))
    ends = (
        (Binary(">", key, whole(0)), Binary("+", Cast(near, BIGINT), whole(first))),
        (Binary("<", key, whole(-1)), Binary("+", Cast(far, BIGINT), whole(first + _FAR.bit_length() - 1))),
    )
    return Cast(Case(ends, Binary("+", key, whole(1))), BIGINT)


def _score(bounds: Sequence[int], bound: Expr, narrow: Expr) -> Expr:
    """Return the score of a unit at the last bound that it exceeds, which is its key.

    Most units exceed it by an eighth. For others a cut to twice the bound changes nothing, and nothing
    overflows with it, whatever an engine computes the score for. Both divisions of parts and bound are of
    powers of two: one is exact, the other is 1. Beyond BIGINT all of them are of multiples of 2^31.
    """
    one, parts = whole(1), whole(_PARTS)
    beyond = _less(narrow, bound)
    cut = Call("LEAST", (beyond, bound))
    more = Call("GREATEST", (Binary("//", parts, Call("GREATEST", (bound, one))), one))
    less = Call("GREATEST", (Binary("//", bound, parts), one))
    partial = Binary("//", Paren(Binary("*", cut, more)), less)
    rest = whole(0)
    if _halves(bounds)[1]:
        wide = Cast(Paren(Binary("//", Column("w", "a"), whole(_FAR))), BIGINT)
        part = Call("GREATEST", (Binary("//", _less(whole(0), bound), parts), one))
        score = Call("LEAST", (Binary("//", Paren(Binary("+", wide, bound)), part), whole(FULL)))
        rest = Case(((Binary("<", bound, whole(-1)), score),), rest)
    full = Binary(">=", beyond, Paren(Binary("//", bound, whole(8))))
    return Case(((Binary("<", bound, whole(0)), rest), (full, whole(FULL))), partial)


def _halves(bounds: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    """Return the bounds an eighth beyond which is a BIGINT, and the others."""
    low = [bound for bound in bounds if bound >> 63 == 0]
    return low, bounds[len(low) :]
