"""The batches that are audited have the law of the public functions that people call.

Where a mechanism has no batches of its own, the catalogue runs it from its own parts. Each such batch is
compared with the function itself, called many times: by their most frequent outputs, and by their gaps. A
false alarm has probability 1e-9; noise of another scale must be noticed.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpsql import mechanisms, noise
from dpsql.audit import CATALOGUE, read
from dpsql.audit.subjects import threshold, unknown
from dpsql.order import in_public_order

E = Fraction(3, 2)
RUNS = 2_500
COUNTS = np.array([3, 1, 4, 2, 2])
DESCENDING = np.array([9, 6, 3, 3, 1])
DISTANCES, ANSWERS = np.array([0, 6, 2, 9]), np.array([1, 2, 3, 4])


def filled(values, width, none):
    return np.concatenate([values, np.full(width - len(values), none)])[:width]


def sparse(entropy, epsilon):
    done = mechanisms.adaptive_sparse_vector(
        in_public_order(COUNTS), 3, 1, epsilon, branches=2, margin=2, entropy=entropy
    )
    parts = [*filled(done.index, 2, -1), *filled(done.branch, 2, -1)]
    return tuple(parts), filled(done.gap, 2, np.nan), done.charge


def plain(entropy, epsilon):
    done = mechanisms.sparse_vector(
        in_public_order(COUNTS), 3, 2, epsilon, monotone=False, noise="laplace", entropy=entropy
    )
    return tuple(filled(done.index, 2, -1)), filled(done.gap, 2, np.nan), done.charge


def below(entropy, epsilon):
    done = mechanisms.sparse_vector(in_public_order(COUNTS), 2, 1, epsilon, below=True, entropy=entropy)
    return tuple(filled(done.index, 1, -1)), filled(done.gap, 1, np.nan), done.charge


def hybrid_sparse(entropy, epsilon):
    done = mechanisms.hybrid_sparse_vector(COUNTS, 2, 2, epsilon, entropy=entropy)
    return tuple(filled(done.index, 2, -1)), filled(done.gap, 2, np.nan), done.charge


def guesses(entropy, epsilon):
    checking = mechanisms.GuessAndCheck(2, epsilon, 2, entropy=entropy)
    missed, value, gap = [], [], []
    for place, count in enumerate(COUNTS.tolist()):
        if checking.exhausted:
            break
        said = checking.check(count, 1)
        if not said.hit:
            missed.append(place)
            value.append(float(said.value))
            gap.append(float(said.gap))
    numbers = np.concatenate([filled(np.array(part), 2, np.nan) for part in (value, gap)])
    return tuple(filled(np.array(missed, dtype=int), 2, -1)), numbers, checking.charge


def limited(entropy, epsilon):
    done = mechanisms.limited_domain(DESCENDING, 2, epsilon, "0.1", candidates=3, entropy=entropy)
    return tuple(filled(done.index, 2, -1)), filled(done.gap, 2, np.nan), done.charge


def stable_set(entropy, epsilon):
    done = mechanisms.top_stable(DESCENDING, 2, epsilon, "0.3", entropy=entropy)
    member = np.isin(np.arange(5), done.index).astype(int)
    margin = np.nan if done.gap is None else done.gap
    return (*member, done.stable), np.array([margin]), done.charge


def chosen_of_stable(entropy, epsilon):
    done = mechanisms.top_stable(DESCENDING, 1, epsilon, "0.3", candidates=3, entropy=entropy)
    member = np.isin(np.arange(5), done.index).astype(int) if done.stable <= 1 else np.full(5, -1)
    order, gap = [-1], [np.nan]
    if done.chosen is not None:
        order, gap = done.index.tolist(), done.chosen.gap.tolist()
    margin = np.nan if done.gap is None else done.gap
    return (*member, done.stable, *order), np.array([margin, *gap]), done.charge


def first_stable(entropy, epsilon):
    done = mechanisms.first_stable(in_public_order(DISTANCES), epsilon, "0.3", entropy=entropy)
    at = -1 if done.query is None else done.query
    margin = np.nan if done.gap is None else done.gap
    return (at, -1 if at < 0 else ANSWERS[at]), np.array([margin]), done.charge


def stable_stream(entropy, epsilon):
    done = mechanisms.stable_answers(in_public_order(DISTANCES), 2, epsilon, "0.3", entropy=entropy)
    told = np.full(4, -1)
    told[: done.asked] = 0
    told[done.index] = ANSWERS[done.index]
    return tuple(told), np.zeros(0), done.charge


QUERIES = np.stack([DISTANCES, ANSWERS])
CASES = {
    "adaptive": (
        sparse,
        lambda n, s, e: threshold.find_above(COUNTS, n, s, 3, 1, epsilon=e, branches=2, margin=2),
    ),
    "sparse vector": (
        plain,
        lambda n, s, e: threshold.find_above(COUNTS, n, s, 3, 2, epsilon=e, monotone=False, noise="laplace"),
    ),
    "below": (below, lambda n, s, e: threshold.find_above(COUNTS, n, s, 2, 1, epsilon=e, below=True)),
    "hybrid sparse vector": (
        hybrid_sparse,
        lambda n, s, e: threshold.find_largest_above(COUNTS, n, s, 2, 2, epsilon=e),
    ),
    "guess and check": (guesses, lambda n, s, e: threshold.check_guesses(COUNTS, n, s, 2, 2, epsilon=e)),
    "limited domain": (
        limited,
        lambda n, s, e: unknown.find_unknown(DESCENDING, n, s, 2, 3, epsilon=e, delta=0.1),
    ),
    "top stable": (
        stable_set,
        lambda n, s, e: unknown.find_stable(DESCENDING, n, s, 2, 2, epsilon=e, delta=0.3),
    ),
    "chosen of stable": (
        chosen_of_stable,
        lambda n, s, e: unknown.find_stable(DESCENDING, n, s, 1, 3, epsilon=e, delta=0.3),
    ),
    "first stable": (first_stable, lambda n, s, e: unknown.first_stable(QUERIES, n, s, epsilon=e, delta=0.3)),
    "stable answers": (
        stable_stream,
        lambda n, s, e: unknown.stable_answers(QUERIES, n, s, 2, epsilon=e, delta=0.3),
    ),
}


def least_p(name, epsilon=E):
    """The least p-value of the comparisons of a batch with its function, times their number."""
    function, batch = CASES[name]
    entropy = noise.SeededEntropy(21)
    singles = [function(entropy, epsilon) for _ in range(RUNS)]
    outputs = read(batch(8 * RUNS, noise.SeededEntropy(22), E), 8 * RUNS)
    charges = np.array([float(single[2].epsilon) for single in singles])
    labels = [np.array([[*single[0], 0] for single in singles], dtype=np.int64)]
    labels.append(np.concatenate([*outputs.labels.values(), np.zeros((8 * RUNS, 1), np.int64)], axis=1))
    assert labels[0].shape[1] == labels[1].shape[1]
    rows, which = np.unique(np.concatenate(labels), axis=0, return_inverse=True)
    ps = [frequencies(which.reshape(-1), len(rows))]
    if epsilon == E:
        # What is charged follows from the labels, as numbers that are equal to the last digit but one.
        each = np.round(np.concatenate([charges, outputs.epsilon]), 9)
        ps.append(frequencies(np.unique(each, return_inverse=True)[1], len(np.unique(each))))
    numbers = np.stack([single[1] for single in singles])
    theirs = np.concatenate([*outputs.values.values(), np.zeros((8 * RUNS, 0))], axis=1)
    assert numbers.shape[1] == theirs.shape[1]
    for columns in zip(numbers.T, theirs.T, strict=True):
        a, b = (column[~np.isnan(column)] for column in columns)
        if min(len(a), len(b)) > 50:
            ps.append(stats.ks_2samp(a, b).pvalue)
    return min(ps) * len(ps)


def frequencies(which, size):
    table = np.stack([np.bincount(side, minlength=size) for side in (which[:RUNS], which[RUNS:])])
    rare = table.sum(axis=0) < 60
    merged = np.concatenate([table[:, ~rare], table[:, rare].sum(axis=1, keepdims=True)], axis=1)
    merged = merged[:, merged.sum(axis=0) > 0]
    return 1.0 if merged.shape[1] < 2 else stats.chi2_contingency(merged).pvalue


@pytest.mark.parametrize("name", CASES)
def test_a_batch_has_the_law_of_the_function(name) -> None:
    assert least_p(name) > 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("factor", [Fraction(3, 5), Fraction(5, 3)], ids=["wider", "narrower"])
def test_another_scale_would_be_noticed(name, factor) -> None:
    assert least_p(name, epsilon=E * factor) < 1e-9


@pytest.mark.parametrize("subject", CATALOGUE, ids=lambda subject: subject.name)
@pytest.mark.parametrize("epsilon", [Fraction(1, 5), Fraction(3, 2)], ids=["small", "large"])
def test_every_subject_runs_on_all_it_may_be_given(subject, epsilon) -> None:
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
        "noisy lowest-k",
        "noisy max",
        "exponential mechanism",
        "sparse vector, exponential",
        "adaptive sparse vector",
        "ladder",
        "hybrid top-k",
        "hybrid sparse vector",
        "limited domain",
        "top stable, one-sided",
        "top stable, laplace",
        "first stable",
        "stable answers",
        "laplace, each count",
        "anchor",
        "release all",
        "guess and check",
    ):
        assert part in names
    functions = {name for name in mechanisms.__all__ if name[0].islower()} - {
        "best_share",
        "in_public_order",
        "usual_grid",
    }
    assert functions <= {
        "adaptive_sparse_vector",
        "anchor",
        "exponential",
        "first_stable",
        "hybrid_sparse_vector",
        "hybrid_top_k",
        "laplace",
        "limited_domain",
        "noisy_max",
        "noisy_top_k",
        "release_all",
        "sparse_vector",
        "stable_answers",
        "top_stable",
    }, "a new mechanism needs its place in the catalogue"
