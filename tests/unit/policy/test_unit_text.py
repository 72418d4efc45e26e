"""Who is protected in a table, in words: also where another table has the unit's column."""

from __future__ import annotations

from pathlib import Path

import duckdb

from dpsql.policy import load

POLICY = """
[budget]
epsilon = 1
[tables.encounters]
source = "t.parquet"
unit = "patient_id"
unique = [["encounter_id"]]
[tables.observations]
source = "t.parquet"
unit = { via = "encounter_id", table = "encounters", column = "encounter_id" }
[tables.readings]
source = "t.parquet"
unit = "ROW"
[tables.codes]
source = "t.parquet"
public = true
"""


def test_the_unit_of_a_child_table_is_its_parents(tmp_path: Path) -> None:
    duckdb.sql(f"COPY (SELECT 1 AS patient_id, 1 AS encounter_id) TO '{tmp_path}/t.parquet'")
    (tmp_path / "dpsql.toml").write_text(POLICY)
    policy = load(tmp_path / "dpsql.toml")
    assert {table.name: policy.unit_text(table) for table in policy.tables.values()} == {
        "encounters": "patient_id",
        "observations": "patient_id of encounters",
        "readings": "ROW",
        "codes": "public",
    }
