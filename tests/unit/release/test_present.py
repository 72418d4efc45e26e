"""The plain SELECT around a private statement: columns, order and limit of the released rows."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from dpsql.errors import QueryRefused
from dpsql.language import Query, parse
from dpsql.release import check_wrapper, present

INNER = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) page, COUNT(DISTINCT u) AS n "
    "FROM t GROUP BY page TOP 3"
)
ROWS = pa.table({"page": ["b", "a", "c", "a"], "n": [3, 1, None, 2]})


def query(text: str) -> Query:
    statement = parse(text.replace("%", f"({INNER})"))
    assert isinstance(statement, Query)
    return statement


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SELECT * FROM %", ROWS.to_pydict()),
        ("SELECT N, page FROM %", {"n": [3, 1, None, 2], "page": ["b", "a", "c", "a"]}),
        ("SELECT * FROM % ORDER BY page, n DESC", {"page": ["a", "a", "b", "c"], "n": [2, 1, 3, None]}),
        ("SELECT page FROM % ORDER BY n LIMIT 2", {"page": ["a", "a"]}),
        ("SELECT n, page FROM % ORDER BY 1 DESC LIMIT 1", {"n": [3], "page": ["b"]}),
        ("SELECT * FROM % LIMIT 0", {"page": [], "n": []}),
    ],
)
def test_the_released_rows_are_selected_sorted_and_cut(text: str, shown: dict[str, list[object]]) -> None:
    assert present(query(text), ROWS).to_pydict() == shown


def test_columns_of_equal_names_stay_apart() -> None:
    twice = pa.table([[1, 2], [4, 3]], names=["n", "n"])
    assert [c.to_pylist() for c in present(query("SELECT * FROM % ORDER BY 2"), twice)] == [[2, 1], [3, 4]]


def test_a_column_that_is_not_released_is_refused() -> None:
    for text in ("SELECT gone FROM %", "SELECT * FROM % ORDER BY gone", "SELECT * FROM % ORDER BY 3"):
        with pytest.raises(QueryRefused, match=r"there is no column (gone|3)"):
            check_wrapper(query(text), ["page", "n"])
    check_wrapper(query("SELECT n FROM % ORDER BY 2"), ["page", "n"])
    check_wrapper(replace(query("SELECT gone FROM %"), wrapper=None), ["page", "n"])
