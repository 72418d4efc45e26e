"""The law of what is released on an unknown domain, against laws computed or drawn without the product.

Fixed seeds; each test's false-alarm rate over seeds is at most 1e-9, and it must reject noise of 0.7
and 1.3 times the scale, noise left out, `>` for `>=`, and a delta off by a factor.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest, chi2, chi2_contingency

from dpsql.kernel.mechanisms import LimitedDomain, LimitedTopK, NoiseSource, TopStable
from dpsql.kernel.mechanisms.mechanism import Mechanism, R
from dpsql.kernel.mechanisms.top_stable import StableNoise
from dpsql.kernel.mechanisms.unknown_domain import largest_groups
from dpsql.kernel.public_order import in_public_order
from dpsql.mechanisms import StableAnswers, first_stable, limited_domain, stable_answers, top_stable
from dpsql.noise import SeededEntropy

ALARM = 1e-9
TRIALS = 60_000
CELLS = 6


def calls(small: int, full: int) -> pytest.MarkDecorator:
    """So many calls one by one every day, and in full; with both numbers every wrong law is rejected."""
    return pytest.mark.parametrize("calls", [small, pytest.param(full, marks=pytest.mark.slow)])


def chi_square(seen: NDArray[np.int64], expected: NDArray[np.float64]) -> float:
    """p-value of counts against expected ones; thin cells are put together."""
    thin = expected < 50
    if thin.any():
        seen = np.append(seen[~thin], seen[thin].sum())
        expected = np.append(expected[~thin], max(expected[thin].sum(), 1e-9))
    return chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1)


# Top Stable: the law in closed form, summed over the threshold's noise.


def pass_law(
    distances: NDArray[np.int64] | Sequence[int],
    cutoff: int,
    scales: Sequence[float],
    width: int,
    *,
    laplace: bool = False,
    quiet: bool = False,
    strict: bool = False,
) -> NDArray[np.float64]:
    """P(no test passes), then for each test P(it is the first and its gap is in cell g of `width`)."""
    ratios = [np.exp(-1 / scale) for scale in scales]
    reach = int(30 * max(scales))
    steps = np.arange(-reach if laplace else 0, reach)
    mass = ratios[0] ** np.abs(steps) * ((1 - ratios[0]) / (1 + ratios[0]) if laplace else 1 - ratios[0])
    if quiet:
        mass = (steps == 0).astype(float)

    def at_least(m: NDArray[np.int64]) -> NDArray[np.float64]:
        r = ratios[1]
        if not laplace:
            return r ** np.maximum(m, 0)
        return np.where(m > 0, r ** np.maximum(m, 0), 1 + r - r ** (1 - np.minimum(m, 0))) / (1 + r)

    still, law = mass, []
    for distance in distances:
        need = cutoff + steps - distance + strict
        tails = [at_least(need + width * g) for g in range(CELLS)] + [np.zeros(len(steps))]
        law += [(still * (one - next_)).sum() for one, next_ in pairwise(tails)]
        still = still * (1 - tails[0])
    return np.array([still.sum(), *law])


COUNTS = [14, 12, 7, 7, 0]
DISTANCES = [6, 0, 4, 1]  # of the 4, 3, 2 and 1 largest


def trials_of(plan: Mechanism[R], counts: Sequence[int], seed: int) -> R:
    """Many runs on the same counts."""
    return plan.run(np.tile(counts, (TRIALS, 1)), NoiseSource(SeededEntropy(seed)))


def released(plan: TopStable, width: int, seed: int) -> NDArray[np.int64]:
    done = trials_of(plan, COUNTS, seed)
    stable, steps = done.stable, np.nan_to_num(done.margin) * 2**plan.tests.resolution
    code = np.where(
        stable > 0, 1 + (len(DISTANCES) - stable) * CELLS + np.minimum(steps // width, CELLS - 1), 0
    ).astype(np.int64)
    return np.bincount(code, minlength=1 + CELLS * len(DISTANCES))


@pytest.mark.parametrize("resolution", [0, 4])
@pytest.mark.parametrize("noise", ["one-sided", "laplace"])
def test_top_stable(noise: StableNoise, resolution: int) -> None:
    plan = TopStable.plan(4, 1, "1/4", share="1/2", noise=noise, resolution=resolution)
    scales = [float(scale) * 2**resolution for scale in (plan.tests.threshold_scale, plan.tests.scale)]
    distances = np.array(DISTANCES) * 2**resolution
    width = max(1, int(scales[1] / 2))
    seen = released(plan, width, 1)
    laplace = noise == "laplace"

    def accepted(
        factors: tuple[float, float] = (1, 1), cutoff: int = plan.tests.cutoff, **options: Any
    ) -> bool:
        wrong = [scale * factor for scale, factor in zip(scales, factors, strict=True)]
        law = pass_law(distances, cutoff, wrong, width, laplace=laplace, **options)
        return chi_square(seen, law * TRIALS) > ALARM

    assert accepted()
    for factor in (0.7, 1.3):
        assert not accepted((factor, 1))
        assert not accepted((1, factor))
    assert not accepted(quiet=True)
    assert resolution > 0 or not accepted(strict=True)
    for delta in ("1/8", "1/2"):
        other = TopStable.plan(4, 1, delta, share="1/2", noise=noise, resolution=resolution)
        assert not accepted(cutoff=other.tests.cutoff)


@pytest.mark.parametrize("noise", ["one-sided", "laplace"])
def test_the_chance_at_distance_0_is_delta(noise: StableNoise) -> None:
    """One test at distance 0 passes with probability delta, by the grid's rounding a little less."""
    plan = TopStable.plan(1, 1, "1/20", noise=noise)
    passed = int((trials_of(plan, [5, 4], 2).stable > 0).sum())
    assert binomtest(passed, TRIALS, 0.05).pvalue > ALARM
    for factor in (0.7, 1.3):
        assert binomtest(passed, TRIALS, 0.05 * factor).pvalue < ALARM


@calls(2500, 8000)
def test_a_single_run_has_the_law_of_many(calls: int) -> None:
    """The functions themselves, call by call: what was found, and its gap."""
    entropy = SeededEntropy(3)
    plan = TopStable.plan(4, 1, "1/4", share="1/4", resolution=0).tests
    scales = [float(plan.threshold_scale), float(plan.scale)]
    options: dict[str, Any] = {"share": "1/4", "resolution": 0, "entropy": entropy}
    sets = [top_stable(COUNTS, 4, 1, "1/4", **options) for _ in range(calls)]
    firsts = [first_stable(in_public_order(DISTANCES), 1, "1/4", **options) for _ in range(calls)]
    codes = (
        [
            1 + (4 - int(s.stable)) * CELLS + min(int(s.margin // 2), CELLS - 1) if s.stable else 0
            for s in sets
        ],
        [
            1 + int(f.index[0]) * CELLS + min(int(f.gap[0] // 2), CELLS - 1) if len(f.index) else 0
            for f in firsts
        ],
    )
    for code in codes:
        seen = np.bincount(code, minlength=1 + CELLS * 4)
        for factors in ((1, 1), (0.7, 1), (1.3, 1), (1, 0.7), (1, 1.3)):
            wrong = [scale * factor for scale, factor in zip(scales, factors, strict=True)]
            law = pass_law(DISTANCES, plan.cutoff, wrong, 2)
            assert (chi_square(seen, law * calls) > ALARM) == (factors == (1, 1))


@calls(1000, 3000)
def test_gap_and_threshold_estimate_the_lead(calls: int) -> None:
    """Unbiased where passing is certain."""
    for noise in ("one-sided", "laplace"):
        options: dict[str, Any] = {"noise": noise, "sensitivity": 3, "entropy": SeededEntropy(4)}
        leads = []
        for _ in range(calls):
            found = top_stable([4000, 1000], 1, 1, "1e-6", **options)
            leads.append(found.margin + float(found.plan.lead))
        tests = found.plan.tests
        variance = float(tests.threshold_scale**2 + tests.scale**2) * (2 if noise == "laplace" else 1)
        # 6.5 deviations of the mean.
        assert abs(np.mean(leads) - 3000) < 6.5 * np.sqrt(variance / calls)
        assert abs(np.std(leads) / np.sqrt(variance) - 1) < 0.2


@calls(2500, 5000)
def test_stable_answers(calls: int) -> None:
    """The stream: how many failed before it stopped, against the law by numpy."""
    entropy, k = SeededEntropy(5), 2
    distances = np.array([6, 30, 12, 20])
    answers = [
        stable_answers(in_public_order(distances), k, 1, "1/4", share="1/2", resolution=0, entropy=entropy)
        for _ in range(calls)
    ]
    seen = np.bincount([16 * a.asked + (1 << a.index).sum() for a in answers], minlength=96)
    plan = StableAnswers.plan(4, k, 1, "1/4", share="1/2", resolution=0).tests
    assert answers[0].plan.tests == plan
    assert (plan.scale, plan.threshold_scale) == (Fraction(8), Fraction(2))
    rng = np.random.default_rng(6)

    def drawn(scale: float, shape: tuple[int, int]) -> NDArray[np.int64]:
        p = -np.expm1(-1 / scale)
        return rng.geometric(p, shape) - rng.geometric(p, shape)

    def law(threshold_scale: float, scale: float, cutoff: int, trials: int = 150_000) -> NDArray[np.int64]:
        passed = distances + drawn(scale, (trials, 4)) >= cutoff + drawn(threshold_scale, (trials, 1))
        asked = np.cumsum(~passed, axis=1, dtype=np.int64) - ~passed < k
        code = 16 * asked.sum(axis=1) + ((passed & asked) << np.arange(4)).sum(axis=1)
        return np.bincount(code, minlength=96)

    def accepted(threshold_scale: float, scale: float, cutoff: int) -> bool:
        table = np.array([seen, law(threshold_scale, scale, cutoff)])
        thin = table.sum(axis=0) < 200
        table = np.hstack([table[:, ~thin], table[:, thin].sum(axis=1, keepdims=True)])
        return chi2_contingency(table[:, table.sum(axis=0) > 0], correction=False).pvalue > ALARM

    assert accepted(2, 8, plan.cutoff)
    assert not accepted(2, 8 * 0.7, plan.cutoff)
    assert not accepted(2, 8 * 1.3, plan.cutoff)
    assert not accepted(6, 8, plan.cutoff)
    for delta in ("1/16", "0.9"):
        other = StableAnswers.plan(4, k, 1, delta, share="1/2", resolution=0).tests
        assert not accepted(2, 8, other.cutoff)


# Limited domain, against continuous noise drawn by numpy and floored at the end.

GROUPS = [40, 38, 38, 30, 21, 20, 9]


def ideal(
    plan: LimitedDomain,
    k: int,
    *,
    factor: float = 1.0,
    cutoff_factor: float = 1.0,
    clearance: float | None = None,
    seed: int = 7,
) -> NDArray[np.int64]:
    """Who is released, how it ended, and the first gap in steps."""
    rng = np.random.default_rng(seed)
    shape, step, n = (2 * TRIALS, plan.groups), 2.0**-plan.resolution, plan.groups
    _, kept = largest_groups(GROUPS, n)
    real = min(len(GROUPS), n)
    cutoff = kept[-1] + (plan.clearance * step if clearance is None else clearance)
    noise = rng.exponential(float(plan.scale) * factor, shape)
    lifted = cutoff + rng.exponential(float(plan.scale) * factor * cutoff_factor, (len(noise), 1))
    values = np.hstack([kept[:-1] + noise, lifted])
    order = np.argsort(-values, axis=1)[:, : k + 1]
    gap = np.floor(
        (np.take_along_axis(values, order[:, :1], 1) - np.take_along_axis(values, order[:, 1:2], 1)) / step
    )
    return coded(order[:, :k], gap[:, 0], (np.cumsum(order[:, :k] >= real, axis=1) == 0).sum(axis=1), plan)


def coded(
    index: NDArray[np.int64],
    gap: NDArray[np.float64] | NDArray[np.int64],
    released: NDArray[np.int64],
    plan: LimitedDomain,
) -> NDArray[np.int64]:
    width = max(1, int(plan.scale * 2**plan.resolution / 3))
    code = released + 4 * np.minimum(gap // width, CELLS).astype(np.int64)
    for place in range(index.shape[1]):
        code = code * 12 + np.where(place < released, index[:, place], 10 + (index[:, place] == plan.groups))
    return np.where(released > 0, code, -1)


def coded_runs(plan: LimitedDomain, done: LimitedTopK) -> NDArray[np.int64]:
    """As `coded`, of runs of the mechanism."""
    index = np.where(done.index < 0, plan.groups - 1 + done.reached_threshold[:, None], done.index)
    gap = np.nan_to_num(done.gap[:, 0]) * 2**plan.resolution
    return coded(index, gap, (done.index >= 0).sum(axis=1), plan)


def same_law(first: NDArray[np.int64], second: NDArray[np.int64]) -> bool:
    names, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
    parts = (codes[: len(first)], codes[len(first) :])
    table = np.array([np.bincount(part, minlength=len(names)) for part in parts])
    thin = table.sum(axis=0) < 60
    table = np.hstack([table[:, ~thin], table[:, thin].sum(axis=1, keepdims=True)])
    return chi2_contingency(table[:, table.sum(axis=0) > 0], correction=False).pvalue > ALARM


@pytest.mark.parametrize(("candidates", "resolution"), [(4, 0), (4, None), (6, None), (9, 0), (9, None)])
@pytest.mark.sampled(3)
def test_limited_domain(candidates: int, resolution: int | None) -> None:
    plan = LimitedDomain.plan(2, "1/4", "1/5", candidates=candidates, resolution=resolution)
    sample = coded_runs(plan, trials_of(plan, GROUPS, 8))
    assert same_law(sample, ideal(plan, 2))
    for factor in (0.7, 1.3):
        assert not same_law(sample, ideal(plan, 2, factor=factor))
    assert not same_law(sample, ideal(plan, 2, cutoff_factor=1e-9))
    for delta in ("1/10", "2/5"):
        other = LimitedDomain.plan(2, "1/4", delta, candidates=candidates, resolution=resolution)
        assert not same_law(sample, ideal(plan, 2, clearance=other.clearance * 2.0**-other.resolution))


@pytest.mark.parametrize("c", [1, 3])
def test_the_chance_of_a_group_that_may_be_missing_is_delta(c: int) -> None:
    """One candidate, c above the largest left out: released with probability delta."""
    plan = LimitedDomain.plan(1, 1, "1/20", candidates=1, sensitivity=c)
    passed = int((trials_of(plan, [10 + c, 10], 9).index >= 0).sum())
    assert binomtest(passed, TRIALS, 0.05).pvalue > ALARM
    for factor in (0.7, 1.3):
        assert binomtest(passed, TRIALS, 0.05 * factor).pvalue < ALARM


@calls(2500, 12_000)
def test_a_single_limited_domain_has_the_law_of_many(calls: int) -> None:
    entropy = SeededEntropy(10)
    plan = LimitedDomain.plan(2, "1/4", "1/5", candidates=6, resolution=0)
    found = [
        limited_domain(GROUPS, 2, "1/4", "1/5", candidates=6, resolution=0, entropy=entropy)
        for _ in range(calls)
    ]
    index = np.full((len(found), 2), 0)
    for row, one in zip(index, found, strict=True):
        row[: len(one.index)] = one.index
        row[len(one.index) :] = plan.groups  # six real groups: only the bar can end it
        assert one.reached_threshold == (len(one.index) < 2)
    sample = coded(
        index,
        np.array([one.gap[0] if len(one.gap) else 0 for one in found]),
        np.array([len(one.index) for one in found]),
        plan,
    )
    assert same_law(sample, ideal(plan, 2))
    for factor in (0.7, 1.3):
        assert not same_law(sample, ideal(plan, 2, factor=factor))


def test_free_p_values_are_valid() -> None:
    """All candidates alike: exp(-gap/scale) of the last group released is at most uniform."""
    plan = LimitedDomain.plan(3, 1, "1/2", candidates=30)
    done = trials_of(plan, [500] * 30, 11)
    assert (done.index >= 0).all()
    for place in range(3):
        p = np.exp(-done.gap[:, place] / float(plan.scale))
        for level in (0.01, 0.05, 0.5):
            below = int((p <= level).sum())
            assert binomtest(below, TRIALS, level, alternative="greater").pvalue > ALARM
        if place == 0:
            assert binomtest(int((p <= 0.05).sum()), TRIALS, 0.05 * 0.7, alternative="greater").pvalue < ALARM
