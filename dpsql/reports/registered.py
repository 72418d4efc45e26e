"""Registered reports: planned once, before their first answer, and run for one part of units after another.

A part is measured once, by the plan of the registration. An answer about several parts adds up what was
measured of each. Parts that an answer needs and nobody measured are measured now, from their own budgets. So
a run of a part that was measured, and whose answers need no other, costs nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

from dpsql.composition.prepared import PreparedPrivate
from dpsql.errors import ProgrammingError, QueryRefused
from dpsql.estimates.reports.report_plan import Per
from dpsql.kernel.loss import Charge, PrivacyLoss, exact
from dpsql.kernel.unit_parts import Calendar, PartSet
from dpsql.language import split_script
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern
from dpsql.ledger import StoredReport
from dpsql.policy import UnitParts
from dpsql.reports.measured import list_parts
from dpsql.reports.measurement_plan import Block, TablePlan, measure, plan_tables, within_of
from dpsql.reports.planned import (
    ReportStatement,
    digest_of,
    list_wanted,
    parts_needed,
    read_statements,
    words_of_others,
)

if TYPE_CHECKING:
    from dpsql.composition.planner import Planner

PARAMETER = "part"
"""The one parameter that statements of a report may have: the first day of the part of units."""

_QUOTED = r"""'[^']*'?|"[^"]*"?|--[^\n]*|/\*.*?(?:\*/|\Z)"""
_MARK = lazy_pattern(rf"(?P<quoted>{_QUOTED})|(?<!:):{PARAMETER}\b", re.DOTALL)


_OTHER = lazy_pattern(
    rf"{_QUOTED}|(?<![:$\w'\"\])}}])(?P<other>[:$](?!{PARAMETER}\b)[A-Za-z_]\w*)", re.DOTALL
)


def split_report(script: str) -> tuple[str, ...]:
    """Return the statements of a report; `:part` becomes the parameter `$part`.

    >>> split_report("SELECT ':part'; SELECT 1 WHERE d = :part")
    ("SELECT ':part'", 'SELECT 1 WHERE d = $part')
    """
    other = next((each["other"] for each in _OTHER.finditer(script) if each["other"]), None)
    if other is not None:
        raise ProgrammingError(
            f"a statement has the parameter {other[:40]}, but those of a report have one alone: :{PARAMETER},"
            " the first day of the part of units that it is run for"
        )
    marked = _MARK.sub(lambda found: found["quoted"] or f"${PARAMETER}", script)
    return tuple(split_script(marked))


@dataclass(frozen=True, slots=True, eq=False)
class ReportText:
    """What a report is: its statements, the epsilon of each part, and what is measured for it."""

    name: str
    texts: tuple[str, ...]
    epsilon: Fraction
    every: str | None
    """How long its parts are; None: it has none, and is run once."""
    plans: tuple[TablePlan, ...]
    per: Per = "STATEMENT"
    """Of what the mean variance is least: of statements, or of all their numbers."""
    declared: str | None = None
    """How units were in parts when it was registered."""
    estimated: tuple[tuple[bool, ...], ...] = ()
    """For each release of each statement, whether the estimate answers it."""

    @classmethod
    def of(cls, stored: StoredReport) -> ReportText:
        """Read a report from its entry in the ledger."""
        plan = json.loads(stored.plan)
        plans = tuple(TablePlan.from_data(each) for each in plan["tables"])
        texts = tuple(json.loads(stored.statements))
        estimated = tuple(tuple(each) for each in plan["estimated"])
        amount = exact(plan["epsilon"])
        return cls(stored.name, texts, amount, plan["every"], plans, plan["per"], plan["declared"], estimated)

    @property
    def digest(self) -> str:
        """The hash that identifies the report by its statements, epsilon and planned measurements."""
        plans = json.dumps([replace(each, deviation=0, even=0, added=None).to_data() for each in self.plans])
        return digest_of(self.texts, self.epsilon, self.per, self.every or "", self.declared or "", plans)

    @property
    def blocks(self) -> dict[str, tuple[TablePlan, Block]]:
        """The plan and block of each block of parts, by the name under which it is registered."""
        return {
            f"{self.name} (blocks of {block.length} {self.every}s)": (plan, block)
            for plan in self.plans
            for block in plan.blocks
        }

    def parameters(self, calendar: Calendar | None, part: int | None) -> Mapping[str, object] | None:
        """Return the value of `$part`, the first day of a part; None for a report of all data."""
        if calendar is None or part is None:
            return None
        return {PARAMETER: calendar.first_day(part)}

    def to_stored(self, analyst: str, kept: PrivacyLoss | None) -> StoredReport:
        """Return the report as the ledger stores it, with the loss reserved for it in each part."""
        plan = {
            "epsilon": str(self.epsilon),
            "every": self.every,
            "per": self.per,
            "declared": self.declared,
            "estimated": self.estimated,
            "tables": [each.to_data() for each in self.plans],
        }
        text = json.dumps(plan, sort_keys=True)
        return StoredReport(0, self.name, analyst, "", self.digest, json.dumps(self.texts), text, kept)

    def list_blocks(self, analyst: str, kept: Mapping[str, PrivacyLoss] | None) -> list[StoredReport]:
        """Return its blocks as they are registered, each measured and kept for on its own."""
        return [
            StoredReport(
                *(0, name, analyst, ""),
                digest_of([name], self.epsilon, self.digest),
                *("[]", "{}"),
                None if kept is None else kept[name],
            )
            for name in self.blocks
        ]


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRegistration:
    """A report that is planned, before it is registered."""

    text: ReportText
    statements: tuple[ReportStatement, ...]
    own: PrivacyLoss
    """The largest loss of a run in its part."""
    of_blocks: Mapping[str, PrivacyLoss]
    """The largest loss of each block, by its name, when it is over."""
    price: Charge
    """What that costs in one part at most, of its run and of the blocks that it is in."""

    def words(self) -> list[str]:
        """Say what the report measures, and which statements stay out."""
        return [*(plan.words(self.text.every) for plan in self.text.plans), *words_of_others(self.statements)]


def plan_registration(
    planner: Planner, name: str, script: str, epsilon: Fraction, per: Per = "STATEMENT"
) -> PlannedRegistration:
    """Plan a report: of one part of units if its statements have the parameter, else of all data at once."""
    texts = split_report(script)
    if not texts:
        raise ProgrammingError("a report has at least one statement")
    if re.fullmatch(r"[A-Za-z_]\w{0,62}", name, re.ASCII) is None:
        raise ProgrammingError(
            "a report's name has letters, digits and underscores, and begins with no digit"
        )
    with_parts = any(f"${PARAMETER}" in text for text in texts)
    if not with_parts:
        statements = read_statements(planner, texts, epsilon)
        wanted = list_wanted(statements)
        every, calendar, part = None, None, None
    else:
        without = next((i for i, text in enumerate(texts, 1) if f"${PARAMETER}" not in text), None)
        if without is not None:
            raise QueryRefused(
                f"statement {without} has no :{PARAMETER}, but others of the report have one",
                hint=f"let it read :{PARAMETER}, or put it into a report of its own",
            )
        parts = planner.policy.unit_parts
        if parts is None or parts.every is None:
            raise QueryRefused(
                "a report with :part needs units that are in parts by a date",
                hint='write [parts.user] with table, column and every = "week" into the policy',
            )
        every, calendar = parts.period, Calendar(parts.period)
        part = calendar.number(read_today()) - 1
        pair = [
            read_statements(planner, texts, epsilon, {PARAMETER: calendar.first_day(each)})
            for each in (part - 1, part)
        ]
        statements = pair[1]
        windows = _windows(pair[0], pair[1], part, parts)
        wanted = list_wanted(statements, windows, partial(within_of, planner))
    plans = plan_tables(planner, wanted, epsilon, per, every) if wanted else ()
    declared = (
        None
        if every is None or planner.database.ledger.parts is None
        else planner.database.ledger.parts.declared
    )
    text = ReportText(name, texts, epsilon, every, plans, per, declared, _find_estimated(statements))
    own: list[PreparedPrivate] = []
    for plan in plans:
        needed = _all_parts(statements, plan.table) if part is None else PartSet.of((part, part))
        sets = None if needed is None else list_parts(needed)
        own += (each.prepared for each in measure(planner, plan, epsilon, sets))
    for statement in statements:
        own += statement.others
    of_blocks = {
        name: [
            each.prepared
            for each in measure(planner, plan, epsilon, block.list_within(PartSet.of(_around(block))), block)
        ]
        for name, (plan, block) in text.blocks.items()
    }
    price = _price_of(own)
    _check_cost(planner, price.epsilon)
    losses = {name: _loss_of(each) for name, each in of_blocks.items()}
    price = sum(map(_price_of, of_blocks.values()), price)
    return PlannedRegistration(text, tuple(statements), _loss_of(own), losses, price)


def _check_cost(planner: Planner, epsilon: Fraction) -> None:
    """Refuse a report of which no run would ever be admitted."""
    budget = planner.policy.budget
    most = budget.max_epsilon_per_query or budget.epsilon
    if epsilon > most:
        what = "one statement may cost" if budget.max_epsilon_per_query else "the budget allows"
        raise ProgrammingError(
            f"a run costs epsilon {float(epsilon):g}, but {what} at most {float(most):g}, so that no"
            " run would be admitted"
        )


def _around(block: Block) -> tuple[int, int]:
    return block.first, block.first + block.length - 1


def _loss_of(releases: Sequence[PreparedPrivate]) -> PrivacyLoss:
    return sum((each.method.quote.loss for each in releases), PrivacyLoss())


def _price_of(releases: Sequence[PreparedPrivate]) -> Charge:
    return sum((each.full_price for each in releases), Charge())


def _find_estimated(statements: Sequence[ReportStatement]) -> tuple[tuple[bool, ...], ...]:
    return tuple(tuple(not isinstance(each, str) for each in one.linear) for one in statements)


def _all_parts(statements: Sequence[ReportStatement], table: str) -> PartSet | None:
    found = parts_needed(statements, table)
    return found or None


def _windows(
    before: Sequence[ReportStatement], now: Sequence[ReportStatement], part: int, declared: UnitParts
) -> dict[int, int | None]:
    """Return how many parts each linear release adds up; None: all since the beginning.

    Refuses what each run would charge to parts of earlier runs again.
    """
    found: dict[int, int | None] = {}
    every, one = declared.period, PartSet.of((part, part))
    for place, (old, new) in enumerate(zip(before, now, strict=True), 1):
        for other in new.others:
            if other.plan.unit_parts is None or not other.plan.unit_parts <= one:
                raise QueryRefused(
                    f"statement {place} {new.reasons[0]}, so it is released by itself, and each run would"
                    f" charge {every}s of other runs again",
                    hint="let it read :part alone, or leave it out of the report",
                )
        for a, b in zip(old.estimated, new.estimated, strict=True):
            if a.parts is None or b.parts is None:
                raise QueryRefused(
                    f"statement {place} counts rows of {b.table.name}, which have no {every} of a"
                    f" {declared.kind}",
                    hint=f"leave it out of the report: each run would charge every {every}",
                )
            found[id(b)] = None if a.parts | one == b.parts and len(b.parts) > len(a.parts) else len(b.parts)
            if b.parts != one and declared.days_until_closed is None:
                raise QueryRefused(
                    f"statement {place} adds up several {every}s, which are measured at different times",
                    hint=f'write closed_after = "1 days" in [parts.{declared.kind}] if a {every} changes no'
                    " more then",
                )
    late = next((place for place, each in enumerate(now, 1) if each.others), None)
    if late is not None and any(window != 1 for window in found.values()):
        raise QueryRefused(
            f"statement {late} {now[late - 1].reasons[0]}, so it is released by itself, and others of the"
            f" report measure earlier {every}s without it",
            hint="put it into a report of its own",
        )
    return found


def share_of(planner: Planner, share: Fraction) -> Fraction:
    """Return the epsilon of a share of the policy's budget, as each part of units has it."""
    if not 0 < share <= 1:
        raise ProgrammingError("a share is above 0 and at most 1")
    return planner.policy.budget.epsilon * share


def read_today() -> date:
    """Return the day that it is in UTC."""
    return datetime.now(UTC).date()
