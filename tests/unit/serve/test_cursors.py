"""Cursors read a finished result by position, as PostgreSQL does."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from dpsql.errors import QueryRefused
from dpsql.serve.answers import AnswerColumn
from dpsql.serve.wire.command_words import Declare, Fetch
from dpsql.serve.wire.commands import read_command
from dpsql.serve.wire.portals import CursorError, Cursors

COLUMNS = [AnswerColumn("n", pa.int64())]


def declared(text: str = "c CURSOR FOR SELECT 1") -> Declare:
    found = read_command(f"DECLARE {text}")
    assert isinstance(found, Declare)
    return found


def opened(text: str = "c CURSOR FOR SELECT 1", rows: int = 5) -> Cursors:
    cursors = Cursors()
    cursors.declare(declared(text), COLUMNS, pa.table({"n": range(1, rows + 1)}), in_transaction=True)
    return cursors


def read(cursors: Cursors, text: str) -> tuple[list[int], str]:
    found = read_command(text)
    assert isinstance(found, Fetch)
    fetched = cursors.fetch(found)
    return [] if fetched.table is None else fetched.table.column("n").to_pylist(), fetched.tag


def test_rows_are_read_forward_as_postgresql_reads_them() -> None:
    # The answers of PostgreSQL 15 to the same sequence over generate_series(1, 5).
    cursors = opened()
    for text, rows in (
        ("FETCH NEXT FROM c", [1]),
        ("FETCH 2 FROM c", [2, 3]),
        ("FETCH FORWARD 1 FROM c", [4]),
        ("FETCH FORWARD ALL FROM c", [5]),
        ("FETCH NEXT FROM c", []),
        ("FETCH ALL FROM c", []),
    ):
        assert read(cursors, text) == (rows, f"FETCH {len(rows)}"), text
    assert read(opened(), "FETCH 99 FROM c") == ([1, 2, 3, 4, 5], "FETCH 5")


def test_move_counts_the_rows_it_passes() -> None:
    cursors = opened()
    assert read(cursors, "MOVE 2 FROM c") == ([], "MOVE 2")
    assert read(cursors, "FETCH c") == ([3], "FETCH 1")
    assert read(cursors, "MOVE ALL FROM c") == ([], "MOVE 2")
    assert read(cursors, "MOVE 1 FROM c") == ([], "MOVE 0")


def test_an_empty_result() -> None:
    cursors = opened(rows=0)
    assert read(cursors, "FETCH ALL FROM c") == ([], "FETCH 0")
    assert read(cursors, "FETCH 3 FROM c") == ([], "FETCH 0")


@pytest.mark.parametrize(
    "what", ["PRIOR", "FIRST", "LAST", "ABSOLUTE 2", "RELATIVE 1", "BACKWARD ALL", "-2", "0"]
)
@pytest.mark.parametrize("verb", ["FETCH", "MOVE"])
def test_what_reads_backward_is_refused_with_what_reads_on(verb: str, what: str) -> None:
    with pytest.raises(QueryRefused) as error:
        read_command(f'{verb} {what} FROM "c d"')
    assert (error.value.col, error.value.sqlstate) == (len(verb) + 2, "0A000")
    first, second = re.findall(r'(?:FETCH|MOVE) \d+ FROM "[^"]*"', error.value.hint or "")
    assert (read_command(first), read_command(second)) == (Fetch("c d", 10), Fetch("c d", 10, move=True))


def test_a_cursor_that_scrolls_is_refused_before_its_statement_is_charged() -> None:
    with pytest.raises(QueryRefused) as error:
        read_command("DECLARE c SCROLL CURSOR FOR SELECT 1")
    assert error.value.col == 11
    assert isinstance(read_command((error.value.hint or "").replace("...", "1")), Declare)
    assert declared("c NO SCROLL CURSOR FOR SELECT 1").query == "SELECT 1"


def test_columns_and_format() -> None:
    cursors = opened("c BINARY CURSOR FOR SELECT 1")
    fetched = cursors.fetch(Fetch("c"))
    assert (fetched.columns, fetched.binary) == (tuple(COLUMNS), True)
    assert cursors.columns("c") == tuple(COLUMNS)
    assert cursors.is_binary("c")
    assert "c" in cursors
    assert "d" not in cursors
    (row,) = cursors.rows()
    assert (row.name, row.statement) == ("c", "DECLARE c BINARY CURSOR FOR SELECT 1")
    assert (row.hold, row.binary, row.scroll) == (False, True, False)


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
        lambda: cursors.is_binary("c"),
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
