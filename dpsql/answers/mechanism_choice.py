"""Choose the mechanism that answers a selection; a requested one that cannot is an error, never replaced."""

from __future__ import annotations

from dataclasses import replace

from dpsql.analysis import Plan
from dpsql.answers import plan_requests
from dpsql.answers.all_numbers import AllNumbers
from dpsql.answers.blocks import counts_only
from dpsql.answers.bound_search import BoundSearches
from dpsql.answers.different_values import DifferentValues
from dpsql.answers.every_count import EveryCount
from dpsql.answers.existing import ExistingGroups
from dpsql.answers.mechanism_rules import (
    BOX,
    EACH_NOISE,
    LAPLACE_SELECTED,
    Candidate,
    candidates_of,
    laplace_errs_less,
)
from dpsql.answers.method import Considered, Method
from dpsql.answers.options import check_layout, check_options
from dpsql.answers.partitions import LargestOfPartitions, of_one
from dpsql.answers.threshold import SparseVectors
from dpsql.answers.whole_domain import WholeDomain
from dpsql.errors import QueryRefused
from dpsql.kernel.loss import Charge


def choose(plan: Plan) -> Method:
    """Choose the method of a plan and quote its price; raises `QueryRefused` if none can answer it."""
    check_layout(plan)
    if plan.ladders:
        return BoundSearches.of(plan, choose)
    if plan.partitions is not None:
        return LargestOfPartitions.of(plan, choose)
    check_options(plan)
    compared: dict[Candidate, Method] = {}
    chosen, _ = _choose_candidate(plan, compared)
    method = _plan_candidate(plan, chosen, compared)
    if plan_requests.is_simultaneous(plan) and isinstance(
        method, (EveryCount, AllNumbers, ExistingGroups, SparseVectors)
    ):
        raise plan.query.source.refuse(
            "intervals that cover all counts at once need one noise for all counts",
            plan.options.at.get("intervals"),
            "OPTIONS (mechanism = BOX), or leave intervals out",
        )
    return method


def considered(plan: Plan) -> list[Considered]:
    """Quote every mechanism that could answer a plan, the chosen one first: for EXPLAIN."""
    if plan.ladders:
        return []
    if plan.partitions is not None:
        return [
            replace(each, charge=plan.partitions.charged(plan.price, each.charge))
            for each in considered(of_one(plan, plan.partitions.size))
        ]
    chosen, fact = _choose_candidate(plan)
    found = [_quote_candidate(plan, chosen, "chosen")]
    for each in candidates_of(plan).mechanisms:
        quoted = _quote_candidate(plan, each, each.only or fact)
        # What is taken by name only, and could not answer even then, was not considered. Of sums, two
        # candidates may be one mechanism.
        known = {replace(one, why="") for one in found}
        if each is not chosen and not (each.only and quoted.charge == Charge()):
            found += [quoted] if replace(quoted, why="") not in known else []
    return found


def _choose_candidate(plan: Plan, compared: dict[Candidate, Method] | None = None) -> tuple[Candidate, str]:
    """Return the chosen candidate, and what decided in a few words; `compared` gets what was compared."""
    asked, fact = plan.options.mechanism or "AUTO", "another one was named"
    found = candidates_of(plan)
    if asked == "AUTO":
        try:
            asked, fact = found.automatic(plan)
        except ValueError as error:
            raise _refuse_options(plan, error) from None
    for each in found.mechanisms:
        if asked in each.names:
            automatic = plan.options.mechanism in (None, "AUTO") and LAPLACE_SELECTED in found.mechanisms
            if automatic and laplace_errs_less(plan, each, {} if compared is None else compared):
                return LAPLACE_SELECTED, "Laplace noise on every group errs less"
            return each, fact
    over = f" over a domain of {plan.groups:,} groups" if plan.sparse else ""
    raise plan.query.source.refuse(
        f"mechanism {asked} cannot answer this{over}", plan.options.at.get("mechanism"), "leave it out"
    )


def _plan_candidate(plan: Plan, candidate: Candidate, known: dict[Candidate, Method] | None = None) -> Method:
    """Return the method of a candidate, if the noise is not too large; `known` has those of this plan."""
    source = plan.query.source
    try:
        method = (known or {}).get(candidate) or candidate.of(plan)
    except ValueError as error:
        raise _refuse_options(plan, error) from None
    if method.quote.scale > 2.0**40 and counts_only(plan):
        raise source.refuse(
            "epsilon is too small: the noise would exceed every count", plan.options.at.get("epsilon")
        )
    return method


def _refuse_options(plan: Plan, error: ValueError) -> QueryRefused:
    return plan.query.source.refuse(f"the mechanism does not take these options: {error}")


def _quote_candidate(plan: Plan, candidate: Candidate, why: str) -> Considered:
    """Quote a candidate as if it had been named; one that cannot answer the statement has no figures."""
    name, options = candidate.names[0], plan.options
    if candidate is BOX:
        options = replace(options, max_groups_contributed=None)
    named = replace(plan, options=replace(options, mechanism=name))
    try:
        check_options(named)
        method = _plan_candidate(named, candidate)
    except QueryRefused:
        return Considered(name, None, None, None, Charge(), why)
    quote = method.quote
    if isinstance(method, EveryCount | WholeDomain | AllNumbers):
        parts = method.parts if isinstance(method, AllNumbers) else (method,)
        names = (EACH_NOISE[type(part)] for part in parts)
        name = " + ".join(dict.fromkeys(names))
    elif isinstance(method, DifferentValues):
        name = EACH_NOISE[type(method.units)]
    elif quote.measured_by:
        name = f"{name} + {quote.measured_by}"
    return Considered(name, quote.tells_apart, quote.predicted_stddev, quote.half_width, quote.charge, why)
