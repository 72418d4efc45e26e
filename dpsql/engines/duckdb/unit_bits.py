"""Counting units by bits on DuckDB: what is known of the units of tables, and when a text is tried.

`UnitFacts` of a table are those of one version of the data, since an engine is opened on one; those of files
that were replaced meanwhile are wrong, and the text that is made of them says so. They are read when a
statement first needs them, after it was charged, where the source has them without reading its rows, and
come from `vet` for other sources.

Whatever the engine raises for a faster text is no failure of the statement: the certified query is counted
under the same charge, and its failure alone is the statement's. A cancellation and the end of the statement's
time are no errors of a text. They end it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import duckdb

from dpsql.analysis import CompiledQuery
from dpsql.analysis.compiled_query import confirm
from dpsql.engines.process_storage import available_memory
from dpsql.kernel import faster
from dpsql.kernel.charged_work import Cancelled
from dpsql.kernel.faster import FEWEST, FasterText, Room, UnitFacts, bits_form, units_counted
from dpsql.policy import DatabaseSource, ParquetSource, UnitColumn, UnitPeriod, fold
from dpsql.types import BIGINT, HUGEINT

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.engines.duckdb.table_readers import Reader
    from dpsql.engines.schema_database import SchemaDatabase
    from dpsql.kernel.counts import Counts
    from dpsql.kernel.filled_domains import FilledDomain
    from dpsql.kernel.tree import Query
    from dpsql.policy import Policy
    from dpsql.types import SqlType

_Result = TypeVar("_Result")
_Rows = TypeVar("_Rows", bound="pa.Table | dict[str, Any]")

COUNTS_BITS = True
"""Whether units are counted by bits; tests set it."""
_FAILED = 1000
"""How many sets of tables and groups are kept that are not tried again."""


class Attempt(Protocol):
    """Runs work on a cursor of one of the engine's databases; None if it failed, which is no failure."""

    def __call__(
        self, work: Callable[[duckdb.DuckDBPyConnection], _Result], *, counts_only: bool
    ) -> _Result | None:
        """Run the work of one statement."""


class UnitBits:
    """What an engine knows of the units of its tables, and how it counts by it."""

    def __init__(
        self, policy: Policy, readers: dict[str, Reader], schema: SchemaDatabase, memory: int | None
    ) -> None:
        """Know nothing yet; `memory` is the most bytes that a database takes, None: most of the machine's."""
        self._memory = available_memory() if memory is None else memory
        self._policy = policy
        self._readers = readers
        self._schema = schema
        self._facts: dict[str, UnitFacts] = {}
        # Where a text failed, or was made of facts that do not hold: it would again.
        self._failed: set[tuple[object, ...]] = set()

    def columns(self, compiled: CompiledQuery) -> dict[str, tuple[str, SqlType]] | None:
        """Return the column of units of each private table that has one; None if one is no integer."""
        found: dict[str, tuple[str, SqlType]] = {}
        for name in compiled.tables:
            table = self._readers[name].table
            if not table.public and isinstance(table.unit, UnitColumn):
                column = integer_unit(self._readers[name])
                if column is None:
                    return None
                found[name] = column
        return found or None

    def count(
        self,
        compiled: CompiledQuery,
        attempt: Attempt,
        fetch: Callable[[duckdb.DuckDBPyConnection, str], _Rows],
        filled: FilledDomain | None,
        *,
        counts_only: bool,
    ) -> _Rows | Counts | None:
        """Run a faster text of a query, and return its rows; counts, where it has the groups by their places.

        None: there is no such text, it failed, or its numbers are not all there.
        """
        placed = None if filled is None else filled.by_place
        groups = _groups(compiled) if placed is None or filled is None else filled.size
        tried = (compiled.tables, groups)
        if not COUNTS_BITS or groups is None or tried in self._failed:
            return None
        query = compiled.query if placed is None else placed
        text = self.write(compiled, (query, query), groups, attempt)
        if text is None:
            return None

        def work(cursor: duckdb.DuckDBPyConnection) -> _Rows | Counts | None:
            if placed is None or filled is None:
                return text.count(lambda sql: fetch(cursor, sql), compiled.counts)
            rows = text.count(lambda sql: cursor.execute(sql).fetchnumpy(), compiled.counts)
            order = None if compiled.order is None else compiled.order.terms
            return None if rows is None else filled.seal_counts(rows, order)

        # A text that the statement's time ends is not tried again either: so this is written before.
        if len(self._failed) >= _FAILED:
            self._failed.clear()
        self._failed.add(tried)
        found = attempt(work, counts_only=counts_only)
        if found is not None:
            self._failed.discard(tried)
        return found

    def write(
        self, compiled: CompiledQuery, queries: tuple[Query, Query], groups: int, attempt: Attempt
    ) -> FasterText | None:
        """Write a faster text of a query that counts at most `groups` groups; None if there is none.

        None: there is none, or no use in one. The second query is the same with public rows in the place of
        those that only the private database has.
        """
        try:
            return self._write(compiled, *queries, groups, attempt) if COUNTS_BITS else None
        except Cancelled:
            raise
        except Exception:  # noqa: BLE001  whatever it is, the query itself is counted
            return None

    def _write(
        self, compiled: CompiledQuery, query: Query, form: Query, groups: int, attempt: Attempt
    ) -> FasterText | None:
        columns = self.columns(compiled)
        if columns is None or self._are_small(columns) or not units_counted(query):
            return None
        facts = [self._read(table, column, attempt) for table, (column, _) in columns.items()]
        known = [each for each in facts if each is not None]
        if len(known) < len(facts):
            return None
        kind = HUGEINT if any(kind.name == "UBIGINT" for _, kind in columns.values()) else BIGINT
        room = Room(groups, os.cpu_count() or 1, self._memory // 4)
        text = FasterText.of(query, known, room, kind)
        if text is not None:
            # The engine's binder understands it as it is meant, with a range of 0 and 1; else this raises.
            confirm(self._schema, bits_form(form, kind), self._policy)
        return text

    def _are_small(self, tables: Iterable[str]) -> bool:
        """Whether all of these tables are known to have too few rows for a faster text."""
        known = [self._facts.get(table) for table in tables]
        return all(facts is not None and not facts.has_rows(faster.FEWEST) for facts in known)

    def facts_of_many_rows(self, compiled: CompiledQuery, attempt: Attempt) -> list[UnitFacts] | None:
        """Return what is known of the private tables of a query.

        None: no table has many rows, or the source of one is not read again at little cost.
        """
        found: list[UnitFacts] = []
        for name in compiled.tables:
            reader = self._readers[name]
            if reader.table.public:
                continue
            if not isinstance(reader.table.source, (ParquetSource, DatabaseSource)):
                return None
            column = integer_unit(reader)
            facts = self._read(name, None if column is None else column[0], attempt)
            found += [] if facts is None else [facts]
        return found if any(facts.has_rows(FEWEST) for facts in found) else None

    def keep(self, table: str, facts: UnitFacts) -> None:
        """Keep the facts that `vet` found of a table's units."""
        self._facts[table] = facts

    def _read(self, table: str, column: str | None, attempt: Attempt) -> UnitFacts | None:
        """Return what is known of a table; read it if the source has it beside its rows.

        Without a column of units it is their number alone.
        """
        reader = self._readers[table]
        if table in self._facts or not isinstance(reader.table.source, (ParquetSource, DatabaseSource)):
            return self._facts.get(table)

        found = attempt(
            lambda cursor: UnitFacts.read(table, column, lambda sql: cursor.execute(sql).fetchall()),
            counts_only=not reader.converted,
        )
        return None if found is None else self._facts.setdefault(table, found)


def integer_unit(reader: Reader) -> tuple[str, SqlType] | None:
    """Return the column of units of a table, and its type; None if it has none, or units are no integers."""
    unit = reader.table.unit
    if reader.table.public or not isinstance(unit, UnitColumn) or isinstance(unit, UnitPeriod):
        return None  # the bits of a column are no units of a period
    same = (each for each in reader.columns if fold(each[0]) == fold(unit.column) and each[1].integer)
    return next(same, None)


def _groups(compiled: CompiledQuery) -> int | None:
    """Return of how many groups the text has bits at most; None if that depends on the data.

    It has bits of every group of the rows, also of one that no domain has, and they stay in memory. So these
    have to be one group more, or there are none: all domains are complete, which was tested.
    """
    groups = compiled.groups
    if groups is not None and groups.rows.keys:
        bounded = groups.outside or all(each.domain.complete for each in groups.domains)
        return groups.size if bounded else None
    return None if compiled.keys or compiled.places else 1
