"""Which statements are the catalogue's, and which cancel or terminate another connection."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dpsql.serve.catalog import Route, SessionFacts, UnknownQuestion
from dpsql.serve.catalog.catalog import PgCatalog
from tests.serve.catalog_cases import OIDS, Declared, policy

FACTS = SessionFacts("alice", 4711, {"search_path": '"$user", public', "jit": "on"})


@pytest.fixture(scope="module")
def catalog() -> PgCatalog:
    return PgCatalog(policy(), Declared(), "clinic", oids=OIDS)


@pytest.mark.parametrize(
    ("text", "route"),
    [
        ("SELECT relname FROM pg_class", Route.CATALOG),
        (
            "SELECT relname FROM pg_catalog.pg_class c JOIN information_schema.tables t ON true",
            Route.CATALOG,
        ),
        ("select * from INFORMATION_SCHEMA.columns", Route.CATALOG),
        ("SELECT 1", Route.CATALOG),
        ("select version()", Route.CATALOG),
        ("select current_schema()", Route.CATALOG),
        ('SELECT "a" FROM (SELECT 1 AS "a") AS "q"', Route.CATALOG),
        ("SELECT * FROM unnest(current_schemas(true))", Route.CATALOG),
        ("WITH visits AS (SELECT oid FROM pg_class) SELECT * FROM visits", Route.CATALOG),
        ("SELECT 'visits' FROM pg_class", Route.CATALOG),
        ("SELECT * FROM pg_class WINDOW w AS (ORDER BY oid) FOO BAR", Route.CATALOG),
        ("SELECT COUNT(*) FROM visits", Route.DATA),
        ("SELECT COUNT(*) FROM public.visits", Route.DATA),
        ("SELECT pg_class FROM visits", Route.DATA),
        ("SELECT 'pg_class' FROM visits", Route.DATA),
        ("SELECT clinic, COUNT(*) FROM visits GROUP BY 1 TOP 3", Route.DATA),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM visits", Route.DATA),
        ("SELECT strftime(DATE '2024-01-01', '%Y')", Route.DATA),
        ("SELECT * FROM range(3)", Route.DATA),
        ("SELECT * FROM tables", Route.DATA),
        ("SHOW PRIVACY BUDGET", Route.DATA),
        ("EXPLAIN SELECT COUNT(*) FROM visits", Route.DATA),
        ("DESCRIBE visits", Route.DATA),
        ("BEGIN", Route.DATA),
        ("", Route.DATA),
        ("SELECT 'open", Route.DATA),
        ("SELECT COUNT(*) FROM visits, pg_class", Route.BOTH),
        ("SELECT relname FROM pg_class WHERE EXISTS (SELECT 1 FROM visits)", Route.BOTH),
        ("WITH c AS (SELECT * FROM pg_class) SELECT * FROM c JOIN visits ON true", Route.BOTH),
    ],
)
def test_routes(catalog: PgCatalog, text: str, route: Route) -> None:
    assert catalog.route(text) is route
    assert catalog.route(text) is route


@pytest.mark.parametrize(
    ("text", "parameters", "kind", "pid"),
    [
        ("SELECT pg_cancel_backend(12)", [], "cancel", 12),
        ("select pg_catalog.pg_terminate_backend(12);", [], "terminate", 12),
        ("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid='4711'", [], "terminate", 4711),
        ("SELECT pg_cancel_backend(pid) FROM pg_catalog.pg_stat_activity WHERE (pid = 9)", [], "cancel", 9),
        ("SELECT pg_cancel_backend($1)", [7], "cancel", 7),
        ("SELECT pg_cancel_backend($1::int)", ["7"], "cancel", 7),
        ("SELECT pg_cancel_backend((12)) AS done", [], "cancel", 12),
        ("SELECT pg_cancel_backend('12'::int4)", [], "cancel", 12),
        ("SELECT pg_cancel_backend(s.pid) FROM pg_stat_activity s WHERE s.pid = $1", [9], "cancel", 9),
    ],
)
def test_signals(catalog: PgCatalog, text: str, parameters: list[object], kind: str, pid: int) -> None:
    found = catalog.signal(text, parameters)
    assert found is not None
    assert (found.kind, found.pid) == (kind, pid)
    assert found.column == ("done" if " AS done" in text else f"pg_{kind}_backend")
    assert found.rows is ("pg_stat_activity" in text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SELECT 'pg_cancel_backend(1)'",
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity",
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid > 3",
        "SELECT pg_cancel_backend(1), pg_cancel_backend(2)",
        "SELECT pg_cancel_backend(1) FROM pg_class",
        "SELECT pg_cancel_backend(1 + 1)",
        "SELECT pg_cancel_backend($1)",
        "SELECT pg_cancel_backend(99999999999999)",
        "SELECT pg_cancel_backend(1) AS x FROM pg_class",
        'SELECT pg_cancel_backend(1) AS "x" FROM pg_stat_activity WHERE pid = 1',
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid = 9 OR true",
        "SELECT pg_cancel_backend(1) LIMIT 1",
        "SELECT public.pg_cancel_backend(1)",
    ],
)
def test_other_statements_are_no_signals(catalog: PgCatalog, text: str) -> None:
    assert catalog.signal(text) is None
    if "pg_cancel_backend(" in text and not text.startswith("SELECT '"):
        with pytest.raises(UnknownQuestion):
            catalog.answer(text, FACTS, [1] if "$1" in text else [])


def test_a_statement_over_tables_is_routed_by_its_words(
    catalog: PgCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsql.serve.catalog.parse.parse", None)
    assert catalog.route("SELECT clinic, COUNT(*) AS c FROM Visits WHERE cost > 1 GROUP BY 1") is Route.DATA
    assert catalog.route('SELECT 1 AS c FROM a JOIN "visits" ON TRUE') is Route.DATA
    for text in ("SELECT 1 AS c FROM nosuch", "SELECT 'pg_class' AS c FROM visits", "SELECT 'from visits'"):
        with pytest.raises(TypeError):  # it has to be parsed
            catalog.route(text)


def test_a_question_is_known_once_it_was_translated() -> None:
    catalog = PgCatalog(policy(), Declared(), "clinic", oids=OIDS)
    text = "SELECT relname FROM pg_class WHERE oid = $1"
    assert not catalog.knows(text, [pa.int64()])
    catalog.route(text)
    assert not catalog.knows(text, [pa.int64()])
    catalog.answer(text, FACTS, [16386], [pa.int64()])
    assert catalog.knows(text, [pa.int64()])
    assert not catalog.knows(text)
    catalog.route("SELECT COUNT(*) FROM visits")
    assert not catalog.knows("SELECT COUNT(*) FROM visits")
    with pytest.raises(UnknownQuestion):
        catalog.answer("SELECT nosuch FROM pg_class", FACTS)
    assert not catalog.knows("SELECT nosuch FROM pg_class")
