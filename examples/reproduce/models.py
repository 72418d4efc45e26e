"""Counts guessed by models: MedianOracle by weights, beside hypotheses discarded and counts with noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates import ModelWeights, most_misses
from dpsql.kernel.mechanisms import CheckStream, CheckStreamPlan, NoiseSource
from dpsql.kernel.noise import Entropy
from dpsql.mechanisms import Laplace
from reproduce.page import Claim, Figure, Section, Table
from reproduce.svg import Series, panel

__all__ = ["TOLERANCES", "WAYS", "Point", "claims", "counts_of_two_years", "guessed"]

EPSILON, MISSES, QUESTIONS, UNITS = 1, 8, 400, 50_000
TOLERANCES = (250, 300, 400, 500)
SCALES = tuple(Fraction(each, 100) for each in range(90, 111, 2))
WAYS = ("weights", "discarding")


@dataclass(frozen=True, slots=True)
class Point:
    """What became of 400 questions with a tolerance, in the mean of all runs."""

    tolerance: int
    way: str
    answered: float
    error: float
    """The root of the mean square of what was answered."""
    lost: float
    """In how many runs the hypothesis that is nearest to all counts was discarded."""
    over: int
    """How many runs had more misses than the proof allows."""


def counts_of_two_years(rng: np.random.Generator) -> NDArray[np.int64]:
    """Return counts of random conjunctions in this year and in the one before, of which a few differ much.

    Of the people of each year, one in five is in both. This year has 4% more, and in a tenth of the
    conditions other people than before.
    """
    found = np.empty((QUESTIONS, 2), dtype=np.int64)
    shares = rng.choice([0.1, 0.25, 0.5, 0.75], (QUESTIONS, 2)).prod(axis=1)
    moved = np.where(rng.random(QUESTIONS) < 0.1, rng.normal(1, 0.15, QUESTIONS), 1).clip(0.5, 1.5)
    found[:, 0] = rng.binomial(round(1.04 * UNITS), (shares * moved).clip(0, 1))
    found[:, 1] = rng.binomial(UNITS, shares)
    return found


def guessed(trials: int, seed: int, entropy: Entropy, tick: Callable[[], None]) -> Section:
    """Ask 400 counts of the year, guessed by those of the year before, in two ways and with noise alone."""
    rng, source = np.random.default_rng(seed), NoiseSource(entropy)
    found: dict[tuple[int, str], list[tuple[int, float, bool, bool]]] = {}
    for _ in range(trials):
        counts = counts_of_two_years(rng)
        for tolerance in TOLERANCES:
            for way in WAYS:
                found.setdefault((tolerance, way), []).append(_ask(counts, tolerance, way, source))
        tick()
    points = [_mean_of(*key, runs) for key, runs in found.items()]
    plain = float(np.sqrt(2) * QUESTIONS / EPSILON)
    series = [
        Series(way, TOLERANCES, [p.answered for p in points if p.way == way], "both", place, place)
        for place, way in enumerate(WAYS)
    ]
    names = ("tolerance", "way", "answered", "rmse", "best hypothesis discarded", "more misses than proved")
    return Section(
        "Last year's counts answer this year's",
        "Sparse vector lecture, section 2 (MedianOracle).",
        f"{QUESTIONS} counts of random conjunctions among {UNITS:,} people, at epsilon {EPSILON} for all. "
        f"The hypotheses are the counts of the year before, times {len(SCALES)} scales. Their median is "
        f"the guess; {MISSES} guesses may be off by more than the tolerance, and these counts are "
        "answered with noise. The lecture then discards each hypothesis that is further from the answer "
        "than the tolerance; dpsql takes three quarters of its weight, so that one answer with much "
        f"noise does not discard what is right for ever. {trials:,} runs a point.",
        [
            Figure(
                "How many of the counts are answered",
                claims(points, plain),
                [panel("How many are answered", "tolerance", f"of {QUESTIONS} counts", series)],
                series,
            )
        ],
        [Table("models", names, [astuple(p) for p in points], shown=True, title="Means of all runs")],
    )


def claims(points: Sequence[Point], plain: float) -> list[Claim]:
    """Say what the figure shows; `plain` is the error of counts that each have a 400th of epsilon."""
    weights, discarding = ([p for p in points if p.way == way] for way in WAYS)
    more = min(a.answered / max(b.answered, 1) for a, b in zip(weights, discarding, strict=True))
    worst, lost = max(p.error for p in weights), max(p.lost for p in discarding)
    return [
        Claim(
            f"With weights at least {more:.1f} times as many counts are answered as where hypotheses are "
            f"discarded, which loses the best one in up to {100 * lost:.0f}% of the runs.",
            more > 1.2 and lost > 0.2,
        ),
        Claim(
            f"Answers err by {worst:.0f} at most (root of the mean square), where {QUESTIONS} counts with "
            f"noise err by {plain:.0f}.",
            worst < plain / 2,
        ),
        Claim(
            "No run had more misses than (ln K + M ln 4) / ln 1.6, with K hypotheses of which one was "
            "penalised M times.",
            not any(p.over for p in weights),
        ),
    ]


def _ask(
    counts: NDArray[np.int64], tolerance: int, way: str, source: NoiseSource
) -> tuple[int, float, bool, bool]:
    """Return how many questions were answered, with what squares of errors, and what became of hypotheses."""
    plan = CheckStreamPlan.plan(EPSILON, MISSES)
    stream, weights = CheckStream(plan, source), ModelWeights.equal(len(SCALES))
    noise, left = Laplace.plan(1, plan.answer_epsilon), [True] * len(SCALES)
    errors, scale = list[float](), 1 / plan.answer_epsilon
    for new, old in counts.tolist():
        values = [old * each for each in SCALES]
        known = sorted(each for each, there in zip(values, left, strict=True) if there)
        if stream.exhausted or not known:
            break
        guess = weights.find_median(values) if way == "weights" else known[(len(known) - 1) // 2]
        if stream.check(abs(new - guess) - tolerance) is None:
            errors.append(float(guess - new))
            continue
        answer = Fraction(float(noise.run(np.array([new]), source).value[0]))
        errors.append(float(answer - new))
        weights = weights.learn(values, guess, answer, Fraction(tolerance), scale)
        if way == "discarding":
            left = [
                there and abs(each - answer) <= tolerance for there, each in zip(left, values, strict=True)
            ]
    best = np.abs(np.outer(counts[:, 1], [float(each) for each in SCALES]) - counts[:, :1]).sum(0).argmin()
    over = plan.misses - stream.misses_left > most_misses(len(SCALES), min(weights.penalties))
    return len(errors), float(np.sum(np.square(errors))), not left[int(best)], over


def _mean_of(tolerance: int, way: str, runs: Sequence[tuple[int, float, bool, bool]]) -> Point:
    answered, squares, lost, over = (np.array(each) for each in zip(*runs, strict=True))
    error = float(np.sqrt(squares.sum() / max(answered.sum(), 1)))
    broken = int(over.sum()) if way == "weights" else 0
    return Point(tolerance, way, float(answered.mean()), error, float(lost.mean()), broken)
