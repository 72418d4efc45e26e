"""Reuse keys: under its key a release is stored, and found again for a statement with an equal key."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import duckdb

from dpsql.package_version import VERSION
from dpsql.policy import DatabaseSource, TableDomain, UnitVia
from dpsql.zones import DATABASE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from dpsql.analysis import Plan
    from dpsql.kernel.loss import Charge
    from dpsql.policy import Policy, Table
    from dpsql.versions import Versions


_CHANGES = {2: "the policy changed", 3: "the data changed", 4: "dpsql or the engine was updated"}
"""Position of a part of a key -> what its change means; before them are the parts of the question itself."""


def source_version(policy: Policy, table: Table, versions: Versions) -> str:
    """Return a hash of a table's declaration and data; when it changes, the table is checked again.

    The tables through which its rows find their unit, and those of its domains, are part of it: what the
    owner declares is about rows that have a unit, and about the values of a domain.
    For local files the hash covers their content, for a remote engine the owner's `data_version`. It also
    covers the versions of dpsql and of the engine: another version may have looked for less.
    """
    remote = isinstance(table.source, DatabaseSource) and policy.engine != "duckdb"
    tables = tables_read(policy, [table.name])
    data = f"declared {policy.data_version}" if remote else versions.content(tables)
    return _hash(policy.part_fingerprint(tables), data, *_versions())


@cache
def _versions() -> tuple[str, str]:
    return VERSION, duckdb.__version__


def reuse_key(plan: Plan, policy: Policy, versions: Versions, charge: Charge, *, again: bool = False) -> str:
    """Return a hash of everything that can change the answer; the text of the statement is not part of it.

    The compiled SQL carries literals with their types; the selection, the options with all defaults filled
    in, and the answer's columns carry the rest. A parameter's value is a literal by then, so it makes no
    difference whether a value was bound or written. What the columns are called is no part of it either:
    a stored release gets other names (see `renaming`). A requested error enters as the epsilon found
    for it. Of the policy and the data, only the tables that the statement reads enter. Each part has its own
    hash, so that the parts in which two keys differ are known. With `again` every file is read again.

    The kept ladders that know what an answer leaves out are part of it, since its intervals depend on them.

    Two layouts give answers with other noise, so that of a statement whose costs are divided is part of it.

    Where a time zone was looked up, the version of the database of zones is part of it.

    Where the largest charge has no delta, no answer depends on the option, which several releases share.
    Whether the statement selects by noise is no part of it: an answer is stored with both intervals.
    """
    options = {
        n: repr(getattr(plan.options, n))
        for n in plan.options.__dataclass_fields__
        if n not in ("at", "fresh", "error", "layout", "price")
    }
    layout = plan.layout
    if layout.order is not None:
        options["layout"] = repr(layout.order)
    if not charge.delta:
        options["delta"] = repr(None)
    if plan.apart > 1:  # its intervals are wider
        options["apart"] = repr(plan.apart)
    kept = [None if each is None else each.kept for each in (*plan.left_out, *plan.cut_values)]
    if plan.groups_left_out is not None:
        kept.append(plan.groups_left_out.kept)
    if any(kept):
        known = [None if each is None else (each.ladder.number, each.current) for each in kept]
        options["ladders"] = repr(known)
    tables = tables_read(policy, plan.compiled.tables)
    unnamed = tuple(replace(output, name="") for output in plan.outputs)
    parts = (
        _hash(plan.compiled.sql, repr(plan.selection), repr(unnamed)),
        _hash(repr(sorted(options.items()))),
        policy.part_fingerprint(tables),
        _hash(
            versions.content(tables, again=again)
            if policy.data_version is None
            else f"declared {policy.data_version}"
        ),
        _hash(*_versions(), *(each.what for each in plan.assumed if DATABASE in each.what)),
    )
    return ".".join(parts)


def tables_read(policy: Policy, names: Iterable[str]) -> tuple[Table, ...]:
    """Return the tables that a statement names, their parents, and the tables of their public domains."""
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
    """Return the prefix that the keys of one question share under every policy and all data."""
    query, options, *_ = key.split(".")
    return f"{query}.{options}."


def charged_again(key: str, before: list[tuple[str, datetime]]) -> str:
    """Explain why a statement that was asked before is charged again; empty if it was not asked before.

    `before` has the keys under which the same question or the same text was stored, newest first.
    """
    for old, when in before:
        reasons = changes(key, old)
        if reasons:
            return f"asked before, on {when:%Y-%m-%d %H:%M}; charged again: {reasons}"
    return ""


def changes(key: str, before: str) -> str:
    """Say what changed from an earlier key to this one; empty for keys of different questions."""
    now, then = key.split("."), before.split(".")
    if len(then) != len(now) or then[1] != now[1]:
        return ""  # another dpsql's key, or other options
    changed = [place for place in _CHANGES if then[place] != now[place]]
    if {2, 3} <= {*changed}:
        changed.remove(3)  # under another policy the statement may read other tables: no change of data
    return " and ".join(_CHANGES[place] for place in changed)


def _hash(*texts: str) -> str:
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:32]
