"""PEP 249's constructors of parameter values: Python's own types under the names the standard asks for."""

from __future__ import annotations

from datetime import date, datetime, time

Date = date
"""Make a date from a year, a month and a day."""
Time = time
"""Make a time of day from hours, minutes and seconds."""
Timestamp = datetime
"""Make a timestamp from a year, a month, a day, hours, minutes and seconds."""
Binary = bytes
"""Make a binary value from bytes or integers."""


def DateFromTicks(ticks: float) -> date:  # noqa: N802  PEP 249 fixes the name
    """Make a date from seconds since the epoch, in local time."""
    return date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> time:  # noqa: N802  PEP 249 fixes the name
    """Make a time of day from seconds since the epoch, in local time."""
    return datetime.fromtimestamp(ticks).time()  # PEP 249: local and naive, as time.localtime gives it


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802  PEP 249 fixes the name
    """Make a timestamp from seconds since the epoch, in local time."""
    return datetime.fromtimestamp(ticks)
