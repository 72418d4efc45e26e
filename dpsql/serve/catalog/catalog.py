"""The catalogue of a policy: answers what tools ask of `pg_catalog` and `information_schema`."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol, TypeVar

import duckdb
import pyarrow as pa

from dpsql.engines.worker import run
from dpsql.policy import Policy
from dpsql.serve.catalog import facts as of_session
from dpsql.serve.catalog import pg_types, signals
from dpsql.serve.catalog.build import Names, arrow_rows, open_database
from dpsql.serve.catalog.data import data
from dpsql.serve.catalog.errors import (
    QuestionTimedOut,
    QuestionTooLarge,
    UnknownObject,
    UnknownQuestion,
    UnknownSetting,
)
from dpsql.serve.catalog.facts import CatalogAnswer, CatalogColumn, CatalogDescription, Facts, Route, Signal
from dpsql.serve.catalog.live import LIVE, Place, all_settings, setting
from dpsql.serve.catalog.objects import relations
from dpsql.serve.catalog.output import presented
from dpsql.serve.catalog.parse import parse
from dpsql.serve.catalog.routing import route
from dpsql.serve.catalog.sources import live_name
from dpsql.serve.catalog.translate import Question, Translator
from dpsql.serve.catalog.wall import check
from dpsql.serve.fair_cache import FairCache
from dpsql.types import SqlType

MAX_SECONDS = 5.0
MAX_ROWS = 100_000
MAX_BYTES = 64 << 20
_BATCH = 2048
_KEPT = 512
_KEPT_TEXT = 32_768
"""The longest text of a question that is kept translated."""

_Asked = tuple[str, tuple[int | None, ...]]
"""The text of a question, and the types of its parameters that the client announced."""
_Key = TypeVar("_Key", bound=Hashable)
_Kept = TypeVar("_Kept")


class Columns(Protocol):
    """What knows the columns of the policy's tables: the schema database, in a server."""

    def columns(self, table: str) -> tuple[tuple[str, SqlType], ...]:
        """Return the names and types of a table's columns."""


class Catalog:
    """The catalogue of one policy, for the sessions of all analysts and any number of threads.

    Attributes
    ----------
    name
        The name of the database that clients use.
    """

    def __init__(
        self,
        policy: Policy,
        schema: Columns,
        name: str,
        *,
        views: Mapping[str, Sequence[tuple[str, SqlType]]] | None = None,
        oids: Mapping[str, int] | None = None,
        version: str = "",
    ) -> None:
        self.name = name
        self._version = f"PostgreSQL 15.0 (dpsql{' ' + version if version else ''}) on DuckDB"
        columns = {table: schema.columns(table) for table in policy.tables}
        found = relations(policy, columns, views or {}, oids or {})
        self._place = Place(name, found)
        self._tables = frozenset(table.lower() for table in policy.tables)
        self._names = Names(found)
        self._connection = open_database(found, name)
        self._questions: FairCache[_Asked, Question | UnknownQuestion] = FairCache(_KEPT)
        self._routes: FairCache[str, Route] = FairCache(_KEPT)

    def close(self) -> None:
        """Close the catalogue's database."""
        self._connection.close()

    def route(self, text: str) -> Route:
        """Return who answers a statement, by the relations that it names."""
        return _kept(self._routes, text, text, lambda: self._route(text))

    def _route(self, text: str) -> Route:
        found = route(text, self._tables)
        if found is not None:
            return found
        if signals.described(text) is not None:
            return Route.CATALOGUE
        # It has no relation: a constant, or a function of dpsql's own language.
        return Route.DATA if isinstance(self._find(text, ()), UnknownQuestion) else Route.CATALOGUE

    def knows(self, text: str, types: Sequence[pa.DataType | None] = ()) -> bool:
        """Return whether a statement is a question that was translated before; it does not block."""
        if self._routes.get(text) is not Route.CATALOGUE:
            return False
        return isinstance(self._questions.get((text, _oids(types))), Question)

    def signal(self, text: str, parameters: Sequence[object] = ()) -> Signal | None:
        """Return the connection that a statement cancels or terminates; None for other statements."""
        return signals.signal(text, parameters)

    def describe(
        self,
        text: str,
        facts: Facts,
        types: Sequence[pa.DataType | None] = (),
    ) -> CatalogDescription:
        """Return the columns that an answer will have, and the types of the parameters. Asks nothing."""
        called = signals.described(text)
        if called is not None:
            numbers = (pa.int32(),) * called[1]
            column = CatalogColumn(called[0], pa.bool_(), pg_types.arrow_oid(pa.bool_()))
            return CatalogDescription((column,), numbers, tuple(map(pg_types.arrow_oid, numbers)))
        question = self._question(text, types)
        self._settings(question, facts)
        return CatalogDescription(
            question.columns,
            tuple(pg_types.arrow_type(oid) for oid in question.parameters),
            question.parameters,
        )

    def answer(
        self,
        text: str,
        facts: Facts,
        parameters: Sequence[object] = (),
        types: Sequence[pa.DataType | None] = (),
    ) -> CatalogAnswer:
        """Answer a catalogue question; raise `UnknownQuestion` for one that is not known."""
        question = self._question(text, types)
        if len(parameters) != len(question.parameters):
            raise UnknownQuestion("number of parameters")
        self._settings(question, facts)
        rows = {live_name(*key): self._live(key, facts) for key in question.live}
        table = self._run(question.sql, list(parameters), self._session(facts, question.sql), rows)
        try:
            table = presented(table, question.columns, self._names, facts.user)
        except pa.ArrowException:  # a value that its type cannot show, such as an infinite numeric
            raise UnknownQuestion("value") from None
        return CatalogAnswer(question.columns, table, question.changes if table.num_rows else ())

    def _question(self, text: str, types: Sequence[pa.DataType | None]) -> Question:
        found = self._find(text, _oids(types))
        if isinstance(found, UnknownQuestion):
            raise UnknownQuestion(found.shape)
        return found

    def _find(self, text: str, oids: tuple[int | None, ...]) -> Question | UnknownQuestion:
        return _kept(self._questions, (text, oids), text, lambda: self._translated(text, oids))

    def _translated(self, text: str, oids: tuple[int | None, ...]) -> Question | UnknownQuestion:
        try:
            return Translator(self._names, oids).question(parse(text), self._bound)
        except UnknownQuestion as problem:
            return problem
        except UnknownObject:
            raise
        except Exception as problem:  # noqa: BLE001  DuckDB cannot bind it, or a form that no rule foresaw
            return UnknownQuestion(type(problem).__name__)

    def _bound(self, sql: str, live: frozenset[tuple[str, str]], parameters: int) -> list[str]:
        """Return DuckDB's types of the columns of SQL that the wall lets pass; asks nothing."""
        with self._connection.cursor() as cursor:
            check(cursor, sql)
            for key in live:
                cursor.register(live_name(*key), arrow_rows(data().relations[key], ()))
            cursor.execute("SET VARIABLE session = $1", [self._session(Facts("", 0), "")])
            found = cursor.execute(f"DESCRIBE {sql}", [None] * parameters)
            return [str(row[1]) for row in found.fetchall()]

    def _settings(self, question: Question, facts: Facts) -> None:
        """Raise `UnknownSetting` if a question reads a setting that does not exist."""
        for name in question.settings:
            if setting(facts, name) is None:
                raise UnknownSetting(f'unrecognized configuration parameter "{name}"')

    def _session(self, facts: Facts, sql: str) -> dict[str, object]:
        """Return the facts of a session that macros read; the settings only where the SQL reads them."""
        schemas = facts.schemas
        settings = all_settings(facts) if "current_setting" in sql.lower() else {}
        return {
            "setting_names": list(settings),
            "setting_values": list(settings.values()),
            "user": facts.user,
            "database": self.name,
            "pid": facts.pid,
            "version": self._version,
            "schema": schemas[0] if schemas else None,
            "schemas": list(schemas),
            "implicit_schemas": list(facts.implicit_schemas),
            "public_is_visible": "public" in schemas,
            "address": facts.address,
            "port": facts.port,
            "now": datetime.now(UTC).isoformat(),
            "server_started": of_session.SERVER_STARTED.isoformat(),
        }

    def _live(self, key: tuple[str, str], facts: Facts) -> pa.Table:
        return arrow_rows(data().relations[key], LIVE[key](facts, self._place))

    def _run(
        self,
        sql: str,
        given: Sequence[object],
        session: Mapping[str, object],
        rows: Mapping[str, pa.Table],
    ) -> pa.Table:
        """Run generated SQL on a cursor of its own, within the limits of time, rows and memory."""
        problems: list[Exception] = []
        cursors: list[duckdb.DuckDBPyConnection] = []

        def work() -> pa.Table:
            with self._connection.cursor() as cursor:
                cursors.append(cursor)
                try:
                    for name, table in rows.items():
                        cursor.register(name, table)
                    cursor.execute("SET VARIABLE session = $1", [session])
                    return _fetch(cursor, sql, given)
                except Exception as problem:  # its text is the engine's
                    problems.append(problem)
                    raise

        def stop() -> None:
            for cursor in cursors:
                try:
                    cursor.interrupt()
                except duckdb.Error:
                    return

        begun = time.monotonic()
        found = run(
            work,
            stop,
            lambda error: isinstance(error, Exception),
            "the catalogue question was cancelled",
            MAX_SECONDS,
        )
        if found is not None:
            return found
        problem = problems[0] if problems else None
        if isinstance(problem, QuestionTooLarge):
            raise problem.with_traceback(None) from None
        if isinstance(problem, duckdb.OutOfMemoryException):
            raise QuestionTooLarge("the catalogue question needs too much memory")
        if isinstance(problem, duckdb.InterruptException) or time.monotonic() - begun > MAX_SECONDS:
            raise QuestionTimedOut(f"the catalogue question took longer than {MAX_SECONDS:g} seconds")
        raise UnknownQuestion(type(problem).__name__)


def _kept(kept: FairCache[_Key, _Kept], key: _Key, text: str, make: Callable[[], _Kept]) -> _Kept:
    """Return what is kept of a statement; else make it, and keep it unless its text is long."""
    found = kept.get(key)
    if found is None:
        found = make()
        if len(text) <= _KEPT_TEXT:
            kept.put(key, found, "")
    return found


def _fetch(cursor: duckdb.DuckDBPyConnection, sql: str, given: Sequence[object]) -> pa.Table:
    reader = cursor.sql(sql, params=list(given)).to_arrow_reader(_BATCH)
    batches, count, size = [], 0, 0
    for batch in reader:
        count += batch.num_rows
        size += batch.nbytes
        if count > MAX_ROWS or size > MAX_BYTES:
            raise QuestionTooLarge("the answer to the catalogue question is too large")
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)


def _oids(types: Sequence[pa.DataType | None]) -> tuple[int | None, ...]:
    return tuple(None if kind is None else pg_types.arrow_oid(kind) for kind in types)
