"""The median oracle: answers many counts by the median of a list of public hypotheses."""

from __future__ import annotations

import math
import threading
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel.loss import Charge, Number, exact
from dpsql.kernel.mechanisms.guess_and_check import Checked, GuessAndCheck
from dpsql.kernel.mechanisms.mechanism import as_counts

_LARGEST = 1 << 40


class MedianOracle:
    """Answers many counts with few misses: each miss discards at least half of the hypotheses.

    Parameters
    ----------
    hypotheses
        Possible histograms of the data, as integers of shape (hypotheses, cells): how many units are in
        each cell of the public domain. Scale a distribution to the size that the data may have. Public:
        derived from other data or from assumptions.
    tolerance
        A guess is a hit if its error is below this, in counts, up to noise.
    epsilon
        Budget for all questions.
    misses
        How many misses the budget pays for; by default log2(hypotheses), rounded up and at least 1:
        after as many, at most one hypothesis is left.
    options
        As in `GuessAndCheck`.

    Raises
    ------
    ValueError
        If a public parameter is out of range.

    Notes
    -----
    MedianOracle of the lecture (section 2). The guess is the median answer of the hypotheses left.
    After a miss with noisy count a, two kinds of hypotheses are discarded: those whose answer differs from a
    by more than the tolerance, as printed; and those no nearer to a than the guess, which the printed rule
    keeps if the noise puts a near the guess. So the guess and all answers on its other side are discarded:
    at least half.

    *Private:* hypotheses and guesses are functions of public data and earlier answers alone.
    """

    def __init__(
        self,
        hypotheses: ArrayLike,
        tolerance: Number,
        epsilon: Number,
        misses: int | None = None,
        **options: Any,  # noqa: ANN401  handed on to the plan
    ) -> None:
        array = as_counts(hypotheses, trials=True)
        if array.ndim != 2 or 0 in array.shape:
            raise ValueError("hypotheses must have two dimensions, (hypotheses, cells), none of them empty")
        if (array < 0).any() or array.sum(axis=1, dtype=np.float64).max() > _LARGEST:
            raise ValueError("a hypothesis must hold between 0 and 2^40 in all its cells together")
        self._left = array
        self._tolerance = exact(tolerance)
        self._alone = threading.Lock()
        self._checker = GuessAndCheck(
            tolerance,
            epsilon,
            max(1, (len(array) - 1).bit_length()) if misses is None else misses,
            **options,
        )

    def ask(self, true_count: int, cells: ArrayLike) -> Checked:
        """Answer how many units are in some cells: by the median hypothesis, or by a noisy count on a miss.

        Parameters
        ----------
        true_count
            The exact count in these cells, private.
        cells
            Public: 1 for each cell that is counted, else 0; or booleans.

        Raises
        ------
        RuntimeError
            If the misses are used up or no hypothesis is left.
        ValueError
            If the cells do not fit the hypotheses, or the count is no integer.
        """
        mask = self.mask(cells)
        with self._alone:
            if not len(self._left):
                raise RuntimeError("no hypothesis is left: none fits the answers given")
            answers = self._left @ mask
            guess = median(answers)
            said = self._checker.check(true_count, guess)
            if not said.hit:
                self._left = self._left[surviving(answers, guess, said.value, self._tolerance)]
            return said

    def mask(self, cells: ArrayLike) -> NDArray[np.int64]:
        """Convert `cells` to a mask; `ValueError` if it does not fit the hypotheses."""
        mask = np.asarray(cells)
        if (
            mask.shape != self._left.shape[1:]
            or mask.dtype.kind not in "biu"
            or not ((mask == 0) | (mask == 1)).all()
        ):
            raise ValueError("cells must be 0 or 1 for each cell of the hypotheses")
        return mask.astype(np.int64)

    @property
    def exhausted(self) -> bool:
        """Whether `ask` raises an error: the misses are used up, or no hypothesis is left."""
        return self._checker.exhausted or not len(self._left)

    @property
    def hypotheses_left(self) -> int:
        """How many hypotheses no miss has discarded."""
        return len(self._left)

    @property
    def charge(self) -> Charge:
        """The charge of all checks until now."""
        return self._checker.charge

    @property
    def checker(self) -> GuessAndCheck:
        """The underlying guess and check, with scales, misses left and the largest charge."""
        return self._checker


def median(answers: NDArray[np.int64]) -> int:
    """Return the lower median: at least half of the answers are at most it, and at least half at least it.

    >>> median(np.array([9, 1, 4, 4]))
    4
    """
    middle = (len(answers) - 1) // 2
    return int(np.partition(answers, middle)[middle])


def surviving(
    answers: NDArray[np.int64], guess: int, value: Fraction, tolerance: Fraction
) -> NDArray[np.bool_]:
    """Return which hypotheses remain after a miss; at most half do if the guess is the median.

    >>> from fractions import Fraction
    >>> surviving(np.array([1, 5, 6, 11, 20]), 6, Fraction(21, 2), Fraction(3))
    array([False, False, False,  True, False])
    """
    off = abs(guess - value)
    least = max(math.ceil(value - tolerance), math.floor(value - off) + 1)
    most = min(math.floor(value + tolerance), math.ceil(value + off) - 1)
    # Python integers, maybe beyond int64: numpy compares them as they are.
    kept: NDArray[np.bool_] = (answers >= least) & (answers <= most)
    return kept
