"""The sessions that golden statements are compiled on: those of the fixtures and of the random statements.

No private row is there: what is compiled, and what is quoted, does not depend on any.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from random import Random

import duckdb
from fuzz import asked, statements
from fuzz.campaign import FOCUS
from fuzz.world import World, worlds

from dpsql.engines.duckdb import duckdb_settings
from dpsql.policy import BudgetPolicy, ParquetSource, load
from dpsql.session import Session
from tests import sql_fixtures

ASKED = {"pure": (1, ""), "million": (1_000_000, ""), "zcdp": (1, 'accounting = "zcdp"\n')}
"""The policies of statements whose answers are known: default epsilon, and how charges add up."""


@dataclass(frozen=True)
class Golden:
    """A statement with a name that stays, and the session that it is compiled on."""

    name: str
    text: str
    session: Session


def fixtures() -> list[sql_fixtures.Fixture]:
    """Return all accepted fixtures, in the order of their files."""
    files = sorted((sql_fixtures.FOLDER / "accepted").glob("*.sql"))
    return [fixture for path in files for fixture in sql_fixtures.read(path)]


@contextmanager
def fixture_statements() -> Iterator[list[Golden]]:
    """Open the tables of the fixtures, and return every accepted statement."""
    with tempfile.TemporaryDirectory() as place, sql_fixtures.raw_data() as raw:
        path = sql_fixtures.write(Path(place) / "sql", raw)
        with ExitStack() as opened:
            session = _closed_with(opened, Session(load(path)))
            yield [Golden(f.name.split()[1], f.statement, session) for f in fixtures()]


@contextmanager
def random_statements(numbers: Sequence[int]) -> Iterator[list[Golden]]:
    """Open the worlds of the fuzz, and return the statements of these seeds; each depends on its seed alone.

    Of five seeds, three give statements of counts in all shapes, two statements of all kinds of numbers.
    """
    with tempfile.TemporaryDirectory() as place, ExitStack() as opened:
        made = [
            (world, _closed_with(opened, _world_session(world, Path(place) / world.name)))
            for world in worlds(shared=False)
        ]
        for world, _ in made:
            opened.callback(world.schema_database.close)
        tables = {
            name: _closed_with(opened, _asked_session(Path(place) / name, *options))
            for name, options in ASKED.items()
        }
        yield [_random(number, made, tables) for number in numbers]


@contextmanager
def answered_statements(every: int = 1) -> Iterator[list[Golden]]:
    """Return every n-th fixture; each is answered anew, whichever was answered before it."""
    with fixture_statements() as found:
        for session in {golden.session for golden in found}:
            session.defaults = replace(session.defaults, fresh=True)
        yield found[::every]


def _random(number: int, made: list[tuple[World, Session]], tables: dict[str, Session]) -> Golden:
    rng, turn = Random(number), number // 5
    if number % 5 < 3:
        world, session = made[turn % len(made)]
        focus = frozenset(rng.choice(FOCUS) if rng.random() < 0.4 else ())
        return Golden(f"{world.name}-{number}", statements.statement(rng, world, focus).text, session)
    name = [*tables][turn % len(tables)]
    text = asked.Maker(rng, sparse=False).statement().text
    return Golden(f"{name}-{number}", text, tables[name])


def _closed_with(opened: ExitStack, session: Session) -> Session:
    opened.callback(session.close)
    return session


def _world_session(world: World, folder: Path) -> Session:
    """Open a session on a world whose private tables are empty."""
    folder.mkdir()
    tables = {}
    with duckdb_settings.connect() as connection:
        connection.execute("ATTACH ':memory:' AS whole")
        world.create(connection, "whole")
        for name, table in world.policy.tables.items():
            if not table.public:
                listed = ", ".join(f"{column} {kind}" for column, kind in world.columns[name].items())
                connection.execute(f"CREATE TABLE whole.main.{name} ({listed})")
            path = folder / f"{name}.parquet"
            connection.execute(f"COPY whole.main.{name} TO '{path}' (FORMAT parquet)")
            tables[name] = replace(table, source=ParquetSource(path))
    budget = BudgetPolicy(
        epsilon=Fraction(1_000),
        delta=Fraction(1, 10),
        default_epsilon=Fraction(1),
        default_delta=Fraction(1, 10**9),
        ledger=folder / "ledger.sqlite",
    )
    return Session(replace(world.policy, budget=budget, tables=tables))


def _asked_session(folder: Path, epsilon: int, accounting: str) -> Session:
    """Open a session on the table of `fuzz.asked`, without rows."""
    folder.mkdir()
    asked.write_data(folder, Random(0), sparse=False)
    path = folder / "t.parquet"
    with duckdb.connect() as connection:
        rows = connection.sql(f"SELECT * FROM read_parquet('{path}') LIMIT 0").to_arrow_table()
        connection.execute(f"COPY rows TO '{path}' (FORMAT parquet)")
        assert not rows.num_rows
    policy = asked.POLICY.format(epsilon=epsilon)
    if accounting:
        policy = policy.replace("epsilon = 1e15", "epsilon = 100").replace(
            "[budget]\n", f"[budget]\n{accounting}"
        )
    (folder / "dpsql.toml").write_text(policy)
    return Session(folder / "dpsql.toml", "ana")
