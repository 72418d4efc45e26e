"""Adapt the hints of obstacles to the statement and the policy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.errors import Obstacle
from dpsql.language import Outline, Query
from dpsql.policy import Policy, UnitColumn, UnitVia, fold

_EXAMPLE = re.compile(r"\buser_id\b")
"""The privacy unit in hints that are examples."""
_PROSE = re.compile(r"^(?:add|write) | counts privacy units$")


def adapted(found: Sequence[Obstacle], query: Query, policy: Policy) -> tuple[Obstacle, ...]:
    """Return the obstacles with hints that name the policy's unit, without hints that were typed already."""
    unit = _unit(query, policy)
    typed = _words(query.source.text)
    hints: dict[str | None, str | None] = {None: None}
    for given in {one.hint for one in found if one.hint is not None}:
        hint = given if unit is None else _EXAMPLE.sub(lambda _: unit, given)
        hints[given] = None if _within(_words(_PROSE.sub("", hint)), typed) else hint
    return tuple(replace(one, hint=hints[one.hint]) for one in found)


def _unit(query: Query, policy: Policy) -> str | None:
    """Return the unit's column of the tables that a statement names; None if they have several."""
    names: dict[str, str] = {}
    for node in query.tree.find_all(exp.Table):
        table = policy.table(node.name) if node.name.isascii() else None
        while table is not None and isinstance(table.unit, UnitVia):
            table = policy.table(table.unit.table)
        if table is not None and isinstance(table.unit, UnitColumn):
            names[fold(table.unit.column)] = table.unit.column
    return next(iter(names.values())) if len(names) == 1 else None


def _words(text: str) -> list[str]:
    return [token.text.upper() for token in Outline(text).tokens]


def _within(part: list[str], whole: list[str]) -> bool:
    """Return whether words occur one after the other in others."""
    size = len(part)
    return size > 0 and any(whole[i : i + size] == part for i in range(len(whole) - size + 1))
