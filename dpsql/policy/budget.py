"""The budget of a policy: its total, and the caps of single analysts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dpsql.policy.names import joined, wrong
from dpsql.privacy import Charge, exact

_NUMBERS = ("epsilon", "delta", "max_epsilon_per_query", "default_epsilon", "default_delta")


@dataclass(frozen=True, slots=True)
class BudgetPolicy:
    """The total budget, the limits of single statements, and the file of the ledger.

    Numbers may be given as `dpsql.privacy.exact` reads them (`5`, `"0.7"`, `0.7`); they are held exact.

    Attributes
    ----------
    epsilon, delta
        The policy's total.
    max_epsilon_per_query
        The most one statement may take; None for no such cap.
    max_failures
        How many of an analyst's private statements may fail before further ones are refused. What runs counts
        as if it failed, so this is also how many may run at the same time.
    max_cancelled
        The same for statements that the analyst cancels; None: 20, or `max_failures` if that is more.
    max_failures_total, max_cancelled_total
        The same for all analysts together; None: ten times as many.
    default_epsilon, default_delta
        For statements that name none; None: such statements are refused.
    ledger
        The ledger's file.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    max_epsilon_per_query: Fraction | None = None
    max_failures: int = 3
    default_epsilon: Fraction | None = None
    default_delta: Fraction | None = None
    ledger: Path = Path("dpsql-ledger.sqlite")
    max_failures_total: int | None = None
    max_cancelled: int | None = None
    max_cancelled_total: int | None = None

    def __post_init__(self) -> None:
        _read_numbers(self, "budget")
        object.__setattr__(self, "ledger", Path(self.ledger))

    @property
    def total(self) -> Charge:
        """The policy's whole budget."""
        return Charge(self.epsilon, self.delta)


@dataclass(frozen=True, slots=True)
class AnalystPolicy:
    """One analyst's own cap beside the policy's total, which still binds.

    The name `*` means each analyst who is not listed. If analysts are listed and `*` is not, all others are
    refused. Names are compared exactly; dpsql does not verify who gives one.
    """

    name: str
    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        _read_numbers(self, "analysts", self.name)

    @property
    def charge(self) -> Charge:
        """The cap as a charge."""
        return Charge(self.epsilon, self.delta)


def _read_numbers(part: BudgetPolicy | AnalystPolicy, *key: str) -> None:
    """Replace each number of a frozen part by an exact rational; raise `PolicyError` for an invalid one."""
    for name in _NUMBERS:
        value = getattr(part, name, None)
        if value is None:
            continue
        try:
            object.__setattr__(part, name, exact(value))
        except ValueError as problem:
            raise wrong(joined(*key, name), str(problem)) from None
