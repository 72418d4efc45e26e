"""What a column counts of a unit's rows: facts about columns beyond their type and interval.

Of most marks it is enough to forget them. `First` and `FirstCount` also say that the column depends on rows
of other units: they are never dropped, and where they would be, the query is refused.

A mark of a column speaks of the rows of one relation. It survives if rows are left out or columns renamed,
and is dropped where rows may be repeated or joined with others.

=============  =================================================================================
`Sums`         the column is a sum, over the rows of the unit in one group, of a row's terms
`Whole`        the column is at least the sum of another column over all rows of the unit
`UpTo`         the column is the sum of another, never negative, over the unit's rows up to this one
`AtLeast`      the column is at least another one in the same row
`Kept`         the column has at most so many different values in a unit's rows of equal `within`
`First`        the column is not NULL in one row of all that are equal in it and in `within`
`Rank`         the column is a whole number from 1 on
`OfUnit`       the column is NULL in rows without a unit
`FirstCount`   how many rows of the unit a column with `First` is not NULL in
=============  =================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpsql.kernel.tree import Expr, Select

Term = tuple[str, Expr | None]
"""What a row adds: ("count", None) 1; ("count", x) 1 unless x is NULL; ("sum", x) x, or 0 for NULL;
("square", x) x times x, or 0 for NULL."""


LOST = "?"
"""The name of a column that a mark names and that is no longer there."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A fact about a column."""

    def renamed(self, new: Mapping[str, str]) -> Mark:
        """Return the mark with other names of columns."""
        return self

    @property
    def reads(self) -> frozenset[str]:
        """The columns that the mark names."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class Sums(Mark):
    """A weighted sum of terms over the rows of one unit in one group of `of`, or NULL where that is 0.

    `cut` says that it is then cut to an interval that has 0; `unit` are expressions of the unit in `of`.
    """

    of: Select
    terms: tuple[tuple[Term, int], ...]
    cut: bool = False
    unit: frozenset[Expr] = frozenset()

    @property
    def positive(self) -> bool:
        """Whether the sum is never negative."""
        return all(kind != "sum" and factor >= 0 for (kind, _), factor in self.terms)

    def count(self) -> Term | None:
        """Return the term that is counted, if the column counts rows."""
        if len(self.terms) == 1 and not self.cut:
            term, factor = self.terms[0]
            if factor == 1 and term[0] == "count":
                return term
        return None


@dataclass(frozen=True, slots=True)
class Rank(Mark):
    """A place among the rows of one unit that are equal in some columns: 1, 2, .."""


@dataclass(frozen=True, slots=True)
class OfUnit(Mark):
    """NULL in rows without a unit."""


@dataclass(frozen=True, slots=True)
class OfColumn(Mark):
    """A fact about a column and another one of the same rows."""

    column: str

    def renamed(self, new: Mapping[str, str]) -> Mark:
        """See `Mark`."""
        return replace(self, column=new[self.column])

    @property
    def reads(self) -> frozenset[str]:
        """See `Mark`."""
        return frozenset((self.column,))


@dataclass(frozen=True, slots=True)
class Whole(OfColumn):
    """At least the sum of `column`, or of its absolute values, over all rows of the unit."""

    absolute: bool = False


@dataclass(frozen=True, slots=True)
class UpTo(OfColumn):
    """The sum of `column`, never negative, over rows of the unit up to this one in some total order."""


@dataclass(frozen=True, slots=True)
class AtLeast(OfColumn):
    """At least the value of `column` in the same row, or its absolute value."""

    absolute: bool = False


@dataclass(frozen=True, slots=True)
class Kept(Mark):
    """At most `most` different values, beside NULL, in the rows of one unit that are equal in `within`.

    In rows without a unit the column is NULL.
    """

    most: int
    within: frozenset[str]

    def renamed(self, new: Mapping[str, str]) -> Mark:
        """See `Mark`; a column that is lost gets a name that no column has."""
        return replace(self, within=frozenset(new.get(name, LOST) for name in self.within))


@dataclass(frozen=True, slots=True)
class First(Kept):
    """Of rows, of all units, that are equal in `within` and in a column with `Kept`, one keeps its value."""


@dataclass(frozen=True, slots=True)
class FirstCount(Kept):
    """The number of rows in which a column with `First` is not NULL, of those of a unit equal in `within`."""
