"""What the owner is told of data in DuckDB: checks against the policy, and why sources cannot be opened.

The results of checks are private. The engine that answers analysts keeps no words of an error: here the
sources are opened once more, in a database of its own, and the owner alone is told the engine's own words.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from dpsql.analysis import quote
from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine, invalid_timestamp
from dpsql.engines.duckdb.duckdb_settings import duckdb_words
from dpsql.engines.duckdb.source_files import (
    copy_in_utf8,
    csv_format_of,
    find_difference,
    find_stray_quote,
    read_csv_header,
    scan_files,
    sql_text,
)
from dpsql.engines.exact_queries import ExactQueries, UnreadableError
from dpsql.errors import PolicyError
from dpsql.kernel.tree import Select, duckdb_sql
from dpsql.policy import CsvSource, DatabaseSource, ParquetSource, Policy, Table, files_of, fold, zones
from dpsql.types import DOUBLE, SqlType

_LONGEST_LINE = 300
_YEARS = (0, 2_145_916_799)
"""1970 to 2037, in seconds."""
_LONGEST_VALUE = 60
_WRITTEN = {
    "BIGINT": "CAST(TRY_CAST({0} AS BIGINT) AS VARCHAR) = {0}",
    "DOUBLE": "isfinite(TRY_CAST({0} AS DOUBLE)) AND NOT regexp_matches({0}, '^[+-]?0[0-9]')",
    "DATE": "CAST(TRY_CAST({0} AS DATE) AS VARCHAR) = {0}",
    "TIMESTAMP": "isfinite(TRY_CAST({0} AS TIMESTAMP)) AND regexp_matches({0}, '^[0-9]{{4}}-[^+]*$')",
    "BOOLEAN": "lower({0}) IN ('true', 'false')",
}
"""The conditions that a text is written as a value of a type, the narrower types first."""


class Inspector(ExactQueries, DuckDBEngine):
    """A private database with exact queries for the owner; no analyst's session makes one."""

    def read(self, table: str) -> tuple[int, dict[str, int]]:
        """Read every column once through its declared type.

        Returns the number of rows, and for each column the number of values that its declared type does not
        hold; they are read as NULL. Raises `UnreadableError`.
        """
        reader = self.readers[table]
        if isinstance(reader.table.source, CsvSource):
            for path in reader.paths:
                check_quotes(path, csv_format_of(reader.table).delimiter)
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

    def list_lost_values(self, table: str, column: str) -> list[tuple[int, str]]:
        """Return the first values that a column's declared type does not hold, with their rows from 1."""
        reader = self.readers[table]
        cell = next(c for c, (name, _) in zip(reader.cells, reader.columns, strict=True) if name == column)
        listed = reader.unlimited_sql.removesuffix(f" FROM {reader.scan}")
        rows = f"{listed}, {cell} AS {quote('§')}, row_number() OVER () AS {quote('§n')} FROM {reader.scan}"
        found = self.fetch_all(
            f"SELECT {quote('§n')}, CAST({quote('§')} AS VARCHAR)[:{_LONGEST_VALUE}] FROM ({rows}) AS r "
            f"WHERE {quote('§')} IS NOT NULL AND {quote(column)} IS NULL ORDER BY 1 LIMIT 3"
        )
        return [(row[0], row[1]) for row in found]

    def find_rounded_values(self, table: str) -> dict[str, tuple[int, str]]:
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

    def find_unreadable(self, table: str) -> dict[str, str]:
        """Read each column separately; return those that cannot be read, with the engine's error texts."""
        problems = {}
        for name, _ in self.readers[table].columns:
            try:
                self._fetch_one(f"SELECT bit_xor(hash({quote(name)})) FROM main.{quote(table)}")
            except UnreadableError as problem:
                problems[name] = str(problem)
        return problems

    def count_invalid_timestamps(self, table: str) -> dict[str, int]:
        """Return for each TIMESTAMP column the number of its values that are no valid timestamps."""
        columns = [name for name, sql_type in self.readers[table].columns if sql_type.moment]
        if not columns:
            return {}
        counts = ", ".join(f"COUNT(*) FILTER (WHERE {invalid_timestamp(name)})" for name in columns)
        return dict(zip(columns, self._fetch_one(f"SELECT {counts} FROM main.{quote(table)}"), strict=True))

    def find_types_of_text(self, table: str) -> dict[str, str]:
        """Return the type as which all values of a text column of a CSV file are written, by column.

        Whole numbers with zeros in front are texts: as numbers they would be others.
        """
        reader = self.readers[table]
        texts = [name for name, kind in reader.columns if kind.name == "VARCHAR"]
        if not isinstance(reader.table.source, CsvSource) or not texts:
            return {}
        counts = ", ".join(
            f"COUNT({x}), " + ", ".join(f"COUNT(*) FILTER ({is_so.format(x)})" for is_so in _WRITTEN.values())
            for x in map(quote, texts)
        )
        row, size, found = self._fetch_one(f"SELECT {counts} FROM main.{quote(table)}"), 1 + len(_WRITTEN), {}
        for i, name in enumerate(texts):
            values, *fitting = row[size * i : size * (i + 1)]
            kinds = [kind for kind, number in zip(_WRITTEN, fitting, strict=True) if number == values]
            if values and kinds:
                found[name] = kinds[0]
        return found

    def count_offsets(self, table: str) -> dict[str, tuple[int, int, int]]:
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

    def count_changed_hours(self, table: str, column: str) -> tuple[int, int]:
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

    def count_over_limit(self, table: str) -> dict[str, int]:
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

    def rows(self, table: str, alias: str) -> str:
        """Write a declared table as an item of FROM."""
        return f"main.{quote(self._reader(table).table.name)} AS {alias}"

    def quote(self, name: str) -> str:
        """Write the name of a column."""
        return quote(name)

    def as_text(self, cell: str) -> str:
        """Write a value as text: a wrong policy may compare columns of different types."""
        return f"CAST({cell} AS VARCHAR)"

    def number(self, cell: str, sql_type: SqlType) -> tuple[str, Callable[[object], str]]:
        """Write that a value is a number, and return what writes a bound of its type."""
        there = f"NOT isnan({cell})" if sql_type == DOUBLE else f"{cell} IS NOT NULL"
        return there, lambda end: f"CAST('{end}' AS {sql_type.held})"

    def fetch_all(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query; raises `UnreadableError`."""
        try:
            with self._connection(counts_only=False).cursor() as cursor:
                return cursor.execute(sql).fetchall()
        except duckdb.Error as problem:
            text = duckdb_words(problem)
        # After some errors the database cannot be used any more.
        self._reopen()
        raise UnreadableError(text)

    def fetch_of(self, rows: Select, listed: str, tail: str = "") -> list[tuple[Any, ...]]:
        """Select a list of expressions from a query's rows `r`; raises `UnreadableError`."""
        return self.fetch_all(f"SELECT {listed} FROM ({duckdb_sql(rows)}) AS r{tail}")


def check_quotes(path: Path, delimiter: str) -> None:
    """Raise `UnreadableError`, with the line and its text, for quotes that leave open where rows begin."""
    at = find_stray_quote(path, delimiter)
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


def find_opening_errors(policy: Policy) -> list[tuple[str, str]]:
    """Return the places of the policy that cannot be opened, with the reasons; no row is read."""
    found = []
    with (
        duckdb_settings.interruptible(),
        duckdb_settings.connect() as connection,
        tempfile.TemporaryDirectory() as folder,
    ):
        if policy.database is not None:
            words = _error_words(connection, f"ATTACH {sql_text(policy.database)} AS own (READ_ONLY)")
            if words is not None:
                found.append(("database.path", words))
        for table in policy.tables.values():
            if isinstance(table.source, DatabaseSource):
                continue
            try:
                words = _error_words(
                    connection, f"DESCRIBE SELECT * FROM {scan_files(table, Path(folder)).sql}"
                )
                words = words or _differing_types(connection, table)
            except PolicyError:
                words = _differing_headers(table, Path(folder))
            if words is not None:
                found.append((table.place("source"), words))
    return found


def _error_words(connection: duckdb.DuckDBPyConnection, sql: str) -> str | None:
    try:
        connection.execute(sql)
    except duckdb.Error as problem:
        return duckdb_words(problem)
    return None


def _differing_types(connection: duckdb.DuckDBPyConnection, table: Table) -> str | None:
    """Name two Parquet files of a table of which one holds a column with a type that loses values."""
    if not isinstance(table.source, ParquetSource):
        return None
    columns = None if table.columns is None else [fold(name) for name in table.columns]
    try:
        found = find_difference(connection, files_of(table.source), columns)
    except duckdb.Error as problem:
        return duckdb_words(problem)
    return None if found is None else str(found)


def _differing_headers(table: Table, folder: Path) -> str | None:
    """Name the first file of a table whose header differs from that of the others, or cannot be read."""
    if not isinstance(table.source, CsvSource):
        return None
    first = None
    for file in files_of(table.source):
        try:
            header = read_csv_header(table, copy_in_utf8(table.source, file, folder))
        except OSError as problem:
            return f"{file}: {problem.strerror}"
        except PolicyError:
            return None
        first = header if first is None else first
        if header != first:
            return f"{file} has the columns {', '.join(header)}; the first file has {', '.join(first)}"
    return None
