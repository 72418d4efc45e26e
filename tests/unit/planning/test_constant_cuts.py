"""A constant that may cut has its line in the answer, once; one that facts prove not to cut has none."""

from __future__ import annotations

import pytest

from dpsql.session import Session
from tests.support.world import world_fixture

POLICY = """
[budget]
epsilon = 1e6
delta = 1e-3
ledger = "ledger.sqlite"
[tables.t]
source = "t.parquet"
unit = "user_id"
unit_kind = "user"
domain = { k = { from = 0, to = 9, complete = true } }
bounds = { x = { from = 0, to = 9 } }
[tables.p]
source = "t.parquet"
unit = "user_id"
unit_kind = "user"
rows_per_unit = 3
domain = { k = { from = 0, to = 9, complete = true } }
bounds = { x = { from = 0, to = 9 } }
[tables.one]
source = "one.parquet"
unit = "user_id"
unit_kind = "user"
unique = [["user_id"]]
rows_per_unit = 3
bounds = { x = { from = 0, to = 9 } }
"""
ROWS = "rows of a user beyond 3, as max_rows_contributed says, what is cut is not known"
POLICYS = "rows of a user beyond 3, what is cut is not known"
GROUPS = "groups of a user beyond 2, as max_groups_contributed says, what is cut is not known"
CUT = [
    ("max_rows_contributed = 3", "COUNT(*) FROM t", ROWS),
    ("max_rows_contributed = 3", "SUM(x), AVG(x), COUNT(*) FROM t", ROWS),
    ("max_rows_contributed = 3", "AVG(x > 4) FROM t", ROWS),
    ("max_rows_contributed = 3", "MEDIAN(x) FROM t", ROWS),
    ("max_rows_contributed = 3", "k, SUM(x) FROM t GROUP BY k", ROWS),
    ("max_rows_contributed = 3", "k, COUNT(*) FROM t GROUP BY k HAVING COUNT(*) > 5", ROWS),
    ("max_rows_contributed = 3", "k, COUNT(*) FROM t GROUP BY k ORDER BY 2 DESC LIMIT 2", ROWS),
    ("fresh = true", "COUNT(*) FROM p", POLICYS),
    ("fresh = true", "k, SUM(x) FROM p GROUP BY k", POLICYS),
    ("fresh = true", "COUNT(DISTINCT x) FROM p", "different values in a group of a user beyond 3"),
    ("max_groups_contributed = 2", "k, COUNT(DISTINCT user_id) FROM t GROUP BY k", GROUPS),
    ("max_groups_contributed = 2, delta = 1e-6", "x, COUNT(DISTINCT user_id) FROM t GROUP BY x", GROUPS),
]
UNCUT = [
    ("fresh = true", "COUNT(*) FROM one"),
    ("fresh = true", "SUM(x), AVG(x) FROM one"),
    ("fresh = true", "COUNT(DISTINCT user_id) FROM p"),
    ("fresh = true", "COUNT(*) FROM t"),  # the search says what it leaves out
    ("fresh = true", "k, COUNT(DISTINCT user_id) FROM t GROUP BY k"),
]


session = world_fixture(
    POLICY,
    t="SELECT i % 500 AS user_id, i % 10 AS x, i % 7 AS k FROM range(4000) AS r(i)",
    one="SELECT i AS user_id, i % 10 AS x FROM range(500) AS r(i)",
)


def _text_of(session: Session, options: str, rest: str) -> tuple[str, str]:
    """Return what the answer of a statement and its EXPLAIN say."""
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, {options}) {rest}"
    answer = session.run(text)
    explained = session.run(f"EXPLAIN {text}").table.column("value").to_pylist()
    return str(answer), "\n".join(map(str, explained))


@pytest.mark.parametrize(("options", "rest", "line"), CUT)
@pytest.mark.sampled(3, rest="longer")
def test_a_constant_that_may_cut_has_one_line(session: Session, options: str, rest: str, line: str) -> None:
    for said in _text_of(session, options, rest):
        assert said.count(line) == 1


@pytest.mark.parametrize(("options", "rest"), UNCUT)
def test_a_constant_that_cannot_cut_has_none(session: Session, options: str, rest: str) -> None:
    for said in _text_of(session, options, rest):
        assert "beyond 3" not in said
        assert "beyond 2," not in said


def test_what_was_chosen_for_different_rows_is_told(session: Session) -> None:
    """Each unit speaks for one row, or for as many as the statement writes."""
    said = "groups of a user beyond 1, chosen for the least noise (max_groups_contributed says another)"
    assert said in _text_of(session, "fresh = true", "DISTINCT k FROM t")[0]
    assert GROUPS in _text_of(session, "max_groups_contributed = 2", "DISTINCT k FROM t")[0]


@pytest.mark.parametrize("rows", ["SELECT DISTINCT user_id FROM t", "SELECT user_id FROM t GROUP BY 1"])
def test_no_bound_is_searched_beside_one_row_of_a_unit(session: Session, rows: str) -> None:
    joined = f"COUNT(*) FROM one JOIN ({rows}) AS v ON v.user_id = one.user_id"
    assert "rows of a user beyond" not in _text_of(session, "fresh = true", joined)[0]
    several = "COUNT(*) FROM one JOIN t USING (user_id)"
    assert "rows of a user beyond" in _text_of(session, "fresh = true", several)[0]
