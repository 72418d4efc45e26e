"""Checks of the data against the policy, for the owner. Their results are private."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from dpsql import zones
from dpsql.analysis import quote
from dpsql.engines.duckdb.csv_source import csv_format, stray_quote
from dpsql.engines.duckdb.engine import DuckDBEngine, invalid_timestamp
from dpsql.engines.duckdb.engine_words import engine_words
from dpsql.engines.duckdb.sources import Reader
from dpsql.engines.owned_rows import OwnedRows
from dpsql.errors import InternalError
from dpsql.policy import CsvSource, Unit, UnitColumn, UnitVia, checked_bounds, fold
from dpsql.tree import duckdb_sql
from dpsql.types import DOUBLE

_LONGEST_LINE = 300
_YEARS = (0, 2_145_916_799)
"""1970 to 2037, in seconds."""
_LONGEST_VALUE = 60


class UnreadableError(Exception):
    """The engine could not read a source. Its text is the engine's own and may quote private values."""


class Inspector(DuckDBEngine):
    """A private database with exact queries for the owner; no analyst's session makes one."""

    def read(self, table: str) -> tuple[int, dict[str, int]]:
        """Read every column once through its declared type.

        Returns the number of rows, and for each column the number of values that its declared type does not
        hold; they are read as NULL. Raises `UnreadableError`.
        """
        reader = self.readers[table]
        if isinstance(reader.table.source, CsvSource):
            for path in reader.paths:
                check_quotes(path, csv_format(reader.table).delimiter)
        # Declared names are ASCII, so these names are not taken.
        raw = ", ".join(f"{cell} AS {quote(f'§{i}')}" for i, cell in enumerate(reader.cells))
        wanted = ", ".join(
            f"bit_xor(hash({quote(name)})), "
            f"COUNT(*) FILTER (WHERE {quote(f'§{i}')} IS NOT NULL AND {quote(name)} IS NULL)"
            for i, (name, _) in enumerate(reader.columns)
        )
        listed = reader.unlimited_sql.removesuffix(f" FROM {reader.scan}")
        row = self._fetch_one(f"SELECT COUNT(*), {wanted} FROM ({listed}, {raw} FROM {reader.scan}) AS r")
        return row[0], {name: row[2 + 2 * i] for i, (name, _) in enumerate(reader.columns)}

    def lost_values(self, table: str, column: str, most: int = 3) -> list[tuple[int, str]]:
        """Return the first values that a column's declared type does not hold, with their rows from 1."""
        reader = self.readers[table]
        cell = next(c for c, (name, _) in zip(reader.cells, reader.columns, strict=True) if name == column)
        listed = reader.unlimited_sql.removesuffix(f" FROM {reader.scan}")
        rows = f"{listed}, {cell} AS {quote('§')}, row_number() OVER () AS {quote('§n')} FROM {reader.scan}"
        found = self._fetch_all(
            f"SELECT {quote('§n')}, CAST({quote('§')} AS VARCHAR)[:{_LONGEST_VALUE}] FROM ({rows}) AS r "
            f"WHERE {quote('§')} IS NOT NULL AND {quote(column)} IS NULL ORDER BY 1 LIMIT {most}"
        )
        return [(row[0], row[1]) for row in found]

    def rounded_values(self, table: str) -> dict[str, tuple[int, str]]:
        """Return for each column whose declared type rounds values how many, and the first one as text."""
        reader = self.readers[table]
        names: list[str] = []
        cells: list[str] = []
        counted: list[str] = []
        for (name, kind), cell in zip(reader.columns, reader.cells, strict=True):
            rounds = kind.integer or kind.name in ("DECIMAL", "DATE")
            if not rounds or f"TRY_CAST({cell} AS {kind})" not in reader.unlimited_sql:
                continue  # it is stored as it is declared
            wide, stored = "TIMESTAMP" if kind.name == "DATE" else "DOUBLE", quote(f"§{len(names)}")
            where = f"(WHERE TRY_CAST({stored} AS {wide}) <> CAST({quote(name)} AS {wide}))"
            first = f"min_by(CAST({stored} AS VARCHAR), {quote('§n')}) FILTER {where}"
            names.append(name)
            cells.append(f"{cell} AS {stored}")
            counted += [f"COUNT(*) FILTER {where}", f"({first})[:{_LONGEST_VALUE}]"]
        if not names:
            return {}
        listed = reader.unlimited_sql.removesuffix(f" FROM {reader.scan}")
        numbered = f"row_number() OVER () AS {quote('§n')}"
        rows = f"{listed}, {', '.join(cells)}, {numbered} FROM {reader.scan}"
        found = self._fetch_one(f"SELECT {', '.join(counted)} FROM ({rows}) AS r")
        pairs = zip(names, found[::2], found[1::2], strict=True)
        return {name: (number, first) for name, number, first in pairs if number}

    def unreadable(self, table: str) -> dict[str, str]:
        """Read each column separately; return those that cannot be read, with the engine's error texts."""
        problems = {}
        for name, _ in self.readers[table].columns:
            try:
                self._fetch_one(f"SELECT bit_xor(hash({quote(name)})) FROM main.{quote(table)}")
            except UnreadableError as problem:
                problems[name] = str(problem)
        return problems

    def invalid_timestamps(self, table: str) -> dict[str, int]:
        """Return for each TIMESTAMP column the number of its values that are no valid timestamps."""
        columns = [name for name, sql_type in self.readers[table].columns if sql_type.moment]
        if not columns:
            return {}
        counts = ", ".join(f"COUNT(*) FILTER (WHERE {invalid_timestamp(name)})" for name in columns)
        return dict(zip(columns, self._fetch_one(f"SELECT {counts} FROM main.{quote(table)}"), strict=True))

    def zones(self, table: str) -> dict[str, tuple[int, int, int]]:
        """Return how many texts of times have an offset, how many have none, and how many there are.

        It is by column, of texts that are declared as dates or times.
        """
        reader = self.readers[table]
        names = [*reader.offsets, *reader.naive]
        if not names:
            return {}
        stored = dict(zip((name for name, _ in reader.columns), reader.cells, strict=True))
        counts = ", ".join(
            f"COUNT(*) FILTER (WHERE {reader.offsets.get(name, 'FALSE')}), "
            f"COUNT(*) FILTER (WHERE {reader.naive.get(name, 'FALSE')}), COUNT({stored[name]})"
            for name in names
        )
        row = self._fetch_one(f"SELECT {counts} FROM {reader.scan}")
        return {name: tuple(row[3 * i : 3 * i + 3]) for i, name in enumerate(names)}

    def changed_hours(self, table: str, column: str) -> tuple[int, int]:
        """Return how many times of a column with a declared zone are doubled, and how many skipped."""
        zone = zones.zone(self._reader(table).table.zone[column])
        found = []
        for doubled in (True, False):
            hours = zone.changed_hours(*_YEARS, doubled=doubled)
            listed = ", ".join(f"(make_timestamp({a}000000), make_timestamp({b}000000))" for a, b in hours)
            within = f"SELECT 1 FROM (VALUES {listed}) AS h(a, b) WHERE c.v >= h.a AND c.v < h.b"
            rows = f"(SELECT {quote(column)} AS v FROM main.{quote(table)}) AS c"
            found.append(
                self._fetch_one(f"SELECT COUNT(*) FROM {rows} WHERE EXISTS ({within})")[0] if hours else 0
            )
        return found[0], found[1]

    def over_limit(self, table: str) -> dict[str, int]:
        """Return for each column with a length limit the number of values beyond it."""
        reader = self.readers[table]
        if not reader.over_limit:
            return {}
        counts = ", ".join(f"COUNT(*) FILTER (WHERE {condition})" for condition in reader.over_limit.values())
        return dict(
            zip(
                reader.over_limit,
                self._fetch_one(f"SELECT {counts} FROM ({reader.unlimited_sql}) AS r"),
                strict=True,
            )
        )

    def repeated(self, table: str, fact: tuple[str, ...]) -> tuple[int, int]:
        """Return how many combinations of a unique fact's columns are repeated, and in how many rows."""
        listed = ", ".join(quote(column) for column in fact)
        row = self._fetch_one(
            f"SELECT COUNT(*), COALESCE(SUM(n), 0) FROM (SELECT COUNT(*) AS n FROM main.{quote(table)}"
            f"{self._with_unit(table)} GROUP BY {listed} HAVING COUNT(*) > 1) AS r"
        )
        return row[0], int(row[1])

    def nulls(self, table: str, columns: Sequence[str]) -> tuple[dict[str, int], int]:
        """Return for each column in how many rows with a unit it is NULL, and how many rows have one."""
        rows, *there = self._fetch_one(duckdb_sql(self._owned_rows(table).nulls(columns)))
        return {column: rows - n for column, n in zip(columns, there, strict=True)}, rows

    def outside(self, table: str, column: str) -> tuple[int, int, int]:
        """Return how many distinct values of rows with a unit lie outside a column's declared domain.

        Also returned are the number of rows that have these values, and of those in which it is NULL.
        """
        rows = duckdb_sql(self._owned_rows(table).outside(column))
        row = self._fetch_one(f"SELECT COUNT(DISTINCT v), COUNT(v), COUNT(*) - COUNT(v) FROM ({rows}) AS r")
        return row[0], row[1], row[2]

    def outside_values(self, table: str, column: str, most: int = 5) -> list[tuple[str, int]]:
        """Return the most frequent values outside a column's declared domain, with the rows of each."""
        rows = duckdb_sql(self._owned_rows(table).outside(column))
        found = self._fetch_all(
            f"SELECT CAST(v AS VARCHAR)[:{_LONGEST_VALUE}], COUNT(*) FROM ({rows}) AS r "
            f"WHERE v IS NOT NULL GROUP BY v ORDER BY 2 DESC, 1 LIMIT {most}"
        )
        return [(row[0], row[1]) for row in found]

    def beyond(self, table: str, most: int, column: str | None = None) -> tuple[int, int]:
        """Return how many rows of units are beyond the first `most` of each, and how many rows there are.

        Of a column, the rows of each unit are those of its first `most` values, most frequent first.
        """
        unit, source = self._owned(table)
        per = f"SELECT {unit} AS u, COUNT(*) AS r FROM {source} WHERE {unit} IS NOT NULL"
        if column is None:
            kept = f"SELECT r, LEAST(r, {most}) AS kept FROM ({per} GROUP BY u) AS g"
        else:
            cell = f"c.{quote(column)}"
            place = "ROW_NUMBER() OVER (PARTITION BY u ORDER BY r DESC)"
            kept = (
                f"SELECT r, CASE WHEN {place} <= {most} THEN r ELSE 0 END AS kept "
                f"FROM ({per} AND {cell} IS NOT NULL GROUP BY u, {cell}) AS g"
            )
        whole, left = self._fetch_one(
            f"SELECT COALESCE(SUM(r), 0), COALESCE(SUM(kept), 0) FROM ({kept}) AS k"
        )
        return int(whole - left), int(whole)

    def units_beyond(self, table: str, most: int) -> tuple[int, int]:
        """Return how many units have more than `most` rows, and how many units there are."""
        unit, source = self._owned(table)
        per = f"SELECT COUNT(*) AS r FROM {source} WHERE {unit} IS NOT NULL GROUP BY {unit}"
        row = self._fetch_one(f"SELECT COUNT(*) FILTER (WHERE r > {most}), COUNT(*) FROM ({per}) AS g")
        return row[0], row[1]

    def cut(self, table: str, column: str) -> tuple[int, int]:
        """Return how many values lie beyond a column's declared bounds, and how many numbers there are.

        Both are of the rows with a unit.
        """
        stated = self._reader(table).table.bounds[column]
        sql_type = next(kind for name, kind in self.readers[table].columns if fold(name) == fold(column))
        held = checked_bounds(stated, sql_type, "")
        low, high = (f"CAST('{end}' AS {sql_type.held})" for end in (held.low, held.high))
        there = "NOT isnan(v)" if sql_type == DOUBLE else "v IS NOT NULL"
        row = self._fetch_one(
            f"SELECT COUNT(*) FILTER (WHERE v < {low} OR v > {high}), COUNT(*) "
            f"FROM ({duckdb_sql(self._owned_rows(table).values(column))}) AS r WHERE {there}"
        )
        return row[0], row[1]

    def _owned_rows(self, table: str) -> OwnedRows:
        return OwnedRows(self.readers, self.domains, table)

    def _owned(self, table: str) -> tuple[str, str]:
        """Return the expression of the unit of a table's rows, and the FROM item in which it stands."""
        return self._path(self.readers[table].table.unit, f"main.{quote(table)} AS c")

    def _path(self, unit: Unit | None, source: str, alias: str = "p") -> tuple[str, str]:
        """Return the expression of the unit of the rows `c` of a FROM item, and the item joined to it.

        Tables of a path are `p0`, `p1`, ..
        """
        at, hop = "c", 0
        while isinstance(unit, UnitVia):
            parent = self._reader(unit.table).table
            there = f"{alias}{hop}"
            same = f"{_as_text(f'{at}.{quote(unit.via)}')} = {_as_text(f'{there}.{quote(unit.column)}')}"
            source = f"{source} LEFT JOIN main.{quote(parent.name)} AS {there} ON {same}"
            unit, at, hop = parent.unit, there, hop + 1
        if not isinstance(unit, UnitColumn):
            raise InternalError("the rows of this table are units")
        return f"{at}.{quote(unit.column)}", source

    def ownerless(self, table: str) -> int:
        """Return how many rows belong to no unit."""
        if not isinstance(self.readers[table].table.unit, UnitColumn | UnitVia):
            return 0
        unit, source = self._owned(table)
        return int(self._fetch_one(f"SELECT COUNT(*) FROM {source} WHERE {unit} IS NULL")[0])

    def rows_and_units(self, table: str) -> tuple[int, int]:
        """Return how many rows of a table have a unit, and how many units these are."""
        unit, source = self._owned(table)
        row = self._fetch_one(f"SELECT COUNT({unit}), COUNT(DISTINCT {unit}) FROM {source}")
        return row[0], row[1]

    def disagreeing(self, table: str, other: Unit) -> tuple[int, int]:
        """Return in how many rows another way to a unit leads to another one, and in how many to any.

        Rows that have no unit in the declared way are never counted, and are left out.
        """
        unit, source = self._owned(table)
        second, source = self._path(other, source, "s")
        differ = f"{_as_text(second)} <> {_as_text(unit)}"
        row = self._fetch_one(
            f"SELECT COUNT(*) FILTER (WHERE {differ}), COUNT(*) FROM {source} "
            f"WHERE {unit} IS NOT NULL AND {second} IS NOT NULL"
        )
        return row[0], row[1]

    def units(self, kind: str) -> int:
        """Return how many units of a kind there are."""
        return int(self._fetch_one(f"SELECT COUNT(DISTINCT u) FROM ({self._all_units(kind)}) AS r")[0])

    def like_units(self, table: str, column: str, kind: str) -> tuple[int, int]:
        """Return how many distinct values a column has, and how many of them are units of a kind."""
        row = self._fetch_one(
            f"SELECT COUNT(DISTINCT v), COUNT(DISTINCT v) FILTER (WHERE v IN ({self._all_units(kind)})) "
            f"FROM (SELECT {_as_text(quote(column))} AS v FROM main.{quote(table)}) AS r"
        )
        return row[0], row[1]

    def shared(self, table: str, column: str, other: str, theirs: str) -> tuple[int, int]:
        """Return how many distinct values a column has, and how many of them another table's column has."""
        row = self._fetch_one(
            f"SELECT COUNT(DISTINCT v), COUNT(DISTINCT v) FILTER "
            f"(WHERE v IN (SELECT {_as_text(quote(theirs))} FROM main.{quote(other)})) "
            f"FROM (SELECT {_as_text(quote(column))} AS v FROM main.{quote(table)}) AS r"
        )
        return row[0], row[1]

    def _all_units(self, kind: str) -> str:
        parts = []
        for name, reader in self.readers.items():
            unit = reader.table.unit
            if isinstance(unit, UnitColumn) and unit.kind == kind:
                parts.append(f"SELECT {_as_text(quote(unit.column))} AS u FROM main.{quote(name)}")
        return " UNION ALL ".join(parts)

    def _with_unit(self, table: str) -> str:
        """Write the condition that excludes rows without a unit, which are never counted."""
        unit = self.readers[table].table.unit
        return f" WHERE {quote(unit.column)} IS NOT NULL" if isinstance(unit, UnitColumn) else ""

    def _reader(self, table: str) -> Reader:
        return next(reader for name, reader in self.readers.items() if fold(name) == fold(table))

    def _fetch_one(self, sql: str) -> tuple[Any, ...]:
        return self._fetch_all(sql)[0]

    def _fetch_all(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            with self._connection(counts_only=False).cursor() as cursor:
                return cursor.execute(sql).fetchall()
        except duckdb.Error as problem:
            text = engine_words(problem)
        # After some errors the database cannot be used any more.
        self._reopen()
        raise UnreadableError(text)


def _as_text(cell: str) -> str:
    """Cast a column to text: a wrong policy may compare columns of different types."""
    return f"CAST({cell} AS VARCHAR)"


def check_quotes(path: Path, delimiter: str) -> None:
    """Raise `UnreadableError`, with the line and its text, for quotes that leave open where rows begin."""
    at = stray_quote(path, delimiter)
    if at is None:
        return
    place = number = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):  # noqa: B007  the last one is meant
            place += len(line)
            if place > at:
                break
    shown = line[:_LONGEST_LINE].decode("utf-8", "replace").rstrip("\r\n")
    raise UnreadableError(
        f"line {number}: {shown}\n"
        "its quotes do not follow RFC 4180: quote whole fields, and double the quotes within them"
    )
