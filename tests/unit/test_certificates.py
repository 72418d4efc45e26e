"""Nothing is counted that the kernel has not certified; EXPLAIN (FORMAT CERTIFICATE) shows the proof."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.kernel.check import NotCertified
from dpsql.session import Session
from tests.narrow import private
from tests.opened import sessions_in

POLICY = """
[budget]
epsilon = 100
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
rows_per_unit = 4
[tables.visits.domain]
page = ["a", "b", "c"]
"""
ROWS = "SELECT * FROM (VALUES (1, 'a', 5), (1, 'b', 6), (2, 'a', 5), (3, 'c', 9)) AS t(user_id, page, ms)"
PAGES = "SELECT page, COUNT(*) AS n FROM visits GROUP BY page"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("certified")
    duckdb.sql(f"COPY ({ROWS}) TO '{folder / 'visits'}.parquet'")
    with sessions_in(folder, POLICY) as opened:
        yield opened()


def rows_of(session: Session, text: str) -> list[dict[str, Any]]:
    return session.run(text).table.to_pylist()


def test_a_proof_ends_with_what_one_unit_changes(session: Session) -> None:
    steps = rows_of(session, f"EXPLAIN (FORMAT CERTIFICATE) {PAGES}")
    assert [*steps[0]] == ["query", "rule", "concludes", "place"]
    assert {"scan", "conclusion"} <= {step["rule"] for step in steps}
    scan = next(step["concludes"] for step in steps if step["rule"] == "scan")
    assert "user_id" in scan
    last = steps[-1]
    assert (last["query"], last["rule"], last["place"]) == ("counts", "conclusion", "n0")
    most = f"{4 << 24:,}"  # four rows, each in parts
    assert last["concludes"].startswith(
        f"one unit changes n0 by 0 to {most} in each group, by at most {most}"
    )


def test_a_search_has_a_proof_of_its_own(session: Session) -> None:
    text = "SELECT COUNT(*, contribution_bounds => AUTO) AS n FROM visits WHERE ms > 1"
    steps = rows_of(session, f"EXPLAIN (FORMAT CERTIFICATE) {text}")
    assert {step["query"] for step in steps} == {"search of a bound", "counts"}


def test_a_public_statement_has_no_proof(session: Session) -> None:
    assert rows_of(session, "EXPLAIN (FORMAT CERTIFICATE) SELECT 1 AS one") == []


def test_a_plan_that_claims_less_is_not_counted(session: Session) -> None:
    counting = private(session.prepare(PAGES)).counting
    narrow = [replace(part, most=3) for part in counting.plan.counts[0].parts]  # type: ignore[call-arg]  # its own field
    wrong = replace(counting.plan, counts=(replace(counting.plan.counts[0], parts=tuple(narrow)),))
    with pytest.raises(NotCertified, match=f"n0 changes by 0 to {4 << 24}, claimed 0 to {3 << 24}"):
        replace(counting, plan=wrong)


def test_what_is_computed_of_rows_that_may_be_missing_has_the_group_of_null_once(session: Session) -> None:
    rows = "(SELECT user_id, upper(page) AS p FROM visits WHERE page IS NOT NULL)"
    text = f"SELECT p, COUNT(DISTINCT user_id) AS n FROM visits LEFT JOIN {rows} USING (user_id) GROUP BY p"
    rules = {step["rule"] for step in rows_of(session, f"EXPLAIN (FORMAT CERTIFICATE) {text}")}
    assert "declared groups" in rules
    assert sorted(str(row["p"]) for row in rows_of(session, text)) == ["A", "B", "C", "None"]


def test_a_list_of_values_has_the_place_of_null_once(session: Session) -> None:
    rows = "(SELECT user_id, CASE WHEN page = 'a' THEN 'w' END AS p FROM visits WHERE page IS NOT NULL)"
    text = f"SELECT p, COUNT(DISTINCT user_id) AS n FROM visits LEFT JOIN {rows} USING (user_id) GROUP BY p"
    assert [row["p"] for row in rows_of(session, text)] == ["w", None]


def test_equal_statements_on_columns_of_other_types_are_certified(session: Session, tmp_path: Path) -> None:
    """Equal trees tell columns apart by their names: what is looked up of one has no types of the other."""
    text = "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE user_id NOT IN (SELECT user_id FROM visits)"
    rows = f"SELECT CAST(user_id AS VARCHAR) AS user_id, page, ms FROM ({ROWS})"
    duckdb.sql(f"COPY ({rows}) TO '{tmp_path / 'visits'}.parquet'")
    with sessions_in(tmp_path, POLICY) as opened:
        for own in (session, opened(), session):
            assert private(own.prepare(text)).plan.compiled.certificate.numbers[0].high == 1


def test_a_unit_is_in_one_cell_of_each_group_of_a_computed_whole_number(session: Session) -> None:
    """A key that is a whole number beside that of the cells is one of the groups, whose number is public."""
    least = "MIN(ms, contribution_bounds_per_row => (0, 9))"
    text = f"SELECT CASE WHEN page = 'a' THEN 1 ELSE 3 END AS k, {least} AS n"
    plan = private(session.prepare(f"{text} FROM visits GROUP BY k")).counting.plan
    assert plan.compiled.certificate.one_cell
    assert sorted(row["k"] for row in rows_of(session, f"{text} FROM visits GROUP BY k")) == [1, 3]
