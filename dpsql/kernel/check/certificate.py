"""What the checker concludes of a counting query: how far adding one unit can change each number."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from enum import Enum

from dpsql.errors import InternalError
from dpsql.kernel.tree import Node, duckdb_sql

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
    DECLARED = "every group of a public domain, whatever the rows are"
    UNKNOWN = "the groups that have rows"
    SPARSE = "the groups of a public domain that have rows, by their public places"
    CELLS = "every group of a public domain, and in it the cells that have rows"
    RUNGS = "the rungs of a search, of which each is a public number"


@dataclass(frozen=True, slots=True)
class Change:
    """How far adding one unit to the data can change a number.

    Attributes
    ----------
    column
        The name of the number's column.
    low, high
        In each group the number changes by at least `low`, at most 0, and by at most `high`, at least 0.
    total
        The sum of the changes of all groups, each without its sign, is at most this; None: that has no bound.
    """

    column: str
    low: int
    high: int
    total: int | None = None


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
    numbers
        The numbers of each group, in the order of their columns.
    keys
        Which groups the query has.
    columns
        The columns that tell groups apart: keys, and of cells the cell.
    places
        The columns that are public places of a group in its domain.
    most_groups
        In at most how many groups adding one unit changes any number; None: that has no bound. Where the
        groups are those that have rows, also the most groups that come into being by one unit.
    existence
        The numbers that are 0 or absent exactly where no unit is in the group and that one unit changes by at
        most 1, by the names of their columns.
    grouped_by
        For sets of key columns, in at most how many different values of them one unit is.
    derivation
        The steps of the proof, each after those on which it rests.
    """

    numbers: tuple[Change, ...]
    keys: Keys
    columns: tuple[str, ...]
    places: tuple[str, ...]
    most_groups: int | None
    existence: tuple[str, ...]
    grouped_by: tuple[tuple[frozenset[str], int], ...]
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
