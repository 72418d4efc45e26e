"""Which groups exist for the SQL over released rows, and what is said about it.

A release has every group of a declared domain, and SQL only those with rows. A released number does not tell
them apart: a sum or an average of any value may be of many rows or of none. So a group exists for the SQL
around, unless the number of all its rows or units rounds to 0. This is decided only where the meaning of SQL
needs it: where groups are counted, averaged or numbered as rows, or looked for, where a window goes over
them otherwise than by SUM, where LIMIT or OFFSET counts them by keys or what selects no groups, and where
what is computed of them divides by such numbers, since noise by noise would say nothing. Nothing else leaves
a group out: a selection of the smallest says which may be without rows. The answer says what was decided, and
of how many groups. Without a count asked for, rows are counted besides: LAG over a month without rows would
compare a month with noise.

NULL is a candidate of every key that can be NULL, though it rarely is one. Where existence is decided, a
group of NULL is there only if its own count exceeds the half-width of its interval; without a count it is
left out. The answer says that, too.

Where a statement divides by another released count, of the rows that meet a condition, the quotient is NULL
if that count rounds to 0, and the answer says so. (Division by 0 is NULL, infinite or an error, by dialect.)

*Privacy.* What is left out, and its number, are functions of released numbers alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.analysis.aggregate_functions import aggregate_name, is_aggregate
from dpsql.analysis.compiled_relation import Scope
from dpsql.analysis.compiler import call_name, read_whole_number, split_arguments
from dpsql.analysis.typed_expression import UnitRole
from dpsql.composition.prepared import Existence, PreparedComposed
from dpsql.errors import QueryRefused
from dpsql.estimates.number_noises import take_noises
from dpsql.language import find_nodes, read_clause, walk_block, walk_tree
from dpsql.policy import fold
from dpsql.release import Release, places_of

HALF = "0.5"
"""A group with a released count above it exists: the count does not round to 0."""
EXISTS = "exists"
"""In the meta of a condition that a group exists."""
EXISTENCE = "existence"
"""The meta of a release block's tree: the counts that decide which groups exist, and if windows hinder it."""
Place = tuple[int, int]
"""A column of a release: the places of both."""
BESIDE_TOTALS = "beside totals"
"""In the meta of a block beside which another one has totals over a key: there the key is NULL."""
READS_ROWS = (
    exp.From,
    exp.Join,
    exp.Lateral,
    exp.In,
    exp.Exists,
    exp.All,
    exp.Any,
    exp.SetOperation,
    exp.CTE,
)
"""What reads the rows of a subquery in it, where elsewhere it stands for one value."""
_COMPARED = (exp.In, exp.Exists, exp.Except, exp.Intersect)
"""What asks whether a group is there."""


def counts_all(node: exp.Expr, scope: Scope) -> bool:
    """Return whether a measure is the number of all rows, or of all units, of a group."""
    call = node.unnest()
    if call_name(call) != "count" or isinstance(call, exp.Filter):
        return False
    _, values = split_arguments(call)
    if len(values) != 1:
        return False
    value = values[0]
    if isinstance(value, exp.Distinct):
        if len(value.expressions) != 1:
            return False
        value = value.expressions[0]
    elif isinstance(value, exp.Star) or isinstance(value.unnest(), (exp.Literal, exp.Boolean)):
        return True
    value = value.unnest()
    if not isinstance(value, exp.Column):
        return False
    try:
        return scope.resolve(value).unit is UnitRole.EXACT
    except QueryRefused:
        return False


def needs_existence(select: exp.Select) -> bool:
    """Return whether the meaning of a SELECT over groups depends on which groups exist.

    It does where it aggregates them otherwise than by SUM, to which a group without rows adds nothing.
    """
    return aggregates(select, "sum")


def aggregates(select: exp.Select, *but: str) -> bool:
    """Return whether a SELECT over groups aggregates them, by other functions than some."""
    return any(is_aggregate(node) and aggregate_name(node) not in but for node in walk_block(select, "joins"))


def windows_need_existence(select: exp.Select) -> bool:
    """Return whether a window of a SELECT counts or averages groups, or reads them by their places."""
    return any(name != "sum" for name in _window_functions(select)) or _frames_count_rows(select)


def limits_places(select: exp.Select, measures: Sequence[str]) -> bool:
    """Return whether LIMIT or OFFSET of a SELECT over groups shows others where some without rows are there.

    Of the largest by a measure, those are the last.
    """
    if select.args.get("limit") is None and select.args.get("offset") is None:
        return False
    order = select.args.get("order")
    if order is None or not order.expressions[0].args.get("desc"):
        return True
    by, named = order.expressions[0].this.unnest(), [item.alias_or_name for item in select.expressions]
    place = read_whole_number(by)
    name = by.name if place is None else named[place - 1] if place <= len(named) else ""
    return fold(name) not in map(fold, measures)


def _frames_count_rows(select: exp.Select) -> bool:
    """Return whether the frame of a window of a SELECT goes back or ahead by a number of rows."""
    specs = (node.args.get("spec") for node in walk_block(select, "joins") if isinstance(node, exp.Window))
    counting = (
        spec for spec in specs if spec is not None and (spec.args.get("kind") or "").upper() != "RANGE"
    )
    ends = (spec.args.get(name) for spec in counting for name in ("start", "end"))
    return any(isinstance(end, exp.Expr) for end in ends)


def _window_functions(select: exp.Select) -> list[str]:
    found = []
    for node in walk_block(select, "joins"):
        if isinstance(node, exp.Window):
            call = node.this
            while isinstance(call, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
                call = call.this
            found.append(aggregate_name(call) or call_name(call))
    return found


def has_windows(select: exp.Select) -> bool:
    """Return whether a SELECT has windows, outside subqueries."""
    return any(isinstance(node, exp.Window) for node in walk_block(select, "joins"))


def divides(select: exp.Select, counts: Sequence[str] | None = None) -> bool:
    """Return whether a SELECT divides by one of some columns, or by any; a window is no column."""
    names = None if counts is None else {fold(name) for name in counts}
    found = [
        n.expression for n in walk_block(select, "joins") if isinstance(n, (exp.Div, exp.IntDiv, exp.Mod))
    ]
    own = (n for by in found for n in walk_tree(by, lambda node: isinstance(node, (exp.Query, exp.Window))))
    return any(isinstance(node, exp.Column) and (names is None or fold(node.name) in names) for node in own)


def readers(select: exp.Select, root: exp.Query) -> tuple[list[exp.Select], bool, bool]:
    """Return the SELECTs that read a block's rows, whether one tests if rows exist, and has NULL for absent.

    Those of a common table expression read it wherever they name it.
    """
    found: dict[int, exp.Select] = {}
    asked = padded = False
    waiting, seen = [select.parent], set[int]()
    while waiting:
        node, item = waiting.pop(), None
        while node is not None and not isinstance(node, exp.CTE):
            asked |= isinstance(node, _COMPARED)
            item = node if isinstance(node, (exp.From, exp.Join)) else item
            if isinstance(node, exp.Select):
                found[id(node)] = node
                asked |= _seeks_absent(node)
                padded |= item is not None and _pads(node, item)
                item = None
            node = None if isinstance(node, exp.Subquery) and _is_value(node) else node.parent
        place = node.meta.get("cte") if node is not None else None
        if place is not None and place not in seen:
            seen.add(place)
            waiting += [
                table.parent for table in find_nodes(root, exp.Table) if table.meta.get("cte") == place
            ]
    return [*found.values()], asked, padded


def _pads(select: exp.Select, item: exp.Expr) -> bool:
    """Return whether a SELECT has NULL in place of rows that an item of FROM lacks."""
    joins = select.args.get("joins") or ()
    sides = {id(join): str(join.args.get("side") or "").upper() for join in joins}
    return sides.get(id(item)) == "LEFT" or not {"RIGHT", "FULL"}.isdisjoint(sides.values())


def _is_value(node: exp.Subquery) -> bool:
    """Return whether a subquery is one value of an expression: its rows are none of what is around it."""
    rows = (exp.From, exp.Join, exp.Lateral, exp.Table, exp.SetOperation, exp.Subquery, exp.CTE, *_COMPARED)
    return node.parent is not None and not isinstance(node.parent, rows)


def _seeks_absent(select: exp.Select) -> bool:
    """Return whether a SELECT keeps rows to which an outer join found no partner."""
    where = read_clause(select)
    if where is None or not any(join.args.get("side") for join in select.args.get("joins") or ()):
        return False
    return any(
        isinstance(node, exp.Is)
        and isinstance(node.expression, exp.Null)
        and not isinstance(node.parent, exp.Not)
        for node in walk_tree(where, lambda node: isinstance(node, exp.Query))
    )


def exists_condition(columns: Sequence[exp.Expr]) -> exp.Expr:
    """Return the condition that one of some counts of a group says that it exists."""
    half = exp.Literal.number(HALF)
    tests = [exp.GT(this=column, expression=half.copy()) for column in columns]
    for test in tests:
        test.meta[EXISTS] = True
    return exp.or_(*tests, copy=False)


def without_existence(condition: exp.Expr) -> tuple[list[exp.Expr], bool]:
    """Return the conditions that all hold without those that groups exist, and whether there are such."""
    node = condition.unnest()
    if isinstance(node, exp.And):
        (left, one), (right, other) = map(without_existence, (node.left, node.right))
        return [*left, *right], one or other
    tests = [node]
    while any(isinstance(test, (exp.Or, exp.Paren)) for test in tests):
        tests = [part for test in tests for part in _parts(test)]
    found = all(test.meta.get(EXISTS) for test in tests)
    return ([], True) if found else ([condition], False)


def _parts(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Or):
        return [node.left, node.right]
    return [node.this] if isinstance(node, exp.Paren) else [node]


def with_groups(prepared: PreparedComposed, releases: Mapping[int, Release]) -> dict[int, Release]:
    """Return releases, by their places, as SQL over them reads them: without empty groups of NULL."""
    found = dict(releases)
    for place, gone in _gone_groups(prepared, releases).items():
        release, kept = releases[place], pa.array(~gone)
        rows, table = release.rows.filter(kept), release.table.filter(kept)
        noises = take_noises(release.noises, np.flatnonzero(~gone))
        found[place] = replace(release, rows=rows, table=table, noises=noises)
    return found


def other_groups(
    prepared: PreparedComposed, releases: Mapping[int, Release]
) -> Iterator[dict[int, pa.Table]]:
    """Yield the rows of releases, by their places, with other groups: all that may exist, then fewer.

    It is not sure whether a group exists where no count exceeds its half-width, but one may be above 0. Of
    any two such groups each is there without the other in one of the later tables, and none in the second.
    """
    gone, unsure, places = _gone_groups(prepared, releases), dict[int, NDArray[np.bool_]](), set[Place]()
    for each in prepared.existence:
        within = _within_error(each, releases[each.release])
        may = within & _may_exist(each, releases[each.release])
        unsure[each.release] = unsure.get(each.release, False) | may
        places |= {(each.release, place) for place in each.criteria}
    numbers = {place: np.cumsum(found) for place, found in unsure.items()}
    most = max((int(found[-1]) for found in numbers.values() if len(found)), default=0)
    parts = [(bit, value) for bit in range(most.bit_length()) for value in (0, 1)] if most > 1 else []
    for bit, value in [(-1, 1), *([(most.bit_length(), 1)] if most else []), *parts]:
        made = {place: release.rows for place, release in releases.items()}
        for of, found in unsure.items():
            kept = found & (((numbers[of] >> bit) & 1) == value) if bit >= 0 else found
            for place in sorted(place for release, place in places if release == of):
                counts = _column(releases[of], place)
                counts = np.where(kept, np.maximum(counts, 1), np.where(found, 0, counts))
                name, column = made[of].column_names[place], made[of].column(place)
                made[of] = made[of].set_column(place, name, pa.array(counts).cast(column.type, safe=False))
            out = gone.get(of)
            if out is not None:
                order = np.argsort(out, kind="stable")
                made[of] = made[of].take(order[(~out | (kept if bit < 0 else False))[order]])
        yield made


def _gone_groups(prepared: PreparedComposed, releases: Mapping[int, Release]) -> dict[int, NDArray[np.bool_]]:
    """Return which groups of releases are empty groups of NULL, by their places, where some are."""
    found: dict[int, NDArray[np.bool_]] = {}
    for each in prepared.existence:
        release = releases.get(each.release)
        gone = None if release is None else _null_groups(prepared, each, release)
        if gone is not None and gone.any():
            found[each.release] = found.get(each.release, gone) | gone
    return found


def _null_groups(
    prepared: PreparedComposed, decided: Existence, release: Release
) -> NDArray[np.bool_] | None:
    """Return which groups have a NULL key and no count beyond its half-width; None where none can be."""
    plan = prepared.parts[decided.release].plan
    keys = [i for i, output in enumerate(plan.outputs) if output.kind == "key"]
    if plan.domain_size is None or not keys:
        return None
    null: NDArray[np.bool_] = np.any(
        [release.rows.column(i).is_null().to_numpy(zero_copy_only=False) for i in keys], axis=0
    )
    null &= _within_error(decided, release)
    return null


def _within_error(decided: Existence, release: Release) -> NDArray[np.bool_]:
    """Return of which groups no count of rows or units exceeds the half-width of its interval."""
    found: NDArray[np.bool_] = np.ones(release.rows.num_rows, dtype=np.bool_)
    for number in places_of(release).numbers:
        if number.place in decided.columns:
            count, half = _column(release, number.place), np.full(len(found), float(HALF))
            if number.low is not None and number.high is not None:
                width = (_column(release, number.high) - _column(release, number.low)) / 2
                half = np.maximum(half, np.nan_to_num(width, nan=np.inf))
            found &= ~(count > half)
    return found


def _may_exist(decided: Existence, release: Release) -> NDArray[np.bool_]:
    """Return which groups may have rows: the interval of a count of rows or units has numbers above 0."""
    found: NDArray[np.bool_] = np.full(release.rows.num_rows, not decided.columns)
    for number in places_of(release).numbers:
        if number.place in decided.columns:
            high = None if number.high is None else _column(release, number.high)
            found |= True if high is None else ~(high <= float(HALF))
    return found


def _column(release: Release, place: int) -> NDArray[np.float64]:
    found: NDArray[np.float64] = release.table.column(place).to_numpy().astype(np.float64)
    return found


def find_same_rows(
    found: pa.Table, other: pa.Table, keys: Sequence[int], columns: Sequence[int], *, absent: bool = False
) -> NDArray[np.bool_]:
    """Return which rows of an answer have the values of another one in some columns and the hidden ones.

    Rows are the same by their keys; without keys by their places, if both have as many. Rows of one key are
    taken in the order of their values, if both have as many. A row whose key the other does not have is the
    same if `absent` says.
    """
    from dpsql.composition.hidden_columns import HIDDEN  # noqa: PLC0415  most answers have no such rows

    if not keys and found.num_rows != other.num_rows:
        return np.zeros(found.num_rows, dtype=np.bool_)
    compared = [*columns, *(i for i, name in enumerate(found.column_names) if name.startswith(HIDDEN))]
    own, theirs = (_numbered_keys(table, keys, compared) for table in (found, other))
    places, known = {key: place for place, key in enumerate(theirs)}, {key for key, *_ in theirs}
    same: NDArray[np.bool_] = np.array([absent and key not in known for key, *_ in own], dtype=np.bool_)
    at = np.array([places.get(key, -1) for key in own], dtype=np.int64)
    there = at >= 0
    here, beside = found.select(compared).filter(pa.array(there)), other.select(compared).take(at[there])
    equal = np.ones(here.num_rows, dtype=np.bool_)
    for one, two in zip(here.columns, beside.columns, strict=True):
        equal &= _equal(one.combine_chunks(), two.combine_chunks())
    same[there] = equal
    return same


def _numbered_keys(
    rows: pa.Table, keys: Sequence[int], compared: Sequence[int]
) -> list[tuple[tuple[object, ...], int, int]]:
    """Return the key of each row, of how many rows it is, and the row's number among them by its values."""
    if not keys:
        return [((place,), 1, 0) for place in range(rows.num_rows)]
    found = list(zip(*(rows.column(place).to_pylist() for place in keys), strict=True))
    times, order = Counter(found), [*range(len(found))]
    if len(times) < len(found):
        values = list(zip(*(rows.column(place).to_pylist() for place in compared), strict=True))
        order.sort(key=lambda place: repr(values[place]))
    numbers, passed = [0] * len(found), Counter[tuple[object, ...]]()
    for place in order:
        numbers[place] = passed[found[place]]
        passed[found[place]] += 1
    return [(key, times[key], number) for key, number in zip(found, numbers, strict=True)]


def _equal(one: pa.Array, two: pa.Array) -> NDArray[np.bool_]:
    """Return which values of two arrays of one type are equal; NULL is equal to NULL, NaN to NaN."""
    null: NDArray[np.bool_] = one.is_null().to_numpy(zero_copy_only=False)
    same: NDArray[np.bool_] = null == two.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_struct(one.type):
        for left, right in zip(one.flatten(), two.flatten(), strict=True):
            same &= _equal(left, right)
        return same
    if pa.types.is_list(one.type):
        sizes = np.diff(one.offsets.to_numpy())
        same &= sizes == np.diff(two.offsets.to_numpy())
        kept = pa.array(same)
        equal = _equal(one.filter(kept).flatten(), two.filter(kept).flatten())
        unequal = np.bincount(np.repeat(np.flatnonzero(same), sizes[same])[~equal], minlength=len(same))
        same &= unequal == 0
        return same
    left, right = (array.to_numpy(zero_copy_only=False) for array in (one, two))
    equal = (left == right) | one.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(one.type):
        equal |= np.isnan(left) & np.isnan(right)
    same &= equal
    return same


def describe_existence(prepared: PreparedComposed, releases: Sequence[Release]) -> list[str]:
    """Return what was decided about the groups of an answer, in words, with how many were left out."""
    asked = releases
    releases = [*with_groups(prepared, dict(enumerate(asked))).values()]

    def empty(release: int, *columns: int) -> NDArray[np.bool_]:
        counts = [_column(releases[release], place) for place in columns]
        number = releases[release].rows.num_rows
        return np.max(counts, axis=0) <= float(HALF) if counts else np.zeros(number, dtype=np.bool_)

    found = []
    for each in prepared.existence:
        plan, out = prepared.parts[each.release].plan, empty(each.release, *each.criteria)
        unsure = _within_error(each, releases[each.release]) & ~out
        found.append(each.words(plan, (int(out.sum()), len(out), int(unsure.sum()))))
        gone = asked[each.release].rows.num_rows - len(out)
        if gone:
            names = each.write_names(plan)
            why = f"whose {names} is within its error of 0" if names else "of which no count is asked for"
            found.append(f"{gone:,} {'group' if gone == 1 else 'groups'} of NULL {why}: left out here")
    decided = {(each.release, column) for each in prepared.existence for column in each.criteria}
    for release, column in dict.fromkeys(each for each in prepared.divisors if each not in decided):
        out = empty(release, column)
        gone, number = int(out.sum()), len(out)
        name = prepared.parts[release].plan.outputs[column].name
        where = (
            f"where it rounds to 0, in {gone:,} of {number:,} groups" if number > 1 else "as it rounds to 0"
        )
        found.append(f"divided by {name}: NULL {where}" if gone else "")
    return [text for text in dict.fromkeys(found) if text]
