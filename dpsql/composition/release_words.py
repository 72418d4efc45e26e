"""Say in words what a private statement releases: its selection, its numbers, its guarantee."""

from __future__ import annotations

import json
from fractions import Fraction
from math import ceil
from typing import Any

import pyarrow as pa

from dpsql.analysis import Plan
from dpsql.answers import (
    Method,
    NoisyResult,
    left_out_sentences,
    merge_properties,
    sentences_of,
)
from dpsql.estimates import decimal, figure, with_noun
from dpsql.guarantees import guarantee
from dpsql.kernel.loss import PrivacyLoss
from dpsql.language import (
    AboveThreshold,
    AllGroups,
    Scalar,
    Selection,
    TopK,
    TopPerPartition,
)
from dpsql.ledger import RefinementStep
from dpsql.prepared import PreparedComposed


def selection_words(selection: Selection, step: Fraction = Fraction(1)) -> str:
    """Describe a selection, such as "top-5"; its threshold is in steps of the number that is compared.

    It is told as the least number that passes.
    """
    match selection:
        case TopK(threshold=None, argmax=True):
            return "argmax"
        case TopK(threshold=None):
            return f"top-{selection.k}" + (" of the lowest" if selection.lowest else "")
        case TopK():
            return f"top-{selection.k} above {decimal(ceil(selection.threshold or 0) * step)}"
        case AboveThreshold():
            return f"above threshold {decimal(ceil(selection.threshold) * step)}"
        case AllGroups():
            return "all groups"
        case Scalar():
            return "count"
        case TopPerPartition():
            return f"{selection_words(selection.best, step)} of each partition"


def words_of_selection(plan: Plan) -> str:
    """Describe the selection of a plan, its threshold in the unit of the number that is compared."""
    best = getattr(plan.selection, "best", plan.selection)
    place = getattr(best, "count", None)
    return selection_words(plan.selection, Fraction(1) if place is None else plan.counts[place].step)


def words_of_release(
    plan: Plan,
    method: Method,
    refines: RefinementStep | None = None,
    answer: NoisyResult | None = None,
) -> dict[str, Any]:
    """Return the descriptive fields of a release, which may refine another, and of its answer."""
    notes, untold = (answer.notes, answer.untold) if answer is not None else ((), frozenset[str]())
    loss, further = method.quote.loss, {}
    if refines is not None:
        loss = PrivacyLoss.of(refines.epsilon)
        further["refines"] = (
            f"release {refines.parent}; together they cost epsilon {float(refines.epsilon):g}"
        )
    return {
        "keys": tuple(o.name for o in plan.outputs if o.kind == "key"),
        "counts": tuple(o.name for o in plan.outputs if o.kind == "count"),
        "selection": words_of_selection(plan),
        "mechanism": method.quote.mechanism,
        "guarantee": guarantee(plan, loss),
        "confidence": plan.options.confidence or Fraction(95, 100),
        "warnings": (*(note for note in method.quote.notes if note not in untold), *notes),
        "assumed": plan.assumed,
        "properties": {
            **_name_ordering(plan),
            **_rank_certainty(method),
            **sentences_of(plan),
            **merge_properties(left_out_sentences(plan), {} if answer is None else answer.left_out),
            **further,
            "unit": plan.unit,
            "split": method.quote.split,
            "domain": plan.domain,
            "domain_size": str(plan.candidates),
        },
    }


def _rank_certainty(method: Method) -> dict[str, str]:
    """Return what is known of the ranks of quantiles, or of extremes, for the line below an answer."""
    match method.quote.outlook:
        case {"rank_error": float(error)}:
            return {"certainty": f"rank off by at most {with_noun(figure(error), 'row')}"}
        case {"units_reaching": (float(least), float(most))}:
            return {"certainty": f"reached by {figure(least)} to {with_noun(figure(most), 'unit')}"}
    return {}


def _name_ordering(plan: Plan) -> dict[str, str]:
    """Return the name of the released count that the selection orders or compares."""
    place = getattr(plan.selection, "count", -1)
    name = next((o.name for o in plan.outputs if o.kind == "count" and o.of == place), None)
    return {} if name is None else {"ordering": name}


def total_loss(prepared: PreparedComposed) -> PrivacyLoss:
    """Return the largest loss of all releases of a statement together."""
    return sum((part.method.quote.loss for part in prepared.parts), PrivacyLoss())


def total_guarantee(prepared: PreparedComposed) -> str:
    """Describe the privacy guarantee of all releases of a statement together."""
    total = total_loss(prepared)
    return "; ".join(dict.fromkeys(guarantee(part.plan, total) for part in prepared.parts))


def add_exact_facts(table: pa.Table, name: str, facts: dict[str, object]) -> pa.Table:
    """Put exact amounts beside the rounded ones, into the schema's metadata: programs read them there."""
    return table.replace_schema_metadata({f"dpsql.{name}": json.dumps(facts)})


def round_down(value: Fraction) -> str:
    """Write an amount that is left, rounded down."""
    return _write_decimal(value * 10**9 // 1)


def round_up(value: Fraction) -> str:
    """Write an amount that is spent, rounded up."""
    return _write_decimal(-(-value * 10**9 // 1))


def _write_decimal(billionths: int) -> str:
    whole, rest = divmod(int(billionths), 10**9)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")
