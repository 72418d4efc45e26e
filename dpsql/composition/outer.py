"""Bind and run the outer query of a statement: SQL over released rows and public tables, without charge."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa
from sqlglot import exp

from dpsql.analysis import Plan, engine_sql, put_domains
from dpsql.answers import COVERS_LESS, choose, doubles
from dpsql.composition.error_bars import HIDDEN, trace
from dpsql.composition.kinds import below
from dpsql.composition.parts import Parts
from dpsql.engines import UnboundQuery
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.errors import InternalError
from dpsql.info import total_guarantee
from dpsql.language import AllGroups, Query, all_of, copied
from dpsql.policy import Policy, fold
from dpsql.prepared import ErrorBar, PreparedComposed, PreparedPrivate, Relation, ReleasedValue
from dpsql.privacy import Charge
from dpsql.release import Release, ends_of, held_together
from dpsql.types import BIGINT, DOUBLE, SqlType


def compose(
    text: str, query: Query, parts: Parts, planned: Sequence[PreparedPrivate], policy: Policy
) -> PreparedPrivate | PreparedComposed:
    """Return the prepared statement of its planned releases; refuse an outer query that does not bind.

    Releases with equal keys ask the same question: they are one release, which is charged and run once.
    """
    planned = [
        replace(one, note=part.note, values=part.values)
        for part, one in zip(parts.releases, planned, strict=True)
    ]
    if parts.outer is None:
        return planned[0]
    distinct: list[PreparedPrivate] = []
    relations: list[Relation] = []
    database = planned[0].counting.engines.schema_database
    for part, one in zip(parts.releases, planned, strict=True):
        place = next((i for i, other in enumerate(distinct) if other.key == one.key), len(distinct))
        if place == len(distinct):
            distinct.append(one)
        elif one.plan.selected:  # it is one release, with one interval of each number
            distinct[place] = _as_selected(distinct[place])
        relations.append(Relation(part.name, place, columns_of(one.plan)))
    types = {relation.name: relation.columns for relation in relations}
    outer = copied(parts.outer)
    put_domains(outer, query.source, policy, database)
    sql = engine_sql(copied(outer))
    with _binding(query):
        names = database.bind_over(types, sql)
    values = tuple(_value(query, tree, at, relations, policy, database) for tree, at in parts.values)
    plain = PreparedComposed(text, query, tuple(distinct), tuple(relations), sql, sql, names, (), (), values)
    shown = _with_bars(plain, outer, database)
    try:
        found = database.bind_over(types, shown.traced)
    except UnboundQuery:
        return _told(plain)
    return _told(shown if tuple(name for name in found if not name.startswith(HIDDEN)) == names else plain)


@contextmanager
def _binding(query: Query) -> Iterator[None]:
    """Refuse a statement whose outer SQL does not bind in this block."""
    try:
        yield
    except UnboundQuery as problem:
        what, name = problem.missing
        named = re.search(r'"([^"]+)"', problem.message)
        name = name or (named[1] if named else "")
        at = query.source.text.rfind(name) if name else -1
        raise query.source.refuse(problem.message, None if at < 0 else at, unknown=what) from None


def _value(
    query: Query,
    tree: exp.Query,
    at: exp.Expr,
    relations: Sequence[Relation],
    policy: Policy,
    database: SchemaDatabase,
) -> ReleasedValue:
    """Return a value that releases read; refuse one that is no number."""
    made = copied(tree)
    put_domains(made, query.source, policy, database)
    named = {fold(table.name) for table in all_of(made, exp.Table)}
    sql = engine_sql(made)
    with _binding(query):
        columns = database.described({relation.name: relation.columns for relation in relations}, sql)
    if len(columns) != 1 or not re.fullmatch(
        r"DOUBLE|FLOAT|U?(TINY|SMALL|BIG)?INT(EGER)?|DECIMAL.*", columns[0][1]
    ):
        raise below(query.source, at)
    return ReleasedValue(sql, frozenset(r.release for r in relations if fold(r.name) in named))


def columns_of(plan: Plan) -> tuple[tuple[str, SqlType], ...]:
    """Return names and types of the columns that a release has: keys as in the data, measures DOUBLE."""
    columns = []
    for output in plan.outputs:
        kind = BIGINT if output.kind == "rank" else DOUBLE
        kind = output.quantile.type if output.quantile is not None else kind
        columns.append((output.name, plan.key_types[output.of] if output.kind == "key" else kind))
    if len({fold(name) for name, _ in columns}) < len(columns):
        raise InternalError("two columns of a release have one name")
    return tuple(columns)


def _with_bars(plain: PreparedComposed, outer: exp.Query, database: SchemaDatabase) -> PreparedComposed:
    """Return the statement with the error bars of its columns, and the hidden columns that they need."""
    released = {fold(relation.name): relation for relation in plain.relations}

    def columns(name: str) -> tuple[str, ...] | None:
        relation = released.get(fold(name))
        if relation is not None:
            return tuple(column for column, _ in relation.columns)
        return database.public_columns(name)

    traced, names = trace(outer, columns), plain.columns
    if traced is None or any(fold(name).startswith(HIDDEN) for name in names):
        return plain
    known = [name for name, _ in traced.columns]
    if len(known) != len(names) or any(a and fold(a) != fold(b) for a, b in zip(known, names, strict=True)):
        return plain
    keys, bars = [], []
    for place, name in enumerate(names):
        relation_name, column = traced.origin(place) or ("", "")
        relation = released.get(fold(relation_name))
        if relation is None or names.count(name) > 1:
            continue
        # Of equal releases one is made, and its columns may have other names.
        index = next(i for i, (title, _) in enumerate(relation.columns) if fold(title) == fold(column))
        output = plain.parts[relation.release].plan.outputs[index]
        if output.kind == "key":
            keys.append(place)
        elif output.kind == "count" and not {f"{name}_{kind}" for kind in _DETAILS} & {*names}:
            bars.append(ErrorBar(place, relation.release, output.name, traced.row(place)))
    return replace(plain, traced=engine_sql(traced.select), keys=tuple(keys), bars=tuple(bars))


def value_over(prepared: PreparedComposed, place: int, releases: Mapping[int, Release]) -> float | None:
    """Return a value that a release reads, from the releases that it is computed from, by their places."""
    value, database = prepared.values[place], prepared.engines.schema_database
    used = [relation for relation in prepared.relations if relation.release in value.releases]
    types = {relation.name: relation.columns for relation in used}
    rows = {relation.name: releases[relation.release].rows for relation in used}
    (found,) = database.over(types, rows, value.sql).column(0).to_pylist()
    return None if found is None else float(found)


def composed(prepared: PreparedComposed, releases: tuple[Release, ...]) -> Release:
    """Run the outer query over the releases of a statement; return the statement's own release."""
    database = prepared.engines.schema_database
    releases = tuple(_shown(part, one) for part, one in zip(prepared.parts, releases, strict=True))
    types = {relation.name: relation.columns for relation in prepared.relations}
    released = {relation.name: releases[relation.release].rows for relation in prepared.relations}
    found = database.over(types, released, prepared.traced)
    rows = found.select([i for i, name in enumerate(found.column_names) if not name.startswith(HIDDEN)])
    own = {
        "rows": rows,
        "table": _detailed(prepared, releases, found, rows),
        "keys": tuple(prepared.columns[place] for place in prepared.keys),
        "counts": tuple(prepared.columns[bar.place] for bar in prepared.bars),
        "statement": prepared.text,
        "together": None,
        "parts": releases,
    }
    return replace(_together(prepared, releases), **own)


def _shown(part: PreparedPrivate, release: Release) -> Release:
    """Return a release with the intervals that a statement shows, which may be those of all at once."""
    return held_together(release, ends_of(part.plan.outputs)) if part.plan.wide else release


def _as_selected(part: PreparedPrivate) -> PreparedPrivate:
    """Return a release of which noise decides what is shown: its widest interval is another one."""
    plan = replace(part.plan, selected=True)
    return replace(part, counting=replace(part.counting, plan=plan), method=choose(plan))


def _told(prepared: PreparedComposed) -> PreparedComposed:
    """Return a statement whose releases say what noise does to the intervals that are shown, if any are."""
    barred, parts = {bar.release for bar in prepared.bars}, list[PreparedPrivate]()
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
    if plan.domain_size is not None and isinstance(plan.selection, AllGroups):
        of = f"the numbers of all {plan.groups:,} groups"
    return f"released numbers decide what is shown, so intervals hold for {of} at once"


def _detailed(
    prepared: PreparedComposed, releases: Sequence[Release], found: pa.Table, rows: pa.Table
) -> pa.Table:
    """Add standard deviation and interval of each column that shows a measure.

    If the rows are those of one release, in its order, its other details (gap, p-value) are theirs too.
    """
    table, same = rows, False
    for bar in prepared.bars:
        numbers = found.column(bar.row).to_numpy().astype(np.float64)
        details = releases[bar.release].table
        same |= len(releases) == 1 and np.array_equal(numbers, np.arange(details.num_rows))
        there = ~np.isnan(numbers)
        for kind in _DETAILS:
            values = np.full(len(numbers), np.nan)
            values[there] = details.column(f"{bar.measure}_{kind}").to_numpy()[
                numbers[there].astype(np.int64)
            ]
            table = table.append_column(f"{prepared.columns[bar.place]}_{kind}", doubles(values))
    for name in ("gap", "p_value") if same else ():
        release = releases[0]
        if name in release.table.column_names[release.rows.num_columns :] and name not in table.column_names:
            table = table.append_column(name, release.table.column(name))
    return table


_DETAILS = ("stddev", "low", "high")
"""The details of a measure `n`, in the columns `n_stddev`, `n_low` and `n_high`."""


def _together(prepared: PreparedComposed, releases: tuple[Release, ...]) -> Release:
    """Return one release with the facts of several."""
    first = releases[0]
    if len(releases) == 1:
        ordering = [
            prepared.columns[bar.place]
            for bar in prepared.bars
            if bar.measure == first.properties.get("ordering")
        ]
        kept = {name: text for name, text in first.properties.items() if name != "ordering"}
        return replace(first, properties={**({"ordering": ordering[0]} if ordering else {}), **kept})
    new = [release for release in releases if release.reused is None]
    receipts = {release.receipt for release in new or releases}
    return replace(
        first,
        selection=f"{len(releases)} releases",
        mechanism=", ".join(dict.fromkeys(release.mechanism for release in releases)),
        guarantee=total_guarantee(prepared),
        charge=sum((release.charge for release in new or releases), Charge()),
        scale=0.0,
        confidence=min(release.confidence for release in releases),
        warnings=tuple(dict.fromkeys(text for release in releases for text in release.warnings)),
        assumed=tuple(dict.fromkeys(each for release in releases for each in release.assumed)),
        number=None,
        receipt=receipts.pop() if len(receipts) == 1 else "",
        reused=None if new else max(release.reused for release in releases if release.reused),
        charged_again=next((release.charged_again for release in releases if release.charged_again), ""),
        properties={"unit": ", ".join(dict.fromkeys(r.properties.get("unit", "") for r in releases))},
    )
