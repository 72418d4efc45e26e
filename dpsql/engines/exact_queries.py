"""Exact queries on private rows, for the owner who verifies a policy: the same SQL on every engine.

Their results are private. No session makes one. `dpsql.engines.duckdb.duckdb_owner` runs them on DuckDB;
`RemoteInspector` runs them on PostgreSQL and Spark, and numbers come back.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from dpsql.engines.declared_domains import Domains, OwnedRows, select_several
from dpsql.engines.duckdb.table_readers import Reader
from dpsql.engines.remote_engine import RemoteEngine
from dpsql.engines.worker import run_in_thread
from dpsql.engines.writer import Translated, Untranslatable, write
from dpsql.errors import InternalError
from dpsql.kernel.charged_work import UNCHARGED
from dpsql.kernel.tree import Select
from dpsql.policy import Unit, UnitColumn, UnitPeriod, UnitVia, fit_bounds, fold
from dpsql.types import DOUBLE, VARCHAR, SqlType

_LONGEST_VALUE = 60


class UnreadableError(Exception):
    """The engine could not read a source. Its text is the engine's own and may quote private values."""


class ExactQueries:
    """Queries on declared tables, each with the declared columns under their folded names."""

    readers: dict[str, Reader]
    domains: Domains

    @abstractmethod
    def rows(self, table: str, alias: str) -> str:
        """Write a declared table as an item of FROM."""

    @abstractmethod
    def quote(self, name: str) -> str:
        """Write the name of a column."""

    @abstractmethod
    def as_text(self, cell: str) -> str:
        """Write a value as text: a wrong policy may compare columns of different types."""

    @abstractmethod
    def number(self, cell: str, sql_type: SqlType) -> tuple[str, Callable[[object], str]]:
        """Return SQL for whether a value is a number, and a function that writes bounds of its type."""

    @abstractmethod
    def fetch_all(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query; raises `UnreadableError`."""

    @abstractmethod
    def fetch_of(self, rows: Select, listed: str, tail: str = "") -> list[tuple[Any, ...]]:
        """Select a list of expressions from a query's rows `r`; raises `UnreadableError`.

        `tail` is what follows the FROM clause.
        """

    def count_repeated(self, table: str, fact: tuple[str, ...]) -> tuple[int, int]:
        """Return how many combinations of a unique fact's columns are repeated, and in how many rows."""
        listed = ", ".join(self.quote(column) for column in fact)
        row = self._fetch_one(
            f"SELECT COUNT(*), COALESCE(SUM(n), 0) FROM (SELECT COUNT(*) AS n FROM {self.rows(table, 't')}"
            f"{self._with_unit(table)} GROUP BY {listed} HAVING COUNT(*) > 1) AS r"
        )
        return row[0], int(row[1])

    def count_varying(self, table: str, column: str) -> int:
        """Return how many units have several values in a column, or NULL beside a value."""
        unit = self.readers[table].table.unit
        if not isinstance(unit, UnitColumn):
            return 0
        rows = self.rows(table, "t")
        return int(self._fetch_one(select_several(rows, self.quote(unit.column), self.quote(column)))[0])

    def count_undetermined(self, table: str, column: str, other: str) -> int:
        """Return how many values of a column stand in rows with several of another, or NULL beside one."""
        rows = self.rows(table, "t")
        return int(self._fetch_one(select_several(rows, self.quote(column), self.quote(other)))[0])

    def count_nulls(self, table: str, columns: Sequence[str]) -> tuple[dict[str, int], int]:
        """Return for each column in how many rows with a unit it is NULL, and how many rows have one."""
        listed = ", ".join(f"n{i}" for i in range(len(columns) + 1))
        rows, *there = self.fetch_of(self._owned_rows(table).select_counts(columns), listed)[0]
        return {column: rows - n for column, n in zip(columns, there, strict=True)}, rows

    def count_negative(self, table: str, column: str) -> int:
        """Return in how many rows with a unit a column has a value below 0."""
        rows = self._owned_rows(table).select_negative(column)
        return int(self.fetch_of(rows, "COUNT(*) AS n0")[0][0])

    def count_outside(self, table: str, column: str) -> tuple[int, int, int]:
        """Return how many distinct values of rows with a unit lie outside a column's declared domain.

        Also returned are the number of rows that have these values, and of those in which it is NULL.
        """
        listed = "COUNT(DISTINCT v) AS n0, COUNT(v) AS n1, COUNT(*) - COUNT(v) AS n2"
        row = self.fetch_of(self._owned_rows(table).select_outside(column), listed)[0]
        return row[0], row[1], row[2]

    def list_outside_values(self, table: str, column: str) -> list[tuple[str, int]]:
        """Return the most frequent values outside a column's declared domain, with the rows of each."""
        found = self.fetch_of(
            self._owned_rows(table).select_outside(column),
            f"{self.as_text('v')} AS k0, COUNT(*) AS n0",
            " WHERE v IS NOT NULL GROUP BY v ORDER BY 2 DESC, 1 LIMIT 5",
        )
        return [(text[:_LONGEST_VALUE], number) for text, number in found]

    def count_beyond(self, table: str, most: int, column: str | None = None) -> tuple[int, int]:
        """Count the rows beyond the first `most` rows of each unit, and all rows with a unit.

        Of a column, the rows of each unit are those of its first `most` values, most frequent first.
        """
        unit, source = self._find_whole_unit(table)
        per = f"SELECT {unit} AS u, COUNT(*) AS r FROM {source} WHERE {unit} IS NOT NULL"
        if column is None:
            kept = f"SELECT r, LEAST(r, {most}) AS kept FROM ({per} GROUP BY 1) AS g"
        else:
            cell = f"c.{self.quote(column)}"
            place = "ROW_NUMBER() OVER (PARTITION BY u ORDER BY r DESC)"
            kept = (
                f"SELECT r, CASE WHEN {place} <= {most} THEN r ELSE 0 END AS kept "
                f"FROM ({per} AND {cell} IS NOT NULL GROUP BY 1, {cell}) AS g"
            )
        whole, left = self._fetch_one(
            f"SELECT COALESCE(SUM(r), 0), COALESCE(SUM(kept), 0) FROM ({kept}) AS k"
        )
        return int(whole) - int(left), int(whole)

    def count_units_beyond(self, table: str, most: int) -> tuple[int, int]:
        """Return how many units have more than `most` rows, and how many units there are."""
        unit, source = self._find_whole_unit(table)
        per = f"SELECT COUNT(*) AS r FROM {source} WHERE {unit} IS NOT NULL GROUP BY {unit}"
        row = self._fetch_one(f"SELECT COUNT(*) FILTER (WHERE r > {most}), COUNT(*) FROM ({per}) AS g")
        return row[0], row[1]

    def count_cut(self, table: str, column: str) -> tuple[int, int]:
        """Return how many values lie beyond a column's declared bounds, and how many numbers there are.

        Both are of the rows with a unit.
        """
        stated = self._reader(table).table.bounds[column]
        sql_type = next(kind for name, kind in self.readers[table].columns if fold(name) == fold(column))
        held = fit_bounds(stated, sql_type, "")
        there, written = self.number("v", sql_type)
        low, high = map(written, (held.low, held.high))
        row = self.fetch_of(
            self._owned_rows(table).select_values(column),
            f"COUNT(*) FILTER (WHERE v < {low} OR v > {high}) AS n0, COUNT(*) AS n1",
            f" WHERE {there}",
        )[0]
        return row[0], row[1]

    def _owned_rows(self, table: str) -> OwnedRows:
        return OwnedRows(self.readers, self.domains, table)

    def _find_unit(self, table: str) -> tuple[str, str]:
        """Return the expression of the unit of a table's rows, and the FROM item in which it stands."""
        return self._path(self.readers[table].table.unit, self.rows(table, "c"))

    def _find_whole_unit(self, table: str) -> tuple[str, str]:
        """Return the same; where a unit is what one did in one period, as a text of both."""
        person, source = self._find_unit(table)
        unit, at, hop = self.readers[table].table.unit, "c", 0
        while isinstance(unit, UnitVia):
            unit, at, hop = self._reader(unit.table).table.unit, f"p{hop}", hop + 1
        if not isinstance(unit, UnitPeriod):
            return person, source
        first = self.as_text(self._first_day(unit, at))
        return f"COALESCE({first}, '') || '|' || {self.as_text(person)}", source

    def _first_day(self, unit: UnitPeriod, at: str) -> str:
        """Return the SQL expression for the first moment of the period in which a row's date lies."""
        return f"date_trunc('{unit.every}', {at}.{self.quote(unit.date)})"

    def count_periods(self, table: str, unit: UnitPeriod) -> list[tuple[int, int]]:
        """Return in how many periods persons have rows, and how many do; no date is a period as well."""
        person, source = self._find_unit(table)
        period = f"COALESCE({self.as_text(self._first_day(unit, 'c'))}, '')"
        per = f"SELECT COUNT(DISTINCT {period}) AS r FROM {source} WHERE {person} IS NOT NULL"
        rows = self.fetch_all(f"SELECT r, COUNT(*) FROM ({per} GROUP BY {person}) AS g GROUP BY r")
        return [(int(r), int(n)) for r, n in rows]

    def count_beyond_periods(self, table: str) -> int:
        """Return how many rows with a unit have a date that lies in no period that is told apart."""
        rows = self._owned_rows(table).select_beyond_periods()
        return 0 if rows is None else int(self.fetch_of(rows, "COUNT(*) AS n0")[0][0])

    def _path(self, unit: Unit | None, source: str, alias: str = "p") -> tuple[str, str]:
        """Return the expression of the unit of the rows `c` of a FROM item, and the item joined to it.

        Tables of a path are `p0`, `p1`, ..
        """
        at, hop = "c", 0
        while isinstance(unit, UnitVia):
            parent = self._reader(unit.table).table
            there = f"{alias}{hop}"
            own, theirs = f"{at}.{self.quote(unit.via)}", f"{there}.{self.quote(unit.column)}"
            same = f"{self.as_text(own)} = {self.as_text(theirs)}"
            source = f"{source} LEFT JOIN {self.rows(parent.name, there)} ON {same}"
            unit, at, hop = parent.unit, there, hop + 1
        if not isinstance(unit, UnitColumn):
            raise InternalError("the rows of this table are units")
        return f"{at}.{self.quote(unit.column)}", source

    def count_ownerless(self, table: str) -> int:
        """Return how many rows belong to no unit."""
        if not isinstance(self.readers[table].table.unit, UnitColumn | UnitVia):
            return 0
        unit, source = self._find_unit(table)
        return int(self._fetch_one(f"SELECT COUNT(*) FROM {source} WHERE {unit} IS NULL")[0])

    def count_rows_and_units(self, table: str) -> tuple[int, int]:
        """Return how many rows of a table have a unit, and how many units these are."""
        unit, source = self._find_whole_unit(table)
        row = self._fetch_one(f"SELECT COUNT({unit}), COUNT(DISTINCT {unit}) FROM {source}")
        return row[0], row[1]

    def count_disagreeing(self, table: str, other: Unit) -> tuple[int, int]:
        """Count the rows whose unit differs by another way of joining, and the rows with both units.

        Rows that have no unit in the declared way are never counted, and are left out.
        """
        unit, source = self._find_unit(table)
        second, source = self._path(other, source, "s")
        differ = f"{self.as_text(second)} <> {self.as_text(unit)}"
        row = self._fetch_one(
            f"SELECT COUNT(*) FILTER (WHERE {differ}), COUNT(*) FROM {source} "
            f"WHERE {unit} IS NOT NULL AND {second} IS NOT NULL"
        )
        return row[0], row[1]

    def count_shared_values(self, columns: Sequence[tuple[str, str]]) -> tuple[int, int]:
        """Return how many values of columns, taken together, belong to several units, and in how many rows.

        A column is named as its table and its name.
        """
        parts = []
        for table, column in columns:
            unit, source = self._find_unit(table)
            cell = f"c.{self.quote(column)}"
            parts.append(
                f"SELECT {self.as_text(cell)} AS v, {self.as_text(unit)} AS u FROM {source} "
                f"WHERE {unit} IS NOT NULL AND {cell} IS NOT NULL"
            )
        every = " UNION ALL ".join(parts)
        shared = f"SELECT COUNT(*) AS n FROM ({every}) AS a GROUP BY v HAVING COUNT(DISTINCT u) > 1"
        row = self._fetch_one(f"SELECT COUNT(*), COALESCE(SUM(n), 0) FROM ({shared}) AS r")
        return row[0], int(row[1])

    def count_at_days(self, table: str, column: str, first: str, last: str) -> tuple[int, int, int]:
        """Return how many rows with a unit are at the first day, at the last one, and beyond both."""
        unit, source = self._find_unit(table)
        cell = f"c.{self.quote(column)}"
        days = [f"CAST('{day}' AS DATE)" for day in (first, last)]
        listed = ", ".join(
            f"COUNT(*) FILTER (WHERE {condition})"
            for condition in (
                f"{cell} = {days[0]}",
                f"{cell} = {days[1]}",
                f"{cell} < {days[0]} OR {cell} > {days[1]}",
            )
        )
        row = self._fetch_one(f"SELECT {listed} FROM {source} WHERE {unit} IS NOT NULL")
        return row[0], row[1], row[2]

    def count_units(self, kind: str) -> int:
        """Return how many units of a kind there are."""
        return int(self._fetch_one(f"SELECT COUNT(DISTINCT u) FROM ({self._all_units(kind)}) AS r")[0])

    def count_like_units(self, table: str, column: str, kind: str) -> tuple[int, int]:
        """Return how many distinct values a column has, and how many of them are units of a kind."""
        return self._in_both(self._texts(table, column), self._all_units(kind))

    def count_shared(self, table: str, column: str, other: str, theirs: str) -> tuple[int, int]:
        """Return how many distinct values a column has, and how many of them another table's column has."""
        return self._in_both(self._texts(table, column), self._texts(other, theirs))

    def _texts(self, table: str, column: str) -> str:
        return f"SELECT {self.as_text(self.quote(column))} AS u FROM {self.rows(table, 't')}"

    def _in_both(self, own: str, others: str) -> tuple[int, int]:
        """Return how many distinct values a query has, and how many of them another one has, too."""
        first, second = (f"(SELECT DISTINCT u FROM ({each}) AS q)" for each in (own, others))
        row = self._fetch_one(
            f"SELECT COUNT(a.u), COUNT(b.u) FROM {first} AS a LEFT JOIN {second} AS b ON a.u = b.u"
        )
        return row[0], row[1]

    def _all_units(self, kind: str) -> str:
        parts = []
        for name, reader in self.readers.items():
            unit = reader.table.unit
            if isinstance(unit, UnitColumn) and unit.kind == kind:
                parts.append(self._texts(name, unit.column))
        return " UNION ALL ".join(parts)

    def _with_unit(self, table: str) -> str:
        """Write the condition that excludes rows without a unit, which are never counted."""
        unit = self.readers[table].table.unit
        return f" WHERE {self.quote(unit.column)} IS NOT NULL" if isinstance(unit, UnitColumn) else ""

    def _reader(self, table: str) -> Reader:
        return next(reader for name, reader in self.readers.items() if fold(name) == fold(table))

    def _fetch_one(self, sql: str) -> tuple[Any, ...]:
        return self.fetch_all(sql)[0]


class RemoteInspector(ExactQueries):
    """Exact queries over a remote engine's scans, for the owner; no analyst's session makes one."""

    def __init__(self, engine: RemoteEngine, words: Callable[[BaseException], str]) -> None:
        self._engine = engine
        self._words = words
        self.readers = engine.readers
        self.domains = engine.schema_database.domains

    def close(self) -> None:
        """Close the connections to the data."""
        self._engine.close()

    def rows(self, table: str, alias: str) -> str:
        """Write a declared table as an item of FROM."""
        reader, dialect = self._reader(table), self._engine.dialect
        text, columns = self._engine.scans[reader.table.name]
        listed = ", ".join(
            f"s.{dialect.quote(columns[name].name)} AS {self.quote(name)}" for name, _ in reader.columns
        )
        return f"(SELECT {listed} FROM {text} AS s) AS {alias}"

    def quote(self, name: str) -> str:
        """Write the name of a column."""
        return self._engine.dialect.quote(fold(name))

    def as_text(self, cell: str) -> str:
        """Write a value as text: a wrong policy may compare columns of different types."""
        return f"CAST({cell} AS {self._engine.dialect.type_name(VARCHAR)})"

    def number(self, cell: str, sql_type: SqlType) -> tuple[str, Callable[[object], str]]:
        """Write that a value is a number, and return what writes a bound of its type."""
        word = self._engine.dialect.type_name(sql_type.held)
        there = f"{cell} <> CAST('NaN' AS {word})" if sql_type == DOUBLE else f"{cell} IS NOT NULL"
        return there, lambda end: f"CAST('{end}' AS {word})"

    def read(self, table: str) -> tuple[int, dict[str, int]]:
        """Read every column once; return the rows, and of each column the values that are read as NULL."""
        reader = self.readers[table]
        raw = self._fetch_one(f"SELECT {self._counts(list(reader.cells))} FROM {reader.scan}")
        text, columns = self._engine.scans[table]
        names = [columns[name].name for name, _ in reader.columns]
        cells = [f"s.{self._engine.dialect.quote(name)}" for name in names]
        every = f"SELECT {self._engine.checksum(cells)} AS x, {self._counts(cells)} FROM {text} AS s"
        _, rows, *there = self._fetch_one(every)
        lost = (before - after for before, after in zip(raw[1:], there, strict=True))
        return rows, dict(zip((name for name, _ in reader.columns), lost, strict=True))

    def _counts(self, cells: list[str]) -> str:
        return ", ".join(["COUNT(*) AS n", *(f"COUNT({cell}) AS n{i}" for i, cell in enumerate(cells))])

    def find_unreadable(self, table: str) -> dict[str, str]:
        """Read each column separately; return those that cannot be read, with the engine's error texts."""
        problems = {}
        text, columns = self._engine.scans[table]
        for name, _ in self.readers[table].columns:
            cell = f"s.{self._engine.dialect.quote(columns[name].name)}"
            try:
                self._fetch_one(f"SELECT {self._engine.checksum([cell])} AS x FROM {text} AS s")
            except UnreadableError as problem:
                problems[name] = str(problem)
        return problems

    def fetch_all(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query; raises `UnreadableError`."""
        return self._run(Translated(sql, (), ()))

    def fetch_of(self, rows: Select, listed: str, tail: str = "") -> list[tuple[Any, ...]]:
        """Select a list of expressions from a query's rows `r`; raises `UnreadableError`."""
        engine = self._engine
        try:
            made = write(rows, engine.dialect, engine.schema_database, engine.private, {})
        except Untranslatable as problem:
            raise UnreadableError(problem.message) from None
        return self._run(Translated(f"SELECT {listed} FROM ({made.sql}) AS r{tail}", (), made.public))

    def _run(self, statement: Translated) -> list[tuple[Any, ...]]:
        words: list[str] = []
        with self._engine.connection() as connection:

            def work() -> pa.Table | None:
                try:
                    return self._engine.fetch(connection, statement)
                except Exception as problem:  # noqa: BLE001  drivers have no common class of errors
                    words.append(self._words(problem))
                    return None

            rows = run_in_thread(
                work,
                lambda: self._engine.stop(connection),
                self._engine.is_interrupt,
                UNCHARGED,
                self._engine.timeout,
            )
            if rows is None:
                self._engine.discard(connection)
        if rows is None:
            raise UnreadableError(words[0] if words else "it took longer than the policy's timeout")
        return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
