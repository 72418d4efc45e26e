"""Answer a plan by methods of its parts: the numbers of each share of epsilon, the groups of each partition.

Where all rows of a unit are in one partition, every selection uses all of epsilon and delta. Else the query
keeps a unit's rows in at most m partitions, and each selection has one m-th of them. What a selection costs
may depend on what it releases; what is charged is the largest cost of a partition, m times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from fractions import Fraction
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from dpsql.analysis import Partitions, Plan, is_laplace_less
from dpsql.errors import InternalError
from dpsql.estimates import Combined
from dpsql.estimates.number_noises import Made
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.kernel.release import Rows, Run
from dpsql.language import AllGroups, Scalar, TopPerPartition
from dpsql.lazy_dataclass import dataclass
from dpsql.planning import plan_requests
from dpsql.planning.all_groups import EveryCount, GaussianDomain, WholeDomain, needs_laplace, takes_all
from dpsql.planning.method import Method, NoisyResult, Quote
from dpsql.planning.noise_shares import asks_for_gaussian, gaussian_cost
from dpsql.planning.plan_requests import refuse_option
from dpsql.planning.shown_groups import divide_released, measure_all_groups, notes, places_to_release

OneShare = WholeDomain | EveryCount


@dataclass(frozen=True, slots=True)
class AllNumbers:
    """Measures all numbers of all groups, those that share a part of epsilon by one method each.

    A selection then only shows some of the groups, by the noisy values of one of the numbers.
    """

    plan: Plan
    parts: tuple[OneShare, ...]
    quote: Quote
    """The figures of the numbers that order the groups, else of the counts."""

    @classmethod
    def of(cls, plan: Plan, preferred: type[OneShare]) -> AllNumbers | OneShare:
        """Divide epsilon among the numbers; `preferred` measures those that it can.

        A plan whose numbers are measured together is measured by that method alone.
        """
        divided = divide_released(plan)  # all parts of epsilon are equal
        if len(divided) == 1:
            return _method(plan, preferred)
        counts = sum(plan.counts[own[0]].noise_group is None for own, _ in divided)
        shares = divide_plan(plan, [together for together, _ in divided])
        made = [_method(share, preferred, apart=counts > 1) for share in shares]
        return cls(plan, tuple(made), _quote_parts(plan, made))

    def run(self, run: Run) -> NoisyResult:
        """Measure everything; which groups are shown depends on noisy values and public orders alone."""
        return measure_all_groups(self.plan, self.parts, run)


def _users_of(plan: Plan) -> dict[int, set[int]]:
    """Return which outputs use each distinct number; -1 stands for the keys."""
    found: dict[int, set[int]] = {-1: set()}
    for i, output in enumerate(plan.outputs):
        if output.kind == "key":
            numbers = [-1]  # its place is among the keys, not among the numbers
        else:
            numbers = [plan.equal[place] for place in output.uses or (output.of,) if place >= 0]
        for number in numbers:
            found.setdefault(number, set()).add(i)
    return found


def divide_plan(plan: Plan, shares: Sequence[Sequence[int]]) -> list[Plan]:
    """Return plans that measure the numbers of each list of places, with equal shares of the epsilon."""
    share = plan.with_share(Fraction(1, len(shares)))
    share = replace(share, apart=plan.apart * len(shares))
    users = _users_of(plan)
    return [_plan_of_share(share, users, places) for places in shares]


def _plan_of_share(share: Plan, users: dict[int, set[int]], places: Sequence[int]) -> Plan:
    """Return the plan of a share that measures only the numbers at `places`.

    Without the number that orders the groups, it is a plan of all groups: the noise of others selects.
    """
    equal, outputs = share.equal, share.outputs
    own = {equal[place] for place in places}
    kept = set[int]().union(*(users.get(number, ()) for number in (-1, *own)))
    selection = share.selection
    ordering = getattr(selection, "count", None)
    if not isinstance(selection, Scalar) and (ordering is None or equal[ordering] not in own):
        selection = AllGroups(())
    return replace(share, outputs=tuple(outputs[i] for i in sorted(kept)), selection=selection)


def _quote_parts(plan: Plan, parts: Sequence[OneShare]) -> Quote:
    """Return one quote of several methods; its figures are of what orders the groups, else of counts."""
    place = plan_requests.quoted_place(plan)
    first = next((part for part in parts if _has(part, place)), parts[0])
    undivided = plan.epsilon_division.order is None
    return replace(
        first.quote,
        charge=Charge(plan.price),
        mechanism=", ".join(dict.fromkeys(part.name for part in parts)),
        split=f"divided equally among {len(parts)} groups of numbers",
        notes=(*dict.fromkeys(chain(*(part.notes for part in parts), notes(plan))),),
        divided=None if undivided else sum((part.quote.loss for part in parts), PrivacyLoss()),
        errors={output: words for part in parts for output, words in part.errors.items()},
    )


def _method(plan: Plan, preferred: type[OneShare], *, apart: bool = False) -> OneShare:
    """Return the method of numbers that are measured together: with a bound in all groups, by Laplace.

    Counts that are `apart` from others for their noise have the one that suits them.
    """
    places = places_to_release(plan)
    if needs_laplace(plan, places):
        return _of_one_bound(plan, preferred)
    own = apart or plan.counts[places[0]].noise_group is not None
    if plan.options.mechanism in (None, "AUTO") and own:
        if preferred is GaussianDomain:
            return _less_noise(plan)
        totals = [plan.l1_over_groups(place) for place in places]
        known = [total for total in totals if total is not None]
        less = len(known) == len(totals) and is_laplace_less(plan.counts, places, known, plan.groups)
        return (EveryCount if less else WholeDomain).of(plan)
    return preferred.of(plan)


def _of_one_bound(plan: Plan, preferred: type[OneShare]) -> OneShare:
    """Return the method of numbers with one bound together: Laplace, or less of Gaussian noise on a sum."""
    alone = len(places_to_release(plan)) == 1 and plan.options.mechanism in (None, "AUTO")
    if preferred is GaussianDomain and alone and gaussian_cost(plan, plan.epsilon, 1) is not None:
        return GaussianDomain.of(plan)
    return EveryCount.of(plan)


def _less_noise(plan: Plan) -> OneShare:
    """Return Gaussian noise on numbers that are measured together, or other noise that is less."""
    found: list[OneShare] = [] if asks_for_gaussian(plan) else [WholeDomain.of(plan)]
    try:
        found.insert(0, GaussianDomain.of(plan))
    except ValueError:
        if asks_for_gaussian(plan):
            raise
    if not asks_for_gaussian(plan) and all(takes_all(plan, place) for place in places_to_release(plan)):
        found.append(EveryCount.of(plan))
    return min(found, key=lambda each: max(each.stddev(place) for place in places_to_release(plan)))


def _has(part: OneShare, place: int | None) -> bool:
    equal = part.plan.equal
    return place is not None and equal[place] in [equal[own] for own in places_to_release(part.plan)]


def plan_of_partition(plan: Plan, size: int | None) -> Plan:
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
    """Selects the largest groups of each partition, each at the price of the largest one."""

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
        """Choose the method of the largest partition, and quote its price for every partition."""
        selection, partitions = plan.selection, plan.partitions
        if not isinstance(selection, TopPerPartition) or partitions is None:
            raise InternalError("this selection has no partitions")
        _check(plan, partitions)
        first = choose(plan_of_partition(plan, partitions.size))
        quote = replace(
            first.quote,
            charge=partitions.find_charge(plan.price, first.quote.charge),
            divided=None
            if plan.epsilon_division.order is None
            else first.quote.loss.repeated(partitions.per_unit),
            mechanism=f"{first.quote.mechanism}, in each of {partitions.number:,} partitions",
            split=f"{first.quote.split}, in each partition" if partitions.per_unit > 1 else first.quote.split,
            notes=(_note(plan, partitions), *first.quote.notes),
        )
        return cls(plan, partitions, selection.keys, choose, quote, {partitions.size: first})

    def run(self, run: Run) -> NoisyResult:
        """Run the selection of every partition; the rows come by partition, in a public order of them."""
        from dpsql.kernel.parted import Parted  # noqa: PLC0415  few selections are of partitions

        own = self.partitions
        parted = Parted.of(run, self.keys, own.size, own.per_unit, own.listed)
        pairs = zip(parted.sizes, parted.runs, strict=True)
        found = [self._method(size).run(part) for size, part in pairs]
        rows, order = parted.join_rows([each.rows for each in found])
        return self._join(rows, [found[place] for place in order])

    def _method(self, size: int | None) -> Method:
        """Return the method of a partition; over keys without a domain its size is private."""
        if size not in self.methods:
            self.methods[size] = self.choose(plan_of_partition(self.plan, size))
        return self.methods[size]

    def _join(self, rows: Rows, found: list[NoisyResult]) -> NoisyResult:
        """Return the results of all partitions as one result."""
        sizes = [len(each.rows) for each in found]
        estimates: list[Combined | None] = []
        for place in range(len(self.plan.counts)):
            parts = [each.counts[place] for each in found]
            known = [part for part in parts if part is not None]
            estimates.append(_concatenate(known) if len(known) == len(parts) else None)
        return NoisyResult(
            rows,
            tuple(estimates),
            {key: _concatenate([each.values[key] for each in found]) for key in found[0].values},
            _details([each.gap for each in found], sizes),
            _details([each.p_value for each in found], sizes),
            np.concatenate([np.arange(1, size + 1) for size in sizes]),
            tuple(dict.fromkeys(note for each in found for note in each.notes)),
        )


def _concatenate(parts: list[Combined]) -> Combined:
    names = ("value", "stddev", "low", "high")
    value, stddev, low, high = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    found = Combined(value, stddev, low, high, made=_join_partition_laws(parts))
    ends = [part.together for part in parts if part.together is not None]
    if not ends or len(ends) < len(parts):
        return found
    lowest, highest = (np.concatenate(side) for side in zip(*ends, strict=True))
    return replace(found, together=(lowest, highest))


def _join_partition_laws(parts: list[Combined]) -> Made | None:
    """Return what the numbers of all partitions are made of; None where that is not known."""
    there = [part.made for part in parts if len(part.value)] or [part.made for part in parts]
    found = there[0]
    for part in there[1:]:
        found = None if found is None or part is None else found.append(part)
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
    """Refuse options that mean nothing where each partition has its own largest groups."""
    options = plan.options
    if options.intervals == "SIMULTANEOUS":
        raise refuse_option(
            plan,
            "intervals",
            "intervals that cover all counts of all partitions at once are not computed",
            "leave intervals out",
        )
    if options.max_groups_contributed is not None and partitions.fact:
        raise refuse_option(
            plan,
            "max_groups_contributed",
            f"each {plan.unit} is in one partition, so that no bound is needed",
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
