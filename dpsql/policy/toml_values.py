"""The kinds of values in `dpsql.toml`: their words in documents, their JSON Schema and their readers.

`dpsql.policy.policy_keys` gives each key of the file one of them. A `Section` is a table of the file, read by
a table of its keys: it refuses unknown keys and wrong values.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeGuard, TypeVar, cast

from dpsql.lazy_dataclass import dataclass
from dpsql.policy.names import Address, key_path, suggest, wrong

Schema = dict[str, Any]
"""A JSON Schema, or a part of one."""
Reader = Callable[[object, str, Path], object]
"""Reads a value: `(value, place, base)`; `place` names the key in errors, paths are relative to `base`."""

_WORDS: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),
    (int, "an integer"),
    (Decimal, "a number"),
    (str, "text"),
    (list, "a list"),
    (dict, "a table"),
    (datetime, "a timestamp"),
    (date, "a date"),
    (time, "a time"),
)


@dataclass(frozen=True, slots=True)
class ValueKind:
    """What values a key of the policy file may have."""

    words: str
    """The allowed values, in words."""
    schema: Schema
    read: Reader | None = None
    """None: `dpsql.policy.load` reads the value."""

    def with_words(self, words: str, schema: Schema | None = None) -> ValueKind:
        """Return a copy with other words and, if given, a narrower schema; values are read alike."""
        return dataclasses.replace(self, words=words, schema=schema or self.schema)


def describe(value: object) -> str:
    """Return the kind of a TOML value, in words."""
    return next((word for python, word in _WORDS if isinstance(value, python)), "another value")


def check_type(value: object, kind: type, place: str, other: str = "") -> None:
    """Raise `PolicyError` unless a value has that type; Decimal: any number, or a text for one."""
    accepted = (int, str, Decimal) if kind is Decimal else kind
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        expected = next(word for python, word in _WORDS if python is kind)
        raise wrong(place, f"expected {expected}{other}, found {describe(value)}")


def read_texts(value: object, place: str) -> tuple[str, ...]:
    """Return a list of texts, none of which is empty."""
    check_type(value, list, place)
    assert isinstance(value, list)  # noqa: S101  just checked
    if not all(isinstance(text, str) and text for text in value):
        raise wrong(place, "expected a list of texts")
    return tuple(value)


def _make_reader(kind: type) -> Reader:
    def read(value: object, place: str, _: Path) -> object:
        check_type(value, kind, place)
        return value

    return read


def _read_most(value: object, place: str, _: Path) -> object:
    if value != "AUTO":
        check_type(value, int, place, ' or "AUTO"')
    return value


def _read_number_or_unlimited(value: object, place: str, _: Path) -> object:
    if value == "unlimited":
        return None
    check_type(value, Decimal, place, ' or "unlimited"')
    return value


def _read_path(value: object, place: str, base: Path) -> Path:
    check_type(value, str, place)
    if not value or "\0" in str(value):
        raise wrong(place, "expected the path of a file")
    return base / str(value)


def _read_nulls(value: object, place: str, _: Path) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not _are_texts(texts):
        raise wrong(place, "expected a text or a list of texts", 'write null = ["", "NA"]')
    return tuple(texts)


def _read_renames(value: object, place: str, _: Path) -> tuple[tuple[str, str], ...]:
    check_type(value, dict, place)
    assert isinstance(value, dict)  # noqa: S101  just checked
    for old, new in value.items():
        if not isinstance(new, str):
            raise wrong(f"{place}.{key_path(old)}", f"expected a name, found {describe(new)}")
    return tuple(value.items())


def _read_columns(value: object, place: str, _: Path) -> tuple[str, ...]:
    check_type(value, list, place)
    if not _are_texts(value):
        raise wrong(place, "expected a list of columns", 'write not_null = ["country"]')
    return tuple(value)


def _read_sets_of_columns(value: object, place: str, _: Path) -> tuple[tuple[str, ...], ...]:
    check_type(value, list, place)
    assert isinstance(value, list)  # noqa: S101  just checked
    if not all(map(_are_texts, value)):
        raise wrong(place, "expected lists of columns", 'write unique = [["user_id", "page"]]')
    return tuple(tuple(columns) for columns in value)


def _are_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _read_columns_of_columns(value: object, place: str, _: Path) -> dict[str, tuple[str, ...]]:
    check_type(value, dict, place)
    assert isinstance(value, dict)  # noqa: S101  just checked
    for column, others in value.items():
        if not _are_texts(others):
            at, hint = f"{place}.{key_path(column)}", 'write determines = { station_id = ["station_name"] }'
            raise wrong(at, f"expected a list of columns, found {describe(others)}", hint)
    return {column: tuple(others) for column, others in value.items()}


def _read_columns_of_tables(value: object, place: str, _: Path) -> dict[str, str]:
    check_type(value, dict, place)
    assert isinstance(value, dict)  # noqa: S101  just checked
    for column, other in value.items():
        if not isinstance(other, str) or not re.fullmatch(r"[^.]+\.(.|\n)+", other):
            raise wrong(
                f"{place}.{key_path(column)}",
                f"expected a column of another table, found {describe(other)}",
                'write same_unit = { rental_id = "rental.rental_id" }',
            )
    return dict(value)


def _read_ranges_of_days(value: object, place: str, _: Path) -> dict[str, tuple[date, date]]:
    check_type(value, dict, place)
    assert isinstance(value, dict)  # noqa: S101  just checked
    found = {}
    for column, days in value.items():
        key, hint = (
            f"{place}.{key_path(column)}",
            "write [2023-01-01, 2024-12-31]: the first and the last day",
        )
        if not isinstance(days, list) or len(days) != 2:
            raise wrong(key, f"expected a list of two days, found {describe(days)}", hint)
        if not all(type(day) is date for day in days):
            raise wrong(key, "expected a list of two days", hint)
        if days[0] > days[1]:
            raise wrong(key, "the first day is after the last one", hint)
        found[column] = (days[0], days[1])
    return found


def _read_addresses(value: object, place: str, _: Path) -> tuple[Address, ...]:
    return tuple(Address.parse(text, place) for text in read_texts(value, place))


# Parts of schemas.
_STRING: Schema = {"type": "string"}
STRINGS: Schema = {"type": "array", "items": _STRING}
ANY_NUMBER: Schema = {"type": ["number", "string"]}
"""A number may be a text, such as "1/3"."""


def refer(section: str) -> Schema:
    """Return the schema of a part that is defined by its name."""
    return {"$ref": f"#/$defs/{section}"}


def each(schema: Schema, *, least: int | None = None) -> Schema:
    """Return the schema of a table whose keys are names."""
    found: Schema = {"type": "object", "additionalProperties": schema}
    return found if least is None else {**found, "minProperties": least}


def exactly(properties: Schema, *optional: str) -> Schema:
    """Return the schema of a table of these keys, of which all but the `optional` ones are required."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def columns_of_text(*names: str) -> Schema:
    """Return the schema of a table of texts, all of which are required."""
    return exactly(dict.fromkeys(names, _STRING))


# The kinds.
TEXT = ValueKind("text", _STRING, _make_reader(str))
NUMBER = ValueKind("a number", ANY_NUMBER, _make_reader(Decimal))
NUMBER_OR_UNLIMITED = ValueKind('a number, or `"unlimited"`', ANY_NUMBER, _read_number_or_unlimited)
WHOLE = ValueKind("a whole number", {"type": "integer"}, _make_reader(int))
SECONDS = WHOLE.with_words("seconds")
FLAG = ValueKind("`true` or `false`", {"type": "boolean"}, _make_reader(bool))
MOST = ValueKind('a whole number, or `"AUTO"`', {"anyOf": [WHOLE.schema, {"enum": ["AUTO"]}]}, _read_most)
"""A bound on what one unit contributes."""
PATH = ValueKind("a path", _STRING, _read_path)
PATH_OR_FLAG = ValueKind(
    "a path, or `true` or `false`",
    {"type": ["string", "boolean"]},
    lambda value, place, base: value if isinstance(value, bool) else _read_path(value, place, base),
)
NOW_OR_FALSE = ValueKind('`"now"`, or `false`', {"enum": ["now", False]}, lambda value, _place, _base: value)
TEXTS = ValueKind("a list of texts", STRINGS, lambda value, place, _: read_texts(value, place))
ADDRESS = ValueKind("an address", _STRING, lambda value, place, _: Address.parse(value, place))
ADDRESSES = ValueKind("a list of addresses", STRINGS, _read_addresses)
LENGTH = ValueKind(
    'bytes, or text such as `"64 KiB"`',
    {"type": ["integer", "string"]},
    lambda value, _place, _base: read_length(value),
)
MEMORY = ValueKind(
    'bytes, or text such as `"256 MB"`', LENGTH.schema, lambda value, _place, _base: read_keep(value)
)
NULLS = ValueKind("a text, or a list of texts", {"anyOf": [_STRING, STRINGS]}, _read_nulls)
RENAMED = ValueKind("a table of names", each(_STRING), _read_renames)
ZONES = ValueKind("a table of names and time zones", each(_STRING))
COLUMNS = ValueKind("a list of columns", STRINGS, _read_columns)
COLUMNS_OF_COLUMNS = ValueKind(
    "a table of columns, each with a list of columns", each(STRINGS), _read_columns_of_columns
)
COLUMNS_OF_TABLES = ValueKind(
    "a table of columns, each with `TABLE.COLUMN`", each(_STRING), _read_columns_of_tables
)
RANGES_OF_DAYS = ValueKind(
    "a table of columns, each with two days",
    each({"type": "array", "minItems": 2, "maxItems": 2}),
    _read_ranges_of_days,
)
SETS_OF_COLUMNS = ValueKind("lists of columns", {"type": "array", "items": STRINGS}, _read_sets_of_columns)


# Sizes: `[engine] longest_value` and `keep`.
LONGEST = 64 << 10
"""The default of `longest_value`, in bytes of UTF-8."""
LARGEST = 256 << 10
"""The largest `longest_value` that a policy may set, in bytes.

PostgreSQL holds no row above one gigabyte and no row of more than 1,664 columns. Changing the case of a text
makes it at most half as long again, so that every row of values within this limit fits.
"""
KEEP = 256_000_000
"""The default of `keep`, in bytes."""
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def read_length(value: object) -> int:
    """Parse the longest value: a number of bytes, or a text such as "64 KiB"; raise `PolicyError` otherwise.

    >>> read_length("64 KiB"), read_length(4096)
    (65536, 4096)
    """
    place, hint = "engine.longest_value", 'write longest_value = "64 KiB"'
    size = _parse_size(value, r"([0-9]{1,9}) ?(B|KiB|MiB|)")
    if size is None:
        raise wrong(place, "expected a number of bytes", hint)
    if not 1 <= size <= LARGEST:
        raise wrong(place, f"must lie between 1 byte and {show_length(LARGEST)}", hint)
    return size


def read_keep(value: object) -> int:
    """Parse a size of memory: a number of bytes, or a text such as "256 MB"; raise `PolicyError` otherwise.

    >>> read_keep("256 MB"), read_keep(0), read_keep("1 GiB")
    (256000000, 0, 1073741824)
    """
    size = _parse_size(value, r"([0-9]{1,15}) ?([KMG]i?B|B|)")
    if size is None or size < 0:
        hint = 'write keep = "256 MB", or keep = 0 to keep no counts'
        raise wrong("engine.keep", "expected a number of bytes", hint)
    return size


def _parse_size(value: object, shape: str) -> int | None:
    """Return a number of bytes; None for what is neither a whole number nor a text of that shape."""
    found = re.fullmatch(shape, value) if isinstance(value, str) else None
    if found is not None:
        return int(found[1]) * _UNITS[found[2]]
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def show_length(size: int) -> str:
    """Format a length with its unit.

    >>> show_length(65536), show_length(1000)
    ('64 KiB', '1,000 bytes')
    """
    return f"{size >> 10:,} KiB" if size % 1024 == 0 else f"{size:,} bytes"


T = TypeVar("T")

_NO_WINDOWS = (
    "where each unit has one date, [parts.KIND] gives each week a budget of its own; where units come back, "
    "unit_period protects what each did in one week; else [budget.renewal] starts the budget anew over the "
    "same rows: after n times the loss may be n times epsilon, and every guarantee says so"
)
_REFUSED = dict.fromkeys(("resets", "window", "refresh", "unit_period"), _NO_WINDOWS)
"""Keys that do not exist on purpose, wherever they stand, each with a hint."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the policy file."""

    kind: ValueKind
    default: str
    """The value when the key is absent, in words; `required` if it must be present."""
    meaning: str

    @property
    def value(self) -> str:
        """The allowed values, in words."""
        return self.kind.words


class Section:
    """A TOML table at a key path, with its allowed keys."""

    def __init__(self, raw: object, key: tuple[str, ...], known: Mapping[str, Key | None]) -> None:
        self.key = key
        self._known = known
        if not isinstance(raw, dict):
            raise wrong(self.place(), f"expected a table, found {describe(raw)}")
        self._raw: Mapping[str, object] = raw
        for name in raw:
            if name not in known and name in _REFUSED:
                raise wrong(self.place(name), "a budget is not renewed by this key", _REFUSED[name])
            if name not in known:
                raise wrong(self.place(name), "unknown key", suggest(name, known, "keys here"))

    def place(self, *names: str) -> str:
        """Return the key path of this table, or of one of its keys."""
        return key_path(*self.key, *names)

    def __contains__(self, name: str) -> bool:
        return name in self._raw

    def raw(self, name: str) -> object:
        """Return the value of a key as parsed from TOML; None if it is absent."""
        return self._raw.get(name)

    def require(self, name: str, hint: str | None = None) -> None:
        """Raise `PolicyError` if a key is absent."""
        if name not in self._raw:
            raise wrong(self.place(name), "is required", hint)

    def get(self, name: str, kind: type[T], default: T) -> T:
        """Return a key's value, which must be of that type, or the default."""
        value = self.optional(name, kind)
        return default if value is None else value

    def optional(self, name: str, kind: type[T]) -> T | None:
        """Return a key's value, which must be of that type; None if it is absent."""
        value = self._raw.get(name)
        if value is not None:
            check_type(value, kind, self.place(name))
        return cast("T | None", value)

    def values(self, base: Path = Path()) -> dict[str, Any]:
        """Return the values of the present keys, as their kinds read them; paths are relative to `base`.

        Keys whose kind has no reader are left out.
        """
        return {
            name: key.kind.read(self._raw[name], self.place(name), base)
            for name, key in self._known.items()
            if key is not None and key.kind.read is not None and name in self._raw
        }
