"""Measure counts with Gaussian noise, where a statement divides its cost at one order of Renyi divergence."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.analysis import Plan
from dpsql.epsilon_division import Layout
from dpsql.kernel import mechanisms

LEAST = Fraction(1, 1 << 18)
"""The least cost, as rho, of one number, with which its variance is within its limit, whatever its bound."""


def enough(plan: Plan, epsilon: Fraction, numbers: int) -> Fraction | None:
    """Return the cost, as rho, of a part of a statement if it is enough for so many numbers of any bounds.

    It depends on neither the bounds nor the data, so that before and after a search the noise is of one kind.
    """
    rho = Layout(epsilon, plan.layout.order).gaussian() if allowed(plan) else None
    return rho if rho and rho >= LEAST * numbers else None


def allowed(plan: Plan) -> bool:
    """Whether counts may have Gaussian noise: costs are divided, and the statement names no other noise."""
    return plan.layout.order is not None and plan.options.noise in (None, "EXPONENTIAL", "GAUSSIAN")


def wished(plan: Plan) -> bool:
    """Whether the statement names Gaussian noise."""
    return "GAUSSIAN" in (plan.options.noise, plan.options.mechanism)


def gaussian_noise(
    plan: Plan, places: Sequence[int], size: int, epsilon: Fraction, *, by_group: bool, monotone: bool
) -> mechanisms.Gaussian:
    """Return the Gaussian noise of some counts of so many groups, at the cost of an epsilon.

    The counts of a group stand together if `by_group`, else the groups of a count. Raises `ValueError` if the
    noise would be too large.
    """
    rho = Layout(epsilon, plan.layout.order).gaussian()
    if not rho:
        raise ValueError("epsilon is too small for Gaussian noise")
    bounds = [plan.counts[place].bound for place in places]
    most, every = sum(_moving(plan, place, size) for place in places), size * len(places)
    return mechanisms.Gaussian.plan(
        every,
        rho,
        groups_per_unit=most,
        sensitivity=bounds if by_group else [bound for bound in bounds for _ in range(size)],
        # What is shared is proven for changes of any of all counts, each by up to its bound.
        monotone=monotone and most == every,
    )


def _moving(plan: Plan, place: int, size: int) -> int:
    """Return in how many of so many groups one unit can change a count by its bound.

    Where all of its changes together are bounded, their squares add up to at most those of so many changes by
    the bound.
    """
    total, bound = plan.total(place), plan.counts[place].bound
    return size if total is None else min(size, max(1, -(-total // bound)))
