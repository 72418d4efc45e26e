"""Writes results to stdout or a file, in the chosen format."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from dpsql.cli.exits import OutputFailedError, UnwritableError
from dpsql.render.grid import Style

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from dpsql.privacy import Charge
    from dpsql.release import Release


FORMATS = ("table", "csv", "json", "jsonl", "markdown", "arrow", "parquet")
_TEXTS = ("table", "markdown")
"""Formats for people: with noise, gaps and the price."""
ONE_RESULT = ("arrow", "parquet")
"""Formats that hold one result and no more."""


class Output:
    """Writes results one after the other, to one place and in one format.

    Nothing is opened before `open`, so that a batch that is refused leaves an existing file as it was.
    """

    def __init__(self, name: str | None, file: str | None) -> None:
        self.format = name or ("table" if file is None and sys.stdout.isatty() else "csv")
        self._file = file
        self._out: BinaryIO | None = None
        self._written = 0
        self.apart = True
        """Whether an empty line stands between two results."""
        self.style = _style_of(None if file else sys.stdout)

    @property
    def for_people(self) -> bool:
        """Whether the format shows charges itself."""
        return self.format in _TEXTS

    def check(self) -> None:
        """Raise `UnwritableError` if answers cannot be written; called before they are charged."""
        if self._file is None:
            if self.format in ONE_RESULT and sys.stdout.isatty():
                raise UnwritableError(f"{self.format} is no text for a terminal; use -o FILE")
            return
        path = Path(self._file)
        folder = path.parent
        if path.is_dir() or not folder.is_dir():
            raise UnwritableError(
                f"cannot write {self._file}: {'a folder' if path.is_dir() else 'no such folder'}"
            )
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise UnwritableError(f"cannot write {self._file}: no permission")

    def open(self) -> BinaryIO:
        """Open the file, emptying it; raises `UnwritableError`."""
        if self._file is None:
            sys.stdout.flush()
            return sys.stdout.buffer
        if self._out is None:
            try:
                self._out = Path(self._file).open("wb")  # noqa: SIM115  closed by `close`
            except OSError as problem:
                raise UnwritableError(f"cannot write {self._file}: {problem.strerror}") from None
        return self._out

    def write(self, rows: pa.Table, release: Release | None, total: Charge | None = None) -> None:
        """Write one answer; raises `OutputFailedError`, and `BrokenPipeError` if the pipe is closed."""
        if not rows.num_columns:
            return
        out = self.open()
        with _failures_reported():
            # Results of text formats are kept apart by an empty line.
            if self._written and self.apart and self.format in ("table", "markdown", "csv"):
                out.write(b"\r\n" if self.format == "csv" else b"\n")
            self._write(rows, release, total, out)
            out.flush()
        self._written += 1
        if self.format in ONE_RESULT:
            # The shell's next answer is the next file.
            self.close()

    def _write(self, rows: pa.Table, release: Release | None, total: Charge | None, out: BinaryIO) -> None:
        from dpsql.render import data, table

        if self.for_people:
            draw = table.as_table if self.format == "table" else table.as_markdown
            out.write(self._encoded(draw(rows, release, self.style, total=total)))
        elif self.format == "arrow":
            data.write_arrow(rows, out, stream=self._file is None)
        else:
            getattr(data, f"write_{self.format}")(rows, out)

    def write_text(self, text: str) -> None:
        """Write a report."""
        out = self.open()
        with _failures_reported("report", ""):
            out.write(self._encoded(text))
            out.flush()

    def _encoded(self, text: str) -> bytes:
        return text.encode(self.style.encoding, "backslashreplace")

    def close(self) -> None:
        """Close the file; raises `OutputFailedError` if what was written does not fit."""
        out, self._out = self._out, None
        if out is not None:
            with _failures_reported():
                out.close()


_AGAIN = "\nHint: the same statement asked again gives the stored answer at no cost"


@contextmanager
def _failures_reported(what: str = "answer", hint: str = _AGAIN) -> Iterator[None]:
    """Raise `OutputFailedError` for an `OSError`, but for the end of a closed pipe."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise OutputFailedError(f"cannot write the {what}: {problem.strerror}{hint}") from None


def _style_of(stream: TextIO | None) -> Style:
    """Return the style of a stream; None stands for a file: UTF-8, no colour, as wide as needed."""
    columns = os.environ.get("COLUMNS", "")
    fixed = int(columns) if columns.isdigit() and int(columns) > 0 else None
    if stream is None:
        return Style(fixed)
    encoding = stream.encoding or "utf-8"
    if not stream.isatty():
        return Style(fixed, encoding)
    import shutil

    colour = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return Style(shutil.get_terminal_size().columns, encoding, colour)
