# ruff: noqa: E501  statements and lists of values read better unbroken
"""What an attacker tried on PostgreSQL: tables that change while a session is open, sessions that are not ours."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from support.stores import PostgresStore, compare

from dpsql.engines import FAILED
from dpsql.engines.postgres import _PINNED
from dpsql.engines.writer import Translated, Untranslatable
from dpsql.errors import OperationalError, PolicyError, QueryRefused
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import engine_of, private
from tests.support.exact import exact_of

pytestmark = pytest.mark.postgres

PLAIN = """
[budget]
epsilon = 100
default_epsilon = 1
max_failures = 100
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
"""
COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM visits"
OF_ALL = 'SELECT COUNT(*) AS n FROM main."visits" AS b'


@pytest.fixture
def postgres(postgres_address: str, tmp_path: Path) -> PostgresStore:
    store = PostgresStore(tmp_path, postgres_address)
    store.execute("DROP SCHEMA IF EXISTS attack CASCADE", "CREATE SCHEMA attack")
    return store


def written(store: PostgresStore, text: str) -> Path:
    """Write a policy by hand: the store would make the indexes."""
    folder = store.folder / f"written{next(store._numbers)}"
    folder.mkdir()
    text = text.replace('"visits.parquet"', '"attack.visits"')
    (folder / "dpsql.toml").write_text(f'[database]\nengine = "{store.engine}"\n{text}', "utf-8")
    return folder / "dpsql.toml"


def fact(kind: str, columns: str = "key") -> str:
    listed = ", ".join(f'"{c}"' for c in columns.split())
    return f'{PLAIN}unique = [[{listed}]]\ncolumns = {{ key = "{kind}", other = "BIGINT", user_id = "BIGINT" }}\n'


MADE = "CREATE TABLE attack.visits (key {}, other bigint NOT NULL, user_id bigint)"
UNIQUE = "CREATE UNIQUE INDEX held ON attack.visits "
KEPT = {
    "a primary key": ("BIGINT", "key", [MADE.format("bigint PRIMARY KEY")]),
    "an index of fewer columns": ("VARCHAR", "other key", [MADE.format("text NOT NULL UNIQUE")]),
    "NULLs are equal": ("INTEGER", "key", [MADE.format("int UNIQUE NULLS NOT DISTINCT")]),
    "rows without a unit repeat": ("BIGINT", "user_id", [MADE.format("bigint"), UNIQUE + "(user_id)"]),
    "columns included": ("INTEGER", "key", [MADE.format("int NOT NULL"), UNIQUE + "(key) INCLUDE (other)"]),
    "a number as it is": ("DECIMAL(9,2)", "key", [MADE.format("numeric(9,2) PRIMARY KEY")]),
    "a collation that takes more for equal": (
        "VARCHAR",
        "key",
        [
            "CREATE COLLATION attack.loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
            MADE.format("text COLLATE attack.loose PRIMARY KEY"),
        ],
    ),
}
NOT_KEPT = {
    "no index": ("BIGINT", "key", [MADE.format("bigint NOT NULL")]),
    "NULLs repeat": ("BIGINT", "key", [MADE.format("bigint UNIQUE")]),
    "of some rows": ("BIGINT", "key", [MADE.format("bigint NOT NULL"), UNIQUE + "(key) WHERE key > 0"]),
    "of an expression": ("BIGINT", "key", [MADE.format("bigint NOT NULL"), UNIQUE + "((key * 2))"]),
    "of more columns": ("BIGINT", "key", [MADE.format("bigint NOT NULL"), UNIQUE + "(key, other)"]),
    "an included column": (
        "BIGINT",
        "key",
        [MADE.format("bigint NOT NULL"), UNIQUE + "(other) INCLUDE (key)"],
    ),
    "not unique": (
        "BIGINT",
        "key",
        [MADE.format("bigint NOT NULL"), UNIQUE.replace("UNIQUE", "") + "(key)"],
    ),
    "read narrower": ("SMALLINT", "key", [MADE.format("bigint PRIMARY KEY")]),
    "read rounded": ("DECIMAL(9,1)", "key", [MADE.format("numeric(9,2) PRIMARY KEY")]),
    "a number of any size": ("DECIMAL(18,10)", "key", [MADE.format("numeric PRIMARY KEY")]),
    "days that are read as NULL": ("DATE", "key", [MADE.format("date PRIMARY KEY")]),
    "children": (
        "BIGINT",
        "key",
        [MADE.format("bigint PRIMARY KEY"), "CREATE TABLE attack.child () INHERITS (attack.visits)"],
    ),
    "partitions": ("BIGINT", "key", [MADE.format("bigint PRIMARY KEY") + " PARTITION BY HASH (key)"]),
    "a constraint looked at later": (
        "BIGINT",
        "key",
        [MADE.format("bigint NOT NULL UNIQUE DEFERRABLE INITIALLY DEFERRED")],
    ),
    "a constraint that may be looked at later": (
        "BIGINT",
        "key",
        [MADE.format("bigint PRIMARY KEY DEFERRABLE INITIALLY IMMEDIATE")],
    ),
    "a condition not validated": (
        "BIGINT",
        "key",
        [
            MADE.format("bigint UNIQUE"),
            "ALTER TABLE attack.visits ADD CHECK (key IS NOT NULL) NOT VALID",
        ],
    ),
    "an index that failed": (
        "BIGINT",
        "key",
        [
            MADE.format("bigint PRIMARY KEY"),
            "UPDATE pg_index SET indisvalid = false WHERE indrelid = 'attack.visits'::regclass",
        ],
    ),
}


@pytest.mark.parametrize("case", KEPT.values(), ids=KEPT)
def test_a_fact_that_an_index_keeps_is_believed(
    postgres: PostgresStore, case: tuple[str, str, list[str]]
) -> None:
    kind, columns, made = case
    postgres.execute(*made)
    session = postgres.session(load(written(postgres, fact(kind, columns))))
    assert session.run(COUNT).release is not None
    session.close()


@pytest.mark.parametrize("case", NOT_KEPT.values(), ids=NOT_KEPT)
def test_a_fact_that_no_index_keeps_is_refused_when_it_is_opened(
    postgres: PostgresStore, case: tuple[str, str, list[str]]
) -> None:
    kind, columns, made = case
    postgres.execute(*made)
    with pytest.raises(PolicyError) as caught:
        postgres.session(load(written(postgres, fact(kind, columns))))
    assert "tables.visits.unique" in caught.value.message
    assert "CREATE UNIQUE INDEX" in (caught.value.hint or "")
    assert "leave the fact out" in (caught.value.hint or "")


def test_rows_that_would_break_a_fact_do_not_come_in_while_it_is_used(postgres: PostgresStore) -> None:
    postgres.execute(
        MADE.format("bigint PRIMARY KEY"),
        "INSERT INTO attack.visits SELECT i, i, i FROM generate_series(1, 9) r(i)",
    )
    session = postgres.session(load(written(postgres, fact("BIGINT"))))
    assert session.run(COUNT).release is not None
    with pytest.raises(Exception, match="duplicate"):
        postgres.execute("INSERT INTO attack.visits VALUES (1, 1, 1)")
    prepared = private(session.prepare(f"{COUNT} WHERE other > 1"))
    postgres.execute(
        "ALTER TABLE attack.visits DROP CONSTRAINT visits_pkey",
        "INSERT INTO attack.visits SELECT 1, 1, 1 FROM generate_series(1, 5000)",
    )
    before = session.budget().spent
    with pytest.raises(OperationalError, match="no index of PostgreSQL"):
        session.execute(prepared)
    with pytest.raises(OperationalError, match="no index of PostgreSQL"):
        session.run(f"{COUNT} WHERE other > 2")
    assert session.budget().spent == before
    session.close()


def test_a_lock_stops_the_statements_of_its_table_uncharged_and_no_others(
    postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsql.engines.postgres.LOCK_SECONDS", 1)
    postgres.execute(
        MADE.format("bigint"), "INSERT INTO attack.visits SELECT i, i, i FROM generate_series(1, 9) r(i)"
    )
    session = postgres.session(load(written(postgres, PLAIN)))
    prepared = private(session.prepare(f"{COUNT} WHERE other > 1"))
    before = session.budget().spent
    with postgres.locked("LOCK TABLE attack.visits IN ACCESS EXCLUSIVE MODE"):
        with pytest.raises(OperationalError, match="locked by somebody who changes it; nothing was charged"):
            session.execute(prepared)
        with pytest.raises(OperationalError, match="locked by somebody who changes it; nothing was charged"):
            session.run(f"{COUNT} WHERE other > 2")
    assert session.budget().spent == before
    assert session.execute(prepared).release is not None
    session.close()


def test_not_null_that_is_dropped_ends_what_was_known(postgres: PostgresStore) -> None:
    """NULL is then a group, which the statement was not planned with."""
    postgres.execute(MADE.format("bigint NOT NULL"), "INSERT INTO attack.visits VALUES (1, 2, 3)")
    session = postgres.session(load(written(postgres, PLAIN)))
    assert session.run(COUNT).release is not None
    postgres.execute("ALTER TABLE attack.visits ALTER key DROP NOT NULL")
    with pytest.raises(OperationalError, match="was altered since it was opened"):
        session.run(f"{COUNT} WHERE other > 2")
    session.close()


LOST = {
    "a narrower type": ("bigint", "SMALLINT", "[1, 2]", "70000"),
    "a text": ("text", "VARCHAR", '["1", "2"]', "repeat('x', 70000)"),
    "a text of many letters": ("varchar(70000)", "VARCHAR", '["1", "2"]', "repeat('x', 70000)"),
    "a number of few digits": ("numeric(9, 2)", "DECIMAL(5,2)", "[1, 2]", "70000"),
}
HELD = {
    "a wider type": ("int", "BIGINT", "[1, 2]"),
    "a text with a length": ("varchar(100)", "VARCHAR", '["1", "2"]'),
}


def keyed(store: PostgresStore, kind: str, declared: str, values: str) -> Session:
    store.execute(
        f"CREATE TABLE attack.visits (key {kind} NOT NULL, user_id bigint)",
        f"INSERT INTO attack.visits SELECT CAST(CAST(1 + i % 2 AS text) AS {kind}), i FROM generate_series(1, 60) AS r(i)",
    )
    columns = f'columns = {{ key = "{declared}", user_id = "BIGINT" }}'
    return store.session(load(written(store, f"{PLAIN}{columns}\n[tables.visits.domain]\nkey = {values}\n")))


def groups(session: Session) -> dict[object, int]:
    prepared = private(
        session.prepare(
            "SELECT key, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY key ORDER BY n LIMIT 9"
        )
    )
    found = engine_of(session).count(prepared.plan.compiled)
    keys = ["NULL" if key is None else str(int(key)) for key in exact_of(found).keys.column("k0").to_pylist()]
    return dict(zip(keys, exact_of(found).n[0].tolist(), strict=True))


@pytest.mark.parametrize("kind", LOST)
def test_a_value_that_is_read_as_null_has_a_group_though_the_column_is_not_null(
    postgres: PostgresStore, kind: str
) -> None:
    stored, declared, values, lost = LOST[kind]
    session = keyed(postgres, stored, declared, values)
    postgres.execute(f"INSERT INTO attack.visits SELECT {lost}, i FROM generate_series(61, 70) AS r(i)")
    assert groups(session) == {"1": 30, "2": 30, "NULL": 10}
    session.close()


@pytest.mark.parametrize("kind", HELD)
def test_a_column_whose_values_all_fit_has_no_group_of_null(postgres: PostgresStore, kind: str) -> None:
    session = keyed(postgres, *HELD[kind])
    assert groups(session) == {"1": 30, "2": 30}
    session.close()


SWAPPED = {
    "a view": [
        "ALTER TABLE attack.visits RENAME TO old",
        "CREATE VIEW attack.visits AS SELECT * FROM attack.old",
    ],
    "another table": [
        "ALTER TABLE attack.visits RENAME TO old",
        "CREATE TABLE attack.visits AS TABLE attack.old",
    ],
    "row-level security": ["ALTER TABLE attack.visits ENABLE ROW LEVEL SECURITY"],
    "another type": ["ALTER TABLE attack.visits ALTER user_id TYPE numeric(20,0)"],
    "other columns of the same names": [
        "ALTER TABLE attack.visits RENAME user_id TO a",
        "ALTER TABLE attack.visits RENAME other TO user_id",
        "ALTER TABLE attack.visits RENAME a TO other",
    ],
    "rows of another table": ["CREATE TABLE attack.child () INHERITS (attack.visits)"],
}


@pytest.mark.parametrize("swap", SWAPPED.values(), ids=SWAPPED)
def test_a_table_that_is_another_after_opening_is_not_read(postgres: PostgresStore, swap: list[str]) -> None:
    postgres.execute(MADE.format("bigint"), "INSERT INTO attack.visits VALUES (1, 2, 3)")
    schema_database, engine = postgres.open(load(written(postgres, PLAIN)))
    assert compare(engine, OF_ALL).to_pylist() == [{"c0": 1}]
    made = Translated(f"SELECT COUNT(*) AS n FROM {engine.dialect.scan('visits')[0]} AS b", (), ())
    assert engine._run(made).num_rows == 1
    postgres.execute(*swap)
    with pytest.raises(OperationalError) as caught:
        engine._run(made)
    assert str(caught.value) == FAILED
    with pytest.raises(OperationalError, match="visits"):
        engine.bind(made)
    engine.close()
    schema_database.close()


def test_a_table_is_not_changed_between_the_look_and_the_count(postgres: PostgresStore) -> None:
    postgres.execute(MADE.format("bigint PRIMARY KEY"))
    schema_database, engine = postgres.open(load(written(postgres, fact("BIGINT"))))
    connection, guards = engine._idle[-1], engine._guards.values()  # type: ignore[attr-defined]  # PostgresEngine
    dropped = "ALTER TABLE attack.visits DROP CONSTRAINT visits_pkey"
    with (
        connection._begin(guards),
        pytest.raises(Exception, match="lock timeout"),
    ):
        postgres.execute("SET lock_timeout = '50ms'", dropped)
    postgres.execute(dropped)
    with pytest.raises(PolicyError), connection._begin(guards):
        pass
    engine.close()
    schema_database.close()


def test_a_column_that_comes_or_an_index_changes_nothing(postgres: PostgresStore) -> None:
    postgres.execute(MADE.format("bigint"), "INSERT INTO attack.visits VALUES (1, 2, 3)")
    text = PLAIN + 'columns = { key = "BIGINT", user_id = "BIGINT" }\n'
    schema_database, engine = postgres.open(load(written(postgres, text)))
    postgres.execute("ALTER TABLE attack.visits ADD more text", UNIQUE + "(key)")
    assert compare(engine, OF_ALL).to_pylist() == [{"c0": 1}]
    engine.close()
    schema_database.close()


REFUSED = {
    "row-level security": ["ALTER TABLE attack.visits ENABLE ROW LEVEL SECURITY"],
    "foreign table": [
        "DROP FOREIGN DATA WRAPPER IF EXISTS nowhere CASCADE",
        "CREATE FOREIGN DATA WRAPPER nowhere",
        "CREATE SERVER nowhere FOREIGN DATA WRAPPER nowhere",
        "CREATE FOREIGN TABLE attack.part () INHERITS (attack.visits) SERVER nowhere",
    ],
    "columns of type attack.text": [
        "CREATE TYPE attack.text AS RANGE (subtype = int)",
        "ALTER TABLE attack.visits ALTER key TYPE attack.text USING NULL",
    ],
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_table_whose_rows_are_not_plainly_its_own_is_refused(postgres: PostgresStore, what: str) -> None:
    postgres.execute(MADE.format("text"), *REFUSED[what])
    text = PLAIN + 'columns = { key = "VARCHAR", user_id = "BIGINT" }\n'
    with pytest.raises(PolicyError) as caught:
        postgres.open(load(written(postgres, text)))
    assert what in caught.value.message


def test_a_session_that_forgot_its_settings_counts_the_same(postgres: PostgresStore) -> None:
    r"""A pooler gives each transaction any session; in this one the text 'a\' would never end."""
    postgres.execute(
        MADE.format("text"),
        "INSERT INTO attack.visits VALUES ('a\\', 2, 3), ('a', 2, 4), ('b', 2, 5)",
        "CREATE FUNCTION attack.starts_with(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
    )
    schema_database, engine = postgres.open(load(written(postgres, PLAIN)))
    connection = engine._idle[-1]  # type: ignore[attr-defined]  # PostgresEngine
    with connection._adbc.cursor() as cursor:
        for sql in (
            "DISCARD ALL",
            "SET search_path = attack, pg_catalog",
            "SET standard_conforming_strings = off",
            "SET backslash_quote = on",
            "SET default_transaction_read_only = off",
            "SET TimeZone = 'Asia/Tokyo'",
            "SET statement_timeout = 0",
        ):
            cursor.execute(sql)
    found = compare(
        engine,
        'SELECT COUNT(*) AS n FROM (SELECT b."key" AS key FROM main."visits" AS b) AS t1 '
        r"WHERE starts_with(t1.key, 'a\') OR (t1.key = ' OR TRUE --')",
    )
    assert found.to_pylist() == [{"c0": 1}]
    rows = dict(connection.ask("SELECT name, setting FROM pg_settings"))
    assert {name: rows[name] for name in _PINNED} == _PINNED
    assert rows["statement_timeout"] == "3600000"
    with pytest.raises(Exception, match="read-only"):
        connection.table("WITH w AS (DELETE FROM attack.visits RETURNING 1) SELECT * FROM w")
    # Nothing of ours stays behind in a session that is not ours.
    with connection._adbc.cursor() as cursor:
        cursor.execute("SELECT current_setting('TimeZone') AS x, txid_current_if_assigned() IS NULL AS y")
        assert cursor.fetch_arrow_table().to_pylist() == [{"x": "Asia/Tokyo", "y": True}]
    engine.close()
    schema_database.close()


def test_a_text_means_the_same_whatever_strings_are(postgres: PostgresStore) -> None:
    from adbc_driver_postgresql import dbapi

    from dpsql.engines.postgres.postgres_sql import string_literal

    values = ["\\", "'", "\\'", "'\\", "a\\\\'b", "\\x41", " OR 1 = 1 --", "\n\t\\n"]
    with dbapi.connect(postgres.address, autocommit=True) as connection, connection.cursor() as cursor:
        for word in ("on", "off"):
            cursor.execute(f"SET standard_conforming_strings = {word}")
            cursor.execute(
                "SELECT " + ", ".join(f"{string_literal(v)} AS c{i}" for i, v in enumerate(values))
            )
            assert list(cursor.fetch_arrow_table().to_pylist()[0].values()) == values


@pytest.mark.parametrize("name", ["FIRST(key ORDER BY other)", "ARG_MAX(key, other)", "ARG_MIN(key, other)"])
def test_no_group_is_collected_into_an_array(postgres: PostgresStore, name: str) -> None:
    """Of a group above one gigabyte PostgreSQL makes none: it would fail for those rows alone."""
    postgres.execute(MADE.format("text"))
    session = postgres.session(load(written(postgres, PLAIN)))
    with pytest.raises(QueryRefused) as caught:
        session.run(
            f"SELECT COUNT(*) AS n FROM (SELECT user_id, {name} AS k FROM visits GROUP BY user_id) t WHERE k = 'a'"
        )
    assert "ROW_NUMBER" in (caught.value.hint or "")
    session.close()


@pytest.mark.parametrize(
    "constant",
    [
        "DATE 'infinity'",
        "DATE '-infinity'",
        "TIMESTAMP 'infinity'",
        "TIMESTAMP '-infinity'",
        "CAST(DATE 'infinity' AS TIMESTAMP)",
    ],
)
def test_an_infinite_constant_is_refused_not_clamped(postgres: PostgresStore, constant: str) -> None:
    postgres.execute("CREATE TABLE attack.visits (user_id bigint, t date, m timestamp)")
    schema_database, engine = postgres.open(load(written(postgres, PLAIN)))
    column = "m" if "TIMESTAMP" in constant else "t"
    with pytest.raises(Untranslatable) as caught:
        compare(engine, f'SELECT COUNT(*) AS n FROM main."visits" AS b WHERE (b."{column}" < {constant})')
    assert "infinite" in caught.value.message
    engine.close()
    schema_database.close()


def test_wide_integers_beside_decimals_keep_every_digit(postgres: PostgresStore) -> None:
    values = "SELECT i AS user_id, ub, n, w FROM (VALUES (1, 2, 2.5, 2.0), (2, 3, 2.5, 3.0), (3, 18446744073709551615, 99.99, 1.5), (4, 0, -0.01, 0.0)) AS v(i, ub, n, w)"
    typed = f"SELECT CAST(user_id AS BIGINT) AS user_id, CAST(ub AS UBIGINT) AS ub, CAST(n AS DECIMAL(9,2)) AS n, CAST(w AS DECIMAL(18,4)) AS w FROM ({values})"
    with duckdb.connect() as connection:
        sources = postgres.put(connection, {"visits": typed})
        columns = (
            'columns = { user_id = "BIGINT", ub = "UBIGINT", n = "DECIMAL(9,2)", w = "DECIMAL(18,4)" }\n'
        )
        schema_database, engine = postgres.open(postgres.policy(PLAIN + columns, sources))
        for condition in (
            *(f"(t1.ub {op} t1.{c})" for op in ("=", "<", ">=", "<>") for c in "nw"),
            "(t1.ub IS NOT DISTINCT FROM t1.n)",
            "(t1.ub BETWEEN t1.n AND t1.w)",
            "(t1.ub IN (t1.n, t1.w))",
            "(t1.ub = 2.5)",
            "(t1.ub < 2.5)",
            "(CAST(t1.ub AS HUGEINT) > t1.n)",
        ):
            inner = "SELECT b.user_id AS user_id, b.ub AS ub, b.n AS n, b.w AS w FROM"
            wanted = connection.execute(
                f"SELECT COUNT(*) AS n FROM ({inner} ({typed}) AS b) AS t1 WHERE {condition}"
            ).fetchall()
            found = compare(
                engine, f'SELECT COUNT(*) AS n FROM ({inner} main."visits" AS b) AS t1 WHERE {condition}'
            )
            assert [tuple(r.values()) for r in found.to_pylist()] == wanted, condition
    engine.close()
    schema_database.close()


@pytest.mark.parametrize(
    "address", ["postgresql://u@h/d#x", "postgresql://u@h/d?host=a#&password=b", "sc://h:15002/#x"]
)
def test_an_address_has_no_fragment(tmp_path: Path, address: str) -> None:
    text = PLAIN.replace('"visits.parquet"', '"attack.visits"')
    (tmp_path / "dpsql.toml").write_text(f'[database]\nengine = "{address}"\n{text}', "utf-8")
    with pytest.raises(PolicyError) as caught:
        load(tmp_path / "dpsql.toml")
    assert "'#'" in caught.value.message
    assert address not in str(caught.value)
