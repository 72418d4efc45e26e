"""EXPLAIN: how a statement is read, what it promises and costs, from public figures alone.

The facts are gathered once, by `_facts_of_release` and what it calls. They are shown as rows of texts, or as
JSON, which pages and tools are answered with; exact amounts stand in the metadata of either table.
"""

from __future__ import annotations

import json as json_text
from collections.abc import Iterator
from dataclasses import asdict

import pyarrow as pa

from dpsql.analysis import Plan
from dpsql.composition.prepared import TAKEN, PreparedComposed, PreparedPrivate, PreparedPublic
from dpsql.composition.release_words import (
    DescribedNumber,
    add_exact_facts,
    describe_numbers,
    guarantee,
    layout_facts,
    number_texts,
    round_down,
    total_guarantee,
    total_loss,
    words_of_selection,
)
from dpsql.errors import with_article
from dpsql.estimates import figure
from dpsql.kernel.check import Certificate, Change, Together
from dpsql.kernel.loss import Charge
from dpsql.kernel.unit_parts import Calendar
from dpsql.language import Query
from dpsql.ledger import Budget
from dpsql.planning import (
    AtDistance,
    Considered,
    describe_bounds_to_find,
    left_out_sentences,
    quote_candidates,
)
from dpsql.policy import UnitPeriods
from dpsql.release import COMPUTED, Release, add_renewals, places_of


def _facts_left_out(plan: Plan) -> dict[str, object]:
    """Return EXPLAIN's facts on what bounds leave out and on what intervals take for granted."""
    found = left_out_sentences(plan)
    assumes = found.pop("assumes", None)
    cut = plan.options.cut if any(plan.left_out) or plan.ladders else None
    said = [*found.values(), *describe_bounds_to_find(plan), *plan.nobodys]
    return {"left_out": said or None, "assumes": assumes, "cut": cut}


def explain(
    prepared: PreparedPrivate | PreparedComposed | PreparedPublic, budget: Budget, *, json: bool
) -> pa.Table:
    """Return the plan and price of a statement as a table. Reads nothing private."""
    left = {"budget_left": round_down(budget.remaining.epsilon)}
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
            found = {**_views_of(prepared.query), **_facts_of_release(prepared, left, budget)}
        case PreparedComposed():
            found = {**_views_of(prepared.query), **_facts_of_composed(prepared, left, budget)}
    if budget.renewal is not None and prepared.private:
        found["guarantee"] = add_renewals(str(found["guarantee"]), budget.renewal.words)
    price = {"private": prepared.private, **prepared.price.fractions, "full": prepared.full_price.fractions}
    if budget.by_parts:
        price["left"] = budget.remaining.fractions
    if json:
        text = json_text.dumps(_with_plain_amounts(found), default=_json_fields)
        return add_exact_facts(pa.table({"explain": pa.array([text], pa.string())}), "price", price)
    shown = _text_lines(found)
    table = pa.table(
        {
            "property": pa.array([name for name, _ in shown], pa.string()),
            "value": pa.array([value for _, value in shown], pa.string()),
        }
    )
    return add_exact_facts(table, "price", price)


def _views_of(query: Query) -> dict[str, object]:
    """Return the views of the policy that a statement reads."""
    return {"views": ", ".join(query.views)} if query.views else {}


def _facts_of_release(
    prepared: PreparedPrivate, left: dict[str, str], budget: Budget | None = None
) -> dict[str, object]:
    """Return what EXPLAIN shows of one release; `left` stands before its SQL."""
    plan, quote = prepared.plan, prepared.method.quote
    if prepared.added is not None:
        return {**_facts_of_added(prepared, prepared.added), **left}
    note = prepared.note.replace(TAKEN, "the day that is found")
    return {
        "selection": words_of_selection(plan),
        "why": plan.selection.spelling,
        "mechanism": quote.mechanism,
        "unit": plan.unit,
        **_parts_of(prepared),
        "guarantee": guarantee(plan, quote.loss),
        **_write_amounts(quote.charge),
        **layout_facts(plan, quote.loss, budget),
        "error": None if plan.options.error is None else float(plan.options.error),
        "split": quote.split,
        "noise_scale": None if plan.ladders else quote.scale,
        "predicted_stddev": quote.predicted_stddev,
        **quote.outlook,
        "half_width": quote.half_width,
        "tells_apart": quote.tells_apart,
        "numbers": describe_numbers(plan, quote) or None,
        "domain": plan.domain,
        "domain_size": plan.candidates,
        "null_group": plan.null_group or None,
        "outside": "one more number of this release" if plan.outside else None,
        **_facts_left_out(plan),
        "considered": None if prepared.others else quote_candidates(plan),
        "assumed": [*dict.fromkeys(str(fact) for each in prepared.counts for fact in each.plan.assumed)]
        or None,
        "warnings": [*filter(None, (note, prepared.of_intervals)), *quote.notes] or None,
        **left,
        "compiled_sql": [each.sql for each in prepared.counts] if prepared.others else prepared.counting.sql,
    }


def _facts_of_added(prepared: PreparedPrivate, release: Release) -> dict[str, object]:
    """Return what EXPLAIN shows of what is added up from releases, beside the error of a new one."""
    plan = prepared.plan
    columns = (release.table.column(number.stddev) for number in places_of(release).numbers if number.stddev)
    deviations = [value for column in columns for value in column.to_pylist()]
    return {
        "selection": words_of_selection(plan),
        "why": release.properties[COMPUTED],
        "mechanism": release.mechanism,
        "unit": plan.unit,
        "guarantee": release.guarantee,
        **_write_amounts(prepared.price),
        "stddev": max(deviations, default=None),
        "stddev_if_measured": prepared.method.quote.predicted_stddev,
        "domain": plan.domain,
        "domain_size": plan.candidates,
        "assumed": [str(each) for each in plan.assumed] or None,
    }


def _parts_of(prepared: PreparedPrivate) -> dict[str, object]:
    """Say which parts of units a release is charged to, if a kind of unit has parts."""
    declared = prepared.counting.policy.unit_parts
    if declared is None:
        return {}
    parts, date = prepared.unit_parts, f"{declared.table}.{declared.column}"
    if parts is not None:
        home = prepared.counting.engines.facts.home
        numbering = Calendar(declared.period) if declared.every or home is None else home.numbering
        words = f"{numbering.words(parts)} ({declared.every or 'value'} of {date})"
    elif prepared.plan.owner.kind != declared.kind:
        words = f"all: the {declared.nouns} are of {with_article(declared.kind)}"
    elif isinstance(declared, UnitPeriods):
        tables = " or ".join(name for name, _ in declared.columns)
        words = f"all: nothing says which {declared.nouns} are read; read {tables} and compare the date"
    else:
        words = f"all: nothing says which {declared.nouns} are read; join {declared.table} and compare {date}"
    return {"parts": words}


def _facts_of_composed(prepared: PreparedComposed, left: dict[str, str], budget: Budget) -> dict[str, object]:
    """Return what EXPLAIN shows of a statement with an outer query: the total, and each release."""
    decided = [each.words(prepared.parts[each.release].plan) for each in prepared.existence]
    decided = [
        text
        for text in dict.fromkeys([*(v.note for v in prepared.values), *prepared.notes, *decided])
        if text
    ]
    if len(prepared.parts) == 1:
        found = {**_facts_of_release(prepared.parts[0], left, budget), "outer_sql": prepared.outer}
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
        read = sorted({r + 1 for value in part.values for r in prepared.values[value].releases})
        several = "release" if len(read) == 1 else "releases"
        reads = f"{several} {', '.join(map(str, read))} as a constant" if read else None
        own = {"relation": called, "asked_before": asked, **({"reads": reads} if reads else {})}
        releases.append({**own, **_facts_of_release(part, {})})
    return {
        "selection": f"{len(releases)} releases",
        "why": "one query over their rows",
        "unit": ", ".join(dict.fromkeys(part.plan.unit for part in prepared.parts)),
        "guarantee": total_guarantee(prepared),
        **_write_amounts(prepared.price),
        **layout_facts(prepared.parts[0].plan, total_loss(prepared), budget),
        "warnings": decided or None,
        **left,
        "releases": releases,
        "outer_sql": prepared.outer,
    }


def _write_amounts(charge: Charge) -> dict[str, object]:
    return {"epsilon": f"{float(charge.epsilon):g}", "delta": f"{float(charge.delta):g}"}


def _with_plain_amounts(found: dict[str, object]) -> dict[str, object]:
    """Return what EXPLAIN shows with its amounts as numbers, for JSON."""
    return {
        name: float(str(value))
        if name in ("epsilon", "delta", "budget_left")
        else [_with_plain_amounts(each) for each in value]
        if name == "releases" and isinstance(value, list)
        else value
        for name, value in found.items()
    }


_OF_ALL = ("unit", "guarantee")
"""What EXPLAIN shows once for all releases of a statement."""


def _text_lines(found: dict[str, object]) -> list[tuple[str, str]]:
    """Return EXPLAIN's facts as pairs of texts; the facts of the i-th release begin with `i.`."""
    shown: list[tuple[str, str]] = []
    for name, value in found.items():
        if name == "releases" and isinstance(value, list):
            for i, each in enumerate(value, 1):
                own = {inner: fact for inner, fact in each.items() if inner not in _OF_ALL}
                shown += [(f"{i}. {inner}", text) for inner, text in _text_lines(own)]
        elif name == "considered" and isinstance(value, list):
            shown += [(f"considered {i}", _write_value(each)) for i, each in enumerate(value, 1)]
        elif name == "numbers" and isinstance(value, list):
            shown += [(f"number {i}", text) for i, text in enumerate(number_texts(value), 1)]
        elif value is not None:
            shown.append((name, _write_value(value)))
    return shown


def _json_fields(value: object) -> dict[str, object]:
    """Return a considered mechanism, a number, or predictions at a distance, for JSON."""
    if isinstance(value, AtDistance):
        return asdict(value)
    if isinstance(value, DescribedNumber):
        return {name: fact for name, fact in asdict(value).items() if fact not in (None, "", ())}
    assert isinstance(value, Considered)  # noqa: S101  everything else is plain
    charge = {"epsilon": float(value.charge.epsilon), "delta": float(value.charge.delta)}
    return {n: getattr(value, n) for n in ("mechanism", "tells_apart", "stddev", "half_width")} | {
        **charge,
        "why": value.why,
    }


def _write_value(value: object) -> str:
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
        return " to ".join(map(_write_value, value))
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < _LARGE else f"{value:,.0f}"
    return str(value)


_LARGE = 10_000
"""From here on numbers are written whole, with separators of thousands."""

COLUMNS = ("query", "rule", "concludes", "place")
"""The columns of EXPLAIN (FORMAT CERTIFICATE), all VARCHAR: one row for each step of a proof, in order."""


def certificate_table(prepared: PreparedPrivate | PreparedComposed | PreparedPublic) -> pa.Table:
    """Return the proofs of all counting queries of a statement, rule by rule, and what they conclude."""
    rows = [
        (name, rule, concludes, place)
        for name, certificate in _queries(prepared)
        for rule, concludes, place in _steps(certificate)
    ]
    return pa.table({name: [row[at] for row in rows] for at, name in enumerate(COLUMNS)}, _SCHEMA)


_SCHEMA = pa.schema((name, pa.string()) for name in COLUMNS)


def _queries(
    prepared: PreparedPrivate | PreparedComposed | PreparedPublic,
) -> Iterator[tuple[str, Certificate]]:
    """Yield the names of the counting queries of a statement, and their certificates."""
    parts = () if isinstance(prepared, PreparedPublic) else prepared.parts
    for place, part in enumerate(parts):
        release = f"release {place + 1}" if len(parts) > 1 else "counts"
        for search, ladder in enumerate(part.plan.ladders):
            name = "search of a bound" if len(part.plan.ladders) == 1 else f"search of bound {search + 1}"
            yield (f"{release}: {name}" if len(parts) > 1 else name), ladder.compiled.certificate
        for select, each in enumerate(part.counts, 1):
            yield f"SELECT {select}" if part.others else release, each.plan.compiled.certificate


def _steps(certificate: Certificate) -> Iterator[tuple[str, str, str]]:
    """Yield the steps of a proof, then what is concluded of each number."""
    for step in certificate.derivation:
        yield step.rule, step.concludes, step.path or "query"
    for change in certificate.numbers:
        yield "conclusion", _number(change, certificate), change.column
    for found in certificate.together:
        yield "conclusion", *_together(found, certificate)


def _together(found: Together, certificate: Certificate) -> tuple[str, str]:
    """Say how far one unit changes several numbers, and which."""
    names = ", ".join(change.column for change in certificate.numbers if change.column in found.columns)
    where = "" if certificate.most_groups == 1 or not certificate.columns else " in each group"
    text = f"one unit changes {names} by at most {found.each:,} together{where}"
    if found.total is not None and where:
        text += f", by at most {found.total:,} in all groups"
    return text, names


def _number(change: Change, certificate: Certificate) -> str:
    """Say for EXPLAIN how far one unit changes a number."""
    where = "" if certificate.most_groups == 1 or not certificate.columns else " in each group"
    text = f"one unit changes {change.column} by {change.low:,} to {change.high:,}{where}"
    if change.total is not None and where:
        text += f", by at most {change.total:,} in all groups together"
    return text
