"""What the owner's page shows: the policy as it is understood, the users, and where the budget went.

The budget is shown by time, analyst, table and mechanism, beside what failed and who is locked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from dpsql.errors import Error
from dpsql.language import Query, parse, tables_in
from dpsql.ledger import Limits
from dpsql.policy import UnitColumn, UnitRow, UnitVia, describe_protected
from dpsql.render.figures import show_spent
from dpsql.serve.json_facts import Facts, bounds_facts, budget_facts, domain_facts

if TYPE_CHECKING:
    from datetime import date

    from dpsql.engines.schema_database import SchemaDatabase
    from dpsql.ledger import Entry, Ledger
    from dpsql.policy import Policy, Table
    from dpsql.serve.accounts import Users

MOST_ENTRIES = 500
"""Entries that are listed; `dpsql budget --json` has all."""
_POINTS = 200
"""Points of the curve over time."""
_UNREAD = "(not read)"


def ledger_facts(ledger: Ledger, policy: Policy, analysts: Iterable[str]) -> Facts:
    """Return what the ledger holds; `analysts` are those who may ask, others are history."""
    entries = ledger.entries()
    asked = {entry.analyst for entry in entries}
    return {
        "budget": {**budget_facts(ledger.budget()), "accounting": policy.budget.accounting},
        "over_time": _over_time(entries),
        "by": {
            "analyst": _shares(entries, lambda entry: entry.analyst),
            "table": _shares(entries, lambda entry: tables_of(entry.statement, policy)),
            "mechanism": _shares(entries, lambda entry: entry.mechanism),
        },
        "entries": [_entry(entry, policy) for entry in entries[:MOST_ENTRIES]],
        "entries_in_all": len(entries),
        "analysts": _standings(ledger, policy, sorted({*analysts, *asked})),
    }


def tables_of(statement: str, policy: Policy) -> str:
    """Return the private tables that a statement names, with commas between them."""
    return _tables_of(
        statement, tuple(policy.tables[name].name for name in policy.tables if not policy.tables[name].public)
    )


@lru_cache(maxsize=4096)
def _tables_of(statement: str, private: tuple[str, ...]) -> str:
    with suppress(Error, RecursionError):
        read = parse(statement)
        if isinstance(read, Query):
            named = {node.name.lower() for node in tables_in(read.tree)}
            found = [name for name in private if name.lower() in named]
            return ", ".join(found) or "(a view)"
    return _UNREAD  # it has parameters, or refines a release


def _shares(entries: Sequence[Entry], name_of: Callable[[Entry], str]) -> list[Facts]:
    spent: dict[str, Fraction] = defaultdict(Fraction)
    asked: Counter[str] = Counter()
    for entry in entries:
        name = name_of(entry)
        asked[name] += 1
        spent[name] += entry.charged.epsilon or 0
    names = sorted(spent, key=lambda name: (-spent[name], name))
    return [
        {"name": name, "statements": asked[name], "epsilon": float(show_spent(spent[name]))} for name in names
    ]


def _over_time(entries: Sequence[Entry]) -> list[Facts]:
    """Return what was spent in all up to each of some moments, the oldest first."""
    points, spent = [], Fraction(0)
    for entry in reversed(entries):
        spent += entry.charged.epsilon or 0
        points.append({"when": entry.when.isoformat(), "epsilon": float(show_spent(spent))})
    step = -(-len(points) // _POINTS) or 1
    return [*points[:-1:step], *points[-1:]]


def _entry(entry: Entry, policy: Policy) -> Facts:
    return {
        "entry": entry.entry,
        "when": entry.when.isoformat(" ", "seconds"),
        "analyst": entry.analyst,
        "epsilon": None if entry.charged.epsilon is None else float(show_spent(entry.charged.epsilon)),
        "delta": float(show_spent(entry.charged.delta)),
        "mechanism": entry.mechanism,
        "tables": tables_of(entry.statement, policy),
        "state": entry.state,
        "release": entry.release,
        "statement": entry.statement,
    }


def _standings(ledger: Ledger, policy: Policy, analysts: Sequence[str]) -> list[Facts]:
    """Return what each analyst has left, and whether failed or cancelled statements lock him."""
    budget = policy.budget
    limits = Limits.of(
        budget.max_failures, budget.max_failures_total, budget.max_cancelled, budget.max_cancelled_total
    )
    found = []
    for analyst in analysts:
        failed, cancelled = ledger.failures(analyst), ledger.cancelled(analyst)
        left: Facts = {}
        with suppress(Error):  # the policy does not list him any more
            left = budget_facts(ledger.budget(analyst))
        found.append(
            {
                "analyst": analyst,
                **left,
                "failed": failed,
                "max_failures": limits.failures,
                "cancelled": cancelled,
                "max_cancelled": limits.cancelled,
                "locked": failed >= limits.failures or cancelled >= limits.cancelled,
            }
        )
    everybody = sum(each["failed"] for each in found) >= limits.failures_total
    everybody = everybody or sum(each["cancelled"] for each in found) >= limits.cancelled_total
    return [{**each, "locked": True} for each in found] if everybody else found


# -- policy and users


def policy_facts(policy: Policy, catalog: SchemaDatabase) -> Facts:
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


def _table(policy: Policy, table: Table, catalog: SchemaDatabase) -> Facts:
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
                f"protects {describe_protected(policy.tables, table)}"
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
