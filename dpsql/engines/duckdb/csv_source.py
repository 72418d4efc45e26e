"""CSV files: the header, the scan, and the check that quotes separate records unambiguously."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dpsql.errors import PolicyError
from dpsql.policy import CsvFormat, CsvSource, Table

_LONGEST_HEADER = 1_000_000
_CHUNK = 1 << 24
_QUOTE = ord('"')


def csv_header(table: Table, path: Path) -> list[str]:
    """Return the column names in the first line of a CSV file, as the policy calls them; no row is read.

    The file is in UTF-8. A column without a name has an empty one.
    """
    form = csv_format(table)
    try:
        with path.open("rb") as file:
            line = file.readline(_LONGEST_HEADER)
        words = csv.reader([line.decode("utf-8-sig").rstrip("\r\n")], delimiter=form.delimiter)
        header = next(words, None)
    except (OSError, UnicodeDecodeError, csv.Error):
        raise PolicyError(f"tables.{table.name}.source: {path.name} cannot be read") from None
    if not header:
        raise PolicyError(f"tables.{table.name}.source: {path.name} has no header line")
    if line.count(b'"') % 2:
        raise PolicyError(f"tables.{table.name}.source: the header line of {path.name} has an unclosed quote")
    for old, _ in form.rename:
        if old not in header:
            raise PolicyError(
                f"tables.{table.name}.csv.rename: the header has no column {old!r}",
                hint="its columns are " + ", ".join(header)[:200],
            )
    return form.named(header)


def csv_format(table: Table) -> CsvFormat:
    """Return how a table's CSV files are written; the common way for other sources."""
    return table.source.format if isinstance(table.source, CsvSource) else CsvFormat()


def csv_scan(
    table: Table, paths: Sequence[Path], header: list[str], keys: tuple[str, ...] = ()
) -> tuple[str, list[tuple[str, str]]]:
    """Write the scan of CSV files with all columns as text; return it with its columns' names and types.

    No type is guessed from rows. `keys` are the columns that are in the names of folders. A column without a
    name gets one that no policy can name.

    A private file is read by one thread. The parallel reader guesses at every chunk boundary where a record
    begins, so line breaks in one quoted field can make it fail for the whole table. The sequential reader
    ends silently at an unclosed quote, which `well_quoted` detects.
    """
    form = csv_format(table)
    names = [name or f"§{i}" for i, name in enumerate(header)]
    spec = ", ".join(f"{text(name)}: 'VARCHAR'" for name in names)
    files, nulls = (", ".join(map(text, each)) for each in (paths, form.null))
    folders = f"hive_partitioning = {str(bool(keys)).lower()}, hive_types_autocast = false, "
    scan = (
        f"read_csv([{files}], auto_detect = false, header = true, delim = {text(form.delimiter)}, "
        f"quote = '\"', escape = '\"', nullstr = [{nulls}], ignore_errors = false, "
        f"parallel = {str(table.public).lower()}, {folders}columns = {{{spec}}})"
    )
    return scan, [(name, "VARCHAR") for name in (*names, *keys)]


def text(value: object) -> str:
    """Write a text or path as a literal."""
    return "'" + str(value).replace("'", "''") + "'"


def well_quoted(path: Path, delimiter: str = ",", chunk: int = _CHUNK) -> bool:
    """Whether the quotes of a CSV file's rows follow RFC 4180; raises `OSError`."""
    return stray_quote(path, delimiter, chunk) is None


def stray_quote(path: Path, delimiter: str = ",", chunk: int = _CHUNK) -> int | None:
    r"""Return the place, in bytes, of a quote that breaks the rules of RFC 4180, or None; raises `OSError`.

    A quote is preceded or followed by a delimiter, a line's end, or a quote, as half of an escaped one.
    An opening quote begins a field, a closing one ends it, a quote within is doubled, none stands in an
    unquoted field, and all are closed. Then every reader agrees where records begin.

    >>> from pathlib import Path; import tempfile
    >>> file = Path(tempfile.mkdtemp(), "rows.csv")
    >>> def test(rows): _ = file.write_bytes(b"id,name\n" + rows); return well_quoted(file)
    >>> test(b'1,"a ""b""\nc"\n'), test(b'1,"a\n2,b\n'), test(b'1,5" pipe\n2,5" pipe\n')
    (True, False, False)
    """
    inside, before, opened = False, b"\n", None
    around = np.frombuffer(delimiter.encode() + b'\r\n"', dtype=np.uint8)
    with path.open("rb") as file:
        start = len(file.readline(_LONGEST_HEADER))
        block = file.read(chunk)
        while block:
            following = file.read(chunk)
            # One byte of the neighbouring blocks, so that every quote has one on either side.
            cells = np.frombuffer(before + block + (following[:1] or b"\n"), dtype=np.uint8)
            at = np.flatnonzero(cells[1:-1] == _QUOTE) + 1
            opening, closing = at[int(inside) :: 2], at[1 - int(inside) :: 2]
            wrong = np.concatenate(
                (
                    opening[~np.isin(cells[opening - 1], around)],
                    closing[~np.isin(cells[closing + 1], around)],
                )
            )
            if len(wrong):
                return start + int(wrong.min()) - 1
            inside ^= bool(len(at) % 2)
            opened = start + int(opening[-1]) - 1 if len(opening) else opened
            start, before, block = start + len(block), block[-1:], following
    return opened if inside else None
