"""Parameters, the facts of a session, routes, signals, and the policies that a catalogue shows."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

from dpsql.policy import (
    BudgetPolicy,
    ParquetSource,
    Policy,
    Table,
    UnitColumn,
    UnitRow,
    UnitVia,
    ValuesDomain,
)
from dpsql.policy.references import View
from dpsql.serve.answers import Answer
from dpsql.serve.catalog import (
    ConnectionRow,
    CursorRow,
    Encryption,
    PreparedRow,
    SessionFacts,
    UnknownObject,
    UnknownQuestion,
    UnknownSetting,
)
from dpsql.serve.catalog.catalog import PgCatalog
from dpsql.serve.catalog.postgres import load_data
from dpsql.types import SqlType, column_type
from tests.serve.catalog_cases import OIDS, Declared, policy

FACTS = SessionFacts("alice", 4711, {"search_path": '"$user", public', "jit": "on"})


@pytest.fixture(scope="module")
def catalog() -> PgCatalog:
    return PgCatalog(policy(), Declared(), "clinic", oids=OIDS, version="9.9")


def rows(answer: Answer) -> list[tuple[object, ...]]:
    columns = [column.to_pylist() for column in answer.table.columns]
    return list(zip(*columns, strict=True))


# --- parameters


@pytest.mark.parametrize(
    ("text", "oids", "values", "expected"),
    [
        ("SELECT relname FROM pg_class WHERE oid = $1", (26,), [16386], [("visits",)]),
        ("SELECT relname FROM pg_class WHERE $1 = oid", (26,), [16386], [("visits",)]),
        ("SELECT oid FROM pg_class WHERE relname = $1", (19,), ["visits"], [(16386,)]),
        (
            "SELECT relname FROM pg_class WHERE relkind = $1 ORDER BY 1 LIMIT $2",
            (25, 20),
            ["r", 1],
            [("diagnoses",)],
        ),
        ("SELECT relname FROM pg_class WHERE relname LIKE $1", (25,), ["v%"], [("visits",)]),
        (
            "SELECT typname FROM pg_type WHERE oid = ANY($1::oid[]) ORDER BY 1",
            (1028,),
            [[23, 25]],
            [("int4",), ("text",)],
        ),
        ("SELECT typname FROM pg_type WHERE typname = ANY($1)", (1003,), [["int4"]], [("int4",)]),
        ("SELECT $1::regclass::oid", (25,), ["visits"], [(16386,)]),
        ("SELECT $1::int + 1, $2", (23, 25), [3, "x"], [(4, "x")]),
        (
            "SELECT attname FROM pg_attribute WHERE attrelid = $1 AND attnum > $2 AND attnum < 3",
            (26, 21),
            [16386, 1],
            [("clinic",)],
        ),
        ("SELECT format_type($1, $2)", (26, 23), [1043, 14], [("character varying(10)",)]),
        (
            "SELECT relname FROM pg_class WHERE oid IN ($1, $2) ORDER BY 1 DESC",
            (26, 26),
            [16386, 16391],
            [("visits",), ("diagnoses",)],
        ),
        ("SELECT to_regtype($1)::oid", (25,), ["int4"], [(23,)]),
        ("SELECT $1 IS NULL", (25,), [None], [(True,)]),
        ("SELECT coalesce($1, 5)", (23,), [None], [(5,)]),
        ("SELECT current_setting('jit') = $1", (25,), ["on"], [(True,)]),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_parameters_have_the_types_of_what_stands_beside_them(
    catalog: PgCatalog,
    text: str,
    oids: tuple[int, ...],
    values: list[object],
    expected: list[tuple[object, ...]],
) -> None:
    assert catalog.describe(text, FACTS).parameter_oids == oids
    assert rows(catalog.answer(text, FACTS, values)) == expected


def test_announced_types_of_parameters_are_kept(catalog: PgCatalog) -> None:
    text = "SELECT relname FROM pg_class WHERE oid = $1"
    described = catalog.describe(text, FACTS, [pa.int64()])
    assert described.parameters == (pa.int64(),)
    assert described.parameter_oids == (20,)
    assert rows(catalog.answer(text, FACTS, [16386], [pa.int64()])) == [("visits",)]


@pytest.mark.parametrize("values", [[], ["a", "b"]])
def test_a_wrong_number_of_parameters_is_refused(catalog: PgCatalog, values: list[object]) -> None:
    with pytest.raises(UnknownQuestion):
        catalog.answer("SELECT oid FROM pg_class WHERE relname = $1", FACTS, values)


@pytest.mark.parametrize("value", ["x' OR true --", 'x" OR true', "$2", "\\"])
def test_values_are_never_part_of_the_sql(catalog: PgCatalog, value: str) -> None:
    answer = catalog.answer("SELECT $1::text AS v FROM pg_class WHERE relname = $1", FACTS, [value])
    assert rows(answer) == []
    assert rows(catalog.answer("SELECT $1::text AS v", FACTS, [value])) == [(value,)]


# --- facts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "SELECT current_user, session_user, user, current_database(), current_catalog",
            ("alice", "alice", "alice", "clinic", "clinic"),
        ),
        (
            "SELECT current_schema(), current_schemas(true), current_schemas(false)",
            ("public", ["pg_catalog", "public"], ["public"]),
        ),
        ("SELECT pg_backend_pid()", (4711,)),
        ("SELECT version()", ("PostgreSQL 15.0 (dpsql 9.9) on DuckDB",)),
        (
            "SELECT current_setting('search_path'), current_setting('JIT'), current_setting('nothing', true)",
            ('"$user", public', "on", None),
        ),
        ("SELECT current_setting('server_version_num')::int / 100", (1500,)),
        ("SELECT setting, unit FROM pg_settings WHERE name = 'max_index_keys'", ("32", None)),
        ("SELECT setting FROM pg_settings WHERE name = 'jit'", ("on",)),
        ("SELECT current_setting(s.name) FROM pg_settings s WHERE s.name = 'work_mem'", ("4MB",)),
        ("SELECT rolname, rolsuper, oid FROM pg_roles WHERE rolname = current_user", ("alice", False, 16385)),
        (
            "SELECT pg_get_userbyid(10), pg_get_userbyid(16385), pg_get_userbyid(7)",
            ("dpsql", "alice", "unknown (OID=7)"),
        ),
        ("SELECT usename, usesuper FROM pg_user", ("alice", False)),
        (
            "SELECT 'alice'::regrole, has_table_privilege(current_user, 'visits', 'select, delete')",
            ("alice", True),
        ),
        (
            "SELECT grantee, table_name FROM information_schema.table_privileges ORDER BY 2 DESC LIMIT 1",
            ("alice", "visits"),
        ),
    ],
)
def test_facts_of_the_session(catalog: PgCatalog, text: str, expected: tuple[object, ...]) -> None:
    assert rows(catalog.answer(text, FACTS)) == [expected]


def test_one_translation_serves_all_sessions(catalog: PgCatalog) -> None:
    text = "SELECT current_user, current_schema(), pg_table_is_visible(16386)"
    assert rows(catalog.answer(text, FACTS)) == [("alice", "public", True)]
    other = SessionFacts("bob", 1, {"search_path": "information_schema"})
    assert rows(catalog.answer(text, other)) == [("bob", "information_schema", False)]
    assert rows(catalog.answer(text, FACTS)) == [("alice", "public", True)]


def test_an_unknown_setting_is_named(catalog: PgCatalog) -> None:
    with pytest.raises(UnknownSetting, match='unrecognized configuration parameter "nothing"') as problem:
        catalog.answer("SELECT current_setting('nothing')", FACTS)
    assert problem.value.sqlstate == "42704"


def test_an_unknown_object_is_named(catalog: PgCatalog) -> None:
    with pytest.raises(UnknownObject, match='relation "nothing" does not exist') as problem:
        catalog.answer("SELECT 'nothing'::regclass", FACTS)
    assert problem.value.sqlstate == "42P01"
    assert rows(catalog.answer("SELECT to_regclass('nothing'), to_regclass('public.visits')", FACTS)) == [
        (None, "visits")
    ]


@pytest.mark.parametrize(
    ("literal", "items"),
    [
        ("{}", []),
        ('{ a , "b, c" , NULL, "NULL" }', ["a", "b, c", None, "NULL"]),
        (r'{"a\"b",c\,d,""}', ['a"b', "c,d", ""]),
    ],
)
def test_array_literals(catalog: PgCatalog, literal: str, items: list[str | None]) -> None:
    assert rows(catalog.answer(f"SELECT '{literal}'::text[]", FACTS)) == [(items,)]


@pytest.mark.parametrize("literal", ["{a,}", "{,a}", "{,}", '{"a"b}', '{"a}', "{a", "a", "{{1}}"])
def test_malformed_array_literals_are_not_known(catalog: PgCatalog, literal: str) -> None:
    with pytest.raises(UnknownQuestion):
        catalog.answer(f"SELECT '{literal}'::text[]", FACTS)


def test_live_relations(catalog: PgCatalog) -> None:
    began = datetime(2026, 11, 22, 12, tzinfo=UTC)
    facts = SessionFacts(
        "alice",
        2,
        connections=[
            ConnectionRow(
                2, "alice", "psql", "127.0.0.1", 5000, began, "active", Encryption("TLSv1.3", "X", 256)
            ),
            ConnectionRow(3, "alice2", "pgAdmin", encryption=Encryption()),
            ConnectionRow(4, "agent7"),
        ],
        prepared=[PreparedRow("s", "SELECT 1", began, ["int4", "text"])],
        cursors=[CursorRow("c", "SELECT 2", hold=True, created=began)],
    )
    activity = """SELECT pid, usename, application_name, client_addr, client_port, backend_start, state,
                         query, datname FROM pg_stat_activity ORDER BY pid"""
    assert rows(catalog.answer(activity, facts)) == [
        (2, "alice", "psql", "127.0.0.1", 5000, began, "active", "", "clinic"),
        (3, "alice2", "pgAdmin", None, None, None, "idle", "", "clinic"),
        (4, "agent7", "", None, None, None, "idle", "", "clinic"),
    ]
    encryption = "SELECT pid, ssl, version, cipher, bits, client_dn FROM pg_stat_ssl ORDER BY pid"
    assert rows(catalog.answer(encryption, facts)) == [
        (2, True, "TLSv1.3", "X", 256, None),
        (3, False, None, None, None, None),
    ]
    assert rows(
        catalog.answer("SELECT count(*) FROM pg_stat_activity WHERE pid = pg_backend_pid()", facts)
    ) == [(1,)]
    prepared = catalog.answer("SELECT name, statement, parameter_types FROM pg_prepared_statements", facts)
    assert rows(prepared) == [("s", "SELECT 1", ["integer", "text"])]
    assert rows(catalog.answer("SELECT name, is_holdable FROM pg_cursors", facts)) == [("c", True)]
    assert rows(catalog.answer("SELECT count(*) FROM pg_stat_activity", FACTS)) == [(0,)]


@pytest.mark.parametrize("relation", ["pg_roles", "pg_user", "pg_settings", "pg_cursors", "pg_stat_activity"])
def test_relations_about_the_session_have_postgresqls_columns(catalog: PgCatalog, relation: str) -> None:
    columns = catalog.describe(f"SELECT * FROM {relation}", FACTS).columns
    kept = load_data().relations["pg_catalog", relation].columns
    assert tuple((column.name, column.oid) for column in columns) == kept


def test_settings_of_the_session_stand_among_those_of_postgresql(catalog: PgCatalog) -> None:
    facts = SessionFacts("alice", 1, {"JIT": "on", "work_mem": "64kB", "Custom.Thing": "it's"})
    text = """SELECT name, setting, category FROM pg_settings
              WHERE name IN ('jit', 'work_mem', 'Custom.Thing') ORDER BY lower(name)"""
    assert rows(catalog.answer(text, facts)) == [
        ("Custom.Thing", "it's", "dpsql"),
        ("jit", "on", "Query Tuning / Other Planner Options"),
        ("work_mem", "4096", "Resource Usage / Memory"),
    ]
    shown = (
        "SELECT current_setting('work_mem'), current_setting('custom.thing'), current_setting('temp_buffers')"
    )
    assert rows(catalog.answer(shown, facts)) == [("64kB", "it's", "8MB")]


def test_changes_of_settings(catalog: PgCatalog) -> None:
    answer = catalog.answer(
        "SELECT current_setting('jit') AS cur, set_config('jit', 'off', false) AS new", FACTS
    )
    assert rows(answer) == [("on", "off")]
    assert answer.changes == (("jit", "off", False),)
    chosen = "SELECT set_config('bytea_output', 'hex', true) FROM pg_settings WHERE name = 'bytea_output'"
    assert catalog.answer(chosen, FACTS).changes == (("bytea_output", "hex", True),)
    assert catalog.answer(f"{chosen} AND false", FACTS).changes == ()
    with pytest.raises(UnknownQuestion):
        catalog.answer("SELECT CASE WHEN false THEN set_config('jit', 'off', false) END", FACTS)


def test_sessions_in_threads(catalog: PgCatalog) -> None:
    wrong: list[object] = []

    def ask(user: str) -> None:
        for _ in range(20):
            answer = catalog.answer(
                "SELECT current_user, rolname FROM pg_roles WHERE oid = 16385", SessionFacts(user, 1)
            )
            if rows(answer) != [(user, user)]:
                wrong.append(answer)

    threads = [threading.Thread(target=ask, args=[name]) for name in ("alice", "bob", "carol")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# --- policies


class Many:
    """Columns of every type."""

    TYPES = (
        *(
            "BOOLEAN",
            "TINYINT",
            "UTINYINT",
            "SMALLINT",
            "USMALLINT",
            "INTEGER",
            "UINTEGER",
            "BIGINT",
            "UBIGINT",
        ),
        *("DOUBLE", "DECIMAL(12,2)", "VARCHAR", "DATE", "TIME", "TIMESTAMP", "UUID", "BLOB", "BIGINT[]"),
        "ENUM('a')",
    )

    def columns(self, table: str) -> tuple[tuple[str, SqlType], ...]:
        if table == "all types":
            return tuple((f"c{n}", column_type(kind)) for n, kind in enumerate(self.TYPES))
        return (("id", column_type("BIGINT")), ("All", column_type("VARCHAR")))


def many() -> Policy:
    source = ParquetSource(Path("none.parquet"))
    tables = {
        "all types": Table("all types", source, unit=UnitColumn("c7", "person")),
        "Parent": Table(
            "Parent",
            source,
            unit=UnitColumn("id", "person"),
            unique=(("id",),),
            domain={"all": ValuesDomain(("a", "b"))},
        ),
        "child": Table("child", source, unit=UnitVia("id", "Parent", "id", "person")),
        "single": Table("single", source, unit=UnitRow()),
        "open": Table("open", source, public=True),
    }
    return Policy(
        BudgetPolicy(epsilon=Fraction(1), ledger=Path("none.sqlite")),
        tables,
        views={"v": View("v", "SELECT id FROM open")},
    )


def test_types_of_a_policys_columns() -> None:
    catalog = PgCatalog(many(), Many(), "shop")
    text = """SELECT format_type(atttypid, atttypmod) FROM pg_attribute
              WHERE attrelid = '"all types"'::regclass ORDER BY attnum"""
    assert [row[0] for row in rows(catalog.answer(text, FACTS))] == [
        "boolean", "smallint", "smallint", "smallint", "integer", "integer", "bigint", "bigint", "numeric",
        "double precision", "numeric(12,2)", "text", "date", "time without time zone",
        "timestamp without time zone", "uuid", "bytea", "bigint[]", "text",
    ]  # fmt: skip
    text = """SELECT numeric_precision, numeric_scale, data_type FROM information_schema.columns
              WHERE table_name = 'all types' AND column_name IN ('c10', 'c17') ORDER BY ordinal_position"""
    assert rows(catalog.answer(text, FACTS)) == [(12, 2, "numeric"), (None, None, "ARRAY")]


def test_comments_and_kinds_of_relations() -> None:
    views = {"v": [("id", column_type("BIGINT"))]}
    catalog = PgCatalog(many(), Many(), "shop", views=views)
    text = """SELECT c.relname, c.relkind, c.reltuples, c.relpages, obj_description(c.oid, 'pg_class'),
                     col_description(c.oid, 1), col_description(c.oid, 2) FROM pg_class c ORDER BY relname"""
    assert rows(catalog.answer(text, FACTS)) == [
        (
            "Parent",
            "r",
            -1.0,
            0,
            "private, the privacy unit is id",
            "the privacy unit (person)",
            "has a public domain",
        ),
        ("all types", "r", -1.0, 0, "private, the privacy unit is c7", None, None),
        ("child", "r", -1.0, 0, "private, protects a person, found through Parent", None, None),
        ("open", "r", -1.0, 0, "public", None, None),
        ("single", "r", -1.0, 0, "private, the privacy unit is the row", None, None),
        ("v", "v", -1.0, 0, "a view", None, None),
    ]
    text = "SELECT attname FROM pg_attribute WHERE attrelid = 'v'::regclass"
    assert rows(catalog.answer(text, FACTS)) == [("id",)]
    text = "SELECT table_name FROM information_schema.tables WHERE table_type = 'VIEW'"
    assert rows(catalog.answer(text, FACTS)) == [("v",)]
    assert rows(PgCatalog(many(), Many(), "shop").answer("SELECT viewname FROM pg_views", FACTS)) == [("v",)]


def test_names_that_need_quotes() -> None:
    catalog = PgCatalog(many(), Many(), "shop")
    text = """SELECT quote_ident(relname), '"Parent"'::regclass::oid = oid, 'public."all types"'::regclass
              FROM pg_class WHERE relname = 'Parent'"""
    assert rows(catalog.answer(text, FACTS)) == [('"Parent"', True, "all types")]
    with pytest.raises(UnknownObject):
        catalog.answer("SELECT 'Parent'::regclass", FACTS)


def test_oids_depend_on_names_alone() -> None:
    text = "SELECT relname, oid, reltype FROM pg_class ORDER BY 1"
    first = rows(PgCatalog(many(), Many(), "shop").answer(text, FACTS))
    second = rows(PgCatalog(many(), Many(), "other").answer(text, FACTS))
    assert first == second
    fewer = Policy(many().budget, {"open": many().tables["open"]})
    assert rows(PgCatalog(fewer, Many(), "shop").answer(text, FACTS)) == [
        row for row in first if row[0] == "open"
    ]
    oids = [int(str(row[1])) for row in first]
    assert len(set(oids)) == len(oids)
    assert all(16_400 <= oid < 1 << 31 for oid in oids)


def test_nothing_of_the_rows_is_told(catalog: PgCatalog) -> None:
    text = """SELECT reltuples, relpages, pg_table_size(oid), pg_total_relation_size(oid),
                     pg_relation_size(oid) FROM pg_class"""
    assert set(rows(catalog.answer(text, FACTS))) == {(-1.0, 0, 0, 0, 0)}
    for name in (
        "pg_stat_user_tables",
        "pg_stats",
        "pg_statistic",
        "pg_statio_all_tables",
        "pg_index",
        "pg_constraint",
    ):
        assert rows(catalog.answer(f"SELECT count(*) FROM {name}", FACTS)) == [(0,)]
