"""What all small units add by the shares of their rows: within what is claimed, and near the exact share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product

import duckdb
import pytest

from dpsql.analysis.grids import parts_of_step
from dpsql.kernel.tree import (
    Binary,
    Call,
    Column,
    Counted,
    Expr,
    Item,
    Moment,
    Paren,
    RowSum,
    Scan,
    Select,
    Weighted,
    duckdb_sql,
)
from dpsql.kernel.tree.exact import whole
from dpsql.kernel.tree.row_shares import SharedRows

LOW, HIGH, GROUPS = -3, 5, 3
WIDTH = 5
VALUES = (LOW, -1, 0, 2, HIGH)
COUNTED = (1, None)
"""What a row has of which the number is counted: NULL if it does not count."""
Unit = tuple[tuple[int, int | None], ...]
"""The rows of a unit, each a group and a value."""
Added = dict[int, dict[int, list[int]]]
"""What each unit adds to each of its groups, number by number."""


def units(values: tuple[int | None, ...]) -> Iterator[Unit]:
    """Yield all units of up to four rows, and of up to twelve rows of one or two kinds."""
    cells = [*product(range(GROUPS), values)]
    for size in range(1, 5):
        yield from combinations_with_replacement(cells, size)
    for one, other in combinations_with_replacement(cells, 2):
        yield from ((one,) * i + (other,) * (a - i) for a in range(5, 13) for i in (1, a // 2, a))


def added(parts: tuple[Counted, ...], every: list[Unit]) -> Added:
    """Count what units add: a group of a unit is a group of its own, so that no other unit is in it."""
    with duckdb.connect() as connection:
        rows = [(u, GROUPS * u + group, x) for u, unit in enumerate(every) for group, x in unit]
        connection.execute("CREATE TABLE t (u BIGINT, k BIGINT, x BIGINT)")
        columns = [[row[i] for row in rows] for i in range(3)]
        connection.execute("INSERT INTO t SELECT unnest(?), unnest(?), unnest(?)", columns)
        own = [Column("b", name, stored=True) for name in "ukx"]
        listed = Select((Item(own[0], "u"), Item(own[1], "k0"), Item(own[2], "f0")), Scan("t", "b"))
        node = Weighted(listed, 1, 1, tuple((part,) for part in parts), listed)
        assert node.by_shares
        found: Added = defaultdict(dict)
        for key, *numbers in connection.execute(duckdb_sql(node)).fetchall():
            found[key // GROUPS][key % GROUPS] = numbers
        return found


X = (Column("s", "f0"),)


def keeps_the_sum(most: int, fine: int, values: tuple[int | None, ...] = VALUES) -> bool:
    """Whether sums of all small units are within the claim, which some reach, and near the exact share."""
    every, known = [*units(values)], [x for x in values if x is not None]
    low, high = min(0, *known), max(known)
    found, claim, reached = added((RowSum(X, most, fine, False),), every), fine * most, 0
    for u, unit in enumerate(every):
        own = {group: numbers[0] for group, numbers in found[u].items()}
        total = sum(map(abs, own.values()))
        reached = max(reached, total)
        if total > claim * high or not all(claim * low <= n <= claim * high for n in own.values()):
            return False
        rows = sum(x is not None for _, x in unit)
        for group, number in own.items():
            there = [x for g, x in unit if g == group and x is not None]
            exact = Fraction(sum(there) * most, max(rows, most))
            if abs(Fraction(number, fine) - exact) >= Fraction(max(len(there), 1), fine):
                return False
    return reached == claim * high


def keeps_moments(most: int, fine: int, degree: int) -> bool:
    """Whether moments of small units are not negative, and together within the claim, which some reach."""
    every = [*units((0, 1, 3, WIDTH))]
    parts = tuple(Moment(X, most, fine, WIDTH, degree, i, False, False) for i in range(degree + 1))
    claim = fine * most * WIDTH**degree
    totals = set[int]()
    for own in added(parts, every).values():
        if any(n < 0 for numbers in own.values() for n in numbers):
            return False
        totals.add(sum(map(sum, own.values())))
    return max(totals) == claim


@pytest.mark.parametrize("most", range(1, 6))
@pytest.mark.sampled(3, rest="longer")
def test_a_sum_of_shares_moves_as_is_claimed_and_lacks_less_than_a_part_of_a_step_a_row(most: int) -> None:
    assert keeps_the_sum(most, 1)
    assert keeps_the_sum(most, 16)


@pytest.mark.parametrize("most", range(1, 6))
def test_a_count_of_rows_moves_as_is_claimed_and_lacks_less_than_a_part_a_row(most: int) -> None:
    assert keeps_the_sum(most, 16, COUNTED)


@pytest.mark.parametrize("most", range(1, 6))
@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.sampled(3, rest="longer")
def test_moments_of_shares_move_together_as_is_claimed(most: int, degree: int) -> None:
    assert keeps_moments(most, 8, degree)


@pytest.mark.parametrize("change", [1, 5, 250_000, (1 << 32) // 5, 1 << 32, 1 << 40])
def test_a_step_has_as_many_parts_as_the_grid_allows(change: int) -> None:
    parts = parts_of_step(change)
    assert parts & (parts - 1) == 0
    assert parts == 1 or parts * change <= 1 << 32 < 2 * parts * change


@pytest.mark.parametrize("most", range(1, 6))
@pytest.mark.parametrize("largest", [1, 500, 50_000, 10**8])
def test_a_row_lacks_less_than_a_part_in_2_to_the_19_of_the_largest(most: int, largest: int) -> None:
    assert Fraction(1, parts_of_step(most * largest) * largest) < Fraction(1, 1 << 19)


def _with_divisor(change: int) -> object:
    def share_of(part: SharedRows, number: Expr, a: Expr) -> Expr:
        less = Paren(Binary("-", a, whole(change)))
        return Paren(Binary("//", number, Call("GREATEST", (less, whole(part.most)))))

    return share_of


def _rounded_up(part: SharedRows, number: Expr, a: Expr) -> Expr:
    return Paren(Binary("+", right(part, number, a), whole(1)))


def _not_weighed(part: SharedRows, number: Expr, a: Expr) -> Expr:
    return Paren(Binary("//", number, whole(part.most)))


right = SharedRows.share_of
WRONG = {
    "a row less is divided by": ("share_of", _with_divisor(1)),
    "a row more is divided by": ("share_of", _with_divisor(-1)),
    "a share is rounded up": ("share_of", _rounded_up),
    "a row is not weighed": ("share_of", _not_weighed),
    "a row more counts": ("times", property(lambda part: part.fine * (part.most + 1))),
    "a part more of a step": ("times", property(lambda part: (part.fine + 1) * part.most)),
    "units of one row more count in full": ("in_full", property(lambda part: part.most + 1)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_share_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedRows, *WRONG[name])
    assert not keeps_the_sum(3, 16)
    assert not keeps_the_sum(3, 16, COUNTED)


def _first_by_itself(part: Moment, numbers: list[Expr]) -> Expr:
    return numbers[part.place % len(numbers)]


def test_a_first_moment_that_is_not_what_the_others_leave_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Moment, "_of", _first_by_itself)
    assert not keeps_moments(3, 8, 2)
