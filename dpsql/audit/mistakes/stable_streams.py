"""Streams of exact answers with a known verdict: one that is resumed each time, and incorrect variants.

An input has the distances of questions and their answers, which differ on neighbours only at distance 0.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.detector import Kind, Subject, repeat_counts
from dpsql.audit.runs import CHARGE, Pair
from dpsql.kernel.mechanisms import FirstStable, NoiseSource, StableAnswers, TopStable
from dpsql.kernel.mechanisms.mechanism import in_counts
from dpsql.kernel.mechanisms.top_stable import StabilityTests
from dpsql.kernel.noise import Entropy, KeyedEntropy, rate

_DELTA, _LITTLE = 0.1, 0.001
"""Delta of the claims: large where the mistake is in delta, small where the mistake is in epsilon."""
_QUIET = Fraction(1, 1 << 40)
"""A scale of noise that is zero but for a probability below e^-1,000,000."""

Questions = tuple[tuple[int, ...], tuple[int, ...]]


def _tests_of(plan: StableAnswers, epsilon: Fraction, delta: float, fault: str) -> StabilityTests:
    """Return the tests of a stream with a fault."""
    tests, most = plan.tests, plan.failures
    if fault == "one-sided":
        return StabilityTests.plan(plan.queries, epsilon, delta, noise="one-sided", paid=most)
    if fault == "silent":
        return replace(tests, scale=_QUIET)
    if fault == "unscaled":
        return StableAnswers.plan(plan.queries, 1, epsilon, delta).tests
    if fault == "one question":
        return StableAnswers.plan(1, most, epsilon, delta).tests
    if fault == "test alone":  # of two Laplace noises the difference has the longer tail
        chance, step = delta / plan.queries, float(rate(tests.scale, tests.resolution))
        return replace(tests, cutoff=int(np.ceil(-np.log(2 * chance) / step)))
    return tests


def stable_stream(
    questions: Questions,
    trials: int,
    entropy: Entropy,
    unstable: int,
    *,
    epsilon: Fraction,
    delta: float,
    fault: str,
) -> dict[str, Any]:
    """Ask questions until so many were unstable, with one fault; `resumed` has none."""
    distances, answers = (np.array(each, dtype=np.int64) for each in questions)
    plan = StableAnswers.plan(len(distances), unstable, epsilon, delta)
    tests = _tests_of(plan, epsilon, delta, fault)
    source, secret = NoiseSource(entropy), entropy.words(4).tobytes()
    level = _level(tests, source, trials)
    used, shape = np.zeros(trials, dtype=np.int64), (trials, len(distances))
    said, gaps = np.full(shape, -1), np.zeros(shape)  # not asked; an unstable one is 0
    for j, distance in enumerate(distances.tolist()):
        if fault == "resumed":
            level = _level(tests, NoiseSource(KeyedEntropy(secret)), trials)
        elif fault == "redrawn":
            level = _level(tests, source, trials)
        noisy = (distance << tests.resolution) + source.draw(tests.law, tests.scale, tests.resolution, trials)
        margin, is_open = noisy - level - tests.cutoff, (used < plan.failures) | (fault == "beyond")
        said[:, j] = np.where(is_open, np.where(margin >= 0, answers[j], 0), -1)
        gaps[:, j] = np.where(is_open & (margin >= 0), in_counts(margin, tests.resolution), np.nan)
        used += is_open & (margin < 0)
    parts: dict[str, Any] = {"answer": said, **({"gap": gaps} if fault == "gaps" else {})}
    middle = len(answers) // 2
    parts |= {"first": (said > 0)[:, :middle].sum(axis=1), "second": (said > 0)[:, middle:].sum(axis=1)}
    charged = [float(plan.realised_loss(n).charge.epsilon) for n in range(plan.failures + 1)]
    return {**parts, CHARGE: np.array(charged)[np.minimum(used, plan.failures)]}


def _level(tests: StabilityTests, source: NoiseSource, trials: int) -> NDArray[np.int64]:
    return source.draw(tests.law, tests.threshold_scale, tests.resolution, trials)


def _make_pairs(
    epsilon: Fraction, *, delta: float, unstable: tuple[int, ...], length: int, failing: float
) -> list[Pair]:
    """Make pairs of which the distances lie around the cutoff, or are 0 with other answers.

    About so large a share of the questions is unstable by noise.
    """
    found = [
        Pair("unstable", ((0,), (1,)), ((0,), (2,))),
        Pair("unstable ones", ((0,) * 6, (1,) * 6), ((0,) * 6, (2,) * 6)),
    ]
    same = (1,) * length
    for most in unstable:
        tests = StableAnswers.plan(length, most, epsilon, delta).tests
        level = round(float(tests.threshold) - float(tests.scale) * math.log(2 * failing))
        flat = (level,) * length
        half, every_other = (tuple(level + (-1) ** (i // k) for i in range(length)) for k in (length // 2, 1))
        found += [
            Pair("all further", (flat, same), ((level + 1,) * length, same)),
            Pair("first half further", (flat, same), (half, same)),
            Pair("every other further", (flat, same), (every_other, same)),
        ]
    return found


def release_list(
    counts: NDArray[np.int64],
    trials: int,
    entropy: Entropy,
    k: int,
    *,
    epsilon: Fraction,
    delta: float,
    fault: Literal["last lead"],
) -> dict[str, Any]:
    """Release the k largest groups as a list, by the lead of the last of them alone."""
    del fault
    order = np.argsort(-counts, kind="stable")[: k + 1]
    kept = np.append(counts[order], np.zeros(k + 1, dtype=np.int64))
    lead = max(int(kept[k - 1] - kept[k]) - 1, 0)
    tests = FirstStable.plan(1, epsilon, delta).tests
    passed = tests.margins(repeat_counts(np.array([lead]), trials), NoiseSource(entropy))[:, 0] >= 0
    return {"list": np.where(passed[:, None], order[:k], -1)}


def _lists(epsilon: Fraction) -> list[Pair]:
    height = 2 * round(float(TopStable.plan(1, epsilon, _LITTLE).lead))
    return [Pair("first two change places", (height, height, 0), (height, height + 1, 0))]


def _subject(
    name: str,
    fault: str,
    about: str,
    *,
    kind: Kind = "incorrect",
    delta: float = _LITTLE,
    unstable: tuple[int, ...] = (1, 3),
    length: int = 6,
    failing: float = 0.5,
    effort: float = 1.0,
) -> Subject:
    around = unstable if fault != "unscaled" else (1,)  # where that noise is
    inputs = partial(_make_pairs, delta=delta, unstable=around, length=length, failing=failing)
    return Subject(
        f"stream of exact answers, {name}",
        kind,
        about,
        partial(stable_stream, delta=delta, fault=fault),
        delta=delta,
        arguments=lambda _: {"unstable": [*unstable]},
        inputs=inputs,
        tight=False,
        effort=effort,
    )


STABLE_STREAM_SUBJECTS = (
    _subject(
        "resumed before each question",
        "resumed",
        "its threshold is drawn anew from the same key, as another process does",
        kind="reference",
    ),
    _subject(
        "threshold redrawn",
        "redrawn",
        "each question, or each process, draws it again, uncharged",
        unstable=(1,),
        length=12,  # of which all may pass, so that the threshold alone is charged
        failing=0.14,
        effort=4.0,
    ),
    _subject("tests without noise", "silent", "only the threshold has noise"),
    _subject(
        "noise not scaled",
        "unscaled",
        "the noise is that of one unstable question",
        unstable=(24,),  # the more there are, the more of their noise is missing
        length=24,
    ),
    _subject(
        "beyond the last unstable one",
        "beyond",
        "goes on when they are used up, and charges no more",
        unstable=(1,),
        length=16,
    ),
    _subject(
        "one-sided noise", "one-sided", "noise that only moves up, where the proof moves it down", length=12
    ),
    _subject(
        "gaps shown", "gaps", "shows by how much each answer passed", unstable=(1,), length=10, failing=0.001
    ),
    _subject(
        "delta of one question",
        "one question",
        "delta is spent by each question, and charged once",
        delta=_DELTA,
        unstable=(6,),
    ),
    _subject(
        "cutoff for the test's noise alone",
        "test alone",
        "the threshold's own noise makes distance 0 pass more often than delta (Bassily et al.)",
        delta=_DELTA,
        unstable=(6,),
    ),
    Subject(
        "list by its last lead",
        "incorrect",
        "the k largest groups in order, where only the last is well ahead of the next",
        partial(release_list, delta=_LITTLE, fault="last lead"),
        delta=_LITTLE,
        arguments=lambda _: {"k": [2]},
        inputs=_lists,
    ),
)
