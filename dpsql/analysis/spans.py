"""Determine the grain of time at which an expression depends on a TIMESTAMP column.

A declared range says that a column's values lie on these days, at any time of the day. Its values are too
many to list. An expression that depends on them only through `date_trunc('hour', ts)` is a function of the
hour: evaluated on all hours of the range it takes every value that it can take. The grain of an expression
for a column is the finest part of time that it depends on; an expression that depends on the exact time has
none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dpsql.analysis.typed import GRAINS, Typed
from dpsql.kernel.tree import Interval


def joint_grains(parts: Iterable[Typed]) -> dict[str, str]:
    """Return the grains of an expression by those of its parts.

    A column whose exact time one part depends on has no grain.
    """
    finest: dict[str, int] = {}
    whole: set[str] = set()
    for part in parts:
        for name in part.reads:
            if name in part.grains:
                finest[name] = max(finest.get(name, 0), GRAINS.index(part.grains[name]))
            else:
                whole.add(name)
    return {name: GRAINS[place] for name, place in finest.items() if name not in whole}


def seen_at(value: Typed, grain: str | None) -> Typed:
    """Return a column of moments marked as read only to a grain of time; any other value unchanged.

    The local time of a column depends on it at the grain of the zone's offsets at least.
    """
    column = value if value.zoned is None else value.zoned.of
    if grain is None or not value.type.moment or not column.is_column:
        return value
    if value.zoned is not None:
        grain = GRAINS[max(GRAINS.index(grain), GRAINS.index(value.zoned.grain))]
    return replace(value, grains=dict.fromkeys(value.reads, grain))


_DAYS = (
    *("year", "month", "day", "quarter", "week", "weekday", "weekofyear", "yearweek", "isoyear", "isodow"),
    *("dow", "doy", "dayofweek", "dayofmonth", "dayofyear", "dayname", "monthname", "decade", "century"),
    "last_day",
)
_PARTS = {**dict.fromkeys(_DAYS, "day"), "hour": "hour", "minute": "minute", "second": "second"}
"""The grain that determines each part of a date or time."""

_PART_FIRST = ("date_part", "datepart", "date_trunc", "datetrunc", "date_diff", "datediff")
_FORMATS = {
    **dict.fromkeys("%YyCmbBdejaAwuUWVGxDF", "day"),
    **dict.fromkeys("HIp", "hour"),
    **dict.fromkeys("MR", "minute"),
    **dict.fromkeys("STXc", "second"),
}


def call_grains(name: str, arguments: Sequence[Typed]) -> dict[str, str]:
    """Return the grains of a function call, by its name and the literals among its arguments."""
    grain = _call_grain(name, arguments)
    return joint_grains(seen_at(a, grain) if a.type.moment else a for a in arguments)


def _call_grain(name: str, arguments: Sequence[Typed]) -> str | None:
    texts = [a.text for a in arguments if a.text is not None]
    if name in _PART_FIRST:
        return _PARTS.get(texts[0].lower()) if texts else None
    if name == "strftime":
        return _format_grain(texts[0]) if len(texts) == 1 else None
    if name == "time_bucket":
        return next((_bucket_grain(a.node) for a in arguments if isinstance(a.node, Interval)), None)
    return _PARTS.get(name)


def _format_grain(text: str) -> str | None:
    """Return the finest grain among the codes of a time format."""
    grains = [_FORMATS.get(code) for code in re.findall(r"%-?(.)", text, re.DOTALL)]
    if not grains or None in grains:
        return None
    return GRAINS[max(GRAINS.index(grain) for grain in grains if grain is not None)]


def _bucket_grain(interval: Interval) -> str | None:
    """Return the coarsest grain whose grid has the start of every time bucket; one starts at midnight."""
    found = re.fullmatch(r"\d+ (second|minute|hour|day|week|month|quarter|year)s?", interval.text)
    if found is None:
        return None
    return found[1] if found[1] in GRAINS else "day"


UTC_PARTS = frozenset({*_PARTS, *_PART_FIRST, "strftime", "time_bucket"})
"""Functions whose results depend on the zone in which a moment is looked at."""
