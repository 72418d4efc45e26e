"""Bounds on units from the kept ladders of tables: the types that the analysis hands on.

A ladder that was released once (`dpsql bounds`) says how large the parts of units in a table are. For a
statement that counts all rows of the table, in one number or in groups, it gives the bound on each unit that
errs least, and how much is beyond any bound. A WHERE, a FILTER or a join changes what a unit has: then
neither is known (`whole_tables`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Protocol

from dpsql.estimates import KeptLadder, ValuesBeyond
from dpsql.lazy_dataclass import dataclass

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
    """Return the columns by whose groups a measure is; none of another measure."""
    return tuple(measure.removeprefix(_GROUPS).split(", ")) if measure.startswith(_GROUPS) else ()


def counted_by(measure: str) -> str:
    """Return what a measure counts: `rows`, `groups`, or the column that it adds up.

    >>> [counted_by(each) for each in (ROWS, "total of cost", "groups by day, ward")]
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
        """Yield the ladders as they were before each newer one of some tables, the last ones first."""


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
        """Return the bound on the groups of a unit with the least error; None as above."""
        return self.bound(self.by, even=True) if self.by else None

    def average_bound(self) -> int | None:
        """Return the bound on the rows of a unit with which averages have the least error; None as above."""
        found = self.ladders.find(self.table, ROWS)
        if found is None:
            return None
        epsilon = self.epsilon or found.ladder.epsilon
        return found.ladder.choose_average_bound(epsilon, groups=self.groups)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a bound leaves out of a number, as a kept ladder knows it.

    Attributes
    ----------
    kept
        The ladder.
    bound
        The bound on each unit, in steps of the ladder.
    lowest, highest
        What 1 of the measure is worth at least, if that is below 0, and at most, if that is above: a row of a
        sum has a value within its bounds.
    """

    kept: Kept
    bound: int
    lowest: Fraction = Fraction(0)
    highest: Fraction = Fraction(1)

    @property
    def signed(self) -> bool:
        """Whether what is cut may be of either sign."""
        return self.lowest < 0


@dataclass(frozen=True, slots=True)
class CutValues:
    """What bounds cut from the values of which a number is.

    Attributes
    ----------
    text
        What the number is of, as the statement writes it; "": rows.
    low, high
        The bounds.
    per_group
        Whether a unit's total, or average, in a group is cut; else each row's value.
    kept
        The ladder with which it was released what values have beyond these bounds; None: it was not.
    """

    text: str
    low: Fraction
    high: Fraction
    per_group: bool
    kept: Kept | None = None

    @property
    def beyond(self) -> ValuesBeyond | None:
        """What is known of these data; None: nothing is."""
        return None if self.kept is None or not self.kept.current else self.kept.ladder.beyond
