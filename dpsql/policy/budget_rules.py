"""Check the consistency of a policy's budget and of the analysts' caps."""

from __future__ import annotations

from fractions import Fraction

from dpsql.policy.budget import AnalystPolicy, BudgetPolicy
from dpsql.policy.names import joined, wrong

_LIMITS = ("max_failures", "max_failures_total", "max_cancelled", "max_cancelled_total")


def check_analyst(analyst: AnalystPolicy) -> None:
    """Raise `PolicyError` for an invalid name or cap of an analyst."""
    if not analyst.name or len(analyst.name) > 200 or not analyst.name.isprintable():
        raise wrong(joined("analysts", analyst.name), "an analyst's name is 1 to 200 printable characters")
    _check_pair(analyst, "analysts", analyst.name)


def check_budget(budget: BudgetPolicy) -> None:
    """Raise `PolicyError` for a number of the budget that is out of range or contradicts another."""
    _check_pair(budget, "budget")
    most = budget.max_epsilon_per_query
    _check_cap("max_epsilon_per_query", most, budget.epsilon, "epsilon")
    _check_cap("default_epsilon", budget.default_epsilon, budget.epsilon, "epsilon")
    if most is not None:
        _check_cap("default_epsilon", budget.default_epsilon, most, "max_epsilon_per_query")
    _check_cap("default_delta", budget.default_delta, budget.delta, "delta")
    for name in _LIMITS:
        _check_limit(name, getattr(budget, name))
    for name in ("max_failures", "max_cancelled"):
        own, total = getattr(budget, name), getattr(budget, f"{name}_total")
        if own is not None and total is not None and total < own:
            raise wrong(f"budget.{name}_total", f"is less than budget.{name}, which could never be reached")


def _check_limit(name: str, value: object) -> None:
    if value is None and name != "max_failures":
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(f"budget.{name}", "expected an integer")
    if not 1 <= value <= 1_000_000:
        raise wrong(f"budget.{name}", "must be between 1 and 1000000")


def _check_pair(part: BudgetPolicy | AnalystPolicy, *key: str) -> None:
    if part.epsilon <= 0:
        raise wrong(joined(*key, "epsilon"), "must be greater than 0")
    if not 0 <= part.delta < 1:
        raise wrong(
            joined(*key, "delta"), "must be at least 0 and less than 1", "values like 1e-6 are customary"
        )


def _check_cap(name: str, value: Fraction | None, cap: Fraction, capped_by: str) -> None:
    if value is None:
        return
    if value <= 0:
        raise wrong(f"budget.{name}", "must be greater than 0")
    if value > cap:
        raise wrong(f"budget.{name}", f"is more than budget.{capped_by}, so it could never be spent")
