"""The columns of the policy's views, which no catalog has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import pyarrow as pa

from dpsql.analysis import (
    analyse,
    complete,
    engine_sql,
    is_private,
    public_sql,
    put_domains,
    quote,
    with_views,
)
from dpsql.analysis.provenance import Provenance
from dpsql.composition.kinds import Kind, Kinds
from dpsql.composition.outer import columns_of
from dpsql.composition.parts import parts_of
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.language import Options, Query, name_columns, parse
from dpsql.policy import Policy, View


def describe_view(view: View, policy: Policy, database: SchemaDatabase, defaults: Options) -> pa.Table:
    """Return the result of DESCRIBE for a view: its columns, their types, and which have public values.

    Nothing is charged: where the view releases something, its columns are those that a release would have.
    """
    query = with_views(parse(f"SELECT * FROM main.{quote(view.name)}"), policy)
    assert isinstance(query, Query)  # noqa: S101  it was written above
    some = replace(defaults, epsilon=defaults.epsilon or Fraction(1))
    found = list(_columns(query, policy, database, some))
    return pa.table(
        {what: [cells[place] for cells in found] for place, what in enumerate(("column", "type", "domain"))}
    )


def _columns(
    query: Query, policy: Policy, database: SchemaDatabase, defaults: Options
) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and domain of each column of a query."""
    if not is_private(query, policy):
        for name, kind in database.described({}, public_sql(query, policy, database)):
            yield name, kind, "public"
        return
    if Kinds.of(query, policy, database).of_select[id(query.tree)] is Kind.OWNED:
        relation = Provenance(query.source, policy, database).compiler().query(query.tree, (), 1)
        for column in relation.columns:
            yield column.name, str(column.type), "declared" if column.domain is not None else ""
        return
    parts = parts_of(query, policy, database, defaults)
    plans = [analyse(p.query, policy, database, complete(p.query.options, defaults)) for p in parts.releases]
    if parts.outer is None:
        for name, released in columns_of(plans[0]):
            yield name, str(released), "released"
        return
    name_columns(parts.outer)
    put_domains(parts.outer, query.source, policy, database)
    types = {p.name: columns_of(plan) for p, plan in zip(parts.releases, plans, strict=True)}
    for name, kind in database.described(types, engine_sql(parts.outer)):
        yield name, kind, "released"
