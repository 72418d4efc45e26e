"""The cookbook's statements, and whether rows of a client are the rows of dpsql."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpsql.language.tokens import split_script
from tests.served import ROOT

Rows = list[tuple[object, ...]]
"""Values, or the texts that a program shows; None is NULL."""

STATEMENTS = tuple(split_script((ROOT / "examples" / "cookbook.sql").read_text()))
"""All statements of the cookbook."""


@dataclass(frozen=True)
class Answered:
    """Columns and rows that a client got for one statement."""

    columns: tuple[str, ...]
    rows: Rows


def difference(asked: Answered, expected: Answered) -> str | None:
    """Say where an answer is not the expected one; None if it is."""
    if asked.columns != expected.columns:
        return f"columns {asked.columns} instead of {expected.columns}"
    if len(asked.rows) != len(expected.rows):
        return f"{len(asked.rows)} rows instead of {len(expected.rows)}"
    for number, (row, right) in enumerate(zip(asked.rows, expected.rows, strict=True), 1):
        if len(row) != len(right) or not all(map(same, row, right)):
            return f"row {number}: {row} instead of {right}"
    return None


def same(value: object, expected: object) -> bool:
    """Tell whether a client's value is the expected one, which it may show as text."""
    if value is None or expected is None:
        return value is None and expected is None
    if isinstance(expected, bool):
        return value in (
            (True, "t", "true", "True", "1") if expected else (False, "f", "false", "False", "0")
        )
    if isinstance(expected, (int, float, decimal.Decimal)):
        number = float(str(value))
        return number == float(expected) or (math.isnan(number) and math.isnan(float(expected)))
    if isinstance(expected, datetime.datetime):
        return _moment(value) == expected.replace(tzinfo=None)
    if isinstance(expected, datetime.date):
        return _moment(value) == datetime.datetime.combine(expected, datetime.time())
    return str(value) == str(expected)


def _moment(value: object) -> datetime.datetime:
    """Read a moment, or a day at midnight."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, datetime.date):
        return datetime.datetime.combine(value, datetime.time())
    return datetime.datetime.fromisoformat(str(value)).replace(tzinfo=None)


def differences(asked: Sequence[Answered], expected: Sequence[Answered]) -> list[str]:
    """List the statements, by their numbers, whose answers are not the expected ones."""
    pairs = enumerate(zip(asked, expected, strict=True), 1)
    return [f"{number}. {found}" for number, (a, e) in pairs if (found := difference(a, e)) is not None]
