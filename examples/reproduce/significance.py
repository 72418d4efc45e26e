"""Whether the free p-values keep their word: how often they call a wrong choice sure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates import exponential_mechanism_p_value, p_value
from dpsql.kernel.noise import Entropy
from dpsql.mechanisms import exponential
from reproduce.page import Claim, Figure, Section, Table
from reproduce.sets import DataSet
from reproduce.svg import Series, panel
from reproduce.trials import blocks, top_k_runs

__all__ = ["LEVELS", "NAMES", "STRENGTHS", "Point", "claims_mechanism", "claims_winner", "p_values"]

LEVELS = (0.05, 0.01)
STRENGTHS = tuple(range(1, 12, 2))
"""Epsilon times the largest count: as in the dissertation, small enough that the choice is often wrong."""

SAMPLED = 100
ERRORS = 5
"""Standard errors that chance may explain: a false alarm in a million."""

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

    def error(self, level: float) -> float:
        """Standard error of a share that is at the level in truth."""
        return math.sqrt(level * (1 - level) / max(self.wrong, 1))


def p_values(sets: Sequence[DataSet], trials: int, entropy: Entropy, tick: Callable[[], None]) -> Section:
    """Dissertation, figure 5-9, and the same for noisy max."""
    rows: list[Point] = []
    for one in sets:
        counts = np.random.default_rng(0).choice(one.counts, SAMPLED, replace=False)
        for strength in STRENGTHS:
            epsilon = Fraction(strength, int(counts.max()))
            rows += _points(one.name, counts, strength, epsilon, trials, entropy)
            tick()
    legend = (
        Series("p ≤ 0.05", (), (), "both", 0, 0),
        Series("p ≤ 0.01", (), (), "both", 1, 1),
        Series("the level itself", (), (), "dashed", 5),
    )
    mechanism, winner = ([r for r in rows if r.mechanism == name] for name in NAMES)
    return Section(
        "p-values that come free with a choice are valid",
        "Dissertation, theorem 5.14 and figure 5-9; those of noisy max are dpsql's own.",
        f"{SAMPLED} counts are drawn from each set, and epsilon is so small that the largest is often "
        f"missed. Of the runs that chose wrongly ({min(r.wrong for r in rows):,} to "
        f"{max(r.wrong for r in rows):,} of {trials:,}), how many have a p-value of at most 5%, and of at "
        "most 1%? Whiskers are two standard errors.",
        [
            Figure("Exponential mechanism with gap", claims_mechanism(mechanism), _panels(mechanism), legend),
            Figure("Noisy max with gap", claims_winner(winner), _panels(winner), legend),
        ],
        [
            Table(
                "p_values",
                ("data", "mechanism", "epsilon x largest", "runs", "wrong choices", "p <= 0.05", "p <= 0.01"),
                [(r.data, r.mechanism, r.strength, r.runs, r.wrong, *r.sure) for r in rows],
            )
        ],
    )


def claims_mechanism(rows: Sequence[Point]) -> list[Claim]:
    """Say what the figure of the exponential mechanism shows."""
    worst = [max(r.sure[i] for r in rows) for i in range(len(LEVELS))]
    over = max((r.sure[i] - level) / r.error(level) for r in rows for i, level in enumerate(LEVELS))
    beyond = f"above it by {over:.1f} standard errors at most" if over > 0 else "always below the level"
    close = " The level is all but reached where the two largest counts almost tie."
    tight = close if worst[0] > 0.8 * LEVELS[0] else ""
    return [
        Claim(
            f"Valid: of the wrong choices at most {worst[0]:.4f} have p ≤ 0.05 and at most {worst[1]:.4f} "
            f"have p ≤ 0.01, {beyond}.{tight}",
            over <= ERRORS and any(r.wrong > 0 for r in rows),
            "type I errors below the levels 0.05 and 0.01 (figure 5-9)",
            f"at most {worst[0]:.3f} and {worst[1]:.4f}",
        )
    ]


def claims_winner(rows: Sequence[Point]) -> list[Claim]:
    """Say what the figure of noisy max shows."""
    ranges = [(min(r.sure[i] for r in rows), max(r.sure[i] for r in rows)) for i in range(len(LEVELS))]
    off = max(abs(r.sure[i] - level) / r.error(level) for r in rows for i, level in enumerate(LEVELS))
    return [
        Claim(
            "Valid, and none is wasted: a wrong winner's lead is exponential, so p is at most a level as "
            f"often as the level says. Measured {ranges[0][0]:.4f} to {ranges[0][1]:.4f} at 0.05 and "
            f"{ranges[1][0]:.4f} to {ranges[1][1]:.4f} at 0.01, within {off:.1f} standard errors.",
            off <= ERRORS and any(r.wrong > 0 for r in rows),
        )
    ]


def _panels(rows: Sequence[Point]) -> list[str]:
    panels = []
    top = max(max(r.sure[0] + 2 * r.error(LEVELS[0]) for r in rows) * 1.05, 0.06)
    for data in dict.fromkeys(r.data for r in rows):
        mine = [r for r in rows if r.data == data]
        xs = [r.strength for r in mine]
        drawn = [Series("", xs, [level] * len(mine), "dashed", i) for i, level in enumerate(LEVELS)]
        drawn += [
            Series(
                "",
                xs,
                [r.sure[i] for r in mine],
                "both",
                i,
                i,
                error=[2 * r.error(max(r.sure[i], 1 / max(r.wrong, 1))) for r in mine],
            )
            for i in range(len(LEVELS))
        ]
        panels.append(
            panel(data, "epsilon x largest count", "share of wrong choices", drawn, y_range=(0, top))
        )
    return panels


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
    sure = exponential_mechanism_p_value(np.concatenate([r.gap for r in chosen])[:, 0], chosen[0].plan.scale)
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
