"""Advise on windows in WHERE, on ORDER BY of a column of rows, and on the unit beside numbers of groups."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice.listed_rows import split_options
from dpsql.analysis.advice.refused_statement import Advice, RefusedStatement, add_clause
from dpsql.analysis.aggregate_functions import aggregate_calls, aggregate_name
from dpsql.errors import Fix, Obstacle
from dpsql.language import find_nodes, list_conjuncts
from dpsql.policy import fold


def move_window(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Move a condition on a window from WHERE to QUALIFY of a subquery, which has the other conditions."""
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


def group_by_order(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Add to GROUP BY what ORDER BY sorts the groups by: the number of a month, say, beside its name."""
    original = of.original(node)
    order, select = original.find_ancestor(exp.Order), original.find_ancestor(exp.Select)
    term = original.find_ancestor(exp.Ordered)
    group = select.args.get("group") if select is not None else None
    span = of.outline.span(term.this) if term is not None else None
    if order is None or select is None or order.parent is not select or group is None:
        return None
    if term is None or span is None:
        return None
    clause = of.outline.block(span[0])
    keys = None if clause is None else clause.clause(TokenType.GROUP_BY)
    if clause is None or keys is None or not isinstance(term.this, exp.Anonymous):
        return None
    read = {fold(c.name) for item in select.expressions for c in find_nodes(item, exp.Column)}
    if (
        any(aggregate_calls(term.this))
        or not {fold(c.name) for c in find_nodes(term.this, exp.Column)} <= read
    ):
        return None
    written = of.text[slice(*span)]
    at = len(of.text[: clause.stop(keys)].rstrip())
    provided = f"each group has one {written}"
    return f"GROUP BY .., {written}", Fix(f", {written}", at, at, provided=provided)


def count_shown_unit(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Count the units of each group, where the unit stands beside its numbers."""
    select, span = node.find_ancestor(exp.Select), of.outline.span(of.original(node))
    if not isinstance(node, exp.Column) or select is None or span is None:
        return None
    units = {fold(n.unit) for n in of.list_tables(select) if n.unit is not None}
    whole = of.original(node).parent
    shown = isinstance(whole, (exp.Select, exp.Alias)) and select.args.get("group") is not None
    divides = isinstance(whole, exp.Div) and any(aggregate_calls(whole.this))
    if fold(node.name) not in units or not (shown or divides):
        return None
    made = f"COUNT(DISTINCT {of.text[span[0] : span[1]]})"
    each = "each group has" if shown else "there are"
    return made, Fix(made, *span, asks=f"how many {node.name} {each}")


def limit_groups(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write LIMIT 10 for `WHERE ROWNUM <= 10` over groups, the largest by their first number."""
    parent, select = node.parent, node.find_ancestor(exp.Select)
    number = parent.expression if isinstance(parent, (exp.LTE, exp.LT)) else None
    block = of.outermost(node)
    where = block.clause(TokenType.WHERE) if block is not None else None
    if not isinstance(node, exp.Column) or node.name.upper() != "ROWNUM" or select is None or block is None:
        return None
    if not isinstance(number, exp.Literal) or where is None:
        return None
    if select.args.get("group") is None:
        if len(list_conjuncts(select.args["where"].this)) > 1 or any(
            any(aggregate_calls(item.unalias())) for item in select.expressions
        ):
            if len(list_conjuncts(select.args["where"].this)) == 1:
                fix = Fix("", where.start, block.stop(where), asks="all rows, not some of them")
                return "leave WHERE out", fix
            return f"no row has a number before it is shown: ORDER BY .. DESC LIMIT {number.name}", None
        return f"LIMIT {number.name}", Fix(f"LIMIT {number.name}", where.start, block.stop(where))
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


def move_to_having(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Move a condition on a number of the select list from WHERE to HAVING, on a window to QUALIFY."""
    original = of.original(node)
    select = original.find_ancestor(exp.Select)
    block = of.outline.block(of.query.source.position(node))
    where = block.clause(TokenType.WHERE) if block is not None else None
    if not isinstance(original, exp.Column) or select is None or block is None or where is None:
        return None
    items = [i for i in select.expressions if i.alias and _is_of_groups(i.unalias())]
    named = {fold(i.alias): i.unalias() for i in items}
    if original.find_ancestor(exp.Where) is None or original.table or fold(original.name) not in named:
        return None
    texts = _split_condition(of, where.end + 1, block.stop(where))
    moved = [text for text in texts if re.search(rf"(?i)\b{re.escape(original.name)}\b", text)]
    kept = [text for text in texts if text not in moved]
    ranked = isinstance(named[fold(original.name)], exp.Window)
    word, kind = ("QUALIFY", TokenType.QUALIFY) if ranked else ("HAVING", TokenType.HAVING)
    if len(moved) != 1 or block.clause(kind) is not None or select.args.get("group") is None:
        return None
    left = Fix(f"WHERE {' AND '.join(kept)} " if kept else "", where.start, block.stop(where))
    added = add_clause(of.text, block.before(kind), f"{word} {moved[0]}")
    return f"{word} {moved[0]}", replace(left, also=(added,))


def _is_of_groups(item: exp.Expr) -> bool:
    """Return whether an item is computed of groups: an aggregate, or a window over them."""
    return isinstance(item, exp.Window) or any(aggregate_calls(item))


def drop_number_of_key(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Leave the place or the name of a number out of GROUP BY 1, 2, 3."""
    select = node.find_ancestor(exp.Select)
    block = of.outline.block(of.query.source.position(node))
    clause = block.clause(TokenType.GROUP_BY) if block is not None else None
    if select is None or block is None or clause is None:
        return None
    keys = [of.text[a:b] for a, b in of.outline.items(clause.end + 1, block.stop(clause))]
    texts = of.items(select, block, split_options(of, block)[1])
    written = [
        fold(bare) for (bare, _), i in zip(texts, select.expressions, strict=False) if any(aggregate_calls(i))
    ]
    numbers = {
        name
        for i, item in enumerate(select.expressions)
        if any(aggregate_calls(item.unalias()))
        for name in (str(i + 1), fold(item.alias or str(i + 1)))
    }
    given = select.args["group"].expressions
    written += [fold(key) for key, each in zip(keys, given, strict=False) if any(aggregate_calls(each))]
    kept = [key for key in keys if fold(key) not in (*numbers, *written)]
    spans = [
        of.outline.span(i.unalias()) for i in select.expressions if not any(aggregate_calls(i.unalias()))
    ]
    if not kept and spans and None not in spans:  # what stands beside the number is meant
        kept = [of.text[slice(*span)] for span in spans if span is not None]
        end = len(of.text[: block.stop(clause)].rstrip())
        return f"GROUP BY {', '.join(kept)}", Fix(f"GROUP BY {', '.join(kept)}", clause.start, end)
    if not kept and keys and not spans and select.args.get("limit") is None:  # there are numbers alone
        end = len(of.text[: block.stop(clause)].rstrip())
        return "leave GROUP BY out", Fix("", len(of.text[: clause.start].rstrip()), end)
    if not kept or len(kept) == len(keys):
        return None
    end = len(of.text[: block.stop(clause)].rstrip())
    left = ", ".join(key for key in keys if key not in kept)
    return f"leave {left} out of GROUP BY", Fix(f"GROUP BY {', '.join(kept)}", clause.start, end)


def count_units_by_condition(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Count the units of more than five rows, for `COUNT(DISTINCT unit) .. WHERE COUNT(*) > 5`."""
    select, where = node.find_ancestor(exp.Select), node.find_ancestor(exp.Where)
    block = of.outermost(node)
    if select is None or where is None or block is None or block.from_ is None:
        return None
    named, clause = of.list_tables(select), block.clause(TokenType.WHERE)
    units = {n.unit for n in named if n.unit is not None}
    read = {key for key, value in select.args.items() if value}
    if (
        len(units) != 1
        or len(named) != 1
        or clause is None
        or read - {"expressions", "from_", "where", "kind"}
    ):
        return None
    if aggregate_name(node) is None or len(select.expressions) != 1:
        return None
    (unit,), texts = units, _split_condition(of, clause.end + 1, block.stop(clause))
    numbers = [text for text in texts if re.search(r"(?i)\b(count|sum|avg|min|max)\s*\(", text)]
    rows = [text for text in texts if text not in numbers]
    inner = f"SELECT {unit} {of.text[block.from_.start : clause.start].strip()}"
    inner += f" WHERE {' AND '.join(rows)}" if rows else ""
    options = split_options(of, block)[0]
    made = f"SELECT {options}COUNT(*) FROM ({inner} GROUP BY {unit} HAVING {' AND '.join(numbers)})"
    return made, Fix(of.text[: block.select.start] + made, 0, len(of.text), asks=f"how many {unit} meet it")


def tie_subquery(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Add the equality of the units to a subquery that is not tied to the row around it."""
    select = node if isinstance(node, exp.Select) else node.find_ancestor(exp.Select)
    outer = (
        select.parent.find_ancestor(exp.Select) if select is not None and select.parent is not None else None
    )
    if select is None or outer is None or aggregate_name(select.expressions[0].unalias()) is not None:
        return None
    where = select.args.get("where")
    mine = [n for n in of.list_tables(select) if n.unit is not None]
    named = {fold(c.name) for c in find_nodes(where, exp.Column)} if where is not None else set()
    if select.args.get("joins") or {fold(n.unit or "") for n in mine} & named:
        return None
    if where is not None and isinstance(where.this.unnest(), exp.Or):
        return None
    theirs = [n for n in of.list_tables(outer) if n.unit is not None]
    if len(mine) != 1 or len(theirs) != 1 or fold(mine[0].alias) == fold(theirs[0].alias):
        return None
    block = of.outline.block(of.query.source.position(mine[0].node))
    kinds = {unit.kind for n in (mine[0], theirs[0]) if (unit := n.table.unit) is not None}
    if block is None or len(kinds) != 1:
        return None
    same = f"{mine[0].alias}.{mine[0].unit} = {theirs[0].alias}.{theirs[0].unit}"
    clause = block.clause(TokenType.WHERE)
    asks = f"rows of one {theirs[0].unit}"
    if clause is None:
        return f"WHERE {same}", replace(
            add_clause(of.text, block.before(TokenType.WHERE), f"WHERE {same}"), asks=asks
        )
    return f"WHERE {same} AND ..", Fix(f" {same} AND", clause.end + 1, clause.end + 1, asks=asks)


def compare_in_qualify(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write QUALIFY for `HAVING n > AVG(n)`, which compares each group with all groups."""
    original = of.original(node)
    select, outer = original.find_ancestor(exp.Select), original.parent
    block = of.outline.block(of.query.source.position(node))
    clause = block.clause(TokenType.HAVING) if block is not None else None
    if select is None or outer is None or block is None or clause is None or aggregate_name(outer) is None:
        return None
    items = {fold(i.alias): i.unalias() for i in select.expressions if i.alias}
    number = items.get(fold(original.name)) if isinstance(original, exp.Column) else None
    if number is None or not any(aggregate_calls(number)) or select.args.get("qualify") is not None:
        return None
    span, call = (
        of.outline.span(number),
        of.outline.call_around(of.query.source.position(node), aggregate_name(outer) or ""),
    )
    if span is None or call is None:
        return None
    text, stop = of.text, len(of.text[: block.stop(clause)].rstrip())
    written = text[span[0] : span[1]]
    name = text[call[0] : text.index("(", call[0])]
    condition = f"{text[clause.end + 1 : call[0]]}{name}({written}) OVER (){text[call[1] : stop]}".strip()
    return f"QUALIFY {condition}", Fix(f"QUALIFY {condition}", clause.start, stop)


def unquote_place(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write the place of a column without quotes: GROUP BY "1"."""
    span = of.outline.span(of.original(node))
    if not isinstance(node, exp.Column) or not node.name.isdigit() or span is None:
        return None
    return node.name, Fix(node.name, *span)


def take_all_rows(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Leave LIMIT out of a subquery of rows, or a condition by chance out of WHERE: all rows are taken."""
    block = of.outline.block(of.query.source.position(node))
    asks = "all rows, not some of them"
    limit = None if block is None else block.clause(TokenType.LIMIT)
    if block is not None and limit is not None and of.outline.parentheses(block) is not None:
        order = block.clause(TokenType.ORDER_BY) or limit
        return "leave LIMIT out", Fix("", len(of.text[: order.start].rstrip()), block.end, asks=asks)
    form = r"\b(?:RAND|RANDOM)\s*\(\s*\)\s*[<>]=?\s*[\d.]+"
    chance = re.search(rf"(?i){form}\s+AND\s+|\s+AND\s+{form}|\s*\bWHERE\s+{form}", of.text)
    return ("all rows", Fix("", *chance.span(), asks=asks)) if chance is not None else None
