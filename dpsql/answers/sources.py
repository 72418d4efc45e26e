"""The draws of noise that measured numbers are from, as what is computed from the numbers needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpsql.estimates import Average, RowCount, SumOfRows
from dpsql.estimates.noise_laws import Law, Linear, Made, Measured, Quotient, Source
from dpsql.estimates.predictions import in_counts, shared_noise
from dpsql.kernel.mechanisms import Gaussian

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dpsql.estimates import Formula
    from dpsql.kernel import mechanisms


def law_of(mechanism: mechanisms.Box | mechanisms.Gaussian) -> Law:
    """Return the law of one draw of a mechanism; each call is another draw."""
    if isinstance(mechanism, Gaussian):
        noise = shared_noise(mechanism, 0)
        return Law("gaussian", mechanism.size, shared=noise.shared / noise.own if noise.own else 0.0)
    return Law("box" if mechanism.pads else "cube", mechanism.size, mechanism.pads)


def source_of(mechanism: mechanisms.Box | mechanisms.Gaussian, law: Law, index: int) -> Source:
    """Return a draw as the number at an index has it."""
    if isinstance(mechanism, Gaussian):
        return Source(law, shared_noise(mechanism, index).own ** 0.5, mechanism.step(index))
    return Source(law, in_counts(mechanism, index, 1), mechanism.step(index))


def laplace_source(mechanism: mechanisms.Laplace) -> Source:
    """Return a draw of Laplace noise."""
    return Source(Law("laplace"), float(mechanism.scale), 2.0**-mechanism.resolution)


def made_of_moments(
    formula: Formula,
    uses: Sequence[int],
    moments: Mapping[int, NDArray[np.float64]],
    source: Source,
    step: float,
) -> Made | None:
    """Return what follows from moments of one column, in rows, as sums of them; None of what is no such sum.

    `moments` are in steps, of which a row has `1 / step`.
    """
    measured = [Measured.of(place, moments[place], source) for place in uses]

    def weighted(weights: Sequence[float]) -> Linear:
        return Linear(tuple(zip((weight * step for weight in weights), measured, strict=True)))

    rows = weighted([1.0] * len(measured))
    if isinstance(formula, RowCount):
        return rows
    if not isinstance(formula, (SumOfRows, Average)):
        return None
    low, high = float(formula.low), float(formula.high)
    values = weighted([low + (high - low) * k / (len(measured) - 1) for k in range(len(measured))])
    return values if isinstance(formula, SumOfRows) else Quotient(values, rows, low, high)


def difference(
    places: tuple[int, int],
    values: Mapping[int, NDArray[np.float64]],
    sources: Mapping[int, Source],
    rows: NDArray[np.int64],
) -> Linear:
    """Return the difference of two measured numbers, of some rows."""
    one, other = (Measured.of(place, values[place][rows], sources[place]) for place in places)
    return Linear(((1.0, one), (-1.0, other)))
