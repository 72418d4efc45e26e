"""Read blocks of a statement as equal ones that can be released: totals as counts, single rows as constants.

Groups of a private SELECT DISTINCT are those that have rows, by their released numbers.

Each column of such a release is one value, which an expression over private rows may use as a constant
(see `Kinds.values`); as a key of GROUP BY it is left out. Only inner joins are read so: they keep each
private row once, or leave it out.

`SELECT SUM(bought) FROM (SELECT visit_id, MAX(CASE WHEN p THEN 1 ELSE 0 END) AS bought FROM events GROUP BY
visit_id)` is the number of visits with a row that meets p: `COUNT(DISTINCT visit_id) FILTER (WHERE p)`. As
groups of undeclared keys only those with enough units would be shown, and their total would be far too low.
The group whose key is NULL is left out, which the answer says.
The rule is a spelling: what it makes is analysed like any statement.

`FROM (SELECT DISTINCT day FROM visits) d LEFT JOIN visits v ON .. GROUP BY d.day` has a group for each day
with a visit. Which days these are is private, so the block is counted for all declared days (see
`analysis.public_domains`), and a release of the visitors of each day decides which of the groups are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from sqlglot import exp

from dpsql.analysis.aggregate_functions import aggregate_name, contains_aggregate, is_aggregate
from dpsql.analysis.compiled_relation import Cte, find_cte
from dpsql.analysis.compiler import read_alone, read_whole_number
from dpsql.analysis.public_domains import DECLARED_MARK, is_grouped_by, read_select_distinct
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition.existence import EXISTENCE, HALF
from dpsql.errors import QueryRefused
from dpsql.language import (
    MARK,
    Clause,
    Query,
    copy_rows,
    copy_tree,
    find_nodes,
    keep_title,
    list_from_items,
    list_given,
    list_terms,
    make_select,
    name_query,
    read_clause,
    set_where,
    walk_block,
    walk_tree,
)
from dpsql.policy import Policy, UnitColumn, fold

BY_KEY = "by key"
"""The meta of an item of FROM that has released values by keys, for a subquery of a row."""
_LIMITING = ("group", "having", "qualify", "limit", "offset", "distinct", "joins", "laterals", "where")
_AGGREGATED = tuple(name for name in _LIMITING if name not in ("joins", "where"))


def has_one_row(node: exp.Expr, ctes: tuple[Cte, ...]) -> bool:
    """Return whether a query has exactly one row, whatever its tables hold: an aggregate without GROUP BY."""
    select = node.unnest() if isinstance(node, exp.Subquery) else node
    if not isinstance(select, exp.Select):
        return False
    if any(contains_aggregate(item) for item in select.expressions):
        return not any(select.args.get(name) for name in _AGGREGATED)
    if any(select.args.get(name) for name in _LIMITING):
        return False
    first = read_clause(select, "from_")
    if first is None or first.args.get("joins"):
        return first is None
    inner = relation(first, ctes)
    return inner is not None and has_one_row(inner[0], inner[1])


def relation(item: exp.Expr, ctes: tuple[Cte, ...]) -> tuple[exp.Expr, tuple[Cte, ...]] | None:
    """Return the query of an item of FROM, and the common table expressions that it may name."""
    if isinstance(item, exp.Subquery):
        return item.this, ctes
    if isinstance(item, exp.Table) and item.args.get("db") is None:
        cte = find_cte(item.name, ctes)
        return None if cte is None else (cte.query, cte.visible)
    return None


def joins_inwards(joins: Sequence[exp.Join], *others: str) -> bool:
    """Return whether joins keep a row of each item or leave it out, and have none of some other arguments."""
    if any(join.args.get(name) for join in joins for name in ("side", "method", "pivots", *others)):
        return False
    return all(str(join.args.get("kind") or "") in ("", "INNER", "CROSS") for join in joins)


def with_scalars(
    node: exp.Select,
    ctes: tuple[Cte, ...],
    released: Callable[[exp.Expr], bool],
    private: Callable[[exp.Expr], bool],
    known: Callable[[str], bool],
) -> None:
    """Replace the columns of joined releases of one row by scalar subqueries, and leave the releases out.

    `released` and `private` say what an item of FROM is; `known` whether the other items have a column, once
    the releases have left FROM. A block that cannot be read so stays as it is.
    """
    joins, items = node.args.get("joins") or [], list_from_items(node)
    if not joins or not items or node.args.get("laterals"):
        return
    singles = {id(i): names for i in items if (names := _columns(i, ctes)) is not None and released(i)}
    if not singles or len(singles) == len(items):
        return
    listed = _expand_stars(node, items, singles)
    if not joins_inwards(joins, "using") or listed is None:
        return
    kept = [item for item in items if id(item) not in singles]
    if not any(private(item) for item in kept):
        return
    node.set("expressions", listed)
    conditions = [j.args["on"] for j in joins if j.args.get("on") is not None]
    node.args["from_"].set("this", kept[0])
    node.set("joins", [exp.Join(this=item, kind="CROSS") for item in kept[1:]])
    set_where(node, read_clause(node), *conditions)
    for item in items:
        if id(item) in singles:
            for column in list(_named(node, item.alias_or_name, singles[id(item)], known)):
                made = _scalar(column, item)
                is_item = any(each is column for each in node.expressions)
                name = exp.to_identifier(column.name, quoted=True)
                column.replace(exp.Alias(this=made, alias=name) if is_item else made)
    _leave_out_constant_keys(node)


def _expand_stars(
    node: exp.Select, items: list[exp.Expr], singles: Mapping[int, tuple[str, ...]]
) -> list[exp.Expr] | None:
    """Return a select list in which a star names no release of one row; None if one cannot be written so."""
    of_single = {fold(item.alias_or_name): (item, singles[id(item)]) for item in items if id(item) in singles}
    found = list[exp.Expr]()
    for each in node.expressions:
        if not each.is_star:
            found.append(each)
            continue
        star = each.this if isinstance(each, exp.Column) else each
        names = [each.args["table"].name] if isinstance(each, exp.Column) and each.table else None
        for name in [item.alias_or_name for item in items] if names is None else names:
            single = of_single.get(fold(name))
            if single is None and names is not None:
                found.append(each)
            elif not name or star.args.get("except_"):
                return None
            elif single is None:
                found.append(exp.Column(this=exp.Star(), table=exp.to_identifier(name)))
            else:
                found += [exp.column(column, table=name) for column in single[1]]
    return found


def _leave_out_constant_keys(node: exp.Select) -> None:
    """Leave values of releases out of GROUP BY: each is one value on all rows, so it divides none of them."""
    group = node.args.get("group")
    if group is None or group.args.get("all"):
        return
    kept = list[exp.Expr]()
    for key in group.expressions:
        place = read_whole_number(key)
        item = (
            node.expressions[place - 1] if place is not None and 1 <= place <= len(node.expressions) else key
        )
        if not item.unalias().meta.get(_ONE_VALUE):
            kept.append(key)
    if len(kept) < len(group.expressions):
        node.set("group", exp.Group(expressions=kept) if kept else None)


def _columns(item: exp.Expr, ctes: tuple[Cte, ...]) -> tuple[str, ...] | None:
    """Return the names of the columns of an item that has one row, in their order; None for other items."""
    found = relation(item, ctes)
    if found is None or item.args.get("joins") or not item.alias_or_name or not has_one_row(*found):
        return None
    select = found[0].unnest() if isinstance(found[0], exp.Subquery) else found[0]
    names = [e.alias_or_name for e in select.expressions] if isinstance(select, exp.Select) else []
    alias = item.args.get("alias")
    listed = [c.name for c in alias.args.get("columns") or ()] if alias is not None else []
    cte = find_cte(item.name, ctes) if isinstance(item, exp.Table) else None
    if cte is not None:
        names[: len(cte.columns)] = cte.columns
    names[: len(listed)] = listed
    return tuple(fold(name) for name in names if name)


def _named(
    node: exp.Select, alias: str, names: tuple[str, ...], known: Callable[[str], bool]
) -> Iterator[exp.Column]:
    """Yield the columns of a block that name columns of a release of one row."""
    for column in walk_block(node, "joins"):
        if not isinstance(column, exp.Column) or fold(column.name) not in names:
            continue
        table = column.args.get("table")
        if fold(table.name) == fold(alias) if table is not None else not known(column.name):
            yield column


def _scalar(column: exp.Column, item: exp.Expr) -> exp.Subquery:
    """Return the scalar subquery of one column of a release of one row."""
    named = exp.Column(this=copy_tree(column.this))
    named.meta.update(column.meta)
    made = make_select([named], copy_tree(item))
    made.meta.update({k: v for k, v in column.this.meta.items() if k in ("start", "end", "line", "col")})
    value = exp.Subquery(this=made)
    value.meta[_ONE_VALUE] = True
    return value


_ONE_VALUE = "one value"
"""In the meta of the scalar subquery of a column of a release of one row."""
_OUTER = frozenset({"expressions", "from_", "with_", "kind"})
_INNER = frozenset({"expressions", "from_", "joins", "where", "group", "with_", "kind"})


def with_counts(tree: exp.Query, policy: Policy) -> exp.Query:
    """Return a statement whose totals of indicators are counts of groups; the tree is changed."""
    for select in find_nodes(tree, exp.Select):
        inner = _inner(select, tree)
        if inner is not None:
            _count(select, inner, policy)
    return tree


def _inner(select: exp.Select, tree: exp.Query) -> exp.Select | None:
    """Return the block in FROM, if there is nothing else in it, and the block around it only computes."""
    item = read_clause(select, "from_")
    if item is None or list_given(select) - _OUTER:
        return None
    if item.args.get("joins") or (item.args.get("alias") is not None and item.args["alias"].columns):
        return None
    inner = read_alone(item, tree)
    return inner if inner is not None and inner.find_ancestor(exp.Select) is select else None


def _count(select: exp.Select, inner: exp.Select, policy: Policy) -> None:
    """Count the groups of the inner block in the outer one, if all that it uses of them are indicators."""
    key, found = _key(inner), _indicators(inner)
    if key is None or not found or inner.args.get("from_") is None:
        return
    tables = [policy.table(t.name) for t in find_nodes(inner.args["from_"], exp.Table) if t.name.isascii()]
    if not any(table is not None and not table.public for table in tables):
        return
    units = {fold(t.unit.column) for t in policy.tables.values() if isinstance(t.unit, UnitColumn)}
    if fold(key.name) in units:
        return
    alias = select.args["from_"].this.alias_or_name
    totals = dict[int, tuple[exp.Expr, exp.Expr | None]]()
    for item in select.expressions:
        for node in walk_tree(item, is_aggregate):
            if isinstance(node, (exp.Query, exp.Window)):
                return
            if is_aggregate(node):
                plain = aggregate_name(node) == "sum" and isinstance(node, exp.Anonymous)
                name = (
                    _column_name(node.expressions[0], alias) if plain and len(node.expressions) == 1 else None
                )
                if name is None or name not in found:
                    return
                totals[id(node)] = node, found[name]
            elif isinstance(node, exp.Column):
                return
    if not totals:
        return
    for node, condition in totals.values():
        node.replace(keep_title(node, _distinct(key, condition)))
    _take(select, inner)
    select.meta["note"] = f"a group without {key.name} is not counted"


def _key(inner: exp.Select) -> exp.Column | None:
    """Return the only key of a block that does nothing but group; None if it does more."""
    group = inner.args.get("group")
    if group is None or list_given(inner) - _INNER:
        return None
    if len(group.expressions) != 1 or list_given(group) - {"expressions"}:
        return None
    key = group.expressions[0]
    if isinstance(key, exp.Literal) and key.this == "1" and inner.expressions:
        key = inner.expressions[0].unalias()
    return key if isinstance(key, exp.Column) else None


def _indicators(inner: exp.Select) -> dict[str, exp.Expr | None]:
    """Return the conditions of the columns `MAX(CASE WHEN p THEN 1 ELSE 0 END) AS name`, by their names."""
    found = dict[str, exp.Expr | None]()
    for item in inner.expressions:
        call = item.this if isinstance(item, exp.Alias) else item
        if not isinstance(item, exp.Alias) or aggregate_name(call) != "max" or isinstance(call, exp.Filter):
            continue
        case = call.expressions[0].unnest() if len(call.expressions) == 1 else None
        if isinstance(case, exp.Case) and case.this is None and len(case.args["ifs"]) == 1:
            one = case.args["ifs"][0]
            default = case.args.get("default")
            if _is(one.args["true"], "1") and (default is None or _is(default, "0")):
                found[fold(item.alias)] = one.this
    return found


def _is(node: exp.Expr | None, text: str) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.this == text


def _column_name(node: object, alias: str) -> str | None:
    """Return the name of a column of the inner block; None for other nodes."""
    if not isinstance(node, exp.Column) or (node.table and fold(node.table) != fold(alias)):
        return None
    return fold(node.name)


def _distinct(key: exp.Column, condition: exp.Expr | None) -> exp.Expr:
    """Return the number of different keys among the rows that meet a condition."""
    count = exp.Anonymous(this=f"{MARK}COUNT", expressions=[exp.Distinct(expressions=[copy_tree(key)])])
    count.meta.update(key.meta)
    if condition is None:
        return count
    return exp.Filter(this=count, expression=exp.Where(this=copy_tree(condition)))


def _take(select: exp.Select, inner: exp.Select) -> None:
    """Give the outer block the rows of the inner one."""
    listed = [c for c in list_terms(select, "with_") if c.this is not inner] + list_terms(inner, "with_")
    select.set("with_", exp.With(expressions=listed) if listed else None)
    for name in ("from_", "joins", "where"):
        select.set(name, inner.args.get(name))


def with_existing(query: Query, provenance: Provenance) -> Query:
    """Return a statement whose blocks show the groups that exist; its tree is changed."""
    if query.inner or query.clause != Clause():
        return query
    if any(_joins_groups(select) for select in find_nodes(query.tree, exp.Select)):
        _visit(query.tree, (), provenance)
    return query


def _joins_groups(block: exp.Select) -> bool:
    return all(block.args.get(name) for name in ("from_", "group", "joins"))


def _visit(node: exp.Expr, ctes: tuple[Cte, ...], provenance: Provenance) -> None:
    """Look at all blocks of a query, each with the common table expressions that it may name."""
    if isinstance(node, exp.Query) and not isinstance(node, exp.Table) and node.args.get("with_") is not None:
        try:
            ctes = provenance.list_ctes(node, ctes)
        except QueryRefused:
            return
    if isinstance(node, exp.Select):
        _filter(node, ctes, provenance)
    for child in list(node.iter_expressions()):
        _visit(child, ctes, provenance)


def _filter(block: exp.Select, ctes: tuple[Cte, ...], provenance: Provenance) -> None:
    if not _joins_groups(block):
        return
    for item in (block.args["from_"].this, *(join.this for join in block.args["joins"])):
        found = read_select_distinct(item, ctes)
        if found is None or not is_grouped_by(block, found.alias, found.name):
            continue
        unit = provenance.find_unit(found.select, found.visible)
        if unit is None or not _have_same_meaning(found.select, ctes, found.visible):
            continue
        key = exp.column(found.name, table=found.alias, quoted=True)
        exists = exp.In(this=key, query=exp.Subquery(this=_query_of_existing(found.select, unit)))
        having = read_clause(block, "having")
        both = exists if having is None else exp.and_(having, exists, copy=False)
        block.set("having", exp.Having(this=both))
        found.select.meta[DECLARED_MARK] = True


def _have_same_meaning(select: exp.Select, ctes: tuple[Cte, ...], visible: tuple[Cte, ...]) -> bool:
    """Return whether the tables of a SELECT have the same meaning in another place."""
    names = [table.name for table in find_nodes(select, exp.Table)]
    alike = all(find_cte(name, ctes) is find_cte(name, visible) for name in names)
    return select.args.get("with_") is None and alike


def _query_of_existing(select: exp.Select, unit: exp.Column) -> exp.Select:
    """Return the query of the values of a SELECT DISTINCT whose noisy number of units is not zero."""
    value = select.expressions[0].unalias()
    units = exp.Anonymous(this=f"{MARK}COUNT", expressions=[exp.Distinct(expressions=[unit])])
    counted = exp.Select(
        expressions=[exp.alias_(copy_tree(value), "k", quoted=True), exp.alias_(units, "n", quoted=True)]
    )
    copy_rows(select, counted)
    counted.set("group", exp.Group(expressions=[copy_tree(value)]))
    counted.meta["select"] = -1
    counted.meta[EXISTENCE] = (("n",), False)
    some = exp.GTE(this=exp.column("n", quoted=True), expression=exp.Literal.number(HALF))
    return make_select([exp.column("k", quoted=True)], name_query(counted, "s", quoted=False), some)
