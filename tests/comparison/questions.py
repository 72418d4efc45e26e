"""The ten questions, their exact answers as SQL, and what an error of each is relative to."""

from __future__ import annotations

from typing import NamedTuple

TOP = 5


class Question(NamedTuple):
    """What is asked, in words, and the SQL of the exact answer: a key (0 where there is one number) and
    the number."""

    words: str
    exact: str


QUESTIONS = {
    "rows": Question("how many rows", "SELECT '0', COUNT(*) FROM data"),
    "units": Question("how many units", "SELECT '0', COUNT(DISTINCT unit) FROM data"),
    "units_by_kind": Question(
        "units of each of some ten groups", "SELECT kind, COUNT(DISTINCT unit) FROM data GROUP BY 1"
    ),
    "rows_by_kind": Question("rows of each group", "SELECT kind, COUNT(*) FROM data GROUP BY 1"),
    "total": Question("sum of a column", "SELECT '0', SUM(amount) FROM data"),
    "total_by_kind": Question("sum of each group", "SELECT kind, SUM(amount) FROM data GROUP BY 1"),
    "average": Question("average of a column", "SELECT '0', AVG(amount) FROM data"),
    "median": Question("median of a column", "SELECT '0', MEDIAN(amount) FROM data"),
    "top": Question(
        f"the {TOP} groups with most units, of many, with counts",
        "SELECT item, COUNT(DISTINCT unit) FROM data GROUP BY 1",
    ),
    "undeclared": Question(
        "units of each of many groups that nobody declared, at delta",
        "SELECT item, COUNT(DISTINCT unit) FROM data GROUP BY 1",
    ),
}
"""Of `undeclared` a group that is not shown counts as 0. `top` is measured against the counts of the
groups that it names."""
