"""The greatest power of 2 below a number, computed by its bits: the rung of a ladder of powers of 2.

``y`` is ``LEAST(GREATEST(a, 1) - 1, M)``, then ``y | (y >> s)`` for s = 1, 2, 4, .., each in a SELECT of its
own, and last ``CASE WHEN y = 0 THEN .. ELSE (y >> 1) + 1 END``.

*Lemma.* Let b be the number of bits of y at first, from 0 to M, with M < 2^(2^j) for j steps. After the steps
for 1, 2, .., 2^(i-1) the highest bit of y and the 2^i - 1 below it are set, and none above. So at last y is
2^b - 1, and (y >> 1) + 1 is 2^(b-1) if b >= 1. There b is the number of bits of M and a > 2^(b-1), or
2^(b-1) < a <= 2^b. And y = 0 says a <= 1.
"""

from __future__ import annotations

from typing import NamedTuple

from dpsql.kernel.check.proof import closed, converted, stripped, whole_number
from dpsql.kernel.check.types_of import INFINITY
from dpsql.kernel.check.types_of import Number as Real
from dpsql.kernel.tree import Binary, Call, Case, Column, Derived, Expr, Select


class Rungs(NamedTuple):
    """The rungs with the ends of a in each, a itself, and the SELECT that has a, with the columns above it."""

    leaves: list[tuple[int, Real, Real]]
    measured: Expr
    below: tuple[Select, dict[str, Expr]]


def highest_bit(query: Select, key: str) -> Rungs | None:
    """Return the rungs if the key of a query is one that bits tell; None if not."""
    shown = _columns(query)
    tree = None if shown is None else converted(shown[key])
    if shown is None or not isinstance(tree, Case) or len(tree.branches) != 1 or tree.default is None:
        return None
    (condition, low), above = tree.branches[0], converted(tree.default)
    condition = stripped(condition)
    if not (isinstance(condition, Binary) and condition.operator == "=" and whole_number(condition.right) == 0):
        return None
    y = stripped(condition.left)
    if not isinstance(y, Column) or not _is_half(above, y):
        return None
    at, columns = query, {name: expr for name, expr in shown.items() if name != key}
    shifts: list[int] = []
    while True:
        source = at.source
        if not isinstance(source, Derived) or not isinstance(source.query, Select) or y.table != source.alias:
            return None
        at, alias = source.query, source.alias
        inner = _columns(at)
        if inner is None or y.name not in inner:
            return None
        if not all(isinstance(x, Column) and x.table == alias and x.name in inner for x in columns.values()):
            return None
        columns = {n: stripped(inner[x.name]) for n, x in columns.items() if isinstance(x, Column)}
        low = _moved(low, alias, inner)
        step = converted(inner[y.name])
        shift = _shift(step)
        if shift is None:
            break
        shifts.insert(0, shift[1])
        y = shift[0]
    found = _first(step)
    if found is None or shifts != [1 << i for i in range(len(shifts))] or found[1] >= 1 << (1 << len(shifts)):
        return None
    a, most = found
    lowest = _lowest(converted(low), a)
    if lowest is None:
        return None
    leaves: list[tuple[int, Real, Real]] = [*lowest]
    top = most.bit_length()
    for bits in range(1, top + 1):
        leaves.append((1 << (bits - 1), (1 << (bits - 1)) + 1, INFINITY if bits == top else 1 << bits))
    return Rungs(leaves, a, (at, columns))


def _columns(query: Select) -> dict[str, Expr] | None:
    """Return the columns of a query of rows as they are, each once; None for other ones."""
    if query.where is not None or query.group or query.distinct or query.limit is not None or query.order:
        return None
    found: dict[str, Expr] = {}
    for item in query.items:
        name = item.name or (item.expr.name if isinstance(item.expr, Column) else "")
        if not name or name.lower() in (n.lower() for n in found):
            return None
        found[name] = item.expr
    return found


def _is_half(expr: Expr, y: Column) -> bool:
    """Return whether an expression is (y >> 1) + 1."""
    if not (isinstance(expr, Binary) and expr.operator == "+" and whole_number(expr.right) == 1):
        return False
    half = stripped(expr.left)
    return (
        isinstance(half, Binary)
        and half.operator == ">>"
        and stripped(half.left) == y
        and whole_number(half.right) == 1
    )


def _shift(expr: Expr) -> tuple[Column, int] | None:
    """Return y and s of y | (y >> s)."""
    if not (isinstance(expr, Binary) and expr.operator == "|"):
        return None
    y, moved = stripped(expr.left), stripped(expr.right)
    if not (isinstance(y, Column) and isinstance(moved, Binary) and moved.operator == ">>"):
        return None
    by = whole_number(moved.right)
    return None if stripped(moved.left) != y or by is None else (y, by)


def _first(expr: Expr) -> tuple[Column, int] | None:
    """Return a and M of LEAST(GREATEST(a, 1) - 1, M)."""
    least = closed(expr)
    if not (isinstance(least, Call) and least.name.upper() == "LEAST" and len(least.arguments) == 2):
        return None
    less, most = stripped(least.arguments[0]), whole_number(least.arguments[1])
    if not (isinstance(less, Binary) and less.operator == "-" and whole_number(less.right) == 1):
        return None
    above = stripped(less.left)
    if not (isinstance(above, Call) and above.name.upper() == "GREATEST" and len(above.arguments) == 2):
        return None
    a = stripped(above.arguments[0])
    if whole_number(above.arguments[1]) != 1 or most is None or most < 1 or not isinstance(a, Column):
        return None
    return a, most


def _moved(low: Expr, alias: str, inner: dict[str, Expr]) -> Expr:
    """Return the lowest rung, with its column a as the query below has it."""
    case = converted(low)
    if not isinstance(case, Case) or len(case.branches) != 1:
        return low
    (condition, above), condition_of = case.branches[0], stripped(case.branches[0][0])
    if not isinstance(condition_of, Binary) or not isinstance(condition_of.left, Column):
        return low
    a = condition_of.left
    if a.table != alias or a.name not in inner:
        return low
    del condition
    return Case(((Binary(condition_of.operator, inner[a.name], condition_of.right), above),), case.default)


def _lowest(low: Expr, a: Column) -> list[tuple[int, Real, Real]] | None:
    """Return the rungs of a <= 1."""
    constant = whole_number(low)
    if constant is not None:
        return [(constant, -INFINITY, 1)]
    if not isinstance(low, Case) or len(low.branches) != 1 or low.default is None:
        return None
    condition, above = low.branches[0]
    one, zero = whole_number(above), whole_number(low.default)
    if not isinstance(condition, Binary) or condition.operator != ">" or one is None or zero is None:
        return None
    if stripped(condition.left) != a or whole_number(condition.right) != 0:
        return None
    return [(one, 1, 1), (zero, -INFINITY, 0)]
