"""FIRST_STABLE: exact answers or no row, what is refused; distances move with one unit by c at most."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpsql.errors import QueryRefused
from dpsql.estimates.predictions import clear_gap
from dpsql.kernel.mechanisms import FirstStable, NoiseSource, StableAnswers
from dpsql.kernel.stable_questions import StableQuantile
from dpsql.noise import SeededEntropy
from dpsql.planning.stable_selections import StableSelection
from dpsql.session import Session
from tests.narrow import engine_of, of_type, present, private
from tests.support.exact import exact_of
from tests.support.world import open_world, world_fixture

POLICY = """
[budget]
epsilon = 1000
delta = 0.9
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page = { values = ["a", "b", "c", "d"] }
[tables.visits.bounds]
minutes = { from = 0, to = 20 }
cost = { from = 0, to = 9 }
"""
VISITS = """SELECT i AS user_id, CASE WHEN i < 3000 THEN 'a' WHEN i < 4000 THEN 'b' ELSE 'c' END AS page,
'w' || (CASE WHEN i < 3500 THEN 1 ELSE 2 END) AS word, CASE WHEN i < 3000 THEN 7 ELSE i % 20 END AS minutes,
1.5 AS cost FROM range(4010) t(i)"""
UNITS = "COUNT(DISTINCT user_id)"
TOP = f"page FROM visits GROUP BY page ORDER BY {UNITS} DESC LIMIT 1"


session = world_fixture(POLICY, visits=VISITS)


def stable(rest: str, options: str = "epsilon = 1, delta = 1e-6", *, named: bool = True) -> str:
    name = "mechanism = FIRST_STABLE, " if named else ""
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({name}{options}) {rest}"


def rows(session: Session, text: str) -> list[dict[str, Any]]:
    return session.run(text).table.to_pylist()


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        (f"page FROM visits GROUP BY page ORDER BY {UNITS} DESC LIMIT 1", [{"page": "a"}]),
        (f"word FROM visits GROUP BY word ORDER BY {UNITS} DESC LIMIT 1", [{"word": "w1"}]),
        (f"page FROM visits GROUP BY page ORDER BY {UNITS} DESC LIMIT 2", [{"page": "a"}, {"page": "b"}]),
        (
            f"page, DP_RANK() AS r FROM visits GROUP BY page ORDER BY {UNITS} DESC LIMIT 2",
            [{"page": "a", "r": 1}, {"page": "b", "r": 2}],
        ),
        (f"page FROM visits GROUP BY page HAVING {UNITS} >= 500", [{"page": "a"}, {"page": "b"}]),
        (f"page FROM visits GROUP BY page HAVING {UNITS} > 2000", [{"page": "a"}]),
        (f"page FROM visits GROUP BY page HAVING {UNITS} >= 3500", []),
        ("MODE(page) AS p FROM visits", [{"p": "a"}]),
        ("MEDIAN(minutes, contribution_bounds_per_group => (0, 1)) AS m FROM visits", None),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_exact_answers(session: Session, rest: str, expected: list[dict[str, Any]] | None) -> None:
    if expected is None:
        text = stable(
            "MEDIAN(minutes) AS m FROM visits", "epsilon = 1, delta = 1e-6, max_rows_contributed = 1"
        )
        assert rows(session, text) == [{"m": 7.0}]
        return
    found = session.run(stable(rest))
    assert found.table.to_pylist() == expected
    assert present(found.release).charge.epsilon == 1
    assert present(found.release).charge.delta == Fraction(1, 10**6)


def test_no_row_where_it_is_close(session: Session) -> None:
    """The third and the fourth page have 10 and no units: a lead of 10, where 48 are needed."""
    found = session.run(stable(f"page FROM visits GROUP BY page ORDER BY {UNITS} DESC LIMIT 3"))
    assert found.table.num_rows == 0
    assert present(found.release).charge.epsilon == Fraction(3, 20)
    assert "more or less might change the answer" in " ".join(present(found.release).warnings)


def test_explain_has_the_price_and_the_lead(session: Session) -> None:
    def explained(epsilon: str) -> dict[str, Any]:
        text = stable(TOP, f"epsilon = {epsilon}, delta = 1e-7")
        (cell,) = session.run(f"EXPLAIN (FORMAT JSON) {text}").table.column(0).to_pylist()
        found: dict[str, Any] = json.loads(cell)
        return found

    facts = explained("1")
    assert (facts["mechanism"], facts["epsilon"], facts["delta"]) == ("stability test", 1, 1e-7)
    assert 39 < facts["tells_apart"] < 55  # 39 is where it passes about as often as not
    half = explained("0.5")
    assert half["tells_apart"] - 1 == pytest.approx(2 * (facts["tells_apart"] - 1), rel=0.01)


@pytest.mark.parametrize(
    ("rest", "options", "why"),
    [
        (f"page, {UNITS} AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 1", "", "n is a number"),
        (f"{UNITS} AS n FROM visits", "", "n is a number"),
        (f"ROUND({UNITS}, -2) AS n FROM visits", "", "is a number"),
        ("SUM(cost) AS s FROM visits", ", max_rows_contributed = 1", "s is a number"),
        (f"page, DP_GAP() AS g FROM visits GROUP BY page ORDER BY {UNITS} DESC LIMIT 1", "", "g is a number"),
        (
            "page FROM visits GROUP BY page ORDER BY SUM(cost) DESC LIMIT 1",
            ", max_rows_contributed = 1",
            "compared by counts alone",
        ),
        (
            f"page FROM visits GROUP BY page ORDER BY {UNITS} FILTER (minutes > 5) - {UNITS} DESC LIMIT 1",
            "",
            "compared by counts alone",
        ),
        (f"page FROM visits GROUP BY page HAVING {UNITS} >= 0", "", "every group reaches"),
        (
            f"page FROM visits GROUP BY page HAVING {UNITS} >= 9 ORDER BY {UNITS} DESC LIMIT 2",
            "",
            "without ORDER BY and LIMIT",
        ),
        ("MAX(minutes) AS m FROM visits", "", "one unit's value"),
        (
            "page, MEDIAN(minutes) AS m FROM visits GROUP BY page",
            ", max_rows_contributed = 1",
            "one quantile of all rows",
        ),
        (
            "MEDIAN(minutes) AS m, QUANTILE_DISC(minutes, 0.9) AS q FROM visits",
            ", max_rows_contributed = 1",
            "one quantile of all rows",
        ),
        (f"page FROM visits GROUP BY page ORDER BY {UNITS} DESC LIMIT 1", ", noise = GEOMETRIC", "one-sided"),
        (f"page FROM visits GROUP BY page ORDER BY {UNITS} DESC LIMIT 1", ", measure = 0.5", "no meaning"),
        (f"word FROM visits GROUP BY word ORDER BY {UNITS} DESC LIMIT 1", ", candidates = 3", "no meaning"),
    ],
)
def test_refused(session: Session, rest: str, options: str, why: str) -> None:
    with pytest.raises(QueryRefused, match=why):
        session.prepare(stable(rest, f"epsilon = 1, delta = 1e-6{options}"))


def test_a_delta_is_needed(session: Session) -> None:
    with pytest.raises(QueryRefused, match="needs a delta") as caught:
        session.prepare(
            stable(f"page FROM visits GROUP BY page ORDER BY {UNITS} DESC LIMIT 1", "epsilon = 1")
        )
    assert "delta = 1e-6" in (caught.value.hint or "")


ROWS = """SELECT (i * 7919) % 23 AS user_id, ['a', 'b', 'c'][least((i % 11) // 3, 2) + 1] AS page,
'w' || ((i * i) % 5) AS word, (i * 31) % 17 AS minutes, 1.5 AS cost FROM range(90) t(i)"""


QUESTIONS = (
    "page FROM visits GROUP BY page ORDER BY {count} DESC LIMIT 1",
    "page, DP_RANK() AS r FROM visits GROUP BY page ORDER BY {count} DESC LIMIT 2",
    "page FROM visits GROUP BY page ORDER BY {count} LIMIT 2",
    "word FROM visits GROUP BY word ORDER BY {count} DESC LIMIT 3",
    "page FROM visits GROUP BY page HAVING {count} >= 12",
    "MEDIAN(minutes) AS m FROM visits",
    "QUANTILE_DISC(minutes, 0.2) AS m FROM visits",
)


@pytest.mark.parametrize(
    ("c", "every"), [(3, 8), *(pytest.param(c, 1, marks=pytest.mark.longer) for c in (1, 2, 3))]
)
def test_one_unit_moves_a_distance_by_c_through_sql(
    tmp_path_factory: pytest.TempPathFactory, c: int, every: int
) -> None:
    """Delete units in turn, and count again: what the kernel certifies holds of the SQL that runs."""
    count = f"COUNT(*, contribution_bounds_per_group => (0, {c}))"
    found: dict[str, list[tuple[int, list[Any]]]] = {rest: [] for rest in QUESTIONS}
    for gone in (-1, *range(0, 23, every)):
        kept = f"SELECT * FROM ({ROWS}) WHERE user_id <> {gone}"
        with open_world(tmp_path_factory.mktemp("units"), POLICY, visits=kept) as opened:
            for rest, distances in found.items():
                bound = f", max_rows_contributed = {c}" if "minutes" in rest else ""
                text = stable(rest.format(count=count), f"epsilon = 1, delta = 1e-6{bound}")
                distances.append(distance_of(opened, text, c))
    for (whole, answer), *others in found.values():
        assert all(abs(whole - distance) <= c for distance, _ in others)
        assert all((whole, distance) == (0, 0) for distance, other in others if other != answer)
    assert max(abs(d - each[0][0]) for each in found.values() for d, _ in each) == c


def distance_of(session: Session, text: str, c: int) -> tuple[int, list[Any]]:
    """The distance of a statement on exact counts, and its answer, which may not be stable."""
    prepared = private(session.prepare(text))
    method = of_type(prepared.method, StableSelection)
    counts = exact_of(engine_of(session).count(prepared.plan.compiled))
    moved = method.question.bound_change(counts.changes, method.place)
    assert moved == c
    distance, at = method.question.answer(counts, method.place, moved)
    keys = at.tolist() if isinstance(method.question, StableQuantile) else counts.keys_at(at)[0].to_pylist()
    return distance, keys if getattr(method.question, "listed", False) else sorted(keys, key=str)


@pytest.mark.parametrize(
    "plan",
    [FirstStable.plan(1, 1, "1e-7"), StableAnswers.plan(1000, 5, 1, "1e-6")],
    ids=["a statement", "a stream"],
)
def test_an_answer_is_shown_as_often_as_is_said(plan: FirstStable | StableAnswers) -> None:
    """At the lead of EXPLAIN 95% are, within four standard errors of 20,000 runs; at distance 0 none."""
    lead = present(clear_gap(plan, Fraction(95, 100)))
    distances = np.tile([round(lead), 0], (20_000, 1))
    passed = (plan.tests.margins(distances, NoiseSource(SeededEntropy(5))) >= 0).mean(axis=0)
    assert passed[0] == pytest.approx(0.95, abs=0.0075)
    assert passed[1] == 0
