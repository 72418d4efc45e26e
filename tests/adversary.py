"""The best adaptive adversary of a privacy filter, by dynamic programming over log-ratios on a lattice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from dpsql.kernel.loss import Filter, PrivacyLoss, Totals


@dataclass(frozen=True)
class Action:
    """A mechanism: what is reserved; for each outcome its probability, log-ratio in steps, settled loss."""

    reserved: PrivacyLoss
    outcomes: tuple[tuple[float, int, PrivacyLoss], ...]


def worst(
    scope: Filter, menu: Sequence[Action], depth: int, step: Fraction, epsilon: Fraction | None = None
) -> float:
    """Return the largest mean of (1 - e^(epsilon - L))+ that so many adaptive statements reach.

    `step` is that of the lattice, `epsilon` the filter's own by default.
    """
    limit = float(scope.epsilon if epsilon is None else epsilon)
    kinds = list({loss: None for each in menu for _, _, loss in each.outcomes})
    acts = [(each.reserved, [(p, up, kinds.index(loss)) for p, up, loss in each.outcomes]) for each in menu]

    @cache
    def admitted(counts: tuple[int, ...], reserved: PrivacyLoss) -> bool:
        totals = Totals()
        for loss, times in zip(kinds, counts, strict=True):
            totals += scope.amounts(loss.repeated(times))
        return scope.admits(totals, reserved)

    @cache
    def value(steps: int, counts: tuple[int, ...], left: int) -> float:
        best = max(0.0, -math.expm1(limit - steps * float(step)))
        for reserved, outcomes in acts if left else []:
            if admitted(counts, reserved):
                after = [(*counts[:i], counts[i] + 1, *counts[i + 1 :]) for i in range(len(kinds))]
                best = max(
                    best, sum(p * value(steps + up, after[kind], left - 1) for p, up, kind in outcomes)
                )
        return best

    return value(0, (0,) * len(kinds), depth)
