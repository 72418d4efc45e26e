"""When two statements have the same answer: the key under which a release is stored and found again."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING

from dpsql.policy import DatabaseSource, TableDomain, UnitVia
from dpsql.policy.fingerprint import part_fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from dpsql.analysis import Plan
    from dpsql.policy import Policy, Table
    from dpsql.versions import Versions

__all__ = ["charged_again", "question", "reuse_key", "source_version", "tables_read"]

_MEANING, _GIVEN, _POLICY, _DATA, _VERSIONS = range(5)
"""The places of a key's parts."""


def source_version(policy: Policy, table: Table, versions: Versions) -> str:
    """Return what changes when a table's data or declaration changed, so that it is vetted again.

    Where dpsql can see the data, their content counts; elsewhere the owner's `data_version` does. What
    another version of dpsql or of the engine has vetted is vetted again: it may have looked for less.
    """
    remote = isinstance(table.source, DatabaseSource) and policy.engine != "duckdb"
    data = f"declared {policy.data_version}" if remote else versions.content([table])
    return _hash(part_fingerprint(policy, [table]), data, *_versions())


@cache
def _versions() -> tuple[str, str]:
    return version("dpsql"), version("duckdb")


def reuse_key(plan: Plan, policy: Policy, versions: Versions) -> str:
    """Hash everything that changes the answer: not the text, but all that it came to mean.

    The compiled SQL carries literals and parameters with their types; the selection, the options with all
    defaults filled in, and the answer's columns carry the rest. Of the policy and the data, the tables that
    the statement reads count, and no others. The parts are hashed one by one, so that of two keys it can be
    told what differs.
    """
    options = {
        n: repr(getattr(plan.options, n))
        for n in plan.options.__dataclass_fields__
        if n not in ("at", "fresh")
    }
    tables = tables_read(policy, plan.compiled.tables)
    declared = policy.data_version
    parts = (
        _hash(plan.compiled.sql, repr(plan.selection), repr(plan.outputs)),
        _hash(repr(sorted(options.items())), repr([(type(p).__name__, p) for p in plan.query.parameters])),
        part_fingerprint(policy, tables),
        _hash(f"declared {declared}" if declared is not None else versions.content(tables)),
        _hash(*_versions()),
    )
    return ".".join(parts)


def tables_read(policy: Policy, names: Iterable[str]) -> tuple[Table, ...]:
    """Return the tables a statement names, and those behind them: parents and tables of public domains."""
    found: dict[str, Table] = {}
    waiting = list(names)
    while waiting:
        table = policy.table(waiting.pop())
        if table is None or table.name in found:
            continue
        found[table.name] = table
        waiting += [domain.table for domain in table.domain.values() if isinstance(domain, TableDomain)]
        if isinstance(table.unit, UnitVia):
            waiting.append(table.unit.table)
    return tuple(sorted(found.values(), key=lambda table: table.name))


def question(key: str) -> str:
    """Return the beginning that the keys of one question share under any policy and data."""
    parts = key.split(".")
    return f"{parts[_MEANING]}.{parts[_GIVEN]}."


def charged_again(key: str, before: list[tuple[str, datetime]]) -> str:
    """Say why a statement is charged that was asked before; empty if it was not.

    `before` has the keys under which the same question or the same text was stored, newest first.
    """
    now = key.split(".")
    for old, when in before:
        then = old.split(".")
        if len(then) != len(now) or then[_GIVEN] != now[_GIVEN]:
            continue  # another dpsql's key, or other parameters
        changed = [then[i] != now[i] for i in range(len(now))]
        reasons = [
            *(["the policy changed"] if changed[_POLICY] else []),
            # Under another policy the statement may read other tables, whose data are no change.
            *(["the data changed"] if changed[_DATA] and not changed[_POLICY] else []),
            *(["dpsql or the engine was updated"] if changed[_VERSIONS] else []),
        ]
        if reasons:
            return f"asked before, on {when:%Y-%m-%d %H:%M}; charged again: {' and '.join(reasons)}"
    return ""


def _hash(*texts: str) -> str:
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:32]
