# ruff: noqa: E501  the lists of values read better unbroken
"""Nasty values of every type, and each allowed function as an analyst types it over columns of them."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.kernel.tree import Form, listed_forms

__all__ = ["NASTY", "call", "column_kinds", "forms", "values", "variants"]

NASTY = {
    "TINYINT": "0, -1, 127, -128",
    "SMALLINT": "0, -1, 32767, -32768",
    "UTINYINT": "0, 1, 255",
    "USMALLINT": "0, 1, 65535",
    "UINTEGER": "0, 1, 4294967295",
    "UBIGINT": "0, 1, 18446744073709551615",
    "BIGINT": """-9223372036854775808, 9223372036854775807, 0, 1, -1, 2, 63, 64, 65, -64, 127, 1000000007,
        9007199254740993, -2147483649, 1970, 13""",
    "INTEGER": "-2147483648, 2147483647, 0, 1, -1, 2, 20, 21, 1114112, 55296, 65, 12, 31",
    "DOUBLE": """'nan'::DOUBLE, 'inf'::DOUBLE, '-inf'::DOUBLE, -0.0::DOUBLE, 0.0, 1.0, -1.0, 0.5, -0.5, 2.5, 1e308,
        -1e308, 1.7976931348623157e308, 5e-324, -5e-324, 1e-300, 171.0, 9007199254740993.0, -170.5, 710.0""",
    "VARCHAR": r"""'', ' ', 'a', 'A', 'É', 'e' || chr(769), chr(128512) || 'ß', 'ŉΐ', '%', '_', '\', '$', '(', '[a', '.*',
        '\0\1', '{"a":"x","b":[1]}', '{"a":', '[1,2', '2024-02-29', '2024-13-45', 'infinity', '-infinity', '1e400',
        'nan', '9999999999999999999999', '-0', '0x1F', 'zz', 'YQ==', 'YQ=', '%41', '%zz', '%E9', 'a/b\c.d',
        'x' || chr(0) || 'y', chr(8206) || 'rtl', repeat('ab', 1500), repeat('ß', 700)""",
    "BOOLEAN": "TRUE, FALSE",
    "DATE": """'infinity'::DATE, '-infinity'::DATE, DATE '5881580-07-10', DATE '5877642-06-25 (BC)', DATE '0001-01-01',
        DATE '0001-01-01 (BC)', DATE '1969-12-31', DATE '2024-02-29', DATE '294247-01-11', DATE '290309-12-21 (BC)'""",
    "TIMESTAMP": """'infinity'::TIMESTAMP, '-infinity'::TIMESTAMP, TIMESTAMP '294247-01-10 04:00:54.775806',
        TIMESTAMP '290309-12-22 (BC) 00:00:00', TIMESTAMP '1969-12-31 23:59:59.999999', TIMESTAMP '0001-01-01',
        TIMESTAMP '2024-02-29 13:14:15.161718', TIMESTAMP '9999-12-31 23:59:59.999999', TIMESTAMP '10000-01-01'""",
    "TIME": "TIME '00:00:00', TIME '24:00:00', TIME '23:59:59.999999', TIME '13:14:15.000001'",
    "UUID": "'00000000-0000-0000-0000-000000000000'::UUID, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::UUID",
    "BIGINT[]": """[]::BIGINT[], [NULL]::BIGINT[], [1, 2, 2], [-9223372036854775808, -9223372036854775808],
        [9223372036854775807, 1, NULL], range(3000)""",
    "VARCHAR[]": "[]::VARCHAR[], [NULL]::VARCHAR[], ['a', 'b', 'b'], ['', NULL, '%'], [repeat('x', 70000), 'É']",
}
"""By type; NULL is added to each."""

DECIMALS = {
    (9, 2): "9999999.99, -9999999.99, 0, 0.01, -0.01, 1.50",
    (18, 0): "999999999999999999, -999999999999999999, 0, 1, -1",
    (18, 4): "99999999999999.9999, -99999999999999.9999, 0, 0.0001, 2.5",
    (18, 18): "0.999999999999999999, -0.999999999999999999, 0, 0.5",
}


def forms() -> list[Form]:
    return [form for several in listed_forms().values() for form in several]


def variants(form: Form) -> list[tuple[str, ...]]:
    """Write out DECIMAL as the types it stands for."""
    if "DECIMAL" not in form.arguments:
        return [form.arguments]
    kinds = [f"DECIMAL({p},{s})" for p, s in DECIMALS]
    if form.arguments.count("DECIMAL") == 1:
        return [tuple(k if a == "DECIMAL" else a for a in form.arguments) for k in kinds]
    return [(a, b) for a in kinds for b in kinds]


def values(kind: str) -> str:
    """Return the nasty values of a type, each cast to it."""
    if kind.startswith("DECIMAL"):
        precision, scale = (int(n) for n in kind[8:-1].split(","))
        texts = DECIMALS[precision, scale]
    else:
        texts = NASTY[kind]
    return f"SELECT CAST(unnest([{texts}, NULL]) AS {kind}) AS v"


def column_kinds() -> list[str]:
    return [*NASTY, *(f"DECIMAL({p},{s})" for p, s in DECIMALS)]


def call(form: Form, columns: Sequence[str]) -> str:
    """Write a form as an analyst types it."""
    name = form.name.replace("_", " ") if form.name.isupper() else form.name
    if form.name == "neg":
        return f"(- {columns[0]})"
    if form.name.endswith(" of age"):
        return f"EXTRACT({name.split()[0]} FROM age({', '.join(columns)}))"
    if form.name.isupper() or not form.name.replace("_", "a").isalnum():
        return f"({columns[0]} {name} {columns[1]})" if len(columns) == 2 else f"({name} {columns[0]})"
    return f"{name}({', '.join(columns)})"
