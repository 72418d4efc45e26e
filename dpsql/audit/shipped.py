"""The mechanisms of dpsql as audit subjects: each runs the object that answers statements, in batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.cases import AUDITED
from dpsql.audit.cases.case import AuditCase
from dpsql.audit.inputs import Pair
from dpsql.audit.outputs import CHARGE
from dpsql.audit.subject import Subject, repeated
from dpsql.kernel.loss import Charge
from dpsql.kernel.mechanisms.grid import NoiseSource
from dpsql.kernel.mechanisms.mechanism import Result
from dpsql.kernel.noise import Entropy


def outputs(result: Result[Any]) -> dict[str, Any]:
    """Return all that a mechanism releases, and its charge: one for all trials, or an epsilon for each."""
    released = {field.name: getattr(result, field.name) for field in fields(result)}
    del released["plan"], released["units"]
    return {**released, CHARGE: _charge(result)}


def _charge(result: Result[Any]) -> Charge | NDArray[np.float64]:
    if isinstance(result.units, int):
        return result.charge
    distinct, which = np.unique(result.units, return_inverse=True)
    each = [float(result.plan.realised(units).charge.epsilon) for units in distinct.tolist()]
    return np.array(each)[which]


def _run(
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
    rows = repeated(values, trials)
    result = case.run(plan, rows, NoiseSource(entropy))
    if case.answer is None:
        return outputs(result)
    return {**outputs(result), "answer": case.answer(result, counts[1])}


def _subject(case: AuditCase) -> Subject:
    def inputs(epsilon: Fraction) -> Sequence[Pair]:
        return [Pair(*each) for each in case.inputs(epsilon)] if case.inputs else []

    return Subject(
        case.name,
        "dpsql",
        case.about,
        partial(_run, case=case),
        case.adjacency,
        case.delta,
        case.arguments,
        inputs if case.inputs else None,
        case.tight,
    )


SHIPPED = tuple(_subject(case) for case in AUDITED)
"""All of them, in the order of the registry."""
