"""Paths of three foreign keys: what is counted, and what the removal of one unit takes away.

Many small databases lie in one set of tables, with units, keys and groups of their own. One unit of each is
removed at once, and again the next one, from all tables or from the last one alone, whose rows lead nowhere
then. Keys that occur twice are drawn as well: there a row has two owners, so tables with them are refused.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random

import duckdb
import pytest
from fuzz.mutant import Mutant

from dpsql.analysis import Plan, analyse, complete_options, from_tables
from dpsql.analysis.statement_shapes import Provenance
from dpsql.engines.duckdb import duckdb_settings
from dpsql.errors import OperationalError
from dpsql.kernel.tree import duckdb_sql
from dpsql.language import Options, Query, parse
from dpsql.policy import load
from dpsql.session import Session
from tests.daily import daily
from tests.narrow import engine_of, of_type

DATABASES, UNITS, GROUPS = range(120), range(5), "abc"
MOST = 2
TABLES = ("encounters", "orders", "results", "notes")
COLUMNS = {
    "encounters": "encounter_id BIGINT, patient_id BIGINT, k VARCHAR, x BIGINT",
    "orders": "order_id BIGINT, encounter_id INTEGER, k VARCHAR, x BIGINT",
    "results": "result_id BIGINT, order_id BIGINT, k VARCHAR, x BIGINT",
    "notes": "result_id BIGINT, k VARCHAR, x BIGINT",
}
HOPS = {"orders": "encounter_id", "results": "order_id", "notes": "result_id"}
"""The column by which each table finds its unit, in the table before it."""


def declared() -> str:
    """Write the policy: the unit's column in the first table, a path in each other one."""
    domain = [f"{g}{d}" for d in DATABASES for g in GROUPS]
    text = f'[budget]\nepsilon = 1\nledger = "l.sqlite"\n[defaults]\nrows_per_unit = {MOST}\n'
    for before, table in zip((None, *TABLES), TABLES, strict=False):
        unit = '"patient_id"\nunit_kind = "patient"'
        if before is not None:
            unit = f'{{ via = "{HOPS[table]}", table = "{before}", column = "{HOPS[table]}" }}'
        key = COLUMNS[table].split()[0]
        fact = f'unique = [["{key}"]]\n' if table != TABLES[-1] else ""
        text += f'[tables.{table}]\nsource = "{table}.parquet"\nunit = {unit}\n{fact}'
        text += f"[tables.{table}.domain]\nk = {domain}\n"
    return text


NEAR = "FROM orders o JOIN encounters e ON o.encounter_id = e.encounter_id WHERE e.patient_id IS NOT NULL"
SHORT = NEAR.replace("FROM orders o", "FROM results r JOIN orders o ON r.order_id = o.order_id")
PATH = SHORT.replace("FROM results r", "FROM notes n JOIN results r ON n.result_id = r.result_id")
NOTED = "SELECT 1 FROM notes n WHERE n.result_id = r.result_id AND n.x > 1"
DONE = "SELECT r.order_id FROM results r WHERE r.x > 1"
SAME = "f.patient_id = e.patient_id AND f.x = n.x"
UNITS_OF = "COUNT(DISTINCT e.patient_id)"


def bounded(column: str, source: str, more: str = "") -> str:
    """Count at most `MOST` rows of each patient, by a join that is written out."""
    per = f"SELECT {column} AS k, e.patient_id, COUNT(*) AS c {source} {more} GROUP BY ALL"
    return f"SELECT k, SUM(LEAST(c, {MOST})) AS n FROM ({per}) GROUP BY k"


ROWS = f"COUNT(*, contribution_bounds_per_group => (0, {MOST}))"
FORMS = {
    "units, three hops": (
        "SELECT k, COUNT(DISTINCT patient_id) AS n FROM notes GROUP BY k",
        f"SELECT n.k, {UNITS_OF} {PATH} GROUP BY n.k",
    ),
    "rows, three hops": (f"SELECT k, {ROWS} AS n FROM notes GROUP BY k", bounded("n.k", PATH)),
    "rows, two hops": (f"SELECT k, {ROWS} AS n FROM results GROUP BY k", bounded("r.k", SHORT)),
    "the last key": (
        f"SELECT n.k, {ROWS} AS n FROM notes n JOIN results r USING (result_id) WHERE r.x > 1 GROUP BY n.k",
        bounded("n.k", PATH, "AND r.x > 1"),
    ),
    "a key in the middle": (
        f"SELECT o.k, {ROWS} AS n FROM results r JOIN orders o USING (order_id) WHERE r.x > 1 GROUP BY o.k",
        bounded("o.k", SHORT, "AND r.x > 1"),
    ),
    "a comma": (
        f"SELECT r.k, {ROWS} AS n FROM results r, orders o "
        "WHERE o.order_id = r.order_id AND o.x > 1 GROUP BY r.k",
        bounded("r.k", SHORT, "AND o.x > 1"),
    ),
    "the whole path": (
        f"SELECT e.k, {ROWS} AS n FROM notes n JOIN results r USING (result_id) "
        "JOIN orders o USING (order_id) JOIN encounters e USING (encounter_id) GROUP BY e.k",
        bounded("e.k", PATH),
    ),
    "EXISTS": (
        f"SELECT r.k, COUNT(DISTINCT patient_id) AS n FROM results r WHERE NOT EXISTS ({NOTED}) GROUP BY r.k",
        f"SELECT r.k, {UNITS_OF} {SHORT} AND NOT EXISTS ({NOTED}) GROUP BY r.k",
    ),
    "IN": (
        "SELECT o.k, COUNT(DISTINCT patient_id) AS n FROM orders o "
        f"WHERE o.order_id IN ({DONE}) GROUP BY o.k",
        f"SELECT o.k, {UNITS_OF} {NEAR} AND o.order_id IN ({DONE}) GROUP BY o.k",
    ),
    "on the unit": (
        f"SELECT n.k, {ROWS} AS n FROM notes n "
        "JOIN encounters e ON n.patient_id = e.patient_id AND e.x = n.x GROUP BY n.k",
        bounded("n.k", PATH.replace(" WHERE ", f" JOIN encounters f ON {SAME} WHERE ")),
    ),
}
"""Statements over paths, and the joins that count the same, written out."""

Found = Counter[str]


@dataclass
class Tally:
    """The removals of a form, and the most that one moved."""

    removals: int = 0
    most: int = 0


class Databases:
    """The compiled statements, and the rows of all databases."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = Random(seed)
        self.engine = duckdb_settings.connect()
        self.engine.execute("SET threads = 2")
        for table, columns in COLUMNS.items():
            self.engine.execute(f"CREATE TABLE {table}_all({columns}, owner BIGINT)")
            self.engine.execute(
                f"COPY (SELECT * EXCLUDE (owner) FROM {table}_all) TO '{folder}/{table}.parquet'"
            )
        self.show(None)
        (folder / "dpsql.toml").write_text(declared())
        self.session = session = Session(load(folder / "dpsql.toml"))
        schema_database = engine_of(session).schema_database
        schema_database.domains.create(self.engine)
        options = Options(epsilon=Fraction(1))
        self.policy, self.schema_database = session.policy, schema_database
        self.plans: dict[str, Plan] = {}
        for form, (text, _) in FORMS.items():
            query = of_type(parse(text), Query)
            self.plans[form] = analyse(
                query, session.policy, schema_database, complete_options(query.options, options)
            )

    def close(self) -> None:
        self.engine.close()
        self.session.close()

    def show(self, unit: int | None, *, below: bool = True) -> None:
        """Leave out one unit of each database, also its rows below the first table."""
        for table, columns in COLUMNS.items():
            all_of = unit is None or not (below or table == TABLES[0])
            left = "" if all_of else f" WHERE owner IS DISTINCT FROM {unit}"
            names = re.sub(r" [A-Z]+", "", columns)
            self.engine.execute(f"CREATE OR REPLACE VIEW {table} AS SELECT {names} FROM {table}_all{left}")

    def fill(self, *, twice: str | None = None) -> None:
        """Draw rows, whose chains may end early; one key of the table `twice` is that of two rows."""
        self.show(None)
        self.engine.execute(f"SELECT setseed({self.rng.random()})")
        heavy, sizes = self.rng.choice((0.0, 0.5)), [self.rng.choice((3, 8, 14)) for _ in TABLES]
        whom = f"CASE WHEN random() < {heavy} THEN 0 ELSE floor(random() * {len(UNITS)})::BIGINT END"
        group = f"{list(GROUPS)}[1 + floor(random() * {len(GROUPS)})::INTEGER] || d"
        # Keys are 1000 d + i, and units 100 d + owner, so that databases do not meet.
        for place, (table, columns) in enumerate(COLUMNS.items()):
            drawn = {
                "owner": f"CASE WHEN random() < 0.9 THEN {whom} END",
                "k": f"CASE WHEN random() < 0.95 THEN {group} END",
                "x": "floor(random() * 4)::BIGINT",
                columns.split()[0]: "d * 1000 + i",
            }
            if place:
                link = f"d * 1000 + floor(random() * {sizes[place - 1] + 1})::BIGINT"
                drawn[HOPS[table]] = f"CASE WHEN random() < 0.92 THEN {link} END"
            listed = ", ".join(f"{cell} AS {name}" for name, cell in drawn.items())
            rows = f"SELECT d, {listed} FROM range({len(DATABASES)}) AS a(d), range({sizes[place]}) AS b(i)"
            names = re.sub(r" [A-Z]+", "", columns)
            self.engine.execute(f"DELETE FROM {table}_all")
            if place:
                above = f"SELECT {HOPS[table]} AS up, MIN(owner) AS owner FROM {TABLES[place - 1]}_all"
                cells = ", ".join(f"c.{name}" for name in names.split(", "))
                owners = f"({above} GROUP BY up) AS p ON up = c.{HOPS[table]}"
                made = f"SELECT {cells}, p.owner FROM ({rows}) AS c LEFT JOIN {owners}"
            else:
                made = f"SELECT {names.replace('patient_id', '100 * d + owner')}, owner FROM ({rows}) AS c"
            self.engine.execute(f"INSERT INTO {table}_all {made}")
            if table == twice:
                key = names.split(", ")[0]
                other = f"SELECT * REPLACE ({key} - 1 AS {key}) FROM {table}_all WHERE {key} % 1000 = 1"
                self.engine.execute(f"INSERT INTO {table}_all {other}")

    def counted(self, form: str, sql: str = "") -> Found:
        """Return the numbers of all groups."""
        rows = self.engine.execute(sql or self.plans[form].compiled.sql).fetchall()
        return Counter({str(row[0]): int(row[1]) for row in rows if row[0] is not None and row[1]})

    def check(self, form: str, tally: Tally, sql: str = "") -> None:
        """Compare with the join that is written out; hold what each unit's removal moves to the bound."""
        self.show(None)
        whole = self.counted(form, sql)
        assert whole == self.counted(form, FORMS[form][1]), "not what the join counts"
        bound = self.plans[form].counts[0].bound
        for unit in UNITS:
            for below in (True, False):
                self.show(unit, below=below)
                less = self.counted(form, sql)
                moves: Counter[str] = Counter()
                for group in whole.keys() | less.keys():
                    lost = whole[group] - less[group]
                    assert lost >= 0, "a removal adds"
                    moves[group] = lost
                most = max(moves.values(), default=0)
                assert most <= bound, "more than the bound"
                tally.removals += len(DATABASES)
                tally.most = max(tally.most, most)
                if below:
                    gone = less
                else:
                    assert less == gone, "rows that lead nowhere are somebody's"
        self.show(None)


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    made = Databases(tmp_path_factory.mktemp("paths"), seed=20261128)
    yield made
    made.close()


def campaign(databases: Databases, form: str, wanted: int, sql: str = "", twice: str | None = None) -> Tally:
    """Remove units until there are so many removals; what contradicts the claim is raised."""
    tally = Tally()
    while tally.removals < wanted:
        databases.fill(twice=twice)
        databases.check(form, tally, sql)
    return tally


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.sampled(5)
def test_a_removal_moves_at_most_the_bound(form: str, databases: Databases) -> None:
    tally = campaign(databases, form, 1200)
    assert tally.most == databases.plans[form].counts[0].bound, "the bound is not reached"


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_campaign(form: str, tmp_path: Path) -> None:
    """`DPSQL_REMOVALS` of each form; `DPSQL_SEED` repeats a campaign that failed."""
    wanted = int(os.environ.get("DPSQL_REMOVALS", "100000"))
    seed = int(os.environ.get("DPSQL_SEED", Random().randrange(2**32)))
    print(seed, flush=True)
    databases = Databases(tmp_path, seed)
    try:
        tally, bound = campaign(databases, form, wanted), databases.plans[form].counts[0].bound
    finally:
        databases.close()
    print(f"{form}: {tally.removals} removals, at most {tally.most} of {bound}", flush=True)
    assert tally.most == bound, "the bound is not reached"


@pytest.mark.parametrize("table", TABLES[:-1])
def test_a_key_that_occurs_twice_breaks_the_claim(table: str, databases: Databases) -> None:
    """So each hop's key is verified: a row with two owners passes from one to the other."""
    with pytest.raises(AssertionError):
        campaign(databases, "units, three hops", 4800, twice=table)


# -- the relation of a table: every row that has a unit, once, with that unit

WALKS = {"notes": PATH, "results": SHORT, "orders": NEAR}


def relation(databases: Databases, table: str) -> str:
    """Return the SQL of a table's rows with their units, compiled anew."""
    query = of_type(parse(f"SELECT COUNT(*) AS n FROM {table}"), Query)
    compiler = Provenance(query.source, databases.policy, databases.schema_database).make_compiler()
    return duckdb_sql(
        from_tables._compile_declared_table(compiler, databases.policy.tables[table], query.tree).query
    )


def rows_of(databases: Databases, sql: str) -> list[tuple[object, ...]]:
    return sorted(databases.engine.execute(sql).fetchall(), key=repr)


def check_relation(databases: Databases, table: str) -> None:
    """Compare a table's relation with the path that is walked by hand, and with keys that occur twice."""
    sql, width = relation(databases, table), COLUMNS[table].count(",") + 1
    listed = ", ".join(["u", *(f"c{i}" for i in range(width))])
    for twice in (None, "encounters", "orders"):
        databases.fill(twice=twice)
        found = rows_of(databases, f"SELECT {listed} FROM ({sql})")
        assert all(row[0] is not None for row in found), "a row of nobody"
        if twice is None:
            assert found == rows_of(databases, f"SELECT e.patient_id, {table[0]}.* {WALKS[table]}")
        else:
            stored = Counter(rows_of(databases, f"SELECT * FROM {table}"))
            assert not Counter(row[1:] for row in found) - stored, "a row has two owners"


def check_relations(databases: Databases) -> None:
    for table in WALKS:
        check_relation(databases, table)


def test_every_row_with_a_unit_stands_once(databases: Databases) -> None:
    check_relations(databases)


MUTANTS = {
    "a LEFT JOIN hop": ("_join_owners", 'Join(source, "",', 'Join(source, "LEFT",'),
    "a row for each parent, in the middle": (
        "_find_owners",
        'listed = (Item(key, "k"), Item(Aggregate("MIN", (tree.Column("q", "u"),)), "u"))\n'
        "        return Select(listed, _join_owners(parent.unit, source, above), group=(key,)), sql_type",
        'listed = (Item(key, "k"), Item(tree.Column("q", "u"), "u"))\n'
        "        return Select(listed, _join_owners(parent.unit, source, above)), sql_type",
    ),
    "a row for each parent, at the end": (
        "_find_owners",
        'listed = (Item(key, "k"), Item(Aggregate("MIN", (up,)), "u"))\n'
        "    chosen = Select(listed, source, IsNull(up, negated=True), group=(key,))",
        'listed = (Item(key, "k"), Item(up, "u"))\n'
        "    chosen = Select(listed, source, IsNull(up, negated=True))",
    ),
    "the first hop alone": (
        "_find_owners",
        "return Select(listed, _join_owners(parent.unit, source, above), group=(key,)), sql_type",
        'return Select((Item(key, "k"), Item(tree.Column("p", parent.unit.via, stored=True), "u")), source), '
        "sql_type",
    ),
}


@pytest.mark.parametrize("mutant", daily(MUTANTS, 3))
def test_a_slip_in_a_hop_is_noticed(
    mutant: str, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    Mutant(mutant, (("analysis.from_tables", *MUTANTS[mutant]),)).apply(monkeypatch)
    with pytest.raises(AssertionError):
        check_relations(databases)


# -- unique keys are verified at every hop, for each version of the data, before anything is charged


def asked(folder: Path, twice: str | None) -> str:
    """Ask over the whole path, where a table may have a key twice; return the refusal, or nothing."""
    folder.mkdir()
    for table, columns in COLUMNS.items():
        names = re.sub(r" [A-Z]+", "", columns).split(", ")
        listed = ", ".join("'a0' AS k" if name == "k" else f"i AS {name}" for name in names)
        again = " UNION ALL SELECT 3 AS i" if table == twice else ""
        rows = f"SELECT {listed} FROM (SELECT i FROM range(9) AS r(i){again})"
        duckdb.sql(f"COPY ({rows}) TO '{folder / table}.parquet'")
    (folder / "dpsql.toml").write_text(declared())
    session, problem = Session(load(folder / "dpsql.toml")), ""
    try:
        session.run(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) {ROWS} AS n FROM notes")
    except OperationalError as error:
        problem = str(error)
    states = [entry.state for entry in session.ledger.entries()]
    session.close()
    assert states == ([] if problem else ["settled"])
    return problem


def test_keys_that_stand_once_are_accepted(tmp_path: Path) -> None:
    assert not asked(tmp_path / "data", None)


@pytest.mark.parametrize("table", TABLES[:-1])
def test_a_key_that_occurs_twice_is_refused(table: str, tmp_path: Path) -> None:
    assert f"table {table} cannot be read as declared" in asked(tmp_path / "data", table)


UNVERIFIED = {
    "the path is not vetted": (
        "analysis.from_tables",
        "_compile_table",
        "compiler.used.update(",
        "set().update(",
    ),
    "keys of a path are not tested": (
        "engines.duckdb.duckdb_engine",
        "DuckDBEngine.vet",
        "for fact in reader.table.unique:",
        "for fact in reader.table.unique if isinstance(unit, UnitColumn) else ():",
    ),
}


@pytest.mark.parametrize("mutant", UNVERIFIED)
@pytest.mark.parametrize("table", TABLES[1:-1])
@pytest.mark.sampled(3)
def test_a_hop_that_is_not_verified_is_noticed(
    table: str, mutant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Mutant(mutant, (UNVERIFIED[mutant],)).apply(monkeypatch)
    assert not asked(tmp_path / "data", table), "the mutant is refused too"
