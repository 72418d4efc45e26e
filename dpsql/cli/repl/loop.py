"""The interactive shell: statements until `;`, dot commands, the epsilon left in the prompt."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from dpsql.cli import narrate
from dpsql.cli.batch import write_result
from dpsql.cli.exits import ExitCode, exit_code
from dpsql.cli.output import FORMATS, Output, OutputFailedError, UnwritableError
from dpsql.cli.repl import commands
from dpsql.cli.repl.completion import Names
from dpsql.cli.repl.line_input import complete
from dpsql.errors import Error
from dpsql.render.figures import left
from dpsql.render.readable import price

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dpsql.cli.repl.line_input import Reader
    from dpsql.session import Prepared, Session, StatementResult

__all__ = ["Repl", "names_of"]

_MOST_VALUES = 500
"""Public values offered for one column."""

_GREETING = "dpsql: statements end with ;  .help lists commands, .quit leaves"


@dataclass
class Repl:
    """The interactive shell over one session.

    Attributes
    ----------
    session
        Whose budget pays.
    output
        Where answers go.
    reader
        Where lines come from.
    policy
        The policy's file, shown by `.policy`.
    go_on
        Go on after an error; somebody at a terminal always may.
    timer
        Whether run times are shown.
    last
        The last answer with rows.
    asked
        The last private statement, for `.explain`.
    """

    session: Session
    output: Output
    reader: Reader
    policy: Path
    go_on: bool = False
    timer: bool = False
    last: StatementResult | None = None
    asked: str | None = None
    done: bool = False
    _code: ExitCode = ExitCode.OK

    def run(self) -> ExitCode:
        """Read and run until the end; return a pipe's first failure as exit code, for a terminal OK."""
        if self.reader.interactive:
            narrate.say(_GREETING)
            # The prompts keep results apart.
            self.output.apart = False
        begun = ""
        while not self.done:
            try:
                begun = self._take(begun, self.reader.line(self._prompt(), begun))
            except EOFError:
                self.done = True
                if begun.strip():
                    self._guarded(partial(self.statements, begun))
                elif self.reader.interactive:
                    narrate.say("")
            except KeyboardInterrupt:
                if not self.reader.interactive:
                    raise
                narrate.say("")
                begun = ""
        return ExitCode.OK if self.reader.interactive else self._code

    def _take(self, begun: str, line: str) -> str:
        """Run the text if it is complete; return it if it is not."""
        if not begun and line.lstrip().startswith("."):
            self._guarded(partial(commands.run, self, line.strip()))
            return ""
        begun = f"{begun}{line}\n" if begun or line.strip() else ""
        if not begun or not complete(begun):
            return begun
        self._guarded(partial(self.statements, begun))
        return ""

    def _guarded(self, action: Callable[[], None]) -> None:
        """Run an action and report its error; the shell goes on."""
        try:
            action()
        except KeyboardInterrupt:
            self.session.cancel()
            narrate.interrupted()
            self.note(ExitCode.INTERRUPTED)
        except (Error, OutputFailedError) as problem:
            narrate.error(problem)
            self.note(exit_code(problem))
        except UnwritableError as problem:
            narrate.error(problem)
            self.note(ExitCode.USAGE)
        except BrokenPipeError:
            raise
        except Exception as problem:  # noqa: BLE001  a bug must neither show private values nor end the shell
            narrate.bug(problem)
            self.note(ExitCode.QUERY_FAILED)

    def note(self, code: ExitCode) -> None:
        """Remember a failure; in a pipe it ends the shell, unless it is to go on."""
        self._code = self._code or code
        if code and not self.reader.interactive and not self.go_on:
            self.done = True

    def _prompt(self) -> str:
        if not self.reader.interactive:
            return ""
        try:
            return f"dpsql (epsilon {left(self.session.budget().remaining.epsilon)} left)> "
        except Error:
            # A busy ledger must not end the shell; the next statement will tell.
            return "dpsql> "

    # -- statements

    def statements(self, text: str) -> None:
        """Run one statement after the other; the first that fails ends them."""
        from dpsql.language import split

        for statement in split(text):
            self.statement(statement)

    def statement(self, text: str) -> None:
        """Run one statement; ask before, if it takes much of what is left."""
        prepared = self.session.prepare(text)
        self.output.check()
        if prepared.private and not self._agreed(prepared):
            narrate.note("not run")
            return
        start = time.monotonic()
        answer = self.session.execute(prepared)
        took = time.monotonic() - start
        if prepared.private:
            self.asked = text
        if answer.table.num_columns:
            self.last = answer
        write_result(self.session, self.output, answer)
        if self.timer:
            narrate.note(f"{took:.3f} s")

    def _agreed(self, prepared: Prepared) -> bool:
        """Ask before more than a quarter of what is left is spent; what does not fit is refused anyway."""
        remaining, cost = self.session.budget().remaining, prepared.price
        cap = self.session.policy.budget.max_epsilon_per_query
        dear = 4 * cost.epsilon > remaining.epsilon or 4 * cost.delta > remaining.delta
        if not dear or not cost.fits(remaining) or (cap is not None and cost.epsilon > cap):
            return True
        rest = f"epsilon {left(remaining.epsilon)}"
        rest += f", delta {left(remaining.delta)}" if cost.delta else ""
        return self.reader.ask(f"this takes {price(cost)} of the {rest} left; run it? [y/N] ")


def names_of(session: Session) -> Names:
    """Collect names for completion; reads public facts only, at no cost."""
    tables: dict[str, tuple[str, ...]] = {}
    try:
        for name in session.run("SHOW TABLES").table.column(0).to_pylist():
            quoted = '"' + name.replace('"', '""') + '"'
            tables[name] = tuple(session.run(f"DESCRIBE {quoted}").table.column(0).to_pylist())
    except Error:
        # Completion is a convenience: without names there are still the keywords.
        pass
    return Names(tables, tuple(commands.COMMANDS), FORMATS, cache(partial(_values, session, tables)))


def _values(session: Session, tables: dict[str, tuple[str, ...]], column: str) -> tuple[str, ...]:
    """Return a column's public values: those the policy declares, or those of a public table."""
    from dpsql.policy import TableDomain, ValuesDomain

    places = []
    for table in session.policy.tables.values():
        domain = table.domain.get(column)
        if isinstance(domain, ValuesDomain):
            return tuple(value for value in domain.values if isinstance(value, str))
        if isinstance(domain, TableDomain):
            places.append((domain.table, domain.column))
        elif table.public and column.lower() in (name.lower() for name in tables.get(table.name, ())):
            places.append((table.name, column))
    for place in places:
        name, of = ('"' + part.replace('"', '""') + '"' for part in place)
        try:
            found = session.run(f"SELECT DISTINCT {of} FROM {name} ORDER BY {of} LIMIT {_MOST_VALUES}")
        except Error:
            continue
        return tuple(value for value in found.table.column(0).to_pylist() if isinstance(value, str))
    return ()
