"""Generate adjacent inputs: pairs of lists of counts that differ by one privacy unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.cases.case import Adjacency
from dpsql.audit.statistics import uniforms
from dpsql.errors import ProgrammingError
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
        for name, base, change in _patterns(adjacency, n):
            found.append(_pair(name, np.array(base), np.array(change), sensitivity))
        found += [_random(adjacency, n, sensitivity, entropy) for _ in range(drawn)]
    return [*found, *_large(adjacency, min(lengths, default=0), sensitivity)]


def _large(adjacency: Adjacency, n: int, sensitivity: int) -> list[Pair]:
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


def _pair(name: str, base: NDArray[np.int64], change: NDArray[np.int64], sensitivity: int) -> Pair:
    first = base * sensitivity
    return Pair(name, tuple(first.tolist()), tuple((first + change * sensitivity).tolist()))


def _patterns(adjacency: Adjacency, n: int) -> list[tuple[str, list[int], list[int]]]:
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


def _random(adjacency: Adjacency, n: int, sensitivity: int, entropy: Entropy) -> Pair:
    base = (uniforms(n, entropy) * 4).astype(np.int64)
    draw = uniforms(n + 1, entropy)
    if adjacency == "general":
        change = (draw[:n] * 3).astype(np.int64) - 1
    else:
        change = (draw[:n] < 0.5).astype(np.int64)
        if adjacency == "one":
            change = (np.arange(n) == int(draw[n] * n)).astype(np.int64)
        change *= 1 if draw[n] < 0.5 else -1
    if not change.any():
        change[0] = 1
    return _pair("random", base + (change < 0), change, sensitivity)
