"""Units of one period each: what the policy takes, what statements cost and say, what is refused."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.composition.prepared import PreparedPrivate
from dpsql.dbapi.named_streams import open_unnamed
from dpsql.errors import BudgetExceeded, NotSupportedError, OperationalError, PolicyError, QueryRefused
from dpsql.policy import Policy, load
from dpsql.session import Session
from tests.commands import Commands
from tests.support.world import write_world
from tests.unit.test_unit_parts import set_clock

TABLES = """
[tables.visits]
source = "visits.parquet"
unit = "patient_id"
unit_kind = "patient"
unit_period = { column = "day", every = "week" }
unique = [["visit_id"]]
rows_per_unit = 3
domain.clinic = ["a", "b"]
domain.day = { from = 2026-01-05, to = 2026-02-01 }
[tables.patients]
source = "patients.parquet"
unit = "patient_id"
unit_kind = "patient"
unique = [["patient_id"]]
domain.sex = ["F", "M"]
"""
POLICY = '[budget]\nepsilon = 1\nledger = "ledger.sqlite"\n' + TABLES
THIS = "date_trunc('week', day) = DATE '2026-01-12'"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    set_clock(monkeypatch, "2026-01-20")
    write_world(
        tmp_path,
        POLICY,
        visits="SELECT i % 700 AS patient_id, i AS visit_id, "
        "DATE '2026-01-05' + CAST((i * 5 + i // 700 * 7) % 28 AS INTEGER) AS day, "
        "['a', 'b'][1 + i % 2] AS clinic FROM range(5600) t(i)",
        patients="SELECT i AS patient_id, ['F', 'M'][1 + i % 2] AS sex FROM range(700) t(i)",
    )
    return tmp_path


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    opened = Session(load(folder / "dpsql.toml"))
    yield opened
    opened.close()


def changed(folder: Path, old: str, new: str) -> Policy:
    assert old in POLICY
    (folder / "dpsql.toml").write_text(POLICY.replace(old, new))
    return load(folder / "dpsql.toml")


def told(session: Session, text: str) -> dict[str, str]:
    rows = session.run(f"EXPLAIN SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) {text}").table
    return dict(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def ask(session: Session, text: str, epsilon: str = "1") -> list[tuple[object, ...]]:
    found = session.run(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}) {text}").table
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def test_each_week_has_the_whole_budget(session: Session) -> None:
    ask(session, f"COUNT(*) FROM visits WHERE {THIS}")
    ask(session, "COUNT(*) FROM visits WHERE date_trunc('week', day) = DATE '2026-01-05'")
    with pytest.raises(Exception, match="only 0 of the budget is left for week 2026-W03"):
        ask(session, f"COUNT(DISTINCT patient_id) FROM visits WHERE {THIS}")


def test_the_guarantee_says_what_is_protected_less(session: Session) -> None:
    said = told(session, f"COUNT(*) FROM visits WHERE {THIS}")
    assert said["guarantee"] == (
        "adding or removing all rows of one patient and week changes the probability of any answer by a"
        " factor of at most e^0.5. What one patient did in one week is protected at epsilon 0.5. What is"
        " true of a patient in several weeks (a home, a lasting illness, being a patient at all) is protected"
        " less: per patient at most epsilon x weeks touched, 53 in a year"
    )
    assert said["parts"] == "2026-W03 (week of visits.day)"
    assert "several" not in told(session, "COUNT(*) FROM patients")["guarantee"]
    rows = session.run("SHOW TABLES").table.to_pydict()
    assert "a patient in one week" in repr(rows)


def test_beside_weeks_a_whole_patient_is_told_of_tables_without_weeks_alone(session: Session) -> None:
    """A patient in many weeks changes the release over visits by more than what both cost."""
    visits, patients = (
        f"(SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}) COUNT(*) AS n FROM {table})"
        for epsilon, table in (("0.5", "visits"), ("0.25", "patients"))
    )
    rows = session.run(f"EXPLAIN SELECT a.n / b.n FROM {visits} a, {patients} b").table.to_pylist()
    said = next(row["value"] for row in rows if row["property"] == "guarantee").split("; ")
    assert said[0].startswith("adding or removing all rows of one patient and week")
    assert "e^0.75" in said[0]
    assert said[1:] == [
        "of tables without weeks alone: adding or removing all rows of one patient changes the probability of"
        " any answer by a factor of at most e^0.25"
    ]


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        ("COUNT(*) FROM visits", "up to 2026-W04, NULL (week of visits.day)"),
        (f"sex, COUNT(*) FROM visits JOIN patients USING (patient_id) WHERE {THIS} GROUP BY sex", "2026-W03"),
        ("COUNT(*) FROM patients", "all"),
    ],
)
def test_statements_are_charged_to_the_weeks_that_they_read(session: Session, rows: str, parts: str) -> None:
    assert told(session, rows)["parts"].startswith(parts)


def test_a_unit_is_in_one_group_by_its_week(session: Session) -> None:
    key = "date_trunc('week', day)"
    rows = f"{key}, COUNT(*) FROM visits WHERE day BETWEEN DATE '2026-01-05' AND DATE '2026-01-18' GROUP BY 1"
    said = told(session, rows)
    assert said["parts"].startswith("2026-W02 .. 2026-W03")
    prepared = session.prepare(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) {rows}")
    assert isinstance(prepared, PreparedPrivate)
    assert prepared.plan.one_group


def test_different_patients_over_weeks_move_each_group_by_one(session: Session) -> None:
    (number,) = ask(session, "COUNT(DISTINCT patient_id) FROM visits")
    assert abs(float(str(number[0])) - 700) < 40


def test_rows_without_a_date_count(folder: Path) -> None:
    path = folder / "visits.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t AS SELECT * REPLACE (NULL::DATE AS day) FROM '{path}'")
        connection.execute(f"COPY t TO '{path}' (FORMAT parquet)")
    session = Session(load(folder / "dpsql.toml"))
    (number,) = ask(session, "COUNT(DISTINCT patient_id) FROM visits WHERE day IS NULL")
    assert abs(float(str(number[0])) - 700) < 40
    with pytest.raises(Exception, match="only 0 of the budget is left for NULL"):
        ask(session, "COUNT(*) FROM visits WHERE day IS NULL", "0.1")
    session.close()


@pytest.mark.parametrize(
    ("rows", "hint"),
    [
        (
            "COUNT(*) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY 1) WHERE n > 1",
            "group by the",
        ),
        ("COUNT(*) FROM patients LEFT JOIN visits USING (patient_id)", "start FROM the table with weeks"),
        ("COUNT(*) FROM patients SEMI JOIN visits USING (patient_id)", "start FROM the table with weeks"),
        ("COUNT(*) FROM patients WHERE patient_id IN (SELECT patient_id FROM visits)", "start FROM"),
        ("COUNT(*) FROM visits a JOIN visits b USING (patient_id)", "equate both"),
        ("patient_id, COUNT(*) FROM visits GROUP BY 1", None),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_what_would_change_by_more_is_refused(session: Session, rows: str, hint: str | None) -> None:
    with pytest.raises(QueryRefused) as refused:
        told(session, rows)
    assert hint is None or hint in str(refused.value.hint)


@pytest.mark.parametrize("key", ["visit_id % 7", "CAST(patient_id AS VARCHAR)"])
def test_keys_that_nobody_declares_are_told_of_one_week_at_a_time(folder: Path, key: str) -> None:
    """A patient in many weeks would be as many units, and get over a threshold alone."""
    text = POLICY.replace("epsilon = 1\n", "epsilon = 1\ndelta = 1e-5\n", 1)
    (folder / "dpsql.toml").write_text(text)
    session = Session(load(folder / "dpsql.toml"))
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, delta = 1e-8, max_groups_contributed = 3)"
    rows = f"SELECT {options} {key}, COUNT(*) FROM visits"
    with pytest.raises(QueryRefused, match="is told of one week at a time"):
        session.prepare(f"{rows} GROUP BY 1")
    session.prepare(f"{rows} WHERE {THIS} GROUP BY 1")
    session.close()


@pytest.mark.parametrize(
    "text",
    [
        "OPEN CHECKS daily OPTIONS (epsilon = 0.5, misses = 4)",
        "EXPLAIN OPEN CHECKS daily OPTIONS (epsilon = 0.5, misses = 4)",
        "REFILL STREAM daily",
        "CREATE REPORT weekly OPTIONS (epsilon = 0.5) AS SELECT clinic, COUNT(*) FROM visits GROUP BY clinic",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (combine = ONLY) COUNT(*) FROM visits",
    ],
)
@pytest.mark.sampled(2, rest="longer")
def test_what_has_no_rule_yet_is_refused(session: Session, text: str) -> None:
    with pytest.raises((QueryRefused, NotSupportedError), match="where a unit is a patient in one week"):
        session.run(text)
    assert session.ledger.budget().spent.epsilon == 0


def test_streams_and_reports_of_programs_are_refused(session: Session) -> None:
    with pytest.raises(QueryRefused, match="no stream is opened"):
        open_unnamed(session, "0.5", 3, {"tolerance": 100})
    with pytest.raises(NotSupportedError, match="there are no reports"):
        session.reports.plan(["SELECT COUNT(*) FROM visits"], "0.5")


@pytest.mark.parametrize("day", ["DATE '0999-12-31'", "DATE '3000-01-01'", "DATE 'infinity'"])
def test_a_date_that_no_period_has_is_refused_before_anything_is_charged(folder: Path, day: str) -> None:
    path = folder / "visits.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t AS SELECT * FROM '{path}'")
        connection.execute(f"INSERT INTO t VALUES (1, -1, {day}, 'a')")
        connection.execute(f"COPY t TO '{path}' (FORMAT parquet)")
    session = Session(load(folder / "dpsql.toml"))
    with pytest.raises(OperationalError, match="cannot be read as declared"):
        ask(session, f"COUNT(*) FROM visits WHERE {THIS}")
    assert session.ledger.budget(session.analyst).spent.epsilon == 0
    session.close()


def test_the_owner_is_told_in_how_many_weeks_patients_are(folder: Path, commands: Commands) -> None:
    arguments = [*commands.command, "check"]
    found = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)
    said = " ".join((found.stdout + found.stderr).split())
    assert "a patient is in 4.0 weeks on average, 95% in at most 4, the most in 4" in said, said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('every = "week"', 'every = "fortnight"', "is no period"),
        (
            'unit = "patient_id"\nunit_kind = "patient"\nunit_period',
            'unit = "ROW"\nunit_period',
            "is for tables",
        ),
        ("unit_period = { column", "unit_period = { kolumn", "kolumn"),
        ('"day", every', '"nothing", every', "has no column"),
        ('"day", every', '"clinic", every', "periods of a DATE"),
        ("rows_per_unit = 3", "trust_source = true", "tells the unit of each row"),
        (
            "[tables.visits]",
            '[parts.patient]\ntable = "patients"\ncolumn = "sex"\nevery = "week"\n[tables.visits]',
            "patient",
        ),
    ],
)
def test_what_does_not_fit_is_an_error_of_the_policy(folder: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        ask(Session(changed(folder, old, new)), "COUNT(*) FROM visits")


def test_without_the_key_the_patient_is_the_unit(folder: Path) -> None:
    line = 'unit_period = { column = "day", every = "week" }\n'
    session = Session(changed(folder, line, ""))
    assert "several weeks" not in told(session, "COUNT(*) FROM visits")["guarantee"]
    assert "parts" not in told(session, "COUNT(*) FROM visits")
    session.close()


def test_what_was_charged_to_patients_counts_in_every_week(folder: Path) -> None:
    line = 'unit_period = { column = "day", every = "week" }\n'
    session = Session(changed(folder, line, ""))
    ask(session, "COUNT(*) FROM visits", "0.7")
    session.close()
    (folder / "dpsql.toml").write_text(POLICY)
    later = Session(load(folder / "dpsql.toml"))
    with pytest.raises(Exception, match=r"only 0\.3 of the budget is left for week 2026-W03"):
        ask(later, f"COUNT(*) FROM visits WHERE {THIS}", "0.5")
    later.close()


def test_a_person_bears_what_is_read_of_all_weeks_of_a_year(folder: Path) -> None:
    session = Session(
        changed(folder, '"ledger.sqlite"\n', '"ledger.sqlite"\n[budget.person]\nepsilon = 1.45\n')
    )
    two = "day BETWEEN DATE '2026-01-05' AND DATE '2026-01-18'"
    ask(session, f"COUNT(*) FROM visits WHERE {two}", "0.5")
    ask(session, "COUNT(*) FROM patients", "0.25")
    rows = session.run("SHOW PRIVACY BUDGET BY PARTS").table.to_pylist()
    shown = {row["part"]: (row["spent"], row["left"]) for row in rows}
    assert shown["one patient, 2026"] == ("1.25", "0.2")
    assert shown["2026-W02 .. 2026-W03"][0] == "0.75"
    with pytest.raises(BudgetExceeded, match=r"3 weeks epsilon 0\.3, but only 0\.2 of what"):
        ask(session, "COUNT(*) FROM visits WHERE day >= DATE '2026-01-05'", "0.1")
    session.close()


def test_without_the_section_the_sums_are_shown(session: Session) -> None:
    ask(session, f"COUNT(*) FROM visits WHERE {THIS}", "0.5")
    rows = session.run("SHOW PRIVACY BUDGET BY PARTS").table.to_pylist()
    assert {"one patient, 2026": ("0.5", "")}.items() <= {
        r["part"]: (r["spent"], r["left"]) for r in rows
    }.items()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('column = "day", every = "week" }', 'column = "day", every = "week" }', None),
        ("epsilon = 3\n", "epsilon = 1001\n", "above 1,000"),
        ('unit_period = { column = "day", every = "week" }', "", "no table has units of one period"),
        ("epsilon = 1\n", 'epsilon = 1\ndelta = 1e-6\naccounting = "zcdp"\n', "adds up epsilons"),
    ],
)
def test_a_limit_for_persons_needs_periods(folder: Path, old: str, new: str, said: str | None) -> None:
    text = POLICY.replace("[tables.visits]", "[budget.person]\nepsilon = 3\n[tables.visits]").replace(
        old, new, 1
    )
    (folder / "dpsql.toml").write_text(text)
    if said is None:
        assert load(folder / "dpsql.toml").budget.person is not None
        return
    with pytest.raises(PolicyError, match=said):
        load(folder / "dpsql.toml")
