"""The public bounds of a declared column: from the policy, its domain, or a public table's values."""

from __future__ import annotations

from fractions import Fraction

from dpsql.analysis.catalog import Catalog
from dpsql.analysis.typed import TRUTH, Bounds, Span
from dpsql.policy import Table, fit_bounds
from dpsql.types import BOOLEAN, SqlType


def bounds_of_column(catalog: Catalog, table: Table, column: str, sql_type: SqlType) -> Bounds | None:
    """Return the bounds of a declared table's column; None if nothing public is known of its values."""
    place = f"{table.name}.{column}"
    if sql_type == BOOLEAN:
        return TRUTH
    if not (sql_type.numeric or sql_type.moment or sql_type.name == "DATE"):
        return None
    if column in table.bounds:
        stated = fit_bounds(table.bounds[column], sql_type, table.place("bounds", column))
        step = None if stated.step is None else Fraction(stated.step)
        return Bounds(*stated.ends, f"the declared bounds of {place}", step)
    known = "complete" if catalog.complete(table.name, column) else "declared"
    domain = f"the {known} domain of {place}"
    days = catalog.span(table.name, column)
    if days is not None:
        span = Span.of_days(*days)
        return Bounds(Fraction(span.first), Fraction(span.last), domain)
    ends = catalog.integers(table.name, column)
    if ends is not None:
        return Bounds(Fraction(ends[0]), Fraction(ends[1]), domain)
    if table.unit is not None and column not in table.domain:
        return None
    extent = catalog.extent(table.name, column)
    return (
        None
        if extent is None
        else Bounds(*extent, f"the values of {place}" if table.unit is None else domain)
    )
