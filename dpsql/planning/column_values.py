"""Release quantiles and extremes of a column, and how many of its declared values occur.

*Quantiles and extremes* are chosen among public cells of the column (`OfCells`).

*How many values occur* (`DifferentValues`): the numbers of units of all declared values are measured
together, with one noise. q is half the width of intervals that hold for all of them at once. Then at least as
many values occur as have a noisy number above q: of a value that no unit has, it is not above q if the
intervals hold. At most all declared ones do. The value is how many noisy numbers are above q/2. Where q is
less than a count, half a count takes its place: no number of units is between 0 and 1.

*Private:* what is measured of different values is the release of `GROUP BY x`, of which one unit moves each
number by at most 1, all the same way, whatever values it has. Everything here is computed from that release.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from sqlglot import exp

from dpsql.analysis import CellRows, Output, Plan, Quantile
from dpsql.analysis.epsilon_division import EpsilonDivision
from dpsql.errors import Fix, InternalError
from dpsql.estimates import Combined, decimal, figure, with_noun
from dpsql.kernel import mechanisms
from dpsql.kernel.loss import Charge
from dpsql.kernel.release import Run
from dpsql.language import AllGroups, Scalar, find_nodes
from dpsql.lazy_dataclass import dataclass
from dpsql.planning import plan_requests
from dpsql.planning.all_groups import MOST_GROUPS, EveryCount, WholeDomain, one_group_note
from dpsql.planning.cut_intervals import add_sentence
from dpsql.planning.method import AtDistance, KeepsQuote, NoisyResult, Quote
from dpsql.planning.result_table import order_by_terms, values_of_cells
from dpsql.planning.shown_groups import notes, warn_if_wide
from dpsql.render.readable import slot
from dpsql.types import DOUBLE

MOST_HISTOGRAMS = 100_000
"""The most groups of a domain whose quantiles are chosen: each takes some milliseconds."""
_UNITS = 2
"""The place of the number of units that decides which groups there are."""
UNRELIABLE = "is unreliable"
"""What the notes say of quantiles of few rows; how few follows from the bound on the rows of a unit."""
WHOLE = "is the whole number of a row here: between two rows SQL takes one between their numbers"
"""What is told of a quantile of whole numbers, where SQL's may lie between two rows."""
_FAR = Fraction(1, 10)
"""A quantile of all rows gets a warning if it is nearer to an end than this."""


@dataclass(frozen=True, slots=True)
class OfCells(KeepsQuote):
    """Chooses a cell for each group and quantile, by how many rows are in which cells of the group.

    The groups of keys without a declared domain are chosen first, by their noisy numbers of units.
    """

    plan: Plan
    mechanism: mechanisms.Quantile | mechanisms.Extreme
    existing: mechanisms.Existing | None
    """What chooses the groups of keys without a declared domain; None: all groups of the domain are shown."""

    @classmethod
    def of(cls, plan: Plan) -> OfCells:
        """Spend all of epsilon on the quantiles of one column, or half if groups are to be found first.

        Raises `ValueError` if a scale is too large.
        """
        part, epsilon, existing = _part(plan), plan.epsilon, None
        if plan.domain_size is not None and plan.key_types and plan.groups > MOST_HISTOGRAMS:
            raise plan.query.source.refuse(
                f"quantiles of {plan.groups:,} groups are too many: at most {MOST_HISTOGRAMS:,}",
                plan.query.tree.args.get("group"),
                "a condition in WHERE on the keys, or fewer keys",
            )
        if plan.existence is not None:
            epsilon, m = plan.epsilon_division.epsilon_of(Fraction(1, 2)), plan.l1_over_groups(plan.existence)
            if m is None or plan.options.delta is None:
                raise InternalError("undeclared keys need a delta and a bound on each unit's groups")
            existing = mechanisms.Existing.plan(epsilon, plan.options.delta, groups_per_unit=m)
        size, layout = part.cells.number, EpsilonDivision(epsilon, plan.epsilon_division.order)
        if part.extreme:
            lowest = part.extreme == "least"
            found = mechanisms.Extreme.plan(
                size, layout.ranged_epsilon(), lowest=lowest, groups_per_unit=_groups(plan)
            )
            return cls(plan, found, existing)
        asked = [quantile.q for _, quantile in _quantiles_of(plan)]
        levels = len(set(asked)).bit_length()
        each = layout.ranged_epsilon(times=levels)
        made = mechanisms.Quantile.plan(size, levels * each, quantiles=asked, rows_per_unit=part.most)
        return cls(plan, made, existing)

    def compute_quote(self) -> Quote:
        """Return the price and the predicted errors; the error of a quantile is one of its rank."""
        mechanism, existing, level = self.mechanism, self.existing, plan_requests.confidence_of(self.plan)
        outlook: dict[str, float | tuple[float, float] | AtDistance] = {}
        if isinstance(mechanism, mechanisms.Extreme):
            scale, split = mechanism.scale, "all for the extreme"
            outlook["units_reaching"] = (1.0, mechanism.most_units(level))
        else:
            scale = max(mechanism.scale(part) for _, part in mechanism.targets())
            split = "all for the quantiles"
            outlook["rank_error"] = max(self._rank_errors(mechanism))
        loss, charge = mechanism.loss, Charge(self.plan.price)
        words = f"exponential mechanism over {_part(self.plan).cells.number:,} cells"
        notes = (
            *self._describe_sampling(),
            *self._notes(),
            *self._without_values(),
            *warn_if_wide(self.plan),
        )
        if existing is not None:
            from dpsql.planning.unknown_keys import shown_note  # noqa: PLC0415  few keys are undeclared

            loss, charge = existing.loss + loss, Charge(self.plan.price, existing.loss.delta)
            half = float(existing.loss.charge.epsilon)
            split = f"{half:g} for existence, {half:g} {split.removeprefix('all ')}"
            words = f"noisy numbers of units above a threshold, {words}"
            outlook["least_units"] = float(existing.threshold)
            notes = (shown_note(existing), *notes)
        return Quote(
            charge,
            words,
            float(scale),
            split,
            None,
            None,
            None,
            notes,
            self._errors(),
            outlook=outlook,
            divided=None if self.plan.epsilon_division.order is None else loss,
        )

    def _describe_sampling(self) -> tuple[str, ...]:
        """Say in which groups the extremes of a unit count."""
        plan, kept = self.plan, self.plan.groups_kept
        if not _part(plan).extreme or isinstance(plan.selection, Scalar):
            return ()
        if kept is None:
            return (one_group_note(plan),) if plan.one_group else ()
        return (f"of each unit at most {kept} group{'s' * (kept != 1)} counted, chosen by a hash",)

    def _notes(self) -> tuple[str, ...]:
        """Say what an extreme is, and which quantiles need many rows."""
        mechanism, found = self.mechanism, list[str]()
        if isinstance(mechanism, mechanisms.Extreme):
            word = "least" if mechanism.lowest else "largest"
            return tuple(
                f"{output.name} is the value that about {with_noun(mechanism.units, 'unit', 'reach')}, "
                f"not the {word}: that is one {self.plan.unit}'s"
                for output, _ in _quantiles_of(self.plan)
            )
        errors, grouped = (
            mechanism.rank_errors(plan_requests.confidence_of(self.plan)),
            bool(self.plan.key_types),
        )
        for (output, quantile), error in zip(_quantiles_of(self.plan), errors, strict=True):
            share = min(quantile.q, 1 - quantile.q)
            if share == 0:
                found.append(f"{output.name} is near an end of the bounds: use MIN or MAX")
            elif share < _FAR or grouped:
                where, fewest = "in groups of" if grouped else "for", math.ceil(error / float(share))
                if fewest > 1:  # else no number of rows is too small
                    found.append(f"{output.name} {UNRELIABLE} {where} fewer than {fewest:,} rows")
        return tuple(found)

    def _without_values(self) -> tuple[str, ...]:
        """Return the note that a quantile without values shows some value of its range, not NULL."""
        plan = self.plan
        chosen = find_nodes(plan.query.tree, exp.Where, exp.Join, exp.Case)
        if self.existing is not None or not (plan.key_types or chosen):
            return ()
        names = " and ".join(dict.fromkeys(output.name for output, _ in _quantiles_of(plan)))
        where = "a group without values" if plan.key_types else "no values"
        return (f"{names} of {where} is some value of its range, where SQL has NULL: COUNT beside it tells",)

    def _errors(self) -> dict[Output, str]:
        """Return the predicted errors of the ranks of quantiles, in words."""
        mechanism, level = self.mechanism, plan_requests.confidence_of(self.plan)
        if isinstance(mechanism, mechanisms.Extreme):
            most = f"1 to {mechanism.most_units(level):,.0f}"
            words = f"the value that about {with_noun(mechanism.units, 'unit', 'reach')}, {most}"
            return {output: words for output, _ in _quantiles_of(self.plan)}
        share = _rows_left_out(self.plan)[1]
        more = f", and by {share:.2%} of the rows of its group" if share else ""
        return {
            output: f"its rank is off by at most {with_noun(figure(error), 'row')}{more}"
            for (output, _), error in zip(_quantiles_of(self.plan), self._rank_errors(mechanism), strict=True)
        }

    def _rank_errors(self, mechanism: mechanisms.Quantile) -> list[float]:
        """Predict the errors of the ranks: of the choice, and of rows that are left out on either side."""
        rows, level = _rows_left_out(self.plan)[0], plan_requests.confidence_of(self.plan)
        errors = zip(mechanism.rank_errors(level), mechanism.quantiles, strict=True)
        return [error + rows * float(max(q, 1 - q)) for error, q in errors]

    def run(self, run: Run) -> NoisyResult:
        """Choose the cells of all groups, in their public order; so it is public which are shown."""
        selection = self.plan.selection
        if self.existing is not None:
            groups = run.existence(self.existing, _UNITS, cells=True).rows
        else:
            groups = run.groups_of_cells()
        chosen, order = run.draw(self.mechanism, groups), np.arange(len(groups))
        if isinstance(selection, AllGroups):
            if self.existing is not None:
                order = order_by_terms(run.keys(groups), selection.order)
            order = order[: selection.limit]
        asked = [quantile for _, quantile in _quantiles_of(self.plan)]
        cells = {quantile: chosen[order, i] for i, quantile in enumerate(asked)}
        said = tuple(f"{name} {WHOLE}" for name in self._whole_numbers())
        return NoisyResult(groups.take(order), (None,) * len(self.plan.counts), cells=cells, notes=said)

    def _whole_numbers(self) -> list[str]:
        """Return the names of quantiles of whole numbers that SQL places between two rows."""
        return [
            output.name
            for output, each in _quantiles_of(self.plan)
            if 0 < each.q < 1 and each.type == DOUBLE and each.cells.grid.step == 1
        ]


def _rows_left_out(plan: Plan) -> tuple[float, float]:
    """Return how many rows a bound leaves out of all, or which share of a group; 0 if nobody knows."""
    left = next((each for each in plan.left_out if each is not None), None)
    if left is None or not left.kept.current or plan.options.cut == "NOISE_ONLY":
        return 0.0, 0.0
    most = left.kept.ladder.most_cut(left.bound, confidence=plan_requests.confidence_of(plan))
    if not plan.key_types:
        return most, 0.0
    return 0.0, 1.0 if plan.options.cut == "WHOLE" else min(1.0, 2 * most / max(left.kept.ladder.total, 1.0))


def _part(plan: Plan) -> CellRows:
    part = plan.cells
    if part is None:
        raise InternalError("the plan counts no cells")
    return part


def _quantiles_of(plan: Plan) -> list[tuple[Output, Quantile]]:
    """Return the columns that show quantiles, and the quantiles."""
    return [(o, o.quantile) for o in plan.outputs if o.quantile is not None]


def _groups(plan: Plan) -> int:
    """Return in how many groups one unit is at most; refuse an extreme of many groups without a bound."""
    if isinstance(plan.selection, Scalar):
        return 1
    if plan.domain_size is None:
        if plan.groups_per_unit is None:
            raise InternalError("groups of undeclared keys need a bound on those of a unit")
        return plan.groups_per_unit
    if plan.groups_per_unit is None and plan.groups > MOST_GROUPS:
        raise plan.query.source.refuse(
            f"extremes of {plan.groups:,} groups need a bound on how many of them one unit may touch",
            plan.query.tree.args.get("group"),
            "OPTIONS (max_groups_contributed = 3)",
            Fix("3", option="max_groups_contributed", guess="3"),
        )
    return min(plan.groups_per_unit or plan.groups, plan.groups)


def add_sentence_on_ends(found: dict[str, str], plan: Plan, answer: NoisyResult) -> dict[str, str]:
    """Add to an answer's sentences that a quantile lies at an end of its bounds, if one does."""
    text = _sentence_on_ends(plan, answer)
    return add_sentence(found, slot("cut"), text) if text else found


def _sentence_on_ends(plan: Plan, answer: NoisyResult) -> str:
    """Return which quantiles or extremes are at an end of the bounds, beyond which values may lie; or ""."""
    found = []
    for output in plan.outputs:
        quantile = output.quantile
        if quantile is None or not quantile.cut:
            continue
        cells = answer.cells[quantile]
        highest, lowest = cells == quantile.cells.number - 1, cells == 0
        ends = [
            f"{words} {_write_value(quantile, cell)}"
            for there, words, cell in (
                (highest, "at least", quantile.cells.number - 1),
                (lowest, "at most", 0),
            )
            if there.any()
        ]
        if ends and len(cells) == 1:
            found.append(f"{output.name} is {ends[0]}: values beyond count as that")
        elif ends:
            number = f"{int(highest.sum() + lowest.sum()):,} of {len(cells):,}"
            found.append(f"{output.name} is {' or '.join(ends)} in {number} groups: values beyond count so")
    return "; ".join(found)


def _write_value(quantile: Quantile, cell: int) -> str:
    found = values_of_cells(quantile, np.array([cell]))[0].as_py()
    return decimal(Fraction(found)) if quantile.type.numeric else str(found)


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
        """Plan one noise for the units of each value, or Laplace noise if its intervals are narrower."""
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

    def compute_quote(self) -> Quote:
        """Return the price; the error depends on how many units have each value, which is private."""
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
        shown = found.take(np.arange(len(value))[:limit])
        first = every.take(np.arange(0, groups, size)[:limit])
        made = NoisyResult(first, (shown,) * len(plan.counts))
        if not plan.outside:
            return made
        last = np.arange(groups, len(every))
        beyond = self.units.estimates(measured, last)[0][self.place]
        return replace(made, outside=NoisyResult(every.take(last), (beyond,) * len(plan.counts)))
