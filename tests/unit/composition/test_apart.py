"""A block with quantiles is divided: one release a column, one for all else, joined by the keys."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.composition.prepared import PreparedComposed, PreparedPrivate
from dpsql.language import AllGroups, Scalar, TopK
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import of_type
from tests.sql_fixtures import raw_data, write

BOUNDS = "contribution_bounds_per_row => (0, 100)"
ROWS = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 12, max_rows_contributed = 5)"


@pytest.fixture(scope="module")
def raw() -> Iterator[duckdb.DuckDBPyConnection]:
    with raw_data() as connection:
        yield connection


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, raw: duckdb.DuckDBPyConnection) -> Iterator[Session]:
    path: Path = write(tmp_path_factory.mktemp("apart") / "data", raw)
    found = Session(load(path))
    yield found
    found.close()


def parts(session: Session, statement: str) -> list[PreparedPrivate]:
    prepared = session.prepare(statement)
    if isinstance(prepared, PreparedComposed):
        return list(prepared.parts)
    return [of_type(prepared, PreparedPrivate)]


@pytest.mark.parametrize(
    ("items", "numbers"),
    [
        (f"MEDIAN(ms, {BOUNDS}), QUANTILE_CONT(ms, 0.9, {BOUNDS}), QUANTILE_DISC(ms, 0.1, {BOUNDS})", [3]),
        (f"MEDIAN(ms, {BOUNDS}), COUNT(*)", [1, 1]),
        (f"COUNT(*), MEDIAN(ms, {BOUNDS}), SUM(ms, {BOUNDS}), MEDIAN(ms, {BOUNDS}) + 1", [2, 1]),
        (f"MEDIAN(ms, {BOUNDS}), MEDIAN(ms, contribution_bounds_per_row => (0, 50))", [1, 1]),
        (f"MEDIAN(ms, {BOUNDS}), MEDIAN(ms, {BOUNDS}) FILTER (WHERE page = 'a')", [1, 1]),
        (f"MIN(ms, {BOUNDS}), MAX(ms, {BOUNDS}), MEDIAN(ms, {BOUNDS})", [1, 1, 1]),
        (f"ROUND(MEDIAN(ms, {BOUNDS})) / MEDIAN(ms, {BOUNDS})", [1]),
        (
            f"COUNT(DISTINCT user_id), MAX(day), PERCENTILE_CONT(0.5, {BOUNDS}) WITHIN GROUP (ORDER BY ms)",
            [1] * 3,
        ),
    ],
)
@pytest.mark.parametrize("group", ["", " GROUP BY country"])
@pytest.mark.sampled(3)
def test_each_column_of_quantiles_is_one_release(
    items: str, numbers: list[int], group: str, session: Session
) -> None:
    options = (
        ROWS if "MIN" not in items or "MEDIAN" in items else ROWS.replace(", max_rows_contributed = 5", "")
    )
    found = parts(session, f"SELECT {options} {items} FROM visits v{group}")
    shown = [sum(o.kind in ("count", "quantile") for o in part.plan.outputs) for part in found]
    assert shown == numbers
    assert [part.plan.epsilon for part in found] == [Fraction(12, len(numbers))] * len(numbers)
    assert all(isinstance(part.plan.selection, AllGroups if group else Scalar) for part in found)


def test_the_selection_belongs_to_the_counts(session: Session) -> None:
    counts, quantiles = parts(
        session,
        f"SELECT {ROWS} country, MEDIAN(ms, {BOUNDS}) AS m FROM visits GROUP BY country "
        "ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 2",
    )
    assert isinstance(counts.plan.selection, TopK)
    assert [o.kind for o in counts.plan.outputs if o.name != "rank"] == ["key"]
    assert isinstance(quantiles.plan.selection, AllGroups)
    assert quantiles.plan.options.max_rows_contributed == 5
    assert counts.plan.options.max_rows_contributed is None


def test_a_condition_on_counts_selects_beside_quantiles(session: Session) -> None:
    found = parts(
        session,
        f"SELECT {ROWS} country, COUNT(DISTINCT user_id) AS n, MEDIAN(ms, {BOUNDS}) AS m FROM visits "
        "GROUP BY country HAVING n >= 3 AND m > 10 ORDER BY m DESC",
    )
    assert [isinstance(part.plan.selection, AllGroups) for part in found] == [True, True]


def test_an_order_by_a_quantile_costs_one_release(session: Session) -> None:
    (found,) = parts(
        session,
        f"SELECT {ROWS} country, MEDIAN(ms, {BOUNDS}) AS m FROM visits GROUP BY 1 ORDER BY m DESC LIMIT 1",
    )
    assert found.plan.selection == AllGroups((), None)


def test_an_inner_block_divides_its_own_epsilon(session: Session) -> None:
    found = parts(
        session,
        "SELECT AVG(m) FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 3, delta = 1e-6, "
        f"max_rows_contributed = 5) country, COUNT(*) AS n, MEDIAN(ms, {BOUNDS}) AS m, MAX(day) AS d "
        "FROM visits GROUP BY country) AS c",
    )
    assert [part.plan.epsilon for part in found] == [1, 1, 1]
    assert [part.plan.options.delta for part in found] == [Fraction(1, 3 * 10**6)] * 3


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT country, page, COUNT(*), MEDIAN(ms, {BOUNDS}), MAX(day) FROM visits GROUP BY country, page",
        f"SELECT COUNT(*), MEDIAN(ms, {BOUNDS}), MAX(day) FROM visits GROUP BY country, page",
        f"SELECT country AS k, page || '!', COUNT(*) + 1, MEDIAN(ms, {BOUNDS}) * 2 FROM visits GROUP BY ALL",
        f"SELECT upper(page) AS p, COUNT(*), MEDIAN(ms, {BOUNDS}) FROM visits GROUP BY p ORDER BY p",
        f"SELECT page, MAX(day), RANK() OVER (ORDER BY MEDIAN(ms, {BOUNDS})) FROM visits GROUP BY page",
        f"SELECT DISTINCT country, MAX(day), MEDIAN(ms, {BOUNDS}) FROM visits GROUP BY country, page",
        f"SELECT page, MAX(day) AS d, MIN(ms, {BOUNDS}) AS m FROM visits GROUP BY page LIMIT 2 OFFSET 1",
        f"WITH c AS (SELECT page, COUNT(*) AS n, MEDIAN(ms, {BOUNDS}) AS m FROM visits GROUP BY page) "
        "SELECT p.category, MAX(c.m), SUM(c.n) FROM c JOIN pages p ON p.page = c.page GROUP BY p.category",
        f"WITH c AS (SELECT page, COUNT(*) AS n, MEDIAN(ms, {BOUNDS}) AS m FROM visits GROUP BY page) "
        "SELECT a.page, a.m, b.n FROM c a JOIN c b ON a.page = b.page",
        "SELECT page, MAX(day) AS d, COUNT(*) AS n FROM visits GROUP BY page "
        "QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC) <= 2",
        f"SELECT page, MEDIAN(ms, {BOUNDS}) AS m, COUNT(*) AS n FROM visits GROUP BY page TOP 2 BY n",
    ],
)
@pytest.mark.sampled(3)
def test_statements_with_releases_apart_run(statement: str, session: Session) -> None:
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, max_rows_contributed = 5, fresh = TRUE)"
    head, _, tail = statement.rpartition("SELECT")
    release = session.run(f"{head}SELECT {options}{tail}").release
    assert release is not None
    assert release.rows.num_rows
    assert len(release.parts) >= 2
    assert release.charge.epsilon == 1


def test_the_groups_of_a_join_are_in_the_order_of_the_selection(session: Session) -> None:
    release = session.run(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 100) page, MAX(day) AS d, "
        "COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 3"
    ).release
    assert release is not None
    counts = [row["n"] for row in release.rows.to_pylist()]
    assert counts == sorted(counts, reverse=True)
    every = session.run(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10) page, MAX(day) AS d, "
        "COUNT(DISTINCT user_id) FROM visits GROUP BY page"
    ).release
    assert every is not None
    pages = [row["page"] for row in every.rows.to_pylist()]
    assert pages == sorted(pages, key=lambda page: (page is None, page))
