"""The parts of a policy's table: its source, privacy unit and public domains; the defaults of statements.

The source may be files: one file, or all that match a pattern, and the format of CSV files.
"""

from __future__ import annotations

import codecs
import fnmatch
import os
import re
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Literal

from dpsql.language import DIALECTS
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern
from dpsql.policy import zones
from dpsql.policy.names import key_path, wrong

_WILDCARD, _HIDDEN = lazy_pattern(r"[*?\[]"), (".", "_")
_THOUSANDS = (".", ",", "'", " ", "\u00a0", "\u202f")
_DATE = lazy_pattern(r"(DD|MM|YYYY)[./ -](DD|MM|YYYY)[./ -](DD|MM|YYYY)")
_PARTITION = lazy_pattern(r"([^=]+)=(.*)")


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """How a CSV file is written, beside its quotes: `"` around a field, and doubled within it."""

    delimiter: str = ","
    """One character between fields."""
    encoding: str = "utf-8"
    """`utf-8`, `utf-16`, or an encoding of one byte a character whose first half is ASCII."""
    null: tuple[str, ...] = ("",)
    """The texts that are read as NULL."""
    decimal: str = "."
    """The character before the decimals of a number."""
    thousands: str = ""
    """The character between each three digits of a number; empty if there is none."""
    date: str = ""
    """The order of `DD`, `MM` and `YYYY` in a date, with what stands between them; empty: that of SQL."""
    rename: tuple[tuple[str, str], ...] = ()
    """Names in the header, and what the columns are called instead."""

    def check(self, place: str) -> None:
        """Raise `PolicyError` at a key below `place` for a format that cannot be read."""
        if not re.fullmatch(r"[\t -~]", self.delimiter) or re.fullmatch(r'["A-Za-z0-9_. -]', self.delimiter):
            raise wrong(f"{place}.delimiter", "is one character such as , ; | or a tab", 'write ";" or "\\t"')
        if not is_supported(self.encoding):
            raise wrong(
                f"{place}.encoding",
                f"{self.encoding[:40]!r} is no encoding that can be read",
                'write "utf-8", "latin-1", "windows-1252", another one-byte encoding, or "utf-16"',
            )
        if not self.null or any('"' in text or "\n" in text or len(text) > 100 for text in self.null):
            raise wrong(f"{place}.null", "is a text, or a list of texts, without quotes", 'write ["", "NA"]')
        if self.decimal not in (".", ","):
            raise wrong(f"{place}.decimal", 'is "." or ","')
        if self.thousands not in ("", *_THOUSANDS) or self.thousands == self.decimal:
            other = "," if self.decimal == "." else "."
            raise wrong(
                f"{place}.thousands", "stands between each three digits", f'write "{other}", "\'" or " "'
            )
        if self.date and not (_DATE.fullmatch(self.date) and len(set(re.findall("[DMY]", self.date))) == 3):
            raise wrong(
                f"{place}.date", "has DD, MM and YYYY, once each", 'write "DD.MM.YYYY" or "MM/DD/YYYY"'
            )
        new = [name for _, name in self.rename]
        if len(set(new)) < len(new):
            raise wrong(f"{place}.rename", "gives two columns one name")

    def rename_header(self, header: list[str]) -> list[str]:
        """Return the names of the columns of a header, as they are called here; empty ones stay empty.

        >>> CsvFormat(rename=(("Amount (€)", "amount"),)).rename_header(["", "id", "Amount (€)"])
        ['', 'id', 'amount']
        """
        new = dict(self.rename)
        return [new.get(name, name) for name in header]


@lru_cache(maxsize=64)
def is_supported(encoding: str) -> bool:
    """Whether text in an encoding can be read: UTF-8, UTF-16, or one byte a character with ASCII as is.

    >>> [is_supported(name) for name in ("latin-1", "windows-1252", "utf-16", "cp037", "shift_jis", "rot13")]
    [True, True, True, False, False, False]
    """
    return encoding_name(encoding) in ("utf-8", "utf-16") or encoding_table(encoding) is not None


def encoding_name(encoding: str) -> str:
    """Return Python's name of an encoding; empty if there is none."""
    try:
        found = codecs.lookup(encoding)
    except (LookupError, ValueError):
        return ""
    return "utf-8" if found.name in ("ascii", "utf-8-sig") else found.name


@lru_cache(maxsize=64)
def encoding_table(encoding: str) -> str | None:
    """Return the 256 characters of an encoding of one byte a character; None for all others.

    A byte without a character stands for the control character of its number, so that all bytes are read.
    """
    name = encoding_name(encoding)
    if not name or name in ("utf-8", "utf-16"):
        return None
    found = []
    for number in range(256):
        try:
            text = bytes([number]).decode(name)
        except UnicodeDecodeError:
            text = chr(number)
        except LookupError:  # no encoding of text
            return None
        found.append(text)
    table = "".join(found)
    plain = table[:128] == "".join(map(chr, range(128))) and len(table) == 256
    # In an encoding of several bytes a character, most bytes of its second half mean nothing alone.
    both = name.startswith(("iso8859", "latin", "cp", "koi8", "mac", "tis", "ptcp", "kz", "hp"))
    return table if plain and both and name not in _SEVERAL_BYTES else None


_SEVERAL_BYTES = frozenset({"cp932", "cp936", "cp949", "cp950"})


@dataclass(frozen=True, slots=True)
class ParquetSource:
    """The table is a Parquet file, or all Parquet files that match a pattern."""

    path: Path
    parts: str | None = None
    """The pattern of the files below the folder `path`; None: `path` is the file."""


@dataclass(frozen=True, slots=True)
class UploadedSource(ParquetSource):
    """The table is one that an analyst has uploaded: a file of the session's, which never changes."""

    digest: str = ""
    """The hash of its rows, which stands for the path in fingerprints."""


@dataclass(frozen=True, slots=True)
class CsvSource:
    """The table is one or several CSV files with a header, read with the declared types and never sniffed."""

    path: Path
    parts: str | None = None
    """The pattern of the files below the folder `path`; None: `path` is the file."""
    format: CsvFormat = CsvFormat()


FileSource = ParquetSource | CsvSource
"""A source that is one file or several."""


def split_pattern(text: str, base: Path) -> tuple[Path, str | None]:
    """Split a path as a policy writes it into a folder and the pattern of the files below it.

    >>> split_pattern("data/2024-*/*.csv", Path("/here")), split_pattern("a.csv", Path("/here"))
    ((PosixPath('/here/data'), '2024-*/*.csv'), (PosixPath('/here/a.csv'), None))
    """
    whole = base / text
    names = text.split("/")
    first = next((i for i, name in enumerate(names) if _WILDCARD.search(name)), None)
    if first is None or whole.is_file():
        return whole, None
    folder = "/".join(names[:first])
    return (base / folder if first else base) if folder or not first else Path("/"), "/".join(names[first:])


def pattern_problem(pattern: str) -> str | None:
    """Return what is wrong with the pattern of a table's files; None for a valid one."""
    names = pattern.split("/")
    if any(name in ("", ".", "..") for name in names):
        return "behind a * ? or [ come names of folders and files alone"
    if any("**" in name and name != "**" for name in names):
        return "** stands alone between two /: it is any number of folders"
    return None


def files_of(source: FileSource) -> list[Path]:
    """Return the files of a table in the order of their names: the file, or those that match the pattern now.

    Where the pattern has a wildcard, names that begin with a dot or an underscore do not match: programs that
    write such folders mark by them what is no data. A link to a file is that file; `**` follows no link.
    """
    if source.parts is None:
        return [source.path]
    names = source.parts.split("/")
    found = _match_files(os.fspath(source.path), names, frozenset({0}))
    return [Path(file) for file in sorted(found, key=lambda file: file.split(os.sep))]


def _match_files(folder: str, names: list[str], places: frozenset[int]) -> Iterator[str]:
    """Yield the files below a folder that match the rest of a pattern from one of these places on."""
    places |= {place + 1 for place in places if names[place] == "**"}
    try:
        with os.scandir(folder) as listed:
            entries = list(listed)
    except OSError:  # removed meanwhile, or no folder
        return
    for entry in entries:
        inner = set()
        for place in places:
            if names[place] == "**":
                if not entry.name.startswith(_HIDDEN) and entry.is_dir(follow_symlinks=False):
                    inner.add(place)
            elif not _is_match(entry.name, names[place]):
                continue
            elif place < len(names) - 1:
                inner.add(place + 1)
            elif entry.is_file():
                yield entry.path
        if inner and entry.is_dir():
            yield from _match_files(entry.path, names, frozenset(inner))


def _is_match(name: str, pattern: str) -> bool:
    if not _WILDCARD.search(pattern):
        return name == pattern
    return not name.startswith(_HIDDEN) and _compile(pattern).match(name) is not None


@lru_cache(maxsize=256)
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))


def names_below(source: FileSource, files: list[Path]) -> list[str]:
    """Return the names of a table's files below the folder of its pattern."""
    folder = os.fspath(source.path)
    start = 0 if folder == "." else len(folder.rstrip(os.sep)) + 1
    return [os.fspath(file)[start:] for file in files]


def partitions(source: FileSource, files: list[Path]) -> tuple[str, ...]:
    """Return the columns that are in the names of folders: `country` of `country=DE/a.parquet`.

    They exist where all files below the pattern's folder have the same ones.
    """
    if source.parts is None or not files:
        return ()
    found = {
        tuple(
            match[1] for name in below.split(os.sep)[:-1] if (match := _PARTITION.fullmatch(name)) is not None
        )
        for below in names_below(source, files)
    }
    return found.pop() if len(found) == 1 else ()


Value = str | int | bool | Decimal | date | datetime | time
"""One value of a public domain. Never a float: a DOUBLE is held as its shortest decimal."""


@dataclass(frozen=True, slots=True)
class DatabaseSource:
    """The table is a table of the owner's database."""

    schema: str | None
    table: str


@dataclass(frozen=True, slots=True)
class ViewSource(DatabaseSource):
    """The table is a view, of which the owner says that it is as good as a table (`stable = true`).

    That is: each row comes from rows of one unit, or from public ones, and reading it never fails.
    """


Source = ParquetSource | CsvSource | DatabaseSource
"""The source of a declared table."""


@dataclass(frozen=True, slots=True)
class UnitColumn:
    """Rows belong to the privacy unit that `column` names; rows where it is NULL are never counted."""

    column: str
    kind: str = "unit"
    """The name of what is protected (`person`); tables of different kinds cannot be joined."""


@dataclass(frozen=True, slots=True)
class UnitRow:
    """Each row is a privacy unit of its own."""

    kind: str = "row"


@dataclass(frozen=True, slots=True)
class UnitVia:
    """Rows belong to the unit of the one row of the parent `table` whose `column` equals their `via`.

    The parent names its unit by a column, or finds it through a parent of its own.
    """

    via: str
    table: str
    column: str
    kind: str = "unit"
    """The parent's kind."""


Unit = UnitColumn | UnitRow | UnitVia
"""How the rows of a table belong to privacy units."""


MOST_ROWS = 1_000_000
"""The largest bound on the rows of one unit."""

AUTO: Literal["AUTO"] = "AUTO"
"""In place of a bound: there is no constant, so it comes from a kept ladder, or is searched."""

Most = int | Literal["AUTO"]
"""A bound on what one unit contributes, as a policy declares it."""


def check_most(value: Most | None, place: str) -> None:
    """Raise `PolicyError` for a bound that is neither AUTO nor between 1 and the largest one."""
    if isinstance(value, str) and value != AUTO:
        raise wrong(place, f"is a whole number, or {AUTO}", f'write "{AUTO}", or leave it out')
    if isinstance(value, int) and not 1 <= value <= MOST_ROWS:
        raise wrong(place, f"must be between 1 and {MOST_ROWS:,}")


@dataclass(frozen=True, slots=True)
class Defaults:
    """Bounds on what one unit contributes, for statements that write none; None, or AUTO: there is none.

    They are constants that are chosen without looking at the rows: noise is scaled to them.
    """

    rows_per_unit: Most | None = None
    """How many rows of a unit count in a count of rows, in all groups together."""
    groups: Most | None = None
    """In how many groups a unit counts where the noise needs a bound on them."""
    auto_bounds: bool = True
    """Whether a statement may have its bounds found privately."""
    extremes: bool = True
    """Whether MIN and MAX over the rows of several units are allowed."""
    dialect: str | None = None
    """The dialect of statements that say none, for calls that several dialects have."""

    def __post_init__(self) -> None:
        for name in ("rows_per_unit", "groups"):
            check_most(getattr(self, name), key_path("defaults", name))
            if getattr(self, name) == AUTO:
                object.__setattr__(self, name, None)
        if self.dialect not in (None, *DIALECTS):
            raise wrong(key_path("defaults", "dialect"), f"expected one of {', '.join(DIALECTS)}")


@dataclass(frozen=True, slots=True)
class Assumed:
    """What a statement left open, and was answered with; it is shown with the answer.

    It is a bound of the policy, or a reading of the statement.

    >>> print(Assumed("rows of a user_id", "at most 20", "policy"))
    at most 20 rows of a user_id (policy)
    """

    what: str
    value: str = ""
    """The bound, in words; empty if `what` says everything."""
    where: str = ""
    """Where it is from, such as `policy`."""

    def __str__(self) -> str:
        words = f"{self.value} {self.what}".lstrip()
        return f"{words} ({self.where})" if self.where else words


@dataclass(frozen=True, slots=True)
class ValuesDomain:
    """A column's public values, listed by the owner; duplicates are removed, the order is kept."""

    values: tuple[Value, ...]
    complete: bool = False
    """Whether no row that has a unit has another value, or NULL, as the owner declares."""

    def __post_init__(self) -> None:
        # The type is part of what is compared: True == 1 == Decimal(1) in Python.
        distinct = dict.fromkeys((type(value), value) for value in self.values)
        object.__setattr__(self, "values", tuple(value for _, value in distinct))


@dataclass(frozen=True, slots=True)
class RangeDomain:
    """All integers, or all days, from `start` to `stop`, both ends included.

    For a TIMESTAMP column: every instant of these days.
    """

    start: int | date
    stop: int | date
    complete: bool = False
    """Whether no row that has a unit has another value, or NULL, as the owner declares."""

    @property
    def size(self) -> int:
        """The number of values in the domain."""
        if isinstance(self.start, int) and isinstance(self.stop, int):
            return max(0, self.stop - self.start + 1)
        if isinstance(self.start, date) and isinstance(self.stop, date):
            return max(0, (self.stop - self.start).days + 1)
        return 0


@dataclass(frozen=True, slots=True)
class TableDomain:
    """The values of a column of a public table."""

    table: str
    column: str
    complete: bool = False
    """Whether no row that has a unit has another value, or NULL, as the owner declares."""


@dataclass(frozen=True, slots=True)
class BooleanDomain:
    """The domain of a BOOLEAN column: true and false."""


@dataclass(frozen=True, slots=True)
class EnumDomain:
    """The values of the column's ENUM type, which the owner declares public."""


Domain = ValuesDomain | RangeDomain | TableDomain | BooleanDomain | EnumDomain
"""The public domain of a key column."""


def read_zone(name: object, place: str) -> str:
    """Return the name of a time zone as the database writes it; refuse an unknown one at `place`."""
    try:
        return zones.zone(str(name)).name
    except ValueError as problem:
        raise wrong(place, str(problem), 'write a name such as "Europe/Berlin" or "UTC"') from None
