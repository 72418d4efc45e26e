"""Compile the outermost block of a private statement: its keys, counts, and columns computed from them.

COUNT(DISTINCT x) of an x with declared values may be answered by the numbers of units that have each value:
x becomes a last key of the counting query, which the statement does not have: a group of the statement is one
group for each declared value, and what is counted is the units of each. One unit moves each of these numbers
by at most 1, all the same way, as those of any GROUP BY x: that is what the noise is for. How many of the
noisy numbers are large is then computed from the release alone (`planning`).

NULL is no value of x: it is no candidate, and its rows count nowhere. Rows with a value that is not declared
are `outside`, one more number of the release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.analysis.aggregate_functions import aggregate_calls, aggregate_name
from dpsql.analysis.block_groups import list_group_nodes
from dpsql.analysis.casts import make_canonical
from dpsql.analysis.compiled_relation import Block, From, Item
from dpsql.analysis.compiler import StatementCompiler, check_arguments
from dpsql.analysis.count_keys import list_count_keys
from dpsql.analysis.counting_query import ProjectedRows
from dpsql.analysis.from_joins import compile_from
from dpsql.analysis.key_candidates import find_candidates
from dpsql.analysis.large_domains import count_values
from dpsql.analysis.output_columns import SelectList, find_free_kind, has_measure, rewrite_selection
from dpsql.analysis.public_domains import Candidates
from dpsql.analysis.released.conditional_counts import read_as_counts
from dpsql.analysis.released.quantiles import QuantileCall
from dpsql.analysis.released.released_calls import compile_released, is_released
from dpsql.analysis.released.released_numbers import ReleasedAggregate
from dpsql.analysis.released.unit_counts import DistinctValues, EachValue, Units, weigh_by_shares
from dpsql.analysis.released.unit_values import ValueCall, choose_measures
from dpsql.analysis.row_conditions import (
    KnownRows,
    find_fact_names,
    find_fixed_values,
    find_known_rows,
    is_fact,
)
from dpsql.analysis.scalar_rules import compile_condition
from dpsql.analysis.schema_catalog import Catalog, has_stable_reads
from dpsql.analysis.select_blocks import expand_star, list_ctes
from dpsql.analysis.selection import find_ordering, is_one_number, parse_selection
from dpsql.analysis.statement_plan import Output, ValuesOfGroup
from dpsql.analysis.typed_expression import UNKNOWN, UNSTORABLE, Typed, UnitRole
from dpsql.analysis.unmatched_rows import refuse_unmatched
from dpsql.analysis.where_ranges import narrow_rows
from dpsql.analysis.whole_tables import find_whole_table
from dpsql.errors import with_article
from dpsql.kernel.tree import Expr
from dpsql.language import (
    MARK,
    AboveThreshold,
    AllGroups,
    Options,
    Query,
    Scalar,
    Selection,
    TopK,
    TopPerPartition,
    find_nodes,
    list_conjuncts,
    read_clause,
)
from dpsql.lazy_dataclass import dataclass, replace
from dpsql.policy import fold

if TYPE_CHECKING:
    from dpsql.analysis.addable_numbers import AddableNumbers

MOST = 1_000
"""The most numbers that one noise is for: declared values, times the groups of the statement."""

FEW = 100
"""So many values are always counted by their units; of more, the noise on the units of each is large."""


@dataclass(frozen=True, slots=True)
class UnitsOfEach:
    """What is counted in the place of different values."""

    key: Typed
    """The last key: what the different values are of."""
    domain: Candidates
    units: ReleasedAggregate
    values: ValuesOfGroup


def may_count_units(options: Options) -> bool:
    """Return whether options leave open how different values are counted."""
    bounds = (options.max_groups_contributed, options.max_rows_contributed, options.error, options.noise)
    return options.mechanism in (None, "AUTO") and all(each is None for each in bounds)


def is_laplace_better(values: int, bound: int, epsilon: Fraction) -> bool:
    """Return whether Laplace noise on a number of different values tells more, by public figures alone.

    Each unit has at most `bound` of them. It does if the values are many, and half the width of its interval
    is less than half of their number.
    """
    return values > FEW and math.log(20) * bound / float(epsilon) < values / 2


def has_unbounded_values(counts: Sequence[ReleasedAggregate]) -> bool:
    """Return whether a count of different values was left as it is, without a bound on a unit."""
    return any(_read_each_value(count) is not None for count in counts)


def count_units_of_each(
    catalog: Catalog,
    keys: Sequence[Typed],
    domains: Sequence[Candidates],
    counts: Sequence[ReleasedAggregate],
    known: KnownRows,
) -> UnitsOfEach | None:
    """Return what is counted in the place of different values of each group; None if that is not possible.

    All keys must be declared, and every group have the same values.
    """
    part = counts[0].parts[0] if counts else None
    each = _read_each_value(counts[0]) if counts else None
    if each is None or not isinstance(part, DistinctValues) or any(count != counts[0] for count in counts):
        return None
    found = find_candidates(catalog, [*keys, each.value], known)
    last = len(keys)
    if {key for own in found for key in own.keys} != {*range(last + 1)} or found[-1].keys != (last,):
        return None
    if tuple(found[:-1]) != tuple(domains):
        return None
    own = Candidates((last,), found[-1].domain.without_null())
    size = count_values(catalog, own.domain)
    if not 0 < size * math.prod(count_values(catalog, candidates.domain) for candidates in domains) <= MOST:
        return None
    units = ReleasedAggregate((each.units(single=not part.kept),))
    return UnitsOfEach(each.value, own, units, ValuesOfGroup(each.text, size))


def _read_each_value(count: ReleasedAggregate) -> EachValue | None:
    part = count.parts[0]
    return part.each if isinstance(part, DistinctValues) and len(count.parts) == 1 else None


MAX_KEYS = 16
MAX_COUNTS = 128


_REASONS = {"mode": "it is the largest group, so select that", "any_value": "it is the value of one unit"}
"""Why some aggregates are not released; of others it is said which are."""

_KNOWN = frozenset(
    {"expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "with_"}
)


@dataclass(frozen=True, slots=True)
class OuterQuery:
    """The compiled outermost block: the private rows, the numbers released of them, the output columns."""

    rows: ProjectedRows
    selection: Selection
    keys: tuple[Typed, ...]
    domains: tuple[Candidates, ...]
    """The public candidates of the keys; a key without a domain is in none."""
    counts: tuple[ReleasedAggregate, ...]
    outputs: tuple[Output, ...]
    source: From
    facts: tuple[bool, ...]
    """Whether each key is a fact of the unit."""
    single: bool
    """Whether each unit has at most one row in a group."""
    existence: int | None = None
    """The place of the number of units, if groups of undeclared keys are shown by it."""
    values: ValuesOfGroup | None = None
    """The values of the last key, which the statement does not have; None: it has all keys."""
    groups_known: bool = False
    """Whether a kept ladder has bounded the groups of units, in place of the policy's number."""
    addable: Callable[[int | None], AddableNumbers | None] | None = None
    """Finds what its numbers are sums over, where a unit is in so many groups; None if they are none."""

    @property
    def own_keys(self) -> tuple[Typed, ...]:
        """The keys by which the outer query itself groups."""
        return self.keys if self.values is None else self.keys[:-1]

    @property
    def one_group(self) -> bool:
        """Whether each unit is in one group without any bound: every key is a fact of the unit."""
        return all(self.facts)


def compile_outer_query(compiler: StatementCompiler, query: Query, *, combines: bool = False) -> OuterQuery:
    """Compile the outermost block of a private statement; `combines` says that its answer is added up."""
    select, source = query.tree, compiler.source
    if not isinstance(select, exp.Select):
        raise source.refuse("a private statement is one SELECT", select, "put set operations into a subquery")
    distinct = select.args.get("distinct")
    if distinct is not None:
        compiler.report(
            source.refuse(
                "SELECT DISTINCT would release exact groups", select, "GROUP BY the key and select a count"
            )
        )
    for first in sorted(clauses.at for clauses in query.inner.values())[:1]:
        compiler.report(source.refuse("this clause belongs into the outermost SELECT", first))
    spelled = rewrite_selection(source, select)
    select = read_as_counts(spelled.select, compiler.policy, compiler.catalog, query.options)
    check_arguments(source, select, _KNOWN | {"qualify"} | ({"distinct"} if distinct is not None else set()))
    doubtful = any(i.is_string or find_nodes(i, exp.Case, exp.Div) for i in select.expressions)
    if select.args.get("joins") or doubtful or find_nodes(select, exp.Or):
        from dpsql.analysis.likely_mistakes import note_likely_mistakes  # noqa: PLC0415  others have none

        note_likely_mistakes(compiler, select)
    ctes = list_ctes(compiler, select, ())
    made = compile_from(compiler, select, ctes, 1)
    made.scope.block = Block(made.owner, made.unit, ctes, 1)
    if made.owner is None:
        raise source.refuse("no private table reaches the outermost SELECT", select)
    items = expand_star(compiler, select, made.scope)
    items = [_check_countable(compiler, item, made) for item in items]
    parsed: tuple[Selection, list[exp.Expr], list[exp.Expr]] | None = None
    with compiler.part():
        parsed = parse_selection(compiler, query, select, items) if distinct is None else None
    hidden = parsed[1] if parsed is not None else []
    scope = made.scope
    counted = {i: i for i, item in enumerate(items) if is_released(item.node)}
    for item in items:
        # An expression of the row: it contains no count and no `dp_` function.
        if (
            find_free_kind(item.node) is None
            and aggregate_name(item.node) is None
            and not has_measure(item.node, counted, items)
        ):
            with compiler.part(item.name):
                scope.aliases.setdefault(fold(item.name), compiler.expression(item.node, scope))
    keys = _compile_keys(compiler, select, items, made)
    where = read_clause(select)
    filters = list_conjuncts(where)
    condition: Expr | None = None
    if where is not None:
        with compiler.part():
            condition = compile_condition(compiler, where, scope).guarded_node
    single: bool | None = None
    one_row = False
    with compiler.part():
        single = _has_single_rows(compiler, made, keys, filters)
        one_row = made.owner.row or _has_single_rows(compiler, made, (), filters)
    nodes = [(i, items[i].node) for i in counted]
    nodes += [(len(items) + i, node) for i, node in enumerate(hidden)]
    if len(nodes) > MAX_COUNTS:
        raise source.refuse(f"a statement has at most {MAX_COUNTS} counts", nodes[-1][1])
    if not nodes and select.args.get("group") is None:
        compiler.give_up()
    known = find_known_rows(compiler, made, condition)
    owner, before, made = made.owner, made, narrow_rows(compiler, made, known)
    lost = refuse_unmatched(compiler, query, select, before, condition, [n for _, n in nodes], keys, known)
    compiler.public_items, compiler.keyed = frozenset(known.items), bool(keys)
    compiler.each_value &= is_one_number(parsed, [node for _, node in nodes]) and not lost
    domains = find_candidates(compiler.catalog, [key for key in keys if key is not UNKNOWN], known)
    selected = None if parsed is None else parsed[0]
    compiler.whole = None if lost else find_whole_table(compiler, select, keys, domains, len(nodes), selected)
    calls = [
        ReleasedAggregate((Units(()),))
        if id(node) in lost
        else _compile_measure(compiler, node, made, single=single, one_row=one_row)
        for _, node in nodes
    ]
    ordering = find_ordering(parsed[0]) if parsed is not None else None
    chosen = next((i for i, (place, _) in enumerate(nodes) if place == ordering), None)
    if chosen is not None:
        _check_ordering(compiler, calls[chosen], nodes[chosen][1])
    asked = choose_measures(calls, chosen, keyed=bool(keys))
    counts: list[ReleasedAggregate] = []
    uses: dict[int, tuple[int, ...]] = {}
    for (place, _), measure in zip(nodes, asked, strict=True):
        # A count asked for twice keeps both places.
        fresh = measure.formula is None and measure.quantile is None
        uses[place] = tuple(_add_count(counts, each, fresh=fresh) for each in measure.counts)
    formulas = {place: m.formula for (place, _), m in zip(nodes, asked, strict=True) if m.formula is not None}
    places = {place: used[0] for place, used in uses.items()}
    quantiles = {p: m.quantile for (p, _), m in zip(nodes, asked, strict=True) if m.quantile is not None}
    if quantiles and len(counts) > 1:
        mixed = next(node for place, node in nodes if place in quantiles)
        compiler.report(source.refuse("a quantile is a release of its own, apart from other numbers", mixed))
    listed = SelectList(compiler, items, made, keys, places, uses, formulas, quantiles)
    outputs = tuple(listed.show_item_at(item, i) for i, item in enumerate(items))
    if parsed is None:
        compiler.give_up()
    selection = _place_selection(listed.place_order(parsed[0], parsed[2]), places, counts)
    if spelled.spelling and isinstance(selection, TopK):
        selection = replace(selection, spelling=spelled.spelling)
    if spelled.only is not None:
        outputs = (replace(outputs[spelled.only[0]], name=spelled.only[1]),)
    keys = tuple(make_canonical(k) for k in keys if k is not UNKNOWN)
    apart = count_units_of_each(compiler.catalog, keys, domains, counts, known)
    if apart is not None:
        keys, domains, counts = (*keys, apart.key), (*domains, apart.domain), [apart.units] * len(counts)
        outputs = tuple(o if o.kind == "key" else replace(o, values=apart.values.size) for o in outputs)
    names = find_fact_names(made, find_fixed_values(compiler, filters, made.scope))
    facts = tuple(one_row or is_fact(key, names) for key in keys)
    if any(k.most for k in keys) and all(facts) and not (apart or lost or quantiles):
        domains = list_count_keys(compiler, made, keys, domains, counts, selection, known, query.options)
    if domains:
        counts = weigh_by_shares(counts, selection, query.options)
    more = [row for ladder in compiler.ladders for row in ladder.rows if not compiler.places_found]
    alike = has_stable_reads(compiler.used, compiler.policy, compiler.catalog)
    rows = ProjectedRows.of(made, condition, keys, tuple(counts), more, alike=alike)
    if compiler.policy.unit_parts is not None:
        from dpsql.analysis.part_guards import guard_parts  # noqa: PLC0415  few units have parts

        rows = replace(rows, query=guard_parts(compiler, rows.query, select))
    own = [calls[i] for i, (place, _) in enumerate(nodes) if place < len(items)]
    shown_keys = [keys[o.of] for o in outputs if o.kind == "key" and 0 <= o.of < len(keys)]
    plain = isinstance(selection, Scalar | AllGroups) and not (apart or spelled.only or lost or quantiles)
    plain = plain and {*shown_keys} >= {*keys}
    one_each = bool(single) or owner.row
    told = tuple(counts), outputs, made, facts, one_each

    def find(kept: int | None) -> AddableNumbers | None:
        from dpsql.analysis.addable_numbers import find_addable  # noqa: PLC0415  groups are seldom all released

        return find_addable(compiler, before, condition, shown_keys, own, kept, whole=combines)

    found = OuterQuery(rows, selection, keys, domains, *told, addable=find if plain else None)
    return found if apart is None else replace(found, values=apart.values)


def _check_countable(compiler: StatementCompiler, item: Item, made: From) -> Item:
    """Refuse an item with an aggregate that is not released."""
    refused = [call for call in aggregate_calls(item.node) if not is_released(call)]
    if not refused:
        return item
    for call in refused:
        with compiler.part(item.name):
            name = str(aggregate_name(call))
            reason = _REASONS.get(name, "counts, sums, averages and quantiles are")
            raise compiler.source.refuse(
                f"{name.upper()} over many units is not released: {reason}",
                call,
            )
    # What else the statement does with the refused item is judged as if it were a count.
    bounds = exp.Tuple(expressions=[exp.Literal.number(0), exp.Literal.number(1)])
    bounded = exp.Kwarg(this=exp.var("contribution_bounds_per_group"), expression=bounds)
    arguments = [exp.Star()] if made.owner is not None and made.owner.row else [exp.Star(), bounded]
    count = exp.Anonymous(this=f"{MARK}count", expressions=arguments)
    count.meta["start"] = compiler.source.position(item.node)
    return Item(count, item.name)


def _check_ordering(
    compiler: StatementCompiler, call: ReleasedAggregate | ValueCall | QuantileCall, node: exp.Expr
) -> None:
    """Refuse to choose groups by a number that one unit can move by any part of its range."""
    if isinstance(call, QuantileCall) or (isinstance(call, ValueCall) and call.statistic != "sum"):
        name = str(aggregate_name(node.unnest())).upper()
        raise compiler.source.refuse(
            f"groups are not chosen by {name}: one unit can move that of a small group by all of its range",
            node,
            "choose by SUM or COUNT, or among all groups that are released: "
            "SELECT * FROM (SELECT .. GROUP BY ..) ORDER BY .. LIMIT ..",
        )


def _add_count(counts: list[ReleasedAggregate], count: ReleasedAggregate, *, fresh: bool) -> int:
    """Return the place of a count, added if it is new or to be there again (`fresh`)."""
    if fresh or count not in counts:
        counts.append(count)
        return len(counts) - 1
    return counts.index(count)


def _compile_measure(
    compiler: StatementCompiler, node: exp.Expr, made: From, *, single: bool | None, one_row: bool
) -> ReleasedAggregate | ValueCall | QuantileCall:
    """Compile a measure; `single` says that each unit has at most one row in a group, None is unknown."""
    with compiler.part():
        if single is None:
            compiler.give_up()
        return compile_released(compiler, node, made, single=single, one_row=one_row)
    return ReleasedAggregate((Units(()),))


def _compile_keys(
    compiler: StatementCompiler, select: exp.Select, items: list[Item], made: From
) -> tuple[Typed, ...]:
    nodes = list_group_nodes(compiler, select, items, made.scope)
    if len(nodes) > MAX_KEYS:
        raise compiler.source.refuse(f"a statement has at most {MAX_KEYS} group keys", nodes[-1])
    keys: list[Typed] = []
    for node in nodes:
        key = UNKNOWN
        with compiler.part():
            key = _compile_key(compiler, node, made)
        if key.node not in {k.node for k in keys}:
            keys.append(key)
    return tuple(keys)


def _compile_key(compiler: StatementCompiler, node: exp.Expr, made: From) -> Typed:
    if is_released(node) or find_free_kind(node) is not None:
        raise compiler.source.refuse("a count cannot be a group key", node)
    key = compiler.expression(node, made.scope)
    if key.unit is UnitRole.PARTIAL:
        from dpsql.analysis.set_operations import refuse_partial_unit  # noqa: PLC0415  few are refused

        raise refuse_partial_unit(compiler.source, node)
    if key.unit.names_units:
        message = "the privacy unit cannot be a group key: it would name single units"
        raise compiler.source.refuse(message, node)
    if key.type.name in UNSTORABLE:
        raise compiler.source.refuse(f"a group key cannot be {with_article(str(key.type))}", node)
    return key


def _has_single_rows(
    compiler: StatementCompiler, made: From, keys: tuple[Typed, ...], filters: list[exp.Expr]
) -> bool:
    """Return whether each unit has at most one row in a group: the keys fix a unique column set."""
    fixed = {value.node for value in (*keys, *find_fixed_values(compiler, filters, made.scope))}
    return any(columns <= fixed for columns in made.unique)


def _place_selection(
    selection: Selection, places: dict[int, int], counts: Sequence[ReleasedAggregate]
) -> Selection:
    """Return the selection with the place of its count among the counts, not in the select list.

    Its threshold is then in steps of the count, half a step below the least number of steps that meets it: as
    far from what must pass as from what must not, whatever the noise.
    """
    if isinstance(selection, (TopK, AboveThreshold)):
        place = places[selection.count]
        if selection.threshold is None:
            return replace(selection, count=place)
        at = selection.threshold / counts[place].step
        least = math.floor(at) + 1 if selection.strict else math.ceil(at)
        return replace(selection, count=place, threshold=least - Fraction(1, 2), strict=False)
    if isinstance(selection, TopPerPartition):
        best = _place_selection(selection.best, places, counts)
        assert isinstance(best, TopK)  # noqa: S101  of the same type
        return replace(selection, best=best)
    return selection
