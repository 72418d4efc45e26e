"""What a policy declares of a column's values: bounds, to which aggregates cut them, and public domains.

Values of a domain are converted to the type of their column; the column itself is never converted.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction

from dpsql.lazy_dataclass import dataclass
from dpsql.policy.names import wrong
from dpsql.policy.table_parts import BooleanDomain, Domain, EnumDomain, RangeDomain, Value, ValuesDomain
from dpsql.types import BIGINT, DATE, VARCHAR, SqlType


def fit(value: Value, sql_type: SqlType) -> Value:
    """Convert a value to a column type; `ValueError` says why that is not possible.

    Text is accepted for DATE, TIMESTAMP, TIME and UUID, as in SQL. A DOUBLE is returned as its
    shortest decimal, so that two decimals that round to one double become one value.

    >>> from dpsql.types import column_type
    >>> fit("2024-01-31", column_type("DATE")), fit(5, column_type("DECIMAL(4,2)"))
    (datetime.date(2024, 1, 31), Decimal('5.00'))
    """
    if sql_type.integer:
        return _fit_integer(value, sql_type)
    reader = _READERS.get(sql_type.name)
    if reader is None:
        raise ValueError(f"a column of type {sql_type} cannot have a domain of values")
    return reader(value, sql_type)


def kind_of(value: object) -> str:
    """Name the kind of a value: `text`, `integer`, `number`, `boolean`, `date`, `timestamp`, `time`."""
    for python, word in _KINDS:
        if isinstance(value, python):
            return word
    return "value of another kind"


_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (Decimal, "number"),
    (str, "text"),
    (datetime, "timestamp"),
    (date, "date"),
    (time, "time"),
)


def _mismatch(value: object, sql_type: SqlType) -> ValueError:
    return ValueError(f"{str(value)[:40]!r} is not a valid {sql_type}")


def _fit_integer(value: Value, sql_type: SqlType) -> Value:
    if kind_of(value) != "integer" or not isinstance(value, int):
        raise _mismatch(value, sql_type)
    low = -(1 << (sql_type.bits - 1)) if sql_type.signed else 0
    high = (1 << (sql_type.bits - 1 if sql_type.signed else sql_type.bits)) - 1
    if not low <= value <= high:
        raise _mismatch(value, sql_type)
    return value


def _fit_boolean(value: Value, sql_type: SqlType) -> Value:
    if not isinstance(value, bool):
        raise _mismatch(value, sql_type)
    return value


def _fit_number(value: Value, sql_type: SqlType) -> Decimal:
    if kind_of(value) not in ("integer", "number") or not isinstance(value, (int, Decimal)):
        raise _mismatch(value, sql_type)
    number = Decimal(value)
    if not number.is_finite():
        raise _mismatch(value, sql_type)
    return number


def _fit_decimal(value: Value, sql_type: SqlType) -> Value:
    number = _fit_number(value, sql_type)
    if number and number.adjusted() >= sql_type.precision - sql_type.scale:
        raise _mismatch(value, sql_type)
    held = number.quantize(Decimal(1).scaleb(-sql_type.scale))
    if held != number:
        raise _mismatch(value, sql_type)
    # -0 and 0 are one value in SQL.
    return abs(held) if held.is_zero() else held


def _fit_double(value: Value, sql_type: SqlType) -> Value:
    number = _fit_number(value, sql_type)
    try:
        nearest = float(number)
    except OverflowError:
        raise _mismatch(value, sql_type) from None
    if nearest in (float("inf"), float("-inf")):
        raise _mismatch(value, sql_type)
    return Decimal(repr(nearest + 0.0))


def _fit_text(value: Value, sql_type: SqlType) -> Value:
    if not isinstance(value, str):
        raise _mismatch(value, sql_type)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("the text is not valid Unicode") from None
    return value


def _fit_enum(value: Value, sql_type: SqlType) -> Value:
    if value not in sql_type.values:
        raise ValueError(f"{str(value)[:40]!r} is not among the values of the ENUM type")
    return value


def _fit_uuid(value: Value, sql_type: SqlType) -> Value:
    hexadecimal = "[0-9a-fA-F]"
    shape = rf"{hexadecimal}{{8}}-(?:{hexadecimal}{{4}}-){{3}}{hexadecimal}{{12}}"
    if not isinstance(value, str) or not re.fullmatch(shape, value):
        raise _mismatch(value, sql_type)
    return str(uuid.UUID(value))


def _parse_text(value: Value, sql_type: SqlType, shape: str, read: Callable[[str], Value]) -> Value:
    if not isinstance(value, str) or not re.fullmatch(shape, value, re.ASCII):
        raise _mismatch(value, sql_type)
    try:
        return read(value)
    except ValueError:
        raise _mismatch(value, sql_type) from None


_DAY = r"\d{4}-\d\d-\d\d"
_HOURS = r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?"


def _fit_day(value: Value, sql_type: SqlType) -> Value:
    if kind_of(value) == "date":
        return value
    return _parse_text(value, sql_type, _DAY, date.fromisoformat)


def _fit_timestamp(value: Value, sql_type: SqlType) -> Value:
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            raise ValueError("a TIMESTAMP has no offset: write it in UTC, without one")
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    return _parse_text(value, sql_type, rf"{_DAY}([ T]{_HOURS})?", datetime.fromisoformat)


def _fit_instant(value: Value, sql_type: SqlType) -> Value:
    """Return an instant as a time of UTC; one without an offset is of UTC."""
    if isinstance(value, str):
        offset = r"(Z|[+-]\d\d(:?\d\d)?)?"
        value = _parse_text(value, sql_type, rf"{_DAY}([ T]{_HOURS}{offset})?", datetime.fromisoformat)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return _fit_timestamp(value, sql_type)


def _fit_time(value: Value, sql_type: SqlType) -> Value:
    if isinstance(value, time):
        if value.tzinfo is not None:
            raise ValueError("a TIME has no offset: write it in UTC, without one")
        return value
    return _parse_text(value, sql_type, _HOURS, time.fromisoformat)


_READERS: dict[str, Callable[[Value, SqlType], Value]] = {
    "BOOLEAN": _fit_boolean,
    "DECIMAL": _fit_decimal,
    "DOUBLE": _fit_double,
    "VARCHAR": _fit_text,
    "ENUM": _fit_enum,
    "UUID": _fit_uuid,
    "DATE": _fit_day,
    "TIMESTAMP": _fit_timestamp,
    "TIMESTAMPTZ": _fit_instant,
    "TIME": _fit_time,
}

_EXAMPLE = "write { from = 0, to = 500 }"
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMPTZ")
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
MOST_VALUES = 10_000_000
"""The most values that a domain may list: each of them is stored."""
MOST_INTEGERS = 10**12
"""The most values of a range of integers, which is not stored."""


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
    assert isinstance(value, (int, Decimal))  # noqa: S101  `fit_bounds` accepts nothing else
    return Fraction(value)


def fit_bounds(bounds: ColumnBounds, sql_type: SqlType | None, place: str) -> ColumnBounds:
    """Return the bounds with their ends in the column's type, if that is known; refuse wrong ones."""
    if sql_type is not None and not sql_type.numeric and sql_type.name not in _TIMES:
        known = ": FALSE is 0 and TRUE is 1" if sql_type.name == "BOOLEAN" else ""
        raise wrong(place, f"a column of type {sql_type} has no bounds{known}", "leave it out")
    kinds = {_bound_kind(bounds.low, f"{place}.from"), _bound_kind(bounds.high, f"{place}.to")}
    if len(kinds) > 1:
        raise wrong(place, "`from` and `to` are both numbers, or both dates or timestamps", _EXAMPLE)
    if sql_type is not None and (sql_type.name in _TIMES) is not (kinds == {"time"}):
        wanted = "dates" if sql_type.name in _TIMES else "numbers"
        raise wrong(place, f"the bounds of a column of type {sql_type} are {wanted}")
    low = _fit_bound(bounds.low, sql_type, f"{place}.from")
    high = _fit_bound(bounds.high, sql_type, f"{place}.to")
    if sql_type is not None and sql_type.moment and not isinstance(bounds.high, datetime):
        assert isinstance(high, datetime)  # noqa: S101
        high += timedelta(days=1) - _MICROSECOND  # the whole day
    held = ColumnBounds(low, high, bounds.step)
    if not held.ends[0] < held.ends[1]:
        raise wrong(place, "`from` must be less than `to`", _EXAMPLE)
    _check_step(held, kinds, sql_type, f"{place}.step")
    return held


def _bound_kind(end: Value, place: str) -> str:
    kind = {"integer": "number", "date": "time", "timestamp": "time"}.get(kind_of(end), kind_of(end))
    if kind not in ("number", "time"):
        raise wrong(place, "a bound is a number, a date or a timestamp", _EXAMPLE)
    return kind


def _fit_bound(end: Value, sql_type: SqlType | None, place: str) -> Value:
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


def fit_domain(domain: Domain, sql_type: SqlType | None, place: str) -> Domain:
    """Return the domain with its values converted to the column's type, if that is declared."""
    if isinstance(domain, ValuesDomain):
        return _check_values(domain, sql_type, place)
    if isinstance(domain, RangeDomain):
        _check_range(domain, sql_type, place)
    elif isinstance(domain, BooleanDomain) and sql_type is not None and sql_type.name != "BOOLEAN":
        raise wrong(place, f"the column is {sql_type}, not BOOLEAN")
    elif isinstance(domain, EnumDomain) and sql_type is not None and sql_type.name != "ENUM":
        raise wrong(place, f"the column is {sql_type}, not ENUM", "list its values")
    return domain


def _check_values(domain: ValuesDomain, sql_type: SqlType | None, place: str) -> ValuesDomain:
    if not domain.values:
        raise wrong(place, "a domain has at least one value")
    if len(domain.values) > MOST_VALUES:
        raise wrong(place, f"a domain has at most {MOST_VALUES} values")
    kinds = {kind_of(value) for value in domain.values}
    if kinds == {"integer", "number"}:
        kinds = {"number"}
    if len(kinds) > 1:
        raise wrong(place, f"the values are of different kinds: {', '.join(sorted(kinds))}")
    if "value of another kind" in kinds:
        raise wrong(
            place, "a value is a text, an integer, a Decimal, a boolean, a date, a timestamp or a time"
        )
    if sql_type is not None and sql_type.moment and any(map(_is_day, domain.values)):
        raise wrong(
            place,
            f"a date without a time is not a {sql_type}",
            "write { from = 2024-01-01, to = 2024-01-31 } for all times of these days, or times: "
            '"2024-01-01 00:00:00"',
        )
    held: list[Value] = []
    for position, value in enumerate(domain.values):
        try:
            held.append(fit(value, sql_type) if sql_type is not None else _check_untyped(value))
        except ValueError as problem:
            raise wrong(f"{place}[{position}]", str(problem)) from None
    return ValuesDomain(tuple(held), domain.complete)


def _is_day(value: Value) -> bool:
    """Return whether a value is a date without a time; as a TIMESTAMP it would mean only its midnight."""
    if isinstance(value, str):
        return re.fullmatch(r"\d{4}-\d\d-\d\d", value) is not None
    return isinstance(value, date) and not isinstance(value, datetime)


def _check_untyped(value: Value) -> Value:
    """Return a value of a column whose type is not known yet; `ValueError` if no type can hold it."""
    if isinstance(value, str):
        return fit(value, VARCHAR)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise ValueError("an integer has at most 64 bits")
    if isinstance(value, Decimal) and not value.is_finite():
        raise ValueError("not a finite number")
    if getattr(value, "tzinfo", None) is not None and not isinstance(value, datetime):
        raise ValueError("a time has no offset: write it in UTC, without one")
    return value


def _check_range(domain: RangeDomain, sql_type: SqlType | None, place: str) -> None:
    ends = (domain.start, domain.stop)
    days = all(isinstance(end, date) and not isinstance(end, datetime) for end in ends)
    integers = all(isinstance(end, int) and not isinstance(end, bool) for end in ends)
    if not days and not integers:
        raise wrong(place, "a range goes from an integer to an integer, or from a date to a date")
    if sql_type is not None and not (
        sql_type.integer if integers else sql_type.moment or sql_type.name == "DATE"
    ):
        raise wrong(
            place, f"a range of {'integers' if integers else 'dates'} does not fit a column of {sql_type}"
        )
    if domain.size == 0:
        raise wrong(place, "the range is empty: it ends before it starts")
    most = MOST_INTEGERS if integers else MOST_VALUES
    if domain.size > most:
        raise wrong(place, f"a domain has at most {most} values")
    for end in ends:
        try:
            fit(end, DATE if days else sql_type or BIGINT)
        except ValueError as problem:
            raise wrong(place, str(problem)) from None
