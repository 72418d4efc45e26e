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
    cell, source, outside, there = _outside(reader, column, domains)
    wrong = Paren(Binary("OR", Paren(IsNull(cell)), outside))
    return Select((Item(Aggregate("COUNT"), "n0"),), source, conjunction([wrong, *there]))


def values_outside(reader: Reader, column: str, domains: Domains) -> Query:
    """Return the query of the values outside a domain, `k0`, and their rows that have a unit, `n0`."""
    cell, source, outside, there = _outside(reader, column, domains)
    where = conjunction([Paren(IsNull(cell, negated=True)), outside, *there])
    return Select((Item(cell, "k0"), Item(Aggregate("COUNT"), "n0")), source, where, group=(cell,))


def _outside(reader: Reader, column: str, domains: Domains) -> tuple[Expr, Source, Expr, list[Expr]]:
    """Return a column, the FROM item in which it stands, that it is outside, and that its row has a unit."""
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
    there: list[Expr] = []
    if isinstance(table.unit, UnitColumn):
        unit = Column("b", names[fold(table.unit.column)], stored=True)
        there.append(Paren(IsNull(unit, negated=True)))
    return cell, source, Paren(Not(inside)), there


def _between(value: Expr, first: Expr, last: Expr) -> Expr:
    return Paren(Binary("AND", Binary(">=", value, first), Binary("<=", value, last)))
