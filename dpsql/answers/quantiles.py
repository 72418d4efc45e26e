"""Release quantiles, or extremes, of every group of a public domain by the exponential mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpsql import mechanisms
from dpsql.analysis import CellRows, Plan, Quantile
from dpsql.answers import measuring
from dpsql.answers.every_count import MOST_GROUPS, one_group_note
from dpsql.answers.method import AtDistance, NoisyResult, Quote
from dpsql.engines import Counts
from dpsql.errors import InternalError
from dpsql.estimates import figure
from dpsql.language import AllGroups, Scalar
from dpsql.privacy import Charge

MOST_ROWS = 1 << 20
"""A unit with as many rows keeps all of them, in effect: the bound that counts is found later."""
_FAR = Fraction(1, 10)
"""A quantile nearer to an end than this gets a warning."""


@dataclass(frozen=True, slots=True)
class OfCells:
    """Chooses a cell for each group and quantile, by how many rows are in which cells of the group."""

    plan: Plan
    mechanism: mechanisms.Quantile | mechanisms.Extreme

    @classmethod
    def of(cls, plan: Plan) -> OfCells:
        """Spend all of epsilon on the quantiles of one column; `ValueError` if the scale is too large."""
        part = _part(plan)
        if part.extreme:
            m, lowest = _groups(plan), part.extreme == "least"
            return cls(
                plan,
                mechanisms.Extreme.plan(part.cells.number, plan.epsilon, lowest=lowest, groups_per_unit=m),
            )
        if plan.options.max_groups_contributed is not None:
            raise plan.query.source.refuse(
                "option max_groups_contributed has no meaning for quantiles",
                plan.options.at.get("max_groups_contributed"),
                "leave it out, or write max_rows_contributed = 20",
            )
        asked = [quantile.q for _, quantile in _asked(plan)]
        return cls(
            plan,
            mechanisms.Quantile.plan(
                part.cells.number, plan.epsilon, quantiles=asked, rows_per_unit=part.most
            ),
        )

    @property
    def quote(self) -> Quote:
        """See `Method`; the error of a quantile is that of its rank."""
        mechanism, plan = self.mechanism, self.plan
        if isinstance(mechanism, mechanisms.Extreme):
            scale, split = mechanism.scale, "all for the extreme"
            most = mechanism.most_units(measuring.confidence_of(plan))
            outlook: dict[str, float | tuple[float, float] | AtDistance] = {"units_reaching": (1.0, most)}
        else:
            scale = max(mechanism.scale(part) for _, part in mechanism.targets())
            split = "all for the quantiles"
            outlook = {"rank_error": max(mechanism.rank_errors(measuring.confidence_of(plan)))}
        return Quote(
            Charge(plan.epsilon),
            f"exponential mechanism over {_part(plan).cells.number:,} cells",
            float(scale),
            split,
            None,
            None,
            None,
            (*self._sampled(), *self._notes()),
            columns=self._described(),
            outlook=outlook,
        )

    def _sampled(self) -> tuple[str, ...]:
        """Say which rows of a unit are left out."""
        plan, part = self.plan, _part(self.plan)
        if part.extreme:
            kept = plan.groups_kept
            text = f"of each unit at most {kept} group{'s' * (kept != 1)} counted, chosen by a hash"
            grouped = not isinstance(plan.selection, Scalar)
            own = (one_group_note(plan),) if grouped and plan.one_group else ()
            return own if kept is None else (text,)
        if part.single or plan.owner.row or part.most >= MOST_ROWS:
            return ()
        rows = f"at most {part.most} row{'s' * (part.most != 1)}"
        return (f"of each {plan.unit} {rows} counted, chosen by a hash",)

    def _notes(self) -> tuple[str, ...]:
        """Say what an extreme is, and which quantiles need many rows."""
        mechanism, found = self.mechanism, list[str]()
        if isinstance(mechanism, mechanisms.Extreme):
            word = "least" if mechanism.lowest else "largest"
            return tuple(
                f"{name} is the value that about {mechanism.units:,} {self.plan.unit} reach, not the {word}: "
                f"that is one {self.plan.unit}'s"
                for name, _ in _asked(self.plan)
            )
        errors = mechanism.rank_errors(measuring.confidence_of(self.plan))
        for (name, quantile), error in zip(_asked(self.plan), errors, strict=True):
            share = min(quantile.q, 1 - quantile.q)
            if share == 0:
                found.append(f"{name} is near an end of the bounds: use MIN or MAX")
            elif share < _FAR:
                found.append(f"{name} is unreliable in groups of fewer than {error / float(share):,.0f} rows")
        return tuple(found)

    def _described(self) -> tuple[str, ...]:
        mechanism, level = self.mechanism, measuring.confidence_of(self.plan)
        if isinstance(mechanism, mechanisms.Extreme):
            most = mechanism.most_units(level)
            return tuple(
                f"{name}: the value that about {mechanism.units:,} {self.plan.unit} reach, 1 to {most:,.0f}"
                for name, _ in _asked(self.plan)
            )
        return tuple(
            f"{name}: its rank is off by at most {figure(error)} rows"
            for (name, _), error in zip(_asked(self.plan), mechanism.rank_errors(level), strict=True)
        )

    def run(self, counts: Counts) -> NoisyResult:
        """Choose the cells of all groups, in their public order; which rows of it are shown is public."""
        rows, starts = counts.cells_in_order()
        selection = self.plan.selection
        if isinstance(selection, AllGroups):
            if len(starts) != self.plan.groups:
                raise InternalError("the groups are not those of the domain")
            shown = rows[starts][: selection.limit]
        elif isinstance(selection, Scalar):
            shown = np.zeros(1, dtype=np.int64)
        else:
            raise InternalError("a quantile selects no groups")
        group = np.zeros(len(rows), dtype=np.int64)
        group[starts[1:]] = 1
        histograms = mechanisms.Histograms(
            len(starts), np.cumsum(group), counts.n[0][rows], counts.n[1][rows]
        )
        found = self.mechanism.run(histograms)
        cells = {of: found.cell[: len(shown), i] for i, (_, of) in enumerate(_asked(self.plan))}
        return NoisyResult(shown, found.loss, (None,), cells=cells)


def _part(plan: Plan) -> CellRows:
    part = plan.cells
    if part is None:
        raise InternalError("the plan counts no cells")
    return part


def _asked(plan: Plan) -> list[tuple[str, Quantile]]:
    """Return the names of the columns and what they show."""
    return [(o.name, o.quantile) for o in plan.outputs if o.quantile is not None]


def _groups(plan: Plan) -> int:
    """Return in how many groups one unit is at most; refuse an extreme of many groups without a bound."""
    if isinstance(plan.selection, Scalar):
        return 1
    if plan.groups_per_unit is None and plan.groups > MOST_GROUPS:
        raise plan.query.source.refuse(
            f"extremes of {plan.groups:,} groups need a bound on how many of them one unit may touch",
            plan.query.tree.args.get("group"),
            "OPTIONS (max_groups_contributed = 3)",
        )
    return min(plan.groups_per_unit or plan.groups, plan.groups)
