"""What adaptivity is worth: how many answers above a threshold one budget pays for, and what is left."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction

import numpy as np

from dpsql.kernel.noise import Entropy
from reproduce.error_reduction import EPSILON
from reproduce.over_threshold import printed_share, random_thresholds
from reproduce.page import Claim, Figure, Section, Table
from reproduce.sets import DataSet
from reproduce.svg import Series, panel
from reproduce.trials import charges, threshold_runs

__all__ = ["KS", "NAMES", "Point", "adaptivity", "claims_answers", "claims_left", "claims_quality"]

KS = tuple(range(2, 25, 2))
NAMES = ("sparse vector", "adaptive, two branches", "adaptive, four branches")
COLUMNS = (
    "data",
    "k",
    "mechanism",
    "answers",
    "of them far above",
    "precision",
    "F-measure",
    "budget left after k, %",
    "runs that found k, %",
)
CLEAR = 0.97
"""Where the plain sparse vector is less precise than this, noise drowns the counts."""

BAND = (30.0, 50.0)
"""What "roughly 40%" may mean."""


@dataclass(frozen=True, slots=True)
class Point:
    """Means over all runs of one mechanism."""

    data: str
    k: int
    mechanism: str
    answers: float
    far: float
    """Answers in a cheaper branch."""
    precision: float
    f_measure: float
    left: float
    """Per cent of the budget, when stopped after k answers."""
    full: float
    """Per cent of the runs that found k answers."""


def adaptivity(sets: Sequence[DataSet], trials: int, entropy: Entropy, tick: Callable[[], None]) -> Section:
    """Free Gap, figures 3 and 4; dissertation, figures 5-4, 5-5 and 5-6."""
    rows = [
        _point(one, k, name, trials, entropy, tick) for one in sets for k in KS for name in range(len(NAMES))
    ]
    lines = (
        Series("sparse vector", (), (), "both", 5),
        Series("adaptive, two branches as printed", (), (), "both", 0, 2),
        Series("adaptive sparse vector with four branches (dpsql)", (), (), "both", 1, 1),
    )
    bars = (
        Series("adaptive as printed: answers far above", (), (), "bar", 2),
        Series("… and answers in its base branch", (), (), "bar", 0),
        lines[0],
        lines[2],
    )
    least = min(r.precision for r in rows)
    floor = math.floor(10 * min(least, 0.95)) / 10
    return Section(
        "An adaptive sparse vector answers more with the same budget",
        "Free Gap, figures 3 and 4; dissertation, figures 5-4 to 5-6. Four branches are dpsql's own.",
        "Items are asked for in a random order, the same in all runs; the threshold is drawn at random "
        f"between the 2k-th and the 8k-th largest count; epsilon {float(EPSILON)}, exponential noise, "
        f"{trials:,} runs a point. The budget pays for k answers of the plain sparse vector. The "
        "adaptive one as printed has two branches, one at half the price for items two standard deviations "
        "above; dpsql has four, at down to an eighth of the price, and asks for "
        "larger margins in long streams.",
        [
            Figure("Answers", claims_answers(rows), _answers(rows), bars),
            Figure(
                "Precision and F-measure",
                claims_quality(rows),
                [
                    *_curves(rows, "f_measure", "F-measure", (0, 1.05)),
                    *_curves(rows, "precision", f"precision (from {floor})", (floor, 1.005)),
                ],
                lines,
            ),
            Figure(
                "Budget left when stopped after k answers",
                claims_left(rows),
                _curves(rows, "left", "left of epsilon", (0, 100), names=NAMES[1:], unit="%"),
                lines[1:],
            ),
        ],
        [Table("adaptivity", COLUMNS, [astuple(r) for r in rows])],
    )


def claims_answers(rows: Sequence[Point]) -> list[Claim]:
    """Say what the answers' figure shows."""
    by, names = _by(rows)
    first, k = names[0], 10
    plain, adaptive, most = (by[first, k, name] for name in NAMES)
    pairs = [(by[n, x, NAMES[1]], by[n, x, NAMES[0]]) for n in names for x in KS]
    more = {x: max(by[n, x, NAMES[1]].answers - by[n, x, NAMES[0]].answers for n in names) for x in (22, 24)}
    far = sum(a.far for a, _ in pairs) / sum(a.answers for a, _ in pairs)
    ahead = [by[n, x, NAMES[2]].answers / by[n, x, NAMES[1]].answers for n in names for x in KS]
    return [
        Claim(
            f"Two branches answer nearly twice as much: on {first} at k = {k}, {adaptive.answers:.1f} "
            f"instead of {plain.answers:.1f}; at k = 22 and 24 up to {more[22]:.0f} and {more[24]:.0f} more.",
            adaptive.answers > 1.6 * plain.answers and 14 <= more[22] <= 26 and 15 <= more[24] <= 28,
            "up to 18 more answers at k = 22 (figure 3), 20 at k = 24 (figure 5-4)",
            f"{more[22]:.0f} and {more[24]:.0f} more, where most",
        ),
        Claim(
            f"They never answer less than the plain one, and {100 * far:.0f}% of their answers come from the "
            "cheap branch.",
            all(a.answers >= p.answers - 0.05 for a, p in pairs) and far > 0.5,
            "most answers come from the cheap branch (figure 3)",
            f"{100 * far:.0f}%",
        ),
        Claim(
            f"Four branches answer {most.answers:.1f} on {first} at k = {k}. Over all sets and k they answer "
            f"{min(ahead):.2f} to {max(ahead):.2f} times as much as two branches: most where many items are "
            "far above the threshold, where their cheapest branches pass, and least where few are, as they "
            "then hold back.",
            most.answers > 1.8 * adaptive.answers and min(ahead) > 0.75,
        ),
    ]


def claims_quality(rows: Sequence[Point]) -> list[Claim]:
    """Say what the figure of precision and F-measure shows."""
    by, names = _by(rows)
    clear, drowned = _clear(rows)
    first, k = names[0], 10
    _, adaptive, most = (by[first, k, name] for name in NAMES)
    drops = {
        name: max((by[*c, NAMES[0]].precision - by[*c, name].precision for c in clear), default=1.0)
        for name in NAMES[1:]
    }
    ratios = [by[*c, NAMES[1]].f_measure / by[*c, NAMES[0]].f_measure for c in clear] or [0.0]
    gains = [by[*c, NAMES[2]].f_measure - by[*c, NAMES[1]].f_measure for c in clear] or [-1.0]
    others = "".join(
        f"; {by[n, k, NAMES[2]].f_measure:.2f} against {by[n, k, NAMES[1]].f_measure:.2f} on {n}"
        for n in names[1:]
    )
    said = [
        Claim(
            f"Where the plain sparse vector errs in at most {100 - 100 * CLEAR:.0f}% of its answers "
            f"({len(clear)} of {len(clear) + len(drowned)} points), precision hardly suffers: two branches "
            f"lose at most {max(0.0, drops[NAMES[1]]):.3f} against it, four branches "
            f"{max(0.0, drops[NAMES[2]]):.3f}.",
            max(drops.values()) <= 0.04,
            "very little difference in precision (figures 3, 5-5)",
            f"at most {max(0.0, drops[NAMES[1]]):.3f} less where the plain one is right, see there",
        ),
        Claim(
            f"There the F-measure of two branches is {np.mean(ratios):.2f} times that of one on average "
            f"({min(ratios):.2f} to {max(ratios):.2f}).",
            1.3 <= float(np.mean(ratios)) <= 1.7 and min(ratios) > 1,
            "roughly 1.5 times the F-measure (figures 3, 5-5)",
            f"{np.mean(ratios):.2f} times on average",
        ),
        Claim(
            f"Four branches find most of what there is on {first}: F-measure {most.f_measure:.2f} at "
            f"k = {k}, against {adaptive.f_measure:.2f} with two branches{others}. At these points they are "
            f"{min(gains):+.3f} to {max(gains):+.3f} ahead.",
            most.f_measure > adaptive.f_measure + 0.1 and min(gains) > -0.06,
        ),
    ]
    if drowned:
        worst = min(drowned, key=lambda c: by[*c, NAMES[1]].precision)
        plain, two, all_four = (by[*worst, name].precision for name in NAMES)
        said.append(
            Claim(
                "Where noise drowns the counts, so that even the plain one errs more often, two branches "
                f"err most, and their margins pay: at worst (k = {worst[1]} on {worst[0]}) precision "
                f"is {plain:.2f} with one branch, {two:.2f} with two and {all_four:.2f} with four.",
                two < all_four and two < plain,
            )
        )
    return said


def claims_left(rows: Sequence[Point]) -> list[Claim]:
    """Say what the figure of the budget left shows."""
    by, names = _by(rows)
    clear, _ = _clear(rows)
    first, k = names[0], 10
    wide = [by[*c, NAMES[1]].left for c in clear if c[1] >= 6] or [0.0]
    low = [by[n, 2, NAMES[1]].left for n in names]
    margins = {(n, x): by[n, x, NAMES[2]].left - by[n, x, NAMES[1]].left for n in names for x in KS}
    mine = [margins[first, x] for x in KS]
    return [
        Claim(
            f"Stopped after k answers, two branches leave {min(wide):.0f}% to {max(wide):.0f}% of the budget "
            "from k = 6 on where the plain sparse vector is mostly right (as above), and "
            f"{min(low):.0f}% at k = 2, where fewer answers can be cheap.",
            all(BAND[0] <= value <= BAND[1] for value in wide),
            "roughly 40% of the budget is left (figures 4, 5-6)",
            f"{min(wide):.0f}% to {max(wide):.0f}% from k = 6 on",
        ),
        Claim(
            f"Four branches leave {by[first, k, NAMES[2]].left:.0f}% on {first} at k = {k}, and there "
            f"{min(mine):.0f} to {max(mine):.0f} points more than two branches at every k; a statement with "
            "LIMIT k gets that much back. Over all sets the difference is "
            f"{min(margins.values()):+.0f} to {max(margins.values()):+.0f} points: where few items are far "
            "above the threshold there is less to save.",
            min(mine) > 10 and max(margins.values()) > -min(margins.values()),
        ),
    ]


def _clear(rows: Sequence[Point]) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return the points at which the plain sparse vector is nearly always right, and the others."""
    plain = [r for r in rows if r.mechanism == NAMES[0]]
    clear = [(r.data, r.k) for r in plain if r.precision >= CLEAR]
    return clear, [(r.data, r.k) for r in plain if r.precision < CLEAR]


def _by(rows: Sequence[Point]) -> tuple[dict[tuple[str, int, str], Point], list[str]]:
    return {(r.data, r.k, r.mechanism): r for r in rows}, list(dict.fromkeys(r.data for r in rows))


def _column(rows: Sequence[Point], data: str, name: str, what: str) -> list[float]:
    return [float(getattr(r, what)) for r in rows if (r.data, r.mechanism) == (data, name)]


def _answers(rows: Sequence[Point]) -> list[str]:
    panels = []
    for data in _by(rows)[1]:
        plain, adaptive, four = (_column(rows, data, name, "answers") for name in NAMES)
        far = _column(rows, data, NAMES[1], "far")
        panels.append(
            panel(
                data,
                "k, base hits paid for",
                "answers above the threshold",
                [
                    Series("", KS, far, "bar", 2),
                    Series("", KS, [a - f for a, f in zip(adaptive, far, strict=True)], "bar", 0),
                    Series("", KS, plain, "both", 5),
                    Series("", KS, four, "both", 1, 1),
                ],
            )
        )
    return panels


def _curves(
    rows: Sequence[Point],
    what: str,
    words: str,
    y_range: tuple[float, float],
    *,
    names: Sequence[str] = NAMES,
    unit: str = "",
) -> list[str]:
    looks = {NAMES[0]: (5, 0), NAMES[1]: (0, 2), NAMES[2]: (1, 1)}
    x_label = "k, answers asked for" if what == "left" else "k, base hits paid for"
    return [
        panel(
            data,
            x_label,
            words,
            [Series("", KS, _column(rows, data, name, what), "both", *looks[name]) for name in names],
            y_range=y_range,
            unit=unit,
        )
        for data in _by(rows)[1]
    ]


def _point(one: DataSet, k: int, name: int, trials: int, entropy: Entropy, tick: Callable[[], None]) -> Point:
    ways: tuple[dict[str, object], ...] = (
        {"branches": 1, "share": printed_share(k)},
        {"branches": 2, "share": printed_share(k), "margin": 2},
        {"branches": 4},
    )
    options = ways[name]
    thresholds = random_thresholds(one, k, trials)
    answers = far = 0
    precision, f_measure = [], []
    for part, runs in threshold_runs(one.counts, thresholds, k, EPSILON, entropy, **options):
        hit = runs.index >= 0
        right = (hit & (one.counts[runs.index] >= part[:, None])).sum(axis=1)
        found, wanted = hit.sum(axis=1), (one.counts[None, :] >= part[:, None]).sum(axis=1)
        answers += int(found.sum())
        far += int((runs.branch >= 1).sum())
        precision.append(np.where(found > 0, right / np.maximum(found, 1), 1.0))
        f_measure.append(2 * right / (found + wanted))
    left: list[Fraction] = []
    if name:
        for _, runs in threshold_runs(one.counts, thresholds, k, EPSILON, entropy, limit=k, **options):
            full, spent = (runs.index >= 0).sum(axis=1) == k, charges(runs)
            left += [1 - spent[i] / EPSILON for i in np.flatnonzero(full)]
    tick()
    return Point(
        one.name,
        k,
        NAMES[name],
        answers / trials,
        far / trials,
        float(np.concatenate(precision).mean()),
        float(np.concatenate(f_measure).mean()),
        100 * float(sum(left)) / len(left) if left else 0.0,
        100 * len(left) / trials,
    )
