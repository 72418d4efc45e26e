"""What one unit changes where NULL, outside values, paths, instants and existence meet.

Random statements of `fuzz.mixed` on random databases: without bounds that cut, the groups, with NULL, and the
rows in no group are those of plain DuckDB; with them, the removal of each unit moves no count beyond its
bound, no more groups than the plan says, and no candidate.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest
from fuzz.amounts import analysed
from fuzz.check import Counts, Group, counts, moved
from fuzz.mixed import COLUMNS, DATABASES, POLICY, PUBLIC, TABLES, ZONE, Asked, Rows, asked, draw, owned
from fuzz.mutant import Mutant

from dpsql.analysis import Plan
from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.duckdb.table_readers import read_source
from dpsql.errors import QueryRefused
from dpsql.policy import load
from dpsql.session import Session
from tests.daily import daily
from tests.narrow import engine_of

UNITS, NEW, KNOWN = 4, 6, 12
OUTSIDE = Group.of(("outside",))
Compiled = tuple[Asked, Plan, Plan, Plan]
"""A statement, and the plans of one database, of all with bounds that cut, and of all without."""


@dataclass
class Tally:
    """What ran."""

    statements: int = 0
    refused: int = 0
    compared: int = 0
    removals: int = 0
    removed: Counter[str] = field(default_factory=Counter)
    """Removals by construct, and those that move the group of NULL, the rows in no group, a whole bound."""


class Mixed:
    """The session that compiles, the engine that counts, and plain DuckDB."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng, self.folder, self.tally = Random(seed), folder, Tally()
        self.engine, self.plain = duckdb_settings.connect(), duckdb.connect()
        self.engine.execute("SET threads = 1")
        self.plain.execute("SET TimeZone = 'UTC'; SET error_on_division_by_zero = false")
        self.plain.execute(f"CREATE TABLE p AS FROM ({PUBLIC}) AS t(a, b, c)")
        self.plain.execute(f"COPY p TO '{folder}/p.parquet'")
        self.engine.execute(f"CREATE TABLE p AS FROM ({PUBLIC}) AS t(a, b, c)")
        (folder / "dpsql.toml").write_text(POLICY)
        self.fill({table: [] for table in TABLES})
        for table in TABLES[:-1]:
            self.plain.execute(
                f"COPY (SELECT * EXCLUDE (owner) FROM {table}_stored) TO '{folder}/{table}.parquet'"
            )
        self.write_notes()
        self.session = Session(load(folder / "dpsql.toml"))
        engine_of(self.session).schema_database.domains.create(self.engine)
        self.show(None)

    def close(self) -> None:
        self.session.close()
        self.engine.close()
        self.plain.close()

    def fill(self, rows: Rows) -> None:
        """Replace the rows: in the engine instants are times of UTC, as a session's scans give them."""
        for table, columns in COLUMNS.items():
            types = {"owner": pa.int64()}
            for name, kind in columns.items():
                types[name] = {"VARCHAR": pa.string(), "TIMESTAMPTZ": pa.timestamp("us")}.get(
                    kind, pa.int64()
                )
            incoming = pa.table({n: pa.array([r[n] for r in rows[table]], t) for n, t in types.items()})
            as_seen = ", ".join(
                f"timezone('UTC', {n}) AS {n}" if kind == "TIMESTAMPTZ" else n for n, kind in columns.items()
            )
            stored = ", ".join(
                f"timezone('UTC', {n}) AS {n}"
                if n == "seen"
                else f"CAST({n} AS {kind}) AS {n}"
                if n != "here"
                else f"timezone('{ZONE}', timezone('UTC', {n})) AS {n}"
                for n, kind in columns.items()
            )
            self.plain.register("incoming", incoming)
            self.plain.execute(f"CREATE OR REPLACE TABLE {table}_all AS SELECT {as_seen} FROM incoming")
            self.plain.execute(
                f"CREATE OR REPLACE TABLE {table}_stored AS SELECT owner, {stored} FROM incoming"
            )
            self.plain.unregister("incoming")
            scanned = ", ".join(f"timezone('UTC', {n}) AS {n}" if n == "seen" else n for n in columns)
            scan = self.plain.sql(f"SELECT owner, {scanned} FROM {table}_stored").to_arrow_table()
            self.engine.register("incoming", scan)
            self.engine.execute(f"CREATE OR REPLACE TABLE {table}_all AS FROM incoming")
            self.engine.unregister("incoming")
        self.plain.execute(owned())

    def write_notes(self) -> None:
        """Write the last table as CSV, whose instants are texts with offsets of several zones."""
        zones = "['+05:30', '-03:00', 'Z', '+00']"
        moved_by = "[INTERVAL 330 MINUTE, INTERVAL '-180' MINUTE, INTERVAL 0 MINUTE, INTERVAL 0 MINUTE]"
        place = "[1 + (hash(rowid) % 4)::INTEGER]"
        text = (
            f"strftime(timezone('UTC', seen) + {moved_by}{place}, '%Y-%m-%d %H:%M:%S.%f') || {zones}{place}"
        )
        rows = f"SELECT * EXCLUDE (owner) REPLACE ({text} AS seen) FROM notes_stored"
        self.plain.execute(f"COPY ({rows}) TO '{self.folder}/notes.csv' (HEADER)")

    def show(
        self,
        unit: int | None,
        *,
        alone: bool = False,
        below: bool = True,
        csv: bool = False,
        d: int | None = None,
    ) -> None:
        """Leave one unit of each database out, or show it alone, of all databases or of one.

        `below` says that its rows below the first table go, too.
        """
        for table, columns in COLUMNS.items():
            gone = f"owner % 100 {'=' if alone else 'IS DISTINCT FROM'} {unit}"
            kept = unit is None or not (below or table == TABLES[0])
            where = [*([] if kept else [gone]), *([] if d is None else [f"d = {d}"])]
            rows = f"SELECT {', '.join(columns)} FROM {table}_all WHERE {' AND '.join(where) or 'TRUE'}"
            if csv and table == TABLES[-1]:
                rows = read_source(self.engine, self.session.policy.tables[table], None, 1 << 16).sql
            self.engine.execute(f"CREATE OR REPLACE VIEW {table} AS {rows}")

    def plan(self, text: str) -> Plan | None:
        try:
            return analysed(self.session, text)
        except QueryRefused:
            return None

    def compiled(self, one: Asked) -> Compiled | None:
        """Compile all forms; None if one is refused."""
        self.tally.statements += 1
        plans = [self.plan(text) for text in (one.claim, one.tight, one.loose)]
        claim, tight, loose = plans
        if claim is None or tight is None or loose is None:
            self.tally.refused += 1
            return None
        return one, claim, tight, loose

    def check(self, new: list[Compiled], known: list[Compiled], beyond: int) -> None:
        """Compare the new statements with plain DuckDB, and remove each unit from all of them."""
        self.show(None)
        for one, _, _, loose in new:
            self.compare(one, loose)
        if self.rng.random() < 0.3:
            full = [counts(self.engine, loose) for *_, loose in new]
            self.write_notes()
            self.show(None, csv=True)
            for (one, *_, loose), found in zip(new, full, strict=True):
                assert counts(self.engine, loose) == found, f"other rows in CSV: {one.loose}"
            self.show(None)
        self.one_by_one(new, beyond)
        self.show(None)
        statements = [*new, *known]
        whole = [self.apart(tight, beyond) for _, _, tight, _ in statements]
        below = self.rng.random() < 0.7
        for unit in range(UNITS):
            self.show(unit, below=below)
            less = [self.apart(tight, beyond) for _, _, tight, _ in statements]
            self.show(unit, alone=True)
            for (one, claim, tight, _), before, after in zip(statements, whole, less, strict=True):
                alone = self.apart(tight, beyond) if (one, claim, tight, _) in new else None
                # The first key is declared: where no other one is, only the counts of all are in shares.
                held = claim if [c.step for c in claim.counts] == [c.step for c in tight.counts] else tight
                for d in range(DATABASES):
                    own = None if alone is None else alone.get(d, {})
                    self.removal(one, held, before.get(d, {}), after.get(d, {}), own)

    def one_by_one(self, statements: list[Compiled], d: int) -> None:
        """Remove each unit of one database, by the statements that do not name it."""
        self.show(None, d=d)
        whole = [counts(self.engine, claim) for _, claim, _, _ in statements]
        for unit in range(UNITS):
            self.show(unit, d=d)
            for (one, claim, _, _), before in zip(statements, whole, strict=True):
                self.removal(one, claim, before, counts(self.engine, claim), None)

    def apart(self, plan: Plan, beyond: int) -> dict[int, Counts]:
        """Return the counts of each database; the rows in no group are of one alone."""
        found: dict[int, Counts] = {}
        for group, numbers in counts(self.engine, plan).items():
            if group == OUTSIDE or group.keys[0] != "None":
                found.setdefault(beyond if group == OUTSIDE else int(group.keys[0]), {})[group] = numbers
            else:
                assert not any(numbers), "a row without its database"
        return found

    def compare(self, one: Asked, loose: Plan) -> None:
        """Hold the groups, NULL among them, and the rows in none of them to plain DuckDB's."""
        exact = {_plain(row[: one.keys]): row[one.keys :] for row in self.plain.sql(one.plain).fetchall()}
        places = [output.of for output in loose.outputs if output.kind == "count"]
        shown, beyond = dict[str, tuple[Fraction, ...]](), None
        for row in self.engine.execute(loose.compiled.sql).fetchall():
            numbers = tuple(int(row[one.keys + place]) * loose.counts[place].step for place in places)
            if loose.outside and row[one.keys + loose.compiled.counts]:
                beyond = numbers
            else:
                shown[_plain(row[: one.keys])] = numbers
        assert shown == {key: exact.get(key, (0,) * len(places)) for key in shown}, (
            f"not the groups: {one.loose}"
        )
        lost = [
            [*column] for column in zip(*(n for key, n in exact.items() if key not in shown), strict=True)
        ]
        if beyond is None:
            assert not any(map(any, lost)), f"rows of no group are not told: {one.loose}"
        else:
            # A unit is in several groups, and once in the number of units in none that is shown.
            for n, each in zip(beyond, lost or [[0]] * len(places), strict=True):
                assert max(each) <= n <= sum(each), f"not the rows in no group: {one.loose}"
            assert "DISTINCT" in one.loose or beyond == tuple(map(sum, lost)) or not lost, one.loose
        if one.declared and one.keys == 2:
            of_null = [key for key in exact if key.endswith(", None]") and key != "[None, None]"]
            assert {*of_null} <= {*shown}, f"NULL is no group: {one.loose}"
        self.tally.compared += 1

    def removal(self, one: Asked, plan: Plan, whole: Counts, less: Counts, alone: Counts | None) -> None:
        """Hold the removal of a unit to the plan."""
        tally, none = self.tally, (0,) * len(plan.counts)
        tally.removals += 1
        tally.removed.update(one.saw)
        assert plan.domain_size is None or whole.keys() == less.keys(), f"the candidates differ: {one.tight}"
        wrong = moved(plan, whole, less)
        assert not wrong, f"{wrong}: {one.tight}"
        for group in whole.keys() | less.keys():
            a, c = (seen.get(group, none) for seen in (less, whole))
            own = [x - y for x, y in zip(c, a, strict=True)]
            # A group of undeclared keys is absent where no unit decides that it exists.
            if alone is not None and (plan.existence is None or group in less.keys() & alone.keys()):
                assert own == [*alone.get(group, none)], f"not what the unit adds: {one.tight}"
            if any(own):
                tally.removed["outside"] += group == OUTSIDE
                tally.removed["NULL"] += group != OUTSIDE and "None" in group.keys
                tally.removed["bound"] += any(
                    n == count.bound for n, count in zip(own, plan.counts, strict=True)
                )

    def run(self, removals: int, wanted: Callable[[Asked], bool] = lambda _: True) -> Tally:
        """Draw databases and statements, of those that are wanted, until there are so many removals."""
        self.tally = Tally()
        kept: list[Compiled] = []
        while self.tally.removals < removals:
            rows, beyond = draw(self.rng, UNITS)
            self.fill(rows)
            batch = list[Compiled]()
            while len(batch) < NEW:
                one = asked(self.rng)
                compiled = self.compiled(one) if wanted(one) else None
                batch += [compiled] if compiled is not None else []
            self.check(batch, self.rng.sample(kept, min(KNOWN, len(kept))), beyond)
            kept = [*kept, *batch][-40 * KNOWN :]
        return self.tally


def _plain(keys: tuple[object, ...]) -> str:
    """Write the keys of a group; midnight and its day are one."""
    return repr([datetime(k.year, k.month, k.day) if type(k) is date else k for k in keys])


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    made = Mixed(tmp_path_factory.mktemp("mixed"), seed=20261128)
    yield made
    made.close()


CONSTRUCTS = (
    *("NULL", "outside", "bound", "existence", "AT TIME ZONE", "offset"),
    *("LEFT public", "public LEFT", "public", "EXISTS", "IN", "up", *TABLES),
)


def test_a_removal_moves_what_the_plan_says(mixed: Mixed) -> None:
    tally = mixed.run(120)
    assert tally.compared > 0.8 * tally.statements


@pytest.mark.slow
def test_campaign(tmp_path: Path) -> None:
    """`DPSQL_REMOVALS` of all statements together; `DPSQL_SEED` repeats a campaign that failed."""
    seed = int(os.environ.get("DPSQL_SEED", Random().randrange(2**32)))
    print(seed, flush=True)
    mixed = Mixed(tmp_path, seed)
    try:
        tally = mixed.run(int(os.environ.get("DPSQL_REMOVALS", "100000")))
    finally:
        mixed.close()
    print(tally, flush=True)
    assert not {*CONSTRUCTS} - {*tally.removed}, "a construct was not met"
    assert tally.compared > 0.8 * tally.statements


MUTANTS = {
    "NULL is no candidate": (
        (
            "analysis.key_candidates",
            "_Finder._add_null_of_key",
            "made = add_null(values)",
            "made = values.without_null()",
        ),
        lambda one: "t.x > 1 AS g0" in one.tight and one.keys == 2,
    ),
    "NULL of a column is no candidate": (
        ("analysis.key_candidates", "_Finder._add_null", "else add_null(base)", "else base.without_null()"),
        lambda one: " t.k AS g0" in one.tight and one.keys == 2,
    ),
    "the rows in no group are none of the groups that noise is for": (
        (
            "analysis.passes",
            "count_rows_outside",
            "draft.size += 1",
            "pass",
        ),
        lambda one: "nullif(t.k, 'a') AS g0, COUNT(DISTINCT" in one.claim and "max_" not in one.claim,
    ),
    "a unit is kept to its groups by their keys alone": (
        (
            "analysis.counting_query",
            "CountedGroups.build_query",
            "rows if self.most is None else rows.bound_groups(self.most, ())",
            "rows if self.most is None else rows.bound_groups(self.most, (), range(rows.keys - 1))",
        ),
        lambda one: "max_groups_contributed = 1" in one.tight and " t.k AS g0" in one.tight and one.keys == 2,
    ),
    "the first hop alone": (
        (
            "analysis.from_tables",
            "_find_owners",
            "return Select(listed, _join_owners(parent.unit, source, above), group=(key,)), sql_type",
            'return Select((Item(key, "k"), Item(tree.Column("p", parent.unit.via, stored=True), "u")), '
            "source), sql_type",
        ),
        lambda one: "notes" in one.saw or "results" in one.saw,
    ),
    "an offset the other way": (
        ("analysis.conversions", "convert_to_instant", 'if offset[1] == "-"', 'if offset[1] == "+"'),
        lambda one: "offset" in one.saw,
    ),
    "a zone the other way": (
        ("analysis.syntax_rules", "_choose_offset", "Moved(value, offset)", "Moved(value, -offset)"),
        lambda one: "AT TIME ZONE" in one.saw,
    ),
    "a change of the clocks one step later": (
        (
            "analysis.syntax_rules",
            "_choose_offset",
            'Binary("<", value, change)',
            'Binary("<=", value, change)',
        ),
        lambda one: "'Europe/Berlin'" in one.tight,
    ),
    "texts without their offsets": (
        (
            "engines.duckdb.table_readers",
            "_write_cell",
            "TRY_CAST({cell} AS TIMESTAMPTZ)",
            "TRY_CAST({cell}[:26] AS TIMESTAMPTZ)",
        ),
        lambda one: " notes t" in one.plain and "t.seen" in one.plain.split(" FROM ")[0],
    ),
}


@pytest.mark.parametrize("name", daily(MUTANTS, 1))
def test_a_wrong_rule_is_noticed(mixed: Mixed, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    edit, wanted = MUTANTS[name]
    Mutant(name, (edit,)).apply(monkeypatch)
    with pytest.raises(AssertionError):
        mixed.run(20_000, wanted)
