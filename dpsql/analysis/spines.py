"""Read `SELECT DISTINCT day FROM visits`, to which private rows are joined, as the declared days.

Which days have rows is private. Where the block groups by the day, a value only decides about its own group:
the declared values have all groups of plain SQL. Which of them are shown is decided by a release of its own
(see `composition.existing_values`, which marks the SELECT). In every other place the values would decide
about other rows, so there the private DISTINCT stays refused.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.parsed import whole_number
from dpsql.analysis.relation import Column, Cte, Relation, cte_named
from dpsql.kernel.tree import Column as TreeColumn
from dpsql.kernel.tree import Derived, Item, Select
from dpsql.language import copied
from dpsql.policy import fold

_KNOWN = frozenset({"expressions", "from_", "joins", "where", "distinct", "with_", "kind"})


MARKED = "declared"
"""The mark of a SELECT DISTINCT whose groups are shown by a release of their own."""


class Listed(NamedTuple):
    """A SELECT DISTINCT of one column in FROM, what it may name, and the names of both."""

    select: exp.Select
    visible: tuple[Cte, ...]
    alias: str
    name: str


def spine(
    compiler: StatementCompiler, block: exp.Select, item: exp.Expr, ctes: tuple[Cte, ...], depth: int
) -> Relation | None:
    """Return the declared values that an item of FROM stands for; None if it stands for none."""
    found = listed(item, ctes)
    if found is None or not found.select.meta.get(MARKED) or not block.args.get("joins"):
        return None
    if not grouped_by(block, found.alias, found.name):
        return None
    plain = copied(found.select)
    plain.set("distinct", None)
    rows = compiler.query(plain, found.visible, depth + 1)
    column = rows.columns[0]
    if rows.owner is None or column.domain is None or column.unit.held:
        return None
    query = Select((Item(TreeColumn("", "v"), "c0"),), Derived(column.domain.without_null().query, "d"))
    only = Column(found.name, column.type, domain=column.domain.without_null(), bounds=column.bounds)
    return Relation(query, (only,), None, frozenset({frozenset({0})}))


def listed(item: exp.Expr, ctes: tuple[Cte, ...]) -> Listed | None:
    """Return the SELECT DISTINCT of one column that an item of FROM is; None for other items."""
    alias, query, visible, names = item.alias_or_name, None, ctes, tuple[str, ...]()
    if isinstance(item, exp.Subquery):
        query = item.this
    elif isinstance(item, exp.Table) and item.args.get("db") is None:
        cte = cte_named(item.name, ctes)
        query, visible, names = (cte.query, cte.visible, cte.columns) if cte else (None, ctes, ())
    if not isinstance(query, exp.Select) or len(query.expressions) != 1 or query.expressions[0].is_star:
        return None
    distinct = query.args.get("distinct")
    renamed = item.args.get("alias") is not None and bool(item.args["alias"].args.get("columns"))
    if distinct is None or distinct.args.get("on") is not None or renamed:
        return None
    if any(value for name, value in query.args.items() if name not in _KNOWN):
        return None
    return Listed(query, visible, alias, names[0] if names else query.expressions[0].alias_or_name)


def grouped_by(block: exp.Select, alias: str, name: str) -> bool:
    """Return whether a block groups by a column of one of its items."""
    group = block.args.get("group")
    for node in [] if group is None else group.expressions:
        place = whole_number(node)
        key = block.expressions[place - 1].unalias() if place and place <= len(block.expressions) else node
        own = isinstance(key, exp.Column) and (not key.table or fold(key.table) == fold(alias))
        if own and name and fold(key.name) == fold(name):
            return True
    return False
