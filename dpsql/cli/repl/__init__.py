"""The interactive shell (`Repl`): statements until `;`, dot commands, the epsilon left in the prompt.

It reads lines by ``line_input``, which also completes words in them; ``commands`` runs the dot commands.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING

from dpsql.cli import narrate
from dpsql.cli.narrate import ExitCode
from dpsql.cli.output import FORMATS
from dpsql.cli.repl import commands
from dpsql.cli.repl.commands import ReplState
from dpsql.cli.repl.line_input import CompletionNames, is_complete
from dpsql.errors import Error, QueryRefused
from dpsql.render.figures import show_left

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpsql.session_api import AnalystSession

_MOST_VALUES = 500
"""Public values offered for one column."""

_GREETING = "dpsql: statements end with ;  help lists commands, quit leaves"
_DROPPED = "the unfinished statement is dropped"


class Repl(ReplState):
    """The interactive shell over one session."""

    def run(self) -> ExitCode:
        """Read and run until the end; return a pipe's first failure as exit code, for a terminal OK."""
        if self.reader.interactive:
            narrate.say(_GREETING)
            # The prompts keep results apart.
            self.output.apart = False
            self.output.pager = sys.stdout.isatty()
        begun = ""
        while not self.done:
            try:
                begun = self._take(begun, self.reader.line(self._prompt(), begun))
            except EOFError:
                if begun.strip() and self.reader.interactive:
                    narrate.say("")
                    narrate.note(_DROPPED)
                    begun = ""
                    continue
                self.done = True
                if begun.strip():
                    self._guard(partial(self.statements, begun))
                elif self.reader.interactive:
                    narrate.say("")
            except KeyboardInterrupt:
                if not self.reader.interactive:
                    raise
                narrate.say("")
                begun = ""
        return ExitCode.OK if self.reader.interactive else self.code

    def _take(self, begun: str, line: str) -> str:
        """Run the text if it is complete; return it if it is not."""
        command = None if begun else commands.command_in(line)
        last = line.rpartition("\n")[2]
        if self.reader.interactive and command is None and commands.leaves_statement(last):
            if begun or line != last:
                narrate.note(_DROPPED)
            command = commands.command_in(last)
        if command is not None:
            self._guard(partial(commands.run, self, command))
            return ""
        begun = f"{begun}{line}\n" if begun or line.strip() else ""
        if not begun or not is_complete(begun):
            return begun
        self._guard(partial(self.statements, begun))
        return ""

    def _guard(self, action: Callable[[], None]) -> None:
        """Run an action and report its error; the shell goes on."""
        try:
            action()
        except KeyboardInterrupt as problem:
            self.session.cancel()
            self.note(narrate.failure(problem))
        except BrokenPipeError:
            raise
        except Exception as problem:  # noqa: BLE001  a bug must neither show private values nor end the shell
            self.note(narrate.failure(problem))

    def _prompt(self) -> str:
        if not self.reader.interactive:
            return ""
        try:
            return f"dpsql (epsilon {show_left(self.session.budget().remaining.epsilon)} left)> "
        except Error:
            # A busy ledger must not end the shell; the next statement will tell.
            return "dpsql> "

    def statements(self, text: str) -> None:
        """Run one statement after the other; the first that fails ends them."""
        from dpsql.language import split_script

        for statement in split_script(text):
            self.statement(statement)


def names_of(session: AnalystSession) -> CompletionNames:
    """Collect names for completion; reads public facts only, at no cost."""
    tables: dict[str, tuple[str, ...]] = {}
    try:
        for name in session.run("SHOW TABLES").table.column(0).to_pylist():
            quoted = '"' + name.replace('"', '""') + '"'
            tables[name] = ()  # a view may be one that cannot be read
            with suppress(QueryRefused):
                tables[name] = tuple(session.run(f"DESCRIBE {quoted}").table.column(0).to_pylist())
    except Error:
        # Completion is a convenience: without names there are still the keywords.
        pass
    return CompletionNames(
        tables, tuple(commands.COMMANDS), FORMATS, cache(partial(_public_values, session, tables))
    )


def _public_values(
    session: AnalystSession, tables: dict[str, tuple[str, ...]], column: str
) -> tuple[str, ...]:
    """Return a column's public values: those the policy declares, or those of a public table."""
    from dpsql.policy import TableDomain, ValuesDomain

    places = []
    if session.policy is None:
        return _values_on_server(session, tables, column)
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


def _values_on_server(
    session: AnalystSession, tables: dict[str, tuple[str, ...]], column: str
) -> tuple[str, ...]:
    """Return the declared values of a column, of the first table that declares some."""
    for table, columns in tables.items():
        if column.lower() in (name.lower() for name in columns):
            name, of = ('"' + part.replace('"', '""') + '"' for part in (table, column))
            with suppress(Error):
                found = session.run(f"SELECT * FROM dp_domain({name}.{of}) LIMIT {_MOST_VALUES}")
                return tuple(value for value in found.table.column(0).to_pylist() if isinstance(value, str))
    return ()
