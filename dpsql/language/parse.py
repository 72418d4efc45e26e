"""Parse one statement: remove the private clauses, then parse the rest with sqlglot's DuckDB parser."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import Fix
from dpsql.language import parameters as params
from dpsql.language.clauses import join_names, lift_clauses, standardize_tokens
from dpsql.language.dialect_forms import standardize_forms, standardize_limits
from dpsql.language.duckdb_dialect import DuckDBText
from dpsql.language.parameters import Parameters
from dpsql.language.statement import (
    Clause,
    Clauses,
    Describe,
    Query,
    Refine,
    ReportCommand,
    Set,
    Show,
    StatementText,
)
from dpsql.language.stream_statements import STREAMS, Ask, Check, FirstStable, OpenChecks, StreamCommand
from dpsql.language.syntax_trees import (
    MARK,
    TITLE,
    find_nodes,
    is_named,
    name_calls,
    rename_public_schema,
    separate_distinct_arguments,
    title_of,
    walk_tree,
)
from dpsql.language.tokens import (
    OPAQUE,
    close_conditions,
    find_closing_parenthesis,
    find_comment_end,
    has_kinds,
    mark_functions,
    move_named_first,
    quote_aliases,
    tokenize,
)
from dpsql.lazy_dataclass import dataclass, replace
from dpsql.lazy_pattern import lazy_pattern

_ENDS = frozenset(
    {
        *(TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.QUALIFY),
        *(TokenType.WINDOW, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH),
        *(TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.SEMICOLON),
    }
)
"""Tokens that end a select list, where they stand outside of its parentheses."""
_OPENS = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSES = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_SEVERAL = (exp.Columns, exp.Explode, exp.Unnest)
"""What may be several columns."""
_GAP = lazy_pattern(rf"{OPAQUE}|\s+", re.DOTALL)


def name_columns(tree: exp.Expr) -> None:
    """Name the columns of a query that have no alias by their text; the tree is changed.

    Otherwise they have the text of what is run, in which functions and thresholds are spelled in other ways.
    """
    while isinstance(tree, (exp.SetOperation, exp.Subquery)):
        if tree.args.get("order") is not None:  # its terms may be such names
            return
        tree = tree.this
    if isinstance(tree, exp.Select):
        tree.set("expressions", [_set_title(node) for node in tree.expressions])


def list_titles(tree: exp.Expr) -> tuple[str, ...]:
    """Return the names of the columns of a query; none if one has no name, or another's, so that they change.

    >>> [list_titles(parse(f"SELECT {items} FROM t").tree) for items in ("a, b + 1 AS c", "*", "a, 1 AS A")]
    [('a', 'c'), (), ()]
    """
    items = tree.expressions if isinstance(tree, exp.Select) else []
    names = [item.alias_or_name for item in items if isinstance(item, (exp.Alias, exp.Column))]
    unlike = {name.lower() for name in names} - {"*"}
    return tuple(names) if len(unlike) == len(items) else ()


def _set_title(node: exp.Expr) -> exp.Expr:
    if is_named(node) or any(isinstance(each, _SEVERAL) for each in walk_tree(node)):
        return node
    return exp.alias_(node, title_of(node), quoted=True, copy=False)


def write_titles(source: StatementText, tokens: Sequence[Token], listed: Iterable[exp.Select]) -> None:
    """Write the text of each item of select lists into its node; `tokens` are those of the statement."""
    selects = {select.meta["select"]: select for select in listed}
    for i, token in enumerate(tokens):
        select = selects.get(token.start) if token.token_type == TokenType.SELECT else None
        if select is None or all(map(is_named, select.expressions)):
            continue
        texts = [
            _normalize_spaces(source.text[start:end])
            for start, end in _find_items(tokens, i + 1, len(source.text))
        ]
        if len(texts) != len(select.expressions):
            continue  # the parser reads the list in another way
        for node, text in zip(select.expressions, texts, strict=True):
            if not is_named(node):
                node.meta[TITLE] = text


def _find_items(tokens: Sequence[Token], i: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield where each item of a select list begins and ends in the text, from a first token on."""
    if i < len(tokens) and tokens[i].token_type in (TokenType.DISTINCT, TokenType.ALL):
        i += 1
        if i < len(tokens) and tokens[i].token_type == TokenType.ON:
            i = max(find_closing_parenthesis(tokens, i + 1), i) + 1
    start, depth = -1, 0
    while i < len(tokens):
        kind, token = tokens[i].token_type, tokens[i]
        if start < 0:
            start = token.start
        depth += (kind in _OPENS) - (kind in _CLOSES)
        if depth < 0 or (not depth and kind in _ENDS and not _is_inside_item(tokens, i)):
            yield start, token.start
            return
        if not depth and kind == TokenType.COMMA:
            yield start, token.start
            start = -1
        i += 1
    if start >= 0:
        yield start, end


def _is_inside_item(tokens: Sequence[Token], i: int) -> bool:
    """Return whether a word that may end a list belongs to an item: IS DISTINCT FROM, * EXCEPT (x)."""
    before = tokens[i - 1].token_type
    kind = tokens[i].token_type
    return (kind == TokenType.FROM and before == TokenType.DISTINCT) or (
        kind == TokenType.EXCEPT and before == TokenType.STAR
    )


def _normalize_spaces(text: str) -> str:
    """Return a text without comments, with one blank for the blanks and line ends between its words."""
    parts: list[str] = []
    at = 0

    def add(part: str) -> None:
        if part and not (part == " " and parts and parts[-1] == " "):
            parts.append(part)

    while match := _GAP.search(text, at):
        add(text[at : match.start()])
        at = match.end()
        if match[0] == "/*":
            at = find_comment_end(text, at)
        add(" " if match[0].isspace() or match[0].startswith(("--", "/*")) else match[0])
    add(text[at:])
    return "".join(parts).strip().rstrip("; ")


_OF_REPORTS = {"CREATE", "EXPLAIN", "EXECUTE", "DROP"}
_QUERY = {"SELECT", "FROM", "WITH", "VALUES", "("}
_EXPLAIN = lazy_pattern(r"\s*EXPLAIN\b(\s*\(\s*FORMAT\s+(?P<format>\w+)\s*\))?", re.IGNORECASE)
MAX_BRACKETS = 8
"""How deeply arrays may be nested in a statement's text."""
MAX_SUBSCRIPTS = 32
"""How many subscripts may stand one behind the other."""


def parse(text: str, parameters: Parameters = None, dialect: str | None = None) -> Statement:
    """Parse one statement; raise `QuerySyntaxError` or `QueryRefused` with the position of the error.

    `dialect` decides the meaning of calls that several have, where the statement does not say it.

    >>> parse("SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page TOP 10").clause.top
    10
    """
    first = _read_first_word(text)
    if first in _OF_REPORTS:
        from dpsql.language.statement import parse_report_statement  # noqa: PLC0415  few are

        if (report := parse_report_statement(text)) is not None:
            return report
    source = StatementText(text)
    explain = _EXPLAIN.match(_blank_comments(text)) if first == "EXPLAIN" else None
    if explain is not None:
        return _parse_explain(source, explain, parameters, dialect)
    tokens = quote_aliases(standardize_tokens(source, tokenize(source)))
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens = tokens[:-1]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            from dpsql.language.command_statements import refuse_several  # noqa: PLC0415  it is refused

            raise refuse_several(source, token.start)
    if not tokens:
        raise source.syntax("there is no statement")
    word = tokens[0].text.upper()
    if word in _QUERY and tokens[0].token_type not in (TokenType.STRING, TokenType.IDENTIFIER):
        return _parse_bound(source, *params.bind_parameters(source, tokens, parameters), dialect)
    from dpsql.language import command_statements as commands  # noqa: PLC0415  most statements are queries

    if word == "SHOW":
        return commands.parse_show(source, tokens)
    if word in ("DESCRIBE", "DESC"):
        return commands.parse_describe(source, tokens)
    if word == "SET":
        return commands.parse_set(source, tokens, parameters)
    if word == "REFINE":
        return commands.parse_refine(source, tokens)
    if word in STREAMS:
        from dpsql.language.check_statements import parse_stream_statement  # noqa: PLC0415  as above

        bound, used = params.bind_parameters(source, tokens, parameters)
        return parse_stream_statement(source, bound, lambda part: _parse_bound(source, part, used, dialect))
    raise commands.refuse_unknown(source, tokens[0])


def _blank_comments(text: str) -> str:
    """Replace leading comments by spaces, so that positions do not change."""
    match = re.match(r"(\s|--[^\n]*\n|/\*.*?\*/)+", text, re.DOTALL)
    if not match:
        return text
    return re.sub(r"[^\n]", " ", match[0]) + text[match.end() :]


def _read_first_word(text: str) -> str:
    match = re.match(r"\s*([A-Za-z_]+)", _blank_comments(text))
    return match[1].upper() if match else ""


_EXPLAINED = frozenset((*_QUERY, *STREAMS, "REFINE", "EXPLAIN"))
"""The first words of what is explained."""
_FORMS: dict[str, ExplainForm] = {
    "TABLE": "TABLE",
    "TEXT": "TABLE",
    "JSON": "JSON",
    "CERTIFICATE": "CERTIFICATE",
}


def _parse_explain(
    source: StatementText, match: re.Match[str], parameters: Parameters, dialect: str | None
) -> Explain:
    form = _FORMS.get((match["format"] or "TABLE").upper())
    if form is None:
        raise source.syntax("EXPLAIN has FORMAT JSON, FORMAT CERTIFICATE, or none", match.start("format"))
    rest = re.sub(r"[^\n]", " ", match[0]) + source.text[match.end() :]
    other = re.match(r"(?i)\s*((?!FORMAT|ANALYZE)(?:[A-Z_]+\s+){1,3})(?=(?:SELECT|WITH|FROM)\b)", rest)
    other = None if other is not None and _read_first_word(rest) in _EXPLAINED else other
    if other is not None:
        at = len(rest) - len(rest.lstrip())
        fix = Fix("", at, other.end())
        raise source.refuse(
            "EXPLAIN has FORMAT JSON, FORMAT CERTIFICATE, or none", at, "EXPLAIN SELECT ..", fix
        )
    if _read_first_word(rest) == "ANALYZE":
        raise source.refuse(
            "EXPLAIN ANALYZE would run the statement",
            len(rest) - len(rest.lstrip()),
            "EXPLAIN shows the price and plan, free",
            Fix("", at := len(rest) - len(rest.lstrip()), at + len("ANALYZE "), asks="it is not run"),
        )
    # Another EXPLAIN is not read, nor one within that.
    query = None if _read_first_word(rest) == "EXPLAIN" else parse(rest, parameters, dialect)
    if not isinstance(query, (Query, FirstStable, Refine, OpenChecks, Check, Ask, StreamCommand)):
        raise source.refuse(
            "EXPLAIN takes a SELECT, a REFINE RELEASE, or OPEN, CHECK, ASK, REFILL STREAM or CLOSE STREAM",
            len(rest) - len(rest.lstrip()),
        )
    return Explain(source, query, form)


def _parse_bound(
    source: StatementText, bound: list[Token], used: tuple[object, ...], dialect: str | None
) -> Query:
    """Parse the tokens of a SELECT, in which values stand for its parameters."""

    def expression(part: list[Token]) -> exp.Expr:
        head = part[0]
        select = Token(TokenType.SELECT, "SELECT", head.line, head.col, head.start, head.start)
        tree = _parse_tree(source, [select, *move_named_first(mark_functions(part))])[0]
        populated = [n for n, v in tree.args.items() if v not in (None, False, [])]
        if not isinstance(tree, exp.Select) or len(tree.expressions) != 1 or populated != ["expressions"]:
            raise source.syntax("expected one expression", head.start)
        found: exp.Expr = tree.expressions[0]
        return found

    lifted = lift_clauses(source, bound, expression)
    written = {found: c.at for c in lifted.clauses.values() if (found := c.options.dialect) is not None}
    if len(written) > 1:
        raise source.syntax("a statement has one dialect", max(written.values()))
    named = next(iter(written), dialect) or ""
    named_tokens = join_names(source, lifted.tokens, named)
    tokens = move_named_first(mark_functions(close_conditions(named_tokens)))
    tree, *nodes = _parse_tree(source, tokens, named)
    if not isinstance(tree, exp.Query):
        raise source.refuse("only SELECT statements are run", bound[0].start)
    selects = [node for node in (tree, *nodes) if isinstance(node, exp.Select)]
    for select in selects:
        _set_place(select)
    select_at = {select.meta["select"]: select for select in selects}
    write_titles(source, named_tokens, selects)
    name_calls(tree, selects, every=named == "POSTGRES")
    ordered = {place: _limit_ordered(select_at.get(place), c) for place, c in lifted.clauses.items()}
    inner = {place: c for place, c in ordered.items() if c.has_options or c.clause != Clause()}
    own = inner.pop(tree.meta["select"], Clauses()) if isinstance(tree, exp.Select) else Clauses()
    return Query(source, tree, own.options, own.clause, own.has_options, used, inner)


def _limit_ordered(select: exp.Select | None, clauses: Clauses) -> Clauses:
    """Write `SELECT TOP k .. ORDER BY ..` as the LIMIT that it is; return the clauses that stay."""
    clause = clauses.clause
    if select is None or clause.top is None or clause.threshold is not None:
        return clauses
    listed = (node for item in select.expressions for node in find_nodes(item, exp.Identifier))
    starts = [node.meta["start"] for node in listed if "start" in node.meta]
    first = bool(starts) and clause.at < min(starts)
    if not first or not select.args.get("order") or select.args.get("limit"):
        return clauses
    select.set("limit", exp.Limit(expression=exp.Literal.number(clause.top)))
    return replace(clauses, clause=Clause())


def _set_place(select: exp.Select) -> None:
    """Write the position of the word SELECT, which came as a comment of its token, into the node."""
    places = select.pop_comments()  # no other token has a comment
    select.meta["select"] = int(places[0]) if places else -1


def _parse_tree(source: StatementText, tokens: list[Token], dialect: str = "") -> list[exp.Expr]:
    """Return the nodes of the tree of tokens; the first is its root."""
    _check_brackets(source, tokens)
    try:
        parser = DuckDBText().parser(error_level=ErrorLevel.IMMEDIATE)
        with source.limited_depth():
            trees = parser.parse(tokens, source.text)
    except ParseError as error:
        raise _describe_error(source, tokens, error) from None
    except (SqlglotError, ValueError, TypeError, AttributeError, KeyError, IndexError):
        raise source.syntax("the statement does not parse") from None
    if len(trees) != 1 or trees[0] is None:
        raise source.syntax("the statement does not parse")
    parsed = walk_tree(trees[0])
    for node in parsed:
        if isinstance(node, exp.Table) and any(isinstance(node.args.get(n), str) for n in ("db", "catalog")):
            raise source.syntax("a name is missing before a dot", node)
    for node in parsed:
        if isinstance(node, exp.Group) and not any(node.args.values()):
            by = [token for token in tokens if token.token_type == TokenType.GROUP_BY]
            at = by[-1].start if by else tokens[-1].start
            raise source.syntax("GROUP BY names no key", at, "write what follows GROUP BY")
    nodes = walk_tree(standardize_forms(trees[0], dialect))
    separate_distinct_arguments(nodes)
    for node in nodes:  # `FROM t SAMPLE (10)`, which is no name of a table with names of columns
        names = node.args.get("columns") or () if isinstance(node, exp.TableAlias) else ()
        if any(name.name.isdecimal() and not name.args.get("quoted") for name in names):
            raise source.refuse(f"{node.name.upper()} is not supported here", node.this)
    standardize_limits(source, nodes)
    rename_public_schema(nodes)
    return nodes


def _check_brackets(source: StatementText, tokens: list[Token]) -> None:
    """Refuse arrays within arrays, deeper than anybody writes: the parser's time doubles with each.

    Of subscripts behind subscripts, its time grows with the square of their number.
    """
    if not has_kinds(tokens, TokenType.L_BRACKET):
        return
    depth = row = 0
    before = None
    for token in tokens:
        if token.token_type == TokenType.L_BRACKET:
            row = row + 1 if before == TokenType.R_BRACKET else 0
            if row >= MAX_SUBSCRIPTS:
                raise source.refuse("too many subscripts behind each other", token.start)
        before = token.token_type
        depth += (token.token_type == TokenType.L_BRACKET) - (token.token_type == TokenType.R_BRACKET)
        if depth > MAX_BRACKETS:
            raise source.refuse("arrays are nested too deeply", token.start)


def _describe_error(source: StatementText, tokens: list[Token], error: ParseError) -> Exception:
    detail = error.errors[0] if error.errors else {}
    at = next((t for t in tokens if (t.line, t.col) == (detail.get("line"), detail.get("col"))), None)
    if at is None:
        return source.syntax("the statement does not parse", tokens[-1].start)
    shown = at.text.removeprefix(MARK)[:40]
    wants = re.match(r"Expect\w* .|Required keyword: .{1,40}? missing", str(detail.get("description", "")))
    if at is not tokens[-1] or not wants:
        before = tokens[max(tokens.index(at) - 1, 0)].token_type
        lacking = before == TokenType.FROM and at.token_type in _ENDS
        hint = "write a table behind FROM: SHOW TABLES lists them" if lacking else None
        return source.syntax(f"syntax error: cannot read `{shown}` here", at.start, hint)
    name = at.token_type in (TokenType.STRING, TokenType.IDENTIFIER, TokenType.VAR)
    hint = None if name or not at.text.replace(" ", "").isalpha() else f"write what follows {at.text}"
    return source.syntax("syntax error: the statement ends too early", at.start, hint)


ExplainForm = Literal["TABLE", "JSON", "CERTIFICATE"]
"""What EXPLAIN returns."""


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a SELECT, a list of them, a REFINE RELEASE or a statement of a stream of checks."""

    source: StatementText
    query: Query | FirstStable | Refine | OpenChecks | Check | Ask | StreamCommand
    form: ExplainForm = "TABLE"
    """One JSON text; the proofs of what is counted; or a table of properties."""


Statement = (
    Query
    | FirstStable
    | Explain
    | Show
    | Describe
    | Set
    | Refine
    | OpenChecks
    | Check
    | Ask
    | StreamCommand
    | ReportCommand
)
