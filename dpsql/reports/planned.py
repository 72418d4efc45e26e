"""A report that is planned: what its statements are, what is measured for them, and the price.

Everything here follows from the text of the statements and from the policy: no private row is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dpsql.analysis import is_private
from dpsql.composition.derived import numbers_of
from dpsql.composition.derived_columns import MOST
from dpsql.composition.hidden_columns import Hidden
from dpsql.composition.prepared import PreparedComposed, PreparedPrivate, PreparedPublic
from dpsql.composition.released_terms import LinearTerm, NoIntervalError
from dpsql.errors import OperationalError, ProgrammingError, QueryRefused
from dpsql.estimates import Combined
from dpsql.estimates.reports.marginals import Axis, Marginal
from dpsql.estimates.reports.report_plan import Per
from dpsql.estimates.value_sets import unite
from dpsql.kernel.loss import Charge
from dpsql.kernel.unit_parts import PartSet, either_parts
from dpsql.language import Query
from dpsql.language.options import MAX_EPSILON, MIN_EPSILON
from dpsql.lazy_dataclass import dataclass
from dpsql.planning import NoisyResult, build_rows
from dpsql.reports.axes import LinearRelease, Numbers, linear_release
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
    planner: Planner, texts: Sequence[str], epsilon: Fraction, parameters: Mapping[str, object] | None = None
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


_ALIKE = 1000.0
"""What all numbers are when the groups of sums are found: far from 0, so that groups exist."""
_MOST_ROWS = 1_500
"""Of more groups together it is not found what is added up."""

Shown = tuple[Marginal, ...] | None
"""The sets of numbers of a release that a statement shows; None: the release's own."""
_Boxes = dict[tuple[int, int], set[tuple[tuple[int, ...], ...]]]
"""For each number of each release, the sums that are shown: of each axis, the places of its sets."""


def find_shown(
    prepared: PreparedPrivate | PreparedComposed | PreparedPublic, linear: Sequence[LinearRelease | str]
) -> tuple[Shown, ...]:
    """Return for each release of a statement what it shows: its numbers, or sums of them, as running totals.

    A plan that makes the errors of these sums least measures blocks of groups, too. Which groups a shown
    number adds up is found as its interval is: the query over the releases runs over rows that are known
    without any private row, with numbers that are all alike. It decides the weights of measurements alone, so
    that what is not understood is taken as if all numbers were shown.
    """
    own: tuple[Shown, ...] = (None,) * len(linear)
    estimated = [each for each in linear if isinstance(each, LinearRelease)]
    if not isinstance(prepared, PreparedComposed) or prepared.chosen or len(estimated) < len(linear):
        return own
    if any(each.formulas for each in estimated) or sum(each.size for each in estimated) > _MOST_ROWS:
        return own
    terms = [each.term for each in prepared.derived]
    others = {*range(len(prepared.columns))} - {
        *prepared.keys,
        *(each.place for each in numbers_of(prepared)),
    }
    if not terms or others or not all(isinstance(each, LinearTerm) for each in terms):
        return own
    boxes = _find_boxes(prepared, estimated, terms)
    if boxes is None:
        return own
    bars = {(bar.release, bar.number) for bar in prepared.bars}
    return tuple(
        _list_shown(each, [number for at, number in bars if at == place], boxes, place)
        for place, each in enumerate(estimated)
    )


def _find_boxes(
    prepared: PreparedComposed, linear: Sequence[LinearRelease], terms: Sequence[LinearTerm]
) -> _Boxes | None:
    """Return what each shown sum adds up; None if a number is no sum of a product of sets of groups."""
    alike = [_fill(each) for each in linear]
    types = {relation.name: relation.columns for relation in prepared.relations}
    rows = {relation.name: alike[relation.release] for relation in prepared.relations}
    try:
        found = prepared.engines.schema_database.over(types, rows, prepared.traced)
    except OperationalError:
        return None
    hidden, boxes = Hidden(found), _Boxes()
    for term in terms:
        if len(hidden.numbers(term)) > MOST:
            return None
        for row in range(found.num_rows):
            try:
                weights = hidden.form(term, row, 0.0).weights
            except (NoIntervalError, LookupError):
                return None
            names = np.array([*weights], dtype=np.int64)
            places, columns = np.divmod(names, len(prepared.numbers))
            if len({*columns.tolist()}) != 1 or len({*weights.values()}) != 1:
                return None
            release, number = prepared.numbers[int(columns[0])]
            box = _box_of(_number(linear[release], number), places)
            if box is None:
                return None
            boxes.setdefault((release, number), set()).add(box)
    return boxes


def _fill(linear: LinearRelease) -> pa.Table:
    """Return the rows of a release with numbers that are all alike."""
    same = np.full(linear.size, _ALIKE)
    each = Combined(same, same, same, same)
    counts = (each,) * len(linear.plan.counts)
    answer = NoisyResult(linear.rows, counts, {})  # type: ignore[arg-type]  # rows that no step has made
    return build_rows(linear.plan, answer, linear.rows)


def _number(linear: LinearRelease, number: int) -> Numbers:
    """Return what a number of a release is, by its place among those that the release shows."""
    shown = [output for output in linear.plan.outputs if output.kind == "count"]
    return linear.numbers[shown[number].of]


def _box_of(number: Numbers, rows: np.ndarray) -> tuple[tuple[int, ...], ...] | None:
    """Return of each axis the places of the sets that rows have, if the rows are all of their product."""
    places = number.places[rows]
    places = places[places >= 0]
    shape = number.wanted.shape
    if not len(places) or not shape:
        return () if len(places) == 1 else None
    sets = tuple(tuple(np.unique(each).tolist()) for each in np.unravel_index(places, shape))
    return sets if np.prod([len(each) for each in sets], dtype=np.int64) == len(places) else None


def _list_shown(linear: LinearRelease, own: Sequence[int], boxes: _Boxes, release: int) -> Shown:
    """Return the sets of numbers that a statement shows of a release: some as they are, and sums."""
    found = [_number(linear, number).wanted for number in own]
    for (at, number), sums in boxes.items():
        if at == release:
            found += _write_sums(_number(linear, number).wanted, sums)
    return tuple(dict.fromkeys(found)) or None


def _write_sums(wanted: Marginal, sums: set[tuple[tuple[int, ...], ...]]) -> Iterator[Marginal]:
    """Yield marginals that have sums of numbers of another one: one, if all sums are a product of sets."""
    each_axis = [sorted({box[i] for box in sums}) for i in range(len(wanted.axes))]
    if np.prod([len(sets) for sets in each_axis], dtype=np.int64) == len(sums):
        yield Marginal(tuple(map(_unite_sets, wanted.axes, each_axis)))
        return
    for box in sorted(sums):
        yield Marginal(tuple(_unite_sets(axis, [sets]) for axis, sets in zip(wanted.axes, box, strict=True)))


def _unite_sets(axis: Axis, sets: Sequence[tuple[int, ...]]) -> Axis:
    """Return the axis whose sets are unions of sets of another one."""
    if [*sets] == [(i,) for i in range(len(axis.rows))]:
        return axis
    names = (
        axis.labels[each[0]] if len(each) == 1 else f"{axis.labels[each[0]]} to {axis.labels[each[-1]]}"
        for each in sets
    )
    return Axis(axis.column, tuple(unite(axis.rows[i] for i in each) for each in sets), tuple(names))
