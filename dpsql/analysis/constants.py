"""Rules for constants: numbers, texts, truth values, NULL, intervals."""

from __future__ import annotations

import re
from decimal import Decimal

from sqlglot import exp

from dpsql.analysis.compiler import Rule, StatementCompiler
from dpsql.analysis.relation import Scope
from dpsql.analysis.typed import Literal, Typed, constant, exactly
from dpsql.kernel.tree import Constant, Interval, duckdb_sql
from dpsql.kernel.tree.forms import LONGEST
from dpsql.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, INTERVAL, NULL, VARCHAR, SqlType


def _literal(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    text = str(node.this)
    if node.args.get("is_string"):
        if "\x00" in text:
            raise compiler.source.refuse("a text has a NUL character", node)
        if len(text.encode("utf-8", "surrogatepass")) > LONGEST:
            raise compiler.source.refuse(f"a text has more than {LONGEST:,} bytes", node)
        return constant(text, VARCHAR)
    if re.fullmatch(r"\d+", text):
        value = int(text)
        if value >= 2**63:
            raise compiler.source.refuse("this number is beyond BIGINT", node)
        return constant(value, INTEGER if value < 2**31 else BIGINT)
    fixed = re.fullmatch(r"(\d*)\.(\d*)", text)
    if fixed and (fixed[1] or fixed[2]) and max(1, len(fixed[1].lstrip("0"))) + len(fixed[2]) <= 18:
        digits = fixed[2]
        whole = fixed[1].lstrip("0") or "0"
        sql_type = SqlType("DECIMAL", max(1, len(whole.lstrip("0"))) + len(digits), len(digits))
        exact = Decimal(f"{whole}.{digits}" if digits else whole)
        return Typed(Constant(exact, sql_type), sql_type, literal=Literal(float(text)), bounds=exactly(exact))
    try:
        number = float(text)
    except ValueError:
        raise compiler.source.refuse("this number cannot be read", node) from None
    if number in (float("inf"), float("-inf")):
        raise compiler.source.refuse("this number is beyond DOUBLE", node)
    return constant(number, DOUBLE)


def _null(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    return constant(None, NULL)


def _boolean(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    return constant(bool(node.this), BOOLEAN)


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
