"""Tables of a hospital whose rows find their patient through one another, as sources and in a policy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb

POLICY = """
[budget]
epsilon = 10
ledger = "l.sqlite"
[tables.encounters]
source = "encounters.parquet"
unit = "patient_id"
unit_kind = "patient"
unique = [["encounter_id"]]
[tables.lab_orders]
source = "lab_orders.parquet"
unit = { via = "encounter_id", table = "encounters", column = "encounter_id" }
unique = [["order_id"]]
[tables.results]
source = "results.parquet"
unit = { via = "order_id", table = "lab_orders", column = "order_id" }
"""
DATA = {
    "encounters": "SELECT 1000 + i AS encounter_id, i % 50 AS patient_id, 1 + i % 6 AS ward, "
    "i * 2.5::DOUBLE AS cost FROM range(200) AS r(i)",
    "lab_orders": "SELECT 5000 + i AS order_id, 1000 + i % 200 AS encounter_id, i % 50 AS patient_id "
    "FROM range(400) AS r(i)",
    "results": "SELECT 5000 + i % 400 AS order_id, i % 50 AS patient_id, i % 9 AS value "
    "FROM range(800) AS r(i)",
}
"""Each table's query. Beside the path, a column of each row names its patient."""


def put(folder: Path, data: Mapping[str, str], policy: str) -> Path:
    """Write the tables of queries as Parquet files, and a policy beside them; return its path."""
    for table, sql in data.items():
        duckdb.sql(f"COPY ({sql}) TO '{folder / table}.parquet'")
    path = folder / "dpsql.toml"
    path.write_text(policy)
    return path
