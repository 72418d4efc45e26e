"""Advise on window functions over the rows of several units."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice.statement import Advice, Statement
from dpsql.analysis.aggregates import call_of
from dpsql.analysis.compiler import function_name
from dpsql.analysis.released.calls import is_released
from dpsql.errors import Fix, Obstacle

_RANKS = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"})
_ROWS = frozenset({"lag", "lead", "first_value", "last_value", "nth_value"})


def of_all_rows(of: Statement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Release what a window over all rows is used for: a quantile of the order, or the aggregate itself."""
    window = next((n for n in (node, *node.find_all(exp.Window)) if isinstance(n, exp.Window)), None)
    select = window.find_ancestor(exp.Select) if window is not None else None
    if window is None or select is None or window.args.get("alias"):
        return None
    block = of.outline.block(of.query.source.position(window))
    named = of.named(select)
    joins = select.args.get("joins") or ()
    if block is None or block.from_ is None or not named or len(named) != 1 + len(joins):
        return None  # rows of a subquery, which the statement alone has
    stop = min((t.start for t in block.clauses if t.token_type != TokenType.WHERE), default=block.end)
    rows, name = of.text[block.from_.start : stop].strip(), (function_name(window.this) or "").lower()
    if name in _RANKS:
        return _quantile(of, one, window, rows)
    return _aggregate(of, one, window, rows) if is_released(window.this) and call_of(window.this) else None


def _whole(of: Statement, one: Obstacle, statement: str, asks: str) -> Advice:
    return one.hint, Fix(statement, 0, len(of.text), asks=asks)


def _quantile(of: Statement, one: Obstacle, window: exp.Window, rows: str) -> Advice | None:
    """`PERCENT_RANK() OVER (ORDER BY x)` is compared with a share: the value there is a quantile."""
    order = window.args.get("order")
    terms = order.expressions if order is not None else []
    span = of.outline.span(terms[0].this) if len(terms) == 1 else None
    if span is None or window.args.get("partition_by"):
        return None
    value = of.text[span[0] : span[1]]
    statement = f"SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY {value}) {rows}"
    return _whole(of, one, statement, f"the {value} that half of the rows are below")


def _aggregate(of: Statement, one: Obstacle, window: exp.Window, rows: str) -> Advice | None:
    """`AVG(x) OVER (PARTITION BY k)` is one number a group, without the rows beside it."""
    at = of.query.source.position(window.this)
    call = of.outline.call_around(at, call_of(window.this) or "")
    keys = [of.outline.span(key) for key in window.args.get("partition_by") or ()]
    if call is None or window.args.get("order") is not None or None in keys:
        return None
    text = of.text[call[0] : call[1]]
    if not keys:
        return _whole(of, one, f"SELECT {text} {rows}", "one number, without the rows beside it")
    by = ", ".join(of.text[key[0] : key[1]] for key in keys if key is not None)
    return _whole(of, one, f"SELECT {by}, {text} {rows} GROUP BY {by}", f"one row for each {by}")


def in_units(of: Statement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Look at the rows of one unit: LAG and the like are of its own rows."""
    select = node.find_ancestor(exp.Select)
    named = of.named(select) if select is not None else []
    units = {f"{n.alias}.{n.unit}" if len(named) > 1 else n.unit for n in named if n.unit is not None}
    name = (function_name(node.this) or "").lower() if isinstance(node, exp.Window) else ""
    if len(units) != 1 or name not in _ROWS or not isinstance(node, exp.Window):
        return None
    at = of.query.source.position(node.this)
    over = next((c for c in _overs(of) if c[0] > at), None)
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


def _overs(of: Statement) -> list[tuple[int, int]]:
    """Return where the OVER clauses with parentheses stand, in the order of the text."""
    found = (of.outline.call_around(t.start, "over") for t in of.outline.tokens if t.text.upper() == "OVER")
    return [(c[0], c[1]) for c in found if c is not None]
