"""Print how much of the true top-k each mechanism for an unknown domain returns on real counts.

Not a test: `python tests/statistical/unknown_domain_report.py FOLDER`, with for each set `X` given by
`--sets` a file `X_counts.parquet` (columns item, n) and, unless `--units X=N` says how many privacy
units there are, `X.parquet` (distinct pairs, the unit first). Delta is 1/units. For each epsilon and
k: the average share, over `--trials` runs, of the k largest groups that came back by

    printed     Top Stable as in the paper, with the threshold of its Lemma 3.1
    laplace     the same with the exact threshold
    one-sided   Top Stable with one-sided noise
    limited     limited domain with 10 k candidates
    then set    limited domain with half of delta, then one-sided Top Stable at what it leaves
    auto        limited domain while its bar is small beside the number of units, else then set
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpsql.kernel.loss import Number
from dpsql.kernel.mechanisms import LimitedDomain, LimitedThenStable, NoiseSource, TopStable
from dpsql.kernel.mechanisms.mechanism import Mechanism, R
from dpsql.kernel.mechanisms.top_stable import StableNoise
from dpsql.kernel.noise import Entropy
from dpsql.noise import SeededEntropy
from dpsql.planning.unknown_keys import LARGEST_BAR

EPSILONS = ("0.4", "0.8", "1.0")
KS = (3, 10, 50)
COLUMNS = ("printed", "laplace", "one-sided", "limited", "then set", "auto")


def lemma(bar_chance: float, threshold_epsilon: float, epsilon: float) -> float:
    """The paper's threshold, ln(1/x)/(epsilon/2), for the largest x that Lemma 3.1 allows."""
    ratio = 2 * threshold_epsilon / epsilon

    def tail(x: float) -> float:
        return (2 * x**ratio + x - ratio * (x**ratio + 2 * x)) / (4 * (1 - ratio))

    low, high = 1e-300, 1.0
    for _step in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if tail(middle) <= bar_chance else (low, middle)
    return math.log(1 / low) / (epsilon / 2)


def stable_share(
    counts: NDArray[np.int64],
    k: int,
    epsilon: Number,
    delta: Number,
    noise: StableNoise,
    trials: int,
    entropy: Entropy,
    *,
    as_printed: bool = False,
) -> float:
    plan = TopStable.plan(k, epsilon, delta, noise=noise)
    if as_printed:
        tests = plan.tests
        cutoff = lemma(float(delta) / k, float(tests.threshold_epsilon), float(tests.epsilon))
        tests = dataclasses.replace(tests, cutoff=math.ceil(cutoff * 2**tests.resolution))
        plan = dataclasses.replace(plan, tests=tests)
    return (runs(plan, counts, trials, entropy).index >= 0).sum(axis=1).mean() / k


def runs(plan: Mechanism[R], counts: NDArray[np.int64], trials: int, entropy: Entropy) -> R:
    return plan.run(np.broadcast_to(counts, (trials, len(counts))), NoiseSource(entropy))


def limited_share(
    plan: LimitedDomain | LimitedThenStable, counts: NDArray[np.int64], trials: int, entropy: Entropy
) -> float:
    limited = plan if isinstance(plan, LimitedDomain) else plan.limited
    # As in a statement, the mechanism is given its candidates and the next group.
    largest = np.sort(counts)[::-1][: limited.groups + 1]
    index = plan.run(np.broadcast_to(largest, (trials, len(largest))), NoiseSource(entropy)).index
    return ((index >= 0) & (index < limited.k)).sum(axis=1).mean() / limited.k


def main() -> None:
    reader = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reader.add_argument("folder", type=Path)
    reader.add_argument("--sets", nargs="+", default=["gowalla10core", "brightkite_sepgcn", "retail"])
    reader.add_argument("--units", nargs="*", default=[], metavar="X=N")
    reader.add_argument("--trials", type=int, default=2000)
    reader.add_argument("--seed", type=int, default=1)
    given = reader.parse_args()
    units = {name: int(number) for name, number in (pair.split("=") for pair in given.units)}
    entropy = SeededEntropy(given.seed)
    rows = []
    print(f"{'set':<20}{'epsilon':>8}{'k':>4}" + "".join(f"{name:>11}" for name in COLUMNS))
    for name in given.sets:
        counts = (
            pq.read_table(given.folder / f"{name}_counts.parquet").column("n").to_numpy().astype(np.int64)
        )
        if name not in units:
            units[name] = pc.count_distinct(pq.read_table(given.folder / f"{name}.parquet").column(0)).as_py()
        delta = Fraction(1, units[name])
        for epsilon in EPSILONS:
            for k in KS:
                rest = (given.trials, entropy)
                shares = [
                    stable_share(counts, k, epsilon, delta, "laplace", *rest, as_printed=True),
                    stable_share(counts, k, epsilon, delta, "laplace", *rest),
                    stable_share(counts, k, epsilon, delta, "one-sided", *rest),
                    limited_share(limited := LimitedDomain.plan(k, epsilon, delta), counts, *rest),
                    limited_share(LimitedThenStable.plan(k, epsilon, delta), counts, *rest),
                ]
                shares.append(shares[3] if limited.bar * delta <= LARGEST_BAR else shares[4])
                rows.append((name, epsilon, k, *shares))
                print(f"{name:<20}{epsilon:>8}{k:>4}" + "".join(f"{share:>11.3f}" for share in shares))
    table = np.array([row[3:] for row in rows])
    for label, column in (("printed", 0), ("laplace", 1)):
        gain = table[:, 2] - table[:, column]
        print(f"one-sided - {label}: mean {gain.mean():+.3f}, least {gain.min():+.3f}")
    missed = dict(zip(COLUMNS, 1 - table.mean(axis=0), strict=True))
    print("missed on average: " + ", ".join(f"{name} {share:.3f}" for name, share in missed.items()))
    best = min(share for name, share in missed.items() if name != "auto")
    print(f"auto over the best of the others: {missed['auto'] / best:.3f}")


if __name__ == "__main__":
    main()
