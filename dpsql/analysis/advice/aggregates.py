"""Advise on aggregates that are not released, by what asks the same or nearly so."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice.statement import Advice, Statement, clause_at
from dpsql.analysis.aggregates import call_of, calls
from dpsql.analysis.released.calls import is_released
from dpsql.errors import Fix, Obstacle

_OF_PAIRS = {
    "covar_pop": "AVG({x} * {y}){only} - AVG({x}){only} * AVG({y}){only}",
    "corr": "(AVG({x} * {y}){only} - AVG({x}){only} * AVG({y}){only})"
    " / NULLIF(STDDEV_POP({x}){only} * STDDEV_POP({y}){only}, 0)",
}
"""What statistics of two expressions are, over the rows in which both are not NULL."""
_VALUES = frozenset(
    {"any_value", "arbitrary", "first", "last", "min", "max"}
    | {"list", "array_agg", "string_agg", "group_concat", "listagg"}
)
"""Aggregates that show values of single units."""
_TESTS = frozenset({"bool_or", "logical_or", "bool_and", "logical_and"})
_LISTS = frozenset({"histogram", "mode"})
"""Aggregates of the values of a column and how often each occurs."""


def valued(of: Statement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Advise on an aggregate that is not released; None where nothing released is like it."""
    name, at = (call_of(node) or "").lower(), of.query.source.position(node)
    call = of.outline.call_around(at, name)
    if call is None or of.text[call[1] :].lstrip().upper().startswith(("FILTER", "OVER")):
        return None
    start, end, arguments = call
    if name in _OF_PAIRS and len(arguments) == 2:
        return _pair(name, arguments, start, end)
    if name in _VALUES and arguments and "privacy unit" not in one.message:
        return _grouped(of, node, arguments[0].split(" ORDER BY ")[0], start, end)
    if arguments and arguments[0][:9].upper() == "DISTINCT ":
        text = of.text[start:end]
        written = text.replace(arguments[0], arguments[0][9:].strip(), 1)
        return written, Fix(written, start, end, asks="rows with equal values count each")
    if len(arguments) != 1:
        return None
    if name in _TESTS:
        condition = arguments[0] if name.endswith("or") else f"NOT ({arguments[0]})"
        asks = f"how many rows {'meet' if name.endswith('or') else 'do not meet'} the condition"
        written = f"COUNT_IF({condition})"
        return written, Fix(written, start, end, asks=asks)
    return _counted(of, node, name, arguments[0]) if name in _LISTS else None


def unlisted(of: Statement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Advise on an aggregate that is no known function."""
    name, at = one.message.split(" ", 1)[0].lower(), of.query.source.position(node)
    call = of.outline.call_around(at, name) if name in _OF_PAIRS or name in _VALUES else None
    if call is not None and name in _VALUES and call[2]:
        return _grouped(of, node, call[2][0], call[0], call[1])
    if call is None or len(call[2]) != 2:
        return None
    return _pair(name, call[2], call[0], call[1])


def _pair(name: str, arguments: tuple[str, ...], start: int, end: int) -> Advice:
    x, y = (text if text.replace(".", "_").isidentifier() else f"({text})" for text in arguments)
    only = f" FILTER (WHERE {x} IS NOT NULL AND {y} IS NOT NULL)"
    written = _OF_PAIRS[name].format(x=x, y=y, only=only)
    return written, Fix(written if name == "corr" else f"({written})", start, end)


def _grouped(of: Statement, node: exp.Expr, value: str, start: int, end: int) -> Advice | None:
    """Make the expression a group key: one row for each of its values."""
    select, block = node.find_ancestor(exp.Select), of.outline.block(start)
    group = select.args.get("group") if select is not None else None
    # An item of the select list alone, of a block whose keys are expressions.
    plain = select is not None and any(i.unalias() is node for i in select.expressions)
    if select is None or block is None or not plain or select.args.get("having") is not None:
        return None
    units = {n.unit for n in of.named(select) if n.unit is not None}
    counted = any(is_released(c) for i in select.expressions for c in calls(i) if c is not node)
    if not counted and len(units) != 1:
        return None
    count = "" if counted else f", COUNT(DISTINCT {_qualified(of, select, *units)}) AS n"
    fix = Fix(value + count, start, end, asks=f"one row for each {value}")
    if group is None:
        at = block.before(TokenType.GROUP_BY)
        return f"GROUP BY {value}", replace(fix, also=(clause_at(of.text, at, f"GROUP BY {value}"),))
    clause = block.clause(TokenType.GROUP_BY)
    if clause is None or not group.expressions or group.args.get("rollup") or group.args.get("cube"):
        return None
    at = len(of.text[: block.stop(clause)].rstrip())
    return f"GROUP BY .., {value}", replace(fix, also=(Fix(f", {value}", at, at),))


def _qualified(of: Statement, select: exp.Select, unit: str) -> str:
    """Return a unit's column, with its table where there are several."""
    named = of.named(select)
    return next(f"{n.alias}.{unit}" for n in named if n.unit == unit) if len(named) > 1 else unit


def _counted(of: Statement, node: exp.Expr, name: str, value: str) -> Advice | None:
    """Count the rows of each value: MODE is the most frequent one, HISTOGRAM all of them."""
    select, block = node.find_ancestor(exp.Select), of.outermost(node)
    if select is None or block is None or block.from_ is None or of.has_options:
        return None
    alone = len(select.expressions) == 1 and select.expressions[0].unalias() is node
    read = {clause.token_type for clause in block.clauses} - {TokenType.WHERE}
    if (
        not alone
        or read
        or select.args.get("with_")
        or sum(1 for i in select.expressions for _ in calls(i)) != 1
    ):
        return None
    rows = of.text[block.from_.start : block.end].strip()
    whole = f"SELECT {value}, COUNT(*) AS n {rows} GROUP BY {value}"
    if name == "mode":
        whole = f"SELECT {value} {rows} GROUP BY {value} ORDER BY COUNT(*) DESC LIMIT 1"
    return whole, Fix(of.text[: block.select.start] + whole, 0, len(of.text))
