"""Advise on the keys of groups: those that GROUP BY lacks, and those that would name single units."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice.listed_rows import split_options
from dpsql.analysis.advice.refused_statement import (
    Advice,
    RefusedStatement,
    add_clause,
    add_row_condition,
    change_all,
)
from dpsql.analysis.aggregate_functions import aggregate_name
from dpsql.analysis.compiler import call_name, read_item
from dpsql.analysis.released.released_calls import is_released
from dpsql.errors import Fix, Obstacle
from dpsql.language import find_nodes, read_clause, walk_tree, write_name
from dpsql.policy import fold


def group_by_items(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Add to GROUP BY what the select list has besides counts."""
    node = of.original(node)
    select = node.find_ancestor(exp.Select)
    if select is None or any(isinstance(i, exp.Star) for i in select.expressions):
        return None
    items = [i.unalias() for i in select.expressions]
    having = select.args.get("having")
    if not any(
        is_released(c) or _is_number(c)
        for i in (*items, *([having] if having is not None else []))
        for c in walk_tree(i)
    ):
        return None
    group = select.args.get("group")
    known = list(group.expressions) if group is not None else []
    if (quoted := _name_quoted_keys(of, select, known)) is not None:
        return quoted
    grouped = [read_item(select, key) for key in known]
    plain = [i for i in items if not any(_is_number(n) for n in walk_tree(i)) and i not in (*known, *grouped)]
    block = of.outline.block(of.query.source.position(select.expressions[0]))
    if block is None or block.from_ is None or not plain:
        return None
    texts = of.items(select, block, split_options(of, block)[1])
    spans = [of.outline.span(i) for i in plain]
    shown = [
        name if of.outline.span(i) is None and name else bare
        for (bare, name), i in zip(texts, items, strict=False)
    ]
    if of.query.source.position(node) > block.from_.start and "GROUP BY" not in one.message:
        return None  # it is in ORDER BY or HAVING
    text = of.text
    keys = ", ".join(key for key, item in zip(shown, items, strict=False) if item in plain)
    if not keys or (None in spans and not texts):
        return None
    if group is None:
        # Without the clause the statement has no meaning that this could change.
        at = block.before(TokenType.GROUP_BY)
        return f"GROUP BY {keys}", replace(
            add_clause(text, at, f"GROUP BY {keys}"), also=_take_outer(of, select, keys)
        )
    last = of.outline.span(known[-1]) if known else None
    if last is None:
        return None
    return f"GROUP BY {text[last[0] : last[1]]}, {keys}", Fix(f", {keys}", last[1], last[1])


def _is_number(node: exp.Expr) -> bool:
    """Return whether a node calls an aggregate, or a statistic of two values."""
    return (
        aggregate_name(node) is not None
        or re.match(r"corr\b|covar_|regr_", call_name(node) or "") is not None
    )


def _take_outer(of: RefusedStatement, select: exp.Select, keys: str) -> tuple[Fix, ...]:
    """Take the GROUP BY of a subquery that lacks it from the block around, which does not show the keys."""
    outer = select.parent_select
    block = None if outer is None else of.outline.block(of.query.source.position(outer.expressions[0]))
    clause = None if block is None else block.clause(TokenType.GROUP_BY)
    if outer is None or block is None or clause is None or keys in outer.named_selects:
        return ()
    stop = block.stop(clause)
    return (Fix("", clause.start, stop),) if of.text[clause.end + 1 : stop].strip() == keys else ()


def _name_quoted_keys(of: RefusedStatement, select: exp.Select, keys: list[exp.Expr]) -> Advice | None:
    """Write the names that GROUP BY has in single quotes, as texts."""
    names = {fold(name): name for item in select.expressions if (name := item.alias_or_name)}
    fixes = [
        Fix(write_name(names[fold(key.name)]), key.meta["start"], key.meta["end"] + 1)
        for key in keys
        if isinstance(key, exp.Literal) and key.is_string and fold(key.name) in names and "end" in key.meta
    ]
    return (f"GROUP BY {fixes[0].text}", replace(fixes[0], also=tuple(fixes[1:]))) if fixes else None


def copy_item(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Group by the only item of the select list that is no number, where another expression stands."""
    key = of.original(node)
    select, group = key.find_ancestor(exp.Select), key.find_ancestor(exp.Group)
    block = None if select is None else of.outline.block(of.query.source.position(select.expressions[0]))
    clause = None if block is None else block.clause(TokenType.GROUP_BY)
    if select is None or group is None or block is None or clause is None or len(group.expressions) != 1:
        return None
    items = of.items(select, block, split_options(of, block)[1])
    plain = [
        text
        for (text, _), item in zip(items, select.expressions, strict=False)
        if not any(aggregate_name(n) for n in walk_tree(item))
    ]
    ((start, end),) = of.outline.items(clause.end + 1, block.stop(clause)) or [(0, 0)]
    written = of.text[start:end].strip()
    if len(plain) != 1 or written == plain[0].strip():
        return None
    return f"GROUP BY {plain[0]}", Fix(plain[0], start, end)


def order_by_last(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write the number of the last item where ORDER BY has one that no item has."""
    at, select = of.query.source.position(node), node.find_ancestor(exp.Select)
    number = re.match(r"\d+\b", of.text[at:])
    if number is None or select is None or int(number[0]) <= len(select.expressions):
        return None
    last = str(len(select.expressions))
    return f"ORDER BY {last}", Fix(last, at, at + number.end(), guess=f"ORDER BY {last}")


def number_items(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write the numbers of the items besides counts where GROUP BY has one that no item has."""
    key = of.original(node)
    select, group = key.find_ancestor(exp.Select), key.find_ancestor(exp.Group)
    at = of.query.source.position(node)
    if select is None or group is None or not isinstance(key, exp.Literal):
        return None
    given = {each.name for each in group.expressions if each is not key}
    plain = [
        str(i)
        for i, item in enumerate(select.expressions, 1)
        if not any(aggregate_name(n) for n in walk_tree(item)) and str(i) not in given
    ]
    keys = ", ".join(plain)
    return (f"GROUP BY {keys}", Fix(keys, at, at + len(key.name))) if plain else None


def drop_key(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Leave a group key out of the select list and of GROUP BY."""
    named = re.match(r"each value of (.*) belongs to one ", one.message)
    unit = named is None and isinstance(node, exp.Column)
    if unit:
        named = re.fullmatch(r"(.*)", node.name)
    node = of.original(node)
    select, block = node.find_ancestor(exp.Select), of.outermost(node)
    clause = block.clause(TokenType.GROUP_BY) if block is not None else None
    if named is None or select is None or block is None or block.from_ is None or clause is None:
        return None
    begin = split_options(of, block)[1]
    shown = of.outline.items(begin, block.from_.start)
    keys = of.outline.items(clause.end + 1, block.stop(clause))
    plain = len(shown) == len(select.expressions) and not select.args.get("distinct")
    places = [i for i, item in enumerate(select.expressions) if fold(item.alias_or_name) == fold(named[1])]
    if not plain or len(places) > 1 or (not places and len(keys) > 1 and not unit):
        return None
    names = {fold(named[1]), *(str(i + 1) for i in places)}
    names |= {fold(select.expressions[i].unalias().sql("duckdb")) for i in places}
    span = of.outline.span(of.original(node)) if isinstance(node, exp.Column) else None
    names |= {fold(of.text[slice(*span)])} if span is not None else set()
    left = [key for key in keys if fold(of.text[key[0] : key[1]]) not in names] if len(keys) > 1 else []
    rest = [item for i, item in enumerate(shown) if i not in places]
    by_place = any(of.text[key[0] : key[1]].isdigit() for key in left)
    if not rest or len(left) == len(keys) or (by_place and places):
        return None
    fix = Fix(
        f" {', '.join(of.text[a:b] for a, b in rest)} ",
        begin,
        block.from_.start,
        asks=f"all values of {named[1]} together" if named[1] != "the key" else "all groups together",
    )
    grouped = f"GROUP BY {', '.join(of.text[a:b] for a, b in left)} " if left else ""
    return one.hint, replace(fix, also=(Fix(grouped, clause.start, block.stop(clause)),))


def add_unit(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Add the unit to the keys of a subquery by orders or the like, whose groups are aggregated around it."""
    node = of.original(node)
    select, block = node.find_ancestor(exp.Select), of.outline.block(of.query.source.position(node))
    if not isinstance(node, exp.Group) or select is None or block is None or block == of.outline.block(0):
        return None
    clause, named = block.clause(TokenType.GROUP_BY), of.list_tables(select)
    unit = next(((n.alias, n.unit, n.table) for n in named if n.unit is not None), None)
    keys = [key for key in _list_columns(select, node) if _names_rows(of, key)]
    if clause is None or block.from_ is None or unit is None or len(keys) != 1 or select.is_star:
        return None
    alias, column, table = unit
    whom = f"{alias}.{column}" if len(named) > 1 else column
    last = of.outline.items(clause.end + 1, block.stop(clause))[-1][1]
    selected = of.outline.items(block.select.end + 1, block.from_.start)[-1][1]
    fix = Fix(f", {whom}", last, last, also=(Fix(f", {whom}", selected, selected),))
    name = keys[0].name
    return f"GROUP BY {of.text[clause.end + 1 : last].strip()}, {whom}", replace(
        fix, provided=f"each {name} of {table.name} belongs to one {column}; else it is a group of each"
    )


def take_public_values(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Take the values of an undeclared key from the public table that has a column of its name."""
    node = of.original(node)
    select, block = node.find_ancestor(exp.Select), of.outline.block(of.query.source.position(node))
    if not isinstance(node, exp.Group) or select is None or block is None or block.from_ is None:
        return None
    keys = [key for key in _list_columns(select, node) if f" {key.name} " in one.message]
    public = [table for table in of.policy.tables.values() if table.public]
    for key in keys:
        found = [(t, c) for t in public for c in of.columns(t) if fold(c) == fold(key.name)]
        if len(found) == 1:
            table, column = found[0]
            name = key.sql("duckdb")
            condition = f"{name} IN (SELECT {write_name(column)} FROM {write_name(table.name)})"
            asks = f"only the rows with a {column} of {table.name}"
            return f"WHERE {condition}", replace(add_row_condition(of.text, block, condition), asks=asks)
    return None


def say_which_days(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Ask for the days of a year, or up to one, where a key is computed of a time without declared days."""
    node = of.original(node)
    select, block = node.find_ancestor(exp.Select), of.outline.block(of.query.source.position(node))
    if not isinstance(node, exp.Group) or select is None or block is None or block.from_ is None:
        return None
    types = {
        (table.alias, fold(name)): sql_type
        for table in of.list_tables(select)
        for name, sql_type in of.catalog.columns(table.table.name)
    }
    for key in _list_keys(select, node):
        columns = {each for each in walk_tree(key) if isinstance(each, exp.Column)}
        column = next(iter(columns)) if len(columns) == 1 else None
        found = [
            sql_type
            for (alias, name), sql_type in types.items()
            if column and name == fold(column.name) and column.table in ("", alias)
        ]
        if column is None or len(found) != 1 or not re.match("(?i)DATE|TIMESTAMP", str(found[0])):
            continue
        where = read_clause(select)
        ends = {} if where is None else dict(_list_ends(where, column))
        year = next(iter(ends.values()), 2024) - (set(ends) == {"<"})
        name = column.sql("duckdb")
        missing = [f"{name} {sign} DATE '{year + more}-01-01'" for sign, more in ((">=", 0), ("<", 1))]
        condition = " AND ".join(
            end for end, sign in zip(missing, (">=", "<"), strict=True) if sign not in ends
        )
        if condition:
            fix = add_row_condition(of.text, block, condition)
            return f"WHERE {condition}", replace(fix, guess=condition, asks="only the rows of these days")
    return None


def _list_ends(where: exp.Expr, column: exp.Column) -> Iterator[tuple[str, int]]:
    """Yield the years in comparisons of a column with constants, each with the sign of the end that it is."""
    for each in find_nodes(where, exp.Binary):
        sign = {exp.GT: ">=", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<"}.get(type(each))
        year = re.search(r"\b[12]\d{3}\b", each.expression.sql("duckdb"))
        if sign is not None and each.this == column and year is not None:
            yield sign, int(year[0])


def _list_keys(select: exp.Select, group: exp.Group) -> list[exp.Expr]:
    """Return the expressions that a block groups by; items of the list for their places, aliases and ALL."""
    if group.args.get("all"):
        items = [item.unalias() for item in select.expressions]
        return [item for item in items if not any(aggregate_name(each) for each in walk_tree(item))]
    return [read_item(select, key) for key in group.expressions]


def _list_columns(select: exp.Select, group: exp.Group) -> list[exp.Column]:
    """Return the keys of GROUP BY that are columns."""
    return [key for key in _list_keys(select, group) if isinstance(key, exp.Column)]


def _names_rows(of: RefusedStatement, key: exp.Column) -> bool:
    """Return whether a key is called as the number of something, or as a unique column of a private table."""
    private = (table for table in of.policy.tables.values() if not table.public)
    called = re.search(r"(?i)(id|no|nr|key|number|uuid)\Z", key.name) is not None
    return called or any(table.is_key(key.name) for table in private)


def name_items(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `SELECT n = COUNT(*)` of T-SQL with AS."""
    whole, select = of.original(node).parent, node.find_ancestor(exp.Select)
    spans = [of.outline.span(each) for each in (node, whole)] if isinstance(whole, exp.EQ) else []
    before = re.search(r"(?i)(?:\bSELECT|,)\s*\Z", of.text[: spans[0][0]]) if spans and spans[0] else None
    if before is None or not isinstance(node, exp.Column) or node.table or not isinstance(whole, exp.EQ):
        return None
    if (
        whole.this.name != node.name
        or not isinstance(whole.parent, exp.Select)
        or spans[1] is None
        or select is None
    ):
        return None
    found = [
        Fix(f"{m[2]} AS {m[1]}", *m.span())
        for item in whole.parent.expressions
        if (span := of.outline.span(item)) is not None
        and (m := re.compile(r"(\w+)\s*=\s*(.+)", re.DOTALL).match(of.text, span[0], span[1])) is not None
    ]
    made, here = change_all(found), next((f.text for f in found if f.start == spans[1][0]), None)
    return made if made is None or here is None else (here, made[1])
