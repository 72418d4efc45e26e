"""`dpsql check`: the owner verifies the policy against the data; what it prints is exact and private."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.cli import narrate
from dpsql.cli.exits import ExitCode
from dpsql.render.cells import escape_controls

if TYPE_CHECKING:
    from dpsql.cli.output import Output
    from dpsql.owner import Report
    from dpsql.policy import Policy
    from dpsql.render.grid import Style

__all__ = ["run"]

_FOR_WHOM = "for the owner alone: this report holds exact private facts; never hand it on"
_CODES = {"ok": "32", "note": "33", "wrong": "31;1"}


def run(policy: Policy, out: Output) -> ExitCode:
    """Verify the policy, write the report, and record in the ledger which tables passed."""
    from dpsql.owner import verify

    report = verify(policy, lambda table: narrate.note(f"reading {table}"))
    if out.for_people:
        out.write_text(as_text(report, out.style))
    else:
        import pyarrow as pa

        narrate.warning(_FOR_WHOM)
        columns = ("level", "place", "text")
        out.write(pa.table({c: [getattr(f, c) for f in report.findings] for c in columns}), None)
    if report.passed:
        _remember(policy, report)
    notes = sum(finding.level == "note" for finding in report.findings)
    if report.wrong:
        counted = f"{report.wrong} of {len(report.findings)} findings are wrong"
        narrate.error(f"the policy is not true of its data: {counted}")
        return ExitCode.USAGE
    narrate.note(
        f"the policy is true of its data; findings: {len(report.findings)}, notes among them: {notes}"
    )
    return ExitCode.OK


def _remember(policy: Policy, report: Report) -> None:
    from dpsql.cli.budget import open_ledger

    with open_ledger(policy) as ledger:
        for table, version in report.passed.items():
            ledger.vet(table, version)


def as_text(report: Report, style: Style) -> str:
    """Return the findings as text, one a line; wrong ones stand last, where they are seen."""
    order = sorted(report.findings, key=lambda finding: ("ok", "note", "wrong").index(finding.level))
    widest = max((len(finding.place) for finding in order), default=0)
    lines = []
    for finding in order:
        place = escape_controls(finding.place, style.encoding).ljust(widest)
        text = escape_controls(finding.text, style.encoding)
        lines.append(f"{style.paint(finding.level.ljust(5), _CODES[finding.level])}  {place}  {text}")
    return f"{_FOR_WHOM}\n" + "\n".join(lines) + "\n"
