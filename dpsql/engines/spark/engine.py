"""The private engine on Spark."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa

from dpsql.engines.duckdb.sources import Reader, declared_columns
from dpsql.engines.remote import RemoteEngine
from dpsql.engines.spark.catalog import find_table
from dpsql.engines.spark.connection import end_session, open_session, suppress_pyspark_warnings
from dpsql.engines.spark.dialect import SparkDialect
from dpsql.engines.spark.guard import check_facts
from dpsql.engines.spark.rows import arrow_rows
from dpsql.engines.spark.schema import columns_of, scan
from dpsql.engines.writer import TargetColumn, Translated, Untranslatable
from dpsql.policy import Policy, Table


class SparkEngine(RemoteEngine):
    """Implements `dpsql.engines.Engine` on Spark; a statement is known to Spark by its tag."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.local_files = "://" not in policy.engine
        self.session: Any = open_session(policy.engine)
        self._lock = threading.RLock()  # one statement at a time: statements share the names of views
        self._numbers = itertools.count()
        self._frames: dict[str, Any] = {}
        self._bound: tuple[Translated, Any] | None = None
        """The statement that was bound last and has not run yet, with its frame."""
        self.open_tables()

    @property
    def dialect(self) -> SparkDialect:
        """See `RemoteEngine`."""
        return SparkDialect(self._scans)

    def introspect(self, table: Table) -> tuple[Reader, tuple[str, dict[str, TargetColumn]]]:
        """See `RemoteEngine`."""
        with suppress_pyspark_warnings():
            name, schema = find_table(self.session, table, f"dpsql_source_{next(self._numbers)}")
        check_facts(self._policy)
        physical = columns_of(schema)
        columns = declared_columns(table, physical)
        return Reader(table, columns, "", ()), scan(
            table, name, physical, columns, self._policy.longest_value
        )

    @contextmanager
    def connection(self) -> Iterator[str]:
        """See `RemoteEngine`: the tag of one statement, which waits for the others."""
        with self._lock:
            yield f"dpsql_{id(self):x}_{next(self._numbers)}"

    def _frame(self, statement: Translated) -> Any:  # noqa: ANN401  two classes of frames
        """Register the public rows as views, and bind the statement."""
        for public in statement.public:
            if public.sql not in self._frames:
                self._frames[public.sql] = self.session.createDataFrame(arrow_rows(public))
                while len(self._frames) > 32:
                    del self._frames[next(iter(self._frames))]
            self._frames[public.sql].createOrReplaceTempView(public.name)
        return self.session.sql(statement.sql)

    def _frame_to_run(self, statement: Translated) -> Any:  # noqa: ANN401  two classes of frames
        """Return the frame of a statement; equal SQL is no key, since views of public rows share names."""
        bound, self._bound = self._bound, None
        # Over Connect a frame is SQL text, which resolves the views' names when it runs.
        if bound is not None and bound[0] is statement and "://" not in self._policy.engine:
            return bound[1]
        return self._frame(statement)

    def bind(self, statement: Translated) -> None:
        """See `RemoteEngine`."""
        bound = False
        with suppress(Exception), suppress_pyspark_warnings(), self._lock:
            self._bound = None
            frame = self._frame(statement)
            bound = len(frame.schema.fields) == len(statement.columns)
            plan = getattr(frame, "_jdf", None)
            if plan is not None:
                plan.queryExecution().optimizedPlan()  # Spark refuses some subqueries only here
            self._bound = (statement, frame)
        if not bound:
            raise Untranslatable("Spark cannot plan this statement", "write it in a simpler form")

    def fetch(self, connection: str, statement: Translated) -> pa.Table:
        """See `RemoteEngine`."""
        with suppress_pyspark_warnings():
            # In this process the job runs in a thread of Spark's, to which a session's tags do not apply.
            here = self.session if "://" in self._policy.engine else self.session.sparkContext
            add = here.addTag if here is self.session else here.addJobTag
            remove = here.removeTag if here is self.session else here.removeJobTag
            add(connection)
            try:
                found = self._frame_to_run(statement).toArrow()
            finally:
                remove(connection)
        return found.rename_columns([f"c{i}" for i in range(found.num_columns)])

    def show(self, statement: Translated) -> str:
        """See `RemoteEngine`."""
        parts = [f"`{p.name}` AS ({p.rows.num_rows} public rows: {p.sql})" for p in statement.public]
        return f"WITH {', '.join(parts)} {statement.sql}" if parts else statement.sql

    def checksum(self, cells: list[str]) -> str:
        """See `RemoteEngine`."""
        return f"bit_xor(xxhash64({', '.join(cells)}))"

    def stop(self, connection: str) -> None:
        """See `RemoteEngine`."""
        with suppress(Exception):
            if "://" in self._policy.engine:
                self.session.interruptTag(connection)
            else:
                self.session.sparkContext.cancelJobsWithTag(connection)

    def discard(self, connection: str) -> None:
        """See `RemoteEngine`: the session survives the failure of a statement."""

    def interrupted(self, error: BaseException) -> bool:
        """See `RemoteEngine`: by the error condition, since messages may quote the statement."""
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
        """See `RemoteEngine`: Spark itself keeps running, since it may serve others in this process."""
        self._frames.clear()
        if "://" in self._policy.engine:
            end_session(self.session)


_STOPPED = ("SPARK_JOB_CANCELLED", "OPERATION_CANCELED")
"""Spark's conditions for a job, and over Connect an operation, that was cancelled."""

_MAX_CAUSES = 10
"""The most causes of an error that are examined."""
