"""SmartNoise SQL, which rewrites a statement, has pandas count, and adds noise to what is counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any

Rows = Iterable[tuple[Any, ...]]

STATEMENTS = {
    "rows": "SELECT COUNT(*) AS n FROM made.data",
    "units": "SELECT COUNT(DISTINCT unit) AS n FROM made.data",
    "units_by_kind": "SELECT kind, COUNT(DISTINCT unit) AS n FROM made.data GROUP BY kind",
    "rows_by_kind": "SELECT kind, COUNT(*) AS n FROM made.data GROUP BY kind",
    "total": "SELECT SUM(amount) AS n FROM made.data",
    "total_by_kind": "SELECT kind, SUM(amount) AS n FROM made.data GROUP BY kind",
    "average": "SELECT AVG(amount) AS n FROM made.data",
    "top": "SELECT item, COUNT(DISTINCT unit) AS n FROM made.data GROUP BY item ORDER BY n DESC LIMIT 5",
    "undeclared": "SELECT item, COUNT(DISTINCT unit) AS n FROM made.data GROUP BY item",
}


def prepared(file: str, given: dict[str, Any]) -> tuple[str, dict[str, Callable[[], Rows]]]:
    """Return the version, and what answers each question."""
    import pandas
    import snsql

    frame = pandas.read_parquet(file, columns=["unit", "kind", "item", "amount"])

    def described(question: str) -> dict[str, Any]:
        table = {
            "row_privacy": False,
            "max_ids": {
                "units": 1,
                "units_by_kind": given["kinds_of_unit"],
                "top": given["items_of_unit"],
                "undeclared": given["items_of_unit"],
            }.get(question, given["rows"]),
            "censor_dims": question == "undeclared",
            "clamp_counts": False,
            "unit": {"type": "int", "private_id": True},
            "kind": {"type": "string"},
            "item": {"type": "string"},
            "amount": {"type": "float", "lower": 0.0, "upper": float(given["high"])},
        }
        return {"": {"made": {"data": table}}}

    def ask(question: str) -> Rows:
        sql, epsilon = STATEMENTS[question], given["epsilon"]
        for parts in (1, 2, 3):  # its epsilon is for each number that it measures
            privacy = snsql.Privacy(epsilon=epsilon / parts, delta=given["delta"], alphas=[0.05])
            reader = snsql.from_df(frame, privacy=privacy, metadata=described(question))
            if reader.get_privacy_cost(sql)[0] <= epsilon * (1 + 1e-9):
                break
        half = None if question == "average" else reader.get_simple_accuracy(sql, 0.05)[-1]
        for row in list(reader.execute(sql))[1:]:
            key, number = row if len(row) > 1 else ("0", row[0])
            yield (key, number) if half is None else (key, number, number - half, number + half)

    return version("smartnoise-sql"), {q: lambda q=q: list(ask(q)) for q in STATEMENTS}  # type: ignore[misc]
