"""The joint exponential mechanism for a top-k, which is used only when it is named."""

from __future__ import annotations

from fractions import Fraction

from dpsql.analysis import Plan
from dpsql.epsilon_division import Layout
from dpsql.kernel.mechanisms import Joint
from dpsql.language import TopK


def plan_joint(plan: Plan, selection: TopK, epsilon: Fraction) -> Joint:
    """Plan the mechanism; refuse outputs that it does not have, and an option that would have no effect."""
    source, options = plan.query.source, plan.options
    for output in plan.outputs:
        if output.kind in ("gap", "p_value"):
            raise source.refuse(
                f"{output.name}: the joint exponential mechanism has no gaps",
                options.at.get("mechanism"),
                "mechanism = NOISY_TOP_K",
            )
    if options.noise not in (None, "GAUSSIAN"):
        raise source.refuse(
            "option noise has no meaning for mechanism JOINT", options.at.get("noise"), "leave it out"
        )
    sensitivity, monotone = plan.counts[selection.count].difference
    return Joint.plan(
        plan.groups,
        selection.k,
        Layout(epsilon, plan.layout.order).ranged(),
        sensitivity=sensitivity,
        monotone=monotone,
        lowest=selection.lowest,
    )
