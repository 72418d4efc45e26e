"""Divide a plain release block by its measures: each column's quantiles are a release of their own.

A block has one release for its selection and its other numbers, and one for each column, condition and bounds
of quantiles, over all groups. The rows of the first one decide which groups are shown; the others are joined
to it by the keys.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from dpsql.analysis import function_name
from dpsql.analysis.parsed import call_arguments
from dpsql.analysis.released import is_quantile, is_released
from dpsql.composition.names import free_function, is_measure
from dpsql.language import Clause, Options, Query, copied

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
    named, others = call_arguments(node)
    name = (function_name(node) or "").lower()
    value = others[0] if value is None and others else value
    return (name if name in _EXTREMES else "", value, condition, *named)


def apart(query: Query, outer: exp.Select | None, name: str) -> tuple[list[Query], exp.Select | None]:
    """Return the releases of a plain block, and the SELECT over them; that of the i-th is called `name.i`.

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
    table.replace(_joined(keys, listed, [name, *(f"{name}.{i}" for i in range(1, len(listed)))]))
    return made, outer


def _keys(select: exp.Select) -> list[exp.Expr]:
    """Return the items of the select list that are keys."""
    group = select.args.get("group")
    by = group.expressions if group is not None else []
    return [i for i in select.expressions if i.this in by or not (is_measure(i.this) or is_released(i.this))]


def _release(query: Query, keys: list[exp.Expr], items: list[exp.Expr], size: int, *, main: bool) -> Query:
    """Return the release of some measures, with its part of an epsilon that the block has for itself.

    An option of the block is for those of its releases that it concerns.
    """
    tree = copied(query.tree, "expressions", *(() if main else _SELECTING))
    tree.set("expressions", [copied(item) for item in (*keys, *items)])
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
    return free_function(node) is not None or any(isinstance(each, exp.Distinct) for each in node.expressions)


def _joined(keys: list[exp.Expr], listed: list[list[exp.Expr]], names: list[str]) -> exp.Subquery:
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
    alias = exp.TableAlias(this=exp.to_identifier(names[0], quoted=True))
    return exp.Subquery(this=made, alias=alias)


def _table(name: str, alias: str) -> exp.Table:
    made = exp.Table(this=exp.to_identifier(name, quoted=True))
    made.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    return made
