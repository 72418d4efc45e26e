"""Function calls: aggregates, functions of every engine, and those a dialect has a form for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.engines.translate.context import expression, known
from dpsql.engines.translate.grouping import AGGREGATES, aggregate
from dpsql.engines.translate.parsing import call
from dpsql.engines.translate.scalar import apply_form, check_comparable, common_texts
from dpsql.engines.translate.value import Value, kind_of, spread
from dpsql.types import BIGINT, NULL

if TYPE_CHECKING:
    from dpsql.engines.translate.context import Rule, Scope, Translation

__all__ = ["RULES"]


def _call(work: Translation, node: exp.Expr, scope: Scope) -> Value:
    """Translate a function call; every form of a target is total, so TRY is left out."""
    name = call(node)
    if name is None:
        raise work.refuse(node.key.upper())
    known(work, node, "this", "expressions")
    if name == "try":
        return expression(work, node.expressions[0], scope)
    if name in AGGREGATES:
        return aggregate(work, name, node, scope)
    values = [expression(work, argument, scope) for argument in node.expressions]
    if name in ("coalesce", "ifnull", "greatest", "least"):
        texts, kind = common_texts(work, values)
        if name in ("greatest", "least") and kind_of(kind) in "LX":
            raise work.refuse(f"{name} of {kind}")
        word = {"ifnull": "COALESCE"}.get(name, name.upper())
        return Value(f"{word}({', '.join(texts)})", kind, spread(values))
    if name == "nullif":
        check_comparable(work, *values)
        return Value(f"NULLIF({values[0].sql}, {values[1].sql})", values[0].type, values[0].spread)
    if name == "hash" and len(values) > 1:  # which groups a unit keeps; any hash does, where nobody sees it
        return Value(work.dialect.mixed(values), BIGINT)
    if name == "concat":
        name = "concat_nonnull"
        if any(kind_of(v.type) not in "S0" for v in values):
            raise work.refuse("concat of anything but texts")
        values = [v for v in values if v.type != NULL]
        made = values[0] if values else None
        for value in values[1:]:
            made = apply_form(work, name, [made, value]) if made is not None else value
        if made is not None:
            return apply_form(work, name, [made, made.written("")]) if len(values) == 1 else made
    return apply_form(work, name, values)


RULES: dict[type[exp.Expr], Rule] = {exp.Anonymous: _call}
"""The rule of each node type."""
