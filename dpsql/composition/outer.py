"""Bind and run the outer query of a statement: SQL over released rows and public tables, without charge."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from sqlglot import exp

from dpsql.analysis import Catalog, Plan, engine_sql
from dpsql.answers import doubles
from dpsql.composition.error_bars import HIDDEN, trace
from dpsql.composition.parts import Parts
from dpsql.engines import UnboundQuery
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.errors import InternalError
from dpsql.info import total_guarantee
from dpsql.language import Query
from dpsql.policy import fold
from dpsql.prepared import ErrorBar, PreparedComposed, PreparedPrivate, Relation
from dpsql.privacy import Charge
from dpsql.release import Release
from dpsql.types import BIGINT, DOUBLE, SqlType


def compose(
    text: str, query: Query, parts: Parts, planned: Sequence[PreparedPrivate]
) -> PreparedPrivate | PreparedComposed:
    """Return the prepared statement of its planned releases; refuse an outer query that does not bind.

    Releases with equal keys ask the same question: they are one release, which is charged and run once.
    """
    if parts.outer is None:
        return planned[0]
    distinct: list[PreparedPrivate] = []
    relations: list[Relation] = []
    database = planned[0].counting.engines.schema_database
    for part, one in zip(parts.releases, planned, strict=True):
        place = next((i for i, other in enumerate(distinct) if other.key == one.key), len(distinct))
        if place == len(distinct):
            distinct.append(one)
        relations.append(Relation(part.name, place, _columns(one.plan, database)))
    empty = {relation.name: database.typed(relation.columns) for relation in relations}
    sql = engine_sql(parts.outer.copy())
    try:
        names = database.bind_over(empty, sql)
    except UnboundQuery as problem:
        named = re.search(r'"([^"]+)"', problem.message)
        at = query.source.text.rfind(named[1]) if named else -1
        raise query.source.refuse(problem.message, None if at < 0 else at) from None
    traced, bars = _with_bars(parts.outer, relations, distinct, names, database)
    if bars:
        try:
            shown = database.bind_over(empty, traced)
        except UnboundQuery:
            shown = ()
        if [name for name in shown if not name.startswith(HIDDEN)] != list(names):
            traced, bars = sql, ()
    return PreparedComposed(text, query, tuple(distinct), tuple(relations), sql, traced, names, bars)


def _columns(plan: Plan, catalog: Catalog) -> tuple[tuple[str, SqlType], ...]:
    """Return names and types of the columns that a release has: keys as in the data, measures DOUBLE."""
    keys = [f"CAST(NULL AS {kind}) AS k{i}" for i, kind in enumerate(plan.key_types)]
    counts = [f"CAST(NULL AS DOUBLE) AS n{i}" for i in range(len(plan.counts))]
    released = f"(SELECT {', '.join(keys + counts)}) AS r"
    columns = []
    for output in plan.outputs:
        if output.kind == "key":
            kind = plan.key_types[output.of]
        elif output.kind == "derived":
            kind = catalog.type_of(f"(SELECT {output.sql} FROM {released})")
        else:
            kind = BIGINT if output.kind == "rank" else DOUBLE
        columns.append((output.name, kind))
    if len({fold(name) for name, _ in columns}) < len(columns):
        raise InternalError("two columns of a release have one name")
    return tuple(columns)


def _with_bars(
    outer: exp.Query,
    relations: Sequence[Relation],
    parts: Sequence[PreparedPrivate],
    names: Sequence[str],
    database: SchemaDatabase,
) -> tuple[str, tuple[ErrorBar, ...]]:
    """Return the outer query with hidden columns, and the error bars that they give."""
    released = {fold(relation.name): relation for relation in relations}

    def columns(name: str) -> tuple[str, ...] | None:
        relation = released.get(fold(name))
        if relation is not None:
            return tuple(column for column, _ in relation.columns)
        return database.public_columns(name)

    traced = trace(outer, columns)
    if traced is None or any(fold(name).startswith(HIDDEN) for name in names):
        return "", ()
    known = [name for name, _ in traced.columns]
    if len(known) != len(names) or any(a and fold(a) != fold(b) for a, b in zip(known, names, strict=True)):
        return "", ()
    bars = []
    for place, name in enumerate(names):
        relation_name, column = traced.origin(place) or ("", "")
        relation = released.get(fold(relation_name))
        beside = {f"{name}_{kind}" for kind in ("stddev", "low", "high")}
        if relation is None or names.count(name) > 1 or beside & {*names}:
            continue
        outputs = parts[relation.release].plan.outputs
        measure = next((o.name for o in outputs if fold(o.name) == fold(column) and o.kind == "count"), None)
        if measure is not None:
            bars.append(ErrorBar(place, relation.release, measure, traced.row(place)))
    return engine_sql(traced.select), tuple(bars)


def composed(prepared: PreparedComposed, releases: tuple[Release, ...]) -> Release:
    """Run the outer query over the releases of a statement; return the statement's own release."""
    database = prepared.parts[0].counting.engines.schema_database
    tables = {r.name: database.typed(r.columns, releases[r.release].rows) for r in prepared.relations}
    if not prepared.bars:
        rows = database.over(tables, prepared.outer)
        return _release(prepared, releases, rows, rows)
    found = database.over(tables, prepared.traced)
    rows = found.select([i for i, name in enumerate(found.column_names) if not name.startswith(HIDDEN)])
    return _release(prepared, releases, rows, _detailed(prepared, releases, found, rows))


def _detailed(
    prepared: PreparedComposed, releases: Sequence[Release], found: pa.Table, rows: pa.Table
) -> pa.Table:
    """Add standard deviation and interval of each column that shows a measure."""
    table = rows
    for bar in prepared.bars:
        numbers = found.column(bar.row).to_numpy()
        there = ~np.isnan(numbers.astype(np.float64))
        details: Mapping[str, pa.ChunkedArray] = dict(
            zip(releases[bar.release].table.column_names, releases[bar.release].table.columns, strict=True)
        )
        for kind in ("stddev", "low", "high"):
            values = np.full(len(numbers), np.nan)
            detail = details[f"{bar.measure}_{kind}"].to_numpy()
            values[there] = detail[numbers[there].astype(np.int64)]
            table = table.append_column(f"{rows.column_names[bar.place]}_{kind}", doubles(values))
    return table


def _release(
    prepared: PreparedComposed, releases: tuple[Release, ...], rows: pa.Table, table: pa.Table
) -> Release:
    new = [release for release in releases if release.reused is None]
    mechanisms = dict.fromkeys(release.mechanism for release in releases)
    return Release(
        rows=rows,
        table=table,
        keys=(),
        counts=tuple(rows.column_names[bar.place] for bar in prepared.bars),
        selection=releases[0].selection if len(releases) == 1 else f"{len(releases)} releases",
        mechanism=", ".join(mechanisms),
        guarantee=total_guarantee(prepared),
        charge=sum((release.charge for release in new or releases), Charge()),
        scale=0.0,
        statement=prepared.text,
        confidence=min(release.confidence for release in releases),
        warnings=tuple(dict.fromkeys(text for release in releases for text in release.warnings)),
        reused=None if new else max(release.reused for release in releases if release.reused),
        charged_again=next((release.charged_again for release in releases if release.charged_again), ""),
        parts=releases,
        properties={"unit": ", ".join(dict.fromkeys(r.properties.get("unit", "") for r in releases))},
    )
