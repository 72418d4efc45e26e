"""As fast as the engine counts: with column statistics where nothing is computed, without DISTINCT where
units are single, and without loading what no answer needs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from dpsql.analysis import CompiledQuery, analyse, complete_options
from dpsql.engines import Engine, open_engine
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.language import Options, Query, parse
from dpsql.policy import load
from tests.narrow import of_type, present
from tests.served import clinic
from tests.support.exact import exact_of
from tests.support.world import write_world

POLICY = """
[budget]
epsilon = 100
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
{extra}
[tables.visits.domain]
page = ["a", "b", "c"]
hour = {{ from = 0, to = 23 }}
[tables.pages]
source = "pages.parquet"
public = true
"""
ROWS = """SELECT * FROM (VALUES (1, 'a', 5), (1, 'b', 6), (2, 'a', 5), (NULL, 'a', 7), (3, NULL, 9),
(4, 'b', 30)) AS t(user_id, page, hour)"""
PAGES = "SELECT * FROM (VALUES ('a', 'x'), ('b', 'y')) AS t(page, kind)"


class Opened:
    def __init__(self, folder: Path, extra: str = "") -> None:
        self.policy = load(write_world(folder, POLICY.format(extra=extra), visits=ROWS, pages=PAGES))
        self.engine = open_engine(self.policy)
        self.schema_database = self.engine.schema_database

    def close(self) -> None:
        self.engine.close()
        self.schema_database.close()

    def compiled(self, statement: str) -> CompiledQuery:
        query = of_type(parse(statement), Query)
        defaults = Options(epsilon=self.policy.budget.default_epsilon)
        return analyse(
            query, self.policy, self.schema_database, complete_options(query.options, defaults)
        ).compiled

    def count(self, statement: str) -> dict[int | str | None, int]:
        counts = self.engine.count(self.compiled(statement))
        return dict(
            zip(exact_of(counts).keys.column("k0").to_pylist(), exact_of(counts).n[0].tolist(), strict=True)
        )


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    made = []

    def make(extra: str = "") -> Opened:
        made.append(Opened(tmp_path, extra))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """What tests share that compile."""
    with closing(Opened(tmp_path_factory.mktemp("plain"))) as made:
        yield made


def statement(
    what: str = "COUNT(DISTINCT user_id)", of: str = "visits", where: str = "", key: str = "page"
) -> str:
    return f"SELECT {key}, {what} AS n FROM {of} {where} GROUP BY {key} ORDER BY n DESC LIMIT 2"


PLAIN = [
    statement(),
    statement(key="hour"),
    statement(where="WHERE hour > 5 AND page IN ('a', 'b') OR hour IS NULL"),
    statement(where="WHERE hour BETWEEN 3 AND 9"),
    statement("COUNT(DISTINCT CASE WHEN hour < 6 THEN user_id END)"),
    statement("COUNT(DISTINCT user_id) FILTER (WHERE page = 'a')", key="hour"),
    statement(key="p.kind", of="visits v JOIN pages p ON v.page = p.page", what="COUNT(DISTINCT v.user_id)"),
]
COMPUTED = [
    statement(where="WHERE hour + 1 > 5"),
    statement(where="WHERE chr(hour) = 'x'"),
    statement(where="WHERE page LIKE '%a%'"),
    statement(where="WHERE TRY_CAST(page AS INTEGER) IS NULL"),
    statement("COUNT(DISTINCT user_id) FILTER (WHERE hour = 5) - COUNT(DISTINCT user_id)"),
    statement(of="(SELECT user_id, page, SUM(hour) AS s FROM visits GROUP BY user_id, page) AS t"),
]


@pytest.mark.parametrize("text", PLAIN)
def test_what_computes_nothing_is_plain(shared: Opened, text: str) -> None:
    assert shared.compiled(text).counts_only


@pytest.mark.parametrize("text", COMPUTED)
def test_what_computes_from_private_values_is_not_plain(shared: Opened, text: str) -> None:
    assert not shared.compiled(text).counts_only


GUARDED = [
    (statement(where="WHERE hour > 5 AND upper(page) = 'A'"), "(TRY(upper(t1.c1)) = 'A')"),
    (statement(where="WHERE NOT (chr(hour) = 'x')"), "(NOT (TRY(TRY(chr("),
    (statement("COUNT(DISTINCT user_id) FILTER (WHERE page LIKE 'a%')"), "TRY((t1.c1 LIKE 'a%')) AS f0"),
    (statement(key="hour % 7"), "TRY(TRY_CAST("),
    (
        statement(of="visits v JOIN pages p ON upper(v.page) = p.page", key="p.kind"),
        "(TRY(upper(t1.c1)) = t2.c0)",
    ),
    (
        statement(of="(SELECT user_id, page, MAX(length(page)) AS hour FROM visits GROUP BY ALL) AS t"),
        "MAX(TRY(length(",
    ),
    (
        statement(
            of="(SELECT *, LAG(upper(page)) OVER (PARTITION BY user_id ORDER BY page) FROM visits) AS t"
        ),
        "LAG(TRY(upper(",
    ),
]


@pytest.mark.parametrize(("text", "part"), GUARDED)
def test_what_computes_stands_under_try(shared: Opened, text: str, part: str) -> None:
    assert part in shared.compiled(text).sql


@pytest.mark.parametrize("text", PLAIN)
def test_what_computes_nothing_needs_no_try(shared: Opened, text: str) -> None:
    assert "TRY(" not in shared.compiled(text).sql


def optimizers(connection: duckdb.DuckDBPyConnection) -> str:
    return present(connection.execute("SELECT current_setting('disabled_optimizers')").fetchone())[0]


def watch(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Return a function that gives the optimizers switched off where the last statement ran."""
    used: list[duckdb.DuckDBPyConnection] = []
    true = of_type(engine, DuckDBEngine)._connection

    def connection(*, counts_only: bool) -> duckdb.DuckDBPyConnection:
        used.append(true(counts_only=counts_only))
        return used[-1]

    monkeypatch.setattr(engine, "_connection", connection)
    return lambda: optimizers(used[-1].cursor())


def test_column_statistics_are_used_for_plain_statements_alone(
    opened: Callable[..., Opened], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = opened()
    assert isinstance(made.engine, DuckDBEngine)
    off = watch(made.engine, monkeypatch)
    assert made.count(statement()) == {"a": 2, "b": 2, "c": 0, None: 1}
    assert set(made.engine._opened) == {True}
    assert "statistics_propagation" not in off()
    assert made.count(statement(where="WHERE hour + 1 > 6")) == {"a": 0, "b": 2, "c": 0, None: 1}
    assert "statistics_propagation" in off()
    for connection in made.engine._opened.values():
        assert "common_subexpressions" in optimizers(connection)
        assert "scalar_fn_pushdown" in optimizers(connection)
        with pytest.raises(duckdb.Error):
            connection.execute("SET disabled_optimizers = ''")


@pytest.mark.parametrize(
    "columns", ['columns = { user_id = "INTEGER", page = "VARCHAR", hour = "SMALLINT" }']
)
def test_conversions_of_a_source_count_as_computing(
    opened: Callable[..., Opened], columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = opened(columns)
    off = watch(made.engine, monkeypatch)
    assert made.compiled(statement()).counts_only is True
    made.count(statement(key="hour"))
    assert "statistics_propagation" in off()


def test_units_known_to_be_single_are_counted_without_distinct(opened: Callable[..., Opened]) -> None:
    made = opened('unique = [["user_id", "page"]]')
    assert "COUNT(DISTINCT" not in made.compiled(statement()).sql
    assert made.count(statement()) == {"a": 2, "b": 2, "c": 0, None: 1}
    assert made.count(statement("COUNT(DISTINCT user_id) FILTER (WHERE hour > 5)")) == {
        "a": 0,
        "b": 2,
        "c": 0,
        None: 1,
    }
    assert "COUNT(DISTINCT" in made.compiled(statement(key="hour")).sql


def test_an_answer_loads_neither_pandas_nor_all_of_arrow(
    opened: Callable[..., Opened], tmp_path: Path
) -> None:
    opened()
    script = (
        "import sys\n"
        "from dpsql.policy import load\n"
        "from dpsql.session import Session\n"
        f"session = Session(load({str(tmp_path / 'dpsql.toml')!r}))\n"
        f"print(session.run({statement()!r}).table.num_rows)\n"
        "print({'pandas', 'pyarrow.compute'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["2", "set()"]


@pytest.mark.longer
def test_a_program_that_counts_few_groups_loads_no_pandas_and_ends_in_silence(tmp_path: Path) -> None:
    statement = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) TOP 3 diagnosis_code, "
        "COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY diagnosis_code ORDER BY n DESC"
    )
    script = (
        "import dpsql, sys\n"
        f"con = dpsql.connect({str(clinic(tmp_path, '10'))!r})\n"
        f"print(len(con.execute({statement!r}).fetchall()))\n"
        "print('dpsql.kernel.rows_first' in sys.modules, {'pandas', 'pyarrow.compute'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["3", "True set()"]
    # DuckDB 2.0.0 itself tells at the end which of its objects are left.
    assert re.sub(r"^nanobind: leaked .*refleaks\.html\s*", "", done.stderr, flags=re.S) == ""
