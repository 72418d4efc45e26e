"""Every allowed function on nasty values of its argument types: none may raise, whatever a cell holds.

Whether a statement fails would tell one person's value, and TRY is no total guard. So each listed form runs
over all combinations of nasty values, row by row as constants, and over columns whose smallest and largest
values are nasty (the optimizer may compute functions of those).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import reduce
from pathlib import Path

import duckdb
import pytest
from fuzz.calls import literals
from fuzz.hostile import call, column_kinds, forms, values, variants

from dpsql.analysis import analyse
from dpsql.analysis.aggregate_functions import AGGREGATES
from dpsql.engines.declared_domains import Domains
from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.duckdb.table_readers import Reader
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.errors import QueryRefused
from dpsql.kernel.tree import Form
from dpsql.language import Options, Query, parse
from dpsql.policy import BudgetPolicy, ParquetSource, Policy, Table, UnitColumn
from dpsql.types import column_type

VALUES = pytest.mark.parametrize("part", [3, pytest.param(1, marks=pytest.mark.slow)])
"""Every day every third of the nasty values; all combinations of them are tried row by row."""

TOGETHER = 10
"""Conditions of one statement."""

INTERVALS = ("1 DAY", "170000000 YEAR", "999999999 MONTH", "7 HOUR", "0 SECOND")
LONG = "repeat('ab', 40000), repeat('ß', 35000), repeat('{', 3000), repeat('[', 70000)"
"""Texts beyond the length guards, for functions of one text."""


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb_settings.connect()
    connection.execute("SET threads = 1")
    yield connection
    connection.close()


def written(form: Form, kinds: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Fill a form with columns, and with each of its sensible literals in the places that want one."""
    out: list[list[str]] = [[]]
    for place, (want, column) in enumerate(zip(kinds, columns, strict=True)):
        choices = literals(form.name, want, place) if want[0] in "=#" else [column]
        out = [[*part, choice] for part in out for choice in choices]
    return [form.template.format(*part) for part in out]


def raising(engine: duckdb.DuckDBPyConnection, form: Form) -> list[str]:
    """Run one form over all combinations of nasty values, all at once; return what it raises."""
    errors = []
    for kinds in variants(form):
        names = [f"a{i}" for i in range(len(kinds))]
        varied = [(i, k) for i, k in enumerate(kinds) if k[0] not in "=#"]
        sources = [f"({values(k)}) AS s{i}(a{i})" for i, k in varied]
        if len(varied) > 4:  # seven values in each place, others in each
            few = "(SELECT v FROM ({}) AS w(v) ORDER BY hash(v, {}) LIMIT 7) AS s{}(a{})"
            sources = [few.format(values(k), i, i, i) for i, k in varied]
        if [k for k in kinds if k[0] not in "=#"] == ["VARCHAR"]:
            sources = [
                f"({values('VARCHAR')} UNION ALL SELECT unnest([{LONG}])) AS s0(a{kinds.index('VARCHAR')})"
            ]
        engine.execute(f"CREATE OR REPLACE TEMP TABLE nasty AS SELECT * FROM {' CROSS JOIN '.join(sources)}")
        for text in written(form, kinds, names):
            # As it is, and under a condition: then the engine evaluates a selection of the rows.
            for sql in (text, f"CASE WHEN rowid % 3 = 1 THEN {text} END"):
                try:
                    engine.execute(
                        f"SELECT count(x), max(hash(x)) FROM (SELECT {sql} AS x FROM nasty)"
                    ).fetchall()
                except (duckdb.Error, ValueError) as error:
                    errors.append(f"{form.name}{kinds}: {sql}: {type(error).__name__} {str(error)[:200]}")
    return errors


@pytest.mark.parametrize("letter", sorted({f.name[0] for f in forms()}))
@pytest.mark.sampled(5)
def test_no_function_raises_on_any_combination_of_nasty_values(
    engine: duckdb.DuckDBPyConnection, letter: str
) -> None:
    errors = [e for form in forms() if form.name[0] == letter for e in raising(engine, form)]
    assert not errors, "\n".join(errors[:5])


def everything() -> list[tuple[str, tuple[str, ...]]]:
    """Fill every form for every type, over columns named by their types."""
    return [
        (text, kinds)
        for form in forms()
        for kinds in variants(form)
        for text in written(form, kinds, [f'"{k}"' for k in kinds])
    ]


def each_row(engine: duckdb.DuckDBPyConnection, part: int) -> Iterator[tuple[dict[str, str], list[str]]]:
    """Give a nasty value of every type as a literal, then the n-th next, and the forms that it is new to."""
    every = everything()
    kinds = column_kinds()
    found = {k: engine.execute(f"SELECT v::VARCHAR FROM ({values(k)})").fetchall() for k in kinds}
    for i in range(0, max(len(v) for v in found.values()), part):
        row = {k: cast_of(found[k][i % len(found[k])][0], k) for k in kinds}
        yield row, [text for text, of in every if any(i < len(found.get(k, ())) for k in of)]


def cast_of(value: str | None, kind: str) -> str:
    escaped = (value or "").replace("'", "''")
    return f"CAST({'NULL' if value is None else chr(39) + escaped + chr(39)} AS {kind})"


def first_raising(engine: duckdb.DuckDBPyConnection, texts: list[str], source: str) -> str | None:
    """Run all texts in one query; if it raises, halve until one text is left."""
    try:
        engine.execute(f"SELECT {', '.join(f'count({t})' for t in texts)} FROM {source}").fetchall()
    except duckdb.Error as error:
        if len(texts) == 1:
            return f"{texts[0][:300]}: {type(error).__name__} {str(error)[:200]}"
        half = len(texts) // 2
        return first_raising(engine, texts[:half], source) or first_raising(engine, texts[half:], source)
    return None


def over_columns(engine: duckdb.DuckDBPyConnection, part: int) -> Iterator[str]:
    """Run every form over one-row tables, whose columns are as small and as large as that value."""
    for row, texts in each_row(engine, part):
        cells = ", ".join(f'{value} AS "{kind}"' for kind, value in row.items())
        engine.execute(f"CREATE OR REPLACE TABLE edge AS SELECT {cells}")
        error = first_raising(engine, texts, "edge")
        if error is not None:
            yield error


@VALUES
def test_no_function_raises_while_a_statement_is_planned(
    engine: duckdb.DuckDBPyConnection, part: int
) -> None:
    errors = list(over_columns(engine, part))
    assert not errors, "\n".join(errors[:5])


@VALUES
def test_no_function_raises_on_constants(engine: duckdb.DuckDBPyConnection, part: int) -> None:
    errors = []
    for row, texts in each_row(engine, part):
        folded = [replaced(t, row) for t in texts]
        errors.append(first_raising(engine, folded, "(SELECT 1) AS r(one)"))
    assert not [e for e in errors if e is not None]


def replaced(text: str, constants: dict[str, str]) -> str:
    for name, value in constants.items():
        text = text.replace(f'"{name}"', value)
    return text


@pytest.mark.parametrize(
    "wrong",
    [
        Form("+", "I", ("BIGINT", "BIGINT"), "({0} + {1})"),
        Form("abs", "I", ("BIGINT",), "abs({0})"),
        Form("cast", "R", ("VARCHAR",), "CAST({0} AS BIGINT)"),
        Form("chr", "Y", ("INTEGER",), "chr({0})"),
        Form("LIKE", "T", ("VARCHAR", "VARCHAR"), "({0} LIKE {1} ESCAPE '$')"),
        Form("regexp_matches", "L", ("VARCHAR", "VARCHAR"), "regexp_matches({0},{1})"),
        Form("date_trunc", "L+Y", ("TIMESTAMP",), "date_trunc('year',{0})"),
        Form("json", "L", ("VARCHAR",), "CAST({0} AS JSON)"),
        Form("sum", "T", ("BIGINT[]",), "CAST(list_sum({0}) AS BIGINT)"),
    ],
    ids=lambda f: f.template,
)
def test_a_form_without_its_guard_is_noticed(engine: duckdb.DuckDBPyConnection, wrong: Form) -> None:
    assert raising(engine, wrong)


def test_functions_of_column_statistics_are_noticed(engine: duckdb.DuckDBPyConnection) -> None:
    """Planning must not look at a column's smallest value: TRY does not cover what that raises."""
    other = duckdb_settings.connect()
    other.execute("RESET disabled_optimizers")
    assert any("isoyear" in e or "week" in e for e in over_columns(other, 1))
    other.close()


class Compiled:
    """One private table with three columns of every type, its shell, and random nasty rows of it."""

    def __init__(self, rows: int) -> None:
        kinds = {f"{k} {i}": k for k in column_kinds() for i in range(3)}
        columns = {"user_id": column_type("BIGINT")} | {n: column_type(k) for n, k in kinds.items()}
        table = Table(
            name="t", source=ParquetSource(Path("t.parquet")), unit=UnitColumn("user_id"), columns=columns
        )
        self.policy = Policy(budget=BudgetPolicy(epsilon=Fraction(1)), tables={"t": table})
        readers = {"t": Reader(table, tuple(columns.items()), "", ())}
        self.schema_database = SchemaDatabase(readers, {}, Domains(self.policy, readers))
        self.engine = duckdb_settings.connect()
        self.engine.execute("SELECT setseed(0.25)")
        picked = []
        for name, kind in kinds.items():
            listed = f"(SELECT list(v) FROM ({values(kind)}))"
            picked.append(f'{listed}[1 + floor(random() * len({listed}))::INTEGER] AS "{name}"')
        self.engine.execute(
            f"CREATE TABLE t AS SELECT i % 7 AS user_id, {', '.join(picked)} FROM range({rows}) r(i)"
        )

    def close(self) -> None:
        self.schema_database.close()
        self.engine.close()

    def run_all(self, conditions: Sequence[str]) -> None:
        """Compile conditions and count by all of them, a few in one statement; if it fails, each alone.

        A chain of comparisons needs the value of every one on every row, and nothing in it is within a TRY
        that is not one's own.
        """
        for first in range(0, len(conditions), TOGETHER):
            some = conditions[first : first + TOGETHER]
            try:
                self.run(reduce(lambda all_before, each: f"({all_before}) = ({each})", some))
            except Exception:
                for each in some:
                    self.run(each)
                raise

    def run(self, condition: str, source: str = "t") -> None:
        """Compile a condition on the private table, which the engine's binder confirms, and count by it."""
        query = parse(f"SELECT COUNT(DISTINCT user_id) AS n FROM {source} WHERE {condition}")
        assert isinstance(query, Query)
        plan = analyse(query, self.policy, self.schema_database, Options(epsilon=Fraction(1)))
        self.engine.execute(plan.compiled.sql).fetchall()


@pytest.fixture(scope="module")
def compiled() -> Iterator[Compiled]:
    made = Compiled(2_500)
    yield made
    made.close()


@pytest.fixture(scope="module")
def few() -> Iterator[Compiled]:
    made = Compiled(60)
    yield made
    made.close()


def typed(form: Form) -> list[str]:
    """Write a form over the private table's columns, with each of its literals."""
    out = []
    for kinds in variants(form):
        parts: list[list[str]] = [[]]
        for place, want in enumerate(kinds):
            column = f'"{want} {place % 3}"'
            choices = literals(form.name, want, place) if want[0] in "=#" else [column]
            parts = [[*p, c] for p in parts for c in choices[:2]]
        out += [call(form, p) for p in parts]
    return out


PARTS = pytest.mark.parametrize("part", [12, pytest.param(1, marks=pytest.mark.slow)])
"""One of so many cases is run: every day every twelfth one, so chosen that all types and ways are met."""
PAIRS = pytest.mark.parametrize("part", [16, pytest.param(1, marks=pytest.mark.slow)])
"""The same of cases of two types, of which every other pair is met every day, in one way."""


@PARTS
@pytest.mark.parametrize("letter", sorted({f.name[0] for f in forms()}))
def test_the_binder_confirms_every_function_and_it_runs(compiled: Compiled, letter: str, part: int) -> None:
    """What an analyst types compiles to the listed form, which binds to what the second wall knows.

    Every day each form runs with every twelfth choice of types and literals, and with one at least.
    """
    compiled.run_all(
        [
            f"{text} IS NOT NULL"
            for place, form in enumerate(forms())
            if form.name[0] == letter
            for texts in (typed(form),)
            for text in texts[place % min(part, len(texts)) :: part]
        ]
    )


@PAIRS
def test_no_conversion_raises(compiled: Compiled, part: int) -> None:
    """Casts between all types, and every way in which values of two types may meet, or a refusal."""
    ways = [
        'CAST("{a} 0" AS {b}) IS NOT NULL',
        'CAST("{a} 0" AS {b}) = "{b} 1"',
        '"{a} 0" = "{b} 1"',
        '"{a} 0" IN ("{b} 0", "{b} 1")',
        '"{a} 0" BETWEEN "{b} 0" AND "{b} 1"',
        'COALESCE("{a} 0", "{b} 1") IS NOT NULL',
        'CASE WHEN "BOOLEAN 0" THEN "{a} 0" ELSE "{b} 1" END IS NOT NULL',
        '"{a} 0" + "{b} 1" IS NOT NULL',
    ]
    ran = 0
    for i, a in enumerate(column_kinds()):
        for j, b in enumerate(column_kinds()):
            for way in ways[(i + j) % part :: part]:
                try:
                    compiled.run(way.format(a=a, b=b))
                    ran += 1
                except QueryRefused:  # the CAST to write is another of these ways
                    continue
    assert ran > 500 // part


def test_no_special_syntax_raises(compiled: Compiled) -> None:
    texts = [
        *(
            f'"VARCHAR 0"[{i}] IS NULL'
            for i in ("1", "-3", "0", '"BIGINT 0"', '"INTEGER 1"', "2:3", "3:-1", "-9:9")
        ),
        *(
            f'"VARCHAR[] 0"[{i}] IS NULL'
            for i in ("1", "-3", "0", '"BIGINT 0"', '"INTEGER 1"', "2:3", "3:-1")
        ),
        *(f'"BIGINT[] 0"[{i}] IS NULL' for i in ("1", '"BIGINT 0"', "2:3")),
        "\"VARCHAR 0\" LIKE 'a$%' ESCAPE '$'",
        "\"VARCHAR 0\" NOT ILIKE '$_%' ESCAPE '$'",
        "\"VARCHAR 0\" SIMILAR TO '(a|b)+'",
        "SUBSTRING(\"VARCHAR 0\" FROM 2 FOR 3) = 'x'",
        'SUBSTRING("VARCHAR 0" FROM "BIGINT 0" FOR "BIGINT 1") IS NULL',
        "TRIM(TRAILING 'a' FROM \"VARCHAR 0\") = 'x'",
        'TRIM(BOTH "VARCHAR 0" FROM "VARCHAR 1") IS NULL',
        "OVERLAY(\"VARCHAR 0\" PLACING 'xy' FROM 3 FOR 900000000) = ''",
        "OVERLAY(\"VARCHAR 0\" PLACING 'xy' FROM 900000000 FOR -899999999) = ''",
        'POSITION("VARCHAR 0" IN "VARCHAR 1") = 0',
        "\"VARCHAR 0\" ->> '$.a[0]' = 'x'",
        "\"VARCHAR 0\" -> 'a' = 'x'",
        'len(list_transform("VARCHAR[] 0", lambda p: CAST(p AS BIGINT))) = 1',
        'len(list_filter("BIGINT[] 0", lambda p: p * p > p + 1)) = 1',
        "list_max(list_transform(\"VARCHAR[] 0\", lambda p: upper(p))) = 'A'",
        *(
            f'"{k} 0" {op} INTERVAL {n} IS NULL'
            for k in ("DATE", "TIMESTAMP")
            for op in "+-"
            for n in INTERVALS
        ),
    ]
    compiled.run_all(texts)


@PAIRS
def test_no_aggregate_or_window_raises(few: Compiled, part: int) -> None:
    calls = [f"{name}({{x}})" for name in AGGREGATES] + [
        "SUM(DISTINCT {x})",
        "SUM({x}) FILTER (WHERE {x} IS NULL)",
    ]
    calls += ["FIRST({x} ORDER BY {y})", "LIST({x} ORDER BY {x})", "ARG_MAX({x}, {y})", "MIN_BY({x}, {y})"]
    over = "OVER (PARTITION BY user_id ORDER BY {y})"
    rows = "OVER (PARTITION BY user_id ORDER BY {y} ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)"
    windows = [
        f"{name}({{x}}) {frame}"
        for name in ("SUM", "AVG", "MIN", "COUNT", "BIT_XOR")
        for frame in (over, rows)
    ]
    windows += [f"{name}({{x}}) {over}" for name in ("LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE")]
    windows += [f"{name}() {over}" for name in ("RANK", "ROW_NUMBER", "CUME_DIST")]
    ran = 0
    for i, kind in enumerate(column_kinds()):
        for text in [*calls, *windows][i % part :: part]:
            made = text.format(x=f'"{kind} 0"', y=f'"{kind} 1"')
            group = "" if " OVER " in made else " GROUP BY user_id"
            try:
                few.run("a IS NOT NULL", f"(SELECT user_id, {made} AS a FROM t{group}) AS s")
                ran += 1
            except QueryRefused:  # not of this type
                continue
    assert ran >= 300 // part
