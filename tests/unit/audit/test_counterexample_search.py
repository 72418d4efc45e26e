"""The event selector finds what was planted, in the right direction and against the right claim."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.audit import CHARGE, pairs, read
from dpsql.audit.cases import Adjacency
from dpsql.audit.counterexample_search import CAUTIONS, SelectedEvent, best_events, evidence, excess
from dpsql.errors import ProgrammingError
from dpsql.noise import SeededEntropy

N = 20_000


def found(
    first: object,
    second: object,
    epsilon: float = 0.5,
    delta: float = 0.0,
    n: int = N,
) -> SelectedEvent:
    """The best event when as much doubt is taken off as the luck of the best of many."""
    events = best_events(read(first, n), read(second, n), epsilon, delta, most=4)
    assert {one.caution for one in events} == set(CAUTIONS)
    return max((one for one in events if one.caution == max(CAUTIONS)), key=lambda one: one.score)


def clear(
    first: object,
    second: object,
    **options: Any,
) -> SelectedEvent:
    event = found(first, second, **options)
    assert event.score > 0
    return event


def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def on_grid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Floating point has last digits that tell; a grid has none."""
    return np.round(values * 1024) / 1024


def test_a_label_that_is_likelier() -> None:
    draw = rng()
    event = clear(draw.choice(5, N, p=[0.3, 0.175, 0.175, 0.175, 0.175]), draw.integers(0, 5, N), epsilon=0.1)
    assert event.event.words().startswith("output is 0")
    assert not event.swapped


def test_labels_that_are_likelier_on_the_second_input() -> None:
    draw = rng()
    event = clear(draw.integers(0, 10, N), draw.choice(10, N, p=[0.24, 0.24, *[0.065] * 8]), epsilon=0.5)
    assert event.swapped
    assert event.event.words() in ("output is 0 or 1", "output is 1 or 0")


def test_an_interval() -> None:
    draw = rng()
    first = np.where(draw.random(N) < 0.1, draw.uniform(2, 3, N), draw.normal(size=N))
    event = clear(on_grid(first), on_grid(draw.normal(size=N)))
    assert " ≤ output < " in event.event.words() or "output ≥ " in event.event.words()
    assert not event.swapped


def test_an_interval_beside_a_label() -> None:
    draw = rng()
    index, gap = draw.integers(0, 3, (2, N)), draw.exponential(size=(2, N))
    # Only where the label is 2 do the gaps differ.
    gap[0][index[0] == 2] /= 3
    sides = [{"index": i, "gap": on_grid(g)} for i, g in zip(index, gap, strict=True)]
    event = clear(*sides)
    side = "gap ≥ " if event.swapped else "gap < "
    assert event.event.words().startswith("index is 2 and ")
    assert side in event.event.words()


def test_a_number_with_few_values_is_looked_at_value_by_value() -> None:
    draw = rng()
    first, second = draw.integers(0, 6, (2, N)).astype(float)
    first[draw.random(N) < 0.2] = 4.0
    words = clear(first, second).event.words()
    assert words in ("output = 4", "4 ≤ output < 5")


def test_a_set_whatever_its_order() -> None:
    draw = rng()
    rows = np.argsort(draw.random((2, N, 4)), axis=2)[:, :, :2]
    rows[0][draw.random(N) < 0.3] = [3, 1]
    rows[0] = draw.permuted(rows[0], axis=1)
    event = clear({"index": rows[0]}, {"index": rows[1]})
    assert event.event.words() in (
        "index in any order is (1, 3)",
        "index is (1, 3) or (3, 1)",
        "index is (3, 1) or (1, 3)",
    )


def test_agreement_in_many_places() -> None:
    draw = rng()
    first, second = draw.random((2, N, 10)) < np.array([[[0.6]], [[0.4]]])
    words = clear({"above": first}, {"above": second}, epsilon=1.0).event.words()
    assert words.startswith(("the number of", "above is"))


def test_sides_of_many_numbers() -> None:
    draw = rng()
    first, second = on_grid(draw.laplace(size=(2, N, 4)))
    first += np.array([0.5, -0.5, 0.5, -0.5])
    words = clear({"value": first}, {"value": second}, epsilon=1.2).event.words()
    assert words.startswith("the number of places where value is (≥ ")


def test_the_last_binary_digit_of_floating_point() -> None:
    draw = rng()
    event = clear(draw.laplace(size=N), 1 + draw.laplace(size=N), epsilon=1.2)
    assert event.event.words().startswith("the last binary digit of output is worth 2^-5")


def test_each_charge_has_its_own_claim() -> None:
    draw = rng()
    label = draw.integers(0, 2, (2, N))
    # Label 0 costs nothing, and yet differs by a factor 1.2; label 1 costs plenty.
    label[0][draw.random(N) < 0.2] = 0
    sides = [{"output": one, CHARGE: np.where(one == 0, 0.0, 3.0)} for one in label]
    event = clear(*sides, epsilon=3.0)
    assert event.epsilon == 0.0
    assert event.event.words().startswith("epsilon 0 is charged")


def test_one_charge_for_all_is_the_claim() -> None:
    draw = rng()
    label = draw.integers(0, 2, (2, N))
    event = found({"output": label[0], CHARGE: 0.25}, {"output": label[1], CHARGE: 0.25}, epsilon=3.0)
    assert event.epsilon == 0.25
    assert "charged" not in event.event.words()


def test_no_difference_is_no_violation() -> None:
    draw = rng()
    sides = on_grid(draw.normal(size=(2, N, 2)))
    assert found({"value": sides[0]}, {"value": sides[1]}, epsilon=0.2).score < 0


def test_delta_is_taken_off() -> None:
    draw = rng()
    first = (draw.random(N) < 0.02).astype(int)
    assert found(first, np.zeros(N, dtype=int), epsilon=1.0).score > 1
    assert found(first, np.zeros(N, dtype=int), epsilon=1.0, delta=0.04).score < 0


def test_outputs_of_different_length_are_compared() -> None:
    draw = rng()
    lengths = draw.integers(0, 4, (2, N))
    lengths[0][lengths[0] == 3] = 1
    event = clear(*([[True] * k for k in side] for side in lengths))
    assert event.swapped
    assert event.event.words()


def test_rare_events_are_passed_over() -> None:
    # 4 times against never in 20,000: as likely as not by chance, and the test could not settle it.
    ratio, _ = evidence(np.array([4, 4_000]), np.array([0, 2_000]), N, 0.0)
    assert ratio[0] < -10
    assert ratio[1] == pytest.approx(np.log(2), rel=1e-3)


def test_the_score_is_relative_to_the_claim() -> None:
    ratio = (np.array([0.6]), np.array([0.0]))
    assert excess(ratio, 0.5, 1.0, 2.0)[0] == pytest.approx(0.2)
    assert excess(ratio, 0.0, 1.0, 2.0)[0] == pytest.approx(12.0)


@pytest.mark.parametrize("adjacency", ["general", "monotone", "one"])
@pytest.mark.parametrize("sensitivity", [1, 3])
def test_pairs_are_adjacent(adjacency: Adjacency, sensitivity: int) -> None:
    made = pairs(adjacency, sensitivity=sensitivity, drawn=20, entropy=SeededEntropy(5))
    assert {len(pair.first) for pair in made} == {5, 10}
    names = {pair.name for pair in made}
    assert {"one above", "one below", "random"} <= names
    for pair in made:
        change = np.array(pair.second) - np.array(pair.first)
        assert np.abs(change).max() == sensitivity
        assert set(np.abs(change)) <= {0, sensitivity}
        if adjacency == "one":
            assert np.count_nonzero(change) == 1
        if adjacency == "monotone":
            assert (change >= 0).all() or (change <= 0).all()
    if adjacency == "general":
        assert {"half half", "X shape", "one above, rest below", "all above"} <= names
        assert any(
            (np.array(p.second) - p.first).min() < 0 < (np.array(p.second) - p.first).max() for p in made
        )


def test_an_unknown_adjacency_is_refused() -> None:
    with pytest.raises(ProgrammingError, match="adjacency"):
        pairs("some", entropy=SeededEntropy(5))  # type: ignore[arg-type]  # that is the test
