"""Release counts and sums of every group of a public domain, each with the noise that suits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain

from dpsql.analysis import Plan, laplace_is_less
from dpsql.answers import plan_requests
from dpsql.answers.blocks import shares
from dpsql.answers.every_count import EveryCount, takes_all
from dpsql.answers.gaussian import enough, wished
from dpsql.answers.method import NoisyResult, Quote
from dpsql.answers.shown import measured_in_all, notes, released
from dpsql.answers.whole_domain import GaussianDomain, WholeDomain, needs_laplace
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.kernel.release import Run
from dpsql.language import AllGroups, Options, Scalar
from dpsql.lazy_dataclass import dataclass

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
        divided = shares(plan, released(plan), plan.epsilon)  # all parts of epsilon are equal
        if len(divided) == 1:
            return _method(plan, preferred)
        users = users_of(plan)
        options = plan.with_share(Fraction(1, len(divided))).options
        made = [_method(of_share(plan, users, together, options), preferred) for together, _ in divided]
        return cls(plan, tuple(made), _quoted(plan, made))

    def run(self, run: Run) -> NoisyResult:
        """Measure everything; which groups are shown depends on noisy values and public orders alone."""
        return measured_in_all(self.plan, self.parts, run)


def users_of(plan: Plan) -> dict[int, set[int]]:
    """Return the places of the outputs that use each of the distinct numbers; those of the keys at -1."""
    found: dict[int, set[int]] = {-1: set()}
    for i, output in enumerate(plan.outputs):
        if output.kind == "key":
            numbers = [-1]  # its place is among the keys, not among the numbers
        else:
            numbers = [plan.equal[place] for place in output.uses or (output.of,) if place >= 0]
        for number in numbers:
            found.setdefault(number, set()).add(i)
    return found


def of_share(plan: Plan, users: dict[int, set[int]], places: Sequence[int], options: Options) -> Plan:
    """Return the plan of some numbers, with the options of a share; `users` are those of `users_of`.

    Without the number that orders the groups, it is a plan of all groups: the noise of others selects.
    """
    equal = plan.equal
    own = {equal[place] for place in places}
    kept = set[int]().union(*(users.get(number, ()) for number in (-1, *own)))
    outputs = tuple(plan.outputs[i] for i in sorted(kept))
    selection = plan.selection
    ordering = getattr(selection, "count", None)
    if not isinstance(selection, Scalar) and (ordering is None or equal[ordering] not in own):
        selection = AllGroups(())
    apart = plan.apart * len(shares(plan, released(plan), plan.epsilon))
    return replace(plan, outputs=outputs, selection=selection, options=options, apart=apart)


def _quoted(plan: Plan, parts: Sequence[OneShare]) -> Quote:
    """See `Method`; the figures are those of the numbers that order the groups, else of the counts."""
    place = plan_requests.quoted_place(plan)
    first = next((part for part in parts if _has(part, place)), parts[0])
    undivided = plan.layout.order is None
    return replace(
        first.quote,
        charge=Charge(plan.price),
        mechanism=", ".join(dict.fromkeys(part.name for part in parts)),
        split=f"divided equally among {len(parts)} groups of numbers",
        notes=(*dict.fromkeys(chain(*(part.notes for part in parts), notes(plan))),),
        divided=None if undivided else sum((part.quote.loss for part in parts), PrivacyLoss()),
        errors={output: words for part in parts for output, words in part.errors.items()},
    )


def _method(plan: Plan, preferred: type[OneShare]) -> OneShare:
    """Return the method of numbers that are measured together: with a bound in all groups, by Laplace."""
    places = released(plan)
    if needs_laplace(plan, places):
        return _of_one_bound(plan, preferred)
    if plan.options.mechanism in (None, "AUTO") and plan.counts[places[0]].share is not None:
        if preferred is GaussianDomain:
            return _less_noise(plan)
        totals = [plan.total(place) for place in places]
        known = [total for total in totals if total is not None]
        less = len(known) == len(totals) and laplace_is_less(plan.counts, places, known, plan.groups)
        return (EveryCount if less else WholeDomain).of(plan)
    return preferred.of(plan)


def _of_one_bound(plan: Plan, preferred: type[OneShare]) -> OneShare:
    """Return the method of numbers with one bound together: Laplace, or less of Gaussian noise on a sum."""
    alone = len(released(plan)) == 1 and plan.options.mechanism in (None, "AUTO")
    if preferred is GaussianDomain and alone and enough(plan, plan.epsilon, 1) is not None:
        return GaussianDomain.of(plan)
    return EveryCount.of(plan)


def _less_noise(plan: Plan) -> OneShare:
    """Return Gaussian noise on numbers that are measured together, or other noise that is less."""
    found: list[OneShare] = [] if wished(plan) else [WholeDomain.of(plan)]
    try:
        found.insert(0, GaussianDomain.of(plan))
    except ValueError:
        if wished(plan):
            raise
    if not wished(plan) and all(takes_all(plan, place) for place in released(plan)):
        found.append(EveryCount.of(plan))
    return min(found, key=lambda each: max(each.stddev(place) for place in released(plan)))


def _has(part: OneShare, place: int | None) -> bool:
    equal = part.plan.equal
    return place is not None and equal[place] in [equal[own] for own in released(part.plan)]
