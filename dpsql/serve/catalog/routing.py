"""Who answers a statement, decided on its tree: the catalogue, the data, or the server for a signal."""

from __future__ import annotations

import re
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


_NUMBER = r"(?:CAST)?\(*'?(?P<{}>[0-9]{{1,11}}|\$[0-9]{{1,4}})'?(?:(?: AS \w+)?\))*"
_PID = r'(?:\w+\.)?"?pid"?'
_LISTED = (
    rf"FROM (?:pg_catalog\.)?pg_stat_activity(?: AS \w+)? WHERE \(?{_PID} = {_NUMBER.format('compared')}\)?"
)
_SIGNAL = re.compile(
    rf"SELECT pg_(?P<kind>cancel|terminate)_backend\((?:{_NUMBER.format('number')}|(?P<listed>{_PID}))\)"
    rf'(?: AS (?:\w+|"[^"]*"))?(?(listed) {_LISTED})'
)
"""The statements that are signals, as sqlglot writes them."""


def signal(text: str, parameters: Sequence[object]) -> Signal | None:
    """Return what a statement of one of these shapes asks for; None for every other statement.

    ``SELECT pg_cancel_backend(4711)`` and ``SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE
    pid = 4711``, also with a parameter for the number.
    """
    if "_backend" not in text.lower():
        return None
    try:
        tree = parse(text)
    except UnknownQuestion:
        return None
    found = _SIGNAL.fullmatch(tree.sql("postgres", normalize_functions=False, comments=False))
    if found is None or not isinstance(tree, exp.Select) or len(tree.selects) != 1:
        return None
    number = found["number"] or found["compared"]
    if number.startswith("$"):
        number = str(dict(enumerate(parameters, start=1)).get(int(number[1:]), ""))
    if not (number.isascii() and number.isdigit() and len(number) < 12):
        return None
    kind: Literal["cancel", "terminate"] = "cancel" if found["kind"] == "cancel" else "terminate"
    return Signal(kind, int(number), output_name(tree.selects[0]), found["listed"] is not None)


def described_signal(text: str) -> tuple[str, int] | None:
    """Return the name of the one column, and the number of parameters, of a statement that is a signal."""
    found = signal(text, ("0",))
    return None if found is None else (found.column, int(signal(text, ()) is None))
