"""Changes to the tokens of a question before it is parsed: one change a function.

The parser knows several hundred functions and guesses their arguments; here every call becomes a plain one,
`pgf_NAME(..)`, and `pg_catalog.` disappears where PostgreSQL allows it and the parser does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.serve.catalog.calls import NAMES
from dpsql.serve.catalog.data import SCHEMAS
from dpsql.serve.catalog.functions import PREFIX

TYPE_PREFIX = "pgt_"
"""Prefix of the names of types that the parser does not know, or reads in another sense."""

_SPELLED = {"substring", "trim", "position", "overlay", "extract"}
_KEYWORDS = frozenset({"FROM", "IN", "PLACING", "BOTH", "LEADING", "TRAILING", "FOR"})
_NO_NAMES = frozenset(
    {TokenType.STRING, TokenType.NUMBER, TokenType.L_PAREN, TokenType.R_PAREN, TokenType.COMMA, TokenType.DOT}
)
_NO_CALLS = frozenset(
    {"cast", "coalesce", "nullif", "exists", "any", "all", "some", "in", "values", "array", "row", "over"}
    | {"filter", "using", "greatest", "least", "extract", "and", "or", "not", "on", "from", "as", "select"}
    | {"when", "then", "else", "where", "within", "case", "join", "union", "intersect", "except", "having"}
    | {"lateral", "operator", "distinct", "limit", "offset", "with", "by", "between", "like", "ilike", "is"}
)
_TYPES = frozenset(
    {"regdictionary", "regconfig", "regoper", "regoperator"}
    | {
        "oid",
        "regclass",
        "regproc",
        "regprocedure",
        "regtype",
        "regnamespace",
        "regrole",
        "name",
        "xid",
        "cid",
    }
    | {"int2vector", "oidvector", "record", "anyarray", "aclitem", "pg_node_tree", "inet", "void", "unknown"}
    | {"cardinal_number", "sql_identifier", "character_data", "yes_or_no", "pg_lsn", "json", "jsonb"}
)


def without_operator_schema(tokens: Sequence[Token]) -> list[Token]:
    """Replace `OPERATOR(pg_catalog.~)` by `~`."""
    found: list[Token] = []
    i = 0
    while i < len(tokens):
        if _words(tokens, i, "operator", "(", "pg_catalog", "."):
            i += 4
            while i < len(tokens) and tokens[i].token_type != TokenType.R_PAREN:
                found.append(tokens[i])
                i += 1
        else:
            found.append(tokens[i])
        i += 1
    return found


def without_default_collation(tokens: Sequence[Token]) -> list[Token]:
    """Remove `COLLATE pg_catalog.default` and `COLLATE "C"`: the catalogue compares texts by their bytes."""
    found: list[Token] = []
    i = 0
    while i < len(tokens):
        schema = 2 if _words(tokens, i, "collate", "pg_catalog", ".") else 0
        if _words(tokens, i, "collate") and i + 1 + schema < len(tokens):
            name = tokens[i + 1 + schema].text.lower()
            if name in ("default", "c", "posix", "ucs_basic"):
                i += 2 + schema
                continue
        found.append(tokens[i])
        i += 1
    return found


def without_type_schema(tokens: Sequence[Token]) -> list[Token]:
    """Remove `pg_catalog.` before a type, and mark types that the parser does not know."""
    found: list[Token] = []
    casts: list[bool] = []
    i = 0
    while i < len(tokens):
        token = tokens[i]
        found.append(token)
        i += 1
        if token.token_type == TokenType.L_PAREN:
            casts.append(i > 1 and tokens[i - 2].text.lower() == "cast")
        elif token.token_type == TokenType.R_PAREN and casts:
            casts.pop()
        in_cast = token.token_type == TokenType.ALIAS and bool(casts) and casts[-1]
        if token.token_type != TokenType.DCOLON and not in_cast:
            continue
        if any(_words(tokens, i, schema, ".") for schema in SCHEMAS):
            i += 2
        if i < len(tokens):
            found.append(_marked_type(tokens[i]))
            i += 1
    return found


def _marked_type(token: Token) -> Token:
    name = token.text.lower()
    if token.token_type == TokenType.IDENTIFIER:
        return _with_text(token, TYPE_PREFIX + ("internal_char" if token.text == "char" else token.text))
    return _with_text(token, TYPE_PREFIX + name) if name in _TYPES else token


def with_marked_calls(tokens: Sequence[Token]) -> list[Token]:
    """Put `pgf_` before the name of every function that is called, without its schema."""
    found: list[Token] = []
    for i, token in enumerate(tokens):
        if not _is_call(tokens, i):
            found.append(token)
            continue
        if len(found) > 1 and any(_words(found, len(found) - 2, schema, ".") for schema in SCHEMAS):
            del found[-2:]
        found.append(_with_text(token, PREFIX + token.text.lower()))
    return found


def _is_call(tokens: Sequence[Token], i: int) -> bool:
    token = tokens[i]
    name = token.text.lower()
    if i + 1 >= len(tokens) or tokens[i + 1].token_type != TokenType.L_PAREN or token.token_type in _NO_NAMES:
        return False
    if name in _NO_CALLS and token.token_type != TokenType.IDENTIFIER:
        return False
    if token.token_type not in (TokenType.VAR, TokenType.IDENTIFIER) and name not in NAMES:
        return False
    if name in _SPELLED and _spelled(tokens, i + 1):
        return False
    before = tokens[i - 1] if i else None
    if before is None:
        return True
    if before.token_type == TokenType.DOT:
        return i > 1 and tokens[i - 2].text.lower() in SCHEMAS
    if before.token_type in (TokenType.ALIAS, TokenType.R_PAREN, TokenType.IDENTIFIER, TokenType.DCOLON):
        return False
    if before.token_type in (TokenType.VAR, TokenType.WITH, TokenType.RECURSIVE, TokenType.ORDINALITY):
        return False
    return not (before.token_type == TokenType.COMMA and _is_cte(tokens, i + 1))


def _is_cte(tokens: Sequence[Token], opening: int) -> bool:
    """Return whether `name(..)` is followed by `AS (`: a common table expression with named columns."""
    end = closing(tokens, opening)
    after = [token.token_type for token in tokens[end + 1 : end + 3]] if end > 0 else []
    return after == [TokenType.ALIAS, TokenType.L_PAREN]


def closing(tokens: Sequence[Token], opening: int) -> int:
    """Return the index of the parenthesis that closes the one at `opening`; -1 if there is none."""
    depth = 0
    for i in range(opening, len(tokens)):
        depth += tokens[i].token_type == TokenType.L_PAREN
        if tokens[i].token_type == TokenType.R_PAREN:
            depth -= 1
            if depth == 0:
                return i
    return -1


def _spelled(tokens: Sequence[Token], opening: int) -> bool:
    """Return whether a call has key words among its arguments: `substring(x FROM 2)`."""
    depth = 0
    for token in tokens[opening : closing(tokens, opening)]:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 1 and token.text.upper() in _KEYWORDS and token.token_type != TokenType.STRING:
            return True
    return False


def with_plain_strings(tokens: Sequence[Token]) -> list[Token]:
    """Turn `E'..'`, whose escapes are already read, and `$$..$$` into plain strings."""
    return [
        Token(TokenType.STRING, token.text, token.line, token.col, token.start, token.end)
        if token.token_type in (TokenType.BYTE_STRING, TokenType.HEREDOC_STRING, TokenType.RAW_STRING)
        else token
        for token in tokens
    ]


def with_quoted_keywords(tokens: Sequence[Token]) -> list[Token]:
    """Quote key words that are names of columns: `x AS select`, `t.update`."""
    found = list(tokens)
    for i in range(1, len(found)):
        if found[i].token_type in _NAMES_TOO and found[i - 1].token_type in (TokenType.ALIAS, TokenType.DOT):
            token = found[i]
            text = token.text.lower()
            found[i] = Token(TokenType.IDENTIFIER, text, token.line, token.col, token.start, token.end)
    return found


_NAMES_TOO = frozenset(
    {
        TokenType.SELECT,
        TokenType.UPDATE,
        TokenType.INSERT,
        TokenType.DELETE,
        TokenType.TABLE,
        TokenType.SCHEMA,
    }
    | {TokenType.DEFAULT, TokenType.GRANT, TokenType.REFERENCES, TokenType.INDEX, TokenType.VIEW}
)

CHANGES: tuple[Callable[[Sequence[Token]], list[Token]], ...] = (
    without_operator_schema,
    without_default_collation,
    without_type_schema,
    with_quoted_keywords,
    with_marked_calls,
    with_plain_strings,
)
"""The changes, in their order."""


def _words(tokens: Sequence[Token], i: int, *words: str) -> bool:
    """Return whether these words stand at a place, unquoted texts compared without case."""
    if i + len(words) > len(tokens):
        return False
    part = tokens[i : i + len(words)]
    return all(
        token.text.lower() == word and token.token_type != TokenType.STRING
        for token, word in zip(part, words, strict=True)
    )


def _with_text(token: Token, text: str) -> Token:
    return Token(TokenType.VAR, text, token.line, token.col, token.start, token.end)
