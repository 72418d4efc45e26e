"""OpenDP's mechanisms on exact counts and sums of DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any

from worker import EPSILON, KINDS, LARGEST, LIMITED, ROWS, TOP

Rows = Iterable[tuple[int, float]]


def prepared(file: str) -> tuple[str, dict[str, Callable[[], Rows]]]:
    """Return the version, and what answers each question."""
    import duckdb
    import opendp.prelude as dp

    dp.enable_features("contrib")
    connection = duckdb.connect()

    def table(sql: str) -> tuple[list[int], list[int]]:
        found: Any = connection.sql(sql.replace("{file}", file)).fetchnumpy()
        return found["key"].tolist(), found["n"].tolist()

    def released(values: list[int], distance: int, epsilon: float) -> list[int]:
        domain = dp.vector_domain(dp.atom_domain(T="i64"))
        laplace = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=distance / epsilon)
        assert laplace.map(distance) <= epsilon * (1 + 1e-9)
        return list(laplace(values))

    def top() -> Rows:
        keys, counts = table("SELECT item AS key, COUNT(DISTINCT user_id) AS n FROM '{file}' GROUP BY item")
        domain, distance = (
            dp.vector_domain(dp.atom_domain(T="i64")),
            dp.linf_distance(T="i64", monotonic=True),
        )
        select = dp.m.make_noisy_top_k(domain, distance, dp.max_divergence(), k=TOP, scale=2 * TOP / EPSILON)
        assert select.map(1) <= EPSILON / 2 * (1 + 1e-9)
        found = select(counts)
        # A user may be among all that are released.
        return zip(
            (keys[i] for i in found), released([counts[i] for i in found], TOP, EPSILON / 2), strict=True
        )

    def counts() -> Rows:
        keys, found = table("SELECT kind AS key, COUNT(DISTINCT user_id) AS n FROM '{file}' GROUP BY kind")
        return zip(keys, released(found, KINDS, EPSILON), strict=True)

    def sums() -> Rows:
        cents = f"CAST(100 * least(greatest(amount, 0), {LARGEST}) AS BIGINT)"
        keys, found = table(
            f"SELECT kind AS key, CAST(SUM({cents}) AS BIGINT) AS n FROM ({LIMITED}) GROUP BY kind"
        )
        noisy = released(found, ROWS * LARGEST * 100, EPSILON)
        return zip(keys, (value / 100 for value in noisy), strict=True)

    return version("opendp"), {"top": top, "counts": counts, "sums": sums}
