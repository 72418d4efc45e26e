"""Answers say that rows without a unit are never counted, unless the policy or the database excludes them."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import dpsql
from dpsql.errors import Error
from tests.nearly_exact import NearlyExact, nearly_exact

DATA = """
CREATE TABLE open_ (u INTEGER, x INTEGER, d DATE);
CREATE TABLE sure (u INTEGER NOT NULL, x INTEGER);
CREATE TABLE said (u INTEGER, x INTEGER);
CREATE TABLE child (x_id INTEGER, y INTEGER);
INSERT INTO open_ SELECT i % 40, i, DATE '2024-01-01' FROM range(100) AS r(i);
INSERT INTO open_ VALUES (NULL, 1, DATE '2024-01-01');
INSERT INTO sure SELECT i % 40, i FROM range(100) AS r(i);
INSERT INTO said SELECT i % 40, i FROM range(100) AS r(i);
INSERT INTO child SELECT i, i FROM range(200) AS r(i);
"""
POLICY = """
[tables.open_]
source = "open_"
unit = "u"
[tables.sure]
source = "sure"
unit = "u"
[tables.said]
source = "said"
unit = "u"
unique = [["x"]]
not_null = ["u"]
[tables.child]
source = "child"
unit = { via = "x_id", table = "said", column = "x" }
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NearlyExact]:
    found = nearly_exact(tmp_path_factory.mktemp("nobody"), DATA, POLICY)
    yield found
    found.private.close()


def line(small: NearlyExact, statement: str) -> str:
    return str(small.private.execute(statement).release.line)


def test_the_line_stands_whether_there_are_such_rows_or_not(small: NearlyExact) -> None:
    assert line(small, "SELECT COUNT(*) FROM open_").endswith("left out: rows of open_ without a u, if any")
    both = "SELECT (SELECT COUNT(*) FROM open_) / (SELECT COUNT(*) FROM sure) AS q"
    assert line(small, both).count("without a u, if any") == 1
    assert "rows of child that lead to no unit, if any" in line(small, "SELECT COUNT(*) FROM child")
    explained = dict(small.rows("EXPLAIN SELECT COUNT(*) FROM open_"))
    assert "rows of open_ without a u" in explained["left_out"]


def test_numbers_of_units_leave_none_out(small: NearlyExact) -> None:
    """SQL's COUNT(DISTINCT u) counts no NULL."""
    assert "without a u" not in line(small, "SELECT COUNT(DISTINCT u) FROM open_ WHERE x > 3")
    assert "without a u" in line(small, "SELECT COUNT(DISTINCT u), COUNT(*) FROM open_")


@pytest.mark.parametrize("table", ["sure", "said"])
def test_what_has_no_null_has_no_line(small: NearlyExact, table: str) -> None:
    assert "without a u" not in line(small, f"SELECT COUNT(*), SUM(x) FROM {table}")


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("open_ o JOIN sure s ON o.u = s.u", False),
        ("open_ o JOIN sure s USING (u)", False),
        ("sure s LEFT JOIN open_ o ON s.u = o.u AND o.x > 3", False),
        ("open_ o LEFT JOIN sure s ON s.u = o.u", True),
        ("sure s RIGHT JOIN open_ o ON s.u = o.u", True),
        ("open_ o JOIN sure s ON o.u = s.u JOIN (SELECT u FROM open_ WHERE x > 3) p ON p.u = o.u", True),
        ("said s JOIN child c ON c.x_id = s.x", False),
        ("said s LEFT JOIN child c ON c.x_id = s.x", False),
        ("child c LEFT JOIN said s ON c.x_id = s.x", True),
    ],
)
def test_a_join_that_keeps_none_has_no_line(small: NearlyExact, rows: str, told: bool) -> None:
    """A row without a unit has no partner in SQL either: none of these is counted there."""
    found = line(small, f"SELECT COUNT(*) FROM {rows}")
    assert (", if any" in found) is told
    (exact,) = small.plain.execute(f"SELECT COUNT(*) FROM {rows}").fetchall()[0]
    assert told or abs(small.rows(f"SELECT COUNT(*) FROM {rows}")[0][0] - exact) < 1


def test_a_false_declaration_opens_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("false")
    policy = POLICY.replace('source = "open_"\n', 'source = "open_"\nnot_null = ["u"]\n')
    with pytest.raises(Error):
        nearly_exact(folder, DATA, policy).rows("SELECT COUNT(*) FROM open_")
    with duckdb.connect(str(folder / "data.duckdb")) as made:
        made.execute("DELETE FROM open_ WHERE u IS NULL")
    with dpsql.connect(str(folder / "dpsql.toml"), analyst="anna") as private:
        assert "without a u" not in str(private.execute("SELECT COUNT(*) FROM open_").release)
