"""Columns that determine others, as the owner declares of a private table: keys, checks, what they show."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dpsql.errors import PolicyError, QueryRefused
from dpsql.owner import verify
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import present
from tests.support.world import open_world, world_fixture

POLICY = """
[budget]
epsilon = 1e12
delta = 0.5
default_epsilon = 1000000
default_delta = 1e-4
max_epsilon_per_query = 1e9
ledger = "ledger.sqlite"
[tables.rides]
source = "rides.parquet"
unit = "person"
unique = [["person"]]
determines = { station_id = ["station_name", "zone"] }
[tables.rides.domain]
station_id = { from = 1, to = 5 }
zone.values = ["A", "B"]
"""
RIDES = (
    "SELECT i AS person, 1 + i % 4 AS station_id, 'station ' || (1 + i % 4) AS station_name, "
    "['A', 'B'][1 + i % 2] AS zone, i % 9 AS minutes FROM range(800) t(i)"
)


session = world_fixture(POLICY, rides=RIDES)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT station_id, station_name, COUNT(*) AS n FROM rides GROUP BY station_id ORDER BY 1",
        "SELECT MAX(station_name) AS name, COUNT(*) AS n FROM rides GROUP BY station_id ORDER BY name",
        "SELECT station_id, ANY_VALUE(r.zone) AS z, COUNT(*) AS n FROM rides r GROUP BY 1 ORDER BY 1",
        "SELECT station_id, COUNT(*) AS n FROM rides GROUP BY station_id HAVING MIN(zone) = 'A' ORDER BY 1",
    ],
)
@pytest.mark.sampled(2, rest="longer")
def test_a_label_is_a_key_beside_what_determines_it(session: Session, sql: str) -> None:
    exact_sql = sql.replace("SELECT station_id, station_name,", "SELECT station_id, MIN(station_name),")
    with duckdb.connect() as con:
        con.execute(f"CREATE TABLE rides AS {RIDES}")
        wanted = con.execute(exact_sql).fetchall()
    found = [tuple(row.values()) for row in session.run(sql).table.to_pylist()]
    assert [row for row in found if row[-1] > 0.5] == [
        (*row[:-1], pytest.approx(row[-1], abs=0.5)) for row in wanted
    ]


def test_without_the_key_a_label_stays_refused(session: Session) -> None:
    for sql in (
        "SELECT minutes, station_name, COUNT(*) FROM rides GROUP BY minutes",
        "SELECT station_id, minutes, COUNT(*) FROM rides GROUP BY station_id",
        "SELECT MAX(station_name) FROM rides",
    ):
        with pytest.raises(QueryRefused):
            session.prepare(sql)


def test_a_false_declaration_shows_the_groups_of_both(tmp_path: Path) -> None:
    """No guarantee rests on it: what is released are the numbers of both columns."""
    wrong = RIDES.replace("(1 + i % 4) AS station_name", "(i % 2) AS station_name")
    wrong = wrong.replace("1 + i % 4 AS station_id", "1 AS station_id")
    with open_world(tmp_path / "data", POLICY, rides=wrong) as session:
        sql = "SELECT MAX(station_name) AS name, COUNT(*) AS n FROM rides GROUP BY station_id ORDER BY name"
        release = present(session.run(sql).release)
        assert [round(row["n"]) for row in release.rows.to_pylist()] == [400, 400]
        said = {f.place: (f.level, f.text) for f in verify(load(present(session.policy.path))).findings}
    place = "tables.rides.determines.station_id"
    assert said[place][0] == "wrong"
    assert said[place][1].startswith("1 value of station_id have several values of")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('determines = { station = ["zone"] }', "has no column 'station'"),
        ('determines = { station_id = "zone" }', "expected a list of columns"),
        ('determines = { station_id = ["Station_ID"] }', "names a column twice"),
        ("determines = { station_id = [] }", "names a column twice, or none"),
    ],
)
def test_wrong_declarations_are_refused(tmp_path: Path, line: str, said: str) -> None:
    columns = "[tables.rides.columns]\nperson = 'INTEGER'\nstation_id = 'INTEGER'\nzone = 'VARCHAR'\n"
    head, rest = POLICY.split('determines = { station_id = ["station_name", "zone"] }')
    text = f"{head}{line}{rest}{columns}".replace("station_name", "zone")
    (tmp_path / "dpsql.toml").write_text(text, "utf-8")
    with pytest.raises(PolicyError, match=said):
        load(tmp_path / "dpsql.toml")


def test_public_columns_determine_others_by_unique_keys(tmp_path: Path) -> None:
    text = POLICY.replace('unit = "person"', "public = true").split("[tables.rides.domain]")[0]
    (tmp_path / "dpsql.toml").write_text(text, "utf-8")
    with pytest.raises(PolicyError, match="seen in its rows"):
        load(tmp_path / "dpsql.toml")
