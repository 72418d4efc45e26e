"""A batch: every statement is parsed, analysed and priced before the first one runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsql.charge import Charge
from dpsql.cli import narrate
from dpsql.cli.exits import ExitCode, exit_code
from dpsql.cli.output import ONE_RESULT, UnwritableError
from dpsql.cli.render_footer import footer
from dpsql.cli.render_grid import Style
from dpsql.dbapi.figures import charged, left
from dpsql.dbapi.readable import price
from dpsql.errors import BudgetExceeded, Error

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from dpsql.cli.output import Output
    from dpsql.cli.sources import Piece
    from dpsql.session import Answer, Prepared, Session

__all__ = ["Batch", "is_setting"]

_SETTING = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*SET\b", re.IGNORECASE | re.DOTALL)


def is_setting(text: str) -> bool:
    r"""Whether a statement sets a default of the connection, which later prices depend on.

    >>> is_setting("-- half\n set dp_epsilon = 0.5"), is_setting("SELECT 1")
    (True, False)
    """
    return _SETTING.match(text) is not None


@dataclass(frozen=True, slots=True)
class _Priced:
    piece: Piece
    prepared: Prepared


@dataclass(slots=True)
class Batch:
    """Runs statements one after the other.

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
            # A second Ctrl-C must not cut the cancelling short, nor does it need to: it takes 10 ms.
            self.session.cancel()
            narrate.note("interrupted; what was charged stays charged")
            return ExitCode.INTERRUPTED
        return self._code

    # -- before

    def _price(self, pieces: Sequence[Piece]) -> list[_Priced] | None:
        """Prepare every statement; None when one is wrong and the batch is to stop."""
        priced = []
        for piece in pieces:
            try:
                prepared = self.session.prepare(piece.text)
                if is_setting(piece.text):
                    # Now, since the prices of the statements behind it depend on it. It costs nothing.
                    self.session.execute(prepared)
            except Error as problem:
                self._failed(problem, piece)
                if not self.go_on and not (self.partial and isinstance(problem, BudgetExceeded)):
                    if len(pieces) > 1:
                        narrate.note("nothing was run")
                    return None
                continue
            if not is_setting(piece.text):
                priced.append(_Priced(piece, prepared))
        if self.output.format in ONE_RESULT and len(priced) > 1:
            raise UnwritableError(
                f"{self.output.format} holds one result, and there are {len(priced)} statements"
            )
        return priced

    def _fits(self, priced: Sequence[_Priced], *, quiet: bool) -> bool:
        total = _sum(priced)
        remaining = self.session.budget().remaining
        if total.fits(remaining):
            return True
        if not self.partial or quiet:
            many = len(priced) > 1
            which = f"the {len(priced)} statements together ask" if many else "the statement asks"
            narrate.error(
                f"{which} for {price(total)}, but only {_left(remaining)} is left; "
                + ("" if quiet else "nothing was run")
                + (
                    "\nHint: --partial runs what fits, --dry-run shows each price"
                    if many and not quiet
                    else ""
                )
            )
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
            self._tell(answer)
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

    def _tell(self, answer: Answer) -> None:
        release, total = answer.release, self.session.budget().total
        self.output.write(answer.table, release, total)
        if release is None:
            return
        for sentence in release.warnings:
            narrate.warning(sentence)
        if not self.output.for_people:
            narrate.note(footer(release, total, Style()))

    def _failed(self, problem: Error, piece: Piece) -> None:
        narrate.error(problem, where=piece.where if piece.origin != "-c" else "", line=piece.line)
        self._code = self._code or exit_code(problem)


def _shown(amount: Fraction, *, people: bool) -> str | float:
    return charged(amount) if people else float(charged(amount))


def _sum(priced: Sequence[_Priced]) -> Charge:
    return sum((one.prepared.price for one in priced), Charge())


def _left(remaining: Charge) -> str:
    text = f"epsilon {left(remaining.epsilon)}"
    return text + (f", delta {left(remaining.delta)}" if remaining.delta else "")
