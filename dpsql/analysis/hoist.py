"""Windows become columns of an inner block, so that the expressions around them are ordinary ones."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.analysis.expressions import canonical
from dpsql.analysis.relation import Block, Origin, Scope
from dpsql.analysis.typed import Typed

if TYPE_CHECKING:
    from dpsql.analysis.compiler import StatementCompiler
    from dpsql.analysis.joins import From

__all__ = ["Hoist"]


@dataclass(slots=True)
class Hoist:
    """A block's rows with their windows beside them, under one alias."""

    compiler: StatementCompiler
    source: From
    where: str
    alias: str
    inner: Scope
    """Where windows are compiled: over the FROM clause itself."""
    columns: list[Typed]
    scope: Scope
    """Where everything around them is compiled: columns, and windows as columns."""
    unique: frozenset[frozenset[str]] = frozenset()
    windows: list[Typed] = field(default_factory=list)

    @classmethod
    def over(cls, compiler: StatementCompiler, source: From, where: str) -> Hoist:
        """Start from a compiled FROM and WHERE."""
        alias = compiler.alias()
        columns: list[Typed] = []
        names: dict[str, str] = {}

        def moved(column: Typed) -> Typed:
            if column.sql not in names:
                names[column.sql] = f"{alias}.x{len(columns)}"
                columns.append(column)
            name = names[column.sql]
            return replace(column, sql=name, reads=frozenset({name}))

        origins = tuple(
            Origin(o.alias, o.names, tuple(moved(c) for c in o.columns)) for o in source.scope.origins
        )
        merged = {name: moved(c) for name, c in source.scope.merged.items()}
        inner = source.scope.copy()
        around = source.scope.block
        if around is None:
            around = Block(source.owner, source.unit)
        inner.block = replace(around, windows=True)
        block = replace(
            around,
            unit=f"{alias}.u" if source.unit is not None else None,
            columns=tuple(f"{alias}.x{i}" for i in range(len(columns))),
        )
        unique = frozenset(
            frozenset(names[n] for n in fact) for fact in source.unique if all(n in names for n in fact)
        )
        made = cls(compiler, source, where, alias, inner, columns, Scope(compiler.source), unique)
        made.scope = Scope(compiler.source, origins, merged, intercept=made.lookup, block=block)
        return made

    def lookup(self, node: exp.Expr) -> Typed | None:
        """Return a window as a column of the inner block."""
        if not isinstance(node, exp.Window):
            return None
        value = self.compiler.expression(node, self.inner)
        name = f"{self.alias}.w{len(self.windows)}"
        self.windows.append(value)
        return Typed(name, value.type, frozenset({name}))

    def sql(self) -> str:
        """Write the inner block."""
        parts = [*([f"{self.source.unit} AS u"] if self.source.unit is not None else [])]
        parts += [f"{c.sql} AS x{i}" for i, c in enumerate(self.columns)]
        parts += [f"{canonical(w).sql} AS w{i}" for i, w in enumerate(self.windows)]
        return f"(SELECT {', '.join(parts)} FROM {self.source.sql}{self.where}) AS {self.alias}"
