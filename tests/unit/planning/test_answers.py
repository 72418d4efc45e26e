"""Every selection answered by every mechanism that serves it, with so much epsilon that noise cannot matter.

At epsilon 100,000 the noise of a count here exceeds 0.2 with a probability below exp(-1000).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from dpsql import Release
from dpsql.errors import QueryRefused
from dpsql.planning import choose
from dpsql.planning.shown_groups import EMPTY
from dpsql.session import Session
from tests.narrow import private
from tests.support.world import world_fixture

POLICY = """
[budget]
epsilon = 1e9
delta = 0.5
default_epsilon = 100000
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page.values = ["e", "d", "c", "b", "a", "z"]
page.complete = true
[tables.logs]
source = "visits.parquet"
unit = "ROW"
columns = { page = "VARCHAR", ms = "BIGINT" }
[tables.logs.domain]
page.values = ["e", "d", "c", "b", "a", "z"]
page.complete = true
"""
USERS = {"a": 50, "b": 40, "c": 30, "d": 20, "e": 10, "z": 0}
"""Users of each page; the users of a page also saw every page before it."""
LONG = {page: users // 2 for page, users in USERS.items()}
"""Of them with a long visit there."""

N = "COUNT(DISTINCT user_id)"
M = f"{N} FILTER (WHERE ms > 10)"
TOP = f"page, {N} AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2"
ABOVE = f"page, {N} AS n FROM visits GROUP BY page HAVING n >= 3 LIMIT 2"


session = world_fixture(
    POLICY,
    visits=" UNION ALL ".join(
        f"SELECT i AS user_id, '{page}' AS page, (i % 2) * 20 AS ms FROM range({users}) t(i)"
        for page, users in USERS.items()
    ),
)


def ask(session: Session, rest: str, options: str = "") -> tuple[list[tuple[Any, ...]], Release]:
    """Return the answer as rows, keys as they are and counts rounded, and the release."""
    text = (
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = TRUE{', ' + options if options else ''}) {rest}"
    )
    release = session.run(text).release
    assert release is not None
    assert release.charge.epsilon <= session.prepare(text).price.epsilon
    return [
        tuple(round(v) if isinstance(v, float) else v for v in row.values())
        for row in release.rows.to_pylist()
    ], release


def seen(pages: str, *counts: dict[str, int]) -> list[tuple[Any, ...]]:
    return [(page, *(c[page] for c in counts)) for page in pages]


TOPS = ["AUTO", "NOISY_TOP_K"]


@pytest.mark.parametrize("mechanism", TOPS)
@pytest.mark.parametrize("noise", ["EXPONENTIAL", "LAPLACE", "GEOMETRIC"])
@pytest.mark.parametrize("strategy", ["AUTO", "EACH", "ANCHOR"])
@pytest.mark.sampled(5)
def test_top_k(session: Session, mechanism: str, noise: str, strategy: str) -> None:
    options = f"mechanism = {mechanism}, noise = {noise}, measure_strategy = {strategy}"
    rest = f"page, {N} AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 3"
    rows, release = ask(session, rest, options)
    assert [row[0] for row in rows] == ["a", "b", "c"]
    assert release.charge.epsilon == 100_000
    if noise != "GEOMETRIC":  # its gaps are whole numbers, cut off
        assert rows == seen("abc", USERS)
        assert [round(v) for v in release.table["gap"].to_pylist()] == [10, 10, 10]


def test_more_than_there_are(session: Session) -> None:
    rest = f"page, {N} AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 100"
    assert ask(session, rest)[0] == seen("abcdez", USERS)
    rows, release = ask(session, rest, "mechanism = NOISY_TOP_K")
    assert rows == seen("abcdez", USERS)
    assert release.table["gap"].to_pylist()[-1] is None


def test_the_lowest(session: Session) -> None:
    rows, release = ask(session, f"page, {N} AS n FROM visits GROUP BY page ORDER BY n LIMIT 2")
    assert rows == seen("ze", USERS)
    assert f"1 of the 2 smallest groups may have no rows: {EMPTY}" in release.warnings, "none has z"
    rest = f"page, {N} AS n FROM visits WHERE page <> 'z' GROUP BY page ORDER BY n"
    for limit in ("LIMIT 2", "FETCH FIRST 2 ROWS ONLY"):
        rows, release = ask(session, f"{rest} {limit}")
        assert rows == seen("ed", USERS)
        assert not any(EMPTY in text for text in release.warnings), "both have rows"
    rows, release = ask(session, f"page FROM visits GROUP BY page ORDER BY {N} LIMIT 2")
    assert (rows, EMPTY in release.warnings) == ([("z",), ("e",)], True)


@pytest.mark.parametrize("mechanism", ["AUTO", "NOISY_TOP_K", "NOISY_MAX", "EXPONENTIAL"])
@pytest.mark.sampled(3, rest="longer")
def test_argmax(session: Session, mechanism: str) -> None:
    for shown, expected in (("page", ("a",)), (f"page, {N} AS n", ("a", 50)), (f"page, {M} AS m", ("a", 25))):
        rows, release = ask(
            session,
            f"{shown} FROM visits GROUP BY page ORDER BY {N} DESC LIMIT 1",
            f"mechanism = {mechanism}",
        )
        assert rows == [expected]
        assert release.charge.epsilon == 100_000
    rest = f"page, {N} AS n, {N} AS m FROM visits GROUP BY page ORDER BY m DESC LIMIT 1"
    assert ask(session, rest, f"mechanism = {mechanism}")[0] == [("a", 50, 50)]


@pytest.mark.parametrize(("order", "expected"), [("DESC", "abc"), ("ASC", "zed")])
def test_keys_as_one_sequence(session: Session, order: str, expected: str) -> None:
    rest = f"page, DP_RANK() AS r FROM visits GROUP BY page ORDER BY {N} {order} LIMIT 3"
    rows, release = ask(session, rest, "mechanism = JOINT")
    assert rows == [(page, rank) for rank, page in enumerate(expected, 1)]
    assert release.charge.epsilon == 100_000
    assert release.mechanism.startswith("joint exponential mechanism")


@pytest.mark.parametrize("strategy", ["AUTO", "EACH"])
def test_counts_of_a_sequence_are_measured(session: Session, strategy: str) -> None:
    rest = f"page, {N} AS n, {M} AS m FROM visits GROUP BY page ORDER BY n DESC LIMIT 3"
    rows, release = ask(session, rest, f"mechanism = JOINT, measure_strategy = {strategy}")
    assert rows == seen("abc", USERS, LONG)
    assert release.charge.epsilon == 100_000


def test_the_quote_of_one_sequence(session: Session) -> None:
    for shown, scale in (("page", 4), (f"page, {N} AS n", 8)):
        rest = f"{shown} FROM visits GROUP BY page ORDER BY {N} DESC LIMIT 2"
        text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = JOINT, epsilon = 0.5) {rest}"
        quote = private(session.prepare(text)).method.quote
        assert quote.scale == scale
        assert (quote.predicted_stddev is None) == (shown == "page")
        # 15 pairs of 6 groups; 19 to 1 are the odds of 95%.
        assert quote.tells_apart == pytest.approx(scale * math.log(14 * 19))


@pytest.mark.parametrize("mechanism", ["SPARSE_VECTOR", "ADAPTIVE_SPARSE_VECTOR"])
@pytest.mark.sampled(3, rest="longer")
def test_above_threshold_sorted_by_count(session: Session, mechanism: str) -> None:
    options = f"mechanism = {mechanism}"
    rest = f"page, {N} AS n FROM visits GROUP BY page"
    assert ask(session, f"{rest} HAVING n >= 15 LIMIT 3", options)[0] == seen("bcd", USERS)
    assert ask(session, f"{rest} HAVING n >= 15 LIMIT 10", options)[0] == seen("abcd", USERS)
    assert ask(session, f"{rest} HAVING n >= 15 ORDER BY page LIMIT 3", options)[0] == seen("abc", USERS)
    assert ask(session, f"{rest} HAVING n >= 60 LIMIT 3", options)[0] == []
    assert ask(session, f"page, {M} AS m FROM visits GROUP BY page HAVING {N} >= 25 LIMIT 2", options)[
        0
    ] == seen("bc", LONG)
    hits = f"{options}, base_hits = 2"
    assert ask(session, f"{rest} ABOVE THRESHOLD 35", hits)[0] == seen("ab", USERS)


@pytest.mark.parametrize("mechanism", ["AUTO", "HYBRID_TOP_K", "BOX"])
@pytest.mark.sampled(3, rest="longer")
def test_the_largest_above_a_threshold(session: Session, mechanism: str) -> None:
    options = f"mechanism = {mechanism}"
    rest = f"page, {N} AS n FROM visits GROUP BY page"
    assert ask(session, f"{rest} HAVING n >= 15 LIMIT 3", options)[0] == seen("abc", USERS)
    assert ask(session, f"{rest} HAVING n >= 15 LIMIT 10", options)[0] == seen("abcd", USERS)
    assert ask(session, f"{rest} HAVING n >= 60 LIMIT 3", options)[0] == []
    rest = f"page, {M} AS m FROM visits GROUP BY page HAVING {N} >= 25 LIMIT 2"
    assert ask(session, rest, options)[0] == seen("ab", LONG)


@pytest.mark.parametrize("mechanism", ["AUTO", "BOX"])
def test_all_above_a_threshold(session: Session, mechanism: str) -> None:
    options = f"mechanism = {mechanism}"
    rest = f"page, {N} AS n FROM visits GROUP BY page"
    rows, release = ask(session, f"{rest} ABOVE THRESHOLD 15", options)
    assert rows == seen("abcd", USERS)
    assert not release.warnings
    (note,) = ask(session, f"{rest} ABOVE THRESHOLD 15", f"{options}, intervals = SINGLE")[1].warnings
    assert note == "an interval covers less than its level if noise put the group into the answer"
    assert not ask(session, f"page FROM visits GROUP BY page HAVING {N} >= 15", options)[1].warnings
    assert ask(session, f"{rest} HAVING n >= 15 ORDER BY page DESC", options)[0] == seen("dcba", USERS)
    assert ask(session, f"{rest} HAVING n >= 15 ORDER BY page LIMIT 3", options)[0] == seen("abc", USERS)
    assert ask(session, f"page FROM visits GROUP BY page HAVING {N} >= 35", options)[0] == [("a",), ("b",)]


def test_a_count_above_a_threshold_is_free(session: Session) -> None:
    rest = f"page, {N} AS n FROM visits GROUP BY page HAVING n >= 15 LIMIT 2"
    rows, release = ask(session, rest, "measure = 0")
    assert rows == seen("cd", USERS)
    assert "measuring" not in release.properties["split"]


@pytest.mark.parametrize("mechanism", ["AUTO", "HYBRID_TOP_K", "HYBRID_SPARSE_VECTOR"])
def test_top_k_above_a_threshold(session: Session, mechanism: str) -> None:
    options = f"mechanism = {mechanism}"
    rest = f"page, {N} AS n FROM visits GROUP BY page"
    assert ask(session, f"{rest} HAVING n >= 15 ORDER BY n DESC LIMIT 2", options)[0] == seen("ab", USERS)
    rows, release = ask(session, f"{rest} HAVING n >= 35 ORDER BY n DESC LIMIT 5", options)
    assert rows == seen("ab", USERS)
    assert 0 < release.charge.epsilon <= 100_000
    assert ask(session, f"{rest} HAVING n >= 70 ORDER BY n DESC LIMIT 2", options)[0] == []


@pytest.mark.parametrize("mechanism", ["AUTO", "LIMITED_DOMAIN", "TOP_STABLE", "LIMITED_THEN_STABLE"])
def test_keys_that_nobody_declared(session: Session, mechanism: str) -> None:
    options = f"mechanism = {mechanism}, delta = 1e-6"
    rest = f"CAST(ms AS VARCHAR) AS k, {N} AS n, {M} AS m FROM visits GROUP BY k ORDER BY n DESC LIMIT 3"
    rows, release = ask(session, rest, options)
    assert sorted(rows) == [("0", 25, 0), ("20", 25, 25)]
    # The first mechanism placed all 3 items, so the second one, with the other half of delta, did not run.
    spent = 2 if mechanism == "LIMITED_THEN_STABLE" else 1
    assert release.charge.delta == Fraction(1, spent * 10**6)


def test_counts_of_everything(session: Session) -> None:
    rows, release = ask(session, f"{N} AS n, {M} AS m, {N} AS o FROM visits")
    assert rows == [(50, 25, 50)]
    assert release.rows["n"].equals(release.rows["o"]), "the same count is measured once"
    assert release.charge.epsilon == 100_000


def test_all_groups(session: Session) -> None:
    rest = f"page, {N} AS n, {M} AS m FROM visits GROUP BY page"
    rows, release = ask(session, f"{rest} ORDER BY page DESC LIMIT 4", "max_groups_contributed = 6")
    assert rows == seen("edcb", USERS, LONG)
    assert release.charge.epsilon == 100_000
    assert [row[0] for row in ask(session, rest, "max_groups_contributed = 6")[0]] == list("edcbaz")
    assert ask(session, rest)[0] == seen("edcbaz", USERS, LONG)
    assert ask(session, rest, "max_groups_contributed = 2")[0] == seen("edcbaz", USERS, LONG)
    rows, _ = ask(session, rest, "max_groups_contributed = 2, mechanism = LAPLACE")
    assert sum(n for _, n, _ in rows) == sum(min(2, sum(u < c for c in USERS.values())) for u in range(50))


def test_rows_as_units(session: Session) -> None:
    rest = "page, COUNT(*) AS n FROM logs GROUP BY page"
    assert ask(session, f"{rest} ORDER BY n DESC LIMIT 2")[0] == seen("ab", USERS)
    rows, _ = ask(session, rest, "max_groups_contributed = 1")
    assert dict(rows) == USERS


def test_several_counts_are_all_measured(session: Session) -> None:
    rows, release = ask(
        session, f"page, {N} AS n, {M} AS m FROM visits GROUP BY page ORDER BY m DESC LIMIT 2"
    )
    assert rows == seen("ab", USERS, LONG)
    assert release.counts == ("n", "m")
    assert {"n_stddev", "m_low", "m_high"} <= set(release.table.column_names)


def test_differences_of_counts(session: Session) -> None:
    rows, _ = ask(session, f"page, {N} - {M} AS d FROM visits GROUP BY page ORDER BY d DESC LIMIT 2")
    assert rows == [("a", 25), ("b", 20)]


def test_clamped_rows(session: Session) -> None:
    rest = TOP.replace(N, "COUNT(*, contribution_bounds_per_group => (0, 3))")
    rows, release = ask(session, rest)
    assert rows == seen("ab", USERS)
    one = ask(session, TOP)[1]
    assert release.scale == pytest.approx(3 * one.scale)


def test_keys_alone_leave_everything_to_selection(session: Session) -> None:
    rest = f"page FROM visits GROUP BY page ORDER BY {N} DESC LIMIT 3"
    rows, release = ask(session, rest, "mechanism = NOISY_TOP_K")
    assert rows == [("a",), ("b",), ("c",)]
    assert release.properties["split"] == "all for selecting"


def test_what_is_free_of_a_release(session: Session) -> None:
    rest = (
        f"page, {N} AS n, DP_RANK() AS r, DP_GAP() AS g, DP_STDDEV(n) AS s, DP_INTERVAL_LOW(n) AS low, "
        "DP_INTERVAL_HIGH(n) AS high, DP_PVALUE() AS p FROM visits GROUP BY page ORDER BY n DESC LIMIT 3"
    )
    release = ask(session, rest)[1]
    assert release.rows.schema.types == [pa.string(), pa.float64(), pa.int64(), *[pa.float64()] * 5]
    for row in release.rows.to_pylist():
        assert row["low"] <= row["n"] <= row["high"]
        assert 0 < row["s"] < 0.1
        assert 0 <= row["p"] < 1e-6
    assert release.rows["r"].to_pylist() == [1, 2, 3]
    assert release.rows["g"].equals(release.table["gap"])


def test_a_domain_of_one_group_above_a_threshold_pays_for_selecting(session: Session) -> None:
    """That it is above the threshold is released, so no more than the rest of epsilon measures it."""
    rest = f"page, {N} AS n FROM visits WHERE page = 'c' GROUP BY page HAVING n >= 3 ORDER BY n DESC LIMIT 4"
    rows, release = ask(session, rest, "mechanism = HYBRID_TOP_K")
    assert rows == [("c", 30)]
    assert release.charge.epsilon == 100_000
    assert release.properties["split"] != "all for measuring"


def test_a_domain_of_one_group_is_only_measured(session: Session) -> None:
    rest = f"page, {N} AS n FROM visits WHERE page = 'b' GROUP BY page ORDER BY n DESC LIMIT 3"
    rows, release = ask(session, rest)
    assert rows == [("b", 40)]
    assert release.charge.epsilon == 100_000
    assert release.properties["split"] == "all for measuring"


@pytest.mark.parametrize("share", ["0.1", "0.9"])
def test_a_share_for_measuring(session: Session, share: str) -> None:
    rest = f"page, {N} AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2"
    method = private(
        session.prepare(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, measure = {share}) {rest}")
    ).method
    assert method is not None
    assert method.quote.split.startswith(
        f"{1 - float(share):g} for selecting, {float(share):g} for measuring"
    )


CLAMPED = f"page, COUNT(*, contribution_bounds_per_group => (0, 1000000)) AS n {TOP.partition(' AS n ')[2]}"


@pytest.mark.parametrize(
    ("options", "rest", "message"),
    [
        ("base_hits = 2", TOP, "base_hits has no meaning"),
        ("threshold_share = 0.5", TOP, "threshold_share has no meaning"),
        ("max_groups_contributed = 2", TOP, "max_groups_contributed has no meaning"),
        ("candidates = 20", TOP, "keys without a public domain"),
        ("mechanism = NOISY_MAX", TOP, "cannot answer this"),
        ("mechanism = EXPONENTIAL", TOP, "cannot answer this"),
        ("mechanism = LAPLACE, measure = 0.5", TOP, "has no option measure"),
        ("mechanism = NOISY_TOP_K", ABOVE, "cannot answer this"),
        ("mechanism = SPARSE_VECTOR", TOP, "cannot answer this"),
        ("mechanism = TOP_STABLE", TOP, "cannot answer this"),
        ("mechanism = LIMITED_THEN_STABLE", TOP, "cannot answer this"),
        ("mechanism = LIMITED_DOMAIN", f"{N} FROM visits", "cannot answer this"),
        ("mechanism = JOINT", ABOVE, "cannot answer this"),
        ("mechanism = JOINT", f"{N} FROM visits", "cannot answer this"),
        ("mechanism = JOINT, measure_strategy = ANCHOR", TOP, "needs the gaps of an ordered selection"),
        ("mechanism = JOINT, measure = 0", TOP, "pays for no count"),
        ("measure = 0", TOP, "pays for no count"),
        ("epsilon = 1e-6", CLAMPED, "too small: the noise would exceed every count"),
        (
            "noise = LAPLACE",
            f"page, DP_PVALUE() FROM visits GROUP BY page ORDER BY {N} DESC LIMIT 2",
            "exponential noise",
        ),
        ("confidence = 0.9", f"{N} AS n, DP_RANK() FROM visits", "nothing is selected"),
        (
            "confidence = 0.9",
            f"page, DP_PVALUE() FROM visits GROUP BY page HAVING {N} >= 3 LIMIT 2",
            "DP_PVALUE requires",
        ),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_options_that_cannot_be_meant_are_refused(
    session: Session, options: str, rest: str, message: str
) -> None:
    with pytest.raises(QueryRefused, match=message):
        session.prepare(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {rest}")


def test_unknown_keys_need_a_delta(session: Session) -> None:
    text = f"SELECT CAST(ms AS VARCHAR) AS k, {N} AS n FROM visits GROUP BY k ORDER BY n DESC LIMIT 2"
    with pytest.raises(QueryRefused, match="the values of k are not declared, so a delta is needed"):
        session.prepare(text)


def test_the_price_is_known_before(session: Session) -> None:
    for rest in (TOP, ABOVE, f"{N} FROM visits"):
        prepared = private(
            session.prepare(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.3) {rest}")
        )
        assert prepared.price.epsilon == Fraction(3, 10)
        assert choose(prepared.plan).quote.charge == prepared.price
