"""Exact noise over numpy's inexact noise, and Gaussian noise over geometric noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

import numpy as np

from dpsql.kernel import noise

from .measures import Figure, Goal, alone, beside

__all__ = ["samplers"]

DRAWS = 1_000_000
DEVIATIONS = (7, 71, 1448, 10**5, 10**9)
RATES = (Fraction(1), Fraction(1, 20), Fraction(1, 1500), Fraction(1, 10**5), Fraction(1, 10**9))


def samplers(rounds: int) -> Iterator[Figure]:
    """One line a law and rate."""
    rng = np.random.default_rng(0)
    for rate in RATES:
        chance = -np.expm1(-float(rate))
        pairs: tuple[tuple[str, Callable[[], object], Callable[[], object]], ...] = (
            ("geometric", partial(noise.geometric, rate, DRAWS), partial(rng.geometric, chance, DRAWS)),
            ("laplace", partial(noise.laplace, rate, DRAWS), partial(rng.laplace, 0, 1 / float(rate), DRAWS)),
        )
        for name, exact, inexact in pairs:
            run = beside(exact, inexact, rounds)
            goal = Goal("ratio", 5) if name == "geometric" else None
            yield run.figure("noise, a draw", f"{name} of rate {rate}", "ns", scale=1e9 / DRAWS, goal=goal)
    for deviation in DEVIATIONS:
        run = beside(
            partial(noise.gaussian, deviation**2, DRAWS),
            partial(noise.geometric, Fraction(1, deviation), DRAWS),
            rounds,
        )
        what = f"gaussian of standard deviation {deviation}, over geometric"
        yield run.figure("noise, a draw", what, "ns", scale=1e9 / DRAWS, goal=Goal("ratio", 5))
    words = 1 << 15
    yield alone(
        "noise, a draw",
        "(random bits of the system, a word of 64)",
        lambda: noise.SystemEntropy().words(words),
        5 * rounds,
        "ns",
        scale=1e9 / words,
    )
