"""Say what is unclear about a call of another dialect, and how to write it."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import NamedTuple

from sqlglot import exp

from dpsql.language.clause_forms import FORMATS, read_name
from dpsql.language.dialect_forms import read_forms, read_part, write_call, write_node
from dpsql.lazy_pattern import lazy_pattern

_DIFFERENCES = frozenset({"datediff", "date_diff", "timestampdiff"})
"""Differences whose first argument is a part: of borders in some dialects, of full periods in others."""


class Unclear(NamedTuple):
    """What is unclear about a call of another dialect, and how to write it."""

    what: str
    hint: str
    same: bool = False
    """Whether the hint can stand in the place of the call."""
    guess: str = ""
    """What it means then, if that is one of several meanings."""
    written: str = ""
    """One of the ways of the hint, where it shows several."""
    provided: str = ""
    """When that way is the same as the call."""


def explain_unclear(node: exp.Expr) -> Unclear | None:
    """Return what is unclear about a call of another dialect; None for other calls."""
    name, arguments = read_name(node), node.expressions
    if (
        name in _DIFFERENCES
        and len(arguments) == 3
        and (part := read_part(arguments[0]) or _read_week(arguments[0]))
    ):
        named = [a for a in arguments[1:] if read_part(a)]
        if named and part == "day" and name != "timestampdiff":
            text = write_call("date_diff", part, arguments[1:])
            return Unclear(f"`{named[-1].name}` is a part of a date, and may be a column", text, True)
        what = f"{name.upper()} counts full units in some dialects, and their boundaries in others"
        borders, full = (write_call(function, part, arguments[1:]) for function in ("date_diff", "date_sub"))
        if part == "week":
            days = (f"date_trunc('week', {write_node(a)})" for a in arguments[1:])
            borders, full = f"date_diff('day', {', '.join(days)}) // 7", borders
        either = (
            f"{borders} counts boundaries, {full} full units; or OPTIONS (dialect = {_name_dialects(name)})"
        )
        written, counted = (
            (full, "full units, as in MySQL") if name == "timestampdiff" else (borders, "boundaries")
        )
        other = f"{borders} counts boundaries" if written == full else f"{full} counts full units"
        return Unclear(what, either, written=written, provided=f"{name.upper()} counts {counted}; {other}")
    if name == "strftime" and len(arguments) == 2:
        text, value = arguments if arguments[0].is_string else arguments[::-1]
        if text.is_string and "%" not in text.name:
            return _write_format(name, text, write_node(value))
    named = [a for a in arguments if read_part(a)]
    if name == "format" and arguments and arguments[0].is_string:
        return None  # DuckDB's own
    for kinds, read, dialects in read_forms().get(name, ()):
        if len(kinds) != len(arguments) or dialects:
            continue
        if "PART" in kinds and len(named) > 1 and (part := read_part(arguments[kinds.index("PART")])):
            letters = dict(zip(kinds, arguments, strict=True))
            found = re.fullmatch(r"(date_\w+)\('PART', (.*)\)", read)
            rest = [letters[letter] for letter in found[2].split(", ")] if found is not None else []
            hint = write_call(found[1], part, rest) if found is not None else "quote the column"
            what = f"`{named[-1].name}` is a part of a date, and may be a column"
            return Unclear(what, hint, found is not None)
        if FORMATS.keys() & set(kinds):
            value = next(a for kind, a in zip(kinds, arguments, strict=True) if kind not in FORMATS)
            if value.is_string and not arguments[0].is_string and value is arguments[-1]:
                value = arguments[0]  # another dialect has the format behind it
            capitals = FORMATS["TO_CHAR_UPPER"](arguments[-1].name) if name == "to_char" else None
            if capitals is not None:
                what = "TO_CHAR writes this name in capitals in PostgreSQL, and as Jan in Snowflake"
                written = f"strftime({write_node(value)}, '{capitals}')"
                beside = node.parent.args.get("expression") if isinstance(node.parent, exp.Binary) else None
                others = [beside, *(node.parent.expressions if isinstance(node.parent, exp.In) else [])]
                if any(isinstance(each, exp.Literal) and each.name.isupper() for each in others):
                    return Unclear(what, f"UPPER({written})", True)
                return Unclear(what, written, True, "Jan rather than JAN, which is UPPER of it,")
            unpadded = FORMATS["TO_CHAR"](re.sub("(?<!FM)(Month|Day)", r"FM\1", arguments[-1].name))
            if name == "to_char" and unpadded is not None and unpadded != arguments[-1].name:
                written = f"strftime({write_node(value)}, '{unpadded}')"
                what = "TO_CHAR pads this name with blanks"
                return Unclear(what, written, True, "the name without blanks behind it")
            what = "this format is not constant, pads its parts, or depends on the locale"
            day = _read_day(value.name, arguments[-1].name) if value.is_string else None
            if day is not None:
                return Unclear(what, f"DATE '{day}'", True)
            exact = _write_format(
                name, arguments[-1] if value is arguments[0] else arguments[0], write_node(value)
            )
            if exact is not None:
                return exact
            return Unclear(what, f"strftime({write_node(value)}, '%Y-%m-%d')")
    return None


_DAY_CODES = {"YYYY": "%Y", "RRRR": "%Y", "YY": "%y", "RR": "%y", "MONTH": "%B", "MMMM": "%B", "MON": "%b"}
_DAY_CODES |= {"MMM": "%b", "MM": "%m", "DD": "%d", "M": "%m", "D": "%d"}


def _read_day(text: str, form: str) -> date | None:
    """Return the day of a text by its format; None if the format has other parts, or the text is another.

    >>> _read_day("01-JUN-2013", "DD-MON-YYYY"), _read_day("6/1/13", "%m/%d/%y"), _read_day("x", "DD")
    (datetime.date(2013, 6, 1), datetime.date(2013, 6, 1), None)
    """
    codes = form if "%" in form else re.sub("[A-Za-z]+", lambda m: _DAY_CODES.get(m[0].upper(), "%?"), form)
    try:
        return (
            datetime.strptime(text, codes).date() if set(re.findall("%(.)", codes)) <= set("YymdbB") else None
        )
    except ValueError:
        return None


_WHOLE = {
    ("to_char", "D"): "CAST(dayofweek({0}) + 1 AS VARCHAR)",
    ("to_char", "ID"): "CAST(isodow({0}) AS VARCHAR)",
    ("to_char", "WW"): "lpad(CAST((dayofyear({0}) + 6) // 7 AS VARCHAR), 2, '0')",
    ("format", "DDDD"): "strftime({0}, '%A')",
    ("format", "DDD"): "strftime({0}, '%a')",
}
"""Formats that strftime has not, alone in a call."""
_QUARTER = lazy_pattern(r'"[^"]*"|%?Q')


def _write_format(name: str, node: exp.Expr, value: str) -> Unclear | None:
    """Return how to write a format with a quarter, or of a number; None for other formats."""
    text = node.name
    if isinstance(node, exp.Column) and node.this.quoted:
        forms = [form for convert in FORMATS.values() if (form := convert(text)) is not None and form != text]
        form = text if "%" in text else forms[0] if forms else ""
        what = "double quotes stand around names"
        return Unclear(what, f"strftime({value}, '{form}')", True) if form else None
    if not isinstance(node, exp.Literal):
        return None
    if (name, text.upper()) in _WHOLE:
        return Unclear("strftime has no such format", _WHOLE[name, text.upper()].format(value), True)
    share = re.fullmatch(r"[Pp](\d?)", text)
    if share is not None and name == "format":
        return Unclear(
            "numbers are released as numbers",
            f"ROUND(100 * {value}, {share[1] or 2})",
            True,
            "a number for a text",
        )
    digits = re.fullmatch(
        r"(?:[NnFf](\d?)|[\d,G]*9(?:[.D](9+))?|0+(?:\.(0+))?)", text if node.is_string else f"N{text}"
    )
    if digits is not None and name in ("format", "to_char"):
        places = digits[1] or len(digits[2] or digits[3] or "")
        return Unclear(
            "numbers are released as numbers", f"ROUND({value}, {places})", True, "a number for a text"
        )
    kind = "STRFTIME" if "%" in text else "TO_CHAR"
    plain, parts, begin = re.sub("(?<![A-Za-z])fm", "FM", text), list[str](), 0
    for match in _QUARTER.finditer(plain):
        if match[0] == ("%Q" if kind == "STRFTIME" else "Q"):
            parts += [plain[begin : match.start()], "Q"]
            begin = match.end()
    parts.append(plain[begin:])
    made = list[str]()
    for i, part in enumerate(parts):
        letters = re.sub("(?<!%)[A-Za-z]", "", part) if kind == "STRFTIME" else part
        form = FORMATS[kind](letters) if part and i % 2 == 0 else ""
        if form is None:
            return None
        form = part if form and kind == "STRFTIME" else form
        made += [f"strftime({value}, '{form}')"] if form else []
        made += [f"quarter({value})"] if i % 2 else []
    number = len(made) == 1 and not made[0].startswith("strftime")
    whole = f"CAST({made[0]} AS VARCHAR)" if number else " || ".join(made)
    what = "strftime has no quarters" if len(parts) > 1 else "a format of another function"
    return Unclear(what, whole, True) if re.search("[A-Za-z]", text) else None


def _name_dialects(name: str) -> str:
    """Return the dialects of which a call has a meaning of its own, in words."""
    found = dict.fromkeys(d.upper() for _, _, listed in read_forms().get(name, ()) for d in listed)
    return ", ".join(found)


def _read_week(node: exp.Expr) -> str:
    """Return `week` if a bare name is that part, whose first day differs among dialects."""
    bare = isinstance(node, exp.Column) and not node.table and not node.this.quoted
    return "week" if bare and node.name.lower() == "week" else ""
