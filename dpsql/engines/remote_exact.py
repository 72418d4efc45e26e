"""Exact queries of the owner on PostgreSQL and Spark: they run there, and numbers come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from dpsql.engines.exact import ExactQueries, UnreadableError
from dpsql.engines.protocol import UNCHARGED
from dpsql.engines.remote import RemoteEngine
from dpsql.engines.worker import run
from dpsql.engines.writer import Translated, Untranslatable, write
from dpsql.kernel.tree import Select
from dpsql.policy import fold
from dpsql.types import DOUBLE, VARCHAR, SqlType


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

    def unreadable(self, table: str) -> dict[str, str]:
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

            rows = run(
                work,
                lambda: self._engine.stop(connection),
                self._engine.interrupted,
                UNCHARGED,
                self._engine.timeout,
            )
            if rows is None:
                self._engine.discard(connection)
        if rows is None:
            raise UnreadableError(words[0] if words else "it took longer than the policy's timeout")
        return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
