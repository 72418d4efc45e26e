"""What one noise for all selected counts is worth, beside what the papers and an anchor reach."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates import ErrorModel, Measurement, from_top_k, measuring_share
from dpsql.estimates.predictions import half_width, shared_noise
from dpsql.kernel.mechanisms import Box, NoiseSource
from dpsql.kernel.noise import Entropy
from reproduce.error_reduction import CROWDED, anchor_errors, each_errors
from reproduce.page import Claim, Figure, Section, Table
from reproduce.reduction import Measured, crowding, each_theory, near, separate
from reproduce.sets import DataSet
from reproduce.svg import Series, panel
from reproduce.trials import Halves, top_k_runs

__all__ = ["EPSILONS", "KS", "Point", "claims", "one_noise"]

KS = (5, 10, 25, 50, 100)
EPSILONS = (Fraction(1), Fraction(1, 10))
HALF = Fraction(1, 2)
CONFIDENCE = Fraction(95, 100)
COLUMNS = (
    "data", "epsilon", "k", "papers, EACH in theory %", "EACH %", "ANCHOR (before) %", "BOX %", "± (s.e.)",
    "BOX predicted %", "top k found %", "covered %", "BOX at half %", "top k found at half %",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Box95:
    """What a top-k with box noise gave at one share: the reduction, and shares of the counts in per cent."""

    reduction: Measured
    found: float
    """Part of the true top-k that was selected."""
    covered: float
    """Part of the 95% intervals that hold the true count."""


@dataclass(frozen=True, slots=True)
class Point:
    """Reductions of the squared error at one setting, in per cent."""

    data: str
    epsilon: float
    k: int
    each: float
    anchor: float
    box: Box95
    """At the share of epsilon that dpsql takes for measuring."""
    half: Box95
    trials: int

    @property
    def row(self) -> tuple[object, ...]:
        """For the table."""
        box, reduction = self.box, self.box.reduction
        return (
            self.data, self.epsilon, self.k, each_theory(self.k, "exponential"), self.each, self.anchor,
            reduction.percent, reduction.error, reduction.theory, box.found, box.covered,
            self.half.reduction.percent, self.half.found,
        )  # fmt: skip


def one_noise(sets: Sequence[DataSet], trials: int, entropy: Entropy, tick: Callable[[], None]) -> Section:
    """No figure of a paper: dpsql's own."""
    rows = [
        _point(one, k, epsilon, trials, entropy, tick) for one in sets for epsilon in EPSILONS for k in KS
    ]
    names = ("EACH, as in the papers", "ANCHOR, before", "BOX, by default", "BOX, predicted")
    looks = (("both", 0, 0), ("both", 1, 1), ("points", 2, 2), ("line", 2, 0))
    panels = []
    for data, epsilon in dict.fromkeys((r.data, r.epsilon) for r in rows):
        mine = [r for r in rows if (r.data, r.epsilon) == (data, epsilon)]
        of = (
            [r.each for r in mine],
            [r.anchor for r in mine],
            [r.box.reduction.percent for r in mine],
            [r.box.reduction.theory for r in mine],
        )
        drawn = [
            Series("", KS, ys, kind, colour, mark) for ys, (kind, colour, mark) in zip(of, looks, strict=True)
        ]
        title = f"{data}, epsilon {epsilon}"
        panels.append(panel(title, "k", "reduction of squared error", drawn, y_range=(0, 100), unit="%"))
    legend = [
        Series(name, (), (), kind, colour, mark)
        for name, (kind, colour, mark) in zip(names, looks, strict=True)
    ]
    return Section(
        "One noise for all selected counts",
        "dpsql's own; box noise is the mechanism of Hardt and Talwar (2010) with public zeros.",
        "Noisy top-k with gap, with exponential noise, selects k items. EACH and ANCHOR measure them as in "
        "the sections before; BOX with one noise for all k counts, by default with half of epsilon for k up "
        "to 10 and a third above. The estimates combine measurements and gaps. The baseline is half of "
        f"epsilon for measuring each count, without gaps. {trials:,} runs a point.",
        [Figure("Reduction of the squared error", claims(rows), panels, legend)],
        [Table("one_noise", COLUMNS, [r.row for r in rows], shown=True)],
    )


def claims(rows: Sequence[Point]) -> list[Claim]:
    """Say what the figure shows."""
    ten = next(r for r in rows if r.k == 10)
    reductions = [one.reduction for r in rows for one in (r.box, r.half)]
    holds, words = near([one for one in reductions if not one.crowded])
    short = max(-min((one.off for one in reductions if one.crowded), default=0.0), 0.0)
    fell = ten.box.reduction.percent
    leads = [r.box.reduction.percent - r.anchor for r in rows]
    gains = [r.box.found - r.half.found for r in rows if r.k > 10]
    covered = [(one.covered, 100 * math.sqrt(0.0475 / r.trials)) for r in rows for one in (r.box, r.half)]
    return [
        Claim(
            f"BOX reduces the squared error as predicted: {words}. Where many of the largest counts are "
            f"nearer to each other than the noise, it falls short by up to {short:.1f} points.",
            holds and short <= 5,
        ),
        Claim(
            f"At k = 10 on {ten.data}, epsilon {ten.epsilon}, the error falls by {fell:.0f}% "
            f"where EACH reaches {ten.each:.0f}% and ANCHOR, the default before, {ten.anchor:.0f}%. Over all "
            f"points BOX is {min(leads):+.1f} to {max(leads):+.1f} points ahead of ANCHOR.",
            float(np.median(leads)) > 5
            and all(lead > 1 - r.box.reduction.allowed for lead, r in zip(leads, rows, strict=True)),
            f"EACH by {each_theory(10, 'exponential'):.0f}% at k = 10 (theorem 3, for exponential noise)",
            f"BOX by {fell:.0f}%, EACH by {ten.each:.0f}%",
        ),
        Claim(
            "A third of epsilon for measuring, where k is above 10, leaves more for the selection than half: "
            f"{min(gains):+.1f} to {max(gains):+.1f} points more of the true top k are found.",
            min(gains) > -1 and float(np.mean(gains)) > 0,
        ),
        Claim(
            f"95% intervals cover {min(covered)[0]:.1f}% to {max(covered)[0]:.1f}% of the selected counts.",
            all(abs(c - 95) <= max(0.5, 5 * error) for c, error in covered),
        ),
    ]


def _point(
    one: DataSet, k: int, epsilon: Fraction, trials: int, entropy: Entropy, tick: Callable[[], None]
) -> Point:
    half = Halves.of("EACH", k, epsilon, "exponential")
    plain, each = each_errors(one.counts, half, trials, entropy)
    best = Halves.of("ANCHOR", k, epsilon, "exponential", len(one.counts))
    anchor = anchor_errors(one.counts, best, trials, entropy)
    shares = (measuring_share("BOX", k), HALF)
    box, other = (_box(one, k, epsilon, share, plain, trials, entropy) for share in shares)
    tick()
    return Point(
        one.name, float(epsilon), k, separate(plain, each)[0], separate(plain, anchor)[0], box, other, trials
    )


def _box(
    one: DataSet,
    k: int,
    epsilon: Fraction,
    share: Fraction,
    plain: NDArray[np.float64],
    trials: int,
    entropy: Entropy,
) -> Box95:
    runs = top_k_runs(one.counts, k, epsilon * (1 - share), trials, entropy)
    exact = one.counts[runs.index]
    box = Box.plan(k, epsilon * share)
    measured = box.run(exact, NoiseSource(entropy)).value
    width, noise = half_width(box, CONFIDENCE), shared_noise(box, 0)
    found = [
        from_top_k(gap, k, runs.noise, Measurement(value, noise, width))
        for gap, value in zip(runs.gap, measured, strict=True)
    ]
    errors = ((np.stack([f.value for f in found]) - exact) ** 2).mean(axis=1)
    inside = (np.stack([f.low for f in found]) <= exact) & (exact <= np.stack([f.high for f in found]))
    predicted = float((ErrorModel(runs.noise, k, noise).stddev() ** 2).mean())
    baseline = 2 * float(k / (epsilon * HALF)) ** 2
    return Box95(
        Measured(
            *separate(plain, errors),
            100 * (1 - predicted / baseline),
            crowding(one.descending, k, float(runs.scale)),
            CROWDED,
        ),
        100 * float((exact >= one.descending[k - 1]).mean()),
        100 * float(inside.mean()),
    )
