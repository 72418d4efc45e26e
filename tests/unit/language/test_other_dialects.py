"""Statements are read as other dialects do: what they lose is no reading."""

from __future__ import annotations

import pytest

from dpsql.language.other_dialects import read_as_others


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("SELECT date_parse('2024', '%Y') FROM t", "SELECT STRPTIME('2024', '%Y') FROM t"),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) # all\nFROM t",
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM t",
        ),
    ],
)
def test_the_first_reading(text: str, written: str) -> None:
    assert next(read_as_others(text))[0] == written


@pytest.mark.parametrize("text", ["SELECT a FROM t", "DELETE FROM t", "SHOW", "SELECT '", ""])
def test_what_is_no_other_query_has_no_reading(text: str) -> None:
    assert list(read_as_others(text)) == []


def test_a_reading_keeps_the_texts() -> None:
    readings = read_as_others("SELECT DATE(at, 'America/New_York') FROM t")
    assert all("America/New_York" in written for written, _ in readings)


def test_a_format_of_percents_is_none_of_letters() -> None:
    readings = read_as_others("SELECT DATE_FORMAT(at, '%Y-%m-01') FROM t")
    assert all("%%" not in written for written, _ in readings)
