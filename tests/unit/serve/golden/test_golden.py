"""The server's doors answer what was recorded: the bytes of PostgreSQL's protocol, JSON, the tools of MCP.

A difference that is meant is recorded by `python -m tests.unit.serve.golden.doors`.
"""

from __future__ import annotations

import json

import pytest

from tests.unit.serve.golden import doors


@pytest.mark.parametrize(
    "door",
    # `catalog/test_questions.py` has the same statements every day, with PostgreSQL's own answers.
    [pytest.param(door, marks=[pytest.mark.slow] * (door == "catalogue")) for door in doors.DOORS],
)
def test_answers_are_those_recorded(door: str) -> None:
    expected = json.loads(doors.file_of(door).read_text("utf-8"))
    found = doors.DOORS[door]()
    assert list(found) == list(expected)
    for name, answer in expected.items():
        assert found[name] == answer, name
