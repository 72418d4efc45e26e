"""The public bounds of a declared column: from the policy, its domain, or a public table's values."""

from __future__ import annotations

from datetime import date
from fractions import Fraction

from dpsql.analysis.catalog import Catalog
from dpsql.analysis.typed import TRUTH, Bounds, Span
from dpsql.policy import (
    Domain,
    Policy,
    RangeDomain,
    Table,
    TableDomain,
    ValuesDomain,
    as_number,
    checked_bounds,
    fit,
)
from dpsql.types import BOOLEAN, TIMESTAMP, SqlType


def bounds_of_column(
    policy: Policy, catalog: Catalog, table: Table, column: str, sql_type: SqlType
) -> Bounds | None:
    """Return the bounds of a declared table's column; None if nothing public is known of its values."""
    place = f"{table.name}.{column}"
    if sql_type == BOOLEAN:
        return TRUTH
    if not sql_type.numeric and sql_type.name not in ("DATE", "TIMESTAMP"):
        return None
    if table.unit is None:
        return _of_values(catalog, table, column)
    if column in table.bounds:
        stated = checked_bounds(table.bounds[column], sql_type, table.place("bounds", column))
        step = None if stated.step is None else Fraction(stated.step)
        return Bounds(*stated.ends, f"the declared bounds of {place}", step)
    ends = _of_domain(policy, catalog, table.domain.get(column), sql_type)
    return None if ends is None else Bounds(*ends, f"the declared domain of {place}")


def _of_values(catalog: Catalog, table: Table, column: str) -> Bounds | None:
    ends = catalog.extent(table.name, column)
    return None if ends is None else Bounds(*ends, f"the values of {table.name}.{column}")


def _of_domain(
    policy: Policy, catalog: Catalog, domain: Domain | None, sql_type: SqlType
) -> tuple[Fraction, Fraction] | None:
    match domain:
        case ValuesDomain(values=values):
            numbers = [as_number(fit(value, sql_type)) for value in values]
            return min(numbers), max(numbers)
        case RangeDomain(start=date() as first, stop=date() as last) if sql_type == TIMESTAMP:
            span = Span.of_days(first, last)
            return Fraction(span.first), Fraction(span.last)
        case RangeDomain(start=start, stop=stop):
            return as_number(start), as_number(stop)
        case TableDomain(table=name, column=column) if (table := policy.table(name)) is not None:
            return catalog.extent(table.name, column)
    return None
