"""Advise on columns that do not exist."""

from __future__ import annotations

import re

from sqlglot import exp

from dpsql.analysis.advice.statement import Advice, Named, Statement
from dpsql.errors import Fix, Obstacle
from dpsql.language import call_end, replacing, walked, written_name
from dpsql.policy import CsvSource, Table, TableDomain, UnitColumn, fold


def column(of: Statement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Advise on a column that does not exist."""
    select = node.find_ancestor(exp.Select)
    if not isinstance(node, exp.Column) or select is None or (one.hint or "").startswith("did you mean"):
        return None
    named = of.named(select)
    here = [n for n in named if not node.table or fold(n.alias) == fold(node.table)] or named
    if any(n.column(node.name) for n in here if not node.table):
        return None  # it exists, but not in this place
    return (
        renamed(of, node, one)
        or _of_a_list(of, node, select)
        or _text_in_quotes(of, node)
        or _same_as_other_side(of, node, here)
        or _of_a_table(of, node, named)
        or _word_of_a_name(of, node, here)
        or _unit_of(of, node, here)
    )


def renamed(of: Statement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Advise on a column that the policy calls otherwise than the header of its file."""
    select = node.find_ancestor(exp.Select)
    if not isinstance(node, exp.Column) or select is None:
        return None
    for named in of.named(select):
        source = named.table.source
        new = dict(source.format.rename).get(node.name) if isinstance(source, CsvSource) else None
        if new is not None and named.column(new) is not None:
            return _replaced(of, node, new)
    return None


def _replaced(of: Statement, node: exp.Column, name: str) -> Advice:
    return f"did you mean {written_name(name)}?", replacing(node.this, name)


def _of_a_list(of: Statement, node: exp.Column, select: exp.Select) -> Advice | None:
    """Advise to name the column of a list: `SELECT item FROM UNNEST(['a', 'b'])` lacks `AS t(item)`."""
    first, found = select.args.get("from_"), [m.start() for m in re.finditer(r"(?i)\bunnest\b", of.text)]
    if first is None or not isinstance(first.this, exp.Unnest) or select.args.get("joins"):
        return None
    if first.this.args.get("alias") is not None or node.table or len(found) != 1:
        return None
    end = call_end(of.query.source, found[0])
    return (f"AS t({node.name})", Fix(f" AS t({node.name})", end + 1, end + 1)) if end >= 0 else None


def _text_in_quotes(of: Statement, node: exp.Column) -> Advice | None:
    """Advise to write a value in single quotes: double quotes stand around names."""
    compared = isinstance(node.parent, (exp.EQ, exp.NEQ, exp.In, exp.Like, exp.ILike))
    if node.table or not node.this.args.get("quoted") or not compared or "start" not in node.this.meta:
        return None
    text = "'" + node.name.replace("'", "''") + "'"
    return f"{text} is a text", Fix(text, node.this.meta["start"], node.this.meta["end"] + 1)


def _same_as_other_side(of: Statement, node: exp.Column, here: list[Named]) -> Advice | None:
    """`a.id = b.user_id`, where a has a user_id."""
    parent = node.parent
    if not isinstance(parent, exp.EQ):
        return None
    other = parent.expression if parent.this is node else parent.this
    if not isinstance(other, exp.Column) or fold(other.name) == fold(node.name):
        return None
    known = [c for n in here if (c := n.column(other.name)) is not None]
    return _replaced(of, node, known[0]) if len(known) == 1 and node.table else None


def _word_of_a_name(of: Statement, node: exp.Column, here: list[Named]) -> Advice | None:
    """`date`, where the only such column is `visit_date`."""
    word = fold(node.name)
    known = [c for n in here for c in n.columns if word in fold(c).split("_")]
    return _replaced(of, node, known[0]) if len(known) == 1 else None


def _unit_of(of: Statement, node: exp.Column, here: list[Named]) -> Advice | None:
    """`COUNT(DISTINCT user_id)`, where the unit is called otherwise."""
    units = [n.unit for n in here if n.unit is not None]
    counted = isinstance(node.parent, exp.Distinct)
    if not counted or len(set(units)) != 1 or "id" not in fold(node.name):
        return None
    return _replaced(of, node, units[0])


def _of_a_table(of: Statement, node: exp.Column, named: list[Named]) -> Advice | None:
    """Find a column of another table: of FROM under another alias, or one that can be joined."""
    for other in named:
        name = other.column(node.name)
        if name is not None and node.table:
            return f"did you mean {other.alias}.{name}?", replacing(node.args["table"], other.alias)
    joins = []
    for table in of.policy.tables.values():
        known = {fold(c) for c in of.columns(table)}
        if fold(node.name) in known and not node.table:
            joins += [(table, join) for join in (_join(of, table, n) for n in named) if join][:1]
    if len(joins) != 1:
        return None
    (table, (join, at)) = joins[0]
    return f"{node.name} is a column of {table.name}: {join}", Fix(f" {join}", at, at)


def _join(of: Statement, table: Table, to: Named) -> tuple[str, int] | None:
    """Return the clause that joins a table to one of FROM, and the place behind that."""
    ends = [n.meta["end"] + 1 for n in walked(to.node) if "end" in n.meta]
    if not ends or table is to.table:
        return None
    if to.table.unit is not None and table.unit is not None:
        mine = table.unit.column if isinstance(table.unit, UnitColumn) else None
        if mine is None or to.unit is None:
            return None
        same = fold(mine) == fold(to.unit)
        on = f"USING ({mine})" if same else f"ON {to.alias}.{to.unit} = {table.name}.{mine}"
        return f"JOIN {table.name} {on}", max(ends)
    for column, domain in to.table.domain.items():
        if isinstance(domain, TableDomain) and fold(domain.table) == fold(table.name):
            if fold(column) == fold(domain.column):
                return f"JOIN {table.name} USING ({column})", max(ends)
            return f"JOIN {table.name} ON {to.alias}.{column} = {table.name}.{domain.column}", max(ends)
    return None
