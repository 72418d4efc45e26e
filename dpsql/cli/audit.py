"""`dpsql audit`: searches for counterexamples to the privacy of mechanisms, or of whole statements."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from dpsql.cli import narrate
from dpsql.cli.narrate import ExitCode
from dpsql.cli.output import AnswerOutput

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from dpsql.audit import Campaign, Subject
    from dpsql.cli.options import CliSettings


_TRIALS, _STATEMENT_TRIALS = 500_000, 4_000
_EPSILONS = ("0.2", "0.7", "1.5")
_ERROR_RATE = 0.01
"""Probability that a run of the command reports any correct mechanism or statement."""


@click.command("audit")
@click.option(
    "-m", "--mechanism", "names", metavar="TEXT", multiple=True, help="Only those with this in their name."
)
@click.option("--all", "every", is_flag=True, help="Also test subjects known to be private or incorrect.")
@click.option("--list", "listing", is_flag=True, help="Name the subjects and what they do; run nothing.")
@click.option(
    "--epsilon", "epsilons", metavar="E", multiple=True, help="What is claimed. [default: 0.2, 0.7, 1.5]"
)
@click.option("--trials", type=click.IntRange(min=100), help="Runs of each final test on each input.")
@click.option(
    "-f", "--file", "file", metavar="FILE", help="Audit a file's private statements through all of dpsql."
)
@click.option(
    "--remove-unit",
    "unit",
    metavar="[UNIT]",
    is_flag=False,
    flag_value="",
    help="With -f: which privacy unit the neighbouring data lack. [default: the one with the most rows]",
)
@click.option("--json", "json_", is_flag=True, help="Print everything as one JSON object.")
@click.option("--html", metavar="FILE", help="Also write a page with curves; it needs nothing else.")
@click.pass_obj
def audit_command(
    settings: CliSettings,
    /,
    *,
    names: tuple[str, ...],
    every: bool,
    listing: bool,
    epsilons: tuple[str, ...],
    trials: int | None,
    file: str | None,
    unit: str | None,
    json_: bool,
    html: str | None,
) -> int:
    """Look for counterexamples to differential privacy.

    Without -f: in dpsql's own mechanisms, each at several epsilon; no policy and no data are needed. A
    mechanism that passes is not proved private: none was found.

    With -f: each private statement of the file runs thousands of times on the policy's data and on the
    data without one privacy unit, on a scratch ledger, and the released rows are compared. For owners, on
    small test data: what is printed depends on the data, and no budget is charged.

    Exit code 1 if a counterexample was found, or one that is known to exist was not.
    """
    if file is not None and (names or every or listing or epsilons):
        raise click.UsageError("-f does not go with -m, --all, --list or --epsilon")
    if file is None and unit is not None:
        raise click.UsageError("--remove-unit needs -f")
    page = None if html is None else AnswerOutput("table", html)
    if page is not None:
        page.check()
    from dpsql import audit

    with replace(settings, format="table").answers() as out:
        if listing:
            out.write_text(_list_subjects(_choose_subjects(names, every=every)))
            return ExitCode.OK
        if file is not None:
            campaign = _audit_file(settings, file, unit or None, trials or _STATEMENT_TRIALS)
        else:
            campaign = _audit_mechanisms(
                _choose_subjects(names, every=every), epsilons or _EPSILONS, trials or _TRIALS
            )
        if page is not None:
            page.write_text(audit.as_html(campaign))
            page.close()
        if json_:
            import json

            out.write_text(json.dumps(audit.as_data(campaign), indent=2, ensure_ascii=False) + "\n")
        else:
            out.write_text(audit.as_text(campaign, out.style))
    wrong = sum(not outcome.expected for outcome in campaign.outcomes)
    if wrong:
        narrate.error(f"{wrong} of {len(campaign.outcomes)} verdicts are not as they should be")
        return ExitCode.QUERY_FAILED
    narrate.note(f"{len(campaign.outcomes)} verdicts, all as they should be, in {campaign.seconds:.1f} s")
    return ExitCode.OK


def _choose_subjects(names: Sequence[str], *, every: bool) -> list[Subject]:
    from dpsql.audit import CATALOGUE

    known = [subject for subject in CATALOGUE if every or subject.kind == "dpsql"]
    found = [s for s in known if not names or any(name.lower() in s.name.lower() for name in names)]
    if not found:
        raise click.UsageError(f"no subject has {' or '.join(names)} in its name\nHint: dpsql audit --list")
    return found


def _list_subjects(subjects: Sequence[Subject]) -> str:
    widest = max(len(subject.name) for subject in subjects)
    return "".join(f"{subject.kind:<9}  {subject.name:<{widest}}  {subject.about}\n" for subject in subjects)


def _audit_mechanisms(subjects: Sequence[Subject], epsilons: Sequence[str], trials: int) -> Campaign:
    from dpsql import audit
    from dpsql.kernel.loss import exact

    try:
        claims = [exact(text) for text in epsilons]
    except ValueError as problem:
        raise click.UsageError(f"--epsilon: {problem}") from None
    if any(not 0 < claim <= 20 for claim in claims):
        raise click.UsageError("--epsilon must be greater than 0, and at most 20")

    def progress(number: int, count: int, subject: Subject, epsilon: Fraction) -> None:
        narrate.note(f"audit {number} of {count}: {subject.name}, epsilon {float(epsilon):g}")

    processes = os.cpu_count() or 1
    return audit.campaign(subjects, claims, trials=trials, processes=processes, on_progress=progress)


def _audit_file(settings: CliSettings, file: str, unit: str | None, trials: int) -> Campaign:
    from dpsql.audit.end_to_end import Audited, audit_statements, private_statements
    from dpsql.cli.options import read_sources, split_sources

    policy = settings.load_policy()
    pieces = split_sources(read_sources([("file", file)]))
    asked = private_statements(policy, [(piece.text, piece.where) for piece in pieces])
    if not asked:
        raise click.UsageError(f"{file} has no private statement")
    narrate.warning("for the owner, on test data: the report depends on the data, and no budget is charged")

    def progress(one: Audited, runs: int) -> None:
        narrate.note(f"{one.where}: {runs} runs, on the data and without one unit")

    return audit_statements(
        policy, asked, unit=unit, trials=trials, error_rate=_ERROR_RATE, on_progress=progress
    )
