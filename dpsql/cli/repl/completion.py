"""Completes words in the shell: tables, columns, public values, keywords, options, dot commands."""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING

from dpsql.language.options import KEYWORDS, OPTION_VALUES, OPTIONS, SETTINGS
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


_INSIDEOPTIONS = re.compile(r"\bOPTIONS\s*\(((?:[^()']|'[^']*')*)$", re.IGNORECASE)
_AFTER_TABLE_WORD = re.compile(r"\b(?:FROM|JOIN|DESCRIBE)\s+\w*$", re.IGNORECASE)
_AFTER_SET = re.compile(r"\bSET\s+\w*$", re.IGNORECASE)
_IN_QUOTES = re.compile(
    r"(\w+)\"?\s*(?:=|<>|!=|\bIN\s*\(|\bLIKE\b)\s*(?:'(?:[^']|'')*'\s*,\s*)*'((?:[^']|'')*)$", re.IGNORECASE
)
"""A column compared with a text that is not closed yet."""
_COMPARED = re.compile(r"(\w+)\"?\s*(?:=|<>|!=|\bIN\s*\()\s*$", re.IGNORECASE)
"""A column that is to be compared with a value."""
_QUALIFIED = re.compile(r"(\w+)\.(\w*)$")
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
        return _command(text, names)
    if text.count("'") % 2:
        quoted = _IN_QUOTES.search(text)
        values = names.values(quoted[1]) if quoted else ()
        begun = quoted[2] if quoted else ""
        return len(begun), _starting(begun, [value.replace("'", "''") + "'" for value in values])
    qualified = _QUALIFIED.search(text)
    if qualified:
        return len(qualified[2]), _starting(qualified[2], _columns_of(qualified[1], text, names))
    word = re.search(r"\w*$", text)[0]  # type: ignore[index]  # it matches everywhere, if need be nothing
    options = _INSIDEOPTIONS.search(text)
    if options:
        return len(word), _starting(word, _option(options[1], word))
    if _AFTER_SET.search(text):
        return len(word), _starting(word, SETTINGS)
    if _AFTER_TABLE_WORD.search(text):
        return len(word), _starting(word, names.tables)
    compared = _COMPARED.search(text)
    if compared:
        values = ["'" + value.replace("'", "''") + "'" for value in names.values(compared[1])]
        return 0, list(values)
    going_on = _going_on(text[: len(text) - len(word)], word)
    if not word:
        return 0, going_on
    columns = [column for columns in names.tables.values() for column in columns]
    keywords = [k.lower() for k in KEYWORDS] if word.islower() else list(KEYWORDS)
    return len(word), _starting(word, [*going_on, *columns, *names.tables, *keywords])


def _going_on(before: str, word: str) -> list[str]:
    """Return how clauses of several words go on, of which the text has at least the first.

    >>> _going_on("SELECT WITH ", "DIFF"), _going_on("show ", "")
    (['DIFFERENTIAL_PRIVACY'], ['tables', 'privacy budget', 'releases', 'release'])
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


def _command(text: str, names: CompletionNames) -> tuple[int, list[str]]:
    command, blank, argument = text.partition(" ")
    if not blank:
        return len(text), _starting(command, names.commands)
    if command == ".explain" and not argument.startswith("."):
        return completions(argument, names)
    known = {".mode": names.modes, ".timer": ("on", "off"), ".tables": names.tables}
    return (len(argument), _starting(argument, known[command])) if command in known else (0, [])


def _option(inside: str, word: str) -> Iterable[str]:
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


def _starting(word: str, among: Iterable[str]) -> list[str]:
    found = [name for name in among if name.lower().startswith(word.lower())]
    return sorted(set(found), key=found.index)
