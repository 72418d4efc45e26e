"""The base class of engines other than DuckDB: schema database, translation, and reading of counts.

A subclass connects to the other system and finds tables in its catalog; the writer translates each compiled
query into its SQL. Public tables, also those that are files, are read once and held by the schema database.
"""

from __future__ import annotations

import re
import tempfile
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import duckdb
import numpy as np
import pyarrow as pa

from dpsql.analysis import CompiledQuery, check_sealed, quote
from dpsql.engines.declared_domains import Domains, OwnedRows, count_rows, select_several
from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.duckdb.table_readers import Reader, read_source
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.engines.worker import run_in_thread
from dpsql.engines.writer import (
    Dialect,
    PublicRelation,
    TargetColumn,
    Translated,
    Untranslatable,
    translate,
    write,
)
from dpsql.errors import InternalError, OperationalError, PolicyError
from dpsql.kernel.charged_work import CANCELLED, FAILED, UNCHARGED
from dpsql.kernel.counts import Counts
from dpsql.kernel.ledger.limits import OwnerProcess
from dpsql.kernel.rows_first import KeptFew
from dpsql.kernel.tree import Query
from dpsql.kernel.unit_parts import FIRST_DAY, LAST_DAY
from dpsql.policy import CsvSource, DatabaseSource, ParquetSource, Policy, Table, UnitColumn, UnitPeriod, fold
from dpsql.types import SqlType

_CACHE_SIZE = 16
"""The most translated statements, and the most public relations, that are cached."""


PLANNING_SECONDS = 30
"""The most seconds for which an engine plans a statement; what is accepted takes one at most."""

_Connection = Any
"""What runs one statement at a time, and is stopped alone: a connection, or the tag of a statement."""


Scanned = tuple[str, dict[str, TargetColumn]]
"""The text of a table, and its columns."""


def with_periods(table: Table, scan: Scanned) -> Scanned:
    """Return a scan that tells in which years the dates of periods lie, which `vet` tests."""
    text, columns = scan
    if not isinstance(table.unit, UnitPeriod):
        return scan
    date, years = fold(table.unit.date), (FIRST_DAY.year, LAST_DAY.year)
    told = {n: replace(c, value_range=years) if fold(n) == date else c for n, c in columns.items()}
    return text, told


class RemoteEngine(ABC):
    """A private engine on another database system; subclasses implement its connection and catalog."""

    schema_database: SchemaDatabase
    local_files = False
    """Whether the engine reads private Parquet files. If not, files may hold public tables only."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._owner_process = OwnerProcess("engine")
        self._translating = threading.RLock()
        self._translations: OrderedDict[str, Translated] = OrderedDict()
        self._public_relations: dict[str, PublicRelation] = {}
        self.readers: dict[str, Reader] = {}
        self.public: dict[str, pa.Table] = {}
        self._scans: dict[str, tuple[str, dict[str, TargetColumn]]] = {}
        self._private = frozenset(t.name for t in policy.tables.values() if not t.public)

    @property
    @abstractmethod
    def dialect(self) -> Dialect:
        """The dialect of the engine, with the scans of the tables found."""

    @abstractmethod
    def introspect(self, table: Table) -> tuple[Reader, tuple[str, dict[str, TargetColumn]]]:
        """Find a table in the engine's catalog, and write its scan; raises `PolicyError`. No row is read."""

    @abstractmethod
    def bind(self, statement: Translated) -> None:
        """Let the engine plan a statement without reading rows; raises `Untranslatable` if it cannot."""

    @abstractmethod
    def connection(self) -> AbstractContextManager[_Connection]:
        """Reserve a connection for one statement."""

    @abstractmethod
    def fetch(self, connection: _Connection, statement: Translated) -> pa.Table:
        """Run a statement. It is called in a worker thread and may raise any exception."""

    @abstractmethod
    def stop(self, connection: _Connection) -> None:
        """Stop the statement that a connection runs."""

    @abstractmethod
    def discard(self, connection: _Connection) -> None:
        """Let nobody use a connection again, since a statement failed on it."""

    @abstractmethod
    def is_interrupt(self, error: BaseException) -> bool:
        """Whether an error is the engine's report that a statement was interrupted."""

    @abstractmethod
    def checksum(self, cells: list[str]) -> str:
        """Write an aggregate that reads every value of some columns."""

    @abstractmethod
    def show(self, statement: Translated) -> str:
        """Return a statement's SQL for display, without public rows."""

    @abstractmethod
    def disconnect(self) -> None:
        """Close the connections that no statement uses."""

    @property
    def scans(self) -> Mapping[str, tuple[str, dict[str, TargetColumn]]]:
        """The SELECT that reads each table that the engine holds, and its columns by declared name."""
        return self._scans

    @property
    def private(self) -> frozenset[str]:
        """The names of the private tables."""
        return self._private

    @property
    def timeout(self) -> int:
        """The seconds after which the engine stops a statement."""
        return self._policy.timeout

    def close(self) -> None:
        """Close the connections to the data."""
        self.disconnect()
        self.schema_database.close()

    def open_tables(self) -> None:
        """Find all tables, and make the schema database with them; called once the server is connected."""
        try:
            self._open_tables()
        except BaseException:
            self.disconnect()
            raise
        self.schema_database = SchemaDatabase(
            self.readers, self.public, Domains(self._policy, self.readers), None, self._policy.time_zone
        )

    def _open_tables(self) -> None:
        for table in self._policy.tables.values():
            source = table.source
            if isinstance(source, DatabaseSource) or (
                self.local_files
                and isinstance(source, ParquetSource)
                and source.parts is None
                and not table.public
            ):
                reader, scan = self.introspect(table)
                self._scans[table.name] = with_periods(table, scan)
                self.readers[table.name] = reader
                if table.public:
                    self.public[table.name] = self._read(table.name, reader)
            elif table.public:
                self.readers[table.name], self.public[table.name] = _read_public_file(table)
            else:
                what = "CSV" if isinstance(source, CsvSource) else "Parquet"
                files = f"a local {what} file" if source.parts is None else f"local {what} files by a pattern"
                raise PolicyError(
                    f"tables.{table.name}.source: {self.dialect.name} does not read {files}",
                    hint='write source = "schema.table", a table of the engine; public tables may be files',
                )

    def _read(self, name: str, reader: Reader) -> pa.Table:
        """Read all rows of a public table with their declared types."""
        text, columns = self._scans[name]
        listed = ", ".join(
            f"r.{self.dialect.quote(columns[c].name)} AS c{i}" for i, (c, _) in enumerate(reader.columns)
        )
        types = tuple(TargetColumn(f"c{i}", sql_type.held) for i, (_, sql_type) in enumerate(reader.columns))
        statement = Translated(f"SELECT {listed} FROM {text} AS r", types, ())
        rows = self._rows(statement, UNCHARGED)
        if rows is None:
            raise PolicyError(f"tables.{name}.source: cannot be read as declared")
        return _cast_to_declared(rows, [k for _, k in reader.columns]).rename_columns(
            [c for c, _ in reader.columns]
        )

    def translate(self, compiled: CompiledQuery) -> str:
        """Return the SQL that the engine will run, for display; raises `Untranslatable` before any charge."""
        return self.show(self._translate(compiled))

    def _translate(self, compiled: CompiledQuery) -> Translated:
        if not isinstance(compiled, CompiledQuery):
            raise InternalError("an engine counts compiled queries alone")
        with self._translating:
            found = self._translations.get(compiled.sql)
            if found is not None:
                return found
            statement = translate(
                compiled, self.dialect, self.schema_database, self._private, self._public_relations
            )
            while len(self._public_relations) > _CACHE_SIZE:
                del self._public_relations[next(iter(self._public_relations))]
        self.bind(statement)  # others are translated and planned meanwhile
        with self._translating:
            self._translations[compiled.sql] = statement
            while len(self._translations) > _CACHE_SIZE:
                self._translations.popitem(last=False)
        return statement

    def count_few(
        self, compiled: CompiledQuery, check: Callable[[], None], kept: KeptFew | None = None
    ) -> Counts | None:
        """Return None: the engine counts all groups at once."""
        del compiled, check, kept
        return None

    def count(self, compiled: CompiledQuery) -> Counts:
        """Run a compiled query; every engine error becomes one constant `OperationalError`."""
        check_sealed(compiled)
        try:
            statement = self._translate(compiled)
        except Untranslatable as problem:
            raise OperationalError(problem.message) from None
        rows = self._run(statement)
        width = len(compiled.keys)
        if rows.num_columns != width + compiled.counts + len(compiled.places):
            raise OperationalError(FAILED)
        keys = _cast_to_declared(rows.select(range(width)), list(compiled.keys))
        numbers = [np.asarray(column.to_numpy(), dtype=np.int64) for column in rows.columns[width:]]
        places = dict(zip(compiled.places, numbers[compiled.counts :], strict=True))
        keys = keys.rename_columns([f"k{i}" for i in range(width)])
        order = None if compiled.order is None else compiled.order.terms
        return Counts.of(keys, numbers[: compiled.counts], compiled.certificate, order, places)

    def _run(self, statement: Translated) -> pa.Table:
        rows = self._rows(statement, CANCELLED)
        if rows is None:
            raise OperationalError(FAILED)
        return rows

    def _rows(self, statement: Translated, cancelled: str) -> pa.Table | None:
        """Return the rows of a statement, or None if it failed."""
        self._owner_process.check()
        with self.connection() as connection:
            rows = run_in_thread(
                lambda: self.fetch(connection, statement),
                lambda: self.stop(connection),
                self.is_interrupt,
                cancelled,
                self._policy.timeout,
            )
            if rows is None:
                self.discard(connection)
            return rows

    def has_one_value(self, table: str, column: str) -> bool:
        """Whether all rows of a unit have one value in a column, or NULL in all; also False if that fails."""
        reader, (text, columns) = self.readers[table], self._scans[table]
        unit = reader.table.unit
        if not isinstance(unit, UnitColumn):
            return True
        names = {fold(name): self.dialect.quote(columns[name].name) for name, _ in reader.columns}
        sql = select_several(text, names[fold(unit.column)], names[fold(column)])
        rows = self._rows(Translated(sql, (), ()), UNCHARGED)
        return rows is not None and rows.column(0)[0].as_py() == 0

    def read_part_values(self, table: str, unit: str, column: str, *, dates: bool) -> NoReturn:
        """Raise `InternalError`: a policy over this engine does not ask for it."""
        raise InternalError("versions of these data are not compared")

    def vet(self, table: str) -> bool:
        """Read every column once and test every fact, so that no statement is the first to fail."""
        reader, (text, columns) = self.readers[table], self._scans[table]
        q = self.dialect.quote
        names = {name: f"r.{q(columns[name].name)}" for name, _ in reader.columns}
        unit = reader.table.unit
        lowered = {name.lower(): cell for name, cell in names.items()}
        there = f" WHERE {lowered[unit.column.lower()]} IS NOT NULL" if isinstance(unit, UnitColumn) else ""
        checks = [f"SELECT {self.checksum(list(names.values()))} AS n0 FROM {text} AS r"]
        for fact in reader.table.unique:
            listed = ", ".join(lowered[c.lower()] for c in fact)
            repeated = f"SELECT 1 AS x FROM {text} AS r{there} GROUP BY {listed} HAVING COUNT(*) > 1"
            checks.append(f"SELECT COUNT(*) AS n0 FROM ({repeated}) AS f")
        for i, sql in enumerate(checks):
            rows = self._rows(Translated(sql, (), ()), UNCHARGED)
            if rows is None:
                return False
            if i and rows.column(0)[0].as_py() != 0:
                return False
        owned = OwnedRows(self.readers, self.schema_database.domains, table)
        if reader.table.not_null:
            rows = self._first_row(owned.select_counts(reader.table.not_null))
            if rows is None or len(set(rows)) != 1:
                return False
        return all(self._first_row(count_rows(query)) == [0] for query in owned.select_violations())

    def _first_row(self, query: Query) -> list[object] | None:
        """Return the first row of a query of the private tables, or None if it failed."""
        with self._translating:
            statement = write(
                query, self.dialect, self.schema_database, self._private, self._public_relations
            )
        rows = self._rows(statement, UNCHARGED)
        return None if rows is None else [column[0].as_py() for column in rows.columns]

    def is_current(self, compiled: CompiledQuery) -> bool:
        """Whether the tables of a query are as they were when it was translated; asked before a charge."""
        return True

    def within_length_limit(self, table: str) -> bool:
        """Whether `vet` found no value of a private table beyond the length limit: its scan need not test.

        An engine that knows a stored value's length without reading it tests always.
        """
        return False

    def assume_within_length_limit(self, table: str, short: bool) -> None:  # noqa: B027  nothing to do
        """Set the result of `within_length_limit` from an earlier `vet`; it affects speed only."""


def check_digits(table: Table, physical: list[tuple[str, str]]) -> None:
    """Refuse a DECIMAL of more than 18 digits that the policy does not declare; name a type that is read."""
    if table.columns is not None:
        return
    for name, word in physical:
        found = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", word)
        if found is not None and int(found[1]) > 18:
            raise PolicyError(
                f"tables.{table.name}: column {name} is a number of up to {found[1]} digits, and 18 are read",
                hint=f"declare [tables.{table.name}.columns] with the columns to show, and in it "
                f'{name} = "DECIMAL(18,{min(int(found[2]), 6)})": numbers that do not fit are read as NULL',
            )


def _read_public_file(table: Table) -> tuple[Reader, pa.Table]:
    """Read a public table that is a file, with DuckDB."""
    with duckdb_settings.connect() as connection, tempfile.TemporaryDirectory() as folder:
        reader = read_source(connection, table, None, 0, Path(folder))  # public: without a limit
        with suppress(duckdb.Error):
            return reader, connection.sql(reader.sql).to_arrow_table()
    raise PolicyError(f"tables.{table.name}.source: cannot be read as declared")


def _cast_to_declared(rows: pa.Table, types: list[SqlType]) -> pa.Table:
    """Cast columns to the Arrow types that DuckDB returns for their SQL types."""
    if not types:
        return rows
    with duckdb_settings.interruptible(), duckdb.connect(":memory:") as connection:
        duckdb_settings.switch_off_progress_bar(connection)
        connection.execute("SET preserve_insertion_order = true")
        connection.execute("SET TimeZone = 'UTC'")
        names = [f"c{i}" for i in range(len(types))]
        connection.register("came", rows.rename_columns(names))
        listed = ", ".join(
            f"CAST({quote(n)} AS {k}) AS {quote(n)}" for n, k in zip(names, types, strict=True)
        )
        return connection.sql(f"SELECT {listed} FROM came").to_arrow_table()
