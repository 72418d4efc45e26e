"""Guess and check: counts answered by public guesses; only guesses that are off are charged."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpsql import noise as exact_noise
from dpsql.mechanisms.arguments import Noise, bound, positive, whole
from dpsql.mechanisms.grid import draw, grid_of
from dpsql.mechanisms.sparse_vector_plan import sparse_vector_plan
from dpsql.privacy import Charge, exact

if TYPE_CHECKING:
    from dpsql.privacy import Number

__all__ = ["ANSWER_SHARE", "Checked", "GuessAndCheck", "best_threshold_share", "judge", "on_grid"]

ANSWER_SHARE = Fraction(1, 3)
"""Share of a miss's budget for its noisy count. Checks are not monotone, so 1/3 gives both the same scale."""


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


class GuessAndCheck:
    """Answers counts by guesses; only guesses that are off are charged, and replaced by a noisy count.

    Parameters
    ----------
    tolerance
        A guess is a hit if its error is below this, in counts, up to noise. Public.
    epsilon
        Budget for all checks, with every miss used.
    misses
        How many misses the budget pays for. After them `check` raises an error.
    share
        Part of the budget for the threshold's noise; `best_threshold_share` by default.
    answer_share
        Part of a miss's budget for its noisy count; the rest pays for the check. With the default, 1/3,
        check and count have noise of the same scale.
    sensitivity
        How much one privacy unit can change a count.
    noise
        Of threshold and checks: "exponential", "laplace" or "geometric". The count on a miss has
        Laplace noise.
    resolution
        b for a grid of 2^-b counts; chosen from the scales if left out.
    entropy
        For tests.

    Raises
    ------
    ValueError
        If a public parameter is out of range.

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

    def __init__(
        self,
        tolerance: Number,
        epsilon: Number,
        misses: int,
        *,
        share: Number | None = None,
        answer_share: Number = ANSWER_SHARE,
        sensitivity: Number = 1,
        noise: Noise = "exponential",
        resolution: int | None = None,
        entropy: exact_noise.Entropy | None = None,
    ) -> None:
        budget, moved = positive(epsilon, "epsilon"), bound(sensitivity)
        self._misses, counting = whole(misses, "misses"), exact(answer_share)
        if not 0 < counting < 1:
            raise ValueError("answer_share must lie between 0 and 1")
        part = best_threshold_share(misses, answer_share=counting) if share is None else exact(share)
        if not 0 < part < 1:
            raise ValueError("share must lie between 0 and 1")
        self._threshold_charge = part * budget
        each = (1 - part) * budget / misses
        self._miss_charge = each
        self._answer_scale = moved / (counting * each)
        finding = self._threshold_charge + (1 - counting) * each * misses
        query_scale = 2 * moved / ((1 - counting) * each)
        bits = grid_of(noise, resolution, moved / self._threshold_charge, query_scale, self._answer_scale)
        self._plan = sparse_vector_plan(
            misses,
            tolerance,
            misses,
            finding,
            limit=None,
            branches=1,
            share=self._threshold_charge / finding,
            margin=0,
            sensitivity=moved,
            monotone=False,
            noise=noise,
            resolution=bits,
            below=False,
        )
        # Not the plan's own cutoff, which is clamped to int64: guesses are Python integers of any size.
        self._cutoff = math.ceil(-self._plan.offsets[0] * (1 << bits))
        self._entropy = entropy or exact_noise.SystemEntropy()
        self._level = self._draw(noise, self._plan.threshold_scale)
        self._used = 0
        self._asked = False
        self._alone = threading.Lock()

    def check(self, true_count: int, guess: Number) -> Checked:
        """Compare a guess with the true count; a hit is not charged, a miss uses one of the misses.

        Parameters
        ----------
        true_count
            The exact count, private. Clamped to plus and minus 2^40.
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
        wanted, plan = on_grid(guess, self._plan.bits), self._plan
        # The lock prevents two threads from using the same last miss.
        with self._alone:
            if self.exhausted:
                raise RuntimeError(f"all {self._misses} misses are used up: no more guesses are checked")
            self._asked = True
            noise = self._draw(plan.noise, plan.scales[0])
            steps = max(-exact_noise.COUNT_LIMIT, min(int(true_count), exact_noise.COUNT_LIMIT)) << plan.bits
            missed, off = judge(steps, wanted, noise, self._level, self._cutoff)
            if not missed:
                return Checked(True, Fraction(wanted, 1 << plan.bits), None)
            self._used += 1
            answer = steps + self._draw("laplace", self._answer_scale)
            gap = Fraction(off, 1 << plan.bits) + plan.offsets[0]
            return Checked(False, Fraction(answer, 1 << plan.bits), gap)

    @property
    def exhausted(self) -> bool:
        """Whether all misses are used up, so that `check` raises an error."""
        return self._used >= self._misses

    @property
    def misses_left(self) -> int:
        """How many further misses the budget pays for."""
        return self._misses - self._used

    @property
    def charge(self) -> Charge:
        """The charge until now: the threshold's share after the first check, and that of each miss."""
        spent = self._used * self._miss_charge
        return Charge(spent + self._threshold_charge) if self._asked else Charge()

    @property
    def largest_charge(self) -> Charge:
        """The charge when all misses are used: epsilon."""
        return Charge(self._threshold_charge + self._misses * self._miss_charge)

    @property
    def threshold_scale(self) -> Fraction:
        """Scale of the threshold's noise, in counts. It is drawn once and shared by all checks and gaps."""
        return self._plan.threshold_scale

    @property
    def scale(self) -> Fraction:
        """Scale of a check's noise, in counts."""
        return self._plan.scales[0]

    @property
    def answer_scale(self) -> Fraction:
        """Scale of the noise on the count that answers a miss, in counts."""
        return self._answer_scale

    @property
    def resolution(self) -> int:
        """b, for a grid of 2^-b counts."""
        return self._plan.bits

    def _draw(self, noise: Noise, scale: Fraction) -> int:
        return int(draw(noise, scale, self._plan.bits, 1, self._entropy)[0])


def judge(count: int, guess: int, noise: int, level: int, cutoff: int) -> tuple[bool, int]:
    """Return whether a guess is a miss, and its noisy error; a pure function, all values in grid steps.

    Parameters
    ----------
    count, guess
        The true count and the guess.
    noise, level
        Noise of this check, and of the threshold.
    cutoff
        The guess is a miss if |count - guess| + noise - level is at least this.

    >>> judge(10, 3, 2, 4, 5), judge(10, 3, 1, 4, 5)
    ((True, 5), (False, 4))
    """
    off = abs(count - guess) + noise - level
    return off >= cutoff, off


def on_grid(guess: Number, bits: int) -> int:
    """Convert a guess to grid steps, rounded to the nearest (halves to even).

    >>> on_grid("1/3", 2), on_grid(5, 1)
    (1, 10)
    """
    return round(exact(guess) * (1 << bits))


def best_threshold_share(misses: int, *, answer_share: Fraction = ANSWER_SHARE) -> Fraction:
    """Return the share of the budget for the threshold that minimises the variance of a check.

    As `best_share` for general counts: with 1 - answer_share of a miss's budget for finding it out,
    k = misses / (1 - answer_share), 1/(1 + (4 k^2)^(1/3)).
    """
    most = whole(misses, "misses") / (1 - float(answer_share))
    return Fraction(1 / (1 + math.cbrt(4 * most * most))).limit_denominator(10**9)
