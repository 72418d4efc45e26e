"""What nodes say of which groups there are, on random rows with and without each unit.

The checker believes the lemmas of `OnDomain`, `OfDomain`, `Decided` and `CellsOfDecided`, so what is written
is counted here: groups of a domain are the same without each unit, and every number moves by at most what is
certified. Each wrong text is noticed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

import pytest
from kernel.claims import Broken, broken, count, uncut
from kernel.claims import Counted as Found
from kernel.counting import FACTS, FIELDS, UNITS, Counting, values

from dpsql.kernel.check import Keys, NotCertified, certify
from dpsql.kernel.tree import (
    Candidates,
    Cast,
    CellsOfDecided,
    Column,
    Constant,
    Counted,
    Decided,
    Derived,
    FewUnits,
    IsNull,
    Item,
    Marked,
    Numbered,
    OfDomain,
    OnDomain,
    Query,
    Range,
    Sampled,
    Select,
    SetOperation,
    Units,
    Values,
    Weighted,
    WeightedRows,
    duckdb_sql,
)
from dpsql.kernel.tree.exact import whole
from dpsql.types import BIGINT, BOOLEAN, NULL

V, PLACE = Column("", "v"), Column("", "o")


def numbers(most: int = 2, keys: int = 2) -> Weighted:
    """Groups by a number and a truth value: the units of each, and those that are kept in few."""
    return Weighted(values(-3, 3), keys, FIELDS, ((Units((), False),), (FewUnits((), False, most),)))


def listed(*shown: int, null: bool = False, twice: bool = False) -> Candidates:
    """Numbers with their places, perhaps with NULL as the last, or one of them twice."""
    i = Column("", "i")
    rows = tuple((whole(v), whole(place)) for place, v in enumerate((*shown, *shown[:1] * twice)))
    source = Values(rows, "r", ("v", "o")) if len(shown) < 3 else Range(0, len(shown))
    own = Select((Item(V, "v"), Item(PLACE, "o")), source)
    if isinstance(source, Range):
        own = Select((Item(Cast(i, BIGINT), "v"), Item(i, "o")), source)
    last = Select((Item(Constant(None, NULL), "v"), Item(whole(100), "o")))
    cells = Select(tuple(Item(Column("d", n)) for n in "vo"), Derived(own, "d"))
    return Candidates(SetOperation(cells, "UNION ALL", last) if null else own, (0,), null, ordered=True)


def truths(null: bool = True) -> Candidates:
    """TRUE and FALSE, and NULL."""
    rows = ((Constant(False, BOOLEAN), whole(0)), (Constant(True, BOOLEAN), whole(1)))
    own = Select((Item(V, "v"),), Values(rows, "r", ("v", "o")))
    last = Select((Item(Constant(None, NULL), "v"),))
    return Candidates(SetOperation(own, "UNION ALL", last) if null else own, (1,), null, ordered=False)


def on_domain(rng: Random) -> Query:
    domains = listed(*range(rng.randrange(1, 5)), null=rng.random() < 0.5), truths(rng.random() < 0.5)
    return OnDomain(numbers(), 2, domains, places=rng.random() < 0.5)


def with_outside(rng: Random) -> Query:
    """Groups of candidates, and all other rows as the last one."""
    domains = listed(*range(rng.randrange(1, 4)), null=rng.random() < 0.5), truths(rng.random() < 0.5)
    rows, parts = values(-3, 3), domains
    if rng.random() < 0.3:
        parts = Numbered((0,), None, rng.random() < 0.5, (0, 1)), domains[1]  # type: ignore[assignment]
    counted: tuple[tuple[Counted, ...], ...] = ((WeightedRows((), 2),), (Units((), False),))
    counted = counted[: rng.choice((1, 2))]  # rows alone may be shared by units
    marked = Marked(rows, 2, FIELDS, parts)
    groups = Weighted(marked, 3, FIELDS, counted, rows if rng.random() < 0.7 else None)
    return OnDomain(groups, len(counted), domains, places=True, outside=True)


def cells_on_domain(rng: Random) -> Query:
    return OnDomain(Sampled(values(0, 3), 1, 2), 2, (listed(0, 1, 2, null=True),), places=True)


def of_domain(rng: Random) -> Query:
    null = rng.choice((None, 7, -1))
    of_truths = Select((Item(V, "v0"), Item(PLACE, "p")), truths(False).query.source)  # type: ignore[attr-defined]
    parts = Numbered((0,), None, ends=(0, rng.randrange(3)), null=null), Numbered((1,), of_truths)
    return OfDomain(numbers(), 2, parts)


def decided(rng: Random) -> Query:
    by = rng.choice(((), (), (0,), (1,)))
    domains = (listed(0, 1, 2, null=True), truths()) if by else ()
    return Decided(numbers(), 2, 2, 1, rng.choice((None, 1, 3)) if not by else 1, by, domains)


def cells_of_decided(rng: Random) -> Query:
    groups = Decided(Weighted(values(0, 3), 1, FIELDS, ((Units((), False),),)), 1, 1, 0)
    return CellsOfDecided(groups, Sampled(values(0, 3), 1, rng.choice((1, 2))))


DRAWN = [on_domain, with_outside, cells_on_domain, of_domain, decided, cells_of_decided]


@pytest.fixture(scope="module")
def counting() -> Counting:
    return Counting()


def found(counting: Counting, query: Query, change: Callable[[str], str] = str) -> str:
    """Say what does not hold that is certified of a query; `change` makes its text another one."""
    claim = certify(query, FACTS)
    sql = change(duckdb_sql(uncut(query, claim)))

    def counted(less: str) -> Found:
        (statement,) = counting.connection.extract_statements(re.sub(r'main\."t"', less, sql))
        return count(counting.connection, statement, claim)

    try:
        every = counted("t")
        for unit in range(UNITS):
            said = broken(claim, every, counted(f"(SELECT * FROM t WHERE u IS DISTINCT FROM {unit})"))
            if said:
                return said
    except Broken as said:
        return str(said)
    return ""


@pytest.mark.parametrize("draw", DRAWN, ids=lambda draw: draw.__name__)
@pytest.mark.sampled(2)
def test_what_is_certified_of_groups_holds(counting: Counting, draw: Callable[[Random], Query]) -> None:
    rng = Random(5)
    for _ in range(12):
        counting.fill(rng)
        query = draw(rng)
        assert found(counting, query) == "", duckdb_sql(query)


def test_the_kinds_of_groups_of_nodes() -> None:
    kinds = [certify(draw(Random(1)), FACTS).keys for draw in DRAWN]
    assert kinds == [Keys.DECLARED, Keys.DECLARED, Keys.CELLS, Keys.SPARSE, Keys.UNKNOWN, Keys.UNKNOWN]


TEXTS = [
    (on_domain, " LEFT JOIN", " JOIN"),
    (on_domain, "COALESCE(g.n0, 0)", "g.n0"),
    (on_domain, r"(g\.k0 [A-Z= ]+) d0\.v", r"(TRUE OR \1 d0.v)"),
    (with_outside, r"x\.k0 [A-Z= ]+ d0\.v", "TRUE"),
    (with_outside, r" AND g\.k2 = c\.k2", ""),
    (cells_on_domain, " UNION ALL SELECT NULL AS v", " UNION ALL SELECT 1 AS v"),
    (of_domain, r"COALESCE\(g\.k0, \(?-?\d+\)?\)", "COALESCE(g.k0, 0)"),
    (of_domain, "d1.p AS o1", "0 AS o1"),
    (cells_of_decided, "COALESCE(c.n1, 0)", "COALESCE(c.n1, 0) * 9"),
    (cells_of_decided, "g.k0 IS NOT DISTINCT FROM c.k0", "TRUE"),
]


@pytest.mark.parametrize(("draw", "right", "wrong"), TEXTS)
@pytest.mark.sampled(5)
def test_a_wrong_text_is_noticed(
    counting: Counting, draw: Callable[[Random], Query], right: str, wrong: str
) -> None:
    rng = Random(3)
    pattern = right if "\\" in right or "[" in right else re.escape(right)
    for _ in range(60):
        counting.fill(rng)
        query = draw(rng)
        if found(counting, query, lambda text: re.sub(pattern, wrong, text)):
            return
    pytest.fail("not noticed")


def wrong_nodes() -> Iterator[tuple[str, Query]]:
    domains = listed(0, 1, null=True), truths()
    right = OnDomain(numbers(), 2, domains, places=True)
    rows = Select((Item(Column("b", "k", stored=True), "v"),), values(0, 3).source, distinct=True)  # type: ignore[attr-defined]
    yield "one value twice", replace(right, domains=(listed(0, 1, twice=True), truths()))
    yield "NULL twice", replace(right, domains=(nulls(nulls(listed(0, 1))), truths()))
    yield "values of rows", replace(right, domains=(replace(domains[0], query=rows, ordered=False), truths()))
    yield "a key without values", replace(right, domains=domains[:1])
    yield "a key twice", replace(right, domains=(*domains, domains[1]))
    yield "values of another type", replace(right, domains=(replace(domains[1], keys=(0,)), truths()))
    yield "one number of two", replace(right, numbers=1)
    yield (
        "a truth value that is none",
        replace(right, domains=domains[:1], outside=True, counts=rows_by_number()),
    )
    yield "groups of some", replace(right, counts=Decided(numbers(), 2, 2, 0))
    yield "a number that is none", Decided(numbers(), 2, 2, 2)
    less = Weighted(values(-3, 3), 2, FIELDS, ((Units((), False), Units((), False)),))
    yield "a number below 0", Decided(less, 2, 1, 0)
    yield "a partition of no key", Decided(numbers(), 2, 2, 0, 1, (2,), domains)
    yield "the largest of the largest", Decided(Decided(numbers(), 2, 2, 0, 1), 2, 2, 0, 1)
    parts = Numbered((0,), None, ends=(0, 2)), Numbered((1,), listed(0, 1).query)
    yield "numbers that are not there", OfDomain(numbers(), 2, parts)
    inside = Numbered((0,), None, ends=(0, 2), null=1)
    yield "NULL with the number of a value", OfDomain(numbers(keys=1), 2, (inside,))
    yield "numbers of a truth value", OfDomain(numbers(), 2, (parts[0], Numbered((1,), None, ends=(0, 1))))
    same = Select((Item(V, "v0"), Item(whole(1), "p")), truths(False).query.source)  # type: ignore[attr-defined]
    yield "one number for two values", OfDomain(numbers(), 2, (parts[0], Numbered((1,), same)))
    groups = Decided(numbers(keys=1), 1, 2, 0)
    yield "cells of groups of two numbers", CellsOfDecided(groups, Sampled(values(0, 3), 1, 1))
    one = Decided(Weighted(values(0, 3), 1, FIELDS, ((Units((), False),),)), 1, 1, 0)
    yield "cells that are none", CellsOfDecided(one, numbers(keys=1))
    yield "cells of the largest", CellsOfDecided(replace(one, most=1), Sampled(values(0, 3), 1, 1))
    marked = Marked(values(-3, 3), 2, FIELDS, domains)
    weighed = Weighted(marked, 3, FIELDS, ((WeightedRows((), 2),),), values(-3, 3))
    yield "other rows by which units are measured", replace(weighed, alone=values(-2, 3))
    repeated = replace(marked, domains=(listed(0, 1, twice=True), domains[1]))
    yield "rows that are there twice", OnDomain(replace(weighed, rows=repeated), 1, domains, True, True)
    yield "marks of rows without units", Marked(Sampled(values(0, 3), 2, 1), 2, 1, domains)
    yield "groups of groups", Select((Item(Column("g", "k0")),), Derived(right, "g"))
    yield "a row of each group", Select((Item(whole(1), "n0"),), Derived(one, "g"), IsNull(Column("g", "k0")))


def nulls(of: Candidates) -> Candidates:
    cells = Select(tuple(Item(Column("d", n)) for n in "vo"), Derived(of.query, "d"))
    last = Select((Item(Constant(None, NULL), "v"), Item(whole(100), "o")))
    return replace(of, query=SetOperation(cells, "UNION ALL", last), null=True)


def rows_by_number() -> Weighted:
    """Groups by two numbers."""
    rows = values(-3, 3)
    assert isinstance(rows, Select)
    made = replace(rows, items=tuple(replace(i, expr=whole(1)) if i.name == "k1" else i for i in rows.items))
    return replace(numbers(), rows=made)


WRONG = dict(wrong_nodes())


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_node_is_refused(name: str) -> None:
    with pytest.raises(NotCertified):
        certify(WRONG[name], FACTS)
