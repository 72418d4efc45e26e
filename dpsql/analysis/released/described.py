"""Describe released numbers for EXPLAIN: what each is, and what of a privacy unit is cut or weighted down."""

from __future__ import annotations

from collections.abc import Container

from dpsql.analysis.kept_bounds import KEPT
from dpsql.analysis.ladders import Contribution
from dpsql.analysis.released.aggregate import Argument, Part, ReleasedAggregate
from dpsql.analysis.released.arguments import ends_text
from dpsql.analysis.released.cells import CellRows, Quantile
from dpsql.analysis.released.counts import (
    BoundedRows,
    DistinctValues,
    OwnedValues,
    SingleRows,
    Units,
    UnitsOfFew,
    WeightedRows,
)
from dpsql.analysis.released.sums import Moment, RowSum, UnitMean
from dpsql.estimates import Average, Deviation, Formula, RowCount, Variance, decimal, with_noun


def what_of(number: ReleasedAggregate, formula: Formula | None, unit: str) -> str:
    """Return what a number is, such as "average of cost"; "" if its kind is not known here."""
    if len(number.parts) > 1:
        return "difference of two counts"
    if isinstance(formula, RowCount):
        return "number of rows"
    if number.argument is None:
        return _count(number.parts[0], unit)
    of = number.argument.text
    match formula:
        case Average() if number.argument.per_group:
            return f"average over {_units(unit)} of the average of {of} of each"
        case Average():
            return f"average of {of}"
        case Variance():
            return f"variance of {of}"
        case Deviation():
            return f"standard deviation of {of}"
    return f"sum of {of}"


def cut_of(
    number: ReleasedAggregate, formula: Formula | None, unit: str, searched: Container[Contribution] = ()
) -> tuple[str, ...]:
    """Return what of a unit is cut, weighted down or left out, in sentences.

    `searched` says what the bounds that are still to be found are of.
    """
    argument = None if isinstance(formula, RowCount) else number.argument
    found = [] if argument is None else [_cut_values(argument, formula, unit)]
    rows = rows_of(number)
    if rows is not None and Contribution.ROWS in searched:
        found.append(f"rows of a {unit} beyond a number that is found privately are weighted down")
    elif rows is not None:
        found.append(f"{_of(rows, 'row', unit)} in all groups, rows beyond are weighted down")
    groups = Contribution.GROUPS in searched
    if groups and any(isinstance(part, UnitsOfFew) for part in number.parts):
        return (*found, f"a {unit} counts in a number of groups that is found privately, chosen by a hash")
    return (*found, *(text for part in number.parts if (text := _cut(part, unit))))


def _cut_values(argument: Argument, formula: Formula | None, unit: str) -> str:
    if argument.origin == KEPT:
        return f"the total of a {unit} in all groups is cut to {decimal(argument.high)} ({KEPT})"
    if argument.searched:
        what = f"the total of a {unit} in all groups" if formula is None else "each value"
        return f"{what} is cut to a bound that is {argument.origin}"
    what = "each value"
    if argument.per_group:
        what = f"the {'average' if isinstance(formula, Average) else 'total'} of a {unit} in a group"
    ends = f"{decimal(argument.low)} to {decimal(argument.high)}"
    return f"{what} is cut to {ends} ({argument.origin or 'as written'})"


def quantile_of(quantile: Quantile, part: CellRows) -> str:
    """Return what a quantile or extreme is."""
    if part.extreme:
        word = "largest" if part.extreme == "greatest" else "least"
        return f"{word} of {quantile.argument} that enough units reach"
    return f"quantile {decimal(quantile.q)} of {quantile.argument}"


def cells_of(quantile: Quantile, part: CellRows, unit: str) -> tuple[str, ...]:
    """Return what of a unit is cut or left out of a quantile, and among which values it is chosen."""
    size = 1_000_000 if quantile.type.moment else 1
    ends = ends_text(quantile.type, *(end * size for end in quantile.ends))
    found = [f"each value is cut to {ends} ({quantile.origin or 'as written'})"]
    if quantile.searched:
        found = [f"each value is cut to bounds that are {quantile.origin}"]
    if part.extreme:
        found.append(f"each {unit} counts once")
    elif not part.single:
        found.append(f"{_of(part.most, 'row', unit)} in all groups, chosen by a hash")
    if quantile.searched:
        return tuple(found)
    return (*found, f"chosen among {part.cells.number:,} public values")


def rows_of(number: ReleasedAggregate) -> int | None:
    """Return how many rows of a unit count in all groups together; None where nothing needs that bound."""
    match number.parts:
        case (RowSum(single=False, most=most) | WeightedRows(most=most),):
            return most
        case (Moment(vector=vector),) if not vector.single:
            return vector.most
    return None


def _of(number: int, noun: str, unit: str) -> str:
    """Write how many rows or values of a unit count."""
    return f"{with_noun(number, noun)} of a {unit} count{'s' if number == 1 else ''}"


def _units(unit: str) -> str:
    return "units" if unit == "unit" else f"units ({unit})"


def _count(part: Part, unit: str) -> str:
    match part:
        case OwnedValues() | DistinctValues():
            return "number of different values"
        case SingleRows() | BoundedRows():
            return "number of rows"
        case Units():
            return f"number of {_units(unit)}"
    return ""


def _cut(part: Part, unit: str) -> str:
    match part:
        case WeightedRows():
            return ""
        case OwnedValues(most=most):
            return f"{_of(most, 'value', unit)} in each group"
        case BoundedRows(most=most):
            return f"{_of(most, 'row', unit)} in each group, rows beyond do not"
        case DistinctValues(most=most, kept=True):
            return f"{_of(most, 'value', unit)} in each group, so that some may be missed"
        case UnitsOfFew(most=most):
            return f"a {unit} counts in {with_noun(most, 'group')}, chosen by a hash"
        case UnitMean():
            return f"each {unit} weighs the same"
    return ""
