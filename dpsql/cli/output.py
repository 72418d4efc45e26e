"""Writes results to stdout or a file, in the chosen format."""

from __future__ import annotations

import io
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from dpsql.render.grid import Style

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.privacy import Charge
    from dpsql.release import Release

__all__ = ["FORMATS", "ONE_RESULT", "TEXTS", "Output", "OutputFailedError", "UnwritableError", "style_of"]

FORMATS = ("table", "csv", "json", "jsonl", "markdown", "arrow", "parquet")
TEXTS = ("table", "markdown")
"""Formats for people: with noise, gaps and the price."""
ONE_RESULT = ("arrow", "parquet")
"""Formats that hold one result and no more."""


class UnwritableError(Exception):
    """The output cannot be written; found before anything was charged."""


class OutputFailedError(Exception):
    """Writing an answer failed after it was charged."""


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
        self.style = style_of(None if file else sys.stdout)

    @property
    def for_people(self) -> bool:
        """Whether the format shows charges itself."""
        return self.format in TEXTS

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

    def open(self) -> None:
        """Open the file, emptying it; raises `UnwritableError`."""
        if self._out is not None:
            return
        if self._file is None:
            sys.stdout.flush()
            self._out = sys.stdout.buffer
            return
        try:
            self._out = Path(self._file).open("wb")  # noqa: SIM115  closed by `close`
        except OSError as problem:
            raise UnwritableError(f"cannot write {self._file}: {problem.strerror}") from None

    def write(self, rows: pa.Table, release: Release | None, total: Charge | None = None) -> None:
        """Write one answer; raises `OutputFailedError`, and `BrokenPipeError` if the pipe is closed."""
        if not rows.num_columns:
            return
        self.open()
        out = self._out
        if out is None:
            return
        try:
            # Results of text formats are kept apart by an empty line.
            if self._written and self.apart and self.format in ("table", "markdown", "csv"):
                out.write(b"\r\n" if self.format == "csv" else b"\n")
            self._dispatch(rows, release, total, out)
            out.flush()
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise OutputFailedError(f"cannot write the answer: {problem.strerror}") from None
        self._written += 1
        if self.format in ONE_RESULT:
            # The shell's next answer is the next file.
            self.close()

    def _dispatch(self, rows: pa.Table, release: Release | None, total: Charge | None, out: BinaryIO) -> None:
        from dpsql.render import data, table

        if self.format in TEXTS:
            draw = table.as_table if self.format == "table" else table.as_markdown
            text = draw(rows, release, self.style, total=total)
            out.write(text.encode(self.style.encoding, "backslashreplace"))
        elif self.format == "arrow":
            data.write_arrow(rows, out, stream=self._file is None)
        else:
            write = {
                "csv": data.write_csv,
                "json": data.write_json,
                "jsonl": data.write_jsonl,
                "parquet": data.write_parquet,
            }[self.format]
            write(rows, out)

    def write_text(self, text: str) -> None:
        """Write a report."""
        self.open()
        if self._out is not None:
            self._out.write(text.encode(self.style.encoding, "backslashreplace"))
            self._out.flush()

    def close(self) -> None:
        """Close the file; raises `OutputFailedError` if what was written does not fit."""
        out, self._out = self._out, None
        if out is None or self._file is None:
            return
        try:
            out.close()
        except OSError as problem:
            raise OutputFailedError(f"cannot write the answer: {problem.strerror}") from None


def style_of(stream: io.TextIOBase | object | None) -> Style:
    """Return the style of a stream; None stands for a file: UTF-8, no colour, as wide as needed."""
    columns = os.environ.get("COLUMNS", "")
    fixed = int(columns) if columns.isdigit() and int(columns) > 0 else None
    if stream is None:
        return Style(fixed)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    terminal = bool(getattr(stream, "isatty", lambda: False)())
    if not terminal:
        return Style(fixed, encoding)
    colour = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return Style(shutil.get_terminal_size().columns, encoding, colour)
