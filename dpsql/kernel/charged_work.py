"""Runs private work under a reservation: charged before, and settled, failed or cancelled after.

Statements and checks of streams all use `ChargedWork`. The result of the work is
written to the ledger before anybody can see it. Work that raises ends the reservation as failed or
cancelled, by what the engine reported. Work runs inside `_run`, so that no error holds a frame of it:
frames keep exact counts and answers that nobody paid for, and tools that report errors show them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from enum import Enum
from typing import Generic, NoReturn, Protocol, TypeVar

from dpsql.errors import (
    DatabaseError,
    Error,
    InterfaceError,
    InternalError,
    OperationalError,
    StatementFailed,
)
from dpsql.kernel.check import NotCertified
from dpsql.kernel.ledger import ChargeLedger
from dpsql.kernel.ledger.events import Event, Reservation, Settled
from dpsql.kernel.ledger.lasting_streams import BegunCheck
from dpsql.kernel.ledger.limits import OwnerProcess
from dpsql.kernel.levels import Level, refined_by, with_level
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.kernel.unit_parts import PartSet
from dpsql.lazy_dataclass import dataclass

_T = TypeVar("_T")

FAILED = "the engine could not finish the statement; its charge is kept"
"""The one message of every failure at run time: a message that depended on data would disclose it."""

INTERRUPTED = "Query interrupted"
"""What DuckDB says of a Ctrl-C while the main thread runs a query: the same event."""
CANCELLED = "the statement was cancelled; its charge is kept"
UNCHARGED = "the statement was cancelled; nothing was charged"
"""What a cancellation says before a charge; public queries say it, which may run under one, too."""

_BUG = "this is a bug of dpsql: what was to be counted is not certified; its charge is kept"
_OVER = "the reservation has ended or is in use: nothing more is answered under it"


class Cancelled(OperationalError):  # noqa: N818  an event, as `KeyboardInterrupt`
    """The analyst cancelled the statement from another thread. It is no failure; its charge is kept."""

    sqlstate = "57014"


class EngineWork(Protocol):
    """What the kernel asks an engine about a statement that runs."""

    @property
    def cancelled(self) -> bool:
        """Whether a person cancelled the statement."""

    @property
    def failed(self) -> bool:
        """Whether any of its work has failed; true before an error is raised for it."""

    @property
    def before_end(self) -> Callable[[], None] | None:
        """What to call when the private work has ended, before the ledger and so anybody else can know.

        What was cancelled until it returns has no answer, whether or not the work had ended by itself.
        """


Begin = Callable[[], AbstractContextManager[EngineWork]]
"""Yields the statement to which this thread's engine work belongs."""


@dataclass(frozen=True, slots=True)
class Paid(Generic[_T]):
    """The result of private work and its charge; nobody may see it before both are in the ledger."""

    value: _T
    charge: Charge
    payload: bytes | None = None
    key: str | None = None
    loss: PrivacyLoss | None = None
    """What is charged, its mechanisms settled; None: one pure mechanism ran, and realised `charge`."""
    level: Level | None = None
    """The number that a further release may go on from: it is stored with this one."""
    parts: PartSet | None = None
    """The parts of units on which it may depend (`Spending.unit_parts`); None: all."""


def _run(work: Callable[[], _T], begin: Begin) -> tuple[_T | None, BaseException | None, bool]:
    """Run work; return its value or its error, and whether the error counts as a failure.

    Every error does, except an interrupt by the analyst. It loses its traceback, context and cause.
    """
    outer = sys.exc_info()[1]
    with begin() as statement:
        try:
            return work(), None, False
        except BaseException as error:  # noqa: BLE001  whatever it is, its frames and its text may carry data
            # An interrupt raised while another error was handled is no interrupt: that error came first.
            first = error.__context__
            if isinstance(first, RuntimeError) and str(first) == INTERRUPTED:
                first = first.__context__
            alone = first is None or first is outer
            interrupt = isinstance(error, (Cancelled, KeyboardInterrupt)) and alone
            error.__traceback__ = error.__context__ = error.__cause__ = None
            # The engine may have failed just before a Ctrl-C.
            return None, error, not interrupt or statement.failed


def run_uncharged(work: Callable[[], _T], otherwise: _T, begin: Begin) -> _T:
    """Run uncharged work that reads private data; an error that the work raises holds none of its frames.

    An error that is not dpsql's own may depend on the data: `otherwise` is returned instead.
    """
    value, error, _ = _run(work, begin)
    if error is None:
        return value  # type: ignore[return-value]  # without an error there is a value
    if isinstance(error, Exception) and not isinstance(error, Error):
        return otherwise
    raise error


def _is_cancelled_before_end(begin: Begin) -> bool:
    """Let a server wait before the end of private work shows in the ledger, which other sessions read.

    Return whether the statement was cancelled until then. Whether the work had ended before is not looked at:
    that would tell when it ended, as exactly as somebody can choose when to cancel.
    """
    with begin() as statement:
        if statement.before_end is None:
            return False
        statement.before_end()
        return statement.cancelled


class _State(Enum):
    OPEN = "open"
    BUSY = "busy"
    """Work runs under it, or was interrupted before its end could be recorded."""
    ENDED = "ended"


class ChargedWork:
    """A reservation, used by the process that made it, for one piece of work at a time."""

    def __init__(self, ledger: ChargeLedger, reservation: Reservation, begin: Begin) -> None:
        """Take over a reservation that was just made; nothing else may use it."""
        self._ledger = ledger
        self._reservation = reservation
        self._begin_statement = begin
        self._owner_process = OwnerProcess("reservation")
        self._state = _State.OPEN
        self._writing = False

    def confirm(self) -> None:
        """Raise `InterfaceError` unless work runs under it now; to be called right before noise is drawn."""
        self._owner_process.check()
        if self._state is not _State.BUSY:
            raise InterfaceError(_OVER)

    def finish(self, work: Sequence[Callable[[], Paid[_T]]]) -> tuple[list[tuple[_T, int]], Event]:
        """Run one piece of work for each release, in order, and settle all at once.

        It returns each value with the number of its release, and the ledger's event that stored them. If one
        fails, none is released.
        """

        def settle_each() -> tuple[list[tuple[_T, int]], Event]:
            paid = [piece() for piece in work]
            if [refined_by(one.level) for one in paid] != [*self._reservation.parents]:
                raise InternalError("another release was refined than the one for which it is charged")
            if [one.parts for one in paid] != [*self._reservation.touches]:
                raise InternalError("a release depends on other parts of units than those that are charged")
            if _is_cancelled_before_end(self._begin_statement):
                raise Cancelled(CANCELLED)
            self._writing = True
            ended = [
                Settled(
                    one.charge if one.loss is None else one.loss, with_level(one.payload, one.level), one.key
                )
                for one in paid
            ]
            numbers, event = self._ledger.settle_all(self._reservation, ended)
            self._state = _State.ENDED
            return [(one.value, number) for one, number in zip(paid, numbers, strict=True)], event

        return self._run_busy(settle_each)

    def _begin(self) -> None:
        """Mark the reservation as busy; raise if it is busy already or has ended."""
        self._owner_process.check()
        if self._state is not _State.OPEN:
            raise InterfaceError(_OVER)
        self._state = _State.BUSY

    def _record_end(self, *, failed: bool) -> None:
        (self._ledger.fail if failed else self._ledger.cancel)(self._reservation)

    def _run_busy(self, work: Callable[[], _T]) -> _T:
        self._begin()
        self._writing = False
        value, error, failed = _run(work, self._begin_statement)
        if error is not None:
            self._end(error, failed=failed)
        return value  # type: ignore[return-value]  # as above

    def _end(self, error: BaseException, *, failed: bool) -> NoReturn:
        """Record the failure or cancellation, and raise the error that the analyst may see."""
        self._state = _State.ENDED
        if _is_cancelled_before_end(self._begin_statement):
            error, failed = Cancelled(CANCELLED), False
        with suppress(Error):  # then it keeps its charge and its slot, or it was settled a moment ago
            self._record_end(failed=failed)
        if isinstance(error, Cancelled) and failed:
            raise StatementFailed(FAILED)
        if isinstance(error, Cancelled) and str(error) == UNCHARGED:
            raise Cancelled(CANCELLED)
        if not isinstance(error, Exception) or isinstance(error, Cancelled):
            raise error
        if isinstance(error, NotCertified):
            raise InternalError(_BUG)  # it follows from a tree, so from public and released values alone
        if self._writing and isinstance(error, DatabaseError):
            raise error  # its text is the ledger's, which holds no private value
        raise StatementFailed(FAILED)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check of a lasting stream; nobody may see it before it is in the ledger."""

    used: int
    """How many misses it has used."""
    payload: bytes


class ChargedCheck(ChargedWork):
    """One check of a lasting stream: its stream is charged, and the misses that it could use are used."""

    def __init__(self, ledger: ChargeLedger, begun: BegunCheck, begin: Begin) -> None:
        """Take over a check of a stream that was just begun in the ledger."""
        charge = begun.stream.terms.charge
        loss = PrivacyLoss.of(charge.epsilon, charge.delta)
        super().__init__(ledger, Reservation(begun.stream.entry, loss, stream=True), begin)
        self._streams, self._begun = ledger.streams, begun

    def run(self, work: Callable[[], CheckResult]) -> bytes:
        """Run the check and store its result; return that.

        One that fails or is cancelled uses all the misses that it could use.
        """

        def write_result() -> bytes:
            found = work()
            if _is_cancelled_before_end(self._begin_statement):
                raise Cancelled(CANCELLED)
            self._writing = True
            self._streams.finish(self._begun, found.used, found.payload)
            self._state = _State.ENDED
            return found.payload

        return self._run_busy(write_result)

    def _record_end(self, *, failed: bool) -> None:
        self._streams.fail(self._begun, failed=failed)
