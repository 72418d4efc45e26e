"""Compile one counting query that several statements can be answered from."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.analysis.catalog import Catalog
from dpsql.analysis.compiled_query import CompiledQuery, seal
from dpsql.kernel.tree import duckdb_sql
from dpsql.policy import Policy

_MOST_NUMBERS = 64
"""How many numbers one query counts at most."""


def alike(one: CompiledQuery, other: CompiledQuery) -> bool:
    """Whether two queries count the same groups of the same rows in a like way.

    One query for both then takes little more time than the slower one.
    """
    if one.groups is None or other.groups is None or one.tables != other.tables:
        return False
    return one.groups.way == other.groups.way and one.groups.shape == other.groups.shape


def widened(
    compiled: CompiledQuery, others: Sequence[CompiledQuery], policy: Policy, catalog: Catalog
) -> CompiledQuery:
    """Return a counting query that has the counts of a query, and of those of others that are `alike`.

    It also has the places of its keys in their domains, and more of the largest groups, for statements that
    select other groups. The engine's binder confirms it as it does every query.
    """
    if compiled.groups is None:
        return compiled
    chosen = [o.groups for o in others if o is not compiled and o.groups is not None and alike(compiled, o)]
    groups = compiled.groups.shared(chosen)
    if len(groups.numbers) > _MOST_NUMBERS:
        groups = compiled.groups.shared(())
    counting = groups.counting(())
    if duckdb_sql(counting.query) == compiled.sql:
        return compiled
    return seal(
        counting.query,
        catalog,
        policy,
        compiled.tables,
        len(groups.numbers),
        keys=compiled.keys,
        order=counting.order,
        groups=groups,
    )
