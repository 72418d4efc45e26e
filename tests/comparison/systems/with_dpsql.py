"""dpsql with the bounds that the other systems are given."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Rows = Iterable[tuple[Any, ...]]

POLICY = """
[budget]
epsilon = 1000000
delta = 0.9
max_epsilon_per_query = 10
ledger = "ledger.sqlite"
[engine]
keep = 0
[tables.data]
source = "data.parquet"
unit = "unit"
unit_kind = "person"
not_null = {not_null}
[tables.data.domain]
kind.values = {kinds}
item.values = {items}
[tables.data.bounds]
amount = {{ from = 0, to = {high} }}
"""
INTERVAL = "DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high FROM data"
STATEMENTS = {
    "rows": f"COUNT(*) AS n, {INTERVAL}",
    "units": f"COUNT(DISTINCT unit) AS n, {INTERVAL}",
    "units_by_kind": f"kind, COUNT(DISTINCT unit) AS n, {INTERVAL} GROUP BY kind",
    "rows_by_kind": f"kind, COUNT(*) AS n, {INTERVAL} GROUP BY kind",
    "total": f"SUM(amount) AS n, {INTERVAL}",
    "total_by_kind": f"kind, SUM(amount) AS n, {INTERVAL} GROUP BY kind",
    "average": f"AVG(amount) AS n, {INTERVAL}",
    "median": "MEDIAN(amount) AS n FROM data",
    "top": f"item, COUNT(DISTINCT unit) AS n, {INTERVAL} GROUP BY item ORDER BY n DESC LIMIT 5",
    "undeclared": f"named, COUNT(DISTINCT unit) AS n, {INTERVAL} GROUP BY named",
}


def options(question: str, given: dict[str, Any], *, by_hand: bool) -> str:
    """Return the options of a statement; by hand also how many rows and groups of a unit count."""
    words = [f"epsilon = {given['epsilon']}", "fresh = TRUE"]
    if question == "undeclared":
        words.append(f"delta = {given['delta']:f}")
    if (
        by_hand
        and given["rows"] > 1
        and question in ("rows", "rows_by_kind", "total", "total_by_kind", "average", "median")
    ):
        words.append(f"max_rows_contributed = {given['rows']}")
    if by_hand and question in ("units_by_kind", "undeclared"):
        limit = given["kinds_of_unit" if question == "units_by_kind" else "items_of_unit"]
        words.append(f"max_groups_contributed = {limit}")
    return ", ".join(words)


def prepared(
    file: str, given: dict[str, Any], *, by_hand: bool = True
) -> tuple[str, dict[str, Callable[[], Rows]]]:
    """Return the version, and what answers each question."""
    import dpsql

    policy = Path(file).with_name("by_hand.toml" if by_hand else "found.toml")
    domains = {name: json.dumps([v for v in given[name] if v is not None]) for name in ("kinds", "items")}
    full = [*(["kind"] * (None not in given["kinds"])), *(["item", "named"] * (None not in given["items"]))]
    text = POLICY.format(**given | domains, not_null=json.dumps([*full, "amount"]))
    if given["rows"] == 1:
        text = text.replace('unit_kind = "person"', 'unit_kind = "person"\nunique = [["unit"]]')
    if not by_hand:
        text = text.partition("[tables.data.bounds]")[0].replace("ledger.sqlite", "found.sqlite")
    policy.write_text(text)
    connection = dpsql.connect(str(policy), analyst="analyst")

    def ask(question: str) -> Rows:
        head = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options(question, given, by_hand=by_hand)})"
        rows = connection.execute(f"{head} {STATEMENTS[question]}").fetchall()
        return rows if "GROUP BY" in STATEMENTS[question] else [("0", *rows[0])]

    return dpsql.__version__, {question: lambda q=question: ask(q) for question in STATEMENTS}  # type: ignore[misc]
