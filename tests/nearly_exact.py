"""Small tables, asked with so little noise that a right answer is plain DuckDB's answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql

_BUDGET = """
[budget]
epsilon = 1e12
delta = 0.5
max_epsilon_per_query = 1e9
default_epsilon = {epsilon}
default_delta = 1e-6
ledger = "ledger.sqlite"
[database]
path = "data.duckdb"
"""


@dataclass(frozen=True)
class NearlyExact:
    """A connection of dpsql with hardly any noise, and DuckDB on the same tables."""

    private: Any
    plain: duckdb.DuckDBPyConnection

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of dpsql, ordered by their texts."""
        return sorted(self.private.execute(statement).fetchall(), key=repr)

    def notes(self, statement: str) -> list[str]:
        """What dpsql says about its answer."""
        return [*self.private.execute(statement).release.warnings]

    def meant(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of DuckDB, ordered alike."""
        return sorted(self.plain.sql(statement).fetchall(), key=repr)

    def agrees(self, statement: str, *, within: float = 0.05, also: str | None = None) -> None:
        """Assert that both give the same rows; `also` is the statement that DuckDB runs, if it is another."""
        got, meant = self.rows(statement), self.meant(also or statement)
        assert _close(got, meant, within), f"{statement}\n{got}\nfor {meant}"


def _close(got: list[tuple[Any, ...]], meant: list[tuple[Any, ...]], within: float) -> bool:
    numbers = (int, float)
    return len(got) == len(meant) and all(
        a
        == (pytest.approx(float(b), abs=within) if isinstance(b, numbers) and not isinstance(b, bool) else b)
        for one, other in zip(got, meant, strict=True)
        for a, b in zip(one, other, strict=True)
    )


def nearly_exact(folder: Path, data: str, policy: str, epsilon: float = 1e5) -> NearlyExact:
    """Open tables made by SQL under a policy of their tables."""
    folder.mkdir(exist_ok=True)
    with duckdb.connect(str(folder / "data.duckdb")) as made:
        made.execute(data)
    (folder / "dpsql.toml").write_text(_BUDGET.format(epsilon=epsilon) + policy, encoding="utf-8")
    private = dpsql.connect(str(folder / "dpsql.toml"), analyst="anna")
    plain = duckdb.connect()
    plain.execute(data)
    return NearlyExact(private, plain)
