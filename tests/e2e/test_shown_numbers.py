"""Each number that README.md and `dpsql demo` show lies where its range says; the table is printed."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb

from tests.commands import Commands
from tests.e2e import readme_picture
from tests.e2e.shown_numbers import ROOT, numbers, printed, raw, shown

SLACK = 2
"""An exact answer this many widths beyond a range is no chance: e^-15 for Laplace noise, less for others."""


def test_each_printed_number_of_the_readme_covers_its_exact_answer() -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    found = list(printed(page))
    assert len(found) == 10
    assert [number.line() for number in found if not number.covered] == []
    begins = ", ".join(f"{round(n.exact):,}" for n in found[:3])
    assert begins in re.sub(r"\s+", " ", page)
    assert len(page.splitlines()) <= 200


def test_the_picture_of_the_readme_shows_the_exact_answers() -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    assert f"]({readme_picture.FILE.relative_to(ROOT)})" in page
    shown = readme_picture.numbers(readme_picture.FILE.read_text("utf-8"))
    assert len(shown) == 72
    (count,) = (text for text in readme_picture.STATEMENT.split("\n\n") if text)
    statement = raw(count).replace("FROM visits", f"FROM '{ROOT / 'data' / 'visits.parquet'}'")
    with duckdb.connect() as db:
        exact = {(str(m)[:7], c): n for m, c, n in db.execute(statement).fetchall()}
    assert exact.keys() == shown.keys()
    covered = sum(low <= exact[key] <= high for key, (low, high) in shown.items())
    assert covered >= 62, "95% of 72 are 68; below 62 is no chance"
    drawn = readme_picture.FILE.read_text("utf-8")
    assert 'role="img"' in drawn
    assert readme_picture.PAPER in drawn, "it can be read on a dark page, too"


def test_the_exact_answers_are_those_of_the_same_sql() -> None:
    statement = "SELECT COUNT(*, contribution_bounds_per_group => (0, 5)) AS n FROM visits"
    assert raw(statement) == "SELECT COUNT(*) AS n FROM visits"
    (number,) = numbers("", [statement], [[{"n": 5, "n_low": 1, "n_high": 9}]])
    assert (number.exact, number.covered) == (399_767, False)
    assert "NO" in number.line()


def test_what_the_readme_and_the_demo_answer_is_about_what_they_ask(
    tmp_path: Path, commands: Commands
) -> None:
    found = shown(tmp_path, commands.command)
    for number in found:
        print(number.line())
    ranged = [n for n in found if n.low is not None and n.high is not None]
    assert {n.place for n in ranged} == {"printed", "README", "demo"}
    assert len(ranged) > 80
    for n in ranged:
        assert n.low is not None
        assert n.high is not None
        slack = SLACK * (n.high - n.low)
        assert n.low - slack <= n.exact <= n.high + slack, n.line()
    assert sum(bool(n.covered) for n in ranged) >= 0.6 * len(ranged)
