"""Public rows that match no private row: what would count them is refused, with two releases in its place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.errors import QueryRefused
from tests.nearly_exact import NearlyExact, nearly_exact

DATA = """
CREATE TABLE codes AS SELECT 'c' || i AS code, 'g' || (i % 3) AS part FROM range(20) AS r(i);
CREATE TABLE copies AS SELECT i AS copy, 'c' || (i // 2) AS code FROM range(30) AS r(i);
CREATE TABLE visits AS
SELECT i AS visit, i // 3 AS u, 'c' || (i * i % 7) AS code, i * i % 11 AS copy, i % 10 AS ms
FROM range(60) AS r(i);
"""
POLICY = """
[defaults]
rows_per_unit = 10
[tables.visits]
source = "visits"
unit = "u"
unique = [["visit"]]
bounds = { ms = { from = 0, to = 10 } }
[tables.codes]
source = "codes"
public = true
unique = [["code"]]
[tables.copies]
source = "copies"
public = true
unique = [["copy"]]
"""
JOIN = "FROM codes AS d LEFT JOIN visits AS v ON v.code = d.code AND v.ms > 4"
PAIRS = "FROM codes AS d JOIN copies AS i ON i.code = d.code"
BOTH = f"{PAIRS} LEFT JOIN visits AS v ON i.copy = v.copy AND v.ms > 4"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NearlyExact]:
    found = nearly_exact(tmp_path_factory.mktemp("small"), DATA, POLICY)
    yield found
    found.private.close()


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT COUNT(*) AS n {JOIN}",
        f"SELECT COUNT(*) {JOIN} WHERE v.visit IS NULL",
        f"SELECT COUNT(*) FILTER (WHERE v.visit IS NULL) AS n {JOIN}",
        f"SELECT SUM(CASE WHEN v.code IS NULL THEN 1 ELSE 0 END) AS n {JOIN} WHERE d.part <> 'g0'",
        "SELECT COUNT(*) FROM visits AS v RIGHT JOIN codes AS d ON v.code = d.code AND v.ms > 4",
        f"SELECT d.part, COUNT(*) {JOIN} GROUP BY d.part ORDER BY d.part DESC",
        f"SELECT COUNT(*) AS n, d.part {JOIN} GROUP BY 2 ORDER BY 2",
        f"SELECT COUNT(*) AS n, d.part AS p {JOIN} WHERE v.code IS NULL AND d.part <> 'g0' GROUP BY 2",
        f"SELECT d.code, COUNT(*) {BOTH} WHERE v.visit IS NULL AND d.part = 'g1' GROUP BY d.code",
        f"SELECT COUNT(*) {BOTH}",
        "SELECT COUNT(*) FROM codes LEFT JOIN visits USING (code)",
    ],
)
@pytest.mark.sampled(3)
def test_what_counts_them_is_offered_as_two_releases_that_ask_the_same(
    statement: str, small: NearlyExact
) -> None:
    with pytest.raises(QueryRefused, match="belong to no unit") as refused:
        small.rows(statement)
    offered = refused.value.rewrite
    assert offered is not None
    assert offered == refused.value.hint
    whole = [
        row for row in small.rows(offered) if not all(isinstance(v, float) and abs(v) < 0.5 for v in row[1:])
    ]
    meant = sorted(small.meant(statement), key=repr)
    got = [
        tuple(round(v) if isinstance(v, float) else v for v in row) for row in whole or small.rows(offered)
    ]
    assert sorted((row for row in got if 0 not in row), key=repr) == meant


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT COUNT(COALESCE(v.ms, 0)) {JOIN}",
        f"SELECT AVG(COALESCE(v.ms, 0)) {JOIN}",
        f"SELECT SUM(COALESCE(v.ms, 1)) {JOIN}",
        f"SELECT COUNT(DISTINCT d.code) {JOIN}",
        f"SELECT COUNT(DISTINCT d.part), COUNT(v.visit) {JOIN}",
        f"SELECT part, COUNT(*), COUNT(v.visit) {JOIN} GROUP BY part",
        f"SELECT COUNT(*) {JOIN} WHERE v.ms IS NULL OR v.ms > 7",
        f"SELECT COUNT(*) FROM (SELECT d.code, v.u, v.ms {JOIN}) AS x WHERE x.ms IS NULL",
        f"SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY COALESCE(v.ms, 3)) {JOIN}",
        "SELECT COUNT(*) FROM codes AS d FULL JOIN visits AS v ON v.code = d.code",
        "SELECT COUNT(*) FROM visits AS v FULL JOIN codes AS d ON v.code = d.code",
        f"SELECT x.n + 1 FROM (SELECT COUNT(*) AS n {JOIN}) AS x",
        f"SELECT COUNT(*) {JOIN} LEFT JOIN copies AS c ON c.code = d.code",
    ],
)
@pytest.mark.sampled(3)
def test_what_else_counts_them_is_refused_with_a_statement_that_is_accepted(
    statement: str, small: NearlyExact
) -> None:
    with pytest.raises(QueryRefused, match="belong to no unit") as refused:
        small.rows(statement)
    hint = refused.value.hint or ""
    if "FULL JOIN" in statement:
        assert hint.startswith("SELECT")
    assert hint
    if hint.startswith("SELECT"):
        small.agrees(hint.partition(" -- ")[0])


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT COUNT(v.visit), COUNT(DISTINCT v.u) {JOIN}",
        f"SELECT SUM(v.ms) {JOIN}",
        f"SELECT SUM(COALESCE(v.ms, 0)) {JOIN}",
        f"SELECT AVG(v.ms) {JOIN}",
        f"SELECT COUNT(*) {JOIN} WHERE v.ms > 6",
        f"SELECT COUNT(*) {JOIN} WHERE NOT v.ms IS NULL",
        f"SELECT COUNT(*) FILTER (WHERE v.ms > 6) AS n {JOIN}",
        f"SELECT SUM(CASE WHEN v.ms > 6 THEN 1 ELSE 0 END) {JOIN}",
        f"SELECT COUNT_IF(v.ms > 6) {JOIN}",
        f"SELECT d.part, COUNT(v.visit) {JOIN} GROUP BY d.part",
        f"SELECT COUNT(*) {JOIN} JOIN copies AS c ON c.copy = v.copy",
        f"SELECT COUNT(*) {JOIN} JOIN visits AS w ON w.u = v.u WHERE w.ms > 3",
        "SELECT COUNT(*) FROM visits AS v LEFT JOIN codes AS d ON v.code = d.code",
        "SELECT COUNT(*) FROM codes AS d LEFT JOIN visits AS v ON v.code = d.code WHERE d.code IS NULL",
    ],
)
@pytest.mark.sampled(4, rest="longer")
def test_what_they_add_nothing_to_is_answered(statement: str, small: NearlyExact) -> None:
    small.agrees(statement)
