"""Stability tests: whether one unit could change an answer, by its distance from changing."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.loss import Number, PrivacyLoss
from dpsql.kernel.mechanisms.arguments import between, bound, positive
from dpsql.kernel.mechanisms.grid import NoiseSource, grid_of
from dpsql.kernel.mechanisms.sparse_vector_plan import mean_noise
from dpsql.kernel.mechanisms.tails import laplace_cutoff, one_sided_cutoff

StableNoise = Literal["one-sided", "laplace"]
"""Law of the noise of stability tests; the one-sided one is geometric on the grid."""


@dataclass(frozen=True, slots=True)
class StabilityTests:
    """The public facts of stability tests against one noisy threshold.

    Attributes
    ----------
    noise
        Law of both noises.
    threshold_epsilon, epsilon
        Charge of the threshold, and of one test that is paid for.
    delta
        Bound on the probability that any of the tests passes at distance 0.
    threshold_scale, scale
        Noise scales in counts: c/threshold_epsilon and 2c/epsilon.
    resolution
        b, for a grid of 2^-b counts.
    cutoff
        In grid steps: a test passes if distance + noise >= cutoff + the threshold's noise.

    Notes
    -----
    Carvalho et al. (UAI 2020), Algorithm 4; the one-sided noise and the gap are ours. The first test of m
    that passes is released, and paid for. All are always evaluated; the comparison is `>=`.

    *Private:* a query whose answers on D and D' differ has distance 0 on both. Each such test passes
    with probability at most delta/m, for m tests; the cutoff is the least that guarantees this by the
    exact tail on the grid (`tails`; any share is allowed). Otherwise the answer is the same: leave
    all noise as it is, but for the threshold's, which moves by c, and if test i passes, its own,
    which moves by c + d_i - d'_i, from 0 to 2c. What failed still fails; the gap stays. Both move
    upwards, as one-sided noise needs, and which ones shows in the output: the alignment is injective.
    It costs c/threshold_scale, and if a test passes 2c/scale more.
    """

    noise: StableNoise
    threshold_epsilon: Fraction
    epsilon: Fraction
    delta: Fraction
    threshold_scale: Fraction
    scale: Fraction
    resolution: int
    cutoff: int

    @classmethod
    def plan(
        cls,
        tests: int,
        epsilon: Number,
        delta: Number,
        *,
        share: Number | None = None,
        noise: StableNoise = "one-sided",
        sensitivity: Number = 1,
        resolution: int | None = None,
        paid: int = 1,
    ) -> Self:
        """Plan so many `tests`, of which `paid` are paid for.

        Parameters
        ----------
        tests, paid
            How many; public.
        epsilon, delta
            Budget. Delta is spent in full.
        share
            Part of epsilon for the threshold's noise: .15 by default, .37 with Laplace noise.
        noise
            "one-sided", or "laplace" as in the paper.
        sensitivity
            How much one unit can change a distance: 1 for the distance in units.
        resolution
            As in `Mechanism`.
        """
        if noise not in get_args(StableNoise):
            raise ValueError("noise must be 'one-sided' or 'laplace'")
        budget, moved = positive(epsilon, "epsilon"), bound(sensitivity)
        # .37 is the paper's share; with one-sided noise the share is chosen for a low cutoff.
        usual = Fraction(37, 100) if noise == "laplace" else Fraction(15, 100)
        delta, part = between(delta, "delta"), usual if share is None else between(share, "share")
        first, each = part * budget, (1 - part) * budget / paid
        scales = (moved / first, 2 * moved / each)
        bits = grid_of("exponential", resolution, *scales)
        least = laplace_cutoff if noise == "laplace" else one_sided_cutoff
        cutoff = least(delta / max(tests, 1), *(exact_noise.rate(scale, bits) for scale in scales))
        return cls(noise, first, each, delta, *scales, bits, cutoff)

    @property
    def threshold(self) -> Fraction:
        """What is added to a gap, in counts, for an unbiased estimate of the distance."""
        law: Literal["exponential", "laplace"] = "laplace" if self.noise == "laplace" else "exponential"
        means = [mean_noise(law, scale, self.resolution) for scale in (self.threshold_scale, self.scale)]
        return Fraction(self.cutoff, 1 << self.resolution) + means[0] - means[1]

    def cover(self, most: int) -> bool:
        """Whether the charges are for distances that one unit changes by so much."""
        return most <= self.threshold_epsilon * self.threshold_scale and 2 * most <= self.epsilon * self.scale

    def loss(self, paid: int) -> PrivacyLoss:
        """Return the loss of the threshold and of so many tests that are paid for: of one mechanism.

        The threshold's noise is not released, so neither it nor a test is private by itself.
        """
        return PrivacyLoss.of(self.threshold_epsilon + paid * self.epsilon, self.delta)

    def margins(self, distances: NDArray[np.int64], source: NoiseSource) -> NDArray[np.int64]:
        """Return the margin of each test in grid steps, for distances of shape (trials, tests).

        A test passes if its margin is not negative. Negative distances are treated as 0.
        """
        law: Literal["exponential", "laplace"] = "laplace" if self.noise == "laplace" else "exponential"
        steps = exact_noise.place(np.maximum(distances, 0), self.resolution)
        steps -= self.cutoff + source.draw(law, self.threshold_scale, self.resolution, (len(steps), 1))
        steps += source.draw(law, self.scale, self.resolution, steps.shape)
        return steps


def first_test(steps: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first test passed along the last axis and its margin; -1 and 0 if there is none.

    >>> first_test(np.array([[-3, 0, 5], [-1, -2, -3]]))
    (array([ 1, -1]), array([0, 0]))
    """
    if steps.shape[-1] == 0:
        return np.full(steps.shape[:-1], -1), np.zeros(steps.shape[:-1], dtype=np.int64)
    passed = steps >= 0
    at: NDArray[np.int64] = np.argmax(passed, axis=-1)
    gap = np.take_along_axis(steps, at[..., None], axis=-1)[..., 0]
    found = passed.any(axis=-1)
    return np.where(found, at, -1), np.where(found, gap, 0)
