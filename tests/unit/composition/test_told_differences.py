"""What an answer tells where it is not what plain SQL computes, or where a condition can never hold."""

from __future__ import annotations

import pytest

from tests.nearly_exact import NearlyExact, nearly_exact

TABLES = """
CREATE TABLE stays AS SELECT i AS guest, i % 2 AS kind,
  (1 + i % 4)::INTEGER AS nights, (1 + i % 4)::DOUBLE AS cost,
  ['North', 'South'][1 + i % 2] AS house FROM range(480) r(i)
"""
POLICY = """
[tables.stays]
source = "stays"
unit = "guest"
[tables.stays.domain]
kind = { from = 0, to = 2, complete = true }
house = ["North", "South"]
[tables.stays.bounds]
nights = { from = 0, to = 10 }
cost = { from = 0, to = 10 }
"""
WHOLE = "is the whole number of a row here: between two rows SQL takes one between their numbers"
SUM = "a sum of no values is a number near 0 here, where SQL has NULL: COUNT beside it tells"
NULL = "a comparison with NULL is never TRUE: IS NULL finds missing values"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> NearlyExact:
    return nearly_exact(tmp_path_factory.mktemp("told"), TABLES, POLICY, epsilon=10**6)


def test_a_median_of_whole_numbers_is_one_of_them_and_that_is_said(asked: NearlyExact) -> None:
    ((found,),), ((meant,),) = (
        asked.rows("SELECT MEDIAN(nights) FROM stays"),
        asked.meant("SELECT MEDIAN(nights) FROM stays"),
    )
    assert (found in (2, 3), meant) == (True, 2.5)
    assert asked.notes("SELECT MEDIAN(nights) FROM stays") == [f"MEDIAN(nights) {WHOLE}"]


@pytest.mark.parametrize("call", ["MEDIAN(cost)", "QUANTILE_DISC(nights, 0.5)", "MIN(nights)"])
def test_other_quantiles_say_nothing_of_it(asked: NearlyExact, call: str) -> None:
    assert not any(WHOLE in note for note in asked.notes(f"SELECT {call} FROM stays"))


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ("kind, SUM(nights) IS NULL AS z", [SUM]),
        ("kind, COALESCE(SUM(cost), 0) AS z", [SUM]),
        ("kind, AVG(nights) IS NULL AS z", []),
        ("kind, COUNT(*) IS NULL AS z", []),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_a_sum_that_is_tested_for_null_is_told(asked: NearlyExact, items: str, told: list[str]) -> None:
    notes = asked.notes(f"SELECT {items} FROM stays GROUP BY kind")
    assert [note for note in notes if note == SUM] == told


UNDECLARED = "'{}' is none of the public values of house: did you mean 'North'?"
EXCLUDED = "no row has house = 'North' and 'South' at once: OR takes the rows of either"


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("house = NULL", NULL),
        ("NULL <> nights", NULL),
        ("house = 'Nroth'", UNDECLARED.format("Nroth")),
        ("'Nroth' <> house", UNDECLARED.format("Nroth")),
        (
            "house IN ('North', 'north')",
            UNDECLARED.format("north"),
        ),
        (
            "house = 'North' AND house = 'South'",
            EXCLUDED,
        ),
        ("nights > 5 AND nights < 3", "the conditions on nights exclude each other: no row has both"),
        ("house = 'North'", None),
        ("house IS NULL", None),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_a_condition_that_never_holds_is_told(asked: NearlyExact, condition: str, told: str | None) -> None:
    release = asked.private.execute(f"SELECT COUNT(*) FROM stays WHERE {condition}").release
    assert [*map(str, release.assumed)] == ([] if told is None else [told])
