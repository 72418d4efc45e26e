"""The sparse vector family: what it returns, when it stops, what it charges and refuses."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.loss import Charge, Number
from dpsql.kernel.mechanisms import AdaptiveSparseVector, Noise, NoiseSource, SparseVector, best_share
from dpsql.kernel.public_order import in_public_order
from dpsql.mechanisms import adaptive_sparse_vector, sparse_vector
from tests.narrow import of_type

NOISES = ["exponential", "laplace", "geometric"]
FAR = np.array([0, 10**6, 3, 2 * 10**6, 10**6, 1, 10**6, 10**6])


def plan(
    groups: int = 100, threshold: int = 50, k: int = 10, epsilon: Number = 1, **options: Any
) -> AdaptiveSparseVector:
    return AdaptiveSparseVector.plan(groups, threshold, k, epsilon, **options)


def scanned(found: SparseVector) -> int:
    """How many groups were answered: all, unless the run stopped at its last hit."""
    made, hits = found.plan, len(found.index)
    base = (1 - made.share) * made.loss.charge.epsilon / made.hits
    spent = found.charge.epsilon - made.share * made.loss.charge.epsilon
    stopped = spent + base > (1 - made.share) * made.loss.charge.epsilon
    return int(found.index[-1]) + 1 if stopped or hits == made.limit else made.groups


@pytest.mark.parametrize("noise", NOISES)
class TestSparseVector:
    def test_the_first_k_above(self, noise: Noise) -> None:
        found = sparse_vector(in_public_order(FAR), 1000, 3, 1, noise=noise)
        assert found.index.tolist() == [1, 3, 4]
        assert found.branch.tolist() == [0, 0, 0]
        assert scanned(found) == 5
        assert found.charge == Charge(Fraction(1))
        assert np.abs(found.gap + 1000 - FAR[found.index]).max() < 10**4

    def test_what_is_left_is_not_charged(self, noise: Noise) -> None:
        found = sparse_vector(in_public_order(FAR), 1500000, 4, 1, noise=noise, share="0.2")
        assert found.index.tolist() == [3]
        assert scanned(found) == len(FAR)
        assert found.charge == Charge(Fraction(1, 5) + Fraction(1, 5))

    def test_below(self, noise: Noise) -> None:
        found = sparse_vector(in_public_order(FAR), 1000, 3, 1, noise=noise, below=True)
        assert found.index.tolist() == [0, 2, 5]
        assert np.abs(1000 - found.gap - FAR[found.index]).max() < 900

    def test_nothing_above(self, noise: Noise) -> None:
        found = sparse_vector(in_public_order(FAR), 10**9, 3, 1, noise=noise, share="1/4")
        assert (found.index.shape, found.gap.shape, found.branch.shape) == ((0,), (0,), (0,))
        assert found.charge == Charge(Fraction(1, 4))

    def test_no_groups(self, noise: Noise) -> None:
        found = adaptive_sparse_vector(in_public_order([]), 5, 3, 1, noise=noise)
        assert (found.index.tolist(), found.charge) == ([], Charge())

    def test_far_above_the_cheapest_branch_is_taken(self, noise: Noise) -> None:
        """Far above the threshold all hits cost an eighth: eight times as many rows."""
        counts = np.full(1000, 10**7)
        found = adaptive_sparse_vector(in_public_order(counts), 1000, 5, 1, noise=noise, share="1/2")
        assert set(found.branch.tolist()) == {3}
        # After 33 hits 33/8 base hits are spent, and no base hit fits: 4 1/8 > 5 - 1.
        assert found.index.tolist() == list(range(33))
        assert scanned(found) == 33
        assert found.charge == Charge(Fraction(1, 2) + Fraction(33, 8) / 10)

    def test_the_limit_is_a_number_of_rows(self, noise: Noise) -> None:
        counts = np.full(100_000, 10**7)
        found = adaptive_sparse_vector(in_public_order(counts), 1000, 5, 1, limit=5, noise=noise, share="1/2")
        assert found.index.tolist() == [0, 1, 2, 3, 4]
        assert found.charge == Charge(Fraction(1, 2) + Fraction(5, 8) / 10)

    def test_hits_late_in_a_long_stream(self, noise: Noise) -> None:
        counts = np.zeros(200_000, dtype=np.int64)
        counts[[70_000, 70_001, 150_000, 199_999]] = 10**8
        found = adaptive_sparse_vector(in_public_order(counts), 10**6, 4, 1, noise=noise)
        assert found.index.tolist() == [70_000, 70_001, 150_000, 199_999]
        short = adaptive_sparse_vector(in_public_order(counts), 10**6, 4, 1, limit=3, noise=noise)
        assert short.index.tolist() == [70_000, 70_001, 150_000]
        assert scanned(short) == 150_001

    def test_gaps_are_never_negative(self, noise: Noise) -> None:
        counts = np.full(3000, 5)
        for resolution in (0, None if noise == "geometric" else 6):
            found = adaptive_sparse_vector(
                in_public_order(counts), "5.25", 300, 50, noise=noise, resolution=resolution
            )
            assert len(found.index)
            assert (found.gap >= 0).all()

    def test_centres(self, noise: Noise) -> None:
        """Where nothing is near the threshold, gap + threshold is the count on average, on any grid."""
        for resolution in (0, None if noise == "geometric" else 8):
            runs = sparse_vector(
                in_public_order(np.tile([500, 500], (20_000, 1))),
                3,
                2,
                2,
                noise=noise,
                share="0.4",
                resolution=resolution,
            )
            assert (runs.branch == 0).all()
            spread = runs.gap[:, 0].std() / math.sqrt(20_000)
            # 6.2 standard deviations: a false alarm in 1e9 runs.
            assert abs(runs.gap[:, 0].mean() + 3 - 500) < 6.2 * spread


def test_extreme_thresholds_and_counts() -> None:
    huge = [2**63 - 1, -(2**63), 0]
    assert sparse_vector(in_public_order(huge), "1e30", 3, 1).index.tolist() == []
    assert sparse_vector(in_public_order(huge), "-1e30", 3, 1).index.tolist() == [0, 1, 2]
    assert sparse_vector(in_public_order(huge), 2**39, 3, 1).index.tolist() == [0]
    assert sparse_vector(in_public_order(huge), "1e30", 3, 1, below=True).index.tolist() == [0, 1, 2]


class TestPlan:
    def test_scales(self) -> None:
        made = plan(k=10, epsilon=2, share="1/5", branches=3, sensitivity=3)
        assert made.threshold_scale == Fraction(3) / Fraction(2, 5)
        base = Fraction(16, 100)
        assert made.scales == (3 / base, 6 / base, 12 / base)
        assert made.resolution == plan(k=10, epsilon=2, share="1/5", branches=1, sensitivity=3).resolution
        assert Fraction(1, 2**made.resolution) <= made.threshold_scale / 1024
        general = plan(k=10, epsilon=2, share="1/5", branches=3, sensitivity=3, monotone=False)
        assert general.threshold_scale == made.threshold_scale
        assert general.scales == tuple(2 * scale for scale in made.scales)

    def test_released_scales_are_by_branch(self) -> None:
        found = adaptive_sparse_vector(in_public_order(FAR), 10, 4, 1, branches=3, share="1/2")
        assert found.plan.scales == (Fraction(8), Fraction(16), Fraction(32))
        assert found.plan.threshold_scale == 2
        assert found.plan.share == Fraction(1, 2)

    @pytest.mark.parametrize(
        ("k", "monotone", "branch"), [(1, True, 0), (10, True, 0), (7, False, 0), (10, True, 2)]
    )
    def test_the_best_share_has_the_least_variance(self, k: int, monotone: bool, branch: int) -> None:
        kappa = 1 if monotone else 2
        best = float(best_share(k, monotone=monotone, branch=branch))

        def variance(theta: float) -> float:
            return theta**-2 + (kappa * 2**branch * k / (1 - theta)) ** 2

        assert variance(best) < min(variance(best * 1.01), variance(best * 0.99))

    def test_the_default_share_is_that_of_the_middle(self) -> None:
        assert plan(branches=1).share == best_share(10)
        assert plan(branches=5).share == best_share(10, branch=2)
        assert plan(branches=5, monotone=False).share == best_share(10, branch=2, monotone=False)
        assert 0 < plan(k=10**9, groups=10**9).share < 1

    def test_no_more_hits_than_groups(self) -> None:
        assert plan(groups=3, k=10).hits == 3

    @pytest.mark.parametrize("noise", NOISES)
    @pytest.mark.parametrize("epsilon", ["0.01", 1, 40])
    def test_cutoffs_and_margins(self, noise: Noise, epsilon: int | str) -> None:
        """Each branch asks for max(2, ln(n/k)) deviations over the threshold; the base for none."""
        for groups, over in ((100, math.log(10)), (20, 2)):
            made = plan(groups, 50, 10, epsilon, noise=noise)
            step = 2.0**-made.resolution

            def moments(scale: Fraction, step: float = step) -> tuple[float, float]:
                r = math.exp(-step / float(scale))
                mean, spread = step * r / (1 - r), step * math.sqrt(r) / (1 - r)
                return (0, spread * math.sqrt(2)) if noise == "laplace" else (mean, spread)

            centre = moments(made.threshold_scale)[0]
            for branch, (cutoff, scale) in enumerate(zip(made.cutoffs, made.scales, strict=True)):
                mean, spread = moments(scale)
                margin = over * spread if branch else 0
                wanted = (50 - centre + mean + margin) / step
                assert cutoff == pytest.approx(wanted, rel=1e-9, abs=1.001)
                assert cutoff >= wanted * (1 - 1e-9) - 1e-6
        given = plan(100, 50, 10, epsilon, noise=noise, margin=2).cutoffs
        assert given == plan(20, 50, 10, epsilon, noise=noise).cutoffs

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"k": 0}, "k must"),
            ({"epsilon": 0}, "epsilon must"),
            ({"threshold": float("nan")}, "number"),
            ({"threshold": "high"}, "number"),
            ({"limit": 0}, "limit must"),
            ({"branches": 0}, "branches must"),
            ({"branches": 17}, "branches must"),
            ({"share": 0}, "share must"),
            ({"share": 1}, "share must"),
            ({"share": "-0.1"}, "share must"),
            ({"margin": -1}, "margin must"),
            ({"sensitivity": 0}, "sensitivity must"),
            ({"noise": "gauss"}, "noise must"),
            ({"resolution": 21}, "resolution must"),
            ({"noise": "geometric", "resolution": 1}, "resolution must"),
            ({"epsilon": "1e-20"}, "scale"),
        ],
    )
    def test_refused(self, options: dict[str, float | str], says: str) -> None:
        arguments: dict[str, Any] = {"threshold": 1, "k": 2, "epsilon": 1, **options}
        with pytest.raises(ValueError, match=says):
            adaptive_sparse_vector(in_public_order([1, 2]), **arguments)

    def test_a_bare_array_says_nothing_about_its_order(self) -> None:
        for run in (adaptive_sparse_vector, sparse_vector):
            with pytest.raises(TypeError, match="in_public_order"):
                run(np.array([1, 2]), 1, 1, 1)
        with pytest.raises(TypeError, match="in_public_order"):
            plan(groups=2).run(np.array([1, 2]))  # type: ignore[arg-type]  # the type refuses it too

    def test_counts_refused(self) -> None:
        for counts in ([[[1, 2]]], 3):
            with pytest.raises(ValueError, match="one dimension"):
                sparse_vector(in_public_order(counts), 1, 1, 1)
        with pytest.raises(ValueError, match="planned for 3"):
            plan(groups=3).run(in_public_order([1, 2]))


@dataclass(frozen=True)
class Passing(NoiseSource):
    """No noise on the threshold, and on the counts what makes each pass the branch at hand; -1: none."""

    branch: NDArray[np.int64] = field(kw_only=True)
    made: AdaptiveSparseVector = field(kw_only=True)
    starts: list[int] = field(default_factory=lambda: [0])

    def draw(
        self, noise: Noise, scale: Fraction, bits: int, size: int | tuple[int, ...]
    ) -> NDArray[np.int64]:
        return np.zeros(size, dtype=np.int64)

    def draw_reaching(
        self, noise: Noise, scale: Fraction, bits: int, need: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        at, trials, start = self.made.scales.index(scale), len(self.branch), self.starts[-1]
        block = self.branch[:, start : start + len(need) // trials]
        if at == len(self.made.scales) - 1:
            self.starts.append(start + block.shape[1])
        where = np.flatnonzero(block == at)
        return where, need[where]


class TestStopping:
    """Against the printed loop: stop once spent > epsilon - epsilon_1."""

    def loop(
        self, branch: Sequence[int], made: AdaptiveSparseVector
    ) -> tuple[list[tuple[int, int]], Fraction]:
        spent = made.share * made.loss.charge.epsilon
        hits: list[tuple[int, int]] = []
        base = (1 - made.share) * made.loss.charge.epsilon / made.hits
        for place, j in enumerate(branch):
            stopped = spent > made.loss.charge.epsilon - base
            if not stopped and j >= 0 and (made.limit is None or len(hits) < made.limit):
                spent += base / 2**j
                hits.append((place, j))
        return hits, spent

    @pytest.mark.parametrize("block", [1, 7, 1 << 15])
    @pytest.mark.parametrize("limit", [None, 1, 3])
    @pytest.mark.parametrize("branches", [1, 2, 4])
    @pytest.mark.sampled(7)
    def test_hits_and_charges(
        self, branches: int, limit: int | None, block: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """For trials at once, and one by one; wherever a scan is cut into blocks."""
        monkeypatch.setattr(import_module(AdaptiveSparseVector.__module__), "_BLOCK", block)
        rng = np.random.default_rng(1)
        for _ in range(30):
            made = plan(groups=30, k=int(rng.integers(1, 5)), share="0.37", branches=branches, limit=limit)
            branch = np.where(rng.random((10, 30)) < 0.6, rng.integers(0, branches, (10, 30)), -1)
            source = Passing(branch=branch, made=made)
            found = made.run(in_public_order(np.zeros((10, 30), dtype=np.int64)), source)
            units = of_type(found.units, np.ndarray)
            for trial in range(10):
                hits, spent = self.loop(branch[trial].tolist(), made)
                source = Passing(branch=branch[trial : trial + 1], made=made)
                one = made.run(in_public_order([0] * 30), source)
                assert list(zip(one.index.tolist(), one.branch.tolist(), strict=True)) == hits
                assert one.charge.epsilon == spent <= made.loss.charge.epsilon
                assert units[trial] == one.units
                for part in ("index", "branch", "gap"):
                    row = getattr(found, part)[trial]
                    assert row[: len(hits)].tolist() == getattr(one, part).tolist()
                    assert ((row[len(hits) :] == -1) | np.isnan(row[len(hits) :])).all()
