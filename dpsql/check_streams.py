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
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa

from dpsql.composition.asked_checks import (
    AskedCheck,
    AskedQuestion,
    check_stream_parts,
    plan_opened,
    written_parts,
)
from dpsql.composition.boards import (
    AskedSubmission,
    find_best,
    prepare_again,
    refuse_without_board,
    series_of,
)
from dpsql.composition.checked_numbers import check_tolerance, most_checked
from dpsql.composition.explained_streams import explain_command, show_stream
from dpsql.composition.model_numbers import count_models, weights_of
from dpsql.composition.prepared import PreparedCheck, PreparedCommand, PreparedQuestion
from dpsql.composition.prepared_streams import opened_as, plan_stored, terms_of
from dpsql.composition.release_words import round_up
from dpsql.composition.show_describe import show_streams
from dpsql.engines import running_statement
from dpsql.errors import InterfaceError, OperationalError, PriceNotAgreed, ProgrammingError
from dpsql.kernel.charged_work import ChargedCheck, CheckResult
from dpsql.kernel.ledger.lasting_streams import (
    BegunCheck,
    CheckRequest,
    StoredStream,
    StreamBusy,
    StreamMoved,
)
from dpsql.kernel.loss import Charge
from dpsql.kernel.mechanisms import CheckStream, StableStream
from dpsql.kernel.threshold_noise import ThresholdKey
from dpsql.language import Check, OpenChecks, OpenStable, StreamCommand
from dpsql.language.board_statements import OpenBoard, Submission
from dpsql.ledger.key_file import KeyFile
from dpsql.release import reuse_key
from dpsql.release.check_answers import CheckAnswer, check_key
from dpsql.release.moved_units import has_hashes
from dpsql.release.reuse import CHANGING
from dpsql.session_api import StatementResult

if TYPE_CHECKING:
    from dpsql.composition.planned_count import PlannedCount
    from dpsql.composition.planner import Planner
    from dpsql.database import Database
    from dpsql.estimates import ModelWeights
    from dpsql.kernel.facts import Facts
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
        plan = plan_opened(opened)
        if most is not None and not plan.loss.charge.fits(most):
            raise PriceNotAgreed(
                f"the stream costs epsilon {round_up(opened.epsilon)} now, and less was agreed",
                hint="ask for its price again",
            )
        key, terms = self._read_key(opened.name, make=True), terms_of(opened, plan)
        parts = written_parts(opened, self._session.database.policy)
        terms = replace(terms, options={**terms.options, **parts})
        found = self._wait(
            lambda: self._ledger.open(
                self._session.analyst,
                terms,
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
            if most is not None and not plan_opened(again).loss.charge.fits(most):
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
        if isinstance(command, PreparedCheck):  # its board may have been opened since, or have another best
            command = prepare_again(self._session.planner, command)
            prepared = replace(prepared, command=command)
        name = getattr(command, "name", "")
        if isinstance(command, (PreparedCheck, PreparedQuestion)):
            name = command.check.name if isinstance(command, PreparedCheck) else command.ask.name
        stream = self._ledger.find(self._session.analyst, name)
        opened, guess = None if stream is None else opened_as(stream), None
        if isinstance(command, PreparedCheck) and command.check.expected.models and stream and opened:
            models = count_models(command, opened)
            if not command.keys:
                guess = self._weights_of(stream, opened).find_median(models.values(()))
        return explain_command(prepared, opened, guess, json=json)

    def show_one(self, name: str) -> pa.Table:
        """Return what became of a stream, and how it was opened."""
        found = self._find(name)
        opened = opened_as(found)
        if isinstance(opened, OpenBoard):
            opened = replace(opened, start=find_best(self._session.database, found).value)
        return show_stream(found, opened)

    def show(self) -> pa.Table:
        """Return the streams of the analyst."""
        return show_streams(self._ledger.list(self._session.analyst))

    def check(self, prepared: PreparedCheck) -> StatementResult:
        """Run a CHECK: compare its numbers in order, release each that is off, and count it as a miss.

        What follows from earlier answers is found anew if another check has ended meanwhile.
        """
        while True:
            try:
                return self._check(prepared)
            except StreamMoved:
                prepared = prepare_again(self._session.planner, prepared)

    def _check(self, prepared: PreparedCheck) -> StatementResult:
        stream = self._find(prepared.check.name, prepared.check)
        if stream.state != "open":
            state = f"the stream {stream.terms.name} is {stream.state}"
            raise ProgrammingError(f"{state}: OPEN {stream.terms.options['kind'].upper()} opens it again")
        opened = opened_as(stream)
        if isinstance(opened, OpenStable):
            raise ProgrammingError(f"the stream {opened.name} answers questions: ASK {opened.name} SELECT ..")
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
            if (best.expectation, series_of(stream)) != (prepared.check.expected, prepared.check.series):
                raise StreamMoved("the board has another best, or is another one")
        guesses = None if models is None else models.digest(self._weights_of(stream, opened))
        key = self._key_of(prepared, opened, last, guesses)
        most = max(min(most_checked(prepared), opened.at_once), 1)
        after = stream.asked if best is not None or prepared.check.expected.last or models else None
        text, series = prepared.check.source.text, prepared.check.series
        request = CheckRequest(text, key or "", series, most, after)

        def ask(stream: StoredStream, confirm: Callable[[], None], most: int) -> CheckResult:
            checks = self._resume(stream)  # another check may have used misses while this one waited
            assert isinstance(checks, CheckStream)  # noqa: S101  as it was opened
            # They may have changed meanwhile: then no check has the key of this one again.
            weights = self._weights_of(stream, opened) if opened.models else None
            given = self._session.planner, prepared, opened, last, most, models, weights
            asked = AskedCheck(*given) if best is None else AskedSubmission(best, *given)
            return asked.ask(checks, confirm)

        return self._ask_once(stream, counting, request, ask, fresh=bool(prepared.check.query.options.fresh))

    def ask(self, prepared: PreparedQuestion) -> StatementResult:
        """Answer a question without noise if no unit could change the answer; else it uses a miss."""
        stream, counting = self._find(prepared.ask.name), prepared.counting
        if stream.state != "open" or stream.terms.options["kind"] != "stable":
            raise ProgrammingError(f"the stream {stream.terms.name} is {stream.state}, or has no questions")
        if not counting.current():
            raise OperationalError(CHANGING)
        key = None
        if counting.engines.versions.tell(counting.reads):
            counted = reuse_key(
                counting.plan, counting.policy, counting.engines.versions, Charge(Fraction(1))
            )
            names = [output.name for output in counting.plan.outputs]
            key = check_key(counted, ["question", repr(prepared.question), names], None, None)

        def ask(stream: StoredStream, confirm: Callable[[], None], most: int) -> CheckResult:
            del most
            tests = self._resume(stream)
            assert isinstance(tests, StableStream)  # noqa: S101  as it was opened
            return AskedQuestion(prepared, opened_as(stream)).ask(tests, confirm)

        request = CheckRequest(prepared.ask.source.text, key or "", "", 1)
        return self._ask_once(stream, counting, request, ask, fresh=bool(prepared.ask.query.options.fresh))

    def _ask_once(
        self,
        stream: StoredStream,
        counting: PlannedCount,
        request: CheckRequest,
        ask: Callable[[StoredStream, Callable[[], None], int], CheckResult],
        *,
        fresh: bool,
    ) -> StatementResult:
        """Return the stored answer of an equal request; else write it down, ask, and store the answer.

        `ask` gets the stream as it is then, what confirms that the work may read, and the misses it may use.
        """
        if counting.engines.versions is not self._session.database.versions:  # of other uploads
            raise InterfaceError("a statement runs on the database on which it was prepared")
        key = request.key or None
        check_stream_parts(stream.terms.options, opened_as(stream), counting)
        if not fresh and (known := self._find_known(stream, key)) is not None:
            return known
        self._resume(stream)
        self._session.database.vet(counting.engines, counting.plan.compiled.tables)
        facts = counting.engines.facts

        def begin() -> BegunCheck | StatementResult:
            # While it waited, another process may have asked the same.
            known = None if fresh else self._find_known(stream, key)
            # Misses that a check which runs could use are not used up before it has ended.
            return known or self._ledger.begin(stream.entry, request, facts)

        begun = self._wait(begin)
        if isinstance(begun, StatementResult):
            return begun
        work = ChargedCheck(self._session.ledger, begun, running_statement)
        found = CheckAnswer.read(work.run(lambda: ask(begun.stream, work.confirm, begun.most)))
        return StatementResult(found.table, None, found.notes)

    def _find(self, name: str, check: Check | None = None) -> StoredStream:
        found = self._ledger.find(self._session.analyst, name)
        if found is None and isinstance(check, Submission):
            raise refuse_without_board(name)
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

    def _resume(self, stream: StoredStream) -> CheckStream | StableStream:
        """Return a stream with its own threshold; refuse to go on without it."""
        try:
            found = self._read_key(stream.terms.name).resume(plan_stored(stream), stream)
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
            raise prepared.check.source.refuse(
                f"the stream {opened.name} takes counts with EXPECT .. {words} alone",
                expected.at,
                f"EXPECT .. {words} 1200; a stream that is opened without the option sides takes all checks",
            )


def _without_key(stream: StoredStream, why: str) -> OperationalError:
    name = stream.terms.name
    return OperationalError(
        f"nothing more is checked under the threshold of {name}: {why}\nHint: bring the ledger's key back, "
        f"or CLOSE STREAM {name}, which charges what was used"
    )
