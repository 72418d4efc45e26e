"""Selection where nobody knows the groups: Top Stable as printed and one-sided, and limited domain."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.mechanisms import LimitedDomain, LimitedThenStable, NoiseSource, TopStable
from dpsql.kernel.mechanisms.top_stable import StableNoise
from dpsql.kernel.mechanisms.unknown_domain import largest_groups
from dpsql.kernel.noise import Entropy
from dpsql.planning.unknown_keys import LARGEST_BAR
from reproduce.page import Claim, Figure, Section, Table
from reproduce.peer import limited_domain_as_published
from reproduce.printed import SETS, ahead, printed
from reproduce.sets import DataSet
from reproduce.svg import Series, panel

__all__ = ["CURVE", "EPSILONS", "KS", "NAMES", "claims_cells", "claims_curves", "unknown_domain"]

EPSILONS = (Fraction(4, 10), Fraction(8, 10), Fraction(1))
KS = (3, 10, 50)
CURVE = (1, 2, 3, 5, 8, 12, 18, 26, 38, 55, 75, 100)
FEW = 10
NAMES = (
    "TS as printed",
    "LD as published",
    "TS one-sided",
    "limited domain",
    "limited domain, then TS",
    "AUTO",
)

Shares = dict[str, tuple[float, float]]
Cells = dict[tuple[str, Fraction, int], Shares]
Curves = dict[tuple[str, int], Shares]


def unknown_domain(
    sets: Sequence[DataSet], trials: int, entropy: Entropy, tick: Callable[[], None]
) -> Section:
    """Top Stable, tables 2 and 3 and figure 1."""
    rng = np.random.default_rng(2020)
    cells: Cells = {}
    for one in sets:
        for epsilon in EPSILONS:
            for k in KS:
                cells[one.name, epsilon, k] = _shares(one, k, epsilon, trials, entropy, rng)
                tick()
    curves: Curves = {}
    for one in sets:
        for k in CURVE:
            curves[one.name, k] = _shares(one, k, EPSILONS[1], trials, entropy, rng)
            tick()
    curve_rows = [(n, k, *(s[name][1] for name in NAMES)) for (n, k), s in curves.items()]
    panels = [
        panel(
            f"{one.name}, epsilon {float(EPSILONS[1])}",
            "k",
            "S, relative sum of counts",
            [
                Series("", CURVE, [curves[one.name, k][name][1] for k in CURVE], "both", i, i)
                for i, name in enumerate(NAMES[:4])
            ],
            y_range=(0, 1.05),
        )
        for one in sets
    ]
    return Section(
        "Unknown domains: Top Stable and limited domain",
        "Top Stable, tables 2 and 3 and figure 1. One-sided noise, the limited domain with gaps, and AUTO "
        "are dpsql's own.",
        "delta is 1 over the number of units. P is the share of the true top-k that came back, S the sum of "
        "the counts that came back over the sum of the true top-k's. Top Stable (TS) as printed has Laplace "
        "noise and the threshold of its lemma 3.1; Limited Domain (LD) as published is written from its "
        "description there, in floating point, to compare with; limited domain is dpsql's, with 10 k "
        f"candidates; AUTO takes it while its bar is at most {float(LARGEST_BAR):g} of the units; else half "
        "of delta is for it, and the other half, with the epsilon it leaves, for a set of further groups. "
        f"{trials:,} runs a cell.",
        [
            Figure("P and S at three epsilons (tables below)", claims_cells(cells)),
            Figure(
                f"S over k, epsilon {float(EPSILONS[1])}",
                claims_curves(curves),
                panels,
                [Series(name, (), (), "both", i, i) for i, name in enumerate(NAMES[:4])],
            ),
        ],
        [
            _table(cells, 0),
            _table(cells, 1),
            Table("unknown_domain_over_k", ("data", "k", *(f"S, {n}" for n in NAMES)), curve_rows),
        ],
    )


def _shares(
    one: DataSet, k: int, epsilon: Fraction, trials: int, entropy: Entropy, rng: np.random.Generator
) -> Shares:
    as_printed = _stable(one, k, epsilon, "laplace", trials, entropy, by_lemma=True)
    one_sided = _stable(one, k, epsilon, "one-sided", trials, entropy)
    limited, bar = _limited(one, LimitedDomain.plan(k, epsilon, one.delta), trials, entropy)
    both = limited
    if k > 1:
        both, _ = _limited(one, LimitedThenStable.plan(k, epsilon, one.delta), trials, entropy)
    released = limited_domain_as_published(one.descending, k, float(epsilon), float(one.delta), trials, rng)
    published = _scores(one, k, np.nonzero(released)[1], trials)
    auto = limited if bar * one.delta <= LARGEST_BAR else both
    return dict(zip(NAMES, (as_printed, published, one_sided, limited, both, auto), strict=True))


def _scores(one: DataSet, k: int, place: NDArray[np.int64], trials: int) -> tuple[float, float]:
    """P and S of what all trials together released, by place among the counts in descending order."""
    descending = one.descending
    counts = descending[np.minimum(place, len(descending) - 1)]
    truly = (counts >= descending[k - 1]).sum()
    return float(truly / trials / k), float(counts.sum() / trials / descending[:k].sum())


def _stable(
    one: DataSet,
    k: int,
    epsilon: Fraction,
    noise: StableNoise,
    trials: int,
    entropy: Entropy,
    *,
    by_lemma: bool = False,
) -> tuple[float, float]:
    plan = TopStable.plan(k, epsilon, one.delta, noise=noise)
    if by_lemma:
        tests = plan.tests
        cutoff = lemma(float(one.delta) / k, float(tests.threshold_epsilon), float(tests.epsilon))
        plan = replace(plan, tests=replace(tests, cutoff=math.ceil(cutoff * 2**tests.resolution)))
    counts = np.broadcast_to(one.descending, (trials, len(one.descending)))
    sizes = (plan.run(counts, NoiseSource(entropy)).index >= 0).sum(axis=1)
    _, kept = largest_groups(one.descending, k)
    sums = np.concatenate([[0], np.cumsum(kept[:-1])])
    return float(sizes.mean() / k), float(sums[sizes].mean() / sums[-1])


def lemma(chance: float, threshold_epsilon: float, epsilon: float) -> float:
    """Return Algorithm 3's threshold, ln(1/x)/(epsilon/2), for the largest x that Lemma 3.1 allows.

    >>> round(lemma(1e-6, 0.37, 0.63), 2)
    45.79
    """
    ratio = 2 * threshold_epsilon / epsilon

    def tail(x: float) -> float:
        return float((2 * x**ratio + x - ratio * (x**ratio + 2 * x)) / (4 * (1 - ratio)))

    low, high = 1e-300, 1.0
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if tail(middle) <= chance else (low, middle)
    return math.log(1 / low) / (epsilon / 2)


def _limited(
    one: DataSet, plan: LimitedDomain | LimitedThenStable, trials: int, entropy: Entropy
) -> tuple[tuple[float, float], Fraction]:
    """P and S, and the bar."""
    limited = plan if isinstance(plan, LimitedDomain) else plan.limited
    # Nothing but the candidates and the next group is read.
    most = one.descending[: limited.groups + 1]
    index = plan.run(np.broadcast_to(most, (trials, len(most))), NoiseSource(entropy)).index
    return _scores(one, limited.k, index[index >= 0], trials), limited.bar


def _table(cells: Cells, which: int) -> Table:
    letter = "PS"[which]
    known = any(data in SETS for data, _, _ in cells)
    rows: list[tuple[object, ...]] = []
    for (data, epsilon, k), shares in cells.items():
        theirs = [printed(letter, name, data, epsilon, k) for name in ("TS", "LD")]
        paper = (SETS.get(data, ""), *theirs) if known else ()
        rows.append((data, float(epsilon), k, *paper, *(round(shares[name][which], 3) for name in NAMES)))
    columns = ("data", "epsilon", "k", *(("the paper's set", "its TS", "its LD") if known else ()), *NAMES)
    said = {
        "P": "P, the share of the true top-k that came back (the paper's table 2)",
        "S": "S, the sum of the counts that came back over that of the true top-k (table 3)",
    }
    note = (
        "The paper's columns are for the whole of its sets, not for ours, so only trends compare. Here both "
        "mechanisms are as its text has them. P of TS at epsilon 1 is from the notebooks published with it."
    )
    note = note if known and which == 0 else ""
    return Table(f"unknown_domain_{letter}", columns, rows, shown=True, note=note, title=said[letter])


def claims_cells(cells: Cells) -> list[Claim]:
    """Say what the tables show."""

    def differences(one: str, other: str, ks: Sequence[int]) -> list[float]:
        return [s[one][0] - s[other][0] for (_, _, k), s in cells.items() if k in ks]

    small, large = [k for k in KS if k <= FEW], [k for k in KS if k > FEW]
    gains = differences("TS one-sided", "TS as printed", KS)
    printed_ld = differences("TS as printed", "LD as published", KS)
    better, worse = sum(d > 0.005 for d in printed_ld), sum(d < -0.005 for d in printed_ld)
    fixed = ("limited domain", "limited domain, then TS", "TS one-sided")
    lost = min((s["AUTO"][0] - max(s[n][0] for n in fixed), c) for c, s in cells.items())
    right = sum(s["AUTO"][0] >= max(s[n][0] for n in fixed) - 0.005 for s in cells.values())
    mean = {name: float(np.mean([s[name][0] for s in cells.values()])) for name in (*fixed, "AUTO")}
    where = f" (on {lost[1][0]}, epsilon {float(lost[1][1])}, k = {lost[1][2]})" if lost[0] < 0 else ""
    near, far = (differences("AUTO", "LD as published", ks) for ks in (small, large))
    few, many = " and ".join(map(str, small)), " and ".join(map(str, large))
    theirs = ahead()
    note = "; see the note below the table" if any(data in SETS for data, _, _ in cells) else ""
    return [
        Claim(
            f"One-sided noise makes Top Stable better: on average over {len(gains)} cells P is higher by "
            f"{np.mean(gains):.3f}, and nowhere lower by more than {max(0.0, -min(gains)):.3f}.",
            bool(np.mean(gains) >= 0.02 and min(gains) >= -0.02),
        ),
        Claim(
            "Top Stable as printed returns more than Limited Domain as published in more cells than less: "
            f"it is ahead in {better} and behind in {worse} of {len(printed_ld)}{note}.",
            better > worse,
            f"TS has better utility more often than LD (section 6.1; P in its table 2: ahead in {theirs[0]}, "
            f"behind in {theirs[1]} of 27)",
            f"ahead in {better}, behind in {worse} of {len(printed_ld)} cells",
        ),
        Claim(
            f"AUTO returns {mean['AUTO']:.3f} on average, "
            + ", ".join(f"{name} {mean[name]:.3f}" for name in fixed)
            + f"; it is within .005 of the best of them in {right} of {len(cells)} cells, and at worst "
            f"{max(0.0, -lost[0]):.3f} below{where}.",
            mean["AUTO"] >= max(mean[name] for name in fixed) - 0.02,
        ),
        Claim(
            f"For k = {few} AUTO, whose gaps come free, returns as much as Limited Domain as published, "
            f"which has none: P differs by {np.mean(near):+.3f} on average, {min(near):+.3f} to "
            f"{max(near):+.3f}.",
            bool(np.mean(near) >= -0.03),
        ),
        Claim(
            f"For k = {many} Limited Domain as published, whose noise grows with the square root of k only "
            "(at the cost of delta, and without gaps), returns more than AUTO in "
            f"{sum(d < 0 for d in far)} of {len(far)} cells: P of AUTO differs by {np.mean(far):+.3f} on "
            f"average, {min(far):+.3f} to {max(far):+.3f}.",
            sum(d < 0 for d in far) > len(far) / 2,
        ),
    ]


def claims_curves(curves: Curves) -> list[Claim]:
    """Say what the figure over k shows."""
    names = list(dict.fromkeys(name for name, _ in curves))

    def lead(name: str, k: int) -> float:
        return curves[name, k]["limited domain"][1] - curves[name, k]["TS one-sided"][1]

    last = {n: max((k for k in CURVE if lead(n, k) > -0.01), default=0) for n in names}
    ends = [lead(n, CURVE[-1]) for n in names]
    one_sided = [s["TS one-sided"][1] - s["TS as printed"][1] for s in curves.values()]
    return [
        Claim(
            "Limited domain's noise grows with k, that of Top Stable does not: limited domain is level with "
            "the one-sided one or ahead of it up to k = "
            + ", ".join(f"{last[n]} on {n}{' (the end)' if last[n] == CURVE[-1] else ''}" for n in names)
            + ", and behind beyond.",
            all(lead(n, k) > -0.02 for n in names for k in CURVE if k <= last[n])
            and min(last.values()) >= 8
            and min(ends) < 0,
        ),
        Claim(
            f"One-sided noise is ahead of Laplace noise by {np.mean(one_sided):.3f} in S on average, and by "
            f"{max(one_sided):.3f} where most; nowhere behind by more than {max(0.0, -min(one_sided)):.3f}.",
            bool(np.mean(one_sided) > 0.01 and min(one_sided) > -0.02),
        ),
    ]
