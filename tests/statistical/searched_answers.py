"""Statements whose bound is found in them, answered many times: what is exact is counted once.

The search and the noise are drawn by the product's own functions, as in `composition.running`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsql.composition.planned_count import PlannedCount
from dpsql.database import Database
from dpsql.kernel.counts import Counts
from dpsql.kernel.loss.composing import Spending
from dpsql.planning import build_details, build_rows, widen_by_left_out
from dpsql.planning.bound_search import BoundSearches
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import private
from tests.support.exact import answer_with, known_of, runs_of

Exact = Mapping[object, float] | float


@dataclass(frozen=True)
class Searched:
    """What many runs of a statement had, against the exact answer on the rows that have a unit."""

    covered: float
    """The share of numbers and runs that the intervals cover."""
    error: float
    """The root of the mean square of the errors, over numbers and runs."""
    width: float
    """The mean width of the intervals."""
    added: float
    """By which part the sum of all numbers is off, in the mean over the runs."""


class Searching:
    """A policy whose statements are answered many times."""

    def __init__(self, policy: Path) -> None:
        self.database = Database(load(policy))
        self.session = Session(self.database, "alice")

    def close(self) -> None:
        """Close the database."""
        self.session.close()
        self.database.close()

    def answered(self, text: str, exact: Exact, runs: int) -> Searched:
        """Answer a statement many times; its number is `n`, the exact one is by group, or a number."""
        prepared = private(self.session.prepare(text))
        counting, method = prepared.counting, prepared.method
        assert isinstance(method, BoundSearches)
        searched = [counting.count(each.compiled) for each in prepared.plan.ladders]
        known: dict[tuple[int, ...], tuple[PlannedCount, Counts | None]] = {}
        tables = []
        for _ in range(runs):
            spending = Spending(method.quote.loss)
            found = method.find(runs_of(searched, spending))
            if found not in known:
                bounded = counting.with_bounds(found)
                from_searches = known_of(method, bounded.plan, found, searched)
                known[found] = bounded, bounded.count() if from_searches is None else None
            (bounded, counts), plan = known[found], known[found][0].plan
            made = answer_with(method, plan, found, searched, counts, spending)
            answer = widen_by_left_out(plan, method.add_left_out(plan, made.result, found))
            assert made.charge == method.quote.charge
            tables.append(build_details(plan, answer, build_rows(plan, answer, made.run))[0])
        return _compared(tables, exact)


def _compared(tables: Sequence[pa.Table], exact: Exact) -> Searched:
    covered, errors, widths, added = [], [], [], []
    for table in tables:
        keys = [k.date() if isinstance(k, datetime) else k for k in table.column(0).to_pylist()]
        true = [exact.get(key, 0.0) for key in keys] if isinstance(exact, Mapping) else [exact]
        truth = np.array(true)
        value, low, high = (_numbers(table, name) for name in ("n", "n_low", "n_high"))
        covered.append(((low <= truth) & (truth <= high)).mean())
        errors.append(np.square(value - truth).mean())
        widths.append((high - low).mean())
        added.append(abs(value.sum() / truth.sum() - 1))
    means = (float(np.mean(each)) for each in (covered, errors, widths, added))
    share, square, width, off = means
    return Searched(share, square**0.5, width, off)


def best_constant(sizes: NDArray[np.int64], epsilon: float) -> float:
    """Return the least error of a total with Laplace noise and a constant bound, which knows the sizes."""
    ordered = np.sort(sizes)
    above = np.cumsum(ordered[::-1])[::-1]
    bounds = np.unique(ordered)
    places = np.searchsorted(ordered, bounds, side="right")
    totals = np.append(above, 0)[places]
    cut = totals - bounds * (len(ordered) - places)
    return float(np.sqrt(2 * (bounds / epsilon) ** 2 + cut.astype(np.float64) ** 2).min())


def searching(policy: Path) -> closing[Searching]:
    """Open a policy whose statements are answered many times."""
    return closing(Searching(policy))


def _numbers(table: pa.Table, name: str) -> NDArray[np.float64]:
    return np.array(table.column(name).to_pylist(), dtype=np.float64)
