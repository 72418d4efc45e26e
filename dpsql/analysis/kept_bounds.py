"""Bounds of statements over whole tables, from the kept ladders of the tables.

A ladder that was released once (`dpsql bounds`) says how large the parts of units in a table are. For a
statement that counts all rows of the table, in one number or in groups, it gives the bound on each unit that
errs least, and how much is beyond any bound. A WHERE, a FILTER or a join changes what a unit has: then
neither is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from sqlglot import exp

from dpsql.analysis.relation import Cte, cte_named
from dpsql.estimates import KeptLadder
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import UnitRow

if TYPE_CHECKING:
    from dpsql.analysis.catalog import Catalog
    from dpsql.analysis.compiler import StatementCompiler
    from dpsql.analysis.domains import Candidates
    from dpsql.analysis.released import ReleasedAggregate

ROWS = "rows"
"""The measure of how many rows a unit has in a table."""
MANY_GROUPS = 100
"""As so many groups count those of keys without a domain, where a bound is chosen."""


def total_of(column: str) -> str:
    """Return the measure that is the sum of the absolute values of a column over a unit's rows."""
    return f"total of {column}"


@dataclass(frozen=True, slots=True)
class Kept:
    """A kept ladder, and whether it is of the version of the data that is read now."""

    ladder: KeptLadder
    current: bool


class KeptLadders(Protocol):
    """The kept ladders of a policy's tables."""

    def find(self, table: str, measure: str) -> Kept | None:
        """Return the newest ladder of a measure of a table; None if there is none."""


@dataclass(frozen=True, slots=True)
class WholeTable:
    """A table of which a block reads all rows, and how it measures them."""

    table: str
    epsilon: Fraction | None
    """That of the statement; None: it asks for an error."""
    groups: int
    """Into how many groups the rows are divided."""
    numbers: int
    """How many numbers of each group are released."""

    def kept(self, catalog: Catalog, measure: str) -> Kept | None:
        """Return the kept ladder of a measure."""
        return catalog.kept_ladder(self.table, measure)

    def bound(self, catalog: Catalog, measure: str) -> int | None:
        """Return the bound on a unit with the least error, in steps of the ladder; None: no ladder is kept."""
        found = self.kept(catalog, measure)
        if found is None:
            return None
        ladder = found.ladder
        epsilon = self.epsilon or ladder.epsilon
        return ladder.choose_bound(epsilon, groups=self.groups, counts=self.numbers)


def whole_table(
    compiler: StatementCompiler, select: exp.Select, ctes: tuple[Cte, ...]
) -> str | None:
    """Return the private table of which a SELECT reads all rows, each once; None if it reads anything else.

    A table whose rows are units has no rows of units to bound.
    """
    first = select.args.get("from_")
    if first is None or select.args.get("joins") or select.args.get("where") is not None:
        return None
    node = first.this
    if not isinstance(node, exp.Table) or node.args.get("joins") or not isinstance(node.this, exp.Identifier):
        return None
    if not node.name.isascii() or (node.args.get("db") is None and cte_named(node.name, ctes) is not None):
        return None
    table = compiler.policy.table(node.name)
    if table is None or table.public or isinstance(table.unit, UnitRow):
        return None
    return table.name


def groups_of(catalog: Catalog, keys: int, domains: Sequence[Candidates]) -> int:
    """Return into how many groups so many keys divide the rows, as far as their domains say."""
    from dpsql.analysis.sparse import size_of  # noqa: PLC0415

    known = math.prod(size_of(catalog, each.domain) for each in domains)
    declared = sum(len(each.keys) for each in domains)
    return max(1, known if declared == keys else MANY_GROUPS)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a bound leaves out of a number, as a kept ladder knows it.

    Attributes
    ----------
    kept
        The ladder.
    bound
        The bound on each unit, in steps of the ladder.
    signed
        Whether what is cut may be of either sign.
    """

    kept: Kept
    bound: int
    signed: bool = False
