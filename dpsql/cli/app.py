"""The click application: its commands and options, and `main`, which turns errors into exit codes."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpsql import __version__
from dpsql.cli import narrate
from dpsql.cli.audit.command import audit_command
from dpsql.cli.exits import ExitCode, legend
from dpsql.cli.output import FORMATS
from dpsql.cli.settings import Settings
from dpsql.cli.sources import META, InOrder, read, statements

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpsql.session import Session

__all__ = ["app", "main", "open_session"]


def open_session(settings: Settings) -> Session:
    """Open a session on the database of the policy."""
    policy = settings.load_policy()
    from dpsql.session import Session

    return Session(policy) if settings.analyst is None else Session(policy, analyst=settings.analyst)


@contextmanager
def _opened(settings: Settings) -> Iterator[Session]:
    session = open_session(settings)
    try:
        if not session.policy.analysts:
            narrate.warning(
                "names of analysts are not verified: the policy lists none under [analysts], "
                "so any name may ask"
            )
        yield session
    finally:
        # All charges and releases are durable by now, so errors on closing are not reported.
        with suppress(Exception):
            session.close()


_EPILOG = f"""\b
Exit codes:
{legend()}

\b
Examples:
  dpsql -c "SHOW TABLES"
  dpsql --dry-run -f report.sql
  dpsql --format csv -o top.csv -f report.sql
"""


@click.group(
    cls=InOrder,
    invoke_without_command=True,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "-p",
    "--policy",
    envvar="DPSQL_POLICY",
    default="dpsql.toml",
    show_default=True,
    show_envvar=True,
    help="The owner's policy file.",
)
@click.option("--analyst", metavar="NAME", help="Name of the analyst, which the ledger records.")
@click.option(
    "-c", "--command", "command", metavar="SQL", multiple=True, help="Run statements (separated by ;)."
)
@click.option(
    "-f",
    "--file",
    "file",
    metavar="FILE",
    multiple=True,
    help="Run a file's statements; - is standard input. -c and -f run in the order given.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    help="How answers are written. [default: table on a terminal, else csv]",
)
@click.option("-o", "--output", metavar="FILE", help="Write answers to a file instead of standard output.")
@click.option("--dry-run", is_flag=True, help="Show what each statement would cost; run nothing.")
@click.option(
    "--partial",
    is_flag=True,
    help="When the statements together cost more than is left, run those that fit instead of none.",
)
@click.option(
    "--on-error",
    type=click.Choice(["stop", "continue"]),
    default="stop",
    show_default=True,
    help="What to do when a statement fails.",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def app(
    ctx: click.Context,
    /,
    *,
    policy: str,
    analyst: str | None,
    command: tuple[str, ...],
    file: tuple[str, ...],
    format_: str | None,
    output: str | None,
    dry_run: bool,
    partial: bool,
    on_error: str,
) -> int:
    """Ask private data questions in SQL, with differential privacy.

    Without a command, -c or -f: an interactive shell. All statements given are parsed, analysed and
    priced before the first one runs; if the budget does not pay for them all, none runs.

    Answers go to standard output, everything else (prices, warnings, errors) to standard error.
    """
    settings = Settings(policy, analyst, format_, output, on_error)
    ctx.obj = settings
    given = ctx.meta[META]
    if ctx.invoked_subcommand is not None:
        if given or dry_run or partial:
            raise click.UsageError("-c, -f, --dry-run and --partial go with statements, not with a command")
        return ExitCode.OK
    if not given and (dry_run or partial):
        raise click.UsageError("--dry-run and --partial need -c or -f")
    if not given:
        return _repl(settings)
    from dpsql.cli.batch import Batch

    pieces = statements(read(given))
    if not pieces:
        return ExitCode.OK
    with settings.output() as out, _opened(settings) as session:
        return Batch(session, out, partial=partial, go_on=on_error == "continue").run(pieces, dry=dry_run)


def _repl(settings: Settings) -> int:
    """Run the interactive shell, or the statements of a pipe one after the other."""
    from dpsql.cli.repl.line_input import reader
    from dpsql.cli.repl.loop import Repl, names_of

    with settings.output() as out, _opened(settings) as session:
        lines = reader(cache(partial(names_of, session)))
        repl = Repl(session, out, lines, Path(settings.policy), go_on=settings.on_error == "continue")
        try:
            return repl.run()
        finally:
            repl.output.close()


@app.group("budget", invoke_without_command=True)
@click.option("--json", "json_", is_flag=True, help="Print everything as one JSON object.")
@click.option(
    "--clear-failures",
    is_flag=True,
    help="For the owner: let analysts (or --analyst NAME) ask again after too many failed or cancelled ones.",
)
@click.pass_context
def budget_command(ctx: click.Context, /, *, json_: bool, clear_failures: bool) -> int:
    """Show what is spent, on what, and what is left."""
    if ctx.invoked_subcommand is not None:
        if json_ or clear_failures:
            raise click.UsageError("--json and --clear-failures do not go with `check`")
        return ExitCode.OK
    settings: Settings = ctx.obj
    if settings.format not in (None, "table", "json"):
        raise click.UsageError("the budget is shown as a table or as JSON")
    from dpsql.cli import budget

    with settings.output("table") as out, budget.open_ledger(settings.load_policy()) as ledger:
        if clear_failures:
            budget.clear_failures(ledger, settings.analyst)
        elif json_ or settings.format == "json":
            out.write_text(budget.as_json(ledger, settings.analyst))
        else:
            out.write_text(budget.report(ledger, settings.analyst, out.style))
    return ExitCode.OK


@budget_command.command("check")
@click.pass_obj
def budget_check(settings: Settings) -> int:
    """Verify that the ledger is sound."""
    from dpsql.cli import budget

    with budget.open_ledger(settings.load_policy()) as ledger:
        return budget.check(ledger)


@app.command("release")
@click.argument("number", type=click.IntRange(min=1))
@click.pass_obj
def release_command(settings: Settings, /, *, number: int) -> int:
    """Show an earlier answer again, by its number in SHOW RELEASES."""
    from dpsql.cli.budget import open_ledger
    from dpsql.release import from_bytes

    with settings.output() as out:
        with open_ledger(settings.load_policy()) as ledger:
            found = from_bytes(ledger.release(number, settings.analyst or "analyst"))
        out.write(found.rows, found)
    return ExitCode.OK


@app.command("init")
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option(
    "--unit",
    "units",
    metavar="[TABLE=]COLUMN",
    multiple=True,
    help="The column that names whom to protect; PARENT.COLUMN if the table PARENT has it and COLUMN leads "
    "there; ROW if each row is a unit of its own.",
)
@click.option("--unit-kind", metavar="WORD", help="What a unit is, such as patient.")
@click.option("--public", metavar="TABLE", multiple=True, help="A table that everybody may see.")
@click.option(
    "--column",
    "columns",
    metavar="[TABLE.]COLUMN=TYPE",
    multiple=True,
    help="A column's type; a CSV file has none, and dpsql never guesses them from the rows.",
)
@click.option(
    "--domain",
    "domains",
    metavar="[TABLE.]COLUMN=VALUES",
    multiple=True,
    help="A column's public values: a,b,c or 0..23 or TABLE.COLUMN of a public table.",
)
@click.option("--epsilon", metavar="X", help="All that can ever be spent. [default: 1]")
@click.option("--delta", metavar="X", help="The same for delta, which undeclared keys need.")
@click.option("--max-epsilon-per-query", metavar="X", help="The most one statement may take.")
@click.option("--default-epsilon", metavar="X", help="What a statement takes that names none.")
@click.option("--default-delta", metavar="X", help="The same for delta.")
@click.pass_obj
def init_command(
    settings: Settings,
    /,
    *,
    sources: tuple[str, ...],
    units: tuple[str, ...],
    unit_kind: str | None,
    public: tuple[str, ...],
    columns: tuple[str, ...],
    domains: tuple[str, ...],
    **amounts: str | None,
) -> int:
    """Write a commented policy for Parquet and CSV files or a DuckDB database.

    Reads names and types of columns, but no row, and asks for what the flags leave open. The policy is
    written to the file that -p names, which must not exist yet.
    """
    from dpsql.cli.init import command
    from dpsql.cli.init.tables import InitOptions

    given = tuple((name, text) for name, text in amounts.items() if text is not None)
    return command.run(
        settings.policy, InitOptions(sources, units, unit_kind, public, columns, domains, given)
    )


@app.command("check")
@click.pass_obj
def check_command(settings: Settings) -> int:
    """For the owner: verify the policy against the data. Prints private facts.

    Reads every column once as its declared type, and checks that unique facts hold, that domains hold every
    value, and that every row has a privacy unit. Exit code 2 if the policy is not true of the data.
    """
    from dpsql.cli import check

    with settings.output("table") as out:
        return check.run(settings.load_policy(), out)


@app.command("demo")
@click.pass_obj
def demo_command(settings: Settings) -> int:
    """Take a tour of two minutes on data that comes with dpsql."""
    from dpsql.cli import demo

    folder = demo.copy_data()
    policy = str(folder / demo.POLICY)
    with settings.output("table") as out, _opened(replace(settings, policy=policy)) as session:
        code = demo.tour(session, out)
    narrate.say(f"\nData, policy and ledger are in {folder}. Go on with:\n  dpsql -p {policy}")
    return code


app.add_command(audit_command)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        result = app.main(args=args, prog_name="dpsql", standalone_mode=False)
        sys.stdout.flush()
        return int(result or 0)
    except BrokenPipeError:
        # The reader has closed the pipe. Python's own flush at the end must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return ExitCode.QUERY_FAILED
    except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001  no private value may reach the screen
        return narrate.failure(problem)
