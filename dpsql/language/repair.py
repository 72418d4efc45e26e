"""Find the few characters whose change makes a statement parse that does not."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, pairwise

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import Fix, QueryRefused, QuerySyntaxError
from dpsql.language.command_statements import BARE, read_other_text
from dpsql.language.parse import parse
from dpsql.language.text_outline import Outline
from dpsql.language.tokens import find_closing_parenthesis
from dpsql.lazy_pattern import lazy_pattern

_KEYWORDS = frozenset(
    """
    SELECT FROM WHERE GROUP ORDER HAVING QUALIFY LIMIT OFFSET BY JOIN LEFT RIGHT FULL INNER CROSS ON USING
    AND OR NOT IN IS NULL LIKE BETWEEN EXISTS DISTINCT AS WITH UNION CASE WHEN THEN ELSE END ASC DESC
    INTERVAL FILTER OVER PARTITION DIFFERENTIAL_PRIVACY OPTIONS
    """.split()  # noqa: SIM905  a table of words
)
_SPANS = frozenset(("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"))
_BEHIND_WHERE = ("GROUP BY", "HAVING", "QUALIFY", "ORDER BY", "LIMIT")
_LISTS = ("SELECT", "GROUP BY", "ORDER BY", "(")
"""The clauses, and parentheses, that have commas."""
_COMPARISONS = ("=", "<>", "!=", "<", "<=", ">", ">=")
_LEFT_OUT = 4
"""The most words that are left out because they cannot be read."""
_STRONG = frozenset({"SELECT", "FROM", "AND", "OR", "ON", "JOIN", "WHEN", *_COMPARISONS}) | frozenset(
    word for words in _BEHIND_WHERE for word in words.split()
)
"""Words that ask too much to be left out."""
_OPPOSITE = frozenset(("X", "N", "NON", "UN", "IN", "ANTI"))
"""What makes another word of a keyword, such as XOR, NAND and UNLIKE: these are no mistyped ones."""
_Repair = tuple[Fix, str]
"""A change, and the hint that shows it; an empty one shows the words around the change."""
_NO_WORDS = (TokenType.STRING, TokenType.IDENTIFIER, TokenType.NUMBER)
_FURTHER = 3
"""By how many characters more of a text is read if a change has mended the first of several mistakes."""
_NEXT = lazy_pattern(r"(?i)\s+(?:and|or|group|order|having|limit)\b|\s*[;)]|\s*\Z")
"""What follows a text whose closing quote is missing."""


def repairs(text: str, error: QuerySyntaxError) -> Iterator[tuple[str, Fix]]:
    """Yield hints and fixes of a syntax error after which the statement parses, or else further.

    >>> next(repairs("SELECT a FORM t", QuerySyntaxError("no", line=1, col=15)))[0]
    'did you mean FROM?'
    """
    if error.line is None or error.col is None:
        return
    meant = read_other_text(text)
    if meant is not None:
        yield meant.text if meant.text not in text else BARE, meant
    at = _find_place(text, error)
    outline = Outline.of(text)
    found = _find_repairs(text, outline.tokens, at) if outline.tokens else _close_quote(text, at)
    if error.message.startswith("syntax error: "):  # others say what they lack
        found = chain(found, _change_tokens(outline.tokens, at))
    furthest, best, parsed = len(text) - at, None, False
    stop = at + max(len(re.compile(r"\w*").match(text, at)[0]), 1)  # type: ignore[index]  # it matches anything
    unread = error.message.startswith(("syntax error: ", "no parameter "))
    for fix, hint in found:
        if fix.asks and (best is not None or not unread):
            continue  # nothing is left out where another change reads further
        changed = text
        for one in sorted((fix, *fix.also), key=lambda f: f.start, reverse=True):
            changed = changed[: one.start] + one.text + changed[one.end :]
        try:
            parse(changed)
        except QueryRefused:
            pass
        except QuerySyntaxError as later:  # perhaps of a further mistake, behind this one
            own = len(fix.text) * ("OPTIONS" not in fix.text)  # they may have mistakes of their own
            behind = _find_place(changed, later) >= fix.start + own
            if later.obstacles[0].fix is not None and behind:
                yield hint or _show_change(changed, fix), fix
                parsed = True
                continue
            left = len(changed) - _find_place(changed, later)
            if not parsed and left < furthest - _FURTHER and fix.end <= stop:
                furthest, best = left, (hint or _show_change(changed, fix), fix)
            continue
        yield hint or _show_change(changed, fix), fix
        parsed = True
    if best is not None and not parsed:
        yield best


def _find_place(text: str, error: QuerySyntaxError) -> int:
    """Return the place of a syntax error in its text; 0 if it names none."""
    if error.line is None or error.col is None:
        return 0
    return sum(len(line) + 1 for line in text.split("\n")[: error.line - 1]) + error.col - 1


def _show_change(text: str, fix: Fix) -> str:
    """Return the part of a changed text that a fix has changed, with one token on either side."""
    tokens = Outline.of(text).tokens
    if not tokens:
        return fix.text.strip()
    i = next((i for i, t in enumerate(tokens) if t.end >= fix.start), len(tokens) - 1)
    j = next((j for j, t in enumerate(tokens) if t.end + 1 >= fix.start + len(fix.text)), i)
    return text[tokens[max(i - 1, 0)].start : tokens[min(j + 1, len(tokens) - 1)].end + 1]


def _make_insertion(text: str, at: int) -> Fix:
    return Fix(text, at, at)


def _close_quote(text: str, at: int) -> Iterator[_Repair]:
    """Close a quote before the word that may follow the text, or at the end."""
    listed = [*re.finditer(r"(?<![\w'])'[^',()]*(?=\s*[,)])(?!')", text)]
    for match in listed if text.count("'") % 2 else ():
        yield _make_insertion("'", match.end()), f"{match[0]}'"
    mixed = [m for m in re.finditer(r"""(["'])([\w .-]*)(["'])""", text) if m[1] != m[3]]
    for match in mixed:
        yield Fix(f"'{match[2]}'", *match.span()), f"'{match[2]}'"
    if text.count("'") % 2:
        for match in re.finditer(r"(?<=\w)'(?=\w)", text):  # kid's
            yield _make_insertion("'", match.end()), "''"
    if text.rfind("/*") > text.rfind("*/"):
        yield replace(_make_insertion(" */", len(text)), guess="where the remark ends"), "*/"
    quote = text[at : at + 1]
    if quote in ("'", '"'):
        for match in _NEXT.finditer(text, at + 1):
            yield _make_insertion(quote, match.start()), text[at : match.start()] + quote


def _find_repairs(text: str, tokens: list[Token], at: int) -> Iterator[_Repair]:
    """Yield changes around the token that could not be read, the likeliest first."""
    from dpsql.language.mistaken_forms import place_options, replace_forms  # noqa: PLC0415  most can be read

    i = next((n for n, t in enumerate(tokens) if t.start <= at <= t.end), len(tokens) - 1)
    here, before = tokens[i], tokens[max(i - 1, 0)]
    yield from _move_clause(text, tokens, i)
    yield from place_options(text, tokens)
    yield from _join_conditions(tokens)
    yield from replace_forms(text)
    yield from _drop_dangling(text, tokens, i)
    for n in (i, i - 1, i + 1, i - 2):
        if 0 <= n < len(tokens) and tokens[n].token_type not in _NO_WORDS:
            yield from _find_spellings(tokens[n])
    for token, after in pairwise(tokens):
        if _lacks_by(token, after) and len(after.text) == len("BY") and {*after.text.upper()} & {*"BY"}:
            yield Fix("BY", after.start, after.end + 1), "did you mean BY?"
    lacking = [t for t, n in pairwise(tokens) if _lacks_by(t, n)]
    if lacking:
        added = tuple(_make_insertion(" BY", t.end + 1) for t in lacking)
        yield replace(added[0], also=added[1:]), ""
    if before.token_type == TokenType.COMMA:
        yield Fix("", before.start, before.end + 1), ""
    spaced = [t.text for t in tokens if t.token_type == TokenType.IDENTIFIER and " " in t.text]
    for name in spaced:  # written without its quotes elsewhere
        for match in re.finditer(rf'(?i)(?<!["\w]){re.escape(name)}(?!["\w])', text):
            yield Fix(f'"{name}"', *match.span()), ""
    yield from _separate_queries(text, tokens, i)
    yield from _complete_words(text, tokens, i)
    yield from _complete_comparisons(text, tokens, i)
    near = tokens[max(i - 2, 0) : i][:: 1 if here.token_type == TokenType.L_PAREN else -1]
    listed = _clause_of(tokens, i) in _LISTS and not _is_keyword(here)
    for token in [each for each in near if listed and not _is_keyword(each)]:
        yield replace(_make_insertion(",", token.end + 1), guess="the comma"), ""
    lacking_ends = [t.token_type for t in tokens]
    opened = lacking_ends.count(TokenType.L_PAREN) - lacking_ends.count(TokenType.R_PAREN)
    if here is tokens[-1] and opened > 0:
        yield _make_insertion(")" * opened, tokens[-1].end + 1), ""
    yield from _close_calls(tokens, i)
    words = {token.text.upper() for token in tokens}
    ends = (
        (tokens[-1].end + 1, before.end + 1) if here is tokens[-1] else (before.end + 1, tokens[-1].end + 1)
    )
    for word in (")", " END") if "CASE" in words else (")",):
        for end in ends:
            yield _make_insertion(word, end), ""
    yield from _quote_words(text, tokens, i)
    rest = tokens[i:]
    parts = any(_is_keyword(t) or t.token_type in (TokenType.L_PAREN, TokenType.EQ) for t in rest)
    parts = parts or any(True for token in rest for _ in _find_spellings(token))
    parts = parts or any(t.token_type in (TokenType.STRING, TokenType.NUMBER) for t in rest)
    for first, last in ((i, len(tokens) - 1), (i - 2, i - 2), (i - 1, i - 1)):
        glued = (
            first > 0 and tokens[first - 1].end + 1 == tokens[first].start and tokens[first].text.isalpha()
        )
        if first < 0 or glued or tokens[first].text.upper().rstrip("S") in _SPANS:  # letters behind a number
            continue
        dropped = tokens[first : last + 1]
        left = text[dropped[0].start : dropped[-1].end + 1]
        fix = Fix("", tokens[first - 1].end + 1 if first else 0, dropped[-1].end + 1)
        if first == i and not parts and here.text.upper() not in ("TOP", "ARGMAX", "ABOVE", "%"):
            yield replace(fix, guess=f"that `{left}` asks nothing"), f"leave `{left}` out"
        elif len(dropped) <= _LEFT_OUT and _is_name(dropped[0]) and _STRONG.isdisjoint(left.upper().split()):
            yield replace(fix, asks=f"it without `{left}`"), f"leave `{left}` out"


def _is_name(token: Token) -> bool:
    return token.token_type not in _NO_WORDS and token.text.isidentifier() and not _is_keyword(token)


def _change_tokens(tokens: list[Token], at: int) -> Iterator[_Repair]:
    """Yield a token more or less around the one that could not be read."""
    i = next((n for n, t in enumerate(tokens) if t.start <= at <= t.end), len(tokens) - 1)
    for token in tokens[i : i + 2] + tokens[max(i - 1, 0) : i]:
        for word in ("=", "AND", ",") if token.text != "," else ():
            yield replace(_make_insertion(f"{word} ", token.start), guess=word), ""
        if token.text in (",", "(", ")", ";", "."):  # a word may ask something
            guess = f"that `{token.text}` asks nothing"
            yield Fix("", token.start, token.end + 1, guess=guess), f"leave `{token.text}` out"


def _quote_words(text: str, tokens: list[Token], i: int) -> Iterator[_Repair]:
    """Yield the quotes of a text of several words: `clinic = Lake View`, `IN (Lake View, Summit)`."""
    plain = [t.text.replace("_", "").isalnum() and t.token_type not in _NO_WORDS for t in tokens]
    words = [is_word and not _is_keyword(t) for is_word, t in zip(plain, tokens, strict=True)]
    first, last = i, i
    while first and words[first - 1]:
        first -= 1
    while last + 1 < len(tokens) and words[last + 1]:
        last += 1
    before = tokens[first - 1].text.upper() if first else ""
    if words[i] and last > first and before in (*_COMPARISONS, "LIKE", "(", ","):
        start, end = tokens[first].start, tokens[last].end + 1
        yield Fix(f"'{text[start:end]}'", start, end), ""


def _lacks_by(token: Token, after: Token) -> bool:
    return token.text.upper() in ("GROUP", "ORDER") and after.token_type != TokenType.L_PAREN


def _join_conditions(tokens: list[Token]) -> Iterator[_Repair]:
    """Yield AND for the commas between the conditions of WHERE and HAVING."""
    commas = [n for n, token in enumerate(tokens) if token.text == ","]
    found = [tokens[n] for n in commas if _clause_of(tokens, n) in ("WHERE", "HAVING")]
    if found:
        fixes = [Fix(" AND", token.start, token.end + 1) for token in found]
        yield replace(fixes[0], also=tuple(fixes[1:])), "AND"


def _clause_of(tokens: list[Token], i: int) -> str:
    """Return the clause that a token is in; "(" within its parentheses, but for subqueries."""
    depth = 0
    for token in reversed(tokens[:i]):
        depth += (token.token_type == TokenType.R_PAREN) - (token.token_type == TokenType.L_PAREN)
        if depth < 0:
            return "("
        word = token.text.upper()
        if (
            not depth
            and token.token_type not in _NO_WORDS
            and word in ("SELECT", "FROM", "WHERE", "ON", *_BEHIND_WHERE)
        ):
            return word
    return ""


def _close_calls(tokens: list[Token], i: int) -> Iterator[_Repair]:
    """Close a parenthesis before each word that may stand behind its call, and leave out one too many."""
    kinds = [token.token_type for token in tokens]
    opened = kinds.count(TokenType.L_PAREN) - kinds.count(TokenType.R_PAREN)
    for n in range(i - 1):  # ROUND(AVG(x)), 2)
        called = kinds[n : n + 2] == [TokenType.R_PAREN, TokenType.COMMA] and kinds[n + 2] == TokenType.NUMBER
        if opened < 0 and called and kinds[n + 3 : n + 4] == [TokenType.R_PAREN]:
            kept = "".join(token.text for token in (*tokens[max(n - 2, 0) : n], tokens[n + 1]))
            yield Fix("", tokens[n].start, tokens[n].end + 1), f"{kept} {tokens[n + 2].text})"
    for token in reversed(tokens[: i + 1]) if opened < 0 else ():
        if token.token_type == TokenType.R_PAREN:
            yield Fix("", token.start, token.end + 1), ""
    first = next((n for n, kind in enumerate(kinds) if kind == TokenType.L_PAREN), i)
    for n in range(len(tokens) - 1, first + 1, -1) if opened > 0 else ():
        word = tokens[n].text.upper()
        if word in (",", "AS", "FROM", "WHERE", "GROUP BY", "OVER", "FILTER", *"+-*/", *_COMPARISONS, "AND"):
            yield _make_insertion(")", tokens[n - 1].end + 1), ""


def _separate_queries(text: str, tokens: list[Token], i: int) -> Iterator[_Repair]:
    """Write the commas that WITH lacks between its queries, and leave out the last one or a second WITH."""
    words = [token.text.upper() for token in tokens]
    if "WITH" not in words:
        return
    fixes = list[Fix]()
    for n in range(1, len(tokens) - 1):
        named = words[n + 1 : n + 3] == ["AS", "("]
        if words[n - 1] == ")" and named and words[n] not in _KEYWORDS:
            fixes.append(_make_insertion(",", tokens[n - 1].end + 1))
        if words[n - 1 : n + 1] == [")", "WITH"] or words[n - 1 : n + 1] == [",", "WITH"]:
            before = "," if words[n - 1] == ")" else ""
            fixes.append(Fix(before, tokens[n - 1].end + 1, tokens[n].end + 1))
        if words[n - 1] == "," and words[n] == "SELECT":
            fixes.append(Fix("", tokens[n - 1].start, tokens[n - 1].end + 1))
    if fixes:
        yield replace(fixes[0], also=tuple(fixes[1:])), ""


def _complete_words(text: str, tokens: list[Token], i: int) -> Iterator[_Repair]:
    """Yield what some words need behind them: EXTRACT a FROM, CASE an END, ROLLUP parentheses."""
    here, before, words = tokens[i], tokens[max(i - 1, 0)], [token.text.upper() for token in tokens]
    if words[max(i - 2, 0) : i] == ["EXTRACT", "("]:
        yield _make_insertion(" FROM", here.end + 1), ""
    closed = next((t for t in tokens[i:] if t.token_type == TokenType.R_PAREN), None)
    for token in tokens[i + 1 :] if words.count("CASE") > words.count("END") else ():
        if token.text.upper() in ("AS", ",", "FROM", "GROUP BY"):
            yield _make_insertion(" END", tokens[tokens.index(token) - 1].end + 1), ""
    if words.count("CASE") > words.count("END") and closed is not None:
        yield _make_insertion(" END", closed.start), f"{text[here.start : closed.start]} END"
    if i and words[i - 1] in ("ROLLUP", "CUBE"):
        rest = [n for n, token in enumerate(tokens[i:], i) if token.text.upper() in _KEYWORDS]
        end = tokens[rest[0] - 1 if rest else -1].end + 1
        listed = f"({text[here.start : end]})"
        yield Fix(listed, here.start, end), f"{words[i - 1]} {listed}"
    swapped = {"SEPARATOR": ",", "MINUS": "EXCEPT", "DESCENDING": "DESC", "ASCENDING": "ASC"}
    for token in tokens[max(i - 1, 0) : i + 1]:
        if token.text.upper() in swapped:
            yield Fix(swapped[token.text.upper()], token.start, token.end + 1), ""
    if here.token_type == TokenType.SEMICOLON:
        yield Fix("", here.start, here.end + 1), "leave the `;` out"
    if i and words[i].rstrip("S") in _SPANS and tokens[i - 1].token_type == TokenType.NUMBER:
        written = f"INTERVAL {tokens[i - 1].text} {words[i]}"
        yield Fix(written, tokens[i - 1].start, here.end + 1), written
    for n, word in enumerate(words[: i + 1]):
        end = words.index("END", n) if "END" in words[n:] else len(words) - 1
        whens = [m for m in range(n, end) if word == "CASE" and words[m] == "WHEN"]
        signs = (*_COMPARISONS, "IN", "NOT", "IS", "LIKE", "BETWEEN")
        if whens and whens[0] > n + 1 and all(words[m + 1] in signs for m in whens):
            value = text[tokens[n + 1].start : tokens[whens[0] - 1].end + 1]
            moved = [_make_insertion(f" {value}", tokens[m].end + 1) for m in whens]
            fix = Fix("", tokens[n].end + 1, tokens[whens[0] - 1].end + 1, also=tuple(moved))
            yield fix, f"CASE WHEN {value} {words[whens[0] + 1]} .."
    named = re.search(r"\[([A-Za-z_][\w ]*)\]", text[max(here.start - 1, 0) :])
    if named is not None and words[i] == "[":
        every = [*re.finditer(r"\[([A-Za-z_][\w ]*)\]", text)]
        quoted = tuple(Fix(f'"{m[1]}"', *m.span()) for m in every)
        yield replace(quoted[0], also=quoted[1:]), f'"{named[1]}"'
    if words[i] == "NULLS":
        yield _make_insertion(" LAST", here.end + 1), "NULLS LAST"
    if words[i] == "," and "BETWEEN" in words[max(i - 3, 0) : i]:
        yield Fix(" AND", here.start, here.end + 1), ""
    if i and words[i - 1] == "TO" and "BETWEEN" in words[:i]:
        yield Fix("AND", tokens[i - 1].start, tokens[i - 1].end + 1), ""
    behind = (*_KEYWORDS, *_BEHIND_WHERE, ",", ")", ";")
    percents = [
        Fix("", b.start, b.end + 1)
        for n, (a, b) in enumerate(pairwise(tokens))
        if b.text == "%" and a.token_type == TokenType.NUMBER and (words[n + 2 : n + 3] or [","])[0] in behind
    ]
    if percents:
        yield replace(percents[0], also=tuple(percents[1:]), guess="that percents are numbers"), ""
    for token, after in pairwise(tokens):
        if token.text.upper() == "CASE" and after.text.upper() != "WHEN":
            yield _make_insertion(" WHEN", token.end + 1), ""
    number = re.compile(r"\d{1,3}(,\d{3})+\b").search(text, max(here.start - 8, 0))
    if number is not None and number.start() < here.end:
        written = number[0].replace(",", "")
        yield Fix(written, *number.span()), written
    if words[i] == "=>":
        yield Fix(">=", here.start, here.end + 1), ""
    plain = before.token_type in (TokenType.VAR, TokenType.IDENTIFIER)
    if plain and here.token_type in (TokenType.NUMBER, TokenType.STRING) and _clause_of(tokens, i) == "WHERE":
        yield replace(_make_insertion(" =", before.end + 1), guess="="), ""


def _complete_comparisons(text: str, tokens: list[Token], i: int) -> Iterator[_Repair]:
    """Yield `x > 1 AND x < 2` for `x > 1 AND < 2`, and what some words need around them."""
    words = [token.text.upper() for token in tokens]
    signs = (*_COMPARISONS, "LIKE", "ILIKE", "IN", "BETWEEN")
    for n in range(2, len(tokens) - 1):
        compared = next((m for m in range(n - 1, 0, -1) if words[m] in signs), None)
        if words[n] in ("AND", "OR") and words[n + 1] in signs and compared is not None:
            left = tokens[compared - 1]
            yield _make_insertion(f" {text[left.start : left.end + 1]}", tokens[n].end + 1), ""
    if (
        words[i] == "DISTINCT"
        and words[i + 1 : i + 2] not in ([], [")"])
        and tokens[i - 1].token_type == TokenType.VAR
    ):
        end = tokens[i + 1].end + 1
        yield Fix(f"(DISTINCT {tokens[i + 1].text})", tokens[i - 1].end + 1, end), ""


def _drop_dangling(text: str, tokens: list[Token], i: int) -> Iterator[_Repair]:
    """Leave out keywords and commas at the end, behind which something is missing."""
    first = len(tokens)
    while first and (tokens[first - 1].text.upper() == "," or _is_keyword(tokens[first - 1])):
        first -= 1
    if 0 < first <= i + 1 and first < len(tokens):
        start = tokens[first - 1].end + 1
        kept = next((t for t in tokens[first:] if t.token_type in (TokenType.DESC, TokenType.ASC)), None)
        left = text[start if kept is None else kept.end + 1 :].strip()  # `ORDER BY n DESC LIMIT`
        yield Fix("", start if kept is None else kept.end + 1, tokens[-1].end + 1), f"leave {left} out"


def _is_keyword(token: Token) -> bool:
    return token.token_type not in _NO_WORDS and all(word in _KEYWORDS for word in token.text.upper().split())


def _find_spellings(token: Token) -> Iterator[_Repair]:
    """Yield the keywords that a word may be a mistyped spelling of, or that are joined in it."""
    word = token.text.upper()
    for n in range(2, len(word) - 1):
        if word[:n] in _KEYWORDS and word[n:] in _KEYWORDS:
            yield (
                Fix(f"{word[:n]} {word[n:]}", token.start, token.end + 1),
                f"did you mean {word[:n]} {word[n:]}?",
            )
    if word not in _KEYWORDS and len(word) == 2:
        for short in (each for each in ("BY", "ON", "AS", "OR", "IN", "IS") if each == word[::-1]):
            yield Fix(short, token.start, token.end + 1), f"did you mean {short}?"
    if word not in _KEYWORDS and len(word) > 2:
        for same in sorted(each for each in _KEYWORDS if sorted(each) == sorted(word)):
            yield Fix(same, token.start, token.end + 1), f"did you mean {same}?"
    if word not in _KEYWORDS and word.isascii() and word.replace("_", "").isalpha():
        for close in difflib.get_close_matches(word, sorted(_KEYWORDS), 2, 0.7):
            if word.removesuffix(close) not in _OPPOSITE:
                yield Fix(close, token.start, token.end + 1), f"did you mean {close}?"


def _move_clause(text: str, tokens: list[Token], i: int) -> Iterator[_Repair]:
    """Yield the clause of the token behind the first SELECT, where it belongs."""
    words = [t.text.upper() for t in tokens[i : i + 4]]
    pairs = pairwise(tokens[:i])
    where = next((t for b, t in pairs if t.text.upper() == "WHERE" and b.text.upper() != "FILTER"), None)
    grouped = next((t for t in tokens[:i] if t.text.upper() == "GROUP BY"), None)
    if words[0] == "FROM" and grouped is not None and where is None:
        moved = _make_insertion(f" {text[grouped.start : tokens[i].start].strip()}", tokens[-1].end + 1)
        yield Fix("", grouped.start, tokens[i].start, also=(moved,)), f"FROM ..{moved.text}"
    if words[0] == "FROM" and where is not None:
        behind = next((t for t in tokens[i:] if t.text.upper() in _BEHIND_WHERE), None)
        at = len(text.rstrip().rstrip(";")) if behind is None else behind.start
        condition = text[where.start : tokens[i].start].strip()
        moved = _make_insertion(f"{condition} " if behind is not None else f" {condition}", at)
        yield Fix("", where.start, tokens[i].start, also=(moved,)), f"FROM .. {condition}"
    select = next((t for t in tokens if t.token_type == TokenType.SELECT), None)
    if words[:2] != ["WITH", "DIFFERENTIAL_PRIVACY"] or select is None:
        return
    opened = i + 3 if words[2:] == ["OPTIONS", "("] else i + 2 if words[2:3] == ["("] else -1
    end = find_closing_parenthesis(tokens, opened) if opened > 0 else i + 1
    if end > 0:
        start, stop = tokens[i].start, tokens[end].end + 1
        clause = text[start:stop]
        clause = re.sub(r"(?i)(?<=DIFFERENTIAL_PRIVACY)\s*(?=\()", " OPTIONS ", clause)
        removed = Fix("", start - (text[start - 1] == " "), stop)
        yield Fix(f" {clause}", select.end + 1, select.end + 1, also=(removed,)), f"SELECT {clause} ..."
