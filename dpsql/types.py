"""The SQL types of columns and expressions, a closed set.

Only types whose equality is identity and whose values print and compare without raising are here
(every other one is refused by name, with the cast to write). The text form is DuckDB's.
"""

from __future__ import annotations

import re
from functools import lru_cache

from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SqlType:
    """An SQL type as the product knows it: its name in DuckDB, and its kind of values.

    `name` is DuckDB's canonical name (`BIGINT`, `DECIMAL`, `LIST`, ...); DECIMAL has `precision` and
    `scale`; LIST has `item`; STRUCT has `fields`; ENUM has `values`.
    """

    name: str
    precision: int = 0
    scale: int = 0
    item: SqlType | None = None
    fields: tuple[tuple[str, SqlType], ...] = ()
    values: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not SqlType:
            return NotImplemented
        return self.name == other.name and self._details == other._details

    def __hash__(self) -> int:
        return hash((self.name, self.precision, self.scale))

    @property
    def _details(self) -> tuple[object, ...]:
        return self.precision, self.scale, self.item, self.fields, self.values

    def __str__(self) -> str:
        if self.name in _SIMPLE:
            return self.name
        if self.name == "DECIMAL":
            return f"DECIMAL({self.precision},{self.scale})"
        if self.name == "LIST":
            return f"{self.item}[]"
        if self.name == "STRUCT":
            inner = ", ".join(f'"{name.replace(chr(34), chr(34) * 2)}" {kind}' for name, kind in self.fields)
            return f"STRUCT({inner})"
        if self.name == "ENUM":
            return "ENUM(" + ", ".join("'" + v.replace("'", "''") + "'" for v in self.values) + ")"
        return self.name

    @property
    def integer(self) -> bool:
        """Whether it is an integer of at most 64 bits."""
        return self.name in _INTEGERS

    @property
    def numeric(self) -> bool:
        """Whether arithmetic is defined on it."""
        return self.name in _NUMBERS

    @property
    def moment(self) -> bool:
        """Whether it is a date with a time: TIMESTAMP, without a zone, or TIMESTAMPTZ, an instant."""
        return self.name in ("TIMESTAMP", "TIMESTAMPTZ")

    @property
    def held(self) -> SqlType:
        """The type in which compiled queries hold the values: of a TIMESTAMPTZ the TIMESTAMP of UTC."""
        return TIMESTAMP if self.name == "TIMESTAMPTZ" else self

    @property
    def bits(self) -> int:
        """Width of an integer type."""
        return _INTEGERS[self.name][0]

    @property
    def signed(self) -> bool:
        """Whether an integer type is signed."""
        return _INTEGERS[self.name][1]


_INTEGERS = {
    "TINYINT": (8, True),
    "SMALLINT": (16, True),
    "INTEGER": (32, True),
    "BIGINT": (64, True),
    "UTINYINT": (8, False),
    "USMALLINT": (16, False),
    "UINTEGER": (32, False),
    "UBIGINT": (64, False),
}
_NUMBERS = frozenset({*_INTEGERS, "DOUBLE", "DECIMAL"})

BOOLEAN = SqlType("BOOLEAN")
INTEGER = SqlType("INTEGER")
BIGINT = SqlType("BIGINT")
DOUBLE = SqlType("DOUBLE")
VARCHAR = SqlType("VARCHAR")
DATE = SqlType("DATE")
TIMESTAMP = SqlType("TIMESTAMP")
TIMESTAMPTZ = SqlType("TIMESTAMPTZ")
"""An instant, in microseconds since 1970 in UTC."""
TIME = SqlType("TIME")
UUID = SqlType("UUID")
BLOB = SqlType("BLOB")
HUGEINT = SqlType("HUGEINT")
"""Only inside compiled arithmetic; never a column."""
INTERVAL = SqlType("INTERVAL")
"""Only as a literal."""
JSON = SqlType("JSON")
"""Only as the result of TRY_CAST(x AS JSON)."""
NULL = SqlType("NULL")
"""The type of a bare NULL; it fits everywhere."""

_ONCE = {kind.name: kind for kind in (BOOLEAN, INTEGER, BIGINT, DOUBLE, VARCHAR, DATE, TIMESTAMP)}
"""Types of columns that are compared often: the same object is equal at once."""
_SPELLINGS = {
    "BOOLEAN": "BOOL LOGICAL",
    "TINYINT": "INT1",
    "SMALLINT": "INT2 SHORT",
    "INTEGER": "INT INT4 SIGNED",
    "BIGINT": "INT8 LONG",
    "DOUBLE": "FLOAT FLOAT4 REAL FLOAT8",  # the narrow ones are widened at the scan
    "VARCHAR": "TEXT STRING CHAR BPCHAR",
    "DECIMAL": "NUMERIC",
    "TIMESTAMP": "DATETIME",
    "BLOB": "BYTEA BINARY VARBINARY",
}
_ALIASES = {alias: name for name, aliases in _SPELLINGS.items() for alias in aliases.split()}
_SIMPLE = {*_INTEGERS, "BOOLEAN", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIME", "UUID"}
_SIMPLE |= {"BLOB"}
_ADVICE = {
    "HUGEINT": "declare it BIGINT",
    "UHUGEINT": "declare it BIGINT",
    "TIME WITH TIME ZONE": "declare it TIME",
    "TIMETZ": "declare it TIME",
    "JSON": "declare it VARCHAR; JSON functions read text",
    "INTERVAL": "declare it VARCHAR or BIGINT",
    "TIMESTAMP_S": "declare it TIMESTAMP",
    "TIMESTAMP_MS": "declare it TIMESTAMP",
    "TIMESTAMP_NS": "declare it TIMESTAMP",
    "BIT": "declare it VARCHAR",
}


@lru_cache(maxsize=256)
def column_type(text: str) -> SqlType:
    """Read a column's type as a policy or the engine writes it; `ValueError` with advice if not allowed.

    >>> str(column_type("int")), str(column_type("decimal(10, 2)")), str(column_type("VARCHAR[]"))
    ('INTEGER', 'DECIMAL(10,2)', 'VARCHAR[]')
    """
    kind, rest = _read(text.strip(), 0)
    if rest.strip():
        raise ValueError(f"not a column type: {text[:60]!r}")
    return kind


def _read(text: str, depth: int) -> tuple[SqlType, str]:
    """Read one type off the front of `text`; return it and what follows."""
    if depth > 8:
        raise ValueError("types may be nested 8 deep")
    word = re.match(r"\s*([A-Za-z_][A-Za-z_0-9]*(?:\s+WITH\s+TIME\s+ZONE)?)", text, re.IGNORECASE)
    if not word:
        raise ValueError(f"not a column type: {text[:60]!r}")
    name = re.sub(r"\s+", " ", word[1].upper())
    name = "TIMESTAMPTZ" if name == "TIMESTAMP WITH TIME ZONE" else _ALIASES.get(name, name)
    rest = text[word.end() :]
    if name == "DECIMAL":
        args = re.match(r"\s*\(\s*(\d{1,2})\s*(?:,\s*(\d{1,2})\s*)?\)", rest)
        precision, scale = (int(args[1]), int(args[2] or 0)) if args else (18, 3)
        rest = rest[args.end() :] if args else rest
        if not (1 <= precision <= 18 and scale <= precision):
            raise ValueError("DECIMAL may have at most 18 digits: declare it DECIMAL(18,s) or DOUBLE")
        kind = SqlType("DECIMAL", precision, scale)
    elif name == "STRUCT":
        kind, rest = _struct(rest, depth)
    elif name == "ENUM":
        args = re.match(r"\s*\(((?:\s*'(?:[^']|'')*'\s*,?)+)\)", rest)
        if not args:
            raise ValueError("write ENUM('a', 'b', ...)")
        values = tuple(v.replace("''", "'") for v in re.findall(r"'((?:[^']|'')*)'", args[1]))
        kind, rest = SqlType("ENUM", values=values), rest[args.end() :]
    elif name in _SIMPLE:
        args = re.match(r"\s*\(\s*\d+\s*\)", rest) if name == "VARCHAR" else None
        kind, rest = _ONCE.setdefault(name, SqlType(name)), rest[args.end() :] if args else rest
    else:
        name = {"INT128": "HUGEINT", "UINT128": "UHUGEINT"}.get(name, name)  # as the engine calls them
        advice = _ADVICE.get(name, "use a boolean, number, text, date, time, UUID, enum, list or struct type")
        raise ValueError(f"columns of type {name} are not supported: {advice}")
    while (brackets := re.match(r"\s*\[\s*\]", rest)) is not None:
        kind, rest = SqlType("LIST", item=kind), rest[brackets.end() :]
    return kind, rest


def _struct(rest: str, depth: int) -> tuple[SqlType, str]:
    fields: list[tuple[str, SqlType]] = []
    rest = rest.lstrip()
    if not rest.startswith("("):
        raise ValueError("write STRUCT(name TYPE, ...)")
    rest = rest[1:]
    while True:
        name = re.match(r'\s*(?:"((?:[^"]|"")+)"|([A-Za-z_][A-Za-z_0-9]*))\s+', rest)
        if not name:
            raise ValueError("write STRUCT(name TYPE, ...)")
        kind, rest = _read(rest[name.end() :], depth + 1)
        fields.append(((name[1] or "").replace('""', '"') or name[2], kind))
        rest = rest.lstrip()
        if rest.startswith(","):
            rest = rest[1:]
        elif rest.startswith(")"):
            return SqlType("STRUCT", fields=tuple(fields)), rest[1:]
        else:
            raise ValueError("write STRUCT(name TYPE, ...)")
