"""Finds how a CSV file is written, for the owner who writes a policy: its delimiter and its encoding.

The delimiter follows from the header. The encoding follows from the first bytes of the file, whatever they
mean. Of the first lines it is only seen whether all times of a column are written with an offset.
"""

from __future__ import annotations

import codecs
import csv
import re
import unicodedata
from dataclasses import replace
from pathlib import Path

from dpsql.errors import PolicyError
from dpsql.policy import CsvFormat
from dpsql.policy.files import canonical
from dpsql.policy.names import name_problem

_LOOKED_AT = 1 << 24
_DELIMITERS = (",", ";", "\t", "|")
_LONGEST_HEADER = 1_000_000
_FIRST_LINES = 1 << 16
_WITH_OFFSET = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)? ?(Z|UTC|[+-]\d\d(:?\d\d)?)")


def find_format(path: Path) -> CsvFormat:
    """Return the format that a CSV file seems to have; raises `PolicyError` if it cannot be read."""
    head = _first_bytes(path, _LOOKED_AT)
    encoding = _encoding(head)
    line = _header_line(path, encoding)
    widths = [(len(next(csv.reader([line], delimiter=d), [])), -i, d) for i, d in enumerate(_DELIMITERS)]
    delimiter = max(widths)[2]
    return CsvFormat(delimiter=delimiter, encoding=encoding, decimal="," if delimiter == ";" else ".")


def _first_bytes(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError as problem:
        raise PolicyError(f"{path} cannot be read: {problem.strerror}") from None


def _encoding(head: bytes) -> str:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        # The end may be within a character.
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "windows-1252"  # as browsers read what is called Latin-1
    return "utf-8"


def _header_line(path: Path, encoding: str) -> str:
    decoder = codecs.getincrementaldecoder("utf-8-sig" if canonical(encoding) == "utf-8" else encoding)
    text = decoder("replace").decode(_first_bytes(path, _LONGEST_HEADER))
    return re.split(r"\r\n|\n|\r", text, maxsplit=1)[0]


def header_of(path: Path, form: CsvFormat) -> list[str]:
    """Return the names in the header of a CSV file; a column without a name has an empty one."""
    try:
        header = next(csv.reader([_header_line(path, form.encoding)], delimiter=form.delimiter), [])
    except csv.Error:
        header = []
    if not header:
        raise PolicyError(f"{path} has no header line")
    return header


def with_offsets(path: Path, form: CsvFormat, width: int) -> set[int]:
    """Return the places of the columns whose texts in the first lines are all times with an offset."""
    decoder = codecs.getincrementaldecoder(
        "utf-8-sig" if canonical(form.encoding) == "utf-8" else form.encoding
    )
    lines = decoder("replace").decode(_first_bytes(path, _FIRST_LINES)).splitlines()
    try:
        rows = [
            row for row in csv.reader(lines[1:-1] or lines[1:], delimiter=form.delimiter) if len(row) == width
        ]
    except csv.Error:
        return set()
    texts = [[row[i] for row in rows if row[i]] for i in range(width)]
    return {i for i, found in enumerate(texts) if found and all(map(_WITH_OFFSET.fullmatch, found))}


def renamed(form: CsvFormat, header: list[str]) -> CsvFormat:
    """Return a format that gives a plain name to each column whose own is not plain ASCII.

    >>> renamed(CsvFormat(), ["id", "Amount (€)", "Größe", "", "Größe!"]).rename
    (('Amount (€)', 'Amount'), ('Größe', 'Grosse'), ('Größe!', 'Grosse_2'))
    """
    taken = {name.lower() for name in header if name and not name_problem(name)}
    pairs = []
    for name in dict.fromkeys(header):
        if not name or not name_problem(name):
            continue
        plain = unicodedata.normalize("NFKD", name.replace("ß", "ss")).encode("ascii", "ignore").decode()
        made = base = re.sub(r"[^A-Za-z0-9]+", "_", plain).strip("_")[:100] or "column"
        number = 1
        while made.lower() in taken:
            number += 1
            made = f"{base}_{number}"
        taken.add(made.lower())
        pairs.append((name, made))
    return replace(form, rename=tuple(pairs))
