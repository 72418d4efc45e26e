"""`dpsql check` on planted faults: whom rows belong to, facts that are not written, NULLs, what is cut."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dpsql.owner import verify
from dpsql.policy import load
from dpsql.session import Session

POLICY = """
[budget]
epsilon = 1
[defaults]
rows_per_unit = 20
[tables.patients]
source = "patients.parquet"
unit = "patient_id"
unit_kind = "patient"
unique = [["patient_id"]]
[tables.patients.domain]
region = ["north", "south"]
[tables.encounters]
source = "encounters.parquet"
unit = "patient_id"
unit_kind = "patient"
unique = [["encounter_id"]]
not_null = ["ward"]
[tables.encounters.domain]
ward = { from = 1, to = 6 }
[tables.encounters.bounds]
cost = { from = 0, to = 500 }
[tables.lab_orders]
source = "lab_orders.parquet"
unit = { via = "encounter_id", table = "encounters", column = "encounter_id" }
unique = [["order_id"]]
[tables.results]
source = "results.parquet"
unit = { via = "order_id", table = "lab_orders", column = "order_id" }
"""
DATA = {
    "patients": "SELECT i AS patient_id, CASE WHEN i % 2 = 0 THEN 'north' ELSE 'south' END AS region "
    "FROM range(50) AS r(i)",
    "encounters": "SELECT 1000 + i AS encounter_id, i % 50 AS patient_id, 1 + i % 6 AS ward, "
    "i * 2.5::DOUBLE AS cost FROM range(200) AS r(i)",
    "lab_orders": "SELECT 5000 + i AS order_id, 1000 + i % 200 AS encounter_id, i % 50 AS patient_id "
    "FROM range(400) AS r(i)",
    "results": "SELECT 5000 + i % 400 AS order_id, i % 50 AS patient_id, i % 9 AS value "
    "FROM range(800) AS r(i)",
}


class Owner:
    """Keeps sources and a policy, and asks for a check."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.policy = folder, POLICY
        for table, sql in DATA.items():
            self.put(table, sql)

    def put(self, table: str, sql: str) -> None:
        duckdb.sql(f"COPY ({sql}) TO '{self.folder / table}.parquet'")

    def said(self, *levels: str) -> dict[str, str]:
        (self.folder / "dpsql.toml").write_text(self.policy)
        report = verify(load(self.folder / "dpsql.toml"))
        return {f.place: f.text for f in report.findings if f.level in (levels or ("note", "wrong"))}


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    return Owner(tmp_path)


def test_nothing_is_said_of_a_clean_file(owner: Owner) -> None:
    """Two ways lead to the patient in orders and results, and they agree in every row."""
    assert owner.said() == {}
    passed = owner.said("ok")
    assert passed["tables.results.unit"] == "every row finds its unit through lab_orders, encounters"


def test_a_unit_with_one_row_each(owner: Owner) -> None:
    owner.policy = POLICY.replace('unique = [["patient_id"]]\n', "")
    assert owner.said() == {
        "tables.patients.unit": "patient_id names each of 50 rows once: if that is so by construction, "
        'write unique = [["patient_id"]]: noise 20 times less'
    }
    owner.policy = owner.policy.replace("rows_per_unit = 20\n", "")
    assert owner.said()["tables.patients.unit"].endswith("counts of rows need no bound")
    owner.put("patients", f"{DATA['patients']} UNION ALL SELECT 7, 'north'")
    assert owner.said() == {}, "a patient has two rows"


def test_a_line_that_is_followed_holds(owner: Owner) -> None:
    """What check tells to write is accepted, and nothing is left to say."""
    owner.policy = POLICY.replace('unique = [["patient_id"]]\n', "")
    line = owner.said()["tables.patients.unit"].partition("write ")[2].partition(":")[0]
    owner.policy = owner.policy.replace("[tables.patients.domain]", f"{line}\n[tables.patients.domain]")
    assert owner.said() == {}


def test_nulls_are_a_group(owner: Owner) -> None:
    null = DATA["patients"].replace("ELSE 'south' END", "WHEN i > 9 THEN 'south' END")
    owner.put("patients", f"{null} UNION ALL SELECT NULL, NULL")
    assert owner.said() == {
        "tables.patients.unit": "1 row of 51 have no patient_id: they are never counted",
        "tables.patients.domain.region": "5 of 50 rows are NULL: a group of their own",
    }


def test_rows_outside_of_a_domain(owner: Owner) -> None:
    owner.policy = POLICY.replace("to = 6", "to = 4")
    said = owner.said()
    assert set(said) == {"tables.encounters.domain.ward"}
    assert said["tables.encounters.domain.ward"].startswith(
        "66 rows outside of the domain (33.00%), with 2 values: '5' (33 rows), '6' (33 rows). "
    )


def test_values_and_rows_that_are_cut(owner: Owner) -> None:
    owner.policy = POLICY.replace("to = 500", "to = 490").replace("rows_per_unit = 20", "rows_per_unit = 3")
    said = owner.said()
    assert set(said) == {"tables.encounters.bounds.cost", "defaults.rows_per_unit"}
    assert said["tables.encounters.bounds.cost"].startswith("1.50% of the values are cut")
    assert "of the rows of results count with less weight" in said["defaults.rows_per_unit"]
    assert "leave it out: each statement then finds a bound privately" in said["defaults.rows_per_unit"]


def test_rows_where_two_chains_disagree(owner: Owner) -> None:
    """The declared chain counts: who is named beside it has no protection in these rows."""
    owner.put(
        "results", DATA["results"].replace("i % 50 AS", "(CASE WHEN i < 7 THEN i + 1 ELSE i END) % 50 AS")
    )
    assert owner.said() == {
        "tables.results.columns.patient_id": "7 of 800 rows have another patient by it than by the path "
        "through lab_orders, encounters: the declared one counts, the other is not protected in them; "
        'correct them, or write unit = "patient_id" and unit_kind = "patient" if that is right'
    }


def test_a_chain_beside_a_declared_column(owner: Owner) -> None:
    """Of lab_orders, the column is declared: its encounters lead to others."""
    link = 'unit = { via = "encounter_id", table = "encounters", column = "encounter_id" }'
    owner.policy = POLICY.replace(link, 'unit = "patient_id"\nunit_kind = "patient"')
    assert owner.said() == {}
    owner.put("lab_orders", DATA["lab_orders"].replace("i % 50", "(i + (i < 3)::INT) % 50"))
    said = owner.said()
    assert said.pop("tables.lab_orders.columns.encounter_id") == (
        "3 of 400 rows have another patient by it than by patient_id: the declared one counts, the other is "
        "not protected in them; correct them, or write "
        'unit = { via = "encounter_id", table = "encounters", column = "encounter_id" } if that is right'
    )
    # The orders of results have these patients, too.
    assert set(said) == {"tables.results.columns.patient_id"}


def test_rows_that_lead_nowhere(owner: Owner) -> None:
    owner.put("lab_orders", f"{DATA['lab_orders']} WHERE i <> 5")
    owner.put("encounters", f"{DATA['encounters']} WHERE i <> 9")
    said = owner.said()
    assert (
        said["tables.lab_orders.unit"]
        == "2 rows of 399 have no unit through encounters: they are never counted"
    )
    assert said["tables.results.unit"] == (
        "6 rows of 800 have no unit through lab_orders, encounters: they are never counted"
    )


@pytest.mark.parametrize("table", ["encounters", "lab_orders"])
def test_a_key_of_a_path_that_occurs_twice(owner: Owner, table: str) -> None:
    owner.put(table, f"{DATA[table]} UNION ALL {DATA[table]} WHERE i = 0")
    wrong = owner.said("wrong")
    assert set(wrong) == {f"tables.{table}.unique[0]"}


def test_a_table_beside_a_path_is_told_of_it(owner: Owner) -> None:
    """Single rows are declared, where they lead to a patient in three hops."""
    owner.put("results", "SELECT 8000 + i AS result_id, 5000 + i % 400 AS order_id FROM range(800) AS r(i)")
    owner.put("comments", "SELECT 8000 + i AS result_id, i % 3 AS n FROM range(700) AS r(i)")
    more = '[tables.comments]\nsource = "comments.parquet"\nunit = "ROW"\n'
    owner.policy = POLICY + 'unique = [["result_id"]]\n' + more
    said = owner.said()
    line = '{ via = "result_id", table = "results", column = "result_id" }'
    assert set(said) == {"tables.comments.unit"}
    assert said["tables.comments.unit"].endswith(f"; write unit = {line}")
    owner.policy = owner.policy.replace('"ROW"', line)
    assert owner.said() == {}
    Session(load(owner.folder / "dpsql.toml")).close()
