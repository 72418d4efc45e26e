"""Rows of which no number was released: in words, as a condition, and the statement that measures them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlglot.tokenizer_core import TokenType

from dpsql.estimates.value_sets import AFTER_ALL, BEFORE_ALL, EVERY
from dpsql.kernel.tree import literal_sql
from dpsql.kernel.unit_parts import Calendar
from dpsql.language import Outline, write_name

if TYPE_CHECKING:
    from dpsql.analysis.addable_numbers import AddableNumbers
    from dpsql.estimates.value_sets import Cell, Cut, ValueSet
    from dpsql.kernel.unit_parts import Every

_DAY = timedelta(days=1)
_IN_ORDER = ("days", "moments", "numbers")
"""The kinds of values of which sets are said by their ends; others by their names."""
_SAID = 8
"""So many values are named in words."""


def say_cell(cell: Cell, numbers: AddableNumbers, every: Every | None) -> str:
    """Say which values the rows of a cell have; dates by the names of periods, where they are some."""
    found = []
    for column, values in cell.items():
        if values != _known(numbers, column):
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
        known = _known(numbers, column)
        if values != known & numbers.where.get(column, known):
            name, kind = write_name(numbers.titles.get(column, column)), numbers.kind(column)
            found.append(" OR ".join(write_terms(values, name, kind)))
    return " AND ".join(f"({each})" if " OR " in each else each for each in found)


def _known(numbers: AddableNumbers, column: str) -> ValueSet:
    """Return all values of a column: where they are listed, these."""
    return numbers.complete.get(column, EVERY)


def _list_names(values: ValueSet) -> tuple[list[str | bool], bool]:
    """Return the names in a set, or those that it lacks, and whether it is all others."""
    others = BEFORE_ALL in values.cuts()
    found = list[str | bool]()
    for low, high in (values.complement() if others else values).intervals:
        found += [low[1]] if isinstance(low[1], str) else map(bool, range(low[1], high[1]))
    return found, others


def write_terms(values: ValueSet, name: str, kind: str) -> Iterator[str]:
    """Yield conditions, by OR, that a column has a value of a set; of a column of the kind of `CellKey`."""
    if kind not in _IN_ORDER:
        names, others = _list_names(values)
        listed = ", ".join(sorted(map(_write_name, names)))
        if names or others:
            yield f"{name} {'NOT IN' if others else 'IN'} ({listed})" if listed else f"{name} IS NOT NULL"
    else:
        for low, high in values.intervals:
            ends = [] if low == BEFORE_ALL else [f"{name} >= {_literal(low[1])}"]
            ends += [] if high == AFTER_ALL else [f"{name} < {_literal(high[1])}"]
            yield " AND ".join(ends) or f"{name} IS NOT NULL"
    if values.null:
        yield f"{name} IS NULL"


def _write_name(value: str | bool) -> str:
    return literal_sql(value) if isinstance(value, str) else str(value).upper()


def _literal(end: date | int) -> str:
    if isinstance(end, int):
        return str(end)
    return f"{'TIMESTAMP' if isinstance(end, datetime) else 'DATE'} '{end}'"


def _say_dates(values: ValueSet, kind: str, every: Every | None) -> str:
    """Say which periods a set of dates is; "" if it is none."""
    if kind not in ("days", "moments") or every is None or values.null or not values.intervals:
        return ""
    calendar, found, cuts = Calendar(every), list[str](), values.cuts()
    if BEFORE_ALL in cuts or AFTER_ALL in cuts:
        return ""
    for low, high in values.intervals:
        first, last = (end.date() if isinstance(end, datetime) else end for end in (low[1], high[1]))
        if not date(1001, 1, 1) <= first < last <= date(2998, 1, 1):
            return ""
        begin, end = calendar.number(first), calendar.number(last - _DAY)
        if calendar.first_day(begin) != first or calendar.first_day(end + 1) != last:
            return ""
        found.append(calendar.range_words((begin, end)))
    return ", ".join(found[:_SAID]) + (", .." if len(found) > _SAID else "")


def _say_values(values: ValueSet, title: str, kind: str) -> str:
    if kind not in _IN_ORDER:
        names, others = _list_names(values)
        listed = sorted(map(str, names))
        text = ", ".join(listed[:_SAID]) + (", .." if len(listed) > _SAID else "")
        said = [f"other than {text}" if others and text else "any value" if others else text]
    else:
        said = [_say_range(low, high) for low, high in values.intervals]
    said += ["NULL"] if values.null else []
    return " or ".join(f"{title} {each}" for each in said if each)


def _say_range(low: Cut, high: Cut) -> str:
    first = None if low == BEFORE_ALL else _say_end(low[1])
    last = None if high == AFTER_ALL else _say_end(high[1] - _step(high[1]))
    if first is None or last is None:
        return "any value" if first == last else f"from {first}" if last is None else f"up to {last}"
    return first if first == last else f"{first} .. {last}"


def _step(end: date | int) -> Any:  # noqa: ANN401  what is taken away from an end of its type
    """Return how far the last value before an end is from it."""
    return 1 if isinstance(end, int) else timedelta(microseconds=1) if isinstance(end, datetime) else _DAY


def _say_end(end: date | int) -> str:
    return f"{end:,}" if isinstance(end, int) else str(end)


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
