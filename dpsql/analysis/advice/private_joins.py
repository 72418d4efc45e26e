"""Advise on joins of private tables by columns that are not their privacy unit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice.unknown_names import Advice, FromTable, RefusedStatement, add_clause
from dpsql.analysis.compiler import list_conjuncts
from dpsql.errors import Fix, Obstacle
from dpsql.language import replace_name, walk_tree
from dpsql.policy import UnitColumn, fold, path_of


def advise_on_private_join(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Join private tables on the unit besides."""
    select = node.find_ancestor(exp.Select)
    if not isinstance(node, exp.Join) or select is None:
        return None
    named = of.list_tables(select)
    right = next((n for n in named if n.node is node.this or n.node == node.this), None)
    pairs = [] if right is None else [*_list_equated(node, select, named, right)]
    before = [n for n in named if n is not right and _find_unit(of, n) is not None]
    left = next((n for n in before if any(n is other for other, _, _ in pairs)), next(iter(before), None))
    whom = None if left is None else _find_unit(of, left)
    unit = None if right is None else _find_unit(of, right)
    if right is None or left is None or whom is None or unit is None:
        return None
    same = f"{left.alias}.{whom} = {right.alias}.{unit}"
    mistaken = _correct_key(of, node, named)
    if mistaken is not None:
        return mistaken
    at, text = _place_of_condition(of, node, select, right), of.text
    if at is None:
        at = _place_in_using(of, node, right, whom, unit)
    if at is None:
        return None
    place, form = at
    change = form.format(same=same, unit=unit)
    fix = add_clause(text, place, change) if change.startswith("WHERE") else Fix(change, place, place)
    word = "ON" if node.args.get("on") is not None or change.startswith(" ON") else "WHERE"
    hint = f"USING ({unit}, ..)" if node.args.get("using") else f"{word} {same}"
    names = _find_unique_key(left, right, pairs)
    if names is None:
        return hint, replace(fix, asks=f"rows of one {whom} are joined")
    rows = f"rows of {left.table.name} and {right.table.name} with one {names}"
    return hint, replace(fix, provided=f"{rows} belong to one {whom}; else those pairs are left out")


def _find_unit(of: RefusedStatement, named: FromTable) -> str | None:
    """Return the column by which a private table names its unit, of its own or of the table that has it."""
    path = path_of(of.policy.tables, named.table)
    unit = (path[-1] if path else named.table).unit
    return unit.column if isinstance(unit, UnitColumn) else None


def _list_equated(
    join: exp.Join, select: exp.Select, named: list[FromTable], right: FromTable
) -> Iterator[tuple[FromTable, str, str]]:
    """Yield the columns of tables before a join that it equates with columns of its own table."""
    before = [n for n in named if n is not right and not n.table.public]
    for name in join.args.get("using") or ():
        for other in before:
            mine, theirs = other.column(name.name), right.column(name.name)
            if mine is not None and theirs is not None:
                yield other, mine, theirs
    where = select.args.get("where")
    parts = list_conjuncts(join.args.get("on"))
    parts += [] if where is None or join.args.get("side") else list_conjuncts(where.this)
    for part in parts:
        sides = (part.this, part.expression) if isinstance(part, exp.EQ) else ()
        for a, b in (sides, sides[::-1]) if sides else ():
            if not isinstance(a, exp.Column) or not isinstance(b, exp.Column):
                continue
            theirs = right.column(b.name) if fold(b.table or right.alias) == fold(right.alias) else None
            for other in before:
                mine = other.column(a.name) if fold(a.table or other.alias) == fold(other.alias) else None
                if mine is not None and theirs is not None:
                    yield other, mine, theirs


def _find_unique_key(
    left: FromTable, right: FromTable, pairs: list[tuple[FromTable, str, str]]
) -> str | None:
    """Return the columns that a join equates, if they are a unique key of one of its tables."""
    equated = [(mine, theirs) for other, mine, theirs in pairs if other is left]
    for table, side in ((left.table, 0), (right.table, 1)):
        there = {fold(pair[side]) for pair in equated}
        for key in table.unique:
            if {fold(column) for column in key} <= there:
                return ", ".join(key)
    return None


def _correct_key(of: RefusedStatement, join: exp.Join, named: list[FromTable]) -> Advice | None:
    """`a.visit_id = b.user_id`, where a has the unit too: one side names the wrong key."""
    on = join.args.get("on")
    sides = [on.this, on.expression] if isinstance(on, exp.EQ) else []
    if not all(isinstance(s, exp.Column) and s.table for s in sides):
        return None
    units = [next((n.unit for n in named if fold(n.alias) == fold(s.table)), None) for s in sides]
    wrong = [(s, u) for s, u in zip(sides, units, strict=True) if u and fold(s.name) != fold(u)]
    if len(wrong) != 1 or None in units:
        return None
    ((side, unit),) = wrong
    written = f"{side.table}.{unit}"
    asks = f"rows of one {unit} are joined"
    fix = replace_name(side.this, str(unit))
    return f"did you mean {written}?", replace(fix, asks=asks) if fix is not None else None


def _place_of_condition(
    of: RefusedStatement, join: exp.Join, select: exp.Select, right: FromTable
) -> tuple[int, str] | None:
    """Return where a condition of a join can be added, and its form there."""
    start = right.node.this.meta.get("start", 0)
    block, tokens = of.outline.block(start), of.outline.tokens
    i = next((i for i, t in enumerate(tokens) if t.start == start), 0)
    on = join.args.get("on")
    if on is not None:
        word = next((t for t in tokens[i:] if t.token_type == TokenType.ON), None)
        return None if word is None or isinstance(on, exp.Or) else (word.end + 1, " {same} AND")
    if block is None or join.args.get("using") or join.args.get("method"):
        return None
    if i and tokens[i - 1].token_type == TokenType.JOIN and tokens[i - 2].text.upper() != "CROSS":
        ends = [n.meta["end"] + 1 for n in walk_tree(right.node) if "end" in n.meta]
        return max(ends), " ON {same}"
    where, clause = select.args.get("where"), block.clause(TokenType.WHERE)
    if where is not None and clause is not None:
        return None if isinstance(where.this, exp.Or) else (clause.end + 1, " {same} AND")
    return block.before(TokenType.WHERE), "WHERE {same}"


def _place_in_using(
    of: RefusedStatement, join: exp.Join, right: FromTable, whom: str, unit: str
) -> tuple[int, str] | None:
    """Return where a unit of one name in both tables can be added to USING."""
    start, tokens = right.node.this.meta.get("start", 0), of.outline.tokens
    if not join.args.get("using") or fold(whom) != fold(unit):
        return None
    i = next((i for i, t in enumerate(tokens) if t.start == start), 0)
    word = next((j for j, t in enumerate(tokens) if j > i and t.token_type == TokenType.USING), None)
    return None if word is None else (tokens[word + 1].end + 1, "{unit}, ")
