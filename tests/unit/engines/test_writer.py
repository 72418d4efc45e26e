"""The translation without a server: what is written, what is refused, what a policy may say of an engine."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from support.reading import query_of

from dpsql.analysis.typed_expression import Span
from dpsql.engines import Cancelled, open_engine
from dpsql.engines.declared_domains import Domains
from dpsql.engines.duckdb.table_readers import Reader
from dpsql.engines.postgres.postgres_sql import PostgresDialect, display_sql, executable_sql
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.engines.spark.spark_sql import SparkDialect
from dpsql.engines.worker import RunningStatement, run_in_thread, running_statement
from dpsql.engines.writer import (
    QUERIES,
    RULES,
    SOURCES,
    Dialect,
    TargetColumn,
    Translated,
    Untranslatable,
    write,
)
from dpsql.engines.writer.dialect import case_table
from dpsql.errors import PolicyError
from dpsql.kernel import tree
from dpsql.policy import BudgetPolicy, DatabaseSource, ParquetSource, Policy, Table, UnitColumn, load
from dpsql.types import INTEGER, VARCHAR, column_type

COLUMNS = {
    "id": "BIGINT",
    "b": "BIGINT",
    "d": "DOUBLE",
    "s": "VARCHAR",
    "t": "DATE",
    "m": "TIMESTAMP",
    "l": "BOOLEAN",
}
SPREADS = {"t": (1.0, 9999.0), "m": (1.0, 9999.0)}
ODD = (
    "it's",
    "\\",
    "\\'",
    "a\nb",
    "%_",
    '"',
    "{}",
    "é😀",
    "$$",
    "--",
    "/*",
    "\u2028",
    "' OR 1=1 --",
    "\\u0027",
    "`",
)


@pytest.fixture(scope="module")
def schema() -> Iterator[SchemaDatabase]:
    tables = {
        "rows": Table(
            name="rows",
            source=DatabaseSource(None, "rows"),
            unit=UnitColumn("id"),
            columns={n: column_type(k) for n, k in COLUMNS.items()},
        ),
        "pages": Table(
            name="pages",
            source=ParquetSource(Path("pages.parquet")),
            public=True,
            columns={"page": column_type("VARCHAR")},
        ),
    }
    policy = Policy(budget=BudgetPolicy(epsilon=Fraction(1)), tables=tables)
    readers = {n: Reader(t, tuple((t.columns or {}).items()), "", ()) for n, t in policy.tables.items()}
    made = SchemaDatabase(
        readers, {"pages": pa.table({"page": ["a", 'b"\\', None]})}, Domains(policy, readers)
    )
    yield made
    made.close()


@pytest.fixture(params=["postgres", "spark"])
def dialect(request: pytest.FixtureRequest) -> Dialect:
    columns = {
        n: TargetColumn(f"x{i}", column_type(k), SPREADS.get(n)) for i, (n, k) in enumerate(COLUMNS.items())
    }
    kind = PostgresDialect if request.param == "postgres" else SparkDialect
    return kind({"rows": ("(SELECT 1) ", columns)})


def made(schema: SchemaDatabase, dialect: Dialect, expression: str) -> Translated:
    listed = ", ".join(f'b."{c}" AS {c}' for c in COLUMNS)
    sql = f'SELECT {expression} AS x FROM (SELECT {listed} FROM main."rows" AS b) AS r'
    return write(query_of(sql), dialect, schema, {"rows"}, {})


@pytest.mark.parametrize(
    "expression",
    [
        "TRY_CAST(r.s AS INTEGER)",
        "TRY_CAST(r.s AS DATE)",
        "TRY_CAST(r.d AS VARCHAR)",
        "regexp_matches(r.s, '^a')",
        "(r.s SIMILAR TO 'a')",
        "(r.s LIKE r.s)",
        "(r.s GLOB 'a*')",
        "string_split(r.s, ' ')",
        "[r.b]",
        "r.s[1]",
        "reverse(r.s)",
        "hash(r.s)",
        "sin(r.d)",
        "pow(r.d, 2.0::DOUBLE)",
        "round(r.d)",
        "substring(r.s, -2, 1)",
        "left(r.s, -1)",
        "strftime(r.t, '%A')",
        "(r.t + INTERVAL '999999 year')",
        "(r.t + r.b)",
        "(r.t + 10000000)",
        "json_valid(r.s)",
        "(r.d / (- r.d))",
        "MEDIAN(r.b)",
        "SUM(r.d ORDER BY r.d)",
        "SUM(r.d)",
        "AVG(r.d)",
        "LIST(r.s ORDER BY r.s)",
        "random()",
        "error(r.s)",
        "current_setting('x')",
        "nobody.c0",
        "r.nothing",
        "(SELECT 1 AS a, 2 AS b)",
        "(r.s = r.b)",
        "DATE '20000-01-01'",
    ],
)
def test_what_does_not_mean_the_same_everywhere_is_refused(
    schema: SchemaDatabase, dialect: Dialect, expression: str
) -> None:
    with pytest.raises(Untranslatable):
        made(schema, dialect, expression)


ROW = tree.Scan("rows", "b")
ID = tree.Item(tree.Column("b", "id", stored=True), "x")
ONE = tree.Constant(1, INTEGER)
SAME = tree.Binary("=", ONE, ONE)


class NewExpression(tree.Expr):
    __slots__ = ()


class NewQuery(tree.Query):
    __slots__ = ()


class NewSource(tree.Source):
    __slots__ = ()


@pytest.mark.parametrize(
    "query",
    [
        tree.Select((ID,), tree.Scan("pages", "b")),
        tree.Select((ID,), tree.Scan("elsewhere", "b")),
        tree.Select((ID,), tree.Join(ROW, "CROSS", tree.DomainScan("d"))),
        tree.Select((ID,), tree.Join(ROW, "CROSS", tree.Range(0, 1))),
        tree.Select((ID,), tree.Join(ROW, "CROSS", tree.Values(((ONE,),), "v", ("c",)))),
        tree.Select((ID,), tree.Join(ROW, "CROSS", tree.Unnest(tree.ListOf((ONE,)), "u"))),
        tree.Select((ID,), tree.Join(ROW, "CROSS", tree.Join(ROW, "CROSS", ROW))),
        tree.Select((ID,), tree.Join(ROW, "CROSS", ROW, SAME)),
        tree.Select((ID,), tree.Join(ROW, "LEFT", ROW)),
        tree.Select((ID,), tree.Join(ROW, "ASOF", ROW, SAME)),
        tree.Select((ID,), ROW, group=(tree.Constant(2, INTEGER),)),
        tree.Select((ID,), ROW, group=(tree.Constant("x", VARCHAR),)),
        tree.Select((ID,), ROW, where=ONE),
        tree.Select((tree.Item(NewExpression(), "x"),), ROW),
        tree.Select((ID,), NewSource()),
        NewQuery(),
        tree.SetOperation(tree.Select((ID,), ROW), "UNION", tree.Select((ID, ID), ROW)),
    ],
)
def test_what_has_no_rule_is_refused(schema: SchemaDatabase, dialect: Dialect, query: tree.Query) -> None:
    with pytest.raises(Untranslatable):
        write(query, dialect, schema, {"rows"}, {})


def test_a_column_of_another_type_than_the_query_says_is_refused(schema: SchemaDatabase) -> None:
    query = tree.Select((tree.Item(tree.Column("b", "s", stored=True), "x"),), tree.Scan("rows", "b"))
    for kind in (PostgresDialect, SparkDialect):
        written = {"s": TargetColumn("x0", column_type("VARCHAR"))}
        assert write(query, kind({"rows": ("(SELECT 1)", written)}), schema, {"rows"}, {}).columns
        written = {"s": TargetColumn("x0", column_type("BIGINT"))}
        with pytest.raises(Untranslatable, match="a column of type VARCHAR, written as BIGINT"):
            write(query, kind({"rows": ("(SELECT 1)", written)}), schema, {"rows"}, {})


def test_a_form_is_written_as_the_expression_it_stands_for(schema: SchemaDatabase, dialect: Dialect) -> None:
    arguments = (tree.Column("b", "s"), tree.Constant("a$%%", VARCHAR), tree.Constant("$", VARCHAR))
    template = tree.Form("", "", (), "(NOT ({0} LIKE {1} ESCAPE {2}))")
    form = tree.Apply(template, arguments)
    meant = tree.Not(tree.Like(arguments[0], "LIKE", *arguments[1:]))
    one, other = (
        write(tree.Select((tree.Item(node, "x"),), ROW), dialect, schema, {"rows"}, {})
        for node in (form, meant)
    )
    assert one == other


def test_each_node_type_has_a_rule_or_is_of_public_relations_alone() -> None:
    nodes = {c for c in vars(tree).values() if isinstance(c, type) and issubclass(c, tree.Node)}
    nodes -= {tree.Node, tree.Expr, tree.Query, tree.Source}
    parts = {tree.Item, tree.OrderTerm, tree.Argument, tree.Parameter, tree.Candidates, tree.Numbered}
    public = {tree.DomainScan, tree.Range, tree.Values, tree.UtcTime}
    lowered = {each for each in nodes if issubclass(each, (tree.Lowered, tree.Counted))}
    assert lowered, "they are written as the SELECTs that they stand for"
    assert nodes - lowered - {*RULES, *QUERIES, *SOURCES} == parts | public


def test_doubles_that_could_overflow_are_postgres_errors_so_refused(schema: SchemaDatabase) -> None:
    columns = {
        n: TargetColumn(f"x{i}", column_type(k), SPREADS.get(n)) for i, (n, k) in enumerate(COLUMNS.items())
    }
    dialect = PostgresDialect({"rows": ("(SELECT 1) ", columns)})
    with pytest.raises(Untranslatable, match="overflow"):
        made(schema, dialect, "((r.d * 2.0::DOUBLE) + 0.0)")
    assert made(schema, dialect, "((CAST(r.b AS DOUBLE) * 0.1::DOUBLE) + 0.0)")
    power = "CAST(r.b AS DOUBLE)"
    for _ in range(5):
        power = f"(({power} * {power}) + 0.0)"
    with pytest.raises(Untranslatable, match="overflow"):
        made(schema, dialect, power)


def test_constants_are_computed_by_duckdb(schema: SchemaDatabase, dialect: Dialect) -> None:
    sql = made(schema, dialect, "(r.m < TRY(TRY_CAST('2024-03-31' AS DATE) + INTERVAL '1 month'))").sql
    assert "2024-04-30" in sql
    assert "interval" not in sql.lower()


def test_an_aggregate_of_a_constant_is_none(schema: SchemaDatabase, dialect: Dialect) -> None:
    assert "max(" in made(schema, dialect, "MAX(5)").sql.lower()


@pytest.mark.parametrize("text", ODD)
def test_a_text_is_never_syntax(schema: SchemaDatabase, dialect: Dialect, text: str) -> None:
    literal = "'" + text.replace("'", "''") + "'"
    sql = made(schema, dialect, f"(r.s = {literal})").sql
    if isinstance(dialect, SparkDialect):
        inside = sql.partition("= '")[2].partition("'")[0]
        # Nothing but plain characters and codes; they decode to the text.
        assert json.loads(f'"{inside}"') == text
        assert "\\" not in inside.replace("\\u", "")
    else:
        # A backslash never stands alone: it is one whatever the session takes it for.
        whole_text = "E" + literal.replace("\\", "\\\\") if "\\" in literal else literal
        assert f"CAST({whole_text} AS text)" in sql


def test_dates_and_timestamps_are_sent_as_rows(schema: SchemaDatabase, dialect: Dialect) -> None:
    grid = Span.of_days(date(2024, 1, 1), date(2024, 1, 2)).grid("hour")
    assert grid is not None
    points = f"(SELECT v AS c0 FROM ({grid.sql}) AS d) AS t1"
    hours = f"SELECT DISTINCT TRY(date_trunc('hour',t1.c0)) AS v FROM {points}"
    sql = (
        f"SELECT k.v AS x, COUNT(*) AS n FROM ({hours}) AS k "
        'LEFT JOIN main."rows" AS b ON b."m" = k.v GROUP BY k.v'
    )
    found = write(query_of(sql), dialect, schema, {"rows"}, {})
    (public,) = found.public
    assert sorted(public.rows.column(0).to_pylist()) == [
        datetime(2024, 1, day, hour) for day in (1, 2) for hour in range(24)
    ]


def test_public_relations_are_sent_once_and_shown_by_their_number(
    schema: SchemaDatabase, dialect: Dialect
) -> None:
    public = '(SELECT b."page" AS c0 FROM main."pages" AS b)'
    sql = (
        f'SELECT b."id" AS x FROM main."rows" AS b INNER JOIN {public} AS t1 ON b."s" = t1.c0 '
        f"INNER JOIN {public} AS t2 ON t1.c0 = t2.c0"
    )
    found = write(query_of(sql), dialect, schema, {"rows"}, {})
    (name,) = (p.name for p in found.public)
    assert name == "p0" or isinstance(dialect, SparkDialect)
    other = write(
        query_of(sql.replace('b."page" AS c0', 'upper(b."page") AS c0')), dialect, schema, {"rows"}, {}
    )
    # Views of Spark's session have the names of their rows, so that statements run beside one another.
    assert (other.public[0].name != name) == isinstance(dialect, SparkDialect)
    assert found.public[0].rows.to_pydict() == {"c0": ["a", 'b"\\', None]}
    assert "pages" not in found.sql
    if isinstance(dialect, PostgresDialect):
        assert r"""E'{"a","b\\"\\\\",NULL}'""" in executable_sql(found, dialect)
        assert "3 public rows" in display_sql(found, dialect)
        assert '"a"' not in display_sql(found, dialect)


def test_case_is_one_character_for_one(schema: SchemaDatabase) -> None:
    for function in ("lower", "upper"):
        old, new = case_table(function)
        assert len(old) == len(new) > 1000
        assert schema.evaluate(f"{function}('{old}')") == new


BASE = '[database]\nengine = "{}"\n[budget]\nepsilon = 1\n[tables.rows]\nsource = "s.rows"\nunit = "id"\n'


def policy_of(folder: Path, engine: str, more: str = "") -> Policy:
    (folder / "dpsql.toml").write_text(BASE.format(engine).replace("[budget]", f"{more}[budget]"), "utf-8")
    return load(folder / "dpsql.toml")


@pytest.mark.parametrize(
    "engine",
    [
        "spark",
        "sc://host:15002",
        "sc://host:15002/;use_ssl=true",
        "postgresql://me@host/db",
        "postgres:///db?host=/var/run&port=5433&sslmode=require",
    ],
)
def test_an_engine_is_a_word_or_an_address(tmp_path: Path, engine: str) -> None:
    assert policy_of(tmp_path, engine).engine == engine


@pytest.mark.parametrize(
    ("engine", "word"),
    [
        ("postgresql://me:hunter2@host/db", "hunter2"),
        ("postgresql://host/db?password=hunter2", "hunter2"),
        ("postgresql://host/db?sslpassword=hunter2", "hunter2"),
        ("postgresql://host/db?options=-csearch_path=hunter2", "hunter2"),
        ("postgres://me:hunter2@[broken/db", "hunter2"),
        ("sc://host:15002/;token=hunter2", "hunter2"),
        ("sc://me:hunter2@host", "hunter2"),
        ("mysql://me:hunter2@host/db", "hunter2"),
        ("me:hunter2@host", "hunter2"),
        ("postgres", "oracle"),
    ],
)
def test_a_secret_in_an_address_is_refused_and_not_repeated(tmp_path: Path, engine: str, word: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy_of(tmp_path, engine)
    assert "database.engine" in caught.value.message
    assert word not in repr(caught.value) + str(caught.value) + str(caught.value.hint)


def test_what_goes_with_an_engine(tmp_path: Path) -> None:
    assert policy_of(tmp_path, "spark", "timeout = 60\n").timeout == 60
    with pytest.raises(PolicyError, match=r"database\.timeout"):
        policy_of(tmp_path, "spark", "timeout = 0\n")
    (tmp_path / "own.duckdb").write_bytes(b"")
    with pytest.raises(PolicyError, match=r"database\.path"):
        policy_of(tmp_path, "spark", 'path = "own.duckdb"\n')


def test_the_fingerprint_tells_engines_apart(tmp_path: Path) -> None:
    one = policy_of(tmp_path, "spark")
    other = dataclasses.replace(one, engine="postgresql://me@host/db")
    tables = one.tables.values()
    found = {each.fingerprint(tables) for each in (one, other, dataclasses.replace(one))}
    assert len(found) == 2


@pytest.mark.parametrize(
    ("engine", "module", "extra"),
    [
        ("postgresql://me@127.0.0.1:1/db", "adbc_driver_postgresql", "dpsql[postgres]"),
        ("spark", "pyspark", "dpsql[spark]"),
    ],
)
def test_a_missing_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, module: str, extra: str
) -> None:
    for name in [n for n in sys.modules if n == module or n.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(PolicyError) as caught:
        open_engine(policy_of(tmp_path, engine))
    assert extra in (caught.value.hint or "")


def test_work_that_fails_says_nothing() -> None:
    def fail() -> pa.Table:
        raise ValueError("a cell")

    with running_statement() as statement:
        assert run_in_thread(fail, lambda: None, lambda _: True, "stopped") is None
    assert statement.failed


def cancelled_work(*, interrupted: bool, timeout: float | None = None) -> bool:
    """Cancel work that goes on until it was stopped three times; return whether it counts as cancelled."""
    stopped: list[int] = []

    def wait() -> pa.Table:
        statement.cancel()
        while len(stopped) < 3:  # the first ones are lost
            pass
        raise ValueError

    with running_statement() as statement:
        try:
            assert (
                run_in_thread(wait, lambda: stopped.append(1), lambda _: interrupted, "stopped", timeout)
                is None
            )
        except Cancelled:
            assert not statement.failed
            return True
    assert statement.failed
    return False


def test_work_is_cancelled_until_it_ends() -> None:
    assert cancelled_work(interrupted=True)
    assert not cancelled_work(interrupted=False), "the engine says that it was no interrupt"
    assert not cancelled_work(interrupted=True, timeout=0.03), "no person wished a timeout"


def test_a_cancelled_statement_begins_no_further_work() -> None:
    ran: list[int] = []
    with running_statement() as statement:
        statement.cancel()
        with pytest.raises(Cancelled, match="stopped"):
            run_in_thread(lambda: ran.append(1), lambda: None, lambda _: True, "stopped")
    assert ran == []
    assert not statement.failed
    assert run_in_thread(lambda: 1, lambda: None, lambda _: True, "stopped") == 1, "the next statement"


def test_what_is_cancelled_is_one_statement() -> None:
    stopped: list[str] = []
    mine, theirs = RunningStatement(), RunningStatement()

    def both() -> str:
        theirs.cancel()
        return "done"

    with running_statement(mine):
        assert run_in_thread(both, lambda: stopped.append("mine"), lambda _: True, "stopped") == "done"
    mine.cancel()  # nothing of it runs any more
    assert stopped == []


def test_an_interrupt_that_nobody_asked_for_is_a_failure() -> None:
    def fail() -> pa.Table:
        raise ValueError

    with running_statement() as statement:
        assert run_in_thread(fail, lambda: None, lambda _: True, "stopped") is None
        assert statement.failed
    with running_statement() as statement:
        assert run_in_thread(lambda: 1, lambda: None, lambda _: True, "stopped") == 1
        assert not statement.failed


def test_in_over_a_query_has_three_values_where_they_count(schema: SchemaDatabase, dialect: Dialect) -> None:
    """Spark's own form is FALSE for NULL: it stands only where WHERE takes both alike."""
    source = 'FROM (SELECT b."b" AS x FROM main."rows" AS b) AS t'
    found = 't.x IN (SELECT o."b" AS x FROM main."rows" AS o)'
    own = isinstance(dialect, SparkDialect)
    for text, simple in (
        (f"SELECT ({found}) AS x {source}", False),
        (f"SELECT COUNT(*) AS x {source} WHERE (NOT ({found}))", False),
        (f"SELECT COUNT(*) AS x {source} WHERE (({found}) IS NULL)", False),
        (f"SELECT COUNT(*) AS x {source} WHERE ({found})", True),
        (f"SELECT COUNT(*) AS x {source} WHERE (({found}) OR (t.x = 1))", True),
    ):
        sql = write(query_of(text), dialect, schema, {"rows"}, {}).sql
        assert ("EXISTS" in sql) == (own and not simple), text
