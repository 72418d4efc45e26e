"""A report that is planned: what its statements are, what is measured for them, and the price.

Everything here follows from the text of the statements and from the policy: no private row is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING

from dpsql.analysis import is_private
from dpsql.composition.prepared import PreparedComposed, PreparedPrivate, PreparedPublic
from dpsql.errors import ProgrammingError, QueryRefused
from dpsql.estimates.reports.report_plan import Per
from dpsql.kernel.loss import Charge
from dpsql.kernel.unit_parts import PartSet, either_parts
from dpsql.language import Query
from dpsql.language.options import MAX_EPSILON, MIN_EPSILON
from dpsql.lazy_dataclass import dataclass
from dpsql.reports.axes import LinearRelease, linear_release
from dpsql.reports.linear_releases import StaysOutError, cell_sums_of
from dpsql.reports.measured import list_parts
from dpsql.reports.measurement_plan import (
    Measured,
    TablePlan,
    WantedNumbers,
    measure,
    plan_tables,
    round_down,
)
from dpsql.reports.shown_sums import find_shown

if TYPE_CHECKING:
    from dpsql.composition.planner import Planner


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

    @property
    def others(self) -> list[PreparedPrivate]:
        """The releases of the statement that stay out of the report's estimate."""
        parts = () if isinstance(self.prepared, PreparedPublic) else self.prepared.parts
        return [part for part, linear in zip(parts, self.linear, strict=True) if isinstance(linear, str)]

    @property
    def estimated(self) -> list[LinearRelease]:
        """The releases of the statement that the report's estimate answers."""
        return [each for each in self.linear if isinstance(each, LinearRelease)]


@dataclass(frozen=True, slots=True, eq=False)
class PlannedReport:
    """A report that is planned and priced; nothing was charged."""

    text: str
    digest: str
    statements: tuple[ReportStatement, ...]
    plans: tuple[TablePlan, ...]
    measured: tuple[Measured, ...]
    """What is measured, in the order of the releases: they come before those that stay out."""
    prepared: PreparedComposed | None
    """All that is released for it, under one reservation; None: nothing is."""

    @property
    def price(self) -> Charge:
        """The charge of running the report now; measurements that are stored cost nothing."""
        return Charge() if self.prepared is None else self.prepared.price

    def words(self) -> list[str]:
        """Say what is measured, what stays out, and what errors are predicted, in sentences."""
        return [*(plan.words() for plan in self.plans), *words_of_others(self.statements)]


def words_of_others(statements: Sequence[ReportStatement]) -> list[str]:
    """Say which statements stay out of the estimate, and why."""
    found = []
    for place, statement in enumerate(statements, 1):
        epsilon = sum((part.full_price.epsilon for part in statement.others), Fraction(0))
        found += [
            f"statement {place} stays out of the estimate, at epsilon {float(epsilon):.3g}: it {reason}"
            for reason in statement.reasons
        ]
    return found


def digest_of(texts: Sequence[str], epsilon: Fraction, *more: str) -> str:
    """Return a hash that identifies a report by its statements, in order, and its epsilon.

    What is measured for one report is stored under it, and no other report or statement finds it: an estimate
    is of numbers whose noise had no influence on what else was asked.
    """
    return hashlib.sha256(json.dumps([*texts, str(epsilon), *more]).encode()).hexdigest()


def plan_statements(
    planner: Planner, texts: Sequence[str], epsilon: Fraction, per: Per = "STATEMENT"
) -> PlannedReport:
    """Plan the statements of a report that is run once; refuse what no report can have."""
    digest, text = digest_of(texts, epsilon, per), ";\n".join(texts)
    statements = read_statements(planner, texts, epsilon)
    wanted = list_wanted(statements)
    plans = plan_tables(planner, wanted, epsilon, per) if wanted else ()
    measured: list[Measured] = []
    for plan in plans:
        parts = [each.linear.parts for each in wanted if each.linear.table.name == plan.table]
        together = reduce(either_parts, parts)
        measured += measure(planner, plan, epsilon, None if together is None else list_parts(together))
    others = [part for each in statements for part in each.others]
    prepared = prepare_releases(planner, text, digest, measured, others)
    return PlannedReport(text, digest, tuple(statements), plans, tuple(measured), prepared)


def prepare_releases(
    planner: Planner, text: str, digest: str, measured: Iterable[Measured], others: Iterable[PreparedPrivate]
) -> PreparedComposed | None:
    """Return all that is released for a report as one statement, with its price now; None: nothing is."""
    own = [_for_report(each.prepared, digest) for each in measured]
    parts = (*own, *{part.key: part for part in others}.values())
    if not parts:
        return None
    priced = planner.priced(PreparedComposed(text, parts[0].query, parts, (), "", "", (), (), ()))
    assert isinstance(priced, PreparedComposed)  # noqa: S101  as it was
    return priced


def list_wanted(
    statements: Sequence[ReportStatement],
    windows: Mapping[int, int | None] | None = None,
    within: Callable[[LinearRelease], str | None] = lambda _: None,
) -> list[WantedNumbers]:
    """Return what statements show of linear releases, each statement with an equal share.

    Of a report with parts, `windows` has how many parts each release adds up, and `within` names the column
    that divides units into parts.
    """
    private = [each for each in statements if each.linear]
    return [
        WantedNumbers(
            linear,
            Fraction(1, len(private) * len(each.linear)),
            1 if windows is None else windows[id(linear)],
            within(linear),
            shown,
        )
        for each in private
        for linear, shown in zip(each.linear, find_shown(each.prepared, each.linear), strict=True)
        if isinstance(linear, LinearRelease)
    ]


def read_statements(
    planner: Planner,
    texts: Sequence[str],
    epsilon: Fraction,
    parameters: Mapping[str, object] | None = None,
) -> list[ReportStatement]:
    """Analyse the statements of a report, which have equal shares of an epsilon."""
    if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
        least, most = f"{float(MIN_EPSILON):g}", f"{int(MAX_EPSILON):,}"
        raise ProgrammingError(f"the epsilon of a report must lie between {least} and {most}")
    queries = [_parse(planner, text, i, parameters) for i, text in enumerate(texts, 1)]
    count = sum(is_private(query, planner.policy) for query in queries)
    own = round_down(epsilon / max(count, 1))
    sharing = replace(planner, defaults=replace(planner.defaults, epsilon=own, error=None))
    pairs = zip(texts, queries, strict=True)
    return [_read(sharing, text, query, i) for i, (text, query) in enumerate(pairs, 1)]


def _parse(planner: Planner, text: str, number: int, parameters: Mapping[str, object] | None) -> Query:
    statement = planner.parsed(text, parameters)
    if not isinstance(statement, Query):
        raise QueryRefused(f"statement {number} of a report is no SELECT", hint="run it by itself")
    for name in ("epsilon", "error", "fresh"):
        if getattr(statement.options, name) is not None:
            raise QueryRefused(
                f"statement {number} names its {name}, but a report has one epsilon for all statements",
                hint=f"leave {name} out of its OPTIONS, or run it by itself",
            )
    if statement.options.combine == "ONLY":
        raise QueryRefused(
            f"statement {number} has combine = ONLY, but a report answers from its own releases",
            hint="leave combine out of its OPTIONS, or run it by itself",
        )
    return statement


def _read(planner: Planner, text: str, query: Query, number: int) -> ReportStatement:
    """Analyse a statement; refuse one with `combine = TRUE` that the estimate does not answer."""
    options = query.options
    if options.combine is None:
        return _statement(planner, text, query, number)
    found = _statement(planner, text, replace(query, options=replace(options, combine=None)), number)
    if found.reasons:
        raise query.source.refuse(
            f"statement {number} has combine = TRUE, but it {found.reasons[0]}",
            options.at.get("combine"),
            "leave combine out, so that it is released by itself",
        )
    return found


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
            made = cell_sums_of(part.plan, planner.policy)
            linear.append(linear_release(part.plan, made, planner.policy, catalog))
        except StaysOutError as out:
            linear.append(str(out))
    return ReportStatement(prepared, tuple(linear))


def _for_report(part: PreparedPrivate, digest: str) -> PreparedPrivate:
    """Return a release whose answer no other report and no statement finds again."""
    question, *rest = part.key.split(".")
    salted = hashlib.sha256(f"{digest} {question}".encode()).hexdigest()[: len(question)]
    return replace(part, key=".".join([salted, *rest]))


def parts_needed(statements: Sequence[ReportStatement], table: str) -> PartSet:
    """Return the parts of units of which statements add up rows of a table."""
    found = PartSet(())
    for each in statements:
        for linear in each.estimated:
            if linear.table.name == table and linear.parts is not None:
                found |= linear.parts
    return found
