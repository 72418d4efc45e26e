"""The checks of how a policy accounts its budget."""

from __future__ import annotations

from fractions import Fraction
from typing import get_args

from dpsql.kernel.loss import Accounting
from dpsql.policy.names import wrong


def check_accounting(accounting: object, delta: Fraction, conversion_delta: Fraction | None) -> None:
    """Raise `PolicyError` for an unknown accounting, or one that does not fit the deltas."""
    if accounting not in get_args(Accounting):
        raise wrong(
            "budget.accounting",
            f"{str(accounting)[:40]!r} is no accounting",
            'write "pure" (epsilons add) or "zcdp" (more small statements for the same promise)',
        )
    if accounting == "pure":
        if conversion_delta is not None:
            raise wrong(
                "budget.conversion_delta",
                'is for accounting = "zcdp"',
                'leave it out, or write accounting = "zcdp"',
            )
        return
    if not delta:
        raise wrong(
            "budget.accounting",
            '"zcdp" needs a delta, as its promise holds but for that chance',
            'write delta = 1e-6, or accounting = "pure"',
        )
    if conversion_delta is not None and not 0 < conversion_delta <= delta:
        raise wrong("budget.conversion_delta", "must be above 0 and at most budget.delta")
