"""Statements of which the kernel proves the parts: without a unit of another part they count the same.

Statements go through each way in which rows of units are joined and passed on, and what is not owned row by
row: groups, values, public rows that private ones keep. Each of their releases counts random small databases
with and without each unit that lies in none of its parts. Wrong rules of the kernel's checker let through
statements that then count something else.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from dpsql.analysis import part_guards
from dpsql.analysis.part_conditions import PartConditions
from dpsql.composition.prepared import PreparedComposed, PreparedPrivate
from dpsql.errors import QueryRefused
from dpsql.kernel.check import part_sets, queries, row_subqueries, sources
from dpsql.kernel.check.certificate import NONE, Kind, Relation
from dpsql.kernel.check.derive import unwrap
from dpsql.kernel.check.proof import reads_of
from dpsql.kernel.tree import Binary, Case, Not
from dpsql.kernel.unit_parts import NO_HOME, NULL_PART, Calendar, PartSet
from dpsql.session import Session
from tests.narrow import engine_of
from tests.support.world import open_world

STATEMENTS = 3_000 if os.environ.get("DPSQL_PARTS") else 70
UNITS, DATABASES = 9, 3
WEEKS = Calendar("week")
MONDAY = date(2026, 1, 5)
POLICY = """
[budget]
epsilon = 1
delta = 1e-6
default_epsilon = 1
[parts.user]
table = "signups"
column = "signed_up"
every = "week"
until = UNTIL
moves = "trusted"
[tables.signups]
source = "signups.parquet"
unit = "user_id"
unit_kind = "user"
unique = [["user_id"]]
rows_per_unit = 40
domain.land = ["a", "b"]
[tables.visits]
source = "visits.parquet"
unit = "user_id"
unit_kind = "user"
rows_per_unit = 40
[tables.zones]
source = "zones.parquet"
public = true
"""
SIGNUPS = "user_id BIGINT, signed_up DATE, land VARCHAR"
VISITS = "user_id BIGINT, x BIGINT, signed_up DATE"
ZONES = "land VARCHAR, signed_up DATE"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    for name, columns in (("signups", SIGNUPS), ("visits", VISITS), ("zones", ZONES)):
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE t ({columns})")
            connection.execute(f"COPY t TO '{tmp_path / name}.parquet' (FORMAT parquet)")
    with open_world(tmp_path, POLICY.replace("UNTIL", "false")) as opened:
        yield opened


@dataclass(frozen=True)
class World:
    """A database, and the part of each unit."""

    connection: duckdb.DuckDBPyConnection
    parts: dict[int, int]

    def count(self, sql: str, without: Iterable[int] = ()) -> list[tuple[Any, ...]]:
        self.connection.execute(f"SET VARIABLE gone = {[*without]}::BIGINT[]")
        return sorted(self.connection.execute(sql).fetchall(), key=repr)


def world(random: Random, session: Session, units: int = UNITS) -> World:
    """Return rows of so many units, with as many lands as three of them share."""
    lands = ["a", "b", *(f"c{each}" for each in range(units // 3 - 3))]
    connection = duckdb.connect()
    engine_of(session).schema_database.domains.create(connection)
    for name, columns in (("signups", SIGNUPS), ("visits", VISITS)):
        connection.execute(f"CREATE TABLE {name}_all ({columns})")
        connection.execute(
            f"CREATE VIEW {name} AS SELECT * FROM {name}_all"
            " WHERE NOT coalesce(list_contains(getvariable('gone'), user_id), FALSE)"
        )
    connection.execute(f"CREATE TABLE zones ({ZONES})")
    parts = {}
    for unit in range(units):
        parts[unit] = NO_HOME
        if random.random() < 0.85:
            day = None if random.random() < 0.15 else MONDAY + timedelta(days=random.randrange(21))
            parts[unit] = NULL_PART if day is None else WEEKS.number(day)
            row = (unit, day, random.choice([*lands, None]))
            connection.execute("INSERT INTO signups_all VALUES (?, ?, ?)", row)
        for _ in range(random.randrange(4)):
            at = MONDAY + timedelta(days=random.randrange(21))
            connection.execute("INSERT INTO visits_all VALUES (?, ?, ?)", (unit, random.randrange(3), at))
    for land in lands:
        connection.execute(
            "INSERT INTO zones VALUES (?, ?)", (land, MONDAY + timedelta(days=random.randrange(21)))
        )
    connection.execute("INSERT INTO visits_all VALUES (NULL, 1, ?)", (MONDAY,))
    return World(connection, parts)


def week(random: Random) -> str:
    return f"DATE '{MONDAY + timedelta(days=7 * random.randrange(3))}'"


def condition(random: Random, alias: str) -> str:
    """Return a condition on the week of the alias, mixed with others."""
    column = f"{alias}.signed_up"
    leaves = [
        f"{column} >= {week(random)}",
        f"{column} < {week(random)}",
        f"date_trunc('week', {column}) = {week(random)}",
        f"date_trunc('month', {column}) = DATE '2026-01-01'",
        f"{column} BETWEEN {week(random)} AND {week(random)}",
        f"{column} IS NULL",
        f"{column} IS NOT NULL",
        f"{column} IN ({week(random)}, {week(random)})",
        f"{column} <> {week(random)}",
        f"year({column}) = 2026",
    ]
    if alias in ("s", "r"):
        leaves += [f"{alias}.land = 'a'", f"{alias}.land IS NULL"]
    made = random.choice(leaves)
    for _ in range(random.randrange(3)):
        other = random.choice(leaves)
        made = random.choice([f"({made} AND {other})", f"({made} OR {other})", f"NOT ({made})", made])
    return made


Written = Callable[[Random], str]


def rows(text: str) -> Written:
    """Count rows: `{s}`, `{r}`, .. stand for conditions on the week of an alias, `{home}` for some units."""

    def write(random: Random) -> str:
        filled = fill(text, random)
        counts = "COUNT(*)"
        if " s " in f"{filled} " and "land" in filled and random.random() < 0.3:
            counts += ", COUNT(*) FILTER (WHERE s.land = 'a')"
        return f"SELECT {counts} {filled}"

    return write


def whole(text: str) -> Written:
    """Ask a whole statement with such conditions."""
    return lambda random: fill(text, random)


def fill(text: str, random: Random) -> str:
    text = text.replace("{home}", f"(SELECT * FROM signups s WHERE {condition(random, 's')})")
    return text.format(**{alias: condition(random, alias) for alias in "srvzhg"})


_JOINED = "FROM visits v JOIN signups s ON v.user_id = s.user_id WHERE {s}"
WAYS: dict[str, list[Written]] = {
    "home table": [rows("FROM signups s WHERE {s}")],
    "another private table": [rows("FROM visits v WHERE {v}")],
    "HAVING": [
        rows(
            "FROM (SELECT h.user_id, h.signed_up, COUNT(*) AS n FROM visits v JOIN signups h"
            " ON v.user_id = h.user_id GROUP BY 1, 2 HAVING {h} AND COUNT(*) > 1) g"
        )
    ],
    "QUALIFY": [
        rows(
            "FROM (SELECT user_id, signed_up FROM signups s"
            " QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY signed_up) = 1 AND {s}) q"
        )
    ],
    "INNER JOIN": [
        rows("FROM visits v JOIN signups s USING (user_id) WHERE {s}"),
        rows("FROM visits v JOIN signups s ON v.user_id = s.user_id AND {s}"),
    ],
    "LEFT JOIN": [
        rows("FROM visits v LEFT JOIN signups s ON v.user_id = s.user_id AND {s}"),
        rows("FROM visits v LEFT JOIN signups s ON v.user_id = s.user_id WHERE {s}"),
        rows("FROM visits v LEFT JOIN signups s ON v.user_id = s.user_id WHERE s.signed_up IS NULL"),
        rows("FROM signups s LEFT JOIN visits v ON v.user_id = s.user_id WHERE {s}"),
    ],
    "RIGHT JOIN": [
        rows("FROM visits v RIGHT JOIN signups s ON v.user_id = s.user_id WHERE {s}"),
        rows("FROM signups s RIGHT JOIN visits v ON v.user_id = s.user_id WHERE {s}"),
    ],
    "FULL JOIN": [
        rows("FROM visits v FULL JOIN signups s ON v.user_id = s.user_id WHERE {s}"),
        rows("FROM {home} a FULL JOIN (SELECT * FROM signups r WHERE {r}) b ON a.user_id = b.user_id"),
        rows(
            "FROM (SELECT COALESCE(a.user_id, b.user_id) AS user_id, COALESCE(a.signed_up, b.signed_up)"
            " AS signed_up FROM {home} a FULL JOIN (SELECT * FROM signups r WHERE {r}) b"
            " ON a.user_id = b.user_id) g WHERE {g}"
        ),
    ],
    "IN, EXISTS, SEMI JOIN": [
        rows("FROM visits v WHERE user_id IN (SELECT user_id FROM {home} q)"),
        rows("FROM visits v WHERE x = 1 OR user_id IN (SELECT user_id FROM {home} q)"),
        rows("FROM visits v WHERE EXISTS (SELECT 1 FROM signups s WHERE s.user_id = v.user_id AND {s})"),
        rows("FROM signups s SEMI JOIN visits v ON s.user_id = v.user_id WHERE {s}"),
        rows("FROM visits v SEMI JOIN {home} q ON q.user_id = v.user_id"),
    ],
    "NOT IN, NOT EXISTS, ANTI JOIN": [
        rows("FROM visits v WHERE user_id NOT IN (SELECT user_id FROM {home} q)"),
        rows("FROM visits v WHERE NOT EXISTS (SELECT 1 FROM signups s WHERE s.user_id = v.user_id AND {s})"),
        rows("FROM visits v ANTI JOIN {home} q ON q.user_id = v.user_id"),
        rows("FROM signups h ANTI JOIN {home} q ON q.user_id = h.user_id WHERE {h}"),
    ],
    "UNION, INTERSECT, EXCEPT": [
        rows(
            "FROM (SELECT user_id, signed_up FROM {home} q UNION ALL SELECT user_id, signed_up FROM visits) s"
        ),
        rows(
            "FROM (SELECT user_id, signed_up, land FROM {home} q UNION"
            " SELECT user_id, signed_up, land FROM signups r WHERE {r}) s WHERE {s}"
        ),
        rows(
            "FROM (SELECT user_id, signed_up, land FROM {home} q UNION ALL"
            " SELECT user_id, signed_up, land FROM signups r WHERE {r}) s WHERE {s}"
        ),
        rows(
            "FROM (SELECT user_id, signed_up FROM {home} q INTERSECT SELECT user_id, signed_up FROM visits) s"
        ),
        rows(
            "FROM (SELECT user_id, signed_up, land FROM signups"
            " EXCEPT SELECT user_id, signed_up, land FROM {home} q) s"
        ),
        rows(
            "FROM (SELECT user_id, signed_up, land FROM {home} q EXCEPT"
            " SELECT user_id, signed_up, land FROM signups r WHERE {r}) s WHERE {s}"
        ),
    ],
    "GROUP BY with the unit, DISTINCT, windows": [
        rows(
            "FROM (SELECT user_id, signed_up, COUNT(*) AS n FROM visits JOIN signups USING (user_id)"
            " GROUP BY 1, 2) v WHERE {v} AND n > 1"
        ),
        rows("FROM (SELECT user_id, MIN(signed_up) AS signed_up FROM visits GROUP BY 1) v WHERE {v}"),
        rows(
            "FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY x, v.signed_up) AS n"
            " FROM visits v) v JOIN signups s USING (user_id) WHERE n = 1 AND {s}"
        ),
        rows(
            "FROM (SELECT DISTINCT user_id, signed_up FROM (SELECT user_id, x FROM visits) w"
            " JOIN signups USING (user_id)) v WHERE {v}"
        ),
        rows(
            "FROM (SELECT user_id, CASE WHEN land = 'a' THEN signed_up END AS signed_up FROM signups) v"
            " WHERE {v}"
        ),
    ],
    "public tables": [
        rows("FROM signups s JOIN zones z ON s.land = z.land WHERE {z}"),
        rows("FROM signups s LEFT JOIN zones z ON s.land = z.land AND {s}"),
        rows("FROM zones z LEFT JOIN signups s ON s.land = z.land WHERE {s}"),
    ],
    "groups, top-k, thresholds": [
        whole("SELECT land, COUNT(*) AS n FROM signups s WHERE {s} GROUP BY land"),
        whole("SELECT land, COUNT(*) AS n FROM signups s WHERE {s} GROUP BY land ORDER BY n DESC LIMIT 1"),
        whole("SELECT land, COUNT(*) AS n FROM signups s WHERE {s} GROUP BY land HAVING COUNT(*) > 2"),
        whole(f"SELECT x, COUNT(*) AS n {_JOINED} GROUP BY x ORDER BY n DESC LIMIT 2"),
    ],
    "FILTER": [
        whole(
            "SELECT COUNT(*) FILTER (WHERE {s}), COUNT(*)"
            " FROM visits v JOIN signups s ON v.user_id = s.user_id"
        ),
        whole("SELECT land, COUNT(*) FILTER (WHERE {s}), COUNT(*) FROM signups s GROUP BY land"),
    ],
    "other numbers": [
        whole(f"SELECT COUNT(DISTINCT v.user_id), AVG(v.x) {_JOINED}"),
        whole(f"SELECT SUM(x, contribution_bounds_per_row => (0, 3)) {_JOINED}"),
        whole(f"SELECT SUM(x) {_JOINED}"),
        whole(f"SELECT MEDIAN(x, contribution_bounds_per_row => (0, 3)) {_JOINED}"),
        whole("SELECT COUNT(DISTINCT land) FROM signups s WHERE {s}"),
    ],
    "groups and values that are counted": [
        rows(
            "FROM (SELECT land, COUNT(*) AS n FROM signups s WHERE {s} GROUP BY land HAVING COUNT(*) > 1) g"
        ),
        rows("FROM (SELECT DISTINCT land FROM signups s WHERE {s}) g"),
        rows("FROM (SELECT land FROM signups s WHERE {s} INTERSECT SELECT land FROM zones) g"),
        rows("FROM (SELECT land FROM zones EXCEPT SELECT land FROM signups s WHERE {s}) g"),
        rows("FROM (SELECT land FROM signups s WHERE {s} UNION SELECT land FROM signups r WHERE {r}) g"),
        rows("FROM (SELECT land FROM signups s WHERE {s} EXCEPT SELECT land FROM signups r WHERE {r}) g"),
    ],
    "public rows that private ones keep": [
        rows("FROM zones z WHERE EXISTS (SELECT 1 FROM signups s WHERE s.land = z.land AND {s})"),
        rows("FROM zones z WHERE NOT EXISTS (SELECT 1 FROM signups s WHERE s.land = z.land AND {s})"),
        rows("FROM zones z WHERE land IN (SELECT land FROM signups s WHERE {s})"),
        rows("FROM zones z WHERE land NOT IN (SELECT land FROM signups s WHERE land IS NOT NULL AND {s})"),
        rows("FROM zones z ANTI JOIN {home} q ON q.land = z.land"),
    ],
}
"""How rows of units are passed on, by the rows of the rules: statements that go each way."""


def statement(random: Random, ways: Sequence[str]) -> tuple[str, str]:
    """Return a statement by one of some ways in which rows of units are joined and passed on, and the way."""
    way = random.choice(ways)
    return way, random.choice(WAYS[way])(random)


@dataclass(frozen=True)
class Counted:
    """What a release of a statement counts, and the parts that it is charged to; None: all."""

    way: str
    text: str
    queries: tuple[str, ...]
    parts: PartSet | None


def counted(session: Session, random: Random, number: int, ways: Sequence[str] = ()) -> Iterator[Counted]:
    """Yield the releases of so many statements that are accepted, of some ways or of all."""
    while number:
        way, text = statement(random, ways or tuple(WAYS))
        try:
            prepared = session.prepare(text)
        except QueryRefused:
            continue
        if not isinstance(prepared, PreparedPrivate | PreparedComposed):
            continue
        number -= 1
        for part in prepared.parts:
            searches = (search.compiled.sql for search in part.plan.ladders)
            yield Counted(way, text, (part.counting.sql, *searches), part.plan.unit_parts)


@dataclass
class Tally:
    """Statements that units of other parts change, those with few parts, and the units removed, by way."""

    found: list[str] = field(default_factory=list)
    narrow: int = 0
    removals: Counter[str] = field(default_factory=Counter)
    counts: int = 0


Sets = Callable[[list[int]], list[list[int]]]
"""Which of the units of other parts are removed together."""


def one_by_one(others: list[int]) -> list[list[int]]:
    return [[unit] for unit in others]


def remove(worlds: list[World], each: Counted, tally: Tally, sets: Sets = one_by_one) -> None:
    """Count without units of other parts."""
    if each.parts is None:
        return
    tally.narrow += 1
    for database in worlds:
        gone = sets([unit for unit, part in database.parts.items() if part not in each.parts])
        tally.removals[each.way] += sum(map(len, gone))
        tally.counts += len(gone) * len(each.queries)
        for sql in each.queries:
            all_rows = database.count(sql)
            if any(database.count(sql, units) != all_rows for units in gone):
                tally.found.append(f"{each.text}: {WEEKS.words(each.parts)}")
                return


def violations(session: Session, seed: int, number: int, ways: Sequence[str] = ()) -> tuple[list[str], int]:
    """Return the statements that a unit of another part changes, and how many have fewer parts than all."""
    random, tally = Random(seed), Tally()
    worlds = [world(random, session) for _ in range(DATABASES)]
    for each in counted(session, random, number, ways):
        remove(worlds, each, tally)
    return tally.found, tally.narrow


def test_no_unit_of_another_part_changes_a_count(session: Session) -> None:
    found, narrow = violations(session, 1, STATEMENTS)
    assert found == []
    assert narrow > 0.4 * STATEMENTS


def without_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    right = part_guards._Guards._narrow
    monkeypatch.setattr(part_guards._Guards, "_narrow", lambda *of: (right(*of)[0], None))


def of_one_week(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the guards keep one week of those that a condition can be true for."""
    right = PartConditions.follow

    def too_narrow(rule: PartConditions, expr: Any) -> Any:
        found = right(rule, expr)
        return type(found)(found.true & PartSet.of((0, WEEKS.number(MONDAY))), found.false, found.null)

    monkeypatch.setattr(PartConditions, "follow", too_narrow)


GUARDS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "as they are": lambda monkeypatch: None,
    "none": without_guards,
    "too narrow": of_one_week,
}


@pytest.mark.slow
@pytest.mark.parametrize("guards", GUARDS)
def test_campaign(session: Session, guards: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`DPSQL_REMOVALS` with guards as they are, without them, too narrow; `DPSQL_SEED` repeats one.

    Units are removed alone, and several at once: if no removal changes a count, none does after another.
    """
    GUARDS[guards](monkeypatch)
    wanted = int(os.environ.get("DPSQL_REMOVALS", "100000"))
    seed = int(os.environ.get("DPSQL_SEED", Random().randrange(2**32)))
    print(seed, flush=True)
    random, tally = Random(seed), Tally()

    def some(others: list[int]) -> list[list[int]]:
        sizes = [size for size in (len(others[:1]), len(others) // 3, len(others)) if size]
        return [random.sample(others, size) for size in sizes]

    while tally.removals.total() < wanted and not tally.found:
        worlds = [world(random, session, units) for units in (UNITS, 30, 150)]
        for each in counted(session, random, 80):
            remove(worlds, each, tally, some)
    print(f"guards {guards}: {tally.removals.total()} removals in {tally.counts} counts", tally.removals)
    assert tally.found == []
    reached = {way for way, number in tally.removals.items() if number}
    assert reached == {*WAYS} - {"another private table"} or wanted < 10_000


def changed_by_guards(session: Session, number: int) -> list[str]:
    """Return the statements over rows of units that count something else than their own SQL does.

    A unit has few rows, so none of them is weighted down.
    """
    random, found = Random(2), list[str]()
    worlds = [world(random, session) for _ in range(DATABASES)]
    for each in counted(session, random, number):
        if each.way not in OF_RELEASES and any(
            database.count(each.queries[0]) != database.count(owned(each.text)) for database in worlds
        ):
            found.append(each.text)
    return found


OF_RELEASES = (
    "groups, top-k, thresholds",
    "FILTER",
    "other numbers",
    "groups and values that are counted",
    "public rows that private ones keep",
)
"""Ways of statements that are computed from what is released."""


def test_guards_change_no_answer(session: Session) -> None:
    assert changed_by_guards(session, STATEMENTS) == []


def owned(text: str) -> str:
    """Return a statement over rows that have a unit, as the compiled ones read them."""
    for table in ("visits", "signups"):
        text = text.replace(
            f"FROM {table}", f"FROM (SELECT * FROM {table} WHERE user_id IS NOT NULL) {table}"
        )
        text = text.replace(
            f"JOIN {table}", f"JOIN (SELECT * FROM {table} WHERE user_id IS NOT NULL) {table}"
        )
    for table, alias in itertools.product(("visits", "signups"), "vsrh"):
        text = text.replace(f"NOT NULL) {table} {alias}", f"NOT NULL) {alias}")
    return text


# --- wrong rules ------------------------------------------------------------------------------------------

Joined = Callable[..., Relation]


def joined_as(kind: str, other: str) -> Joined:
    """Return the rule of joins, with one kind of join taken for another one."""
    right = part_sets.parts_of_join
    return lambda proof, a, found, b, *rest: right(proof, a, other if found == kind else found, b, *rest)


def full_of_one_side(proof: object, a: Relation, kind: str, b: Relation | None, *rest: Any) -> Relation:
    made = part_sets.parts_of_join(proof, a, kind, b, *rest)  # type: ignore[arg-type]
    return made._replace(parts=a.parts) if kind == "FULL" else made


def padded_is_home(proof: object, a: Relation, kind: str, b: Relation | None, *rest: Any) -> Relation:
    made = part_sets.parts_of_join(proof, a, kind, b, *rest)  # type: ignore[arg-type]
    return made._replace(home=made.home | made.padded, padded=NONE)


def on_narrows_always(
    proof: Any, a: Relation, kind: str, b: Relation | None, conditions: Any, made: Any
) -> Relation:
    made = part_sets.parts_of_join(proof, a, kind, b, conditions, made)
    if kind == "LEFT" and b is not None:
        made = part_sets.narrow_parts(proof, made, conditions)
    return made


def union_of_the_left(word: str, a: Relation, b: Relation, *, same: bool) -> Any:
    parts, home, padded = part_sets.parts_of_operation(word, a, b, same=same)
    return (a.parts if word.startswith("UNION") else parts), home, padded


def except_of_the_rest(word: str, a: Relation, b: Relation, *, same: bool) -> Any:
    return part_sets.parts_of_operation("INTERSECT" if word.startswith("EXCEPT") else word, a, b, same=same)


def every_date_is_home(proof: Any, relation: Relation, table: str, alias: str) -> Relation:
    """Any column of the name is the date of the unit, in whatever table."""
    home = proof.facts.home
    column = frozenset({f"{alias}.{home.column}"} & {*relation.columns})
    return relation._replace(parts=PartSet.of((0, NO_HOME)), home=column)


def or_reads_the_left(condition: Any, relation: Relation, home: Any) -> PartSet:
    node = unwrap(condition)
    if isinstance(node, Binary) and node.operator == "OR":
        return or_reads_the_left(node.left, relation, home)
    return _POSSIBLE(condition, relation, home)


def nulls_have_no_week(operand: Any, relation: Relation, *, negated: bool) -> PartSet:
    """`IS NULL` is taken for its negation."""
    return _NULL(operand, relation, negated=not negated)


def any_subquery_is_a_condition(expr: Any) -> list[Any]:
    """What is negated, or one side of OR, is taken for a condition that holds."""
    node = unwrap(expr)
    if isinstance(node, Binary) and node.operator in ("AND", "OR"):
        return any_subquery_is_a_condition(node.left) + any_subquery_is_a_condition(node.right)
    return any_subquery_is_a_condition(node.operand) if isinstance(node, Not) else [node]


def cases_are_columns(query: Any, names: tuple[str, ...]) -> dict[str, str]:
    """A column that CASE reads is taken for the one that is passed on."""
    found = _PLACES(query, names)
    for name, item in zip(names, query.items, strict=True):
        for each in reads_of(item.expr) if isinstance(unwrap(item.expr), Case) else ():
            found.setdefault(each, name)
    return found


def public_dates_are_home(proof: Any, scan: Any) -> Relation:
    """A date of a public table is taken for that of a unit."""
    made = _SCAN(proof, scan)
    dates = frozenset(each for each in made.columns if each.endswith(".signed_up"))
    return made._replace(home=dates) if made.kind is Kind.PUBLIC else made


def public_rows_tell_dates(proof: Any, a: Relation, kind: str, b: Relation, conditions: Any) -> Relation:
    made = _JOIN_PUBLIC(proof, a._replace(home=a.home | b.home), kind, b, conditions)
    return part_sets.narrow_parts(proof, made._replace(home=made.home | b.home), conditions)


def filters_narrow(proof: Any, query: Any, source: Relation) -> Relation:
    """A condition of one number, which is an item of the SELECT below, is taken for one of all rows."""
    made = _WHERE(proof, query, source)
    asked = [item.expr for item in query.items if isinstance(unwrap(item.expr), Binary)]
    return part_sets.narrow_parts(proof, made, asked)


_WHERE = queries._relation_of_where
_PLACES, _SCAN, _JOIN_PUBLIC = queries._places, sources._scan, sources._join_public
_POSSIBLE, _NULL = part_sets._possible, part_sets._null

_SUBQUERIES = ("IN, EXISTS, SEMI JOIN", "NOT IN, NOT EXISTS, ANTI JOIN")

WRONG: dict[str, tuple[Sequence[str], list[tuple[object, str, object]]]] = {
    "LEFT JOIN reads what both sides do": (
        ("LEFT JOIN",),
        [(sources, "parts_of_join", joined_as("LEFT", "INNER"))],
    ),
    "RIGHT JOIN reads what the left side does": (
        ("RIGHT JOIN",),
        [(sources, "parts_of_join", joined_as("RIGHT", "LEFT"))],
    ),
    "ANTI JOIN reads what SEMI JOIN does": (
        _SUBQUERIES[1:],
        [(sources, "parts_of_join", joined_as("ANTI", "SEMI"))],
    ),
    "FULL JOIN reads what its left side does": (
        ("FULL JOIN",),
        [(sources, "parts_of_join", full_of_one_side)],
    ),
    "IS NULL of a padded column is the part of NULL": (
        ("LEFT JOIN", "RIGHT JOIN"),
        [(sources, "parts_of_join", padded_is_home)],
    ),
    "ON of a LEFT JOIN narrows": (("LEFT JOIN",), [(sources, "parts_of_join", on_narrows_always)]),
    "UNION reads what its left side does": (
        ("UNION, INTERSECT, EXCEPT",),
        [(queries, "parts_of_operation", union_of_the_left)],
    ),
    "EXCEPT reads what both sides do": (
        ("UNION, INTERSECT, EXCEPT",),
        [(queries, "parts_of_operation", except_of_the_rest)],
    ),
    "OR reads what its left side does": (
        ("home table", "INNER JOIN"),
        [(part_sets, "_possible", or_reads_the_left)],
    ),
    "IS NULL is true of dates": (("home table",), [(part_sets, "_null", nulls_have_no_week)]),
    "NOT IN and OR read what IN does": (
        _SUBQUERIES,
        [(row_subqueries, "conjuncts", any_subquery_is_a_condition)],
    ),
    "a date of a public table is the unit's": (
        ("public tables",),
        [(sources, "_scan", public_dates_are_home), (sources, "_join_public", public_rows_tell_dates)],
    ),
    "FILTER of one number narrows": (("FILTER",), [(queries, "_relation_of_where", filters_narrow)]),
    "a date of the same name is the unit's": (
        ("another private table", "INNER JOIN"),
        [(sources, "relation_at_home", every_date_is_home)],
    ),
}
"""Wrong rules, with the ways in which rows go through them."""


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_found(session: Session, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ways, changes = WRONG[name]
    for where, what, wrong in changes:
        monkeypatch.setattr(where, what, wrong)
    for seed in range(1, 40):
        if violations(session, seed, 10, ways)[0]:
            return
    pytest.fail(f"nothing shows that it is wrong: {name}")


def test_a_computed_date_is_not_that_of_the_unit(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "_places", cases_are_columns)
    text = (
        "SELECT COUNT(*) FROM (SELECT user_id, CASE WHEN land = 'a' THEN signed_up END AS d FROM signups) v"
        " WHERE d IS NULL"
    )
    monkeypatch.setitem(globals(), "statement", lambda *of: ("home table", text))
    assert any(violations(session, seed, 1)[0] for seed in range(5))


def test_a_guard_that_is_too_narrow_gives_a_wrong_answer_and_no_loss(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel believes the guards alone: what is not counted is not charged."""
    of_one_week(monkeypatch)
    found, narrow = violations(session, 4, 60)
    assert (found, narrow > 20) == ([], True)
    assert changed_by_guards(session, 60) != []


def test_without_guards_less_is_proved_and_nothing_wrong(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_guards(monkeypatch)
    assert violations(session, 5, 60)[0] == []
