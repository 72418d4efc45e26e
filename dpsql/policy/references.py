"""How a policy's tables belong together: paths by which rows find their unit, and values of one unit each.

Each violation is a `PolicyError` with its key. Views are checked here too: queries that the owner gave a
name, which statements read like a table.

A policy says it of a column in three ways: rows find their unit through it (`unit = { via = .. }`), it is
unique, or the owner declares it (`owned`, `same_unit`). Columns that one declaration connects are one key:
all rows of their tables with one value belong to one unit.

What is declared here decides only whether a statement asks what it seems to ask. Queries of units compare
the units themselves besides, so no guarantee depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from sqlglot import exp

from dpsql.errors import Error, with_article
from dpsql.kernel.facts import fold
from dpsql.language import Clauses, Query, find_tables, parse
from dpsql.lazy_dataclass import dataclass
from dpsql.policy.names import Names, check_names, key_path, same_name, suggest, wrong
from dpsql.policy.part_declarations import UnitPeriod
from dpsql.policy.table import Table, may_be_unit
from dpsql.policy.table_parts import CsvSource, TableDomain, UnitColumn, UnitRow, UnitVia
from dpsql.policy.toml_values import Key, Section
from dpsql.types import SqlType

MOST_HOPS = 8
"""The most foreign keys of a path."""


def path_of(tables: Mapping[str, Table], table: Table) -> tuple[Table, ...]:
    """Return the parents through which a table's rows find their unit, the nearest first.

    The last one names its units by a column. Tables that name their own units have no parents. A path that
    runs in a circle, or to a table that is not declared, ends where it does.
    """
    found: list[Table] = []
    while isinstance(table.unit, UnitVia):
        parent = tables.get(table.unit.table)
        if parent is None or parent in found:
            break
        found.append(parent)
        table = parent
    return tuple(found)


FOUND = ", found through "
"""What stands in `describe_protected` before the tables of a path."""


def describe_protected(tables: Mapping[str, Table], table: Table) -> str | None:
    """Say whom a table protects, and through which tables its rows find them; None for a public table."""
    match table.unit:
        case UnitVia(kind=kind):
            return add_article(kind) + FOUND + ", ".join(parent.name for parent in path_of(tables, table))
        case UnitPeriod(kind=kind, every=every):
            return f"{add_article(kind)} in one {every}"
        case UnitColumn(kind=kind):
            return add_article(kind)
        case UnitRow():
            return "each row alone"
    return None


def add_article(kind: str) -> str:
    """Write a kind of unit with its article.

    >>> add_article("employee"), add_article("unit"), add_article("patient")
    ('an employee', 'a unit', 'a patient')
    """
    return f"{'an' if kind[:1].lower() in 'aeio' else 'a'} {kind}"


def check_tables(tables: Names[Table]) -> None:
    """Check names, parents, table domains and unit kinds."""
    for name, table in tables.items():
        if not same_name(name, table.name):
            raise wrong(key_path("tables", name), f"holds a table named {table.name!r}")
    for table in tables.values():
        if isinstance(table.unit, UnitVia):
            _check_parent(table, table.unit, tables)
        for column, domain in table.domain.items():
            if isinstance(domain, TableDomain):
                sql_type = (table.columns or {}).get(column)
                _check_table_domain(domain, sql_type, tables, table.place("domain", column))
    _check_kinds(tables)
    _check_row_kinds(tables)


def _check_parent(table: Table, unit: UnitVia, tables: Names[Table]) -> None:
    """Check that each row of a child table has at most one row of its parent table, and so one unit."""
    place = table.place("unit")
    parent = tables.get(unit.table)
    if parent is None:
        raise wrong(place, f"there is no table {unit.table!r}", suggest(unit.table, tables, "tables"))
    if not isinstance(parent.unit, UnitColumn | UnitVia):
        raise wrong(
            place,
            f"the parent table {parent.name!r} does not name its unit by a column, nor find it via a table",
        )
    _check_path(table, tables)
    sql_type = parent.declared_type(unit.column, place, repr(parent.name))
    own = table.declared_type(unit.via, place)
    if sql_type is not None and not may_be_unit(sql_type):
        raise wrong(place, f"a column of type {sql_type} cannot link a child table to its parent")
    if sql_type is not None and own is not None and _unit_type(sql_type) != _unit_type(own):
        raise wrong(
            place,
            f"{unit.via!r} is {own}, but {unit.column!r} of {parent.name!r} is {sql_type}",
            "declare both columns with the same type",
        )
    if not any(len(columns) == 1 and same_name(columns[0], unit.column) for columns in parent.unique):
        raise wrong(
            place,
            f"{unit.column!r} must be unique in {parent.name!r}, else a row would have two owners",
            f'if it is, write unique = [["{unit.column}"]] in [{parent.place()}]',
        )
    if unit.kind != parent.unit.kind:
        raise wrong(
            table.place("unit_kind"),
            f"is {unit.kind!r}, but that of the parent table {parent.name!r} is {parent.unit.kind!r}",
            "leave it out: a child table has its parent's kind",
        )


def _check_path(table: Table, tables: Names[Table]) -> None:
    """Check that a table's path ends: it runs in no circle and has few hops."""
    parents = path_of(tables, table)
    names = ", ".join(parent.name for parent in parents)
    if parents and isinstance(last := parents[-1].unit, UnitVia) and last.table in tables:
        again = "" if table in parents else f", {last.table}"
        raise wrong(
            table.place("unit"),
            f"its path runs in a circle: {table.name}, {names}{again}",
            "one of them names its unit by a column",
        )
    if len(parents) > MOST_HOPS:
        raise wrong(
            table.place("unit"),
            f"its path goes through {len(parents)} tables, and {MOST_HOPS} are the most: {names}",
            "add the unit's column to a table in between",
        )


def _check_table_domain(
    domain: TableDomain, sql_type: SqlType | None, tables: Names[Table], place: str
) -> None:
    """Check that the table of a domain is declared and public and has a column of a comparable type."""
    table = tables.get(domain.table)
    if table is None:
        raise wrong(place, f"there is no table {domain.table!r}", suggest(domain.table, tables, "tables"))
    if not table.public:
        raise wrong(
            place,
            f"{table.name!r} is private, so its values cannot be a public domain",
            "a domain may not be derived from private data; list the values, or name a public table",
        )
    if table.columns is None:
        return
    found = table.declared_type(domain.column, place, repr(table.name))
    if found is not None and sql_type is not None and not _are_comparable(found, sql_type):
        raise wrong(place, f"the column is {sql_type}, but {domain.column!r} of {table.name!r} is {found}")


def _are_comparable(one: SqlType, other: SqlType) -> bool:
    texts = ("VARCHAR", "ENUM")
    return (
        one == other or (one.numeric and other.numeric) or (one.name in texts and other.name in texts)
    ) and one.name not in ("LIST", "STRUCT", "BLOB")


def _unit_type(sql_type: SqlType) -> str:
    """Return the type that units of one kind must share; integers of any width count as one type."""
    return "integer" if sql_type.integer else sql_type.name


def is_one_type(one: SqlType, other: SqlType) -> bool:
    """Whether units of these two types may be of one kind."""
    return _unit_type(one) == _unit_type(other)


def _check_kinds(tables: Names[Table]) -> None:
    """Check that the unit columns of one kind have one type, because they are compared with each other."""
    seen: dict[str, tuple[Table, UnitColumn, SqlType]] = {}
    for table in tables.values():
        if not isinstance(table.unit, UnitColumn) or table.columns is None:
            continue
        found = table.columns[table.unit.column]
        first, unit, expected = seen.setdefault(table.unit.kind, (table, table.unit, found))
        if not is_one_type(found, expected):
            others = "if they are different things, give the tables different unit_kind"
            texts = [
                t
                for t in ((table, table.unit, expected), (first, unit, found))
                if isinstance(t[0].source, CsvSource)
            ]
            if texts:  # its type is what the policy says
                of, column, kind = texts[0]
                place = key_path("tables", of.name, "columns")
                others = f'write {key_path(column.column)} = "{kind}" in [{place}]; {others}'
            raise wrong(
                table.place("unit"),
                f"units of one kind have one type, but this is {_unit_type(found)} and that of "
                f"{first.name!r} is {_unit_type(expected)}",
                others,
            )


def _check_row_kinds(tables: Names[Table]) -> None:
    """Refuse a table whose rows are units if its unit_kind is also the kind of another table's unit."""
    for table in tables.values():
        if not isinstance(table.unit, UnitRow):
            continue
        for other in tables.values():
            if other is table or other.unit is None or fold(other.unit.kind) != fold(table.unit.kind):
                continue
            if isinstance(other.unit, UnitRow) and table.unit.kind == UnitRow().kind:
                continue
            raise wrong(
                table.place("unit_kind"),
                f"is {table.unit.kind!r} as in {other.name!r}, but a unit of {table.name!r} is one row, "
                f"not everything of one {other.unit.kind}",
                "name the column of that unit, go through the table that has it (unit = { via = .., "
                "table = .., column = .. }), or leave unit_kind out",
            )


@dataclass(frozen=True, slots=True)
class View:
    """A view: its name and its SELECT. A statement that reads it is analysed as if the SELECT stood in it."""

    name: str
    sql: str
    dialect: str | None = None
    """The policy's dialect of statements."""

    def place(self, *names: str) -> str:
        """Return the key path of the view in the policy."""
        return key_path("views", self.name, *names)

    @property
    def tree(self) -> exp.Query:
        """The parsed SELECT, which is not to be changed; raises `PolicyError` for other texts."""
        return _parse_view(self.sql, self.place("sql"), self.dialect)


@lru_cache(maxsize=256)
def _parse_view(sql: str, place: str, dialect: str | None) -> exp.Query:
    try:
        query = parse(sql, dialect=dialect)
    except Error as problem:
        raise wrong(place, str(problem).partition("\n")[0], getattr(problem, "hint", None)) from None
    if not isinstance(query, Query):
        raise wrong(place, "a view is one SELECT")
    if query.inner or Clauses(query.options, query.clause, query.has_options) != Clauses():
        raise wrong(
            place,
            "a view has no privacy options and no clause that selects groups",
            "the statements that read the view give them",
        )
    return query.tree


def read_views(raw: object, keys: Mapping[str, Key], dialect: str | None) -> dict[str, View]:
    """Read the views of a policy file, whose statements are of a dialect."""
    if not isinstance(raw, dict) or not all(isinstance(view, dict) for view in raw.values()):
        raise wrong("views", 'expected views: write [views.NAME] with sql = "SELECT .."')
    views = {}
    for name, section in raw.items():
        read = Section(section, ("views", name), keys)
        read.require("sql", 'write sql = "SELECT .."')
        views[name] = View(name, **read.values(), dialect=dialect)
    return views


def check_views(views: Mapping[str, View], tables: Names[Table]) -> Names[View]:
    """Check the names and texts of views, and that they read declared tables and no circle of views."""
    found = check_names(views, "views")
    for name, view in found.items():
        if not same_name(name, view.name):
            raise wrong(key_path("views", name), f"holds a view named {view.name!r}")
        if name in tables:
            raise wrong(view.place(), "is the name of a table as well", "give the view another name")
        for read in list_names_read(view.tree):
            if read not in tables and read not in found:
                known = [*tables, *found]
                raise wrong(view.place("sql"), f"there is no table {read!r}", suggest(read, known, "tables"))
    _check_cycles(found)
    return found


def _check_cycles(views: Names[View]) -> None:
    reads = {fold(name): {fold(read) for read in list_names_read(view.tree)} for name, view in views.items()}
    left = set(reads)
    while free := {name for name in left if not reads[name] & left}:
        left -= free
    if left:
        name = next(n for n in views if fold(n) in left)
        raise wrong(
            views[name].place("sql"), "the view reads itself, or a view that does, directly or through others"
        )


def list_names_read(tree: exp.Expr) -> list[str]:
    """Return the names in a query that mean tables or views, each once."""
    return list(dict.fromkeys(node.name for node in find_tables(tree)))


ColumnOfTable = tuple[str, str]
"""A table and one of its columns, as folded names."""


def find_owned_keys(tables: Mapping[str, Table]) -> dict[ColumnOfTable, str]:
    """Return the name of the key that each column is whose values belong to one unit each.

    Columns have one key if declarations connect them, directly or through others.
    """
    found = {place: place for table in tables.values() for place in _list_owned(table)}
    for table in tables.values():
        for one, other in list_connected(table):
            a, b = found.setdefault(one, one), found.setdefault(other, other)
            found |= {place: a for place, key in found.items() if key == b}
    return {place: ".".join(key) for place, key in found.items()}


def _list_owned(table: Table) -> Iterator[ColumnOfTable]:
    """Yield the columns of a table whose values belong to one unit each, as the table itself says."""
    if table.unit is None or isinstance(table.unit, UnitRow):
        return
    for column in (*table.owned, *table.key_columns):
        yield fold(table.name), fold(column)


def list_connected(table: Table) -> Iterator[tuple[ColumnOfTable, ColumnOfTable]]:
    """Yield the columns of other tables that a table's columns have their units from, or share them with."""
    name = fold(table.name)
    if isinstance(table.unit, UnitVia):
        yield (name, fold(table.unit.via)), (fold(table.unit.table), fold(table.unit.column))
    for column, (other, theirs) in table.same_unit.items():
        yield (name, fold(column)), (fold(other), fold(theirs))


def check_owned_keys(tables: Mapping[str, Table]) -> None:
    """Check that keys of two tables are of private tables with units of one kind, and of one type."""
    for table in tables.values():
        for column, (named, theirs) in table.same_unit.items():
            place, other = table.place("same_unit", column), tables.get(named)
            if other is None:
                raise wrong(place, f"there is no table {named!r}", suggest(named, tables, "tables"))
            if other is table:
                raise wrong(place, "is a column of the same table", f'write owned = ["{column}"]')
            if other.unit is None or isinstance(other.unit, UnitRow):
                raise wrong(place, f"the rows of {other.name!r} have no unit in common with others")
            if table.unit is not None and table.unit.kind != other.unit.kind:
                one, here = with_article(other.unit.kind), with_article(table.unit.kind)
                raise wrong(
                    place,
                    f"a unit of {other.name!r} is {one}, and here it is {here}",
                    "tables of different kinds are never joined",
                )
            expected = other.declared_type(theirs, place, repr(other.name))
            own = table.declared_type(column, place)
            if expected is not None and own is not None and not are_alike(own, expected):
                raise wrong(place, f"{column!r} is {own}, but {theirs!r} of {other.name!r} is {expected}")


def are_alike(one: SqlType, other: SqlType) -> bool:
    """Return whether values of two types can name the same thing."""
    return one == other or (one.integer and other.integer)
