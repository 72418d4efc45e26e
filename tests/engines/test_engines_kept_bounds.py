"""Kept ladders of PostgreSQL and Spark tables: the exact figures are DuckDB's, and statements use them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import duckdb
import pytest
from support.stores import Store
from test_engines_true_answers import DATA, POLICY

from dpsql.analysis.table_measures import compile_value_measure
from dpsql.database import Database
from dpsql.kernel.mechanisms import Bins
from dpsql.owner.ladder_releases import find_kept, parse_measure, release_ladders
from dpsql.policy import ColumnBounds, Policy, load
from dpsql.release import tables_read
from dpsql.session import Session
from tests.narrow import present, private
from tests.support.exact import every_number, exact_of, scores_of
from tests.support.world import write_world

MEASURES = (
    *("encounters", "encounters.minutes", "orders", "results", "results.value"),
    *("encounters by minutes, ward", "encounters by at", "results by kind", "results by value"),
)
"""Rows, totals and groups: of a column that names the unit, and of paths of two and three keys."""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder = tmp_path_factory.mktemp("duckdb")
    write_world(folder, POLICY, **DATA)
    with closing(Database(load(folder / "dpsql.toml"))) as opened:
        yield opened


def policy_of(store: Store, text: str) -> Policy:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return store.policy(text, store.put(connection, DATA))


def figures(database: Database, name: str) -> list[list[int]]:
    """Return the exact figures from which a ladder of a measure is drawn."""
    measure, engines = parse_measure(database, name), database.engines()
    reads = tables_read(database.policy, [measure.table])
    ends = (0, *Bins.plan(4_096, 1).ends)
    scores = scores_of(engines.count(measure.scores(), reads), len(measure.bounds))
    found = (scores, every_number(engines, measure.above(ends), reads))
    return [each.tolist() for each in found]


def test_the_figures_of_ladders_are_those_of_duckdb(store: Store, plain: Database) -> None:
    with closing(Database(policy_of(store, POLICY))) as opened:
        for name in MEASURES:
            own = figures(opened, name)
            assert own == figures(plain, name)
            assert own[1][0] > 10


STATEMENTS = {
    "SELECT COUNT(*) AS n FROM encounters": "SELECT COUNT(*) FROM encounters",
    "SELECT SUM(minutes) AS n FROM encounters": "SELECT SUM(minutes) FROM encounters",
    "SELECT SUM(value) AS n FROM results": "SELECT SUM(value) FROM results",
}


def test_statements_use_the_ladders_of_a_declared_version(store: Store, plain: Database) -> None:
    policy = replace(
        policy_of(store, POLICY.replace("epsilon = 1000\n", "epsilon = 1e9\n")), data_version="1"
    )
    with closing(Database(policy)) as opened, closing(Session(opened, "alice")) as asked:
        measures = [parse_measure(opened, name) for name in MEASURES]
        release_ladders(opened, measures, Fraction(10**5), "dpsql bounds")
        for sql in STATEMENTS:
            bound = sql.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000)", 1)
            left = present(private(asked.prepare(bound)).plan.left_out[0])
            assert left.kept.current
            release = present(asked.run(bound).release)
            with closing(Session(plain, "bob")) as other:
                counted = exact_of(private(other.prepare(bound)).counting.count()).n[0][0]
            low, high = (release.table.column(end)[0].as_py() for end in ("n_low", "n_high"))
            assert low - 5 <= counted <= high + 5
            assert "(in the range)" in release.line


def test_without_a_version_nothing_is_known_of_what_is_cut(store: Store) -> None:
    """Of files, which Spark reads in these tests, a change shows without one."""
    files = store.name != "PostgreSQL"
    text = POLICY.replace("epsilon = 1000\n", "epsilon = 1e9\n")
    with closing(Database(policy_of(store, text))) as opened, closing(Session(opened, "alice")) as asked:
        measure = parse_measure(opened, "encounters")
        release_ladders(opened, [measure], Fraction(10**5), "dpsql bounds")
        bound = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000) COUNT(*) AS n FROM encounters"
        left = present(private(asked.prepare(bound)).plan.left_out[0])
        assert (left.kept.current, left.kept.told) == (files, files)
        assert (find_kept(opened, measure) is None) == (not files)
        release = present(asked.run(bound).release)
        assert ("no data_version tells whether the data changed" in release.line) == (not files)


def test_what_lies_beyond_bounds_is_that_of_duckdb(store: Store, plain: Database) -> None:
    for column, ends in (("encounters.minutes", (10, 40)), ("results.value", (0, 3))):
        found = []
        with closing(Database(policy_of(store, POLICY))) as opened:
            for database in (plain, opened):
                name, _, of = column.partition(".")
                engines, table = database.engines(), database.policy.tables[name]
                bounded = replace(table, domain={}, bounds={of: ColumnBounds(*ends)})
                for most in (1, 3):
                    made = compile_value_measure(database.policy, engines.schema_database, bounded, of, most)
                    reads = tables_read(database.policy, [name])
                    found.append([int(each[0]) for each in exact_of(engines.count(made.compiled, reads)).n])
        assert found[:2] == found[2:]
        assert any(found[0])


def test_averages_without_bounds_are_quotients(store: Store) -> None:
    text = POLICY.replace("epsilon = 1000\n", "epsilon = 1e9\n").replace(
        "value = { from = 0, to = 100 }\n", ""
    )
    ask = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 800) AVG(value) AS a, AVG(value + 1) AS b"
    with closing(Database(policy_of(store, text))) as opened, closing(Session(opened, "alice")) as asked:
        found = present(asked.run(f"{ask} FROM results").release)
    with duckdb.connect() as plain:
        wanted = plain.execute(f"SELECT AVG(value), AVG(value + 1) FROM ({DATA['results']})").fetchone()
    assert found.selection == "count"  # a difference from a centre may overflow in PostgreSQL
    (row,) = found.table.select(["a", "b"]).to_pylist()
    assert (row["a"], row["b"]) == pytest.approx(wanted, rel=0.05)
