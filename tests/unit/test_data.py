"""The data that comes with dpsql: as its script makes it, small, and within what its policies declare."""

from __future__ import annotations

import csv
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dpsql import policy

DATA = Path(__file__).resolve().parents[2] / "data"
POLICIES = ("clinic", "flights")
TABLES = {
    name: tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))["tables"] for name in POLICIES
}
DOMAINS = [
    (name, table, column)
    for name, tables in TABLES.items()
    for table, rules in tables.items()
    for column in rules.get("domain", {})
]
FACTS = [
    (name, table, tuple(fact))
    for name, tables in TABLES.items()
    for table, rules in tables.items()
    for fact in rules.get("unique", [])
]


@cache
def data(name: str) -> pa.Table:
    return pq.read_table(DATA / f"{name}.parquet")


def values_of(name: str, domain: Any, column: pa.ChunkedArray) -> pa.Array:
    """The distinct values outside the domain."""
    present = pc.drop_null(pc.unique(column))
    if isinstance(domain, list):
        allowed = pa.array(domain, present.type)
    elif "table" in domain:
        allowed = data(domain["table"])[domain["column"]]
        assert TABLES[name][domain["table"]]["public"] is True
    elif "values" in domain:
        allowed = pa.array(domain["values"], present.type)
    else:
        ends = pa.array([domain["from"], domain["to"]], present.type)
        outside = pc.or_(pc.less(present, ends[0]), pc.greater(present, ends[1]))
        return present.filter(outside)
    return present.filter(pc.invert(pc.is_in(present, allowed)))


def repeats(name: str, fact: tuple[str, ...]) -> int:
    """How many rows are there besides the distinct ones; NULL counts as a value."""
    table = data(name).select(list(fact))
    return int(table.num_rows - table.group_by(list(fact)).aggregate([]).num_rows)


@pytest.mark.slow  # only a change of the script can break it
def test_the_script_makes_the_clinic_that_is_here(tmp_path: Path) -> None:
    subprocess.run([sys.executable, DATA / "make_clinic.py", "--into", tmp_path], check=True)
    made = {path.stem: pq.read_table(path) for path in tmp_path.iterdir()}
    assert set(made) == set(TABLES["clinic"])
    for name, table in made.items():
        assert data(name).equals(table), name


@pytest.mark.parametrize("path", sorted(DATA.glob("*.parquet")), ids=lambda path: path.name)
def test_each_file_is_small_and_declared_in_one_policy(path: Path) -> None:
    assert path.stat().st_size < 3_000_000
    assert sum(rules["source"] == path.name for tables in TABLES.values() for rules in tables.values()) == 1


@pytest.mark.parametrize("name", POLICIES)
def test_the_policy_loads_and_stays_within_its_folder(name: str) -> None:
    loaded = policy.load(DATA / f"{name}.toml")
    assert set(loaded.tables) == set(TABLES[name])
    assert loaded.budget.ledger.parent == DATA
    for table, rules in TABLES[name].items():
        assert Path(rules["source"]).name == rules["source"] == f"{table}.parquet"
        assert ("unit" in rules) != rules.get("public", False)
        assert rules.get("unit") in {None, *data(table).column_names}


@pytest.mark.parametrize(("name", "table", "column"), DOMAINS)
def test_the_declared_domain_covers_the_column(name: str, table: str, column: str) -> None:
    outside = values_of(name, TABLES[name][table]["domain"][column], data(table)[column])
    assert outside.to_pylist() == []


@pytest.mark.parametrize(("name", "table", "fact"), FACTS)
def test_the_vouched_columns_are_unique(name: str, table: str, fact: tuple[str, ...]) -> None:
    assert repeats(table, fact) == 0


def test_the_checks_notice_what_is_wrong() -> None:
    visits = data("visits")
    assert values_of("clinic", ["Orchard"], visits["clinic"]).to_pylist()
    assert values_of("clinic", {"from": 10, "to": 120}, visits["minutes"]).to_pylist() == [5]
    assert values_of("clinic", {"table": "diagnoses", "column": "chapter"}, visits["clinic"]).to_pylist()
    assert repeats("visits", ("patient_id", "visit_date")) > 0


def test_there_are_300_distinct_diagnoses_in_18_chapters() -> None:
    diagnoses = data("diagnoses")
    names = [name.casefold() for name in diagnoses["diagnosis"].to_pylist()]
    assert len(set(names)) == len(set(diagnoses["code"].to_pylist())) == diagnoses.num_rows == 300
    assert len(pc.unique(diagnoses["chapter"])) == 18
    assert all(name == name.strip() and name[0].isupper() for name in diagnoses["diagnosis"].to_pylist())
    with (DATA / "make_clinic_diagnoses.csv").open(newline="", encoding="utf-8") as file:
        assert [row["code"] for row in csv.DictReader(file)] == diagnoses["code"].to_pylist()


def test_the_clinic_has_what_queries_must_cope_with() -> None:
    visits, patients = data("visits"), data("patients")
    assert (visits.num_rows, patients.num_rows) == (400_000, 50_000)
    for column in ("patient_id", "diagnosis_code", "note"):
        assert visits[column].null_count > 0
    assert patients["region"].null_count > 0
    known = pc.drop_null(visits["patient_id"])
    assert pc.all(pc.is_in(known, patients["patient_id"])).as_py()
    assert len(pc.unique(known)) < patients.num_rows
    units = visits.group_by(["diagnosis_code"]).aggregate([("patient_id", "count_distinct")])
    counts = sorted(units["patient_id_count_distinct"].to_pylist(), reverse=True)
    assert counts[0] > 50 * counts[-1]


@pytest.mark.parametrize("name", POLICIES)
def test_declared_bounds_cut_few_values(name: str) -> None:
    cut = {}
    for table, rules in TABLES[name].items():
        for column, bounds in rules.get("bounds", {}).items():
            values = pc.drop_null(data(table)[column]).cast(pa.float64())
            outside = pc.or_(pc.less(values, bounds["from"]), pc.greater(values, bounds["to"]))
            cut[column] = pc.mean(outside.cast(pa.int64())).as_py()
    assert cut
    assert max(cut.values()) < 0.025, cut


def test_flights_have_aircraft_the_register_lacks() -> None:
    flown = pc.drop_null(pc.unique(data("flights")["tailnum"]))
    registered = data("planes")["tailnum"]
    assert len(flown) == 4043
    assert pc.sum(pc.is_in(flown, registered)).as_py() == len(registered) == 3322
    assert data("flights").num_rows == 336_776
