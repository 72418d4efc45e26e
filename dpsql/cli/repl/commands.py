r"""The shell's state and commands: `.help` and others with a dot; `help`, `quit`, psql's `\d`, `\q`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dpsql.cli import narrate
from dpsql.cli.batch import write_result
from dpsql.cli.narrate import ExitCode, progress
from dpsql.cli.output import FORMATS
from dpsql.errors import ProgrammingError
from dpsql.render.figures import show_left
from dpsql.render.grid import escape_controls, wrap
from dpsql.render.readable import price

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dpsql.cli.output import AnswerOutput
    from dpsql.session_api import AnalystSession, PricedStatement, StatementResult


class LineReader(Protocol):
    """What the shell reads its lines from."""

    interactive: bool
    """Whether somebody is there to be asked."""

    def line(self, prompt: str, begun: str) -> str:
        """Return the next line, or several; `begun` is what a statement has so far. `EOFError` at the end."""

    def ask(self, question: str) -> bool:
        """Ask for a yes; anything else is a no."""


@dataclass
class ReplState:
    """What dot commands read and change."""

    session: AnalystSession
    """Whose budget pays."""
    output: AnswerOutput
    """Where answers go."""
    reader: LineReader
    """Where lines come from."""
    policy: Path | None = None
    """The policy's file, shown by `.policy`; None if it lies on a server."""
    go_on: bool = False
    """Go on after an error; somebody at a terminal always may."""
    timer: bool = False
    """Whether run times are shown."""
    last: StatementResult | None = None
    """The last answer with rows."""
    asked: str | None = None
    """The last private statement, for `.explain`."""
    done: bool = False
    code: ExitCode = ExitCode.OK
    """The first failure."""

    def note(self, code: ExitCode) -> None:
        """Remember the exit code of a failure; input from a pipe then ends, unless told to go on."""
        self.code = self.code or code
        if code and not self.reader.interactive and not self.go_on:
            self.done = True

    def statement(self, text: str) -> None:
        """Run one statement; ask first if its price is a large part of the remaining budget."""
        prepared = self.session.prepare(text)
        self.output.check()
        if prepared.private and not self._is_agreed(prepared):
            narrate.note("not run")
            return
        start = time.monotonic()
        with progress("counting"):
            answer = self.session.execute(prepared)
        took = time.monotonic() - start
        if prepared.private:
            self.asked = text
        if answer.table.num_columns:
            self.last = answer
        write_result(self.session, self.output, answer)
        if self.timer:
            narrate.note(f"{took:.3f} s")

    def _is_agreed(self, prepared: PricedStatement) -> bool:
        """Ask before more than a quarter of what is left is spent; what does not fit is refused anyway."""
        remaining, cost = self.session.budget().remaining, prepared.price
        cap = self.session.max_epsilon_per_query
        dear = 4 * cost.epsilon > remaining.epsilon or 4 * cost.delta > remaining.delta
        if not dear or not cost.fits(remaining) or (cap is not None and cost.epsilon > cap):
            return True
        rest = f"epsilon {show_left(remaining.epsilon)}"
        rest += f", delta {show_left(remaining.delta)}" if cost.delta else ""
        return self.reader.ask(f"this takes {price(cost)} of the {rest} left; run it? [y/N] ")


def command_in(line: str) -> str | None:
    r"""Return the dot command that a line is, also one of psql or of MySQL; None if it is SQL.

    >>> command_in("\\dt;"), command_in("quit"), command_in("\\d visits"), command_in("quit me")
    ('.tables', '.quit', '.tables visits', None)
    """
    text = line.strip().removesuffix(";").rstrip()
    word, _, argument = text.partition(" ")
    if word.startswith((".", "\\")):
        return f"{_OTHERS.get(word, word)} {argument.strip()}".rstrip()
    return _WORDS.get(text.lower())


def leaves_statement(line: str) -> bool:
    r"""Whether a line within an unfinished statement is a command, which drops the statement.

    >>> leaves_statement(".quit"), leaves_statement("\\q"), leaves_statement(".5 AS half")
    (True, True, False)
    """
    word = line.strip().removesuffix(";").partition(" ")[0]
    return word in COMMANDS or word in _OTHERS


def run(repl: ReplState, line: str) -> None:
    """Run one dot command; a unique prefix of its name is enough."""
    word, _, argument = line.removesuffix(";").partition(" ")
    matches = [name for name in COMMANDS if name == word] or [n for n in COMMANDS if n.startswith(word)]
    if len(matches) != 1 or word == ".":
        raise ProgrammingError(f"there is no command {word}\nHint: .help lists them")
    COMMANDS[matches[0]][0](repl, argument.strip())


def _help(repl: ReplState, argument: str) -> None:
    widest = max(len(usage) for _, usage, _ in COMMANDS.values())
    columns = repl.output.style.columns or 80
    lines = []
    for _, usage, text in COMMANDS.values():
        parts = wrap(text, max(columns - widest - 2, 20))
        lines += [f"{usage.ljust(widest)}  {parts[0]}", *(" " * (widest + 2) + part for part in parts[1:])]
    for text in ("", *_BELOW):
        lines += wrap(text, columns)
    repl.output.write_text("\n".join(lines) + "\n")


_BELOW = (
    "help, quit, exit and psql's \\? \\q \\d \\dt \\i \\o \\timing work as well.",
    "All else is SQL, up to a semicolon. Tab completes.",
    "Ctrl-C cancels a statement (its charge stays); Ctrl-D and commands leave an unfinished one.",
)


def _tables(repl: ReplState, argument: str) -> None:
    repl.statement(f'DESCRIBE "{argument.replace(chr(34), chr(34) * 2)}"' if argument else "SHOW TABLES")


def _policy(repl: ReplState, argument: str) -> None:
    if repl.policy is None:
        raise ProgrammingError("the policy lies on the server\nHint: .tables shows what it declares")
    try:
        text = repl.policy.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise ProgrammingError("the policy's file cannot be read") from None
    lines = (escape_controls(line, repl.output.style.encoding) for line in text.splitlines())
    repl.output.write_text("\n".join(lines) + "\n")


def _explain(repl: ReplState, argument: str) -> None:
    text = argument or repl.asked
    if not text:
        raise ProgrammingError("nothing to explain yet\nHint: .explain SELECT ...")
    repl.statement(f"EXPLAIN {text}")


def _run_statement(statement: str) -> Callable[[ReplState, str], None]:
    return lambda repl, argument: repl.statement(statement)


def _mode(repl: ReplState, argument: str) -> None:
    if not argument:
        narrate.note(f"the format is {repl.output.format}; there are {', '.join(FORMATS)}")
        return
    if argument not in FORMATS:
        raise ProgrammingError(f"there is no format {argument}\nHint: {', '.join(FORMATS)}")
    repl.output.format = argument


def _output(repl: ReplState, argument: str) -> None:
    fresh = repl.output.like(repl.output.format, argument or None)
    fresh.check()
    fresh.apart = repl.output.apart or bool(argument)
    repl.output.close()
    repl.output = fresh
    narrate.note(f"answers go to {argument or 'standard output'}")


def _timer(repl: ReplState, argument: str) -> None:
    repl.timer = _switch(".timer", argument, now=repl.timer)
    narrate.note(f"the timer is {'on' if repl.timer else 'off'}")


def _pager(repl: ReplState, argument: str) -> None:
    repl.output.pager = _switch(".pager", argument, now=repl.output.pager)
    narrate.note(f"the pager is {'on' if repl.output.pager else 'off'}")


def _intervals(repl: ReplState, argument: str) -> None:
    repl.output.intervals = _switch(".intervals", argument, now=repl.output.intervals)
    said = "are written" if repl.output.intervals else "are left out"
    narrate.note(f"standard deviations, intervals and gaps {said} in csv, json, jsonl, arrow, parquet")


def _switch(name: str, argument: str, *, now: bool) -> bool:
    """Return whether a switch is on; without an argument it changes."""
    if argument not in ("", "on", "off"):
        raise ProgrammingError(f"{name} takes on or off")
    return argument == "on" or (not argument and not now)


def _read(repl: ReplState, argument: str) -> None:
    import click

    from dpsql.cli.batch import Batch
    from dpsql.cli.options import read_sources, split_sources

    if not argument:
        raise ProgrammingError(".read takes a file")
    try:
        pieces = split_sources(read_sources([("file", argument)]))
    except click.UsageError as problem:
        raise ProgrammingError(problem.format_message()) from None
    repl.note(Batch(repl.session, repl.output, go_on=repl.go_on).run(pieces))


def _chart(repl: ReplState, argument: str) -> None:
    from dpsql.render.picture_choice import picture_of, picture_of_rows
    from dpsql.render.table import is_untouched
    from dpsql.render.text_pictures import text_picture

    if repl.last is None:
        raise ProgrammingError("nothing to draw yet: ask something first")
    rows, release = repl.last.table, repl.last.release
    picture = picture_of(release) if is_untouched(release, rows) else picture_of_rows(rows)
    if picture is None:
        raise ProgrammingError("the last answer has no number to draw")
    repl.output.write_text(text_picture(picture, repl.output.style))


_SUFFIXES = {"txt": "table", "md": "markdown", "feather": "arrow", "ndjson": "jsonl"}
"""Ends of file names that are not the name of a format."""


def _save(repl: ReplState, argument: str) -> None:
    if not argument:
        raise ProgrammingError(".save takes a file, such as .save top.csv or .save top.svg")
    if repl.last is None:
        raise ProgrammingError("nothing to save yet: ask something first")
    suffix = argument.rpartition(".")[2].lower()
    name = _SUFFIXES.get(suffix, suffix)
    fresh = repl.output.like("table" if name in ("html", "svg") else name, argument)
    try:
        if name in ("html", "svg"):
            fresh.check()
            fresh.write_text(_draw_answer(repl, name))
        elif name in FORMATS:
            fresh.check()
            fresh.write(repl.last.table, repl.last.release)
        else:
            known = ", ".join([*FORMATS, "html", "svg", *_SUFFIXES])
            raise ProgrammingError(f"the end of {argument} names no format\nHint: it is one of {known}")
    finally:
        fresh.close()
    narrate.note(f"the last answer is in {argument}")


def _draw_answer(repl: ReplState, name: str) -> str:
    """Return the last answer as a page or as a chart."""
    release = None if repl.last is None else repl.last.release
    if release is None:
        raise ProgrammingError(f"only answers of private statements are drawn as {name}")
    if name == "svg":
        return release.to_svg()
    from dpsql.render.html import document

    return document(release.selection, release.to_html())


def _quit(repl: ReplState, argument: str) -> None:
    repl.done = True


COMMANDS: dict[str, tuple[Callable[[ReplState, str], None], str, str]] = {
    ".help": (_help, ".help", "this list"),
    ".tables": (_tables, ".tables [NAME]", "tables, or one table's columns and their public domains"),
    ".policy": (_policy, ".policy", "the owner's policy, which is public to analysts"),
    ".budget": (_run_statement("SHOW PRIVACY BUDGET"), ".budget", "what is spent and what is left"),
    ".explain": (_explain, ".explain [SQL]", "how a statement (or the last one) is read, and its price"),
    ".releases": (_run_statement("SHOW RELEASES"), ".releases", "your releases so far"),
    ".mode": (_mode, ".mode [FORMAT]", f"how answers are written: {', '.join(FORMATS)}"),
    ".output": (_output, ".output [FILE]", "write answers to a file; without one, here again"),
    ".intervals": (_intervals, ".intervals [on|off]", "write intervals in csv, json, jsonl, arrow, parquet"),
    ".pager": (_pager, ".pager [on|off]", "show answers longer than the terminal by a pager"),
    ".timer": (_timer, ".timer [on|off]", "show how long statements take"),
    ".read": (_read, ".read FILE", "run a file; it is priced as a whole before its first statement runs"),
    ".chart": (_chart, ".chart", "draw the last answer: a line over time, bars, a shaded table, .."),
    ".save": (
        _save,
        ".save FILE",
        "write the last answer to a file: .csv, .parquet, .html, .svg (a chart), ..",
    ),
    ".quit": (_quit, ".quit", "leave (so do .exit and Ctrl-D)"),
    ".exit": (_quit, ".exit", "leave"),
}
"""Name -> what it does, how it is written, what it is for."""
_WORDS = {"help": ".help", "?": ".help", "quit": ".quit", "exit": ".quit"}
"""Words that are a command where they stand alone."""
_OTHERS = {
    "\\?": ".help",
    "\\h": ".help",
    "\\q": ".quit",
    "\\d": ".tables",
    "\\dt": ".tables",
    "\\i": ".read",
    "\\o": ".output",
    "\\timing": ".timer",
}
"""psql's commands."""
