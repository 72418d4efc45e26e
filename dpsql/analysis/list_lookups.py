"""Compile subqueries over the items of a list of the row: the first that fits, or whether one does.

`(SELECT e.value.x FROM UNNEST(l) AS e WHERE e.key = 'a')` is `list_transform(list_filter(l, ..), ..)[1]`. A
row without such an item, and one without a list, has NULL; for EXISTS, FALSE. Nothing here fails on a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.compiled_relation import Scope
from dpsql.analysis.compiler import StatementCompiler, check_arguments
from dpsql.analysis.scalar_rules import build_typed, compile_condition
from dpsql.analysis.typed_expression import Typed, UnitRole
from dpsql.kernel.tree import Call, Constant, Element, Expr, IsNull, Lambda, Parameter, Paren
from dpsql.policy import Assumed, fold
from dpsql.types import BIGINT, BOOLEAN, SqlType

_VALUES = frozenset({"VARCHAR", "BIGINT", "INTEGER", "DATE", "BOOLEAN", "TIMESTAMP"})
_HINT = "(SELECT e.value FROM UNNEST(items) AS e WHERE e.key = 'a')"
_PARAMETER = "p"


def read_list_lookup(node: exp.Expr) -> exp.Select | None:
    """Return the SELECT over the items of one list that a subquery is; None for other subqueries."""
    select = node.this.unnest() if isinstance(node, exp.Exists) else node.unnest()
    if not isinstance(select, exp.Select) or select.args.get("joins"):
        return None
    first = select.args.get("from_")
    items = first.this if first is not None else None
    if not isinstance(items, exp.Unnest) or len(items.expressions) != 1:
        return None
    return select if isinstance(items.expressions[0], (exp.Column, exp.Dot)) else None


def compile_list_lookup(
    compiler: StatementCompiler, select: exp.Select, scope: Scope, *, exists: bool
) -> Typed:
    """Compile a subquery over the items of a list of the row around it."""
    check_arguments(compiler.source, select, frozenset({"expressions", "from_", "where"}))
    unnest = select.args["from_"].this
    check_arguments(compiler.source, unnest, frozenset({"expressions", "alias"}))
    listed = compiler.expression(unnest.expressions[0], scope)
    item = listed.type.item
    if item is None:
        raise compiler.source.refuse(f"UNNEST does not take {listed.type}", unnest)
    inner = Scope(compiler.source, intercept=_make_reader(unnest, item))
    found: Expr = listed.node
    parts = [listed]
    where = select.args.get("where")
    if where is not None:
        condition = compile_condition(compiler, where.this, inner)
        found = Call("list_filter", (found, Lambda(_PARAMETER, condition.node)))
        parts.append(condition)
    if exists:
        ones = Call("list_transform", (found, Lambda(_PARAMETER, Constant(1, BIGINT))))
        there = IsNull(Element(ones, Constant(1, BIGINT)), negated=True)
        return build_typed(Paren(there), BOOLEAN, *parts)
    if len(select.expressions) != 1:
        raise compiler.source.refuse("a subquery used as a value selects one value", select, _HINT)
    value = compiler.expression(select.expressions[0].unalias(), inner)
    if value.type.name not in _VALUES:
        raise compiler.source.refuse(f"a list of {value.type} is not made", select.expressions[0], _HINT)
    values = Call("list_transform", (found, Lambda(_PARAMETER, value.node)))
    first = build_typed(Paren(Element(values, Constant(1, BIGINT))), value.type, *parts, value)
    note = Assumed("of several items of a list that meet the condition, the first is taken")
    return replace(first, unit=UnitRole.NONE, notes=(*first.notes, note))


def _make_reader(unnest: exp.Unnest, item: SqlType) -> Callable[[exp.Expr], Typed | None]:
    """Return what reads the names that the items of a list have, as fields of one item."""
    alias = unnest.args.get("alias")
    table = fold(alias.name) if alias is not None and alias.this is not None else ""
    columns = [fold(c.name) for c in alias.args.get("columns") or ()] if alias is not None else []

    def read(node: exp.Expr) -> Typed | None:
        names = _list_names(node)
        if not names:
            return None
        if names[0] == table and (len(names) > 1 or item.name != "STRUCT"):
            names = names[1:]
        if columns and names[:1] == columns[:1]:
            names = names[1:]
        kind, path = item, tuple[str, ...]()
        for name in names:
            fields = {fold(known): (known, of) for known, of in kind.fields}
            if name not in fields or not fields[name][0].replace("_", "a").isalnum():
                return None
            path, kind = (*path, fields[name][0]), fields[name][1]
        return Typed(Parameter(_PARAMETER, path), kind)

    return read


def _list_names(node: exp.Expr) -> list[str]:
    """Return the folded names of a column with what stands before it, or of a field of one."""
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        return [fold(part.name) for part in node.parts]
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        before = _list_names(node.this)
        return [*before, fold(node.expression.name)] if before else []
    return []
