"""The private engine on Spark: statements, planning with a limit of time, and guards of tables.

``spark_connection`` has its sessions, in this process or over Spark Connect; ``spark_tables`` finds a table,
reads its types, and has what the owner is told; ``spark_sql`` writes its SQL and sends public rows.

Planning: Spark has no limit of time for it, and does not hear a cancel while it plans, so a `Planner` waits
for a limited time. Tables: a `SparkGuard` checks at every statement that a private table is the one that was
opened; unique facts, which Spark does not enforce, are checked against the policy.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa

from dpsql.analysis import CompiledQuery
from dpsql.engines.duckdb.source_schemas import Found, Skipped, is_file
from dpsql.engines.duckdb.table_readers import Reader, declared_columns
from dpsql.engines.remote_engine import PLANNING_SECONDS, RemoteEngine, check_digits
from dpsql.engines.spark.spark_connection import end_session, open_session, suppress_pyspark_warnings
from dpsql.engines.spark.spark_sql import SparkDialect, arrow_rows
from dpsql.engines.spark.spark_tables import (
    SparkCatalog,
    columns_of,
    files_of,
    find_table,
    introspect_spark,
    owner_session,
    padded_columns,
    spark_words,
    table_identity,
    write_scan,
)
from dpsql.engines.writer import TargetColumn, Translated, Untranslatable
from dpsql.errors import OperationalError, PolicyError
from dpsql.kernel.tree import list_tables
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import DatabaseSource, ParquetSource, Policy, Table

_VIEWS = 64
"""The most views of public rows that are kept besides those in use."""
_STATEMENTS = 256
"""The most statements whose tables' versions are kept until they are charged."""
_STOPPED = ("SPARK_JOB_CANCELLED", "OPERATION_CANCELED")
"""Spark's conditions for a job, and over Connect an operation, that was cancelled."""
_MAX_CAUSES = 10
"""The most causes of an error that are examined."""


class Planner:
    """Plans a few statements at once, each in a thread of its own, and waits for each a limited time.

    A thread whose time is over ends when Spark returns. Until then it counts among those that plan, so that
    statements which take long cannot take all of Spark's cores.
    """

    def __init__(self, seconds: float, threads: int = 4) -> None:
        self._seconds = seconds
        self._free = threading.BoundedSemaphore(threads)

    def run(self, work: Callable[[], bool]) -> bool:
        """Return the result of the work; False if it fails, or if its time is over."""
        if not self._free.acquire(timeout=self._seconds):
            return False
        done, results = threading.Event(), [False]

        def body() -> None:
            with suppress(Exception):
                results.append(work())
            self._free.release()
            done.set()

        thread = threading.Thread(target=body, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # there are no more threads
            self._free.release()
            return False
        return done.wait(self._seconds) and results[-1]


@dataclass(frozen=True, slots=True)
class SparkGuard:
    """A private table as the catalog described it when it was opened."""

    table: Table
    view: str
    """The name of the view by which a Parquet file is read."""
    read: tuple[str, ...]
    """The declared columns."""
    found: tuple[object, ...]

    @classmethod
    def of(cls, session: Any, table: Table, view: str, read: list[str]) -> SparkGuard:  # noqa: ANN401  two classes of sessions
        """Describe a table that was just found."""
        made = cls(table, view, tuple(name.lower() for name in read), ())
        return cls(table, view, made.read, made.look(session)[0])

    def check(self, session: Any) -> tuple[object, ...]:  # noqa: ANN401  two classes of sessions
        """Refresh the table and return its version; raise if its definition has changed."""
        seen: tuple[tuple[object, ...], tuple[object, ...]] | None = None
        try:
            seen = self.look(session)
        except Exception:  # noqa: BLE001  its text may have paths, and the rows that Spark stopped at
            seen = None
        if seen is None or seen[0] != self.found:
            raise OperationalError(f"{self._what(seen)}; nothing was charged")
        return seen[1]

    def _what(self, seen: tuple[tuple[object, ...], tuple[object, ...]] | None) -> str:
        """Say what is not as it was when the table was opened, in names of the policy."""
        if seen is None:
            return f"table {self.table.name} is gone or cannot be read (the owner runs `dpsql check`)"
        then, now = dict(self.found[1]), dict(seen[0][1])  # type: ignore[call-overload]
        for name, word in then.items():
            if now.get(name) != word:
                how = "was altered" if name in now else "is gone"
                return f"table {self.table.name}: its column {name} {how} since it was opened"
        return f"table {self.table.name} was replaced since it was opened (the owner runs `dpsql check`)"

    def look(self, session: Any) -> tuple[tuple[object, ...], tuple[object, ...]]:  # noqa: ANN401  see above
        """Refresh the table; return its name, columns and identity, and its version."""
        name, schema = find_table(session, self.table, self.view)
        columns = tuple((n, word) for n, word in columns_of(schema) if n.lower() in self.read)
        place = table_identity(session, name) if isinstance(self.table.source, DatabaseSource) else ()
        return (name, columns, *place), files_of(session, name)


_NOT_IN_FILES = ("UUID", "TIME", "LIST", "STRUCT", "BLOB")


class SparkOwner:
    """`OwnerTools` of Spark, in this process or over Spark Connect."""

    verified = "exists, types are as declared"

    def __init__(self, address: str) -> None:
        self._address = address

    def introspect(self, wanted: Callable[[str, str], bool | None]) -> tuple[list[Found], list[Skipped]]:
        """Return the tables that a policy may declare, and those left out."""
        return introspect_spark(self._address, wanted)

    def adapt_file(self, table: Found) -> Found:
        """Return a file's table: Spark in this process reads Parquet files; all others are public."""
        if "://" in self._address or not is_file(table.source):
            return table
        columns = tuple(
            replace(column, kind=None)
            if column.whole or (column.kind is not None and column.kind.name in _NOT_IN_FILES)
            else column
            for column in table.columns
        )
        return replace(table, columns=columns, engine=self._address)

    @contextmanager
    def open_catalog(self) -> Iterator[SparkCatalog]:
        """Start or reach Spark; raises an error that holds Spark's own words."""
        with owner_session(self._address) as session:
            yield SparkCatalog(self._address, session)

    def check_policy(self, policy: Policy) -> None:
        """Raise `PolicyError` for a declaration that Spark cannot use."""
        check_facts(policy)

    def describe_error(self, problem: BaseException) -> str:
        """Return Spark's own words, in one line."""
        return spark_words(problem)


def check_facts(policy: Policy) -> None:
    """Raise `PolicyError` if a table could change unnoticed after its unique facts were tested."""
    for table in policy.tables.values():
        seen = (
            isinstance(table.source, ParquetSource) and table.source.path.is_file()
        )  # its content is its version
        if table.unique and not (table.public or seen or table.trust_source or policy.data_version):
            raise PolicyError(
                f"tables.{table.name}.unique: Spark enforces no uniqueness, and tables may change unnoticed",
                hint='declare data_version = "1" and change it whenever rows are added, or remove unique',
            )


class SparkEngine(RemoteEngine):
    """Implements `dpsql.engines.Engine` on Spark; a statement is known to Spark by its tag."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.local_files = "://" not in policy.engine
        self.session: Any = open_session(policy.engine)
        self._lock = threading.RLock()  # one statement runs at a time; others are planned meanwhile
        self._planner = Planner(min(PLANNING_SECONDS, policy.timeout))
        self._views = threading.Lock()
        self._guards: dict[str, SparkGuard] = {}
        self._latest: dict[str, object] = {}
        """The version of each table when it was refreshed last."""
        self._versions: dict[str, dict[str, object]] = {}
        """The versions of the tables of each statement when it was translated."""
        self._numbers = itertools.count()
        self._frames: dict[str, Any] = {}
        """The public rows that are views of the session, by the views' names; those used last come last."""
        self._runs: frozenset[str] = frozenset()
        """The views of the statement that runs."""
        self._bound: tuple[Translated, Any] | None = None
        """The statement that was bound last and has not run yet, with its frame."""
        self.open_tables()

    @property
    def dialect(self) -> SparkDialect:
        """The dialect of the engine, with the scans of the tables found."""
        return SparkDialect(self._scans, self._policy.longest_value, self._policy.timeout)

    def introspect(self, table: Table) -> tuple[Reader, tuple[str, dict[str, TargetColumn]]]:
        """Find a table in the engine's catalog, and write its scan; raises `PolicyError`. No row is read."""
        with suppress_pyspark_warnings():
            view = f"dpsql_source_{next(self._numbers)}"
            name, schema = find_table(self.session, table, view)
        check_facts(self._policy)
        physical = columns_of(schema)
        check_digits(table, physical)
        columns = declared_columns(table, physical)
        if not table.public:
            self._guards[table.name] = SparkGuard.of(self.session, table, view, [n for n, _ in columns])
        there = {n.lower(): f"r.{self.dialect.quote(n)}" for n, _ in physical}
        cells = tuple(there[n.lower()] for n, _ in columns)
        return Reader(table, columns, "", (), scan=f"{name} AS r", cells=cells), write_scan(
            table, name, physical, columns, self._policy.longest_value, padded_columns(schema)
        )

    def translate(self, compiled: CompiledQuery) -> str:
        """Refresh and test the tables of a query, then return the SQL that the engine will run, for display.

        The versions of the tables for which the SQL was made are remembered, those of the last `_STATEMENTS`
        queries. Raises `Untranslatable` or `OperationalError`. It is called before any charge, so a failure
        costs nothing.
        """
        versions = self._check_tables(compiled)
        shown = super().translate(compiled)
        self._versions[compiled.sql] = versions
        while len(self._versions) > _STATEMENTS:
            self._versions.pop(next(iter(self._versions)), None)  # another thread may have done it
        return shown

    def is_current(self, compiled: CompiledQuery) -> bool:
        """Whether the tables of a query are as they were when it was translated; asked before a charge.

        A frame reads the files that were listed when it was bound.
        """
        return self._check_tables(compiled) == self._versions.get(compiled.sql)

    def _check_tables(self, compiled: CompiledQuery) -> dict[str, object]:
        """Refresh the tables of a query, test that they are those that were opened, return their versions."""
        names = list_tables(compiled.query)
        guards = [guard for name, guard in self._guards.items() if name in names]
        with suppress_pyspark_warnings():
            versions: dict[str, object] = {g.table.name: g.check(self.session) for g in guards}
        if self._latest | versions != self._latest:
            self._bound = None  # it has the files of before
            self._latest |= versions
        return versions

    @contextmanager
    def connection(self) -> Iterator[str]:
        """Reserve a connection for one statement.

        It is the tag of the statement, which waits for the others.
        """
        with self._lock:
            yield f"dpsql_{id(self):x}_{next(self._numbers)}"

    def _frame(self, statement: Translated) -> Any:  # noqa: ANN401  two classes of frames
        """Register the public rows as views, and bind the statement."""
        with self._views:
            for public in statement.public:
                frame = self._frames.pop(public.name, None)
                if frame is None:
                    frame = self.session.createDataFrame(arrow_rows(public))
                    frame.createOrReplaceTempView(public.name)
                self._frames[public.name] = frame
            named = {p.name for p in statement.public}
            for name in [n for n in self._frames if n not in named | self._runs][:-_VIEWS]:
                del self._frames[name]
                self.session.catalog.dropTempView(name)
        return self.session.sql(statement.sql)

    def _frame_to_run(self, statement: Translated) -> Any:  # noqa: ANN401  two classes of frames
        """Return the frame of a statement; equal SQL is no key, since views of public rows share names."""
        bound, self._bound = self._bound, None
        # Over Connect a frame is SQL text, which resolves the views' names when it runs.
        if bound is not None and bound[0] is statement and "://" not in self._policy.engine:
            return bound[1]
        return self._frame(statement)

    def bind(self, statement: Translated) -> None:
        """Let the engine plan a statement without reading rows; raises `Untranslatable` if it cannot."""
        if not self._planner.run(lambda: self._plan(statement)):
            raise Untranslatable("Spark cannot plan this statement", "write it in a simpler form")

    def _plan(self, statement: Translated) -> bool:
        """Bind a statement and keep its frame; return whether it has the columns that it should."""
        with suppress_pyspark_warnings():
            frame = self._frame(statement)
            bound = len(frame.schema.fields) == len(statement.columns)
            plan = getattr(frame, "_jdf", None)
            if plan is not None:
                plan.queryExecution().optimizedPlan()  # Spark refuses some subqueries only here
        self._bound = (statement, frame)
        return bound

    def fetch(self, connection: str, statement: Translated) -> pa.Table:
        """Run a statement. It is called in a worker thread and may raise any exception."""
        with suppress_pyspark_warnings():
            # In this process the job runs in a thread of Spark's, to which a session's tags do not apply.
            here = self.session if "://" in self._policy.engine else self.session.sparkContext
            add = here.addTag if here is self.session else here.addJobTag
            remove = here.removeTag if here is self.session else here.removeJobTag
            add(connection)
            self._runs = frozenset(public.name for public in statement.public)
            try:
                found = self._frame_to_run(statement).toArrow()
            finally:
                self._runs = frozenset()
                remove(connection)
        return found.rename_columns([f"c{i}" for i in range(found.num_columns)])

    def show(self, statement: Translated) -> str:
        """Return a statement's SQL for display, without public rows."""
        parts = [f"`{p.name}` AS ({p.rows.num_rows} public rows: {p.sql})" for p in statement.public]
        return f"WITH {', '.join(parts)} {statement.sql}" if parts else statement.sql

    def checksum(self, cells: list[str]) -> str:
        """Write an aggregate that reads every value of some columns."""
        return f"bit_xor(xxhash64({', '.join(cells)}))"

    def stop(self, connection: str) -> None:
        """Stop the statement that a connection runs."""
        with suppress(Exception):
            if "://" in self._policy.engine:
                self.session.interruptTag(connection)
            else:
                self.session.sparkContext.cancelJobsWithTag(connection)

    def discard(self, connection: str) -> None:
        """Let nobody use a connection again, since a statement failed on it.

        The session survives the failure of a statement.
        """

    def is_interrupt(self, error: BaseException) -> bool:
        """Whether an error is the engine's report that a statement was interrupted.

        It is known by its condition, since messages may quote the statement.
        """
        # In this process the error of the job is a cause of the error of the thread that returns rows.
        behind: Any = getattr(error, "java_exception", None) or error
        for _ in range(_MAX_CAUSES):
            with suppress(Exception):  # errors of other origin have no condition
                if behind.getCondition() in _STOPPED:
                    return True
            cause = getattr(behind, "getCause", None)
            behind = cause() if cause is not None else None
            if behind is None:
                break
        return False

    def disconnect(self) -> None:
        """Close the connections that no statement uses.

        Spark itself keeps running, since it may serve others in this process.
        """
        self._frames.clear()
        if "://" in self._policy.engine:
            end_session(self.session)
