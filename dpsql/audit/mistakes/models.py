"""Streams of checks that expect the weighted median of models: one that is right, and incorrect variants.

What is expected of each check is among the outputs, since everybody sees it. All hypotheses say the same of
each count: a number of their own.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.detector import Kind, Subject
from dpsql.audit.runs import CHARGE, Pair
from dpsql.estimates import ModelWeights
from dpsql.kernel.mechanisms import CheckStreamPlan, NoiseSource
from dpsql.kernel.mechanisms.mechanism import in_counts, pad_rows
from dpsql.kernel.noise import Entropy

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


def _runs(_: Fraction) -> list[Pair]:
    """Make pairs in which one unit moves all counts, or every other one the other way."""
    found = []
    for first in (0, 5):
        level = (first,) * 4
        mixed = tuple(first + (-1) ** i for i in range(4))
        found += [Pair("all rise", level, (first + 1,) * 4), Pair("every other falls", level, mixed)]
    return found


def _subject(name: str, fault: str, about: str, kind: Kind = "incorrect") -> Subject:
    return Subject(
        f"models of a stream, {name}",
        kind,
        about,
        partial(ask_models, fault=fault),
        arguments=lambda _: {"width": [2]},
        inputs=_runs,
    )


MODEL_SUBJECTS = (
    _subject(
        "learnt from answers",
        "",
        "their weighted median is expected; where it was off, the answer says which lose weight",
        "reference",
    ),
    _subject("learnt from exact numbers", "exact", "weights follow from the number without noise"),
    _subject(
        "learnt from what is as expected",
        "accepted",
        "weights also follow from noisy numbers beyond the tolerance of checks that are as expected",
    ),
)
