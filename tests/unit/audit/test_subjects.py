"""Every subject runs on all it may be given; checks one by one have the law of the batches audited.

A false alarm has probability 1e-9; noise of another scale must be noticed.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpsql import mechanisms, noise
from dpsql.audit import CATALOGUE, Subject, read
from dpsql.kernel.mechanisms import CheckStream, CheckStreamPlan, NoiseSource
from dpsql.kernel.public_order import in_public_order

E = Fraction(3, 2)
RUNS = 2_500
COUNTS = np.array([3, 1, 4, 2, 2])


def one_by_one(
    epsilon: Fraction,
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Runs of the interactive mechanism: misses, their gaps, and charges."""
    source = NoiseSource(noise.SeededEntropy(21))
    index, numbers, charges = np.full((RUNS, 2), -1), np.full((RUNS, 2), np.nan), np.zeros(RUNS)
    for run in range(RUNS):
        checking, used = CheckStream(CheckStreamPlan.plan(epsilon, 2, answers=0), source), 0
        for place, count in enumerate(COUNTS.tolist()):
            if checking.exhausted:
                break
            gap = checking.check(Fraction(count))
            if gap is not None:
                index[run, used], numbers[run, used] = place, gap
                used += 1
        charges[run] = float(checking.charge.epsilon)
    return index, numbers, charges


def least_p(epsilon: Fraction) -> float:
    """The least p-value of the comparisons of single checks with a batch, times their number."""
    index, numbers, charges = one_by_one(epsilon)
    rows = in_public_order(np.tile(COUNTS, (8 * RUNS, 1)))
    done = CheckStreamPlan.plan(E, 2, answers=0).run(rows, NoiseSource(noise.SeededEntropy(22)))
    _, which = np.unique(np.concatenate([index, done.index]), axis=0, return_inverse=True)
    ps = [frequencies(which.reshape(-1))]
    if epsilon == E:
        spent = [
            float(done.plan.realised_loss(units).charge.epsilon) for units in np.asarray(done.units).tolist()
        ]
        ps.append(frequencies(np.unique(np.concatenate([charges, spent]), return_inverse=True)[1]))
    for columns in zip(numbers.T, done.gap.T, strict=True):
        a, b = (column[~np.isnan(column)] for column in columns)
        assert min(len(a), len(b)) > 50
        ps.append(stats.ks_2samp(a, b).pvalue)
    return min(ps) * len(ps)


def frequencies(which: NDArray[np.int64]) -> float:
    size = which.max() + 1
    table = np.stack([np.bincount(side, minlength=size) for side in (which[:RUNS], which[RUNS:])])
    rare = table.sum(axis=0) < 60
    merged = np.concatenate([table[:, ~rare], table[:, rare].sum(axis=1, keepdims=True)], axis=1)
    merged = merged[:, merged.sum(axis=0) > 0]
    return 1.0 if merged.shape[1] < 2 else stats.chi2_contingency(merged).pvalue


@pytest.mark.slow  # the law of single calls is tested by mechanism
def test_checks_one_by_one_have_the_law_of_a_batch() -> None:
    assert least_p(E) > 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("factor", [Fraction(3, 5), Fraction(5, 3)], ids=["wider", "narrower"])
def test_another_scale_would_be_noticed(factor: Fraction) -> None:
    assert least_p(E * factor) < 1e-9


@pytest.mark.parametrize("subject", CATALOGUE, ids=lambda subject: subject.name)
@pytest.mark.parametrize("epsilon", [Fraction(1, 5), Fraction(3, 2)], ids=["small", "large"])
@pytest.mark.sampled(5)
def test_every_subject_runs_on_all_it_may_be_given(subject: Subject, epsilon: Fraction) -> None:
    """Each argument's first and last value, each kind of input; what comes out can be read."""
    from dpsql.audit import pairs

    entropy = noise.SeededEntropy(1)
    inputs = subject.inputs(epsilon) if subject.inputs else pairs(subject.adjacency, entropy=entropy)
    arguments = subject.arguments(epsilon)
    for place in (0, -1):
        chosen = {name: values[place] for name, values in arguments.items()}
        for pair in inputs[:: max(1, len(inputs) // 5)]:
            result = subject.mechanism(np.array(pair.first), 7, entropy, epsilon=epsilon, **chosen)
            outputs = read(result, 7)
            assert outputs.labels or outputs.values
            if subject.kind == "dpsql":
                assert outputs.epsilon is not None
                assert (outputs.epsilon <= float(epsilon) + 1e-9).all()
                assert (outputs.epsilon >= 0).all()


def test_the_catalogue_has_every_mechanism() -> None:
    names = " ".join(subject.name for subject in CATALOGUE if subject.kind == "dpsql")
    assert len({subject.name for subject in CATALOGUE}) == len(CATALOGUE)
    for part in (
        "noisy top-k, exponential, monotone",
        "noisy top-k, laplace, general",
        "noisy top-k, geometric",
        "noisy top-k over a sparse domain",
        "hybrid top-k over a sparse domain",
        "noisy top-k over counts known from above",
        "hybrid top-k over counts known from above",
        "noisy lowest-k",
        "noisy max",
        "exponential mechanism",
        "joint exponential mechanism",
        "sparse vector, exponential",
        "adaptive sparse vector",
        "adaptive sparse vector, 4 branches",
        "hybrid top-k",
        "hybrid sparse vector",
        "limited domain",
        "limited domain, then top stable",
        "top stable, one-sided",
        "top stable, laplace",
        "first stable",
        "stable answers",
        "existing groups",
        "laplace, each count",
        "anchor",
        "release all",
        "box",
        "box, unequal bounds",
        "cube",
        "stream of checks",
        "quantile, median",
        "quantile, 3 rows a unit",
        "quantiles, three at once",
        "extreme, largest",
        "ladder",
        "bins",
        "gaussian, a part shared",
        "gaussian, each count",
        "peeled top-k",
        "gumbel top-k",
        "sparse vector by rounds",
    ):
        assert part in names
    functions = {name for name in mechanisms.__all__ if name[0].islower()} - {
        "best_share",
        "check_sparse",
        "excess_score",
        "excess_scores",
        "in_public_order",
        "usual_grid",
    }
    assert functions <= {
        "adaptive_sparse_vector",
        "anchor",
        "box",
        "existing_groups",
        "exponential",
        "extreme",
        "first_stable",
        "gaussian",
        "gumbel_top_k",
        "peeled_top_k",
        "sparse_vector_by_rounds",
        "hybrid_sparse_vector",
        "ladder",
        "quantile",
        "hybrid_top_k",
        "joint",
        "laplace",
        "limited_domain",
        "limited_then_stable",
        "noisy_max",
        "noisy_top_k",
        "release_all",
        "sparse_vector",
        "stable_answers",
        "top_stable",
    }, "a new mechanism needs its place in the catalogue"
