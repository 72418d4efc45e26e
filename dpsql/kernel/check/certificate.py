"""What the checker concludes of a counting query: how far adding one unit can change each number."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from enum import Enum

from dpsql.errors import InternalError
from dpsql.kernel.tree import Node, Query, duckdb_sql

_SEAL = object()
_SHOWN = 200


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

    @property
    def shown(self) -> str:
        """The beginning of the SQL of the node."""
        if self.node is None:
            return ""
        return duckdb_sql(self.node)[:_SHOWN]


class Keys(Enum):
    """Which groups a counting query has."""

    ONE = "one group"
    DECLARED = "every group of a public domain, once, whatever the rows are"
    UNKNOWN = "groups that have rows: those of which a number is more than 0, or the largest of them"
    SPARSE = "the groups of a public domain that have rows, by public columns: one that is missing counts 0"
    CELLS = "every group that has rows: one that is missing counts 0"


@dataclass(frozen=True, slots=True)
class Change:
    """How far adding one unit to the data can change a number.

    Attributes
    ----------
    column
        The name of the number's column.
    low, high
        In each group the number changes by at least `low`, at most 0, and by at most `high`, at least 0. A
        group that is missing counts 0.
    total
        The sum of the changes of all groups, each without its sign, is at most this; None: that has no bound.
    """

    column: str
    low: int
    high: int
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Together:
    """How far adding one unit can change several numbers: it decreases none of them.

    Attributes
    ----------
    columns
        The names of the numbers' columns.
    each
        All their changes in one group add up to at most this.
    total
        Those in all groups add up to at most this; None: that has no bound.
    """

    columns: frozenset[str]
    each: int
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Most:
    """Only so many of the groups that have rows are there: those with the largest numbers.

    Attributes
    ----------
    column
        The name of the number.
    most
        How many groups there are at most.
    within
        The keys of which each combination has so many groups; empty: so many in all.
    """

    column: str
    most: int
    within: frozenset[str]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a proof."""

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
    """What is proved of a counting query; only `certify` makes one.

    Attributes
    ----------
    query
        The query itself: nothing is proved of any other one.
    numbers
        The numbers of each group, in the order of their columns.
    keys
        Which groups the query has.
    columns
        The public or private columns that tell groups apart.
    distinct
        Sets of columns in which no two groups are equal. If the groups are declared, these are public, so
        their order is public, too.
    most_groups
        In at most how many groups adding one unit changes any number; None: that has no bound. Groups that
        come into being by one unit are among them.
    decides
        Of groups that are not declared: the number that is more than 0 in those that are there. Where it
        changes by at most 1, a group that comes into being by a unit has this unit alone.
    largest
        If only the largest of them are there.
    grouped_by
        For sets of key columns, in at most how many different values of them one unit is.
    cells
        Keys of cells that are whole numbers, with the least and the greatest.
    one_cell
        Whether a unit is in at most one cell of all groups that are equal in the other keys.
    every_group
        Whether all groups of a public domain are there, whatever the rows are; with cells in at least a row.
    together
        Numbers of which it is known how far a unit changes all of them together.
    bounds, fine
        Of a search (`tree.Scores`): its bounds, and `fine` where its totals are in steps. Its numbers are
        those of the node, and what a unit adds to them in its row is what the node claims.
    derivation
        The steps of the proof, each after those on which it rests.
    """

    query: Query = field(repr=False)
    numbers: tuple[Change, ...]
    keys: Keys
    columns: tuple[str, ...]
    distinct: tuple[frozenset[str], ...]
    most_groups: int | None
    decides: str | None
    largest: Most | None
    grouped_by: tuple[tuple[frozenset[str], int], ...]
    cells: tuple[tuple[str, tuple[int, int]], ...]
    one_cell: bool
    every_group: bool
    together: tuple[Together, ...]
    bounds: tuple[int, ...]
    fine: int | None
    derivation: tuple[Step, ...]
    seal: InitVar[object]

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
        """Return whether some columns tell all groups apart."""
        return any(names <= columns for names in self.distinct)
