"""OpenDP's mechanisms on exact counts and sums of DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any

from worker import EPSILON, KINDS, LARGEST, LIMITED, ROWS, TOP

Rows = Iterable[tuple[float, ...]]


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

    cents = f"CAST(100 * least(greatest(amount, 0), {LARGEST}) AS BIGINT)"

    def ranged(keys: list[int], values: list[int], distance: int, epsilon: float, unit: int = 1) -> Rows:
        """Return released values with their intervals of the noise, which is all that OpenDP knows of."""
        half = dp.discrete_laplacian_scale_to_accuracy(scale=distance / epsilon, alpha=0.05)
        noisy = released(values, distance, epsilon)
        return [(k, v / unit, (v - half) / unit, (v + half) / unit) for k, v in zip(keys, noisy, strict=True)]

    def rows(key: str, epsilon: float = EPSILON) -> Rows:
        keys, found = table(f"SELECT {key} AS key, COUNT(*) AS n FROM ({LIMITED}) GROUP BY 1")
        return ranged(keys, found, ROWS, epsilon)

    def total(epsilon: float = EPSILON) -> Rows:
        _, found = table(f"SELECT 0 AS key, CAST(SUM({cents}) AS BIGINT) AS n FROM ({LIMITED})")
        return ranged([0], found, ROWS * LARGEST * 100, epsilon, 100)

    def average() -> Rows:
        whole, number = (next(iter(found))[1] for found in (total(EPSILON / 2), rows("0", EPSILON / 2)))
        return [(0, whole / max(number, 1))]

    def largest() -> Rows:
        keys, found = table(f"SELECT item AS key, COUNT(*) AS n FROM ({LIMITED}) GROUP BY item")
        domain = dp.vector_domain(dp.atom_domain(T="i64"))
        distance = dp.linf_distance(T="i64", monotonic=True)
        scale = 2 * TOP * ROWS / EPSILON
        select = dp.m.make_noisy_top_k(domain, distance, dp.max_divergence(), k=TOP, scale=scale)
        assert select.map(ROWS) <= EPSILON / 2 * (1 + 1e-9)
        chosen = select(found)
        return ranged([keys[i] for i in chosen], [found[i] for i in chosen], ROWS, EPSILON / 2)

    whole = {
        "COUNT": lambda: rows("0"),
        "SUM": total,
        "AVG": average,
        "TOP 10": largest,
        "GROUP BY": lambda: rows("kind"),
    }
    return version("opendp"), {"top": top, "counts": counts, "sums": sums, **whole}
