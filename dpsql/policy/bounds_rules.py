"""The public bounds of a column's values, to which an aggregate cuts them, and the checks of them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from dpsql.lazy_dataclass import dataclass
from dpsql.policy.names import wrong
from dpsql.policy.parts import Value
from dpsql.policy.values import fit, kind_of
from dpsql.types import SqlType

_EXAMPLE = "write { from = 0, to = 500 }"
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMPTZ")
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """The interval to which a column's values are cut; it promises nothing about the data.

    Wrong bounds cost accuracy, never privacy.
    """

    low: Value
    high: Value
    step: int | Decimal | None = None
    """The distance of the values to which a DOUBLE is rounded; None: it follows from the bounds."""

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """The ends as numbers: of dates the days since 1970, of timestamps the microseconds."""
        return as_number(self.low), as_number(self.high)


def as_number(value: Value) -> Fraction:
    """Return a bound as an exact number.

    >>> as_number(Decimal("0.1")), as_number(date(1970, 1, 31))
    (Fraction(1, 10), Fraction(30, 1))
    """
    if isinstance(value, datetime) and value.tzinfo is not None:  # the type of the column is not known yet
        value = value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, datetime):
        return Fraction((value - _EPOCH) // _MICROSECOND)
    if isinstance(value, date):
        return Fraction((value - _EPOCH.date()).days)
    assert isinstance(value, (int, Decimal))  # noqa: S101  `checked_bounds` accepts nothing else
    return Fraction(value)


def checked_bounds(bounds: ColumnBounds, sql_type: SqlType | None, place: str) -> ColumnBounds:
    """Return the bounds with their ends in the column's type, if that is known; refuse wrong ones."""
    if sql_type is not None and not sql_type.numeric and sql_type.name not in _TIMES:
        known = ": FALSE is 0 and TRUE is 1" if sql_type.name == "BOOLEAN" else ""
        raise wrong(place, f"a column of type {sql_type} has no bounds{known}", "leave it out")
    kinds = {_kind(bounds.low, f"{place}.from"), _kind(bounds.high, f"{place}.to")}
    if len(kinds) > 1:
        raise wrong(place, "`from` and `to` are both numbers, or both dates or timestamps", _EXAMPLE)
    if sql_type is not None and (sql_type.name in _TIMES) is not (kinds == {"time"}):
        wanted = "dates" if sql_type.name in _TIMES else "numbers"
        raise wrong(place, f"the bounds of a column of type {sql_type} are {wanted}")
    low = _fitted(bounds.low, sql_type, f"{place}.from")
    high = _fitted(bounds.high, sql_type, f"{place}.to")
    if sql_type is not None and sql_type.moment and not isinstance(bounds.high, datetime):
        assert isinstance(high, datetime)  # noqa: S101
        high += timedelta(days=1) - _MICROSECOND  # the whole day
    held = ColumnBounds(low, high, bounds.step)
    if not held.ends[0] < held.ends[1]:
        raise wrong(place, "`from` must be less than `to`", _EXAMPLE)
    _check_step(held, kinds, sql_type, f"{place}.step")
    return held


def _kind(end: Value, place: str) -> str:
    kind = {"integer": "number", "date": "time", "timestamp": "time"}.get(kind_of(end), kind_of(end))
    if kind not in ("number", "time"):
        raise wrong(place, "a bound is a number, a date or a timestamp", _EXAMPLE)
    return kind


def _fitted(end: Value, sql_type: SqlType | None, place: str) -> Value:
    if sql_type is not None:
        try:
            return fit(end, sql_type)
        except ValueError as problem:
            raise wrong(place, str(problem)) from None
    if isinstance(end, Decimal) and not end.is_finite():
        raise wrong(place, "not a finite number")
    return end


def _check_step(bounds: ColumnBounds, kinds: set[str], sql_type: SqlType | None, place: str) -> None:
    step = bounds.step
    if step is None:
        return
    if "time" in kinds or (sql_type is not None and sql_type.name != "DOUBLE"):
        what = "dates and times have" if "time" in kinds else f"a column of type {sql_type} has"
        raise wrong(place, f"{what} a step of its own: only that of a DOUBLE is declared", "leave it out")
    if isinstance(step, bool) or not isinstance(step, (int, Decimal)):
        raise wrong(place, "expected a number", "write step = 0.01")
    if isinstance(step, Decimal) and not step.is_finite():
        raise wrong(place, "not a finite number")
    if not 0 < as_number(step) <= bounds.ends[1] - bounds.ends[0]:
        raise wrong(place, "must be greater than 0 and at most `to` - `from`", "write step = 0.01")
