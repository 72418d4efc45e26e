"""Which groups exist for outer SQL: a released count of all rows or units decides, and no other number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from tests.nearly_exact import NearlyExact, nearly_exact

DATA = Path(__file__).resolve().parents[3] / "data"

PROFITS = """
CREATE TABLE profits AS
SELECT i AS u, chr(97 + (i % 4)::INT) AS k, [1000, -500, 2500, -0.6][1 + (i % 4)::INT]::DOUBLE AS s,
    i % 3 AS f
FROM range(4000) AS r(i);
CREATE TABLE t AS
SELECT i AS u, CASE WHEN i < 50 THEN 'a' ELSE 'b' END AS k, CASE WHEN i >= 50 THEN 5 END AS x, 3 AS y
FROM range(100) AS r(i);
"""
POLICY = """
[tables.profits]
source = "profits"
unit = "u"
unique = [["u"]]
domain = { k = ["a", "b", "c", "d", "e"], f = { from = 0, to = 3 } }
not_null = ["k"]
bounds = { s = { from = -5000, to = 5000 } }
[tables.t]
source = "t"
unit = "u"
unique = [["u"]]
domain = { k = ["a", "b", "c"] }
not_null = ["k"]
bounds = { x = { from = 0, to = 100 }, y = { from = 0, to = 10 } }
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NearlyExact]:
    found = nearly_exact(tmp_path_factory.mktemp("small"), PROFITS, POLICY)
    yield found
    found.private.close()


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, duckdb.DuckDBPyConnection]]:
    folder = tmp_path_factory.mktemp("clinic")
    text = (DATA / "clinic.toml").read_text(encoding="utf-8")
    for old, new in [
        ("epsilon = 10\n", "epsilon = 1e6\n"),
        ("max_epsilon_per_query = 2\n", "max_epsilon_per_query = 1e4\n"),
        ("default_epsilon = 0.25 ", "default_epsilon = 1000 "),
    ]:
        assert old in text
        text = text.replace(old, new)
    plain = duckdb.connect()
    for path in DATA.glob("*.parquet"):
        (folder / path.name).symlink_to(path)
        plain.execute(f"CREATE VIEW {path.stem} AS FROM '{path}'")
    (folder / "clinic.toml").write_text(text, encoding="utf-8")
    with dpsql.connect(str(folder / "clinic.toml"), analyst="anna") as connection:
        yield connection, plain


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT clinic, 60*AVG(minutes/240)/AVG(cost/200) AS r FROM visits GROUP BY clinic "
        "ORDER BY clinic LIMIT 2",
        "SELECT COUNT(*), MIN(h) FROM (SELECT clinic, AVG(minutes/240) AS h FROM visits GROUP BY clinic) t",
        "SELECT COUNT(*), MIN(d) / 10000 FROM (SELECT date_trunc('month', visit_date) AS m, "
        "COUNT(*) FILTER (WHERE minutes>30) - COUNT(*) FILTER (WHERE minutes<=30) AS d "
        "FROM visits GROUP BY 1) t",
    ],
)
@pytest.mark.sampled(3)
def test_small_averages_and_negative_differences_are_of_groups(
    statement: str, clinic: tuple[Any, duckdb.DuckDBPyConnection]
) -> None:
    private, plain = clinic
    got, meant = private.execute(statement).fetchall(), plain.sql(statement).fetchall()
    assert len(got) == len(meant)
    for one, other in zip(got, meant, strict=True):  # rows of a patient beyond 20 are weighted down
        assert one == tuple(pytest.approx(v, abs=0.3) if isinstance(v, float) else v for v in other)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT MIN(s) / 1e5, SUM(s) / 1e5 FROM (SELECT k, SUM(s) AS s FROM profits GROUP BY k) t",
        "SELECT AVG(s) / 1e5, COUNT(*) FROM (SELECT k, SUM(s) AS s, COUNT(*) FROM profits GROUP BY k) t",
        "SELECT k FROM (SELECT k, SUM(s) AS s FROM profits WHERE k <> 'e' GROUP BY k) t WHERE s < 0",
        "SELECT k, 1000/s FROM (SELECT k, SUM(s) AS s FROM profits WHERE k <> 'e' GROUP BY k) t",
        "SELECT k, 1000/SUM(s) AS r FROM profits WHERE k <> 'e' GROUP BY k",
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_negative_sums_are_of_groups(statement: str, small: NearlyExact) -> None:
    small.agrees(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT k, AVG(x), COUNT(*) FROM t WHERE k <> 'c' GROUP BY k",
        "SELECT k, AVG(y) FILTER (WHERE x > 100), COUNT(*) FROM t WHERE k <> 'c' GROUP BY k",
        "SELECT k, AVG(x) FROM t WHERE k <> 'c' GROUP BY k",
        "SELECT k, AVG(CASE WHEN x > 1 THEN 1 WHEN x IS NULL THEN NULL ELSE 0 END) FROM t "
        "WHERE k <> 'c' GROUP BY k",
        "SELECT COUNT(*) FROM (SELECT k, AVG(x) FROM t WHERE k <> 'c' GROUP BY k) z",
        "SELECT k, STDDEV(x), COUNT(*) FROM t WHERE k <> 'c' GROUP BY k",
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_an_average_of_nothing_is_null_in_a_group_that_is_there(statement: str, small: NearlyExact) -> None:
    small.agrees(statement, within=0.1)


LEFT_OUT = "SQL has no groups without rows: 1 of {}, whose n rounds to 0, left out"
COUNTED = "SQL has no groups without rows: 1 of {}, whose number of rows rounds to 0, left out"


@pytest.mark.parametrize(
    ("statement", "note"),
    [
        ("SELECT COUNT(*), AVG(n) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) z", LEFT_OUT.format(3)),
        ("SELECT MIN(n) FROM (SELECT k, COUNT(DISTINCT u) AS n FROM t GROUP BY k) z", LEFT_OUT.format(3)),
        (
            "SELECT MAX(s) FROM (SELECT k, -SUM(y) AS s, COUNT(u) AS n FROM t GROUP BY k) z",
            LEFT_OUT.format(3),
        ),
        (
            "SELECT COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k ORDER BY n LIMIT 3) z",
            LEFT_OUT.format(3),
        ),
        (
            "SELECT k, SUM(y) / n FROM (SELECT k, SUM(y) AS y, COUNT(*) AS n FROM t GROUP BY k) z "
            "GROUP BY k, n",
            LEFT_OUT.format(3),
        ),
        (
            "WITH r AS (SELECT k, COUNT(*) AS n FROM t GROUP BY k) "
            "SELECT k FROM r WHERE n >= (SELECT AVG(n) - 1 FROM r)",
            LEFT_OUT.format(3),
        ),
        (
            "WITH r AS (SELECT k, COUNT(*) AS n FROM t GROUP BY k) "
            "SELECT k FROM (VALUES ('a'), ('c')) AS v(k) WHERE k NOT IN (SELECT k FROM r)",
            LEFT_OUT.format(3),
        ),
        (
            "WITH r AS (SELECT k, COUNT(*) AS n FROM t GROUP BY k) "
            "SELECT v.k FROM (VALUES ('a'), ('c')) AS v(k) LEFT JOIN r USING (k) WHERE r.n IS NULL",
            LEFT_OUT.format(3),
        ),
        (
            "SELECT COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING SUM(y) > -40) z",
            LEFT_OUT.format(3),
        ),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_a_count_that_is_asked_for_decides_and_what_it_leaves_out_is_told(
    statement: str, note: str, small: NearlyExact
) -> None:
    small.agrees(statement)
    assert note in small.notes(statement)


@pytest.mark.parametrize(
    ("statement", "of"),
    [
        ("SELECT COUNT(*) FROM (SELECT k, AVG(x) FROM t GROUP BY k) z", 3),
        ("SELECT COUNT(*), MIN(s) < -4e5 FROM (SELECT k, SUM(s) AS s FROM profits GROUP BY k) z", 5),
        ("SELECT COUNT(*) FROM (SELECT k, COUNT(*) FILTER (WHERE f = 9) AS n FROM profits GROUP BY k) z", 5),
        ("SELECT k, AVG(SUM(y)) OVER (), MAX(SUM(y)) OVER () FROM t GROUP BY k", 3),
        ("SELECT k, SUM(y) AS s FROM t GROUP BY k ORDER BY k DESC LIMIT 1", 3),
        ("SELECT k, SUM(y) AS s FROM t GROUP BY k ORDER BY k DESC OFFSET 1", 3),
        ("SELECT k, s FROM (SELECT k, SUM(y) AS s FROM t GROUP BY k) z ORDER BY k DESC LIMIT 1", 3),
        ("SELECT COUNT(*), MAX(m) FROM (SELECT k, MEDIAN(y) AS m FROM t GROUP BY k) z", 3),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_what_no_count_is_asked_of_is_counted_besides(statement: str, of: int, small: NearlyExact) -> None:
    small.agrees(statement)
    assert COUNTED.format(of) in small.notes(statement)


@pytest.mark.parametrize("item", ["COUNT(*) AS n", "2 * COUNT(*) AS n"])
@pytest.mark.parametrize("rest", ["LIMIT 1 OFFSET 1", "FETCH FIRST 2 ROWS ONLY"])
def test_the_smallest_groups_are_selected_and_may_have_no_rows(
    item: str, rest: str, small: NearlyExact
) -> None:
    statement = f"SELECT k, {item} FROM t WHERE u >= 10 GROUP BY k ORDER BY COUNT(*) {rest}"
    assert len(small.rows(statement)) == (1 if "OFFSET" in rest else 2)
    told = "1 of the 2 smallest groups may have no rows: declared groups without rows count as 0 here"
    assert f"{told}; SQL has such groups only by an outer join" in small.notes(statement)
    assert not any("left out" in note for note in small.notes(statement))


@pytest.mark.parametrize(
    "rest",
    [
        "ORDER BY k DESC LIMIT 1",
        "ORDER BY k DESC LIMIT 1 OFFSET 1",
        "ORDER BY k OFFSET 1",
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_limits_count_no_group_without_rows(rest: str, small: NearlyExact) -> None:
    statement = f"SELECT k, COUNT(*) AS n FROM t WHERE u >= 10 GROUP BY k {rest}"
    small.agrees(statement)
    assert LEFT_OUT.format(3) in small.notes(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT k, COUNT(*) FROM t GROUP BY k",
        "SELECT SUM(n) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) z",
        "SELECT k, SUM(1 * n) OVER (ORDER BY k) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) z",
        "SELECT k, n / 7 FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) z WHERE n < 1000",
        "SELECT k, SUM(y) / AVG(y) FROM t GROUP BY k",
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_nothing_else_drops_a_row_or_says_so(statement: str, small: NearlyExact) -> None:
    found = small.rows(statement)
    assert len(found) == (1 if "SUM(n)" in statement else 3)
    assert not [note for note in small.notes(statement) if note.startswith("SQL has no groups")]


@pytest.mark.parametrize(
    "quotient",
    [
        "1.0 * COUNT(y) / COUNT(*) FILTER (WHERE y = 9)",
        "1.0 * COUNT(y) / COUNT(x)",
        "1.0 * COUNT(y) / NULLIF(COUNT(x), 0)",
        "COUNT(y) / (2 * COUNT(x)::DOUBLE)",
        "AVG(CASE WHEN x > 1 THEN 1 WHEN x IS NULL THEN NULL ELSE 0 END)",
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_a_quotient_by_a_count_that_rounds_to_0_is_null(quotient: str, small: NearlyExact) -> None:
    statement = f"SELECT k, {quotient} AS q FROM t WHERE k <> 'c' GROUP BY k"
    meant = [(k, None if q == float("inf") else q) for k, q in small.meant(statement)]
    assert small.rows(statement) == [(k, q and pytest.approx(q, abs=0.05)) for k, q in meant]
    gone = 2 if "y = 9" in quotient else 1
    assert [
        n for n in small.notes(statement) if n.endswith(f": NULL where it rounds to 0, in {gone} of 2 groups")
    ]


def test_a_quotient_by_a_single_count_that_rounds_to_0_is_told(small: NearlyExact) -> None:
    statement = (
        "SELECT k, n / m AS q FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k), "
        "(SELECT COUNT(*) AS m FROM t WHERE y = 9)"
    )
    assert {q for _, q in small.rows(statement)} == {None}
    assert "divided by m: NULL as it rounds to 0" in small.notes(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT k FROM t GROUP BY k QUALIFY COUNT(*) < 5 + AVG(COUNT(*)) OVER ()",
        "SELECT k, LAG(k) OVER (ORDER BY k DESC) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) z",
        "SELECT k, LEAD(s) OVER (ORDER BY k) IS NULL FROM (SELECT k, SUM(y) AS s FROM t GROUP BY k) z",
        "SELECT k, RANK() OVER (ORDER BY s) FROM (SELECT k, SUM(x - 90) AS s FROM t GROUP BY k) z",
        "SELECT k, RANK() OVER (ORDER BY SUM(CASE WHEN k = 'a' THEN 1 ELSE y END)) AS r FROM t GROUP BY k",
        "SELECT k, LAST_VALUE(k) OVER (ORDER BY k ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) "
        "FROM (SELECT k, AVG(y) AS s FROM t GROUP BY k) z",
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_windows_by_places_of_rows_see_no_group_without_rows(statement: str, small: NearlyExact) -> None:
    assert small.rows(statement) == small.meant(statement)


@pytest.mark.parametrize(
    ("column", "inner", "counts"),
    [
        ("LAG(s) OVER (ORDER BY k)", "k, SUM(y) AS s", 1),
        ("LAG(s) OVER (ORDER BY k)", "k, COUNT(*) AS s", 1),
        ("LAG(s) OVER (ORDER BY k)", "k, SUM(y, contribution_bounds => AUTO) AS s", 1),
        ("SUM(s) OVER (ORDER BY k)", "k, SUM(y) AS s", 0),
        ("s", "k, SUM(y) AS s", 0),
        ("LAG(s) OVER (ORDER BY k)", "x AS k, SUM(y) AS s", 0),  # undeclared groups are those that are found
    ],
)
def test_rows_are_counted_besides_for_windows_by_places_alone(
    column: str, inner: str, counts: int, small: NearlyExact
) -> None:
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 1) " if "x AS" in inner else ""
    statement = f"EXPLAIN SELECT k, {column} FROM (SELECT {options}{inner} FROM t GROUP BY 1) z"
    numbers = [words for name, words in small.rows(statement) if name.startswith("number ")]
    assert sum("number of rows" in words for words in numbers) == counts


def test_explain_says_what_will_be_decided(small: NearlyExact) -> None:
    statement = "EXPLAIN SELECT COUNT(*) FROM (SELECT k, {} FROM t GROUP BY k) z"
    found = dict(small.rows(statement.format("COUNT(*) AS n")))
    assert "those whose n rounds to 0 are left out" in found["warnings"]
    counted = dict(small.rows(statement.format("AVG(x)")))
    assert "those whose number of rows rounds to 0 are left out" in counted["warnings"]


def test_groups_of_undeclared_keys_were_found_by_their_numbers_of_units(small: NearlyExact) -> None:
    statement = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 1) COUNT(*), COUNT(s) > 0 "
        "FROM (SELECT y, SUM(x) AS s FROM t GROUP BY y) z"
    )
    assert small.rows(statement) == [(1, True)]
    assert not [note for note in small.notes(statement) if note.startswith("SQL has no groups")]


NULLS = """
CREATE TABLE few AS
SELECT i AS u, CASE WHEN i < 40 THEN 'a' WHEN i < 70 THEN 'b' END AS k, i % 7 AS y FROM range(100) AS r(i);
CREATE TABLE none AS
SELECT i AS u, CASE WHEN i < 40 THEN 'a' ELSE 'b' END AS k, i % 7 AS y FROM range(100) AS r(i);
"""
NULL_POLICY = """
[tables.{name}]
source = "{name}"
unit = "u"
unique = [["u"]]
domain = {{ k = ["a", "b"] }}
bounds = {{ y = {{ from = 0, to = 10 }} }}
"""


@pytest.fixture(scope="module")
def nulls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NearlyExact]:
    policy = "".join(NULL_POLICY.format(name=name) for name in ("few", "none"))
    found = nearly_exact(tmp_path_factory.mktemp("nulls"), NULLS, policy)
    yield found
    found.private.close()


@pytest.mark.parametrize("table", ["few", "none"])
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT COUNT(*), AVG(n) FROM (SELECT k, COUNT(*) AS n FROM {0} GROUP BY k) z",
        "SELECT COUNT(*), MIN(n) FROM (SELECT k, COUNT(DISTINCT u) AS n, SUM(y) AS s FROM {0} GROUP BY k) z",
        "SELECT k, s / n FROM (SELECT k, SUM(y) AS s, COUNT(*) AS n FROM {0} GROUP BY k) z",
    ],
)
@pytest.mark.sampled(5)
def test_a_group_of_null_exists_where_its_own_count_shows_it(
    nulls: NearlyExact, table: str, statement: str
) -> None:
    asked = statement.format(table)
    nulls.agrees(asked)
    left_out = [
        note for note in nulls.notes(asked) if "group of NULL whose n is within its error of 0" in note
    ]
    assert bool(left_out) == (table == "none")


@pytest.mark.parametrize("limit", ["", "LIMIT 2"])
@pytest.mark.parametrize("window", ["MAX(COUNT(*)) OVER ()", "SUM(COUNT(*)) OVER ()"])
def test_a_largest_group_of_null_stays_beside_windows(nulls: NearlyExact, window: str, limit: str) -> None:
    nulls.agrees(f"SELECT k, COUNT(*) AS n, {window} AS w FROM few GROUP BY k ORDER BY n DESC {limit}")


def test_a_group_of_null_without_a_count_is_counted_besides(nulls: NearlyExact) -> None:
    nulls.agrees("SELECT COUNT(*), SUM(s) FROM (SELECT k, SUM(y) AS s FROM few GROUP BY k) z")


def test_a_group_of_null_is_a_row_where_nothing_depends_on_its_existence(nulls: NearlyExact) -> None:
    nulls.agrees("SELECT k, COUNT(*) AS n FROM few GROUP BY k")
    nulls.agrees("SELECT SUM(n) FROM (SELECT k, COUNT(*) AS n FROM few GROUP BY k) z")


def test_rows_are_counted_for_frames_of_rows(small: NearlyExact) -> None:
    statement = "SELECT k, SUM(s) OVER (ORDER BY k ROWS {}) FROM (SELECT k, SUM(y) AS s FROM t GROUP BY k) z"
    said = "SQL has no groups without rows: "
    assert any(note.startswith(said) for note in small.notes(statement.format("1 PRECEDING")))
    assert not any(said in note for note in small.notes(statement.format("UNBOUNDED PRECEDING")))


def test_the_largest_group_of_a_partition_by_rows_is_found_among_all(small: NearlyExact) -> None:
    """A part of epsilon for each partition would be less accurate; one without rows has no row."""
    ranked = "ROW_NUMBER() OVER (PARTITION BY k ORDER BY COUNT(*) DESC) = 1"
    statement = (
        f"SELECT k, COUNT(*) AS n FROM profits WHERE f < 1 + ascii(k) % 3 GROUP BY k, f QUALIFY {ranked}"
    )
    small.agrees(statement)
    assert dict(small.rows(f"EXPLAIN {statement}"))["selection"] == "all groups"


def test_equal_blocks_are_one_release_whoever_reads_them(small: NearlyExact) -> None:
    block = "(SELECT k, AVG(s) AS a FROM profits GROUP BY k)"
    small.agrees(f"SELECT k FROM {block} x WHERE a = (SELECT MAX(a) FROM {block} y)")


def test_beside_totals_no_empty_group_of_null(nulls: NearlyExact) -> None:
    for table, gone in (("none", True), ("few", False)):
        statement = f"SELECT k, COUNT(*) AS n FROM {table} GROUP BY ROLLUP (k)"
        keys = [k for k, _ in nulls.rows(statement)]
        assert keys.count(None) == (1 if gone else 2)
        assert any("of NULL" in note for note in nulls.notes(statement)) == gone


_FOUND = "SELECT w AS g, COUNT(*) AS n FROM visited GROUP BY g"
_OTHERS = "(SELECT w AS g, COUNT(*) AS n FROM visited WHERE f = 1 GROUP BY g)"


@pytest.mark.parametrize(
    ("statement", "answered"),
    [
        (f"SELECT a.g, a.n, b.n AS m FROM ({_FOUND}) a JOIN {_OTHERS} b ON a.g = b.g", True),
        (f"SELECT a.g, a.n FROM ({_FOUND}) a LEFT JOIN (SELECT 1 AS g) b ON a.g = b.g", True),
        (f"SELECT a.g, a.n, b.n AS m FROM ({_FOUND}) a LEFT JOIN {_OTHERS} b ON a.g = b.g", False),
        (f"SELECT a.g, a.n, b.n AS m FROM ({_FOUND}) a FULL JOIN {_OTHERS} b ON a.g = b.g", False),
        (f"SELECT a.g, a.n, b.n AS m FROM {_OTHERS} b RIGHT JOIN ({_FOUND}) a ON a.g = b.g", False),
        (f"WITH b AS ({_FOUND}) SELECT s.g, b.n FROM range(9) s(g) LEFT JOIN b ON s.g = b.g", False),
        (f"SELECT a.g FROM ({_FOUND}) a WHERE NOT EXISTS (SELECT 1 FROM {_OTHERS} b WHERE b.g = a.g)", False),
        (f"SELECT g FROM ({_FOUND}) EXCEPT SELECT g FROM {_OTHERS}", False),
    ],
)
def test_groups_that_are_not_shown_are_not_taken_for_absent(
    tmp_path: Path, statement: str, answered: bool
) -> None:
    rows = "CREATE TABLE visited AS SELECT i % 200 AS u, i % 7 AS w, i % 3 AS f FROM range(2000) AS r(i);"
    table = '[tables.visited]\nsource = "visited"\nunit = "u"\n'
    found = nearly_exact(tmp_path, rows, table)
    try:
        if answered:
            found.rows(statement)
        else:
            with pytest.raises(dpsql.Error, match="say in how many groups"):
                found.rows(statement)
    finally:
        found.private.close()
