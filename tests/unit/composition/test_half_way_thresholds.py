"""Thresholds lie half way between whole numbers, wherever a statement compares a released number."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pytest

from dpsql.language import AboveThreshold, TopK
from tests.narrow import of_type, private
from tests.nearly_exact import NearlyExact, nearly_exact

DATA = """
CREATE TABLE t AS
SELECT i AS u, chr(97 + (i % 20)::INT) AS k, 1 AS y, i % 3 AS f, (i % 4) / 4 AS q FROM range(800) AS r(i);
"""
KEYS = ", ".join(f'"{chr(97 + i)}"' for i in range(20))
POLICY = f"""
[tables.t]
source = "t"
unit = "u"
unique = [["u"]]
domain = {{ k = [{KEYS}] }}
not_null = ["k"]
bounds = {{ y = {{ from = 0, to = 10 }} }}
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NearlyExact]:
    found = nearly_exact(tmp_path_factory.mktemp("small"), DATA, POLICY, epsilon=1e6)
    yield found
    found.private.close()


MEASURES = ["COUNT(*)", "SUM(y)"]
OTHERS = ["COUNT(DISTINCT u)", "COUNT(*) - COUNT(*) FILTER (WHERE f = 9)"]
CONDITIONS = [
    "> 39",
    ">= 40",
    "> 40",
    "< 40",
    "<= 40",
    "< 41",
    "= 40",
    "<> 40",
    "BETWEEN 40 AND 41",
    "> 39.5",
]
FORMS = [
    "SELECT k FROM t GROUP BY k HAVING {0} {1}",
    "SELECT k FROM t GROUP BY k HAVING {0} {1} ORDER BY {0} DESC LIMIT 100",
    "SELECT COUNT(*) FROM (SELECT k FROM t GROUP BY k HAVING {0} {1}) AS z",
    "SELECT k FROM (SELECT k, {0} AS n FROM t GROUP BY k) AS z WHERE n {1}",
    "WITH a AS (SELECT k, {0} AS n FROM t GROUP BY k), b AS (SELECT * FROM a) "
    "SELECT SUM(CASE WHEN b.n {1} THEN 1 ELSE 0 END) FROM b",
    "SELECT k, {0} {1} FROM t GROUP BY k",
]


CASES = [(form, measure) for form in FORMS for measure in MEASURES] + [(FORMS[0], each) for each in OTHERS]
EVERY = 3
"""Of the conditions of a case every third is tried every day, so that each meets several forms."""


@pytest.mark.parametrize(
    ("form", "measure", "conditions"),
    [
        *((*case, CONDITIONS[place % EVERY :: EVERY]) for place, case in enumerate(CASES)),
        *(pytest.param(*case, CONDITIONS, marks=pytest.mark.slow) for case in CASES),
    ],
)
@pytest.mark.sampled(3)
def test_groups_at_the_threshold_are_on_their_side(
    form: str, measure: str, conditions: list[str], small: NearlyExact
) -> None:
    for condition in conditions:
        small.agrees(form.format(measure, condition))


@pytest.mark.parametrize(
    "condition",
    [
        "40 < COUNT(*)",
        "40 <= COUNT(*) AND SUM(y) > 39",
        "2 * COUNT(*) - 3 >= 77",
        "2 * COUNT(*) > 80",
        "-COUNT(*) >= -40",
        "COUNT(*) >= SUM(y)",
        "COUNT(*) > SUM(y)",
        "SUM(y) > 39 AND AVG(y) > 0.5",
        "COUNT(*) >= 40 AND AVG(y) > 0.5",
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_calculations_with_whole_numbers_are_whole(condition: str, small: NearlyExact) -> None:
    small.agrees(f"SELECT k FROM t GROUP BY k HAVING {condition}")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT k FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS z GROUP BY k HAVING SUM(n) >= 40",
        "SELECT COUNT(*) FROM t HAVING COUNT(*) >= 800",
        "SELECT COUNT(*) > 800 FROM t",
        "SELECT k FROM (SELECT k, SUM(y) AS n, COUNT(*) AS n FROM t GROUP BY k) AS z WHERE n_1 >= 40",
        "SELECT k FROM (SELECT k, COUNT(*) AS n, AVG(y) AS n FROM t GROUP BY k) AS z WHERE n >= 40",
        "SELECT y, COUNT(*) FROM t WHERE y < (SELECT CASE WHEN COUNT(*) >= 800 THEN 5 ELSE 0 END FROM t) "
        "AND y IN (1) GROUP BY y",
    ],
)
def test_other_places_of_comparisons(statement: str, small: NearlyExact) -> None:
    small.agrees(statement)


def test_a_number_is_compared_with_itself_in_other_groups_as_it_is(small: NearlyExact) -> None:
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 5)"
    counts = f"WITH r AS (SELECT {options} k, COUNT(*) AS n FROM t GROUP BY k) "
    ranks = "SELECT a.n, COUNT(*) FROM r AS a JOIN r AS b ON b.n >= a.n GROUP BY a.k, a.n"
    found = small.rows(counts + ranks)
    assert len(found) == 20
    assert all(rank == sum(other >= n for other, _ in found) for n, rank in found)
    largest = small.rows(
        f"{counts} SELECT n, (SELECT MAX(n) FROM r) FROM r WHERE n >= (SELECT MAX(n) FROM r)"
    )
    assert all(n == most for n, most in largest)


@pytest.mark.parametrize(
    ("having", "threshold", "words"),
    [
        ("COUNT(*) > 40", Fraction(81, 2), "above threshold 41"),
        ("COUNT(*) >= 40", Fraction(79, 2), "above threshold 40"),
        ("COUNT(*) >= 39.2", Fraction(79, 2), "above threshold 40"),
        ("SUM(y) > 40", Fraction(81, 2), "above threshold 41"),
        ("SUM(y) > -40", Fraction(-79, 2), "above threshold -39"),
    ],
)
def test_the_selection_of_a_release_is_told_as_the_least_number_that_passes(
    having: str, threshold: Fraction, words: str, small: NearlyExact
) -> None:
    text = f"SELECT k, COUNT(*), SUM(y) FROM t GROUP BY k HAVING {having}"
    plan = private(small.private._session.prepare(text)).plan
    assert of_type(plan.selection, AboveThreshold).threshold == threshold
    assert dict(small.rows(f"EXPLAIN {text}"))["selection"] == words
    few = private(
        small.private._session.prepare(f"{text} ORDER BY {having.split(' ', maxsplit=1)[0]} DESC LIMIT 3")
    ).plan
    assert of_type(few.selection, TopK).threshold == threshold


QUOTIENTS = [
    "SELECT COUNT(*) // 7, -COUNT(*) // 7, (COUNT(*) - 1000) // 7, 10000 // COUNT(*) FROM t",
    "SELECT k, COUNT(*) // COUNT(DISTINCT u) FROM t GROUP BY k",
    "SELECT k FROM t GROUP BY k HAVING COUNT(*) // 41 = 1",
    "SELECT SUM(n // 7), MAX(n // 3) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS z",
]


@pytest.mark.parametrize("statement", QUOTIENTS)
def test_whole_quotients_of_counts_are_whole(small: NearlyExact, statement: str) -> None:
    small.agrees(statement)
    notes = [note for note in small.notes(statement) if not note.startswith("no interval of")]
    assert not any("//" in note for note in notes)


@pytest.mark.parametrize(
    "quotient", ["SUM(y) // 7", "(COUNT(*) // 7) // 2", "COUNT(*) // NULLIF(COUNT(*), 3)"]
)
def test_quotients_that_keep_their_fraction_say_so(small: NearlyExact, quotient: str) -> None:
    assert any("keeps its fraction" in note for note in small.notes(f"SELECT {quotient} FROM t"))
