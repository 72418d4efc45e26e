"""Who answers a statement: decided by the relations that it names, on its tree."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.serve.catalog.data import SCHEMAS
from dpsql.serve.catalog.errors import UnknownQuestion
from dpsql.serve.catalog.facts import Route
from dpsql.serve.catalog.names import folded
from dpsql.serve.catalog.parse import BEGINNINGS, parse, tokenize
from dpsql.serve.catalog.sources import find


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
    if _only_data(tokens, tables):
        return Route.DATA
    try:
        tree = parse(text, tokens)
    except UnknownQuestion:
        return Route.CATALOGUE if _names_catalogue(tokens) else Route.DATA
    return _of_tree(tree)


def _only_data(tokens: Sequence[Token], tables: Container[str]) -> bool:
    """Return whether a statement reads a table of the policy, and has no word of the catalogue's names."""
    reads = any(
        before.token_type in (TokenType.FROM, TokenType.JOIN) and token.text.lower() in tables
        for before, token in pairwise(tokens)
    )
    if not reads:
        return False
    words = {token.text.lower() for token in tokens}
    return not any(word in SCHEMAS or find("", word) is not None for word in words)


def _names_catalogue(tokens: Sequence[Token]) -> bool:
    """Return whether a statement that cannot be parsed reads from the catalogue."""
    for before, token in pairwise(tokens):
        if before.token_type in (TokenType.FROM, TokenType.JOIN) and (
            token.text.lower() in SCHEMAS or find("", token.text.lower()) is not None
        ):
            return True
    return False


def _of_tree(tree: exp.Expr) -> Route | None:
    own = {folded(table.args["alias"].this) for table in tree.find_all(exp.CTE)}
    catalogue = data = False
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            continue  # a function
        schema, name = folded(table.args.get("db")), folded(table.this)
        if not schema and name in own:
            continue
        if schema in SCHEMAS or (not schema and find("", name) is not None):
            catalogue = True
        else:
            data = True
    if catalogue and data:
        return Route.BOTH
    if data:
        return Route.DATA
    return Route.CATALOGUE if catalogue else None
