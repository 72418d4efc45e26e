"""Advise on windows over private rows, by quantiles, largest values and aggregates that are released."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice.listed_rows import split_options
from dpsql.analysis.advice.refused_statement import Advice, RefusedStatement
from dpsql.analysis.aggregate_functions import aggregate_name
from dpsql.analysis.call_rules import MOST_BUCKETS
from dpsql.analysis.compiler import call_name, read_whole_number
from dpsql.analysis.released.released_calls import is_released
from dpsql.errors import Fix, Obstacle

_RANKS = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"})
_NUMBERED = r"\w*(?:rn|rk|rank|rownum|row_num|r|seq|n|num)"
"""What people call the number of a row."""
_FIRST_ROWS = frozenset({"row_number", "rank", "dense_rank"})
_ROWS = frozenset({"lag", "lead", "first_value", "last_value", "nth_value"})


def advise_on_window(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Suggest a released quantile or aggregate in the place of a window over all rows."""
    around = node if isinstance(node, exp.Window) else node.find_ancestor(exp.Select) or node
    window = next((n for part in (node, around) for n in part.find_all(exp.Window)), None)
    select = window.find_ancestor(exp.Select) if window is not None else None
    if window is None or select is None or window.args.get("alias"):
        return None
    block = of.outline.block(of.query.source.position(window))
    named = of.list_tables(select)
    joins = select.args.get("joins") or ()
    if block is None or block.from_ is None or not named or len(named) != 1 + len(joins):
        return None  # rows of a subquery, which the statement alone has
    stop = min((t.start for t in block.clauses if t.token_type != TokenType.WHERE), default=block.end)
    rows, name = of.text[block.from_.start : stop].strip(), call_name(window.this)
    buckets = read_whole_number(window.this.expressions[0]) if name == "ntile" else None
    span = of.outline.span(window.this.expressions[0]) if buckets is not None else None
    if span is not None and buckets is not None and buckets > MOST_BUCKETS:
        asks = f"{MOST_BUCKETS} buckets, which are the most"
        return f"NTILE({MOST_BUCKETS})", Fix(str(MOST_BUCKETS), *span, asks=asks)
    if name in _RANKS:
        return _ask_quantile(of, one, window, rows)
    return (
        _ask_aggregate(of, one, window, rows)
        if is_released(window.this) and aggregate_name(window.this)
        else None
    )


def take_whole_windows(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Take the aggregates of `AVG(x) OVER ()`, each the same on every row, of which LIMIT shows some."""
    select = of.query.tree
    items = select.expressions if isinstance(select, exp.Select) else []
    windows = [item.unalias() for item in items]
    plain = all(
        isinstance(w, exp.Window)
        and is_released(w.this)
        and not (w.args.get("partition_by") or w.args.get("order"))
        for w in windows
    )
    found = [*re.finditer(r"(?i)\s*\bOVER\s*\(\s*\)", of.text)]
    if not windows or not plain or len(found) != len(windows):
        return None
    found += re.finditer(r"(?i)\s+(?:ORDER BY [^()]*?)?\bLIMIT\s+\d+(?=\s*;?\s*\Z)", of.text)
    fixes = [Fix("", *match.span()) for match in found]
    return "leave OVER () out", replace(fixes[0], also=tuple(fixes[1:]))


def _replace_statement(of: RefusedStatement, one: Obstacle, statement: str, asks: str) -> Advice:
    block = of.outline.block(0)
    options = "" if block is None else split_options(of, block)[0]
    made = statement.replace("SELECT ", f"SELECT {options}", 1)
    return one.hint, Fix(made, 0 if block is None else block.select.start, len(of.text), asks=asks)


def _ask_quantile(of: RefusedStatement, one: Obstacle, window: exp.Window, rows: str) -> Advice | None:
    """`PERCENT_RANK() OVER (ORDER BY x)` is compared with a share: the value there is a quantile."""
    order = window.args.get("order")
    terms = order.expressions if order is not None else []
    span = of.outline.span(terms[0].this) if len(terms) == 1 else None
    keys = [of.outline.span(key) for key in window.args.get("partition_by") or ()]
    if span is None or None in keys:
        return None
    value, by = of.text[span[0] : span[1]], ", ".join(of.text[k[0] : k[1]] for k in keys if k is not None)
    first = re.search(rf"(?i)(?:\bOVER\s*\([^()]*\)|\b{_NUMBERED})\s*(=|<=|<)\s*\d+\b(?!\.)", of.text)
    select = window.find_ancestor(exp.Select)
    plain = select is not None and select.args.get("group") is None
    units = {n.unit for n in of.list_tables(select) if n.unit is not None} if select is not None else set()
    if first is not None and {key.name for key in window.args.get("partition_by") or ()} & units:
        return None  # a row of each unit
    if first is not None and plain and call_name(window.this) in _FIRST_ROWS:
        falling = bool(terms[0].args.get("desc"))
        largest = f"{'MAX' if falling else 'MIN'}({value})"
        which, each = "largest" if falling else "smallest", f" of each {by}" if by else ""
        asks = f"the {which} {value}{each}, without its row"
        rows = re.sub(
            r"(?i)(?:\bAND\b|\bWHERE\b)\s+\w*(?:rn|rk|rank|row_num|r|seq|num)\s*<?=?\s*\d+\s*\Z", "", rows
        )
        listed = f"{by}, {largest} {rows} GROUP BY {by}" if by else f"{largest} {rows}"
        return _replace_statement(of, one, f"SELECT {listed}", asks)
    quantile = f"PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY {value})"
    if not by:
        asks = f"the {value} that half of the rows are below"
        return _replace_statement(of, one, f"SELECT {quantile} {rows}", asks)
    asks = f"the {value} that half of the rows of each {by} are below"
    return _replace_statement(of, one, f"SELECT {by}, {quantile} {rows} GROUP BY {by}", asks)


def _ask_aggregate(of: RefusedStatement, one: Obstacle, window: exp.Window, rows: str) -> Advice | None:
    """`AVG(x) OVER (PARTITION BY k)` is one number a group, without the rows beside it.

    With ORDER BY it is computed over the numbers of groups.
    """
    at = of.query.source.position(window.this)
    call = of.outline.call_around(at, aggregate_name(window.this) or "")
    keys = [of.outline.span(key) for key in window.args.get("partition_by") or ()]
    order = window.args.get("order")
    select = window.find_ancestor(exp.Select)
    units = {n.unit for n in of.list_tables(select)} if select is not None else set()
    if call is None or None in keys or units & {key.name for key in window.args.get("partition_by") or ()}:
        return None
    over = next((c for c in _find_overs(of) if c[0] >= call[1]), None)
    # What stands behind the call belongs to it: FILTER, or WITHIN GROUP.
    text = of.text[call[0] : call[1] if over is None else over[0]].rstrip()
    if order is not None:
        spans = [*keys, *(of.outline.span(term.this) for term in order.expressions)]
        name = (aggregate_name(window.this) or "").upper()
        outer = "SUM" if name.startswith("COUNT") else name
        if (
            over is None
            or None in spans
            or outer not in ("SUM", "AVG", "MIN", "MAX")
            or "DISTINCT" in text.upper()
        ):
            return None
        by = ", ".join(of.text[s[0] : s[1]] for s in spans if s is not None)
        statement = f"SELECT {by}, {outer}({text}) {of.text[over[0] : over[1]]} {rows} GROUP BY {by}"
        return _replace_statement(of, one, statement, f"one row for each {by}")
    if not keys:
        return _replace_statement(of, one, f"SELECT {text} {rows}", "one number, without the rows beside it")
    by = ", ".join(of.text[key[0] : key[1]] for key in keys if key is not None)
    return _replace_statement(of, one, f"SELECT {by}, {text} {rows} GROUP BY {by}", f"one row for each {by}")


def partition_by_unit(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Suggest PARTITION BY the unit for LAG and the like, which read only rows of one unit."""
    select = node.find_ancestor(exp.Select)
    named = of.list_tables(select) if select is not None else []
    units = {f"{n.alias}.{n.unit}" if len(named) > 1 else n.unit for n in named if n.unit is not None}
    name = call_name(node.this) if isinstance(node, exp.Window) else ""
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
