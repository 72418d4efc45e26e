"""The private engine on DuckDB: the owner's data, locked down, queried for counts only."""

from __future__ import annotations

import threading
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import duckdb
import numpy as np

from dpsql.analysis import CompiledQuery, check_sealed, quote
from dpsql.analysis.compiled_query import confirm
from dpsql.engines.declared_domains import Domains, OwnedRows, count_rows, select_several
from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.duckdb.faster_counts import FewGroups, UnitRows
from dpsql.engines.duckdb.source_files import csv_format_of, is_well_quoted
from dpsql.engines.duckdb.table_readers import Reader, read_sources
from dpsql.engines.duckdb.unit_bits import UnitBits, integer_unit
from dpsql.engines.process_storage import Scratch
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.errors import EngineNotTested, InternalError, OperationalError, PolicyError
from dpsql.kernel.charged_work import CANCELLED, FAILED, UNCHARGED
from dpsql.kernel.counts import Counts
from dpsql.kernel.faster import UnitFacts
from dpsql.kernel.filled_domains import FilledDomain
from dpsql.kernel.ledger.limits import OwnerProcess
from dpsql.kernel.rows_first import KeptFew
from dpsql.kernel.tree import duckdb_sql
from dpsql.policy import CsvSource, UnitColumn

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from numpy.typing import NDArray

    from dpsql.policy import Policy

_Result = TypeVar("_Result")

_WHY = "the owner runs `dpsql check`, which tells why"

_DROPPED = "§offset"
"""A column beside those of a table: their names are ASCII."""

_FIRST, _SECOND, _SCHEMA = Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)
"""How the databases of an engine share its memory: most statements run in the one that is opened first."""


FILLS_DOMAINS = True
"""Whether the groups without rows of ranges are filled in; tests set it."""
_INCOMPLETE = 1000
"""How many faster texts an engine remembers not to run again."""
_ROWS = 1_000_000
_LONG_ROWS = 4096
"""Rows of one Arrow array; texts of one array may have 2 GiB together, and keys have up to 384 KiB each.

An array that holds more makes the statement fail, and how much it would hold depends on private rows.
"""


class DuckDBEngine:
    """The private engine on DuckDB: opens the sources, and counts in a locked-down database."""

    def __init__(
        self,
        policy: Policy,
        memory: int | None = None,
        *,
        background: bool = False,
        version: Callable[[str], object] = lambda table: None,
    ) -> None:
        """Open the data; together the databases take at most `memory` bytes (None: the engine's limits).

        In the `background` their threads give way to others. `version` is that of `open_engine`.
        """
        self._background = background
        self._policy = policy
        self._memory = memory
        self._owner_process = OwnerProcess("engine")
        self.readers: dict[str, Reader] = {}
        self.public: dict[str, pa.Table] = {}
        self._within_limit: set[str] = set()
        # Faster texts that did not have all numbers: those of the same data never will.
        self._incomplete: set[str] = set()
        self._spill = Scratch()
        self._lock = threading.RLock()
        # By whether the optimizer may use column statistics, a setting of a whole database. The first one is
        # that for most statements, the other is opened when first used.
        self._opened: dict[bool, duckdb.DuckDBPyConnection] = {}
        self._open(None)
        self.schema_database = SchemaDatabase(
            self.readers, self.public, self.domains, self._share(_SCHEMA), policy.time_zone
        )
        self._bits = UnitBits(policy, self.readers, self.schema_database, self._share(_SECOND))
        self._few = FewGroups(policy, self.schema_database, self._bits)
        self._rows = UnitRows(policy, self.schema_database, version, self._share(_SECOND))

    def _connection(self, *, counts_only: bool) -> duckdb.DuckDBPyConnection:
        """Return the database for queries of counts only, or the one for all other queries."""
        with self._lock:
            if counts_only not in self._opened:
                self._open(counts_only)
            return self._opened[counts_only]

    def _open(self, statistics: bool | None) -> None:
        """Open a database, with column statistics or without; None: where a table can be read with them."""
        connection = None
        with suppress(duckdb.Error):
            connection = duckdb_settings.connect(background=self._background)
        if connection is None:
            raise OperationalError("the engine cannot be started with its settings pinned")
        failed = False
        try:
            catalog = self._attach(connection)
            self.readers = read_sources(connection, self._policy, catalog, self._spill.path)
            self.domains = Domains(self._policy, self.readers)
            paths: list[Path] = []
            for name, reader in self.readers.items():
                paths += reader.paths
                if reader.table.public:
                    connection.execute(f"CREATE TABLE main.{quote(name)} AS {reader.sql}")
                    self.public[name] = connection.sql(f"SELECT * FROM main.{quote(name)}").to_arrow_table()
                else:
                    connection.execute(f"CREATE VIEW main.{quote(name)} AS {self._scan(name)}")
            self.domains.create(connection)
            if statistics is None:
                statistics = not all(r.converted for r in self.readers.values() if not r.table.public)
            memory = self._share(_SECOND if self._opened else _FIRST)
            duckdb_settings.lock(connection, paths, self._spill.path, statistics=statistics, memory=memory)
        except duckdb.Error:
            failed = True
        except BaseException:
            connection.close()
            raise
        if failed:
            connection.close()
            raise PolicyError("the declared sources cannot be opened", hint=_WHY)
        assert statistics is not None  # noqa: S101  it was found from the sources
        self._opened[statistics] = connection

    def _share(self, part: Fraction) -> int | None:
        return None if self._memory is None else int(self._memory * part)

    def _attach(self, connection: duckdb.DuckDBPyConnection) -> str | None:
        path = self._policy.database
        if path is None:
            return None
        catalog = f"own_{id(self):x}"
        with suppress(duckdb.Error):
            connection.execute(f"ATTACH '{str(path).replace(chr(39), chr(39) * 2)}' AS {catalog} (READ_ONLY)")
            return catalog
        raise PolicyError("database.path: not a DuckDB database that can be opened for reading", hint=_WHY)

    def count(self, compiled: CompiledQuery) -> Counts:
        """Run a compiled query in a worker thread, so that Ctrl-C stops it at once."""
        check_sealed(compiled)
        counts_only = self._counts_only(compiled)

        def fetch(cursor: duckdb.DuckDBPyConnection, sql: str) -> pa.Table | dict[str, NDArray[np.int64]]:
            if compiled.keys or compiled.places:
                return cursor.sql(sql).to_arrow_table(_batch_rows(compiled))
            # A relation is planned twice, which takes longer than to copy a few numbers.
            return cursor.execute(sql).fetchnumpy()

        def try_texts(cursor: duckdb.DuckDBPyConnection) -> dict[str, NDArray[np.int64]] | Counts | None:
            for sql, cell in texts:
                self._incomplete.add(sql)  # so it is if the text fails, or the statement's time ends it
                if (found := _count_faster(cursor, sql, cell, compiled.counts)) is not None:
                    self._incomplete.discard(sql)
                    return found
            return None if filled is None else _fill_domain(cursor, filled, compiled)

        if len(self._incomplete) > _INCOMPLETE:
            self._incomplete.clear()
        filled = FilledDomain.of(compiled.certificate) if FILLS_DOMAINS else None
        rows: pa.Table | dict[str, NDArray[np.int64]] | Counts | None
        rows = self._bits.count(compiled, self._attempt, fetch, filled, counts_only=counts_only)
        if rows is None:
            rows = self._rows.count(compiled, self._attempt, fetch)
        if rows is None and filled is not None and not self._binds(filled):
            filled = None
        texts = [(sql, cell) for sql, cell in compiled.faster if sql not in self._incomplete]
        if rows is None and (texts or filled is not None):
            rows = self._attempt(try_texts, counts_only=counts_only)
        if rows is None:
            rows = self._run(lambda cursor: fetch(cursor, compiled.sql), CANCELLED, counts_only=counts_only)
        if rows is None:
            raise OperationalError(FAILED)
        return rows if isinstance(rows, Counts) else _seal_counts(rows, compiled)

    def _binds(self, filled: FilledDomain) -> bool:
        """Whether the engine's binder understands the text of a domain's groups as it is meant."""
        try:
            confirm(self.schema_database, filled.text, self._policy)
        except (EngineNotTested, InternalError):
            return False
        return True

    def count_few(
        self, compiled: CompiledQuery, check: Callable[[], None], kept: KeptFew | None = None
    ) -> Counts | None:
        """Count the rows of each group, and units where they are asked for; None: `count` takes no longer."""
        check_sealed(compiled)
        return self._few.count(
            compiled,
            self._attempt,
            lambda cursor, sql: cursor.sql(sql).to_arrow_table(_batch_rows(compiled)),
            lambda: self.count(compiled),
            check,
            kept,
            counts_only=self._counts_only(compiled),
        )

    def _counts_only(self, compiled: CompiledQuery) -> bool:
        """Whether nothing computes from private values, not even a scan of a table."""
        scanned = (self.readers[table] for table in compiled.tables)
        return compiled.counts_only and not any(r.converted for r in scanned if not r.table.public)

    def _run(
        self, work: Callable[[duckdb.DuckDBPyConnection], _Result], cancelled: str, *, counts_only: bool
    ) -> _Result | None:
        """Run work on a cursor of its own; return its result, or None if it failed."""
        self._owner_process.check()
        result = duckdb_settings.run_on_cursor(
            lambda: self._connection(counts_only=counts_only), work, cancelled
        )
        if result is None:
            self._reopen()
        return result

    def _attempt(
        self, work: Callable[[duckdb.DuckDBPyConnection], _Result], *, counts_only: bool
    ) -> _Result | None:
        """Run work whose errors are none of the statement's: return None, and the statement goes on.

        A cancellation and the end of the statement's time are no errors of the work; they end it.
        """

        def guarded_work(cursor: duckdb.DuckDBPyConnection) -> tuple[_Result | None, bool]:
            try:
                return work(cursor), False
            except duckdb.InterruptException:
                raise
            except Exception as error:  # noqa: BLE001  of any library, at any place
                return None, isinstance(error, (duckdb.FatalException, duckdb.InternalException))

        found = self._run(guarded_work, CANCELLED, counts_only=counts_only)
        if found is None:
            raise OperationalError(FAILED)
        if found[1]:
            self._reopen()
        return found[0]

    def translate(self, compiled: CompiledQuery) -> str:
        """Return the SQL that `count` runs: the compiled query itself."""
        return compiled.sql

    def _scan(self, table: str) -> str:
        reader = self.readers[table]
        return reader.unlimited_sql if table in self._within_limit else reader.sql

    def is_current(self, compiled: CompiledQuery) -> bool:
        """Whether the tables of a query are as they were when it was translated; asked before a charge.

        Files have stamps, which are compared beside it.
        """
        return True

    def within_length_limit(self, table: str) -> bool:
        """Whether `vet` found no value of a private table beyond the length limit: its scan need not test."""
        return table in self._within_limit

    def assume_within_length_limit(self, table: str, short: bool) -> None:
        """Set the result of `within_length_limit` from an earlier `vet`; it affects speed only."""
        with self._lock:
            if short == (table in self._within_limit):
                return
            (self._within_limit.add if short else self._within_limit.discard)(table)
            try:
                for connection in self._opened.values():
                    with connection.cursor() as cursor:
                        cursor.execute(f"CREATE OR REPLACE VIEW main.{quote(table)} AS {self._scan(table)}")
            except duckdb.Error:
                self._reopen()

    def vet(self, table: str) -> bool:
        """Read every column once and test every fact, so that no statement is the first to fail."""
        self.assume_within_length_limit(table, short=False)  # every query here reads what the limit leaves
        reader = self.readers[table]
        wrong = " OR ".join(
            ["FALSE", *(invalid_timestamp(c) for c, sql_type in reader.columns if sql_type.moment)]
        )
        over_limit = " OR ".join(["FALSE", *reader.over_limit.values()])
        # An engine drops the offset of a text that it reads as a time without a zone.
        dropped = " OR ".join(["FALSE", *reader.offsets.values()])
        scanned = reader.with_cells({_DROPPED: dropped})
        hashed = [f"bit_xor(hash({quote(column)}))" for column, _ in reader.columns]
        wrong = f"{wrong} OR {quote(_DROPPED)}"
        column = integer_unit(reader)
        ends = [] if column is None else [f"{name}({quote(column[0])})" for name in ("MIN", "MAX")]
        cells = ", ".join([f"bool_or({wrong})", f"bool_or({over_limit})", "COUNT(*)", *ends, *hashed])
        unit = reader.table.unit
        owned_only = f" WHERE {quote(unit.column)} IS NOT NULL" if isinstance(unit, UnitColumn) else ""

        def work(cursor: duckdb.DuckDBPyConnection) -> tuple[bool, bool]:
            if isinstance(reader.table.source, CsvSource):
                delimiter = csv_format_of(reader.table).delimiter
                if not all(is_well_quoted(path, delimiter) for path in reader.paths):
                    return False, False
            row = cursor.execute(f"SELECT {cells} FROM ({scanned}) AS r").fetchall()[0]
            held = not row[0]
            if ends:
                self._bits.keep(table, UnitFacts.of(*row[2:5]))
            for fact in reader.table.unique:
                listed = ", ".join(quote(c) for c in fact)
                rows = f"({reader.sql}) AS r{owned_only}"
                repeated = f"SELECT 1 FROM {rows} GROUP BY {listed} HAVING COUNT(*) > 1 LIMIT 1"
                held = held and not cursor.execute(repeated).fetchall()
            owned = OwnedRows(self.readers, self.domains, table)
            if held and reader.table.not_null:
                there = cursor.execute(duckdb_sql(owned.select_counts(reader.table.not_null))).fetchall()[0]
                held = len(set(there)) == 1
            for query in owned.select_violations():
                held = held and cursor.execute(duckdb_sql(count_rows(query))).fetchall() == [(0,)]
            return held, row[1] is not True

        held, short = self._run(work, UNCHARGED, counts_only=not reader.converted) or (False, False)
        self.assume_within_length_limit(table, held and short)
        return held

    def has_one_value(self, table: str, column: str) -> bool:
        """Whether all rows of a unit have one value in a column, or NULL in all; also False if that fails."""
        reader = self.readers[table]
        unit = reader.table.unit
        if not isinstance(unit, UnitColumn):
            return True
        sql = select_several(f"({reader.sql})", quote(unit.column), quote(column))
        found = self._run(lambda cursor: cursor.execute(sql).fetchall(), UNCHARGED, counts_only=False)
        return found == [(0,)]

    def read_part_values(self, table: str, unit: str, column: str, *, dates: bool) -> pa.Table | None:
        """Return the units of a table as texts, each with the day or text of a column; None if that fails."""
        reader = self.readers[table]
        kind = "DATE" if dates else "VARCHAR"
        cell, day = f"CAST({quote(unit)} AS VARCHAR)", f"TRY_CAST({quote(column)} AS {kind})"
        rows = f"({reader.sql}) AS r WHERE {quote(unit)} IS NOT NULL"
        sql = f"SELECT DISTINCT {cell} AS u, {day} AS d FROM {rows}"

        def work(cursor: duckdb.DuckDBPyConnection) -> pa.Table:
            return cursor.sql(sql).to_arrow_table()

        return self._run(work, UNCHARGED, counts_only=not reader.converted)

    def _reopen(self) -> None:
        """Open the databases again when they are next used: some engine errors leave them unusable.

        Statements of others go on: a database stays open until its last cursor is closed.
        """
        with self._lock:
            self._opened = {}
            self._rows.forget()

    def close(self) -> None:
        """Close the connections to the data."""
        with self._lock:
            for connection in self._opened.values():
                with suppress(duckdb.Error):  # after a second Ctrl-C, a statement may still run
                    connection.close()
        self.schema_database.close()
        self._spill.remove()


def invalid_timestamp(column: str) -> str:
    """Return the condition for an invalid TIMESTAMP, on which some functions of the engine fail.

    A file can have values below the engine's least timestamp that are not minus infinity.
    """
    least = "TIMESTAMP '290309-12-22 (BC) 00:00:00'"
    return f"({quote(column)} < {least} AND {quote(column)} <> TIMESTAMP '-infinity')"


def _count_faster(
    cursor: duckdb.DuckDBPyConnection, sql: str, cell: int, counts: int
) -> dict[str, NDArray[np.int64]] | None:
    """Return the numbers of a faster text; None if some are of this cell or a greater one, or if it fails."""
    try:
        found = cursor.execute(sql).fetchnumpy()
    except (duckdb.InterruptException, duckdb.FatalException, duckdb.InternalException):
        raise
    except duckdb.Error:
        return None
    made = [each for each in found.values() if type(each) is np.ndarray and each.dtype == np.int64]
    return found if len(made) == len(found) == counts and not (found["n0"] >= cell).any() else None


def _fill_domain(
    cursor: duckdb.DuckDBPyConnection, filled: FilledDomain, compiled: CompiledQuery
) -> Counts | None:
    """Return the counts of a domain of which the engine has the groups with rows; None if some lack."""
    rows = cursor.execute(filled.text).fetchnumpy()
    return filled.seal_counts(rows, None if compiled.order is None else compiled.order.terms)


def _batch_rows(compiled: CompiledQuery) -> int:
    return _LONG_ROWS if any(kind.name in ("VARCHAR", "BLOB") for kind in compiled.keys) else _ROWS


def _seal_counts(rows: pa.Table | dict[str, NDArray[np.int64]], compiled: CompiledQuery) -> Counts:
    """Seal what a query has returned."""
    order = None if compiled.order is None else compiled.order.terms
    if isinstance(rows, dict):
        found = Counts.of_numbers(rows, compiled.counts, compiled.certificate, order)
    else:
        keys, places = len(compiled.keys), compiled.places
        found = Counts.of_table(rows, keys, compiled.counts, places, compiled.certificate, order)
    if found is None:
        raise OperationalError(FAILED)
    return found
