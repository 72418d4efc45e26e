"""The private engine: reads every kind of source as declared, is locked down, and tells nothing of errors."""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import threading
from dataclasses import FrozenInstanceError, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.analysis import CompiledQuery, PublicOrder, analyse, complete_options
from dpsql.engines import FAILED, Cancelled, RunningStatement, open_engine, running_statement
from dpsql.engines import worker as worker_module
from dpsql.engines.duckdb import duckdb_engine as engine_module
from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.engines.worker import run_in_thread
from dpsql.errors import InternalError, OperationalError, PolicyError, QueryRefused
from dpsql.language import Options, Query, parse
from dpsql.owner import verify
from dpsql.policy import load
from dpsql.session import Session
from dpsql.types import TIMESTAMP
from tests.narrow import engine_of, of_type, present
from tests.support.exact import exact_of
from tests.support.world import open_world

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HEAD = '[budget]\nepsilon = 100\ndefault_epsilon = 1\nledger = "ledger.sqlite"\n'
VISITS = """
[tables.visits]
source = "{source}"
unit = "user_id"
columns = {{ user_id = "BIGINT", page = "VARCHAR", ms = "INTEGER" }}
"""
CSV = "user_id,page,ms\n1,a,5\n1,b,x\n2,a,\n,a,7\n3,,9\n"
PAGES = (
    "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE page IN ('a', 'b', 'z') GROUP BY page TOP 3"
)


class Opened:
    """Both databases of one policy, and the exact counts of a statement."""

    def __init__(self, folder: Path, toml: str) -> None:
        (folder / "dpsql.toml").write_text(HEAD + toml)
        self.policy = load(folder / "dpsql.toml")
        engine = open_engine(self.policy)
        self.schema_database = engine.schema_database
        assert isinstance(engine, DuckDBEngine)
        self.engine = engine

    def compiled(self, statement: str) -> CompiledQuery:
        query = parse(statement)
        assert isinstance(query, Query)
        options = complete_options(query.options, Options(epsilon=self.policy.budget.default_epsilon))
        return analyse(query, self.policy, self.schema_database, options).compiled

    def count(self, statement: str) -> dict[Any, Any]:
        counts = self.engine.count(self.compiled(statement))
        order = (
            range(len(exact_of(counts).n[0]))
            if exact_of(counts).order is None
            else exact_of(counts).in_order().tolist()
        )
        keys = [column.to_pylist() for column in exact_of(counts).keys.columns] or [[None]]
        numbers = [n.tolist() for n in exact_of(counts).n]
        rows = [(tuple(k[i] for k in keys), tuple(n[i] for n in numbers)) for i in order]
        return {k if len(k) > 1 else k[0]: n if len(n) > 1 else n[0] for k, n in rows}

    def close(self) -> None:
        self.engine.close()
        self.schema_database.close()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    made = []

    def make(toml: str, files: dict[str, str] | None = None, sql: str = "") -> Opened:
        for name, text in (files or {}).items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        if sql:
            with duckdb.connect(str(tmp_path / "own.duckdb")) as connection:
                connection.execute(sql)
        made.append(Opened(tmp_path, toml))
        return made[-1]

    yield make
    for one in made:
        one.close()


def parquet(path: Path, select: str) -> str:
    duckdb.sql(f"COPY ({select}) TO '{str(path).replace(chr(39), chr(39) * 2)}'")
    return path.name


ROWS = """SELECT * FROM (VALUES (1, 'a', 5), (1, 'b', NULL), (2, 'a', NULL), (NULL, 'a', 7), (3, NULL, 9))
AS t(user_id, page, ms)"""


def test_every_kind_of_source_gives_the_same_counts(opened: Callable[..., Opened], tmp_path: Path) -> None:
    parquet(tmp_path / "visits.parquet", ROWS)
    database = '[database]\npath = "own.duckdb"\n'
    in_schema = f"CREATE SCHEMA s; CREATE TABLE s.t AS {ROWS}"
    for made in (
        opened(VISITS.format(source="visits.parquet")),
        opened(VISITS.format(source="visits.csv"), {"visits.csv": CSV}),
        opened(database + VISITS.format(source="t"), sql=f"CREATE TABLE t AS {ROWS}; {in_schema}"),
        opened(database + VISITS.format(source="S.T")),
    ):
        assert made.count(PAGES) == {"a": 2, "b": 1, "z": 0}
        assert made.count("SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms > 0") == {None: 2}


def test_values_that_are_not_of_the_declared_type_are_null(opened: Callable[..., Opened]) -> None:
    made = opened(VISITS.format(source="visits.csv"), {"visits.csv": CSV})
    assert made.count("SELECT COUNT(DISTINCT user_id) FROM visits WHERE page = 'b' AND ms IS NULL") == {
        None: 1
    }


def test_a_conversion_is_not_pushed_into_the_reader_of_a_csv(opened: Callable[..., Opened]) -> None:
    """The optimiser would turn a TRY_CAST into one that raises, where nothing else reads the column."""
    files = {"visits.csv": CSV}
    made = opened(VISITS.format(source="visits.csv").replace('unit = "user_id"', 'unit = "ROW"'), files)
    text = "SELECT ms, COUNT(*) AS n FROM visits WHERE ms IN (5, 9) GROUP BY ms TOP 2"
    assert made.count(text) == {5: 1, 9: 1}
    text = "SELECT page::INTEGER > 3 AS k, COUNT(*) AS n FROM visits GROUP BY k TOP 2"
    assert made.count(text) == {False: 0, True: 0, None: 5}
    public = opened(VISITS.format(source="visits.csv").replace('unit = "user_id"', "public = true"), files)
    assert public.schema_database.run("SELECT ms FROM visits ORDER BY 1").column(0).to_pylist() == [
        5,
        7,
        9,
        None,
        None,
    ]


@pytest.mark.parametrize("name", ["it's.csv", "a b.csv", "ä€.csv", "x;y.csv", '"q".csv'])
def test_a_path_is_only_a_path(opened: Callable[..., Opened], name: str) -> None:
    made = opened(VISITS.format(source=name.replace('"', '\\"')), {name: CSV})
    assert made.count(PAGES)["a"] == 2


def test_columns_are_those_declared_and_no_others(opened: Callable[..., Opened], tmp_path: Path) -> None:
    parquet(tmp_path / "visits.parquet", f"SELECT *, 'secret' AS name FROM ({ROWS})")
    made = opened(VISITS.format(source="visits.parquet"))
    assert [name for name, _ in made.schema_database.columns("visits")] == ["user_id", "page", "ms"]
    with pytest.raises(QueryRefused, match="there is no column name"):
        made.count("SELECT COUNT(DISTINCT user_id) FROM visits WHERE name = 'secret'")


HOSTILE = f"""
CREATE TABLE t AS {ROWS};
CREATE MACRO "+"(a, b) AS 1000;
CREATE MACRO "*"(a, b) AS (SELECT MAX(page) FROM t);
CREATE MACRO "~~"(a, b) AS TRUE;
CREATE MACRO lower(x) AS (SELECT MAX(page) FROM t);
CREATE MACRO count(x) AS 77;
CREATE MACRO coalesce(a, b) AS 5;
CREATE MACRO hash(x) AS 1;
"""


def test_macros_of_the_owners_database_are_not_found(opened: Callable[..., Opened]) -> None:
    made = opened('[database]\npath = "own.duckdb"\n' + VISITS.format(source="t"), sql=HOSTILE)
    assert made.count(PAGES) == {"a": 2, "b": 1, "z": 0}
    for condition, users in (
        ("ms + 1 = 1000", 0),
        ("ms * 2 = 10", 1),
        ("page LIKE 'zzz'", 0),
        ("lower(page) = 'a'", 2),
        ("lower(page) LIKE 'a%' AND ms + 1 = 6", 1),
    ):
        found = made.count(f"SELECT COUNT(DISTINCT user_id) FROM visits WHERE {condition}")
        assert found == {None: users}, condition


def test_a_collation_of_the_owners_database_merges_no_units(opened: Callable[..., Opened]) -> None:
    sql = (
        "CREATE TABLE t(user_id VARCHAR COLLATE NOCASE, page VARCHAR COLLATE NOCASE);"
        "INSERT INTO t VALUES ('Ann', 'x'), ('ANN', 'X'), ('ann', 'x')"
    )
    toml = '[database]\npath = "own.duckdb"\n[tables.visits]\nsource = "t"\nunit = "user_id"\n'
    made = opened(toml, sql=sql)
    assert made.count("SELECT COUNT(DISTINCT user_id) FROM visits") == {None: 3}
    assert made.count("SELECT COUNT(DISTINCT user_id) FROM visits WHERE page = 'x'") == {None: 2}
    joined = (
        "SELECT COUNT(DISTINCT a.user_id) FROM visits a JOIN visits b "
        "ON a.user_id = b.user_id AND b.page = 'X'"
    )
    assert made.count(joined) == {None: 1}


@pytest.mark.parametrize("source", ["v", "missing", "main.v", "other.t", "temp.t", "own.t"])
def test_views_and_what_is_not_there_are_no_sources(opened: Callable[..., Opened], source: str) -> None:
    with pytest.raises(PolicyError, match="has no table"):
        opened(
            '[database]\npath = "own.duckdb"\n' + VISITS.format(source=source),
            sql=f"CREATE TABLE t AS {ROWS}; CREATE VIEW v AS SELECT * FROM t",
        )


@pytest.mark.parametrize(
    ("toml", "files", "message"),
    [
        (VISITS.format(source="visits.parquet"), {"visits.parquet": "no Parquet"}, "cannot be read"),
        (VISITS.format(source="visits.csv"), {"visits.csv": ""}, "no header line"),
        (VISITS.format(source="visits.csv"), {"visits.csv": "user_id,page\n"}, "no such column"),
        (VISITS.format(source="visits.csv"), {"visits.csv": "user_id,page,ms,Page\n"}, "the same name"),
        (
            '[database]\npath = "own.duckdb"\n' + VISITS.format(source="t"),
            {"own.duckdb": "none"},
            "not a DuckDB database",
        ),
    ],
)
def test_sources_that_cannot_be_opened_are_the_owners_error(
    opened: Callable[..., Opened], toml: str, files: dict[str, str], message: str
) -> None:
    with pytest.raises(PolicyError, match=message):
        opened(toml, files)


ATTEMPTS = [
    "SELECT * FROM read_text('{folder}/other.txt')",
    "SELECT * FROM '{folder}/other.csv'",
    "SELECT * FROM read_csv('{folder}/other.csv')",
    "SELECT * FROM glob('{folder}/*')",
    "COPY (SELECT 1) TO '{folder}/out.csv'",
    "EXPORT DATABASE '{folder}/out'",
    "ATTACH '{folder}/new.duckdb'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET allowed_paths = ['{folder}/other.csv']",
    "SET threads = 1",
    "SET TimeZone = 'Europe/Berlin'",
    "SET lock_configuration = false",
    "RESET ieee_floating_point_ops",
    "PRAGMA enable_profiling",
    "CREATE PERSISTENT SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')",
]


def test_both_databases_are_locked_down(opened: Callable[..., Opened], tmp_path: Path) -> None:
    made = opened(
        VISITS.format(source="visits.csv"), {"visits.csv": CSV, "other.csv": CSV, "other.txt": "secret"}
    )
    for connection in (made.engine._connection(counts_only=False), made.schema_database._database.connection):
        for attempt in ATTEMPTS:
            with pytest.raises(duckdb.Error):
                connection.execute(attempt.format(folder=tmp_path)).fetchall()
    assert not (tmp_path / "out.csv").exists()
    assert not (tmp_path / "new.duckdb").exists()


OFF = (
    "integer_division autoload_known_extensions autoinstall_known_extensions allow_community_extensions "
    "allow_persistent_secrets python_enable_replacements enable_progress_bar enable_external_access"
)
ON = "ieee_floating_point_ops scalar_subquery_error_on_multiple_rows lock_configuration"
PINNED: dict[str, str | bool] = {"TimeZone": "UTC", "Calendar": "gregorian", "default_collation": ""}
PINNED |= dict.fromkeys(OFF.split(), False) | dict.fromkeys(ON.split(), True)


def test_settings_are_pinned_and_python_values_no_tables(opened: Callable[..., Opened]) -> None:
    made = opened(VISITS.format(source="visits.csv"), {"visits.csv": CSV})
    secret = present(duckdb.sql("SELECT 1 AS x")).to_arrow_table()
    assert secret.num_rows == 1
    for connection in (made.engine._connection(counts_only=False), made.schema_database._database.connection):
        for name, value in PINNED.items():
            assert present(connection.execute(f"SELECT current_setting('{name}')").fetchone())[0] == value, (
                name
            )
        with pytest.raises(duckdb.Error):
            connection.execute("SELECT * FROM secret").fetchall()


def test_only_what_the_analysis_sealed_is_counted(opened: Callable[..., Opened]) -> None:
    made = opened(VISITS.format(source="visits.csv"), {"visits.csv": CSV})
    compiled = made.compiled(PAGES)
    with pytest.raises(InternalError):
        made.engine.count("SELECT 1 AS n0")  # type: ignore[arg-type]  # that is the test
    with pytest.raises(InternalError):
        CompiledQuery(
            compiled.query, "SELECT 1 AS n0", (), 1, (), False, None, compiled.certificate, object()
        )
    with pytest.raises(InternalError):
        PublicOrder((), object())
    with pytest.raises(FrozenInstanceError):
        compiled.sql = "SELECT 1"  # type: ignore[misc]  # that is the test
    with pytest.raises((TypeError, ValueError), match="token"):  # the kind depends on Python's version
        replace(compiled, sql="SELECT 1")  # type: ignore[call-arg]  # that is the test


def test_the_shell_has_no_private_row_and_every_public_one(opened: Callable[..., Opened]) -> None:
    made = opened(
        VISITS.format(source="visits.csv") + '[tables.pages]\nsource = "pages.csv"\npublic = true\n'
        'columns = { page = "VARCHAR", kind = "VARCHAR" }\n',
        {"visits.csv": CSV, "pages.csv": "page,kind\na,x\nb,y\n"},
    )
    counted = "SELECT (SELECT COUNT(*) FROM visits), (SELECT COUNT(*) FROM pages)"
    assert made.schema_database._database.connection.execute(counted).fetchone() == (0, 2)
    assert made.engine._connection(counts_only=False).execute(counted).fetchone() == (5, 2)


DOMAINS = [
    ("VARCHAR", '["b", "a", ""]', ["b", "a", ""]),
    ("VARCHAR", '["it\'s", "{0}", "ä"]', ["it's", "{0}", "ä"]),
    ("INTEGER", "[3, 1, 2]", [3, 1, 2]),
    ("INTEGER", "{ from = -1, to = 1 }", [-1, 0, 1]),
    ("TINYINT", "{ from = 126, to = 127 }", [126, 127]),
    ("UBIGINT", "[18446744073709551615, 0]", [2**64 - 1, 0]),
    ("DOUBLE", "[0.1, -0.0, 3]", [0.1, 0.0, 3.0]),
    ("DECIMAL(6,2)", "[0.5, 3]", [Decimal("0.50"), Decimal("3.00")]),
    ("BOOLEAN", '"boolean"', [False, True]),
    ("ENUM('y', 'x')", '"enum"', ["y", "x"]),
    ("DATE", "{ from = 2024-02-28, to = 2024-02-29 }", [datetime.date(2024, 2, d) for d in (28, 29)]),
    ("DATE", "[2024-02-28]", [datetime.date(2024, 2, 28)]),
    ("TIMESTAMP", "[2024-02-28T10:00:00]", [datetime.datetime(2024, 2, 28, 10)]),
    ("TIME", "[10:30:00]", [datetime.time(10, 30)]),
    ("UUID", '["00000000-0000-0000-0000-00000000000A"]', ["00000000-0000-0000-0000-00000000000a"]),
]


@pytest.mark.parametrize(("kind", "domain", "values"), DOMAINS)
@pytest.mark.sampled(4)
def test_a_domain_is_counted_value_by_value_in_its_order(
    opened: Callable[..., Opened], kind: str, domain: str, values: list[object]
) -> None:
    toml = (
        VISITS.format(source="visits.csv").replace("INTEGER", kind)
        + f"[tables.visits.domain]\nms = {domain}\n"
    )
    made = opened(toml, {"visits.csv": "user_id,page,ms\n"})
    found = made.count("SELECT ms, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY ms HAVING n > 1 LIMIT 1")
    assert [str(v) if kind == "UUID" and v is not None else v for v in found] == [*values, None]
    assert set(found.values()) == {0}


def test_a_domain_may_be_a_public_column(opened: Callable[..., Opened]) -> None:
    made = opened(
        VISITS.format(source="visits.csv")
        + '[tables.visits.domain]\npage = { table = "pages", column = "name" }\n'
        '[tables.pages]\nsource = "pages.csv"\npublic = true\ncolumns = { name = "VARCHAR" }\n',
        {"visits.csv": CSV, "pages.csv": 'name\nz\na\na\n""\n'},
    )
    text = "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n > 1 LIMIT 1"
    assert list(made.count(text).items()) == [("a", 2), ("z", 0), (None, 1)]


@pytest.mark.parametrize(
    ("kind", "domain"),
    [
        ("INTEGER", "[300000000000]"),
        ("INTEGER", '["a"]'),
        ("DATE", "[1]"),
        ("BOOLEAN", "[1]"),
        ("VARCHAR", "[1]"),
    ],
)
def test_a_domain_is_of_the_columns_type(opened: Callable[..., Opened], kind: str, domain: str) -> None:
    toml = (
        VISITS.format(source="visits.csv").replace("INTEGER", kind)
        + f"[tables.visits.domain]\nms = {domain}\n"
    )
    with pytest.raises(PolicyError):
        opened(toml, {"visits.csv": CSV})


@pytest.mark.parametrize(("pages", "single"), [("page\na\nb\n", True), ("page\na\na\n", False)])
def test_a_public_fact_counts_only_if_it_holds(
    opened: Callable[..., Opened], pages: str, single: bool
) -> None:
    made = opened(
        VISITS.format(source="visits.csv") + '[tables.pages]\nsource = "pages.csv"\npublic = true\n'
        'columns = { page = "VARCHAR" }\nunique = [["page"]]\n[defaults]\nauto_bounds = false\n',
        {"visits.csv": CSV, "pages.csv": pages},
    )
    text = (
        "SELECT COUNT(*) FROM (SELECT DISTINCT user_id, page FROM visits) v "
        "JOIN pages p USING (page) WHERE v.page = 'a'"
    )
    if single:
        assert made.count(text) == {None: 2}
    else:
        with pytest.raises(QueryRefused, match="can have many rows"):
            made.count(text)


def test_rows_without_a_unit_are_never_counted(opened: Callable[..., Opened]) -> None:
    made = opened(VISITS.format(source="visits.csv"), {"visits.csv": CSV})
    assert made.count("SELECT COUNT(DISTINCT user_id) FROM visits") == {None: 3}
    assert made.count("SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms = 7") == {None: 0}


def test_equal_doubles_are_one_value(opened: Callable[..., Opened], tmp_path: Path) -> None:
    values = "'nan'::DOUBLE, 0.0::DOUBLE, '-nan'::DOUBLE, -0.0::DOUBLE"
    parquet(
        tmp_path / "visits.parquet",
        f"SELECT i AS user_id, 'a' AS page, [{values}][1 + i % 4] AS ms FROM range(8) t(i)",
    )
    made = opened(VISITS.format(source="visits.parquet").replace("INTEGER", "DOUBLE"))
    assert made.count("SELECT COUNT(DISTINCT user_id) FROM visits WHERE signbit(ms)") == {None: 0}
    assert made.count("SELECT COUNT(DISTINCT user_id) FROM visits WHERE 1 / ms > 0") == {None: 8}


def test_a_failure_says_nothing_and_the_next_statement_runs(
    opened: Callable[..., Opened], capfd: pytest.CaptureFixture[str]
) -> None:
    made = opened(
        VISITS.format(source="visits.csv") + VISITS.replace("visits]", "good]").format(source="good.csv"),
        {"visits.csv": CSV + "secret-4711,a\n", "good.csv": CSV},
    )
    compiled = made.compiled(PAGES)
    for _ in range(2):
        with pytest.raises(OperationalError) as caught:
            made.engine.count(compiled)
        assert str(caught.value) == FAILED
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        assert made.count(PAGES.replace("visits", "good")) == {"a": 2, "b": 1, "z": 0}
    assert "secret" not in "".join(capfd.readouterr())


def test_vetting_reads_every_column_and_tests_every_fact(opened: Callable[..., Opened]) -> None:
    def vetted(text: str, unique: str = "") -> bool:
        return opened(VISITS.format(source="visits.csv") + unique, {"visits.csv": text}).engine.vet("visits")

    assert vetted(CSV)
    assert not vetted(CSV + "4,a\n")
    assert not vetted(CSV + '4,"a,1\n')
    assert vetted(CSV, 'unique = [["user_id", "page"]]\n')
    assert not vetted(CSV + "1,a,9\n", 'unique = [["user_id", "page"]]\n')
    assert not vetted(
        "user_id,page,ms\n1,,1\n1,,2\n", 'unique = [["user_id", "page"]]\n'
    )  # NULL is a value here
    assert vetted("user_id,page,ms\n,a,1\n,a,2\n", 'unique = [["user_id", "page"]]\n')  # nobody's rows


def test_another_thread_stops_a_count(opened: Callable[..., Opened], tmp_path: Path) -> None:
    parquet(
        tmp_path / "visits.parquet",
        "SELECT 1 AS user_id, 'a' AS page, i::INTEGER AS ms FROM range(60000) t(i)",
    )
    made = opened(VISITS.format(source="visits.parquet"))
    heavy = made.compiled(
        "SELECT COUNT(DISTINCT a.user_id) FROM visits a JOIN visits b ON a.user_id = b.user_id "
        "JOIN visits c ON b.user_id = c.user_id WHERE a.ms + b.ms + c.ms < 0"
    )
    ended, statement = threading.Event(), RunningStatement()

    def stop() -> None:
        while not ended.wait(0.05):
            statement.cancel()

    stopper = threading.Thread(target=stop)
    stopper.start()
    try:
        with pytest.raises(OperationalError, match="cancelled"), running_statement(statement):
            made.engine.count(heavy)
    finally:
        ended.set()
        stopper.join()
    assert made.count("SELECT COUNT(DISTINCT user_id) FROM visits") == {None: 1}


def test_an_enums_words_are_no_part_of_what_is_shown(opened: Callable[..., Opened]) -> None:
    sql = (
        "CREATE TYPE who AS ENUM ('ann', 'secret');"
        "CREATE TABLE t AS SELECT 1 AS user_id, 'ann'::who AS page, 1 AS ms"
    )
    made = opened(
        '[database]\npath = "own.duckdb"\n[tables.visits]\nsource = "t"\nunit = "user_id"\n', sql=sql
    )
    assert "secret" not in str([str(kind) for _, kind in made.schema_database.columns("visits")])
    for value in ("'secret'", "'nobody'", "'ann'"):
        found = made.count(f"SELECT COUNT(DISTINCT user_id) FROM visits WHERE page = {value}")
        assert found == {None: int(value == "'ann'")}
        compiled = made.compiled(f"SELECT COUNT(DISTINCT user_id) FROM visits WHERE page > {value}")
        assert "secret" not in compiled.sql.replace(value, "")
    with pytest.raises(QueryRefused) as caught:
        made.compiled("SELECT COUNT(DISTINCT user_id) FROM visits WHERE page = 5")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "kind",
    [
        "DOUBLE[]",
        "STRUCT(a DOUBLE)[]",
        "STRUCT(a DOUBLE[])",
        "ENUM('a')[]",
        "HUGEINT",
        "TIMESTAMPTZ[]",
        "MAP(INT, INT)",
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_types_whose_equal_values_differ_are_no_columns(opened: Callable[..., Opened], kind: str) -> None:
    sql = f"CREATE TABLE t(user_id BIGINT, page {kind})"
    with pytest.raises(PolicyError):
        opened('[database]\npath = "own.duckdb"\n[tables.visits]\nsource = "t"\nunit = "user_id"\n', sql=sql)


def test_units_of_other_widths_do_not_meet_as_doubles(opened: Callable[..., Opened]) -> None:
    """2^53 and 2^53 + 1 are one DOUBLE."""
    sql = (
        "CREATE TABLE v AS SELECT * FROM (VALUES (9007199254740992), (9007199254740993)) AS t(user_id);"
        "CREATE TABLE u AS SELECT 9007199254740992::UBIGINT AS user_id"
    )
    tables = "".join(f'[tables.{n}]\nsource = "{n}"\nunit = "user_id"\n' for n in "vu")
    made = opened('[database]\npath = "own.duckdb"\n' + tables, sql=sql)
    met = "SELECT COUNT(DISTINCT user_id) FROM v WHERE user_id IN "
    assert made.count(f"{met} (SELECT user_id FROM u)") == {None: 1}
    with pytest.raises(QueryRefused, match="only privacy units"):
        made.count(f"{met} (SELECT user_id FROM v INTERSECT SELECT user_id FROM u)")
    assert made.count("SELECT COUNT(DISTINCT v.user_id) FROM v JOIN u ON v.user_id = u.user_id") == {None: 1}


CHILDREN = """
[tables.orders]
source = "orders.csv"
unit = "user_id"
columns = { order_id = "BIGINT", user_id = "BIGINT" }
unique = [["order_id"]]
[tables.items]
source = "items.csv"
unit = { via = "order_id", table = "orders", column = "order_id" }
columns = { order_id = "BIGINT", item = "VARCHAR" }
[tables.items.domain]
item.values = ["x", "y"]
item.complete = true
"""


def test_a_child_table_belongs_to_its_parents_unit(opened: Callable[..., Opened]) -> None:
    orders = "order_id,user_id\n1,1\n2,1\n3,2\n4,\n"
    items = "order_id,item\n1,x\n1,x\n2,x\n3,x\n3,y\n4,y\n9,y\n,x\n"
    made = opened(CHILDREN, {"orders.csv": orders, "items.csv": items})
    assert made.count("SELECT item, COUNT(DISTINCT user_id) AS n FROM items GROUP BY item TOP 2") == {
        "x": 2,
        "y": 1,
    }
    joined = "items i JOIN orders o ON i.order_id = o.order_id WHERE i.item = 'y'"
    joined = f"SELECT COUNT(DISTINCT o.user_id) FROM {joined}"
    assert made.count(joined) == {None: 1}
    compiled = made.compiled("SELECT COUNT(DISTINCT user_id) FROM items")
    assert set(compiled.tables) == {"items", "orders"}, "the parent is vetted too"


def timestamps(folder: Path, *values: int) -> str:
    """Write a Parquet file with a dictionary, as most writers do, and raw timestamps; return its policy."""
    x = pa.array([*range(0, 60_000_000, 1_000_000), *values], pa.int64()).cast(pa.timestamp("us"))
    pq.write_table(pa.table({"user_id": range(len(x)), "x": x}), folder / "stays.parquet")
    return '[tables.stays]\nsource = "stays.parquet"\nunit = "user_id"\n'


@pytest.mark.parametrize("bits", [-(2**63), -(2**63) + 2, -9223372022400000001])
def test_bits_that_are_no_timestamp_make_a_source_unreadable(
    opened: Callable[..., Opened], tmp_path: Path, bits: int
) -> None:
    """DuckDB's age() and some casts fail on them, which would tell whether a unit is there."""
    assert not opened(timestamps(tmp_path, bits)).engine.vet("stays")
    report = verify(load(tmp_path / "dpsql.toml"))
    assert any("1 value no TIMESTAMP" in finding.text for finding in report.findings)


@pytest.mark.parametrize("bits", [-(2**63) + 1, -9223372022400000000, 2**63 - 1, 2**63 - 2, 0])
@pytest.mark.sampled(3)
def test_the_ends_of_time_and_infinity_are_timestamps(
    opened: Callable[..., Opened], tmp_path: Path, bits: int
) -> None:
    made = opened(timestamps(tmp_path, bits))
    assert made.engine.vet("stays")
    assert made.count("SELECT COUNT(DISTINCT user_id) AS n FROM stays WHERE age(x, x) = 0") is not None
    made.count("SELECT COUNT(DISTINCT user_id) AS n FROM stays WHERE CAST(x AS VARCHAR) || 'z' = 'a'")


def test_lists_of_timestamps_are_refused(opened: Callable[..., Opened], tmp_path: Path) -> None:
    parquet(tmp_path / "stays.parquet", "SELECT 1 AS user_id, [TIMESTAMP '2024-01-01'] AS xs")
    with pytest.raises(PolicyError, match="LIST of TIMESTAMP"):
        opened('[tables.stays]\nsource = "stays.parquet"\nunit = "user_id"\n')


@pytest.mark.parametrize("computed", ["TRY(week(d))", "CASE WHEN d > DATE '1900-01-01' THEN week(d) END"])
def test_a_column_that_is_computed_when_read_has_no_statistics(
    opened: Callable[..., Opened], computed: str
) -> None:
    """Planning would compute it of the column's least value, where no TRY catches."""
    sql = f"CREATE TABLE stays(user_id BIGINT, d DATE, w BIGINT AS ({computed})); "
    sql += "INSERT INTO stays(user_id, d) SELECT i, DATE '2024-01-01' + i::INTEGER FROM range(400) AS r(i); "
    sql += "INSERT INTO stays(user_id, d) VALUES (999, DATE '5877642-06-25 (BC)');"
    policy = '[database]\npath = "own.duckdb"\n[tables.stays]\nsource = "stays"\nunit = "user_id"\n'
    made = opened(policy, sql=sql)
    assert made.engine.vet("stays")
    assert made.count("SELECT COUNT(DISTINCT user_id) AS n FROM stays WHERE w IS NOT NULL")[None] >= 400


HEAVY = "SELECT COUNT(*) AS n FROM range(100000) AS a, range(1000000) AS b WHERE a.range + b.range < 0"
LONG = "SELECT COUNT(*) FROM range(2000000000) AS t(i) WHERE i * 3 < 0"
SHORTER = LONG.replace("2000000000", "600000000")
"""What takes a second or two, and can be stopped in the main thread too."""

PLUS = (
    "SELECT page, COUNT(DISTINCT user_id) AS n, n + 1 AS m FROM visits "
    "WHERE page IN ('a', 'b') AND ms + 1 > 0 GROUP BY page ORDER BY n DESC LIMIT 1"
)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    ms = pa.array([5, None, None, 7, 9], pa.int32())  # as it is declared, so that no column is converted
    rows = {"user_id": [1, 1, 2, None, 3], "page": ["a", "b", "a", "a", None], "ms": ms}
    pq.write_table(pa.table(rows), tmp_path / "visits.parquet")
    # Not vetted first: the second database, for what is computed of stored columns, opens after the charge.
    text = VISITS.format(source="visits.parquet")
    with open_world(tmp_path, HEAD + text + "trust_source = true\n") as made:
        yield made


def states(session: Session) -> list[str]:
    return [entry.state for entry in session.ledger.entries()]


@contextlib.contextmanager
def stopped(how: Callable[[], None]) -> Iterator[None]:
    """Stop what runs in the block once it has run for a while."""
    thread = threading.Timer(0.1, how)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def stopped_at(how: Callable[[], None], work: Callable[[], object]) -> object:
    """Stop a calculation once it has run for a while."""
    with stopped(how):
        return work()


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_duckdb_makes_an_error_of_a_ctrl_c_that_is_told_from_others() -> None:
    connection = duckdb_settings.connect()
    with pytest.raises(KeyboardInterrupt), stopped(ctrl_c), duckdb_settings.interruptible():
        connection.execute(LONG)
    with pytest.raises(RuntimeError, match="another"), duckdb_settings.interruptible():
        raise RuntimeError("another")


def test_ctrl_c_while_the_databases_open_is_a_ctrl_c(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_lock = duckdb_settings.lock

    def lock(connection: duckdb.DuckDBPyConnection, *rest: Any, **named: Any) -> None:
        with stopped(ctrl_c):
            connection.execute(SHORTER).fetchall()  # nothing stops it
        true_lock(connection, *rest, **named)

    monkeypatch.setattr(duckdb_settings, "lock", lock)
    with pytest.raises(KeyboardInterrupt):
        open_engine(session.policy)
    # The second one, after the charge: no failure of the engine.
    with pytest.raises(KeyboardInterrupt):
        session.run(PLUS)
    assert states(session) == ["cancelled"]
    monkeypatch.undo()
    session.run(PLUS)
    assert states(session) == ["settled", "cancelled"]  # the newest first


def test_a_second_ctrl_c_does_not_leave_the_work_running() -> None:
    asked: list[int] = []
    ended = threading.Event()

    def cancel() -> None:
        asked.append(1)
        if len(asked) < 3:
            raise KeyboardInterrupt
        ended.set()

    with pytest.raises(KeyboardInterrupt), stopped(ctrl_c):
        run_in_thread(lambda: ended.wait(30), cancel, lambda _: True, "")
    assert ended.is_set()


def test_ctrl_c_before_the_work_has_begun_keeps_it_from_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would wait for it, and the engine must not run while its process ends."""
    begins, ran = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    class Late(threading.Thread):
        def start(self) -> None:
            threads.append(self)
            super().start()
            raise KeyboardInterrupt

        def run(self) -> None:
            begins.wait(30)
            super().run()

    monkeypatch.setattr(threading, "Thread", Late)
    monkeypatch.setattr(worker_module, "_waiting", [])
    monkeypatch.setattr(worker_module, "_MOST_WAITING", 0)  # the thread ends after its work
    with pytest.raises(KeyboardInterrupt):
        run_in_thread(ran.set, lambda: None, lambda _: True, "")
    begins.set()
    threads[0].join(30)
    assert not ran.is_set()


def test_ctrl_c_stops_a_public_statement(session: Session) -> None:
    with pytest.raises(KeyboardInterrupt), stopped(ctrl_c):
        session.run(HEAVY)
    # Nothing runs any more.
    assert session.run("SELECT 1 AS one").table.column("one").to_pylist() == [1]


def test_another_thread_stops_a_public_statement(session: Session) -> None:
    with pytest.raises(OperationalError, match="nothing was charged"), stopped(session.cancel):
        session.run(HEAVY)
    assert session.run("SELECT 1 AS one").table.column("one").to_pylist() == [1]


def test_what_stops_the_preparing_says_nothing_of_the_statement(session: Session) -> None:
    with pytest.raises(KeyboardInterrupt), stopped(ctrl_c):
        engine_of(session).schema_database.evaluate(f"({LONG})")
    with (
        pytest.raises(Cancelled, match="nothing was charged"),
        stopped(session.cancel),
        session.statement(),
    ):
        engine_of(session).schema_database.evaluate(f"({LONG})")
    assert engine_of(session).schema_database.evaluate("1 + 1") == 2


@pytest.mark.parametrize("by_thread", [True, False])
def test_what_stops_the_outer_query_leaves_its_release_stored(
    session: Session, monkeypatch: pytest.MonkeyPatch, by_thread: bool
) -> None:
    schema = engine_of(session).schema_database
    true = schema.over
    how, error = (session.cancel, Cancelled) if by_thread else (ctrl_c, KeyboardInterrupt)
    prepared = session.prepare(PLUS)
    with monkeypatch.context() as patch:
        patch.setattr(
            schema, "over", lambda types, rows, _: stopped_at(how, lambda: true(types, rows, HEAVY))
        )
        with pytest.raises(error):
            session.execute(prepared)
    assert states(session) == ["settled"]
    assert session.run(PLUS).table.num_rows == 1
    assert states(session) == ["settled"]


def test_a_stopped_vetting_is_no_verdict(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "invalid_timestamp", lambda _: f"({HEAVY}) > 0")
    object.__setattr__(
        of_type(engine_of(session), DuckDBEngine).readers["visits"], "columns", (("ms", TIMESTAMP),)
    )
    with (
        pytest.raises(Cancelled, match="nothing was charged"),
        stopped(session.cancel),
        session.statement(),
    ):
        engine_of(session).vet("visits")
    with pytest.raises(KeyboardInterrupt), stopped(ctrl_c):
        engine_of(session).vet("visits")


def test_nothing_to_stop(session: Session) -> None:
    session.cancel()
    of_type(engine_of(session), DuckDBEngine)._reopen()
    session.cancel()
    session.run(PLUS)
    assert states(session) == ["settled"]
