"""Find out what to write in the place of an obstacle: the hint and the fix of its refusal.

Advice reads the statement, the policy and the schema of the tables; whether a fix helps is tried later,
with the whole statement. A refusal is recognised by words of its message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.advice import aggregates, blocks, functions, names, private, types, windows
from dpsql.analysis.advice.statement import Advice, Statement
from dpsql.errors import Obstacle, QueryRefused

__all__ = ["Statement", "advise"]

_ADVICE: tuple[tuple[str, Callable[[Statement, exp.Expr, Obstacle], Advice | None]], ...] = (
    ("there is no column ", names.column),
    ("names outside ASCII are not supported", names.renamed),
    (" is not allowed", functions.unlisted),
    (" is not among the functions allowed", functions.unlisted),
    (" is not allowed with (", functions.parts_of_dates),
    (" is not allowed with (", types.types),
    (" is not among the functions allowed", aggregates.unlisted),
    (" are compared only after a conversion", types.compared),
    (" over many units is not released", aggregates.valued),
    ("a window over private rows must PARTITION BY", windows.in_units),
    ("a window over private rows must PARTITION BY", windows.of_all_rows),
    ("a private table is only counted", windows.of_all_rows),
    ("a private table is only counted", blocks.single_rows),
    ("ORDER BY and LIMIT select groups", blocks.single_rows),
    ("this is neither a group key nor a count", blocks.plain_item),
    (" is not allowed in this form", blocks.in_where),
    (", so no group has enough of them to be shown", blocks.without_key),
    ("SELECT DISTINCT would release", blocks.distinct),
    ("DISTINCT over private rows must select", blocks.declared),
    ("released and private rows do not meet", blocks.spine),
    ("the privacy unit cannot be a group key", blocks.by_unit),
    ("two private tables are joined only", private.joined),
)
"""Words of a message, and what gives advice about it."""


def advise(of: Statement, refused: QueryRefused) -> None:
    """Give the obstacle of a refusal a better hint or a fix, where there is one."""
    one, node = refused.obstacles[0], refused.node
    if len(refused.obstacles) > 1 or not isinstance(node, exp.Expr) or one.fix is not None:
        return
    view = next((each.meta["view"] for each in (node, *_around(node)) if "view" in each.meta), None)
    if view is not None:  # the analyst cannot change its text
        hint = one.hint and f"in the policy, {one.hint}"
        refused.obstacles = (replace(one, message=f"{one.message}, in the view {view[1]}", hint=hint),)
        return
    for words, advice in _ADVICE:
        found = advice(of, node, one) if words in one.message else None
        if found is not None:
            hint, fix, *message = found
            told = message[0] if message else one.message
            refused.obstacles = (replace(one, message=told, hint=hint, fix=fix),)
            return


def _around(node: exp.Expr) -> Iterator[exp.Expr]:
    while node.parent is not None:
        node = node.parent
        yield node
