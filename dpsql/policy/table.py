"""The dataclass `Table`, which is frozen and checked on its own when it is made."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import date

from dpsql.errors import with_article
from dpsql.kernel.facts import fold
from dpsql.language import CUTS, Cut
from dpsql.lazy_dataclass import dataclass
from dpsql.policy.column_values import ColumnBounds, fit_bounds, fit_domain
from dpsql.policy.names import Names, check_names, key_path, name_problem, suggest, wrong
from dpsql.policy.table_parts import (
    BooleanDomain,
    CsvSource,
    DatabaseSource,
    Domain,
    EnumDomain,
    Most,
    ParquetSource,
    Source,
    Unit,
    UnitColumn,
    UnitRow,
    UnitVia,
    ViewSource,
    check_most,
    pattern_problem,
    read_zone,
)
from dpsql.types import TIMESTAMPTZ, SqlType


@dataclass(frozen=True, slots=True)
class Table:
    """A declared table. Analysts cannot use tables that are not declared."""

    name: str
    """As declared; compared without case."""
    source: Source
    """Where its rows are."""
    public: bool = False
    unit: Unit | None = None
    """A private table has a unit, a public one has none."""
    columns: Mapping[str, SqlType] | None = None
    """Names and types in order; None: they are taken from the source's schema. A STRUCT of a private table
    stands for its fields, which are columns named `address.city`."""
    unique: tuple[tuple[str, ...], ...] = ()
    """Sets of columns that the owner declares unique over the whole table."""
    domain: Mapping[str, Domain] = field(default_factory=Names)
    """Public domains of columns."""
    trust_source: bool = False
    """Skip reading the source once through its declared types."""
    units_at_least: int | None = None
    """Public lower bound on how many units the table has. No guarantee depends on it."""
    rows_per_unit: Most | None = None
    groups: Most | None = None
    """The table's own `Defaults`; AUTO: none, whatever those of the policy are."""
    bounds: Mapping[str, ColumnBounds] = field(default_factory=Names)
    """The intervals to which the values of columns are cut."""
    not_null: tuple[str, ...] = ()
    """Columns that the owner declares to have no NULL in rows that have a unit; as keys they have no group of
    NULL."""
    not_negative: tuple[str, ...] = ()
    """Columns that the owner declares to have no value below 0 in rows that have a unit."""
    zone: Mapping[str, str] = field(default_factory=Names)
    """The time zones of columns whose source has times without a zone: their values are instants."""
    cut: Cut | None = None
    """How intervals of statements over the table have what bounds cut, if they do not say it."""
    same_unit: Mapping[str, tuple[str, str]] = field(default_factory=Names)
    """Columns with columns of other tables, as (table, column): the owner declares that all rows of both
    tables with one value of them belong to one unit."""
    owned: tuple[str, ...] = ()
    """Columns each value of which the owner declares to belong to one unit."""
    covers: Mapping[str, tuple[date, date]] = field(default_factory=Names)
    """Columns of dates with the first and the last day that rows have, as the owner declares."""
    determines: Mapping[str, tuple[str, ...]] = field(default_factory=Names)
    """Columns with others of which the owner declares that rows with one value of them have one value."""

    def __post_init__(self) -> None:
        if problem := name_problem(self.name):
            raise wrong(self.place(), problem)
        if not isinstance(self.source, (ParquetSource, CsvSource, DatabaseSource)):
            raise wrong(self.place("source"), "is required")
        self._check_source()
        self._check_columns()
        self._check_zone()
        self._check_unit()
        object.__setattr__(self, "unique", tuple(tuple(columns) for columns in self.unique))
        for position, columns in enumerate(self.unique):
            self._check_unique(columns, f"{self.place()}.unique[{position}]")
        for name in ("not_null", "not_negative"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
            self._check_vouched(name)
        self._check_owned()
        self._check_covers()
        self._check_determines()
        domain = {}
        for column, values in check_names(self.domain, self.place("domain"), self._suggest_name).items():
            place = self.place("domain", column)
            domain[column] = fit_domain(values, self.declared_type(column, place), place)
            if self.public and getattr(values, "complete", False):
                raise wrong(
                    place, "the values of a public column are those of its rows", "leave complete out"
                )
        object.__setattr__(self, "domain", Names(domain))
        bounds = {}
        for column, interval in check_names(self.bounds, self.place("bounds"), self._suggest_name).items():
            place = self.place("bounds", column)
            bounds[column] = fit_bounds(interval, self.declared_type(column, place), place)
        object.__setattr__(self, "bounds", Names(bounds))

    def place(self, *names: str) -> str:
        """Return the key path of this table in the policy, or of one of its keys."""
        return key_path("tables", self.name, *names)

    def has_complete_domain(self, column: str) -> bool:
        """Return whether each row that has a unit has a value of a column's domain."""
        domain = next((each for c, each in self.domain.items() if fold(c) == fold(column)), None)
        return isinstance(domain, BooleanDomain | EnumDomain) or getattr(domain, "complete", False)

    @property
    def complete(self) -> tuple[str, ...]:
        """The columns whose declared values are all that rows with a unit have."""
        return tuple(c for c, domain in self.domain.items() if getattr(domain, "complete", False))

    @property
    def unit_columns(self) -> tuple[str, ...]:
        """The columns of the table without which a row has no unit."""
        if not isinstance(self.unit, UnitColumn):
            return ()
        date_of_period = getattr(self.unit, "date", "")
        return (self.unit.column, *([date_of_period] if date_of_period else []))

    def describe_nobodys(self, not_null: Callable[[str], bool]) -> str:
        """Return which rows are never counted, in words: those without a unit; "" if there are none.

        `not_null` says of a column whether no row that has a unit has NULL in it. A complete domain says no
        more, but `not_null` of the policy is tested of all rows for the columns of the unit.
        """
        if isinstance(self.unit, UnitVia):
            return f"rows of {self.name} that lead to no {self.unit.kind}"
        said, complete = set(map(fold, self.not_null)), set(map(fold, self.complete))
        known = (fold(c) in said or (fold(c) not in complete and not_null(c)) for c in self.unit_columns)
        found = [with_article(c) for c, sure in zip(self.unit_columns, known, strict=True) if not sure]
        return f"rows of {self.name} without {' or '.join(found)}" if found else ""

    @property
    def stable(self) -> bool:
        """Whether the source is a view that the owner calls stable."""
        return isinstance(self.source, ViewSource)

    def declared_type(self, column: str, place: str, of: str = "the table") -> SqlType | None:
        """Return a column's declared type; None when the table's columns are not declared.

        Raises `PolicyError` at `place` for a column that the table does not have.
        """
        if self.columns is None:
            if problem := name_problem(column):
                raise wrong(place, problem)
            return None
        if column not in self.columns:
            hint = self._suggest_name(column) or suggest(column, self.columns, "its columns")
            raise wrong(place, f"{of} has no column {column!r}", hint)
        return self.columns[column]

    def _suggest_name(self, column: str) -> str | None:
        """Return what a name of the header of a CSV file is called here; None for other names."""
        if not isinstance(self.source, CsvSource):
            return None
        new = dict(self.source.format.rename).get(column)
        if new is not None:
            return f"it is called {new} here, as [{self.place('csv')}] says"
        plain = f'rename = {{ "{column[:60]}" = "a_plain_name" }} in [{self.place("csv")}]'
        return f"call it otherwise: {plain}" if name_problem(column) else None

    def _check_source(self) -> None:
        if isinstance(self.source, CsvSource):
            self.source.format.check(self.place("csv"))
        parts = getattr(self.source, "parts", None)
        if parts is not None and (problem := pattern_problem(parts)):
            raise wrong(self.place("source"), problem)

    def _check_columns(self) -> None:
        place = self.place("columns")
        if self.columns is not None:
            columns = self.columns if self.public else _replace_structs(self.columns, place)
            object.__setattr__(self, "columns", check_names(columns, place, self._suggest_name))
            if not self.columns:
                raise wrong(place, "a table has at least one column")
        elif isinstance(self.source, CsvSource):
            raise wrong(
                place,
                "a CSV file is never sniffed, so its columns must be declared",
                'write columns = { user_id = "BIGINT", page = "VARCHAR" }, in the order of the file',
            )

    def _check_zone(self) -> None:
        named = check_names(self.zone, self.place("zone"))
        object.__setattr__(
            self, "zone", Names({c: read_zone(z, self.place("zone", c)) for c, z in named.items()})
        )
        for column in self.zone:
            place = self.place("zone", column)
            if self.public:
                raise wrong(place, "a public table is read as it is", "convert the column in the source")
            sql_type = self.declared_type(column, place)
            if sql_type is not None and not sql_type.moment:
                raise wrong(place, f"a column of type {sql_type} has no time zone", "declare it TIMESTAMPTZ")
            if self.columns is not None:
                kinds = {n: TIMESTAMPTZ if fold(n) == fold(column) else k for n, k in self.columns.items()}
                object.__setattr__(self, "columns", Names(kinds))

    def _check_unit(self) -> None:
        place, unit = self.place("unit"), self.unit
        for name in ("rows_per_unit", "groups"):
            check_most(getattr(self, name), self.place(name))
        if self.cut not in (None, *CUTS):
            words = ", ".join(CUTS)
            raise wrong(self.place("cut"), f"expected one of {words}", 'write cut = "WHOLE", or leave it out')
        if self.public:
            for name in ("rows_per_unit", "groups", "cut"):
                if getattr(self, name) is not None:
                    raise wrong(self.place(name), "a public table has no privacy unit")
            if unit is not None:
                raise wrong(place, "a public table has no privacy unit", "leave out unit, or public = true")
            if self.bounds:
                raise wrong(
                    self.place("bounds"),
                    "the bounds of a public table are those of its values",
                    "leave it out",
                )
            if self.units_at_least is not None:
                raise wrong(self.place("units_at_least"), "a public table has no privacy unit")
            return
        if self.units_at_least is not None and self.units_at_least < 1:
            raise wrong(
                self.place("units_at_least"), "must be at least 1", "leave it out if nothing is known"
            )
        if unit is None:
            raise wrong(
                place,
                "a private table names its privacy unit",
                'write unit = "user_id" (a column), unit = "ROW" (each row is one), or public = true',
            )
        if not isinstance(unit, (UnitColumn, UnitRow, UnitVia)):
            raise wrong(place, "expected a UnitColumn, UnitRow or UnitVia")
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9 _-]{0,99}", unit.kind):
            raise wrong(
                self.place("unit_kind"),
                "a kind is a word of ASCII letters, digits, spaces, - and _",
                'write what one unit is, such as "person"',
            )
        if isinstance(unit, UnitRow):
            if self.columns is not None and "row" in self.columns:
                raise wrong(place, '"ROW" means each row, but the table has a column of that name')
            return
        sql_type = self.declared_type(unit.column if isinstance(unit, UnitColumn) else unit.via, place)
        if sql_type is not None and not may_be_unit(sql_type):
            raise wrong(
                place,
                f"a column of type {sql_type} cannot name privacy units",
                "declare it as an integer, VARCHAR, UUID or DATE",
            )

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns that are unique alone."""
        return tuple(columns[0] for columns in self.unique if len(columns) == 1)

    def is_key(self, column: str) -> bool:
        """Return whether a column is unique alone."""
        return fold(column) in map(fold, self.key_columns)

    def _check_vouched(self, key: str) -> None:
        """Check the columns of which the owner vouches for all values: none is NULL, or none is below 0."""
        columns: tuple[str, ...] = getattr(self, key)
        for position, column in enumerate(columns):
            place = f"{self.place()}.{key}[{position}]"
            if self.public:
                raise wrong(place, "what values a public column has is seen in its rows", "leave it out")
            sql_type = self.declared_type(column, place)
            if key == "not_negative" and sql_type is not None and not sql_type.numeric:
                raise wrong(place, f"{column} is {sql_type}, and has no values below 0", "leave it out")
            if fold(column) in {fold(other) for other in columns[:position]}:
                raise wrong(place, f"names {column} twice")

    def _check_owned(self) -> None:
        """Check the columns whose values are each of one unit, in this table or in two."""
        same = check_names(self.same_unit, self.place("same_unit"), self._suggest_name)
        object.__setattr__(self, "same_unit", same)
        object.__setattr__(self, "owned", tuple(self.owned))
        places = [(c, self.place("same_unit", c)) for c in same]
        places += [(c, f"{self.place()}.owned[{i}]") for i, c in enumerate(self.owned)]
        for column, place in places:
            if self.unit is None or isinstance(self.unit, UnitRow):
                whom = (
                    "a public table has no privacy unit" if self.public else "each row is a unit of its own"
                )
                raise wrong(place, whom, "leave it out")
            sql_type = self.declared_type(column, place)
            if sql_type is not None and not may_be_unit(sql_type):
                raise wrong(place, f"rows are not joined on a column of type {sql_type}", "leave it out")
        if len({fold(column) for column in self.owned}) < len(self.owned):
            raise wrong(self.place("owned"), "names a column twice")

    def _check_covers(self) -> None:
        covers = check_names(self.covers, self.place("covers"), self._suggest_name)
        object.__setattr__(self, "covers", covers)
        for column in covers:
            place = self.place("covers", column)
            if self.public:
                raise wrong(place, "which days a public table has is seen in its rows", "leave it out")
            sql_type = self.declared_type(column, place)
            if sql_type is not None and sql_type.name != "DATE":
                raise wrong(place, f"is for columns of type DATE, and this one is {sql_type}", "leave it out")

    def _check_determines(self) -> None:
        """Check the columns that others have one value of each."""
        made = check_names(self.determines, self.place("determines"), self._suggest_name)
        object.__setattr__(self, "determines", made)
        for column, others in made.items():
            place = self.place("determines", column)
            if self.public:
                raise wrong(place, "what a public column determines is seen in its rows", "write unique")
            for name in (column, *others):
                self.declared_type(name, place)
            if not others or len({fold(name) for name in (column, *others)}) <= len(others):
                raise wrong(place, "names a column twice, or none", 'write { station_id = ["station_name"] }')

    def _check_unique(self, columns: tuple[str, ...], place: str) -> None:
        if not columns:
            raise wrong(place, "names no column", 'write unique = [["user_id", "page"]]')
        for column in columns:
            self.declared_type(column, place)
        if len({fold(column) for column in columns}) < len(columns):
            raise wrong(place, "names a column twice")


def may_be_unit(sql_type: SqlType) -> bool:
    """Return whether the values of a column of this type can name privacy units."""
    return sql_type.integer or sql_type.name in ("VARCHAR", "UUID", "DATE")


def _replace_structs(columns: Mapping[str, SqlType], place: str) -> dict[str, SqlType]:
    """Return the columns with each STRUCT replaced by its fields."""
    found: dict[str, SqlType] = {}
    for name, sql_type in columns.items():
        for path, kind in struct_fields(name, sql_type):
            if path in found or (path != name and path in columns):
                raise wrong(place, f"{path!r} is there twice: as a column, and as a field of {name!r}")
            found[path] = kind
    return found


def struct_fields(name: str, sql_type: SqlType) -> list[tuple[str, SqlType]]:
    """Return the columns that a column stands for: the fields of a STRUCT, or itself.

    >>> from dpsql.types import column_type
    >>> made = column_type("STRUCT(x INT, y STRUCT(z DATE))")
    >>> [(name, str(kind)) for name, kind in struct_fields("a", made)]
    [('a.x', 'INTEGER'), ('a.y.z', 'DATE')]
    """
    if sql_type.name != "STRUCT":
        return [(name, sql_type)]
    return [part for field, kind in sql_type.fields for part in struct_fields(f"{name}.{field}", kind)]
