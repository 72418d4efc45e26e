"""Rules of columns, CASE, conversions and conditions: how a node of the tree is written."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

from dpsql.analysis.total_forms import expand_form
from dpsql.engines.writer.dialect import ONCE
from dpsql.engines.writer.statement_writer import ColumnScope, Rule, Writer
from dpsql.engines.writer.written_values import NOT_CONSTANT, TargetColumn, Value, joint_range, type_family
from dpsql.kernel import tree
from dpsql.kernel.tree import Expr, facts
from dpsql.types import BIGINT, BOOLEAN, DOUBLE, HUGEINT, JSON, NULL, SqlType


def write_condition(work: Writer, node: Expr, scope: ColumnScope) -> str:
    """Return a condition of the query tree as the engine's SQL."""
    value = work.expression(node, scope)
    if value.type == NULL:
        return work.dialect.constant(None, BOOLEAN)
    if value.type != BOOLEAN:
        raise work.refuse("a condition that is not BOOLEAN")
    return value.sql


def _write_not(work: Writer, node: tree.Not, scope: ColumnScope) -> Value:
    return Value(f"(NOT {write_condition(work, node.operand, scope)})", BOOLEAN)


def _write_is_null(work: Writer, node: tree.IsNull, scope: ColumnScope) -> Value:
    word = "IS NOT NULL" if node.negated else "IS NULL"
    return Value(f"({work.expression(node.operand, scope).sql} {word})", BOOLEAN)


def _write_is_truth(work: Writer, node: tree.IsTruth, scope: ColumnScope) -> Value:
    word = "TRUE" if node.value else "FALSE"
    return Value(f"({write_condition(work, node.operand, scope)} IS {word})", BOOLEAN)


def check_comparable(work: Writer, a: Value, b: Value) -> None:
    """Refuse a comparison of types of two families, unless both are exact numbers: engines differ."""
    families = {type_family(a.type), type_family(b.type)} - {"0"}
    if len(families) > 1 and not families <= {"I", "B", "N"}:
        raise work.refuse(f"a comparison of {a.type} with {b.type}")


def _write_between(work: Writer, node: tree.Between, scope: ColumnScope) -> Value:
    value, low, high = (work.expression(n, scope) for n in (node.operand, node.low, node.high))
    check_comparable(work, value, low)
    check_comparable(work, value, high)
    return work.once(
        [value, low, high],
        lambda v: Value(f"(({v[0].sql} >= {v[1].sql}) AND ({v[0].sql} <= {v[2].sql}))", BOOLEAN),
    )


def _write_in_list(work: Writer, node: tree.InList, scope: ColumnScope) -> Value:
    value, items = work.expression(node.operand, scope), [work.expression(i, scope) for i in node.items]
    for item in items:
        check_comparable(work, value, item)
    listed = ", ".join(work.dialect.in_type(i, value.type) if i.type == NULL else i.sql for i in items)
    return Value(f"({value.sql} IN ({listed}))", BOOLEAN)


def _column_family(sql_type: SqlType) -> str:
    return type_family(sql_type).replace("B", "I")


def _write_column(work: Writer, node: tree.Column, scope: ColumnScope) -> Value:
    found = scope.column(node.table, node.name)
    if found is None:
        raise work.refuse("a column that no table in scope has")
    # What is written here has the type of the compiled query; each of the two was derived by itself. An
    # engine may compute whole numbers in a wider type.
    if node.type not in (None, found.type) and _column_family(node.type) != _column_family(found.type):
        raise work.refuse(f"a column of type {node.type}, written as {found.type}")
    quote = work.dialect.quote
    sql = f"{quote(node.table)}.{quote(found.name)}"
    work.name(sql, found.cost)
    return Value(sql, found.type, found.value_range, one_zero=found.one_zero)


def _write_null(work: Writer, node: tree.Constant, scope: ColumnScope) -> Value:
    return Value("NULL", NULL, constant=None)


def _write_paren(work: Writer, node: tree.Paren, scope: ColumnScope) -> Value:
    return work.expression(node.inner, scope)


def _write_try(work: Writer, node: tree.Try, scope: ColumnScope) -> Value:
    """Write the operand alone: every form of an engine is total."""
    return work.expression(node.operand, scope)


def _write_apply(work: Writer, node: tree.Apply, scope: ColumnScope) -> Value:
    """Write what a form stands for; arguments that it names more than once are computed once."""
    again = [
        a for i, a in enumerate(node.arguments) if node.form.template.count(f"{{{i}}}") > 1 and facts(a).reads
    ]
    if all(work.may_copy(work.expression(argument, scope)) for argument in again):
        return work.expression(expand_form(node), scope)
    read = {i: work.expression(a, scope) for i, a in enumerate(node.arguments) if facts(a).reads}
    values = [read.get(i, Value("NULL", NULL, constant=None)) for i in range(len(node.arguments))]
    if not work.is_movable(values):
        return work.expression(expand_form(node), scope)
    columns, arguments = {}, list(node.arguments)
    for i, value in enumerate(values):
        if value.constant is NOT_CONSTANT:
            name = f"x{i}"
            columns[name] = TargetColumn(name, value.type, value.value_range, one_zero=value.one_zero)
            arguments[i] = tree.Column(ONCE, name, type=value.type)
    body = replace(node, arguments=tuple(arguments))
    return work.bind_operands(values, work.expression(expand_form(body), ColumnScope({ONCE: columns}, scope)))


def _write_case(work: Writer, node: tree.Case, scope: ColumnScope) -> Value:
    conditions = [write_condition(work, wanted, scope) for wanted, _ in node.branches]
    nodes = [result for _, result in node.branches] + ([] if node.default is None else [node.default])
    results = [work.expression(result, scope) for result in nodes]
    texts, sql_type = work.common(results)
    text = " ".join(f"WHEN {c} THEN {t}" for c, t in zip(conditions, texts, strict=False))
    tail = f" ELSE {texts[-1]}" if node.default is not None else ""
    return Value(f"(CASE {text}{tail} END)", sql_type, joint_range(results))


def _write_canonical(work: Writer, node: tree.Canonical, scope: ColumnScope) -> Value:
    return work.dialect.canonical(work.expression(node.operand, scope))


def _write_cast(work: Writer, node: tree.Cast, scope: ColumnScope) -> Value:
    value = work.expression(node.operand, scope)
    if node.type == JSON:
        raise work.refuse("a conversion to JSON")
    wanted = node.type.held
    if value.type == NULL:
        return Value(work.dialect.constant(None, wanted), wanted, constant=None)
    if value.type == wanted:
        return value
    if node.bounded and wanted.name == value.type.name == "DECIMAL" and wanted.scale == value.type.scale:
        return work.dialect.narrow(value, wanted)
    return replace(work.once([value], lambda v: work.dialect.cast(v[0], wanted)), one_zero=True)


def _write_steps(work: Writer, node: tree.Steps, scope: ColumnScope) -> Value:
    """Write a DOUBLE as steps, by operations that are exact in every engine; NaN is greater than infinity."""
    return work.once(
        [work.expression(node.operand, scope)], lambda values: _count_steps(work, node, values[0])
    )


def _count_steps(work: Writer, node: tree.Steps, value: Value) -> Value:
    x, constant = value.sql, work.dialect.constant
    ends = (node.low * node.step, node.high * node.step, 1 / node.step, node.step / 4)
    low, high, factor, near = (constant(float(end), DOUBLE) for end in ends)
    kind = HUGEINT if node.wide else BIGINT
    bigint = work.dialect.type_name(BIGINT)
    # PostgreSQL fails where a product is too small for a DOUBLE.
    half = constant(0.5, DOUBLE)
    nearest = f"CAST(floor({x} * {factor} + {half}) AS {bigint})"
    if node.wide:
        # Spark's floor is a BIGINT, and engines convert a DOUBLE to so many digits by its shortest decimal.
        size, huge = constant(float(1 << 40), DOUBLE), work.dialect.type_name(HUGEINT)
        upper = f"CAST(floor({x} * {factor} / {size}) AS {bigint})"
        lower = f"{x} * {factor} - CAST({upper} AS {work.dialect.type_name(DOUBLE)}) * {size}"
        nearest = f"CAST(floor({lower} + {half}) AS {bigint})"
        nearest = f"(CAST({upper} AS {huge}) * {constant(1 << 40, HUGEINT)} + {nearest})"
    inside = f"CASE WHEN abs({x}) < {near} THEN {constant(0, kind)} ELSE {nearest} END"
    below, above = constant(node.low, kind), constant(node.high, kind)
    sql = f"WHEN {x} < {low} THEN {below} WHEN {x} <= {high} THEN {inside}"
    return Value(f"(CASE {sql} WHEN {x} <= {constant(math.inf, DOUBLE)} THEN {above} END)", kind)


def _write_saturated(work: Writer, node: tree.Saturated, scope: ColumnScope) -> Value:
    """Write a number cut to the ends of a type; what the engine computes exactly, it computes exactly."""
    value = work.expression(node.operand, scope)
    if node.near is not None and work.dialect.digits is not None:
        pair = [value, work.expression(node.near, scope)]
        value = work.once(pair, lambda v: v[0].with_sql(work.dialect.or_near(v[0].sql, v[1].sql)))
    if node.type == HUGEINT:
        return value
    if node.fits:
        return work.dialect.cast(value, node.type)
    if node.type != BIGINT:
        raise work.refuse(f"a calculation of {node.type} that could have more digits")
    return work.once([value], lambda values: _cut_to_bigint(work, values[0]))


def _cut_to_bigint(work: Writer, value: Value) -> Value:
    """Write a whole number cut to the ends of BIGINT."""
    low, high = (work.dialect.constant(end, HUGEINT) for end in (-(1 << 63), (1 << 63) - 1))
    # LEAST and GREATEST leave NULL out.
    x = value.sql
    sql = f"LEAST(GREATEST({x}, {low}), {high}) + {work.dialect.constant(0, HUGEINT)} * {x}"
    return Value(f"(CAST({sql} AS {work.dialect.type_name(BIGINT)}))", BIGINT)


def _write_mean(work: Writer, node: tree.Mean, scope: ColumnScope) -> Value:
    """Write an average by divisions that are the same in every engine."""
    pair = [work.expression(node.total, scope), work.expression(node.number, scope)]
    return work.once(pair, lambda values: _divide(work, *values))


def _divide(work: Writer, total: Value, number: Value) -> Value:
    low, high = (work.dialect.constant(end, HUGEINT) for end in (-tree.EXACT, tree.EXACT))
    double, bigint = work.dialect.type_name(DOUBLE), work.dialect.type_name(BIGINT)
    whole, rest = (work.form(operator, [total, number]).sql for operator in ("//", "%"))
    n = f"NULLIF(CAST({number.sql} AS {double}), CAST(0 AS {double}))"
    total_, whole, rest = (f"CAST(CAST({x} AS {bigint}) AS {double})" for x in (total.sql, whole, rest))
    near, far = f"{total_} / {n}", f"{whole} + {rest} / {n}"
    sql = f"(CASE WHEN {total.sql} BETWEEN {low} AND {high} THEN {near} ELSE {far} END)"
    return Value(sql, DOUBLE, (1e-19, 2.0**63))


def _write_unscaled(work: Writer, node: tree.Unscaled, scope: ColumnScope) -> Value:
    """Write a DECIMAL times a power of ten: of a total, no digit is lost up to 10^32."""
    kind = BIGINT if node.type.precision <= 18 else HUGEINT
    factor = work.dialect.constant(Decimal(10**node.type.scale), SqlType("DECIMAL", node.type.scale + 1, 0))
    sql = f"CAST({work.expression(node.operand, scope).sql} * {factor} AS {work.dialect.type_name(kind)})"
    return Value(sql, kind)


def _write_cut(work: Writer, node: tree.Cut, scope: ColumnScope) -> Value:
    value = work.expression(node.operand, scope)
    sql = work.dialect.cut(value, node.type, node.low, node.high)
    return work.expression(node.written, scope) if sql is None else Value(f"({sql})", BIGINT)


def _refuse_node(what: str) -> Rule:
    def refuse(work: Writer, node: Expr, scope: ColumnScope) -> Value:
        raise work.refuse(what)

    return refuse


EXPRESSION_RULES: dict[type[Expr], Rule] = {
    tree.Column: _write_column,
    tree.Constant: _write_null,
    tree.Paren: _write_paren,
    tree.Try: _write_try,
    tree.Apply: _write_apply,
    tree.Case: _write_case,
    tree.Canonical: _write_canonical,
    tree.Cast: _write_cast,
    tree.Steps: _write_steps,
    tree.Unscaled: _write_unscaled,
    tree.Saturated: _write_saturated,
    tree.Mean: _write_mean,
    tree.Cut: _write_cut,
    tree.Not: _write_not,
    tree.IsNull: _write_is_null,
    tree.IsTruth: _write_is_truth,
    tree.Between: _write_between,
    tree.InList: _write_in_list,
    tree.Interval: _refuse_node("this INTERVAL"),
    tree.ListOf: _refuse_node("a list"),
    tree.Element: _refuse_node("elements of lists"),
    tree.Lambda: _refuse_node("a function of a list's elements"),
}
"""The rules of all other node types of expressions without a query."""
