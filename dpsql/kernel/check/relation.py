"""What the checker knows of the rows of a query or of an item of FROM, and how that is renamed and closed.

Let D be the data, and D - u the data without all rows of the unit u. A relation is

*public*   if its rows are the same for all data;
*tied*     if its rows are a function of one unit's own rows and of public ones: the rows of a subquery for
           one row of the unit;
*owned*    if each of its rows has a unit, or none (NULL, or a unit that is no column where each row of a
table
           is one), so that the rows of each unit are a function of that unit's own rows and of public ones.
           Then the rows of D - u are those of D without those of u, except rows without a unit;
*groups*   if each row is one group of rows of many units, with numbers of which `Number` says what u changes;
*children* a declared table whose rows get their unit by a join with `parents`;
*parents*  for each value of a key of a declared table, the unit of its rows.

Rows without a unit are *strays* if they may depend on rows of units. Facts that are said to hold *within a
unit* hold for the rows of each unit by itself, and say nothing of rows without a unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from dpsql.kernel.check.certificate import Together
from dpsql.kernel.tree import Column, Expr

Names = frozenset[str]
"""Columns, as `alias.name`, or in the result of a query as `name`."""

NONE: Names = frozenset()


class Kind(Enum):
    """What the rows of a relation are."""

    PUBLIC = "public"
    TIED = "rows of the unit of an outer row"
    OWNED = "rows of units"
    GROUPS = "groups"
    CHILDREN = "rows that have no unit yet"
    PARENTS = "units of the values of a key"


@dataclass(frozen=True, slots=True)
class Number:
    """A number of each group, and what adding a unit changes.

    Attributes
    ----------
    low, high
        In each group it changes by at least `low` and at most `high`; 0 is between them.
    total
        The changes of all groups add up to at most this, without their signs; None: no such bound.
    null
        Whether it can be NULL, which then stands for 0: there is no value.
    """

    low: int
    high: int
    total: int | None = None
    null: bool = False


@dataclass(frozen=True, slots=True)
class Largest:
    """Only so many groups are left, those with the largest numbers, among groups of equal `within`."""

    number: str
    most: int
    within: Names


@dataclass(frozen=True, slots=True)
class Groups:
    """What is known of groups of rows of many units.

    Attributes
    ----------
    keys
        The columns that tell groups apart.
    numbers
        The numbers of each group.
    declared
        Whether each group is there whatever the rows are.
    decides
        Of groups that are not declared: the number that is more than 0 in those that are left.
    largest
        Which of them are left.
    cells
        Integer keys with their least and largest value.
    most
        In at most how many groups a unit is; None: any number.
    one_cell
        Whether a unit is in at most one cell of all groups that are equal in the keys that are no cells.
    public
        Whether all keys that are no cells are values of a public domain.
    together
        Numbers of which it is known what a unit changes all of them by.
    every
        Whether each group of a public domain is there: with cells in at least one row.
    bounds, fine
        As in `Certificate`.
    """

    keys: tuple[str, ...]
    numbers: dict[str, Number]
    declared: bool = False
    decides: str | None = None
    largest: Largest | None = None
    cells: dict[str, tuple[int, int]] = field(default_factory=dict)
    most: int | None = None
    one_cell: bool = False
    public: bool = False
    together: tuple[Together, ...] = ()
    every: bool = False
    bounds: tuple[int, ...] = ()
    fine: int | None = None


class Relation(NamedTuple):
    """What is known of the rows of an item of FROM, or of the result of a query.

    Attributes
    ----------
    kind
        What the rows are.
    columns
        All columns.
    unit
        Expressions that are the unit of the row; of tied rows, while they are read, of the outer one.
    by_row
        Whether no column tells units apart: each row has one, as where each row of a table is a unit.
    strays
        Whether rows without a unit may depend on rows of units.
    unique
        Sets of columns in which no two rows are equal; of owned rows, no two of one unit. NULL is a value.
    depends
        (A, B): rows (of one unit) that are equal in A are equal in B. A may be empty.
    few
        (A, m): the rows of one unit have at most m different values of A together.
    groups
        Of groups: what is known of them. `unique` then speaks of all groups, `few` of those with rows of a
        unit.
    table
        The declared table whose rows these are, all of them, and its alias; of parents the table and its key,
        whose column is unique.
    """

    kind: Kind
    columns: tuple[str, ...] = ()
    unit: frozenset[Expr] = frozenset()
    by_row: bool = False
    strays: bool = False
    unique: frozenset[Names] = frozenset()
    depends: tuple[tuple[Names, Names], ...] = ()
    few: tuple[tuple[Names, int], ...] = ()
    groups: Groups | None = None
    table: tuple[str, str] | None = None

    @property
    def outside(self) -> bool:
        """Whether its rows are the same for all data, or for the data of the outer row's unit."""
        return self.kind is Kind.PUBLIC or self.kind is Kind.TIED

    def closure(self, names: Iterable[str]) -> Names:
        """Return all columns whose values follow from those of some, within a unit.

        Proof: each step adds B for a known (A, B) with A among what is reached; and all columns once a unique
        set is reached, since then there is one row.
        """
        reached = set(names)
        waiting = [pair for pair in self.depends if not pair[1] <= reached]
        grown = bool(waiting)
        while grown:
            grown = False
            rest = []
            for pair in waiting:
                if pair[0] <= reached:
                    reached |= pair[1]
                    grown = True
                else:
                    rest.append(pair)
            waiting = rest
        if any(names <= reached for names in self.unique):
            reached.update(self.columns)
        return frozenset(reached)

    def single(self, names: Iterable[str]) -> bool:
        """Return whether a unit has at most one row for each value of some columns."""
        if not self.unique:
            return False
        reached = self.closure(names)
        return any(unique <= reached for unique in self.unique)


def name_of(column: Column) -> str:
    """Return the name by which sets of columns have a column: as `Facts.reads` of the tree."""
    return f"{column.table}.{column.name}"


def under(relation: Relation, alias: str) -> Relation:
    """Return the result of a query as an item of FROM."""
    new = {name: f"{alias}.{name}" for name in relation.columns}

    def renamed(names: Names) -> Names:
        return frozenset(new[name] for name in names)

    return relation._replace(
        columns=tuple(new.values()),
        unit=frozenset(Column(alias, unit.name) for unit in relation.unit if isinstance(unit, Column)),
        unique=frozenset(map(renamed, relation.unique)),
        depends=tuple((renamed(a), renamed(b)) for a, b in relation.depends),
        few=tuple((renamed(a), most) for a, most in relation.few),
    )
