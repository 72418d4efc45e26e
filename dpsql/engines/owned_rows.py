"""The queries of what the owner declares of the rows that have a unit: no NULL, no value beyond a domain.

When a table is opened they test it, and `dpsql check` counts with them what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpsql import zones
from dpsql.analysis.domains import same, whole
from dpsql.analysis.local_time import moved_by, steps_of
from dpsql.analysis.typed import Span
from dpsql.engines.duckdb.domains import Domains
from dpsql.engines.duckdb.sources import Reader
from dpsql.errors import InternalError
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Cast,
    Column,
    Constant,
    Derived,
    Expr,
    IsNull,
    Item,
    Join,
    Not,
    Paren,
    Query,
    Scan,
    Select,
    Source,
    conjunction,
    guarded,
)
from dpsql.policy import UnitColumn, UnitVia, fold
from dpsql.types import BIGINT, DATE, TIMESTAMP, VARCHAR, SqlType


class OwnedRows:
    """The rows of a table that have a unit, in a column of their own or found through a path.

    Rows without one are never counted, so nothing is declared of them. Of a table without units, and of one
    whose rows are units, it is all rows.
    """

    def __init__(self, readers: Mapping[str, Reader], domains: Domains, table: str) -> None:
        self._readers = {fold(name): reader for name, reader in readers.items()}
        self._domains = domains
        self._table = self._reader(table).table

    def values(self, column: str) -> Select:
        """Return the query of a column's values as `v`."""
        source, owned = self._owned(self._table.name)
        return Select((Item(self._value(column), "v"),), source, conjunction(owned))

    def nulls(self, columns: Sequence[str]) -> Select:
        """Return the query of how many rows there are, `n0`, and in how many each column has a value.

        The columns' counts are `n1`, `n2`, ..
        """
        source, owned = self._owned(self._table.name)
        there = (Aggregate("COUNT", (self._value(column),)) for column in columns)
        counts = (Item(count, f"n{i}") for i, count in enumerate((Aggregate("COUNT"), *there)))
        return Select(tuple(counts), source, conjunction(owned))

    def outside(self, column: str) -> Select:
        """Return the query of the rows with NULL or no declared value in a column, the value as `v`."""
        name, value = self._table.name, self._value(column)
        source, owned = self._owned(name)
        days, ends = self._domains.span(name, column), self._domains.integers(name, column)
        missing: Expr
        if days is not None:
            missing = _beyond(value, Cast(value, DATE), *(Constant(day, DATE) for day in days))
        elif ends is not None:
            missing = _beyond(value, Cast(value, BIGINT), *map(whole, ends))
        else:
            query, listed = self._domains.query(name, column), Column("d", "v")
            if query is None:
                raise InternalError("this column has no declared domain")
            source = Join(source, "LEFT", Derived(query, "d"), same(value, listed, null=False))
            missing = Paren(IsNull(listed))
        return Select((Item(value, "v"),), source, conjunction([*owned, missing]))

    def _reader(self, table: str) -> Reader:
        return self._readers[fold(table)]

    def _column(self, table: str, column: str) -> Column:
        names = {fold(name): name for name, _ in self._reader(table).columns}
        return Column("b", names[fold(column)], stored=True)

    def _value(self, column: str) -> Expr:
        """Return a column as statements read it: of one with a declared zone the time of UTC."""
        cell, zone = self._column(self._table.name, column), self._table.zone.get(column)
        if zone is None:
            return cell
        days = self._domains.span(self._table.name, column)
        span = Span.of_days(*days) if days else None
        return guarded(moved_by(cell, steps_of(TIMESTAMP, zones.zone(zone), span)))

    def _owned(self, table: str) -> tuple[Source, list[Expr]]:
        """Return a table's rows `b` that have a unit: a FROM item, and the conditions on it."""
        scan, unit = Scan(table, "b"), self._reader(table).table.unit
        if isinstance(unit, UnitColumn):
            return scan, [IsNull(self._column(table, unit.column), negated=True)]
        if isinstance(unit, UnitVia):
            own, key = self._link(table, unit)
            source, owned = self._owned(self._reader(unit.table).table.name)
            keys = Select((Item(key, "k"),), source, conjunction(owned), distinct=True)
            return Join(scan, "", Derived(keys, "q"), same(own, Column("q", "k"), null=False)), []
        return scan, []

    def _link(self, table: str, unit: UnitVia) -> tuple[Expr, Expr]:
        """Return the column that names a row of the parent, and the parent's key.

        A wrong policy may link columns of different types, which no statement does: texts are compared.
        """
        own, key = self._column(table, unit.via), self._column(unit.table, unit.column)
        kinds = (self._type(table, own), self._type(unit.table, key))
        if kinds[0] == kinds[1] or all(kind.integer for kind in kinds):
            return own, key
        return Cast(own, VARCHAR), Cast(key, VARCHAR)

    def _type(self, table: str, column: Column) -> SqlType:
        return next(kind for name, kind in self._reader(table).columns if name == column.name)


def count_rows(rows: Query) -> Select:
    """Return the query of how many rows a query has, as `n0`."""
    return Select((Item(Aggregate("COUNT"), "n0"),), Derived(rows, "r"))


def _beyond(value: Expr, compared: Expr, first: Expr, last: Expr) -> Expr:
    """Return the condition that a value is NULL or not between two ends."""
    within = Paren(Binary("AND", Binary(">=", compared, first), Binary("<=", compared, last)))
    return Paren(Binary("OR", Paren(IsNull(value)), Paren(Not(within))))
