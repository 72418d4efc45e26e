"""Tumult Analytics on Spark, in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any

Rows = Iterable[tuple[Any, ...]]


def prepared(file: str, given: dict[str, Any]) -> tuple[str, dict[str, Callable[[], Rows]]]:
    """Return the version, and what answers each question."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession
    from tmlt.analytics import (
        AddRowsWithID,
        ApproxDPBudget,
        KeySet,
        MaxGroupsPerID,
        MaxRowsPerGroupPerID,
        MaxRowsPerID,
        PureDPBudget,
        QueryBuilder,
        Session,
    )

    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "3g"}
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    frame = spark.read.parquet(file).select("unit", "kind", "item", "amount").cache()
    frame.count()
    epsilon, high = given["epsilon"], float(given["high"])
    kinds, items = KeySet.from_dict({"kind": given["kinds"]}), KeySet.from_dict({"item": given["items"]})

    def session(budget: Any) -> Any:
        return Session.from_dataframe(budget, "data", frame, protected_change=AddRowsWithID("unit"))

    def ask(query: Any) -> Rows:
        found = session(PureDPBudget(epsilon)).evaluate(query, PureDPBudget(epsilon)).collect()
        return [tuple(row) if len(row) > 1 else ("0", row[0]) for row in found]

    def limited() -> Any:
        return QueryBuilder("data").enforce(MaxRowsPerID(given["rows"]))

    def once(key: str, limit: int) -> Any:
        return QueryBuilder("data").enforce(MaxGroupsPerID(key, limit)).enforce(MaxRowsPerGroupPerID(key, 1))

    def top() -> Rows:
        """Take the largest of all noisy counts: it has no selection."""
        found = ask(once("item", given["items_of_unit"]).groupby(items).count())
        return sorted(found, key=lambda each: -each[1])[:5]

    def undeclared() -> Rows:
        """Find the groups with half of epsilon and delta, and count them with the other half."""
        limit = given["items_of_unit"]
        both = session(ApproxDPBudget(epsilon, given["delta"]))
        find = (
            QueryBuilder("data")
            .enforce(MaxGroupsPerID("item", limit))
            .enforce(MaxRowsPerGroupPerID("item", 1))
        )
        groups = both.evaluate(find.get_groups(["item"]), ApproxDPBudget(epsilon / 2, given["delta"]))
        keys = KeySet.from_dataframe(groups)
        return [
            tuple(row)
            for row in both.evaluate(find.groupby(keys).count(), ApproxDPBudget(epsilon / 2, 0)).collect()
        ]

    return version("tmlt.analytics"), {
        "rows": lambda: ask(limited().count()),
        "units": lambda: ask(QueryBuilder("data").enforce(MaxRowsPerID(1)).count()),
        "units_by_kind": lambda: ask(once("kind", given["kinds_of_unit"]).groupby(kinds).count()),
        "rows_by_kind": lambda: ask(limited().groupby(kinds).count()),
        "total": lambda: ask(limited().sum("amount", 0, high)),
        "total_by_kind": lambda: ask(limited().groupby(kinds).sum("amount", 0, high)),
        "average": lambda: ask(limited().average("amount", 0, high)),
        "median": lambda: ask(limited().median("amount", 0, high)),
        "top": top,
        "undeclared": undeclared,
    }
