"""Without noise worth the name, the answers of a report are those of the same SQL on the data."""

from __future__ import annotations

import random
from contextlib import closing, suppress
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import QueryRefused
from dpsql.policy import load
from dpsql.session import Session
from tests.unit.reports.conftest import POLICY

SELECT = "SELECT WITH DIFFERENTIAL_PRIVACY"
VALUES = {"country": "abc", "channel": "xy"}
CONDITIONS = (
    "country = 'a'",
    "country IN ('a', 'c')",
    "country <> 'b'",
    "country >= 'b'",
    "NOT (channel = 'x')",
    "channel IN ('x', 'z')",
    "upper(country) = 'A'",
    "country = 'a' OR country = 'b'",
    "signed_up >= DATE '2026-01-12'",
    "signed_up < DATE '2026-01-19'",
    "date_trunc('week', signed_up) = DATE '2026-01-12'",
    "date_trunc('week', signed_up) IN (DATE '2026-01-12', DATE '2026-01-26')",
    "signed_up NOT BETWEEN DATE '2026-01-12' AND DATE '2026-01-18'",
)
KEYS = (
    "country",
    "channel",
    "upper(country) AS big",
    "CASE WHEN country = 'a' THEN 'first' ELSE 'other' END AS which",
    "date_trunc('week', signed_up) AS week",
)
FOUR = "signed_up >= DATE '2026-01-05' AND signed_up < DATE '2026-02-02'"


def make(draw: random.Random) -> tuple[str, str]:
    """Return a statement as a report has it, and as DuckDB reads it."""
    keys = draw.sample(KEYS, draw.randrange(3))
    names = [key.rpartition(" ")[2] for key in keys]
    where = " AND ".join([FOUR, *(f"({each})" for each in draw.sample(CONDITIONS, draw.randrange(4)))])
    numbers = ["COUNT(*) AS n"]
    if draw.random() < 0.5:
        numbers.append(f"COUNT(*) FILTER (WHERE {draw.choice(CONDITIONS)}) AS f")
    if draw.random() < 0.2:
        numbers.append("COUNT(DISTINCT user_id) AS u")
    group = f" GROUP BY {', '.join(names)}" if names else ""
    if names and draw.random() < 0.3:
        group = f" GROUP BY {draw.choice(['CUBE', 'ROLLUP'])} ({', '.join(names)})"
    rest = f"{', '.join([*keys, *numbers])} FROM signups WHERE {where}{group}"
    return f"{SELECT} {rest}", f"SELECT {rest}"


def accepted(session: Session, draw: random.Random) -> tuple[str, str]:
    """Return a statement that some row may satisfy."""
    while True:
        found = make(draw)
        with suppress(QueryRefused):
            session.reports.plan([found[0]], 1)
            return found


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.longer) for n in range(1, 8))])
def test_answers_are_those_of_the_data(folder: Path, seed: int) -> None:
    draw = random.Random(seed)
    text = POLICY.replace("epsilon = 1\n", "epsilon = 1000\n")
    (folder / "dpsql.toml").write_text(text)
    session = Session(load(folder / "dpsql.toml"), analyst="ann")
    with closing(session), duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW signups AS FROM '{folder}/signups.parquet'")
        pairs = [accepted(session, draw) for _ in range(6)]
        planned = session.reports.plan([private for private, _ in pairs], 1000)
        answers = session.reports.run(planned)
        assert any(not statement.reasons for statement in planned.statements)
        for (_, public), answer, statement in zip(pairs, answers, planned.statements, strict=True):
            if statement.reasons:
                continue
            exact = connection.sql(public).to_arrow_table().to_pylist()
            numbers = [name for name in answer.table.column_names if name in ("n", "f", "u")]

            def shown(row: dict[str, object], names: list[str] = numbers) -> tuple[str, ...]:
                return tuple(str(value)[:10] for name, value in row.items() if name not in names)

            truth = {shown(row): row for row in exact}
            found = {shown(row): row for row in answer.table.to_pylist()}
            assert truth.keys() <= found.keys(), public
            for key, row in found.items():
                for name in numbers:
                    right = truth.get(key, {}).get(name, 0)
                    assert abs(row[name] - right) < 2, (public, key, name)
