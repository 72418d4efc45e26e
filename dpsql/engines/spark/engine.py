"""The private engine on Spark."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa

from dpsql.analysis import CompiledQuery
from dpsql.engines.duckdb.sources import Reader, declared_columns
from dpsql.engines.remote import PLANNING_SECONDS, RemoteEngine, check_digits
from dpsql.engines.spark.catalog import find_table
from dpsql.engines.spark.connection import end_session, open_session, suppress_pyspark_warnings
from dpsql.engines.spark.dialect import SparkDialect
from dpsql.engines.spark.guard import Guard, check_facts
from dpsql.engines.spark.planning import Planner
from dpsql.engines.spark.rows import arrow_rows
from dpsql.engines.spark.schema import columns_of, padded_columns, scan
from dpsql.engines.writer import TargetColumn, Translated, Untranslatable
from dpsql.kernel.tree import Scan, walk
from dpsql.policy import Policy, Table


class SparkEngine(RemoteEngine):
    """Implements `dpsql.engines.Engine` on Spark; a statement is known to Spark by its tag."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.local_files = "://" not in policy.engine
        self.session: Any = open_session(policy.engine)
        self._lock = threading.RLock()  # one statement runs at a time; others are planned meanwhile
        self._planner = Planner(min(PLANNING_SECONDS, policy.timeout))
        self._views = threading.Lock()
        self._guards: dict[str, Guard] = {}
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
            self._guards[table.name] = Guard.of(self.session, table, view, [n for n, _ in columns])
        there = {n.lower(): f"r.{self.dialect.quote(n)}" for n, _ in physical}
        cells = tuple(there[n.lower()] for n, _ in columns)
        return Reader(table, columns, "", (), scan=f"{name} AS r", cells=cells), scan(
            table, name, physical, columns, self._policy.longest_value, padded_columns(schema)
        )

    def translate(self, compiled: CompiledQuery) -> str:
        """Return the SQL that the engine will run, for display; raises `Untranslatable` before any charge.

        Before a charge, the tables are refreshed and tested.
        """
        versions = self._check_tables(compiled)
        shown = super().translate(compiled)
        self._versions[compiled.sql] = versions
        while len(self._versions) > _STATEMENTS:
            self._versions.pop(next(iter(self._versions)), None)  # another thread may have done it
        return shown

    def current(self, compiled: CompiledQuery) -> bool:
        """Whether the tables of a query are as they were when it was translated; asked before a charge.

        A frame reads the files that were listed when it was bound.
        """
        return self._check_tables(compiled) == self._versions.get(compiled.sql)

    def _check_tables(self, compiled: CompiledQuery) -> dict[str, object]:
        """Refresh the tables of a query, test that they are those that were opened, return their versions."""
        names = {node.table for node in walk(compiled.query) if isinstance(node, Scan)}
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

        The tag of one statement, which waits for the others.
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

    def interrupted(self, error: BaseException) -> bool:
        """Whether an error is the engine's report that a statement was interrupted.

        By the error condition, since messages may quote the statement.
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


_VIEWS = 64
"""The most views of public rows that are kept besides those in use."""

_STATEMENTS = 256
"""The most statements whose tables' versions are kept until they are charged."""

_STOPPED = ("SPARK_JOB_CANCELLED", "OPERATION_CANCELED")
"""Spark's conditions for a job, and over Connect an operation, that was cancelled."""

_MAX_CAUSES = 10
"""The most causes of an error that are examined."""
