"""Counting faster on DuckDB: few groups by their rows first, rows and sums by what is known of units.

Whatever the engine raises for one of these queries is no failure of the statement: the certified query is
counted under the same charge, and its failure alone is the statement's. A cancellation and the end of the
statement's time are no errors of a query. They end it.

How many rows units have, and what is aggregated of the rows of each, is counted when a statement first needs
it, after it was charged, and kept while the database is open: it has the version of the table that was told
then. A database keeps files open, so what it reads may be older than that: with it, facts are forgotten. As
with `unit_bits`, whatever the engine raises meanwhile is no failure of the statement: the certified query is
counted under the same charge. So texts run where the optimizer uses the least and the greatest values of
columns, whatever they compute.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from dpsql.analysis import CompiledQuery
from dpsql.analysis.compiled_query import confirm
from dpsql.engines.process_storage import available_memory
from dpsql.errors import EngineNotTested, Error, InternalError
from dpsql.kernel.counts import Counts
from dpsql.kernel.filled_domains import FilledDomain
from dpsql.kernel.rows_first import CANDIDATES, RowsFirst, seal_few, seal_largest
from dpsql.kernel.tree import Derived, OnDomain, duckdb_sql
from dpsql.kernel.unit_tables import UnitTable, form_of_tables, text_of_tables
from dpsql.kernel.unweighted import RowFacts, UnweightedText, rows_in_full, units_of, unweighted

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from dpsql.engines.duckdb.unit_bits import Attempt, UnitBits
    from dpsql.engines.schema_database import SchemaDatabase
    from dpsql.kernel.rows_first import KeptFew
    from dpsql.policy import Policy

ROWS_FIRST = True
"""Whether rows are counted first; tests set it."""
FEWEST_GROUPS = 64
"""Of so many groups all units are counted: with bits that takes little longer than to count rows."""
_FAILED = 1000
"""How many sets of tables and groups are kept that are not tried again."""


class FewGroups:
    """How an engine counts statements that select few groups."""

    def __init__(self, policy: Policy, schema: SchemaDatabase, bits: UnitBits) -> None:
        self._policy = policy
        self._schema = schema
        self._bits = bits
        # Where a query failed, or all groups were counted in the end: it would be so again.
        self._failed: set[tuple[object, ...]] = set()

    def count(
        self,
        compiled: CompiledQuery,
        attempt: Attempt,
        fetch: Callable[[duckdb.DuckDBPyConnection, str], pa.Table],
        every: Callable[[], Counts],
        check: Callable[[], None],
        kept: KeptFew | None,
        *,
        counts_only: bool,
    ) -> Counts | None:
        """Return counts of which `every` counts all groups if need be; None if all are to be counted.

        `check` is called whenever groups were counted, and raises if the tables have changed. With what is
        `kept` of an earlier statement, rows are not counted again.
        """
        groups = compiled.groups
        queries = RowsFirst.of(compiled.query) if ROWS_FIRST and _has_many_groups(compiled) else None
        facts = None if queries is None else self._bits.facts_of_many_rows(compiled, attempt)
        if queries is None or groups is None or facts is None:
            return None
        tried = (compiled.tables, groups.shape)
        try:
            upper, few = queries.upper_sql, queries.few(compiled.keys)
            domain = queries.upper if isinstance(queries.upper, OnDomain) else None
            filled = None if domain is None else FilledDomain.of(compiled.certificate, domain)
            plain = [confirm(self._schema, sql, self._policy) for sql in (upper, duckdb_sql(few))]
            if filled is not None:  # it computes places, and if that fails all groups are counted
                confirm(self._schema, filled.text, self._policy)
        except (EngineNotTested, InternalError):  # the engine binds them otherwise than they are meant
            return None
        if tried in self._failed:
            return None
        counts_only = counts_only and all(plain)
        # A query that the statement's time ends is not tried again either: so this is written before.
        if len(self._failed) >= _FAILED:
            self._failed.clear()
        self._failed.add(tried)

        def ask(candidates: pa.Table) -> Mapping[str, Any] | None:
            self._failed.add(tried)
            size = candidates.num_rows
            text = self._bits.write(compiled, (queries.few(), few), size, attempt)

            def work(cursor: duckdb.DuckDBPyConnection) -> Mapping[str, Any] | None:
                cursor.register(CANDIDATES, candidates)
                if text is None:
                    return cursor.execute(duckdb_sql(queries.few())).fetchnumpy()
                return text.count(lambda sql: cursor.execute(sql).fetchnumpy(), compiled.counts)

            found = attempt(work, counts_only=counts_only)
            if found is not None:
                self._failed.discard(tried)
            check()
            return found

        def ask_all() -> Counts:
            self._failed.add(tried)  # rows were counted for nothing, and would be again
            found = every()
            check()
            return found

        order = None if compiled.order is None else compiled.order.terms

        def count_rows(cursor: duckdb.DuckDBPyConnection) -> pa.Table | Counts:
            if filled is not None:
                found = filled.seal_counts(cursor.execute(filled.text).fetchnumpy(), order)
                if found is not None:
                    return found
            return fetch(cursor, upper)

        table = kept or attempt(count_rows, counts_only=counts_only)
        if table is None:
            return None
        certificate, asking = compiled.certificate, (ask, ask_all)
        if queries.most is not None:
            if kept is not None or isinstance(table, Counts):
                return None
            check()
            found = _seal(lambda: seal_largest(table, queries, certificate, facts, asking))
            (self._failed.add if found is None else self._failed.discard)(tried)
            return found
        places = compiled.places
        found = _seal(lambda: seal_few(table, queries, places, certificate, order, facts, asking))
        (self._failed.add if found is None else self._failed.discard)(tried)
        return found


def _seal(work: Callable[[], Counts | None]) -> Counts | None:
    """Return the counts that the kernel makes of rows; None if it fails, which is no failure."""
    try:
        return work()
    except Error:  # a cancellation, or the end of the statement's time
        raise
    except Exception:  # noqa: BLE001  whatever it is, the certified query is counted
        return None


def _has_many_groups(compiled: CompiledQuery) -> bool:
    """Whether a query counts each unit in all of many groups, over rows that may be read again."""
    groups = compiled.groups
    if groups is None or groups.most is not None or groups.outside:
        return False
    many = groups.largest is not None if groups.size is None else groups.size > FEWEST_GROUPS
    return many and groups.rows.alike and not groups.rows.by_row


_Rows = TypeVar("_Rows", bound="pa.Table | dict[str, Any]")
_Version = Callable[[], object]

KNOWS_ROWS = True
"""Whether it is found out what units have; tests set it."""
_ROWS_FAILED = 1000
"""How many queries are kept that are not tried again."""
_PART = 32
"""The tables of units take at most this part of the memory."""


class UnitRows:
    """What an engine knows of the rows of units, and how it counts by it."""

    def __init__(
        self,
        policy: Policy,
        schema: SchemaDatabase,
        version: Callable[[str], object],
        memory: int | None = None,
    ) -> None:
        """Know nothing yet; `version` is that of `open_engine`, `memory` that of a database."""
        self._policy = policy
        self._schema = schema
        self._version = version
        self._most = (available_memory() if memory is None else memory) // _PART
        self._facts: dict[str, RowFacts] = {}
        self._tables: dict[str, UnitTable] = {}
        """By their SELECT, those that were read last at the end."""
        self._lock = threading.Lock()
        self._openings = 0
        """How often the database was opened again."""
        # Queries of which a text failed, or could not be made: it would again.
        self._failed: set[str] = set()
        # Tables that are too small for texts of one kind.
        self._small: set[tuple[str, bool]] = set()

    def forget(self) -> None:
        """Forget what is known; called with each opening of the database, before anybody has the new one."""
        self._openings += 1
        self._facts.clear()
        with self._lock:
            self._tables.clear()

    def _tell(self, table: str, openings: int) -> object:
        """Return the version of a table, as the database of this opening reads it; None for another one."""
        found = self._version(table)
        return None if found is None or openings != self._openings else (openings, found)

    def count(
        self,
        compiled: CompiledQuery,
        attempt: Attempt,
        fetch: Callable[[duckdb.DuckDBPyConnection, str], _Rows],
    ) -> _Rows | None:
        """Run a faster text of a query by what is known of units' rows; None if there is none.

        None: there is no such text, it failed, or its numbers are not all there.
        """
        if not KNOWS_ROWS or compiled.sql in self._failed:
            return None
        try:
            way = self._find_way(compiled)
        except Exception:  # noqa: BLE001  whatever it is, the query itself is counted
            way = None
        if way is None:
            return None
        table, form = way
        version = partial(self._tell, table, self._openings)
        # A text that the statement's time ends is not tried again either: so this is written before.
        if len(self._failed) >= _ROWS_FAILED:
            self._failed.clear()
        self._failed.add(compiled.sql)
        if (table, form is None) in self._small:
            return None

        def work(cursor: duckdb.DuckDBPyConnection) -> _Rows | None:
            text = None if form is not None else self._write(compiled, table, cursor, version)
            other = form
            if text is None and form is None and (table, True) not in self._small:
                other = self._form_of_tables(compiled)  # too many units would be listed
            if other is not None and other[1] == table:
                confirm(self._schema, other[0], self._policy)
                text = text_of_tables(compiled.query, partial(self._find, cursor, table, version))
            if text is None:
                if (table, form is None) not in self._small:
                    self._failed.discard(compiled.sql)
                return None

            def fetch_with(sql: str, tables: Mapping[str, pa.Table]) -> _Rows:
                for name, rows in tables.items():
                    cursor.register(name, rows)
                return fetch(cursor, sql)

            return text.count(fetch_with, compiled.counts, version)

        found = attempt(work, counts_only=True)
        if found is not None:
            self._failed.discard(compiled.sql)
        return found

    def _find_way(self, compiled: CompiledQuery) -> tuple[str, tuple[str, str] | None] | None:
        """Return the table by whose units a query is counted, and the form of what is aggregated of them.

        Without a form its rows are weighed of listed units alone. None: there is no faster text.
        """
        table = compiled.certificate.rows_of
        if table is not None and rows_in_full(compiled.query) is not None:
            return table, None
        form = self._form_of_tables(compiled)
        return None if form is None else (form[1], form)

    def _form_of_tables(self, compiled: CompiledQuery) -> tuple[str, str] | None:
        """Return the form of what is aggregated of the units of a table, and the table, if there is one."""
        return None if compiled.faster else form_of_tables(compiled.query)

    def _write(
        self, compiled: CompiledQuery, table: str, cursor: duckdb.DuckDBPyConnection, version: _Version
    ) -> UnweightedText | None:
        """Write the text of a query that weighs rows; None if there is none, or no use in one."""
        units = units_of(self._schema.facts(self._policy, compiled.tables), table)
        if units is None:
            return None

        def ask(sql: str) -> pa.Table:
            return cursor.sql(sql).to_arrow_table()

        facts = self._facts.get(table) or RowFacts.count(units, ask, version)
        if facts is None:
            return None
        self._facts[table] = facts
        if not facts.serves:
            self._small.add((table, True))
        text = UnweightedText.of(compiled.query, facts, units, ask)
        if text is None:
            return None
        # The engine's binder understands it as it is meant, with the units of all rows as those that are
        # listed; else this raises.
        for listed in (None, Derived(units, "l")):
            form = unweighted(compiled.query, listed)
            if form is not None:
                confirm(self._schema, duckdb_sql(form), self._policy)
        return text

    def _find(
        self, cursor: duckdb.DuckDBPyConnection, table: str, version: _Version, sql: str
    ) -> UnitTable | None:
        """Return the table of a SELECT, which is counted unless it is kept; None if it is too large."""
        found = self._tables.get(sql)
        if found is None:

            def ask(sql: str) -> tuple[list[str], pa.Table]:
                rows = cursor.sql(sql)
                return [str(kind) for kind in rows.types], rows.to_arrow_table()

            found = UnitTable.count(sql, ask, version, self._most)
        if found is not None:
            if not found.serves:
                self._small.add((table, False))
            with self._lock:
                self._tables.pop(sql, None)
                self._tables[sql] = found
                while sum(each.size for each in self._tables.values()) > self._most:
                    del self._tables[next(iter(self._tables))]
        return found
