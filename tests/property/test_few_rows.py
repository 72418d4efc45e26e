"""Rows that no unit owns: trees of groups of rows of many units, counted with all units and without each.

Each constant of the rules is reached, by rows made for it; what is nearly the same has no certificate.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import duckdb
import pytest
from fuzz.mutant import Mutant

from dpsql.kernel.check import NotCertified, certify
from dpsql.kernel.facts import ByColumn, Facts, TableFacts
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Bounded,
    Call,
    Case,
    Cast,
    Column,
    Constant,
    Derived,
    Expr,
    FirstRows,
    IsNull,
    Item,
    OrderTerm,
    Paren,
    Query,
    Scan,
    Select,
    Window,
    duckdb_sql,
)
from dpsql.kernel.tree.exact import clamp, saturate, whole
from dpsql.types import BIGINT, INTEGER

STORED = (("u", BIGINT), ("k", BIGINT), ("j", BIGINT))
FACTS = Facts((TableFacts("t", ByColumn("u"), STORED, frozenset(), kind="person"),))
COUNT = Aggregate("COUNT")
THERE = IsNull(Column("b", "u", stored=True), negated=True)


def stored(name: str) -> Column:
    return Column("b", name, stored=True)


def rows(most: int | None, by: tuple[str, ...] = ("k0",)) -> Query:
    """The rows of units by `k0` and `k1`, each unit kept to so many values of `by`; None: to any number."""
    columns = (Item(stored("u"), "u"), Item(stored("k"), "k0"), Item(stored("j"), "k1"))
    every = Select(columns, Scan("t", "b"), THERE)
    if most is None:
        return every
    pairs = Select(
        tuple(Item(Column("s", n), n) for n in ("u", *by)),
        Derived(every, "s"),
        IsNull(Column("s", "u"), negated=True),
        distinct=True,
    )
    return Bounded(every, ("k0", "k1"), by, most, pairs)


def groups(of: Query, *numbers: Expr, by: tuple[str, ...] = ("k0",)) -> Select:
    """Groups by columns, with numbers `a0`, .."""
    keys = tuple(Item(Column("y", name), name) for name in by)
    places = tuple(Constant(i + 1, INTEGER) for i in range(len(by)))
    return Select((*keys, *(Item(n, f"a{i}") for i, n in enumerate(numbers))), Derived(of, "y"), group=places)


def number(of: Query, where: Expr | None = None, kept: Expr | None = None) -> Select:
    return Select((Item(replace(COUNT, filter=kept), "n0"),), Derived(of, "g"), where)


def above(column: str, least: int) -> Expr:
    return Binary(">", Column("g", column), whole(least))


def regrouped(of: Query) -> Select:
    """How many numbers of rows exactly one group has."""
    column = Column("y", "a0")
    again = Select((Item(column, "k0"), Item(COUNT, "a0")), Derived(of, "y"), group=(Constant(1, INTEGER),))
    return number(again, Binary("=", Column("g", "a0"), whole(1)))


def total(of: Query, value: Expr, where: Expr | None = None) -> Select:
    """The sum of a value over groups."""
    return Select((Item(saturate(Aggregate("SUM", (value,))), "n0"),), Derived(of, "g"), where)


def one_of(column: str, *, odd: int, even: int) -> Expr:
    """One whole number for odd ones, another for even ones, and for NULL."""
    condition = Binary("=", Paren(Binary("%", Column("g", column), whole(2))), whole(1))
    return Case(((condition, whole(odd)),), whole(even))


def first(most: int, number: int, *, descending: bool = False) -> FirstRows:
    """The first rows by `k0`, of units that each keep so many."""
    return FirstRows(rows(None), ("k0", "k1"), (("k0", descending, descending),), most, number)


SIZE = groups(rows(2), COUNT)
CERTIFIED: dict[str, tuple[Query, tuple[int, int]]] = {
    "different keys": (number(groups(rows(2))), (0, 2)),
    "different keys of three": (number(groups(rows(3, ("k0", "k1")), by=("k0", "k1"))), (0, 3)),
    "different keys that meet a condition": (number(groups(rows(2)), above("k0", 1)), (0, 2)),
    "groups of more rows": (number(SIZE, above("a0", 1)), (-2, 2)),
    "groups of so many rows": (number(SIZE, Binary("=", Column("g", "a0"), whole(2))), (-2, 2)),
    "a FILTER": (number(SIZE, kept=above("a0", 2)), (-2, 2)),
    "a projection": (
        number(Select((Item(Column("y", "a0"), "a0"),), Derived(SIZE, "y")), above("a0", 1)),
        (-2, 2),
    ),
    "sizes that are equal to a number": (
        number(
            Select(
                (Item(Column("y", "k0"), "k0"),),
                Derived(SIZE, "y"),
                Binary("=", Column("y", "a0"), whole(2)),
            )
        ),
        (-2, 2),
    ),
    "sizes of one group": (regrouped(SIZE), (-4, 4)),
    "a sum of sizes of which no more counts": (total(SIZE, clamp(Column("g", "a0"), whole(1))), (-2, 2)),
    "a sum with signs": (total(SIZE, one_of("a0", odd=1, even=-1)), (-4, 4)),
    "a sum of values of one sign": (total(SIZE, one_of("a0", odd=-2, even=-1)), (-4, 4)),
    "a sum with a condition": (total(SIZE, one_of("a0", odd=3, even=1), above("a0", 1)), (-6, 6)),
    "a sum of keys": (total(groups(rows(2)), one_of("k0", odd=3, even=-1)), (-2, 6)),
    "a sum over the first rows": (total(first(2, 3), one_of("k1", odd=3, even=-1)), (-8, 8)),
    "a sum over the last rows": (total(first(1, 3, descending=True), one_of("k1", odd=2, even=0)), (-2, 2)),
    "fewer first rows than a unit keeps": (total(first(3, 2), one_of("k1", odd=2, even=0)), (-4, 4)),
    "the number of first rows": (number(first(2, 3)), (-2, 2)),
    "first rows that meet a condition": (number(first(2, 3), above("k1", 0)), (-2, 2)),
    "parts of keys": (
        number(groups(groups(rows(2, ("k0", "k1")), by=("k0", "k1")))),
        (0, 2),
    ),
}
"""Trees, and the least and the greatest change of their number."""
_ORDER = (OrderTerm(Column("y", "k0")),)
REFUSED: dict[str, Query] = {
    "no bound on groups": number(groups(rows(None))),
    "a bound on other groups": number(groups(rows(2, ("k1",)))),
    "a window over the groups": number(
        Select((Item(Window(COUNT), "a0"),), Derived(SIZE, "y")), above("a0", 3)
    ),
    "a number of each group": number(
        Select((Item(Window(Call("ROW_NUMBER", ()), (), _ORDER), "a0"),), Derived(SIZE, "y")), above("a0", 1)
    ),
    "a window in the groups": number(groups(rows(2), Window(COUNT)), above("a0", 1)),
    "different sizes without their groups": number(
        Select((Item(Column("y", "a0"), "a0"),), Derived(SIZE, "y"), distinct=True)
    ),
    "the first groups": number(replace(SIZE, order=(OrderTerm(Column("y", "k0")),), limit=1)),
    "the first rows of all": number(
        Select((Item(Column("y", "k0"), "k0"),), Derived(rows(2), "y"), order=_ORDER, limit=3)
    ),
    "the rows of a rank among all": number(
        Select(
            (Item(Column("y", "u"), "u"), Item(Window(Call("RANK", ()), (), _ORDER), "a0")),
            Derived(rows(2), "y"),
        ),
        above("a0", 1),
    ),
    "first rows of units and of nobody": number(
        replace(first(2, 3), rows=Select(rows(None).items, Scan("t", "b")))  # type: ignore[attr-defined]
    ),
    "first rows by what they do not have": number(replace(first(2, 3), order=(("k2", False, False),))),
    "first rows of a rank": number(
        Select(
            (Item(Column("y", "k0"), "k0"), Item(Window(Call("ROW_NUMBER", ()), (), _ORDER), "a0")),
            Derived(rows(2), "y"),
        ),
        Binary("<=", Column("g", "a0"), whole(2)),
    ),
    "a largest value": Select((Item(Aggregate("MAX", (Column("g", "a0"),)), "n0"),), Derived(SIZE, "g")),
    "different values": Select(
        (Item(Aggregate("COUNT", (Column("g", "a0"),), distinct=True), "n0"),), Derived(SIZE, "g")
    ),
    "the rows themselves": SIZE,
    "a sum that can overflow": Select(
        (Item(Cast(Aggregate("SUM", (Column("g", "a0"),)), BIGINT), "n0"),), Derived(SIZE, "g")
    ),
    "a sum of different values": Select(
        (Item(saturate(Aggregate("SUM", (Column("g", "a0"),), distinct=True)), "n0"),), Derived(SIZE, "g")
    ),
    "an average": Select(
        (Item(saturate(Aggregate("AVG", (clamp(Column("g", "a0"), whole(1)),))), "n0"),), Derived(SIZE, "g")
    ),
    "a sum and a number in one": Select(
        (Item(Binary("+", saturate(Aggregate("SUM", (clamp(Column("g", "a0"), whole(1)),))), COUNT), "n0"),),
        Derived(SIZE, "g"),
    ),
}


def fill(connection: duckdb.DuckDBPyConnection, rng: Random) -> None:
    """Draw rows: units alone in their groups, in groups of the same sizes, without a unit."""
    connection.execute("DELETE FROM everybody")
    units, keys = rng.randint(1, 4), rng.randint(1, 5)
    drawn: list[tuple[int | None, int | None, int]] = [
        (
            rng.choice((*range(units), None)),
            rng.choice((*range(keys), None)),
            rng.randrange(3),
        )
        for _ in range(rng.randint(0, 14))
    ]
    drawn += [(9, 9, 9), (9, 8, 8), (9, 7, 7)]
    if rng.random() < 0.3:  # groups of 5, 5, 3 and 3 rows, two of which are smaller without the unit 9
        sizes = ((1, 4), (2, 5), (3, 2), (4, 3))
        drawn = [(9, 1, 0), (9, 3, 0), *((10 * k + i, k, 0) for k, rest in sizes for i in range(rest))]
    connection.executemany("INSERT INTO everybody VALUES (?, ?, ?)", [[*row] for row in drawn])


def changes(query: Query, databases: int, most: int | None = None) -> set[int]:
    """Return by how much a unit changes the number, of random databases: more of them until it is `most`."""
    found, rng, sql = set[int](), Random(7), duckdb_sql(query)
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1; CREATE TABLE everybody (u BIGINT, k BIGINT, j BIGINT)")
        connection.execute("CREATE TABLE gone (u BIGINT)")
        connection.execute("CREATE VIEW t AS FROM everybody e ANTI JOIN gone USING (u)")
        for made in range(10 * databases):
            if made >= databases and (most is None or max(map(abs, found)) >= most):
                break
            fill(connection, rng)
            numbers = []
            for unit in (-1, 0, 1, 2, 3, 9):
                connection.execute("DELETE FROM gone")
                connection.execute("INSERT INTO gone VALUES (?)", [unit])
                (row,) = connection.execute(sql).fetchall()
                numbers.append(row[0])
            found |= {numbers[0] - less for less in numbers[1:]}
    return found


@pytest.mark.parametrize("name", CERTIFIED)
def test_the_constants_are_reached_and_not_exceeded(name: str) -> None:
    query, ends = CERTIFIED[name]
    (change,) = certify(query, FACTS).numbers
    assert (change.low, change.high) == ends
    found = changes(query, 40, max(-change.low, change.high))
    assert change.low <= min(found)
    assert max(found) <= change.high
    assert max(map(abs, found)) == max(-change.low, change.high), "the bound is not reached"


@pytest.mark.parametrize("name", REFUSED)
def test_what_reads_more_has_no_certificate(name: str) -> None:
    with pytest.raises(NotCertified):
        certify(REFUSED[name], FACTS)


WRONG = {
    "2s as s after altering": (
        "relation_over_few",
        "most *= 1 + source.alters",
        "most *= 1",
        regrouped(SIZE),
    ),
    "what is altered is added": (
        "relation_of_groups",
        "alters = any(has_aggregate(item.expr) for item in query.items)",
        "alters = False",
        CERTIFIED["groups of so many rows"][0],
    ),
    "few without a bound on groups": (
        "relation_of_groups",
        "within = [most for by, most in source.few if reads <= source.closure(by)]",
        "within = [2]",
        REFUSED["no bound on groups"],
    ),
    "a bound on other keys": (
        "relation_of_groups",
        "if reads <= source.closure(by)]",
        "if by]",
        REFUSED["a bound on other groups"],
    ),
    "the farther end alone of a sum": (
        "relation_over_few",
        "end = most * (high - low)",
        "end = most * max(-low, high)",
        CERTIFIED["a sum with signs"][0],
    ),
    "a sum of altered rows as of added ones": (
        "relation_over_few",
        "if source.alters else",
        "if False else",
        CERTIFIED["a sum with a condition"][0],
    ),
    "ends without 0": (
        "_ends_of_row",
        "return min(math.floor(value.low), 0), max(math.ceil(value.high), 0)",
        "return math.floor(value.low), math.ceil(value.high)",
        CERTIFIED["a sum of values of one sign"][0],
    ),
    "first rows of which one is a unit's": (
        "_few_of_first",
        "changes = min(node.most, node.first)",
        "changes = 1",
        CERTIFIED["a sum over the first rows"][0],
    ),
    "first rows that only leave": (
        "_few_of_first",
        "alters=True",
        "alters=False",
        CERTIFIED["a sum over the first rows"][0],
    ),
    "a window over few rows": (
        "_check_rows",
        "check_row(proof, expr, source) or has_window(expr)",
        "check_row(proof, expr, source)",
        REFUSED["a window over the groups"],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_noticed(name: str) -> None:
    function, right, wrong, query = WRONG[name]
    mutant = Mutant(name, (("kernel.check.few_rows", function, right, wrong),))
    with pytest.MonkeyPatch.context() as patch:
        mutant.apply(patch)
        (change,) = certify(query, FACTS).numbers
    found = changes(query, 40)
    assert min(found) < change.low or max(found) > change.high


def test_rows_up_to_a_rank_are_not_so_few() -> None:
    """Without one 9, the three 8 have rank 2: why ROW_NUMBER alone counts first rows."""
    ranked = "SELECT v, {} OVER (ORDER BY v DESC) AS r FROM (SELECT unnest({}) AS v)"
    sums = dict[tuple[str, int], object]()
    with duckdb.connect() as connection:
        for name in ("RANK()", "ROW_NUMBER()"):
            for values in ([9, 9, 8, 8, 8], [9, 8, 8, 8]):
                sql = f"SELECT sum(v)::BIGINT FROM ({ranked.format(name, values)}) WHERE r <= 2"
                ((sums[name, len(values)],),) = connection.execute(sql).fetchall()
    assert sums == {("RANK()", 5): 18, ("RANK()", 4): 33, ("ROW_NUMBER()", 5): 18, ("ROW_NUMBER()", 4): 17}
