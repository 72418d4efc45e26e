"""What free gaps of a top-k are worth: squared error of the selected counts against not knowing the gaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates import LaplaceNoise, Measurement, from_top_k
from dpsql.kernel.mechanisms import Noise
from dpsql.kernel.noise import Entropy
from reproduce.page import Claim, Figure, Section, Table
from reproduce.reduction import Measured, anchor_theory, crowding, each_theory, named, near, paired, separate
from reproduce.sets import DataSet
from reproduce.svg import Series, panel
from reproduce.trials import Halves, affine, measured, top_k_runs, totals

__all__ = [
    "EPSILON",
    "EPSILONS",
    "KS",
    "NOISES",
    "Point",
    "anchor_errors",
    "claims_over_epsilon",
    "claims_over_k",
    "each_errors",
    "over_epsilon",
    "over_k",
    "points",
    "ranges",
]

EPSILON = Fraction(7, 10)
KS = (2, 3, 5, 7, 10, 15, 20, 25)
EPSILONS = tuple(Fraction(x, 10) for x in (1, 4, 7, 10, 15))
NOISES: tuple[Noise, ...] = ("exponential", "laplace")
FIXED_K = 10
CROWDED = 0.15
COLUMNS = (
    "data", "noise", "k", "epsilon", "EACH %", "± (s.e.)", "EACH theory %", "EACH crowding",
    "ANCHOR %", "± (s.e.)", "ANCHOR theory %", "ANCHOR crowding", "baseline MSE",
)  # fmt: skip

LEGEND = (
    Series("EACH (half and half, as in the papers), measured", (), (), "points", 0, 0),
    Series("EACH, theory", (), (), "line", 0),
    Series("ANCHOR (at its best share), measured", (), (), "points", 1, 1),
    Series("ANCHOR, theory", (), (), "line", 1),
    Series("hollow: many counts nearer to each other than the noise", (), (), "points", 5, 3),
)


@dataclass(frozen=True, slots=True)
class Point:
    """What gaps save at one setting."""

    data: str
    noise: Noise
    k: int
    epsilon: float
    each: Measured
    anchor: Measured
    baseline: float
    """Mean squared error of the measurements alone."""

    @property
    def row(self) -> tuple[object, ...]:
        """For the table."""
        both = [x for m in (self.each, self.anchor) for x in (m.percent, m.error, m.theory, m.crowding)]
        return self.data, self.noise, self.k, self.epsilon, *both, self.baseline


def over_k(sets: Sequence[DataSet], trials: int, entropy: Entropy, tick: Callable[[], None]) -> Section:
    """Free Gap, figure 1b; dissertation, figure 5-2b."""
    rows = [_point(one, k, EPSILON, n, trials, entropy, tick) for one in sets for n in NOISES for k in KS]
    return Section(
        "Free gaps reduce the squared error of counts",
        "Free Gap, figure 1b and theorem 3; dissertation, figure 5-2b. ANCHOR is dpsql's own.",
        f"Noisy top-k with gap and half of epsilon {float(EPSILON)} select k items, the other half measures "
        "them. The baseline uses these measurements alone; EACH combines them with the gaps, which cost "
        "nothing; ANCHOR measures one noisy total instead, with what share of epsilon is best for it. "
        f"Reduction of the mean squared error against the baseline, {trials:,} runs a point, whiskers of two "
        "standard errors.",
        [Figure("Reduction over k", claims_over_k(rows), _panels(rows, "k"), _legend(rows))],
        [_table("error_reduction_over_k", rows)],
    )


def claims_over_k(rows: Sequence[Point]) -> list[Claim]:
    """Say what the figure shows."""
    best = {(r.data, r.noise, r.k): r for r in rows}
    first, last = rows[0].data, KS[-1]
    ends = [best[first, noise, last].each.percent for noise in NOISES]
    ten = best[first, "exponential", FIXED_K]
    lead = [(r.anchor.percent - r.each.percent, r.anchor.allowed + r.each.allowed - 2) for r in rows]
    pairs = [(r.each, best[r.data, "laplace", r.k].each) for r in rows if r.noise == "exponential"]
    gains = [(e.percent - one.percent, e.allowed + one.allowed - 2) for e, one in pairs]
    return [
        _each_claim(
            rows,
            "up to 66% with exponential noise and 50% with Laplace noise as k grows, theory and points alike "
            "(figures 1b, 5-2b)",
            f"{ends[0]:.0f}% and {ends[1]:.0f}% at k = {last} on {first}, theory "
            f"{each_theory(last, 'exponential'):.0f}% and {each_theory(last, 'laplace'):.0f}%",
        ),
        *_short(rows),
        _anchor_claim(rows),
        Claim(
            "One noisy total (ANCHOR) tells more than a noisy count of each: at k = "
            f"{FIXED_K} on {first} it reduces the squared error by {ten.anchor.percent:.0f}% where EACH does "
            f"by {ten.each.percent:.0f}%; over all points it is {min(x for x, _ in lead):+.1f} to "
            f"{max(x for x, _ in lead):+.1f} points ahead, at median {np.median([x for x, _ in lead]):+.1f}.",
            all(x > -slack for x, slack in lead) and float(np.median([x for x, _ in lead])) > 5,
        ),
        Claim(
            "Exponential noise gains more from gaps than Laplace noise, by "
            f"{min(x for x, _ in gains):.1f} to {max(x for x, _ in gains):.1f} points: on {first}, "
            + ", ".join(
                f"{best[first, 'exponential', k].each.percent:.0f}% against "
                f"{best[first, 'laplace', k].each.percent:.0f}% at k = {k}"
                for k in (KS[0], FIXED_K, last)
            )
            + ".",
            all(x > -slack for x, slack in gains) and float(np.median([x for x, _ in gains])) > 5,
        ),
    ]


def over_epsilon(sets: Sequence[DataSet], trials: int, entropy: Entropy, tick: Callable[[], None]) -> Section:
    """Free Gap, figure 2b; dissertation, figure 5-3b."""
    rows = [
        _point(one, FIXED_K, epsilon, n, trials, entropy, tick)
        for one in sets
        for n in NOISES
        for epsilon in EPSILONS
    ]
    return Section(
        "The reduction depends on epsilon only where the noise drowns the counts",
        f"Free Gap, figure 2b; dissertation, figure 5-3b. k = {FIXED_K}.",
        f"As before, for other epsilons; {trials:,} runs a point.",
        [
            Figure(
                "Reduction over epsilon", claims_over_epsilon(rows), _panels(rows, "epsilon"), _legend(rows)
            )
        ],
        [_table("error_reduction_over_epsilon", rows)],
    )


def claims_over_epsilon(rows: Sequence[Point]) -> list[Claim]:
    """Say what the figure shows."""
    return [
        _each_claim(
            rows,
            "stable over epsilon on Kosarak (figures 2b, 5-3b)",
            ranges([(r.data, r.noise, r.epsilon, r.each) for r in rows]),
        ),
        *_short(rows),
        _anchor_claim(rows),
    ]


def ranges(found: Sequence[tuple[str, Noise, float, Measured]]) -> str:
    """Say over what values of epsilon the reduction stays, and in what range."""
    clear = [row for row in found if not row[3].crowded]
    parts = []
    for noise in NOISES:
        mine = [m.percent for _, n, _, m in clear if n == noise]
        if mine:
            parts.append(f"{min(mine):.0f}% to {max(mine):.0f}% with {named(noise)} noise")
    names = dict.fromkeys(data for data, *_ in clear)
    least = [min(e for d, _, e, _ in clear if d == data) for data in names]
    spans = [f"{data} from epsilon {e} on" for data, e in zip(names, least, strict=True)]
    return f"{' and '.join(parts)}, on {', '.join(spans)}" if clear else "nowhere free of the noise"


def _each_claim(rows: Sequence[Point], paper: str, here: str) -> Claim:
    clear = [r.each for r in rows if not r.each.crowded]
    holds, words = near(clear)
    return Claim(
        "EACH reduces the squared error by 2(k-1)/(3k) with exponential noise and (k-1)/(2k) with Laplace "
        f"noise, as predicted: {words}.",
        holds,
        paper,
        here,
    )


def _short(rows: Sequence[Point]) -> list[Claim]:
    crowded = [r for r in rows if r.each.crowded]
    if not crowded:
        return []
    worst = min(crowded, key=lambda r: r.each.off)
    return [
        Claim(
            "Where many of the largest counts are nearer to each other than the noise (hollow points), what "
            "is selected is also what had lucky noise, of which theory knows nothing: there EACH is never "
            f"ahead of theory, and falls short by up to {max(0.0, -worst.each.off):.0f} points (on "
            f"{worst.data} at k = {worst.k}, epsilon {worst.epsilon}, {named(worst.noise)} noise).",
            all(r.each.off <= r.each.allowed for r in crowded),
        )
    ]


def _anchor_claim(rows: Sequence[Point]) -> Claim:
    clear = [r.anchor for r in rows if not r.anchor.crowded]
    holds, words = near(clear)
    rest = [r.anchor.off for r in rows if r.anchor.crowded]
    more = f"; of the {len(rest)} hollow ones, {max(map(abs, rest)):.1f}" if rest else ""
    return Claim(f"ANCHOR reduces it as predicted: {words}{more}.", holds)


def _point(
    one: DataSet,
    k: int,
    epsilon: Fraction,
    noise: Noise,
    trials: int,
    entropy: Entropy,
    tick: Callable[[], None],
) -> Point:
    size = len(one.counts)
    half = Halves.of("EACH", k, epsilon, noise)
    best = Halves.of("ANCHOR", k, epsilon, noise, size)
    plain, each = each_errors(one.counts, half, trials, entropy)
    anchor = anchor_errors(one.counts, best, trials, entropy)
    tick()
    return Point(
        one.name,
        noise,
        k,
        float(epsilon),
        Measured(
            *paired(plain, each),
            each_theory(k, noise),
            crowding(one.descending, k, float(k / half.selecting)),
            CROWDED,
        ),
        Measured(
            *separate(plain, anchor),
            anchor_theory(k, noise, float(best.share)),
            crowding(one.descending, k, float(k / best.selecting)),
            CROWDED,
        ),
        float(plain.mean()),
    )


def each_errors(
    counts: NDArray[np.int64], plan: Halves, trials: int, entropy: Entropy
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the squared errors of the measurements, and of the estimates, for each run."""
    k, scale = plan.k, plan.scale
    runs = top_k_runs(counts, k, plan.selecting, trials, entropy, plan.noise)
    exact = counts[runs.index]
    values, grid = measured(exact, scale, entropy)
    estimate = affine(
        lambda x: from_top_k(x[:k], k, runs.noise, Measurement(x[k:], LaplaceNoise(scale, grid))).value,
        2 * k,
    )
    combined = estimate(np.hstack([runs.gap, values]))
    return ((values - exact) ** 2).mean(axis=1), ((combined - exact) ** 2).mean(axis=1)


def anchor_errors(
    counts: NDArray[np.int64], plan: Halves, trials: int, entropy: Entropy
) -> NDArray[np.float64]:
    """Return the squared error of the estimates from one noisy total, for each run."""
    k, scale = plan.k, plan.scale
    runs = top_k_runs(counts, k, plan.selecting, trials, entropy, plan.noise)
    exact = counts[runs.index]
    total, grid = totals(exact, scale, entropy)
    estimate = affine(
        lambda x: (
            from_top_k(
                x[:k], k, runs.noise, Measurement(float(x[k]), LaplaceNoise(scale, grid, total=True))
            ).value
        ),
        k + 1,
    )
    combined = estimate(np.column_stack([runs.gap, total]))
    errors: NDArray[np.float64] = ((combined - exact) ** 2).mean(axis=1)
    return errors


def points(
    xs: Sequence[float], found: Sequence[Measured], colour: int, shapes: tuple[int, int]
) -> list[Series]:
    """Draw what was measured: `shapes` solid and hollow."""
    series = []
    for crowded, shape in zip((False, True), shapes, strict=True):
        mine = [(x, m) for x, m in zip(xs, found, strict=True) if m.crowded == crowded]
        series.append(
            Series(
                "",
                [x for x, _ in mine],
                [m.percent for _, m in mine],
                "points",
                colour,
                shape,
                error=[2 * m.error for _, m in mine],
            )
        )
    return series


def _legend(rows: Sequence[Point]) -> Sequence[Series]:
    return LEGEND if any(m.crowded for r in rows for m in (r.each, r.anchor)) else LEGEND[:-1]


def _panels(rows: Sequence[Point], over: str) -> list[str]:
    found = []
    for name, noise in dict.fromkeys((r.data, r.noise) for r in rows):
        mine = [r for r in rows if (r.data, r.noise) == (name, noise)]
        xs = [float(getattr(r, over)) for r in mine]
        drawn = [
            Series("", xs, [r.each.theory for r in mine], "line", 0),
            Series("", xs, [r.anchor.theory for r in mine], "line", 1),
            *points(xs, [r.each for r in mine], 0, (0, 3)),
            *points(xs, [r.anchor for r in mine], 1, (1, 4)),
        ]
        title = f"{name}, {named(noise)} noise"
        found.append(panel(title, over, "reduction of squared error", drawn, y_range=(0, 100), unit="%"))
    return found


def _table(name: str, rows: Sequence[Point]) -> Table:
    note = (
        "Crowding: which part of the k + 1 largest counts is nearer to the next one than the scale of the "
        "noise it was selected with."
    )
    return Table(name, COLUMNS, [r.row for r in rows], note=note)
