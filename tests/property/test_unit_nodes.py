"""What nodes say of one unit, on random rows with and without each of them: `Weighted`, `Bounded`, `Sampled`.

The checker believes the lemmas of these nodes, so what is written is counted here: on rows without each unit,
every number of every group moves by at most what is claimed, all groups together too. Each claim is reached,
and each wrong text is noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from fuzz.unseen import UNSEEN_NODES
from kernel.counting import COUNTED, DECIMAL, FIELDS, Counting, broken, claimed, cut, values

from dpsql.kernel.check.certificate import Groups
from dpsql.kernel.tree import (
    Aggregate,
    Argument,
    Binary,
    Bounded,
    Call,
    CappedRows,
    CappedSum,
    Case,
    Column,
    Counted,
    Derived,
    Expr,
    FewUnits,
    IsNull,
    Item,
    KeptValues,
    Moment,
    Paren,
    Query,
    RowSum,
    Sampled,
    Select,
    UnitMean,
    Units,
    UnitValue,
    Weighted,
    WeightedRows,
    bounding,
    counted,
    duckdb_sql,
    row_shares,
)
from dpsql.kernel.tree.exact import furthest, huge, saturate, whole
from dpsql.types import BIGINT


def f(place: int) -> Column:
    return Column("s", f"f{place}")


def parts(rng: Random, low: int, width: int) -> list[Counted]:
    """Draw one of each that is counted."""
    most, sized = rng.randrange(1, 5), rng.choice((1, 1, 3))
    condition = (f(2),) if rng.random() < 0.4 else ()
    value, place = (f(3), f(6)) if condition else (f(0), f(5))
    cut_sum = cut(Call("COALESCE", (Argument(0), whole(0))), -most, most)
    degree, fine = rng.choice((1, 2)), rng.choice((1, 1, 8))
    return [
        Units(condition, False),
        FewUnits(condition, False, most),
        CappedRows(condition, most, False),
        CappedRows((f(4),), most, True),
        KeptValues((f(4),), most, True),
        WeightedRows(condition, most),
        UnitValue((f(0),), cut_sum, None),
        UnitMean((f(0),), low, width, most, 0, rng.randrange(2), False),
        UnitMean((f(1),), -300, 500, 3, 2, rng.randrange(2), False),
        CappedSum((f(0),), most * 3, 0, BIGINT, sized, False),
        CappedSum((f(1),), most * 90, 2, DECIMAL, sized, False),
        RowSum((value,), most, fine, False),
        Moment((place,), most, fine, width, 1, rng.randrange(2), False, False),
        Moment((place, *condition), most, fine, width, degree, rng.randrange(degree + 2), True, False),
    ]


def node(rng: Random, only: type[Counted] = Counted) -> Weighted:
    """Draw numbers of groups, also a difference of two."""
    low, high = rng.choice(((0, 3), (0, 5), (-4, 2), (-3, 3)))
    numbers = []
    for _ in range(rng.choice((1, 1, 2))):
        part = rng.choice([part for part in parts(rng, low, high - low) if isinstance(part, only)])
        counts = isinstance(part, (Units, CappedRows)) and rng.random() < 0.2
        numbers.append((part, parts(rng, low, high - low)[0]) if counts else (part,))
    rows = values(low, high)
    return Weighted(rows, rng.choice((0, 1, 2)), FIELDS, tuple(numbers), rows if rng.random() < 0.6 else None)


@pytest.fixture(scope="module")
def counting() -> Counting:
    return Counting()


@pytest.mark.parametrize("rounds", [9, pytest.param(1000, marks=pytest.mark.slow)])
def test_what_is_weighed_moves_as_it_is_claimed(counting: Counting, rounds: int) -> None:
    rng, reached = Random(rounds), set[type[Counted]]()
    for _ in range(rounds):
        counting.fill(rng)
        for kind in COUNTED:
            query, tight = node(rng, kind), set[int]()
            assert not broken(counting, query, claimed(query), tight), duckdb_sql(query)
            reached |= {type(query.numbers[place][0]) for place in tight if len(query.numbers[place]) == 1}
    assert reached == {*COUNTED}


def vector(rng: Random) -> Weighted:
    """Draw moments of one column, or averages with what they lack, in any order; some may be left out."""
    low, high = rng.choice(((0, 3), (0, 5), (-4, 2), (-3, 3)))
    drawn = parts(rng, low, high - low)
    part = rng.choice([part for part in drawn if isinstance(part, (Moment, UnitMean))])
    size = 2 if isinstance(part, UnitMean) else part.degree + 1 + part.nulls
    places = rng.sample(range(size), rng.randrange(2, size + 1))
    numbers = tuple((replace(part, place=place),) for place in places)
    rows = values(low, high)
    return Weighted(rows, rng.choice((0, 1, 2)), FIELDS, numbers, rows if rng.random() < 0.6 else None)


@pytest.mark.parametrize("rounds", [10, pytest.param(1000, marks=pytest.mark.slow)])
def test_moments_change_together_as_it_is_claimed(counting: Counting, rounds: int) -> None:
    """Every claim is there, and the largest change of all of them is reached, for moments and averages."""
    rng, reached = Random(rounds), set[type[Counted]]()
    for _ in range(rounds):
        counting.fill(rng)
        query = vector(rng)
        groups = claimed(query)
        (claim,) = groups.together
        assert claim.columns == {*groups.numbers}
        assert not broken(counting, query, groups, set()), duckdb_sql(query)
        if not broken(counting, query, tighter(groups), set()):
            continue
        reached.add(type(query.numbers[0][0]))
    assert reached == {Moment, UnitMean}


def tighter(groups: Groups) -> Groups:
    """Return what is claimed of a query, less one for all numbers together."""
    (claim,) = groups.together
    return replace(groups, together=(replace(claim, each=claim.each - 1, total=None),))


def first_groups(rng: Random) -> Query:
    """Units by the groups that they keep, and the rows of these."""
    by = rng.choice((("k0",), ("k0", "k1")))
    names = ("k0", "k1", *(f"f{i}" for i in range(FIELDS) if rng.random() < 0.5))
    every = values(-4, 4)
    listed = tuple(Item(Column("s", n)) for n in ("u", *by))
    pairs = Select(listed, Derived(every, "s"), IsNull(Column("s", "u"), negated=True), distinct=True)
    rows = Bounded(every, names, by, rng.choice((1, 2)), pairs)
    return Weighted(rows, len(by), FIELDS, ((Units((), False),), (WeightedRows((), 3),)))


def sampled(rng: Random) -> Query:
    """Rows by cells, of which units keep few."""
    return Sampled(values(0, 3), rng.randrange(3), rng.choice((1, 2, 5)))


@pytest.mark.parametrize("draw_query", [first_groups, sampled])
@pytest.mark.sampled(2)
def test_what_units_keep_is_few(counting: Counting, draw_query: Callable[[Random], Query]) -> None:
    rng, reached, most = Random(7), set[int](), set[int]()
    for _ in range(6):
        counting.fill(rng)
        query = draw_query(rng)
        groups = claimed(query)
        assert groups.most is not None or isinstance(query, Sampled)
        assert not broken(counting, query, groups, reached), duckdb_sql(query)
        most |= {
            len([each for each in changes if any(each)])
            for changes in counting.changes(duckdb_sql(query), len(groups.keys))
        }
    assert reached
    assert max(most) > 1


HAS_UNIT = IsNull(Column("s", "u"), negated=True)


WRONG = [
    (CappedRows, CappedRows, "of_units", lambda s, u, v: counted.sum_of_rows(v[0])),
    (FewUnits, FewUnits, "weigh", lambda s, u, v, b, a: v[0]),
    (WeightedRows, WeightedRows, "weigh", lambda s, u, v, b, a: v[0]),
    (CappedSum, CappedSum, "weigh", lambda s, u, v, b, a: counted.in_ratio(v[0], s.most + 1, a)),
    (CappedSum, CappedSum, "measure", lambda s, v: v[0]),
    (CappedSum, CappedSum, "size", lambda s, u, r: s.of_unit(u, r)[0]),
    (RowSum, RowSum, "weigh", lambda s, u, v, b, a: furthest(v[1])),
    (RowSum, RowSum, "share_of", lambda s, number, a: number),
    (RowSum, RowSum, "times", property(lambda s: s.fine * (s.most + 1))),
    (WeightedRows, WeightedRows, "in_full", property(lambda s: s.most + 1)),
    (RowSum, RowSum, "in_full", property(lambda s: s.most + 2)),
    (
        WeightedRows,
        WeightedRows,
        "weigh",
        lambda s, u, v, b, a: counted.in_ratio(huge(v[0]), s.most + 1, a),
    ),
    (KeptValues, bounding, "keep_once", lambda p, k, x: x),
    (KeptValues, bounding, "keep_values", lambda p, k, x: Case(((HAS_UNIT, x),))),
]
"""Texts without a part of what the lemma needs, of what is counted there."""


def name_of(wrong: tuple[Any, ...]) -> str:
    return f"{wrong[0].__name__}.{wrong[2]}"


@pytest.mark.parametrize("wrong", WRONG, ids=name_of)
@pytest.mark.sampled(4)
def test_a_wrong_text_is_noticed(
    counting: Counting, monkeypatch: pytest.MonkeyPatch, wrong: tuple[Any, ...]
) -> None:
    kind, *place = wrong
    monkeypatch.setattr(*place)
    rng = Random(11)
    for _ in range(300):
        counting.fill(rng)
        query = node(rng, kind)
        if kind is KeptValues:  # of others beside it a value stays in one row
            query = replace(query, numbers=(*query.numbers, (WeightedRows((), 2),)))
        if broken(counting, query, claimed(query), set()):
            return
    pytest.fail("not noticed")


def _moments(change: Callable[[list[Expr]], list[Expr]]) -> Callable[[Moment, tuple[Expr, ...]], list[Expr]]:
    right = Moment._numbers
    return lambda part, sums: change(right(part, sums))


def _times(x: Expr, y: Expr) -> Expr:
    return Paren(Binary("*", x, y))


def _rounded_up(number: Expr, most: int, a: Expr) -> Expr:
    made = in_ratio(number, most, a)
    assert isinstance(made, Case)
    assert made.default is not None
    return replace(made, default=Paren(Binary("+", made.default, whole(1))))


def _lacking_more(part: UnitMean, unit: Expr, v: tuple[Expr, ...]) -> Expr:
    return _OF_UNITS(part if part.place else replace(part, fine=part.fine + 1, place=1), unit, v)


def _in_other_ratio(part: Moment, unit: Expr, v: tuple[Expr, ...], b: Expr, a: Expr) -> Expr:
    return part._of([in_ratio(each, part.most + 1, a) for each in part._numbers(v)])


in_ratio, _OF_UNITS = counted.in_ratio, UnitMean.of_units
WRONG_TOGETHER: dict[str, tuple[Any, str, Any]] = {
    "the whole is more": (Moment, "_numbers", _moments(lambda n: [_times(n[0], whole(2)), *n[1:]])),
    "a first moment that can be negative": (
        Moment,
        "_numbers",
        _moments(lambda n: [n[0], _times(n[1], whole(3)), *n[2:]]),
    ),
    "a product of sums": (Moment, "_numbers", _moments(lambda n: [*n[:-1], _times(n[-1], n[-1])])),
    "another ratio": (Moment, "weigh", _in_other_ratio),
    "no ratio": (Moment, "weigh", lambda s, u, v, b, a: s._of(s._numbers(v))),
    "a ratio that is rounded up": (row_shares, "in_ratio", _rounded_up),
    "all units twice": (
        Moment,
        "of_units",
        lambda s, u, v: saturate(_times(Aggregate("SUM", v), whole(2))),
    ),
    "units of one row more share rows": (Moment, "in_full", property(lambda s: s.most + 1)),
    "units are measured by fewer rows": (Moment, "measure", lambda s, v: v[-1]),
    "units share rows by other rows": (
        Moment,
        "size",
        lambda s, u, row: Aggregate("SUM", (_times(row[0], row[0]),)),
    ),
    "a first moment that is not what the others leave": (
        Moment,
        "_of",
        lambda s, numbers: numbers[s.place % len(numbers)],
    ),
    "averages that lack more than the most": (UnitMean, "of_units", _lacking_more),
}


@pytest.mark.parametrize("name", WRONG_TOGETHER)
@pytest.mark.sampled(4)
def test_a_wrong_text_of_moments_is_noticed(
    counting: Counting, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    kind = UnitMean if WRONG_TOGETHER[name][0] is UnitMean else Moment
    monkeypatch.setattr(*WRONG_TOGETHER[name])
    rng = Random(17)
    for _ in range(400):
        counting.fill(rng)
        query = vector(rng)
        if isinstance(query.numbers[0][0], kind) and broken(counting, query, claimed(query), set()):
            return
    pytest.fail("not noticed")


def kept_values(rng: Random) -> Query:
    """Different values, of which units keep few."""
    part = KeptValues((f(4),), rng.choice((1, 2)), True)
    return Weighted(values(-4, 4), rng.choice((0, 1)), FIELDS, ((part,),))


RARITY = '(SELECT COUNT(*) FROM main."t" AS z WHERE z.x IS NOT DISTINCT FROM s.f4)'
TEXTS = {
    "groups in everybody's order": (first_groups, "PARTITION BY x.u ORDER BY hash", "ORDER BY hash"),
    "a group more": (first_groups, " WHERE z.r <= ", " WHERE z.r <= 1 + "),
    "rows in everybody's order": (sampled, "PARTITION BY y.u ORDER BY hash", "ORDER BY hash"),
    "a row more": (sampled, " WHERE z.r > ", " WHERE z.r > 1 + "),
    "values are kept whoever has them": (kept_values, "PARTITION BY s.u, ", "PARTITION BY "),
    "values are chosen by how rare they are": (kept_values, "ORDER BY hash(s.u, s.f4)", f"ORDER BY {RARITY}"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_wrong_text_of_what_is_kept_is_noticed(counting: Counting, name: str) -> None:
    (draw_query, right, wrong), rng = TEXTS[name], Random(14 if "whoever" in name else 13)
    for _ in range(200):
        counting.fill(rng)
        query = draw_query(rng)
        text = duckdb_sql(query)
        assert right in text  # the checker has not seen it: what it proves is proved of the node
        if broken(counting, query, claimed(query), set(), text.replace(right, wrong)):
            return
    pytest.fail("not noticed")


def test_what_the_checker_cannot_see_of_nodes_is_listed() -> None:
    """Above it has certified each of the queries whose numbers then move too far."""
    assert {*UNSEEN_NODES} == {*TEXTS, *WRONG_TOGETHER, *map(name_of, WRONG)}
