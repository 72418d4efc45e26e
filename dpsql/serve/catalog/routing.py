"""Who answers a statement, decided on its tree: the catalogue, the data, or the server for a signal."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import pairwise
from typing import Literal

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.serve.catalog.facts import Route, Signal, UnknownQuestion
from dpsql.serve.catalog.parse import BEGINNINGS, output_name, parse, tokenize
from dpsql.serve.catalog.postgres_data import SCHEMAS, Relation, data


def find(schema: str, name: str) -> Relation | None:
    """Return the relation of the catalogue that a name means; without a schema, one of `pg_catalog`."""
    return data().relations.get((schema or "pg_catalog", name))


def route(text: str, tables: Container[str] = ()) -> Route | None:
    """Return who answers a statement; None if it names no relation, so that its functions decide.

    `tables` are the policy's, in lower case: a statement over them that names nothing of the catalogue need
    not be parsed.
    """
    try:
        tokens = tokenize(text)
    except UnknownQuestion:
        return Route.DATA
    if tokens[0].token_type not in BEGINNINGS:
        return Route.DATA
    sources = {
        token.text.lower()
        for before, token in pairwise(tokens)
        if before.token_type in (TokenType.FROM, TokenType.JOIN)
    }
    words = {token.text.lower() for token in tokens}
    if any(source in tables for source in sources) and not any(map(_is_catalog_name, words)):
        return Route.DATA
    try:
        tree = parse(text, tokens)
    except UnknownQuestion:
        return Route.CATALOG if any(map(_is_catalog_name, sources)) else Route.DATA
    return _route_tree(tree)


def _is_catalog_name(word: str) -> bool:
    return word in SCHEMAS or find("", word) is not None


def _route_tree(tree: exp.Expr) -> Route | None:
    own = {table.alias for table in tree.find_all(exp.CTE)}
    found = set()
    for table in tree.find_all(exp.Table):
        schema, name = table.db, table.name
        if not isinstance(table.this, exp.Identifier) or (not schema and name in own):
            continue  # a function, or a common table expression
        known = schema in SCHEMAS or (not schema and find("", name) is not None)
        found.add(Route.CATALOG if known else Route.DATA)
    return Route.BOTH if len(found) > 1 else next(iter(found), None)


_SIGNALS: dict[str, Literal["cancel", "terminate"]] = {
    "pg_cancel_backend": "cancel",
    "pg_terminate_backend": "terminate",
}


def signal(text: str, parameters: Sequence[object]) -> Signal | None:
    """Return what a statement of one of these shapes asks for; None for every other statement.

    ``SELECT pg_cancel_backend(4711)`` and ``SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE
    pid = 4711``, also with a parameter for the number.
    """
    if not any(name in text.lower() for name in _SIGNALS):
        return None
    try:
        tree = parse(text)
        item = tree.expressions[0] if isinstance(tree, exp.Select) else exp.Null()
    except UnknownQuestion:
        return None
    call = item.unalias()
    kind = _SIGNALS.get(call.name) if isinstance(call, exp.Anonymous) else None
    if kind is None or len(tree.expressions) != 1 or len(call.expressions) != 1:
        return None
    number: exp.Expr | None = call.expressions[0]
    present = {name for name, part in tree.args.items() if part not in (None, False, [])}
    listed = present != {"expressions"}
    if listed:
        number = _compared_pid(tree, number) if present == {"expressions", "from_", "where"} else None
    pid = _read_number(number, parameters)
    return None if pid is None else Signal(kind, pid, output_name(item), listed)


def described_signal(text: str) -> tuple[str, int] | None:
    """Return the name of the one column, and the number of parameters, of a statement that is a signal."""
    found = signal(text, ("0",))
    return None if found is None else (found.column, int(signal(text, ()) is None))


def _compared_pid(tree: exp.Expr, argument: exp.Expr | None) -> exp.Expr | None:
    """Return the number of `pid .. FROM pg_stat_activity WHERE pid = number`."""
    table, condition = tree.args["from_"].this, tree.args["where"].this.unnest()
    if not isinstance(table, exp.Table) or table.name != "pg_stat_activity":
        return None
    if table.db not in ("", "pg_catalog") or not isinstance(condition, exp.EQ):
        return None
    columns = (argument, condition.this)
    if not all(isinstance(one, exp.Column) and one.name == "pid" for one in columns):
        return None
    number: exp.Expr = condition.expression
    return number


def _read_number(node: exp.Expr | None, parameters: Sequence[object]) -> int | None:
    while isinstance(node, (exp.Paren, exp.Cast)):
        node = node.this
    text = node.name if isinstance(node, exp.Literal) else ""
    if isinstance(node, exp.Parameter) and node.this.name.isdigit():
        text = str(dict(enumerate(parameters, start=1)).get(int(node.this.name), ""))
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None
