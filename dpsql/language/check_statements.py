"""Parse the statements of streams of checks: OPEN CHECKS, CHECK .. EXPECT, REFILL STREAM and CLOSE STREAM."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import Fix
from dpsql.kernel.loss import exact
from dpsql.language.options import MAX_NUMBER, read_value, split_options
from dpsql.language.statement import (
    SIDES,
    Check,
    Expectation,
    OpenChecks,
    Query,
    StatementText,
    StreamCommand,
)
from dpsql.language.tokens import Cursor, find_closing_parenthesis

_AVERAGES = {"AVG", "MEAN"}
_QUANTILES = {"MEDIAN", "QUANTILE_DISC", "QUANTILE_CONT"}
_SUMS = {"COUNT", "SUM"}
_DIGITS = 18
"""How many decimals an expectation may have that is put into an average or a quantile."""

Parse = Callable[[list[Token]], Query]


def parse_stream_statement(
    source: StatementText, tokens: list[Token], parse: Parse
) -> OpenChecks | Check | StreamCommand:
    """Parse a statement that begins with OPEN, CHECK, REFILL or CLOSE; values stand for its parameters.

    `parse` parses the tokens of a SELECT.
    """
    at = Cursor(tokens)
    word = at.text().upper()
    if word == "CHECK":
        return _parse_check(source, tokens, parse)
    wanted = {"OPEN": "CHECKS", "REFILL": "STREAM", "CLOSE": "STREAM"}[word]
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
        source, at, _OPEN if word == "OPEN" else {"misses"} if word == "REFILL" else set()
    )
    if at.kind() is not None:
        raise source.syntax(f"cannot read `{at.text()[:40]}` here", tokens[at.i - 1].start)
    if word != "OPEN":
        return StreamCommand(source, "close" if word == "CLOSE" else "refill", name, options.get("misses"))  # type: ignore[arg-type]  # as read
    if not {"epsilon", "misses"} <= options.keys():
        raise source.syntax(
            "a stream of checks needs its epsilon, and how many of them may be off",
            tokens[0].start,
            f"OPEN CHECKS {name} OPTIONS (epsilon = 1, misses = 8)",
        )
    return OpenChecks(source, name, **options)  # type: ignore[arg-type]  # as read


_OPEN = {"epsilon", "misses", "answers", "sides", "tolerance", "at_once"}


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
    if name == "epsilon":
        return read_value(source, "epsilon", tokens)
    if name == "sides":
        word = tokens[0].text.upper()
        if len(tokens) > 1 or word not in SIDES:
            raise source.syntax("option sides: expected one of " + ", ".join(SIDES), tokens[0].start)
        return word
    value = _read_number(source, Cursor([*tokens]), tokens)
    if name in ("misses", "at_once"):
        if value.denominator != 1 or not 1 <= value <= 10_000:
            raise source.syntax(f"option {name}: expected a whole number from 1 to 10,000", tokens[0].start)
        return int(value)
    if value < 0 or (name == "answers" and value >= 1):
        limits = "at least 0 and less than 1" if name == "answers" else "at least 0"
        raise source.syntax(f"option {name}: it must be {limits}", tokens[0].start)
    return value


def _read_number(source: StatementText, at: Cursor, tokens: Sequence[Token]) -> Fraction:
    """Read a number, a division of two, or either in parentheses, with a sign."""
    start = tokens[min(at.i, len(tokens) - 1)].start
    if at.take(TokenType.L_PAREN):
        value = _read_number(source, at, tokens)
        if not at.take(TokenType.R_PAREN):
            raise source.syntax("expected a number", start)
        return value
    negative = at.take(TokenType.DASH)
    if at.take(TokenType.DOT) and at.kind() == TokenType.NUMBER:  # `.5` is two tokens
        text = "0." + at.text()
    elif at.kind() == TokenType.NUMBER:
        text = at.text()
    else:
        raise source.syntax("expected a number: expectations are public, and no query is run for them", start)
    try:
        value = exact(text)
    except ValueError:
        raise source.syntax("expected a number", start) from None
    if value and not 1 / MAX_NUMBER <= value <= MAX_NUMBER:
        raise source.syntax("it must be no more than 1e100, and no nearer to 0 than 1e-100", start)
    if at.take(TokenType.SLASH):
        below = _read_number(source, at, tokens)
        if not below:
            raise source.syntax("a number is divided by 0", start)
        value /= below
    return -value if negative else value


def _parse_check(source: StatementText, tokens: list[Token], parse: Parse) -> Check:
    at = Cursor(tokens)
    at.i = 1
    name = _read_name(source, at, tokens)
    expect = _find_expect(tokens)
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
    column = at.text()
    expected = _read_expectation(source, at, tokens)
    if at.kind() is not None:
        raise source.syntax(f"cannot read `{tokens[at.i].text[:40]}` here", tokens[at.i].start)
    item = _find_item(query, column)
    if item is None:
        raise source.refuse(
            f"the SELECT has no item named {column[:40]}", place.start, f"name it: .. AS {column[:40]}"
        )
    kind, statistics = _rewrite(source, query, item, expected)
    made = parse(query)
    return Check(
        source, name, made, made if statistics is None else parse(statistics), kind, column, expected
    )


def _find_expect(tokens: Sequence[Token]) -> int:
    depth = 0
    for i, token in enumerate(tokens):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if not depth and i > 1 and token.token_type == TokenType.VAR and token.text.upper() == "EXPECT":
            return i
    return -1


def _read_expectation(source: StatementText, at: Cursor, tokens: Sequence[Token]) -> Expectation:
    start = tokens[min(at.i, len(tokens) - 1)].start
    word = at.word()
    low: Fraction | None = None
    high: Fraction | None = None
    if at.take(TokenType.FROM):
        if at.kind() in (None, TokenType.STRING, TokenType.NUMBER):
            raise source.syntax("EXPECT .. FROM takes a public table", start)
        table = at.text()
        return Expectation(table=table, tolerance=_read_tolerance(source, at, tokens), at=start)
    if at.take(TokenType.EQ):
        low = high = _read_number(source, at, tokens)
    elif at.take(TokenType.BETWEEN):
        low = _read_number(source, at, tokens)
        if not at.take(TokenType.AND):
            raise source.syntax("BETWEEN takes two numbers", start, "EXPECT n BETWEEN 10 AND 20")
        high = _read_number(source, at, tokens)
        if high < low:
            raise source.syntax("the second number of BETWEEN is less than the first", start)
    elif word == "AT" and at.word(1) in ("MOST", "LEAST"):
        most = at.word(1) == "MOST"
        at.i += 2
        number = _read_number(source, at, tokens)
        low, high = (None, number) if most else (number, None)
    else:
        raise source.syntax(
            "EXPECT says what a column is",
            start,
            "EXPECT n = 1200 TOLERANCE 50, BETWEEN a AND b, AT MOST a, AT LEAST a, FROM a_public_table",
        )
    tolerance: Fraction | None = None
    if at.word() == "WITHIN":
        at.i += 1
        part = _read_number(source, at, tokens)
        if low is None or low != high or part < 0 or not at.take(TokenType.MOD):
            raise source.syntax("WITHIN takes a percentage of one number", start, "EXPECT n = 1200 WITHIN 5%")
        tolerance = abs(low) * part / 100
    else:
        tolerance = _read_tolerance(source, at, tokens)
    if tolerance is None and low != high:
        tolerance = Fraction(0)  # of two numbers, or one, that are the limits themselves
    return Expectation(low, high, tolerance, at=start)


def _read_tolerance(source: StatementText, at: Cursor, tokens: Sequence[Token]) -> Fraction | None:
    if at.word() != "TOLERANCE":
        return None
    start = tokens[at.i].start
    at.i += 1
    value = _read_number(source, at, tokens)
    if value < 0:
        raise source.syntax("a tolerance is at least 0", start)
    if at.word() in ("ROWS", "ROW"):
        at.i += 1
    return value


def _find_item(query: Sequence[Token], column: str) -> tuple[int, int] | None:
    """Return the begin and the end of the outermost SELECT's item with a name, without the name."""
    depth, begin = 0, -1
    items = list[tuple[int, int]]()
    for i, token in enumerate([*query, None]):
        kind = None if token is None else token.token_type
        if kind == TokenType.SELECT and not depth:
            begin, items = _behind_options(query, i + 1), list[tuple[int, int]]()
        ends = kind in (None, TokenType.FROM, TokenType.COMMA)
        if begin >= 0 and not depth and ends:
            items.append((begin, i))
            begin = i + 1 if kind == TokenType.COMMA else -1
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
    for begin, end in items:
        if end - begin > 2 and query[end - 2].token_type == TokenType.ALIAS and _same(query[end - 1], column):
            return begin, end - 2
        if (
            end - begin > 1
            and query[end - 2].token_type == TokenType.R_PAREN
            and _same(query[end - 1], column)
        ):
            return begin, end - 1
    return None


def _behind_options(query: Sequence[Token], i: int) -> int:
    """Return the index behind WITH DIFFERENTIAL_PRIVACY OPTIONS (..), if that stands at an index."""
    at = Cursor([*query])
    at.i = i
    if (at.word(), at.word(1)) != ("WITH", "DIFFERENTIAL_PRIVACY"):
        return i
    end = find_closing_parenthesis(query, i + 3) if at.word(2) == "OPTIONS" else i + 1
    return max(end, i + 1) + 1


def _same(token: Token, name: str) -> bool:
    return token.text.lower() == name.lower()


def _rewrite(
    source: StatementText, query: list[Token], item: tuple[int, int], expected: Expectation
) -> tuple[Literal["sum", "average", "quantile"], list[Token] | None]:
    """Return the kind of the checked column, and the tokens of the SELECT that counts how far it is off."""
    begin, end = item
    head = query[begin]
    word, close = head.text.upper(), find_closing_parenthesis(query, begin + 1)
    inside = query[begin + 2 : close]
    plain = end > begin + 2 and query[begin + 1].token_type == TokenType.L_PAREN and 0 < close < end
    rest = query[close + 1 : end]
    filtered = not rest or rest[0].text.upper() == "FILTER"
    if not (plain and filtered and word in _SUMS | _AVERAGES | _QUANTILES):
        raise source.refuse(
            "a checked column is one COUNT, SUM, AVG, MEDIAN or quantile",
            head.start,
            "CHECK daily SELECT AVG(cost) AS c FROM visits EXPECT c BETWEEN 70 AND 90",
        )
    if word in _SUMS:
        return "sum", None
    if expected.table:
        raise source.refuse(
            "expectations from a table are of counts and sums", expected.at, "EXPECT .. BETWEEN a AND b"
        )
    low, high = expected.low, expected.high
    if word in _AVERAGES:
        tolerance = expected.tolerance
        if tolerance is None:
            raise source.refuse(
                "an expected average needs a tolerance of its own", expected.at, "EXPECT .. = 82.5 WITHIN 3%"
            )
        less = None if low is None else low - tolerance
        more = None if high is None else high + tolerance
        sides = [
            []
            if less is None
            else _call("SUM", [*_number(source, less, head), *_word("-", head), *_paren(inside, head)], head),
            []
            if more is None
            else _call("SUM", [*_paren(inside, head), *_word("-", head), *_number(source, more, head)], head),
        ]
        return "average", _with_items(query, begin, end, rest, sides, head)
    value, rank = _split_rank(source, word, inside, head)
    sides = []
    if low is not None:  # too many values below
        sides.append(_rows(source, value, "<", low, 1 - rank, rank, head))
    if high is not None:
        sides.append(_rows(source, value, ">", high, rank, 1 - rank, head))
    return "quantile", _with_items(query, begin, end, rest, sides, head)


def _with_items(
    query: list[Token], begin: int, end: int, rest: list[Token], sides: list[list[Token]], head: Token
) -> list[Token]:
    items: list[Token] = []
    for number, side in enumerate(side for side in sides if side):
        items += _word(",", head) if items else []
        items += [*side, *rest, *_word("AS", head), *_word(f"dpsql_side{number}", head)]
    end += 1 if query[end].token_type == TokenType.ALIAS else 0
    return [*query[:begin], *items, *query[end + 1 :]]


def _rows(
    source: StatementText,
    value: list[Token],
    sign: str,
    edge: Fraction,
    gain: Fraction,
    loss: Fraction,
    at: Token,
) -> list[Token]:
    """Return SUM(CASE WHEN value < edge THEN gain WHEN value >= edge THEN -loss END)."""
    other = {"<": ">=", ">": "<="}[sign]
    limit, paren = _number(source, edge, at), _paren(value, at)
    return _call(
        "SUM",
        [
            *_word("CASE", at),
            *(
                *_word("WHEN", at),
                *paren,
                *_word(sign, at),
                *limit,
                *_word("THEN", at),
                *_number(source, gain, at),
            ),
            *(
                *_word("WHEN", at),
                *paren,
                *_word(other, at),
                *limit,
                *_word("THEN", at),
                *_number(source, -loss, at),
            ),
            *_word("END", at),
        ],
        at,
    )


def _split_rank(
    source: StatementText, word: str, inside: list[Token], head: Token
) -> tuple[list[Token], Fraction]:
    """Return what a quantile is of, and its rank."""
    if word == "MEDIAN":
        return inside, Fraction(1, 2)
    depth, comma = 0, -1
    for i, token in enumerate(inside):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        comma = i if not depth and token.token_type == TokenType.COMMA else comma
    if comma < 0:
        raise source.refuse("a quantile needs its rank", head.start, f"{word}(cost, 0.9)")
    at = Cursor(inside)
    at.i = comma + 1
    rank = _read_number(source, at, inside)
    if not 0 < rank < 1 or at.kind() is not None:
        raise source.refuse("the rank of a checked quantile is a number between 0 and 1", inside[comma].start)
    return inside[:comma], rank


_KINDS = {
    ",": TokenType.COMMA,
    "-": TokenType.DASH,
    "<": TokenType.LT,
    ">": TokenType.GT,
    ">=": TokenType.GTE,
    "<=": TokenType.LTE,
    "AS": TokenType.ALIAS,
    "CASE": TokenType.CASE,
    "WHEN": TokenType.WHEN,
    "THEN": TokenType.THEN,
    "END": TokenType.END,
}


def _word(text: str, at: Token) -> list[Token]:
    return [Token(_KINDS.get(text, TokenType.VAR), text, at.line, at.col, at.start, at.end)]


def _paren(inside: Sequence[Token], at: Token) -> list[Token]:
    def side(kind: TokenType, text: str) -> Token:
        return Token(kind, text, at.line, at.col, at.start, at.end)

    return [side(TokenType.L_PAREN, "("), *inside, side(TokenType.R_PAREN, ")")]


def _call(name: str, inside: Sequence[Token], at: Token) -> list[Token]:
    return [*_word(name, at), *_paren(inside, at)]


def _number(source: StatementText, value: Fraction, at: Token) -> list[Token]:
    """Return a number as a literal; refuse one without an end in decimals, or with too many."""
    scaled = value * 10**_DIGITS
    if scaled.denominator != 1:
        raise source.refuse(f"what is expected here has at most {_DIGITS} decimals", at.start)
    digits = f"{abs(scaled.numerator):0{_DIGITS + 1}d}"
    text = f"{digits[:-_DIGITS]}.{digits[-_DIGITS:]}".rstrip("0").rstrip(".")
    number = [Token(TokenType.NUMBER, text, at.line, at.col, at.start, at.end)]
    return _paren([*_word("-", at), *number], at) if value < 0 else number
