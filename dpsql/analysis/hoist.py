"""Compile window functions as columns of an inner block, which the outer expressions then name."""

from __future__ import annotations

from dataclasses import field, replace

from sqlglot import exp

from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.expressions import canonical
from dpsql.analysis.joined import Joined, substituted
from dpsql.analysis.relation import Block, From, Scope, select_list
from dpsql.analysis.typed import Typed, column
from dpsql.analysis.unit_facts import Names
from dpsql.kernel import tree
from dpsql.kernel.tree import Call, Column, Derived, Expr, Item, OrderTerm, Select, Window
from dpsql.lazy_dataclass import dataclass


@dataclass(slots=True)
class Hoist:
    """The inner block of a SELECT with windows: its rows and one column for each window."""

    compiler: StatementCompiler
    source: From
    where: Expr | None
    alias: str
    inner: Scope
    """The scope in which windows are compiled: the columns of the rows."""
    columns: list[Typed]
    scope: Scope
    """The scope of the outer expressions, in which each window is a column."""
    numbered: bool = False
    unique: frozenset[frozenset[Expr]] = frozenset()
    windows: list[Typed] = field(default_factory=list)

    @classmethod
    def over(
        cls, compiler: StatementCompiler, source: From, where: Expr | None, windows: int, facts: Names
    ) -> Hoist:
        """Make the inner block of a compiled FROM and WHERE, of which the facts of the unit are known.

        `windows` is the number of windows over it.
        """
        alias = compiler.alias()
        columns: list[Typed] = []
        places: dict[Expr, Column] = {}

        def moved(old: Typed) -> Typed:
            if old.node not in places:
                places[old.node] = Column(alias, f"x{len(columns)}")
                columns.append(old)
            return replace(old, node=places[old.node], fact=old.reads <= facts)

        origins = tuple(o.mapped(moved) for o in source.scope.origins)
        merged = {name: moved(c) for name, c in source.scope.merged.items()}
        around = source.scope.block or Block(source.owner, source.unit)
        order = tuple(places.values())
        # With two windows over identical rows, which of them comes first in each window would depend on the
        # physical order of all rows. A row number makes the rows different.
        numbered = windows > 1
        block = replace(
            around,
            unit=Column(alias, "u") if source.unit is not None else None,
            columns=(*order, Column(alias, "i")) if numbered else order,
        )
        unique = frozenset(
            frozenset(places[c] for c in fact) for fact in source.unique if all(c in places for c in fact)
        )
        scope = Scope(compiler.source, origins, merged, block=replace(block, windows=True))
        made = cls(compiler, source, where, alias, scope, columns, scope, numbered, unique)
        made.scope = Scope(compiler.source, origins, merged, intercept=made.lookup, block=block)
        return made

    def moved(self, known: Joined) -> Joined:
        """Return what is known of the rows, with the columns as the block names them."""
        cells = tree.columns(self.alias, "x", len(self.columns))
        columns = {**known.columns, **{name: c for c in self.scope.columns for name in c.reads}}
        made_of: dict[str, Expr] = {}
        renamed: dict[str, Expr] = {}
        for old, cell in zip(self.columns, cells, strict=True):
            expr = substituted(old.node, known.made_of)
            if known.public(expr):
                made_of[f"{cell.table}.{cell.name}"] = expr
            else:
                renamed |= dict.fromkeys(old.reads, cell)
        conditions = tuple(replace(c, expr=substituted(c.expr, renamed)) for c in known.conditions)
        sure = frozenset(substituted(node, renamed) for node in known.sure)
        return replace(known, columns=columns, conditions=conditions, made_of=made_of, sure=sure)

    def lookup(self, node: exp.Expr) -> Typed | None:
        """Return a window as a column of the inner block."""
        if not isinstance(node, exp.Window):
            return None
        value = self.compiler.expression(node, self.inner)
        self.windows.append(value)
        return column(self.alias, f"w{len(self.windows) - 1}", value.type)

    @property
    def unit(self) -> Expr | None:
        """The hidden unit of the block's rows."""
        return Column(self.alias, "u") if self.source.unit is not None else None

    def rows(self) -> Derived:
        """Return the block: the rows, then the windows over them, under one alias."""
        listed = select_list(self.source.unit, "x", (c.guarded_node for c in self.columns))
        inner = Derived(Select(listed, self.source.source, self.where), self.alias)
        cells = tree.columns(self.alias, "x", len(self.columns))
        kept = select_list(self.unit, "x", cells)
        if self.numbered:
            partition = (self.unit,) if self.unit is not None else ()
            order = tuple(OrderTerm(c, "ASC", "LAST") for c in cells)
            number = Item(Window(Call("ROW_NUMBER", ()), partition, order), "i")
            inner = Derived(Select((*kept, number), inner), self.alias)
        windows = tree.items("w", (canonical(w).node for w in self.windows))
        return Derived(Select((*kept, *windows), inner), self.alias)
