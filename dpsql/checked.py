"""Guess and check over SQL: counts are answered by guesses, and only rejected guesses are charged."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from fractions import Fraction
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.analysis import Plan
from dpsql.composition.planned_count import PlannedCount
from dpsql.database import Running
from dpsql.errors import InterfaceError, OperationalError, ProgrammingError
from dpsql.kernel.charged_work import Paid
from dpsql.kernel.facts import Facts
from dpsql.kernel.loss import Number, exact
from dpsql.kernel.loss.composing import Spending
from dpsql.kernel.mechanisms import Checked, GuessAndCheck, MedianOracle
from dpsql.kernel.release import Run
from dpsql.language import Parameters, Scalar, copy_parameters, copy_text
from dpsql.ledger import Ledger


class _Turn(Protocol):
    """The lock of a session, which keeps its statements apart."""

    @property
    def in_own_process(self) -> bool:
        """Whether this is the process that opened the session."""

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


class _Session(Protocol):
    """The part of a session that a stream uses."""

    analyst: str
    ledger: Ledger

    @property
    def turn(self) -> _Turn:
        """The lock that keeps its statements apart."""

    @property
    def facts(self) -> Facts:
        """The facts that the owner declares of the data, as the kernel has them."""

    def statement(self) -> AbstractContextManager[None]:
        """Run one statement in a block, which `cancel` stops and others wait for."""

    def plan_count(self, text: str, parameters: Parameters) -> PlannedCount:
        """Analyse a count that the stream charges for; vet its source."""


class _Stream:
    """Counts under one reservation: the largest charge is reserved at the start, settled at the end.

    The charge of a count is in the ledger before its answer is returned. A stream holds the session's
    turn while it answers and while it settles, so that neither happens in the middle of the other.
    """

    def __init__(self, session: _Session, name: str, mechanism: GuessAndCheck) -> None:
        self._session = session
        self._mechanism = mechanism
        reservation = session.ledger.reserve_stream(
            analyst=session.analyst,
            statement=f"{name}(tolerance={mechanism.plan.threshold_scale})",
            selection=name,
            mechanism="guess and check",
            charge=mechanism.plan.loss.charge,
            facts=session.facts,
        )
        self._run = Running(session.ledger, reservation)

    @property
    def exhausted(self) -> bool:
        """Whether the misses are used up: then no further count is answered."""
        return self._mechanism.exhausted

    @property
    def open(self) -> bool:
        """Whether counts may be asked of the stream: it has not ended, and this process opened it."""
        return self._run.open

    def close(self) -> None:
        """Settle the stream; only what was spent stays charged. Waits for another thread's count."""
        with self._session.turn:
            self.settle()

    def settle(self) -> None:
        """Settle the stream if it is open; the caller holds the session's turn."""
        if self.open:
            self._run.close(self._mechanism.charge)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        # A child of a fork leaves the block as well; the stream is its parent's.
        if self._session.turn.in_own_process:
            self.close()

    def _answer(self, text: str, parameters: Parameters, ask: Callable[[Run], Checked]) -> Checked:
        words, values = copy_text(text), copy_parameters(parameters)
        with self._session.statement():
            if not self.open:
                raise InterfaceError("the stream of checked counts is closed")
            counting = self._session.plan_count(words, values)
            _check_one_count(counting.plan)
            if self.exhausted:
                raise OperationalError("the misses are used up: open another stream")
            return self._run.step(lambda: self._ask(counting, ask))

    def _ask(self, counting: PlannedCount, ask: Callable[[Run], Checked]) -> Paid[Checked]:
        """Count and answer; called by `Running.step` under a reservation that was written before."""
        run = Run(counting.count(), Spending(self._mechanism.plan.loss))
        self._run.confirm()
        return Paid(ask(run), self._mechanism.charge)


def _check_one_count(plan: Plan) -> None:
    if not isinstance(plan.selection, Scalar) or len(plan.counts) != 1:
        raise ProgrammingError("a checked count is one count of a private table without GROUP BY")
    known = plan.values is None and plan.counts[0].noise_group is None
    if not known or plan.counts[0].bound != 1 or plan.ladders:
        raise ProgrammingError("a checked count may change by 1 with one unit: COUNT(DISTINCT unit)")


def plain_array(values: ArrayLike) -> NDArray[np.generic]:
    """Copy an array-like of numbers or booleans into a new array."""
    array = np.array(values)
    if array.dtype.kind not in "biuf":
        raise ValueError("expected an array of numbers")
    return array


class CheckedCounts(_Stream):
    """Answers counts by guesses; see `dpsql.kernel.mechanisms.GuessAndCheck`."""

    def __init__(self, session: _Session, tolerance: Fraction, epsilon: Fraction, misses: int) -> None:
        self._checker = GuessAndCheck(tolerance, epsilon, misses)
        super().__init__(session, "checked", self._checker)

    def count(self, text: str, guess: Number, parameters: Parameters = None) -> Checked:
        """Answer one count: the guess if it is good enough, else a fresh noisy count.

        The guess may depend on public data and on earlier answers, on nothing else.
        """
        value = exact(guess)
        return self._answer(text, parameters, lambda run: run.check(self._checker, value))


class MedianCounts(_Stream):
    """Answers counts by the median of hypotheses; see `dpsql.kernel.mechanisms.MedianOracle`."""

    def __init__(
        self,
        session: _Session,
        hypotheses: NDArray[np.generic],
        tolerance: Fraction,
        epsilon: Fraction,
        misses: int | None = None,
    ) -> None:
        self._oracle = MedianOracle(hypotheses, tolerance, epsilon, misses)
        super().__init__(session, "median oracle", self._oracle.checker)

    @property
    def exhausted(self) -> bool:
        """Whether the misses are used up, or no hypothesis is left: then no further count is answered."""
        return self._oracle.exhausted

    def count(self, text: str, cells: ArrayLike, parameters: Parameters = None) -> Checked:
        """Answer one count; its guess is the median of the hypotheses' counts in these cells."""
        mask = self._oracle.mask(plain_array(cells))
        return self._answer(text, parameters, lambda run: run.ask(self._oracle, mask))
