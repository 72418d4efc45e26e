"""The numbers that a private statement releases with noise, and how the counting query computes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import field
from enum import Enum
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis.compiler import StatementCompiler, function_name
from dpsql.analysis.expressions import predicate
from dpsql.analysis.kept_bounds import WholeTable
from dpsql.analysis.relation import From
from dpsql.analysis.typed import Typed
from dpsql.errors import Fix, QueryRefused
from dpsql.kernel.tree import Counted, Expr, KeptHash, conjunction
from dpsql.lazy_dataclass import dataclass


class Direction(Enum):
    """The direction in which adding a unit can change a number."""

    UP = "up"
    DOWN = "down"
    BOTH = "both"


@dataclass(frozen=True, slots=True, eq=False)
class Part(KeptHash, ABC):
    """An integer that the engine computes exactly for each group of rows. Equal parts are computed once."""

    row: tuple[Expr, ...]
    """The expressions of a row that the number depends on; `counted` gets their columns."""

    @property
    @abstractmethod
    def move(self) -> tuple[int, int]:
        """The least and the greatest amount by which adding a unit can change the number."""

    @property
    def total(self) -> int | None:
        """The most by which adding a unit can change the numbers of all groups together; None: no such bound.

        The numbers must then all go in one direction.
        """
        return None

    @property
    def step(self) -> Fraction:
        """What one step of the number is worth: 1 for counts."""
        return Fraction(1)

    @property
    def share(self) -> object:
        """What parts that are measured with one part of epsilon have in common; None: it is a count."""
        return None

    @abstractmethod
    def counted(self, *row: Expr) -> Counted:
        """Return what the counting query counts, of the columns of a row."""


SEARCHED = "found privately"
"""The origin of bounds that nobody says: a search finds them with a part of epsilon."""


@dataclass(frozen=True, slots=True)
class Argument:
    """What a sum or an average is of, and how it is cut: for EXPLAIN."""

    text: str
    """The argument as the statement writes it."""
    low: Fraction
    high: Fraction
    """The bounds."""
    origin: str
    """The origin of the bounds, in words; "" if the statement says them."""
    per_group: bool
    """Whether a unit's total, or average, in a group is cut; else each row's value."""
    largest: Fraction | None = None
    """The largest absolute value of a row, if a bound on totals says nothing of it and the policy does."""
    cut: bool = False
    """Whether values may lie beyond the bounds: nobody says that none does."""
    column: str = ""
    """The column whose values they are, of a table all rows of which are aggregated; "" for other ones."""

    @property
    def searched(self) -> bool:
        """Whether a search finds the bounds, so that `low` and `high` are not those that will hold."""
        return self.origin == SEARCHED


@dataclass(frozen=True, slots=True)
class ReleasedAggregate:
    """A released number: a part, or the first part minus the others.

    It is a whole number, so noise is exact on the grid of integers. What is computed from released numbers
    without charge, such as a ratio, is an output column (`plan.Output`).
    """

    parts: tuple[Part, ...]
    argument: Argument | None = field(default=None, compare=False)
    """What it is of; None for counts of units and rows."""
    measure: str = field(default="", compare=False)
    """What of a unit its bound cuts, if it is of all rows of a table (`kept_bounds`); else ""."""
    signed: bool = field(default=False, compare=False, kw_only=True)
    """Whether what it cuts may be of either sign."""

    @property
    def move(self) -> tuple[int, int]:
        """The least and the greatest amount by which adding a unit can change the number."""
        low, high = self.parts[0].move
        for part in self.parts[1:]:
            less, more = part.move
            low, high = low - more, high - less
        return low, high

    @property
    def total(self) -> int | None:
        """The most by which one unit can change the numbers of all groups together; None: no such bound."""
        totals = [part.total for part in self.parts if part.total is not None]
        return sum(totals) if len(totals) == len(self.parts) else None

    @property
    def step(self) -> Fraction:
        """What one step of the number is worth."""
        return self.parts[0].step

    @property
    def share(self) -> object:
        """What numbers that are measured with one part of epsilon have in common; None: it is a count."""
        return self.parts[0].share

    @property
    def width(self) -> int:
        """The range of the amounts by which adding a unit can change the number, 0 among them."""
        low, high = self.move
        return max(high, 0) - min(low, 0)

    @property
    def bound(self) -> int:
        """The sensitivity: the most by which one unit can change the number."""
        low, high = self.move
        return max(-low, high)

    @property
    def difference(self) -> tuple[int, bool]:
        """The sensitivity where only differences of groups decide, and whether the number is monotone there.

        Moves of a sum in [low, high] are then as good as moves in [0, high - low].
        """
        return (self.bound, self.monotone) if self.share is None else (self.width, True)

    @property
    def direction(self) -> Direction:
        """The direction in which adding a unit can change the number."""
        low, high = self.move
        return Direction.UP if low >= 0 else Direction.DOWN if high <= 0 else Direction.BOTH

    @property
    def monotone(self) -> bool:
        """Whether adding a unit never decreases the number of any group."""
        return self.direction is Direction.UP


@dataclass(slots=True)
class AggregateCall:
    """A call in the outermost block of a statement, and the conditions on the rows that it aggregates."""

    compiler: StatementCompiler
    node: exp.Expr
    source: From
    single: bool
    """Whether each unit has at most one row in a group."""
    conditions: list[Expr]
    """The condition of FILTER, to which a rule adds its own."""
    one_row: bool = False
    """Whether each unit has at most one row in all groups."""
    within: tuple[exp.Expr, bool] | None = None
    """The expression of WITHIN GROUP (ORDER BY ..), and whether it is descending."""
    measure: str = ""
    """What of a unit the bound cuts, once a rule has found it (`ReleasedAggregate.measure`)."""

    @property
    def name(self) -> str:
        """The name of the function."""
        return (function_name(self.node) or "").lower()

    @property
    def by_row(self) -> bool:
        """Whether each row is a privacy unit."""
        return self.source.owner is not None and self.source.owner.row

    @property
    def whole(self) -> WholeTable | None:
        """The table of which all rows are aggregated; None: others are, or not all."""
        return None if self.conditions else self.compiler.whole

    def condition(self) -> tuple[Expr, ...]:
        """Return the conjunction of the conditions, if there are any."""
        found = conjunction(self.conditions)
        return () if found is None else (found,)

    def expression(self, node: exp.Expr) -> Typed:
        """Compile an expression of the row."""
        return self.compiler.expression(node, self.source.scope)

    def where(self, node: exp.Expr) -> None:
        """Add a condition on the rows."""
        self.conditions.append(predicate(self.compiler, node, self.source.scope).guarded_node)

    def refuse(
        self, message: str, at: exp.Expr, hint: str | None = None, fix: Fix | None = None
    ) -> QueryRefused:
        """Return the error that refuses the statement."""
        return self.compiler.source.refuse(message, at, hint, fix)
