"""When two statements have the same answer: the key under which a release is stored and found again."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from typing import TYPE_CHECKING

from dpsql.policy import CsvSource, ParquetSource

if TYPE_CHECKING:
    from dpsql.analysis import Plan
    from dpsql.policy import Policy

__all__ = ["data_version", "reuse_key"]


def data_version(policy: Policy) -> str:
    """Return the owner's data version, else one derived from the sources' size and time: never shown."""
    if policy.data_version is not None:
        return f"declared {policy.data_version}"
    paths = [
        t.source.path for t in policy.tables.values() if isinstance(t.source, (ParquetSource, CsvSource))
    ]
    if policy.database is not None:
        paths.append(policy.database)
    seen = []
    for path in sorted(set(paths)):
        try:
            stat = path.stat()
        except OSError:
            seen.append(f"{path}: gone")
        else:
            seen.append(f"{path}: {stat.st_size} {stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(seen).encode()).hexdigest()


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
        repr(plan.outputs),
        repr([(type(p).__name__, p) for p in plan.query.parameters]),
        policy.fingerprint,
        data,
        version("dpsql"),
        version("duckdb"),
    ]
    return hashlib.sha256(repr(parts).encode()).hexdigest()
