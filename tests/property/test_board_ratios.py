"""A board is private: all its outputs enumerated on all small tables, with the product's own best.

Two submissions are scored on up to three rows of two bits, each row a unit; the second is compared with a
best that follows from the gap of the first and a noisy number of rows. All noise has probabilities of powers
of 1/2, so a loss is a number of bits, and each probability is a sum of few dyadic fractions. The tail of the
threshold's noise that is left out has a chance below 2^-50.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import floor

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.composition.boards import Best
from dpsql.estimates.scores_and_weights import find_mean
from dpsql.kernel.mechanisms import CheckStreamPlan

LEVELS = np.arange(56)
"""The noise of the threshold, in bounds."""
GAPS = range(10)
ROWS = range(-2, 6)
"""What the number of rows may be with noise."""
CUT = 1
PLAN = CheckStreamPlan.plan(1, 2)
Rows = tuple[tuple[int, int], ...]
START = Best(Fraction(1), Fraction(1, 4), highest=False)


def outcome(statistic: int) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """The chance that a check is as expected, and that it is off by each gap, for each threshold's noise."""
    within = CUT + LEVELS - statistic
    fine = np.where(within > 0, 1 - 0.5 ** np.clip(within, 0, 60), 0.0)
    off = []
    for gap in GAPS:
        need = CUT + gap + LEVELS - statistic
        off.append(np.where(need >= 0, 0.5 ** (np.clip(need, 0, 60) + 1), 0.0))
    return fine, off


def chance_of(number: int, rows: Rows) -> float:
    """The chance of a number of rows: with two-sided noise, in a sum that a unit moves by 1."""
    return 0.5 ** abs(number - len(rows)) / 3


def best_after(best: Best, gap: int, number: float) -> Best:
    """The best after an improvement by so many bounds, as the product finds it."""
    bound = float(max(1 - best.edge, best.edge))
    mean = find_mean(PLAN, gap * bound, bound, (number, number, number))
    return best if mean is None else best.after(min(max(float(best.edge) - mean[0], 0.0), 1.0))


def statistic_of(rows: Rows, place: int, best: Best, mistake: str) -> int:
    """How far the score is better than the edge, in whole bounds, as the product counts it."""
    edge = best.edge
    bound = max(1 - edge, edge)
    if mistake == "bound":  # of the values, although the edge lies outside of them
        bound /= 2
    return floor(sum((edge - row[place] for row in rows), Fraction(0)) / bound)


def outputs(rows: Rows, mistake: str = "") -> dict[tuple[object, ...], float]:
    """The chance of each output of a board with two improvements."""
    found: dict[tuple[object, ...], float] = {}
    level = 0.5 ** (LEVELS + 1)
    exact = sum(row[0] for row in rows) / max(len(rows), 1)

    def second(first: tuple[object, ...], weight: NDArray[np.float64], best: Best) -> None:
        fine, off = outcome(statistic_of(rows, 1, best, mistake))
        found[*first, "no"] = float((weight * fine).sum())
        for gap, chances in zip(GAPS, off, strict=True):
            found[*first, gap] = float((weight * chances).sum())

    fine, off = outcome(statistic_of(rows, 0, START, mistake))
    own = START.after(exact) if mistake == "exact" else START
    second(("no",), level * fine, own)
    for gap, chances in zip(GAPS, off, strict=True):
        for number in ROWS:
            best = own if mistake == "exact" else best_after(START, gap, number)
            second((gap, number), level * chances * chance_of(number, rows), best)
    return found


def bits(output: tuple[object, ...]) -> int:
    """The charge of an output: 1 of the threshold, 2 of each improvement, 1 of each answer."""
    improvements = sum(isinstance(each, int) for each in (output[0], output[-1]))
    return 1 + 2 * improvements + (len(output) == 3)


def largest_excess(mistake: str = "") -> tuple[float, float]:
    """By how many bits the loss of an output exceeds its charge at most, and the largest loss."""
    row = [(0, 0), (0, 1), (1, 0), (1, 1)]
    made = {rows: outputs(rows, mistake) for n in (2, 3) for rows in product(row, repeat=n)}
    most, loss = -np.inf, 0.0
    for rows, here in made.items():
        for gone in range(len(rows) if len(rows) == 3 else 0):
            there = made[rows[:gone] + rows[gone + 1 :]]
            for output, chance in here.items():
                other = there[output]
                if min(chance, other) < 1e-9:
                    assert max(chance, other) < 1e-6
                    continue
                own = abs(np.log2(chance / other))
                most, loss = max(most, own - bits(output)), max(loss, own)
    return most, loss


def test_the_loss_of_each_output_is_at_most_its_charge() -> None:
    excess, loss = largest_excess()
    assert excess < 1e-9
    assert loss > 3  # what is charged is nearly lost, too


@pytest.mark.parametrize("mistake", ["exact", "bound"])
def test_wrong_boards_lose_more(mistake: str) -> None:
    assert largest_excess(mistake)[0] > 0.05
