"""The one door to sealed counts, for tests: what is counted, counts made up by hand, and runs of methods.

Nothing in dpsql may import this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsql.analysis import CompiledQuery, Plan
from dpsql.analysis.cut_contributions import Excess
from dpsql.database import Engines
from dpsql.kernel import counts as counts_module
from dpsql.kernel.changes import UnitChanges
from dpsql.kernel.counts import Counts, Exact
from dpsql.kernel.levels import Level, level_of, split_level, with_level
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.kernel.loss.composing import Spending
from dpsql.kernel.mechanisms import RungBins
from dpsql.kernel.mechanisms.mechanism import Mechanism
from dpsql.kernel.parted import run_of_figures
from dpsql.kernel.release import Rows, Run, positions_of
from dpsql.kernel.sealed import seal
from dpsql.kernel.tree import Query
from dpsql.planning import Method, NoisyResult
from dpsql.planning.bound_search import BoundSearches, figure_of
from dpsql.policy import Table

__all__ = [
    "Answered",
    "ample",
    "answer_of",
    "answer_with",
    "counts_of",
    "every_number",
    "exact_of",
    "excess_of",
    "known_of",
    "made_up",
    "positions",
    "runs_of",
    "scores_of",
    "stored_level",
    "with_exact",
]


def exact_of(counts: Counts) -> Exact:
    """Return what is sealed: `keys`, `n`, `order`, `places`."""
    return counts_module.exact(counts)


def with_exact(counts: Counts, **changed: Any) -> Counts:
    """Return counts with other numbers, keys, places or order."""
    return seal(Counts(), replace(exact_of(counts), **changed))


def counts_of(
    plan: Plan,
    keys: pa.Table,
    n: Sequence[NDArray[np.int64]],
    *,
    order: tuple[tuple[str, bool], ...] | None = None,
    places: Mapping[str, NDArray[np.int64]] | None = None,
) -> Counts:
    """Return made-up counts of a plan, of which one unit changes what is certified of its query."""
    changes = counts_module.changes_of(plan.compiled.certificate, len(n))
    return seal(Counts(), Exact(keys, tuple(n), changes, order, dict(places or {})))


def made_up(keys: pa.Table, n: Sequence[NDArray[np.int64]], changes: UnitChanges) -> Counts:
    """Return made-up counts of which one unit changes so much."""
    return seal(Counts(), Exact(keys, tuple(n), changes, None))


def stored_level(
    query: Query, mechanism: Mechanism[Any], value: float, *, place: int = 0, release: int = 1
) -> Level:
    """Return what the ledger has of a release of the one number of a query."""
    made = level_of(query, place, mechanism, value)
    level = split_level(with_level(b"rows", made) or b"", release)[1]
    assert level is not None
    return level


def positions(rows: Rows, counts: Counts) -> NDArray[np.int64]:
    """Return where released groups are in counts."""
    return positions_of(rows, counts)


@dataclass(frozen=True)
class Answered:
    """The result of a method, with its run; `rows` are positions in the counts."""

    result: NoisyResult
    run: Run

    def __getattr__(self, name: str) -> Any:
        return getattr(self.result, name)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Where the released groups are in the counts."""
        return positions_of(self.result.rows, self.run.counts)

    @property
    def loss(self) -> PrivacyLoss:
        """What the run has cost."""
        return self.run.loss

    @property
    def charge(self) -> Charge:
        """The same by basic composition."""
        return self.run.loss.charge

    def keys(self) -> list[list[object]]:
        """Return the keys of the released groups, column by column."""
        return [column.to_pylist() for column in self.run.keys(self.result.rows)]


def answer_of(method: Method, plan: Plan, counts: Counts) -> Answered:
    """Run a method that needs no search on counts."""
    assert not isinstance(method, BoundSearches)
    run = Run(counts, Spending(method.quote.loss))
    return Answered(method.run(run), run)


def ample() -> Spending:
    """Return a spending that admits any step."""
    return _Ample(PrivacyLoss())


class _Ample(Spending):
    def check(self, total: PrivacyLoss) -> None:
        """Admit anything."""


def runs_of(counts: Sequence[Counts], spending: Spending | None = None) -> list[Run]:
    """Return the runs of counts, which share a spending."""
    shared = ample() if spending is None else spending
    return [Run(each, shared) for each in counts]


def scores_of(counts: Counts, bounds: int) -> NDArray[np.int64]:
    """Return the exact scores of so many bounds, from what a search has counted."""
    return RungBins(*exact_of(counts).n).scores(bounds)


def excess_of(excess: Excess, searched: Sequence[Counts], *, lead: bool = False) -> int:
    """Return the exact excess of a bound, in its steps, from what the searches have counted."""
    run = run_of_figures(runs_of(searched), [figure_of(excess, lead=lead)], ample(), ())
    return int(exact_of(run.counts).n[0][0])


def known_of(
    method: BoundSearches, plan: Plan, found: Sequence[int], searched: Sequence[Counts]
) -> Exact | None:
    """Return what the counts of a plan are known to be from searches; None if they are to be counted."""
    known = method.known(plan, found, runs_of(searched), ample())
    return None if known is None else exact_of(known.counts)


def answer_with(
    method: BoundSearches,
    plan: Plan,
    found: Sequence[int],
    searched: Sequence[Counts],
    counts: Counts | None = None,
    spending: Spending | None = None,
) -> Answered:
    """Answer a plan with bounds that were found, over its counts, or what is known of them."""
    shared = ample() if spending is None else spending
    searches = runs_of(searched, shared)
    known = None if counts is not None else method.known(plan, found, searches, shared)
    if known is None:
        assert counts is not None
        known = Run(counts, shared)
    return Answered(method.answer_with(plan, found, searches, known, shared), known)


def every_number(
    engines: Engines, queries: Sequence[CompiledQuery], reads: Sequence[Table]
) -> NDArray[np.int64]:
    """Return the exact numbers of queries of one row each, in order."""
    return np.concatenate([n for query in queries for n in exact_of(engines.count(query, reads)).n])
