"""The command line, a click application: its options and commands, and `main`. stdout is data, stderr is not.

====================  ======================================================================
``__main__``          starts the process around it
``options``           the options that all commands share; statements from ``-c`` and ``-f``
``narrate``           messages, warnings, errors with their exit codes, progress, on stderr
``output``            writes results to stdout, a file or a folder
``batch``             runs statements after pricing all of them, and measures them together
``repl/``             the interactive shell
``budget``, ``demo``  the commands of these names
``init/``             `dpsql init`, which reads names and types of columns, but no row
``bounds``            `dpsql bounds`, which releases to everybody, and charges everybody
``check_and_audit``   `dpsql check`, which is for the owner and prints private facts; `dpsql audit`,
                      which searches for violations of differential privacy
``checks``            `dpsql checks run`, which runs a file of checks and reports what is off
``report``            `dpsql report`: registered reports, which run for each part of units
``serve``, ``user``   `dpsql serve` and `dpsql mcp`; `dpsql user`, which says who may log in
====================  ======================================================================
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsql import __version__
from dpsql.cli import narrate
from dpsql.cli.narrate import ExitCode, describe_exit_codes, progress, set_progress
from dpsql.cli.options import (
    META,
    CliSettings,
    InOrder,
    Width,
    read_amount,
    read_sources,
    send_uploads,
    server_of,
    server_options,
    split_sources,
)
from dpsql.cli.output import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpsql.session_api import AnalystSession


def open_session(settings: CliSettings) -> AnalystSession:
    """Open a session on the database of the policy, or on a server."""
    if settings.server is not None:
        from dpsql.remote import connect

        return connect(settings.server)
    policy = settings.load_policy()
    from dpsql.session import Session

    return Session(policy, settings.analyst)


@contextmanager
def _open_for_statements(settings: CliSettings) -> Iterator[AnalystSession]:
    with progress("opening the data"):
        session = open_session(settings)
    database = getattr(session, "database", None)  # a server has its own
    if database is not None:
        database.on_vetting = lambda table: set_progress(
            table and f"verifying {table}, once for this version"
        )
    try:
        for text in session.messages:
            narrate.note(text)
        if settings.upload:
            send_uploads(session, settings.upload)
        ledger = getattr(session, "ledger", None)  # of a server, which verifies names, there is none
        lists = session.policy is None or session.policy.analysts
        if ledger is not None and ledger.is_new and not lists:
            narrate.warning(
                "names of analysts are not verified: the policy lists none under [analysts], "
                "so any name may ask"
            )
        yield session
    finally:
        # All charges and releases are durable by now, so errors on closing are not reported.
        with suppress(Exception):
            session.close()


def _tell_version(ctx: click.Context) -> None:
    """Write the version, and whether the installed engine is one that dpsql was tested with."""
    from dpsql.owner import engine_notice

    click.echo(f"dpsql {__version__}")
    if text := engine_notice():
        narrate.warning(text)
    ctx.exit()


_EPILOG = f"""\b
Exit codes:
{describe_exit_codes()}

\b
Examples:
  dpsql -c "SHOW TABLES"
  dpsql --dry-run -f report.sql
  dpsql --format csv -o top.csv -f report.sql
  dpsql -h db.example -p 5433 -U alice -c "SHOW PRIVACY BUDGET"
"""


_COMMANDS = {
    "audit": "check_and_audit",
    "bounds": "bounds",
    "budget": "budget",
    "check": "check_and_audit",
    "init": "init",
    "mcp": "serve",
    "release": "budget",
    "report": "report",
    "serve": "serve",
    "user": "user",
}
"""The modules of commands, which are imported when one is asked for, and not for a statement."""


class _Commands(InOrder):
    """The group of all commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in their order."""
        return sorted({*super().list_commands(ctx), *_COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a name."""
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        found: click.Command = getattr(
            import_module(f"dpsql.cli.{_COMMANDS[cmd_name]}"), f"{cmd_name}_command"
        )
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that arguments name; a file or a statement is no command, but has an option."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            import shlex
            from difflib import get_close_matches

            option = "-f" if Path(name).is_file() else "-c" if len(name.split()) > 1 else ""
            near = get_close_matches(name, self.list_commands(ctx), 1)
            hint = f"dpsql {option} {shlex.quote(name)}" if option else f"dpsql {near[0]}" if near else ""
            if hint:
                raise click.UsageError(f"{name!r} is no command\nHint: {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    epilog=_EPILOG,
    # The commands have -h for help; here it names a server.
    context_settings={"help_option_names": ["--help"], "max_content_width": 100},
)
@click.option(
    "-p",
    "--policy",
    envvar="DPSQL_POLICY",
    default="dpsql.toml",
    show_default=True,
    show_envvar=True,
    help="The owner's policy file; behind -h HOST, the port.",
)
@server_options
@click.option("--analyst", metavar="NAME", help="Name of the analyst, which the ledger records.")
@click.option("-c", "--command", metavar="SQL", multiple=True, help="Run statements (separated by ;).")
@click.option(
    "-f",
    "--file",
    metavar="FILE",
    multiple=True,
    help="Run a file's statements; - is standard input. -c and -f run in the order given.",
)
@click.option(
    "--format",
    type=click.Choice(FORMATS),
    help="How answers are written. [default: table on a terminal, else csv]",
)
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    help="Write answers to a file instead of standard output; several of arrow or parquet to a folder.",
)
@click.option(
    "--intervals",
    is_flag=True,
    help="Write the standard deviation and interval of each number, and gaps; not in table and markdown.",
)
@click.option(
    "--exact-digits",
    is_flag=True,
    help="Write all digits of noisy numbers; else those that the noise leaves, as tables show them.",
)
@click.option(
    "--width",
    type=Width(),
    metavar="COLUMNS",
    help="Cells of a line of a table, or full for as many as it takes. [default: the terminal's, else 120]",
)
@click.option(
    "--upload",
    metavar="NAME=FILE",
    multiple=True,
    help="Give statements a public table of your own, such as predictions: CSV or Parquet, its key first.",
)
@click.option("--dry-run", is_flag=True, help="Show what each statement would cost; run nothing.")
@click.option(
    "--partial",
    is_flag=True,
    help="When the statements together cost more than is left, run those that fit instead of none.",
)
@click.option(
    "--error",
    metavar="ERROR",
    help="Give each statement that names no price this error: in counts, or in percent (5%) of the policy's "
    "smallest_interesting.",
)
@click.option(
    "--epsilon-total",
    metavar="EPSILON",
    help="Divide an epsilon over all statements, so that those that name no price have even errors.",
)
@click.option(
    "--together",
    is_flag=True,
    help="Measure for all statements together and answer them from one estimate, at --epsilon.",
)
@click.option("--epsilon", metavar="EPSILON", help="What the statements of --together cost in all.")
@click.option(
    "--on-error",
    type=click.Choice(["stop", "continue"]),
    default="stop",
    show_default=True,
    help="What to do when a statement fails.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, asked: _tell_version(ctx) if asked else None,
    help="Show the version and exit.",
)
@click.pass_context
def app(
    ctx: click.Context,
    /,
    *,
    dry_run: bool,
    partial: bool,
    error: str | None,
    epsilon_total: str | None,
    together: bool,
    epsilon: str | None,
    **options: Any,  # noqa: ANN401  as declared above
) -> int:
    """Ask private data questions in SQL, with differential privacy.

    Without a command, -c or -f: an interactive shell. All statements given are parsed, analysed and
    priced before the first one runs; if the budget does not pay for them all, none runs. With -h HOST, a
    server answers (`dpsql serve`), in place of a policy on this machine.

    Answers go to standard output, everything else (prices, warnings, errors) to standard error.
    """
    if options["host"] == "":
        click.echo(ctx.get_help())
        return ExitCode.OK
    ctx.help_option_names = ["-h", "--help"]  # of the commands
    server = server_of(ctx, options)
    settings = CliSettings(
        **{name: options[name] for name in CliSettings.__dataclass_fields__ if name in options}, server=server
    )
    ctx.obj = settings
    given = ctx.meta[META]
    if ctx.invoked_subcommand is not None:
        if server is not None and ctx.invoked_subcommand != "checks":
            raise click.UsageError(
                f"`{ctx.invoked_subcommand}` works on the owner's files, not on a server\n"
                "Hint: statements do, such as -c 'SHOW PRIVACY BUDGET'"
            )
        if given or dry_run or partial or error or epsilon_total or together or epsilon:
            raise click.UsageError(
                "-c, -f, --dry-run, --partial, --error, --epsilon-total and --together go with statements, "
                "not with a command"
            )
        return ExitCode.OK
    if not given and (dry_run or partial or error or epsilon_total or together or epsilon):
        raise click.UsageError("--dry-run, --partial, --error, --epsilon-total and --together need -c or -f")
    if not given:
        return _run_repl(settings)
    if together or epsilon:
        from dpsql.cli.batch import run_together

        if not together or not epsilon or partial or error or epsilon_total:
            raise click.UsageError(
                "--together goes with --epsilon, and without --partial, --error and --epsilon-total"
            )
        amount = read_amount("--epsilon", epsilon)
        with settings.answers() as out, _open_for_statements(settings) as session:
            return run_together(session, out, split_sources(read_sources(given)), amount, dry=dry_run)
    from dpsql.cli.batch import Batch, ErrorTarget

    target = ErrorTarget.of(error, epsilon_total)
    pieces = split_sources(read_sources(given))
    if not pieces:
        return ExitCode.OK
    with settings.answers() as out, _open_for_statements(settings) as session:
        batch = Batch(session, out, partial=partial, go_on=settings.go_on, target=target)
        return batch.run(pieces, dry=dry_run)


def _run_repl(settings: CliSettings) -> int:
    """Run the interactive shell, or the statements of a pipe one after the other."""
    from dpsql.cli.repl import Repl, names_of
    from dpsql.cli.repl.line_input import open_reader

    with settings.answers() as out, _open_for_statements(settings) as session:
        lines = open_reader(cache(partial(names_of, session)))
        policy = Path(settings.policy) if settings.server is None else None
        repl = Repl(session, out, lines, policy, go_on=settings.go_on)
        try:
            return repl.run()
        finally:
            repl.output.close()


@app.group("checks")
def checks_group() -> None:
    """Run files of checks, which compare numbers with what is expected of them."""


@checks_group.command("run")
@click.argument("file")
@click.option(
    "--report",
    "reports",
    metavar="FILE",
    multiple=True,
    help="Write the report to a file, too: .html, .json or .txt.",
)
@click.option(
    "--set",
    "values",
    metavar="NAME=VALUE",
    multiple=True,
    help="The value of $NAME in the file: a date, a number or a text.",
)
@click.pass_obj
def checks_run(
    settings: CliSettings, /, *, file: str, reports: tuple[str, ...], values: tuple[str, ...]
) -> int:
    """Run the checks of a FILE: OPEN CHECKS, which opens a stream that is not open, and CHECK statements.

    Each runs, also after one that failed. Exit code 0: all are as expected; 6: something is off; else that of
    the first error.
    """
    from dpsql.cli.checks import check_reports, read_values, run_checks

    given, written = read_values(values), check_reports(reports)
    pieces = split_sources(read_sources([("file", file)]))
    if settings.format not in (None, "table", "json"):
        raise click.UsageError("checks are reported as a table or as JSON")
    with settings.answers("table") as out, _open_for_statements(settings) as session:
        report = run_checks(session, file, pieces, given)
        out.write_text(report.to_json() if settings.format == "json" else report.to_text(out.style))
    for path in written:
        path.write_text(report.written_as(path.suffix), "utf-8")
    return report.code


@app.command("demo")
@click.option("--serve", is_flag=True, help="Serve the data to two users instead, for PostgreSQL's clients.")
@click.pass_obj
def demo_command(settings: CliSettings, /, *, serve: bool) -> int:
    """Take a tour of two minutes on data that comes with dpsql."""
    from dpsql.cli import demo

    folder = demo.copy_data()
    if serve:
        from dpsql.cli.serve import serve_demo

        return serve_demo(folder, folder / demo.POLICY)
    policy = str(folder / demo.POLICY)
    with settings.answers("table") as out, _open_for_statements(replace(settings, policy=policy)) as session:
        code = demo.run_tour(session, out)
    narrate.say(f"\nData, policy and ledger are in {folder}. Go on with:\n  dpsql -p {policy}")
    return code


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
