"""Statements over units of one period each: taking away one patient's week changes numbers as is certified.

Statements go through each way in which such rows are joined and passed on. Each counts random small databases
with and without each unit, a patient in one week. Forms that are refused are tried where a patient is the
unit, which lets them through: there weeks change more. Wrong rules of the kernel's checker let statements
through that a week changes by more, or that a week of another part changes at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from dpsql.composition.prepared import PreparedPrivate
from dpsql.errors import QueryRefused
from dpsql.kernel.check import NotCertified, certify, part_sets, periods
from dpsql.kernel.check.certificate import Certificate, Relation
from dpsql.kernel.facts import Facts
from dpsql.kernel.tree import Binary, Column, Expr, Join, Node, Query, duckdb_sql, period_units, replace_nodes
from dpsql.kernel.unit_parts import NULL_PART, Calendar, PartSet
from dpsql.policy import load
from dpsql.session import Session
from tests.support.world import accepted

STATEMENTS = 3_000 if os.environ.get("DPSQL_PARTS") else 70
PATIENTS, DATABASES = range(4), 2
WEEKS = Calendar("week")
MONDAY = date(2026, 1, 19)
POLICY = """
[budget]
epsilon = 1
delta = 1e-6
default_epsilon = 1
default_delta = 1e-7
[tables.visits]
source = "visits.parquet"
unit = "pid"
unit_kind = "patient"
unit_period = { column = "day", every = "week", until = false }
unique = [["visit_id"]]
rows_per_unit = 2
groups = 2
bounds.cost = { from = 0, to = 3 }
[tables.labs]
source = "labs.parquet"
unit = "pid"
unit_kind = "patient"
unit_period = { column = "moment", every = "week", until = false }
rows_per_unit = 2
groups = 2
[tables.items]
source = "items.parquet"
unit = { via = "visit_id", table = "visits", column = "visit_id" }
rows_per_unit = 2
groups = 2
[tables.patients]
source = "patients.parquet"
unit = "pid"
unit_kind = "patient"
unique = [["pid"]]
rows_per_unit = 2
groups = 2
[tables.clinics]
source = "clinics.parquet"
public = true
"""
TABLES = {
    "visits": "pid BIGINT, visit_id BIGINT, day DATE, clinic VARCHAR, cost BIGINT",
    "labs": "pid BIGINT, moment DATE, x BIGINT",
    "items": "visit_id BIGINT, n BIGINT",
    "patients": "pid BIGINT, region VARCHAR",
    "clinics": "clinic VARCHAR, beds BIGINT",
}


def write_policy(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, columns in TABLES.items():
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE t ({columns})")
            connection.execute(f"COPY t TO '{folder / name}.parquet' (FORMAT parquet)")
    (folder / "dpsql.toml").write_text(text)
    return folder / "dpsql.toml"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    opened = Session(load(write_policy(tmp_path / "periods", POLICY)))
    yield opened
    opened.close()


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Session]:
    """A session over the same tables, where a patient is the unit."""
    lines = [line for line in POLICY.splitlines() if not line.startswith("unit_period")]
    opened = Session(load(write_policy(tmp_path / "whole", "\n".join(lines))))
    yield opened
    opened.close()


Unit = tuple[int, str]
"""A patient, and the first day of a week, or nothing; `*` is all of the patient."""


@dataclass(frozen=True)
class World:
    """A database, and the units that have rows in it."""

    connection: duckdb.DuckDBPyConnection
    units: dict[Unit, int]
    """The part of each."""

    def count(self, sql: str, without: Unit | None = None) -> dict[tuple[Any, ...], tuple[int, ...]]:
        """Return the numbers of each group, by its keys."""
        patient, week = without or (-1, "")
        self.connection.execute(f"SET VARIABLE gone = {patient}")
        self.connection.execute(f"SET VARIABLE week = '{week}'")
        found = self.connection.execute(sql)
        names = [column[0] for column in found.description or ()]
        keys = [i for i, name in enumerate(names) if name[0] != "n" or not name[1:].isdecimal()]
        numbers = [i for i in range(len(names)) if i not in keys]
        return {tuple(row[i] for i in keys): tuple(row[i] for i in numbers) for row in found.fetchall()}


WEEK = "COALESCE(strftime(date_trunc('week', {}), '%Y-%m-%d'), '')"


def world(random: Random) -> World:
    connection = duckdb.connect()
    for name, columns in TABLES.items():
        connection.execute(f"CREATE TABLE {name}_all ({columns})")
    units = dict[Unit, int]()

    def some_day() -> date | None:
        return None if random.random() < 0.1 else MONDAY + timedelta(days=random.randrange(21))

    def note(patient: int, day: date | None) -> None:
        first = "" if day is None else (day - timedelta(days=day.weekday())).isoformat()
        units[patient, first] = NULL_PART if day is None else WEEKS.number(day)

    number = 0
    for patient in PATIENTS:
        if random.random() < 0.8:
            region = random.choice(["a", "b", None])
            connection.execute("INSERT INTO patients_all VALUES (?, ?)", (patient, region))
        for _ in range(random.randrange(5)):
            day, number = some_day(), number + 1
            clinic, cost = random.choice(["x", "y", None]), random.choice([0, 1, 5, None])
            row = (patient, number, day, clinic, cost)
            connection.execute("INSERT INTO visits_all VALUES (?, ?, ?, ?, ?)", row)
            note(patient, day)
            for _ in range(random.randrange(3)):
                connection.execute("INSERT INTO items_all VALUES (?, ?)", (number, random.randrange(3)))
        for _ in range(random.randrange(3)):
            day = some_day()
            connection.execute("INSERT INTO labs_all VALUES (?, ?, ?)", (patient, day, random.randrange(3)))
            note(patient, day)
    connection.execute("INSERT INTO visits_all VALUES (NULL, 1000, ?, 'x', 1)", (MONDAY,))
    connection.execute("INSERT INTO items_all VALUES (1000, 1), (2000, 1)")
    connection.execute("INSERT INTO clinics_all VALUES ('x', 1), ('y', 2)")
    for name in TABLES:
        kept = ""
        if name in ("visits", "labs"):
            week = WEEK.format("day" if name == "visits" else "moment")
            of = f"({week} = getvariable('week') OR getvariable('week') = '*')"
            kept = f" WHERE NOT (pid IS NOT DISTINCT FROM getvariable('gone') AND {of})"
        if name == "patients":
            kept = " WHERE NOT (pid = getvariable('gone') AND getvariable('week') = '*')"
        if name == "items":
            kept = " WHERE visit_id IN (SELECT visit_id FROM visits) OR visit_id = 2000"
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {name}_all{kept}")
    return World(connection, units)


def week(random: Random) -> str:
    return f"DATE '{MONDAY + timedelta(days=7 * random.randrange(3))}'"


def condition(random: Random, column: str, others: list[str]) -> str:
    """Return a condition on the date, mixed with others."""
    leaves = [
        f"{column} >= {week(random)}",
        f"{column} < {week(random)}",
        f"date_trunc('week', {column}) = {week(random)}",
        f"{column} IS NULL",
        f"date_trunc('month', {column}) = DATE '2026-01-01'",
        *others,
    ]
    made = random.choice(leaves)
    for _ in range(random.randrange(3)):
        other = random.choice(leaves)
        made = random.choice([f"({made} AND {other})", f"({made} OR {other})", f"NOT ({made})", made])
    return made


BOTH = "{0}.pid = {1}.pid AND date_trunc('week', {0}.{2}) = date_trunc('week', {1}.{3})"
PER_WEEK = "pid, date_trunc('week', day) AS w"


def statement(random: Random) -> str:
    """Return a statement by one of the ways in which rows of units are joined and passed on."""
    where = condition(random, "v.day", ["v.clinic = 'x'", "v.cost > 0"])
    own, labs = BOTH.format("v", "o", "day", "day"), BOTH.format("v", "l", "day", "moment")
    few = f"(SELECT * FROM visits v WHERE {where})"
    kind = random.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"])
    beside = random.choice(["JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN"])
    on = random.choice(["v.pid = p.pid", "v.pid = p.pid AND p.region = 'a'", "p.pid = v.pid AND v.cost > 0"])
    ways = [
        f"FROM visits v WHERE {where}",
        f"FROM visits v WHERE {where}",
        f"FROM visits v {kind} visits o ON {own}",
        f"FROM visits v {kind} labs l ON {labs}",
        f"FROM labs l {kind} {few} v ON {labs}",
        f"FROM {few} v {kind} labs l ON {labs} AND l.x > 0",
        f"FROM visits v {beside} patients p ON {on}",
        f"FROM visits v {beside} (SELECT * FROM patients WHERE region = 'a') p ON {on} WHERE {where}",
        f"FROM patients p JOIN {few} v USING (pid)",
        f"FROM patients p RIGHT JOIN {few} v USING (pid)",
        f"FROM visits v WHERE pid IN (SELECT pid FROM patients WHERE region = 'a') AND {where}",
        f"FROM visits v WHERE pid NOT IN (SELECT pid FROM patients WHERE region = 'b') OR {where}",
        "FROM visits v WHERE EXISTS (SELECT 1 FROM patients p WHERE p.pid = v.pid AND p.region = 'a')",
        f"FROM visits v WHERE NOT EXISTS (SELECT 1 FROM patients p WHERE p.pid = v.pid) AND {where}",
        f"FROM visits v WHERE EXISTS (SELECT 1 FROM labs l WHERE {labs} AND l.x > 0)",
        f"FROM labs l WHERE NOT EXISTS (SELECT 1 FROM {few} v WHERE {labs})",
        f"FROM visits v WHERE (SELECT COUNT(*) FROM visits o WHERE {own}) > 1",
        f"FROM (SELECT {PER_WEEK}, COUNT(*) AS n, MAX(cost) AS m FROM {few} v GROUP BY 1, 2) g WHERE n > 1",
        f"FROM (SELECT {PER_WEEK}, clinic, SUM(cost) AS m FROM visits GROUP BY 1, 2, 3) v"
        " JOIN patients p USING (pid) WHERE m > 1",
        f"FROM (SELECT {PER_WEEK}, COUNT(*) AS n FROM visits GROUP BY ALL) g JOIN labs l"
        " ON g.pid = l.pid AND g.w = date_trunc('week', l.moment)".replace("GROUP BY ALL", "GROUP BY 1, 2"),
        f"FROM (SELECT DISTINCT {PER_WEEK} FROM {few} v) g",
        "FROM (SELECT *, ROW_NUMBER() OVER"
        " (PARTITION BY pid, date_trunc('week', day) ORDER BY cost, visit_id)"
        f" AS i FROM visits v WHERE {where}) v WHERE i = 1",
        f"FROM (SELECT *, MAX(cost) OVER (PARTITION BY pid, date_trunc('week', day)) AS m FROM visits) v"
        f" WHERE m > 1 AND {where}",
        f"FROM (SELECT pid, day FROM {few} v UNION ALL SELECT pid, moment FROM labs) u",
        f"FROM (SELECT pid, day FROM {few} v UNION ALL SELECT pid, moment FROM labs) u JOIN patients p"
        " ON u.pid = p.pid",
        f"FROM (SELECT {PER_WEEK} FROM {few} v EXCEPT SELECT {PER_WEEK} FROM visits WHERE cost > 0) u",
        f"FROM (SELECT {PER_WEEK} FROM {few} v INTERSECT SELECT {PER_WEEK} FROM visits WHERE cost > 0) u",
        f"FROM (SELECT {PER_WEEK} FROM {few} v UNION SELECT {PER_WEEK} FROM visits WHERE cost > 0) u",
        f"FROM visits v JOIN items i ON v.visit_id = i.visit_id WHERE {where}",
        "FROM items i WHERE n > 0",
        f"FROM items i JOIN {few} v ON v.visit_id = i.visit_id JOIN patients p ON p.pid = v.pid",
        f"FROM visits v JOIN clinics c ON v.clinic = c.clinic WHERE {where}",
        f"FROM clinics c LEFT JOIN visits v ON v.clinic = c.clinic WHERE {where}",
        "FROM patients p WHERE region = 'a'",
        "FROM patients p JOIN patients q ON p.pid = q.pid",
    ]
    chosen = random.choice(ways)
    reads = [("v", "clinic"), ("v", "cost")] if " v" in chosen and "g " not in chosen else []
    count = "COUNT(*)"
    if reads and "SELECT pid" not in chosen and chosen[-1] != "u" and random.random() < 0.5:
        count = random.choice(["COUNT(DISTINCT v.pid)", "COUNT(*)"])
    return with_keys(random, count, chosen)


def with_keys(random: Random, count: str, rows: str) -> str:
    """Return the statement, with keys if the rows have some."""
    if rows.startswith("FROM visits v WHERE") and random.random() < 0.6:
        rows += f" AND date_trunc('week', v.day) = {week(random)}"  # undeclared keys are of one week
        extra = random.choice(["", ", SUM(cost)"]) if count == "COUNT(*)" else ""
        key = random.choice(["v.clinic", "date_trunc('week', v.day)", "date_trunc('month', v.day)"])
        return f"SELECT {key}, {count}{extra} {rows} GROUP BY 1"
    return f"SELECT {count} {rows}"


def planned(session: Session, random: Random, number: int) -> Iterator[tuple[str, str, Certificate]]:
    """Yield statements that are accepted, the SQL that counts them, and their certificates."""
    for text, prepared in accepted(session, lambda: statement(random), number):
        yield text, prepared.counting.sql, prepared.plan.compiled.certificate


def problems_of_persons(each: World, sql: str, proved: Certificate) -> Iterator[str]:
    """Yield the patients in k weeks that change a number by more than k times what is proved."""
    every = each.count(sql)
    for patient in PATIENTS:
        k = max(1, sum(who == patient for who, _ in each.units))
        without = each.count(sql, (patient, "*"))
        for key in every.keys() & without.keys():
            for a, b, number in zip(every[key], without[key], proved.numbers, strict=True):
                if not k * number.low <= a - b <= k * number.high:
                    yield f"{patient} changes {key} by {a - b}, not {k} times {number.low} to {number.high}"


def problems(each: World, sql: str, proved: Certificate) -> Iterator[str]:
    """Yield the units that change a number by more than is proved, or though their part is none of those."""
    every = each.count(sql)
    for unit, part in each.units.items():
        without = each.count(sql, unit)
        outside = proved.parts is not None and part not in proved.parts
        totals = [0] * len(proved.numbers)
        changed = 0
        for key in every.keys() | without.keys():
            none = (0,) * len(proved.numbers)
            pairs = zip(every.get(key, none), without.get(key, none), strict=True)
            changes = [a - b for a, b in pairs]
            if proved.decides is not None and (key not in every or key not in without):
                # Whether it is there is what delta is for: of the numbers only that which decides is bounded.
                own = [number.column == proved.decides for number in proved.numbers]
                changes = [change if of else 0 for change, of in zip(changes, own, strict=True)]
            changed += any(changes)
            for i, (change, number) in enumerate(zip(changes, proved.numbers, strict=True)):
                totals[i] += abs(change)
                if not number.low <= change <= number.high or (outside and change):
                    yield f"{unit} changes {key} by {change}, not {number.low} to {number.high}"
        if proved.most_groups is not None and changed > proved.most_groups:
            yield f"{unit} changes {changed} groups"
        for total, number in zip(totals, proved.numbers, strict=True):
            if number.total is not None and total > number.total:
                yield f"{unit} changes all by {total}, not {number.total}"


def violations(session: Session, seed: int, number: int) -> tuple[list[str], int]:
    """Return what a unit changes otherwise than is proved, and how many statements do not read all parts."""
    random, found, narrow = Random(seed), list[str](), 0
    worlds = [world(random) for _ in range(DATABASES)]
    for text, sql, proved in planned(session, random, number):
        narrow += proved.parts is not None
        for each in worlds:
            found += [f"{text}: {problem}" for problem in problems(each, sql, proved)]
            found += [f"{text}: {problem}" for problem in problems_of_persons(each, sql, proved)]
    return found, narrow


def test_a_week_of_a_patient_changes_numbers_as_is_certified(session: Session) -> None:
    found, narrow = violations(session, 1, STATEMENTS)
    assert found == []
    assert narrow > 0.6 * STATEMENTS


# --- what is refused --------------------------------------------------------------------------------------

REFUSED = {
    "a patient's total over weeks": [
        "FROM (SELECT pid, COUNT(*) AS n FROM visits GROUP BY pid) g WHERE n = 2",
        "FROM (SELECT pid, MAX(cost) AS n FROM visits GROUP BY pid) g WHERE n < 3",
        "FROM (SELECT pid, date_trunc('month', day) AS w, COUNT(*) AS n FROM visits GROUP BY 1, 2) g"
        " WHERE n = 2",
    ],
    "a window over weeks": [
        "FROM (SELECT *, COUNT(*) OVER (PARTITION BY pid) AS n FROM visits) g WHERE n = 2",
        "FROM (SELECT *, LAG(cost) OVER (PARTITION BY pid ORDER BY day, visit_id) AS n FROM visits) g"
        " WHERE n > 0",
    ],
    "patients LEFT JOIN visits": [
        "FROM patients p LEFT JOIN visits v ON p.pid = v.pid WHERE v.pid IS NULL",
        "FROM visits v RIGHT JOIN patients p ON p.pid = v.pid WHERE v.pid IS NULL",
        "FROM patients p FULL JOIN visits v ON p.pid = v.pid WHERE v.pid IS NULL",
    ],
    "patients SEMI or ANTI visits": [
        "FROM patients p ANTI JOIN visits v ON p.pid = v.pid",
        "FROM patients p WHERE pid NOT IN (SELECT pid FROM visits)",
        "FROM patients p WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.pid = p.pid AND v.cost > 0)",
        "FROM patients p WHERE (SELECT COUNT(*) FROM visits v WHERE v.pid = p.pid) = 1",
    ],
    "a join of weeks of one patient": [
        "FROM visits v ANTI JOIN labs l ON v.pid = l.pid",
        "FROM visits v LEFT JOIN labs l ON v.pid = l.pid WHERE l.pid IS NULL",
        "FROM visits v WHERE NOT EXISTS (SELECT 1 FROM visits o WHERE o.pid = v.pid AND o.day < v.day)",
        "FROM visits v WHERE pid NOT IN (SELECT pid FROM labs)",
    ],
    "set operations without the week": [
        "FROM (SELECT pid FROM visits EXCEPT SELECT pid FROM labs) u",
        "FROM (SELECT pid FROM patients EXCEPT SELECT pid FROM labs) u",
    ],
    "different patients over weeks": [
        "FROM (SELECT DISTINCT pid FROM visits EXCEPT SELECT pid FROM labs) u",
    ],
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_refused_would_change_more(session: Session, whole: Session, why: str) -> None:
    """Where a patient is the unit these statements are accepted: then a week changes other numbers."""
    for rows in REFUSED[why]:
        with pytest.raises(QueryRefused):
            session.prepare(f"SELECT COUNT(*) {rows}")
    found, tried = changes_beyond(whole, REFUSED[why])
    assert found > 5, (why, found, tried)


def changes_beyond(session: Session, rows: Sequence[str]) -> tuple[int, int]:
    """Return how often a week changes a count otherwise than is certified of a patient, and of how many."""
    random, found, tried = Random(3), 0, 0
    for each in (world(random) for _ in range(60)):
        for of in rows:
            prepared = session.prepare(f"SELECT COUNT(*) {of}")
            assert isinstance(prepared, PreparedPrivate)
            (number,), sql = prepared.plan.compiled.certificate.numbers, prepared.counting.sql
            every = each.count(sql)[()][0]
            for unit in each.units:
                tried += 1
                found += not number.low <= every - each.count(sql, unit)[()][0] <= number.high
        if found > 5 and not os.environ.get("DPSQL_PARTS"):
            break
    return found, tried


def facts_of_periods(session: Session) -> Facts:
    catalog = session.database.engines().schema_database
    return catalog.facts(session.database.policy, tuple(session.database.policy.tables))


def tree(session: Session, rows: str) -> Query:
    prepared = session.prepare(f"SELECT COUNT(*) {rows}")
    assert isinstance(prepared, PreparedPrivate)
    return prepared.plan.compiled.query


@pytest.mark.parametrize("why", REFUSED)
def test_the_kernel_refuses_by_itself(session: Session, whole: Session, why: str) -> None:
    facts = facts_of_periods(session)
    for rows in REFUSED[why]:
        with pytest.raises(NotCertified):
            certify(tree(whole, rows), facts)


# --- wrong rules ------------------------------------------------------------------------------------------


def without_period(person: Expr, date: Expr, every: str, *, dates: bool) -> Expr:
    """Return the unit as if a patient were it."""
    return person


def test_where_the_person_is_the_unit_totals_are_certified(
    session: Session, whole: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the kernel lets through what `test_what_is_refused_would_change_more` finds."""
    monkeypatch.setattr(periods, "unit_in_period", without_period)
    facts, let_through = facts_of_periods(session), 0
    for rows in (rows for listed in REFUSED.values() for rows in listed):
        try:
            certify(tree(whole, rows), facts)
        except NotCertified:
            continue
        let_through += 1
    assert let_through > 5


Change = Callable[[Node], Node]


def joined(kind: str, other: str) -> Change:
    def change(node: Node) -> Node:
        return replace(node, kind=other) if isinstance(node, Join) and node.kind == kind else node

    return change


def other_condition(node: Node) -> Node:
    """Return a join whose visits are joined with patients by another number than theirs."""
    if not isinstance(node, Join):
        return node
    return replace(node, on=Binary("=", Column("t1", "c4"), Column("t2", "u")))


EDITED: dict[str, tuple[str, Change, list[tuple[object, str, object]]]] = {
    "RIGHT JOIN of standing rows": (
        "FROM visits v LEFT JOIN patients p ON v.pid = p.pid",
        joined("LEFT", "RIGHT"),
        [],  # rows without a patient's week are counted nowhere, so nothing shows it
    ),
    "standing rows of others": (
        "FROM visits v SEMI JOIN patients p ON v.pid = p.pid",
        other_condition,
        [(periods, "equates_person", lambda *_: True)],
    ),
    "standing rows without those of others": (
        "FROM visits v ANTI JOIN patients p ON v.pid = p.pid",
        other_condition,
        [(periods, "equates_person", lambda *_: True)],
    ),
}


@pytest.mark.parametrize("name", EDITED)
def test_an_edited_tree_is_refused_and_a_wrong_rule_is_found(
    session: Session, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, change, wrong = EDITED[name]
    edited, facts = replace_nodes(tree(session, rows), change), facts_of_periods(session)
    with pytest.raises(NotCertified):
        certify(edited, facts)
    if not wrong:
        return
    for where, what, rule in wrong:
        monkeypatch.setattr(where, what, rule)
    proved, random = certify(edited, facts), Random(4)
    sql = duckdb_sql(edited)
    for each in (world(random) for _ in range(40)):
        if any(problems(each, sql, proved)) or any(problems_of_persons(each, sql, proved)):
            return
    pytest.fail(f"nothing shows that it is wrong: {name}")


def every_table_has_the_date(proof: Any, relation: Relation, table: str, alias: str) -> Relation:
    """Rows of any table of a period are of the first week."""
    made = part_sets.relation_at_home(proof, relation, table, alias)
    return made._replace(parts=PartSet.of((WEEKS.number(MONDAY),) * 2))


WRONG: dict[str, tuple[str, list[tuple[object, str, object]]]] = {
    "a month is told by the week": (
        "SELECT date_trunc('month', v.day), COUNT(*) FROM visits v"
        " WHERE date_trunc('week', v.day) = DATE '2026-01-26' GROUP BY 1",
        [(period_units.LONGER, "week", ("week", "month"))],
    ),
    "all rows are of the first week": (
        "SELECT COUNT(*) FROM visits v",
        [(periods, "relation_at_home", every_table_has_the_date)],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_found(session: Session, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, wrong = WRONG[name]
    for where, what, rule in wrong:
        if isinstance(where, dict):
            monkeypatch.setitem(where, what, rule)
        else:
            monkeypatch.setattr(where, what, rule)
    prepared, random = session.prepare(text), Random(5)
    assert isinstance(prepared, PreparedPrivate)
    proved, sql = prepared.plan.compiled.certificate, prepared.counting.sql
    if not any(any(problems(world(random), sql, proved)) for _ in range(40)):
        pytest.fail(f"nothing shows that it is wrong: {name}")
