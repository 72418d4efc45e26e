"""One table of instants in several forms: each statement has one answer, which is plain DuckDB's.

The noise of epsilon 1e5 is less than a half in every count of a run with probability above 1 - 1e-9.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from dpsql.errors import QueryRefused
from dpsql.fair_cache import FairCache
from dpsql.policy import load
from dpsql.session import Session
from tests.instants import (
    GROUPED,
    MIXED,
    PARAMETERS,
    POLICY,
    PREDICATES,
    check_repairs,
    exact,
    own_rows,
    rounded,
)

FORMS = {
    "parquet": ("ev.parquet", ""),
    "csv": ("ev.csv", ""),
    "duckdb": ("ev", '[database]\npath = "own.duckdb"'),
}


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with own_rows() as connection:
        yield connection


@pytest.fixture(scope="module", params=FORMS)
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp(request.param)
    with own_rows() as connection:
        connection.execute(f"COPY ev TO '{folder}/ev.parquet'")
        # The texts have the offset of Kolkata.
        local = "strftime(timezone('Asia/Kolkata', seen), '%Y-%m-%d %H:%M:%S.%f') || '+05:30'"
        connection.execute(f"COPY (SELECT uid, kind, {local} AS seen FROM ev) TO '{folder}/ev.csv' (HEADER)")
        connection.execute(f"ATTACH '{folder}/own.duckdb' AS own")
        connection.execute("CREATE TABLE own.ev AS FROM ev")
        connection.execute("DETACH own")
    source, more = FORMS[request.param]
    (folder / "dpsql.toml").write_text(POLICY.format(source=source, more=more))
    made = Session(load(folder / "dpsql.toml"), "alice")
    yield made
    made.close()


@pytest.mark.parametrize("predicate", PREDICATES)
@pytest.mark.sampled(9)
def test_a_literal_means_the_same_instant_in_every_form(
    session: Session, plain: duckdb.DuckDBPyConnection, predicate: str
) -> None:
    statement = f"SELECT COUNT(*) FROM ev WHERE {predicate}"
    assert rounded(session, statement) == exact(plain, statement)


@pytest.mark.parametrize("statement", GROUPED)
@pytest.mark.sampled(3)
def test_groups_of_instants_are_those_of_plain_sql(
    session: Session, plain: duckdb.DuckDBPyConnection, statement: str
) -> None:
    assert rounded(session, statement) == exact(plain, statement)


@pytest.mark.parametrize("value", PARAMETERS, ids=str)
def test_a_parameter_means_the_same_instant_in_every_form(
    session: Session, plain: duckdb.DuckDBPyConnection, value: object
) -> None:
    statement = "SELECT COUNT(*) FROM ev WHERE seen >= ?"
    wanted = exact(plain, statement.replace("?", f"TIMESTAMPTZ '{value}'"))
    assert rounded(session, statement, [value]) == wanted


@pytest.mark.parametrize(
    "predicate",
    [
        "seen AT TIME ZONE 'UTC' >= '2024-07-02 00:00:00+02:00'",
        "seen AT TIME ZONE 'UTC' >= TIMESTAMPTZ '2024-07-02 00:00:00+02:00'",
        "seen AT TIME ZONE 'UTC' = seen",
        "seen = CAST(kind AS VARCHAR)",
        "CAST(seen AS TIMESTAMP) >= '2024-07-02'",
        "CAST(seen AS TIME) >= TIME '10:00:00+02:00'",
        "seen >= '2024-07-02 00:00:00 Europe/Belin'",
        "seen >= 'soon'",
        "date_diff('day', seen, seen AT TIME ZONE 'UTC') = 0",
        "GREATEST(seen, seen AT TIME ZONE 'UTC') = seen",
    ],
)
def test_what_has_no_zone_is_not_compared_with_an_instant(session: Session, predicate: str) -> None:
    with pytest.raises(QueryRefused):
        session.run(f"SELECT COUNT(*) FROM ev WHERE {predicate}")


@pytest.mark.parametrize("predicate", MIXED, ids=lambda p: p[0])
@pytest.mark.sampled(3)
def test_a_refusal_names_two_repairs_and_both_mean_what_plain_sql_means(
    session: Session, plain: duckdb.DuckDBPyConnection, predicate: tuple[str, str, str, str]
) -> None:
    check_repairs(session, plain, predicate)


EXTREMES = """
SELECT 100000 + i AS uid, 1 AS kind, unnest(['infinity', '-infinity', '290309-12-22 (BC) 00:00:00+00',
  '294247-01-10 04:00:54.775806+00', '0044-03-15 (BC) 00:00:00+00', '9999-12-31 23:59:59.999999+00',
  NULL])::TIMESTAMPTZ AS seen
FROM range(1) AS r(i)
"""
SIDES = """
[tables.sides]
source = "sides.parquet"
public = true
"""


@pytest.fixture(scope="module")
def extremes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A table with the first and last instants and local times that the engine has, and a public table."""
    folder = tmp_path_factory.mktemp("extremes")
    with own_rows() as connection:
        columns = "uid + row_number() OVER () AS uid, kind, seen, timezone('UTC', seen) AS local"
        rows = f"SELECT {columns} FROM ({EXTREMES})"
        connection.execute(
            f"COPY ({rows} UNION ALL SELECT *, timezone('UTC', seen) FROM ev) TO '{folder}/ev.parquet'"
        )
        connection.execute(
            f"COPY (SELECT seen, timezone('UTC', seen) AS naive FROM ev) TO '{folder}/sides.parquet'"
        )
    text = POLICY.format(source="ev.parquet", more='time_zone = "europe/berlin"').replace(
        'seen = "TIMESTAMPTZ" }',
        'seen = "TIMESTAMPTZ", local = "TIMESTAMP" }\nzone = { local = "Asia/Kathmandu" }',
    )
    (folder / "dpsql.toml").write_text(text + SIDES)
    made = Session(load(folder / "dpsql.toml"), "alice")
    yield made
    made.close()


@pytest.mark.parametrize(
    "value",
    [
        "seen AT TIME ZONE 'Pacific/Kiritimati'",
        "seen AT TIME ZONE 'Pacific/Niue'",
        "(seen AT TIME ZONE 'UTC') AT TIME ZONE 'Pacific/Kiritimati'",
        "local",
        "local AT TIME ZONE 'Pacific/Niue'",
        "date_trunc('month', seen)",
        "EXTRACT(HOUR FROM local)",
        "seen + INTERVAL 1 MONTH",
        "CAST(local AS DATE)",
        "CAST(seen AS VARCHAR)",
        "seen - local",
        "time_bucket(INTERVAL 1 DAY, seen)",
        "strftime(local, '%Y')",
    ],
)
@pytest.mark.sampled(3)
def test_no_instant_makes_a_statement_fail(extremes: Session, value: str) -> None:
    statement = f"SELECT COUNT({value}) AS a, COUNT(*) FILTER (WHERE {value} IS NULL) AS b FROM ev"
    counted, missing = (round(column[0].as_py()) for column in extremes.run(statement).table.columns[:2])
    assert counted + missing == 4007


def notes(session: Session, statement: str) -> list[str]:
    """Return what an answer rests on."""
    release = session.run(statement).release
    assert release is not None
    return [str(each) for each in release.assumed]


def test_a_time_without_an_offset_is_of_the_policys_zone(extremes: Session) -> None:
    def since(text: str) -> int:
        found = extremes.run(f"SELECT COUNT(*) FROM ev WHERE seen >= '{text}'").table.column(0)[0].as_py()
        return round(found)

    days = [f"2024-07-{day:02}" for day in range(1, 15)]
    zoned = [since(f"{day} 00:00:00+02:00") for day in days]
    assert [since(day) for day in days] == zoned != [since(f"{day} 00:00:00Z") for day in days]
    assert since("2024-10-27 02:30:00") == since("2024-10-27 02:30:00+01:00")
    assert since("2024-03-31 02:30:00") == since("2024-03-31 02:30:00+01:00")
    found = notes(extremes, "SELECT COUNT(*) FROM ev WHERE seen < '2024-10-27 02:30:00'")
    assert found[0].startswith("times without an offset are read in Europe/Berlin of tzdata 2")
    assert found[1] == (
        "2024-10-27 02:30:00 in Europe/Berlin is 2024-10-27 00:30:00+00 or 2024-10-27 01:30:00+00: "
        "the later is taken"
    )
    explained = extremes.run("EXPLAIN SELECT COUNT(*) FROM ev WHERE seen < '2024-10-27 02:30:00'").table
    assert any("Europe/Berlin of tzdata" in str(row["value"]) for row in explained.to_pylist())


def test_a_declared_zone_and_a_days_length_are_told(extremes: Session) -> None:
    found = notes(
        extremes,
        "SELECT EXTRACT(HOUR FROM seen AT TIME ZONE 'Europe/Berlin') AS h, COUNT(*) FROM ev GROUP BY h",
    )
    assert "in Europe/Berlin days of a change have more or fewer than 24 hours" in found
    assert any(each.startswith("Europe/Berlin of tzdata") and "2023 to 2025" in each for each in found)
    found = notes(extremes, "SELECT COUNT(*) FROM ev WHERE local > '2024-07-02 00:00:00Z'")
    assert any(each.startswith("Asia/Kathmandu of tzdata") for each in found)
    assert not any("tzdata" in each for each in notes(extremes, "SELECT COUNT(seen) FROM ev"))


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("SELECT COUNT(*) FROM sides WHERE naive >= '2024-07-02 00:00:00+02:00'", "has an offset or a zone"),
        ("SELECT COUNT(*) FROM sides WHERE seen = naive", "a TIMESTAMP has no zone"),
        ("SELECT COUNT(*) FROM sides WHERE seen > '2024-07-02'", "not read in the policy's time zone"),
        ("SELECT COUNT(*) FROM sides WHERE seen > '2024-07-02 00:00:00 Europe/Berlin'", "the name of a zone"),
        (
            "SELECT n FROM (SELECT date_trunc('month', seen) AS m, COUNT(*) AS n FROM ev GROUP BY m) "
            "WHERE m >= TIMESTAMP '2024-07-02 00:00:00+02:00'",
            "has an offset or a zone",
        ),
    ],
)
def test_public_statements_and_outer_queries_do_not_drop_a_zone(
    extremes: Session, statement: str, what: str
) -> None:
    with pytest.raises(QueryRefused, match=what):
        extremes.run(statement)


def test_public_instants_are_instants(extremes: Session) -> None:
    public = extremes.run(
        "SELECT COUNT(*) FROM sides WHERE seen >= '2024-07-02 00:00:00+02:00' AND naive < now()"
    )
    joined = "ev JOIN (SELECT DISTINCT seen FROM sides) s ON ev.seen = s.seen"
    private = extremes.run(f"SELECT COUNT(*) FROM {joined} WHERE s.seen >= '2024-07-02 00:00:00+02:00'")
    assert public.table.column(0)[0].as_py() == round(private.table.column(0)[0].as_py()) > 1000
    kinds = extremes.run(
        "SELECT data_type FROM information_schema.columns WHERE column_name = 'seen' ORDER BY table_name"
    ).table
    assert set(kinds.column(0).to_pylist()) == {"TIMESTAMP WITH TIME ZONE"}


def test_another_database_of_zones_is_another_question(
    extremes: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    zoned = "SELECT COUNT(*) FROM ev WHERE EXTRACT(HOUR FROM seen AT TIME ZONE 'Europe/Berlin') = 3"
    plain = "SELECT COUNT(*) FROM ev WHERE kind = 3"
    spent = [extremes.run(statement).release for statement in (zoned, plain)]
    again = [extremes.run(statement).release for statement in (zoned, plain)]
    assert [one.receipt for one in spent if one] == [one.receipt for one in again if one]
    monkeypatch.setattr("dpsql.policy.zones.version", lambda: "2099.1")
    # A process has one database of zones: plans that it kept rest on it.
    monkeypatch.setattr(extremes.database, "plans", FairCache(1000))
    other = [extremes.run(statement).release for statement in (zoned, plain)]
    assert [a.receipt == b.receipt for a, b in zip(spent, other, strict=True) if a and b] == [False, True]
