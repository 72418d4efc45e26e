"""What nodes of searches say of one unit, on random rows with and without each: `Scores`, `Above`, `Beyond`.

The checker believes their claims, so what is written is counted here. Each claim is reached, and each wrong
text is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from kernel.claims import ends_of_row
from kernel.counting import Counting, broken, claimed, cut, values

from dpsql.kernel.check import Change
from dpsql.kernel.check.certificate import Groups
from dpsql.kernel.tree import (
    Above,
    Aggregate,
    Beyond,
    Binary,
    Call,
    Cast,
    Column,
    Derived,
    Expr,
    IsNull,
    Item,
    Query,
    Sampled,
    Scores,
    Select,
    Sums,
    bound_searches,
    duckdb_sql,
)
from dpsql.kernel.tree.exact import whole
from dpsql.types import BIGINT

U = Column("s", "u")


@pytest.fixture(scope="module")
def counting() -> Counting:
    return Counting()


def of_units(name: str, value: Expr) -> Select:
    """One row for each unit, with an aggregate of its rows."""
    return Select((Item(value, name),), Derived(values(-9, 9), "s"), IsNull(U, negated=True), group=(U,))


def total(factor: int) -> Expr:
    """The total of a unit, which may be large."""
    summed = Call("COALESCE", (Cast(Aggregate("SUM", (Column("s", "f0"),)), BIGINT), whole(0)))
    return Binary("*", cut(summed, -500, 500), whole(factor))


def search(
    rng: Random, sums: Sums | None = None, *, server: bool | None = None, fine: int | None = 1
) -> Scores:
    """Draw a search of the bounds of totals, or of their sizes."""
    sums = rng.choice((*Sums,)) if sums is None else sums
    signed = rng.random() < 0.7
    own = total(rng.choice((1, 3, 50)))
    units = of_units("t", own) if signed else of_units("a", Call("abs", (own,)))
    bounds = (0,)[: rng.randrange(2)] + tuple(1 << power for power in range(rng.randrange(1, 16)))
    wide, server = rng.random() < 0.5, rng.random() < 0.5 if server is None else server
    fine = rng.choice((None, 1, 4)) if fine else None
    return Scores(units, bounds, rng.random() < 0.8, wide, sums, fine, server, signed)


def moved_too_far(
    counting: Counting, query: Scores, groups: Groups, reached: set[str], text: str = ""
) -> bool:
    """Whether a unit moves a number of its row by more than is claimed of the row, or several rows."""
    for changes in keyed(counting, text or duckdb_sql(query)):
        moved = {row: each for row, each in changes.items() if any(each)}
        if len(moved) > 1:
            return True
        for row, each in moved.items():
            for (name, claim), change in zip(groups.numbers.items(), each, strict=True):
                known = Change(name, claim.low, claim.high)
                low, high = ends_of_row(groups.bounds, groups.fine, row, known)
                if not low <= change <= high:
                    return True
                if change and change in (low, high):
                    reached.add(name)
    return False


def keyed(counting: Counting, sql: str) -> Iterator[dict[int, tuple[int, ...]]]:
    """The changes of all rows of a search, for each unit that is added."""
    for every, less in counting.pairs(sql, 1):
        none = (0,) * len(next(iter(every.values()), ()))
        yield {
            key[0]: tuple(a - b for a, b in zip(every.get(key, none), less.get(key, none), strict=True))
            for key in {*every, *less}
        }


@pytest.mark.parametrize("rounds", [30, pytest.param(1500, marks=pytest.mark.slow)])
def test_a_search_moves_in_one_row_as_it_is_claimed(counting: Counting, rounds: int) -> None:
    rng, reached = Random(rounds), set[str]()
    for _ in range(rounds):
        counting.fill(rng)
        query = search(rng)
        assert not moved_too_far(counting, query, claimed(query), reached), duckdb_sql(query)
    assert reached == {f"n{i}" for i in range(1, 7)}


def replaced(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text, text
        return text.replace(old, new)

    return change


SIGNED = {"sums": Sums.SIGNED, "fine": None}
TEXTS: dict[str, tuple[dict[str, Any], Callable[[str], str]]] = {
    "a bound that is reached is exceeded by rows": ({"server": True}, replaced("w.a > ", "w.a >= ")),
    "no upper end of a row": ({"server": True}, replaced(" AND w.a <= ", " AND -w.a <= ")),
    "the bound is not taken off": (
        {"sums": Sums.SIZES},
        replaced("COUNT(*) AS HUGEINT) * ", "COUNT(*) AS HUGEINT) * 0 * "),
    ),
    "a sign is left out": (SIGNED, replaced(") * 2)", ") * 0)")),
    "a unit counts twice": ({}, replaced("COUNT(*) AS n1", "2 * COUNT(*) AS n1")),
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.sampled(3)
def test_a_wrong_text_of_a_search_is_noticed(counting: Counting, name: str) -> None:
    drawn, change = TEXTS[name]
    rng = Random(3)
    for _ in range(300):
        counting.fill(rng)
        query = search(rng, **drawn)
        if name == "a sign is left out" and not query.signed:
            continue
        if moved_too_far(counting, query, claimed(query), set(), change(duckdb_sql(query))):
            return
    pytest.fail("not noticed")


def above(rng: Random) -> Query:
    return Above(of_units("a", total(1)), tuple(rng.sample(range(-9, 20), 3)))


def beyond(rng: Random) -> Query:
    low = rng.randrange(-3, 2)
    place = Select((Item(Column("y", "u")), Item(Column("y", "f0"))), Derived(values(-4, 4), "y"))
    high, width = low + rng.randrange(3), rng.randrange(1, 6)
    return Beyond(place, low, high, width, rng.randrange(1, 4), by_unit=True)


def single(rng: Random) -> Query:
    return Sampled(values(0, 3), rng.randrange(3), 1, rng.choice(("least", "greatest")))


@pytest.mark.parametrize("draw", [above, beyond, single])
@pytest.mark.sampled(3)
def test_they_move_as_it_is_claimed(counting: Counting, draw: Callable[[Random], Query]) -> None:
    rng, reached = Random(5), set[int]()
    for _ in range(20):
        counting.fill(rng)
        query = draw(rng)
        groups = claimed(query)
        assert not broken(counting, query, groups, reached), duckdb_sql(query)
    assert reached == {*range(len(groups.numbers))}


OTHERS: dict[str, tuple[Callable[[Random], Query], Any, str, Any]] = {
    "rests of other numbers": (beyond, bound_searches, "_rest", lambda every, parts: every),
    "values that are not cut": (beyond, bound_searches, "clamp", lambda value, most: value),
    "all rows of a unit": (single, Sampled, "single", property(lambda self: self.counted)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_wrong_text_of_others_is_noticed(
    counting: Counting, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    draw, *place = OTHERS[name]
    rng = Random(9)
    for _ in range(200):
        counting.fill(rng)
        query = draw(rng)
        groups = claimed(query)
        monkeypatch.setattr(*place)
        wrong = duckdb_sql(draw_again(query))
        monkeypatch.undo()
        if broken(counting, query, groups, set(), wrong):
            return
    pytest.fail("not noticed")


def draw_again(query: Query) -> Query:
    """The same node, which is not written yet."""
    return type(query)(*(getattr(query, name) for name in query.__match_args__))
