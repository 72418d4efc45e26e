"""The clauses of a statement's blocks: conditions, order and limits, the private ones, and shares of epsilon.

`BlockClauses` reads those behind the select list of one release block, also as a selection; `Written` has the
private clauses of all blocks, by which epsilon and delta are divided among the releases.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis import requested_accounting
from dpsql.analysis.compiler import function_name, read_whole_number
from dpsql.analysis.epsilon_division import divide_epsilon
from dpsql.analysis.output_columns import RANKS, RankedPartitions, find_free_kind, read_ranked_partitions
from dpsql.analysis.released.released_calls import is_quantile, is_ratio, is_released
from dpsql.analysis.selection import read_threshold
from dpsql.composition.block_columns import BlockNames, ReleasedColumns, is_measure, nodes
from dpsql.composition.kinds import BlockKind, Kinds
from dpsql.composition.release_blocks import release_of
from dpsql.errors import Fix, QueryRefused
from dpsql.kernel.loss import Filter
from dpsql.language import (
    Clause,
    Clauses,
    Options,
    Outline,
    Query,
    copy_tree,
    find_nodes,
    list_conjuncts,
    list_given,
    list_terms,
    read_clause,
)
from dpsql.lazy_dataclass import dataclass, replace
from dpsql.policy import fold

_SHARED = ("epsilon", "delta")
_NAMES = tuple(n for n in Options.__dataclass_fields__ if n != "at")


@dataclass(frozen=True, slots=True)
class Written:
    """The private clauses of a statement: those of its releases, and the options of all of them together."""

    query: Query
    own: dict[int, Clauses] = field(default_factory=dict)
    """The clauses of a release, by the `id` of its SELECT."""
    total: Options = field(default_factory=Options)

    @classmethod
    def of(cls, query: Query, kinds: Kinds) -> Written:
        """Return the clauses of a statement; refuse those that stand in a block which is no release."""
        root = query.tree if isinstance(query.tree, exp.Select) else None
        inner, own = dict(query.inner), dict[int, Clauses]()
        if root is not None:
            inner[root.meta["select"]] = Clauses(
                query.options, query.clause, query.has_options, min(query.options.at.values(), default=0)
            )
        total: Clauses | None = None
        for select in find_nodes(query.tree, exp.Select) if root is None or len(inner) > 1 else [root]:
            clauses = inner.pop(select.meta["select"], None)
            kind = kinds.of_select.get(id(select))
            if clauses is None or kind is None or clauses == Clauses():
                continue
            if kind is BlockKind.RELEASE:
                own[id(select)] = clauses
                continue
            if clauses.clause.spelling:
                raise query.source.refuse(
                    f"{clauses.clause.spelling} selects groups: it belongs into the SELECT that counts",
                    clauses.clause.at,
                    "ORDER BY n DESC LIMIT 10" if kind is BlockKind.POST else None,
                )
            if kind is not BlockKind.POST or not _all_inside(select, kinds):
                raise _misplaced(query, clauses)
            if total is not None and clauses.has_options:
                raise query.source.refuse("the options of the statement are given twice", clauses.at)
            total = clauses if clauses.has_options else total
        if inner:
            raise query.source.refuse("this clause stands in no SELECT that is read", min(inner))
        return cls(query, own, total.options if total is not None else Options()).shared(kinds)

    def shared(self, kinds: Kinds) -> Written:
        """Return the clauses with those of a release that uses others as scalars read as the statement's.

        What it says then holds for all of them together, unless each of them has an epsilon of its own.
        """
        root = self.query.tree
        others = [r.select for r in kinds.releases if r.select is not root]
        mine = self.own.get(id(root))
        if mine is None or not others:
            return self
        if all(id(o) in self.own and self.own[id(o)].options.epsilon is not None for o in others):
            return self
        left = Clauses(Options(), mine.clause)
        return replace(self, own={**self.own, id(root): left}, total=mine.options)

    def options(self, select: exp.Select) -> Options:
        """Return a release's options: its own, then the statement's, without those that are divided."""
        own = self.own.get(id(select), Clauses()).options
        for name in _SHARED:
            if getattr(own, name) is not None and getattr(self.total, name) is not None:
                raise self.query.source.refuse(
                    f"{name} is said twice: for the statement, and for a release in it",
                    own.at.get(name),
                    f"leave {name} out here, or in the outermost SELECT",
                    _leave_out(self.query, self.own[id(select)].at, name),
                )
        if own.error is not None and self.total.epsilon is not None:
            raise self.query.source.refuse(
                "the statement has an epsilon, and this release an error that epsilon would follow from",
                own.at.get("error"),
                "leave error out here, or epsilon in the outermost SELECT",
            )
        skipped = {*_SHARED, *(("error",) if own.epsilon is not None else ())}
        values = {n: getattr(self.total, n) for n in _NAMES if n not in skipped and getattr(own, n) is None}
        found = replace(own, **values, at={**self.total.at, **own.at})
        if found.combine == "ONLY" and (found.epsilon or found.error) is None:
            return replace(found, epsilon=Fraction(1))  # it costs nothing, and takes no share
        return found

    def clause(self, select: exp.Select) -> Clause:
        """Return the selection clauses of a release."""
        return self.own.get(id(select), Clauses()).clause


def drop_bounds_on_groups(options: Sequence[Options], trees: Sequence[exp.Expr]) -> list[Options]:
    """Return the options of releases without the bound on groups of a unit where only others have groups."""
    of_keys = [tree.args.get("group") is not None for tree in trees]
    return [
        own if grouped or not any(of_keys) else replace(own, max_groups_contributed=None)
        for own, grouped in zip(options, of_keys, strict=True)
    ]


def share_epsilon(
    total: Options, defaults: Options, releases: Sequence[Options], filters: tuple[Filter, ...] = ()
) -> list[Options]:
    """Give each release that has no epsilon or delta of its own an equal part of the statement's.

    The parts are exact: they add up to the statement's epsilon. A default error comes before a default
    epsilon. Where the statement's cost is divided, with these filters of the scopes that are charged, the
    releases have equal parts of that; then equal parts of epsilon are their prices.
    """
    out = list(releases)
    if defaults.error is not None:
        defaults = replace(defaults, epsilon=None)
    for name in _SHARED:
        whole: Fraction | None = getattr(total, name)
        if whole is None:
            whole = getattr(defaults, name)
        sharing = [i for i, o in enumerate(out) if getattr(o, name) is None]
        if name == "epsilon":
            sharing = [i for i in sharing if out[i].error is None]
        for i in sharing if whole is not None else ():
            out[i] = replace(out[i], **{name: whole / len(sharing)})  # type: ignore[arg-type]  # a Fraction
        if name == "epsilon" and whole is not None and filters and len(sharing) > 1:
            _divide_cost(out, sharing, whole, filters)
    return out


def _divide_cost(
    out: list[Options], sharing: Sequence[int], whole: Fraction, filters: tuple[Filter, ...]
) -> None:
    """Give releases equal parts of the cost of an epsilon, if that is what the statement's layout divides."""
    ways = {requested_accounting(out[i]) for i in sharing}
    if "basic" in ways or any(each.order_way is None for each in filters):
        return
    layout = divide_epsilon(whole, *filters, accounting="order" if "order" in ways else None)
    if layout.order is None:
        return
    part = layout.epsilon_of(Fraction(1, len(sharing)))
    for i in sharing:
        out[i] = replace(out[i], epsilon=part, layout="ORDER", price=whole / len(sharing))


def _leave_out(query: Query, at: int, name: str) -> Fix | None:
    """Return the change that leaves an option of a release out, or all its clause if it has no other."""
    written = Outline.of(query.source.text).options(at)
    said = re.search(rf"(?i)\b{name}\s*=\s*[^,()]+,?\s*", written)
    if said is None:
        return None
    guess = f"that the {name} of the whole statement holds"
    alone = written.count("=") == 1
    start, end = (at, at + len(written) + 1) if alone else (at + said.start(), at + said.end())
    return Fix("", start, end, guess=guess)


def _all_inside(select: exp.Select, kinds: Kinds) -> bool:
    """Return whether all releases of the statement stand inside a block, or it is the outermost one."""
    return select.parent is None or all(_inside(r.select, select) for r in kinds.releases)


def _inside(node: exp.Expr | None, around: exp.Expr) -> bool:
    while node is not None and node is not around:
        node = node.parent
    return node is around


def _misplaced(query: Query, clauses: Clauses) -> QueryRefused:
    """Return the refusal of options where nothing is released, which moves them to the outermost SELECT."""
    at, text = clauses.at, query.source.text
    written = Outline.of(text).options(at)
    behind = at + len(written)
    first = query.tree.meta.get("select", -7) + len("SELECT")
    if query.has_options and at == min(query.options.at.values(), default=-1):  # it stands there
        return query.source.refuse("no private table reaches the outermost SELECT, which has this clause", at)
    moved = () if query.has_options else (Fix(f" {written}", first, first),)
    return query.source.refuse(
        "WITH DIFFERENTIAL_PRIVACY belongs right after the outermost SELECT, or after one that counts: "
        "this one releases nothing",
        at,
        "write it right after the outermost SELECT",
        Fix("", at, behind + (text[behind : behind + 1] == " "), also=moved)
        if written and first >= 0
        else None,
    )


MOST_ROWS = 10**9


@dataclass(slots=True)
class BlockClauses:
    """The clauses of a release block behind its select list."""

    select: exp.Select
    names: BlockNames
    columns: ReleasedColumns
    by: exp.Expr | None = None
    """What TOP, ARGMAX or ABOVE THRESHOLD orders or compares, if it is written."""
    before: list[exp.Expr] = field(init=False)
    """The conditions of HAVING on keys, which choose rows, and candidates, before rows are counted."""
    having: list[exp.Expr] = field(init=False)
    """The other conditions of HAVING."""
    terms: list[exp.Expr] = field(init=False)
    """The terms of ORDER BY."""
    limit: int | None = field(init=False)
    offset: int = field(init=False)
    apart: bool = field(init=False)
    """Whether the block has measures of several releases."""

    def __post_init__(self) -> None:
        args = self.select.args
        having = list_conjuncts(read_clause(self.select, "having"))
        self.before = [each for each in having if self.names.keys and self.names.of_keys(each)]
        self.having = [each for each in having if each not in self.before]
        self.terms = list_terms(self.select, "order")
        self.limit, self.offset = _number(args.get("limit")), _number(args.get("offset")) or 0
        self.apart = self._apart()

    @property
    def readable(self) -> bool:
        """Whether LIMIT and OFFSET are whole numbers, and ORDER BY names places of the select list."""
        places = [read_whole_number(term.this.unnest()) for term in self.terms]
        return (
            _countable(self.select.args.get("limit"), 1)
            and _countable(self.select.args.get("offset"), 0)
            and all(place is None or 1 <= place <= len(self.names.items) for place in places)
        )

    @property
    def plain_items(self) -> bool:
        """Whether all items of the select list are keys and measures as they are, of one release."""
        return not self.apart and all(
            self.names.key(item.node) is not None or is_released(item.node) or is_measure(item.node)
            for item in self.names.items
        )

    def _apart(self) -> bool:
        parts = [item.node for item in self.names.items]
        parts += [self.select.args[n] for n in ("having", "order", "qualify") if self.select.args.get(n)]
        measures = [n for part in parts for n in nodes(part) if is_measure(n) and find_free_kind(n) is None]
        measures += [self.by] if self.by is not None else []
        return len({release_of(self.names.as_row(n)) if is_quantile(n) else () for n in measures}) > 1

    @property
    def merges(self) -> bool:
        """Whether DISTINCT may remove groups; not if all keys are selected."""
        distinct = self.select.args.get("distinct")
        if distinct is None:
            return False
        selected = {self.names.key(item.node) for item in self.names.items}
        missing = set(range(len(self.names.keys))) - selected
        return distinct.args.get("on") is not None or bool(missing)

    @property
    def windows(self) -> list[exp.Expr]:
        """The windows in the select list."""
        found = [node for item in self.names.items for node in nodes(item.node)]
        return [node for node in found if isinstance(node, exp.Window)]

    @property
    def limits_places(self) -> bool:
        """Whether LIMIT or OFFSET, but of the largest, shows other groups where some without rows are."""
        first = self.terms[0] if self.terms else None
        largest = first is not None and first.args.get("desc") and self.measure(first.this) is not None
        return bool(self.limit is not None or self.offset) and not largest

    def is_by_ratio(self, term: exp.Expr) -> bool:
        """Return whether a term of ORDER BY is an average or another number by which no groups are chosen."""
        measure = self.columns.measure(term.this)
        return measure is not None and is_ratio(measure)

    # -- measures in conditions and orders

    def measure(self, node: exp.Expr) -> exp.Expr | None:
        """Return the measure that an expression is or names; a number is no place in a select list here."""
        return None if isinstance(node.unnest(), exp.Literal) else self.columns.measure(node)

    def same(self, one: exp.Expr, other: exp.Expr) -> bool:
        """Return whether two expressions name the same measure of the block."""
        return self.names.normal(self.names.as_row(one)) == self.names.normal(self.names.as_row(other))

    def threshold(self) -> exp.Expr | None:
        """Return the measure that the only condition of HAVING compares with a constant from below."""
        found = read_threshold(self.having[0]) if len(self.having) == 1 else None
        measure = self.measure(found[0]) if found is not None else None
        return None if measure is None or is_ratio(measure) else measure

    def largest(self) -> tuple[list[exp.Expr], int] | None:
        """Return the order and number of the groups that ORDER BY with LIMIT, or QUALIFY, selects."""
        qualify = self.select.args.get("qualify")
        if qualify is None:
            return (self.terms, self.limit) if self.terms and self.limit is not None else None
        condition = qualify.this.unnest()
        bound = read_whole_number(condition.args.get("expression"))
        if not isinstance(condition, (exp.LTE, exp.LT, exp.EQ)) or bound is None:
            return None
        place = self.names.alias(condition.this.unnest())
        window = condition.this.unnest() if place is None else self.names.items[place].node.unnest()
        k = bound - isinstance(condition, exp.LT)
        if not _ranks(window) or k < 1 or (isinstance(condition, exp.EQ) and k != 1):
            return None
        return list(window.args["order"].expressions), k

    def of_partitions(self) -> RankedPartitions | None:
        """Return the largest groups of each partition that QUALIFY selects; the partitions are by keys."""
        qualify = self.select.args.get("qualify")
        found = read_ranked_partitions(qualify.this, self._window) if qualify is not None else None
        if found is None or not all(self.key_of(key) is not None for key in found.keys):
            return None
        return found

    def _window(self, node: exp.Expr) -> exp.Expr | None:
        place = self.names.alias(node)
        return None if place is None else self.names.items[place].node

    def key_of(self, node: exp.Expr) -> int | None:
        """Return the place of the key that an expression is or names; None for others."""
        place = self.names.key(node)
        return self.names.key(self.names.as_row(node)) if place is None else place

    def ranks_alike(self, window: exp.Expr, found: RankedPartitions) -> bool:
        """Return whether a window ranks the groups of the same partitions in the same order."""
        partition = window.args.get("partition_by") or []
        bare = copy_tree(window)
        bare.set("partition_by", None)
        same = {self.key_of(key) for key in partition} == {self.key_of(key) for key in found.keys}
        first = self.measure(found.order[0].this)
        return same and first is not None and self.follows(bare, found.order[0], first)

    @property
    def numbers_rows(self) -> bool:
        """Whether QUALIFY has the spelling of a selection that the analysis reads."""
        window = self.select.args["qualify"].this.this
        alone = not self.terms and self.limit is None
        return alone and isinstance(window, exp.Window) and _name(window.this) == "row_number"

    def follows(self, window: exp.Expr, term: exp.Expr, first: exp.Expr) -> bool:
        """Return whether a window ranks groups by the selecting order, so largest groups keep their ranks."""
        if not _ranks(window):
            return False
        by = window.args["order"].expressions[0]
        measure = self.measure(by.this)
        downwards = bool(by.args.get("desc")) == bool(term.args.get("desc"))
        return downwards and measure is not None and self.same(measure, first)

    def written(self) -> list[exp.Expr]:
        """Return the condition of a threshold with the measure in the place of its alias."""
        made = [copy_tree(each) for each in self.having]
        for each in made:
            for side in [each.unnest().args.get("this"), each.unnest().args.get("expression")]:
                measure = self.measure(side) if isinstance(side, exp.Expr) else None
                if isinstance(side, exp.Expr) and measure is not None:
                    side.replace(copy_tree(measure))
        return made

    # -- ORDER BY

    def _item(self, node: exp.Expr) -> int | None:
        """Return the place of the item that a term names by its place or alias."""
        number = read_whole_number(node.unnest())
        if number is not None:
            return number - 1
        if not isinstance(node, exp.Column) or node.table:
            return None
        name = fold(node.name)
        return next((i for i, item in enumerate(self.names.items) if fold(item.name) == name), None)

    def by_key(self, term: exp.Expr) -> exp.Expr | None:
        """Return a term by a key, written out; None for other terms."""
        place, made = self._item(term.this), copy_tree(term)
        if place is not None:
            made.set("this", copy_tree(self.names.items[place].node))
        return made if self.names.key(made.this) is not None else None

    def released(self, term: exp.Expr) -> exp.Expr:
        """Return a term over the released columns, or by the place of the item that it names."""
        place, made = self._item(term.this), copy_tree(term)
        by = self.columns.over(term.this) if place is None else exp.Literal.number(place + 1)
        made.set("this", by)
        return made


def _name(node: exp.Expr) -> str:
    return (function_name(node) or "").lower()


def _ranks(window: exp.Expr) -> bool:
    """Return whether a window ranks all groups by an order of its own."""
    if not isinstance(window, exp.Window) or _name(window.this) not in RANKS:
        return False
    return list_given(window) == {"this", "order", "over"}


def _countable(node: exp.Expr | None, least: int) -> bool:
    """Return whether a LIMIT or OFFSET is a number from `least` on, or is not there."""
    options = node.args.get("limit_options") if node is not None else None
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        return False
    number = _number(node)
    return node is None or (number is not None and least <= number <= MOST_ROWS)


def _number(node: exp.Expr | None) -> int | None:
    """Return the number of a LIMIT or OFFSET; None if it has none."""
    if node is None:
        return None
    value = node.args.get("expression") or node.args.get("count")
    if value is None:
        return 1 if isinstance(node, exp.Fetch) else None
    return read_whole_number(value.unnest())
