"""The exceptions: PEP 249's tree, picklable, and pointing at the right place."""

import pickle
from fractions import Fraction

import pytest

from dpsql import errors
from dpsql.errors import (
    BudgetExceeded,
    InternalError,
    Obstacle,
    PolicyError,
    QueryRefused,
    QuerySyntaxError,
)

LOCATED = (QuerySyntaxError, PolicyError, QueryRefused)


def test_the_tree_is_pep_249s() -> None:
    parents = {
        errors.Warning: Exception,
        errors.Error: Exception,
        errors.InterfaceError: errors.Error,
        errors.DatabaseError: errors.Error,
        errors.DataError: errors.DatabaseError,
        errors.OperationalError: errors.DatabaseError,
        errors.IntegrityError: errors.DatabaseError,
        errors.InternalError: errors.DatabaseError,
        errors.ProgrammingError: errors.DatabaseError,
        errors.NotSupportedError: errors.DatabaseError,
        BudgetExceeded: errors.OperationalError,
        errors.ResultTooLarge: errors.OperationalError,
        errors.StatementFailed: errors.OperationalError,
        errors.TooManyFailures: errors.OperationalError,
        QuerySyntaxError: errors.ProgrammingError,
        PolicyError: errors.ProgrammingError,
        errors.EngineNotTested: errors.NotSupportedError,
        QueryRefused: errors.NotSupportedError,
        errors.PriceNotAgreed: QueryRefused,
    }
    for kind, parent in parents.items():
        assert issubclass(kind, parent)
        if kind not in LOCATED:  # which have a base of their own
            assert kind.__bases__ == (parent,)
    assert sorted(kind.__name__ for kind in parents) == sorted(errors.__all__)


def test_every_error_has_an_sqlstate() -> None:
    kinds = [getattr(errors, name) for name in errors.__all__ if name != "Warning"]
    states = {kind.__name__: kind.sqlstate for kind in kinds if isinstance(kind.sqlstate, str)}
    assert {*states} == {kind.__name__ for kind in kinds} - {"QueryRefused"}
    assert all(len(state) == 5 for state in states.values())
    assert [states[name] for name in ("BudgetExceeded", "TooManyFailures", "StatementFailed")] == [
        "ZP002",
        "ZP003",
        "ZP004",
    ]


@pytest.mark.parametrize(
    ("unknown", "state"), [("", "0A000"), ("table", "42P01"), ("column", "42703"), ("function", "42883")]
)
def test_a_name_that_does_not_exist_has_an_sqlstate_of_its_own(unknown: errors.Unknown, state: str) -> None:
    error = QueryRefused("no", unknown=unknown)
    assert error.sqlstate == pickle.loads(pickle.dumps(error)).sqlstate == state


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name != "BudgetExceeded"])
def test_every_error_can_be_pickled(name: str) -> None:
    kind = getattr(errors, name)
    again = pickle.loads(pickle.dumps(kind("what went wrong")))
    assert type(again) is kind
    assert str(again) == "what went wrong"


def test_a_budget_error_is_pickled_with_its_amounts() -> None:
    error = BudgetExceeded(
        "too much", (Fraction(2, 3), Fraction(0)), (Fraction(1, 3), Fraction(1, 10**9)), "analyst ann"
    )
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is BudgetExceeded
    assert str(again) == "too much"
    assert again.requested == (Fraction(2, 3), Fraction(0))
    assert again.remaining == (Fraction(1, 3), Fraction(1, 10**9))
    assert again.scope == "analyst ann"


@pytest.mark.parametrize("kind", LOCATED)
def test_what_points_into_a_statement_is_pickled_whole(kind: type[QuerySyntaxError]) -> None:
    error = kind("unknown word", hint="did you mean SELECT?", line=2, col=3, source="  SELCT 1")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert (again.message, again.hint, again.line, again.col, again.source) == (
        "unknown word",
        "did you mean SELECT?",
        2,
        3,
        "  SELCT 1",
    )


def pointed_at(text: str) -> str:
    """Return the shown line from where its caret points on."""
    _, shown, caret, *_ = text.splitlines()
    assert caret.strip() == "^"
    return shown[caret.index("^") :]


@pytest.mark.parametrize("kind", LOCATED)
def test_a_notebook_shows_the_message_and_no_frames(kind: type[QuerySyntaxError]) -> None:
    error, name = (
        kind("unknown word", hint="did you mean SELECT?", line=1, col=1, source="SELCT 1"),
        kind.__name__,
    )
    assert error._render_traceback_() == [
        f"{name}: unknown word",
        "  line 1: SELCT 1",
        "          ^",
        "Hint: did you mean SELECT?",
    ]


def test_a_notebook_shows_where_a_bug_arose() -> None:
    with pytest.raises(InternalError) as caught:
        raise InternalError("a bug")
    shown = caught.value._render_traceback_()
    assert shown[-1].endswith("InternalError: a bug")
    assert any(__file__ in line for line in shown)


@pytest.mark.parametrize("kind", LOCATED)
def test_what_where_and_one_hint(kind: type[QuerySyntaxError]) -> None:
    error = kind("unknown word", hint="did you mean SELECT?", line=2, col=3, source="  SELCT 1")
    assert str(error) == ("unknown word\n  line 2:   SELCT 1\n            ^\nHint: did you mean SELECT?")
    assert pointed_at(str(error)) == "SELCT 1"


def test_only_what_is_known_is_shown() -> None:
    assert str(QueryRefused("no")) == "no"
    assert str(QueryRefused("no", hint="so")) == "no\nHint: so"
    assert str(QueryRefused("no", line=3, col=1)) == "no"
    assert str(QueryRefused("no", source="SELECT")) == "no"


def test_several_obstacles_are_numbered_and_a_rewrite_follows() -> None:
    error = QueryRefused("one", line=1, col=8, source="SELECT a, b")
    assert error.obstacles == (Obstacle("one", 1, 8, None, "SELECT a, b"),)
    error.obstacles += (Obstacle("two", 1, 11, "so", "SELECT a, b"),)
    error.rewrite = "SELECT 1"
    shown = [
        "1: one",
        "  line 1: SELECT a, b",
        "                 ^",
        "2: two",
        "  line 1: SELECT a, b",
        "                    ^",
        "Hint: so",
        "would be accepted:",
        "SELECT 1",
    ]
    assert str(error).splitlines() == shown
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.obstacles, again.rewrite) == (str(error), error.obstacles, error.rewrite)
    assert [o.line for o in error.below(3).obstacles] == [4, 4]
    assert [o.line for o in error.obstacles] == [1, 1]


def test_many_obstacles_are_cut() -> None:
    error = QueryRefused("0")
    error.obstacles = tuple(Obstacle(str(i)) for i in range(20))
    assert str(error).splitlines() == [*(f"{i + 1}: {i}" for i in range(8)), "and 12 more"]


@pytest.mark.parametrize("col", [1, 5, 60, 61, 62, 75, 400, 985])
def test_the_caret_stays_under_its_word_in_a_long_line(col: int) -> None:
    line = "".join(f"{number:05d}" for number in range(1, 201))
    text = str(QuerySyntaxError("no", line=1, col=col, source=line))
    assert pointed_at(text).startswith(line[col - 1 : col + 14])
    assert max(map(len, text.splitlines())) < 120


def test_a_caret_after_the_end_and_under_tabs() -> None:
    _, shown, caret = str(QuerySyntaxError("no", line=1, col=7, source="SELECT")).splitlines()
    assert caret.index("^") == len(shown)
    tabbed = str(QuerySyntaxError("no", line=1, col=3, source="\t\tSELCT"))
    assert "\t" not in tabbed
    assert pointed_at(tabbed) == "SELCT"
