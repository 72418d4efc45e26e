"""When two statements have the same answer: the key under which a release is stored and found again."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING

from dpsql.policy import CsvSource, ParquetSource

if TYPE_CHECKING:
    from dpsql.analysis import Plan
    from dpsql.policy import Policy, Table

__all__ = ["data_version", "reuse_key", "source_version"]


def data_version(policy: Policy) -> str:
    """Return the owner's data version, else one derived from the sources' size and time: never shown."""
    if policy.data_version is not None:
        return f"declared {policy.data_version}"
    versions = [source_version(policy, table) for table in policy.tables.values()]
    return hashlib.sha256("\n".join(versions).encode()).hexdigest()


def source_version(policy: Policy, table: Table) -> str:
    """Return what changes when a table's data or declared types may have changed: never shown."""
    path = table.source.path if isinstance(table.source, (ParquetSource, CsvSource)) else policy.database
    try:
        stat = path.stat() if path is not None else None
    except OSError:
        stat = None
    seen = f"{stat.st_size} {stat.st_mtime_ns}" if stat is not None else "gone"
    parts = [policy.fingerprint, policy.data_version, str(path), seen]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@cache
def _versions() -> tuple[str, str]:
    return version("dpsql"), version("duckdb")


def reuse_key(plan: Plan, policy: Policy, data: str) -> str:
    """Hash everything that changes the answer: not the text, but all that it came to mean.

    The compiled SQL carries literals and parameters with their types; the reading, the options with all
    defaults filled in, and the answer's columns carry the rest.
    """
    options = {
        n: repr(getattr(plan.options, n))
        for n in plan.options.__dataclass_fields__
        if n not in ("at", "fresh")
    }
    parts = [
        plan.compiled.sql,
        repr(plan.reading),
        repr(sorted(options.items())),
        repr([(o.name, o.kind, o.of) for o in plan.outputs]),
        repr([(type(p).__name__, p) for p in plan.query.parameters]),
        policy.fingerprint,
        data,
        *_versions(),
    ]
    return hashlib.sha256(repr(parts).encode()).hexdigest()
