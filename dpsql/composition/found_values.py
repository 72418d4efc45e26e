"""Values that private rows have, as released lists: the list of IN, of set operations, and of aggregates.

The only unit that has a value would move the rows of all others who have it, so the list is a release of
its own: the values that are surely there. Each unit speaks for one of its values, the first by a hash of unit
and value, so it moves one number of speakers by one, however many there are. A value is found if its speakers
with their noise reach tau: with G candidates and noise of scale s, tau = s ln G, so that at most one half of
a value that nobody has is to be expected. Values that are not declared are found as groups of undeclared keys
are, with delta. What is counted among the rows afterwards is another release, which reads the list as a
constant.

A list of other units' values chooses rows of a unit only through that constant. Values of few units may be
missed, so the interval of the count is that of its noise alone, and the answer says so. Lists of values that
belong to one unit each are no such lists: they stay within the unit.

`SELECT DISTINCT clinic FROM visits`, which tools send to fill a filter, and `SELECT clinic FROM visits
GROUP BY clinic` show which values there are, so they are such a list; of several columns it has the rows, and
NULL is a value. Where values are declared, `dp_domain` shows them all, free.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis import Plan
from dpsql.analysis.aggregate_functions import contains_aggregate
from dpsql.analysis.compiled_relation import Cte
from dpsql.analysis.compiler import read_whole_number
from dpsql.analysis.statement_shapes import Provenance
from dpsql.errors import QueryRefused, with_article
from dpsql.language import (
    MARK,
    Clause,
    Clauses,
    Options,
    Query,
    copy_rows,
    copy_tree,
    find_nodes,
    list_given,
    list_terms,
    make_presence,
    make_select,
    name_query,
    read_clause,
    set_where,
    title_of,
)
from dpsql.policy import fold

FOUND = "found"
"""The meta of a literal that stands for the least number of speakers, with the column that they speak for."""
ABSENT = "absent"
"""The meta of that literal which says what the list leaves out."""
OF_NO_ROWS = "of no rows is some value of its domain, where SQL has NULL: COUNT beside it tells"
"""What an answer says of MODE, if the values are declared: which rows there are is not known."""
_READ = frozenset({"expressions", "from_", "joins", "where", "distinct", "group", "kind"})


def with_found_values(query: Query, provenance: Provenance) -> Query:
    """Return a statement with released lists in the place of values of private rows; its tree is changed."""
    if query.clause != Clause():
        return query
    inner = dict(query.inner)
    for node in find_nodes(query.tree, exp.In):
        listed, around = node.args.get("query"), node.find_ancestor(exp.Select)
        select = listed.unnest() if isinstance(listed, exp.Subquery) else listed
        if around is None or not isinstance(select, exp.Select) or list_given(select) - _READ:
            continue
        try:
            ctes = list_ctes_of(select, provenance)
            unit = _find_choosing_speakers(node, select, around, provenance, ctes)
        except QueryRefused:
            continue
        if unit is not None and listed is not None:
            values = list_found_values(select, *unit, inner, negated=isinstance(node.parent, exp.Not))
            listed.replace(exp.Subquery(this=values))
    return query if inner == query.inner else replace(query, inner=inner)


def list_ctes_of(node: exp.Expr, provenance: Provenance) -> tuple[Cte, ...]:
    """Return the common table expressions that a query within a statement may name."""
    around = list[exp.Expr]()
    parent = node.parent
    while parent is not None:
        if isinstance(parent, exp.Query) and parent.args.get("with_") is not None:
            around.append(parent)
        parent = parent.parent
    ctes: tuple[Cte, ...] = ()
    for each in reversed(around):
        ctes = provenance.list_ctes(each, ctes)
    return ctes


def _find_choosing_speakers(
    node: exp.In, select: exp.Select, around: exp.Select, of: Provenance, ctes: tuple[Cte, ...]
) -> tuple[exp.Column, bool] | None:
    """Return the unit of the rows whose values are listed, and whether these are declared.

    None if the list chooses neither rows of other units nor what is shown.
    """
    items, group = select.expressions, select.args.get("group")
    if len(items) != 1:
        return None
    value = items[0].unalias()
    if group is not None and [each.sql() for each in group.expressions] not in ([value.sql()], ["1"]):
        return None
    if of.find_unit(around, ctes) is None and not lists_rows(around):
        return None
    return None if of.find_outer_column(select, ctes) is not None else find_speakers(select, of, ctes)


def lists_rows(select: exp.Select) -> bool:
    """Return whether a statement shows rows, and counts none."""
    return (
        select.parent is None
        and select.args.get("group") is None
        and not any(contains_aggregate(item) for item in select.expressions)
    )


def list_found_values(
    select: exp.Select,
    unit: exp.Column,
    declared: bool,
    inner: dict[int, Clauses],
    *,
    negated: bool = False,
    nulls: bool = False,
    most: int | None = None,
) -> exp.Select:
    """Return the SELECT of the values of rows for which enough units speak; of several columns, the rows.

    Of one column values are no NULL, unless `nulls` says so; of several NULL is a value like any other.
    The clauses of its release are added to `inner`, at a position that no SELECT of the text has. Each unit
    speaks for one value, so that the fewest units make it known, or for the `most` that is written.
    """
    values = [item.unalias() for item in select.expressions]
    count = exp.Anonymous(this=f"{MARK}COUNT", expressions=[exp.Distinct(expressions=[unit])])
    names = ["k"] if len(values) == 1 else [f"k{i}" for i in range(len(values))]
    items = [exp.alias_(copy_tree(v), k, quoted=True) for v, k in zip(values, names, strict=True)]
    counted = exp.Select(expressions=[*items, exp.alias_(count, "n", quoted=True)])
    copy_rows(select, counted)
    if len(values) == 1 and not nulls:
        set_where(counted, read_clause(counted), make_presence(values[0]))
    places: list[exp.Expr] = [exp.Literal.number(i + 1) for i in range(len(values))]
    counted.set("group", exp.Group(expressions=places if len(values) > 1 else [copy_tree(values[0])]))
    mechanism = "LAPLACE" if declared else None
    position = counted.meta["select"] = -2 - len(inner)
    inner[position] = Clauses(
        Options(max_groups_contributed=most or 1, mechanism=mechanism), has_options=True
    )
    least = exp.Literal.number(1)
    words = [word_of(value) for value in values]
    least.meta[FOUND] = words[0] if len(words) == 1 else f"row of {', '.join(words)}"
    if negated:
        least.meta[ABSENT] = (
            f"NOT IN: rows without {with_article(words[0])} are left out; with one, SQL's NOT IN is empty"
        )
    enough = exp.GTE(this=exp.column("n", quoted=True), expression=least)
    return make_select([exp.column(name, quoted=True) for name in names], name_query(counted, "s"), enough)


def with_titles(listed: exp.Select, of: exp.Select) -> exp.Select:
    """Return a list of values with the names that the columns of a SELECT have."""
    names = [item.alias_or_name or title_of(item) for item in of.expressions]
    shown = zip(listed.expressions, names, strict=True)
    listed.set("expressions", [exp.alias_(item, name, quoted=True) for item, name in shown])
    return listed


def find_speakers(
    select: exp.Select, of: Provenance, ctes: tuple[Cte, ...]
) -> tuple[exp.Column, bool] | None:
    """Return the unit that speaks for the values of a SELECT, and whether they are declared.

    None if it aggregates, or if a value belongs to one unit.
    """
    items, distinct = select.expressions, select.args.get("distinct")
    if any(item.is_star or contains_aggregate(item) for item in items):
        return None
    if distinct is not None and distinct.args.get("on") is not None:
        return None
    try:
        unit = of.find_unit(select, ctes)
        found = [] if unit is None else [of.read_values(select, item.unalias(), ctes) for item in items]
    except QueryRefused:
        return None
    if unit is None or any(owned for owned, _ in found):
        return None
    return unit, all(declared for _, declared in found)


def word_of(value: exp.Expr) -> str:
    """Return the name of a column as a sentence has it; "value" for what is computed."""
    return ("" if isinstance(value, exp.Anonymous) else value.name) or "value"


def say_absent(listed: exp.Select, text: str) -> None:
    """Attach to a list of found values the sentence of the answer on values that are absent."""
    for literal in find_nodes(listed.args["where"], exp.Literal):
        if FOUND in literal.meta:
            literal.meta[ABSENT] = text


def put_least(tree: exp.Expr, plan: Plan, scale: float) -> str:
    """Put the least number of speakers into the SQL of a list; return what the answer says of it, if any."""
    said = ""
    for node in find_nodes(tree, exp.Literal):
        name = node.meta.get(FOUND)
        if name is None:
            continue
        least = 1 if plan.domain_size is None else max(1, math.ceil(scale * math.log(plan.domain_size)))
        absent = node.meta.get(ABSENT)
        node.replace(exp.Literal.number(least))
        from_ = f"counts as there from about {least:,} units that speak for it"
        how = "is found as a group of undeclared keys is" if plan.domain_size is None else from_
        missed = "rarer ones are more often missed, so intervals are of the noise alone"
        said = f"found: {with_article(name)} {how}; {missed}"
        said = f"{said}. {absent}" if absent else said
    return said


_SHOWN = _READ | {"with_", "order", "limit", "offset"}


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
    if not isinstance(root, exp.Select) or list_given(root) - _SHOWN:
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
