"""Audit subjects, such as those of dpsql: a mechanism as the detector calls it, its claim, what is true."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.cases import Adjacency, AuditCase
from dpsql.audit.cases.measuring import MEASURING_CASES
from dpsql.audit.cases.selection import SELECTION_CASES
from dpsql.audit.cases.thresholds import THRESHOLD_CASES
from dpsql.audit.counterexample_search import SMALL_EPSILON
from dpsql.audit.detector import Verdict, detect
from dpsql.audit.runs import CHARGE, Pair
from dpsql.kernel.loss import Charge
from dpsql.kernel.mechanisms.mechanism import NoiseSource, Result
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

    def is_wrong(self, epsilon: float) -> bool:
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


def repeat_counts(counts: NDArray[np.int64], trials: int) -> NDArray[np.int64]:
    """Return the counts once for each run, as one array (without copying them)."""
    return np.broadcast_to(counts, (trials, len(counts)))


def outputs_of(result: Result[Any]) -> dict[str, Any]:
    """Return all that a mechanism releases, and its charge: one for all trials, or an epsilon for each."""
    released = {field.name: getattr(result, field.name) for field in fields(result)}
    del released["plan"], released["units"]
    return {**released, CHARGE: _charge_of(result)}


def _charge_of(result: Result[Any]) -> Charge | NDArray[np.float64]:
    if isinstance(result.units, int):
        return result.charge
    distinct, which = np.unique(result.units, return_inverse=True)
    each = [float(result.plan.realised_loss(units).charge.epsilon) for units in distinct.tolist()]
    return np.array(each)[which]


def _run_case(
    counts: NDArray[np.int64],
    trials: int,
    entropy: Entropy,
    *,
    case: AuditCase,
    epsilon: Fraction,
    **arguments: Any,  # noqa: ANN401  handed on to the plan
) -> dict[str, Any]:
    values = counts if case.answer is None else counts[0]
    plan = case.plan(len(values), epsilon=epsilon, **arguments)
    rows = repeat_counts(values, trials)
    result = case.run(plan, rows, NoiseSource(entropy))
    if case.answer is None:
        return outputs_of(result)
    return {**outputs_of(result), "answer": case.answer(result, counts[1])}


def _make_subject(case: AuditCase) -> Subject:
    def inputs(epsilon: Fraction) -> Sequence[Pair]:
        return [Pair(*each) for each in case.inputs(epsilon)] if case.inputs else []

    return Subject(
        case.name,
        "dpsql",
        case.about,
        partial(_run_case, case=case),
        case.adjacency,
        case.delta,
        case.arguments,
        inputs if case.inputs else None,
        case.tight,
    )


AUDITED: tuple[AuditCase, ...] = (*SELECTION_CASES, *MEASURING_CASES, *THRESHOLD_CASES)
"""The audit cases of all mechanisms of dpsql, in the order of the catalogue."""
SHIPPED = tuple(_make_subject(case) for case in AUDITED)
"""The subjects of these cases, in the same order."""
