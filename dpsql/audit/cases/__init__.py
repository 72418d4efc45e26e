"""`AuditCase`: the options and inputs by which a mechanism is audited, and the inputs that show its delta.

``selection``, ``measuring`` and ``thresholds`` have the cases of dpsql's mechanisms; a mechanism listed
there is audited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.loss import Number
from dpsql.kernel.mechanisms.mechanism import SYSTEM, Mechanism, NoiseSource
from dpsql.kernel.public_order import SparseCounts, in_public_order
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


def new_groups(epsilon: Fraction) -> Sequence[tuple[str, Any, Any]]:
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


SMALL, LARGE = 1e-6, 0.02
"""One delta too small to matter beside epsilon, and one large enough for such events to be observed."""

Inputs = Callable[[Fraction], Sequence[tuple[str, Any, Any]]]


def at_least_k(plan: Callable[..., Mechanism[Any]]) -> Callable[..., Mechanism[Any]]:
    """Return a plan for an unknown domain that ignores the number of counts, and raises `candidates` to k."""

    def make_plan(_: int, k: int, candidates: int, **options: Any) -> Mechanism[Any]:  # noqa: ANN401  as `plan`
        return plan(k, candidates=max(k, candidates), **options)

    return make_plan


def stairs(cutoff: Callable[[Fraction], float]) -> Inputs:
    """Make monotone pairs of counts whose largest are near a cutoff, which depends on epsilon."""

    def inputs(epsilon: Fraction) -> list[tuple[str, Any, Any]]:
        height = round(cutoff(epsilon))
        found: list[tuple[str, Any, Any]] = [
            ("a new group", (0,), (1,)),
            ("a new group below another", (3 * height, 0), (3 * height, 1)),
            ("new groups", (0, 0, 0), (1, 1, 1)),
            ("two change places", (2 * height, 5, 4), (2 * height, 5, 5)),
        ]
        for level in _near(height):
            high, higher = (3 * level, 2 * level, level), (3 * level + 1, 2 * level, level + 1)
            found += [
                ("one above", (level, 0), (level + 1, 0)),
                ("all above", (2 * level, level, 1), (2 * level + 1, level + 1, 2)),
                ("every other above", high, higher),
                ("one of five above", (level,) * 5, (level + 1, *(level,) * 4)),
                ("rest of five above", (level,) * 5, (level, *(level + 1,) * 4)),
                ("all of five above", (level,) * 5, (level + 1,) * 5),
            ]
        return found

    return inputs


def queries(cutoff: Callable[[Fraction], float]) -> Inputs:
    """Make distances to instability, with answers that differ only where both distances are 0."""

    def inputs(epsilon: Fraction) -> list[tuple[str, Any, Any]]:
        height = round(cutoff(epsilon))
        found: list[tuple[str, Any, Any]] = [
            ("unstable", ((0,), (1,)), ((0,), (2,))),
            ("unstable behind a stable one", ((height, 0), (1, 1)), ((height, 0), (1, 2))),
            ("unstable ones", ((0, 0, 0), (1, 1, 1)), ((0, 0, 0), (2, 2, 2))),
        ]
        for level in _near(height):
            three, five = (level,) * 3, (level,) * 5
            found += [
                ("one further", ((level,), (1,)), ((level + 1,), (1,))),
                ("first further", (three, (1, 2, 3)), ((level + 1, level, level), (1, 2, 3))),
                ("last further", (three, (1, 2, 3)), ((level - 1, level - 1, level + 1), (1, 2, 3))),
                ("all further", (five, (1,) * 5), ((level + 1,) * 5, (1,) * 5)),
                ("last nearer", (five, (1,) * 5), ((level + 1,) * 4 + (level - 1,), (1,) * 5)),
            ]
        return found

    return inputs


def _near(cutoff: int) -> list[int]:
    """Return counts around a cutoff, and some far from it."""
    return sorted({1, cutoff // 2, cutoff - 1, cutoff, cutoff + 1, round(1.5 * cutoff), 2 * cutoff})


def moves(low: int, high: int) -> Inputs:
    """Make counts that one unit more moves by `low` to `high`, or by 0 where it has no part."""

    def inputs(_: Fraction) -> list[tuple[str, Any, Any]]:
        flat, stairs_ = (10,) * 5, (10 + high, 10, 10, 10 + low, 10)
        changes = {
            "all up": (high,) * 5,
            "all down": (low,) * 5,
            "first up, rest down": (high, *(low,) * 4),
            "first down, rest up": (low, *(high,) * 4),
            "two up": (high, high, 0, 0, 0),
            "two down": (low, low, 0, 0, 0),
            "up and down": (high, low, high, low, 0),
        }
        return [
            (name, base, tuple(count + move for count, move in zip(base, change, strict=True)))
            for base in (flat, stairs_)
            for name, change in changes.items()
            if any(change)
        ]

    return inputs
