"""Parse the statements of streams: OPEN CHECKS, CHECK .. EXPECT, ASK, REFILL STREAM and CLOSE STREAM."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from fractions import Fraction

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import Fix, QueryRefused
from dpsql.kernel.loss import exact
from dpsql.language.board_statements import BEST, SCORES, TRAINING, parse_open_scores, parse_submission
from dpsql.language.check_rewrites import find_item, list_items, read_number, rewrite_item
from dpsql.language.options import read_value, split_options
from dpsql.language.statement import Query, StatementText, write_name
from dpsql.language.stream_statements import (
    SIDES,
    Ask,
    Check,
    Expectation,
    FirstStable,
    OpenChecks,
    StreamCommand,
    parse_first_stable,
    parse_open_stable,
)
from dpsql.language.tokens import Cursor, find_closing_parenthesis

Parse = Callable[[list[Token]], Query]


def parse_stream_statement(
    source: StatementText, tokens: list[Token], parse: Parse
) -> OpenChecks | Check | Ask | StreamCommand | FirstStable:
    """Parse a statement that begins with OPEN, CHECK, ASK, REFILL, CLOSE or FIRST; parameters have values.

    `parse` parses the tokens of a SELECT.
    """
    at = Cursor(tokens)
    word = at.text().upper()
    if word == "CHECK":
        return _parse_check(source, tokens, parse)
    if word == "ASK":
        return _parse_ask(source, tokens, parse)
    if (word, at.word()) == ("OPEN", "STABLE"):
        return parse_open_stable(source, at, _read_name, _read_options)
    if word == "FIRST":
        return parse_first_stable(source, tokens, parse)
    wanted = {"OPEN": "CHECKS", "REFILL": "STREAM", "CLOSE": "STREAM"}[word]
    if word == "OPEN" and at.word() in SCORES:
        return parse_open_scores(source, at, _read_name, _read_options)
    if at.word() != wanted:
        examples = {
            "OPEN": "OPEN CHECKS daily OPTIONS (epsilon = 1, misses = 8)",
            "REFILL": "REFILL STREAM daily",
            "CLOSE": "CLOSE STREAM daily",
        }
        raise source.syntax(f"{word} {wanted} takes the name of a stream", tokens[0].start, examples[word])
    at.i += 1
    name = _read_name(source, at, tokens)
    options = _read_options(
        source, at, _OPEN if word == "OPEN" else set(_MISSES) if word == "REFILL" else set()
    )
    if at.kind() is not None:
        raise source.syntax(f"cannot read `{at.text()[:40]}` here", tokens[at.i - 1].start)
    if word != "OPEN":
        options = {"misses": next((options[each] for each in _MISSES if each in options), None)}
        return StreamCommand(source, "close" if word == "CLOSE" else "refill", name, options.get("misses"))  # type: ignore[arg-type]  # as read
    if not {"epsilon", "misses"} <= options.keys():
        raise source.syntax(
            "a stream of checks needs its epsilon, and how many of them may be off",
            tokens[0].start,
            f"OPEN CHECKS {name} OPTIONS (epsilon = 1, misses = 8)",
        )
    return OpenChecks(source, name, **options)  # type: ignore[arg-type]  # as read


_DECIMALS = 18
"""How many decimals a score has that a board compares with others."""
_OPEN = {"epsilon", "misses", "answers", "sides", "tolerance", "at_once", "models", "scales", "parts", "rows"}
_MISSES = ("misses", "improvements", "unstable")
_WORDS: dict[str, tuple[str, ...]] = {"sides": SIDES, "best": BEST, "training": TRAINING}
"""The options whose values are words."""


def _read_name(source: StatementText, at: Cursor, tokens: Sequence[Token]) -> str:
    if at.kind() in (None, TokenType.STRING, TokenType.NUMBER, TokenType.L_PAREN):
        raise source.syntax("the name of a stream is missing", tokens[min(at.i, len(tokens) - 1)].start)
    return at.text().lower()


def _read_options(source: StatementText, at: Cursor, known: set[str]) -> dict[str, object]:
    if at.word() != "OPTIONS":
        return {}
    at.i += 1
    end = find_closing_parenthesis(at.tokens, at.i) if at.kind() == TokenType.L_PAREN else -1
    if end < 0:
        raise source.syntax("OPTIONS takes a list in parentheses", at.tokens[at.i - 1].start)
    found: dict[str, object] = {}
    for part in split_options(source, at.tokens[at.i + 1 : end]):
        name = part[0].text.lower()
        if name not in known or name in found:
            close = difflib.get_close_matches(name, known, 1)
            fix = Fix(close[0], part[0].start, part[0].end + 1) if close else None
            message = (
                f"option {name} is given twice" if name in found else f"there is no option {name[:40]} here"
            )
            hint = f"did you mean {close[0]}?" if close else "the options are " + ", ".join(sorted(known))
            raise source.syntax(message, part[0].start, hint, fix)
        if len(part) < 3 or part[1].token_type != TokenType.EQ:
            raise source.syntax(f"option {name} needs a value", part[0].start, f"write {name} = ...")
        found[name] = _read_option(source, name, part[2:])
    at.i = end + 1
    return found


def _read_option(source: StatementText, name: str, tokens: list[Token]) -> object:
    if name in ("epsilon", "delta"):
        return read_value(source, name, tokens)
    if name in _WORDS:
        word = tokens[0].text.upper().replace(" ", "_")
        if len(tokens) > 1 or word not in _WORDS[name]:
            raise source.syntax(f"option {name}: expected one of " + ", ".join(_WORDS[name]), tokens[0].start)
        return word
    if name == "parts":
        return _read_days(source, tokens)
    if name in ("models", "scales"):
        return _read_list(source, name, tokens)
    value = read_number(source, Cursor([*tokens]), tokens)
    if name in (*_MISSES, "at_once", "questions"):
        most = 1_000_000 if name == "questions" else 10_000
        if value.denominator != 1 or not 1 <= value <= most:
            words = f"option {name}: expected a whole number from 1 to {most:,}"
            raise source.syntax(words, tokens[0].start)
        return int(value)
    limits = {"answers": "at least 0 and less than 1", "rows": "at least 1"}.get(name, "at least 0")
    if (value < (name == "rows") and name != "start") or (name == "answers" and value >= 1):
        raise source.syntax(f"option {name}: it must be {limits}", tokens[0].start)
    if name in ("step", "start") and (value * 10**_DECIMALS).denominator != 1:
        raise source.syntax(f"option {name}: it has at most {_DECIMALS} decimals", tokens[0].start)
    return value


def _read_days(source: StatementText, tokens: list[Token]) -> tuple[date, date] | None:
    """Read the first and the last day of parts; None: ALL of them."""
    if len(tokens) == 1 and tokens[0].text.upper() == "ALL":
        return None
    words = tokens[0].text.upper().split(" TO ") if tokens[0].token_type == TokenType.STRING else []
    try:
        first, last = map(date.fromisoformat, map(str.strip, words))
        valid = first <= last and len(tokens) == 1
    except ValueError:
        valid = False
    if not valid:
        raise source.syntax(
            "option parts: expected ALL, or two days", tokens[0].start, "parts = '2026-01-05 TO 2026-12-27'"
        )
    return first, last


def _read_list(source: StatementText, name: str, tokens: list[Token]) -> tuple[object, ...]:
    """Read the names of models, or what their numbers are multiplied by, in one text."""
    what = "models = '2023, synth'" if name == "models" else "scales = '0.9, 1, 1.1'"
    if len(tokens) > 1 or tokens[0].token_type != TokenType.STRING:
        raise source.syntax(f"option {name} takes a list in quotes", tokens[0].start, what)
    words = [word.strip() for word in tokens[0].text.split(",")]
    found: list[object] = [*words]
    if name == "scales":
        try:
            found = [exact(word) for word in words]
        except ValueError:
            found = []
        if not all(0 < each <= 1_000 for each in found):  # type: ignore[operator]  # fractions
            found = []
    if not all(words) or not found or len({*found}) < len(found):
        raise source.syntax(f"option {name} is a list of different ones", tokens[0].start, what)
    return tuple(found)


def _parse_ask(source: StatementText, tokens: list[Token], parse: Parse) -> Ask:
    at = Cursor(tokens)
    at.i = 1
    name = _read_name(source, at, tokens)
    query = tokens[at.i :]
    if not query or query[0].text.upper() not in ("SELECT", "WITH"):
        example = f"ASK {name} SELECT COUNT(DISTINCT patient_id) AS n FROM visits WHERE minutes > 30"
        raise source.syntax("ASK takes the name of a stream and a SELECT", tokens[0].start, example)
    named = [item[0] for item in list_items(query)]
    expected = Expectation(at=tokens[0].start, models=True)
    check: Check | QueryRefused
    if not named:
        check = source.refuse("the number that is asked for has no name", query[0].start, "name it: .. AS n")
    else:
        try:
            check = _make_check(source, name, query, named[-1], expected, None, parse)
        except QueryRefused as refused:
            check = refused
    return Ask(source, name, check.query if isinstance(check, Check) else parse(query), check)


def _parse_check(source: StatementText, tokens: list[Token], parse: Parse) -> Check:
    at = Cursor(tokens)
    at.i = 1
    name = _read_name(source, at, tokens)
    expect = _find_expect(tokens)
    if expect < 0 and at.word() in ("SELECT", "WITH"):
        return parse_submission(source, name, [*tokens[at.i :]], parse)
    query = tokens[at.i : expect]
    if expect < 0 or not query or query[0].text.upper() not in ("SELECT", "WITH"):
        raise source.syntax(
            "CHECK takes the name of a stream, a SELECT, and what is expected of one of its columns",
            tokens[0].start,
            f"CHECK {name} SELECT COUNT(DISTINCT patient_id) AS n FROM visits EXPECT n = 1200 TOLERANCE 50",
        )
    at.i = expect + 1
    if at.kind() in (None, TokenType.STRING, TokenType.NUMBER):
        raise source.syntax("EXPECT takes the name of a column", tokens[expect].start)
    place = tokens[at.i]
    at.i += 1
    expected = _read_expectation(source, at, tokens)
    series = None
    if expected.last and at.word() == "PER":
        at.i += 1
        if at.kind() != TokenType.STRING:
            raise source.syntax(
                "PER takes a name in quotes", place.start, "EXPECT n = LAST PER 'visits of a day'"
            )
        series = f"per {at.text()}"
    expected = _read_width(source, at, tokens, expected)
    if at.kind() is not None:
        raise source.syntax(f"cannot read `{tokens[at.i].text[:40]}` here", tokens[at.i].start)
    return _make_check(source, name, query, place, expected, series, parse)


def _make_check(
    source: StatementText,
    name: str,
    query: list[Token],
    place: Token,
    expected: Expectation,
    series: str | None,
    parse: Parse,
) -> Check:
    """Return the check of the column that is named at a place; `series` is the name of PER, if it has one."""
    column = place.text
    texts = (repr(each.text) if each.token_type == TokenType.STRING else each.text for each in query)
    series = series or " ".join(["select", *texts, column.lower()])
    item = find_item(query, column)
    if item is None:
        raise source.refuse(
            f"the SELECT has no item named {column[:40]}", place.start, f"name it: .. AS {column[:40]}"
        )
    kind, statistics = rewrite_item(source, query, item, expected)
    made = parse(query)
    counted = made if statistics is None else parse(statistics)
    return Check(source, name, made, counted, kind, column, expected, series)


def _find_expect(tokens: Sequence[Token]) -> int:
    depth = 0
    for i, token in enumerate(tokens):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if not depth and i > 1 and token.token_type == TokenType.VAR and token.text.upper() == "EXPECT":
            return i
    return -1


def _read_expectation(source: StatementText, at: Cursor, tokens: Sequence[Token]) -> Expectation:
    """Read the expectation of a CHECK statement, up to its tolerance."""
    start = tokens[min(at.i, len(tokens) - 1)].start
    word = at.word()
    low: Fraction | None = None
    high: Fraction | None = None
    if at.take(TokenType.FROM):
        if at.kind() == TokenType.L_PAREN:
            return Expectation(table=_read_relation(source, at), at=start)
        if at.kind() in (None, TokenType.STRING, TokenType.NUMBER):
            raise source.syntax("EXPECT .. FROM takes a public table", start)
        return Expectation(table=at.text(), at=start)
    if at.take(TokenType.EQ):
        if at.word() == "LAST":
            at.i += 1
            return Expectation(last=True, at=start)
        if at.word() == "MODELS":
            at.i += 1
            return Expectation(models=True, at=start)
        low = high = read_number(source, at, tokens)
    elif at.take(TokenType.BETWEEN):
        low = read_number(source, at, tokens)
        if not at.take(TokenType.AND):
            raise source.syntax("BETWEEN takes two numbers", start, "EXPECT n BETWEEN 10 AND 20")
        high = read_number(source, at, tokens)
        if high < low:
            raise source.syntax("the second number of BETWEEN is less than the first", start)
    elif word == "AT" and at.word(1) in ("MOST", "LEAST"):
        most = at.word(1) == "MOST"
        at.i += 2
        number = read_number(source, at, tokens)
        low, high = (None, number) if most else (number, None)
    else:
        raise source.syntax(
            "EXPECT says what a column is",
            start,
            "EXPECT n = 1200 TOLERANCE 50, = LAST, = MODELS, BETWEEN a AND b, AT MOST a, AT LEAST a, FROM t",
        )
    return Expectation(low, high, at=start)


def _read_relation(source: StatementText, at: Cursor) -> str:
    """Return a relation in parentheses, with the names behind it, as SQL: parameters are values by now."""
    begin, end = at.i, find_closing_parenthesis(at.tokens, at.i)
    if end > 0 and at.tokens[end + 1 : end + 2] and at.tokens[end + 1].token_type == TokenType.ALIAS:
        end += 2
        if at.tokens[end + 1 : end + 2] and at.tokens[end + 1].token_type == TokenType.L_PAREN:
            end = find_closing_parenthesis(at.tokens, end + 1)
    if end < 0 or end >= len(at.tokens):
        raise source.syntax("a parenthesis is not closed", at.tokens[begin].start)
    at.i = end + 1
    return " ".join(_write_token(token) for token in at.tokens[begin : at.i])


def _write_token(token: Token) -> str:
    if token.token_type == TokenType.STRING:
        return "'" + token.text.replace("'", "''") + "'"
    return write_name(token.text) if token.token_type == TokenType.IDENTIFIER else token.text


def _read_width(
    source: StatementText, at: Cursor, tokens: Sequence[Token], expected: Expectation
) -> Expectation:
    """Read the tolerance of a CHECK statement's expectation."""
    low, high = expected.low, expected.high
    if at.word() == "WITHIN":
        start = tokens[at.i].start
        at.i += 1
        part = read_number(source, at, tokens)
        moving = expected.last or expected.models
        one = moving or (low is not None and low == high)
        if not one or part < 0 or not at.take(TokenType.MOD):
            raise source.syntax("WITHIN takes a percentage of one number", start, "EXPECT n = 1200 WITHIN 5%")
        if moving:
            return replace(expected, share=part / 100)
        return replace(expected, tolerance=abs(low or Fraction(0)) * part / 100)
    tolerance = _read_tolerance(source, at, tokens)
    if tolerance is None and low != high:
        tolerance = Fraction(0)  # of two numbers, or one, that are the limits themselves
    return replace(expected, tolerance=tolerance)


def _read_tolerance(source: StatementText, at: Cursor, tokens: Sequence[Token]) -> Fraction | None:
    if at.word() != "TOLERANCE":
        return None
    start = tokens[at.i].start
    at.i += 1
    value = read_number(source, at, tokens)
    if value < 0:
        raise source.syntax("a tolerance is at least 0", start)
    if at.word() in ("ROWS", "ROW"):
        at.i += 1
    return value
