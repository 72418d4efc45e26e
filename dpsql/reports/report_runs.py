"""A run of a registered report: what it measures now, what was measured before, and the price.

A run measures the part that it is for, earlier ones that its answers need and nobody measured, and the blocks
of parts that are over. Blocks make errors smaller, and no answer depends on them: where the budget does not
pay for them, a run is planned without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from dpsql.analysis import Catalog
from dpsql.composition.prepared import PreparedComposed
from dpsql.errors import OperationalError, ProgrammingError, with_article
from dpsql.estimates.noise_laws import Law, NoiseDraw
from dpsql.estimates.reports.marginal_estimate import Estimate, Undetermined
from dpsql.estimates.reports.marginals import Marginal, ReleasedMarginal
from dpsql.kernel.loss import Charge
from dpsql.kernel.unit_parts import NO_PARTS, Calendar, PartSet
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger import Ledger, StoredReport
from dpsql.ledger.listing import ReportRelease
from dpsql.policy import Policy
from dpsql.release.reuse import data_of, find_same_data
from dpsql.reports.measured import MeasuredQuery, list_parts, universe_of
from dpsql.reports.measurement_plan import Block, Measured, TablePlan, measure, query_of
from dpsql.reports.planned import ReportStatement, parts_needed, prepare_releases, read_statements
from dpsql.reports.registered import ReportText, read_today

if TYPE_CHECKING:
    from dpsql.composition.planner import Planner


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRun:
    """A run of a registered report that is planned and priced; nothing was charged."""

    text: ReportText
    part: str | None
    """The part for which it is, by name."""
    numbers: tuple[int | None, ...]
    """For each release the number of the report for which it is made."""
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
    has_blocks: bool = False
    """Whether blocks of parts are measured now, without which it could run, too."""

    @property
    def price(self) -> Charge:
        """The charge of the run now; measurements that are stored cost nothing."""
        return Charge() if self.prepared is None else self.prepared.price


def plan_run(
    planner: Planner,
    stored: StoredReport,
    part_name: str | None,
    at_release: int | None = None,
    *,
    with_blocks: bool = True,
) -> PlannedRun:
    """Plan a run of a registered report for a part, which is over, or counts as closed.

    With `at_release` it measures nothing, and looks at releases up to that one alone: the same answer again.
    """
    text = ReportText.of(stored)
    calendar, part = _part_of(planner, text, part_name)
    own = None if part is None else PartSet.of((part, part))
    statements = read_statements(planner, text.texts, text.epsilon, text.parameters(calendar, part))
    _check_as_registered(text, statements, own)
    ledger = planner.database.ledger
    releases = _list_until(ledger.report_releases(stored), at_release)
    registered = {each.name: each for each, _ in ledger.reports() if each.analyst == stored.analyst}
    made, before = _Run(planner, text), 0
    for plan in text.plans:
        needed = parts_needed(statements, plan.table) or None
        if part is not None:
            assert needed is not None and own is not None and calendar is not None  # noqa: PT018, S101  it was registered so
            needed |= own
            _check_closed(planner, calendar, part, needed)
        same = _find_same(planner, statements, plan.table)
        after = before + len(plan.measured)
        theirs = [(each, each.place - 1 - before) for each in releases if before < each.place <= after]
        made.add_parts(plan, needed, theirs, same, stored.number)
        for name, (of, block) in text.blocks.items():
            if of is plan and name in registered and needed is not None:
                found = _list_until(ledger.report_releases(registered[name]), at_release)
                number = registered[name].number if with_blocks and at_release is None else None
                made.add_blocks(plan, block, needed, [(each, each.place - 1) for each in found], same, number)
        before = after
    measured = [each for each, _ in made.measured]
    if measured:
        told = [(table, query) for table, query, _ in made.known]
        told += [(each.table, each.query) for each in measured]
        check_told(statements, told, planner.policy, planner.database.engines().schema_database)
    others = [other for each in statements for other in each.others]
    label = stored.name if part_name is None else f"{stored.name} ('{part_name}')"
    prepared = prepare_releases(planner, f"EXECUTE REPORT {label}", text.digest, measured, others)
    anew = not text.plans and not any(
        each.parts is None or own is None or each.parts & own for each in releases
    )
    numbers = [number for _, number in made.measured]
    if at_release is not None:
        missing = calendar.words(made.parts) if calendar is not None and made.parts else "a statement"
        _check_told_by(ledger, stored.analyst, prepared, at_release, missing if measured else "")
    number = stored.number if stored.number in numbers or anew else None
    more = 0 if prepared is None else len(prepared.parts) - len(numbers)
    return PlannedRun(
        text,
        part_name,
        (*numbers, *[number] * more),
        tuple(statements),
        tuple(measured),
        tuple(made.known),
        frozenset(made.of_other_rows),
        made.parts or None,
        prepared,
        bool(made.of_blocks),
    )


def _check_told_by(
    ledger: Ledger, analyst: str, prepared: PreparedComposed | None, newest: int, missing: str
) -> None:
    """Raise unless releases up to a number tell all that a run needs; `missing` says what is not measured."""
    last = max((each.number for each in ledger.releases(analyst)), default=0)
    if newest > last:
        raise ProgrammingError(f"your newest release is {last}")
    there = None if prepared is None else ledger.numbers([each.key for each in prepared.parts], analyst)
    if prepared is not None and (missing or there is None or max(there) > newest):
        missing = missing or "a statement"
        raise OperationalError(f"not told by releases up to {newest}: {missing} was not measured then")


def _list_until(releases: Sequence[ReportRelease], newest: int | None) -> list[ReportRelease]:
    return [each for each in releases if newest is None or each.number <= newest]


@dataclass(slots=True, eq=False)
class _Run:
    """What a run measures, and what was measured before."""

    planner: Planner
    text: ReportText
    measured: list[tuple[Measured, int]] = field(default_factory=list)
    """Each with the number of the report for which it is."""
    known: list[tuple[str, MeasuredQuery, int]] = field(default_factory=list)
    of_other_rows: set[int] = field(default_factory=set)
    parts: PartSet = NO_PARTS
    """What is measured now."""
    of_blocks: int = 0
    """How many measurements are of blocks."""

    def add_parts(
        self,
        plan: TablePlan,
        needed: PartSet | None,
        releases: Sequence[tuple[ReportRelease, int]],
        same: frozenset[tuple[str, str]],
        number: int,
    ) -> None:
        """Add earlier measurements of a table's parts, and the missing ones, to be measured now."""
        done = NO_PARTS
        for each, place in releases:
            whole = each.parts if each.parts is not None else needed
            if whole is not None and needed is not None and not whole & needed:
                continue
            done |= NO_PARTS if whole is None else whole
            sets = None if whole is None else list_parts(whole)
            self._know(plan.table, plan.measured[place][0], sets, each, same)
        missing = None if needed is None else needed - done
        if (missing is None and not releases) or missing:
            sets = None if missing is None else list_parts(missing)
            self.measured += ((one, number) for one in measure(self.planner, plan, self.text.epsilon, sets))
            self.parts |= missing or NO_PARTS

    def add_blocks(
        self,
        plan: TablePlan,
        block: Block,
        needed: PartSet,
        releases: Sequence[tuple[ReportRelease, int]],
        same: frozenset[tuple[str, str]],
        number: int | None,
    ) -> None:
        """Add earlier measurements of finished blocks, and the missing ones, to be measured now."""
        over, done = block.list_within(needed), set[PartSet]()
        for each, place in releases:
            sets = block.list_within(each.parts)
            if {*sets} & {*over}:
                done |= {*sets}
                self._know(plan.table, block.measured[place][0], sets, each, same)
        rest = [each for each in over if each not in done]
        if rest and number is not None:
            found = measure(self.planner, plan, self.text.epsilon, rest, block)
            self.measured += ((one, number) for one in found)
            self.of_blocks += len(found)
            self.parts |= reduce(PartSet.__or__, rest)

    def _know(
        self,
        table: str,
        marginal: Marginal,
        sets: Sequence[PartSet] | None,
        release: ReportRelease,
        same: frozenset[tuple[str, str]],
    ) -> None:
        self.known.append((table, query_of(self.planner, table, marginal, sets), release.number))
        if data_of(release.key or "") not in same:
            self.of_other_rows.add(release.number)


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
    example = calendar.name(calendar.number(read_today()) - 1)
    if name is None:
        raise ProgrammingError(f"report {text.name} is run for {with_article(text.every)}, such as {example}")
    part = calendar.parse(name)
    if part is None:
        raise ProgrammingError(f"{name[:40]!r} is no {text.every}; write it as {example}")
    if part >= calendar.number(read_today()):
        raise OperationalError(
            f"{text.every} {name} is not over, and a report measures it once; nothing was charged"
        )
    return calendar, part


def _check_closed(planner: Planner, calendar: Calendar, part: int, needed: PartSet) -> None:
    """Refuse a part that may still change: it would be measured for good."""
    declared = planner.policy.unit_parts
    assert declared is not None  # noqa: S101  units are in parts
    if declared.days_until_closed is not None and not needed <= declared.closed_parts(read_today()):
        raise OperationalError(
            f"{declared.period} {calendar.name(part)} counts as closed {declared.closed_after} after its end,"
            " and a report measures it once; nothing was charged"
        )


def check_told(
    statements: Sequence[ReportStatement],
    measured: Sequence[tuple[str, MeasuredQuery]],
    policy: Policy,
    catalog: Catalog,
) -> None:
    """Raise unless the planned measurements determine every number of a report's statements.

    Which numbers follow depends on what is measured, never on what is released: so the same estimate says it
    with noise of any size. They do not where values were declared later, or the estimate leaves out a release
    that is too large.
    """
    estimates = {table: _estimate(table, measured, policy, catalog) for table, _ in measured}
    for place, statement in enumerate(statements, 1):
        for linear in statement.estimated:
            for wanted in dict.fromkeys(number.wanted for number in linear.numbers):
                found = estimates[linear.table.name].variances(wanted)
                if isinstance(found, Undetermined):
                    raise OperationalError(
                        f"what is measured does not tell the numbers of statement {place}; missing:"
                        f" {found.text}; nothing was charged"
                    )


def _estimate(
    table: str, measured: Sequence[tuple[str, MeasuredQuery]], policy: Policy, catalog: Catalog
) -> Estimate:
    made = [
        ReleasedMarginal(i, each.marginal, np.zeros(each.marginal.size), NoiseDraw(Law("laplace"), 1.0))
        for i, (name, each) in enumerate(measured)
        if name == table
    ]
    return Estimate.of(made, universe_of([each.marginal for each in made], table, policy, catalog))
