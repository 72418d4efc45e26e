"""What the rules of translation ask of the translator, so that no rule depends on another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from dpsql.serve.catalog.values import Scope, Translated, Value

if TYPE_CHECKING:
    from sqlglot import exp


class Context(Protocol):
    """The translation of one question."""

    changes: list[tuple[str, str, bool]]
    """What `set_config` sets."""

    def query(self, node: exp.Expr, scope: Scope | None) -> Translated:
        """Translate a query whose columns are used as they are: texts without a type become `text`."""

    def expression(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate an expression."""

    def boolean(self, node: exp.Expr, scope: Scope) -> str:
        """Translate a condition."""

    def convert(self, value: Value, target: int) -> Value:
        """Return a value as a value of another type."""

    def decided(self, value: Value) -> Value:
        """Return a value whose type is decided: that of a bare literal or parameter is `text`."""

    def alike(self, first: Value, second: Value) -> tuple[Value, Value]:
        """Return two values that can be compared: an undecided one takes the type of the other."""

    def common(self, values: Sequence[Value]) -> tuple[int, list[str]]:
        """Return the type in which values meet, and their SQL in it."""

    def order(self, nodes: Sequence[exp.Expr], scope: Scope) -> str:
        """Translate the ORDER BY of an aggregate or a window."""

    def aggregate(self, node: exp.Expr, scope: Scope, tail: str = "") -> Value:
        """Translate a call of an aggregate or window function with its FILTER and OVER."""

    def call(
        self, name: str, arguments: Sequence[exp.Expr], scope: Scope, node: exp.Expr | None = None
    ) -> Value:
        """Translate the call of a function of the closed list."""

    def parameter(self, number: int) -> Value:
        """Return the parameter of a number."""

    def fact(self, name: str) -> str:
        """Return a fact of the session as SQL."""

    def setting(self, name: str, *, missing_ok: bool) -> str:
        """Return the value of a setting as SQL."""

    def live(self, schema: str, name: str) -> str:
        """Return the place of a relation whose rows are made when the question is asked."""
