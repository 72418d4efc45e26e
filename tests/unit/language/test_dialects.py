# ruff: noqa: E501  statements read better unbroken
"""Spellings of other dialects are read as the forms that dpsql knows; texts in quotes stay as they are."""

from __future__ import annotations

import csv
import re
from importlib import resources
from pathlib import Path

import pytest

from dpsql.language import MARK, Query, parse

from .test_dialect_values import VALUES

FORMS = {
    "nvl(a b)": [
        ("NVL(x, 'NVL(y)')", "coalesce(x, 'NVL(y)')"),
        ("nvl(nvl(x, y), z)", "coalesce(coalesce(x, y), z)"),
    ],
    "percentile(a q)": [("PERCENTILE(x, 0.5)", "quantile_cont(x, 0.5)")],
    "approx_percentile(a q)": [("APPROX_PERCENTILE(x, 0.5)", "quantile_cont(x, 0.5)")],
    "percentile_approx(a q)": [("PERCENTILE_APPROX(x, 0.5)", "quantile_disc(x, 0.5)")],
    "average(a)": [("AVERAGE(x)", "avg(x)")],
    "isnull(a b)": [("ISNULL(x, 1)", "coalesce(x, 1)")],
    "nvl2(a b c)": [("NVL2(x, 1, 2)", "if(x IS NOT NULL, 1, 2)")],
    "iff(a b c)": [("IFF(x > 1, 'a', 'b')", "if(x > 1, 'a', 'b')")],
    "iif(a b c)": [("IIF(x > 1, 'a', 'b')", "if(x > 1, 'a', 'b')")],
    "zeroifnull(a)": [("ZEROIFNULL(x)", "coalesce(x, 0)")],
    "nullifzero(a)": [("NULLIFZERO(x)", "nullif(x, 0)")],
    "safe_divide(a b)": [("SAFE_DIVIDE(x + 1, y + 2)", "((x + 1) / nullif(y + 2, 0))")],
    "getdate()": [("GETDATE()", "now()")],
    "sysdate()": [("SYSDATE()", "now()")],
    "current_datetime()": [("CURRENT_DATETIME()", "now()")],
    "date(a)": [("DATE(x)", "CAST(x AS DATE)"), ("DATE '2024-01-01'", "CAST('2024-01-01' AS DATE)")],
    "date(a SHIFT)": [
        ("DATE(x, '-1 day')", "CAST((x) + INTERVAL '-1' DAY AS DATE)"),
        ("date(x, '+1 month')",) * 2,
    ],
    "datetime(a SHIFT)": [("DATETIME(x, '+30 minutes')", "(CAST(x AS TIMESTAMP) + INTERVAL '30' MINUTE)")],
    "to_date(a)": [("TO_DATE(x)", "CAST(x AS DATE)")],
    "timestamp(a)": [("TIMESTAMP(x)", "CAST(x AS TIMESTAMP)"), ("x::TIMESTAMP", "CAST(x AS TIMESTAMP)")],
    "datetime(a)": [("DATETIME(x)", "CAST(x AS TIMESTAMP)")],
    "startswith(a b)": [("STARTSWITH(x, 'a')", "starts_with(x, 'a')")],
    "endswith(a b)": [("ENDSWITH(x, 'a')", "ends_with(x, 'a')")],
    "charindex(a b)": [("CHARINDEX('a', x)", "instr(x, 'a')")],
    "regexp_contains(a b)": [("REGEXP_CONTAINS(x, 'a')", "regexp_matches(x, 'a')")],
    "logical_or(a)": [("LOGICAL_OR(x)", "bool_or(x)")],
    "logical_and(a)": [("LOGICAL_AND(x)", "bool_and(x)")],
    "date_trunc(a PART)": [
        ("DATE_TRUNC(x, MONTH)", "date_trunc('month', x)"),
        ("DATE_TRUNC(x, ISOWEEK)", "date_trunc('week', x)"),
        ("DATE_TRUNC(x, ISOYEAR)", "DATE_TRUNC(x, ISOYEAR)"),
        ("date_trunc('month', day)", "date_trunc('month', day)"),
        ("date_trunc('week', day)", "date_trunc('week', day)"),
        ("DATE_TRUNC('2024-03-05', MONTH)", "date_trunc('month', '2024-03-05')"),
    ],
    "date_trunc(PART a)": [("DATE_TRUNC(month, x)", "date_trunc('month', x)")],
    "timestamp_trunc(a PART)": [("TIMESTAMP_TRUNC(x, HOUR)", "date_trunc('hour', x)")],
    "datetime_trunc(a PART)": [("DATETIME_TRUNC(x, HOUR)", "date_trunc('hour', x)")],
    "datediff(a b)": [
        ("DATEDIFF(x, y)", "date_diff('day', y, x)"),
        ("DATEDIFF(day, y)", "date_diff('day', y, day)"),
    ],
    "datediff(DAY a b)": [
        ("DATEDIFF(day, x, y)", "date_diff('day', x, y)"),
        ("DATEDIFF('day', x, y)", "DATEDIFF('day', x, y)"),
        ("DATEDIFF(week, x, y)", "DATEDIFF(week, x, y)"),
        ("DATEDIFF(month, x, y)", "DATEDIFF(month, x, y)"),
    ],
    "date_diff(DAY a b)": [("DATE_DIFF(day, x, y)", "date_diff('day', x, y)")],
    "datediff(WEEK a b)": [
        (
            "DATEDIFF(ISOWEEK, x, y)",
            "(date_diff('day', date_trunc('week', (x)), date_trunc('week', (y))) // 7)",
        ),
    ],
    "date_diff(WEEK a b)": [
        (
            "DATE_DIFF(ISOWEEK, x, y)",
            "(date_diff('day', date_trunc('week', (x)), date_trunc('week', (y))) // 7)",
        ),
    ],
    "date_diff(a b PART)": [
        ("DATE_DIFF(x, y, DAY)", "date_diff('day', y, x)"),
        ("DATE_DIFF(x, y, MONTH)", "date_diff('month', y, x)"),
        ("DATE_DIFF('day', x, y)", "DATE_DIFF('day', x, y)"),
        ("DATE_DIFF('week', x, day)", "DATE_DIFF('week', x, day)"),
    ],
    "datetime_diff(a b PART)": [("DATETIME_DIFF(x, y, DAY)", "date_diff('day', y, x)")],
    "date_diff(a b WEEKS)": [
        (
            "DATE_DIFF(x, y, ISOWEEK)",
            "(date_diff('day', date_trunc('week', (y)), date_trunc('week', (x))) // 7)",
        ),
        (
            "DATE_DIFF(x, y, WEEK(TUESDAY))",
            "(date_diff('day', date_trunc('week', (y) + INTERVAL '6' DAY), date_trunc('week', (x) + INTERVAL '6' DAY)) // 7)",
        ),
    ],
    "datetime_diff(a b WEEKS)": [
        (
            "DATETIME_DIFF(x, y, WEEK)",
            "(date_diff('day', date_trunc('week', (y) + INTERVAL '1' DAY), date_trunc('week', (x) + INTERVAL '1' DAY)) // 7)",
        ),
    ],
    "timestamp_diff(a b PART)": [("TIMESTAMP_DIFF(x, y, DAY)", "date_sub('day', y, x)")],
    "date_add(a INTERVAL)": [("DATE_ADD(x, INTERVAL 7 DAY)", "((x) + INTERVAL 7 DAY)")],
    "timestamp_add(a INTERVAL)": [("TIMESTAMP_ADD(x, INTERVAL 7 DAY)", "((x) + INTERVAL 7 DAY)")],
    "datetime_add(a INTERVAL)": [("DATETIME_ADD(x, INTERVAL 7 DAY)", "((x) + INTERVAL 7 DAY)")],
    "date_sub(a INTERVAL)": [
        ("DATE_SUB(x, INTERVAL 7 DAY)", "((x) - INTERVAL 7 DAY)"),
        ("date_sub('day', x, y)", "date_sub('day', x, y)"),
    ],
    "timestamp_sub(a INTERVAL)": [("TIMESTAMP_SUB(x, INTERVAL 7 DAY)", "((x) - INTERVAL 7 DAY)")],
    "datetime_sub(a INTERVAL)": [("DATETIME_SUB(x, INTERVAL 7 DAY)", "((x) - INTERVAL 7 DAY)")],
    "dateadd(PART NUMBER a)": [
        ("DATEADD(day, 7, x)", "((x) + INTERVAL 7 DAY)"),
        ("DATEADD(day, -7, x)", "((x) - INTERVAL 7 DAY)"),
        ("DATEADD(day, y, x)", "DATEADD(day, y, x)"),
    ],
    "date_add(PART NUMBER a)": [("DATE_ADD(day, 7, x)", "((x) + INTERVAL 7 DAY)")],
    "timestampadd(PART NUMBER a)": [("TIMESTAMPADD(day, 7, x)", "((x) + INTERVAL 7 DAY)")],
    "to_char(a TO_CHAR)": [
        ("TO_CHAR(x, 'YYYY-MM-DD HH24:MI:SS')", "strftime(x, '%Y-%m-%d %H:%M:%S')"),
        ("""to_char(x, 'IYYY"-W"IW')""", "strftime(x, '%G-W%V')"),
        ("TO_CHAR(x, 'Mon')", "strftime(x, '%b')"),
        ("TO_CHAR(x, 'Month YYYY')", "TO_CHAR(x, 'Month YYYY')"),
        ("TO_CHAR(x, 'mon')", "TO_CHAR(x, 'mon')"),
        ("TO_CHAR(x, 'MON-YYYY')", "TO_CHAR(x, 'MON-YYYY')"),
        ("TO_CHAR(x, 'HH:MI')", "TO_CHAR(x, 'HH:MI')"),
        ("TO_CHAR(x, 'FMMM')", "TO_CHAR(x, 'FMMM')"),
        ("TO_CHAR(x, 'SSSS')", "TO_CHAR(x, 'SSSS')"),
    ],
    "to_char(a TO_CHAR_PADDED)": [
        ("TO_CHAR(x, 'Month')", "rpad(strftime(x, '%B'), 9, ' ')"),
        ("TO_CHAR(x, 'Day')", "rpad(strftime(x, '%A'), 9, ' ')"),
        ("TO_CHAR(x, 'month')", "TO_CHAR(x, 'month')"),
    ],
    "to_char(a TO_CHAR_PADDED_UPPER)": [("TO_CHAR(x, 'DAY')", "upper(rpad(strftime(x, '%A'), 9, ' '))")],
    "julianday(a)": [("JULIANDAY(x)", "(epoch(CAST(x AS TIMESTAMP)) / 86400 + 2440587.5)")],
    "julian(a)": [("JULIAN(x)", "(epoch(CAST(x AS TIMESTAMP)) / 86400 + 2440588)")],
    "generate_date_array(a b)": [
        (
            "UNNEST(GENERATE_DATE_ARRAY('2024-01-01', x))",
            "UNNEST(CAST(generate_series(CAST('2024-01-01' AS DATE), CAST(x AS DATE), INTERVAL 1 DAY) AS DATE[]))",
        )
    ],
    "generate_date_array(a b INTERVAL)": [
        (
            "GENERATE_DATE_ARRAY(x, y, INTERVAL 1 WEEK)",
            "CAST(generate_series(CAST(x AS DATE), CAST(y AS DATE), INTERVAL 1 WEEK) AS DATE[])",
        )
    ],
    "generate_array(a b)": [("GENERATE_ARRAY(1, 5)", "generate_series(1, 5)")],
    "generate_array(a b c)": [("GENERATE_ARRAY(1, 5, 2)", "generate_series(1, 5, 2)")],
    "timestamp_micros(a)": [("TIMESTAMP_MICROS(x)", "make_timestamp(x)")],
    "timestamp_millis(a)": [("TIMESTAMP_MILLIS(x)", "epoch_ms(x)")],
    "timestamp_seconds(a)": [("TIMESTAMP_SECONDS(x + 1)", "make_timestamp((x + 1) * 1000000)")],
    "to_varchar(a TO_CHAR)": [("TO_VARCHAR(x, 'yyyymm')", "strftime(x, '%Y%m')")],
    "format_date(STRFTIME a)": [
        ("FORMAT_DATE('%Y-%m', x)", "strftime(x, '%Y-%m')"),
        ("FORMAT_DATE('%B', x)", "FORMAT_DATE('%B', x)"),
    ],
    "format_datetime(STRFTIME a)": [("FORMAT_DATETIME('%F %T', x)", "strftime(x, '%Y-%m-%d %H:%M:%S')")],
    "format_timestamp(STRFTIME a)": [("FORMAT_TIMESTAMP('%H', x)", "strftime(x, '%H')")],
    "date_format(a DATE_FORMAT)": [
        ("DATE_FORMAT(x, '%Y-%m %H:%i')", "strftime(x, '%Y-%m %H:%M')"),
        ("DATE_FORMAT(x, 'yyyy-MM')", "strftime(x, '%Y-%m')"),
        ("DATE_FORMAT(x, '%M')", "DATE_FORMAT(x, '%M')"),
        ("DATE_FORMAT(x, 'MMM')", "DATE_FORMAT(x, 'MMM')"),
    ],
}
"""Each line of `dialects.csv`: calls, and how they are read."""

STATEMENTS = [
    (
        "SELECT percentile_approx(x, 0.5, contribution_bounds_per_row => (0, 9)), avgIf(x, y, b => 1) FROM t",
        "SELECT quantile_disc(x, 0.5, contribution_bounds_per_row => (0, 9)), "
        "AVG(x, b => 1) FILTER (WHERE y) FROM t",
    ),
    ("SELECT `page`, `a b`, '`x`' FROM `main.visits`", 'SELECT "page", "a b", \'`x`\' FROM "main"."visits"'),
    ("SELECT SAFE_CAST(x AS INT64), CAST(y AS STRING)", "SELECT TRY_CAST(x AS BIGINT), CAST(y AS VARCHAR)"),
    ("SELECT ANON_COUNT(x), anon_count FROM t", "SELECT COUNT(x), anon_count FROM t"),
    (
        "SELECT ANON_SUM(f(x, 1) CLAMPED BETWEEN -1 AND 3), ANON_VAR_POP(x CLAMPED BETWEEN 0 AND 1)",
        "SELECT SUM(f(x, 1), contribution_bounds_per_group => (-1, 3)), "
        "VAR_POP(x, contribution_bounds_per_row => (0, 1))",
    ),
    (
        "SELECT COUNT(*) FILTER (WHERE p) OVER (PARTITION BY u), SUM(x) FILTER (WHERE p) FROM t",
        "SELECT COUNT(CASE WHEN p THEN 1 END) OVER (PARTITION BY u), SUM(x) FILTER (WHERE p) FROM t",
    ),
    (
        "SELECT q.x FROM (a JOIN b USING (x)) AS q JOIN c USING (x)",
        "SELECT q.x FROM (SELECT * FROM a JOIN b USING (x)) AS q JOIN c USING (x)",
    ),
    (
        "SELECT x FROM (a JOIN b USING (x)) JOIN c USING (x)",
        "SELECT x FROM a JOIN b USING (x) JOIN c USING (x)",
    ),
    (
        "SELECT u, UNNEST(l) AS x FROM t",
        'SELECT u, dpsql_list."x" AS x FROM t, UNNEST(l) AS dpsql_list("x")',
    ),
    (
        "SELECT generate_series(DATE '2024-01-01', x, INTERVAL 1 DAY)::DATE AS d",
        "SELECT CAST(dpsql_list.\"d\" AS DATE) AS d FROM UNNEST(generate_series(CAST('2024-01-01' AS DATE), x, "
        'INTERVAL 1 DAY)) AS dpsql_list("d")',
    ),
    (
        "SELECT 1 FROM t JOIN s ON t.a = s.a AND t.b IN (SELECT c FROM v) WHERE t.d",
        "SELECT 1 FROM t JOIN s ON t.a = s.a WHERE t.d AND t.b IN (SELECT c FROM v)",
    ),
    (
        "SELECT 1 FROM t LEFT JOIN s ON t.a = s.a AND s.b IN (SELECT c FROM v)",
        "SELECT 1 FROM t LEFT JOIN (SELECT * FROM s WHERE s.b IN (SELECT c FROM v)) AS s ON t.a = s.a",
    ),
    (
        "SELECT 1 FROM t LEFT JOIN s ON t.b IN (SELECT c FROM v)",
        "SELECT 1 FROM t LEFT JOIN s ON t.b IN (SELECT c FROM v)",
    ),
    (
        "SELECT 1 FROM t JOIN s ON t.b IN (SELECT c FROM v) RIGHT JOIN w ON w.a = t.a",
        "SELECT 1 FROM t JOIN s ON t.b IN (SELECT c FROM v) RIGHT JOIN w ON w.a = t.a",
    ),
    ("SELECT UNNEST(l), UNNEST(m) FROM t", "SELECT UNNEST(l), UNNEST(m) FROM t"),
    (
        "SELECT 1 FROM t WHERE (a, t.b) IN (SELECT a, MAX(b) FROM t GROUP BY a) OR c",
        'SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM (SELECT a, MAX(b) FROM t GROUP BY a) AS dpsql_rows("1", "2") '
        'WHERE dpsql_rows."1" = a AND dpsql_rows."2" = t.b) OR c',
    ),
    (
        "SELECT 1 FROM t WHERE (a, b) NOT IN ((1, 'x'), (2, 'y'))",
        "SELECT 1 FROM t WHERE NOT ((a IS NOT DISTINCT FROM 1 AND b IS NOT DISTINCT FROM 'x') "
        "OR (a IS NOT DISTINCT FROM 2 AND b IS NOT DISTINCT FROM 'y'))",
    ),
    (
        "SELECT 1 FROM t WHERE (a, b) NOT IN (SELECT a, b FROM s)",
        "SELECT 1 FROM t WHERE (a, b) NOT IN (SELECT a, b FROM s)",
    ),
    ("SELECT (a, b) IN (SELECT a, b FROM s) FROM t", "SELECT (a, b) IN (SELECT a, b FROM s) FROM t"),
    ("SELECT TO_CHAR(x, 'HH:MI')", "SELECT strftime(x, '%I:%M')"),
    ("SELECT EXTRACT(DATE FROM x)", "SELECT CAST(x AS DATE)"),
    ("SELECT strftime('%Y', x), strftime(x, '%Y')", "SELECT strftime(x, '%Y'), strftime(x, '%Y')"),
    (
        "SELECT DATE_PART('DAY', x - y), DATE_PART('day', x)",
        "SELECT EXTRACT(DAY FROM x - y), DATE_PART('day', x)",
    ),
]


def read(text: str) -> str:
    """Return how a statement is read, in one spelling."""
    query = parse(text)
    assert isinstance(query, Query)
    return query.tree.sql("duckdb", normalize_functions=False).replace(MARK, "").replace(MARK.upper(), "")


def test_every_line_has_an_example() -> None:
    """Those of dates that one or more dialects have are tried by their rules (`test_date_functions.py`)."""
    text = resources.files("dpsql.language").joinpath("dialects.csv").read_text("utf-8")
    lines = [row["written"] for row in csv.DictReader(text.splitlines()) if not row["dialects"]]
    by_rule = Path(__file__).with_name("date_functions.csv").read_text("utf-8").lower()
    for line in lines:
        name, _, kinds = line.partition("(")
        word = re.match("=(\\w+)", kinds)
        tried = name.removeprefix("extract ") in by_rule and (word is None or word[1] in by_rule)
        assert line in FORMS or line in VALUES or tried, line


@pytest.mark.parametrize("line", FORMS)
def test_a_call_is_read_as_duckdb_writes_it(line: str) -> None:
    for written, expected in FORMS[line]:
        assert read(f"SELECT {written} FROM t") == read(f"SELECT {expected} FROM t")
        if written != expected:
            assert read(f"SELECT {written} FROM t") != f"SELECT {written} FROM t"


@pytest.mark.parametrize(("written", "expected"), STATEMENTS)
def test_a_statement_is_read_as_duckdb_writes_it(written: str, expected: str) -> None:
    assert read(written) == read(expected)


def test_clauses_and_options() -> None:
    text = "SELECT WITH ANONYMIZATION OPTIONS (kappa = 2, privacy_unit_column = t.id) a, COUNT(*) FROM t GROUP BY a"
    query = parse(text)
    assert isinstance(query, Query)
    assert (query.options.max_groups_contributed, query.options.privacy_unit_column) == (2, "id")


def test_what_is_read_otherwise_keeps_its_place() -> None:
    query = parse("SELECT x,\n  NVL(y, 1), `z` FROM t")
    assert isinstance(query, Query)
    places = [query.source.locate(query.source.position(item))[:2] for item in query.tree.selects]
    assert places == [(1, 8), (2, 3), (2, 15)]
