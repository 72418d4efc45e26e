"""Paths of several foreign keys: which are accepted, what is refused, and whom they protect."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dpsql.errors import PolicyError
from dpsql.policy import Policy, UnitVia, describe_protected, load, path_of
from dpsql.policy.references import MOST_HOPS

Load = Callable[[str], Policy]

ROOT = """
[tables.encounters]
source = "e.parquet"
unit = "patient_id"
unit_kind = "patient"
unique = [["encounter_id"]]
"""


def link(name: str, via: str, table: str, *, unique: str | None = "id", more: str = "") -> str:
    fact = "" if unique is None else f'unique = [["{unique}"]]\n'
    unit = f'unit = {{ via = "{via}", table = "{table}", column = "{via}" }}\n'
    return f'[tables.{name}]\nsource = "{name}.parquet"\n{unit}{fact}{more}'


@pytest.fixture
def read(tmp_path: Path) -> Load:
    def go(tables: str) -> Policy:
        for name in re.findall(r'source = "(.+)"', tables):
            (tmp_path / name).touch()
        (tmp_path / "dpsql.toml").write_text('[budget]\nepsilon = 1\nledger = "l.sqlite"\n' + tables)
        return load(tmp_path / "dpsql.toml")

    return go


def chain(hops: int) -> str:
    """Declare tables `t1`, `t2`, .., each of which finds its unit through the one before."""
    tables = ROOT.replace('["encounter_id"]', '["k0"]').replace("encounters", "t0")
    for hop in range(1, hops + 1):
        tables += link(f"t{hop}", f"k{hop - 1}", f"t{hop - 1}", unique=f"k{hop}")
    return tables


def test_a_path_has_the_kind_of_its_end(read: Load) -> None:
    """Declared in any order: children before their parents, too."""
    tables = [
        ROOT,
        link("Lab_Orders", "encounter_id", "Encounters", unique="order_id"),
        link("results", "order_id", "lab_orders", unique=None),
    ]
    for listed in (tables, tables[::-1]):
        policy = read("".join(listed))
        results = policy.tables["results"]
        assert results.unit == UnitVia("order_id", "lab_orders", "order_id", "patient")
        assert [t.name for t in path_of(policy.tables, results)] == ["Lab_Orders", "encounters"]
        assert describe_protected(policy.tables, results) == "a patient, found through Lab_Orders, encounters"
        assert describe_protected(policy.tables, policy.tables["encounters"]) == "a patient"


def test_a_path_has_few_hops(read: Load) -> None:
    read(chain(MOST_HOPS))
    with pytest.raises(PolicyError, match=f"tables.t9.unit: its path goes through 9 tables, and {MOST_HOPS}"):
        read(chain(MOST_HOPS + 1))


MISTAKES = {
    "a circle of two": (
        link("a", "x", "b", unique="x") + link("b", "x", "a", unique="x"),
        "tables.a.unit: its path runs in a circle: a, b, a",
    ),
    "itself": (link("a", "x", "a", unique="x"), "tables.a.unit: its path runs in a circle: a, a"),
    "into a circle": (
        link("c", "x", "a", unique=None) + link("a", "x", "b", unique="x") + link("b", "x", "a", unique="x"),
        "tables.c.unit: its path runs in a circle: c, a, b, a",
    ),
    "a key in the middle that is not unique": (
        ROOT
        + link("orders", "encounter_id", "encounters", unique=None)
        + link("results", "order_id", "orders", unique=None),
        "tables.results.unit: 'order_id' must be unique in 'orders', else a row would have two owners",
    ),
    "a key at the end that is not unique": (
        ROOT.replace('[["encounter_id"]]', "[]")
        + link("orders", "encounter_id", "encounters", unique="order_id")
        + link("results", "order_id", "orders", unique=None),
        "tables.orders.unit: 'encounter_id' must be unique in 'encounters'",
    ),
    "an end where rows are units": (
        '[tables.logs]\nsource = "l.parquet"\nunit = "ROW"\nunique = [["log_id"]]\n'
        + link("lines", "log_id", "logs", unique="line_id")
        + link("words", "line_id", "lines", unique=None),
        "tables.lines.unit: the parent table 'logs' does not name its unit by a column",
    ),
    "a public table in the middle": (
        '[tables.codes]\nsource = "l.parquet"\npublic = true\nunique = [["code"]]\n'
        + link("lines", "code", "codes", unique="line_id")
        + link("words", "line_id", "lines", unique=None),
        "tables.lines.unit: the parent table 'codes' does not name its unit by a column",
    ),
    "another kind on the way": (
        ROOT
        + link("orders", "encounter_id", "encounters", unique="order_id")
        + link("results", "order_id", "orders", unique=None, more='unit_kind = "doctor"\n'),
        "tables.results.unit_kind: is 'doctor', but that of the parent table 'orders' is 'patient'",
    ),
    "keys of two types": (
        ROOT
        + link("orders", "encounter_id", "encounters", unique="order_id")
        + '[tables.orders.columns]\norder_id = "BIGINT"\nencounter_id = "BIGINT"\n'
        + link("results", "order_id", "orders", unique=None)
        + '[tables.results.columns]\norder_id = "VARCHAR"\n',
        "'order_id' is VARCHAR, but 'order_id' of 'orders' is BIGINT",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_path_that_may_give_a_row_two_owners_or_none(read: Load, mistake: str) -> None:
    tables, message = MISTAKES[mistake]
    with pytest.raises(PolicyError) as caught:
        read(tables)
    assert message in caught.value.message


def test_columns_that_are_never_null(read: Load) -> None:
    more = 'not_null = ["Ward"]\n[tables.encounters.columns]\n'
    more += 'encounter_id = "BIGINT"\npatient_id = "BIGINT"\nward = "VARCHAR"\n'
    assert read(ROOT + more).tables["encounters"].not_null == ("Ward",)
    with pytest.raises(PolicyError, match=r"not_null\[0\]: the table has no column 'wrad'"):
        read(ROOT + more.replace('"Ward"', '"wrad"'))
    with pytest.raises(PolicyError, match=r"not_null\[1\]: names ward twice"):
        read(ROOT + more.replace('"Ward"', '"Ward", "ward"'))
    with pytest.raises(PolicyError, match=r"not_null: expected a list of columns"):
        read(ROOT + more.replace('"Ward"', '["ward"]'))
