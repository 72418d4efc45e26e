"""Bounds on what a unit contributes: where they come from, what they promise, and how they are shown."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dpsql.errors import PolicyError, QueryRefused
from dpsql.kernel.tree import Column, Select, WeightedRows, duckdb_sql, items
from dpsql.policy import Assumed, load
from dpsql.session import Session
from tests.narrow import engine_of, present, private
from tests.support.exact import exact_of
from tests.unit.planning.test_predictions import explained

POLICY = """
[budget]
epsilon = 1000
delta = 1e-3
default_epsilon = 1
ledger = "ledger.sqlite"
{defaults}
[tables.visits]
source = "visits.parquet"
unit = "user_id"
{visits}
[tables.visits.domain]
page = {{ from = 0, to = 99 }}
[tables.users]
source = "users.parquet"
unit = "user_id"
unique = [["user_id"]]
{users}
[tables.users.domain]
age = {{ from = 0, to = 99 }}
"""
WITH = "WITH DIFFERENTIAL_PRIVACY OPTIONS"
BY_PAGE = "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page"
ROWS = "rows of a user_id count, rows beyond are weighted down"
GROUPS = "groups of a user_id"
Opened = Callable[..., Session]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    made: list[Session] = []

    def opened(defaults: str = "", visits: str = "", users: str = "") -> Session:
        data = {
            "visits": "SELECT i % 50 AS user_id, i % 7 AS page, i AS ms FROM range(2000) t(i)",
            "users": "SELECT i AS user_id, 20 + i % 40 AS age FROM range(50) t(i)",
        }
        for name, query in data.items():
            duckdb.sql(f"COPY ({query}) TO '{tmp_path / name}.parquet'")
        text = POLICY.format(
            defaults=f"[defaults]\n{defaults}" if defaults else "", visits=visits, users=users
        )
        (tmp_path / "dpsql.toml").write_text(text)
        made.append(Session(load(tmp_path / "dpsql.toml")))
        return made[-1]

    yield opened
    for session in made:
        session.close()


@pytest.mark.parametrize(
    ("defaults", "visits", "users", "from_", "bound"),
    [
        ("rows_per_unit = 20", "", "", "visits", 20),
        ("rows_per_unit = 20", "rows_per_unit = 30", "", "visits", 30),
        (
            "rows_per_unit = 20",
            "rows_per_unit = 30",
            "rows_per_unit = 7",
            "visits JOIN users USING (user_id)",
            30,
        ),
        ("", "", "rows_per_unit = 7", "visits v JOIN users u ON v.user_id = u.user_id", 7),
        ("rows_per_unit = 20", "", "rows_per_unit = 7", "(SELECT user_id FROM visits) AS v", 20),
    ],
)
@pytest.mark.sampled(2, rest="longer")
def test_the_bound_on_rows_is_that_of_the_tables_of_from(
    opened: Opened, defaults: str, visits: str, users: str, from_: str, bound: int
) -> None:
    session = opened(defaults, visits, users)
    plan = private(session.prepare(f"SELECT COUNT(*) FROM {from_}")).plan
    assert plan.counts[0].bound == plan.l1_over_groups(0) == bound
    assert plan.assumed == (Assumed(ROWS, f"at most {bound}", "policy"),)


def test_auto_of_a_table_is_no_bound_whatever_the_others_say(opened: Opened) -> None:
    session = opened("rows_per_unit = 20", 'rows_per_unit = "AUTO"', "rows_per_unit = 7")
    for text in ("visits", "visits JOIN users USING (user_id)"):
        plan = private(session.prepare(f"SELECT COUNT(*) FROM {text}")).plan
        assert len(plan.ladders) == 1
        assert plan.assumed == ()


def test_what_the_statement_bounds_is_not_assumed(opened: Opened) -> None:
    session = opened("rows_per_unit = 20\ngroups = 2")
    for count, options in (
        ("COUNT(*, contribution_bounds_per_group => (0, 5))", "mechanism = BOX"),
        ("COUNT(*)", "max_rows_contributed = 5"),
        ("COUNT(DISTINCT user_id)", "max_groups_contributed = 5"),
    ):
        rest = f"page, {count} AS n FROM visits GROUP BY page"
        plan = private(session.prepare(f"SELECT {WITH} ({options}) {rest}")).plan
        assert not plan.assumed
        step = plan.counts[0].step
        assert plan.counts[0].bound * step == (1 if "DISTINCT" in count else 5)
        total = 510 if "per_group" in count else 5  # with NULL and outside
        assert (plan.l1_over_groups(0) or 0) * step == total


def test_a_unit_with_one_row_needs_no_bound(opened: Opened) -> None:
    session = opened("rows_per_unit = 20\ngroups = 2")
    made = private(session.prepare("SELECT age, COUNT(*) AS n FROM users GROUP BY age"))
    assert not made.plan.assumed
    assert made.plan.groups_per_unit == made.plan.l1_over_groups(0) == 1
    assert made.plan.groups_kept is None
    assert made.method.quote.predicted_stddev == pytest.approx(2**0.5, rel=0.01)


@pytest.mark.parametrize(("groups", "kept"), [(2, 2), (99, None), (100, None), (1000, None)])
@pytest.mark.sampled(2, rest="longer")
def test_groups_are_bounded_by_the_policy_where_that_gives_less_noise(
    opened: Opened, groups: int, kept: int | None
) -> None:
    plan = private(opened(f"groups = {groups}").prepare(BY_PAGE)).plan
    assert plan.groups_kept == kept
    assert plan.assumed == (() if kept is None else (Assumed(GROUPS, f"at most {kept}", "policy"),))


def test_the_least_bound_on_groups_holds(opened: Opened) -> None:
    """A written one before the policy's; none where the candidates are as few."""
    session = opened("groups = 3")
    cut = BY_PAGE.replace("SELECT", f"SELECT {WITH} (max_groups_contributed = 2)", 1)
    assert private(session.prepare(cut)).plan.groups_kept == 2
    few = "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE page IN (1, 2, 3) GROUP BY page"
    plan = private(session.prepare(few)).plan
    assert plan.groups_kept is None
    assert plan.l1_over_groups(0) == 3


def test_what_is_assumed_stands_in_explain_and_in_the_stored_release(opened: Opened) -> None:
    session = opened("rows_per_unit = 20\ngroups = 2")
    text = "SELECT page, COUNT(*) AS n, COUNT(DISTINCT user_id) AS u FROM visits GROUP BY page"
    words = [f"at most 20 {ROWS} (policy)", "at most 2 groups of a user_id (policy)"]
    assert explained(session, text)["assumed"] == words
    first = present(session.run(text).release)
    assert list(map(str, first.assumed)) == words
    assert present(session.run(text).release).assumed == first.assumed
    assert session.release(present(first.number)).assumed == first.assumed
    table = session.run(f"EXPLAIN {text}").table.to_pydict()
    assert dict(zip(table["property"], table["value"], strict=True))["assumed"] == "; ".join(words)


def test_without_a_bound_the_refusal_says_so_first(opened: Opened) -> None:
    with pytest.raises(QueryRefused, match="a user_id can have many rows here: say how") as caught:
        opened("auto_bounds = false").prepare("SELECT COUNT(*) FROM visits")
    assert str(caught.value.hint).startswith("COUNT(*, contribution_bounds_per_group => (0, 20))")
    assert caught.value.rewrite == (
        "SELECT COUNT(*, contribution_bounds_per_group => (0, 20)) FROM visits -- 20 is a guess"
    )


@pytest.mark.parametrize("where", ["defaults", "visits"])
@pytest.mark.parametrize("value", ["0", "1000001", "1.5", "true"])
@pytest.mark.parametrize("key", ["rows_per_unit", "groups"])
def test_a_default_is_a_whole_number(opened: Opened, where: str, key: str, value: str) -> None:
    with pytest.raises(PolicyError, match=key):
        opened(**{where: f"{key} = {value}"})


def weights(most: int, rows: tuple[int, ...], offset: int) -> list[int]:
    """What counts of a unit's rows in its groups, by the compiled expression, for an offset."""
    unit, counted, up_to, every = (Column("w", name) for name in "urba")
    made = WeightedRows((), most).weigh(unit, (counted,), up_to, every)
    sql = duckdb_sql(Select(items("n", (made,)))).replace("hash(w.u, 0)", str(offset))
    running, whole = np.cumsum(rows).tolist(), max(sum(rows), 1)
    values = ", ".join(
        f"({i}, {r}, {b}, {whole}::HUGEINT)" for i, (r, b) in enumerate(zip(rows, running, strict=True))
    )
    query = f"{sql} FROM (VALUES {values}) AS w(i, r, b, a) ORDER BY i"
    return [n for (n,) in duckdb.execute(query).fetchall()]


@pytest.mark.parametrize("rows_of_a_group", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_weights_of_a_unit_are_bounded_together_and_right_on_average(rows_of_a_group: int) -> None:
    """All units of up to three groups and a few rows, with every offset."""
    units = itertools.product(range(rows_of_a_group + 1), repeat=3)
    for most, rows in itertools.product((1, 2, 3), units):
        whole = sum(rows)
        found = [weights(most, rows, offset) for offset in range(max(whole, 1))]
        for each in found:
            assert sum(each) == min(whole, most)
            assert all(0 <= w <= r for w, r in zip(each, rows, strict=True))
            assert each == list(rows) or whole > most
        for place, r in enumerate(rows):
            average = Fraction(sum(each[place] for each in found), len(found))
            assert average == (Fraction(r * min(most, whole), whole) if whole else 0)


def test_a_negative_hash_is_an_offset_too() -> None:
    assert weights(2, (3, 0, 1, 5), -7) == weights(2, (3, 0, 1, 5), 2)


def test_weights_fit_for_as_many_rows_as_an_engine_counts() -> None:
    rows = (2**61, 2**61, 2**61)
    assert sum(weights(1_000_000, rows, 2**63)) == 1_000_000


def test_no_unit_counts_more_than_the_bound_in_all_groups(opened: Opened) -> None:
    """50 units of 40 rows each, in 7 groups: weights add up to the bound, whichever groups there are.

    Beside a number of units they are whole; else each row lacks less than a part of a row.
    """
    session = opened("rows_per_unit = 6")
    for where in ("", "WHERE page IN (1, 2)"):
        for more in ("", ", COUNT(DISTINCT user_id) AS m"):
            text = f"SELECT page, COUNT(*) AS n{more} FROM visits {where} GROUP BY page"
            plan = private(session.prepare(text)).plan
            found, step = exact_of(engine_of(session).count(plan.compiled)).n[0].sum(), plan.counts[0].step
            assert (step == 1) == bool(more)
            assert 50 * 6 - (0 if more else 50 * 40 * step) <= int(found) * step <= 50 * 6


def test_names_of_columns_and_aliases_mean_what_they_do_in_duckdb(opened: Opened) -> None:
    """In the select list a column comes before an alias, in ORDER BY an alias before a column."""
    session = opened("rows_per_unit = 50")
    text = "SELECT page AS n, COUNT(*) AS page FROM visits WHERE page IN (1, 2) GROUP BY 1"
    found = session.run(text).table
    assert found.column("n").to_pylist() == [1, 2]
    text = "SELECT -page AS page, COUNT(*) AS n FROM visits WHERE page IN (1, 2) GROUP BY 1 ORDER BY page"
    assert session.run(text).table.column("page").to_pylist() == [-2, -1]
