"""Choose the mechanism that answers a selection, and the epsilon of a statement that asks for an error.

A requested mechanism that cannot answer is an error, never replaced. The epsilon is the least at which the
predicted error is no larger than the wanted one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from dpsql.analysis import OF_NUMBERS, Contribution, Plan
from dpsql.errors import InternalError, QueryRefused
from dpsql.kernel.loss import Charge
from dpsql.language import AllGroups, Options, Scalar
from dpsql.planning import plan_requests
from dpsql.planning.all_groups import EveryCount, WholeDomain
from dpsql.planning.column_values import DifferentValues
from dpsql.planning.divided_methods import AllNumbers, LargestOfPartitions, plan_of_partition
from dpsql.planning.mechanism_rules import (
    BOX,
    EACH_NOISE,
    LAPLACE_SELECTED,
    Candidate,
    candidates_of,
    laplace_errs_less,
)
from dpsql.planning.method import Considered, Method
from dpsql.planning.noise_shares import is_counts_only
from dpsql.planning.plan_requests import check_layout, check_options, refuse_option
from dpsql.planning.stable_selections import NAME, StableSelection
from dpsql.planning.threshold_selection import SparseVectors
from dpsql.planning.top_k_selection import LargestGroups
from dpsql.planning.unknown_keys import GroupsByUnits


def choose(plan: Plan) -> Method:
    """Choose the method of a plan and quote its price; raises `QueryRefused` if none can answer it."""
    check_layout(plan)
    if plan.ladders:
        from dpsql.planning.bound_search import BoundSearches  # noqa: PLC0415  few bounds are to be found

        return BoundSearches.of(plan, choose)
    if plan.partitions is not None:
        return LargestOfPartitions.of(plan, choose)
    check_options(plan)
    compared: dict[Candidate, Method] = {}
    chosen, _ = _choose_candidate(plan, compared)
    method = _plan_candidate(plan, chosen, compared)
    if plan_requests.is_simultaneous(plan) and isinstance(method, _SEVERAL_NOISES):
        box = "OPTIONS (mechanism = BOX), or " * _is_answered_by_box(plan)
        raise refuse_option(
            plan,
            "intervals",
            "intervals that cover all counts at once need one noise for all counts",
            f"{box}leave intervals out",
        )
    return method


_SEVERAL_NOISES = (EveryCount, AllNumbers, GroupsByUnits, SparseVectors)


def _is_answered_by_box(plan: Plan) -> bool:
    """Return whether box noise, which was not asked for, has one noise for all counts of a plan."""
    if plan.options.mechanism not in (None, "AUTO"):
        return False
    asked = replace(plan, options=replace(plan.options, mechanism="BOX"))
    try:
        choose(asked)
    except QueryRefused:
        return False
    return True


def needs_few_counts(method: Method) -> bool:
    """Return whether a method needs exact counts of few groups, given upper bounds of all counts."""
    if not isinstance(method, (LargestGroups, SparseVectors)):
        return False
    return method.mechanism.bounded or method.mechanism.reads > 0


def quote_candidates(plan: Plan) -> list[Considered]:
    """Quote every mechanism that could answer a plan, the chosen one first: for EXPLAIN."""
    if plan.ladders:
        return []
    if plan.partitions is not None:
        return [
            replace(each, charge=plan.partitions.find_charge(plan.price, each.charge))
            for each in quote_candidates(plan_of_partition(plan, plan.partitions.size))
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
    if asked == NAME:
        return Candidate((NAME,), StableSelection.of, only="only by name"), "asked for by name"
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
    raise refuse_option(plan, "mechanism", f"mechanism {asked} cannot answer this{over}", "leave it out")


def _plan_candidate(plan: Plan, candidate: Candidate, known: dict[Candidate, Method] | None = None) -> Method:
    """Return the method of a candidate, from `known` if it is there; refuse one whose noise is too large."""
    try:
        method = (known or {}).get(candidate) or candidate.of(plan)
    except ValueError as error:
        raise _refuse_options(plan, error) from None
    if method.quote.scale > 2.0**40 and is_counts_only(plan):
        raise refuse_option(plan, "epsilon", "epsilon is too small: the noise would exceed every count")
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


_DIGITS = 900
"""Decimals of three significant digits in a power of ten."""
_LAST = 12 * _DIGITS
"""Place of the largest epsilon, 1,000,000, among these decimals from 0.000001 on."""

"""Kinds of outputs that release a count."""


def least_epsilon(plan: Plan, most: Fraction | None = None) -> Fraction:
    """Return the least epsilon of three significant digits whose predicted error is at most the wanted one.

    Each epsilon that is tried is quoted as if it had been given: the prediction is that of EXPLAIN for the
    mechanism that is then chosen. Predictions fall as epsilon grows. If one rose somewhere, the search would
    still end, at an epsilon that reaches the error while the next smaller one does not.

    Parameters
    ----------
    plan
        Its options have the error; their epsilon is ignored.
    most
        The most one statement may cost; None for no such limit.
    """
    error, source, at = plan.options.error, plan.query.source, plan.options.at.get("error")
    if error is None:
        raise InternalError("the statement asks for no error")
    if plan.options.layout is None and plan.filters:
        found = _less_of_both(plan, most)
        if found is not None:
            return found
    wide = predict_error(plan, Fraction(1))
    if wide is None:
        raise source.refuse("the error of this answer cannot be predicted", at, _hint(plan))
    low, high, step = -1, _LAST + 1, 1
    place = _place(Fraction(wide) / error)
    while high - low > 1:
        if _reaches(plan, place, error):
            high = place
        else:
            low = place
        if low < 0:
            place = max(high - step, 0)
        elif high > _LAST:
            place = min(low + step, _LAST)
        else:
            place = (low + high) // 2
        step *= 2
    if high > _LAST:
        raise source.refuse("no epsilon reaches this error: it is below one step of the noise", at)
    found = _epsilon(high)
    if most is not None and found > most:
        raise source.refuse(
            f"this error costs epsilon {float(found):g}, and one statement may cost at most {float(most):g}",
            at,
            f"error = {_round_up(predict_error(plan, _epsilon(_place(most))))}",
        )
    return found


def _less_of_both(plan: Plan, most: Fraction | None) -> Fraction | None:
    """Return the least epsilon at which the layout that it has reaches the error; None: neither is sure.

    Each layout's error falls as epsilon grows, but the one that is taken changes at some epsilon.
    """
    found = []
    for way in ("ORDER", "BASIC"):
        named = replace(plan, options=replace(plan.options, layout=way))
        try:
            epsilon = least_epsilon(named, most)
        except QueryRefused:
            continue
        own = replace(plan, options=replace(plan.options, epsilon=epsilon)).epsilon_division
        if own.accounting == way.lower():
            found.append(epsilon)
    return min(found, default=None)


def options_of_default_error(plan: Plan, epsilon: Fraction | None) -> Options:
    """Return the options of a plan whose error is the connection's, not the statement's own.

    That error is one of counts. A number whose values are bounded has it in multiples of the largest of them:
    so it is that of a count of as many rows. Where no error is predicted, the default epsilon takes its
    place, if there is one.
    """
    options, place = plan.options, plan_requests.quoted_place(plan)
    if options.error is None:
        raise InternalError("there is no default error")
    if epsilon is not None and predict_error(plan, Fraction(1)) is None:
        return replace(options, error=None, epsilon=epsilon)
    argument = None if place is None else plan.counts[place].argument
    if argument is None:
        return options
    largest = argument.largest or max(abs(argument.low), abs(argument.high))
    return replace(options, error=options.error * largest)


def predict_error(plan: Plan, epsilon: Fraction) -> float | None:
    """Predict the error of a statement at an epsilon: half the width of its widest interval.

    Of one that shows keys alone it is the smallest difference of two counts that the selection detects.
    None: it is not predicted.
    """
    quote = choose(replace(plan, options=replace(plan.options, epsilon=epsilon))).quote
    if any(output.kind in OF_NUMBERS or output.uses for output in plan.outputs):
        return quote.half_width
    return quote.tells_apart if plan.domain_size is not None else None


def _reaches(plan: Plan, place: int, error: Fraction) -> bool:
    try:
        found = predict_error(plan, _epsilon(place))
    except QueryRefused:  # at epsilon 1 it is answered, so this epsilon is what is refused
        return False
    return found is not None and found <= error


def _hint(plan: Plan) -> str:
    if plan.domain_size is None:
        return "select a count as well, or give epsilon: of keys without a declared domain no error is known"
    rows = (Contribution.ROWS, Contribution.ROWS_IN_A_GROUP)
    alone = plan.cells is None and not any(each.formula for each in plan.outputs)
    if plan.ladders and alone and all(search.ladder.of in rows for search in plan.ladders):
        return f"bound what one {plan.unit} counts: OPTIONS (max_rows_contributed = 16, ..); or give epsilon"
    if isinstance(plan.selection, AllGroups | Scalar):
        return "give epsilon"
    return "measure the counts: OPTIONS (measure = 0.5, ..); or give epsilon"


def _epsilon(place: int) -> Fraction:
    """Return the decimal at a place: 1.00e-6, 1.01e-6, .. , 9.99e-6, 1.00e-5, .."""
    power, digits = divmod(place, _DIGITS)
    return (100 + digits) * Fraction(10) ** (power - 8)


def _place(near: Fraction) -> int:
    """Return the place of the largest decimal that is not above a number, or 0 or the last one."""
    value = float(min(max(near, _epsilon(0)), _epsilon(_LAST)))
    power = math.floor(math.log10(value))
    place = min(max((power + 6) * _DIGITS + int(value / 10.0**power * 100) - 99, 0), _LAST)
    while place and _epsilon(place) > near:
        place -= 1
    return place


def _round_up(width: float | None) -> str:
    """Write a width as a decimal, rounded up to three digits."""
    if not width:
        raise InternalError("a width that was predicted at one epsilon is predicted at each")
    power = math.floor(math.log10(width)) - 2
    return f"{Decimal(math.ceil(Fraction(width) / Fraction(10) ** power)).scaleb(power):f}"
