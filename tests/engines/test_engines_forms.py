# ruff: noqa: E501  statements and lists of values read better unbroken
"""Every listed function that an engine takes gives what DuckDB gives, on odd values of its arguments.

This is what makes a form of `dpsql.engines.*.forms` trustworthy; whatever is not translated is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from random import Random

import duckdb
import pyarrow as pa
import pytest
from fuzz.calls import literals
from support.reading import query_of
from support.stores import Store, compare

from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.remote_engine import RemoteEngine
from dpsql.engines.writer import Untranslatable, write
from dpsql.kernel.tree import Form, listed_forms

ROWS = 900
BATCH = 25

VALUES = {
    "BIGINT": "-9223372036854775808, 9223372036854775807, 0, 1, -1, 2, 63, -64, 1000000007, 9007199254740993, "
    "-2147483649, 1970, 13, NULL",
    "INTEGER": "-2147483648, 2147483647, 0, 1, -1, 20, 65, 1114112, 255, -129, NULL",
    "DOUBLE": "'nan'::DOUBLE, 'inf'::DOUBLE, '-inf'::DOUBLE, -0.0::DOUBLE, 1.0, -1.0, 0.5, -0.5, 2.5, 3.5, -1.5, 1e308, "
    "-1e308, 5e-324, 1e-300, 9007199254740993.0, 9223372036854775807.0, -9223372036854775808.0, 1e19, 127.5, NULL",
    "VARCHAR": r"""'', ' ', 'a', 'A', 'É', 'e' || chr(769), chr(128512) || 'ß', 'ŉΐ', '%', '_', '\', '\%', '$', 'a%b_c',
        '{"a":"x"}', '2024-02-29', 'nan', '-0', 'zz', 'a b  c', ' a ', chr(160) || 'x' || chr(8195), 'İIıi', 'ΑΣ ας', 'ẞß',
        'It''s "q" 50%', 'x' || chr(9) || chr(10), 'ab' || chr(13) || '''''', repeat('ab', 300), 'ǅ', '''\u0041', NULL""",
    "BOOLEAN": "TRUE, FALSE, NULL",
    "DATE": """DATE '0001-01-01', DATE '0001-01-07', DATE '0004-02-29', DATE '1969-12-31', DATE '1970-01-01',
        DATE '2000-12-31', DATE '2001-01-01', DATE '2024-02-29', DATE '2024-12-30', DATE '2023-01-01', DATE '1582-10-10',
        DATE '1900-03-01', DATE '9999-12-31', DATE '2024-07-31', DATE '0099-05-05', NULL""",
    "TIMESTAMP": """TIMESTAMP '0001-01-01', TIMESTAMP '1969-12-31 23:59:59.999999', TIMESTAMP '1970-01-01',
        TIMESTAMP '2024-02-29 13:14:15.161718', TIMESTAMP '9999-12-31 23:59:59.999999', TIMESTAMP '2024-03-31 02:30:00',
        TIMESTAMP '2000-01-01 00:00:00.1', TIMESTAMP '1582-10-10 01:02:03', TIMESTAMP '2023-12-31 23:00:00.5', NULL""",
    "DECIMAL(9,2)": "9999999.99, -9999999.99, 0, 0.01, -0.01, 1.50, 2.50, -0.50, 127.50, NULL",
    "DECIMAL(18,4)": "99999999999999.9999, -99999999999999.9999, 0, 0.0001, 2.5, 0.5, NULL",
    "UBIGINT": "0, 1, 2, 3, 18446744073709551615, 9223372036854775808, 9999999, 10000000, NULL",
}
NAMES = {
    "BIGINT": "b",
    "INTEGER": "i",
    "DOUBLE": "d",
    "VARCHAR": "s",
    "BOOLEAN": "l",
    "DATE": "t",
    "TIMESTAMP": "m",
}
NAMES |= {"DECIMAL(9,2)": "n", "DECIMAL(18,4)": "w", "UBIGINT": "u"}
COLUMNS = {f"{letter}{i}": kind for kind, letter in NAMES.items() for i in (1, 2, 3)}
SCAN = ", ".join(f'b."{c}" AS {c}' for c in ("id", *COLUMNS))
FROM = f'FROM (SELECT {SCAN} FROM main."cells" AS b) AS t1'

POLICY = """
[budget]
epsilon = 1
ledger = "ledger.sqlite"
[tables.cells]
source = "cells.parquet"
unit = "id"
[tables.cells.columns]
id = "BIGINT"
""" + "\n".join(f'{c} = "{kind}"' for c, kind in COLUMNS.items())

TYPES = ["BOOLEAN", "TINYINT", "UTINYINT", "SMALLINT", "INTEGER", "UINTEGER", "BIGINT", "UBIGINT", "DOUBLE"]
TYPES += ("DECIMAL(9,2)", "DECIMAL(5,0)", "DECIMAL(18,4)", "VARCHAR", "DATE", "TIMESTAMP", "HUGEINT")

MORE = [
    "(t1.{c}1 = t1.{c}2)",
    "(t1.{c}1 < t1.{c}2)",
    "(t1.{c}1 >= t1.{c}2)",
    "(t1.{c}1 IS NOT DISTINCT FROM t1.{c}2)",
    "(t1.{c}1 IS DISTINCT FROM t1.{c}2)",
    "coalesce(t1.{c}1, t1.{c}2)",
    "greatest(t1.{c}1, t1.{c}2, t1.{c}3)",
    "least(t1.{c}1, t1.{c}2)",
    "(CASE WHEN t1.{c}1 = t1.{c}2 THEN NULL ELSE t1.{c}1 END)",
    "(t1.{c}1 IN (t1.{c}2, t1.{c}3))",
    "(NOT (t1.{c}1 IN (t1.{c}2, t1.{c}3)))",
    "((t1.{c}1 = t1.{c}2) IS TRUE)",
    "(NOT ((t1.{c}1 > t1.{c}2) OR t1.l1))",
    "((t1.{c}1 IS NULL) AND t1.l2)",
]
WRITTEN = [
    *(
        f"(t1.s1 LIKE '{p}')"
        for p in (
            "%a%",
            "_",
            "a\\%",
            "%\\",
            "\\_%",
            "",
            "%",
            "É%",
            "__%",
            "%''%",
            "a%c",
            "a%a",
            "ab%%b",
            "%%",
            "a%%",
            "%b%_%",
            "%a%b%",
        )
    ),
    *(f"(t1.s1 LIKE '{p}' ESCAPE '$')" for p in ("%$%%", "$$", "$_", "a$%b$_c")),
    *(f"(t1.s1 ILIKE '{p}')" for p in ("A%", "é", "%SS", "%ς", "İ%", "ẞ%")),
    "(t1.s1[1:2])",
    "concat(t1.s1, t1.s2, '!')",
    "concat('{', t1.s3)",
    "(CASE WHEN isnan(t1.d1 * 2.0::DOUBLE) THEN CAST('nan' AS DOUBLE) ELSE t1.d1 * 2.0::DOUBLE + 0.0 END)",
    "((CAST(t1.i1 AS DOUBLE) * CAST(0.1 AS DOUBLE)) + 0.0)",
    "((CAST(t1.b1 AS DOUBLE) / CAST(4 AS DOUBLE)) + 0.0)",
    "((CAST(t1.i1 AS DOUBLE) - CAST(t1.i2 AS DOUBLE)) + 0.0)",
    "TRY_CAST(round(t1.n1) AS BIGINT)",
    *(
        f"TRY(t1.t1 + INTERVAL '{n}')"
        for n in ("1 month", "13 month", "-1 year", "1 day", "36 hour", "2 week")
    ),
    *(f"TRY(t1.m1 - INTERVAL '{n}')" for n in ("1 month", "1 year", "31 day", "1 second", "90 minute")),
    *(f"TRY(strftime(t1.t1,'{p}'))" for p in ("%Y-%m", "%d", "%Y/%m/%d")),
    *(f"TRY(strftime(t1.m1,'{p}'))" for p in ("%H:%M:%S", "%Y-%m-%d %H")),
    *(f"TRY(t1.t1{n})" for n in ("+7", "-30", "+(-400)", "+1000000")),
    "TRY(t1.t1 - t1.t2)",
    "(t1.b1 = t1.n1)",
    "(t1.i1 < t1.w1)",
    "(t1.n1 >= t1.w1)",
    "(t1.b1 BETWEEN t1.b2 AND t1.b3)",
    *(
        f"(t1.u1 {sign} t1.{x})"
        for sign in ("=", "<", ">=", "IS DISTINCT FROM")
        for x in ("n1", "w1", "b1", "i1")
    ),
    "(t1.u1 IN (t1.n1, t1.n2))",
    "(t1.u1 BETWEEN t1.n1 AND t1.w1)",
    "(t1.n1 = 18446744073709551615)",
    "(CAST(t1.u1 AS HUGEINT) = t1.w1)",
    "(CAST(t1.b1 AS HUGEINT) > t1.n1)",
]


def calls(form: Form) -> list[str]:
    """Write a form out over the columns of its argument types."""
    variants = [form.arguments]
    if "DECIMAL" in form.arguments:
        variants = [
            tuple(k if a == "DECIMAL" else a for a in form.arguments)
            for k in ("DECIMAL(9,2)", "DECIMAL(18,4)")
        ]
    out = []
    for kinds in variants:
        texts: list[list[str]] = [[]]
        for place, want in enumerate(kinds):
            if want[0] in "=#":
                choices = literals(form.name, want, place)
            elif want in NAMES:
                choices = [f"t1.{NAMES[want]}{place % 3 + 1}"]
            else:
                choices = []
            texts = [[*part, choice] for part in texts for choice in choices]
        out += [form.template.format(*part) for part in texts]
    return out


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """The cells: every pair of values of a type stands in some row."""
    with duckdb_settings.connect() as connection:
        connection.execute("SET threads = 1")
        cells = []
        for kind, letter in NAMES.items():
            values = f"CAST([{VALUES[kind]}] AS {kind}[])"
            size = f"len({values})"
            for i, place in enumerate((f"i % {size}", f"(i // {size}) % {size}", f"(i * 7 + 3) % {size}")):
                cell = f"{values}[1 + ({place})]"
                # As the scan gives them: one zero, one NaN.
                cells.append(f"{cell}{' + 0.0' if kind == 'DOUBLE' else ''} AS {letter}{i + 1}")
        connection.execute(
            f"CREATE TABLE main.cells AS SELECT i AS id, {', '.join(cells)} FROM range({ROWS}) AS r(i)"
        )
        yield connection


@pytest.fixture(scope="module")
def engine(store: Store, duck: duckdb.DuckDBPyConnection) -> Iterator[RemoteEngine]:
    sources = store.put(duck, {"cells": "SELECT * FROM main.cells"})
    schema_database, engine = store.open(store.policy(POLICY, sources))
    yield engine
    engine.close()
    schema_database.close()


def values_of(column: pa.ChunkedArray) -> list[object]:
    """Return a column's values; dates as numbers, Python's end with the year 9999."""
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_temporal(column.type):
        column = column.cast(pa.int64())
    return [plain(value) for value in column.to_pylist()]


def plain(value: object) -> object:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value.normalize() + 0 if isinstance(value, Decimal) else value


def compared(engine: RemoteEngine, duck: duckdb.DuckDBPyConnection, texts: list[str]) -> list[str]:
    """Compare expressions in one statement; return those that differ, with the first row that does."""
    listed = ", ".join(f"{text} AS x{i}" for i, text in enumerate(texts))
    sql = f"SELECT t1.id AS id, {listed} {FROM} ORDER BY t1.id"
    theirs, ours = compare(engine, sql), duck.sql(sql).to_arrow_table()
    wrong = []
    for i, text in enumerate(texts):
        a, b = values_of(ours.column(i + 1)), values_of(theirs.column(i + 1))
        place = next((j for j, pair in enumerate(zip(a, b, strict=True)) if pair[0] != pair[1]), None)
        if place is not None:
            row = duck.sql(f"SELECT * FROM main.cells WHERE id = {place}").fetchall()[0]
            used = {c: v for c, v in zip(("id", *COLUMNS), row, strict=True) if f"t1.{c}" in text}
            wrong.append(f"{text}: DuckDB {a[place]!r}, {engine.dialect.name} {b[place]!r} of {used}")
    return wrong


def translated(engine: RemoteEngine, texts: list[str]) -> list[str]:
    """Return those expressions that the engine takes."""
    taken = []
    for text in texts:
        try:
            query = query_of(f"SELECT {text} AS x {FROM}")
            write(query, engine.dialect, engine.schema_database, {"cells"}, {})
        except Untranslatable:
            continue
        taken.append(text)
    return taken


def checked(engine: RemoteEngine, duck: duckdb.DuckDBPyConnection, texts: list[str], least: int) -> None:
    taken = translated(engine, list(dict.fromkeys(texts)))
    print(f"{engine.dialect.name}: {len(taken)} of {len(texts)} forms are taken")
    wrong = []
    for start in range(0, len(taken), BATCH):
        wrong += compared(engine, duck, taken[start : start + BATCH])
    assert not wrong, "\n".join(wrong)
    assert len(taken) >= least


def test_functions_give_what_duckdb_gives(engine: RemoteEngine, duck: duckdb.DuckDBPyConnection) -> None:
    texts = [text for forms in listed_forms().values() for form in forms for text in calls(form)]
    checked(engine, duck, texts, least=200)


def test_conversions_give_what_duckdb_gives(engine: RemoteEngine, duck: duckdb.DuckDBPyConnection) -> None:
    texts = [f"TRY_CAST(t1.{letter}1 AS {kind})" for letter in NAMES.values() for kind in TYPES]
    texts += [f"TRY_CAST(TRY_CAST(t1.b1 AS {kind}) AS BIGINT)" for kind in TYPES if kind != "BOOLEAN"]
    checked(engine, duck, texts, least=60)


def test_operators_give_what_duckdb_gives(engine: RemoteEngine, duck: duckdb.DuckDBPyConnection) -> None:
    texts = [text.replace("{c}", letter) for text in MORE for letter in NAMES.values()] + WRITTEN
    checked(engine, duck, texts, least=100)


NESTED = 500


@pytest.mark.slow
def test_nested_expressions_give_what_duckdb_gives(
    engine: RemoteEngine, duck: duckdb.DuckDBPyConnection
) -> None:
    """Put an expression in the place of a column of another one, except of DOUBLE, which would be canonical."""
    texts = [text for forms in listed_forms().values() for form in forms for text in calls(form)]
    texts += [text.replace("{c}", letter) for text in MORE for letter in NAMES.values()] + WRITTEN
    taken = translated(engine, list(dict.fromkeys(texts)))
    of_type: dict[str, list[str]] = {}
    for text in taken:
        of_type.setdefault(str(duck.sql(f"SELECT {text} AS x {FROM}").types[0]), []).append(text)
    rng, nested = Random(34), dict[str, None]()
    while len(nested) < NESTED:
        outer = rng.choice(taken)
        column = rng.choice(re.findall(r"t1\.([a-z]\d)", outer) or ["id"])
        inner = of_type.get(COLUMNS.get(column, "DOUBLE"), [])
        if not inner or COLUMNS[column] == "DOUBLE":
            continue
        made = re.sub(rf"t1\.{column}\b", f"({rng.choice(inner)})".replace("\\", "\\\\"), outer)
        if made in nested or not translated(engine, [made]):
            continue
        with suppress(duckdb.Error):  # a form of an operator may fail on its own, outside of TRY
            duck.sql(f"SELECT {made} AS x {FROM}").fetchall()
            nested[made] = None
    checked(engine, duck, list(nested), least=NESTED)
