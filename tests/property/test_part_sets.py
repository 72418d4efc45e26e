"""Statements of which the kernel proves the parts: without a unit of another part they count the same.

Statements go through each way in which rows of units are joined and passed on. Each counts random small
databases with and without each unit that lies in none of its parts. Wrong rules of the kernel's checker let
through statements that then count something else.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from dpsql.analysis import part_guards
from dpsql.analysis.part_conditions import PartConditions
from dpsql.kernel.check import part_sets, queries, row_subqueries, sources
from dpsql.kernel.check.certificate import NONE, Kind, Relation
from dpsql.kernel.check.derive import unwrap
from dpsql.kernel.check.proof import reads_of
from dpsql.kernel.tree import Binary, Case, Not
from dpsql.kernel.unit_parts import NO_HOME, NULL_PART, Calendar, PartSet
from dpsql.policy import load
from dpsql.session import Session
from tests.support.world import accepted

STATEMENTS = 3_000 if os.environ.get("DPSQL_PARTS") else 70
UNITS, DATABASES = range(9), 3
WEEKS = Calendar("week")
MONDAY = date(2026, 1, 5)
POLICY = """
[budget]
epsilon = 1
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
    (tmp_path / "dpsql.toml").write_text(POLICY.replace("UNTIL", "false"))
    opened = Session(load(tmp_path / "dpsql.toml"))
    yield opened
    opened.close()


@dataclass(frozen=True)
class World:
    """A database, and the part of each unit."""

    connection: duckdb.DuckDBPyConnection
    parts: dict[int, int]

    def count(self, sql: str, without: int = -1) -> list[tuple[Any, ...]]:
        self.connection.execute(f"SET VARIABLE gone = {without}")
        return sorted(self.connection.execute(sql).fetchall(), key=repr)


def world(random: Random) -> World:
    connection = duckdb.connect()
    for name, columns in (("signups", SIGNUPS), ("visits", VISITS)):
        connection.execute(f"CREATE TABLE {name}_all ({columns})")
        connection.execute(
            f"CREATE VIEW {name} AS SELECT * FROM {name}_all"
            " WHERE user_id IS DISTINCT FROM getvariable('gone')"
        )
    connection.execute(f"CREATE TABLE zones ({ZONES})")
    parts = {}
    for unit in UNITS:
        parts[unit] = NO_HOME
        if random.random() < 0.85:
            day = None if random.random() < 0.15 else MONDAY + timedelta(days=random.randrange(21))
            parts[unit] = NULL_PART if day is None else WEEKS.number(day)
            row = (unit, day, random.choice(["a", "b", None]))
            connection.execute("INSERT INTO signups_all VALUES (?, ?, ?)", row)
        for _ in range(random.randrange(4)):
            at = MONDAY + timedelta(days=random.randrange(21))
            connection.execute("INSERT INTO visits_all VALUES (?, ?, ?)", (unit, random.randrange(3), at))
    for land in ("a", "b"):
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


def statement(random: Random) -> str:
    """Return a statement by one of the ways in which rows of units are joined and passed on."""
    where, other = condition(random, "s"), condition(random, "r")
    home = f"(SELECT * FROM signups s WHERE {where})"
    ways: list[str] = [
        f"FROM signups s WHERE {where}",
        f"FROM visits v JOIN signups s USING (user_id) WHERE {where}",
        f"FROM visits v JOIN signups s ON v.user_id = s.user_id AND {where}",
        f"FROM visits v LEFT JOIN signups s ON v.user_id = s.user_id AND {where}",
        f"FROM visits v LEFT JOIN signups s ON v.user_id = s.user_id WHERE {where}",
        f"FROM signups s LEFT JOIN visits v ON v.user_id = s.user_id WHERE {where}",
        f"FROM visits v RIGHT JOIN signups s ON v.user_id = s.user_id WHERE {where}",
        f"FROM signups s RIGHT JOIN visits v ON v.user_id = s.user_id WHERE {where}",
        f"FROM visits v FULL JOIN signups s ON v.user_id = s.user_id WHERE {where}",
        f"FROM {home} a FULL JOIN (SELECT * FROM signups r WHERE {other}) b ON a.user_id = b.user_id",
        f"FROM visits v WHERE user_id IN (SELECT user_id FROM {home} q)",
        f"FROM visits v WHERE user_id NOT IN (SELECT user_id FROM {home} q)",
        f"FROM visits v WHERE x = 1 OR user_id IN (SELECT user_id FROM {home} q)",
        f"FROM visits v WHERE EXISTS (SELECT 1 FROM signups s WHERE s.user_id = v.user_id AND {where})",
        f"FROM visits v WHERE NOT EXISTS (SELECT 1 FROM signups s WHERE s.user_id = v.user_id AND {where})",
        f"FROM signups s SEMI JOIN visits v ON s.user_id = v.user_id WHERE {where}",
        f"FROM visits v SEMI JOIN {home} q ON q.user_id = v.user_id",
        f"FROM visits v ANTI JOIN {home} q ON q.user_id = v.user_id",
        f"FROM (SELECT user_id, signed_up FROM {home} q UNION ALL SELECT user_id, signed_up FROM visits) s",
        f"FROM (SELECT user_id, signed_up, land FROM {home} q UNION ALL"
        f" SELECT user_id, signed_up, land FROM signups r WHERE {other}) s WHERE {where}",
        f"FROM (SELECT user_id, signed_up FROM {home} q INTERSECT SELECT user_id, signed_up FROM visits) s",
        "FROM (SELECT user_id, signed_up, land FROM signups"
        f" EXCEPT SELECT user_id, signed_up, land FROM {home} q) s",
        f"FROM (SELECT user_id, signed_up, land FROM {home} q EXCEPT"
        f" SELECT user_id, signed_up, land FROM signups r WHERE {other}) s WHERE {where}",
        f"FROM (SELECT user_id, signed_up, COUNT(*) AS n FROM visits JOIN signups USING (user_id)"
        f" GROUP BY ALL) v WHERE {condition(random, 'v')} AND n > 1".replace("GROUP BY ALL", "GROUP BY 1, 2"),
        "FROM (SELECT user_id, MIN(signed_up) AS signed_up FROM visits GROUP BY 1) v"
        f" WHERE {condition(random, 'v')}",
        "FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY x, v.signed_up) AS n"
        " FROM visits v) v"
        f" JOIN signups s USING (user_id) WHERE n = 1 AND {where}",
        f"FROM visits v WHERE {condition(random, 'v')}",
        f"FROM signups s JOIN zones z ON s.land = z.land WHERE {condition(random, 'z')}",
        f"FROM signups s LEFT JOIN zones z ON s.land = z.land AND {where}",
        f"FROM zones z LEFT JOIN signups s ON s.land = z.land WHERE {where}",
        f"FROM (SELECT DISTINCT user_id, signed_up FROM visits JOIN signups USING (user_id)) v"
        f" WHERE {condition(random, 'v')}".replace("visits JOIN", "(SELECT user_id, x FROM visits) w JOIN"),
        f"FROM (SELECT user_id, CASE WHEN land = 'a' THEN signed_up END AS signed_up FROM signups) v"
        f" WHERE {condition(random, 'v')}",
    ]
    count = random.choice(["COUNT(*)", "COUNT(*)", "COUNT(*), COUNT(*) FILTER (WHERE s.land = 'a')"])
    chosen = random.choice(ways)
    if " s " not in f"{chosen} " or "land" not in chosen:
        count = "COUNT(*)"
    return f"SELECT {count} {chosen}"


def plans(session: Session, random: Random, number: int) -> Iterator[tuple[str, str, PartSet | None]]:
    """Yield statements that are accepted, the SQL that counts them, and their parts."""
    for text, prepared in accepted(session, lambda: statement(random), number):
        yield text, prepared.counting.sql, prepared.plan.unit_parts


def violations(session: Session, seed: int, number: int) -> tuple[list[str], int]:
    """Return the statements that a unit of another part changes, and how many have fewer parts than all."""
    random, found, narrow = Random(seed), list[str](), 0
    worlds = [world(random) for _ in range(DATABASES)]
    for text, sql, parts in plans(session, random, number):
        if parts is None:
            continue
        narrow += 1
        for each in worlds:
            whole = each.count(sql)
            others = (unit for unit, part in each.parts.items() if part not in parts)
            if any(each.count(sql, unit) != whole for unit in others):
                found.append(f"{text}: {WEEKS.words(parts)}")
                break
    return found, narrow


def test_no_unit_of_another_part_changes_a_count(session: Session) -> None:
    found, narrow = violations(session, 1, STATEMENTS)
    assert found == []
    assert narrow > 0.4 * STATEMENTS


def changed_by_guards(session: Session, number: int) -> list[str]:
    """Return the statements that count something else than their own SQL does.

    A unit has few rows, so none of them is weighted down.
    """
    random, found = Random(2), list[str]()
    worlds = [world(random) for _ in range(DATABASES)]
    for text, sql, _ in plans(session, random, number):
        if any(each.count(sql) != each.count(owned(text)) for each in worlds):
            found.append(text)
    return found


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
    for table, alias in itertools.product(("visits", "signups"), "vsr"):
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


_PLACES, _SCAN, _JOIN_PUBLIC = queries._places, sources._scan, sources._join_public
_POSSIBLE, _NULL = part_sets._possible, part_sets._null

WRONG: dict[str, list[tuple[object, str, object]]] = {
    "LEFT JOIN reads what both sides do": [(sources, "parts_of_join", joined_as("LEFT", "INNER"))],
    "RIGHT JOIN reads what the left side does": [(sources, "parts_of_join", joined_as("RIGHT", "LEFT"))],
    "ANTI JOIN reads what SEMI JOIN does": [(sources, "parts_of_join", joined_as("ANTI", "SEMI"))],
    "FULL JOIN reads what its left side does": [(sources, "parts_of_join", full_of_one_side)],
    "IS NULL of a padded column is the part of NULL": [(sources, "parts_of_join", padded_is_home)],
    "ON of a LEFT JOIN narrows": [(sources, "parts_of_join", on_narrows_always)],
    "UNION reads what its left side does": [(queries, "parts_of_operation", union_of_the_left)],
    "EXCEPT reads what both sides do": [(queries, "parts_of_operation", except_of_the_rest)],
    "OR reads what its left side does": [(part_sets, "_possible", or_reads_the_left)],
    "IS NULL is true of dates": [(part_sets, "_null", nulls_have_no_week)],
    "NOT IN and OR read what IN does": [(row_subqueries, "conjuncts", any_subquery_is_a_condition)],
    "a date of a public table is the unit's": [
        (sources, "_scan", public_dates_are_home),
        (sources, "_join_public", public_rows_tell_dates),
    ],
    "a date of the same name is the unit's": [(sources, "relation_at_home", every_date_is_home)],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_found(session: Session, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for where, what, wrong in WRONG[name]:
        monkeypatch.setattr(where, what, wrong)
    for seed in range(1, 40):
        if violations(session, seed, 20)[0]:
            return
    pytest.fail(f"nothing shows that it is wrong: {name}")


def test_a_computed_date_is_not_that_of_the_unit(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "_places", cases_are_columns)
    text = (
        "SELECT COUNT(*) FROM (SELECT user_id, CASE WHEN land = 'a' THEN signed_up END AS d FROM signups) v"
        " WHERE d IS NULL"
    )
    monkeypatch.setitem(globals(), "statement", lambda random: text)
    assert any(violations(session, seed, 1)[0] for seed in range(5))


def test_a_guard_that_is_too_narrow_gives_a_wrong_answer_and_no_loss(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel believes the guards alone: what is not counted is not charged."""
    right = PartConditions.follow

    def too_narrow(rule: PartConditions, expr: Any) -> Any:
        found = right(rule, expr)
        week_of_all = WEEKS.number(MONDAY)
        return type(found)(found.true & PartSet.of((0, week_of_all)), found.false, found.null)

    monkeypatch.setattr(PartConditions, "follow", too_narrow)
    found, narrow = violations(session, 4, 60)
    assert (found, narrow > 20) == ([], True)
    assert changed_by_guards(session, 60) != []


def test_without_guards_less_is_proved_and_nothing_wrong(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = part_guards._Guards._narrow
    monkeypatch.setattr(part_guards._Guards, "_narrow", lambda *of: (right(*of)[0], None))
    assert violations(session, 5, 60)[0] == []
