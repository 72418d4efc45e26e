"""Adapt the hints of obstacles to the statement and the policy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.catalog import Catalog
from dpsql.errors import Obstacle
from dpsql.language import Outline, Query, all_of
from dpsql.policy import Policy, Table, UnitColumn, UnitVia, fold

_EXAMPLE = re.compile(r"\b(?:user_id|visits|page|country|(?<=ORDER BY )day|(?<=user_id, )day)\b")
"""The names in hints that are examples: a privacy unit, a private table, two keys, a date."""
_PROSE = re.compile(r"^(?:add|write) | counts privacy units$|: of the rows of one .*$")


def adapted(
    found: Sequence[Obstacle], query: Query, policy: Policy, catalog: Catalog
) -> tuple[Obstacle, ...]:
    """Return the obstacles with hints that name what the policy has, without hints that were typed."""
    names = _names(query, policy, catalog)
    typed = _words(Outline.of(query.source.text))
    hints: dict[str | None, str | None] = {None: None}
    for given in {one.hint for one in found if one.hint is not None}:
        hint = _EXAMPLE.sub(lambda match: names.get(match[0], match[0]), given)
        hints[given] = None if _within(_words(Outline(_PROSE.sub("", hint))), typed) else hint
    return tuple(replace(one, hint=hints[one.hint]) for one in found)


def _names(query: Query, policy: Policy, catalog: Catalog) -> dict[str, str]:
    """Return what examples' names are called in a statement's tables, or else in those of the policy."""
    tables = []
    for node in all_of(query.tree, exp.Table):
        table = policy.table(node.name) if node.name.isascii() else None
        if table is not None and not table.public and table not in tables:
            tables.append(table)
    tables = tables or [t for t in policy.tables.values() if not t.public]
    if not tables:
        return {}
    first = tables[0]
    columns = [c for t in tables for c in catalog.columns(t.name)]
    unit = _unit(tables, policy)
    own = [(name, kind) for name, kind in catalog.columns(first.name) if name != unit]
    days = [name for name, kind in own if kind.name in ("DATE", "TIMESTAMP")]
    others = [name for name, _ in own if name not in days]
    keys = [name for name in others if name in first.domain] or others or [name for name, _ in own]
    found = {"visits": first.name}
    found |= {"user_id": unit} if unit is not None else {}
    found |= {"page": keys[0], "country": keys[-1]} if keys else {}
    found |= {"day": (days or keys)[0]} if days or keys else {}
    known = {fold(t.name) for t in policy.tables.values()} | {fold(name) for name, _ in columns}
    return {word: name for word, name in found.items() if word not in known or word == "user_id"}


def _unit(tables: Sequence[Table], policy: Policy) -> str | None:
    """Return the unit's column of tables; None if they have several."""
    names: dict[str, str] = {}
    for given in tables:
        table: Table | None = given
        while table is not None and isinstance(table.unit, UnitVia):
            table = policy.table(table.unit.table)
        if table is not None and isinstance(table.unit, UnitColumn):
            names[fold(table.unit.column)] = table.unit.column
    return next(iter(names.values())) if len(names) == 1 else None


def _words(outline: Outline) -> list[str]:
    return [token.text.upper() for token in outline.tokens]


def _within(part: list[str], whole: list[str]) -> bool:
    """Return whether words occur one after the other in others."""
    size = len(part)
    return size > 0 and any(whole[i : i + size] == part for i in range(len(whole) - size + 1))
