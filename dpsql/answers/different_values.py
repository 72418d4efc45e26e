"""Release how many declared values a column has, by the noisy numbers of units that have each of them.

All numbers of units are measured together, with one noise. q is half the width of intervals that hold for all
of them at once. Then at least as many values occur as have a noisy number above q: of a value that no unit
has, it is not above q if the intervals hold. At most all declared ones do. The value is how many noisy
numbers are above q/2. Where q is less than a count, half a count takes its place: no number of units is
between 0 and 1.

*Private:* what is measured is the release of `GROUP BY x`, of which one unit moves each number by at most 1,
all the same way, whatever values it has. Everything here is computed from that release.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpsql.analysis import Output, Plan
from dpsql.answers.every_count import EveryCount
from dpsql.answers.method import KeepsQuote, NoisyResult, Quote
from dpsql.answers.shown import notes
from dpsql.answers.whole_domain import WholeDomain
from dpsql.errors import InternalError
from dpsql.estimates import Combined, figure, with_noun
from dpsql.kernel.loss import Charge
from dpsql.kernel.release import Run
from dpsql.language import AllGroups
from dpsql.lazy_dataclass import dataclass

HALF = 0.5
"""No number of units lies between 0 and 1, so no noisy one below this is evidence of a unit."""


@dataclass(frozen=True, slots=True)
class DifferentValues(KeepsQuote):
    """Measures how many units have each value, and counts the values of which the noisy number is large."""

    plan: Plan
    units: WholeDomain | EveryCount
    """The measurement of the numbers of units."""

    @classmethod
    def of(cls, plan: Plan) -> DifferentValues:
        """Spend all of epsilon on the numbers of units: one noise, or Laplace noise if that is less."""
        shown = next((o.of for o in plan.outputs if o.kind != "key"), 0)
        order = plan.selection.order if isinstance(plan.selection, AllGroups) else ()
        every = AllGroups(order)
        inner = replace(plan, outputs=(Output("n", "count", shown),), selection=every, values=None)
        found = cls(plan, WholeDomain.of(inner))
        if not plan.one_group:
            return found
        return min(found, cls(plan, EveryCount.of(inner)), key=lambda each: each.bar)

    @property
    def place(self) -> int:
        """The place of the number of units among the counts of the plan."""
        return self.units.plan.outputs[0].of

    @property
    def bar(self) -> float:
        """Half the width of intervals that hold for the numbers of units of all values at once."""
        none, first = {self.place: np.zeros(1)}, np.zeros(1, dtype=np.int64)
        ends = self.units.estimates(none, first)[0][self.place].together
        if ends is None:
            raise InternalError("these numbers have no intervals that hold at once")
        return float(ends[1][0])

    def quoted(self) -> Quote:
        """See `Method`; the error depends on how many units have each value, which is private."""
        plan, inner = self.plan, self.units.quote
        values = self._size
        bar = f"{self.bar:,.0f}" if self.bar > 10 else figure(self.bar)
        bar = with_noun(bar, "row" if plan.owner.row else plan.unit)
        noise = "box noise" if isinstance(self.units, WholeDomain) else "Laplace"
        words = f"from the number of values that more than about {bar} have, to {values}"
        return replace(
            inner,
            charge=Charge(plan.price),
            mechanism=f"{noise} on the number of {'rows' if plan.owner.row else 'units'} of each value",
            predicted_stddev=None,
            half_width=None,
            notes=(f"values that fewer than about {bar} have are not told from none", *notes(plan)),
            errors={output: words for output in plan.outputs if output.kind == "count"},
        )

    @property
    def _size(self) -> int:
        if self.plan.values is None:
            raise InternalError("the plan counts no units of declared values")
        return self.plan.values.size

    def run(self, run: Run) -> NoisyResult:
        """Measure the units of all values; the rest is computed from the noisy numbers alone."""
        plan, size, every = self.plan, self._size, run.every()
        measured = self.units.measure(run, every)
        noisy, groups = measured[self.place], len(every) - plan.outside
        if groups != size * (plan.candidates or 0):
            raise InternalError("the groups are not those of the declared values")
        of_group = noisy[:groups].reshape(-1, size)
        low, value = (
            (of_group > max(self.bar * part, HALF)).sum(axis=1).astype(np.float64) for part in (1.0, 0.5)
        )
        high = np.full(len(value), float(size))
        limit = plan.selection.limit if isinstance(plan.selection, AllGroups) else None
        found = Combined(value, np.full(len(value), np.nan), low, high, (low, high))
        shown = found.taken(np.arange(len(value))[:limit])
        first = every.take(np.arange(0, groups, size)[:limit])
        made = NoisyResult(first, (shown,) * len(plan.counts))
        if not plan.outside:
            return made
        last = np.arange(groups, len(every))
        beyond = self.units.estimates(measured, last)[0][self.place]
        return replace(made, outside=NoisyResult(every.take(last), (beyond,) * len(plan.counts)))
