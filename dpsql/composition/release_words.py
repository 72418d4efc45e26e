"""Say in words and figures what a private statement releases: selection, numbers, guarantee, what it takes.

All of it is from public figures alone: EXPLAIN shows it before, and a release carries it.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any

import pyarrow as pa

from dpsql.analysis import (
    CellRows,
    Contribution,
    Output,
    Plan,
    ReleasedAggregate,
    ValuesOfGroup,
    bound_on_rows,
    describe_cells,
    describe_cuts,
    describe_number,
    describe_quantile,
)
from dpsql.analysis.epsilon_division import EpsilonDivision
from dpsql.composition.prepared import PreparedComposed
from dpsql.errors import with_article
from dpsql.estimates import Formula, RowCount, SumOfRows, decimal, figure, with_noun
from dpsql.kernel.loss import Filter, PrivacyLoss, approximate_epsilon
from dpsql.language import AboveThreshold, AllGroups, Scalar, Selection, TopK, TopPerPartition
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger import Budget, RefinementStep
from dpsql.planning import (
    Method,
    NoisyResult,
    describe_empty,
    left_out_sentences,
    merge_properties,
    sentences_of,
)
from dpsql.planning.method import Quote
from dpsql.release import RENEWED, add_renewals

_CLOSED = (
    "the sum of epsilons admits no statement any more, only that of costs; noise = LAPLACE keeps it open"
)


def guarantee(plan: Plan, loss: PrivacyLoss) -> str:
    """Describe the privacy guarantee of a statement in a sentence, of units of periods in several."""
    found = _guarantee(plan, loss)
    kind, every = plan.owner.kind, plan.owner.every
    if not every:
        return found
    alone = "protected so" if loss.epsilon is None else f"protected at epsilon {float(loss.epsilon):g}"
    more = "rho x the square of" if loss.epsilon is None else "epsilon x"
    one = with_article(kind)
    most = {"day": 366, "week": 53, "month": 12, "quarter": 4, "year": 1}[every]
    return (
        f"{found}. What one {kind} did in one {every} is {alone}. What is true of {one} in several"
        f" {every}s (a home, a lasting illness, being {one} at all) is protected less: per {kind} at most"
        f" {more} {every}s touched, {most} in a year"
    )


def _guarantee(plan: Plan, loss: PrivacyLoss) -> str:
    unit = f"one {plan.unit}" if plan.owner.row else f"all rows of one {plan.unit}"
    epsilon, delta = loss.epsilon, f"{float(loss.delta):g}"
    if epsilon is not None:
        text = (
            f"adding or removing {unit} changes the probability of any answer by a factor of at most "
            f"e^{float(epsilon):g}"
        )
        return f"{text}, but for a probability of {delta}" if loss.delta else text
    rho = loss.rho
    if rho is None or not plan.filters:
        return f"adding or removing {unit} is hidden by noise"
    conversion = plan.filters[0].conversion_delta
    alone = approximate_epsilon(rho, conversion)
    text = f"for adding or removing {unit}, rho-zCDP with rho = {_up(rho)}"
    if loss.delta:
        text += f", but for a probability of {delta}"
    return f"{text}; alone ({float(alone):g}, {float(conversion + loss.delta):g})-DP"


def layout_facts(plan: Plan, loss: PrivacyLoss, budget: Budget | None) -> dict[str, object]:
    """Return what EXPLAIN shows of the layout, where costs are added beside epsilons."""
    way = plan.filters[0].order_way if plan.filters else None
    if way is None:
        return {}
    rho = loss.rho
    return {
        "layout": _layout(plan.epsilon_division),
        "cost": _up(loss.cost(way.order)),
        "rho": None if rho is None else _up(rho),
        "share_of_budget": max(_share(scope, loss) for scope in plan.filters),
        "more_like_this": None if budget is None else budget.more(loss),
        "after_it": _CLOSED if loss.epsilon is None else None,
    }


def _layout(layout: EpsilonDivision) -> str:
    if layout.order is None:
        return "basic: its epsilon is divided"
    return f"order: its cost at alpha {float(layout.order):.4g} is divided"


def _share(scope: Filter, loss: PrivacyLoss) -> float:
    """Return the part of an unused budget that a loss takes, by the sum of which it takes less."""
    each = scope.amounts(loss)
    ways = [] if each.epsilon is None else [each.epsilon / scope.epsilon]
    if scope.order_way is not None:
        ways.append(each.cost / scope.order_way.limit)
    return float(min(ways, default=Fraction(1)))


def _up(value: Fraction) -> str:
    """Write a number with four significant digits, rounded up."""
    if not value:
        return "0"
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 3)
    return f"{float(math.ceil(value / unit) * unit):.4g}"


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
    renewed: str = "",
) -> dict[str, Any]:
    """Return the descriptive fields of a release, which may refine another, and of its answer.

    `renewed` is what its guarantee says of budgets that start anew.
    """
    notes, untold = (answer.notes, answer.untold) if answer is not None else ((), frozenset[str]())
    if answer is not None:
        notes = (*notes, *describe_empty(plan, answer))
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
        "mechanism": (answer.mechanism if answer is not None else "") or method.quote.mechanism,
        "guarantee": add_renewals(guarantee(plan, loss), renewed),
        "confidence": plan.options.confidence or Fraction(95, 100),
        "warnings": (*(note for note in method.quote.notes if note not in untold), *notes),
        "assumed": plan.assumed,
        "properties": {
            **_name_ordering(plan),
            **_rank_certainty(method),
            **sentences_of(plan),
            **merge_properties(left_out_sentences(plan), {} if answer is None else answer.left_out),
            **further,
            **({RENEWED: renewed} if renewed else {}),
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
    """Describe the privacy guarantee of all releases of a statement together.

    Beside releases over units of one period each, that of whole persons is told of the others alone.
    """
    total, plans = total_loss(prepared), [part.plan for part in prepared.parts]
    periods = {plan.owner.kind: plan.owner.every for plan in plans if plan.owner.every}
    others = [part.method.quote.loss for part in prepared.parts if not part.plan.owner.every]
    found = dict[str, None]()
    for plan in plans:
        every = "" if plan.owner.every else periods.get(plan.owner.kind, "")
        alone = sum(others, PrivacyLoss()) if every else total
        found[f"of tables without {every}s alone: " * bool(every) + guarantee(plan, alone)] = None
    return "; ".join(found)


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


@dataclass(frozen=True, slots=True)
class DescribedNumber:
    """A number of the select list, or the one that orders the groups without being selected."""

    name: str
    what: str
    """What it is, such as `average of cost`; empty if that is not known."""
    bounds: tuple[float, float] | None
    """The interval that values, or a unit's totals in a group, are cut to; None for counts."""
    bounds_from: str | None
    """The origin of the bounds, in words; None for counts."""
    rows_per_unit: int | None
    """How many rows of a unit count in all groups together; None where nothing needs that bound."""
    step: float | None
    """The grid on which values are summed, in their unit; 1 for counts, None before a bound is found."""
    moves_by: float | None
    """The most by which one unit moves it, in its unit; of averages and variances their moments, in rows.

    None before a bound is found."""
    moves: str
    """The same as a sentence, which says whether it holds for each group or for all groups together."""
    vector: tuple[str, ...]
    """The other numbers that come from the same moments, with the same noise."""
    cut: tuple[str, ...]
    """What is cut, weighted down or left out, in sentences."""
    predicted: str
    """The predicted error in words; empty where that of all counts is shown for the statement."""

    def text(self, cut_like: str | None) -> str:
        """Return the number's description for a cell of EXPLAIN."""
        said = [f"{self.name}: {self.what}" if self.what else self.name]
        if cut_like is not None:
            said.append(f"cut as {cut_like}")
        else:
            said += self.cut
            if self.bounds_from is not None and self.step is not None:
                said.append(f"step {figure(self.step)}")
        said += [self.moves] if self.moves else []
        if self.vector:
            said.append(f"one noise with {', '.join(self.vector)}")
        return "; ".join([*said, self.predicted] if self.predicted else said)


def number_texts(found: list[DescribedNumber]) -> list[str]:
    """Write numbers for cells of EXPLAIN, each with what is cut unless an earlier one says the same."""
    first: dict[object, str] = {}
    texts = []
    for each in found:
        key = (each.cut, each.bounds, each.step)
        known = first.setdefault(key, each.name)
        texts.append(each.text(known if each.cut and known != each.name else None))
    return texts


def describe_numbers(plan: Plan, quote: Quote) -> list[DescribedNumber]:
    """Describe the numbers of the select list, and the one that orders the groups if it is not selected."""
    if plan.cells is not None:
        return _quantiles(plan, plan.cells, quote)
    shown = [o for o in plan.outputs if o.kind == "count"]
    best = getattr(plan.selection, "best", plan.selection)
    place = getattr(best, "count", None)
    if place is not None and all(plan.equal[o.of] != plan.equal[place] for o in shown):
        shown.append(Output("ordering number", "count", place))
    made = [_number(plan, quote, output) for output in shown]
    shares = [plan.counts[output.of].noise_group for output in shown]
    return [
        replace(
            each,
            vector=tuple(o.name for o, s in zip(made, shares, strict=True) if o is not each and s == own),
        )
        if own is not None
        else each
        for each, own in zip(made, shares, strict=True)
    ]


def _number(plan: Plan, quote: Quote, output: Output) -> DescribedNumber:
    count, formula, unit = plan.counts[output.of], output.formula, plan.unit
    if plan.values is not None:
        return _of_values(plan, plan.values, quote, output)
    argument = None if isinstance(formula, RowCount) else count.argument
    grid = getattr(getattr(count.parts[0], "vector", count.parts[0]), "grid", None)
    moves_by, moves = _moves(plan, output)
    predicted = quote.errors.get(output, "")
    if " / n" in predicted:
        rows = "units" if count.argument is not None and count.argument.per_group else "rows"
        predicted += f", n being the number of {rows}"
    made = DescribedNumber(
        output.name,
        describe_number(count, formula, unit),
        None if argument is None else (float(argument.low), float(argument.high)),
        None if argument is None else argument.origin or "the statement",
        bound_on_rows(count),
        1.0 if grid is None or argument is None else float(grid.step),
        moves_by,
        moves,
        (),
        describe_cuts(count, formula, unit, _searches(plan)),
        predicted,
    )
    return _searched(plan, made, count) if plan.ladders else made


def _of_values(plan: Plan, values: ValuesOfGroup, quote: Quote, output: Output) -> DescribedNumber:
    """Describe a number of different values, which follows from the numbers of units that have each."""
    what = f"number of different values of {values.text}, of {values.size:,} that are declared"
    moves = f"one {plan.unit} moves the number of units of each value by at most 1"
    return DescribedNumber(
        output.name, what, None, None, None, 1.0, 1.0, moves, (), (), quote.errors.get(output, "")
    )


def _quantiles(plan: Plan, part: CellRows, quote: Quote) -> list[DescribedNumber]:
    """Describe the quantiles, or extremes, of a column."""
    found = []
    for output in plan.outputs:
        quantile = output.quantile
        if quantile is None:
            continue
        low, high = quantile.ends
        found.append(
            DescribedNumber(
                output.name,
                describe_quantile(quantile, part),
                None if quantile.searched else (float(low), float(high)),
                quantile.origin or "the statement",
                None if part.extreme or part.single else part.most,
                None if quantile.searched else float(part.cells.grid.step),
                None,
                "",
                (),
                describe_cells(quantile, part, plan.unit),
                quote.errors.get(output, ""),
            )
        )
    return found


def _searched(plan: Plan, number: DescribedNumber, count: ReleasedAggregate) -> DescribedNumber:
    """Return what is known of a number before its bounds are found: the plan has the largest ones."""
    found = _searches(plan)
    values = count.argument is not None and count.argument.searched
    rows = Contribution.ROWS in found and number.rows_per_unit is not None
    if not values and not rows:
        return number
    total = next((s.ladder for s in plan.ladders if s.ladder.of is Contribution.TOTAL), None)
    return replace(
        number,
        bounds=None if values else number.bounds,
        rows_per_unit=None if rows else number.rows_per_unit,
        step=None if total is None else float(total.step),
        moves_by=None,
        moves="",
    )


def _searches(plan: Plan) -> set[Contribution]:
    """Return what the bounds that are still to be found are of."""
    return {search.ladder.of for search in plan.ladders}


def _moves(plan: Plan, output: Output) -> tuple[float, str]:
    """Return the most by which one unit moves a number, as a number and as a sentence."""
    count, total = plan.counts[output.of], plan.l1_over_groups(output.of)
    every = None if plan.domain_size is None else plan.domain_size * count.bound
    together = total is not None and total != every
    moved = (total if together and total is not None else count.bound) * count.step
    value = None if output.formula is None else _value_of_row(output.formula)
    moved *= 1 if value is None else value
    where = (" in all groups together" if together else " in each group") if plan.key_types else ""
    what, rows = "it", ""
    if output.formula is not None and value is None:
        what, rows = "its moments", " row" if moved == 1 else " rows"
    return float(moved), f"one {plan.unit} moves {what} by at most {decimal(moved)}{rows}{where}"


def _value_of_row(formula: Formula) -> Fraction | None:
    """Return the most that a row adds to a number; None for averages and variances."""
    match formula:
        case RowCount():
            return Fraction(1)
        case SumOfRows(low=low, high=high):
            return max(abs(low), abs(high))
    return None
