"""diffprivlib's mechanisms, in floating point, on exact counts and sums of DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any

from worker import EPSILON, KINDS, LARGEST, LIMITED, ROWS, TOP

Rows = Iterable[tuple[float, ...]]


def prepared(file: str) -> tuple[str, dict[str, Callable[[], Rows]]]:
    """Return the version, and what answers each question."""
    import duckdb
    from diffprivlib.mechanisms import Geometric, Laplace, PermuteAndFlip

    connection = duckdb.connect()

    def table(sql: str) -> tuple[list[int], list[Any]]:
        found: Any = connection.sql(sql.replace("{file}", file)).fetchnumpy()
        return found["key"].tolist(), found["n"].tolist()

    def top() -> Rows:
        keys, found = table("SELECT item AS key, COUNT(DISTINCT user_id) AS n FROM '{file}' GROUP BY item")
        each, released = EPSILON / 2 / TOP, []
        count = Geometric(epsilon=each, sensitivity=1)
        for _ in range(TOP):
            index = PermuteAndFlip(epsilon=each, sensitivity=1, monotonic=True, utility=found).randomise()
            released.append((keys.pop(index), count.randomise(found.pop(index))))
        return released

    def counts() -> Rows:
        keys, found = table("SELECT kind AS key, COUNT(DISTINCT user_id) AS n FROM '{file}' GROUP BY kind")
        count = Geometric(epsilon=EPSILON / KINDS, sensitivity=1)
        return zip(keys, map(count.randomise, found), strict=True)

    def sums() -> Rows:
        amount = f"least(greatest(CAST(amount AS DOUBLE), 0), {LARGEST})"
        keys, found = table(f"SELECT kind AS key, SUM({amount}) AS n FROM ({LIMITED}) GROUP BY kind")
        total = Laplace(epsilon=EPSILON, sensitivity=ROWS * LARGEST)
        return zip(keys, map(total.randomise, found), strict=True)

    amount = f"least(greatest(CAST(amount AS DOUBLE), 0), {LARGEST})"

    def rows(key: str, epsilon: float = EPSILON) -> Rows:
        keys, found = table(f"SELECT {key} AS key, COUNT(*) AS n FROM ({LIMITED}) GROUP BY 1")
        count = Geometric(epsilon=epsilon, sensitivity=ROWS)
        return list(zip(keys, map(count.randomise, found), strict=True))

    def total(epsilon: float = EPSILON) -> Rows:
        _, (found,) = table(f"SELECT 0 AS key, SUM({amount}) AS n FROM ({LIMITED})")
        return [(0, Laplace(epsilon=epsilon, sensitivity=ROWS * LARGEST).randomise(found))]

    def average() -> Rows:
        whole, number = (next(iter(found))[1] for found in (total(EPSILON / 2), rows("0", EPSILON / 2)))
        return [(0, whole / max(number, 1))]

    def largest() -> Rows:
        keys, found = table(f"SELECT item AS key, COUNT(*) AS n FROM ({LIMITED}) GROUP BY item")
        each, released = EPSILON / 2 / TOP, []
        count = Geometric(epsilon=EPSILON / 2, sensitivity=ROWS)  # of all groups together
        for _ in range(TOP):
            index = PermuteAndFlip(epsilon=each, sensitivity=ROWS, monotonic=True, utility=found).randomise()
            released.append((keys.pop(index), count.randomise(found.pop(index))))
        return released

    whole = {
        "COUNT": lambda: rows("0"),
        "SUM": total,
        "AVG": average,
        "TOP 10": largest,
        "GROUP BY": lambda: rows("kind"),
    }
    return version("diffprivlib"), {"top": top, "counts": counts, "sums": sums, **whole}
