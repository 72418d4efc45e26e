"""The estimate by blocks against dense least squares over listed cells, on random sets of releases."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from dpsql.estimates.reports.marginal_estimate import Estimate, Undetermined
from dpsql.estimates.reports.marginals import Axis, Marginal, ReleasedMarginal
from tests.unit.estimates.reports.listed_cells import (
    Cells,
    draw_cells,
    draw_marginal,
    draw_releases,
    solve_dense,
)

DAILY, ALL = 10, 300


def compare(cells: Cells, releases: list[ReleasedMarginal], estimate: Estimate, wanted: Marginal) -> bool:
    """Return whether a marginal is determined, after both ways agree on it."""
    values, variances, determined, weights = solve_dense(cells, releases, wanted)
    found = estimate.answer(wanted)
    if isinstance(found, Undetermined):
        assert not determined.all()
        there = ~determined.reshape(wanted.shape)
        for place, (axis, kept) in enumerate(zip(wanted.axes, found.missing.axes, strict=True)):
            rows = there.any(axis=tuple(i for i in range(there.ndim) if i != place))
            assert kept == axis.take(np.flatnonzero(rows).tolist())
        return False
    assert determined.all()
    size = max(1.0, float(np.abs(values).max()))
    assert np.abs(found.values.ravel() - values).max() < 1e-9 * size
    assert np.abs(found.stddev.ravel() ** 2 - variances).max() < 1e-9 * variances.max()
    assert (found.low < found.values).all()
    assert (found.values < found.high).all()
    heavy = {each.release for each, row in zip(releases, split(weights, releases), strict=True) if row}
    assert heavy <= set(found.releases)
    return True


def split(weights: np.ndarray, releases: list[ReleasedMarginal]) -> list[bool]:
    ends = np.cumsum([each.marginal.size for each in releases])[:-1]
    return [bool(np.abs(part).max() > 1e-6) for part in np.split(weights, ends, axis=1)]


@pytest.mark.parametrize(
    "seeds", [range(DAILY), pytest.param(range(DAILY, ALL), marks=pytest.mark.longer)], ids=["few", "more"]
)
def test_blocks_solve_what_dense_least_squares_solves(seeds: range) -> None:
    determined = 0
    for seed in seeds:
        random, noise = Random(seed), np.random.default_rng(seed)
        cells = draw_cells(random)
        releases = draw_releases(random, cells, noise)
        estimate = Estimate.of(releases, cells.universe)
        wanted = [each.marginal for each in releases]
        assert all(compare(cells, releases, estimate, each) for each in wanted)
        determined += sum(compare(cells, releases, estimate, draw_marginal(random, cells)) for _ in range(4))
    assert 0.1 < determined / (4 * len(seeds)) < 0.9


def test_totals_are_the_sums_of_their_groups() -> None:
    seen = 0
    for seed in range(50):
        random, noise = Random(seed), np.random.default_rng(seed)
        cells = draw_cells(random)
        estimate = Estimate.of(draw_releases(random, cells, noise), cells.universe)
        wanted = draw_marginal(random, cells)
        column = random.choice([name for name in cells.sizes if cells.complete[name]] or [""])
        rest = tuple(axis for axis in wanted.axes if axis.column != column)
        if not column:
            continue
        total = estimate.answer(Marginal(rest))
        groups = estimate.answer(Marginal((*rest, Axis.of_groups(column, range(cells.sizes[column])))))
        if isinstance(groups, Undetermined):
            continue
        assert not isinstance(total, Undetermined)
        seen += 1
        assert np.abs(groups.values.sum(axis=-1) - total.values).max() < 1e-6
    assert seen > 10
