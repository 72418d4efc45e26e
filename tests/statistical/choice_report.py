"""Print the errors of AUTO beside those of each fixed choice of a mechanism, on counts of several shapes.

Not a test: `python tests/statistical/choice_report.py FOLDER [RUNS]`, with files `X_counts.parquet` (columns
item, n) in the folder. Every cell is a shape, a k and an epsilon. The statements are prepared by dpsql over a
public domain of as many keys as the shape has, and run on the shape's counts. Printed are the geometric means
over all cells of the error divided by the error of the cell's best choice, with the worst cell in brackets:

    keys        count missed a row, at least 1/epsilon
    counts      root mean squared error of row i against the true i-th largest count, at least .5/epsilon
    threshold   1 - F of the keys shown, LIMIT 80, for a threshold at the k-th largest count, at least 1/(4 k)
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpsql.composition.prepared import PreparedPrivate
from dpsql.policy import load
from dpsql.session import Session
from tests.support.exact import Answered, answer_of, counts_of
from tests.support.world import write_world

KS = {"keys": (1, 5, 10, 25, 50, 100), "counts": (1, 5, 10, 25, 50, 100), "threshold": (20, 40, 60, 80)}
EPSILONS = {"keys": ("1", "0.1"), "counts": ("1", "0.1"), "threshold": ("0.7",)}
SETS = ("t40i10d100k", "msweb", "retail")
POLICY = """
[budget]
epsilon = 1e6
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "u"
[tables.items]
source = "items.parquet"
public = true
[tables.visits.domain]
item = { table = "items", column = "item" }
"""
N = "COUNT(DISTINCT u) AS n"
READINGS = {
    "keys": ("ORDER BY COUNT(DISTINCT u) DESC LIMIT {k}", "", ("NOISY_TOP_K", "JOINT", "BOX")),
    "counts": ("ORDER BY n DESC LIMIT {k}", N, ("NOISY_TOP_K", "JOINT", "BOX")),
    "threshold": (
        "HAVING COUNT(DISTINCT u) >= {t} LIMIT 80",
        "",
        ("HYBRID_TOP_K", "BOX", "ADAPTIVE_SPARSE_VECTOR"),
    ),
}


def shapes(folder: Path) -> Iterator[tuple[str, NDArray[np.int64]]]:
    for name in SETS:
        yield name, np.sort(pq.read_table(folder / f"{name}_counts.parquet")["n"].to_numpy())[::-1].copy()
    place = np.arange(1, 2001)
    yield "zipf", (20_000 / place).astype(np.int64)
    yield "flat", np.linspace(1200, 1000, 500).astype(np.int64)
    yield "small", np.linspace(5000, 10, 60).astype(np.int64)


def missed(exact: NDArray[np.int64], found: Answered, k: int, epsilon: float) -> float:
    return max(float(exact[:k].sum() - exact[found.rows].sum()) / min(k, len(exact)), 1 / epsilon)


def distance(exact: NDArray[np.int64], found: Answered, k: int, epsilon: float) -> float:
    estimates = next(each for each in found.counts if each is not None)
    wrong = estimates.value - exact[: len(found.rows)]
    return float(np.mean(wrong**2))


def misses(exact: NDArray[np.int64], found: Answered, k: int, epsilon: float) -> float:
    right = int((exact[found.rows] >= exact[k - 1]).sum())
    return max(1 - 2 * right / (len(found.rows) + k), 1 / (4 * k))


ERRORS: dict[str, Callable[[NDArray[np.int64], Answered, int, float], float]] = {
    "keys": missed,
    "counts": distance,
    "threshold": misses,
}


def error(
    session: Session, reading: str, mechanism: str, exact: NDArray[np.int64], k: int, epsilon: str, runs: int
) -> float:
    rest, count, _ = READINGS[reading]
    options = f"epsilon = {epsilon}, mechanism = {mechanism}"
    shown = ", ".join(["item", count] if count else ["item"])
    text = (
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {shown} FROM visits GROUP BY item "
        + rest.format(k=k, t=exact[min(k, len(exact)) - 1])
    )
    prepared = session.prepare(text)
    assert isinstance(prepared, PreparedPrivate)
    keys = np.arange(len(exact))
    counts = counts_of(
        prepared.plan,
        pa.table({"k0": keys}),
        (exact,),
        order=None if prepared.plan.compiled.order is None else prepared.plan.compiled.order.terms,
        places={"o0": keys},
    )
    of = ERRORS[reading]
    found = [
        of(exact, answer_of(prepared.method, prepared.plan, counts), k, float(epsilon)) for _ in range(runs)
    ]
    mean = float(np.mean(found))
    return max(mean**0.5, 0.5 / float(epsilon)) if reading == "counts" else mean


def opened(folder: Path, size: int) -> Session:
    write_world(folder, POLICY, items={"item": np.arange(size)}, visits={"u": [1], "item": np.array([0])})
    return Session(load(folder / "dpsql.toml"))


def main(folder: Path, runs: int) -> None:
    ratios: dict[tuple[str, str], list[float]] = {}
    for shape, exact in shapes(folder):
        with tempfile.TemporaryDirectory() as made:
            session = opened(Path(made), len(exact))
            for reading, (_, _, fixed) in READINGS.items():
                for k in (k for k in KS[reading] if k < len(exact)):
                    for epsilon in EPSILONS[reading]:
                        found = {
                            name: error(session, reading, name, exact, k, epsilon, runs)
                            for name in (*fixed, "AUTO")
                        }
                        best = min(found.values())
                        print(
                            shape, reading, k, epsilon, {n: round(e, 3) for n, e in found.items()}, flush=True
                        )
                        for name, value in found.items():
                            ratios.setdefault((reading, name), []).append(value / best)
            session.close()
    for reading, (_, _, fixed) in READINGS.items():
        means = {}
        for name in (*fixed, "AUTO"):
            cells = ratios[reading, name]
            means[name] = float(np.exp(np.mean(np.log(cells))))
            print(f"{reading:10} {name:22} {means[name]:8.3f} ({max(cells):.2f})")
        print(f"{reading:10} AUTO / best fixed choice {means['AUTO'] / min(means[n] for n in fixed):.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20)
