"""Read the schema of a file or database: names, types and enforced keys; no row is read.

It serves the owner who writes a policy, and tells the engine's own words. A CSV file has names only, so the
owner states the types: guessing them would read rows, and the guess would appear in a public policy. Only how
it is written is seen: its delimiter follows from the header, its encoding from the first bytes of the file,
whatever they mean, and of the first lines it is only seen whether all times of a column are written with an
offset.
"""

from __future__ import annotations

import codecs
import csv
import re
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb

from dpsql.analysis import quote
from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.duckdb.duckdb_settings import duckdb_words
from dpsql.engines.duckdb.source_files import (
    StoredColumn,
    fields_of,
    find_difference,
    hive_arguments,
    sql_text,
)
from dpsql.errors import PolicyError
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern
from dpsql.policy import CsvFormat, CsvSource, FileSource, ParquetSource, files_of, partitions
from dpsql.policy.names import name_problem
from dpsql.policy.table_parts import encoding_name, pattern_problem, split_pattern
from dpsql.types import TIMESTAMPTZ, SqlType, column_type

_LOOKED_AT = 1 << 24
_DELIMITERS = (",", ";", "\t", "|")
_LONGEST_HEADER = 1_000_000
_FIRST_LINES = 1 << 16
_WITH_OFFSET = lazy_pattern(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)? ?(Z|UTC|[+-]\d\d(:?\d\d)?)")


def find_format(path: Path) -> CsvFormat:
    """Return the format that a CSV file seems to have; raises `PolicyError` if it cannot be read."""
    head = _read_first_bytes(path, _LOOKED_AT)
    encoding = _find_encoding(head)
    line = _read_header_line(path, encoding)
    widths = [(len(next(csv.reader([line], delimiter=d), [])), -i, d) for i, d in enumerate(_DELIMITERS)]
    delimiter = max(widths)[2]
    return CsvFormat(delimiter=delimiter, encoding=encoding, decimal="," if delimiter == ";" else ".")


def _read_first_bytes(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError as problem:
        raise PolicyError(f"{path} cannot be read: {problem.strerror}") from None


def _find_encoding(head: bytes) -> str:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        # The end may be within a character.
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "windows-1252"  # as browsers read what is called Latin-1
    return "utf-8"


def _read_header_line(path: Path, encoding: str) -> str:
    decoder = codecs.getincrementaldecoder("utf-8-sig" if encoding_name(encoding) == "utf-8" else encoding)
    text = decoder("replace").decode(_read_first_bytes(path, _LONGEST_HEADER))
    return re.split(r"\r\n|\n|\r", text, maxsplit=1)[0]


def read_header(path: Path, form: CsvFormat) -> list[str]:
    """Return the names in the header of a CSV file; a column without a name has an empty one."""
    try:
        header = next(csv.reader([_read_header_line(path, form.encoding)], delimiter=form.delimiter), [])
    except csv.Error:
        header = []
    if not header:
        raise PolicyError(f"{path} has no header line")
    return header


def find_offsets(path: Path, form: CsvFormat, width: int) -> set[int]:
    """Return the places of the columns whose texts in the first lines are all times with an offset."""
    decoder = codecs.getincrementaldecoder(
        "utf-8-sig" if encoding_name(form.encoding) == "utf-8" else form.encoding
    )
    lines = decoder("replace").decode(_read_first_bytes(path, _FIRST_LINES)).splitlines()
    try:
        rows = [
            row for row in csv.reader(lines[1:-1] or lines[1:], delimiter=form.delimiter) if len(row) == width
        ]
    except csv.Error:
        return set()
    texts = [[row[i] for row in rows if row[i]] for i in range(width)]
    return {i for i, found in enumerate(texts) if found and all(map(_WITH_OFFSET.fullmatch, found))}


def rename_columns(form: CsvFormat, header: list[str]) -> CsvFormat:
    """Return a format that gives a plain name to each column whose own is not plain ASCII.

    >>> rename_columns(CsvFormat(), ["id", "Amount (€)", "Größe", "", "Größe!"]).rename
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


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """One column of a source.

    `kind` is the type to declare: the source's own, a similar one if that is not supported, or None if there
    is none. `physical` is the source's own type; None for a column of a CSV file, or of the names of folders.
    """

    name: str
    kind: SqlType | None
    physical: str | None = None
    whole: FoundColumn | None = None
    """The STRUCT of which it is a field."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A table that is left out, why, and the statement or option that would let it be declared."""

    name: str
    why: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """One table of a source."""

    name: str
    """A plain name, derived from the name of the file or table."""
    source: str
    """The source as a policy names it: a file's path, or `schema.table` of the database."""
    database: Path | None
    """The database of the table; None for files."""
    columns: tuple[FoundColumn, ...]
    """In the source's order."""
    unique: tuple[tuple[str, ...], ...] = ()
    """Sets of columns that the database enforces to be unique and not NULL."""
    not_null: tuple[str, ...] = ()
    """Columns that the database enforces to be not NULL."""
    parents: tuple[tuple[str, str, str], ...] = ()
    """Foreign keys of one column, each as column, parent's `source` and parent's column."""
    csv: CsvFormat | None = None
    """How a CSV file is written; None for other sources."""
    unnamed: int = 0
    """How many columns of a CSV file have no name; they are not among the others."""
    folders: tuple[str, ...] = ()
    """The columns that are in the names of folders."""
    engine: str = ""
    """The address of the engine that holds the table, as a policy names it; empty for DuckDB."""
    stable: bool = False
    """Whether it is a view that the owner has named."""

    @property
    def in_database(self) -> bool:
        """Whether the source is a table of a database or engine, not a file."""
        return self.database is not None or (bool(self.engine) and not is_file(self.source))


_DECLARABLE = {
    "HUGEINT": "BIGINT",
    "UHUGEINT": "BIGINT",
    "TIMESTAMP_S": "TIMESTAMP",
    "TIMESTAMP_MS": "TIMESTAMP",
    "TIMESTAMP_NS": "TIMESTAMP",
    "TIME WITH TIME ZONE": "TIME",
    "JSON": "VARCHAR",
    "BIT": "VARCHAR",
    "INTERVAL": "VARCHAR",
}


AskFormat = Callable[[str, CsvFormat], CsvFormat]
"""Called with a table's name and the format found for its CSV files; returns the one that holds."""


def is_file(source: str) -> bool:
    """Whether a source is a file, a folder or a pattern of files, not the name of a table.

    >>> is_file("visits.parquet"), is_file("shop.visits")
    (True, False)
    """
    return source.lower().endswith((".parquet", ".pq", ".csv", ".csv.gz")) or "/" in source


def introspect(path: Path, ask: AskFormat = lambda name, form: form) -> list[Found]:
    """Return the tables of files or of a DuckDB database; raises `PolicyError` with the engine's own words.

    `path` is a Parquet file, a CSV file, a database, a folder of files, or a pattern of files.
    """
    named = path.as_posix()
    if path.is_dir():
        kinds = [kind for kind in ("parquet", "csv") if files_of(ParquetSource(path, f"**/*.{kind}"))]
        if len(kinds) != 1:
            what = "both Parquet and CSV files" if kinds else "no Parquet or CSV files"
            hint = f"name one kind: {named}/**/*.parquet" if kinds else None
            raise PolicyError(f"{path} holds {what}", hint=hint)
        named = f"{named}/**/*.{kinds[0]}"
    folder, pattern = split_pattern(named, Path())
    if pattern is not None and (problem := pattern_problem(pattern)):
        raise PolicyError(f"{path}: {problem}")
    name = make_table_name(path.stem if pattern is None else folder.absolute().name)
    suffix = Path(named).suffix.lower()
    if suffix in (".parquet", ".pq"):
        parquet = ParquetSource(folder, pattern)
        files = _list_files(parquet)
        keys = partitions(parquet, files)
        columns = tuple(_without_type(c) if c.name in keys else c for c in _read_parquet(files, bool(keys)))
        return [Found(name, named, None, columns, folders=keys)]
    if suffix == ".csv":
        csv = CsvSource(folder, pattern)
        files = _list_files(csv)
        form = ask(name, find_format(files[0]))
        form.check(str(path))
        header = read_header(files[0], form)
        form, keys = rename_columns(form, header), partitions(csv, files)
        instants = find_offsets(files[0], form, len(header))
        names = [(each, i in instants) for i, each in enumerate(form.rename_header(header)) if each]
        names += [(each, False) for each in keys]
        found = tuple(FoundColumn(n, TIMESTAMPTZ if instant else SqlType("VARCHAR")) for n, instant in names)
        return [Found(name, named, None, found, csv=form, unnamed=header.count(""), folders=keys)]
    if pattern is not None:
        raise PolicyError(f"{path}: the files of a pattern end in .parquet or .csv")
    if not path.is_file():
        raise PolicyError(f"there is no file {path}")
    return _read_database(path)


def _list_files(source: FileSource) -> list[Path]:
    files = files_of(source)
    if source.parts is None and not source.path.is_file():
        raise PolicyError(f"there is no file {source.path}")
    if not files:
        raise PolicyError(f"no file matches {source.path / str(source.parts)}")
    return files


def _without_type(column: FoundColumn) -> FoundColumn:
    return FoundColumn(column.name, SqlType("VARCHAR"))


def make_table_name(name: str) -> str:
    """Return a plain name made of the name of a file or table."""
    made = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "data"
    return f"t_{made}" if made[0].isdigit() else made


def _read_parquet(files: list[Path], partitioned: bool) -> tuple[FoundColumn, ...]:
    # A path with one of these characters would be a pattern, which matches other files.
    if any(character in str(file) for file in files for character in "*?["):
        raise PolicyError(f"{files[0]} cannot be read", hint="its path contains * ? or [: rename it")
    scan = f"read_parquet([{', '.join(map(sql_text, files))}], {hive_arguments(partitioned)})"
    found: list[tuple[str, str]] = []
    words = differs = None
    with duckdb_settings.interruptible(), duckdb_settings.connect() as connection:
        try:
            rows = connection.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()
            found = [(row[0], row[1]) for row in rows]
            differs = find_difference(connection, files)
        except duckdb.Error as problem:
            words = duckdb_words(problem)
    if words is not None:
        raise PolicyError(f"{files[0]} cannot be read: {words}", hint="is it a Parquet file?")
    if differs is not None:
        hint = "or write a policy that declares the columns to show, without this one, and `dpsql check` it"
        raise PolicyError(f"values would be lost: {differs}", hint=hint)
    return tuple(part for name, physical in found for part in _found_columns(name, physical))


def _found_columns(name: str, physical: str) -> list[FoundColumn]:
    """Return a column, or the fields of a STRUCT."""
    column = FoundColumn(name, declarable_type(physical), physical)
    parts = fields_of(StoredColumn(name, physical, quote(name)))
    if [part.name for part in parts] == [name]:
        return [column]
    return [FoundColumn(part.name, declarable_type(part.type), part.type, column) for part in parts]


_COLUMNS = """
SELECT schema_name, table_name, column_name, data_type, is_nullable FROM duckdb_columns()
WHERE database_name = 'own' AND (schema_name, table_name) IN
  (SELECT (schema_name, table_name) FROM duckdb_tables() WHERE database_name = 'own' AND NOT temporary)
ORDER BY schema_name <> 'main', schema_name, table_name, column_index
"""
_KEYS = """
SELECT schema_name, table_name, constraint_type, constraint_column_names, referenced_table,
  referenced_column_names
FROM duckdb_constraints()
WHERE database_name = 'own' AND constraint_type IN ('PRIMARY KEY', 'UNIQUE', 'FOREIGN KEY')
ORDER BY ALL
"""


def _read_database(path: Path) -> list[Found]:
    rows, keys, words = [], [], None
    with duckdb_settings.interruptible(), duckdb_settings.connect() as connection:
        try:
            connection.execute(f"ATTACH {sql_text(path)} AS own (READ_ONLY)")
            keys = connection.execute(_KEYS).fetchall()
            rows = connection.execute(_COLUMNS).fetchall()
        except duckdb.Error as problem:
            words = duckdb_words(problem)
    if words is not None:
        mend = "close it in the other process, or copy it with its .wal while nothing is written"
        raise PolicyError(
            f"{path} is not a readable Parquet file, CSV file or DuckDB database: {words}",
            hint=mend if "lock" in words else None,
        )
    columns: dict[tuple[str, str], list[FoundColumn]] = {}
    never_null = set()
    for schema, table, column, physical, nullable in rows:
        columns.setdefault((schema, table), []).extend(_found_columns(column, physical))
        if not nullable:
            never_null.add((schema, table, column))
    unique: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    parents: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for schema, table, constraint, own, parent, theirs in keys:
        if constraint == "FOREIGN KEY" and len(own) == 1:
            parents.setdefault((schema, table), []).append(
                (own[0], qualified_name(schema, parent), theirs[0])
            )
        elif constraint != "FOREIGN KEY" and all((schema, table, column) in never_null for column in own):
            # The database's UNIQUE allows two NULLs; dpsql's does not.
            unique.setdefault((schema, table), []).append(tuple(own))
    return [
        Found(
            name=make_table_name(table if schema == "main" else f"{schema}_{table}"),
            source=qualified_name(schema, table),
            database=path,
            columns=tuple(found),
            unique=tuple(dict.fromkeys(unique.get((schema, table), ()))),
            not_null=tuple(c.name for c in found if (schema, table, c.name) in never_null and not c.whole),
            parents=tuple(parents.get((schema, table), ())),
        )
        for (schema, table), found in columns.items()
    ]


def qualified_name(schema: str, table: str) -> str:
    """Write the name of a table as a policy does: without the schema `main`."""
    parts = [table] if schema == "main" else [schema, table]
    plain = r"[A-Za-z_][A-Za-z0-9_]*"
    return ".".join(
        part if re.fullmatch(plain, part) else '"' + part.replace('"', '""') + '"' for part in parts
    )


def declarable_type(physical: str) -> SqlType | None:
    """Return the type to declare for a physical type; None if analysts cannot use its values."""
    wide = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", physical)
    if wide and int(wide[1]) > 18:
        physical = f"DECIMAL(18,{wide[2]})" if int(wide[2]) <= 18 else "DOUBLE"
    try:
        sql_type = column_type(_DECLARABLE.get(physical, physical))
    except ValueError:
        return None
    if sql_type.name == "ENUM":
        # Its values may come from the rows; the owner decides whether to declare them as a domain.
        return SqlType("VARCHAR")
    return None if _has_unsupported_parts(sql_type) else sql_type


def _has_unsupported_parts(sql_type: SqlType) -> bool:
    """Whether a type is a list or struct with parts that cannot be made encoding_name."""
    inner = [sql_type.item] if sql_type.item is not None else [field for _, field in sql_type.fields]
    return any(part.name in ("DOUBLE", "ENUM") or _has_unsupported_parts(part) for part in inner)
