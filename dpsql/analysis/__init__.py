"""Analysis of a private statement: `Statement` and `Policy` to `Plan`, which holds the counting query.

`analyse` runs the passes of `CHECKS` and `BUILDS` in order; each is a function of ``passes``. What they use:

=====================  =====================================================================================
``outer_query``        the outermost block: keys, counts, and the ``output_columns``; ``selection`` and
                       ``unmatched_rows`` the rows no unit owns
``released``           the aggregates that may be released, from their calls to the numbers with noise
``select_blocks``      SELECTs in subqueries: ``window_functions``, ``block_groups`` and
                       ``aggregate_functions`` their parts, ``nested_queries`` what is within them;
                       ``set_operations`` of them
``from_tables``        items of FROM, ``from_joins`` their joins; ``lists_and_series``;
                       ``known_subqueries`` those that a statement has several times
``scalar_rules``       scalar expressions: ``casts``, ``call_rules`` and ``syntax_rules`` more of them,
                       and the table of all; ``scalar_functions`` and ``total_forms`` the allowed functions,
                       ``buckets_and_epochs``, ``conversions``, and ``released_values`` constants of
                       earlier releases
``compiler``           the state of one statement's compilation: ``typed_expression`` and
                       ``compiled_relation`` are what it makes; ``schema_catalog`` what it asks of the
                       schema database
``facts_of_values``    bounds of an expression, its grain of time, NULL; ``row_conditions`` what holds on
                       the rows that count, ``where_ranges`` which values it leaves, ``empty_conditions``
                       where that is none, ``likely_mistakes`` what is hardly meant
``key_candidates``     which groups there can be, from ``public_rows``, with the ``unit_order`` of dates;
                       ``public_domains`` lists of values,
                       ``stepped_values`` steps of a number, ``parts_of_times`` hours and names of days,
                       ``count_keys`` numbers of a unit's rows, ``large_domains`` those of which not all
                       groups are counted; ``group_rules`` how many, ``groups_of_units`` and of which units,
                       ``bounds_on_groups`` in how many of them a unit counts, and what constants cut
``part_guards``        conditions on the date of units, beside those from which they follow;
                       ``part_conditions`` which parts of units a condition leaves, ``value_conditions``
                       where each value of a column is a part
``unit_periods``       tables whose unit is what one did in one period, and what they refuse
``counting_query``     the query that counts; ``compiled_query`` seals it: the engine's binder confirms it,
                       once for all constants of its ``plan_shapes``, and the kernel certifies it, with
                       ``column_types`` by ``type_rules``
``grids``              the steps of sums; ``bound_ladders`` the bounds among which one is searched, and kept
                       ones
``statement_plan``     the plan; ``cut_contributions`` and ``whole_tables`` what its bounds leave out
``addable_numbers``    of which cells of rows the numbers are sums; ``cell_conditions`` which values of a
                       column a condition or a key takes
``epsilon_division``   shares of the epsilon of a statement, or of what it costs
``advice``             all obstacles of a refused statement, and what to write in their place
``public_statements``  statements over public tables, ``public_limits`` what they may compute;
                       ``text_conversions`` finds those in a bound plan that may fail as it runs
``statement_shapes``   statements that tools send by themselves
``table_measures``     queries over whole tables, for the bounds of the policy
=====================  =====================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis import select_blocks
from dpsql.analysis.bound_ladders import Contribution, CutValues, Kept, KeptLadders, LeftOut
from dpsql.analysis.compiled_query import CompiledQuery, PublicOrder, check_sealed, is_alike, merge_queries
from dpsql.analysis.count_keys import list_tellers
from dpsql.analysis.cut_contributions import (
    bound_on_rows,
    describe_cells,
    describe_cuts,
    describe_number,
    describe_quantile,
)
from dpsql.analysis.known_subqueries import KnownSubqueries, find_rule
from dpsql.analysis.large_domains import (
    CommonNoise,
    DomainPart,
    SparseDomain,
    choose_common_noise,
    divide_by_noise,
    is_laplace_less,
    is_selection_of_all,
)
from dpsql.analysis.output_columns import place_columns
from dpsql.analysis.passes import (
    Draft,
    bound_groups_of_unit,
    check_unit_option,
    choose_cut,
    choose_sparse_domain,
    compile_outer_block,
    count_rows_outside,
    find_partitions,
    is_counted_better,
    measure_domain,
    seal_counting_query,
    search_each_group,
    search_groups_of_unit,
    state_plan,
)
from dpsql.analysis.public_domains import put_domains
from dpsql.analysis.public_statements import (
    check_outer,
    find_unknown_tables,
    put_views,
    write_engine_sql,
    write_public_sql,
)
from dpsql.analysis.released.quantiles import CellRows, Quantile
from dpsql.analysis.released.released_numbers import ReleasedAggregate
from dpsql.analysis.released_values import find_values, list_marks, mark_value, put_values
from dpsql.analysis.schema_catalog import Catalog, Vocabulary
from dpsql.analysis.selection import NOT_COUNTED
from dpsql.analysis.statement_plan import (
    OF_NUMBERS,
    BoundSearch,
    Output,
    Partitions,
    Plan,
    ValuesOfGroup,
    check_claims,
    count_candidates,
    requested_accounting,
)
from dpsql.analysis.statement_shapes import DeclaredValues, NoRows, Preview, find_probe
from dpsql.errors import Obstacle, QueryRefused
from dpsql.kernel.tree import quote
from dpsql.language import Options, Query, find_nodes
from dpsql.lazy_dataclass import replace
from dpsql.policy import Policy

Pass = Callable[[Draft], None]


def _check_combining(draft: Draft) -> None:
    """Refuse `combine = TRUE`: statements of a report, which have it, are planned without it."""
    with draft.compiler.part():
        if draft.options.combine == "TRUE":
            raise draft.query.source.refuse(
                "combine = TRUE is for statements of a report, whose numbers are fixed before they are seen",
                draft.options.at.get("combine"),
                "CREATE REPORT name AS $$ .. $$, or dpsql -f FILE --together",
            )


CHECKS: tuple[Pass, ...] = (
    compile_outer_block,
    _check_combining,
    check_unit_option,
    measure_domain,
    find_partitions,
    search_groups_of_unit,
    search_each_group,
)
"""The passes that refuse statements, in order; a survey of all obstacles runs them as well."""

BUILDS: tuple[Pass, ...] = (
    count_rows_outside,
    bound_groups_of_unit,
    choose_sparse_domain,
    seal_counting_query,
)
"""The passes that make the plan of a statement which has passed the checks, in order."""


def analyse(
    query: Query, policy: Policy, catalog: Catalog, options: Options, found: tuple[int, ...] = ()
) -> Plan:
    """Compile a private statement whose sensitivity the rules prove; refuse any other.

    `found` are the places of the bounds that were found, in the order of `Plan.ladders`.
    """
    return build_plan(check_statement(query, policy, catalog, options, found))


def check_statement(
    query: Query,
    policy: Policy,
    catalog: Catalog,
    options: Options,
    found: tuple[int, ...] = (),
    known: KnownSubqueries | None = None,
) -> Draft:
    """Run the checks of `analyse`, which refuse statements; `build_plan` takes what it returns, once.

    `known` has the subqueries that were compiled of the statement before.
    """
    with query.source.limited_depth():
        draft = Draft.begin(query, policy, catalog, options, found, known)
        _run_passes(CHECKS, draft)
        choose_cut(draft)
        if is_counted_better(draft):
            draft = Draft.begin(query, policy, catalog, draft.options, found, known)
            draft.compiler.each_value = False
            _run_passes(CHECKS, draft)
        return draft


def build_plan(draft: Draft) -> Plan:
    """Seal the counting query of a statement that has passed the checks, and return its plan."""
    with draft.query.source.limited_depth():
        _run_passes(BUILDS, draft)
        return state_plan(draft)


def _run_passes(passes: Iterable[Pass], draft: Draft) -> None:
    for each in passes:
        each(draft)


def survey(query: Query, policy: Policy, catalog: Catalog, options: Options) -> list[QueryRefused]:
    """Return all refusals of a private statement; none of one that `analyse` accepts."""
    from dpsql.analysis.advice.survey import Surveyor  # noqa: PLC0415  few statements are refused

    surveyor = Surveyor(query.source, policy, catalog, find_rule, select_blocks.compile_query)
    # Without a part that was refused, the query of a public domain may not bind: then the survey ends.
    with suppress(RecursionError, ValueError), surveyor.part():
        _run_passes(CHECKS, Draft(query, policy, catalog, options, surveyor))
    return surveyor.found


def list_obstacles(
    first: QueryRefused,
    query: Query,
    releases: Iterable[Query],
    policy: Policy,
    catalog: Catalog,
    defaults: Options,
) -> tuple[Obstacle, ...]:
    """Return all obstacles of a statement that was refused; `first` is the one already known.

    `releases` are its release blocks, as far as they are known. Tables come first: as long as one does not
    exist, nothing else is judged.
    """
    from dpsql.analysis.advice import RefusedStatement, advise  # noqa: PLC0415  few statements are refused
    from dpsql.analysis.advice.survey import adapt_hints, order_obstacles  # noqa: PLC0415  as above

    found = find_unknown_tables(query, policy)
    if not found:
        found = [first]
        for release in releases:
            if len(found) > 1 and find_values(release.tree):
                continue  # what it reads of a refused release is not known
            found += survey(release, policy, catalog, complete_options(release.options, defaults))
    if any(r.obstacles[0].unknown == "function" for r in found):  # it may be an aggregate, mistyped
        found = [r for r in found if not r.message.startswith(NOT_COUNTED)] or found
    if any(r.obstacles[0].unknown == "column" and _is_equated(r.node) for r in found):
        joined = "two private tables are joined only"  # perhaps by this equality
        found = [r for r in found if not r.message.startswith(joined)] or found
    statement = RefusedStatement(query, policy, catalog)
    for refused in found:
        advise(statement, refused)
    return adapt_hints(order_obstacles(found), query, policy, catalog)


def _is_equated(node: object) -> bool:
    around = node.parent if isinstance(node, exp.Column) else None
    return isinstance(around, exp.EQ) and all(isinstance(side, exp.Column) for side in around.args.values())


def is_private(query: Query, policy: Policy) -> bool:
    """Whether a statement names a private table anywhere (even where an inner name shadows it)."""
    for node in find_nodes(query.tree, exp.Table):
        table = policy.table(node.name) if node.name.isascii() else None
        if table is not None and not table.public:
            return True
    return False


def complete_options(options: Options, defaults: Options) -> Options:
    """Return the options with the defaults in the place of those that the analyst left out.

    An error takes the place of the default epsilon, and an epsilon that of the default error. Where both have
    a default, the error holds. What is added up from releases is planned as if it cost 1.
    """
    if options.combine is not None and (options.epsilon or options.error) is None:
        options = replace(options, epsilon=Fraction(1))
    kept = ["at"]
    if options.epsilon is not None:
        kept.append("error")
    elif options.error is not None or defaults.error is not None:
        kept.append("epsilon")
    names = [n for n in Options.__dataclass_fields__ if n not in kept and getattr(options, n) is None]
    given = {n: value for n in names if (value := getattr(defaults, n)) is not None}
    return replace(options, **given) if given else options
