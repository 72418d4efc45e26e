"""Capture the bytes of `postgres_values` from a real PostgreSQL into postgres_bytes.json.

Run by hand when the values change, with `psycopg[binary]` and the URL of a PostgreSQL 15 in an UTF8 database:

    PYTHONPATH=. python tests/unit/serve/make_postgres_bytes.py postgresql://postgres@127.0.0.1:5432/postgres

Kept are, for every value, the text and the binary form that the server sends; for floats also the texts with
other settings of extra_float_digits; for texts of parameters the binary form of what the server read, or the
SQLSTATE of its error; and the messages of COPY.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import psycopg
from psycopg import pq

from tests.unit.serve.postgres_copies import COPIES, STATEMENT
from tests.unit.serve.postgres_values import EXTRA_DIGITS, READ, VALUES


def value(connection: psycopg.Connection[Any], sql: str, code: int) -> tuple[bytes, int, int]:
    found = connection.pgconn.exec_params(sql.encode(), None, result_format=code)
    if found.status != pq.ExecStatus.TUPLES_OK:
        raise RuntimeError(f"{sql}: {found.error_message.decode()}")
    cell = found.get_value(0, 0)
    assert cell is not None
    return cell, found.ftype(0), found.fsize(0)


def read(connection: psycopg.Connection[Any], kind: str, text: str) -> dict[str, str]:
    sql = f"SELECT $1::{kind}".encode()
    found = connection.pgconn.exec_params(sql, [text.encode()], result_format=1)
    if found.status == pq.ExecStatus.TUPLES_OK:
        cell = found.get_value(0, 0)
        assert cell is not None
        return {"text": text, "binary": cell.hex(), "type": str(found.ftype(0))}
    state = found.error_field(pq.DiagnosticField.SQLSTATE)
    assert state is not None
    return {"text": text, "sqlstate": state.decode()}


def copy(connection: psycopg.Connection[Any], options: str, rows: str) -> list[str]:
    begun = connection.pgconn.exec_(f"COPY ({rows}) TO STDOUT {options}".encode())
    if begun.status != pq.ExecStatus.COPY_OUT:
        raise RuntimeError(begun.error_message.decode())
    messages: list[str] = []
    while True:
        size, data = connection.pgconn.get_copy_data(0)
        if size == -1:
            while connection.pgconn.get_result() is not None:
                pass
            return messages
        messages.append(bytes(data).hex())


def main(url: str) -> None:
    found: dict[str, Any] = {"values": {}, "floats": {}, "read": {}, "copy": {}}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET extra_float_digits = 1")
        for kind, (literals, _, _) in VALUES.items():
            cells = []
            for literal in literals:
                text, oid, size = value(connection, f"SELECT {literal}::{kind}", 0)
                cells.append([text.decode(), value(connection, f"SELECT {literal}::{kind}", 1)[0].hex()])
            found["values"][kind] = {"oid": oid, "size": size, "cells": cells}
        for digits in EXTRA_DIGITS:
            connection.execute(f"SET extra_float_digits = {digits}")
            for kind in ("float4", "float8"):
                found["floats"][f"{kind} {digits}"] = [
                    value(connection, f"SELECT {literal}::{kind}", 0)[0].decode()
                    for literal in VALUES[kind][0]
                ]
        connection.execute("SET extra_float_digits = 1")
        for kind, texts in READ.items():
            found["read"][kind] = [read(connection, kind, text) for text in texts]
        for options in COPIES:
            found["copy"][options] = copy(connection, options, STATEMENT)
            found["copy"][f"{options} empty"] = copy(connection, options, f"{STATEMENT} LIMIT 0")
    path = Path(__file__).with_name("postgres_bytes.json")
    path.write_text(json.dumps(found, indent=1, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
