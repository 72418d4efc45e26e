"""Stable queries of any kind: what is answered, what it costs, what is refused."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from dpsql import mechanisms
from dpsql.kernel.loss import Charge
from dpsql.kernel.mechanisms.top_stable import StableNoise
from dpsql.kernel.public_order import in_public_order
from dpsql.noise import SeededEntropy
from tests.narrow import of_type

FAR = 10**6


def first_stable(distances: ArrayLike, *arguments: Any, **options: Any) -> mechanisms.StableQuery:
    given = {"entropy": SeededEntropy(0), **options}
    return mechanisms.first_stable(in_public_order(distances), *arguments, **given)


def stable_answers(distances: ArrayLike, *arguments: Any, **options: Any) -> mechanisms.StableQueries:
    given = {"entropy": SeededEntropy(0), **options}
    return mechanisms.stable_answers(in_public_order(distances), *arguments, **given)


@pytest.mark.parametrize("noise", ["one-sided", "laplace"])
class TestFirstStable:
    def test_first_that_passes(self, noise: StableNoise) -> None:
        found = first_stable([0, 3, FAR, 0, 2 * FAR], 1, "1e-9", noise=noise)
        tests = found.plan.tests
        assert found.index.tolist() == [2]
        assert found.gap[0] >= 0
        assert found.gap[0] + float(tests.threshold) == pytest.approx(FAR, abs=2000)
        assert found.charge == Charge(Fraction(1), Fraction(1, 10**9))
        assert Fraction(1, 2**tests.resolution) <= min(tests.scale, tests.threshold_scale) / 1024

    def test_none(self, noise: StableNoise) -> None:
        found = first_stable([0] * 50, 1, "1e-9", noise=noise, share="0.2", entropy=SeededEntropy(1))
        assert (found.index.tolist(), found.gap.tolist()) == ([], [])
        assert found.charge == Charge(Fraction(1, 5), Fraction(1, 10**9))

    def test_no_queries(self, noise: StableNoise) -> None:
        found = first_stable([], 1, "1e-9", noise=noise)
        assert (found.index.tolist(), found.charge) == ([], Charge())

    def test_scales(self, noise: StableNoise) -> None:
        found = first_stable([5], 2, "1e-9", noise=noise, share="1/4", sensitivity=3)
        assert (found.plan.tests.threshold_scale, found.plan.tests.scale) == (Fraction(6), Fraction(4))

    def test_negative_distances_are_0(self, noise: StableNoise) -> None:
        found = first_stable([-(2**63), 2**63 - 1], 1, "1e-9", noise=noise, resolution=20)
        assert found.index.tolist() == [1]


def test_the_threshold_grows_with_the_queries_and_delta() -> None:
    few, many = (mechanisms.FirstStable.plan(queries, 1, "1e-9").tests for queries in (5, 5000))
    strict = mechanisms.FirstStable.plan(5, 1, "1e-12").tests
    assert float(many.threshold - few.threshold) == pytest.approx(float(few.scale) * np.log(1000), abs=0.01)
    assert float(strict.threshold - few.threshold) == pytest.approx(float(few.scale) * np.log(1000), abs=0.01)
    # The formula of continuous noise, which is just below.
    slow, fast = float(few.threshold_scale), float(few.scale)
    raised = fast * np.log(5 / 1e-9 / (1 + slow / fast))
    assert float(few.threshold) == pytest.approx(raised + slow - fast, abs=0.01)


class TestStableAnswers:
    def test_passing_is_free(self) -> None:
        found = stable_answers([FAR] * 100, 2, 1, "1e-9", share="1/4")
        assert found.index.tolist() == list(range(100))
        assert found.asked == 100
        assert found.charge == Charge(Fraction(1, 4), Fraction(1, 10**9))

    def test_stops_after_k_failures(self) -> None:
        found = stable_answers([FAR, 0, FAR, 0, FAR, 0], 2, 1, "1e-9", share="1/4")
        assert (found.index.tolist(), int(found.asked)) == ([0, 2], 4)
        assert found.charge == Charge(Fraction(1), Fraction(1, 10**9))
        assert (found.plan.tests.threshold_scale, found.plan.tests.scale) == (Fraction(4), Fraction(16, 3))
        one = stable_answers([FAR, 0, FAR], 2, 1, "1e-9", share="1/4")
        assert one.charge == Charge(Fraction(5, 8), Fraction(1, 10**9))

    def test_no_more_failures_than_queries(self) -> None:
        found = stable_answers([FAR, FAR], 50, 1, "1e-9", share="1/2")
        assert found.plan.tests.scale == 8
        empty = stable_answers([], 3, 1, "1e-9")
        assert (empty.index.tolist(), int(empty.asked), empty.charge) == ([], 0, Charge())


def test_trials_are_runs() -> None:
    """Of trials each row is padded, and has its own charge."""
    distances = np.array([[0, FAR, FAR], [0, 0, 0], [FAR, 0, FAR]])
    first = first_stable(distances, 1, "1e-9")
    assert (first.index.tolist(), of_type(first.units, np.ndarray).tolist()) == ([[1], [-1], [0]], [1, 0, 1])
    assert np.isnan(first.gap).tolist() == [[False], [True], [False]]
    stream = stable_answers(distances, 1, 1, "1e-9")
    assert stream.index.tolist() == [[-1, -1, -1], [-1, -1, -1], [0, -1, -1]]
    assert (stream.asked.tolist(), of_type(stream.units, np.ndarray).tolist()) == ([1, 1, 2], [1, 1, 1])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"epsilon": 0}, "epsilon must"),
        ({"delta": 0}, "delta must"),
        ({"delta": "1.5"}, "delta must"),
        ({"share": 1}, "share must"),
        ({"sensitivity": "1/2"}, "sensitivity must"),
        ({"resolution": -1}, "resolution must"),
        ({"distances": [0.5]}, "counts must"),
    ],
)
def test_refused(arguments: dict[str, int | str | list[float]], says: str) -> None:
    given: dict[str, Any] = {"distances": [1, 2], "epsilon": 1, "delta": "1e-6", **arguments}
    distances = given.pop("distances")
    with pytest.raises(ValueError, match=says):
        first_stable(distances, **given)
    with pytest.raises(ValueError, match=says):
        stable_answers(distances, **given, k=1)


def test_refused_by_one_of_them() -> None:
    with pytest.raises(ValueError, match="noise must"):
        first_stable([1], 1, "1e-6", noise="geometric")
    with pytest.raises(ValueError, match="k must"):
        stable_answers([1], 0, 1, "1e-6")
