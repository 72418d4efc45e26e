"""Compute the errors of columns of an outer query that are computed from released numbers, and show them.

Also details of any columns that a query asks for by alias, such as DP_STDDEV(share).

Such a column is NULL in the query over released rows, and is filled in afterwards from the errors of the
column that it names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.analysis import Plan, write_engine_sql
from dpsql.analysis.aggregate_functions import is_aggregate
from dpsql.analysis.compiler import call_name, read_whole_number
from dpsql.composition.answer_numbers import AnswerNumbers
from dpsql.composition.block_columns import DETAIL_FUNCTIONS
from dpsql.composition.derived_columns import BY_NOISE, DerivedErrors
from dpsql.composition.existence import find_same_rows
from dpsql.composition.hidden_columns import HIDDEN, Columns, Hidden
from dpsql.composition.prepared import AskedDetail, DerivedColumn, ErrorBar, OuterRelation, PreparedComposed
from dpsql.composition.released_terms import Known, LinearTerm, Opaque, Term, map_sql_apart
from dpsql.composition.tracing import FollowedSelect, FollowedUnion, trace_rows
from dpsql.engines import Cancelled
from dpsql.engines.public_queries import Columns as Types
from dpsql.errors import OperationalError
from dpsql.language import title_of, walk_tree
from dpsql.lazy_dataclass import dataclass
from dpsql.places import DETAILS, Places, make_distinct
from dpsql.planning import selects_by_noise, to_doubles
from dpsql.policy import fold
from dpsql.release import Release

if TYPE_CHECKING:
    from dpsql.language import Query

FloatArray = NDArray[np.float64]

_NO_ERROR = {
    "low": "an end of an interval",
    "high": "an end of an interval",
    "stddev": "a standard deviation",
    "gap": "a gap",
    "p_value": "a p-value",
    "rank": "a rank",
    "quantile": "a quantile",
    "left_out": "an estimate of what is left out",
}
"""Released columns that are no numbers with an error, and no keys."""
_ORDERS = frozenset(("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "count"))
"""Functions of the order of rows alone, or of how many they are."""
_NOT_COMPUTED = (ArithmeticError, LookupError, TypeError, ValueError, MemoryError)
"""What computing an interval raises where values are others than expected: the answer is shown without."""
_MOST_REPEATED = 1_500
"""Most released rows for columns to be followed that may be made of all rows, in each row of the answer."""


@dataclass(slots=True, eq=False)
class Errors:
    """The errors of the derived columns of an answer, by their places: stddev, low, high."""

    of: dict[int, tuple[FloatArray, FloatArray, FloatArray]]
    bounds: dict[tuple[int, str], FloatArray] = field(default_factory=dict)
    """What is asked of their bounds, by place and kind."""
    notes: tuple[str, ...] = ()
    read: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """The releases whose numbers each column is computed of, if there are several."""


def follow_derived(
    plain: PreparedComposed, tree: exp.Expr, columns: Columns
) -> tuple[PreparedComposed, dict[int, str]]:
    """Return a statement with the columns that are followed to released numbers; the tree is changed.

    Beside it stands why other columns have no error, by their places.
    """
    plain = replace(plain, barred=plain.barred or plain.traced)
    plans = [part.plan for part in plain.parts]
    released, numbers = _number_releases(plain.relations, plans)
    barred = any(plan.existence is not None for plan in plans)
    traced = trace_rows(tree, columns, released, max(len(numbers), 1), barred=barred) if numbers else None
    if traced is None:
        return plain, {}
    rows, whole, repeated = traced
    if len([n for n, _ in rows.columns if not fold(n).startswith(HIDDEN)]) != len(plain.columns):
        return plain, {}
    skipped = {bar.place for bar in plain.bars} | {*plain.keys}
    terms: dict[int, Term] = {}
    why: dict[int, str] = {}
    shown = [term for name, term in rows.columns if not fold(name).startswith(HIDDEN)]
    for place, term in enumerate(shown):
        if isinstance(term, Opaque):
            why[place] = term.why
        elif isinstance(term, Known):
            why[place] = "it has no noise"
        elif place not in skipped:
            terms[place] = _shown(rows, term)
    if not terms:
        return plain, why
    found = tuple(DerivedColumn(place, term) for place, term in terms.items())
    keys = plain.keys or _keys(rows, len(plain.columns))
    made = replace(plain, keys=keys, traced=write_engine_sql(tree), derived=found, numbers=tuple(numbers))
    return replace(made, whole=whole, chosen=rows.filtered, repeated=repeated), why


def _keys(rows: FollowedSelect, shown: int) -> tuple[int, ...]:
    """Return the places of the columns by which rows that are aggregated or united differ."""
    node = rows.branches[0].node if isinstance(rows, FollowedUnion) else rows.node
    items = node.args["expressions"][:shown]
    if len(rows.columns) != shown or any(isinstance(each, exp.Star) for i in items for each in walk_tree(i)):
        return ()
    found = []
    for place, (item, (_, term)) in enumerate(zip(items, rows.columns, strict=True)):
        computed = any(is_aggregate(each) or isinstance(each, exp.Window) for each in walk_tree(item))
        if isinstance(term, Known) and not computed:
            found.append(place)
    return tuple(found)


def _number_releases(
    relations: Sequence[OuterRelation], plans: Sequence[Plan]
) -> tuple[dict[str, dict[int, int | str]], list[tuple[int, int]]]:
    """Give released numbers numbers: by relation and place, and the release and the number of each.

    Relations of one release have the same numbers.
    """
    found: dict[str, dict[int, int | str]] = {}
    numbers: dict[tuple[int, int], int] = {}
    for relation in relations:
        own, count = found.setdefault(fold(relation.name), {}), 0
        for place, output in enumerate(plans[relation.release].outputs):
            if output.kind == "count" and not relation.constant:
                own[place] = numbers.setdefault((relation.release, count), len(numbers))
                count += 1
            else:
                own[place] = "" if relation.constant else _NO_ERROR.get(output.kind, "")
    return found, list(numbers)


def _shown(rows: FollowedSelect, term: Term) -> Term:
    """Return a term in the names of hidden columns of the outermost query."""
    if not isinstance(term, LinearTerm):
        return map_sql_apart(term, rows.hidden)
    return LinearTerm(
        "", tuple((f if f == "1" else rows.hidden(f), rows.hidden(form)) for f, form in term.parts)
    )


def run_with_errors(
    prepared: PreparedComposed,
    releases: Sequence[Release],
    types: Mapping[str, Types],
    rows: Mapping[str, pa.Table],
    others: Iterable[Mapping[str, pa.Table]] = (),
) -> tuple[pa.Table, Errors]:
    """Run the outer query; return its rows with hidden columns, and the errors of the derived columns.

    `others`, where it matters which groups exist, are the rows with others of the groups that may exist,
    first with all. Where something else is computed of them, a row has no interval. What columns are made of
    may need more memory than the answer itself: then they have no errors.
    """
    database = prepared.engines.schema_database
    found, same, notes = None, None, list[str]()
    families = [_family(part.plan) for part in prepared.parts]
    if prepared.derived and prepared.repeated and _size(releases) > _MOST_REPEATED:
        notes.append(f"what is computed of more than {_MOST_REPEATED:,} rows together has no interval")
    elif prepared.derived and None in families:
        notes.append("what is computed of groups that noise has found and chosen has no interval")
    elif prepared.derived:
        try:
            found = database.over(types, rows, prepared.traced)
            if prepared.whole:
                same = _find_steady(prepared, found, types, rows, others)
        except Cancelled:
            raise
        except OperationalError:
            found = None
    if found is None:
        plain = prepared.barred if prepared.derived else prepared.traced
        found = database.over(types, rows, plain)
        none = (np.full(found.num_rows, np.nan),) * 3
        return found, Errors({each.place: none for each in prepared.derived}, notes=tuple(notes))
    confidence = float(min(release.confidence for release in releases))
    asked = len(prepared.derived) + len(prepared.bars)
    known = [each or 1 for each in families]
    numbers = AnswerNumbers(releases, prepared.numbers, known, confidence)
    hidden = Hidden(found)
    work = DerivedErrors(hidden, numbers, confidence, asked)
    of: dict[int, tuple[FloatArray, FloatArray, FloatArray]] = {}
    bounds: dict[tuple[int, str], FloatArray] = {}
    unsure = np.zeros(found.num_rows, dtype=np.bool_) if same is None else ~same
    if unsure.any():
        some = f" in {np.sum(unsure):,} of {found.num_rows:,} rows" if not unsure.all() else ""
        notes.append(
            f"it is not sure which groups have rows: what is computed of several has no interval{some}"
        )
    for each in prepared.derived:
        try:
            of[each.place] = work.of(each.place, each.term)
        except _NOT_COMPUTED:
            of[each.place] = (np.full(found.num_rows, np.nan),) * 3
        for ends in of[each.place]:
            ends[unsure] = np.nan
        name = prepared.columns[each.place]
        for why, at in work.missing.items():
            some = f" in {len(at):,} of {found.num_rows:,} rows" if found.num_rows > 1 else ""
            if why == BY_NOISE:
                notes.append(f"{name} is NULL{some}: {why}")
                found = _without(found, each.place, at)
            elif why:
                notes.append(f"no interval of {name}{some}: {why}")
        for kind in {d.kind for d in prepared.details if d.of == each.place} - {*DETAILS}:
            bounds[each.place, kind] = work.of_bounds(each.place, each.term, kind)
    width = len(prepared.numbers)
    read = {
        each.place: frozenset(
            prepared.numbers[name][0] for name in np.unique(hidden.numbers(each.term) % width).tolist()
        )
        for each in (prepared.derived if len(releases) > 1 else ())
    }
    return found, Errors(of, bounds, tuple(notes), read)


def _without(found: pa.Table, place: int, rows: Sequence[int]) -> pa.Table:
    """Return rows with NULL in some of a column."""
    column = found.column(place)
    values = column.to_pylist()
    for row in rows:
        values[row] = None
    return found.set_column(place, found.column_names[place], pa.array(values, column.type))


def _find_steady(
    prepared: PreparedComposed,
    found: pa.Table,
    types: Mapping[str, Types],
    rows: Mapping[str, pa.Table],
    others: Iterable[Mapping[str, pa.Table]],
) -> NDArray[np.bool_]:
    """Return which rows are computed of the same released numbers, whichever of the unsure groups exist."""
    database, shown = prepared.engines.schema_database, [each.place for each in prepared.derived]
    same: NDArray[np.bool_] = np.ones(found.num_rows, dtype=np.bool_)
    null = [found.column(place).is_null().to_numpy() for place in shown]
    unsure = ~np.all(null, axis=0)  # NULL has no interval
    for place, of in enumerate(others):
        if place > 1 and not (unsure & same).any():
            break  # the second table has no unsure group: it decides on the rows that are there
        if any(not of[name].equals(rows[name]) for name in rows):
            other = database.over(types, of, prepared.traced)
            if place == 1:
                unsure &= ~find_same_rows(found, other, prepared.keys, shown)
            same = same & find_same_rows(found, other, prepared.keys, shown, absent=place > 0)
    return same


def _family(plan: Plan) -> int | None:
    """Return among how many groups noise chooses those whose intervals must hold; None: nobody knows.

    It does where the intervals of the numbers themselves hold for all at once: also where it may leave groups
    out, whether it has left out any or not.
    """
    if not selects_by_noise(plan) and not plan.wide:
        return 1
    return None if plan.domain_size is None or plan.clear else max(plan.domain_size, 2)


def _size(releases: Sequence[Release]) -> int:
    return sum(release.rows.num_rows for release in releases)


_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_NUMERIC = frozenset({"DOUBLE", "FLOAT", "DECIMAL", *_WHOLE, *(f"U{name}" for name in _WHOLE)})


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A detail that a select list asks for, and where."""

    detail: AskedDetail
    node: exp.Expr


def take_details(outer: exp.Query) -> tuple[Asked, ...]:
    """Take the details of columns out of a query's select list, which is changed: they become NULL."""
    if not isinstance(outer, exp.Select):
        return ()
    names = [fold(item.alias_or_name) for item in outer.expressions]
    found = []
    for place, item in enumerate(list(outer.expressions)):
        node = item.this if isinstance(item, exp.Alias) else item
        kind = DETAIL_FUNCTIONS.get(call_name(node))
        if kind is None or len(node.expressions) != 1:
            continue
        of = _named(node.expressions[0], names, outer)
        if of is None or of == place:
            continue
        null = exp.Cast(this=exp.Null(), to=exp.DataType.build("DOUBLE"))
        name = item.alias or title_of(node)
        outer.expressions[place].replace(exp.alias_(null, name, quoted=True))
        found.append(Asked(AskedDetail(place, kind, of), node))
    return tuple(found)


def _named(node: exp.Expr, names: Sequence[str], outer: exp.Select) -> int | None:
    """Return the place of the column that is meant: by its alias, its place, or as it is written."""
    number = read_whole_number(node.unnest())
    if number is not None:
        return number - 1 if 1 <= number <= len(names) else None
    if isinstance(node, exp.Column) and (not node.table or fold(node.name) in names):
        return names.index(fold(node.name)) if names.count(fold(node.name)) == 1 else None
    same = (i for i, each in enumerate(outer.expressions) if each.unalias().unnest() == node.unnest())
    return next(same, None)


def with_details(
    query: Query, asked: Sequence[Asked], prepared: PreparedComposed, why: Mapping[int, str]
) -> PreparedComposed:
    """Return a statement with the details that it asks for; refuse a detail of a column that has none."""
    known = {each.place for each in numbers_of(prepared)}
    for each in asked:
        of = each.detail.of
        if of not in known:
            name, step = prepared.columns[of], why.get(of, "")
            because = {"": "what it is computed of is not followed"}.get(step, step)
            raise query.source.refuse(
                f"{name} has no error bar: {because}",
                each.node,
                "ask for it of a column that is computed from released numbers by arithmetic",
            )
    details = tuple(each.detail for each in asked)
    derived = tuple(_with_own(prepared, each, details) for each in prepared.derived)
    return replace(prepared, details=details, derived=derived)


def _with_own(
    prepared: PreparedComposed, column: DerivedColumn, details: Sequence[AskedDetail]
) -> DerivedColumn:
    base = make_distinct(prepared.columns)[column.place]

    def own(kind: str) -> int | None:
        titled = (each for each in details if each.of == column.place and each.kind == kind)
        return next((e.place for e in titled if prepared.columns[e.place] == f"{base}_{kind}"), None)

    stddev, low, high = map(own, DETAILS)
    return replace(column, own=(stddev, low, high))


def numbers_of(prepared: PreparedComposed) -> list[ErrorBar | DerivedColumn]:
    """Return the columns that have errors, in their order."""
    return sorted((*prepared.bars, *prepared.derived), key=lambda each: each.place)


def keep_numeric(prepared: PreparedComposed, found: Sequence[tuple[str, str]]) -> PreparedComposed:
    """Return a composed statement without the derived columns that are not numeric."""
    kinds = [kind for name, kind in found if not name.startswith(HIDDEN)]
    kept = tuple(each for each in prepared.derived if kinds[each.place].split("(")[0] in _NUMERIC)
    return replace(prepared, derived=kept)


def say_untold(
    prepared: PreparedComposed, found: Sequence[tuple[str, str]], why: Mapping[int, str]
) -> tuple[str, ...]:
    """Return a sentence on the numbers whose intervals do not follow from those of released numbers."""
    kinds = [kind for name, kind in found if not name.startswith(HIDDEN)]
    detailed = {*_NO_ERROR.values(), *_ORDERS, "it has no noise", ""}
    names = [
        f"{prepared.columns[place]} ({step})"
        for place, step in sorted(why.items())
        if step.partition(",")[0] not in detailed and kinds[place].split("(")[0] in _NUMERIC
    ]
    return (f"no interval of {', '.join(names)}",) if names else ()


def fill_details(
    prepared: PreparedComposed,
    releases: Sequence[Release],
    found: pa.Table,
    tables: tuple[pa.Table, pa.Table, Places],
    errors: Errors,
) -> tuple[pa.Table, pa.Table]:
    """Return the rows and the table of an answer with the details that the statement asks for.

    `found` are the rows of the query with its hidden columns.
    """
    rows, table, places = tables
    if not prepared.details:
        return rows, table
    numbers = dict(zip((each.place for each in numbers_of(prepared)), places.numbers, strict=True))
    for asked in prepared.details:
        if asked.kind in DETAILS:
            at = getattr(numbers[asked.of], asked.kind)
            column = None if at is None else table.column(at)
        else:
            column = to_doubles(_of_bounds(prepared, releases, found, asked, errors))
        column = pa.nulls(rows.num_rows, pa.float64()) if column is None else column
        rows = rows.set_column(asked.place, rows.column_names[asked.place], column)
        table = table.set_column(asked.place, table.column_names[asked.place], column)
    return rows, table


def _of_bounds(
    prepared: PreparedComposed,
    releases: Sequence[Release],
    found: pa.Table,
    asked: AskedDetail,
    errors: Errors,
) -> NDArray[np.float64]:
    """Return the bound of a column, or what it left out; NaN where that is not known."""
    none = np.full(found.num_rows, np.nan)
    bar = next((bar for bar in prepared.bars if bar.place == asked.of), None)
    if bar is None:
        return errors.bounds.get((asked.of, asked.kind), none)
    noises = releases[bar.release].noises
    known = None if noises is None else getattr(noises[bar.number], asked.kind)
    if known is None:
        return none
    numbers = found.column(bar.row).to_numpy().astype(np.float64)
    there = ~np.isnan(numbers)
    values = np.broadcast_to(np.asarray(known, dtype=np.float64), releases[bar.release].table.num_rows)
    none[there] = values[numbers[there].astype(np.int64)]
    return none
