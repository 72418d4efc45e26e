"""What is measured after a selection: which noise, which counts, and what is refused while planning."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dpsql.errors import QueryRefused
from dpsql.estimates import Combined, GapNoise, Measurement, from_measurement
from dpsql.kernel import mechanisms
from dpsql.kernel.changes import NumberChange, UnitChanges
from dpsql.kernel.release import Run
from dpsql.planning.measuring import Measuring
from dpsql.planning.threshold_selection import SparseVectors
from dpsql.planning.top_k_selection import LargestGroups
from dpsql.session import Session
from tests.narrow import present, private
from tests.support.exact import ample, made_up
from tests.support.world import world_fixture

POLICY = """
[budget]
epsilon = 1e9
delta = 0.5
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page.values = ["a", "b", "c", "d", "e"]
page.complete = true
"""
N = "COUNT(DISTINCT user_id)"
M = f"{N} FILTER (WHERE ms > 10)"
BEST = "FROM visits GROUP BY page ORDER BY {} DESC LIMIT 3"


session = world_fixture(POLICY, visits={"user_id": [1, 2], "page": ["a", "b"], "ms": [1, 20]})


def method_of(session: Session, rest: str, options: str = "epsilon = 1") -> LargestGroups | SparseVectors:
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {rest}"
    method = private(session.prepare(text)).method
    assert isinstance(method, (LargestGroups, SparseVectors))
    return method


NOISY = "epsilon = 1, mechanism = NOISY_TOP_K"


def split_of(session: Session, rest: str, options: str = NOISY) -> str:
    return method_of(session, rest, options).quote.split


def test_the_split_says_how_counts_are_measured(session: Session) -> None:
    rest = f"page, {N} AS n {BEST.format('n')}"
    assert split_of(session, rest) == "0.5 for selecting, 0.5 for measuring with one box noise (BOX)"
    box = f"{NOISY}, measure_strategy = BOX, measure = AUTO"
    assert split_of(session, rest, box) == split_of(session, rest)
    assert split_of(session, rest, "epsilon = 1, measure = 0.25").startswith("0.75 for selecting, 0.25")
    each = split_of(session, rest, "epsilon = 1, measure_strategy = EACH")
    assert each == "0.5 for selecting, 0.5 for measuring one noisy count a group (EACH)"
    anchor = split_of(session, rest, "epsilon = 1, measure_strategy = ANCHOR")
    assert anchor == "0.591 for selecting, 0.409 for measuring one noisy total (ANCHOR)"
    difference = f"page, {N} - {M} AS d {BEST.format('d')}"
    assert split_of(session, difference).endswith("with one cube noise (BOX)")
    assert split_of(session, f"page, {N} AS n, {N} - {M} AS d {BEST.format('n')}").endswith(
        "cube noise (BOX)"
    )


def test_one_noise_measures_the_distinct_counts_of_the_groups_that_were_selected(session: Session) -> None:
    rest = (
        "page, COUNT(*, contribution_bounds_per_group => (0, 3)) AS rows, "
        f"{M} AS m, {N} AS n, {N} AS again {BEST.format('m')}"
    )
    (measuring,) = method_of(session, rest).measuring.parts
    assert [measuring.plan.counts[place].bound for place in measuring.places] == [1, 3, 1]
    assert measuring.orders(measuring.places[0])
    for size in (1, 2, 3):
        box = measuring.box(size)
        assert isinstance(box, mechanisms.Box)
        assert box.bounds == (1,) * size + (3,) * size + (1,) * size
        assert box.pads > 0
        assert box.loss.charge.epsilon == Fraction(1, 2)
    values = tuple(1000 * place + np.arange(5) for place in range(len(measuring.plan.counts)))
    changes = UnitChanges(tuple(NumberChange(0, count.bound) for count in measuring.plan.counts))
    counts = made_up(pa.table({"k0": list("abcde")}), values, changes)
    run = Run(counts, ample())
    given: list[Measurement | None] = []
    levels: list[Fraction] = []

    def combine(measured: Measurement | None, level: Fraction) -> Combined:
        given.append(measured)
        levels.append(level)
        return Combined.empty() if measured is None else from_measurement(measured)

    exact = replace(measuring, epsilon=Fraction(10**6))
    index = np.array([4, 2])
    estimates, values_of_several = exact.run(run, run.every().take(index), combine)
    assert not values_of_several
    assert run.loss.charge.epsilon == 10**6
    ordering, *others = measuring.places
    (alone,) = map(present, given)
    np.testing.assert_allclose(alone.counts(), values[ordering][index], atol=0.1)
    low, high = present(estimates[ordering].together)
    assert (high - low > 2 * present(alone.half_width)).all(), "these hold for all numbers at once"
    assert levels == [Fraction(95, 100)]
    for place in others:
        np.testing.assert_allclose(estimates[place].value, values[place][index], atol=0.1)
    assert sorted(estimates) == sorted(measuring.places)
    nothing, _ = exact.run(run, run.every().take(np.array([], dtype=np.int64)), combine)
    assert run.loss.charge.epsilon == 10**6
    assert [nothing[place].value.size for place in measuring.places] == [0, 0, 0]
    assert given[1:] == [None] * 6


def test_a_difference_among_the_counts_needs_cube_noise(session: Session) -> None:
    rest = f"page, {N} AS n, {N} - {M} AS d {BEST.format('n')}"
    (measuring,) = method_of(session, rest, NOISY).measuring.parts
    box = measuring.box(3)
    assert isinstance(box, mechanisms.Box)
    assert box.pads == 0


def test_hits_are_measured_with_one_noise_and_the_compared_count_is_free(session: Session) -> None:
    rest = f"page, {N} AS n, {M} AS m FROM visits GROUP BY page HAVING n >= 5 LIMIT 2"
    sparse = "epsilon = 1, mechanism = ADAPTIVE_SPARSE_VECTOR"
    (free,) = method_of(session, rest, sparse).measuring.parts
    assert [free.orders(place) for place in free.places] == [False]
    (both,) = method_of(session, rest, f"{sparse}, measure = 0.5").measuring.parts
    assert [both.orders(place) for place in both.places] == [True, False]
    assert both.strategy == "BOX"


def test_one_gap_helps_over_a_threshold_only(session: Session) -> None:
    measuring = method_of(session, f"page, {N} AS n {BEST.format('n')}", NOISY).measuring
    alone = measuring.predict(1, None)
    assert measuring.predict(1, GapNoise("exponential", 4)) == alone
    over = measuring.predict(1, GapNoise("exponential", 4, threshold_scale=2))
    assert present(over[0]) < present(alone[0])
    assert over[1] == alone[1]


def test_noise_beyond_every_count_is_refused_while_planning(session: Session) -> None:
    rest = f"page, COUNT(*, contribution_bounds_per_group => (0, 1000000)) AS n {BEST.format('n')}"
    with pytest.raises(QueryRefused, match="scale is too large"):
        method_of(session, rest, "epsilon = 1e-6, measure = 0.0000001")
    plan = private(session.prepare(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) {rest}")).plan
    with pytest.raises(ValueError, match="scale is too large"):
        Measuring.of(plan, 0, [0], Fraction(1, 10**13), most=3)
    assert Measuring.of(plan, 0, [0], Fraction(0), most=3).places == []
