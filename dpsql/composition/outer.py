"""Bind and run the outer query of a statement: SQL over released rows and public tables, without charge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

import pyarrow as pa

from dpsql.analysis import Catalog, Plan, engine_sql
from dpsql.composition.parts import Parts
from dpsql.engines import UnboundQuery
from dpsql.errors import InternalError
from dpsql.info import total_guarantee
from dpsql.language import Query
from dpsql.policy import Policy
from dpsql.prepared import PreparedComposed, PreparedPrivate, Relation
from dpsql.privacy import Charge
from dpsql.release import Release
from dpsql.types import BIGINT, DOUBLE, SqlType


def compose(
    text: str, query: Query, parts: Parts, planned: Sequence[PreparedPrivate], policy: Policy
) -> PreparedPrivate | PreparedComposed:
    """Return the prepared statement of its planned releases; refuse an outer query that does not bind.

    Releases with equal keys ask the same question: they are one release, which is charged and run once.
    """
    if parts.outer is None:
        return planned[0]
    distinct: list[PreparedPrivate] = []
    relations: list[Relation] = []
    for part, one in zip(parts.releases, planned, strict=True):
        place = next((i for i, other in enumerate(distinct) if other.key == one.key), len(distinct))
        if place == len(distinct):
            distinct.append(one)
        catalog = one.counting.engines.schema_database
        relations.append(Relation(part.name, place, _columns(one.plan, catalog)))
    database = distinct[0].counting.engines.schema_database
    sql = engine_sql(parts.outer.copy(), query.source, policy, database)
    try:
        database.bind_over({r.name: database.typed(r.columns) for r in relations}, sql)
    except UnboundQuery as problem:
        named = re.search(r'"([^"]+)"', problem.message)
        at = query.source.text.rfind(named[1]) if named else -1
        raise query.source.refuse(problem.message, None if at < 0 else at) from None
    return PreparedComposed(text, query, tuple(distinct), tuple(relations), sql)


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
    if len({name.lower() for name, _ in columns}) < len(columns):
        raise InternalError("two columns of a release have one name")
    return tuple(columns)


def composed(prepared: PreparedComposed, releases: tuple[Release, ...]) -> Release:
    """Run the outer query over the releases of a statement; return the statement's own release."""
    database = prepared.parts[0].counting.engines.schema_database
    tables = {r.name: database.typed(r.columns, releases[r.release].rows) for r in prepared.relations}
    rows = database.over(tables, prepared.outer)
    return _release(prepared, releases, rows)


def _release(prepared: PreparedComposed, releases: tuple[Release, ...], rows: pa.Table) -> Release:
    new = [release for release in releases if release.reused is None]
    mechanisms = dict.fromkeys(release.mechanism for release in releases)
    return Release(
        rows=rows,
        table=rows,
        keys=(),
        counts=(),
        selection=releases[0].selection if len(releases) == 1 else f"{len(releases)} releases",
        mechanism=", ".join(mechanisms),
        guarantee=total_guarantee(prepared),
        charge=sum((release.charge for release in new or releases), Charge()),
        scale=0.0,
        statement=prepared.text,
        confidence=min((release.confidence for release in releases), default=Fraction(95, 100)),
        warnings=tuple(dict.fromkeys(text for release in releases for text in release.warnings)),
        reused=None if new else max(release.reused for release in releases if release.reused),
        charged_again=next((release.charged_again for release in releases if release.charged_again), ""),
        parts=releases,
        properties={"unit": ", ".join(dict.fromkeys(r.properties.get("unit", "") for r in releases))},
    )
