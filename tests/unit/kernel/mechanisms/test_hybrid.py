"""The hybrids of top-k and sparse vector: what they return and charge."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpsql.kernel.loss import Charge
from dpsql.kernel.mechanisms import Noise, best_share
from dpsql.mechanisms import hybrid_sparse_vector, hybrid_top_k

NOISES = ["exponential", "laplace", "geometric"]
FAR = np.array([10, 4 * 10**6, 2 * 10**6, 0, 3 * 10**6, 10**6])


@pytest.mark.parametrize("noise", NOISES)
class TestHybridTopK:
    def test_stops_at_the_threshold(self, noise: Noise) -> None:
        found = hybrid_top_k(FAR, 1500000, 5, 1, noise=noise)
        assert found.index.tolist() == [1, 4, 2]
        assert found.reached_threshold
        assert found.charge == Charge(Fraction(4, 5))
        assert np.abs(found.gap - [10**6, 10**6, 500000]).max() < 10**4
        assert found.rest is not None
        assert abs(found.rest - 500000) < 10**4

    def test_stops_at_k(self, noise: Noise) -> None:
        found = hybrid_top_k(FAR, 1500000, 2, 1, noise=noise)
        assert found.index.tolist() == [1, 4]
        assert not found.reached_threshold
        assert np.isnan(found.rest)
        assert found.charge == Charge(Fraction(1))
        assert abs(found.gap[1] - 10**6) < 10**4

    def test_nothing_above(self, noise: Noise) -> None:
        found = hybrid_top_k(FAR, 10**9, 4, 1, noise=noise)
        assert (found.index.tolist(), found.gap.tolist()) == ([], [])
        assert found.reached_threshold
        assert found.charge == Charge(Fraction(1, 4))

    @pytest.mark.parametrize("k", [6, 7, 50])
    def test_all_above(self, noise: Noise, k: int) -> None:
        """Then the threshold is known to come last: the last gap is to it."""
        found = hybrid_top_k(FAR, -(10**6), k, 600, noise=noise)
        assert sorted(found.index.tolist()) == [0, 1, 2, 3, 4, 5]
        assert found.reached_threshold
        assert np.isnan(found.rest)
        assert found.plan.scale == Fraction(6, 600)
        assert found.charge == Charge(Fraction(600))
        assert abs(found.gap.sum() - 5 * 10**6) < 10**3

    def test_below(self, noise: Noise) -> None:
        found = hybrid_top_k(FAR, 500000, 3, 1, noise=noise, below=True)
        assert sorted(found.index.tolist()) == [0, 3]
        assert found.reached_threshold
        assert abs(found.gap.sum() - 500000) < 10**4

    def test_extreme_thresholds(self, noise: Noise) -> None:
        huge = [2**63 - 1, -(2**63), 0]
        assert hybrid_top_k(huge, "1e30", 3, 1, noise=noise).index.tolist() == []
        assert hybrid_top_k(huge, "-1e30", 3, 1, noise=noise).index.tolist() == [0, 2, 1]
        assert hybrid_top_k([], 3, 3, 1, noise=noise).charge == Charge()


@pytest.mark.parametrize("noise", NOISES)
class TestHybridSparseVector:
    def test_the_largest_above(self, noise: Noise) -> None:
        found = hybrid_sparse_vector(FAR, 500000, 3, 1, noise=noise)
        assert found.index.tolist() == [1, 4, 2]
        assert np.abs(found.gap + 500000 - FAR[found.index]).max() < 10**4
        assert found.charge == Charge(Fraction(1))
        assert found.branch.tolist() == [0, 0, 0]

    def test_charge(self, noise: Noise) -> None:
        found = hybrid_sparse_vector(FAR, 2500000, 4, 1, noise=noise, share="0.2")
        assert found.index.tolist() == [1, 4]
        assert found.charge == Charge(Fraction(1, 5) + Fraction(2, 4) * Fraction(4, 5))
        assert found.plan.threshold_scale == 5
        assert found.plan.scales == (Fraction(5),)
        nothing = hybrid_sparse_vector(FAR, 10**9, 4, 1, noise=noise, share="0.2")
        assert nothing.charge == Charge(Fraction(1, 5))

    def test_many_groups_and_below(self, noise: Noise) -> None:
        counts = np.random.default_rng(0).permutation(100_000) * 100
        found = hybrid_sparse_vector(counts, 10**6, 10, 10, noise=noise)
        assert counts[found.index].min() >= 9_990_000 - 10**4
        assert (np.diff(found.gap) <= 0).all()
        least = hybrid_sparse_vector(counts, 10**6, 10, 10, noise=noise, below=True)
        assert counts[least.index].max() < 10**4
        assert hybrid_sparse_vector([], 10, 10, 10, noise=noise).charge == Charge()


def test_scales() -> None:
    assert hybrid_top_k(FAR, 5, 3, "0.6", sensitivity=2, monotone=False).plan.scale == 20
    found = hybrid_sparse_vector(FAR, 5, 3, 1, sensitivity=2, monotone=False, share="1/4")
    assert (found.plan.threshold_scale, found.plan.scales) == (Fraction(8), (Fraction(16),))
    assert hybrid_sparse_vector(FAR, 5, 3, 1).plan.share == best_share(3)


@pytest.mark.parametrize("mechanism", [hybrid_top_k, hybrid_sparse_vector])
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"k": 0}, "k must"),
        ({"epsilon": 0}, "epsilon must"),
        ({"threshold": float("inf")}, "number"),
        ({"sensitivity": 0}, "sensitivity must"),
        ({"noise": "gauss"}, "noise must"),
        ({"resolution": 21}, "resolution must"),
        ({"counts": [[[1]]]}, "one dimension"),
        ({"epsilon": "1e-20"}, "scale"),
    ],
)
def test_refused(mechanism: Callable[..., object], options: dict[str, Any], says: str) -> None:
    given = {"counts": [1, 2], "threshold": 1, "k": 2, "epsilon": 1, **options}
    with pytest.raises(ValueError, match=says):
        mechanism(given.pop("counts"), **given)
