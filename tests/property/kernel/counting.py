"""Random rows of units, and what nodes count of them with and without each: it moves as it is claimed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from typing import Any

import duckdb

from dpsql.kernel.check.certificate import Groups, Together
from dpsql.kernel.check.proof import Proof
from dpsql.kernel.check.queries import relation_of_query
from dpsql.kernel.check.totality import check_total
from dpsql.kernel.facts import ByColumn, Facts, TableFacts
from dpsql.kernel.tree import (
    Binary,
    Call,
    CappedRows,
    CappedSum,
    Case,
    Column,
    Counted,
    Expr,
    FewUnits,
    IsNull,
    Item,
    KeptValues,
    Moment,
    Query,
    RowSum,
    Scan,
    Select,
    UnitMean,
    Units,
    UnitValue,
    WeightedRows,
    duckdb_sql,
    kept,
)
from dpsql.kernel.tree.exact import whole
from dpsql.types import BIGINT, BOOLEAN, SqlType

__all__ = ["COUNTED", "DECIMAL", "FIELDS", "Counting", "broken", "claimed", "cut", "values"]

COUNTED: tuple[type[Counted], ...] = (
    *(Units, FewUnits, CappedRows, KeptValues, WeightedRows),
    *(UnitValue, UnitMean, CappedSum, RowSum, Moment),
)
"""All that is counted."""
DECIMAL = SqlType("DECIMAL", 9, 2)
STORED = (("u", BIGINT), ("k", BIGINT), ("x", BIGINT), ("d", DECIMAL), ("b", BOOLEAN))
FACTS = Facts((TableFacts("t", ByColumn("u"), STORED, frozenset(), kind="person"),))
UNITS, FIELDS = 4, 7
HOLDS = (True, False, None)


def stored(name: str) -> Column:
    return Column("b", name, stored=True)


def cut(x: Expr, low: int, high: int) -> Expr:
    return Call("LEAST", (Call("GREATEST", (x, whole(low))), whole(high)))


def values(low: int, high: int) -> Query:
    """Rows with a unit: `k0`, `k1`, and a value, a DECIMAL, a condition, and a value where that holds."""
    own, holds = cut(stored("x"), low, high), stored("b")
    x = Case(((IsNull(stored("x"), negated=True), own),))
    place = Case(((IsNull(stored("x"), negated=True), cut(stored("x"), 0, high - low)),))
    columns = (x, stored("d"), holds, kept(x, (holds,)), stored("x"), place, kept(place, (holds,)))
    keys = (stored("k"), Binary(">", stored("x"), whole(0)))
    listed = (Item(stored("u"), "u"), *(Item(key, f"k{i}") for i, key in enumerate(keys)))
    listed += tuple(Item(column, f"f{i}") for i, column in enumerate(columns))
    return Select(listed, Scan("t", "b"), IsNull(stored("u"), negated=True))


Numbers = dict[tuple[Any, ...], tuple[int, ...]]


class Counting:
    """Random rows, and the numbers of groups with and without each unit."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 1; PRAGMA disable_optimizer")
        columns = "u BIGINT, k BIGINT, x BIGINT, d DECIMAL(9, 2), b BOOLEAN"
        self.connection.execute(f"CREATE TABLE t ({columns})")

    def fill(self, rng: Random) -> None:
        heavy, rows = rng.randrange(UNITS), []
        for unit in (*range(UNITS), None):
            for _ in range(rng.randrange(12) if unit == heavy else rng.randrange(4)):
                d = None if rng.random() < 0.2 else rng.randrange(-400, 400) / 100
                k, x = rng.choice((0, 1, 2, None)), rng.choice((*range(-6, 7), None))
                rows.append(
                    tuple("NULL" if v is None else str(v) for v in (unit, k, x, d, rng.choice(HOLDS)))
                )
        listed = ", ".join(f"({', '.join(row)})" for row in rows)
        self.connection.execute(f"DELETE FROM t; INSERT INTO t VALUES {listed or '(NULL, 0, 0, 0, NULL)'}")

    def groups(self, sql: str, keys: int) -> Numbers:
        found = self.connection.execute(sql).fetchall()
        made = {row[:keys]: row[keys:] for row in found}
        assert len(made) == len(found)
        return made

    def pairs(self, sql: str, keys: int) -> Iterator[tuple[Numbers, Numbers]]:
        """The numbers of all groups, with and without each unit."""
        every = self.groups(sql, keys)
        for unit in range(UNITS):
            without = f"(SELECT * FROM t WHERE u IS DISTINCT FROM {unit})"
            yield every, self.groups(re.sub(r'main\."t"', without, sql), keys)

    def changes(self, sql: str, keys: int) -> Iterator[list[tuple[int, ...]]]:
        """The changes of all groups, for each unit that is added."""
        for every, less in self.pairs(sql, keys):
            size = len(next(iter(every.values()), ()))
            none = (0,) * size
            yield [
                tuple(a - b for a, b in zip(every.get(key, none), less.get(key, none), strict=True))
                for key in {*every, *less}
            ]


def claimed(query: Query) -> Groups:
    """What the checker says of the numbers of a query."""
    proof = Proof(FACTS, check_total(query, FACTS), relation_of_query)
    found = relation_of_query(proof, query).groups
    assert found is not None
    return found


def broken(counting: Counting, query: Query, groups: Groups, reached: set[int], text: str = "") -> bool:
    """Whether a unit moves a number by more than is claimed; `reached` gets those moved so far."""
    numbers = [*groups.numbers.values()]
    for changes in counting.changes(text or duckdb_sql(query), len(groups.keys)):
        moved = [each for each in changes if any(each)]
        if groups.most is not None and len(moved) > groups.most:
            return True
        if any(_more_together(each, [*groups.numbers], changes) for each in groups.together):
            return True
        for place, number in enumerate(numbers):
            mine = [each[place] for each in changes] or [0]
            if min(mine) < number.low or max(mine) > number.high:
                return True
            if number.total is not None and sum(map(abs, mine)) > number.total:
                return True
            if max(map(abs, mine)) == max(-number.low, number.high) > 0:
                reached.add(place)
    return False


def _more_together(claim: Together, names: list[str], changes: list[tuple[int, ...]]) -> bool:
    """Whether numbers change by more than is claimed of them together."""
    places = [place for place, name in enumerate(names) if name in claim.columns]
    sums = [sum(abs(each[place]) for place in places) for each in changes]
    return max(sums, default=0) > claim.each or (claim.total is not None and sum(sums) > claim.total)
