"""What is attacked: compiled queries of a policy, and random databases with and without each unit.

Four worlds of `fuzz` with its random statements, and the policy of the SQL fixtures with their statements.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random

import duckdb
from fuzz.campaign import FOCUS, FOCUSED, REPEATED
from fuzz.check import NUMBERS
from fuzz.data import small_data
from fuzz.stage import Stage
from fuzz.statements import statement
from fuzz.world import World, worlds

from dpsql.analysis import Plan, analyse, complete_options, put_values
from dpsql.composition import parts_of
from dpsql.composition.analysed_blocks import AnalysedBlocks
from dpsql.engines import open_engine
from dpsql.engines.declared_domains import Domains
from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.duckdb.table_readers import read_sources
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.errors import QueryRefused, QuerySyntaxError
from dpsql.kernel.facts import Facts
from dpsql.kernel.tree import Query as Tree
from dpsql.kernel.tree import quote
from dpsql.language import Options, Query, parse
from dpsql.policy import Policy, load
from dpsql.policy.model import facts_of
from kernel.amounts import amounts
from tests.sql_fixtures import FOLDER, TABLES, raw_data, read, write
from tests.support.claimed import claims_certified

__all__ = [
    "Compiled",
    "FixtureGround",
    "Ground",
    "WorldGround",
    "fixture_statements",
    "grounds",
    "queries_of",
]


AMOUNTS = 0.35
"""The share of statements of sums, averages and quantiles."""


@dataclass(frozen=True)
class Compiled:
    """A counting query of a statement, with the plan that counts it."""

    text: str
    query: Tree
    plan: Plan
    ladder: int | None = None
    """The place of the bound whose search it is; None: the numbers that are released."""


class Ground(ABC):
    """A policy, what the schema database knows of it, and databases to count on."""

    name: str
    policy: Policy
    schema: SchemaDatabase
    connection: duckdb.DuckDBPyConnection
    defaults: Options

    def __init__(self) -> None:
        self.facts: Facts = facts_of(self.policy, self.schema)

    @abstractmethod
    def draw(self, rng: Random) -> str:
        """Return a statement; it may be refused."""

    @abstractmethod
    def fill(self, rng: Random) -> list[str]:
        """Replace the databases by random ones; return the names of those without one unit."""

    @abstractmethod
    def enter(self, name: str) -> None:
        """Count on the `whole`, on it in another order (`shuffled`), or on that without a unit."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the databases."""

    def compiled(self, text: str) -> list[Compiled]:
        """Return all counting queries of a statement, certified or not; none of one that is refused."""
        with claims_certified():
            return self._compiled(text)

    def _compiled(self, text: str) -> list[Compiled]:
        try:
            query = parse(text)
            assert isinstance(query, Query)
            parts = parts_of(query, AnalysedBlocks(self.policy, self.schema, self.defaults))
            plans = []
            for part in parts.releases:
                options = complete_options(part.query.options, self.defaults)
                plan = analyse(part.query, self.policy, self.schema, options)
                if part.values:
                    given = {place: NUMBERS[(len(text) + place) % len(NUMBERS)] for place in part.values}
                    plan = put_values(plan, given, self.policy, self.schema)
                plans.append(plan)
        except (QueryRefused, QuerySyntaxError):
            return []
        return [made for plan in plans for made in queries_of(text, plan)]


def queries_of(text: str, plan: Plan) -> list[Compiled]:
    """Return the counting queries of a plan."""
    searches = [Compiled(text, s.compiled.query, plan, i) for i, s in enumerate(plan.ladders)]
    return [Compiled(text, plan.compiled.query, plan), *searches]


class WorldGround(Ground):
    """A world of `fuzz`, its random statements and its databases."""

    def __init__(self, world: World) -> None:
        self.stage = Stage(world)
        self.name, self.policy, self.schema = world.name, world.policy, world.schema_database
        self.connection = self.stage.connection
        self.defaults = Options(epsilon=Fraction(1))
        super().__init__()

    def draw(self, rng: Random) -> str:
        if rng.random() < AMOUNTS:
            return amounts(rng)
        focus = rng.choice(FOCUS) if rng.random() < FOCUSED else ()
        return statement(rng, self.stage.world, frozenset(focus)).text

    def fill(self, rng: Random) -> list[str]:
        self.stage.fill(small_data(rng, self.stage.world, repeated=REPEATED))
        return [f"minus{i}" for i in range(len(self.stage.data.units))]

    def enter(self, name: str) -> None:
        self.stage.enter(name)

    def close(self) -> None:
        self.stage.close()
        self.schema.close()


def fixture_statements() -> list[str]:
    """Return the statements of all accepted fixtures."""
    return [f.statement for path in sorted((FOLDER / "accepted").glob("*.sql")) for f in read(path)]


UNITS = (1, 2, 5, 7, 20)
PERSONAL = ("visits", "users", "baskets")
_GONE = (
    "(SELECT basket_id FROM whole.main.baskets WHERE user_id IS NOT NULL "
    "GROUP BY basket_id HAVING MIN(user_id) = {})"
)


class FixtureGround(Ground):
    """The policy of the SQL fixtures: their statements, and samples of their rows with other units."""

    def __init__(self) -> None:
        self.name = "fixtures"
        self.folder = tempfile.TemporaryDirectory()
        with raw_data() as raw:
            self.policy = load(write(Path(self.folder.name) / "data", raw))
        self.engine = open_engine(self.policy)
        self.schema = self.engine.schema_database
        self.defaults = Options(epsilon=Fraction(1), delta=Fraction(1, 10**9))
        self.texts = fixture_statements()
        self.connection = duckdb_settings.connect()
        self.connection.execute("SET threads = 1; ATTACH ':memory:' AS whole")
        readers = read_sources(self.connection, self.policy, None)
        for table, reader in readers.items():
            place = "whole.main" if reader.table.public else "memory.main"
            self.connection.execute(f"CREATE TABLE {place}.{quote(table)} AS {reader.sql}")
        self.connection.execute("USE whole")
        Domains(self.policy, readers).create(self.connection)
        for i in range(len(UNITS)):
            self.connection.execute(f"ATTACH ':memory:' AS minus{i}")
        self.connection.execute("ATTACH ':memory:' AS shuffled")
        super().__init__()

    def draw(self, rng: Random) -> str:
        return rng.choice(self.texts)

    def fill(self, rng: Random) -> list[str]:
        self.enter("whole")
        heavy = rng.random() < 0.4
        for table in TABLES:
            if not self.policy.tables[table].public:
                self._sample(table, rng, heavy=heavy)
        for i, unit in enumerate(UNITS):
            gone = _GONE.format(unit)
            parcels = f"SELECT parcel_id FROM whole.main.parcels WHERE basket_id IN {gone}"
            kept = dict.fromkeys(PERSONAL, f"user_id IS DISTINCT FROM {unit}")
            kept["goods"] = kept["parcels"] = f"basket_id IS NULL OR basket_id NOT IN {gone}"
            kept["scans"] = f"parcel_id IS NULL OR parcel_id NOT IN ({parcels})"
            kept["readings"] = f"rowid <> {i}"
            for table, condition in kept.items():
                self._make(f"minus{i}", table, f"FROM whole.main.{table} WHERE {condition}")
        for table in TABLES:
            self._make("shuffled", table, f"FROM whole.main.{table} ORDER BY hash(rowid * 7919)")
        return [f"minus{i}" for i in range(len(UNITS))]

    def _sample(self, table: str, rng: Random, *, heavy: bool) -> None:
        """Draw some rows of a table, and give them to few units, to one of them more than to the others."""
        seed, share = rng.randrange(1 << 30), rng.choice((20, 40, 80, 100))
        units = [u for u in UNITS for _ in range(4 if heavy and u == UNITS[0] else 1)]
        listed = f"[{', '.join(map(str, units))}, NULL]"
        drawn = f"{listed}[1 + (hash(rowid + {seed}) % {len(units) + 1})::INTEGER]"
        columns = f"* REPLACE ({drawn} AS user_id)" if table in ("visits", "baskets") else "*"
        rows = (
            f"FROM memory.main.{table} WHERE hash(rowid * 31 + {seed}) % 100 < {share} OR rowid = {seed % 20}"
        )
        if table == "users":
            one = f"CASE WHEN user_id % 5 = 0 THEN NULL ELSE {list(UNITS)}[1 + user_id % 5] END"
            rows = f"FROM (SELECT {one} AS user_id, * EXCLUDE (user_id) {rows}) QUALIFY row_number() OVER "
            rows += f"(PARTITION BY user_id ORDER BY hash(age + {seed})) = 1"
        self._make("whole", table, f"SELECT {columns} {rows}")

    def _make(self, name: str, table: str, sql: str) -> None:
        self.connection.execute(f"CREATE OR REPLACE TABLE {name}.main.{table} AS {sql}")

    def enter(self, name: str) -> None:
        first = "" if name == "whole" else f"{name}.main,"
        self.connection.execute(f"SET search_path = '{first}whole.main,whole.dpsql_domain'")

    def close(self) -> None:
        self.connection.close()
        self.engine.close()
        self.folder.cleanup()


def grounds() -> list[Ground]:
    """Return all of them."""
    return [*(WorldGround(world) for world in worlds()), FixtureGround()]
