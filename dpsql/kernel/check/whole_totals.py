"""Sums of DOUBLEs that are exact: of whole numbers from 0 on, in any order of rows."""

from __future__ import annotations

from dpsql.kernel.check.certificate import NotCertified
from dpsql.kernel.check.derive import Around, derive
from dpsql.kernel.check.types_of import Value
from dpsql.kernel.tree import Aggregate, Binary, Call, Case, Cast, Column, Constant, Expr, IsNull
from dpsql.kernel.tree.expressions import EXACT
from dpsql.types import BIGINT, DOUBLE


def whole_total(node: Case, at: Around) -> Value | None:
    """Return what is known of CASE WHEN total < 2^53 THEN CAST(total AS BIGINT) ELSE 2^53 END.

    The total is COALESCE(SUM(x), 0.0), where x is floor(y * 2^n + 0.5) of a column y from 0 on, NULL for
    NULL, and 2^53 for less than 0.

    Proof: each x is a whole number from 0 on, infinite or NaN. With an infinity or NaN the sum is one, and
    neither is less. Else sums grow with each row, and are exact up to 2^53. If the last is less, all were
    exact, in any order. If it is not, some sum reached 2^53, was rounded to that or more, and so were all
    after it: in no order is the last one less.
    """
    if len(node.branches) != 1 or node.default is None:
        return None
    condition, result = node.branches[0]
    match condition, result:
        case Binary("<", Call("COALESCE", (summed, zero)) as total, most), Cast(same, kind):
            ends = zero, most, same, kind, node.default
        case _:
            return None
    limit = Constant(float(EXACT), DOUBLE)
    if ends != (Constant(0.0, DOUBLE), limit, total, BIGINT, Constant(EXACT, BIGINT)):
        return None
    column = _of_column(summed, limit)
    if column is None:
        return None
    if at.found is None or at.caught:
        raise NotCertified("an aggregate where none can be", node)
    if derive(column, at._replace(found=None)).type != DOUBLE:
        return None
    at.found.append(summed)  # and the same one again
    return Value(BIGINT, 0, EXACT, nullable=False)


def _of_column(summed: Expr, limit: Constant) -> Column | None:
    """Return the column of which such a sum is made."""
    match summed:
        case Aggregate("SUM", (Case(((there, nearest), (none, null)), other),), False, (), None):
            pass
        case _:
            return None
    match nearest:
        case Call(
            "floor", (Binary("+", Binary("*", Column() as column, Constant(float() as factor)), half),)
        ):
            pass
        case _:
            return None
    power = factor.is_integer() and factor > 0 and int(factor) & (int(factor) - 1) == 0
    written = (
        Binary(">=", column, Constant(0.0, DOUBLE)),
        IsNull(column),
        Constant(None, DOUBLE),
        Constant(0.5, DOUBLE),
        limit,
    )
    return column if power and (there, none, null, half, other) == written else None
