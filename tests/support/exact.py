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

from dpsql.analysis import Plan
from dpsql.answers import BoundSearches, Method, NoisyResult, run_of
from dpsql.kernel import counts as counts_module
from dpsql.kernel.changes import UnitChanges
from dpsql.kernel.counts import Counts, Exact
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.kernel.release import Rows, Run, Spending, positions_of
from dpsql.kernel.sealed import seal

__all__ = ["Answered", "ample", "answer", "counts_of", "exact", "positions", "with_exact"]


def exact(counts: Counts) -> Exact:
    """Return what is sealed: `keys`, `n`, `order`, `places`."""
    return counts_module.exact(counts)


def with_exact(counts: Counts, **changed: Any) -> Counts:
    """Return counts with other numbers, keys, places or order."""
    return seal(Counts(), replace(exact(counts), **changed))


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


def answer(method: Method, plan: Plan, counts: Counts) -> Answered:
    """Run a method that needs no search on counts."""
    assert not isinstance(method, BoundSearches)
    run = run_of(plan, counts, Spending(method.quote.loss))
    return Answered(method.run(run), run)


def ample() -> Spending:
    """Return a spending that admits any step."""
    return _Ample(PrivacyLoss())


class _Ample(Spending):
    def admit(self, most: PrivacyLoss) -> None:
        """Admit anything."""
