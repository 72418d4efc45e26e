"""Hash the parts of a policy that answers depend on; changed parts prevent the reuse of a stored release."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from dpsql.policy.fields import PolicyFields, TableFields
from dpsql.policy.names import fold
from dpsql.policy.parts import DatabaseSource


def fingerprint(policy: PolicyFields) -> str:
    """Return the SHA-256 of the tables, the database, the data version and the limit on values' length.

    Formatting, comments, the order of tables and the location of the folder do not change it: paths are taken
    relative to the policy. The budget and the caps do not change it either, because no answer depends on
    them.
    """
    content = ["1", policy.engine, policy.database, policy.data_version, policy.longest_value]
    return _hash(policy, [*content, _sorted(policy.tables.values())])


def part_fingerprint(policy: PolicyFields, tables: Iterable[TableFields]) -> str:
    """Return the fingerprint for some of the tables, without the data version."""
    chosen = _sorted(tables)
    database = policy.database if any(isinstance(t.source, DatabaseSource) for t in chosen) else None
    return _hash(policy, ["1", policy.engine, database, policy.longest_value, chosen])


def _sorted(tables: Iterable[TableFields]) -> list[TableFields]:
    return sorted(tables, key=lambda table: fold(table.name))


def _hash(policy: PolicyFields, content: object) -> str:
    base = policy.path.parent if policy.path is not None else None
    text = json.dumps(_plain(content, base), ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(thing: object, base: Path | None) -> object:
    """Return a value as nested lists of texts, each with its type, so that different values differ."""
    if isinstance(thing, (list, tuple)):
        return [_plain(item, base) for item in thing]
    if isinstance(thing, Mapping):
        return [[str(name), _plain(item, base)] for name, item in thing.items()]
    if isinstance(thing, Path):
        return ["path", Path(os.path.relpath(thing, base)).as_posix() if base else thing.as_posix()]
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        parts = [_plain(getattr(thing, f.name), base) for f in dataclasses.fields(thing)]
        return [type(thing).__name__, *parts]
    return [type(thing).__name__, str(thing)]
