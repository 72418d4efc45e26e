"""The median oracle: few misses for many counts, and each discards at least half of the hypotheses."""

import threading
import time
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel.mechanisms import MedianOracle, NoiseSource
from dpsql.kernel.mechanisms.median_oracle import median, surviving
from dpsql.noise import SeededEntropy

ANSWERS = st.lists(st.integers(0, 40), min_size=1, max_size=30)


@given(ANSWERS, st.fractions(-100, 100, max_denominator=8), st.fractions(-5, 50, max_denominator=3))
@settings(deadline=None)
def test_a_miss_discards_half(answers: list[int], value: Fraction, tolerance: Fraction) -> None:
    array = np.array(answers)
    guess = median(array)
    assert sum(x <= guess for x in answers) >= len(answers) / 2 <= sum(x >= guess for x in answers)
    left = surviving(array, guess, value, tolerance)
    assert left.sum() <= len(answers) / 2
    # As written: near the answer, and nearer than the guess.
    assert left.tolist() == [
        abs(x - value) <= tolerance and abs(x - value) < abs(guess - value) for x in answers
    ]


def test_values_of_any_size() -> None:
    answers = np.array([0, 5, 2**40])
    assert not surviving(answers, 5, Fraction(10**40), Fraction(10**30)).any()
    assert surviving(answers, 5, Fraction(10**40), Fraction(10**50)).tolist() == [False, False, True]
    assert surviving(answers, 5, Fraction(-(10**40)), Fraction(10**50)).tolist() == [True, False, False]


def worlds() -> NDArray[np.int64]:
    """Every way to put 4 blocks of 1,000 units into 4 cells."""
    return np.array([w for w in product(range(5), repeat=4) if sum(w) == 4]) * 1000


def queries() -> list[tuple[int, ...]]:
    return [mask for mask in product([0, 1], repeat=4) if any(mask)]


@pytest.mark.parametrize("truth", [[4000, 0, 0, 0], [1000, 1000, 1000, 1000], [0, 1000, 3000, 0]])
def test_every_count_is_answered_within_the_tolerance(truth: list[int]) -> None:
    """Noise of at most 60 counts or so: the truth is a hypothesis and stays one."""
    hypotheses = worlds()
    oracle = MedianOracle(hypotheses, 500, 2, source=NoiseSource(SeededEntropy(3)))
    assert oracle.checker.misses_left == 6
    for _ in range(3):
        for mask in queries():
            real = int(np.dot(truth, mask))
            assert abs(oracle.ask(real, mask).value - real) < 800
    assert not oracle.exhausted
    assert oracle.hypotheses_left >= 1
    assert oracle.charge.epsilon <= 2
    # 45 answers, and the budget went into a few of them; none if the first median was right.
    misses = 6 - oracle.checker.misses_left
    assert misses <= 3
    assert (misses > 0) == (truth != [1000] * 4)
    assert oracle.hypotheses_left <= len(hypotheses) >> misses


def test_data_that_fits_no_hypothesis() -> None:
    """The answer is right, and then it says so instead of guessing on."""
    oracle = MedianOracle(worlds(), 100, 8, 20, source=NoiseSource(SeededEntropy(4)))
    said = oracle.ask(9_000, [1, 1, 1, 1])
    assert not said.hit
    assert abs(said.value - 9_000) < 100
    assert oracle.hypotheses_left == 0
    assert oracle.exhausted
    assert not oracle.checker.exhausted
    with pytest.raises(RuntimeError, match="no hypothesis is left"):
        oracle.ask(9_000, [1, 0, 0, 0])


def test_misses_used_up() -> None:
    oracle = MedianOracle(
        [[0, 100], [100, 0], [10_000, 0], [12_000, 0]], 5, 1, 1, source=NoiseSource(SeededEntropy(5))
    )
    assert not oracle.ask(10_000, [True, False]).hit
    assert oracle.exhausted
    with pytest.raises(RuntimeError, match="misses are used up"):
        oracle.ask(10_000, [True, False])
    assert oracle.charge == oracle.checker.plan.loss.charge


@pytest.mark.parametrize(("hypotheses", "misses"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (1024, 10)])
def test_misses_by_default(hypotheses: int, misses: int) -> None:
    """As many as leave at most one hypothesis."""
    assert MedianOracle(np.ones((hypotheses, 2), dtype=int), 1, 1).checker.misses_left == misses
    assert hypotheses >> misses <= 1


class Slow(SeededEntropy):
    """Lets every other thread run while it draws."""

    def words(self, n: int) -> NDArray[np.uint64]:
        time.sleep(0.001)
        return super().words(n)


def test_threads() -> None:
    """Asked from several threads, hypotheses and misses stay in step."""
    oracle, failed = MedianOracle(worlds(), 200, 1, 6, source=NoiseSource(Slow(6))), []

    def ask() -> None:
        for mask in queries():
            try:
                oracle.ask(int(np.dot([0, 2000, 0, 2000], mask)), mask)
            except RuntimeError:
                failed.append("refused")

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert oracle.hypotheses_left <= 35 >> (6 - oracle.checker.misses_left)
    assert (len(failed) == 0) or oracle.exhausted


@pytest.mark.parametrize(
    ("hypotheses", "cells"),
    [
        ([1, 2], None),
        (np.zeros((0, 3), dtype=int), None),
        (np.zeros((3, 0), dtype=int), None),
        ([[-1, 5]], None),
        ([[2**62, 2**62]], None),
        ([[0.5, 0.5]], None),
        ([[1, 2]], [1]),
        ([[1, 2]], [1, 2]),
        ([[1, 2]], [0.0, 1.0]),
        ([[1, 2]], [[1, 0]]),
    ],
)
def test_refusals(hypotheses: ArrayLike, cells: Any) -> None:
    with pytest.raises(ValueError):
        MedianOracle(hypotheses, 5, 1).ask(3, cells)
