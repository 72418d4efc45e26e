"""Advise to count what a statement would list: rows, or units with their numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice.refused_statement import Advice, RefusedStatement
from dpsql.analysis.advice.unknown_names import name_aggregate
from dpsql.analysis.aggregate_functions import AGGREGATES, aggregate_calls, aggregate_name
from dpsql.analysis.compiler import call_name, function_name
from dpsql.analysis.scalar_functions import find_nearest_function
from dpsql.errors import Fix, Obstacle
from dpsql.language import BlockText, Query, find_nodes, parse, replace_name, walk_tree
from dpsql.lazy_pattern import lazy_pattern
from dpsql.policy import fold

_LAST = (TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH)
_SET_OPERATIONS = (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)


def _is_aggregated(node: exp.Expr) -> bool:
    """Return whether an expression has an aggregate that is no window."""
    parts = walk_tree(node, lambda each: isinstance(each, (exp.Window, exp.Query)))
    inside = [part for part in parts if not isinstance(part, (exp.Window, exp.Query))]
    return any(aggregate_name(part) or isinstance(part, exp.WithinGroup) for part in inside)


def split_options(of: RefusedStatement, block: BlockText) -> tuple[str, int]:
    """Return the options behind the SELECT of a block, with a blank, and where its list begins."""
    i = of.outline.tokens.index(block.select) + 1
    begin = of.outline.tokens[i].start if i < len(of.outline.tokens) else block.end
    top = [t.text.upper() for t in of.outline.tokens[i : i + 2]]
    if top[:1] == ["TOP"] and top[1].isdigit():  # it selects groups, which what is counted has not
        return "", of.outline.tokens[i + 1].end + 1
    if [t.text.upper() for t in of.outline.tokens[i : i + 2]] != ["WITH", "DIFFERENTIAL_PRIVACY"]:
        return "", block.select.end + 1
    clause = of.outline.options(begin)
    return f"{clause} ", begin + len(clause)


def _cut(block: BlockText) -> int:
    """Return where ORDER BY or LIMIT begins, behind all set operations."""
    sets = [t.start for t in block.clauses if t.token_type in _SET_OPERATIONS]
    ends = [t.start for t in block.clauses if t.token_type in _LAST and t.start > max(sets, default=-1)]
    return min(ends, default=block.end)


def _list_selects(tree: exp.Expr) -> Iterator[exp.Select]:
    while isinstance(tree, (exp.SetOperation, exp.Subquery)):
        tree = tree.this
    if isinstance(tree, exp.Select):
        yield tree


def count_rows(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write a query that counts the rows which a listing of rows would show."""
    text, block = of.text, of.outline.block(0)
    select = next(_list_selects(of.query.tree), None)
    message = "the rows of a private table are counted, never shown"
    if select is None or any(_is_aggregated(item) for item in select.expressions):
        return None
    for call in select.find_all(exp.Anonymous):
        close = find_nearest_function(function_name(call) or "")
        if close is not None and close.lower() in AGGREGATES:
            return f"did you mean {close}?", replace_name(call, close)
    for item in select.find_all(exp.Column):
        if (written := name_aggregate(of, item)) is not None:
            return written
    if block is None:
        whole = f"SELECT COUNT(*) {text.strip()}"
        plain = text.split()[:1] and text.split()[0].upper() == "FROM"
        return (whole, Fix(whole, 0, len(text), asks="how many rows there are"), message) if plain else None
    if select.args.get("group") is not None or block.from_ is None:
        return None
    options, begin = split_options(of, block)
    if of.has_options and not options:
        return None
    order = block.clause(TokenType.ORDER_BY)
    if order is not None and any(_is_aggregated(term) for term in select.args["order"].expressions):
        keys = ", ".join(bare for bare, _ in of.items(select, block, begin))
        return (f"GROUP BY {keys}", Fix(f"GROUP BY {keys} ", order.start, order.start)) if keys else None
    named, several = of.list_tables(select), select is not of.query.tree
    units = {n.unit for n in named if n.unit is not None}
    joined = 1 + len(select.args.get("joins") or ())
    blocks = find_nodes(select, exp.Subquery) if len(named) != joined else []
    if any(_is_aggregated(item) for each in blocks for item in each.selects):
        return None  # what a block releases stands beside private rows
    tied = _group_by_tie(of, block, (options, begin)) if not several else None
    if tied is not None:
        return *tied, message
    if not units and not several and len(named) == joined:  # public rows, beside private ones of a condition
        rows = text[block.from_.start : _cut(block)].strip()
        whole = f"SELECT {options}COUNT(*) {rows}"
        fix = Fix(text[: block.select.start] + whole, 0, len(text), asks="how many rows it has")
        return whole, fix, message
    if several or len(named) != joined or len(units) != 1 or select.args.get("qualify") is not None:
        inner = text[begin : _cut(block)].strip()
        whole = f"SELECT {options}COUNT(*) FROM (SELECT {inner})"
        fix = Fix(text[: block.select.start] + whole, 0, len(text), asks="how many rows it has")
        return whole, fix, message
    (unit,) = units
    if len(named) > 1:
        unit = next(f"{n.alias}.{unit}" for n in named if n.unit is not None)
    stops = [t.start for t in block.clauses if t.token_type != TokenType.WHERE]
    rows = _write_names_out(of, select, block.from_.start, min(stops, default=block.end)).strip()
    whole = f"SELECT {options}COUNT(DISTINCT {unit}) {rows}"
    before = text[: block.select.start]
    return whole, Fix(before + whole, 0, len(text), asks=f"how many {unit} there are"), message


_TIED = lazy_pattern(
    r"(?is)\(\s*SELECT\s+(\w+\([^()]*\))\s+FROM\s+(\w+)\s+(?:AS\s+)?(\w+)\s+"
    r"WHERE\s+(\w+)\.(\w+)\s*=\s*(\w+)\.(\w+)\s*\)"
)
"""A number of the rows that share a value with the row around it."""


def _group_by_tie(of: RefusedStatement, block: BlockText, head: tuple[str, int]) -> tuple[str, Fix] | None:
    """Group by the key by which a subquery over the same table is tied to the row: `WHERE f2.k = f.k`."""
    found = _TIED.search(of.text[: block.end])
    if found is None or block.from_ is None:
        return None
    source = of.text[block.from_.start : block.end]
    last = re.match(r"(?i)FROM\s+(\w+)(?:\s+(?:AS\s+)?(\w+))?\s*\Z", source)
    if last is None or found[2].lower() != last[1].lower() or found[5] != found[7]:
        return None
    if {found[4], found[6]} != {found[3], last[2] or last[1]}:
        return None
    items = of.text[head[1] : block.from_.start].replace(found[0], found[1]).strip()
    whole = f"SELECT {head[0]}{items} FROM {last[1]} GROUP BY {found[5]}"
    before, asks = of.text[: block.select.start], f"one row for each {found[5]}"
    return whole, Fix(before + whole, 0, len(of.text), asks=asks)


def _write_names_out(of: RefusedStatement, select: exp.Select, start: int, end: int) -> str:
    """Return a part of the text with expressions in the place of their names of the select list."""
    known = {column for n in of.list_tables(select) for column in map(fold, n.columns)}
    block = of.outline.block(start)
    items = [] if block is None else of.items(select, block, split_options(of, block)[1])
    named = {fold(name): bare for bare, name in items if name}
    text, parts, at = of.text, list[str](), start
    for before, token in pairwise(of.outline.tokens):
        written = named.get(fold(token.text)) if fold(token.text) not in known else None
        plain = token.token_type == TokenType.VAR and before.token_type not in (
            TokenType.DOT,
            TokenType.ALIAS,
        )
        if written is not None and plain and start <= token.start < end:
            parts += [text[at : token.start], written if written.endswith(")") else f"({written})"]
            at = token.end + 1
    return "".join([*parts, text[at:end]])


def count_existing(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Count the rows of which EXISTS asks whether there are any."""
    asked, block = re.match(r"(?is)\s*SELECT\s+(?:NOT\s+)?EXISTS\s*\(", of.text), None
    if asked is not None:
        block = of.outline.block(asked.end())
    if block is None or block.from_ is None or block.clause(TokenType.GROUP_BY) is not None:
        return None
    whole = f"SELECT COUNT(*) {of.text[block.from_.start : _cut(block)].strip()}"
    return whole, Fix(whole, 0, len(of.text), asks="how many there are")


def count_groups(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Count the units of each group, where groups are listed without a number."""
    select, block = of.query.tree, of.outline.block(0)
    named = of.list_tables(select) if isinstance(select, exp.Select) else []
    units = {n.unit for n in named if n.unit is not None}
    if block is None or block.from_ is None or len(units) != 1:
        return None
    spans, unit = of.outline.items(split_options(of, block)[1], block.from_.start), next(iter(units))
    if len(named) > 1:
        unit = next(f"{n.alias}.{unit}" for n in named if n.unit == unit)
    count = f", COUNT(DISTINCT {unit}) AS n"
    return count[2:], Fix(count, spans[-1][1], spans[-1][1], asks=f"which groups have how many {unit}")


def count_units_by_number(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Count the units that have each number, instead of one line a unit."""
    select, block = of.query.tree, of.outermost(node)
    if not isinstance(select, exp.Select) or block is None:
        return None
    options, begin = split_options(of, block)
    if of.has_options and not options:
        return None
    text, before, cut = of.text, of.text[: block.select.start], _cut(block)
    last = len(text) if block.from_ is None else block.from_.start  # behind it HAVING has others
    named = [
        i
        for i in select.expressions
        if any(aggregate_calls(i.unalias())) and (of.outline.span(i.unalias()) or (0, 0))[0] < last
    ]
    units = {n.unit for n in of.list_tables(select)}
    group = select.args.get("group")
    several = group is not None and len(group.expressions) > 1 and select.args.get("having") is None
    if len(named) == 1 and several and _counts_units(named[0].unalias(), units):
        return None  # the unit is counted already
    keyed = _count_by_number(of, select, block, (options, begin))
    if keyed is not None:
        return keyed
    over = re.search(r"(?i)\bOVER\s*\(", text[begin:cut])
    if len(named) == 1 and over is not None:  # the number by which units are ranked
        number = next(iter(aggregate_calls(named[0].unalias())))
        call = of.call(number)
        if call is None or block.from_ is None:
            return None
        rows = text[block.from_.start : cut].strip()
        listed = f"n, COUNT(*) AS units FROM (SELECT {text[call[0] : call[1]]} AS n {rows}) GROUP BY n"
        whole = f"SELECT {options}{listed} ORDER BY units DESC LIMIT 10"
        return whole, Fix(before + whole, 0, len(text), guess="10", asks="how many units have each n")
    if block.clause(TokenType.HAVING) is not None and select.args.get("limit") is None:
        whole = f"SELECT {options}COUNT(*) FROM (SELECT {text[begin:cut].strip()})"
        return whole, Fix(before + whole, 0, len(text), asks="how many there are")
    span = of.outline.span(named[0].unalias()) if len(named) == 1 else None
    nested = len(named) == 1 and len([*aggregate_calls(named[0].unalias())]) > 1
    if len(named) != 1 or (span is None and not named[0].alias) or nested:
        return None
    alias = named[0].alias if named[0].alias.isidentifier() else ""  # else it is the text of the item
    n, inner = alias or "n", text[begin:cut].strip()
    if not alias and span is not None:
        inner = f"{text[begin : span[1]].strip()} AS n{text[span[1] : cut].rstrip()}"
    limit = select.args.get("limit")
    given = limit.expression.name if isinstance(limit, exp.Limit) else ""
    most, guess = (given, "") if given.isdigit() else ("10", "10")
    listed = f"{n}, COUNT(*) AS units FROM (SELECT {inner}) GROUP BY {n} ORDER BY units DESC LIMIT {most}"
    whole = f"SELECT {options}{listed}"
    return whole, Fix(before + whole, 0, len(text), guess=guess, asks=f"how many units have each {n}")


def _counts_units(call: exp.Expr, units: set[str | None]) -> bool:
    """Return whether a call counts the units, or their rows by the unit's column."""
    columns = [c.name for c in find_nodes(call, exp.Column)]
    return call_name(call) == "count" and len(columns) == 1 and columns[0] in units


def _count_by_number(
    of: RefusedStatement, select: exp.Select, block: BlockText, head: tuple[str, int]
) -> Advice | None:
    """Group by a number of each unit, where COUNT stands beside it: `MIN(day), COUNT(*) .. GROUP BY unit`."""
    options, begin = head
    if block.from_ is None or select.args.get("having") is not None or select.args.get("distinct"):
        return None
    spans, items = of.outline.items(begin, block.from_.start), select.expressions
    if len(spans) != len(items):  # what is computed from the released numbers is not in the block
        statement = parse(of.text)
        items = statement.tree.expressions if isinstance(statement, Query) else []
    counts = [i for i, e in enumerate(items) if call_name(e.unalias()) == "count"]
    units = {n.unit for n in of.list_tables(select)}
    kept = [i for i, e in enumerate(items) if i not in counts and e.unalias().name not in units]
    classes = [i for i, e in enumerate(items) if isinstance(e.unalias(), exp.Case)]  # of units by a number
    if len(classes) == 1:
        kept = classes
    if len(counts) != 1 - (not counts and kept == classes) or len(kept) != 1 or len(spans) != len(items):
        return None
    item = items[kept[0]]
    if not any(aggregate_calls(item.unalias())):
        return None
    text, name = of.text, item.alias or "n"
    written = text[slice(*spans[kept[0]])] + ("" if item.alias else " AS n")
    rows = text[block.from_.start : _cut(block)].strip()
    alias = items[counts[0]].alias if counts else ""
    number = text[slice(*spans[counts[0]])] if alias else "COUNT(*) AS units"
    number = re.sub(r"(?i)^COUNT\s*\([^()]*\)", "COUNT(*)", number)
    whole = f"SELECT {options}{name}, {number} FROM (SELECT {written} {rows}) GROUP BY {name}"
    asks = f"how many units have each {name}"
    return whole, Fix(text[: block.select.start] + whole, 0, len(text), asks=asks)
