"""Registered reports: a part is measured once, by one plan, from its own budget; nothing else is mixed in."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.cli import main
from dpsql.errors import BudgetExceeded, OperationalError, ProgrammingError, QueryRefused
from dpsql.kernel.charged_work import FAILED
from dpsql.kernel.loss import Charge
from dpsql.kernel.unit_parts import PartSet
from dpsql.ledger import Request, shown
from dpsql.policy import load
from dpsql.session import Session
from tests.commands import Commands
from tests.unit.reports.conftest import POLICY, set_clock

SELECT = "SELECT WITH DIFFERENTIAL_PRIVACY"
WEEK = "date_trunc('week', signed_up) = :part"
SO_FAR = "signed_up >= DATE '2026-01-05' AND signed_up < :part + INTERVAL 7 DAY"
WEEK_ALONE = f"{SELECT} country, COUNT(*) AS n FROM signups WHERE {WEEK} GROUP BY country"
TOP = f"{SELECT} country, COUNT(*) AS n FROM signups WHERE {{}} GROUP BY country ORDER BY n DESC LIMIT 1"
WEEKLY = f"""
-- the week, and all so far
{SELECT} country, COUNT(*) AS n FROM signups WHERE {WEEK} GROUP BY country;
{SELECT} COUNT(*) AS n FROM signups WHERE {SO_FAR};
"""


def register(session: Session, script: str = WEEKLY, name: str = "weekly", **more: Any) -> None:
    keep = "share" in more
    session.reports.register(session.reports.plan_registration(name, script, **more), keep=keep)


def run(session: Session, part: str, name: str = "weekly") -> list[list[dict[str, Any]]]:
    answers = session.reports.execute(session.reports.plan_run(name, part))
    return [answer.table.to_pylist() for answer in answers]


def spent(session: Session, part: str) -> Fraction:
    assert session.ledger.parts is not None
    number = session.ledger.parts.calendar.parse(part)
    assert number is not None
    return session.ledger.budget(None, PartSet.of((number, number))).spent.epsilon


def test_weeks_are_measured_once_and_added_up(session: Session) -> None:
    register(session, share=1)
    once = session.reports.plan_run("weekly", "2026-W02").price.epsilon
    by_country, so_far = run(session, "2026-W02")
    assert sum(row["n"] for row in by_country) == pytest.approx(so_far[0]["n"], abs=1e-6)
    planned = session.reports.plan_run("weekly", "2026-W04")
    assert planned.parts is not None
    assert len(planned.parts) == 2  # the third week, which nobody measured, and the fourth
    later, all_weeks = run(session, "2026-W04")
    assert abs(all_weeks[0]["n"] - 2100) < 100
    assert session.reports.plan_run("weekly", "2026-W03").price.epsilon == 0
    third, three = run(session, "2026-W03")
    weeks = [sum(row["n"] for row in each) for each in (by_country, third, later)]
    assert all_weeks[0]["n"] == pytest.approx(sum(weeks), abs=1e-5)
    assert three[0]["n"] == pytest.approx(sum(weeks[:2]), abs=1e-5)
    for part in ("2026-W02", "2026-W03", "2026-W04"):
        assert spent(session, part) == once  # the rest is for the block of four weeks
    assert spent(session, "2026-W05") == 0
    assert session.ledger.check() == []


def test_weeks_that_lie_apart_are_measured_together(session: Session) -> None:
    two = "date_trunc('week', signed_up) IN (:part, :part - INTERVAL 14 DAY)"
    script = f"""{SELECT} channel, COUNT(*) AS n FROM signups WHERE {two} GROUP BY channel;
    {SELECT} COUNT(*) AS n FROM signups WHERE {WEEK}"""
    register(session, script, share=1)
    planned = session.reports.plan_run("weekly", "2026-W05")
    assert planned.parts is not None
    assert len(planned.parts.ranges) == 2
    by_channel, week = run(session, "2026-W05")
    assert abs(sum(row["n"] for row in by_channel) - 1400) < 100
    assert abs(week[0]["n"] - 700) < 100
    assert spent(session, "2026-W04") == 0
    assert session.reports.plan_run("weekly", "2026-W04").price.epsilon > 0  # of two weeks
    assert session.ledger.check() == []


def test_the_same_part_again_costs_nothing_and_says_the_same(session: Session, folder: Path) -> None:
    register(session, share=1)
    first = run(session, "2026-W02")
    entries = len(session.ledger.entries())
    assert run(session, "2026-W02") == first
    with duckdb.connect() as connection:  # next week's file
        late = "SELECT 9000, DATE '2026-02-02', 'a', 'x', 'p'"
        rows = f"SELECT * FROM '{folder}/signups.parquet' UNION ALL {late}"
        connection.execute(f"COPY ({rows}) TO '{folder}/new.parquet' (FORMAT parquet)")
    (folder / "new.parquet").replace(folder / "signups.parquet")
    assert run(session, "2026-W02") == first
    assert len(session.ledger.entries()) == entries


def test_another_text_under_a_name_is_refused_and_mixes_with_nothing(session: Session) -> None:
    register(session, epsilon="0.4")
    first = run(session, "2026-W02")
    added = WEEKLY + f"{SELECT} channel, COUNT(*) AS n FROM signups WHERE {WEEK} GROUP BY channel;"
    with pytest.raises(ProgrammingError, match="another report 'weekly'"):
        register(session, added, epsilon="0.4")
    register(session, epsilon="0.4")  # the same one
    register(session, added, "more", epsilon="0.4")
    once, price = spent(session, "2026-W02"), session.reports.plan_run("more", "2026-W02").price.epsilon
    assert price > Fraction(1, 10)
    run(session, "2026-W02", "more")
    assert run(session, "2026-W02") == first
    assert spent(session, "2026-W02") == once + price
    measured: dict[str, set[Any]] = {name: set() for name in ("weekly", "more")}
    for name, numbers in measured.items():
        known = session.reports.plan_run(name, "2026-W02").known
        numbers |= {number for _, _, number in known}
        assert numbers
    assert not measured["weekly"] & measured["more"]


def test_a_report_that_begins_anew_goes_on_with_what_it_has(session: Session) -> None:
    register(session, share=1)
    first = run(session, "2026-W02")
    session.ledger.end_report("weekly")
    with pytest.raises(ProgrammingError, match="no report"):
        run(session, "2026-W02")
    register(session, share=1)
    assert session.reports.plan_run("weekly", "2026-W02").price.epsilon == 0
    assert run(session, "2026-W02") == first
    assert session.ledger.check() == []


ASK = (
    f"{SELECT} OPTIONS (epsilon = 0.3) COUNT(*) AS n FROM signups WHERE date_trunc('week', signed_up) = DATE "
)


def test_a_share_is_kept_until_the_part_is_measured(session: Session) -> None:
    register(session, share="0.8")
    with pytest.raises(BudgetExceeded, match=r"0\.8 of it is kept for report weekly"):
        session.run(f"{ASK} '2026-01-05'")
    session.run(f"{ASK} '2026-01-05'".replace("0.3", "0.2"))
    with pytest.raises(BudgetExceeded, match=r"only 0 of the budget is left .* kept"):
        session.run(f"{ASK} '2026-01-05'".replace("0.3", "0.001"))
    run(session, "2026-W02")
    assert spent(session, "2026-W02") <= 1
    with pytest.raises(BudgetExceeded):
        session.run(f"{SELECT} OPTIONS (epsilon = 0.3) COUNT(*) FROM signups")  # all weeks
    session.ledger.end_report("weekly")
    session.run(f"{ASK} '2026-01-12'".replace("0.3", "0.9"))
    assert session.ledger.check() == []


def test_what_two_reports_keep_adds_up(session: Session) -> None:
    register(session, WEEK_ALONE, share="0.5")
    register(session, WEEK_ALONE.replace("country", "channel"), "second", share="0.4")
    with pytest.raises(BudgetExceeded, match="kept for report weekly and second"):
        session.run(f"{ASK} '2026-01-05'")
    run(session, "2026-W02")
    with pytest.raises(BudgetExceeded, match=r"0\.4 of it is kept for report second"):
        session.run(f"{ASK} '2026-01-05'")
    run(session, "2026-W02", "second")
    assert spent(session, "2026-W02") <= Fraction(9, 10)


def test_one_of_two_processes_measures_a_part(session: Session, folder: Path, commands: Commands) -> None:
    register(session, WEEK_ALONE, epsilon="0.4")
    code = (
        "import sys\n"
        "from dpsql.policy import load\nfrom dpsql.session import Session\n"
        "from dpsql.errors import OperationalError\n"
        "session = Session(load(sys.argv[1]), analyst='ann')\n"
        "planned = session.reports.plan_run('weekly', '2026-W02')\n"
        "print('ready', flush=True)\nsys.stdin.readline()\n"
        "try:\n    session.reports.execute(planned)\n    print('measured')\n"
        "except OperationalError as error:\n    print(error)\n"
    )
    children = [
        subprocess.Popen(
            [*commands.command, "python", code, str(folder / "dpsql.toml")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    told = sorted(child.communicate()[0] for child in children)
    assert told[0] == "measured\n"
    assert told[1] == "measured\n" or told[1].startswith("report weekly was measured for week 2026-W02")
    assert Fraction(39, 100) < spent(session, "2026-W02") <= Fraction(2, 5)
    assert session.reports.plan_run("weekly", "2026-W02").price.epsilon == 0


def test_a_part_is_reserved_once_for_a_report(session: Session) -> None:
    register(session, epsilon="0.4")
    (report, measured), *_ = session.ledger.reports()
    assert not measured
    two, three = (PartSet.of((n, n)) for n in (527211, 527212))  # the second week of 2026, and the third
    one = Request("count", "m", Charge(Fraction(1, 10)), parts=two, report=report.number)
    ask = partial(session.ledger.reserve_all, analyst="ann", statement="s")
    held = ask(requests=[one])
    with pytest.raises(OperationalError, match="report weekly was measured for week 2026-W02, or is now"):
        ask(requests=[one])
    with pytest.raises(OperationalError, match="week 2026-W02"):
        ask(requests=[replace(one, parts=two | three)])
    session.ledger.settle(ask(requests=[replace(one, parts=three)]), Charge(Fraction(1, 10)))
    session.ledger.fail(held)
    ask(requests=[one])  # what failed may be measured again, and is charged again
    with pytest.raises(OperationalError, match="week 2026-W02"):
        ask(requests=[one])
    session.ledger.end_report("weekly")
    with pytest.raises(OperationalError, match="has ended"):
        ask(requests=[replace(one, parts=PartSet.of((527213, 527213)))])
    assert spent(session, "2026-W02") == Fraction(1, 5)
    assert session.ledger.check() == []


def test_a_failed_run_stays_charged_and_may_run_again(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(session, epsilon="0.4")
    planned = session.reports.plan_run("weekly", "2026-W02")
    kind = type(planned.measured[0].prepared.counting)

    def fail(*args: Any, **more: Any) -> Any:
        raise RuntimeError("no")

    monkeypatch.setattr(kind, "count", fail)
    with pytest.raises(Exception, match=FAILED):
        session.reports.execute(planned)
    monkeypatch.undo()
    set_clock(monkeypatch, "2026-02-04")
    assert spent(session, "2026-W02") == planned.price.epsilon
    assert session.reports.plan_run("weekly", "2026-W02").price == planned.price
    run(session, "2026-W02")
    assert spent(session, "2026-W02") == 2 * planned.price.epsilon
    session.reports.execute(planned)  # it is stored now
    assert spent(session, "2026-W02") == 2 * planned.price.epsilon


def test_a_failed_run_of_a_report_that_has_all_cannot_run_again(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(session, share="0.8")
    planned = session.reports.plan_run("weekly", "2026-W02")
    monkeypatch.setattr(type(planned.measured[0].prepared.counting), "count", lambda *args, **more: 1 / 0)
    with pytest.raises(Exception, match=FAILED):
        session.reports.execute(planned)
    monkeypatch.undo()
    set_clock(monkeypatch, "2026-02-04")
    with pytest.raises(BudgetExceeded, match="2026-W02"):
        run(session, "2026-W02")
    with pytest.raises(BudgetExceeded, match="2026-W02") as error:  # which needs the failed week
        run(session, "2026-W03")
    assert "Raise the budget; or end weekly and register a report whose statements begin after" in str(
        error.value
    )


def test_only_the_analyst_of_a_report_runs_it(session: Session, folder: Path) -> None:
    register(session, share="0.8")
    other = Session(load(folder / "dpsql.toml"), analyst="bob")
    with pytest.raises(ProgrammingError, match="you have no report 'weekly'"):
        other.reports.plan_run("weekly", "2026-W02")
    with pytest.raises(ProgrammingError, match="another report"):
        register(other, share="0.1")
    other.close()


@pytest.mark.parametrize(
    ("script", "epsilon", "message"),
    [
        (
            f"{SELECT} COUNT(*) AS n FROM signups WHERE signed_up > :day",
            "0.1",
            "parameter :day, but .* :part",
        ),
        (
            f"{SELECT} COUNT(*) AS n FROM signups WHERE signed_up >= $1::DATE + $day",
            "0.1",
            r"parameter \$day",
        ),
        (f"{WEEK_ALONE}; {SELECT} COUNT(*) AS n FROM signups", "0.1", "statement 2 has no :part, but others"),
        (WEEK_ALONE, "1.5", "a run costs epsilon 1.5, but the budget allows at most 1"),
    ],
)
def test_reports_that_could_never_run_are_not_registered(
    unchanged: Session, script: str, epsilon: str, message: str
) -> None:
    with pytest.raises((ProgrammingError, QueryRefused), match=message):
        unchanged.reports.plan_registration("weekly", script, epsilon=epsilon)


def test_a_name_that_is_not_there_is_told_with_those_that_are(session: Session) -> None:
    with pytest.raises(ProgrammingError, match="no report 'week'\nHint: dpsql report add registers one"):
        session.reports.find("week")
    register(session, share="0.8")
    with pytest.raises(ProgrammingError, match="no report 'week'\nHint: you have weekly"):
        session.reports.find("week")


def test_parts_that_are_not_run(session: Session) -> None:
    register(session, share="0.8")
    for part, message in (
        ("2026-W06", "is not over"),
        ("2027-W02", "is not over"),
        ("2026-02", "is no week; write it as 2026-W05"),
        (None, "is run for a week"),
    ):
        with pytest.raises((OperationalError, ProgrammingError), match=message):
            session.reports.plan_run("weekly", part)


def test_a_week_that_does_not_count_as_closed_is_not_measured(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(session, share="0.8")
    set_clock(monkeypatch, "2026-02-02")
    with pytest.raises(OperationalError, match="counts as closed 1 days after its end"):
        session.reports.plan_run("weekly", "2026-W05")
    set_clock(monkeypatch, "2026-02-03")
    run(session, "2026-W05")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (f"{SELECT} COUNT(*) FROM visits WHERE country = 'a' AND :part > DATE '2000-01-01'", "would charge"),
        (TOP.format(SO_FAR), "would charge weeks of other runs again"),
        (f"{WEEKLY}; {TOP.format(WEEK)}", "released by itself"),
        (f"{SELECT} COUNT(*) FROM signups WHERE signed_up < :part", "before some date|would charge"),
    ],
)
def test_reports_that_would_charge_weeks_again_are_refused(
    unchanged: Session, script: str, message: str
) -> None:
    with pytest.raises(QueryRefused, match=message):
        register(unchanged, script, share="0.8")
    assert unchanged.ledger.reports() == []


def test_a_selection_of_the_week_alone_runs_beside_the_estimate(session: Session) -> None:
    week = WEEK_ALONE
    register(session, f"{week}; {week} ORDER BY n DESC LIMIT 1", share="0.8")
    by_country, top = run(session, "2026-W02")
    assert (len(by_country), len(top)) == (3, 1)
    assert spent(session, "2026-W02") <= Fraction(4, 5)
    assert run(session, "2026-W02") == [by_country, top]


def test_a_statement_that_stays_out_later_is_not_released(session: Session) -> None:
    first = "CASE WHEN :part = DATE '2026-01-12' THEN DATE '2026-01-08' ELSE DATE '2026-01-05' END"
    script = f"{SELECT} COUNT(*) AS n FROM signups WHERE {SO_FAR} AND signed_up >= {first}"
    register(session, script, share="0.8")
    run(session, "2026-W02")
    with pytest.raises(
        OperationalError, match="statement 1 is not answered here: it has a condition that cuts"
    ):
        run(session, "2026-W03")
    assert spent(session, "2026-W03") == 0


def test_other_parts_than_those_of_the_registration_are_not_mixed_in(session: Session, folder: Path) -> None:
    register(session, share="0.8")
    run(session, "2026-W02")
    text = POLICY.replace('column = "signed_up"', 'column = "later"')
    (folder / "dpsql.toml").write_text(text)
    with duckdb.connect() as connection:
        rows = f"SELECT *, signed_up AS later FROM '{folder}/signups.parquet'"
        connection.execute(f"COPY ({rows}) TO '{folder}/new.parquet' (FORMAT parquet)")
    (folder / "new.parquet").replace(folder / "signups.parquet")
    other = Session(load(folder / "dpsql.toml"), analyst="ann")
    with pytest.raises(
        OperationalError, match="units are in other parts than when report weekly was registered"
    ):
        other.reports.plan_run("weekly", "2026-W03")
    other.close()


def test_a_process_that_was_killed_leaves_its_part_charged(
    session: Session, folder: Path, commands: Commands
) -> None:
    register(session, WEEK_ALONE, epsilon="0.4")
    code = (
        "import os, sys\n"
        "from dpsql.policy import load\nfrom dpsql.session import Session\n"
        "session = Session(load(sys.argv[1]), analyst='ann')\n"
        "planned = session.reports.plan_run('weekly', '2026-W02')\n"
        "kind = type(planned.measured[0].prepared.counting)\n"
        "kind.count = lambda *args, **more: os.kill(os.getpid(), 9)\n"
        "session.reports.execute(planned)\n"
    )
    ran = subprocess.run([*commands.command, "python", code, str(folder / "dpsql.toml")], check=False)
    assert ran.returncode != 0
    once = spent(session, "2026-W02")
    assert Fraction(39, 100) < once <= Fraction(2, 5)
    assert session.ledger.releases("ann") == []
    run(session, "2026-W02")
    assert spent(session, "2026-W02") == 2 * once
    assert session.ledger.check() == []


def test_without_closed_after_nothing_is_added_up(folder: Path) -> None:
    (folder / "dpsql.toml").write_text(POLICY.replace('closed_after = "1 days"\n', ""))
    session = Session(load(folder / "dpsql.toml"), analyst="ann")
    with pytest.raises(QueryRefused, match="measured at different times"):
        register(session, share="0.8")
    register(session, WEEKLY.partition(";")[0], share="0.8")
    first = run(session, "2026-W02")
    assert run(session, "2026-W02") == first
    session.close()


def test_a_report_without_parts_is_measured_once(session: Session) -> None:
    four = "signed_up >= DATE '2026-01-05' AND signed_up < DATE '2026-02-02'"
    register(
        session,
        f"{SELECT} country, COUNT(*) AS n FROM signups WHERE {four} GROUP BY country",
        "whole",
        epsilon="0.5",
    )
    answers = session.reports.execute(session.reports.plan_run("whole"))
    again = session.reports.plan_run("whole")
    assert again.price.epsilon == 0
    assert session.reports.execute(again)[0].table == answers[0].table
    with pytest.raises(ProgrammingError, match="has no parts"):
        session.reports.plan_run("whole", "2026-W02")


def test_statements_do_what_the_command_line_does(session: Session) -> None:
    created = session.run(f"CREATE REPORT weekly OPTIONS (epsilon = 0.5) AS $$ {WEEKLY} $$")
    properties = {row["property"]: row["value"] for row in created.table.to_pylist()}
    assert (properties["each"], properties["epsilon"]) == ("week", "0.5")
    price, measured = session.run("EXPLAIN REPORT weekly ('2026-W02')").table.to_pylist()[-4:-2]
    assert measured == {"property": "to be measured", "value": "2026-W02"}
    prepared = session.prepare("EXECUTE REPORT weekly ('2026-W02')")
    assert price == {"property": "price of this run", "value": shown(prepared.price.epsilon, up=True)}
    assert Fraction(1, 5) < prepared.price.epsilon <= Fraction(1, 2)
    assert session.budget().spent.epsilon == 0
    every = session.execute(prepared).table.to_pylist()
    assert [(row["statement"], row["keys"]) for row in every] == [(1, "a"), (1, "b"), (1, "c"), (2, "")]
    one = session.run("execute report WEEKLY (DATE '2026-W02') statement 1;")
    assert [row["n"] for row in one.table.to_pylist()] == pytest.approx([row["value"] for row in every[:3]])
    (row,) = session.run("SHOW REPORTS").table.to_pylist()
    assert (row["report"], row["statements"], row["measured"]) == ("weekly", 2, "2026-W02")
    with pytest.raises(ProgrammingError, match="has 2 statements"):
        session.run("EXECUTE REPORT weekly ('2026-W02') STATEMENT 3")
    session.run("DROP REPORT weekly")
    assert session.run("SHOW REPORTS").table.num_rows == 0


def test_a_kept_share_is_the_owners(session: Session) -> None:
    register(session, share="0.5")
    with pytest.raises(ProgrammingError, match="its owner ends it"):
        session.run("DROP REPORT weekly")


def test_the_command_line_registers_and_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = folder / "weekly.sql"
    script.write_text(WEEKLY)
    own = ["-p", str(folder / "dpsql.toml"), "--analyst", "ann", "report"]
    assert main([*own, "add", str(script), "--name", "weekly", "--share", "0.8"]) == 0
    assert "a run costs epsilon 0.8 of each week" in capsys.readouterr().err
    assert main([*own, "run", "weekly", "--part", "2026-W02", "--dry-run"]) == 0
    price = capsys.readouterr().err.split("this run costs epsilon ")[1].strip()
    assert 0 < float(price) < 0.8  # the rest is for blocks of weeks
    for told_price in (price, "0"):
        assert main([*own, "run", "weekly", "--part", "2026-W02"]) == 0
        told = capsys.readouterr()
        assert f"this run costs epsilon {told_price}\n" in told.err
        assert told.out.startswith("country,n")
    assert main([*own, "list"]) == 0
    assert "weekly,2,0.8,0.8" in capsys.readouterr().out
    assert main([*own, "show", "weekly"]) == 0
    assert "predicted error" in capsys.readouterr().out
    for part in ("2026-W03", "2026-W04"):
        assert main([*own, "run", "weekly", "--part", part]) == 0
    before = Session(load(folder / "dpsql.toml"), analyst="ann")
    entries = len(before.ledger.entries())
    before.close()
    assert main([*own, "page", "weekly", "--to", str(folder / "page.html")]) == 0
    page = (folder / "page.html").read_text("utf-8")
    assert "next run, 2026-W05" in page
    assert page.count("<h2>Statement") == 2
    assert "Line: n by from, 95% intervals, 2026-01-05 to 2026-01-19" in page
    assert "<script" not in page
    assert "svg[viewBox]{max-width:100%" in page  # charts fit narrow screens
    assert "computed from" in page
    assert main([*own, "end", "weekly"]) == 0
    assert main([*own, "run", "weekly", "--part", "2026-W02"]) != 0
    assert main([*own, "add", str(script), "--name", "weekly"]) == 2
    after = Session(load(folder / "dpsql.toml"), analyst="ann")
    assert len(after.ledger.entries()) == entries  # the page and the refused run have charged nothing
    after.close()


def test_changed_rows_of_reports_are_found(session: Session, opened: Callable[[], Session]) -> None:
    register(session, share="0.8")
    run(session, "2026-W02")
    with session.ledger._store.write() as connection:
        connection.execute("DROP TRIGGER report_ends_once")
        connection.execute("UPDATE report SET plan = '{}'")
        connection.execute("DROP TRIGGER report_run_stays")
        connection.execute("DELETE FROM report_run WHERE entry = 1")
    found = " ".join(session.ledger.check())
    assert "report 1 is missing or not what it was" in found
    assert "report_run has" in found
    assert "entry 1 is not what it was" in found
