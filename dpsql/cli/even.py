"""One error for all statements of a batch: given, or the least that a total of epsilon pays for."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import click

from dpsql.kernel.loss import exact
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpsql.policy import Policy

LARGEST = Fraction(10**9)
"""An error that every statement has at hardly any epsilon."""
_FIRST = Fraction(1000)
_NEAR = Fraction(99, 100)
"""A search ends where this part of the total is spent, or no smaller error of three digits fits."""


@dataclass(frozen=True, slots=True)
class ErrorTarget:
    """What `--error` or `--epsilon-total` asks for."""

    error: Fraction | None = None
    percent: bool = False
    """Whether the error is in percent of the policy's `smallest_interesting`."""
    total: Fraction | None = None

    @classmethod
    def of(cls, error: str | None, total: str | None) -> ErrorTarget | None:
        """Read the values of both options; raise `click.UsageError` for one that is no positive number."""
        if error is not None and total is not None:
            raise click.UsageError("--error and --epsilon-total exclude each other")
        if error is not None:
            return cls(error=_read_positive("--error", error.removesuffix("%")), percent=error.endswith("%"))
        return None if total is None else cls(total=_read_positive("--epsilon-total", total))

    def known(self, policy: Policy | None) -> Fraction | None:
        """Return the error that is asked for, in counts; None if an epsilon total is asked for instead."""
        if self.error is None or not self.percent:
            return self.error
        if policy is None:
            raise click.UsageError(
                "--error in percent needs the policy's smallest_interesting, which a server does not tell\n"
                "Hint: write it in counts, as --error 50"
            )
        return self.error / 100 * policy.budget.smallest_interesting


def least_error(cost: Callable[[Fraction], Fraction | None], fixed: Fraction, total: Fraction) -> Fraction:
    """Return an error of three digits whose cost is at most a total, close to the least one.

    It is `LARGEST` if no price depends on the error.

    Parameters
    ----------
    cost
        The epsilon that an error costs; None if some statement cannot have it. It falls about as 1/error.
    fixed
        The cost of `LARGEST`, at most the total.
    total
        The most it may cost.
    """
    below, above, error = Fraction(0), LARGEST, _FIRST
    while True:
        found = cost(error)
        if found == fixed:
            return LARGEST  # no statement's price depends on it
        if found is not None and found <= total:
            above = error
            if found >= _NEAR * total:
                return error
        else:
            below = error
        if found is not None and fixed < found and fixed < total:
            error = round_digits(error * (found - fixed) / (total - fixed))
        if not below < error < above:
            error = round_digits(_geometric_mean(below, above))
        if not below < error < above:
            return above


def _geometric_mean(below: Fraction, above: Fraction) -> Fraction:
    """Return about the geometric mean of two errors, or a small part of the larger one if the other is 0."""
    if not below:
        return above / 1000
    return Fraction((float(below) * float(above)) ** 0.5)


def round_digits(error: Fraction) -> Fraction:
    """Round to three significant digits, upwards.

    >>> [float(round_digits(Fraction(one))) for one in ("52.31", "0.012345", "999.5")]
    [52.4, 0.0124, 1000.0]
    """
    step = Fraction(1)
    while error < 100 * step:
        step /= 10
    while error >= 1000 * step:
        step *= 10
    return -(-error // step) * step


def write_decimal(error: Fraction) -> str:
    """Write an error of few digits without an exponent.

    >>> write_decimal(Fraction(524, 10)), write_decimal(Fraction(10**9))
    ('52.4', '1000000000')
    """
    value = Decimal(error.numerator) / Decimal(error.denominator)
    return f"{value.normalize():f}"


def _read_positive(name: str, text: str) -> Fraction:
    try:
        value = exact(text)
    except ValueError:
        value = Fraction(0)
    if value <= 0:
        percentage = ", or a percentage" * (name == "--error")
        raise click.UsageError(f"{name} takes a positive number{percentage}")
    return value
