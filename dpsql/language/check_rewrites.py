"""Rewrite the SELECT of a check into one that counts how far its column is off.

Of an average and a quantile it counts sums that are above 0 where it is off (`composition.checked_numbers`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Literal

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.kernel.loss import exact
from dpsql.language.options import MAX_NUMBER
from dpsql.language.statement import StatementText
from dpsql.language.stream_statements import Expectation
from dpsql.language.tokens import Cursor, find_closing_parenthesis

_AVERAGES = {"AVG", "MEAN"}
_QUANTILES = {"MEDIAN", "QUANTILE_DISC", "QUANTILE_CONT"}
_SUMS = {"COUNT", "SUM"}
_DIGITS = 18
"""How many decimals an expectation may have that is put into an average or a quantile."""
_EXACT = 15
"""The most digits of a number that is a DECIMAL: more are those of a DOUBLE, which was released."""


def read_number(source: StatementText, at: Cursor, tokens: Sequence[Token]) -> Fraction:
    """Read a number, a division of two, or either in parentheses, with a sign."""
    start = tokens[min(at.i, len(tokens) - 1)].start
    if at.take(TokenType.L_PAREN):
        value = read_number(source, at, tokens)
        if not at.take(TokenType.R_PAREN):
            raise source.syntax("expected a number", start)
        return value
    negative = at.take(TokenType.DASH)
    if at.take(TokenType.DOT) and at.kind() == TokenType.NUMBER:  # `.5` is two tokens
        text = "0." + at.text()
    elif at.kind() == TokenType.NUMBER:
        text = at.text()
    else:
        raise source.syntax(
            "expected a number: expectations are public, and no query is run for them",
            start,
            "EXPECT .. = 1200 TOLERANCE 50, or EXPECT .. FROM a public table",
        )
    try:
        value = exact(text)
    except ValueError:
        raise source.syntax("expected a number", start) from None
    if value and not 1 / MAX_NUMBER <= value <= MAX_NUMBER:
        raise source.syntax("it must be no more than 1e100, and no nearer to 0 than 1e-100", start)
    if at.take(TokenType.SLASH):
        below = read_number(source, at, tokens)
        if not below:
            raise source.syntax("a number is divided by 0", start)
        value /= below
    return -value if negative else value


def find_item(query: Sequence[Token], column: str) -> tuple[int, int] | None:
    """Return the begin and the end of the outermost SELECT's item with a name, without the name."""
    for begin, end in find_items(query):
        name = name_of_item(query, begin, end)
        if name >= 0 and query[name].text.lower() == column.lower():
            return begin, end_without_name(query, name)
    return None


def list_items(query: Sequence[Token]) -> Iterator[tuple[Token, int, int]]:
    """Yield the named items of the outermost SELECT: the name, the begin, and the end without the name."""
    for begin, end in find_items(query):
        name = name_of_item(query, begin, end)
        if name >= 0:
            yield query[name], begin, end_without_name(query, name)


def find_items(query: Sequence[Token]) -> list[tuple[int, int]]:
    """Return the begin and the end of each item of the outermost SELECT, with its name."""
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
    return items


def name_of_item(query: Sequence[Token], begin: int, end: int) -> int:
    """Return where the name of an item stands, behind AS or behind a parenthesis; -1 if it has none."""
    if end - begin > 2 and query[end - 2].token_type == TokenType.ALIAS:
        return end - 1
    behind = end - begin > 1 and query[end - 2].token_type == TokenType.R_PAREN
    return end - 1 if behind and query[end - 1].token_type != TokenType.R_PAREN else -1


def end_without_name(query: Sequence[Token], name: int) -> int:
    """Return the end of an item without its name, which stands there."""
    return name - 1 if query[name - 1].token_type == TokenType.ALIAS else name


def _behind_options(query: Sequence[Token], i: int) -> int:
    """Return the index behind WITH DIFFERENTIAL_PRIVACY OPTIONS (..), if that stands at an index."""
    at = Cursor([*query])
    at.i = i
    if (at.word(), at.word(1)) != ("WITH", "DIFFERENTIAL_PRIVACY"):
        return i
    end = find_closing_parenthesis(query, i + 3) if at.word(2) == "OPTIONS" else i + 1
    return max(end, i + 1) + 1


def rewrite_item(
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
    if expected.table or expected.last or expected.models:
        word = "LAST" if expected.last else "MODELS"
        what = "expectations from a table are" if expected.table else f"{word} is"
        raise source.refuse(f"{what} of counts and sums", expected.at, "EXPECT .. BETWEEN a AND b")
    low, high = expected.low, expected.high
    if word in _AVERAGES:
        tolerance = expected.tolerance
        if tolerance is None:
            raise source.refuse(
                "an expected average needs a tolerance of its own", expected.at, "EXPECT .. = 82.5 WITHIN 3%"
            )
        less = None if low is None else low - tolerance
        more = None if high is None else high + tolerance
        value, bounds = _split_bounds(source, inside)
        number = _read_condition(value, head)
        sides = [
            [] if less is None else _distance(source, number, less, bounds, head, below=True),
            [] if more is None else _distance(source, number, more, bounds, head, below=False),
        ]
        return "average", _with_items(query, begin, end, rest, sides, head)
    value, rank = _split_rank(source, word, inside, head)
    sides = []
    if low is not None:  # too many values below
        sides.append(_rows(source, value, "<", low, 1 - rank, rank, head))
    if high is not None:
        sides.append(_rows(source, value, ">", high, rank, 1 - rank, head))
    return "quantile", _with_items(query, begin, end, rest, sides, head)


def _split_bounds(
    source: StatementText, inside: list[Token]
) -> tuple[list[Token], tuple[Fraction, Fraction] | None]:
    """Return the argument of an average, and the bounds that `contribution_bounds_per_row` writes, if any."""
    arrow = next((i for i, token in enumerate(inside) if token.token_type == TokenType.FARROW), -1)
    if arrow < 2 or inside[arrow - 2].token_type != TokenType.COMMA:
        return inside, None
    at, name = Cursor(inside), inside[arrow - 1]
    at.i = arrow + 1
    if name.text.lower() != "contribution_bounds_per_row" or not at.take(TokenType.L_PAREN):
        raise source.refuse(
            "a checked average takes bounds on the values of rows",
            name.start,
            "AVG(x, contribution_bounds_per_row => (0, 100))",
        )
    low = read_number(source, at, inside)
    at.take(TokenType.COMMA)
    return inside[: arrow - 2], (low, read_number(source, at, inside))


_COMPARING = frozenset(
    ("=", "==", "<", ">", "<=", ">=", "<>", "!=", "AND", "OR", "NOT", "IS", "IN", "BETWEEN", "LIKE", "ILIKE")
)
"""Words outside parentheses that make an expression a condition."""


def _read_condition(value: list[Token], at: Token) -> list[Token]:
    """Return a value in parentheses: 1 and 0 in the place of a condition, of which AVG is a share."""
    depth, compares = 0, False
    for token in value:
        depth += (token.token_type in (TokenType.L_PAREN, TokenType.CASE)) - (
            token.token_type in (TokenType.R_PAREN, TokenType.END)
        )
        compares |= not depth and token.text.upper() in _COMPARING
    paren = _paren(value, at)
    if not compares:
        return paren
    no = [*_word("WHEN", at), *_word("NOT", at), *paren, *_word("THEN", at), *_digit(0, at)]
    yes = [*_word("CASE", at), *_word("WHEN", at), *paren, *_word("THEN", at), *_digit(1, at)]
    return _paren([*yes, *no, *_word("END", at)], at)


def _digit(number: int, at: Token) -> list[Token]:
    return [Token(TokenType.NUMBER, str(number), at.line, at.col, at.start, at.end)]


def _distance(
    source: StatementText,
    value: list[Token],
    edge: Fraction,
    bounds: tuple[Fraction, Fraction] | None,
    at: Token,
    *,
    below: bool,
) -> list[Token]:
    """Return SUM(edge - value), or SUM(value - edge), with the bounds of the values moved along."""
    limit = _number(source, edge, at)
    inside = [*limit, *_word("-", at), *value] if below else [*value, *_word("-", at), *limit]
    if bounds is not None:
        low, high = sorted(edge - each if below else each - edge for each in bounds)
        pair = [*_number(source, low, at), *_word(",", at), *_number(source, high, at)]
        named = [*_word("contribution_bounds_per_row", at), *_word("=>", at), *_paren(pair, at)]
        inside = [*inside, *_word(",", at), *named]
    return _call("SUM", inside, at)


def count_values(query: list[Token], begin: int) -> list[Token]:
    """Return a SELECT whose item, an average from that place on, is the number of its values instead."""
    return [*query[:begin], *_word("COUNT", query[begin]), *query[begin + 1 :]]


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
    rank = read_number(source, at, inside)
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
    "=>": TokenType.FARROW,
    "NOT": TokenType.NOT,
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
    if len(text.replace(".", "")) > _EXACT:
        text += "e0"
    number = [Token(TokenType.NUMBER, text, at.line, at.col, at.start, at.end)]
    return _paren([*_word("-", at), *number], at) if value < 0 else number
