"""Cells of a search: units by the rung of a ladder that their number exceeds, with what they add up in each.

There are two forms. In one the query groups by k, a tree of CASE WHEN a > constant over one number a of a
unit, whose leaves are constants: the rung that a exceeds. In the other it joins one row of each unit to rows
of constants, by a > low AND a <= high, where the intervals of no two of these rows meet, and groups by a
constant k that is another one in each of them. In both a unit is one row, so it is in one cell, and there a
lies between two constants. What it adds to a number of the cell follows from the constants of the cell and
that interval. So for each number there is what one unit changes in each cell, and no unit changes two cells.
The key that is shown may be any function of the cell: units of one rung are shown together.
"""

from __future__ import annotations

from itertools import pairwise

from dpsql.kernel.check.cells import Cells, Ends, computed, counted, ends_in, key_in
from dpsql.kernel.check.proof import (
    NONE,
    Proof,
    conjuncts,
    has_aggregate,
    is_whole,
    strip_casts,
    strip_parens,
    strip_wide_casts,
    whole_number,
)
from dpsql.kernel.check.relation import Groups, Kind, Number, Relation, name_of
from dpsql.kernel.check.types_of import INFINITY, exact, fits
from dpsql.kernel.check.types_of import Number as Real
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Call,
    Case,
    Cast,
    Column,
    Derived,
    Expr,
    Item,
    Join,
    Paren,
    Query,
    Select,
    Values,
)

MOST_CELLS = 256


def relation_of_rungs(
    proof: Proof, query: Select, source: Relation, names: tuple[str, ...], group: tuple[Expr, ...]
) -> Relation | None:
    """Return the cells of a search; None for other groups."""
    if len(group) != 1 or not isinstance(group[0], Column):
        return None
    cells = _cells(proof, query, source, group[0])
    if cells is None:
        return None
    numbers: dict[str, Number] = {}
    shown, places = "", list[int]()
    for name, item in zip(names, query.items, strict=True):
        if has_aggregate(item.expr):
            continue
        ends = ends_in(proof, item.expr, cells)
        if shown or not ends.known:
            return proof.refuse("a key of cells that is no function of the rung", item.expr)
        shown, places = name, [int(low) for low in ends.low]
    if not shown:
        return proof.refuse("cells without a key", query)
    for name, item in zip(names, query.items, strict=True):
        if name == shown:
            continue
        changes = _change(proof, item.expr, cells)
        low, high = min(changes.low), max(changes.high)
        if INFINITY in (-low, high):
            return proof.refuse("a number of cells without bounds", item.expr)
        each = zip(places, changes.low, changes.high, strict=True)
        found: dict[int, tuple[int, int]] = {}
        for place, least, most in each:
            old = found.get(place, (0, 0))
            found[place] = int(min(least, old[0])), int(max(most, old[1]))
        rungs = tuple((place, *ends_of_place) for place, ends_of_place in found.items())
        numbers[name] = Number(int(min(low, 0)), int(max(high, 0)), null=False, rungs=rungs)
    number = len(set(cells.cell))
    proof.note("cells of a search", f"a unit is in one of {number} cells")
    return Relation(
        Kind.GROUPS,
        names,
        unique=frozenset((frozenset((shown,)),)) if len(set(places)) == number else frozenset(),
        few=((frozenset((shown,)), 1),),
        groups=Groups((shown,), numbers, cells={shown: (min(places), max(places))}, most=1),
    )


def _is_row_of_unit(relation: Relation) -> bool:
    """Return whether each unit has one row, and each row is of one unit."""
    return relation.kind is Kind.OWNED and not relation.strays and relation.single(NONE)


def _cells(proof: Proof, query: Select, source: Relation, key: Column) -> Cells | None:
    """Return the intervals of columns in each cell."""
    match query.source:
        case Derived():
            return _cells_of_key(proof, query.source, key) if _is_row_of_unit(source) else None
        case Join(Derived() as units, "" | "INNER", Derived() as rows, on) if on is not None:
            if any(item.expr == key for item in query.items):
                return None  # what other rules are for
            return _cells_of_rows(proof, query, units, rows, on, key)
    return None


def _columns(query: Select) -> dict[str, Expr]:
    return {item.column: item.expr for item in query.items}


# -- rows of constants


def _cells_of_rows(
    proof: Proof, query: Select, units: Derived, rows: Derived, on: Expr, key: Column
) -> Cells | None:
    """Return a cell for each row of constants: units meet it whose number is in its interval."""
    found = _constant_rows(rows.query)
    if found is None or key.table != rows.alias:
        return None
    constants: dict[str, Ends] = {}
    for place, name in enumerate(found[0]):
        values = [row[place] for row in found[1]]
        constants[f"{rows.alias}.{name}"] = Ends(values, values)
    # Derived for the join already, so that no step of it is taken again.
    own = proof.known.get(id(units.query))
    if own is None or not _is_row_of_unit(own):
        return None
    keys = constants.get(name_of(key))
    if keys is None or len(set(keys.low)) < len(keys.low) or len(keys.low) > MOST_CELLS:
        return None
    only = Cells(len(keys.low), constants, range(len(keys.low)))
    measured, low, high = _interval(proof, conjuncts(on), units.alias, only)
    if measured is None or not isinstance(measured, Column):
        return None
    ordered = sorted(zip(low, high, strict=True))
    if any(first[1] > second[0] for first, second in pairwise(ordered)):
        return None
    whole = proof.value(measured, query)
    if whole.nullable or not exact(whole.type):
        return None
    least, most = [max(x + 1, whole.low) for x in low], [min(x, whole.high) for x in high]
    there = [i for i in range(only.number) if least[i] <= most[i]]
    cells = only.at(there)
    own_columns = _columns(units.query) if isinstance(units.query, Select) else {}
    for name in own_columns:
        column = Column(units.alias, name)
        value = whole if name == measured.name else proof.value(column, query)
        if not value.nullable:
            same = Ends([value.low] * cells.number, [value.high] * cells.number)
            cells.columns[f"{units.alias}.{name}"] = same
    cells.columns[name_of(measured)] = Ends([least[i] for i in there], [most[i] for i in there])
    return _split_by_sign(cells, name_of(measured), units.alias, units.query, {n: n for n in own_columns})


def _constant_rows(query: Query) -> tuple[tuple[str, ...], list[tuple[int, ...]]] | None:
    """Return the names of columns and the rows of a list of whole numbers, each column under its own name."""
    if not isinstance(query, Select) or not isinstance(query.source, Values):
        return None
    listed = query.source
    own = tuple(Item(Column(listed.alias, name), name) for name in listed.columns)
    if query != Select(own, listed):
        return None
    found: list[tuple[int, ...]] = []
    for row in listed.rows:
        values = [whole_number(cell) for cell in row]
        if None in values:
            return None
        found.append(tuple(value for value in values if value is not None))
    return listed.columns, found


def _interval(
    proof: Proof, conditions: list[Expr], alias: str, cells: Cells
) -> tuple[Expr | None, list[int], list[int]]:
    """Return a of a > low AND a <= high, a column of units, with the ends in each row of constants."""
    ends: dict[str, list[int]] = {}
    measured: Expr | None = None
    for condition in conditions:
        if not isinstance(condition, Binary) or condition.operator not in (">", "<="):
            return None, [], []
        a = strip_parens(condition.left)
        if not (isinstance(a, Column) and a.table == alias) or (measured is not None and a != measured):
            return None, [], []
        if condition.operator in ends:
            return None, [], []
        measured = a
        ends[condition.operator] = [*key_in(proof, condition.right, cells)]
    if len(ends) < 2:
        return None, [], []
    return measured, ends[">"], ends["<="]


# -- a tree of conditions


def _cells_of_key(proof: Proof, source: Derived, key: Column) -> Cells | None:
    """Return a cell for each leaf of the tree of conditions that is the key."""
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
    same = {a: of for a, of in _narrow_columns(inner).items() if not proof.value(a, inner).nullable}
    measured = _leaves(tree, -INFINITY, INFINITY, leaves, None, same)
    if not isinstance(measured, Column) or len(leaves) > MOST_CELLS:
        return None
    whole = proof.value(measured, inner)
    if whole.nullable or not exact(whole.type):
        return None
    there = [(k, max(low, whole.low), min(high, whole.high)) for k, low, high in leaves]
    there = [leaf for leaf in there if leaf[1] <= leaf[2]]
    number = len(there)
    if not number:
        return None
    rungs = [k for k, _, _ in there]
    least, most = [low for _, low, _ in there], [high for _, _, high in there]
    cells = Cells(number, {f"{source.alias}.{key.name}": Ends(rungs, rungs)}, range(number))
    for name, expr in of.items():
        if name == key.name:
            continue
        if expr == measured:
            cells.columns[f"{source.alias}.{name}"] = Ends(least, most)
        elif expr in same and same[expr][0] == measured:
            top = same[expr][1]
            ends = Ends([min(x, top) for x in least], [min(x, top) for x in most])
            cells.columns[f"{source.alias}.{name}"] = ends
        else:
            value = proof.value(expr, inner)
            if not value.nullable:  # LEAST and GREATEST leave NULL out
                cells.columns[f"{source.alias}.{name}"] = Ends([value.low] * number, [value.high] * number)
    shown = {name: e.name for name, e in of.items() if isinstance(e, Column) and e.table == measured.table}
    column = next((name for name, e in of.items() if e == measured), None)
    if column is None or not isinstance(inner.source, Derived) or inner.source.alias != measured.table:
        return cells
    return _split_by_sign(cells, f"{source.alias}.{column}", source.alias, inner.source.query, shown)


def _narrow_columns(inner: Select) -> dict[Expr, tuple[Expr, int]]:
    """Return columns that are LEAST(a, most) of another column of the same rows, by themselves."""
    source = inner.source
    if not isinstance(source, Derived) or not isinstance(source.query, Select):
        return {}
    names = {strip_parens(item.expr): item.column for item in source.query.items}
    found: dict[Expr, tuple[Expr, int]] = {}
    for item in source.query.items:
        least = strip_wide_casts(item.expr)
        if not (isinstance(least, Call) and least.name.upper() == "LEAST" and len(least.arguments) == 2):
            continue
        most, a = whole_number(least.arguments[1]), names.get(strip_parens(least.arguments[0]))
        if most is not None and a is not None and item.name and most < 1 << 63:
            found[Column(source.alias, item.name)] = (Column(source.alias, a), most)
    return found


def _split_by_sign(cells: Cells, measured: str, alias: str, query: Query, shown: dict[str, str]) -> Cells:
    """Return the cells with other columns narrowed: those equal to the one that is measured, or signed.

    If that is the absolute value of one, each cell is two: of units that have less than 0, and of the others.
    `shown` are the names in `query` of the columns that cells name with the alias.
    """
    ends = cells.columns[measured]
    own = shown.get(measured.removeprefix(f"{alias}."), "")
    for name, inner in shown.items():
        column = f"{alias}.{name}"
        relation = _relation_of(query, own, inner) if column != measured else None
        if relation == "equal":
            cells.columns[column] = ends
        elif relation == "absolute":
            below = [i for i in range(cells.number) if ends.high[i] > 0]
            both = cells.at([*range(cells.number), *below])
            low = [*ends.low, *(-ends.high[i] for i in below)]
            high = [*ends.high, *(-max(ends.low[i], 1) for i in below)]
            both.columns[column] = Ends(low, high)
            return both
    return cells


def _relation_of(query: Query, own: str, other: str) -> str:
    """Return whether a column is the absolute value of another one, or equal to it, in the same rows."""
    while isinstance(query, Select):
        items = {name: strip_parens(expr) for name, expr in _columns(query).items()}
        one, two = items.get(own), items.get(other)
        if one is None or two is None:
            return ""
        if one == two:
            return "equal"
        if isinstance(one, Call):
            return "absolute" if one.name.upper() == "ABS" and one.arguments == (two,) else ""
        below = query.source
        if not (isinstance(below, Derived) and isinstance(one, Column) and isinstance(two, Column)):
            return ""
        if query.group or {one.table, two.table} != {below.alias}:
            return ""
        query, own, other = below.query, one.name, two.name
    return ""


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


# -- what a unit adds


def _bare(proof: Proof, expr: Expr) -> Expr:
    """Return a number of a cell without parentheses and conversions that it fits: none makes NULL of it."""
    while True:
        if isinstance(expr, Paren):
            expr = expr.inner
        elif isinstance(expr, Cast) and is_whole(expr):
            value = proof.value(expr.operand, proof.selects[-1])
            if not exact(value.type) or not fits(value, expr.type):
                return proof.refuse("a number that may not fit its type", expr)
            expr = expr.operand
        else:
            return expr


def _change(proof: Proof, expr: Expr, cells: Cells) -> Ends:
    """Return how far one unit of a cell moves a number of the cell, whatever other units are in it.

    LEAST and GREATEST grow no distance, nor does a move through 0 that goes up or down. A number that both
    cut moves by no more than their ends differ, and one that no unit lowers is from 0 on. A quotient is
    rounded towards 0, so near 0 a number with either sign may move and its quotient not.
    """
    expr = _bare(proof, expr)
    match expr:
        case Aggregate("COUNT", (), False, (), None):
            return Ends([1] * cells.number, [1] * cells.number)
        case Aggregate("COUNT", (x,), False, (), None):
            return counted(proof, x, cells)
        case Aggregate("SUM", (x,), False, (), None):
            return _added(proof, expr, x, cells)
        case Call(name, (x, y)) if name.upper() == "COALESCE" and whole_number(y) == 0:
            return _change(proof, x, cells)
        case Call(name, (x, y)) if name.upper() in ("LEAST", "GREATEST"):
            end = whole_number(y)
            if end is None or (end > 0) != (name.upper() == "LEAST"):
                return proof.refuse("a number that is cut to an interval without 0", expr)
            found = _change(proof, x, cells)
            most = _width(_bare(proof, x), name.upper(), end, found)
            return Ends(
                [max(min(x, 0), -most) for x in found.low], [min(max(x, 0), most) for x in found.high]
            )
        case Binary("-" | "+" as operator, x, y):
            if operator == "-" and _is_excess(proof, x, y):
                return _excess(proof, x, y, cells)
            return computed(proof, operator, _change(proof, x, cells), _change(proof, y, cells), expr)
        case Binary("//", x, y):
            divisors, found = key_in(proof, y, cells), _change(proof, x, cells)
            if min(divisors) < 1:
                return proof.refuse("an unknown number of cells", expr)
            if min(found.low) < 0:
                found = Ends([min(low, 0) for low in found.low], [max(high, 0) for high in found.high])
            return Ends(
                [_floor(low, d) for low, d in zip(found.low, divisors, strict=True)],
                [-_floor(-high, d) for high, d in zip(found.high, divisors, strict=True)],
            )
        case Binary("*", x, y):
            factors = key_in(proof, y, cells)
            return computed(proof, "*", _change(proof, x, cells), Ends(factors, factors), expr)
    return proof.refuse("an unknown number of cells", expr)


def _width(x: Expr, name: str, end: int, found: Ends) -> Real:
    """Return how far a number that is cut at one end, and x at the other, can move at most."""
    if isinstance(x, Call) and {name, x.name.upper()} == {"LEAST", "GREATEST"} and len(x.arguments) == 2:
        other = whole_number(x.arguments[1])
        if other is not None and (other > 0) == (name == "GREATEST"):
            return abs(end) + abs(other)
    return end if end > 0 and min(found.low) >= 0 else INFINITY


def _floor(x: Real, divisor: int) -> Real:
    return x // divisor if isinstance(x, int) else x  # an infinity


def _added(proof: Proof, total: Aggregate, x: Expr, cells: Cells) -> Ends:
    """Return what a unit adds to SUM(x); of x that can be NULL it may be nothing."""
    ends = ends_in(proof, x, cells)
    proof.sum_fits(total, proof.selects[-1], min(ends.low), max(ends.high))
    if whole_number(x) is not None:
        return ends
    return Ends([min(low, 0) for low in ends.low], [max(high, 0) for high in ends.high])


def _is_excess(proof: Proof, x: Expr, y: Expr) -> bool:
    """Return whether a difference is SUM(a) - COUNT(*) * k."""
    one, two = _bare(proof, x), _bare(proof, y)
    return (
        isinstance(one, Aggregate)
        and one.name.upper() == "SUM"
        and len(one.arguments) == 1
        and not one.distinct
        and one.filter is None
        and isinstance(two, Binary)
        and two.operator == "*"
        and _bare(proof, two.left) == Aggregate("COUNT")
    )


def _excess(proof: Proof, x: Expr, y: Expr, cells: Cells) -> Ends:
    """Return what a unit adds to SUM(a) - COUNT(*) * c, where c is a constant of the cell."""
    total, product = _bare(proof, x), _bare(proof, y)
    if not isinstance(total, Aggregate) or not isinstance(product, Binary):
        return proof.refuse("an unknown number of cells", x)
    _added(proof, total, total.arguments[0], cells)
    rungs = key_in(proof, product.right, cells)
    return computed(proof, "-", ends_in(proof, total.arguments[0], cells), Ends(rungs, rungs), x)
