"""Divide a release block into a plain one, which is counted, and a SELECT over its released rows.

The plain block has keys, measures and at most a selection. A measure is an aggregate over private rows;
each is released once, wherever the block uses it. All else reads released rows alone, so it costs nothing:
expressions, HAVING, QUALIFY, windows, ORDER BY, OFFSET, LIMIT.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis import Catalog
from dpsql.analysis.block_groups import list_group_nodes
from dpsql.analysis.compiled_relation import Scope
from dpsql.analysis.compiler import read_whole_number
from dpsql.analysis.released.conditional_counts import cut_ratios, read_as_counts
from dpsql.analysis.released.released_calls import (
    AGGREGATED_AFTERWARDS,
    SORTED_AFTERWARDS,
    is_ratio,
    is_released,
)
from dpsql.analysis.select_blocks import expand_star, list_ctes
from dpsql.analysis.selection import read_threshold
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition.analysed_blocks import AnalysedBlocks
from dpsql.composition.block_clauses import BlockClauses
from dpsql.composition.block_columns import BlockNames, ReleasedColumns, is_measure, is_total, nodes
from dpsql.composition.existence import (
    BESIDE_TOTALS,
    EXISTENCE,
    HALF,
    aggregates,
    counts_all,
    divides,
    exists_condition,
    has_windows,
    limits_places,
    needs_existence,
    windows_need_existence,
)
from dpsql.composition.prepared import COUNTED
from dpsql.errors import QueryRefused
from dpsql.language import MARK, Clause, Query, copy_tree, read_clause, set_where
from dpsql.lazy_dataclass import dataclass, replace
from dpsql.policy import Policy

Separated = tuple[Query, exp.Select | None]
_BEHIND = ("order", "limit", "offset", "distinct", "windows", "qualify")
"""The clauses that a plain block has only as its selection."""


def separate(
    query: Query,
    policy: Policy,
    catalog: Catalog,
    name: str = "r0",
    *,
    readers: Sequence[exp.Select] = (),
    asked: bool = False,
    analysed: AnalysedBlocks | None = None,
    provenance: Provenance | None = None,
) -> Separated:
    """Return the plain release block of a query, and the SELECT over its released rows, called `name`.

    `readers` are the SELECTs that read its rows, `asked` says that one of them asks which groups are there,
    `analysed` whether all groups of a plain block's keys are declared, so that some may have no rows, and
    whether units decide which are there; `provenance` has what was compiled of the statement before.
    What is decided about that (see `existence`) is in the meta of the block's tree.

    The SELECT is None where nothing is left to compute. It has the columns of the query in their order, and
    no WITH. Of a block that the analysis refuses, what it refuses stays in the plain block.
    """
    select = query.tree
    if not isinstance(select, exp.Select) or not (
        select.args.get("group") is not None
        or any(is_measure(node) for item in select.expressions for node in nodes(item))
    ):
        return query, None
    select = cut_ratios(read_as_counts(select, policy, catalog, query.options))
    names = None
    with suppress(QueryRefused, RecursionError):
        names = _names(select, provenance or Provenance(query.source, policy, catalog))
    if names is None:
        return query, None
    columns = ReleasedColumns(name, names, query.source.position)
    clauses = BlockClauses(select, names, columns, query.clause.by)
    window = next((n for each in clauses.having for n in nodes(each) if isinstance(n, exp.Window)), None)
    if window is not None:
        written = re.sub(f"(?i){MARK}", "", select.args["having"].this.sql("duckdb"))
        raise query.source.refuse("HAVING has no window functions", window, f"QUALIFY {written}")
    plainly = [each for each in readers if not has_windows(each)]
    counted = any(counts_all(node, names.scope) for item in names.items for node in nodes(item.node))
    existing = asked or any(map(needs_existence, plainly)) or any(map(windows_need_existence, readers))
    measures = [item.name for item in names.items if is_measure(item.node)]
    existing |= any(limits_places(each, measures) for each in readers)
    existing |= counted and any(map(divides, plainly))
    return _BlockSplit(query, select, names, columns, clauses, tuple(readers), existing, analysed).separated()


def _names(select: exp.Select, provenance: Provenance) -> BlockNames:
    compiler = provenance.make_compiler()
    scope = Scope(provenance.source)
    with suppress(QueryRefused):
        compiler, rows = provenance.compile_rows(select, list_ctes(compiler, select, ()))
        scope = rows.scope
    names = BlockNames(expand_star(compiler, select, scope), scope)
    group = select.args.get("group")
    if group is not None and group.args.get("all"):
        keys = [item.node for item in names.items if names.free(item.node)]
    else:
        keys = list_group_nodes(compiler, select, list(names.items), scope)
    named = [names.as_row(key) for key in keys]
    names.keys = [key for key in named if read_whole_number(key.unnest()) is None] or named
    return names


@dataclass(slots=True)
class _BlockSplit:
    query: Query
    select: exp.Select
    names: BlockNames
    columns: ReleasedColumns
    clauses: BlockClauses
    readers: tuple[exp.Select, ...]
    existing: bool
    """Whether the meaning of what reads the rows depends on which groups exist."""
    analysed: AnalysedBlocks | None = None

    def separated(self) -> Separated:
        """Return the plain block and the SELECT over it."""
        clause = self.query.clause
        if not self.clauses.readable:
            return self.query, None
        if clause.top is not None or clause.argmax or clause.threshold is not None:
            return self._by_clause(clause)
        if self.select.args.get("group") is None:
            return self._one_group()
        plain, outer = self._of_partitions() or self._largest() or self._above() or self._all()
        self._decide(plain, outer)
        return plain, outer

    def _decide(self, plain: Query, outer: exp.Select | None) -> None:
        """Leave out the groups that do not exist, by counts that the block asks for, where SQL needs it."""
        found = [name for node, name in self.columns.found if counts_all(node, self.names.scope)]
        over = [outer] if outer is not None else []
        if any(aggregates(each) or has_windows(each) for each in [*self.readers, *over]):
            plain.tree.meta[AGGREGATED_AFTERWARDS] = True
        windows = any(map(windows_need_existence, [*self.readers, *over]))
        limits = outer is not None and self.clauses.limits_places and not self._selects_by_measure(plain)
        needed = self.existing or any(needs_existence(each) or divides(each, found) for each in over)
        if self._above_half or not (needed or windows or limits):
            if self.select.meta.get(BESIDE_TOTALS):
                items = self.names.items if outer is None else ()
                found += [item.name for item in items if counts_all(item.node, self.names.scope)]
                plain.tree.meta[EXISTENCE] = (tuple(found), True) if found else None
            return
        selected = any(plain.tree.args.get(name) is not None for name in ("qualify", "limit"))
        decided = limits or any(map(windows_need_existence, over))
        kept = any(map(has_windows, over)) and (selected or not decided)
        if outer is None or kept or not found:  # counts decide on NULL alone
            plain.tree.meta[EXISTENCE] = (() if outer is None else tuple(found), bool(found))
            return
        exist = exists_condition(
            [self.columns.column(node) for node, name in self.columns.found if name in found]
        )
        set_where(outer, read_clause(outer), exist)
        plain.tree.meta[EXISTENCE] = (tuple(found), False)

    def _selects_by_measure(self, plain: Query) -> bool:
        """Return whether a plain block has the first groups by a measure, maybe some without rows."""
        order = plain.tree.args.get("order") if plain.tree.args.get("limit") is not None else None
        return order is not None and self.clauses.measure(order.expressions[0].this) is not None

    @property
    def _above_half(self) -> bool:
        """Whether HAVING keeps only groups with a count of all rows or units that does not round to 0."""
        found = read_threshold(self.clauses.having[0]) if len(self.clauses.having) == 1 else None
        measure = self.clauses.measure(found[0]) if found is not None else None
        if found is None or measure is None or not counts_all(measure, self.names.scope):
            return False
        return found[1] >= Fraction(HALF)

    # -- the readings of the clauses, in the order in which they are tried

    def _by_clause(self, clause: Clause) -> Separated:
        """Leave TOP, ARGMAX and ABOVE THRESHOLD to the plain block; rows keep the order of the release."""
        if self.clauses.plain_items:
            return self.query, None
        outer = self._outer([])
        outer.set("order", exp.Order(expressions=[self._rank()]))
        by = None if clause.by is None else self.columns.measure(clause.by) or clause.by
        order = self.clauses.terms
        plain = self._plain(having=self.clauses.written(), order=order, limit=self.clauses.limit)
        return replace(plain, clause=replace(clause, by=by)), outer

    def _one_group(self) -> Separated:
        """Drop ORDER BY and LIMIT: the block has one row."""
        clauses = self.clauses
        judged = clauses.having or clauses.offset or self.select.args.get("qualify") is not None
        if not clauses.plain_items or judged or clauses.terms:
            outer = self._outer(clauses.having, qualify=True)
            known = len(self.columns.found)
            order = [clauses.released(term) for term in clauses.terms]
            if not clauses.plain_items or judged or len(self.columns.found) > known:
                self._add(outer, order, clauses.limit, clauses.offset)
                return self._plain(), outer
        same = not (clauses.terms or clauses.limit) and self.select.args.get("distinct") is None
        return (self.query if same else self._without_clauses()), None

    def _largest(self) -> Separated | None:
        """Read ORDER BY a measure with LIMIT, or a bound of a rank by it, as the selection of the largest."""
        clauses = self.clauses
        found = clauses.largest()
        if found is None or clauses.merges:
            return None
        (top, *more), k = found
        first, threshold = self.columns.measure(top.this), clauses.threshold()
        if first is None or is_ratio(first):
            return None
        if not all(clauses.follows(window, top, first) for window in clauses.windows):
            return None
        downwards = bool(top.args.get("desc"))
        if clauses.having and not (threshold is not None and clauses.same(threshold, first) and downwards):
            return None
        qualified = self.select.args.get("qualify") is not None
        sorted_by = clauses.terms if qualified and clauses.terms else [top, *more]
        by_keys = all(clauses.by_key(term) is not None for term in more)
        as_read = clauses.numbers_rows if qualified else by_keys and not clauses.offset
        if as_read and clauses.plain_items and not self.existing:
            return self._move_conditions(), None
        outer = self._outer([])
        by_rank = sorted_by[0] is top and by_keys and not self.columns.has(first)
        order = [self._rank()] if by_rank else [clauses.released(term) for term in sorted_by]
        self._add(outer, order, clauses.limit if qualified or clauses.offset else None, clauses.offset)
        best = copy_tree(top)
        best.set("this", copy_tree(first))
        k += 0 if qualified else clauses.offset
        return self._plain(having=clauses.written(), order=[best], limit=k), outer

    def _of_partitions(self) -> Separated | None:
        """Read a bound of a rank with PARTITION BY keys as the selection of the largest of each partition."""
        clauses, names = self.clauses, self.names
        found = clauses.of_partitions()
        if found is None or clauses.merges:
            return None
        top, threshold = found.order[0], clauses.threshold()
        first = self.columns.measure(top.this)
        if (
            first is None
            or is_ratio(first)
            or not all(clauses.ranks_alike(window, found) for window in clauses.windows)
            or is_total(first)
        ):
            return None
        downwards = bool(top.args.get("desc"))
        if clauses.having and not (threshold is not None and clauses.same(threshold, first) and downwards):
            return None
        window = copy_tree(found.window)
        keys = [names.as_row(key) for key in found.keys]
        best = copy_tree(top)
        best.set("this", copy_tree(first))
        analysed = self.analysed
        if analysed is not None and analysed.is_found_by_units(self._of_all(best, found.k)):
            return None  # a partition shows only groups with more rows than one unit may have
        window.set("partition_by", [copy_tree(key) for key in keys])
        ties = [by_key for term in found.order[1:] if (by_key := clauses.by_key(term)) is not None]
        window.set("order", exp.Order(expressions=[best, *ties]))
        kept = exp.LTE(this=window, expression=exp.Literal.number(found.k))
        outer: exp.Select | None = None
        behind = clauses.terms or clauses.offset or clauses.limit is not None
        if clauses.plain_items and not (behind or self.existing):
            plain = self._without_clauses(having=clauses.having)
        else:
            outer = self._outer([])
            order = [clauses.released(term) for term in clauses.terms]
            order = order or [*(exp.Ordered(this=self.columns.column(key)) for key in keys), self._rank()]
            self._add(outer, order, clauses.limit, clauses.offset)
            plain = self._plain(having=clauses.written())
        plain.tree.set("qualify", exp.Qualify(this=kept))
        return plain, outer

    def _count_groups(self, measure: exp.Expr) -> Query:
        """Return the query of all groups with one measure."""
        made = self._without_clauses(without=("expressions", "group"))
        made.tree.set("expressions", [copy_tree(node) for node in (*self.names.keys, measure)])
        made.tree.set("group", exp.Group(expressions=[copy_tree(key) for key in self.names.keys]))
        return made

    def _of_all(self, best: exp.Expr, k: int) -> Query:
        """Return the query of the largest groups of all partitions together."""
        made = self._count_groups(best.this)
        made.tree.set("order", exp.Order(expressions=[copy_tree(best)]))
        made.tree.set("limit", exp.Limit(expression=exp.Literal.number(k)))
        return made

    def _above(self) -> Separated | None:
        """Read HAVING with one measure that reaches a threshold as the selection of groups above it."""
        clauses = self.clauses
        order = [by_key for term in clauses.terms if (by_key := clauses.by_key(term)) is not None]
        if clauses.threshold() is None or len(order) < len(clauses.terms) or clauses.offset:
            return None
        if self.select.args.get("qualify") is not None or clauses.merges or clauses.windows:
            return None
        if self.analysed is not None and self.analysed.is_found_by_units(self._without_clauses()):
            return None
        counted = any(counts_all(item.node, self.names.scope) for item in self.names.items)
        if clauses.plain_items and not (self.existing and counted and not self._above_half):
            return self._move_conditions(), None
        if clauses.limit is None:
            return None
        outer = self._outer([])
        self._add(outer, [clauses.released(term) for term in clauses.terms] or [self._rank()])
        return self._plain(having=clauses.written(), order=order, limit=clauses.limit), outer

    def _all(self) -> Separated:
        """Release all groups; filter, sort and limit the released rows."""
        clauses = self.clauses
        filtered = clauses.having or self.select.args.get("qualify") is not None
        more = filtered or clauses.merges or clauses.offset
        by_keys = all(clauses.by_key(term) is not None for term in clauses.terms)
        plain = clauses.plain_items and by_keys and not (more or self.existing)
        if plain and (clauses.limit is None or not self._is_declared(self._without_clauses())):
            return self._move_conditions(), None
        outer = self._outer(clauses.having, qualify=True)
        order = [clauses.released(term) for term in clauses.terms]
        self._add(outer, order, clauses.limit, clauses.offset)
        if self.existing or windows_need_existence(outer) or self.clauses.limits_places:
            rows = exp.Anonymous(this=f"{MARK}COUNT", expressions=[exp.Star()])
            counted = any(counts_all(node, self.names.scope) for node, _ in self.columns.found)
            if not counted and self._is_declared(self._count_groups(rows)):
                self.columns.place(rows, COUNTED)
        released = self._plain()
        if clauses.limit is not None and any(map(clauses.is_by_ratio, clauses.terms)):
            released.tree.meta[SORTED_AFTERWARDS] = True
        return released, outer

    def _is_declared(self, plain: Query) -> bool:
        """Return whether a plain block releases the groups of declared keys, also those without rows."""
        return self.analysed is not None and self.analysed.is_declared(plain)

    # -- the SELECT over the released rows

    def _outer(self, where: list[exp.Expr], *, qualify: bool = False) -> exp.Select:
        """Return the SELECT with its list and filters; what the select list has as it is comes first."""
        args, columns, names = self.select.args, self.columns, self.names
        for by in names.keys if self.clauses.apart else ():
            columns.place(by, by.name if isinstance(by, exp.Column) else "")
        for item in names.items:
            key = names.key(item.node)
            if key is not None:
                columns.place(names.keys[key], item.name)
            elif is_released(item.node) or (is_measure(item.node) and not columns.asks(item.node)):
                columns.place(columns.argued(item.node), item.name)
        listed = [(columns.over(item.node), item.name) for item in names.items]
        made = exp.Select(
            expressions=[exp.alias_(node, name, quoted=True, copy=False) for node, name in listed]
        )
        made.set("from_", exp.From(this=exp.Table(this=exp.to_identifier(columns.relation, quoted=True))))
        set_where(made, *(columns.over(each) for each in where))
        if qualify and args.get("qualify") is not None:
            made.set("qualify", exp.Qualify(this=columns.over(args["qualify"].this)))
        if args.get("windows"):
            made.set("windows", [columns.over(window) for window in args["windows"]])
        if self.clauses.merges:
            on = args["distinct"].args.get("on")
            made.set("distinct", exp.Distinct(on=on and columns.over(on)))
        return made

    def _rank(self) -> exp.Expr:
        """Return the term for the order in which a selection releases its groups."""
        call = exp.Anonymous(this=f"{MARK}dp_rank", expressions=[])
        return exp.Ordered(this=self.columns.column(call, "rank"))

    def _add(
        self, outer: exp.Select, order: list[exp.Expr], limit: int | None = None, offset: int = 0
    ) -> None:
        if order:
            outer.set("order", exp.Order(expressions=order))
        if limit is not None:
            outer.set("limit", exp.Limit(expression=exp.Literal.number(limit)))
        if offset:
            outer.set("offset", exp.Offset(expression=exp.Literal.number(offset)))

    # -- the plain block

    def _move_conditions(self) -> Query:
        """Return the query, with the conditions of HAVING on keys in WHERE."""
        if not self.clauses.before and self.select.args.get("distinct") is None:
            return self.query
        made = self._without_clauses(having=self.clauses.having)
        for name in ("order", "limit", "qualify"):
            made.tree.set(name, self.select.args.get(name) and copy_tree(self.select.args[name]))
        return made

    def _plain(
        self,
        *,
        having: list[exp.Expr] | None = None,
        order: list[exp.Expr] | None = None,
        limit: int | None = None,
    ) -> Query:
        """Return the release block with the columns that the SELECT over it reads, and its selection."""
        set_below = ("expressions", "group") if self.names.keys else ("expressions",)
        made = self._without_clauses(having=having, without=set_below)
        keys = [self._key(key) for key in self.names.keys]
        listed = [
            exp.alias_(copy_tree(node), name, quoted=True, copy=False) for node, name in self.columns.found
        ]
        made.tree.set("expressions", listed)
        if keys:
            made.tree.set("group", exp.Group(expressions=keys))
        if order:
            made.tree.set("order", exp.Order(expressions=[copy_tree(term) for term in order]))
        if limit is not None:
            made.tree.set("limit", exp.Limit(expression=exp.Literal.number(limit)))
        return made

    def _key(self, key: exp.Expr) -> exp.Expr:
        """Return the term of GROUP BY for a key; a number is a place in the select list there."""
        if read_whole_number(key.unnest()) is None:
            return copy_tree(key)
        return exp.Literal.number(self.columns.place(key, "number") + 1)

    def _without_clauses(self, *, having: list[exp.Expr] | None = None, without: Sequence[str] = ()) -> Query:
        """Return the query with the conditions on keys in WHERE, and without the clauses behind HAVING.

        It also lacks the clauses `without`, which the caller sets.
        """
        made = copy_tree(self.select, "where", "having", *_BEHIND, *without)
        where = [self.names.as_row(each, keys=True) for each in self.clauses.before]
        own = read_clause(self.select)
        set_where(made, None if own is None else self.names.as_row(own), *where)
        made.set("having", exp.Having(this=exp.and_(*having)) if having else None)
        for name in _BEHIND:
            made.set(name, None)
        return replace(self.query, tree=made)
