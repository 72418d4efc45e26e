"""Cut release blocks out of a statement's tree: each as a statement of its own, or as several.

A block takes the selection of the block around it, and its quantiles become releases of their own.

A block has one release for its selection and its other numbers, and one for each column, condition and bounds
of quantiles, over all groups. The rows of the first one decide which groups are shown; the others are joined
to it by the keys.

A release of the largest groups has less noise than one of all groups, and needs no bound on the groups of a
unit. The outer block keeps its clauses, which then order and cut the groups that were selected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sqlglot import exp

from dpsql.analysis.compiler import (
    function_name,
    read_item,
    read_whole_number,
    split_arguments,
)
from dpsql.analysis.output_columns import find_free_kind, rewrite_selection
from dpsql.analysis.released.released_calls import is_quantile, is_released
from dpsql.composition.block_columns import is_measure
from dpsql.composition.kinds import BlockKind, Kinds, ReleaseBlock
from dpsql.errors import QueryRefused
from dpsql.language import (
    Clause,
    Options,
    Query,
    copy_tree,
    find_nodes,
    list_conjuncts,
    list_terms,
    name_query,
    read_clause,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold

_EXTREMES = ("min", "max")
_SELECTING = ("having", "order", "limit", "qualify")
_OF_QUANTILES = (
    *("epsilon", "delta", "error", "confidence", "privacy_unit_column", "fresh", "layout", "at"),
    *("max_groups_contributed", "max_rows_contributed", "bound_share", "group_selection_strategy"),
    "cut",
)
"""The options of a block that concern its quantiles."""


def release_of(measure: exp.Expr) -> tuple[object, ...]:
    """Return what measures of one release have in common; () for all but quantiles and extremes."""
    node = measure.unnest()
    if not is_quantile(node):
        return ()
    condition = value = None
    if isinstance(node, exp.Filter):
        condition, node = node.expression, node.this.unnest()
    if isinstance(node, exp.WithinGroup):
        value, node = node.expression.expressions[0].this, node.this
    named, others = split_arguments(node)
    name = (function_name(node) or "").lower()
    value = others[0] if value is None and others else value
    return (name if name in _EXTREMES else "", value, condition, *named)


def split_quantiles(
    query: Query, outer: exp.Select | None, name: str
) -> tuple[list[Query], exp.Select | None]:
    """Return the releases of a plain block, the i-th named `name.i`, and the SELECT over them.

    The first one has the name itself, and the selection of the block.
    """
    select = query.tree
    if outer is None or not isinstance(select, exp.Select):
        return [query], outer
    keys = _keys(select)
    own: dict[tuple[object, ...], list[exp.Expr]] = {}
    for item in select.expressions:
        if item not in keys:
            own.setdefault(release_of(item.this), []).append(item)
    quantiles = [listed for of, listed in own.items() if of]
    selects = query.clause != Clause() or any(select.args.get(part) for part in _SELECTING)
    first = own.get((), [])
    if not quantiles or not (first or selects or len(quantiles) > 1):
        return [query], outer
    if not (first or selects):
        first, *quantiles = quantiles
    listed = [first, *quantiles]
    made = [_release(query, keys, items, len(listed), main=not i) for i, items in enumerate(listed)]
    table = outer.args["from_"].this
    table.replace(_join(keys, listed, [name, *(f"{name}.{i}" for i in range(1, len(listed)))]))
    return made, outer


def _keys(select: exp.Select) -> list[exp.Expr]:
    """Return the items of the select list that are keys."""
    by = list_terms(select)
    return [i for i in select.expressions if i.this in by or not (is_measure(i.this) or is_released(i.this))]


def _release(query: Query, keys: list[exp.Expr], items: list[exp.Expr], size: int, *, main: bool) -> Query:
    """Return the release of some measures, with its part of an epsilon that the block has for itself.

    An option of the block is for those of its releases that it concerns.
    """
    tree = copy_tree(query.tree, "expressions", *(() if main else _SELECTING))
    tree.set("expressions", [copy_tree(item) for item in (*keys, *items)])
    options = query.options
    shared = {name: getattr(options, name) for name in ("epsilon", "delta")}
    parts: dict[str, Any] = {name: whole / size for name, whole in shared.items() if whole is not None}
    options = replace(options, **parts)
    of = release_of(items[0].this) if items else ()
    if not main:
        for part in _SELECTING:
            tree.set(part, None)
    if of:
        kept = [name for name in _OF_QUANTILES if of[0] not in _EXTREMES or name != "max_rows_contributed"]
        options = Options(**{name: getattr(options, name) for name in kept})
    else:
        few = query.clause != Clause() or any(tree.args.get(part) for part in _SELECTING)
        most = None if all(_by_units(item.this) for item in items) else options.max_rows_contributed
        groups = None if few else options.max_groups_contributed
        options = replace(options, max_rows_contributed=most, max_groups_contributed=groups)
    return replace(query, tree=tree, options=options, clause=query.clause if main else Clause())


def _by_units(measure: exp.Expr) -> bool:
    """Return whether no bound on rows concerns a measure, since it counts different values or is free."""
    node = measure.unnest()
    node = node.this if isinstance(node, exp.Filter) else node
    return find_free_kind(node) is not None or any(
        isinstance(each, exp.Distinct) for each in node.expressions
    )


def _join(keys: list[exp.Expr], listed: list[list[exp.Expr]], names: list[str]) -> exp.Subquery:
    """Return the releases joined by their keys, as one relation with the name of the first."""
    columns = [exp.column(key.alias, table="m0", quoted=True) for key in keys]
    tables = [_table(name, f"m{i}") for i, name in enumerate(names)]
    for i, items in enumerate(listed):
        columns += [exp.column(item.alias, table=f"m{i}", quoted=True) for item in items]
    made = exp.Select(expressions=columns).from_(tables[0], copy=False)
    for i, table in enumerate(tables[1:], 1):
        same = [
            exp.NullSafeEQ(
                this=exp.column(key.alias, table="m0", quoted=True),
                expression=exp.column(key.alias, table=f"m{i}", quoted=True),
            )
            for key in keys
        ]
        on = exp.and_(*same, copy=False) if same else None
        made.append(
            "joins",
            exp.Join(this=table, side="LEFT" if same else None, kind=None if same else "CROSS", on=on),
        )
    return name_query(made, names[0])


def _table(name: str, alias: str) -> exp.Table:
    made = exp.Table(this=exp.to_identifier(name, quoted=True))
    made.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    return made


_RELEASED = (BlockKind.RELEASE, BlockKind.POST)


def list_around(select: exp.Select) -> Iterator[exp.Select]:
    """Yield the SELECTs around a block, also around the common table expression that it is."""
    node = select.parent
    while node is not None:
        if isinstance(node, exp.Select):
            yield node
        node = node.parent


def name_releases(
    tree: exp.Query, marks: dict[str, tuple[int, tuple[str, ...]]], names: dict[int, str]
) -> None:
    """Name the released relations in a tree; columns of an equal block get the names used in this one."""
    for table in find_nodes(tree, exp.Table):
        columns = marks[table.name][1] if table.name in marks else ()
        if columns:
            listed = [exp.to_identifier(c, quoted=True) for c in columns]
            alias = exp.to_identifier(table.alias, quoted=True) if table.alias else copy_tree(table.this)
            table.set("alias", exp.TableAlias(this=alias, columns=listed))
    for identifier in find_nodes(tree, exp.Identifier):
        if identifier.this in marks:
            identifier.set("this", names[marks[identifier.this][0]])


def everything(name: str, at: int) -> exp.Select:
    """Return the SELECT of all columns of a released relation, whose block stands at a position."""
    table = exp.Table(this=exp.to_identifier(name, quoted=True))
    table.meta["start"] = at
    return exp.select("*").from_(table)


def put(made: exp.Select, select: exp.Select, tree: exp.Query) -> exp.Query:
    """Replace a release block in a tree by the SELECT over its released rows; return the tree."""
    clause = select.args.get("with_")
    if clause is not None:
        made.set("with_", copy_tree(clause))
    if select is tree:
        return made
    select.replace(made)
    return tree


def standalone(select: exp.Select, kinds: Kinds, changed: exp.Select | None = None) -> exp.Select:
    """Return a release block with the common table expressions that it needs, as a statement of its own.

    `changed` is the block with other clauses, if it gets them.
    """
    needed = sorted(_needed(select, kinds, set())) if kinds.ctes else ()
    made = copy_tree(select, "with_") if changed is None else changed
    made.set("with_", None)
    names: dict[str, exp.Expr] = {fold(c.alias): c for c in find_nodes(made, exp.CTE)} if needed else {}
    listed = []
    for place in needed:
        cte = kinds.ctes[place].query.parent
        assert cte is not None  # noqa: S101  the query of a common table expression stands in it
        for name in (fold(cte.alias), *(fold(c.alias) for c in find_nodes(cte.this, exp.CTE))):
            if name in names:
                raise kinds.query.source.refuse(
                    f"two common table expressions are called {cte.alias}",
                    cte,
                    "give one of them another name",
                )
            names[name] = cte
        listed.append(copy_tree(cte))
    if listed:
        made.set("with_", exp.With(expressions=listed))
    return made


def select_alone(select: exp.Select, tree: exp.Query, kinds: Kinds) -> exp.Select:
    """Return a SELECT over released rows with the common table expressions of the tree that it needs."""
    made = copy_tree(select)
    there = {cte.meta["cte"]: cte for cte in find_nodes(tree, exp.CTE) if "cte" in cte.meta}
    own = {id(cte) for cte in find_nodes(select, exp.CTE)}
    needed, waiting = dict[int, exp.CTE](), find_nodes(select, exp.Table)
    while waiting:
        place = waiting.pop().meta.get("cte")
        cte = None if place is None else there.get(place)
        if place is None or cte is None or id(cte) in own or place in needed:
            continue
        needed[place] = cte
        waiting += find_nodes(cte, exp.Table)
    if needed:
        listed = [copy_tree(needed[place]) for place in sorted(needed)]
        with_ = made.args.get("with_")
        listed += [] if with_ is None else with_.expressions
        made.set("with_", exp.With(expressions=listed))
    return made


def _needed(node: exp.Expr, kinds: Kinds, seen: set[int], *, whole: bool = False) -> Iterator[int]:
    """Yield the places of the private and public common table expressions that a query names, each once.

    Without `whole` the query is taken without its own WITH, so that those defined there are needed as well.
    """
    for table in find_nodes(node, exp.Table):
        place = table.meta.get("cte")
        if place is None or place in seen or kinds.of_cte[place] in _RELEASED:
            continue
        cte = kinds.ctes[place].query
        if not _within(cte, node, whole=whole):
            seen.add(place)
            yield place
            yield from _needed(cte, kinds, seen, whole=True)


def _within(cte: exp.Expr, node: exp.Expr, *, whole: bool) -> bool:
    """Return whether a common table expression is defined inside a query; in its own WITH only if `whole`."""
    with_ = cte.parent.parent if cte.parent is not None else None
    owner = with_.parent if with_ is not None else None
    if owner is node:
        return whole
    while owner is not None and owner is not node:
        owner = owner.parent
    return owner is node


def remove_private_clauses(tree: exp.Query, kinds: Kinds) -> exp.Query:
    """Remove common table expressions that are private, or unused, from an outer query.

    So what is left runs on released and public tables alone. The tree is changed, and returned.
    """
    changed = True
    while changed:
        changed = False
        named = {t.meta.get("cte") for t in find_nodes(tree, exp.Table) if t.name}
        for clause in find_nodes(tree, exp.With):
            kept = [c for c in clause.expressions if _kept(c, named, kinds)]
            if len(kept) == len(clause.expressions):
                continue
            changed = True
            if kept:
                clause.set("expressions", kept)
            else:
                clause.pop()
    return tree


def _kept(cte: exp.Expr, named: set[object], kinds: Kinds) -> bool:
    place = cte.meta.get("cte")
    return place in named and place is not None and kinds.of_cte[place] is not BlockKind.OWNED


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
        """Remove from the outer block the WHERE condition that the inner release already applies."""
        if self.filtered:
            self.outer.set("where", None)


def fuse(release: ReleaseBlock, kinds: Kinds, options: Options, clause: Clause) -> Fused | None:
    """Return a release block with the selection of the block around it; None if it has none to give."""
    block = release.select
    outer = _around(block, kinds)
    if outer is None or clause.spelling or options.max_groups_contributed is not None:
        return None
    if any(block.args.get(name) for name in _OWN) or block.args.get("group") is None:
        return None
    if any(value for name, value in outer.args.items() if name not in _PLAIN):
        return None
    if any(n for item in outer.expressions for n in find_nodes(item, exp.Window, exp.Query)):
        return None
    measures = {fold(i.alias): i.this for i in block.expressions if isinstance(i, exp.Alias)}
    condition = _condition(outer, measures)
    if outer.args.get("where") is not None and condition is None:
        return None
    made = copy_tree(block)
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
        tables = [t for t in find_nodes(root, exp.Table) if t.meta.get("cte") == place]
        holder = tables[0] if len(tables) == 1 else None
    if not isinstance(holder, (exp.Subquery, exp.Table)) or not isinstance(holder.parent, exp.From):
        return None
    alias = holder.args.get("alias")
    outer = holder.parent.parent
    plain = not holder.args.get("joins") and not (alias is not None and alias.args.get("columns"))
    if not plain or not isinstance(outer, exp.Select) or kinds.of_select.get(id(outer)) is not BlockKind.POST:
        return None
    return outer


def _number(outer: exp.Select, name: str) -> int | None:
    """Return the number of LIMIT or OFFSET; None if it is no number, or there is no LIMIT."""
    clause = outer.args.get(name)
    if clause is None:
        return 0 if name == "offset" else None
    return read_whole_number(clause.args.get("expression"))


def _measure(node: exp.Expr, measures: dict[str, exp.Expr]) -> exp.Expr | None:
    """Return the measure that a column of the outer block names."""
    return measures.get(fold(node.name)) if isinstance(node, exp.Column) else None


def _first(outer: exp.Select, measures: dict[str, exp.Expr]) -> exp.Expr | None:
    """Return the first term of ORDER BY over the measure itself; None if it is no measure."""
    term = next(iter(list_terms(outer, "order")), None)
    if term is None:
        return None
    node = read_item(outer, term.this)
    measure = _measure(node, measures)
    if measure is None:
        return None
    made: exp.Expr = copy_tree(term)
    made.set("this", copy_tree(measure))
    return made


def _condition(outer: exp.Select, measures: dict[str, exp.Expr]) -> exp.Expr | None:
    """Return the condition of WHERE over what it names in the release; None if it is another one.

    It bounds a measure from below, or a rank by a measure from above.
    """
    parts = list_conjuncts(read_clause(outer))
    if len(parts) != 1 or not isinstance(parts[0].args.get("expression"), exp.Literal):
        return None
    named = _measure(parts[0].this, measures)
    kinds = (exp.LT, exp.LTE, exp.EQ) if isinstance(named, exp.Window) else (exp.GT, exp.GTE)
    if named is None or not isinstance(parts[0], kinds):
        return None
    made: exp.Expr = copy_tree(parts[0])
    made.set("this", copy_tree(named))
    return made


def is_arg_max(query: Query) -> bool:
    """Return whether a statement is another spelling of one release: ARG_MAX over counted groups."""
    if not isinstance(query.tree, exp.Select) or query.inner:
        return False
    try:
        return rewrite_selection(query.source, query.tree).only is not None
    except QueryRefused:
        return False


def position_of(query: Query, select: exp.Select) -> int:
    """Return the position of a block in the statement's text, also of one that has been rewritten."""
    at: int = select.meta["select"]
    return at if at >= 0 else query.source.position(select)
