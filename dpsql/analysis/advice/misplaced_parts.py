"""Advise on windows in WHERE, on ORDER BY of a column of rows, and on the unit beside numbers of groups."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice.unknown_names import Advice, RefusedStatement, add_clause
from dpsql.analysis.aggregate_functions import aggregate_calls
from dpsql.analysis.compiler import list_conjuncts
from dpsql.errors import Fix, Obstacle
from dpsql.policy import fold


def move_window(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Move a condition on a window from WHERE to QUALIFY of a subquery, whose rows are those that are left."""
    where, select = node.find_ancestor(exp.Where), node.find_ancestor(exp.Select)
    block = of.outline.block(of.query.source.position(node))
    clause = block.clause(TokenType.WHERE) if block is not None else None
    if where is None or select is None or where.parent is not select or block is None or clause is None:
        return None
    if block.from_ is None or len(of.list_tables(select)) != 1 or select.args.get("joins"):
        return None
    texts = _split_condition(of, clause.end + 1, block.stop(clause))
    if len(texts) != len(list_conjuncts(where.this)):
        return None
    ranked = [text for text in texts if re.search(r"(?i)\bOVER\b", text)]
    rows = [text for text in texts if text not in ranked]
    table, alias = select.args["from_"].this, select.args["from_"].this.alias
    inside = f"SELECT * FROM {table.name}{f' AS {alias}' if alias else ''}"
    inside += f" WHERE {' AND '.join(rows)}" if rows else ""
    made = f"FROM ({inside} QUALIFY {' AND '.join(ranked)}) AS {alias or table.name}"
    after = " " if block.stop(clause) < len(of.text) else ""
    return f"{made}", Fix(f"{made}{after}", block.from_.start, block.stop(clause))


def _split_condition(of: RefusedStatement, start: int, stop: int) -> list[str]:
    """Return the parts of a condition between AND, outside of parentheses."""
    depth, begin, found = 0, start, list[str]()
    for token in of.outline.tokens:
        if start <= token.start < stop:
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            if not depth and token.token_type == TokenType.AND:
                found.append(of.text[begin : token.start].strip())
                begin = token.end + 1
    return [*found, of.text[begin:stop].strip()]


def order_by_average(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Order groups by the average of a number, where ORDER BY has the number of a row."""
    original = of.original(node)
    select, span = original.find_ancestor(exp.Select), of.outline.span(original)
    if not isinstance(original, exp.Column) or select is None or span is None:
        return None
    listed = [column for n in of.list_tables(select) for column in of.catalog.columns(n.table.name)]
    number = any(fold(name) == fold(original.name) and kind.numeric for name, kind in listed)
    if original.find_ancestor(exp.Order) is None or not number or select.args.get("group") is None:
        return None
    made = f"AVG({of.text[span[0] : span[1]]})"
    return f"ORDER BY {made}", Fix(made, *span, asks=f"in the order of the average {original.name}")


def count_shown_unit(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Count the units of each group, where the unit stands beside its numbers."""
    select, span = node.find_ancestor(exp.Select), of.outline.span(of.original(node))
    if not isinstance(node, exp.Column) or select is None or span is None:
        return None
    units = {fold(n.unit) for n in of.list_tables(select) if n.unit is not None}
    shown = any(item.unalias() is node or item.unalias() == node for item in select.expressions)
    if fold(node.name) not in units or not shown or select.args.get("group") is None:
        return None
    made = f"COUNT(DISTINCT {of.text[span[0] : span[1]]})"
    return made, Fix(made, *span, asks=f"how many {node.name} each group has")


def limit_groups(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """`WHERE ROWNUM <= 10` of groups is LIMIT 10, of the largest by their first number."""
    parent, select = node.parent, node.find_ancestor(exp.Select)
    number = parent.expression if isinstance(parent, (exp.LTE, exp.LT)) else None
    block = of.outermost(node)
    where = block.clause(TokenType.WHERE) if block is not None else None
    if not isinstance(node, exp.Column) or node.name.upper() != "ROWNUM" or select is None or block is None:
        return None
    if not isinstance(number, exp.Literal) or where is None or select.args.get("group") is None:
        return None
    parts = [part.unnest() for part in list_conjuncts(select.args["where"].this)]
    spans = [of.outline.span(part) for part in parts if part is not parent]
    numbers = [item for item in select.expressions if any(aggregate_calls(item.unalias()))]
    if None in spans or not numbers or len(parts) != len(spans) + 1:
        return None
    by = numbers[0].alias or of.text[slice(*(of.outline.span(numbers[0].unalias()) or (0, 0)))]
    kept = " AND ".join(of.text[a:b] for a, b in (span for span in spans if span is not None))
    most = int(number.name) - isinstance(parent, exp.LT)
    ordered = "" if select.args.get("order") is not None else f"ORDER BY {by} DESC "
    clause = f"{ordered}LIMIT {most}"
    fix = Fix(f"WHERE {kept} " if kept else "", where.start, block.stop(where))
    asks = f"{most} groups of all their rows, not groups of {most} rows"
    added = add_clause(of.text, block.before(TokenType.LIMIT), clause)
    return clause, replace(fix, also=(added,), asks=asks)
