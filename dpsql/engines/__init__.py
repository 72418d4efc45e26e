"""Engines: the shell database that binds, and the private databases that count.

The shell (private tables empty) answers everything public; a private engine runs `CompiledQuery` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.engines.protocol import CANCELLED, FAILED, Cancelled, Counts, Engine
from dpsql.errors import PolicyError

if TYPE_CHECKING:
    from dpsql.engines.duckdb.shell import Shell
    from dpsql.policy import Policy

__all__ = ["CANCELLED", "FAILED", "Cancelled", "Counts", "Engine", "open_engine"]


def open_engine(policy: Policy) -> tuple[Shell, Engine]:
    """Open the shell and the private engine that a policy names."""
    if policy.engine != "duckdb":
        raise PolicyError(f"database.engine: there is no engine {policy.engine}", hint='engine = "duckdb"')
    from dpsql.engines.duckdb.engine import open_duckdb  # noqa: PLC0415  engines load when they are used

    return open_duckdb(policy)
