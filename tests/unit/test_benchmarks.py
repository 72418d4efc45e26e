"""The benchmarks' page, history and goals; no time is tested."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.goals import discovered
from tests.benchmarks.history import Run, changes
from tests.benchmarks.measures import Figure, Goal, Pairs
from tests.benchmarks.page import page


def figure(ratio: float, what: str = "top 10") -> Figure:
    return Pairs([(ratio, 1.5 * ratio)], [(1.0, 1.0)]).figure("a group", what, goal=Goal("work", 2))


def run(*figures: Figure) -> Run:
    return Run("S", "2026-01-02T03:04+00:00", {"cores": "2"}, [*figures])


def test_every_goal_says_what_it_is() -> None:
    found = discovered()
    assert {"fixed_cost", "startup"} <= set(found)
    assert all(goal.TITLE and goal.GOAL and callable(goal.figures) for goal in found.values())


def test_runs_are_kept_and_compared(tmp_path: Path) -> None:
    file = tmp_path / "history.json"
    assert Run.last(file) is None
    first, second = run(figure(2.0), figure(1.0, "another")), run(figure(3.0))
    first.append(file)
    second.append(file)
    assert Run.all(file) == [first, second]
    assert Run.last(file) == second
    assert changes(second, first) == {("a group", "top 10"): (2.0, 3.0)}


def test_the_page_has_ratios_goals_and_changes() -> None:
    text = page(run(figure(3.0, "<b> & co")), run(figure(2.0, "<b> & co")))
    assert "&lt;b&gt; &amp; co" in text
    assert "3.00" in text
    assert "+50%" in text
    assert "work &lt;= 2 x missed" in text
    assert "0 of 1 goals are met" in text
    assert "src=" not in text, "the page is one file"
