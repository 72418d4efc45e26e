"""What a target engine's writer offers to the translation."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar

from dpsql.engines.translate.value import Value, type_family

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpsql.engines.translate.forms import Form
    from dpsql.engines.translate.value import TargetColumn
    from dpsql.types import SqlType

__all__ = ["Dialect"]


class Dialect(ABC):
    """One target's SQL: every text is written by a method here, none by a general transpiler."""

    name: ClassVar[str]
    """As messages call the engine."""
    forms: ClassVar[Mapping[str, Sequence[Form]]]
    """Functions and operators by name, as the target writes them."""
    full_join_conditions: ClassVar[bool]
    """Whether FULL JOIN takes more than equalities."""
    semi_joins: ClassVar[bool]
    """Whether it has SEMI and ANTI joins."""
    group_frames: ClassVar[bool]
    """Whether window frames go by GROUPS."""

    def __init__(self, tables: Mapping[str, tuple[str, dict[str, TargetColumn]]]) -> None:
        self._tables = tables

    @abstractmethod
    def quote(self, name: str) -> str:
        """Write a name."""

    @abstractmethod
    def type_name(self, sql_type: SqlType) -> str:
        """Write the type in which values of a DuckDB type are held."""

    @abstractmethod
    def constant(self, value: object, sql_type: SqlType) -> str:
        """Write a value as DuckDB computed it."""

    @abstractmethod
    def cast(self, value: Value, sql_type: SqlType) -> Value:
        """Convert as DuckDB's TRY_CAST does: NULL where it does not convert, never an error."""

    @abstractmethod
    def canonical(self, value: Value) -> Value:
        """Make equal doubles identical."""

    @abstractmethod
    def like(self, value: Value, pattern: Sequence[str | None]) -> str:
        """Write LIKE with a pattern cut into literal texts, None for `%` and an empty text for `_`."""

    @abstractmethod
    def is_distinct(self, a: str, b: str, *, negated: bool) -> str:
        """Write IS [NOT] DISTINCT FROM."""

    @abstractmethod
    def aggregate(self, name: str, value: Value, *, distinct: bool, where: str) -> Value:
        """Write an order-free aggregate with its FILTER (`where`, which may be empty)."""

    @abstractmethod
    def hash_values(self, values: Sequence[Value]) -> str:
        """Write a hash of several values, to draw the groups a unit keeps where they are bounded."""

    def scan(self, table: str) -> tuple[str, dict[str, TargetColumn]]:
        """Return a declared table's canonical FROM item, without alias, and its columns by declared name."""
        return self._tables[table]

    def number(self, value: object, sql_type: SqlType) -> str | None:
        """Write a number as DuckDB computed it; None for what is none."""
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
        """Return a value's text in the type in which the engine holds `sql_type`."""
        if value.type.name == "NULL":
            return self.null(sql_type)
        if type_family(value.type) != type_family(sql_type):
            return f"CAST({value.sql} AS {self.type_name(sql_type)})"
        return value.sql
