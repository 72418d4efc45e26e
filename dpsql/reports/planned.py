"""A report: statements that are fixed before their first answer, what is measured for them, and the price.

Each statement has an equal share of the report's epsilon. The shares of all releases that are linear in the
cells of one table are put together, and buy measurements from which all of them are estimated
(`estimates.reports`). What is not linear stays out: it is released as ever, at its own share.

Everything here follows from the text of the statements and from the policy: no private row is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, Any

from dpsql.analysis import is_private
from dpsql.analysis.epsilon_division import EpsilonDivision, divide_epsilon
from dpsql.composition.prepared import PreparedComposed, PreparedPrivate, PreparedPublic, scopes
from dpsql.errors import InternalError, QueryRefused
from dpsql.estimates.reports.marginals import Marginal
from dpsql.estimates.reports.report_plan import Plan as Measurements
from dpsql.estimates.reports.report_plan import Wanted, plan_report
from dpsql.kernel.loss import Charge
from dpsql.kernel.unit_parts import PartSet, either_parts
from dpsql.language import Query
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Table
from dpsql.reports.axes import LinearRelease, linear_release
from dpsql.reports.linear_releases import StaysOutError, cell_sums_of
from dpsql.reports.measured import MeasuredQuery, measured_query

if TYPE_CHECKING:
    from dpsql.composition.planner import Planner

_STEPS = 1000
"""Shares of several tables are multiples of one over this."""


@dataclass(frozen=True, slots=True, eq=False)
class ReportStatement:
    """A statement of a report, with what an estimate answers of it."""

    prepared: PreparedPrivate | PreparedComposed | PreparedPublic
    linear: tuple[LinearRelease | str, ...]
    """For each of its releases: the sums over cells that it is, or why it is none."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why releases stay out of the estimate, each once."""
        return tuple(dict.fromkeys(each for each in self.linear if isinstance(each, str)))


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """The releases of one table, and what is measured for them."""

    table: Table
    measured: tuple[Measured, ...]
    deviation: float
    """The predicted root of the mean variance of a number, of the mean over statements."""
    even: float
    """The same if each statement were answered alone, with equal shares."""
    parts: PartSet | None


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """A marginal that is measured: its statement, and its share of the report."""

    query: MeasuredQuery
    prepared: PreparedPrivate
    share: Fraction


@dataclass(frozen=True, slots=True, eq=False)
class PlannedReport:
    """A report that is planned and priced; nothing was charged."""

    text: str
    digest: str
    epsilon: Fraction
    statements: tuple[ReportStatement, ...]
    families: tuple[Family, ...]
    prepared: PreparedComposed | None
    """All that is released for it, under one reservation; None: it reads nothing private."""

    @property
    def measured(self) -> tuple[Measured, ...]:
        """What is measured, in the order of its releases: they come before those that stay out."""
        return tuple(each for family in self.families for each in family.measured)

    @property
    def price(self) -> Charge:
        """What it costs now: what is stored costs nothing."""
        return Charge() if self.prepared is None else self.prepared.price


    def words(self) -> list[str]:
        """Say what is measured, what stays out, and what errors are predicted, in sentences."""
        found = []
        for family in self.families:
            what = ", ".join(
                f"{each.query.marginal.describe()} ({round(100 * each.share / _share(family))}%)"
                for each in family.measured
            )
            found.append(
                f"{family.table.name} is measured {what}; the predicted error is {family.deviation:.3g},"
                f" and {family.even:.3g} if each statement were answered alone"
            )
        for place, statement in enumerate(self.statements, 1):
            for reason in statement.reasons:
                epsilon = sum((part.full_price.epsilon for part in others_of(statement)), Fraction(0))
                found.append(f"statement {place} stays out of the estimate: it {reason} (epsilon {float(epsilon):.3g})")
        return found


def _share(family: Family) -> Fraction:
    return sum((each.share for each in family.measured), Fraction(0))


def round_down(epsilon: Fraction) -> Fraction:
    """Return an epsilon of 9 decimals: ledgers by parts of units round amounts of more than 12 up."""
    return Fraction(floor(epsilon * 10**9), 10**9)


def digest_of(texts: Sequence[str], epsilon: Fraction, *more: str) -> str:
    """Return what tells a report from every other one: its statements, in order, and its epsilon.

    What is measured for one report is stored under it, and no other report or statement finds it: an estimate
    is of numbers whose noise had no influence on what else was asked.
    """
    return hashlib.sha256(json.dumps([*texts, str(epsilon), *more]).encode()).hexdigest()


def plan_statements(planner: Planner, texts: Sequence[str], epsilon: Fraction) -> PlannedReport:
    """Plan the statements of a report that is run once; refuse what no report can have."""
    digest = digest_of(texts, epsilon)
    queries = [_parsed(planner, text, i) for i, text in enumerate(texts, 1)]
    count = sum(is_private(query, planner.policy) for query in queries)
    sharing = replace(
        planner, defaults=replace(planner.defaults, epsilon=round_down(epsilon / max(count, 1)), error=None)
    )
    statements = [
        _statement(sharing, text, query, i) for i, (text, query) in enumerate(zip(texts, queries, strict=True), 1)
    ]
    text = ";\n".join(texts)
    if not count:
        return PlannedReport(text, digest, epsilon, tuple(statements), (), None)
    families = _families(planner, statements, epsilon, count)
    measured = [each.prepared for family in families for each in family.measured]
    out = {part.key: part for each in statements for part in others_of(each)}
    parts = (*(_for_report(part, digest) for part in measured), *out.values())
    made = PreparedComposed(text, parts[0].query, parts, (), "", "", (), (), ())
    priced = planner.priced(made)
    assert isinstance(priced, PreparedComposed)  # noqa: S101  as it was
    return PlannedReport(text, digest, epsilon, tuple(statements), tuple(families), priced)


def others_of(statement: ReportStatement) -> list[PreparedPrivate]:
    """Return the releases of a statement that stay out of the estimate."""
    parts = () if isinstance(statement.prepared, PreparedPublic) else statement.prepared.parts
    return [part for part, linear in zip(parts, statement.linear, strict=True) if isinstance(linear, str)]


def _parsed(planner: Planner, text: str, number: int) -> Query:
    statement = planner.parsed(text)
    if not isinstance(statement, Query):
        raise QueryRefused(f"statement {number} of a report is no SELECT", hint="run it by itself")
    options = statement.options
    for name in ("epsilon", "error", "fresh", "price"):
        if getattr(options, name) is not None:
            raise QueryRefused(
                f"statement {number} names its {name}, but a report has one epsilon for all statements",
                hint=f"leave {name} out of its OPTIONS, or run it by itself",
            )
    return statement


def _statement(planner: Planner, text: str, query: Query, number: int) -> ReportStatement:
    engines = planner.database.engines()
    prepared = planner.query(text, query, engines)
    if isinstance(prepared, PreparedPublic):
        return ReportStatement(prepared, ())
    if any(part.values for part in prepared.parts):
        raise QueryRefused(
            f"statement {number} reads values of one of its releases in another, which a report does not do",
            hint="run it by itself",
        )
    linear: list[LinearRelease | str] = []
    for part in prepared.parts:
        catalog = engines.schema_database
        try:
            made = cell_sums_of(part.plan, planner.policy, catalog)
            linear.append(linear_release(part.plan, made, planner.policy, catalog))
        except StaysOutError as out:
            linear.append(str(out))
    return ReportStatement(prepared, tuple(linear))


def _families(
    planner: Planner, statements: Sequence[ReportStatement], epsilon: Fraction, count: int
) -> list[Family]:
    """Divide what linear releases may cost among what is measured of each table."""
    found: dict[str, list[tuple[LinearRelease, Fraction]]] = {}
    pool = Fraction(0)
    for each in statements:
        for linear in each.linear:
            if isinstance(linear, LinearRelease):
                share = Fraction(1, count * len(each.linear))
                found.setdefault(linear.table.name, []).append((linear, share))
                pool += share
    ways = _ways(planner, epsilon)
    best: list[Family] | None = None
    least = float("inf")
    for way, layout in ways:
        plans = {name: _plan(own, way) for name, own in found.items()}
        shares = _shares({name: (sum(s for _, s in found[name]), plan) for name, plan in plans.items()}, pool, way)
        error = sum(
            float(sum(s for _, s in found[name])) * _variance(plan, shares[name], layout, way)
            for name, plan in plans.items()
        )
        if error < least:
            least = error
            best = [
                _family(planner, found[name], plan, shares[name], layout, way) for name, plan in plans.items()
            ]
    return best or []


def _ways(planner: Planner, epsilon: Fraction) -> list[tuple[str, EpsilonDivision]]:
    """Return how the epsilon may be divided: itself, or what it costs at an order."""
    filters = scopes(planner.policy, planner.analyst)
    found = [("pure", EpsilonDivision(epsilon))]
    if filters and all(each.order_way is not None for each in filters):
        found.append(("gaussian", divide_epsilon(epsilon, *filters, accounting="order")))
    return found


def _plan(releases: Sequence[tuple[LinearRelease, Fraction]], way: Any) -> Measurements:  # noqa: ANN401
    wanted = []
    for linear, share in releases:
        sets = list(dict.fromkeys(number.wanted for number in linear.numbers))
        wanted += [Wanted(each, 1, share / len(sets)) for each in sets]
    return plan_report(wanted, way=way)


def _mean_variance(plan: Measurements) -> float:
    return sum(each * each for each in plan.deviations) / len(plan.deviations)


def _variance(plan: Measurements, share: Fraction, layout: EpsilonDivision, way: str) -> float:
    if way == "pure":
        return _mean_variance(plan) / float(share * layout.epsilon) ** 2
    rho = layout.gaussian_rho(share)
    return _mean_variance(plan) / float(rho) if rho else float("inf")


def _shares(
    plans: dict[str, tuple[Fraction, Measurements]], pool: Fraction, way: str
) -> dict[str, Fraction]:
    """Divide a share among tables so that the mean variance over statements is least.

    With n statements of variance V at the whole, sum n V / s^2 is least for s ~ (n V)^(1/3), and sum n V / s
    for s ~ (n V)^(1/2).
    """
    power = 1 / 3 if way == "pure" else 1 / 2
    raw = {name: (float(weight) * _mean_variance(plan)) ** power for name, (weight, plan) in plans.items()}
    total = sum(raw.values())
    steps = {name: max(1, round(_STEPS * each / total)) for name, each in raw.items()}
    return {name: pool * Fraction(each, sum(steps.values())) for name, each in steps.items()}


def _family(
    planner: Planner,
    releases: Sequence[tuple[LinearRelease, Fraction]],
    plan: Measurements,
    share: Fraction,
    layout: EpsilonDivision,
    way: str,
) -> Family:
    table, catalog = releases[0][0].table, planner.database.engines().schema_database
    parts: PartSet | None = PartSet(())
    for linear, _ in releases:
        parts = either_parts(parts, linear.parts)
    size = float(share * layout.epsilon) if way == "pure" else float(layout.gaussian_rho(share) or 0) ** 0.5
    measured = []
    for candidate, part_of in plan.shares:
        query = _whole_query(candidate.marginal, table, planner, catalog, parts)
        own = share * part_of
        measured.append(Measured(query, _prepare(planner, query, own, layout, way), own))
    even = (sum(each * each for each in plan.even) / len(plan.even)) ** 0.5
    return Family(table, tuple(measured), _mean_variance(plan) ** 0.5 / size, even / size, parts)


def _whole_query(
    marginal: Marginal, table: Table, planner: Planner, catalog: Any, parts: PartSet | None  # noqa: ANN401
) -> MeasuredQuery:
    return measured_query(marginal, table, planner.policy, catalog, parts)


def _prepare(
    planner: Planner, query: MeasuredQuery, share: Fraction, layout: EpsilonDivision, way: str
) -> PreparedPrivate:
    """Prepare the statement that measures a marginal; it must be a plain measurement."""
    parsed = planner.parsed(query.text)
    assert isinstance(parsed, Query)  # noqa: S101  it was written so
    own = round_down(layout.epsilon_of(share))
    more: dict[str, Any] = {"epsilon": own, "noise": "LAPLACE" if way == "pure" else "GAUSSIAN"}
    if scopes(planner.policy, planner.analyst):
        more |= {"layout": "BASIC"} if way == "pure" else {"layout": "ORDER", "price": layout.epsilon * share}
    made = planner.query(query.text, replace(parsed, options=replace(parsed.options, **more)), planner.database.engines())
    if not isinstance(made, PreparedPrivate) or made.plan.outside or made.plan.groups_kept is not None:
        raise InternalError("what a report measures is a plain measurement")
    return made


def _for_report(part: PreparedPrivate, digest: str) -> PreparedPrivate:
    """Return a release whose answer no other report and no statement finds again."""
    question, *rest = part.key.split(".")
    salted = hashlib.sha256(f"{digest} {question}".encode()).hexdigest()[: len(question)]
    return replace(part, key=".".join([salted, *rest]))


