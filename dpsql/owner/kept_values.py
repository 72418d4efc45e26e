"""Releases what values of a column have beyond their declared bounds, beside its kept ladder.

A fifth of what a ladder of totals costs is for it, where the column has bounds and it is known how many rows
of a unit are to count: one, or as the kept ladder of the table's rows says, or as the policy says.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.analysis.kept_bounds import ROWS, total_of
from dpsql.analysis.value_measures import ValueMeasure, declared_bounds, value_measure
from dpsql.estimates import ValuesBeyond
from dpsql.kernel.mechanisms import Laplace
from dpsql.kernel.release import Run
from dpsql.kernel.step_costs import Spending
from dpsql.policy import Policy, Table, UnitColumn, UnitRow, UnitVia, fold
from dpsql.release import tables_read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsql.analysis.unit_measures import UnitMeasure
    from dpsql.database import Database, Engines

SHARE = Fraction(1, 5)
"""The part of the price of a ladder that is for what its column has beyond bounds."""
_MOVED = Fraction(1, 500)
"""By which part of the width of the bounds rows that are left out are taken to move the estimate."""


def column_of(measure: UnitMeasure) -> str | None:
    """Return the column whose total is measured; None: rows or groups are."""
    total = total_of("")
    return measure.text.removeprefix(total) if measure.text.startswith(total) else None


def beyond_asked(database: Database, measures: Sequence[UnitMeasure]) -> list[bool]:
    """Return for each measure whether its release also says what its column has beyond its bounds.

    It follows from the policy, from which ladders are kept, and from what is asked together.
    """
    rows = {each.table for each in measures if each.text == ROWS}
    return [_is_asked(database, each, rows_asked=each.table in rows) for each in measures]


def _is_asked(database: Database, measure: UnitMeasure, *, rows_asked: bool) -> bool:
    column, table = column_of(measure), database.policy.tables[measure.table]
    catalog = database.engines().schema_database
    if column is None or declared_bounds(catalog, table, column) is None:
        return False
    return rows_asked or _rows_that_count(database, table, Fraction(1)) is not None


def beyond_unasked(database: Database, measures: Sequence[UnitMeasure]) -> list[str]:
    """Return the names of columns with bounds for which no release says what lies beyond the bounds."""
    catalog, tables = database.engines().schema_database, database.policy.tables
    found = []
    for each, asked in zip(measures, beyond_asked(database, measures), strict=True):
        column = column_of(each)
        if not asked and column and declared_bounds(catalog, tables[each.table], column) is not None:
            found.append(f"{each.table}.{column}")
    return found


def beyond_measure(
    database: Database, measure: UnitMeasure, epsilon: Fraction, rows: int | None = None
) -> ValueMeasure:
    """Compile the sums of what a measure's column has beyond its bounds, for a release at this epsilon.

    `rows` of a unit count, or as many as is known when it is released.
    """
    policy, catalog = database.policy, database.engines().schema_database
    table, column = policy.tables[measure.table], column_of(measure)
    rows = rows or _rows_that_count(database, table, epsilon)
    assert column is not None  # noqa: S101  `beyond_asked` says so
    assert rows is not None  # noqa: S101  likewise
    return value_measure(policy, catalog, table, column, rows)


def _rows_that_count(database: Database, table: Table, epsilon: Fraction) -> int | None:
    """Return how many rows of a unit count: few, so that there is little noise; None: nobody says it."""
    policy, ladders = database.policy, database.engines().schema_database.kept_ladders
    if isinstance(table.unit, UnitRow) or has_one_row(policy, table):
        return 1
    kept = None if ladders is None else ladders.find(table.name, ROWS)
    if kept is not None:
        return kept.ladder.choose_average_bound(epsilon, moved=_MOVED)
    said = policy.defaults.rows_per_unit if table.rows_per_unit is None else table.rows_per_unit
    return said if isinstance(said, int) else None


def noise_of(measure: ValueMeasure, epsilon: Fraction) -> Laplace:
    """Return the noise of the three numbers, of which one unit moves all together by the measure's bound."""
    return Laplace.plan(3, epsilon, groups_per_unit=1, sensitivity=measure.moved, resolution=0)


def measure_beyond(
    database: Database, engines: Engines, measure: ValueMeasure, epsilon: Fraction
) -> ValuesBeyond:
    """Measure what values have beyond their bounds; its charge is reserved."""
    reads = tables_read(database.policy, measure.compiled.tables)
    noise = noise_of(measure, epsilon)
    run = Run(engines.count(measure.compiled, reads), Spending(noise.loss))
    places = range(len(run.changes.numbers))
    above, below, left = (int(number) for number in run.measure(noise, places, run.every()).value)
    return ValuesBeyond(
        measure.low, measure.high, measure.rows, measure.width, measure.step, epsilon, above, below, left
    )


def has_one_row(policy: Policy, table: Table) -> bool:
    """Return whether a unit has at most one row, by a fact of the policy."""
    facts = {fold(fact[0]) for fact in table.unique if len(fact) == 1}
    if isinstance(table.unit, UnitColumn):
        return fold(table.unit.column) in facts
    if not isinstance(table.unit, UnitVia) or fold(table.unit.via) not in facts:
        return False
    parent = policy.table(table.unit.table)
    return parent is not None and has_one_row(policy, parent)
