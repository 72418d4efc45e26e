"""The number of the rows in no group, as it is shown beside the rows of an answer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpsql.analysis.released.counts import BoundedRows, SingleRows, Units, WeightedRows
from dpsql.answers.table import estimate
from dpsql.estimates import Average, Deviation, Variance
from dpsql.language import AllGroups
from dpsql.render.lines import BELOW, Outside, slot

if TYPE_CHECKING:
    from dpsql.analysis import Output, Plan
    from dpsql.answers.method import NoisyResult

_RATIOS = (Average, Variance, Deviation)


def outside_of(plan: Plan, answer: NoisyResult) -> Outside | None:
    """Return the number of the rows in no group: that of the first count or sum of the statement.

    Where there are averages alone, it is the number of rows that they are of.
    """
    found = answer.outside
    if found is None:
        return None
    shown = [output for output in plan.outputs if output.kind == "count"]
    first = next((o for o in shown if not isinstance(o.formula, _RATIOS)), None)
    if first is not None:
        value, stddev, low, high = (float(part[0]) for part in estimate(plan, found, first))
        return Outside(_what(plan, first), value, _known(stddev), _known(low), _known(high))
    if not shown:
        return None
    step = float(plan.counts[shown[0].uses[0]].step)
    parts = [found.counts[place] for place in shown[0].uses]
    known = [part for part in parts if part is not None]
    value, low, high = (sum(float(getattr(p, n)[0]) for p in known) * step for n in ("value", "low", "high"))
    stddev = math.sqrt(sum(float(part.stddev[0]) ** 2 for part in known)) * step
    return Outside("rows", value, _known(stddev), _known(low), _known(high))


def _known(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _what(plan: Plan, output: Output) -> str:
    """Return what a number counts, in a word, or the name of its column."""
    count = plan.counts[output.of]
    if plan.values is not None:
        kind = plan.unit if plan.unit.startswith("row of") else f"{plan.unit}s"
        return f"{kind} with other values of {plan.values.text}{' or of the keys' * bool(plan.key_types)}"
    if output.formula is None and len(count.parts) == 1 and count.argument is None:
        part = count.parts[0]
        filtered = bool(part.row)
        if isinstance(part, (SingleRows, BoundedRows, WeightedRows)) and not filtered:
            return "rows"
        if isinstance(part, Units) and not filtered:
            return plan.unit if plan.unit.startswith("row of") else f"{plan.unit}s"
    return f"of {output.name}"


def sentences_of(plan: Plan) -> dict[str, str]:
    """Return the sentences on rows in no group that are no number, for the properties of a release."""
    every = plan.existence is not None and isinstance(plan.selection, AllGroups)
    return {slot("outside"): BELOW} if every else {}
