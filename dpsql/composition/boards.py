"""Boards: scores that are compared with the best until then, of which only improvements are charged.

A board is a stream of checks of averages. The best and its edge, from which on a score is better by the step,
are functions of what the board has answered, so each submission is a check with a public expectation: of a
score x that is better when it is low, whether the sum of edge - x is above 0. The proof of the stream
(`kernel.mechanisms.check_stream`) holds as it is, in which expectations may follow from earlier output.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dpsql.analysis.public_statements import put_views
from dpsql.composition.asked_checks import AskedCheck
from dpsql.composition.checked_numbers import bound_of, prepare_check
from dpsql.composition.planned_answers import StatementPlanner
from dpsql.errors import ProgrammingError
from dpsql.estimates.scores_and_weights import find_mean
from dpsql.language import Check, Expectation, OpenChecks, Query
from dpsql.language.board_statements import OpenBoard, OpenHoldout, Submission
from dpsql.lazy_dataclass import dataclass
from dpsql.release.check_answers import CheckAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpsql.composition.prepared import PreparedCheck
    from dpsql.database import Database
    from dpsql.kernel.ledger.lasting_streams import StoredStream
    from dpsql.kernel.mechanisms import CheckStreamPlan

DIGITS: Final = 18
"""How many decimals a best has: so many can stand in a statement."""


@dataclass(frozen=True, slots=True)
class Best:
    """The best score of a board until now; `highest`: which scores are better."""

    value: Fraction
    step: Fraction
    highest: bool

    @property
    def edge(self) -> Fraction:
        """The score that a submission must exceed (or undercut) to be a new best."""
        return self.value + (self.step if self.highest else -self.step)

    def after(self, score: float) -> Best:
        """Return the better one of the present best and a released score."""
        found = Fraction(f"{score:.{DIGITS}f}")
        better = found > self.value if self.highest else found < self.value
        return replace(self, value=found) if better else self

    @property
    def expectation(self) -> Expectation:
        """What a check expects of a score that is no improvement."""
        if self.highest:
            return Expectation(high=self.edge, tolerance=Fraction(0))
        return Expectation(low=self.edge, tolerance=Fraction(0))


_UNKNOWN: Final = Best(Fraction(0), Fraction(0), highest=False)
"""What stands for the best of a board that is not open: it is found when the check runs (`prepare_again`)."""


def refuse_without_board(name: str) -> ProgrammingError:
    """Return the error of a submission to a board that is not there."""
    return ProgrammingError(
        f"you have no board {name[:60]}: OPEN BOARD {name[:60]} OPTIONS (epsilon = 1, improvements = 15, "
        "step = 0.01, best = LOWEST, start = 0.5)"
    )


def expect_best(planner: StatementPlanner, check: Check) -> Check:
    """Return a submission as a check against the board's present best; other checks unchanged."""
    stream = planner.database.ledger.streams.find(planner.analyst, check.name)
    if stream is not None and stream.state != "open":
        stream = None  # as one that a statement before this one may open, in a file
    is_board = stream is not None and stream.terms.options["kind"] == "board"
    if not isinstance(check, Submission):
        if stream is not None and stream.terms.options["kind"] == "holdout" and check.kind != "average":
            raise check.source.refuse(
                "a holdout checks an average, whose training score is public",
                None,
                f"CHECK {check.name[:60]} SELECT AVG(CASE WHEN .. THEN 1 ELSE 0 END) AS acc FROM .. "
                "EXPECT acc = 0.81 TOLERANCE 0.03",
            )
        if is_board:
            raise check.source.refuse(
                f"the board {check.name[:60]} expects its best",
                check.expected.at,
                f"leave EXPECT out: CHECK {check.name[:60]} SELECT AVG(..) AS score FROM ..",
            )
        return check
    if stream is not None and not is_board:
        raise check.source.refuse(
            f"{check.name[:60]} is no board, so a check says what is expected",
            None,
            f"CHECK {check.name[:60]} SELECT .. AS {check.column[:40]} FROM .. EXPECT {check.column[:40]} ..",
        )
    best = _UNKNOWN if stream is None else find_best(planner.database, stream)
    expected = best.expectation
    statistics = put_views(check.expect(expected), planner.policy)
    assert isinstance(statistics, Query)  # noqa: S101  as was given
    return replace(
        check, statistics=statistics, expected=expected, series="" if stream is None else series_of(stream)
    )


def prepare_again(planner: StatementPlanner, prepared: PreparedCheck) -> PreparedCheck:
    """Prepare a submission again with the board's present best; return other checks unchanged."""
    if not isinstance(prepared.check, Submission):
        return prepared
    return prepare_check(planner, expect_best(planner, prepared.check), prepared.counting.engines)


def series_of(stream: StoredStream) -> str:
    """Return the key under which the ledger keeps the answers of a board's present round."""
    return f"best of {stream.entry}"


def find_best(database: Database, stream: StoredStream) -> Best:
    """Return the best of an open board: that of its last answer, or how it was opened."""
    options = stream.terms.options
    best = Best(Fraction(options["start"]), Fraction(options["step"]), options["best"] == "HIGHEST")
    found = database.ledger.streams.find_last(stream, series_of(stream))
    if found is None:
        return best
    (kept,) = CheckAnswer.read(found.payload).last.column(0).to_pylist()
    return replace(best, value=Fraction(kept))


def misses_of(opened: OpenChecks) -> str:
    """Return the word for a stream's misses: "improvements" of a board, else "misses"."""
    return "improvements" if isinstance(opened, OpenBoard) else "misses"


def list_options(opened: OpenChecks) -> dict[str, str]:
    """Return the ledger's options that only boards and holdouts have; empty for other streams."""
    if isinstance(opened, OpenHoldout):
        return {"kind": "holdout", "training": opened.training}
    if isinstance(opened, OpenBoard):
        word = "HIGHEST" if opened.highest else "LOWEST"
        return {"kind": "board", "step": str(opened.step), "best": word, "start": str(opened.start)}
    return {}


def opened_scores(plain: OpenChecks, options: Mapping[str, Any]) -> OpenChecks:
    """Return the opening statement of a board or holdout with its own options; others unchanged."""
    given = {name: getattr(plain, name) for name in OpenChecks.__dataclass_fields__}
    if options["kind"] == "holdout":
        return OpenHoldout(**given, training=options["training"])
    if options["kind"] == "board":
        step, start = Fraction(options["step"]), Fraction(options["start"])
        return OpenBoard(**given, highest=options["best"] == "HIGHEST", step=step, start=start)
    return plain


class AskedSubmission(AskedCheck):
    """One submission: checked against the best, which the answer of an improvement may become."""

    def __init__(self, best: Best, *asked: Any) -> None:  # noqa: ANN401  as `AskedCheck` has them
        super().__init__(*asked)
        self._best = best

    def tell(self, plan: CheckStreamPlan, table: pa.Table, notes: tuple[str, ...]) -> CheckAnswer:
        """Return the answer: whether the score is a new best, and the best from now on.

        What an improvement releases is its gap and a noisy number of rows, from which its score follows. Of
        so few rows that nothing is known of it, a score is noise, and is no best.
        """
        (row,) = table.to_pylist()
        said, best, shown = "no new best", self._best, (row[table.column_names[0]], row["low"], row["high"])
        if row["checked"] == "off":
            shown = self._find_score(plan, row["gap"], shown)
            if shown[0] is None:
                said, notes = "answered", (*notes, "too few rows for a score: the best stays")
            else:
                said, best = "new best", best.after(shown[0])
        for name, value in zip((table.column_names[0], "low", "high"), shown, strict=True):
            at = table.column_names.index(name)
            table = table.set_column(at, name, pa.array([value], pa.float64()))
        at = table.column_names.index("checked")
        told = table.set_column(at, "checked", pa.array([said], pa.string()))
        kept = pa.table({"best": pa.array([str(best.value)], pa.string())})
        return CheckAnswer(told, (*notes, f"the best is {float(best.value):.6g}"), kept)

    def _find_score(
        self, plan: CheckStreamPlan, gap: float, rows: tuple[float, float | None, float | None]
    ) -> tuple[float | None, float | None, float | None]:
        """Return the score of an improvement and the ends of its interval, within the bounds of values."""
        count, fewest, most = rows
        if fewest is None or most is None:
            return None, None, None
        bound = float(bound_of(self._prepared))
        mean = find_mean(plan, gap, bound, (count, fewest, most))
        if mean is None:
            return None, None, None
        argument = self._prepared.counting.plan.counts[0].argument
        is_of_rows = argument is not None and not argument.per_group
        ends = (float(argument.low), float(argument.high)) if argument and is_of_rows else (-inf, inf)
        edge, sign = float(self._best.edge), 1 if self._best.highest else -1
        score, worst, best = (
            None if each is None else edge + sign * min(max(each, ends[0]), ends[1]) for each in mean
        )
        return (score, worst, best) if self._best.highest else (score, best, worst)
