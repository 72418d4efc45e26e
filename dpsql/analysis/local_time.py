"""AT TIME ZONE: a moment in another zone, by a choice among the zone's offsets that every engine runs alike.

No engine's own function is called: each has another database of zones, and fails on a name that it does not
know. The changes of a zone are constants of a nested CASE, those of the column's declared range or else of
1970 to 2037; earlier and later times have the offsets of the ends. Each branch is a total function of the
row.
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from sqlglot import exp

from dpsql import zones
from dpsql.analysis.compiler import Rule, StatementCompiler
from dpsql.analysis.expressions import built
from dpsql.analysis.instants import database, in_zone, of_instant
from dpsql.analysis.relation import Scope
from dpsql.analysis.typed import GRAINS, Bounds, LocalTime, Span, Typed, seconds_of
from dpsql.kernel.tree import Binary, Case, Constant, Expr, Moved, Paren
from dpsql.policy import Assumed
from dpsql.types import TIMESTAMP, TIMESTAMPTZ, SqlType

_FIRST = int(datetime(1970, 1, 1, tzinfo=UTC).timestamp())
_LAST = int(datetime(2037, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())
_MOST_NOTED = 4
_EPOCH = datetime(1970, 1, 1)


def moved_by(value: Expr, steps: zones.Steps) -> Expr:
    """Return a moment moved by the offset at it."""
    return Paren(_chosen(value, steps, 0, len(steps.starts)))


def steps_of(sql_type: SqlType, zone: zones.Zone, span: Span | None) -> zones.Steps:
    """Return what moves a moment of a type: an instant to its local time in a zone, or such a time to UTC."""
    first, last = limits(span)
    if sql_type == TIMESTAMPTZ:
        return zone.of_instants(first, last)
    return zone.of_local_times(first - zones.DAY, last + zones.DAY).negative()


def limits(span: Span | None) -> tuple[int, int]:
    """Return the first and last second of the changes that are looked at."""
    if span is None:
        return _FIRST, _LAST
    return span.first // zones.SECOND, span.last // zones.SECOND


def _chosen(value: Expr, steps: zones.Steps, first: int, last: int) -> Expr:
    """Return the moment by the offsets `first` to `last`, which half of the changes decides at each step."""
    if first == last:
        offset = steps.offsets[first]
        return Moved(value, offset) if offset else value
    middle = (first + last) // 2
    change = Constant(_EPOCH + timedelta(seconds=steps.starts[middle]), TIMESTAMP)
    before = _chosen(value, steps, first, middle)
    return Case(((Binary("<", value, change), before),), _chosen(value, steps, middle + 1, last))


def note_of(zone: zones.Zone, span: Span | None) -> Assumed:
    """Return the note that a zone was looked up, and for which years."""
    first, last = (zones.shown(each)[:4] for each in limits(span))
    years = first if first == last else f"{first} to {last}"
    return Assumed(f"{zone.name}{database(zone.name)}, changes of {years}")


def _at_time_zone(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    return _in_zone(compiler, node, node.this, node.args["zone"], scope)


def timezone_call(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile TIMEZONE('Europe/Berlin', ts), which is another spelling."""
    if len(node.expressions) != 2:
        raise compiler.source.refuse("timezone takes a zone and a time", node, "ts AT TIME ZONE 'UTC'")
    return _in_zone(compiler, node, node.expressions[1], node.expressions[0], scope)


def _in_zone(
    compiler: StatementCompiler, node: exp.Expr, of: exp.Expr, named: exp.Expr, scope: Scope
) -> Typed:
    value, zone = compiler.expression(of, scope), _zone(compiler, named)
    if value.clock and value.type == TIMESTAMP:  # a time of UTC
        value = replace(value, type=TIMESTAMPTZ)
    if not value.type.moment:
        hint = "TIMESTAMP '2024-07-02 00:00:00' AT TIME ZONE 'UTC'"
        if value.type.name == "DATE":
            hint = f"CAST({_named(of)} AS TIMESTAMP) AT TIME ZONE '{zone.name}'"
        raise compiler.source.refuse(
            f"AT TIME ZONE is of a TIMESTAMP or TIMESTAMPTZ, this is {value.type}", node, hint
        )
    result = TIMESTAMP if value.type == TIMESTAMPTZ else TIMESTAMPTZ
    if not value.reads:
        of_constant = of_instant if value.type == TIMESTAMPTZ else in_zone
        found = of_constant(compiler.catalog, value, zone)
        if found is not None:
            return found
    base = value if value.zoned is None else value.zoned.of
    span = base.column_span()
    steps = steps_of(value.type, zone, span)
    if value.zoned is not None:
        steps = value.zoned.steps.then(steps)
    bounds = _moved(base.bounds, steps)
    found = built(moved_by(base.node, steps), result, value, bounds=bounds)
    notes = (*found.notes, note_of(zone, span)) if zone.name != "UTC" else found.notes
    return replace(found, notes=notes, zoned=_local(base, steps, zone, result), clock=False)


def _zone(compiler: StatementCompiler, node: exp.Expr) -> zones.Zone:
    if not isinstance(node, exp.Literal) or not node.args.get("is_string"):
        raise compiler.source.refuse(
            "the zone is a text: with a name that no zone has, a row would make the statement fail",
            node,
            "ts AT TIME ZONE 'Europe/Berlin'",
        )
    name = str(node.this)
    try:
        return zones.zone(name)
    except ValueError as problem:
        known = {each.lower(): each for each in zones.names()}
        close = difflib.get_close_matches(name.lower(), known, 1, 0.6)
        hint = f"did you mean {known[close[0]]}?" if close else "AT TIME ZONE 'Europe/Berlin', or 'UTC'"
        raise compiler.source.refuse(str(problem), node, hint) from None


def _named(node: exp.Expr) -> str:
    return node.name if isinstance(node, exp.Column) else "day"


def _moved(bounds: Bounds | None, steps: zones.Steps) -> Bounds | None:
    if bounds is None:
        return None
    moves = [Fraction(offset * zones.SECOND) for offset in steps.offsets]
    return replace(bounds, low=bounds.low + min(moves), high=bounds.high + max(moves))


def _local(of: Typed, steps: zones.Steps, zone: zones.Zone, result: SqlType) -> LocalTime:
    """Return what is known of a moment in a zone, with a note on days of other lengths."""
    grain = next(name for name in GRAINS if seconds_of(name) <= steps.unit)
    span = of.column_span()
    days = zone.longer_days(*limits(span)) if result == TIMESTAMP else []
    if not days:
        return LocalTime(of, steps, grain)
    listed = ", ".join(f"{day} has {minutes / 60:g} hours" for day, minutes in days[:_MOST_NOTED])
    if span is None or len(days) > _MOST_NOTED:
        listed = "days of a change have more or fewer than 24 hours"
    return LocalTime(of, steps, grain, Assumed(f"in {zone.name} {listed}"))


ZONE_RULES = (Rule(exp.AtTimeZone, _at_time_zone, frozenset({"this", "zone"})),)
