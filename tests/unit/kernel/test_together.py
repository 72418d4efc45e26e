"""What one unit changes several numbers by together: what is certified, and what is nearly the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from kernel.grounds import FixtureGround

import dpsql.kernel.check.certificate as sealed
from dpsql.analysis.statement_plan import check_together, find_lower_claims
from dpsql.kernel.changes import NumberChange, UnitChanges
from dpsql.kernel.check import Certificate, NotCertified, certify
from dpsql.kernel.counts import changes_of
from dpsql.kernel.tree import (
    Counted,
    Expr,
    IsNull,
    Moment,
    Query,
    UnitMean,
    Weighted,
)
from tests.kernel_trees import (
    FACTS,
    USERS,
    VISITS,
    c,
    cut,
    in_domain,
    of_units_rows,
    select,
    stored,
    there,
)

MOST, WIDTH = 7, 5
ALL = MOST * WIDTH**2
X = (c("s.f2"),)
"""Values from 0 to `WIDTH`, or NULL."""
Found = list[tuple[str, int, int | None]]


def rows_of(table: str = "visits", value: str = "ms") -> Query:
    """Rows of units with a value `f0` of each from 0 to 5, one `f1` from -9 on, and another `f2`."""
    unit, x = stored("b", "user_id"), stored("b", value)
    source = (USERS if table == "users" else VISITS).query.source  # type: ignore[attr-defined]
    return select(source, there(unit), u=unit, f0=cut(x, 0, 4), f1=cut(x, -9, 5), f2=cut(x, 0, 5))


def moments(row: tuple[Expr, ...] = X, degree: int = 2, most: int = MOST, **more: Any) -> list[Counted]:
    """All moments of a column."""
    fields = {"nulls": False, "single": False, **more}
    return [Moment(row, most, 1, WIDTH, degree, i, **fields) for i in range(degree + 1 + fields["nulls"])]


def means(**more: Any) -> list[Counted]:
    """Averages of units, and what they lack."""
    fields = {"low": -2, "width": 5, "fine": 3, "scale": 0, "single": False, **more}
    return [UnitMean(X, place=place, **fields) for place in (0, 1)]


def certified(parts: list[Counted], rows: Query | None = None, *, alone: bool = False) -> Certificate:
    source = rows_of() if rows is None else rows
    numbers = tuple((part,) for part in parts)
    return certify(Weighted(source, 0, 3, numbers, source if alone else None), FACTS)


def together(parts: list[Counted], rows: Query | None = None, *, alone: bool = False) -> Found:
    """Numbers of one group of which it is known how far a unit changes them together."""
    found = certified(parts, rows, alone=alone).together
    return [("".join(sorted(each.columns)), each.each, each.total) for each in found]


@pytest.mark.parametrize("alone", [True, False])
def test_moments_of_a_column_add_up_to_the_most_of_a_row(alone: bool) -> None:
    assert together(moments(), alone=alone) == [("n0n1n2", ALL, ALL)]
    assert together(moments(degree=1), alone=alone) == [("n0n1", 35, 35)]
    assert together(moments(nulls=True), alone=alone) == [("n0n1n2n3", ALL, ALL)]
    assert together(moments(nulls=True, degree=1)[::-1], alone=alone) == [("n0n1n2", 35, 35)]


def test_some_moments_change_by_no_more_than_all() -> None:
    assert together(moments()[1:]) == together(moments()[:2]) == [("n0n1", ALL, ALL)]
    assert together(moments()[:1]) == together([*moments()[:1], *moments()[:1]]) == []


def test_of_one_row_a_unit_nothing_is_weighed() -> None:
    single = moments(single=True)
    assert together(single, rows_of("users", "age")) == [("n0n1n2", 25, 25)]
    with pytest.raises(NotCertified, match="of which a unit may have any number"):
        together(single)


def test_each_column_has_its_own() -> None:
    other = moments((c("s.f0"),), 1)
    assert together([*moments(), *other]) == [("n0n1n2", ALL, ALL), ("n3n4", 35, 35)]
    assert together([moments()[0], *other[1:]]) == []


def test_other_rows_and_other_bounds_are_other_moments() -> None:
    condition = (*X, IsNull(c("s.f1"), negated=True))
    assert together([moments()[0], *moments(most=3)[1:]]) == [("n1n2", 75, 75)]
    with pytest.raises(NotCertified):
        together(moments(condition, nulls=True))


def test_values_that_do_not_lie_within_the_bounds_are_refused() -> None:
    for place in range(3):
        with pytest.raises(NotCertified, match="moments of values that do not lie within them"):
            together([moments((c("s.f1"),))[place]])
    with pytest.raises(NotCertified, match="moments of values that do not lie within them"):
        together([Moment(X, MOST, 1, 4, 2, place, nulls=False, single=False) for place in range(3)])


def test_an_average_and_what_it_lacks_add_up_to_the_width() -> None:
    assert together(means()) == [("n0n1", 15, 15)]
    groups = Weighted(of_units_rows(), 1, 3, tuple((each,) for each in means()))
    by_key = certify(in_domain(groups, numbers=2), FACTS)
    (found,) = by_key.together
    assert (found.each, found.total) == (15, None)
    assert together(means()[:1]) == together([means()[0], means(fine=2)[1]]) == []
    assert together(means(single=True), rows_of("users", "age")) == [("n0n1", 15, 15)]


def test_places_that_there_are_not_are_refused() -> None:
    part = moments()[0]
    assert isinstance(part, Moment)
    for wrong in (replace(part, place=3), replace(part, place=-1), replace(part, degree=3)):
        with pytest.raises(NotCertified, match="moments of values that do not lie within them"):
            certified([wrong])
    with pytest.raises(NotCertified, match="neither averages nor what they lack"):
        certified([replace(means()[0], place=2)])  # type: ignore[call-arg]


def test_what_a_mechanism_takes_changes_by_what_is_certified_together() -> None:
    one = NumberChange(0, 9)
    known = UnitChanges((one, one, one), together=((frozenset((0, 1)), 10, None), (frozenset((1, 2)), 9, 12)))
    assert [known.of(places, 3).together for places in [(0, 1), (1, 2), (0, 2), (0, 1, 2), (1,)]] == [
        *(30, 12, None),
        *(None, 12),
    ]
    assert known.of((1, 1), 3).together is None  # a number that is taken twice changes twice
    assert known.of((1, 2), 1).total == 9
    assert known.of((0, 2), 1).total == 18


def test_counts_have_what_is_certified() -> None:
    found = changes_of(certified(moments()), 3)
    assert found.together == ((frozenset((0, 1, 2)), ALL, ALL),)
    assert found.of((0, 1, 2), 4).total == ALL


@pytest.fixture(scope="module")
def ground() -> Iterator[FixtureGround]:
    with closing(FixtureGround()) as made:
        yield made


STATEMENTS = [
    "SELECT AVG(age, contribution_bounds_per_row => (0, 90)) FROM users",
    "SELECT city, VAR_POP(age, contribution_bounds_per_row => (0, 90)) FROM users GROUP BY city",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 5) "
    "AVG(ms, contribution_bounds_per_row => (0, 90)), COUNT(*) FROM visits",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 5) page, "
    "STDDEV(ms, contribution_bounds_per_row => (0, 90)), COUNT(*) FROM visits GROUP BY page",
    "SELECT page, AVG(ms, contribution_bounds_per_group => (0, 90)) FROM visits GROUP BY page",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 2) page, "
    "AVG(ms, contribution_bounds_per_group => (0, 90)) FROM visits GROUP BY page",
]


@pytest.mark.parametrize("text", STATEMENTS)
@pytest.mark.sampled(3, rest="longer")
def test_what_a_plan_claims_of_numbers_together_is_compared(text: str, ground: FixtureGround) -> None:
    (made,) = ground.compiled(text)
    claim = certify(made.query, ground.facts)
    assert claim.together
    assert not [*find_lower_claims(made.plan, claim)]
    more = tuple(replace(each, each=each.each + 1, total=None) for each in claim.together)
    for wrong in ((), more):
        lower = replace(claim, together=wrong, seal=sealed._SEAL)
        assert [each for each in find_lower_claims(made.plan, lower) if "together in a group" in each]


def test_a_measure_that_is_more_than_claimed_is_refused() -> None:
    found = certified(moments())
    check_together(found, ALL)
    with pytest.raises(NotCertified):
        check_together(found, ALL - 1)
    with pytest.raises(NotCertified):
        check_together(certified([*moments(), *means()]), ALL)
