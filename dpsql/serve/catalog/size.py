"""Limits on the size of a translated question, for what DuckDB does before it can be stopped.

DuckDB does not hear that the time is over while it parses, binds and plans, and counts no memory for it. It
copies arguments: those of a macro as often as its body names them, the operand of CASE for each WHEN. So the
size of what it makes of a question is bounded on the tree, before anything is sent to it.
"""

from __future__ import annotations

import re

from sqlglot import exp

from dpsql.serve.catalog.facts import UnknownQuestion
from dpsql.serve.catalog.postgres_data import FUNCTIONS, PREFIX, Function

MAX_RELATIONS = 60
"""The most relations of a question: the time to order its joins grows with the third power."""
MAX_SIZE = 50_000
"""The most nodes of a question after DuckDB has copied arguments."""
MAX_LOOK_UPS = 5
"""The most calls inside calls of macros that read a table: the time to plan doubles with each."""
MAX_SUBQUERIES = 50
"""The most subqueries outside of FROM and calls of macros that read a table, all together: the time to bind
them grows with the square of their number and more."""


def _most_copies(function: Function) -> int:
    """Return how often a macro copies an argument; binding one takes twice the time of its argument."""
    return max(2, *(len(re.findall(rf"\b{each}\b", function.body)) for each in function.parameters), 0)


_COPIES = dict.fromkeys(("coalesce", "greatest", "least"), 1)
for _known in FUNCTIONS.values():
    _name = f"{PREFIX}{_known.name}"
    _COPIES[_name] = max(_COPIES.get(_name, 0), _most_copies(_known))
_LOOK_UPS = frozenset(f"{PREFIX}{known.name}" for known in FUNCTIONS.values() if "SELECT" in known.body)
"""The macros that read a table."""


def check_size(tree: exp.Expr) -> None:
    """Raise `UnknownQuestion` for a translated question that DuckDB would take long to plan."""
    inside: dict[int, tuple[int, int]] = {}
    relations = subqueries = size = 0
    for node in tree.walk():  # a node after its parent
        copies, look_ups = inside.get(id(node.parent), (1, 0))
        size += copies
        relations += isinstance(node, exp.Table)
        subqueries += _is_subquery(node)
        inside[id(node)] = copies * _copies_of(node), look_ups + _is_look_up(node)
        if look_ups + _is_look_up(node) > MAX_LOOK_UPS or size > MAX_SIZE:
            raise UnknownQuestion("nested calls")
        if relations > MAX_RELATIONS:
            raise UnknownQuestion("too many relations")
        if subqueries > MAX_SUBQUERIES:
            raise UnknownQuestion("so many subqueries")


def _copies_of(node: exp.Expr) -> int:
    """Return how often DuckDB copies what is in a node, at most."""
    match node:
        case exp.Anonymous():
            return _COPIES.get(node.name.lower(), 2)
        case exp.Case() if node.this is not None:
            return max(1, len(node.args.get("ifs") or ()))
    return 1


def _is_look_up(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name in _LOOK_UPS


def _is_subquery(node: exp.Expr) -> bool:
    """Return whether a node reads a table for each row: a call of a macro that does, or a subquery."""
    if isinstance(node, exp.Anonymous):
        return _is_look_up(node)
    return isinstance(node, (exp.Select, exp.SetOperation)) and not isinstance(
        node.parent if not isinstance(node.parent, exp.Subquery) else node.parent.parent,
        (exp.From, exp.Join, exp.Lateral, exp.CTE, exp.SetOperation, type(None)),
    )
