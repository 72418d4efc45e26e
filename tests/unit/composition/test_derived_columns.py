"""Columns that are computed from released numbers have intervals, and say why where they have none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dpsql.errors import QueryRefused
from dpsql.estimates.noise_quantiles import laplace_half_width
from dpsql.places import NumberPlace
from dpsql.policy import load
from dpsql.release import Release, places_of
from dpsql.session import Session
from tests.narrow import present
from tests.support.world import open_world

POLICY = """
[budget]
epsilon = 1e6
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.t]
source = "t.parquet"
unit = "u"
unique = [["u"]]
[tables.t.domain]
g = { from = 1, to = 12, complete = true }
h = { values = ["a", "b"], complete = true }
[tables.t.bounds]
x = { from = 0, to = 100 }
[tables.visits]
source = "visits.parquet"
unit = "u"
[tables.names]
source = "names.parquet"
public = true
"""
BLOCK = "(SELECT g, COUNT(*) AS n FROM t GROUP BY g) AS r"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """12 groups of 500 units each, of which a third is `b`."""
    folder = tmp_path_factory.mktemp("derived")
    half = "CASE WHEN u // 12 % 3 = 0 THEN 'b' ELSE 'a' END"
    rows = f"SELECT u, 1 + u % 12 AS g, {half} AS h, CAST(u % 100 AS DOUBLE) AS x"
    duckdb.sql(f"COPY ({rows} FROM range(6000) r(u)) TO '{folder}/t.parquet'")
    visits = "SELECT u, i FROM range(2000) r(u), range(8) s(i) WHERE i <= u % 8"
    with open_world(
        folder, POLICY, visits=visits, names="SELECT i AS g, i / 2 AS size FROM range(1, 13) r(i)"
    ) as made:
        yield made


def answer(session: Session, statement: str) -> Release:
    return present(session.run(statement).release)


def number(release: Release, name: str) -> NumberPlace:
    place = release.rows.column_names.index(name)
    return next(each for each in places_of(release).numbers if each.place == place)


def column(release: Release, place: int | None) -> np.ndarray:
    return np.array(release.table.column(present(place)).to_pylist(), dtype=float)


def halves(release: Release, name: str) -> np.ndarray:
    found = number(release, name)
    return (column(release, found.high) - column(release, found.low)) / 2


def test_sums_have_the_exact_law_of_their_noises(session: Session) -> None:
    found = answer(
        session,
        "SELECT g, COUNT(*) AS n, n - LAG(n) OVER (ORDER BY g) AS d, SUM(n) OVER (ORDER BY g) AS run, "
        "n / 7 AS week FROM t GROUP BY g ORDER BY g",
    )
    (scale,) = {round(float(each) / math.sqrt(2), 2) for each in column(found, number(found, "n").stddev)}
    assert scale == 1
    # LAG reads the groups that are there by their noisy numbers, which chooses none that surely are.
    level = 0.95
    assert halves(found, "d")[1:] == pytest.approx(laplace_half_width((1.0, 1.0), level), rel=1e-3)
    assert math.isnan(halves(found, "d")[0]), "there is no previous row"
    for row, half in enumerate(halves(found, "run")[1:], start=2):
        assert half == pytest.approx(laplace_half_width((1.0,) * row, level), rel=1e-3)
    assert halves(found, "week") == pytest.approx(halves(found, "n") / 7)
    assert column(found, number(found, "run").stddev)[11] == pytest.approx(math.sqrt(24), rel=0.01)


def test_box_noise_is_not_taken_as_independent(session: Session) -> None:
    found = answer(
        session,
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = BOX) g, COUNT(*) AS n, "
        "n - LAG(n) OVER (ORDER BY g) AS d, SUM(n) OVER (ORDER BY g) AS run FROM t GROUP BY g ORDER BY g",
    )
    each = column(found, number(found, "n").stddev)[0]
    assert column(found, number(found, "d").stddev)[1] < 1.3 * each, "what both share cancels"
    assert column(found, number(found, "run").stddev)[11] > 1.5 * math.sqrt(12) * each


LINEAR = {
    "joins of releases": "SELECT a.n - b.n AS c "
    "FROM (SELECT g, COUNT(*) AS n FROM t WHERE h = 'a' GROUP BY g) AS a "
    "JOIN (SELECT g, COUNT(*) AS n FROM t WHERE h = 'b' GROUP BY g) AS b USING (g)",
    "a group of groups": f"SELECT g > 6 AS late, SUM(n) AS c FROM {BLOCK} GROUP BY g > 6",
    "a union": f"SELECT n AS c FROM {BLOCK} UNION ALL SELECT COUNT(*) FROM t",
    "a union of quotients": "SELECT g, SUM(x) / COUNT(*) AS c FROM t GROUP BY ROLLUP (g)",
    "a union with a sum": f"SELECT SUM(n) / 7 AS c FROM {BLOCK} UNION ALL SELECT SUM(x) / COUNT(*) FROM t",
    "a constant of a public table": f"SELECT n * size AS c FROM {BLOCK} JOIN names USING (g)",
    "a case of a key": f"SELECT SUM(CASE WHEN g = 1 THEN n ELSE 0 END) AS c FROM {BLOCK}",
    "a common table expression": f"WITH s AS (SELECT n + 1 AS m, g FROM {BLOCK}) SELECT m - 3 AS c FROM s",
    "a table named as its column": f"WITH n AS (SELECT g, n FROM {BLOCK}) SELECT n * 2 AS c, g FROM n",
    "a star": f"SELECT * FROM (SELECT g, n + n AS c FROM {BLOCK}) AS s",
    "a subquery": f"SELECT n - (SELECT AVG(n) FROM {BLOCK}) AS c FROM {BLOCK}",
    "an average by rows": "SELECT AVG(x) / 365.25 AS c FROM t",
}


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.sampled(3, rest="longer")
def test_sums_have_intervals(session: Session, name: str) -> None:
    found = answer(session, LINEAR[name])
    assert (halves(found, "c") > 0).all()
    value = column(found, number(found, "c").place)
    assert (column(found, number(found, "c").low) <= value).all()
    assert (value <= column(found, number(found, "c").high)).all()


def test_a_ratio_has_no_interval_where_its_divisor_may_be_0(session: Session) -> None:
    inner = "(SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE u < 1) AS m FROM t) AS r"
    found = answer(session, f"SELECT m, n / m AS share FROM {inner}")
    divisor, half = column(found, number(found, "m").place)[0], halves(found, "m")[0]
    value, share = found.rows.column("share")[0].as_py(), halves(found, "share")[0]
    if divisor < 0.9 * half:  # so it is in 19 of 20 answers
        assert math.isnan(share)
        told = any("no interval of share: what it is divided by" in text for text in found.warnings)
        assert told == (value is not None)
    elif divisor > 1.1 * half:
        assert share > 0


@pytest.mark.parametrize(
    "rest", ["HAVING COUNT(DISTINCT u) BETWEEN 1 AND 1000000", "ORDER BY COUNT(DISTINCT u) DESC LIMIT 3"]
)
@pytest.mark.sampled(3, rest="longer")
def test_undeclared_groups_that_noise_selects_are_answered(
    session: Session, tmp_path: Path, rest: str
) -> None:
    """Nobody knows among how many groups they were selected, so what is computed of them has no interval."""
    folder = present(session.policy.path).parent
    policy = POLICY.replace("epsilon = 1e6", "epsilon = 1e6\ndelta = 1e-3\ndefault_delta = 1e-6", 1)
    for name in ("t", "visits", "names"):
        policy = policy.replace(f'"{name}.parquet"', f'"{folder}/{name}.parquet"')
    (tmp_path / "dpsql.toml").write_text(policy)
    count = "COUNT(DISTINCT u)"
    once = "WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 8)"
    share = f"100.0 * {count} / SUM({count}) OVER () AS share"
    asked = f"SELECT {once} i, {count} AS n, {share} FROM visits GROUP BY i"
    with closing(Session(load(tmp_path / "dpsql.toml"))) as own:
        found = answer(own, f"{asked} {rest}")
    assert found.rows.num_rows > 0
    assert all(share > 0 for share in found.rows.column("share").to_pylist())


def test_a_share_is_within_what_it_can_be(session: Session) -> None:
    found = answer(session, "SELECT g, COUNT(*) AS n, 100 * n / SUM(n) OVER () AS share FROM t GROUP BY g")
    low, high = (column(found, getattr(number(found, "share"), end)) for end in ("low", "high"))
    assert (low > 7).all()
    assert (high < 10).all()
    assert (low < 100 / 12).sum() >= 10


NONE = {
    "rank": ("RANK() OVER (ORDER BY n)", "rank"),
    "comparison": ("n > 3", "a comparison"),
    "text": ("CAST(n AS VARCHAR)", "text"),
    "modulo": ("n % 3", "%"),
    "by noise": ("CASE WHEN n > 500 THEN n ELSE 0 END", "a comparison"),
    "key": ("g + 1", "it has no noise"),
}


@pytest.mark.parametrize("name", NONE)
@pytest.mark.sampled(3, rest="longer")
def test_a_step_without_an_error_is_named(session: Session, name: str) -> None:
    text, step = NONE[name]
    found = answer(session, f"SELECT n, {text} AS c FROM {BLOCK}")
    assert found.counts == ("n",)
    with pytest.raises(QueryRefused, match="c has no error bar") as caught:
        session.run(f"SELECT n, {text} AS c, DP_STDDEV(c) AS s FROM {BLOCK}")
    assert step in str(caught.value)
    assert "DP_STDDEV" in str(caught.value)


def test_what_is_summed_over_rows_that_noise_chose_has_no_interval(session: Session) -> None:
    found = answer(session, f"SELECT SUM(n) AS c FROM {BLOCK} WHERE n > 500")
    assert found.counts == ()


def test_groups_of_noisy_numbers_are_not_divided(session: Session) -> None:
    """A hidden column would make groups of its own in GROUP BY ALL."""
    both = f"(SELECT n FROM {BLOCK} UNION ALL SELECT n FROM {BLOCK}) AS s"
    found = answer(session, f"SELECT n AS c, COUNT(*) AS times FROM {both} GROUP BY ALL")
    assert set(found.rows.column("times").to_pylist()) <= {2, 4, 6}
    assert found.counts == ()


def test_the_ends_of_an_interval_are_rounded_as_the_number_is(session: Session) -> None:
    found = answer(
        session,
        "SELECT g, ROUND(n, -3) AS coarse, ROUND(n / 10, 1) AS fine, FLOOR(n / 7) AS below, "
        f"CEIL(n / 7) AS above, n, CAST(n AS BIGINT) AS whole FROM {BLOCK}",
    )
    low, high = column(found, number(found, "n").low), column(found, number(found, "n").high)
    for name, rounded in (
        ("coarse", lambda x: np.round(x, -3)),
        ("fine", lambda x: np.round(x / 10, 1)),
        ("below", lambda x: np.floor(x / 7)),
        ("above", lambda x: np.ceil(x / 7)),
        ("whole", np.round),
    ):
        assert column(found, number(found, name).low) == pytest.approx(rounded(low), abs=1e-9)
        assert column(found, number(found, name).high) == pytest.approx(rounded(high), abs=1e-9)


def test_functions_of_coarsely_rounded_numbers_have_intervals(session: Session) -> None:
    found = answer(
        session,
        "SELECT ROUND(n, -4) + 1 AS more, 3 * FLOOR(n / 400) AS times, ROUND(n, -2) / ROUND(m, -2) AS share, "
        "ABS(CAST(n / 1e4 AS BIGINT) - 2) AS apart "
        "FROM (SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE h = 'b') AS m FROM t) AS r",
    )
    ends = [
        [column(found, end)[0] for end in number(found, name).details[1:]]
        for name in ("more", "times", "apart")
    ]
    assert ends == [[10001, 10001], [42, 45], [1, 1]]
    share = number(found, "share")
    assert 2.9 <= column(found, share.low)[0] <= 3 <= column(found, share.high)[0] <= 3.1


def test_details_are_of_any_column_by_its_alias(session: Session) -> None:
    found = answer(
        session,
        "SELECT g, COUNT(*) AS n, n - LAG(n) OVER (ORDER BY g) AS d, DP_STDDEV(d) AS s, DP_INTERVAL_LOW(d), "
        "DP_INTERVAL_HIGH(d) AS d_high, DP_BOUND(d) AS b, DP_LEFT_OUT(d) AS l FROM t GROUP BY g ORDER BY g",
    )
    names = found.rows.column_names
    assert names == ["g", "n", "d", "s", "DP_INTERVAL_LOW(d)", "d_high", "b", "l"]
    place = number(found, "d")
    assert found.rows.column("s").equals(found.table.column(present(place.stddev)))
    assert found.rows.column("DP_INTERVAL_LOW(d)").equals(found.table.column(present(place.low)))
    assert found.rows.column("d_high").equals(found.table.column(present(place.high)))
    assert found.table.column_names.count("d_high") == 1, "it is the end that is asked for"
    assert found.rows.column("b").null_count == found.rows.column("l").null_count == 12


def test_what_is_computed_has_what_searched_bounds_leave_out(session: Session) -> None:
    found = answer(
        session,
        "SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE i > 3) AS m, m / n AS part, n - m AS rest, "
        "DP_BOUND(n) AS b, DP_LEFT_OUT(n) AS l, DP_LEFT_OUT(rest) AS r FROM visits",
    )
    n, part = number(found, "n"), number(found, "part")
    assert column(found, part.low)[0] < column(found, part.place)[0] < column(found, part.high)[0]
    assert halves(found, "rest")[0] > 0.7 * halves(found, "n")[0]
    assert column(found, n.high)[0] > column(found, n.place)[0]
    assert found.rows.column("b")[0].as_py() >= 4
    left, of_both = found.rows.column("l")[0].as_py(), found.rows.column("r")[0].as_py()
    assert left >= 0
    assert of_both <= left


def test_a_column_without_a_name_is_named_by_its_text(session: Session) -> None:
    found = answer(session, f"SELECT n / 7, DP_STDDEV(n / 7) FROM {BLOCK}")
    assert found.rows.column_names == ["n / 7", "DP_STDDEV(n / 7)"]
    assert found.rows.column(1).null_count == 0


def test_a_stored_answer_has_the_same_intervals(session: Session) -> None:
    statement = f"SELECT g, n / 3 + 1 AS c, n / SUM(n) OVER () AS share FROM {BLOCK} ORDER BY g"
    first, again = answer(session, statement), answer(session, statement)
    assert again.reused is not None
    assert first.table.equals(again.table)
    assert (halves(again, "share") > 0).all()


def test_hidden_columns_change_no_row(session: Session) -> None:
    statement = f"SELECT n * 2 AS c, g FROM {BLOCK} ORDER BY c DESC LIMIT 3"
    first = answer(session, statement)
    assert first.rows.column_names == ["c", "g"]
    assert not [name for name in first.table.column_names if name.startswith("dpsql_")]
    values = first.rows.column("c").to_pylist()
    assert values == sorted(values, reverse=True)
    assert len(values) == 3
    alone = answer(session, f"SELECT n AS c FROM {BLOCK} WHERE g <= 3")
    chosen = halves(first, "c")[0] / 2
    assert chosen > 1.3 * halves(alone, "c")[0], "noise chose the rows: intervals hold for all at once"


def test_smooth_functions_follow_the_noise(session: Session) -> None:
    found = answer(session, f"SELECT n, LN(n) AS log, n ^ 2 AS square, SQRT(n) AS root FROM {BLOCK}")
    n, half = column(found, number(found, "n").place), halves(found, "n")
    for name, slope in (("log", 1 / n), ("square", 2 * n), ("root", 0.5 / np.sqrt(n))):
        assert halves(found, name) == pytest.approx(half * slope, rel=0.15)


def test_no_number_is_shown_finer_than_a_tenth_of_its_half_width(session: Session, tmp_path: Path) -> None:
    del tmp_path
    found = answer(session, "SELECT COUNT(*) AS n, n / 365.25 AS day, n - n AS none FROM t")
    text = str(found)
    shown = next(line for line in text.splitlines() if "±" in line)
    assert "-0 " not in f"{shown} "
    day = shown.split("±")[1].split()[1]
    digits = len(day.partition(".")[2])
    assert 10**-digits >= halves(found, "day")[0] / 100


def test_an_answer_says_which_numbers_have_no_interval(session: Session) -> None:
    rest = "n % 2 AS f, n % 7 AS m, RANK() OVER (ORDER BY n) AS r, n AS n, n > 3 AS big, g"
    found = answer(session, f"SELECT {rest} FROM (SELECT g, COUNT(*) AS n FROM t GROUP BY g)")
    assert [text for text in found.warnings if "no interval" in text] == ["no interval of f (%), m (%)"]
