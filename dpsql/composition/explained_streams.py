"""What EXPLAIN says of the statements of streams of checks, from public figures alone."""

from __future__ import annotations

import json as json_text
from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa

from dpsql.composition.asked_checks import plan_stable
from dpsql.composition.boards import misses_of
from dpsql.composition.checked_numbers import bound_of, plan_stream, widest_tolerance
from dpsql.composition.prepared import PreparedCheck, PreparedQuestion
from dpsql.composition.release_words import add_exact_facts, round_up
from dpsql.estimates import most_misses
from dpsql.estimates.predictions import clear_gap
from dpsql.estimates.scores_and_weights import distances
from dpsql.language import OpenChecks, OpenStable
from dpsql.language.board_statements import OpenBoard, OpenHoldout, Submission
from dpsql.planning.stable_selections import moved_by, needed_lead, notes_of

if TYPE_CHECKING:
    from dpsql.composition.prepared import PreparedCommand
    from dpsql.kernel.ledger.lasting_streams import StoredStream
    from dpsql.kernel.mechanisms import CheckStreamPlan

CONFIDENCE = Fraction(95, 100)
"""How often an answer is shown that leads by as much as EXPLAIN says."""
MARGINS = (1, 200, 2_000, 20_000)
"""For how many checks EXPLAIN says how near numbers are that are all as expected."""


def explain_command(
    prepared: PreparedCommand, opened: OpenChecks | None, guess: Fraction | None = None, *, json: bool
) -> pa.Table:
    """Return what a statement of a stream costs, and how sharp checks are; `opened` is how it was opened.

    `guess` is what its models expect of one number now.
    """
    command = prepared.command
    if isinstance(command, OpenChecks):
        rows = _of_opened(command)
    elif isinstance(command, PreparedQuestion):
        rows = _of_question(command, opened)
    elif isinstance(command, PreparedCheck):
        rows = _of_check(command, opened)
        if opened is not None and command.check.expected.models:
            what = "of each group" if guess is None else f"{float(guess):.10g}"
            rows.append(("expected", f"{what}: the weighted median of {_count(opened)}"))
    elif prepared.price.epsilon and opened is not None:
        rows = [*_of_opened(opened), ("before", "the stream that is open is settled")]
    else:
        rows = [("epsilon", "0: what was used stays charged, and the rest is given back")]
    price = {"private": prepared.private, **prepared.price.fractions, "full": prepared.full_price.fractions}
    names, values = zip(*rows, strict=True)
    if json:
        text = json_text.dumps({"selection": "a stream of checks", **dict(rows)})
        return add_exact_facts(pa.table({"explain": pa.array([text], pa.string())}), "price", price)
    table = pa.table({"property": pa.array(names, pa.string()), "value": pa.array(values, pa.string())})
    return add_exact_facts(table, "price", price)


def show_stream(stream: StoredStream, opened: OpenChecks) -> pa.Table:
    """Return the result of SHOW STREAM: a stream's state, charges and opening options.

    Of a board, `opened` begins with its best until now.
    """
    charged = f"{round_up(stream.charged)} of {round_up(opened.epsilon)}"
    rows = [
        ("stream", stream.terms.name),
        ("kind", str(stream.terms.options["kind"])),
        ("state", stream.said),
        ("opened", f"{stream.when:%Y-%m-%d %H:%M} UTC, round {stream.round:,} of that name"),
        ("asked", f"{stream.asked:,}"),
        ("left", f"{stream.left:,} of {stream.terms.misses:,}"),
        ("charged if it is closed now" if stream.state == "open" else "charged", charged),
        *([("best", f"{float(opened.start):.6g}")] if isinstance(opened, OpenBoard) else []),
        *_of_opened(opened)[1:],
    ]
    names, values = zip(*rows, strict=True)
    return pa.table({"property": pa.array(names, pa.string()), "value": pa.array(values, pa.string())})


def _of_stable(opened: OpenStable) -> list[tuple[str, str]]:
    plan = plan_stable(opened)
    lead = clear_gap(plan, CONFIDENCE) or 0.0
    each, first = round_up(plan.tests.epsilon), round_up(plan.tests.threshold_epsilon)
    whole = f"{round_up(opened.epsilon)}, and delta {round_up(opened.delta)}"
    return [
        ("epsilon", f"{whole}: charged when it is opened; what is not used is given back, but not delta"),
        ("each answer that is stable", "free"),
        ("first question", first),
        ("each question that is unstable", each),
        ("unstable", f"{opened.misses:,}"),
        ("questions", f"{opened.questions:,} at most, of which delta is for all"),
        ("an answer is shown", f"if it leads by about {lead + 1:.4g} (95%), exactly: keys or a quantile"),
        ("bound", f"where one unit can change counts by c, if it leads by c times {lead + 1:.4g}"),
    ]


def _of_question(asked: PreparedQuestion, opened: OpenChecks | None) -> list[tuple[str, str]]:
    plan, question = asked.counting.plan, asked.question
    moved = moved_by(plan, asked.place, question)
    found = [("epsilon", "0: its stream has paid"), ("bound", f"one {plan.unit} can change it by {moved:,}")]
    if isinstance(opened, OpenStable):
        lead = needed_lead(plan, plan_stable(opened), moved)
        found.append(
            ("shown", f"if it leads by about {lead:.4g} (95%); else it uses one of the unstable ones")
        )
    return found + [("note", note) for note in notes_of(plan, asked.place, question)]


def _of_opened(opened: OpenChecks) -> list[tuple[str, str]]:
    found = _of_stable(opened) if isinstance(opened, OpenStable) else _of_checks(opened)
    if opened.parts is not None:
        days = " to ".join(map(str, opened.parts))
        found.append(("parts", f"of the days {days}: units of other parts are not asked about, nor charged"))
    return found


def _of_checks(opened: OpenChecks) -> list[tuple[str, str]]:
    plan = plan_stream(opened)
    answers = f"fresh, at epsilon {round_up(plan.answer_epsilon)}"
    slack, board = f"{plan.slack():.3g} bounds", isinstance(opened, OpenBoard)
    within = f"within the tolerance + {slack}, for all checks together (95%)"
    names = {
        "free": "each check that is as expected",
        "first": "first check",
        "each": "each check that is off",
        "means": "as expected means",
        "none": "no false alarm in {:,} checks",
    }
    if isinstance(opened, OpenBoard):
        within = f"not better than the best by more than {float(opened.step):g} + {slack} / rows (95%, all)"
        names = {
            "free": "each submission that is no new best",
            "first": "first submission",
            "each": "each improvement",
            "means": "no new best means",
            "none": "no false improvement in {:,} submissions",
        }
    found = [
        ("epsilon", f"{round_up(opened.epsilon)}: charged when it is opened; what is not used is given back"),
        (names["free"], "free"),
        (names["first"], round_up(plan.threshold_epsilon)),
        (names["each"], round_up(plan.check_epsilon + plan.answer_epsilon)),
        (misses_of(opened), f"{opened.misses:,}"),
        (names["means"], within),
        *((names["none"].format(n), _words_of_margin(plan.margin(n), board=board)) for n in MARGINS),
        (
            ("score", _words_of_score(plan))
            if isinstance(opened, OpenBoard)
            else ("answers", answers if plan.answer_epsilon else "none: only whether it is off")
        ),
    ]
    if isinstance(opened, (OpenBoard, OpenHoldout)):
        found.append(("bound", "the rows of a unit that count, times the largest distance of a value"))
    else:
        found.append(
            ("bound", "by how much one unit can change the number: 1 of COUNT(DISTINCT ..) of the unit")
        )
    if isinstance(opened, OpenHoldout):
        found.append(("training", _TRAINING[opened.training]))
    return [*found, *(_of_models(opened) if opened.models else ())]


def _count(opened: OpenChecks) -> str:
    hypotheses = len(opened.models) * len(opened.scales)
    return f"{hypotheses:,} hypotheses" if hypotheses > 1 else "1 hypothesis"


def _of_models(opened: OpenChecks) -> list[tuple[str, str]]:
    hypotheses = len(opened.models) * len(opened.scales)
    times = ", ".join(f"{float(scale):g}" for scale in opened.scales)
    least, most = (most_misses(hypotheses, penalised) for penalised in (0, 2))
    right = f"at most {least:,} misses if one is never far off, {most:,} if it is twice"
    return [
        ("models", f"{', '.join(opened.models)}, each times {times}: {_count(opened)}"),
        ("EXPECT .. = MODELS", f"their weighted median, which learns from answers: {right}"),
    ]


_BEFORE_BOARD = "not known before the board is open: it follows from the board's best"

_TRAINING = {
    "OTHER_UNITS": "you say that no unit of the training rows is in the holdout",
    "PRIVATE": "you say that training scores are private releases",
}


def _words_of_score(plan: CheckStreamPlan) -> str:
    """Say how near the score of an improvement is, and what it costs beside its check."""
    rows = f"its rows are counted at epsilon {round_up(plan.answer_epsilon)}"
    return f"follows from the gap, within {max(distances(plan)):.3g} bounds / rows (95%); {rows}"


def _words_of_margin(margin: float, *, board: bool) -> str:
    if board:
        return f"of scores no better than the best by the step - {margin:.3g} bounds / rows (95%)"
    return f"of numbers nearer than the tolerance - {margin:.3g} bounds (95%)"


def _of_check(check: PreparedCheck, opened: OpenChecks | None) -> list[tuple[str, str]]:
    bound, counting = bound_of(check), check.counting
    is_unknown = isinstance(check.check, Submission) and not check.check.series
    found = [
        ("epsilon", "0: its stream has paid"),
        ("checked", f"{check.check.column}, in {counting.plan.candidates or 1:,} groups at most"),
        (
            "bound",
            _BEFORE_BOARD if is_unknown else f"one {counting.plan.unit} can change it by {float(bound):g}",
        ),
    ]
    if opened is None or is_unknown:
        return [*found, ("stream", f"you have no open stream {check.check.name[:60]}")]
    plan = plan_stream(opened)
    slack, margin = (float(bound) * each for each in (plan.slack(), plan.margin(MARGINS[1])))
    words = f"{slack:.4g}"
    if check.check.kind != "sum":
        words += " / rows" if opened.rows is None else f" / rows, at most {slack / float(opened.rows):.4g}"
    if isinstance(opened, OpenBoard):
        step = float(opened.step)
        found.append(("no new best means", f"not better than the best by more than {step:g} + {words} (95%)"))
        return found
    found.append(("as expected means", f"within the tolerance + {words}, for all checks together (95%)"))
    widest: Fraction | None = widest_tolerance(check, opened.tolerance)
    if widest is not None and widest < margin:
        found.append(
            ("warning", f"numbers are false alarms unless they are nearer than the tolerance - {margin:.4g}")
        )
    return found
