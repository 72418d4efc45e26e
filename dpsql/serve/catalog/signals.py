"""`pg_cancel_backend` and `pg_terminate_backend`, recognised by the shape of the statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sqlglot import exp

from dpsql.serve.catalog.errors import UnknownQuestion
from dpsql.serve.catalog.facts import Signal
from dpsql.serve.catalog.names import called, folded, function_name, output_name
from dpsql.serve.catalog.parse import parse

_KINDS: dict[str, Literal["cancel", "terminate"]] = {
    "pg_cancel_backend": "cancel",
    "pg_terminate_backend": "terminate",
}


def signal(text: str, parameters: Sequence[object]) -> Signal | None:
    """Return what a statement of one of these shapes asks for; None for every other statement.

    ``SELECT pg_cancel_backend(4711)`` and ``SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE
    pid = 4711``, also with a parameter for the number.
    """
    lowered = text.lower()
    if "pg_cancel_backend" not in lowered and "pg_terminate_backend" not in lowered:
        return None
    try:
        tree = parse(text)
    except UnknownQuestion:
        return None
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1:
        return None
    item = tree.expressions[0]
    try:
        call = called(item.unalias())
    except UnknownQuestion:
        return None
    kind = None if call is None else _KINDS.get(function_name(call))
    if call is None or kind is None or len(call.expressions) != 1:
        return None
    present = {name for name, part in tree.args.items() if part not in (None, False, [])}
    listed = present != {"expressions"}
    if not listed:
        number = _number(call.expressions[0], parameters)
    elif present == {"expressions", "from_", "where"} and _is_activity(tree, call.expressions[0]):
        number = _compared(tree.args["where"].this, parameters)
    else:
        return None
    return None if number is None else Signal(kind, number, output_name(item), listed)


def described(text: str) -> tuple[str, int] | None:
    """Return the name of the one column, and the number of parameters, of a statement that is a signal."""
    found = signal(text, ("0",))
    if found is None:
        return None
    return found.column, 0 if signal(text, ()) is not None else 1


def _is_activity(tree: exp.Select, argument: exp.Expr) -> bool:
    table = tree.args["from_"].this
    if not isinstance(table, exp.Table) or folded(table.this) != "pg_stat_activity":
        return False
    schema = folded(table.args.get("db"))
    return (
        schema in ("", "pg_catalog") and isinstance(argument, exp.Column) and folded(argument.this) == "pid"
    )


def _compared(condition: exp.Expr, parameters: Sequence[object]) -> int | None:
    condition = condition.unnest()
    if not isinstance(condition, exp.EQ) or not isinstance(condition.this, exp.Column):
        return None
    if folded(condition.this.this) != "pid":
        return None
    return _number(condition.expression, parameters)


def _number(node: exp.Expr, parameters: Sequence[object]) -> int | None:
    while isinstance(node, (exp.Paren, exp.Cast)):
        node = node.this
    if isinstance(node, exp.Parameter):
        place = str(node.this.this) if isinstance(node.this, exp.Literal) else ""
        if not place.isdigit() or not 1 <= int(place) <= len(parameters):
            return None
        text = str(parameters[int(place) - 1])
    elif isinstance(node, exp.Literal):
        text = str(node.this)
    else:
        return None
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None
