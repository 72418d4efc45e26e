"""What is known of each tested version of DuckDB, and what another version is allowed to do."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import duckdb
import pytest

import dpsql
from dpsql.cli import main
from dpsql.composition.prepared import PreparedPrivate
from dpsql.engines import schema_database
from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.duckdb.duckdb_settings import EngineFacts
from dpsql.errors import EngineNotTested
from dpsql.owner import verify
from dpsql.policy import load
from dpsql.session import Session
from tests.engine_drift.data import facts_of
from tests.narrow import engine_of, present
from tests.support.exact import exact_of

ROOT = Path(__file__).parents[3]
INSTALLED = duckdb_settings.installed_version()
POLICY = """
[budget]
epsilon = 10
default_epsilon = 1
ledger = "ledger.sqlite"
[defaults]
rows_per_unit = 5
[tables.t]
source = "t.parquet"
unit = "id"
[tables.t.bounds]
x = { from = 0, to = 10 }
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return written(tmp_path)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session for statements that are compiled and counted by the installed version."""
    with closing(Session(load(written(tmp_path_factory.mktemp("counted"))))) as opened:
        yield opened


def written(folder: Path) -> Path:
    """Write the table and its policy; return the policy's path."""
    with duckdb.connect() as made:
        cells = "i % 50 AS id, (i % 11)::INTEGER AS x, (i % 7)::DOUBLE AS y, 'Word ' || i % 3 AS s"
        made.execute(f"COPY (SELECT {cells} FROM range(500) r(i)) TO '{folder / 't.parquet'}'")
    (folder / "dpsql.toml").write_text(POLICY)
    return folder / "dpsql.toml"


@pytest.fixture
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb_settings.connect() as connection:
        yield connection


def test_the_installed_version_does_what_its_data_say(engine: duckdb.DuckDBPyConnection) -> None:
    """The words of plans are compared by `python -m tests.engine_drift`, which takes a minute."""
    facts = duckdb_settings.tested_versions()[INSTALLED]
    described = duckdb_settings.list_functions(engine)
    assert facts.functions == {name: described.get(name, "") for name in facts.functions}
    assert tuple(facts.optimizers) == duckdb_settings.list_optimizers(engine)
    assert facts.relied_on == duckdb_settings.read_relied_on(engine)
    rows = engine.execute("SELECT name, scope || ' ' || input_type FROM duckdb_settings()").fetchall()
    assert facts.settings == dict(rows)


@pytest.mark.parametrize("version", duckdb_settings.tested_versions())
def test_no_tested_version_calls_what_is_volatile_or_refused(version: str) -> None:
    facts = duckdb_settings.tested_versions()[version]
    assert not [name for name, text in facts.functions.items() if "VOLATILE" in text]
    assert {"abs", "count", "<="} <= facts.functions.keys()
    assert not {"random", "uuid", "current_setting"} & facts.functions.keys()


def test_the_package_allows_the_tested_versions_and_no_newer_one() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    versions = list(duckdb_settings.tested_versions())
    assert f"duckdb>={versions[0]},<={versions[-1]}" in declared


def test_facts_with_a_volatile_function_are_not_written() -> None:
    facts = duckdb_settings.tested_versions()[INSTALLED]
    collected: dict[str, Any] = {
        "failed": {},
        "words": {"words": dict(facts.words), "called": [*facts.functions]},
        "functions": dict(facts.functions),
        "relied_on": {},
        "settings": {},
        "optimizers": [],
    }
    assert facts_of(collected)["functions"] == facts.functions
    with pytest.raises(ValueError, match="volatile functions \\['abs'\\]"):
        facts_of({**collected, "functions": {**facts.functions, "abs": "scalar VOLATILE (BIGINT) BIGINT"}})
    with pytest.raises(ValueError, match="refused functions \\['version'\\]"):
        facts_of({**collected, "words": {"words": {}, "called": ["version"]}})
    with pytest.raises(ValueError, match="not everything"):
        facts_of({**collected, "failed": {"words": "it ended"}})


NEXT = "9.9.9"
AS_TEXT = "CAST(CAST(DATE '2024-01-01' + x AS TIMESTAMP) AS VARCHAR)"
"""Compiled with a BETWEEN over what is computed, which is one word in DuckDB 2.0.1 and two in 2.0.0."""
NOTICE = f"DuckDB {NEXT} is installed, and dpsql was tested with "


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A version that nobody tested, which so far does what the installed one does."""
    monkeypatch.setattr(duckdb_settings, "installed_version", lambda: NEXT)
    return monkeypatch


def told(run: Callable[[], object], capfd: pytest.CaptureFixture[str]) -> str:
    capfd.readouterr()
    run()
    found = capfd.readouterr()
    return found.out + found.err


def test_an_untested_version_is_told_to_the_owner(
    policy: Path, pretended: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    newest = list(duckdb_settings.tested_versions())[-1]
    advice = f"pip install 'duckdb=={newest}'"
    with suppress(SystemExit):
        assert advice in told(lambda: main(["--version"]), capfd)
    report = [f for f in verify(load(policy)).findings if f.place == "the engine"]
    assert [f.level for f in report] == ["note"]
    assert report[0].text.startswith(NOTICE)
    assert advice in report[0].text
    pretended.undo()
    assert told(lambda: main(["--version"]), capfd) == f"dpsql {dpsql.__version__}\n"
    assert not [f for f in verify(load(policy)).findings if f.place == "the engine"]


def test_an_untested_version_answers_what_it_plans_in_known_words(
    policy: Path, pretended: pytest.MonkeyPatch
) -> None:
    session = Session(load(policy))
    assert session.run("SELECT COUNT(DISTINCT id) AS n FROM t WHERE abs(x) > 3") is not None
    session.close()


def refused(policy: Path, statement: str, what: str) -> None:
    """A statement is refused, and nothing is charged, counted, or called a bug."""
    session = Session(load(policy))
    engine_of(session).count = lambda compiled: pytest.fail("it was counted")  # type: ignore[method-assign]
    for run in (statement, f"EXPLAIN {statement}"):
        with pytest.raises(EngineNotTested) as caught:
            session.run(run)
        text = str(caught.value)
        assert text.startswith(NOTICE)
        assert what in text
        assert "pip install" in text
        assert "bug" not in text
    assert session.budget().spent.epsilon == 0
    session.close()


def test_an_unknown_word_of_a_plan_is_refused(policy: Path, pretended: pytest.MonkeyPatch) -> None:
    plan = schema_database.SchemaDatabase.plan

    def renamed(self: schema_database.SchemaDatabase, sql: str) -> object:
        return json.loads(json.dumps(plan(self, sql)).replace("LOGICAL_FILTER", "LOGICAL_SIEVE"))

    pretended.setattr(schema_database.SchemaDatabase, "plan", renamed)
    refused(policy, "SELECT COUNT(DISTINCT id) AS n FROM t WHERE x > 3", "the plan has a LOGICAL_SIEVE")


def test_a_function_that_became_volatile_is_refused(policy: Path, pretended: pytest.MonkeyPatch) -> None:
    read = duckdb_settings.list_functions

    def changed(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
        found = read(connection)
        return {**found, "upper": found["upper"].replace("CONSISTENT", "VOLATILE")}

    pretended.setattr(duckdb_settings, "list_functions", changed)
    refused(policy, "SELECT COUNT(DISTINCT id) AS n FROM t WHERE upper(s) = 'WORD 1'", "the plan calls upper")


def test_a_function_that_is_gone_is_refused(policy: Path, pretended: pytest.MonkeyPatch) -> None:
    read = duckdb_settings.list_functions
    pretended.setattr(
        duckdb_settings, "list_functions", lambda c: {k: v for k, v in read(c).items() if k != "reverse"}
    )
    refused(
        policy, "SELECT COUNT(DISTINCT id) AS n FROM t WHERE reverse(s) = '1 droW'", "the plan calls reverse"
    )


@pytest.mark.parametrize("how", ["missing", "another value"])
def test_a_setting_that_is_not_as_it_was_opens_nothing(
    policy: Path, pretended: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], how: str
) -> None:
    read = duckdb_settings.read_relied_on

    def changed(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
        found = read(connection)
        if how == "missing":
            del found["scalar_subquery_error_on_multiple_rows"]
            return found
        return {**found, "scalar_subquery_error_on_multiple_rows": "False"}

    pretended.setattr(duckdb_settings, "read_relied_on", changed)
    with pytest.raises(EngineNotTested, match="scalar_subquery_error_on_multiple_rows are not as they were"):
        Session(load(policy)).run("SELECT COUNT(*) AS n FROM t")
    text = told(lambda: main(["-p", str(policy), "-c", "SELECT COUNT(*) AS n FROM t"]), capfd)
    assert NOTICE in text
    assert "Traceback" not in text
    assert "bug" not in text


def test_a_setting_that_cannot_be_pinned_opens_nothing(policy: Path, pretended: pytest.MonkeyPatch) -> None:
    pretended.setitem(duckdb_settings._PINNED, "gone_since", "true")
    with pytest.raises(EngineNotTested, match="does not take the setting gone_since"):
        duckdb_settings.connect()


def test_an_unknown_optimizer_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    known = duckdb_settings.tested_versions()[INSTALLED]
    less = replace(known, optimizers=tuple(n for n in known.optimizers if n != "join_order"))
    monkeypatch.setattr(duckdb_settings, "tested_versions", lambda: {INSTALLED: less})
    with duckdb_settings.connect() as connection:
        off = connection.execute("SELECT current_setting('disabled_optimizers')").fetchall()[0][0]
    assert "join_order" in off.split(",")


@pytest.mark.skipif(
    next(iter(duckdb_settings.tested_versions())) == INSTALLED, reason="the oldest version is installed"
)
def test_a_newer_version_beside_the_facts_of_the_oldest_alone(
    policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The installed version, before it was tested: what it has more is refused, all else is answered."""
    oldest = next(iter(duckdb_settings.tested_versions()))
    facts: dict[str, EngineFacts] = {oldest: duckdb_settings.tested_versions()[oldest]}
    monkeypatch.setattr(duckdb_settings, "tested_versions", lambda: facts)
    session = Session(load(policy))
    with pytest.raises(EngineNotTested, match="the plan calls fmod, so nothing was run or charged"):
        session.run("SELECT COUNT(DISTINCT id) AS n FROM t WHERE fmod(y, 3) < 1")
    assert session.budget().spent.epsilon == 0
    session.run("SELECT COUNT(DISTINCT id) AS n FROM t WHERE y + 1 >= 2 AND abs(x) < 4")
    session.close()


OPERANDS = {
    AS_TEXT: ("'2024-01-03'", "'2024-01-08'"),
    "x + 1": (3, 7),
    "x * 2 - 1": (3, 11),
    "x % 4": (1, 2),
    "-x": (-6, -2),
    "abs(x - 5)": (1, 3),
    "x // 3": (1, 2),
    "y / 2": (0.5, 1.5),
    "y * y": (1, 16),
    "sqrt(y)": (1, 2),
    "round(y / 3, 1)": (0.3, 1.7),
    "floor(y / 2)": (1, 2),
    "fmod(y, 3)": (0.5, 1.5),
    "length(s)": (5, 6),
    "upper(s)": ("'WORD 0'", "'WORD 1'"),
    "substr(s, 6)": ("'1'", "'2'"),
    "CASE WHEN x > 5 THEN x ELSE -x END": (-3, 8),
    "coalesce(nullif(x, 4), 0)": (0, 5),
    "CAST(y AS BIGINT)": (2, 4),
    "CAST(x AS VARCHAR)": ("'2'", "'7'"),
    "DATE '2024-01-01' + x": ("DATE '2024-01-03'", "DATE '2024-01-06'"),
    "year(DATE '2024-01-01' + x * 100)": (2024, 2025),
    "greatest(x, y)": (2, 5),
}


@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.sampled(3)
def test_between_over_computed_operands_counts_as_plain_duckdb(session: Session, operand: str) -> None:
    low, high = OPERANDS[operand]
    wheres = [f"{operand} {word} {low} AND {high}" for word in ("BETWEEN", "NOT BETWEEN")]
    wheres.append(f"({operand} BETWEEN {low} AND {high}) IS NOT FALSE")
    check_counts(session, wheres)


def test_fmod_counts_as_plain_duckdb(session: Session) -> None:
    check_counts(session, ["fmod(y, 7) < 3", "fmod(-y, 2.5) > 1", "fmod(y, -4) < 0", "isnan(fmod(y, 0))"])


def check_counts(session: Session, conditions: list[str]) -> None:
    """The exact counts under conditions are those of the same SQL in plain DuckDB."""
    folder = present(session.policy.path).parent
    for where in conditions:
        prepared = session.prepare(f"SELECT COUNT(DISTINCT id) AS n FROM t WHERE {where}")
        assert isinstance(prepared, PreparedPrivate)
        counted = engine_of(session).count(prepared.counting.plan.compiled)
        sql = f"SELECT COUNT(DISTINCT id) FROM '{folder / 't.parquet'}' WHERE {where}"
        assert exact_of(counted).n[0].tolist() == [duckdb.execute(sql).fetchall()[0][0]], where


class Broken:
    """A database after a fatal error: every cursor says so, until another database is opened."""

    def __init__(self) -> None:
        self.asked = 0

    def cursor(self) -> Broken:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def execute(self, *asked: object) -> None:
        self.asked += 1
        raise duckdb.FatalException("database has been invalidated because of a previous fatal error")

    sql = execute


def test_the_schema_database_is_opened_again_after_a_fatal_error(policy: Path) -> None:
    session = Session(load(policy))
    database: Any = engine_of(session).schema_database
    used, database._database.connection = database._database.connection, Broken()
    assert database.evaluate("40 + 2") == 42
    assert not isinstance(database._database.connection, Broken)
    database._database.connection = Broken()
    with pytest.raises(dpsql.OperationalError):
        database.run("SELECT 7 AS x")
    assert database.run("SELECT 7 AS x").to_pylist() == [{"x": 7}]
    assert session.run("SELECT COUNT(DISTINCT id) AS n FROM t") is not None
    used.close()
    session.close()
