"""The public cells of a column's values, and the rows of each cell, from which quantiles are chosen."""

from __future__ import annotations

from dataclasses import field
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Literal

from dpsql.analysis.grids import Grid, grid_of, least_step
from dpsql.analysis.released.aggregate import SEARCHED, Part
from dpsql.analysis.typed import Bounds, Typed
from dpsql.errors import InternalError
from dpsql.kernel.tree import Binary, Call, Case, Cast, Constant, Counted, Expr, IsNull, Paren
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BIGINT, DATE, DOUBLE, VARCHAR, SqlType

MOST_CELLS = 1 << 16
"""The most cells of a column, without a declared step."""
_SIZES = {"DATE": 1, "TIMESTAMP": 1_000_000}
"""What a number of days, or of seconds, is in the unit of the bounds of a type."""
_WORDS = {"DATE": "day", "TIMESTAMP": "second"}

Extreme = Literal["", "least", "greatest"]
"""Which value of a unit counts in a group: each that is kept, or one alone."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of the values of one type: whole steps between public bounds. Each row is in one cell.

    Attributes
    ----------
    type
        The type of the values.
    grid
        The grid of their numbers: of dates the days since 1970, of timestamps the seconds.
    """

    type: SqlType
    grid: Grid

    @classmethod
    def of(cls, sql_type: SqlType, bounds: Bounds) -> Cells:
        """Return the natural steps of a type between bounds, or so many coarser ones as there may be."""
        size = _SIZES.get(sql_type.name, 1)
        kind, low, high = (BIGINT if size > 1 or sql_type == DATE else sql_type), bounds.low, bounds.high
        if sql_type.name in _SIZES:
            low, high = Fraction(low // size), Fraction(high // size)
        if kind != DOUBLE and high // least_step(kind) - low // least_step(kind) < MOST_CELLS:
            step = least_step(kind)
            return cls(sql_type, Grid(kind, step, low // step, -(-high // step)))
        if low == high:
            high += 1
        grid = grid_of(kind, low, high, 1 << 16, degree=1)
        if bounds.step is not None and bounds.step < grid.step:
            grid = grid_of(kind, low, high, 1 << 12, degree=1)
        return cls(sql_type, grid)

    @property
    def number(self) -> int:
        """The number of cells."""
        return self.grid.width + 1

    def place(self, value: Expr) -> Expr:
        """Return the place of a row's cell, from 0 on, as BIGINT: NULL for NULL and NaN.

        Values beyond the bounds, infinity among them, are in the cells at the ends.
        """
        if self.type.name in _SIZES:
            return self._of_instant(value)
        return Cast(self.grid.steps(value, shifted=True), BIGINT)

    def _of_instant(self, value: Expr) -> Expr:
        """Return the place of a date or timestamp, which is cut to the bounds before it is counted."""
        size = int(self.grid.step)
        low, high = (Constant(self.instant(end * size), self.type) for end in (self.grid.low, self.grid.high))
        cut = Call("LEAST", (Call("GREATEST", (value, low)), high))
        place: Expr = Call("date_diff", (Constant(_WORDS[self.type.name], VARCHAR), low, cut))
        if size > 1:
            nearest = Binary("+", place, Constant(size // 2, BIGINT))
            place = Cast(Paren(Binary("//", Paren(nearest), Constant(size, BIGINT))), BIGINT)
        return Case(((IsNull(value, negated=True), place),))

    def instant(self, number: int) -> date | datetime:
        """Return the date, or the timestamp, of a number of days or seconds since 1970."""
        if self.type == DATE:
            return date.fromordinal(min(max(date(1970, 1, 1).toordinal() + number, 1), date.max.toordinal()))
        return datetime(1970, 1, 1) + timedelta(seconds=number)


@dataclass(frozen=True, slots=True, eq=False)
class CellRows(Part):
    """The rows of each cell; `row` is the place of a row's cell, NULL where the row does not count.

    Attributes
    ----------
    cells
        The cells of the values.
    most
        C, how many rows of a unit are kept in all groups together.
    extreme
        Of which value of a unit one row is kept in each group; then there is no C.
    single
        Whether each unit has at most one row: in a group for an extreme, else in all groups together.
    """

    cells: Cells
    most: int
    extreme: Extreme
    single: bool

    @property
    def move(self) -> tuple[int, int]:
        """See `Part`: the rows of a group."""
        return 0, self.most

    @property
    def total(self) -> int | None:
        """See `Part`."""
        return None if self.extreme else self.most

    def counted(self, *row: Expr) -> Counted:
        """See `Part`; rows of cells are counted by `histograms`."""
        raise InternalError("cells are counted by a query of their own")


@dataclass(frozen=True, slots=True)
class Quantile:
    """What a column shows of the cells: a quantile, or an extreme of a group.

    Attributes
    ----------
    q
        The share of the rows below it; of extremes 0 or 1.
    type
        The type of the result.
    ends
        The bounds of the values, in the unit of the grid: no result lies beyond.
    cells
        The cells of the values.
    argument, origin
        The argument as the statement writes it, and the origin of the bounds, for EXPLAIN.
    """

    q: Fraction
    type: SqlType
    ends: tuple[Fraction, Fraction]
    cells: Cells
    argument: str = field(default="", compare=False)
    origin: str = field(default="", compare=False)

    @property
    def cut(self) -> bool:
        """Whether values may lie beyond the ends: the statement, the policy or a search says them."""
        return not self.origin or self.searched or "the declared " in self.origin

    @property
    def searched(self) -> bool:
        """Whether a search finds the bounds, so that `ends` and `cells` are not those that will hold."""
        return self.origin == SEARCHED


@dataclass(frozen=True, slots=True)
class QuantileCall:
    """A call of a quantile or extreme: the cells that it needs, and what is shown of them."""

    part: CellRows
    quantile: Quantile
    measure: str = ""
    """What of a unit the bound on its rows cuts (`ReleasedAggregate.measure`)."""


def small_bounds(value: Typed) -> Bounds | None:
    """Return the bounds of a small integer type, which needs no declared ones."""
    if not value.type.integer or value.type.bits > 16:
        return None
    bits = value.type.bits
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if value.type.signed else (0, (1 << bits) - 1)
    return Bounds(Fraction(low), Fraction(high), f"the type {value.type}")
