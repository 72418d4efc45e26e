"""The detector: correct mechanisms pass, wrong ones do not, and what it says can be checked.

Audits of correct mechanisms accuse one with probability 1e-9 at most; those of wrong ones are seeded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Never

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql import mechanisms, noise
from dpsql.audit import CHARGE, Pair, detect
from dpsql.errors import ProgrammingError
from dpsql.kernel.loss import Number

SURE = 1 - 1e-9


def histogram(scale: Number) -> Callable[..., dict[str, NDArray[np.float64]]]:
    """Counts with discrete Laplace noise."""

    def mechanism(
        counts: NDArray[np.int64], trials: int, entropy: noise.Entropy
    ) -> dict[str, NDArray[np.float64]]:
        drawn = noise.laplace(1 / Fraction(scale), (trials, len(counts)), entropy=entropy)
        return {"value": (counts + drawn).astype(float)}

    return mechanism


def seeded(seed: int = 1) -> noise.Entropy:
    return noise.SeededEntropy(seed)


def test_a_correct_mechanism_passes_and_the_bound_comes_near() -> None:
    verdict = detect(
        histogram(1),
        1,
        adjacency="one",
        lengths=[3],
        trials=20_000,
        confidence=SURE,
        name="histogram",
        entropy=seeded(),
    )
    assert not verdict.violated
    assert 0.75 < verdict.lower_bound <= 1
    assert verdict.p_value > 1e-3
    assert verdict.trials == 20_000
    assert verdict.runs > 2 * verdict.trials
    assert "histogram: no counterexample at epsilon 1; epsilon is at least 0." in verdict.words()


def test_a_wrong_scale_is_caught_with_a_counterexample_that_holds() -> None:
    verdict = detect(histogram("1/2"), 1, adjacency="one", lengths=[3], trials=20_000, entropy=seeded())
    assert verdict.violated
    assert 1.4 < verdict.lower_bound <= 2
    found = verdict.counterexample
    assert sum(a != b for a, b in zip(found.first, found.second, strict=True)) == 1
    assert found.times_first > math.e * found.times_second
    words = verdict.words()
    assert words.startswith("the mechanism is not private at epsilon 1: epsilon is at least 1.")
    assert "D1 = [" in words
    assert "times as often; allowed is e^1 = 2.718 times as often." in words


def test_the_counterexample_holds_on_a_mechanism_run_again() -> None:
    verdict = detect(histogram("1/2"), 1, adjacency="one", lengths=[3], trials=20_000, entropy=seeded())
    found, n = verdict.counterexample, 50_000
    from dpsql.audit import read

    times = [
        found.event.count(read(histogram("1/2")(np.array(counts), n, seeded(2)), n))
        for counts in (found.first, found.second)
    ]
    # The ratio's standard deviation is about 1.5%.
    assert times[0] / times[1] > math.exp(verdict.lower_bound) * 0.85


def test_a_seeded_audit_is_the_same_again() -> None:
    runs = [
        detect(histogram(1), 1, adjacency="one", lengths=[3], trials=2_000, entropy=seeded(3))
        for _ in range(2)
    ]
    assert runs[0].words() == runs[1].words()
    assert runs[0].curve == runs[1].curve


def test_without_a_seed_it_runs_in_threads() -> None:
    verdict = detect(histogram("1/4"), 1, adjacency="one", lengths=[2], trials=20_000)
    assert verdict.violated


def test_inputs_that_are_shared_are_run_once_a_round() -> None:
    asked: list[tuple[tuple[int, ...], int]] = []

    def counted(
        counts: NDArray[np.int64], trials: int, entropy: noise.Entropy
    ) -> dict[str, NDArray[np.float64]]:
        asked.append((tuple(counts.tolist()), trials))
        return histogram(1)(counts, trials, entropy)

    inputs = [Pair("one above", (1, 1), (2, 1)), Pair("other above", (1, 1), (1, 2))]
    verdict = detect(counted, 1, inputs=inputs, trials=6_000, entropy=seeded())
    assert verdict.runs == sum(trials for _, trials in asked)
    first_round = [counts for counts, trials in asked if trials == asked[0][1]][:3]
    assert sorted(first_round) == [(1, 1), (1, 2), (2, 1)]


def test_a_clear_violation_is_tested_on_fewer_runs() -> None:
    inputs = [Pair("one above", (0,), (1,)), Pair("two above", (0, 0), (1, 1))]
    verdict = detect(histogram("1/4"), 1, inputs=inputs, trials=20_000, confidence=SURE, entropy=seeded())
    assert (verdict.violated, verdict.trials) == (True, 5_000)
    verdict = detect(histogram(4), 1, inputs=inputs, trials=20_000, confidence=SURE, entropy=seeded())
    assert (verdict.violated, verdict.trials) == (False, 20_000)


def test_the_curve_rises_before_the_claim_of_a_correct_mechanism() -> None:
    verdict = detect(histogram(1), 1, adjacency="one", lengths=[2], trials=20_000, entropy=seeded())
    forward = [tested.forward for tested in verdict.curve]
    assert forward == sorted(forward)
    assert forward[0] < 1e-10
    assert all(tested.forward == 1 for tested in verdict.curve if tested.epsilon >= 1.2)
    assert all(tested.backward == 1 for tested in verdict.curve)
    assert verdict.curve[-1].epsilon >= 1.5


def test_epsilons_may_be_chosen() -> None:
    verdict = detect(
        histogram(1), 1, adjacency="one", lengths=[2], trials=1_000, epsilons=[0.5, 2], entropy=seeded()
    )
    assert [tested.epsilon for tested in verdict.curve] == [0.5, 2.0]


def test_arguments_are_searched() -> None:
    def mechanism(
        counts: NDArray[np.int64], trials: int, entropy: noise.Entropy, scale: int | Fraction, shift: int
    ) -> dict[str, NDArray[np.float64]]:
        return histogram(scale)(counts + shift, trials, entropy)

    verdict = detect(
        mechanism,
        1,
        adjacency="one",
        lengths=[2],
        arguments={"scale": [4, 2, Fraction(1, 2)], "shift": [0, 7]},
        trials=20_000,
        entropy=seeded(),
    )
    assert verdict.violated
    assert verdict.counterexample.arguments["scale"] == Fraction(1, 2)
    assert verdict.candidates > 6
    assert "(scale = 1/2, shift = " in verdict.words()


def test_more_candidates_than_fit_are_sampled_and_their_likes_looked_at() -> None:
    def mechanism(
        counts: NDArray[np.int64], trials: int, entropy: noise.Entropy, which: int
    ) -> dict[str, NDArray[np.float64]]:
        return histogram(Fraction(1, 3) if which == 17 else 3)(counts, trials, entropy)

    verdict = detect(
        mechanism,
        1,
        adjacency="one",
        lengths=[2],
        arguments={"which": range(20)},
        trials=6_000,
        entropy=seeded(),
    )
    assert verdict.candidates <= 128
    assert verdict.violated
    assert verdict.counterexample.arguments["which"] == 17


def test_plain_python_outputs_can_be_audited() -> None:
    def mechanism(counts: NDArray[np.int64], trials: int, entropy: noise.Entropy) -> list[list[bool]]:
        """Say whether each count is above a noisy threshold, which costs 1; but the counts have no noise."""
        level = noise.laplace(1, trials, entropy=entropy)
        return [[bool(count >= one) for count in counts] for one in level]

    verdict = detect(mechanism, 1, lengths=[2], trials=3_000, entropy=seeded())
    assert verdict.violated
    assert verdict.counterexample.times_second == 0
    assert "and never there" in verdict.words()


def test_inputs_may_be_anything() -> None:
    def mechanism(database: set[str], trials: int, entropy: noise.Entropy) -> NDArray[np.float64]:
        return (noise.laplace(1, trials, entropy=entropy) + len(database)).astype(float)

    inputs = [Pair("one row less", {"ann", "bob"}, {"ann"})]
    verdict = detect(mechanism, 1, inputs=inputs, trials=8_000, confidence=SURE, entropy=seeded())
    assert not verdict.violated
    assert verdict.lower_bound > 0.6
    assert verdict.candidates == 1
    assert verdict.counterexample.pattern == "one row less"


def test_what_the_mechanism_charges_is_its_claim() -> None:
    def mechanism(counts: NDArray[np.int64], trials: int, entropy: noise.Entropy) -> dict[str, object]:
        return {**histogram(1)(counts, trials, entropy), CHARGE: 0.5}

    verdict = detect(mechanism, 1, adjacency="one", lengths=[2], trials=20_000, entropy=seeded())
    assert verdict.epsilon == 0.5
    assert verdict.violated


def test_delta_is_part_of_the_claim() -> None:
    def mechanism(counts: NDArray[np.int64], trials: int, entropy: noise.Entropy) -> NDArray[np.int64]:
        """Tell everything in 1 of 20 runs, and nothing otherwise."""
        tells = noise.geometric(Fraction(3), trials, entropy=entropy) > 0  # e^-3 = .0498
        return np.where(tells, counts[0], -1)

    options: dict[str, Any] = {"adjacency": "one", "lengths": [2], "trials": 20_000, "entropy": seeded()}
    assert detect(mechanism, 1, **options).violated
    assert detect(mechanism, 1, delta="0.02", **options).violated
    assert not detect(mechanism, 1, delta="0.06", confidence=SURE, **options).violated


def test_a_suspicious_first_look_is_followed_by_a_second() -> None:
    # A claim a little too small: the first look settles it, or finds something that the second settles.
    looked = set()
    for seed in range(8):
        verdict = detect(
            histogram(1),
            "0.89",
            inputs=[Pair("one above", (0,), (1,))],
            trials=12_000,
            confidence=0.9999,
            entropy=seeded(seed),
        )
        looked.add(verdict.trials)
    assert looked == {12_000, 48_000}


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": -1},
        {"delta": 1},
        {"confidence": 1.0},
        {"trials": 10},
        {"effort": 0},
        {"inputs": []},
        {"arguments": {"k": []}},
        {"adjacency": "none"},
    ],
)
def test_arguments_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    options: dict[str, Any] = {"epsilon": 1, **wrong}
    with pytest.raises(ProgrammingError):
        detect(lambda counts, trials, _entropy, **_: np.zeros(trials), options.pop("epsilon"), **options)


def test_a_mechanism_without_output_is_refused() -> None:
    with pytest.raises(ProgrammingError, match="no labels and no numbers"):
        detect(lambda _counts, _trials, _entropy: {}, 1, trials=200)


def test_an_error_of_the_mechanism_comes_through() -> None:
    def broken(_counts: NDArray[np.int64], _trials: int, _entropy: noise.Entropy) -> Never:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        detect(broken, 1, trials=200)


def test_dpsql_s_own_noisy_max_passes_as_a_plain_callable() -> None:
    def noisy_max(counts: NDArray[np.int64], trials: int, entropy: noise.Entropy) -> dict[str, object]:
        done = mechanisms.noisy_max(np.tile(counts, (trials, 1)), 1, entropy=entropy)
        return {"index": done.index, "gap": done.gap, CHARGE: done.charge}

    verdict = detect(
        noisy_max, 1, adjacency="monotone", lengths=[5], trials=20_000, confidence=SURE, entropy=seeded()
    )
    assert not verdict.violated
    assert verdict.lower_bound > 0.6
