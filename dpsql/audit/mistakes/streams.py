"""Streams of checks with a known verdict: one that is resumed before each check, and incorrect variants.

Counts stand for statistics, in bounds: how far numbers are from what is expected of them.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.cases import levels
from dpsql.audit.detector import Kind, Subject
from dpsql.audit.runs import CHARGE, Pair
from dpsql.kernel.mechanisms import CheckStreamPlan, NoiseSource
from dpsql.kernel.mechanisms.mechanism import in_counts, pad_rows
from dpsql.kernel.noise import Entropy, KeyedEntropy

_QUIET = Fraction(1, 1 << 40)
"""A scale of noise that is zero but for a probability below e^-1,000,000."""


def stream(
    counts: NDArray[np.int64],
    trials: int,
    entropy: Entropy,
    expected: int,
    misses: int,
    *,
    epsilon: Fraction,
    fault: str,
) -> dict[str, Any]:
    """Check statistics in order until the misses are used up, with one fault; `resumed` has none."""
    plan = CheckStreamPlan.plan(epsilon, misses, answers=0, direction="UP" if fault == "one way" else "BOTH")
    used_plan = plan
    if fault == "quiet":
        used_plan = replace(plan, threshold_scale=_QUIET)
    elif fault == "silent":
        used_plan = replace(plan, scale=_QUIET)
    elif fault == "unscaled":
        used_plan = replace(plan, scale=CheckStreamPlan.plan(epsilon, 1, answers=0).scale)
    source, secret = NoiseSource(entropy), entropy.words(4).tobytes()
    steps = [round(each) << plan.resolution for each in _statistics(counts, expected, fault)]
    used, shape = np.zeros(trials, dtype=np.int64), (trials, len(counts))
    level = _level(used_plan, source, trials)
    said, gaps, values = np.full(shape, -1), np.zeros(shape), np.zeros(shape)
    for j, step in enumerate(steps):
        if fault == "resumed":
            level = _level(used_plan, NoiseSource(KeyedEntropy(secret)), trials)
        elif fault == "redrawn":
            level = _level(used_plan, source, trials)
        noisy = step + source.draw(plan.noise, used_plan.scale, plan.resolution, trials)
        is_open = (used < misses) | (fault == "beyond")
        off = is_open & (noisy - level >= plan.cutoff)
        said[:, j] = np.where(is_open, off, -1)
        gaps[:, j] = in_counts(noisy - level, plan.resolution)
        values[:, j] = in_counts(noisy, plan.resolution)
        used += off
    trial, place = np.nonzero(said == 1)
    most = misses if fault != "beyond" else len(counts)
    parts: dict[str, Any] = {"off": said}
    (parts["gap"],) = pad_rows(trial, (trials, most), gaps[trial, place])
    if fault == "own noise":
        (parts["value"],) = pad_rows(trial, (trials, most), values[trial, place])
    charged = [float(plan.realised_loss(n).charge.epsilon) for n in range(misses + 1)]
    return {**parts, CHARGE: np.array(charged)[np.minimum(used, misses)]}


def _level(plan: CheckStreamPlan, source: NoiseSource, trials: int) -> NDArray[np.int64]:
    return source.draw(plan.noise, plan.threshold_scale, plan.resolution, trials)


def _statistics(counts: NDArray[np.int64], expected: int, fault: str) -> list[int]:
    """Return how far counts are from what is expected."""
    found = [int(each) - expected for each in counts]
    if fault == "relative":  # a tolerance of the whole true count: it moves by 2
        return [abs(each) - int(count) for each, count in zip(found, counts, strict=True)]
    if fault == "no tolerance in the bound":  # that of an average between 0 and 1, off by 1 from 1/2
        return [2 * each for each in found]
    if fault == "exact":
        return [abs(int(b) - int(a)) - expected for a, b in zip([expected, *counts], counts, strict=False)]
    return found


def _runs(_: Fraction) -> list[Pair]:
    """Make adjacent inputs of check streams: all statistics rise by 1, or they rise and fall in turn."""
    found = []
    for n in (4, 10):
        level = (2,) * n
        mixed = tuple(2 + (-1) ** i for i in range(n))
        found += [Pair("all rise", level, (3,) * n), Pair("every other falls", level, mixed)]
    return found


def _subject(
    name: str,
    fault: str,
    about: str,
    *,
    kind: Kind = "incorrect",
    misses: tuple[int, ...] = (1, 3),
    expected: tuple[int, ...] = (-4, -1, 0, 2),
) -> Subject:
    def arguments(epsilon: Fraction) -> dict[str, list[int]]:
        return {"expected": levels(epsilon, *expected), "misses": [*misses]}

    run = partial(stream, fault=fault)
    return Subject(f"stream of checks, {name}", kind, about, run, arguments=arguments, inputs=_runs)


STREAM_SUBJECTS = (
    _subject(
        "resumed before each check",
        "resumed",
        "its threshold is drawn anew from the same key, as another process does",
        kind="reference",
    ),
    _subject("threshold without noise", "quiet", "compares with the tolerance, or a known threshold"),
    _subject("threshold redrawn", "redrawn", "each check, or each process, draws it again, uncharged"),
    _subject("its own noise as the answer", "own noise", "releases what it compared, beside the gap"),
    _subject("monotone scale", "one way", "the noise for one direction under statistics that move both ways"),
    _subject("checks without noise", "silent", "only the threshold has noise"),
    _subject(
        "noise not scaled with misses",
        "unscaled",
        "the noise of a check is that of one miss",
        misses=(6,),
        expected=(-20, -16, -12, -8),  # where most checks are off
    ),
    _subject("beyond the last miss", "beyond", "goes on when the misses are used up, and charges no more"),
    _subject("relative to the true count", "relative", "a tolerance that is a share of the number itself"),
    _subject(
        "bound without the tolerance",
        "no tolerance in the bound",
        "an average's bound is its distance from what is expected, although its tolerance counts rows, too",
    ),
    _subject("expected exactly", "exact", "expects the number before, without noise"),
)
