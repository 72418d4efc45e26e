"""Adapt the hints of obstacles to the statement and the policy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.catalog import Catalog
from dpsql.errors import Obstacle
from dpsql.language import Outline, Query, all_of, written_name
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
    own = {one.hint for one in found if one.fix is not None and one.fix.text == one.hint}
    hints |= {given: given for given in own}  # the whole statement, with names of its own
    for given in {one.hint for one in found if one.hint is not None} - own:
        hint = _named(given, names)
        known = hint is None or _within(_words(Outline(_PROSE.sub("", hint))), typed)
        hints[given] = None if known else hint
    return tuple(replace(one, hint=hints[one.hint]) for one in found)


def _named(hint: str, names: Mapping[str, str]) -> str | None:
    """Return a hint with the names that exist; None if one of its examples has no counterpart.

    Where each row is a privacy unit, units are counted by COUNT(*).
    """
    if "user_id" not in names:
        hint = hint.replace("COUNT(DISTINCT user_id)", "COUNT(*)")
    if not set(_EXAMPLE.findall(hint)) <= names.keys():
        return None
    return _EXAMPLE.sub(lambda match: names[match[0]], hint)


def _names(query: Query, policy: Policy, catalog: Catalog) -> dict[str, str]:
    """Return what examples' names are called in a statement's tables, or else in those of the policy.

    A name that exists stands for itself.
    """
    tables = []
    for node in all_of(query.tree, exp.Table):
        table = policy.table(node.name) if node.name.isascii() else None
        if table is not None and not table.public and table not in tables:
            tables.append(table)
    tables = tables or [t for t in policy.tables.values() if not t.public]
    known = {fold(t.name) for t in policy.tables.values()}
    known |= {fold(name) for t in tables for name, _ in catalog.columns(t.name)}
    examples: tuple[str, ...] = ("visits", "page", "country", "day")
    own = {word: word for word in examples if word in known}
    if not tables:
        return own
    first = tables[0]
    unit = _unit(tables, policy)
    columns = [(name, kind) for name, kind in catalog.columns(first.name) if name != unit]
    days = [name for name, kind in columns if kind.moment or kind.name == "DATE"]
    others = [name for name, _ in columns if name not in days]
    keys = [name for name in others if name in first.domain] or others or [name for name, _ in columns]
    found = {"visits": first.name}
    found |= {"user_id": unit} if unit is not None else {}
    found |= {"page": keys[0], "country": keys[-1]} if keys else {}
    found |= {"day": (days or keys)[0]} if days or keys else {}
    return {word: written_name(name) for word, name in found.items()} | own


def _unit(tables: Sequence[Table], policy: Policy) -> str | None:
    """Return the unit's column of the first table that has one; None if each row is a unit."""
    names: dict[str, str] = {}
    for given in tables:
        table: Table | None = given
        while table is not None and isinstance(table.unit, UnitVia):
            table = policy.table(table.unit.table)
        if table is not None and isinstance(table.unit, UnitColumn):
            names[fold(table.unit.column)] = table.unit.column
    return next(iter(names.values()), None)


def _words(outline: Outline) -> list[str]:
    return [token.text.upper() for token in outline.tokens]


def _within(part: list[str], whole: list[str]) -> bool:
    """Return whether words occur one after the other in others."""
    size = len(part)
    return size > 0 and any(whole[i : i + size] == part for i in range(len(whole) - size + 1))
