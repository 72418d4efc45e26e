"""Select the largest groups of each partition: one selection in every one of them (`dpsql.kernel.parted`).

Where all rows of a unit are in one partition, every selection uses all of epsilon and delta. Else the query
keeps a unit's rows in at most m partitions, and each selection has one m-th of them. What a selection costs
may depend on what it releases; what is charged is the largest cost of a partition, m times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.analysis import Partitions, Plan
from dpsql.answers.method import Method, NoisyResult, Quote
from dpsql.errors import InternalError
from dpsql.estimates import Combined
from dpsql.estimates.noise_laws import Made, join_laws
from dpsql.kernel.parted import Parted
from dpsql.kernel.release import Rows, Run
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

    def run(self, run: Run) -> NoisyResult:
        """Run the selection of every partition; the rows come by partition, in a public order of them."""
        own = self.partitions
        parted = Parted.of(run, self.keys, own.size, own.per_unit, own.listed)
        pairs = zip(parted.sizes, parted.runs, strict=True)
        found = [self._method(size).run(part) for size, part in pairs]
        rows, order = parted.joined([each.rows for each in found])
        return self._joined(rows, [found[place] for place in order])

    def _method(self, size: int | None) -> Method:
        """Return the method of a partition; over keys without a domain its size is private."""
        if size not in self.methods:
            self.methods[size] = self.choose(of_one(self.plan, size))
        return self.methods[size]

    def _joined(self, rows: Rows, found: list[NoisyResult]) -> NoisyResult:
        """Return all partitions as one result."""
        sizes = [len(each.rows) for each in found]
        estimates: list[Combined | None] = []
        for place in range(len(self.plan.counts)):
            parts = [each.counts[place] for each in found]
            known = [part for part in parts if part is not None]
            estimates.append(_concatenated(known) if len(known) == len(parts) else None)
        return NoisyResult(
            rows,
            tuple(estimates),
            {key: _concatenated([each.values[key] for each in found]) for key in found[0].values},
            _details([each.gap for each in found], sizes),
            _details([each.p_value for each in found], sizes),
            np.concatenate([np.arange(1, size + 1) for size in sizes]),
            tuple(dict.fromkeys(note for each in found for note in each.notes)),
        )


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
