"""Divide what a report may cost among the marginals that are measured for it; all of it is public.

Each statement has an equal share of the report. The shares of all releases that are linear in the cells of
one table are put together, and `estimates.reports.report_plan` divides them among marginals so that the mean
variance over statements is least. Of several tables each gets the share that makes their mean least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from math import floor
from typing import TYPE_CHECKING, Any, Literal

from dpsql.analysis.epsilon_division import EpsilonDivision, divide_epsilon
from dpsql.composition.kept_plans import scopes
from dpsql.composition.prepared import PreparedPrivate
from dpsql.errors import InternalError, OperationalError
from dpsql.estimates.reports.marginals import Axis, Marginal
from dpsql.estimates.reports.plan_candidates import Wanted, list_candidates
from dpsql.estimates.reports.report_plan import Per, plan_report
from dpsql.estimates.reports.report_plan import Plan as Weights
from dpsql.kernel.loss.charge import largest_epsilon
from dpsql.kernel.unit_parts import Calendar, PartSet, either_parts
from dpsql.language import Query
from dpsql.lazy_dataclass import dataclass
from dpsql.reports.axes import LinearRelease
from dpsql.reports.linear_releases import home_of
from dpsql.reports.measured import MeasuredQuery, measured_query, universe_of

if TYPE_CHECKING:
    from dpsql.composition.planner import Planner

Way = Literal["pure", "gaussian"]
"""Whether epsilons are divided and noise is Laplace's, or costs at an order and noise is Gaussian."""

BLOCKS: dict[str, tuple[tuple[int, ...], ...]] = {
    "day": ((7,), (30,), (7, 28), (7, 91)),
    "week": ((4,), (13,), (4, 12)),
    "month": ((3,), (12,), (3, 12)),
    "quarter": ((4,),),
    "year": (),
}
"""How many parts blocks may have together in a plan; a plan that is best, or nearly, is taken."""
_NEAR = 1.05
"""So many times the least error is nearly the least."""
_HORIZONS = {"day": 364}
"""Over how many parts what is since the beginning is planned; 52 of others."""
_HORIZON = 52
_STEPS = 1000
"""Shares of several tables are multiples of one over this."""
_DECIMALS = 10**9


@dataclass(frozen=True, slots=True)
class Block:
    """What is measured of each block of parts, when it is over."""

    length: int
    """How many parts a block has."""
    first: int
    """The first part of one of them."""
    measured: tuple[tuple[Marginal, Fraction], ...]
    """The marginals, each with its share of the whole report."""

    def list_within(self, parts: PartSet | None) -> list[PartSet]:
        """Return the blocks that lie wholly within a set of parts.

        >>> Block(4, 2, ()).list_within(PartSet.of((3, 13))) == [PartSet.of((6, 9)), PartSet.of((10, 13))]
        True
        """
        found = []
        for low, high in () if parts is None else parts.ranges:
            start = low + (self.first - low) % self.length
            found += [
                PartSet.of((p, p + self.length - 1))
                for p in range(start, high - self.length + 2, self.length)
            ]
        return found


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What is measured of one table for a report."""

    table: str
    """The name of the table."""
    way: Way
    """How amounts are divided."""
    measured: tuple[tuple[Marginal, Fraction], ...]
    """The marginals, each with its share of the whole report; within a part of units, if the report has
    one."""
    deviation: float
    """The predicted root of the mean over statements of the mean variance of their numbers."""
    even: float
    """The same if each statement had its share alone."""
    blocks: tuple[Block, ...] = ()
    """What is measured of blocks of parts; a part is in one block of each length."""
    added: float | None = None
    """The predicted error of a number that statements only add up, such as a day of running totals; None:
    there are none."""

    def words(self, every: str | None = None) -> str:
        """Say what is measured, and what errors are predicted; `every` is how long parts of a report are."""
        added = "" if self.added is None else f"; that of a number that is only added up is {self.added:.3g}"
        return (
            f"{self.table} is measured {', '.join(self.lines(every))}; the predicted error is"
            f" {self.deviation:.3g}, and {self.even:.3g} if each statement were answered alone{added}"
        )

    def lines(self, every: str | None = None) -> list[str]:
        """Name the marginals with their shares of the table."""
        named = Counter(each.describe() for each, _ in self.measured)
        told = [
            (each.describe() + f" in {each.size} groups" * (named[each.describe()] > 1), share)
            for each, share in self.measured
        ]
        for block in self.blocks:
            told += [
                (f"{each.describe()} of each {block.length} {every or 'part'}s when they are over", share)
                for each, share in block.measured
            ]
        total = sum((share for _, share in told), Fraction(0))
        return [
            f"{text.replace(f'{self.table}.', '')} ({round(100 * share / total)}%)" for text, share in told
        ]

    def to_data(self) -> dict[str, Any]:
        """Return the plan of a table's measurements as values of JSON, exactly."""
        return {
            "table": self.table,
            "way": self.way,
            "measured": _write_shares(self.measured),
            "blocks": [[each.length, each.first, _write_shares(each.measured)] for each in self.blocks],
            "deviation": self.deviation,
            "even": self.even,
            **({} if self.added is None else {"added": self.added}),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> TablePlan:
        """Return the plan that `to_data` wrote."""
        blocks = tuple(
            Block(length, first, _read_shares(each)) for length, first, each in data.get("blocks", ())
        )
        measured = _read_shares(data["measured"])
        errors = data["deviation"], data["even"]
        return cls(data["table"], data["way"], measured, *errors, blocks, data.get("added"))


def _write_shares(measured: Sequence[tuple[Marginal, Fraction]]) -> list[list[Any]]:
    return [[each.to_data(), str(share)] for each, share in measured]


def _read_shares(data: Sequence[Sequence[Any]]) -> tuple[tuple[Marginal, Fraction], ...]:
    return tuple((Marginal.from_data(each), Fraction(share)) for each, share in data)


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """A marginal that is measured, in some parts of units: its statement, prepared."""

    table: str
    query: MeasuredQuery
    prepared: PreparedPrivate


@dataclass(frozen=True, slots=True, eq=False)
class WantedNumbers:
    """The numbers of a linear release: what they are of one part, and how many parts they sum."""

    linear: LinearRelease
    share: Fraction
    window: int | None = 1
    within: str | None = None
    """The column that divides units into parts, if the report has parts: it is no axis within one."""
    shown: tuple[Marginal, ...] | None = None
    """What the statement shows of them; None: the numbers themselves."""

    def wanted(self) -> list[Wanted]:
        """Return the marginals that the statement shows, with equal shares, and those that it adds up."""
        own = self._within_part(number.wanted for number in self.linear.numbers)
        shown = own if self.shown is None else self._within_part(self.shown)
        added = [each for each in own if each not in shown]
        return [
            Wanted(marginal, window, self.share / len(sets), sets is shown)
            for sets in (shown, added)
            for marginal, window in sets
        ]

    def _within_part(self, marginals: Iterable[Marginal]) -> list[tuple[Marginal, int | None]]:
        """Return marginals without the axis of parts, each once, and how many parts their numbers sum."""
        found = []
        for each in marginals:
            home, window = None if self.within is None else each.axis(self.within), self.window
            if home is not None and len(home.rows) > 1 and home.is_apart() and self.linear.parts:
                window = max(1, round(len(self.linear.parts) / len(home.rows)))
            found.append((Marginal(tuple(axis for axis in each.axes if axis is not home)), window))
        return list(dict.fromkeys(found))


def round_down(epsilon: Fraction) -> Fraction:
    """Return an epsilon of 9 decimals: ledgers by parts of units round amounts of more than 12 up."""
    return Fraction(floor(epsilon * _DECIMALS), _DECIMALS)


def plan_tables(
    planner: Planner,
    releases: Sequence[WantedNumbers],
    epsilon: Fraction,
    per: Per = "STATEMENT",
    every: str | None = None,
) -> tuple[TablePlan, ...]:
    """Divide what linear releases may cost among marginals of their tables.

    The mean variance over statements is least, or (`per` NUMBER) that over all their numbers. `every` is how
    long the parts of the report are, if it has parts: then blocks of them may be measured, too.
    """
    tables: dict[str, list[WantedNumbers]] = {}
    for each in releases:
        tables.setdefault(each.linear.table.name, []).append(each)
    found: list[tuple[float, tuple[TablePlan, ...]]] = []
    for way, layout in _ways(planner, epsilon):
        plans = {name: _weights(planner, name, own, way, per, every) for name, own in tables.items()}
        weights = {name: sum((each.share for each in own), Fraction(0)) for name, own in tables.items()}
        shares = _shares(weights, plans, way)
        made = tuple(
            _table_plan(name, plans[name], shares[name], layout, way, _first_part(tables[name]))
            for name in tables
        )
        error = sum(float(weights[each.table]) * each.deviation**2 for each in made)
        found.append((error, made))
    return min(found, key=lambda each: each[0])[1]


def _first_part(releases: Sequence[WantedNumbers]) -> int:
    """Return the first part of what is added up since the beginning."""
    parts = [each.linear.parts for each in releases if each.window is None]
    return min((each.ranges[0][0] for each in parts if each), default=0)


def _weights(
    planner: Planner, table: str, releases: Sequence[WantedNumbers], way: Way, per: Per, every: str | None
) -> Weights:
    """Plan what is measured of a table.

    Of a report without parts an axis with all parts that it reads, as one set, tells nothing: it is left
    out of the plan, and put into what is measured.
    """
    wanted = [one for each in releases for one in each.wanted()]
    catalog = planner.database.engines().schema_database
    universe = universe_of([each.marginal for each in wanted], table, planner.policy, catalog)

    def tells(axis: Axis) -> bool:
        return len(axis.rows) > 1 or axis.rows[0] != universe.get(axis.column)

    plain = [
        replace(each, marginal=Marginal(tuple(axis for axis in each.marginal.axes if tells(axis))))
        for each in wanted
    ]
    chains = BLOCKS[every] if every is not None and any(each.window is None for each in plain) else ()
    weights = [float(each.weight) if each.shown else 0.0 for each in plain]
    numbers = [each.marginal.size * weight for each, weight in zip(plain, weights, strict=True)]
    plans = [
        plan_report(
            plain,
            list_candidates(plain, blocks, universe),
            universe,
            way=way,
            per=per,
            horizon=_HORIZONS.get(every or "", _HORIZON),
        )
        for blocks in ((), *chains)
    ]
    plan = choose_plan(plans, numbers if per == "NUMBER" else weights, numbers)
    home = within_of(planner, releases[0].linear)
    if home is None or home not in universe:
        return plan
    parts = reduce(either_parts, (each.linear.parts for each in releases))
    declared = planner.policy.unit_parts
    assert parts is not None and declared is not None  # noqa: PT018, S101  marginals name parts
    whole = Axis.of_condition(home, universe[home], Calendar(declared.period).words(parts))
    shares = tuple(
        (
            each
            if each.marginal.axis(home)
            else replace(each, marginal=Marginal((*each.marginal.axes, whole))),
            share,
        )
        for each, share in plan.shares
    )
    return replace(plan, shares=shares)


def choose_plan(plans: Sequence[Weights], sizes: Sequence[float], numbers: Sequence[float]) -> Weights:
    """Return the plan whose error asked for is least; with blocks, one that is near and least over numbers.

    How long blocks are changes the mean over statements little, and that over numbers more. The first plan is
    the one without blocks.
    """
    asked, of_all = (
        [sum(w * d * d for w, d in zip(weights, each.deviations, strict=True)) for each in plans]
        for weights in (sizes, numbers)
    )
    near = [i for i, variance in enumerate(asked) if i and variance <= min(asked) * _NEAR**2]
    return plans[0 if asked[0] == min(asked) else min(near, key=of_all.__getitem__)]


def _ways(planner: Planner, epsilon: Fraction) -> list[tuple[Way, EpsilonDivision]]:
    """Return the ways to divide an epsilon.

    Gaussian noise takes of the limit of costs the part that the epsilon is of the budget's, and at most what
    one pure mechanism of this epsilon costs: else a large part of a budget would cost more than all of it.
    """
    filters = scopes(planner.policy, planner.analyst)
    found: list[tuple[Way, EpsilonDivision]] = [("pure", EpsilonDivision(epsilon))]
    if filters and all(each.order_way is not None for each in filters):
        limit = filters[0].order_way
        assert limit is not None  # noqa: S101  all have one
        most = largest_epsilon(limit.limit * epsilon / filters[0].epsilon, limit.order)
        if most > 0:
            found.append(("gaussian", divide_epsilon(min(epsilon, most), *filters, accounting="order")))
    return found


def _shares(weights: Mapping[str, Fraction], plans: Mapping[str, Weights], way: Way) -> dict[str, Fraction]:
    """Divide the shares of all tables so that the mean variance over statements is least.

    With weight n and variance V at the whole, sum n V / s^2 is least for s ~ (n V)^(1/3), and sum n V / s for
    s ~ (n V)^(1/2).
    """
    power = 1 / 3 if way == "pure" else 1 / 2
    raw = {n: (float(w) * plans[n].mean_variance) ** power for n, w in weights.items()}
    steps = {name: max(1, round(_STEPS * each / sum(raw.values()))) for name, each in raw.items()}
    pool = sum(weights.values(), Fraction(0))
    return {name: pool * Fraction(each, sum(steps.values())) for name, each in steps.items()}


def _table_plan(
    table: str, plan: Weights, share: Fraction, layout: EpsilonDivision, way: Way, first: int
) -> TablePlan:
    size = float(share * layout.epsilon) if way == "pure" else float(layout.gaussian_rho(share) or 0) ** 0.5
    if not size:
        raise OperationalError("this epsilon is too small for a report")
    levels: dict[int, list[tuple[Marginal, Fraction]]] = {1: []}
    for candidate, part in plan.shares:
        levels.setdefault(candidate.parts, []).append((candidate.marginal, share * part))
    one, *longer = [(length, tuple(each)) for length, each in sorted(levels.items())]
    deviation, even = plan.mean_variance**0.5 / size, plan.mean_even**0.5 / size
    added = None if plan.added_variance is None else plan.added_variance**0.5 / size
    blocks = tuple(Block(length, first, each) for length, each in longer)
    return TablePlan(table, way, one[1], deviation, even, blocks, added)


def measure(
    planner: Planner,
    plan: TablePlan,
    epsilon: Fraction,
    sets: Sequence[PartSet] | None,
    block: Block | None = None,
) -> tuple[Measured, ...]:
    """Prepare the statements that measure a plan's marginals in some sets of parts of units."""
    layout = dict(_ways(planner, epsilon)).get(plan.way)
    if layout is None:
        raise OperationalError("the budget has no limit of costs any more, by which this report was planned")
    found = []
    for marginal, share in (plan if block is None else block).measured:
        query = query_of(planner, plan.table, marginal, sets)
        found.append(Measured(plan.table, query, _prepare(planner, query, share, layout, plan.way)))
    return tuple(found)


def query_of(
    planner: Planner, name: str, marginal: Marginal, sets: Sequence[PartSet] | None
) -> MeasuredQuery:
    """Return the statement that measures a marginal of a table, in some parts of units or blocks of them."""
    table, catalog = planner.policy.table(name), planner.database.engines().schema_database
    if table is None:
        raise OperationalError(f"the table {name} of this report is not in the policy any more")
    return measured_query(marginal, table, planner.policy, catalog, sets)


def _prepare(
    planner: Planner, query: MeasuredQuery, share: Fraction, layout: EpsilonDivision, way: Way
) -> PreparedPrivate:
    """Prepare the statement that measures a marginal; it must be a plain measurement."""
    parsed = planner.parsed(query.text)
    assert isinstance(parsed, Query)  # noqa: S101  it was written so
    more: dict[str, Any] = {
        "epsilon": round_down(layout.epsilon_of(share)),
        "noise": "LAPLACE" if way == "pure" else "GAUSSIAN",
    }
    if scopes(planner.policy, planner.analyst):
        more |= {"layout": "BASIC"} if way == "pure" else {"layout": "ORDER", "price": layout.epsilon * share}
    options = replace(parsed.options, **more)
    made = planner.query(query.text, replace(parsed, options=options), planner.database.engines())
    if not isinstance(made, PreparedPrivate) or made.plan.outside or made.plan.groups_kept is not None:
        raise InternalError("what a report measures is a plain measurement")
    return made


def within_of(planner: Planner, linear: LinearRelease) -> str | None:
    """Return the name of the axis on which the parts of units are told apart; None: there is none."""
    home = home_of(linear.table, planner.policy)
    return None if home is None else f"{linear.table.name}.{home}"
