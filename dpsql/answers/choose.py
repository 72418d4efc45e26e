"""Which mechanism answers a reading; one that cannot serve it is an error, never a silent substitute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.answers.scalar import LaplaceCounts
from dpsql.answers.top_k import NoisyTopK
from dpsql.language import Scalar, TopK

if TYPE_CHECKING:
    from dpsql.analysis import Plan
    from dpsql.answers.method import Method

__all__ = ["choose"]


def choose(plan: Plan) -> Method:
    """Pick the method, divide the budget, set the price; raises `QueryRefused`."""
    source, options, reading = plan.query.source, plan.options, plan.reading
    asked = options.mechanism or "AUTO"
    method: Method | None = None
    try:
        match reading:
            case TopK(threshold=None):
                if asked in ("AUTO", "NOISY_TOP_K") or (asked == "NOISY_MAX" and reading.k == 1):
                    method = NoisyTopK.of(plan, reading)
            case Scalar():
                if asked in ("AUTO", "LAPLACE"):
                    method = LaplaceCounts.of(plan)
            case _:
                raise source.refuse(
                    "this selection is not offered yet",
                    plan.query.tree.args.get("having"),
                    "use ORDER BY n DESC LIMIT k",
                )
    except ValueError as error:
        raise source.refuse(f"the mechanism does not take these options: {error}") from None
    if method is None:
        raise source.refuse(
            f"mechanism {asked} cannot answer this", options.at.get("mechanism"), "leave it out"
        )
    _check_outputs(plan, method)
    return method


def _check_outputs(plan: Plan, method: Method) -> None:
    for output in plan.outputs:
        if output.kind in ("gap", "p_value", "rank") and not plan.key_types:
            raise plan.query.source.refuse(f"{output.name}: a count without GROUP BY has no gap")
        if output.kind == "p_value" and (plan.options.noise or "EXPONENTIAL") != "EXPONENTIAL":
            raise plan.query.source.refuse(
                "p-values are valid with exponential noise alone", plan.options.at.get("noise")
            )
    if method.terms.scale > 2.0**40:
        raise plan.query.source.refuse("epsilon is too small to say anything", plan.options.at.get("epsilon"))
