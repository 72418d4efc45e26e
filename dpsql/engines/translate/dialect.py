"""What a target engine's writer offers to the translation."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar

from dpsql.engines.translate.value import Value, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpsql.engines.translate.forms import Form
    from dpsql.engines.translate.value import Column
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
    folds: ClassVar[int | None] = None
    """Most calls of `translate` in one text, each of which takes long for a long text; None: any number."""

    def __init__(self, tables: Mapping[str, tuple[str, dict[str, Column]]]) -> None:
        self._tables = tables

    @abstractmethod
    def quote(self, name: str) -> str:
        """Write a name."""

    @abstractmethod
    def type_name(self, kind: SqlType) -> str:
        """Write the type in which values of a DuckDB type are held."""

    @abstractmethod
    def constant(self, value: object, kind: SqlType) -> str:
        """Write a value as DuckDB computed it."""

    @abstractmethod
    def cast(self, value: Value, kind: SqlType) -> Value:
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
    def mixed(self, values: Sequence[Value]) -> str:
        """Write a hash of several values, to draw the groups a unit keeps where they are bounded."""

    def scan(self, table: str) -> tuple[str, dict[str, Column]]:
        """Return a declared table's canonical FROM item, without alias, and its columns by declared name."""
        return self._tables[table]

    def number(self, value: object, kind: SqlType) -> str | None:
        """Write a number as DuckDB computed it; None for what is none."""
        letter = kind_of(kind)
        if letter == "D" and isinstance(value, float):
            shown = repr(value + 0.0) if math.isfinite(value) else "NaN" if math.isnan(value) else None
            return f"CAST('{shown or ('Infinity' if value > 0 else '-Infinity')}' AS {self.type_name(kind)})"
        if (letter in "IB" and isinstance(value, int)) or (letter == "N" and isinstance(value, Decimal)):
            return f"CAST('{value}' AS {self.type_name(kind)})"
        return None

    def null(self, kind: SqlType) -> str:
        """Write a NULL of a type."""
        return f"CAST(NULL AS {self.type_name(kind)})"

    def held(self, value: Value, kind: SqlType) -> str:
        """Return a value's text in the target type that holds `kind` (an integer among wider ones)."""
        if value.type.name == "NULL":
            return self.null(kind)
        if kind_of(value.type) != kind_of(kind):
            return f"CAST({value.sql} AS {self.type_name(kind)})"
        return value.sql
