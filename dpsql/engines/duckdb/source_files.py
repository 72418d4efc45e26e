"""Parquet and CSV files as sources: the scan of one file, or of all that match a table's pattern.

CSV files: the header, the check that quotes separate records unambiguously, numbers and dates that are not
written as SQL writes them, and copies in UTF-8 of files in other encodings, in a folder that only the owner
of the process may read. DuckDB reads UTF-8 alone in full: of Latin-1 it refuses bytes, and other encodings it
does not know.

Parquet files: the engine reads all files of a table with the types of the first one. It converts what another
file holds, and rounds what does not fit, so that which file comes first would decide what is counted; where
it cannot convert a value, the statement fails. So a difference by which a value could be lost is refused
before anything is asked.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path

import duckdb
import numpy as np

from dpsql.analysis import quote
from dpsql.errors import PolicyError
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import CsvFormat, CsvSource, ParquetSource, Table, files_of, fold, partitions
from dpsql.policy.table_parts import encoding_name, encoding_table
from dpsql.types import SqlType

_LONGEST_HEADER = 1_000_000
_CHUNK = 1 << 24
_QUOTE = ord('"')


def read_csv_header(table: Table, path: Path) -> list[str]:
    """Return the column names in the first line of a CSV file, as the policy calls them; no row is read.

    The file is in UTF-8. A column without a name has an empty one.
    """
    form = csv_format_of(table)
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
    return form.rename_header(header)


def csv_format_of(table: Table) -> CsvFormat:
    """Return how a table's CSV files are written; the common way for other sources."""
    return table.source.format if isinstance(table.source, CsvSource) else CsvFormat()


def write_csv_scan(
    table: Table, paths: Sequence[Path], header: list[str], keys: tuple[str, ...] = ()
) -> tuple[str, list[tuple[str, str]]]:
    """Write the scan of CSV files with all columns as text; return it with its columns' names and types.

    No type is guessed from rows. `keys` are the columns that are in the names of folders. A column without a
    name gets one that no policy can name.

    A private file is read by one thread. The parallel reader guesses at every chunk boundary where a record
    begins, so line breaks in one quoted field can make it fail for the whole table. The sequential reader
    ends silently at an unclosed quote, which `is_well_quoted` detects.
    """
    form = csv_format_of(table)
    names = [name or f"§{i}" for i, name in enumerate(header)]
    spec = ", ".join(f"{sql_text(name)}: 'VARCHAR'" for name in names)
    files, nulls = (", ".join(map(sql_text, each)) for each in (paths, form.null))
    folders = f"hive_partitioning = {str(bool(keys)).lower()}, hive_types_autocast = false, "
    scan = (
        f"read_csv([{files}], auto_detect = false, header = true, delim = {sql_text(form.delimiter)}, "
        f"quote = '\"', escape = '\"', nullstr = [{nulls}], ignore_errors = false, "
        f"parallel = {str(table.public).lower()}, {folders}columns = {{{spec}}})"
    )
    return scan, [(name, "VARCHAR") for name in (*names, *keys)]


def sql_text(value: object) -> str:
    """Write a text or path as a literal."""
    return "'" + str(value).replace("'", "''") + "'"


def is_well_quoted(path: Path, delimiter: str = ",", chunk: int = _CHUNK) -> bool:
    """Whether the quotes of a CSV file's rows follow RFC 4180; raises `OSError`."""
    return find_stray_quote(path, delimiter, chunk) is None


def find_stray_quote(path: Path, delimiter: str = ",", chunk: int = _CHUNK) -> int | None:
    r"""Return the place, in bytes, of a quote that breaks the rules of RFC 4180, or None; raises `OSError`.

    A quote is preceded or followed by a delimiter, a line's end, or a quote, as half of an escaped one.
    An opening quote begins a field, a closing one ends it, a quote within is doubled, none stands in an
    unquoted field, and all are closed. Then every reader agrees where records begin.

    >>> from pathlib import Path; import tempfile
    >>> file = Path(tempfile.mkdtemp(), "rows.csv")
    >>> def test(rows): _ = file.write_bytes(b"id,name\n" + rows); return is_well_quoted(file)
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
                (opening[~np.isin(cells[opening - 1], around)], closing[~np.isin(cells[closing + 1], around)])
            )
            if len(wrong):
                return start + int(wrong.min()) - 1
            inside ^= bool(len(at) % 2)
            opened = start + int(opening[-1]) - 1 if len(opening) else opened
            start, before, block = start + len(block), block[-1:], following
    return opened if inside else None


_COPIED_BYTES = 1 << 24


def copy_in_utf8(source: CsvSource, file: Path, folder: Path | None) -> Path:
    """Return a file with the same text in UTF-8: itself, or its copy in `folder`, made at the first call.

    No byte makes it fail: one without a meaning becomes a control or replacement character. Raises `OSError`.
    """
    if encoding_name(source.format.encoding) == "utf-8":
        return file
    if folder is None:
        raise OSError("no folder for the copy of a file")
    stat = file.stat()
    state = (str(file), source.format.encoding, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    copy = folder / f"text-{hashlib.sha256(repr(state).encode()).hexdigest()[:24]}.csv"
    if not copy.exists():
        part = copy.with_suffix(".part")
        _write_copy(file, part, source.format.encoding)
        part.replace(copy)
    return copy


def _write_copy(file: Path, copy: Path, encoding: str) -> None:
    table = encoding_table(encoding)
    decoder = codecs.getincrementaldecoder(encoding_name(encoding))("replace") if table is None else None
    descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with file.open("rb") as stream, open(descriptor, "wb") as out:
        while block := stream.read(_COPIED_BYTES):
            text = decoder.decode(block) if decoder else codecs.charmap_decode(block, "strict", table)[0]
            out.write(text.encode("utf-8", "replace"))
        if decoder is not None:
            out.write(decoder.decode(b"", final=True).encode("utf-8", "replace"))


_DATES = ("DATE", "TIMESTAMP", "TIMESTAMPTZ")
_DIGITS = {"D": r"\d{1,2}", "M": r"\d{1,2}", "Y": r"\d{4}"}


def common_text(cell: str, sql_type: SqlType, form: CsvFormat) -> str:
    r"""Write the SQL of a cell's text as it is converted to a type; the cell itself if it is common already.

    A text that is not written as the format says becomes one that does not convert, and never another value:
    `dpsql check` reports it. NULL stays NULL, and nothing raises.

    >>> from dpsql.types import column_type
    >>> print(common_text("x", column_type("DATE"), CsvFormat(date="DD.MM.YYYY")))
    regexp_replace('?' || x, '^\?\s*(\d{1,2})\.(\d{1,2})\.(\d{4})(\D.*)?$', '\3-\2-\1\4')
    """
    if sql_type.name in _DATES and form.date:
        return _date_text(cell, form.date)
    if not sql_type.numeric or (form.decimal == "." and not form.thousands):
        return cell
    if not form.thousands:
        # A dot is no part of such a number: with it the text is none.
        return cell if sql_type.integer else f"translate({cell}, '.,', '?.')"
    return _number_text(cell, form.decimal, form.thousands)


def _date_text(cell: str, order: str) -> str:
    """Put year, month and day in the order of SQL; a text without that beginning keeps its question mark."""
    parts = re.findall(r"D+|M+|Y+|[^DMY]", order)
    found = [part[0] for part in parts if part[0] in _DIGITS]
    pattern = "".join(f"({_DIGITS[part[0]]})" if part[0] in _DIGITS else re.escape(part) for part in parts)
    new = "-".join(f"\\{found.index(name) + 1}" for name in "YMD")
    return rf"regexp_replace('?' || {cell}, '^\?\s*{pattern}(\D.*)?$', '{new}\4')"


def _number_text(cell: str, decimal: str, thousands: str) -> str:
    """Leave out what groups digits, where it stands before each three digits, and write a decimal point."""
    group, point = re.escape(thousands), re.escape(decimal)
    pattern = rf"\s*[-+]?(\d{{1,3}}({group}\d{{3}})+|\d+)({point}\d*)?([eE][-+]?\d+)?\s*"
    plain = f"replace(replace({cell}, {sql_text(thousands)}, ''), {sql_text(decimal)}, '.')"
    return f"CASE WHEN regexp_full_match({cell}, {sql_text(pattern)}) THEN {plain} ELSE '?' || {cell} END"


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column as a source holds it: a column of its own, or a field of a STRUCT."""

    name: str
    """The name that a policy declares: `address.city` of a field."""
    type: str
    cell: str
    """The expression that reads it."""


def stored_columns(table: Table, physical: list[tuple[str, str]]) -> list[StoredColumn]:
    """Return what a policy may declare of a source: its columns, in place of each STRUCT its fields.

    A public table has its STRUCT as a whole, unless the policy declares its fields: everybody reads it, with
    whatever the engine can do.
    """
    found = []
    for name, sql_type in physical:
        column, below = StoredColumn(name, sql_type, quote(name)), f"{fold(name)}."
        by_field = not table.public or any(fold(c).startswith(below) for c in table.columns or ())
        found += fields_of(column) if by_field else [column]
    return found


def fields_of(column: StoredColumn) -> list[StoredColumn]:
    """Return the fields of a STRUCT, and those of its fields in their place; a column of its own otherwise.

    >>> [(c.name, c.type) for c in fields_of(StoredColumn("a", "STRUCT(x HUGEINT, y STRUCT(z DATE))", '"a"'))]
    [('a.x', 'HUGEINT'), ('a.y.z', 'DATE')]
    """
    if not column.type.startswith("STRUCT(") or column.type.endswith("]"):
        return [column]
    return [
        part
        for name, kind in duckdb.sqltype(column.type).children
        for part in fields_of(
            StoredColumn(
                f"{column.name}.{name}", str(kind), f"struct_extract({column.cell}, {sql_text(name)})"
            )
        )
    ]


_SCHEMAS = """
SELECT s, min_by(f, i) AS f, min(i) FROM (
  SELECT file_name AS f, list_position({files}, file_name) AS i,
    list((name, coalesce(num_children, 0), duckdb_type) ORDER BY column_id) AS s
  FROM parquet_schema({files}) GROUP BY file_name
) GROUP BY s ORDER BY 3
"""
"""The different schemas, each with the first file that has it; the first one is that of the first file."""

_WIDTHS = {
    **{f"{sign}{name}": bits for name, bits in (("TINYINT", 8), ("SMALLINT", 16)) for sign in ("", "U")},
    **{f"{sign}{name}": bits for name, bits in (("INTEGER", 32), ("BIGINT", 64)) for sign in ("", "U")},
    **{f"{sign}HUGEINT": 128 for sign in ("", "U")},
}
"""Integers: their names and bits."""
_EXACT = {"FLOAT": 24, "DOUBLE": 53}
"""Floats: the bits of the integers that they hold."""
_AS_TEXT = frozenset({*_WIDTHS, "BOOLEAN", "DATE", "UUID"})
"""Types of which each value has one text."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A column that two files of a table hold with types of which one loses values of the other."""

    column: str
    first: Path
    other: Path
    types: tuple[str, str | None]
    """The types of both files; None: the other one has no such column."""

    def __str__(self) -> str:
        held, other = self.types
        what = "has no such column" if other is None else f"has {other}"
        return (
            f"{self.column} is {held} in {self.first}, with which all files are read, "
            f"and {self.other} {what}: write both with one type"
        )


def find_difference(
    connection: duckdb.DuckDBPyConnection, files: Sequence[Path], columns: Collection[str] | None = None
) -> Difference | None:
    """Return the first difference by which values of Parquet files are lost; None if there is none.

    `columns` are the folded names of those that are read, of fields as `address.city`; None: all.
    """
    if len(files) < 2:
        return None
    listed = f"[{', '.join(map(sql_text, files))}]"
    rows = connection.execute(_SCHEMAS.format(files=listed)).fetchall()
    found = [(Path(file), _schema_columns(schema)) for schema, file, _ in rows]
    first, held = found[0]
    for other, theirs in found[1:]:
        for name, (title, kind) in held.items():
            if columns is not None and name not in columns:
                continue
            own = theirs.get(name)
            if own is None or not is_kept(own[1], kind):
                return Difference(title, first, other, (kind, None if own is None else own[1]))
    return None


def _schema_columns(schema: list[tuple[str, int, str | None]]) -> dict[str, tuple[str, str]]:
    """Return the columns of a schema by their folded names, also the fields of each STRUCT."""
    found: dict[str, tuple[str, str]] = {}
    at = 1  # behind the root
    while at < len(schema):
        name, _, kind = schema[at]
        for part in fields_of(StoredColumn(name, kind or "", "")):
            found.setdefault(fold(part.name), (part.name, part.type))
        if kind is not None and kind.startswith("STRUCT("):
            found.setdefault(fold(name), (name, kind))
        left = 1
        while left:  # all that is below it
            left += schema[at][1] - 1
            at += 1
    return found


def is_kept(held: str, read: str) -> bool:
    """Whether each value of a type is the same value when it is read with another one.

    >>> is_kept("INTEGER", "BIGINT"), is_kept("DOUBLE", "BIGINT"), is_kept("BIGINT", "DOUBLE")
    (True, False, False)
    >>> is_kept("DECIMAL(9,2)", "DECIMAL(12,3)"), is_kept("UINTEGER", "INTEGER"), is_kept("DATE", "TIMESTAMP")
    (True, False, True)
    """
    if held == read:
        return True
    if read == "VARCHAR":
        return held in _AS_TEXT or held.startswith("ENUM")
    if (held, read) in (("FLOAT", "DOUBLE"), ("DATE", "TIMESTAMP")):
        return True
    bits = _WIDTHS.get(held)
    decimals, theirs = _decimal_digits(read), _decimal_digits(held)
    if bits is not None:
        unsigned = held.startswith("U")
        if read in _WIDTHS:
            signed_too = unsigned and not read.startswith("U")
            return (
                _WIDTHS[read] > bits
                if signed_too
                else unsigned == read.startswith("U") and (_WIDTHS[read] >= bits)
            )
        if read in _EXACT:
            return bits - (not unsigned) <= _EXACT[read]
        most = 2 ** (bits - (not unsigned))
        return decimals is not None and most <= 10 ** (decimals[0] - decimals[1])
    if decimals is not None and theirs is not None:
        return decimals[1] >= theirs[1] and decimals[0] - decimals[1] >= theirs[0] - theirs[1]
    return False


def _decimal_digits(kind: str) -> tuple[int, int] | None:
    """Return the digits of a DECIMAL, and those behind the point; None for other types."""
    found = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind)
    return None if found is None else (int(found[1]), int(found[2]))


@dataclass(frozen=True, slots=True)
class FileScan:
    """The scan of a table's files."""

    sql: str
    """An item of FROM."""
    physical: list[tuple[str, str]] | None
    """The names and types of its columns; None: the files have a schema of their own."""
    paths: tuple[Path, ...]
    """The files that the engine reads."""


def scan_files(table: Table, folder: Path | None) -> FileScan:
    """Write the scan of a table's files as they are now; `folder` is for copies in UTF-8.

    Files are named one by one: a pattern would be matched again by the engine at each statement, when other
    files may be there than those whose version is known.
    """
    source = table.source
    if not isinstance(source, ParquetSource | CsvSource):
        raise PolicyError(f"tables.{table.name}.source: unknown kind of source")
    files = files_of(source)
    place = f"tables.{table.name}.source"
    if not files:
        raise PolicyError(f"{place}: no file matches the pattern")
    for file in files:
        if any(c in str(file) for c in "*?["):
            raise PolicyError(f"{place}: its path contains * ? or [, which match several files")
        if str(file).endswith((".gz", ".zst", ".bz2")):
            raise PolicyError(f"{place}: compressed text is not read", hint="decompress it, or use Parquet")
    keys = partitions(source, files)
    if isinstance(source, ParquetSource):
        if source.parts is None:
            return FileScan(f"read_parquet({sql_text(files[0])})", None, tuple(files))
        listed = ", ".join(map(sql_text, files))
        return FileScan(f"read_parquet([{listed}], {hive_arguments(bool(keys))})", None, tuple(files))
    return _scan_csv(table, source, files, keys, folder)


def hive_arguments(partitioned: bool) -> str:
    """Write the arguments that read partition columns from the names of folders, as texts."""
    return f"hive_partitioning = {str(partitioned).lower()}, hive_types_autocast = false"


def _scan_csv(
    table: Table, source: CsvSource, files: list[Path], keys: tuple[str, ...], folder: Path | None
) -> FileScan:
    try:
        copies = [copy_in_utf8(source, file, folder) for file in files]
    except OSError:
        raise PolicyError(f"tables.{table.name}.source: cannot be read") from None
    headers = [read_csv_header(table, file) for file in copies]
    if any(header != headers[0] for header in headers):
        raise PolicyError(
            f"tables.{table.name}.source: its files have different headers",
            hint="the owner runs `dpsql check`, which names them",
        )
    scan, physical = write_csv_scan(table, copies, headers[0], keys)
    declared = {fold(name): kind for name, kind in (table.columns or {}).items()}
    cells = {
        name: common_text(quote(name), kind, source.format)
        for name, _ in physical
        if (kind := declared.get(fold(name))) is not None
    }
    changed = ", ".join(f"{cell} AS {quote(n)}" for n, cell in cells.items() if cell != quote(n))
    if changed:
        scan = f"(SELECT * REPLACE ({changed}) FROM {scan})"
    return FileScan(scan, physical, tuple(copies))
