"""Answer counts without GROUP BY: Laplace noise on each, without selection."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpsql import mechanisms
from dpsql.answers import measuring
from dpsql.answers.method import NoisyResult, Quote
from dpsql.privacy import Charge

if TYPE_CHECKING:
    from dpsql.analysis import Plan
    from dpsql.engines import Counts
    from dpsql.estimates import Combined

__all__ = ["LaplaceCounts"]


@dataclass(frozen=True, slots=True)
class LaplaceCounts:
    """Measures every distinct count once; `scales` maps a count's place to its scale."""

    plan: Plan
    scales: dict[int, Fraction]
    quote: Quote

    @classmethod
    def of(cls, plan: Plan) -> LaplaceCounts:
        """Divide the statement's epsilon among its counts."""
        parts = measuring.divide(plan, measuring.wanted(plan, 0), plan.epsilon)
        scales = {place: Fraction(plan.counts[place].bound) / epsilon for place, epsilon in parts.items()}
        widest = max(scales.values())
        quote = Quote(
            Charge(plan.epsilon),
            "Laplace",
            float(widest),
            "all for measuring" if len(parts) == 1 else f"divided among {len(parts)} counts",
            measuring.stddev(widest),
            measuring.half_width(plan, widest),
            None,
        )
        return cls(plan, scales, quote)

    def run(self, counts: Counts) -> NoisyResult:
        """Add noise to each count."""
        charge = Charge()
        estimates: list[Combined | None] = [None] * len(self.plan.counts)
        for place, scale in self.scales.items():
            measured = mechanisms.laplace(counts.n[place], scale, sensitivity=self.plan.counts[place].bound)
            charge += measured.charge
            estimates[place] = measuring.plain(self.plan, measured)
        return NoisyResult(np.zeros(1, dtype=np.int64), charge, tuple(estimates))
