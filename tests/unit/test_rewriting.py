"""What is offered in the place of a refused statement: tried before, and only if every obstacle has a fix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dpsql.composition import refusals, rewrites
from dpsql.composition.refusals import with_own_hints
from dpsql.errors import Fix, QueryRefused, QuerySyntaxError
from dpsql.language import Outline


def refused(*fixes: Fix | None) -> QueryRefused:
    errors = [QueryRefused(f"{i}", line=1, col=1, fix=fix) for i, fix in enumerate(fixes)]
    errors[0].obstacles = tuple(o for e in errors for o in e.obstacles)
    return errors[0]


def accepting(*texts: str, error: QueryRefused | None = None) -> Callable[[str], object]:
    def prepare(text: str) -> object:
        if text not in texts:
            raise error or refused(None)
        return text

    return prepare


def rewrite(
    text: str, error: QueryRefused | QuerySyntaxError, prepare: Callable[[str], object]
) -> str | None:
    found = rewrites.rewrite(text, error, prepare)
    return None if found is None else found.text


LIMIT = Fix("LIMIT 10", guess="10")
BOUND = Fix("3", option="max_groups_contributed")
NAME = Fix("page", 7, 11)


def test_all_fixes_are_made_together() -> None:
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 3, delta = 1e-6)"
    wanted = f"SELECT {options} page FROM t LIMIT 10"
    delta = Fix("1e-6", option="delta", guess="1e-6")
    error = refused(LIMIT, BOUND, NAME, NAME, delta)
    found = rewrite("SELECT pgae FROM t", error, accepting(wanted))
    assert found == wanted + " -- 10 and 1e-6 are guesses"


def test_nothing_is_offered_that_was_not_accepted() -> None:
    assert rewrite("SELECT pgae FROM t", refused(NAME), accepting()) is None


def test_an_obstacle_without_a_fix_may_vanish_with_another() -> None:
    assert rewrite("SELECT pgae FROM t", refused(NAME, None), accepting("SELECT page FROM t")) is not None
    assert rewrite("SELECT pgae FROM t", refused(NAME, None), accepting()) is None
    assert rewrite("SELECT pgae FROM t", refused(None), accepting("SELECT pgae FROM t")) is None


def test_what_the_first_fix_brings_to_light_is_fixed_too() -> None:
    prepare = accepting("SELECT page FROM t LIMIT 10", error=refused(LIMIT))
    found = rewrite("SELECT pgae FROM t", refused(NAME), prepare)
    assert found == "SELECT page FROM t LIMIT 10 -- 10 is a guess"


def test_the_search_ends() -> None:
    tried: list[str] = []

    def prepare(text: str) -> object:
        tried.append(text)
        raise refused(LIMIT)

    assert rewrite("SELECT 1", refused(LIMIT), prepare) is None
    assert len(tried) == 6
    assert rewrite("SELECT 1" + " " * 10_000, refused(LIMIT), accepting()) is None


def test_a_fix_that_changes_nothing_is_no_offer() -> None:
    assert rewrite("SELECT page FROM t", refused(NAME), accepting("SELECT page FROM t")) is None


def test_a_syntax_error_may_be_another_dialect() -> None:
    error = QuerySyntaxError("no", line=1, col=1)
    assert rewrite("SELECT [a]", error, accepting('SELECT "a"')) == 'SELECT "a"'
    assert rewrite("SELECT 'a", error, accepting()) is None


def test_the_hint_of_another_dialects_spelling_is_dpsqls_own() -> None:
    text = "SELECT a,\n  [b]"
    for line, col, hint in ((2, 3, '"b"'), (2, 4, '"b"'), (1, 8, "old"), (3, 1, "old")):
        (found,) = with_own_hints(text, QueryRefused("no", line=line, col=col, hint="old"), accepting())
        assert found.hint == hint
    (found,) = with_own_hints(text, QueryRefused("no", hint="old"), accepting())
    assert found.hint == "old"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("SELECT a", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (x = 1) a"),
        (
            "WITH t AS (SELECT 1) SELECT a FROM t;",
            "WITH t AS (SELECT 1) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (x = 1) a FROM t;",
        ),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY a",
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (x = 1) a",
        ),
        (
            "select with differential_privacy options () a",
            "select with differential_privacy options (x = 1) a",
        ),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (y = 2) a",
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (x = 1, y = 2) a",
        ),
        (
            "SELECT * FROM (SELECT a FROM t) LIMIT 3",
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (x = 1) * FROM (SELECT a FROM t) LIMIT 3",
        ),
        (
            "SELECT * FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (y = 2) a FROM t) LIMIT 3",
            "SELECT * FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (x = 1, y = 2) a FROM t) LIMIT 3",
        ),
        ("EXPLAIN SELECT a", "EXPLAIN SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (x = 1) a"),
    ],
)
def test_where_options_are_added(text: str, after: str) -> None:
    assert rewrite(text, refused(Fix("1", option="x")), accepting(after)) == after


def test_a_statement_without_a_select_has_no_place_for_options() -> None:
    assert rewrite("FROM t", refused(Fix("1", option="x")), accepting("FROM t")) is None


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("SELECT [a], f([b]), c[d], '[e]' -- [f]", 'SELECT "a", f("b"), c[d], \'[e]\' -- [f]'),
        ("SELECT a WHERE b && c", "SELECT a WHERE b AND c"),
        ("SELECT 'open", "SELECT 'open"),
    ],
)
def test_spellings_of_other_dialects(written: str, read: str) -> None:
    respelled = written
    for start, end, new in reversed(Outline(written).respellings()):
        respelled = respelled[:start] + new + respelled[end:]
    assert respelled == read
    assert Outline(read).respellings() == []


def test_a_hint_that_is_an_accepted_statement_is_not_tried_again() -> None:
    """What asks something else is the hint of the obstacles that force it; it is tried when it is made."""
    tried = list[str]()

    def prepare(text: str) -> object:
        tried.append(text)
        return accepting("SELECT page FROM t")(text)

    error = refused(Fix("page", 7, 11, asks="another page"))
    found = rewrites.rewrite("SELECT pgae FROM t", error, prepare)
    assert found is not None
    assert found.text is None
    assert found.hint is not None
    assert found.hint.startswith("SELECT page FROM t -- ")
    error.obstacles = found.obstacles
    kept = refusals.keep_tried("SELECT pgae FROM t", error, prepare, prepare, found.hint)
    assert [one.hint for one in kept] == [found.hint]
    assert tried == ["SELECT page FROM t"]
    assert refusals.keep_tried("SELECT pgae FROM t", error, prepare, prepare)[0].hint is None


def test_another_change_of_an_obstacle_is_tried() -> None:
    other = Fix("side", 7, 11)
    error = refused(NAME, NAME)
    error.obstacles = (replace(error.obstacles[0], others=(("did you mean side?", other),)),)
    found = rewrites.rewrite("SELECT pgae FROM t", error, accepting("SELECT side FROM t"))
    assert found is not None
    said = "SELECT side FROM t -- side for pgae is a guess"
    assert (found.text, found.obstacles[0].hint) == (said, "did you mean side?")
