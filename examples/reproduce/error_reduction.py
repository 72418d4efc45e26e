"""What free gaps are worth: squared error of the selected counts against not knowing the gaps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates import ErrorModel, MeasuringPlan, choose_measuring, from_threshold, from_top_k
from dpsql.mechanisms import Noise
from dpsql.noise import Entropy
from reproduce.page import Claim, Section, Table
from reproduce.sets import DataSet
from reproduce.svg import Series, panel
from reproduce.trials import affine, measured, threshold_runs, top_k_runs, totals

__all__ = ["EPSILONS", "KS", "over_epsilon", "over_k", "over_threshold"]

EPSILON = Fraction(7, 10)
KS = (2, 4, 6, 8, 10, 15, 20, 25)
EPSILONS = tuple(Fraction(x, 10) for x in (1, 4, 7, 10, 15))
NOISES: tuple[Noise, ...] = ("exponential", "laplace")
COLUMNS = ("data", "noise", "k", "epsilon", "EACH", "EACH theory", "ANCHOR", "ANCHOR theory", "baseline MSE")

LEGEND = (
    Series("EACH (half and half, as in the papers), measured", (), (), "points", 0, 0),
    Series("EACH, theory", (), (), "line", 0),
    Series("ANCHOR (at its best share), measured", (), (), "points", 1, 1),
    Series("ANCHOR, theory", (), (), "line", 1),
)


@dataclass(frozen=True, slots=True)
class Point:
    """Reductions of the mean squared error, in per cent, measured and predicted."""

    data: str
    noise: str
    k: int
    epsilon: float
    each: float
    each_theory: float
    anchor: float
    anchor_theory: float
    baseline: float
    """Mean squared error of the measurements alone."""


def over_k(sets: Sequence[DataSet], trials: int, entropy: Entropy, tick: Callable[[], None]) -> Section:
    """Free Gap, figure 1b; dissertation, figure 5-2b."""
    rows = [
        reduction(one, k, EPSILON, noise, trials, entropy, tick)
        for one in sets
        for noise in NOISES
        for k in KS
    ]
    panels = [
        _panel(f"{one.name}, {noise} noise", "k", [r for r in rows if (r.data, r.noise) == (one.name, noise)])
        for one in sets
        for noise in NOISES
    ]
    best = {(r.noise, r.k): r for r in rows}
    ten = best["exponential", 10]
    claims = [
        *_near(rows, trials),
        Claim(
            "One noisy total (ANCHOR) tells more than a noisy count of each: at k = 10 it reduces the "
            f"squared error by {ten.anchor:.0f}% where EACH does by {ten.each:.0f}%, and it is ahead at "
            "every k.",
            all(r.anchor > r.each - 1 for r in rows),
        ),
        Claim(
            "Exponential noise gains more from gaps than Laplace noise, at every k: "
            + ", ".join(
                f"{best['exponential', k].each:.0f}% against {best['laplace', k].each:.0f}% at k = {k}"
                for k in (2, 10, 25)
            )
            + ".",
            all(best["exponential", k].each > best["laplace", k].each - 1 for k in KS),
        ),
    ]
    return Section(
        "Free gaps reduce the squared error of counts",
        "Free Gap, figure 1b and theorem 3; dissertation, figure 5-2b. ANCHOR is dpsql's own.",
        f"Noisy top-k with gap and half of epsilon {float(EPSILON)} select k items, the other half measures "
        "them. The baseline uses these measurements alone; EACH combines them with the gaps, which cost "
        "nothing; ANCHOR measures one noisy total instead. Reduction of mean squared error against the "
        "baseline.",
        claims,
        panels,
        LEGEND,
        [Table("error_reduction_over_k", COLUMNS, [astuple(r) for r in rows])],
    )


def over_epsilon(sets: Sequence[DataSet], trials: int, entropy: Entropy, tick: Callable[[], None]) -> Section:
    """Free Gap, figure 2b; dissertation, figure 5-3b."""
    rows = [
        reduction(one, 10, epsilon, noise, trials, entropy, tick)
        for one in sets
        for noise in NOISES
        for epsilon in EPSILONS
    ]
    panels = [
        _panel(
            f"{one.name}, {noise} noise",
            "epsilon",
            [r for r in rows if (r.data, r.noise) == (one.name, noise)],
        )
        for one in sets
        for noise in NOISES
    ]
    return Section(
        "The reduction does not depend on epsilon",
        "Free Gap, figure 2b; dissertation, figure 5-3b. k = 10.",
        "As before, for other epsilons. Where noise is larger than the differences between items, as at the "
        "smallest epsilon on few units, the items selected are those with lucky noise, which no estimate can "
        "tell, and EACH gains less.",
        _near(
            [r for r in rows if r.epsilon > float(EPSILONS[0])],
            trials,
            f" at epsilon {float(EPSILONS[1])} and more",
        ),
        panels,
        LEGEND,
        [Table("error_reduction_over_epsilon", COLUMNS, [astuple(r) for r in rows])],
    )


def reduction(
    one: DataSet,
    k: int,
    epsilon: Fraction,
    noise: Noise,
    trials: int,
    entropy: Entropy,
    tick: Callable[[], None],
) -> Point:
    """Measure by how many per cent EACH and ANCHOR reduce the mean squared error."""
    half = choose_measuring(
        k, epsilon, noise=noise, measure=Fraction(1, 2), strategy="EACH", domain_size=len(one.counts)
    )
    best = choose_measuring(k, epsilon, noise=noise, strategy="ANCHOR", domain_size=len(one.counts))
    baseline, each = _each(one.counts, half, trials, entropy)
    anchor = _anchor(one.counts, best, trials, entropy)
    tick()
    gain = 100 * (k - 1) / k * (2 / 3 if noise == "exponential" else 1 / 2)
    plain = 2 * float(half.measuring_scale or 0) ** 2
    return Point(
        one.name,
        noise,
        k,
        float(epsilon),
        100 * (1 - each / baseline),
        gain,
        100 * (1 - anchor / baseline),
        100 * (1 - best.predicted_stddev**2 / plain),
        baseline,
    )


def _each(
    counts: NDArray[np.int64], plan: MeasuringPlan, trials: int, entropy: Entropy
) -> tuple[float, float]:
    k, scale = plan.k, plan.measuring_scale or Fraction(0)
    runs = top_k_runs(counts, k, plan.selection_epsilon, trials, entropy, plan.noise)
    exact = counts[runs.index]
    values, grid = measured(exact, scale, entropy)
    estimate = affine(
        lambda x: (
            from_top_k(
                x[:k],
                k,
                scale=runs.scale,
                noise=plan.noise,
                resolution=runs.resolution,
                each=x[k:],
                measuring_scale=scale,
                measuring_resolution=grid,
            ).value
        ),
        2 * k,
    )
    combined = estimate(np.hstack([runs.gap, values]))
    return float(((values - exact) ** 2).mean()), float(((combined - exact) ** 2).mean())


def _anchor(counts: NDArray[np.int64], plan: MeasuringPlan, trials: int, entropy: Entropy) -> float:
    k, scale = plan.k, plan.measuring_scale or Fraction(0)
    runs = top_k_runs(counts, k, plan.selection_epsilon, trials, entropy, plan.noise)
    exact = counts[runs.index]
    total, grid = totals(exact, scale, entropy)
    estimate = affine(
        lambda x: (
            from_top_k(
                x[:k],
                k,
                scale=runs.scale,
                noise=plan.noise,
                resolution=runs.resolution,
                anchor_total=Fraction(float(x[k])),
                measuring_scale=scale,
                measuring_resolution=grid,
            ).value
        ),
        k + 1,
    )
    combined = estimate(np.column_stack([runs.gap, total]))
    return float(((combined - exact) ** 2).mean())


def over_threshold(
    sets: Sequence[DataSet], trials: int, entropy: Entropy, tick: Callable[[], None]
) -> Section:
    """Free Gap, figure 1a; dissertation, figure 5-2a."""
    rows = [
        _over_threshold(one, k, noise, trials, entropy, tick) for one in sets for noise in NOISES for k in KS
    ]
    panels = []
    for one in sets:
        for noise in NOISES:
            mine = [r for r in rows if r[:2] == (one.name, noise)]
            ks = [r[2] for r in mine]
            panels.append(
                panel(
                    f"{one.name}, {noise} noise",
                    "k",
                    "reduction of squared error",
                    [
                        Series("", ks, [r[4] for r in mine], "line", 0),
                        Series("", ks, [r[3] for r in mine], "points", 0),
                    ],
                    y_range=(0, 80),
                    unit="%",
                )
            )
    worst = max(abs(r[3] - r[4]) for r in rows)
    return Section(
        "Gaps over a threshold reduce the error too",
        "Free Gap, figure 1a and section 6.2; dissertation, figure 5-2a.",
        "Sparse vector with gap finds k items above a threshold (drawn at random between the 2k-th and the "
        f"8k-th largest count) with half of epsilon {float(EPSILON)}; the other half measures them. "
        "Threshold plus gap is a second estimate of each.",
        [
            Claim(
                f"The reduction is as predicted: no point is farther than {worst:.1f} percentage points from "
                "theory.",
                worst <= 2 * _slack(trials),
            )
        ],
        panels,
        (
            Series("gaps and measurements, measured", (), (), "points", 0),
            Series("theory", (), (), "line", 0),
        ),
        [Table("error_reduction_over_threshold", ("data", "noise", "k", "reduction", "theory"), rows)],
    )


def _over_threshold(
    one: DataSet, k: int, noise: Noise, trials: int, entropy: Entropy, tick: Callable[[], None]
) -> tuple[str, str, int, float, float]:
    half, scale = EPSILON / 2, 2 * k / EPSILON
    thresholds = random_thresholds(one, k, trials)
    plain = better = 0.0
    share = Fraction(1 / (1 + k ** (2 / 3))).limit_denominator(10**6)
    threshold_scale, query_scale = 1 / (share * half), k / ((1 - share) * half)
    for part, runs in threshold_runs(
        one.counts, thresholds, k, half, entropy, branches=1, share=share, noise=noise
    ):
        for hits in np.unique((runs.branch >= 0).sum(axis=1)).tolist():
            if hits == 0:
                continue
            rows = np.flatnonzero((runs.branch >= 0).sum(axis=1) == hits)
            column = np.nonzero(runs.branch[rows] >= 0)[1].reshape(-1, hits)
            exact = one.counts[column]
            values, grid = measured(exact, scale, entropy)
            gap = np.take_along_axis(runs.gap[rows], column, axis=1) + part[rows][:, None]
            estimate = affine(
                lambda x, hits=hits, grid=grid: (
                    from_threshold(  # type: ignore[misc]  # bound in the loop
                        x[:hits],
                        0,
                        scale=query_scale,
                        threshold_scale=threshold_scale,
                        noise=noise,
                        each=x[hits:],
                        measuring_scale=scale,
                        measuring_resolution=grid,
                    ).value
                ),
                2 * hits,
            )
            combined = estimate(np.hstack([gap, values]))
            plain += float(((values - exact) ** 2).mean(axis=1).sum())
            better += float(((combined - exact) ** 2).mean(axis=1).sum())
    tick()
    model = ErrorModel(noise, query_scale, k, "EACH", scale, threshold_scale)
    theory = 1 - float(model.stddev()[0] ** 2) / (2 * float(scale) ** 2)
    return one.name, noise, k, 100 * (1 - better / plain), 100 * theory


def random_thresholds(one: DataSet, k: int, trials: int) -> NDArray[np.int64]:
    """Pick thresholds among the 2k-th to the 8k-th largest counts, as the papers do."""
    descending = one.descending
    ranks = np.random.default_rng(k).integers(2 * k, min(8 * k, len(descending) - 1) + 1, trials)
    return descending[ranks - 1]


def _slack(trials: int) -> float:
    """Percentage points by which so many runs may be off: two for the papers' 10,000."""
    return max(2.0, 200 / math.sqrt(trials))


def _near(rows: Sequence[Point], trials: int, where: str = "") -> list[Claim]:
    each = max(abs(r.each - r.each_theory) for r in rows)
    anchor = max(abs(r.anchor - r.anchor_theory) for r in rows)
    return [
        Claim(
            "EACH reduces the squared error by (k-1)/(3k) x 2 with exponential noise and (k-1)/(2k) with "
            f"Laplace noise{where}: no point is farther than {each:.1f} percentage points from that.",
            each <= _slack(trials),
        ),
        Claim(
            f"ANCHOR reduces it as predicted before spending{where}: no point is farther than {anchor:.1f} "
            "points off.",
            anchor <= _slack(trials),
        ),
    ]


def _panel(title: str, x_label: str, rows: Sequence[Point]) -> str:
    xs = [float(r.k if x_label == "k" else r.epsilon) for r in rows]
    drawn = [
        Series("", xs, [r.each_theory for r in rows], "line", 0),
        Series("", xs, [r.anchor_theory for r in rows], "line", 1),
        Series("", xs, [r.each for r in rows], "points", 0),
        Series("", xs, [r.anchor for r in rows], "points", 1, 1),
    ]
    return panel(title, x_label, "reduction of squared error", drawn, y_range=(0, 100), unit="%")
