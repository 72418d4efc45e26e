"""What `dpsql init` says of the format of CSV files: as it was found, or as the owner answers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpsql.cli import narrate
from dpsql.cli.progress import paused

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpsql.policy import CsvFormat

_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}


class FormatQuestions:
    """Decides how CSV files are written.

    On a terminal the owner is asked where it is not commas and UTF-8; what was found is proposed.
    """

    def __init__(self, ask: Callable[..., str] | None) -> None:
        self._ask = ask
        self.found: list[str] = []
        """The tables whose files it was asked about."""

    def __call__(self, table: str, form: CsvFormat) -> CsvFormat:
        """Return the format that holds for the files of a table."""
        from dpsql.policy import CsvFormat

        self.found.append(table)
        if form == CsvFormat():
            return form
        if self._ask is None:
            shown = "a tab" if form.delimiter == "\t" else form.delimiter
            narrate.note(f"{table}: fields are separated by {shown}, the encoding is {form.encoding}")
            return form
        with paused():
            return self._asked(self._ask, table, form)

    def _asked(self, ask: Callable[..., str], table: str, form: CsvFormat) -> CsvFormat:
        narrate.say(f"{table}: a CSV file")
        delimiter = ask("  what separates its fields", _shown(form.delimiter))
        encoding = ask("  its encoding", form.encoding)
        decimal = form.decimal
        if delimiter == ";":
            decimal = ask("  what stands before the decimals of its numbers", form.decimal)
        return replace(form, delimiter=_NAMES.get(delimiter, delimiter), encoding=encoding, decimal=decimal)


def _shown(delimiter: str) -> str:
    return "tab" if delimiter == "\t" else delimiter
