"""Streams of some parts of units: what they are charged to, what they may ask, and when they end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpsql.errors import BudgetExceeded, Error, ProgrammingError, QuerySyntaxError
from dpsql.kernel.unit_parts import PartSet
from dpsql.ledger import Ledger
from dpsql.policy import load
from dpsql.session import Session
from tests.support.world import open_world, world_fixture

POLICY = """
[budget]
epsilon = 1
delta = 1e-4
ledger = "ledger.sqlite"
[parts.user]
table = "signups"
column = "signed_up"
every = "week"
until = false
moves = "trusted"
[tables.signups]
source = "signups.parquet"
unit = "user_id"
unit_kind = "user"
unique = [["user_id"]]
domain.land = ["a", "b"]
"""
SIGNUPS = """SELECT i AS user_id, CASE WHEN i % 3 = 0 THEN 'a' ELSE 'b' END AS land,
DATE '2026-01-05' + ((i % 21)::INTEGER) AS signed_up FROM range(6300) t(i)"""
WEEK_2 = "date_trunc('week', signed_up) = DATE '2026-01-05'"
WEEK_3 = "signed_up BETWEEN DATE '2026-01-12' AND DATE '2026-01-18'"
TOP = "SELECT land FROM signups WHERE {} GROUP BY land ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 1"
PARTS = "parts = '2026-01-05 TO 2026-01-11'"
COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM signups"


session = world_fixture(POLICY, scope="function", signups=SIGNUPS)


def rows(session: Session, text: str) -> list[dict[str, Any]]:
    return session.run(text).table.to_pylist()


def test_other_parts_are_not_charged(session: Session) -> None:
    rows(session, f"OPEN CHECKS one OPTIONS (epsilon = 1, misses = 2, tolerance = 500, {PARTS})")
    with pytest.raises(BudgetExceeded):
        rows(session, f"OPEN CHECKS two OPTIONS (epsilon = 0.5, misses = 2, {PARTS})")
    with pytest.raises(BudgetExceeded):
        rows(session, "OPEN CHECKS two OPTIONS (epsilon = 0.5, misses = 2, parts = ALL)")
    other = PARTS.replace("05", "12").replace("11", "18")
    rows(session, f"OPEN STABLE two OPTIONS (epsilon = 1, delta = 1e-5, unstable = 2, {other})")
    (row,) = rows(session, f"CHECK one {COUNT} WHERE {WEEK_2} EXPECT n = 2100")
    assert row["checked"] == "as expected"
    assert rows(session, f"ASK two {TOP.format(WEEK_3)}") == [{"land": "b"}]
    with pytest.raises(ProgrammingError, match="of the parts from 2026-01-12 to 2026-01-18"):
        rows(session, f"ASK two {TOP.format(WEEK_2)}")
    for where in ("", f"WHERE {WEEK_3}", "WHERE signed_up >= '2026-01-05'"):
        with pytest.raises(ProgrammingError, match="this reads others"):
            rows(session, f"CHECK one {COUNT} {where} EXPECT n = 2100")
    assert {row["stream"]: row["left"] for row in rows(session, "SHOW STREAMS")} == {"one": 2, "two": 2}


def test_an_answer_is_of_the_stream_s_parts(session: Session) -> None:
    rows(session, f"OPEN CHECKS one OPTIONS (epsilon = 1, misses = 2, {PARTS})")
    (row,) = rows(session, f"CHECK one {COUNT} WHERE {WEEK_2} EXPECT n = 100 TOLERANCE 5")
    assert row["checked"] == "off"
    assert abs(row["n"] - 2100) < 200
    rows(session, "CLOSE STREAM one")
    assert session.policy.path is not None
    assert Ledger.of(load(session.policy.path)).check() == []


def test_the_kernel_refuses_counts_of_other_parts(session: Session, monkeypatch: Any) -> None:
    """Were the composition to let a statement through, its counts would be refused."""
    rows(session, f"OPEN CHECKS one OPTIONS (epsilon = 1, misses = 2, tolerance = 500, {PARTS})")
    monkeypatch.setattr("dpsql.check_streams.check_stream_parts", lambda *_: None)
    with pytest.raises(Error) as caught:
        rows(session, f"CHECK one {COUNT} EXPECT n = 2100")
    assert not isinstance(caught.value, ProgrammingError)
    assert rows(session, "SHOW STREAMS")[0]["left"] == 1


def test_a_stream_ends_when_parts_are_declared_anew(session: Session, tmp_path: Path) -> None:
    rows(session, f"OPEN CHECKS one OPTIONS (epsilon = 0.5, misses = 2, tolerance = 500, {PARTS})")
    session.close()
    path = tmp_path / "dpsql.toml"
    path.write_text(path.read_text().replace('every = "week"', 'every = "month"'))
    again = Session(load(path))
    with pytest.raises(ProgrammingError, match="declared anew"):
        rows(again, f"CHECK one {COUNT} WHERE {WEEK_2} EXPECT n = 2100")
    rows(again, "CLOSE STREAM one")
    assert again.ledger.check() == []
    again.close()


def test_words(session: Session, tmp_path: Path) -> None:
    for wrong in ("'2026-01-05'", "'2026-01-12 TO 2026-01-05'", "3", "'a TO b'"):
        with pytest.raises(QuerySyntaxError, match="expected ALL, or two days"):
            rows(session, f"OPEN CHECKS one OPTIONS (epsilon = 1, misses = 2, parts = {wrong})")
    found = rows(session, f"EXPLAIN OPEN CHECKS one OPTIONS (epsilon = 1, misses = 2, {PARTS})")
    assert "2026-01-05 to 2026-01-11" in found[-1]["value"]
    rows(session, f"OPEN CHECKS one OPTIONS (epsilon = 0.5, misses = 2, {PARTS})")
    (stream,) = session.ledger.streams.list()
    assert isinstance(stream.terms.unit_parts, PartSet)
    rows(session, "REFILL STREAM one")
    assert session.ledger.streams.list()[0].terms.unit_parts == stream.terms.unit_parts
    session.close()
    path = tmp_path / "dpsql.toml"
    begin, end = path.read_text().split("[parts.user]")
    tables = "[tables.signups]" + end.split("[tables.signups]")[1]
    path.write_text(begin.replace("ledger.sqlite", "other.sqlite") + tables)
    plain = Session(load(path))
    with pytest.raises(ProgrammingError, match="has no parts of units"):
        rows(plain, f"OPEN CHECKS one OPTIONS (epsilon = 1, misses = 2, {PARTS})")
    plain.close()


def test_parts_by_values_are_no_days(tmp_path: Path) -> None:
    by_land = POLICY.replace('column = "signed_up"\nevery = "week"\nuntil = false', 'column = "land"')
    with open_world(tmp_path, by_land, signups=SIGNUPS) as opened:
        with pytest.raises(ProgrammingError, match="values of land"):
            rows(opened, f"OPEN CHECKS one OPTIONS (epsilon = 1, misses = 2, {PARTS})")
        rows(opened, "OPEN CHECKS one OPTIONS (epsilon = 1, misses = 2, tolerance = 900)")
        (row,) = rows(opened, f"CHECK one {COUNT} EXPECT n = 6300")
        assert row["checked"] == "as expected"
