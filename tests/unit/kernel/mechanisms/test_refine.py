"""Refinement enumerated: the shipped code runs on every noise; the pair of releases has the law claimed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.mechanisms import NoiseSource, Refinement

REACH = 28
"""Draws up to this many scales are enumerated; larger ones have a probability below 1e-12."""


@dataclass(frozen=True)
class Given(NoiseSource):
    """Noise that a test chose, by the scale that it is drawn at."""

    noise: dict[Fraction, NDArray[np.int64]] = field(kw_only=True)

    def draw(self, _: object, scale: Fraction, *__: object) -> NDArray[np.int64]:
        return self.noise[scale].copy()


def laplace(rate: float, z: NDArray[np.int64] | int) -> NDArray[np.float64]:
    return np.asarray(np.tanh(rate / 2) * np.exp(-rate * np.abs(z)))


def pairs(before: Fraction, now: Fraction) -> dict[tuple[int, int], float]:
    """Return the probability of each pair of noises that the mechanism draws on whole counts."""
    plan = Refinement.plan(1, [before, now], resolution=0)
    reach = [int(REACH / rate) + 1 for rate in (before, 2 * before, now - before)]
    axes = [np.arange(-reach[0], reach[0] + 1), *(np.arange(reach[i] + 1) for i in (1, 2, 2))]
    first, common, above, below = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
    given = {
        1 / before: first[:, None],
        1 / before / 2: common[:, None],
        1 / (now - before): np.stack([above, below])[:, :, None],
    }
    count = 7
    runs = plan.run(np.full((len(first), 1), count), Given(noise=given)).value
    assert (runs[:, 0] == count + first).all()
    rate, more = float(before), float(now - before)
    mass = laplace(rate, first) * -np.expm1(-2 * rate) * np.exp(-2 * rate * common)
    for fresh in (above, below):  # the last one stands for all from there on: none of the others is larger
        mass *= np.exp(-more * fresh) * np.where(fresh == reach[2], 1, -np.expm1(-more))
    second = (runs[:, 1] - count).astype(np.int64)
    cells, place = np.unique(np.stack([first, second]), axis=1, return_inverse=True)
    masses = np.bincount(place.ravel(), mass).tolist()
    return {(z1, z2): weight for (z1, z2), weight in zip(cells.T.tolist(), masses, strict=True)}


@pytest.mark.parametrize(("before", "now"), [("1.5", "2.6"), ("1", "4")])
def test_the_second_release_has_the_second_law_and_the_first_adds_nothing(before: str, now: str) -> None:
    law = pairs(Fraction(before), Fraction(now))
    seen = {z2: 0.0 for _, z2 in law}
    for (_, z2), mass in law.items():
        seen[z2] += mass
    for z2 in range(-8, 9):
        assert seen[z2] == pytest.approx(laplace(float(Fraction(now)), z2), abs=1e-12)
    # P(z1 | z2) depends on z1 - z2 alone: it is the same for every z2.
    for z2, apart in itertools.product(range(-4, 5), range(-8, 9)):
        assert law.get((z2 + apart, z2), 0) / seen[z2] == pytest.approx(
            law.get((apart, 0), 0) / seen[0], abs=1e-10
        )


@pytest.mark.parametrize(("before", "now"), [("1.5", "2.6"), ("2", "3.5")])
def test_the_pair_costs_the_second_epsilon_and_not_less(before: str, now: str) -> None:
    """A unit moves the count by one, which moves both noises: the worst ratio is e^epsilon of the second."""
    law = pairs(Fraction(before), Fraction(now))
    near = [(z1, z2) for z1, z2 in law if abs(z1) <= 8 and abs(z2) <= 4]
    worst = max(abs(np.log(law[z1, z2] / law[z1 + 1, z2 + 1])) for z1, z2 in near)
    assert worst == pytest.approx(float(Fraction(now)), abs=1e-6)


def test_a_release_given_the_one_before_is_that_of_the_run() -> None:
    """`again` continues from released grid steps as `run` does from its own."""
    plan = Refinement.plan(2, ["0.1", "0.25", "0.7"], sensitivity=3, resolution=2)
    drawn = np.random.default_rng(3)
    noise = {plan.scales[0]: drawn.integers(-90, 90, (50, 2))}
    for before, now in itertools.pairwise(plan.scales):
        noise[before / 2] = drawn.integers(0, 200, (50, 2))
        noise[1 / (1 / now - 1 / before)] = drawn.integers(0, 99, (2, 50, 2))
    counts = drawn.integers(0, 1000, (50, 2))
    runs = plan.run(counts, Given(noise=noise)).value
    released = (runs[:, 2:4] * 4).astype(np.int64)
    assert (plan.again(counts, released, Given(noise=noise)).value == runs[:, 4:]).all()


def test_levels_must_increase_and_their_noise_must_fit_the_grid() -> None:
    for epsilons in ([], [1, 1], [2, 1], [0, 1]):
        with pytest.raises(ValueError, match=r"increase|positive"):
            Refinement.plan(1, epsilons)
    with pytest.raises(ValueError, match="grid steps"):
        Refinement.plan(1, [1, 1 + Fraction(1, 2**40)], resolution=20)
