"""Guess and check: counts answered by public guesses; only guesses that are off are charged."""

from __future__ import annotations

import math
import threading
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss, exact
from dpsql.kernel.mechanisms.check_stream import ANSWERS, ChargedByMiss, best_threshold_share
from dpsql.kernel.mechanisms.mechanism import (
    SYSTEM,
    Mechanism,
    Noise,
    NoiseSource,
    Result,
    between,
    bound,
    grid_of,
    in_counts,
    in_order,
    kind,
    pad_rows,
    positive,
    to_steps,
    whole,
)
from dpsql.kernel.mechanisms.sparse_vector_plan import mean_noise
from dpsql.kernel.public_order import OrderedCounts
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class Misses(Result["GuessAndCheckPlan"]):
    """The counts for which a guess was off: positions, noisy counts, and gaps as in `Checked`."""

    index: NDArray[np.int64]
    value: NDArray[np.float64]
    gap: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GuessAndCheckPlan(Mechanism[Misses]):
    """The public facts of guess and check, which `GuessAndCheck` runs interactively.

    `run` checks one guess, known beforehand, for each of a list of counts.

    Attributes
    ----------
    misses, noise
        As given to `plan`.
    guess
        The guess of `run`, in grid steps.
    threshold_epsilon, miss_epsilon
        Charge of the threshold, and of a miss.
    threshold_scale, scale, answer_scale
        Noise scales in counts: of the threshold, drawn once and shared by all checks and gaps; of a check;
        and of the count that answers a miss.
    resolution
        b, for a grid of 2^-b counts.
    cutoff
        A guess is off if its error + noise - threshold noise, in grid steps, is at least this.
    offset
        What is added to such a value, in counts, to get the gap.

    Notes
    -----
    PrivGuessAndCheck of the lecture (section 2), as one sparse vector with gap whose queries are
    |q - guess|, with threshold `tolerance` and k = misses, rather than one sparse vector a miss.
    *Private* if guesses depend on public data and earlier answers alone: then for the same answers
    they are the same on a neighbour D'. z = |q - guess| moves by at most c either way. The threshold's
    noise moves by c; on a miss, the check's by c + z - z' and the count's by q - q'. All of the
    threshold's and the checks' moves are upwards, misses keep gap and count, and a hit stays one, as
    z' <= z + c. So the same answers come out, and they alone say which noise moved by how much: the
    alignment is injective. It costs c/scale_0 = epsilon_0 and, a miss, at most 2c/scale_1 + c/scale_2
    = epsilon_1 + epsilon_2. Hits are free.

    Guesses are rounded to the grid. Otherwise |q - guess| - |q' - guess| is not a multiple of a step if the
    guess lies between q and q', and the last digits of the gap distinguish D from D'.
    """

    ordered = True

    misses: int
    noise: Noise
    guess: int
    threshold_epsilon: Fraction
    miss_epsilon: Fraction
    threshold_scale: Fraction
    scale: Fraction
    answer_scale: Fraction
    resolution: int
    cutoff: int
    offset: Fraction

    @classmethod
    def plan(
        cls,
        tolerance: Number,
        epsilon: Number,
        misses: int,
        *,
        guess: Number = 0,
        share: Number | None = None,
        answer_share: Number = ANSWERS,
        sensitivity: Number = 1,
        noise: Noise = "exponential",
        resolution: int | None = None,
    ) -> Self:
        """Plan checks of guesses.

        Parameters
        ----------
        tolerance
            A guess is a hit if its error is below this, in counts, up to noise. Public.
        epsilon
            Budget for all checks, with every miss used.
        misses
            How many misses the budget pays for.
        guess
            The guess of `run` for each count: public.
        share
            Part of the budget for the threshold's noise; `best_threshold_share` by default.
        answer_share
            Part of a miss's budget for its noisy count; the rest pays for the check. With the default, 1/3,
            check and count have noise of the same scale.
        noise
            Of threshold and checks: "exponential", "laplace" or "geometric". The count on a miss has
            Laplace noise.
        sensitivity, resolution
            As in `Mechanism`.
        """
        budget, moved, noise = positive(epsilon, "epsilon"), bound(sensitivity), kind(noise)
        misses, answering = whole(misses, "misses"), between(answer_share, "answer_share")
        usual = best_threshold_share(misses, 2, answering)
        part = usual if share is None else between(share, "share")
        each = (1 - part) * budget / misses
        threshold_scale, scale = moved / (part * budget), 2 * moved / ((1 - answering) * each)
        answer_scale = moved / (answering * each)
        bits = grid_of(noise, resolution, threshold_scale, scale, answer_scale)
        offset = mean_noise(noise, threshold_scale, bits) - mean_noise(noise, scale, bits) - exact(tolerance)
        return cls(
            misses,
            noise,
            on_grid(guess, bits),
            part * budget,
            each,
            threshold_scale,
            scale,
            answer_scale,
            bits,
            math.ceil(-offset * (1 << bits)),
            offset,
            loss=PrivacyLoss.of(budget),
        )

    def covers(self, taken: Taken) -> bool:
        """Return whether `loss` holds for counts that one unit changes so far.

        The error of a guess changes by at most c, up or down, and so does the count.
        """
        most = taken.most
        checked = 2 * most / self.scale + most / self.answer_scale
        if self.realised_loss(self.misses).charge.epsilon > (self.loss.epsilon or 0):
            return False
        return most <= self.threshold_epsilon * self.threshold_scale and checked <= self.miss_epsilon

    def realised_loss(self, units: int) -> PrivacyLoss:
        """Return the loss of a run with a given number of misses."""
        return PrivacyLoss.of(self.threshold_epsilon + units * self.miss_epsilon)

    def run(self, counts: OrderedCounts, source: NoiseSource = SYSTEM) -> Misses:
        """Check the guess for counts in a public order, until the misses are used up."""
        array = in_order(counts, trials=True)
        rows = to_steps(np.atleast_2d(array), self.resolution, negated=False)
        checks = _Checks(self, source, len(rows))
        missed, off, answer = np.zeros((3, *rows.shape), dtype=np.int64)
        for j in range(rows.shape[1]):
            missed[:, j], off[:, j], answer[:, j] = checks.check(rows[:, j], self.guess)
        trial, place = np.nonzero(missed)
        gap = in_counts(off[trial, place], self.resolution) + float(self.offset)
        parts = (place, in_counts(answer[trial, place], self.resolution), gap)
        if array.ndim == 1:
            return Misses(self, *parts, units=int(checks.used[0]))
        rows_of = pad_rows(trial, (len(rows), self.misses), *parts)
        return Misses(self, *rows_of, units=checks.used)


class _Checks:
    """The state of one run, or of several independent ones: the threshold's noise and the misses used."""

    def __init__(self, plan: GuessAndCheckPlan, source: NoiseSource, trials: int) -> None:
        self._plan, self._source = plan, source
        self._level = self._draw(plan.noise, plan.threshold_scale, trials)
        self.used = np.zeros(trials, dtype=np.int64)

    def check(self, count: NDArray[Any], guess: int) -> tuple[NDArray[np.bool_], NDArray[Any], NDArray[Any]]:
        """Check a guess in each run whose misses are not used up, all in grid steps.

        Counts may be Python integers in an array of objects, for guesses of any size.

        Returns
        -------
        missed, off, answer
            Whether the guess is off; its error with noise, less the threshold's noise; the noisy count, of
            use on a miss only.
        """
        plan, trials = self._plan, len(self.used)
        off = abs(count - guess) + (self._draw(plan.noise, plan.scale, trials) - self._level)
        missed = (off >= plan.cutoff) & (self.used < plan.misses)
        self.used += missed
        noise = self._draw("laplace", plan.answer_scale, trials) if missed.any() else 0
        return missed, off, count + noise

    def _draw(self, noise: Noise, scale: Fraction, trials: int) -> NDArray[np.int64]:
        return self._source.draw(noise, scale, self._plan.resolution, trials)


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of one check.

    Attributes
    ----------
    hit
        Whether the guess was found good enough.
    value
        The answer: the guess on a hit, a new noisy count on a miss.
    gap
        On a miss the noisy error of the guess beyond the tolerance, in counts; never negative. None on
        a hit.
    """

    hit: bool
    value: Fraction
    gap: Fraction | None


class GuessAndCheck(ChargedByMiss):
    """Answers counts by guesses; only guesses that are off are charged, and replaced by a noisy count.

    Parameters
    ----------
    tolerance, epsilon, misses, options
        As in `GuessAndCheckPlan.plan`, which states the proof.
    source
        Of noise; for tests.

    Raises
    ------
    ValueError
        If a public parameter is out of range.
    """

    plan: GuessAndCheckPlan
    _checks: _Checks

    def __init__(
        self,
        tolerance: Number,
        epsilon: Number,
        misses: int,
        *,
        source: NoiseSource = SYSTEM,
        **options: Any,  # noqa: ANN401  handed on to the plan
    ) -> None:
        self.plan = GuessAndCheckPlan.plan(tolerance, epsilon, misses, **options)
        self._checks = _Checks(self.plan, source, 1)
        self._alone = threading.Lock()

    def check(self, true_count: int, guess: Number) -> Checked:
        """Compare a guess with the true count; a hit is not charged, a miss uses one of the misses.

        Parameters
        ----------
        true_count
            The exact count, private. Clamped to plus and minus 2^60 grid steps.
        guess
            Public. Rounded to the nearest multiple of 2^-resolution.

        Raises
        ------
        RuntimeError
            If the misses are used up.
        ValueError
            If the count is no integer or the guess no number.
        """
        if isinstance(true_count, bool) or not isinstance(true_count, (int, np.integer)):
            raise ValueError("a count must be a whole number")  # noqa: TRY004  one error type for callers
        bits = self.plan.resolution
        wanted, limit = on_grid(guess, bits), exact_noise.STEP_LIMIT >> bits
        steps = np.array([max(-limit, min(int(true_count), limit)) << bits], dtype=object)
        # The lock prevents two threads from using the same last miss.
        with self._alone:
            if self.exhausted:
                raise RuntimeError(f"all {self.plan.misses} misses are used up: no more guesses are checked")
            self._asked = True
            missed, off, answer = self._checks.check(steps, wanted)
        if not missed[0]:
            return Checked(True, Fraction(wanted, 1 << bits), None)
        gap = Fraction(int(off[0]), 1 << bits) + self.plan.offset
        return Checked(False, Fraction(int(answer[0]), 1 << bits), gap)


def on_grid(guess: Number, bits: int) -> int:
    """Convert a guess to grid steps, rounded to the nearest (halves to even).

    >>> on_grid("1/3", 2), on_grid(5, 1)
    (1, 10)
    """
    return round(exact(guess) * (1 << bits))
