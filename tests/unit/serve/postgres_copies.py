"""A statement whose COPY was captured from a real PostgreSQL, its rows in Arrow, and the options."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa

TEXTS = [
    "plain",
    "tab\there",
    'quote "q"',
    "comma, and\nline",
    "back\\slash",
    "",
    "\\.",
    "\\N",
    None,
    "a;b\r",
    "\b\f\v|",
]

ROWS = pa.table(
    {
        "n": pa.array([*range(1, len(TEXTS) + 1)], pa.int64()),
        "the text": pa.array(TEXTS),
        "x": pa.array([0.5 * i for i in range(len(TEXTS) - 1)] + [None]),
        "d": pa.array([Decimal("1.50")] * len(TEXTS), pa.decimal128(10, 2)),
        "day": pa.array([datetime.date(2026, 2, 28)] * len(TEXTS)),
        "b": pa.array([b"\x00\\"] * len(TEXTS)),
        "ok": pa.array([True] * len(TEXTS)),
        "many": pa.array([["a b", None]] * len(TEXTS)),
    }
)


def _literal(text: str | None) -> str:
    if text is None:
        return "NULL"
    shown = "".join(f"\\x{ord(c):02x}" if ord(c) < 32 or c in "\\'" else c for c in text)
    return f"E'{shown}'"


_ROWS = ", ".join(
    f"({i + 1}, {_literal(text)}, {'NULL' if i == len(TEXTS) - 1 else 0.5 * i})"
    for i, text in enumerate(TEXTS)
)
STATEMENT = (
    'SELECT n::int8 AS n, t::text AS "the text", x::float8 AS x, 1.5::numeric(10,2) AS d, '
    "DATE '2026-02-28' AS day, '\\x005c'::bytea AS b, true AS ok, ARRAY['a b', NULL] AS many "
    f"FROM (VALUES {_ROWS}) v(n, t, x) ORDER BY n"
)

COPIES = (
    "",
    "WITH (FORMAT text, HEADER)",
    "WITH (DELIMITER '|', NULL 'none')",
    "WITH (FORMAT csv)",
    "WITH (FORMAT csv, HEADER)",
    "WITH (FORMAT csv, HEADER true, DELIMITER ';', QUOTE '''', NULL 'plain')",
    "WITH (FORMAT csv, ESCAPE '\\', FORCE_QUOTE (n, \"the text\"))",
    "WITH (FORMAT csv, FORCE_QUOTE *)",
    "WITH CSV HEADER",
    "CSV HEADER DELIMITER AS ';' QUOTE AS ''''",
    "WITH NULL AS 'none' DELIMITER '|'",
    "WITH BINARY",
    "WITH (FORMAT binary)",
)
