"""Read the clauses of a SELECT of the parser, which are None where there are none, and write new ones."""

from __future__ import annotations

from sqlglot import exp

from dpsql.language.syntax_trees import copy_tree


def read_clause(select: exp.Expr, name: str = "where") -> exp.Expr | None:
    """Return the condition of WHERE, HAVING or QUALIFY, or the first item of FROM; None without the clause.

    >>> read_clause(exp.select("a").from_("t").where("a > 1")).sql()
    'a > 1'
    """
    clause = select.args.get(name)
    return None if clause is None else clause.this


def list_terms(select: exp.Expr, name: str = "group") -> list[exp.Expr]:
    """Return the terms of GROUP BY or ORDER BY, none without the clause."""
    clause = select.args.get(name)
    return [] if clause is None else list(clause.expressions)


def list_from_items(select: exp.Expr) -> list[exp.Expr]:
    """Return the items of FROM, those of joins behind the first one."""
    first, joins = select.args.get("from_"), select.args.get("joins") or ()
    return [] if first is None else [first.this, *(join.this for join in joins)]


def list_conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """Return the conjuncts of a condition."""
    node = node.unnest() if node is not None else None
    if isinstance(node, exp.And):
        return [*list_conjuncts(node.this), *list_conjuncts(node.expression)]
    return [] if node is None else [node]


def set_where(select: exp.Select, *conditions: exp.Expr | None) -> None:
    """Let a SELECT keep the rows for which all of some conditions hold; it has no WHERE without any."""
    given = [each for each in conditions if each is not None]
    select.set("where", exp.Where(this=exp.and_(*given, copy=False)) if given else None)


def copy_rows(select: exp.Select, into: exp.Select) -> None:
    """Give a SELECT a copy of the rows of another: its FROM, joins and WHERE."""
    for name in ("from_", "joins", "where"):
        part = select.args.get(name)
        made = [copy_tree(each) for each in part] if isinstance(part, list) else part and copy_tree(part)
        into.set(name, made or None)


def make_presence(value: exp.Expr) -> exp.Not:
    """Return the condition that there is a value."""
    return exp.Not(this=exp.Is(this=copy_tree(value), expression=exp.Null()))


def make_select(items: list[exp.Expr], source: exp.Expr, *conditions: exp.Expr) -> exp.Select:
    """Return a SELECT of an item of FROM that is of no place in the text."""
    made = exp.Select(expressions=items)
    made.set("from_", exp.From(this=source))
    set_where(made, *conditions)
    made.meta["select"] = -1
    return made
