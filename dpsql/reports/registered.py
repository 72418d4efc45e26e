"""Registered reports: planned once, before their first answer, and run for one part of units after another.

A part is measured once, by the plan of the registration. An answer about several parts adds up what was
measured of each. Parts that an answer needs and nobody measured are measured now, from their own budgets. So
a run of a part that was measured, and whose answers need no other, costs nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.composition.prepared import PreparedComposed
from dpsql.errors import OperationalError, ProgrammingError, QueryRefused
from dpsql.estimates.reports.report_plan import Per
from dpsql.kernel.loss import Charge, PrivacyLoss, exact
from dpsql.kernel.unit_parts import NO_PARTS, Calendar, PartSet
from dpsql.language import split_script
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger import StoredReport
from dpsql.policy import UnitParts
from dpsql.release.reuse import data_of, find_same_data
from dpsql.reports.measured import MeasuredQuery
from dpsql.reports.measurement_plan import (
    Measured,
    TablePlan,
    WantedNumbers,
    measure,
    plan_tables,
    query_of,
    within_of,
)
from dpsql.reports.missing_numbers import check_told
from dpsql.reports.planned import (
    ReportStatement,
    digest_of,
    parts_needed,
    prepare_releases,
    read_statements,
    words_of_others,
)

if TYPE_CHECKING:
    from dpsql.composition.planner import Planner

PARAMETER = "part"
"""The one parameter that statements of a report may have: the first day of the part of units."""

_QUOTED = r"""'[^']*'?|"[^"]*"?|--[^\n]*|/\*.*?(?:\*/|\Z)"""
_MARK = re.compile(rf"(?P<quoted>{_QUOTED})|(?<!:):{PARAMETER}\b", re.DOTALL)


def split_report(script: str) -> tuple[str, ...]:
    """Return the statements of a report; `:part` becomes the parameter `$part`.

    >>> split_report("SELECT ':part'; SELECT 1 WHERE d = :part")
    ("SELECT ':part'", 'SELECT 1 WHERE d = $part')
    """
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
        """Return the report that is registered."""
        plan = json.loads(stored.plan)
        plans = tuple(TablePlan.from_data(each) for each in plan["tables"])
        texts = tuple(json.loads(stored.statements))
        estimated = tuple(tuple(each) for each in plan["estimated"])
        amount = exact(plan["epsilon"])
        return cls(stored.name, texts, amount, plan["every"], plans, plan["per"], plan["declared"], estimated)

    @property
    def digest(self) -> str:
        """What tells it from every other report."""
        return digest_of(self.texts, self.epsilon, self.per, self.every or "", self.declared or "")

    def parameters(self, calendar: Calendar | None, part: int | None) -> Mapping[str, object] | None:
        """Return the parameters of its statements for a part."""
        if calendar is None or part is None:
            return None
        return {PARAMETER: calendar.first_day(part)}

    def to_stored(self, analyst: str, kept: PrivacyLoss | None) -> StoredReport:
        """Return what is registered; `kept` is the loss that is kept for it in each part."""
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


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRegistration:
    """A report that is planned, before it is registered."""

    text: ReportText
    statements: tuple[ReportStatement, ...]
    loss: PrivacyLoss
    """The largest loss of a run in one part."""

    def words(self) -> list[str]:
        """Say what is measured, and what stays out."""
        return [*(plan.words() for plan in self.text.plans), *words_of_others(self.statements)]


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
        wanted = _list_wanted(planner, statements, None)
        every, calendar, part = None, None, None
    else:
        parts = planner.policy.unit_parts
        if parts is None or parts.every is None:
            raise QueryRefused(
                "a report with :part needs units that are in parts by a date",
                hint='write [parts.user] with table, column and every = "week" into the policy',
            )
        every, calendar = parts.period, Calendar(parts.period)
        part = calendar.number(_today()) - 1
        pair = [
            read_statements(planner, texts, epsilon, {PARAMETER: calendar.first_day(each)})
            for each in (part - 1, part)
        ]
        statements = pair[1]
        wanted = _list_wanted(planner, statements, _windows(pair[0], pair[1], part, parts))
    plans = plan_tables(planner, wanted, epsilon, per) if wanted else ()
    declared = (
        None
        if every is None or planner.database.ledger.parts is None
        else planner.database.ledger.parts.declared
    )
    text = ReportText(name, texts, epsilon, every, plans, per, declared, _find_estimated(statements))
    sample = None if part is None else PartSet.of((part, part))
    loss = PrivacyLoss()
    for plan in plans:
        needed = sample if with_parts else _all_parts(statements, plan.table)
        for measured in measure(planner, plan, epsilon, needed):
            loss += measured.prepared.method.quote.loss
    for statement in statements:
        for other in statement.others:
            loss += other.method.quote.loss
    return PlannedRegistration(text, tuple(statements), loss)


def _find_estimated(statements: Sequence[ReportStatement]) -> tuple[tuple[bool, ...], ...]:
    return tuple(tuple(not isinstance(each, str) for each in one.linear) for one in statements)


def _check_as_registered(
    text: ReportText, statements: Sequence[ReportStatement], part: PartSet | None
) -> None:
    """Refuse a run in which another release stays out than was planned, or one that reads other parts."""
    for place, (one, before) in enumerate(zip(statements, text.estimated, strict=True), 1):
        now = tuple(not isinstance(each, str) for each in one.linear)
        if now != before:
            why = one.reasons[0] if one.reasons else "has other releases than when it was registered"
            raise OperationalError(f"statement {place} is not answered here: it {why}; nothing was charged")
        for other in one.others:
            read = other.plan.unit_parts
            if part is not None and (read is None or not read <= part):
                raise OperationalError(
                    f"statement {place} would be charged to other parts; nothing was charged"
                )


def _all_parts(statements: Sequence[ReportStatement], table: str) -> PartSet | None:
    found = parts_needed(statements, table)
    return found or None


def _list_wanted(
    planner: Planner, statements: Sequence[ReportStatement], windows: Mapping[int, int | None] | None
) -> list[WantedNumbers]:
    private = [each for each in statements if each.linear]
    return [
        WantedNumbers(
            linear,
            Fraction(1, len(private) * len(each.linear)),
            1 if windows is None else windows[id(linear)],
            None if windows is None else within_of(planner, linear),
        )
        for each in private
        for linear in each.estimated
    ]


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


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRun:
    """A run of a registered report that is planned and priced; nothing was charged."""

    text: ReportText
    number: int | None
    """The number of the report, if something is measured for it."""
    statements: tuple[ReportStatement, ...]
    measured: tuple[Measured, ...]
    """What is measured now, in the order of the releases."""
    known: tuple[tuple[str, MeasuredQuery, int], ...]
    """What was measured before: the table, the statement and the number of the release."""
    of_other_rows: frozenset[int]
    """The releases of these that were measured before the data or the policy changed."""
    parts: PartSet | None
    """The parts of units that are measured now; None: the report has none."""
    prepared: PreparedComposed | None

    @property
    def price(self) -> Charge:
        """What it costs now."""
        return Charge() if self.prepared is None else self.prepared.price


def plan_run(planner: Planner, stored: StoredReport, part_name: str | None) -> PlannedRun:
    """Plan a run of a registered report for a part, which is over, or counts as closed."""
    text, ledger = ReportText.of(stored), planner.database.ledger
    calendar, part = _part_of(planner, text, part_name)
    statements = read_statements(planner, text.texts, text.epsilon, text.parameters(calendar, part))
    _check_as_registered(text, statements, None if part is None else PartSet.of((part, part)))
    releases = ledger.report_releases(stored)
    measured: list[Measured] = []
    known: list[tuple[str, MeasuredQuery, int]] = []
    of_other_rows = set[int]()
    missing_of_all, before = NO_PARTS, 0
    for plan in text.plans:
        needed = parts_needed(statements, plan.table) or None
        if part is not None:
            assert needed is not None and calendar is not None  # noqa: PT018, S101  it was registered so
            needed |= PartSet.of((part, part))
            _check_closed(planner, calendar, part, needed)
        done, same = NO_PARTS, _find_same(planner, statements, plan.table) if releases else frozenset()
        own = [each for each in releases if before < each.place <= before + len(plan.measured)]
        for each in own:
            whole = each.parts if each.parts is not None else needed
            if whole is not None and needed is not None and not whole & needed:
                continue
            done |= NO_PARTS if whole is None else whole
            marginal, _ = plan.measured[each.place - 1 - before]
            known.append((plan.table, query_of(planner, plan.table, marginal, whole), each.number))
            if data_of(each.key or "") not in same:
                of_other_rows.add(each.number)
        missing = None if needed is None else needed - done
        if (missing is None and not own) or missing:
            measured += measure(planner, plan, text.epsilon, missing)
            missing_of_all |= missing or NO_PARTS
        before += len(plan.measured)
    if measured:
        made = [(table, query) for table, query, _ in known] + [(each.table, each.query) for each in measured]
        check_told(statements, made, planner.database.engines().schema_database)
    others = [other for each in statements for other in each.others]
    label = stored.name if part_name is None else f"{stored.name} ('{part_name}')"
    prepared = prepare_releases(planner, f"EXECUTE REPORT {label}", text.digest, measured, others)
    own_part = None if part is None else PartSet.of((part, part))
    anew = not text.plans and not any(
        each.parts is None or own_part is None or each.parts & own_part for each in releases
    )
    number = stored.number if measured or anew else None
    return PlannedRun(
        text,
        number,
        tuple(statements),
        tuple(measured),
        tuple(known),
        frozenset(of_other_rows),
        missing_of_all or None,
        prepared,
    )


def _find_same(
    planner: Planner, statements: Sequence[ReportStatement], table: str
) -> frozenset[tuple[str, str]]:
    """Return what `data_of` has of releases of the rows of a table that statements read now."""
    plans = (linear.plan for each in statements for linear in each.estimated if linear.table.name == table)
    versions = planner.database.engines().versions
    return frozenset().union(*(find_same_data(plan, planner.policy, versions) for plan in plans))


def _part_of(planner: Planner, text: ReportText, name: str | None) -> tuple[Calendar | None, int | None]:
    """Return the part that a name means."""
    declared = planner.policy.unit_parts
    if text.every is None:
        if name is not None:
            raise ProgrammingError(f"report {text.name} has no parts: run it without one")
        return None, None
    parts = planner.database.ledger.parts
    if declared is None or parts is None or parts.declared != text.declared:
        raise OperationalError(f"units are in other parts than when report {text.name} was registered")
    calendar = Calendar(declared.period)
    example = calendar.name(calendar.number(_today()) - 1)
    if name is None:
        raise ProgrammingError(f"report {text.name} is run for a {text.every}, such as {example}")
    part = calendar.parse(name)
    if part is None:
        raise ProgrammingError(f"{name[:40]!r} is no {text.every}; write it as {example}")
    if part >= calendar.number(_today()):
        raise OperationalError(
            f"{text.every} {name} is not over, and a report measures it once; nothing was charged"
        )
    return calendar, part


def _check_closed(planner: Planner, calendar: Calendar, part: int, needed: PartSet) -> None:
    """Refuse a part that may still change: it would be measured for good."""
    declared, today = planner.policy.unit_parts, _today()
    assert declared is not None  # noqa: S101  units are in parts
    if declared.days_until_closed is not None and not needed <= declared.closed_parts(today):
        raise OperationalError(
            f"{declared.period} {calendar.name(part)} counts as closed {declared.closed_after} after its end,"
            " and a report measures it once; nothing was charged"
        )


def _today() -> date:
    return datetime.now(UTC).date()


def share_of(planner: Planner, share: Fraction) -> Fraction:
    """Return the epsilon that is a share of each part's budget."""
    if not 0 < share <= 1:
        raise ProgrammingError("a share is above 0 and at most 1")
    return planner.policy.budget.epsilon * share
