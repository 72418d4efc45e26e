"""Where the columns of a release stand, and what fails behind one."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest

from dpsql.analysis import Output, place_columns
from dpsql.errors import DataError, Error, InternalError, QueryRefused
from dpsql.places import NumberPlace, Places, list_renamed, make_distinct
from dpsql.release import describe_opening, tell_opening
from dpsql.render.readable import places

NUMBERS = [
    Output("k", "key", 0),
    Output("n", "count", 0),
    Output("n", "count", 1),
    Output("n_low", "count", 2),
    Output("n_stddev", "stddev", 0),
    Output("n_1_high", "high", 0),
    Output("gap", "count", 3),
]


def test_columns_stand_where_they_are_said_to_be() -> None:
    names, found = place_columns(NUMBERS, ["gap"], ordering=1)
    assert names[:7] == [output.name for output in NUMBERS]
    assert len({*names[7:]}) == len(names[7:])
    assert not {*names[7:]} & {*names[:7]}
    assert found.keys == (0,)
    assert names[found.gap or 0] == "gap_1"
    first, second, third, last = found.numbers
    assert (first.place, first.stddev, names[first.low or 0]) == (1, 4, "n_low_1"), "what it shows is its own"
    assert (second.place, names[second.high or 0]) == (2, "n_1_high_1"), "the end of another number is not"
    assert (third.place, last.place, found.ordering) == (3, 6, 1)
    assert Places.of_facts(found.facts()) == found


def test_names_are_made_distinct_as_duckdb_does() -> None:
    assert make_distinct(["n", "n", "n_1", "N"]) == ["n", "n_1", "n_1_1", "N"]
    assert make_distinct(["n", "N"], fold=True) == ["n", "N_1"]
    assert list_renamed(["a", "n", "n"]) == [("n", "n_1")]


def test_a_release_without_places_is_read_by_names(fakes: SimpleNamespace) -> None:
    release = fakes.top_k(2)
    assert release.places is None
    assert places(release) == Places((0,), (NumberPlace(1, 3, 4, 5),), gap=2)
    found = Places.by_name(["n", "n", "n_stddev", "n_low", "n_high"], 2, (), ("n", "n"), "n")
    assert found == Places((), (NumberPlace(0, 2, 3, 4), NumberPlace(1)), ordering=0)


def release(*numbers: int | None) -> SimpleNamespace:
    parts = tuple(SimpleNamespace(number=number, parts=()) for number in numbers)
    return SimpleNamespace(number=None, parts=parts)


def test_the_hint_names_all_releases() -> None:
    assert describe_opening(release(4)).endswith("stored as release 4: SHOW RELEASE 4 opens it, free")  # type: ignore[arg-type]
    assert "SHOW RELEASE 4, SHOW RELEASE 5 open it" in describe_opening(release(4, 5, 4))  # type: ignore[arg-type]
    assert describe_opening(release(None)) == ""  # type: ignore[arg-type]


REFUSED = QueryRefused("no", hint="write it so", line=1, col=1, source="SELECT")


@pytest.mark.parametrize(
    ("raised", "kind", "words"),
    [
        (DataError("no form"), DataError, "no form\nHint: the answer"),
        (DataError("no form\nHint: cast it"), DataError, "no form\nHint: cast it; the answer"),
        (REFUSED, QueryRefused, "^\nHint: write it so; the answer"),
        (
            KeyError("a secret"),
            InternalError,
            "(KeyError): this is a bug of dpsql, please report",
        ),
    ],
)
def test_errors_say_how_the_answer_is_opened(raised: Exception, kind: type[Error], words: str) -> None:
    with pytest.raises(kind) as caught, tell_opening(release(7)), tell_opening(release(7)):  # type: ignore[arg-type]
        raise raised
    assert words in str(caught.value)
    assert str(caught.value).count("SHOW RELEASE 7 opens it, free") == 1
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_errors_that_others_report_pass() -> None:
    class PassedError(Exception):
        pass

    for error in (BrokenPipeError(), PassedError(), ImportError()):
        with pytest.raises(type(error)), tell_opening(release(7), passed=(PassedError,)):  # type: ignore[arg-type]
            raise error
