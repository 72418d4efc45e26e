"""Streams of checks with a known verdict: one that is resumed before each check, and incorrect variants.

Counts stand for statistics, in bounds: how far numbers are from what is expected of them. What models expect
of each check is among the outputs, since everybody sees it. All hypotheses say the same of each count: a
number of their own.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.cases import levels
from dpsql.audit.detector import Kind, Subject
from dpsql.audit.runs import CHARGE, Pair
from dpsql.estimates import ModelWeights
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


_HYPOTHESES = 6


def ask_models(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, width: int, *, epsilon: Fraction, fault: str
) -> dict[str, Any]:
    """Ask each count of a stream with models until the misses are used up, with one fault; "" is none.

    Hypotheses guess multiples of the `width`, and so far off a count may be.
    """
    misses = 2
    plan, source = CheckStreamPlan.plan(epsilon, misses), NoiseSource(entropy)
    tolerance, scale = width, float(1 / plan.answer_epsilon)

    def draw(kind: Any, of: Fraction, size: int) -> NDArray[np.int64]:  # noqa: ANN401  a kind of noise
        return source.draw(kind, of, plan.resolution, size)

    values = np.arange(_HYPOTHESES) * width
    level = draw(plan.noise, plan.threshold_scale, trials)
    used, penalties = np.zeros(trials, dtype=np.int64), np.zeros((trials, _HYPOTHESES), dtype=np.int64)
    shape = (trials, len(counts))
    said, gaps, answers, guesses = np.full(shape, -1), np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for j, count in enumerate(counts.tolist()):
        guess = _find_medians(penalties, values)
        steps = (abs(count - guess) - tolerance) * (1 << plan.resolution)
        noisy = steps + draw(plan.noise, plan.scale, trials)
        is_open = used < misses
        off = is_open & (noisy - level >= plan.cutoff)
        noise = in_counts(draw("laplace", 1 / plan.answer_epsilon, trials), plan.resolution)
        said[:, j], guesses[:, j] = np.where(is_open, off, -1), np.where(is_open, guess, -1)
        gaps[:, j], answers[:, j] = in_counts(noisy - level, plan.resolution), count + noise
        used += off
        learnt = np.full(trials, float(count)) if fault == "exact" else answers[:, j]
        at = np.flatnonzero(off)
        penalties[at] += _penalise(values, guess[at], learnt[at], tolerance, scale)
        if fault == "accepted":
            beyond = is_open & ~off & (noisy >= 0)
            penalties += beyond[:, np.newaxis] & (values <= guess[:, np.newaxis])
    trial, place = np.nonzero(said == 1)
    parts: dict[str, Any] = {"off": said}
    parts["gap"], parts["answer"] = pad_rows(
        trial, (trials, misses), gaps[trial, place], answers[trial, place]
    )
    charged = [float(plan.realised_loss(n).charge.epsilon) for n in range(misses + 1)]
    return {**parts, "expected": guesses.astype(np.int64), CHARGE: np.array(charged)[used]}


def _find_medians(penalties: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the weighted median of hypotheses with each row of penalties."""
    size = int(penalties.max()) + 1
    _, first, which = np.unique(
        penalties @ size ** np.arange(len(values)), return_index=True, return_inverse=True
    )
    listed = [Fraction(int(value)) for value in values]
    found = [int(ModelWeights(tuple(row)).find_median(listed)) for row in penalties[first].tolist()]
    return np.asarray(np.array(found, dtype=np.int64)[which.reshape(-1)])


def _penalise(
    values: NDArray[np.int64],
    guess: NDArray[np.int64],
    answer: NDArray[np.float64],
    tolerance: int,
    scale: float,
) -> NDArray[np.bool_]:
    """Return which hypotheses each run penalises, as `ModelWeights.learn` does."""
    off = abs(values - answer[:, np.newaxis])
    return (off >= abs(guess - answer)[:, np.newaxis]) | (off > tolerance / 2 + 2 * scale)


def _model_runs(_: Fraction) -> list[Pair]:
    """Make pairs in which one unit moves all counts, or every other one the other way."""
    found = []
    for first in (0, 5):
        level = (first,) * 4
        mixed = tuple(first + (-1) ** i for i in range(4))
        found += [Pair("all rise", level, (first + 1,) * 4), Pair("every other falls", level, mixed)]
    return found


def _model_subject(name: str, fault: str, about: str, kind: Kind = "incorrect") -> Subject:
    return Subject(
        f"models of a stream, {name}",
        kind,
        about,
        partial(ask_models, fault=fault),
        arguments=lambda _: {"width": [2]},
        inputs=_model_runs,
    )


MODEL_SUBJECTS = (
    _model_subject(
        "learnt from answers",
        "",
        "their weighted median is expected; where it was off, the answer says which lose weight",
        "reference",
    ),
    _model_subject("learnt from exact numbers", "exact", "weights follow from the number without noise"),
    _model_subject(
        "learnt from what is as expected",
        "accepted",
        "weights also follow from noisy numbers beyond the tolerance of checks that are as expected",
    ),
)


_NONE = -(10.0**6)
"""What stands for a score that is not answered."""


def board(
    counts: NDArray[np.int64],
    trials: int,
    entropy: Entropy,
    start: int,
    improvements: int,
    *,
    epsilon: Fraction,
    fault: str,
) -> dict[str, Any]:
    """Compare each score with the best until then, less a step of 1; answer those that are better.

    Correctly, the best becomes what the gap tells of the score. With the fault `exact best` it becomes the
    exact score of an improvement, with `exact ladder` the lowest exact score of all. `no noise` compares
    scores themselves, as the Ladder and Thresholdout are printed. `half bound` has noise for half of what a
    unit moves.
    """
    plan = CheckStreamPlan.plan(epsilon, improvements, answers=0)
    source, bits = NoiseSource(entropy), plan.resolution
    loud = fault != "no noise"
    level = source.draw(plan.noise, plan.threshold_scale, bits, trials) if loud else 0
    used, best = np.zeros(trials, dtype=np.int64), np.full(trials, start << bits)
    shape, moves = (trials, len(counts)), 2 if fault == "half bound" else 1
    said = np.full(shape, -1)
    values, gaps, edges = np.full(shape, _NONE), np.full(shape, _NONE), np.full(shape, _NONE)
    for j, count in enumerate(counts):
        exact = int(count) << bits
        noise = source.draw(plan.noise, plan.scale, bits, trials) if loud else 0
        found = moves * (best - (1 << bits) - exact) + noise - level
        is_open = used < improvements
        edges[is_open, j] = in_counts(best - (1 << bits), bits)[is_open]
        off = is_open & (found >= (plan.cutoff if loud else 0))
        answer = best - (1 << bits) - found - math.floor(plan.offset * (1 << bits))
        said[:, j] = np.where(is_open, off, -1)
        values[off, j] = in_counts(answer, bits)[off]
        gaps[off, j] = in_counts(found, bits)[off] if loud else 0
        kept = answer if fault not in ("exact best", "exact ladder") else np.full(trials, exact)
        better = (off | (fault == "exact ladder")) & (kept < best)
        best, used = np.where(better, kept, best), used + off
    charged = np.array([float(plan.realised_loss(n).charge.epsilon) for n in range(improvements + 1)])
    return {"better": said, "gap": gaps, "score": values, "expected": edges, CHARGE: charged[used]}


def _pairs(_: Fraction) -> list[Pair]:
    """Make pairs in which one unit moves all scores, or the first one down and the others up."""
    found = []
    for n in (4, 8):
        opposite = Pair("the first falls, the others rise", (3,) * n, (2, *(4,) * (n - 1)))
        found += [Pair("all fall", (3,) * n, (2,) * n), opposite]
    return found


def _board_subject(name: str, fault: str, about: str, kind: Kind = "incorrect") -> Subject:
    def arguments(epsilon: Fraction) -> dict[str, list[int]]:
        return {"start": levels(epsilon, 0, 4, 40, base=4), "improvements": [1, 2]}

    return Subject(
        f"board, {name}", kind, about, partial(board, fault=fault), arguments=arguments, inputs=_pairs
    )


BOARD_SUBJECTS = (
    _board_subject(
        "best of its gaps",
        "",
        "each score is compared with the best gap until then, and improvements alone are charged",
        "reference",
    ),
    _board_subject(
        "best from exact scores", "exact best", "the best becomes the exact score of an improvement"
    ),
    _board_subject(
        "best of all exact scores",
        "exact ladder",
        "the best is the lowest exact score until then, whether or not it was answered",
    ),
    _board_subject(
        "compares exactly",
        "no noise",
        "compares scores without noise, as the Ladder and Thresholdout are printed",
    ),
    _board_subject(
        "bound of the values alone",
        "half bound",
        "noise for the range of the values, where the edge lies outside of it and a unit moves twice as much",
    ),
)
