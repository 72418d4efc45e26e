"""Messages on stderr: errors with their place and hint, warnings, charges, progress."""

from __future__ import annotations

import copy
import shutil
import sys

from dpsql.errors import Error, InternalError
from dpsql.render.cells import escape_controls, folded

__all__ = ["bug", "error", "interrupted", "note", "say", "unverified", "warning"]


def say(text: str) -> None:
    """Write lines to stderr, with control characters escaped."""
    encoding = sys.stderr.encoding or "utf-8"
    lines = (escape_controls(line, encoding) for line in text.split("\n"))
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


def note(text: str) -> None:
    """Write a note: `dpsql: ...`."""
    say(f"dpsql: {text}")


def warning(text: str) -> None:
    """Write a warning: `dpsql: warning: ...`."""
    say(f"dpsql: warning: {text}")


def unverified() -> None:
    """Warn that names of analysts are not verified, so that their limits can be evaded; once a session."""
    warning("names of analysts are not verified: the policy lists none under [analysts], so any name may ask")


def error(problem: Exception | str, *, where: str = "", line: int = 1) -> None:
    """Report an error as `dpsql: error: ...`, its caret and hint in the lines below.

    Parameters
    ----------
    problem
        One of `dpsql.errors`, or a sentence.
    where
        The statement's place, shown before the message: `"report.sql:14"`.
    line
        The line of the file that the statement starts in, added to the error's own.
    """
    if isinstance(problem, Error) and getattr(problem, "line", None) is not None:
        problem = copy.copy(problem)
        problem.line += line - 1  # type: ignore[attr-defined]  # QuerySyntaxError, QueryRefused, PolicyError
    text = str(problem) or type(problem).__name__
    if isinstance(problem, InternalError) and "bug" not in text:
        text += "\nHint: this is a bug of dpsql; please report it"
    say(_fitted(f"dpsql: error: {where + ': ' if where else ''}{text}"))


def _fitted(text: str) -> str:
    """Break hints at the terminal's width; other lines stay as they are, so that carets point right."""
    if not sys.stderr.isatty():
        return text
    cells = shutil.get_terminal_size().columns
    lines = [folded(line, cells) if line.startswith("Hint: ") else [line] for line in text.split("\n")]
    return "\n".join(part for parts in lines for part in parts)


def interrupted() -> None:
    """Report the interruption by Ctrl-C, in a line of its own below the terminal's `^C`."""
    say("\n" * sys.stderr.isatty() + "dpsql: interrupted; what was charged stays charged")


def bug(problem: BaseException) -> None:
    """Report an unexpected error by its type alone: its text and traceback may hold private values."""
    say(
        f"dpsql: error: internal error ({type(problem).__name__}): this is a bug of dpsql, please report it "
        "(no details are shown, they could be private)"
    )
