"""Columns whose values are not all declared, in reports: groups, other values, sums of zeros and ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.policy import load
from dpsql.reports.session_reports import table_of
from dpsql.session import Session
from tests.support.world import write_world

POLICY = """
[budget]
epsilon = 10000000
ledger = "ledger.sqlite"
high_water = false
[tables.people]
source = "people.parquet"
unit = "id"
unit_kind = "person"
unique = [["id"]]
domain.job = ["cook", "smith"]
domain.flag = [0, 1]
domain.sex = { values = ["f", "m"], complete = true }
domain.age = { from = 16, to = 80 }
[tables.rows]
source = "people.parquet"
unit = "ROW"
domain.job = ["cook", "smith"]
"""
SELECT = "SELECT WITH DIFFERENTIAL_PRIVACY"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """People of whom some have jobs, flags and ages that are not declared, or none."""
    made = tmp_path_factory.mktemp("people")
    write_world(
        made,
        POLICY,
        people="SELECT i AS id, ['cook', 'smith', 'monk', NULL][1 + i % 4] AS job, [0, 1, 1, 7, -2, "
        "NULL][1 + i % 6] AS flag, ['f', 'm'][1 + (i // 4) % 2] AS sex, "
        "10 + i % 90 AS age FROM range(3000) t(i)",
    )
    return made


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Session]:
    """No two tests measure the same report."""
    opened = Session(load(folder / "dpsql.toml"), analyst="ann")
    yield opened
    opened.close()


def exact(folder: Path, text: str) -> list[tuple[Any, ...]]:
    plain = text.replace(SELECT, "SELECT").replace("FROM people", f"FROM '{folder / 'people.parquet'}'")
    with duckdb.connect() as connection:
        return sorted(connection.execute(plain).fetchall(), key=repr)


STATEMENTS = {
    "groups with NULL": (
        f"{SELECT} job, COUNT(*) AS n FROM people WHERE job IN ('cook', 'smith') OR job IS NULL GROUP BY job"
    ),
    "a total": f"{SELECT} COUNT(*) AS n FROM people",
    "a condition": f"{SELECT} COUNT(*) AS n FROM people WHERE job = 'cook'",
    "what is not listed": f"{SELECT} COUNT(*) AS n FROM people WHERE job = 'monk'",
    "all others": f"{SELECT} COUNT(*) AS n FROM people WHERE job <> 'cook'",
    "NULL": f"{SELECT} sex, COUNT(*) AS n FROM people WHERE job IS NULL GROUP BY sex",
    "a range": (
        f"{SELECT} COUNT(*) AS n, COUNT(*) FILTER (WHERE sex = 'f') AS f FROM people"
        " WHERE age BETWEEN 5 AND 20"
    ),
    "a case of ranges": (
        f"{SELECT} CASE WHEN age < 24 THEN 'young' WHEN age <= 60 THEN 'middle' ELSE 'old' END AS a,"
        " COUNT(*) AS n FROM people GROUP BY a"
    ),
    "a case in a subquery": (
        f"{SELECT} a, COUNT(*) AS n FROM (SELECT *, CASE WHEN age < 24 THEN 'young' ELSE 'old' END AS a"
        " FROM people) AS p WHERE sex = 'm' GROUP BY a"
    ),
    "a sum of conditions": (
        f"{SELECT} sex, SUM(CASE WHEN job = 'cook' THEN 1 ELSE 0 END) AS n, COUNT(*) AS all_"
        " FROM people GROUP BY sex"
    ),
    "a share": (
        f"{SELECT} sex, ROUND(100 * AVG(CASE WHEN age >= 50 THEN 1 ELSE 0 END), 1) AS n FROM people"
        " GROUP BY sex"
    ),
}


def test_answers_are_those_of_the_rows(session: Session, folder: Path) -> None:
    planned = session.reports.plan([*STATEMENTS.values()], 900000)
    assert [each.reasons for each in planned.statements] == [()] * len(STATEMENTS)
    answers = session.reports.run(planned)
    for (name, text), answer in zip(STATEMENTS.items(), answers, strict=True):
        found = sorted(map(tuple, (row.values() for row in answer.table.to_pylist())), key=repr)
        wanted = exact(folder, text)
        assert len(found) == len(wanted), name
        for one, other in zip(found, wanted, strict=True):
            keys = [each for each in zip(one, other, strict=True) if not isinstance(each[0], float)]
            numbers = [each for each in zip(one, other, strict=True) if isinstance(each[0], float)]
            assert all(mine == theirs for mine, theirs in keys), name
            assert [mine for mine, _ in numbers] == pytest.approx([float(n) for _, n in numbers], abs=0.1)


def test_a_total_is_its_groups_with_those_in_no_group(session: Session) -> None:
    groups, total, both = session.reports.run(
        session.reports.plan(
            [
                f"{SELECT} job, COUNT(*) AS n FROM people GROUP BY job",
                STATEMENTS["a total"],
                f"{SELECT} job, flag, COUNT(*) AS n FROM people GROUP BY job, flag",
            ],
            1,
        )
    )
    assert groups.release is not None
    outside = groups.release.outside
    assert outside is not None
    assert outside.what == "rows"
    assert {row["job"] for row in groups.table.to_pylist()} == {"cook", "smith", None}
    listed = sum(row["n"] for row in groups.table.to_pylist())
    assert listed + outside.value == pytest.approx(total.table.column("n")[0].as_py(), abs=1e-6)
    assert abs(outside.value - 750) < 60
    assert outside.low is not None
    assert outside.high is not None
    assert outside.low < outside.value < outside.high
    assert both.release is not None
    beyond = both.release.outside
    assert beyond is not None
    rows = sum(row["n"] for row in both.table.to_pylist())
    assert rows + beyond.value == pytest.approx(total.table.column("n")[0].as_py(), abs=1e-6)


def test_sums_and_averages_of_zeros_and_ones_are_counts(session: Session) -> None:
    shown = "COUNT(*) AS n, COUNT(flag) AS k, SUM(flag) AS s, AVG(flag) AS a"
    text = f"{SELECT} sex, {shown} FROM people GROUP BY sex"
    alone = f"{SELECT} SUM(flag) AS s FROM people"
    planned = session.reports.plan([text, alone], 900000)
    assert [each.reasons for each in planned.statements] == [(), ()]
    table, total = (answer.table.to_pylist() for answer in session.reports.run(planned))
    # Values below 0 count as 0, and those above 1 as 1, as in every sum with these bounds.
    for row in table:
        assert [row["n"], row["k"], row["s"], row["a"]] == pytest.approx([1500, 1250, 750, 0.6], abs=0.1)
    assert sum(row["s"] for row in table) == pytest.approx(total[0]["s"], abs=1e-3)


def test_a_sum_of_zeros_and_ones_of_a_subquery_is_a_count(session: Session) -> None:
    inner = "SELECT *, CASE WHEN job = 'cook' THEN 1 ELSE 0 END AS is_cook FROM people"
    shown = "SUM(is_cook) AS s, COUNT(*) AS n, ROUND(100.0 * SUM(is_cook) / COUNT(*), 2) AS p"
    text = f"{SELECT} sex, {shown} FROM ({inner}) GROUP BY sex"
    planned = session.reports.plan([text], 900000)
    assert planned.statements[0].reasons == ()
    answer, again = (session.reports.run(each)[0] for each in (planned, session.reports.plan([text], 1)))
    for row in answer.table.to_pylist():
        assert [row["s"], row["n"], row["p"]] == pytest.approx([375, 1500, 25], abs=0.1)
    assert again.release is not None
    for row in again.release.table.to_pylist():
        assert row["p_low"] <= row["p"] <= row["p_high"]


@pytest.mark.parametrize(("runs", "least"), [(4, 3), pytest.param(60, 50, marks=pytest.mark.longer)])
def test_what_is_computed_over_groups_has_intervals_that_cover(
    session: Session, runs: int, least: int
) -> None:
    """Its errors are those of one estimate, which groups have in common."""
    text = (
        f"SELECT SUM(n) AS s, MAX(n) - MIN(n) AS d FROM ({SELECT} sex, job, COUNT(*) AS n FROM people"
        " GROUP BY sex, job)"
    )
    total, inside = f"{SELECT} COUNT(*) AS n FROM people WHERE job = 'cook'", 0
    for run in range(runs):
        answer, _ = session.reports.run(session.reports.plan([text, total], f"0.{100 + run}"))
        assert answer.release is not None
        (row,) = answer.release.table.to_pylist()
        assert row["s_low"] < row["s"] < row["s_high"]
        inside += row["s_low"] <= 2250 <= row["s_high"]
    assert inside >= least  # of 60, 57 are expected, with a deviation of 1.7


def test_where_noise_chooses_rows_intervals_hold_for_all_at_once(session: Session) -> None:
    plain = f"{SELECT} job, COUNT(*) AS n FROM people GROUP BY job"
    one, some, every = session.reports.run(
        session.reports.plan(
            [
                plain,
                f"{plain} HAVING COUNT(*) > 700 ORDER BY n DESC",
                plain.replace(SELECT, f"{SELECT} OPTIONS (intervals = SIMULTANEOUS)"),
            ],
            1,
        )
    )
    widths = []
    for each in (one, some, every):
        assert each.release is not None
        row = next(row for row in each.release.table.to_pylist() if row["job"] == "cook")
        widths.append(row["n_high"] - row["n_low"])
    assert widths[1] == pytest.approx(widths[2])
    assert widths[1] > 1.2 * widths[0]


def test_numbers_of_any_type_are_one_table(session: Session) -> None:
    text = f"{SELECT} sex, ROUND(AVG(flag)::NUMERIC, 3) * 100 AS p FROM people GROUP BY sex"
    session.run(f"CREATE REPORT one OPTIONS (epsilon = 1) AS $$ {text} $$")
    assert session.run("EXECUTE REPORT one STATEMENT 1").table.num_rows == 2
    report = session.reports.plan([text, f"{SELECT} COUNT(*) AS n FROM people"], 1)
    rows = table_of(session.reports.run(report)).to_pylist()
    assert [(row["statement"], row["keys"], row["number"]) for row in rows] == [
        (1, "f", "p"),
        (1, "m", "p"),
        (2, "", "n"),
    ]
    assert rows[0]["value"] == pytest.approx(60, abs=2)


def test_what_conditions_leave_is_measured_with_them(session: Session) -> None:
    text = f"{SELECT} COUNT(*) AS n, COUNT(*) FILTER (WHERE job = 'cook') AS c FROM people"
    planned = session.reports.plan([text], 1)
    (plan,) = planned.plans
    assert len(plan.measured) == 1  # cooks, and all others
    (answer,) = session.reports.run(planned)
    assert answer.release is not None
    (row,) = answer.release.table.to_pylist()
    assert row["c_stddev"] == pytest.approx(2**0.5)
    assert row["n_stddev"] == pytest.approx(2)


@pytest.mark.parametrize(("runs", "least"), [(3, 5), pytest.param(40, 68, marks=pytest.mark.longer)])
def test_an_average_has_an_interval(session: Session, runs: int, least: int) -> None:
    text = f"{SELECT} sex, AVG(flag) AS a, COUNT(*) AS n FROM people GROUP BY sex"
    inside = 0
    for run in range(runs):
        (answer,) = session.reports.run(session.reports.plan([text], f"0.{100 + run}"))
        assert answer.release is not None
        for row in answer.release.table.to_pylist():
            assert 0 <= row["a_low"] <= row["a"] <= row["a_high"] <= 1
            assert row["a_high"] - row["a_low"] < 0.2
            inside += row["a_low"] <= 0.6 <= row["a_high"]
    assert inside >= least  # of 40 runs, 76 are expected, with a deviation of 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            f"{SELECT} COUNT(*) AS n FROM people WHERE job LIKE 'c%'",
            "names job, whose values are not all declared",
        ),
        (f"{SELECT} upper(job) AS j, COUNT(*) AS n FROM people GROUP BY j", "names job"),
        (f"{SELECT} AVG(age) AS a FROM people", "no plain count"),
        (f"{SELECT} COUNT(*) AS n FROM people WHERE job = 'cook' OR sex = 'f'", "together"),
    ],
)
def test_what_is_not_read_stays_out(session: Session, text: str, why: str) -> None:
    (statement,) = session.reports.plan([text], 1).statements
    (reason,) = statement.reasons
    assert why in reason


def test_rows_that_are_units_have_other_values(session: Session, folder: Path) -> None:
    text = f"{SELECT} job, COUNT(*) AS n FROM rows GROUP BY job"
    planned = session.reports.plan([text, f"{SELECT} COUNT(*) AS n FROM rows"], 900000)
    assert [each.reasons for each in planned.statements] == [(), ()]
    groups, total = session.reports.run(planned)
    assert [row["n"] for row in groups.table.to_pylist()] == pytest.approx([750] * 3, abs=0.1)
    assert total.table.column("n")[0].as_py() == pytest.approx(3000, abs=0.1)


def test_a_cube_of_such_columns_is_planned_together(session: Session) -> None:
    cube = f"{SELECT} job, sex, COUNT(*) AS n FROM people GROUP BY CUBE (job, sex)"
    planned = session.reports.plan([cube, STATEMENTS["a total"]], 1)
    assert planned.statements[0].reasons == ()
    table, total = (answer.table.to_pylist() for answer in session.reports.run(planned))
    whole = [row["n"] for row in table if row["job"] is None and row["sex"] is None]
    assert min(abs(each - total[0]["n"]) for each in whole) < 1e-6
