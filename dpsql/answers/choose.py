"""Choose the mechanism that answers a selection; a requested one that cannot is an error, never replaced."""

from __future__ import annotations

from dpsql.analysis import Plan, max_candidates
from dpsql.answers.every_count import EveryCount
from dpsql.answers.method import Method
from dpsql.answers.threshold import SparseVectors
from dpsql.answers.top_k import LargestGroups
from dpsql.answers.unknown import MECHANISMS
from dpsql.language import AboveThreshold, AllGroups, Scalar, TopK

MAX_CANDIDATES = 1_000_000
BRANCHES = 4
"""Branches of the adaptive sparse vector; with each one, groups far above the threshold cost less."""


def choose(plan: Plan) -> Method:
    """Choose the method of a plan and quote its price; raises `QueryRefused` if none can answer it."""
    source = plan.query.source
    _check_options(plan)
    try:
        method = _method(plan)
    except ValueError as error:
        raise source.refuse(f"the mechanism does not take these options: {error}") from None
    if method is None:
        raise source.refuse(
            f"mechanism {plan.options.mechanism} cannot answer this",
            plan.options.at.get("mechanism"),
            "leave it out",
        )
    if method.quote.scale > 2.0**40:
        raise source.refuse(
            "epsilon is too small: the noise would exceed every count", plan.options.at.get("epsilon")
        )
    return method


def _method(plan: Plan) -> Method | None:
    asked, selection = plan.options.mechanism or "AUTO", plan.selection
    if plan.domain_size is None and isinstance(selection, TopK):
        if max_candidates(selection.k, plan.options) > MAX_CANDIDATES:
            raise plan.query.source.refuse(
                f"over keys without a declared domain at most {MAX_CANDIDATES:,} groups can take part",
                plan.options.at.get("candidates"),
                "a smaller k, or fewer candidates",
            )
        return LargestGroups.of(plan, selection) if asked in ("AUTO", *MECHANISMS) else None
    match selection:
        case TopK(threshold=None):
            one = asked in ("NOISY_MAX", "EXPONENTIAL") and selection.k == 1
            if one or asked in ("AUTO", "NOISY_TOP_K", "JOINT"):
                return LargestGroups.of(plan, selection)
        case TopK():
            if asked in ("AUTO", "HYBRID_TOP_K"):
                return LargestGroups.of(plan, selection)
            if asked == "HYBRID_SPARSE_VECTOR":
                return SparseVectors.of(plan, selection)
        case AboveThreshold():
            if asked in ("AUTO", "ADAPTIVE_SPARSE_VECTOR", "SPARSE_VECTOR"):
                return SparseVectors.of(plan, selection, branches=1 if asked == "SPARSE_VECTOR" else BRANCHES)
        case Scalar() | AllGroups():
            if asked in ("AUTO", "LAPLACE"):
                return EveryCount.of(plan, selection)
    return None


_USES = {
    "base_hits": AboveThreshold,
    "max_groups_contributed": AllGroups,
}


def _check_options(plan: Plan) -> None:
    """Refuse options that would have no effect, and outputs that the selection does not have."""
    source, options, selection = plan.query.source, plan.options, plan.selection
    for name, needed in _USES.items():
        if getattr(options, name) is not None and not isinstance(selection, needed):
            raise source.refuse(
                f"option {name} has no meaning for this selection", options.at.get(name), "leave it out"
            )
    above = isinstance(selection, AboveThreshold) or options.mechanism == "HYBRID_SPARSE_VECTOR"
    if options.threshold_share is not None and not above:
        raise source.refuse(
            "option threshold_share has no meaning for this selection",
            options.at.get("threshold_share"),
            "leave it out",
        )
    if options.candidates is not None and plan.domain_size is not None:
        raise source.refuse(
            "option candidates is for keys without a public domain",
            options.at.get("candidates"),
            "leave it out",
        )
    if options.candidates is not None and isinstance(selection, TopK) and options.candidates < selection.k:
        raise source.refuse("candidates must be at least k", options.at.get("candidates"))
    for output in plan.outputs:
        if output.kind in ("gap", "p_value", "rank") and isinstance(selection, (Scalar, AllGroups)):
            raise source.refuse(
                f"{output.name}: nothing is selected here, so there is no such thing", output.at
            )
        if output.kind == "p_value" and not (
            isinstance(selection, TopK) and (selection.threshold is None or plan.domain_size is None)
        ):
            raise source.refuse("DP_PVALUE requires ORDER BY n DESC LIMIT k", output.at)
        if output.kind == "p_value" and (options.noise or "EXPONENTIAL") != "EXPONENTIAL":
            raise source.refuse("p-values are valid for exponential noise only", options.at.get("noise"))
