"""Read the selection of an outer block as that of its release: `ORDER BY n DESC LIMIT k` over all groups.

A release of the largest groups has less noise than one of all groups, and needs no bound on the groups of a
unit. The outer block keeps its clauses, which then order and cut the groups that were selected.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.analysis.parsed import conjuncts, whole_number
from dpsql.composition.kinds import Kind, Kinds, Release
from dpsql.language import Clause, Options, all_of, copied
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold

_PLAIN = frozenset({"expressions", "from_", "where", "order", "limit", "offset", "with_", "kind"})
_OWN = ("having", "order", "limit", "offset", "qualify", "distinct", "windows")


@dataclass(frozen=True, slots=True)
class Fused:
    """A release block with the selection of the block around it, and that block."""

    select: exp.Select
    outer: exp.Select
    filtered: bool
    """Whether the release does what WHERE of the outer block says."""

    def move(self) -> None:
        """Take from the outer block the condition that the release fulfils."""
        if self.filtered:
            self.outer.set("where", None)


def fused(release: Release, kinds: Kinds, options: Options, clause: Clause) -> Fused | None:
    """Return a release block with the selection of the block around it; None if it has none to give."""
    block = release.select
    outer = _around(block, kinds)
    if outer is None or clause.spelling or options.max_groups_contributed is not None:
        return None
    if any(block.args.get(name) for name in _OWN) or block.args.get("group") is None:
        return None
    if any(value for name, value in outer.args.items() if name not in _PLAIN):
        return None
    if any(n for item in outer.expressions for n in all_of(item, exp.Window, exp.Query)):
        return None
    measures = {fold(i.alias): i.this for i in block.expressions if isinstance(i, exp.Alias)}
    condition = _condition(outer, measures)
    if outer.args.get("where") is not None and condition is None:
        return None
    made = copied(block)
    if condition is not None and isinstance(condition.this, exp.Window):
        made.set("qualify", exp.Qualify(this=condition))
        return Fused(made, outer, True)
    k, skipped = _number(outer, "limit"), _number(outer, "offset")
    first = _first(outer, measures)
    unordered = outer.args.get("order") is None and condition is not None
    if k is None or skipped is None or not (first is not None or unordered):
        return None
    if condition is not None:
        made.set("having", exp.Having(this=condition))
    if first is not None:
        made.set("order", exp.Order(expressions=[first]))
    made.set("limit", exp.Limit(expression=exp.Literal.number(k + skipped)))
    return Fused(made, outer, condition is not None)


def _around(block: exp.Select, kinds: Kinds) -> exp.Select | None:
    """Return the block that reads nothing but a release, and is the only one that reads it."""
    holder = block.parent
    if isinstance(holder, exp.CTE):
        place = holder.meta.get("cte")
        if place is None or kinds.uses[place] != 1 or holder.args["alias"].args.get("columns"):
            return None
        root = kinds.query.tree
        tables = [t for t in all_of(root, exp.Table) if t.meta.get("cte") == place]
        holder = tables[0] if len(tables) == 1 else None
    if not isinstance(holder, (exp.Subquery, exp.Table)) or not isinstance(holder.parent, exp.From):
        return None
    alias = holder.args.get("alias")
    outer = holder.parent.parent
    plain = not holder.args.get("joins") and not (alias is not None and alias.args.get("columns"))
    if not plain or not isinstance(outer, exp.Select) or kinds.of_select.get(id(outer)) is not Kind.POST:
        return None
    return outer


def _number(outer: exp.Select, name: str) -> int | None:
    """Return the number of LIMIT or OFFSET; None if it is no number, or there is no LIMIT."""
    clause = outer.args.get(name)
    if clause is None:
        return 0 if name == "offset" else None
    return whole_number(clause.args.get("expression"))


def _measure(node: exp.Expr, measures: dict[str, exp.Expr]) -> exp.Expr | None:
    """Return the measure that a column of the outer block names."""
    return measures.get(fold(node.name)) if isinstance(node, exp.Column) else None


def _first(outer: exp.Select, measures: dict[str, exp.Expr]) -> exp.Expr | None:
    """Return the first term of ORDER BY over the measure itself; None if it is no measure."""
    order = outer.args.get("order")
    if order is None:
        return None
    term = order.expressions[0]
    place = whole_number(term.this)
    node = outer.expressions[place - 1].unalias() if place and place <= len(outer.expressions) else term.this
    renamed = {fold(i.alias): i.this for i in outer.expressions if isinstance(i, exp.Alias)}
    if isinstance(node, exp.Column) and not node.table and fold(node.name) in renamed:
        node = renamed[fold(node.name)]
    measure = _measure(node, measures)
    if measure is None:
        return None
    made: exp.Expr = copied(term)
    made.set("this", copied(measure))
    return made


def _condition(outer: exp.Select, measures: dict[str, exp.Expr]) -> exp.Expr | None:
    """Return the condition of WHERE over what it names in the release; None if it is another one.

    It bounds a measure from below, or a rank by a measure from above.
    """
    where = outer.args.get("where")
    parts = conjuncts(where.this) if where is not None else []
    if len(parts) != 1 or not isinstance(parts[0].args.get("expression"), exp.Literal):
        return None
    named = _measure(parts[0].this, measures)
    kinds = (exp.LT, exp.LTE, exp.EQ) if isinstance(named, exp.Window) else (exp.GT, exp.GTE)
    if named is None or not isinstance(parts[0], kinds):
        return None
    made: exp.Expr = copied(parts[0])
    made.set("this", copied(named))
    return made
