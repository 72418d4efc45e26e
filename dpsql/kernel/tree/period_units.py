"""Units of one period each, such as a patient in one week: the expression that is the unit of a row.

*Lemma.* Two rows with dates from `FIRST_DAY` to `LAST_DAY`, or NULL, have equal units if and only if they
have equal persons, and dates in one period or no dates. The text of a period is that of its first day, of ten
characters, since that lies within the years 999 to 2999; where the date is NULL it is another text of ten.
So the first ten characters of a unit are its period, and the rest is the text of the person, which differs
for different persons: those of whole numbers, of a text, a DATE or a UUID do. A row whose person is NULL has
no unit, nor has one with a text so long that the unit is not computed: such rows are counted nowhere.
"""

from __future__ import annotations

from typing import Final

from dpsql.errors import InternalError
from dpsql.kernel.tree.exact import guarded
from dpsql.kernel.tree.expressions import Apply, Call, Cast, Column, Constant
from dpsql.kernel.tree.forms import Form, listed_forms
from dpsql.kernel.tree.node import Expr
from dpsql.types import DATE, VARCHAR

NO_DATE: Final = "----------"
"""Stands for the period of rows whose date is NULL."""
LONGER: Final[dict[str, tuple[str, ...]]] = {
    "day": ("day", "week", "month", "quarter", "year"),
    "week": ("week",),
    "month": ("month", "quarter", "year"),
    "quarter": ("quarter", "year"),
    "year": ("year",),
}
"""For each period those in one of which it lies."""
TRUNCATIONS: Final = ("date_trunc", "datetrunc")


def unit_in_period(person: Expr, date: Expr, every: str, *, dates: bool) -> Expr:
    """Return the unit of rows; `dates`: their date is a DATE, else a TIMESTAMP of UTC."""
    day = date if dates else Cast(date, DATE)
    first = Apply(_form("date_trunc", f"={every}", "DATE"), (Constant(every, VARCHAR), day))
    period = Call("COALESCE", (Cast(first, VARCHAR), Constant(NO_DATE, VARCHAR)))
    return guarded(Apply(_form("||", "VARCHAR", "VARCHAR"), (period, Cast(person, VARCHAR))))


def is_of_period(node: Expr, every: str) -> Column | None:
    """Return the date of which an expression is the period, or a longer one; None for other expressions."""
    if not isinstance(node, Apply) or node.form.name not in TRUNCATIONS or len(node.arguments) != 2:
        return None
    date = node.arguments[1]
    longer = node.form.arguments[0].removeprefix("=") in LONGER[every]  # it is a part of what the form writes
    return date if longer and isinstance(date, Column) else None


def _form(name: str, *arguments: str) -> Form:
    found = next((form for form in listed_forms()[name] if form.arguments == arguments), None)
    if found is None:
        raise InternalError(f"there is no such form of {name}")
    return found
