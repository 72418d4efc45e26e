"""Text to statements: clauses lifted out, options typed, parameters bound, errors pointing at their cause."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from dpsql.errors import Error, ProgrammingError, QueryRefused, QuerySyntaxError
from dpsql.kernel.loss import Number
from dpsql.language import Describe, Explain, Options, Query, Set, Show, parse, split_script
from tests.narrow import of_type, present

COUNT = "COUNT(DISTINCT user_id) AS n"
GROUPED = f"SELECT page, {COUNT} FROM visits GROUP BY page"


def with_options(options: str, rest: str = f"{COUNT} FROM visits") -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {rest}"


Parameters = Sequence[object] | Mapping[str, object] | None


def query_of(text: str, parameters: Parameters = None) -> Query:
    return of_type(parse(text, parameters), Query)


def options_of(options: str, parameters: Parameters = None) -> Options:
    return query_of(with_options(options), parameters).options


def at(error: QuerySyntaxError | QueryRefused, text: str) -> str:
    """What the error points at, to the end of its line."""
    line = text.split("\n")[present(error.line) - 1]
    assert error.source == line
    return line[present(error.col) - 1 :]


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("epsilon = 0.7", "epsilon", Fraction(7, 10)),
        ("EPSILON = 1", "epsilon", Fraction(1)),
        ("epsilon => 1", "epsilon", Fraction(1)),
        ("epsilon = .5", "epsilon", Fraction(1, 2)),
        ("epsilon = (2)", "epsilon", Fraction(2)),
        ("epsilon = 1e-6", "epsilon", Fraction(1, 10**6)),
        ("epsilon = 1e6", "epsilon", Fraction(10**6)),
        (
            "epsilon = 0.1000000000000000055511151231257827",
            "epsilon",
            Fraction("0.1000000000000000055511151231257827"),
        ),
        ("delta = 1e-6", "delta", Fraction(1, 10**6)),
        ("delta = 1e-100", "delta", Fraction(1, 10**100)),
        ("measure = AUTO", "measure", "AUTO"),
        ("measure = 0", "measure", Fraction(0)),
        ("measure = 0.25", "measure", Fraction(1, 4)),
        ("measure_strategy = each", "measure_strategy", "EACH"),
        ("measure_strategy = 'ANCHOR'", "measure_strategy", "ANCHOR"),
        ("mechanism = noisy_top_k", "mechanism", "NOISY_TOP_K"),
        ("noise = Laplace", "noise", "LAPLACE"),
        ("base_hits = 20", "base_hits", 20),
        ("threshold_share = 0.3", "threshold_share", Fraction(3, 10)),
        ("candidates = 100", "candidates", 100),
        ("max_groups_contributed = 3", "max_groups_contributed", 3),
        ("confidence = 0.99", "confidence", Fraction(99, 100)),
        ("privacy_unit_column = user_id", "privacy_unit_column", "user_id"),
        ('privacy_unit_column = "User id"', "privacy_unit_column", "User id"),
        ("fresh = TRUE", "fresh", True),
        ("fresh = false", "fresh", False),
    ],
)
def test_an_option_is_typed(text: str, name: str, value: Number | bool) -> None:
    found = getattr(options_of(text), name)
    assert found == value
    assert type(found) is type(value)


def test_several_options_and_where_they_stand() -> None:
    text = with_options("epsilon = 0.5, delta = 1e-9, fresh = TRUE")
    options = query_of(text).options
    assert (options.epsilon, options.delta, options.fresh) == (Fraction(1, 2), Fraction(1, 10**9), True)
    assert {name: text[start:].split()[0] for name, start in options.at.items()} == {
        "epsilon": "epsilon",
        "delta": "delta",
        "fresh": "fresh",
    }


@pytest.mark.parametrize(
    ("text", "message", "points_at"),
    [
        ("epsilon = 1e20", "epsilon must lie between 1e-06 and 1,000,000", "1e20"),
        ("epsilon = 1000000.1", "epsilon must lie between", "1000000.1"),
        ("epsilon = 0", "epsilon must lie between", "0"),
        ("epsilon = -1", "epsilon must lie between", "-1"),
        ("epsilon = 1e-7", "epsilon must lie between", "1e-7"),
        ("epsilon = 1e-400", "epsilon must lie between", "1e-400"),
        ("epsilon = 1e9999", "not a finite number", "1e9999"),
        ("epsilon = NaN", "expected a number", "NaN"),
        ("epsilon = infinity", "expected a number", "infinity"),
        ("epsilon = NULL", "expected a number", "NULL"),
        ("epsilon = TRUE", "expected a number", "TRUE"),
        ("epsilon = '0.7'", "expected a number", "'0.7'"),
        ("epsilon = 0.1 + 0.2", "takes one literal", "0.1 + 0.2"),
        ("epsilon = (SELECT 1)", "takes one literal", "SELECT 1"),
        ("epsilon", "needs a value", "epsilon"),
        ("epsilon =", "needs a value", "epsilon ="),
        ("epsilon 1", "needs a value", "epsilon 1"),
        ("epsilon < 1", "needs a value", "epsilon < 1"),
        ("epsilon = 1, Epsilon = 2", "option epsilon is given twice", "Epsilon = 2"),
        ("epsilom = 1", "there is no option epsilom", "epsilom = 1"),
        ("seed = 1", "there is no option seed", "seed = 1"),
        ("epsilon = 1,", "missing beside a comma", "epsilon = 1,"),
        (", epsilon = 1", "missing beside a comma", ", epsilon = 1"),
        ("delta = 0", "more than 0 and less than 1", "0"),
        ("delta = 1", "more than 0 and less than 1", "1"),
        ("measure = 1", "at least 0 and less than 1", "1"),
        ("measure = -0.1", "at least 0 and less than 1", "-0.1"),
        ("measure = NONE", "expected a number", "NONE"),
        ("measure_strategy = BOTH", "expected one of AUTO, BOX, EACH, ANCHOR", "BOTH"),
        ("mechanism = NONE", "expected one of", "NONE"),
        ("noise = CAUCHY", "expected one of EXPONENTIAL, LAPLACE, GEOMETRIC, GAUSSIAN", "CAUCHY"),
        ("noise = -LAPLACE", "expected one of", "-LAPLACE"),
        ("base_hits = 0", "a whole number between 1 and", "0"),
        ("base_hits = 1.5", "a whole number between 1 and", "1.5"),
        ("base_hits = 1e10", "a whole number between 1 and", "1e10"),
        ("candidates = 'many'", "expected a number", "'many'"),
        ("max_groups_contributed = -3", "a whole number between 1 and", "-3"),
        ("confidence = 1", "more than 0 and less than 1", "1"),
        ("confidence = 0.9999999995", "must lie between 0.000000001 and 0.999999999", "0.9999999995"),
        ("confidence = 1e-10", "must lie between 0.000000001 and 0.999999999", "1e-10"),
        ("delta = 1e-400", "no nearer to 0 than 1e-100", "1e-400"),
        ("measure = 1e-101", "no nearer to 0 than 1e-100", "1e-101"),
        ("error = 1e400", "no more than 1e100", "1e400"),
        ("threshold_share = 0", "more than 0 and less than 1", "0"),
        ("privacy_unit_column = 5", "expected a column's name", "5"),
        ("fresh = 1", "expected TRUE or FALSE", "1"),
        ("fresh = NULL", "expected TRUE or FALSE", "NULL"),
    ],
)
def test_a_wrong_option_is_named_at_its_place(text: str, message: str, points_at: str) -> None:
    statement = with_options(text)
    with pytest.raises(QuerySyntaxError) as caught:
        parse(statement)
    assert message in caught.value.message
    assert at(caught.value, statement).startswith(points_at)


def test_an_unknown_option_comes_with_the_nearest_known_one() -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        options_of("confidense = 0.9")
    assert caught.value.hint == "did you mean confidence?"


@pytest.mark.parametrize(
    ("text", "points_at"),
    [
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS epsilon = 1 x FROM t", "OPTIONS"),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1 x FROM t", "OPTIONS"),
        ("SELECT x, WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) y FROM t", "WITH"),
        ("SELECT x FROM t WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)", "WITH"),
        ("SELECT x FROM u JOIN (SELECT y WITH DIFFERENTIAL_PRIVACY FROM t)", "WITH"),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY WITH DIFFERENTIAL_PRIVACY x FROM u",
            "WITH DIFFERENTIAL_PRIVACY x",
        ),
    ],
)
def test_the_options_clause_follows_a_select(text: str, points_at: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse(text)
    assert at(caught.value, text).startswith(points_at)


def test_each_select_has_its_own_clauses() -> None:
    """The word SELECT, whose place is known, tells to which block a clause belongs."""
    text = (
        "/* 7 */ WITH a AS (FROM v SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) x), "
        "b AS (SELECT /* 9 */ DISTINCT y, (SELECT 1 FROM q GROUP BY x TOP 5) FROM a) "
        "SELECT z FROM w UNION ALL SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) 3 "
        "UNION SELECT f(4) FROM w GROUP BY x ARGMAX BY n"
    )
    query = query_of(text)
    selects = {s.meta["select"]: s for s in query.tree.find_all(exp.Select)}
    assert all(text[place:].startswith("SELECT") for place in selects)
    assert len(selects) == text.count("SELECT")
    found = {selects[place].sql("duckdb"): clauses for place, clauses in query.inner.items()}
    assert {sql: (c.options.epsilon, c.clause.spelling) for sql, c in found.items()} == {
        "SELECT x FROM v": (1, ""),
        "SELECT 1 FROM q GROUP BY x": (None, "TOP"),
        "SELECT 3": (2, ""),
        "SELECT DPSQL_FN_F(4) FROM w GROUP BY x": (None, "ARGMAX"),
    }
    assert {text[c.at :].split(maxsplit=1)[0] for c in query.inner.values()} == {"WITH", "TOP", "ARGMAX"}
    assert not query.has_options


@pytest.mark.parametrize("clause", ["WITH DIFFERENTIAL_PRIVACY", "WITH DIFFERENTIAL_PRIVACY OPTIONS ()"])
def test_an_options_clause_may_be_empty(clause: str) -> None:
    query = query_of(f"SELECT {clause} {COUNT} FROM visits")
    assert query.has_options
    assert query.options.epsilon is None


def test_what_is_parsed_is_stock_sql() -> None:
    query = query_of(
        with_options("epsilon = 1", f"page, {COUNT} FROM visits GROUP BY page TOP 3 BY n ABOVE THRESHOLD 5")
    )
    assert query.tree.sql("duckdb").replace("DPSQL_FN_", "").upper() == (
        "SELECT PAGE, COUNT(DISTINCT USER_ID) AS N FROM VISITS GROUP BY PAGE"
    )
    assert (query.clause.top, query.clause.threshold, query.clause.argmax) == (3, Fraction(5), False)
    assert query.clause.by == exp.column("n")


@pytest.mark.parametrize(
    ("text", "top", "argmax", "threshold"),
    [
        (f"{GROUPED} TOP 3", 3, False, None),
        (f"{GROUPED} top 3", 3, False, None),
        (f"{GROUPED} TOP 3 BY n", 3, False, None),
        (f"{GROUPED} TOP 3 BY n DESC", 3, False, None),
        (f"{GROUPED} TOP 3 BY {COUNT[:-5]}", 3, False, None),
        (f"SELECT TOP 3 page, {COUNT} FROM visits GROUP BY page", 3, False, None),
        (f"SELECT TOP (3) page, {COUNT} FROM visits GROUP BY page", 3, False, None),
        (f"SELECT TOP (3) (page), {COUNT} FROM visits GROUP BY page", 3, False, None),
        (with_options("epsilon = 1", f"TOP 3 page, {COUNT} FROM visits GROUP BY page"), 3, False, None),
        (f"{GROUPED} ARGMAX", None, True, None),
        (f"{GROUPED} ARGMAX BY n", None, True, None),
        (f"{GROUPED} ABOVE THRESHOLD 2.5 LIMIT 2", None, False, Fraction(5, 2)),
        (f"{GROUPED} ABOVE THRESHOLD -1 LIMIT 2", None, False, Fraction(-1)),
        (f"{GROUPED} ABOVE THRESHOLD (7) LIMIT 2", None, False, Fraction(7)),
        (f"{GROUPED} TOP 3 ABOVE THRESHOLD 9", 3, False, Fraction(9)),
        (f"{GROUPED} TOP 3 BY n ABOVE THRESHOLD 9", 3, False, Fraction(9)),
        (f"FROM visits SELECT page, {COUNT} GROUP BY page TOP 3", 3, False, None),
    ],
)
def test_selection_clauses(text: str, top: int | None, argmax: bool, threshold: Fraction | None) -> None:
    clause = query_of(text).clause
    assert (clause.top, clause.argmax, clause.threshold) == (top, argmax, threshold)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT top FROM t",
        "SELECT top, argmax, above FROM t",
        "SELECT t.top FROM t",
        "SELECT x AS top FROM t",
        "SELECT x top FROM t",
        "SELECT x FROM top",
        "SELECT x FROM t AS argmax",
        "SELECT x FROM t GROUP BY top",
        "SELECT x FROM t GROUP BY above, top",
        "SELECT x FROM t ORDER BY top LIMIT 3",
        'SELECT "TOP" FROM t GROUP BY x ORDER BY "ARGMAX"',
        "SELECT 'TOP 3', 'ABOVE THRESHOLD 5' FROM t GROUP BY x",
        "SELECT x -- TOP 3\nFROM t GROUP BY x /* ABOVE THRESHOLD 5 */",
        "SELECT x /* WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 9) */ FROM t",
        "SELECT /*+ OPTIONS(epsilon = 9) */ x FROM t",
    ],
)
def test_names_texts_and_comments_are_no_clauses(text: str) -> None:
    query = query_of(text)
    assert not query.has_options
    assert query.options == Options()
    clause = query.clause
    assert (clause.top, clause.argmax, clause.by, clause.threshold) == (None, False, None, None)


def test_parts_of_a_statement_after_by_are_not_swallowed() -> None:
    for rest in ("WHERE ms > 5", "FROM users", "GROUP BY country"):
        with pytest.raises((QueryRefused, QuerySyntaxError)):
            parse(f"{GROUPED} TOP 3 BY n {rest}")


@pytest.mark.parametrize(
    ("text", "kind", "check"),
    [
        ("SHOW PRIVACY BUDGET", Show, lambda s: s.what == "budget"),
        ("show budget;", Show, lambda s: s.what == "budget"),
        ("show tables", Show, lambda s: s.what == "tables"),
        ("-- mine\nSHOW RELEASES;", Show, lambda s: s.what == "releases"),
        ("DESCRIBE visits", Describe, lambda s: s.table == "visits"),
        ('desc "Visits"', Describe, lambda s: s.table == "Visits"),
        ("SET dp_epsilon = 0.7", Set, lambda s: (s.name, s.value) == ("epsilon", Fraction(7, 10))),
        ("SET DP_MEASURE = AUTO", Set, lambda s: (s.name, s.value) == ("measure", "AUTO")),
        ("SET dp_confidence = 0.9", Set, lambda s: s.apply(Options()).confidence == Fraction(9, 10)),
        ("SET dp_error = 50", Set, lambda s: s.apply(Options(epsilon=Fraction(1))).error == 50),
        ("SET dp_epsilon = 1", Set, lambda s: s.apply(Options(error=Fraction(50))).error is None),
        ("EXPLAIN SELECT 1", Explain, lambda s: s.form == "TABLE"),
        ("EXPLAIN (FORMAT JSON) SELECT 1", Explain, lambda s: s.form == "JSON"),
        ("EXPLAIN (FORMAT CERTIFICATE) SELECT 1", Explain, lambda s: s.form == "CERTIFICATE"),
        ("/* a */ explain -- b\n SELECT 1", Explain, lambda s: isinstance(s.query, Query)),
        (f"EXPLAIN {with_options('epsilon = 2')}", Explain, lambda s: s.query.options.epsilon == 2),
        ("SELECT 1;", Query, lambda s: s.tree.sql("duckdb") == "SELECT 1"),
        ("(SELECT 1)", Query, lambda s: True),
    ],
)
def test_statements(text: str, kind: type, check: Callable[..., object]) -> None:
    statement = parse(text)
    assert isinstance(statement, kind)
    assert check(statement)


def test_a_setting_may_be_a_parameter() -> None:
    assert of_type(parse("SET dp_epsilon = ?", [Decimal("0.7")]), Set).value == Fraction(7, 10)


@pytest.mark.parametrize(
    ("text", "line", "col"),
    [
        ("SELCT 1", 1, 1),
        ("\n\n   SELCT 1", 3, 4),
        ("-- a comment\nSELCT 1", 2, 1),
        ("SELECT page\nFROM visits\nWHERE ms >", 3, 10),
        ("SELECT COUNT(DISTINCT user_id FROM visits", 1, 31),
        ("SELECT 'Ä€𝄞' AS a, FROM WHERE", 1, 25),
        (f"{GROUPED}\n  TOP 0", 2, 3),
        (with_options("epsilon = 1,\n  delta = 7"), 2, 11),
        ("EXPLAIN\nSELECT COUNT(DISTINCT user_id FROM visits", 2, 31),
    ],
)
def test_errors_say_line_and_column(text: str, line: int, col: int) -> None:
    with pytest.raises((QuerySyntaxError, QueryRefused)) as caught:
        parse(text)
    error = caught.value
    assert isinstance(error, (QuerySyntaxError, QueryRefused))
    assert (error.line, error.col) == (line, col)
    assert error.source == text.split("\n")[line - 1]
    shown = str(error).split("\n")
    assert shown[2].index("^") == len(f"  line {line}: ") + col - 1
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.line, again.col, again.hint) == (
        type(error),
        str(error),
        line,
        col,
        error.hint,
    )


def test_a_caret_far_to_the_right_stays_under_its_word() -> None:
    text = f"SELECT {'x' * 300}, y FROM t; SELECT 2"
    with pytest.raises(QuerySyntaxError) as caught:
        parse(text)
    _, line, caret = str(caught.value).split("\n")[:3]
    assert line[caret.index("^")] == ";"
    assert len(line) < 130


WORDS_OF_SQL = """SELECT FROM WHERE GROUP BY ORDER LIMIT TOP ABOVE THRESHOLD ARGMAX HAVING WITH AS JOIN ON
USING UNION
ALL DIFFERENTIAL_PRIVACY OPTIONS EXPLAIN SHOW SET DESCRIBE VALUES NULL CASE WHEN THEN END DISTINCT
OVER epsilon visits page COUNT lower INTEGER"""
WORDS = st.sampled_from(
    [
        *WORDS_OF_SQL.replace("\n", " ").split(" "),
        "(",
        ")",
        ",",
        ";",
        "=",
        "=>",
        "*",
        ".",
        "?",
        "$a",
        "$1",
        "5",
        "1e9",
        "-",
        "'x'",
        '"y"',
        "--",
        "/*",
        "*/",
        "''",
        "[",
        "]",
        "::",
        "\n",
        "$$",
        "Ä",
        "'",
    ]
)


@given(st.lists(WORDS, max_size=14), st.sampled_from([None, [1], {"a": 1}]))
@settings(deadline=None, max_examples=400)
def test_whatever_is_typed_ends_in_a_statement_or_an_error_of_ours(
    words: list[str], parameters: list[int] | dict[str, int] | None
) -> None:
    text = " ".join(words)
    error = None
    try:
        parse(text, parameters)
    except Error as caught:
        error = caught
    if isinstance(error, (QuerySyntaxError, QueryRefused)):
        assert error.line is not None
        assert error.col is not None
    else:
        assert error is None or type(error) is ProgrammingError
    for part in split_script(text):
        assert part == part.strip()


@pytest.mark.parametrize(
    ("script", "parts"),
    [
        ("", []),
        (" ; ;; ", []),
        ("-- nothing", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;\nSELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';'; SELECT \";\"", ["SELECT ';'", 'SELECT ";"']),
        ("SELECT 'it''s;'; SELECT 2", ["SELECT 'it''s;'", "SELECT 2"]),
        ("SELECT $$;$$; SELECT 2", ["SELECT $$;$$", "SELECT 2"]),
        ("SELECT 1 -- ;\n; SELECT 2", ["SELECT 1 -- ;", "SELECT 2"]),
        ("SELECT 1 /* ; /* ; */ ; */; SELECT 2", ["SELECT 1 /* ; /* ; */ ; */", "SELECT 2"]),
        ("EXPLAIN SELECT 1; SELECT 2", ["EXPLAIN SELECT 1", "SELECT 2"]),
        ("SELECT 'open; SELECT 2", ["SELECT 'open; SELECT 2"]),
        ("SELECT 1; /* open ; SELECT 2", ["SELECT 1", "/* open ; SELECT 2"]),
    ],
)
def test_a_script_is_cut_into_statements(script: str, parts: list[str]) -> None:
    assert split_script(script) == parts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT " + "x" * 100_001, "longer than 100,000 characters"),
        ("SELECT " + "1," * 20_001 + "1", "more than 20,000 tokens"),
        ("SELECT " + "(" * 65 + "1" + ")" * 65, "nested more than 64 deep"),
        ("SELECT " + "[" * 65 + "1" + "]" * 65, "nested more than 64 deep"),
        ("SELECT \x00", "NUL character"),
        ("SELECT " + "NOT " * 5000 + "TRUE", "nested too deeply"),
        ("SELECT a" + "[1]" * 1000, "too many subscripts"),
        ("EXPLAIN " * 2000 + "SELECT 1", "EXPLAIN takes a SELECT"),
    ],
)
def test_a_statement_has_a_size(text: str, message: str) -> None:
    with pytest.raises((QueryRefused, QuerySyntaxError), match=message):
        parse(text)


@pytest.mark.parametrize("text", ["SELECT COUNT(*) FROM main..visits", "SELECT 1 FROM a JOIN b ON c . . d"])
def test_a_name_between_dots_is_not_left_out(text: str) -> None:
    with pytest.raises(QuerySyntaxError):
        parse(text)


def test_subscripts_behind_each_other_are_limited() -> None:
    assert parse("SELECT a" + "[1]" * 32 + " FROM t")
    for text in ("SELECT a" + "[1]" * 34, "SELECT NULL::INTEGER" + "[]" * 400):
        with pytest.raises(QueryRefused, match="too many subscripts"):
            parse(text)


def test_explain_is_not_explained() -> None:
    for times in (2, 8_000):
        with pytest.raises(QueryRefused, match="EXPLAIN takes a SELECT"):
            parse("EXPLAIN " * times + "SELECT 1")
