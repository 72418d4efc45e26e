"""Budgets by parts, added releases, budgets that start anew by every door: equal rows under equal noise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from dpsql.kernel.ledger import renewals
from tests.unit.serve import test_streams_at_doors as doors
from tests.unit.serve.golden import doors as golden
from tests.unit.serve.test_streams_at_doors import _number, _text, by_http, by_mcp, by_session, by_wire

TABLE = """
[tables.visits]
source = "visits.parquet"
unit = "user_id"
unit_kind = "user"
unique = [["user_id"]]
not_null = ["day"]
domain.page = { values = ["home", "shop"], complete = true }
"""
PARTS = '[parts.user]\ntable = "visits"\ncolumn = "day"\nevery = "week"\nuntil = false\nmoves = "trusted"\n'
RENEWAL = '[budget.renewal]\nevery = "month"\nlifetime_epsilon = 300\n'
BUDGET = '[budget]\nepsilon = 100\ndelta = 1e-4\nledger = "ledger.sqlite"\nhigh_water = false\n'
COUNT = "SELECT WITH DIFFERENTIAL_PRIVACY {}COUNT(*) AS n FROM visits"
WEEKS = [f" WHERE date_trunc('week', day) = DATE '2026-01-{day:02}'" for day in (5, 12)]
BOTH = " WHERE day >= DATE '2026-01-05' AND day < DATE '2026-01-19'"
PAID = [COUNT.format("OPTIONS (epsilon = 10) ") + week for week in WEEKS]
ADDED = COUNT.format("OPTIONS (combine = ONLY) ") + BOTH
SCRIPTS = {
    "parts": [
        *PAID,
        "SHOW PRIVACY BUDGET BY PARTS",
        "SHOW PRIVACY BUDGET BY PARTS ALL",
        ADDED,
        f"EXPLAIN {ADDED}",
    ],
    "renewal": [*PAID, "SHOW PRIVACY BUDGET", f"EXPLAIN {PAID[0].replace('= 10', '= 20')}"],
}


def rows() -> tuple[pa.Table, pa.Table]:
    first = date(2026, 1, 5)
    users = range(2800)
    visits = {
        "user_id": [*users],
        "day": [first + timedelta(days=i % 14) for i in users],
        "page": ["home" if i % 3 else "shop" for i in users],
    }
    return pa.table(visits), pa.table({"i": [1]})


@pytest.fixture(scope="module", params=[*SCRIPTS])
def script(request: pytest.FixtureRequest) -> Iterator[list[tuple[str, Any]]]:
    """Texts, each with what a session answers."""
    more = PARTS if request.param == "parts" else RENEWAL
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(golden, "POLICY", BUDGET + more + TABLE)
        patched.setattr(golden, "_rows", rows)
        patched.setattr(renewals, "now", lambda: datetime(2026, 5, 3, tzinfo=UTC))
        texts = SCRIPTS[request.param]
        patched.setattr(doors, "SCRIPT", texts)
        patched.setattr(doors, "PAID", {*PAID})
        found = by_session()
        assert len(found[2]) >= 4
        assert "over the same rows" in str(found) or "computed from releases 1, 2" in str(found)
        yield [*zip(texts, found, strict=True)]


@pytest.mark.parametrize("door", [by_http, by_mcp])
@pytest.mark.sampled(3, rest="longer")
def test_programs_get_equal_rows(script: list[tuple[str, Any]], door: Any) -> None:
    for (text, here), there in zip(script, door(), strict=True):
        named = [{name: row[name] for name in own} for row, own in zip(there, here, strict=True)]
        assert json.dumps(named, default=str) == json.dumps(here, default=str), text


@pytest.mark.parametrize("extended", [False, True], ids=["simple", "extended"])
@pytest.mark.sampled(3, rest="longer")
def test_the_wire_sends_equal_rows(script: list[tuple[str, Any]], *, extended: bool) -> None:
    for (text, here), there in zip(script, by_wire(extended=extended), strict=True):
        shown = [tuple(None if cell is None else _text(cell) for cell in row.values()) for row in here]
        found = [tuple(None if cell is None else _number(cell.decode()) for cell in row) for row in there]
        assert found == shown, text
