"""How measurements, quantiles and searches of bounds are audited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import count
from typing import Any

from dpsql.audit.cases import AuditCase
from dpsql.kernel.loss import Charge, Filter, Number, PrivacyLoss
from dpsql.kernel.mechanisms.gaussian import Gaussian
from dpsql.kernel.mechanisms.ladder import FULL, Bins, Ladder, excess_scores, thresholds
from dpsql.kernel.mechanisms.measure import Box, Laplace, Refinement
from dpsql.kernel.mechanisms.mechanism import positive
from dpsql.kernel.mechanisms.quantile import Extreme, Quantile

MEASURE = (
    AuditCase(
        "laplace, each count", "each of k counts with noise of scale k/epsilon", Laplace.plan, "monotone"
    ),
    AuditCase(
        "anchor",
        "the total of k counts with noise of scale k/epsilon",
        partial(Laplace.plan, total=True),
        "monotone",
    ),
    AuditCase(
        "release all, 1 group a unit",
        "a histogram: all counts, of which a unit changes one",
        partial(Laplace.plan, groups_per_unit=1),
        "one",
    ),
    AuditCase(
        "release all, 3 rows a unit",
        "all counts, which a unit changes by 3 together",
        partial(Laplace.plan, groups_per_unit=1, sensitivity=3),
        inputs=lambda _: [
            ("one each", (1, 1, 1, 1, 1), (2, 2, 2, 1, 1)),
            ("all in one", (1, 1, 1, 1, 1), (1, 1, 1, 1, 4)),
            ("one and two below", (3, 1, 2, 1, 1), (2, 1, 0, 1, 1)),
        ],
    ),
    AuditCase(
        "release all, moments of a column",
        "sums of rows and of values, which a unit moves by 2 rows of 5 steps together",
        partial(Laplace.plan, groups_per_unit=1, sensitivity=10),
        inputs=lambda _: [
            ("both rows at the lower end", (15, 10, 5, 0), (25, 10, 5, 0)),
            ("two rows in two groups", (15, 10, 5, 0), (16, 14, 7, 3)),
            ("both rows inside", (15, 10, 25, 0), (12, 3, 25, 0)),
        ],
    ),
    AuditCase(
        "release all, signed sums of 2 groups a unit",
        "sums, of which a unit moves two by -4 to 3 each",
        partial(Laplace.plan, groups_per_unit=2, sensitivity=4),
        inputs=lambda _: [
            ("both down", (15, -10, 5, 0, 1), (11, -14, 5, 0, 1)),
            ("one up, one down", (15, -10, 5, 0, 1), (18, -14, 5, 0, 1)),
        ],
    ),
    AuditCase(
        "release all, 2 groups a unit",
        "all counts, of which a unit changes two",
        partial(Laplace.plan, groups_per_unit=2),
        inputs=lambda _: [
            ("two above", (1, 1, 1, 1, 1), (2, 2, 1, 1, 1)),
            ("one above, one below", (1, 1, 1, 1, 1), (2, 0, 1, 1, 1)),
            ("two below", (3, 1, 2), (2, 0, 2)),
        ],
    ),
)


BOX = (
    AuditCase("box", "all of k counts with one noise, uniform in a box of random side", Box.plan, "monotone"),
    AuditCase(
        "box, unequal bounds",
        "two counts, of which a unit changes the first by 2 and the second by 3",
        lambda groups, **options: Box.plan(groups, sensitivity=((2, 3) * groups)[:groups], **options),
        inputs=lambda _: [
            ("both above", (1, 1), (3, 4)),
            ("the first above", (1, 1), (3, 1)),
            ("both below", (3, 4), (1, 1)),
        ],
    ),
    AuditCase(
        "cube",
        "all of k counts that a unit moves in any directions, with one noise",
        lambda groups, **options: Box.plan(groups, monotone=False, **options),
    ),
)


_DELTA = Fraction(1, 100)


def _approximate(groups: int, epsilon: Number, **options: Any) -> Gaussian:  # noqa: ANN401  as `Gaussian.plan`
    """Plan for (epsilon, delta)-differential privacy, which an audit can test."""
    budget = Charge(positive(epsilon, "epsilon"), _DELTA)
    way = Filter.of(budget, "zcdp", _DELTA).order_way
    if way is None:
        raise ValueError("epsilon is too small for this delta")
    plan = Gaussian.plan(groups, way.limit / way.order, **options)
    return replace(plan, loss=PrivacyLoss.of(budget.epsilon, budget.delta))


GAUSSIAN = (
    AuditCase(
        "gaussian, a part shared",
        "all of k counts, each with Gaussian noise and all with one more",
        _approximate,
        "monotone",
        delta=float(_DELTA),
        tight=False,
    ),
    AuditCase(
        "gaussian, each count",
        "all of k counts that a unit moves in any directions, each with Gaussian noise",
        partial(_approximate, monotone=False),
        delta=float(_DELTA),
        tight=False,
    ),
    AuditCase(
        "gaussian, unequal bounds",
        "two counts, of which a unit changes the first by 2 and the second by 3",
        lambda groups, **options: _approximate(groups, sensitivity=((2, 3) * groups)[:groups], **options),
        inputs=lambda _: [
            ("both above", (1, 1), (3, 4)),
            ("the first above", (1, 1), (3, 1)),
            ("both below", (3, 4), (1, 1)),
        ],
        delta=float(_DELTA),
        tight=False,
    ),
)


REFINE = (
    AuditCase(
        "refined count",
        "counts at half of epsilon, and again at epsilon given the first release; a unit changes one",
        lambda groups, *, epsilon, **options: Refinement.plan(groups, [epsilon / 2, epsilon], **options),
        "one",
    ),
)


QUANTILE = (
    AuditCase(
        "quantile, median",
        "the cell of the median on a grid, of which a unit has one row",
        Quantile.plan,
        "one",
        tight=False,
    ),
    AuditCase(
        "quantile, 3 rows a unit",
        "the cell of a high quantile, of which a unit has three rows",
        partial(Quantile.plan, quantiles=("0.9",), rows_per_unit=3),
        inputs=lambda _: [
            ("three in one cell", (30, 5, 2), (30, 5, 5)),
            ("three in different cells", (8, 0, 1, 0), (9, 0, 2, 1)),
            ("three below", (1, 40, 3), (4, 40, 3)),
        ],
        tight=False,
    ),
    AuditCase(
        "quantiles, three at once",
        "the cells of the quartiles, each in the range that the one before splits",
        partial(Quantile.plan, quantiles=("0.25", "0.5", "0.75")),
        inputs=lambda _: [
            ("one more at an end", (4, 3), (5, 3)),
            ("one more in the middle", (5, 2, 5), (5, 3, 5)),
        ],
        tight=False,
    ),
)


def _inputs(units: int) -> Sequence[tuple[str, Any, Any]]:
    few, many = units // 2, units + 2
    return [
        ("one more, as many as are to reach it", (0, few, few + 1, 0), (0, few, few + 2, 0)),
        ("one more at an end", (many, 0, 0, 1), (many, 0, 0, 2)),
        ("one more in the middle", (many, 0, many, 1), (many, 1, many, 1)),
    ]


EXTREMES = tuple(
    AuditCase(
        f"extreme, {name}",
        "a cell of a grid that several units reach, of which a unit is in one",
        partial(Extreme.plan, lowest=lowest),
        "one",
        inputs=lambda epsilon: _inputs(Extreme.plan(4, epsilon).units),
        tight=False,
    )
    for name, lowest in (("largest", False), ("smallest", True))
)


LADDER = (
    AuditCase(
        "ladder",
        "a power of two that few units exceed, as a bound of their contributions",
        Ladder.plan,
        inputs=lambda epsilon: [
            ("one above the first", (3, 1, 0, 0), (4, 1, 0, 0)),
            ("one above all", (3, 1, 0, 0), (4, 2, 1, 1)),
            ("one above some", *_balance_rungs(epsilon)),
        ],
    ),
    AuditCase(
        "ladder, capped costs",
        "a power of two that few units exceed, where costs are of rungs that few exceed",
        partial(Ladder.plan, capped=True),
        inputs=lambda epsilon: [
            ("one above the first", *_balance_capped(epsilon)),
            ("one above all", (3, 1, 0, 0), (4, 2, 1, 1)),
        ],
        tight=False,
    ),
    AuditCase(
        "ladder, by excess",
        "a power of two that few units exceed by much",
        partial(Ladder.plan, sensitivity=FULL),
        inputs=lambda epsilon: [
            ("one above the first", (3 * FULL, FULL, 0, 0), (4 * FULL, FULL, 0, 0)),
            ("one barely above the second", *_score_units((9, 3, 2, 1), 3)),
            ("one above all", *_score_units((9, 3, 2, 1), 100)),
            ("one above some", *_balance_rungs(epsilon, FULL)),
        ],
    ),
    AuditCase(
        "ladder, ranged",
        "a power of two that few units exceed by much, by the exponential mechanism",
        partial(Ladder.plan, sensitivity=FULL, ranged=True),
        inputs=lambda epsilon: [
            ("one barely above the second", *_score_units((9, 3, 2, 1), 3)),
            ("one above all", *_score_units((9, 3, 2, 1), 100)),
            ("one above some", *_balance_rungs(epsilon, FULL)),
        ],
        tight=False,
    ),
)


def _balance_rungs(epsilon: Fraction, sensitivity: int = 1) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return numbers of units at which all rungs are about as good, and those with one unit more."""
    costs = Ladder.plan(4, epsilon).penalty
    numbers = tuple(round(costs * (3 - j)) for j in range(4))
    more = (numbers[0] + 1, numbers[1] + 1, *numbers[2:])
    return tuple(sensitivity * n for n in numbers), tuple(sensitivity * n for n in more)


def _balance_capped(epsilon: Fraction) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return numbers of units at which two rungs are about as good, and those with one unit more."""
    first = round(Ladder.plan(4, epsilon, capped=True).penalty * 5 / 6)
    return (first, 0, 0, 0), (first + 1, 0, 0, 0)


def _score_units(units: tuple[int, ...], more: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the excess scores of units at the rungs 1 to 8, and those with one unit more."""
    rungs = (1, 2, 4, 8)
    return tuple(excess_scores(units, rungs)), tuple(excess_scores((*units, more), rungs))


def _of_size(groups: int, *, epsilon: Number) -> Bins:
    """Plan as many bins as there are counts."""
    return Bins.plan(next(most for most in count(1) if len(thresholds(most)) == max(groups - 1, 1)), epsilon)


BINS = (AuditCase("bins", "the numbers of units by size, of which a unit is in one", _of_size, "one"),)

MEASURING_CASES = (*MEASURE, *BOX, *GAUSSIAN, *REFINE, *QUANTILE, *EXTREMES, *LADDER, *BINS)
"""The cases of this module, in the order of the audit's catalogue."""
