"""Statements that must not run: nothing but the catalogue's own names reaches DuckDB."""

from __future__ import annotations

import threading

import duckdb
import pytest

from dpsql.engines.worker import RunningStatement, running_statement
from dpsql.kernel.charged_work import Cancelled
from dpsql.serve.catalog import QuestionTimedOut, QuestionTooLarge, SessionFacts, UnknownQuestion
from dpsql.serve.catalog import catalog as of_catalog
from dpsql.serve.catalog.catalog import PgCatalog
from dpsql.serve.catalog.database import check_sql
from tests.serve.catalog_cases import Declared, policy

FACTS = SessionFacts("alice", 4711)


@pytest.fixture(scope="module")
def catalog() -> PgCatalog:
    return PgCatalog(policy(), Declared(), "clinic")


UNKNOWN = [
    # The engine's functions, settings and files, in every place where a name may stand.
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    'SELECT * FROM "/etc/passwd"',
    # A value is no relation.
    "SELECT * FROM $1",
    "SELECT * FROM pg_class, $1 AS t(x)",
    "SELECT * FROM pg_class, ($1)",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM pg_class, LATERAL (SELECT * FROM duckdb_settings()) x",
    "SELECT getenv('HOME')",
    "SELECT \"getenv\"('HOME')",
    "SELECT pg_catalog.getenv('HOME')",
    "SELECT pgf_getenv('HOME')",
    "SELECT * FROM pragma_table_info('pg_class')",
    "SELECT * FROM pg_catalog.duckdb_tables",
    "SELECT * FROM information_schema.duckdb_tables",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM _pgc.pg_class",
    "SELECT * FROM _pgc._functions",
    "SELECT * FROM main.pg_class",
    "SELECT * FROM temp.main.pg_roles",
    "SELECT * FROM _session.pg_roles",
    "SELECT * FROM _pgc._settings",
    "SELECT getvariable('session')",
    "WITH x AS (SELECT * FROM _pgc.pg_class) SELECT * FROM x",
    "SELECT show_short('a')",
    "SELECT pgf_show_short('a')",
    "SELECT error('x')",
    "SELECT current_setting('memory_limit') FROM duckdb_settings",
    "SELECT columns('oid') FROM pg_class",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT pg_sleep(100)",
    "SELECT nextval('x')",
    "SELECT repeat('a', 1000000000)",
    "SELECT lpad('a', 1000000000, 'b')",
    # Other statements.
    "PRAGMA database_list",
    "ATTACH 'x' AS y",
    "COPY (SELECT 1) TO '/tmp/x'",
    "INSTALL httpfs",
    "SET memory_limit = '1TB'",
    "CALL pragma_version()",
    "EXPLAIN SELECT 1",
    "DELETE FROM pg_class",
    "WITH x AS (DELETE FROM pg_class RETURNING *) SELECT * FROM x",
    "SELECT 1 INTO x",
    "SELECT 1; SELECT 2",
    "SELECT * FROM pg_class FOR UPDATE",
    "SELECT * FROM pg_class TABLESAMPLE SYSTEM (1)",
    "FROM pg_class",
    # Tables of the policy are dpsql's.
    "SELECT * FROM visits",
    "SELECT * FROM public.visits",
    "SELECT relname FROM pg_class, visits",
    # What is not valid, or of a form that no rule knows.
    "SELECT oid FROM pg_class GROUP BY ROLLUP (oid)",
    "SELECT nothing FROM pg_class",
    "SELECT oid FROM pg_class c, pg_type t",
    "SELECT c.oid FROM pg_class c, pg_type c",
    "SELECT (SELECT 1, 2)",
    "SELECT 1 UNION SELECT 1, 2",
    "SELECT max(max(1))",
    "SELECT lag(1)",
    "SELECT $0",
    "SELECT $2",
    "SELECT $99999",
    "SELECT ?",
    "SELECT e'\\x00'",
    "SELECT 'a' ~ '('",
    "SELECT 1 / 0",
    "SELECT 'x'::int",
    "SELECT ",
    "",
]


@pytest.mark.parametrize("text", UNKNOWN)
def test_unknown_questions_say_so_and_nothing_else(catalog: PgCatalog, text: str) -> None:
    with pytest.raises(UnknownQuestion) as problem:
        catalog.answer(text, FACTS, ["x"] * text.count("$"))
    assert str(problem.value) == "this catalogue question is not known"
    assert problem.value.sqlstate == "0A000"
    assert problem.value.__cause__ is None
    assert problem.value.__suppress_context__ or problem.value.__context__ is None


GROWING = [
    "quote_ident(" * 20 + "'\"'" + ")" * 20,
    "quote_literal(" * 20 + "''''" + ")" * 20,
    "replace(" * 12 + "'aaaa'" + ", 'a', 'aaaaaaaaaa')" * 12,
    "regexp_replace(" * 12 + "'aaaa'" + ", 'a', 'aaaaaaaaaa', 'g')" * 12,
    "json_build_object('a', " * 20 + "'\"'" + ")" * 20,
    "array_to_string(array_cat(string_to_array('a', ','), ARRAY['b', 'c']), '" + "x" * 60_000 + "')",
    "concat(" + ", ".join(["'" + "x" * 2_000 + "'"] * 60) + ")",
]  # fmt: skip


@pytest.mark.parametrize("expression", GROWING, ids=range(len(GROWING)))
def test_texts_cannot_grow_without_end(catalog: PgCatalog, expression: str) -> None:
    with pytest.raises((UnknownQuestion, QuestionTooLarge)):
        catalog.answer(f"SELECT {expression}", FACTS)


@pytest.mark.parametrize(
    "text",
    [
        "WITH RECURSIVE r(s) AS (SELECT 'aaaaaaaa' UNION ALL SELECT s || s FROM r) SELECT length(s) FROM r",
        "WITH RECURSIVE r(s) AS (SELECT ARRAY[1] UNION ALL SELECT array_cat(s, s) FROM r) SELECT s[1] FROM r",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT 1 FROM r) SELECT * FROM r",
        "SELECT * FROM generate_series(1, 1000000000)",
        "SELECT * FROM generate_series(1, 10000) a, generate_series(1, 10000) b",
        "SELECT * FROM pg_type a, pg_type b, pg_type c",
        "SELECT count(*) FROM pg_type a, pg_type b, pg_type c, pg_type d, pg_type e, pg_type f, pg_type g",
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_answers_are_bounded(catalog: PgCatalog, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.serve.catalog.catalog.MAX_SECONDS", 1.0)
    with pytest.raises((UnknownQuestion, QuestionTooLarge, QuestionTimedOut)):
        catalog.answer(text, FACTS)


def test_a_description_has_the_time_limit_of_an_answer(
    catalog: PgCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "SELECT relname AS described_in_time FROM pg_class"
    with monkeypatch.context() as limited:
        limited.setattr("dpsql.serve.catalog.catalog.MAX_SECONDS", 0.0)
        with pytest.raises(QuestionTimedOut):
            catalog.describe(text, FACTS)
    assert [column.name for column in catalog.describe(text, FACTS).columns] == ["described_in_time"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 200 + "1" + ")" * 200,
        "SELECT " + "ARRAY[" * 30 + "1" + "]" * 30,
        "SELECT 1" + "::int[" * 20 + "1" + "]" * 20,
        "SELECT " + "NOT " * 2_000 + "true",
        "SELECT " + " + ".join(["1"] * 5_000),
        "SELECT '" + "x" * 70_000 + "'",
        "SELECT " + ", ".join(["1"] * 20_000),
    ],
    ids=["parentheses", "arrays", "subscripts", "not", "sum", "text", "items"],
)
def test_long_and_deep_texts_are_refused(catalog: PgCatalog, text: str) -> None:
    with pytest.raises(UnknownQuestion):
        catalog.answer(text, FACTS)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "parse_ident(" * 30 + "'a'" + ")" * 30,
        "SELECT '{a}'" + "::text[]::text" * 40,
        "SELECT oid FROM pg_class GROUP BY CUBE (oid, relname)",
    ],
)
def test_what_takes_long_to_bind_is_refused(catalog: PgCatalog, text: str) -> None:
    with pytest.raises(UnknownQuestion):
        catalog.answer(text, FACTS)


ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"


@pytest.mark.parametrize("text", ["SELECT 1e400", "SELECT 1e999999999", "SELECT -1e400 AS x"])
def test_a_number_too_large_for_its_type_is_not_known(catalog: PgCatalog, text: str) -> None:
    with pytest.raises(UnknownQuestion):
        catalog.answer(text, FACTS)


def test_a_question_without_end_is_stopped(catalog: PgCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_catalog, "MAX_SECONDS", 0.3)
    with pytest.raises(QuestionTimedOut):
        catalog.answer(ENDLESS, FACTS)
    assert catalog.answer("SELECT 1", FACTS).table.num_rows == 1


def test_a_question_can_be_cancelled(catalog: PgCatalog) -> None:
    statement, ended = RunningStatement(), threading.Event()
    problems: list[Exception] = []

    def ask() -> None:
        with running_statement(statement):
            try:
                catalog.answer(ENDLESS, FACTS)
            except Cancelled as problem:
                problems.append(problem)
        ended.set()

    thread = threading.Thread(target=ask)
    thread.start()
    while not ended.wait(0.05):
        statement.cancel()
    thread.join()
    assert len(problems) == 1


def test_the_database_is_locked(catalog: PgCatalog) -> None:
    cursor = catalog._connection.cursor()
    for text in (
        "SELECT * FROM read_csv('/etc/passwd')",
        "SET GLOBAL memory_limit = '1TB'",
        "SET GLOBAL enable_external_access = true",
        "ATTACH '/tmp/dpsql-attack.db'",
        "COPY (SELECT 1) TO '/tmp/dpsql-attack.csv'",
    ):
        with pytest.raises(duckdb.Error):
            cursor.execute(text)
    assert cursor.execute("SELECT current_setting('threads'), 7 / 2").fetchall() == [(1, 3)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT getenv('HOME')",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM duckdb_tables",
        "SELECT * FROM main.pg_class",
        "SELECT * FROM _session.pg_roles",
        "SELECT * FROM temp.main.given_relations",
        "SELECT getvariable('session')",
        "SELECT * FROM other._pgc.pg_class",
        "SELECT main.pgf_lower('a')",
        "SELECT 1; SELECT 2",
        "DELETE FROM _pgc.pg_class",
        "SELECT * FROM (DESCRIBE SELECT 1)",
        "SELECT read_text('/etc/passwd')",
        "SELECT * FROM range(3)",
        "nonsense",
    ],
)
def test_the_second_wall_refuses_other_sql(catalog: PgCatalog, sql: str) -> None:
    with pytest.raises(UnknownQuestion):
        check_sql(catalog._connection.cursor(), sql)


def test_the_second_wall_lets_generated_sql_pass(catalog: PgCatalog) -> None:
    check_sql(catalog._connection.cursor(), "SELECT pgf_lower(c.relname) FROM _pgc.pg_class AS c")


def _doubled(levels: int) -> str:
    query = "SELECT oid FROM pg_class"
    for level in range(levels):
        query = f"SELECT *, * FROM ({query}) AS x{level}"
    return query


@pytest.mark.parametrize(
    "text",
    [
        _doubled(30),
        "WITH x0 AS (SELECT oid FROM pg_class), "
        + ", ".join(f"x{level} AS (SELECT *, * FROM x{level - 1})" for level in range(1, 60))
        + " SELECT 1 FROM x59",
        "SELECT 1 FROM " + ", ".join(["(SELECT " + ", ".join(["*"] * 40) + " FROM pg_class) AS x"] * 150),
        "SELECT 1 FROM " + ", ".join(f"pg_class AS x{place}" for place in range(2_000)),
    ],
    ids=["nested", "common tables", "many", "relations"],
)
def test_names_of_columns_do_not_multiply(catalog: PgCatalog, text: str) -> None:
    with pytest.raises(UnknownQuestion) as caught:
        catalog.answer(text, FACTS)
    assert caught.value.shape.startswith("too many")


def test_a_star_stands_for_all_columns_of_a_query(catalog: PgCatalog) -> None:
    assert len(catalog.answer(_doubled(10), FACTS).columns) == 1_024


@pytest.mark.parametrize(
    "called", ["format_type({}::oid, 1)", "to_regclass({}::text)::oid", "{}::regtype::text"]
)
def test_calls_that_read_tables_are_not_nested_deeply(catalog: PgCatalog, called: str) -> None:
    text = "typname"
    for _ in range(8):
        text = called.format(text)
    with pytest.raises(UnknownQuestion) as caught:
        catalog.answer(f"SELECT {text} FROM pg_type", FACTS)
    assert caught.value.shape == "nested calls"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + ", ".join(["format_type(a.atttypid, a.atttypmod)"] * 51) + " FROM pg_attribute a",
        "SELECT "
        + ", ".join(["(SELECT count(*) FROM pg_attribute WHERE attrelid = c.oid)"] * 51)
        + " FROM pg_class c",
        "SELECT 1 FROM pg_class c WHERE "
        + " OR ".join(["EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = c.oid)"] * 51),
        "SELECT 1 FROM pg_class c WHERE "
        + " OR ".join(["c.oid IN (SELECT attrelid FROM pg_attribute WHERE attnum = c.relnatts)"] * 51),
    ],
    ids=["calls", "values", "exists", "in"],
)
def test_there_are_not_many_subqueries_which_are_bound_for_long(catalog: PgCatalog, text: str) -> None:
    with pytest.raises(UnknownQuestion) as caught:
        catalog.answer(text, FACTS)
    assert caught.value.shape == "so many subqueries"


def _nested(form: str, depth: int, inner: str = "'x'") -> str:
    text = inner
    for _ in range(depth):
        text = form.format(text)
    return text


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + _nested("CASE {} WHEN 'a' THEN 'b' WHEN 'c' THEN 'd' END", 17),
        "SELECT " + _nested("nullif({}, 'a')", 17),
        "SELECT " + _nested("split_part({}, 'a', 1)", 17),
        "SELECT 1 FROM pg_class c0 " + " ".join(f"JOIN pg_class c{i} USING (oid)" for i in range(1, 70)),
        "WITH x AS (" + " UNION ALL ".join(["SELECT oid FROM pg_class"] * 70) + ") SELECT 1 FROM x",
    ],
    ids=["case", "nullif", "calls", "joins", "unions"],
)
def test_what_duckdb_makes_of_a_question_has_a_size(catalog: PgCatalog, text: str) -> None:
    with pytest.raises(UnknownQuestion) as caught:
        catalog.answer(text, FACTS)
    assert caught.value.shape in ("nested calls", "too many relations")


def test_a_common_table_is_computed_once_whatever_is_written(catalog: PgCatalog) -> None:
    levels = ["c0 AS (SELECT 1 AS x)"] + [
        f"c{i} AS NOT MATERIALIZED (SELECT (SELECT x FROM c{i - 1}) + (SELECT x FROM c{i - 1}) AS x)"
        for i in range(1, 21)
    ]
    text = f"WITH {', '.join(levels)} SELECT x FROM c20"
    found = catalog.answer(text, FACTS)
    assert found.table.column(0).to_pylist() == [1 << 20]
