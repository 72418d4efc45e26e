"""Exact answers of stable queries: First Stable and A_OQR, with dpsql's charge beside the published one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction
from math import ceil, log, sqrt

import numpy as np

from dpsql.estimates.predictions import clear_gap
from dpsql.kernel.mechanisms import FirstStable, NoiseSource, StabilityTests, StableAnswers
from dpsql.kernel.noise import Entropy
from dpsql.kernel.public_order import in_public_order
from reproduce.page import Claim, Figure, Section, Table
from reproduce.svg import Series, panel

__all__ = ["FAILURES", "First", "Stream", "claims_first", "claims_stream", "stable"]

EPSILON, DELTA, QUESTIONS = 1, Fraction(1, 10**6), 1000
LIST_DELTA = Fraction(1, 10**7)
FAILURES = (1, 2, 5, 10, 20, 50)
"""How many questions of a stream may be unstable."""
LISTS = (1, 2, 5, 10, 20)
LIKELY = Fraction(95, 100)
WIDE = Fraction(1, 50)
"""A delta that is often spent, so that few runs show it."""


@dataclass(frozen=True, slots=True)
class First:
    """A list of queries of which the first stable one is answered."""

    queries: int
    half: float
    """The lead at which the noise has no bias: with it a query passes about as often as not."""
    lead: float
    """The lead with which a query passes in 95% of runs."""
    passed: float
    """In how many runs one with that lead did."""
    unstable: float
    """In how many runs an unstable one did, as a part of the delta that is charged for it."""
    uncorrected: float
    """The same with the cutoff for the noise of the test alone."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of 1,000 questions of which some are unstable."""

    failures: int
    half: float
    lead: float
    passed: float
    published: float
    """The lead that is needed by the published charge, which is not proved."""
    absolute: float
    """The same with the absolute noise of the first version."""


def stable(trials: int, entropy: Entropy, tick: Callable[[], None]) -> Section:
    """Test how far queries must lead to be answered, and how often unstable ones are."""
    source, rng = NoiseSource(entropy), np.random.default_rng(trials)
    firsts, streams = list[First](), list[Stream]()
    for queries in LISTS:
        firsts.append(_first(queries, trials, source))
        tick()
    for failures in FAILURES:
        streams.append(_stream(failures, trials, source, rng))
        tick()
    series = [
        Series("charged by the published formula", FAILURES, [s.published for s in streams], "both", 1, 1),
        Series("and with absolute noise", FAILURES, [s.absolute for s in streams], "both", 2, 2),
        Series("dpsql", FAILURES, [s.lead for s in streams], "both", 0, 0),
    ]
    lists = [Series("lead", LISTS, [f.lead for f in firsts], "both", 0, 0)]
    return Section(
        "Answers without noise need a lead",
        "Top Stable, supplement (Algorithms 4 and 5).",
        "A query whose answer no few people could change is answered exactly. First Stable answers the "
        f"first of a list, at epsilon {EPSILON}; A_OQR answers a stream of {QUESTIONS:,} questions until "
        f"some were unstable; delta is {float(DELTA):g}, of lists {float(LIST_DELTA):g}. dpsql charges "
        "each unstable question of a stream; the paper charges sqrt(32 k ln(2/delta)) times what one "
        f"costs, which its sources do not prove. {trials:,} runs a point.",
        [
            Figure(
                "A list: the first that is stable",
                claims_first(firsts),
                [panel("Lead that is needed in 95% of runs", "queries in the list", "people", lists)],
                lists,
            ),
            Figure(
                "A stream: all that are stable",
                claims_stream(streams),
                [panel("Lead that is needed in 95% of runs", "unstable questions", "people", series)],
                series,
            ),
        ],
        [
            Table(
                "first_stable",
                (
                    "queries",
                    "even lead",
                    "lead",
                    "passed",
                    "unstable passed, of delta",
                    "the same without correction",
                ),
                [astuple(f) for f in firsts],
                shown=True,
                title=f"Lists; the last two columns at delta {float(WIDE):g} for each query",
            ),
            Table(
                "stable_answers",
                ("unstable", "even lead", "lead", "passed", "lead as published", "lead with absolute noise"),
                [astuple(s) for s in streams],
                shown=True,
                title="Streams",
            ),
        ],
    )


def claims_first(firsts: Sequence[First]) -> list[Claim]:
    """Say what the table of lists shows."""
    one, most = firsts[0], firsts[-1]
    passed, unstable = [f.passed for f in firsts], max(f.unstable for f in firsts)
    return [
        Claim(
            f"A query that leads by {one.half:.0f} is answered about as often as not, with {one.lead:.0f} "
            f"in 95% of runs ({min(passed):.3f} to {max(passed):.3f} seen); among {most.queries} it has "
            f"to be {most.lead:.0f}.",
            all(0.9 < p < 0.99 for p in passed) and 38 < one.half < 40 and most.lead < 1.5 * one.lead,
        ),
        Claim(
            f"An unstable one passes no more often than its delta ({unstable:.2f} of it at most), as the "
            "paper's correction says; with the cutoff for the noise of the test alone, up to "
            f"{max(f.uncorrected for f in firsts):.2f} times as often.",
            unstable < 1.15 and max(f.uncorrected for f in firsts) > 1.15,
        ),
    ]


def claims_stream(streams: Sequence[Stream]) -> list[Claim]:
    """Say what the figure of streams shows."""
    five, ten = (next(s for s in streams if s.failures == n) for n in (5, 10))
    passed = [s.passed for s in streams]
    return [
        Claim(
            f"Of {QUESTIONS:,} questions of which 5 are unstable half are answered that lead by "
            f"{five.half:.0f}, and 95% of those that lead by {five.lead:.0f}; of 10 it is {ten.half:.0f} "
            f"and {ten.lead:.0f} ({min(passed):.3f} to {max(passed):.3f} of runs).",
            all(0.9 < p < 0.99 for p in passed) and round(five.half) == 246 and round(ten.half) == 458,
        ),
        Claim(
            f"By the published charge it would be {five.published:,.0f} and {ten.published:,.0f}: it pays "
            "only from some 460 unstable questions on.",
            all(s.lead < s.published for s in streams),
        ),
        Claim(
            "Absolute noise of the threshold, as in the first version, needs a larger lead than the "
            "corrected cutoff.",
            all(s.published < s.absolute for s in streams),
        ),
    ]


def _first(queries: int, trials: int, source: NoiseSource) -> First:
    plan = FirstStable.plan(queries, EPSILON, LIST_DELTA)
    lead = ceil(clear_gap(plan, LIKELY) or 0)
    runs = np.zeros((trials, queries), dtype=np.int64)
    runs[:, -1] = lead  # the others are unstable
    passed = plan.run(in_public_order(runs), source).index >= 0
    tests = FirstStable.plan(1, EPSILON, WIDE, noise="laplace").tests
    margins = tests.margins(np.zeros((50 * trials, 1), dtype=np.int64), source)
    alone = ceil(_cutoff_alone(tests, WIDE) * (1 << tests.resolution))
    corrected, uncorrected = ((margins + more >= 0).mean() for more in (0, tests.cutoff - alone))
    parts = float(corrected / float(WIDE)), float(uncorrected / float(WIDE))
    return First(queries, float(plan.tests.threshold), float(lead), float(passed.mean()), *parts)


def _stream(failures: int, trials: int, source: NoiseSource, rng: np.random.Generator) -> Stream:
    plan = StableAnswers.plan(QUESTIONS, failures, EPSILON, DELTA)
    lead = ceil(clear_gap(plan, LIKELY) or 0)
    # One question a run, since each has the same chance.
    passed = plan.tests.margins(np.full((trials, 1), lead, dtype=np.int64), source) >= 0
    times = Fraction(sqrt(32 * failures * log(2 / float(DELTA)))).limit_denominator(1000)
    printed = FirstStable.plan(QUESTIONS, EPSILON / times, DELTA / 2, noise="laplace")
    first, each = (
        rng.laplace(0, float(s), 200_000) for s in (printed.tests.threshold_scale, printed.tests.scale)
    )
    absolute = _cutoff_alone(printed.tests, DELTA / 2 / QUESTIONS)
    absolute += float(np.quantile(np.abs(first) - each, float(LIKELY)))
    half, published = float(plan.tests.threshold), clear_gap(printed, LIKELY) or 0.0
    return Stream(failures, half, float(lead), float(passed.mean()), published, absolute)


def _cutoff_alone(tests: StabilityTests, delta: Fraction) -> float:
    """Return the cutoff that was published first: what the noise of a test alone exceeds with delta."""
    return log(1 / float(delta)) * float(tests.scale)
