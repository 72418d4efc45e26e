"""Follow an outer query through its tree: which releases' noise its rows and columns depend on.

`composition.selected` asks for it, to find the releases whose intervals must hold at once. What is not
understood depends on all releases.

Conditions that groups exist choose no rows here. A group with rows is left out only by noise below -1/2, and
noise has either sign alike: what misses its interval by an excess is shown in at least half of all runs, and
what misses it by a lack is left out first. So intervals cover what is shown of groups with rows as often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.aggregate_functions import contains_aggregate
from dpsql.analysis.compiler import call_name, read_whole_number
from dpsql.analysis.public_domains import is_domain_table
from dpsql.composition.existence import without_existence
from dpsql.composition.tracing import (
    CLEAN,
    NONE,
    Dependence,
    QueryContext,
    RelationRows,
    ReleaseNames,
    SelectScope,
    merge_dependences,
)
from dpsql.language import find_nodes, list_given, walk_tree
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold


class NotFollowedError(Exception):
    """The reader of dependences does not understand a query."""


_KNOWN = frozenset(
    {
        *("with_", "expressions", "from_", "joins", "laterals", "where", "group", "having", "qualify"),
        *("windows", "distinct", "order", "limit", "offset", "sample"),
    }
)
"""The clauses of a SELECT that are followed. A sample is drawn without looking at numbers."""

_OF_ITEM = frozenset(
    {"this", "alias", "joins", "sample", "expressions", "offset", "ordinality", "view", "outer"}
)
"""The parts of an item of FROM that are followed."""

_OF_SET_OPERATION = frozenset(
    {"this", "expression", "distinct", "by_name", "with_", "order", "limit", "offset"}
)
"""The parts of a set operation that are followed."""

_BY_ROW = (
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Alias,
    exp.Paren,
    exp.Cast,
    exp.TryCast,
    exp.DataType,
    exp.DataTypeParam,
    exp.Neg,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.IntDiv,
    exp.Predicate,
    exp.Connector,
    exp.Not,
    exp.Round,
    exp.Abs,
    exp.Ceil,
    exp.Floor,
    exp.DPipe,
)
"""Expressions whose value shows all ends that they read, whatever these are."""

_FUNCTIONS_BY_ROW = frozenset({"round", "abs", "ceil", "ceiling", "floor", "format", "printf", "concat"})
"""Functions of which the same holds."""


@dataclass(frozen=True, slots=True)
class DependenceReader:
    """Reads queries over released relations and public tables; `names` are those of the releases."""

    released: Mapping[str, RelationRows]
    public: Callable[[str], tuple[str, ...] | None]
    names: ReleaseNames

    @property
    def unknown(self) -> Dependence:
        """The dependence of an expression that is not understood: on everything."""
        return Dependence(self.names, self.names, self.names)

    # -- queries

    def query(self, node: exp.Expr, around: QueryContext) -> RelationRows:
        """Return the rows of a query, each column with the releases on which its values depend."""
        around = self._with(node, around)
        if isinstance(node, exp.Select):
            return self._select(node, around)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, around)
        if isinstance(node, exp.Subquery):
            rows = self._named(self.query(node.this, around), node)
            return self._cut(rows, node, [], around.inside(SelectScope([("", rows)])))
        raise NotFollowedError

    def _with(self, node: exp.Expr, around: QueryContext) -> QueryContext:
        clause = node.args.get("with_")
        if clause is None:
            return around
        ctes = dict(around.ctes)
        for cte in clause.expressions:
            name = fold(cte.alias)
            if clause.args.get("recursive"):
                ctes[name] = self._recursive(cte, replace(around, ctes=ctes))
            else:
                ctes[name] = self._named(self.query(cte.this, replace(around, ctes=ctes)), cte)
        return replace(around, ctes=ctes)

    def _recursive(self, cte: exp.Expr, around: QueryContext) -> RelationRows:
        """Return the rows of a query that may read itself: clean if nothing in it has noise."""
        own = fold(cte.alias)
        for table in find_nodes(cte.this, exp.Table):
            name = fold(table.name)
            known = around.ctes.get(name) if name != own else None
            noisy = known is not None and (
                known.present or known.order or merge_dependences(known.values).noise
            )
            if name in self.released or noisy:
                return RelationRows(None, self.unknown, self.names, self.names)
        return RelationRows(None)

    def _set_operation(self, node: exp.SetOperation, around: QueryContext) -> RelationRows:
        if list_given(node) - _OF_SET_OPERATION:
            raise NotFollowedError
        left, right = self.query(node.this, around), self.query(node.expression, around)
        sides = (merge_dependences(left.values), merge_dependences(right.values))
        present = left.present | right.present
        if not isinstance(node, exp.Union):  # a row stays by the values of the other side
            present |= sides[0].noise | sides[1].noise
        columns = None
        if left.columns is not None and right.columns is not None and not node.args.get("by_name"):
            columns = tuple(
                (name, merge_dependences([a, b]))
                for (name, a), (_, b) in zip(left.columns, right.columns, strict=True)
            )
        rows = RelationRows(columns, merge_dependences(sides), present, left.order | right.order)
        return self._cut(rows, node, [], around.inside(SelectScope([("", rows)])))

    def _select(self, node: exp.Select, around: QueryContext) -> RelationRows:
        if list_given(node) - _KNOWN:
            raise NotFollowedError
        scope = SelectScope()
        inner, present = around.inside(scope), set(self._from(node, scope, around))
        for window in node.args.get("windows") or []:
            scope.windows |= self._parts(window, inner).noise
        listed: list[tuple[str, Dependence]] = []
        for item in node.expressions:
            named = self._items(item, scope, inner)
            listed += named
            for name, value in named:
                scope.aliases.setdefault(name, []).append(value)
        for name in ("where", "having", "qualify"):
            clause = node.args.get(name)
            for condition in without_existence(clause.this)[0] if clause is not None else ():
                present |= self._value(condition, inner).noise
        group = node.args.get("group")
        if group is not None:
            present |= self._grouping(group, node, listed, inner)
        order = self._ordering(node, listed, inner)
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            present |= self._value(distinct.args["on"], inner).noise | order | scope.order
        rows = RelationRows(tuple(listed), CLEAN, frozenset(present) | scope.present, order | scope.order)
        return self._limited(rows, node, inner)

    def _cut(
        self, rows: RelationRows, node: exp.Expr, listed: list[tuple[str, Dependence]], around: QueryContext
    ) -> RelationRows:
        """Return the rows behind the ORDER BY and LIMIT of a set operation, or of parentheses."""
        order = self._ordering(node, listed or list(rows.columns or ()), around)
        return self._limited(replace(rows, order=rows.order | order), node, around)

    def _limited(self, rows: RelationRows, node: exp.Expr, around: QueryContext) -> RelationRows:
        limits = [node.args[name] for name in ("limit", "offset") if node.args.get(name) is not None]
        if not limits:
            return rows
        noise = merge_dependences(self._parts(limit, around) for limit in limits).noise
        return replace(rows, present=rows.present | rows.order | noise)

    def _ordering(
        self, node: exp.Expr, listed: list[tuple[str, Dependence]], around: QueryContext
    ) -> ReleaseNames:
        clause = node.args.get("order")
        if clause is None:
            return NONE
        return merge_dependences(self._term(term.this, listed, around) for term in clause.expressions).noise

    def _term(self, node: exp.Expr, listed: list[tuple[str, Dependence]], around: QueryContext) -> Dependence:
        """Return the value of a term of ORDER BY or GROUP BY, which may be a place in the select list."""
        place = read_whole_number(node.unnest())
        if place is not None and 1 <= place <= len(listed):
            return listed[place - 1][1]
        if isinstance(node, exp.Var):  # ALL
            return merge_dependences(value for _, value in listed)
        return self._value(node, around)

    def _grouping(
        self, group: exp.Expr, node: exp.Select, listed: list[tuple[str, Dependence]], around: QueryContext
    ) -> ReleaseNames:
        """Return the noise in what rows are grouped by: it decides which groups there are."""
        found = [self._term(term, listed, around) for term in group.expressions]
        if group.args.get("all"):
            found += [self._value(item, around) for item in node.expressions if not contains_aggregate(item)]
        more = {name: value for name, value in group.args.items() if name not in ("expressions", "all")}
        found += [self._parts(each, around) for each in _nodes(more)]
        return merge_dependences(found).noise

    # -- FROM

    def _from(self, node: exp.Select, scope: SelectScope, around: QueryContext) -> ReleaseNames:
        """Put the items of FROM into a scope; return the noise of the conditions under which they meet."""
        clause, noise = node.args.get("from_"), NONE
        if clause is not None:
            noise |= self._item(clause.this, scope, around)
        for join in node.args.get("joins") or []:
            noise |= self._join(join, scope, around)
        for lateral in node.args.get("laterals") or []:
            noise |= self._item(lateral, scope, around)
        return noise

    def _join(self, join: exp.Expr, scope: SelectScope, around: QueryContext) -> ReleaseNames:
        method, kind = join.args.get("method"), join.args.get("kind")
        if join.args.get("pivots") or method not in (None, "", "ASOF", "NATURAL", "POSITIONAL"):
            raise NotFollowedError
        before = list(scope.items)
        noise = self._item(join.this, scope, around)
        inner = around.inside(scope)
        if join.args.get("on") is not None:
            noise |= self._value(join.args["on"], inner).noise
        for name in join.args.get("using") or []:
            noise |= merge_dependences(scope.found("", fold(name.name))[0]).noise
        if method == "NATURAL":
            mine = [rows for _, rows in scope.items[len(before) :]]
            shared = _shared([rows for _, rows in before], mine)
            noise |= merge_dependences(v for name in shared for v in scope.found("", name)[0]).noise
            if any(rows.columns is None for _, rows in scope.items):
                noise |= merge_dependences(scope.values).noise
        if method == "POSITIONAL":
            noise |= scope.order | scope.present
        if kind in ("SEMI", "ANTI"):  # its rows decide, and are not shown
            noise |= frozenset[str]().union(*(rows.present for _, rows in scope.items[len(before) :]))
            scope.items[len(before) :] = []
        return noise

    def _item(self, node: exp.Expr, scope: SelectScope, around: QueryContext) -> ReleaseNames:
        """Add an item of FROM to a scope; return the releases on which the other parts of the item depend."""
        if list_given(node) - _OF_ITEM:
            raise NotFollowedError
        inner, noise, alias = around.inside(scope), NONE, fold(node.alias_or_name)
        if is_domain_table(node):
            rows = RelationRows(None)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            rows = self._named(self._table(node, around), node)
        elif isinstance(node, (exp.Subquery, exp.Lateral)) and isinstance(
            node.this, (exp.Query, exp.Subquery)
        ):
            rows = self._named(self.query(node.this, inner), node)
        elif isinstance(node, (exp.Subquery, exp.Paren)) and isinstance(node.this, exp.Table):
            noise |= self._item(node.this, scope, around)  # (a JOIN b)
            return self._more(node, scope, around, noise)
        elif isinstance(node, (exp.Table, exp.Unnest, exp.Lateral, exp.Values)):
            made = self._parts(node, inner)
            rows = RelationRows(None, made, made.noise, made.noise)
        else:
            raise NotFollowedError
        scope.items.append((alias, rows))
        return self._more(node, scope, around, noise)

    def _more(
        self, node: exp.Expr, scope: SelectScope, around: QueryContext, noise: ReleaseNames
    ) -> ReleaseNames:
        for join in node.args.get("joins") or []:
            noise |= self._join(join, scope, around)
        return noise

    def _table(self, node: exp.Table, around: QueryContext) -> RelationRows:
        name = fold(node.name)
        for known in (around.ctes, self.released):
            if name in known:
                return known[name]
        columns = self.public(node.name)
        return RelationRows(None if columns is None else tuple((fold(each), CLEAN) for each in columns))

    def _named(self, rows: RelationRows, node: exp.Expr) -> RelationRows:
        """Return rows with the names that an alias gives to their columns."""
        names = [fold(name) for name in node.alias_column_names]
        if not names or rows.columns is None:
            return rows
        values = [value for _, value in rows.columns]
        old = [name for name, _ in rows.columns]
        return replace(rows, columns=tuple(zip([*names, *old[len(names) :]], values, strict=False)))

    # -- expressions

    def _items(
        self, node: exp.Expr, scope: SelectScope, around: QueryContext
    ) -> list[tuple[str, Dependence]]:
        """Return the columns that an item of a select list makes."""
        star = node.this if isinstance(node, exp.Column) else node
        if isinstance(star, exp.Star):
            own = fold(node.table) if isinstance(node, exp.Column) else ""
            items = [rows for alias, rows in scope.items if not own or alias == own]
            changed = list_given(star) - {"except_", "replace"}
            if changed or any(rows.columns is None for rows in items):
                rest = merge_dependences(
                    [*(v for rows in items for v in rows.values), self._parts(star, around)]
                )
                names = {name for rows in items for name, _ in rows.columns or ()}
                # Which columns come is not known: every name that there is may be any of them.
                return [*((name, rest) for name in sorted(names)), ("", rest)]
            left_out = {fold(each.name) for each in star.args.get("except_") or []}
            new = {
                fold(each.alias): self._value(each.this, around) for each in star.args.get("replace") or []
            }
            return [
                (name, new.get(name, value))
                for rows in items
                for name, value in rows.columns or ()
                if name not in left_out
            ]
        if any(_is_columns(each) for each in walk_tree(node)):
            rest = merge_dependences([*scope.values, self._value(node, around)])
            return [*((name, rest) for _, rows in scope.items for name, _ in rows.columns or ()), ("", rest)]
        return [(fold(node.alias_or_name), self._value(node, around))]

    def _value(self, node: exp.Expr, around: QueryContext) -> Dependence:
        """Return what the value of an expression depends on."""
        if isinstance(node, exp.Column):
            return self._column(node, around)
        if isinstance(node, exp.Exists):
            rows = self.query(node.this, around)
            return Dependence(rows.present)
        if isinstance(node, (exp.Query, exp.Subquery)):
            rows = self.query(node, around)
            made, there = merge_dependences(rows.values), rows.present | rows.order
            return Dependence(made.noise | there, made.ends, made.chosen | (made.ends if there else NONE))
        if _is_columns(node):
            return merge_dependences([*(v for scope in around.scopes[:1] for v in scope.values)])
        if isinstance(node, exp.Lambda):
            names = frozenset(fold(each.name) for each in node.expressions)
            return self._parts(node, replace(around, parameters=around.parameters | names))
        made = self._parts(node, around)
        scope = around.scopes[0] if around.scopes else SelectScope()
        if isinstance(node, exp.Window):
            made = replace(made, noise=made.noise | scope.windows | scope.order | scope.present)
        elif isinstance(node, (exp.Func, exp.Anonymous)) and not _by_row(node):
            made = replace(made, noise=made.noise | scope.order)
        if not made.ends or _by_row(node):
            return made
        if isinstance(node, (exp.Case, exp.If)) and not self._conditions(node, around).noise:
            return made
        return replace(made, chosen=made.chosen | made.ends)

    def _conditions(self, node: exp.Expr, around: QueryContext) -> Dependence:
        """Return what decides which part of a CASE is shown."""
        if isinstance(node, exp.If):
            return self._value(node.this, around)
        asked = [] if node.this is None else [node.this]
        return merge_dependences(
            self._value(each, around) for each in [*asked, *(i.this for i in node.args["ifs"])]
        )

    def _parts(self, node: exp.Expr, around: QueryContext) -> Dependence:
        """Return what the parts of a node depend on together."""
        return merge_dependences(self._value(each, around) for each in _nodes(node.args))

    def _column(self, node: exp.Column, around: QueryContext) -> Dependence:
        if isinstance(node.this, exp.Star):
            return merge_dependences(value for scope in around.scopes for value in scope.values)
        table, name = fold(node.table), fold(node.name)
        if not table and name in around.parameters:
            return CLEAN
        possible: list[Dependence] = []
        for scope in around.scopes:
            found, certain = scope.found(table, name)
            possible += found
            if certain and possible:
                return merge_dependences(possible)
        for scope in around.scopes if table else ():  # a field of a column
            found = [*scope.found("", table)[0], *scope.found("", fold(node.parts[0].name))[0]]
            if found:
                return merge_dependences([*possible, *found])
        # A name that only a relation with unknown columns can have is one of these.
        return merge_dependences(possible) if possible else self.unknown


def _by_row(node: exp.Expr) -> bool:
    called = call_name(node)
    return isinstance(node, _BY_ROW) or called in _FUNCTIONS_BY_ROW


def _is_columns(node: exp.Expr) -> bool:
    """Return whether a node is COLUMNS(..), which stands for columns of any name."""
    return isinstance(node, exp.Columns) or call_name(node) == "columns"


def _nodes(args: Mapping[str, object]) -> Iterator[exp.Expr]:
    for value in args.values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, exp.Expr):
                yield each


def _shared(one: Iterable[RelationRows], other: Iterable[RelationRows]) -> set[str]:
    mine, theirs = ({name for rows in side for name, _ in rows.columns or ()} for side in (one, other))
    return mine & theirs
