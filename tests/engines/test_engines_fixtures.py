# ruff: noqa: E501  statements and lists of values read better unbroken
"""Every accepted statement of tests/sql, on each engine: the very counts of DuckDB, or a refusal known here."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from support.stores import Store

from dpsql.engines.remote_engine import RemoteEngine
from dpsql.engines.writer import Untranslatable
from dpsql.session import Session
from tests.narrow import engine_of
from tests.sql_fixtures import FOLDER, TABLES, Fixture, raw_data, write
from tests.unit.analysis import test_sql_fixtures as fixtures

BOTH = {
    "A67": "does not convert VARCHAR to INTEGER",
    "A68": "regexp_matches",
    "A69": "a conversion to JSON",
    "A215": "GLOB",
    "A217": "does not convert VARCHAR to DOUBLE",
    "A227": "list with ORDER BY",
    "A306": "elements of lists",
    "A308": "a list",
    "A310": "SIMILAR TO",
    "A321": "elements of lists",
    "A322": "string_split",
    "A343": "signbit",
    "A344": "sum with ORDER BY",
    "A61": "UNNEST",
    "A75": "FIRST and LAST",
    "A222": "FIRST and LAST",
    "A921": "convert VARCHAR to BIGINT",
    "A924": "date_diff",
    "A927": "UNNEST",
    "A1137": "elements of lists",
    "A1512": "convert VARCHAR to DATE",
    "A1513": "convert VARCHAR to TIMESTAMP",
    "A1514": "convert VARCHAR to TIMESTAMP",
    "A5710": "convert VARCHAR to DATE",
    "A5711": "convert VARCHAR to DATE",
    "A5712": "convert VARCHAR to DATE",
    "A5763": "convert VARCHAR to TIMESTAMP",
    "A5764": "convert VARCHAR to TIMESTAMP",
    "A4203": "make_timestamp",
    "A4204": "does not run age",
    "A4208": "this INTERVAL",
    "A4209": "strftime is translated with",
    "A4210": "regexp_replace",
    "A5100": "strftime is translated with",
    "A5102": "date_diff",
    "A5209": "UNNEST",
    "A5211": "does not run epoch",
    "A5212": "strftime is translated with",
    "A5214": "does not run concat_ws",
    "A5301": "does not run floor",
    "A5402": "FIRST and LAST",
    "A5528": "strftime is translated",
}
REFUSED = {
    "PostgreSQL": {
        **BOTH,
        "A28": "a FULL JOIN on anything but equalities of columns",
        "A143": "a FULL JOIN on anything but equalities of columns",
        "A226": "DOUBLE arithmetic overflows",
        "A4303": "a FULL JOIN on anything but equalities of columns",
        "A5302": "a FULL JOIN on anything but equalities of columns",
        "A4911": "DOUBLE arithmetic overflows",
        "A4912": "DOUBLE arithmetic overflows",
    },
    "Spark": {
        **BOTH,
        "A243": "cannot plan this statement",
        "A3911": "a public date lies outside the years 1 to 9999",
        "A4911": "does not run floor",
        "A4912": "does not run floor",
        "A5300": "does not run floor",
        "A5303": "does not run floor",
    },
}
"""By fixture: why it is refused there. A new one needs a line here, or a translation."""


@pytest.fixture(scope="module")
def raw() -> Iterator[object]:
    with raw_data() as connection:
        connection.execute("UPDATE visits SET day = NULL WHERE day > DATE '9999-12-31'")
        yield connection


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, raw: duckdb.DuckDBPyConnection) -> Iterator[Session]:
    from dpsql.policy import load

    found = Session(load(write(tmp_path_factory.mktemp("sql") / "whole", raw)))
    yield found
    found.close()


@pytest.fixture(scope="module")
def engine(store: Store, raw: duckdb.DuckDBPyConnection) -> Iterator[RemoteEngine]:
    sources = store.put(raw, {name: f"FROM {name}" for name in TABLES})
    schema_database, engine = store.open(store.policy((FOLDER / "policy.toml").read_text("utf-8"), sources))
    if (planner := getattr(engine, "_planner", None)) is not None:
        planner._seconds = 120  # what is planned is asked here, not how long a busy machine takes
    yield engine
    engine.close()
    schema_database.close()


@pytest.mark.parametrize("fixture", fixtures.ACCEPTED)
def test_the_counts_are_those_of_duckdb(fixture: Fixture, session: Session, engine: RemoteEngine) -> None:
    plan = fixtures.proved(session, fixture.statement)
    expected = REFUSED[engine.dialect.name].get(fixture.name.split()[1])
    if expected is not None:
        with pytest.raises(Untranslatable) as caught:
            engine.translate(plan.compiled)
        assert expected in caught.value.message
        return
    assert engine.translate(plan.compiled)
    found, wanted = fixtures.counted(engine, plan), fixtures.counted(engine_of(session), plan)
    if plan.key_types and plan.domain_size is None:  # of equal groups at the cut, each engine may take others
        assert sorted(found.values()) == sorted(wanted.values())
        least = min(n for n, *_ in wanted.values())
        assert {k: n for k, n in found.items() if n[0] > least} == {
            k: n for k, n in wanted.items() if n[0] > least
        }
    else:
        assert found == wanted


def test_each_refusal_is_of_a_fixture(engine: RemoteEngine) -> None:
    names = {p.values[0].name.split()[1] for p in fixtures.ACCEPTED}
    assert set(REFUSED[engine.dialect.name]) <= names
