"""Rules for constants, function calls and JSON paths; the table of all rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis import scalar_functions
from dpsql.analysis.buckets_and_epochs import (
    TIME_RULES,
    compile_age,
    compile_instant,
    compile_local_time,
    compile_width_bucket,
)
from dpsql.analysis.casts import make_canonical
from dpsql.analysis.compiled_relation import Scope
from dpsql.analysis.compiler import Rule, StatementCompiler, function_name
from dpsql.analysis.conversions import cast, unify
from dpsql.analysis.facts_of_values import bounds_of_greatest, build_typed, hull_of_bounds
from dpsql.analysis.nested_queries import SUBQUERY_RULES
from dpsql.analysis.public_domains import make_literal_domain
from dpsql.analysis.released_values import VALUE_RULES
from dpsql.analysis.scalar_functions import is_failing_on_samples
from dpsql.analysis.scalar_rules import RULES, compile_condition, convert_to_common, write_texts
from dpsql.analysis.syntax_rules import SYNTAX_RULES, ZONE_RULES, compile_lambda_call, compile_timezone_call
from dpsql.analysis.typed_expression import Bounds, Literal, Typed, bounds_of_constant, make_constant
from dpsql.analysis.window_functions import WINDOW_RULES
from dpsql.kernel.tree import Apply, Binary, Call, Case, Cast, Constant, Interval, Paren, duckdb_sql
from dpsql.kernel.tree.forms import LONGEST, concatenated
from dpsql.language import READ, READINGS, refuse_unclear
from dpsql.lazy_pattern import lazy_pattern
from dpsql.policy import Assumed
from dpsql.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    HUGEINT,
    INTEGER,
    INTERVAL,
    JSON,
    NULL,
    TIMESTAMP,
    VARCHAR,
    SqlType,
)

_TEMPLATE = lazy_pattern(r"\{\{.*\}\}|\$\{\w|^&{1,2}\w+$|^<?\[?Parameters?\]?\.|^:[A-Za-z]\w*$|^@\w+$")
"""Texts with the placeholder of a template, or of another client."""


def _literal(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    text = str(node.this)
    if node.args.get("is_string"):
        if "\x00" in text:
            raise compiler.source.refuse("a text has a NUL character", node)
        if len(text.encode("utf-8", "surrogatepass")) > LONGEST:
            raise compiler.source.refuse(f"a text has more than {LONGEST:,} bytes", node)
        if _TEMPLATE.search(text):
            compiler.assume(Assumed(f"'{text}' is compared as it stands: no value is put into a text"))
        return make_constant(text, VARCHAR)
    if re.fullmatch(r"\d+", text):
        value = int(text)
        if value >= 2**63:
            raise compiler.source.refuse("this number is beyond BIGINT", node)
        return make_constant(value, INTEGER if value < 2**31 else BIGINT)
    fixed = re.fullmatch(r"(\d*)\.(\d*)", text)
    if fixed and (fixed[1] or fixed[2]) and max(1, len(fixed[1].lstrip("0"))) + len(fixed[2]) <= 18:
        digits = fixed[2]
        whole = fixed[1].lstrip("0") or "0"
        sql_type = SqlType("DECIMAL", max(1, len(whole.lstrip("0"))) + len(digits), len(digits))
        exact = Decimal(f"{whole}.{digits}" if digits else whole)
        return Typed(
            Constant(exact, sql_type),
            sql_type,
            literal=Literal(float(text)),
            bounds=bounds_of_constant(exact),
        )
    try:
        number = float(text)
    except ValueError:
        raise compiler.source.refuse("this number cannot be read", node) from None
    if number in (float("inf"), float("-inf")):
        raise compiler.source.refuse("this number is beyond DOUBLE", node)
    return make_constant(number, DOUBLE)


def _null(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    return make_constant(None, NULL)


def _boolean(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    return make_constant(bool(node.this), BOOLEAN)


def _interval(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    amount, unit = node.this, node.args.get("unit")
    text = str(amount.this) if isinstance(amount, exp.Literal) else ""
    if not re.fullmatch(r"-?\d{1,9}", text) or not isinstance(unit, exp.Var):
        raise compiler.source.refuse("an INTERVAL is a whole number and a unit", node, "INTERVAL 3 MONTH")
    interval = Interval(f"{text} {unit.name.lower()}")
    sql = duckdb_sql(interval) if unit.name.isalpha() else ""
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
    return Typed(interval, INTERVAL, literal=Literal(interval))


CONSTANT_RULES = (
    Rule(exp.Literal, _literal, frozenset({"this", "is_string"})),
    Rule(exp.Null, _null, frozenset()),
    Rule(exp.Boolean, _boolean, frozenset({"this"})),
    Rule(exp.Interval, _interval, frozenset({"this", "unit"})),
)


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
    literal = make_constant(text, VARCHAR)
    tried = [Typed(Constant(None, NULL), VARCHAR), literal]
    if is_failing_on_samples(compiler.catalog, "json_extract_string(TRY_CAST({0} AS JSON), {1})", tried):
        raise compiler.source.refuse("this is not a JSON path", node, "note ->> '$.a'")
    return build_typed(Call("json_extract_string", (value.node, literal.node)), VARCHAR, value)


def _clock(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile the current time as a literal, read once for the whole statement."""
    day = isinstance(node, exp.CurrentDate)
    name, call = ("current_date", "today()") if day else ("current_timestamp", "now()")
    within: Scope | None = scope
    while within is not None:
        if within.has(name):
            raise compiler.source.refuse(f"{name} is a column here", node, f'"{name}", or {call}')
        within = within.outer
    return _compile_clock(compiler, date=day)


def _compile_clock(compiler: StatementCompiler, *, date: bool) -> Typed:
    now = compiler.now
    text = now.date().isoformat() if date else now.isoformat(" ", "seconds")
    sql_type = DATE if date else TIMESTAMP
    node = Cast(Constant(text, VARCHAR), sql_type, bounded=True)
    return Typed(node, sql_type, literal=Literal(text), clock=True)


def _now(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    if node.expressions:
        raise compiler.source.refuse("the clock takes no argument", node)
    return _compile_clock(compiler, date=(function_name(node) or "").lower() in ("today", "current_date"))


def _call(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    name = function_name(node)
    if name is None:
        raise compiler.source.refuse("this function is not allowed over private data", node)
    if (unclear := refuse_unclear(compiler.source, node)) is not None:
        raise unclear
    if name.lower() in ("list_filter", "list_transform"):
        return compile_lambda_call(compiler, node, scope)
    special = _SPECIAL.get(name.lower())
    for argument in node.expressions:
        if isinstance(argument, (exp.Distinct, exp.Order, exp.Star, exp.Kwarg, exp.Lambda, exp.Select)):
            raise compiler.source.refuse(f"{name} is not allowed in this form over private data", node)
    if special is not None:
        return special(compiler, node, scope)
    arguments = [compiler.expression(argument, scope) for argument in node.expressions]
    made = scalar_functions.compile_call(compiler.source, compiler.catalog, name, arguments, node)
    if name.lower() in ("hour", "minute", "second") and arguments and arguments[0].type.name == "DATE":
        made = replace(made, notes=(*made.notes, Assumed(f"a DATE has no time: each {name.lower()} is 0")))
    reading = None if node.meta.get(READ) else READINGS.get(name.lower())
    return made if reading is None else replace(made, notes=(*made.notes, Assumed(reading)))


def _choice(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile COALESCE, IFNULL, GREATEST or LEAST: any number of arguments, brought to one type."""
    name = (function_name(node) or "").lower()
    values = [compiler.expression(argument, scope) for argument in node.expressions]
    if len(values) < (1 if name == "coalesce" else 2):
        raise compiler.source.refuse(f"{name} needs more arguments", node)
    values = convert_to_common(compiler, values, node.expressions)
    bounds = bounds_of_greatest(name, values) if name in ("greatest", "least") else hull_of_bounds(values)
    made = build_typed(Call(name, tuple(v.node for v in values)), values[0].type, *values, bounds=bounds)
    return replace(made, decimal=values[0].decimal)


def _nullif(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    if len(node.expressions) != 2:
        raise compiler.source.refuse("nullif takes two arguments", node)
    first, second = (compiler.expression(argument, scope) for argument in node.expressions)
    a, b = unify(compiler.source, compiler.catalog, first, second, node)
    branch = (Binary("=", a.node, b.node), Constant(None, NULL))
    made = build_typed(Paren(Case((branch,), first.node)), first.type, a, b, first, bounds=first.bounds)
    return replace(made, decimal=first.decimal)


def _if(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    if len(node.expressions) not in (2, 3):
        raise compiler.source.refuse("if takes a condition and one or two results", node)
    condition = compile_condition(compiler, node.expressions[0], scope)
    nodes = [*node.expressions[1:], *([exp.Null()] if len(node.expressions) == 2 else [])]
    raw = [compiler.expression(n, scope) for n in nodes]
    yes, no = convert_to_common(compiler, raw, nodes)
    domain = make_literal_domain([replace(r, literal=v.literal) for r, v in zip((yes, no), raw, strict=True)])
    case = Paren(Case(((condition.node, yes.node),), no.node))
    bounds = hull_of_bounds((yes, no))
    made = build_typed(case, yes.type, condition, yes, no, domain=domain, bounds=bounds)
    return replace(made, decimal=yes.decimal)


def _concat_call(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    values = write_texts([compiler.expression(argument, scope) for argument in node.expressions])
    if not values or any(v.type not in (VARCHAR, NULL) for v in values):
        raise compiler.source.refuse("concat takes VARCHAR arguments", node, "write CAST(... AS VARCHAR)")
    return build_typed(Apply(concatenated(len(values)), tuple(v.node for v in values)), VARCHAR, *values)


def _concat_ws(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    values = write_texts([compiler.expression(argument, scope) for argument in node.expressions])
    return scalar_functions.compile_call(compiler.source, compiler.catalog, "concat_ws", values, node)


TIE = "\x00tie"
"""The name of a function that orders rows with one value; no statement can spell it."""
TIES = 1 << 16
"""How many numbers such a function has: from 0 on."""
MOST_BUCKETS = 32
"""The most buckets of NTILE over all rows: each cut point between them takes its part of the epsilon."""


def _break_tie(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile a hash of several values as a number from 0 to below `TIES`."""
    values = [make_canonical(compiler.expression(argument, scope)) for argument in node.expressions]
    most, made = (
        Constant(TIES, INTEGER),
        Call("hash", (*(v.guarded_node for v in values), Constant(0, INTEGER))),
    )
    # Twice: where an engine's hash is negative, so is the first remainder.
    first = Paren(Binary("+", Paren(Binary("%", Cast(made, HUGEINT), most)), most))
    number = Cast(Paren(Binary("%", first, most)), BIGINT)
    return build_typed(number, BIGINT, *values, bounds=Bounds(Fraction(0), Fraction(TIES - 1)))


_SPECIAL: dict[str, Callable[[StatementCompiler, exp.Expr, Scope], Typed]] = {
    "coalesce": _choice,
    "ifnull": _choice,
    "greatest": _choice,
    "least": _choice,
    "nullif": _nullif,
    "if": _if,
    "concat": _concat_call,
    "concat_ws": _concat_ws,
    "now": _now,
    "today": _now,
    "current_date": _now,
    "current_timestamp": _now,
    "timezone": compile_timezone_call,
    "width_bucket": compile_width_bucket,
    "to_timestamp": compile_instant,
    "from_unixtime": compile_local_time,
    "age": compile_age,
    TIE: _break_tie,
}

_PATH = frozenset({"this", "expression", "only_json_types", "scalar_only", "expressions"})
CALL_RULES = (
    Rule(exp.Anonymous, _call, frozenset({"this", "expressions"})),
    Rule(exp.JSONExtractScalar, _json, _PATH),
    Rule(exp.JSONExtract, _json, _PATH),
    Rule(exp.CurrentDate, _clock, frozenset()),
    Rule(exp.CurrentTimestamp, _clock, frozenset()),
)

RULES_BY_NODE: dict[type[exp.Expr], Rule] = {
    rule.node: rule
    for rules in (
        RULES,
        CONSTANT_RULES,
        CALL_RULES,
        SYNTAX_RULES,
        TIME_RULES,
        SUBQUERY_RULES,
        VALUE_RULES,
        WINDOW_RULES,
        ZONE_RULES,
    )
    for rule in rules
}
