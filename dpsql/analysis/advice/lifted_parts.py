"""Advise to compute in a subquery, or in a join, what stands inside of an expression."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice.listed_rows import split_options
from dpsql.analysis.advice.unknown_names import Advice, RefusedStatement
from dpsql.analysis.aggregate_functions import contains_aggregate
from dpsql.analysis.compiler import function_name, list_conjuncts
from dpsql.errors import Fix, Obstacle
from dpsql.language import find_nodes
from dpsql.policy import fold

_ROWS = (TokenType.WHERE,)


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


_LATERAL = re.compile(
    r"(?is)(?:,\s*LATERAL|(?:CROSS|OUTER)\s+APPLY|(?:LEFT\s+(?:OUTER\s+)?|CROSS\s+|INNER\s+)?JOIN\s+LATERAL)\s*(?=\()"
)
_NAMED = re.compile(r"(?is)\s*(?:AS\s+)?(\w+)(?:\s+ON\s+(?:TRUE|1\s*=\s*1))?")


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
    if not isinstance(inner, exp.Select) or len(inner.expressions) < 2:
        return None
    block = of.outline.block(of.query.source.position(inner.expressions[0]))
    if block is None or block.from_ is None:
        return None
    begin = split_options(of, block)[1]
    items = of.outline.items(begin, block.from_.start)
    compared = node.parent.this if isinstance(node.parent, exp.In) else None
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
