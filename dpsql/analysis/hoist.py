"""Compile window functions as columns of an inner block, which the outer expressions then name."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.analysis.expressions import canonical
from dpsql.analysis.relation import Block, Origin, Scope
from dpsql.analysis.typed import Typed, column
from dpsql.tree import Column

if TYPE_CHECKING:
    from dpsql.analysis.compiler import StatementCompiler
    from dpsql.analysis.relation import From

__all__ = ["Hoist"]


@dataclass(slots=True)
class Hoist:
    """The inner block of a SELECT with windows: its rows and one column for each window."""

    compiler: StatementCompiler
    source: From
    where: str
    alias: str
    inner: Scope
    """The scope in which windows are compiled: the columns of the rows."""
    columns: list[Typed]
    scope: Scope
    """The scope of the outer expressions, in which each window is a column."""
    numbered: bool = False
    unique: frozenset[frozenset[str]] = frozenset()
    windows: list[Typed] = field(default_factory=list)

    @classmethod
    def over(cls, compiler: StatementCompiler, source: From, where: str, windows: int) -> Hoist:
        """Make the inner block of a compiled FROM and WHERE; `windows` is the number of windows over it."""
        alias = compiler.alias()
        columns: list[Typed] = []
        names: dict[str, str] = {}

        def moved(old: Typed) -> Typed:
            if old.sql not in names:
                names[old.sql] = f"{alias}.x{len(columns)}"
                columns.append(old)
            name = names[old.sql]
            return replace(old, node=Column(alias, name.partition(".")[2]))

        origins = tuple(
            Origin(o.alias, o.names, tuple(moved(c) for c in o.columns)) for o in source.scope.origins
        )
        merged = {name: moved(c) for name, c in source.scope.merged.items()}
        around = source.scope.block
        if around is None:
            around = Block(source.owner, source.unit)
        order = [f"{alias}.x{i}" for i in range(len(columns))]
        # With two windows over identical rows, which of them comes first in each window would depend on the
        # physical order of all rows. A row number makes the rows different.
        numbered = windows > 1
        block = replace(
            around,
            unit=f"{alias}.u" if source.unit is not None else None,
            columns=(*order, f"{alias}.i") if numbered else tuple(order),
        )
        unique = frozenset(
            frozenset(names[n] for n in fact) for fact in source.unique if all(n in names for n in fact)
        )
        scope = Scope(compiler.source, origins, merged, block=replace(block, windows=True))
        made = cls(compiler, source, where, alias, scope, columns, scope, numbered, unique)
        made.scope = Scope(compiler.source, origins, merged, intercept=made.lookup, block=block)
        return made

    def lookup(self, node: exp.Expr) -> Typed | None:
        """Return a window as a column of the inner block."""
        if not isinstance(node, exp.Window):
            return None
        value = self.compiler.expression(node, self.inner)
        self.windows.append(value)
        return column(self.alias, f"w{len(self.windows) - 1}", value.type)

    def sql(self) -> str:
        """Return the SQL of the block: the rows, then the windows over them, under one alias."""
        unit = self.source.unit
        rows = [*([f"{unit} AS u"] if unit is not None else [])]
        rows += [f"{c.guarded} AS x{i}" for i, c in enumerate(self.columns)]
        inner = f"(SELECT {', '.join(rows)} FROM {self.source.sql}{self.where}) AS {self.alias}"
        kept = [*([f"{self.alias}.u AS u"] if unit is not None else [])]
        kept += [f"{self.alias}.x{i} AS x{i}" for i in range(len(self.columns))]
        if self.numbered:
            over = [f"PARTITION BY {self.alias}.u"] if unit is not None else []
            if self.columns:
                by = ", ".join(f"{self.alias}.x{i} ASC NULLS LAST" for i in range(len(self.columns)))
                over.append(f"ORDER BY {by}")
            number = f"ROW_NUMBER() OVER ({' '.join(over)}) AS i"
            inner = f"(SELECT {', '.join([*kept, number])} FROM {inner}) AS {self.alias}"
        kept += [f"{canonical(w).sql} AS w{i}" for i, w in enumerate(self.windows)]
        return f"(SELECT {', '.join(kept)} FROM {inner}) AS {self.alias}"
