"""Whether the free p-values keep their word: how often they call a wrong choice sure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates import exponential_mechanism_p_value, p_value
from dpsql.mechanisms import exponential
from dpsql.noise import Entropy
from reproduce.page import Claim, Section, Table
from reproduce.sets import DataSet
from reproduce.svg import Series, panel
from reproduce.trials import blocks, top_k_runs

__all__ = ["STRENGTHS", "p_values"]

LEVELS = (0.05, 0.01)
STRENGTHS = tuple(range(1, 12, 2))
"""Epsilon times the largest count: as in the dissertation, small enough that the choice is often wrong."""

SAMPLED = 100
NAMES = ("exponential mechanism", "noisy max")


@dataclass(frozen=True, slots=True)
class Point:
    """How many runs chose wrongly, and which part of them has a p-value of at most each level."""

    data: str
    mechanism: str
    strength: int
    runs: int
    wrong: int
    sure: tuple[float, ...]


def p_values(sets: Sequence[DataSet], trials: int, entropy: Entropy, tick: Callable[[], None]) -> Section:
    """Dissertation, figure 5-9, and the same for noisy max."""
    rows: list[Point] = []
    for one in sets:
        counts = np.random.default_rng(0).choice(one.counts, SAMPLED, replace=False)
        for strength in STRENGTHS:
            epsilon = Fraction(strength, int(counts.max()))
            rows += _points(one.name, counts, strength, epsilon, trials, entropy)
            tick()
    panels = []
    for one in sets:
        for name in NAMES:
            mine = [r for r in rows if (r.data, r.mechanism) == (one.name, name)]
            strengths = [r.strength for r in mine]
            panels.append(
                panel(
                    f"{one.name}: {name}",
                    "epsilon x largest count",
                    "P(p <= level | wrong choice)",
                    [
                        Series("", strengths, [r.sure[0] for r in mine], "both", 0, 0),
                        Series("", strengths, [r.sure[1] for r in mine], "both", 1, 1),
                        *(
                            Series("", strengths, [level] * len(mine), "dashed", i)
                            for i, level in enumerate(LEVELS)
                        ),
                    ],
                    y_range=(0, 0.07),
                )
            )
    # Five standard errors of what is counted: a false alarm in a million.
    slack = [5 * (level / max(min(r.wrong for r in rows), 1)) ** 0.5 for level in LEVELS]
    mechanism = [r for r in rows if r.mechanism == NAMES[0]]
    winner = [r for r in rows if r.mechanism == NAMES[1]]
    return Section(
        "p-values that come free with a choice are valid",
        "Dissertation, theorem 5.14 and figure 5-9; those of noisy max are dpsql's own.",
        f"{SAMPLED} counts are drawn from each set, and epsilon is so small that the largest is often "
        "missed. Of the runs that chose wrongly, how many call it sure at 5% and at 1%?",
        [
            Claim(
                f"Exponential mechanism with gap: at most {max(r.sure[0] for r in mechanism):.3f} at 5% and "
                f"{max(r.sure[1] for r in mechanism):.4f} at 1%.",
                all(r.sure[i] <= level + slack[i] for r in mechanism for i, level in enumerate(LEVELS)),
            ),
            Claim(
                "Noisy max with gap: the level itself, for a wrong winner's lead is exponential: between "
                f"{min(r.sure[0] for r in winner):.4f} and {max(r.sure[0] for r in winner):.4f} at 5%.",
                all(abs(r.sure[i] - level) <= slack[i] for r in winner for i, level in enumerate(LEVELS)),
            ),
        ],
        panels,
        (
            Series("p <= 0.05", (), (), "both", 0, 0),
            Series("p <= 0.01", (), (), "both", 1, 1),
            Series("the level itself", (), (), "dashed", 5),
        ),
        [
            Table(
                "p_values",
                ("data", "mechanism", "epsilon x largest", "runs", "wrong choices", "p <= 0.05", "p <= 0.01"),
                [(r.data, r.mechanism, r.strength, r.runs, r.wrong, *r.sure) for r in rows],
            )
        ],
    )


def _points(
    data: str,
    counts: NDArray[np.int64],
    strength: int,
    epsilon: Fraction,
    trials: int,
    entropy: Entropy,
) -> list[Point]:
    best = counts.max()
    chosen = [
        exponential(np.broadcast_to(counts, (size, len(counts))), epsilon, entropy=entropy)
        for size in blocks(trials, len(counts))
    ]
    index = np.concatenate([r.index for r in chosen])[:, 0]
    sure = exponential_mechanism_p_value(np.concatenate([r.gap for r in chosen])[:, 0], chosen[0].scale)
    runs = top_k_runs(counts, 1, epsilon, trials, entropy)
    found = []
    for name, picked, p in (
        (NAMES[0], index, sure),
        (NAMES[1], runs.index[:, 0], p_value(runs.gap[:, 0], runs.scale)),
    ):
        wrong = p[counts[picked] < best]
        shares = tuple(float((wrong <= level).mean()) if len(wrong) else 0.0 for level in LEVELS)
        found.append(Point(data, name, strength, trials, len(wrong), shares))
    return found
