"""Guess and check over SQL: counts are answered by guesses, and only guesses that are off are paid for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from dpsql.charge import Number, exact
from dpsql.engines import FAILED, Cancelled
from dpsql.errors import InterfaceError, OperationalError, ProgrammingError
from dpsql.language import Scalar
from dpsql.mechanisms import GuessAndCheck, MedianOracle

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from numpy.typing import ArrayLike

    from dpsql.analysis import Plan
    from dpsql.engines import Engine
    from dpsql.language import Parameters
    from dpsql.ledger import Ledger
    from dpsql.mechanisms import Checked

__all__ = ["CheckedCounts", "MedianCounts"]


class _Session(Protocol):
    """What of a session a stream needs."""

    analyst: str
    ledger: Ledger
    engine: Engine

    def plan_count(self, text: str, parameters: Parameters = None) -> Plan:
        """Analyse a count that the stream pays for."""


class _Stream:
    """Counts under one reservation: the most it can cost is charged at the start, settled at the end."""

    def __init__(self, session: _Session, name: str, mechanism: GuessAndCheck) -> None:
        self._session = session
        self._mechanism = mechanism
        self._reservation = session.ledger.reserve(
            analyst=session.analyst,
            statement=f"{name}(tolerance={mechanism.threshold_scale})",
            reading=name,
            mechanism="guess and check",
            charge=mechanism.largest_charge,
        )
        self._open = True

    @property
    def exhausted(self) -> bool:
        """Whether the misses are used up: then no further count is answered."""
        return self._mechanism.exhausted

    def close(self) -> None:
        """End the stream; what was not spent is not charged."""
        if self._open:
            self._open = False
            self._session.ledger.settle(self._reservation, self._mechanism.charge)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answer(self, text: str, parameters: Parameters, ask: Callable[[int], Checked]) -> Checked:
        if not self._open:
            raise InterfaceError("the stream of checked counts is closed")
        plan = self._session.plan_count(text, parameters)
        _one_count(plan)
        if self._mechanism.exhausted:
            raise OperationalError("the misses are used up: open another stream")
        failed = False
        try:
            exact_count = int(self._session.engine.count(plan.compiled).n[0][0])
            return ask(exact_count)
        except (KeyboardInterrupt, Cancelled):
            self._open = False
            self._session.ledger.cancel(self._reservation)
            raise
        except Exception:  # noqa: BLE001  whatever it is, its text may carry data
            failed = True
        if failed:
            self._open = False
            self._session.ledger.fail(self._reservation)
        raise OperationalError(FAILED)


def _one_count(plan: Plan) -> None:
    if not isinstance(plan.reading, Scalar) or len(plan.counts) != 1:
        raise ProgrammingError("a checked count is one count of a private table without GROUP BY")
    if plan.counts[0].bound != 1:
        raise ProgrammingError("a checked count may change by 1 with one unit: COUNT(DISTINCT unit)")


class CheckedCounts(_Stream):
    """Answers counts by guesses; see `dpsql.mechanisms.GuessAndCheck`."""

    def __init__(self, session: _Session, tolerance: Number, epsilon: Number, misses: int) -> None:
        self._checker = GuessAndCheck(tolerance, epsilon, misses)
        super().__init__(session, "checked", self._checker)

    def count(self, text: str, guess: Number, parameters: Parameters = None) -> Checked:
        """Answer one count: the guess if it is good enough, else a fresh noisy count.

        The guess may depend on public data and on earlier answers, on nothing else.
        """
        value = exact(guess)
        return self._answer(text, parameters, lambda count: self._checker.check(count, value))


class MedianCounts(_Stream):
    """Answers counts by the median of hypotheses; see `dpsql.mechanisms.MedianOracle`."""

    def __init__(
        self,
        session: _Session,
        hypotheses: ArrayLike,
        tolerance: Number,
        epsilon: Number,
        misses: int | None = None,
    ) -> None:
        self._oracle = MedianOracle(hypotheses, tolerance, epsilon, misses)
        super().__init__(session, "median oracle", self._oracle.checker)

    def count(self, text: str, cells: ArrayLike, parameters: Parameters = None) -> Checked:
        """Answer one count, whose guess is the median of what the hypotheses have in these cells."""
        return self._answer(text, parameters, lambda count: self._oracle.ask(count, cells))
