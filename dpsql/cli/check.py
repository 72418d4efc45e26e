"""`dpsql check`: the owner verifies the policy against the data; what it prints is exact and private."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpsql.cli import narrate
from dpsql.cli.narrate import ExitCode, doing, progress, without_charge
from dpsql.render.grid import column, pad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsql.cli.options import CliSettings
    from dpsql.cli.output import AnswerOutput
    from dpsql.ledger import StoredLadder
    from dpsql.owner import Finding, Report
    from dpsql.policy import Policy
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
            report = verify(policy, doing, _read_ladders(policy))
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


def _read_ladders(policy: Policy) -> Sequence[StoredLadder]:
    """Return the kept ladders; none if no ledger can be opened, which is said later."""
    from dpsql.errors import Error
    from dpsql.ledger import Ledger, Opening

    if Path(policy.budget.ledger).is_file():
        with suppress(Error), Ledger.of(policy, Opening.INSPECT) as ledger:
            return ledger.ladders()
    return ()


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
