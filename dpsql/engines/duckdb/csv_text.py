"""UTF-8 copies of CSV files in other encodings, in a folder that only the owner of the process may read.

DuckDB reads UTF-8 alone in full: of Latin-1 it refuses bytes, and other encodings it does not know.
"""

from __future__ import annotations

import codecs
import hashlib
import os
from pathlib import Path

from dpsql.policy import CsvSource
from dpsql.policy.files import canonical, table_of

_CHUNK = 1 << 24


def in_utf8(source: CsvSource, file: Path, folder: Path | None) -> Path:
    """Return a file with the same text in UTF-8: itself, or its copy in `folder`, made at the first call.

    No byte makes it fail: one without a meaning becomes a control or replacement character. Raises `OSError`.
    """
    if canonical(source.format.encoding) == "utf-8":
        return file
    if folder is None:
        raise OSError("no folder for the copy of a file")
    stat = file.stat()
    state = (str(file), source.format.encoding, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    copy = folder / f"text-{hashlib.sha256(repr(state).encode()).hexdigest()[:24]}.csv"
    if not copy.exists():
        part = copy.with_suffix(".part")
        _copy(file, part, source.format.encoding)
        part.replace(copy)
    return copy


def _copy(file: Path, copy: Path, encoding: str) -> None:
    table = table_of(encoding)
    decoder = codecs.getincrementaldecoder(canonical(encoding))("replace") if table is None else None
    descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with file.open("rb") as stream, open(descriptor, "wb") as out:
        while block := stream.read(_CHUNK):
            text = decoder.decode(block) if decoder else codecs.charmap_decode(block, "strict", table)[0]
            out.write(text.encode("utf-8", "replace"))
        if decoder is not None:
            out.write(decoder.decode(b"", final=True).encode("utf-8", "replace"))
