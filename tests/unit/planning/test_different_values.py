"""COUNT(DISTINCT x) of declared values is answered by the noisy numbers of units that have each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from dpsql.analysis import Contribution
from dpsql.errors import QueryRefused
from dpsql.planning.all_groups import EveryCount, WholeDomain
from dpsql.planning.column_values import DifferentValues
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import present, private
from tests.support.exact import answer_of
from tests.support.world import open_world

WARDS = [f"w{i}" for i in range(6)]
SIZES = {"even": [900] * 6, "skew": [5000, 4000, 900, 200, 40, 3], "half": [900, 900, 900, 0, 0, 0]}
"""How many people have each ward, in parts of the data: each person has several."""

POLICY = f"""
[budget]
epsilon = 1e7
max_epsilon_per_query = 1e6
default_epsilon = 0.25
ledger = "ledger.sqlite"
[tables.t]
source = "t.parquet"
unit = "user_id"
unit_kind = "person"
[tables.t.domain]
ward = {{ values = {WARDS}, complete = true }}
k = {{ values = ["x0", "x1"], complete = true }}
small = {{ values = {WARDS[:3]}, complete = true }}
open = {{ values = {WARDS[:2]} }}
many = {{ from = 0, to = 600 }}
[tables.facts]
source = "facts.parquet"
unit = "user_id"
unit_kind = "person"
unique = [["user_id"]]
[tables.facts.domain]
ward = {{ values = {WARDS}, complete = true }}
[tables.wards]
source = "wards.parquet"
public = true
[tables.alone]
source = "facts.parquet"
unit = "ROW"
unit_kind = "call"
[tables.alone.domain]
ward = {{ values = {WARDS}, complete = true }}
"""


def write(folder: Path) -> None:
    """Write a table in which a person has several wards, and one with a row for each person."""
    parts = [
        f"SELECT i AS user_id, '{part}' AS part, '{ward}' AS ward FROM range({size}) AS r(i)"
        for part, sizes in SIZES.items()
        for ward, size in zip(WARDS, sizes, strict=True)
    ]
    more = "'x' || (user_id % 2) AS k, 'w' || (user_id % 3) AS small, user_id % 601 AS many"
    more += ", CASE user_id % 4 WHEN 0 THEN 'w0' WHEN 1 THEN 'w1' WHEN 2 THEN 'other' END AS open"
    duckdb.sql(f"COPY (SELECT *, {more} FROM ({' UNION ALL '.join(parts)})) TO '{folder}/t.parquet'")
    duckdb.sql(f"COPY (SELECT unnest({WARDS}) AS name) TO '{folder}/wards.parquet'")
    cells = "i AS user_id, 'w' || (i % 6) AS ward FROM range(5400) AS r(i)"
    duckdb.sql(f"COPY (SELECT {cells}) TO '{folder}/facts.parquet'")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("values")
    write(folder)
    with open_world(folder, POLICY) as opened:
        yield opened


def method(session: Session, text: str, options: str = "") -> object:
    head = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) " if options else "SELECT "
    return private(session.prepare(head + text)).method


def rows(session: Session, text: str, options: str = "epsilon = 1e4") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = session.run(
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {text}"
    ).table.to_pylist()
    return found


def drawn(session: Session, part: str, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the low ends and the values of so many answers at epsilon 0.25, from one count of the data."""
    prepared = private(session.prepare(f"SELECT COUNT(DISTINCT ward) AS n FROM t WHERE part = '{part}'"))
    counts = prepared.counting.count()
    found = [present(answer_of(prepared.method, prepared.plan, counts).counts[0]) for _ in range(runs)]
    assert all(each.high[0] == 6 for each in found)
    return np.array([each.low[0] for each in found]), np.array([each.value[0] for each in found])


def test_values_that_many_people_have_are_all_counted(session: Session) -> None:
    """A wrong one of 300 answers needs noise below -880 at epsilon 0.25: less than 1e-80."""
    low, value = drawn(session, "even", 300)
    assert set(value) == {6.0}
    assert set(low) == {6.0}


def test_the_low_end_is_at_most_the_number(session: Session) -> None:
    """Of 1000 intervals 5% may miss. More than 10% miss with probability below 2e-9, by Chernoff's bound.

    Values that exceed half of the bar are more than that: they do not pass for a low end.
    """
    low, value = drawn(session, "half", 1000)
    assert (low > 3).mean() <= 0.10
    assert (value > 3).mean() > 0.10


def test_values_that_few_people_have_count_partly(session: Session) -> None:
    """Averages of 1000 answers between 0 and 6, at the figures of a simulation of 2e5: 10 standard errors."""
    low, value = drawn(session, "skew", 1000)
    assert abs(low.mean() - 4.64) < 0.2
    assert abs(value.mean() - 5.1) < 0.2


def test_without_noise_values_that_nobody_has_are_not_counted(session: Session) -> None:
    """Numbers of people are whole: at a noise of less than half of one the answer is that of SQL."""
    text = "COUNT(DISTINCT ward) AS n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high FROM t"
    for number in range(8):
        (row,) = rows(session, f"{text} WHERE part = 'half'", f"epsilon = {10_000 + number}")
        assert row == {"n": 3.0, "low": 3.0, "high": 6.0}


def test_the_bar_is_said_before_and_with_the_answer(session: Session) -> None:
    text = "SELECT COUNT(DISTINCT ward) AS n FROM t WHERE part = 'even'"
    said = "values that fewer than about 35 persons have are not told from none"
    shown = {row["property"]: row["value"] for row in session.run(f"EXPLAIN {text}").table.to_pylist()}
    assert said in shown["warnings"]
    assert "of 6 that are declared" in shown["number 1"]
    assert "box noise" in shown["mechanism"]
    assert shown["domain_size"] == "1"
    release = present(session.run(text).release)
    assert said in release.warnings
    assert release.outside is None
    (row,) = release.table.to_pylist()
    assert row == {"n": 6.0, "n_stddev": None, "n_low": 6.0, "n_high": 6.0}


def test_a_person_has_no_bound_on_values(session: Session) -> None:
    """Each number of people moves by one, whatever else a person has: no bound is searched."""
    beside = private(session.prepare("SELECT COUNT(*), COUNT(DISTINCT ward) AS n FROM t")).plan
    assert [search.ladder.of for search in beside.ladders] == [Contribution.ROWS, Contribution.VALUES]
    assert not private(session.prepare("SELECT COUNT(DISTINCT ward) AS n FROM t")).plan.ladders
    found = method(session, "COUNT(DISTINCT ward) AS n FROM t")
    assert isinstance(found, DifferentValues)
    assert isinstance(found.units, WholeDomain)
    assert found.plan.counts[0].unit_change == (0, 1)
    assert found.units.mechanism.bounds == (1,)
    assert found.units.mechanism.size == 6


def test_null_and_other_values_are_not_counted(session: Session) -> None:
    text = "COUNT(DISTINCT open) AS n FROM t WHERE part = 'even'"
    release = present(session.run(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e4) {text}").release)
    assert release.rows.to_pylist() == [{"n": 2.0}]
    outside = present(release.outside)
    assert outside.what == "persons with other values of open"
    assert round(outside.value) == 225  # those of NULL are not among them
    assert rows(session, f"{text} AND open IN ('w1', 'other')") == [{"n": 2.0}]
    assert rows(session, text.replace(" AS n", " FILTER (WHERE open <> 'w1') AS n")) == [{"n": 1.0}]


def test_groups_come_in_their_order_with_their_own_values(session: Session) -> None:
    by = "FROM t WHERE part = 'even' GROUP BY k, small ORDER BY small DESC, k"
    found = rows(session, f"k, small, COUNT(DISTINCT ward) AS n {by}")
    plain = [(k, s, 6.0) for s in ("w2", "w1", "w0") for k in ("x0", "x1")]
    assert [tuple(row.values()) for row in found] == plain
    first = rows(session, f"k, small, COUNT(DISTINCT ward) AS n {by} LIMIT 2")
    assert [(row["k"], row["small"], round(row["n"])) for row in first] == plain[:2]
    few = "k, COUNT(DISTINCT small) AS n FROM t WHERE user_id < 2 GROUP BY k ORDER BY k"
    assert rows(session, few.replace("user_id < 2", "many < 2")) == [
        {"k": "x0", "n": 3.0},
        {"k": "x1", "n": 3.0},
    ]


def test_it_is_not_the_answer_of_the_groups_that_it_is_made_of(session: Session) -> None:
    """The counting query is that of GROUP BY k, ward; a stored answer of one is not that of the other."""
    people = "k, COUNT(DISTINCT user_id) AS n FROM t GROUP BY k, ward"
    values = "k, COUNT(DISTINCT ward) AS n FROM t GROUP BY k"
    keys = [private(session.prepare(f"SELECT {text}")).key for text in (people, values)]
    assert keys[0] != keys[1]
    assert len(rows(session, people)) == 12
    assert rows(session, values) == [{"k": "x0", "n": 6.0}, {"k": "x1", "n": 6.0}]
    both = f"SELECT COUNT(*) AS c FROM (SELECT {people}) AS a, (SELECT {values}) AS b"
    assert session.run(both).table.to_pylist() == [{"c": 24}]


def test_people_of_one_value_have_the_smaller_noise(session: Session) -> None:
    found = method(session, "COUNT(DISTINCT ward) AS n FROM facts")
    assert isinstance(found, DifferentValues)
    assert isinstance(found.units, EveryCount)
    assert found.bar < 25
    assert rows(session, "COUNT(DISTINCT ward) AS n FROM facts") == [{"n": 6.0}]
    assert rows(session, "COUNT(DISTINCT ward) AS n FROM alone") == [{"n": 6.0}]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("COUNT(DISTINCT ward, contribution_bounds_per_group => (0, 6)) AS n FROM t", ""),
        ("COUNT(DISTINCT ward) AS n FROM facts", "mechanism = LAPLACE"),
        ("COUNT(DISTINCT ward) AS n FROM facts", "error = 2"),
        ("COUNT(*) AS c, COUNT(DISTINCT ward) AS n FROM facts", ""),
        ("ward, COUNT(DISTINCT ward) AS n FROM facts GROUP BY ward", ""),
        ("ward, COUNT(DISTINCT ward) AS n FROM facts GROUP BY ward ORDER BY n DESC LIMIT 2", ""),
        ("k, COUNT(DISTINCT many, contribution_bounds_per_group => (0, 3)) AS n FROM t GROUP BY k", ""),
    ],
)
def test_other_statements_keep_their_form(session: Session, text: str, options: str) -> None:
    assert not isinstance(method(session, text, options), DifferentValues)


def test_too_many_numbers_for_one_noise_need_a_bound(session: Session) -> None:
    assert isinstance(method(session, "COUNT(DISTINCT many) AS n FROM t"), DifferentValues)
    for text in (
        "SELECT k, COUNT(DISTINCT many) AS n FROM t GROUP BY k",
        # a public column may name single units
        "SELECT COUNT(DISTINCT w.name) AS n FROM t JOIN wards AS w ON w.name = t.ward",
    ):
        (search,) = private(session.prepare(text)).plan.ladders
        assert search.ladder.of is Contribution.VALUES


def test_of_many_values_the_better_known_number_is_taken(tmp_path: Path) -> None:
    """A policy that bounds the values of a unit: their number is off by less than half of the values."""
    write(tmp_path)
    (tmp_path / "dpsql.toml").write_text(POLICY + "[defaults]\nrows_per_unit = 20\n", "utf-8")
    opened = Session(load(tmp_path / "dpsql.toml"))
    assert isinstance(method(opened, "COUNT(DISTINCT ward) AS n FROM t", "epsilon = 10"), DifferentValues)
    assert isinstance(method(opened, "COUNT(DISTINCT many) AS n FROM t", "epsilon = 0.1"), DifferentValues)
    assert not isinstance(method(opened, "COUNT(DISTINCT many) AS n FROM t", "epsilon = 1"), DifferentValues)
    opened.close()


def test_it_is_not_refined_and_no_checked_count(session: Session) -> None:
    release = present(session.run("SELECT COUNT(DISTINCT ward) AS n FROM t WHERE part = 'half'").release)
    with pytest.raises(QueryRefused, match="no noise of its own"):
        session.run(f"REFINE RELEASE {release.number} TO 2")


def test_it_is_a_value_in_a_statement_around(session: Session) -> None:
    text = "n, 100 * n / 6 AS percent FROM (SELECT COUNT(DISTINCT ward) AS n FROM t WHERE part = 'even')"
    assert rows(session, text) == [{"n": 6.0, "percent": 100.0}]
