"""Blocks of parts of registered reports: measured once, when they are over, from a share kept for them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from dpsql.errors import BudgetExceeded, OperationalError, ProgrammingError
from dpsql.kernel.unit_parts import PartSet
from dpsql.reports.measurement_plan import BLOCKS, Block
from dpsql.session import Session
from tests.unit.reports.test_registered import ASK, SELECT, SO_FAR, TOP, WEEK, register, run, spent

SCRIPT = f"""{SELECT} COUNT(*) AS n FROM signups WHERE {WEEK};
{SELECT} country, COUNT(*) AS n FROM signups WHERE {SO_FAR} GROUP BY country;
{SELECT} COUNT(*) AS n FROM signups WHERE {SO_FAR}"""
WEEKS = ("2026-W02", "2026-W03", "2026-W04", "2026-W05")
"""One block of four, from the first week of what is since the beginning."""


@pytest.fixture(autouse=True)
def _blocks_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BLOCKS, "week", ((4,),))


def test_blocks_are_aligned_with_the_first_part() -> None:
    block = Block(4, 100, ())
    assert block.list_within(PartSet.of((100, 107))) == [PartSet.of((100, 103)), PartSet.of((104, 107))]
    assert block.list_within(PartSet.of((101, 107))) == [PartSet.of((104, 107))]
    assert block.list_within(PartSet.of((90, 94), (96, 98))) == []
    assert block.list_within(PartSet.of((92, 96))) == [PartSet.of((92, 95))]
    assert block.list_within(None) == []


def test_a_block_is_measured_when_it_is_over_and_once(session: Session) -> None:
    planned = session.reports.plan_registration("weekly", SCRIPT, share=1)
    ((name, loss),) = planned.of_blocks.items()
    assert name == "weekly (blocks of 4 weeks)"
    assert loss.epsilon is not None
    assert Fraction(99, 100) < planned.price.epsilon <= 1
    session.reports.register(planned, keep=True)
    first = [run(session, part) for part in WEEKS[:3]]
    own = spent(session, WEEKS[0])
    assert own == planned.own.epsilon
    last = run(session, WEEKS[3])
    for part in WEEKS:
        assert spent(session, part) == own + loss.epsilon
    assert sum(row["n"] for row in last[1]) == pytest.approx(last[2][0]["n"], abs=1e-6)
    assert abs(last[2][0]["n"] - 2800) < 60
    # Earlier answers stay what they were: the block is not within what they read.
    for part, before in zip(WEEKS, first, strict=False):
        for one, other in zip(run(session, part), before, strict=True):
            assert [row["n"] for row in one] == pytest.approx([row["n"] for row in other], abs=1e-6)
    assert session.reports.plan_run("weekly", WEEKS[3]).price.epsilon == 0
    assert session.ledger.check() == []


def test_a_block_makes_what_is_since_the_beginning_more_precise(session: Session) -> None:
    register(session, SCRIPT, share=1)
    for part in WEEKS:
        run(session, part)
    total = session.reports.execute(session.reports.plan_run("weekly", WEEKS[3]))[2].release
    before = session.reports.execute(session.reports.plan_run("weekly", WEEKS[2]))[2].release
    assert total is not None
    assert before is not None
    assert total.table.column("n_stddev")[0].as_py() < before.table.column("n_stddev")[0].as_py()
    assert total.properties["computed"] != before.properties["computed"]


def test_weeks_that_were_left_out_are_measured_with_their_block(session: Session) -> None:
    register(session, SCRIPT, share=1)
    planned = session.reports.plan_run("weekly", WEEKS[3])
    assert Fraction(99, 100) < planned.price.epsilon <= 1
    session.reports.execute(planned)
    assert {spent(session, part) for part in WEEKS} == {planned.price.epsilon}
    assert session.ledger.check() == []


def test_the_share_of_a_block_is_kept_until_it_is_measured(session: Session) -> None:
    register(session, SCRIPT, share="0.8")
    run(session, WEEKS[0])
    with pytest.raises(BudgetExceeded, match=r"kept for report weekly \(blocks of 4 weeks\)"):
        session.run(f"{ASK} '2026-01-05'")
    session.run(f"{ASK} '2026-01-05'".replace("0.3", "0.2"))
    run(session, WEEKS[3])
    assert spent(session, WEEKS[0]) <= 1
    (row,) = session.run("SHOW REPORTS").table.to_pylist()
    assert (row["report"], row["kept"]) == ("weekly", "0.8")
    with pytest.raises(ProgrammingError, match="no report"):
        session.ledger.end_report("weekly (blocks of 4 weeks)")
    session.ledger.end_report("weekly")
    assert session.ledger.reports() == []
    with pytest.raises(ProgrammingError, match="no report"):
        session.reports.find("weekly (blocks of 4 weeks)")


def test_where_the_budget_does_not_pay_for_a_block_it_is_left_out(session: Session) -> None:
    register(session, SCRIPT, epsilon="0.8")
    for part in WEEKS[:3]:
        run(session, part)
    left = 1 - spent(session, WEEKS[0])
    session.run(f"{ASK} '2026-01-05'".replace("0.3", str(float(left) - 0.01)))
    answers = run(session, WEEKS[3])
    assert abs(answers[2][0]["n"] - 2800) < 100
    assert spent(session, WEEKS[3]) == spent(session, WEEKS[1])
    assert session.ledger.check() == []


def test_a_report_goes_on_with_its_blocks_after_it_has_ended(
    session: Session, opened: Callable[[], Session]
) -> None:
    register(session, SCRIPT, share=1)
    last = run(session, WEEKS[3])
    session.ledger.end_report("weekly")
    own = opened()
    register(own, SCRIPT, share=1)
    assert own.reports.plan_run("weekly", WEEKS[3]).price.epsilon == 0
    assert run(own, WEEKS[3]) == last


def test_a_run_at_an_earlier_release_says_the_same_to_the_last_digit(session: Session) -> None:
    session.run(f"{ASK} '2026-01-05'".replace("0.3", "0.1"))
    register(session, SCRIPT, share="0.8")
    first = run(session, WEEKS[1])
    newest = max(each.number for each in session.ledger.releases("ann"))
    run(session, WEEKS[3])
    entries = len(session.ledger.entries())
    planned = session.reports.plan_run("weekly", WEEKS[1], newest)
    assert planned.price.epsilon == 0
    assert [each.table.to_pylist() for each in session.reports.execute(planned)] == first
    again = session.run(f"EXECUTE REPORT weekly ('{WEEKS[1]}') OPTIONS (at_release = {newest}) STATEMENT 2")
    assert again.table.to_pylist() == first[1]
    with pytest.raises(OperationalError, match=f"not told by releases up to {newest}: .*2026-W04"):
        session.reports.plan_run("weekly", WEEKS[3], newest)
    with pytest.raises(ProgrammingError, match="your newest release is"):
        session.reports.plan_run("weekly", WEEKS[3], 1000)
    with pytest.raises(OperationalError, match=r"2026-W02 \.\. 2026-W03 was not measured then"):
        session.run(f"EXECUTE REPORT weekly ('{WEEKS[1]}') OPTIONS (at_release = 1)")
    assert len(session.ledger.entries()) == entries


def test_a_statement_that_was_not_released_then_is_not_released_now(session: Session) -> None:
    register(session, TOP.format(WEEK), share="0.8")
    first = run(session, WEEKS[0])
    run(session, WEEKS[1])
    planned = session.reports.plan_run("weekly", WEEKS[0], 1)
    assert [each.table.to_pylist() for each in session.reports.execute(planned)] == first
    for part, release in ((WEEKS[1], 1), (WEEKS[2], 2)):
        with pytest.raises(OperationalError, match="a statement was not measured then"):
            session.reports.plan_run("weekly", part, release)


def test_what_is_of_one_week_has_no_blocks(session: Session) -> None:
    planned = session.reports.plan_registration(
        "weekly", f"{SELECT} COUNT(*) AS n FROM signups WHERE {WEEK}", share=1
    )
    assert planned.of_blocks == {}


def test_running_totals_over_weeks_have_blocks_and_weeks_by_themselves_none(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BLOCKS, "week", ((12,),))
    counted = f"{SELECT} date_trunc('week', signed_up) AS week, COUNT(*) AS n FROM signups WHERE {SO_FAR}"
    weeks = f"{counted} GROUP BY week"
    totals = f"SELECT week, SUM(n) OVER (ORDER BY week) AS total FROM ({weeks})"
    alone = session.reports.plan_registration("alone", weeks, share=1)
    assert alone.text.plans[0].blocks == ()
    both = f"SELECT week, n, SUM(n) OVER (ORDER BY week) AS total FROM ({weeks})"
    for text in (totals, both):
        planned = session.reports.plan_registration("totals", text, share=1)
        (plan,) = planned.text.plans
        assert [block.length for block in plan.blocks] == [12]
        assert (plan.added is None) == (text is both)
