"""Where the budget went, for the owner: by time, analyst, table, mechanism; what failed, who is locked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from dpsql.errors import Error
from dpsql.language import Query, parse, tables_in
from dpsql.ledger.limits import Limits
from dpsql.render.figures import charged
from dpsql.serve.json_facts import Facts, budget_facts

if TYPE_CHECKING:
    from dpsql.ledger import Entry, Ledger
    from dpsql.policy import Policy

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
        {"name": name, "statements": asked[name], "epsilon": float(charged(spent[name]))} for name in names
    ]


def _over_time(entries: Sequence[Entry]) -> list[Facts]:
    """Return what was spent in all up to each of some moments, the oldest first."""
    points, spent = [], Fraction(0)
    for entry in reversed(entries):
        spent += entry.charged.epsilon or 0
        points.append({"when": entry.when.isoformat(), "epsilon": float(charged(spent))})
    step = -(-len(points) // _POINTS) or 1
    return [*points[:-1:step], *points[-1:]]


def _entry(entry: Entry, policy: Policy) -> Facts:
    return {
        "entry": entry.entry,
        "when": entry.when.isoformat(" ", "seconds"),
        "analyst": entry.analyst,
        "epsilon": None if entry.charged.epsilon is None else float(charged(entry.charged.epsilon)),
        "delta": float(charged(entry.charged.delta)),
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
