"""An audit subject: a mechanism in the detector's calling convention, its claim, and the known truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.cases.case import Adjacency
from dpsql.audit.detector import detect
from dpsql.audit.inputs import Pair
from dpsql.audit.sequential_halving import SMALL_EPSILON
from dpsql.audit.verdict import Verdict
from dpsql.kernel.noise import Entropy
from dpsql.lazy_dataclass import dataclass

Kind = Literal["dpsql", "reference", "incorrect", "statement"]
"""A mechanism of dpsql, a private one from the literature, one whose claim is false, or a whole statement."""


@dataclass(frozen=True, eq=False, slots=True)
class Subject:
    """A mechanism to audit, with its claim.

    Attributes
    ----------
    name
        Name of the subject.
    kind
        Where the mechanism comes from; decides the expected verdict.
    about
        What the mechanism does; for an incorrect one, the mistake and its source.
    mechanism
        The mechanism, called as `detect` calls it, with `epsilon=` in addition.
    adjacency
        How one unit changes the input.
    delta
        Delta of the claim.
    arguments
        Given epsilon, the values to try for each argument.
    inputs
        Given epsilon, the inputs to try instead of generated counts.
    tight
        Whether the privacy loss reaches the claim on events that are not rare, so that with enough runs the
        lower bound is close to the claim.
    effort
        Runs of the search, as in `detect`, for small epsilon, where events differ least.
    wrong_at
        Epsilon below which the claim of an incorrect one is false; None: for every epsilon.
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
        """Return whether the claim at this epsilon is false."""
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
        """Search for a counterexample to the claim; parameters as in `detect`."""
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
