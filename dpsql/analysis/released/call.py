"""A call of a released aggregate in the outermost block of a statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsql.analysis.expressions import predicate
from dpsql.tree import conjunction

if TYPE_CHECKING:
    from sqlglot import exp

    from dpsql.analysis.compiler import StatementCompiler
    from dpsql.analysis.relation import From
    from dpsql.analysis.typed import Typed
    from dpsql.errors import QueryRefused
    from dpsql.tree import Expr

__all__ = ["AggregateCall"]


@dataclass(slots=True)
class AggregateCall:
    """A call over the rows of a FROM clause, and the conditions on the rows that it aggregates."""

    compiler: StatementCompiler
    node: exp.Expr
    source: From
    single: bool
    """Whether each unit has at most one row in a group."""
    conditions: list[Expr]
    """The condition of FILTER, to which a rule adds its own."""

    @property
    def by_row(self) -> bool:
        """Whether each row is a privacy unit."""
        return self.source.owner is not None and self.source.owner.row

    def condition(self) -> tuple[Expr, ...]:
        """Return the conjunction of the conditions, if there are any."""
        found = conjunction(self.conditions)
        return () if found is None else (found,)

    def expression(self, node: exp.Expr) -> Typed:
        """Compile an expression of the row."""
        return self.compiler.expression(node, self.source.scope)

    def where(self, node: exp.Expr) -> None:
        """Add a condition on the rows."""
        self.conditions.append(predicate(self.compiler, node, self.source.scope).guarded_node)

    def refuse(self, message: str, at: exp.Expr, hint: str | None = None) -> QueryRefused:
        """Return the error that refuses the statement."""
        return self.compiler.source.refuse(message, at, hint)
