"""The abstract class of a dialect: how an engine writes names, types, conversions and aggregates."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar

from dpsql.engines.writer.value import Value, type_family
from dpsql.types import DOUBLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpsql.engines.writer.forms import Form
    from dpsql.engines.writer.value import TargetColumn
    from dpsql.types import SqlType

__all__ = ["Dialect"]


class Dialect(ABC):
    """The SQL of one engine. Every text is written by a method here, none by a general transpiler."""

    name: ClassVar[str]
    """The engine's name in messages."""
    forms: ClassVar[Mapping[str, Sequence[Form]]]
    """The forms of functions and operators, by DuckDB's name."""
    full_join_conditions: ClassVar[bool]
    """Whether FULL JOIN takes conditions other than equalities of columns."""
    semi_joins: ClassVar[bool]
    """Whether the engine has SEMI and ANTI JOIN."""
    group_frames: ClassVar[bool]
    """Whether the engine has window frames in GROUPS."""
    max_translate_calls: ClassVar[int | None] = None
    """Most calls of `translate` in one text, each of which takes long for a long text; None: any number."""

    def __init__(self, tables: Mapping[str, tuple[str, dict[str, TargetColumn]]]) -> None:
        self._tables = tables

    @abstractmethod
    def quote(self, name: str) -> str:
        """Quote a name."""

    @abstractmethod
    def type_name(self, sql_type: SqlType) -> str:
        """Return the engine's type for values of a DuckDB type."""

    @abstractmethod
    def constant(self, value: object, sql_type: SqlType) -> str:
        """Write a constant that DuckDB computed."""

    @abstractmethod
    def cast(self, value: Value, sql_type: SqlType) -> Value:
        """Write a conversion with the results of DuckDB's TRY_CAST: NULL instead of an error."""

    def canonical(self, value: Value) -> Value:
        """Write a DOUBLE so that equal values have identical bits."""
        zero = f"CAST(0 AS {self.type_name(DOUBLE)})"
        return Value(f"({value.sql} + {zero})", value.type, value.value_range, one_zero=True)

    @abstractmethod
    def like(self, value: Value, pattern: Sequence[str | None]) -> str:
        """Write LIKE; `pattern` is a list of literal texts, None for `%` and an empty text for `_`."""

    @abstractmethod
    def is_distinct(self, a: str, b: str, *, negated: bool) -> str:
        """Write IS [NOT] DISTINCT FROM."""

    @abstractmethod
    def aggregate(self, name: str, value: Value, *, distinct: bool, tail: str) -> Value:
        """Write an aggregate that does not depend on the order of rows; `tail` is its FILTER and OVER."""

    @abstractmethod
    def hash_values(self, values: Sequence[Value]) -> str:
        """Write a hash of several values, which samples the groups that a unit keeps."""

    def scan(self, table: str) -> tuple[str, dict[str, TargetColumn]]:
        """Return the FROM item (without alias) that reads a declared table, and its columns by name."""
        return self._tables[table]

    def number(self, value: object, sql_type: SqlType) -> str | None:
        """Write a number that DuckDB computed; None if the value is not a number."""
        letter = type_family(sql_type)
        if letter == "D" and isinstance(value, float):
            shown = repr(value + 0.0) if math.isfinite(value) else "NaN" if math.isnan(value) else None
            return (
                f"CAST('{shown or ('Infinity' if value > 0 else '-Infinity')}' AS {self.type_name(sql_type)})"
            )
        if (letter in "IB" and isinstance(value, int)) or (letter == "N" and isinstance(value, Decimal)):
            return f"CAST('{value}' AS {self.type_name(sql_type)})"
        return None

    def null(self, sql_type: SqlType) -> str:
        """Write a NULL of a type."""
        return f"CAST(NULL AS {self.type_name(sql_type)})"

    def in_type(self, value: Value, sql_type: SqlType) -> str:
        """Return a value's SQL, converted to the engine's type for `sql_type` if it differs."""
        if value.type.name == "NULL":
            return self.null(sql_type)
        if type_family(value.type) != type_family(sql_type):
            return f"CAST({value.sql} AS {self.type_name(sql_type)})"
        return value.sql
