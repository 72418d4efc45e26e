"""Parse a question as PostgreSQL reads it, within limits, and decide on its tree who answers it.

Answers come from the catalogue, from the data, or, of a signal, from the server.

DuckDB does not hear that the time is over while it parses, binds and plans, and counts no memory for it. It
copies arguments: those of a macro as often as its body names them, the operand of CASE for each WHEN. So the
size of what it makes of a question is bounded on the tree, before anything is sent to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import pairwise
from typing import ClassVar, Literal

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.language.tokens import split_tokens
from dpsql.lazy_pattern import lazy_pattern
from dpsql.serve.catalog import Route, Signal, UnknownQuestion, postgres
from dpsql.serve.catalog.postgres import FUNCTIONS, PREFIX, SCHEMAS, CatalogRelation, Function, load_data

MAX_TEXT = 65_536
MAX_TOKENS = 16_000
MAX_DEPTH = 40
MAX_BRACKETS = 6
"""The parser's time doubles with each array inside an array."""

BEGINNINGS = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.L_PAREN})


class _Dialect(Postgres):
    """PostgreSQL's dialect; subscripts stay as they are typed, and names of types are plain words."""

    INDEX_OFFSET = 0

    class Tokenizer(Postgres.Tokenizer):
        """PostgreSQL's tokens, without the key words of sqlglot that are names of types and of a function."""

        KEYWORDS: ClassVar = {
            word: kind
            for word, kind in Postgres.Tokenizer.KEYWORDS.items()
            if kind not in (TokenType.OBJECT_IDENTIFIER, TokenType.UNNEST)
        }


def _plain_call(name: str) -> Callable[[PostgresParser], exp.Expr | None]:
    """Return a parser of a call with key words among its arguments, which makes a plain call of it."""
    read = PostgresParser.FUNCTION_PARSERS[name]

    def parse_call(parser: PostgresParser) -> exp.Expr | None:
        node = read(parser)
        called, parts = name.lower(), [node.this, node.args.get("expression")]
        match node:
            case exp.Trim():
                side = str(node.args.get("position") or "BOTH").upper()
                called = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "btrim")
            case exp.StrPosition():
                parts = [node.args["substr"], node.this]
            case exp.Extract():
                parts[0] = exp.Literal.string(node.name.lower())
            case exp.Substring():
                parts = [node.this, node.args.get("start") or exp.Literal.number(1), node.args.get("length")]
        return exp.Anonymous(this=called, expressions=[part for part in parts if part is not None])

    return parse_call


class _QuestionParser(PostgresParser):
    """PostgreSQL's parser without the functions that it knows: each is a plain call, with its own name."""

    FUNCTIONS: ClassVar = {"ARRAY": PostgresParser.FUNCTIONS["ARRAY"]}
    NO_PAREN_FUNCTIONS: ClassVar = {}
    FUNCTION_PARSERS: ClassVar = {
        "CAST": PostgresParser.FUNCTION_PARSERS["CAST"],
        **{name: _plain_call(name) for name in ("EXTRACT", "POSITION", "SUBSTRING", "TRIM")},
    }


def tokenize(text: str) -> list[Token]:
    """Return the tokens of one question without its last semicolons; raise `UnknownQuestion` for others."""
    if len(text) > MAX_TEXT or "\x00" in text:
        raise UnknownQuestion("too long")
    try:
        tokens = split_tokens(text, _Dialect)
    except SqlglotError:
        raise UnknownQuestion("tokens") from None
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not tokens or len(tokens) > MAX_TOKENS:
        raise UnknownQuestion("empty or too long")
    if any(token.token_type == TokenType.SEMICOLON for token in tokens):
        raise UnknownQuestion("several statements")
    brackets = _count_depth(tokens, TokenType.L_BRACKET, TokenType.R_BRACKET)
    if brackets > MAX_BRACKETS or _count_depth(tokens, TokenType.L_PAREN, TokenType.R_PAREN) > MAX_DEPTH:
        raise UnknownQuestion("too deep")
    return tokens


def _count_depth(tokens: Sequence[Token], opening: TokenType, closing: TokenType) -> int:
    depth = deepest = 0
    for token in tokens:
        depth += (token.token_type == opening) - (token.token_type == closing)
        deepest = max(deepest, depth)
    return deepest


def parse(text: str, tokens: list[Token] | None = None) -> exp.Expr:
    """Return the tree of one question, a query or VALUES; names that are not quoted are in lower case."""
    tokens = tokenize(text) if tokens is None else tokens
    if tokens[0].token_type not in BEGINNINGS:
        raise UnknownQuestion("no query")
    parser = _QuestionParser(error_level=ErrorLevel.IMMEDIATE, dialect=_Dialect())
    try:
        trees = parser.parse(list(_parser_tokens(tokens)), text)
    except (SqlglotError, RecursionError, ValueError):
        raise UnknownQuestion("syntax") from None
    if len(trees) != 1 or not isinstance(trees[0], (exp.Query, exp.Values)):
        raise UnknownQuestion("no query")
    tree = normalize_identifiers(trees[0], "postgres")
    for called in tree.find_all(exp.Anonymous):
        called.set("this", called.name.lower())
    return tree


_KINDS = {
    TokenType.BYTE_STRING: TokenType.STRING,  # E'..', whose escapes are already read
    TokenType.HEREDOC_STRING: TokenType.STRING,
    TokenType.RAW_STRING: TokenType.STRING,
}
_NAMES_TOO = frozenset({TokenType.SELECT, TokenType.INSERT, TokenType.GRANT, TokenType.TABLE})
"""Key words that may be names of columns after `AS` or a dot."""


def _parser_tokens(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield tokens as the parser expects them: `~` for `OPERATOR(pg_catalog.~)`, `f(` for `pg_catalog.f(`."""
    place = 0
    while place < len(tokens):
        token = tokens[place]
        words = [one.text.lower() for one in tokens[place : place + 4]]
        if words[:2] == ["operator", "("] and words[2] in SCHEMAS and words[3] == ".":
            yield tokens[place + 4]
            place += 6
            continue
        if words[0] in SCHEMAS and words[1:2] == ["."] and words[3:] == ["("]:
            place += 2
            continue
        before = tokens[place - 1].token_type if place else None
        if token.token_type in _NAMES_TOO and before in (TokenType.ALIAS, TokenType.DOT):
            yield _with_kind(token, TokenType.IDENTIFIER)
        else:
            yield _with_kind(token, _KINDS.get(token.token_type, token.token_type))
        place += 1


def _with_kind(token: Token, kind: TokenType) -> Token:
    if token.token_type == kind:
        return token
    text = token.text.lower() if kind == TokenType.IDENTIFIER else token.text
    return Token(kind, text, token.line, token.col, token.start, token.end)


# Names. Drivers rely on PostgreSQL's names of output columns that a query does not name.


def output_name(node: exp.Expr) -> str:
    """Return the name of an output column, as PostgreSQL's `FigureColname` finds it."""
    if isinstance(node, exp.Alias):
        return node.alias
    return _figure_name(node)[0] or "?column?"


def _figure_name(node: exp.Expr | None) -> tuple[str, int]:
    """Return a name and how well it fits: 2 for columns and functions, 1 for types, 0 for none."""
    if node is None:
        return "", 0
    match node:
        case exp.Column() | exp.Anonymous() | exp.Identifier():
            return node.name, 2
        case exp.Dot():
            return _figure_name(node.expression)
        case exp.Paren() | exp.Bracket() | exp.Filter() | exp.Window() | exp.Collate():
            return _figure_name(node.this)
        case exp.Subquery():
            return _figure_query_name(node.this)
        case exp.Cast():
            found = _figure_name(node.this)
            return found if found[1] == 2 else (_type_name(node.to), 1)
        case exp.Case():
            found = _figure_name(node.args.get("default"))
            return found if found[1] == 2 else ("case", 1)
        case exp.AtTimeZone() | exp.Array() | exp.Exists() | exp.Tuple():
            return {exp.AtTimeZone: "timezone", exp.Tuple: "row"}.get(type(node), node.key), 2
    return "", 0


def _figure_query_name(query: exp.Expr) -> tuple[str, int]:
    while isinstance(query, (exp.SetOperation, exp.Subquery)):
        query = query.this
    if isinstance(query, exp.Select) and query.expressions:
        return output_name(query.expressions[0]), 2
    return "", 0


def _type_name(kind: exp.Expr) -> str:
    oid = type_oid(kind)
    if oid is not None and kind.this == exp.DType.ARRAY:
        oid = postgres.element_type(oid) or oid
    return next((name for name, known in load_data().type_oids.items() if known == oid), "")


def type_oid(kind: exp.Expr) -> int | None:
    """Return the OID of a type in a cast, by its name as sqlglot writes it; None if it is not known."""
    if not isinstance(kind, exp.DataType):
        return None
    if kind.this == exp.DType.ARRAY:
        item = type_oid(kind.expressions[0]) if len(kind.expressions) == 1 else None
        if item == postgres.RECORD:
            return postgres.RECORD_ARRAY
        return None if item is None else load_data().arrays.get(item)
    if kind.this == exp.DType.USERDEFINED:
        name = kind.args["kind"]
        if isinstance(name, exp.Dot):
            name = name.expression if name.this.name in SCHEMAS else None
        internal = isinstance(name, exp.Identifier) and name.name == "char"
        return postgres.CHAR if internal else postgres.oid_of_name(getattr(name, "name", str(name)).lower())
    return postgres.oid_of_name(re.sub(r"\(.*", "", kind.sql("postgres")).lower())


def find_relation(schema: str, name: str) -> CatalogRelation | None:
    """Return the relation of the catalogue that a name means; without a schema, one of `pg_catalog`."""
    return load_data().relations.get((schema or "pg_catalog", name))


def route(text: str, tables: Container[str] = ()) -> Route | None:
    """Return whether catalogue, data or nobody answers a statement; None if it names no relation.

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
    return word in SCHEMAS or find_relation("", word) is not None


def _route_tree(tree: exp.Expr) -> Route | None:
    own = {table.alias for table in tree.find_all(exp.CTE)}
    found = set()
    for table in tree.find_all(exp.Table):
        schema, name = table.db, table.name
        if not isinstance(table.this, exp.Identifier) or (not schema and name in own):
            continue  # a function, or a common table expression
        known = schema in SCHEMAS or (not schema and find_relation("", name) is not None)
        found.add(Route.CATALOG if known else Route.DATA)
    return Route.BOTH if len(found) > 1 else next(iter(found), None)


_NUMBER = r"(?:CAST)?\(*'?(?P<{}>[0-9]{{1,11}}|\$[0-9]{{1,4}})'?(?:(?: AS \w+)?\))*"
_PID = r'(?:\w+\.)?"?pid"?'
_LISTED = (
    rf"FROM (?:pg_catalog\.)?pg_stat_activity(?: AS \w+)? WHERE \(?{_PID} = {_NUMBER.format('compared')}\)?"
)
_SIGNAL = lazy_pattern(
    rf"SELECT pg_(?P<kind>cancel|terminate)_backend\((?:{_NUMBER.format('number')}|(?P<listed>{_PID}))\)"
    rf'(?: AS (?:\w+|"[^"]*"))?(?(listed) {_LISTED})'
)
"""The statements that are signals, as sqlglot writes them."""


def signal(text: str, parameters: Sequence[object]) -> Signal | None:
    """Return which connection a call of `pg_cancel_backend` or `pg_terminate_backend` is about; else None.

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


def describe_signal(text: str) -> tuple[str, int] | None:
    """Return the column and the number of parameters of a call that cancels or ends a connection."""
    found = signal(text, ("0",))
    return None if found is None else (found.column, int(signal(text, ()) is None))


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
    """Return how many copies of a node's content DuckDB makes at most when it plans the question."""
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
