"""Advise on values that are written in another way: numbers with their unit, days, the present day."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, timedelta

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.analysis.advice.refused_statement import Advice, RefusedStatement, change_all
from dpsql.analysis.compiler import function_name
from dpsql.errors import Fix, Obstacle

_CLOCKS = {
    "sysdate": "current_date",
    "systimestamp": "now()",
    "today": "current_date",
    "getdate": "now()",
    "curdate": "current_date",
    "current_datetime": "now()",
    "sysdatetime": "now()",
}
"""Names of the present day or time that other systems write without parentheses."""
_DATES = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d", "%Y-%d-%m", "%Y-%m", "%d-%b-%Y", "%d-%b-%y", "%d %b %Y"),
    *("%b %d %Y", "%B %d %Y", "%d/%b/%Y", "%Y %b %d", "%A, %B %d, %Y", "%d-%B-%Y"),
    *(
        "%y-%m-%d",
        "%m/%d/%y",
        "%d/%m/%y",
        "%d %B %Y",
        "%B %d, %Y",
        "%b %d, %Y",
        "%d.%m.%Y",
        "%d/%m/%Y",
        "%m/%d/%Y",
        "%d-%m-%Y",
        "%m-%d-%Y",
    ),
)
"""How people write a day."""


def advise_on_clock(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write the present day as DuckDB does."""
    if not isinstance(node, exp.Column) or node.table or "start" not in node.this.meta:
        return None
    made = _CLOCKS.get(node.name.lower()) or _NAMED_DAYS.get(node.name.lower())
    if made is None:
        return None
    asks = "the day, without its time" if node.name.lower() == "sysdate" else ""
    return made, Fix(made, node.this.meta["start"], node.this.meta["end"] + 1, asks=asks)


def _find_text(of: RefusedStatement, node: exp.Expr) -> Token | None:
    at = of.query.source.position(node)
    return next(
        (t for t in of.outline.tokens if t.start >= at and t.token_type == TokenType.STRING),
        None,
    )


_WORDS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


def advise_on_number(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Take the number out of a text that is compared with numbers: '100 EUR', '1,000'."""
    token = _find_text(of, node)
    if token is not None and token.text.strip().lower() in _WORDS:
        number = str(_WORDS.index(token.text.strip().lower()))
        return number, Fix(number, token.start, token.end + 1)
    hours = [
        t
        for t in of.outline.tokens
        if re.fullmatch(r"[012]?\d:00(:00)?", t.text) and t.token_type == TokenType.STRING
    ]
    if hours and re.search(r"(?i)\bHOUR\b", of.text):  # HOUR(at) >= '18:00'
        fixes = [Fix(str(int(t.text.partition(":")[0])), t.start, t.end + 1) for t in hours]
        return change_all(fixes)
    whole = one.message.endswith("INT") or one.message.endswith("INTEGER")
    if token is not None and whole and re.fullmatch(r"\d{4}-\d\d-\d\d", token.text):
        return token.text[:4], Fix(
            token.text[:4], token.start, token.end + 1, asks=f"the year of {token.text}"
        )
    found = None if token is None else re.fullmatch(r"\D{0,4}?(-?\d[\d,]*(?:\.\d+)?)(\s*\D*)", token.text)
    if token is None or found is None:
        return None
    number = found[1].replace(",", "")
    rest = token.text.replace(found[1], "").strip()
    asks = f"{number}, without {rest}" if rest else ""
    return number, Fix(number, token.start, token.end + 1, asks=asks)


def advise_on_date(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write a day as year, month and day; of several days that it may be, one is a guess."""
    texts = [t for t in of.outline.tokens if t.token_type == TokenType.STRING]
    for token in texts:
        if ago := re.fullmatch(r"(?i)\s*(\d+)\s+(day|week|month|year)s?\s+ago\s*", token.text):
            written = f"(current_date - INTERVAL {ago[1]} {ago[2].upper()})"
            return written, Fix(written, token.start, token.end + 1)
    named = next((t for t in texts if t.text.strip().lower() in _NAMED_DAYS), None)
    if named is not None:
        day = _NAMED_DAYS[named.text.strip().lower()]
        return day, Fix(day, named.start, named.end + 1)
    time = next((t for t in texts if re.fullmatch(r"[012]?\d:\d\d(:\d\d)?", t.text.strip())), None)
    sides = (node.this, node.args.get("expression"), node.args.get("low")) if time is not None else ()
    column = next((s for s in sides if isinstance(s, exp.Column)), None)
    span = None if column is None else of.outline.span(of.original(column))
    if span is not None and one.message.endswith("TIMESTAMP"):
        written = f"CAST({of.text[slice(*span)]} AS TIME)"
        return written, Fix(written, *span)
    other = [t for t in texts if not _is_moment(t.text) and any(_read_days([t.text]))]
    if not other:
        return None
    days = _read_days([t.text for t in other]) or _read_days([other[0].text])
    other = other[: len(days[0])]
    read = list(dict.fromkeys(tuple(each) for each in days))
    first, written = read[0], other[0].text.strip()
    exact = len(read) == 1 and re.search(r"\d{4}-\d\d-\d\d", written) is None and len(written) > 7
    hint = f"'{first[0]}'" if len(read) == 1 else f"'{first[0]}', or '{read[1][0]}'"
    guess = "" if exact else f"{first[0]:%-d %B %Y}"
    fixes = [Fix(f"'{day}'", t.start, t.end + 1) for day, t in zip(first, other, strict=True)]
    return hint, replace(fixes[0], guess=guess, also=tuple(fixes[1:]))


_MONTHS = ("%B %Y", "%b %Y", "%B, %Y", "%b-%y", "%b-%Y", "%m/%Y", "%Y-%m", "%Y/%m")


def compare_month(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `day = 'July 2013'` and `day IN ('2013', '2014')` as comparisons of the month and the year."""
    whole = of.original(node)
    whole = whole.parent if isinstance(whole.parent, exp.In) else whole
    listed = isinstance(whole, exp.In)
    compared = isinstance(whole, (exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE))
    sides = [whole.this, *(whole.expressions if listed else [whole.expression])] if listed or compared else []
    day = next((s for s in sides if isinstance(s, exp.Column)), None)
    texts = [s.name.strip() for s in sides if isinstance(s, exp.Literal) and s.is_string]
    spans = [span for s in sides if (span := of.outline.span(s)) is not None]
    if day is None or len(texts) != len(sides) - 1 or len(spans) != len(sides):
        return None
    column = of.text[slice(*spans[sides.index(day)])]
    sign = "=" if listed or isinstance(whole, exp.EQ) else of.text[spans[0][1] : spans[1][0]].strip()
    made = [_compare_part(column, sign, text) for text in texts if sign == "=" or day is sides[0]]
    if not made or "" in made:
        return None
    start, end = min(s[0] for s in spans), max(s[1] for s in spans)
    written = made[0] if len(made) == 1 else f"({' OR '.join(made)})"
    if listed:
        end = of.text.index(")", end) + 1
        written = f"NOT {written}" if re.search(r"(?i)\bNOT\b", of.text[start:end]) else written
    year = sign in ("<=", ">") and made[0].startswith("YEAR")  # or the first moment of it
    return written, Fix(written, start, end, guess=f"the whole of {texts[0]}" if year else "")


def _compare_part(day: str, sign: str, text: str) -> str:
    if re.fullmatch(r"(?:19|20)\d\d", text):
        return f"YEAR({day}) {sign} {text}"
    for form in _MONTHS if sign == "=" else ():
        with suppress(ValueError):
            month = datetime.strptime(text, form)
            return f"(YEAR({day}) = {month.year} AND MONTH({day}) = {month.month})"
    return ""


def bound_month(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write a month that is an end of a range as its first day, or its last where the range ends."""
    fixes, tokens = list[Fix](), of.outline.tokens
    years = r"(?i)\bBETWEEN\s+('(?:19|20)\d\d')\s+AND\s+('(?:19|20)\d\d')"
    if (found := re.search(years, of.text)) is not None:
        written = f"BETWEEN {found[1][:-1]}-01-01' AND {found[2][:-1]}-12-31'"
        return written, Fix(written, *found.span(), guess=f"the whole of {found[2][1:-1]}")
    for i, token in enumerate(tokens):
        month = _read_month(token.text) if token.token_type == TokenType.STRING else None
        before = tokens[max(i - 1, 0)].text.upper()
        if month is not None:
            ends = before in ("<=", ">") or (
                before == "AND" and "BETWEEN" in (t.text.upper() for t in tokens[i - 4 : i])
            )
            day = (month + timedelta(days=31)).replace(day=1) - timedelta(days=1) if ends else month
            fixes.append(Fix(f"'{day}'", token.start, token.end + 1))
    return change_all(fixes)


def take_last_day(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write the last day of a month for one that it does not have: '2024-02-30'."""
    for token in of.outline.tokens:
        found = re.fullmatch(r"(\d{4}-(?:0[1-9]|1[0-2]))-(29|3\d)", token.text)
        if found is None or token.token_type != TokenType.STRING or _is_moment(token.text):
            continue
        first = date.fromisoformat(f"{found[1]}-01")
        day = (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
        return f"'{day}'", Fix(f"'{day}'", token.start, token.end + 1, guess="the last day of that month")
    return None


def _read_month(text: str) -> date | None:
    for form in _MONTHS:
        with suppress(ValueError):
            return datetime.strptime(text.strip(), form).date()
    return None


_NAMED_DAYS = {"today": "current_date", "now": "current_date", "yesterday": "(current_date - INTERVAL 1 DAY)"}
_NAMED_DAYS |= {
    f"{which} {part}": f"(date_trunc('{part}', current_date){back.format(part)})"
    for part in ("week", "month", "quarter", "year")
    for which, back in (("this", ""), ("last", " - INTERVAL 1 {}"), ("previous", " - INTERVAL 1 {}"))
}
_NAMED_DAYS |= {"tomorrow": "(current_date + INTERVAL 1 DAY)"}


def compare_year(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Compare the year of a day with a number, where the day is compared with it."""
    whole = of.original(node)
    sides = [*whole.iter_expressions()] if isinstance(whole, (exp.Binary, exp.Between, exp.In)) else []
    day = next((side for side in sides if isinstance(side, exp.Column)), None)
    span = None if day is None else of.outline.span(day)
    years = [
        re.fullmatch(r"(?i)(?:19|20)\d\d|YEAR", function_name(s) or s.name) for s in sides if s is not day
    ]
    if span is None or not all(years):
        return None
    written = f"YEAR({of.text[slice(*span)]})"
    return one.hint or written, Fix(written, *span)


def _is_moment(text: str) -> bool:
    """Return whether a text is a day or a point of time as SQL writes it."""
    try:
        datetime.fromisoformat(text.strip())
    except ValueError:
        return False
    return "-" in text


def _read_days(texts: list[str]) -> list[list[date]]:
    """Return the days of texts, by each form in which all of them can be read."""
    found = []
    for form in _DATES:
        try:
            plain = [re.sub(r"(?<=\d)(?:st|nd|rd|th)\b(?: of)?", "", text.strip()) for text in texts]
            found.append([datetime.strptime(text, form).date() for text in plain])
        except ValueError:
            continue
    return found
