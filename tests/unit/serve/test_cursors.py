"""Cursors read a finished result by position, as PostgreSQL does."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pytest

from dpsql.serve.wire.command_types import Declare, Fetch
from dpsql.serve.wire.commands import command
from dpsql.serve.wire.cursors import CursorError, Cursors


class Column(NamedTuple):
    name: str
    type: pa.DataType
    oid: int | None = None


COLUMNS = [Column("n", pa.int64())]


def declared(text: str = "c CURSOR FOR SELECT 1") -> Declare:
    found = command(f"DECLARE {text}")
    assert isinstance(found, Declare)
    return found


def opened(text: str = "c CURSOR FOR SELECT 1", rows: int = 5) -> Cursors:
    cursors = Cursors()
    cursors.declare(declared(text), COLUMNS, pa.table({"n": range(1, rows + 1)}), in_transaction=True)
    return cursors


def read(cursors: Cursors, text: str) -> tuple[list[int], str]:
    found = command(text)
    assert isinstance(found, Fetch)
    fetched = cursors.fetch(found)
    return fetched.table.column("n").to_pylist(), fetched.tag


def test_positions_are_those_of_postgresql() -> None:
    # The answers of PostgreSQL 15 to the same sequence over generate_series(1, 5), with SCROLL.
    cursors = opened("c SCROLL CURSOR FOR SELECT 1")
    for text, rows in (
        ("FETCH 0 FROM c", []),
        ("FETCH NEXT FROM c", [1]),
        ("FETCH 2 FROM c", [2, 3]),
        ("FETCH 0 FROM c", [3]),
        ("FETCH RELATIVE 0 FROM c", [3]),
        ("FETCH BACKWARD 2 FROM c", [2, 1]),
        ("FETCH PRIOR FROM c", []),
        ("FETCH FORWARD ALL FROM c", [1, 2, 3, 4, 5]),
        ("FETCH NEXT FROM c", []),
        ("FETCH PRIOR FROM c", [5]),
        ("FETCH ABSOLUTE 2 FROM c", [2]),
        ("FETCH ABSOLUTE -2 FROM c", [4]),
        ("FETCH ABSOLUTE 9 FROM c", []),
        ("FETCH BACKWARD ALL FROM c", [5, 4, 3, 2, 1]),
        ("FETCH FIRST FROM c", [1]),
        ("FETCH LAST FROM c", [5]),
        ("FETCH RELATIVE -3 FROM c", [2]),
        ("FETCH RELATIVE -9 FROM c", []),
        ("FETCH 2 FROM c", [1, 2]),
        ("FETCH 3 FROM c", [3, 4, 5]),
        ("FETCH BACKWARD 1 FROM c", [4]),
        ("FETCH ABSOLUTE 0 FROM c", []),
        ("FETCH 99 FROM c", [1, 2, 3, 4, 5]),
        ("FETCH BACKWARD 1 FROM c", [5]),
        ("FETCH ABSOLUTE -9 FROM c", []),
        ("FETCH FORWARD 1 FROM c", [1]),
    ):
        assert read(cursors, text) == (rows, f"FETCH {len(rows)}"), text


def test_move_counts_the_rows_it_passes() -> None:
    cursors = opened()
    assert read(cursors, "MOVE 2 FROM c") == ([], "MOVE 2")
    assert read(cursors, "FETCH c") == ([3], "FETCH 1")
    assert read(cursors, "MOVE ALL FROM c") == ([], "MOVE 2")
    assert read(cursors, "MOVE ABSOLUTE 4 FROM c") == ([], "MOVE 1")


def test_an_empty_result() -> None:
    cursors = opened(rows=0)
    assert read(cursors, "FETCH ALL FROM c") == ([], "FETCH 0")
    assert read(cursors, "FETCH LAST FROM c") == ([], "FETCH 0")
    assert read(cursors, "FETCH BACKWARD ALL FROM c") == ([], "FETCH 0")


def test_no_scroll_reads_forward_only() -> None:
    cursors = opened("c NO SCROLL CURSOR FOR SELECT 1")
    assert read(cursors, "FETCH 2 FROM c")[0] == [1, 2]
    with pytest.raises(CursorError) as error:
        read(cursors, "FETCH PRIOR FROM c")
    assert error.value.sqlstate == "55000"
    assert read(cursors, "FETCH ALL FROM c")[0] == [3, 4, 5]


def test_columns_and_format() -> None:
    cursors = opened("c BINARY CURSOR FOR SELECT 1")
    fetched = cursors.fetch(Fetch("c"))
    assert (fetched.columns, fetched.binary) == (tuple(COLUMNS), True)
    assert cursors.columns("c") == tuple(COLUMNS)
    assert cursors.binary("c")
    assert "c" in cursors
    assert "d" not in cursors
    (row,) = cursors.rows()
    assert (row.name, row.statement) == ("c", "DECLARE c BINARY CURSOR FOR SELECT 1")
    assert (row.hold, row.binary, row.scroll) == (False, True, True)


def failing(cursors: Cursors, command: Declare, *, in_transaction: bool = True) -> str:
    with pytest.raises(CursorError) as error:
        cursors.check(command, in_transaction=in_transaction)
    return error.value.sqlstate


def test_what_cannot_be_declared() -> None:
    cursors = opened()
    assert failing(cursors, declared()) == "42P03"
    assert failing(cursors, declared("d CURSOR FOR SELECT 1"), in_transaction=False) == "25P01"
    cursors.check(declared("d CURSOR WITH HOLD FOR SELECT 1"), in_transaction=False)
    few = Cursors(most=1)
    few.declare(declared(), COLUMNS, pa.table({"n": [1]}), in_transaction=True)
    assert failing(few, declared("d CURSOR FOR SELECT 1")) == "54000"
    small = Cursors(most_bytes=10)
    small.declare(declared(), COLUMNS, pa.table({"n": [1, 2]}), in_transaction=True)
    assert failing(small, declared("d CURSOR FOR SELECT 1")) == "54000"


def test_unknown_cursors() -> None:
    cursors = opened()
    cursors.close("c")
    for use in (
        lambda: cursors.fetch(Fetch("c")),
        lambda: cursors.close("c"),
        lambda: cursors.columns("c"),
        lambda: cursors.binary("c"),
    ):
        with pytest.raises(CursorError) as error:
            use()
        assert error.value.sqlstate == "34000"
    cursors.close(None)
    assert cursors.rows() == ()


def names(cursors: Cursors) -> list[str]:
    return [row.name for row in cursors.rows()]


def test_transactions_end_cursors() -> None:
    cursors = opened()
    hold = declared("h CURSOR WITH HOLD FOR SELECT 1")
    table = pa.table({"n": [1]})
    cursors.declare(hold, COLUMNS, table, in_transaction=True)
    cursors.end_transaction(committed=True)
    assert names(cursors) == ["h"]
    cursors.end_transaction(committed=False)  # a later transaction: h is committed
    assert names(cursors) == ["h"]
    cursors.declare(declared("i CURSOR WITH HOLD FOR SELECT 1"), COLUMNS, table, in_transaction=True)
    cursors.end_transaction(committed=False)
    assert names(cursors) == ["h"]
