"""The catalogue of a policy: answers what tools ask of `pg_catalog` and `information_schema`."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

import duckdb
import pyarrow as pa

from dpsql.engines.worker import RunningStatement, run_in_thread, running_statement
from dpsql.fair_cache import FairCache
from dpsql.policy import Policy
from dpsql.serve.answers import Answer, AnswerColumn, Described
from dpsql.serve.catalog import (
    SERVER_STARTED,
    QuestionTimedOut,
    QuestionTooLarge,
    Route,
    SessionFacts,
    Signal,
    UnknownObject,
    UnknownQuestion,
    UnknownSetting,
    parse,
    postgres,
)
from dpsql.serve.catalog.database import (
    ANALYST,
    OWNER,
    ObjectNames,
    check_sql,
    open_database,
    relations_of,
    set_session,
)
from dpsql.serve.catalog.postgres import load_data
from dpsql.serve.catalog.translate import TranslatedQuestion, Translator
from dpsql.types import SqlType

if TYPE_CHECKING:
    from dpsql.engines.schema_database import SchemaDatabase

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


class TableColumns(Protocol):
    """What knows the columns of the policy's tables: the schema database, in a server."""

    def columns(self, table: str) -> tuple[tuple[str, SqlType], ...]:
        """Return the names and types of a table's columns."""


class PgCatalog:
    """The catalogue of one policy, for the sessions of all analysts and any number of threads.

    All of it but `knows` blocks.

    Attributes
    ----------
    name
        The name of the database that clients use.
    """

    def __init__(
        self,
        policy: Policy,
        schema: TableColumns,
        name: str,
        *,
        views: Mapping[str, Sequence[tuple[str, SqlType]]] | None = None,
        oids: Mapping[str, int] | None = None,
        version: str = "",
    ) -> None:
        self.name = name
        self._version = f"PostgreSQL 15.0 (dpsql{' ' + version if version else ''}) on DuckDB"
        columns = {table: schema.columns(table) for table in policy.tables}
        shown = relations_of(policy, columns, views or {}, oids or {})
        self._tables = frozenset(table.lower() for table in policy.tables)
        self._connection = open_database(shown, self._session(SessionFacts("", 0), ""))
        self._names = ObjectNames(self._connection)
        self._questions: FairCache[_Asked, TranslatedQuestion | UnknownQuestion] = FairCache(_KEPT)
        self._routes: FairCache[str, Route] = FairCache(_KEPT)

    def close(self) -> None:
        """Close the database that holds the catalogue's tables."""
        self._connection.close()

    def route(self, text: str) -> Route:
        """Return whether catalogue, data or nobody answers a statement, by the relations it names."""
        return _get_or_make(self._routes, text, text, lambda: self._route(text))

    def _route(self, text: str) -> Route:
        found = parse.route(text, self._tables)
        if found is not None:
            return found
        if parse.describe_signal(text) is not None:
            return Route.CATALOG
        # It has no relation: a constant, or a function of dpsql's own language.
        return Route.DATA if isinstance(self._find(text, ()), UnknownQuestion) else Route.CATALOG

    def knows(self, text: str, types: Sequence[pa.DataType | None] = ()) -> bool:
        """Return whether the catalogue has translated a question before, without parsing its text."""
        if self._routes.get(text) is not Route.CATALOG:
            return False
        return isinstance(self._questions.get((text, _oids(types))), TranslatedQuestion)

    def signal(self, text: str, parameters: Sequence[object] = ()) -> Signal | None:
        """Return the connection that a statement cancels or terminates; None for other statements."""
        return parse.signal(text, parameters)

    def describe(self, text: str, facts: SessionFacts, types: Sequence[pa.DataType | None] = ()) -> Described:
        """Return the columns that an answer will have, and the types of the parameters. Asks nothing."""
        called = parse.describe_signal(text)
        if called is not None:
            columns: tuple[AnswerColumn, ...] = (AnswerColumn(called[0], pa.bool_(), postgres.BOOL),)
            oids: tuple[int, ...] = (postgres.INT4,) * called[1]
        else:
            question = self._question(text, types)
            self._check_settings(question, facts)
            columns, oids = question.columns, question.parameters
        return Described(tuple(map(postgres.arrow_type, oids)), columns, oids)

    def answer(
        self,
        text: str,
        facts: SessionFacts,
        parameters: Sequence[object] = (),
        types: Sequence[pa.DataType | None] = (),
    ) -> Answer:
        """Answer a catalogue question; raise `UnknownQuestion` for one that is not known."""
        question = self._question(text, types)
        if len(parameters) != len(question.parameters):
            raise UnknownQuestion("number of parameters")
        self._check_settings(question, facts)
        session = self._session(facts, question.sql)

        def fetch(cursor: duckdb.DuckDBPyConnection) -> pa.Table:
            set_session(cursor, session)
            return _fetch(cursor, question.sql, list(parameters))

        table = self._within_limits(fetch)
        try:
            table = self._present(table, question.columns, facts.user)
        except pa.ArrowException:  # a value that its type cannot show, such as an infinite numeric
            raise UnknownQuestion("value") from None
        return Answer(question.columns, table, changes=question.changes if table.num_rows else ())

    # Translation.

    def _question(self, text: str, types: Sequence[pa.DataType | None]) -> TranslatedQuestion:
        found = self._find(text, _oids(types))
        if isinstance(found, UnknownQuestion):
            raise UnknownQuestion(found.shape)
        return found

    def _find(self, text: str, oids: tuple[int | None, ...]) -> TranslatedQuestion | UnknownQuestion:
        return _get_or_make(self._questions, (text, oids), text, lambda: self._translate(text, oids))

    def _translate(self, text: str, oids: tuple[int | None, ...]) -> TranslatedQuestion | UnknownQuestion:
        try:
            return Translator(self._names, oids).question(text, self._bind)
        except UnknownQuestion as problem:
            return problem
        except (UnknownObject, QuestionTimedOut, QuestionTooLarge):
            raise
        except Exception as problem:  # noqa: BLE001  a form that no rule foresaw
            return UnknownQuestion(type(problem).__name__)

    def _bind(self, sql: str, parameters: int) -> list[str]:
        """Return DuckDB's types of the columns of SQL that the check lets pass; asks nothing."""

        def describe(cursor: duckdb.DuckDBPyConnection) -> list[str]:
            check_sql(cursor, sql)
            set_session(cursor, self._session(SessionFacts("", 0), ""))
            found = cursor.execute(f"DESCRIBE {sql}", [None] * parameters)
            return [str(row[1]) for row in found.fetchall()]

        with running_statement(RunningStatement()):  # that it cannot be bound is no failure of a statement
            return self._within_limits(describe)

    # The facts of a session.

    def _check_settings(self, question: TranslatedQuestion, facts: SessionFacts) -> None:
        """Raise `UnknownSetting` if a question reads a setting that does not exist."""
        known = facts.all_settings() if question.settings else {}
        for name in question.settings:
            if name.lower() not in known:
                raise UnknownSetting(f'unrecognized configuration parameter "{name}"')

    def _session(self, facts: SessionFacts, sql: str) -> dict[str, object]:
        """Return the facts of a session, as `session.sql` has them; long ones only if the SQL reads them."""
        settings = facts.all_settings() if "current_setting" in sql.lower() else {}
        prepared = facts.prepared if "pg_prepared_statements" in sql else ()
        oids = load_data().type_oids
        return {
            "user": facts.user,
            "database": self.name,
            "version": self._version,
            "pid": facts.pid,
            "address": facts.address,
            "port": facts.port,
            "schema": next(iter(facts.schemas), None),
            "schemas": list(facts.schemas),
            "implicit_schemas": list(facts.implicit_schemas),
            "public_is_visible": "public" in facts.schemas,
            "now": datetime.now(UTC),
            "server_started": SERVER_STARTED,
            "own_names": list(facts.settings),
            "own_values": list(facts.settings.values()),
            "setting_names": list(settings),
            "setting_values": list(settings.values()),
            "connections": [asdict(one) for one in facts.connections if "pg_stat_" in sql],
            "prepared": [
                asdict(one) | {"parameters": [oids.get(name, postgres.TEXT) for name in one.parameters]}
                for one in prepared
            ],
            "cursors": [asdict(one) for one in facts.cursors if "pg_cursors" in sql],
        }

    # Execution.

    def _within_limits(self, work: Callable[[duckdb.DuckDBPyConnection], _Kept]) -> _Kept:
        """Run work on a cursor of its own, within the limits of time and memory."""
        problems: list[Exception] = []
        cursors: list[duckdb.DuckDBPyConnection] = []

        def run_on_cursor() -> _Kept:
            with self._connection.cursor() as cursor:
                cursors.append(cursor)
                try:
                    return work(cursor)
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
        message = "the catalogue question was cancelled"
        found = run_in_thread(
            run_on_cursor, stop, lambda error: isinstance(error, Exception), message, MAX_SECONDS
        )
        if found is not None:
            return found
        problem = problems[0] if problems else None
        if isinstance(problem, UnknownQuestion | QuestionTooLarge):
            raise problem.with_traceback(None) from None
        if isinstance(problem, duckdb.OutOfMemoryException):
            raise QuestionTooLarge("the catalogue question needs too much memory")
        if isinstance(problem, duckdb.InterruptException) or time.monotonic() - begun > MAX_SECONDS:
            raise QuestionTimedOut(f"the catalogue question took longer than {MAX_SECONDS:g} seconds")
        raise UnknownQuestion(type(problem).__name__)

    # Answers: OIDs that have names become the names.

    def _present(self, table: pa.Table, columns: Sequence[AnswerColumn], user: str) -> pa.Table:
        """Return the rows with PostgreSQL's names of columns, each column of the Arrow type of its OID."""
        kinds = [one.oid or postgres.TEXT for one in columns]
        arrays = [self._column(*both, user) for both in zip(table.columns, kinds, strict=True)]
        return pa.Table.from_arrays(arrays, names=[one.name for one in columns])

    def _column(self, column: pa.ChunkedArray, oid: int, user: str) -> pa.ChunkedArray | pa.Array:
        target, item = postgres.arrow_type(oid), postgres.element_type(oid)
        kind = postgres.NAMED_OIDS.get(oid if item is None else item)
        if kind is not None:
            names = {OWNER: "dpsql", ANALYST: user} if kind == "role" else self._names.shown[kind]
            return pa.array([_show_names(value, names) for value in column.to_pylist()], target)
        if oid in postgres.VECTORS:
            vectors = column.to_pylist()
            return pa.array([None if one is None else " ".join(map(str, one)) for one in vectors], target)
        if oid in (postgres.RECORD, postgres.RECORD_ARRAY) or pa.types.is_struct(column.type):
            return pa.array([_show_record(value) for value in column.to_pylist()], pa.string())
        return column if column.type == target else column.cast(target)


def _show_names(value: int | list[int] | None, names: Mapping[int, str]) -> object:
    if isinstance(value, list):
        return [_show_names(one, names) for one in value]
    return None if value is None else names.get(value, "-" if value == 0 else str(value))


def _show_record(value: object) -> str | None:
    """Return a record, or an array of them, as PostgreSQL writes it."""
    if value is None:
        return None
    if isinstance(value, list):
        texts = [(_show_record(one) or "NULL").replace("\\", "\\\\").replace('"', '\\"') for one in value]
        return "{" + ",".join(f'"{text}"' for text in texts) + "}"
    if isinstance(value, dict | tuple):
        cells = value.values() if isinstance(value, dict) else value
        return "(" + ",".join("" if cell is None else _show_cell(str(cell)) for cell in cells) + ")"
    return str(value)


def _show_cell(text: str) -> str:
    plain = text and not any(character in text for character in ' ",()\\')
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'


def _get_or_make(kept: FairCache[_Key, _Kept], key: _Key, text: str, make: Callable[[], _Kept]) -> _Kept:
    """Return the kept translation of a statement; else make one, and keep it unless the text is long."""
    found = kept.get(key)
    if found is None:
        found = make()
        if len(text) <= _KEPT_TEXT:
            kept.put(key, found, "")
    return found


def _fetch(cursor: duckdb.DuckDBPyConnection, sql: str, given: list[object]) -> pa.Table:
    """Return the rows of SQL within the limits of an answer."""
    reader = cursor.sql(sql, params=given).to_arrow_reader(_BATCH)
    batches, count, size = [], 0, 0
    for batch in reader:
        count += batch.num_rows
        size += batch.nbytes
        if count > MAX_ROWS or size > MAX_BYTES:
            raise QuestionTooLarge("the answer to the catalogue question is too large")
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)


def _oids(types: Sequence[pa.DataType | None]) -> tuple[int | None, ...]:
    return tuple(None if kind is None else postgres.arrow_oid(kind) for kind in types)


MakeCatalog = Callable[[Policy, "SchemaDatabase", str], PgCatalog]
"""What opens the catalogue of a policy, under the name of the database that clients use."""
