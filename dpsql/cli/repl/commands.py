"""The REPL's dot commands, such as `.help` and `.mode`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.cli import narrate
from dpsql.cli.output import FORMATS, Output
from dpsql.errors import ProgrammingError
from dpsql.render.cells import escape_controls

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpsql.cli.repl.state import ReplState


def run(repl: ReplState, line: str) -> None:
    """Run one dot command; a unique prefix of its name is enough."""
    word, _, argument = line.removesuffix(";").partition(" ")
    matches = [name for name in COMMANDS if name == word] or [n for n in COMMANDS if n.startswith(word)]
    if len(matches) != 1 or word == ".":
        raise ProgrammingError(f"there is no command {word}\nHint: .help lists them")
    COMMANDS[matches[0]][0](repl, argument.strip())


def _help(repl: ReplState, argument: str) -> None:
    widest = max(len(usage) for _, usage, _ in COMMANDS.values())
    lines = [f"{usage.ljust(widest)}  {text}" for _, usage, text in COMMANDS.values()]
    lines += ["", "Everything else is SQL and ends with ;", "Ctrl-C cancels a statement (its charge stays)."]
    repl.output.write_text("\n".join(lines) + "\n")


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


def _running(statement: str) -> Callable[[ReplState, str], None]:
    return lambda repl, argument: repl.statement(statement)


def _mode(repl: ReplState, argument: str) -> None:
    if not argument:
        narrate.note(f"the format is {repl.output.format}; there are {', '.join(FORMATS)}")
        return
    if argument not in FORMATS:
        raise ProgrammingError(f"there is no format {argument}\nHint: {', '.join(FORMATS)}")
    repl.output.format = argument


def _output(repl: ReplState, argument: str) -> None:
    fresh = Output(repl.output.format, argument or None)
    fresh.check()
    fresh.apart = repl.output.apart or bool(argument)
    repl.output.close()
    repl.output = fresh
    narrate.note(f"answers go to {argument or 'standard output'}")


def _timer(repl: ReplState, argument: str) -> None:
    if argument not in ("", "on", "off"):
        raise ProgrammingError(".timer takes on or off")
    repl.timer = argument == "on" or (not argument and not repl.timer)
    narrate.note(f"the timer is {'on' if repl.timer else 'off'}")


def _read(repl: ReplState, argument: str) -> None:
    import click

    from dpsql.cli.batch import Batch
    from dpsql.cli.sources import read, statements

    if not argument:
        raise ProgrammingError(".read takes a file")
    try:
        pieces = statements(read([("file", argument)]))
    except click.UsageError as problem:
        raise ProgrammingError(problem.format_message()) from None
    repl.note(Batch(repl.session, repl.output, go_on=repl.go_on).run(pieces))


def _chart(repl: ReplState, argument: str) -> None:
    from dpsql.render.table import as_chart

    if repl.last is None:
        raise ProgrammingError("nothing to draw yet: ask something first")
    repl.output.write_text(as_chart(repl.last.table, repl.last.release, repl.output.style))


def _quit(repl: ReplState, argument: str) -> None:
    repl.done = True


COMMANDS: dict[str, tuple[Callable[[ReplState, str], None], str, str]] = {
    ".help": (_help, ".help", "this list"),
    ".tables": (_tables, ".tables [NAME]", "tables, or one table's columns and their public domains"),
    ".policy": (_policy, ".policy", "the owner's policy, which is public to analysts"),
    ".budget": (_running("SHOW PRIVACY BUDGET"), ".budget", "what is spent and what is left"),
    ".explain": (_explain, ".explain [SQL]", "how a statement (or the last one) is read, and its price"),
    ".releases": (_running("SHOW RELEASES"), ".releases", "your releases so far"),
    ".mode": (_mode, ".mode [FORMAT]", f"how answers are written: {', '.join(FORMATS)}"),
    ".output": (_output, ".output [FILE]", "write answers to a file; without one, here again"),
    ".timer": (_timer, ".timer [on|off]", "show how long statements take"),
    ".read": (_read, ".read FILE", "run a file; it is priced as a whole before its first statement runs"),
    ".chart": (_chart, ".chart", "draw the last answer as bars"),
    ".quit": (_quit, ".quit", "leave (so do .exit and Ctrl-D)"),
    ".exit": (_quit, ".exit", "leave"),
}
"""Name -> what it does, how it is written, what it is for."""
