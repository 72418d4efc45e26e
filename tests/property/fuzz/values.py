"""What cells hold, as SQL literals: a few values that meet one another often, and nasty ones."""

from __future__ import annotations

from random import Random

__all__ = ["COMMON", "MORE_UNITS", "NASTY", "UNITS", "cell"]

COMMON: dict[str, list[str]] = {
    "int": ["1", "2", "3", "0", "5", "7"],
    "dbl": ["0.0", "1.5", "-2.0", "0.1", "3.0"],
    "dec": ["0", "1.50", "-2.25", "10.00"],
    "text": ["'a'", "'b'", "'c'", "'DE'", "'FR'", "'1'", "'2024-02-03'", "'x y'"],
    "bool": ["TRUE", "FALSE"],
    "date": ["DATE '2024-01-01'", "DATE '2024-01-05'", "DATE '2024-02-03'", "DATE '2024-02-29'"],
    "ts": ["TIMESTAMP '2024-01-01 00:00:00'", "TIMESTAMP '2024-01-05 13:14:15.16'", "TIMESTAMP '2024-02-03'"],
    "time": ["TIME '00:00:00'", "TIME '13:14:15'", "TIME '23:59:59.999999'"],
    "enum": ["'X'", "'Y'", "'Z'"],
    "texts": ["['a', 'b']", "['a']", "[]", "['b', 'b', NULL]"],
    "ints": ["[1, 2]", "[1]", "[]", "[3, 3, NULL]"],
    "dbls": ["[0.0]", "[-0.0::DOUBLE]", "[0.0, 1.5]", "[-0.0::DOUBLE, 1.5]"],
}
"""Values that are likely to be equal to those of other rows, and to be inside declared domains."""

NASTY: dict[str, list[str]] = {
    "int": ["-1", "127", "-128", "100", "64"],
    "dbl": [
        "'nan'::DOUBLE",
        "'inf'::DOUBLE",
        "'-inf'::DOUBLE",
        "-0.0::DOUBLE",
        "1e308",
        "-1e308",
        "5e-324",
        "1e15",
        "9007199254740993.0",
        "-0.5",
        "2.5",
    ],
    "dec": ["9999999.99", "-9999999.99", "0.01", "-0.01"],
    "text": [
        "''",
        "' '",
        "' 1'",
        "'01'",
        "'1e400'",
        "'-0'",
        "'nan'",
        "'9999999999999999999999'",
        "'A'",
        "'É'",
        "'e' || chr(769)",
        "chr(128512) || 'ß'",
        "'%'",
        "'_\\'",
        '\'{"a":"x","b":[1]}\'',
        "'[1,'",
        "'a.b.c'",
        "'2024-13-45'",
        "'infinity'",
        "repeat('ab', 3000)",
        "'x' || chr(0) || 'y'",
        "chr(8206) || 'rtl'",
    ],
    "bool": ["NULL"],
    "date": [
        "'infinity'::DATE",
        "'-infinity'::DATE",
        "DATE '5881580-07-10'",
        "DATE '5877642-06-25 (BC)'",
        "DATE '0001-01-01'",
        "DATE '1969-12-31'",
    ],
    "ts": [
        "'infinity'::TIMESTAMP",
        "'-infinity'::TIMESTAMP",
        "TIMESTAMP '294247-01-10 04:00:54.775806'",
        "TIMESTAMP '290309-12-22 (BC) 00:00:00'",
        "TIMESTAMP '1969-12-31 23:59:59.999999'",
        "TIMESTAMP '0001-01-01'",
    ],
    "time": ["TIME '24:00:00'", "TIME '00:00:00.000001'"],
    "enum": ["NULL"],
    "texts": ["['']", "[NULL]", "['%', 'É', repeat('z', 300)]"],
    "dbls": ["['nan'::DOUBLE]", "[sqrt(-1)]", "[NULL]", "['-inf'::DOUBLE]"],
    "ints": ["[-9223372036854775808, 9223372036854775807]", "[NULL]", "[0, -1]"],
}
"""Values at the ends of types, equal but not identical ones, and ones that do not convert."""

WIDE: dict[str, list[str]] = {
    "TINYINT": ["-128", "127"],
    "SMALLINT": ["-32768", "32767"],
    "INTEGER": ["-2147483648", "2147483647"],
    "BIGINT": ["-9223372036854775808", "9223372036854775807", "9007199254740993"],
    "UTINYINT": ["255"],
    "UBIGINT": ["18446744073709551615", "9223372036854775808"],
    "DECIMAL(18,4)": ["99999999999999.9999", "-99999999999999.9999"],
}
"""Ends of a column's own type, beside its kind's nasty values."""

_SIGNED = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT"}

UNITS: dict[str, list[str]] = {
    "integer": ["1", "2", "127", "0", "9007199254740992", "9007199254740993"],
    "VARCHAR": ["'1'", "'01'", "' 1'", "'a'", "'A'", "''"],
    "UUID": [f"UUID '00000000-0000-0000-0000-00000000000{i}'" for i in range(6)],
    "DATE": [*(f"DATE '2024-01-0{i}'" for i in range(1, 5)), "'infinity'::DATE", "DATE '5881580-07-10'"],
}
"""Names of privacy units by the type of unit columns; integers are of every width."""

MORE_UNITS: dict[str, list[str]] = {
    "integer": [str(i) for i in range(3, 17)],
    "VARCHAR": [f"'p{i}'" for i in range(14)],
    "UUID": [f"UUID '00000000-0000-0000-0000-0000000001{i:02}'" for i in range(14)],
    "DATE": [f"DATE '2023-05-{i:02}'" for i in range(1, 15)],
}
"""Further, plainer ones for databases of more units."""


def cell(rng: Random, kind: str, declared: str, nasty: float) -> str:
    """Draw one cell of a column: NULL, a common value or, with chance `nasty`, a nasty one."""
    draw = rng.random()
    if draw < 0.07:
        return "NULL"
    if draw > 1 - nasty:
        pool = [*NASTY[kind], *WIDE.get(declared, ())]
        if kind == "int" and declared not in _SIGNED:
            pool = [v for v in pool if not v.startswith("-")]
        return rng.choice(pool)
    pool = COMMON[kind]
    return rng.choice(pool[:3] if rng.random() < 0.6 else pool)
