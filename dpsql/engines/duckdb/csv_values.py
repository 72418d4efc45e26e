"""Reads numbers and dates of CSV files that are not written as SQL writes them, as their format says."""

from __future__ import annotations

import re

from dpsql.engines.duckdb.csv_source import text
from dpsql.policy import CsvFormat
from dpsql.types import SqlType

_DATES = ("DATE", "TIMESTAMP", "TIMESTAMPTZ")
_DIGITS = {"D": r"\d{1,2}", "M": r"\d{1,2}", "Y": r"\d{4}"}


def common_text(cell: str, sql_type: SqlType, form: CsvFormat) -> str:
    r"""Write the SQL of a cell's text as it is converted to a type; the cell itself if it is common already.

    A text that is not written as the format says becomes one that does not convert, and never another value:
    `dpsql check` reports it. NULL stays NULL, and nothing raises.

    >>> from dpsql.types import column_type
    >>> print(common_text("x", column_type("DATE"), CsvFormat(date="DD.MM.YYYY")))
    regexp_replace('?' || x, '^\?\s*(\d{1,2})\.(\d{1,2})\.(\d{4})(\D.*)?$', '\3-\2-\1\4')
    """
    if sql_type.name in _DATES and form.date:
        return _date(cell, form.date)
    if not sql_type.numeric or (form.decimal == "." and not form.thousands):
        return cell
    if not form.thousands:
        # A dot is no part of such a number: with it the text is none.
        return cell if sql_type.integer else f"translate({cell}, '.,', '?.')"
    return _number(cell, form.decimal, form.thousands)


def _date(cell: str, order: str) -> str:
    """Put year, month and day in the order of SQL; a text without that beginning keeps its question mark."""
    parts = re.findall(r"D+|M+|Y+|[^DMY]", order)
    found = [part[0] for part in parts if part[0] in _DIGITS]
    pattern = "".join(f"({_DIGITS[part[0]]})" if part[0] in _DIGITS else re.escape(part) for part in parts)
    new = "-".join(f"\\{found.index(name) + 1}" for name in "YMD")
    return rf"regexp_replace('?' || {cell}, '^\?\s*{pattern}(\D.*)?$', '{new}\4')"


def _number(cell: str, decimal: str, thousands: str) -> str:
    """Leave out what groups digits, where it stands before each three digits, and write a decimal point."""
    group, point = re.escape(thousands), re.escape(decimal)
    pattern = rf"\s*[-+]?(\d{{1,3}}({group}\d{{3}})+|\d+)({point}\d*)?([eE][-+]?\d+)?\s*"
    plain = f"replace(replace({cell}, {text(thousands)}, ''), {text(decimal)}, '.')"
    return f"CASE WHEN regexp_full_match({cell}, {text(pattern)}) THEN {plain} ELSE '?' || {cell} END"
