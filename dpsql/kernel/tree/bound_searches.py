"""Numbers of units by what each has in the whole table: `Scores`, `Above` and `Beyond`.

`Scores` has how many units exceed each of some bounds, and by how much; `Above` and `Beyond` have numbers of
all units together, of those above ends and of those beyond an interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import lru_cache, reduce
from itertools import pairwise

from dpsql.kernel.tree.counted import in_ratio
from dpsql.kernel.tree.exact import BEYOND, clamp, huge, saturate, whole
from dpsql.kernel.tree.expressions import Aggregate, Binary, Call, Case, Cast, Column, IsNull, Paren
from dpsql.kernel.tree.node import Expr, Lowered, Query
from dpsql.kernel.tree.relations import Derived, Item, Join, Select, Values, columns, items
from dpsql.kernel.tree.writer import with_text
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BIGINT


@dataclass(frozen=True, slots=True, eq=False)
class Above(Lowered):
    """How many units are above each of some ends: `n0`, ..

    `units` has one row for each unit, with a number `a`. *Claim:* a unit adds 0 or 1 to each.
    """

    units: Query
    ends: tuple[int, ...]

    def _lower(self) -> Query:
        cases = (Case(((Binary(">", Column("v", "a"), whole(end)), whole(1)),)) for end in self.ends)
        return Select(items("n", (Aggregate("COUNT", (case,)) for case in cases)), Derived(self.units, "v"))


@dataclass(frozen=True, slots=True, eq=False)
class Beyond(Lowered):
    """What values are above (`n0`) and below (`n1`) an interval, and what they lack to w each (`n2`).

    `rows` have the unit `u` and a value `f0`. `most` = B of a unit's rows count: a unit with n > B values
    counts with B/n of what they have. If not `by_unit`, each row is a unit.

    *Claim:* 0 to B w, all three together at most B w, for w = `width`. The first, x, is cut to 0 .. B w, the
    second, y, to 0 .. B w - x, and the third is from 0 to what LEAST(n, B) w has more than x + y. None of
    this is NULL, and it follows from the rows of the unit alone.
    """

    rows: Query
    low: int
    high: int
    width: int
    most: int
    by_unit: bool

    @property
    def units(self) -> Select:
        """How far values of each unit are above the interval (`a0`) and below (`a1`); their number (`a2`)."""
        value, unit = Column("s", "f0"), Column("s", "u")
        ends = (Binary("-", value, whole(self.high)), Binary("-", whole(self.low), value))
        # GREATEST leaves NULLs out: a NULL would be at an end.
        there = IsNull(value, negated=True)
        above, below = (_if(there, Call("GREATEST", (Paren(each), whole(0)))) for each in ends)
        if not self.by_unit:
            return Select(items("a", (above, below, _if(there, whole(1)))), Derived(self.rows, "s"))
        sums = (Aggregate("SUM", (above,)), Aggregate("SUM", (below,)), Aggregate("COUNT", (value,)))
        return Select(items("a", sums), Derived(self.rows, "s"), IsNull(unit, negated=True), group=(unit,))

    def _lower(self) -> Query:
        n, every = Column("v", "a2"), whole(self.most * self.width)
        parts: list[Expr] = []
        for name in ("a0", "a1"):
            own = huge(Call("COALESCE", (Column("v", name), whole(0))))
            parts.append(clamp(in_ratio(own, self.most, n), _rest(every, parts)))
        most = Paren(Binary("*", huge(Call("LEAST", (n, whole(self.most)))), whole(self.width)))
        sums = (*parts, clamp(_rest(most, parts), every))
        return Select(items("n", (saturate(Aggregate("SUM", (x,))) for x in sums)), Derived(self.units, "v"))


def _if(condition: Expr, value: Expr) -> Expr:
    return Case(((condition, value),), whole(0))


def _rest(every: Expr, parts: Sequence[Expr]) -> Expr:
    """Return an expression for the number `every` less all of `parts`."""
    return reduce(lambda left, part: Paren(Binary("-", left, part)), parts, every)


FULL = 1 << 20
"""What a unit counts that exceeds a bound by an eighth of it or more, as mechanisms are planned for."""
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
    """The same, `n3` with signs; how many have less than 0: `n5`; `n4` with signs: `n6`."""


@dataclass(frozen=True, slots=True, eq=False)
class Scores(Lowered):
    """Units by how many bounds they exceed: of each number `n0` how many units there are, and sums of them.

    `units` has one row for each unit, with a whole number a >= 0 as `a`; if `signed`, one t as `t`, and a is
    its absolute value. `n1` is the number of units, `n2` the sum of their scores at the last bound that they
    exceed, and `sums` says what more; without `signed`, t is a. The bounds are the powers of two from 1 on,
    perhaps after 0. The score at a bound B is floor(2^20 min((a - B)+ / (B/8), 1)), and without `by_excess`,
    or at 0, that of any excess is full. A unit with B < a <= 2B counts in full at all bounds below B, by the
    formula at B, and not at all above: no more is to be known (`RungBins`). `wide` says that a is a HUGEINT;
    else it is a BIGINT, as is all that is computed. With `fine`, a power of two, `n3` is in steps
    of the last bound divided by it, or of 1 if that is less. An engine that is a `server` puts the expression
    of a column in the place of each of its names: its query names a few times, and is slower.

    *Claim.* Of B_1 < B_2 < .. let B_j be the last bound that a unit exceeds, or B_0 = 0 if it exceeds none.
    It is in the row of j alone, and all other units there have the same j. It adds 1 to `n1`, 0 to `FULL` to
    `n2`, t to `n3`, a - B_j to `n4`, 1 or 0 to `n5` and the same as to `n4`, with the sign of t, to `n6`;
    |t| = a <= B_(j+1), if there is one.

    *By a tree.* k is found by halves: B_j, -1 for none, and -B_j/2^31 if that is no BIGINT: another one for
    each j. It is -1, or from 0 on, or at most -2^32, so that the formulas of j are right: bit_count(2^i - 1)
    is i. A group has one k, so B_j is a constant of it, also as MAX(k). `b` is a, cut above all bounds of 63
    bits.
    *By rows* of constants: the intervals from B_j (excluded) to B_(j+1) are apart, from -1 to more than a.
    *Scores* of k >= 0: if a - k >= k//8, the full one. Else a - k < k//8, so the partial one is less than
    (k/8) 2^23/k = `FULL`, since either factor or divisor is 1 and both are exact. Beyond BIGINT and by rows
    it is cut to 0 .. `FULL`. *Sums* are cut to 2^60 on both sides, and `n3` is divided by a constant s >= 1
    of the group, rounded towards 0: both keep the order of numbers, and the latter moves by ceil(|t|/s).
    """

    units: Query
    bounds: tuple[int, ...]
    by_excess: bool
    wide: bool
    sums: Sums = Sums.NONE
    fine: int | None = None
    server: bool = False
    signed: bool = False

    def _lower(self) -> Query:
        units, total = self.units, "t" if self.signed else "a"
        if self.signed:
            size = Call("abs", (Column("x", "t"),))
            units = Select((Item(size, "a"), Item(Column("x", "t"))), Derived(units, "x"))
        if self.server:
            return self._with_bounds_as_rows(units)
        own = ["a", "t"] if self.sums is Sums.SIGNED and self.signed else ["a"]
        if self.wide:
            small = Cast(Call("LEAST", (Column("v", "a"), whole((1 << 63) - 1))), BIGINT)
            units = Select((*(Item(Column("v", n)) for n in own), Item(small, "b")), Derived(units, "v"))
            own.append("b")
        keyed = Select(
            (_key(self.bounds, wide=self.wide), *(Item(Column("v", n)) for n in own)), Derived(units, "v")
        )
        numbers = _numbers(
            self.bounds, self.sums, self.fine, by_excess=self.by_excess, wide=self.wide, total=total
        )
        return Select(numbers, Derived(keyed, "w"), group=(Column("w", "k"),))

    def _with_bounds_as_rows(self, units: Query) -> Query:
        """Return the query with the bounds as rows of their own, of which each unit meets one."""
        rows: list[tuple[Expr, ...]] = []
        top = 2 * BEYOND if self.wide else (1 << 63) - 1
        for place, (lower, upper) in enumerate(pairwise((-1, *self.bounds, top))):
            times, parts = _ratio(lower) if self.by_excess and place else (FULL if place else 0, 1)
            # Public values are sent to servers as BIGINTs.
            halves = [half for each in (lower, upper) for half in (_split(each) if self.wide else (each,))]
            rows.append(tuple(map(whole, (place, times, parts, *halves))))
        names = tuple(f"b{i}" for i in range(len(rows[0])))
        listed = Values(tuple(rows), "v", names)
        each = Select(tuple(Item(Column("v", name), name) for name in names), listed)
        value, (number, more, less, *rest) = Column("w", "a"), columns("r", "b", len(names))
        ends: list[Expr] = [*rest]
        if self.wide:
            ends = [Paren(Binary("*", *map(huge, rest[i : i + 2]))) for i in (0, 2)]
            ends[0] = Call("LEAST", (ends[0], whole(self.bounds[-1])))  # which it is without
        low, high = ends
        there = Binary("AND", Binary(">", value, low), Binary("<=", value, high))
        last = Call("GREATEST", (low, whole(0)))
        # Cut before and after they are multiplied, neither of which changes the score.
        beyond = Binary("//", Paren(Binary("-", value, last)), less)
        score = Call("LEAST", (Binary("*", clamp(beyond, whole(FULL)), more), whole(FULL)))
        added = _sums(self.sums, Aggregate("MAX", (last,)), self.fine, "t" if self.signed else "a")
        numbers = (Cast(number, BIGINT), Aggregate("COUNT"), saturate(Aggregate("SUM", (score,))), *added)
        source = Join(Derived(units, "w"), "", Derived(each, "r"), there)
        return Select(items("n", numbers), source, group=(number,))


@lru_cache(maxsize=64)
def _numbers(
    bounds: tuple[int, ...], sums: Sums, fine: int | None, *, by_excess: bool, wide: bool, total: str
) -> tuple[Item, ...]:
    """Return the items `n0`, .. of the query of `Scores`; they are the same for all queries of units."""
    key = Column("w", "k")
    score = _score(bounds, key, Column("w", "b" if wide else "a")) if by_excess else whole(FULL)
    more = _sums(sums, _last(Aggregate("MAX", (key,)), far=bool(_halves(bounds)[1])), fine, total)
    numbers = (_number(bounds, key), Aggregate("COUNT"), saturate(Aggregate("SUM", (score,))), *more)
    return tuple(map(with_text, items("n", numbers)))


def _sums(sums: Sums, last: Expr, fine: int | None, total: str) -> tuple[Expr, ...]:
    """Return the sums over the units that have the same last bound which they exceed."""
    if sums is Sums.NONE:
        return ()
    size, signed = (huge(Aggregate("SUM", (Column("w", name),))) for name in ("a", total))
    # It is cut after the difference: so one unit more never makes it less.
    beyond = _without(size, Aggregate("COUNT"), last)
    if sums is Sums.SIZES:
        return saturate(_in_steps(size, last, fine)), beyond
    negative = Aggregate("COUNT", (Case(((Binary("<", Column("w", total), whole(0)), whole(1)),)),))
    signs = Paren(Binary("-", Aggregate("COUNT"), Paren(Binary("*", negative, whole(2)))))
    return saturate(_in_steps(signed, last, fine)), beyond, negative, _without(signed, signs, last)


def _in_steps(total: Expr, last: Expr, fine: int | None) -> Expr:
    """Return a sum of units in steps of the last bound that they exceed divided by `fine`, at least 1."""
    if fine is None:
        return total
    step = Call("GREATEST", (Paren(Binary("//", huge(last), huge(whole(fine)))), huge(whole(1))))
    return Paren(Binary("//", total, step))


def _without(total: Expr, times: Expr, last: Expr) -> Expr:
    """Return a sum less a multiple of the last bound that its units exceed."""
    return saturate(Paren(Binary("-", total, Paren(Binary("*", huge(times), huge(last))))))


def _last(key: Expr, *, far: bool) -> Expr:
    """Return the last bound that a unit with a key exceeds, 0 for none; `far` says that it may be wide."""
    near = Call("GREATEST", (key, whole(0)))
    if not far:
        return near
    there = Paren(Binary("*", huge(_less(whole(0), key)), whole(_FAR)))
    return Case(((Binary("<", key, whole(-1)), there),), huge(near))


def _less(one: Expr, other: Expr) -> Expr:
    return Paren(Binary("-", one, other))


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
    key = _search(Column("v", "b" if wide else "a"), low, [whole(-1), *map(whole, low)])
    if high:
        value, keys = Column("v", "a"), [whole(-(bound // _FAR)) for bound in high]
        key = Case(((Binary(">", value, whole(high[0])), _search(value, high[1:], keys)),), key)
    return with_text(Item(Cast(key, BIGINT), "k"))


def _search(value: Expr, bounds: Sequence[int], results: Sequence[Expr]) -> Expr:
    """Return the result of as many bounds as a value exceeds, by halves."""
    if not bounds:
        return results[0]
    middle = len(bounds) // 2
    upper = _search(value, bounds[middle + 1 :], results[middle + 1 :])
    lower = _search(value, bounds[:middle], results[: middle + 1])
    return Case(((Binary(">", value, whole(bounds[middle])), upper),), lower)


def _number(bounds: Sequence[int], key: Expr) -> Expr:
    """Return the number of bounds that a unit with a key exceeds."""
    first = 2 if 0 in bounds else 1
    near, far = (Call("bit_count", (_less(*pair),)) for pair in ((key, whole(1)), (whole(-1), key)))
    ends = (
        (Binary(">", key, whole(0)), Binary("+", Cast(near, BIGINT), whole(first))),
        (Binary("<", key, whole(-1)), Binary("+", Cast(far, BIGINT), whole(first + _FAR.bit_length() - 1))),
    )
    return Cast(Case(ends, Binary("+", key, whole(1))), BIGINT)


def _score(bounds: Sequence[int], bound: Expr, narrow: Expr) -> Expr:
    """Return an expression for the score of a unit at the last bound that it exceeds.

    `bound` is the key that the unit is counted under: the bound, or as `_key` says. `narrow` is what the unit
    has, as a BIGINT. The score is `FULL` if that exceeds the bound by an eighth of the bound or more, as with
    most units, else less in proportion to the excess. The excess is cut to the bound first: that changes no
    score, and nothing overflows even in rows where an engine computes a score that is not used. Both
    divisions of parts and bound are of powers of two: one is exact, the other is 1. Beyond BIGINT all of them
    are of multiples of 2^31.
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
