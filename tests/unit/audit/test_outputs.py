"""What mechanisms may return, and what events are made of."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.audit import CHARGE, read
from dpsql.audit.events import Charged, Labelled, OutputEvent, Within
from dpsql.audit.feature_selection import LabelFeature, NumberFeature, label_features, number_features
from dpsql.audit.features import (
    AgreementLabel,
    ColumnLabel,
    LastDigitLabel,
    NumberValue,
    PartValue,
    RowLabel,
    SetLabel,
    SidesLabel,
    TimesLabel,
)
from dpsql.errors import ProgrammingError
from dpsql.kernel.loss import Charge, exact

MIXED = {
    "index": np.array([[2, 0], [1, -1], [0, 2]]),
    "gap": np.array([[1.5, 3.0], [0.5, np.nan], [2.0, 0.25]]),
    CHARGE: np.array([1.0, 0.5, 1.0]),
}


def test_an_array_of_whole_numbers_is_a_label() -> None:
    outputs = read(np.array([3, 1, 4]), 3)
    assert outputs.labels["output"].shape == (3, 1)
    assert not outputs.values
    assert outputs.epsilon is None


def test_an_array_of_floats_is_a_number() -> None:
    assert read(np.zeros((4, 2)), 4).values["output"].shape == (4, 2)


def test_truth_values_and_text_are_labels() -> None:
    outputs = read({"above": np.array([True, False]), "page": np.array(["home", "cart"], dtype=object)}, 2)
    assert outputs.labels["above"].dtype.kind == "i"
    assert outputs.labels["page"].tolist() == [["home"], ["cart"]]


def test_what_no_run_has_is_missing_as_in_a_run_of_others() -> None:
    """Else data on which a run in a hundred finds a day were told from data on which none does."""
    none = {"day": np.full((3, 0), ""), "gap": np.full((3, 0), np.nan), "place": np.full((3, 0), -1)}
    one = {"day": np.array(["", "5", ""]), "gap": np.array([np.nan, 1.5, np.nan]), "place": [-1, 2, -1]}
    for outputs in (read(none, 3), read(one, 3)):
        assert outputs.label("day", 1)[0] == [""]
        assert outputs.label("place", 1)[0] == [-1]
        assert np.isnan(outputs.value("gap", 1)[0])


def test_a_mapping_may_tell_the_charge() -> None:
    told = read(MIXED, 3)
    assert told.epsilon is not None
    assert told.epsilon.tolist() == [1.0, 0.5, 1.0]
    told = read({**MIXED, CHARGE: Charge(exact("0.7"), exact("1e-6"))}, 3)
    assert told.epsilon is not None
    assert told.epsilon.tolist() == [0.7] * 3
    assert told.delta == 1e-6
    told = read({**MIXED, CHARGE: 2}, 3)
    assert told.epsilon is not None
    assert told.epsilon.tolist() == [2.0] * 3


def test_outputs_of_any_length_and_kind_are_laid_out_by_position() -> None:
    outputs = read([[False, False, 1.5], [True], []], 3)
    assert outputs.labels["output"].tolist() == [["False", "False", "a number"], ["True", "", ""], [""] * 3]
    assert outputs.values["number"][0, 2] == 1.5
    assert np.isnan(outputs.values["number"][1]).all()
    assert read(["a", "b"], 2).labels["output"].tolist() == [["a"], ["b"]]


@pytest.mark.parametrize("result", [np.zeros(2), {"gap": np.zeros((2, 1))}, np.zeros((3, 2, 2)), ["a"]])
def test_anything_else_is_refused(result: object) -> None:
    with pytest.raises(ProgrammingError, match="does not hold one output for each of 3 runs"):
        read(result, 3)


def test_a_charge_of_another_shape_is_refused() -> None:
    with pytest.raises(ProgrammingError, match="charge"):
        read({**MIXED, CHARGE: np.zeros(2)}, 3)


def test_a_part_narrower_than_elsewhere_is_filled_up() -> None:
    outputs = read(MIXED, 3)
    assert outputs.label("index", 3)[:, 2].tolist() == [-1] * 3
    assert outputs.label("index", 1).tolist() == [[2], [1], [0]]
    assert np.isnan(outputs.value("gap", 3)[:, 2]).all()
    assert outputs.label("unheard of", 2).tolist() == [[-1, -1]] * 3
    assert np.isnan(outputs.value("unheard of", 2)).all()


@pytest.mark.parametrize(
    ("feature", "expected"),
    [
        (ColumnLabel("index", 2, 0), [2, 1, 0]),
        (RowLabel((("index", 2),)), [[2, 0], [1, -1], [0, 2]]),
        (SetLabel("index", 2), [[0, 2], [-1, 1], [0, 2]]),
        (TimesLabel("index", 2, 2), [1, 0, 1]),
        (AgreementLabel("index", (2, 2)), [1, 0, 1]),
        (SidesLabel((("gap", 2),), (1.0, 1.0), (True, False)), [1, 1, 2]),
        (LastDigitLabel("gap", 2, 0), [-1, -1, 1]),
        (NumberValue("gap", 2, 0), [1.5, 0.5, 2.0]),
        (PartValue("gap", 2, "least"), [1.5, 0.5, 0.25]),
        (PartValue("gap", 2, "greatest"), [3.0, 0.5, 2.0]),
        (PartValue("gap", 2, "average"), [2.25, 0.5, 1.125]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_features(feature: LabelFeature | NumberFeature, expected: list[object]) -> None:
    assert feature.of(read(MIXED, 3)).tolist() == expected


def test_the_last_binary_digit() -> None:
    value = np.array([1.0, 6.0, 0.75, 2.0**-60, 1 + 2.0**-52, 0.0, np.nan, -0.5])
    assert LastDigitLabel("output", 1, 0).of(read(value, 8)).tolist() == [0, 1, -2, -60, -52, 1024, 1024, -1]


def test_which_features_are_looked_at() -> None:
    outputs = read(MIXED, 3)
    labels = label_features(outputs, outputs)
    assert {type(feature) for feature in labels} == {ColumnLabel, RowLabel, SetLabel, TimesLabel, SidesLabel}
    assert {type(feature) for feature in number_features(outputs, outputs)} == {
        NumberValue,
        PartValue,
    }
    wide = read(np.zeros((50, 8), dtype=int), 50)
    assert any(isinstance(feature, AgreementLabel) for feature in label_features(wide, wide))
    floating = read(np.random.default_rng(1).normal(size=50), 50)
    assert any(isinstance(feature, LastDigitLabel) for feature in label_features(floating, floating))


@pytest.mark.parametrize(
    ("event", "times", "words"),
    [
        (OutputEvent(), 3, "any output"),
        (OutputEvent((Labelled(ColumnLabel("index", 2, 0), (0, 1)),)), 2, "index[0] is 0 or 1"),
        (OutputEvent((Labelled(RowLabel((("index", 2),)), ((1, -1),)),)), 1, "index is (1, none)"),
        (OutputEvent((Labelled(SetLabel("index", 2), ((0, 2),)),)), 2, "index in any order is (0, 2)"),
        (OutputEvent((Labelled(TimesLabel("index", 2, 2), (1,)),)), 2, "the number of 2 in index is 1"),
        (OutputEvent((Within(NumberValue("gap", 2, 0), 1.0, 2.0),)), 1, "1 ≤ gap[0] < 2"),
        (OutputEvent((Within(NumberValue("gap", 2, 0), 2.0, None),)), 1, "gap[0] = 2"),
        (OutputEvent((Within(PartValue("gap", 2, "least"), -np.inf, 0.5),)), 1, "the least gap < 0.5"),
        (OutputEvent((Within(PartValue("gap", 2, "greatest"), 0.5, np.inf),)), 3, "the greatest gap ≥ 0.5"),
        (OutputEvent((Within(NumberValue("gap", 2, 1), -np.inf, np.inf),)), 2, "there is gap[1]"),
        (
            OutputEvent((Charged(0.5), Labelled(ColumnLabel("index", 2, 0), (1,)))),
            1,
            "epsilon 0.5 is charged and index[0] is 1",
        ),
        (
            OutputEvent((Labelled(LastDigitLabel("gap", 2, 0), (-1,)),)),
            2,
            "the last binary digit of gap[0] is worth 2^-1",
        ),
        (
            OutputEvent((Labelled(SidesLabel((("gap", 2),), (1.0, 1.0), (True, False)), (2,)),)),
            1,
            "the number of places where gap is (≥ 1, < 1) is 2",
        ),
        (
            OutputEvent((Labelled(AgreementLabel("index", (2, 2)), (0, 1)),)),
            3,
            "the number of places where index agrees with (2, 2) is 0 or 1",
        ),
    ],
)
def test_events_count_and_speak(event: OutputEvent, times: int, words: str) -> None:
    assert event.count(read(MIXED, 3)) == times
    assert event.words() == words


def test_where_no_charge_is_told_none_was_made() -> None:
    assert OutputEvent((Charged(1.0),)).count(read(np.zeros(4), 4)) == 0
