"""Take a private statement apart into its releases and the query over the released rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.analysis import Catalog, Plan, check_outer, find_values, is_private, mark_value
from dpsql.analysis.aggregate_functions import contains_aggregate
from dpsql.analysis.group_rules import NO_CANDIDATES
from dpsql.analysis.released.released_calls import AGGREGATED_AFTERWARDS, is_quantile
from dpsql.composition.analysed_blocks import AnalysedBlocks
from dpsql.composition.block import separate
from dpsql.composition.block_clauses import Written, drop_bounds_on_groups, share_epsilon
from dpsql.composition.equivalent_blocks import with_existing
from dpsql.composition.existence import EXISTENCE, readers
from dpsql.composition.grouping_sets import (
    add_fixed_columns,
    divide_grouping_sets,
    is_of_public_rows,
    leave_out_sets,
    list_rows,
    may_fix_columns,
)
from dpsql.composition.kinds import CENTRE, EPSILON, VALUE_MARK, Kinds, ReleaseBlock, below
from dpsql.composition.placed_marks import put_mark
from dpsql.composition.quotients_of_sums import is_average, separate_closer
from dpsql.composition.release_blocks import (
    everything,
    fuse,
    is_arg_max,
    list_around,
    name_releases,
    position_of,
    put,
    remove_private_clauses,
    select_alone,
    split_quantiles,
    standalone,
)
from dpsql.composition.respelled_statements import respell_statement
from dpsql.errors import QueryRefused
from dpsql.kernel.loss import Filter
from dpsql.language import AboveThreshold, Options, Query, TopK, TopPerPartition, find_nodes, walk_tree
from dpsql.lazy_dataclass import dataclass, replace
from dpsql.policy import Policy
from dpsql.types import SqlType

if TYPE_CHECKING:
    from dpsql.composition.chosen_public_rows import PlacedValue
    from dpsql.composition.derived import Asked

Columns = tuple[tuple[str, SqlType], ...]

MAX_RELEASES = 16
MAX_BLOCKS = 128
"""The most release blocks as they are written; those that are equal are one release."""


@dataclass(frozen=True, slots=True)
class ReleasePart:
    """One release of a statement: a query that is analysed, priced and run like a statement of its own."""

    name: str
    """The name of the released relation in the outer query: `r0`, `r1`, ..."""
    query: Query
    """The release block; its options hold the part of epsilon and delta that belongs to it."""
    note: str = ""
    """What the analyst may have meant otherwise, in words."""
    values: tuple[int, ...] = ()
    """The places of the values among `Parts.values` that it reads as constants."""
    constant: bool = False
    """Whether its numbers are constants of the answer, whatever the exact ones are."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The releases of a statement, in the order in which they were written, and the query over them."""

    releases: tuple[ReleasePart, ...]
    outer: exp.Query | None = None
    """SQL over the released relations and public tables; None if the statement is its one release."""
    values: tuple[PlacedValue, ...] = ()
    """The values that releases read."""
    existence: tuple[tuple[str, tuple[int, ...], bool], ...] = ()
    """Released relations of which it was decided which groups exist, and how (see `Existence`)."""
    details: tuple[Asked, ...] = ()
    """The columns of the outer query that ask for a detail of another one; they are NULL in it."""


def parts_of(
    query: Query,
    analysed: AnalysedBlocks,
    blocks: list[Query] | None = None,
    filters: tuple[Filter, ...] = (),
) -> Parts:
    """Return the parts of a private statement; refuse one that cannot be taken apart.

    `analysed` has the plans of the releases afterwards. `blocks` gets what `release_blocks` returns, once
    all of it is known: it is there if the refusal comes later. `filters` are those of the scopes that are
    charged, where costs are added beside epsilons.
    """
    with query.source.limited_depth():
        splitter = _Splitter(query, analysed, filters)
        try:
            return splitter.parts([] if blocks is None else blocks)
        except QueryRefused as refused:
            if not splitter.sets or refused.message != NO_CANDIDATES:
                raise
        splitter = _Splitter(query, analysed, filters, no_sets=splitter.find_empty_sets())
        return splitter.parts([] if blocks is None else blocks)


def release_blocks(query: Query, policy: Policy, catalog: Catalog) -> list[Query]:
    """Return the release blocks of a statement; none of one that cannot be taken apart."""
    if not is_private(query, policy):
        return []
    try:
        return _Splitter(query, AnalysedBlocks(policy, catalog, Options())).queries()
    except (QueryRefused, RecursionError):
        return []


@dataclass(frozen=True, slots=True)
class _BlockPart:
    """A release of a block, its query, the position of the block in the text, and the name for it."""

    release: ReleaseBlock
    query: Query
    at: int
    mark: str


class _Splitter:
    """Takes one statement apart, in a copy of its tree."""

    def __init__(
        self,
        query: Query,
        analysed: AnalysedBlocks,
        filters: tuple[Filter, ...] = (),
        no_sets: Collection[int] = (),
    ) -> None:
        policy, catalog, defaults = analysed.policy, analysed.catalog, analysed.defaults
        self.analysed = analysed
        self.sets = False
        """Whether blocks with several groupings were written as a release for each."""
        self.provenance = analysed.find_provenance(query.source)
        self.query = with_existing(respell_statement(query, self.provenance), self.provenance)
        self.policy, self.catalog, self.defaults = policy, catalog, defaults
        self.source, self.filters = query.source, filters
        self.kinds = Kinds.of(self.query, self.provenance)
        if self.kinds.values:
            from dpsql.composition.values_of_rows import with_anchors  # noqa: PLC0415  few statements have any

            anchored = with_anchors(self.query, self.kinds, policy, catalog, defaults)
            if anchored is not None:
                self.query, self.kinds = anchored, Kinds.of(anchored, self.provenance)
        self._divide(no_sets)
        if any(map(is_average, find_nodes(self.query.tree, exp.Anonymous))):
            from dpsql.composition.centred_averages import with_centre  # noqa: PLC0415  few have averages

            self.query, self.kinds = with_centre(self.query, self.kinds, analysed)
        for release in (*self.kinds.releases, *self.kinds.unused):
            with suppress(QueryRefused):  # it is judged with the block
                if may_fix_columns(release.select, policy):
                    scope = self.provenance.find_scope(release.select, release.ctes)
                    add_fixed_columns(release.select, scope, policy)
        if len(self.kinds.releases) > MAX_BLOCKS:
            at = self.kinds.releases[MAX_BLOCKS].select
            raise query.source.refuse(f"a statement has at most {MAX_BLOCKS} blocks that release", at)
        self.written = Written.of(self.query, self.kinds)
        analysed.total = self.written.total
        self.values: list[PlacedValue] = []
        self.marked: dict[str, Query] = {}
        """The releases that were taken out so far, by the names that stand for them."""
        self.judged = False
        """Whether the blocks are only listed, for a statement that was refused."""
        self.existence: list[tuple[str, tuple[int, ...], bool]] = []
        """What `Parts.existence` has, with the marks of the releases."""
        self.planned = False
        """Whether anything was analysed, which depends on the defaults."""

    def _divide(self, no_sets: Collection[int]) -> None:
        """Write the blocks with several groupings as a release for each, but for the sets without groups."""
        tree, groups, of = self.query.tree, list[exp.Expr](), self.provenance
        for release in (*self.kinds.releases, *self.kinds.unused):
            made = divide_grouping_sets(release.select, release.ctes, of)
            if made is not None:
                groups.append(release.select.args["group"])
                tree = put(made, release.select, tree)
        if not groups:
            return
        self.sets, self.query = True, replace(self.query, tree=tree)
        try:
            self.kinds = Kinds.of(self.query, self.provenance)
        except QueryRefused as refused:  # a set by the privacy unit has private rows, beside released ones
            said = "of ROLLUP, CUBE and GROUPING SETS each set is a release, and none is by the privacy unit"
            hint, known = "leave the privacy unit out of GROUP BY", not refused.obstacles[0].unknown
            raise (self.source.refuse(said, groups[0], hint) if known else refused) from None
        if no_sets:
            leave_out_sets([self.kinds.releases[i].select for i in no_sets])
            self.kinds = Kinds.of(self.query, self.provenance)

    def find_empty_sets(self) -> list[int]:
        """Return the places of the releases that can have no groups, as public values alone tell."""
        blocks, found, none = self.kinds.releases, list[int](), list[object]()
        rows = [(block.ctes, list_rows(block.select)) for block in blocks]
        for i, block in enumerate(blocks):
            if rows[i] not in none and self._is_empty(block, i):
                found.append(i)
                none += [rows[i]] * is_of_public_rows(block.select, block.ctes, self.provenance)
        return [i for i, own in enumerate(rows) if i in found or own in none]

    def _is_empty(self, release: ReleaseBlock, place: int) -> bool:
        query = self.marked.get(_mark(place))
        try:
            self.analysed.check(query or self._separate(release, _mark(place))[0][0])
        except QueryRefused as refused:
            return refused.message == NO_CANDIDATES
        return False

    def parts(self, plain: list[Query]) -> Parts:
        """Return the parts of the statement; append to `plain` what `queries` returns.

        Nothing is appended for a statement that is its one release, or whose blocks depend on the defaults.
        """
        for release in self.kinds.unused:
            for query in self._separate(release, "unused")[0]:
                self._plan(query)
        tree = self.query.tree
        if not self.kinds.releases or is_arg_max(self.query):
            return Parts((ReleasePart("r0", replace(self.query, inner={})),))
        # A release inside another one stands before it.
        blocks: list[_BlockPart] = []
        listed: list[Query] = []
        for number, release in enumerate(self.kinds.releases):
            self._take_values(number, tree)
            queries, rest = self._separate(release, _mark(number))
            if rest is None and release.select is tree and not self.values:
                return Parts((ReleasePart("r0", replace(queries[0], inner={}), release.note),))
            at = position_of(self.query, release.select)
            marks = (_mark(number), *(f"{_mark(number)}.{i}" for i in range(1, len(queries))))
            self.marked |= dict(zip(marks, queries, strict=True))
            blocks[:0] = [_BlockPart(release, q, at, mark) for q, mark in zip(queries, marks, strict=True)]
            listed += queries
            rest = rest or everything(_mark(number), self.source.position(release.select))
            tree = put(rest, release.select, tree)
        if not self.planned:
            plain += listed
        # Of blocks at one position the later one, which is around the other, is the first.
        return self._compose(sorted(blocks, key=lambda b: b.at), remove_private_clauses(tree, self.kinds))

    def queries(self) -> list[Query]:
        """Return the release blocks as statements of their own."""
        if not self.kinds.releases or is_arg_max(self.query):
            return [replace(self.query, inner={})]
        found, tree = [], self.query.tree
        self.judged = True
        for number, release in enumerate((*self.kinds.unused, *self.kinds.releases)):
            self._take_values(number - len(self.kinds.unused), tree)
            queries, rest = self._separate(release, _mark(number))
            found += queries
            marks = (_mark(number), *(f"{_mark(number)}.{i}" for i in range(1, len(queries))))
            self.marked |= dict(zip(marks, queries, strict=True))
            rest = rest or everything(_mark(number), self.source.position(release.select))
            tree = put(rest, release.select, tree)
        return found

    def _take_values(self, releases: int, tree: exp.Query) -> None:
        """Take the values over so many releases out of the tree; a release reads each as a constant."""
        if len(self.values) == len(self.kinds.values):
            return
        from dpsql.composition import chosen_public_rows as chosen  # noqa: PLC0415  few statements have any

        of = self.query, self.policy, self.catalog, self.kinds, self._plan, self.marked, self.judged
        types = chosen.ValueTypes(*of)
        for value in self.kinds.values[len(self.values) :]:
            if value.after > releases:
                break
            select, place = value.subquery.unnest(), len(self.values)
            assert isinstance(select, exp.Select)  # noqa: S101  so it was judged
            alone = select_alone(select, tree, self.kinds)
            sql_type = types.find_type(alone, value)
            at = value.subquery
            if not sql_type.numeric and not value.listed:
                at, alone, sql_type = types.find_widest(alone, value, sql_type)
            self.values.append(chosen.PlacedValue(alone, value.subquery, sql_type, value.listed))
            put_mark(at, mark_value(place, sql_type, listed=value.listed))

    def _separate(self, release: ReleaseBlock, name: str) -> tuple[list[Query], exp.Select | None]:
        """Return the releases of a release block as plain blocks, and the SELECT over their released rows."""
        whole = self._fuse(release) or self._query(release)
        # Equal blocks are one release: which groups exist is decided for all readers of one of them.
        alike = [each.select for each in self.kinds.releases if each.select == release.select]
        found = [readers(each, self.query.tree) for each in alike or [release.select]]
        selects, asked = [each for own, *_ in found for each in own], any(asked for _, asked, _ in found)
        query, rest = separate_closer(
            whole, self.analysed, name, readers=selects, asked=asked, provenance=self.provenance
        )
        if asked or any(padded for *_, padded in found):
            query.tree.meta[AGGREGATED_AFTERWARDS] = True
        decided = release.select.meta.get(EXISTENCE) or query.tree.meta.get(EXISTENCE)
        read = find_nodes(query.tree, exp.Table) if self.marked else ()
        if inside := next((table for table in read if table.name.startswith(VALUE_MARK)), None):
            raise below(self.source, inside.find_ancestor(exp.Subquery, exp.Exists) or inside)
        releases, rest = split_quantiles(query, rest, name)
        if decided is not None:
            titles = [item.alias for item in releases[0].tree.expressions]
            places = tuple(titles.index(title) for title in decided[0])
            self.existence.append((name, places, decided[1]))
        if any(
            contains_aggregate(item) for block in list_around(release.select) for item in block.expressions
        ):
            self._check_groups(releases)
        return releases, rest

    def _check_groups(self, releases: Sequence[Query]) -> None:
        """Refuse quantiles that are aggregated over groups which noise finds: the others would be missing."""
        for query in releases:
            if query.tree.args.get("group") is None:
                continue  # of one group, which is there
            if not any(is_quantile(node) for item in query.tree.expressions for node in walk_tree(item)):
                continue
            with suppress(QueryRefused):  # what else is refused has its own words
                plan = self._plan(query)
                if plan.cells is not None and plan.existence is not None:
                    break
        else:
            return
        raise self.source.refuse(
            "quantiles of groups that are not declared are not aggregated: noise finds only some of them",
            query.tree.args.get("group"),
            "the owner declares the key in [tables.NAME.domain], or list its values in WHERE",
        )

    def _fuse(self, release: ReleaseBlock) -> Query | None:
        """Return a release block with the selection of the block around it, where that can be answered."""
        written, select = self.written, release.select
        both = fuse(release, self.kinds, written.options(select), written.clause(select))
        if both is None:
            return None
        try:
            found = self._query(release, both.select)
            plain = split_quantiles(*separate(found, self.policy, self.catalog), "")[0][0]
            selection = self._plan(plain).selection
        except QueryRefused:
            return None
        if not isinstance(selection, (TopK, AboveThreshold, TopPerPartition)):
            return None
        both.move()
        return found

    def _query(self, release: ReleaseBlock, select: exp.Select | None = None) -> Query:
        """Return a release block as a statement of its own, without its part of epsilon and delta."""
        if release.select is self.query.tree and release.select.args.get("with_") is None:
            select = release.select  # it is one already, and the last release that is taken out
        return replace(
            self.query,
            tree=standalone(release.select, self.kinds, select),
            options=self.written.options(release.select),
            clause=self.written.clause(release.select),
            has_options=release.select is self.query.tree and self.query.has_options,
            inner={},
        )

    def _plan(self, query: Query) -> Plan:
        self.planned = True
        return self.analysed.plan(query)

    def _compose(self, blocks: Sequence[_BlockPart], outer: exp.Query) -> Parts:
        """Return the parts; equal blocks are one release."""
        same = self._equal(blocks) if len(blocks) > 1 else [(0, ())]
        kept = [i for i, (first, _) in enumerate(same) if first == i]
        prefix = self._prefix()
        names = {i: f"{prefix}{n}" for n, i in enumerate(kept)}
        marks = {block.mark: same[i] for i, block in enumerate(blocks)}
        from dpsql.composition.derived import take_details  # noqa: PLC0415  few have an outer query

        details = take_details(outer)
        for tree in (outer, *(value.query for value in self.values)):
            name_releases(tree, marks, names)
            check_outer(self.query, self.policy, tree, names.values())
        queries = self._share([blocks[i] for i in kept])
        return Parts(
            tuple(
                ReleasePart(names[i], query, own.note, find_values(query.tree), CENTRE in own.select.meta)
                for i, query in zip(kept, queries, strict=True)
                if (own := blocks[i].release)
            ),
            outer,
            tuple(self.values),
            tuple((names[marks[mark][0]], places, windows) for mark, places, windows in self.existence),
            details,
        )

    def _share(self, blocks: Sequence[_BlockPart]) -> list[Query]:
        """Return the queries of different releases with their parts of epsilon and delta."""
        shares = [block.release.select.meta.get(EPSILON) for block in blocks]
        own = [
            block.query.options if part is None else replace(block.query.options, epsilon=part)
            for block, part in zip(blocks, shares, strict=True)
        ]
        own = drop_bounds_on_groups(own, [block.query.tree for block in blocks])
        options = share_epsilon(self.written.total, self.defaults, own, self.filters)
        return [replace(block.query, options=part) for block, part in zip(blocks, options, strict=True)]

    def _equal(self, blocks: Sequence[_BlockPart]) -> list[tuple[int, tuple[str, ...]]]:
        """Return for each release the place of the first equal one, and its own names of the columns.

        The names are empty where they are the same. Releases are planned with the parts of epsilon that they
        have if none is equal to another but those that are read from the same text.
        """
        places = self.analysed.find_first([block.query for block in blocks])
        once = sorted(set(places))
        shared = dict(zip(once, self._share([blocks[i] for i in once]), strict=True))
        self.marked |= {block.mark: shared[place] for block, place in zip(blocks, places, strict=True)}
        for query in reversed(shared.values()) if self.sets else ():  # one of most keys may have no groups
            self.analysed.check(query)
        found: list[tuple[int, tuple[str, ...]]] = []
        first: dict[tuple[str, ...], tuple[int, tuple[str, ...]]] = {}
        for i, block in enumerate(blocks):
            plan = self._plan(shared[places[i]])
            outputs = tuple(repr(replace(o, name="", at=0)) for o in plan.outputs)
            names = tuple(o.name for o in plan.outputs)
            asked = repr(replace(block.query.options, at={}))
            key = (plan.compiled.sql, repr(plan.selection), asked, *outputs)
            place, known = first.setdefault(key, (i, names))
            if len(first) > MAX_RELEASES:
                at = block.query.tree
                raise self.source.refuse(f"a statement has at most {MAX_RELEASES} releases", at)
            found.append((place, () if known == names else names))
        return found

    def _prefix(self) -> str:
        """Return the beginning of the generated names; no name in the statement has that form."""
        taken = {node.name.lower() for node in find_nodes(self.query.tree, exp.Identifier)}
        taken |= {table.name.lower() for table in self.policy.tables.values()}
        prefix = "r"
        while any(re.fullmatch(rf"{prefix}\d+", name) for name in taken):
            prefix += "_"
        return prefix


def _mark(number: int) -> str:
    return f"{VALUE_MARK}{number}"
