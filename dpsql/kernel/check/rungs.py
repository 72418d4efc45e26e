"""Cells of a search: units by the rung of a ladder that their number exceeds, with what they add up in each.

The query groups by k, a tree of CASE WHEN a > constant over one number a of a unit, whose leaves are
constants: the rung that a exceeds. A unit is one row, so it is in one cell, and there a lies between two
constants. What it adds to a number of the cell follows from the constant k and that interval, rung by rung.
So for each number there is what one unit changes in each cell, and no unit changes two cells. The key that
is shown may be any function of k: units of one rung are shown together.
"""

from __future__ import annotations

from dpsql.kernel.check.proof import (
    NONE,
    Proof,
    is_whole,
    nodes_of_row,
    strip_casts,
    strip_parens,
    strip_wide_casts,
    whole_number,
)
from dpsql.kernel.check.relation import Groups, Kind, Number, Relation, name_of
from dpsql.kernel.check.types_of import INFINITY, exact
from dpsql.kernel.check.types_of import Number as Real
from dpsql.kernel.check.types_of import ends as ends_of_type
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Call,
    Case,
    Cast,
    Column,
    Derived,
    Expr,
    Select,
)

Ends = tuple[Real, Real]
Known = dict[str, Ends]
"""The intervals of the columns k and a in one cell."""
MOST_CELLS = 256


def relation_of_rungs(
    proof: Proof, query: Select, source: Relation, names: tuple[str, ...], group: tuple[Expr, ...]
) -> Relation | None:
    """Return the cells of a search; None for other groups."""
    if len(group) != 1 or not isinstance(group[0], Column) or not isinstance(query.source, Derived):
        return None
    if source.strays or not source.single(NONE):
        return None
    key = group[0]
    cells = _cells(proof, query.source, key)
    if cells is None:
        return None
    numbers: dict[str, Number] = {}
    shown = ""
    places: list[int] = []
    for name, item in zip(names, query.items, strict=True):
        if any(isinstance(n, Aggregate) for n in nodes_of_row(item.expr)):
            continue
        ends = [_ends(proof, item.expr, cell) for cell in cells]
        if shown or not all(low == high and isinstance(low, int) for low, high in ends):
            return proof.refuse("a key of cells that is no function of the rung", item.expr)
        shown, places = name, [int(low) for low, _ in ends]
    if not shown:
        return proof.refuse("cells without a key", query)
    for name, item in zip(names, query.items, strict=True):
        if name == shown:
            continue
        changes = [_change(proof, item.expr, cell) for cell in cells]
        low, high = min(min(c) for c in changes), max(max(c) for c in changes)
        if INFINITY in (-low, high):
            return proof.refuse("a number of cells without bounds", item.expr)
        rungs = tuple((p, int(min(c[0], 0)), int(max(c[1], 0))) for p, c in zip(places, changes, strict=True))
        numbers[name] = Number(int(min(low, 0)), int(max(high, 0)), null=False, rungs=rungs)
    proof.note("cells of a search", f"a unit is in one of {len(cells)} cells")
    return Relation(
        Kind.GROUPS,
        names,
        unique=frozenset((frozenset((shown,)),)) if len(set(places)) == len(places) else frozenset(),
        few=((frozenset((shown,)), 1),),
        groups=Groups((shown,), numbers, cells={shown: (min(places), max(places))}, most=1),
    )


def _cells(proof: Proof, source: Derived, key: Column) -> list[Known] | None:
    """Return the intervals of k and a in each cell."""
    inner = source.query
    if not isinstance(inner, Select) or inner.group or inner.distinct:
        return None
    of = _columns(inner)
    tree = of.get(key.name)
    if tree is None or not isinstance(strip_casts(tree), Case):
        return None
    leaves: list[tuple[int, Real, Real]] = []
    if proof.value(tree, inner).nullable:
        return None
    same = _narrow_columns(inner)
    measured = _leaves(tree, -INFINITY, INFINITY, leaves, None, same)
    if measured is None or len(leaves) > MOST_CELLS:
        return None
    whole = proof.value(measured, inner)
    if whole.nullable or not exact(whole.type):
        return None
    others = {name: expr for name, expr in of.items() if name != key.name}
    cells: list[Known] = []
    for k, low, high in leaves:
        least = max(low, whole.low)
        most = min(high, whole.high)
        if least > most:
            continue
        cell: Known = {f"{source.alias}.{key.name}": (k, k)}
        for name, expr in others.items():
            if expr == measured:
                cell[f"{source.alias}.{name}"] = (least, most)
            elif expr in same and same[expr][0] == measured:
                top = same[expr][1]
                cell[f"{source.alias}.{name}"] = (min(least, top), min(most, top))
            else:
                value = proof.value(expr, inner)
                if not value.nullable:  # LEAST and GREATEST leave NULL out
                    cell[f"{source.alias}.{name}"] = (value.low, value.high)
        cells.append(cell)
    return _signed(source, of, measured, cells)


def _columns(query: Select) -> dict[str, Expr]:
    return {
        item.name or (item.expr.name if isinstance(item.expr, Column) else ""): item.expr
        for item in query.items
    }


def _narrow_columns(inner: Select) -> dict[Expr, tuple[Expr, int]]:
    """Return columns that are LEAST(a, most) of another column of the same rows, by themselves."""
    source = inner.source
    if not isinstance(source, Derived) or not isinstance(source.query, Select):
        return {}
    names = {
        strip_parens(item.expr): item.name or (item.expr.name if isinstance(item.expr, Column) else "")
        for item in source.query.items
    }
    found: dict[Expr, tuple[Expr, int]] = {}
    for item in source.query.items:
        least = strip_wide_casts(item.expr)
        if not (isinstance(least, Call) and least.name.upper() == "LEAST" and len(least.arguments) == 2):
            continue
        most, a = whole_number(least.arguments[1]), names.get(strip_parens(least.arguments[0]))
        if most is not None and a is not None and item.name and most < 1 << 63:
            found[Column(source.alias, item.name)] = (Column(source.alias, a), most)
    return found


def _signed(source: Derived, of: dict[str, Expr], measured: Expr, cells: list[Known]) -> list[Known]:
    """Narrow t where a is its absolute value."""
    if not (isinstance(measured, Column) and isinstance(source.query, Select)):
        return cells
    below = source.query.source
    if not isinstance(below, Derived) or not isinstance(below.query, Select) or below.alias != measured.table:
        return cells
    items = {
        item.name or (item.expr.name if isinstance(item.expr, Column) else ""): strip_parens(item.expr)
        for item in below.query.items
    }
    defined = items.get(measured.name)
    for name, expr in of.items():
        if not (isinstance(expr, Column) and expr.table == below.alias):
            continue
        other = items.get(expr.name)
        absolute = (
            isinstance(defined, Call) and defined.name.upper() == "ABS" and defined.arguments == (other,)
        )
        if not absolute and defined != other:
            continue
        column = next(f"{source.alias}.{n}" for n, e in of.items() if e == measured)
        for cell in cells:
            low, high = cell[column]
            old = cell.get(f"{source.alias}.{name}", (-INFINITY, INFINITY))
            least = -high if absolute else low
            cell[f"{source.alias}.{name}"] = (max(least, old[0]), min(high, old[1]))
    return cells


def _leaves(
    expr: Expr,
    low: Real,
    high: Real,
    found: list[tuple[int, Real, Real]],
    measured: Expr | None,
    same: dict[Expr, tuple[Expr, int]],
) -> Expr | None:
    """Collect the constants of a tree of CASE WHEN a > c, with the intervals of a; return a."""
    expr = strip_casts(expr)
    value = whole_number(expr)
    if value is not None:
        found.append((value, low, high))
        return measured
    if not isinstance(expr, Case) or len(expr.branches) != 1 or expr.default is None:
        return None
    condition, above = expr.branches[0]
    condition = strip_parens(condition)
    if not (isinstance(condition, Binary) and condition.operator == ">"):
        return None
    a, end = strip_parens(condition.left), whole_number(condition.right)
    if end is not None and a in same and end < same[a][1]:
        a = same[a][0]
    if end is None or not isinstance(a, Column) or (measured is not None and a != measured):
        return None
    if _leaves(above, max(low, end + 1), high, found, a, same) is None:
        return None
    return _leaves(expr.default, low, min(high, end), found, a, same)


def _change(proof: Proof, expr: Expr, cell: Known) -> Ends:
    """Return what one unit of a cell adds to a number of the cell."""
    expr = strip_casts(expr)
    match expr:
        case Aggregate("COUNT", (), False, (), None):
            return 1, 1
        case Aggregate("COUNT", (x,), False, (), None):
            del x
            return 0, 1
        case Aggregate("SUM", (x,), False, (), None):
            low, high = _ends(proof, x, cell)
            proof.sum_fits(expr, proof.selects[-1], low, high)
            return min(low, 0) if _may_be_null(x) else low, max(high, 0) if _may_be_null(x) else high
        case Call(name, (x, y)) if name.upper() == "COALESCE" and whole_number(y) == 0:
            return _change(proof, x, cell)
        case Call(name, (x, y)) if name.upper() in ("LEAST", "GREATEST"):
            end = whole_number(y)
            if end is None or (end > 0) != (name.upper() == "LEAST"):
                proof.refuse("a number that is cut to an interval without 0", expr)
            size = abs(end)
            low, high = _change(proof, x, cell)
            return max(min(low, 0), -2 * size), min(max(high, 0), 2 * size)
        case Binary("-" | "+" as operator, x, y):
            one, other = _change(proof, x, cell), _change(proof, y, cell)
            if operator == "-" and _is_excess(x, y):
                return _excess(proof, x, y, cell)
            if operator == "+":
                return one[0] + other[0], one[1] + other[1]
            return one[0] - other[1], one[1] - other[0]
        case Binary("//", x, y):
            divisor = _of_key(proof, y, cell)
            if divisor < 1:
                return proof.refuse("an unknown number of cells", expr)
            low, high = _change(proof, x, cell)
            return _floor(low, divisor), -_floor(-high, divisor)
        case Binary("*", x, y):
            factor = _of_key(proof, y, cell)
            low, high = _change(proof, x, cell)
            ends = (_times(low, factor), _times(high, factor))
            return min(ends), max(ends)
    return proof.refuse("an unknown number of cells", expr)


def _may_be_null(expr: Expr) -> bool:
    return whole_number(expr) is None


def _is_excess(x: Expr, y: Expr) -> bool:
    """Return whether a difference is SUM(a) - COUNT(*) * k."""
    one, two = strip_casts(x), strip_casts(y)
    return (
        isinstance(one, Aggregate)
        and one.name.upper() == "SUM"
        and len(one.arguments) == 1
        and not one.distinct
        and one.filter is None
        and isinstance(two, Binary)
        and two.operator == "*"
        and strip_casts(two.left) == Aggregate("COUNT")
    )


def _excess(proof: Proof, x: Expr, y: Expr, cell: Known) -> Ends:
    """Return what a unit adds to SUM(a) - COUNT(*) * c, where c is a constant of the cell."""
    total, product = strip_casts(x), strip_casts(y)
    if not isinstance(total, Aggregate) or not isinstance(product, Binary):
        return proof.refuse("an unknown number of cells", x)
    low, high = _ends(proof, total.arguments[0], cell)
    c = _of_key(proof, product.right, cell)
    return low - c, high - c


def _of_key(proof: Proof, expr: Expr, cell: Known) -> int:
    """Return the value of an expression of the key in a cell, where MAX of the key is the key."""
    low, high = _ends(proof, expr, cell)
    if low != high or not isinstance(low, int):
        return proof.refuse("an unknown number of cells", expr)
    return low


def _ends(proof: Proof, expr: Expr, cell: Known) -> Ends:
    """Return the least and greatest value of an expression of a unit's row in a cell."""
    expr = strip_parens(expr)
    if isinstance(expr, Cast) and is_whole(expr):
        low, high = _ends(proof, expr.operand, cell)
        least, most = ends_of_type(expr.type)
        if not least <= low <= high <= most:
            proof.refuse("a value of cells that may not fit its type", expr)
        return low, high
    value = whole_number(expr)
    if value is not None:
        return value, value
    match expr:
        case Column() if name_of(expr) in cell:
            return cell[name_of(expr)]
        case Aggregate("MAX" | "MIN", (Column() as x,), False, (), None) if name_of(x) in cell:
            low, high = cell[name_of(x)]
            if low == high:
                return low, high
        case Call(name, arguments) if name.upper() in ("LEAST", "GREATEST"):
            ends = [_ends(proof, x, cell) for x in arguments]
            pick = min if name.upper() == "LEAST" else max
            return pick(low for low, _ in ends), pick(high for _, high in ends)
        case Call("bit_count", (x,)):
            low, high = _ends(proof, x, cell)
            if low == high and isinstance(low, int) and low >= 0:
                return low.bit_count(), low.bit_count()
        case Binary("+" | "-" | "*" | "//" as operator, x, y):
            return _computed(proof, operator, _ends(proof, x, cell), _ends(proof, y, cell), expr)
        case Case(branches, default) if default is not None:
            return _chosen(proof, branches, default, cell)
    return proof.refuse("an unknown value of cells", expr)


def _chosen(proof: Proof, branches: tuple[tuple[Expr, Expr], ...], default: Expr, cell: Known) -> Ends:
    found: list[Ends] = []
    for condition, result in branches:
        holds = _holds(proof, strip_parens(condition), cell)
        if holds is not False:
            found.append(_ends(proof, result, cell))
        if holds is True:
            break
    else:
        found.append(_ends(proof, default, cell))
    return min(low for low, _ in found), max(high for _, high in found)


def _holds(proof: Proof, condition: Expr, cell: Known) -> bool | None:
    """Return whether a comparison holds in all of a cell, in none of it, or (None) in some of it."""
    if not isinstance(condition, Binary) or condition.operator not in ("<", ">", "<=", ">="):
        return None
    x, y = _ends(proof, condition.left, cell), _ends(proof, condition.right, cell)
    if condition.operator in ("<", "<="):
        x, y = y, x
    strict = condition.operator in ("<", ">")
    if x[0] > y[1] or (not strict and x[0] >= y[1]):
        return True
    if x[1] < y[0] or (strict and x[1] <= y[0]):
        return False
    return None


def _floor(x: Real, divisor: int) -> Real:
    return x // divisor if isinstance(x, int) else x


def _times(x: Real, factor: Real) -> Real:
    return 0 if 0 in (x, factor) else x * factor


def _computed(proof: Proof, operator: str, x: Ends, y: Ends, expr: Expr) -> Ends:
    if operator == "+":
        return x[0] + y[0], x[1] + y[1]
    if operator == "-":
        return x[0] - y[1], x[1] - y[0]
    if operator == "*":
        ends = [_times(p, q) for p in x for q in y]
        return min(ends), max(ends)
    if y[0] < 1 or y[0] != y[1] or not isinstance(y[0], int):
        return proof.refuse("a division by what is not one number", expr)
    return _towards_zero(x[0], y[0]), _towards_zero(x[1], y[0])


def _towards_zero(x: Real, divisor: int) -> Real:
    if not isinstance(x, int):
        return x
    return x // divisor if x >= 0 else -(-x // divisor)
