"""COPY sends the very messages that were captured from a real PostgreSQL; see make_postgres_bytes.py."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dpsql.release import from_arrow
from dpsql.serve.answers import AnswerColumn
from dpsql.serve.wire.command_words import Copy, CopyOptions
from dpsql.serve.wire.commands import read_command
from dpsql.serve.wire.results import copy_messages, copy_response
from tests.unit.serve.postgres_copies import COPIES, ROWS

CAPTURED: dict[str, Any] = json.loads(Path(__file__).with_name("postgres_bytes.json").read_text())["copy"]


def bodies(data: bytes) -> list[bytes]:
    found = []
    while data:
        kind, size = struct.unpack_from("!ci", data)
        assert kind == b"d"
        found.append(data[5 : size + 1])
        data = data[size + 1 :]
    return found


def copied(table: pa.Table, options: CopyOptions, *, extra_float_digits: int = 1) -> list[bytes]:
    columns = [AnswerColumn(field.name, field.type) for field in table.schema]
    return bodies(b"".join(copy_messages(columns, table, options, extra_float_digits=extra_float_digits)))


def options(text: str) -> CopyOptions:
    found = read_command(f"COPY (SELECT 1) TO STDOUT {text}")
    assert isinstance(found, Copy)
    return found.options


@pytest.mark.parametrize("text", COPIES)
def test_messages_are_those_of_postgresql(text: str) -> None:
    assert [body.hex() for body in copied(ROWS, options(text))] == CAPTURED[text]
    assert [body.hex() for body in copied(ROWS.slice(0, 0), options(text))] == CAPTURED[f"{text} empty"]


def test_a_single_column_of_csv_quotes_the_end_marker() -> None:
    assert copied(pa.table({"x": ["\\.", None, ""]}), options("CSV")) == [b'"\\."\n', b"\n", b'""\n']


@pytest.mark.parametrize("kind", ["text", "csv", "binary"])
def test_many_rows_come_in_several_parts(kind: str) -> None:
    table = pa.table({"n": range(2500)})
    found = copied(table, options(f"(FORMAT {kind})"))
    if kind == "binary":
        assert found[0][:11] == b"PGCOPY\n\xff\r\n\0"
        assert [row[-8:] for row in found[:-1]] == [struct.pack("!q", i) for i in range(2500)]
        assert found[-1] == b"\xff\xff"
    else:
        assert found == [f"{i}\n".encode() for i in range(2500)]


def test_floats_have_the_digits_of_the_session() -> None:
    assert copied(pa.table({"x": [0.1]}), options(""), extra_float_digits=-12) == [b"0.1\n"]
    assert copied(pa.table({"x": [1 / 3]}), options(""), extra_float_digits=-12) == [b"0.333\n"]


def test_arrow_is_a_stream_of_the_rows() -> None:
    table = pa.table({"n": range(50_000), "text": ["x" * 20] * 50_000})
    found = copied(table, options("(FORMAT arrow)"))
    assert len(found) > 10
    assert pa.ipc.open_stream(b"".join(found)).read_all() == table
    with_release = b"".join(copied(table, options("(FORMAT arrow, RELEASE)")))
    assert from_arrow(with_release) == (table, None)


@pytest.mark.parametrize(("kind", "code"), [("text", 0), ("csv", 0), ("binary", 1), ("arrow", 1)])
def test_response(kind: str, code: int) -> None:
    columns = [AnswerColumn("a", pa.int64()), AnswerColumn("b", pa.string())]
    assert copy_response(columns, options(f"(FORMAT {kind})")) == b"H" + struct.pack(
        "!ibhhh", 11, code, 2, code, code
    )
