"""`--together`: measures for all statements of a file together, and answers them from one estimate."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import click

from dpsql.cli import narrate
from dpsql.cli.batch import write_result
from dpsql.cli.narrate import ExitCode, progress
from dpsql.render.readable import price

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsql.cli.options import Piece
    from dpsql.cli.output import AnswerOutput
    from dpsql.session_api import AnalystSession


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
