"""Advise on aggregates and conditions that stand at another level than they mean, and on lists as values."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.analysis.advice.listed_rows import split_options
from dpsql.analysis.advice.refused_statement import Advice, RefusedStatement, add_clause, add_row_condition
from dpsql.analysis.aggregate_functions import aggregate_calls, aggregate_name, contains_aggregate
from dpsql.analysis.compiler import function_name, read_item
from dpsql.errors import Fix, Obstacle
from dpsql.language import BlockText, list_conjuncts, list_given
from dpsql.policy import fold

Call = tuple[int, int, tuple[str, ...]]
"""Where a call stands in the text, and its arguments."""


def advise_on_row_condition(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Move a condition on rows from HAVING to WHERE."""
    node = of.original(node)
    having = node.find_ancestor(exp.Having)
    block = of.outline.block(of.query.source.position(node)) if having is not None else None
    clause = block.clause(TokenType.HAVING) if block is not None else None
    if (
        having is None
        or block is None
        or clause is None
        or node.find_ancestor(exp.Select) is not having.parent
    ):
        return None
    parts = [part.unnest() for part in list_conjuncts(having.this)]
    spans = [of.outline.span(part) for part in parts]
    if None in spans or isinstance(having.this.unnest(), exp.Or):
        return None
    select = having.parent
    if not isinstance(select, exp.Select):
        return None
    names = {fold(item.alias) for item in select.expressions if isinstance(item, exp.Alias)}

    def is_of_rows(part: exp.Expr) -> bool:
        columns = [fold(column.name) for column in part.find_all(exp.Column) if not column.table]
        return not contains_aggregate(part) and not names & set(columns)

    written = [of.text[a:b] for a, b in (span for span in spans if span is not None)]
    texts = [f"({w})" if isinstance(p, exp.Or) else w for p, w in zip(parts, written, strict=True)]
    rows = [text for part, text in zip(parts, texts, strict=True) if is_of_rows(part)]
    groups = [text for part, text in zip(parts, texts, strict=True) if not is_of_rows(part)]
    if not rows:
        return None
    text, moved = of.text, " AND ".join(rows)
    left = Fix(f"HAVING {' AND '.join(groups)} " if groups else "", clause.start, block.stop(clause))
    added = add_row_condition(text, block, moved)
    asks = f"only the rows with {moved}"
    return f"WHERE {moved}", Fix(left.text, left.start, left.end, also=(added,), asks=asks)


def advise_on_nested_aggregate(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Aggregate the numbers of groups in a SELECT over them, where an aggregate stands in another one.

    Beside other items of the groups, the aggregate is one of all groups: a window.
    """
    select, outer = node.find_ancestor(exp.Select), node.parent
    at = of.query.source.position(node)
    block = of.outline.block(at)
    if select is None or outer is None or block is None or block.from_ is None:
        return None
    options = split_options(of, block)[0]
    inner: exp.Expr = node
    while inner.parent is not None and inner.parent is not select and aggregate_name(inner.parent) is None:
        inner = inner.parent
    if inner is not node and inner.parent not in (None, select) and not inner.find(exp.Ordered, exp.Window):
        node, outer = inner, inner.parent or outer  # a formula: AVG(DATEDIFF(MAX(day), MIN(day)))
    name = aggregate_name(outer)
    own, text = of.call(node), of.text
    if own is not None and isinstance(outer, (exp.Ordered, exp.Order, exp.WithinGroup)):
        return _number_in_subquery(of, select, block, own)
    whole = of.outline.call_around(own[0] - 1, name or "") if own is not None else None
    if name is None or own is None or whole is None:
        return None
    clause = block.clause(TokenType.HAVING)
    if clause is not None and clause.start < at:
        found = _order_by_compared(of, block, clause, text[own[0] : own[1]], node)
        stop = len(text[: block.stop(clause)].rstrip())
        condition = f"{text[clause.end + 1 : whole[1]]} OVER (){text[whole[1] : stop]}".strip()
        return found or (f"QUALIFY {condition}", Fix(f"QUALIFY {condition}", clause.start, stop))
    if at > block.from_.start:
        return None
    if select.args.get("group") is None:
        return _group_by_unit(of, select, block, (whole, own), name)
    if len(select.expressions) > 1:
        units = {fold(n.unit) for n in of.list_tables(select) if n.unit is not None}
        if units & {fold(key.name) for key in select.args["group"].expressions}:
            return _number_in_subquery(of, select, block, own)
        if name.lower() in ("avg", "median", "stddev", "variance", "quantile_cont") and len(units) == 1:
            return _group_by_unit_too(of, select, block, (whole, own), name)
        clauses = {key for key, value in select.args.items() if value} - {"kind", "joins", "where"}
        if name.lower() in ("max", "min") and clauses == {"expressions", "from_", "group"}:
            number = text[own[0] : own[1]]
            order = f"ORDER BY {number}{' DESC' * (name.lower() == 'max')} LIMIT 1"
            asks = f"the group with the {'largest' if name.lower() == 'max' else 'smallest'} {number}"
            fix = Fix(number, whole[0], whole[1], asks=asks)
            return order, replace(fix, also=(add_clause(text, block.before(TokenType.ORDER_BY), order),))
        asks = "one number of all groups"
        return f"{text[whole[0] : whole[1]]} OVER ()", Fix(" OVER ()", whole[1], whole[1], asks=asks)
    read = {key for key, value in select.args.items() if value}
    item = select.expressions[0].unalias()
    if read - {"expressions", "from_", "joins", "where", "group", "kind"} or item is not outer:
        return _number_in_subquery(of, select, block, own)
    rows = text[block.from_.start : block.end].strip()
    made = f"SELECT {options}{name.upper()}(n) FROM (SELECT {text[own[0] : own[1]]} AS n {rows})"
    around = of.outline.parentheses(block)
    if around is not None:
        return made, Fix(f"({made})", *around)
    return made, Fix(text[: block.select.start] + made, 0, len(text))


def _order_by_compared(
    of: RefusedStatement, block: BlockText, clause: Token, number: str, node: exp.Expr
) -> Advice | None:
    """`HAVING COUNT(*) = MAX(COUNT(*))` is the group that comes first by its number."""
    having, outer = of.original(node).find_ancestor(exp.Having), node.parent
    name = aggregate_name(outer) if outer is not None else None
    plain = having is not None and isinstance(having.this, exp.EQ) and name in ("max", "min")
    if not plain or block.clause(TokenType.ORDER_BY) is not None or block.clause(TokenType.LIMIT) is not None:
        return None
    order = f"ORDER BY {number}{' DESC' * (name == 'max')} LIMIT 1"
    asks = "one group, also if several have that number"
    fix = Fix("", len(of.text[: clause.start].rstrip()), block.stop(clause), asks=asks)
    return order, replace(fix, also=(add_clause(of.text, block.stop(clause), order),))


def _group_by_unit(
    of: RefusedStatement, select: exp.Select, block: BlockText, calls: tuple[Call, Call], name: str
) -> Advice | None:
    """`AVG(COUNT(*))` of a table is the average of what each unit has."""
    units = {n.unit for n in of.list_tables(select) if n.unit is not None}
    if len(units) != 1 or block.from_ is None or len(of.list_tables(select)) > 1:
        return None
    (unit,), (whole, own), text = units, calls, of.text
    stop = min((t.start for t in block.clauses if t.token_type != TokenType.WHERE), default=block.end)
    rows = text[block.from_.start : stop].strip()
    inner = f"(SELECT {text[own[0] : own[1]]} AS n {rows} GROUP BY {unit})"
    asks = f"the numbers of each {unit}"
    options, begin = split_options(of, block)
    if text[begin : block.from_.start].strip() == text[whole[0] : whole[1]]:
        made = f"SELECT {options}{name.upper()}(n) FROM {inner}"
        return made, Fix(made, block.select.start, block.end, asks=asks)
    made = f"(SELECT {name.upper()}(n) FROM {inner})"
    return made, Fix(made, whole[0], whole[1], asks=asks)


def _number_in_subquery(
    of: RefusedStatement, select: exp.Select, block: BlockText, own: Call
) -> Advice | None:
    """Compute the numbers of the groups of units in a subquery, and the rest over them.

    Keys that are shown besides are the groups of the rest.
    """
    clause, text = block.clause(TokenType.GROUP_BY), of.text
    options, begin = split_options(of, block)
    spans = [] if block.from_ is None else of.outline.items(begin, block.from_.start)
    units = {fold(n.unit) for n in of.list_tables(select) if n.unit is not None}
    if clause is None or block.from_ is None or len(spans) != len(select.expressions):
        return None
    keys = [text[a:b] for a, b in of.outline.items(clause.end + 1, block.stop(clause))]
    shown = [text[a:b] for a, b in spans if not a <= own[0] < b]
    others = [key for key in keys if fold(key.split(".")[-1]) not in units]
    plain = all(re.fullmatch(r"\w+", key) and not key.isdigit() for key in keys)
    if not plain or sorted(map(fold, shown)) != sorted(map(fold, others)) or block.stop(clause) != block.end:
        return None
    number, rows = text[own[0] : own[1]], text[block.from_.start : block.end].strip()
    items = ", ".join(
        f"{text[a : own[0]]}n{text[own[1] : b]}" if a <= own[0] < b else text[a:b] for a, b in spans
    )
    inner = ", ".join([*others, f"{number} AS n"])
    made = f"SELECT {options}{items} FROM (SELECT {inner} {rows})"
    made += f" GROUP BY {', '.join(others)}" if others else ""
    return made, Fix(made, block.select.start, block.end)


def _group_by_unit_too(
    of: RefusedStatement, select: exp.Select, block: BlockText, calls: tuple[Call, Call], name: str
) -> Advice | None:
    """`SELECT k, AVG(AVG(x)) .. GROUP BY k` is the average of what each unit has in a group."""
    (whole, own), text, clause = calls, of.text, block.clause(TokenType.GROUP_BY)
    named = of.list_tables(select)
    unit = next(f"{n.alias}.{n.unit}" if len(named) > 1 else n.unit for n in named if n.unit is not None)
    if block.from_ is None or clause is None or len(named) != 1 + len(select.args.get("joins") or ()):
        return None
    if any(len(join.args.get("using") or ()) for join in select.args.get("joins") or ()):
        unit = next(n.unit for n in named if n.unit is not None)
    keys = [text[a:b] for a, b in of.outline.items(clause.end + 1, block.stop(clause))]
    if not all(re.fullmatch(r"[\w.]+", key) and not key.isdigit() for key in keys):
        return None
    rows = text[block.from_.start : clause.start].strip()
    shown = ", ".join([str(unit), *keys])
    inner = f"FROM (SELECT {shown}, {text[own[0] : own[1]]} AS n {rows} GROUP BY {shown}) "
    plain = tuple(
        Fix(match[2], start + match.start(), start + match.end())
        for start, end in (
            *of.outline.items(split_options(of, block)[1], block.from_.start),
            *of.outline.items(clause.end + 1, block.stop(clause)),
        )
        if (match := re.match(r"(\w+)\.(\w+)(?=\s|,|\Z)", text[start:end])) is not None
    )
    moved = Fix(inner, block.from_.start, clause.start)
    made = f"{name.upper()}(n)"
    return f"{made} {inner}", Fix(
        made, whole[0], whole[1], asks=f"the numbers of each {unit}", also=(moved, *plain)
    )


def advise_on_average_in_where(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Compare rows with the average of the whole table by a subquery, where an aggregate stands in WHERE."""
    where = node.find_ancestor(exp.Where)
    select = node.find_ancestor(exp.Select)
    name = (aggregate_name(node) or "count").lower()
    if where is None or select is None or where.parent is not select or name in ("count", "sum"):
        return None
    call = of.outline.call_around(of.query.source.position(node), name)
    block = of.outline.block(of.query.source.position(node))
    if call is None or block is None or block.from_ is None or select.args.get("joins"):
        return None
    first = select.args["from_"].this
    if isinstance(first, exp.Subquery) and isinstance(first.this, exp.Select):
        inner = of.outline.block(of.query.source.position(first.this.expressions[0]))
        around = None if inner is None else of.outline.parentheses(inner)
        if around is None:
            return None
        written = f"(SELECT {of.text[call[0] : call[1]]} FROM {of.text[slice(*around)]})"
        return "(SELECT .. FROM (..))", Fix(
            written, call[0], call[1], asks="rows are compared with all of them"
        )
    if not isinstance(first, exp.Table):
        return None
    alias = f" {first.alias}" if first.alias else ""
    written = f"(SELECT {of.text[call[0] : call[1]]} FROM {first.name}{alias})"
    return written, Fix(written, call[0], call[1], asks=f"rows are compared with all of {first.name}")


def compare_with_quantile(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Compare rows with a quantile of the whole table by a subquery."""
    block = of.outline.block(of.query.source.position(node))
    where = None if block is None else block.clause(TokenType.WHERE)
    if block is None or block.from_ is None or where is None:
        return None
    source = of.text[block.from_.start : where.start]
    found = re.search(r"(?i)\bPERCENTILE_\w+\s*\([^()]*\)\s*WITHIN\s+GROUP\s*\([^()]*\)", of.text)
    table = re.match(r"(?i)FROM\s+(\w+)\s*(?:\w+\s*)?\Z", source)
    if found is None or table is None or found.start() < where.start:
        return None
    written = f"(SELECT {found[0]} FROM {table[1]})"
    return written, Fix(written, *found.span(), asks=f"rows are compared with all of {table[1]}")


def advise_on_several_rows(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Compare with a list by IN, where `=` compares with a subquery of several rows."""
    sub = node if isinstance(node, exp.Subquery) else node.find_ancestor(exp.Subquery)
    around = sub.parent if sub is not None else None
    if sub is None or not isinstance(around, exp.EQ) or around.expression is not sub:
        return None
    span = of.outline.span(around.this)
    if span is None:
        return None
    at = of.text.find("=", span[1])
    if at < 0 or of.text[span[1] : at].strip() or not of.text[at + 1 :].lstrip().startswith("("):
        return None
    before, after = ("" if of.text[i].isspace() else " " for i in (at - 1, at + 1))
    return "IN (SELECT ..)", Fix(f"{before}IN{after}", at, at + 1)


def advise_on_several_values(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Count different rows of several columns as one row value."""
    at = of.query.source.position(node)
    call = of.outline.call_around(at, "count")
    if call is None or len(call[2]) < 2 or call[2][0][:9].upper() != "DISTINCT ":
        return None
    values = ", ".join([call[2][0][9:].strip(), *call[2][1:]])
    written = f"COUNT(DISTINCT ({values}))"
    return written, Fix(written, call[0], call[1], asks="a row with NULL counts, too")


def advise_on_windowed_count(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Count the rows of each group, where a window counts the rows of each partition."""
    select, block = of.query.tree, of.outermost(node)
    if not isinstance(select, exp.Select) or block is None or block.from_ is None:
        return None
    windows = [w for item in select.expressions for w in item.find_all(exp.Window)]
    read = list_given(select)
    if read - {"expressions", "from_", "joins", "where", "kind"} or len(windows) != 1:
        return None
    keys = windows[0].args.get("partition_by") or []
    shown = [item.unalias() for item in select.expressions if not item.find(exp.Window)]
    if not keys or windows[0].args.get("order") or any(item not in keys for item in shown):
        return None
    call = of.outline.call_around(
        of.query.source.position(windows[0].this), (function_name(windows[0].this) or "").lower()
    )
    spans = [of.outline.span(key) for key in keys]
    if call is None or None in spans or aggregate_name(windows[0].this) is None:
        return None
    listed = ", ".join(of.text[a:b] for a, b in (span for span in spans if span is not None))
    rows = of.text[block.from_.start : block.end].strip()
    options = split_options(of, block)[0]
    whole = f"SELECT {options}{listed}, {of.text[call[0] : call[1]]} AS n {rows} GROUP BY {listed}"
    fix = Fix(of.text[: block.select.start] + whole, 0, len(of.text), asks=f"one row for each {listed}")
    return whole, fix


def list_aggregates(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Select the aggregates of `(x - AVG(x)) / STDDEV(x)`, which is a number of each row."""
    whole = of.original(node)
    select, item = whole.find_ancestor(exp.Select), whole
    while item.parent is not None and item.parent is not select:
        item = item.parent
    block = of.outline.block(of.query.source.position(node))
    if select is None or select.args.get("group") is not None or block is None or block.from_ is None:
        return None
    places = of.outline.items(split_options(of, block)[1], block.from_.start)
    calls = list(aggregate_calls(item))
    spans = [of.call(call) for call in calls]
    if len(places) != len(select.expressions) or item not in select.expressions or item.find(exp.Window):
        return None
    if not calls or item.unalias() in calls or None in spans:
        return None
    listed = ", ".join(dict.fromkeys(of.text[s[0] : s[1]] for s in spans if s is not None))
    start, end = places[select.expressions.index(item)]
    return listed, Fix(listed, start, end, asks="the numbers of all rows that each row is compared with")


def show_key(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write the key of `GROUP BY ROUND(cost)` where its column is shown, or orders groups."""
    select, span = node.find_ancestor(exp.Select), of.outline.span(of.original(node))
    block = of.outline.block(of.query.source.position(node))
    clause = None if block is None else block.clause(TokenType.GROUP_BY)
    if not isinstance(node, exp.Column) or select is None or span is None or block is None or clause is None:
        return None
    parent = of.original(node).parent
    if not isinstance(parent, (exp.Select, exp.Alias, exp.Ordered)):
        return None
    word = "ORDER BY" if isinstance(parent, exp.Ordered) else "SELECT"
    keys = of.outline.items(clause.end + 1, block.stop(clause))
    for key, (start, end) in zip(select.args["group"].expressions, keys, strict=False):
        whole, written = read_item(select, key), of.text[start:end]
        read = [fold(column.name) for column in whole.find_all(exp.Column)]
        if read == [fold(node.name)] and not isinstance(whole, exp.Column) and not written.isdigit():
            return f"{word} {written}", Fix(written, *span)
    return None


def advise_on_plain_value(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Take the average of a number that is shown beside the keys of groups."""
    select, span = node.find_ancestor(exp.Select), of.outline.span(of.original(node))
    block = of.outline.block(of.query.source.position(node))
    if not isinstance(node, exp.Column) or select is None or span is None or block is None:
        return None
    listed = [column for n in of.list_tables(select) for column in of.catalog.columns(n.table.name)]
    number = any(fold(name) == fold(node.name) and kind.numeric for name, kind in listed)
    behind = block.from_ is None or span[0] > block.from_.start
    whole = isinstance(of.original(node).parent, (exp.Select, exp.Alias))
    if select.args.get("group") is None or behind or not number or not whole:
        return None
    made = f"AVG({of.text[span[0] : span[1]]})"
    return made, Fix(made, *span, asks=f"the average {node.name} of each group")


def advise_on_tied_average(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Compare with one number of all rows, where a subquery has one for each row, of many units."""
    select = node if isinstance(node, exp.Select) else node.find_ancestor(exp.Select)
    where = select.args.get("where") if select is not None else None
    if select is None or where is None or not isinstance(select.parent, exp.Subquery):
        return None
    block = of.outline.block(of.query.source.position(where.this) + 1)
    clause = block.clause(TokenType.WHERE) if block is not None else None
    plain = isinstance(where.this, (exp.EQ, exp.NEQ)) and all(
        isinstance(side, exp.Column) for side in where.this.args.values()
    )
    if block is None or clause is None or not plain or not any(aggregate_calls(select.expressions[0])):
        return None
    start, stop = len(of.text[: clause.start].rstrip()), block.stop(clause)
    kept = of.text[start:stop].rstrip()
    fix = Fix("", start, start + len(kept), asks="rows are compared with one number of all rows")
    return f"leave{kept} out", fix
