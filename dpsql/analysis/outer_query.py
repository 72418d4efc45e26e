"""Compile the outermost block of a private statement: its keys, counts, and columns computed from them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.analysis.aggregates import call_of, group_nodes
from dpsql.analysis.blocks import expand, with_ctes
from dpsql.analysis.coerce import to_type
from dpsql.analysis.domains import listed_values, with_domain
from dpsql.analysis.expressions import canonical, check_arguments, function_name, predicate
from dpsql.analysis.joins import conjuncts, from_clause
from dpsql.analysis.plan import Output
from dpsql.analysis.relation import Block, Scope, fold
from dpsql.analysis.released import Count, compile_count, is_count
from dpsql.analysis.selection import parse_selection
from dpsql.analysis.spellings import rewritten
from dpsql.analysis.typed import KeyDomain, Typed, UnitRole, column
from dpsql.analysis.writing import Rows
from dpsql.language import AboveThreshold, AllGroups, Selection, TopK
from dpsql.types import DOUBLE

if TYPE_CHECKING:
    from dpsql.analysis.compiler import StatementCompiler
    from dpsql.analysis.relation import From, Item
    from dpsql.language import Query

__all__ = ["FREE", "OuterQuery", "outer_query"]

MAX_KEYS = 16
MAX_COUNTS = 16

FREE = {
    "dp_gap": "gap",
    "dp_stddev": "stddev",
    "dp_interval_low": "low",
    "dp_interval_high": "high",
    "dp_pvalue": "p_value",
    "dp_rank": "rank",
}
"""Functions of released values, with the kind of output column; they cost no privacy budget."""

_KNOWN = frozenset(
    {
        "expressions",
        "from_",
        "joins",
        "where",
        "group",
        "having",
        "order",
        "limit",
        "offset",
        "with_",
    }
)
_UNSTORABLE = frozenset({"INTERVAL", "JSON", "HUGEINT", "LIST", "STRUCT"})


class OuterQuery:
    """The compiled outermost block: the private rows, the counts over them, and the output columns."""

    def __init__(
        self,
        rows: Rows,
        selection: Selection,
        keys: tuple[Typed, ...],
        domains: tuple[KeyDomain | None, ...],
        counts: tuple[Count, ...],
        outputs: tuple[Output, ...],
        source: From,
    ) -> None:
        self.rows = rows
        self.selection = selection
        self.keys = keys
        self.domains = domains
        self.counts = counts
        self.outputs = outputs
        self.source = source


def outer_query(compiler: StatementCompiler, query: Query) -> OuterQuery:
    """Compile the outermost block of a private statement."""
    select = query.tree
    source = compiler.source
    if not isinstance(select, exp.Select):
        raise source.refuse("a private statement is one SELECT", select, "put set operations into a subquery")
    if select.args.get("distinct") is not None:
        raise source.refuse(
            "SELECT DISTINCT would release exact groups", select, "GROUP BY the key and select a count"
        )
    spelled = rewritten(source, select)
    select = spelled.select
    check_arguments(source, select, _KNOWN)
    ctes = with_ctes(compiler, select, ())
    made = from_clause(compiler, select, ctes, 1)
    made.scope.block = Block(made.owner, made.unit, ctes, 1)
    if made.owner is None:
        raise source.refuse("no private table reaches the outermost SELECT", select)
    items = expand(compiler, select, made.scope)
    _only_counts(compiler, items)
    selection, hidden, order = parse_selection(query, select, items)
    scope = made.scope
    for item in items:
        if _plain(item, items):
            scope.aliases.setdefault(fold(item.name), compiler.expression(item.node, scope))
    keys = _keys(compiler, select, items, made)
    where = select.args.get("where")
    filters = conjuncts(where.this) if where is not None else []
    condition = f" WHERE {predicate(compiler, where.this, scope).guarded}" if where is not None else ""
    single = _single(compiler, made, keys, filters)
    nodes = [(i, item.node) for i, item in enumerate(items) if is_count(item.node)]
    nodes += [(len(items) + i, node) for i, node in enumerate(hidden)]
    if len(nodes) > MAX_COUNTS:
        raise source.refuse(f"a statement has at most {MAX_COUNTS} counts", nodes[-1][1])
    counts = tuple(compile_count(compiler, node, made, single) for _, node in nodes)
    places = {place: i for i, (place, _) in enumerate(nodes)}
    domains = tuple(_domain(compiler, key, filters, made) for key in keys)
    outputs = tuple(
        replace(
            _output(compiler, item, keys, places, i, items, scope_keys=keys, made=made),
            at=source.position(item.node),
        )
        for i, item in enumerate(items)
    )
    selection = _with_count(_with_order(compiler, selection, order, keys, items, made), places)
    if spelled.spelling and isinstance(selection, TopK):
        selection = replace(selection, spelling=spelled.spelling)
    if spelled.only is not None:
        outputs = (replace(outputs[spelled.only[0]], name=spelled.only[1]),)
    keys = tuple(canonical(k) for k in keys)
    rows = Rows.of(made, condition, keys, counts)
    return OuterQuery(rows, selection, keys, domains, counts, outputs, made)


def _plain(item: Item, items: list[Item]) -> bool:
    """Return whether an item is an expression of the row: it contains no count and no `dp_` function."""
    counts = {i: i for i, other in enumerate(items) if is_count(other.node)}
    return (
        _free(item.node) is None and call_of(item.node) is None and not _over_counts(item.node, counts, items)
    )


def _only_counts(compiler: StatementCompiler, items: list[Item]) -> None:
    for item in items:
        name = call_of(item.node)
        if name is not None and not is_count(item.node):
            raise compiler.source.refuse(
                f"{name.upper()} over many units is not released: only counts are",
                item.node,
                "count privacy units: COUNT(DISTINCT ...)",
            )


def _free(node: exp.Expr) -> str | None:
    return FREE.get((function_name(node) or "").lower())


def _keys(
    compiler: StatementCompiler, select: exp.Select, items: list[Item], made: From
) -> tuple[Typed, ...]:
    nodes = group_nodes(compiler, select, items, made.scope)
    if len(nodes) > MAX_KEYS:
        raise compiler.source.refuse(f"a statement has at most {MAX_KEYS} group keys", nodes[-1])
    keys: list[Typed] = []
    for node in nodes:
        if is_count(node) or _free(node) is not None:
            raise compiler.source.refuse("a count cannot be a group key", node)
        key = with_domain(compiler.catalog, compiler.expression(node, made.scope), made.scope)
        if key.unit is not UnitRole.NONE:
            raise compiler.source.refuse(
                "the privacy unit cannot be a group key: it would name single units", node
            )
        if key.type.name in _UNSTORABLE:
            raise compiler.source.refuse(f"a group key cannot be a {key.type}", node)
        if key.sql not in {k.sql for k in keys}:
            keys.append(key)
    return tuple(keys)


def _single(
    compiler: StatementCompiler, made: From, keys: tuple[Typed, ...], filters: list[exp.Expr]
) -> bool:
    """Return whether each unit has at most one row in a group: the keys fix a unique column set."""
    fixed = {key.sql for key in keys}
    for part in filters:
        if isinstance(part, exp.EQ):
            for a, b in ((part.this, part.expression), (part.expression, part.this)):
                if isinstance(a, exp.Column) and isinstance(b, exp.Literal):
                    column = compiler.expression(a, made.scope)
                    value = compiler.expression(b, made.scope)
                    if value.type == column.type or (value.type.integer and column.type.integer):
                        fixed.add(column.sql)
    return any(names <= fixed for names in made.unique)


def _domain(compiler: StatementCompiler, key: Typed, filters: list[exp.Expr], made: From) -> KeyDomain | None:
    """Return the domain of a key: an IN list or equality on the key in WHERE, else its public domain."""
    for part in filters:
        values: list[exp.Expr] = []
        if isinstance(part, exp.In) and part.expressions and not part.args.get("query"):
            values, of = part.expressions, part.this
        elif isinstance(part, exp.EQ):
            values, of = [part.expression], part.this
            if isinstance(of, exp.Literal):
                values, of = [of], part.expression
        if not values or not all(
            isinstance(v, (exp.Literal, exp.Neg, exp.Cast, exp.Boolean, exp.Null)) for v in values
        ):
            continue
        if compiler.expression(of, made.scope).sql != key.sql:
            continue
        listed = [compiler.expression(v, made.scope) for v in values]
        fitted = [to_type(compiler.catalog, v, key.type) for v in listed]
        if all(v is not None and not v.reads for v in fitted):
            return listed_values([v.guarded_node for v in fitted if v is not None])
    return key.domain


def _output(
    compiler: StatementCompiler,
    item: Item,
    keys: tuple[Typed, ...],
    places: dict[int, int],
    place: int,
    items: list[Item],
    *,
    scope_keys: tuple[Typed, ...],
    made: From,
) -> Output:
    source = compiler.source
    if place in places:
        return Output(_name(item, "count"), "count", places[place])
    free = _free(item.node)
    if free is not None:
        return _free_output(compiler, item, free, places, items)
    if _over_counts(item.node, places, items):
        return _derived(compiler, item, keys, places, items, made)
    value = compiler.expression(item.node, made.scope)
    for i, key in enumerate(scope_keys):
        if key.sql == value.sql:
            return Output(item.name, "key", i)
    if not keys:
        hint = "only counts are released from private tables: COUNT(DISTINCT unit)"
    else:
        hint = "select the keys of GROUP BY and counts"
    raise source.refuse("this is neither a group key nor a count", item.node, hint)


def _over_counts(node: exp.Expr, places: dict[int, int], items: list[Item]) -> bool:
    """Return whether an expression contains a count, written out or by its alias."""
    names = {fold(items[p].name) for p in places if p < len(items)}
    return any(
        is_count(n) or (isinstance(n, exp.Column) and not n.table and fold(n.name) in names)
        for n in node.walk()
    )


def _derived(
    compiler: StatementCompiler,
    item: Item,
    keys: tuple[Typed, ...],
    places: dict[int, int],
    items: list[Item],
    made: From,
) -> Output:
    """Compile an expression over released counts and keys, which costs no privacy budget."""
    uses: set[int] = set()

    def lookup(node: exp.Expr) -> Typed | None:
        for place, i in places.items():
            if place >= len(items):
                continue
            named = (
                isinstance(node, exp.Column) and not node.table and fold(items[place].name) == fold(node.name)
            )
            if named or items[place].node == node:
                uses.add(i)
                return column("r", f"n{i}", DOUBLE)
        if is_count(node):
            raise compiler.source.refuse(
                "an expression may only use counts that the select list also selects",
                node,
                "COUNT(..) AS n, COUNT(..) AS m, n / m",
            )
        if isinstance(node, exp.Column):
            value = compiler.expression(node, made.scope)
            for i, key in enumerate(keys):
                if key.sql == value.sql:
                    return column("r", f"k{i}", key.type)
            raise compiler.source.refuse(
                "an expression over counts may only use released counts and group keys", node
            )
        return None

    scope = Scope(compiler.source, intercept=lookup)
    value = compiler.expression(item.node, scope)
    if value.type.name in _UNSTORABLE:
        raise compiler.source.refuse(f"a {value.type} is not released", item.node)
    return Output(item.name, "derived", sql=value.guarded, uses=tuple(sorted(uses)))


def _name(item: Item, word: str) -> str:
    return word if item.name.startswith("col") and item.name[3:].isdecimal() else item.name


def _free_output(
    compiler: StatementCompiler, item: Item, kind: str, places: dict[int, int], items: list[Item]
) -> Output:
    source, arguments = compiler.source, item.node.expressions
    of = -1
    if kind in ("stddev", "low", "high"):
        name = (function_name(item.node) or "").upper()
        if len(arguments) > 1 or (not arguments and len(places) != 1):
            raise source.refuse(f"{name} takes one count", item.node, f"{name}(n)")
        of = _count_argument(compiler, arguments[0], places, items) if arguments else 0
    elif arguments:
        raise source.refuse(f"{(function_name(item.node) or '').upper()} takes no argument", item.node)
    return Output(_name(item, (function_name(item.node) or "").lower()), kind, of)  # type: ignore[arg-type]  # FREE's values


def _count_argument(
    compiler: StatementCompiler, node: exp.Expr, places: dict[int, int], items: list[Item]
) -> int:
    for place, i in places.items():
        if place < len(items) and (
            (isinstance(node, exp.Column) and not node.table and fold(items[place].name) == fold(node.name))
            or items[place].node == node
        ):
            return i
    raise compiler.source.refuse("this is not a count of the select list", node, "name a count by its alias")


def _with_order(
    compiler: StatementCompiler,
    selection: Selection,
    order: list[exp.Expr],
    keys: tuple[Typed, ...],
    items: list[Item],
    made: From,
) -> Selection:
    """Return the selection with the places of the keys that order it."""
    found = []
    for term in order[1:] if isinstance(selection, TopK) else order:
        node = term.this
        if isinstance(node, exp.Literal) and str(node.this).isdecimal() and 1 <= int(node.this) <= len(items):
            node = items[int(node.this) - 1].node
        value = compiler.expression(node, made.scope)
        place = next((i for i, k in enumerate(keys) if k.sql == value.sql), None)
        if place is None:
            raise compiler.source.refuse("ORDER BY may name a count of the select list or a key", term)
        found.append((place, bool(term.args.get("desc"))))
    return (
        replace(selection, order=tuple(found))
        if isinstance(selection, (AboveThreshold, AllGroups))
        else selection
    )


def _with_count(selection: Selection, places: dict[int, int]) -> Selection:
    """Return the selection with the place of its count among the counts, not in the select list."""
    if isinstance(selection, (TopK, AboveThreshold)):
        return replace(selection, count=places[selection.count])
    return selection
