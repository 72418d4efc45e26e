"""Answer top-k keys with the joint exponential mechanism, which is used only when it is named."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql import mechanisms
from dpsql.analysis import Plan
from dpsql.answers import measuring
from dpsql.answers.method import NoisyResult, Quote
from dpsql.engines import Counts
from dpsql.language import TopK
from dpsql.privacy import Charge

NOTE = "groups are told apart at the distance shown if the largest are equal, and so are all others"


@dataclass(frozen=True, slots=True)
class JointGroups:
    """Selects the largest groups as one sequence; their counts are not measured."""

    plan: Plan
    selection: TopK
    mechanism: mechanisms.Joint
    quote: Quote

    @classmethod
    def of(cls, plan: Plan, selection: TopK) -> JointGroups:
        """Plan the selection with all of the statement's epsilon, and predict its error."""
        _check(plan)
        count = plan.counts[selection.count]
        mechanism = mechanisms.Joint.plan(
            plan.groups,
            selection.k,
            plan.epsilon,
            sensitivity=count.bound,
            monotone=count.monotone,
            lowest=selection.lowest,
        )
        quote = Quote(
            Charge(plan.epsilon),
            "joint exponential mechanism" + " of the lowest" * selection.lowest,
            float(mechanism.scale),
            "all for selecting",
            None,
            None,
            mechanism.distinguishable_gap(measuring.confidence_of(plan)),
            (NOTE,) if mechanism.scale else (),
        )
        return cls(plan, selection, mechanism, quote)

    def run(self, counts: Counts) -> NoisyResult:
        """Select the groups; they are released in the order of the sequence that was drawn."""
        found = self.mechanism.run(counts.n[self.selection.count])
        return NoisyResult(found.index, found.loss, (None,) * len(self.plan.counts))


def _check(plan: Plan) -> None:
    """Refuse what the mechanism does not release, and options that would have no effect."""
    source, options = plan.query.source, plan.options
    at = options.at.get("mechanism")
    for output in plan.outputs:
        if output.kind in ("gap", "p_value"):
            raise source.refuse(
                f"{output.name}: the joint exponential mechanism has no gaps", at, "mechanism = NOISY_TOP_K"
            )
    if measuring.wanted(plan, 0):
        raise source.refuse(
            "the joint exponential mechanism selects keys, and a count is selected",
            at,
            "select the keys alone, or mechanism = NOISY_TOP_K",
        )
    for name in ("noise", "measure", "measure_strategy"):
        if getattr(options, name) is not None:
            raise source.refuse(
                f"option {name} has no meaning for mechanism JOINT", options.at.get(name), "leave it out"
            )
