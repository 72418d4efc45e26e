"""The public plan of a sparse vector run: budget shares, noise scales and cutoffs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpsql import noise as exact_noise
from dpsql.mechanisms.arguments import Noise, bound, kind, positive, whole
from dpsql.mechanisms.grid import grid_of
from dpsql.privacy import exact

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpsql.privacy import Number

__all__ = ["MOST_BRANCHES", "SparseVectorPlan", "best_share", "sparse_vector_plan"]

MOST_BRANCHES = 16
"""Most branches: each further one halves the budget of a hit."""

_LARGEST_CUTOFF = 1 << 62
"""Cutoffs are clamped here: beyond counts and noise, and differences with them do not overflow."""


@dataclass(frozen=True, eq=False, slots=True)
class SparseVectorPlan:
    """The public plan of a run of the sparse vector family, determined by public parameters alone.

    Tuples run over the branches in the order they are tried, cheapest first; the last is the base.

    Attributes
    ----------
    epsilon, share
        The budget, and the part of it that pays for the threshold's noise.
    hits
        Base hits the budget pays for, at most the number of groups.
    limit
        Most rows; None for as many as the budget pays for.
    threshold_scale, scales
        Noise scales in counts: of the threshold, and of the queries in each branch.
    bits
        The grid: 2^-bits counts.
    cutoffs
        int64, in grid steps: a branch passes if count + noise - threshold noise is at least this.
    offsets
        What is added to such a value, in counts, to get the gap: means of the noises, less the threshold.
    """

    noise: Noise
    epsilon: Fraction
    share: Fraction
    hits: int
    limit: int | None
    threshold_scale: Fraction
    scales: tuple[Fraction, ...]
    bits: int
    cutoffs: NDArray[np.int64]
    offsets: tuple[Fraction, ...]

    @property
    def branches(self) -> int:
        """Number of branches in which each group is tried."""
        return len(self.scales)

    @property
    def unit(self) -> Fraction:
        """Charge of a hit in the cheapest branch; it doubles with each next branch."""
        return (1 - self.share) * self.epsilon / (self.hits << (self.branches - 1))

    def spent(self, units: int) -> Fraction:
        """Return the charge of a run whose hits cost `units` units."""
        return self.share * self.epsilon + units * self.unit


def best_share(k: int, *, monotone: bool = True, branch: float = 0) -> Fraction:
    """Return the share of the budget for the threshold that minimises the variance of a gap.

    1/(1 + (kappa^2 4^j k^2)^(1/3)) for branch j, kappa = 1 for monotone counts and 2 for general
    ones (Free Gap, section 6.1; dissertation, section 5.4.1), as a nearby rational. By default a plan with
    several branches uses the middle one: on the papers' data this has the precision of the base branch's
    share and the number of hits of the cheapest branch's.
    """
    kappa = 1 if monotone else 2
    return Fraction(1 / (1 + (kappa * kappa * 4.0**branch * k * k) ** (1 / 3))).limit_denominator(10**9)


def sparse_vector_plan(
    groups: int,
    threshold: Number,
    k: int,
    epsilon: Number,
    *,
    limit: int | None,
    branches: int,
    share: Number | None,
    margin: Number | None,
    sensitivity: Number,
    monotone: bool,
    noise: Noise,
    resolution: int | None,
    below: bool,
) -> SparseVectorPlan:
    """Compute the plan of a run; raises `ValueError` if a public parameter is out of range."""
    budget, moved, noise = positive(epsilon, "epsilon"), bound(sensitivity), kind(noise)
    level = -exact(threshold) if below else exact(threshold)
    hits = min(whole(k, "k"), max(groups, 1))
    if limit is not None:
        limit = whole(limit, "limit")
    if whole(branches, "branches") > MOST_BRANCHES:
        raise ValueError(f"branches must be at most {MOST_BRANCHES}")
    middle = (branches - 1) / 2
    part = best_share(hits, monotone=monotone, branch=middle) if share is None else exact(share)
    if not 0 < part < 1:
        raise ValueError("share must lie between 0 and 1")
    base = (1 - part) * budget / hits
    threshold_scale = moved / (part * budget)
    scales = tuple(moved * (1 if monotone else 2) * (1 << j) / base for j in range(branches - 1, -1, -1))
    bits = grid_of(noise, resolution, threshold_scale, *scales)
    over = max(2.0, math.log(max(groups, 1) / hits)) if margin is None else exact(margin)
    if over < 0:
        raise ValueError("margin must not be negative")
    # Centres and margins are public numbers: as floats they cost accuracy in the last digit only.
    centre = _mean(noise, threshold_scale, bits)
    offsets = tuple(centre - _mean(noise, scale, bits) - level for scale in scales)
    wanted = [Fraction(over) * _deviation(noise, scale, bits) for scale in scales[:-1]] + [Fraction(0)]
    cutoffs = [
        math.ceil((needed - offset) * (1 << bits)) for needed, offset in zip(wanted, offsets, strict=True)
    ]
    return SparseVectorPlan(
        noise,
        budget,
        part,
        hits,
        limit,
        threshold_scale,
        scales,
        bits,
        np.array([max(-_LARGEST_CUTOFF, min(cutoff, _LARGEST_CUTOFF)) for cutoff in cutoffs], dtype=np.int64),
        offsets,
    )


def _mean(noise: Noise, scale: Fraction, bits: int) -> Fraction:
    """Return the mean of the noise on its grid, in counts: gamma r/(1 - r) for one-sided noise."""
    if noise == "laplace":
        return Fraction(0)
    return Fraction(1 / _grown(scale, bits)) / (1 << bits)


def _deviation(noise: Noise, scale: Fraction, bits: int) -> Fraction:
    """Return the standard deviation in counts: gamma sqrt(r)/(1 - r); for Laplace sqrt(2) times it."""
    grown = _grown(scale, bits)
    one_sided = math.sqrt(grown + 1) / grown
    return Fraction(one_sided * (math.sqrt(2) if noise == "laplace" else 1)) / (1 << bits)


def _grown(scale: Fraction, bits: int) -> float:
    # 1/r - 1; beyond e^500 the noise is 0 within the precision of a mean or a margin.
    return math.expm1(min(float(exact_noise.rate(scale, bits)), 500.0))
