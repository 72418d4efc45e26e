"""Selections by rounds, for statements whose cost at one order of Renyi divergence is divided."""

from __future__ import annotations

from fractions import Fraction

from dpsql.analysis import Plan
from dpsql.epsilon_division import Layout
from dpsql.kernel.mechanisms import GumbelTopK, PeeledTopK
from dpsql.language import TopK


def plan_rounds(plan: Plan, selection: TopK, groups: int, epsilon: Fraction) -> PeeledTopK | GumbelTopK:
    """Plan a top-k by rounds at the cost of an epsilon; refuse outputs that it does not have."""
    sensitivity, monotone = plan.counts[selection.count].difference
    layout, rounds, options = (
        Layout(epsilon, plan.layout.order),
        max(1, min(selection.k, groups - 1)),
        plan.options,
    )
    if options.mechanism == "PEELED_TOP_K":
        return PeeledTopK.plan(
            groups,
            selection.k,
            rounds * layout.pure(times=rounds),
            sensitivity=sensitivity,
            monotone=monotone,
            noise="laplace"
            if options.noise == "LAPLACE"
            else "geometric"
            if options.noise == "GEOMETRIC"
            else "exponential",
            lowest=selection.lowest,
        )
    for output in plan.outputs:
        if output.kind in ("gap", "p_value"):
            raise plan.query.source.refuse(
                f"{output.name}: Gumbel top-k has no gaps",
                options.at.get("mechanism"),
                "mechanism = PEELED_TOP_K",
            )
    return GumbelTopK.plan(
        groups,
        selection.k,
        rounds * layout.ranged(times=rounds),
        sensitivity=sensitivity,
        monotone=monotone,
        lowest=selection.lowest,
    )
