"""Counting few groups on DuckDB: rows of all groups first, then the units of those that may be selected.

Whatever the engine raises for one of these queries is no failure of the statement: the certified query is
counted under the same charge, and its failure alone is the statement's. A cancellation and the end of the
statement's time are no errors of a query. They end it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dpsql.analysis import CompiledQuery
from dpsql.analysis.compiled_query import confirm
from dpsql.errors import EngineNotTested, Error, InternalError
from dpsql.kernel.counts import Counts
from dpsql.kernel.filled_domains import FilledDomain
from dpsql.kernel.rows_first import CANDIDATES, RowsFirst, seal_few, seal_largest
from dpsql.kernel.tree import OnDomain, duckdb_sql

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
            texts = [upper, duckdb_sql(few), *([] if filled is None else [filled.text])]
            plain = [confirm(self._schema, sql, self._policy) for sql in texts]
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
