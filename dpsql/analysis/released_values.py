"""Values of earlier releases as constants of private rows: one value, or a list in IN.

A release that reads such a value is analysed and priced before the value is known: what stands for it has the
type of the value and nothing else that a rule could read, no literal, no bounds, no length. So candidates,
bounds, mechanism and price are the same whatever it is, and the release has its sensitivity for every value
(adaptive composition). The value is put into the compiled query in its place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.analysis.compiled_query import CompiledQuery, with_query
from dpsql.analysis.compiled_relation import CELL, Relation, Scope
from dpsql.analysis.compiler import Rule, StatementCompiler
from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.typed_expression import Typed
from dpsql.kernel import tree
from dpsql.kernel.tree import Cast, Constant, Expr, Item, Node, ScalarQuery, Select, Values, replace_nodes
from dpsql.language import find_nodes
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy
from dpsql.types import BIGINT, BOOLEAN, DATE, DOUBLE, NULL, TIMESTAMP, VARCHAR, SqlType

if TYPE_CHECKING:
    from dpsql.analysis.statement_plan import Plan

_META = "released"

Value = float | int | str | date | datetime | None
"""One released value as Python has it."""

Known = Value | tuple[Value, ...]
"""A released value, or the values of a list without NULL."""

TYPES = (DOUBLE, BIGINT, VARCHAR, DATE, TIMESTAMP)
"""The types that released values have as constants."""


@dataclass(frozen=True, slots=True)
class ValueMark:
    """What is public of a value that is not known yet: its place, its type, and whether it is a list."""

    place: int
    type: SqlType = DOUBLE
    listed: bool = False


def mark_value(place: int, sql_type: SqlType = DOUBLE, *, listed: bool = False) -> exp.Expr:
    """Return the parser's node for a value that is not known yet; no parsed text has a node with its mark."""
    made = exp.SessionParameter(this=exp.Literal.number(place))
    made.meta[_META] = ValueMark(place, sql_type, listed)
    return made


def find_mark(node: exp.Expr | None) -> ValueMark | None:
    """Return the mark of a value that is not known yet; None for other nodes."""
    found = None if node is None else node.meta.get(_META)
    return found if isinstance(found, ValueMark) else None


def list_marks(query: exp.Expr) -> tuple[ValueMark, ...]:
    """Return the marks of the values that a release block reads, by their places."""
    marks = (find_mark(node) for node in find_nodes(query, exp.SessionParameter))
    return tuple(sorted({m for m in marks if m is not None}, key=lambda m: m.place))


def find_values(query: exp.Expr) -> tuple[int, ...]:
    """Return the places of the values that a release block reads."""
    return tuple(mark.place for mark in list_marks(query))


def put_values(plan: Plan, values: Mapping[int, Known], policy: Policy, catalog: Catalog) -> Plan:
    """Fill released values into the placeholders of a plan's compiled queries."""
    known: dict[Node, Node] = {}
    for mark in list_marks(plan.query.tree):
        if mark.place in values:
            value = values[mark.place]
            if mark.listed:
                known[_unknown_list(mark)] = _known_list(
                    mark, value if isinstance(value, tuple) else (value,)
                )
            else:
                assert not isinstance(value, tuple)  # noqa: S101  one value
                known[_unknown_value(mark)] = _scalar_query(_constant_of(mark.type, value))

    def filled(compiled: CompiledQuery) -> CompiledQuery:
        query = replace_nodes(
            compiled.query, lambda n: known.get(n, n) if isinstance(n, (ScalarQuery, Select)) else n
        )
        return with_query(compiled, query, catalog, policy)

    ladders = tuple(replace(each, compiled=filled(each.compiled)) for each in plan.ladders)
    return replace(plan, compiled=filled(plan.compiled), ladders=ladders)


def _mark_text(mark: ValueMark) -> Expr:
    return Cast(Constant(f"released value {mark.place + 1}", VARCHAR), mark.type, bounded=True)


def _unknown_value(mark: ValueMark) -> ScalarQuery:
    return _scalar_query(_mark_text(mark))


def _unknown_list(mark: ValueMark) -> Select:
    return _list_query((_mark_text(mark),))


def _known_list(mark: ValueMark, values: tuple[Value, ...]) -> Select:
    """Return the query of a list; of an empty one, it has no row."""
    if not values:
        nothing = Cast(Constant(None, NULL), mark.type, bounded=True)
        return replace(_list_query((nothing,)), where=Constant(False, BOOLEAN))
    return _list_query(tuple(_constant_of(mark.type, value) for value in values))


def _list_query(cells: tuple[Expr, ...]) -> Select:
    listed = Values(tuple((cell,) for cell in cells), "w", ("c0",))
    return Select((Item(tree.Column("w", "c0"), "c0"),), listed)


def _constant_of(sql_type: SqlType, value: Value) -> Expr:
    """Return a released value as a constant of its type."""
    if value is None:
        return Cast(Constant(None, NULL), sql_type, bounded=True)
    if sql_type == DOUBLE:
        number = float(value)  # type: ignore[arg-type]  # a number, as its type says
        if not math.isfinite(number):
            return Cast(
                Constant("nan" if math.isnan(number) else repr(number), VARCHAR), DOUBLE, bounded=True
            )
        return Constant(number + 0.0, DOUBLE)
    if sql_type == BIGINT:
        return Cast(Constant(str(value), VARCHAR), BIGINT, bounded=True)
    if isinstance(value, datetime):
        return Cast(Constant(value.isoformat(" "), VARCHAR), sql_type, bounded=True)
    if isinstance(value, date):
        return Cast(Constant(value.isoformat(), VARCHAR), sql_type, bounded=True)
    return Constant(str(value), VARCHAR)


def _scalar_query(node: Expr) -> ScalarQuery:
    """Return a constant as a scalar subquery: no rule takes this for a literal, or knows its bounds."""
    return ScalarQuery(Select((Item(node),)))


def relation_of_list(mark: ValueMark) -> Relation:
    """Return the public relation of a list that is not known yet."""
    return Relation(_unknown_list(mark), (Typed(CELL, mark.type, name="value", nulls=False),))


def _compile_released_value(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    mark = find_mark(node)
    if mark is None:
        raise compiler.source.refuse("variables of a session are not supported", node)
    return Typed(_unknown_value(mark), mark.type)


VALUE_RULES = (Rule(exp.SessionParameter, _compile_released_value, frozenset({"this", "kind"})),)
