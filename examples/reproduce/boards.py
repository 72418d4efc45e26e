"""What a board is worth: the error of the best score that is shown, beside scores that are all answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction
from math import log

import numpy as np
from numpy.typing import NDArray

from dpsql.composition.boards import Best
from dpsql.estimates.scores_and_weights import find_mean
from dpsql.kernel.mechanisms import Box, CheckStream, CheckStreamPlan, Laplace, NoiseSource
from dpsql.kernel.noise import Entropy
from dpsql.language.board_statements import BOARD_ANSWERS
from dpsql.noise import SeededEntropy
from reproduce.page import Claim, Figure, Section, Table
from reproduce.svg import Series, panel

__all__ = ["ROWS", "Point", "boards", "claims", "losses"]

ROWS = (5_000, 20_000, 50_000)
SUBMISSIONS, REAL, IMPROVEMENTS = 200, 10, 15
STEP, START = Fraction(1, 100), Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Point:
    """Mean errors with so many rows: of the best score shown, and of the submission that it is of."""

    rows: int
    board: float
    board_regret: float
    plain: float
    plain_regret: float
    apart_regret: float
    """That of the board, where no submission is nearly as good as the best."""
    least_regret: float
    """The least that a board with so many improvements can have (`least_regret`)."""


def losses(rng: np.random.Generator, *, apart: bool = False) -> NDArray[np.float64]:
    """Return the true losses of submissions: ten are better than all before, by .01 to .03.

    Half of the others are about as good as the best before them, the rest are worse. With `apart` all others
    are worse by up to .4, and improvements are of .02 to .07.
    """
    better = {*rng.choice(np.arange(1, SUBMISSIONS), REAL, replace=False).tolist()}
    best, found = float(START), []
    for place in range(SUBMISSIONS):
        if place in better:
            best = max(best - rng.uniform(*((0.02, 0.07) if apart else (0.01, 0.03))), 0.0)
            found.append(best)
        elif apart:
            found.append(best + rng.uniform(0, 0.4))
        else:
            worse = abs(rng.normal(0, 0.001)) if rng.random() < 0.5 else rng.exponential(0.05)
            found.append(best + worse)
    return np.minimum(found, 1.0)


def boards(trials: int, seed: int, entropy: Entropy, tick: Callable[[], None]) -> Section:
    """Let 200 submissions compete on a board and, beside it, each as a statement at 1/200 of epsilon."""
    rng, points = np.random.default_rng(seed), []
    for rows in ROWS:
        points.append(_point(rows, trials, rng, NoiseSource(entropy)))
        tick()
    series = [
        Series("each score answered", ROWS, [100 * p.plain for p in points], "both", 1, 1),
        Series("board", ROWS, [100 * p.board for p in points], "both", 0, 0),
    ]
    names = ("rows", "board: error", "board: regret", "all answered: error", "all answered: regret")
    names = (*names, "board: regret if the others are clearly worse", "least regret of any such board")
    return Section(
        "A board finds the best of 200 submissions",
        "Sparse vector lecture, exercise 2 (the ladder by PrivGuessAndCheck).",
        f"{SUBMISSIONS} models with about {REAL} real improvements, each scored by its share of errors on "
        f"private rows, at epsilon 1 for all. A board answers {IMPROVEMENTS} improvements of more than "
        f"{float(STEP)}; beside it each score is a statement at epsilon 1/{SUBMISSIONS}, and the lowest "
        "answer is taken for the best. Error: of the best score shown, against the best true one. "
        "Regret: how much worse than that the submission is to which it belongs; half of the others are "
        "nearly as good as the best, which makes it large, and in the column before the last they are "
        f"worse by up to .4. The last column is of a board that cannot be: with {IMPROVEMENTS} "
        "improvements, it compares with the least noise that the proof admits for all of epsilon, knows "
        f"each score that it answers, and has the step that is best for it. {trials:,} runs a point.",
        [
            Figure(
                "Error of the best score",
                claims(points),
                [panel("Error of the best score", "rows", "error, in per cent of rows", series)],
                series,
            )
        ],
        [Table("boards", names, [astuple(p) for p in points], shown=True, title="Mean errors")],
    )


def claims(points: Sequence[Point]) -> list[Claim]:
    """Say what the figure shows."""
    small, large = points[0], points[-1]
    return [
        Claim(
            f"With {small.rows:,} rows the best score that a board shows has an error of {small.board:.3f}, "
            f"where all answered it has {small.plain:.3f}: about a twentieth.",
            small.board < small.plain / 15,
        ),
        Claim(
            f"With {large.rows:,} rows it is {large.board:.4f} beside {large.plain:.4f}, and the winner is "
            f"{large.board_regret:.4f} worse than the best, or {large.apart_regret:.4f} where the others are "
            "clearly worse.",
            large.board < large.plain / 2 and large.apart_regret < large.board_regret < float(STEP) / 2,
        ),
        Claim(
            f"Of submissions half of which are nearly as good as the best, no board with {IMPROVEMENTS} "
            f"improvements finds one that is worse by less than {small.least_regret:.4f} with "
            f"{small.rows:,} rows, or {large.least_regret:.4f} with {large.rows:,}, whatever its answers "
            "and its step.",
            all(p.least_regret > 0.0005 for p in points) and small.least_regret < small.board_regret,
        ),
    ]


def _point(rows: int, trials: int, rng: np.random.Generator, source: NoiseSource) -> Point:
    plan = CheckStreamPlan.plan(1, IMPROVEMENTS, answers=BOARD_ANSWERS)
    found, apart, drawn = [], [], list[NDArray[np.int64]]()
    others, noise = np.random.default_rng(rows), NoiseSource(SeededEntropy(rows))
    for _ in range(trials):
        wrong = others.binomial(rows, losses(others, apart=True))
        apart.append(wrong[_run_board(plan, wrong, rows, noise)[1]] / rows - wrong.min() / rows)
        wrong = rng.binomial(rows, losses(rng))
        true = wrong / rows
        drawn.append(wrong)
        shown, winner = _run_board(plan, wrong, rows, source)
        answers = _answers(wrong, rows, Fraction(1, SUBMISSIONS), source)
        best = true.min()
        lowest = int(answers.argmin())
        found.append(
            (abs(shown - best), true[winner] - best, abs(answers[lowest] - best), true[lowest] - best)
        )
    least = least_regret(np.array(drawn), rows, others)
    return Point(rows, *np.mean(found, axis=0).tolist(), float(np.mean(apart)), least)


def least_regret(wrong: NDArray[np.int64], rows: int, rng: np.random.Generator) -> float:
    """Return the least mean regret, over steps, of a board that is better than any with so many improvements.

    An improvement costs 2/scale of the noise of its comparison, which moves by 2 bounds, so with all of
    epsilon 1 the scale is 2 x improvements. The threshold has no noise, and answers are exact and free.
    """
    trials, found = np.arange(len(wrong)), list[float]()
    for step in (0.0, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03):
        best, winner = np.full(len(wrong), float(START)), np.zeros(len(wrong), dtype=np.int64)
        used = np.zeros(len(wrong), dtype=np.int64)
        for place in range(wrong.shape[1]):
            edge = best - step
            noise = 2 * IMPROVEMENTS * (rng.exponential(1, len(wrong)) - 1)
            off = (edge * rows - wrong[:, place]) / np.maximum(1 - edge, edge) + noise >= 0
            off &= used < IMPROVEMENTS
            better = off & (wrong[:, place] < best * rows)
            used += off
            best = np.where(better, wrong[:, place] / rows, best)
            winner = np.where(better, place, winner)
        found.append(float((wrong[trials, winner] - wrong.min(axis=1)).mean()) / rows)
    return min(found)


def _run_board(
    plan: CheckStreamPlan, wrong: NDArray[np.int64], rows: int, source: NoiseSource
) -> tuple[float, int]:
    """Return the best score that is shown, and the submission that has it (the first, if none has)."""
    stream, best, winner = CheckStream(plan, source), Best(START, STEP, highest=False), 0
    counted = Laplace.plan(SUBMISSIONS, plan.answer_epsilon, groups_per_unit=1)
    half = log(100) / float(plan.answer_epsilon)
    numbers = counted.run(np.full(len(wrong), rows), source).value
    for place, errors in enumerate(wrong.tolist()):
        if stream.exhausted:
            break
        # As the product counts it: the sum of edge - x over rows, in bounds.
        edge = best.edge
        bound = max(1 - edge, edge)
        gap = stream.check((edge * rows - errors) / bound)
        if gap is None:
            continue
        number = float(numbers[place])
        mean = find_mean(plan, float(gap * bound), float(bound), (number, number - half, number + half))
        if mean is not None:
            best, winner = best.after(min(max(float(edge) - mean[0], 0.0), 1.0)), place
    return float(best.value), winner


def _answers(
    wrong: NDArray[np.int64], rows: int, epsilon: Fraction, source: NoiseSource
) -> NDArray[np.float64]:
    """Return averages as the product answers them: of two counts with one noise, of errors and of rows."""
    counts = np.stack([wrong, np.full_like(wrong, rows)], axis=1)
    noisy = Box.plan(2, epsilon).run(counts, source)
    return np.clip(noisy.value[:, 0] / np.maximum(noisy.value[:, 1], 1), 0, 1)
