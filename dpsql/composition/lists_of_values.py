"""Read lists of values of private rows, and the most frequent value, as releases of groups.

===============================================  ==========================================================
written                                          is
===============================================  ==========================================================
``MODE(x)``                                      the largest group of ``GROUP BY x``
``APPROX_TOP_K(x, 3)``, ``APPROX_TOP_COUNT``     the list of the three largest groups
``HISTOGRAM(x)``                                 the map of the groups that have rows to their numbers
``STRING_AGG(DISTINCT x, ',')``, ``LIST`` ..     the list of the values that are found, sorted
``QUANTILE_CONT(x, [.25, .75])``                 the list of the two quantiles, in one release
``SELECT x .. INTERSECT SELECT x ..``            the same of the values that are found; EXCEPT, UNION,
                                                 and of several columns of the rows of these
===============================================  ==========================================================

Rows without x are in none of them. A value is found as one of a list of IN is: each unit speaks for one of
its values, so rarer values are missed, and the answer says so. Each call is a release of its own, of all rows
of its block; in a block with GROUP BY they are refused. Lists of quantiles stay in their release, as columns
of it. The branches of a set operation that select the unit stay rows of units.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.aggregate_functions import aggregate_name
from dpsql.analysis.compiled_relation import Cte
from dpsql.analysis.compiler import find_cte, function_name, read_number, read_whole_number
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition.found_values import (
    OF_NO_ROWS,
    find_speakers,
    list_ctes_of,
    list_found_values,
    say_absent,
    with_titles,
    word_of,
)
from dpsql.errors import QueryRefused, with_article
from dpsql.language import (
    Clause,
    Clauses,
    Query,
    copy_tree,
    find_nodes,
    keep_title,
    list_given,
    make_call,
    make_presence,
    make_select,
    name_query,
    read_clause,
    set_where,
    title_of,
    walk_tree,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy

_BESIDE = frozenset({"expressions", "from_", "joins", "where", "with_", "kind"})
_TEXTS = frozenset({"string_agg", "group_concat", "listagg"})
_LISTS = frozenset({"array_agg", "list"})
_LARGEST = frozenset({"approx_top_k", "approx_top_count"})
_OF_GROUPS = frozenset({"mode", "histogram"})
"""Calls of one value, of which a release has the groups."""
_QUANTILES = frozenset({"quantile", "quantile_cont", "quantile_disc", "percentile_cont", "percentile_disc"})
MOST_QUANTILES = 20
"""The most quantiles of a list."""
MOST_LISTED = 1_000
"""The most groups of APPROX_TOP_K."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that makes a list of the values of rows, or takes the most frequent one."""

    node: exp.Expr
    """The call with FILTER and WITHIN GROUP."""
    name: str
    value: exp.Expr
    where: exp.Expr | None = None
    size: int = 1
    bounds: tuple[exp.Expr, ...] = ()
    """What it says of the bounds of its rows."""
    separator: exp.Expr | None = None
    order: exp.Ordered | None = None


def with_lists(query: Query, provenance: Provenance) -> Query:
    """Return a statement with releases in the place of lists of values; its tree is changed."""
    root = query.tree
    if isinstance(root, exp.Select):
        _divide_quantiles(root)
    if query.clause != Clause():
        return query
    inner, nodes = dict(query.inner), walk_tree(root)
    sets = [node for node in nodes if isinstance(node, exp.SetOperation)]
    for node in sets:
        if isinstance(node.parent, (exp.SetOperation, exp.CTE)):
            continue
        every = _list_branches(node) or []
        branches = [branch for branch in every if not _is_public(branch, provenance.policy)]
        read = [_read_branch(branch, provenance) for branch in branches]
        if not read or None in read:
            continue
        for branch, values in zip(branches, read, strict=True):
            assert values is not None  # noqa: S101  as seen
            listed = with_titles(list_found_values(branch, *values, inner), branch)
            if len(listed.expressions) == 1:
                say_absent(listed, f"Rows without {with_article(listed.expressions[0].alias)} are left out")
            branch.replace(listed)
    for select in walk_tree(root) if sets else nodes:
        if not isinstance(select, exp.Select) or list_given(select) - _BESIDE:
            continue
        calls = [call for item in select.expressions for call in _list_calls(item)]
        found = [made for call in calls if (made := _read(call)) is not None]
        if not found or not _is_of_units(select, found, provenance):
            continue
        rows = copy_tree(select, "expressions", "with_")
        for one in found:
            listed = _write(one, rows, inner, provenance, _list_ctes(select, provenance))
            one.node.replace(keep_title(one.node, exp.Subquery(this=listed)))
        if len(found) == len(calls):  # the rows are read by the releases alone
            for name in ("from_", "joins", "where"):
                select.set(name, None)
    return query if inner == query.inner else replace(query, inner=inner)


def _list_branches(node: exp.SetOperation) -> list[exp.Select] | None:
    """Return the branches of set operations in which a value counts once; None for others."""
    found = list[exp.Select]()
    for side in (node.this, node.expression):
        inner = side.unnest() if isinstance(side, exp.Subquery) else side
        if isinstance(inner, exp.SetOperation):
            below = _list_branches(inner)
            if below is None:
                return None
            found += below
        elif isinstance(inner, exp.Select):
            found.append(inner)
    whole = bool(node.args.get("distinct")) and not any(node.args.get(name) for name in ("with_", "by_name"))
    return found if whole else None


def _is_public(branch: exp.Select, policy: Policy) -> bool:
    """Return whether a branch reads public tables alone."""
    named = find_nodes(branch, exp.Table)
    tables = [policy.table(n.name) if n.name.isascii() and find_cte(n) is None else None for n in named]
    return bool(tables) and all(table is not None and table.public for table in tables)


def _read_branch(branch: exp.Select, of: Provenance) -> tuple[exp.Column, bool] | None:
    """Return the unit of the rows of a branch, and whether its values are declared; None if it is no list."""
    given = list_given(branch)
    if given - _BESIDE - {"distinct"} or "with_" in given:
        return None
    return find_speakers(branch, of, list_ctes_of(branch, of))


def _list_ctes(select: exp.Select, of: Provenance) -> tuple[Cte, ...]:
    return of.list_ctes(select, list_ctes_of(select, of))


def _list_calls(item: exp.Expr) -> list[exp.Expr]:
    """Return the outermost aggregates of an item, and the calls of other systems that this file reads."""
    found = list[exp.Expr]()
    for node in walk_tree(item, lambda each: isinstance(each, exp.Query) or aggregate_name(each) is not None):
        if aggregate_name(node) is None and (function_name(node) or "").lower() not in _LARGEST | _OF_GROUPS:
            continue
        call = node
        while isinstance(call, (exp.Filter, exp.WithinGroup)):
            call = call.this
        found.append(call)
    return found


def _read(call: exp.Expr) -> _Call | None:
    """Return what a call makes of the values of rows; None for other calls."""
    node, where = call, None
    if isinstance(node.parent, exp.WithinGroup):
        node = node.parent
    if isinstance(node.parent, exp.Filter):
        node = node.parent
        where = node.args["expression"].this
    if isinstance(node.parent, exp.Window):
        return None
    name = (function_name(call) or "").lower()
    arguments = [each for each in call.expressions if not isinstance(each, exp.Kwarg)]
    bounds = tuple(each for each in call.expressions if isinstance(each, exp.Kwarg))
    order = list[exp.Ordered]()
    if isinstance(call.parent, exp.WithinGroup):
        order = getattr(call.parent.expression, "expressions", [])
        if name == "mode" and not arguments and len(order) == 1:
            return _Call(node, name, order[0].this, where, bounds=bounds)
    plain = len(arguments) == 1 and not isinstance(arguments[0], (exp.Distinct, exp.Order))
    if name in _OF_GROUPS and plain:
        return _Call(node, name, arguments[0], where, bounds=bounds)
    if name in _LARGEST and len(arguments) == 2:
        size = read_whole_number(arguments[1]) or 0
        found = _Call(node, name, arguments[0], where, size, bounds)
        return found if 1 <= size <= MOST_LISTED else None
    if name not in _TEXTS | _LISTS or not arguments or bounds:
        return None
    last = arguments[-1]
    if isinstance(last, exp.Order):
        order, arguments[-1] = last.expressions, last.this
    if not isinstance(arguments[0], exp.Distinct):
        return None
    values = [*arguments[0].expressions, *arguments[1:]]
    if not 1 <= len(values) <= 1 + (name in _TEXTS) or len(order) > 1:
        return None
    if order and order[0].this != values[0]:
        return None
    separator = values[1] if len(values) > 1 else None
    if separator is not None and not (isinstance(separator, exp.Literal) and separator.args.get("is_string")):
        return None
    return _Call(node, name, values[0], where, separator=separator, order=order[0] if order else None)


def _is_of_units(select: exp.Select, calls: list[_Call], of: Provenance) -> bool:
    """Return whether a block has rows of units, whose values belong to many of them."""
    ctes = _list_ctes(select, of)
    if of.find_unit(select, ctes) is None:
        return False
    try:
        return of.find_outer_column(select, ctes) is None and not any(
            of.read_values(select, call.value, ctes)[0] for call in calls
        )
    except QueryRefused:
        return False


def _write(
    call: _Call, rows: exp.Select, inner: dict[int, Clauses], of: Provenance, ctes: tuple[Cte, ...]
) -> exp.Select:
    """Return the SELECT of a list, or of the most frequent value; `inner` gets the clauses of its release."""
    made = copy_tree(rows)
    if call.where is not None:
        set_where(made, copy_tree(call.where), read_clause(made))
    made.set("expressions", [copy_tree(call.value)])
    if call.name in _OF_GROUPS | _LARGEST:
        selects = made.args.get("where") is not None
        largest = _largest(call, made)
        if call.name == "mode" and (selects or rows.args.get("joins")):
            largest.meta["note"] = f"{title_of(call.node)} {OF_NO_ROWS}"
        return largest
    unit = of.find_unit(rows, ctes)
    assert unit is not None  # noqa: S101  it was found
    declared = of.read_values(rows, call.value, ctes)[1]
    listed = list_found_values(made, unit, declared, inner)
    if call.name in _LISTS:
        say_absent(
            listed,
            f"Rows without {with_article(word_of(call.value))} are left out, where SQL has NULL in the list",
        )
    k = exp.column("k", quoted=True)
    ordered = exp.Ordered(this=copy_tree(k)) if call.order is None else copy_tree(call.order)
    ordered.set("this", copy_tree(k))
    arguments: list[exp.Expr] = [k]
    if call.name in _TEXTS:
        arguments.append(exp.Literal.string(",") if call.separator is None else copy_tree(call.separator))
    arguments[-1] = exp.Order(this=arguments[-1], expressions=[ordered])
    name = "STRING_AGG" if call.name in _TEXTS else "LIST"
    listed.set("expressions", [make_call(name, *arguments)])
    return listed


def _largest(call: _Call, rows: exp.Select) -> exp.Select:
    """Return the SELECT of the most frequent value, or of the list of several."""
    count = make_call("COUNT", exp.Star(), *map(copy_tree, call.bounds))
    inside = call.node.find(exp.Anonymous)
    count.meta.update({} if inside is None else inside.meta)
    set_where(rows, read_clause(rows), make_presence(call.value))
    name = word_of(call.value) if call.name == "histogram" else "k"
    k, n = exp.column(name, quoted=True), exp.column("n", quoted=True)
    listed = [exp.alias_(copy_tree(call.value), name, quoted=True)]
    by: exp.Expr = count
    if call.name != "mode":
        listed.append(exp.alias_(copy_tree(count), "n", quoted=True))
        by = exp.column("n", quoted=True)
    rows.set("expressions", listed)
    rows.set("group", exp.Group(expressions=[copy_tree(call.value)]))
    rows.meta["select"] = -1
    if call.name != "histogram":
        rows.set("order", exp.Order(expressions=[exp.Ordered(this=by, desc=True)]))
        rows.set("limit", exp.Limit(expression=exp.Literal.number(call.size)))
    if call.name == "mode":
        return rows
    outer = make_select([_list_of(k, n, desc=True)], name_query(rows, "s"))
    if call.name == "histogram":
        whole = [_list_of(k, k, desc=False), _list_of(n, k, desc=False)]
        outer.set("expressions", [make_call("MAP", *whole)])
        set_where(outer, exp.GT(this=copy_tree(n), expression=exp.Literal.number("0.5")))
        rows.meta["note"] = f"{title_of(call.node)}: values whose number rounds to 0 are left out"
    return outer


def _list_of(value: exp.Expr, by: exp.Expr, *, desc: bool) -> exp.Expr:
    """Return the list of the values of rows, in the order of another."""
    items = exp.Order(this=copy_tree(value), expressions=[exp.Ordered(this=copy_tree(by), desc=desc)])
    return make_call("LIST", items)


def _divide_quantiles(root: exp.Select) -> None:
    """Write each quantile of a list of shares as a call of its own, in a list."""
    for item in root.expressions:
        for call in _list_calls(item):
            node: exp.Expr = call.parent if isinstance(call.parent, exp.WithinGroup) else call
            place = 0 if node is not call else 1
            if (function_name(call) or "").lower() not in _QUANTILES or len(call.expressions) <= place:
                continue
            shares = call.expressions[place]
            listed = shares.expressions if isinstance(shares, exp.Array) else []
            if not 1 <= len(listed) <= MOST_QUANTILES or any(read_number(each) is None for each in listed):
                continue
            if isinstance(node.parent, (exp.Filter, exp.Window)):
                continue
            calls = list[exp.Expr]()
            for share in listed:
                one = copy_tree(node)
                inside = one.this if isinstance(one, exp.WithinGroup) else one
                inside.expressions[place].replace(copy_tree(share))
                calls.append(one)
            node.replace(keep_title(node, make_call("LIST_VALUE", *calls)))
