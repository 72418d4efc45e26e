"""Instants: constants become times of UTC when a statement is analysed, and what has no zone is refused.

A TIMESTAMP has no zone, so it means no instant. The engines' conversions between the two read it in the zone
of a session, and drop the offset of a text. Here a constant with an offset or a zone is converted at once,
one without is read in the policy's `time_zone`, and two columns are compared only where the statement says
how.
"""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from dpsql import zones
from dpsql.analysis.catalog import Catalog
from dpsql.analysis.typed import Literal, Typed
from dpsql.kernel.tree import Cast, Constant, literal_sql
from dpsql.language import Source
from dpsql.policy import Assumed
from dpsql.types import TIMESTAMP, TIMESTAMPTZ, VARCHAR, SqlType

_DATE = r"[+-]?\d{1,6}[-/\\ ]\d{1,2}[-/\\ ]\d{1,2}(?:\s*\(BC\))?"
_CLOCK = r"\d{1,2}:\d{1,2}(?::\d{1,2}(?:\.\d*)?)?"
_WORD = re.compile(r"\s*[+-]?(epoch|infinity|inf)\s*", re.IGNORECASE)
_NAIVE = re.compile(rf"\s*(?:{_DATE})?(?:(?:\s+|T)?{_CLOCK})?\s*", re.IGNORECASE)
_MOMENT = re.compile(
    rf"\s*(?P<naive>{_DATE}(?:(?:\s+|T)(?P<clock>{_CLOCK}))?)\s*(?P<zone>Z|[+-][\d:]+|[A-Z][\w/+-]*)?\s*",
    re.IGNORECASE,
)
_OFFSET = re.compile(r"([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")

OF_UTC = Assumed("days and hours of a TIMESTAMPTZ are those of UTC")
"""The note on a part of an instant."""


def has_zone(text: str) -> bool:
    """Return whether a text of a date or time may have an offset or a zone behind it.

    >>> has_zone("2024-07-02 10:00"), has_zone("2024-07-02 10:00+02"), has_zone("10:00:00Z")
    (False, True, True)
    """
    return _NAIVE.fullmatch(text) is None and _WORD.fullmatch(text) is None


def is_offset(text: str) -> bool:
    """Return whether a text of a time has an offset, not the name of a zone.

    >>> is_offset("2024-07-02 10:00+02"), is_offset("2024-07-02 10:00 Europe/Berlin")
    (True, False)
    """
    found = _MOMENT.fullmatch(text)
    zone = found["zone"] if found else None
    return zone is not None and (zone.upper() in ("Z", "UTC") or _OFFSET.fullmatch(zone) is not None)


def may_be_instant(value: Typed) -> bool:
    """Return whether a value of another type is a constant that can become an instant."""
    if value.text is not None and value.type == VARCHAR:
        return True
    return value.type.name in ("DATE", "TIMESTAMP") and not value.reads


def instant(catalog: Catalog, value: Typed) -> Typed | None:
    """Return a constant as an instant; None if it is none, or no constant."""
    if not may_be_instant(value):
        return None
    text = value.text if value.type == VARCHAR else None
    if text is None:
        local = _micros(catalog, value.sql)
        if local is None or value.clock:  # infinite, or a time of UTC
            return replace(value, node=Cast(value.node, TIMESTAMP, bounded=True), type=TIMESTAMPTZ)
        return _in_zone(catalog, local, catalog.time_zone, value.notes)
    if _WORD.fullmatch(text):
        return _constant(catalog, f"CAST({literal_sql(text)} AS TIMESTAMP)", ())
    found = _MOMENT.fullmatch(text)
    local = _micros(catalog, f"CAST({literal_sql(found['naive'])} AS TIMESTAMP)") if found else None
    if found is None or local is None:
        return None
    written = found["zone"]
    if written is None:
        return _in_zone(catalog, local, catalog.time_zone, ())
    if found["clock"] is None:
        return None
    if offset := _OFFSET.fullmatch(written):
        hours, minutes, seconds = (int(part or 0) for part in offset.groups()[1:])
        if hours > 15 or minutes > 59 or seconds > 59:
            return None
        moved = (hours * 3600 + minutes * 60 + seconds) * zones.SECOND
        return _made(catalog, local + moved if offset[1] == "-" else local - moved, ())
    try:
        zone = zones.zone("UTC" if written.upper() == "Z" else written)
    except ValueError:
        return None
    at, notes = _of_local(local, zone)
    return _made(catalog, at, (*_of_database(zone), *notes))


def _in_zone(catalog: Catalog, local: int, name: str, notes: tuple[Assumed, ...]) -> Typed | None:
    at, more = _of_local(local, zones.zone(name))
    where = "policy" if name != "UTC" else ""
    read = Assumed(f"times without an offset are read in {name}{database(name)}", where=where)
    return _made(catalog, at, (*notes, read, *more))


def database(name: str) -> str:
    """Name the database of time zones behind the name of a zone that has rules.

    >>> database("UTC")
    ''
    """
    return "" if name == "UTC" else f" of {zones.DATABASE} {zones.version()}"


def _of_local(local: int, zone: zones.Zone) -> tuple[int, tuple[Assumed, ...]]:
    """Return the instant of a local time, in microseconds, with a note if there are two or none."""
    seconds, rest = divmod(local, zones.SECOND)
    found, taken = zone.instants(seconds), zone.instant(seconds)
    notes: tuple[Assumed, ...] = ()
    if len(found) != 1:
        shown = zones.shown(seconds)
        times = " or ".join(f"{zones.shown(each)}+00" for each in found)
        what = f"is {times}: the later is taken" if found else f"is skipped: {zones.shown(taken)}+00 is taken"
        notes = (Assumed(f"{shown} in {zone.name} {what}"),)
    return taken * zones.SECOND + rest, notes


def in_zone(catalog: Catalog, value: Typed, zone: zones.Zone) -> Typed | None:
    """Return a constant time of a zone as an instant; None if it is no time that the engine has."""
    local = _micros(catalog, value.sql)
    if local is None:
        return replace(value, type=TIMESTAMPTZ)  # infinite
    at, notes = _of_local(local, zone)
    return _made(catalog, at, (*value.notes, *_of_database(zone), *notes))


def of_instant(catalog: Catalog, value: Typed, zone: zones.Zone) -> Typed | None:
    """Return the time of a constant instant in a zone; None if it is no time that the engine has."""
    at = _micros(catalog, value.sql)
    if at is None:
        return replace(value, type=TIMESTAMP)
    local = at + zone.offset(at // zones.SECOND) * zones.SECOND
    found = _made(catalog, local, (*value.notes, *_of_database(zone)))
    return None if found is None else replace(found, type=TIMESTAMP)


def _of_database(zone: zones.Zone) -> tuple[Assumed, ...]:
    return () if zone.name == "UTC" else (Assumed(f"{zone.name}{database(zone.name)}"),)


def _micros(catalog: Catalog, sql: str) -> int | None:
    """Return a constant in microseconds since 1970; None if it is infinite or no time."""
    try:
        found = catalog.evaluate(f"epoch_us(CAST({sql} AS TIMESTAMP))")  # NULL for an infinite one
    except ValueError:
        return None
    return found if isinstance(found, int) else None


def _made(catalog: Catalog, at: int, notes: tuple[Assumed, ...]) -> Typed | None:
    return _constant(catalog, f"make_timestamp({at})", notes)


def _constant(catalog: Catalog, sql: str, notes: tuple[Assumed, ...]) -> Typed | None:
    try:
        text = catalog.evaluate(f"CAST({sql} AS VARCHAR)")
    except ValueError:  # beyond the engine's times
        return None
    node = Cast(Constant(text, VARCHAR), TIMESTAMP, bounded=True)
    return Typed(node, TIMESTAMPTZ, literal=Literal(("TIMESTAMPTZ", text)), notes=notes)


def not_valid(source: Source, text: str, sql_type: SqlType, at: exp.Expr) -> Exception:
    """Return the refusal of a text that is no value of a type; of one with an offset, for that reason."""
    if sql_type != TIMESTAMPTZ and has_zone(text) and _MOMENT.fullmatch(text):
        beside = [at, at.parent] if isinstance(at.parent, exp.Predicate) else [at]
        named = next((n for node in beside for n in _names(node) if n != "x"), "ts")
        zoned = f", or say in which zone the column is: {named} AT TIME ZONE 'UTC'"
        return source.refuse(
            f"this text has an offset or a zone, and a {sql_type} has none",
            at,
            "leave the offset out" + (zoned if sql_type.moment else ""),
        )
    hint = "write it as '2024-07-02 00:00:00+02:00'" if sql_type == TIMESTAMPTZ else None
    return source.refuse(
        f"this text is not a valid {sql_type}", at, hint or f"write the text as a {sql_type}"
    )


def _names(at: exp.Expr) -> list[str]:
    """Return both sides of a comparison as a hint names them: a column by its name, anything else as `x`."""
    sides = (at.args.get("this"), at.args.get("expression"))
    return [side.sql("duckdb") if isinstance(side, exp.Column) else "x" for side in sides]


def mixed(source: Source, left: Typed, right: Typed, at: exp.Expr) -> Exception:
    """Return the refusal of a comparison of an instant with a date or time that has no zone."""
    first = left.type == TIMESTAMPTZ
    other = right.type if first else left.type
    names = _names(at)
    zoned, naive = names if first else names[::-1]
    if other.name == "DATE":
        naive = f"CAST({naive} AS TIMESTAMP)"
    return source.refuse(
        f"a {other} has no zone, and a TIMESTAMPTZ is an instant",
        at,
        f"{naive} AT TIME ZONE 'UTC', if the {other} is of that zone; or {zoned} AT TIME ZONE 'UTC', the "
        "time in it",
    )


def needs_zone(source: Source, given: SqlType, at: exp.Expr) -> Exception:
    """Return the refusal of a conversion, at `at`, between an instant and a time without a zone."""
    if given.name in ("TIMESTAMP", "TIMESTAMPTZ", "DATE", "VARCHAR"):
        name = at.this.sql("duckdb") if isinstance(at.this, exp.Column) else "x"
        naive = name if given.moment else f"CAST({name} AS TIMESTAMP)"
        return source.refuse(
            "a conversion between TIMESTAMPTZ and a time without a zone says the zone",
            at,
            f"{naive} AT TIME ZONE 'UTC'",
        )
    return source.refuse(f"{given} is not cast to TIMESTAMPTZ", at)
