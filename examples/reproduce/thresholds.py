"""What adaptivity is worth: how many answers above a threshold one budget pays for, and what is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction

import numpy as np

from dpsql.noise import Entropy
from reproduce.error_reduction import EPSILON, random_thresholds
from reproduce.page import Claim, Section, Table
from reproduce.sets import DataSet
from reproduce.svg import Series, panel
from reproduce.trials import threshold_runs

__all__ = ["KS", "adaptivity"]

KS = tuple(range(2, 25, 2))
NAMES = ("sparse vector", "adaptive, two branches", "ladder, four branches")
COLUMNS = (
    "data",
    "k",
    "mechanism",
    "answers",
    "of them far above",
    "precision",
    "F-measure",
    "budget left after k",
)


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


def adaptivity(sets: Sequence[DataSet], trials: int, entropy: Entropy, tick: Callable[[], None]) -> Section:
    """Free Gap, figures 3 and 4; dissertation, figures 5-4, 5-5 and 5-6."""
    rows = [
        _point(one, k, name, trials, entropy, tick) for one in sets for k in KS for name in range(len(NAMES))
    ]
    by = {(r.data, r.k, r.mechanism): r for r in rows}

    def column(one: DataSet, name: str, what: str) -> list[float]:
        return [float(getattr(by[one.name, k, name], what)) for k in KS]

    panels = []
    for one in sets:
        plain, adaptive, ladder = (column(one, name, "answers") for name in NAMES)
        far = column(one, NAMES[1], "far")
        panels.append(
            panel(
                f"{one.name}: answers",
                "k, base hits paid for",
                "answers above the threshold",
                [
                    Series("", KS, far, "bar", 2),
                    Series("", KS, [a - f for a, f in zip(adaptive, far, strict=True)], "bar", 0),
                    Series("", KS, plain, "both", 5),
                    Series("", KS, ladder, "both", 1, 1),
                ],
            )
        )
    for what, words in (("f_measure", "F-measure"), ("precision", "precision")):
        panels += [
            panel(
                f"{one.name}: {words}",
                "k, base hits paid for",
                words,
                [
                    Series("", KS, column(one, NAMES[0], what), "both", 5),
                    Series("", KS, column(one, NAMES[1], what), "both", 0, 2),
                    Series("", KS, column(one, NAMES[2], what), "both", 1, 1),
                ],
                y_range=(0, 1.05),
            )
            for one in sets
        ]
    panels += [
        panel(
            f"{one.name}: budget left",
            "k, answers asked for",
            "left when stopped after k",
            [
                Series("", KS, column(one, NAMES[1], "left"), "both", 0, 2),
                Series("", KS, column(one, NAMES[2], "left"), "both", 1, 1),
            ],
            y_range=(0, 100),
            unit="%",
        )
        for one in sets
    ]
    legend = (
        Series("adaptive, two branches as printed: answers far above", (), (), "bar", 2),
        Series("… and answers in its base branch", (), (), "bar", 0),
        Series("sparse vector", (), (), "both", 5),
        Series("adaptive, two branches as printed", (), (), "both", 0, 2),
        Series("ladder of four branches (dpsql)", (), (), "both", 1, 1),
    )
    return Section(
        "An adaptive sparse vector answers more with the same budget",
        "Free Gap, figures 3 and 4; dissertation, figures 5-4 to 5-6. The ladder is dpsql's own.",
        "Items are asked for in the order of their names; the threshold is drawn at random between the 2k-th "
        f"and the 8k-th largest count; epsilon {float(EPSILON)}, exponential noise. The budget pays for k "
        "answers of the plain sparse vector. The adaptive one as printed has two branches, one at half the "
        "price for items two standard deviations above; the ladder has four, and asks for more in long "
        "streams.",
        _claims(sets, by),
        panels,
        legend,
        [Table("adaptivity", COLUMNS, [astuple(r) for r in rows])],
    )


def _point(one: DataSet, k: int, name: int, trials: int, entropy: Entropy, tick: Callable[[], None]) -> Point:
    printed = Fraction(1 / (1 + k ** (2 / 3))).limit_denominator(10**6)
    ways: tuple[dict[str, object], ...] = (
        {"branches": 1, "share": printed},
        {"branches": 2, "share": printed, "margin": 2},
        {"branches": 4},
    )
    options = ways[name]
    thresholds = random_thresholds(one, k, trials)
    answers = far = 0
    precision, f_measure = [], []
    for part, runs in threshold_runs(one.counts, thresholds, k, EPSILON, entropy, **options):
        hit = runs.branch >= 0
        true = one.counts[None, :] >= part[:, None]
        found, right, wanted = hit.sum(axis=1), (hit & true).sum(axis=1), true.sum(axis=1)
        answers += int(found.sum())
        far += int((runs.branch >= 1).sum())
        precision.append(np.where(found > 0, right / np.maximum(found, 1), 1.0))
        f_measure.append(2 * right / (found + wanted))
    left: list[Fraction] = []
    if name:
        for _, runs in threshold_runs(one.counts, thresholds, k, EPSILON, entropy, limit=k, **options):
            full = (runs.branch >= 0).sum(axis=1) == k
            left += [1 - runs.epsilon[i] / EPSILON for i in np.flatnonzero(full)]
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
    )


def _claims(sets: Sequence[DataSet], by: dict[tuple[str, int, str], Point]) -> list[Claim]:
    first, k = sets[0].name, 10
    plain, adaptive, ladder = (by[first, k, name] for name in NAMES)
    left = [by[one.name, k, NAMES[1]].left for one in sets]
    everywhere = [(by[one.name, k, NAMES[1]], by[one.name, k, NAMES[0]]) for one in sets for k in KS]
    return [
        Claim(
            f"Two branches answer about twice as much at equal precision: on {first} at k = {k}, "
            f"{adaptive.answers:.1f} instead of {plain.answers:.1f} answers, precision "
            f"{adaptive.precision:.3f} against {plain.precision:.3f}.",
            adaptive.answers > 1.6 * plain.answers and adaptive.precision > plain.precision - 0.02,
        ),
        Claim(
            "They never answer less than the plain one, and most answers come from the cheap branch.",
            all(a.answers >= p.answers - 0.05 for a, p in everywhere)
            and sum(a.far for a, _ in everywhere) > 0.5 * sum(a.answers for a, _ in everywhere),
        ),
        Claim(
            "Stopped after k answers, about 40% of the budget is left: at k = 10 "
            + ", ".join(f"{value:.0f}% on {one.name}" for value, one in zip(left, sets, strict=True))
            + ".",
            all(25 <= value <= 55 for value in left),
        ),
        Claim(
            f"The ladder finds nearly everything there is to find on {first}: F-measure "
            f"{ladder.f_measure:.2f} at k = {k}, against {adaptive.f_measure:.2f} with two branches and "
            f"{plain.f_measure:.2f} with one; precision {ladder.precision:.3f}.",
            ladder.f_measure >= (0.88 if first == "t40i10d100k" else adaptive.f_measure)
            and ladder.precision >= 0.97,
        ),
        Claim(
            f"With LIMIT 10 the ladder gives back {by[first, k, NAMES[2]].left:.0f}% of epsilon on {first}.",
            by[first, k, NAMES[2]].left > by[first, k, NAMES[1]].left - 5,
        ),
    ]
