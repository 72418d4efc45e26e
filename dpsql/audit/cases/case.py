"""How mechanisms are audited: each module of a mechanism lists its cases, and the registry collects them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.loss import Number
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource
from dpsql.kernel.mechanisms.mechanism import Mechanism
from dpsql.kernel.order import SparseCounts, in_public_order
from dpsql.lazy_dataclass import dataclass

Adjacency = Literal["general", "monotone", "one"]
"""How one unit changes counts: each in any direction, all in the same direction, or only one count."""

Arguments = Callable[[Fraction], Mapping[str, Sequence[Any]]]
"""Given epsilon, the values to try for each argument of a plan."""


@dataclass(frozen=True, eq=False, slots=True)
class AuditCase:
    """A mechanism with options for which an audit searches a counterexample.

    Attributes
    ----------
    name, about
        Name of the case, and what the mechanism does.
    plan
        Called as `plan(groups, epsilon=epsilon, **arguments)`.
    adjacency
        How one unit changes the counts that are tried.
    arguments
        The values to try for each further argument of `plan`.
    inputs
        Given epsilon, adjacent inputs to try instead of generated counts: a name and both inputs.
    delta
        Delta of the claim.
    tight
        Whether the privacy loss reaches the claim on events that are not rare.
    answer
        Given a result and exact answers, what is released of the answers; an input then has two rows, the
        counts that the mechanism takes and the answers.
    sparse
        Whether it is audited over sparse counts: those of 0 are not listed.
    """

    name: str
    about: str
    plan: Callable[..., Mechanism[Any]]
    adjacency: Adjacency = "general"
    arguments: Arguments = lambda _: {}
    inputs: Callable[[Fraction], Sequence[tuple[str, Any, Any]]] | None = None
    delta: float = 0.0
    tight: bool = True
    answer: Callable[[Any, NDArray[np.int64]], NDArray[np.int64]] | None = None
    sparse: bool = False

    def run(self, plan: Mechanism[Any], counts: NDArray[np.int64], source: NoiseSource = SYSTEM) -> Any:  # noqa: ANN401  of the plan
        """Run the mechanism on counts, of one run or as rows of trials, in the form that it takes."""
        if plan.ordered:
            return plan.run(in_public_order(counts), source)
        if not self.sparse:
            return plan.run(counts, source)
        listed = np.flatnonzero(counts if counts.ndim == 1 else counts.any(axis=0))
        return plan.run(SparseCounts(counts[..., listed], listed, counts.shape[-1]), source)


def direction(*, monotone: bool) -> Adjacency:
    """Return the adjacency of counts that are monotone or not."""
    return "monotone" if monotone else "general"


def any_k(*values: int) -> Arguments:
    """Return arguments that try these k, for every epsilon."""
    return lambda _: {"k": values}


def appearing(epsilon: Fraction) -> Sequence[tuple[str, Any, Any]]:
    """Return adjacent inputs of monotone counts in which groups get their first unit, or lose their last."""
    del epsilon
    return [
        ("all but one appear", (0, 0, 0, 0, 0), (0, 1, 1, 1, 1)),
        ("one appears", (0, 0, 0, 0, 0), (1, 0, 0, 0, 0)),
        ("one appears above", (1, 1, 0, 0, 2), (1, 1, 1, 0, 2)),
        ("all grow", (1, 0, 0, 2, 0), (2, 1, 1, 3, 1)),
        ("most disappear", (3, 1, 1, 1, 0, 0, 1), (3, 0, 0, 0, 0, 0, 0)),
    ]


def around(*ks: int) -> Arguments:
    """Return arguments that try these k, and thresholds around the counts of the input patterns."""
    return lambda epsilon: {"threshold": levels(epsilon, -4, -2, -1, 0, 1, 2, 4), "k": ks}


def levels(epsilon: Number, *multiples: float, base: int = 1) -> list[int]:
    """Return integer thresholds at multiples of 1/epsilon from the counts of the input patterns.

    >>> levels(Fraction(1, 5), -1, 0, 1)
    [-4, 1, 6]
    """
    return sorted({base + round(multiple / float(epsilon)) for multiple in multiples})
