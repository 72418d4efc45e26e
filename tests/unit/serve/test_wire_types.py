"""Values on the wire have the bytes that were captured from a real PostgreSQL; see make_postgres_bytes.py."""

from __future__ import annotations

import datetime
import json
import math
import struct
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.serve.answers import AnswerColumn
from dpsql.serve.wire.types import (
    TYPES,
    ParameterError,
    ProtocolError,
    UnsentType,
    parameter_oid,
    parameter_type,
    wire_type,
)
from dpsql.serve.wire.types.encoding import RowEncoder, format_codes, row_description
from dpsql.serve.wire.types.parameters import decode_parameter
from tests.unit.serve.postgres_values import EXTRA_DIGITS, READ, VALUES

CAPTURED: dict[str, Any] = json.loads(Path(__file__).with_name("postgres_bytes.json").read_text())


def encoder(table: pa.Table, code: int = 0, oids: dict[str, int] | None = None, **kwargs: int) -> RowEncoder:
    columns = [AnswerColumn(f.name, f.type, (oids or {}).get(f.name)) for f in table.schema]
    return RowEncoder(columns, table, [code] * len(columns), **kwargs)


def rows(data: bytes) -> list[list[bytes | None]]:
    """Read DataRow messages, as a client does."""
    found = []
    while data:
        kind, size, count = struct.unpack_from("!cih", data)
        assert kind == b"D"
        body, data = data[7 : size + 1], data[size + 1 :]
        cells: list[bytes | None] = []
        for _ in range(count):
            (length,) = struct.unpack_from("!i", body)
            cells.append(body[4 : 4 + length] if length >= 0 else None)
            body = body[4 + max(length, 0) :]
        assert not body
        found.append(cells)
    return found


def cells(values: pa.Array, code: int, oid: int | None = None, **kwargs: int) -> list[bytes | None]:
    table = pa.table({"x": values})
    return [
        row[0] for row in rows(encoder(table, code, {"x": oid} if oid else {}, **kwargs).rows(0, len(values)))
    ]


@pytest.mark.parametrize("kind", VALUES)
def test_values_have_the_bytes_of_postgresql(kind: str) -> None:
    _, values, oid = VALUES[kind]
    captured = CAPTURED["values"][kind]
    found = wire_type(values.type, oid)
    assert (found.oid, found.length) == (captured["oid"], captured["size"])
    texts = [text.encode() for text, _ in captured["cells"]]
    binary = [bytes.fromhex(data) for _, data in captured["cells"]]
    assert cells(values, 0, oid) == texts
    assert cells(values, 1, oid) == binary
    # NULLs between the values, in a column of several chunks, and read from its middle.
    mixed = pa.chunked_array([pa.nulls(1, values.type), values, pa.nulls(2, values.type), values])
    column = pa.table({"x": mixed})
    for code, expected in ((0, texts), (1, binary)):
        known = [None, *expected, None, None, *expected]
        encoded = encoder(column, code, {"x": oid} if oid else {})
        assert [row[0] for row in rows(encoded.rows(0, len(known)))] == known
        assert [row[0] for row in rows(encoded.rows(1, 3))] == known[1:3]
        assert encoded.rows(len(known), len(known) + 5) == b""


@pytest.mark.parametrize("kind", ["float4", "float8"])
@pytest.mark.parametrize("digits", EXTRA_DIGITS)
def test_extra_float_digits_round_as_postgresql(kind: str, digits: int) -> None:
    _, values, _ = VALUES[kind]
    expected = [text.encode() for text in CAPTURED["floats"][f"{kind} {digits}"]]
    assert cells(values, 0, extra_float_digits=digits) == expected


def test_floats_read_back() -> None:
    numbers = np.random.default_rng(1).integers(0, 2**64, 5000, dtype=np.uint64).view(np.float64)
    texts = cells(pa.array(numbers), 0)
    read = np.array([float(text) for text in texts if text is not None])
    assert read.tobytes() == np.where(np.isnan(numbers), np.nan, numbers).tobytes()
    narrow = np.random.default_rng(2).integers(0, 2**32, 5000, dtype=np.uint32).view(np.float32)
    back = np.array([np.float32((text or b"").decode()) for text in cells(pa.array(narrow), 0)])
    assert np.array_equal(back, narrow, equal_nan=True)


@pytest.mark.parametrize(
    ("values", "oid", "texts"),
    [
        (pa.array([1], pa.uint8()), 21, ["1"]),
        (pa.array([1], pa.int8()), 21, ["1"]),
        (pa.array([2**16 - 1], pa.uint16()), 23, ["65535"]),
        (pa.array([2**32 - 1], pa.uint32()), 20, ["4294967295"]),
        (pa.array(["b", None]).dictionary_encode(), 25, ["b", None]),
        (pa.array([{"a": 1, "b": "ü"}, None]), 25, ['{"a": 1, "b": "ü"}', None]),
        (pa.array([[("k", 1.5)], []], pa.map_(pa.string(), pa.float64())), 25, ['{"k": 1.5}', "{}"]),
        (pa.array([[[1, 2], [3]], None]), 25, ["[[1, 2], [3]]", None]),
        (pa.array([{"x": float("nan"), "d": Decimal("1.50"), "t": datetime.date(2026, 1, 2)}]), 25,
         ['{"x": "nan", "d": "1.50", "t": "2026-01-02"}']),
        (pa.nulls(2), 25, [None, None]),
        (pa.array([1_999], pa.timestamp("ns")), 1114, ["1970-01-01 00:00:00.000001"]),
        (pa.array([-1], pa.timestamp("ns")), 1114, ["1969-12-31 23:59:59.999999"]),
        (pa.array([60], pa.timestamp("s")), 1114, ["1970-01-01 00:01:00"]),
        (pa.array([60], pa.timestamp("ms", "Europe/Zurich")), 1184, ["1970-01-01 00:00:00.06+00"]),
        (pa.array([61], pa.time32("s")), 1083, ["00:01:01"]),
        (pa.array([[1, 2]], pa.list_(pa.int32(), 2)), 1007, ["{1,2}"]),
        (pa.array([[1.5], None], pa.large_list(pa.float32())), 1021, ["{1.5}", None]),
        (pa.array(["x"], pa.string_view()), 25, ["x"]),
        (pa.array([Decimal("12345678901234567890123456789012345678.05")], pa.decimal256(60, 2)), 1700,
         ["12345678901234567890123456789012345678.05"]),
    ],
)  # fmt: skip
def test_arrow_types_without_a_twin(values: pa.Array, oid: int, texts: list[str | None]) -> None:
    assert wire_type(values.type).oid == oid
    assert cells(values, 0) == [None if text is None else text.encode() for text in texts]


def test_the_catalogue_names_types() -> None:
    regtypes = pa.array(["text", "int4"])
    assert (
        wire_type(pa.string(), 2206).name == "text"
    )  # names are sent as text, whichever format is asked for
    assert cells(regtypes, 1, 2206) == [b"text", b"int4"]
    assert wire_type(pa.uint32(), 26).name == "oid"
    assert wire_type(pa.int64(), 26).length == 4
    assert wire_type(pa.list_(pa.string()), 1003).name == "_name"
    assert wire_type(pa.string(), 23).name == "text"  # an OID that cannot hold the column is left aside
    assert wire_type(pa.string(), 999_999).name == "text"


def test_a_type_without_encoding_is_refused() -> None:
    with pytest.raises(UnsentType, match="cannot be sent") as error:
        wire_type(pa.duration("s"))
    assert error.value.sqlstate == "0A000"


def test_duckdb_types_are_sent() -> None:
    with duckdb.connect() as connection:
        table = connection.sql(
            "SELECT 1::HUGEINT AS h, 'a'::ENUM('a', 'b') AS e, 'infinity'::DATE AS d,"
            " '-infinity'::TIMESTAMP AS t, TIMESTAMPTZ '2020-01-01 00:00:00+01' AS z, 2::UBIGINT AS u,"
            " [1, NULL] AS l, MAP {'k': 1} AS m, NULL AS n"
        ).to_arrow_table()
    (found,) = rows(encoder(table).rows(0, 1))
    assert found == [
        *(
            b"1",
            b"a",
            b"infinity",
            b"-infinity",
            b"2019-12-31 23:00:00+00",
            b"2",
            b"{1,NULL}",
            b'{"k": 1}',
            None,
        )
    ]


def test_row_description() -> None:
    message = row_description([AnswerColumn("größe", pa.int64()), AnswerColumn("x", pa.string(), 19)], [0, 1])
    name = "größe".encode()
    fields = (
        name
        + b"\0"
        + struct.pack("!ihihih", 0, 0, 20, 8, -1, 0)
        + b"x\0"
        + struct.pack("!ihihih", 0, 0, 19, 64, -1, 1)
    )
    assert message == b"T" + struct.pack("!ih", len(fields) + 6, 2) + fields


@pytest.mark.parametrize("code", [0, 1])
def test_many_rows_have_the_bytes_of_single_rows(code: int) -> None:
    numbers = [None if i % 7 == 0 else i for i in range(300)]
    table = pa.table(
        {
            "n": pa.array(numbers, pa.int32()),
            "x": pa.array(numbers, pa.float64()),
            "text": [None if n is None else "ü" * (n % 5) for n in numbers],
            "d": pa.array(numbers, pa.int32()).cast(pa.date32()),
        }
    )
    encoded = encoder(table, code)
    single = [encoded.rows(i, i + 1) for i in range(300)]
    assert encoded.rows(0, 300) == b"".join(single)
    assert encoded.rows(100, 220) == b"".join(single[100:220])


def test_rows_without_columns() -> None:
    table = pa.table({"x": [1, 2]}).select([])
    assert rows(encoder(table).rows(0, 2)) == [[], []]


@pytest.mark.parametrize(
    ("codes", "count", "found"),
    [([], 3, (0, 0, 0)), ([1], 2, (1, 1)), ([0, 1], 2, (0, 1)), ([], 0, ()), ([1], 0, ())],
)
def test_format_codes(codes: list[int], count: int, found: tuple[int, ...]) -> None:
    assert format_codes(codes, count) == found


@pytest.mark.parametrize(("codes", "count"), [([0, 1], 3), ([2], 1), ([0, 0], 1)])
def test_wrong_format_codes(codes: list[int], count: int) -> None:
    with pytest.raises(ProtocolError) as error:
        format_codes(codes, count)
    assert error.value.sqlstate == "08P01"


def base_oid(kind: str) -> int:
    return int(CAPTURED["values"][kind]["oid"])


@pytest.mark.parametrize("kind", READ)
def test_texts_of_parameters_are_read_as_by_postgresql(kind: str) -> None:
    oid = base_oid(kind)
    for case in CAPTURED["read"][kind]:
        # PostgreSQL drops the offset of a timestamp without time zone, which is then another moment.
        dropped = kind == "timestamp" and "+" in case["text"]
        if "sqlstate" in case or dropped:
            with pytest.raises(ParameterError) as error:
                decode_parameter(case["text"].encode(), oid, 0)
            assert error.value.sqlstate == case.get("sqlstate", "22007"), case["text"]
        else:
            read = decode_parameter(case["text"].encode(), oid, 0)
            binary = decode_parameter(bytes.fromhex(case["binary"]), oid, 1)
            assert type(read) is type(binary), case["text"]
            assert shown(read) == shown(binary), case["text"]


def shown(value: object) -> str:
    """Return a text by which NaN equals itself and 1e5 is 100000."""
    return format(value, "f") if isinstance(value, Decimal) else repr(value)


PYTHON: dict[str, tuple[int, object]] = {
    "bool": (0, True),
    "int8": (1, -(2**63)),
    "float8": (4, 0.1),
    "numeric(38,4)": (7, Decimal("12345678901234567890.0000")),
    "numeric(20,7)": (0, Decimal("1E-7")),
    "text": (3, 'say "hi"'),
    "date": (3, datetime.date(1, 1, 1)),
    "time": (1, datetime.time(23, 59, 59, 999999)),
    "timestamp": (5, datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)),
    "timestamptz": (1, datetime.datetime(2000, 1, 1, 12, 34, 56, 789000, tzinfo=datetime.UTC)),
    "bytea": (1, b"\x00\xff\\'"),
    "int4[]": (0, [1, None, -3]),
    "bool[]": (0, [True, False, None]),
    "date[]": (0, [datetime.date(2026, 2, 28)]),
}


@pytest.mark.parametrize("kind", PYTHON)
def test_parameters_become_python_values(kind: str) -> None:
    place, value = PYTHON[kind]
    text, data = CAPTURED["values"][kind]["cells"][place]
    oid = base_oid(kind)
    assert decode_parameter(text.encode(), oid, 0) == value
    assert decode_parameter(bytes.fromhex(data), oid, 1) == value


def test_null_and_open_types() -> None:
    assert decode_parameter(None, 23, 1) is None
    assert decode_parameter(b"2020-01-01", 0, 0) == "2020-01-01"
    assert (parameter_type(0), parameter_type(705), parameter_type(701)) == (None, None, pa.float64())
    assert [parameter_oid(kind) for kind in (pa.int64(), pa.string(), pa.null())] == [20, 25, 25]
    assert parameter_oid(pa.decimal128(18, 3)) == 1700


def test_special_numbers() -> None:
    assert math.isnan(float(str(decode_parameter(bytes.fromhex("00000000c0000000"), 1700, 1))))
    assert decode_parameter(bytes.fromhex("00000000d0000000"), 1700, 1) == Decimal("Infinity")
    # A weight behind the scale: digits that are not shown are cut off.
    assert decode_parameter(struct.pack("!HhHHHH", 2, 0, 0, 2, 1, 2345), 1700, 1) == Decimal("1.23")


@pytest.mark.parametrize(
    ("data", "oid", "code", "sqlstate"),
    [
        (b"\xff", 25, 0, "22021"),
        (b"a\0b", 25, 1, "22021"),
        (b"\0\0\0", 23, 1, "22P03"),
        (b"\0" * 9, 701, 1, "22P03"),
        (b"\0\1", 1700, 1, "22P03"),
        (struct.pack("!HhHHH", 1, 0, 0, 0, 10_000), 1700, 1, "22P03"),
        (struct.pack("!HhHH", 0, 0, 0x1234, 0), 1700, 1, "22P03"),
        (struct.pack("!HhHH", 5, 0, 0, 0), 1700, 1, "22P03"),
        (struct.pack("!i", 2**31 - 1), 1082, 1, "22008"),
        (struct.pack("!q", -(2**63)), 1114, 1, "22008"),
        (struct.pack("!q", 86_400_000_000), 1083, 1, "22008"),
        (b"infinity", 1082, 0, "22007"),
        (b"0044-03-15 BC", 1082, 0, "22008"),
        (b"2026-02-28 23:59:00", 1082, 0, "22007"),
        (b"12:00:00.1234567", 1083, 0, "22008"),
        (b"9999-12-31 23:00:00-05", 1184, 0, "22008"),
        (b"2020-01-01 00:00:00+16", 1184, 0, "22009"),
        (struct.pack("!iii", 1, 0, 25), 1007, 1, "22P03"),
        (struct.pack("!iiiii", 2, 0, 23, 1, 1), 1007, 1, "22P03"),
        (struct.pack("!iiiii", 1, 0, 23, 1, 1), 1007, 1, "22P03"),
        (struct.pack("!iiiii", 1, 0, 23, -1, 1), 1007, 1, "22P03"),
        (struct.pack("!iiiii", 1, 0, 23, 2**31 - 1, 1), 1007, 1, "22P03"),
        (struct.pack("!iiiiii", 1, 0, 23, 1, 1, -2), 1007, 1, "22P03"),
        (struct.pack("!iiiii", 1, 0, 23, 0, 1) + b"x", 1007, 1, "22P03"),
        (b"{{1},{2}}", 1007, 0, "22P02"),
        (b"{" + b"1," * 10_000 + b"1}", 1007, 0, "22P02"),
        (b"1", 1186, 0, "0A000"),
        (b"1", 999_999, 0, "0A000"),
        (b"x", 3802, 0, "0A000"),
        (b"1 2", 22, 0, "0A000"),
    ],
)  # fmt: skip
def test_parameters_that_are_refused(data: bytes, oid: int, code: int, sqlstate: str) -> None:
    with pytest.raises(ParameterError) as error:
        decode_parameter(data, oid, code)
    assert error.value.sqlstate == sqlstate


def test_a_long_parameter_is_shortened_in_its_error() -> None:
    with pytest.raises(ParameterError) as error:
        decode_parameter(b"x" * 1000, 23, 0)
    assert len(str(error.value)) < 120


@given(st.binary(max_size=60) | st.text("0123456789.-+:eE {},NaTZ\\x'\"", max_size=30).map(str.encode))
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    for oid in TYPES:
        for code in (0, 1):
            # Anything but this error, or a value, fails the test.
            with suppress(ParameterError):
                decode_parameter(data, oid, code)


@given(
    st.lists(
        st.none()
        | st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=7),
        max_size=8,
    )
)
def test_numerics_read_back(numbers: list[Decimal | None]) -> None:
    values = pa.array(numbers, pa.decimal128(30, 7))
    for code in (0, 1):
        read = [decode_parameter(cell, 1700, code) for cell in cells(values, code)]
        assert read == numbers


@given(
    st.lists(
        st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), max_size=8
    )
)
def test_arrays_of_texts_read_back(texts: list[str | None]) -> None:
    values = pa.array([texts, None, texts], pa.list_(pa.string()))
    for code in (0, 1):
        read = [decode_parameter(cell, 1009, code) for cell in cells(values, code)]
        assert read == [texts, None, texts]


@given(st.lists(st.none() | st.datetimes(), max_size=8))
def test_timestamps_read_back(moments: list[datetime.datetime | None]) -> None:
    values = pa.array(moments, pa.timestamp("us"))
    for code in (0, 1):
        read = [decode_parameter(cell, 1114, code) for cell in cells(values, code)]
        assert read == moments
