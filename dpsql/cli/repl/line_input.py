"""Reads the shell's lines, by prompt_toolkit, readline or from a pipe, and completes words in them."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.cli import narrate
from dpsql.cli.repl.commands import command_in, leaves_statement
from dpsql.language.options import KEYWORDS, OPTION_VALUES, OPTIONS, SETTINGS
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.document import Document

    from dpsql.cli.repl.commands import LineReader

_INSIDEOPTIONS = lazy_pattern(r"\bOPTIONS\s*\(((?:[^()']|'[^']*')*)$", re.IGNORECASE)
_AFTER_TABLE_WORD = lazy_pattern(r"\b(?:FROM|JOIN|DESCRIBE)\s+\w*$", re.IGNORECASE)
_AFTER_SET = lazy_pattern(r"\bSET\s+\w*$", re.IGNORECASE)
_IN_QUOTES = lazy_pattern(
    r"(\w+)\"?\s*(?:=|<>|!=|\bIN\s*\(|\bLIKE\b)\s*(?:'(?:[^']|'')*'\s*,\s*)*'((?:[^']|'')*)$", re.IGNORECASE
)
"""A column compared with a text that is not closed yet."""
_COMPARED = lazy_pattern(r"(\w+)\"?\s*(?:=|<>|!=|\bIN\s*\()\s*$", re.IGNORECASE)
"""A column that is to be compared with a value."""
_QUALIFIED = lazy_pattern(r"(\w+)\.(\w*)$")
_ALIAS = r"\b{table}\s+(?:AS\s+)?{alias}\b"


@dataclass(frozen=True, slots=True)
class CompletionNames:
    """Names that can be completed: tables with columns, dot commands, formats; a column's public values."""

    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    commands: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    values: Callable[[str], Iterable[str]] = lambda column: ()


def completions(text: str, names: CompletionNames) -> tuple[int, list[str]]:
    """Return the length of the word before the cursor, and its completions.

    >>> completions("SELECT * FROM vi", CompletionNames({"visits": ("patient_id",)}))
    (2, ['visits'])
    """
    if text.startswith("."):
        return _complete_command(text, names)
    if text.count("'") % 2:
        quoted = _IN_QUOTES.search(text)
        values = names.values(quoted[1]) if quoted else ()
        begun = quoted[2] if quoted else ""
        return len(begun), _filter_starting(begun, [value.replace("'", "''") + "'" for value in values])
    qualified = _QUALIFIED.search(text)
    if qualified:
        return len(qualified[2]), _filter_starting(qualified[2], _columns_of(qualified[1], text, names))
    word = re.search(r"\w*$", text)[0]  # type: ignore[index]  # it matches everywhere, if need be nothing
    options = _INSIDEOPTIONS.search(text)
    if options:
        return len(word), _filter_starting(word, _complete_option(options[1], word))
    if _AFTER_SET.search(text):
        return len(word), _filter_starting(word, SETTINGS)
    if _AFTER_TABLE_WORD.search(text):
        return len(word), _filter_starting(word, names.tables)
    compared = _COMPARED.search(text)
    if compared:
        values = ["'" + value.replace("'", "''") + "'" for value in names.values(compared[1])]
        return 0, list(values)
    going_on = _continue_clauses(text[: len(text) - len(word)], word)
    if not word:
        return 0, going_on
    columns = [column for columns in names.tables.values() for column in columns]
    keywords = [k.lower() for k in KEYWORDS] if word.islower() else list(KEYWORDS)
    return len(word), _filter_starting(word, [*going_on, *columns, *names.tables, *keywords])


def _continue_clauses(before: str, word: str) -> list[str]:
    """Return how clauses of several words go on, of which the text has at least the first.

    >>> _continue_clauses("SELECT WITH ", "DIFF"), _continue_clauses("show ", "rel")
    (['DIFFERENTIAL_PRIVACY'], ['releases', 'release'])
    """
    said = before.upper().split()
    found = []
    for phrase in KEYWORDS:
        words = phrase.split()
        for size in range(1, len(words)):
            if said[-size:] == words[:size] and words[size].startswith(word.upper()):
                rest = " ".join(words[size:])
                found.append(rest.lower() if (word or before).islower() else rest)
    return found


def _complete_command(text: str, names: CompletionNames) -> tuple[int, list[str]]:
    command, blank, argument = text.partition(" ")
    if not blank:
        return len(text), _filter_starting(command, names.commands)
    if command == ".explain" and not argument.startswith("."):
        return completions(argument, names)
    known = {".mode": names.modes, ".timer": ("on", "off"), ".tables": names.tables}
    return (len(argument), _filter_starting(argument, known[command])) if command in known else (0, [])


def _complete_option(inside: str, word: str) -> Iterable[str]:
    """Return option names, or behind `name =` the values that option takes."""
    current = inside[: len(inside) - len(word)].rpartition(",")[2]
    name, equals, _ = current.partition("=")
    return OPTION_VALUES.get(name.strip().lower(), ()) if equals else OPTIONS


def _columns_of(name: str, text: str, names: CompletionNames) -> Iterable[str]:
    """Return the columns of a table, or of the table that `name` is an alias of."""
    for table, columns in names.tables.items():
        pattern = _ALIAS.format(table=re.escape(table), alias=re.escape(name))
        if table.lower() == name.lower() or re.search(pattern, text, re.IGNORECASE):
            return columns
    return ()


def _filter_starting(word: str, among: Iterable[str]) -> list[str]:
    found = [name for name in among if name.lower().startswith(word.lower())]
    return sorted(set(found), key=found.index)


_COMMENTS = lazy_pattern(r"--[^\n]*(?:\n|$)|/\*.*?\*/", re.DOTALL)


def is_complete(text: str) -> bool:
    """Whether the text ends a statement: a semicolon outside of quotes and comments, and no more after it."""
    from dpsql.language import split_script

    # If the semicolon counts, a word behind it is a statement of its own.
    parts = split_script(text + "\nSELECT")
    return len(parts) > 0 and _COMMENTS.sub("", parts[-1]).strip() == "SELECT" and bool(text.strip())


def open_reader(names: Callable[[], CompletionNames]) -> LineReader:
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
        """Return the next line of standard input; `EOFError` at its end."""
        return _next_line()

    def ask(self, question: str) -> bool:
        """Return True: statements in a pipe run without questions."""
        return True


def _history_file() -> Path:
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
            readline.read_history_file(_history_file())
        except OSError:  # no home to keep a history in
            return
        import atexit

        readline.set_completer_delims(" \t\n,()=.")
        readline.set_completer(self._next)
        readline.parse_and_bind("tab: complete")
        atexit.register(readline.write_history_file, _history_file())

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
        def is_finished() -> bool:
            text = session.default_buffer.document.text
            if not text.strip() or command_in(text) is not None or is_complete(text):
                return True
            return leaves_statement(text.rpartition("\n")[2])

        @Condition
        def is_at_end_of_text() -> bool:
            document = session.default_buffer.document
            return bool(document.text) and document.is_cursor_at_the_end

        @keys.add("c-d", filter=is_at_end_of_text)
        def _(event: KeyPressEvent) -> None:
            event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

        @keys.add("enter", filter=is_finished)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("enter", filter=~is_finished)
        def _(event: KeyPressEvent) -> None:
            # Without the indent of the line before, which would change a text that spans lines.
            event.current_buffer.newline(copy_margin=False)

        try:
            history: History = FileHistory(str(_history_file()))
        except OSError:
            history = InMemoryHistory()
        session: PromptSession[str] = PromptSession(
            history=history,
            lexer=PygmentsLexer(SqlLexer),
            completer=_make_completer(names),
            complete_while_typing=False,
            multiline=True,
            key_bindings=keys,
            prompt_continuation=lambda width, line, wrapped: "...> ".rjust(width),
        )
        super().__init__(session.prompt)


def _make_completer(names: Callable[[], CompletionNames]) -> Completer:
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion

    class SqlCompleter(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
            size, found = completions(document.text_before_cursor, names())
            return [Completion(name, start_position=-size) for name in found]

    return SqlCompleter()
