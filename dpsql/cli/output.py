"""Writes results to stdout or a file, in the chosen format."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from dpsql.cli import narrate
from dpsql.cli.narrate import OutputFailedError, UnwritableError
from dpsql.places import list_renamed
from dpsql.render.grid import style_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from dpsql.kernel.loss import Charge
    from dpsql.release import Release
    from dpsql.render.grid import Style


FORMATS = ("table", "csv", "json", "jsonl", "markdown", "arrow", "parquet")
_TEXTS = ("table", "markdown")
"""Formats for people: with noise, gaps and the price."""
ONE_RESULT = ("arrow", "parquet")
"""Formats whose files hold one result and no more."""
_OBJECTS = {"json", "jsonl"}
_DISTINCT = {"json", "jsonl", "parquet"}
"""Formats whose readers ask for columns by name: equal names are made distinct."""
_NUMBER = "statement_number"
"""Name under which JSON and JSON lines say which of several statements answered."""


class AnswerOutput:
    """Writes results one after the other, to one place and in one format.

    Nothing is opened before `open`, so that a batch that is refused leaves an existing file as it was.

    Parameters
    ----------
    name
        The format; None: a table on a terminal, else CSV.
    file
        The file, or for Arrow and Parquet a folder; None is standard output.
    intervals
        Whether formats for programs show what is free beside each number: standard deviation, interval, gap.
    exact_digits
        Whether formats for programs show all digits, also those that are noise.
    columns
        Cells of a line of a table, 0 for as many as it takes; None: as the terminal has, else 120.
    """

    def __init__(
        self,
        name: str | None,
        file: str | None,
        *,
        intervals: bool = False,
        exact_digits: bool = False,
        columns: int | None = None,
    ) -> None:
        self.format = name or ("table" if file is None and sys.stdout.isatty() else "csv")
        self.intervals = intervals
        self.exact_digits = exact_digits
        self._file = file
        self._out: BinaryIO | None = None
        self._written = 0
        self._several = self._begun = False
        self._names: dict[int, str] = {}
        self._columns = columns
        self._hint = _AGAIN
        """How the last private answer is opened, if it cannot be written."""
        self.apart = True
        """Whether an empty line stands between two results."""
        self.pager = False
        """Whether tables longer than the terminal are shown by a pager."""

    @property
    def style(self) -> Style:
        """What the terminal or file can show now: a terminal may change its width."""
        return style_of(None if self._file else sys.stdout, self._columns)

    def like(self, name: str | None, file: str | None) -> AnswerOutput:
        """Return an output to another file or in another format, with the options of this one."""
        other = AnswerOutput(
            name, file, intervals=self.intervals, exact_digits=self.exact_digits, columns=self._columns
        )
        other.apart, other.pager = self.apart, self.pager
        return other

    @property
    def for_people(self) -> bool:
        """Whether the format is text for people, in which answers show their charges."""
        return self.format in _TEXTS

    def check(self) -> None:
        """Raise `UnwritableError` if answers cannot be written; called before they are charged."""
        if self._file is not None:
            _check_target(Path(self._file), folder=self.format in ONE_RESULT)
        elif self.format in ONE_RESULT and sys.stdout.isatty():
            raise UnwritableError(f"{self.format} is no text for a terminal; use -o FILE")

    def expect(self, numbers: Sequence[int]) -> None:
        """Prepare for the results of several statements, which have these numbers; called before charges.

        JSON becomes one array of them, JSON lines say the number in each line, Arrow and Parquet become a
        folder of files. Raises `UnwritableError` if the folder cannot be made, or holds other files.
        """
        if self.format in ONE_RESULT and len(numbers) > 1:
            self._names = _make_folder(self.format, self._file, numbers)
        else:
            self.open()
        self._several = len(numbers) > 1

    def open(self, number: int = 1) -> BinaryIO:
        """Open the file for the result of a statement, emptying it; raises `UnwritableError`."""
        if self._file is None:
            sys.stdout.flush()
            return sys.stdout.buffer
        if self._out is None:
            path = Path(self._file)
            try:
                if path.is_dir():
                    path /= self._names.get(number, f"{self._written + 1}.{self.format}")
                self._out = path.open("wb")
            except OSError as problem:
                raise UnwritableError(f"cannot write {self._file}: {problem.strerror}") from None
        return self._out

    def write(
        self, rows: pa.Table, release: Release | None, total: Charge | None = None, *, number: int = 1
    ) -> None:
        """Write the result of the statement with this number.

        Raises `OutputFailedError`, and `BrokenPipeError` if the pipe is closed.
        """
        if not rows.num_columns:
            return
        if release is not None:
            from dpsql.release import describe_opening

            self._hint = describe_opening(release) or _AGAIN
        try:
            out = self.open(number)
        except UnwritableError as problem:
            if release is None:
                raise
            raise OutputFailedError(f"{problem}\nHint: {self._hint}") from None
        with _report_failures(hint=self._hint):
            # Results of text formats are kept apart by an empty line.
            if self._written and self.apart and self.format in ("table", "markdown", "csv"):
                out.write(b"\r\n" if self.format == "csv" else b"\n")
            self._write(rows, release, total, out, number)
            out.flush()
        self._written += 1
        if self.format in ONE_RESULT:
            # The shell's next answer is the next file.
            self.close()

    def _write(
        self, rows: pa.Table, release: Release | None, total: Charge | None, out: BinaryIO, number: int
    ) -> None:
        if self.for_people:
            from dpsql.render import table

            draw = table.as_table if self.format == "table" else table.as_markdown
            self._show(draw(rows, release, self.style, total=total), out)
            return
        from dpsql.render import data

        if release is not None and (rows is release.rows or rows.equals(release.rows)):
            rows = release.table if self.intervals else rows
            if not self.exact_digits:
                from dpsql.render.data import round_rows

                rows = round_rows(rows, release, whole=self.format not in ONE_RESULT)
        if self.format in _DISTINCT:
            for old, new in list_renamed(rows.column_names, fold=self.format == "parquet"):
                narrate.note(f"{self.format} has no two columns of one name: another {old} is called {new}")
        if self.format in ONE_RESULT:
            data.write_binary(data.add_metadata(rows, release), out, self.format, stream=self._file is None)
        elif self._several and self.format in _OBJECTS:
            self._write_one_of_several(rows, out, number)
        else:
            getattr(data, f"write_{self.format}")(rows, out)

    def _write_one_of_several(self, rows: pa.Table, out: BinaryIO, number: int) -> None:
        from dpsql.render import data

        if self.format == "jsonl":
            data.write_jsonl(rows, out, {_NUMBER: number})
            return
        out.write(b",\n" if self._begun else b"[\n")
        self._begun = True
        out.write(f'{{"{_NUMBER}": {number}, "rows": '.encode())
        data.write_json(rows, out, end=b"")
        out.write(b"}")

    def _show(self, text: str, out: BinaryIO) -> None:
        import shutil

        if self.pager and self._file is None and text.count("\n") >= shutil.get_terminal_size().lines:
            import click

            os.environ.setdefault("LESS", "-FRX")
            click.echo_via_pager(self._encode(text).decode(self.style.encoding))
            return
        out.write(self._encode(text))

    def write_text(self, text: str) -> None:
        """Write a report, which is text and no result of a statement."""
        out = self.open()
        with _report_failures("report", ""):
            self._show(text, out)
            out.flush()

    def _encode(self, text: str) -> bytes:
        return text.encode(self.style.encoding, "backslashreplace")

    def end(self) -> None:
        """Close what `expect` began: for JSON, the array of results."""
        array, begun = self._several and self.format == "json", self._begun
        self._several, self._begun, self._names = False, False, {}
        if array:
            with _report_failures(hint=self._hint):
                out = self.open()
                out.write(b"\n]\n" if begun else b"[]\n")
                out.flush()

    def close(self) -> None:
        """Close the file; raises `OutputFailedError` if what was written does not fit."""
        out, self._out = self._out, None
        if out is not None:
            with _report_failures(hint=self._hint):
                out.close()


def _check_target(path: Path, *, folder: bool) -> None:
    """Raise `UnwritableError` if a file cannot be written; `folder`: it may be a folder as well."""
    if (path.is_dir() and not folder) or not path.parent.is_dir():
        raise UnwritableError(f"cannot write {path}: {'a folder' if path.is_dir() else 'no such folder'}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UnwritableError(f"cannot write {path}: no permission")


def _make_folder(name: str, folder: str | None, numbers: Sequence[int]) -> dict[int, str]:
    """Make a folder for the results of several statements; return the name of each one's file."""
    if folder is None:
        raise UnwritableError(
            f"{name} holds one result, and there are {len(numbers)} statements\n"
            "Hint: -o FOLDER writes a file for each"
        )
    digits = len(str(max(numbers)))
    names = {number: f"{number:0{digits}}.{name}" for number in numbers}
    path = Path(folder)
    refused = f"cannot write {len(numbers)} results of {name} to {folder}"
    try:
        path.mkdir(exist_ok=True)
        others = {entry.name for entry in path.iterdir()} - set(names.values())
    except FileExistsError:
        raise UnwritableError(f"{refused}: it is a file\nHint: -o FOLDER writes a file for each") from None
    except OSError as problem:
        raise UnwritableError(f"{refused}: {problem.strerror}") from None
    if others:
        raise UnwritableError(f"{refused}: the folder holds other files, such as {min(others)}")
    return names


_AGAIN = "the same statement asked again gives the stored answer at no cost"


@contextmanager
def _report_failures(what: str = "answer", hint: str = _AGAIN) -> Iterator[None]:
    """Raise `OutputFailedError` for an `OSError`, but for the end of a closed pipe."""
    said = f"\nHint: {hint}" if hint else ""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise OutputFailedError(f"cannot write the {what}: {problem.strerror}{said}") from None
