"""Half-widths of box noise against sums over a grid of sides and midranges, and against each other."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpsql.estimates.box_law import (
    box_half_width,
    cube_half_width,
    difference_half_width,
    pair_half_width,
    simultaneous_half_width,
)

SIZES = [(2, 1), (3, 3), (10, 2), (40, 5)]
CONFIDENCES = [0.5, 0.95, 1 - 1e-6]


def grid(counts: int, pads: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sides, midranges below 1/2, and the probability of each pair of them."""
    shape, cells = counts + pads + 1, 2000
    side = np.linspace(1e-3, shape + 12 * math.sqrt(shape) + 30, 1500)[:, None]
    density = np.exp((shape - 1) * np.log(side) - side - math.lgamma(shape))
    ends = (np.arange(cells + 1) / cells) ** pads
    return side, (np.arange(cells) + 0.5) / cells / 2, density / density.sum() * np.diff(ends)


@pytest.mark.parametrize(("counts", "pads"), SIZES)
@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_all_counts_are_covered_at_once(counts: int, pads: int, confidence: float) -> None:
    side, middle, mass = grid(counts, pads)
    s = simultaneous_half_width(counts, pads, confidence) / side
    inside = np.minimum(1.0, middle + s) - np.maximum(0.0, middle - s)
    missed = 1 - inside**counts
    assert float((mass * missed).sum()) == pytest.approx(1 - confidence, rel=2e-4)


@pytest.mark.parametrize(("counts", "pads"), SIZES)
@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_a_sum_of_two_counts_is_covered(counts: int, pads: int, confidence: float) -> None:
    side, middle, mass = grid(counts, pads)
    s = pair_half_width(counts, pads, confidence) / side

    def below(total: np.ndarray) -> np.ndarray:
        total = np.clip(total, 0, 2)
        return np.where(total <= 1, total**2 / 2, 1 - (2 - total) ** 2 / 2)

    missed = 1 - below(2 * middle + s) + below(2 * middle - s)
    assert float((mass * missed).sum()) == pytest.approx(1 - confidence, rel=2e-4)


@pytest.mark.parametrize(("counts", "pads"), [*SIZES, (942, 16)])
@pytest.mark.parametrize("tail", [0.5, 0.05, 1e-4, 1e-9, 1e-12])
def test_widths_lie_between_those_of_one_count_and_of_a_union_bound(
    counts: int, pads: int, tail: float
) -> None:
    one, union = (box_half_width(counts, pads, 1 - tail / n) for n in (1, counts))
    assert one < simultaneous_half_width(counts, pads, 1 - tail) <= union * (1 + 1e-6)
    assert one < pair_half_width(counts, pads, 1 - tail) < 2 * box_half_width(counts, pads, 1 - tail / 2)
    whole = difference_half_width(counts + pads, 1 - tail), cube_half_width(counts, 1 - tail)
    wider = difference_half_width(counts + pads, 1 - tail / 2), cube_half_width(counts, 1 - tail / 2)
    assert whole < wider
    assert cube_half_width(counts, 1 - tail) < cube_half_width(counts, 1 - tail, simultaneous=True)
