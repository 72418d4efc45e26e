"""Select the largest groups of each partition: one selection in every one of them.

*Private, where all rows of a unit are in one partition.* Take two data sets that differ in one unit. All
partitions but that of the unit have equal counts in both, so that their outputs have equal laws, and the
noise of each partition is independent. The output of the unit's partition has the privacy loss of one
selection, and so has the whole: every selection uses all of epsilon and delta.

*Private, else.* The counting query keeps a unit's rows in at most m partitions, which it chooses by the
unit's own rows. The others have equal counts with and without the unit. The m selections that see it
compose: each has one m-th of epsilon and delta.

The number of partitions is public, and a selection runs in all of them, also in those without rows. What a
selection costs may depend on what it releases; what is charged is the largest cost of a partition, m times.
That is at least the loss of the m partitions of any one unit, for every output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsql.analysis import Partitions, Plan
from dpsql.answers.method import Method, NoisyResult, Quote
from dpsql.answers.table import picked
from dpsql.engines import Counts
from dpsql.engines.ordering import ranks
from dpsql.errors import InternalError
from dpsql.estimates import Combined
from dpsql.estimates.noise_laws import Made, join_laws
from dpsql.kernel.loss import PrivacyLoss, largest
from dpsql.language import TopPerPartition
from dpsql.lazy_dataclass import dataclass


def of_one(plan: Plan, size: int | None) -> Plan:
    """Return the plan of the selection in one partition of so many groups, with its part of epsilon."""
    selection, partitions = plan.selection, plan.partitions
    if not isinstance(selection, TopPerPartition) or partitions is None:
        raise InternalError("this selection has no partitions")
    share = Fraction(1, partitions.per_unit)
    delta = None if plan.options.delta is None else plan.options.delta * share
    made = plan.with_share(share, delta=delta, max_groups_contributed=None)
    apart = plan.apart * partitions.number
    return replace(made, selection=selection.best, domain_size=size, partitions=None, apart=apart)


@dataclass(frozen=True, slots=True)
class LargestOfPartitions:
    """Selects the largest groups of each partition; see the module for why that is private."""

    plan: Plan
    partitions: Partitions
    keys: tuple[int, ...]
    choose: Callable[[Plan], Method]
    """Chooses the method of one partition by public figures."""
    quote: Quote
    methods: dict[int | None, Method] = field(default_factory=dict)
    """The method of each number of groups."""

    @classmethod
    def of(cls, plan: Plan, choose: Callable[[Plan], Method]) -> LargestOfPartitions:
        """Quote all partitions by the method of the largest one."""
        selection, partitions = plan.selection, plan.partitions
        if not isinstance(selection, TopPerPartition) or partitions is None:
            raise InternalError("this selection has no partitions")
        _check(plan, partitions)
        first = choose(of_one(plan, partitions.size))
        quote = replace(
            first.quote,
            charge=partitions.charged(plan.price, first.quote.charge),
            divided=None if plan.layout.order is None else first.quote.loss.repeated(partitions.per_unit),
            mechanism=f"{first.quote.mechanism}, in each of {partitions.number:,} partitions",
            split=f"{first.quote.split}, in each partition" if partitions.per_unit > 1 else first.quote.split,
            notes=(_note(plan, partitions), *first.quote.notes),
        )
        return cls(plan, partitions, selection.keys, choose, quote, {partitions.size: first})

    def run(self, counts: Counts) -> NoisyResult:
        """Run the selection of every partition; the rows come by partition, in a public order of them."""
        rows, starts = self._sorted(counts)
        keys = pa.table([picked(c, rows) for c in counts.keys.columns], names=counts.keys.column_names)
        missing = self.partitions.number - len(starts)
        if missing < 0 or (missing and self.partitions.size is not None):
            raise InternalError("the partitions of the counts are not those of the plan")
        order = counts.order
        n, places = [c[rows] for c in counts.n], {name: c[rows] for name, c in counts.places.items()}
        found: list[NoisyResult] = []
        there = pairwise([*starts.tolist(), len(rows)])
        for start, end in [*there, *[(len(rows), len(rows))] * missing]:
            own = {name: c[start:end] for name, c in places.items()}
            part = Counts(keys.slice(start, end - start), tuple(c[start:end] for c in n), order, own)
            result = self._method(end - start).run(part)
            found.append(replace(result, rows=rows[start:end][result.rows]))
        return self._joined(found)

    def _method(self, size: int) -> Method:
        """Return the method of a partition; over keys without a domain its size is private."""
        known = None if self.partitions.size is None else size
        if known not in self.methods:
            self.methods[known] = self.choose(of_one(self.plan, known))
        return self.methods[known]

    def _sorted(self, counts: Counts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions of all groups, partition by partition, and where each partition starts."""
        columns = [ranks(counts.keys.column(f"k{i}")) for i in self.keys]
        code = np.zeros(len(counts.n[0]), dtype=np.int64)
        for column in columns:
            _, code = np.unique(code * (int(column.max(initial=0)) + 1) + column, return_inverse=True)
        if counts.order is None:
            rows = np.argsort(code, kind="stable")
        else:
            rows = counts.rows_in_order()
            _, first, place = np.unique(code[rows], return_index=True, return_inverse=True)
            rows = rows[np.argsort(first[place], kind="stable")]
        changed = np.diff(code[rows], prepend=-1) != 0
        return rows, np.flatnonzero(changed)

    def _joined(self, found: list[NoisyResult]) -> NoisyResult:
        """Return all partitions as one result, at the largest loss of one for each that a unit is in."""
        sizes = [len(each.rows) for each in found]
        estimates: list[Combined | None] = []
        for place in range(len(self.plan.counts)):
            parts = [each.counts[place] for each in found]
            known = [part for part in parts if part is not None]
            estimates.append(_concatenated(known) if len(known) == len(parts) else None)
        return NoisyResult(
            np.concatenate([each.rows for each in found]),
            composed([each.loss for each in found], self.partitions.per_unit),
            tuple(estimates),
            {key: _concatenated([each.values[key] for each in found]) for key in found[0].values},
            _details([each.gap for each in found], sizes),
            _details([each.p_value for each in found], sizes),
            np.concatenate([np.arange(1, size + 1) for size in sizes]),
            tuple(dict.fromkeys(note for each in found for note in each.notes)),
        )


def composed(losses: list[PrivacyLoss], times: int) -> PrivacyLoss:
    """Return a loss that is at least the sum of any `times` of some losses."""
    return largest(losses).repeated(times)


def _concatenated(parts: list[Combined]) -> Combined:
    names = ("value", "stddev", "low", "high")
    value, stddev, low, high = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    found = Combined(value, stddev, low, high, made=_made(parts))
    ends = [part.together for part in parts if part.together is not None]
    if not ends or len(ends) < len(parts):
        return found
    lowest, highest = (np.concatenate(side) for side in zip(*ends, strict=True))
    return replace(found, together=(lowest, highest))


def _made(parts: list[Combined]) -> Made | None:
    """Return what the numbers of all partitions are made of; None where that is not known."""
    there = [part.made for part in parts if len(part.value)] or [part.made for part in parts]
    found = there[0]
    for part in there[1:]:
        found = join_laws(found, part)
    return found


def _details(parts: list[NDArray[np.float64] | None], sizes: list[int]) -> NDArray[np.float64] | None:
    """Return the gaps or p-values of all rows, NaN where a partition has none; None if no partition has."""
    if all(part is None for part in parts):
        return None
    filled = [
        np.full(size, np.nan) if part is None else part for part, size in zip(parts, sizes, strict=True)
    ]
    return np.concatenate(filled)


def _check(plan: Plan, partitions: Partitions) -> None:
    """Refuse options that have no meaning for partitions."""
    source, options = plan.query.source, plan.options
    if options.intervals == "SIMULTANEOUS":
        raise source.refuse(
            "intervals that cover all counts of all partitions at once are not computed",
            options.at.get("intervals"),
            "leave intervals out",
        )
    if options.max_groups_contributed is not None and partitions.fact:
        raise source.refuse(
            f"each {plan.unit} is in one partition, so that no bound is needed",
            options.at.get("max_groups_contributed"),
            "leave max_groups_contributed out",
        )


def _note(plan: Plan, partitions: Partitions) -> str:
    if partitions.fact:
        return f"each {plan.unit} is in one partition: every partition uses all of epsilon"
    most = partitions.per_unit
    if partitions.bounded:
        many = f"{most} partition{'s' * (most > 1)}"
        share = f", each with epsilon / {most}" if most > 1 else ""
        return f"of each {plan.unit} at most {many} counted, chosen by a hash{share}"
    return f"one {plan.unit} can be in all {most} partitions: each has epsilon / {most}"
