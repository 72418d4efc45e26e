"""Statements over units in parts: prices, what EXPLAIN and SHOW say, repeats, several releases, the clock."""

from __future__ import annotations

import datetime as clock
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from dpsql.analysis import compiler
from dpsql.cli.narrate import ExitCode
from dpsql.composition import planner
from dpsql.dbapi import connect
from dpsql.errors import (
    BudgetExceeded,
    InternalError,
    OperationalError,
    PolicyError,
    QueryRefused,
    TooManyFailures,
)
from dpsql.kernel.loss import PrivacyLoss
from dpsql.kernel.loss.composing import Spending
from dpsql.kernel.unit_parts import EVERY, Calendar, PartSet
from dpsql.ledger import Ledger
from dpsql.policy import load
from dpsql.release import moved_units
from dpsql.session import Session
from tests.commands import Commands
from tests.narrow import private
from tests.support.world import write_world

POLICY = """
[budget]
epsilon = 1
ledger = "ledger.sqlite"
[parts.user]
table = "signups"
column = "signed_up"
every = "week"
moves = "trusted"
[tables.signups]
source = "signups.parquet"
unit = "user_id"
unit_kind = "user"
unique = [["user_id"]]
domain.land = ["a", "b"]
[tables.visits]
source = "visits.parquet"
unit = "user_id"
unit_kind = "user"
rows_per_unit = 3
"""
OPTIONS = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {})"
MONDAY = "DATE '2026-01-05'"
W2 = "date_trunc('week', signed_up) = DATE '2026-01-05'"
W3 = "date_trunc('week', signed_up) = DATE '2026-01-12'"


def at(day: str) -> type[clock.datetime]:
    """Return the class of times whose present is a day."""

    class Then(clock.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return clock.datetime.fromisoformat(day).replace(tzinfo=tz)

    return Then


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files and the policy, which no test changes."""
    made = tmp_path_factory.mktemp("written")
    write_world(
        made,
        POLICY,
        signups="SELECT i AS user_id, DATE '2026-01-05' + CAST(i % 28 AS INTEGER) AS signed_up, "
        "['a', 'b'][1 + i % 2] AS land FROM range(2800) t(i)",
        visits="SELECT i % 2800 AS user_id, i AS x FROM range(5600) t(i)",
    )
    return made


@pytest.fixture
def folder(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    set_clock(monkeypatch, "2026-01-20")
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    return tmp_path


def set_clock(monkeypatch: pytest.MonkeyPatch, day: str) -> None:
    monkeypatch.setattr(compiler, "datetime", at(day))
    monkeypatch.setattr(planner, "datetime", at(day))


@pytest.fixture(scope="module")
def unchanged(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session for tests that explain and charge nothing; one more table is public."""
    made = tmp_path_factory.mktemp("unchanged")
    shutil.copytree(written, made, dirs_exist_ok=True)
    write_world(
        made,
        POLICY + '[tables.starts]\nsource = "starts.parquet"\npublic = true\n',
        starts=f"SELECT 'a' AS land, {MONDAY} AS signed_up",
    )
    with pytest.MonkeyPatch.context() as patched:
        set_clock(patched, "2026-01-20")
        with closing(Session(load(made / "dpsql.toml"), analyst="ann")) as opened:
            yield opened
            assert opened.ledger.entries() == []


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    opened = Session(load(folder / "dpsql.toml"), analyst="ann")
    yield opened
    assert opened.ledger.check() == []
    opened.close()


def select(rest: str, epsilon: str = "1", items: str = "COUNT(*)") -> str:
    return f"SELECT {OPTIONS.format(epsilon)} {items} FROM {rest}"


def one(session: Session, rest: str, epsilon: str = "1") -> float:
    return float(session.run(select(rest, epsilon)).table.column(0)[0].as_py())


def told(session: Session, text: str) -> dict[str, str]:
    table = session.run(f"EXPLAIN {text}").table
    return dict(zip(*(column.to_pylist() for column in table.columns), strict=True))


def parts(session: Session) -> list[tuple[str, ...]]:
    table = session.run("SHOW PRIVACY BUDGET BY PARTS").table
    return [*zip(*(column.to_pylist() for column in table.columns), strict=True)]


def test_a_unit_bears_what_is_asked_of_its_week(session: Session) -> None:
    assert abs(one(session, f"signups WHERE {W2}") - 700) < 40
    assert abs(one(session, f"visits JOIN signups USING (user_id) WHERE {W3}") - 1400) < 100
    with pytest.raises(BudgetExceeded, match=r"only 0 of the budget is left for week 2026-W02$"):
        one(session, f"signups WHERE {W2} AND land = 'a'", "0.1")
    with pytest.raises(BudgetExceeded, match=r"only 0 of the budget is left for week 2026-W02 \.\. 2026-W03"):
        one(session, "visits", "0.1")
    one(session, "signups WHERE signed_up >= DATE '2026-01-19'", "0.4")
    assert parts(session) == [
        ("up to 2026-W01", "0", "1", "10 of 0.1"),
        ("2026-W02 .. 2026-W03", "1", "0", "0 of 0.1"),
        ("2026-W04", "0.4", "0.6", "6 of 0.1"),
        ("from 2026-W05", "0", "1", "10 of 0.1"),
        ("NULL", "0", "1", "10 of 0.1"),
        ("no row", "0", "1", "10 of 0.1"),
        ("all statements in sequence", "2.4", "", ""),
    ]


def test_a_repeat_of_an_old_week_is_free(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    first = one(session, f"signups WHERE {W2}")
    set_clock(monkeypatch, "2026-02-20")
    assert one(session, f"signups WHERE {W2}") == first
    one(session, "signups WHERE signed_up >= DATE '2026-01-12'", "0.5")
    set_clock(monkeypatch, "2026-02-22")  # the same week
    assert session.prepare(select("signups WHERE signed_up >= DATE '2026-01-12'", "0.5")).price.epsilon == 0
    set_clock(monkeypatch, "2026-02-23")
    assert session.prepare(select("signups WHERE signed_up >= DATE '2026-01-12'", "0.5")).price.epsilon > 0


def test_without_a_condition_a_statement_reads_up_to_now(session: Session) -> None:
    text = select("signups", "0.5")
    assert told(session, text)["parts"] == "up to 2026-W04, NULL (week of signups.signed_up)"
    assert abs(one(session, "signups", "0.5") - 2100) < 60, "three of four weeks"
    assert told(session, text)["assumed"] == "up to 2026-W04 signed_up of signups (policy)"
    assert one(session, "signups WHERE signed_up >= DATE '2026-01-19'", "0.5") < 760
    with pytest.raises(
        QueryRefused, match=r"no week of a user satisfies this up to now \(parts.user: until\)"
    ):
        session.prepare(select("signups WHERE signed_up > DATE '2026-01-26'"))


@pytest.mark.parametrize(
    "rest",
    [
        "visits v ANTI JOIN signups s USING (user_id)",
        "visits v LEFT JOIN signups s USING (user_id) WHERE s.user_id IS NULL",
        "visits WHERE user_id NOT IN (SELECT user_id FROM signups)",
    ],
)
def test_what_is_charged_to_all_parts_reads_every_row(session: Session, rest: str) -> None:
    """Each user of a visit has signed up, some of them in later weeks."""
    said = told(session, select(rest, "0.5"))
    assert said["parts"].startswith("all")
    assert "up to" not in said.get("assumed", "")
    assert abs(one(session, rest, "1")) < 200


def test_with_until_false_it_reads_all(folder: Path) -> None:
    (folder / "dpsql.toml").write_text(POLICY.replace('every = "week"', 'every = "week"\nuntil = false'))
    session = Session(load(folder / "dpsql.toml"), analyst="ann")
    assert told(session, select("signups"))["parts"] == "every week, NULL (week of signups.signed_up)"
    assert abs(one(session, "signups") - 2800) < 40
    session.close()


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("visits", "all: nothing says which weeks are read; join signups and compare signups.signed_up"),
        ("visits LEFT JOIN signups USING (user_id) WHERE signed_up IS NULL", "all: nothing says"),
        (f"visits LEFT JOIN signups USING (user_id) WHERE {W2}", "2026-W02 (week of"),
        (f"signups WHERE NOT (land = 'a' AND {W2})", "up to 2026-W04, NULL"),
        (f"signups WHERE NOT ({W2} OR {W3})", "up to 2026-W01, 2026-W04"),
        ("signups WHERE signed_up > current_date - INTERVAL 7 DAY", "2026-W03 .. 2026-W04"),
        ("signups WHERE signed_up BETWEEN '2026-01-05' AND '2026-01-11'", "2026-W02 (week of"),
    ],
)
def test_explain_says_which_parts(unchanged: Session, rest: str, said: str) -> None:
    assert told(unchanged, select(rest))["parts"].startswith(said)


@pytest.mark.parametrize(
    ("rest", "items"),
    [
        ("signups", f"COUNT(*) FILTER (WHERE {W2}), COUNT(*)"),
        (
            f"(SELECT user_id, MIN(signed_up) AS d FROM signups GROUP BY user_id) t WHERE d = {MONDAY}",
            "COUNT(*)",
        ),
        (
            f"(SELECT CASE WHEN land = 'a' THEN signed_up END AS d FROM signups) t WHERE d = {MONDAY}",
            "COUNT(*)",
        ),
        ("signups JOIN starts USING (land) WHERE starts.signed_up = DATE '2026-01-05'", "COUNT(*)"),
        ("signups WHERE signed_up IN (SELECT signed_up FROM starts)", "COUNT(*)"),
    ],
)
def test_what_names_no_week_reads_all(unchanged: Session, rest: str, items: str) -> None:
    """FILTER of one of two numbers, a computed date, one of a public table: none is the unit's week."""
    assert told(unchanged, select(rest, items=items))["parts"].startswith("up to 2026-W04")


def test_failures_count_in_all_weeks_together(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure is a bit about anybody, whatever week was asked."""
    monkeypatch.setattr("dpsql.planning.all_groups.EveryCount.run", lambda *_: 1 / 0)
    weeks = [f"signed_up = DATE '2026-01-{day:02}'" for day in (5, 12, 19, 13, 20)]
    for week in weeks[:3]:
        with pytest.raises(OperationalError):
            one(session, f"signups WHERE {week}", "0.1")
    with pytest.raises(TooManyFailures, match="3 of your private statements have failed"):
        one(session, f"signups WHERE {weeks[4]}", "0.1")


def test_explain_says_what_is_left_of_the_parts(session: Session) -> None:
    one(session, f"signups WHERE {W2}", "0.75")
    assert told(session, select(f"signups WHERE {W2}"))["budget_left"] == "0.25"
    assert told(session, select(f"signups WHERE {W3}"))["budget_left"] == "1"


def test_no_part_at_all_is_refused(session: Session) -> None:
    with pytest.raises(QueryRefused, match="no week of a user satisfies this"):
        session.prepare(select(f"signups WHERE {W2} AND {W3}"))


def test_releases_of_one_statement_are_charged_to_their_own_parts(session: Session) -> None:
    text = (
        f"WITH a AS ({select(f'signups WHERE {W2}', '1', 'COUNT(*) AS n')}),"
        f" b AS ({select(f'signups WHERE {W3}', '1', 'COUNT(*) AS n')}) SELECT a.n + b.n FROM a, b"
    )
    found = session.run(text).table.column(0)[0].as_py()
    assert abs(found - 1400) < 60
    assert [row[:2] for row in parts(session)][:3] == [
        ("up to 2026-W01", "0"),
        ("2026-W02 .. 2026-W03", "1"),
        ("from 2026-W04", "0"),
    ]


def test_groups_and_searched_bounds_are_charged_to_the_parts(session: Session) -> None:
    session.run(select(f"signups WHERE {W2} GROUP BY land", "0.5", "land, COUNT(*)"))
    session.run(
        select(f"(SELECT user_id, x FROM visits JOIN signups USING (user_id) WHERE {W2}) v", "0.5", "SUM(x)")
    )
    assert parts(session)[1][:2] == ("2026-W02", "1")
    assert parts(session)[2][:2] == ("from 2026-W03", "0")


def test_a_refinement_is_charged_to_the_parts_of_its_release(session: Session) -> None:
    session.run(select(f"signups WHERE {W2}", "0.25"))
    session.run("REFINE RELEASE 1 TO 0.75")
    assert parts(session)[1][:2] == ("2026-W02", "0.75")
    assert parts(session)[2][:2] == ("from 2026-W03", "0")


def test_counts_of_parts_that_are_not_charged_are_refused() -> None:
    week = Calendar("week").number(clock.date(2026, 1, 5))
    spending = Spending(PrivacyLoss(), PartSet.of((week, week)))
    spending.check_parts(PartSet.of((week, week)))
    for other in (None, PartSet.of((week, week + 1))):
        with pytest.raises(InternalError, match="parts that are not charged"):
            spending.check_parts(other)
    Spending(PrivacyLoss()).check_parts(None)


def test_a_unit_with_two_rows_is_refused_before_anything_is_charged(folder: Path) -> None:
    with duckdb.connect() as connection:
        file = folder / "signups.parquet"
        connection.execute(
            f"CREATE TABLE t AS SELECT * FROM '{file}' UNION ALL SELECT 1, DATE '2026-01-12', 'a'"
        )
        connection.execute(f"COPY t TO '{file}' (FORMAT parquet)")
    session = Session(load(folder / "dpsql.toml"), analyst="ann")
    with pytest.raises(Exception, match="signups cannot be read as declared"):
        session.run(select(f"signups WHERE {W2}"))
    assert session.budget().spent.epsilon == 0
    session.close()


def test_where_a_week_is_used_up_the_command_line_runs_the_next_one(folder: Path, commands: Commands) -> None:
    command = [*commands.command, "-p", "dpsql.toml"]
    codes = []
    for week in (W2, f"{W2} AND land = 'a'", W3):
        text = select(f"signups WHERE {week}")
        ran = subprocess.run([*command, "-c", text], cwd=folder, capture_output=True, text=True, check=False)
        codes.append(ran.returncode)
    assert codes == [0, ExitCode.BUDGET_EXCEEDED, 0]


def test_the_connection_knows_what_the_parts_leave(folder: Path) -> None:
    with connect(folder / "dpsql.toml", analyst="ann") as connection:
        connection.cursor().execute(select(f"signups WHERE {W2}"))
        assert connection.budget().by_parts
        assert not connection.explain(select(f"signups WHERE {W2} AND land = 'a'")).fits
        assert connection.explain(select(f"signups WHERE {W3}")).fits


def test_a_policy_without_parts_shows_none(folder: Path) -> None:
    (folder / "dpsql.toml").write_text(
        POLICY.replace(POLICY[POLICY.index("[parts") : POLICY.index("[tables.s")], "")
    )
    session = Session(load(folder / "dpsql.toml"), analyst="ann")
    with pytest.raises(QueryRefused, match="the policy divides no units into parts"):
        session.run("SHOW PRIVACY BUDGET BY PARTS")
    assert "parts" not in told(session, select("signups"))
    one(session, f"signups WHERE {W2}", "0.5")
    with pytest.raises(BudgetExceeded, match=r"only 0\.5 of the budget is left$"):
        one(session, f"signups WHERE {W3}")
    session.close()


def test_of_many_lines_the_newest_and_the_fullest_are_shown(folder: Path) -> None:
    (folder / "dpsql.toml").write_text(
        POLICY.replace('"week"', '"day"').replace("epsilon = 1\n", "epsilon = 9\n")
    )
    session = Session(load(folder / "dpsql.toml"), analyst="ann")
    first = clock.date(2025, 1, 1)
    for number in range(0, 90, 2):
        day = first + clock.timedelta(days=number)
        one(session, f"signups WHERE signed_up = DATE '{day}'", str(1 + number % 7))
    shown = session.run("SHOW PRIVACY BUDGET BY PARTS").table
    assert shown.num_rows < 40
    assert "more lines: SHOW PRIVACY BUDGET BY PARTS ALL" in shown.column(0)[-2].as_py()
    assert session.run("SHOW PRIVACY BUDGET BY PARTS ALL").table.num_rows > 85
    session.close()


def test_selections_are_charged_to_the_parts(session: Session) -> None:
    for week in (W2, W3):
        rows = f"signups WHERE {week} GROUP BY land ORDER BY n DESC LIMIT 1"
        session.run(select(rows, "0.5", "land, COUNT(*) AS n"))
    rows = f"signups WHERE {W2} OR {W3} GROUP BY land HAVING COUNT(*) > 100 ORDER BY n DESC"
    session.run(select(rows, "0.25", "land, COUNT(*) AS n"))
    assert parts(session)[1][:2] == ("2026-W02 .. 2026-W03", "0.75")
    assert parts(session)[2][:2] == ("from 2026-W04", "0")


SOME = "signed_up BETWEEN DATE '2026-01-05' AND DATE '2026-01-25'"
LARGEST = f"signups WHERE {SOME} GROUP BY week ORDER BY n DESC LIMIT 1"
BY_WEEK = "date_trunc('week', signed_up) AS week, COUNT(*) AS n"


@pytest.fixture
def listed(folder: Path) -> Iterator[Session]:
    """A session with declared days."""
    days = "domain.signed_up = { from = 2026-01-05, to = 2026-01-25 }"
    text = (folder / "dpsql.toml").read_text().replace("domain.land", f"{days}\ndomain.land")
    (folder / "dpsql.toml").write_text(text)
    with closing(Session(load(folder / "dpsql.toml"), analyst="ann")) as opened:
        yield opened


def test_of_weeks_all_are_charged_whichever_are_shown(listed: Session) -> None:
    """Adding a unit to one week may change which other one a top-k shows."""
    assert listed.run(select(LARGEST, "0.5", BY_WEEK)).table.num_rows == 1
    assert [row[:2] for row in parts(listed)[:3]] == [
        ("up to 2026-W01", "0"),
        ("2026-W02 .. 2026-W04", "0.5"),
        ("from 2026-W05", "0"),
    ]


@pytest.mark.parametrize("read", ["= (SELECT MAX(week) FROM ({}) AS r)", "IN (SELECT week FROM ({}) AS r)"])
def test_a_released_week_narrows_nothing(listed: Session, read: str) -> None:
    """It is not known when the statement is priced; as a literal of a second statement it is."""
    week = read.format(select(LARGEST, "0.25", BY_WEEK))
    listed.run(select(f"signups WHERE date_trunc('week', signed_up) {week}", "0.25"))
    spent = [row[:2] for row in parts(listed)[:2]]
    assert spent == [("up to 2026-W01", "0.25"), ("2026-W02 .. 2026-W04", "0.5")]


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/Los_Angeles", "UTC"])
@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMPTZ"])
@pytest.mark.sampled(5, rest="longer")
def test_weeks_begin_where_the_stored_ones_do(
    folder: Path, kind: str, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows around midnight are of the week of UTC, whatever zone sessions, policy and machine have."""
    monkeypatch.setenv("TZ", zone)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        moments = [(f"2026-01-{day} {hour}:30:00", place) for place, (day, hour) in enumerate(_MOMENTS)]
        units = [(100 * place + i, moment) for moment, place in moments for i in range(100)]
        rows = ", ".join(f"({unit}, CAST('{moment}' AS {kind}), 'a')" for unit, moment in units)
        connection.execute(f"CREATE TABLE t AS SELECT * FROM (VALUES {rows}) AS t(user_id, signed_up, land)")
        connection.execute(f"COPY t TO '{folder / 'signups.parquet'}' (FORMAT parquet)")
    text = (folder / "dpsql.toml").read_text()
    (folder / "dpsql.toml").write_text(f'time_zone = "{zone}"\n{text}')
    with closing(Session(load(folder / "dpsql.toml"), analyst="ann")) as opened:
        for week, name, expected in ((W2, "2026-W02", 300), (W3, "2026-W03", 100)):
            in_utc = week.replace("signed_up", "signed_up AT TIME ZONE 'UTC'")
            read = f"signups WHERE {in_utc if kind == 'TIMESTAMPTZ' else week}"
            if kind == "TIMESTAMP":
                assert told(opened, select(read))["parts"].startswith(name)
            assert abs(one(opened, read, "0.5") - expected) < 50


_MOMENTS = [("04", "23"), ("05", "00"), ("05", "08"), ("11", "23"), ("12", "00")]


# --- weeks that count as closed ---------------------------------------------------------------------------


def add_rows(folder: Path) -> None:
    """Write the file of the next week: it has one more unit."""
    with duckdb.connect() as connection:
        file = folder / "signups.parquet"
        connection.execute(
            f"CREATE TABLE t AS SELECT * FROM '{file}'"
            f" UNION ALL SELECT max(user_id) + 1, DATE '2026-03-01', 'a' FROM '{file}'"
        )
        connection.execute(f"COPY t TO '{file}' (FORMAT parquet)")


def test_a_repeat_of_a_closed_week_is_free_though_other_rows_came(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = POLICY.replace('every = "week"', 'every = "week"\nclosed_after = "7 days"')
    (folder / "dpsql.toml").write_text(closed)
    session = Session(load(folder / "dpsql.toml"), analyst="ann")
    said = "weeks count as closed 7 days after their end (policy)"
    old, new = f"signups WHERE {W2}", f"signups WHERE {W3}"
    joined = f"signups JOIN visits USING (user_id) WHERE {W2}"
    first = session.run(select(old, "0.5"))
    assert first.release is not None
    assert said in map(str, first.release.assumed)
    one(session, new, "0.5")  # it ended the day before
    one(session, joined, "0.5")
    add_rows(folder)
    assert one(session, old, "0.5") == first.table.column(0)[0].as_py()
    for rest in (new, joined):
        assert session.prepare(select(rest, "0.5")).price.epsilon > 0
    with pytest.raises(QueryRefused, match="cannot be refined: the data changed"):
        session.run("REFINE RELEASE 1 TO 0.75")
    set_clock(monkeypatch, "2026-01-26")
    assert said in told(session, select(new, "0.5"))["assumed"]
    assert session.ledger.check() == []
    session.close()


def test_no_week_counts_as_closed_that_is_open_now(folder: Path) -> None:
    closed = POLICY.replace('every = "week"', 'every = "week"\nclosed_after = "7 days"')
    (folder / "dpsql.toml").write_text(closed)
    with closing(Session(load(folder / "dpsql.toml"), analyst="ann")) as session:
        for as_of, expected in (("2026-01-20", {W2}), ("2030-01-01", {W2}), ("2026-01-12", set())):
            options, counted = OPTIONS.format(f"0.1, as_of = DATE '{as_of}'"), "COUNT(*) FROM signups"
            found = {
                week
                for week in (W2, W3)
                if private(session.prepare(f"SELECT {options} {counted} WHERE {week}")).plan.closed
            }
            assert found == expected, as_of


@pytest.mark.parametrize(
    ("day", "until"),
    [("0001-01-01", "before 1000"), ("0999-12-31", "before 1000"), ("1000-01-01", "up to 1000-W01")],
)
def test_a_clock_of_another_age_reads_what_was_before(session: Session, day: str, until: str) -> None:
    text = select("signups", f"0.1, as_of = DATE '{day}'")
    assert told(session, text)["parts"].startswith(until)
    assert told(session, text)["assumed"].startswith(until)
    assert session.run(text).table.num_rows == 1


def test_a_closed_week_is_asked_anew_where_a_public_table_has_changed(folder: Path) -> None:
    def zones(*names: str) -> None:
        with duckdb.connect() as connection:
            rows = ", ".join(f"('{name}')" for name in names)
            connection.execute(f"CREATE TABLE t AS SELECT * FROM (VALUES {rows}) v(land)")
            connection.execute(f"COPY t TO '{folder / 'zones.parquet'}' (FORMAT parquet)")

    zones("a")
    declared = POLICY.replace('every = "week"', 'every = "week"\nclosed_after = "0 days"')
    more = '[tables.zones]\nsource = "zones.parquet"\npublic = true\n'
    (folder / "dpsql.toml").write_text(declared + more)
    asked = f"signups s JOIN zones z ON s.land = z.land WHERE {W2}"
    for names, least in ((("a",), 300), (("a", "b"), 650)):
        zones(*names)
        with closing(Session(load(folder / "dpsql.toml"), analyst="ann")) as session:
            assert one(session, asked, "0.5") > least
            add_rows(folder)
            spent = session.budget().spent
            one(session, asked, "0.5")
            assert session.budget().spent == spent, "it is a free repeat"


def test_old_weeks_are_added_up_from_free_repeats(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = POLICY.replace('every = "week"', 'every = "week"\nclosed_after = "0 days"')
    (folder / "dpsql.toml").write_text(closed)
    session = Session(load(folder / "dpsql.toml"), analyst="ann")
    days = ("2026-01-05", "2026-01-12", "2026-01-19", "2026-01-26")
    weeks = [
        f"(SELECT {OPTIONS.format('1')} COUNT(*) AS n FROM signups"
        f" WHERE date_trunc('week', signed_up) = DATE '{day}')"
        for day in days
    ]
    for number, now in enumerate(("2026-01-12", "2026-01-19", "2026-01-26", "2026-02-02"), 1):
        set_clock(monkeypatch, now)
        add_rows(folder)
        total = (
            "SELECT SUM(n) FROM (" + " UNION ALL ".join(f"SELECT n FROM {w}" for w in weeks[:number]) + ") t"
        )
        assert session.prepare(total).price.epsilon == 1
        found = session.run(total).table.column(0)[0].as_py()
        assert abs(found - 700 * number) < 60
    assert session.budget().spent.epsilon == 1
    assert session.ledger.total_in_sequence() == 4
    session.close()


def test_the_owner_spends_the_largest_total_everywhere(folder: Path, commands: Commands) -> None:
    command = [*commands.command, "-p", "dpsql.toml"]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *arguments], cwd=folder, capture_output=True, text=True, check=False)

    session = Session(load(folder / "dpsql.toml"), analyst="ann")
    one(session, f"signups WHERE {W2}", "0.75")
    session.close()
    ran = run("budget", "--moved")
    assert ran.returncode == 0
    assert "what was asked of any part counts in every part now" in ran.stderr
    assert "spent in addition, policy: epsilon 0.75" in ran.stderr
    shown = run("--format", "csv", "-c", "SHOW PRIVACY BUDGET BY PARTS")
    assert shown.stdout.splitlines()[1:3] == ["every week,0.75,0.25,2 of 0.1", "NULL,0.75,0.25,2 of 0.1"]
    (folder / "dpsql.toml").write_text(
        POLICY.replace(POLICY[POLICY.index("[parts") : POLICY.index("[tables.s")], "")
    )
    assert run("budget", "--moved").returncode == ExitCode.USAGE


# --- units that move --------------------------------------------------------------------------------------


REFUSING = POLICY.replace('moves = "trusted"\n', "")


def change(folder: Path, sql: str) -> None:
    """Change the rows of the sign-ups, as a new version of the data."""
    with duckdb.connect() as connection:
        file = folder / "signups.parquet"
        connection.execute(f"CREATE TABLE t AS SELECT * FROM '{file}'")
        connection.execute(sql)
        connection.execute(f"COPY t TO '{file}' (FORMAT parquet)")


@pytest.fixture
def refusing(folder: Path) -> Iterator[Session]:
    (folder / "dpsql.toml").write_text(REFUSING)
    opened = Session(load(folder / "dpsql.toml"), analyst="ann")
    yield opened
    assert opened.ledger.check() == []
    opened.close()


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES (9999, DATE '2026-01-06', 'a')",
        "UPDATE t SET signed_up = signed_up + 1 WHERE user_id = 0",
        "UPDATE t SET land = 'b'",
    ],
)
@pytest.mark.sampled(2, rest="longer")
def test_what_moves_no_unit_is_harmless(refusing: Session, folder: Path, sql: str) -> None:
    one(refusing, f"signups WHERE {W2}", "0.5")
    change(folder, sql)
    one(refusing, f"signups WHERE {W2} AND land = 'a'", "0.5")


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE t SET signed_up = signed_up + 7 WHERE user_id = 0",
        "UPDATE t SET signed_up = NULL WHERE user_id = 0",
        "DELETE FROM t WHERE user_id = 0",
        "UPDATE t SET user_id = -1 WHERE user_id = 0",
    ],
)
@pytest.mark.sampled(2, rest="longer")
def test_a_unit_that_moved_is_refused_until_its_owner_goes_on(
    refusing: Session, folder: Path, sql: str, commands: Commands
) -> None:
    one(refusing, f"signups WHERE {W2}", "0.5")
    change(folder, sql)
    before = refusing.budget().spent
    for _ in range(2):
        with pytest.raises(OperationalError, match="table signups waits for its owner"):
            one(refusing, f"signups WHERE {W3}", "0.5")
    assert refusing.budget().spent == before
    told = [*commands.command, "-p", "dpsql.toml", "check"]
    report = subprocess.run(told, cwd=folder, capture_output=True, text=True, check=False).stdout
    assert re.search(r"wrong +parts\.user\.moves.* of 1 user the week has changed", report)
    command = [*commands.command, "-p", "dpsql.toml", "budget", "--moved"]
    assert subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0
    one(refusing, f"signups WHERE {W3}", "0.5")
    assert parts(refusing)[1][:2] == ("2026-W03", "1")
    with pytest.raises(BudgetExceeded):
        one(refusing, f"signups WHERE {W3} AND land = 'a'", "0.1")


def test_who_reads_the_file_of_units_without_its_key_finds_nobody(refusing: Session, folder: Path) -> None:
    one(refusing, f"signups WHERE {W2}", "0.5")
    key, units = folder / "ledger.sqlite.key", folder / "ledger.sqlite.units"
    assert {file.stat().st_mode & 0o777 for file in (key, units)} == {0o600}
    with duckdb.connect() as connection:
        hashes = {n for (n,) in connection.execute(f"SELECT unit FROM read_parquet('{units}')").fetchall()}
    rows = pa.table({"u": [*map(str, range(2800))], "d": pa.array([0] * 2800, pa.date32())})
    guessed = moved_units.PartsOfUnits.of(rows, b"another", "week")
    assert len(hashes) == 2800
    assert not hashes & {*guessed.hashes.tolist()}


@pytest.mark.parametrize("name", ["ledger.sqlite.key", "ledger.sqlite.units"])
def test_a_lost_file_is_noticed(refusing: Session, folder: Path, name: str) -> None:
    one(refusing, f"signups WHERE {W2}", "0.5")
    (folder / name).unlink()
    change(folder, "UPDATE t SET signed_up = signed_up + 7 WHERE user_id = 0")
    with pytest.raises(OperationalError, match=f"{name}, which tells whether units have moved, is missing"):
        one(refusing, f"signups WHERE {W3}", "0.5")


def test_a_process_with_older_parts_hides_no_move(refusing: Session, folder: Path) -> None:
    one(refusing, f"signups WHERE {W2}", "0.1")
    (folder / "dpsql.toml").write_text(REFUSING.replace('every = "week"', 'every = "day"'))
    with closing(Session(load(folder / "dpsql.toml"), analyst="ann")) as days:
        one(days, "signups WHERE signed_up = DATE '2026-01-05'", "0.3")
        change(folder, "UPDATE t SET signed_up = signed_up + 7 WHERE user_id = 0")
        one(refusing, f"signups WHERE {W2} AND land = 'a'", "0.1")  # it is charged to all parts
        with pytest.raises(OperationalError, match="table signups waits for its owner"):
            one(days, "signups WHERE signed_up = DATE '2026-01-12'", "0.3")


@pytest.mark.parametrize("writes", [1, 2])
@pytest.mark.parametrize("first", [True, False])
def test_who_is_killed_while_units_are_written_loses_none(
    refusing: Session, folder: Path, monkeypatch: pytest.MonkeyPatch, writes: int, first: bool
) -> None:
    """`writes`: of how many writes to the ledger the last one fails, before and after that of the file."""
    if not first:
        one(refusing, f"signups WHERE {W2}", "0.1")
        change(folder, "INSERT INTO t VALUES (9999, DATE '2026-01-06', 'a')")
    left = [writes]

    def remember(ledger: Ledger, name: str, value: str) -> None:
        left[0] -= name == "units of parts"
        if not left[0]:
            raise KeyboardInterrupt
        right(ledger, name, value)

    right = Ledger.remember
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "remember", remember)
        with pytest.raises(KeyboardInterrupt):
            one(refusing, f"signups WHERE {W2} AND land = 'a'", "0.1")
    one(refusing, f"signups WHERE {W2} AND land = 'a'", "0.1")
    change(folder, "UPDATE t SET signed_up = signed_up + 7 WHERE user_id = 0")
    with pytest.raises(OperationalError, match="table signups waits for its owner"):
        one(refusing, f"signups WHERE {W3}", "0.1")


def test_periods_of_days_are_those_of_the_calendar() -> None:
    days = [clock.date(1969, 12, 25) + clock.timedelta(days=each) for each in range(0, 40_000, 3)]
    numbers = np.array([(day - clock.date(1970, 1, 1)).days for day in days])
    for every in EVERY:
        found = moved_units.periods_of(numbers, every)
        expected = [Calendar(every).number(day) for day in days]
        pairs = {*zip(found.tolist(), expected, strict=True)}
        assert len(pairs) == len({*expected}) == len({*found.tolist()}), "one of each for one of the other"


def test_rows_of_a_unit_may_have_one_date_together(folder: Path, commands: Commands) -> None:
    """`constant = true`: several rows of a unit; one with another date, or without, refuses the table."""
    policy, data = folder / "dpsql.toml", folder / "signups.parquet"
    text = POLICY.replace('unique = [["user_id"]]', "rows_per_unit = 2").replace('moves = "trusted"\n', "")
    policy.write_text(text)
    with pytest.raises(PolicyError, match="may be in several weeks") as refused:
        load(policy)
    assert "constant = true in [parts.user] if all rows of a user have one date" in str(refused.value)
    policy.write_text(text.replace('every = "week"', 'every = "week"\nconstant = true'))

    def write(second: str) -> None:
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE t AS SELECT * FROM '{data}' WHERE user_id < 700 OR false")
            connection.execute(
                f"CREATE TABLE twice AS FROM t UNION ALL SELECT user_id, {second}, land FROM t"
            )
            connection.execute(f"COPY twice TO '{data}' (FORMAT parquet)")

    write("signed_up")
    with closing(Session(load(policy), analyst="ann")) as opened:
        assert abs(one(opened, f"signups WHERE {W2}") - 350) < 40
        assert told(opened, select(f"signups WHERE {W2}"))["parts"] == "2026-W02 (week of signups.signed_up)"
        assert ("2026-W02", "1", "0", "0 of 0.1") in parts(opened)
    for second in ("CASE WHEN user_id = 0 THEN DATE '2026-01-12' ELSE signed_up END", "NULL::DATE"):
        with duckdb.connect() as connection:
            connection.execute(
                f"CREATE TABLE t AS SELECT DISTINCT * FROM '{data}' WHERE signed_up IS NOT NULL"
            )
            connection.execute("DELETE FROM t WHERE user_id = 0 AND signed_up = DATE '2026-01-12'")
            connection.execute(f"COPY t TO '{data}' (FORMAT parquet)")
        write(second)
        with closing(Session(load(policy), analyst="ann")) as opened:
            with pytest.raises(OperationalError, match="cannot be read as declared"):
                one(opened, f"signups WHERE {W3}")
            assert ("all statements in sequence", "1", "", "") in parts(opened), "nothing was charged"
        done = subprocess.run(
            [*commands.command, "--policy", str(policy), "check"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "have several values of signed_up" in done.stdout
