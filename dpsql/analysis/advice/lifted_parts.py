"""Advise to compute in a subquery, or in a join, what stands inside of an expression."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice.listed_rows import split_options
from dpsql.analysis.advice.refused_statement import Advice, RefusedStatement
from dpsql.analysis.aggregate_functions import contains_aggregate
from dpsql.analysis.compiler import call_name, function_name
from dpsql.errors import Fix, Obstacle
from dpsql.language import find_nodes, list_conjuncts
from dpsql.lazy_pattern import lazy_pattern
from dpsql.policy import fold

_ROWS = (TokenType.WHERE,)
_SELECTING = (TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.FETCH)


def lift_window(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Compute a window inside of an aggregate in a subquery of FROM, for the rows of one unit."""
    select, block = node.find_ancestor(exp.Select), of.outline.block(of.query.source.position(node))
    if select is None or block is None or block.from_ is None or not isinstance(node, exp.Window):
        return None
    calls = _list_windows(of, block.select.end, block.from_.start)
    named = of.list_tables(select)
    units = {f"{n.alias}.{n.unit}" if len(named) > 1 else n.unit for n in named if n.unit is not None}
    if not calls or len(named) != 1 + len(select.args.get("joins") or ()) or not units:
        return None
    unit, text, asks = min(str(unit) for unit in units), of.text, ""
    stops = [t.start for t in block.clauses if t.token_type not in _ROWS]
    rows = text[block.from_.start : min(stops, default=block.end)].strip()
    columns, fixes = list[str](), list[Fix]()
    for i, (start, end, inside) in enumerate(calls):
        name = "w" if len(calls) == 1 else f"w{i + 1}"
        own = any(fold(unit.split(".")[-1]) == fold(word) for word in re.findall(r"\w+", _keys_of(inside)))
        written = text[start:end]
        if not own:
            asks = f"the rows of one {unit}"
            at = written.upper().rindex(inside.upper())
            by = f"PARTITION BY {unit}"
            keys = re.match(r"(?is)\s*PARTITION\s+BY\s+", inside)
            new = f"{by}, {inside[keys.end() :]}" if keys is not None else f"{by} {inside.strip()}"
            written = f"{written[:at]}{new}{written[at + len(inside) :]}"
        columns.append(f"{written} AS {name}")
        fixes.append(Fix(name, start, end))
    alias = f" AS {named[0].alias}" if len(named) == 1 else ""
    source = f"FROM (SELECT *, {', '.join(columns)} {rows}){alias} "
    moved = Fix(source, block.from_.start, min(stops, default=block.end))
    fix = replace(fixes[0], also=(*fixes[1:], moved), asks=asks)
    return f"{source.strip()}", fix


def _keys_of(inside: str) -> str:
    """Return the text of PARTITION BY in the parentheses of OVER."""
    found = re.match(r"(?is)\s*PARTITION\s+BY\s+(.*?)(?:\bORDER\s+BY\b|\bROWS\b|\bRANGE\b|\Z)", inside)
    return "" if found is None else found[1]


def _list_windows(of: RefusedStatement, begin: int, end: int) -> list[tuple[int, int, str]]:
    """Return where windows stand between two places, and what is in the parentheses of their OVER."""
    found, tokens = list[tuple[int, int, str]](), of.outline.tokens
    for i, token in enumerate(tokens):
        if token.text.upper() != "OVER" or not begin < token.start < end:
            continue
        over = of.outline.call_around(token.start, "over")
        closed, depth = i - 1, 0
        if over is None or tokens[closed].token_type != TokenType.R_PAREN:
            return []
        while closed >= 0:
            depth += (tokens[closed].token_type == TokenType.R_PAREN) - (
                tokens[closed].token_type == TokenType.L_PAREN
            )
            if not depth:
                break
            closed -= 1
        text = of.text[over[0] : over[1]]
        found.append((tokens[closed - 1].start, over[1], text[text.index("(") + 1 : -1]))
    return found


def select_released(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Select among released groups in an outer query, where HAVING or LIMIT would select before."""
    select, block = of.query.tree, of.outline.block(0)
    if not isinstance(select, exp.Select) or block is None or block.from_ is None:
        return None
    clauses = [t for t in block.clauses if t.token_type in _SELECTING]
    (options, begin), text = split_options(of, block), of.text
    top = re.fullmatch(r"(?i)\s*TOP\s+(\d+)\s*", text[block.select.end + 1 : begin])
    if not clauses or (of.has_options and not options):
        return None
    items, shown, names = of.items(select, block, begin), list[str](), iter(("n", "n2", "n3"))
    rest, labels, outer = text[clauses[0].start : block.end], list[str](), "*"
    for (bare, given), item in zip(items, select.expressions, strict=False):
        name = given
        if contains_aggregate(item):
            name = given if given.isidentifier() else next(names, "n4")
            number = r"\s*".join(map(re.escape, re.findall(r"\w+|\S", bare)))
            rest = re.sub(rf"(?i)(?<!\w){number}", name, rest)
        shown.append(f"{bare} AS {name}" if name else bare)
        labels.append(name or bare.rpartition(".")[2])
    for call in dict.fromkeys(re.findall(r"\b\w+\s*\([^()]*\)", rest)):  # which are not shown
        name, outer = next(names, "n4"), ", ".join(labels)
        rest = rest.replace(call, name)
        shown.append(f"{call} AS {name}")
    if not items or re.search(r"\w\s*\(", f"{rest} {outer}"):
        return None
    inner = f"SELECT {', '.join(shown)} {text[block.from_.start : clauses[0].start].strip()}"
    rest = re.sub(r"(?i)\AHAVING\b", "WHERE", rest.strip()) + (f" LIMIT {top[1]}" if top is not None else "")
    whole = f"SELECT {options}{outer} FROM ({inner}) {rest}"
    return whole, Fix(text[: block.select.start] + whole, 0, len(text))


def select_least(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Select the first of the groups that are shown, where those of undeclared values have no first."""
    found = select_released(of, node, one)
    fix = None if found is None else found[1]
    return None if fix is None else (fix.text, replace(fix, asks="the first of the groups that are shown"))


def join_release(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Join the numbers of all rows around it, where a subquery has one number for each of them."""
    inner = node.unnest() if isinstance(node, exp.Subquery) else node
    outer = node.find_ancestor(exp.Select) if node is not inner else None
    outer = outer or (inner.parent.find_ancestor(exp.Select) if inner.parent is not None else None)
    if not isinstance(inner, exp.Select) or outer is None or outer.args.get("joins"):
        return None
    block = of.outline.block(of.query.source.position(inner.expressions[0]))
    around = None if block is None else of.outline.parentheses(block)
    where = None if block is None else block.clause(TokenType.WHERE)
    if block is None or around is None or where is None or len(inner.expressions) != 1 or block.from_ is None:
        return None
    if inner.args.get("group") is not None or not contains_aggregate(inner.expressions[0]):
        return None
    ties = _split_ties(of, inner, outer)
    if ties is None:
        return None
    written, kept = ties
    item = of.text[block.select.end + 1 : block.from_.start].strip()
    outside = of.outline.block(around[0] - 1)
    if outside is None or outside.from_ is None:
        return None
    rows = f"{of.text[block.from_.start : where.start].strip()}{kept}"
    join = f"LEFT JOIN {_write_join(written, f'{item} AS n', rows, 'r')}"
    stops = [t.start for t in outside.clauses]
    at = len(of.text[: min(stops, default=outside.end)].rstrip())
    number = "r.n"
    if (function_name(inner.expressions[0].unalias()) or "").lower() in ("count", "count_if"):
        number = "COALESCE(r.n, 0)"
    fix = Fix(number, *around, also=(Fix(f" {join}", at, at),))
    return join, fix


def _split_ties(
    of: RefusedStatement, inner: exp.Select, outer: exp.Select
) -> tuple[list[tuple[str, str]], str] | None:
    """Return the columns that tie a subquery to the rows around it, with theirs, and its own WHERE."""
    tables = {fold(n.alias_or_name) for n in find_nodes(outer.args["from_"], exp.Table)}
    where, texts, keys = inner.args.get("where"), list[str](), list[tuple[str, str]]()
    for part in [] if where is None else list_conjuncts(where.this):
        span, sides = of.outline.span(part), [part.this, part.expression] if isinstance(part, exp.EQ) else []
        tied = [s for s in sides if isinstance(s, exp.Column) and fold(s.table) in tables]
        own = [s for s in sides if isinstance(s, exp.Column) and fold(s.table) not in tables]
        if span is None:
            return None
        if len(tied) == 1 and len(own) == 1:
            spans = [of.outline.span(own[0]), of.outline.span(tied[0])]
            mine, theirs = (of.text[slice(*each)] for each in spans if each is not None)
            keys.append((mine, theirs))
        else:
            texts.append(of.text[slice(*span)])
    return (keys, f" WHERE {' AND '.join(texts)}" if texts else "") if keys else None


def _write_join(ties: list[tuple[str, str]], items: str, rows: str, alias: str) -> str:
    """Return a subquery with the numbers of each group of the tied columns, and its ON."""
    names = [f"k{i + 1}" if len(ties) > 1 else "k" for i in range(len(ties))]
    listed = ", ".join(f"{a} AS {name}" for (a, _), name in zip(ties, names, strict=True))
    by = ", ".join(a for a, _ in ties)
    on = " AND ".join(f"{alias}.{name} = {b}" for (_, b), name in zip(ties, names, strict=True))
    return f"(SELECT {listed}, {items} {rows} GROUP BY {by}) AS {alias} ON {on}"


_LATERAL = lazy_pattern(
    r"(?is)(?:,\s*LATERAL|(?:CROSS|OUTER)\s+APPLY|(?:LEFT\s+(?:OUTER\s+)?|CROSS\s+|INNER\s+)?JOIN\s+LATERAL)\s*(?=\()"
)
_NAMED = lazy_pattern(r"(?is)\s*(?:AS\s+)?(\w+)(?:\s+ON\s+(?:TRUE|1\s*=\s*1))?")


def join_lateral(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write LATERAL or APPLY with numbers of each row around it as a join with the numbers of all."""
    lateral, found = next(iter(of.query.tree.find_all(exp.Lateral)), None), [*_LATERAL.finditer(of.text)]
    inner = lateral.this.unnest() if lateral is not None and isinstance(lateral.this, exp.Subquery) else None
    outer = lateral.find_ancestor(exp.Select) if lateral is not None else None
    if not isinstance(inner, exp.Select) or outer is None or len(found) != 1 or inner.args.get("group"):
        return None
    block = of.outline.block(found[0].end() + 1)
    around = None if block is None else of.outline.parentheses(block)
    where = None if block is None else block.clause(TokenType.WHERE)
    ties = _split_ties(of, inner, outer)
    if block is None or around is None or where is None or block.from_ is None or ties is None:
        return None
    named = _NAMED.match(of.text, around[1])
    if named is None or not all(contains_aggregate(item) for item in inner.expressions):
        return None
    items = of.text[block.select.end + 1 : block.from_.start].strip()
    rows = f"{of.text[block.from_.start : where.start].strip()}{ties[1]}"
    join = f"LEFT JOIN {_write_join(ties[0], items, rows, named[1])}"
    before = " " if of.text[found[0].start()] == "," else ""
    return join, Fix(
        f"{before}{join}", found[0].start(), named.end(), provided=f"each {ties[0][0][1]} has rows; else NULL"
    )


def keep_compared_column(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Keep the first column of a subquery behind IN: it is what is compared."""
    inner = node.unnest() if isinstance(node, exp.Subquery) else node
    if not isinstance(inner, exp.Select):
        return None
    block = of.outline.block(of.query.source.position(inner.expressions[0]))
    if block is None or block.from_ is None:
        return None
    begin = split_options(of, block)[1]
    items = of.outline.items(begin, block.from_.start)
    compared = node.parent.this if isinstance(node.parent, exp.In) else None
    if [type(e) for e in inner.expressions] == [exp.Star] and isinstance(compared, exp.Column):
        has = any(n.column(compared.name) is not None for n in of.list_tables(inner))
        return (f"IN (SELECT {compared.name} ..)", Fix(compared.name, *items[0])) if has else None
    if len(inner.expressions) < 2:
        return None
    names = [fold(item.alias_or_name) for item in inner.expressions]
    same = (
        names.index(fold(compared.name))
        if isinstance(compared, exp.Column) and fold(compared.name) in names
        else 0
    )
    if len(items) != len(inner.expressions) or inner.args.get("distinct"):
        return None
    if any(isinstance(e, exp.Literal) for e in getattr(inner.args.get("order"), "expressions", ())):
        return None
    kept = of.text[slice(*items[same])]
    return f"IN (SELECT {kept} ..)", Fix(kept, items[0][0], items[-1][1])


def lift_qualify(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Select rows by QUALIFY in a subquery, where the block around it groups them."""
    select = of.original(node).find_ancestor(exp.Select)
    qualify = None if select is None else select.args.get("qualify")
    block = of.outline.block(of.query.source.position(node))
    clause = None if block is None else block.clause(TokenType.QUALIFY)
    if select is None or qualify is None or block is None or clause is None or block.from_ is None:
        return None
    at = of.query.source.position(node)
    if not clause.start < at < block.stop(clause) or any(
        contains_aggregate(n.this) for n in qualify.find_all(exp.Window)
    ):
        return None
    named = of.list_tables(select)
    stops = [t.start for t in block.clauses if t.token_type not in _ROWS]
    rows, condition = (
        of.text[block.from_.start : min(stops)].strip(),
        of.text[clause.start : block.stop(clause)].strip(),
    )
    alias = f" AS {named[0].alias}" if len(named) == 1 and not select.args.get("joins") else ""
    made = f"FROM (SELECT * {rows} {condition}){alias} "
    removed = Fix("", clause.start, block.stop(clause))
    return made, Fix(made, block.from_.start, min(stops), also=(removed,))


def lift_unit_key(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Compute a group key of aggregates for each unit first: `GROUP BY CASE WHEN SUM(x) > 5 ..`."""
    select, block = (
        of.original(node).find_ancestor(exp.Select),
        of.outline.block(of.query.source.position(node)),
    )
    if select is None or block is None or block.from_ is None or select.args.get("having") is not None:
        return None
    group, clause = select.args.get("group"), block.clause(TokenType.GROUP_BY)
    options, begin = split_options(of, block)
    spans = of.outline.items(begin, block.from_.start)
    units = {n.unit for n in of.list_tables(select) if n.unit is not None}
    if group is None or clause is None or len(units) != 1 or len(spans) != len(select.expressions):
        return None
    if len(of.list_tables(select)) != 1 + len(select.args.get("joins") or ()) or len(group.expressions) != 1:
        return None
    key, text = group.expressions[0], of.text
    for i, item in enumerate(select.expressions):
        inner = item.unalias()
        named = isinstance(key, exp.Column) and fold(key.name) == fold(item.alias)
        if not contains_aggregate(inner) or not (named or key == inner or key.name == str(i + 1)):
            continue
        name, (unit,) = item.alias or "level", units
        written = text[slice(*spans[i])] + ("" if item.alias else f" AS {name}")
        others = [text[slice(*span)] if j != i else name for j, span in enumerate(spans)]
        rows, rest = (
            text[block.from_.start : clause.start].strip(),
            text[block.stop(clause) : block.end].strip(),
        )
        made = f"SELECT {options}{', '.join(others)} FROM (SELECT {unit}, {written} {rows} GROUP BY {unit})"
        made += f" GROUP BY {name}{f' {rest}' if rest else ''}"
        return made, Fix(made, block.select.start, block.end, asks=f"{name} of each {unit}")
    return None


def aggregate_window(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Compute a window beside groups over their numbers: `AVG(x) OVER ()` is `AVG(AVG(x)) OVER ()`."""
    original = of.original(node)
    window = original if isinstance(original, exp.Window) else original.find_ancestor(exp.Window)
    select = None if window is None else window.find_ancestor(exp.Select)
    name = "" if window is None else call_name(window.this)
    if (
        window is None
        or select is None
        or select.args.get("group") is None
        or name not in ("avg", "sum", "min", "max")
    ):
        return None
    call = of.call(window.this)
    if call is None or contains_aggregate(window.this.expressions[0]):
        return None
    written = f"{name.upper()}({of.text[call[0] : call[1]]})"
    return written, Fix(written, call[0], call[1], asks="a number of the numbers of groups")


def join_lookup(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Join a table that has one row of each key, where a subquery looks a value of it up."""
    found = node.unnest() if isinstance(node, exp.Subquery) else node
    inner = found if isinstance(found, exp.Select) else found.find_ancestor(exp.Select)
    block = None if inner is None else of.outline.block(of.query.source.position(inner.expressions[0]))
    around = None if block is None else of.outline.parentheses(block)
    where = None if block is None else block.clause(TokenType.WHERE)
    if inner is None or block is None or around is None or where is None or block.from_ is None:
        return None
    named, outside = of.list_tables(inner), of.outline.block(around[0] - 1)
    span = of.outline.span(inner.expressions[0])
    if (
        len(named) != 1
        or not (named[0].table.public or named[0].table.is_key(named[0].unit or ""))
        or span is None
        or outside is None
        or outside.from_ is None
    ):
        return None
    if (
        inner.args.get("joins")
        or len(inner.expressions) != 1
        or not isinstance(inner.args["where"].this, exp.EQ)
    ):
        return None
    table = of.text[block.from_.end + 1 : where.start].strip()
    condition = of.text[where.end + 1 : block.stop(where)].strip()
    stops = [t.start for t in outside.clauses]
    at = len(of.text[: min(stops, default=outside.end)].rstrip())
    join = f"LEFT JOIN {table} ON {condition}"
    return join, Fix(of.text[slice(*span)], *around, also=(Fix(f" {join}", at, at),))


def order_for_argument(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Order groups by a sum for `MAX_BY(label, x)`, which would name one row's label."""
    call = of.call(node)
    block = of.outline.block(0 if call is None else call[0])
    if call is None or len(call[2]) != 2 or block is None or block.from_ is None:
        return None
    label, value = call[2]
    way = "" if of.text[call[0] :].upper().startswith(("MIN_BY", "ARG_MIN", "ARGMIN")) else " DESC"
    stop = min((t.start for t in block.clauses if t.token_type != TokenType.WHERE), default=block.end)
    rows = of.text[block.from_.start : stop].strip()
    made = f"SELECT {label} {rows} GROUP BY {label} ORDER BY SUM({value}){way} LIMIT 1"
    asks = f"the {label} with the {'largest' if way else 'smallest'} sum of {value}"
    return made, Fix(made, block.select.start, len(of.text), asks=asks)


def order_for_largest(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Order groups and take the first, where MAX_BY names the key with the largest number."""
    select, block = of.query.tree, of.outline.block(0)
    item = (
        select.expressions[0].unalias()
        if isinstance(select, exp.Select) and len(select.expressions) == 1
        else None
    )
    name = "" if item is None else call_name(item)
    clause = None if block is None else block.clause(TokenType.GROUP_BY)
    if (
        name not in ("max_by", "arg_max", "min_by", "arg_min")
        or item is None
        or block is None
        or clause is None
    ):
        return None
    call = of.call(item)
    if (
        call is None
        or len(call[2]) != 2
        or len(block.clauses) > 2
        or not contains_aggregate(item.expressions[1])
    ):
        return None
    key, number = call[2]
    order = f" ORDER BY {number}{' DESC' * ('max' in name)} LIMIT 1"
    end = len(of.text[: block.end].rstrip())
    return order.strip(), Fix(key, call[0], call[1], also=(Fix(order, end, end),))
