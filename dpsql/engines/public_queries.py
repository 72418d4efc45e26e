"""Run, check and explain public queries: those of public and released rows, in the schema database.

Where they run: on a cursor of their own of a `ReopenedDatabase`, which survives fatal errors of the engine.

Errors: of the engine's message for a public query that does not bind nothing is shown but the unknown name,
with its place in the analyst's text.

Released rows are temporary tables of the cursor: no other cursor sees them, and they end with it. The bound
plan of a query over them is checked before it runs (`check_plan`), independently of the analysis: it may scan
released rows and public data, and nothing else. Private tables are empty here, so a query over one would give
a wrong answer.
"""

from __future__ import annotations

import difflib
import json
import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import numpy as np
import pyarrow as pa
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.worker import UnboundQuery, running_statement
from dpsql.errors import UNKNOWN_STATES, Fix, ProgrammingError, QueryRefused, ResultTooLarge
from dpsql.kernel.charged_work import UNCHARGED, Cancelled
from dpsql.kernel.key_columns import clear_nulls
from dpsql.kernel.tree import DOMAIN_SCHEMA, literal_sql, quote
from dpsql.language import Outline, StatementText
from dpsql.lazy_pattern import lazy_pattern
from dpsql.policy import fold
from dpsql.types import TIMESTAMPTZ, SqlType

if TYPE_CHECKING:
    from dpsql.analysis import Vocabulary
    from dpsql.analysis.text_conversions import TextConversion
    from dpsql.engines.worker import ResultLimit

_Result = TypeVar("_Result")
_FATAL = (duckdb.FatalException, duckdb.InternalException)
"""Errors after which the engine runs nothing more on a database."""


Columns = tuple[tuple[str, SqlType], ...]
"""Names and types of a relation's columns."""

_BARE_NUMBER = lazy_pattern(r"(:\s*-?)(nan|inf)(inity)?\b", re.IGNORECASE)
_BATCH = 10_000
"""Rows that are fetched together where the result has a limit."""
_FUNCTIONS = ("range", "generate_series", "unnest", "duckdb_tables", "duckdb_views", "duckdb_columns")
"""Table functions that read no table; the last three are those of `information_schema`."""
_FAILURES = {
    duckdb.OutOfMemoryException: ": it needs too much memory",
    duckdb.ConversionException: ": a value is not a valid one of the type that it gets (TRY_CAST gives NULL)",
    duckdb.OutOfRangeException: ": a number is too large or too small for a function or its type",
    duckdb.InvalidInputException: ": a function is not defined for one of its values",
}
_JOINS = ("LOGICAL_ASOF_JOIN", "LOGICAL_POSITIONAL_JOIN")
"""Joins over released rows that private rows are not given."""


class ReopenedDatabase:
    """Runs queries on a database, each on a cursor of its own; after a fatal error it opens another one."""

    def __init__(self, open_database: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        self._open = open_database
        self._reopening = threading.Lock()
        self._arrow_types: dict[str, pa.DataType] = {}
        self.connection = open_database()
        """The database that is used now."""

    def close(self) -> None:
        """Close the database."""
        self.connection.close()

    def run(self, work: Callable[[duckdb.DuckDBPyConnection], _Result], message: str) -> _Result | None:
        """Run work on a new cursor; return its result, or None if it failed; `Cancelled` has the message."""
        used, broken = self.connection, list[duckdb.DuckDBPyConnection]()

        def run_watched(cursor: duckdb.DuckDBPyConnection) -> _Result:
            try:
                return work(cursor)
            except _FATAL:
                broken.append(used)
                raise

        try:
            return duckdb_settings.run_on_cursor(lambda: used, run_watched, message)
        finally:
            for each in broken:
                self._open_again(each)

    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a public query; raises `ValueError` if it fails."""
        for _ in range(2):  # once more where a query of somebody else broke the database
            used = self.connection
            try:
                return _fetch_on(used, sql)
            except _FATAL:
                pass
            self._open_again(used)
        raise ValueError("does not bind")

    def _open_again(self, broken: duckdb.DuckDBPyConnection) -> None:
        """Open a new database if this one is still used."""
        with self._reopening:
            if self.connection is broken:
                self.connection = self._open()

    def arrow_type(self, sql_type: str) -> pa.DataType:
        """Return the Arrow type of the engine's results of an SQL type."""
        if sql_type not in self._arrow_types:
            with self.connection.cursor() as cursor:
                return self._arrow_type(cursor, sql_type)
        return self._arrow_types[sql_type]

    def arrow_schema(self, cursor: duckdb.DuckDBPyConnection, sql: str) -> pa.Schema:
        """Return the Arrow schema of a public query, which is bound and not run."""
        found = cursor.sql(sql)
        types = [self._arrow_type(cursor, str(kind)) for kind in found.types]
        return pa.schema(zip(found.columns, types, strict=True))

    def _arrow_type(self, cursor: duckdb.DuckDBPyConnection, sql_type: str) -> pa.DataType:
        if sql_type not in self._arrow_types:
            empty = cursor.sql(f"SELECT CAST(NULL AS {sql_type}) AS x LIMIT 0").to_arrow_table()
            self._arrow_types[sql_type] = empty.schema.field(0).type
        return self._arrow_types[sql_type]


def _fetch_on(used: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    failed = cancelled = False
    with running_statement() as statement, used.cursor() as cursor:
        try:
            with (
                duckdb_settings.interruptible(),
                statement.stop_with(lambda: duckdb_settings.interrupt(cursor)),
            ):
                statement.check()
                return cursor.execute(sql).fetchall()
        except duckdb.InterruptException:
            cancelled = True
        except _FATAL:
            raise
        except (duckdb.Error, RuntimeError):  # DuckDB raises some faults as RuntimeError
            failed = True
    if cancelled:
        raise Cancelled(UNCHARGED)
    if failed:
        raise ValueError("does not bind")
    return []


def unbound_error(
    reason: str, position: int | None, sql: str, text: str | None, tables: Mapping[str, Sequence[str]]
) -> ProgrammingError | QueryRefused:
    """Return the error for a public query that the engine cannot bind.

    Parameters
    ----------
    reason
        The engine's message, of which nothing but the name is shown.
    position
        The byte of `sql` that it is about, if the engine says so.
    sql
        The query as the engine got it.
    text
        The statement as the analyst wrote it, if the query is one; the error points into it.
    tables
        The public tables, by folded name, and their columns.
    """
    what, name = UnboundQuery(reason).missing_name
    if not what:
        return ProgrammingError(
            "the engine cannot bind this public statement: check the names and types of its columns"
        )
    message = f"there is no {what} {name}"
    at = None if text is None else _find_place(name, position, sql, text)
    if at is not None and text is not None:
        hint = _hint_columns(name, text, tables) if what == "column" else None
        close = re.fullmatch(r"did you mean (\w+)\?", hint or "")
        fix = None if close is None else Fix(close[1], at, at + len(name))
        quoted, compared = text[at] == '"', re.search(r"(?i)(?:[=<>]|\bLIKE|\bIN\s*\()\s*\Z", text[:at])
        if fix is None and what == "column" and (quoted or compared):
            end, value = at + len(name) + 2 * quoted, literal_sql(name)
            fix = Fix(value, at, end, guess="" if quoted else f"that {name} is a text")
            hint = f"{value} is a text"
        return StatementText(text).refuse(message, at, hint, fix, unknown=what)
    error = ProgrammingError(f"{message}, so the engine cannot bind this public statement")
    error.sqlstate = UNKNOWN_STATES[what]
    return error


def _find_place(name: str, position: int | None, sql: str, text: str) -> int | None:
    """Return where a name of a query stands in the analyst's text; None for a name of a policy's view."""
    written = _find_names(name, text)
    if len(written) > 1 and position is not None:
        sent = _find_names(name, sql)
        if len(sent) == len(written):
            begin = len(sql.encode()[:position].decode(errors="ignore"))
            return next((at for at, there in zip(written, sent, strict=True) if there >= begin), written[0])
    return written[0] if written else None


def _find_names(name: str, text: str) -> list[int]:
    """Return the places where a text names something, without those where it gives the name."""
    tokens = Outline.of(text).tokens
    return [
        token.start
        for before, token in zip([None, *tokens], tokens, strict=False)
        if fold(token.text) == fold(name) and _is_name(token) and not _gives_name(before)
    ]


def _is_name(token: Token) -> bool:
    return token.token_type not in (TokenType.STRING, TokenType.NUMBER)


def _gives_name(before: Token | None) -> bool:
    return before is not None and before.token_type == TokenType.ALIAS


def _hint_columns(name: str, text: str, tables: Mapping[str, Sequence[str]]) -> str | None:
    """Return a hint with the columns of the public tables that a text names."""
    named = dict.fromkeys(fold(token.text) for token in Outline.of(text).tokens if token.text.isascii())
    known = list(dict.fromkeys(column for table in named for column in tables.get(table, ())))
    close = difflib.get_close_matches(name, known, 1)
    if close:
        return f"did you mean {close[0]}?"
    return f"columns here: {', '.join(known)[:200]}" if known else None


def bind_text(sql: str) -> str:
    """Return the query that asks for the bound plan of another one, which is not run, without its NULLs."""
    return f"SELECT json_serialize_plan({literal_sql(sql)}, optimize := false, skip_null := true)"


def parse_json(text: str) -> dict[str, Any]:
    """Parse JSON written by DuckDB, which writes NaN and infinity without quotes."""
    found: dict[str, Any]
    try:
        found = json.loads(text)
    except ValueError:
        found = json.loads(
            _BARE_NUMBER.sub(lambda m: m[1] + {"nan": "NaN", "inf": "Infinity"}[m[2].lower()], text)
        )
    return found


def load_released(
    cursor: duckdb.DuckDBPyConnection, types: Mapping[str, Columns], rows: Mapping[str, pa.Table]
) -> None:
    """Make temporary tables of the released relations; those without rows stay empty."""
    for name, columns in types.items():
        if name not in rows:
            listed = ", ".join(f"{quote(column)} {sql_type}" for column, sql_type in columns)
            cursor.execute(f"CREATE TEMP TABLE {quote(name)} ({listed})")
            continue
        # In one statement: a table that exists already takes rows several times as slowly.
        cells = ", ".join(
            f"CAST(c{i} AS {sql_type}) AS {quote(column)}" for i, (column, sql_type) in enumerate(columns)
        )
        came = ", ".join(f"c{i}" for i in range(len(columns)))
        cursor.register("dpsql_incoming", rows[name])
        cursor.execute(f"CREATE TEMP TABLE {quote(name)} AS SELECT {cells} FROM dpsql_incoming AS r({came})")
        cursor.unregister("dpsql_incoming")


def fetch_rows(cursor: duckdb.DuckDBPyConnection, sql: str, limit: ResultLimit | None) -> pa.Table:
    """Run a public query; raise `ResultTooLarge` as soon as its result exceeds the limit. No zero is -0."""
    return without_remains(with_one_zero(_fetch_limited(cursor, sql, limit)))


def without_remains(table: pa.Table) -> pa.Table:
    """Return a result with zeros behind each NULL: what was left there in memory may be of private rows."""
    for place, column in enumerate(table.columns):
        if column.null_count:
            cleared = pa.chunked_array(map(clear_nulls, column.chunks), column.type)
            table = table.set_column(place, table.field(place), cleared)
    return table


def with_one_zero(table: pa.Table) -> pa.Table:
    """Return a result with 0 in the place of -0, which no format shall print."""
    for place, column in enumerate(table.columns):
        if pa.types.is_floating(column.type) and any(map(_has_negative_zero, column.chunks)):
            import pyarrow.compute as pc  # noqa: PLC0415  it takes longer than most queries

            made = pc.add(column, pa.scalar(0.0, column.type))
            table = table.set_column(place, table.field(place), made)
    return table


def _has_negative_zero(part: pa.Array) -> bool:
    numbers = part.to_numpy(zero_copy_only=False)  # NULL as NaN
    return bool(((numbers == 0) & np.signbit(numbers)).any())


def _fetch_limited(cursor: duckdb.DuckDBPyConnection, sql: str, limit: ResultLimit | None) -> pa.Table:
    found = cursor.sql(sql)
    if limit is None:
        return found.to_arrow_table()
    batches, rows, size = list[pa.RecordBatch](), 0, 0
    with found.to_arrow_reader(_BATCH) as reader:
        for batch in reader:
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows > limit.rows or size > limit.bytes:
                raise ResultTooLarge(
                    f"the result has more than {limit.rows:,} rows or {limit.bytes:,} bytes: add a LIMIT, or "
                    "select fewer columns"
                )
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)


def check_plan(
    cursor: duckdb.DuckDBPyConnection,
    sql: str,
    released: Mapping[str, Columns],
    public: Collection[str],
    vocabulary: Vocabulary,
    time_zone: str = "UTC",
) -> tuple[TextConversion, ...]:
    """Check that a public query binds, and that its plan reads released rows and public tables only.

    Returns
    -------
    tuple[TextConversion, ...]
        The conversions of texts, which may fail as the query runs.

    Raises
    ------
    UnboundQuery
        The query does not bind, or converts times that are of no zone.
    InternalError
        It reads something that is neither released nor public.
    EngineNotTested
        So it seems in the plan of an engine that is no tested version.
    """
    from dpsql.analysis.text_conversions import find_conversions, walk_plan  # noqa: PLC0415  public statements have none

    bound = parse_json(cursor.execute(bind_text(sql)).fetchall()[0][0])
    if bound.get("error"):
        raise UnboundQuery(str(bound.get("error_message")).partition("\n")[0])
    instants = any(kind == TIMESTAMPTZ for columns in released.values() for _, kind in columns)
    from dpsql.analysis.public_limits import find_fault  # noqa: PLC0415  few statements compute from released rows

    found = find_fault(bound["plans"], time_zone, instants=instants)
    if found is not None:
        raise UnboundQuery(f"{found.what}: {found.hint}")
    for node in walk_plan(bound["plans"]):
        operator = "expression_class" not in node and str(node.get("type")).startswith("LOGICAL_")
        if operator and not _is_allowed(node, released, public, vocabulary):
            raise vocabulary.refuse("the outer query reads neither released nor public rows")
    return find_conversions(bound["plans"], sql)


def _explain_failure(error: Exception | None) -> str:
    """Return why a query of public or released rows failed, in words of dpsql; nothing if none fit."""
    from dpsql.analysis.public_limits import TOO_LONG  # noqa: PLC0415  few fail

    if TOO_LONG in str(error):
        return f": {TOO_LONG}"
    return next((said for kind, said in _FAILURES.items() if isinstance(error, kind)), "")


def describe_failure(error: Exception | None) -> str:
    """Return what is said of a failure over released rows: no word of the engine's, which may name values."""
    kept = "what was released is stored, and costs nothing when it is asked again"
    return f"the query over the released rows cannot be finished{_explain_failure(error)}; {kept}"


def describe_public_failure(error: Exception | None) -> str:
    """Return what is said of a failure of a public statement."""
    return f"the engine could not finish this public statement{_explain_failure(error)}"


def _is_allowed(
    node: dict[str, Any], released: Collection[str], public: Collection[str], vocabulary: Vocabulary
) -> bool:
    """Whether a node of a plan scans no table, a released one, a public one, or a public domain."""
    if node["type"] != "LOGICAL_GET":
        return node["type"] in _JOINS or node["type"] in vocabulary.plans
    path = (node.get("qname") or {}).get("path") or []
    if path[:-1] == ["system", "main"] and path[-1] in _FUNCTIONS:
        return True
    data = node.get("function_data") or {}
    place = (data.get("catalog"), data.get("schema"))
    return path == ["seq_scan"] and (
        (place == ("temp", "main") and data.get("table") in released)
        or (place == ("memory", "main") and data.get("table") in public)
        or place == ("memory", DOMAIN_SCHEMA)
    )
