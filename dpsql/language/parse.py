"""Parse one statement: remove the private clauses, then parse the rest with sqlglot's DuckDB parser."""

from __future__ import annotations

import difflib
import re
from typing import Literal

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import Fix
from dpsql.language import parameters as params
from dpsql.language.clauses import lift
from dpsql.language.copying import all_of
from dpsql.language.dialect_forms import plain_limits, standard_forms
from dpsql.language.dialect_tokens import standard_tokens
from dpsql.language.naming import in_main
from dpsql.language.options import read_value
from dpsql.language.plain import Parameters
from dpsql.language.source import Source
from dpsql.language.statement import (
    Clauses,
    Describe,
    Explain,
    ExplainForm,
    Query,
    Refine,
    Set,
    Show,
    Statement,
)
from dpsql.language.titles import write_titles
from dpsql.language.tokens import MARK, mark_functions, named_first, tokenize

_QUERY = {"SELECT", "FROM", "WITH", "VALUES", "("}
_STATEMENTS = ("SELECT", "FROM", "WITH", "VALUES", "EXPLAIN", "SHOW", "DESCRIBE", "SET", "REFINE")
_EXPLAIN = re.compile(r"\s*EXPLAIN\b(\s*\(\s*FORMAT\s+(?P<format>\w+)\s*\))?", re.IGNORECASE)
_SHOWN: dict[str, Literal["budget", "tables", "releases"]] = {
    "PRIVACY BUDGET": "budget",
    "BUDGET": "budget",
    "TABLES": "tables",
    "RELEASES": "releases",
}
MAX_BRACKETS = 8
"""How deeply arrays may be nested in a statement's text."""
MAX_SUBSCRIPTS = 32
"""How many subscripts may stand one behind the other."""
_SETTINGS = ("dp_epsilon", "dp_error", "dp_delta", "dp_measure", "dp_confidence")


def parse(text: str, parameters: Parameters = None) -> Statement:
    """Parse one statement; raise `QuerySyntaxError` or `QueryRefused` with the position of the error.

    >>> parse("SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page TOP 10").clause.top
    10
    """
    source = Source(text)
    first = _first_word(text)
    explain = _EXPLAIN.match(_blank_comments(text)) if first == "EXPLAIN" else None
    if explain is not None:
        return _explain(source, explain, parameters)
    tokens = standard_tokens(source, tokenize(source))
    if not tokens:
        raise source.syntax("there is no statement")
    if tokens[-1].token_type == TokenType.SEMICOLON:
        tokens = tokens[:-1]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            raise source.syntax("one statement at a time: found `;` inside", token.start)
    if not tokens:
        raise source.syntax("there is no statement")
    word = tokens[0].text.upper()
    if word in _QUERY and tokens[0].token_type not in (TokenType.STRING, TokenType.IDENTIFIER):
        return _query(source, tokens, parameters)
    if word == "SHOW":
        return _show(source, tokens)
    if word in ("DESCRIBE", "DESC"):
        return _describe(source, tokens)
    if word == "SET":
        return _set(source, tokens, parameters)
    if word == "REFINE":
        return _refine(source, tokens)
    raise _unknown(source, tokens[0])


def _blank_comments(text: str) -> str:
    """Replace leading comments by spaces, so that positions do not change."""
    match = re.match(r"(\s|--[^\n]*\n|/\*.*?\*/)+", text, re.DOTALL)
    if not match:
        return text
    blank = re.sub(r"[^\n]", " ", match[0])
    return blank + text[match.end() :]


def _first_word(text: str) -> str:
    match = re.match(r"\s*([A-Za-z_]+)", _blank_comments(text))
    return match[1].upper() if match else ""


_FORMS: dict[str, ExplainForm] = {
    "TABLE": "TABLE",
    "TEXT": "TABLE",
    "JSON": "JSON",
    "CERTIFICATE": "CERTIFICATE",
}


def _explain(source: Source, match: re.Match[str], parameters: Parameters) -> Explain:
    form = _FORMS.get((match["format"] or "TABLE").upper())
    if form is None:
        raise source.syntax("EXPLAIN has FORMAT JSON, FORMAT CERTIFICATE, or none", match.start("format"))
    rest = re.sub(r"[^\n]", " ", match[0]) + source.text[match.end() :]
    if _first_word(rest) == "ANALYZE":
        raise source.refuse(
            "EXPLAIN ANALYZE would run the statement",
            len(rest) - len(rest.lstrip()),
            "EXPLAIN shows the price and plan, free",
        )
    # Another EXPLAIN is not read, nor one within that.
    query = None if _first_word(rest) == "EXPLAIN" else parse(rest, parameters)
    if not isinstance(query, (Query, Refine)):
        raise source.refuse("EXPLAIN takes a SELECT or a REFINE RELEASE", len(rest) - len(rest.lstrip()))
    return Explain(source, query, form)


def _query(source: Source, tokens: list[Token], parameters: Parameters) -> Query:
    bound, used = params.bind(source, tokens, parameters)

    def expression(part: list[Token]) -> exp.Expr:
        head = part[0]
        select = Token(TokenType.SELECT, "SELECT", head.line, head.col, head.start, head.start)
        tree = _tree(source, [select, *named_first(mark_functions(part))])
        populated = [n for n, v in tree.args.items() if v not in (None, False, [])]
        if not isinstance(tree, exp.Select) or len(tree.expressions) != 1 or populated != ["expressions"]:
            raise source.syntax("expected one expression", head.start)
        found: exp.Expr = tree.expressions[0]
        return found

    lifted = lift(source, bound, expression)
    tree = _tree(source, named_first(mark_functions(lifted.tokens)))
    if not isinstance(tree, exp.Query):
        raise source.refuse("only SELECT statements are run", bound[0].start)
    for select in all_of(tree, exp.Select):
        _place_of(select)
    write_titles(source, lifted.tokens, tree)
    inner = dict(lifted.clauses)
    own = inner.pop(tree.meta["select"], Clauses()) if isinstance(tree, exp.Select) else Clauses()
    return Query(source, tree, own.options, own.clause, own.has_options, used, inner)


def _place_of(select: exp.Select) -> None:
    """Write the position of the word SELECT, which came as a comment of its token, into the node."""
    places = select.pop_comments()  # no other token has a comment
    select.meta["select"] = int(places[0]) if places else -1


def _tree(source: Source, tokens: list[Token]) -> exp.Expr:
    _check_brackets(source, tokens)
    try:
        parser = DuckDB().parser(error_level=ErrorLevel.IMMEDIATE)
        with source.limited_depth():
            trees = parser.parse(tokens, source.text)
    except ParseError as error:
        raise _syntax_error(source, tokens, error) from None
    except (SqlglotError, ValueError, TypeError, AttributeError, KeyError, IndexError):
        raise source.syntax("the statement does not parse") from None
    if len(trees) != 1 or trees[0] is None:
        raise source.syntax("the statement does not parse")
    for table in all_of(trees[0], exp.Table):
        if any(isinstance(table.args.get(part), str) for part in ("db", "catalog")):
            raise source.syntax("a name is missing before a dot", table)
    return in_main(plain_limits(standard_forms(trees[0])))


def _check_brackets(source: Source, tokens: list[Token]) -> None:
    """Refuse arrays within arrays, deeper than anybody writes: the parser's time doubles with each.

    Of subscripts behind subscripts, its time grows with the square of their number.
    """
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


def _syntax_error(source: Source, tokens: list[Token], error: ParseError) -> Exception:
    detail = error.errors[0] if error.errors else {}
    at = next((t for t in tokens if (t.line, t.col) == (detail.get("line"), detail.get("col"))), None)
    if at is None:
        return source.syntax("the statement does not parse", tokens[-1].start)
    shown = at.text.removeprefix(MARK)[:40]
    wants = re.match(
        r"(Expect\w* .{1,30}|Required keyword: .{1,40}? missing)", str(detail.get("description", ""))
    )
    what = "the statement ends too early" if at is tokens[-1] and wants else f"cannot read `{shown}` here"
    return source.syntax(f"syntax error: {what}", at.start)


def _unknown(source: Source, token: Token) -> Exception:
    word = token.text.split()[0] if token.text.split() else token.text
    close = difflib.get_close_matches(word.upper(), _STATEMENTS, 1, 0.7)
    if close:
        fix = Fix(close[0], token.start, token.start + len(word))
        return source.syntax(f"cannot read `{word[:40]}`", token.start, f"did you mean {close[0]}?", fix)
    return source.refuse(
        f"{word.upper()[:40]} statements are not run: dpsql only reads",
        token.start,
        "statements are SELECT, EXPLAIN, SHOW, DESCRIBE, REFINE RELEASE and SET dp_...",
    )


def _show(source: Source, tokens: list[Token]) -> Show:
    what = _SHOWN.get(" ".join(t.text.upper() for t in tokens[1:]))
    if what is not None:
        return Show(source, what)
    words = [token.text.upper() for token in tokens[1:]]
    if words[:1] == ["RELEASE"] and len(words) == 2 and re.fullmatch("[0-9]{1,9}", words[1]):
        return Show(source, "release", int(words[1]))
    at = tokens[1].start if len(tokens) > 1 else tokens[0].start
    raise source.syntax(
        "SHOW does not support this", at, "SHOW PRIVACY BUDGET, SHOW TABLES, SHOW RELEASES or SHOW RELEASE 1"
    )


def _describe(source: Source, tokens: list[Token]) -> Describe:
    if len(tokens) != 2 or tokens[1].token_type == TokenType.STRING:
        raise source.syntax(
            "DESCRIBE takes one table", tokens[min(1, len(tokens) - 1)].start, "DESCRIBE visits"
        )
    return Describe(source, tokens[1].text, tokens[1].start)


def _set(source: Source, tokens: list[Token], parameters: Parameters) -> Set:
    bound, _ = params.bind(source, tokens, parameters)
    name = bound[1].text.lower() if len(bound) > 1 else ""
    if name not in _SETTINGS:
        at = bound[1].start if len(bound) > 1 else bound[0].start
        raise source.refuse(
            f"there is no setting {name[:40] or '(missing)'}", at, "settings are " + ", ".join(_SETTINGS)
        )
    if len(bound) < 4 or bound[2].token_type != TokenType.EQ:
        raise source.syntax("SET needs a value", bound[1].start, f"write SET {name} = ...")
    return Set(source, name.removeprefix("dp_"), read_value(source, name.removeprefix("dp_"), bound[3:]))


def _refine(source: Source, tokens: list[Token]) -> Refine:
    words = [token.text.upper() for token in tokens]
    named = words[1:2] + words[3:4] == ["RELEASE", "TO"] and tokens[2].token_type == TokenType.NUMBER
    if not named or len(tokens) < 5 or not re.fullmatch("[0-9]{1,9}", words[2]):
        raise source.syntax(
            "REFINE takes the number of a release and an epsilon",
            tokens[min(1, len(tokens) - 1)].start,
            "REFINE RELEASE 1 TO 0.5; SHOW RELEASES lists the numbers",
        )
    epsilon = read_value(source, "epsilon", tokens[4:])
    return Refine(source, int(words[2]), epsilon, tokens[2].start, tokens[4].start)  # type: ignore[arg-type]  # as read
