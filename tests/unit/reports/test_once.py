"""Statements of a file that share one epsilon and one estimate: what they measure, cost and answer."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpsql.cli import main
from dpsql.composition.running import Releasing
from dpsql.errors import BudgetExceeded, QueryRefused
from dpsql.kernel.charged_work import FAILED
from dpsql.policy import load
from dpsql.reports import PlannedReport
from dpsql.reports.linear_releases import StaysOutError, cell_sums_of
from dpsql.session import Session

SELECT = "SELECT WITH DIFFERENTIAL_PRIVACY"
FOUR = "signed_up >= DATE '2026-01-05' AND signed_up < DATE '2026-02-02'"
BY_COUNTRY = f"{SELECT} country, COUNT(*) AS n FROM signups WHERE {FOUR} GROUP BY country"
TOTAL = f"{SELECT} COUNT(*) AS n FROM signups WHERE {FOUR}"
CUBE = f"{SELECT} country, channel, COUNT(*) AS n FROM signups WHERE {FOUR} GROUP BY CUBE (country, channel)"


def plan(session: Session, *texts: str, epsilon: str = "1") -> PlannedReport:
    return session.reports.plan(texts, epsilon)


def rows(result: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.table.to_pylist()
    return found


def test_totals_are_the_sums_of_their_groups(session: Session) -> None:
    by_country, total, cube = session.reports.run(plan(session, BY_COUNTRY, TOTAL, CUBE))
    n = {row["country"]: row["n"] for row in rows(by_country)}
    assert sum(n.values()) == pytest.approx(rows(total)[0]["n"], abs=1e-6)
    found = {(row["country"], row["channel"]): row["n"] for row in rows(cube)}
    assert len(found) == 12
    for country, number in n.items():
        assert found[country, "x"] + found[country, "y"] == pytest.approx(number, abs=1e-6)
        assert found[country, None] == pytest.approx(number, abs=1e-6)
    assert abs(n["a"] - 934) < 200


def test_a_report_costs_its_epsilon_once_and_then_nothing(session: Session) -> None:
    planned = plan(session, BY_COUNTRY, TOTAL)
    assert Fraction(999, 1000) < planned.price.epsilon <= 1
    first = session.reports.run(planned)
    assert session.budget().spent.epsilon == planned.price.epsilon
    again = plan(session, BY_COUNTRY, TOTAL)
    assert again.price.epsilon == 0
    assert [a.table for a in session.reports.run(again)] == [a.table for a in first]
    assert session.ledger.check() == []


def test_what_is_measured_for_one_report_answers_no_other_and_no_statement(session: Session) -> None:
    session.reports.run(plan(session, BY_COUNTRY, TOTAL, epsilon="0.3"))
    changed = plan(session, BY_COUNTRY, TOTAL, CUBE, epsilon="0.3")
    assert changed.price.epsilon > Fraction(29, 100)
    for each in plan(session, BY_COUNTRY, TOTAL, epsilon="0.3").measured:
        options = f"OPTIONS (epsilon = {float(each.prepared.full_price.epsilon)}, noise = LAPLACE)"
        text = each.query.text.replace(SELECT, f"{SELECT} {options}")
        assert session.prepare(text).price.epsilon > 0


@pytest.mark.parametrize("runs", [4, pytest.param(25, marks=pytest.mark.longer)])
def test_the_estimate_covers_the_truth(opened: Callable[[], Session], runs: int) -> None:
    inside = total = 0
    session = opened()
    for epsilon in range(runs):
        texts = (BY_COUNTRY, TOTAL, f"{TOTAL} AND channel = 'x'")
        answers = session.reports.run(plan(session, *texts, epsilon=f"0.0{epsilon + 100}"))
        truths = [[934, 933, 933], [2800], [1400]]
        for answer, exact in zip(answers, truths, strict=True):
            table = answer.release.table  # type: ignore[union-attr]
            low, high = (np.array(table.column(f"n_{end}").to_pylist()) for end in ("low", "high"))
            inside += int(((low <= exact) & (np.array(exact) <= high)).sum())
            total += len(exact)
    assert inside / total > 0.85  # 0.95 is expected, of 25 runs with a deviation of 0.022


def test_what_is_not_linear_runs_at_its_share_and_says_so(session: Session) -> None:
    top = (
        f"{SELECT} country, COUNT(*) AS n FROM signups WHERE {FOUR} GROUP BY country ORDER BY n DESC LIMIT 2"
    )
    planned = plan(session, TOTAL, top)
    assert [part.full_price.epsilon for part in planned.statements[1].others] == [Fraction(1, 2)]
    assert (
        "statement 2 stays out of the estimate, at epsilon 0.5: it selects groups by noise" in planned.words()
    )
    one, two = session.reports.run(planned)
    assert one.release.properties["computed"] == "computed from release 1"  # type: ignore[union-attr]
    assert len(rows(two)) == 2
    assert any("not from the estimate" in text for text in two.release.warnings)  # type: ignore[union-attr]
    assert session.budget().spent.epsilon <= 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            f"{SELECT} COUNT(*) AS n FROM signups WHERE {FOUR} AND open LIKE 'p%'",
            "whose values are not all declared",
        ),
        (
            f"{SELECT} COUNT(*) AS n FROM signups WHERE {FOUR} AND (country = 'a' OR channel = 'x')",
            "together",
        ),
        (
            f"{SELECT} COUNT(*) AS n FROM signups WHERE signed_up < DATE '2026-01-20' AND {FOUR}",
            "cuts a week",
        ),
        (f"{SELECT} COUNT(*) AS n FROM signups", "before some date"),
        (f"{SELECT} OPTIONS (noise = LAPLACE) COUNT(*) AS n FROM signups WHERE {FOUR}", "its noise"),
        (f"{SELECT} COUNT(*) AS n FROM visits", "no plain count|several"),
        (f"{SELECT} COUNT(*) AS n FROM often", "rows of which a unit may have several, within a bound"),
        (f"{SELECT} COUNT(*) AS n FROM signups JOIN visits USING (user_id) WHERE {FOUR}", "several"),
        (
            f"{SELECT} month(signed_up) AS m, COUNT(*) AS n FROM signups WHERE {FOUR} GROUP BY m",
            "no unions of weeks|in no group",
        ),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_what_breaks_the_linear_law_stays_out(unchanged: Session, text: str, why: str) -> None:
    planned = plan(unchanged, text)
    (reason,) = planned.statements[0].reasons
    assert any(each in reason for each in why.split("|")), reason
    assert not planned.measured


def test_what_is_computed_from_counts_is_computed_from_the_estimate(session: Session) -> None:
    share = f"{SELECT} country, 100 * COUNT(*) FILTER (WHERE channel = 'x') / COUNT(*) AS share"
    share += ", DP_STDDEV(n) AS s, COUNT(*) AS n"
    having = f"{BY_COUNTRY} HAVING COUNT(*) > 900 ORDER BY n DESC"
    computed = f"{share} FROM signups WHERE {FOUR} GROUP BY country"
    planned = plan(session, BY_COUNTRY, computed, having)
    assert [statement.reasons for statement in planned.statements] == [(), (), ()]
    plain, ratio, some = session.reports.run(planned)
    n = {row["country"]: row["n"] for row in rows(plain)}
    for row in rows(ratio):
        assert row["n"] == pytest.approx(n[row["country"]], abs=1e-6)
        assert 40 < row["share"] < 60
        assert 0 < row["s"] < 30
    assert [row["n"] for row in rows(some)] == sorted((v for v in n.values() if v > 900), reverse=True)


def test_a_linear_statement_is_read_from_its_plan(unchanged: Session) -> None:
    found = plan(
        unchanged,
        f"{SELECT} COUNT(*) AS n, COUNT(*) FILTER (WHERE country = 'a') AS a FROM signups"
        f" WHERE {FOUR} AND channel IN ('x')",
    )
    (statement,) = found.statements
    made = cell_sums_of(
        statement.prepared.parts[0].plan,  # type: ignore[union-attr]
        unchanged.policy,
    )
    assert (made.table, made.keys, len(made.own[0]), len(made.own[1])) == ("signups", (), 0, 1)
    assert set(made.columns) == {"signed_up", "channel", "country"}
    top = unchanged.prepare(
        f"{BY_COUNTRY} ORDER BY n DESC LIMIT 1".replace(SELECT, f"{SELECT} OPTIONS (epsilon = 1)")
    )
    with pytest.raises(StaysOutError, match="noise"):
        cell_sums_of(top.parts[0].plan, unchanged.policy)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{SELECT} OPTIONS (epsilon = 1) COUNT(*) FROM signups", "names its epsilon"),
        (f"{SELECT} OPTIONS (error = 5) COUNT(*) FROM signups", "names its error"),
        (f"{SELECT} OPTIONS (combine = ONLY) COUNT(*) FROM signups", "combine = ONLY"),
        ("SET dp_epsilon = 1", "is no SELECT"),
    ],
)
def test_statements_that_no_report_has_are_refused(unchanged: Session, text: str, message: str) -> None:
    with pytest.raises(QueryRefused, match=message):
        plan(unchanged, TOTAL, text)
    assert unchanged.budget().spent.epsilon == 0


def test_a_statement_may_ask_for_the_estimate(session: Session) -> None:
    asked = TOTAL.replace(SELECT, f"{SELECT} OPTIONS (combine = TRUE)")
    one, two = session.reports.run(plan(session, BY_COUNTRY, asked))
    assert sum(row["n"] for row in rows(one)) == pytest.approx(rows(two)[0]["n"], abs=1e-6)
    top = f"{BY_COUNTRY} ORDER BY n DESC LIMIT 1".replace(SELECT, f"{SELECT} OPTIONS (combine = TRUE)")
    with pytest.raises(QueryRefused, match="statement 2 has combine = TRUE, but it selects groups by noise"):
        plan(session, BY_COUNTRY, top)


@pytest.mark.parametrize(
    "text",
    [
        f"{SELECT} OPTIONS (combine = TRUE) COUNT(*) FROM signups",
        f"{SELECT} OPTIONS (combine = TRUE, epsilon = 1) COUNT(*) FROM signups",
        f"EXPLAIN {SELECT} OPTIONS (combine = TRUE) COUNT(*) FROM signups",
        f"SELECT n FROM ({SELECT} OPTIONS (combine = TRUE) COUNT(*) AS n FROM signups)",
    ],
)
def test_outside_of_a_report_nothing_is_averaged(unchanged: Session, text: str) -> None:
    with pytest.raises(QueryRefused, match="combine = TRUE is for statements of a report") as caught:
        unchanged.run(text)
    assert "CREATE REPORT" in str(caught.value)
    with pytest.raises(QueryRefused, match="at_release is for answers that are added up"):
        unchanged.run(text.replace("combine = TRUE", "combine = TRUE, at_release = 1"))
    assert unchanged.budget().spent.epsilon == 0


def test_a_report_that_the_budget_does_not_pay_charges_nothing(unchanged: Session) -> None:
    planned = plan(unchanged, BY_COUNTRY, TOTAL, epsilon="1.5")
    with pytest.raises(BudgetExceeded):
        unchanged.reports.run(planned)
    assert unchanged.budget().spent.epsilon == 0
    assert unchanged.ledger.entries() == []


def test_a_failure_in_the_middle_leaves_all_charged(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = plan(session, BY_COUNTRY, f"{BY_COUNTRY} ORDER BY n DESC LIMIT 1")
    assert planned.prepared is not None
    assert len(planned.prepared.parts) > 1
    counted = []

    def fail(self: Any, *args: Any, **more: Any) -> Any:
        counted.append(1)
        if len(counted) > 1:
            raise RuntimeError("secret of the data")
        return count(self, *args, **more)

    kind = type(planned.measured[0].prepared.counting)
    count = kind.count
    monkeypatch.setattr(kind, "count", fail)
    with pytest.raises(Exception, match=FAILED) as caught:
        session.reports.run(planned)
    assert "secret" not in str(caught.value)
    monkeypatch.undo()
    assert session.budget().spent.epsilon == planned.price.epsilon
    assert session.ledger.releases("ann") == []
    assert {entry.state for entry in session.ledger.entries()} == {"failed"}
    assert session.ledger.check() == []


def test_no_row_is_counted_before_the_charge(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    planned = plan(session, BY_COUNTRY, TOTAL)
    reserve, kind = session.ledger.reserve_all, type(planned.measured[0].prepared.counting)
    count = kind.count

    def reserved(**more: Any) -> Any:
        order.append("reserve")
        return reserve(**more)

    def counted(self: Any, *args: Any, **more: Any) -> Any:
        order.append("count")
        return count(self, *args, **more)

    monkeypatch.setattr(session.ledger, "reserve_all", reserved)
    monkeypatch.setattr(kind, "count", counted)
    session.reports.run(planned)
    assert order[0] == "reserve"
    assert order.count("reserve") == 1
    assert order.count("count") == len(planned.measured)


def test_a_report_runs_where_it_was_planned(opened: Callable[[], Session]) -> None:
    planned, other = plan(opened(), TOTAL), opened()
    with pytest.raises(Exception, match="on the database on which it was planned"):
        other.reports.run(planned)


def test_the_command_line_prices_first_and_answers_each_statement(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = folder / "once.sql"
    script.write_text(f"{BY_COUNTRY};\n{TOTAL};\n")
    own = [
        "-p",
        str(folder / "dpsql.toml"),
        "--analyst",
        "ann",
        "-f",
        str(script),
        "--together",
        "--epsilon",
        "0.5",
    ]
    assert main([*own, "--dry-run"]) == 0
    told = capsys.readouterr()
    assert "signups is measured" in told.err
    assert "together epsilon 0.5" in told.err
    assert told.out == ""
    assert main([*own, "--format", "csv"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("country,n")
    assert "statement 2 of 2" in told.err
    session = Session(load(folder / "dpsql.toml"), analyst="ann")
    assert Fraction(49, 100) < session.budget().spent.epsilon <= Fraction(1, 2)
    session.close()
    assert main([*own[:-1], "0"]) == 2
    assert main([*own[:-2]]) == 2


def test_releases_of_a_report_are_not_shared_by_chance(session: Session) -> None:
    planned = plan(session, TOTAL)
    assert planned.prepared is not None
    releasing = Releasing(session.database, session.ledger, "bob")
    session.reports.run(planned)
    assert releasing.stored(planned.prepared) is None
