"""What the checker knows of the rows of a query, and what it concludes: how far one unit changes each number.

Let D be the data, and D - u the data without all rows of the unit u. A relation is

*public*   if its rows are the same for all data;
*tied*     if its rows are a function of one unit's own rows and of public ones: the rows of a subquery for
           one row of the unit;
*owned*    if each of its rows has a unit, or none (NULL; where each row of a table is a unit, that is no
           column), so that the rows of each unit are a function of that unit's own rows and of public ones.
           Then the rows of D - u are those of D without those of u, except rows without a unit;
*few*      if no unit owns its rows, and u changes a bounded number of them (`few_rows`);
*groups*   if each row is one group of rows of many units, with numbers of which `Number` says what u changes;
*children* a declared table whose rows get their unit by a join with `parents`;
*parents*  for each value of a key of a declared table, the unit of its rows.

Rows without a unit are *strays* if they may depend on rows of units. Facts that are said to hold *within a
unit* hold for the rows of each unit by itself, and say nothing of rows without a unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import InitVar, field
from enum import Enum
from typing import NamedTuple

from dpsql.errors import InternalError
from dpsql.kernel.tree import Column, Expr, Node, Query
from dpsql.kernel.unit_parts import PartSet
from dpsql.lazy_dataclass import dataclass

_SEAL = object()


class NotCertified(InternalError):  # noqa: N818  what it says, as in the documents
    """No rule of the checker proves a bound: the query is not counted.

    Attributes
    ----------
    rule
        What no rule proves, in words that are the same for all queries.
    node
        The node of the tree at which the proof stopped.
    """

    def __init__(self, rule: str, node: Node | None = None) -> None:
        super().__init__(f"this is a bug of dpsql, nothing was run or charged: not certified: {rule}")
        self.rule = rule
        self.node = node


class Keys(Enum):
    """Which groups a counting query returns, as its certificate states."""

    ONE = "one group"
    DECLARED = "every group of a public domain, once, whatever the rows are"
    UNKNOWN = "groups that have rows: those of which a number is more than 0, or the largest of them"
    SPARSE = "the groups of a public domain that have rows, by public columns: one that is missing counts 0"
    CELLS = "every group that has rows: one that is missing counts 0"


@dataclass(frozen=True, slots=True)
class Change:
    """How far adding one unit to the data can change a number."""

    column: str
    """The name of the number's column."""
    low: int
    high: int
    """In each group the number changes by at least `low`, at most 0, and by at most `high`, at least 0. A
    group that is missing counts 0."""
    total: int | None = None
    """The sum of the changes of all groups, each without its sign, is at most this; None: that has no
    bound."""


@dataclass(frozen=True, slots=True)
class Together:
    """How far adding one unit can change several numbers: it decreases none of them."""

    columns: frozenset[str]
    """The names of the numbers' columns."""
    each: int
    """All their changes in one group add up to at most this."""
    total: int | None = None
    """Those in all groups add up to at most this; None: that has no bound."""


@dataclass(frozen=True, slots=True)
class Most:
    """Only a given number of the groups that have rows is there: those with the largest numbers."""

    column: str
    """The name of the number."""
    most: int
    """How many groups there are at most."""
    within: frozenset[str]
    """The keys of which each combination has so many groups; empty: so many in all."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the proof in a certificate: a rule, and what it concludes about a part of the tree."""

    rule: str
    """The name of the rule, as the documents list it."""
    concludes: str
    """What it concludes, in words."""
    path: str
    """Where in the tree, as names of parts from the outermost query on: `source.query.items[2]`."""

    def __str__(self) -> str:
        return f"{self.path or 'query'}: {self.concludes} [{self.rule}]"


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is proved of a counting query; only `certify` makes one."""

    query: Query = field(repr=False)
    """The query itself: nothing is proved of any other one."""
    numbers: tuple[Change, ...]
    """The numbers of each group, in the order of their columns."""
    keys: Keys
    """Which groups the query has."""
    columns: tuple[str, ...]
    """The public or private columns that tell groups apart."""
    distinct: tuple[frozenset[str], ...]
    """Sets of columns in which no two groups are equal. If the groups are declared, these are public, so
    their order is public, too."""
    most_groups: int | None
    """In at most how many groups adding one unit changes any number; None: that has no bound. Groups that
    come into being by one unit are among them."""
    decides: str | None
    """Of groups that are not declared: the number that is more than 0 in those that are there. Where it
    changes by at most 1, a group that comes into being by a unit has this unit alone."""
    largest: Most | None
    """If only the largest of them are there."""
    grouped_by: tuple[tuple[frozenset[str], int], ...]
    """For sets of key columns, in at most how many different values of them one unit is."""
    cells: tuple[tuple[str, tuple[int, int]], ...]
    """Keys of cells that are whole numbers, with the least and the greatest."""
    one_cell: bool
    """Whether a unit is in at most one cell of all groups that are equal in the other keys; if `n0` is a key
    of cells, it tells these apart alone."""
    every_group: bool
    """Whether all groups of a public domain are there, whatever the rows are; with cells in at least a
    row."""
    together: tuple[Together, ...]
    """Numbers of which it is known how far a unit changes all of them together."""
    bounds: tuple[int, ...]
    fine: int | None
    """Of a search (`tree.Scores`): its bounds, and `fine` where its totals are in steps. Its numbers are
    those of the node, and what a unit adds to them in its row is what the node claims."""
    derivation: tuple[Step, ...]
    """The steps of the proof, each after those on which it rests."""
    seal: InitVar[object]
    rows_of: str | None = field(default=None, kw_only=True)
    """A private table: each unit has at most as many rows among those that are counted as it has there. None:
    no such table is known."""
    parts: PartSet | None = field(default=None, kw_only=True)
    """The part set: what is counted does not depend on units of other parts; None: nothing is known."""
    periods: bool = field(default=False, kw_only=True)
    """Whether it reads tables whose units are of one period each; else a unit is a person."""

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise InternalError("only the checker makes a certificate")

    def number(self, column: str) -> Change | None:
        """Return what is proved of a number; None if there is no such number."""
        return next((found for found in self.numbers if found.column == column), None)

    def within(self, columns: frozenset[str]) -> int | None:
        """Return in at most how many different values of some key columns one unit is; None: no bound."""
        found = [most for by, most in self.grouped_by if columns <= by]
        if self.most_groups is not None:
            found.append(self.most_groups)
        return min(found, default=None)

    def ordered_by(self, columns: frozenset[str]) -> bool:
        """Return whether an order by some columns has no ties: they tell all groups apart."""
        return any(names <= columns for names in self.distinct)


Names = frozenset[str]
"""Columns, as `alias.name`, or in the result of a query as `name`."""

NONE: Names = frozenset()


class Kind(Enum):
    """What each row of a relation belongs to, for the rules of the checker."""

    PUBLIC = "public"
    TIED = "rows of the unit of an outer row"
    OWNED = "rows of units"
    FEW = "rows of which a unit changes few"
    GROUPS = "groups"
    CHILDREN = "rows that have no unit yet"
    PARENTS = "units of the values of a key"


@dataclass(frozen=True, slots=True)
class Number:
    """A number of each group, and what adding a unit changes."""

    low: int
    high: int
    """In each group it changes by at least `low` and at most `high`; 0 is between them."""
    total: int | None = None
    """The changes of all groups add up to at most this, without their signs; None: no such bound."""
    null: bool = False
    """Whether it can be NULL, which then stands for 0: there is no value."""


@dataclass(frozen=True, slots=True)
class Largest:
    """Of the groups of equal `within` only a number of those with the largest numbers is left."""

    number: str
    most: int
    within: Names


@dataclass(frozen=True, slots=True)
class Groups:
    """What is known of groups of rows of many units."""

    keys: tuple[str, ...]
    """The columns that tell groups apart."""
    numbers: dict[str, Number]
    """The numbers of each group."""
    declared: bool = False
    """Whether each group is there whatever the rows are."""
    decides: str | None = None
    """Of groups that are not declared: the number that is more than 0 in those that are left."""
    largest: Largest | None = None
    """Which of them are left."""
    cells: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Integer keys with their least and largest value."""
    most: int | None = None
    """In at most how many groups a unit is; None: any number."""
    one_cell: bool = False
    """Whether a unit is in at most one cell of all groups that are equal in the keys that are no cells, or in
    all keys but `n0`, if that is one."""
    public: bool = False
    """Whether all keys that are no cells are values of a public domain."""
    together: tuple[Together, ...] = ()
    """Numbers of which it is known what a unit changes all of them by."""
    every: bool = False
    """Whether each group of a public domain is there: with cells in at least one row."""
    bounds: tuple[int, ...] = ()
    fine: int | None = None
    rows_of: str | None = None
    """As in `Certificate`."""


class Relation(NamedTuple):
    """What is known of the rows of an item of FROM, or of the result of a query."""

    kind: Kind
    """What the rows are."""
    columns: tuple[str, ...] = ()
    """All columns."""
    unit: frozenset[Expr] = frozenset()
    """Expressions that are the unit of the row; of tied rows, while they are read, of the outer one."""
    by_row: bool = False
    """Whether no column tells units apart: each row has one, as where each row of a table is a unit."""
    strays: bool = False
    """Whether rows without a unit may depend on rows of units."""
    unique: frozenset[Names] = frozenset()
    """Sets of columns in which no two rows are equal; of owned rows, no two of one unit. NULL is a value."""
    depends: tuple[tuple[Names, Names], ...] = ()
    """(A, B): rows (of one unit) that are equal in A are equal in B. A may be empty."""
    few: tuple[tuple[Names, int], ...] = ()
    """(A, m): the rows of one unit have at most m different values of A together."""
    groups: Groups | None = None
    """Of groups: what is known of them. `unique` then speaks of all groups, `few` of those with rows of a
    unit."""
    table: tuple[str, str] | None = None
    """The declared table whose rows these are, all of them, and its alias; of parents the table and its key,
    whose column is unique."""
    rows_of: str | None = None
    """Of owned rows: a declared table in which each unit has at least as many rows; None: none is known."""
    parts: PartSet | None = None
    """A part set (`part_sets`): no unit of another part owns a row; of groups, changes one. None: all
    parts."""
    home: Names = NONE
    padded: Names = NONE
    """Columns that hold the date of the row's unit, and those that hold it or NULL."""
    periods: bool = False
    person: frozenset[Expr] = frozenset()
    """Whether a unit is what a person did in one period (`periods`); then expressions that are the person."""
    changes: int = 0
    alters: bool = False
    """Of few rows: how many one unit changes at most; and whether it may delete or alter some, not only
    add."""

    @property
    def outside(self) -> bool:
        """Whether its rows are the same for all data, or for the data of the outer row's unit."""
        return self.kind is Kind.PUBLIC or self.kind is Kind.TIED

    def closure(self, names: Iterable[str]) -> Names:
        """Return all columns whose values follow from the columns `names`, within a unit.

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

    def rename(names: Names) -> Names:
        return frozenset(new[name] for name in names)

    return relation._replace(
        columns=tuple(new.values()),
        unit=frozenset(Column(alias, unit.name) for unit in relation.unit if isinstance(unit, Column)),
        unique=frozenset(map(rename, relation.unique)),
        depends=tuple((rename(a), rename(b)) for a, b in relation.depends),
        few=tuple((rename(a), most) for a, most in relation.few),
        home=rename(relation.home),
        padded=rename(relation.padded),
        person=frozenset(Column(alias, each.name) for each in relation.person if isinstance(each, Column)),
    )
