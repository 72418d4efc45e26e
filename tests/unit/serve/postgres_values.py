"""Values whose bytes were captured from a real PostgreSQL: SQL literals, and the same in Arrow."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

FAR = 2**63 - 1

FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 1e14, 123456789012345.6, 1e15, 1e16, 1e22, 1e23, -1e23, 0.0001, 0.00001]
FLOATS += [1.2345678901234567e-7, 5e-324, 1.7976931348623157e308, 2.0**54, 2.0**60, 9007199254740993.0, 0.3]
FLOATS += [1e10, 12345678901.5, float("inf"), float("-inf"), float("nan"), 4.35, 100.0, 1234567.0, 3e-5]
FLOATS4 = [
    0.0,
    1.0,
    -2.5,
    0.1,
    999999.0,
    1e6,
    1234567.0,
    1e-4,
    1e-5,
    3.4028235e38,
    1e-45,
    33554432.0,
    8.5899346e9,
]
FLOATS4 += [float("inf"), float("nan"), 16777216.0, 0.3]

NARROW = np.array(FLOATS4, np.float32)


def arrow_ints(numbers: list[int | None], kind: pa.DataType) -> pa.Array:
    """Return dates and times that Python's types cannot hold."""
    return pa.array(numbers, pa.int32() if pa.types.is_date(kind) else pa.int64()).view(kind)


def timestamps(numbers: list[int | None], zone: str | None) -> pa.Array:
    return arrow_ints(numbers, pa.timestamp("us", zone))


def intervals(*parts: tuple[int, int, int]) -> pa.Array:
    return pa.array([pa.MonthDayNano(part) for part in parts], pa.month_day_nano_interval())


DATES = {
    "2026-02-28": 20512,
    "1970-01-01": 0,
    "2000-02-29": 11016,
    "0001-01-01": -719162,
    "9999-12-31": 2932896,
    "10000-01-01": 2932897,
    "294276-12-31": 106762939,
    "0001-12-31 BC": -719163,
    "0044-03-15 BC": -735160,
    "4713-01-01 BC": -2440550,
    "infinity": 2**31 - 1,
    "-infinity": -(2**31) + 1,
}
DAY = 86_400_000_000
MOMENTS = {
    "1970-01-01 00:00:00": 0,
    "2000-01-01 12:34:56.789": 10957 * DAY + 45_296_789_000,
    "1969-12-31 23:59:59.999999": -1,
    "2026-02-28 23:59:59.5": 20513 * DAY - 500_000,
    "0001-01-01 00:00:00": -719162 * DAY,
    "9999-12-31 23:59:59.999999": 2932897 * DAY - 1,
    "12026-01-01 01:02:03.000004": 3672879 * DAY + 3_723_000_004,
    "0044-03-15 10:00:00 BC": -735160 * DAY + 36_000_000_000,
    "infinity": FAR,
    "-infinity": -FAR,
}
CLOCKS = {
    "00:00:00": 0,
    "23:59:59.999999": DAY - 1,
    "24:00:00": DAY,
    "01:02:03.5": 3_723_500_000,
    "12:00:00.000001": DAY // 2 + 1,
}
INTERVALS = {
    "0": (0, 0, 0),
    "1 mon -1 day": (1, -1, 0),
    "-13 months +5 days -00:00:01.5": (-13, 5, -1_500_000_000),
    "-1 year +2 days 03:00": (-12, 2, 3 * 3600 * 10**9),
    "1 day -00:00:01": (0, 1, -(10**9)),
    "-1 day 01:00": (0, -1, 3600 * 10**9),
    "100 hours": (0, 0, 100 * 3600 * 10**9),
    "14 months 2 days 00:00:00.000001": (14, 2, 1000),
}
NUMBERS = [
    "0",
    "1",
    "-1",
    "0.5",
    "10000",
    "9999",
    "100000000",
    "12345678901234567890",
    "-0.0001",
    "1234.5678",
]
SCALED = ["0.0000001", "-123.4500000", "10000.0000000", "0.0000000", "99999999.9999999"]
HUGE = ["170141183460469231731687303715884105", "-1", "0", "99990000", "10000000000000000"]
NAMES = [
    "",
    "a",
    "NULL",
    'say "hi"',
    "back\\slash",
    "com,ma",
    "{brace}",
    " pad ",
    "über",
    "line\nbreak",
    "😀",
]
UUIDS = ["00000000-0000-0000-0000-000000000000", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]


def quoted(text: str) -> str:
    return "E'" + text.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n") + "'"


def plain(values: Any) -> list[str]:
    return [f"'{value}'" for value in values]


VALUES: dict[str, tuple[list[str], pa.Array, int | None]] = {
    "bool": (["true", "false"], pa.array([True, False]), None),
    "int2": (plain([0, -32768, 32767]), pa.array([0, -32768, 32767], pa.int16()), None),
    "int4": (plain([0, -(2**31), 2**31 - 1]), pa.array([0, -(2**31), 2**31 - 1], pa.int32()), None),
    "int8": (plain([0, -(2**63), FAR]), pa.array([0, -(2**63), FAR], pa.int64()), None),
    "float8": (plain(map(repr, FLOATS)), pa.array(FLOATS), None),
    "float4": (plain([str(x) for x in NARROW]), pa.array(NARROW), None),
    "numeric(38,4)": (plain(NUMBERS), pa.array([Decimal(n) for n in NUMBERS], pa.decimal128(38, 4)), None),
    "numeric(20,7)": (plain(SCALED), pa.array([Decimal(n) for n in SCALED], pa.decimal128(20, 7)), None),
    "numeric(38,0)": (plain(HUGE), pa.array([Decimal(n) for n in HUGE], pa.decimal128(38, 0)), None),
    "numeric": (plain([2**64 - 1, 0]), pa.array([2**64 - 1, 0], pa.uint64()), None),
    "text": ([quoted(name) for name in NAMES], pa.array(NAMES), None),
    "name": (plain(["relname", ""]), pa.array(["relname", ""]), 19),
    '"char"': (plain(["r", "v"]), pa.array(["r", "v"]), 18),
    "oid": (plain([0, 2**32 - 1]), pa.array([0, 2**32 - 1], pa.int64()), 26),
    "date": (plain(DATES), arrow_ints([*DATES.values()], pa.date32()), None),
    "time": (plain(CLOCKS), arrow_ints([*CLOCKS.values()], pa.time64("us")), None),
    "timestamp": (plain(MOMENTS), timestamps([*MOMENTS.values()], None), None),
    "timestamptz": (plain(MOMENTS), timestamps([*MOMENTS.values()], "UTC"), None),
    "interval": (plain(INTERVALS), intervals(*INTERVALS.values()), None),
    "uuid": (plain(UUIDS), pa.array([uuid.UUID(u).bytes for u in UUIDS], pa.uuid()), None),
    "bytea": (["'\\x'", "'\\x00ff5c27'"], pa.array([b"", b"\x00\xff\\'"]), None),
    "int4[]": (plain(["{1,NULL,-3}", "{}"]), pa.array([[1, None, -3], []], pa.list_(pa.int32())), None),
    "int2vector": (plain(["1 2", ""]), pa.array(["1 2", ""]), 22),
    "oidvector": (plain(["16384 25"]), pa.array([[16384, 25]], pa.list_(pa.int64())), 30),
    "text[]": (
        ["ARRAY[" + ", ".join(quoted(name) for name in NAMES) + ", NULL]", "ARRAY['a b','x']"],
        pa.array([[*NAMES, None], ["a b", "x"]]),
        None,
    ),
    "float8[]": (plain(["{1,1e15,NaN,Infinity}"]), pa.array([[1.0, 1e15, float("nan"), float("inf")]]), None),
    "numeric(10,2)[]": (
        plain(["{1.50,NULL}"]),
        pa.array([[Decimal("1.50"), None]], pa.list_(pa.decimal128(10, 2))),
        None,
    ),
    "bool[]": (plain(["{t,f,NULL}"]), pa.array([[True, False, None]]), None),
    "timestamp[]": (
        plain(["{2020-01-01 00:00:00,NULL}"]),
        pa.array([[18262 * DAY, None]], pa.list_(pa.int64())).cast(pa.list_(pa.timestamp("us"))),
        None,
    ),
    "uuid[]": (
        plain(["{" + ",".join(UUIDS) + "}"]),
        pa.array([UUIDS]),
        2951,
    ),
    "bytea[]": (["ARRAY['\\x00'::bytea, NULL]"], pa.array([[b"\x00", None]]), None),
    "date[]": (
        plain(["{2026-02-28}"]),
        pa.array([[20512]], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
        None,
    ),
}
"""PostgreSQL's type -> literals, the same values in Arrow, the OID that the catalogue names with them."""

EXTRA_DIGITS = (-15, -1, 0, 1, 3)
"""Values of extra_float_digits with which floats were captured."""

READ: dict[str, list[str]] = {
    "bool": ["t", "TRUE", " off ", "of", "o", "2", "", "yesx", "1", "ye"],
    "int2": ["32767", "32768", "-32768", "+5", " 7 ", "1.0", "", "0x10", "1e2", "--1", "1_000"],
    "int4": ["2147483648", "-2147483648", "abc"],
    "int8": ["9223372036854775807", "9223372036854775808", "1 2"],
    "float8": ["1e400", "1e-400", "1e308", "inf", "-Infinity", "nan", "NaN", "0e-9999", "1e", ".5", "5.", ""],
    "float4": ["1e39", "1e-50", "0.1", "inf", "1e38"],
    "numeric": ["1e5", "NaN", "-nan", "Infinity", "-inf", "1.50", ".", "1e", "12abc", "0.000000001", "1_0"],
    "date": [
        "2026-02-28",
        "2026-02-30",
        "2026-13-01",
        "x",
        "",
        "2026-2-3",
        "2026-02-28 x",
        "2026-02-28 +00",
        "2026-02-28 -05",
        "2026-02-28+02:30",
        "2026-02-28 00:00:00+01",
    ],
    "time": ["23:59:59.5", "12:30", "25:00:00", "12:60:00", "x", "1:02:03"],
    "timestamp": [
        "2026-02-28",
        "2026-02-28 10:00",
        "2026-02-28T10:00:00.123456",
        "2026-02-30 00:00:00",
        "x",
        "2026-02-28 +02",
    ],
    "timestamptz": [
        "2026-02-28 10:00:00+02",
        "2026-02-28 10:00:00Z",
        "2026-02-28 10:00:00-05:30",
        "2026-02-28 10:00:00",
        "2026-02-28 +02",
    ],
    "uuid": [
        *UUIDS,
        "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
        "a0eebc999c0b4ef8bb6d6bb9bd380a11",
        "x",
        "a0eebc99",
    ],
    "bytea": ["\\x", "\\x0aFF", "\\x0", "\\xzz", "abc", "a\\\\b", "\\001\\377", "\\400", "\\9", "a\\"],
    "int4[]": ["{1,2,NULL}", "{}", " { 1 , 2 } ", "1,2", "{1,,2}", "{1,x}", "{1", "{1}}", "{1}2", '{"1"}'],
    "text[]": [
        '{a,"b,c"}',
        '{"a\\"b", c\\ d}',
        "{a b}",
        '{"NULL",null}',
        '{"a}',
        '{a"b"}',
        '{""}',
        "{,}",
        "{a,}",
    ],
}
"""PostgreSQL's type -> texts of parameters, some of which are refused."""
