"""Rule of function calls: aggregates, functions that every engine has, and the dialect's forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.engines.translate.context import check_parts, expression
from dpsql.engines.translate.grouping import AGGREGATES, aggregate
from dpsql.engines.translate.parsing import call
from dpsql.engines.translate.scalar import apply_form, check_comparable, common_texts
from dpsql.engines.translate.value import Value, joint_range, type_family
from dpsql.types import BIGINT, NULL

if TYPE_CHECKING:
    from dpsql.engines.translate.context import ColumnScope, Rule, Translation

__all__ = ["RULES"]


def _call(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    """Translate a function call; every form of a target is total, so TRY is left out."""
    name = call(node)
    if name is None:
        raise work.refuse(node.key.upper())
    check_parts(work, node, "this", "expressions")
    if name == "try":
        return expression(work, node.expressions[0], scope)
    if name in AGGREGATES:
        return aggregate(work, name, node, scope)
    values = [expression(work, argument, scope) for argument in node.expressions]
    if name in ("coalesce", "ifnull", "greatest", "least"):
        texts, sql_type = common_texts(work, values)
        if name in ("greatest", "least") and type_family(sql_type) in "LX":
            raise work.refuse(f"{name} of {sql_type}")
        word = {"ifnull": "COALESCE"}.get(name, name.upper())
        return Value(f"{word}({', '.join(texts)})", sql_type, joint_range(values))
    if name == "nullif":
        check_comparable(work, *values)
        return Value(f"NULLIF({values[0].sql}, {values[1].sql})", values[0].type, values[0].value_range)
    if name == "hash" and len(values) > 1:  # samples the groups that a unit keeps; its value is not released
        return Value(work.dialect.hash_values(values), BIGINT)
    if name == "concat":
        name = "concat_nonnull"
        if any(type_family(v.type) not in "S0" for v in values):
            raise work.refuse("concat of anything but texts")
        values = [v for v in values if v.type != NULL]
        made = values[0] if values else None
        for value in values[1:]:
            made = apply_form(work, name, [made, value]) if made is not None else value
        if made is not None:
            return apply_form(work, name, [made, made.with_sql("")]) if len(values) == 1 else made
    return apply_form(work, name, values)


RULES: dict[type[exp.Expr], Rule] = {exp.Anonymous: _call}
"""The rule of each node type."""
