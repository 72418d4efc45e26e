"""How selections of the largest groups are audited: `AuditCase`, the inputs of audits, and the cases.

An `AuditCase` has the options and inputs by which a mechanism is audited, and the inputs that show its delta.
``measuring`` and ``thresholds`` have the cases of dpsql's other mechanisms; a mechanism listed there is
audited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.loss import Number
from dpsql.kernel.mechanisms.exponential import Exponential, GumbelTopK
from dpsql.kernel.mechanisms.joint import Joint
from dpsql.kernel.mechanisms.mechanism import SYSTEM, Mechanism, Noise, NoiseSource
from dpsql.kernel.mechanisms.sparse_vector import AdaptiveSparseVector
from dpsql.kernel.mechanisms.top_k import HybridTopK, NoisyTopK, PeeledTopK
from dpsql.kernel.public_order import BoundedCounts, SparseCounts, in_public_order
from dpsql.lazy_dataclass import dataclass

Adjacency = Literal["general", "monotone", "one"]
"""How one unit changes counts: each in any direction, all in the same direction, or only one count."""

Arguments = Callable[[Fraction], Mapping[str, Sequence[Any]]]
"""Given epsilon, the values to try for each argument of a plan."""


@dataclass(frozen=True, eq=False, slots=True)
class AuditCase:
    """A mechanism with options for which an audit searches a counterexample."""

    name: str
    about: str
    """Name of the case, and what the mechanism does."""
    plan: Callable[..., Mechanism[Any]]
    """Called as `plan(groups, epsilon=epsilon, **arguments)`."""
    adjacency: Adjacency = "general"
    """How one unit changes the counts that are tried."""
    arguments: Arguments = lambda _: {}
    """The values to try for each further argument of `plan`."""
    inputs: Callable[[Fraction], Sequence[tuple[str, Any, Any]]] | None = None
    """Given epsilon, adjacent inputs to try instead of generated counts: a name and both inputs."""
    delta: float = 0.0
    """Delta of the claim."""
    tight: bool = True
    """Whether the privacy loss reaches the claim on events that are not rare."""
    answer: Callable[[Any, NDArray[np.int64]], NDArray[np.int64]] | None = None
    """Given a result and exact answers, what is released of the answers; an input then has two rows, the
    counts that the mechanism takes and the answers."""
    sparse: bool = False
    """Whether it is audited over sparse counts: those of 0 are not listed."""
    bounded: bool = False
    """Whether it is audited over counts that are known from above: an input then has two rows, the counts and
    what they are at most, which a unit may change by any amount."""

    def run(self, plan: Mechanism[Any], counts: NDArray[np.int64], source: NoiseSource = SYSTEM) -> Any:  # noqa: ANN401  of the plan
        """Run the mechanism on counts, of one run or as rows of trials, in the form that it takes."""
        if self.bounded:
            return plan.run(known_from_above(counts), source)
        if plan.ordered:
            return plan.run(in_public_order(counts), source)
        if not self.sparse:
            return plan.run(counts, source)
        listed = np.flatnonzero(counts if counts.ndim == 1 else counts.any(axis=0))
        return plan.run(SparseCounts(counts[..., listed], listed, counts.shape[-1]), source)


def known_from_above(both: NDArray[np.int64]) -> BoundedCounts:
    """Return counts, the first of two rows in each trial, that are known to be at most the second ones."""
    counts, upper = (np.ascontiguousarray(both[..., row, :]) for row in (0, 1))
    return BoundedCounts(upper, lambda positions: counts.ravel()[positions], upper)


def rows_of_units(_: Fraction) -> Sequence[tuple[str, Any, Any]]:
    """Make counts of units, and numbers of rows, of which one unit has one or many, in some groups."""
    counts = (5, 5, 5, 5, 5)
    return [
        (f"{rows} rows in {name}", (counts, bounds), (more, above))
        for bounds in (counts, (5, 6, 7, 8, 9), (1000,) * 5)
        for name, there in (("one", [1]), ("most", [1, 2, 3, 4]), ("all", range(5)))
        for rows in (1, 100)
        for more in [tuple(n + (i in there) for i, n in enumerate(counts))]
        for above in [tuple(b + rows * (i in there) for i, b in enumerate(bounds))]
    ]


def any_k(*values: int) -> Arguments:
    """Return the arguments to audit with: the given values of k, whatever epsilon is."""
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
    """Return the arguments to audit with: the given k, and thresholds around the input counts."""
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


def selection(
    name: str,
    about: str,
    plan: Callable[..., Mechanism[Any]],
    arguments: Arguments,
    *,
    monotone: bool = True,
    tight: bool = True,
    **options: Any,  # noqa: ANN401  handed on to the plan
) -> AuditCase:
    """Return the case of a selection by counts that a unit moves in one direction, or in any."""
    adjacency: Adjacency = "monotone" if monotone else "general"
    made = partial(plan, monotone=monotone, **options)
    return AuditCase(f"{name}, {adjacency}", about, made, adjacency, arguments, tight=tight)


TOP_K = (
    *(
        selection(
            f"noisy top-k, {noise}",
            "the k largest groups in order, with gaps (Free Gap, Algorithm 1)",
            NoisyTopK.plan,
            any_k(2, 3),
            monotone=monotone,
            noise=noise,
        )
        for noise in get_args(Noise)
        for monotone in (True, False)
    ),
    selection(
        "noisy lowest-k, exponential", "the k smallest groups", NoisyTopK.plan, any_k(1, 2), lowest=True
    ),
    *(
        AuditCase(
            f"noisy top-k over a sparse domain, {noise}, monotone",
            "the k largest groups, of which the empty ones are drawn by skips",
            partial(NoisyTopK.plan, noise=noise),
            "monotone",
            any_k(1, 2),
            new_groups,
            sparse=True,
        )
        for noise in get_args(Noise)
    ),
    *(
        AuditCase(
            f"{name} over counts known from above, exponential, monotone",
            "the k largest groups, of which few are counted",
            plan,
            "monotone",
            arguments,
            rows_of_units,
            bounded=True,
        )
        for name, plan, arguments in (
            ("noisy top-k", NoisyTopK.plan, any_k(1, 2)),
            ("hybrid top-k", HybridTopK.plan, around(1, 2)),
        )
    ),
    AuditCase(
        "noisy max, exponential, monotone",
        "the largest group, with its gap: permute-and-flip",
        partial(NoisyTopK.plan, k=1),
        "monotone",
    ),
    AuditCase(
        "noisy max, laplace, general",
        "the largest group, with its gap",
        partial(NoisyTopK.plan, k=1, monotone=False, noise="laplace"),
    ),
)


_PEELED = "the k largest groups by k rounds of noisy max with gap"
PEELED = (
    *(
        selection(
            f"peeled top-k, {noise}", _PEELED, PeeledTopK.plan, any_k(2, 3), monotone=monotone, noise=noise
        )
        for noise in get_args(Noise)
        for monotone in (True, False)
    ),
    selection(
        "peeled lowest-k, exponential",
        "the k smallest groups by k rounds of noisy max with gap",
        PeeledTopK.plan,
        any_k(2),
        lowest=True,
    ),
)


_GUMBEL = "the k largest groups by k rounds of the exponential mechanism, without gaps"
GUMBEL = (
    *(
        selection("gumbel top-k", _GUMBEL, GumbelTopK.plan, any_k(2, 3), monotone=monotone, tight=False)
        for monotone in (True, False)
    ),
    selection(
        "gumbel lowest-k",
        "the k smallest groups by k rounds of the exponential mechanism",
        GumbelTopK.plan,
        any_k(2),
        tight=False,
        lowest=True,
    ),
)


EXPONENTIAL = (
    AuditCase(
        "exponential mechanism, monotone",
        "one group in proportion to e^(epsilon count), with gap (dissertation, Algorithm 21)",
        Exponential.plan,
        "monotone",
    ),
    AuditCase(
        "exponential mechanism, general",
        "one group in proportion to e^(epsilon count / 2), with gap",
        partial(Exponential.plan, monotone=False),
    ),
)


_JOINT = "a sequence of k groups in proportion to e^(-loss/scale) (Gillenwater et al.)"
JOINT = (
    *(
        selection(
            "joint exponential mechanism", _JOINT, Joint.plan, any_k(1, 2, 3), monotone=monotone, tight=False
        )
        for monotone in (True, False)
    ),
    AuditCase(
        "joint exponential mechanism, lowest",
        "the k smallest groups as one sequence",
        partial(Joint.plan, lowest=True),
        "monotone",
        any_k(1, 2),
        tight=False,
    ),
)


def _around(epsilon: Fraction) -> dict[str, list[int]]:
    return {"k": [1, 2, 3], "threshold": levels(epsilon, -2, -1, 0, 1, 2, 4)}


HYBRID_TOP_K = (
    AuditCase(
        "hybrid top-k, exponential, monotone",
        "top-k as far as above a threshold, charged by what is found (dissertation, Algorithm 19)",
        HybridTopK.plan,
        "monotone",
        _around,
    ),
    AuditCase(
        "hybrid top-k over a sparse domain, exponential, monotone",
        "top-k as far as above a threshold, of which the empty groups are drawn by skips",
        HybridTopK.plan,
        "monotone",
        _around,
        new_groups,
        sparse=True,
    ),
    AuditCase(
        "hybrid top-k, laplace, general",
        "top-k as far as above a threshold, charged by what is found",
        partial(HybridTopK.plan, monotone=False, noise="laplace"),
        arguments=_around,
    ),
)


def _thresholds(_: Fraction) -> dict[str, list[int]]:
    return {"k": [1, 2], "threshold": [6, 10, 14]}


def _cases(low: int, high: int) -> list[AuditCase]:
    """Return the cases of counts that move by `low` to `high`, low <= 0 <= high."""
    width, largest = high - low, max(high, -low)
    plans: dict[str, tuple[Callable[..., Mechanism[Any]], Arguments]] = {
        "noisy top-k": (NoisyTopK.plan, any_k(1, 2)),
        "exponential mechanism": (Exponential.plan, lambda _: {}),
        "hybrid top-k": (HybridTopK.plan, _thresholds),
        "sparse vector": (
            partial(AdaptiveSparseVector.plan, branches=1, threshold_sensitivity=largest),
            _thresholds,
        ),
    }
    return [
        AuditCase(
            f"{name}, moves from {low} to {high}",
            "a selection by sums; its noise is for the difference of the ends",
            partial(plan, sensitivity=width),
            arguments=arguments,
            inputs=moves(low, high),
            tight=False,
        )
        for name, (plan, arguments) in plans.items()
    ]


RANGES = tuple(case for ends in ((-1, 4), (-4, 4)) for case in _cases(*ends))

SELECTION_CASES = (*TOP_K, *PEELED, *GUMBEL, *EXPONENTIAL, *JOINT, *HYBRID_TOP_K, *RANGES)
"""The cases of this module, in the order of the audit's catalogue."""
