"""Release counts and sums of every group of a public domain, each with the noise that suits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain

from dpsql.analysis import Plan, laplace_is_less
from dpsql.answers import measuring
from dpsql.answers.blocks import shares
from dpsql.answers.every_count import EveryCount
from dpsql.answers.method import NoisyResult, Quote
from dpsql.answers.shown import measured_in_all, notes, released
from dpsql.answers.whole_domain import WholeDomain, needs_laplace
from dpsql.engines import Counts
from dpsql.language import AllGroups, Scalar
from dpsql.privacy import Charge

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
        places = released(plan)
        divided = shares(plan, places, plan.epsilon)
        if len(divided) == 1:
            return _method(plan, preferred)
        made = [_method(of_share(plan, together, part), preferred) for together, part in divided]
        return cls(plan, tuple(made), _quoted(plan, made))

    def run(self, counts: Counts) -> NoisyResult:
        """Measure everything; which groups are shown depends on noisy values and public orders alone."""
        return measured_in_all(self.plan, self.parts, counts)


def of_share(plan: Plan, places: Sequence[int], epsilon: Fraction) -> Plan:
    """Return the plan of some of the numbers, with their part of epsilon.

    Without the number that orders the groups, it is a plan of all groups: the noise of others selects.
    """
    outputs = tuple(o for o in plan.outputs if o.kind == "key" or _uses(plan, o.uses or (o.of,), places))
    selection = plan.selection
    ordering = getattr(selection, "count", None)
    if not isinstance(selection, Scalar) and (ordering is None or not _uses(plan, (ordering,), places)):
        selection = AllGroups(())
    options = replace(plan.options, epsilon=epsilon)
    return replace(plan, outputs=outputs, selection=selection, options=options)


def _quoted(plan: Plan, parts: Sequence[OneShare]) -> Quote:
    """See `Method`; the figures are those of the numbers that order the groups, else of the counts."""
    quotes = [part.quote for part in parts]
    ordering = getattr(plan.selection, "count", None)
    first = next((q for q, p in zip(quotes, parts, strict=True) if _has(p, ordering)), quotes[0])
    words = dict.fromkeys(quote.mechanism for quote in quotes)
    return replace(
        first,
        charge=Charge(plan.epsilon),
        mechanism=", ".join(words),
        split=f"divided equally among {len(quotes)} groups of numbers",
        notes=(*dict.fromkeys(chain(*(q.notes for q in quotes), notes(plan))),),
        errors={o: words for quote in quotes for o, words in quote.errors.items()},
    )


def _uses(plan: Plan, used: Sequence[int], places: Sequence[int]) -> bool:
    counts = plan.counts
    return any(p >= 0 and counts[p] == counts[place] for p in used for place in places)


def _method(plan: Plan, preferred: type[OneShare]) -> OneShare:
    """Return the method of numbers that are measured together: with a bound in all groups, by Laplace."""
    places = released(plan)
    totals = [plan.total(place) for place in places]
    if needs_laplace(plan, places):
        return EveryCount.of(plan)
    if plan.options.mechanism in (None, "AUTO") and plan.counts[places[0]].share is not None:
        known = [total for total in totals if total is not None]
        less = len(known) == len(totals) and laplace_is_less(plan.counts, places, known, plan.groups)
        return (EveryCount if less else WholeDomain).of(plan)
    return preferred.of(plan)


def _has(part: OneShare, ordering: int | None) -> bool:
    place = ordering if ordering is not None else next(iter(measuring.shown_alone(part.plan)), None)
    return place is not None and _uses(part.plan, (place,), released(part.plan))
