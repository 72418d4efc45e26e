"""Rules for function calls, the current time and JSON paths."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis import functions
from dpsql.analysis.coerce import cast, unify
from dpsql.analysis.compiler import Rule, StatementCompiler, function_name
from dpsql.analysis.domains import literal_domain
from dpsql.analysis.expressions import built, common, predicate
from dpsql.analysis.intervals import hull, of_greatest
from dpsql.analysis.local_time import timezone_call
from dpsql.analysis.relation import Scope
from dpsql.analysis.samples import fails_on_samples
from dpsql.analysis.syntax import lambda_call
from dpsql.analysis.typed import Literal, Typed, constant
from dpsql.errors import Fix
from dpsql.kernel.tree import Apply, Binary, Call, Case, Cast, Constant, Paren
from dpsql.kernel.tree.forms import concatenated
from dpsql.language import call_end, unclear
from dpsql.types import DATE, JSON, NULL, TIMESTAMP, VARCHAR


def _json(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile x ->> '$.path' with a literal path; the result is NULL where the text is not JSON."""
    value = compiler.expression(node.this, scope)
    path = node.expression
    text = ""
    with suppress(ValueError):  # sqlglot reads `..`, but cannot write it for DuckDB
        text = path.sql("duckdb").strip("'") if isinstance(path, (exp.JSONPath, exp.Literal)) else ""
    if not text or "*" in text or "'" in text or len(text) > 1000:
        raise compiler.source.refuse("a JSON path is a literal without `*`", node, "note ->> '$.a'")
    if value.type == VARCHAR:
        value = cast(value, JSON)
    if value.type != JSON:
        raise compiler.source.refuse(f"{value.type} is not JSON", node, "CAST it to VARCHAR")
    literal = constant(text, VARCHAR)
    tried = [Typed(Constant(None, NULL), VARCHAR), literal]
    if fails_on_samples(compiler.catalog, "json_extract_string(TRY_CAST({0} AS JSON), {1})", tried):
        raise compiler.source.refuse("this is not a JSON path", node, "note ->> '$.a'")
    return built(Call("json_extract_string", (value.node, literal.node)), VARCHAR, value)


def _clock(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile the current time as a literal, read once for the whole statement."""
    return _clock_literal(compiler, date=isinstance(node, exp.CurrentDate))


def _clock_literal(compiler: StatementCompiler, *, date: bool) -> Typed:
    now = compiler.now
    text = now.date().isoformat() if date else now.isoformat(" ", "seconds")
    sql_type = DATE if date else TIMESTAMP
    node = Cast(Constant(text, VARCHAR), sql_type, bounded=True)
    return Typed(node, sql_type, literal=Literal(text), clock=True)


def _now(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    if node.expressions:
        raise compiler.source.refuse("the clock takes no argument", node)
    return _clock_literal(compiler, date=(function_name(node) or "").lower() in ("today", "current_date"))


def _call(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    name = function_name(node)
    if name is None:
        raise compiler.source.refuse("this function is not allowed over private data", node)
    doubt = unclear(node)
    if doubt is not None:
        what, hint, same = doubt
        start = compiler.source.position(node)
        fix = Fix(hint, start, call_end(compiler.source, start) + 1) if same else None
        raise compiler.source.refuse(what, node, hint, fix)
    if name.lower() in ("list_filter", "list_transform"):
        return lambda_call(compiler, node, scope)
    special = _SPECIAL.get(name.lower())
    for argument in node.expressions:
        if isinstance(argument, (exp.Distinct, exp.Order, exp.Star, exp.Kwarg, exp.Lambda, exp.Select)):
            raise compiler.source.refuse(f"{name} is not allowed in this form over private data", node)
    if special is not None:
        return special(compiler, node, scope)
    arguments = [compiler.expression(argument, scope) for argument in node.expressions]
    return functions.call(compiler.source, compiler.catalog, name, arguments, node)


def _choice(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile COALESCE, IFNULL, GREATEST or LEAST: any number of arguments, brought to one type."""
    name = (function_name(node) or "").lower()
    values = [compiler.expression(argument, scope) for argument in node.expressions]
    if len(values) < (1 if name == "coalesce" else 2):
        raise compiler.source.refuse(f"{name} needs more arguments", node)
    values = common(compiler, values, node.expressions)
    bounds = of_greatest(name, values) if name in ("greatest", "least") else hull(values)
    return built(Call(name, tuple(v.node for v in values)), values[0].type, *values, bounds=bounds)


def _nullif(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    if len(node.expressions) != 2:
        raise compiler.source.refuse("nullif takes two arguments", node)
    first, second = (compiler.expression(argument, scope) for argument in node.expressions)
    a, b = unify(compiler.source, compiler.catalog, first, second, node)
    branch = (Binary("=", a.node, b.node), Constant(None, NULL))
    return built(Paren(Case((branch,), first.node)), first.type, a, b, first, bounds=first.bounds)


def _if(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    if len(node.expressions) not in (2, 3):
        raise compiler.source.refuse("if takes a condition and one or two results", node)
    condition = predicate(compiler, node.expressions[0], scope)
    nodes = [*node.expressions[1:], *([exp.Null()] if len(node.expressions) == 2 else [])]
    raw = [compiler.expression(n, scope) for n in nodes]
    yes, no = common(compiler, raw, nodes)
    domain = literal_domain([replace(r, literal=v.literal) for r, v in zip((yes, no), raw, strict=True)])
    case = Paren(Case(((condition.node, yes.node),), no.node))
    return built(case, yes.type, condition, yes, no, domain=domain, bounds=hull((yes, no)))


def _concat_call(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    values = [compiler.expression(argument, scope) for argument in node.expressions]
    if not values or any(v.type not in (VARCHAR, NULL) for v in values):
        raise compiler.source.refuse("concat takes VARCHAR arguments", node, "write CAST(... AS VARCHAR)")
    return built(Apply(concatenated(len(values)), tuple(v.node for v in values)), VARCHAR, *values)


_SPECIAL: dict[str, Callable[[StatementCompiler, exp.Expr, Scope], Typed]] = {
    "coalesce": _choice,
    "ifnull": _choice,
    "greatest": _choice,
    "least": _choice,
    "nullif": _nullif,
    "if": _if,
    "concat": _concat_call,
    "now": _now,
    "today": _now,
    "current_date": _now,
    "current_timestamp": _now,
    "timezone": timezone_call,
}

_PATH = frozenset({"this", "expression", "only_json_types", "scalar_only", "expressions"})
CALL_RULES = (
    Rule(exp.Anonymous, _call, frozenset({"this", "expressions"})),
    Rule(exp.JSONExtractScalar, _json, _PATH),
    Rule(exp.JSONExtract, _json, _PATH),
    Rule(exp.CurrentDate, _clock, frozenset()),
    Rule(exp.CurrentTimestamp, _clock, frozenset()),
)
