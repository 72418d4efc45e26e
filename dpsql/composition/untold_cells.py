"""Rows of which no number was released: in words, as a condition, and the statement that measures them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from sqlglot.tokenizer_core import TokenType

from dpsql.kernel.tree import literal_sql
from dpsql.kernel.unit_parts import Calendar
from dpsql.language import Outline, write_name

if TYPE_CHECKING:
    from dpsql.analysis.addable_numbers import AddableNumbers
    from dpsql.estimates.disjoint_cells import Cell, Values
    from dpsql.kernel.unit_parts import Every

_EPOCH = datetime(1970, 1, 1)
_DAY = timedelta(days=1)
_SAID = 8
"""So many values are named in words."""


def say_cell(cell: Cell, numbers: AddableNumbers, every: Every | None) -> str:
    """Say which values the rows of a cell have; dates by the names of periods, where they are some."""
    found = []
    for column, values in cell.items():
        if values != _known(numbers, column, values):
            title = numbers.titles.get(column, column)
            text = _say_dates(values, numbers.kind(column), every) or _say_values(
                values, title, numbers.kind(column)
            )
            found.append(text)
    return ", ".join(found)


def write_condition(cell: Cell, numbers: AddableNumbers) -> str:
    """Return the condition that a row of a statement is in a cell; "" if all of its rows are."""
    found = []
    if not all(column in numbers.titles for column in cell):
        return ""
    for column, values in cell.items():
        known = _known(numbers, column, values)
        if values != known & numbers.where.get(column, known):
            name, kind = write_name(numbers.titles.get(column, column)), numbers.kind(column)
            found.append(" OR ".join(_terms(values, name, kind)))
    return " AND ".join(f"({each})" if " OR " in each else each for each in found)


def _known(numbers: AddableNumbers, column: str, values: Values) -> Values:
    """Return all values of a column: where they are listed, these."""
    return numbers.complete.get(column, values.every)


def _terms(values: Values, name: str, kind: str) -> Iterator[str]:
    if values.ranges is None:
        listed = ", ".join(sorted(map(_write_name, values.names)))
        if values.names or values.others:
            word = "NOT IN" if values.others else "IN"
            yield f"{name} {word} ({listed})" if listed else f"{name} IS NOT NULL"
    for low, high in values.ends():
        ends = [] if low is None else [f"{name} >= {_literal(low, kind)}"]
        ends += [] if high is None else [f"{name} < {_literal(high + 1, kind)}"]
        yield " AND ".join(ends) or f"{name} IS NOT NULL"
    if values.null:
        yield f"{name} IS NULL"


def _write_name(value: str | bool) -> str:
    return literal_sql(value) if isinstance(value, str) else str(value).upper()


def _literal(number: int, kind: str) -> str:
    if kind == "days":
        return f"DATE '{_EPOCH.date() + number * _DAY}'"
    if kind == "moments":
        return f"TIMESTAMP '{_EPOCH + timedelta(microseconds=number)}'"
    return str(number)


def _say_dates(values: Values, kind: str, every: Every | None) -> str:
    """Say which periods a set of dates is; "" if it is none."""
    if kind not in ("days", "moments") or every is None or values.null or not values.ranges:
        return ""
    calendar, found = Calendar(every), list[str]()
    for low, high in values.ends():
        if low is None or high is None:
            return ""
        first, last = (_date(end, kind) for end in (low, high + 1))
        if not date(1001, 1, 1) <= first < last <= date(2998, 1, 1):
            return ""
        begin, end = calendar.number(first), calendar.number(last - _DAY)
        if calendar.first_day(begin) != first or calendar.first_day(end + 1) != last:
            return ""
        found.append(calendar.range_words((begin, end)))
    return ", ".join(found[:_SAID]) + (", .." if len(found) > _SAID else "")


def _date(number: int, kind: str) -> date:
    moment = _EPOCH + (number * _DAY if kind == "days" else timedelta(microseconds=number))
    return moment.date()


def _say_values(values: Values, title: str, kind: str) -> str:
    if values.ranges is not None:
        said = [_say_range(low, high, kind) for low, high in values.ends()]
    else:
        listed = sorted(map(str, values.names))
        text = ", ".join(listed[:_SAID]) + (", .." if len(listed) > _SAID else "")
        said = [f"other than {text}" if values.others and text else "any value" if values.others else text]
    said += ["NULL"] if values.null else []
    return " or ".join(f"{title} {each}" for each in said if each)


def _say_range(low: int | None, high: int | None, kind: str) -> str:
    first, last = (None if end is None else _say_end(end, kind) for end in (low, high))
    if first is None or last is None:
        return "any value" if first == last else f"from {first}" if last is None else f"up to {last}"
    return first if first == last else f"{first} .. {last}"


def _say_end(number: int, kind: str) -> str:
    if kind == "days":
        return str(_EPOCH.date() + number * _DAY)
    return str(_EPOCH + timedelta(microseconds=number)) if kind == "moments" else f"{number:,}"


def write_measuring(text: str, at: int, epsilon: str, condition: str) -> str | None:
    """Return a statement with an epsilon in the place of `combine`, of rows for which a condition holds.

    `at` is where the option stands. None: the text has several SELECTs.
    """
    outline = Outline.of(text)
    around = outline.options_around(at)
    if around is None or sum(token.token_type == TokenType.SELECT for token in outline.tokens) != 1:
        return None
    items = [text[start:end] for start, end in outline.items(*around)]
    kept = [each for each in items if each.split("=")[0].strip().lower() not in ("combine", "at_release")]
    options = ", ".join([*([f"epsilon = {epsilon}"] if epsilon else []), *kept])
    edits = [(around[0], around[1], options)]
    block = outline.block(at)
    if condition and block is not None:
        where = block.clause(TokenType.WHERE)
        if where is None:
            place = block.before(TokenType.WHERE)
            edits.append(
                (place, place, f"WHERE {condition} " if place < block.end else f" WHERE {condition}")
            )
        else:
            start, end = where.end + 1, block.stop(where)
            own = text[start:end].strip()
            edits.append((start, end, f" ({own}) AND {condition}" + (" " if end < block.end else "")))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text.strip()
