"""The kernel's charged work, with what the engines tell of the statement that runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dpsql.engines import running_statement
from dpsql.kernel.charged_work import ChargedWork, Paid, run_uncharged
from dpsql.ledger import Ledger, Reservation

__all__ = ["Paid", "Running", "sealed"]

_T = TypeVar("_T")


class Running(ChargedWork):
    """A reservation, used by the process that made it, for one piece of work at a time."""

    def __init__(self, ledger: Ledger, reservation: Reservation) -> None:
        """Take over a reservation that was just made; nothing else may use it."""
        super().__init__(ledger, reservation, running_statement)


def sealed(work: Callable[[], _T], otherwise: _T) -> _T:
    """Run uncharged work that reads private data, as `run_uncharged` does."""
    return run_uncharged(work, otherwise, running_statement)
