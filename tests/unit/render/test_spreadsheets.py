"""CSV for spreadsheets: no text of a group or of a name is computed as a formula."""

from __future__ import annotations

import csv
import datetime
import io

import pyarrow as pa
import pytest

from dpsql.render.data import write_csv

FORMULAS = ["=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "\n=1", '=HYPERLINK("x","y")', "\uff1d1"]
PLAIN = ["a=1", "1-2", "", "'x", "x@y", " x"]


def written(table: pa.Table, *, spreadsheet: bool) -> list[list[str]]:
    out = io.BytesIO()
    write_csv(table, out, spreadsheet=spreadsheet)
    return list(csv.reader(io.StringIO(out.getvalue().decode(), newline="")))


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_that_would_be_computed_begins_with_an_apostrophe(text: str) -> None:
    table = pa.table({text: [text]})
    assert written(table, spreadsheet=True) == [[f"'{text}"], [f"'{text}"]]
    assert written(table, spreadsheet=False) == [[text], [text]]
    out = io.BytesIO()
    write_csv(table, out, spreadsheet=True)
    assert out.getvalue().startswith(b"\"'")


@pytest.mark.parametrize("text", PLAIN)
def test_other_texts_stay(text: str) -> None:
    table = pa.table({"t": [text], "n": [1]})
    assert written(table, spreadsheet=True) == written(table, spreadsheet=False) == [["t", "n"], [text, "1"]]


def test_numbers_and_days_stay() -> None:
    table = pa.table({"i": [-1], "f": [-1.5], "d": [datetime.date(2024, 1, 31)], "b": [True], "n": [None]})
    assert written(table, spreadsheet=True)[1] == ["-1", "-1.5", "2024-01-31", "true", ""]
