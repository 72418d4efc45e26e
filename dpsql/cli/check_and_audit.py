"""`dpsql check`, which verifies the policy against the data, and `dpsql audit`, which tests mechanisms.

What `dpsql check` prints is exact and private, for the owner alone. `dpsql audit` searches for
counterexamples to the privacy of mechanisms, or of whole statements.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpsql.cli import narrate
from dpsql.cli.narrate import ExitCode, progress, set_progress, without_charge
from dpsql.cli.output import AnswerOutput
from dpsql.render.grid import column, pad

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from dpsql.audit import Campaign, Subject
    from dpsql.cli.options import CliSettings
    from dpsql.ledger import StoredLadder
    from dpsql.owner import Finding, Report
    from dpsql.policy import Policy
    from dpsql.release.moved_units import KnownUnits
    from dpsql.render.grid import Style

_FOR_WHOM = "for the owner alone: this report holds exact private facts; never hand it on"
_CODES = {"ok": "32", "note": "33", "wrong": "31;1"}


@click.command("check")
@click.option(
    "--facts",
    is_flag=True,
    help="Print what the policy declares, as the proofs have it, with its hash; read no private row.",
)
@click.pass_obj
def check_command(settings: CliSettings, facts: bool) -> int:
    """For the owner: verify the policy against the data. Prints private facts.

    Reads every column once as its declared type, and checks that unique facts hold, which values lie outside
    of domains, and that every row has a privacy unit. What is not as declared is named, with the line of the
    policy. Exit code 2 if the policy is not true of the data; values outside a declared domain are a note.
    """
    with without_charge("nothing is remembered of what was checked"):
        return _show_facts(settings) if facts else _verify_policy(settings)


def _show_facts(settings: CliSettings) -> int:
    """Print the facts on which proofs rest, and whether the newest charge rests on them."""
    from dpsql.owner.declared_facts import read_declared

    with settings.answers("table") as out:
        policy = settings.load_policy()
        with progress("opening the data"):
            shown = read_declared(policy)
        if out.for_people:
            out.write_text(shown.text)
        else:
            out.write(shown.table, None)
    facts, charged = shown.facts, _charged_facts(policy)
    if charged is None:
        narrate.note(f"facts {facts.digest}: the ledger has no charge under this policy yet")
    elif charged == facts.digest:
        narrate.note(f"facts {facts.digest}: the newest charge of the ledger rests on them")
    else:
        narrate.note(
            f"facts {facts.digest}: the newest charge of the ledger rests on others, {charged}; since then"
            " the policy, the columns of its tables, its domains or dpsql have changed"
        )
    return ExitCode.OK


def _charged_facts(policy: Policy) -> str | None:
    """Return the hash of the facts of the newest charge; None if there is none, or no ledger."""
    from dpsql.ledger import Ledger, Opening

    if not Path(policy.budget.ledger).is_file():
        return None
    with Ledger.of(policy, Opening.INSPECT) as ledger:
        return ledger.facts


def _verify_policy(settings: CliSettings) -> int:
    from dpsql.owner import verify

    with settings.answers("table") as out:
        policy = settings.load_policy()
        with progress("opening the data"):
            report = verify(policy, set_progress, *_read_ledger(policy))
        _write_report(report, out)
    if report.passed:
        from dpsql.ledger import Ledger

        with Ledger.of(policy) as ledger:
            for text in ledger.messages:
                narrate.note(text)
            for table, version in report.passed.items():
                ledger.vet(table, version)
    notes = sum(finding.level == "note" for finding in report.findings)
    if report.wrong:
        counted = f"{report.wrong} of {len(report.findings)} findings are wrong"
        narrate.error(f"the policy is not true of its data: {counted}")
        return ExitCode.USAGE
    narrate.note(
        f"the policy is true of its data; findings: {len(report.findings)}, notes among them: {notes}"
    )
    return ExitCode.OK


def _read_ledger(policy: Policy) -> tuple[Sequence[StoredLadder], KnownUnits | None]:
    """Return the kept ladders, and the units that were read last; none of a ledger that cannot be opened."""
    from dpsql.errors import Error
    from dpsql.ledger import Ledger, Opening
    from dpsql.release.moved_units import MovedUnits

    if Path(policy.budget.ledger).is_file():
        with suppress(Error), Ledger.of(policy, Opening.INSPECT) as ledger:
            parts, declared = ledger.parts, policy.unit_parts
            compared = parts is not None and declared is not None and declared.moves == "refuse"
            kept = MovedUnits(ledger, policy.budget.ledger)
            return ledger.ladders(), kept.read(parts.declared) if compared and parts is not None else None
    return (), None


def _write_report(report: Report, out: AnswerOutput) -> None:
    if out.for_people:
        out.write_text(_report_text(report, out.style))
        return
    import pyarrow as pa

    narrate.warning(_FOR_WHOM)
    columns = ("level", "place", "text", "line")
    out.write(pa.table({c: [getattr(f, c) for f in report.findings] for c in columns}), None)


def _report_text(report: Report, style: Style) -> str:
    """Return the findings as text, one a line; wrong ones stand last, where they are seen.

    What is not ok names the line of the policy that it is about.
    """
    order = sorted(report.findings, key=lambda finding: [*_CODES].index(finding.level))
    places = column("", [finding.place + _line_of(finding) for finding in order], style)
    texts = column("", [finding.text for finding in order], style)
    lines = [
        f"{style.paint(finding.level.ljust(5), _CODES[finding.level])}  {pad(place, places.width)}  {text}\n"
        for finding, place, text in zip(order, places.cells, texts.cells, strict=True)
    ]
    return f"{_FOR_WHOM}\n" + ("".join(lines) or "\n")


def _line_of(finding: Finding) -> str:
    return "" if finding.line is None else f", line {finding.line}"


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
    wrong = sum(not outcome.is_expected for outcome in campaign.outcomes)
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
