"""The law of noisy top-k's output, against continuous noise drawn by numpy and floored at the end.

Fixed seeds; each test's false-alarm rate over seeds is 1e-9, and it must reject noise of 0.7 and 1.3
times the scale and every other rule for ties.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, chi2_contingency

from dpsql.kernel.mechanisms import NoisyTopK, TopK
from dpsql.kernel.mechanisms.noisy_order import select
from dpsql.kernel.noise import geometric
from dpsql.mechanisms import anchor, laplace, noisy_top_k
from dpsql.noise import SeededEntropy

ALARM = 1e-9
TRIALS = 60_000
COUNTS = np.array([3, 5, 5, 4])


def ideal(
    k: int, scale: Fraction, step: Fraction, *, noise: str = "exponential", seed: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Index and gap, in grid steps, of continuous noise: gaps floored to the grid at the very end."""
    rng = np.random.default_rng(seed)
    shape = (2 * TRIALS, len(COUNTS))
    if noise == "laplace":  # as designed: discrete on the grid, uniform within a step
        r = -np.expm1(-float(step / scale))
        shift = (rng.geometric(r, shape) - rng.geometric(r, shape) + rng.random(shape)) * float(step)
    else:
        shift = rng.exponential(float(scale), shape)
    values = COUNTS + shift
    order = np.argsort(-values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    return order[:, :k], np.floor((ordered[:, :-1] - ordered[:, 1:]) / float(step))[:, :k].astype(np.int64)


def same_law(
    first: tuple[NDArray[np.int64], NDArray[np.int64]],
    second: tuple[NDArray[np.int64], NDArray[np.int64]],
    widths: Sequence[int],
) -> float:
    """p-value of a two-sample chi-square on (index, gap cut into cells of the given widths)."""

    def code(sample: tuple[NDArray[np.int64], NDArray[np.int64]]) -> NDArray[np.int64]:
        index, gap = sample
        cells = np.minimum(gap // np.array(widths), 6)
        return np.hstack([index, cells]) @ (7 ** np.arange(index.shape[1] + gap.shape[1]))

    a, b = code(first), code(second)
    table = np.array(
        [
            np.bincount(a, minlength=max(a.max(), b.max()) + 1),
            np.bincount(b, minlength=max(a.max(), b.max()) + 1),
        ]
    )
    thin = table.sum(axis=0) < 40
    table = np.hstack([table[:, ~thin], table[:, thin].sum(axis=1, keepdims=True)])
    return chi2_contingency(table[:, table.sum(axis=0) > 0], correction=False).pvalue


def released(
    k: int, epsilon: int, options: dict[str, Any], seed: int = 2
) -> tuple[TopK[NoisyTopK], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    found = noisy_top_k(np.tile(COUNTS, (TRIALS, 1)), k, epsilon, entropy=SeededEntropy(seed), **options)
    return found, (found.index, np.round(found.gap * 2**found.plan.resolution).astype(np.int64))


@pytest.mark.parametrize(
    "options",
    [
        {"noise": "geometric"},
        {"resolution": 2},
        {},
        {"noise": "laplace", "resolution": 0},
        {"noise": "laplace"},
    ],
)
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.sampled(7)
def test_law(k: int, options: dict[str, Any]) -> None:
    found, sample = released(k, 1, options)
    step = Fraction(1, 2**found.plan.resolution)
    noise = options.get("noise", "exponential")
    # Cells of one grid step where the grid is coarse, so that ties weigh.
    width = [max(1, int(found.plan.scale / step / 4))] * k
    for factor in (Fraction(7, 10), Fraction(1), Fraction(13, 10)):
        expected = ideal(k, found.plan.scale * factor, step, noise=noise)
        assert (same_law(sample, expected, width) > ALARM) == (factor == 1), factor


@pytest.mark.parametrize("rule", ["fixed", "plain gap", "random"])
def test_other_rules_for_ties_are_rejected(rule: str) -> None:
    """Whole-count noise, where a third of the outputs involve a tie."""
    entropy = SeededEntropy(3)
    values = COUNTS + geometric(Fraction(1), (TRIALS, 4), entropy=entropy)
    fixed = np.tile(np.arange(4)[::-1], (TRIALS, 1))
    ranks = fixed if rule == "fixed" else np.argsort(entropy.words(4 * TRIALS).reshape(-1, 4), axis=1)
    index, gap = select(values, ranks, 1)
    if rule == "plain gap":
        ordered = np.sort(values, axis=1)[:, ::-1]
        gap = ordered[:, :1] - ordered[:, 1:2]
    accepted = same_law((index, gap), ideal(1, Fraction(1), Fraction(1)), [1]) > ALARM
    assert accepted == (rule == "random")


def test_two_groups_in_closed_form() -> None:
    """One group more: the gap of two is a floored Laplace variable, so both tails are known."""
    counts, scale = np.array([2, 0]), 1.0
    found = noisy_top_k(np.tile(counts, (TRIALS, 1)), 1, 1, noise="geometric", entropy=SeededEntropy(4))
    signed = np.where(found.index[:, 0] == 0, found.gap[:, 0], -1 - found.gap[:, 0])
    edges = np.arange(-4, 8)

    def below(x: NDArray[np.floating]) -> NDArray[np.float64]:
        return np.where(x < 0, 0.5 * np.exp(-np.abs(x) / scale), 1 - 0.5 * np.exp(-np.abs(x) / scale))

    expected = np.diff(np.concatenate([[0], below(edges - 2.0), [1]])) * TRIALS
    seen = np.bincount(np.searchsorted(edges, signed, side="right"), minlength=len(expected))
    assert chi2.sf(((seen - expected) ** 2 / expected).sum(), len(expected) - 1) > ALARM
    wrong = np.roll(expected, 1)
    assert chi2.sf(((seen - wrong) ** 2 / wrong).sum(), len(expected) - 1) < ALARM


@pytest.mark.parametrize("calls", [4_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_one_run_has_the_law_of_a_batch(calls: int) -> None:
    """A single run ranks only its contenders; so do these runs."""
    entropy = SeededEntropy(5)
    runs = [noisy_top_k(COUNTS, 1, 1, noise="geometric", entropy=entropy) for _ in range(calls)]
    index, gap = np.array([run.index for run in runs]), np.array([run.gap for run in runs]).astype(np.int64)
    assert same_law((index, gap), ideal(1, Fraction(1), Fraction(1)), [1]) > ALARM
    assert same_law((index, gap), ideal(1, Fraction(13, 10), Fraction(1)), [1]) < ALARM


@pytest.mark.parametrize("calls", [5_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_measured_counts(calls: int) -> None:
    """|noise| over its scale is exponential: 64 cells of equal mass; so is the anchor's."""
    draws = laplace(np.full(TRIALS, 100), 20, entropy=SeededEntropy(6)).value - 100
    entropy = SeededEntropy(7)
    totals = np.array([anchor([40, 60], 20, entropy=entropy).value[0] - 100 for _ in range(calls)])
    for sample in (draws, totals):
        for factor in (0.7, 1.0, 1.3):
            cell = np.floor(64 * np.exp(-np.abs(sample) / (20 * factor))).clip(0, 63).astype(int)
            seen = np.bincount(2 * cell + (sample > 0), minlength=128)
            expected = len(sample) / 128
            # The grid of 1/64 count and the mass at 0 shift a cell's probability by under 1e-3 of it.
            p = chi2.sf(((seen - expected) ** 2 / expected).sum(), 127)
            assert (p > ALARM) == (factor == 1.0)
