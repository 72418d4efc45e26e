"""Results of SHOW and DESCRIBE, which cost nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dpsql.analysis import Catalog
from dpsql.composition.release_words import add_exact_facts, round_down, round_up
from dpsql.language import (
    Describe,
    Show,
)
from dpsql.ledger import Budget, Ledger, rows_of
from dpsql.policy import Policy, Table, UnitColumn, describe_protected, fold, path_of


def empty_table() -> pa.Table:
    """Return a result without columns."""
    return pa.table({})


def show_facts(statement: Show, policy: Policy, ledger: Ledger, analyst: str) -> pa.Table:
    """Return the result of SHOW."""
    if statement.what == "budget":
        budget = ledger.budget(analyst)
        most = policy.budget.max_epsilon_per_query
        cap = {"max_epsilon_per_query": None if most is None else str(most)}
        return add_exact_facts(_budget_table(budget, policy), "budget", {**budget.facts, **cap})
    if statement.what == "tables":
        tables = list(policy.tables.values())
        units = [_unit_column(policy, table) for table in tables]
        views = [view.name for view in policy.views.values()]
        return pa.table(
            {
                "table": [*(t.name for t in tables), *views],
                "unit": [*units, *("view" for _ in views)],
                "protects": pa.array(
                    [*(describe_protected(policy.tables, t) for t in tables), *(None for _ in views)],
                    pa.string(),
                ),
            }
        )
    found = ledger.releases(analyst)
    return pa.table(
        {
            "number": pa.array([r.number for r in found], pa.int64()),
            "when": pa.array([r.when.isoformat(" ", "seconds") for r in found], pa.string()),
            "selection": pa.array([r.selection for r in found], pa.string()),
            "epsilon": pa.array(
                [None if r.charge.epsilon is None else round_up(r.charge.epsilon) for r in found], pa.string()
            ),
            "part": pa.array(
                [f"{r.place} of {r.places}" if r.places > 1 else None for r in found], pa.string()
            ),
            "statement": pa.array([r.statement for r in found], pa.string()),
        }
    )


def _unit_column(policy: Policy, table: Table) -> str:
    """Name the column of a table's unit: of a path, the one in its last table."""
    unit = (table, *path_of(policy.tables, table))[-1].unit
    if isinstance(unit, UnitColumn):
        return unit.column
    return "public" if unit is None else "ROW"


def _budget_table(budget: Budget, policy: Policy) -> pa.Table:
    rows: Sequence[tuple[str, ...]]
    if budget.accounting == "pure":
        amounts = (budget.total, budget.spent, budget.remaining)
        epsilons = [
            round_down(amounts[0].epsilon),
            round_up(amounts[1].epsilon),
            round_down(amounts[2].epsilon),
        ]
        rows = [("epsilon", *epsilons), ("delta", *(f"{float(each.delta):g}" for each in amounts))]
    else:
        rows = rows_of(budget, policy.budget.default_epsilon)
    names = ("scope", "total", "spent", "remaining")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def describe_table(statement: Describe, policy: Policy, catalog: Catalog) -> pa.Table:
    """Return the result of DESCRIBE: columns, types, and which columns have a public domain."""
    table = policy.table(statement.table) if statement.table.isascii() else None
    if table is None:
        raise statement.source.refuse(
            f"there is no table {statement.table[:60]}",
            statement.at,
            "SHOW TABLES lists them",
            unknown="table",
        )
    domains = {fold(name) for name in table.domain}
    columns = catalog.columns(table.name)
    return pa.table(
        {
            "column": [name for name, _ in columns],
            "type": [str(kind).split("(")[0] if kind.name == "ENUM" else str(kind) for _, kind in columns],
            "domain": [
                "public" if table.public else "declared" if fold(n) in domains else "" for n, _ in columns
            ],
        }
    )
