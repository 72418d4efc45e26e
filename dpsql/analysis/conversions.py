"""Type conversions, each written out, so that the engine never converts implicitly; instants of UTC.

A TIMESTAMP has no zone, so it means no instant. The engines' conversions between the two read it in the zone
of a session, and drop the offset of a text. Here a constant with an offset or a zone is converted at once,
one without is read in the policy's `time_zone`, and two columns are compared only as the statement says.

An implicit conversion raises an error on the first value that does not fit, and the engine's message quotes
that value. dpsql adds a conversion itself only if it cannot fail; for any other, the analyst writes a CAST.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

from sqlglot import exp

from dpsql.analysis.facts_of_values import bounds_of_cast
from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.total_forms import widen_integer
from dpsql.analysis.type_rules import common_type
from dpsql.analysis.typed_expression import Literal, Typed, read_truth
from dpsql.errors import with_article
from dpsql.kernel.tree import (
    OPAQUE,
    Apply,
    Cast,
    Constant,
    Form,
    IsNull,
    duckdb_sql,
    listed_forms,
    literal_sql,
)
from dpsql.language import StatementText, copy_tree
from dpsql.lazy_pattern import lazy_pattern
from dpsql.policy import Assumed, zones
from dpsql.types import BIGINT, DOUBLE, HUGEINT, TIMESTAMP, TIMESTAMPTZ, VARCHAR, SqlType

_DATE = r"[+-]?\d{1,6}[-/\\ ]\d{1,2}[-/\\ ]\d{1,2}(?:\s*\(BC\))?"
_CLOCK = r"\d{1,2}:\d{1,2}(?::\d{1,2}(?:\.\d*)?)?"
_WORD = lazy_pattern(r"\s*[+-]?(epoch|infinity|inf)\s*", re.IGNORECASE)
_NAIVE = lazy_pattern(rf"\s*(?:{_DATE})?(?:(?:\s+|T)?{_CLOCK})?\s*", re.IGNORECASE)
_SHORT = lazy_pattern(r"\s*\d{1,3}([-/ \\]\d\d?){2}(?!\d)")
"""A day whose year has too few digits: '5/1/13' is one of the year 5, and meant as another."""
_MOMENT = (
    rf"(?i:\s*(?P<naive>{_DATE}(?:(?:\s+|T)(?P<clock>{_CLOCK}))?)\s*(?P<zone>Z|[+-][\d:]+|[A-Z][\w/+-]*)?\s*)"
)
"""It is compiled when a text is first read."""
_OFFSET = lazy_pattern(r"([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")

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
    found = re.fullmatch(_MOMENT, text)
    zone = found["zone"] if found else None
    return zone is not None and (zone.upper() in ("Z", "UTC") or _OFFSET.fullmatch(zone) is not None)


def may_be_instant(value: Typed) -> bool:
    """Return whether a value of another type is a constant that can become an instant."""
    if value.text is not None and value.type == VARCHAR:
        return True
    return value.type.name in ("DATE", "TIMESTAMP") and not value.reads


def convert_to_instant(catalog: Catalog, value: Typed) -> Typed | None:
    """Return a constant as an instant; None if it is none, or no constant."""
    if not may_be_instant(value):
        return None
    text = value.text if value.type == VARCHAR else None
    if text is None:
        local = _read_microseconds(catalog, value.sql)
        if local is None or value.clock:  # infinite, or a time of UTC
            return replace(value, node=Cast(value.node, TIMESTAMP, bounded=True), type=TIMESTAMPTZ)
        return _read_in_zone(catalog, local, catalog.time_zone, value.notes)
    if _WORD.fullmatch(text):
        return _evaluate_constant(catalog, f"CAST({literal_sql(text)} AS TIMESTAMP)", ())
    found = re.fullmatch(_MOMENT, text)
    local = (
        _read_microseconds(catalog, f"CAST({literal_sql(found['naive'])} AS TIMESTAMP)") if found else None
    )
    if found is None or local is None:
        return None
    written = found["zone"]
    if written is None:
        return _read_in_zone(catalog, local, catalog.time_zone, ())
    if found["clock"] is None:
        return None
    if offset := _OFFSET.fullmatch(written):
        hours, minutes, seconds = (int(part or 0) for part in offset.groups()[1:])
        if hours > 15 or minutes > 59 or seconds > 59:
            return None
        moved = (hours * 3600 + minutes * 60 + seconds) * zones.SECOND
        return _make_constant(catalog, local + moved if offset[1] == "-" else local - moved, ())
    try:
        zone = zones.zone("UTC" if written.upper() == "Z" else written)
    except ValueError:
        return None
    at, notes = _find_instant(local, zone)
    return _make_constant(catalog, at, (*_note_database(zone), *notes))


def _read_in_zone(catalog: Catalog, local: int, name: str, notes: tuple[Assumed, ...]) -> Typed | None:
    at, more = _find_instant(local, zones.zone(name))
    where = "policy" if name != "UTC" else ""
    read = Assumed(f"times without an offset are read in {name}{name_database(name)}", where=where)
    return _make_constant(catalog, at, (*notes, read, *more))


def name_database(name: str) -> str:
    """Return words that name the time zone database and its version, to stand behind a zone's name.

    >>> name_database("UTC")
    ''
    """
    return "" if name == "UTC" else f" of {zones.DATABASE} {zones.version()}"


def _find_instant(local: int, zone: zones.Zone) -> tuple[int, tuple[Assumed, ...]]:
    """Return the instant of a local time, in microseconds, with a note if there are two or none."""
    seconds, rest = divmod(local, zones.SECOND)
    found, taken = zone.instants(seconds), zone.instant(seconds)
    notes: tuple[Assumed, ...] = ()
    if len(found) != 1:
        shown = zones.show_time(seconds)
        times = " or ".join(f"{zones.show_time(each)}+00" for each in found)
        what = (
            f"is {times}: the later is taken"
            if found
            else f"is skipped: {zones.show_time(taken)}+00 is taken"
        )
        notes = (Assumed(f"{shown} in {zone.name} {what}"),)
    return taken * zones.SECOND + rest, notes


def read_in_zone(catalog: Catalog, value: Typed, zone: zones.Zone) -> Typed | None:
    """Return a constant time of a zone as an instant; None if it is no time that the engine has."""
    local = _read_microseconds(catalog, value.sql)
    if local is None:
        return replace(value, type=TIMESTAMPTZ)  # infinite
    at, notes = _find_instant(local, zone)
    return _make_constant(catalog, at, (*value.notes, *_note_database(zone), *notes))


def show_in_zone(catalog: Catalog, value: Typed, zone: zones.Zone) -> Typed | None:
    """Return the time of a constant instant in a zone; None if it is no time that the engine has."""
    at = _read_microseconds(catalog, value.sql)
    if at is None:
        return replace(value, type=TIMESTAMP)
    local = at + zone.offset(at // zones.SECOND) * zones.SECOND
    found = _make_constant(catalog, local, (*value.notes, *_note_database(zone)))
    return None if found is None else replace(found, type=TIMESTAMP)


def _note_database(zone: zones.Zone) -> tuple[Assumed, ...]:
    return () if zone.name == "UTC" else (Assumed(f"{zone.name}{name_database(zone.name)}"),)


def _read_microseconds(catalog: Catalog, sql: str) -> int | None:
    """Return a constant in microseconds since 1970; None if it is infinite or no time."""
    try:
        found = catalog.evaluate(f"epoch_us(CAST({sql} AS TIMESTAMP))")  # NULL for an infinite one
    except ValueError:
        return None
    return found if isinstance(found, int) else None


def _make_constant(catalog: Catalog, at: int, notes: tuple[Assumed, ...]) -> Typed | None:
    return _evaluate_constant(catalog, f"make_timestamp({at})", notes)


def _evaluate_constant(catalog: Catalog, sql: str, notes: tuple[Assumed, ...]) -> Typed | None:
    try:
        text = catalog.evaluate(f"CAST({sql} AS VARCHAR)")
    except ValueError:  # beyond the engine's times
        return None
    node = Cast(Constant(text, VARCHAR), TIMESTAMP, bounded=True)
    return Typed(node, TIMESTAMPTZ, literal=Literal(("TIMESTAMPTZ", text)), notes=notes)


def refuse_text(source: StatementText, text: str, sql_type: SqlType, at: exp.Expr) -> Exception:
    """Return the refusal of a text that is no value of a type; of one with an offset, for that reason."""
    if sql_type != TIMESTAMPTZ and has_zone(text) and re.fullmatch(_MOMENT, text):
        beside = [at, at.parent] if isinstance(at.parent, exp.Predicate) else [at]
        named = next((n for node in beside for n in _name_sides(node) if n != "x"), "ts")
        zoned = f", or say in which zone the column is: {named} AT TIME ZONE 'UTC'"
        return source.refuse(
            f"this text has an offset or a zone, and {with_article(str(sql_type))} has none",
            at,
            "leave the offset out" + (zoned if sql_type.moment else ""),
        )
    hint = "write it as '2024-07-02 00:00:00+02:00'" if sql_type == TIMESTAMPTZ else None
    hint = "write it as year, month, day: '2024-07-02'" if sql_type.name == "DATE" else hint
    what = f"this text is not a valid {sql_type}" + ": its year has too few digits" * bool(_SHORT.match(text))
    return source.refuse(what, at, hint or f"write the text as {with_article(str(sql_type))}")


def _name_sides(at: exp.Expr) -> list[str]:
    """Return both sides of a comparison as a hint names them: a column by its name, anything else as `x`."""
    sides = (at.args.get("this"), at.args.get("expression"))
    return [side.sql("duckdb") if isinstance(side, exp.Column) else "x" for side in sides]


def refuse_mixed(source: StatementText, left: Typed, right: Typed, at: exp.Expr) -> Exception:
    """Return the refusal of a comparison of an instant with a date or time that has no zone."""
    first = left.type == TIMESTAMPTZ
    other = right.type if first else left.type
    names = _name_sides(at)
    zoned, naive = names if first else names[::-1]
    if other.name == "DATE":
        naive = f"CAST({naive} AS TIMESTAMP)"
    return source.refuse(
        f"{with_article(str(other))} has no zone, and a TIMESTAMPTZ is an instant",
        at,
        f"{naive} AT TIME ZONE 'UTC', if the {other} is of that zone; or {zoned} AT TIME ZONE 'UTC', the "
        "time in it",
    )


def refuse_without_zone(source: StatementText, given: SqlType, at: exp.Expr) -> Exception:
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


_FROM_TEXT = frozenset({"DATE", "TIMESTAMP", "TIME", "UUID", "ENUM", "DOUBLE", "DECIMAL", "BOOLEAN"})


def cast(value: Typed, sql_type: SqlType, *, lossless: bool = False) -> Typed:
    """Convert an expression: by CAST if that cannot fail, else by TRY_CAST (NULL where it does not fit).

    What is computed in 128 bits is converted as it is, not as the BIGINT to which it would be cut.
    """
    bounds = bounds_of_cast(value, sql_type)
    value = value if sql_type == value.type else widen_integer(value)
    if value.decimal and sql_type.integer:  # a DECIMAL is rounded away from zero, a DOUBLE to an even number
        value = replace(value, node=Apply(_round_double(), (value.node,)))
    bounded = lossless or _only_bounds(value, sql_type)
    node = Cast(value.node, sql_type.held, safe=not lossless, bounded=bounded)
    return Typed(
        node,
        sql_type,
        link=value.link,
        fact=value.fact,
        borrowed=value.borrowed,
        grains=value.grains,
        bounds=bounds,
        clock=value.clock,
        notes=value.notes,
    )


@cache
def _round_double() -> Form:
    return next(form for form in listed_forms()["round"] if form.arguments == ("DOUBLE",))


def _only_bounds(value: Typed, sql_type: SqlType) -> bool:
    """Return whether TRY_CAST needs no TRY around it; TRY would hide a comparison from the optimizer."""
    # A literal is converted once, before any row is read; TRY cannot contain a subquery.
    once = value.literal is not None or OPAQUE in value.reads
    whole = (value.type.integer or value.type == HUGEINT) and (sql_type.integer or sql_type == HUGEINT)
    return once or whole or (value.type.name == "DATE" and sql_type == TIMESTAMP)


def convert_implicitly(catalog: Catalog, value: Typed, sql_type: SqlType) -> Typed | None:
    """Convert an expression implicitly; None if that could lose information or fail."""
    if value.type == sql_type:
        return value
    if value.type.name == "NULL":
        return cast(value, sql_type)
    if (sql_type.moment or sql_type.name == "DATE") and _SHORT.match(value.text or ""):
        return None
    if sql_type == TIMESTAMPTZ:
        return convert_to_instant(catalog, value)
    if value.text is not None:
        return _convert_text(catalog, value, sql_type)
    if sql_type.integer and value.type.integer:
        fits = sql_type.bits > value.type.bits or (
            sql_type.bits == value.type.bits and sql_type.signed == value.type.signed
        )
        if value.type.signed and not sql_type.signed:
            fits = False
        return cast(value, sql_type, lossless=fits)
    if sql_type == HUGEINT and value.type.integer:
        return cast(value, sql_type, lossless=True)
    if sql_type == DOUBLE and (value.type.integer or value.type.name == "DECIMAL"):
        return cast(value, sql_type, lossless=True)
    if sql_type == TIMESTAMP and value.type.name == "DATE":
        return cast(value, sql_type)
    return cast(value, sql_type, lossless=True) if (value.type.name, sql_type) == ("ENUM", VARCHAR) else None


def _widen_to_hugeint(value: Typed) -> Typed:
    return value if value.type == HUGEINT else cast(value, HUGEINT, lossless=True)


def _convert_text(catalog: Catalog, value: Typed, sql_type: SqlType) -> Typed | None:
    if sql_type.name not in _FROM_TEXT and not sql_type.integer:
        return None
    if sql_type.name in ("DATE", "TIMESTAMP", "TIME") and has_zone(value.text or ""):
        return None
    converted = cast(value, sql_type)
    try:
        if catalog.evaluate(duckdb_sql(IsNull(converted.node))):
            return None
    except ValueError:
        return None
    return converted


def unify(
    source: StatementText, catalog: Catalog, left: Typed, right: Typed, at: exp.Expr, *, compare: bool = True
) -> tuple[Typed, Typed]:
    """Convert two expressions to one type, for a comparison or (`compare=False`) for one result column."""
    if compare and left.type.integer and right.type.integer:
        full = widen_integer(left), widen_integer(right)
        if any(value.type == HUGEINT for value in full):
            return _widen_to_hugeint(full[0]), _widen_to_hugeint(full[1])
    left, right = (read_truth(left, right.type), read_truth(right, left.type)) if compare else (left, right)
    if left.type == right.type:
        return left, right
    sql_type = _common_type(left, right, compare=compare)
    if sql_type is None:
        if compare and left.type.numeric and right.type.numeric:
            return (
                left,
                right,
            )  # DECIMAL against an integer or DECIMAL: lossless, and the binder's check proves it
        raise _refuse_mismatch(source, left, right, at)
    a, b = convert_to_type(catalog, left, sql_type), convert_to_type(catalog, right, sql_type)
    if a is None or b is None:
        raise _refuse_mismatch(source, left, right, at)
    return a, b


def convert_to_type(catalog: Catalog, value: Typed, sql_type: SqlType) -> Typed | None:
    """Convert one of several expressions to the type of them all; None if that could lose something."""
    exact = value.type.integer or value.type.name == "DECIMAL"
    if sql_type.name == "DECIMAL" and exact and value.type != sql_type:
        return cast(value, sql_type, lossless=value.digits is None)
    return convert_implicitly(catalog, value, sql_type)


def common_decimal(left: Typed, right: Typed) -> SqlType:
    """Return the DECIMAL that is SQL's type of one of two numbers; DOUBLE if 18 digits do not hold it."""
    kinds = [
        SqlType("DECIMAL", v.digits, 0) if v.type.integer and v.digits else v.type for v in (left, right)
    ]
    found = common_type(kinds)
    return found if found is not None and found.name == "DECIMAL" and found.precision <= 18 else DOUBLE


def _common_type(left: Typed, right: Typed, *, compare: bool) -> SqlType | None:
    a, b = left.type, right.type
    if a.name == "NULL" or b.name == "NULL":
        return b if a.name == "NULL" else a
    texts = [t for t in (left, right) if t.text is not None]
    if len(texts) == 1:
        return b if texts[0] is left else a
    if a.integer and b.integer:
        return _common_integer(a, b, compare=compare)
    if a.numeric and b.numeric:
        if DOUBLE in (a, b):
            return DOUBLE
        return None if compare else common_decimal(left, right)
    if TIMESTAMPTZ in (a, b):
        other = right if a == TIMESTAMPTZ else left
        return TIMESTAMPTZ if (a == b or may_be_instant(other)) else None
    names = {a.name, b.name}
    if names == {"DATE", "TIMESTAMP"}:
        return TIMESTAMP
    if names <= {"ENUM", "VARCHAR"}:
        return VARCHAR
    return None


def _common_integer(a: SqlType, b: SqlType, *, compare: bool) -> SqlType:
    if a.signed == b.signed:
        return a if a.bits >= b.bits else b
    unsigned = b if a.signed else a
    if unsigned.bits < 64:
        return BIGINT
    return HUGEINT if compare else DOUBLE


def _compare_year(at: exp.Expr) -> str | None:
    """Return the comparison of the year of a date with a literal that is written as if it were a date."""
    made = copy_tree(at)
    sides = (made.args.get("this"), made.args.get("expression"))
    year = next((s for s in sides if isinstance(s, exp.Literal) and re.fullmatch("(19|20)..", s.this)), None)
    day = next((s for s in sides if isinstance(s, exp.Column)), None)
    if year is None or day is None:
        return None
    day.replace(exp.Anonymous(this="YEAR", expressions=[copy_tree(day)]))
    return made.sql("duckdb")


def _refuse_mismatch(source: StatementText, left: Typed, right: Typed, at: exp.Expr) -> Exception:
    texts = [v.text for v in (left, right) if v.text is not None and v.type == VARCHAR]
    times = [v.type for v in (left, right) if v.type.moment or v.type.name in ("DATE", "TIME")]
    if texts and times:
        return refuse_text(source, texts[0], times[0], at)
    if TIMESTAMPTZ in times and len(times) > 1:
        return refuse_mixed(source, left, right, at)
    if left.text is not None and left.type == VARCHAR:
        left, right = right, left
    if right.text is not None and left.type != VARCHAR:
        value = "true or false" if left.type.name == "BOOLEAN" else f"a value of {left.type}"
        value = "a number" if left.type.numeric else value
        others = ", or the other values as texts" if isinstance(at, (exp.Case, exp.If)) else ""
        return source.refuse(f"this text is not a valid {left.type}", at, f"write it as {value}{others}")
    if left.literal is not None:
        left, right = right, left
    year = _compare_year(at) if left.type in times and right.type.integer else None
    if year is not None:
        raise source.refuse(f"{left.type} is compared with a year", at, year)
    target = right.type if right.type.name != "NULL" else VARCHAR
    if left.type == VARCHAR and right.literal is None:
        target = right.type
    said = f"{left.type} and {right.type} are compared only after a conversion that you write"
    hint = f"write CAST(... AS {target}) around the {left.type} (NULL where it does not convert)"
    return source.refuse(said, at, None if left.type in times and target.numeric else hint)
