"""Advise on private tables that are joined, or read in a condition."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice.statement import Advice, Named, Statement, clause_at
from dpsql.errors import Fix, Obstacle
from dpsql.language import replacing, walked
from dpsql.policy import fold


def joined(of: Statement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Join private tables on the unit besides."""
    select = node.find_ancestor(exp.Select)
    if not isinstance(node, exp.Join) or select is None:
        return None
    named = of.named(select)
    right = next((n for n in named if n.node is node.this or n.node == node.this), None)
    left = next((n for n in named if n is not right and n.unit is not None), None)
    if right is None or left is None or right.unit is None:
        return None
    same = f"{left.alias}.{left.unit} = {right.alias}.{right.unit}"
    mistaken = _wrong_key(of, node, named)
    if mistaken is not None:
        return mistaken
    asks = f"rows of one {left.unit} are joined"
    at, text = _place_of_condition(of, node, select, right), of.text
    if at is None:
        return None
    place, form = at
    change = form.format(same=same, unit=right.unit)
    fix = clause_at(text, place, change) if change.startswith("WHERE") else Fix(change, place, place)
    word = "ON" if node.args.get("on") is not None or change.startswith(" ON") else "WHERE"
    return f"{word} {same}", replace(fix, asks=asks)


def _wrong_key(of: Statement, join: exp.Join, named: list[Named]) -> Advice | None:
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
    fix = replacing(side.this, str(unit))
    return f"did you mean {written}?", replace(fix, asks=asks) if fix is not None else None


def _place_of_condition(
    of: Statement, join: exp.Join, select: exp.Select, right: Named
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
        ends = [n.meta["end"] + 1 for n in walked(right.node) if "end" in n.meta]
        return max(ends), " ON {same}"
    where, clause = select.args.get("where"), block.clause(TokenType.WHERE)
    if where is not None and clause is not None:
        return None if isinstance(where.this, exp.Or) else (clause.end + 1, " {same} AND")
    return block.before(TokenType.WHERE), "WHERE {same}"
