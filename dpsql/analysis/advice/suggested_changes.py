"""Advise on calls that are not known or not released, by calls that ask the same or nearly so."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice.unknown_names import Advice, RefusedStatement, add_clause
from dpsql.analysis.aggregate_functions import aggregate_calls, aggregate_name
from dpsql.analysis.compiler import function_name
from dpsql.analysis.released.released_calls import is_released
from dpsql.errors import Fix, Obstacle

_VALUES = frozenset(
    {"any_value", "arbitrary", "first", "last", "min", "max"}
    | {"list", "array_agg", "string_agg", "group_concat", "listagg"}
)
"""Aggregates that show values of single units."""
_TESTS = frozenset({"bool_or", "logical_or", "bool_and", "logical_and"})


def advise_on_values(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Advise on an aggregate that is not released; None where nothing released is like it."""
    name, at = (aggregate_name(node) or "").lower(), of.query.source.position(node)
    call = of.outline.call_around(at, name)
    if call is None or of.text[call[1] :].lstrip().upper().startswith(("FILTER", "OVER")):
        return None
    start, end, arguments = call
    select = node.find_ancestor(exp.Select)
    divided = name in ("mode", "histogram") and select is not None and select.args.get("group") is not None
    if (name in _VALUES or divided) and arguments and "privacy unit" not in one.message:
        value = re.sub(r"(?i)^DISTINCT\s+", "", arguments[0].split(" ORDER BY ")[0])
        return _add_group_key(of, node, value, start, end)
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
    return None


def advise_on_aggregate(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Advise on an aggregate that is no known function."""
    name, at = one.message.split(" ", 1)[0].lower(), of.query.source.position(node)
    call = of.outline.call_around(at, name) if name in _VALUES else None
    if call is None or not call[2]:
        return None
    return _add_group_key(of, node, call[2][0], call[0], call[1])


def _add_group_key(of: RefusedStatement, node: exp.Expr, value: str, start: int, end: int) -> Advice | None:
    """Make the expression a group key: one row for each of its values."""
    select, block = node.find_ancestor(exp.Select), of.outline.block(start)
    group = select.args.get("group") if select is not None else None
    # An item of the select list alone, of a block whose keys are expressions.
    plain = select is not None and any(i.unalias() is node for i in select.expressions)
    if select is None or block is None or not plain or select.args.get("having") is not None:
        return None
    units = {n.unit for n in of.list_tables(select) if n.unit is not None}
    counted = any(is_released(c) for i in select.expressions for c in aggregate_calls(i) if c is not node)
    if not counted and len(units) != 1:
        return None
    count = "" if counted else f", COUNT(DISTINCT {_qualify_unit(of, select, *units)}) AS n"
    fix = Fix(value + count, start, end, asks=f"one row for each {value}")
    if group is None:
        at = block.before(TokenType.GROUP_BY)
        return f"GROUP BY {value}", replace(fix, also=(add_clause(of.text, at, f"GROUP BY {value}"),))
    clause = block.clause(TokenType.GROUP_BY)
    if clause is None or not group.expressions or group.args.get("rollup") or group.args.get("cube"):
        return None
    at = len(of.text[: block.stop(clause)].rstrip())
    return f"GROUP BY .., {value}", replace(fix, also=(Fix(f", {value}", at, at),))


def _qualify_unit(of: RefusedStatement, select: exp.Select, unit: str) -> str:
    """Return a unit's column, with its table where there are several."""
    named = of.list_tables(select)
    return next(f"{n.alias}.{unit}" for n in named if n.unit == unit) if len(named) > 1 else unit


_SAME_PARTS = {
    "dayofyear": "doy",
    "isoweek": "week",
    "weekofyear": "week",
    "isodayofweek": "isodow",
    "dayofweekiso": "isodow",
    "dayofmonth": "day",
}
"""Parts of a date as other systems call them."""
_SUNDAYS = ("dayofweek", "weekday", "dow")
"""Parts that count days of a week from a number that differs from system to system."""


def advise_on_date_part(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Suggest dpsql's own name for an unknown date part in a call of EXTRACT or DATE_PART."""
    at = of.query.source.position(node)
    of_dates = one.message.lower().startswith(("date_part is", "datepart is"))
    names = ("extract", "date_part", "datepart") if of_dates else ()
    call = next((c for name in names if (c := of.outline.call_around(at, name)) is not None), None)
    if call is None:
        return None
    start, end, arguments = call
    whole = ", ".join(arguments)
    split = re.match(r"(?is)\s*'?(\w+)'?\s*(?:\bFROM\b|,)\s*", whole)
    if split is None:
        return None
    part, value = split[1].lower(), whole[split.end() :].strip()
    return _rename_part(of, part, value, start, end)


def _rename_part(of: RefusedStatement, part: str, value: str, start: int, end: int) -> Advice | None:
    if part in _SAME_PARTS:
        written = f"EXTRACT({_SAME_PARTS[part].upper()} FROM {value})"
        return written, Fix(written, start, end)
    if part in _SUNDAYS:
        written = f"EXTRACT(DOW FROM {value})"
        return written, Fix(written, start, end, asks="days of the week from 0, a Sunday, to 6")
    return None


_RANKS = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"})
_ROWS = frozenset({"lag", "lead", "first_value", "last_value", "nth_value"})


def advise_on_window(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Suggest a released quantile or aggregate in the place of a window over all rows."""
    window = next((n for n in (node, *node.find_all(exp.Window)) if isinstance(n, exp.Window)), None)
    select = window.find_ancestor(exp.Select) if window is not None else None
    if window is None or select is None or window.args.get("alias"):
        return None
    block = of.outline.block(of.query.source.position(window))
    named = of.list_tables(select)
    joins = select.args.get("joins") or ()
    if block is None or block.from_ is None or not named or len(named) != 1 + len(joins):
        return None  # rows of a subquery, which the statement alone has
    stop = min((t.start for t in block.clauses if t.token_type != TokenType.WHERE), default=block.end)
    rows, name = of.text[block.from_.start : stop].strip(), (function_name(window.this) or "").lower()
    if name in _RANKS:
        return _ask_quantile(of, one, window, rows)
    return (
        _ask_aggregate(of, one, window, rows)
        if is_released(window.this) and aggregate_name(window.this)
        else None
    )


def _replace_statement(of: RefusedStatement, one: Obstacle, statement: str, asks: str) -> Advice:
    return one.hint, Fix(statement, 0, len(of.text), asks=asks)


def _ask_quantile(of: RefusedStatement, one: Obstacle, window: exp.Window, rows: str) -> Advice | None:
    """`PERCENT_RANK() OVER (ORDER BY x)` is compared with a share: the value there is a quantile."""
    order = window.args.get("order")
    terms = order.expressions if order is not None else []
    span = of.outline.span(terms[0].this) if len(terms) == 1 else None
    keys = [of.outline.span(key) for key in window.args.get("partition_by") or ()]
    if span is None or None in keys:
        return None
    value, by = of.text[span[0] : span[1]], ", ".join(of.text[k[0] : k[1]] for k in keys if k is not None)
    quantile = f"PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY {value})"
    if not by:
        asks = f"the {value} that half of the rows are below"
        return _replace_statement(of, one, f"SELECT {quantile} {rows}", asks)
    asks = f"the {value} that half of the rows of each {by} are below"
    return _replace_statement(of, one, f"SELECT {by}, {quantile} {rows} GROUP BY {by}", asks)


def _ask_aggregate(of: RefusedStatement, one: Obstacle, window: exp.Window, rows: str) -> Advice | None:
    """`AVG(x) OVER (PARTITION BY k)` is one number a group, without the rows beside it."""
    at = of.query.source.position(window.this)
    call = of.outline.call_around(at, aggregate_name(window.this) or "")
    keys = [of.outline.span(key) for key in window.args.get("partition_by") or ()]
    if call is None or window.args.get("order") is not None or None in keys:
        return None
    text = of.text[call[0] : call[1]]
    if not keys:
        return _replace_statement(of, one, f"SELECT {text} {rows}", "one number, without the rows beside it")
    by = ", ".join(of.text[key[0] : key[1]] for key in keys if key is not None)
    return _replace_statement(of, one, f"SELECT {by}, {text} {rows} GROUP BY {by}", f"one row for each {by}")


def partition_by_unit(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Suggest PARTITION BY the unit for LAG and the like, which read only rows of one unit."""
    select = node.find_ancestor(exp.Select)
    named = of.list_tables(select) if select is not None else []
    units = {f"{n.alias}.{n.unit}" if len(named) > 1 else n.unit for n in named if n.unit is not None}
    name = (function_name(node.this) or "").lower() if isinstance(node, exp.Window) else ""
    if len(units) != 1 or name not in _ROWS or not isinstance(node, exp.Window):
        return None
    at = of.query.source.position(node.this)
    over = next((c for c in _find_overs(of) if c[0] > at), None)
    if over is None or node.args.get("alias"):
        return None
    (unit,), inside = units, of.text[over[0] : over[1]]
    begin = over[0] + inside.index("(") + 1
    keys = node.args.get("partition_by")
    if keys:
        by = of.text.upper().index("BY", begin) + 2
        fix = Fix(f" {unit},", by, by, asks=f"the rows of one {unit}")
    else:
        fix = Fix(f"PARTITION BY {unit} ", begin, begin, asks=f"the rows of one {unit}")
    return f"PARTITION BY {unit}", fix


def _find_overs(of: RefusedStatement) -> list[tuple[int, int]]:
    """Return where the OVER clauses with parentheses stand, in the order of the text."""
    found = (of.outline.call_around(t.start, "over") for t in of.outline.tokens if t.text.upper() == "OVER")
    return [(c[0], c[1]) for c in found if c is not None]
