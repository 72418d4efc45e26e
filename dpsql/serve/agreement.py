"""Whether a statement's text says what may be charged for it; and the error that asks for it to be said."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpsql.analysis import with_views
from dpsql.errors import PriceNotAgreed, QueryRefused, QuerySyntaxError
from dpsql.language import Outline, Query, parse
from dpsql.ledger import shown
from dpsql.prepared import PreparedPrivate

if TYPE_CHECKING:
    from dpsql.planning import Planner
    from dpsql.prepared import PreparedComposed
    from dpsql.privacy import Charge
    from dpsql.serve.plan_cache import Planned


def names_epsilon(
    prepared: PreparedPrivate | PreparedComposed, planner: Planner, planned: Planned | None
) -> bool:
    """Return whether the text of a statement says what may be charged for each of its releases.

    It does if the statement is accepted where nothing is charged by default. `planned` remembers it.
    """
    if isinstance(prepared, PreparedPrivate) and prepared.refines is not None:
        return True
    if planned is not None and planned.names_epsilon is not None:
        return planned.names_epsilon
    if isinstance(prepared, PreparedPrivate):
        options = prepared.query.options
        named = options.epsilon is not None or options.error is not None
    else:
        named = _accepted(prepared, _alone(planner))
    if planned is not None:
        planned.names_epsilon = named
    return named


def _accepted(prepared: PreparedComposed, planner: Planner) -> bool:
    try:
        planner.query(prepared.text, prepared.query, planner.database.engines())
    except QueryRefused:
        return False
    return True


def not_agreed(
    prepared: PreparedPrivate | PreparedComposed, price: Charge, planner: Planner
) -> PriceNotAgreed:
    """Return the error that tells the price, and what to write in order to agree to it."""
    epsilon = shown(price.epsilon, up=True)
    delta = f" and delta {float(price.delta):g}" if price.delta else ""
    error = PriceNotAgreed(
        f"this costs epsilon {epsilon}{delta}, and nobody has agreed to it; nothing was charged",
        hint=f"write SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}) ..., or send "
        f"SET dp_epsilon = {epsilon} to agree to it for all statements of this connection",
    )
    error.rewrite = _with_epsilon(prepared, epsilon, price, _alone(planner))
    return error


def _alone(planner: Planner) -> Planner:
    """Return a planner without a default epsilon or error."""
    return replace(planner, defaults=replace(planner.defaults, epsilon=None, error=None))


def _with_epsilon(
    prepared: PreparedPrivate | PreparedComposed, epsilon: str, price: Charge, planner: Planner
) -> str | None:
    """Return the statement with its price in it, if that is accepted and costs the same."""
    text = prepared.text
    added = Outline.of(text).with_options(f"epsilon = {epsilon}")
    if added is None:
        return None
    changed = text[: added[0]] + added[1] + text[added[0] :]
    try:
        statement = with_views(parse(changed, prepared.query.parameters or None), planner.policy)
        if isinstance(statement, Query):
            again = planner.query(changed, statement, planner.database.engines())
            return changed if again.price == price else None
    except (QueryRefused, QuerySyntaxError):
        pass
    return None
