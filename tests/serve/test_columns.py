"""Clients that get columns: each has the stored release, with its types, and nothing is charged again."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from dpsql.policy import load
from dpsql.session import Session
from tests.serve.columns import asked

pytestmark = pytest.mark.clients
GROUPS = 5_000


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("adbc_driver_postgresql", "psycopg")),
    reason="ADBC's PostgreSQL driver, psycopg: not installed",
)
def test_columns_are_those_of_the_release(tmp_path: Path) -> None:
    with asked(tmp_path, GROUPS) as clients:
        expected, *others = [(name, ask()) for name, ask in clients.items()]
    assert expected[1].schema.names == ["item", "n"]
    assert [str(kind) for kind in expected[1].schema.types] == ["int64", "double"]
    assert sorted(expected[1]["item"].to_pylist()) == list(range(GROUPS))
    for name, table in others:
        assert table.replace_schema_metadata(None).equals(expected[1]), name
    session = Session(load(tmp_path / "dpsql.toml"), "alice")
    try:
        assert session.budget().spent.epsilon == 1
    finally:
        session.close()
