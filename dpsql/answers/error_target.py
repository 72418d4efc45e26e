"""Find the epsilon of a statement that asks for an error: the least at which its prediction is no larger."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from dpsql.analysis import OF_NUMBERS, Plan
from dpsql.answers import plan_requests
from dpsql.answers.mechanism_choice import choose
from dpsql.errors import InternalError, QueryRefused
from dpsql.language import Options

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
    wide = predicted_error(plan, Fraction(1))
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
            f"error = {_up(predicted_error(plan, _epsilon(_place(most))))}",
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
        own = replace(plan, options=replace(plan.options, epsilon=epsilon)).layout
        if own.way == way.lower():
            found.append(epsilon)
    return min(found, default=None)


def by_default_error(plan: Plan, epsilon: Fraction | None) -> Options:
    """Return the options of a plan whose error is the connection's, not the statement's own.

    That error is one of counts. A number whose values are bounded has it in multiples of the largest of them:
    so it is that of a count of as many rows. Where no error is predicted, the default epsilon takes its
    place, if there is one.
    """
    options, place = plan.options, plan_requests.quoted_place(plan)
    if options.error is None:
        raise InternalError("there is no default error")
    if epsilon is not None and predicted_error(plan, Fraction(1)) is None:
        return replace(options, error=None, epsilon=epsilon)
    argument = None if place is None else plan.counts[place].argument
    if argument is None:
        return options
    largest = argument.largest or max(abs(argument.low), abs(argument.high))
    return replace(options, error=options.error * largest)


def predicted_error(plan: Plan, epsilon: Fraction) -> float | None:
    """Predict the error at an epsilon: half the widest interval, or what keys alone tell apart.

    None: it is not predicted.
    """
    quote = choose(replace(plan, options=replace(plan.options, epsilon=epsilon))).quote
    if any(output.kind in OF_NUMBERS or output.uses for output in plan.outputs):
        return quote.half_width
    return quote.tells_apart if plan.domain_size is not None else None


def _reaches(plan: Plan, place: int, error: Fraction) -> bool:
    try:
        found = predicted_error(plan, _epsilon(place))
    except QueryRefused:  # at epsilon 1 it is answered, so this epsilon is what is refused
        return False
    return found is not None and found <= error


def _hint(plan: Plan) -> str:
    if plan.domain_size is None:
        return "select a count as well, or give epsilon: of keys without a declared domain no error is known"
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


def _up(width: float | None) -> str:
    """Write a width as a decimal, rounded up to three digits."""
    if not width:
        raise InternalError("a width that was predicted at one epsilon is predicted at each")
    power = math.floor(math.log10(width)) - 2
    return f"{Decimal(math.ceil(Fraction(width) / Fraction(10) ** power)).scaleb(power):f}"
