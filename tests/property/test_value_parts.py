"""Parts of units by values: texts, whole numbers, truth values.

Random conditions are followed by `ValueConditions`, and computed for rows of every part. Statements whose
parts the kernel proves count random small databases with and without each unit that lies in none of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from dpsql.analysis import value_conditions
from dpsql.analysis.part_conditions import Truths
from dpsql.analysis.part_guards import Rules
from dpsql.analysis.value_conditions import ValueConditions, write_guard
from dpsql.kernel.check import part_sets
from dpsql.kernel.tree import (
    Between,
    Binary,
    Column,
    Constant,
    Expr,
    InList,
    IsNull,
    IsTruth,
    Like,
    Not,
    Paren,
    duckdb_sql,
)
from dpsql.kernel.tree.exact import whole
from dpsql.kernel.unit_parts import EARLIER, LATER, NO_HOME, NULL_PART, ListedValues, PartSet, WholeNumbers
from dpsql.session import Session
from dpsql.types import BIGINT, BOOLEAN, VARCHAR
from tests.support.world import accepted, open_world

CONDITIONS = 100_000 if os.environ.get("DPSQL_PARTS") else 1_000
STATEMENTS = 2_000 if os.environ.get("DPSQL_PARTS") else 40
VALUE, AGE = Column("t", "v"), Column("t", "age")
NUMBERS = WholeNumbers()
FAR = 1 << 40

Value = str | bool | int
CASES: dict[str, tuple[str, list[Value], list[Value], ListedValues | WholeNumbers]] = {
    "texts": (
        "VARCHAR",
        ["DE", "FR", "", "de", "Zürich"],
        ["XX", "D", "zz"],
        ListedValues(
            tuple((v, n) for v, n in zip(["DE", "FR", "", "de", "Zürich"], [0, 2, 3, 5, 6], strict=True))
        ),
    ),
    "numbers": ("BIGINT", [-3, -1, 0, 1, 2, 7], [-FAR, -50, 8, FAR], NUMBERS),
    "truths": ("BOOLEAN", [False, True], [], ListedValues(((False, 0), (True, 1)))),
}
KINDS = {"texts": VARCHAR, "numbers": BIGINT, "truths": BOOLEAN}


def part_of(case: str, value: Value | None) -> PartSet:
    numbering = CASES[case][3]
    if value is None:
        return PartSet.of((NULL_PART, NULL_PART))
    if isinstance(numbering, WholeNumbers):
        return PartSet.of((numbering.number(int(value)),) * 2)
    return numbering.equal(value)  # type: ignore[arg-type]


def literal(value: Value) -> Expr:
    if isinstance(value, bool):
        return Constant(value, BOOLEAN)
    return whole(value) if isinstance(value, int) else Constant(value, VARCHAR)


def grid(case: str) -> duckdb.DuckDBPyConnection:
    """Return a table of all values with other columns, and a number for each part."""
    kind, listed, others, _ = CASES[case]
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t (v {kind}, age BIGINT, place INTEGER)")
    for place, value in enumerate([*listed, *others, None]):
        for age in (1, 5, None):
            connection.execute("INSERT INTO t VALUES (?, ?, ?)", (value, age, place))
    return connection


def leaf(random: Random, case: str) -> Expr:
    _, listed, others, _ = CASES[case]
    some = [*listed, *listed, *others]

    def constant() -> Expr:
        return literal(random.choice(some))

    choice = random.random()
    if choice < 0.15:
        return random.choice([Binary(">", AGE, whole(3)), IsNull(AGE)])
    if choice < 0.25:
        return IsNull(VALUE, negated=random.random() < 0.5)
    if choice < 0.4:
        return InList(VALUE, tuple(constant() for _ in range(random.randrange(1, 4))))
    if choice < 0.45 and case == "texts":
        return Like(VALUE, "LIKE", Constant(random.choice(["D%", "%e", "%"]), VARCHAR))
    if choice < 0.45 and case == "truths":
        return IsTruth(VALUE, random.random() < 0.5)
    if choice < 0.5 and case == "truths":
        return VALUE
    if choice < 0.5 and case == "numbers":
        return Between(VALUE, constant(), constant())
    if choice < 0.55 and case == "numbers":
        return Binary("=", Paren(Binary("%", VALUE, whole(2))), whole(random.randrange(2)))
    words = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
    sides = (VALUE, constant())
    return Binary(random.choice(words), *(sides if random.random() < 0.8 else sides[::-1]))


def condition(random: Random, case: str, depth: int = 3) -> Expr:
    if depth == 0 or random.random() < 0.3:
        return Paren(leaf(random, case))
    if random.random() < 0.25:
        return Paren(Not(condition(random, case, depth - 1)))
    left, right = condition(random, case, depth - 1), condition(random, case, depth - 1)
    return Paren(Binary(random.choice(["AND", "OR"]), left, right))


def rule_of(connection: duckdb.DuckDBPyConnection, case: str, *, padded: bool = False) -> ValueConditions:
    numbering, listed = CASES[case][3], CASES[case][1]

    @cache
    def evaluate(text: str) -> object:
        return connection.execute(f"SELECT {text}").fetchone()[0]  # type: ignore[index]

    numbered = (
        numbering.values
        if isinstance(numbering, ListedValues)
        else tuple((v, numbering.number(int(v))) for v in listed)
    )
    rules = Rules(
        lambda expr: evaluate(duckdb_sql(expr)),
        lambda sql: connection.cursor().sql(sql).to_arrow_table(),
        numbered,
    )
    return ValueConditions(
        numbering, {VALUE: padded}, rules.evaluate, rules.compute, [n for _, n in numbered]
    )


def computed(
    connection: duckdb.DuckDBPyConnection, case: str, conditions: list[Expr]
) -> list[list[set[int]]]:
    """Return for which places of values conditions are true, false and NULL for some row."""
    cells = ", ".join(
        f"bool_or(coalesce({text}, FALSE)), bool_or(coalesce(NOT {text}, FALSE)), bool_or({text} IS NULL)"
        for text in map(duckdb_sql, conditions)
    )
    rows = connection.execute(f"SELECT place, {cells} FROM t GROUP BY place").fetchall()
    return [
        [{row[0] for row in rows if row[1 + 3 * i + which]} for which in range(3)]
        for i in range(len(conditions))
    ]


def compare(follow: Callable[[ValueConditions, Expr], Truths], number: int, case: str) -> tuple[int, int]:
    """Return how many conditions were followed wrongly, and how many exactly for what they can be true."""
    connection, random = grid(case), Random(f"{case}{number}")
    rule = rule_of(connection, case)
    values = [*CASES[case][1], *CASES[case][2], None]
    parts = [part_of(case, value) for value in values]
    known = len(CASES[case][1])
    wrong = exact = 0
    for _ in range(number // 50):
        conditions = [condition(random, case) for _ in range(50)]
        for each, truths in zip(conditions, computed(connection, case, conditions), strict=True):
            found = follow(rule, each)
            for places, chosen in zip(truths, (found.true, found.false, found.null), strict=True):
                wrong += not all(parts[place] <= chosen for place in places)
            exact += {p for p in range(known) if parts[p] <= found.true} == {
                p for p in truths[0] if p < known
            }
    return wrong, exact


@pytest.mark.parametrize("case", CASES)
def test_no_part_is_missing(case: str) -> None:
    wrong, exact = compare(ValueConditions.follow, CONDITIONS, case)
    assert wrong == 0
    assert exact >= 0.95 * CONDITIONS


def values_not_listed_are_none(rule: ValueConditions, expr: Expr) -> Truths:
    """Values that are not listed are left out of what is computed."""
    found = ValueConditions.follow(rule, expr)
    assert isinstance(rule.numbering, ListedValues)
    return Truths(
        found.true & (rule.numbering.listed | PartSet.of((NULL_PART, NULL_PART))), found.false, found.null
    )


def test_values_that_are_not_listed_are_a_part() -> None:
    assert compare(values_not_listed_are_none, 200, "texts")[0] > 5


@pytest.mark.parametrize("case", CASES)
def test_a_guard_keeps_the_parts_that_it_says(case: str) -> None:
    connection, random = grid(case), Random(case)
    numbering, values = CASES[case][3], [*CASES[case][1], *CASES[case][2], None]
    parts = [part_of(case, value) for value in values]
    for _ in range(80):
        chosen = PartSet.of()
        for each in random.sample(parts, random.randrange(len(parts) + 1)):
            chosen |= each
        if isinstance(numbering, WholeNumbers) and random.random() < 0.5:
            chosen |= PartSet.of(random.choice([(EARLIER, NUMBERS.number(-2)), (NUMBERS.number(3), LATER)]))
        text = duckdb_sql(write_guard(VALUE, chosen, numbering))
        kept = {n for (n,) in connection.execute(f"SELECT DISTINCT place FROM t WHERE {text}").fetchall()}
        assert kept == {place for place, part in enumerate(parts) if part <= chosen}, text


# --- statements -------------------------------------------------------------------------------------------

POLICY = """
[budget]
epsilon = 1
default_epsilon = 1
[parts.user]
table = "signups"
column = "COLUMN"
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
SIGNUPS = "user_id BIGINT, land VARCHAR, n INTEGER, flag BOOLEAN, age BIGINT"
VISITS = "user_id BIGINT, x BIGINT, land VARCHAR, n INTEGER, flag BOOLEAN"
ZONES = "land VARCHAR, x BIGINT"
OF_COLUMN = {"land": "texts", "n": "numbers", "flag": "truths"}
LANDS = ListedValues((("a", 0), ("b", 1)))


@pytest.fixture(params=OF_COLUMN)
def column(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def session(tmp_path: Path, column: str) -> Iterator[Session]:
    for name, columns in (("signups", SIGNUPS), ("visits", VISITS), ("zones", ZONES)):
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE t ({columns})")
            connection.execute(f"COPY t TO '{tmp_path / name}.parquet' (FORMAT parquet)")
    with open_world(tmp_path, POLICY.replace("COLUMN", column)) as opened:
        yield opened


class World:
    """A database, and the parts of each unit: of one whose value is not listed, all that it may be."""

    def __init__(self, random: Random, column: str) -> None:
        self.connection = duckdb.connect()
        for name, columns in (("signups", SIGNUPS), ("visits", VISITS)):
            self.connection.execute(f"CREATE TABLE {name}_all ({columns})")
            self.connection.execute(
                f"CREATE VIEW {name} AS SELECT * FROM {name}_all"
                " WHERE user_id IS DISTINCT FROM getvariable('gone')"
            )
        self.connection.execute(f"CREATE TABLE zones ({ZONES})")
        self.connection.execute("INSERT INTO zones VALUES ('a', 1), ('c', 2)")
        self.parts = dict[int, PartSet]()
        for unit in range(9):
            self.parts[unit] = PartSet.of((NO_HOME, NO_HOME))
            if random.random() < 0.85:
                row = self._row(random)
                self.connection.execute(
                    "INSERT INTO signups_all VALUES (?, ?, ?, ?, ?)", (unit, *row, random.choice([1, 5]))
                )
                self.parts[unit] = self._part(column, dict(zip(OF_COLUMN, row, strict=True))[column])
            for _ in range(random.randrange(4)):
                self.connection.execute(
                    "INSERT INTO visits_all VALUES (?, ?, ?, ?, ?)",
                    (unit, random.randrange(3), *self._row(random)),
                )

    @staticmethod
    def _row(random: Random) -> tuple[Any, ...]:
        return (
            random.choice(["a", "a", "b", "b", "c", None]),
            random.choice([-1, 0, 1, 2, None]),
            random.choice([True, False, None]),
        )

    @staticmethod
    def _part(column: str, value: Any) -> PartSet:
        if value is None:
            return PartSet.of((NULL_PART, NULL_PART))
        if column == "n":
            return PartSet.of((NUMBERS.number(value),) * 2)
        return LANDS.equal(value) if column == "land" else CASES["truths"][3].equal(value)  # type: ignore[union-attr]

    def count(self, sql: str, without: int = -1) -> list[tuple[Any, ...]]:
        self.connection.execute(f"SET VARIABLE gone = {without}")
        return sorted(self.connection.execute(sql).fetchall(), key=repr)


def where(random: Random, alias: str, column: str) -> str:
    name = f"{alias}.{column}"
    leaves = {
        "land": [
            f"{name} = 'a'",
            f"{name} = 'c'",
            f"{name} <> 'a'",
            f"{name} IN ('b', 'c')",
            f"{name} NOT IN ('a', 'c')",
            f"{name} LIKE 'a%'",
            f"{name} > 'a'",
        ],
        "n": [
            f"{name} = 1",
            f"{name} < 1",
            f"{name} >= 1",
            f"{name} IN (0, 2)",
            f"{name} BETWEEN 0 AND 1",
            f"{name} <> 0",
        ],
        "flag": [name, f"NOT {name}", f"{name} IS TRUE", f"{name} = FALSE", f"{name} IS NOT FALSE"],
    }[column]
    leaves += [f"{name} IS NULL", f"{name} IS NOT NULL"]
    if alias == "s":
        leaves.append("s.age > 3")
    made = random.choice(leaves)
    for _ in range(random.randrange(3)):
        other = random.choice(leaves)
        made = random.choice([f"({made} AND {other})", f"({made} OR {other})", f"NOT ({made})", made])
    return made


def statement(random: Random, column: str) -> str:
    """Return a statement by one of the ways in which rows of units are joined and passed on."""
    own = where(random, "s", column)
    home = f"(SELECT * FROM signups s WHERE {own})"
    return "SELECT COUNT(*) " + random.choice(
        [
            f"FROM signups s WHERE {own}",
            f"FROM visits v JOIN signups s USING (user_id) WHERE {own}",
            f"FROM visits v LEFT JOIN signups s ON v.user_id = s.user_id AND {own}",
            f"FROM visits v LEFT JOIN signups s ON v.user_id = s.user_id WHERE {own}",
            f"FROM visits v FULL JOIN signups s ON v.user_id = s.user_id WHERE {own}",
            f"FROM visits v WHERE user_id IN (SELECT user_id FROM {home} q)",
            f"FROM visits v WHERE user_id NOT IN (SELECT user_id FROM {home} q)",
            f"FROM visits v SEMI JOIN {home} q ON q.user_id = v.user_id",
            f"FROM (SELECT user_id, {column} FROM {home} q UNION ALL SELECT user_id, {column} FROM visits) s",
            f"FROM (SELECT user_id, {column} FROM {home} q INTERSECT SELECT user_id, {column} FROM visits) s",
            f"FROM visits v WHERE {where(random, 'v', column)}",
            "FROM signups s JOIN zones z ON s.age = z.x WHERE z.land = 'a'",
            f"FROM zones z LEFT JOIN signups s ON s.land = z.land WHERE {own}",
            f"FROM (SELECT user_id, MIN({column}) AS {column} FROM visits GROUP BY 1) v"
            f" WHERE {where(random, 'v', column)}",
        ]
    )


def violations(session: Session, column: str, seed: int, number: int) -> tuple[list[str], int]:
    """Return the statements that a unit of another part changes, and how many have fewer parts than all."""
    random, found, narrow = Random(f"{column}{seed}"), list[str](), 0
    worlds = [World(random, column) for _ in range(3)]
    for text, prepared in accepted(session, lambda: statement(random, column), number):
        parts, sql = prepared.plan.unit_parts, prepared.counting.sql
        if parts is None:
            continue
        narrow += 1
        for each in worlds:
            whole_count = each.count(sql)
            others = (unit for unit, part in each.parts.items() if not part <= parts)
            if any(each.count(sql, unit) != whole_count for unit in others):
                found.append(text)
                break
    return found, narrow


def test_no_unit_of_another_part_changes_a_count(session: Session, column: str) -> None:
    found, narrow = violations(session, column, 1, STATEMENTS)
    assert found == []
    assert narrow > 0.4 * STATEMENTS


_COMPARED, _OTHER = part_sets._compare, part_sets._other_values


def a_value_without_a_number_is_none(operator: str, *rest: Any) -> PartSet | None:
    found = _COMPARED(operator, *rest)
    return found if found is None or found <= LANDS.listed else PartSet.of((0, 0))


def not_in_leaves_the_listed(node: Any, relation: Any, home: Any) -> PartSet:
    found = _OTHER(node, relation, home)
    return found & LANDS.listed if found <= PartSet.of((0, LATER)) else found


def in_reads_its_first_value(
    operator: str, left: Any, right: Any, relation: Any, home: Any
) -> PartSet | None:
    found = _COMPARED(operator, left, right, relation, home)
    return None if found is None else found & PartSet.of((0, 0)) or PartSet.of((0, 0))


def less_is_at_most(operator: str, *rest: Any) -> PartSet | None:
    """`<=` is taken for `<`."""
    return _COMPARED("<" if operator == "<=" else operator, *rest)


WRONG: list[tuple[str, str, Any]] = [
    ("land", "_compare", a_value_without_a_number_is_none),
    ("land", "_other_values", not_in_leaves_the_listed),
    ("land", "_compare", in_reads_its_first_value),
    ("n", "_compare", less_is_at_most),
]


@pytest.mark.parametrize(("column", "name", "wrong"), WRONG)
def test_a_wrong_rule_is_found(
    session: Session, column: str, name: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_sets, name, wrong)
    for seed in range(1, 40):
        if violations(session, column, seed, 20)[0]:
            return
    pytest.fail("nothing shows that it is wrong")


def test_a_guard_that_is_too_narrow_gives_a_wrong_answer_and_no_loss(
    session: Session, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel believes the guards alone: what is not counted is not charged."""
    right = ValueConditions.follow_leaf

    def too_narrow(rule: ValueConditions, expr: Any) -> Any:
        found = right(rule, expr)
        return Truths(found.true & PartSet.of((0, 0), (NUMBERS.number(0),) * 2), found.false, found.null)

    monkeypatch.setattr(value_conditions.ValueConditions, "follow_leaf", too_narrow)
    assert violations(session, column, 4, 60)[0] == []
