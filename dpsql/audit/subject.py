"""A subject: a mechanism as the detector sees it, with what it claims and what is known about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpsql.audit.detector import detect
from dpsql.audit.sequential_halving import SMALL_EPSILON

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from dpsql.audit.inputs import Adjacency, Pair
    from dpsql.audit.verdict import Verdict
    from dpsql.charge import Number
    from dpsql.noise import Entropy

__all__ = ["Kind", "Subject", "first_hits", "levels", "repeated"]

Kind = Literal["dpsql", "reference", "incorrect", "statement"]
"""A mechanism of dpsql; one from the literature that is private; one that claims too much; or a
statement run through all of dpsql."""


@dataclass(frozen=True, eq=False, slots=True)
class Subject:
    """A mechanism to audit.

    Attributes
    ----------
    name
        What it is called.
    kind
        Whose it is, and so what is expected of its verdict.
    about
        What it does; for an incorrect one, what is wrong with it and who printed it.
    mechanism
        Called as `detect` calls it, with `epsilon=` besides.
    adjacency
        How one unit changes its input.
    delta
        Of its claim.
    arguments
        Given epsilon, the values to try for each argument.
    inputs
        Given epsilon, its inputs, where they are no plain counts.
    tight
        Whether its loss reaches its claim on events that are not rare, so that the lower bound must come
        near, given runs enough.
    effort
        Runs of its search, as in `detect`, where epsilon is small and events differ least.
    wrong_at
        Epsilon below which an incorrect one is wrong; None: always.
    """

    name: str
    kind: Kind
    about: str
    mechanism: Callable[..., object]
    adjacency: Adjacency = "general"
    delta: float = 0.0
    arguments: Callable[[Fraction], Mapping[str, Sequence[Any]]] = field(default=lambda _: {})
    inputs: Callable[[Fraction], Sequence[Pair]] | None = None
    tight: bool = True
    effort: float = 1.0
    wrong_at: float | None = None

    def wrong(self, epsilon: float) -> bool:
        """Tell whether its claim is false."""
        return self.kind == "incorrect" and (self.wrong_at is None or epsilon < self.wrong_at)

    def audit(
        self,
        epsilon: Fraction,
        *,
        trials: int,
        confidence: float,
        epsilons: Sequence[float] | None = None,
        entropy: Entropy | None = None,
        threads: int | None = None,
    ) -> Verdict:
        """Look for a counterexample to its claim; parameters as in `detect`."""
        return detect(
            partial(self.mechanism, epsilon=epsilon),
            epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            arguments=self.arguments(epsilon),
            inputs=None if self.inputs is None else self.inputs(epsilon),
            trials=trials,
            effort=self.effort if epsilon < SMALL_EPSILON else 1.0,
            confidence=confidence,
            epsilons=epsilons,
            name=self.name,
            entropy=entropy,
            threads=threads,
        )


def repeated(counts: NDArray[np.int64], trials: int) -> NDArray[np.int64]:
    """Return the counts once for each run, as one array (without copying them)."""
    return np.broadcast_to(counts, (trials, len(counts)))


def levels(epsilon: Number, *multiples: float, base: int = 1) -> list[int]:
    """Return thresholds around the counts of the patterns: multiples of 1/epsilon away, whole numbers.

    >>> levels(Fraction(1, 5), -1, 0, 1)
    [-4, 1, 6]
    """
    return sorted({base + round(multiple / float(epsilon)) for multiple in multiples})


def first_hits(
    hit: NDArray[np.bool_], most: int, **parts: NDArray[Any]
) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
    """Return the positions of each run's first hits, -1 where there are no more, and what goes with them.

    Parameters
    ----------
    hit
        Which groups are hits, shape (trials, n).
    most
        Hits returned of each run.
    parts
        Arrays of that shape.
    """
    order = np.argsort(~hit, axis=1, kind="stable")[:, :most]
    there = np.take_along_axis(hit, order, axis=1)
    taken = {name: np.take_along_axis(part, order, axis=1) for name, part in parts.items()}
    none = {name: -1 if part.dtype.kind == "i" else np.nan for name, part in taken.items()}
    return np.where(there, order, -1), {
        name: np.where(there, part, none[name]) for name, part in taken.items()
    }
