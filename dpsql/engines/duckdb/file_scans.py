"""Scans of Parquet and CSV files: of one file, or of all that match a table's pattern."""

from __future__ import annotations

from pathlib import Path

from dpsql.analysis import quote
from dpsql.engines.duckdb.csv_source import csv_header, csv_scan, text
from dpsql.engines.duckdb.csv_text import in_utf8
from dpsql.engines.duckdb.csv_values import common_text
from dpsql.errors import PolicyError
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import CsvSource, ParquetSource, Table, files_of, fold, partitions


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
            return FileScan(f"read_parquet({text(files[0])})", None, tuple(files))
        listed = ", ".join(map(text, files))
        return FileScan(f"read_parquet([{listed}], {hive(bool(keys))})", None, tuple(files))
    return _csv(table, source, files, keys, folder)


def hive(partitioned: bool) -> str:
    """Write the arguments that read partition columns from the names of folders, as texts."""
    return f"hive_partitioning = {str(partitioned).lower()}, hive_types_autocast = false"


def _csv(
    table: Table, source: CsvSource, files: list[Path], keys: tuple[str, ...], folder: Path | None
) -> FileScan:
    try:
        copies = [in_utf8(source, file, folder) for file in files]
    except OSError:
        raise PolicyError(f"tables.{table.name}.source: cannot be read") from None
    headers = [csv_header(table, file) for file in copies]
    if any(header != headers[0] for header in headers):
        raise PolicyError(
            f"tables.{table.name}.source: its files have different headers",
            hint="the owner runs `dpsql check`, which names them",
        )
    scan, physical = csv_scan(table, copies, headers[0], keys)
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
