"""Values of earlier releases, which a compiled query reads as constants: `ms > (SELECT AVG(ms) FROM visits)`.

A statement is compiled before its releases run, so a value has a place and no number then. The analysis
knows nothing of the number: it narrows no bound, is no key, and declares no group. When the value is known,
only its constant is put into the compiled query, and the rest stays what was proved, priced and explained.
The release is private for every value that the constant may have, so the losses of both add up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.catalog import Catalog
from dpsql.analysis.compiled_query import CompiledQuery, with_query
from dpsql.analysis.compiler import Rule, StatementCompiler
from dpsql.analysis.plan import Plan
from dpsql.analysis.relation import Scope
from dpsql.analysis.typed import Typed
from dpsql.kernel.tree import Cast, Constant, Expr, Item, ScalarQuery, Select, replaced
from dpsql.language import all_of
from dpsql.policy import Policy
from dpsql.types import DOUBLE, NULL, VARCHAR

_META = "released"


def value_of(place: int) -> exp.Expr:
    """Return the parser's node for a value that is not known yet; no parsed text has a node with its mark."""
    made = exp.SessionParameter(this=exp.Literal.number(place))
    made.meta[_META] = place
    return made


def values_in(tree: exp.Expr) -> tuple[int, ...]:
    """Return the places of the values that a release block reads."""
    found = {n.meta[_META] for n in all_of(tree, exp.SessionParameter) if _META in n.meta}
    return tuple(sorted(found))


def with_values(plan: Plan, values: Mapping[int, float | None], policy: Policy, catalog: Catalog) -> Plan:
    """Return a plan in whose compiled queries the constants of released values are these values."""
    known = {_unknown(place): _known(value) for place, value in values.items()}

    def filled(compiled: CompiledQuery) -> CompiledQuery:
        query = replaced(compiled.query, lambda n: known.get(n, n) if isinstance(n, ScalarQuery) else n)
        return with_query(compiled, query, catalog, policy)

    ladders = tuple(replace(each, compiled=filled(each.compiled)) for each in plan.ladders)
    return replace(plan, compiled=filled(plan.compiled), ladders=ladders)


def _unknown(place: int) -> ScalarQuery:
    text = Cast(Constant(f"released value {place + 1}", VARCHAR), DOUBLE, bounded=True)
    return _scalar(text)


def _known(value: float | None) -> ScalarQuery:
    if value is None:
        return _scalar(Cast(Constant(None, NULL), DOUBLE, bounded=True))
    if not math.isfinite(value):
        return _scalar(
            Cast(Constant("nan" if math.isnan(value) else repr(value), VARCHAR), DOUBLE, bounded=True)
        )
    return _scalar(Constant(value + 0.0, DOUBLE))


def _scalar(node: Expr) -> ScalarQuery:
    """Return a constant as a scalar subquery: no rule takes it for a literal, or knows bounds of it."""
    return ScalarQuery(Select((Item(node),)))


def _value(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    place = node.meta.get(_META)
    if place is None:
        raise compiler.source.refuse("variables of a session are not supported", node)
    return Typed(_unknown(place), DOUBLE)


VALUE_RULES = (Rule(exp.SessionParameter, _value, frozenset({"this", "kind"})),)
