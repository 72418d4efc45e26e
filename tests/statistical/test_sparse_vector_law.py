"""The law of the sparse vector family and the hybrids, against the printed algorithms run on numpy's noise.

Fixed seeds; each test's false-alarm rate over seeds is 1e-9, and it must reject noise of 0.7 and 1.3
times the scale.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2_contingency

from dpsql.kernel.mechanisms import Noise, SparseVector
from dpsql.kernel.public_order import in_public_order
from dpsql.mechanisms import adaptive_sparse_vector, hybrid_sparse_vector, hybrid_top_k
from dpsql.noise import SeededEntropy
from tests.narrow import present

ALARM = 1e-9
TRIALS = 16_000
FACTORS = (0.7, 1.0, 1.3)
SIZES = pytest.mark.parametrize(
    ("runs", "trials"), [(2000, 14_000), pytest.param(6000, 40_000, marks=pytest.mark.slow)]
)
"""Runs of the product one by one, and of what they are compared with. With the smaller numbers the wrong
scales had p-values below 1e-26 for both of two seeds."""


def same_law(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """p-value of a two-sample chi-square on rows of small integers."""
    both = np.vstack([first, second])
    _, code = np.unique(both, axis=0, return_inverse=True)
    code = code.ravel()
    table = np.array(
        [np.bincount(part, minlength=code.max() + 1) for part in (code[: len(first)], code[len(first) :])]
    )
    thin = table.sum(axis=0) < 40
    table = np.hstack([table[:, ~thin], table[:, thin].sum(axis=1, keepdims=True)])
    return chi2_contingency(table[:, table.sum(axis=0) > 0], correction=False).pvalue


def drawn(
    rng: np.random.Generator, noise: str, scale: float, shape: int | tuple[int, int]
) -> tuple[NDArray[np.float64], float]:
    """Centred noise of a law, its standard deviation, from numpy."""
    if noise == "laplace":
        return rng.laplace(0, scale, shape), np.sqrt(2) * scale
    if noise == "geometric":
        r = np.exp(-1 / scale)
        return rng.geometric(1 - r, shape) - 1 - r / (1 - r), np.sqrt(r) / (1 - r)
    return rng.exponential(scale, shape) - scale, scale


Groups = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Tag and gap of each group of each trial."""


def by_group(found: SparseVector, groups: int) -> Groups:
    """Branch tag (-1 below, -2 not answered) and gap of each group of each trial."""
    made = found.plan
    tags, gaps = np.full((len(found.index), groups), -1), np.zeros((len(found.index), groups))
    trial, slot = np.nonzero(found.index >= 0)
    place = found.index[trial, slot]
    tags[trial, place], gaps[trial, place] = found.branch[trial, slot], found.gap[trial, slot]
    stopped = found.units > (made.hits - 1) << (len(made.scales) - 1)
    last = np.where(stopped, found.index.max(axis=1), groups)
    tags[np.arange(groups) > last[:, None]] = -2
    return tags, gaps


def printed(
    counts: Sequence[int],
    threshold: int,
    k: int,
    epsilon: int,
    theta: float,
    *,
    noise: str,
    branches: int,
    margin: int,
    factor: float,
    rng: np.random.Generator,
    trials: int = TRIALS,
) -> Groups:
    """Dissertation, Algorithm 16, over trials: branch tag (-1 below, -2 stopped) and gap of each group."""
    base = (1 - theta) * epsilon / k
    noisy_threshold = threshold + drawn(rng, noise, factor / (theta * epsilon), trials)[0]
    cost = np.full(trials, theta * epsilon)
    tags, gaps = np.full((trials, len(counts)), -2), np.zeros((trials, len(counts)))
    for i, count in enumerate(counts):
        going = cost <= epsilon - base + 1e-9
        tag, gap = np.full(trials, -1), np.zeros(trials)
        for j in range(branches - 1, -1, -1):
            shift, sigma = drawn(rng, noise, factor * 2**j / base, trials)
            over = count + shift - noisy_threshold
            passes = (tag < 0) & (over >= (margin * sigma / factor if j else 0) - 1e-9)
            tag[passes], gap[passes] = j, over[passes]
        tags[going, i], gaps[going, i] = tag[going], gap[going]
        cost += np.where(going & (tag >= 0), base / 2.0 ** np.maximum(tag, 0), 0)
    return tags, gaps


def cells(tags: NDArray[np.int64], gaps: NDArray[np.float64], width: int) -> NDArray[np.int64]:
    """Tags, and gaps in at most four cells."""
    hit = tags >= 0
    return np.hstack(
        [tags, np.where(hit, np.minimum(np.floor(np.where(hit, gaps, 0) / width + 1e-9), 3), 0)]
    ).astype(int)


@pytest.mark.parametrize("branches", [1, 2, 3])
@pytest.mark.parametrize("noise", ["exponential", "laplace", "geometric"])
@pytest.mark.sampled(5)
def test_adaptive_sparse_vector(noise: Noise, branches: int) -> None:
    counts, threshold, k, epsilon, theta = [6, 16, 7], 8, 2, 1, 0.4
    runs = adaptive_sparse_vector(
        in_public_order(np.tile(counts, (TRIALS, 1))),
        threshold,
        k,
        epsilon,
        branches=branches,
        share="0.4",
        margin=1,
        noise=noise,
        entropy=SeededEntropy(1),
    )
    sample = cells(*by_group(runs, 3), 6)
    for factor in FACTORS:
        rng = np.random.default_rng(2)
        expected = printed(
            counts,
            threshold,
            k,
            epsilon,
            theta,
            noise=noise,
            branches=branches,
            margin=1,
            factor=factor,
            rng=rng,
        )
        assert (same_law(sample, cells(*expected, 6)) > ALARM) == (factor == 1), factor
    spent = [
        theta * epsilon + sum((1 - theta) * epsilon / k / 2**j for j in row if j >= 0)
        for row in runs.branch[:500]
    ]
    charges = [
        runs.plan.realised_loss(units).charge.epsilon for units in np.asarray(runs.units)[:500].tolist()
    ]
    assert np.allclose([float(charge) for charge in charges], spent)


@SIZES
def test_one_run_has_the_law_of_many(runs: int, trials: int) -> None:
    counts, entropy, rows = [6, 16, 7], SeededEntropy(3), []
    for _ in range(runs):
        found = adaptive_sparse_vector(
            in_public_order(counts), 8, 2, 1, branches=2, share="0.4", margin=1, entropy=entropy
        )
        padded: dict[str, Any] = {
            part: np.append(getattr(found, part), np.full(3 - len(found.index), -1))[None]
            for part in ("index", "branch", "gap")
        }
        rows.append(cells(*by_group(replace(found, units=np.array([found.units]), **padded), 3), 6)[0])
    for factor in FACTORS:
        many = printed(
            counts,
            8,
            2,
            1,
            0.4,
            noise="exponential",
            branches=2,
            margin=1,
            factor=factor,
            rng=np.random.default_rng(4),
            trials=trials,
        )
        assert (same_law(np.array(rows), cells(*many, 6)) > ALARM) == (factor == 1)


@SIZES
@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.sampled(2)
def test_hybrid_top_k(noise: Noise, runs: int, trials: int) -> None:
    """Algorithm 19: the order up to the threshold, and the last gap."""
    counts, threshold, k, entropy = np.array([6, 16, 9]), 8, 2, SeededEntropy(5)

    def row(index: Sequence[int], gap: Sequence[float], reached: bool, rest: float | None) -> list[int]:
        padded = [*index, *[-1] * (k - len(index))]
        # The threshold's own gap where it was reached, else the last group's.
        ahead = present(rest) if reached else gap[-1]
        return [*padded, int(reached), min(int(ahead // 2), 5)]

    rows = []
    for _ in range(runs):
        found = hybrid_top_k(counts, threshold, k, 1, noise=noise, entropy=entropy)
        rows.append(
            row(found.index.tolist(), found.gap.tolist(), bool(found.reached_threshold), float(found.rest))
        )
    for factor in FACTORS:
        rng, ideal = np.random.default_rng(6), []
        shift = drawn(rng, noise, factor * k, (trials, 4))[0]
        values = np.concatenate([[threshold], counts]) + shift
        order = np.argsort(-values, axis=1)
        gaps = -np.diff(np.take_along_axis(values, order, axis=1), axis=1)
        for items, gap in zip((order[:, :k] - 1).tolist(), gaps.tolist(), strict=True):
            reached = -1 in items
            end = items.index(-1) if reached else k
            ideal.append(row(items[:end], gap[:end], reached, gap[end] if reached else None))
        assert (same_law(np.array(rows), np.array(ideal)) > ALARM) == (factor == 1)


@SIZES
@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.sampled(2)
def test_hybrid_sparse_vector(noise: Noise, runs: int, trials: int) -> None:
    """Algorithm 20: the order of those above, and the first gap."""
    counts, threshold, k, entropy = np.array([8, 20, 11]), 9, 2, SeededEntropy(7)

    def row(index: Sequence[int], gap: Sequence[float]) -> list[int]:
        return [*index, *[-1] * (k - len(index)), min(int(gap[0] // 3), 5) if len(gap) else 0]

    rows = []
    for _ in range(runs):
        found = hybrid_sparse_vector(counts, threshold, k, 1, noise=noise, share="0.4", entropy=entropy)
        rows.append(row(found.index.tolist(), found.gap.tolist()))
    for factor in FACTORS:
        rng = np.random.default_rng(8)
        level = threshold + drawn(rng, noise, factor / 0.4, (trials, 1))[0]
        values = counts + drawn(rng, noise, factor * k / 0.6, (trials, 3))[0]
        order = np.argsort(-values, axis=1)[:, :k]
        over = np.take_along_axis(values, order, axis=1) - level
        ideal = [
            row(
                [item for item, gap in zip(items, gaps, strict=True) if gap >= 0],
                [gap for gap in gaps if gap >= 0],
            )
            for items, gaps in zip(order.tolist(), over.tolist(), strict=True)
        ]
        assert (same_law(np.array(rows), np.array(ideal)) > ALARM) == (factor == 1)
