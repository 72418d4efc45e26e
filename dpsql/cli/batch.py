"""Runs a batch: every statement is parsed, analysed and priced before the first one runs.

`--error` and its kin give all statements one error.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import click
from click import Abort, ClickException

from dpsql.cli import narrate
from dpsql.cli.narrate import ExitCode, OutputFailedError, UnwritableError, exit_code, progress
from dpsql.errors import BudgetExceeded, Error, QueryRefused
from dpsql.kernel.loss import Charge, exact
from dpsql.lazy_dataclass import dataclass
from dpsql.render.figures import show_left, show_spent
from dpsql.render.grid import Style
from dpsql.render.readable import amounts, footer, price

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpsql.cli.options import Piece
    from dpsql.cli.output import AnswerOutput
    from dpsql.policy import Policy
    from dpsql.session_api import AnalystSession, PricedStatement, StatementResult


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

    def error_in_counts(self, policy: Policy | None) -> Fraction | None:
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


_Priced = list[tuple["Piece", "PricedStatement"]]
"""Statements with their places, prepared and priced."""


@dataclass(slots=True)
class Batch:
    """Prices statements together, then runs them one after the other."""

    session: AnalystSession
    """Whose budget pays."""
    output: AnswerOutput
    """Where the answers go."""
    partial: bool = False
    """Run what fits when the whole does not."""
    go_on: bool = False
    """Go on after a statement that failed (`--on-error continue`)."""
    target: ErrorTarget | None = None
    """The error of statements that name no price, or the epsilon that all cost together."""
    _error: Fraction | None = None
    """The error, once it is known."""
    _code: ExitCode = ExitCode.OK

    def run(self, pieces: Sequence[Piece], *, dry: bool = False) -> ExitCode:
        """Price all, then run all (or only show the prices); return the first failure's exit code."""
        self._code = ExitCode.OK
        try:
            priced = self._price(pieces) if self.target is None else self._price_at(self.target, pieces)
            if priced is None:
                return self._code
            fits = self._fits(priced, quiet=dry)
            if dry:
                self._show(priced)
                return self._code if fits else ExitCode.BUDGET_EXCEEDED
            if not fits and not self.partial:
                return ExitCode.BUDGET_EXCEEDED
            self.output.expect([i for i, (_, prepared) in enumerate(priced, 1) if not prepared.setting])
            self._set_error()  # a statement that is planned again needs it too
            self._run(priced)
        except KeyboardInterrupt as problem:
            # Cancelling takes 10 ms; a second Ctrl-C must not interrupt it.
            self.session.cancel()
            return narrate.failure(problem)
        finally:
            self.output.end()
        return self._code

    # -- before

    def _price(self, pieces: Sequence[Piece]) -> _Priced | None:
        """Prepare every statement; None when one is wrong and the batch is to stop."""
        priced: _Priced = []
        with self.session.pricing():  # a SET of the batch applies only from the moment when it runs
            self._set_error()
            for piece in pieces:
                try:
                    prepared = self._prepare(piece)
                except Error as problem:
                    self._report_failure(problem, piece)
                    if not self._goes_on(problem):
                        if len(pieces) > 1:
                            narrate.note("nothing was run")
                        return None
                else:
                    priced.append((piece, prepared))
        return priced

    def _price_at(self, target: ErrorTarget, pieces: Sequence[Piece]) -> _Priced | None:
        """Prepare every statement with the error of the target, which is found if a total is given."""
        self._error = target.error_in_counts(self.session.policy)
        if target.total is None:
            return self._price(pieces)
        self._error = LARGEST
        priced = self._price(pieces)
        if priced is None:
            return None
        pieces = [piece for piece, _ in priced]  # no other will be accepted with a smaller error
        fixed = sum((prepared.full_price.epsilon for _, prepared in priced), Fraction(0))
        if fixed > target.total:
            narrate.error(
                f"statements whose epsilon does not follow from an error ask for {show_spent(fixed)}, "
                f"which is more than the {show_spent(target.total)} of --epsilon-total; nothing was run"
            )
            self._code = ExitCode.BUDGET_EXCEEDED
            return None
        self._error = least_error(partial(self._cost, pieces), fixed, target.total)
        if self._error == LARGEST:
            narrate.note("no statement's epsilon follows from --epsilon-total")
        else:
            narrate.note(
                f"with --epsilon-total {show_spent(target.total)}, statements that name no price have an "
                f"error of at most {write_decimal(self._error)}"
            )
        return self._price(pieces)

    def _cost(self, pieces: Sequence[Piece], error: Fraction) -> Fraction | None:
        """Return what the statements cost at an error, stored answers too; None if one cannot have it."""
        self._error, total = error, Fraction(0)
        with self.session.pricing():
            self._set_error()
            for piece in pieces:
                try:
                    prepared = self.session.prepare(piece.text)
                except QueryRefused:
                    return None
                if prepared.setting:
                    self.session.execute(prepared)
                total += prepared.full_price.epsilon
        return total

    def _set_error(self) -> None:
        """Give the error to the statements that name no price."""
        if self._error is not None:
            self.session.execute(self.session.prepare(f"SET dp_error = {write_decimal(self._error)}"))

    def _prepare(self, piece: Piece) -> PricedStatement:
        prepared: PricedStatement = self.session.prepare(piece.text)
        self._check_cap(prepared.price)
        if prepared.setting:
            # Later prices depend on it, so it is applied for pricing too. It costs nothing.
            self.session.execute(prepared)
        return prepared

    def _goes_on(self, problem: Error) -> bool:
        """Whether the statements after one that failed are run."""
        return self.go_on or (self.partial and isinstance(problem, BudgetExceeded))

    def _check_cap(self, asked: Charge) -> None:
        """Raise the error that the ledger would raise for this statement, before any statement runs."""
        cap = self.session.max_epsilon_per_query
        if cap is not None and asked.epsilon > cap:
            raise BudgetExceeded(
                f"the statement asks for {price(asked)}, but the policy allows one epsilon {show_left(cap)}",
                (asked.epsilon, asked.delta),
                (cap, self.session.budget().remaining.delta),
                "query",
            )

    def _fits(self, priced: _Priced, *, quiet: bool) -> bool:
        total = _sum_prices(priced)
        budget = self.session.budget()
        remaining = budget.remaining
        if total.fits(remaining) or budget.by_parts:  # by parts, the ledger alone knows what is left
            return True
        if not self.partial or quiet:
            many = len(priced) > 1
            which = f"the {len(priced)} statements together ask" if many else "the statement asks"
            text = f"{which} for {price(total)}, but only {amounts(remaining)} is left"
            least = min(budget.scopes, key=lambda each: each.remaining.epsilon, default=None)
            if least is not None and least.renews:
                text += f" until the budget starts anew on {least.renews} (UTC)"
            if not quiet:
                text += "; nothing was run"
                text += "\nHint: --partial runs what fits, --dry-run shows each price" if many else ""
            narrate.error(text)
        return False

    def _show(self, priced: _Priced) -> None:
        import pyarrow as pa

        prices = [prepared.price for _, prepared in priced]
        shown: Callable[[Fraction], str | float] = (
            show_spent if self.output.for_people else lambda amount: float(show_spent(amount))
        )
        table = pa.table(
            {
                "statement": pa.array(range(1, len(priced) + 1), pa.int64()),
                "place": pa.array([piece.where for piece, _ in priced], pa.string()),
                "epsilon": [shown(one.epsilon) for one in prices],
                "delta": [shown(one.delta) for one in prices],
                "text": pa.array([" ".join(piece.text.split()) for piece, _ in priced], pa.string()),
            }
        )
        self.output.write(table, None)
        for number, (_, prepared) in enumerate(priced, 1):
            for text in getattr(prepared, "warned", ()):  # a server's statements come without
                narrate.warning(f"statement {number}: {text}")
        remaining = self.session.budget().remaining
        narrate.note(f"together {price(_sum_prices(priced))}; {amounts(remaining)} is left; nothing was run")

    # -- running

    def _run(self, priced: _Priced) -> None:
        with self.session.together([prepared for _, prepared in priced]):
            self._run_all(priced)
        if any(prepared.private for _, prepared in priced):
            budget = self.session.budget()
            left = f"{show_left(budget.remaining.epsilon)} of {show_left(budget.total.epsilon)} left"
            narrate.note(f"epsilon {left}{' in the fullest part' if budget.by_parts else ''}")

    def _run_all(self, priced: _Priced) -> None:
        for i, (piece, prepared) in enumerate(priced, 1):
            if len(priced) > 1:
                cost = f": {price(prepared.price)}" if prepared.private else ""
                narrate.note(f"statement {i} of {len(priced)} ({piece.where}){cost}")
            budget = self.session.budget() if self.partial else None
            if budget is not None and not (budget.by_parts or prepared.price.fits(budget.remaining)):
                remaining = budget.remaining
                narrate.note(f"left out: {price(prepared.price)} asked, {amounts(remaining)} left")
                self._code = self._code or ExitCode.BUDGET_EXCEEDED
                continue
            try:
                with progress("counting"):
                    answer = self.session.execute(prepared)
                write_result(self.session, self.output, answer, number=i)
            except Error as problem:
                self._report_failure(problem, piece)
                if self._goes_on(problem):
                    continue
                if i < len(priced):
                    narrate.note(f"{len(priced) - i} statements were not run")
                break

    def _report_failure(self, problem: Error, piece: Piece) -> None:
        narrate.error(problem, where=piece.where if piece.origin != "-c" else "", line=piece.line)
        self._code = self._code or exit_code(problem)


def write_result(
    session: AnalystSession, output: AnswerOutput, answer: StatementResult, *, number: int = 1
) -> None:
    """Write the result of the statement with this number; on stderr its warnings.

    If the format does not show the price, that goes to stderr too.
    """
    from dpsql.release import tell_opening

    release, total = answer.release, session.budget().total
    with tell_opening(release, passed=(OutputFailedError, UnwritableError, ClickException, Abort)):
        output.write(answer.table, release, total, number=number)
    for sentence in answer.notices:
        narrate.note(sentence)
    if release is None:
        return
    if release.assumed:
        narrate.note("assumed: " + ", ".join(map(str, release.assumed)))
    for sentence in release.warnings:
        narrate.warning(sentence)
    if not output.for_people:
        if release.line:
            narrate.note(release.line)
        narrate.note(footer(release, total, Style()))


def _sum_prices(priced: _Priced) -> Charge:
    return sum((prepared.price for _, prepared in priced), Charge())


def run_together(
    session: AnalystSession, output: AnswerOutput, pieces: Sequence[Piece], epsilon: Fraction, *, dry: bool
) -> ExitCode:
    """Price a report that is run once, say what is measured for it, then run it unless `dry`."""
    from dpsql.session import Session

    if not isinstance(session, Session):
        raise click.UsageError(
            "--together works where the policy is, not on a server\n"
            "Hint: CREATE REPORT and EXECUTE REPORT are statements"
        )
    if epsilon <= 0:
        raise click.UsageError("--epsilon takes a positive number")
    planned = session.reports.plan([piece.text for piece in pieces], epsilon)
    for text in planned.words():
        narrate.note(text)
    narrate.note(f"together {price(planned.price)}")
    if dry or not pieces:
        return ExitCode.OK
    with progress("measuring"):
        answers = session.reports.run(planned)
    output.expect([*range(1, len(answers) + 1)])
    for place, (piece, answer) in enumerate(zip(pieces, answers, strict=True), 1):
        narrate.note(f"statement {place} of {len(pieces)} ({piece.where})")
        write_result(session, output, answer, number=place)
    output.end()
    return ExitCode.OK
