"""Rules for scalar expressions: one for each node type, with the arguments that it handles.

A node without a rule is refused, and so is a node with an argument that its rule does not handle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce

from sqlglot import exp

from dpsql.analysis.casts import compile_cast, compute_remainder, is_decimal_choice
from dpsql.analysis.compiled_relation import Scope
from dpsql.analysis.compiler import Rule, StatementCompiler, check_arguments, function_name
from dpsql.analysis.conversions import (
    cast,
    convert_implicitly,
    convert_to_type,
    unify,
)
from dpsql.analysis.facts_of_values import (
    bounds_of_call,
    build_typed,
    hull_of_bounds,
)
from dpsql.analysis.public_domains import make_literal_domain
from dpsql.analysis.total_forms import COMPARISONS, LIKES, OPERATORS, widen_integer
from dpsql.analysis.typed_expression import Literal, Typed, make_constant
from dpsql.kernel.tree import (
    Apply,
    Binary,
    Case,
    Expr,
    InList,
    IsNull,
    IsTruth,
    Not,
    Paren,
    Try,
    Unary,
)
from dpsql.kernel.tree.forms import NEGATED
from dpsql.language import copy_tree
from dpsql.lazy_pattern import lazy_pattern
from dpsql.policy import Assumed
from dpsql.types import (
    BIGINT,
    BOOLEAN,
    INTEGER,
    INTERVAL,
    JSON,
    NULL,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
)

_DAY = lazy_pattern(r"\d{4}-\d\d-\d\d")
_ZERO = make_constant(0, INTEGER)


def compile_condition(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile a condition; of a whole number, whether it is not 0. One of any other type is refused."""
    value = compiler.expression(node, scope)
    if value.type == NULL:
        return cast(value, BOOLEAN)
    number = isinstance(node, exp.Literal) and node.name not in ("0", "1")  # year = 2023 OR 2024
    if value.type.integer and not number:
        return build_comparison("<>", *unify(compiler.source, compiler.catalog, value, _ZERO, node))
    if value.type != BOOLEAN:
        hint = repeat_comparison(node) or "compare it with something"
        raise compiler.source.refuse(f"a condition must be BOOLEAN, this is {value.type}", node, hint)
    return value


def repeat_comparison(node: exp.Expr) -> str | None:
    """Return the comparison that is meant by the second text of `x LIKE 'a' OR 'b'`; None for others."""
    around = node.parent
    other = around.this if isinstance(around, (exp.Or, exp.And)) and around.expression is node else None
    compares = isinstance(other, (exp.EQ, exp.NEQ, exp.Like, exp.ILike)) and isinstance(node, exp.Literal)
    if other is None or not compares or not isinstance(other.this, exp.Column):
        return None
    made = copy_tree(other)
    made.set("expression", copy_tree(node))
    return str(made.sql("duckdb"))


def build_comparison(operator: str, a: Typed, b: Typed) -> Typed:
    """Return a comparison, a conjunction or a disjunction of two expressions."""
    return build_typed(Paren(Binary(operator, a.node, b.node)), BOOLEAN, a, b)


def _column(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        raise compiler.source.refuse("`*` is not a value", node)
    return scope.resolve(node)


def _paren(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    return compiler.expression(node.this, scope)


def _and_or(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    a, b = compile_condition(compiler, node.this, scope), compile_condition(compiler, node.expression, scope)
    return build_comparison("AND" if isinstance(node, exp.And) else "OR", a, b)


def _not(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    a = compile_condition(compiler, node.this, scope)
    return build_typed(Paren(Not(a.node)), BOOLEAN, a)


def _check_comparable(compiler: StatementCompiler, value: Typed, node: exp.Expr) -> None:
    if value.type in (INTERVAL, JSON):
        hint = "EXTRACT(EPOCH FROM b - a) > 86400" if value.type == INTERVAL else None
        raise compiler.source.refuse(f"{value.type} values are not compared", node, hint)


def _comparison(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    a, b = compiler.expression(node.this, scope), compiler.expression(node.expression, scope)
    _check_comparable(compiler, a, node.this)
    _check_comparable(compiler, b, node.expression)
    null = isinstance(node.this, exp.Null) or isinstance(node.expression, exp.Null)
    if null and not isinstance(node, (exp.NullSafeEQ, exp.NullSafeNEQ)):
        compiler.assume(Assumed("a comparison with NULL is never TRUE: IS NULL finds missing values"))
    if isinstance(node, (exp.EQ, exp.NEQ)):
        _note_undeclared(compiler, node, a, [b])
        _note_undeclared(compiler, node, b, [a])
    for side, other in ((node.this, b), (node.expression, a)):
        case = (function_name(side) or "").lower()
        if (
            case in ("lower", "upper")
            and other.text is not None
            and other.text != getattr(other.text, case)()
        ):
            compiler.assume(Assumed(f"{case}(..) is never '{other.text}', which has other letters"))
    days = [v for v, other in ((a, b), (b, a)) if other.type.moment and v.text and _DAY.fullmatch(v.text)]
    if days and isinstance(node, (exp.EQ, exp.LTE)):
        compiler.assume(Assumed(f"'{days[0].text}' is the first moment of that day"))
    a, b = unify(compiler.source, compiler.catalog, a, b, node)
    return build_comparison(COMPARISONS[type(node)], a, b)


def _note_undeclared(
    compiler: StatementCompiler, node: exp.Expr, column: Typed, others: Sequence[Typed]
) -> None:
    """Note which texts that a column is compared with are none of its public values."""
    texts = [other.text for other in others if other.text is not None]
    if column.type == VARCHAR and column.domain and texts:
        from dpsql.analysis.empty_conditions import note_undeclared  # noqa: PLC0415  few columns have texts

        note_undeclared(compiler, node, column.domain, texts)


def _between(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    value = compiler.expression(node.this, scope)
    low, high = compiler.expression(node.args["low"], scope), compiler.expression(node.args["high"], scope)
    ends = [end.literal.value for end in (low, high) if end.literal is not None]
    whole = [end for end in ends if isinstance(end, int)]
    if len(whole) == 2 and whole[0] > whole[1]:
        compiler.assume(
            Assumed(f"BETWEEN {ends[0]} AND {ends[1]} is never TRUE: the smaller end stands first")
        )
    if value.type.moment and high.text and _DAY.fullmatch(high.text):
        compiler.assume(Assumed(f"'{high.text}' is the first moment of that day"))
    a, low = unify(compiler.source, compiler.catalog, value, low, node)
    b, high = unify(compiler.source, compiler.catalog, value, high, node)
    return build_comparison("AND", build_comparison(">=", a, low), build_comparison("<=", b, high))


def compile_in_list(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile `x IN (..)` over a list of values."""
    value = compiler.expression(node.this, scope)
    _check_comparable(compiler, value, node.this)
    if not node.expressions:
        raise compiler.source.refuse("IN takes a list of values here", node)
    items = [compiler.expression(item, scope) for item in node.expressions]
    _note_undeclared(compiler, node, value, items)
    if any(isinstance(item, exp.Null) for item in node.expressions):
        compiler.assume(Assumed("a list with NULL: IN never finds NULL, and NOT IN is never TRUE"))
    parts = []
    if any(widen_integer(v) is not v for v in (value, *items)):
        return _compile_any_of(compiler, node, value, items)
    for item in items:
        if value.type.integer and item.type.integer and item.type.bits > value.type.bits:
            # Beyond the column's width: equal to nothing, not NULL.
            return _compile_any_of(compiler, node, value, items)
        fitted = convert_implicitly(compiler.catalog, item, value.type)
        if fitted is None:
            return _compile_any_of(compiler, node, value, items)
        parts.append(fitted)
    return build_typed(Paren(InList(value.node, tuple(p.node for p in parts))), BOOLEAN, value, *parts)


def _compile_any_of(
    compiler: StatementCompiler, node: exp.Expr, value: Typed, items: Sequence[Typed]
) -> Typed:
    """Compile IN as a disjunction of comparisons, each with its own common type."""
    pairs = [
        unify(compiler.source, compiler.catalog, value, item, at)
        for item, at in zip(items, node.expressions, strict=True)
    ]
    equal: list[Expr] = [build_comparison("=", a, b).node for a, b in pairs]
    anyone = reduce(partial(Binary, "OR"), equal)
    return build_typed(Paren(anyone), BOOLEAN, *(v for pair in pairs for v in pair))


def _is(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    what = node.expression
    if isinstance(what, exp.Null):
        value = compiler.expression(node.this, scope)
        return build_typed(Paren(IsNull(value.node)), BOOLEAN, value)
    if isinstance(what, exp.Boolean):
        value = compile_condition(compiler, node.this, scope)
        return build_typed(Paren(IsTruth(value.node, bool(what.this))), BOOLEAN, value)
    hint = f"= {what.sql('duckdb')}" if isinstance(what, exp.Literal) else None
    raise compiler.source.refuse("IS takes NULL, TRUE or FALSE", node, hint)


def convert_to_common(
    compiler: StatementCompiler, values: Sequence[Typed], nodes: Sequence[exp.Expr]
) -> list[Typed]:
    """Convert several expressions to one type: the branches of a CASE, the arguments of COALESCE."""
    joint = values[0]
    for value, at in zip(values[1:], nodes[1:], strict=True):
        joint, _ = unify(compiler.source, compiler.catalog, joint, value, at, compare=False)
    out, decimal = [], is_decimal_choice(values, joint.type)
    for value, at in zip(values, nodes, strict=True):
        fitted = convert_to_type(compiler.catalog, value, joint.type)
        if fitted is None:
            raise compiler.source.refuse(f"{value.type} does not become {joint.type}", at)
        out.append(replace(fitted, decimal=decimal))
    return out


def _case(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    operand = compiler.expression(node.this, scope) if node.args.get("this") is not None else None
    conditions: list[Typed] = []
    for branch in node.args["ifs"]:
        check_arguments(compiler.source, branch, frozenset({"this", "true"}))
        if operand is None:
            conditions.append(compile_condition(compiler, branch.this, scope))
        else:
            value = compiler.expression(branch.this, scope)
            if isinstance(branch.this, exp.Null):
                compiler.assume(Assumed("a comparison with NULL is never TRUE: IS NULL finds missing values"))
            a, b = unify(compiler.source, compiler.catalog, operand, value, branch.this)
            conditions.append(build_comparison("=", a, b))
    nodes = [branch.args["true"] for branch in node.args["ifs"]]
    default = node.args.get("default")
    nodes.append(default if default is not None else exp.Null())
    raw = [compiler.expression(n, scope) for n in nodes]
    results = convert_to_common(compiler, raw, nodes)
    domain = make_literal_domain([replace(r, literal=v.literal) for r, v in zip(results, raw, strict=True)])
    branches = tuple((c.node, r.node) for c, r in zip(conditions, results, strict=False))
    case = Paren(Case(branches, results[-1].node))
    bounds, parts = hull_of_bounds(results), (*conditions, *results)
    made = build_typed(case, results[0].type, *parts, domain=domain, bounds=bounds)
    return replace(made, decimal=results[0].decimal)


def _neg(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    if isinstance(node.this, exp.Literal) and node.this.is_number and str(node.this.this) == str(2**63):
        least = make_constant(-(2**63), BIGINT)  # its digits alone are no BIGINT
        return replace(least, node=Paren(least.node))
    value = compiler.expression(node.this, scope)
    if value.literal is not None and isinstance(value.literal.value, (int, float)) and value.type != BOOLEAN:
        negative = replace(value, node=Paren(Unary("-", value.node)), literal=Literal(-value.literal.value))
        return replace(negative, bounds=bounds_of_call("neg", [value], value.type))
    return _compile_call(compiler, "neg", [value], node)


def _compile_call(
    compiler: StatementCompiler, name: str, arguments: Sequence[Typed], node: exp.Expr
) -> Typed:
    from dpsql.analysis.scalar_functions import compile_call  # noqa: PLC0415  many statements have no call

    return compile_call(compiler.source, compiler.catalog, name, arguments, node)


_OPERATORS = OPERATORS | LIKES | {exp.Pow: "**"}


def _operator(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    a, b = compiler.expression(node.this, scope), compiler.expression(node.expression, scope)
    name = _OPERATORS[type(node)]
    if INTERVAL in (a.type, b.type):
        return _interval_arithmetic(compiler, node, name, a, b)

    def call(name: str, arguments: Sequence[Typed]) -> Typed:
        return _compile_call(compiler, name, arguments, node)

    found = (compute_remainder(call, a, b) if name == "%" else None) or call(name, [a, b])
    if type(node) in LIKES and b.text is not None and "*" in b.text and not {*"%_"} & {*b.text}:
        compiler.assume(Assumed(f"'{b.text}' has no %, which stands for any characters: * stands for itself"))
    if node.args.get("negate"):
        return replace(found, node=Apply(NEGATED, (found.node,)))
    if name == "-" and (a.type.moment or b.type.moment) and not _is_compared(node):
        return replace(found, notes=(*found.notes, SECONDS))
    return found


SECONDS = Assumed("the time between two points of time is in seconds, where SQL has an INTERVAL")


def _is_compared(node: exp.Expr) -> bool:
    """Return whether an expression is a side of a comparison, of which a number is the other."""
    around = node.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    return isinstance(around, exp.Predicate)


def _interval_arithmetic(compiler: StatementCompiler, node: exp.Expr, name: str, a: Typed, b: Typed) -> Typed:
    if a.type == INTERVAL and name == "+":
        a, b = b, a
    if b.type != INTERVAL or name not in ("+", "-") or not (a.type.moment or a.type.name == "DATE"):
        raise compiler.source.refuse("an INTERVAL is added to a DATE or TIMESTAMP, or taken from one", node)
    result = TIMESTAMPTZ if a.type == TIMESTAMPTZ else TIMESTAMP
    return build_typed(Try(Binary(name, a.node, b.node)), result, a, b)


def make_call_rule(name: str, *parts: str) -> Callable[[StatementCompiler, exp.Expr, Scope], Typed]:
    """Return a rule that compiles a node as a function call; `parts` are the node's arguments, in order."""

    def compile_call(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
        nodes = [node.args[part] for part in parts if node.args.get(part) is not None]
        arguments = [compiler.expression(n, scope) for n in nodes]
        return _compile_call(compiler, name, arguments, node)

    return compile_call


def write_texts(values: Sequence[Typed]) -> list[Typed]:
    """Return what stands beside a text as texts, if it is a whole number or a day."""
    return [cast(v, VARCHAR) if v.type.integer or v.type.name == "DATE" else v for v in values]


def _concatenation(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile `||`; beside a text, a whole number or a day is its text."""
    values = [compiler.expression(each, scope) for each in (node.this, node.expression)]
    if VARCHAR in (values[0].type, values[1].type):
        values = write_texts(values)
    return _compile_call(compiler, "||", values, node)


_BINARY = frozenset({"this", "expression"})
RULES: tuple[Rule, ...] = (
    Rule(exp.Column, _column, frozenset({"this", "table", "db", "catalog"})),
    Rule(exp.Paren, _paren, frozenset({"this"})),
    Rule(exp.And, _and_or, _BINARY),
    Rule(exp.Or, _and_or, _BINARY),
    Rule(exp.Not, _not, frozenset({"this"})),
    *(Rule(node, _comparison, _BINARY) for node in COMPARISONS),
    Rule(exp.Between, _between, frozenset({"this", "low", "high"})),
    Rule(exp.Is, _is, _BINARY),
    Rule(exp.Case, _case, frozenset({"this", "ifs", "default"})),
    Rule(exp.Cast, compile_cast, frozenset({"this", "to"})),
    Rule(exp.TryCast, compile_cast, frozenset({"this", "to", "safe"})),
    Rule(exp.Neg, _neg, frozenset({"this"})),
    *(Rule(node, _operator, _BINARY | {"typed", "safe", "negate"}) for node in _OPERATORS),
    Rule(exp.DPipe, _concatenation, _BINARY | {"safe"}),
)
