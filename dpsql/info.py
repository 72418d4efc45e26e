"""Results of EXPLAIN, SHOW and DESCRIBE, which cost nothing, and the descriptive text of a release."""

from __future__ import annotations

import json as json_text
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from math import ceil
from typing import Any

import pyarrow as pa

from dpsql.analysis import Catalog, Plan
from dpsql.answers import (
    AtDistance,
    Considered,
    Method,
    NoisyResult,
    Number,
    considered,
    left_out_sentences,
    merge_properties,
    number_texts,
    numbers,
    sentences_of,
    to_be_found,
)
from dpsql.estimates import decimal, figure, with_noun
from dpsql.guarantees import guarantee, layout_facts
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.language import (
    AboveThreshold,
    AllGroups,
    Describe,
    Query,
    Scalar,
    Selection,
    Show,
    TopK,
    TopPerPartition,
)
from dpsql.ledger import Budget, Ledger, RefinementStep, rows_of
from dpsql.policy import Policy, Table, UnitColumn, describe_protected, fold, path_of
from dpsql.prepared import PreparedComposed, PreparedPrivate, PreparedPublic


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


def selection_of(plan: Plan) -> str:
    """Describe the selection of a plan, its threshold in the unit of the number that is compared."""
    best = getattr(plan.selection, "best", plan.selection)
    place = getattr(best, "count", None)
    return selection_words(plan.selection, Fraction(1) if place is None else plan.counts[place].step)


def words(
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
        "selection": selection_of(plan),
        "mechanism": method.quote.mechanism,
        "guarantee": guarantee(plan, loss),
        "confidence": plan.options.confidence or Fraction(95, 100),
        "warnings": (*(note for note in method.quote.notes if note not in untold), *notes),
        "assumed": plan.assumed,
        "properties": {
            **_ordering(plan),
            **_of_ranks(method),
            **sentences_of(plan),
            **merge_properties(left_out_sentences(plan), {} if answer is None else answer.left_out),
            **further,
            "unit": plan.unit,
            "split": method.quote.split,
            "domain": plan.domain,
            "domain_size": str(plan.candidates),
        },
    }


def _left_out(plan: Plan) -> dict[str, object]:
    """Return what EXPLAIN shows of what bounds leave out, and of what intervals take for granted."""
    found = left_out_sentences(plan)
    assumes = found.pop("assumes", None)
    cut = plan.options.cut if any(plan.left_out) or plan.ladders else None
    said = [*found.values(), *to_be_found(plan)]
    return {"left_out": said or None, "assumes": assumes, "cut": cut}


def _of_ranks(method: Method) -> dict[str, str]:
    """Return what is known of the ranks of quantiles, or of extremes, for the line below an answer."""
    match method.quote.outlook:
        case {"rank_error": float(error)}:
            return {"certainty": f"rank off by at most {with_noun(figure(error), 'row')}"}
        case {"units_reaching": (float(least), float(most))}:
            return {"certainty": f"reached by {figure(least)} to {with_noun(figure(most), 'unit')}"}
    return {}


def _ordering(plan: Plan) -> dict[str, str]:
    """Return the name of the released count that the selection orders or compares."""
    place = getattr(plan.selection, "count", -1)
    name = next((o.name for o in plan.outputs if o.kind == "count" and o.of == place), None)
    return {} if name is None else {"ordering": name}


def explain(
    prepared: PreparedPrivate | PreparedComposed | PreparedPublic, budget: Budget, *, json: bool
) -> pa.Table:
    """Return the plan and price of a statement as a table. Reads nothing private."""
    left = {"budget_left": _down(budget.remaining.epsilon)}
    match prepared:
        case PreparedPublic():
            found: dict[str, object] = {
                "selection": "public statement",
                "views": ", ".join(prepared.views) or None,
                "guarantee": "reads no private table",
                "epsilon": "0",
                "delta": "0",
                **left,
                "compiled_sql": prepared.sql,
            }
        case PreparedPrivate():
            found = {**_views(prepared.query), **_facts(prepared, left, budget)}
        case PreparedComposed():
            found = {**_views(prepared.query), **_composed_facts(prepared, left, budget)}
    price = {"private": prepared.private, **prepared.price.fractions, "full": prepared.full_price.fractions}
    if json:
        text = json_text.dumps(_numbers(found), default=_fields)
        return _with_facts(pa.table({"explain": pa.array([text], pa.string())}), "price", price)
    shown = _lines(found)
    table = pa.table(
        {
            "property": pa.array([name for name, _ in shown], pa.string()),
            "value": pa.array([value for _, value in shown], pa.string()),
        }
    )
    return _with_facts(table, "price", price)


def _with_facts(table: pa.Table, name: str, facts: dict[str, object]) -> pa.Table:
    """Put exact amounts beside the rounded ones, into the schema's metadata: programs read them there."""
    return table.replace_schema_metadata({f"dpsql.{name}": json_text.dumps(facts)})


def _views(query: Query) -> dict[str, object]:
    """Return the views of the policy that a statement reads."""
    return {"views": ", ".join(query.views)} if query.views else {}


def _facts(
    prepared: PreparedPrivate, left: dict[str, str], budget: Budget | None = None
) -> dict[str, object]:
    """Return what EXPLAIN shows of one release; `left` stands before its SQL."""
    plan, quote = prepared.plan, prepared.method.quote
    return {
        "selection": selection_of(plan),
        "why": plan.selection.spelling,
        "mechanism": quote.mechanism,
        "unit": plan.unit,
        "guarantee": guarantee(plan, quote.loss),
        **_amounts(quote.charge),
        **layout_facts(plan, quote.loss, budget),
        "error": None if plan.options.error is None else float(plan.options.error),
        "split": quote.split,
        "noise_scale": None if plan.ladders else quote.scale,
        "predicted_stddev": quote.predicted_stddev,
        **quote.outlook,
        "half_width": quote.half_width,
        "tells_apart": quote.tells_apart,
        "numbers": numbers(plan, quote) or None,
        "domain": plan.domain,
        "domain_size": plan.candidates,
        "null_group": plan.null_group or None,
        "outside": "one more number of this release" if plan.outside else None,
        **_left_out(plan),
        "considered": considered(plan),
        "assumed": [str(each) for each in plan.assumed] or None,
        "warnings": [*filter(None, (prepared.note, prepared.of_intervals)), *quote.notes] or None,
        **left,
        "compiled_sql": prepared.counting.sql,
    }


def _composed_facts(prepared: PreparedComposed, left: dict[str, str], budget: Budget) -> dict[str, object]:
    """Return what EXPLAIN shows of a statement with an outer query: the total, and each release."""
    decided = [each.words(prepared.parts[each.release].plan) for each in prepared.existence]
    decided = [text for text in dict.fromkeys(decided) if text]
    if len(prepared.parts) == 1:
        found = {**_facts(prepared.parts[0], left, budget), "outer_sql": prepared.outer}
        said = found["warnings"]
        return {**found, "warnings": [*(said if isinstance(said, list) else []), *decided] or None}
    names: dict[int, list[str]] = {}
    for relation in prepared.relations:
        names.setdefault(relation.release, []).append(relation.name)
    source = prepared.query.source
    releases = []
    for place, part in enumerate(prepared.parts):
        line, col, _ = source.locate(source.position(part.query.tree))
        called = ", ".join(names[place]) + f", line {line}, column {col}"
        asked = None if part.price.epsilon else "yes: it costs nothing again"
        releases.append({"relation": called, "asked_before": asked, **_facts(part, {})})
    return {
        "selection": f"{len(releases)} releases",
        "why": "one query over their rows",
        "unit": ", ".join(dict.fromkeys(part.plan.unit for part in prepared.parts)),
        "guarantee": total_guarantee(prepared),
        **_amounts(prepared.price),
        **layout_facts(prepared.parts[0].plan, _total_loss(prepared), budget),
        "warnings": decided or None,
        **left,
        "releases": releases,
        "outer_sql": prepared.outer,
    }


def _total_loss(prepared: PreparedComposed) -> PrivacyLoss:
    return sum((part.method.quote.loss for part in prepared.parts), PrivacyLoss())


def total_guarantee(prepared: PreparedComposed) -> str:
    """Describe the privacy guarantee of all releases of a statement together."""
    total = _total_loss(prepared)
    return "; ".join(dict.fromkeys(guarantee(part.plan, total) for part in prepared.parts))


def _amounts(charge: Charge) -> dict[str, object]:
    return {"epsilon": f"{float(charge.epsilon):g}", "delta": f"{float(charge.delta):g}"}


def _numbers(found: dict[str, object]) -> dict[str, object]:
    """Return what EXPLAIN shows with its amounts as numbers, for JSON."""
    return {
        name: float(str(value))
        if name in ("epsilon", "delta", "budget_left")
        else [_numbers(each) for each in value]
        if name == "releases" and isinstance(value, list)
        else value
        for name, value in found.items()
    }


_OF_ALL = ("unit", "guarantee")
"""What EXPLAIN shows once for all releases of a statement."""


def _lines(found: dict[str, object]) -> list[tuple[str, str]]:
    """Return what EXPLAIN shows as pairs of texts; those of the i-th release begin with `i.`."""
    shown: list[tuple[str, str]] = []
    for name, value in found.items():
        if name == "releases" and isinstance(value, list):
            for i, each in enumerate(value, 1):
                own = {inner: fact for inner, fact in each.items() if inner not in _OF_ALL}
                shown += [(f"{i}. {inner}", text) for inner, text in _lines(own)]
        elif name == "considered" and isinstance(value, list):
            shown += [(f"considered {i}", _shown(each)) for i, each in enumerate(value, 1)]
        elif name == "numbers" and isinstance(value, list):
            shown += [(f"number {i}", text) for i, text in enumerate(number_texts(value), 1)]
        elif value is not None:
            shown.append((name, _shown(value)))
    return shown


def _fields(value: object) -> dict[str, object]:
    """Return a considered mechanism, a number, or predictions at a distance, for JSON."""
    if isinstance(value, AtDistance):
        return asdict(value)
    if isinstance(value, Number):
        return {name: fact for name, fact in asdict(value).items() if fact not in (None, "", ())}
    assert isinstance(value, Considered)  # noqa: S101  everything else is plain
    charge = {"epsilon": float(value.charge.epsilon), "delta": float(value.charge.delta)}
    return {n: getattr(value, n) for n in ("mechanism", "tells_apart", "stddev", "half_width")} | {
        **charge,
        "why": value.why,
    }


def _shown(value: object) -> str:
    if isinstance(value, Considered):
        figures = {
            "tells apart": value.tells_apart,
            "stddev": value.stddev,
            "half-width": value.half_width,
        }
        found = [f"{name} {figure(number)}" for name, number in figures.items() if number is not None]
        if value.charge.epsilon:
            found.append(f"epsilon {float(value.charge.epsilon):g}")
        if value.charge.delta:
            found.append(f"delta {float(value.charge.delta):g}")
        text = ", ".join(found)
        if value.why == "chosen":
            return f"{value.mechanism} (chosen): {text}"
        return f"{value.mechanism}: {text + '; ' if text else ''}not chosen: {value.why}"
    if isinstance(value, list):
        return "; ".join(value)
    if isinstance(value, tuple):
        return " to ".join(map(_shown, value))
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < _LARGE else f"{value:,.0f}"
    return str(value)


_LARGE = 10_000
"""From here on numbers are written whole, with separators of thousands."""


def _down(value: Fraction) -> str:
    """Write an amount that is left, rounded down."""
    return _decimal(value * 10**9 // 1)


def _up(value: Fraction) -> str:
    """Write an amount that is spent, rounded up."""
    return _decimal(-(-value * 10**9 // 1))


def _decimal(billionths: int) -> str:
    whole, rest = divmod(int(billionths), 10**9)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")


def empty() -> pa.Table:
    """Return a result without columns."""
    return pa.table({})


def show(statement: Show, policy: Policy, ledger: Ledger, analyst: str) -> pa.Table:
    """Return the result of SHOW."""
    if statement.what == "budget":
        budget = ledger.budget(analyst)
        most = policy.budget.max_epsilon_per_query
        cap = {"max_epsilon_per_query": None if most is None else str(most)}
        return _with_facts(_budget_table(budget, policy), "budget", {**budget.facts, **cap})
    if statement.what == "tables":
        tables = list(policy.tables.values())
        units = [_unit(policy, table) for table in tables]
        views = [view.name for view in policy.views.values()]
        return pa.table(
            {
                "table": [*(t.name for t in tables), *views],
                "unit": [*units, *("view" for _ in views)],
                "protects": pa.array(
                    [*(describe_protected(policy.tables, t) for t in tables), *(None for _ in views)],
                    pa.string(),
                ),
            }
        )
    found = ledger.releases(analyst)
    return pa.table(
        {
            "number": pa.array([r.number for r in found], pa.int64()),
            "when": pa.array([r.when.isoformat(" ", "seconds") for r in found], pa.string()),
            "selection": pa.array([r.selection for r in found], pa.string()),
            "epsilon": pa.array(
                [None if r.charge.epsilon is None else _up(r.charge.epsilon) for r in found], pa.string()
            ),
            "part": pa.array(
                [f"{r.place} of {r.places}" if r.places > 1 else None for r in found], pa.string()
            ),
            "statement": pa.array([r.statement for r in found], pa.string()),
        }
    )


def _unit(policy: Policy, table: Table) -> str:
    """Name the column of a table's unit: of a path, the one in its last table."""
    unit = (table, *path_of(policy.tables, table))[-1].unit
    if isinstance(unit, UnitColumn):
        return unit.column
    return "public" if unit is None else "ROW"


def _budget_table(budget: Budget, policy: Policy) -> pa.Table:
    rows: Sequence[tuple[str, ...]]
    if budget.accounting == "pure":
        amounts = (budget.total, budget.spent, budget.remaining)
        epsilons = [_down(amounts[0].epsilon), _up(amounts[1].epsilon), _down(amounts[2].epsilon)]
        rows = [("epsilon", *epsilons), ("delta", *(f"{float(each.delta):g}" for each in amounts))]
    else:
        rows = rows_of(budget, policy.budget.default_epsilon)
    names = ("scope", "total", "spent", "remaining")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def describe(statement: Describe, policy: Policy, catalog: Catalog) -> pa.Table:
    """Return the result of DESCRIBE: columns, types, and which columns have a public domain."""
    table = policy.table(statement.table) if statement.table.isascii() else None
    if table is None:
        raise statement.source.refuse(
            f"there is no table {statement.table[:60]}",
            statement.at,
            "SHOW TABLES lists them",
            unknown="table",
        )
    domains = {fold(name) for name in table.domain}
    columns = catalog.columns(table.name)
    return pa.table(
        {
            "column": [name for name, _ in columns],
            "type": [str(kind).split("(")[0] if kind.name == "ENUM" else str(kind) for _, kind in columns],
            "domain": [
                "public" if table.public else "declared" if fold(n) in domains else "" for n, _ in columns
            ],
        }
    )
