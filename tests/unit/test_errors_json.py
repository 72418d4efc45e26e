"""Errors on their way to a client of dpsql: the same class, text, places and amounts arrive."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from dpsql import errors
from dpsql.engines import Cancelled
from dpsql.errors import BudgetExceeded, Error, Obstacle, QueryRefused, error_from_json, error_to_json

CLASSES = [kind for name in errors.__all__ if issubclass(kind := getattr(errors, name), Error)]


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if kind is not BudgetExceeded])
def test_each_class_arrives(kind: type[Error]) -> None:
    again = error_from_json(error_to_json(kind("what went wrong\nHint: do it")))
    assert type(again) is kind
    assert str(again) == "what went wrong\nHint: do it"
    assert again.sqlstate == kind("x").sqlstate


def test_a_subclass_arrives_as_its_public_base() -> None:
    assert type(error_from_json(error_to_json(Cancelled("stopped")))) is errors.OperationalError


def test_amounts_arrive_exactly() -> None:
    sent = BudgetExceeded("no", (Fraction(2, 3), Fraction(0)), (Fraction(1, 3), Fraction(1, 10**9)), "query")
    again = error_from_json(error_to_json(sent))
    assert isinstance(again, BudgetExceeded)
    assert (again.requested, again.remaining, again.scope) == (sent.requested, sent.remaining, "query")


def test_obstacles_arrive_with_their_places() -> None:
    sent = QueryRefused("first", hint="so", line=2, col=3, source="  FROM t", unknown="table")
    sent.obstacles += (Obstacle("second", 4, 1, None, "x"),)
    sent.rewrite = "SELECT 1"
    again = error_from_json(error_to_json(sent))
    assert isinstance(again, QueryRefused)
    assert again.obstacles == sent.obstacles
    assert str(again) == str(sent)
    assert again.sqlstate == "42P01"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"class": "Exception", "text": ""}',
        '{"class": "__doc__", "text": ""}',
        '{"class": "QueryRefused", "text": ""}',
        '{"class": "QueryRefused", "text": "", "obstacles": [], "rewrite": null}',
        '{"class": "BudgetExceeded", "text": "", "requested": ["1", "1/0"], "remaining": ["1", "1"]}',
        json.dumps({"class": "QuerySyntaxError", "text": "", "obstacles": [["x"]], "rewrite": None}),
    ],
)
def test_what_is_no_error_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no error of dpsql"):
        error_from_json(text)
