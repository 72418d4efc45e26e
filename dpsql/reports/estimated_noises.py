"""What the numbers of an estimate are made of: the measured ones, each with a weight.

SQL over the answers of a report computes other numbers, whose errors follow from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dpsql.analysis import Plan
from dpsql.estimates import Average, Combined, Formula, RowCount, SumOfRows
from dpsql.estimates.noise_laws import Weighted
from dpsql.estimates.number_noises import Made, NumberNoise, Quotient
from dpsql.estimates.reports.marginal_estimate import Estimate
from dpsql.reports.axes import LinearRelease, Numbers

_MOST = 4_000_000
"""Of more weights it is not computed."""


def find_noises(
    plan: Plan, linear: LinearRelease, numbers: Sequence[Combined], estimate: Estimate
) -> tuple[NumberNoise, ...] | None:
    """Return the noises of the numbers that a release shows; None where they would be too many."""
    size = sum(each.marginal.size for each in estimate.releases)
    if size * sum(each.wanted.size for each in linear.numbers) > _MOST:
        return None
    made = [_weigh(each, value, estimate) for each, value in zip(linear.numbers, numbers, strict=True)]
    formulas = {(each.uses, each.formula): (made[each.rows], made[each.ones]) for each in linear.formulas}
    return tuple(
        NumberNoise(
            made[output.of] if output.formula is None else _compute(output.formula, output.uses, formulas)
        )
        for output in plan.outputs
        if output.kind == "count"
    )


def _weigh(number: Numbers, value: Combined, estimate: Estimate) -> Weighted:
    names, sources, weights = list[tuple[int, int]](), [], []
    there = (number.places >= 0)[:, None]
    places = np.maximum(number.places, 0)
    for released, own in estimate.weigh(number.wanted):
        names += [(released.release, place) for place in range(own.shape[1])]
        sources += [released.draw] * own.shape[1]
        weights.append(np.where(there, own[places], 0.0))
    joined = np.concatenate(weights, axis=1) if weights else np.zeros((len(places), 0))
    return Weighted(value.value, tuple(names), tuple(sources), joined)


def _compute(
    formula: Formula,
    uses: tuple[int, ...],
    known: Mapping[tuple[tuple[int, ...], Formula], tuple[Weighted, Weighted]],
) -> Made | None:
    rows, ones = known[uses, formula]
    match formula:
        case RowCount():
            return rows
        case SumOfRows(high=high):
            return ones.scale(float(high))
        case Average(low=low, high=high) if rows.names == ones.names:
            width = float(high - low)
            above = replace(
                ones,
                value=float(low) * rows.value + width * ones.value,
                weights=float(low) * rows.weights + width * ones.weights,
            )
            return Quotient(above, rows, float(low), float(high))
    return None
