"""A weekly dashboard over two years: each week pays for itself, earlier ones are added up from releases.

Three statements a week at epsilon 1/3 (sign-ups of the week: total, by country, by channel) tell six: the
three, and since the beginning by country and in all, and of the last four weeks by channel.
"""

from __future__ import annotations

import datetime as clock
from collections import defaultdict
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.analysis import compiler
from dpsql.composition import planner
from dpsql.policy import load
from dpsql.session import Session

WEEKS, COUNTRIES, CHANNELS = 104, 12, 6
FIRST = clock.date(2024, 1, 1)
POLICY = f"""
[budget]
epsilon = 1
default_epsilon = "1/3"
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
domain.country = {{ values = {[f"c{i}" for i in range(COUNTRIES)]}, complete = true }}
domain.channel = {{ values = {[f"h{i}" for i in range(CHANNELS)]}, complete = true }}
"""
Table = dict[tuple[int, str], float]
"""Numbers of a week and a country or channel."""


@pytest.mark.slow
def test_a_weekly_dashboard_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with duckdb.connect() as connection:
        connection.execute(
            f"CREATE TABLE signups AS SELECT i AS user_id, DATE '{FIRST}' + CAST(i % {7 * WEEKS} AS INTEGER)"
            f" AS signed_up, 'c' || hash(i) % {COUNTRIES} AS country,"
            f" 'h' || hash(i + 0.5) % {CHANNELS} AS channel"
            " FROM range(300000) t(i)"
        )
        connection.execute(f"COPY signups TO '{tmp_path / 'signups.parquet'}' (FORMAT parquet)")
        week = f"datediff('day', DATE '{FIRST}', signed_up) // 7"
        true: dict[str, Table] = {}
        for key in ("''", "country", "channel"):
            counted = f"SELECT {week}, {key}, COUNT(*) FROM signups GROUP BY 1, 2"
            true[key] = {(w, name): n for w, name, n in connection.execute(counted).fetchall()}
    (tmp_path / "dpsql.toml").write_text(POLICY)
    session = Session(load(tmp_path / "dpsql.toml"), analyst="ann")
    asked: dict[str, Table] = {key: {} for key in true}
    for number in range(WEEKS):
        ask_week(session, monkeypatch, number, asked)
        assert session.budget().spent.epsilon == 1
    assert session.ledger.total_in_sequence() == WEEKS
    assert session.ledger.check() == []
    session.close()
    first, rest = errors(asked, true, 0, WEEKS // 2), errors(asked, true, WEEKS // 2, WEEKS)
    assert mean_square(first, every=True) <= 14.5
    assert mean_square(rest, every=False) <= 1.15 * mean_square(first, every=False)
    shown = [mean_square(first, every=True), mean_square(first, every=False), mean_square(rest, every=False)]
    print(*(round(each, 2) for each in shown))


def ask_week(session: Session, monkeypatch: pytest.MonkeyPatch, number: int, asked: dict[str, Table]) -> None:
    """Ask the three statements of a week on the Monday after it."""
    monday = FIRST + clock.timedelta(days=7 * number)

    class Then(clock.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return clock.datetime.fromisoformat(str(monday + clock.timedelta(days=7))).replace(tzinfo=tz)

    for module in (compiler, planner):
        monkeypatch.setattr(module, "datetime", Then)
    where = f"FROM signups WHERE date_trunc('week', signed_up) = DATE '{monday}'"
    options = "SELECT WITH DIFFERENTIAL_PRIVACY"
    asked["''"][number, ""] = session.run(f"{options} COUNT(*) {where}").table.column(0)[0].as_py()
    for key in ("country", "channel"):
        rows = session.run(f"{options} {key}, COUNT(*) AS n {where} GROUP BY {key}").table.to_pylist()
        asked[key] |= {(number, row[key]): row["n"] for row in rows}


def errors(asked: dict[str, Table], true: dict[str, Table], start: int, stop: int) -> dict[str, list[float]]:
    """Return the errors of the six statements, week after week; sums since the beginning begin at `start`."""
    found = defaultdict[str, list[float]](list)
    off = {key: {at: asked[key][at] - n for at, n in true[key].items()} for key in true}
    for number in range(start, stop):
        for key, numbers in true.items():
            names = sorted({name for _, name in numbers})
            for name in names:
                found[f"week {key}"].append(off[key][number, name])
                if key != "channel":
                    found[f"all {key}"].append(sum(off[key][w, name] for w in range(start, number + 1)))
                else:
                    first = max(start, number - 3)
                    found["four"].append(sum(off[key][w, name] for w in range(first, number + 1)))
    return found


def mean_square(found: dict[str, list[float]], *, every: bool) -> float:
    """Return the root of the mean of squares: of all numbers, or of those of single weeks."""
    chosen = [e for name, each in found.items() if every or name.startswith("week") for e in each]
    return float((sum(e * e for e in chosen) / len(chosen)) ** 0.5)
