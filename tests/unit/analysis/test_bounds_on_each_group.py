"""A selection by rows or by a sum is answered with a bound on each group where that has less noise."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.analysis import Contribution
from dpsql.analysis.released.released_numbers import CappedSum, GroupSum
from dpsql.analysis.released.unit_counts import BoundedRows, WeightedRows
from dpsql.errors import QueryRefused
from dpsql.kernel import mechanisms
from dpsql.owner.ladder_releases import parse_measure, release_ladders
from dpsql.session import Session
from tests.narrow import present, private
from tests.support.exact import exact_of
from tests.support.world import open_world, world_fixture

POLICY = """
[budget]
epsilon = 1e6
default_epsilon = 1
[engine]
keep = 0
[tables.visits]
source = "visits.parquet"
unit = "id"
unit_kind = "patient"
domain.day = { from = 0, to = 199 }
domain.ward = { from = 0, to = 99 }
"""
# 2,000 units with a row on each of 128 days and in one ward; unit 0 has a second row on day 0.
VISITS = """
SELECT i AS id, (i + d) % 200 AS day, i % 5 AS ward, 1 + i % 3 AS cost, (d - 60) / 4.0 AS rate
FROM range(2000) u(i), range(128) v(d)
UNION ALL SELECT 0, 0, 0, 1, 0.5
"""
BEST = (
    "SELECT WITH DIFFERENTIAL_PRIVACY {options} {key}, {number} AS n FROM visits "
    "GROUP BY {key} ORDER BY n DESC LIMIT {k}"
)


def best(number: str = "COUNT(*)", key: str = "day", k: int = 5, options: str = "") -> str:
    return BEST.format(options=options and f"OPTIONS ({options})", number=number, key=key, k=k)


session = world_fixture(POLICY, visits=VISITS)


def searched(session: Session, text: str) -> tuple[Contribution, ...]:
    return tuple(search.ladder.of for search in private(session.prepare(text)).plan.ladders)


BOTH = (Contribution.ROWS, Contribution.ROWS_IN_A_GROUP)
TOTALS = (Contribution.TOTAL, Contribution.TOTAL_IN_A_GROUP)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (best(), BOTH),
        (best("COUNT(*) FILTER (WHERE cost > 1)"), BOTH),
        (best("SUM(cost)"), TOTALS),
        (best("SUM(rate)"), TOTALS),
        (best(k=1), BOTH),
        (best(k=51), BOTH[:1]),  # 201 groups are not many for 50
        (best("COUNT(*), SUM(cost)"), None),
        (best("COUNT(DISTINCT id)"), ()),
        (best("COUNT(*, contribution_bounds_per_group => (0, 3))"), ()),
        (best(options="max_rows_contributed = 9"), ()),
        (best(options="mechanism = LAPLACE"), BOTH[:1]),
        (best(options="noise = LAPLACE"), BOTH[:1]),
        (best(key="ward", k=30), BOTH[:1]),
        (best().replace("ORDER BY", "HAVING COUNT(*) > 50 ORDER BY"), BOTH[:1]),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_both_bounds_are_searched_where_either_may_be_less(
    session: Session, text: str, found: tuple[Contribution, ...] | None
) -> None:
    if found is None:
        assert not {*searched(session, text)} & {*BOTH[1:], *TOTALS[1:]}
    else:
        assert searched(session, text) == found


def bins_of(session: Session, text: str) -> tuple[mechanisms.RungBins, tuple[int, ...]]:
    counting = private(session.prepare(text)).counting
    search = counting.plan.ladders[1]
    return mechanisms.RungBins(*exact_of(counting.count(search.compiled)).n), tuple(search.ladder.bounds)


def test_what_a_unit_has_in_its_largest_group_is_measured(session: Session) -> None:
    """Each unit has 1 row a day but unit 0, which has 2 on day 0; its SUM(cost) of a day is 1 to 3."""
    of_rows, of_costs = [2, *[1] * 1999], [2, *(1 + i % 3 for i in range(1, 2000))]
    for text, sizes in ((best(), of_rows), (best("SUM(cost)"), of_costs)):
        bins, bounds = bins_of(session, text)
        for place in range(3):
            assert bins.clipped(bounds, place) == sum(min(size, bounds[place]) for size in sizes)


def test_the_bound_with_less_noise_is_taken(session: Session) -> None:
    counting = private(session.prepare(best())).counting
    of_all, of_one = (search.ladder.bounds for search in counting.plan.ladders)
    for at in range(9):
        for each in range(4):
            part = counting.with_bounds((at, each)).plan.counts[0].parts[0]
            less = 5 * of_one[each] <= of_all[at]
            assert isinstance(part, BoundedRows if less else WeightedRows)
            assert part.most == (of_one[each] if less else of_all[at])
    sums = private(session.prepare(best("SUM(rate)"))).counting
    assert isinstance(sums.with_bounds((30, 5)).plan.counts[0].parts[0], GroupSum)
    assert isinstance(sums.with_bounds((30, 29)).plan.counts[0].parts[0], CappedSum)


def test_rows_of_a_condition_are_bounded_in_each_group_too(session: Session) -> None:
    """Their condition is a column of the rows again, where each row would have added its share."""
    found = private(session.prepare(best("COUNT(*) FILTER (WHERE cost > 1)"))).counting.with_bounds((8, 0))
    assert type(found.plan.counts[0].parts[0]) is BoundedRows
    assert exact_of(found.count()).n[0].sum() == 128 * sum(i % 3 > 0 for i in range(2000))


def test_days_are_chosen_with_noise_for_one_row(session: Session) -> None:
    release = present(session.run(best()).release)
    assert release.mechanism == "noisy top-k with gap"
    assert not any("all 201 groups" in note or "two mechanisms" in note for note in release.warnings)
    assert "rows of a patient beyond 1 in a group are left out" in str(release.properties)
    assert "in all" not in str(release.properties.get("cut"))
    low, high = (release.table.column(name).to_pylist() for name in ("n_low", "n_high"))
    assert max(b - a for a, b in zip(low, high, strict=True)) < 100  # 5 groups, at half of .8


def test_wards_are_chosen_with_noise_for_all_rows(session: Session) -> None:
    """All rows of a unit are in one of its groups: a bound on one is no less than one on all."""
    release = present(session.run(best(key="ward")).release)
    assert release.mechanism == "Laplace on every group"
    assert "beyond 128" in str(release.properties)
    assert "in a group" not in str(release.properties)


def test_the_price_says_that_bounds_choose(session: Session) -> None:
    quote = private(session.prepare(best())).method.quote
    assert quote.mechanism == "Laplace on every group, or noisy top-k with gap"
    assert quote.charge.epsilon == Fraction(1)
    assert any("which of two mechanisms answers" in note for note in quote.notes)


def test_a_kept_bound_is_searched_beside_where_it_is_large(tmp_path: Path) -> None:
    """With 128 rows of a unit in all groups, a bound on each is searched for 5 groups, and not for 20."""
    with open_world(tmp_path / "kept", POLICY, visits=VISITS) as session:
        measures = [parse_measure(session.database, "visits")]
        release_ladders(session.database, measures, Fraction(1000), "dpsql bounds")
        assert searched(session, best(k=5)) == BOTH[1:]
        assert searched(session, best(k=20)) == ()
        assert present(session.run(best(k=5)).release).mechanism == "noisy top-k with gap"
        wards = present(session.run(best(key="ward", k=5)).release)
        assert wards.mechanism == "Laplace on every group"


OF_COSTS = POLICY.replace(
    "epsilon = 1e6\n", 'accounting = "zcdp"\nepsilon = 1e3\ndelta = 1e-3\nconversion_delta = 1e-4\n', 1
)


def test_where_costs_are_divided_one_mechanism_is_paid_for(tmp_path: Path) -> None:
    """Its cost is reserved before bounds are found: the other mechanism would not be within it."""
    with open_world(tmp_path / "costs", OF_COSTS, visits=VISITS) as session:
        assert searched(session, best()) == BOTH[:1]
        assert searched(session, best("SUM(rate)")) == TOTALS[:1]
        assert present(session.run(best()).release).mechanism == "Gaussian noise on every group"
        basic = best(options="layout = BASIC")
        assert searched(session, basic) == BOTH
        assert present(session.run(basic).release).mechanism == "noisy top-k with gap"


def test_a_bound_on_rows_that_is_of_no_use_is_accepted_before_and_after_the_search(session: Session) -> None:
    """Only the bounds that are found say that totals are cut in each group, where rows need no bound."""
    text = best("SUM(cost)", options="epsilon = 1.5, max_rows_contributed = 600")
    assert len(present(session.run(text).release).rows) == 5


@pytest.mark.parametrize("options", ["", ", mechanism = BOX"])
@pytest.mark.parametrize("number", ["COUNT(*)", "SUM(cost)", "SUM(rate)"])
@pytest.mark.parametrize(("key", "k"), [("day", 5), ("day", 150), ("ward", 5)])
@pytest.mark.sampled(5, rest="longer")
def test_intervals_of_all_counts_of_a_selection(
    session: Session, key: str, k: int, number: str, options: str
) -> None:
    """They are refused before anything is charged, or answered with the bounds that are found."""
    text = best(number, key, k, f"epsilon = 1, intervals = SIMULTANEOUS{options}")
    try:
        made = session.run(text)
    except QueryRefused as error:
        hint, rows = error.hint, k
    else:
        hint, rows = "leave intervals out", len(present(made.release).rows)
    assert (hint, rows) == ("leave intervals out", k)
