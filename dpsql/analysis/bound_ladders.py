"""Bounds on what one unit contributes: found privately among powers of two, and kept from earlier searches.

A ladder that was released once (`dpsql bounds`) says how large the parts of units in a table are. For a
statement that counts all rows of the table, in one number or in groups, it gives the bound on each unit that
errs least, and how much is beyond any bound. A WHERE, a FILTER or a join changes what a unit has: then
neither is known (`whole_tables`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Protocol

from dpsql.analysis.grids import SMALL, narrow_steps, steps_as_double
from dpsql.estimates import KeptLadder, ValuesBeyond
from dpsql.kernel.tree import Aggregate, Binary, Call, Case, Cast, Constant, Expr, IsNull, Paren, Sums
from dpsql.kernel.tree.exact import BEYOND, absolute, huge, to_least_steps, whole, within
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BIGINT, DOUBLE, SqlType


class Contribution(Enum):
    """What one unit contributes that a bound limits: rows, groups or the total of a column."""

    TOTAL = "total"
    """Its absolute total; in groups, the sum of the absolute values of its rows, which bounds all of them."""
    HIGHEST = "highest"
    """How far its largest value is above 0."""
    LOWEST = "lowest"
    """How far its least value is below 0."""
    ROWS = "rows"
    """The number of its rows with a value."""
    GROUPS = "groups"
    """In how many groups it has a row."""
    ROWS_IN_A_GROUP = "rows in a group"
    """The number of its rows with a value in the group in which it has most."""
    TOTAL_IN_A_GROUP = "total in a group"
    """The sum of the absolute values of its rows in the group in which that is largest."""
    VALUES = "different values"
    """The number of its different values in the group in which it has most."""


FINE = 1 << 31
"""In how many steps a total of a DOUBLE is summed: `grids.MOST_STEPS` are those of twice as large a bound."""
_EXTREMES = (Contribution.HIGHEST, Contribution.LOWEST)
_COUNTED = (Contribution.ROWS, Contribution.GROUPS, Contribution.ROWS_IN_A_GROUP, Contribution.VALUES)
IN_A_GROUP = (Contribution.ROWS_IN_A_GROUP, Contribution.TOTAL_IN_A_GROUP)
"""What is searched beside a bound on all groups: what a unit has in the group in which it has most."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """The bounds among which one is found: powers of two of a step, from 2^0 to 2^`top`; of values also 0."""

    of: Contribution
    """What of a unit is bounded."""
    row: Expr | None
    """The value of a row, in steps or with decimals; NULL where the row has none. Of groups, the condition on
    rows; None: all count."""
    scale: int
    """The decimals of the values; 0: they are whole steps."""
    step: Fraction
    """What a step is worth."""
    top: int
    """The power of the largest bound."""
    by_row: bool
    """Whether each row is a privacy unit."""
    ends: bool = False
    """Whether no unit can have more than the largest bound, from the type of the values, or since somebody
    says so. If that bound is found where it is not so, nobody knows how much is cut."""
    type: SqlType = BIGINT
    """The type of the values."""
    far: Expr | None = None
    """What is added to `row`, which is then a BIGINT: NULL for nearly all rows."""

    small: Expr | None = None
    """The same as a DOUBLE, which is summed faster if none is below 0."""

    signed: bool = True
    """Whether a total may be below 0."""

    @property
    def rows(self) -> tuple[Expr, ...]:
        """The terms of a row whose sum a ladder measures; for groups, the condition on rows, if any."""
        return tuple(each for each in (self.row, self.far) if each is not None)

    @property
    def bounds(self) -> tuple[int, ...]:
        """The bounds that a ladder measures, in steps of the grid, in ascending order."""
        return _list_powers(self.top)[self.of not in _EXTREMES :]

    @property
    def of_one_group(self) -> bool:
        """Whether it is of what a unit has in the group in which it has most, not of all its groups."""
        return self.of is Contribution.VALUES or self.of in IN_A_GROUP

    @property
    def by_excess(self) -> bool:
        """Whether a unit counts at a bound by how far it exceeds it; else it counts in full.

        The noise of sums grows with the bound, so it is not worth much to keep a unit that is barely above
        it. What is beyond a bound of values is lost to extremes and quantiles, whose noise is in ranks: it is
        no larger with a larger bound.
        """
        return self.of not in _EXTREMES

    @property
    def wide(self) -> bool:
        """Whether a unit's total may exceed BIGINT below the ladder's largest bound."""
        return self.of not in _COUNTED and self.top >= 62

    @property
    def fine(self) -> int | None:
        """The number of steps in a DOUBLE total as large as a bound; None: the ladder's own steps serve.

        None: it sums them in steps of the ladder, as those of exact types. A DOUBLE may be so large that sums
        in steps of the ladder would be cut, and they are not worth more.
        """
        return FINE if self.type == DOUBLE and self.of is Contribution.TOTAL else None

    def choose_sums(self, *, keys: bool) -> Sums:
        """Return which sums the search of a bound also measures, to tell how much each bound cuts.

        Without keys it is also what answers with any of the bounds are made of. In groups totals have no
        sign here: that of a unit is the sum of its absolute values.
        """
        if not self.by_excess:
            return Sums.NONE
        return Sums.SIGNED if self.of is Contribution.TOTAL and self.signed and not keys else Sums.SIZES

    def measure_unit(self, rows: Sequence[Expr], *, keys: bool) -> Expr:
        """Return the aggregate of a unit's rows: of one group, or in groups. A total of one has a sign.

        Where a bound is `of_one_group`, it is that of a unit's rows in one group.

        `rows` is a row as the ladder has it. It is a function of these rows whatever groups they are in, so
        that units alone are grouped.
        """
        if self.of in _COUNTED:
            return Aggregate("COUNT", tuple(rows), distinct=self.of is Contribution.VALUES)
        if self.of in _EXTREMES:
            name = "MAX" if self.of is Contribution.HIGHEST else "MIN"
            return self._measure_beyond(Aggregate(name, tuple(rows)))
        summed = (absolute(each, self.type) if keys else each for each in rows)
        return self._cut_steps(_add_terms([Aggregate("SUM", (each,)) for each in summed]))

    def measure_small_unit(self, row: Expr) -> Expr:
        """Return the total of a unit's rows as a BIGINT, if no value is below 0; `SMALL` steps at most.

        `row` is the column of `small`. The kernel's rule of such sums has the proof.
        """
        total = Call("COALESCE", (Aggregate("SUM", (steps_as_double(row),)), _make_double(0)))
        return Case(((Binary("<", total, _make_double(SMALL)), Cast(total, BIGINT)),), whole(SMALL))

    def measure_row(self, rows: Sequence[Expr]) -> Expr:
        """Return what one row contributes, where each row is a privacy unit; totals are signed."""
        if self.of is Contribution.ROWS:
            return Case(((IsNull(rows[0], negated=True), whole(1)),), whole(0))
        if self.of in _EXTREMES:
            return self._measure_beyond(_add_terms(rows))
        return self._cut_steps(_add_terms(rows))

    def _measure_beyond(self, value: Expr) -> Expr:
        """Return how far a value is beyond 0, on the side that is bounded; 0 on the other side."""
        far = self._cut_steps(value)
        signed = far if self.of is Contribution.HIGHEST else Paren(Binary("-", whole(0), far))
        return Call("GREATEST", (signed, whole(0)))

    def _cut_steps(self, value: Expr) -> Expr:
        """Return whole steps, cut beyond the largest bound; 0 for NULL."""
        if self.wide:
            return within(to_least_steps(value, self.scale), BEYOND)
        return narrow_steps(value, self.scale, self.bounds[-1] + 1)


@lru_cache(maxsize=128)
def _list_powers(top: int) -> tuple[int, ...]:
    """Return 0 and the powers of two up to 2^`top`."""
    return 0, *(1 << j for j in range(top + 1))


def _make_double(number: int) -> Expr:
    return Constant(float(number), DOUBLE)


def _add_terms(terms: Sequence[Expr]) -> Expr:
    """Return a sum of terms; those after the first are 0 where they are NULL."""
    if len(terms) == 1:
        return terms[0]
    first, *rest = map(huge, terms)
    return Paren(
        reduce(lambda sum_, each: Binary("+", sum_, Call("COALESCE", (each, whole(0)))), rest, first)
    )


ROWS = "rows"
"""The measure of how many rows a unit has in a table."""
_GROUPS = "groups by "
UNDECLARED_GROUPS = 100
"""How many groups keys without declared values count as, where a bound is chosen."""
KEPT = "the kept ladder"
"""The origin of such a bound, in words."""


def total_of(column: str) -> str:
    """Return the measure that is the sum of the absolute values of a column over a unit's rows."""
    return f"total of {column}"


def groups_by(columns: Iterable[str]) -> str:
    """Return the measure of in how many groups of some columns, in whatever order, a unit has a row.

    >>> groups_by(["ward", "day"])
    'groups by day, ward'
    """
    return f"{_GROUPS}{', '.join(sorted(columns))}"


def columns_of(measure: str) -> tuple[str, ...]:
    """Return the columns whose groups a `groups` measure counts; an empty tuple for other measures."""
    return tuple(measure.removeprefix(_GROUPS).split(", ")) if measure.startswith(_GROUPS) else ()


def subject_of_measure(measure: str) -> str:
    """Return what a measure counts: `rows`, `groups`, or the column that it adds up.

    >>> [subject_of_measure(each) for each in (ROWS, "total of cost", "groups by day, ward")]
    ['rows', 'cost', 'groups']
    """
    return "groups" if columns_of(measure) else measure.removeprefix(total_of(""))


@dataclass(frozen=True, slots=True)
class Kept:
    """A kept ladder, and whether it is of the version of the data that is read now."""

    ladder: KeptLadder
    current: bool
    told: bool = True
    """Whether anything tells which version is read now, and was then."""


class KeptLadders(Protocol):
    """The kept ladders of a policy's tables."""

    def of(self, table: str) -> Sequence[str]:
        """Return the measures of a table of which a ladder is kept."""

    def find(self, table: str, measure: str) -> Kept | None:
        """Return the newest ladder of a measure of a table; None if there is none."""

    def earlier(self, tables: Iterable[str]) -> Iterator[KeptLadders]:
        """Yield the kept ladders as of before each newer ladder of some tables, the latest first."""


@dataclass(frozen=True, slots=True)
class WholeTable:
    """A table of which a block reads all rows, each once, and how it measures them."""

    table: str
    epsilon: Fraction | None
    """That of the statement; None: it asks for an error."""
    groups: int
    """Into how many groups the rows are divided."""
    numbers: int
    """How many numbers of each group are released."""
    ladders: KeptLadders
    error: Fraction | None = None
    """The error that the statement asks for, in the unit of its numbers."""
    default_error: Fraction | None = None
    """The error that the connection asks for: one of counts."""
    in_place: bool = True
    """Whether the columns have the places that the table declares."""
    by: str = ""
    """The measure of the groups of a unit, if the keys are columns of the table; else ""."""
    declared: bool = True
    """Whether all keys have declared values."""

    def bound(
        self,
        measure: str,
        largest: Fraction = Fraction(1),
        step: Fraction = Fraction(1),
        *,
        given_back: bool = True,
        even: bool = False,
    ) -> int | None:
        """Return the bound on a unit with the least error, in steps of the ladder; None: there is none.

        Where an error is asked for, it is the least bound that cuts a small part of it. `largest` is the
        largest value of a row, in multiples of which a sum has the error of counts. A ladder of other steps
        than `step` measured a column of another type. `given_back`: whether groups get back what is cut;
        `even`: whether that is from many groups alike.
        """
        found = self.ladders.find(self.table, measure)
        if found is None or found.ladder.step != step:
            return None
        ladder, epsilon = found.ladder, self.epsilon or found.ladder.epsilon
        error = self.error
        if self.default_error is not None:
            error = self.default_error * (1 if measure == ROWS else largest)
        if error is not None:
            return ladder.bound_within(error, groups=self.groups, given_back=given_back, even=even)
        return ladder.choose_bound(
            epsilon, groups=self.groups, counts=self.numbers, given_back=given_back, even=even
        )

    def groups_bound(self) -> int | None:
        """Return the bound on the groups of a unit with the least error; None: no ladder has it."""
        return self.bound(self.by, even=True) if self.by else None

    def average_bound(self) -> int | None:
        """Return the bound on the rows of a unit with the least error of averages; None: no ladder has it."""
        found = self.ladders.find(self.table, ROWS)
        if found is None:
            return None
        epsilon = self.epsilon or found.ladder.epsilon
        return found.ladder.choose_average_bound(epsilon, groups=self.groups)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a bound leaves out of a number, as a kept ladder knows it."""

    kept: Kept
    """The ladder."""
    bound: int
    """The bound on each unit, in steps of the ladder."""
    lowest: Fraction = Fraction(0)
    highest: Fraction = Fraction(1)
    """What 1 of the measure is worth at least, if that is below 0, and at most, if that is above: a row of a
    sum has a value within its bounds."""

    @property
    def signed(self) -> bool:
        """Whether the amount that a bound leaves out of the number may be negative as well as positive."""
        return self.lowest < 0


@dataclass(frozen=True, slots=True)
class CutValues:
    """What bounds cut from the values of which a number is."""

    text: str
    """What the number is of, as the statement writes it; "": rows."""
    low: Fraction
    high: Fraction
    """The bounds."""
    per_group: bool
    """Whether a unit's total, or average, in a group is cut; else each row's value."""
    kept: Kept | None = None
    """The ladder with which it was released what values have beyond these bounds; None: it was not."""

    @property
    def beyond(self) -> ValuesBeyond | None:
        """The kept numbers of values beyond the bounds; None if none are kept of the current data."""
        return None if self.kept is None or not self.kept.current else self.kept.ladder.beyond


@dataclass(frozen=True, slots=True)
class ConstantCut:
    """A constant that may cut what a unit has; nobody knows how much it leaves out."""

    of: str
    """What of a unit is bounded, such as rows."""
    most: int
    """The constant."""
    by: str
    """In words which option of the statement says it, or may say another; "": a call or the policy does."""
