"""What programs and pages are told as JSON: tables and limits of the policy, budgets, releases, refusals.

Left out is what concerns the owner alone: where the data and the ledger are, and who else may ask. Of an
unexpected error only the type is told: its text could hold private values.
"""

from __future__ import annotations

import io
import json
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpsql.composition.prepared import PreparedCommand
from dpsql.errors import Error, QueryRefused, QuerySyntaxError
from dpsql.kernel.loss import Charge
from dpsql.kernel.tree import quote
from dpsql.policy import BooleanDomain, RangeDomain, TableDomain, ValuesDomain
from dpsql.policy.references import FOUND
from dpsql.render.data import write_json
from dpsql.render.figures import show_left, show_spent
from dpsql.serve.statement_service import LIFETIME

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.ledger import Budget
    from dpsql.policy import Domain, Policy, Table
    from dpsql.release import Release
    from dpsql.serve.statement_service import ConfirmedStatements, StatementService

JsonObject = dict[str, Any]
"""What is answered: an object of JSON."""

MOST_ROWS = 1_000
"""The most rows in one result; a release gives the others from a row on."""

MOST_VALUES = 100
"""The most values of a public domain that are listed."""

_LEFT_OUT = ("compiled_sql", "outer_sql", "epsilon", "delta", "budget_left")
"""Fields of EXPLAIN that are said otherwise, or that nobody reads here."""
_UNITS = {"public": "public: nobody is protected, its rows may be shown", "view": "a view of the policy"}


async def describe_tables(service: StatementService) -> list[JsonObject]:
    """Return the declared tables with their columns, and the public values of these."""
    found = []
    for row in _rows_of((await service.free("SHOW TABLES")).table):
        name, unit, *more = row
        try:
            columns = _rows_of((await service.free(f"DESCRIBE {quote(name)}")).table)
        except QueryRefused:  # a view that cannot be read
            continue
        described = []
        for column, kind, domain in columns:
            facts: JsonObject = {"name": column, "type": kind}
            if domain == "declared":
                facts["values"] = await _declared_values(service, name, column)
            described.append(facts | bounds_facts(service.policy, name, column))
        path = more and more[0] and FOUND in more[0]  # an older server says less
        facts = {"protects": more[0]} if path else {}
        found.append({"name": name, "unit": _UNITS.get(unit, unit), **facts, "columns": described})
    return found


async def _declared_values(service: StatementService, table: str, column: str) -> object:
    """Return the public values of a column: a list, the ends of a range, or where they are."""
    policy = service.policy
    declared = None if policy is None else policy.table(table)
    if declared is not None:
        return domain_facts(declared.domain[column])
    distinct = f"SELECT DISTINCT {quote(column)} FROM {quote(table)} LIMIT {MOST_VALUES + 1}"
    with suppress(Error):  # a server answers it with the declared values, or not at all
        return _list_values([row[0] for row in _rows_of((await service.free(distinct)).table)])
    return "declared"


def domain_facts(domain: Domain) -> object:
    """Return the public values of a column: a list, the ends of a range, or where they are."""
    match domain:
        case ValuesDomain():
            return _list_values(list(domain.values))
        case RangeDomain():
            return {"from": _to_json_value(domain.start), "to": _to_json_value(domain.stop)}
        case TableDomain():
            return {"from_table": domain.table, "column": domain.column}
        case BooleanDomain():
            return [False, True]
    return "the values of its ENUM type"


def _list_values(values: list[Any]) -> object:
    shown = [_to_json_value(value) for value in values[:MOST_VALUES]]
    return shown if len(values) <= MOST_VALUES else {"first": shown, "number_of_values": len(values)}


def bounds_facts(policy: Policy | None, table: str, column: str) -> JsonObject:
    """Return the interval to which a column's values are cut, if there is one."""
    declared: Table | None = None if policy is None else policy.table(table)
    bounds = None if declared is None else declared.bounds.get(column)
    if bounds is None:
        return {}
    return {"values_are_cut_to": {"from": _to_json_value(bounds.low), "to": _to_json_value(bounds.high)}}


async def describe_policy(service: StatementService) -> JsonObject:
    """Return the tables, and the limits and defaults that hold for every analyst."""
    found: JsonObject = {"tables": await describe_tables(service)}
    policy = service.policy
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
    found["limits"] = {name: _to_json_value(value) for name, value in limits.items() if value is not None}
    return found


def records(table: pa.Table) -> list[JsonObject]:
    """Return rows as objects of JSON."""
    out = io.BytesIO()
    write_json(table, out)
    found: list[JsonObject] = json.loads(out.getvalue())
    return found


def _rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _to_json_value(value: object) -> object:
    """Return a value that JSON has."""
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


# -- budgets and releases


def amounts(charge: Charge, *, up: bool = True) -> JsonObject:
    """Return amounts as numbers, rounded against the analyst."""
    shown = show_spent if up else show_left
    return {"epsilon": float(shown(charge.epsilon)), "delta": float(shown(charge.delta))}


def left_of(budget: Budget) -> JsonObject:
    """Return the remaining epsilon and delta of a budget as numbers, rounded down."""
    return amounts(budget.remaining, up=False)


def budget_facts(budget: Budget) -> JsonObject:
    """Return the total, spent and remaining amounts of a budget as numbers, rounded against the analyst."""
    return {
        "total": amounts(budget.total, up=False),
        "spent": amounts(budget.spent),
        "left": left_of(budget),
        **({} if budget.renewal is None else {"renewal": budget.renewal.facts}),
    }


async def explain(statements: ConfirmedStatements, sql: str) -> tuple[JsonObject, JsonObject, bool]:
    """Return the price of a statement with its confirmation, what EXPLAIN says, whether it is private.

    No data is read, and nothing is charged.
    """
    priced, question = await statements.question(sql)
    budget = await statements.service.budget()
    if isinstance(priced.statement, PreparedCommand):
        stream = "a stream of checks, charged when it is opened, or a report, charged when it is run"
        facts: JsonObject = {
            "selection": stream if priced.statement.private else "a command, which costs nothing"
        }
    else:
        facts = await statements.service.explain(priced, budget)
    left = left_of(budget)
    if budget.by_parts and "budget_left" in facts:  # of the parts of units that it reads
        left["epsilon"] = facts["budget_left"]
    price = {**amounts(priced.price), "left": left}
    confirm = statements.rule.offer(question)
    if confirm is not None:
        price |= {"confirm": confirm, "confirm_holds_seconds": LIFETIME}
    said = {name: facts[name] for name in facts if facts[name] is not None and name not in _LEFT_OUT}
    return price, said, priced.statement.private


async def latest_releases(service: StatementService) -> pa.Table:
    """Return the analyst's own releases, the newest last."""
    table = (await service.free("SHOW RELEASES")).table
    return table.slice(max(0, table.num_rows - MOST_ROWS))


def release_facts(release: Release) -> JsonObject:
    """Return what a release says beside its rows, and what it cost now."""
    reused = None if release.reused is None else release.reused.isoformat(" ", "minutes")
    facts = {
        "release": release.number,
        "receipt": release.receipt or None,
        "statement": release.statement,
        "mechanism": release.mechanism,
        "reused_from": reused,
        "charged_again": release.charged_again or None,
        "confidence": float(release.confidence),
        "warnings": list(release.warnings) or None,
        "assumed": [str(each) for each in release.assumed] or None,
        "line": release.line or None,
        "assumes": _list_assumptions(release) or None,
        "null_group": release.null_group or None,
        "outside": None
        if (out := release.outside) is None
        else {"value": out.value, "low": out.low, "high": out.high},
    }
    cost = Charge() if release.reused is not None else release.charge
    return {**amounts(cost), **{name: value for name, value in facts.items() if value is not None}}


def _list_assumptions(release: Release) -> list[str]:
    """Return what the intervals of an answer, or of the releases that it comes from, take for granted."""
    texts = (each.properties.get("assumes", "") for each in (release, *release.parts))
    return list(dict.fromkeys(one for text in texts for one in text.split("; ") if one))


# -- refusals


def refusal(problem: Exception) -> JsonObject:
    """Return an error as a JSON object: the refusal, its hint and its place in the text."""
    if not isinstance(problem, Error):
        return {
            "refused": f"internal error ({type(problem).__name__}): this is a bug of dpsql",
            "hint": "report it to the owner of the data; nothing more is shown, it could be private",
        }
    if not isinstance(problem, (QueryRefused, QuerySyntaxError)):
        message, _, hint = str(problem).partition("\nHint: ")
        return {"refused": message, **({"hint": hint} if hint else {})}
    found: list[JsonObject] = []
    for obstacle in problem.obstacles:
        facts = {
            "refused": obstacle.message,
            "hint": obstacle.hint,
            "line": obstacle.line,
            "column": obstacle.col,
        }
        found.append({name: value for name, value in facts.items() if value is not None})
    result = found[0] | ({"others": found[1:]} if found[1:] else {})
    return result | ({"would_be_accepted": problem.rewrite} if problem.rewrite is not None else {})
