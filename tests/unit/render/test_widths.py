"""Tables fit their width; statements keep what tells them apart; long SQL loses its middle."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.render.data import round_rows
from dpsql.render.grid import Style, shorten, width
from dpsql.render.table import as_table

CLINICS = [f"Clinic {letter}" for letter in "ABCDEF"]
ASKED = [
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)\n  clinic, COUNT(DISTINCT patient_id) AS n "
    f"FROM visits WHERE clinic <> '{clinic}' AND visit_date >= DATE '2024-01-01' GROUP BY clinic TOP 3"
    for clinic in CLINICS
]


def releases(statements: list[str]) -> pa.Table:
    size = len(statements)
    when = datetime(2026, 5, 17, 12, 30, 7, tzinfo=UTC).isoformat(" ", "seconds")
    columns = {
        "number": pa.array(range(1, size + 1), pa.int64()),
        "when": [when] * size,
        "selection": ["top-3"] * size,
        "epsilon": ["0.5"] * size,
        "part": pa.array([None] * size, pa.string()),
        "statement": statements,
    }
    return pa.table(columns)


@pytest.mark.parametrize("columns", [70, 80, 100, 120])
def test_listed_statements_can_be_told_apart(columns: int) -> None:
    lines = as_table(releases(ASKED), None, Style(columns)).splitlines()
    assert {len(line) for line in lines} == {columns} or max(map(len, lines)) <= columns
    for clinic, line in zip(CLINICS, lines[3:-1], strict=True):
        assert f" {clinic[-1]}'" in line
        assert "2026-05-17 12:30 " in line
        assert "DIFFERENTIAL_PRIVACY" not in line
    assert "NULL" not in "".join(lines)


WORDS = st.lists(st.text("ab(*)'日", min_size=1, max_size=12), min_size=1, max_size=30).map(" ".join)


@given(statements=st.lists(WORDS, min_size=1, max_size=4), cells=st.integers(2, 60))
def test_a_shortened_statement_fits_and_keeps_its_ends(statements: list[str], cells: int) -> None:
    for statement, short in zip(statements, shorten(statements, cells), strict=True):
        words = statement.split()
        assert width(short) <= cells
        if width(" ".join(words)) <= cells:
            assert short == " ".join(words)
        elif width(f"{words[0]} … {words[-1]}") <= cells:
            assert short.startswith(words[0] + " ")
            assert short.endswith(" " + words[-1])


VALUES = st.lists(st.text(st.characters(codec="utf-8"), max_size=60), min_size=2, max_size=2)


@given(columns=st.lists(VALUES, min_size=1, max_size=12), cells=st.integers(20, 130))
def test_a_table_of_texts_fits_any_width(columns: list[list[str]], cells: int) -> None:
    rows = pa.table({f"column_{i}": texts for i, texts in enumerate(columns)})
    for line in as_table(rows, None, Style(cells)).splitlines():
        assert width(line) <= cells


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_long_sql_of_an_explanation_loses_its_middle(columns: int) -> None:
    sql = " ".join(f"word{i}" for i in range(400))
    rows = pa.table({"property": ["guarantee", "compiled_sql"], "value": ["long " * 80, sql]})
    lines = as_table(rows, None, Style(columns)).splitlines()
    assert max(map(len, lines)) <= columns
    drawn = "\n".join(lines)
    assert drawn.count("long") == 80
    assert "word0 " in drawn
    assert "word399" in drawn
    assert "word200" not in drawn
    assert "EXPLAIN (FORMAT JSON) has all" in " ".join(drawn.replace("│", " ").split())


def test_numbers_that_the_statement_asks_for_are_rounded_too(fakes: SimpleNamespace) -> None:
    release = fakes.top_k(3)
    renamed = release.rows.append_column("spread", release.table.column("n_stddev"))
    found = round_rows(renamed.append_column("other", pa.array([1.25, 2.5, 3.75])), release)
    assert found.column("spread").to_pylist() == [21.0, 21.0, 21.0]
    assert found.column("other").to_pylist() == [1.25, 2.5, 3.75]
