"""Runs a batch: every statement is parsed, analysed and priced before the first one runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsql.cli import narrate
from dpsql.cli.exits import ExitCode, exit_code
from dpsql.cli.output import ONE_RESULT, UnwritableError
from dpsql.errors import BudgetExceeded, Error
from dpsql.privacy import Charge
from dpsql.render.figures import charged, left
from dpsql.render.footer import footer
from dpsql.render.grid import Style
from dpsql.render.readable import price

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from dpsql.cli.output import Output
    from dpsql.cli.sources import Piece
    from dpsql.session import Prepared, Session, StatementResult

__all__ = ["Batch", "write_result"]


@dataclass(frozen=True, slots=True)
class _Priced:
    piece: Piece
    prepared: Prepared

    @property
    def setting(self) -> bool:
        """Whether the statement is a SET, on which later prices depend."""
        from dpsql.language import Set

        return isinstance(self.prepared.statement, Set)


@dataclass(slots=True)
class Batch:
    """Prices statements together, then runs them one after the other.

    Attributes
    ----------
    session
        Whose budget pays.
    output
        Where the answers go.
    partial
        Run what fits when the whole does not.
    go_on
        Go on after a statement that failed (`--on-error continue`).
    """

    session: Session
    output: Output
    partial: bool = False
    go_on: bool = False
    _code: ExitCode = ExitCode.OK

    def run(self, pieces: Sequence[Piece], *, dry: bool = False) -> ExitCode:
        """Price all, then run all (or only show the prices); return the first failure's exit code."""
        self._code = ExitCode.OK
        try:
            priced = self._price(pieces)
            if priced is None:
                return self._code
            fits = self._fits(priced, quiet=dry)
            if dry:
                self._show(priced)
                return self._code if fits else ExitCode.BUDGET_EXCEEDED
            if not fits and not self.partial:
                return ExitCode.BUDGET_EXCEEDED
            self.output.open()
            self._run(priced)
        except KeyboardInterrupt:
            # Cancelling takes 10 ms; a second Ctrl-C must not interrupt it.
            self.session.cancel()
            narrate.interrupted()
            return ExitCode.INTERRUPTED
        return self._code

    # -- before

    def _price(self, pieces: Sequence[Piece]) -> list[_Priced] | None:
        """Prepare every statement; None when one is wrong and the batch is to stop."""
        before = self.session.defaults
        try:
            priced = self._prepare(pieces)
        finally:
            # A SET of the batch applies only from the moment when it runs.
            self.session.defaults = before
        if priced is not None and self.output.format in ONE_RESULT:
            answers = sum(not one.setting for one in priced)
            if answers > 1:
                raise UnwritableError(
                    f"{self.output.format} holds one result, and there are {answers} statements"
                )
        return priced

    def _prepare(self, pieces: Sequence[Piece]) -> list[_Priced] | None:
        priced = []
        for piece in pieces:
            try:
                one = _Priced(piece, self.session.prepare(piece.text))
                self._check_cap(one.prepared.price)
                if one.setting:
                    # Later prices depend on it, so it is applied for pricing too. It costs nothing.
                    self.session.execute(one.prepared)
            except Error as problem:
                self._failed(problem, piece)
                if not self.go_on and not (self.partial and isinstance(problem, BudgetExceeded)):
                    if len(pieces) > 1:
                        narrate.note("nothing was run")
                    return None
            else:
                priced.append(one)
        return priced

    def _check_cap(self, asked: Charge) -> None:
        """Raise the error that the ledger would raise for this statement, before any statement runs."""
        cap = self.session.policy.budget.max_epsilon_per_query
        if cap is not None and asked.epsilon > cap:
            raise BudgetExceeded(
                f"the statement asks for {price(asked)}, but the policy allows one epsilon {left(cap)}",
                (asked.epsilon, asked.delta),
                (cap, self.session.budget().remaining.delta),
                "query",
            )

    def _fits(self, priced: Sequence[_Priced], *, quiet: bool) -> bool:
        total = _sum(priced)
        remaining = self.session.budget().remaining
        if total.fits(remaining):
            return True
        if not self.partial or quiet:
            many = len(priced) > 1
            which = f"the {len(priced)} statements together ask" if many else "the statement asks"
            text = f"{which} for {price(total)}, but only {_left(remaining)} is left"
            if not quiet:
                text += "; nothing was run"
                text += "\nHint: --partial runs what fits, --dry-run shows each price" if many else ""
            narrate.error(text)
        return False

    def _show(self, priced: Sequence[_Priced]) -> None:
        import pyarrow as pa

        prices = [one.prepared.price for one in priced]
        people = self.output.for_people
        table = pa.table(
            {
                "statement": pa.array(range(1, len(priced) + 1), pa.int64()),
                "place": pa.array([one.piece.where for one in priced], pa.string()),
                "epsilon": [_shown(one.epsilon, people=people) for one in prices],
                "delta": [_shown(one.delta, people=people) for one in prices],
                "text": pa.array([" ".join(one.piece.text.split()) for one in priced], pa.string()),
            }
        )
        self.output.write(table, None)
        remaining = self.session.budget().remaining
        narrate.note(f"together {price(_sum(priced))}; {_left(remaining)} is left; nothing was run")

    # -- running

    def _run(self, priced: Sequence[_Priced]) -> None:
        many = len(priced) > 1
        for i, one in enumerate(priced, 1):
            if many:
                cost = f": {price(one.prepared.price)}" if one.prepared.private else ""
                narrate.note(f"statement {i} of {len(priced)} ({one.piece.where}){cost}")
            if self.partial and not self._affordable(one):
                continue
            try:
                answer = self.session.execute(one.prepared)
            except Error as problem:
                self._failed(problem, one.piece)
                if self.go_on or (self.partial and isinstance(problem, BudgetExceeded)):
                    continue
                if i < len(priced):
                    narrate.note(f"{len(priced) - i} statements were not run")
                break
            write_result(self.session, self.output, answer)
        if any(one.prepared.private for one in priced):
            budget = self.session.budget()
            narrate.note(f"epsilon {left(budget.remaining.epsilon)} of {left(budget.total.epsilon)} left")

    def _affordable(self, one: _Priced) -> bool:
        remaining = self.session.budget().remaining
        if one.prepared.price.fits(remaining):
            return True
        narrate.note(f"left out: {price(one.prepared.price)} asked, {_left(remaining)} left")
        self._code = self._code or ExitCode.BUDGET_EXCEEDED
        return False

    def _failed(self, problem: Error, piece: Piece) -> None:
        narrate.error(problem, where=piece.where if piece.origin != "-c" else "", line=piece.line)
        self._code = self._code or exit_code(problem)


def write_result(session: Session, output: Output, answer: StatementResult) -> None:
    """Write a result; on stderr its warnings, and its price if the format does not show it."""
    release, total = answer.release, session.budget().total
    output.write(answer.table, release, total)
    if release is None:
        return
    for sentence in release.warnings:
        narrate.warning(sentence)
    if not output.for_people:
        narrate.note(footer(release, total, Style()))


def _shown(amount: Fraction, *, people: bool) -> str | float:
    return charged(amount) if people else float(charged(amount))


def _sum(priced: Sequence[_Priced]) -> Charge:
    return sum((one.prepared.price for one in priced), Charge())


def _left(remaining: Charge) -> str:
    text = f"epsilon {left(remaining.epsilon)}"
    return text + (f", delta {left(remaining.delta)}" if remaining.delta else "")
