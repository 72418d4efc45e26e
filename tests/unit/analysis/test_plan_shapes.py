"""Counting SQL of one shape has one bound plan but for constants, so that its check holds for all of them."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dpsql.analysis.compiled_query import confirm
from dpsql.analysis.plan_shapes import is_moment, shape_of
from dpsql.engines import open_engine
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.errors import InternalError
from dpsql.policy import Policy, load
from dpsql.session import Session
from tests.sql_fixtures import FOLDER, raw_data, read, write

EVERY = 12
FIXTURES = [f for path in sorted((FOLDER / "accepted").glob("*.sql")) for f in read(path)]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with raw_data() as raw:
        yield write(tmp_path_factory.mktemp("shapes") / "data", raw)


@pytest.fixture(scope="module")
def texts(policy: Path) -> list[str]:
    """The counting SQL of some accepted statements, as the engine binds it."""
    found: list[str] = []
    bind = SchemaDatabase.plan

    def record(itself: SchemaDatabase, sql: str) -> object:
        found.append(sql)
        return bind(itself, sql)

    with pytest.MonkeyPatch.context() as patched, closing(Session(policy)) as session:
        patched.setattr(SchemaDatabase, "plan", record)
        for fixture in FIXTURES[::EVERY]:
            session.prepare(fixture.statement)
    return sorted({sql for sql in found if "?" not in sql})


@pytest.fixture(scope="module")
def schema(policy: Path) -> Iterator[tuple[SchemaDatabase, Policy]]:
    loaded = load(policy)
    engine = open_engine(loaded)
    yield engine.schema_database, loaded
    engine.close()


def other_constants(sql: str) -> str:
    """Another text of the same shape: every constant that the shape leaves out has another value."""
    shape, places = shape_of(sql), re.compile(r"(?:CAST\(-?)?\?[48]?(?= AS )|(?:DATE |TIMESTAMP )?\?(?![48])")

    def other(found: re.Match[str]) -> str:
        begin, _, size = found[0].partition("?")
        if size:
            return begin + ("1999999999" if size == "4" else "9199999999999999999")
        moments = {"DATE ": "'1987-06-05'", "TIMESTAMP ": "'1987-06-05 04:03:02.000100'"}
        return begin + moments.get(begin, "'it''s ? another'")

    return places.sub(other, shape)


def without_values(plan: object) -> object:
    """The plan without the values of constants, and what the engine takes of the text: places and names."""
    if isinstance(plan, list):
        return [without_values(each) for each in plan]
    if not isinstance(plan, dict):
        return plan
    constant = plan.get("expression_class") == "BOUND_CONSTANT"
    left = {"query_location", "query_location_length", "alias", *(["value"] if constant else [])}
    kept = {key: without_values(value) for key, value in plan.items() if key not in left}
    return kept | {"kind": (plan["value"] or {}).get("type")} if constant else kept


def test_texts_of_one_shape_have_one_plan(texts: list[str], schema: tuple[SchemaDatabase, Policy]) -> None:
    catalog, policy = schema
    compared = 0
    for sql in texts:
        other = other_constants(sql)
        assert shape_of(other) == shape_of(sql), sql
        catalog.confirmed.clear()
        confirm(catalog, sql, policy)
        if other != sql and shape_of(sql) in catalog.confirmed:
            compared += 1
            assert without_values(catalog.plan(other)) == without_values(catalog.plan(sql)), sql
    assert compared > 5


def test_a_check_holds_for_the_shape(
    schema: tuple[SchemaDatabase, Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, policy = schema
    sql = 'SELECT COUNT(*) AS n0 FROM main."visits" AS b WHERE b."user_id" = CAST({} AS BIGINT)'
    catalog.confirmed.clear()
    found = confirm(catalog, sql.format(7), policy)
    monkeypatch.setattr(SchemaDatabase, "plan", lambda *_: pytest.fail("it was bound again"))
    assert confirm(catalog, sql.format(123_456), policy) is found


def test_no_search_for_garbage_goes_through_a_plan(
    schema: tuple[SchemaDatabase, Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, policy = schema
    catalog.confirmed.clear()
    bind, collects = SchemaDatabase.plan, list[bool]()

    def record(itself: SchemaDatabase, sql: str) -> object:
        collects.append(gc.isenabled())
        return bind(itself, sql)

    monkeypatch.setattr(SchemaDatabase, "plan", record)
    confirm(catalog, 'SELECT COUNT(*) AS n0 FROM main."visits" AS b', policy)
    with pytest.raises(InternalError, match="does not bind"):
        confirm(catalog, "SELECT nothing", policy)
    assert collects == [False, False]
    assert gc.isenabled()


def test_what_is_found_by_the_value_of_a_text_holds_for_that_text_alone(
    schema: tuple[SchemaDatabase, Policy],
) -> None:
    catalog, policy = schema
    sql = 'SELECT COUNT(*) AS n0 FROM main."visits" AS b WHERE b."user_id" = \'{}\''
    catalog.confirmed.clear()
    confirm(catalog, sql.format(12), policy)
    confirm(catalog, sql.format(12), policy)
    with pytest.raises(InternalError, match="a constant does not convert"):
        confirm(catalog, sql.format("twelve"), policy)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT round(a, 2) FROM t ORDER BY 1 LIMIT 3",
        "SELECT round(a, CAST(2 AS INTEGER)), date_trunc('month', d) FROM t",
        "SELECT a FROM range(0, 20) AS r(i)",
        "SELECT TRY_CAST('7' AS BIGINT), d + INTERVAL '1 second' FROM t",
        "SELECT '= CAST(5 AS BIGINT)', \"AND CAST(5 AS BIGINT)\" FROM t",
        "SELECT a FROM t WHERE a = CAST(2147483648 AS BIGINT)",
        "SELECT a FROM t WHERE a = CAST(3000000000 AS INTEGER)",
        "SELECT a FROM t WHERE a = CAST(300 AS TINYINT)",
        "SELECT a FROM t WHERE a = CAST(9223372036854775808 AS HUGEINT)",
        "SELECT a FROM t WHERE a = CAST(1.5 AS DECIMAL(4,2)) AND a < 7",
        "SELECT a FROM t WHERE d = DATE '2023-02-29' AND d > DATE 'infinity'",
        "SELECT a FROM t WHERE d = '2024-01-01' AND d > '2024-01-01 00:00:00'",
        "SELECT a FROM t WHERE a IN (CAST(1 AS BIGINT), b)",
    ],
)
def test_what_binding_may_depend_on_stays(sql: str) -> None:
    assert shape_of(sql) == sql


def test_names_are_no_constants() -> None:
    sql = 'SELECT a FROM t WHERE "it\'s = \'" = CAST(5 AS BIGINT) AND "b""= \'x" <> \'y\''
    assert shape_of(sql) == 'SELECT a FROM t WHERE "it\'s = \'" = CAST(?4 AS BIGINT) AND "b""= \'x" <> ?'


@pytest.mark.parametrize("text", ["20240101", "2024-W01-1", "0000-01-01", "24-01-01", "2024-01-01 ", "epoch"])
def test_a_text_that_the_engine_may_read_in_another_way_is_no_moment(text: str) -> None:
    assert not is_moment("DATE", text)
    assert not is_moment("TIMESTAMP", text)
