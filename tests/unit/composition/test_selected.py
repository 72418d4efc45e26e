"""Which releases an outer query selects from by their noise, by what it does and not by its form."""

from __future__ import annotations

import pytest

from dpsql.composition.selected import ReleasedRelation, SelectedByNoise, find_selected
from dpsql.language import Query, parse
from tests.narrow import of_type

COLUMNS = (("k", "key"), ("c", "key"), ("n", "count"), ("m", "count"), ("lo", "low"), ("hi", "high"))
RELEASED = (
    ReleasedRelation("r0", COLUMNS, ordered=False),
    ReleasedRelation("r1", COLUMNS, ordered=False),
    ReleasedRelation("top", (*COLUMNS, ("rank", "rank")), ordered=True),
    ReleasedRelation("later", COLUMNS, ordered=False, reads=frozenset({"r1"})),
)
PUBLIC = {"places": ("k", "size"), "days": ("d",)}


def found(text: str) -> set[str]:
    return set(followed(text).releases)


def followed(text: str) -> SelectedByNoise:
    return find_selected(of_type(parse(text), Query).tree, RELEASED, PUBLIC.get)


BY_NOISE = [
    # conditions
    "SELECT * FROM r0 WHERE n > 104",
    "SELECT * FROM r0 WHERE k = 'a' OR n > 104",
    "SELECT * FROM r0 WHERE NOT (n BETWEEN 1 AND 3)",
    "SELECT * FROM r0 WHERE CASE WHEN k = 'a' THEN n > 3 ELSE TRUE END",
    "SELECT k, n FROM (SELECT k, n, n - m AS d FROM r0) WHERE d > 0",
    "SELECT k, n AS x FROM r0 WHERE x > 3",
    "SELECT k, n FROM r0 QUALIFY n = MAX(n) OVER ()",
    "SELECT k, n FROM r0 QUALIFY ROW_NUMBER() OVER w = 1 WINDOW w AS (PARTITION BY c ORDER BY n DESC)",
    "SELECT k, n FROM (SELECT *, RANK() OVER (ORDER BY n DESC) AS place FROM r0) WHERE place <= 2",
    "SELECT c, SUM(n) AS s FROM r0 GROUP BY c HAVING SUM(n) > 4 AND SUM(n) < 40",
    "SELECT * FROM r0 WHERE (k, n) IN (SELECT k, MAX(n) FROM r0 GROUP BY k)",
    # order with a limit
    "SELECT * FROM r0 ORDER BY n LIMIT 1",
    "SELECT * FROM r0 ORDER BY n + 0 DESC OFFSET 2",
    "SELECT k, n AS x FROM r0 ORDER BY 2 LIMIT 1",
    "SELECT k, n AS x FROM r0 ORDER BY x LIMIT 1",
    "SELECT k, n FROM r0 ORDER BY ALL LIMIT 1",
    "SELECT * FROM (SELECT * FROM r0 ORDER BY n) LIMIT 3",
    "SELECT * FROM (FROM r0 ORDER BY n LIMIT 1)",
    "SELECT * FROM r0 LIMIT (SELECT MAX(n) FROM r0)::INT",
    "SELECT k, n, ROW_NUMBER() OVER () AS i FROM (SELECT * FROM r0 ORDER BY n) QUALIFY i < 3",
    "SELECT DISTINCT ON (c) c, n FROM r0 ORDER BY n DESC",
    "SELECT DISTINCT ON (n > 4) k, n FROM r0",
    # other rows
    "SELECT * FROM r0 WHERE k IN (SELECT k FROM r0 WHERE n > 4)",
    "SELECT * FROM r0 WHERE EXISTS (SELECT 1 FROM r0 AS o WHERE o.k > r0.k AND o.n > r0.n)",
    "SELECT * FROM r0 WHERE n >= ALL (SELECT n FROM r0)",
    "SELECT * FROM r0 AS a JOIN r0 AS b ON a.n > b.n",
    "SELECT * FROM r0 JOIN places ON size = n",
    "SELECT * FROM r0 AS a SEMI JOIN (SELECT k FROM r0 WHERE n > 3) AS b USING (k)",
    "SELECT * FROM r0 AS a ANTI JOIN r0 AS b ON b.n > a.n",
    "SELECT * FROM r0 JOIN (SELECT k, n FROM r0 WHERE n > 2) AS b USING (k)",
    "SELECT * FROM r0 AS a JOIN r0 AS b USING (n)",
    "SELECT places.k, t.n FROM places, LATERAL (SELECT n FROM r0 WHERE r0.n > size) AS t",
    "SELECT k, n FROM r0 WHERE EXISTS (SELECT 1 FROM range(4) AS t WHERE n > 2)",
    # through names and branches
    "WITH a AS (SELECT * FROM r0 WHERE n > 4) SELECT * FROM a ORDER BY k",
    "WITH a AS (FROM r0), b AS (FROM a ORDER BY n DESC LIMIT 1) SELECT k, n FROM b",
    "WITH a(x, y, z) AS (FROM r0) SELECT * FROM a WHERE z > 3",
    "SELECT k, n FROM (SELECT k, n FROM r0 ORDER BY n LIMIT 1) UNION ALL SELECT k, n FROM r0 WHERE k = 'a'",
    "SELECT k, n FROM r0 UNION ALL SELECT k, m FROM r0 ORDER BY n LIMIT 1",
    "(SELECT k, n FROM r0 ORDER BY n DESC) LIMIT 1",
    "SELECT k, n FROM r0 EXCEPT SELECT k, n FROM r0 WHERE k = 'a'",
    "SELECT n FROM r0 INTERSECT SELECT m FROM r0",
    "SELECT * FROM (SELECT * EXCLUDE (n) REPLACE (n AS m) FROM r0) WHERE m > 3",
    "SELECT * FROM (SELECT * RENAME (n AS z) FROM r0) WHERE z > 3",
    "SELECT * FROM r0 WHERE COLUMNS('n|m') > 3",
    "SELECT t.k, t.n FROM r0 AS t WHERE t > r0",
    "WITH RECURSIVE a AS (SELECT k, n FROM r0 UNION ALL SELECT k, n FROM a WHERE n < 0) SELECT * FROM a",
    "SELECT * FROM (SELECT list(n ORDER BY n) AS l FROM r0 GROUP BY c) WHERE l[1] > 3",
    "SELECT k, n FROM r0 WHERE list_contains([x + 1 FOR x IN [1, 2]], n)",
    # which end is shown
    "SELECT MAX(lo), MIN(hi) FROM r0",
    "SELECT ARG_MAX(lo, n), ARG_MAX(hi, n) FROM r0",
    "SELECT k, FIRST_VALUE(lo) OVER (ORDER BY n DESC) AS lo FROM r0",
    "SELECT k, LAG(hi) OVER (ORDER BY n) AS x FROM r0",
    "SELECT k, GREATEST(lo, hi) AS x FROM r0",
    "SELECT k, CASE WHEN n > 100 THEN lo END AS x FROM r0",
    "SELECT k, IF(n > m, lo, hi) AS x FROM r0",
    "SELECT places.k, (SELECT lo FROM r0 ORDER BY n DESC LIMIT 1) AS x FROM places",
]  # fmt: skip

BY_KEYS = [
    "SELECT * FROM r0",
    "SELECT * FROM r0 WHERE k = 'a' AND c <> 'b'",
    "SELECT * FROM r0 ORDER BY n DESC",
    "SELECT * FROM r0 ORDER BY k LIMIT 3",
    "SELECT k, n AS x FROM r0 ORDER BY 1 LIMIT 3",
    "SELECT * FROM r0 WHERE k IN (SELECT k FROM places WHERE size > 3)",
    "SELECT * FROM r0 WHERE k IN (SELECT k FROM r0 WHERE c = 'a')",
    "SELECT * FROM r0 WHERE EXISTS (SELECT * FROM r0 AS o WHERE o.k > r0.k)",
    "SELECT * FROM places LEFT JOIN r0 USING (k) WHERE size > 3 ORDER BY size LIMIT 3",
    "SELECT places.k, n FROM places NATURAL JOIN (SELECT k, n FROM r0)",
    "SELECT DISTINCT ON (k) k, n FROM r0 ORDER BY k, c",
    "SELECT DISTINCT k, n FROM r0",
    "SELECT k, n, MAX(n) OVER () AS most, RANK() OVER (ORDER BY n) AS place FROM r0",
    "SELECT k, n * 100 / SUM(n) OVER () AS share, n FROM r0",
    "SELECT k, n FROM r0 QUALIFY ROW_NUMBER() OVER (PARTITION BY c ORDER BY k) = 1",
    "SELECT c, SUM(n) AS s FROM r0 GROUP BY c HAVING c > 'a' ORDER BY c LIMIT 2",
    "SELECT c, MAX(n) AS s FROM r0 GROUP BY ALL",
    "SELECT k, n FROM r0 UNION ALL SELECT k, m FROM r0",
    "WITH a AS (FROM r0), b(x) AS (SELECT n FROM a) SELECT x FROM b",
    "WITH RECURSIVE s AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM s WHERE i < 3) "
    "SELECT i, n FROM s JOIN r0 ON k = i::VARCHAR",
    "SELECT i, n FROM range(4) AS t(i) LEFT JOIN r0 ON ascii(k) - 97 = i WHERE i < 3",
    "SELECT * EXCLUDE (m) REPLACE (n + 1 AS n) FROM r0 ORDER BY k LIMIT 2",
    "SELECT k, lo, hi, hi - lo AS width, lo > 10 AS sure FROM r0",
    "SELECT k, CASE WHEN k = 'a' THEN lo ELSE hi END AS x FROM r0",
    "SELECT k, round(lo, 1) AS lo FROM r0 WHERE k > 'a'",
    "SELECT * FROM top ORDER BY rank",
    "SELECT d, (SELECT n FROM r0 WHERE k = d) AS n FROM days LIMIT 2",
]  # fmt: skip


@pytest.mark.parametrize("text", BY_NOISE)
def test_noise_selects(text: str) -> None:
    assert found(text) == {"r0"}


@pytest.mark.parametrize("text", BY_KEYS)
def test_keys_and_public_values_do_not(text: str) -> None:
    assert not found(text)


def test_only_the_releases_are_meant_whose_noise_selects() -> None:
    """The noise of another release is independent: what it selects is covered as often as anything."""
    assert found("SELECT r1.n FROM r0 JOIN r1 USING (k) WHERE r0.n > 3") == {"r0"}
    assert found("SELECT r0.n FROM r0 WHERE k IN (SELECT k FROM r1 WHERE n > 2)") == {"r1"}
    assert found("SELECT r0.n FROM r0, r1 WHERE r0.n > r1.n") == {"r0", "r1"}


def test_the_order_of_a_top_k_is_noise_and_its_rows_are_not() -> None:
    assert found("SELECT * FROM top LIMIT 2") == {"top"}
    assert found("SELECT * FROM top WHERE rank < 3") == {"top"}
    assert not found("SELECT r0.* FROM top JOIN r0 USING (k)")
    assert not found("SELECT top.* FROM top JOIN r0 USING (k)")


def test_a_release_that_reads_a_number_depends_on_its_noise() -> None:
    assert found("SELECT later.n, r1.n FROM later, r1 WHERE later.n > 3") == {"later", "r1"}
    assert found("SELECT r1.n FROM r1 JOIN later USING (k)") == {"r1"}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM r0 PIVOT (MAX(n) FOR k IN ('a', 'b'))",
        "SELECT nowhere FROM r0 ORDER BY nowhere LIMIT 1",
        "SELECT r0.rowid FROM r0 ORDER BY r0.rowid LIMIT 1",
    ],
)
def test_what_is_not_understood_counts_as_selected(text: str) -> None:
    assert "r0" in found(text)


def test_ends_of_several_releases_in_one_column_share_what_they_may_miss() -> None:
    both = "SELECT k, lo, n FROM r0 UNION ALL SELECT k, lo, n FROM r1"
    assert followed(f"{both} ORDER BY n LIMIT 1").mixed == {"r0", "r1"}
    assert followed("SELECT IF(r0.n > r1.n, r0.lo, r1.lo) AS lo FROM r0, r1").mixed == {"r0", "r1"}
    assert followed("SELECT * FROM r0 PIVOT (MAX(n) FOR k IN ('a')), r1").mixed == {"r0", "r1"}
    assert not followed(both).mixed
    assert not followed("SELECT r0.lo, r1.lo AS low FROM r0 JOIN r1 USING (k) WHERE r0.n > r1.n").mixed
