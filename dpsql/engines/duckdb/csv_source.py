"""CSV files: the header, the scan, and the check that quotes separate records unambiguously."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from dpsql.errors import PolicyError
from dpsql.policy import Table

_LONGEST_HEADER = 1_000_000
_CHUNK = 1 << 24
_QUOTE = ord('"')
_AROUND = np.frombuffer(b',\r\n"', dtype=np.uint8)
"""Bytes that may precede an opening or follow a closing quote; a quote is half of an escaped one."""


def csv_header(table: Table, path: Path) -> list[str]:
    """Return the column names in the first line of a CSV file; no row is read."""
    try:
        with path.open("rb") as file:
            line = file.readline(_LONGEST_HEADER)
        header = next(csv.reader([line.decode("utf-8-sig").rstrip("\r\n")]), None)
    except (OSError, UnicodeDecodeError, csv.Error):
        raise PolicyError(f"tables.{table.name}.source: {path.name} cannot be read") from None
    if not header:
        raise PolicyError(f"tables.{table.name}.source: {path.name} has no header line")
    if line.count(b'"') % 2:
        raise PolicyError(f"tables.{table.name}.source: the header line of {path.name} has an unclosed quote")
    return header


def csv_scan(table: Table, path: Path, header: list[str]) -> str:
    """Write the scan of a CSV file with all columns as text; no type is guessed from rows.

    A private file is read by one thread. The parallel reader guesses at every chunk boundary where a record
    begins, so line breaks in one quoted field can make it fail for the whole table. The sequential reader
    ends silently at an unclosed quote, which `well_quoted` detects.
    """
    spec = ", ".join(f"{_text(name)}: 'VARCHAR'" for name in header)
    return (
        f"read_csv({_text(path)}, auto_detect = false, header = true, delim = ',', quote = '\"', "
        f"escape = '\"', nullstr = '', ignore_errors = false, parallel = {str(table.public).lower()}, "
        f"columns = {{{spec}}})"
    )


def _text(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"


def well_quoted(path: Path, chunk: int = _CHUNK) -> bool:
    r"""Whether the quotes of a CSV file's rows follow RFC 4180; raises `OSError`.

    An opening quote begins a field, a closing one ends it, a quote within is doubled, none stands in an
    unquoted field, and all are closed. Then every reader agrees where records begin.

    >>> from pathlib import Path; import tempfile
    >>> file = Path(tempfile.mkdtemp(), "rows.csv")
    >>> def test(rows): _ = file.write_bytes(b"id,name\n" + rows); return well_quoted(file)
    >>> test(b'1,"a ""b""\nc"\n'), test(b'1,"a\n2,b\n'), test(b'1,5" pipe\n2,5" pipe\n')
    (True, False, False)
    """
    inside, before = False, b"\n"
    with path.open("rb") as file:
        file.readline(_LONGEST_HEADER)
        block = file.read(chunk)
        while block:
            following = file.read(chunk)
            # One byte of the neighbouring blocks, so that every quote has one on either side.
            cells = np.frombuffer(before + block + (following[:1] or b"\n"), dtype=np.uint8)
            at = np.flatnonzero(cells[1:-1] == _QUOTE) + 1
            opening, closing = at[int(inside) :: 2], at[1 - int(inside) :: 2]
            if not (
                np.isin(cells[opening - 1], _AROUND).all() and np.isin(cells[closing + 1], _AROUND).all()
            ):
                return False
            inside ^= bool(len(at) % 2)
            before, block = block[-1:], following
    return not inside
