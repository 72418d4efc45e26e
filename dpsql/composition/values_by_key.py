"""Subqueries of a row over all rows with one key: the values of all keys are released first.

`cost > (SELECT AVG(w.cost) FROM visits w WHERE w.day = v.day)` compares each row with a number that depends
on the rows of other units. The averages of all keys are one release of groups; what is counted is another,
which reads them as a constant, whatever they are (adaptive composition). Where the key around the subquery
is one of a public table, the groups are those of its rows that meet the conditions on it.

The constant is a list of texts with a number and its key, so it is one like that of IN; a number is the same
after it was written and read. A key without rows has no number, and SQL's aggregate of no rows is NULL, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlglot import exp

from dpsql.analysis.aggregate_functions import aggregate_calls, aggregate_name
from dpsql.analysis.compiled_relation import Scope
from dpsql.analysis.compiler import list_conjuncts
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition.existence_by_value import Tie, read_tie
from dpsql.composition.found_values import list_ctes_of
from dpsql.composition.kinds import BY_KEY
from dpsql.errors import QueryRefused
from dpsql.language import MARK, Query, copy_tree, find_nodes, name_query
from dpsql.policy import Policy, fold
from dpsql.types import DATE, VARCHAR

_ABOVE = (exp.From, exp.Join, exp.In, exp.Exists, exp.All, exp.Any, exp.SetOperation, exp.CTE)
_LONGEST = 1_000_000
"""No key has more characters."""
_OF_NUMBERS = frozenset({"avg", "sum", "mean", "stddev", "stddev_samp", "stddev_pop", "median"})


def with_values_by_key(query: Query, provenance: Provenance) -> exp.Query:
    """Return a statement whose rows are compared with released values of their keys; its tree is changed."""
    tree: exp.Query = query.tree
    policy, catalog = provenance.policy, provenance.catalog

    def columns_of(item: exp.Table) -> Collection[str] | None:
        table = policy.table(item.name) if item.name.isascii() and item.args.get("db") is None else None
        return None if table is None else {fold(name) for name, _ in catalog.columns(table.name)}

    for sub in find_nodes(tree, exp.Subquery):
        inner, around = sub.this, sub.find_ancestor(exp.Select)
        if isinstance(sub.parent, _ABOVE) or not isinstance(inner, exp.Select) or around is None:
            continue
        calls = [call for item in inner.expressions for call in aggregate_calls(item)]
        if len(inner.expressions) != 1 or not calls:
            continue
        tie = read_tie(inner, columns_of)
        if tie is None or any(aggregate_name(call) not in _OF_NUMBERS for call in calls):
            continue
        try:
            scope = _find_scope(inner, around, tie, provenance)
        except QueryRefused:
            continue
        if scope is not None:
            sub.set("this", _look_up(inner, tie, _find_public(around, tie.around, scope, policy)))
    return tree


def _find_scope(inner: exp.Select, around: exp.Select, tie: Tie, of: Provenance) -> Scope | None:
    """Return the columns around a subquery over rows of many units, if its key is whole, a day or a text."""
    ctes = list_ctes_of(around, of)
    if of.find_unit(inner, ctes) is None or of.find_unit(around, ctes) is None:
        return None
    if of.read_values(inner, tie.within, ctes)[0]:
        return None
    kind = of.make_compiler().expression(tie.within, of.find_scope(inner, ctes)).type
    return of.find_scope(around, ctes) if kind.integer or kind in (DATE, VARCHAR) else None


def _find_public(
    around: exp.Select, column: exp.Column, scope: Scope, policy: Policy
) -> tuple[exp.Table, list[exp.Expr]] | None:
    """Return the public table that has a column, and the conditions on its rows alone; None for none."""
    held = {fold(o.alias): {fold(name) for name in o.names} for o in scope.origins}

    def alias_of(node: exp.Column) -> str | None:
        having = [alias for alias, names in held.items() if fold(node.name) in names]
        return fold(node.table) or (having[0] if len(having) == 1 else None)

    for item in _list_inner_items(around):
        table = policy.table(item.name) if isinstance(item, exp.Table) and item.name.isascii() else None
        if table is None or not table.public or fold(item.alias_or_name) != alias_of(column):
            continue
        where, found = around.args.get("where"), list[exp.Expr]()
        for part in list_conjuncts(where.this) if where is not None else ():
            columns = find_nodes(part, exp.Column)
            plain = bool(columns) and not find_nodes(part, exp.Query)
            if plain and all(alias_of(c) == fold(item.alias_or_name) for c in columns):
                found.append(part)
        assert isinstance(item, exp.Table)  # noqa: S101  as seen
        return item, found
    return None


def _list_inner_items(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the items of FROM of which no row is there without a partner."""
    joins = select.args.get("joins") or ()
    if not any(join.args.get("side") for join in joins):
        yield from (select.args["from_"].this, *(join.this for join in joins))


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=f"{MARK}{name}", expressions=list(arguments))


def _text(value: exp.Expr) -> exp.Expr:
    return exp.cast(copy_tree(value), "VARCHAR")


def _look_up(inner: exp.Select, tie: Tie, public: tuple[exp.Table, list[exp.Expr]] | None) -> exp.Select:
    """Return the SELECT of the number of a row's key among those of a release."""
    name = tie.within.name if fold(tie.within.name) != "v" else "k"  # what refusals and lines call it
    k, v = exp.column(name, table="s", quoted=True), exp.column("v", table="s", quoted=True)
    rest, key = [copy_tree(each) for each in tie.rest], copy_tree(tie.within)
    made = copy_tree(inner, "expressions", "where")
    if public is not None:
        same = exp.EQ(this=copy_tree(tie.within), expression=copy_tree(tie.around))
        made.append("joins", exp.Join(this=copy_tree(public[0]), on=same))
        rest += [copy_tree(each) for each in public[1]]
        key = copy_tree(tie.around)
    if rest:
        made.set("where", exp.Where(this=exp.and_(*rest, copy=False)))
    value = copy_tree(inner.expressions[0].unalias())
    made.set(
        "expressions", [exp.alias_(copy_tree(key), name, quoted=True), exp.alias_(value, "v", quoted=True)]
    )
    made.set("group", exp.Group(expressions=[key]))
    made.meta["select"] = -1
    said = f"rows are compared with the released number of their {tie.within.name}"
    made.meta["note"] = f"{said}, and left out where none is shown"
    both = exp.DPipe(this=exp.DPipe(this=_text(v), expression=exp.Literal.string(" ")), expression=_text(k))
    listed = exp.Select(expressions=[exp.alias_(both, "value", quoted=True)])
    listed.set("from_", exp.From(this=name_query(made, "s")))
    listed.meta["select"] = -1
    item = name_query(listed, "w")
    item.meta[BY_KEY] = True
    value = exp.column("value", table="w")  # the key is behind the first blank, and may have others
    written = _call("split_part", value, exp.Literal.string(" "), exp.Literal.number(1))
    behind = exp.Add(this=_call("length", copy_tree(written)), expression=exp.Literal.number(2))
    number = _call("MAX", exp.TryCast(this=written, to=exp.DataType.build("DOUBLE"), safe=True))
    most = exp.cast(exp.Literal.number(_LONGEST), "BIGINT")
    own_key = _call("substring", copy_tree(value), behind, most)
    outer = exp.Select(expressions=[number])
    outer.set("from_", exp.From(this=item))
    outer.set("where", exp.Where(this=exp.EQ(this=own_key, expression=_text(tie.around))))
    outer.meta["select"] = -1
    return outer
