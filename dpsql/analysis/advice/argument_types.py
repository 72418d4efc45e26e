"""Advise on arguments and operands of other types than a function or a comparison takes."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta

from sqlglot import exp

from dpsql.analysis.advice.refused_statement import Advice, RefusedStatement
from dpsql.errors import Fix, Obstacle
from dpsql.lazy_pattern import lazy_pattern

_CASTS = frozenset({"VARCHAR", "DATE", "TIMESTAMP", "BIGINT", "DOUBLE"})
"""Types that an argument may be converted to."""

_NUMBERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DOUBLE"})


def _is_fitting(given: str, wanted: str) -> bool:
    """Return whether an argument fits as it is; a word in small letters is a literal text."""
    literal = wanted.islower() or wanted.startswith("literal ")
    return given == wanted or literal or {given, wanted} <= _NUMBERS


def _read_types(call: str) -> list[str]:
    """Return the types in the parentheses of a call that a message shows."""
    inside = call.partition("(")[2].rpartition(")")[0].partition(") (")[0]
    return inside.split(", ") if inside else []


def advise_on_types(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Convert the arguments that do not fit a function or operator."""
    given = _read_types(one.message.partition(" with ")[2])
    operands = [node.this, node.expression] if isinstance(node, exp.Binary) else list(node.expressions)
    if isinstance(node, (exp.Add, exp.Sub)) and given[:1] == ["TIMESTAMP"] and given[1] in _NUMBERS:
        span = of.outline.span(node.expression)
        days = None if span is None else of.text[slice(*span)]
        plain = isinstance(node.expression, (exp.Literal, exp.Column))
        written = f"INTERVAL {days} DAY" if plain else f"INTERVAL ({days}) DAY"
        return None if span is None else (written, Fix(written, *span))
    allowed = [
        _read_types(form) for form in (one.hint or "").split("; ") if len(_read_types(form)) == len(given)
    ]
    ways = [
        [i for i, (a, b) in enumerate(zip(given, form, strict=True)) if not _is_fitting(a, b)]
        for form in allowed
    ]
    fitting = [
        (places, form)
        for places, form in zip(ways, allowed, strict=True)
        if places
        and all(
            "VARCHAR" in (form[i], given[i]) or (given[i], form[i]) == ("TIMESTAMP", "DATE") for i in places
        )
        and all(form[i] in _CASTS for i in places)
    ]
    if not fitting or len(operands) != len(given):
        return None
    number = any(t in _NUMBERS for t in given)
    places, form = min(fitting, key=lambda way: (number and "DATE" in way[1], len(way[0])))
    text, casts = of.text, list[Fix]()
    for i in places:
        span = of.outline.span(operands[i])
        if span is None:
            return None
        casts.append(Fix(f"CAST({text[span[0] : span[1]]} AS {form[i]})", *span))
    return ", ".join(c.text for c in casts), replace(casts[0], also=tuple(casts[1:]))


def subtract_years(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Subtract a year that is a number: `DATEDIFF(YEAR, birth_year, now())`."""
    call, kinds = of.call(node), _read_types(one.message.partition(" with ")[2])
    if call is None or len(call[2]) != 3 or len(kinds) != 3 or "year" not in call[2][0].lower():
        return None
    if not {"INTEGER", "BIGINT", "SMALLINT"} & {*kinds[1:]}:
        return None
    first, second = (
        each if kind in _NUMBERS else f"YEAR({each})"
        for each, kind in zip(call[2][1:], kinds[1:], strict=True)
    )
    written = f"({second} - {first})"
    return written, Fix(written, call[0], call[1])


def advise_on_comparison(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Convert a text that is compared with a number or a date."""
    first, _, rest = one.message.partition(" and ")
    truth = _compare_truth(of, node, one.message)
    if truth is not None:
        return truth
    target = one.message.partition("CAST(... AS ")[2].partition(")")[0] or rest.partition(" ")[0]
    if not isinstance(node, exp.Binary) or first != "VARCHAR" or target not in _CASTS | {"INTEGER"}:
        return None
    operand = node.expression if isinstance(node.this, exp.Literal) else node.this
    span = of.outline.span(operand)
    if span is None or isinstance(operand, exp.Literal):
        return None
    written = f"CAST({of.text[span[0] : span[1]]} AS {target})"
    return f"{written}, which is NULL where it does not convert", Fix(written, *span)


_DAY = lazy_pattern(r"((?:19|20)\d\d|[01]\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")


def _compare_truth(of: RefusedStatement, node: exp.Expr, message: str) -> Advice | None:
    """Write 1 for TRUE beside a whole number, TRUE for 1 beside a truth value, and a day for its digits."""
    sides = (node.this, node.expression) if isinstance(node, exp.Binary) else ()
    kinds = message.split(" are compared ", maxsplit=1)[0].split(" and ")
    for value in sides:
        at = of.query.source.position(value)
        token = next((t for t in of.outline.tokens if t.start == at), None)
        written, guess = "", ""
        if isinstance(value, exp.Boolean) and "BOOLEAN" in kinds:
            written = "1" if value.this else "0"
        elif isinstance(value, exp.Literal) and "BOOLEAN" in kinds and value.name in ("0", "1"):
            written = "TRUE" if value.name == "1" else "FALSE"
        elif (
            isinstance(value, exp.Literal)
            and {"DATE", "TIMESTAMP"} & {*kinds}
            and (day := _DAY.fullmatch(value.name))
        ):
            year = int(day[1]) + 1900 * (len(day[1]) == 3)
            written = f"DATE '{year}-{day[2]}-{day[3]}'"
        elif isinstance(value, exp.Literal) and "TIMESTAMP" in kinds and _EPOCH.fullmatch(value.name):
            written, guess = _write_moment(value.name)
        if written and token is not None:
            return written, Fix(written, token.start, token.end + 1, guess=guess)
    return None


_EPOCH = lazy_pattern(r"[1-9]\d{8,9}(?:000)?")


def _write_moment(number: str) -> tuple[str, str]:
    """Return the moment of a number of seconds or milliseconds since 1970, and what is guessed.

    >>> _write_moment("1735689600000")
    ("TIMESTAMP '2025-01-01 00:00:00'", 'milliseconds since 1970')
    """
    seconds = int(number) // (1000 if len(number) > 10 else 1)
    moment = datetime(1970, 1, 1) + timedelta(seconds=seconds)
    return f"TIMESTAMP '{moment}'", f"{'milliseconds' if len(number) > 10 else 'seconds'} since 1970"


def average_otherwise(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Take the middle day for AVG of days, and numbers of texts for AVG or SUM of texts."""
    call = of.call(node)
    found = re.match(r"(\w+) of (\w+) is not a number", one.message)
    if call is None or found is None or len(call[2]) != 1:
        return None
    start, end, (value,) = call
    select = node.find_ancestor(exp.Select)
    quoted = value[1:-1] if value[:1] == "'" and select is not None else ""
    for named in of.list_tables(select) if quoted and select is not None else ():
        if (column := named.column(quoted)) is not None:  # texts stand in single quotes, columns do not
            return column, Fix(f"{found[1]}({column})", start, end)
    if found[2] in ("DATE", "TIMESTAMP") and found[1].upper() in ("AVG", "MEAN"):
        written = f"MEDIAN({value})"
        return written, Fix(written, start, end, asks=f"the {value} that half of the rows are below")
    if found[2] == "VARCHAR" and not value.upper().startswith("DISTINCT ") and "'" not in value:
        written = f"{found[1]}(TRY_CAST({value} AS DOUBLE))"
        return one.hint, Fix(
            written, start, end, provided=f"the texts of {value} are numbers; others are left out"
        )
    return None
