"""One script of a report by every door: equal rows under equal noise, prices that are agreed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.serve import test_streams_at_doors as doors
from tests.unit.serve.test_streams_at_doors import Rows, _number, _text, by_http, by_mcp, by_session, by_wire

SELECT = "SELECT WITH DIFFERENTIAL_PRIVACY"
RUN = "EXECUTE REPORT pages STATEMENT 1"
SCRIPT = [
    f"CREATE REPORT pages OPTIONS (epsilon = 10) AS $$ {SELECT} page, COUNT(DISTINCT user_id) AS n"
    f" FROM visits GROUP BY page; {SELECT} COUNT(DISTINCT user_id) AS n FROM visits $$",
    "EXPLAIN REPORT pages",
    RUN,
    "EXECUTE REPORT pages",
    "DROP REPORT pages",
]


@pytest.fixture(scope="module")
def expected() -> Iterator[list[Rows]]:
    """What a session answers; the doors are asked the same."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(doors, "SCRIPT", SCRIPT)
        patched.setattr(doors, "PAID", {RUN})
        yield by_session()


def without_times(rows: list[dict[str, Any]]) -> str:
    return json.dumps([row for row in rows if row.get("property") != "since"])


@pytest.mark.parametrize("door", [by_http, by_mcp])
@pytest.mark.sampled(3, rest="longer")
def test_programs_get_equal_rows(expected: list[Rows], door: Any) -> None:
    assert [row["statement"] for row in expected[3]] == [1] * len(expected[2]) + [2]
    for text, here, there in zip(SCRIPT, expected, door(), strict=True):
        named = [{name: row[name] for name in own} for row, own in zip(there, here, strict=True)]
        assert without_times(named) == without_times(here), text
        if text == RUN:  # with intervals beside the numbers, for charts
            assert all(row["n_low"] < row["n"] < row["n_high"] for row in there)


@pytest.mark.parametrize("extended", [False, True], ids=["simple", "extended"])
@pytest.mark.sampled(3, rest="longer")
def test_the_wire_sends_equal_rows(expected: list[Rows], *, extended: bool) -> None:
    for text, here, there in zip(SCRIPT, expected, by_wire(extended=extended), strict=True):
        shown = [tuple(None if cell is None else _text(cell) for cell in row.values()) for row in here]
        found = [tuple(None if cell is None else _number(cell.decode()) for cell in row) for row in there]
        assert [row for row in found if row[0] != "since"] == [row for row in shown if row[0] != "since"], (
            text
        )
