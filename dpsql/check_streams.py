"""The streams of checks of an analyst: opened, asked, refilled and closed by SQL.

A stream lasts until it is closed: it is in the ledger, and any process of its analyst may go on with it. Its
whole epsilon is charged when it is opened. What was not used is given back when it is closed.

The noise of its threshold is computed of the key beside the ledger (`kernel.threshold_noise`). Without that
key nothing more is checked: the stream can be closed, or refilled with another threshold.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from dpsql.composition.asked_checks import AskedCheck
from dpsql.composition.boards import (
    AskedSubmission,
    find_best,
    list_options,
    misses_of,
    opened_scores,
    prepare_again,
)
from dpsql.composition.checked_numbers import check_tolerance, most_checked, plan_stream
from dpsql.composition.explained_streams import explain_command
from dpsql.composition.model_numbers import count_models, weights_of
from dpsql.composition.prepared import PreparedCheck, PreparedCommand
from dpsql.composition.release_words import round_up
from dpsql.composition.show_describe import show_streams
from dpsql.engines import running_statement
from dpsql.errors import OperationalError, PriceNotAgreed, ProgrammingError
from dpsql.kernel.charged_work import ChargedCheck, CheckResult
from dpsql.kernel.ledger.lasting_streams import (
    BegunCheck,
    CheckRequest,
    StoredStream,
    StreamBusy,
    StreamMoved,
    StreamTerms,
)
from dpsql.kernel.loss import Charge
from dpsql.kernel.threshold_noise import ThresholdKey
from dpsql.language import OpenBoard, OpenChecks, StatementText, StreamCommand, Submission
from dpsql.ledger.key_file import KeyFile
from dpsql.release import reuse_key
from dpsql.release.check_answers import CheckAnswer, check_key
from dpsql.release.moved_units import has_hashes
from dpsql.release.reuse import CHANGING
from dpsql.session_api import StatementResult

if TYPE_CHECKING:
    from dpsql.composition.planner import Planner
    from dpsql.database import Database
    from dpsql.estimates import ModelWeights
    from dpsql.kernel.facts import Facts
    from dpsql.kernel.mechanisms import CheckStream, CheckStreamPlan
    from dpsql.ledger import Ledger

_T = TypeVar("_T")

_PAUSE = 0.02
"""Seconds between two looks whether another check of a stream has ended."""


class _Session(Protocol):
    """The part of a session that streams use."""

    analyst: str
    ledger: Ledger
    database: Database

    @property
    def planner(self) -> Planner:
        """The planner of the session."""

    @property
    def facts(self) -> Facts:
        """The facts that the owner declares of the data, as the kernel has them."""


def opened_as(stream: StoredStream) -> OpenChecks:
    """Return the statement that opened a stream, as it was read."""
    known, terms = stream.terms.options, stream.terms
    tolerance, rows = (None if (text := known.get(name)) is None else Fraction(text) for name in _AMOUNTS)
    plain = OpenChecks(
        StatementText(terms.statement),
        terms.name,
        terms.charge.epsilon,
        terms.misses,
        Fraction(known["answers"]),
        known["sides"],
        tolerance,
        known["at_once"],
        tuple(known.get("models", ())),
        tuple(map(Fraction, known.get("scales", ()))),
        rows,
    )
    return opened_scores(plain, known)


_AMOUNTS = ("tolerance", "rows")


def _terms_of(opened: OpenChecks, plan: CheckStreamPlan) -> StreamTerms:
    tolerance = opened.tolerance
    options: dict[str, Any] = {
        "kind": "checks",
        "answers": str(opened.answers),
        "sides": opened.sides,
        "tolerance": None if tolerance is None else str(tolerance),
        "at_once": opened.at_once,
        **({} if opened.rows is None else {"rows": str(opened.rows)}),
        **list_options(opened),
    }
    if opened.models:
        options |= {"models": [*opened.models], "scales": [*map(str, opened.scales)]}
    each = plan.check_epsilon + plan.answer_epsilon
    return StreamTerms(opened.name, opened.misses, plan.threshold_epsilon, each, opened.source.text, options)


def _plan_of(stream: StoredStream) -> CheckStreamPlan:
    terms = stream.terms
    return plan_stream(opened_as(stream), terms.first / terms.charge.epsilon)


class CheckStreams:
    """The streams of checks of one analyst, by name."""

    def __init__(self, session: _Session) -> None:
        self._session = session
        self._ledger = session.ledger.streams

    def open(
        self, opened: OpenChecks, most: Charge | None = None, *, refill: bool = False
    ) -> StatementResult:
        """Open a stream, which charges its epsilon; or settle the one of its name and open it again.

        With `most`, refuse to charge more than that.
        """
        plan = plan_stream(opened)
        if most is not None and not plan.loss.charge.fits(most):
            raise PriceNotAgreed(
                f"the stream costs epsilon {round_up(opened.epsilon)} now, and less was agreed",
                hint="ask for its price again",
            )
        key = self._read_key(opened.name, make=True)
        found = self._wait(
            lambda: self._ledger.open(
                self._session.analyst,
                _terms_of(opened, plan),
                lambda *place: key.seal(plan, *place),
                self._session.facts,
                refill=refill,
            )
        )
        return StatementResult(show_streams([found]))

    def command(self, statement: StreamCommand, most: Charge | None = None) -> StatementResult:
        """Close a stream, which settles it; or close it and open another one of its kind."""
        stream = self._find(statement.name)
        if statement.what == "refill":
            before = opened_as(stream)
            misses = before.misses if statement.misses is None else statement.misses
            again = replace(before, misses=misses, source=statement.source)
            if isinstance(again, OpenBoard):
                again = replace(again, start=find_best(self._session.database, stream).value)
            if most is not None and not Charge(again.epsilon).fits(most):
                raise OperationalError(
                    "another stream was opened under this name meanwhile: nothing was charged"
                )
            return self.open(again, refill=True)
        if stream.state != "open":
            raise ProgrammingError(f"the stream {statement.name} is closed")
        return StatementResult(show_streams([self._wait(lambda: self._ledger.close(stream.entry))]))

    def explain(self, prepared: PreparedCommand, *, json: bool) -> pa.Table:
        """Return what a statement of a stream costs and means; nothing is read or charged."""
        command = prepared.command
        name = command.check.name if isinstance(command, PreparedCheck) else getattr(command, "name", "")
        stream = self._ledger.find(self._session.analyst, name)
        opened, guess = None if stream is None else opened_as(stream), None
        if isinstance(command, PreparedCheck) and command.check.expected.models and stream and opened:
            models = count_models(command, opened)
            if not command.keys:
                guess = self._weights_of(stream, opened).find_median(models.values(()))
        return explain_command(prepared, opened, guess, json=json)

    def show(self) -> pa.Table:
        """Return the streams of the analyst."""
        return show_streams(self._ledger.list(self._session.analyst))

    def check(self, prepared: PreparedCheck) -> StatementResult:
        """Check the numbers of a statement, in order: each that is off is answered, and uses a miss.

        What follows from earlier answers is found anew if another check has ended meanwhile.
        """
        while True:
            try:
                return self._check(prepared)
            except StreamMoved:
                prepared = prepare_again(self._session.planner, prepared)

    def _check(self, prepared: PreparedCheck) -> StatementResult:
        stream = self._find(prepared.check.name)
        if stream.state != "open":
            state = f"the stream {stream.terms.name} is {stream.state}"
            raise ProgrammingError(f"{state}: OPEN {stream.terms.options['kind'].upper()} opens it again")
        opened = opened_as(stream)
        self._check_side(prepared, opened)
        models = count_models(prepared, opened) if prepared.check.expected.models else None
        check_tolerance(prepared, opened.tolerance)
        counting = prepared.counting
        if not counting.current():
            raise OperationalError(CHANGING)
        last, best = self._find_last(stream, prepared, opened), None
        if isinstance(opened, OpenBoard) is not isinstance(prepared.check, Submission):
            raise OperationalError("another stream was opened under this name meanwhile: nothing is checked")
        if isinstance(opened, OpenBoard):
            best = find_best(self._session.database, stream)
            if best.expectation != prepared.check.expected:
                raise StreamMoved("the board has another best")
        guesses = None if models is None else models.digest(self._weights_of(stream, opened))
        key = self._key_of(prepared, opened, last, guesses)
        if not prepared.check.query.options.fresh and (known := self._find_known(stream, key)) is not None:
            return known
        if not stream.left:
            raise OperationalError(
                f"all {opened.misses} {misses_of(opened)} of {opened.name} are used up: "
                f"REFILL STREAM {opened.name} charges {round_up(opened.epsilon)} again"
            )
        self._resume(stream)
        self._session.database.vet(counting.engines, counting.plan.compiled.tables)
        most = max(min(most_checked(prepared), opened.at_once), 1)
        text = prepared.check.source.text
        after = stream.asked if best is not None or prepared.check.expected.last else None
        request = CheckRequest(text, key or "", prepared.check.series, most, after)
        facts = counting.engines.facts

        def begin() -> BegunCheck | StatementResult:
            # While it waited, another process may have asked the same.
            known = None if prepared.check.query.options.fresh else self._find_known(stream, key)
            return known or self._ledger.begin(stream.entry, request, facts)

        begun = self._wait(begin)
        if isinstance(begun, StatementResult):
            return begun
        work = ChargedCheck(self._session.ledger, begun, running_statement)

        def ask() -> CheckResult:
            checks = self._resume(begun.stream)  # another check may have used misses while this one waited
            weights = self._weights_of(begun.stream, opened) if opened.models else None
            given = self._session.planner, prepared, opened, last, begun.most, models, weights
            asked = AskedCheck(*given) if best is None else AskedSubmission(best, *given)
            return asked.ask(checks, work.confirm)

        found = CheckAnswer.read(work.run(ask))
        return StatementResult(found.table, None, found.notes)

    def _find(self, name: str) -> StoredStream:
        found = self._ledger.find(self._session.analyst, name)
        if found is None:
            raise ProgrammingError(
                f"you have no stream {name[:60]}: OPEN CHECKS {name[:60]} OPTIONS (epsilon = 1, misses = 8)"
            )
        return found

    def _wait(self, work: Callable[[], _T]) -> _T:
        """Do something with a stream when its running check has ended: connections take turns."""
        while True:
            try:
                return work()
            except StreamBusy:
                with running_statement() as running:
                    running.check()
                time.sleep(_PAUSE)

    # -- the key

    def _read_key(self, name: str, *, make: bool = False) -> ThresholdKey:
        """Return the key of thresholds; make one where nothing rests on another that is gone."""
        ledger = self._session.ledger
        file = KeyFile(self._session.database.policy.budget.ledger)
        if make and not file.exists():
            if has_hashes(ledger) or self._ledger.has_other_open(self._session.analyst, name):
                raise OperationalError(
                    f"{file.path.name} is missing, on which other streams or parts rest: bring it back, or "
                    "the owner runs `dpsql budget --close-stream` and `--moved`"
                )
            file.make(ledger.draw_key())
        try:
            return ThresholdKey(ledger.recall("ledger") or "", bytes.fromhex(file.read()))
        except (OSError, ValueError):
            raise OperationalError(f"{file.path.name} is missing or unreadable: bring it back") from None

    def _resume(self, stream: StoredStream) -> CheckStream:
        """Return a stream with its own threshold; refuse to go on without it."""
        try:
            found = self._read_key(stream.terms.name).resume(_plan_of(stream), stream)
        except OperationalError as error:
            raise _without_key(stream, str(error)) from None
        if found is None:
            raise _without_key(stream, "the key is another one")
        return found

    # -- what was asked before

    def _find_last(
        self, stream: StoredStream, prepared: PreparedCheck, opened: OpenChecks
    ) -> pa.Table | None:
        """Return the keys and the last values of groups; refuse LAST where it is never known."""
        found = self._ledger.find_last(stream, prepared.check.series)
        last = None if found is None else CheckAnswer.read(found.payload).last
        if last is not None and last.num_columns != len(prepared.keys) + 1:
            raise ProgrammingError("what LAST stands for has other keys: PER takes another name")
        if prepared.check.expected.last and not opened.answers:
            raise ProgrammingError(f"the stream {opened.name} answers nothing, so there is no LAST")
        return last

    def _weights_of(self, stream: StoredStream, opened: OpenChecks) -> ModelWeights:
        """Return the weights of a stream's models, as its latest answer has them."""
        found = self._ledger.find_last(stream)
        return weights_of(opened, None if found is None else CheckAnswer.read(found.payload).models)

    def _key_of(
        self, prepared: PreparedCheck, opened: OpenChecks, last: pa.Table | None, models: str | None
    ) -> str | None:
        """Return what equal checks of equal data have in common; None: a change of the data may not show."""
        counting, check = prepared.counting, prepared.check
        policy, versions = counting.policy, counting.engines.versions
        if not versions.tell(counting.reads):
            return None
        wanted, expected = check.expected, check.expected
        asked = [
            *(check.kind, check.column, prepared.keys, expected.last, *([models] if models else [])),
            *(
                str(each)
                for each in (wanted.low, wanted.high, wanted.tolerance, wanted.share, opened.tolerance)
            ),
        ]
        counted = reuse_key(counting.plan, policy, versions, Charge(Fraction(1)))
        return check_key(counted, asked, prepared.table, last if wanted.last else None)

    def _find_known(self, stream: StoredStream, key: str | None) -> StatementResult | None:
        """Return the stored answer of an equal check of this round."""
        found = None if key is None else self._ledger.find_answer(stream, key)
        if found is None:
            return None
        answer = CheckAnswer.read(found.payload)
        said = f"the stored answer of {found.when:%Y-%m-%d %H:%M} UTC, to the same check of the same data"
        return StatementResult(answer.table, None, (*answer.notes, said))

    def _check_side(self, prepared: PreparedCheck, opened: OpenChecks) -> None:
        expected, sides = prepared.check.expected, opened.sides
        open_side = {"AT_MOST": expected.low, "AT_LEAST": expected.high}.get(sides)
        if sides != "BOTH" and (
            open_side is not None
            or expected.table
            or expected.last
            or expected.models
            or prepared.check.kind != "sum"
        ):
            words = sides.replace("_", " ")
            raise ProgrammingError(
                f"the stream {opened.name} takes counts with EXPECT .. {words} alone: "
                "one that is opened without the option sides takes all checks"
            )


def _without_key(stream: StoredStream, why: str) -> OperationalError:
    name = stream.terms.name
    return OperationalError(
        f"nothing more is checked under the threshold of {name}: {why}\nHint: bring the ledger's key back, "
        f"or CLOSE STREAM {name}, which charges what was used"
    )
