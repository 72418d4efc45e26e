"""What audited mechanisms run on and return: adjacent inputs (`pairs`), and the outputs of many runs.

Adjacent inputs are lists of counts that differ by one privacy unit. `read` takes the outputs of a batch of
runs of any mechanism apart into labels, numbers and charges (`Outputs`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.cases import Adjacency
from dpsql.audit.statistics import draw_uniforms
from dpsql.errors import ProgrammingError
from dpsql.kernel.loss import Charge
from dpsql.kernel.noise import Entropy
from dpsql.lazy_dataclass import dataclass

LENGTHS = (5, 10)
"""Numbers of counts: few, so that a counterexample can be checked by hand."""

_LARGE = (100, 255, 65_535)
"""Large counts: above those of small examples, and at the limits of 8-bit and 16-bit counters."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two adjacent inputs; for most mechanisms, lists of counts."""

    name: str
    first: Any
    second: Any


def pairs(
    adjacency: Adjacency,
    *,
    sensitivity: int = 1,
    lengths: Sequence[int] = LENGTHS,
    drawn: int = 4,
    entropy: Entropy,
) -> list[Pair]:
    """Make adjacent counts of the patterns of the dissertation's Table 4-1, and some drawn at random.

    Parameters
    ----------
    adjacency
        Which patterns the claim allows. Events are searched in both directions, so each pair is listed
        in one order.
    sensitivity
        Largest change of a count by one unit.
    lengths
        Numbers of counts.
    drawn
        Random pairs for each length.
    entropy
        Source of randomness for the random pairs.

    >>> from dpsql.kernel.noise import SystemEntropy
    >>> pairs("one", lengths=[3], drawn=0, entropy=SystemEntropy())[0]
    Pair(name='one above', first=(1, 1, 1), second=(2, 1, 1))
    """
    if adjacency not in get_args(Adjacency):
        raise ProgrammingError("adjacency must be 'general', 'monotone' or 'one'")
    found = []
    for n in lengths:
        for name, base, change in _list_patterns(adjacency, n):
            found.append(_scale_pair(name, np.array(base), np.array(change), sensitivity))
        found += [_draw_pair(adjacency, n, sensitivity, entropy) for _ in range(drawn)]
    return [*found, *_large_pairs(adjacency, min(lengths, default=0), sensitivity)]


def _large_pairs(adjacency: Adjacency, n: int, sensitivity: int) -> list[Pair]:
    """Make a few short pairs with large counts, for mistakes that small counts do not show."""
    if n < 1:
        return []
    changes = [(f"one above, at {size}", [size] + [1] * (n - 1), [1] + [0] * (n - 1)) for size in _LARGE]
    mixed = [_LARGE[i % len(_LARGE)] for i in range(n)]
    if adjacency != "one":
        changes.append(("all above, large", mixed, [1] * n))
    if adjacency == "general":
        changes.append(("one above, rest below, large", mixed, [1] + [-1] * (n - 1)))
    return [
        Pair(
            name,
            tuple(base),
            tuple(count + sensitivity * step for count, step in zip(base, change, strict=True)),
        )
        for name, base, change in changes
    ]


def _scale_pair(name: str, base: NDArray[np.int64], change: NDArray[np.int64], sensitivity: int) -> Pair:
    first = base * sensitivity
    return Pair(name, tuple(first.tolist()), tuple((first + change * sensitivity).tolist()))


def _list_patterns(adjacency: Adjacency, n: int) -> list[tuple[str, list[int], list[int]]]:
    """Return name, base and change of each pattern, for sensitivity 1."""
    half, rest = n // 2, n - 1
    flat, stairs = [1] * n, [1] * half + [0] * (n - half)
    one = [("one above", flat, [1] + [0] * rest), ("one below", flat, [-1] + [0] * rest)]
    if adjacency == "one":
        return one
    monotone = [
        *one,
        ("all above", flat, [1] * n),
        ("all below", flat, [-1] * n),
        ("half above", flat, [1] * half + [0] * (n - half)),
        ("rest above", flat, [0] + [1] * rest),
        ("two above", flat, [1] * 2 + [0] * (n - 2)),
        ("last above", flat, [0] * rest + [1]),
        ("upper above", stairs, [1] * half + [0] * (n - half)),
        ("lower above", stairs, [0] * half + [1] * (n - half)),
    ]
    if adjacency == "monotone":
        return monotone
    return [
        *monotone[:4],
        ("one above, rest below", flat, [1] + [-1] * rest),
        ("one below, rest above", flat, [-1] + [1] * rest),
        ("two above, rest below", flat, [1] * 2 + [-1] * (n - 2)),
        ("last above, rest below", flat, [-1] * rest + [1]),
        ("last below, rest above", flat, [1] * rest + [-1]),
        ("half half", flat, [-1] * (n - half) + [1] * half),
        ("X shape", stairs, [-1] * half + [1] * (n - half)),
    ]


def _draw_pair(adjacency: Adjacency, n: int, sensitivity: int, entropy: Entropy) -> Pair:
    base = (draw_uniforms(n, entropy) * 4).astype(np.int64)
    draw = draw_uniforms(n + 1, entropy)
    if adjacency == "general":
        change = (draw[:n] * 3).astype(np.int64) - 1
    else:
        change = (draw[:n] < 0.5).astype(np.int64)
        if adjacency == "one":
            change = (np.arange(n) == int(draw[n] * n)).astype(np.int64)
        change *= 1 if draw[n] < 0.5 else -1
    if not change.any():
        change[0] = 1
    return _scale_pair("random", base + (change < 0), change, sensitivity)


CHARGE = "charge"
"""The key under which a mechanism reports its charge: a `Charge`, or an epsilon for each run."""

_NUMBER = "a number"


@dataclass(frozen=True, eq=False, slots=True)
class Outputs:
    """The outputs of a batch of runs."""

    trials: int
    """How many runs."""
    labels: Mapping[str, NDArray[Any]]
    """Categorical parts by name: integers or text, of shape (trials, width). Negative or empty means missing.
    """
    values: Mapping[str, NDArray[np.float64]]
    """Numeric parts by name: float64, of shape (trials, width). NaN means missing."""
    epsilon: NDArray[np.float64] | None = None
    """The charge that each run reports, float64 of shape (trials,); None if it reports none."""
    delta: float | None = None
    """The delta charged by every run; None if none is reported."""

    def halves(self) -> tuple[Outputs, Outputs]:
        """Split the runs into a first and a second half."""
        middle = self.trials // 2
        return self._slice(0, middle), self._slice(middle, self.trials)

    def _slice(self, start: int, end: int) -> Outputs:
        return Outputs(
            end - start,
            {name: part[start:end] for name, part in self.labels.items()},
            {name: part[start:end] for name, part in self.values.items()},
            None if self.epsilon is None else self.epsilon[start:end],
            self.delta,
        )

    def head(self, size: int) -> Outputs:
        """Return the first `size` runs, or all if there are fewer."""
        return self if size >= self.trials else self._slice(0, size)

    def label(self, part: str, width: int) -> NDArray[Any]:
        """Return the labels of a part in `width` columns, padded with missing labels."""
        found = self.labels.get(part)
        if found is None:
            return np.full((self.trials, width), -1)
        if found.shape[1] < width:
            none = np.full((self.trials, width - found.shape[1]), -1 if found.dtype.kind == "i" else "")
            return np.concatenate([found, none], axis=1)
        return found[:, :width]

    def value(self, part: str, width: int) -> NDArray[np.float64]:
        """Return the numbers of a part in `width` columns, padded with NaN.

        Integer labels are numbers too.
        """
        found = self.values.get(part)
        if found is None:
            label = self.labels.get(part)
            whole = label is not None and label.dtype.kind == "i"
            found = label.astype(np.float64) if whole and label is not None else np.empty((self.trials, 0))
        missing = width - found.shape[1]
        return np.pad(found, ((0, 0), (0, missing)), constant_values=np.nan) if missing > 0 else found


def read(result: object, trials: int) -> Outputs:
    """Convert the results of a mechanism's runs to labels and numbers, part by part.

    Parameters
    ----------
    result
        An array with one entry or row a run (floats are numbers, all else labels); or a mapping from
        names to such arrays, perhaps with `CHARGE`; or a sequence with one output a run, each output a
        single item or a sequence of any length, whose floats are numbers and all else labels. Whole
        numbers are labels, and numbers besides; in arrays only where they have many values.
    trials
        Number of runs in the result.

    Raises
    ------
    ProgrammingError
        If it does not hold one output for each run.

    >>> read([[False, 2.5], [True]], 2).labels["output"].tolist()
    [['False', 'a number'], ['True', '']]
    """
    if isinstance(result, Mapping):
        parts = dict(result)
    elif isinstance(result, np.ndarray):
        parts = {"output": result}
    else:
        parts = _arrange_rows(result)  # type: ignore[arg-type]  # checked there
    charge = parts.pop(CHARGE, None)
    labels: dict[str, NDArray[Any]] = {}
    values: dict[str, NDArray[np.float64]] = {}
    for name, part in parts.items():
        array = np.asarray(part)
        if array.ndim not in (1, 2) or len(array) != trials:
            raise ProgrammingError(f"{name} does not hold one output for each of {trials} runs")
        number, whole = array.dtype.kind == "f", array.dtype.kind in "biu"
        if array.size == 0:  # what no run of a batch has is missing in all, as it is in one run of another
            array = np.full((trials, 1), np.nan if number else -1 if whole else "")
        array = array.reshape(trials, -1)
        if number:
            values[name] = array.astype(np.float64, copy=False)
        elif whole:
            labels[name] = array.astype(np.int64, copy=False)
        else:
            labels[name] = array.astype(np.str_)
    epsilon, delta = _read_charge(charge, trials)
    return Outputs(trials, labels, values, epsilon, delta)


def _read_charge(charge: object, trials: int) -> tuple[NDArray[np.float64] | None, float | None]:
    if charge is None:
        return None, None
    if isinstance(charge, Charge):
        return np.full(trials, float(charge.epsilon)), float(charge.delta)
    array = np.asarray(charge, dtype=np.float64)
    if array.shape not in ((), (trials,)):
        raise ProgrammingError(f"the charge is neither one nor one for each of {trials} runs")
    return np.broadcast_to(array, (trials,)), None


def _arrange_rows(result: Sequence[object]) -> dict[str, NDArray[Any]]:
    """Arrange single outputs of any length as arrays of labels and numbers by position."""
    rows = [list(row) if isinstance(row, (list, tuple, np.ndarray)) else [row] for row in result]
    width = max((len(row) for row in rows), default=0)
    values, whole = np.full((2, len(rows), width), np.nan)
    labels = np.full((len(rows), width), "", dtype=object)
    for i, row in enumerate(rows):
        for j, item in enumerate(row):
            if isinstance(item, (float, np.floating)):
                values[i, j], labels[i, j] = item, _NUMBER
            else:
                labels[i, j] = str(item)
                if isinstance(item, (int, np.integer)) and not isinstance(item, bool):
                    whole[i, j] = item
    parts: dict[str, NDArray[Any]] = {}
    if (labels != _NUMBER).any():
        parts["output"] = labels.astype(np.str_)
    if not np.isnan(values).all():
        parts["number"] = values
    if not np.isnan(whole).all():
        parts["whole number"] = whole
    return parts
