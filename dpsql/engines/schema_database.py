"""The schema database: every declared table with its types, in which private tables are empty.

It is the binder, the catalog and the engine of public statements. Public statements, domains, EXPLAIN and
the binding of compiled queries run here, so none of them can disclose private data.
"""

from __future__ import annotations

from copy import copy
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import pyarrow as pa

from dpsql.analysis import quote
from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.public_queries import (
    Columns,
    ReopenedDatabase,
    bind_text,
    check_plan,
    describe_failure,
    describe_public_failure,
    fetch_rows,
    load_released,
    parse_json,
    unbound_error,
)
from dpsql.engines.worker import KEPT, UnboundQuery, running_statement
from dpsql.errors import EngineNotTested, InternalError, OperationalError, ResultTooLarge
from dpsql.kernel.charged_work import CANCELLED, FAILED, UNCHARGED
from dpsql.kernel.tree import DOMAIN_SCHEMA, DomainScan, Scan, duckdb_sql
from dpsql.lazy_pattern import lazy_pattern
from dpsql.policy import fold
from dpsql.policy.model import facts_of
from dpsql.types import BIGINT, BOOLEAN, HUGEINT, INTERVAL, JSON, NULL, TIMESTAMPTZ, SqlType, column_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date

    import numpy as np
    from numpy.typing import NDArray

    from dpsql.analysis import DomainPart
    from dpsql.analysis.bound_ladders import KeptLadders
    from dpsql.analysis.compiled_relation import Relation
    from dpsql.analysis.text_conversions import TextConversion
    from dpsql.engines.declared_domains import Domains
    from dpsql.engines.duckdb.table_readers import Reader
    from dpsql.kernel.check import Certificate
    from dpsql.kernel.facts import Facts
    from dpsql.kernel.tree import Query
    from dpsql.policy import Policy


_MEASURES = {
    "DOUBLE": "CASE WHEN isfinite({0}) THEN {0} END",
    "DATE": "CASE WHEN isfinite({0}) THEN {0} - DATE '1970-01-01' END",
    "TIMESTAMP": "TRY(epoch_us({0}))",
    "TIMESTAMPTZ": "TRY(epoch_us({0}))",
}
"""What is measured of a column: its finite values as numbers; other types are measured as they are."""

_INTERNAL_TYPES = {"HUGEINT": HUGEINT, "INTERVAL": INTERVAL, "JSON": JSON, '"NULL"': NULL, "NULL": NULL}
"""The types of expressions that no column has, by the names that the engine gives them."""

_Result = TypeVar("_Result")
_Described = tuple[tuple[str, str], ...]

_CHECKED = 1024
"""The most queries over released rows of which it is remembered that they were checked."""
_UNBOUND = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)
_WIDE_DECIMAL = lazy_pattern(r"DECIMAL\((19|2\d|3\d),(\d+)\)")


class SchemaDatabase:
    """Implements `dpsql.analysis.Catalog` and runs public statements."""

    def __init__(
        self,
        readers: dict[str, Reader],
        public: dict[str, pa.Table],
        domains: Domains,
        memory: int | None = None,
        time_zone: str = "UTC",
    ) -> None:
        self.time_zone = time_zone
        self._readers = {fold(name): reader for name, reader in readers.items()}
        self.domains = domains
        self.confirmed: dict[str, bool] = {}
        self.certified: dict[str, tuple[Facts, Certificate]] = {}
        self.relations: dict[str, tuple[Policy, Relation]] = {}
        self.kept_ladders: KeptLadders | None = None
        self.numbered: tuple[tuple[str | bool, int], ...] | None = None
        """The values that are parts of units, with the numbers that the ledger has for them."""
        self._facts: dict[tuple[str, ...], tuple[Policy, Facts]] = {}
        self._types: dict[str, SqlType] = {}
        self._stored: dict[Scan | DomainScan, dict[str, SqlType]] = {}
        self._values: dict[str, object] = {}
        self._places: dict[str, int] = {}
        self._unique: dict[str, tuple[tuple[str, ...], ...]] = {}
        self._extents: dict[str, dict[str, tuple[Fraction, Fraction]]] = {}
        self._checked: dict[object, tuple[TextConversion, ...]] = {}
        """Checked queries over released relations with the types of these, and what they convert."""
        self._database = ReopenedDatabase(partial(_open_tables, self._readers, public, domains, memory))
        with self._database.connection.cursor() as cursor:
            self.vocabulary = duckdb_settings.read_vocabulary(cursor)

    def with_ladders(self, ladders: KeptLadders) -> SchemaDatabase:
        """Return the same database, with other kept ladders; it is closed with this one."""
        found = copy(self)
        found.kept_ladders = ladders
        return found

    def has_instants(self, table: str) -> bool:
        """Return whether a declared table has a column of type TIMESTAMPTZ; False for an unknown name."""
        reader = self._readers.get(fold(table))
        return reader is not None and any(kind == TIMESTAMPTZ for _, kind in reader.columns)

    def has_generated_column(self, table: str) -> bool:
        """Whether the definition of a table computes a column, so that every scan may find other values."""
        return self._readers[fold(table)].generated

    def columns(self, table: str) -> tuple[tuple[str, SqlType], ...]:
        """Return the names and types of a declared table's columns, in declared order."""
        return self._readers[fold(table)].columns

    def stored_types(self, source: Scan | DomainScan) -> Mapping[str, SqlType]:
        """Return the types of a declared table or domain, as a query has them; none for an unknown name.

        Of a private table, an instant is the TIMESTAMP of UTC.
        """
        found = self._stored.get(source)
        if found is None:
            found = self._stored[source] = self._types_of(source)
        return found

    def _types_of(self, source: Scan | DomainScan) -> dict[str, SqlType]:
        if isinstance(source, DomainScan):
            of_values = self.domains.list_tables().get(source.name)
            return {} if of_values is None else {"v": of_values, "o": BIGINT}
        reader = self._readers.get(fold(source.table))
        if reader is None:
            return {}
        return {name: kind if reader.table.public else kind.held for name, kind in reader.columns}

    def public_columns(self, table: str) -> tuple[str, ...] | None:
        """Return the names of a public table's columns; None if there is no such table."""
        reader = self._readers.get(fold(table)) if table.isascii() else None
        if reader is None or not reader.table.public:
            return None
        return tuple(name for name, _ in reader.columns)

    def type_of(self, expression: str) -> SqlType:
        """Return the type of a constant expression; `ValueError` if it does not bind or is not allowed."""
        if expression not in self._types:
            text = self._database.fetch(f"SELECT typeof({expression})")[0][0]
            wide = _WIDE_DECIMAL.fullmatch(text)
            if wide:  # a DECIMAL of more than 18 digits, which the rules of the analysis narrow
                self._types[expression] = SqlType("DECIMAL", int(wide[1]), int(wide[2]))
            else:
                self._types[expression] = _INTERNAL_TYPES.get(text) or column_type(text)
            if self._types[expression] == TIMESTAMPTZ:  # compiled expressions have none
                raise ValueError("an instant is compiled as a TIMESTAMP of UTC")
        return self._types[expression]

    def evaluate(self, expression: str) -> object:
        """Return the value of a constant expression; `ValueError` if it raises."""
        if expression not in self._values:
            self._values[expression] = self._database.fetch(f"SELECT {expression}")[0][0]
        return self._values[expression]

    def count(self, relation: str) -> int:
        """Return the number of rows of a public relation (a SELECT)."""
        return int(str(self.evaluate(f"(SELECT COUNT(*) FROM ({relation}) AS r)")))

    def plan(self, sql: str) -> object:
        """Return the engine's own bound plan of a compiled statement, as parsed JSON."""
        bound = self._bind(sql)
        if bound.get("error"):
            raise ValueError("the compiled statement does not bind")
        return bound["plans"]

    def _bind(self, sql: str) -> dict[str, Any]:
        """Return what the engine's binder says of a query: its plans, or the error and its place."""
        return parse_json(self._database.fetch(bind_text(sql))[0][0])

    def _position(self, sql: str) -> int | None:
        """Return the byte of a query that the binder's error is about; None if it does not say."""
        try:
            position = str(self._bind(sql).get("position"))
        except ValueError:
            return None
        return int(position) if position.isdecimal() else None

    def not_null(self, table: str, column: str) -> bool:
        """Return whether no row of a private table that has a unit has NULL in a column."""
        reader, key = self._readers[fold(table)], fold(column)
        return key in {*reader.never_null, *map(fold, (*reader.table.not_null, *reader.table.complete))}

    def not_negative(self, table: str, column: str) -> bool:
        """Return whether no row of a private table that has a unit has a value below 0 in a column."""
        low, _ = (self.extent(table, column) if self.complete(table, column) else None) or (-1, 0)
        return low >= 0 or fold(column) in map(fold, self._readers[fold(table)].table.not_negative)

    def complete(self, table: str, column: str) -> bool:
        """Return whether each row of a private table that has a unit has a value of a column's domain."""
        return self._readers[fold(table)].table.has_complete_domain(column)

    def domain(self, table: str, column: str) -> Query | None:
        """Return a query of columns v and o (its order) over a column's declared domain, or None."""
        return self.domains.query(table, column)

    def listed_domains(self) -> dict[str, SqlType]:
        """Return the names of the tables of listed domains, with the types of their values."""
        return self.domains.list_tables()

    def places_of_domains(self) -> dict[str, int]:
        """Return for each table of a listed domain a number that all its places are less than."""
        new = [name for name in self.domains.list_tables() if name not in self._places]
        if new:
            each = (f"SELECT '{name}', COALESCE(MAX(o) + 1, 0) FROM {DOMAIN_SCHEMA}.{name}" for name in new)
            self._places |= {name: int(most) for name, most in self._database.fetch(" UNION ALL ".join(each))}
        return self._places

    def facts(self, policy: Policy, tables: tuple[str, ...]) -> Facts:
        """Return what the owner declares of the named tables, and of all domains, as the kernel takes it."""
        known = self._facts.get(tables)
        if known is None or known[0] is not policy:
            known = self._facts[tables] = policy, facts_of(policy, self, tables)
        return known[1]

    def number_values(self, table: str, column: str) -> tuple[tuple[str | bool, int], ...]:
        """Return the listed values of a column that are parts of units, with their numbers.

        They are those of the ledger, once it is known; else the places in the list.
        """
        if self.numbered is not None:
            return self.numbered
        return tuple((value, number) for number, value in enumerate(self.list_values(table, column)))

    def list_values(self, table: str, column: str) -> list[str | bool]:
        """Return the public values of a column of texts or truth values; of the latter, both."""
        kinds = {fold(name): kind for name, kind in self._readers[fold(table)].columns}
        if kinds[fold(column)] == BOOLEAN:
            return [False, True]
        if str(kinds[fold(column)]) != "VARCHAR":  # of whole numbers, each is its own
            return []
        domain = self.domains.query(table, column)
        if domain is None:
            return []
        listed = self._database.fetch(f"SELECT v FROM ({duckdb_sql(domain)}) AS d ORDER BY o")
        return [value for (value,) in listed]

    def span(self, table: str, column: str) -> tuple[date, date] | None:
        """Return the first and the last day of a TIMESTAMP column's declared range, or None."""
        return self.domains.span(table, column)

    def integers(self, table: str, column: str) -> tuple[int, int] | None:
        """Return the ends of a column's declared range of integers that is too long for a list, or None."""
        return self.domains.integers(table, column)

    def extent(self, table: str, column: str) -> tuple[Fraction, Fraction] | None:
        """Return the smallest and the largest public value of a column as numbers, or None."""
        reader = self._readers[fold(table)]
        if reader.table.public:
            return self._measure(f"main.{quote(reader.table.name)}", reader.columns).get(fold(column))
        domain = self.domains.query(table, column)
        if domain is None:
            return None
        kinds = [("v", kind) for name, kind in reader.columns if fold(name) == fold(column)]
        return self._measure(f"({duckdb_sql(domain)}) AS d", kinds).get("v")

    def _measure(
        self, rows: str, columns: Sequence[tuple[str, SqlType]]
    ) -> dict[str, tuple[Fraction, Fraction]]:
        """Return the smallest and the largest value of each numeric or dated column, in one pass."""
        if rows not in self._extents:
            kinds = [(name, kind) for name, kind in columns if kind.numeric or kind.name in _MEASURES]
            cells = [_MEASURES.get(kind.name, "{0}").format(quote(name)) for name, kind in kinds]
            listed = ", ".join(f"MIN({cell}), MAX({cell})" for cell in cells)
            row = self._database.fetch(f"SELECT {listed} FROM {rows}")[0] if kinds else ()
            ends = zip((fold(name) for name, _ in kinds), row[::2], row[1::2], strict=True)
            self._extents[rows] = {
                name: (Fraction(str(low)), Fraction(str(high))) for name, low, high in ends if low is not None
            }
        return self._extents[rows]

    def unique(self, table: str) -> tuple[tuple[str, ...], ...]:
        """Return the declared unique facts of a public table that hold: each is tested on its rows."""
        key = fold(table)
        if key not in self._unique:
            reader = self._readers[key]
            held = []
            for fact in reader.table.unique:
                listed = ", ".join(quote(c) for c in fact)
                name = f"main.{quote(reader.table.name)}"
                repeated = self._database.fetch(
                    f"SELECT 1 FROM {name} GROUP BY {listed} HAVING COUNT(*) > 1 LIMIT 1"
                )
                if not repeated:
                    held.append(fact)
            self._unique[key] = tuple(held)
        return self._unique[key]

    def run(self, sql: str, text: str | None = None) -> pa.Table:
        """Run a public statement that the analysis has checked; errors point into `text`."""
        with running_statement() as statement:
            limit = statement.limit
        return self._run_public(sql, text, lambda cursor: fetch_rows(cursor, sql, limit))

    def schema(self, sql: str, text: str | None = None) -> pa.Schema:
        """Return the names and types of the columns of a public statement, without running it."""
        return self._run_public(sql, text, lambda cursor: self._database.arrow_schema(cursor, sql))

    def _run_public(
        self, sql: str, text: str | None, finish: Callable[[duckdb.DuckDBPyConnection], _Result]
    ) -> _Result:
        raised = list[Exception]()

        def work(cursor: duckdb.DuckDBPyConnection) -> _Result:
            try:
                return finish(cursor)
            except (ResultTooLarge, duckdb.Error) as error:
                raised.append(error)
                raise

        result = self._database.run(work, UNCHARGED)
        if result is not None:
            return result
        if raised and isinstance(raised[0], ResultTooLarge):
            raise raised.pop().with_traceback(None)  # no list may hold what holds this frame
        if raised and isinstance(raised[0], _UNBOUND):
            public = {key: [n for n, _ in r.columns] for key, r in self._readers.items() if r.table.public}
            raise unbound_error(str(raised[0]), self._position(sql), sql, text, public)
        raise OperationalError(describe_public_failure(raised.pop() if raised else None))

    def arrow_type(self, sql_type: str) -> pa.DataType:
        """Return the Arrow type of the engine's results of an SQL type."""
        return self._database.arrow_type(sql_type)

    def describe_over(self, types: Mapping[str, Columns], sql: str) -> _Described:
        """Return the names and types of a query's columns, which `over` would run; raises `UnboundQuery`."""
        return self.describe_each_over(types, (sql,))[0]

    def describe_each_over(self, types: Mapping[str, Columns], texts: Sequence[str]) -> list[_Described]:
        """Return what `describe_over` returns of each query; raises `UnboundQuery` of the first there is."""

        def read(cursor: duckdb.DuckDBPyConnection) -> list[_Described]:
            described = map(cursor.sql, texts)
            return [tuple(zip(each.columns, map(str, each.types), strict=True)) for each in described]

        return self._run_over(types, {}, texts, read)

    def over(self, types: Mapping[str, Columns], rows: Mapping[str, pa.Table], sql: str) -> pa.Table:
        """Run a query over released `rows`, of these types, and public tables: post-processing, uncharged."""
        with running_statement() as statement:
            limit = statement.limit
        return self._run_over(types, rows, (sql,), lambda cursor: fetch_rows(cursor, sql, limit))

    def list_conversions(self, types: Mapping[str, Columns], sql: str) -> tuple[TextConversion, ...]:
        """Return the conversions of texts in a query over released rows."""
        key = sql, tuple(types.items())
        while (found := self._checked.get(key)) is None:  # another thread may have cleared them
            self.describe_over(types, sql)
        return found

    def schema_over(self, types: Mapping[str, Columns], sql: str) -> pa.Schema:
        """Return the names and types of the columns of a query that `over` would run."""
        return self._run_over(types, {}, (sql,), lambda cursor: self._database.arrow_schema(cursor, sql))

    def _run_over(
        self,
        types: Mapping[str, Columns],
        rows: Mapping[str, pa.Table],
        texts: Sequence[str],
        finish: Callable[[duckdb.DuckDBPyConnection], _Result],
    ) -> _Result:
        public = [reader.table.name for reader in self._readers.values() if reader.table.public]
        raised, kinds = list[Exception](), tuple(types.items())

        def work(cursor: duckdb.DuckDBPyConnection) -> _Result:
            try:
                load_released(cursor, types, rows)
                for sql in texts:
                    if (sql, kinds) not in self._checked:
                        found = check_plan(cursor, sql, types, public, self.vocabulary, self.time_zone)
                        if len(self._checked) >= _CHECKED:
                            self._checked.clear()
                        self._checked[sql, kinds] = found
                return finish(cursor)
            except (UnboundQuery, EngineNotTested, InternalError, ResultTooLarge, duckdb.Error) as error:
                raised.append(error)
                raise

        result = self._database.run(work, KEPT)
        if result is not None:
            return result
        why = raised[0] if raised else None
        if isinstance(why, (UnboundQuery, EngineNotTested, InternalError, ResultTooLarge)):
            raise why.with_traceback(None)
        raise OperationalError(describe_failure(why))

    def candidates(self, part: DomainPart, places: NDArray[np.int64]) -> pa.Table:
        """Return the keys of a part of a domain at some places, in the columns `k0`, .. of these keys."""
        asked = "SELECT unnest($1::BIGINT[]) AS p, unnest(range(len($1))) AS o"
        if part.query is None:
            number = "w.p" if part.null is None else f"NULLIF(w.p, {part.null})"
            values, found = [f"CAST({number} AS {part.types[0]})"], f"({asked}) AS w"
        else:
            values = [f"d.v{i}" for i in range(len(part.keys))]
            found = f"({asked}) AS w JOIN ({duckdb_sql(part.query)}) AS d ON w.p = d.p"
        listed = ", ".join(f"{value} AS k{key}" for value, key in zip(values, part.keys, strict=True))
        sql, numbers = f"SELECT {listed} FROM {found} ORDER BY w.o", (places + part.first).tolist()

        def work(cursor: duckdb.DuckDBPyConnection) -> pa.Table:
            return cursor.sql(sql, params=[numbers]).to_arrow_table()

        result = self._database.run(work, CANCELLED)
        if result is None or result.num_rows != len(places):
            raise OperationalError(FAILED)
        return result

    def close(self) -> None:
        """Close the database."""
        self._database.close()


def _open_tables(
    readers: Mapping[str, Reader], public: Mapping[str, pa.Table], domains: Domains, memory: int | None
) -> duckdb.DuckDBPyConnection:
    """Open a database with the declared tables, of which the public ones have their rows."""
    connection = duckdb_settings.connect()
    connection.execute("SET GLOBAL threads = 1")
    for reader in readers.values():
        name = reader.table.name
        # As the scans have them: of a private table, an instant is the TIMESTAMP of UTC.
        kinds = [(column, k if reader.table.public else k.held) for column, k in reader.columns]
        columns = ", ".join(f"{quote(column)} {sql_type}" for column, sql_type in kinds)
        connection.execute(f"CREATE TABLE main.{quote(name)} ({columns})")
        if name in public:
            connection.register("dpsql_incoming", public[name])
            connection.execute(f"INSERT INTO main.{quote(name)} SELECT * FROM dpsql_incoming")
            connection.unregister("dpsql_incoming")
    domains.create(connection)
    duckdb_settings.lock(connection, (), None, memory=memory)
    return connection
