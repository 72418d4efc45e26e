"""Bind and run the outer query of a statement: SQL over released rows and public tables, without charge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from dpsql.analysis import Output, Plan, put_domains, write_engine_sql
from dpsql.analysis.released_values import Known
from dpsql.composition.chosen_public_rows import PlacedValue
from dpsql.composition.derived import (
    Errors,
    fill_details,
    follow_derived,
    keep_numeric,
    numbers_of,
    run_with_errors,
    say_untold,
    with_details,
)
from dpsql.composition.existence import describe_existence, other_groups, with_groups
from dpsql.composition.found_values import put_least
from dpsql.composition.half_way_thresholds import (
    ColumnSteps,
    compare_half_way,
    counts_of,
    find_quotients,
    guard_divisors,
    steps_of,
    tell_absent_sums,
    truncate_quotients,
)
from dpsql.composition.hidden_columns import HIDDEN, Traced, trace
from dpsql.composition.kinds import below
from dpsql.composition.planned_count import ReleasedValue, columns_of
from dpsql.composition.prepared import (
    DerivedColumn,
    ErrorBar,
    Existence,
    OuterRelation,
    PreparedComposed,
    PreparedPrivate,
)
from dpsql.composition.release_words import total_guarantee
from dpsql.composition.statement_parts import Parts
from dpsql.composition.unbound_statements import refuse_failing, refuse_several_rows, refuse_unbound
from dpsql.engines import UnboundQuery
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.kernel.loss import Charge
from dpsql.language import AllGroups, Query, copy_tree, find_nodes, list_titles, name_columns
from dpsql.places import DETAILS, FREE, Places, lay_out, make_distinct
from dpsql.planning import COVERS_LESS, choose, say_of_columns, to_doubles
from dpsql.policy import Policy, fold
from dpsql.release import COMPUTED, RENEWED, Release, add_renewals, ends_of, hold_at_once, places_of
from dpsql.types import BIGINT, DOUBLE


def compose(
    text: str, query: Query, parts: Parts, planned: Sequence[PreparedPrivate], policy: Policy
) -> PreparedComposed:
    """Return the prepared statement of planned releases and an outer query; refuse one that does not bind.

    Releases with equal keys ask the same question: they are one release, which is charged and run once.
    """
    assert parts.outer is not None  # noqa: S101  else the statement is its one release
    distinct: list[PreparedPrivate] = []
    relations: list[OuterRelation] = []
    database = planned[0].counting.engines.schema_database
    for part, one in zip(parts.releases, planned, strict=True):
        place = next((i for i, other in enumerate(distinct) if other.key == one.key), len(distinct))
        if place == len(distinct):
            distinct.append(one)
        elif one.plan.selected:  # it is one release, with one interval of each number
            distinct[place] = _as_selected(distinct[place])
        relations.append(OuterRelation(part.name, place, columns_of(one.plan), part.constant))
    types = {relation.name: relation.columns for relation in relations}
    outer = copy_tree(parts.outer)
    name_columns(outer)
    plans = {fold(part.name): one.plan for part, one in zip(parts.releases, planned, strict=True)}
    refuse_several_rows(query, outer, plans)
    steps = {name: steps_of(plan) for name, plan in plans.items()}
    named = {fold(part.name): one for part, one in zip(parts.releases, planned, strict=True)}
    notes = (*_put_least(outer, named), *tell_absent_sums(outer, plans))
    compare_half_way(outer, steps)
    quotients, counts = find_quotients(outer, steps), counts_of(plans)
    divisors = guard_divisors(outer, steps, counts)
    said = truncate_quotients(quotients, counts)
    notes = (*notes, said) if said else notes
    put_domains(outer, query.source, policy, database)
    sql = write_engine_sql(copy_tree(outer))
    values = tuple(_write_value(query, each, relations, distinct, policy, steps) for each in parts.values)

    def describe(text: str) -> tuple[tuple[str, str], ...]:
        """Return the names and types of a query's columns; check those of the values that releases read."""
        found, *of_values = database.describe_each_over(types, (text, *(value.sql for value in values)))
        for placed, columns in zip(parts.values, of_values, strict=True):
            if len(columns) != 1 or not placed.has_type(columns[0][1]):
                raise below(query.source, placed.at)
        made = [
            each for sql in (text, *(v.sql for v in values)) for each in database.list_conversions(types, sql)
        ]
        if made:
            refuse_failing(query, made, database, plans)
        return found

    known = {relation.name: relation.release for relation in relations}
    decided = tuple(Existence(known[name], places, windows) for name, places, windows in parts.existence)
    places = {
        (fold(r.name), fold(c)): (r.release, i) for r in relations for i, (c, _) in enumerate(r.columns)
    }
    plain = PreparedComposed(text, query, tuple(distinct), tuple(relations), sql, sql, (), (), (), (*values,))
    plain = replace(plain, existence=decided, divisors=tuple(places[each] for each in divisors), notes=notes)

    def bind(names: tuple[str, ...]) -> tuple[PreparedComposed, bool]:
        """Return the statement with columns of these names, and whether it was bound with them."""
        shown, why = _with_bars(replace(plain, columns=names), outer, database)
        for made in (shown, replace(shown, traced=shown.barred, derived=())):
            with suppress(UnboundQuery):
                found = describe(made.traced)
                if tuple(name for name, _ in found if not name.startswith(HIDDEN)) == names:
                    untold = say_untold(made, found, why)
                    detailed = with_details(query, parts.details, keep_numeric(made, found), why)
                    return replace(detailed, notes=(*detailed.notes, *untold)), True
        return with_details(query, parts.details, replace(plain, columns=names), why), False

    written = list_titles(outer)
    made, bound = bind(written) if written else (plain, False)
    if not bound:  # the engine says what names the columns have, or why there are none
        try:
            columns = describe(sql)
        except UnboundQuery as problem:
            raise refuse_unbound(query, problem) from None
        made, _ = bind(tuple(name for name, _ in columns))
    return _note_intervals(made)


def _put_least(outer: exp.Query, planned: Mapping[str, PreparedPrivate]) -> tuple[str, ...]:
    """Put the least numbers of speakers into the outer query's lists; return what the answer says of them."""
    said = list[str]()
    for select in find_nodes(outer, exp.Select):
        first = select.args.get("from_")
        named = [] if first is None else [fold(table.name) for table in find_nodes(first, exp.Table)]
        of = planned.get(named[0]) if len(named) == 1 else None
        where = select.args.get("where")
        if of is not None and where is not None:
            said.append(put_least(where, of.plan, of.method.quote.scale))
    return tuple(dict.fromkeys(text for text in said if text))


def _write_value(
    query: Query,
    placed: PlacedValue,
    relations: Sequence[OuterRelation],
    parts: Sequence[PreparedPrivate],
    policy: Policy,
    steps: ColumnSteps,
) -> ReleasedValue:
    """Return a value that releases read, with its SQL, which is not yet bound."""
    made, database = copy_tree(placed.query), parts[0].counting.engines.schema_database
    used = {fold(table.name) for table in find_nodes(made, exp.Table)}
    of = next((parts[r.release] for r in relations if fold(r.name) in used), parts[0])
    note = put_least(made, of.plan, of.method.quote.scale)
    compare_half_way(made, steps)
    put_domains(made, query.source, policy, database)
    named = {fold(table.name) for table in find_nodes(made, exp.Table)}
    read = frozenset(r.release for r in relations if fold(r.name) in named)
    return ReleasedValue(write_engine_sql(made), read, placed.type, placed.listed, note)


def _with_bars(
    plain: PreparedComposed, outer: exp.Query, database: SchemaDatabase
) -> tuple[PreparedComposed, dict[int, str]]:
    """Return the statement with the error bars of its columns, and the hidden columns that they need.

    Beside it stands why columns have none, by their places.
    """
    released = {fold(relation.name): relation for relation in plain.relations}

    def columns(name: str) -> tuple[str, ...] | None:
        relation = released.get(fold(name))
        if relation is not None:
            return tuple(column for column, _ in relation.columns)
        return database.public_columns(name)

    traced, names = trace(outer, columns), plain.columns
    if any(fold(name).startswith(HIDDEN) for name in names):
        return plain, {}
    known = [] if traced is None else [name for name, _ in traced.columns]
    if len(known) != len(names) or any(a and fold(a) != fold(b) for a, b in zip(known, names, strict=True)):
        return follow_derived(plain, copy_tree(outer), columns)
    assert traced is not None  # noqa: S101  it has these columns
    keys: list[int] = []
    shown: dict[int, tuple[OuterRelation, Output, int]] = {}
    for place in range(len(names)):
        relation_name, column = traced.origin(place) or ("", "")
        relation = released.get(fold(relation_name))
        if relation is None:
            continue
        # Of equal releases one is made, and its columns may have other names.
        index = next(i for i, (title, _) in enumerate(relation.columns) if fold(title) == fold(column))
        output = plain.parts[relation.release].plan.outputs[index]
        if output.kind == "key":
            keys.append(place)
        elif output.kind in ("count", *DETAILS):
            shown[place] = relation, output, index
    bars = tuple(
        _bar(plain, names, place, shown, traced) for place, (_, o, _) in shown.items() if o.kind == "count"
    )
    barred = write_engine_sql(copy_tree(traced.select))
    plain = replace(plain, traced=barred, barred=barred, keys=tuple(keys), bars=bars)
    return follow_derived(plain, traced.select, columns)


def _bar(
    plain: PreparedComposed,
    names: Sequence[str],
    place: int,
    shown: Mapping[int, tuple[OuterRelation, Output, int]],
    traced: Traced,
) -> ErrorBar:
    """Return the error bar of the measure at a place; `shown` has all columns of measures and of details."""
    relation, output, index = shown[place]
    outputs = plain.parts[relation.release].plan.outputs
    number = sum(o.kind == "count" for o in outputs[:index])
    row, base = traced.row(place), make_distinct(names)[place]

    def own(kind: str) -> int | None:
        for other, (of, detail, _) in shown.items():
            same = (detail.of, detail.uses, detail.formula) == (output.of, output.uses, output.formula)
            titled = detail.kind == kind and names[other] == f"{base}_{kind}"
            if titled and same and of is relation and traced.row(other) == row:
                return other
        return None

    stddev, low, high = map(own, DETAILS)
    return ErrorBar(place, relation.release, number, row, (stddev, low, high))


def value_over(prepared: PreparedComposed, place: int, releases: Mapping[int, Release]) -> Known:
    """Compute a value that a release reads from the earlier releases that determine it.

    The values of a list are sorted, and have no NULL. No row is a value of NULL.
    """
    value, database = prepared.values[place], prepared.engines.schema_database
    used = [relation for relation in prepared.relations if relation.release in value.releases]
    types = {relation.name: relation.columns for relation in used}
    read = with_groups(prepared, releases)
    rows = {relation.name: read[relation.release].rows for relation in used}
    convert: Callable[[Any], Any] = {DOUBLE: float, BIGINT: int}.get(value.type, lambda found: found)
    found = [each for each in database.over(types, rows, value.sql).column(0).to_pylist() if each is not None]
    if value.listed:
        return tuple(sorted({convert(each) for each in found}))
    return convert(found[0]) if found else None


def run_composed(prepared: PreparedComposed, releases: tuple[Release, ...]) -> Release:
    """Run the outer query over the releases of a statement; return the statement's own release."""
    releases = tuple(
        (hold_at_once(one, ends_of(part.plan.outputs, places_of(one))) if part.plan.wide else one)
        for part, one in zip(prepared.parts, releases, strict=True)
    )
    types = {relation.name: relation.columns for relation in prepared.relations}
    read = with_groups(prepared, dict(enumerate(releases)))
    released = {relation.name: read[relation.release].rows for relation in prepared.relations}
    named = [(relation.name, relation.release) for relation in prepared.relations]
    others = (
        {name: rows[place] for name, place in named}
        for rows in (other_groups(prepared, dict(enumerate(releases))) if prepared.whole else ())
    )
    found, errors = run_with_errors(prepared, [*read.values()], types, released, others)
    rows = found.select([i for i, name in enumerate(found.column_names) if not name.startswith(HIDDEN)])
    table, places = _add_details(prepared, [*read.values()], found, rows, errors)
    rows, table = fill_details(prepared, [*read.values()], found, (rows, table, places), errors)
    own = {
        "rows": rows,
        "table": table,
        "places": places,
        "keys": tuple(prepared.columns[place] for place in prepared.keys),
        "counts": tuple(prepared.columns[each.place] for each in numbers_of(prepared)),
        "statement": prepared.text,
        "together": None,
        "noises": None,
        "parts": _say_which(prepared, releases, errors),
    }
    together = _join_facts(prepared, releases)
    notes = dict.fromkeys(value.note for value in prepared.values if value.note)
    own["warnings"] = (
        *notes,
        *prepared.notes,
        *together.warnings,
        *describe_existence(prepared, releases),
        *errors.notes,
    )
    return replace(together, **own)


def layout_of(
    prepared: PreparedComposed, free: Mapping[str, int | None] | None = None
) -> tuple[list[str], Places]:
    """Return the names of the columns of a statement's own release, and their places.

    `free` has what stands beside all numbers of a row, each with the place of a column that shows it.
    """
    return lay_out(
        prepared.columns, prepared.keys, [(n.place, n.own) for n in numbers_of(prepared)], free or {}
    )


def _as_selected(part: PreparedPrivate) -> PreparedPrivate:
    """Return a release of which noise decides what is shown: its widest interval is another one."""
    plan = replace(part.plan, selected=True)
    return replace(part, counting=replace(part.counting, plan=plan), method=choose(plan))


def _note_intervals(prepared: PreparedComposed) -> PreparedComposed:
    """Return a statement whose releases say what noise does to the intervals that are shown, if any are."""
    barred, parts = {bar.release for bar in prepared.bars}, list[PreparedPrivate]()
    barred |= {release for release, _ in prepared.numbers if prepared.derived and prepared.chosen}
    for place, part in enumerate(prepared.parts):
        plan, asked = part.plan, part.plan.options.intervals
        shows = place in barred or any(output.kind in ("low", "high") for output in plan.outputs)
        text = ""
        if shows and plan.selected and asked != "SIMULTANEOUS":
            text = COVERS_LESS if asked == "SINGLE" else _all_at_once(plan)
        parts.append(replace(part, of_intervals=text))
    return replace(prepared, parts=tuple(parts))


def _all_at_once(plan: Plan) -> str:
    of = "all numbers that it may show"
    if plan.candidates is not None and isinstance(plan.selection, AllGroups):
        of = f"the numbers of all {plan.candidates:,} groups"
    return f"released numbers decide what is shown, so intervals hold for {of} at once"


def _add_details(
    prepared: PreparedComposed, releases: Sequence[Release], found: pa.Table, rows: pa.Table, errors: Errors
) -> tuple[pa.Table, Places]:
    """Add standard deviation and interval of each column that shows a measure, or is computed of them.

    If the rows are those of one release, in its order, its other details (gap, p-value) are theirs too.
    """
    within = {bar.row: found.column(bar.row).to_numpy().astype(np.float64) for bar in prepared.bars}
    first = releases[0]
    same = len(releases) == 1 and any(
        np.array_equal(numbers, np.arange(first.table.num_rows)) for numbers in within.values()
    )
    free = {kind: place for kind in FREE if same and (place := getattr(places_of(first), kind)) is not None}

    def own(kind: str) -> int | None:
        titled = (i for i, name in enumerate(rows.column_names) if name == kind)
        return next((i for i in titled if rows.column(i).equals(first.table.column(free[kind]))), None)

    names, places = layout_of(prepared, {kind: own(kind) for kind in free})
    columns = dict(enumerate(rows.columns))
    for kind, place in free.items():
        columns.setdefault(getattr(places, kind), first.table.column(place))
    for bar, number in zip(numbers_of(prepared), places.numbers, strict=True):
        if isinstance(bar, DerivedColumn):
            made = zip(number.details, errors.of[bar.place], strict=True)
            columns |= {to: to_doubles(values) for to, values in made if to is not None}
            continue
        release, numbers = releases[bar.release], within[bar.row]
        there = ~np.isnan(numbers)
        for to, place in zip(number.details, places_of(release).numbers[bar.number].details, strict=True):
            if to in columns or to is None:
                continue
            values = np.full(len(numbers), np.nan)
            if place is not None:
                known = release.table.column(place).to_numpy()
                values[there] = known[numbers[there].astype(np.int64)]
            columns[to] = to_doubles(values)
    ordering = places_of(first).ordering if len(releases) == 1 else None
    every = enumerate(numbers_of(prepared))
    ordered = (i for i, bar in every if isinstance(bar, ErrorBar) and bar.number == ordering)
    places = replace(places, ordering=next(ordered, None))
    return pa.table([columns[place] for place in range(len(names))], names=names), places


def _say_which(
    prepared: PreparedComposed, releases: tuple[Release, ...], errors: Errors
) -> tuple[Release, ...]:
    """Return releases that say what is left out of which columns, where several leave out something."""
    read = {**errors.read, **{bar.place: {bar.release} for bar in prepared.bars}}
    shown = [
        [prepared.columns[column] for column in sorted(read) if place in read[column]]
        for place in range(len(releases))
    ]
    constant = {relation.release for relation in prepared.relations if relation.constant}
    own = [{} if place in constant else release.properties for place, release in enumerate(releases)]
    said = say_of_columns(own, shown)
    return tuple(replace(one, properties=each) for one, each in zip(releases, said, strict=True))


def _join_facts(prepared: PreparedComposed, releases: tuple[Release, ...]) -> Release:
    """Return one release of a composed statement that has the facts of several."""
    first = releases[0]
    if len(releases) == 1:
        place = places_of(first).ordering
        ordering = [prepared.columns[bar.place] for bar in prepared.bars if bar.number == place]
        kept = {name: text for name, text in first.properties.items() if name != "ordering"}
        return replace(first, properties={**({"ordering": ordering[0]} if ordering else {}), **kept})
    new = [release for release in releases if release.reused is None]
    receipts = {release.receipt for release in new or releases}
    added = {text: None for r in releases if (text := r.properties.get(COMPUTED))}
    computed = "; ".join(added) if all(COMPUTED in r.properties for r in releases) else ""
    said = [r.properties[RENEWED] for r in new or releases if RENEWED in r.properties]
    renewed = said[-1] if said else ""
    return replace(
        first,
        selection=f"{len(releases)} releases",
        mechanism=", ".join(dict.fromkeys(release.mechanism for release in releases)),
        guarantee=add_renewals(total_guarantee(prepared), renewed),
        charge=sum((release.charge for release in new or releases), Charge()),
        scale=0.0,
        confidence=min(release.confidence for release in releases),
        warnings=(
            *dict.fromkeys(text for release in releases for text in release.warnings),
            *(() if computed else added),
        ),
        assumed=tuple(dict.fromkeys(each for release in releases for each in release.assumed)),
        number=None,
        receipt=receipts.pop() if len(receipts) == 1 else "",
        reused=None if new else max(release.reused for release in releases if release.reused),
        charged_again=next((release.charged_again for release in releases if release.charged_again), ""),
        outside=None,
        properties={
            "unit": ", ".join(dict.fromkeys(r.properties.get("unit", "") for r in releases)),
            **({COMPUTED: computed} if computed else {}),
            **({RENEWED: renewed} if renewed else {}),
        },
    )
