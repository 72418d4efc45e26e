"""Release kept ladders: how large the parts of units in a table are, charged once to every analyst.

Each ladder is two mechanisms, one after the other: a search for a size M that few units exceed by much, and
noise on the number of units in each bin of sizes up to M. The charge is durable before a row is read.

Beside the ladder of a column's totals it may be released what its values have beyond their declared bounds. A
fifth of what the ladder costs is for that, where the column has bounds and it is known how many rows of a
unit are to count: one, or as the kept ladder of the table's rows says, or as the policy says.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.analysis.bound_ladders import ROWS, total_of
from dpsql.analysis.table_measures import (
    UnitMeasure,
    ValueMeasure,
    compile_group_measure,
    compile_unit_measure,
    compile_value_measure,
    find_declared_bounds,
)
from dpsql.database import run_sealed
from dpsql.errors import InternalError, OperationalError, ProgrammingError, with_article
from dpsql.estimates import KeptLadder, ValuesBeyond
from dpsql.kernel.check import NotCertified
from dpsql.kernel.loss import PrivacyLoss
from dpsql.kernel.loss.composing import Spending
from dpsql.kernel.mechanisms import FULL, Bins, Ladder, Laplace
from dpsql.kernel.mechanisms.ladder import VALUES_SHARE, ladder_loss
from dpsql.kernel.parted import run_bins
from dpsql.kernel.release import Run, score_change
from dpsql.ledger import LadderRequest
from dpsql.policy import MOST_ROWS, Policy, Table, UnitColumn, UnitRow, UnitVia, fold
from dpsql.release import tables_read
from dpsql.release.kept_ladders import version_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpsql.analysis.schema_catalog import Catalog
    from dpsql.database import Database, Engines
    from dpsql.ledger import LadderReservation

_MOVED = Fraction(1, 500)
"""By which part of the width of the bounds rows that are left out are taken to move the estimate."""


def column_of(measure: UnitMeasure) -> str | None:
    """Return the column whose total is measured; None: rows or groups are."""
    total = total_of("")
    return measure.text.removeprefix(total) if measure.text.startswith(total) else None


def decide_beyond(database: Database, measures: Sequence[UnitMeasure]) -> list[bool]:
    """Return for each measure whether its release also says what its column has beyond its bounds.

    It follows from the policy, from which ladders are kept, and from what is asked together.
    """
    rows = {each.table for each in measures if each.text == ROWS}
    return [_decide_beyond_of(database, each, rows_asked=each.table in rows) for each in measures]


def _decide_beyond_of(database: Database, measure: UnitMeasure, *, rows_asked: bool) -> bool:
    column, table = column_of(measure), database.policy.tables[measure.table]
    catalog = database.engines().schema_database
    if column is None or find_declared_bounds(catalog, table, column) is None:
        return False
    return rows_asked or _find_rows_that_count(database, table, Fraction(1)) is not None


def list_without_beyond(database: Database, measures: Sequence[UnitMeasure]) -> list[str]:
    """Return the names of columns with bounds for which no release says what lies beyond the bounds."""
    catalog, tables = database.engines().schema_database, database.policy.tables
    found = []
    for each, asked in zip(measures, decide_beyond(database, measures), strict=True):
        column = column_of(each)
        if not asked and column and find_declared_bounds(catalog, tables[each.table], column) is not None:
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
    rows = rows or _find_rows_that_count(database, table, epsilon)
    assert column is not None  # noqa: S101  `decide_beyond` says so
    assert rows is not None  # noqa: S101  likewise
    return compile_value_measure(policy, catalog, table, column, rows)


def _find_rows_that_count(database: Database, table: Table, epsilon: Fraction) -> int | None:
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
    return Laplace.plan(3, epsilon, groups_per_unit=1, sensitivity=measure.unit_change, resolution=0)


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
    if isinstance(table.unit, UnitColumn):
        return table.is_key(table.unit.column)
    if not isinstance(table.unit, UnitVia) or not table.is_key(table.unit.via):
        return False
    parent = policy.table(table.unit.table)
    return parent is not None and has_one_row(policy, parent)


LADDER_SHARE = Fraction(1, 20)
"""What a ladder costs by default, as a share of the policy's epsilon."""
_BUG = "this is a bug of dpsql: what was to be counted is not certified; its charge is kept"
_FAILED = (
    "the ladder was not measured, nobody was told anything; its charge is kept\n"
    "Hint: `dpsql check` tells whether the data can be read; asking again is a new charge"
)


def parse_measure(database: Database, name: str) -> UnitMeasure:
    """Return the measure that `TABLE`, `TABLE.COLUMN` or `TABLE by COLUMN, ..` names.

    Raises `ProgrammingError` if there is none.
    """
    policy, catalog = database.policy, database.engines().schema_database
    grouped = re.fullmatch(r"\s*(\S+)\s+by\s+(\S.*)", name, re.IGNORECASE | re.DOTALL)
    if grouped is not None:
        table = _find_table(policy, grouped[1])
        return compile_group_measure(policy, catalog, table, _find_keys(catalog, table, grouped[2]))
    table_name, _, column_name = name.partition(".")
    table, column = _find_table(policy, table_name), None
    if column_name:
        known = [
            each
            for each, kind in catalog.columns(table.name)
            if kind.numeric and not _names_the_unit(table, each)
        ]
        if _names_the_unit(table, column_name):
            of = "unit" if table.unit is None else table.unit.kind
            raise ProgrammingError(
                f"{table.name}.{column_name} says whose a row is: which {of}, and no number to add up\n"
                f"Hint: dpsql bounds {table.name} is about how many rows {with_article(of)} has"
            )
        column = next((each for each in known if each.lower() == column_name.lower()), None)
        if column is None:
            raise ProgrammingError(
                f"{table.name} has no column {column_name} with numbers\nHint: one of {', '.join(known)}"
            )
    return compile_unit_measure(policy, catalog, table, column)


def _find_table(policy: Policy, name: str) -> Table:
    table = policy.table(name) if name.isascii() else None
    if table is None:
        private = ", ".join(each.name for each in policy.tables.values() if not each.public)
        raise ProgrammingError(f"there is no table {name}\nHint: one of {private}")
    return table


def _find_keys(catalog: Catalog, table: Table, names: str) -> list[str]:
    """Return the columns that are named after `by`, as they are declared."""
    known = {fold(each): each for each, _ in catalog.columns(table.name) if "," not in each}
    asked = [each.strip() for each in names.split(",")]
    missing = next((each for each in asked if fold(each) not in known), None)
    if missing is not None:
        raise ProgrammingError(
            f"{table.name} has no column {missing}\nHint: one of {', '.join(known.values())}"
        )
    return list(dict.fromkeys(known[fold(each)] for each in asked))


def _names_the_unit(table: Table, column: str) -> bool:
    own = table.unit.column if isinstance(table.unit, UnitColumn) else getattr(table.unit, "via", None)
    return own is not None and fold(own) == fold(column)


def find_kept(database: Database, measure: UnitMeasure) -> KeptLadder | None:
    """Return the ladder of a measure that is kept of the data as they are now; None if there is none."""
    ladders = database.engines().schema_database.kept_ladders
    found = None if ladders is None else ladders.find(measure.table, measure.text)
    return found.ladder if found is not None and found.current else None


def list_losses(database: Database, measures: Sequence[UnitMeasure], epsilon: Fraction) -> list[PrivacyLoss]:
    """Return the losses of ladders that are asked together, at this epsilon each."""
    return [ladder_loss(epsilon, beyond=each) for each in decide_beyond(database, measures)]


def check_price(epsilon: Fraction) -> None:
    """Raise `ValueError` for an epsilon at which no ladder can be measured; called before a charge."""
    if epsilon <= 0:
        raise ValueError("epsilon must be positive")
    least = (1 - VALUES_SHARE) * epsilon
    Ladder.plan(2, least / 2, sensitivity=FULL)
    Bins.plan(1, least / 2)


def release_ladders(
    database: Database, measures: Iterable[UnitMeasure], epsilon: Fraction, statement: str
) -> list[KeptLadder]:
    """Charge, measure and keep a ladder of each measure, at this epsilon each; all are charged or none.

    Raises `BudgetExceeded` if a scope does not allow them all, and `OperationalError` if one could not be
    measured: its charge is kept.
    """
    engines, policy = database.engines(), database.policy
    # Those of rows first: how many rows count of what is beyond bounds follows from them.
    asked, requests = sorted(measures, key=lambda each: each.text != ROWS), []
    beyond = decide_beyond(database, asked)
    for each, loss in zip(asked, list_losses(database, asked, epsilon), strict=True):
        table = policy.tables[each.table]
        database.vet(engines, [each.table])
        version = version_of(policy, table, engines.versions, each.text)
        requests.append(LadderRequest(each.table, each.text, version, statement, loss))
    for each, values in zip(asked, beyond, strict=True):
        _certify_ends(database, each, epsilon, values=values)
    reserved = database.ledger.reserve_ladders(requests, engines.facts)
    waiting = list(zip(asked, reserved, beyond, strict=True))
    found: list[KeptLadder] = []
    try:
        while waiting:
            measure, reservation, of_values = waiting[0]
            part = VALUES_SHARE * epsilon if of_values else Fraction(0)
            found.append(_measure_and_keep(database, engines, measure, reservation, epsilon - part, part))
            del waiting[0]
    finally:
        for _, reservation, _ in waiting:
            database.ledger.fail_ladder(reservation)
    return found


def _certify_ends(database: Database, measure: UnitMeasure, epsilon: Fraction, *, values: bool) -> None:
    """Compile and certify a ladder's counting queries for the smallest and the largest bound, uncharged.

    What is not certified then is no reason to charge anything.
    """
    measure.scores()
    for bound in (measure.bounds[0], measure.bounds[-1]):
        measure.above((0, *Bins.plan(2 * bound, epsilon / 4).ends))
    if values:
        for rows in (1, MOST_ROWS):
            beyond_measure(database, measure, epsilon, rows)


def _measure_and_keep(
    database: Database,
    engines: Engines,
    measure: UnitMeasure,
    reservation: LadderReservation,
    epsilon: Fraction,
    of_values: Fraction,
) -> KeptLadder:
    """Measure one ladder whose charge is reserved, and keep it; with an epsilon `of_values` also these."""
    reads = tables_read(database.policy, [measure.table])

    def measure_all() -> tuple[int, tuple[int, ...], ValuesBeyond | None]:
        own = _measure_ladder(engines, database.policy, measure, epsilon)
        if not of_values:
            return *own, None
        values = beyond_measure(database, measure, of_values)
        return *own, measure_beyond(database, engines, values, of_values)

    try:
        made = run_sealed(measure_all, otherwise=None)
    except NotCertified:
        raise InternalError(_BUG) from None
    if made is None or not engines.is_unchanged(reads):
        raise OperationalError(_FAILED)
    most, bins, beyond = made
    ladder = KeptLadder(
        reservation.number,
        measure.table,
        measure.text,
        measure.step,
        reservation.request.version,
        datetime.now(UTC),
        epsilon,
        most,
        bins,
        beyond,
    )
    database.ledger.settle_ladder(reservation, ladder.to_json().encode())
    return ladder


def _measure_ladder(
    engines: Engines, policy: Policy, measure: UnitMeasure, epsilon: Fraction
) -> tuple[int, tuple[int, ...]]:
    """Return M and the noisy numbers of units in its bins, in steps of the measure."""
    reads = tables_read(policy, [measure.table])
    spending = Spending(ladder_loss(epsilon))
    run = Run(engines.count(measure.scores(), reads), spending)
    search = Ladder.plan(len(measure.bounds), epsilon / 2, sensitivity=score_change(run.changes))
    most = 2 * measure.bounds[run.search(search, len(measure.bounds))]
    bins = Bins.plan(most, epsilon / 2)
    above = [engines.count(query, reads) for query in measure.above((0, *bins.ends))]
    return most, tuple(int(number) for number in run_bins(bins, above, spending).number)
