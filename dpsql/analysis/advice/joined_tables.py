"""Advise on tables that FROM lacks, and on conditions of joins that are missing or ambiguous."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice.refused_statement import Advice, FromTable, RefusedStatement, join_clause
from dpsql.analysis.aggregate_functions import aggregate_calls
from dpsql.analysis.compiler import call_name
from dpsql.errors import Fix, Obstacle
from dpsql.kernel.tree import literal_sql, quote
from dpsql.language import find_nodes, list_conjuncts, replace_name, walk_tree
from dpsql.policy import Table, TableDomain, UnitColumn, fold

_OUTER = r"([\w.]+)\s*=\s*(\w+)\.(\w+)\s*\(\+\)|(\w+)\.(\w+)\s*\(\+\)\s*=\s*([\w.]+)"
"""An equality of which one side is marked as that of an outer join."""


def _list_conditions(left: FromTable, right: FromTable) -> Iterator[str]:
    """Yield the equalities by which the policy relates two tables: of a key with its domain, or of units."""
    for one, other in ((left, right), (right, left)):
        for column, domain in one.table.domain.items():
            if isinstance(domain, TableDomain) and fold(domain.table) == fold(other.table.name):
                yield f"{one.alias}.{column} = {other.alias}.{domain.column}"
    kinds = [unit.kind for n in (left, right) if (unit := n.table.unit) is not None]
    if left.unit is not None and right.unit is not None and kinds[0] == kinds[-1]:
        yield f"{left.alias}.{left.unit} = {right.alias}.{right.unit}"


def _condition_of(named: list[FromTable], right: FromTable) -> str | None:
    found = [each for left in named if left is not right for each in _list_conditions(left, right)]
    return found[0] if found else None


def advise_on_missing_condition(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Add the ON that a JOIN lacks."""
    select = node.find_ancestor(exp.Select)
    named = [] if select is None else of.list_tables(select)
    right = next((n for n in named if isinstance(node, exp.Join) and n.node is node.this), None)
    condition = None if right is None else _condition_of(named, right)
    if right is None or condition is None:
        return None
    end = max(n.meta["end"] + 1 for n in walk_tree(right.node) if "end" in n.meta)
    return f"ON {condition}", Fix(f" ON {condition}", end, end)


def complete_condition(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write the condition of a join whose ON names a column alone."""
    join, select = node.find_ancestor(exp.Join), node.find_ancestor(exp.Select)
    named = [] if select is None else of.list_tables(select)
    right = next((n for n in named if join is not None and n.node is join.this), None)
    condition, span = (
        None if right is None else _condition_of(named, right),
        of.outline.span(of.original(node)),
    )
    if join is None or join.args.get("on") is not node or condition is None or span is None:
        return None
    return f"ON {condition}", Fix(condition, *span)


def advise_on_using(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write ON for `USING (diagnosis_code)`, where the values are those of another column, `code`."""
    joins = [join for join in find_nodes(of.query.tree, exp.Join) if len(join.args.get("using") or ()) == 1]
    join = next((join for join in joins if fold(join.args["using"][0].name) == fold(node.name)), None)
    select = None if join is None else join.find_ancestor(exp.Select)
    if join is None or select is None:
        return None
    named, tokens = of.list_tables(select), of.outline.tokens
    right = next((n for n in named if n.node is join.this), None)
    condition = None if right is None else _condition_of(named, right)
    at = of.query.source.position(node)
    place = next((i for i, t in enumerate(tokens) if t.start == at), 0)
    place = place + 2 if tokens[place].token_type == TokenType.USING else place
    begin = next((t for t in tokens[max(place - 2, 0) : place] if t.token_type == TokenType.USING), None)
    if condition is None and right is not None and right.column(node.name) is not None:
        return _join_owner(of, node, named, right)
    if condition is None or begin is None or place + 1 >= len(tokens):
        return None
    return f"ON {condition}", Fix(f"ON {condition}", begin.start, tokens[place + 1].end + 1)


def _join_owner(
    of: RefusedStatement, node: exp.Expr, named: list[FromTable], right: FromTable
) -> Advice | None:
    """Join the table first whose column another one is joined on: `goods JOIN pages USING (page)`."""
    for table in of.policy.tables.values():
        clauses = [join_clause(of, table, n) for n in named if n is not right]
        known = fold(node.name) in map(fold, of.columns(table)) and table.name != right.table.name
        join, at = next((c for c in clauses if known and c is not None), ("", 0))
        if join and _has_row_each(table, join):
            return f"{node.name} is a column of {table.name}: {join}", Fix(f" {join}", at, at)
    return None


def advise_on_outer_join(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `FROM visits v, codes c WHERE v.code = c.code(+)` as a LEFT JOIN."""
    block, found = of.outermost(node), [*re.finditer(_OUTER, of.text)]
    where = block.clause(TokenType.WHERE) if block is not None else None
    if block is None or block.from_ is None or where is None or len(found) != 1:
        return None
    match, text = found[0], of.text
    near, alias, key = (match[1], match[2], match[3]) if match[1] else (match[6], match[4], match[5])
    items = [text[a:b] for a, b in of.outline.items(block.from_.end + 1, where.start)]
    joined = [item for item in items if fold(item.split()[-1]) == fold(alias)]
    rest = [item for item in items if item not in joined]
    if len(joined) != 1 or len(rest) != 1:
        return None
    made = f"{rest[0]} LEFT JOIN {joined[0]} ON {near} = {alias}.{key}"
    before, after = text[where.end + 1 : match.start()].strip(), text[match.end() : block.stop(where)].strip()
    kept = [re.sub(r"(?i)\s+AND$|^AND\s+", "", each) for each in (before, after) if each]
    condition = f" WHERE {' AND '.join(kept)} " if kept else " "
    return made, Fix(f" {made}{condition}", block.from_.end + 1, block.stop(where))


def advise_on_ambiguous_column(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Name the table of a column that several have: where they are joined on it, either is the same."""
    select = node.find_ancestor(exp.Select)
    if not isinstance(node, exp.Column) or select is None or "start" not in node.this.meta:
        return None
    having = [n for n in of.list_tables(select) if n.column(node.name) is not None]
    join, same = node.find_ancestor(exp.Join), node.parent
    if join is not None and same is join:  # ON id
        name, end = re.escape(node.name), node.this.meta["end"] + 1
        found = re.search(rf"(?i)\bON\s+\(?\s*\"?{name}\Z", of.text[:end])
        return one.hint, None if found is None else Fix(f"USING ({node.name})", found.start(), end)
    if isinstance(same, exp.EQ) and same.this == same.expression and len(having) > 1:  # ON id = id
        right = next((n for n in having if join is None or n.node == join.this), None)
        left, span = next((n for n in having if n is not right), None), of.outline.span(same)
        if right is not None and left is not None and span is not None:
            written = f"{left.alias}.{node.name} = {right.alias}.{node.name}"
            return written, Fix(written, *span)
    sides = (same.this, same.expression) if isinstance(same, exp.EQ) else ()
    other = next((s for s in sides if s is not node and isinstance(s, exp.Column) and s.table), None)
    apart = [n for n in having if other is not None and fold(n.alias) != fold(other.table)]
    if other is not None and fold(other.name) == fold(node.name) and len(apart) == 1:  # ON a.id = id
        written = f"{apart[0].alias}.{node.name}"
        return written, Fix(written, node.this.meta["start"], node.this.meta["end"] + 1)
    joined = [n for n in having if join is not None and n.node == join.this]
    if joined and isinstance(same, exp.EQ):  # JOIN b ON x = id
        written = f"{joined[0].alias}.{node.name}"
        return written, Fix(written, node.this.meta["start"], node.this.meta["end"] + 1)
    joins = select.args.get("joins") or ()
    parts = [part for join in joins for part in list_conjuncts(join.args.get("on"))]
    where = select.args.get("where")
    parts += [] if where is None else list_conjuncts(where.this)
    equal = [
        {fold(f"{side.table}.{side.name}") for side in (part.this, part.expression)}
        for part in parts
        if isinstance(part, exp.EQ)
        and all(isinstance(side, exp.Column) for side in (part.this, part.expression))
    ]
    names = {fold(f"{n.alias}.{node.name}") for n in having}
    inner = not any(join.args.get("side") for join in joins)
    if len(having) < 2 or isinstance(node.parent, exp.Join):
        return None
    written, start = f"{having[0].alias}.{node.name}", node.this.meta["start"]
    asks = "" if inner and len(having) == 2 and names in equal else f"the {node.name} of {having[0].alias}"
    return one.hint, Fix(written, start, node.this.meta["end"] + 1, asks=asks)


def compare_declared_column(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Join a key with the column of a public table that has its values: `dest = airports.faa`, not a name."""
    for join in find_nodes(of.query.tree, exp.Join):
        select, on = join.find_ancestor(exp.Select), join.args.get("on")
        named = [] if select is None else of.list_tables(select)
        for part in list_conjuncts(on):
            sides = [part.this, part.expression] if isinstance(part, exp.EQ) else []
            for key, other in (sides, sides[::-1]) if sides else ():
                if not isinstance(key, exp.Column) or not isinstance(other, exp.Column):
                    continue
                mine = [
                    n for n in named if fold(n.alias) == fold(key.table or n.alias) and n.column(key.name)
                ]
                theirs = [
                    n for n in named if fold(n.alias) == fold(other.table or n.alias) and n.column(other.name)
                ]
                if len(mine) != 1 or len(theirs) != 1:
                    continue
                domain = mine[0].table.domain.get(mine[0].column(key.name) or "")
                same = isinstance(domain, TableDomain) and fold(domain.table) == fold(theirs[0].table.name)
                if same and isinstance(domain, TableDomain) and fold(domain.column) != fold(other.name):
                    fix = replace_name(other.this, domain.column)
                    said = f"the values of {key.name} are those of {theirs[0].alias}.{domain.column}"
                    asks = f"rows with that {domain.column}"
                    return said, None if fix is None else replace(fix, asks=asks)
    return None


def find_absent(of: RefusedStatement, node: exp.Column, named: list[FromTable]) -> Table | None:
    """Return the declared table that stands before a column of its own, if FROM lacks it."""
    if not node.table or not node.table.isascii() or any(fold(n.alias) == fold(node.table) for n in named):
        return None
    table = of.policy.table(node.table)
    return table if table is not None and fold(node.name) in map(fold, of.columns(table)) else None


def find_in_tables(of: RefusedStatement, node: exp.Column, named: list[FromTable]) -> Advice | None:
    """Find a column of another table: of FROM under another alias, or one that can be joined."""
    parent = node.parent
    sides = [side.sql() for side in (parent.this, parent.expression)] if isinstance(parent, exp.EQ) else []
    absent = bool(node.table) and not any(fold(n.alias) == fold(node.table) for n in named)
    declared = find_absent(of, node, named)
    for other in named if declared is None else ():
        name = other.column(node.name)
        if name is not None and node.table and f"{other.alias}.{name}" not in sides:
            return f"did you mean {other.alias}.{name}?", replace_name(node.args["table"], other.alias)
    span = of.outline.span(of.original(parent)) if sides and isinstance(parent, exp.EQ) else None
    both = [n for n in named if sides and any(fold(s).startswith(f"{fold(n.alias)}.") for s in sides)]
    if span is not None and len(both) == 2 and both[0].unit and both[0].unit == both[1].unit:
        written = " = ".join(f"{n.alias}.{n.unit}" for n in both)
        return written, Fix(written, *span, asks=f"rows of one {both[0].unit} are joined")
    joins, far, select = list[tuple[Table, tuple[str, int]]](), list[Table](), node.find_ancestor(exp.Select)
    same = [c for c in find_nodes(select, exp.Column) if fold(c.table) == fold(node.table)] if select else []
    for table in of.policy.tables.values() if declared is None else (declared,):
        known = {fold(c) for c in of.columns(table)}
        if absent and not all(fold(each.name) in known for each in same):
            continue  # not the table that FROM lacks
        mine = [n for n in named if not node.table or fold(n.alias) == fold(node.table)]
        if fold(node.name) in known and not any(join_clause(of, table, n) for n in mine):
            mine = named  # the table that is named does not reach it, but another one may
        if fold(node.name) in known:
            reached = [found for n in mine if (found := join_clause(of, table, n)) is not None]
            # on most keys: with fewer, each row would meet several
            reached.sort(key=lambda found: -len(re.findall(", | AND ", found[0])))
            joins += [(table, found) for found in reached[:1]]
            far += [table]
    joins = joins or [(table, two) for table in far if (two := _join_two(of, table, named)) is not None]
    if not joins:
        return None
    joins.sort(key=lambda each: (not _has_value(of, each[0], node), not _has_row_each(each[0], each[1][0])))
    (table, (join, at)), others = joins[0], [f"not of {other.name}" for other, _ in joins[1:]]
    guess = ", ".join([f"{node.name} of {table.name}", *others]) if others else ""
    if absent:  # FROM lacks the table with that name
        alias = "" if fold(node.table) == fold(table.name) else f" {node.table}"
        join = join.replace(f"JOIN {table.name} ", f"JOIN {table.name}{alias} ")
        join = join.replace(f"= {table.name}.", f"= {node.table}.")
        return join, Fix(f" {join}", at, at)
    if node.table:  # the table that has it is named in its place
        renamed = replace_name(node.args["table"], table.name)
        asks = "" if _has_row_each(table, join) else f"a row for each row of {table.name}"
        fix = None if renamed is None else replace(renamed, also=(Fix(f" {join}", at, at),), asks=asks)
        return f"{node.name} is a column of {table.name}: {join}", fix
    asks = (
        ""
        if _has_row_each(table, join) or not _counts_rows(of, node, table)
        else f"a row for each row of {table.name}"
    )
    return f"{node.name} is a column of {table.name}: {join}", Fix(f" {join}", at, at, asks=asks, guess=guess)


def name_of_table(of: RefusedStatement, node: exp.Column, named: list[FromTable]) -> Advice | None:
    """Give a table of FROM without a name of its own the name that stands before its column."""
    taken = {fold(n.alias) for n in named} | {fold(n.table.name) for n in named}
    plain = [
        n
        for n in named
        if fold(n.alias) == fold(n.table.name) and not re.search(rf"(?i)\b{re.escape(n.alias)}\s*\.", of.text)
    ]
    having = [n for n in plain if n.column(node.name) is not None]
    if not node.table or fold(node.table) in taken or len(having) != 1 or len(named) < 2:
        return None
    ends = [each.meta["end"] + 1 for each in walk_tree(having[0].node) if "end" in each.meta]
    written = f"{having[0].table.name} {node.table}"
    return written, Fix(f" {node.table}", max(ends), max(ends)) if ends else None


def _join_two(of: RefusedStatement, table: Table, named: list[FromTable]) -> tuple[str, int] | None:
    """Return the clauses that join a table by another one between, and the place behind that of FROM."""
    for between in of.policy.tables.values() if named else ():
        if between in (table, *(n.table for n in named)):
            continue
        first = next((join for n in named if (join := join_clause(of, between, n)) is not None), None)
        there = FromTable(between.name, between, named[0].node, of.columns(between))
        second = join_clause(of, table, there) if first is not None else None
        if first is not None and second is not None:
            return f"{first[0]} {second[0]}", first[1]
    return None


def _has_value(of: RefusedStatement, table: Table, node: exp.Column) -> bool:
    """Return whether a public table has the text that a column is compared with."""
    other = node.parent.args.get("expression") if isinstance(node.parent, exp.EQ) else None
    return isinstance(other, exp.Literal) and has_text(of, table, node.name, other.name)


def has_text(of: RefusedStatement, table: Table | None, name: str, text: str) -> bool:
    """Return whether a column of a public table has a text."""
    if table is None or not table.public:
        return False
    column = next((each for each in of.columns(table) if fold(each) == fold(name)), None)
    if column is None:
        return False
    condition = f"{quote(column)} = {literal_sql(text)}"
    return of.catalog.count(f"SELECT 1 FROM {quote(table.name)} WHERE {condition} LIMIT 1") > 0


def _has_row_each(table: Table, join: str) -> bool:
    """Return whether a joined table adds no rows: it is public, has one row a unit, or is joined by a key."""
    unit = table.unit.column if isinstance(table.unit, UnitColumn) else None
    by_key = any(fold(key) in re.findall(r"\w+", fold(join)) for key in table.key_columns)
    return table.public or by_key or table.is_key(unit or "")


def _counts_rows(of: RefusedStatement, node: exp.Column, table: Table) -> bool:
    """Return whether the block of a column has aggregates that read no table, and change with its rows."""
    select = node.find_ancestor(exp.Select)
    calls = (
        [] if select is None else [c for item in select.expressions for c in aggregate_calls(item.unalias())]
    )
    known = {fold(column) for column in of.columns(table)}
    own = [c for c in calls if not any(fold(n.name) in known for n in find_nodes(c, exp.Column))]
    distinct = ("min", "max")
    return any(not c.find(exp.Distinct) and call_name(c) not in distinct for c in own)


def join_derived(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Join a subquery that has the unit on it, where JOIN has no condition."""
    select, derived = node.find_ancestor(exp.Select), getattr(node, "this", None)
    inner = derived.this if isinstance(derived, exp.Subquery) else None
    named = [] if select is None else of.list_tables(select)
    if not isinstance(inner, exp.Select) or node.args.get("on") or node.args.get("using") or len(named) != 1:
        return None
    block = of.outline.block(of.query.source.position(inner.expressions[0]))
    around, unit = None if block is None else of.outline.parentheses(block), named[0].unit
    if around is None or unit is None or fold(unit) not in map(fold, inner.named_selects):
        return None
    alias = re.compile(
        r"(?i)\s+(?:AS\s+)?(?!WHERE\b|GROUP\b|ORDER\b|HAVING\b|LIMIT\b|JOIN\b)[A-Za-z_]\w*"
    ).match(of.text, around[1])
    end = around[1] if alias is None else alias.end()
    return f"USING ({unit})", Fix(f" USING ({unit})", end, end)
