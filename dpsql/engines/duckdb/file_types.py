"""Compare the types of a table's Parquet files: the engine reads all of them with those of the first one.

It converts what another file holds, and rounds what does not fit, so that which file comes first would
decide what is counted; where it cannot convert a value, the statement fails. So a difference by which a value
could be lost is refused before anything is asked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

import duckdb

from dpsql.engines.duckdb.csv_source import text
from dpsql.engines.duckdb.stored import StoredColumn, fields_of
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold

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


def difference(
    connection: duckdb.DuckDBPyConnection, files: Sequence[Path], columns: Collection[str] | None = None
) -> Difference | None:
    """Return the first difference by which values of Parquet files are lost; None if there is none.

    `columns` are the folded names of those that are read, of fields as `address.city`; None: all.
    """
    if len(files) < 2:
        return None
    listed = f"[{', '.join(map(text, files))}]"
    rows = connection.execute(_SCHEMAS.format(files=listed)).fetchall()
    found = [(Path(file), _columns(schema)) for schema, file, _ in rows]
    first, held = found[0]
    for other, theirs in found[1:]:
        for name, (title, kind) in held.items():
            if columns is not None and name not in columns:
                continue
            own = theirs.get(name)
            if own is None or not keeps(own[1], kind):
                return Difference(title, first, other, (kind, None if own is None else own[1]))
    return None


def _columns(schema: list[tuple[str, int, str | None]]) -> dict[str, tuple[str, str]]:
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


def keeps(held: str, read: str) -> bool:
    """Return whether each value of a type is the same value when it is read with another one.

    >>> keeps("INTEGER", "BIGINT"), keeps("DOUBLE", "BIGINT"), keeps("BIGINT", "DOUBLE")
    (True, False, False)
    >>> keeps("DECIMAL(9,2)", "DECIMAL(12,3)"), keeps("UINTEGER", "INTEGER"), keeps("DATE", "TIMESTAMP")
    (True, False, True)
    """
    if held == read:
        return True
    if read == "VARCHAR":
        return held in _AS_TEXT or held.startswith("ENUM")
    if (held, read) in (("FLOAT", "DOUBLE"), ("DATE", "TIMESTAMP")):
        return True
    bits = _WIDTHS.get(held)
    decimals, theirs = _decimal(read), _decimal(held)
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


def _decimal(kind: str) -> tuple[int, int] | None:
    """Return the digits of a DECIMAL, and those behind the point; None for other types."""
    found = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind)
    return None if found is None else (int(found[1]), int(found[2]))
