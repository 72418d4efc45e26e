"""The passes of the analysis: each does one step from a private SELECT to its sealed `Plan`.

`dpsql.analysis` lists them in order. A pass reads what the ones before it have written into the `Draft`.
"""

from __future__ import annotations

import math
from dataclasses import field
from datetime import datetime, time

from dpsql.analysis import select_blocks
from dpsql.analysis.bound_ladders import Contribution
from dpsql.analysis.bounds_on_groups import bound_each_group, choose_bound_on_groups, find_constant_cuts
from dpsql.analysis.compiled_query import CompiledQuery, seal
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.counting_query import (
    CountedGroups,
    CountingQuery,
    ProjectedRows,
    count_all_groups,
    count_cells_of_all,
    count_cells_of_existing,
    count_cells_of_one,
    count_largest_groups,
    score_rungs,
    score_rungs_of_small,
)
from dpsql.analysis.group_rules import (
    check_domain,
    find_undeclared_keys,
    is_too_large,
    make_partitions,
)
from dpsql.analysis.groups_of_units import search_few_groups, show_by_units
from dpsql.analysis.known_subqueries import KnownSubqueries, find_rule
from dpsql.analysis.large_domains import (
    SparseDomain,
    count_sparse_groups,
    number_domain,
)
from dpsql.analysis.outer_query import (
    OuterQuery,
    compile_outer_query,
    has_unbounded_values,
    is_laplace_better,
    may_count_units,
)
from dpsql.analysis.released import find_default_rows
from dpsql.analysis.released.few_groups import find_number_of_few
from dpsql.analysis.released.released_calls import SORTED_AFTERWARDS, find_cells
from dpsql.analysis.released.released_numbers import ReleasedAggregate
from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.statement_plan import BoundSearch, Partitions, Plan, count_candidates
from dpsql.analysis.unit_periods import check_found_keys
from dpsql.analysis.whole_tables import (
    choose_cut_of_tables,
    find_cut_values,
    find_groups_left_out,
    find_left_out,
    find_nobodys,
    find_units_at_least,
)
from dpsql.language import AboveThreshold, AllGroups, Options, Query, TopK, TopPerPartition
from dpsql.lazy_dataclass import dataclass, replace
from dpsql.policy import Assumed, Policy, UnitColumn, UnitRow, fold

_FINEST = 40


@dataclass(slots=True)
class Draft:
    """A private statement on its way to a plan: each pass reads what the passes before it have found."""

    query: Query
    policy: Policy
    catalog: Catalog
    options: Options
    compiler: StatementCompiler
    block: OuterQuery = field(init=False)
    """The outermost block."""
    size: int | None = None
    """The number of groups in the domain of the keys; None: a key has no domain."""
    partitions: Partitions | None = None
    outside: bool = False
    """Whether the rows in no group are one more number."""
    kept: int | None = None
    """In how many of its groups each unit is counted; None: in all of them."""
    sparse: SparseDomain | None = None
    """The domain of the keys, if it is too large to count the empty groups."""
    groups: CountedGroups | None = None
    compiled: CompiledQuery = field(init=False)

    @staticmethod
    def begin(
        query: Query,
        policy: Policy,
        catalog: Catalog,
        options: Options,
        found: tuple[int, ...],
        known: KnownSubqueries | None,
    ) -> Draft:
        """Return a statement of which nothing is compiled; `found` are the places of bounds found before.

        `known` has the subqueries that were compiled of the statement before.
        """
        subqueries = known or KnownSubqueries(select_blocks.compile_query)
        compiler = StatementCompiler(
            query.source,
            policy,
            catalog,
            find_rule,
            subqueries,
            now=subqueries.now,
            proofs=subqueries.proofs,
        )
        compiler.places_found = found
        if options.as_of is not None:
            compiler.now = datetime.combine(options.as_of, time())
            compiler.closed_at = min(compiler.closed_at, options.as_of)
        return Draft(query, policy, catalog, options, compiler)


def compile_outer_block(draft: Draft) -> None:
    """Compile the outermost block, with what the options say of bounds and of the error."""
    compiler, options = draft.compiler, draft.options
    compiler.max_rows = options.max_rows_contributed
    compiler.epsilon, compiler.finest = options.epsilon, _find_finest(options)
    if options.epsilon is None:
        own = "error" in options.at
        compiler.error, compiler.default_error = (options.error, None) if own else (None, options.error)
    compiler.each_value &= may_count_units(options)
    draft.block = compile_outer_query(compiler, draft.query, combines=options.combine == "ONLY")


def check_unit_option(draft: Draft) -> None:
    """Refuse an option `privacy_unit_column` that names another column than the policy."""
    options, compiler = draft.options, draft.compiler
    if options.privacy_unit_column is None:
        return
    with compiler.part():
        names = set()
        for name in compiler.used:
            table = draft.policy.table(name)
            if table is not None and isinstance(table.unit, UnitColumn):
                names.add(fold(table.unit.column))
            elif table is not None and isinstance(table.unit, UnitRow):
                names.add("row")
        if fold(options.privacy_unit_column) not in names:
            raise draft.query.source.refuse(
                "privacy_unit_column may only repeat what the policy declares",
                options.at.get("privacy_unit_column"),
                "leave it out, or name " + ", ".join(sorted(names)),
            )


def measure_domain(draft: Draft) -> None:
    """Find the number of groups in the domain of the keys; without one, groups are shown by their units."""
    draft.size = check_domain(draft.compiler, draft.query, draft.block, draft.options)
    if draft.size is None:
        draft.block = show_by_units(draft.compiler, draft.query, draft.block, draft.options)
    elif draft.query.tree.meta.get(SORTED_AFTERWARDS):
        draft.compiler.assume(Assumed(f"all {draft.size:,} groups are released, and then sorted"))


def find_partitions(draft: Draft) -> None:
    """Find the partitions of a selection that takes the largest groups of each partition."""
    draft.partitions = make_partitions(draft.compiler, draft.query, draft.block, draft.options)


def search_groups_of_unit(draft: Draft) -> None:
    """Let a search bound the groups of a unit, where units of many groups are counted and nobody says."""
    draft.block = search_few_groups(draft.compiler, draft.block, draft.options, draft.size, draft.partitions)


def search_each_group(draft: Draft) -> None:
    """Let a search bound what a unit has in each group, where that may leave a selection less noise.

    Where costs may be divided at one order there is none: what is reserved for Gaussian noise on all groups
    is none of a selection of bounded range, so that what is found could not choose between the two.
    """
    divides = draft.policy.budget.filter.order_way is not None and draft.options.layout != "BASIC"
    if draft.partitions is None and not divides:
        draft.block = bound_each_group(draft.compiler, draft.block, draft.options, draft.size)


def choose_cut(draft: Draft) -> None:
    """Set how intervals cover what bounds cut, from the statement's option or else from its tables."""
    if draft.options.cut is None:
        cut = choose_cut_of_tables(draft.policy, draft.compiler.used)
        draft.options = replace(draft.options, cut=cut)


def is_counted_better(draft: Draft) -> bool:
    """Return whether different values are counted better as one number than by the units of each value.

    So it is if a unit has a bounded number of them, and the noise on one number then tells more.
    """
    block, epsilon = draft.block, draft.options.epsilon
    if has_unbounded_values(block.counts):
        return True
    if block.values is None or block.one_group or epsilon is None:
        return False
    bound = 1 if block.single else find_default_rows(draft.policy, block.source)
    return bound is not None and is_laplace_better(block.values.size, bound, epsilon)


def count_rows_outside(draft: Draft) -> None:
    """Decide whether the rows in no group are one more number."""
    draft.outside = _has_rows_outside(draft.block, draft.size, draft.partitions)
    if draft.outside and draft.size is not None:
        draft.size += 1


def bound_groups_of_unit(draft: Draft) -> None:
    """Decide in how many of its groups each unit is counted."""
    draft.kept = choose_bound_on_groups(draft.compiler, draft.block, draft.options, draft.size)


def choose_sparse_domain(draft: Draft) -> None:
    """Count only the groups that are not empty, if the domain is too large for all of them."""
    if not is_too_large(draft.size):
        return
    block, source = draft.block, draft.query.source
    order = block.selection.order if isinstance(block.selection, AboveThreshold) else ()
    types = [key.type for key in block.keys]
    draft.sparse = number_domain(draft.catalog, block.domains, types, order)
    if draft.sparse is None:
        raise source.refuse(
            "so many groups have no order by a key whose values depend on those of other keys",
            draft.query.tree.args.get("order"),
            "leave ORDER BY out",
        )


def seal_counting_query(draft: Draft) -> None:
    """Build the counting query; the engine's binder confirms it, and the kernel certifies it."""
    block, sparse = draft.block, draft.sparse
    if sparse is None:
        draft.groups = _choose_groups(draft)
    order = block.selection.order if isinstance(block.selection, (AboveThreshold, AllGroups)) else None
    order = () if order is None and block.values is not None else order
    counting = draft.groups.build_query(order) if draft.groups else _build_counting(draft)
    draft.compiled = seal(
        counting.query,
        draft.catalog,
        draft.policy,
        tuple(sorted(draft.compiler.used)),
        len(block.counts) + (find_cells(block.counts) is not None),  # a cell and its rows
        keys=() if sparse is not None else tuple(k.type.held for k in block.keys),
        order=counting.order,
        cells=find_cells(block.counts) is not None,
        groups=draft.groups,
        sparse=sparse,
        proofs=draft.compiler.proofs,
    )
    check_found_keys(draft.query, block.source.owner, draft.compiled.certificate)


def state_plan(draft: Draft) -> Plan:
    """Return the plan: the sealed query, the released numbers, what was assumed, what bounds leave out."""
    query, compiler, block, options = draft.query, draft.compiler, draft.block, draft.options
    size, kept, partitions, outside = draft.size, draft.kept, draft.partitions, draft.outside
    owner = block.source.owner
    assert owner is not None  # noqa: S101  outer_query() refuses a statement without an owner
    places: dict[ReleasedAggregate, int] = {}
    own = [d for d in block.domains if d.keys[0] < len(block.own_keys)]
    origins = " x ".join(dict.fromkeys(d.domain.origin for d in own))
    return Plan(
        query,
        draft.compiled,
        block.selection,
        options,
        block.outputs,
        block.counts,
        tuple(k.type for k in block.own_keys),
        size,
        ("not declared" if size is None else origins) if block.own_keys else "one group",
        owner,
        owner.words,
        find_units_at_least(draft.policy, compiler),
        1 if block.one_group else kept,
        kept,
        tuple(compiler.assumed),
        block.one_group,
        partitions,
        () if compiler.places_found else _build_searches(compiler, block, kept, partitions, outside=outside),
        block.existence,
        outside=outside,
        nobodys=find_nobodys(draft.policy, compiler, block.counts, query.tree),
        null_group=any(candidates.domain.null for candidates in block.domains),
        values=block.values,
        left_out=tuple(find_left_out(compiler, count) for count in block.counts),
        groups_left_out=find_groups_left_out(compiler, block.selection, options),
        cut_values=tuple(find_cut_values(compiler, count) for count in block.counts),
        constant_cuts=find_constant_cuts(
            compiler,
            _list_shown(block),
            block.selection,
            options,
            groups=kept,
            domain_size=size,
            partitions=partitions,
        ),
        equal=tuple(places.setdefault(count, place) for place, count in enumerate(block.counts)),
        clear=any(candidates.domain.clear for candidates in block.domains),
        closed=compiler.closed,
        addable=None
        if draft.sparse or compiler.ladders or size is None or block.addable is None
        else block.addable(kept),
    )


def _list_shown(block: OuterQuery) -> list[ReleasedAggregate]:
    """Return the numbers of a block without the one that only decides which groups are shown."""
    numbers = [output for output in block.outputs if output.kind == "count"]
    used = {place for output in numbers for place in (output.uses or (output.of,))}
    return [c for place, c in enumerate(block.counts) if place != block.existence or place in used]


def _find_finest(options: Options) -> int:
    """Return the power of two of the largest bound in least steps, for which the noise still has a grid."""
    return max(8, min(_FINEST, 49 + math.floor(math.log2(float(options.epsilon or 1) / 32))))


def _has_rows_outside(block: OuterQuery, size: int | None, partitions: Partitions | None) -> bool:
    """Return whether the rows in no group are one more number: of all groups, if there may be such rows.

    Selections have no such number, and cells of values none that adds up. Neither has a statement whose keys
    tell the rows of a unit apart: it has one row in each group, but may have several with other values.
    """
    every = isinstance(block.selection, AllGroups) and block.selection.limit is None
    every |= block.values is not None and not block.own_keys
    complete = all(candidates.domain.complete for candidates in block.domains)
    return bool(
        block.keys
        and every
        and size is not None
        and partitions is None
        and not complete
        and (block.one_group or not block.single)
        and find_cells(block.counts) is None
    )


def _build_searches(
    compiler: StatementCompiler,
    block: OuterQuery,
    most: int | None,
    partitions: Partitions | None,
    *,
    outside: bool,
) -> tuple[BoundSearch, ...]:
    """Return the queries that find bounds, over the same rows as the counting query."""
    if not compiler.ladders:
        return ()
    # With `outside` all rows count, in whatever group.
    every = outside and most is None
    more = [each for ladder in compiler.ladders for each in (*ladder.rows, ladder.small) if each is not None]
    block = replace(block, rows=block.rows.add_expressions(more))
    among, made = _choose_rows(block, most, partitions, outside=outside), []
    catalog, policy = compiler.catalog, compiler.policy
    for ladder in compiler.ladders:
        rows = block.rows if every and ladder.of is not Contribution.GROUPS else among
        query = score_rungs(rows, ladder, server=policy.engine != "duckdb")
        used, size = tuple(sorted(compiler.used)), ladder.choose_sums(keys=bool(block.keys)).value
        faster = score_rungs_of_small(rows, ladder)
        sealed = seal(
            query, catalog, policy, used, size, order=None, cells=True, faster=faster, proofs=compiler.proofs
        )
        made.append(BoundSearch(ladder, sealed))
    return tuple(made)


def _choose_rows(
    block: OuterQuery, most: int | None, partitions: Partitions | None, *, outside: bool = False
) -> ProjectedRows:
    """Return the rows that count: those in a candidate group, of each unit in at most so many groups."""
    rows, selection = block.rows, block.selection
    if not block.keys:
        return rows
    if outside:
        rows = rows.add_outside(block.domains)
        return rows if most is None else rows.bound_groups(most, ())
    if partitions is not None and partitions.bounded and isinstance(selection, TopPerPartition):
        rows = rows.bound_groups(partitions.per_unit, block.domains, selection.keys)
    if most is not None:
        rows = rows.bound_groups(most, () if find_undeclared_keys(block) else block.domains)
    return rows.keep_candidates(() if find_undeclared_keys(block) else block.domains)


def _count_partitions(block: OuterQuery, options: Options, partitions: Partitions) -> CountingQuery:
    """Build the counting query of partitions; a unit counts in a bounded number of them."""
    selection, domains, rows = block.selection, block.domains, block.rows
    assert isinstance(selection, TopPerPartition)  # noqa: S101  no other selection has partitions
    if partitions.bounded:
        rows = rows.bound_groups(partitions.per_unit, domains, selection.keys)
    if rows.weighted:
        rows = rows.keep_candidates(domains)
    if partitions.size is not None:
        return count_all_groups(rows, domains, ())
    most = count_candidates(selection.best.k, options)
    return count_largest_groups(rows, selection.count, most, domains, selection.keys)


def _choose_groups(draft: Draft) -> CountedGroups | None:
    """Return the groups that are counted, a unit in `kept` of them; None where they are no groups."""
    block, options = draft.block, draft.options
    if draft.partitions or find_number_of_few(block.counts) or find_cells(block.counts) is not None:
        return None
    largest = None
    if find_undeclared_keys(block) and block.existence is None:
        assert isinstance(block.selection, TopK)  # noqa: S101  domain_size refuses the others
        largest = block.selection.count, count_candidates(block.selection.k, options)
    domains = () if find_undeclared_keys(block) else block.domains
    return CountedGroups(block.rows, domains, draft.size, draft.kept, block.existence, draft.outside, largest)


def _build_counting(draft: Draft) -> CountingQuery:
    """Build the counting query of partitions, of cells, of a number of groups, or of a sparse domain."""
    block, sparse, most = draft.block, draft.sparse, draft.kept
    domains, part = block.domains, find_cells(block.counts)
    if draft.partitions is not None:
        return _count_partitions(block, draft.options, draft.partitions)
    rows = block.rows
    if (few := find_number_of_few(block.counts)) is not None:  # it has the bound on groups as its own
        draft.options = replace(draft.options, max_groups_contributed=None)
        return CountingQuery(few.build_query(rows.query), order=())
    if not block.keys and part is not None:
        return count_cells_of_one(rows, part)
    if find_undeclared_keys(block):
        domains = ()
    if most is not None:
        rows = rows.bound_groups(most, domains)
    elif rows.weighted:
        rows = rows.keep_candidates(domains)
    if sparse is not None:
        return count_sparse_groups(rows, sparse)
    assert part is not None  # noqa: S101  other queries have `CountedGroups`
    if find_undeclared_keys(block):
        assert block.existence is not None  # noqa: S101  domain_size refuses the others
        return count_cells_of_existing(rows, part, block.counts[block.existence])
    order = block.selection.order if isinstance(block.selection, (AboveThreshold, AllGroups)) else None
    return count_cells_of_all(rows, domains, part, order or ())
