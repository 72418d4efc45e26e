"""Groups are sorted here by public values, whatever the order in which an engine returns them."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dpsql.errors import InternalError
from dpsql.kernel.changes import NumberChange, UnitChanges
from dpsql.kernel.public_order import ranks, sort_rows
from tests.narrow import present
from tests.support.exact import exact_of, made_up, with_exact

VALUES = [
    pa.array(["B", "a", "z", "É"]),
    pa.array([-3, 0, 2, 10**15]),
    pa.array([0, 1, 200, 255], pa.uint8()),
    pa.array([-1.5, 0.0, 3.0, float("nan")]),
    pa.array([b"", b"\x00", b"a", b"\xff"]),
    pa.array([datetime.date(2024, 1, day) for day in (1, 2, 3, 4)]),
    pa.array([datetime.datetime(1960, 1, day) for day in (1, 2, 3, 4)]),
    pa.array([Decimal("-0.5"), Decimal(0), Decimal("0.5"), Decimal(3)]),
    pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3], pa.uint8()), ["y", "x", "b", "a"]),
]


@pytest.mark.parametrize("values", VALUES, ids=lambda values: str(values.type))
def test_rows_are_sorted_by_value_in_any_order_they_come_in(values: pa.Array) -> None:
    for seed in range(10):
        came = np.random.default_rng(seed).permutation(4)
        taken = [values.slice(i, 1) for i in came.tolist()]
        for descending in (False, True):
            rows = sort_rows(4, [(pa.chunked_array(taken), descending)])
            assert rows is not None
            expected = np.arange(4)[::-1] if descending else np.arange(4)
            assert came[rows].tolist() == expected.tolist()


def test_later_columns_decide_between_equal_values() -> None:
    first, second = pa.chunked_array([["b", "a", "b", "a"]]), np.array([0, 1, 2, 3])
    assert np.array_equal(np.array(sort_rows(4, [(first, False), (second, True)])), [3, 1, 2, 0])
    assert np.array_equal(np.array(sort_rows(4, [(first, True), (second, False)])), [0, 2, 1, 3])


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["é", None, "z", "", "é", "😀", "\uffff", "Z"]),
        pa.array(["b", None, "a"], pa.large_string()),
        pa.array([3, None, -(1 << 63), 3, 0]),
        pa.array([True, None, False, True]),
        pa.array([None, 2**31 - 2, -(2**31) + 2, 0], pa.int32()).cast(pa.date32()),
        pa.array([], pa.string()),
        pa.array([None, None], pa.string()),
    ],
    ids=lambda values: str(values.type),
)
def test_few_values_have_the_ranks_that_arrow_gives(values: pa.Array) -> None:
    found = ranks(pa.chunked_array([values]))
    assert found.tolist() == pc.rank(values, tiebreaker="dense").to_pylist()
    assert found.dtype == np.int64


def test_equal_rows_have_no_order() -> None:
    assert sort_rows(3, [(np.array([1, 2, 1]), False)]) is None
    assert sort_rows(3, [(pa.chunked_array([["a"], ["b", "a"]]), False)]) is None
    assert sort_rows(2, []) is None
    for size in (0, 1):
        rows = sort_rows(size, [])
        assert rows is not None
        assert len(rows) == size


def test_one_enum_has_one_list_of_values() -> None:
    chunks = [pa.array(["a"]).dictionary_encode(), pa.array(["b"]).dictionary_encode()]
    with pytest.raises(ValueError, match="one list"):
        sort_rows(2, [(pa.chunked_array(chunks), False)])


def test_counts_of_groups_that_come_twice_are_refused() -> None:
    keys, n = pa.table({"k0": ["a", "b"]}), (np.array([5, 6]),)
    counts = made_up(keys, n, UnitChanges((NumberChange(0, 1),)))
    order = (("o0", False),)
    placed = with_exact(counts, order=order, places={"o0": np.array([1, 0])})
    rows, ordered = exact_of(placed).counts_in_order(0)
    assert present(rows).tolist() == [1, 0]
    assert np.asarray(ordered.values).tolist() == [6, 5]
    with pytest.raises(InternalError, match="same place"):
        exact_of(with_exact(counts, order=order, places={"o0": np.array([1, 1])})).counts_in_order(0)
    with pytest.raises(InternalError, match="no public order"):
        exact_of(counts).counts_in_order(0)
