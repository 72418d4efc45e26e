"""The values of one column for which a condition holds, and those of which a key is made.

A condition of one column that compares it with constants is followed exactly, by dates, whole numbers, texts
and truth values; so is a key that is a column, or its date cut to a period.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from functools import reduce

from dpsql.analysis.part_conditions import MIRRORED, Evaluate, ends_of, read_date, read_moment
from dpsql.analysis.typed_expression import Typed
from dpsql.estimates.value_sets import EVERY, ValueSet
from dpsql.kernel.tree import Between, Binary, Cast, Column, Expr, InList, IsNull, Not, Paren, facts
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BOOLEAN, DATE, TIMESTAMP, VARCHAR, SqlType

NULL = ValueSet((), null=True)


@dataclass(frozen=True, slots=True)
class CellKey:
    """A key whose value tells the values of a column: the column itself, or the period of its date."""

    column: str
    kind: str
    """"names", "numbers", "days" or "moments"."""
    period: str = ""
    """The period to which a date is cut; "" if the key is the column."""
    year: bool = False
    """Whether the key is the number of the year."""

    def values_of(self, value: object) -> ValueSet | None:
        """Return the values of the column in the group with a value of the key; None: they are not known."""
        if value is None:
            # A date may be cut to NULL that is none.
            if self.period:
                return None
            return NULL
        if self.kind in ("names", "numbers"):
            wanted = (str, bool) if self.kind == "names" else int
            return ValueSet.of_values([value]) if isinstance(value, wanted) else None
        if self.year:
            moment = datetime(value, 1, 1) if isinstance(value, int) and 1 <= value <= 9999 else None
        else:
            moment = value if isinstance(value, datetime) else None
            if moment is None and isinstance(value, date):
                moment = datetime(value.year, value.month, value.day)
        if moment is None or not _is_plain_year(moment):
            return None
        own = "day" if self.kind == "days" else ""
        return _values_between(*ends_of("=", moment, self.period or own), days=self.kind == "days")


@dataclass(frozen=True, slots=True)
class ColumnTruths:
    """A column, and its values for which a condition is true, and false; None: for which is not known."""

    column: str
    true: ValueSet
    false: ValueSet | None

    def negate(self) -> ColumnTruths | None:
        """Return where the NOT of a condition on one column holds; None where that is not known."""
        return None if self.false is None else ColumnTruths(self.column, self.false, self.true)

    def both(self, other: ColumnTruths) -> ColumnTruths:
        """Return where the AND of two conditions on one column holds."""
        false = None if self.false is None or other.false is None else self.false | other.false
        return ColumnTruths(self.column, self.true & other.true, false)

    def either(self, other: ColumnTruths) -> ColumnTruths:
        """Return where the OR of two conditions on one column holds."""
        false = None if self.false is None or other.false is None else self.false & other.false
        return ColumnTruths(self.column, self.true | other.true, false)


@dataclass(frozen=True, slots=True)
class ColumnReader:
    """Reads conditions and keys of single columns."""

    columns: Mapping[str, Typed]
    evaluate: Evaluate

    def kind(self, sql_type: SqlType) -> str:
        """Return how values of a type are told apart; "" if they are not."""
        if sql_type == DATE:
            return "days"
        if sql_type == TIMESTAMP:
            return "moments"
        if sql_type.integer:
            return "numbers"
        return "names" if sql_type == BOOLEAN or sql_type.name in ("VARCHAR", "ENUM") else ""

    def read_until(self, column: str, until: date) -> ColumnTruths | None:
        """Return the values of a date before a day, and NULL."""
        known = self.columns.get(column)
        if known is None or known.type not in (DATE, TIMESTAMP):
            return None
        moment = datetime(until.year, until.month, until.day)
        true = _values_between(None, moment, days=known.type == DATE) | NULL
        return ColumnTruths(column, true, EVERY - true)

    def read_key(self, key: Typed) -> CellKey | None:
        """Return the column that a group key tells values of, with its kind and period; None if no column."""
        found = read_date(key.node, self._unit_of) or read_date(key.guarded_node, self._unit_of)
        if found is not None:
            name = _name(found.column)
            return CellKey(
                name, self.kind(self.columns[name].type), "" if found.plain else found.unit, found.year
            )
        node = self._column(key.node)
        return None if node is None else CellKey(_name(node), self._kind_of(node))

    def read(self, condition: Expr) -> ColumnTruths | None:
        """Return for which values of a single column a condition is true; None for other conditions."""
        match condition:
            case Paren(inner):
                return self.read(inner)
            case Not(operand):
                found = self.read(operand)
                return None if found is None else found.negate()
            case Binary("AND" | "OR" as word, left, right):
                one, other = self.read(left), self.read(right)
                if one is None or other is None or one.column != other.column:
                    return None
                return one.both(other) if word == "AND" else one.either(other)
            case Between(operand, low, high):
                one, other = self._compare(">=", operand, low), self._compare("<=", operand, high)
                return None if one is None or other is None else one.both(other)
            case InList(operand, items):
                each = [self._compare("=", operand, item) for item in items]
                known = [one for one in each if one is not None]
                if len(known) < len(each) or not known:
                    return None
                return reduce(ColumnTruths.either, known)
            case IsNull(operand, negated):
                return self._null(operand, negated=negated)
            case Binary(operator, left, right) if operator in MIRRORED:
                return self._compare(operator, left, right) or self._compare(MIRRORED[operator], right, left)
            case Column() if self._kind_of(condition) == "names" and self._is_boolean(condition):
                yes, no = (ValueSet.of_values([value]) for value in (True, False))
                return ColumnTruths(_name(condition), yes, no)
        return None

    def _is_boolean(self, column: Column) -> bool:
        return self.columns[_name(column)].type == BOOLEAN

    def _null(self, operand: Expr, *, negated: bool) -> ColumnTruths | None:
        node = operand.inner if isinstance(operand, Paren) else operand
        kind = self._kind_of(node)
        if not isinstance(node, Column) or not kind:
            return None
        found = ColumnTruths(_name(node), NULL, EVERY - NULL)
        return found.negate() if negated else found

    def _kind_of(self, node: Expr) -> str:
        known = self.columns.get(_name(node)) if isinstance(node, Column) else None
        return "" if known is None else self.kind(known.type)

    def _unit_of(self, column: Column) -> str | None:
        return {"days": "day", "moments": ""}.get(self._kind_of(column))

    def _compare(self, operator: str, left: Expr, right: Expr) -> ColumnTruths | None:
        """Return where a comparison of a column with a constant is true and false."""
        if operator in ("IS NOT DISTINCT FROM", "IS DISTINCT FROM"):
            found = self._compare("=", left, right)
            if found is None:
                return None
            found = ColumnTruths(found.column, found.true, EVERY - found.true)
            return found if operator == "IS NOT DISTINCT FROM" else found.negate()
        if operator == "<>":
            found = self._compare("=", left, right)
            return None if found is None else found.negate()
        value = read_date(left, self._unit_of)
        if value is not None:
            moment = read_moment(right, self.evaluate, year=value.year)
            if moment is None or not _is_plain_year(moment):
                return None
            low, high = ends_of(operator, moment, value.unit)
            # A function may turn dates without an end into NULL.
            if not value.plain and (low is None or high is None):
                return None
            name = _name(value.column)
            true = _values_between(low, high, days=self._kind_of(value.column) == "days")
            # What is cut may be NULL where the date is not: then the condition is not false either.
            return ColumnTruths(name, true, (EVERY - true).known if value.plain else None)
        node = self._column(left)
        if node is None or facts(right).reads:
            return None
        found_value = self.evaluate(right)
        if self._kind_of(node) == "numbers":
            return self._compare_numbers(operator, _name(node), found_value)
        wanted = bool if self._is_boolean(node) else str
        if operator != "=" or type(found_value) is not wanted:
            return None
        true = ValueSet.of_values([found_value])
        return ColumnTruths(_name(node), true, (EVERY - true).known)

    def _column(self, expr: Expr) -> Column | None:
        """Return the column of names or numbers that an expression is, perhaps as a text of a listed type."""
        while isinstance(expr, Paren):
            expr = expr.inner
        if isinstance(expr, Cast) and expr.type == VARCHAR and isinstance(expr.operand, Column):
            known = self.columns.get(_name(expr.operand))
            return expr.operand if known is not None and known.type.name in ("VARCHAR", "ENUM") else None
        return expr if isinstance(expr, Column) and self._kind_of(expr) in ("names", "numbers") else None

    def _compare_numbers(self, operator: str, name: str, number: object) -> ColumnTruths | None:
        if type(number) is not int:
            return None
        ends: dict[str, tuple[int | None, int | None]] = {
            "=": (number, number + 1),
            "<": (None, number),
            "<=": (None, number + 1),
            ">": (number + 1, None),
            ">=": (number, None),
        }
        true = ValueSet.of_range(*ends[operator])
        return ColumnTruths(name, true, (EVERY - true).known)


def _values_between(low: datetime | None, high: datetime | None, *, days: bool) -> ValueSet:
    """Return the dates from `low` on and before `high`; None: no such end."""
    ends = (low, high)
    return ValueSet.of_range(*(_first_day(end) if days and end is not None else end for end in ends))


def _first_day(moment: datetime) -> date:
    """Return the first day that does not begin before a moment."""
    day = moment.date()
    return day if moment == datetime(day.year, day.month, day.day) else day + timedelta(days=1)


def _is_plain_year(moment: datetime) -> bool:
    """Return whether a moment has no time zone, and its period ends are computed exactly."""
    return moment.tzinfo is None and 1000 <= moment.year < 9000


def _name(column: Column) -> str:
    return f"{column.table}.{column.name}"
