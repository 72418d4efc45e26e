"""What connectors and the command line need of a session, be it in this process or on a server.

`Turn` is its guard: one process, and one caller at a time.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dpsql.errors import InterfaceError
from dpsql.kernel.ledger.limits import OwnerProcess
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from dpsql.kernel.loss import Charge
    from dpsql.language import Parameters
    from dpsql.ledger import Budget
    from dpsql.policy import Policy
    from dpsql.release import Release


class Turn(OwnerProcess):
    """A lock for `with` blocks: other threads wait, a second entry by the same thread is refused.

    The same thread can enter again from a signal handler, a finalizer or a callback, in the middle of a
    statement whose state is not yet recorded.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self._lock = threading.RLock()
        self._taken = False

    def __enter__(self) -> None:
        self.check()
        self._lock.acquire()
        if self._taken:
            self._lock.release()
            raise InterfaceError(f"this {self._what} is in use: what it runs must end first")
        self._taken = True

    def __exit__(self, *error: object) -> None:
        self._taken = False
        self._lock.release()


@dataclass(frozen=True, slots=True)
class StatementResult:
    """The rows of a statement; `release` is None for a statement that reads nothing private."""

    table: pa.Table
    release: Release | None = None
    notices: tuple[str, ...] = ()
    """What a server said beside the rows, where no release says it."""


class PricedStatement(Protocol):
    """A statement that a session has prepared: nothing is charged, no private row was read."""

    @property
    def private(self) -> bool:
        """Whether the statement reads private tables."""

    @property
    def price(self) -> Charge:
        """The most that the statement can charge."""

    @property
    def full_price(self) -> Charge:
        """The largest charge if none of its answers is stored."""

    @property
    def setting(self) -> bool:
        """Whether the statement is a SET, on which later prices depend."""


_Prepared = TypeVar("_Prepared", bound=PricedStatement)


class AnyAnalystSession(Protocol[_Prepared]):
    """The session of one analyst: `dpsql.session.Session` in this process, or one on a server."""

    turn: Turn
    """The lock that keeps its statements apart."""

    @property
    def closed(self) -> bool:
        """Whether the session was closed, or its connection was lost."""

    @property
    def policy(self) -> Policy | None:
        """The policy; None if it lies on a server."""

    @property
    def max_epsilon_per_query(self) -> Fraction | None:
        """The largest epsilon of one statement; None without such a cap."""

    @property
    def messages(self) -> tuple[str, ...]:
        """What the user should know from the start, such as that the ledger is new."""

    def check(self) -> None:
        """Raise `InterfaceError` if the session is closed, or belongs to another process."""

    def run(self, text: str, parameters: Parameters = None) -> StatementResult:
        """Run one statement and return its result."""

    def prepare(self, text: str, parameters: Parameters = None) -> _Prepared:
        """Parse, analyse and price one statement; raises `Error` if it is wrong or refused."""

    def execute(self, prepared: _Prepared, *, most: Charge | None = None) -> StatementResult:
        """Charge and run a prepared statement; with `most`, refuse to charge more."""

    def pricing(self) -> AbstractContextManager[None]:
        """Undo each SET of the block at its end."""

    def upload(self, name: str, rows: pa.Table, key: str | None = None) -> int:
        """Keep a public table under a name for the session's statements; return its number of rows."""

    def together(self, statements: Sequence[_Prepared]) -> AbstractContextManager[None]:
        """Let prepared statements, which are executed in the block, be counted by few queries if they can."""

    def budget(self) -> Budget:
        """Return what the analyst may still spend."""

    def budget_by_parts(self) -> Budget:
        """Return what the analyst may still spend, with that of each part of units, if there are any."""

    def release(self, number: int) -> Release:
        """Return one of the analyst's own releases."""

    def cancel(self) -> None:
        """Stop the statement that runs, from another thread or a signal handler."""

    def close(self) -> None:
        """End the session; harmless if it has ended."""


AnalystSession = AnyAnalystSession[Any]
"""The session of one analyst, with prepared statements of any kind."""
