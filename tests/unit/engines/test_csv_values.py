"""Numbers and dates of CSV files: what their format says is read as that, and anything else as no value."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.engines.duckdb.source_files import common_text
from dpsql.owner import verify
from dpsql.policy import CsvFormat, load
from dpsql.types import column_type

GERMAN = CsvFormat(decimal=",", thousands=".", date="DD.MM.YYYY")
US = CsvFormat(thousands=",", date="MM/DD/YYYY")
SWISS = CsvFormat(thousands="'", date="YYYY.MM.DD")


def read(text: str | None, kind: str, form: CsvFormat) -> object:
    """Return what a cell is read as."""
    cell = common_text("x", column_type(kind), form)
    asked = f"SELECT TRY_CAST({cell} AS {kind}) FROM (SELECT ?::VARCHAR AS x)"
    ((value,),) = duckdb.execute(asked, [text]).fetchall()
    return value


@pytest.mark.parametrize(
    ("text", "kind", "form", "value"),
    [
        ("31.12.2024", "DATE", GERMAN, date(2024, 12, 31)),
        (" 1.2.2024", "DATE", GERMAN, date(2024, 2, 1)),
        ("31.12.2024 10:30", "TIMESTAMP", GERMAN, datetime(2024, 12, 31, 10, 30)),
        ("31.12.2024T10:30:05", "TIMESTAMP", GERMAN, datetime(2024, 12, 31, 10, 30, 5)),
        ("12/31/2024", "DATE", US, date(2024, 12, 31)),
        ("2024.12.31", "DATE", SWISS, date(2024, 12, 31)),
        ("1.234,50", "DOUBLE", GERMAN, 1234.5),
        ("1234,5", "DOUBLE", GERMAN, 1234.5),
        ("-1.000.000", "BIGINT", GERMAN, -1_000_000),
        ("1,234.5", "DECIMAL(9,2)", US, Decimal("1234.50")),
        ("1'000", "INTEGER", SWISS, 1000),
        ("12", "INTEGER", SWISS, 12),
        (None, "DATE", GERMAN, None),
        (None, "DOUBLE", GERMAN, None),
    ],
)
def test_a_value_is_read_as_its_format_says(text: str, kind: str, form: CsvFormat, value: object) -> None:
    assert read(text, kind, form) == value


@pytest.mark.parametrize(
    ("text", "kind", "form"),
    [
        ("2024-12-31", "DATE", GERMAN),
        ("12/31/2024", "DATE", GERMAN),
        ("12.31.2024", "DATE", GERMAN),
        ("31.12.20245", "DATE", GERMAN),
        ("1/2/20245", "DATE", US),
        ("31.12.24", "DATE", GERMAN),
        ("?31.12.2024", "DATE", GERMAN),
        ("1.23", "DOUBLE", GERMAN),
        ("1.2345", "BIGINT", GERMAN),
        ("12.34.567", "BIGINT", GERMAN),
        (".123", "BIGINT", GERMAN),
        ("1,5,0", "DOUBLE", GERMAN),
        ("1.234.5", "DOUBLE", US),
        ("1 000", "BIGINT", SWISS),
    ],
)
def test_a_text_in_another_format_is_no_value(text: str, kind: str, form: CsvFormat) -> None:
    assert read(text, kind, form) is None


@settings(deadline=None)
@given(st.dates(min_value=date(1000, 1, 1)), st.sampled_from(["DD.MM.YYYY", "MM/DD/YYYY", "YYYY-DD-MM"]))
def test_any_day_in_any_order_is_that_day(day: date, order: str) -> None:
    form = order.replace("DD", "%d").replace("MM", "%m").replace("YYYY", "%Y")
    assert read(day.strftime(form), "DATE", CsvFormat(date=order)) == day


TEXTS = st.text(max_size=12) | st.text("0123456789.,'/- ", max_size=12)


@settings(deadline=None, max_examples=15)
@given(TEXTS, st.sampled_from([GERMAN, US, SWISS]))
def test_no_text_fails_or_is_another_number(text: str, form: CsvFormat) -> None:
    no_failure(text, form)


@pytest.mark.slow
@settings(deadline=None, max_examples=1000)
@given(TEXTS, st.sampled_from([GERMAN, US, SWISS]))
def test_none_of_many_texts_fails_or_is_another_number(text: str, form: CsvFormat) -> None:
    no_failure(text, form)


def no_failure(text: str, form: CsvFormat) -> None:
    for kind in ("DATE", "TIMESTAMP", "BIGINT", "DOUBLE"):
        found = read(text, kind, form)
        if (
            kind == "BIGINT"
            and isinstance(found, int)
            and "e" not in text.lower()
            and form.decimal not in text
        ):
            plain = text.strip().replace(form.thousands, "").lstrip("+")
            assert int(plain) == found


def test_check_says_how_a_format_is_declared(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("u;d;x\n1;31.12.2024;1.234,50\n2;01.02.2024;2,5\n", "utf-8")
    policy = tmp_path / "dpsql.toml"
    text = """[budget]
epsilon = 1
[tables.t]
source = "t.csv"
unit = "u"
columns = { u = "BIGINT", d = "DATE", x = "DOUBLE" }
[tables.t.csv]
delimiter = ";"
"""
    policy.write_text(text, "utf-8")
    wrong = {f.place: f.text for f in verify(load(policy)).findings if f.level == "wrong"}
    assert wrong["tables.t.columns.d"].endswith('[tables.t.csv] date = "DD.MM.YYYY" reads 31.12.2024')
    assert wrong["tables.t.columns.x"].endswith('decimal = "," and thousands = "." read 1.234,50')
    policy.write_text(text + 'decimal = ","\n', "utf-8")
    wrong = {f.place: f.text for f in verify(load(policy)).findings if f.level == "wrong"}
    assert wrong["tables.t.columns.x"].endswith(
        """'1.234,50' in row 1; [tables.t.csv] thousands = "." reads 1.234,50"""
    )
    policy.write_text(text + 'date = "DD.MM.YYYY"\ndecimal = ","\nthousands = "."\n', "utf-8")
    assert not [f for f in verify(load(policy)).findings if f.level == "wrong"]
