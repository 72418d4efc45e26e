"""The parts of a policy's table: its source, privacy unit and public domains; the defaults of statements."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Literal

from dpsql import zones
from dpsql.lazy_dataclass import dataclass
from dpsql.policy.files import CsvSource, ParquetSource
from dpsql.policy.names import key_path, wrong

Value = str | int | bool | Decimal | date | datetime | time
"""One value of a public domain. Never a float: a DOUBLE is held as its shortest decimal."""


@dataclass(frozen=True, slots=True)
class DatabaseSource:
    """The table is a table of the owner's database."""

    schema: str | None
    table: str


@dataclass(frozen=True, slots=True)
class ViewSource(DatabaseSource):
    """The table is a view, of which the owner says that it is as good as a table (`stable = true`).

    That is: each row comes from rows of one unit, or from public ones, and reading it never fails.
    """


Source = ParquetSource | CsvSource | DatabaseSource
"""The source of a declared table."""


@dataclass(frozen=True, slots=True)
class UnitColumn:
    """Rows belong to the privacy unit that `column` names; rows where it is NULL are never counted."""

    column: str
    kind: str = "unit"
    """The name of what is protected (`person`); tables of different kinds cannot be joined."""


@dataclass(frozen=True, slots=True)
class UnitRow:
    """Each row is a privacy unit of its own."""

    kind: str = "row"


@dataclass(frozen=True, slots=True)
class UnitVia:
    """Rows belong to the unit of the one row of the parent `table` whose `column` equals their `via`.

    The parent names its unit by a column, or finds it through a parent of its own.
    """

    via: str
    table: str
    column: str
    kind: str = "unit"
    """The parent's kind."""


Unit = UnitColumn | UnitRow | UnitVia
"""How the rows of a table belong to privacy units."""


MOST_ROWS = 1_000_000
"""The largest bound on the rows of one unit."""

AUTO: Literal["AUTO"] = "AUTO"
"""In place of a bound: there is no constant, so it comes from a kept ladder, or is searched."""

Most = int | Literal["AUTO"]
"""A bound on what one unit contributes, as a policy declares it."""


def check_most(value: Most | None, place: str) -> None:
    """Raise `PolicyError` for a bound that is neither AUTO nor between 1 and the largest one."""
    if isinstance(value, str) and value != AUTO:
        raise wrong(place, f"is a whole number, or {AUTO}", f'write "{AUTO}", or leave it out')
    if isinstance(value, int) and not 1 <= value <= MOST_ROWS:
        raise wrong(place, f"must be between 1 and {MOST_ROWS:,}")


@dataclass(frozen=True, slots=True)
class Defaults:
    """Bounds on what one unit contributes, for statements that write none; None, or AUTO: there is none.

    They are constants that are chosen without looking at the rows: noise is scaled to them.
    """

    rows_per_unit: Most | None = None
    """How many rows of a unit count in a count of rows, in all groups together."""
    groups: Most | None = None
    """In how many groups a unit counts where the noise needs a bound on them."""
    auto_bounds: bool = True
    """Whether a statement may have its bounds found privately."""
    extremes: bool = True
    """Whether MIN and MAX over the rows of several units are allowed."""

    def __post_init__(self) -> None:
        for name in ("rows_per_unit", "groups"):
            check_most(getattr(self, name), key_path("defaults", name))
            if getattr(self, name) == AUTO:
                object.__setattr__(self, name, None)


@dataclass(frozen=True, slots=True)
class Assumed:
    """What a statement left open, and was answered with; it is shown with the answer.

    It is a bound of the policy, or a reading of the statement.

    >>> print(Assumed("rows of a user_id", "at most 20", "policy"))
    at most 20 rows of a user_id (policy)
    """

    what: str
    value: str = ""
    """The bound, in words; empty if `what` says everything."""
    where: str = ""
    """Where it is from, such as `policy`."""

    def __str__(self) -> str:
        words = f"{self.value} {self.what}".lstrip()
        return f"{words} ({self.where})" if self.where else words


@dataclass(frozen=True, slots=True)
class ValuesDomain:
    """A column's public values, listed by the owner; duplicates are removed, the order is kept."""

    values: tuple[Value, ...]
    complete: bool = False
    """Whether no row that has a unit has another value, or NULL, as the owner declares."""

    def __post_init__(self) -> None:
        # The type is part of what is compared: True == 1 == Decimal(1) in Python.
        distinct = dict.fromkeys((type(value), value) for value in self.values)
        object.__setattr__(self, "values", tuple(value for _, value in distinct))


@dataclass(frozen=True, slots=True)
class RangeDomain:
    """All integers, or all days, from `start` to `stop`, both ends included.

    For a TIMESTAMP column: every instant of these days.
    """

    start: int | date
    stop: int | date
    complete: bool = False
    """Whether no row that has a unit has another value, or NULL, as the owner declares."""

    @property
    def size(self) -> int:
        """The number of values."""
        if isinstance(self.start, int) and isinstance(self.stop, int):
            return max(0, self.stop - self.start + 1)
        if isinstance(self.start, date) and isinstance(self.stop, date):
            return max(0, (self.stop - self.start).days + 1)
        return 0


@dataclass(frozen=True, slots=True)
class TableDomain:
    """The values of a column of a public table."""

    table: str
    column: str
    complete: bool = False
    """Whether no row that has a unit has another value, or NULL, as the owner declares."""


@dataclass(frozen=True, slots=True)
class BooleanDomain:
    """True and false."""


@dataclass(frozen=True, slots=True)
class EnumDomain:
    """The values of the column's ENUM type, which the owner declares public."""


Domain = ValuesDomain | RangeDomain | TableDomain | BooleanDomain | EnumDomain
"""The public domain of a key column."""


def read_zone(name: object, place: str) -> str:
    """Return the name of a time zone as the database writes it; refuse an unknown one at `place`."""
    try:
        return zones.zone(str(name)).name
    except ValueError as problem:
        raise wrong(place, str(problem), 'write a name such as "Europe/Berlin" or "UTC"') from None
