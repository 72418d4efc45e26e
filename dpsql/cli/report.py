"""`dpsql report`: reports that are registered before their first answer, and run for each part of units."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import click

from dpsql.cli import narrate
from dpsql.cli.batch import write_result
from dpsql.cli.narrate import progress
from dpsql.cli.options import read_amount, read_sources
from dpsql.render.readable import price

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpsql.cli.options import CliSettings
    from dpsql.session import Session


@click.group("report")
def report_command() -> None:
    """Plan statements together before their first answer, and run them from one estimate."""


@contextmanager
def _open(settings: CliSettings) -> Iterator[Session]:
    from dpsql.session import Session

    with progress("opening the data"):
        session = Session(settings.load_policy(), settings.analyst)
    with closing(session):
        yield session


@report_command.command("add")
@click.argument("file")
@click.option("--name", required=True, metavar="NAME", help="The name of the report.")
@click.option(
    "--share",
    metavar="SHARE",
    help="The part of each budget, such as .8, that it costs and that is kept for it until it has run.",
)
@click.option("--epsilon", metavar="EPSILON", help="What a run costs in each part; nothing is kept for it.")
@click.option(
    "--per",
    type=click.Choice(["statement", "number"]),
    default="statement",
    show_default=True,
    help="Make the mean error of statements least, or that of all their numbers.",
)
@click.option("--dry-run", is_flag=True, help="Show what it would measure, and register nothing.")
@click.pass_obj
def add_command(
    settings: CliSettings,
    /,
    *,
    file: str,
    name: str,
    share: str | None,
    epsilon: str | None,
    per: str,
    dry_run: bool,
) -> None:
    """Register the statements of a file as a report; with :part, it is run for each part of units."""
    if (share is None) == (epsilon is None):
        given = "and not both" if share is not None else "what a run costs"
        raise click.UsageError(f"a report has either --share or --epsilon, {given}")
    amount = read_amount("--share" if epsilon is None else "--epsilon", str(share or epsilon))
    (source,) = read_sources([("file", file)])
    with _open(settings) as session:
        named = {"epsilon" if share is None else "share": amount}
        planned = session.reports.plan_registration(
            name, source.text, **named, per="NUMBER" if per == "number" else "STATEMENT"
        )
        for text in planned.words():
            narrate.note(text)
        each = f" of each {planned.text.every}" if planned.text.every else ""
        narrate.note(f"a run costs {price(planned.price)}{each}")
        if not dry_run:
            session.reports.register(planned, keep=share is not None)
            narrate.note(f"report {name} is registered")


@report_command.command("run")
@click.argument("name")
@click.option("--part", metavar="PART", help="The part of units, such as 2026-W48, if the report has parts.")
@click.option("--dry-run", is_flag=True, help="Show the price; run nothing.")
@click.option(
    "--at-release",
    type=click.IntRange(min=1),
    metavar="N",
    help="Measure nothing, and look at releases up to this one alone: the same answer again.",
)
@click.pass_obj
def run_command(
    settings: CliSettings, /, *, name: str, part: str | None, dry_run: bool, at_release: int | None
) -> None:
    """Measure what is not measured yet, and answer all statements; the same part again costs nothing."""
    with settings.answers() as output, _open(settings) as session:
        planned = session.reports.plan_run(name, part, at_release)
        narrate.note(f"this run costs {price(planned.price)}")
        if dry_run:
            return
        with progress("measuring"):
            answers = session.reports.execute(planned)
        output.expect([*range(1, len(answers) + 1)])
        for place, answer in enumerate(answers, 1):
            narrate.note(f"statement {place} of {len(answers)}")
            write_result(session, output, answer, number=place)
        output.end()


@report_command.command("list")
@click.pass_obj
def list_command(settings: CliSettings, /) -> None:
    """List the registered reports, and which parts are measured."""
    with _open(settings) as session, settings.answers() as output:
        output.write(session.run("SHOW REPORTS").table, None)


@report_command.command("show")
@click.argument("name")
@click.pass_obj
def show_command(settings: CliSettings, /, *, name: str) -> None:
    """Show what a report measures, its predicted errors, and its statements."""
    with _open(settings) as session, settings.answers() as output:
        output.write(session.reports.explain(name), None)


@report_command.command("page")
@click.argument("name")
@click.option("--to", "target", required=True, metavar="FILE", help="The HTML file that is written.")
@click.pass_obj
def page_command(settings: CliSettings, /, *, name: str, target: str) -> None:
    """Write a page: the last answers with their intervals, the price of the next run, numbers over time."""
    from html import escape
    from pathlib import Path

    from dpsql.render.html import document, release_html, rows_html, table, tag

    with _open(settings) as session:
        with progress("reading releases"):
            found = session.reports.history(name)
        plan = rows_html(session.reports.explain(name))
    body = [tag("h1", escape(f"Report {name}"))]
    facts = [["last run", found.part or ("measured" if found.answers else "none yet")]]
    if found.next_part is not None:
        cost = "it is not over yet" if found.price is None else price(found.price)
        facts.append([f"next run, {found.next_part}", cost])
    body.append(table((), ([tag("td", escape(cell)) for cell in row] for row in facts)))
    for place, text in enumerate(found.texts):
        body.append(tag("h2", f"Statement {place + 1}"))
        body.append(tag("pre", escape(text), style="white-space:pre-wrap"))
        if place < len(found.answers) and (release := found.answers[place].release) is not None:
            body.append(tag("div", release_html(release), style="overflow-x:auto"))
        if place < len(found.lines) and (line := found.lines[place]) is not None:
            body.append(tag("div", release_html(line), style="overflow-x:auto"))
    body += [tag("h2", "Plan"), plan]
    try:
        Path(target).write_text(document(f"Report {name}", "".join(body)), "utf-8")
    except OSError as problem:
        raise click.UsageError(f"cannot write {target}: {problem.strerror}") from None
    narrate.note(f"{target} is written; nothing was charged")


@report_command.command("end")
@click.argument("name")
@click.pass_obj
def end_command(settings: CliSettings, /, *, name: str) -> None:
    """For the owner: end a report, so that nothing is kept for it any more."""
    with settings.open_ledger() as ledger:
        ledger.end_report(name)
    narrate.note(f"report {name} has ended")
