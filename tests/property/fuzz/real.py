"""A world's database as files, opened by a real session: what analysts use, not what campaigns run on."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from dpsql.policy import BudgetPolicy, ParquetSource, Policy
from dpsql.session import Session
from fuzz.stage import Stage

__all__ = ["open_session"]


def open_session(stage: Stage, folder: Path) -> Session:
    """Write the whole database to Parquet files and open a session on them."""
    tables = {}
    stage.enter("whole")
    for name, table in stage.world.policy.tables.items():
        path = folder / f"{name}.parquet"
        stage.connection.execute(f"COPY whole.main.{name} TO '{path}' (FORMAT parquet)")
        tables[name] = replace(table, source=ParquetSource(path))
    budget = BudgetPolicy(
        epsilon=Fraction(1_000_000),
        delta=Fraction(1, 10),
        default_epsilon=Fraction(1),
        default_delta=Fraction(1, 10**9),
        ledger=folder / "l.db",
    )
    return Session(Policy(budget=budget, tables=tables))
