"""Subqueries of a row over all rows with one key: the values of all keys are released first.

`cost > (SELECT AVG(w.cost) FROM visits w WHERE w.day = v.day)` compares each row with a number that depends
on the rows of other units. The averages of all keys are one release of groups; what is counted is another,
which reads them as a constant, whatever they are (adaptive composition). Where the key around the subquery
is one of a public table, the groups are those of its rows that meet the conditions on it. Beside the
aggregates of groups, as in the share `COUNT(*) / (SELECT COUNT(*) FROM visits w WHERE w.day = v.day)`, the
key is one of the groups: the two are releases that are joined on it. Beside public or released rows, as in
`SELECT d.code, (SELECT COUNT(*) FROM visits v WHERE v.code = d.code) FROM diagnoses d`, each row has the
number of its key in the release of all groups: what is computed from it is computed after the release.

The constant is a list of texts with a number and its key, so it is one like that of IN; a number is the
same after it was written and read. A key without rows has no number, and SQL's aggregate of no rows is
NULL, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from sqlglot import exp

from dpsql.analysis.aggregate_functions import (
    OF_NUMBERS,
    aggregate_calls,
    aggregate_name,
    contains_aggregate,
)
from dpsql.analysis.compiled_relation import Scope
from dpsql.analysis.compiler import find_cte
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition.equivalent_blocks import BY_KEY
from dpsql.composition.existence import READS_ROWS
from dpsql.composition.found_values import list_ctes_of
from dpsql.errors import QueryRefused
from dpsql.language import (
    Query,
    copy_rows,
    copy_tree,
    find_nodes,
    keep_title,
    list_conjuncts,
    list_from_items,
    list_given,
    make_call,
    make_select,
    name_query,
    read_clause,
    set_where,
    write_node,
)
from dpsql.policy import Policy, UnitColumn, fold
from dpsql.types import DATE, VARCHAR

_LONGEST = 1_000_000
"""No key has more characters."""


def with_values_by_key(query: Query, provenance: Provenance) -> exp.Query:
    """Return a statement whose rows are compared with released values of their keys; its tree is changed."""
    tree: exp.Query = query.tree
    policy, catalog = provenance.policy, provenance.catalog

    def columns_of(item: exp.Table) -> Collection[str] | None:
        table = policy.table(item.name) if item.name.isascii() and item.args.get("db") is None else None
        return None if table is None else {fold(name) for name, _ in catalog.columns(table.name)}

    for sub in find_nodes(tree, exp.Subquery):
        inner, around = sub.this, sub.find_ancestor(exp.Select)
        if isinstance(sub.parent, READS_ROWS) or not isinstance(inner, exp.Select) or around is None:
            continue
        calls = [call for item in inner.expressions for call in aggregate_calls(item)]
        if len(inner.expressions) != 1 or not calls:
            continue
        ties = read_ties(inner, columns_of, nulls=True)
        if ties is None:
            continue
        ctes = list_ctes_of(around, provenance)
        if not ties.nulls and (_is_of_group(sub, around) or provenance.find_unit(around, ctes) is None):
            if provenance.find_unit(inner, ctes) is not None:
                public = _list_public_values(around, ties, policy)
                sub.replace(keep_title(sub, _read_group(sub, ties, public)))
            continue
        tie = ties.read_one()
        if tie is None or any(aggregate_name(call) not in OF_NUMBERS for call in calls):
            continue
        try:
            scope = _find_scope(inner, around, tie, provenance)
        except QueryRefused:
            continue
        if scope is not None:
            sub.set("this", _look_up(inner, tie, _find_public(around, tie.around, scope, policy)))
    return tree


def _is_of_group(sub: exp.Subquery, around: exp.Select) -> bool:
    """Return whether a subquery stands beside the aggregates of groups, so that it reads their keys."""
    node: exp.Expr = sub
    while node.parent is not around and node.parent is not None and aggregate_name(node) is None:
        node = node.parent
    above = {"expressions", "having", "order"}
    return node.parent is around and node.arg_key in above and bool(around.args.get("group"))


def _list_public_values(around: exp.Select, ties: Ties, policy: Policy) -> list[exp.Expr]:
    """Return the conditions that keys have values of the public rows around; none where these are others."""
    items = list_from_items(around)
    for item in items:
        table = policy.table(item.name) if isinstance(item, exp.Table) and item.name.isascii() else None
        if table is None or not table.public or find_cte(item) is not None:
            return []
    found = list[exp.Expr]()
    for within, other in ties.pairs:
        rows = exp.Select(expressions=[copy_tree(other)])
        copy_rows(around, rows)
        set_where(rows, *(p for p in list_conjuncts(read_clause(rows)) if not find_nodes(p, exp.Query)))
        rows.meta["select"] = -1
        found.append(exp.In(this=copy_tree(within), query=exp.Subquery(this=rows)))
    return found


def _read_group(sub: exp.Subquery, ties: Ties, public: list[exp.Expr]) -> exp.Expr:
    """Return the number of a row's keys among those of all groups, which are a release of their own.

    `public` are the conditions that the keys have values of public rows. Nothing is equal to NULL, and the
    number of no rows is 0.
    """
    inner, around = sub.this, [other for _, other in ties.pairs]
    taken = {fold(c.table or c.name) for other in around for c in find_nodes(other, exp.Column)}

    def choose_name(wanted: str) -> str:
        names = (wanted, *(f"{wanted}{i}" for i in range(len(taken))))
        found = next(name for name in names if fold(name) not in taken)
        taken.add(fold(found))
        return found

    table = choose_name("g")
    keys = [
        (choose_name(within.name if isinstance(within, exp.Column) else "k"), within)
        for within, _ in ties.pairs
    ]
    number = choose_name(sub.parent.alias if isinstance(sub.parent, exp.Alias) else "v")
    value = copy_tree(inner.expressions[0].unalias())
    made = copy_tree(inner, "expressions", "where")
    items = [*keys, (number, value)]
    made.set("expressions", [exp.alias_(copy_tree(each), name, quoted=True) for name, each in items])
    set_where(made, *map(copy_tree, ties.rest), *public)
    made.set("group", exp.Group(expressions=[copy_tree(key) for _, key in keys]))
    made.meta["select"] = -1
    said = " and ".join(key.name if isinstance(key, exp.Column) else write_node(key) for _, key in keys)
    made.meta["note"] = f"the number of a {said} that is in no group shown is NULL"
    same = [
        exp.EQ(this=exp.column(name, table=table, quoted=True), expression=copy_tree(other))
        for (name, _), other in zip(keys, around, strict=True)
    ]
    v = exp.column(number, table=table, quoted=True)
    found = exp.Subquery(this=make_select([v], name_query(made, table), exp.and_(*same, copy=False)))
    if not (aggregate_name(value) or "").startswith("count"):
        return found
    missing = exp.or_(*(exp.Is(this=copy_tree(each), expression=exp.Null()) for each in around), copy=False)
    return exp.Case(ifs=[exp.If(this=missing, true=exp.Literal.number(0))], default=found)


def _find_scope(inner: exp.Select, around: exp.Select, tie: Tie, of: Provenance) -> Scope | None:
    """Return the columns around a subquery over rows of many units, if its key is whole, a day or a text."""
    ctes = list_ctes_of(around, of)
    if of.find_unit(inner, ctes) is None or of.find_unit(around, ctes) is None:
        return None
    if of.read_values(inner, tie.within, ctes)[0]:
        return None
    kind = of.make_compiler().expression(tie.within, of.find_scope(inner, ctes)).type
    return of.find_scope(around, ctes) if kind.integer or kind in (DATE, VARCHAR) else None


def _find_public(
    around: exp.Select, column: exp.Column, scope: Scope, policy: Policy
) -> tuple[exp.Table, list[exp.Expr], bool] | None:
    """Return the public table that has a column, the conditions on its rows alone, and whether it is a key.

    None if no public table has it.
    """
    held = {fold(o.alias): {fold(name) for name in o.names} for o in scope.origins}

    def alias_of(node: exp.Column) -> str | None:
        having = [alias for alias, names in held.items() if fold(node.name) in names]
        return fold(node.table) or (having[0] if len(having) == 1 else None)

    for item in _list_inner_items(around):
        table = policy.table(item.name) if isinstance(item, exp.Table) and item.name.isascii() else None
        if table is None or not table.public or fold(item.alias_or_name) != alias_of(column):
            continue
        found = list[exp.Expr]()
        for part in list_conjuncts(read_clause(around)):
            columns = find_nodes(part, exp.Column)
            plain = bool(columns) and not find_nodes(part, exp.Query)
            if plain and all(alias_of(c) == fold(item.alias_or_name) for c in columns):
                found.append(part)
        assert isinstance(item, exp.Table)  # noqa: S101  as seen
        return item, found, table.is_key(column.name)
    return None


def _list_inner_items(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the items of FROM of which no row is there without a partner."""
    if not any(join.args.get("side") for join in select.args.get("joins") or ()):
        yield from list_from_items(select)


def _text(value: exp.Expr) -> exp.Expr:
    return exp.cast(copy_tree(value), "VARCHAR")


def _look_up(
    inner: exp.Select, tie: Tie, public: tuple[exp.Table, list[exp.Expr], bool] | None
) -> exp.Select:
    """Return the SELECT of the number of a row's key among those of a release.

    Public rows that have a key several times are listed: a join would repeat the rows that are counted.
    """
    name = tie.within.name if fold(tie.within.name) != "v" else "k"  # what refusals and lines call it
    rest, key = [copy_tree(each) for each in tie.rest], copy_tree(tie.within)
    made = copy_tree(inner, "expressions", "where")
    if public is not None and not public[2]:
        listed = make_select([copy_tree(tie.around)], copy_tree(public[0]), *map(copy_tree, public[1]))
        rest.append(exp.In(this=copy_tree(tie.within), query=exp.Subquery(this=listed)))
    elif public is not None:
        same = exp.EQ(this=copy_tree(tie.within), expression=copy_tree(tie.around))
        made.append("joins", exp.Join(this=copy_tree(public[0]), on=same))
        rest += [copy_tree(each) for each in public[1]]
        key = copy_tree(tie.around)
    set_where(made, *rest)
    value = copy_tree(inner.expressions[0].unalias())
    made.set(
        "expressions", [exp.alias_(copy_tree(key), name, quoted=True), exp.alias_(value, "v", quoted=True)]
    )
    made.set("group", exp.Group(expressions=[key]))
    made.meta["select"] = -1
    made.meta["note"] = say_compared(tie.within.name)
    return find_number(name_query(made, "s"), name, "v", tie.around, nulls=tie.nulls)


def say_compared(key: str) -> str:
    """Return what is told of rows that are compared with the released number of their key."""
    said = f"rows are compared with the released number of their {key}, with NULL where none is shown"
    return f"{said}: the range is of the rows that it selects"


def find_number(item: exp.Expr, key: str, value: str, around: exp.Expr, *, nulls: bool = False) -> exp.Select:
    """Return the SELECT of a number in the row of released groups that has the key of the row around.

    With `nulls` NULL is a key, too: its text is empty, and those of others begin with a sign.
    """

    def text(node: exp.Expr) -> exp.Expr:
        signed = exp.DPipe(this=exp.Literal.string("="), expression=_text(node))
        return make_call("coalesce", signed, exp.Literal.string("")) if nulls else _text(node)

    k, v = (exp.column(name, table=item.alias_or_name, quoted=True) for name in (key, value))
    both = exp.DPipe(this=exp.DPipe(this=_text(v), expression=exp.Literal.string(" ")), expression=text(k))
    listed = name_query(make_select([exp.alias_(both, "value", quoted=True)], item), "w")
    listed.meta[BY_KEY] = True
    written = exp.column("value", table="w")  # the key is behind the first blank, and may have others
    number = make_call("split_part", written, exp.Literal.string(" "), exp.Literal.number(1))
    behind = exp.Add(this=make_call("length", copy_tree(number)), expression=exp.Literal.number(2))
    most = make_call("MAX", exp.TryCast(this=number, to=exp.DataType.build("DOUBLE"), safe=True))
    longest = exp.cast(exp.Literal.number(_LONGEST), "BIGINT")
    own_key = make_call("substring", copy_tree(written), behind, longest)
    return make_select([most], listed, exp.EQ(this=own_key, expression=text(around)))


_READ = frozenset({"expressions", "from_", "joins", "where", "kind"})


ColumnsOf = Callable[[exp.Table], Collection[str] | None]
"""Returns the folded names of the columns of a declared table; None for other tables."""


def read_exists(node: exp.Exists, columns_of: ColumnsOf) -> tuple[exp.Column, exp.Select] | None:
    """Return the column of the rows around EXISTS, and the SELECT of the values that it may have.

    `EXISTS (SELECT 1 FROM visits v WHERE v.code = d.code AND v.cost > 9)` holds of the rows whose code is
    among those of the rows inside that meet the rest. A row without a code is in no list, and NOT EXISTS
    holds of it: an equality with NULL is never true. So NOT EXISTS differs from NOT IN, where NULL decides
    nothing. EXISTS that compares otherwise than by one equality is not read.

    ``LEFT JOIN visits v ON v.code = d.code WHERE v.code IS NULL`` has the rows of NOT EXISTS with that
    condition: in a row with a partner v.code is equal to something, so it is not NULL.
    """
    inner = node.this.unnest()
    if not isinstance(inner, exp.Select) or any(map(contains_aggregate, inner.expressions)):
        return None
    ties = read_ties(inner, columns_of)
    tie = None if ties is None else ties.read_one()
    if tie is None:
        return None
    listed = copy_tree(inner, "expressions", "where")
    listed.set("expressions", [copy_tree(tie.within)])
    set_where(listed, *map(copy_tree, tie.rest))
    return tie.around, listed


class Tie(NamedTuple):
    """The equality of a column of a subquery with one of the rows around it, and its other conditions."""

    within: exp.Column
    around: exp.Column
    rest: tuple[exp.Expr, ...]
    nulls: bool = False
    """Whether NULL is equal to NULL."""


class Ties(NamedTuple):
    """The equalities of values of a subquery with values of the rows around it, and its other conditions."""

    pairs: tuple[tuple[exp.Expr, exp.Expr], ...]
    rest: tuple[exp.Expr, ...]
    nulls: bool = False
    """Whether NULL is equal to NULL in one of them."""

    def read_one(self) -> Tie | None:
        """Return the only equality, if it is one of two columns."""
        (within, around), *others = self.pairs
        if others or not (isinstance(within, exp.Column) and isinstance(around, exp.Column)):
            return None
        return Tie(within, around, self.rest, self.nulls)


def read_ties(inner: exp.Select, columns_of: ColumnsOf, *, nulls: bool = False) -> Ties | None:
    """Return by which equalities a SELECT of declared tables is tied to the rows around it.

    `nulls` says that they may be of NULL with NULL.
    """
    if list_given(inner) - _READ:
        return None
    items, joins = list_from_items(inner), inner.args.get("joins") or []
    if len(find_nodes(inner, exp.Query)) > 1 + len(items):
        return None
    own, names = set[str](), set[str]()
    for item in items:
        known = columns_of(item) if isinstance(item, exp.Table) and find_cte(item) is None else None
        if known is None:
            return None
        own.add(fold(item.alias_or_name))
        names |= set(known)

    def is_inside(column: exp.Column) -> bool:
        return fold(column.table) in own if column.table else fold(column.name) in names

    def is_own(part: exp.Expr) -> bool:
        return all(map(is_inside, find_nodes(part, exp.Column)))

    rest, pairs = list[exp.Expr](), list[tuple[exp.Expr, exp.Expr]]()
    safe = False
    for part in list_conjuncts(read_clause(inner)):
        if is_own(part):
            rest.append(part)
            continue
        equal = isinstance(part, (exp.EQ, exp.NullSafeEQ) if nulls else exp.EQ)
        sides = [part.this.unnest(), part.expression.unnest()] if equal else []
        within = [side for side in sides if is_own(side) and find_nodes(side, exp.Column)]
        around = [side for side in sides if not any(map(is_inside, find_nodes(side, exp.Column)))]
        if len(within) != 1 or len(around) != 1:
            return None
        pairs.append((within[0], around[0]))
        safe |= isinstance(part, exp.NullSafeEQ)
    return Ties(tuple(pairs), tuple(rest), safe) if pairs and all(map(is_own, joins)) else None


def with_anti_joins(tree: exp.Query, policy: Policy) -> exp.Query:
    """Return a query with NOT EXISTS in the place of LEFT JOINs of units without rows in a table, changed.

    Each row is then there once, which needs no bound on the rows of the join.
    """
    for select in find_nodes(tree, exp.Select):
        made = read_anti_join(select) if _joins_units(select, policy) else None
        if made is not None and select is tree:
            tree = made
        elif made is not None:
            select.replace(made)
    return tree


def _joins_units(select: exp.Select, policy: Policy) -> bool:
    """Return whether an outer join equates the units of two private tables."""
    units = set[str]()
    for item in list_from_items(select):
        table = policy.table(item.name) if isinstance(item, exp.Table) and item.name.isascii() else None
        if table is not None and isinstance(table.unit, UnitColumn) and item.args.get("db") is None:
            units.add(f"{fold(item.alias_or_name)}.{fold(table.unit.column)}")
    for join in select.args.get("joins") or ():
        equal = list_conjuncts(join.args.get("on")) if join.args.get("side") else ()
        for node in (part.unnest() for part in equal):
            sides = (node.this.unnest(), node.expression.unnest()) if isinstance(node, exp.EQ) else ()
            names = {f"{fold(s.table)}.{fold(s.name)}" for s in sides if isinstance(s, exp.Column)}
            if len(names) == 2 and names <= units:
                return True
    return False


def read_anti_join(select: exp.Select) -> exp.Select | None:
    """Return a SELECT with NOT EXISTS in the place of a LEFT JOIN without partners; None for others."""
    made = copy_tree(select)
    joins, where = made.args.get("joins") or [], read_clause(made)
    left = [join for join in joins if join.args.get("side")]
    if len(left) != 1 or str(left[0].args["side"]).upper() != "LEFT" or left[0].args.get("kind"):
        return None
    if where is None or left[0].args.get("on") is None:
        return None
    item, on, rest = left[0].this, left[0].args["on"], list[exp.Expr]()
    if not isinstance(item, exp.Table):
        return None
    name, absent = fold(item.alias_or_name), list[exp.Column]()
    for part in list_conjuncts(where):
        node = part.unnest()
        column = node.this.unnest() if isinstance(node, exp.Is) else None
        if (
            isinstance(column, exp.Column)
            and isinstance(node.expression, exp.Null)
            and fold(column.table) == name
        ):
            absent.append(column)
        else:
            rest.append(part)
    equated = [
        side.unnest().sql()
        for part in list_conjuncts(on)
        if isinstance(part.unnest(), exp.EQ)
        for side in (part.unnest().this, part.unnest().expression)
    ]
    if not absent or any(each.sql() not in equated for each in absent):
        return None
    inner = make_select([exp.Literal.number(1)], copy_tree(item), copy_tree(on))
    made.set("joins", [join for join in joins if join is not left[0]] or None)
    set_where(made, *map(copy_tree, rest))
    if any(fold(node.table) == name for node in find_nodes(made, exp.Column)):
        return None
    set_where(made, *map(copy_tree, rest), exp.Not(this=exp.Exists(this=inner)))
    return made
