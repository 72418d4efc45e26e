"""What a policy tells analysts, as plain data: tables, columns, units, domains, bounds, limits.

Left out is what concerns the owner alone: where the data and the ledger are, and who else may ask.
"""

from __future__ import annotations

import io
import json
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpsql.errors import Error, QueryRefused
from dpsql.policy import BooleanDomain, RangeDomain, TableDomain, ValuesDomain
from dpsql.policy.paths import FOUND
from dpsql.render.data import write_json
from dpsql.tree import quote

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.policy import Domain, Policy, Table
    from dpsql.serve.backends import Backend

MOST_VALUES = 100
"""The most values of a public domain that are listed."""

_UNITS = {"public": "public: nobody is protected, its rows may be shown", "view": "a view of the policy"}


async def described_tables(backend: Backend) -> list[dict[str, Any]]:
    """Return the declared tables with their columns, and the public values of these."""
    found = []
    for row in _tuples((await backend.free("SHOW TABLES")).table):
        name, unit, *more = row
        try:
            columns = _tuples((await backend.free(f"DESCRIBE {quote(name)}")).table)
        except QueryRefused:  # a view that cannot be read
            continue
        described = []
        for column, kind, domain in columns:
            facts: dict[str, Any] = {"name": column, "type": kind}
            if domain == "declared":
                facts["values"] = await _values(backend, name, column)
            described.append(facts | bounds_facts(backend.policy, name, column))
        path = more and more[0] and FOUND in more[0]  # an older server says less
        facts = {"protects": more[0]} if path else {}
        found.append({"name": name, "unit": _UNITS.get(unit, unit), **facts, "columns": described})
    return found


async def _values(backend: Backend, table: str, column: str) -> object:
    """Return the public values of a column: a list, the ends of a range, or where they are."""
    policy = backend.policy
    declared = None if policy is None else policy.table(table)
    if declared is not None:
        return domain_facts(declared.domain[column])
    distinct = f"SELECT DISTINCT {quote(column)} FROM {quote(table)} LIMIT {MOST_VALUES + 1}"
    with suppress(Error):  # a server answers it with the declared values, or not at all
        return _listed([row[0] for row in _tuples((await backend.free(distinct)).table)])
    return "declared"


def domain_facts(domain: Domain) -> object:
    """Return the public values of a column: a list, the ends of a range, or where they are."""
    match domain:
        case ValuesDomain():
            return _listed(list(domain.values))
        case RangeDomain():
            return {"from": _plain(domain.start), "to": _plain(domain.stop)}
        case TableDomain():
            return {"from_table": domain.table, "column": domain.column}
        case BooleanDomain():
            return [False, True]
    return "the values of its ENUM type"


def _listed(values: list[Any]) -> object:
    shown = [_plain(value) for value in values[:MOST_VALUES]]
    return shown if len(values) <= MOST_VALUES else {"first": shown, "number_of_values": len(values)}


def bounds_facts(policy: Policy | None, table: str, column: str) -> dict[str, Any]:
    """Return the interval to which a column's values are cut, if there is one."""
    declared: Table | None = None if policy is None else policy.table(table)
    bounds = None if declared is None else declared.bounds.get(column)
    if bounds is None:
        return {}
    return {"values_are_cut_to": {"from": _plain(bounds.low), "to": _plain(bounds.high)}}


async def described_policy(backend: Backend) -> dict[str, Any]:
    """Return the tables, and the limits and defaults that hold for every analyst."""
    found: dict[str, Any] = {"tables": await described_tables(backend)}
    policy = backend.policy
    if policy is None:
        return found
    budget, defaults = policy.budget, policy.defaults
    limits = {
        "max_epsilon_per_query": budget.max_epsilon_per_query,
        "default_epsilon": budget.default_epsilon,
        "default_delta": budget.default_delta,
        "rows_per_unit": defaults.rows_per_unit,
        "groups": defaults.groups,
    }
    found["limits"] = {name: _plain(value) for name, value in limits.items() if value is not None}
    return found


def records(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows as objects of JSON."""
    out = io.BytesIO()
    write_json(table, out)
    found: list[dict[str, Any]] = json.loads(out.getvalue())
    return found


def _tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _plain(value: object) -> object:
    """Return a value that JSON has."""
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)
