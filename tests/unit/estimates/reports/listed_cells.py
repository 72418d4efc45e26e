"""Random marginals over a few columns, and their dense least squares over listed cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

from dpsql.estimates.noise_laws import Law, NoiseDraw
from dpsql.estimates.reports.marginal_blocks import find_variances
from dpsql.estimates.reports.marginal_estimate import Estimate
from dpsql.estimates.reports.marginals import Axis, Marginal, ReleasedMarginal
from dpsql.estimates.reports.plan_weights import Way
from dpsql.estimates.reports.report_plan import Plan
from dpsql.estimates.value_sets import ValueSet


def axis_of_ranges(column: str, borders: Sequence[Any], labels: Sequence[str]) -> Axis:
    """Return the axis of periods or buckets, each from one border to below the next."""
    return Axis(column, tuple(ValueSet.of_range(*pair) for pair in pairwise(borders)), tuple(labels))


def axis_of_prefixes(column: str, borders: Sequence[Any], labels: Sequence[str]) -> Axis:
    """Return the axis of running totals, each from the first border to below a later one."""
    return Axis(column, tuple(ValueSet.of_range(borders[0], each) for each in borders[1:]), tuple(labels))


def predict_run(plan: Plan, way: Way, universe: Mapping[str, ValueSet] | None = None) -> Estimate:
    """Return an estimate from zeros with a run's noise, to predict variances at budget and bound 1.

    Its variances are those of any marginal after a run, such as the price of a single day.
    """
    released = []
    for number, (candidate, share) in enumerate(plan.shares):
        scale = 1 / share if way == "pure" else 1 / math.sqrt(2 * share)
        draw = NoiseDraw(Law("laplace" if way == "pure" else "gaussian"), float(scale))
        values = np.zeros(candidate.marginal.size)
        released.append(ReleasedMarginal(number, candidate.marginal, values, draw))
    return Estimate.of(released, universe)


@dataclass
class Cells:
    """Columns with whole numbers from 0 as values; NULL too where a column is not complete."""

    sizes: dict[str, int]
    complete: dict[str, bool]

    @property
    def universe(self) -> dict[str, ValueSet]:
        return {c: ValueSet.of_range(0, n) for c, n in self.sizes.items() if self.complete[c]}

    def values(self, column: str) -> list[int | None]:
        return [*range(self.sizes[column]), *([] if self.complete[column] else [None])]

    def count(self) -> int:
        return int(np.prod([len(self.values(column)) for column in self.sizes]))

    def matrix(self, marginal: Marginal) -> np.ndarray:
        found = np.ones((1, 1))
        for column in self.sizes:
            axis, values = marginal.axis(column), self.values(column)
            rows = [[1.0] * len(values)]
            if axis is not None:
                rows = [[float(value in row) for value in values] for row in axis.rows]
            found = np.kron(found, np.array(rows))
        names = [c for c in self.sizes if c in marginal.columns]
        shape = [len(axis.rows) for name in names for axis in marginal.axes if axis.column == name]
        order = [names.index(c) for c in marginal.columns]
        return found.reshape(*shape, -1).transpose([*order, len(order)]).reshape(-1, found.shape[-1])


def draw_cells(random: Random) -> Cells:
    names = "abcd"[: random.randint(1, 4)]
    return Cells({c: random.randint(1, 5) for c in names}, {c: random.random() < 0.7 for c in names})


def draw_axis(random: Random, column: str, size: int, *, apart: bool = False) -> Axis:
    everyone = list(range(size))
    match random.choice(("all", "all", "all", "some", "condition", "blocks", "prefixes")):
        case "some":
            random.shuffle(everyone)
            return Axis.of_groups(column, everyone[: random.randint(1, size)])
        case "condition":
            chosen = [value for value in everyone if random.random() < 0.5] or [0]
            return Axis.of_condition(column, ValueSet.of_values(chosen), "chosen")
        case "blocks" if size > 1:
            middle = random.randint(1, size - 1)
            return axis_of_ranges(column, [0, middle, size], ["low", "high"])
        case "prefixes" if not apart:
            return axis_of_prefixes(column, range(size + 1), [str(i) for i in everyone])
    return Axis.of_groups(column, everyone)


def draw_marginal(random: Random, cells: Cells, by: str | None = None) -> Marginal:
    """Return a random marginal; it has a condition on the column `by`."""
    axes = [draw_axis(random, c, n) for c, n in cells.sizes.items() if c != by and random.random() < 0.6]
    if by is not None:
        first = random.randrange(cells.sizes[by])
        last = min(first + random.choice((1, 1, 1, 2)), cells.sizes[by])
        axes.append(Axis.of_condition(by, ValueSet.of_range(first, last), f"{first} to {last}"))
    random.shuffle(axes)
    return Marginal(tuple(axes))


def draw_law(random: Random, numbers: int) -> Law:
    few = ("laplace", "laplace", "box", "cube", "gaussian")
    match random.choice(few if numbers <= 40 else ("laplace", "gaussian")):
        case "box":
            return Law("box", numbers + random.randint(0, 2), random.randint(1, 3))
        case "cube":
            return Law("cube", numbers)
        case "gaussian":
            return Law("gaussian", numbers, 0, random.choice((0.0, 0.5, 2.0)))
    return Law("laplace")


def draw_releases(random: Random, cells: Cells, noise: np.random.Generator) -> list[ReleasedMarginal]:
    truth = noise.poisson(50, cells.count()).astype(np.float64)
    by = random.choice((None, "a"))
    found = []
    for number in range(random.randint(1, 5 if by is None else 9)):
        marginals = [draw_marginal(random, cells, by) for _ in range(random.choice((1, 1, 1, 2)))]
        law = draw_law(random, sum(each.size for each in marginals))
        for each in marginals:
            scale = random.choice((0.5, 1.0, 2.0, 5.0))
            values = cells.matrix(each) @ truth + scale * noise.normal(size=each.size)
            found.append(ReleasedMarginal(number, each, values, NoiseDraw(law, scale)))
    return found


def stack(cells: Cells, releases: list[ReleasedMarginal]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the matrix of all numbers over cells, their values, and the covariance of their noises."""
    matrix = np.concatenate([cells.matrix(each.marginal) for each in releases])
    values = np.concatenate([each.tensor().ravel() for each in releases])
    scale = np.concatenate([np.full(each.marginal.size, each.draw.scale) for each in releases])
    draw = np.concatenate([np.full(each.marginal.size, id(each.draw.law)) for each in releases])
    variances = {id(each.draw.law): find_variances(each.draw.law) for each in releases}
    own = np.array([variances[key][0] for key in draw.tolist()])
    shared = np.array([variances[key][1] for key in draw.tolist()])
    same = draw[:, None] == draw[None, :]
    return matrix, values, np.outer(scale, scale) * (np.diag(own) + same * shared)


def solve_dense(
    cells: Cells, releases: list[ReleasedMarginal], wanted: Marginal
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return values, variances, whether each is determined, and the weights of the released numbers."""
    matrix, values, covariance = stack(cells, releases)
    root = np.linalg.inv(np.linalg.cholesky(covariance))
    whitened = root @ matrix
    inverse = np.linalg.pinv(whitened, rcond=1e-11)
    rows = cells.matrix(wanted)
    weights = rows @ inverse @ root
    determined = np.abs(rows @ inverse @ whitened - rows).max(axis=1) < 1e-7
    variances = np.einsum("ij,jk,ik->i", weights, covariance, weights)
    return weights @ values, variances, determined, weights
