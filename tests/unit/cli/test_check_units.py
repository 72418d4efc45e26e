"""`dpsql check` on planted faults: whom rows belong to, facts that are not written, NULLs, what is cut."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from dpsql.errors import OperationalError
from dpsql.owner import verify
from dpsql.policy import load
from dpsql.session import Session
from tests import paths

PATIENTS = """
[defaults]
rows_per_unit = 20
[tables.patients]
source = "patients.parquet"
unit = "patient_id"
unit_kind = "patient"
unique = [["patient_id"]]
[tables.patients.domain]
region = ["north", "south"]
[tables.encounters.domain]
ward = { from = 1, to = 6 }
[tables.encounters.bounds]
cost = { from = 0, to = 500 }
"""
POLICY = PATIENTS + paths.POLICY.replace(
    'unique = [["encounter_id"]]', 'unique = [["encounter_id"]]\nnot_null = ["ward"]'
)
DATA = {
    "patients": "SELECT i AS patient_id, CASE WHEN i % 2 = 0 THEN 'north' ELSE 'south' END AS region "
    "FROM range(50) AS r(i)",
    **paths.DATA,
}


class Owner:
    """Keeps sources and a policy, and asks for a check."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.policy = folder, POLICY
        paths.put(folder, DATA, POLICY)

    def put(self, table: str, sql: str) -> None:
        paths.put(self.folder, {table: sql}, self.policy)

    def said(self, *levels: str) -> dict[str, str]:
        report = verify(load(paths.put(self.folder, {}, self.policy)))
        return {f.place: f.text for f in report.findings if f.level in (levels or ("note", "wrong"))}

    def answers(self, statement: str) -> bool:
        """Whether a session reads the table as declared, and answers."""
        priced = statement.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1)")
        with closing(Session(load(paths.put(self.folder, {}, self.policy)))) as session:
            try:
                session.run(priced)
            except OperationalError as problem:
                return "cannot be read as declared" not in str(problem)
        return True


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


def test_intervals_of_the_noise_alone(owner: Owner) -> None:
    owner.policy = POLICY.replace("[tables.patients.domain]", 'cut = "NOISE_ONLY"\n[tables.patients.domain]')
    assert owner.said()["tables.patients.cut"].endswith("do not have what bounds cut, though it may be known")
    owner.policy = owner.policy.replace("NOISE_ONLY", "WHOLE")
    assert owner.said() == {}


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
    assert "of the rows of results, of" in said["defaults.rows_per_unit"]
    assert 'write rows_per_unit = "AUTO", or dpsql bounds results' in said["defaults.rows_per_unit"]


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


FACTS = """
unit = { via = "order_id", table = "lab_orders", column = "order_id" }
not_null = ["patient_id"]
[tables.results.domain]
value = { from = 0, to = 8, complete = true }
"""
NOBODYS = """
SELECT 5000 + i % 400 AS order_id, CASE WHEN i % 400 <> 5 THEN i % 50 END AS patient_id,
  CASE WHEN i % 400 = 5 THEN 99 ELSE i % 9 END AS value
FROM range(800) AS r(i)
"""
"""The results of one order have no patient and a value that is not declared."""
ASKED = "SELECT value, COUNT(*) AS n FROM results GROUP BY value"


def test_facts_are_about_rows_that_find_their_unit(owner: Owner) -> None:
    """`dpsql check` and what is tested when a table is read agree, also when only a parent changes."""
    owner.policy = POLICY.partition('\nunit = { via = "order_id"')[0] + FACTS
    owner.put("results", NOBODYS)
    wrong = owner.said("wrong")
    assert wrong == {
        "tables.results.not_null[0]": "patient_id is NULL in 2 rows that have a unit: leave it out, NULL is "
        "then a group",
        "tables.results.domain.value": "is not complete: 2 rows outside, 0 rows with NULL: leave that out",
    }
    assert not owner.answers(ASKED)
    owner.put("lab_orders", f"{DATA['lab_orders']} WHERE i <> 5")
    assert owner.said("wrong") == {}
    assert owner.answers(ASKED)
    owner.put("lab_orders", DATA["lab_orders"])
    assert not owner.answers(ASKED)


def test_a_complete_domain_is_tested_again_when_its_public_table_changes(owner: Owner) -> None:
    owner.put("wards", "SELECT i AS ward FROM range(1, 7) AS r(i)")
    wards = '[tables.wards]\nsource = "wards.parquet"\npublic = true\n'
    stated = '{ table = "wards", column = "ward", complete = true }'
    owner.policy = POLICY.replace("{ from = 1, to = 6 }", stated) + wards
    assert owner.said("wrong") == {}
    asked = ASKED.replace("value", "ward").replace("results", "encounters")
    assert owner.answers(asked)
    owner.put("wards", "SELECT i AS ward FROM range(1, 5) AS r(i)")
    assert not owner.answers(asked)
    text = "is not complete: 66 rows outside, 0 rows with NULL: leave that out"
    assert owner.said("wrong") == {"tables.encounters.domain.ward": text}


def test_a_complete_range_of_days_is_of_utc_also_where_a_zone_is_declared(owner: Owner) -> None:
    """23:30 of the last day in New York is the next day of UTC, as statements read it."""
    visits = """
[tables.visits]
source = "visits.parquet"
unit = "patient_id"
unit_kind = "patient"
zone = { at = "America/New_York" }
[tables.visits.domain]
at = { from = 2024-01-01, to = 2024-01-31, complete = true }
"""
    owner.policy = POLICY + visits
    rows = "SELECT i AS patient_id, TIMESTAMP '2024-01-31 {}:30:00' AS at FROM range(50) AS r(i)"
    owner.put("visits", rows.format(18))
    asked = "SELECT COUNT(*) AS n FROM visits"
    assert owner.answers(asked)
    owner.put("visits", rows.format(23))
    assert not owner.answers(asked)
    text = "is not complete: 50 rows outside, 0 rows with NULL: leave that out"
    assert owner.said("wrong") == {"tables.visits.domain.at": text}


def test_keys_that_are_of_several_units(owner: Owner) -> None:
    """How many values of shared keys belong to different units, and in how many rows."""
    columns = "1000 + i AS encounter_id, i % 50 AS patient_id, 7 * (i % 50) AS receipt"
    visits = f"SELECT {columns} FROM range(90) AS r(i)"
    owner.policy = (
        POLICY + '[tables.visits]\nsource = "visits.parquet"\nunit = "patient_id"\nunit_kind = "patient"\n'
        'same_unit = { encounter_id = "encounters.encounter_id" }\nowned = ["receipt"]\n'
    )
    owner.put("visits", visits)
    assert owner.said() == {}
    said = owner.said("ok")
    assert said["tables.visits.owned[0]"] == "each value of visits.receipt belongs to one patient"
    other = visits.replace("1000 + i AS", "1000 + (i + i // 86) AS").replace("7 * (i % 50)", "i // 45")
    owner.put("visits", other)
    said, rest = owner.said("wrong"), "joins leave the pairs of different ones out"
    several = "belong to several units of kind patient"
    assert said == {
        "tables.visits.owned[0]": f"2 values of visits.receipt {several} (90 rows): {rest}",
        "tables.visits.same_unit.encounter_id": "4 values of visits.encounter_id and encounters.encounter_id "
        f"{several} (8 rows): {rest}",
    }
