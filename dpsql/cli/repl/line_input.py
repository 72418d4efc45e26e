"""Reads the shell's lines: with prompt_toolkit, else with Python's readline, else from a pipe."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.cli import narrate
from dpsql.cli.repl.commands import command_in, leaves_statement
from dpsql.cli.repl.completion import CompletionNames, completions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.document import Document

    from dpsql.cli.repl.state import LineReader


_COMMENTS = re.compile(r"--[^\n]*(?:\n|$)|/\*.*?\*/", re.DOTALL)


def complete(text: str) -> bool:
    """Whether the text ends a statement: a semicolon outside of quotes and comments, and no more after it."""
    from dpsql.language import split

    # If the semicolon counts, a word behind it is a statement of its own.
    parts = split(text + "\nSELECT")
    return len(parts) > 0 and _COMMENTS.sub("", parts[-1]).strip() == "SELECT" and bool(text.strip())


def reader(names: Callable[[], CompletionNames]) -> LineReader:
    """Return the best reader that is available."""
    if not sys.stdin.isatty():
        return Piped()
    try:
        return _Toolkit(names)
    except ImportError:
        narrate.note("editing over several lines, colours and menus come with: pip install 'dpsql[repl]'")
        return _Readline(names)


class Piped:
    """Reads lines of standard input when it is no terminal: no prompts, no questions."""

    interactive = False

    def line(self, prompt: str, begun: str) -> str:
        """Return the next line."""
        return _next_line()

    def ask(self, question: str) -> bool:
        """Return True: statements in a pipe run without questions."""
        return True


def _history() -> Path:
    """Return the history's file, readable by its owner alone: statements quote values."""
    file = Path.home() / ".dpsql_history"
    if not file.exists():
        os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
    return file


def _read_line(prompt: str) -> str:
    """Read one line; the prompt is no data, so it never goes to a stdout that is redirected."""
    if sys.stdout.isatty():
        return input(prompt)
    sys.stderr.write(prompt)
    sys.stderr.flush()
    return _next_line()


def _next_line() -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")


class _Terminal:
    """A terminal with somebody who can be asked."""

    interactive = True

    def __init__(self, read: Callable[[str], str]) -> None:
        self._read = read

    def line(self, prompt: str, begun: str) -> str:
        """Return what is typed behind the prompt, or behind one that shows that a statement goes on."""
        return self._read("...> ".rjust(len(prompt)) if begun else prompt)

    def ask(self, question: str) -> bool:
        """Ask in a line of its own, which the history does not keep."""
        return _read_line(question).strip().lower() in ("y", "yes")


class _Readline(_Terminal):
    """Python's own line editing, where prompt_toolkit is not installed."""

    def __init__(self, names: Callable[[], CompletionNames]) -> None:
        super().__init__(_read_line)
        self._names = names
        self._found: list[str] = []
        try:
            import readline
        except ImportError:  # Windows has none; plain lines then
            return
        try:
            readline.read_history_file(_history())
        except OSError:  # no home to keep a history in
            return
        import atexit

        readline.set_completer_delims(" \t\n,()=.")
        readline.set_completer(self._next)
        readline.parse_and_bind("tab: complete")
        atexit.register(readline.write_history_file, _history())

    def _next(self, word: str, state: int) -> str | None:
        import readline

        if state == 0:
            before = readline.get_line_buffer()[: readline.get_endidx()]
            size, found = completions(before, self._names())
            # readline replaces its own idea of the word, which may be shorter.
            self._found = [name[size - len(word) :] for name in found]
        return self._found[state] if state < len(self._found) else None


class _Toolkit(_Terminal):
    """Multi-line editing, highlighting, history and completion by prompt_toolkit and pygments."""

    def __init__(self, names: Callable[[], CompletionNames]) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.filters import Condition
        from prompt_toolkit.history import FileHistory, History, InMemoryHistory
        from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
        from prompt_toolkit.lexers import PygmentsLexer
        from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]  # pygments has no types

        keys = KeyBindings()

        @Condition
        def finished() -> bool:
            text = session.default_buffer.document.text
            if not text.strip() or command_in(text) is not None or complete(text):
                return True
            return leaves_statement(text.rpartition("\n")[2])

        @Condition
        def at_the_end_of_text() -> bool:
            document = session.default_buffer.document
            return bool(document.text) and document.is_cursor_at_the_end

        @keys.add("c-d", filter=at_the_end_of_text)
        def _(event: KeyPressEvent) -> None:
            event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

        @keys.add("enter", filter=finished)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("enter", filter=~finished)
        def _(event: KeyPressEvent) -> None:
            # Without the indent of the line before, which would change a text that spans lines.
            event.current_buffer.newline(copy_margin=False)

        try:
            history: History = FileHistory(str(_history()))
        except OSError:
            history = InMemoryHistory()
        session: PromptSession[str] = PromptSession(
            history=history,
            lexer=PygmentsLexer(SqlLexer),
            completer=_completer(names),
            complete_while_typing=False,
            multiline=True,
            key_bindings=keys,
            prompt_continuation=lambda width, line, wrapped: "...> ".rjust(width),
        )
        super().__init__(session.prompt)


def _completer(names: Callable[[], CompletionNames]) -> Completer:
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion

    class SqlCompleter(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
            size, found = completions(document.text_before_cursor, names())
            return [Completion(name, start_position=-size) for name in found]

    return SqlCompleter()
