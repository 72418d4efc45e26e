"""Conditions on the date of units against a table of dates: for which parts they can be true, false, NULL.

A random condition is followed by `PartConditions`, and computed by DuckDB for dates of every part with all
values of the other columns. No part may be missing in the three sets; nearly all sets are exact.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import cache
from random import Random

import duckdb
import pytest

from dpsql.analysis.part_conditions import PartConditions, Truths
from dpsql.analysis.part_guards import Rules, _Guards
from dpsql.kernel.facts import Home
from dpsql.kernel.tree import (
    Apply,
    Between,
    Binary,
    Cast,
    Column,
    Constant,
    Expr,
    InList,
    IsNull,
    Not,
    Paren,
    duckdb_sql,
)
from dpsql.kernel.tree.forms import Form, listed_forms
from dpsql.kernel.unit_parts import Calendar, Every, PartSet
from dpsql.types import BIGINT, DATE, TIMESTAMP, VARCHAR

CONDITIONS = 100_000 if os.environ.get("DPSQL_PARTS") else 1_500
AT_ONCE = 50
DAY, LAND, AGE = Column("t", "d"), Column("t", "land"), Column("t", "age")
FAR = ["-infinity", "0990-05-01", "1500-02-03", "2999-12-31", "3000-01-01", "9999-12-31", "infinity"]


def days() -> list[date]:
    first = date(2025, 12, 15)
    return [first + timedelta(days=each) for each in range(60)]


def grid(dates: bool) -> duckdb.DuckDBPyConnection:
    """Return a table of dates, other columns, and the number of the week of each date."""
    connection = duckdb.connect()
    kind = "DATE" if dates else "TIMESTAMP"
    connection.execute(f"CREATE TABLE t (d {kind}, land VARCHAR, age BIGINT, part INTEGER)")
    weeks = Calendar("week")
    rows = [(f"'{each}'", weeks.number(each)) for each in days()]
    if not dates:
        rows += [
            (f"'{each} {clock}'", weeks.number(each))
            for each in days()
            for clock in ("13:30:00", "23:59:59.999999")
        ]
    numbers = [
        0,
        0,
        weeks.number(date(1500, 2, 3)),
        weeks.number(date(2999, 12, 31)),
        (1 << 20) - 3,
        (1 << 20) - 3,
        (1 << 20) - 3,
    ]
    rows += [(f"'{each}'", number) for each, number in zip(FAR, numbers, strict=True)]
    rows.append(("NULL", (1 << 20) - 2))
    for day, number in rows:
        for land in ("'a'", "'b'", "NULL"):
            for age in ("1", "5", "NULL"):
                connection.execute(f"INSERT INTO t VALUES ({day}, {land}, {age}, {number})")
    return connection


def constant(random: Random, dates: bool) -> Expr:
    day = random.choice([*days(), date(2026, 1, 1), date(1500, 2, 3), date(2026, 1, 5), date(9999, 12, 31)])
    if dates or random.random() < 0.5:
        return Cast(Constant(day.isoformat(), VARCHAR), DATE if dates else TIMESTAMP, bounded=True)
    clock = random.choice([timedelta(), timedelta(hours=13, minutes=30), timedelta(hours=4)])
    text = (datetime(day.year, day.month, day.day) + clock).isoformat(" ")
    return Cast(Constant(text, VARCHAR), TIMESTAMP, bounded=True)


@cache
def form(name: str, unit: str, dates: bool) -> Form:
    kind = "DATE" if dates else "TIMESTAMP"
    arguments = (f"={unit}", kind) if unit else (kind,)
    (found,) = [each for each in listed_forms()[name] if each.arguments == arguments]
    return found


def leaf(random: Random, dates: bool) -> Expr:
    """Return a condition on the date, or on another column."""
    choice = random.random()
    if choice < 0.2:
        return random.choice(
            [
                Binary("=", LAND, Constant("a", VARCHAR)),
                Binary(">", AGE, Constant(3, BIGINT)),
                IsNull(LAND),
                IsNull(AGE, negated=True),
            ]
        )
    value: Expr = DAY
    if choice < 0.4:
        unit = random.choice(["day", "week", "month", "quarter", "year"])
        made = form("date_trunc", unit, dates)
        value = Apply(made, (Constant(unit, VARCHAR), DAY))
    elif choice < 0.45:
        value = Apply(form("year", "", dates), (DAY,))
        number = Constant(random.choice([2025, 2026, 2027, 1500]), BIGINT)
        return Binary(random.choice(["=", "<", "<=", ">", ">=", "<>"]), value, number)
    if choice > 0.9:
        return IsNull(value, negated=random.random() < 0.5)
    if choice > 0.8:
        return InList(value, tuple(constant(random, dates) for _ in range(random.randrange(1, 4))))
    if choice > 0.7:
        return Between(value, constant(random, dates), constant(random, dates))
    words = ["=", "<", "<=", ">", ">=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
    sides = (value, constant(random, dates))
    return Binary(random.choice(words), *(sides if random.random() < 0.8 else sides[::-1]))


def condition(random: Random, dates: bool, depth: int = 3) -> Expr:
    if depth == 0 or random.random() < 0.3:
        return Paren(leaf(random, dates))
    if random.random() < 0.25:
        return Paren(Not(condition(random, dates, depth - 1)))
    left, right = condition(random, dates, depth - 1), condition(random, dates, depth - 1)
    return Paren(Binary(random.choice(["AND", "OR"]), left, right))


def rule_of(connection: duckdb.DuckDBPyConnection, *, dates: bool) -> PartConditions:
    @cache
    def evaluate(text: str) -> object:
        return connection.execute(f"SELECT {text}").fetchone()[0]  # type: ignore[index]

    return PartConditions(Calendar("week"), {DAY: False}, dates, lambda expr: evaluate(duckdb_sql(expr)))


def computed(connection: duckdb.DuckDBPyConnection, conditions: list[Expr]) -> list[Truths]:
    """Return for which parts conditions are true, false and NULL for some row."""
    cells = ", ".join(
        f"bool_or(coalesce({text}, FALSE)), bool_or(coalesce(NOT {text}, FALSE)), bool_or({text} IS NULL)"
        for text in map(duckdb_sql, conditions)
    )
    rows = connection.execute(f"SELECT part, {cells} FROM t GROUP BY part").fetchall()
    found = []
    for place in range(len(conditions)):
        sets = [
            PartSet.of(*((row[0], row[0]) for row in rows if row[1 + 3 * place + which]))
            for which in range(3)
        ]
        found.append(Truths(*sets))
    return found


def compare(follow: Callable[[PartConditions, Expr], Truths], number: int, dates: bool) -> tuple[int, int]:
    """Return how many conditions were followed wrongly, and how many exactly for what they can be true."""
    connection, random = grid(dates), Random(f"{dates}{number}")
    rule = rule_of(connection, dates=dates)
    parts = PartSet.of(*((n, n) for (n,) in connection.execute("SELECT DISTINCT part FROM t").fetchall()))
    wrong = exact = 0
    for _ in range(number // AT_ONCE):
        conditions = [condition(random, dates) for _ in range(AT_ONCE)]
        for each, truth in zip(conditions, computed(connection, conditions), strict=True):
            found = follow(rule, each)
            wrong += not (
                truth.true <= found.true and truth.false <= found.false and truth.null <= found.null
            )
            exact += found.true & parts == truth.true
    return wrong, exact


@pytest.mark.parametrize("dates", [True, False])
def test_no_part_is_missing(dates: bool) -> None:
    wrong, exact = compare(PartConditions.follow, CONDITIONS, dates)
    assert wrong == 0
    assert exact >= 0.94 * CONDITIONS


def not_is_the_rest(rule: PartConditions, expr: Expr) -> Truths:
    """What NOT leaves is all that its condition can not be true for."""
    if isinstance(expr, Paren):
        return not_is_the_rest(rule, expr.inner)
    if isinstance(expr, Not):
        found = not_is_the_rest(rule, expr.operand)
        every = PartSet.of((0, (1 << 20) - 1))
        rest = [(low, high) for low, high in _gaps(found.true)]
        return replace(found.negate(), true=PartSet.of(*rest) & every)
    if isinstance(expr, Binary) and expr.operator in ("AND", "OR"):
        left, right = not_is_the_rest(rule, expr.left), not_is_the_rest(rule, expr.right)
        return left.both(right) if expr.operator == "AND" else left.either(right)
    return rule.follow(expr)


def _gaps(parts: PartSet) -> list[tuple[int, int]]:
    ends = [-1, *(end for pair in parts.ranges for end in pair), 1 << 20]
    return [(ends[i] + 1, ends[i + 1] - 1) for i in range(0, len(ends), 2)]


def or_takes_the_left(rule: PartConditions, expr: Expr) -> Truths:
    """OR is true where its first side is, whatever the other says."""
    if isinstance(expr, Paren):
        return or_takes_the_left(rule, expr.inner)
    if isinstance(expr, Binary) and expr.operator in ("AND", "OR"):
        left, right = or_takes_the_left(rule, expr.left), or_takes_the_left(rule, expr.right)
        return left.both(right) if expr.operator == "AND" else replace(left.either(right), true=left.true)
    return rule.follow(expr)


@pytest.mark.parametrize("wrong", [not_is_the_rest, or_takes_the_left])
def test_wrong_rules_are_found(wrong: Callable[[PartConditions, Expr], Truths]) -> None:
    assert compare(wrong, 200, True)[0] > 5


@pytest.mark.parametrize("every", ["day", "week", "month", "quarter", "year"])
@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP"])
def test_a_guard_keeps_the_parts_that_it_says(every: Every, kind: str) -> None:
    calendar, random = Calendar(every), Random(every + kind)
    guards = _Guards(Home("user", "signups", "d", every, kind), frozenset(), Rules(lambda _: None), None)
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t (d {kind}, part INTEGER)")
    shown = [*days(), *(date(y, m, 1) for y in (999, 1000, 1001, 2020, 2999, 3000) for m in (1, 6, 12))]
    for day in shown:
        connection.execute(f"INSERT INTO t VALUES ('{day.isoformat()}'::{kind}, {calendar.number(day)})")
    connection.execute(
        f"INSERT INTO t VALUES (NULL, {(1 << 20) - 2}), ('infinity', {(1 << 20) - 3}), ('-infinity', 0)"
    )
    numbers = sorted(n for (n,) in connection.execute("SELECT DISTINCT part FROM t").fetchall())
    for _ in range(60):
        chosen = PartSet.of(
            *(tuple(sorted(random.choices(numbers, k=2))) for _ in range(random.randrange(1, 3)))
        )
        text = duckdb_sql(guards._condition(DAY, chosen))
        kept = {n for (n,) in connection.execute(f"SELECT DISTINCT part FROM t WHERE {text}").fetchall()}
        assert kept == {n for n in numbers if n in chosen}, text
