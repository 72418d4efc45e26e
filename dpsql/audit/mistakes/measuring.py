"""Incorrect measuring mechanisms: box and cube noise; mistakes seen in several numbers or at large counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.detector import Subject, repeat_counts
from dpsql.audit.runs import Pair
from dpsql.audit.statistics import draw_uniforms
from dpsql.kernel import noise as exact_noise
from dpsql.kernel.mechanisms import NoiseSource
from dpsql.kernel.mechanisms.measure import Box
from dpsql.kernel.noise import Entropy

Shape = int | tuple[int, ...]


def laplace(scale: Fraction, shape: Shape, entropy: Entropy) -> NDArray[np.float64]:
    """Draw Laplace noise of this scale."""
    bits = exact_noise.resolution(scale)
    steps = exact_noise.laplace(exact_noise.rate(scale, bits), shape, entropy=entropy)
    return np.multiply(steps, 0.5**bits, dtype=np.float64)


def exponential(scale: Fraction, shape: Shape, entropy: Entropy) -> NDArray[np.float64]:
    """Draw exponential noise of this scale."""
    bits = exact_noise.resolution(scale)
    steps = exact_noise.geometric(exact_noise.rate(scale, bits), shape, entropy=entropy)
    return np.multiply(steps, 0.5**bits, dtype=np.float64)


def geometric(ratio: float, shape: Shape, entropy: Entropy) -> NDArray[np.int64]:
    """Draw geometric noise with P(Y >= m) = ratio^m for any ratio, in floating point."""
    drawn = draw_uniforms(int(np.prod(shape)), entropy).reshape(shape)
    return np.asarray(np.floor(np.log(drawn) / np.log(ratio)), dtype=np.int64)


def textbook_laplace(scale: float, shape: Shape, entropy: Entropy) -> NDArray[np.float64]:
    """Draw Laplace noise as textbooks do, in doubles: -scale sign(u) ln(1 - 2|u|), u in (-1/2, 1/2)."""
    drawn = draw_uniforms(int(np.prod(shape)), entropy).reshape(shape) - 0.5
    return np.asarray(-scale * np.sign(drawn) * np.log1p(-2 * np.abs(drawn)))


def two_names(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction
) -> dict[str, NDArray[np.float64]]:
    """Return two counts under two names, each with noise for three quarters of epsilon."""
    drawn = laplace(4 / (3 * epsilon), (trials, 2), entropy)
    return {"a": counts[0] + drawn[:, 0], "b": counts[1] + drawn[:, 1]}


def one_draw_for_two(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction
) -> dict[str, NDArray[np.float64]]:
    """Return two counts under two names with one shared draw of noise, which cancels in b - 2 a."""
    drawn = laplace(2 / epsilon, trials, entropy)
    return {"a": counts[0] + drawn, "b": counts[1] + 2 * drawn}


def below_grid(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction
) -> NDArray[np.float64]:
    """Return a sum of amounts of about 0.1, with noise on a coarser grid than the amounts have."""
    amount, steps = round(0.1 * (1 << 20)) / (1 << 20), 1 << 8
    return np.asarray(counts[0] * amount + np.rint(laplace(1 / epsilon, trials, entropy) * steps) / steps)


def drop_scale(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction
) -> NDArray[np.float64]:
    """Return counts with noise of scale 1/epsilon, but of a third of this scale for counts above 50."""
    drawn = laplace(1 / epsilon, (trials, len(counts)), entropy)
    return np.asarray(counts + np.where(counts > 50, drawn / 3, drawn))


def narrow_counter(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction
) -> NDArray[np.float64]:
    """Return a count kept in 8 bits, with noise."""
    return np.asarray((counts[0] & 255) + laplace(1 / epsilon, trials, entropy))


MEASURE_SUBJECTS = (
    Subject(
        "two counts under two names",
        "incorrect",
        "each with noise for three quarters of epsilon: together they cost one and a half",
        two_names,
        "monotone",
    ),
    Subject(
        "two counts, one draw of noise",
        "incorrect",
        "a = x + N and b = y + 2 N: b - 2 a has no noise",
        one_draw_for_two,
        "monotone",
    ),
    Subject(
        "noise on a coarser grid than the sum",
        "incorrect",
        "digits below the noise's grid are those of the sum (Haney et al. 2022)",
        below_grid,
        "one",
    ),
    Subject(
        "scale dropped above 50",
        "incorrect",
        "noise of a third of the scale where a count is large",
        drop_scale,
        "one",
    ),
    Subject(
        "count in 8 bits",
        "incorrect",
        "255 and one more are 0: one unit changes the count by 255",
        narrow_counter,
        "one",
    ),
)

_BOUNDS = (2, 3)
"""How much a unit changes each of two counts."""


def wrong_scale(
    counts: NDArray[np.int64],
    trials: int,
    entropy: Entropy,
    *,
    epsilon: Fraction,
    factor: Fraction,
    monotone: bool = True,
) -> NDArray[np.float64]:
    """Return counts with box or cube noise, whose scale is too small by a factor."""
    plan = Box.plan(len(counts), epsilon, monotone=monotone)
    wrong = replace(plan, rate=plan.rate * factor)
    return wrong.run(repeat_counts(counts, trials), NoiseSource(entropy)).value


def off_the_grid(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction
) -> NDArray[np.float64]:
    """Return two counts with different bounds, each with its bound times a whole number of noise."""
    plan = Box.plan(len(_BOUNDS), epsilon, resolution=0)
    drawn = plan.run(np.zeros((trials, len(_BOUNDS)), dtype=np.int64), NoiseSource(entropy)).value
    return np.asarray(counts + np.array(_BOUNDS) * drawn)


def with_zeros(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction
) -> dict[str, NDArray[np.float64]]:
    """Return counts and zeros with box noise, without subtracting the zeros' midrange: the mistake."""
    plan = Box.plan(len(counts), epsilon)
    drawn = exact_noise.box(plan.rate, len(counts) + plan.pads, trials, entropy=entropy) / plan.unit
    return {"value": counts + drawn[:, : len(counts)], "zero": drawn[:, len(counts) :]}


def with_side(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction
) -> dict[str, NDArray[np.float64]]:
    """Return counts with box noise and, as the mistake, the private side of the box as well."""
    plan = Box.plan(len(counts), epsilon)
    side = exact_noise.box_side(plan.rate, len(counts) + plan.pads, trials, entropy=entropy)
    drawn = exact_noise.uniform(side, len(counts) + plan.pads, entropy=entropy)
    ends = drawn[:, len(counts) :]
    middle = (ends.max(axis=1) + ends.min(axis=1)) / 2
    value = counts + (drawn[:, : len(counts)] - middle[:, None]) / plan.unit
    return {"value": value, "side": side / plan.unit}


def _above(*lengths: int) -> Callable[[Fraction], list[Pair]]:
    def inputs(_: Fraction) -> list[Pair]:
        found = [Pair("all above", (0,) * n, (1,) * n) for n in lengths]
        return [*found, *(Pair("one above", (0,) * n, (1, *(0,) * (n - 1))) for n in lengths)]

    return inputs


def _apart(_: Fraction) -> list[Pair]:
    return [
        Pair("one above, one below", (1, 1), (2, 0)),
        Pair("half half", (1, 1, 1, 1), (2, 2, 0, 0)),
        Pair("one above", (1, 1, 1), (2, 1, 1)),
    ]


def _within_bounds(_: Fraction) -> list[Pair]:
    return [
        Pair("both above", (1, 1), (3, 4)),
        Pair("both above by one", (1, 1), (2, 2)),
        Pair("the second above by one", (1, 1), (1, 2)),
    ]


def _mistake(
    name: str,
    about: str,
    mechanism: Callable[..., object],
    inputs: Callable[[Fraction], list[Pair]] | None = None,
) -> Subject:
    return Subject(name, "incorrect", about, mechanism, inputs=inputs)


BOX_SUBJECTS = (
    _mistake(
        "box noise on differences",
        "counts that a unit moves in different directions, by twice the bound of the box",
        partial(wrong_scale, factor=Fraction(1)),
    ),
    _mistake(
        "box noise, scale too small by a sixth",
        "noise for 1.2 times epsilon",
        partial(wrong_scale, factor=Fraction(6, 5)),
        _above(2, 3, 5),
    ),
    _mistake(
        "box noise, scale halved",
        "noise for twice epsilon",
        partial(wrong_scale, factor=Fraction(2)),
        _above(2, 5),
    ),
    _mistake(
        "cube noise, the box's rate",
        "e^(-rate) for each step of the side, which has two steps for each step of the noise",
        partial(wrong_scale, factor=Fraction(2), monotone=False),
        _apart,
    ),
    _mistake(
        "box noise, unequal bounds off the grid",
        "a count plus its bound times whole noise: the remainder is that of the count",
        off_the_grid,
        _within_bounds,
    ),
    _mistake(
        "box noise, zeros released",
        "the common shift of all values is known from the zeros: no value is below its count",
        with_zeros,
        _above(2, 5),
    ),
    _mistake(
        "box noise, side released",
        "no value is a side or more from the zeros: values at this limit reveal the count",
        with_side,
        _above(1, 2, 3),
    ),
)
