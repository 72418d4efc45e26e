"""`dpsql budget`: what is spent, on what, what is left; and whether the ledger is sound."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dpsql.cli import narrate
from dpsql.cli.exits import ExitCode
from dpsql.render.cells import escape_controls
from dpsql.render.figures import charged, left
from dpsql.render.grid import Column, Style, box, fit
from dpsql.render.spending import chart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction

    from dpsql.ledger import Budget, Entry, Ledger
    from dpsql.policy import Policy
    from dpsql.privacy import Charge

__all__ = ["as_json", "check", "clear_failures", "open_ledger", "report"]

_SHOWN = 20
"""Entries the report lists; `--json` has them all."""


def open_ledger(policy: Policy) -> Ledger:
    """Open the ledger alone: reading the budget needs neither the data nor the engine."""
    from dpsql.ledger import Ledger

    return Ledger.open(
        policy.budget.ledger,
        policy_id=policy.id,
        total=policy.budget.total,
        per_query=policy.budget.max_epsilon_per_query,
        analysts={name: analyst.charge for name, analyst in policy.analysts.items()},
        max_failures=policy.budget.max_failures,
        max_failures_total=policy.budget.max_failures_total,
        max_cancelled=policy.budget.max_cancelled,
        max_cancelled_total=policy.budget.max_cancelled_total,
    )


def report(ledger: Ledger, analyst: str | None, style: Style) -> str:
    """Draw the budget, the spending over time and the latest entries."""
    budget = ledger.budget(analyst)
    entries = ledger.entries(analyst)
    text = _amounts(budget, style)
    text += chart([(e.when, e.charged.epsilon) for e in reversed(entries)], budget.total.epsilon, style)
    if entries:
        text += _shares("analyst", [(e.analyst, e) for e in entries], style)
        text += _shares("mechanism", [(e.mechanism, e) for e in entries], style)
        text += _list(entries[:_SHOWN], style)
        if len(entries) > _SHOWN:
            text += f"the latest {_SHOWN} of {len(entries)} entries; --json has all\n"
    else:
        text += "nothing was asked yet\n"
    return text


def _amounts(budget: Budget, style: Style) -> str:
    # What is spent is rounded up, what there is and what is left down.
    def row(part: str) -> list[str]:
        spent, remaining, total = (
            getattr(charge, part) for charge in (budget.spent, budget.remaining, budget.total)
        )
        return [part, charged(spent), left(remaining), left(total)]

    parts = ["epsilon", "delta"] if budget.total.delta else ["epsilon"]
    cells = list(zip(*map(row, parts), strict=True))
    heads = ("", "spent", "remaining", "total")
    columns = [
        Column(name, list(cell), right=i > 0) for i, (name, cell) in enumerate(zip(heads, cells, strict=True))
    ]
    return box(columns, style)


def _shares(what: str, entries: Sequence[tuple[str, Entry]], style: Style) -> str:
    """Show what was spent by analyst or by mechanism, the most first."""
    spent: dict[str, Fraction] = {}
    asked: dict[str, int] = {}
    for name, entry in entries:
        spent[name] = spent.get(name, entry.charged.epsilon * 0) + entry.charged.epsilon
        asked[name] = asked.get(name, 0) + 1
    names = sorted(spent, key=lambda name: (-spent[name], name))
    columns = [
        Column(f"by {what}", [escape_controls(name, style.encoding) for name in names]),
        Column("statements", [str(asked[name]) for name in names], right=True, firm=True),
        Column("epsilon", [charged(spent[name]) for name in names], right=True, firm=True),
    ]
    return box(fit(columns, style)[0], style)


def _list(entries: Sequence[Entry], style: Style) -> str:
    # States are not shown: whether a statement failed is for the owner alone.
    def column(name: str, cells: list[str], *, number: bool = False) -> Column:
        shown = [escape_controls(" ".join(cell.split()), style.encoding) for cell in cells]
        return Column(name, shown, right=number, firm=number)

    columns = [
        column("entry", [str(e.entry) for e in entries], number=True),
        column("when (UTC)", [f"{e.when:%Y-%m-%d %H:%M}" for e in entries]),
        column("analyst", [e.analyst for e in entries]),
        column("epsilon", [charged(e.charged.epsilon) for e in entries], number=True),
        column("delta", [charged(e.charged.delta) for e in entries], number=True),
        column("mechanism", [e.mechanism for e in entries]),
        column("statement", [e.statement for e in entries]),
    ]
    if not any(e.charged.delta for e in entries):
        columns.pop(4)
    return box(fit(columns, style)[0], style)


def as_json(ledger: Ledger, analyst: str | None) -> str:
    """Write the budget and all entries as one JSON object, oldest entry first.

    Amounts are numbers, rounded against the analyst, and under `exact` fractions as text.
    """
    budget = ledger.budget(analyst)
    whole = {
        "analyst": analyst,
        "total": _charge(budget.total, left),
        "spent": _charge(budget.spent, charged),
        "remaining": _charge(budget.remaining, left),
        "entries": [
            {
                "entry": e.entry,
                "when": e.when.isoformat(),
                "analyst": e.analyst,
                "statement": e.statement,
                "selection": e.selection,
                "mechanism": e.mechanism,
                **_charge(e.charged, charged),
            }
            for e in reversed(ledger.entries(analyst))
        ],
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _charge(charge: Charge, rounded: Callable[[Fraction], str]) -> dict[str, object]:
    def exact(amount: Fraction) -> str:
        return (
            f"{amount.numerator}/{amount.denominator}" if amount.denominator != 1 else str(amount.numerator)
        )

    return {
        "epsilon": float(rounded(charge.epsilon)),
        "delta": float(rounded(charge.delta)),
        "exact": {"epsilon": exact(charge.epsilon), "delta": exact(charge.delta)},
    }


def clear_failures(ledger: Ledger, analyst: str | None) -> None:
    """Reset the counts of failed and cancelled statements, of one analyst or of all; report it."""
    ledger.clear_failures(analyst)
    narrate.note(f"failed and cancelled statements of {analyst or 'every analyst'} are cleared")


def check(ledger: Ledger) -> ExitCode:
    """Verify the ledger and report each violated invariant."""
    problems = ledger.check()
    for problem in problems:
        narrate.error(problem)
    if problems:
        return ExitCode.DATABASE
    narrate.note("the ledger is sound: every total is the sum of its entries, every release is charged")
    return ExitCode.OK
