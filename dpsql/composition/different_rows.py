"""Read statements that show the different rows of private data as the list of those that are found.

`SELECT DISTINCT clinic FROM visits`, which tools send to fill a filter, and `SELECT clinic FROM visits
GROUP BY clinic` show which values there are. The only unit that has a value would show it, so they are the
values for which enough units speak (see `found_values`); of several columns the rows. NULL is a value. Where
values are declared, `dp_domain` shows them all, free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.compiled_relation import Cte
from dpsql.analysis.compiler import read_whole_number
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition.found_values import find_speakers, list_found_values, with_titles
from dpsql.errors import QueryRefused
from dpsql.language import Clause, Clauses, Query, copy_tree, find_nodes, list_given, list_terms
from dpsql.policy import fold

_READ = {"expressions", "from_", "joins", "where", "with_", "kind", "order", "limit", "offset"}


def with_different_rows(query: Query, provenance: Provenance) -> Query:
    """Return a statement with a released list in the place of the different rows that it shows."""
    found = _read_different_rows(query.tree, provenance) if query.clause == Clause() else None
    if found is None or not isinstance(query.tree, exp.Select):
        return query
    inner, most = dict(query.inner), query.options.max_groups_contributed
    return replace(query, tree=_write_different_rows(query.tree, found, inner, most), inner=inner)


def _read_different_rows(root: exp.Expr, of: Provenance) -> tuple[exp.Column, bool] | None:
    """Return the unit of the rows whose different values a statement shows, and whether they are declared.

    None if it shows something else, or does not sort by what it shows.
    """
    if not isinstance(root, exp.Select) or list_given(root) - _READ - {"distinct", "group"}:
        return None
    items, group, distinct = root.expressions, root.args.get("group"), root.args.get("distinct")
    if (group is None) == (distinct is None) or any(find_nodes(i, exp.Window, exp.Query) for i in items):
        return None
    if group is not None:
        given = list_given(group)
        if given - {"expressions", "all"} or ("all" not in given and len(group.expressions) != len(items)):
            return None
    values = [item.unalias().sql() for item in items]
    if len({*values}) < len(values):
        return None
    ctes = of.list_ctes(root, ())
    if group is not None and not group.args.get("all"):
        keys = [
            _value_of(key, root, lambda name: _is_column(name, root, of, ctes)) for key in group.expressions
        ]
        if sorted(keys) != sorted(values):
            return None
    sorted_by = list_terms(root, "order")
    if not all(_value_of(each.this, root) in values or _is_all(each) for each in sorted_by):
        return None
    return find_speakers(root, of, ctes)


def _is_column(name: str, select: exp.Select, of: Provenance, ctes: tuple[Cte, ...]) -> bool:
    """Return whether FROM has a column of a name, which GROUP BY then means, and not an alias."""
    try:
        of.find_scope(select, ctes).resolve(exp.column(name))
    except QueryRefused:
        return False
    return True


def _value_of(
    node: exp.Expr, select: exp.Select, is_column: Callable[[str], bool] = lambda name: False
) -> str:
    """Return which value of a SELECT an expression of GROUP BY or ORDER BY is, else the expression itself."""
    items, number = select.expressions, read_whole_number(node)
    if number is not None and 0 < number <= len(items):
        return str(items[number - 1].unalias().sql())
    if not isinstance(node, exp.Column):
        return str(node.sql())
    alone = not select.args.get("joins")
    for item in items:
        value = item.unalias()
        same = isinstance(value, exp.Column) and fold(value.name) == fold(node.name)
        if same and (alone or not node.table or fold(node.table) == fold(value.table)):
            return str(value.sql())
    named = {fold(item.alias): item.this.sql() for item in items if isinstance(item, exp.Alias)}
    alias = not node.table and not is_column(node.name)
    return str(named.get(fold(node.name), node.sql())) if alias else str(node.sql())


def _is_all(term: exp.Expr) -> bool:
    """Return whether a term of ORDER BY is ALL."""
    return str(term.this.sql()).upper() == "ALL"


def _write_different_rows(
    root: exp.Select, speakers: tuple[exp.Column, bool], inner: dict[int, Clauses], most: int | None
) -> exp.Select:
    """Return the SELECT of the rows that are found, in the place of the different rows of a statement."""
    made = with_titles(list_found_values(root, *speakers, inner, nulls=True, most=most), root)
    values = [item.unalias().sql() for item in root.expressions]
    for name in ("with_", "order", "limit", "offset"):
        part = root.args.get(name)
        made.set(name, copy_tree(part) if part else None)
    for each in list_terms(made, "order"):
        if not _is_all(each):
            each.set("this", exp.Literal.number(values.index(_value_of(each.this, root)) + 1))
    return made
