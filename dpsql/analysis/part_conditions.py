"""For which parts of units a condition can be true, false, NULL: by what it compares with constants.

A leaf that compares the date of a unit with a constant is followed exactly: the date itself, cut to a period
by `date_trunc`, `year` or a conversion. Every other leaf can be anything for every part. What is lost is that
two leaves depend on each other: `country = 'DE' AND country <> 'DE'` is not seen to be false.

*Padded* columns hold the date of a unit or NULL, where an outer join has no partner: each of their leaves can
be NULL for every part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import MAXYEAR, MINYEAR, date, datetime, timedelta
from typing import Final

from dpsql.analysis.schema_catalog import Catalog
from dpsql.kernel.tree import (
    Apply,
    Between,
    Binary,
    Cast,
    Column,
    Constant,
    Expr,
    InList,
    IsNull,
    Not,
    Paren,
    Try,
    duckdb_sql,
    facts,
)
from dpsql.kernel.unit_parts import ALL_PARTS, EARLIER, LATER, NO_PARTS, NULL_PART, Calendar, PartSet
from dpsql.lazy_dataclass import dataclass
from dpsql.types import DATE, TIMESTAMP

VALUES: Final = PartSet.of((EARLIER, LATER))
"""The parts of units whose value is not NULL."""
NULLS: Final = PartSet.of((NULL_PART, NULL_PART))
_ENDS: Final = PartSet.of((EARLIER, EARLIER), (LATER, LATER))
"""The parts of dates that a function may turn into NULL, since they are beyond what it takes."""

Evaluate = Callable[[Expr], object]
"""Returns the value of an expression without columns; None if it has none, or fails."""


def evaluate_in(catalog: Catalog) -> Evaluate:
    """Return a function that evaluates constants; of one that raises the value is None."""

    def evaluate(expr: Expr) -> object:
        try:
            return catalog.evaluate(duckdb_sql(expr))
        except ValueError:
            return None

    return evaluate


@dataclass(frozen=True, slots=True)
class Truths:
    """The parts for which a condition can be true, false and NULL."""

    true: PartSet
    false: PartSet
    null: PartSet

    def negate(self) -> Truths:
        """Return the parts for which NOT of a condition can be true, false and NULL."""
        return Truths(self.false, self.true, self.null)

    def both(self, other: Truths) -> Truths:
        """Return the parts for which AND of two conditions can be true, false and NULL."""
        null = (self.null & (other.true | other.null)) | (other.null & (self.true | self.null))
        return Truths(self.true & other.true, self.false | other.false, null)

    def either(self, other: Truths) -> Truths:
        """Return the parts for which OR of two conditions can be true, false and NULL."""
        return self.negate().both(other.negate()).negate()


ANYTHING: Final = Truths(ALL_PARTS, ALL_PARTS, ALL_PARTS)


class Conditions:
    """Follows conditions over the date or value of units."""

    __slots__ = ()

    def follow(self, condition: Expr) -> Truths:
        """Return the parts for which a condition can be true, false and NULL."""
        match condition:
            case Paren(inner):
                return self.follow(inner)
            case Try(operand):  # what fails is NULL
                return replace(self.follow(operand), null=ALL_PARTS)
            case Binary("AND", left, right):
                return self.follow(left).both(self.follow(right))
            case Binary("OR", left, right):
                return self.follow(left).either(self.follow(right))
            case Not(operand):
                return self.follow(operand).negate()
        return self.follow_leaf(condition)

    def follow_leaf(self, condition: Expr) -> Truths:
        """Return the parts for which a condition without AND, OR and NOT can be true, false and NULL."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class PartConditions(Conditions):
    """Follows conditions over the date of units."""

    calendar: Calendar
    """Numbers the parts."""
    columns: Mapping[Column, bool]
    """The columns that hold the date, and whether each is padded."""
    dates: bool
    """Whether the column is a DATE; else it is a TIMESTAMP."""
    evaluate: Evaluate
    """Evaluates constants."""

    def follow_leaf(self, condition: Expr) -> Truths:
        """Return the parts for which a comparison of a date with constants can be true, false and NULL."""
        match condition:
            case Binary(operator, left, right) if operator in MIRRORED:
                return self._compare(operator, left, right) or (
                    self._compare(MIRRORED[operator], right, left) or ANYTHING
                )
            case Between(operand, low, high):
                least, most = self._compare(">=", operand, low), self._compare("<=", operand, high)
                return (least or ANYTHING).both(most or ANYTHING)
            case InList(operand, items):
                found = Truths(NO_PARTS, ALL_PARTS, NO_PARTS)
                for item in items:
                    found = found.either(self._compare("=", operand, item) or ANYTHING)
                return found
            case IsNull(operand, negated):
                found = self._compare_null(operand)
                return found.negate() if negated else found
        return ANYTHING

    def keeps_parts(self, expr: Expr) -> bool:
        """Return whether an expression has one value for all dates of a part."""
        value = self._value_of(expr)
        return value is not None and _is_within(self.calendar.every, value.unit)

    def _compare_null(self, operand: Expr) -> Truths:
        value = self._value_of(operand)
        if value is None:
            return ANYTHING
        return Truths(self._nulls(value), VALUES, NO_PARTS)

    def _nulls(self, value: DateValue) -> PartSet:
        """Return the parts for which a value can be NULL."""
        if self.columns[value.column]:
            return ALL_PARTS
        return NULLS if value.plain else NULLS | _ENDS

    def _compare(self, operator: str, left: Expr, right: Expr) -> Truths | None:
        """Return where a comparison can be true, false, NULL; None if it is of no date with a constant."""
        value = self._value_of(left)
        constant = None if value is None else read_moment(right, self.evaluate, year=value.year)
        if value is None or constant is None:
            return None
        if operator in ("IS NOT DISTINCT FROM", "IS DISTINCT FROM"):
            same = self._between(value, *ends_of("=", constant, value.unit))
            nulls = self._nulls(value)
            found = Truths(same.true, same.false | nulls, NO_PARTS)
            return found if operator == "IS NOT DISTINCT FROM" else found.negate()
        if operator == "<>":
            return self._between(value, *ends_of("=", constant, value.unit)).negate()
        return self._between(value, *ends_of(operator, constant, value.unit))

    def _between(self, value: DateValue, low: datetime | None, high: datetime | None) -> Truths:
        """Return where a date from `low` on and before `high` makes a condition true; None: no such end."""
        true = self._parts(low, high)
        false = NO_PARTS
        if low is not None:
            false |= self._parts(None, low)
        if high is not None:
            false |= self._parts(high, None)
        return Truths(true, false, self._nulls(value))

    def _parts(self, low: datetime | None, high: datetime | None) -> PartSet:
        """Return the parts with a moment from `low` on and before `high`."""
        first = EARLIER if low is None else self.calendar.number(low.date())
        if high is None:
            return PartSet.of((first, LATER))
        if (low is not None and low >= high) or high == datetime.min:
            return NO_PARTS if low is not None else PartSet.of((EARLIER, EARLIER))
        return PartSet.of((first, self.calendar.number((high - _LEAST).date())))

    def _value_of(self, expr: Expr) -> DateValue | None:
        """Return a date of a unit, cut to a period; None for other expressions."""
        own = "day" if self.dates else ""
        return read_date(expr, lambda column: own if column in self.columns else None)


@dataclass(frozen=True, slots=True)
class DateValue:
    """A date of a column, cut to a period: `unit` is its length, or "" where nothing is cut."""

    column: Column
    unit: str
    plain: bool = True
    """Whether it is the column itself, so that it is NULL only where the column is."""
    year: bool = False
    """Whether it is the number of the year."""


def read_date(expr: Expr, unit_of: Callable[[Column], str | None]) -> DateValue | None:
    """Return the date that an expression is of a column, cut to a period; None for other expressions.

    `unit_of` returns "day" for a column of DATEs, "" for one of TIMESTAMPs, None for another one.
    """
    node = _bare(expr)
    if isinstance(node, Column):
        own = unit_of(node)
        return None if own is None else DateValue(node, own)
    if isinstance(node, Cast) and node.safe and node.type in (DATE, TIMESTAMP):
        inner = read_date(node.operand, unit_of)
        if inner is None or inner.year:
            return None
        unit = _coarser(inner.unit, "day") if node.type == DATE else inner.unit
        return None if unit is None else DateValue(inner.column, unit, plain=False)
    if not isinstance(node, Apply):
        return None
    name, arguments = node.form.name.lower(), node.arguments
    if name in ("date_trunc", "datetrunc") and len(arguments) == 2:
        word = arguments[0].value if isinstance(arguments[0], Constant) else None
        unit, inner = _UNITS.get(str(word).lower()), read_date(arguments[1], unit_of)
    elif name == "year" and len(arguments) == 1:
        unit, inner = "year", read_date(arguments[0], unit_of)
    else:
        return None
    if unit is None or inner is None or inner.year:
        return None
    made = _coarser(inner.unit, unit)
    return None if made is None else DateValue(inner.column, made, plain=False, year=name == "year")


def read_moment(expr: Expr, evaluate: Evaluate, *, year: bool) -> datetime | None:
    """Return the moment that an expression without columns is, or in which a year begins."""
    if facts(expr).reads:  # of a column, or of a subquery
        return None
    found = evaluate(expr)
    if year:
        number = found if isinstance(found, int) and not isinstance(found, bool) else None
        return None if number is None or not MINYEAR < number < MAXYEAR - 1 else datetime(number, 1, 1)
    if isinstance(found, datetime):
        return found if found.tzinfo is None else None
    return datetime(found.year, found.month, found.day) if isinstance(found, date) else None


MIRRORED: Final = {
    "=": "=",
    "<>": "<>",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
    "IS NOT DISTINCT FROM": "IS NOT DISTINCT FROM",
    "IS DISTINCT FROM": "IS DISTINCT FROM",
}
"""Comparisons, and what they are with their sides exchanged."""
_UNITS: Final = {
    name: unit for unit in ("day", "week", "month", "quarter", "year") for name in (unit, f"{unit}s")
}
_LEAST: Final = timedelta(microseconds=1)
_WITHIN: Final = {"": "", "day": "", "week": "day", "month": "day", "quarter": "month", "year": "quarter"}
"""For each period the next shorter one of which it is made."""


def _coarser(unit: str, other: str) -> str | None:
    """Return the period to which a date is cut that was cut to `unit` first; None: to none of them."""
    if _is_within(unit, other):
        return other
    return unit if _is_within(other, unit) else None


def _is_within(unit: str, longer: str) -> bool:
    while longer and longer != unit:
        longer = _WITHIN[longer]
    return longer == unit


def _floor(moment: datetime, unit: str) -> datetime:
    if not unit:
        return moment
    day = datetime(moment.year, moment.month, moment.day)
    if unit == "week":
        return day - timedelta(days=day.weekday()) if day > datetime.min + timedelta(days=7) else datetime.min
    if unit == "day":
        return day
    if unit == "month":
        return day.replace(day=1)
    return day.replace(day=1, month=1 if unit == "year" else (day.month - 1) // 3 * 3 + 1)


def _next(moment: datetime, unit: str) -> datetime:
    """Return the moment after the period that `moment` begins."""
    if moment.year >= MAXYEAR - 1:
        return moment  # far behind all parts that are told apart
    if not unit:
        return moment + _LEAST
    if unit in ("day", "week"):
        return moment + timedelta(days=1 if unit == "day" else 7)
    months = moment.year * 12 + moment.month - 1 + {"month": 1, "quarter": 3, "year": 12}[unit]
    return moment.replace(year=months // 12, month=months % 12 + 1)


def ends_of(operator: str, constant: datetime, unit: str) -> tuple[datetime | None, datetime | None]:
    """Return the first moment and the end of dates that, cut to a period, satisfy a comparison."""
    low = _floor(constant, unit)
    after = _next(low, unit)
    ceiling = low if low == constant else after
    match operator:
        case "=":
            if low != constant:
                return low, low
            return low, after if after > low else None  # behind all parts that are told apart
        case "<":
            return None, ceiling
        case "<=":
            return None, after
        case ">":
            return after, None
    return ceiling, None


def _bare(expr: Expr) -> Expr:
    """Return an expression without parentheses and TRY around it."""
    while isinstance(expr, (Paren, Try)):
        expr = expr.inner if isinstance(expr, Paren) else expr.operand
    return expr
