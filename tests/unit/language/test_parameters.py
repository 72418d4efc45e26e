"""Parameters: literals before anything is parsed, so that no value can carry SQL."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from dpsql.errors import ProgrammingError, QueryRefused, QuerySyntaxError
from dpsql.language import copy_parameters, parse
from tests.unit.language.test_language import options_of, query_of, with_options

COUNT = "COUNT(DISTINCT user_id) AS n"


Parameters = Sequence[object] | Mapping[str, object] | None


@pytest.mark.parametrize(
    ("condition", "written"),
    [
        ("a IN ($1,$2)", "a IN ('x', 7)"),
        ("a = $1||$2", "a = 'x' || 7"),
        ("a=$1 AND b>$2::INT", "a = 'x' AND b > CAST(7 AS INT)"),
        ("a = '$1,$2' AND b IN ($1,$2)", "a = '$1,$2' AND b IN ('x', 7)"),
        ("a = $t$; $1,$2 $t$ AND b IN ($1,$2)", "a = '; $1,$2 ' AND b IN ('x', 7)"),
        ("a = 1 /* $1,$2 */ AND b IN ($1,$2) -- $1,$2", "a = 1 AND b IN ('x', 7)"),
    ],
)
def test_parameters_need_no_space_behind_them(condition: str, written: str) -> None:
    found = query_of(f"SELECT code FROM diagnoses WHERE {condition}", ["x", 7]).tree.args["where"].this
    assert found.sql("duckdb", comments=False) == written


def test_texts_with_escapes_are_no_parameters() -> None:
    found = query_of(r"SELECT code FROM diagnoses WHERE a = E'\' $1,$2' AND b IN ($1,$2)", ["x", 7])
    assert {each.this for each in found.tree.find_all(exp.Literal, exp.ByteString)} == {"' $1,$2", "x", "7"}


def test_places_in_errors_are_those_of_the_text_as_it_was_written() -> None:
    text = "SELECT code FROM diagnoses WHERE code IN ($1,$2,$1,$2) AND nested..name = 1"
    with pytest.raises(QuerySyntaxError) as problem:
        parse(text, ["x", "y"])
    assert problem.value.col == text.index("..") + 2


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (5, "5"),
        (-5, "(-5)"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (Decimal("0.70"), "0.70"),
        (Decimal("1E+3"), "1000"),
        ("it's", "'it''s'"),
        ("", "''"),
        ("a\nb", "'a\nb'"),
        ("'; DROP TABLE visits; --", "'''; DROP TABLE visits; --'"),
        (datetime.date(2024, 1, 31), "CAST('2024-01-31' AS DATE)"),
        (datetime.datetime(2024, 1, 31, 10, 5), "CAST('2024-01-31 10:05:00' AS TIMESTAMP)"),
        (
            datetime.datetime(2024, 1, 31, 10, 5, tzinfo=datetime.UTC),
            "CAST('2024-01-31 10:05:00+00:00' AS TIMESTAMPTZ)",
        ),
        (datetime.time(10, 5), "CAST('10:05:00' AS TIME)"),
        (uuid.UUID(int=5), "'00000000-0000-0000-0000-000000000005'"),
    ],
)
def test_a_parameter_becomes_a_literal(value: object, shown: str) -> None:
    cases: tuple[tuple[str, Parameters], ...] = (
        ("SELECT ?", [value]),
        ("SELECT $1", (value,)),
        ("SELECT $a", {"a": value}),
    )
    for text, parameters in cases:
        query = query_of(text, parameters)
        assert query.tree.sql("duckdb") == f"SELECT {shown}"
        assert query.parameters == (value,)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        Decimal("NaN"),
        Fraction(1, 3),
        b"bytes",
        [1],
        {"a": 1},
        object(),
        datetime.timedelta(1),
        datetime.time(1, tzinfo=datetime.UTC),
        "a\x00b",
    ],
)
def test_other_parameters_are_refused_where_they_stand(value: object) -> None:
    with pytest.raises(QueryRefused) as caught:
        parse("SELECT 1, ?", [value])
    assert caught.value.col == len("SELECT 1, ") + 1


def test_a_refusal_names_the_type_that_was_given_however_often_it_was_copied() -> None:
    with pytest.raises(QueryRefused, match="a parameter of type bytes "):
        parse("SELECT 1, ?", copy_parameters(copy_parameters([b"bytes"])))


@pytest.mark.parametrize(
    ("text", "parameters"),
    [("SELECT ?", [10**5000]), (f"SELECT {'9' * 5000}", None), (f"SELECT 1 LIMIT {'9' * 5000}", None)],
)
def test_numbers_of_thousands_of_digits_are_an_error_of_ours(text: str, parameters: list[int] | None) -> None:
    with pytest.raises((QueryRefused, QuerySyntaxError)):
        parse(text, parameters)


@pytest.mark.parametrize(
    ("text", "parameters", "message"),
    [
        ("SELECT ?", None, "0 parameters were given"),
        ("SELECT ?, ?", [1], "1 parameters were given"),
        ("SELECT ?", {"a": 1}, "not a mapping"),
        ("SELECT $a", {"b": 1}, "no parameter is given for $a"),
        ("SELECT $a", [1], "no parameter is given for $a"),
        ("SELECT $2", [1], "no parameter is given for $2"),
        ("SELECT $0", [1], "no parameter is given for $0"),
        ("SELECT 1", [1], "1 of the parameters given are not used"),
        ("SELECT $a", {"a": 1, "b": 2}, "1 of the parameters given are not used"),
        ("SELECT ?", "x", "not one text"),
    ],
)
def test_parameters_match_the_markers(
    text: str, parameters: str | list[int] | dict[str, int] | None, message: str
) -> None:
    with pytest.raises(ProgrammingError, match=message.replace("$", r"\$")):
        parse(text, parameters)


def test_markers_in_texts_and_comments_are_none() -> None:
    assert query_of("SELECT '?', \"$1\" -- ? $a\n").parameters == ()


def test_parameters_reach_options_and_clauses() -> None:
    text = with_options(
        "epsilon = ?, delta = $d".replace("$d", "?"),
        f"page, {COUNT} FROM visits GROUP BY page TOP ? ABOVE THRESHOLD ?",
    )
    query = query_of(text, [0.7, Decimal("1e-9"), 4, 100])
    assert (query.options.epsilon, query.options.delta) == (Fraction(7, 10), Fraction(1, 10**9))
    assert (query.clause.top, query.clause.threshold) == (4, Fraction(100))


@pytest.mark.parametrize("value", [-1, "0.7", True, None])
def test_an_option_is_checked_when_it_is_a_parameter(value: int | str | None) -> None:
    with pytest.raises(QuerySyntaxError, match="option epsilon"):
        options_of("epsilon = ?", [value])


@given(st.text(max_size=60))
def test_a_text_parameter_survives_as_it_is(text: str) -> None:
    if "\x00" in text:
        with pytest.raises(QueryRefused):
            parse("SELECT ?", [text])
        return
    literal = query_of("SELECT ? FROM t WHERE x = 1", [text]).tree.expressions[0]
    assert isinstance(literal, exp.Literal)
    assert literal.is_string
    assert literal.this == text


def test_a_time_with_a_zone_is_the_same_instant_of_utc() -> None:
    east = datetime.timezone(datetime.timedelta(hours=5, minutes=45))
    moment = datetime.datetime(2024, 7, 2, 1, 0, tzinfo=east)
    assert copy_parameters([moment]) == (moment,)
    (copied,) = copy_parameters([moment]) or ()
    assert repr(copied) == "datetime.datetime(2024, 7, 1, 19, 15, tzinfo=datetime.timezone.utc)"
    tree = query_of("SELECT ?", copy_parameters([moment])).tree
    assert tree.sql("duckdb") == "SELECT CAST('2024-07-01 19:15:00+00:00' AS TIMESTAMPTZ)"
    with pytest.raises(ProgrammingError, match="lies outside the years 1 to 9999"):
        copy_parameters([datetime.datetime(1, 1, 1, tzinfo=east)])
