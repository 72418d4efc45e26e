"""Read a statement as other dialects do, and write it as DuckDB's: for what is refused as it stands."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from threading import Lock

import sqlglot
from sqlglot import ErrorLevel, exp
from sqlglot.errors import SqlglotError

from dpsql.lazy_pattern import lazy_pattern

_DIALECTS = {
    "mysql": "MySQL",
    "bigquery": "BigQuery",
    "tsql": "T-SQL",
    "snowflake": "Snowflake",
    "spark": "Spark",
    "postgres": "PostgreSQL",
    "oracle": "Oracle",
    "presto": "Presto",
    "redshift": "Redshift",
    "clickhouse": "ClickHouse",
    "teradata": "Teradata",
    "sqlite": "SQLite",
}
"""The dialects of sqlglot that are tried, those that most people write first, with their names."""
_OPTIONS = lazy_pattern(r"(?i)\s*\bWITH\s+DIFFERENTIAL_PRIVACY\b(?:\s+OPTIONS\s*\([^()]*\))?")
_TEXT = lazy_pattern(r"'([^']*)'")
_FORMAT = lazy_pattern(r"(?i)[^%]*%.*|(?:[ymdhsqtiaw]|mon|month|day|mi|ss|am|pm|fm|fx|hh24|[-/.: ,0-9])+")
"""How a format of a date looks, and a part of one."""
_SELECT = lazy_pattern(r"(?i)\bSELECT\b")
_ONE = Lock()
"""The level of sqlglot's log is that of the process, so one reading at a time changes it."""


def read_as_others(text: str) -> Iterator[tuple[str, str]]:
    r"""Yield the statements that other dialects read in a text, with their names; what most read comes first.

    >>> next(read_as_others("SELECT a # the first\nFROM t"))
    ('SELECT a FROM t', 'MySQL')
    """
    clause = _OPTIONS.search(text)
    bare = text if clause is None else text[: clause.start()] + text[clause.end() :]
    own, found = _write(bare, "duckdb"), dict[str, list[str]]()
    for dialect, name in _DIALECTS.items():
        written = _write(bare, dialect)
        if written is not None and written != own and _keeps(bare, written):
            found.setdefault(written, []).append(name)
    for written, names in sorted(found.items(), key=lambda each: -len(each[1])):
        if clause is not None:
            yield _SELECT.sub(f"SELECT {clause[0].strip()}", written, count=1), names[0]
        else:
            yield written, names[0]


def _keeps(text: str, written: str) -> bool:
    """Return whether what a dialect reads keeps all texts of a statement, but for formats of dates.

    A dialect that reads `%Y` as letters means another format.
    """
    if "%%" in written and "%%" not in text:
        return False
    texts = [match[1] for match in _TEXT.finditer(text) if not _FORMAT.fullmatch(match[1])]
    return all(each in written for each in texts)


def _write(text: str, dialect: str) -> str | None:
    """Return the query of a text in DuckDB's SQL; None if the dialect cannot read it, or DuckDB say it."""
    told = logging.getLogger("sqlglot")
    with _ONE:
        said = told.level
        told.setLevel(logging.CRITICAL)
        try:  # parsers fail in many ways on a text of another dialect
            trees = sqlglot.parse(text, read=dialect)
            if len(trees) != 1 or not isinstance(trees[0], exp.Query):
                return None
            for cast in [*trees[0].find_all(exp.Cast)]:  # to a text: without the quotes of JSON
                if isinstance(cast.this, exp.JSONExtract) and cast.to.this in exp.DataType.TEXT_TYPES:
                    path = cast.this
                    cast.replace(exp.JSONExtractScalar(this=path.this, expression=path.expression))
            return str(trees[0].sql("duckdb", comments=False, unsupported_level=ErrorLevel.RAISE))
        except (SqlglotError, ValueError, TypeError, AttributeError, LookupError, RecursionError):
            return None
        finally:
            told.setLevel(said)
