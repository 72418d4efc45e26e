"""Calls of other dialects have the values that the documentation of these says."""

from __future__ import annotations

import csv
from importlib import resources

import duckdb
import pytest

from dpsql.language import MARK, Query, parse

VALUES = {
    "datename(=month a)": ("DATENAME(month, DATE '2024-03-05')", "March"),
    "datename(=weekday a)": ("DATENAME(weekday, DATE '2024-03-05')", "Tuesday"),
    "datename(PART a)": ("DATENAME(quarter, DATE '2024-05-05')", "2"),
    "trunc(a 'yyyy')": ("TRUNC(DATE '2024-03-05', 'YYYY')::DATE::VARCHAR", "2024-01-01"),
    "trunc(a 'year')": ("TRUNC(DATE '2024-03-05', 'year')::DATE::VARCHAR", "2024-01-01"),
    "trunc(a 'q')": ("TRUNC(DATE '2024-06-05', 'Q')::DATE::VARCHAR", "2024-04-01"),
    "trunc(a 'mm')": ("TRUNC(DATE '2024-03-05', 'MM')::DATE::VARCHAR", "2024-03-01"),
    "trunc(a 'mon')": ("TRUNC(DATE '2024-03-05', 'MON')::DATE::VARCHAR", "2024-03-01"),
    "trunc(a 'month')": ("TRUNC(DATE '2024-03-05', 'MONTH')::DATE::VARCHAR", "2024-03-01"),
    "trunc(a 'iw')": ("TRUNC(DATE '2024-03-10', 'IW')::DATE::VARCHAR", "2024-03-04"),
    "trunc(a 'dd')": ("TRUNC(TIMESTAMP '2024-03-05 10:00:00', 'DD')::VARCHAR", "2024-03-05 00:00:00"),
    "str_to_date(a DATE_FORMAT)": (
        "STR_TO_DATE('05.03.2024 07:08:09.5', '%d.%m.%Y %H:%i:%s.%f')::VARCHAR",
        "2024-03-05 07:08:09.5",
    ),
    "to_date(a TO_CHAR)": ("TO_DATE('05/03/2024', 'DD/MM/YYYY')::VARCHAR", "2024-03-05"),
    "to_timestamp(a TO_CHAR)": (
        "TO_TIMESTAMP('2024-03-05 07:08:09.250000', 'YYYY-MM-DD HH24:MI:SS.US')::VARCHAR",
        "2024-03-05 07:08:09.25",
    ),
    "parse_date(STRFTIME a)": ("PARSE_DATE('%Y%m%d', '20240305')::VARCHAR", "2024-03-05"),
    "parse_datetime(STRFTIME a)": (
        "PARSE_DATETIME('%Y-%m-%d %H', '2024-03-05 07')::VARCHAR",
        "2024-03-05 07:00:00",
    ),
    "parse_timestamp(STRFTIME a)": ("PARSE_TIMESTAMP('%Y-%m-%d', 'no day')::VARCHAR", None),
    "convert(=date a)": ("CONVERT(date, '2024-03-05')::VARCHAR", "2024-03-05"),
    "convert(=datetime a)": ("CONVERT(datetime, '2024-03-05', 120)::VARCHAR", "2024-03-05 00:00:00"),
    "convert(=datetime2 a)": ("CONVERT(datetime2, '2024-03-05')::VARCHAR", "2024-03-05 00:00:00"),
    "convert(=float a)": ("CONVERT(float, 7) / 2", 3.5),
    "format(a DATE_FORMAT)": ("FORMAT(DATE '2024-03-05', 'MMM yyyy')", "Mar 2024"),
    "mid(a b c)": ("MID('abcdef', 2, 3)", "bcd"),
    "locate(a b)": ("LOCATE('c', 'abc')", 3),
    "eomonth(a)": ("EOMONTH(DATE '2024-02-05')::VARCHAR", "2024-02-29"),
    "datefromparts(a b c)": ("DATEFROMPARTS(2024, 3, 5)::VARCHAR", "2024-03-05"),
    "date_from_parts(a b c)": ("DATE_FROM_PARTS(2024, 3, 5)::VARCHAR", "2024-03-05"),
    "day_of_week(a)": ("DAY_OF_WEEK(DATE '2024-03-10')", 7),
    "isoweek(a)": ("ISOWEEK(DATE '2024-12-30')", 1),
    "curdate()": ("CURDATE() = current_date", True),
    "systimestamp()": ("SYSTIMESTAMP() = now()", True),
    "sysdatetime()": ("SYSDATETIME() = now()", True),
    "adddate(a INTERVAL)": ("ADDDATE(DATE '2024-01-31', INTERVAL 1 MONTH)::DATE::VARCHAR", "2024-02-29"),
    "subdate(a INTERVAL)": ("SUBDATE(DATE '2024-03-05', INTERVAL 5 DAY)::DATE::VARCHAR", "2024-02-29"),
    "div0(a b)": ("[DIV0(4, 0), DIV0(4, 2), DIV0(NULL, 0)]", [0.0, 2.0, None]),
    "regexp_like(a b)": ("REGEXP_LIKE('abc', 'b')", True),
    "regexp_substr(a b)": ("[REGEXP_SUBSTR('ab12', '[0-9]+'), REGEXP_SUBSTR('ab', '[0-9]+')]", ["12", None]),
    "tostartofmonth(a)": ("toStartOfMonth(DATE '2024-03-05')::DATE::VARCHAR", "2024-03-01"),
    "tostartofquarter(a)": ("toStartOfQuarter(DATE '2024-06-05')::DATE::VARCHAR", "2024-04-01"),
    "tostartofyear(a)": ("toStartOfYear(DATE '2024-06-05')::DATE::VARCHAR", "2024-01-01"),
    "toyear(a)": ("toYear(DATE '2024-06-05')", 2024),
    "tomonth(a)": ("toMonth(DATE '2024-06-05')", 6),
    "toyyyymm(a)": ("toYYYYMM(DATE '2024-06-05')", 202406),
    "extract day_hour(a)": ("EXTRACT(DAY_HOUR FROM TIMESTAMP '2024-06-05 07:08:09')", 507),
    "extract day_minute(a)": ("EXTRACT(DAY_MINUTE FROM TIMESTAMP '2024-06-05 07:08:09')", 50708),
    "extract hour_minute(a)": ("EXTRACT(HOUR_MINUTE FROM TIMESTAMP '2024-06-05 07:08:09')", 708),
    "extract hour_second(a)": ("EXTRACT(HOUR_SECOND FROM TIMESTAMP '2024-06-05 07:08:09')", 70809),
    "extract minute_second(a)": ("EXTRACT(MINUTE_SECOND FROM TIMESTAMP '2024-06-05 07:08:09')", 809),
    "extract year_month(a)": ("EXTRACT(YEAR_MONTH FROM DATE '2024-06-05')", 202406),
    "multiif(a b c)": ("multiIf(NULL, 1, 2)", 2),
    "multiif(a b c d e)": ("multiIf(FALSE, 1, TRUE, 2, 3)", 2),
    "decode(a b c)": ("[DECODE(1, 1, 'a'), DECODE(2, 1, 'a'), DECODE(NULL, NULL, 'n')]", ["a", None, "n"]),
    "decode(a b c d)": ("[DECODE(2, 1, 'a', 'z'), DECODE(NULL, 1, 'a', 'z')]", ["z", "z"]),
    "decode(a b c d e)": ("[DECODE(2, 1, 'a', 2, 'b'), DECODE(3, 1, 'a', 2, 'b')]", ["b", None]),
    "decode(a b c d e f)": ("DECODE(3, 1, 'a', 2, 'b', 'z')", "z"),
    "square(a)": ("SQUARE(1 + 2)", 9),
    "lnnvl(a)": ("[LNNVL(TRUE), LNNVL(FALSE), LNNVL(NULL::BOOLEAN)]", [False, True, True]),
    "isnull(a)": ("[ISNULL(NULL), ISNULL(1)]", [True, False]),
    "boolor_agg(a)": ("BOOLOR_AGG(x > 3)", True),
    "booland_agg(a)": ("BOOLAND_AGG(x > 3)", False),
    "every(a)": ("EVERY(x > 0)", True),
    "var(a)": ("round(VAR(x), 3)", 2.333),
    "varp(a)": ("round(VARP(x), 3)", 1.556),
    "varpop(a)": ("round(varPop(x), 3)", 1.556),
    "varsamp(a)": ("round(varSamp(x), 3)", 2.333),
    "stdev(a)": ("round(STDEV(x), 3)", 1.528),
    "stdevp(a)": ("round(STDEVP(x), 3)", 1.247),
    "std(a)": ("round(STD(x), 3)", 1.247),
    "stddevpop(a)": ("round(stddevPop(x), 3)", 1.247),
    "stddevsamp(a)": ("round(stddevSamp(x), 3)", 1.528),
    "approx_distinct(a)": ("APPROX_DISTINCT(x % 2)", 2),
    "count_distinct(a)": ("COUNT_DISTINCT(x % 2)", 2),
    "countdistinct(a)": ("countDistinct(x % 2)", 2),
    "uniq(a)": ("uniq(x % 2)", 2),
    "uniqexact(a)": ("uniqExact(x % 2)", 2),
    "uniqcombined(a)": ("uniqCombined(x % 2)", 2),
    "uniqcombined64(a)": ("uniqCombined64(x % 2)", 2),
    "uniqhll12(a)": ("uniqHLL12(x % 2)", 2),
    "uniqthetasketch(a)": ("uniqThetaSketch(x % 2)", 2),
    "sumif(a b)": ("sumIf(x, x > 1)", 6),
    "sum_if(a b)": ("SUM_IF(x, x > 1)", 6),
    "avgif(a b)": ("avgIf(x, x > 1)", 3),
    "avg_if(a b)": ("AVG_IF(x, x > 1)", 3),
    "todate(a)": ("toDate(TIMESTAMP '2024-03-10 17:45:30')::VARCHAR", "2024-03-10"),
    "todatetime(a)": ("toDateTime(DATE '2024-03-10')::VARCHAR", "2024-03-10 00:00:00"),
    "tostring(a)": ("toString(x)", "1"),
    "toquarter(a)": ("toQuarter(TIMESTAMP '2024-03-10 17:45:30')", 1),
    "todayofmonth(a)": ("toDayOfMonth(TIMESTAMP '2024-03-10 17:45:30')", 10),
    "todayofweek(a)": ("toDayOfWeek(TIMESTAMP '2024-03-10 17:45:30')", 7),
    "todayofyear(a)": ("toDayOfYear(TIMESTAMP '2024-03-10 17:45:30')", 70),
    "tohour(a)": ("toHour(TIMESTAMP '2024-03-10 17:45:30')", 17),
    "tominute(a)": ("toMinute(TIMESTAMP '2024-03-10 17:45:30')", 45),
    "tosecond(a)": ("toSecond(TIMESTAMP '2024-03-10 17:45:30')", 30),
    "tostartofday(a)": ("toStartOfDay(TIMESTAMP '2024-03-10 17:45:30')::VARCHAR", "2024-03-10 00:00:00"),
    "tostartofhour(a)": ("toStartOfHour(TIMESTAMP '2024-03-10 17:45:30')::VARCHAR", "2024-03-10 17:00:00"),
    "tostartofminute(a)": (
        "toStartOfMinute(TIMESTAMP '2024-03-10 17:45:30')::VARCHAR",
        "2024-03-10 17:45:00",
    ),
    "tostartofweek(a)": ("toStartOfWeek(TIMESTAMP '2024-03-10 17:45:30')::VARCHAR", "2024-03-10"),
    "tomonday(a)": ("toMonday(TIMESTAMP '2024-03-10 17:45:30')::VARCHAR", "2024-03-04"),
    "uniqif(a b)": ("uniqIf(x % 2, x < 4)", 2),
    "uniqexactif(a b)": ("uniqExactIf(x, x < 4)", 2),
    "minif(a b)": ("minIf(x, x > 1)", 2),
    "maxif(a b)": ("maxIf(x, x < 4)", 2),
    "exp10(a)": ("exp10(2)", 100),
    "exp2(a)": ("exp2(3)", 8),
    "match(a b)": ("match('abc', '^ab')", True),
    "notempty(a)": ("notEmpty('a') AND NOT notEmpty('')", True),
    "empty(a)": ("empty('') AND NOT empty('a')", True),
    "lowerutf8(a)": ("lowerUTF8('Ä')", "ä"),
    "upperutf8(a)": ("upperUTF8('ä')", "Ä"),
    "last_day(a =month)": ("LAST_DAY(DATE '2024-02-10', MONTH)::VARCHAR", "2024-02-29"),
    "julian(a)": ("julian(TIMESTAMP '2006-01-01 12:00:00')", 2453737.5),
    "julianday(a)": ("julianday(TIMESTAMP '2006-01-01 12:00:00')", 2453737.0),
    "approx_median(a)": ("APPROX_MEDIAN(x)", 2),
}
"""A call for each line of `dialects.csv`, and its value; aggregates are of 1, 2 and 4."""
OTHERS = {
    "CONVERT(varchar(7), DATE '2024-03-05', 120)": "2024-03",
    "CONVERT(nvarchar(10), DATE '2024-03-05', 104)": "05.03.2024",
    "CONVERT(varchar, DATE '2024-03-05', 112)": "20240305",
    "COUNT_BIG(*)": 3,
    "LISTAGG(DISTINCT x % 2, ',') WITHIN GROUP (ORDER BY x % 2)": "0,1",
    "DATE_FORMAT(DATE '2024-03-05', '%W %M %Y')": "Tuesday March 2024",
    "DATE_FORMAT(DATE '2024-03-05', 'EEE d')": None,
    "FORMAT_DATE('%b %Y', DATE '2024-03-05')": "Mar 2024",
}


def compute(call: str) -> object:
    """Return the value of a call, as it is read, over the rows 1, 2 and 4."""
    query = parse(f"SELECT {call} FROM (VALUES (1), (2), (4)) AS t(x) LIMIT 1")
    assert isinstance(query, Query)
    sql = query.tree.sql("duckdb", normalize_functions=False).replace(MARK, "").replace(MARK.upper(), "")
    with duckdb.connect() as con:
        return con.execute(sql).fetchall()[0][0]


@pytest.mark.parametrize("line", VALUES)
@pytest.mark.sampled(3, rest="longer")
def test_a_call_has_the_value_of_its_dialect(line: str) -> None:
    call, expected = VALUES[line]
    assert compute(call) == expected
    text = resources.files("dpsql.language").joinpath("dialects.csv").read_text("utf-8")
    assert line in {row["written"] for row in csv.DictReader(text.splitlines())}


@pytest.mark.parametrize("call", OTHERS)
def test_a_call_of_several_forms_has_the_value_of_its_dialect(call: str) -> None:
    if OTHERS[call] is None:
        with pytest.raises(duckdb.Error):
            compute(call)
    else:
        assert compute(call) == OTHERS[call]
