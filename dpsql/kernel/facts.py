"""What the owner declares of tables, as the checker needs it: units, unique columns, types, domains.

`Facts` are public: they are the policy's, not the data's. What is declared of a private table is believed;
what is declared of a public one was tested on its rows by whoever makes the facts. Nothing else of a policy
enters a proof: bounds are constants of the query tree, and the budget is the ledger's.

Names of tables and columns are compared without case, as `fold` gives them.
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Iterator
from dataclasses import field
from functools import lru_cache

from dpsql.errors import InternalError
from dpsql.kernel.unit_parts import Calendar, Every, ListedValues, PartIs, WholeNumbers
from dpsql.lazy_dataclass import dataclass
from dpsql.types import SqlType

# str.lower() would fold characters from outside ASCII onto ASCII ones (the Kelvin sign onto k), so that two
# names the engine tells apart would be one name here.
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@lru_cache(maxsize=4096)
def fold(name: str) -> str:
    """Return the form in which names are compared: ASCII letters in lower case.

    >>> fold("Page"), fold("É")
    ('page', 'É')
    """
    return name.translate(_LOWER)


@dataclass(frozen=True, slots=True)
class ByColumn:
    """Rows belong to the unit that `column` names; a row where it is NULL belongs to nobody."""

    column: str


@dataclass(frozen=True, slots=True)
class ByRow:
    """The unit of a table each of whose rows is a unit of its own."""


@dataclass(frozen=True, slots=True)
class ByParent:
    """Rows belong to the unit of the parent's row whose `key` equals their `column`.

    The owner declares that all rows of `table` with one `key` belong to one unit. Should several units have
    it, the row belongs to the least of them, which is also what the queries compute.
    """

    column: str
    table: str
    key: str


@dataclass(frozen=True, slots=True)
class ByPeriod:
    """A unit is what the one that `column` names did in one period of the date in `date`, such as a week.

    The owner declares that dates of rows with a unit are NULL or from `FIRST_DAY` to `LAST_DAY`, and that is
    tested for each version of the data. Other tables of the kind, without a period, hold the same rows
    whichever period of whomever is taken away.
    """

    column: str
    date: str
    every: Every


Unit = ByColumn | ByRow | ByParent | ByPeriod


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What is declared of one table; all names are folded."""

    name: str
    """Its name."""
    unit: Unit | None
    """How rows belong to units; None: the table is public."""
    columns: tuple[tuple[str, SqlType], ...]
    """Its columns and their types, in order. An instant of a private table is read as a TIMESTAMP of UTC."""
    unique: frozenset[frozenset[str]] = frozenset()
    """Sets of columns in which no two rows of the table are equal, where NULL is a value like any other."""
    not_null: frozenset[str] = frozenset()
    """Columns that are not NULL in any row that belongs to a unit."""
    kind: str = ""
    """What one unit is, such as `person`. Units of different kinds are never compared."""
    types: dict[str, SqlType] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", dict(self.columns))

    @property
    def public(self) -> bool:
        """Whether the table's rows are public."""
        return self.unit is None


@dataclass(frozen=True, slots=True)
class Home:
    """Where the part of a unit is found: a date, or another value, that each unit has once and for all.

    All rows of a unit in `table` have one value in `column`, or NULL in all of them. The owner declares that,
    and it is tested for each version of the data.
    """

    kind: str
    """The kind of the units."""
    table: str
    column: str
    """The table that has the unit in a column of its own, or each row of which is one; both folded."""
    every: PartIs
    """How long a part is: from the date, which is cut to the day, week, month, quarter or year. Or that each
    value is a part: of an integer type, or those of `values`, all others being one more part."""
    type: str
    """The type of the column in the source: DATE, TIMESTAMP or TIMESTAMPTZ, which is read as one of UTC. Of
    several tables with periods their types, with commas. Where each value is a part, VARCHAR, BOOLEAN or
    an integer type."""
    others: tuple[tuple[str, str], ...] = ()
    """Where a unit is what one did in one period, the further tables with periods, and their dates."""
    periods: bool = False
    """Whether the part of a unit is its period: `ByPeriod`."""
    values: tuple[tuple[str | bool, int], ...] = ()
    """The values that are parts, with the numbers that the ledger has for them."""

    @property
    def numbering(self) -> Calendar | ListedValues | WholeNumbers:
        """How parts are numbered."""
        if self.every != "value":
            return Calendar(self.every)
        return ListedValues(self.values) if self.type in ("VARCHAR", "BOOLEAN") else WholeNumbers()

    @property
    def dates(self) -> bool:
        """Whether the column that tells a unit's part is a DATE; else it is a TIMESTAMP, of UTC."""
        return self.type.partition(",")[0] == "DATE"

    def column_of(self, table: str) -> str | None:
        """Return the column of a table, by its folded name, that tells the part of a unit; None: none."""
        return dict(((self.table, self.column), *self.others)).get(table)

    @property
    def words(self) -> str:
        """Say in words what the parts of units are, and which column tells them."""
        if self.periods:
            listed = ", ".join(f"{c} in {t}" for t, c in ((self.table, self.column), *self.others))
            return f"a unit is what a {self.kind} did in one {self.every}: of {listed} ({self.type})"
        if self.every == "value":
            listed = ", ".join(f"{number} {value!r}" for value, number in self.values)
            return (
                f"a {self.kind} is in the part of {self.column} ({self.type}) in {self.table}, one for each"
                f"; numbered {listed or 'as they are'}"
            )
        return (
            f"the {self.every} of a {self.kind} is that of {self.column} ({self.type}) in {self.table},"
            " one for each"
        )


@dataclass(frozen=True, slots=True)
class Facts:
    """All tables, and the tables of listed domains.

    A table of a domain has the columns `v`, the values, which are distinct and public, and `o`, their
    places, which are distinct whole numbers from 0 on. `v` is never NULL.
    """

    tables: tuple[TableFacts, ...]
    domains: tuple[tuple[str, SqlType], ...] = ()
    """The names of the tables of domains, and the types of their values."""
    places: tuple[tuple[str, int], ...] = ()
    """For tables of domains, a number that all places are less than."""
    home: Home | None = None
    """What the parts of units are; None: no kind of unit has parts."""
    _tables: dict[str, TableFacts] = field(init=False, repr=False, compare=False, default_factory=dict)
    _domains: dict[str, SqlType] = field(init=False, repr=False, compare=False, default_factory=dict)
    _places: dict[str, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tables", {table.name: table for table in self.tables})
        object.__setattr__(self, "_domains", dict(self.domains))
        object.__setattr__(self, "_places", dict(self.places))
        if len(self._tables) < len(self.tables) or len(self._domains) < len(self.domains):
            raise InternalError("two tables of the facts have one name")

    def table(self, name: str) -> TableFacts | None:
        """Return what is declared of a table; None if nothing is."""
        return self._tables.get(fold(name))

    def domain(self, name: str) -> SqlType | None:
        """Return the type of the values of a domain's table; None if there is none of that name."""
        return self._domains.get(name)

    def places_of(self, name: str) -> int | None:
        """Return a number that all places of a domain's table are less than; None if none is known."""
        return self._places.get(name)

    def lines(self) -> Iterator[str]:
        """Return the facts as lines of text, one for each table and domain."""
        for table in sorted(self.tables, key=lambda found: found.name):
            columns = ", ".join(f"{name} {sql_type}" for name, sql_type in table.columns)
            unique = "; ".join(sorted(", ".join(sorted(names)) for names in table.unique))
            not_null = ", ".join(sorted(table.not_null))
            yield (
                f"{table.name}: {unit_words(table)}; columns {columns}; unique {unique or 'none'}; "
                f"never NULL {not_null or 'none'}"
            )
        if self.home is not None:
            yield self.home.words
        for name, sql_type in sorted(self.domains, key=lambda found: found[0]):
            yield f"{name}: distinct public values of type {sql_type}, places below {self._places.get(name)}"

    @property
    def digest(self) -> str:
        """A hash of all facts about the tables, by which a certificate names them."""
        return hashlib.sha256("\n".join(self.lines()).encode()).hexdigest()


def unit_words(table: TableFacts) -> str:
    """Say to which unit a row of a table belongs."""
    match table.unit:
        case None:
            return "public"
        case ByColumn(column):
            return f"a row belongs to the {table.kind} in {column}"
        case ByPeriod(column, date, every):
            return f"a row belongs to what the {table.kind} in {column} did in the {every} of {date}"
        case ByRow():
            return f"each row is one {table.kind}"
        case ByParent(column, parent, key):
            return f"a row belongs to the {table.kind} of the row of {parent} whose {key} is its {column}"
