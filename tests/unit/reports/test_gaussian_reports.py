"""Reports under `accounting = "zcdp"`: Gaussian noise where it errs less, at the cost that is said."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpsql.cli import main
from dpsql.errors import BudgetExceeded
from dpsql.reports import PlannedReport, measurement_plan
from dpsql.session import Session
from tests.unit.reports.conftest import POLICY
from tests.unit.reports.test_registered import SELECT, SO_FAR, WEEK, run, spent

FOUR = "signed_up >= DATE '2026-01-05' AND signed_up < DATE '2026-02-02'"
ZCDP = POLICY.replace("epsilon = 1\n", 'epsilon = 1\ndelta = 0.000001\naccounting = "zcdp"\n')
WEEKLY = ";\n".join(
    f"{SELECT} {keys}COUNT(*) AS n FROM signups WHERE {where}{group}"
    for keys, group in (("", ""), ("country, ", " GROUP BY country"), ("channel, ", " GROUP BY channel"))
    for where in (WEEK, SO_FAR)
)


@pytest.fixture
def opened_zcdp(folder: Path, opened: Callable[[], Session]) -> Callable[[], Session]:
    (folder / "dpsql.toml").write_text(ZCDP)
    return opened


def statements() -> list[str]:
    """Return 20 statements: many conditions that no release has in common."""
    found = []
    for size in range(3):
        for keys in combinations(("country", "channel"), size):
            named, group = (", ".join(keys) + ", ", f" GROUP BY {', '.join(keys)}") if keys else ("", "")
            found += [
                f"{SELECT} {named}COUNT(*) AS n FROM signups WHERE {FOUR} AND country IN ({listed}){group}"
                for listed in ("'a', 'b'", "'b', 'c'", "'a', 'c'", "'a', 'b', 'c'")
            ]
    return found


def plan(session: Session, epsilon: str) -> PlannedReport:
    return session.reports.plan(statements(), epsilon)


def test_a_report_is_planned_in_the_way_that_errs_less(opened_zcdp: Callable[[], Session]) -> None:
    session = opened_zcdp()
    (few,) = session.reports.plan([f"{SELECT} COUNT(*) AS n FROM signups WHERE {FOUR}"], 1).plans
    assert few.way == "pure"
    planned = session.reports.plan_registration("weekly", WEEKLY, share=1)
    (weekly,) = planned.text.plans
    assert weekly.way in ("pure", "gaussian")
    assert weekly.deviation < weekly.even


@pytest.fixture
def gaussian(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let reports be planned in the Gaussian way alone."""
    ways = measurement_plan._ways

    def only_gaussian(*args: Any) -> Any:
        return [each for each in ways(*args) if each[0] == "gaussian"]

    monkeypatch.setattr(measurement_plan, "_ways", only_gaussian)


def test_gaussian_reports_take_their_part_of_the_limit_of_costs(
    opened_zcdp: Callable[[], Session], gaussian: None
) -> None:
    session = opened_zcdp()
    planned = plan(session, "0.5")
    assert {each.way for each in planned.plans} == {"gaussian"}
    assert Fraction(1, 10) < planned.price.epsilon <= Fraction(1, 2)
    session.reports.run(planned)
    # Half of the limit of costs is left: as much as was taken.
    assert float(session.budget().remaining.epsilon) == pytest.approx(float(planned.price.epsilon), rel=1e-6)
    assert plan(session, "0.5").price.epsilon == 0
    session.reports.run(session.reports.plan([*statements(), statements()[0]], "0.49"))
    with pytest.raises(BudgetExceeded):
        session.reports.run(session.reports.plan([*statements(), statements()[1]], "0.3"))
    assert session.ledger.check() == []


@pytest.mark.longer
@pytest.mark.parametrize("turns", [3, 30])
def test_gaussian_estimates_cover_and_agree(
    turns: int, folder: Path, opened: Callable[[], Session], gaussian: None
) -> None:
    (folder / "dpsql.toml").write_text(ZCDP.replace("epsilon = 1\n", "epsilon = 60\n", 1))
    session, inside, total, errors = opened(), 0, 0, list[float]()
    truth = {"a": 934, "b": 933, "c": 933}
    for turn in range(turns):
        answers = session.reports.run(plan(session, f"1.{100 + turn}"))
        every = answers[3].table.column("n")[0].as_py()
        by_country = {row["country"]: row["n"] for row in answers[7].table.to_pylist()}
        assert sum(by_country.values()) == pytest.approx(every, abs=1e-5)
        release = answers[7].release
        assert release is not None
        for row in release.table.to_pylist():
            exact = truth[row["country"]]
            inside += row["n_low"] <= exact <= row["n_high"]
            total += 1
            errors.append((row["n"] - exact) / row["n_stddev"])
            # Of normal noise the half-width is 1.96 standard deviations.
            assert (row["n_high"] - row["n_low"]) / 2 == pytest.approx(1.96 * row["n_stddev"], rel=0.01)
    assert total == 3 * turns
    assert inside / total > 0.85
    if turns > 10:
        assert 0.7 < np.sqrt(np.mean(np.square(errors))) < 1.35


def test_a_gaussian_report_is_added_on_the_command_line(
    folder: Path, gaussian: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "dpsql.toml").write_text(ZCDP)
    (folder / "weekly.sql").write_text(WEEKLY)
    words = ["report", "add", str(folder / "weekly.sql"), "--name", "weekly", "--share", "0.5"]
    assert main(["-p", str(folder / "dpsql.toml"), "--analyst", "ann", *words]) == 0
    said = capsys.readouterr().err
    assert "a run costs epsilon 0.2918 of each week" in said
    assert "report weekly is registered" in said


def test_a_weekly_gaussian_report_charges_each_week_its_share(
    opened_zcdp: Callable[[], Session], gaussian: None
) -> None:
    session = opened_zcdp()
    planned = session.reports.plan_registration("weekly", WEEKLY, share="0.8")
    assert planned.own.epsilon is None
    assert 0 < planned.price.epsilon <= Fraction(8, 10)
    session.reports.register(planned, keep=True)
    for part in ("2026-W02", "2026-W03", "2026-W04", "2026-W05"):
        answers = run(session, part)
        weeks = [sum(row["n"] for row in answers[i]) for i in (1, 3, 5)]
        assert weeks == pytest.approx([weeks[0]] * 3, abs=1e-5)
    assert spent(session, "2026-W06") == 0
    other = f"{SELECT} OPTIONS (epsilon = {{}}, noise = GAUSSIAN) COUNT(*) AS n FROM signups WHERE {WEEK}"
    week = other.replace(":part", "DATE '2026-01-05'")
    with pytest.raises(BudgetExceeded):  # a fifth of the limit of costs is left
        session.run(week.format(0.3))
    session.run(week.format(0.1))
    assert session.ledger.check() == []
