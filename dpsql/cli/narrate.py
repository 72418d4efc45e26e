"""Messages on stderr: errors with their place and hint, warnings, charges, progress."""

from __future__ import annotations

import sys

import click

from dpsql.cli.exits import ExitCode, OutputFailedError, UnchargedInterrupt, UnwritableError, exit_code
from dpsql.errors import Error, InternalError, PolicyError, QueryRefused, QuerySyntaxError
from dpsql.render.cells import escape_controls, wrap


def say(text: str) -> None:
    """Write lines to stderr, with control characters escaped."""
    encoding = sys.stderr.encoding or "utf-8"
    lines = (escape_controls(line, encoding) for line in text.split("\n"))
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


def note(text: str) -> None:
    """Write a note: `dpsql: ...`."""
    say(_fold_lines(f"dpsql: {text}"))


def warning(text: str) -> None:
    """Write a warning: `dpsql: warning: ...`."""
    say(_fold_lines(f"dpsql: warning: {text}"))


def error(problem: Exception | str, *, where: str = "", line: int = 1) -> None:
    """Report an error as `dpsql: error: ...`, its caret and hint in the lines below.

    `where` is the statement's place, shown before the message: `"report.sql:14"`. `line` is the line of the
    file that the statement starts in, and is added to the error's own.
    """
    if isinstance(problem, (PolicyError, QueryRefused, QuerySyntaxError)):
        problem = problem.below(line - 1)
    text = str(problem) or type(problem).__name__
    if isinstance(problem, InternalError) and "bug" not in text:
        text += "\nHint: this is a bug of dpsql; please report it"
    say(_fold_hints(f"dpsql: error: {where + ': ' if where else ''}{text}"))


def _fold_hints(text: str) -> str:
    """Break hints at the terminal's width; other lines stay as they are, so that carets point right."""
    lines = [_fold_lines(line) if line.startswith("Hint: ") else line for line in text.split("\n")]
    return "\n".join(lines)


def _fold_lines(text: str) -> str:
    """Break each line at blanks at the terminal's width; a pipe gets them as they are."""
    if not sys.stderr.isatty():
        return text
    import shutil

    cells = shutil.get_terminal_size().columns
    return "\n".join(part for line in text.split("\n") for part in wrap(line, cells))


def failure(problem: BaseException) -> ExitCode:
    """Report what ended a command or a statement, and return its exit code.

    No traceback is shown, and of an unexpected error only its type: its text may hold private values.
    """
    if isinstance(problem, (KeyboardInterrupt, click.Abort)):
        # In a line of its own, below the terminal's `^C`.
        kept = str(problem) if isinstance(problem, UnchargedInterrupt) else "what was charged stays charged"
        say("\n" * sys.stderr.isatty() + f"dpsql: interrupted; {kept}")
    elif isinstance(problem, click.UsageError):
        command = problem.ctx.command_path if problem.ctx is not None else "dpsql"
        text = problem.format_message()
        error(text if "\nHint: " in text else f"{text}\nHint: {command} --help")
    elif isinstance(problem, (Error, UnwritableError, OutputFailedError)):
        error(problem)
    else:
        error(
            f"internal error ({type(problem).__name__}): this is a bug of dpsql, please report it "
            "(no details are shown, they could be private)"
        )
    return exit_code(problem)
