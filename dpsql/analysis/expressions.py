"""Rules for scalar expressions: one for each node type, with the arguments that it handles.

A node without a rule is refused, and so is a node with an argument that its rule does not handle.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from sqlglot import exp

from dpsql.analysis import functions
from dpsql.analysis.coerce import cast, literal_sql, to_type, unify
from dpsql.analysis.limits import LONGEST
from dpsql.analysis.spans import joint_grains, seen_at
from dpsql.analysis.typed import Guarded, KeyDomain, Literal, Typed
from dpsql.language import MARK
from dpsql.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    INTERVAL,
    JSON,
    NULL,
    TIMESTAMP,
    VARCHAR,
    SqlType,
    column_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from dpsql.analysis.catalog import Catalog
    from dpsql.analysis.relation import Scope
    from dpsql.language import Source

__all__ = [
    "MAX_NODES",
    "RULES",
    "Compiler",
    "Rule",
    "built",
    "canonical",
    "check_arguments",
    "common",
    "compile_in_list",
    "function_name",
    "literal_domain",
    "predicate",
    "simple",
]

MAX_NODES = 5_000


class Compiler(Protocol):
    """The part of `StatementCompiler` that rules for expressions use."""

    source: Source
    catalog: Catalog
    now: datetime
    intervals: dict[str, str]

    def expression(self, node: exp.Expr, scope: Scope) -> Typed:
        """Compile one expression by the rule of its node type."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: a node type, the function that compiles it, and the arguments that the function handles."""

    node: type[exp.Expr]
    compile: Callable[[Compiler, exp.Expr, Scope], Typed]
    knows: frozenset[str]


_WORDS = {
    "method": "this kind of JOIN",
    "locks": "FOR UPDATE",
    "connect": "CONNECT BY",
    "windows": "a WINDOW clause",
    "query": "a subquery",
    "grouping_sets": "GROUPING SETS",
    "when": "AT (VERSION ..)",
    "sample": "SAMPLE",
    "pivots": "PIVOT",
    "ordinality": "WITH ORDINALITY",
    "hint": "a hint",
    "into": "INTO",
    "by_name": "BY NAME",
    "laterals": "LATERAL",
}
"""SQL names for node arguments that the parser names otherwise; for error messages."""


def check_arguments(source: Source, node: exp.Expr, knows: frozenset[str]) -> None:
    """Refuse a node that has an argument which its rule does not handle."""
    for name, value in node.args.items():
        if name not in knows and value is not None and value is not False and value != []:
            word = _WORDS.get(name, name.strip("_").replace("_", " ").upper())
            raise source.refuse(
                f"{word} is not supported here", value if isinstance(value, exp.Expr) else node
            )


def function_name(node: exp.Expr) -> str | None:
    """Return the name of a function call as the analyst typed it; None for other nodes."""
    if isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.startswith(MARK):
        return node.this[len(MARK) :]
    return None


def predicate(compiler: Compiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile a condition; an expression of another type than BOOLEAN is refused, not converted."""
    value = compiler.expression(node, scope)
    if value.type == NULL:
        return cast(value, BOOLEAN)
    if value.type != BOOLEAN:
        raise compiler.source.refuse(
            f"a condition must be BOOLEAN, this is {value.type}", node, "compare it with something"
        )
    return value


def _reads(*values: Typed) -> frozenset[str]:
    return frozenset[str]().union(*(v.reads for v in values))


def built(sql: str, sql_type: SqlType, *parts: Typed, domain: KeyDomain | None = None) -> Typed:
    """Return the expression with the given text, which reads what its parts read."""
    size = 1 + sum(p.size for p in parts)
    return Typed(sql, sql_type, _reads(*parts), domain=domain, size=size, grains=joint_grains(parts))


def simple(form: str, sql_type: SqlType, *parts: Typed, domain: KeyDomain | None = None) -> Typed:
    """Return a comparison or a choice of parts, which fails on a row only if a part does.

    `form` is a template. TRY is put around the parts that need it, never around the whole. So the optimizer
    still recognises conjunctions and equalities, and parts may contain subqueries.
    """
    sql = form.format(*(p.sql for p in parts))
    guard = Guarded(sql, form.format(*(p.guarded for p in parts)))
    return replace(built(sql, sql_type, *parts, domain=domain), guard=guard)


def _column(compiler: Compiler, node: exp.Expr, scope: Scope) -> Typed:
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        raise compiler.source.refuse("`*` is not a value", node)
    return scope.resolve(node)


def _literal(compiler: Compiler, node: exp.Expr, scope: Scope) -> Typed:
    text = str(node.this)
    if node.args.get("is_string"):
        if "\x00" in text:
            raise compiler.source.refuse("a text has a NUL character", node)
        if len(text.encode("utf-8", "surrogatepass")) > LONGEST:
            raise compiler.source.refuse(f"a text has more than {LONGEST:,} bytes", node)
        return Typed(literal_sql(text), VARCHAR, literal=Literal(text))
    if re.fullmatch(r"\d+", text):
        value = int(text)
        if value >= 2**63:
            raise compiler.source.refuse("this number is beyond BIGINT", node)
        return Typed(str(value), INTEGER if value < 2**31 else BIGINT, literal=Literal(value))
    fixed = re.fullmatch(r"(\d*)\.(\d*)", text)
    if fixed and (fixed[1] or fixed[2]) and max(1, len(fixed[1].lstrip("0"))) + len(fixed[2]) <= 18:
        digits = fixed[2]
        whole = fixed[1].lstrip("0") or "0"
        sql_type = SqlType("DECIMAL", max(1, len(whole.lstrip("0"))) + len(digits), len(digits))
        written = f"CAST({whole}.{digits} AS {sql_type})" if digits else f"TRY_CAST({whole} AS {sql_type})"
        return Typed(written, sql_type, literal=Literal(float(text)))
    try:
        number = float(text)
    except ValueError:
        raise compiler.source.refuse("this number cannot be read", node) from None
    if number in (float("inf"), float("-inf")):
        raise compiler.source.refuse("this number is beyond DOUBLE", node)
    return Typed(f"CAST({number!r} AS DOUBLE)", DOUBLE, literal=Literal(number))


def _null(compiler: Compiler, node: exp.Expr, scope: Scope) -> Typed:
    return Typed("NULL", NULL, literal=Literal(None))


def _boolean(compiler: Compiler, node: exp.Expr, scope: Scope) -> Typed:
    return Typed("TRUE" if node.this else "FALSE", BOOLEAN, literal=Literal(bool(node.this)))


def _paren(compiler: Compiler, node: exp.Expr, scope: Scope) -> Typed:
    return compiler.expression(node.this, scope)


def _and_or(compiler: Compiler, node: exp.Expr, scope: Scope) -> Typed:
    word = "AND" if isinstance(node, exp.And) else "OR"
    a, b = predicate(compiler, node.this, scope), predicate(compiler, node.expression, scope)
    return simple(f"({{0}} {word} {{1}})", BOOLEAN, a, b)


def _not(compiler: Compiler, node: exp.Expr, scope: Scope) -> Typed:
    a = predicate(compiler, node.this, scope)
    return simple("(NOT {0})", BOOLEAN, a)


_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}


def _comparable(compiler: Compiler, value: Typed, node: exp.Expr) -> None:
    if value.type in (INTERVAL, JSON):
        raise compiler.source.refuse(f"{value.type} values are not compared", node)


def _comparison(compiler: Compiler, node: exp.Expr, scope: Scope) -> Typed:
    a, b = compiler.expression(node.this, scope), compiler.expression(node.expression, scope)
    _comparable(compiler, a, node.this)
    _comparable(compiler, b, node.expression)
    a, b = unify(compiler.source, compiler.catalog, a, b, node)
    return simple(f"({{0}} {_COMPARISONS[type(node)]} {{1}})", BOOLEAN, a, b)


def _between(compiler: Compiler, node: exp.Expr, scope: Scope) -> Typed:
    value = compiler.expression(node.this, scope)
    low, high = compiler.expression(node.args["low"], scope), compiler.expression(node.args["high"], scope)
    a, low = unify(compiler.source, compiler.catalog, value, low, node)
    b, high = unify(compiler.source, compiler.catalog, value, high, node)
    return simple("(({0} >= {2}) AND ({1} <= {3}))", BOOLEAN, a, b, low, high)


def compile_in_list(compiler: Compiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile IN over a list of values."""
    value = compiler.expression(node.this, scope)
    _comparable(compiler, value, node.this)
    if not node.expressions:
        raise compiler.source.refuse("IN takes a list of values here", node)
    items = [compiler.expression(item, scope) for item in node.expressions]
    parts = []
    for item in items:
        if value.type.integer and item.type.integer and item.type.bits > value.type.bits:
            return _any_of(
                compiler, node, value, items
            )  # beyond the column's width: equal to nothing, not NULL
        fitted = to_type(compiler.catalog, item, value.type)
        if fitted is None:
            return _any_of(compiler, node, value, items)
        parts.append(fitted)
    places = ", ".join(f"{{{i + 1}}}" for i in range(len(parts)))
    return simple(f"({{0}} IN ({places}))", BOOLEAN, value, *parts)


def _any_of(compiler: Compiler, node: exp.Expr, value: Typed, items: Sequence[Typed]) -> Typed:
    """Compile IN as a disjunction of comparisons, each with its own common type."""
    pairs = [
        unify(compiler.source, compiler.catalog, value, item, at)
        for item, at in zip(items, node.expressions, strict=True)
    ]
    text = " OR ".join(f"({{{2 * i}}} = {{{2 * i + 1}}})" for i in range(len(pairs)))
    return simple(f"({text})", BOOLEAN, *(v for pair in pairs for v in pair))


def _is(compiler: Compiler, node: exp.Expr, scope: Scope) -> Typed:
    what = node.expression
    if isinstance(what, exp.Null):
        value = compiler.expression(node.this, scope)
        return simple("({0} IS NULL)", BOOLEAN, value)
    if isinstance(what, exp.Boolean):
        value = predicate(compiler, node.this, scope)
        return simple(f"({{0}} IS {'TRUE' if what.this else 'FALSE'})", BOOLEAN, value)
    raise compiler.source.refuse("IS takes NULL, TRUE or FALSE", node)


def common(compiler: Compiler, values: Sequence[Typed], nodes: Sequence[exp.Expr]) -> list[Typed]:
    """Convert several expressions to one type: the branches of a CASE, the arguments of COALESCE."""
    joint = values[0]
    for value, at in zip(values[1:], nodes[1:], strict=True):
        joint, _ = unify(compiler.source, compiler.catalog, joint, value, at, compare=False)
    out = []
    for value, at in zip(values, nodes, strict=True):
        fitted = to_type(compiler.catalog, value, joint.type)
        if fitted is None:
            raise compiler.source.refuse(f"{value.type} does not become {joint.type}", at)
        out.append(fitted)
    return out


def literal_domain(values: Sequence[Typed]) -> KeyDomain | None:
    """Return the domain of an expression that chooses among literals; None if one is not a literal."""
    if any(v.literal is None for v in values):
        return None
    shown = list(
        dict.fromkeys(v.sql for v in values if v.literal is not None and v.literal.value is not None)
    )
    if not shown:
        return None
    rows = ", ".join(f"({sql}, {i})" for i, sql in enumerate(shown))
    return KeyDomain(
        f"SELECT v, MIN(o) AS o FROM (VALUES {rows}) AS r(v, o) GROUP BY v", ordered=True, origin="the CASE"
    )


def _case(compiler: Compiler, node: exp.Expr, scope: Scope) -> Typed:
    operand = compiler.expression(node.this, scope) if node.args.get("this") is not None else None
    conditions: list[Typed] = []
    for branch in node.args["ifs"]:
        check_arguments(compiler.source, branch, frozenset({"this", "true"}))
        if operand is None:
            conditions.append(predicate(compiler, branch.this, scope))
        else:
            a, b = unify(
                compiler.source,
                compiler.catalog,
                operand,
                compiler.expression(branch.this, scope),
                branch.this,
            )
            conditions.append(simple("({0} = {1})", BOOLEAN, a, b))
    nodes = [branch.args["true"] for branch in node.args["ifs"]]
    default = node.args.get("default")
    nodes.append(default if default is not None else exp.Null())
    raw = [compiler.expression(n, scope) for n in nodes]
    results = common(compiler, raw, nodes)
    domain = literal_domain([replace(r, literal=v.literal) for r, v in zip(results, raw, strict=True)])
    count = len(conditions)
    text = " ".join(f"WHEN {{{i}}} THEN {{{count + i}}}" for i in range(count))
    form = f"(CASE {text} ELSE {{{2 * count}}} END)"
    return simple(form, results[0].type, *conditions, *results, domain=domain)


_PLAIN_ITEMS = frozenset({"VARCHAR", "BIGINT", "INTEGER", "DATE", "BOOLEAN"})
"""Item types whose equal values have one text, so that equal lists have equal texts."""


def _cast(compiler: Compiler, node: exp.Expr, scope: Scope) -> Typed:
    value = compiler.expression(node.this, scope)
    text = node.args["to"].sql("duckdb")
    if text.upper() == "JSON":
        if value.type != VARCHAR:
            raise compiler.source.refuse("only VARCHAR is read as JSON", node)
        return cast(value, JSON)
    try:
        sql_type = column_type(text)
    except ValueError as error:
        raise compiler.source.refuse(str(error), node) from None
    if sql_type.name in ("LIST", "STRUCT", "ENUM", "BLOB") or value.type in (JSON, INTERVAL):
        raise compiler.source.refuse(f"{value.type} is not cast to {sql_type.name}", node)
    if value.type.name == "STRUCT" or (
        value.type.item is not None and value.type.item.name not in _PLAIN_ITEMS
    ):
        raise compiler.source.refuse(f"{value.type} is not cast to {sql_type}", node)
    if sql_type == value.type:
        return value
    if value.literal is not None and isinstance(value.literal.value, str):
        converted = to_type(compiler.catalog, value, sql_type)
        if converted is None:
            raise compiler.source.refuse(f"this text is not a valid {sql_type}", node)
        # A constant still, but no text any more that could become something else.
        return replace(converted, literal=Literal((sql_type.name, value.literal.value)))
    if value.type == TIMESTAMP and sql_type == VARCHAR:
        written = "BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31 23:59:59.999999'"
        value = simple(f"(CASE WHEN {{0}} {written} THEN {{0}} END)", TIMESTAMP, value, value)
    result = cast(seen_at(value, "day") if sql_type.name == "DATE" else value, sql_type)
    if value.type.name == "LIST" and sql_type == VARCHAR:
        # Quotes and separators make the text of a list longer than its items.
        sql = f"(CASE WHEN strlen({result.sql}) <= {LONGEST} THEN {result.sql} END)"
        return replace(result, sql=sql, size=2 * result.size + 1)
    return canonical(result)


def canonical(value: Typed) -> Typed:
    """Normalise a DOUBLE expression so that equal values have equal bits: one zero, one NaN.

    Every stored or compared DOUBLE passes through here: where equal values are merged (DISTINCT, GROUP BY,
    MIN), the engine keeps the bits of the first one, and which is first depends on the rows of all units.
    Columns are canonical already.
    """
    if value.type != DOUBLE or value.reads == {value.sql}:
        return value
    form = "(CASE WHEN isnan({0}) THEN CAST('nan' AS DOUBLE) ELSE {0} + 0.0 END)"
    sql = form.format(value.sql)
    guard = Guarded(sql, form.format(value.guarded)) if value.total else None
    return replace(value, sql=sql, size=2 * value.size, guard=guard)


def _neg(compiler: Compiler, node: exp.Expr, scope: Scope) -> Typed:
    value = compiler.expression(node.this, scope)
    if value.literal is not None and isinstance(value.literal.value, (int, float)) and value.type != BOOLEAN:
        return replace(value, sql=f"(-{value.sql})", literal=Literal(-value.literal.value))
    return functions.call(compiler.source, compiler.catalog, "neg", [value], node)


_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.Pow: "**",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseRightShift: ">>",
    exp.Like: "LIKE",
    exp.ILike: "ILIKE",
    exp.Glob: "GLOB",
    exp.RegexpLike: "~",
    exp.StartsWith: "^@",
}


def _operator(compiler: Compiler, node: exp.Expr, scope: Scope) -> Typed:
    a, b = compiler.expression(node.this, scope), compiler.expression(node.expression, scope)
    name = _OPERATORS[type(node)]
    if INTERVAL in (a.type, b.type):
        return _interval_arithmetic(compiler, node, name, a, b)
    if node.args.get("negate"):
        found = functions.call(compiler.source, compiler.catalog, name, [a, b], node)
        return replace(found, sql=f"(NOT {found.sql})")
    return functions.call(compiler.source, compiler.catalog, name, [a, b], node)


def _interval_arithmetic(compiler: Compiler, node: exp.Expr, name: str, a: Typed, b: Typed) -> Typed:
    if a.type == INTERVAL and name == "+":
        a, b = b, a
    if b.type != INTERVAL or name not in ("+", "-") or a.type.name not in ("DATE", "TIMESTAMP"):
        raise compiler.source.refuse("an INTERVAL is added to a DATE or TIMESTAMP, or taken from one", node)
    return built(f"TRY({a.sql} {name} {b.sql})", TIMESTAMP, a, b)


def _interval(compiler: Compiler, node: exp.Expr, scope: Scope) -> Typed:
    amount, unit = node.this, node.args.get("unit")
    text = str(amount.this) if isinstance(amount, exp.Literal) else ""
    if not re.fullmatch(r"-?\d{1,9}", text) or not isinstance(unit, exp.Var):
        raise compiler.source.refuse("an INTERVAL is a whole number and a unit", node, "INTERVAL 3 MONTH")
    sql = f"INTERVAL '{text} {unit.name.lower()}'" if unit.name.isalpha() else ""
    try:
        compiler.catalog.evaluate(f"{sql} IS NULL")
    except ValueError:
        raise compiler.source.refuse("this is not an INTERVAL", node, "INTERVAL 3 MONTH") from None
    compiler.intervals.setdefault(sql, str(compiler.catalog.evaluate(f"CAST({sql} AS VARCHAR)")))
    for other, made_of in compiler.intervals.items():
        # The engine's optimizer replaces one by the other: it holds a month for 30 days, a day for 24 hours.
        if made_of != compiler.intervals[sql] and compiler.catalog.evaluate(f"{sql} = {other}"):
            shown = f"{text} {unit.name.lower()} and {made_of}"
            raise compiler.source.refuse(f"the engine cannot tell {shown} apart in one statement", node)
    return Typed(sql, INTERVAL, literal=Literal(sql))


def _extract(compiler: Compiler, node: exp.Expr, scope: Scope) -> Typed:
    value = compiler.expression(node.expression, scope)
    part = Typed(literal_sql(node.name.lower()), VARCHAR, literal=Literal(node.name.lower()))
    return functions.call(compiler.source, compiler.catalog, "date_part", [part, value], node)


def _concat(compiler: Compiler, node: exp.Expr, scope: Scope) -> Typed:
    a, b = compiler.expression(node.this, scope), compiler.expression(node.expression, scope)
    return functions.call(compiler.source, compiler.catalog, "||", [a, b], node)


_BINARY = frozenset({"this", "expression"})
RULES: tuple[Rule, ...] = (
    Rule(exp.Column, _column, frozenset({"this", "table", "db", "catalog"})),
    Rule(exp.Literal, _literal, frozenset({"this", "is_string"})),
    Rule(exp.Null, _null, frozenset()),
    Rule(exp.Boolean, _boolean, frozenset({"this"})),
    Rule(exp.Paren, _paren, frozenset({"this"})),
    Rule(exp.And, _and_or, _BINARY),
    Rule(exp.Or, _and_or, _BINARY),
    Rule(exp.Not, _not, frozenset({"this"})),
    *(Rule(node, _comparison, _BINARY) for node in _COMPARISONS),
    Rule(exp.Between, _between, frozenset({"this", "low", "high"})),
    Rule(exp.Is, _is, _BINARY),
    Rule(exp.Case, _case, frozenset({"this", "ifs", "default"})),
    Rule(exp.Cast, _cast, frozenset({"this", "to"})),
    Rule(exp.TryCast, _cast, frozenset({"this", "to", "safe"})),
    Rule(exp.Neg, _neg, frozenset({"this"})),
    *(Rule(node, _operator, _BINARY | {"typed", "safe", "negate"}) for node in _OPERATORS),
    Rule(exp.DPipe, _concat, _BINARY | {"safe"}),
    Rule(exp.Interval, _interval, frozenset({"this", "unit"})),
    Rule(exp.Extract, _extract, _BINARY),
)
