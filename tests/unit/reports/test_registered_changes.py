"""Registered reports after a change of the data or the policy, and those that no estimate answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.cli import main
from dpsql.errors import BudgetExceeded, OperationalError, ProgrammingError
from dpsql.kernel.loss import PrivacyLoss
from dpsql.session import Session
from tests.unit.reports.conftest import POLICY
from tests.unit.reports.test_registered import SELECT, TOP, WEEK, WEEK_ALONE, register, run, spent

VALUES = 'domain.country = { values = ["a", "b", "c"]'


def shrink(folder: Path) -> None:
    with duckdb.connect() as connection:
        rows = f"SELECT * FROM '{folder}/signups.parquet' WHERE user_id < 280"
        connection.execute(f"COPY ({rows}) TO '{folder}/new.parquet' (FORMAT parquet)")
    (folder / "new.parquet").replace(folder / "signups.parquet")


def test_a_share_is_there_in_each_week_for_what_stays_out(session: Session) -> None:
    register(session, TOP.format(WEEK), share="0.8")
    for part in ("2026-W02", "2026-W03"):
        first = run(session, part)
        assert spent(session, part) == Fraction(4, 5)
        assert run(session, part) == first
        assert spent(session, part) == Fraction(4, 5)
    (_, measured), *_ = session.ledger.reports()
    assert len(measured) == 2


def test_what_is_of_other_rows_says_so(session: Session, folder: Path, opened: Callable[[], Session]) -> None:
    (folder / "dpsql.toml").write_text(POLICY.replace('closed_after = "1 days"\n', ""))
    own = opened()
    register(own, f"{WEEK_ALONE}; {SELECT} COUNT(*) AS n FROM signups WHERE {WEEK}", epsilon="0.4")
    run(own, "2026-W02")
    planned = own.reports.plan_run("weekly", "2026-W02")
    assert not planned.of_other_rows
    before = own.reports.execute(planned)[0].release
    shrink(folder)
    after = own.reports.execute(own.reports.plan_run("weekly", "2026-W02"))[0].release
    assert before is not None
    assert after is not None
    told = "measured before the data or the policy changed"
    assert not any(told in each for each in before.warnings)
    assert any(told in each for each in after.warnings)
    assert any(told in each for each in own.run("EXECUTE REPORT weekly ('2026-W02')").notices)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ('["a", "b"]', "country had other declared values when this report was planned"),
        ('["a", "b", "c", "d"]', "does not tell the numbers of statement 1; missing: the total of d"),
    ],
)
def test_a_week_is_not_charged_for_what_is_not_told(
    session: Session, folder: Path, opened: Callable[[], Session], values: str, message: str
) -> None:
    register(session, WEEK_ALONE, epsilon="0.4")
    run(session, "2026-W02")
    (folder / "dpsql.toml").write_text(POLICY.replace(VALUES, f"domain.country = {{ values = {values}", 1))
    other = opened()
    with pytest.raises(OperationalError, match=f"{message}.*nothing was charged"):
        run(other, "2026-W03")
    assert spent(other, "2026-W03") == 0


def test_an_epsilon_of_0_is_not_the_default(folder: Path, opened: Callable[[], Session]) -> None:
    (folder / "dpsql.toml").write_text(
        POLICY.replace("epsilon = 1\n", "epsilon = 1\ndefault_epsilon = 0.3\n")
    )
    own = opened()
    with pytest.raises(ProgrammingError, match="must lie between"):
        own.run(f"CREATE REPORT z OPTIONS (epsilon = 0) AS $$ {WEEK_ALONE} $$")
    assert own.ledger.reports() == []
    own.run(f"CREATE REPORT z AS $$ {WEEK_ALONE} $$")


def test_costs_of_several_releases_are_added_up_by_parts(folder: Path, opened: Callable[[], Session]) -> None:
    more = 'epsilon = 1\ndelta = 0.000001\naccounting = "zcdp"\n'
    (folder / "dpsql.toml").write_text(POLICY.replace("epsilon = 1\n", more))
    own = opened()
    register(own, f"{WEEK_ALONE}; {SELECT} COUNT(*) AS n FROM signups WHERE {WEEK}", epsilon="0.123456789")
    run(own, "2026-W02")
    assert own.ledger.check() == []


@pytest.mark.parametrize("epsilon", ["0", "-1", "1e-40", "1e400"])
def test_an_epsilon_that_no_statement_has_is_refused(unchanged: Session, epsilon: str) -> None:
    with pytest.raises(ProgrammingError, match="between 1e-06 and 1,000,000"):
        register(unchanged, WEEK_ALONE, epsilon=epsilon)
    with pytest.raises(ProgrammingError, match="between 1e-06 and 1,000,000"):
        unchanged.reports.plan([f"{SELECT} COUNT(*) AS n FROM signups"], epsilon)


def test_a_page_that_cannot_be_written_is_said(
    session: Session, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register(session, WEEK_ALONE, epsilon="0.4")
    own = ["-p", str(folder / "dpsql.toml"), "--analyst", "ann", "report"]
    assert main([*own, "page", "weekly", "--to", str(folder / "none" / "page.html")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_a_ladder_leaves_what_is_kept(session: Session) -> None:
    register(session, WEEK_ALONE, share="0.8")
    session.ledger.check_ladders(PrivacyLoss.of(Fraction(1, 5), Fraction(0)))
    with pytest.raises(BudgetExceeded, match=r"0\.8 of it is kept for report weekly"):
        session.ledger.check_ladders(PrivacyLoss.of(Fraction(3, 10), Fraction(0)))


def test_a_week_is_of_no_other_one_after_parts_have_changed_for_a_time(
    session: Session, folder: Path, opened: Callable[[], Session]
) -> None:
    register(session, WEEK_ALONE, share="0.4")
    second = run(session, "2026-W02")
    with duckdb.connect() as connection:
        rows = f"SELECT *, signed_up AS later FROM '{folder}/signups.parquet'"
        connection.execute(f"COPY ({rows}) TO '{folder}/new.parquet' (FORMAT parquet)")
    (folder / "new.parquet").replace(folder / "signups.parquet")
    (folder / "dpsql.toml").write_text(POLICY.replace('column = "signed_up"', 'column = "later"'))
    opened().run(f"{SELECT} OPTIONS (epsilon = 0.01) COUNT(*) AS n FROM visits")
    (folder / "dpsql.toml").write_text(POLICY)
    own = opened()
    assert run(own, "2026-W02") == second
    assert own.reports.plan_run("weekly", "2026-W03").price.epsilon > 0
    assert run(own, "2026-W03") != second
    assert own.ledger.check() == []


def test_a_text_for_other_parts_is_another_report(unchanged: Session) -> None:
    text = unchanged.reports.plan_registration("weekly", WEEK_ALONE, epsilon="0.4").text
    assert text.declared is not None
    assert replace(text, declared="other").digest != text.digest


def test_shares_that_no_part_has_together_are_refused(session: Session) -> None:
    register(session, WEEK_ALONE, share="0.8")
    other = WEEK_ALONE.replace("country", "channel")
    with pytest.raises(ProgrammingError, match="so large a share beside what is kept for weekly"):
        register(session, other, "second", share="0.3")
    register(session, other, "second", share="0.2")
    for name in ("second", "weekly"):
        run(session, "2026-W02", name)
    assert spent(session, "2026-W02") <= 1


def test_a_share_is_not_said_to_be_kept_for_a_report_that_keeps_none(session: Session) -> None:
    register(session, WEEK_ALONE, epsilon="0.4")
    with pytest.raises(ProgrammingError, match="another share kept; end it first"):
        register(session, WEEK_ALONE, share="0.4")
    session.ledger.end_report("weekly")
    register(session, WEEK_ALONE, share="0.4")
    register(session, WEEK_ALONE, epsilon="0.4")
    assert session.ledger.reports()[0][0].kept is not None
