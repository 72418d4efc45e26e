"""The query that tests a domain that the owner declares complete."""

from __future__ import annotations

from dpsql.analysis.domains import same, whole
from dpsql.engines.duckdb.domains import Domains
from dpsql.engines.duckdb.sources import Reader
from dpsql.policy import UnitColumn, fold
from dpsql.tree import (
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
)
from dpsql.types import BIGINT, DATE


def rows_outside(reader: Reader, column: str, domains: Domains) -> Query:
    """Return the query of how many rows that have a unit have NULL or no declared value in a column.

    The count is the column `n0`. A domain that is complete has none.
    """
    table, names = reader.table, {fold(name): name for name, _ in reader.columns}
    cell = Column("b", names[fold(column)], stored=True)
    source: Source = Scan(table.name, "b")
    days, ends = domains.span(table.name, column), domains.integers(table.name, column)
    inside: Expr
    if days is not None:
        inside = _between(Cast(cell, DATE), *(Constant(day, DATE) for day in days))
    elif ends is not None:
        inside = _between(Cast(cell, BIGINT), *map(whole, ends))
    else:
        query = domains.query(table.name, column)
        assert query is not None  # noqa: S101  the policy declares it
        source = Join(source, "LEFT", Derived(query, "d"), same(cell, Column("d", "v"), null=False))
        inside = Paren(IsNull(Column("d", "v"), negated=True))
    there: list[Expr] = [Paren(Binary("OR", Paren(IsNull(cell)), Paren(Not(inside))))]
    if isinstance(table.unit, UnitColumn):
        unit = Column("b", names[fold(table.unit.column)], stored=True)
        there.append(Paren(IsNull(unit, negated=True)))
    return Select((Item(Aggregate("COUNT"), "n0"),), source, conjunction(there))


def _between(value: Expr, first: Expr, last: Expr) -> Expr:
    return Paren(Binary("AND", Binary(">=", value, first), Binary("<=", value, last)))
