"""The audit looks at an output as one row: mistakes in several numbers, in digits, and at large counts.

All audits are seeded. Repeated with 10 to 30 other seeds each, none of those of wrong mechanisms missed; a
correct mechanism is accused with probability 1e-9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql import noise
from dpsql.audit import CATALOGUE, EPSILONS, Subject, Verdict, detect, pairs, read
from dpsql.audit.cases import Adjacency
from dpsql.audit.events import OutputEvent, Within
from dpsql.audit.feature_selection import choose_residues, combinations, number_features, row_features
from dpsql.audit.features import Combination, Corner, LowBitsLabel, NumberValue, Residue
from dpsql.audit.mistakes.measuring import laplace
from dpsql.kernel.loss import Number

SURE = 1 - 1e-9
A, B, C = (NumberValue(name, 1, 0) for name in "abc")


def each(epsilon: Fraction, *names: str, whole: bool = False) -> Callable[..., object]:
    """One count under each name, each with noise of its own for this epsilon."""

    def mechanism(
        counts: NDArray[np.int64], trials: int, entropy: noise.Entropy
    ) -> dict[str, NDArray[np.float64]]:
        shape = (trials, len(names))
        drawn = (
            noise.laplace(epsilon, shape, entropy=entropy) if whole else laplace(1 / epsilon, shape, entropy)
        )
        return {name: counts[j] + drawn[:, j] for j, name in enumerate(names)}

    return mechanism


def mixed(weights: Sequence[tuple[float, ...]]) -> Callable[..., object]:
    """Counts with combinations of as many draws of noise as the matrix has rows."""

    def mechanism(
        counts: NDArray[np.int64], trials: int, entropy: noise.Entropy
    ) -> dict[str, NDArray[np.float64]]:
        drawn = laplace(Fraction(3), (trials, len(weights)), entropy) @ np.array(weights, dtype=float)
        return {name: counts[j] + drawn[:, j] for j, name in enumerate("abc"[: len(weights[0])])}

    return mechanism


def audit(
    mechanism: Callable[..., object], epsilon: Number = 1, seed: int = 1, trials: int = 20_000, **options: Any
) -> Verdict:
    options = {"adjacency": "monotone", "lengths": [5], "epsilons": [], **options}
    return detect(mechanism, epsilon, trials=trials, entropy=noise.SeededEntropy(seed), **options)


@pytest.mark.parametrize("epsilon", [Fraction(7, 10), Fraction(3, 2)], ids=str)
@pytest.mark.parametrize("share", ["0.75", "0.95"])
@pytest.mark.sampled(3)
def test_two_counts_under_two_names_cost_both_their_epsilons(epsilon: Fraction, share: str) -> None:
    verdict = audit(each(epsilon * Fraction(share), "a", "b"), epsilon)
    assert verdict.violated, verdict.words()
    assert verdict.lower_bound > 1.1 * epsilon


def test_two_counts_at_a_small_epsilon() -> None:
    verdict = audit(each(Fraction(19, 100), "a", "b"), "0.2", lengths=[2], trials=40_000)
    assert verdict.violated, verdict.words()


def test_two_whole_counts_with_many_values() -> None:
    verdict = audit(each(Fraction(1, 5), "a", "b", whole=True), "0.2", lengths=[2], trials=60_000)
    assert verdict.violated, verdict.words()


def test_counts_under_names_that_share_the_claim_pass() -> None:
    verdict = audit(each(Fraction(1, 2), "a", "b"), confidence=SURE)
    assert not verdict.violated, verdict.words()
    # The bound is above what either count costs alone.
    assert verdict.lower_bound > 0.7


@pytest.mark.parametrize(
    "weights",
    [[(1, 2)], [(3, -2)], [(1, 1.375)], [(1, 0, 1), (0, 1, 1)]],
    ids=["b - 2a", "2a + 3b", "real", "sum"],
)
def test_noise_that_cancels_is_found(weights: list[tuple[float, ...]]) -> None:
    verdict = audit(mixed(weights))
    assert verdict.violated, verdict.words()
    assert verdict.lower_bound > 5
    assert verdict.counterexample.times_second < 20


def test_noise_that_cancels_in_some_runs_is_found() -> None:
    def mechanism(
        counts: NDArray[np.int64], trials: int, entropy: noise.Entropy
    ) -> dict[str, NDArray[np.float64]]:
        drawn = laplace(Fraction(4), (trials, 2), entropy)
        drawn[:, 1] = np.where(noise.geometric(2, trials, entropy=entropy) > 0, -3 * drawn[:, 0], drawn[:, 1])
        return {"a": counts[0] + drawn[:, 0], "b": counts[1] + drawn[:, 1]}

    verdict = audit(mechanism)
    assert verdict.violated, verdict.words()
    assert "3 a + b" in verdict.counterexample.event.words()


def test_outputs_of_plain_python_numbers_are_rows_too() -> None:
    def mechanism(counts: NDArray[np.int64], trials: int, entropy: noise.Entropy) -> list[tuple[int, int]]:
        drawn = noise.laplace(Fraction(1, 10), trials, entropy=entropy).tolist()
        return [(int(counts[0]) + one, int(counts[1]) - one) for one in drawn]

    verdict = audit(mechanism, trials=2_000, lengths=[2])
    assert verdict.violated
    assert verdict.lower_bound > 3


ROWS = [s for s in CATALOGUE if s.mechanism.__module__ == "dpsql.audit.mistakes.measuring"]


@pytest.mark.parametrize("subject", ROWS, ids=lambda subject: subject.name)
@pytest.mark.sampled(3)
def test_each_mistake_of_the_catalogue_is_found(subject: Subject) -> None:
    verdict = subject.audit(
        EPSILONS[1], trials=20_000, confidence=0.999, epsilons=[], entropy=noise.SeededEntropy(2)
    )
    assert verdict.violated, verdict.words()


def test_numbers_of_a_row_in_words_and_values() -> None:
    runs = {"a": np.array([1.5, 2.0, np.nan]), "b": np.array([3.0, -4.0, 1.0]), "c": np.array([7, 9, 30])}
    outputs = read(runs, 3)
    total = Combination(((-2.0, A), (1.0, B), (0.5, C)), 2.0**-20)
    assert total.name == "-2 a + b + 0.5 c"
    np.testing.assert_array_equal(total.of(outputs), [3.5, -3.5, np.nan])
    corner = Corner(((A, 1.0, 1.0), (B, 0.5, -2.0)))
    assert corner.name == "the greatest of (a - 1, (0.5 - b)/2)"
    np.testing.assert_array_equal(corner.of(outputs), [0.5, 2.25, -0.25])
    np.testing.assert_array_equal(Corner(corner.sides, least=True).of(outputs), [-1.25, 1.0, -0.25])
    residue = Residue(C, 10.0)
    np.testing.assert_array_equal(np.round(residue.of(outputs), 3), [0.7, 0.9, 0.0])
    assert OutputEvent((Within(residue, 0.5, None),)).words() == "(c mod 10)/10 = 0.5"
    assert Combination(((1.0, A), (-1.0, B)), 1.0).name == "a - b"


def test_the_last_bits_of_floating_point() -> None:
    bits = LowBitsLabel("output", 1, 0)
    outputs = read(np.array([1.0, 1 + 3 * 2.0**-52, np.nan]), 3)
    assert bits.of(outputs)[:2].tolist() == [0, 3]
    assert bits.words((0, 3)) == "the last four bits of output is 0 or 3"


def test_noise_that_cancels_in_floating_point_leaves_equal_sums() -> None:
    draw = np.random.default_rng(5).laplace(size=1_000)
    outputs = [read({"a": x + draw, "b": 0.1 + 3 * draw}, 1_000) for x in (1, 2)]
    found = [one for one in combinations([A, B], *outputs) if isinstance(one, Combination)]
    assert any(len(np.unique(one.of(outputs[0]))) == 1 for one in found)


def test_numbers_that_are_alike_are_not_looked_at_in_pairs() -> None:
    draw = np.random.default_rng(6).normal(size=(2, 4_000, 3))
    columns = [NumberValue("value", 3, j) for j in range(3)]
    outputs = [read({"value": side}, 4_000) for side in draw]
    assert sum(isinstance(one, Combination) for one in combinations(columns, *outputs)) <= 1
    assert choose_residues(columns, *outputs) == []


@pytest.mark.parametrize("strange", [np.nan, np.inf, 1e308, 0.0])
def test_strange_numbers_do_no_harm(strange: float) -> None:
    draw = np.random.default_rng(7).normal(size=(500, 3))
    draw[::2, 1], draw[:, 2] = strange, strange
    outputs = read({"a": draw[:, 0], "b": draw[:, 1:]}, 500)
    for feature in row_features(outputs, outputs):
        assert feature.of(outputs).shape == (500,)


def test_whole_numbers_are_numbers_where_they_have_many_values() -> None:
    few, many = read(np.arange(90) % 20, 90), read(np.arange(90) - 30, 90)
    assert number_features(few, few) == []
    assert number_features(many, many) == [NumberValue("output", 1, 0)]
    assert many.value("output", 1)[0, 0] == -30


@pytest.mark.parametrize("adjacency", ["general", "monotone", "one"])
def test_a_few_inputs_have_large_counts(adjacency: Adjacency) -> None:
    made = pairs(adjacency, drawn=0, entropy=noise.SeededEntropy(1))
    large = [pair for pair in made if max(pair.first) > 50]
    assert 3 <= len(large) <= 5
    assert {len(pair.first) for pair in large} == {5}
    assert {pair.first[0] for pair in large} == {100, 255, 65_535}
