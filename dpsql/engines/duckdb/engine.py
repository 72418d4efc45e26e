"""The private database: the owner's data under a generated name, locked down, asked for counts alone."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import duckdb
import numpy as np

from dpsql.analysis import CompiledQuery, quote
from dpsql.engines.duckdb import settings
from dpsql.engines.duckdb.csv_source import well_quoted
from dpsql.engines.duckdb.domains import Domains
from dpsql.engines.duckdb.sources import Reader, read_sources
from dpsql.engines.protocol import CANCELLED, FAILED, UNCHARGED, Cancelled, Counts
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.engines.scratch import Scratch
from dpsql.engines.worker import Ending, run
from dpsql.errors import InternalError, OperationalError, PolicyError
from dpsql.exclusive import OwnerProcess
from dpsql.policy import CsvSource, UnitColumn
from dpsql.types import TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from numpy.typing import NDArray

    from dpsql.policy import Policy

__all__ = ["DuckDBEngine", "open_duckdb", "out_of_range"]

_Made = TypeVar("_Made")


def open_duckdb(policy: Policy) -> tuple[SchemaDatabase, DuckDBEngine]:
    """Open both databases of a policy: the schema database, and the private one."""
    engine = DuckDBEngine(policy)
    try:
        schema_database = SchemaDatabase(engine.readers, engine.public, engine.domains)
    except BaseException:
        engine.close()
        raise
    return schema_database, engine


class DuckDBEngine:
    """Implements `dpsql.engines.Engine` on DuckDB."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._owner_process = OwnerProcess("engine")
        self.readers: dict[str, Reader] = {}
        self.public: dict[str, pa.Table] = {}
        self._cancelled = False
        self._short: set[str] = set()
        self._spill = Scratch()
        # By whether the optimizer may look at columns' statistics; opened when first used.
        self._opened: dict[bool, duckdb.DuckDBPyConnection] = {}
        self._running = self._connection(counts_only=True)

    @property
    def _con(self) -> duckdb.DuckDBPyConnection:
        return self._connection(counts_only=False)

    def _connection(self, *, counts_only: bool) -> duckdb.DuckDBPyConnection:
        """Return the database for plain statements, or the one for all others."""
        if counts_only not in self._opened:
            self._opened[counts_only] = self._open(statistics=counts_only)
        return self._opened[counts_only]

    def _open(self, *, statistics: bool) -> duckdb.DuckDBPyConnection:
        failed = False
        try:
            connection = settings.connect()
        except duckdb.Error:
            failed = True
        if failed:
            raise OperationalError("the engine cannot be started with its settings pinned")
        try:
            catalog = self._attach(connection)
            self.readers = read_sources(connection, self._policy, catalog)
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
            settings.lock(connection, paths, self._spill.path, statistics=statistics)
        except duckdb.Error:
            failed = True
        except BaseException:
            connection.close()
            raise
        if failed:
            connection.close()
            raise PolicyError("the declared sources cannot be opened", hint="check their paths and types")
        return connection

    def _attach(self, connection: duckdb.DuckDBPyConnection) -> str | None:
        path = self._policy.database
        if path is None:
            return None
        catalog = f"own_{id(self):x}"
        failed = False
        try:
            connection.execute(f"ATTACH '{str(path).replace(chr(39), chr(39) * 2)}' AS {catalog} (READ_ONLY)")
        except duckdb.Error:
            failed = True
        if failed:
            raise PolicyError("database.path: not a DuckDB database that can be opened for reading")
        return catalog

    def count(self, compiled: CompiledQuery) -> Counts:
        """Run the counting SQL in a worker thread, so that Ctrl-C stops it at once."""
        if not isinstance(compiled, CompiledQuery):
            raise InternalError("an engine counts compiled queries alone")
        scanned = (self.readers[table] for table in compiled.tables)
        counts_only = compiled.counts_only and not any(r.converted for r in scanned if not r.table.public)

        def work() -> pa.Table:
            # Opening is part of it: in the main thread a Ctrl-C would look like a failure of the engine.
            self._running = running = self._connection(counts_only=counts_only)
            return running.sql(compiled.sql).to_arrow_table()

        rows = self._run(work, CANCELLED)
        if rows is None:
            raise OperationalError(FAILED)
        return _counts(rows, compiled)

    def _run(self, work: Callable[[], _Made], cancelled: str) -> _Made | None:
        """Return what the work returns; None if it failed, and the databases will be opened afresh."""
        self._owner_process.check()
        self._cancelled = False
        ended = run(work, self.cancel, settings.interrupted, cancelled=lambda: self._cancelled)
        if ended.ending is Ending.INTERRUPTED:
            raise Cancelled(cancelled)
        if ended.ending is Ending.FAILED:
            self._reopen()
        return ended.value

    def translate(self, compiled: CompiledQuery) -> str:
        """Return the text that `count` runs: DuckDB's own, as it was compiled."""
        return compiled.sql

    def _scan(self, table: str) -> str:
        reader = self.readers[table]
        return reader.whole if table in self._short else reader.sql

    def short(self, table: str) -> bool:
        """Whether its scan does without the test of lengths; no answer depends on it."""
        return table in self._short

    def assume_short(self, table: str, short: bool) -> None:
        """See `Engine`."""
        if short == (table in self._short):
            return
        (self._short.add if short else self._short.discard)(table)
        try:
            for connection in self._opened.values():
                connection.execute(f"CREATE OR REPLACE VIEW main.{quote(table)} AS {self._scan(table)}")
        except duckdb.Error:
            self._reopen()

    def vet(self, table: str) -> bool:
        """Read every column once and test every vouched fact, so that no statement is the first to fail."""
        reader = self.readers[table]
        wrong = " OR ".join(["FALSE", *(out_of_range(c) for c, kind in reader.columns if kind == TIMESTAMP)])
        longer = " OR ".join(["FALSE", *reader.beyond.values()])
        hashed = [f"bit_xor(hash({quote(column)}))" for column, _ in reader.columns]
        cells = ", ".join([f"bool_or({wrong})", f"bool_or({longer})", *hashed])
        unit = reader.table.unit
        there = f" WHERE {quote(unit.column)} IS NOT NULL" if isinstance(unit, UnitColumn) else ""

        def work() -> tuple[bool, bool]:
            if isinstance(reader.table.source, CsvSource) and not well_quoted(reader.table.source.path):
                return False, False
            self._running = running = self._connection(counts_only=not reader.converted)
            row = running.execute(f"SELECT {cells} FROM ({reader.whole}) AS r").fetchall()[0]
            held = not row[0]
            for fact in reader.table.unique:
                listed = ", ".join(quote(c) for c in fact)
                rows = f"({reader.sql}) AS r{there}"
                repeated = f"SELECT 1 FROM {rows} GROUP BY {listed} HAVING COUNT(*) > 1 LIMIT 1"
                held = held and not running.execute(repeated).fetchall()
            return held, row[1] is not True

        held, short = self._run(work, UNCHARGED) or (False, False)
        self.assume_short(table, held and short)
        return held

    def _reopen(self) -> None:
        """Have the databases opened afresh: after some engine errors the old ones are no longer usable."""
        for connection in self._opened.values():
            connection.close()
        self._opened.clear()

    def cancel(self) -> None:
        """Stop what runs."""
        self._cancelled = True
        with suppress(duckdb.Error):  # it may be closed
            self._running.interrupt()

    def close(self) -> None:
        """Let go of the data."""
        for connection in self._opened.values():
            connection.close()
        self._spill.remove()


def out_of_range(column: str) -> str:
    """Write the condition for a TIMESTAMP's bits to be none: some of the engine's functions fail on them.

    They are below its least timestamp, and not minus infinity; a file can hold them.
    """
    least = "TIMESTAMP '290309-12-22 (BC) 00:00:00'"
    return f"({quote(column)} < {least} AND {quote(column)} <> TIMESTAMP '-infinity')"


def _counts(table: pa.Table, compiled: CompiledQuery) -> Counts:
    keys = table.select([f"k{i}" for i in range(len(compiled.keys))])
    arrays = tuple(_array(table.column(f"n{i}")) for i in range(compiled.counts))
    if any(len(a) != table.num_rows for a in arrays) or table.num_columns != len(compiled.keys) + len(arrays):
        raise OperationalError(FAILED)
    return Counts(keys, arrays, compiled.order)


def _array(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Read a column of BIGINT without NULL; not by `to_numpy`, which imports pandas where it is installed."""
    # Each chunk is read in place, and refused if it holds a NULL.
    chunks = [np.from_dlpack(chunk) for chunk in column.chunks if len(chunk)]
    return np.concatenate(chunks, dtype=np.int64, casting="no") if chunks else np.zeros(0, dtype=np.int64)
