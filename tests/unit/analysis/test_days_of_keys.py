"""A refused key that is computed of a time without declared days has the days to write."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import dpsql
from tests.narrow import present

POLICY = """
[budget]
epsilon = 10.0
default_epsilon = 1
ledger = "ledger.sqlite"

[tables.calls]
source = "calls.csv"
unit = "caller"
columns = { caller = "BIGINT", begun = "TIMESTAMP", length = "BIGINT" }
"""


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calls")
    rows = "SELECT i % 50 AS caller, TIMESTAMP '2024-01-01' + i * INTERVAL 1 DAY AS begun, i AS length"
    duckdb.sql(f"COPY ({rows} FROM range(300) AS t(i)) TO '{folder / 'calls.csv'}'")
    (folder / "dpsql.toml").write_text(POLICY)
    return folder / "dpsql.toml"


BOTH = "begun >= DATE '2024-01-01' AND begun < DATE '2025-01-01'"
ASKED = {
    "a month by its place": ("date_trunc('month', begun)", "", "1", f" WHERE {BOTH}"),
    "a month by its name": ("date_trunc('month', begun)", "", "m", f" WHERE {BOTH}"),
    "all that is no count": ("year(begun)", "", "ALL", f" WHERE {BOTH}"),
    "an end is there": ("year(begun)", " WHERE begun >= '2023-05-01'", "m", " AND begun < DATE '2024-01-01'"),
    "the other is": (
        "CAST(begun AS DATE)",
        " WHERE begun < DATE '2024-01-01'",
        "m",
        " AND begun >= DATE '2023-01-01'",
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_the_days_of_a_year_are_offered(policy: Path, name: str) -> None:
    key, rows, group, added = ASKED[name]
    start = f"SELECT {key} AS m, COUNT(*) AS n FROM calls{rows}"
    with dpsql.connect(policy, analyst="a") as connection:
        with pytest.raises(dpsql.Error) as refused:
            connection.execute(f"{start} GROUP BY {group}")
        hint = str(present(getattr(refused.value, "hint", None)))
        offered, says = hint.split(" -- ", 1)
        assert offered == f"{start}{added} GROUP BY {group}"
        assert says.startswith("asks something else: only the rows of these days; ")
        assert connection.execute(offered).fetchall()


def test_no_days_are_offered_for_another_key(policy: Path) -> None:
    with dpsql.connect(policy, analyst="a") as connection, pytest.raises(dpsql.Error) as refused:
        connection.execute("SELECT length, COUNT(*) AS n FROM calls GROUP BY length")
    assert "DATE" not in str(refused.value)
