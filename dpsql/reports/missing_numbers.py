"""Refuse, before anything is charged, a report whose answers would not follow from what it measures.

Which numbers follow depends on what is measured, never on what is released: so the same estimate says it
with noise of any size. They do not where values were declared later, or the estimate leaves out a release
that is too large.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsql.analysis import Catalog
from dpsql.errors import OperationalError
from dpsql.estimates.noise_laws import Law, NoiseDraw
from dpsql.estimates.reports.marginal_estimate import Estimate, Undetermined
from dpsql.estimates.reports.marginals import ReleasedMarginal
from dpsql.policy import Policy
from dpsql.reports.measured import MeasuredQuery, universe_of
from dpsql.reports.planned import ReportStatement


def check_told(
    statements: Sequence[ReportStatement],
    measured: Sequence[tuple[str, MeasuredQuery]],
    policy: Policy,
    catalog: Catalog,
) -> None:
    """Raise unless the planned measurements determine every number of a report's statements."""
    estimates = {table: _estimate(table, measured, policy, catalog) for table, _ in measured}
    for place, statement in enumerate(statements, 1):
        for linear in statement.estimated:
            for wanted in dict.fromkeys(number.wanted for number in linear.numbers):
                found = estimates[linear.table.name].variances(wanted)
                if isinstance(found, Undetermined):
                    raise OperationalError(
                        f"what is measured does not tell the numbers of statement {place}; missing:"
                        f" {found.text}; nothing was charged"
                    )


def _estimate(
    table: str, measured: Sequence[tuple[str, MeasuredQuery]], policy: Policy, catalog: Catalog
) -> Estimate:
    made = [
        ReleasedMarginal(i, each.marginal, np.zeros(each.marginal.size), NoiseDraw(Law("laplace"), 1.0))
        for i, (name, each) in enumerate(measured)
        if name == table
    ]
    return Estimate.of(made, universe_of([each.marginal for each in made], table, policy, catalog))
