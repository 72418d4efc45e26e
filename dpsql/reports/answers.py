"""The answers of a report: one estimate of all that was measured, and each statement computed from it.

It is post-processing: it reads releases, the policy and public tables alone, and costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from dpsql.analysis import Catalog, Plan
from dpsql.composition.composed_statements import run_composed
from dpsql.composition.prepared import PreparedPrivate, PreparedPublic
from dpsql.composition.release_words import words_of_release
from dpsql.errors import InternalError, OperationalError
from dpsql.estimates import Average, Combined, Formula, RowCount, SumOfRows
from dpsql.estimates.moments import enclose_ratio
from dpsql.estimates.noise_laws import Weighted
from dpsql.estimates.noise_quantiles import gaussian_half_width
from dpsql.estimates.number_noises import Made, NumberNoise, Quotient
from dpsql.estimates.reports.column_atoms import FloatArray
from dpsql.estimates.reports.marginal_estimate import Estimate, Undetermined
from dpsql.estimates.reports.marginals import Marginal
from dpsql.kernel.loss import Charge
from dpsql.lazy_dataclass import dataclass
from dpsql.planning import NoisyResult, build_details, build_rows, ends_at_once, outside_of
from dpsql.planning.plan_requests import is_simultaneous, level_at_once
from dpsql.policy import Policy
from dpsql.release import COMPUTED, Release
from dpsql.reports.axes import LinearRelease, Numbers, PublicRows
from dpsql.reports.measured import MeasuredQuery, universe_of
from dpsql.reports.planned import PlannedReport, ReportStatement
from dpsql.reports.report_runs import PlannedRun
from dpsql.session_api import StatementResult

_LEAST, _FEWEST = 0.5, 3
"""The least number of rows that has an average, and in standard deviations the least that tells its error."""
_NAMED = 12
"""So many releases are named by their numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class TableEstimate:
    """The estimate of all that was measured of a table for a report, and these releases."""

    estimate: Estimate
    releases: tuple[Release, ...]

    @classmethod
    def of(
        cls,
        table: str,
        measured: Sequence[tuple[MeasuredQuery, Release]],
        digest: str,
        policy: Policy,
        catalog: Catalog,
    ) -> TableEstimate:
        """Return the estimate of a table from what its measurements have shown."""
        made = [query.read(release, digest) for query, release in measured]
        universe = universe_of([each.marginal for each in made], table, policy, catalog)
        return cls(Estimate.of(made, universe), tuple(release for _, release in measured))


def answer_report(
    planned: PlannedReport, releases: Sequence[Release], policy: Policy
) -> list[StatementResult]:
    """Return the answer of each statement, given what was released for the report."""
    shown = releases[: len(planned.measured)]
    estimates = {}
    for table in dict.fromkeys(each.table for each in planned.measured):
        pairs = zip(planned.measured, shown, strict=True)
        own = [(each.query, release) for each, release in pairs if each.table == table]
        catalog = planned.measured[0].prepared.engines.schema_database
        estimates[table] = TableEstimate.of(table, own, planned.digest, policy, catalog)
    rest = () if planned.prepared is None else planned.prepared.parts[len(shown) :]
    others = {part.key: release for part, release in zip(rest, releases[len(shown) :], strict=True)}
    return [answer_statement(each, estimates, others) for each in planned.statements]


def answer_run(
    planned: PlannedRun,
    releases: Sequence[Release],
    read: Callable[[int], Release],
    policy: Policy,
    catalog: Catalog,
) -> list[StatementResult]:
    """Return the answers of a run of a registered report, given what was released in it.

    `read` returns an earlier release by its number.
    """
    own = list(zip(planned.measured, releases, strict=False))
    estimates = {}
    for plan in planned.text.plans:
        made = [(query, read(number)) for table, query, number in planned.known if table == plan.table]
        made += [(each.query, release) for each, release in own if each.table == plan.table]
        estimates[plan.table] = TableEstimate.of(plan.table, made, planned.text.digest, policy, catalog)
    rest = () if planned.prepared is None else planned.prepared.parts[len(own) :]
    others = {part.key: release for part, release in zip(rest, releases[len(own) :], strict=True)}
    old = planned.of_other_rows
    return [answer_statement(each, estimates, others, old) for each in planned.statements]


def answer_statement(
    statement: ReportStatement,
    estimates: Mapping[str, TableEstimate],
    others: Mapping[str, Release],
    of_other_rows: frozenset[int] = frozenset(),
) -> StatementResult:
    """Return the answer of one statement: from the estimates of tables, and from releases that stay out.

    It says which releases were measured before the data or the policy changed.
    """
    prepared = statement.prepared
    if isinstance(prepared, PreparedPublic):
        return StatementResult(prepared.engines.schema_database.run(prepared.sql, prepared.text))
    composed = not isinstance(prepared, PreparedPrivate)
    parts = tuple(
        others[part.key]
        if isinstance(linear, str)
        else _release_estimates(part, linear, estimates[linear.table.name], of_other_rows, composed=composed)
        for part, linear in zip(prepared.parts, statement.linear, strict=True)
    )
    release = parts[0] if isinstance(prepared, PreparedPrivate) else run_composed(prepared, parts)
    if statement.others:
        release = replace(release, warnings=(*release.warnings, *_why(statement)))
    return StatementResult(release.rows, release)


def _why(statement: ReportStatement) -> list[str]:
    return [f"not from the estimate of the report: it {reason}" for reason in statement.reasons]


def _release_estimates(
    part: PreparedPrivate,
    linear: LinearRelease,
    of: TableEstimate,
    of_other_rows: frozenset[int],
    *,
    composed: bool,
) -> Release:
    """Return a release whose numbers are those of an estimate.

    `composed`: SQL over it computes other numbers, and may choose by them what is shown.
    """
    plan = part.plan
    level = float(plan.options.confidence or Fraction(95, 100))
    used = set[int]()
    at_once = float(level_at_once(plan, linear.size))
    level = at_once if is_simultaneous(plan) else level
    wide = at_once if composed else level
    numbers = tuple(_combine_numbers(number, of.estimate, level, wide, used) for number in linear.numbers)
    counts, values = _compute_formulas(plan, linear, numbers, level, wide)
    rows = linear.rows
    beyond = None
    if linear.outside is not None:
        apart = tuple(_add_numbers(each, of.estimate, level, used) for each in linear.outside)
        more = _compute_formulas(plan, linear, apart, level, level)
        beyond = NoisyResult(PublicRows((), 1), *more)  # type: ignore[arg-type]  # as below
    answer = NoisyResult(rows, counts, values, outside=beyond)  # type: ignore[arg-type]  # rows that no step has made
    shown = build_rows(plan, answer, rows)
    table, places = build_details(plan, answer, shown)
    said = words_of_release(plan, part.method)
    said["mechanism"] = "one least-squares estimate"
    said["properties"] = {**said["properties"], COMPUTED: computed_words(used)}
    old = sorted(used & of_other_rows)
    if old:
        said["warnings"] = (
            *said["warnings"],
            f"{computed_words(old)}, measured before the data or the policy changed: the intervals are of the"
            " rows as they were",
        )
    said["guarantee"] = "; ".join(dict.fromkeys(each.guarantee for each in of.releases))
    return Release(
        rows=shown,
        table=table,
        places=places,
        charge=Charge(),
        statement=part.text,
        scale=0.0,
        outside=outside_of(plan, answer),
        together=ends_at_once(plan, answer, places) if wide > level else None,
        noises=find_noises(plan, linear, numbers, of.estimate) if composed else None,
        receipt=of.releases[0].receipt,
        **said,
    )


def computed_words(releases: Collection[int]) -> str:
    """Return the words that name the releases from which an answer is computed.

    >>> computed_words({3}), computed_words({1, 2, 4}), computed_words(range(2, 60))
    ('computed from release 3', 'computed from releases 1, 2, 4', 'computed from 58 releases, 2 to 59')
    """
    if len(releases) > _NAMED:
        return f"computed from {len(releases)} releases, {min(releases)} to {max(releases)}"
    return f"computed from release{'s' * (len(releases) != 1)} {', '.join(map(str, sorted(releases)))}"


def _compute_formulas(
    plan: Plan, linear: LinearRelease, numbers: Sequence[Combined], level: float, wide: float
) -> tuple[tuple[Combined, ...], dict[tuple[tuple[int, ...], Formula], Combined]]:
    """Return the counts of a plan, and the sums and averages of zeros and ones that follow from numbers."""
    found: dict[tuple[tuple[int, ...], Formula], Combined] = {}
    for each in linear.formulas:
        rows, ones, zeros = (numbers[place] for place in (each.rows, each.ones, each.uses[0]))
        match each.formula:
            case RowCount():
                value = rows
            case SumOfRows(high=high):
                value = ones.scale(float(high))
            case Average(low=low, high=high):
                value = _average(rows, ones, zeros, level, float(low), float(high - low))
                if wide > level:
                    value = value.at_once(_average(rows, ones, zeros, wide, float(low), float(high - low)))
            case _:
                raise InternalError("a formula that no estimate answers")
        found[each.uses, each.formula] = value
    return tuple(numbers[: len(plan.counts)]), found


def _average(
    rows: Combined, ones: Combined, zeros: Combined, level: float, low: float, width: float
) -> Combined:
    """Return the average of values that are `low`, or `width` above it, with Fieller's interval.

    The half-width of `ones` - p `rows` is its standard deviation times the larger of the factors of normal
    and of Laplace noise, between which those of their sums lie.
    """
    one, zero, every = (np.square(each.stddev) for each in (ones, zeros, rows))
    both = (every - one - zero) / 2
    factor = max(gaussian_half_width(1.0, level), -math.log1p(-level) / math.sqrt(2))

    def deviate(p: FloatArray) -> FloatArray:
        squares = (1 - p) ** 2 * one + p**2 * zero - 2 * p * (1 - p) * both
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)))

    there = np.where(rows.value < _LEAST, np.nan, rows.value)
    share = np.clip(ones.value / there, 0, 1)
    least, most = enclose_ratio(ones.value, there, lambda p: factor * deviate(p))
    error = np.where(there < _FEWEST * rows.stddev, np.nan, deviate(share) / there)
    return Combined(low + width * share, width * error, low + width * least, low + width * most)


def _add_numbers(wanted: Sequence[Marginal], estimate: Estimate, level: float, used: set[int]) -> Combined:
    """Return the sum of single numbers of an estimate, with an interval that covers at least at a level.

    How their errors go together is not asked for: standard deviations are added, and half-widths, each of an
    interval that misses with its part of the probability.
    """
    total = np.zeros((4, 1))
    for each in wanted:
        found = estimate.answer(each, 1 - (1 - level) / len(wanted))
        if isinstance(found, Undetermined):
            raise OperationalError(f"what was released does not tell this number; missing: {found.text}")
        used.update(found.releases)
        total += np.array([found.values, found.stddev, found.low, found.high]).reshape(4, 1)
    return Combined(*total)


def _combine_numbers(
    number: Numbers, estimate: Estimate, level: float, wide: float, used: set[int]
) -> Combined:
    """Return the numbers with their intervals, and with those that hold for all of them at once."""
    found = estimate.answer(number.wanted, level)
    if isinstance(found, Undetermined):
        raise OperationalError(f"what was released does not tell this number; missing: {found.text}")
    used.update(found.releases)
    wider = found if wide == level else estimate.answer(number.wanted, wide)
    assert not isinstance(wider, Undetermined)  # noqa: S101  it is told at any level
    there = number.places >= 0
    places = np.maximum(number.places, 0)
    value, stddev, low, high, least, most = (
        np.where(there, each.ravel()[places], 0.0).astype(np.float64)
        for each in (found.values, found.stddev, found.low, found.high, wider.low, wider.high)
    )
    return Combined(value, stddev, low, high, (least, most))


_MOST = 4_000_000
"""Of more weights it is not computed."""


def find_noises(
    plan: Plan, linear: LinearRelease, numbers: Sequence[Combined], estimate: Estimate
) -> tuple[NumberNoise, ...] | None:
    """Return the noises of the numbers that a release shows; None where they would be too many."""
    size = sum(each.marginal.size for each in estimate.releases)
    if size * sum(each.wanted.size for each in linear.numbers) > _MOST:
        return None
    made = [_weigh(each, value, estimate) for each, value in zip(linear.numbers, numbers, strict=True)]
    formulas = {(each.uses, each.formula): (made[each.rows], made[each.ones]) for each in linear.formulas}
    return tuple(
        NumberNoise(
            made[output.of] if output.formula is None else _compute(output.formula, output.uses, formulas)
        )
        for output in plan.outputs
        if output.kind == "count"
    )


def _weigh(number: Numbers, value: Combined, estimate: Estimate) -> Weighted:
    names, sources, weights = list[tuple[int, int]](), [], []
    there = (number.places >= 0)[:, None]
    places = np.maximum(number.places, 0)
    for released, own in estimate.weigh(number.wanted):
        names += [(released.release, place) for place in range(own.shape[1])]
        sources += [released.draw] * own.shape[1]
        weights.append(np.where(there, own[places], 0.0))
    joined = np.concatenate(weights, axis=1) if weights else np.zeros((len(places), 0))
    return Weighted(value.value, tuple(names), tuple(sources), joined)


def _compute(
    formula: Formula,
    uses: tuple[int, ...],
    known: Mapping[tuple[tuple[int, ...], Formula], tuple[Weighted, Weighted]],
) -> Made | None:
    rows, ones = known[uses, formula]
    match formula:
        case RowCount():
            return rows
        case SumOfRows(high=high):
            return ones.scale(float(high))
        case Average(low=low, high=high) if rows.names == ones.names:
            width = float(high - low)
            above = replace(
                ones,
                value=float(low) * rows.value + width * ones.value,
                weights=float(low) * rows.weights + width * ones.weights,
            )
            return Quotient(above, rows, float(low), float(high))
    return None
