"""The mechanisms that choose the largest groups of a public domain, as audit subjects."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql import mechanisms
from dpsql import noise as exact_noise
from dpsql.audit.outputs import CHARGE
from dpsql.audit.subject import Subject, levels, repeated
from dpsql.mechanisms import grid, top_k

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpsql.mechanisms import Noise
    from dpsql.noise import Entropy

__all__ = ["SUBJECTS", "choose_one", "hybrid_top_k"]


def choose_one(
    counts: NDArray[np.int64],
    trials: int,
    entropy: Entropy,
    *,
    epsilon: Fraction,
    **options: Any,  # noqa: ANN401  handed on to the mechanism
) -> dict[str, Any]:
    """Run the exponential mechanism."""
    found = mechanisms.exponential(repeated(counts, trials), epsilon, entropy=entropy, **options)
    return {"index": found.index, "gap": found.gap, CHARGE: found.charge}


def hybrid_top_k(
    counts: NDArray[np.int64],
    trials: int,
    entropy: Entropy,
    k: int,
    threshold: int,
    *,
    epsilon: Fraction,
    monotone: bool = True,
    noise: Noise = "exponential",
) -> dict[str, Any]:
    """Run `hybrid_top_k` many times, with the functions it is made of; the threshold is item 0."""
    paid = min(k, len(counts))
    scale = paid * (1 if monotone else 2) / epsilon
    bits = grid.grid_of(noise, None, scale)
    values = grid.placed(np.concatenate([[threshold], counts]), bits, negated=False)
    noisy = values + grid.draw(noise, scale, bits, (trials, len(values)), entropy)
    items, gaps = top_k.select(noisy, exact_noise.ranks(len(values), trials=trials, entropy=entropy), paid)
    before = np.cumsum(items == 0, axis=1) == 0
    reached = (items == 0).any(axis=1)
    placed = before.sum(axis=1) + reached
    gap = grid.in_counts(gaps, bits)
    # The gap of the threshold itself is released too, as `rest`.
    shown = np.cumsum(items == 0, axis=1) - (items == 0) == 0
    return {
        "index": np.where(before, items - 1, -1),
        "threshold reached": reached,
        "gap": np.where(shown, gap, np.nan),
        CHARGE: float(epsilon) * placed / paid,
    }


def _around(epsilon: Fraction) -> dict[str, list[int]]:
    return {"k": [1, 2, 3], "threshold": levels(epsilon, -2, -1, 0, 1, 2, 4)}


SUBJECTS = (
    Subject(
        "exponential mechanism, monotone",
        "dpsql",
        "one group in proportion to e^(epsilon count), with gap (dissertation, Algorithm 21)",
        choose_one,
        "monotone",
    ),
    Subject(
        "exponential mechanism, general",
        "dpsql",
        "one group in proportion to e^(epsilon count / 2), with gap",
        partial(choose_one, monotone=False),
    ),
    Subject(
        "hybrid top-k, exponential, monotone",
        "dpsql",
        "top-k as far as above a threshold, charged by what is found (dissertation, Algorithm 19)",
        hybrid_top_k,
        "monotone",
        arguments=_around,
    ),
    Subject(
        "hybrid top-k, laplace, general",
        "dpsql",
        "top-k as far as above a threshold, charged by what is found",
        partial(hybrid_top_k, monotone=False, noise="laplace"),
        arguments=_around,
    ),
)
"""The subjects of this module."""
