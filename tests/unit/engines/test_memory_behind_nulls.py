"""What an engine left in memory behind a NULL, which no answer has: it may be of private rows."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from dpsql.engines.public_queries import fetch_rows, without_remains
from dpsql.engines.worker import ResultLimit
from dpsql.kernel.key_columns import clear_nulls, pick_rows

SECRET = 0x5EC4E7


def behind(column: pa.Array) -> list[int]:
    """The numbers that lie in memory, NULL or not."""
    found = np.frombuffer(column.buffers()[1], dtype=np.int64)
    return [int(n) for n in found[column.offset :][: len(column)]]


def left_behind() -> pa.Array:
    values = pa.py_buffer(np.array([1, SECRET, 3], dtype=np.int64).tobytes())
    return pa.Array.from_buffers(pa.int64(), 3, [pa.py_buffer(b"\x05"), values])


@pytest.mark.parametrize("size", [2, 2000])
def test_released_keys(size: int) -> None:
    column = pa.chunked_array([left_behind(), left_behind()])
    rows = np.resize(np.array([4, 0]), size)
    found = pick_rows(column, rows)
    assert found.to_pylist() == [None, 1] * (size // 2)
    assert behind(found) == [0, 1] * (size // 2)


@pytest.mark.parametrize("size", [3, 3000])
@pytest.mark.parametrize(
    "column",
    [
        pa.array(["x", None, "it's"]),
        pa.array(["x", None, "x"]).dictionary_encode(),
        pa.array([[1], None, [2, None]]),
        pa.array([{"a": 1}, None, {"a": None}]),
        pa.array([True, None, False]),
        pa.nulls(3),
    ],
    ids=lambda column: str(column.type),
)
def test_values_stay(column: pa.Array, size: int) -> None:
    """Also of a part of an array, and where more NULLs are cleared at once."""
    whole = pa.concat_arrays([column] * (size // 3))
    for array in (whole, whole.slice(1), whole.slice(1, 1), whole.slice(0, 0)):
        found = clear_nulls(array)
        found.validate(full=True)
        assert (found.type, found.to_pylist()) == (array.type, array.to_pylist())
    assert behind(clear_nulls(pa.concat_arrays([left_behind()] * size).slice(1))) == ([0, 3, 1] * size)[:-1]


def test_rows_of_public_queries() -> None:
    assert behind(without_remains(pa.table({"x": left_behind()})).column("x").chunk(0)) == [1, 0, 3]
    # DuckDB leaves hashes and addresses behind these NULLs.
    value = f"MAX(CASE WHEN i % 2 = 0 THEN NULL ELSE i + {SECRET} END)"
    sql = f"SELECT {value} AS x FROM range(1000) t(i) GROUP BY i ORDER BY i"
    with duckdb.connect() as connection:
        for limit in (None, ResultLimit(10_000, 1 << 20)):
            (found,) = fetch_rows(connection.cursor(), sql, limit).column("x").chunks
            assert behind(found) == [i % 2 and i + SECRET for i in range(1000)]
