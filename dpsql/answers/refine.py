"""Release one count again with less noise, given its stored release."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpsql import mechanisms
from dpsql.answers import measuring
from dpsql.answers.every_count import EveryCount
from dpsql.answers.method import NoisyResult, Quote
from dpsql.estimates import LaplaceNoise, Measurement, from_measurement
from dpsql.language import Scalar
from dpsql.privacy import Charge, PrivacyLoss

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.analysis import Plan
    from dpsql.answers.method import Method
    from dpsql.engines import Counts

_EXACT = 1 << 53
"""Grid steps below this are exact in a released DOUBLE."""


@dataclass(frozen=True, slots=True)
class RefinedCount:
    """Releases the one count of a plan at a larger epsilon, of which what it cost before is paid."""

    plan: Plan
    place: int
    mechanism: mechanisms.Refinement
    released: int
    """The release before, in grid steps."""
    quote: Quote

    @classmethod
    def of(cls, first: Method, rows: pa.Table, paid: Fraction, epsilon: Fraction) -> RefinedCount:
        """Plan a refinement to `epsilon`, where `rows` cost `paid` with all releases that they refine.

        `first` is the method that released the count first: its grid is that of all refinements.
        Raises `ValueError` with the reason if the count cannot be refined.
        """
        if not isinstance(first, EveryCount) or not isinstance(first.selection, Scalar):
            raise ValueError("only a count without GROUP BY can be refined")  # noqa: TRY004  one error type for callers
        if len(first.noise) != 1:
            raise ValueError("it has several counts, and only one count can be refined")
        ((place, noise),) = first.noise.items()
        plan, bits = first.plan, noise.resolution
        column = next((i for i, output in enumerate(plan.outputs) if output.kind == "count"), None)
        if column is None:
            raise ValueError("it does not show the count itself")
        value = rows.column(column)[0].as_py()
        if not abs(value) * 2**bits < _EXACT or not (value * 2**bits).is_integer():
            raise ValueError("its value is rounded, so its noise is not known exactly")
        bound = plan.counts[place].bound
        mechanism = mechanisms.Refinement.plan(1, [paid, epsilon], sensitivity=bound, resolution=bits)
        last = mechanisms.Laplace.plan(1, epsilon, sensitivity=bound, resolution=bits)
        quote = Quote(
            Charge(epsilon - paid),
            "Laplace, refined",
            float(last.scale),
            "all for measuring",
            last.stddev,
            last.half_width(measuring.confidence_of(plan)),
            None,
        )
        return cls(plan, place, mechanism, int(value * 2**bits), quote)

    def run(self, counts: Counts) -> NoisyResult:
        """Draw the less noisy value, given the released one."""
        refined = self.mechanism.again(counts.n[self.place], [self.released])
        noise = LaplaceNoise(self.mechanism.scales[-1], self.mechanism.resolution)
        estimate = from_measurement(Measurement(refined.value, noise, self.quote.half_width))
        estimates = [estimate if place == self.place else None for place in range(len(self.plan.counts))]
        loss = PrivacyLoss.of(self.quote.charge.epsilon)
        return NoisyResult(np.zeros(1, dtype=np.int64), loss, tuple(estimates))
