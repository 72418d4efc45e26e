"""The policy as it is understood, for the owner: units, columns, domains, bounds, limits, what to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.policy import UnitColumn, UnitRow, UnitVia, protected
from dpsql.serve.json_facts import Facts, bounds_facts, domain_facts

if TYPE_CHECKING:
    from datetime import date

    from dpsql.analysis import Catalog
    from dpsql.policy import Policy, Table
    from dpsql.serve.accounts import Users


def policy_facts(policy: Policy, catalog: Catalog) -> Facts:
    """Return what the policy declares, read as the server reads it."""
    budget = policy.budget
    limits = {
        "accounting": budget.accounting,
        "max_epsilon_per_query": _number(budget.max_epsilon_per_query),
        "default_epsilon": _number(budget.default_epsilon),
        "default_delta": _number(budget.default_delta),
        "rows_per_unit": policy.defaults.rows_per_unit,
        "groups": policy.defaults.groups,
        "share_releases": policy.share_releases,
    }
    return {
        "file": None if policy.path is None else str(policy.path),
        "engine": policy.engine,
        "limits": {name: value for name, value in limits.items() if value is not None},
        "caps": [
            {"analyst": each.name, "epsilon": _number(each.epsilon), "delta": _number(each.delta)}
            for each in policy.analysts.values()
        ],
        "tables": [_table(policy, table, catalog) for table in policy.tables.values()],
        "views": [{"name": view.name, "sql": view.sql} for view in policy.views.values()],
        "warnings": _warnings(policy),
    }


def _table(policy: Policy, table: Table, catalog: Catalog) -> Facts:
    columns = []
    for name, sql_type in catalog.columns(table.name):
        facts: Facts = {"name": name, "type": str(sql_type)}
        if name in table.domain:
            facts["values"] = domain_facts(table.domain[name])
        columns.append(facts | bounds_facts(policy, table.name, name))
    return {
        "name": table.name,
        "public": table.public,
        "unit": _unit(policy, table),
        "kind": None if table.unit is None else table.unit.kind,
        "unique": [", ".join(each) for each in table.unique],
        "trust_source": table.trust_source,
        "columns": columns,
    }


def _unit(policy: Policy, table: Table) -> str:
    match table.unit:
        case UnitColumn(column):
            return f"the rows of one {column} belong together; rows without one are never counted"
        case UnitVia(via, parent, column):
            return (
                f"a row belongs to the unit of the row of {parent} whose {column} is its {via}: "
                f"protects {protected(policy.tables, table)}"
            )
        case UnitRow():
            return "each row is a unit of its own: nothing protects somebody with several rows"
    return "public: nobody is protected"


def _warnings(policy: Policy) -> list[str]:
    found = []
    if not policy.analysts:
        found.append("the policy lists no [analysts]: every user may spend the whole budget")
    if policy.budget.high_water is False:
        found.append("high_water is false: that an older copy of the ledger is in use goes unnoticed")
    for table in policy.tables.values():
        if isinstance(table.unit, UnitRow):
            found.append(f"{table.name}: each row is a unit; is nobody in it with several rows?")
        if table.trust_source and not table.public:
            found.append(f"{table.name}: trust_source is set, so nothing about its rows is verified")
        if not table.public and not table.domain:
            found.append(f"{table.name}: no column has declared values, so every group key costs some delta")
    return found


def users_facts(users: Users, today: date) -> list[Facts]:
    """Return the users, never what verifies a password."""
    return [
        {
            "user": name,
            "analyst": account.user.analyst,
            "state": account.state(today),
            "password": account.password is not None,
            "tokens": [token.id for token in account.live_tokens(today)],
            "expires": None if account.user.expires is None else account.user.expires.isoformat(),
            "auto_charge": account.user.auto_charge,
            "free_below": float(account.user.free_below),
        }
        for name, account in sorted(users.accounts.items())
    ]


def _number(value: object) -> float | None:
    return None if value is None else float(value)  # type: ignore[arg-type]  # a fraction
