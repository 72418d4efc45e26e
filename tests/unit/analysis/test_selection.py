"""Spellings of a selection: those that mean the same get one selection, one counting SQL, one price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest

from dpsql.errors import QueryRefused
from dpsql.language import AboveThreshold, AllGroups, Scalar, Selection, TopK
from dpsql.session import Session
from tests.narrow import of_type, present, private
from tests.support.world import world_fixture

POLICY = """
[budget]
epsilon = 100
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page = ["a", "b", "c", "d"]
country = ["DE", "FR"]
"""

N = "COUNT(DISTINCT user_id)"
G = f"SELECT page, {N} AS n FROM visits GROUP BY page"
TWO = f"SELECT page, {N} AS n, {N} FILTER (WHERE ms > 5) AS m FROM visits GROUP BY page"


session = world_fixture(
    POLICY,
    visits="SELECT i // 3 AS user_id, ['a', 'b', 'c'][1 + i % 3] AS page, 'DE' AS country, i AS ms "
    "FROM range(60) t(i)",
)


def selection(session: Session, text: str, parameters: Sequence[float] | None = None) -> Selection:
    return private(session.prepare(text, parameters)).plan.selection


SAME: dict[str, tuple[Selection, list[str]]] = {
    "top-k": (
        TopK(k=3, count=0),
        [
            f"{G} ORDER BY n DESC LIMIT 3",
            f"{G} ORDER BY N DESC LIMIT (3)",
            f"{G} ORDER BY 2 DESC LIMIT 3",
            f"{G} ORDER BY {N} DESC LIMIT 3",
            f"{G} ORDER BY n DESC, page LIMIT 3",
            f"{G} ORDER BY n DESC, page DESC LIMIT 3",
            f"{G} ORDER BY n DESC NULLS LAST LIMIT 3",
            f"{G} ORDER BY n DESC FETCH FIRST 3 ROWS ONLY",
            f"{G} ORDER BY n DESC FETCH NEXT 3 ROWS ONLY",
            f"{G} TOP 3",
            f"{G} TOP 3 BY n",
            f"{G} TOP 3 BY 2",
            f"{G} TOP 3 BY n DESC",
            f"{G} TOP 3 BY {N}",
            f"{G} QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC) <= 3",
            f"{G} QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC) < 4",
            G.replace("SELECT", "SELECT TOP 3"),
            G.replace("SELECT", "SELECT TOP (3)"),
            G.replace("SELECT", "SELECT TOP 3") + " ORDER BY n DESC",
        ],
    ),
    "argmax": (
        TopK(k=1, count=0, argmax=True),
        [
            f"{G} ORDER BY n DESC LIMIT 1",
            f"{G} ORDER BY n DESC FETCH FIRST ROW ONLY",
            f"{G} TOP 1",
            f"{G} ARGMAX",
            f"{G} ARGMAX BY n",
            f"{G} QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC) = 1",
        ],
    ),
    "lowest": (
        TopK(k=2, count=0, lowest=True),
        [
            f"{G} ORDER BY n LIMIT 2",
            f"{G} ORDER BY n ASC, page LIMIT 2",
            f"{G} ORDER BY 2 FETCH FIRST 2 ROWS ONLY",
        ],
    ),
    "above threshold": (
        AboveThreshold(Fraction(9, 2), 0, 2),
        [
            f"{G} HAVING n >= 5 LIMIT 2",
            f"{G} HAVING n > 4 LIMIT 2",
            f"{G} HAVING n > 4.5 LIMIT 2",
            f"{G} HAVING 5 <= n LIMIT 2",
            f"{G} HAVING (4 < n) LIMIT 2",
            f"{G} HAVING {N} >= 5 LIMIT 2",
            f"{G} HAVING n >= 5 FETCH FIRST 2 ROWS ONLY",
            f"{G} ABOVE THRESHOLD 5 LIMIT 2",
        ],
    ),
    "top-k above a threshold": (
        TopK(k=2, count=0, threshold=Fraction(9, 2)),
        [
            f"{G} HAVING n >= 5 ORDER BY n DESC LIMIT 2",
            f"{G} HAVING n > 4 ORDER BY 2 DESC, page LIMIT 2",
            f"{G} TOP 2 BY n ABOVE THRESHOLD 5",
            f"{G} TOP 2 ABOVE THRESHOLD 5",
            f"{G} ABOVE THRESHOLD 5 TOP 2",
            f"{G} HAVING n >= 5 TOP 2",
        ],
    ),
    "count": (Scalar(), [f"SELECT {N} FROM visits", f"SELECT ({N}) AS n FROM visits"]),
}


@pytest.mark.parametrize("name", SAME)
@pytest.mark.sampled(3, rest="longer")
def test_spellings_that_mean_the_same_are_read_the_same(session: Session, name: str) -> None:
    expected, spellings = SAME[name]
    plans = [private(session.prepare(text)).plan for text in spellings]
    for text, plan in zip(spellings, plans, strict=True):
        assert replace(plan.selection, spelling=expected.spelling) == expected, text
    assert len({present(plan).compiled.sql for plan in plans}) == 1
    assert {present(plan).options.epsilon for plan in plans} == {1}


def test_explain_says_how_it_was_read(session: Session) -> None:
    spelled = {text: selection(session, text).spelling for text in SAME["top-k"][1]}
    assert spelled[f"{G} TOP 3"] == "TOP"
    assert spelled[f"{G} ORDER BY n DESC LIMIT 3"] == "ORDER BY .. DESC LIMIT"
    assert spelled[f"{G} QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC) <= 3"] == "QUALIFY ROW_NUMBER"
    assert all(spelled.values())


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ARG_MAX(page, n) FROM (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page)",
        "SELECT argmax(p, n) AS x FROM (SELECT page p, COUNT(DISTINCT user_id) n FROM visits GROUP BY p) t",
        "SELECT MAX_BY(page, n) FROM (SELECT COUNT(DISTINCT user_id) AS n, page FROM visits GROUP BY page)",
    ],
)
def test_arg_max_over_counted_groups(session: Session, text: str) -> None:
    plan = private(session.prepare(text)).plan
    chosen = of_type(plan.selection, TopK)
    assert (chosen.k, chosen.argmax) == (1, True)
    assert [o.kind for o in plan.outputs] == ["key"]


def test_counts_are_found_by_alias_place_or_text(session: Session) -> None:
    second = f"{N} FILTER (WHERE ms > 5)"
    for text, place in (
        (f"{TWO} ORDER BY m DESC LIMIT 2", 1),
        (f"{TWO} ORDER BY 3 DESC LIMIT 2", 1),
        (f"{TWO} ORDER BY {second} DESC LIMIT 2", 1),
        (f"{TWO} TOP 2 BY n", 0),
        (f"{TWO} HAVING m >= 3 LIMIT 2", 1),
        (f"{TWO} TOP 2 BY m ABOVE THRESHOLD 3", 1),
        (f"{G} ORDER BY {second} DESC LIMIT 2", 1),
    ):
        found = selection(session, text)
        assert isinstance(found, (TopK, AboveThreshold))
        assert found.count == place, text


def test_a_count_that_only_orders_is_counted_but_not_shown(session: Session) -> None:
    plan = private(session.prepare(f"SELECT page FROM visits GROUP BY page ORDER BY {N} DESC LIMIT 2")).plan
    assert [o.kind for o in plan.outputs] == ["key"]
    assert len(plan.counts) == 1


def test_a_number_may_be_a_parameter(session: Session) -> None:
    assert of_type(selection(session, f"{G} ORDER BY n DESC LIMIT ?", [3]), TopK).k == 3
    assert of_type(selection(session, f"{G} TOP ?", [3]), TopK).k == 3
    found = of_type(selection(session, f"{G} HAVING n >= ? LIMIT ?", [5, 2]), AboveThreshold)
    assert found.threshold == Fraction(9, 2)
    assert of_type(
        selection(session, f"{G} ABOVE THRESHOLD ? LIMIT 2", [2.5]), AboveThreshold
    ).threshold == Fraction(5, 2)


@pytest.mark.parametrize("value", [0, -3, 2.5, "3", None, True, 10**10])
def test_a_limit_is_a_positive_whole_number(session: Session, value: float | str | None) -> None:
    with pytest.raises(QueryRefused, match="LIMIT needs a positive whole number"):
        session.prepare(f"{G} ORDER BY n DESC LIMIT ?", [value])


def test_a_scan_has_the_order_of_its_keys(session: Session) -> None:
    text = f"SELECT page, country, {N} AS n FROM visits GROUP BY page, country HAVING n >= 3"
    assert of_type(selection(session, f"{text} LIMIT 2"), AboveThreshold).order == ()
    assert of_type(selection(session, f"{text} ORDER BY country DESC, 1 LIMIT 2"), AboveThreshold).order == (
        (1, True),
        (0, False),
    )


def test_all_groups(session: Session) -> None:
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, max_groups_contributed = 2)"
    text = G.replace("SELECT", f"SELECT {options}")
    assert selection(session, text) == AllGroups()
    assert not hasattr(session.prepare(f"{text} ORDER BY page DESC LIMIT 2"), "plan"), (
        "SQL has no empty groups"
    )


def test_base_hits_stand_for_the_limit(session: Session) -> None:
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, base_hits = 2)"
    text = G.replace("SELECT", f"SELECT {options}") + " ABOVE THRESHOLD 5"
    found = of_type(selection(session, text), AboveThreshold)
    assert (found.threshold, found.limit) == (Fraction(9, 2), None)


def test_a_threshold_needs_no_limit(session: Session) -> None:
    found = of_type(selection(session, f"{G} HAVING n >= 3"), AboveThreshold)
    assert (found.threshold, found.limit) == (Fraction(5, 2), None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{TWO} TOP 3", "several counts"),
        (f"{G} TOP 2 LIMIT 2", "write one"),
        (f"{G} TOP 2 ORDER BY n", "leave ORDER BY out"),
        (f"{G} ORDER BY n DESC LIMIT 5%", "percentage"),
        (f"{G} HAVING n >= ms LIMIT 2", "neither a group key nor a count"),
        ("SELECT page FROM visits", "counted, never shown"),
    ],
)
def test_what_is_no_selection_is_refused(session: Session, text: str, message: str) -> None:
    with pytest.raises(QueryRefused, match=message):
        session.prepare(text)
