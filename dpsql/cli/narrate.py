"""What the commands write on stderr: messages, errors with hint and exit code, warnings, charges, progress.

Progress: an analyst is told the time alone. How many rows or bytes were read, and what part of all, may be
private: only the owner's commands give them.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from enum import IntEnum
from typing import TextIO

import click

from dpsql import errors
from dpsql.errors import Error, InternalError, PolicyError, QueryRefused, QuerySyntaxError
from dpsql.render.grid import escape_controls, wrap


class UnwritableError(Exception):
    """The output cannot be written; found before anything was charged."""


class OutputFailedError(Exception):
    """Writing an answer failed after it was charged."""


class UnchargedInterrupt(click.Abort):
    """Ctrl-C in a command that charges nothing; its text says what it leaves behind."""


@contextmanager
def without_charge(leaves: str) -> Iterator[None]:
    """Turn a Ctrl-C in the block into `UnchargedInterrupt`, whose text is `leaves`."""
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        raise UnchargedInterrupt(leaves) from None


class ExitCode(IntEnum):
    """Exit codes of the process."""

    OK = 0
    """Everything asked for was done."""
    QUERY_FAILED = 1
    """A statement is wrong or failed, or dpsql has a bug."""
    USAGE = 2
    """The command line or the policy is wrong; nothing ran."""
    DATABASE = 3
    """The engine, the ledger's file or the machine failed."""
    REFUSED = 4
    """A statement could not be proved private; it was not run and not charged."""
    BUDGET_EXCEEDED = 5
    """The budget does not pay for it; it was not run and not charged."""
    OFF = 6
    """A check of `dpsql checks run` is off."""
    INTERRUPTED = 130
    """Ctrl-C; what was charged stays charged."""


_TABLE: tuple[tuple[type[BaseException], ExitCode], ...] = (
    # The first that fits counts, so subclasses stand before their bases.
    (KeyboardInterrupt, ExitCode.INTERRUPTED),
    (click.Abort, ExitCode.INTERRUPTED),
    (click.UsageError, ExitCode.USAGE),
    (UnwritableError, ExitCode.USAGE),
    (errors.BudgetExceeded, ExitCode.BUDGET_EXCEEDED),
    (errors.OperationalError, ExitCode.DATABASE),
    (errors.PolicyError, ExitCode.USAGE),
    (errors.NotSupportedError, ExitCode.REFUSED),
    (BaseException, ExitCode.QUERY_FAILED),
)


def exit_code(error: BaseException) -> ExitCode:
    """Return the exit code of an error.

    >>> exit_code(errors.QueryRefused("x")).name, exit_code(errors.InternalError("x")).name
    ('REFUSED', 'QUERY_FAILED')
    """
    return next(code for kind, code in _TABLE if isinstance(error, kind))


def describe_exit_codes() -> str:
    """Describe all codes, for `--help`."""
    words = {code: code.name.lower().replace("_", " ") for code in ExitCode}
    words |= {ExitCode.USAGE: "usage or policy", ExitCode.OFF: "a check is off"}
    return "\n".join(f"  {code.value:>3}  {words[code]}" for code in ExitCode)


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


_DELAY = 1.0
"""Seconds before work counts as long."""
_TICK = 0.2
_UNITS = ("B", "kB", "MB", "GB", "TB")


class Progress:
    """A line on a terminal that is written again while work goes on, and removed at its end."""

    def __init__(self, words: str, stream: TextIO, delay: float = _DELAY) -> None:
        self._words, self._stream, self._delay = words, stream, delay
        self._first = words
        self._start = time.monotonic()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._drawn = 0

    def show(self, words: str | None, done: int | None = None, total: int | None = None) -> None:
        """Say what is done now; None: what was said first. `done` and `total` are bytes, for the owner."""
        part = (
            ""
            if total is None
            else format_size(total)
            if done is None
            else f"{format_size(done)} of {format_size(total)}"
        )
        with self._lock:
            self._words = (words or self._first) + (f", {part}" if part else "")

    def line(self) -> str:
        """Return the line that is drawn now: the work and its seconds."""
        seconds = int(time.monotonic() - self._start)
        clock = f"{seconds} s" if seconds < 120 else f"{seconds // 60}:{seconds % 60:02} min"
        return f"dpsql: {escape_controls(self._words)}, {clock}"

    def run(self) -> None:
        """Draw until the work has ended; the body of a thread."""
        pause = self._delay
        while not self._ended.wait(pause):
            with self._lock:
                if not self._ended.is_set():
                    self._draw(self.line())
            pause = _TICK

    def end(self) -> None:
        """Remove the line; nothing is drawn any more."""
        self._ended.set()
        with self._lock:
            self._remove()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Draw nothing in a block, in which somebody is asked."""
        with self._lock:
            self._remove()
            yield

    def _remove(self) -> None:
        if self._drawn:
            self._write("\r" + " " * self._drawn + "\r")
            self._drawn = 0

    def _draw(self, text: str) -> None:
        text = text[: max(1, shutil.get_terminal_size().columns - 1)]
        self._write("\r" + text.ljust(self._drawn))
        self._drawn = max(self._drawn, len(text))

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone, or cannot show a character
            self._ended.set()


_active: list[Progress] = []


@contextmanager
def progress(words: str) -> Iterator[None]:
    """Show on a terminal, if the block takes longer than a second, what is done."""
    if not sys.stderr.isatty():
        yield
        return
    shown = Progress(words, sys.stderr)
    thread = threading.Thread(target=shown.run, daemon=True)
    _active.append(shown)
    thread.start()
    try:
        yield
    finally:
        _active.remove(shown)
        shown.end()


def set_progress(words: str | None, done: int | None = None, total: int | None = None) -> None:
    """Set the words of the progress line that is shown now, if there is one."""
    if _active:
        _active[-1].show(words, done, total)


@contextmanager
def pause_progress() -> Iterator[None]:
    """Show nothing in a block, in which somebody is asked."""
    with _active[-1].pause() if _active else nullcontext():
        yield


def format_size(number: int) -> str:
    """Write a number of bytes.

    >>> format_size(999), format_size(1_200_000), format_size(3 * 10**12)
    ('999 B', '1.2 MB', '3.0 TB')
    """
    amount, unit = float(number), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit else f"{number} B"
