"""Numbers of groups that hold rows of many units, and the units of the values of a key.

Rows of a unit are in groups by their keys. A number of a group adds up what its rows add, or counts units;
without the rows of the unit u it changes by what the rows of u in the group add, since all other rows are
the same.

*Units.* COUNT(DISTINCT u), of the unit or of the unit where a condition holds: u adds one, or nothing.
*Single rows.* If a unit has at most one row in a group, COUNT changes by at most 1, and SUM(x) of values
from L to H by something between min(L, 0) and max(H, 0). If it has at most m rows, by m times that.
*Different values.* COUNT(DISTINCT v): the values of a group are the union of those of its units; without u,
at most those are lost that u has.
*First values.* The sum of FirstCount over a group of equal `within` counts each value once: the same number.
Rows without a unit add nothing, as each rule makes sure of.

A function of a number that does not decrease, is 0 at 0 and does not grow distances, such as LEAST and
GREATEST with constants, keeps all bounds.
"""

from __future__ import annotations

from dpsql.kernel.check.bounding import Share, ends_of_row, share_of, sums_of
from dpsql.kernel.check.distinct import never_null
from dpsql.kernel.check.marks import FirstCount, Kept, OfUnit, Sums
from dpsql.kernel.check.proof import (
    NONE,
    Proof,
    has_aggregate,
    has_window,
    is_whole,
    reads_of,
    strip_casts,
    strip_parens,
    whole_number,
)
from dpsql.kernel.check.relation import Groups, Kind, Names, Number, Relation, name_of
from dpsql.kernel.check.rungs import relation_of_rungs
from dpsql.kernel.check.subqueries import check_row
from dpsql.kernel.check.types_of import INFINITY, exact
from dpsql.kernel.check.types_of import Number as Real
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Call,
    Case,
    Cast,
    Column,
    Expr,
    Paren,
    Select,
)


def relation_of_parents(
    proof: Proof, query: Select, source: Relation, names: tuple[str, ...], group: tuple[Expr, ...]
) -> Relation | None:
    """Return the unit of each value of a column of a declared table: the least one; None for other queries.

    All rows of the table that have a unit are read, so it is the unit to which a row of a child table
    belongs.
    """
    if source.table is None or len(group) != 1 or source.strays or len(names) != 2:
        return None
    table, alias = source.table
    (key,) = group
    if not (isinstance(key, Column) and key.stored and key.table == alias):
        return None
    least = [i for i, item in enumerate(query.items) if isinstance(item.expr, Aggregate)]
    keys = [i for i, item in enumerate(query.items) if item.expr == key]
    if len(least) != 1 or len(keys) != 1:
        return None
    unit = query.items[least[0]].expr
    if not isinstance(unit, Aggregate) or unit.name.upper() != "MIN" or len(unit.arguments) != 1:
        return None
    if unit.arguments[0] not in source.unit or unit.filter is not None:
        return None
    proof.note("units of keys", f"a value of {key.name} of {table} belongs to the least unit of its rows")
    return Relation(
        Kind.PARENTS,
        names,
        frozenset((Column("", names[least[0]]),)),
        groups=Groups((names[keys[0]],), {}),
        table=(table, key.name),
    )


def relation_of_groups(
    proof: Proof, query: Select, source: Relation, names: tuple[str, ...], group: tuple[Expr, ...]
) -> Relation:
    """Return the groups of rows of many units, with their numbers."""
    rungs = relation_of_rungs(proof, query, source, names, group)
    if rungs is not None:
        return rungs
    for expr in group:
        check_row(proof, expr, source)
        if has_window(expr):
            proof.refuse("a window among keys", expr)
        if source.merged and not reads_of(expr) <= frozenset[str]().union(*source.unique):
            proof.refuse("a key of numbers of units that share a row", expr)
    plain = frozenset(name_of(expr) for expr in group if isinstance(expr, Column))
    counted = _Counted(proof, query, source, plain, source.single(plain))
    keys: dict[str, Expr] = {}
    numbers: dict[str, Number] = {}
    for place, (name, item) in enumerate(zip(names, query.items, strict=True)):
        proof.path.append(f"items[{place}]")
        if item.expr in group:
            keys[name] = item.expr
        elif has_aggregate(item.expr):
            numbers[name] = counted.number(item.expr)
        else:
            proof.refuse("a column of a group that is neither key nor number", item.expr)
        proof.path.pop()
    if set(group) - set(keys.values()):
        proof.refuse("groups without one of their keys", query)
    return relation_of_numbers(proof, source, query, keys, numbers, declared=not group)


def relation_of_numbers(
    proof: Proof,
    source: Relation,
    query: Select,
    keys: dict[str, Expr],
    numbers: dict[str, Number],
    *,
    declared: bool,
) -> Relation:
    """Return groups by keys, which `query` reads of rows of units, with their numbers."""
    few = _few(source, keys)
    proof.note("numbers of groups", f"{len(numbers)} numbers of groups by {len(keys)} keys")
    cells = {}
    whole: dict[str, tuple[Real, Real]] = {}
    for name, expr in keys.items():
        value = proof.value(expr, query)
        if exact(value.type):
            whole[name] = (-INFINITY, INFINITY)
        never = not value.nullable or never_null(proof, query, expr)
        if never and exact(value.type) and isinstance(value.low, int) and isinstance(value.high, int):
            cells[name] = (value.low, value.high)
    others = {name_of(e) for name, e in keys.items() if isinstance(e, Column) and name not in cells}
    follows = source.closure(others)
    one = bool(cells) and all(reads_of(keys[name]) <= follows for name in cells)
    most = min((m for by, m in few if by >= keys.keys()), default=None)
    return Relation(
        Kind.GROUPS,
        (*keys, *numbers),
        unique=frozenset((frozenset(keys),)),
        few=few,
        groups=Groups(
            tuple(keys), numbers, declared=declared, cells=cells, whole=whole, most=most, one_cell=one
        ),
    )


def _few(source: Relation, keys: dict[str, Expr]) -> tuple[tuple[Names, int], ...]:
    """Return in how many different values of keys the rows of one unit are."""
    reads = {name: reads_of(expr) for name, expr in keys.items()}
    found: list[tuple[Names, int]] = []
    for by, most in ((NONE, 1), *source.few):
        closed = source.closure(by)
        reached = frozenset(name for name, of in reads.items() if of <= closed)
        if reached or not keys:
            found.append((reached, most))
    return tuple(found)


class _Counted:
    """What is counted: the query, its rows, its plain keys, and whether a unit has one row in a group."""

    def __init__(self, proof: Proof, query: Select, source: Relation, keys: Names, single: bool) -> None:
        self.proof = proof
        self.query = query
        self.source = source
        self.keys = keys
        self.single = single

    def number(self, expr: Expr) -> Number:
        """Return what a unit changes of a number of a group."""
        match expr:
            case Paren(x):
                return self.number(x)
            case Cast(x) if is_whole(expr):
                return self._fitting(expr, self.number(x))
            case Call(name, (x, y)) if name.upper() == "COALESCE" and whole_number(y) == 0:
                return _with(self.number(x), null=False)
            case Call(name, (x, y)) if name.upper() in ("LEAST", "GREATEST"):
                found, end = self.number(x), whole_number(y)
                if end is None or found.null or (end > 0) != (name.upper() == "LEAST"):
                    return self.proof.refuse("a number that is cut to an interval without 0", expr)
                return found
            case Binary("-" | "+" as operator, x, y):
                return self._rows(expr) or _sum(self.number(x), self.number(y), operator, self, expr)
            case Binary("*", x, y) if (factor := whole_number(y)) is not None:
                found = self.number(x)
                ends = found.low * factor, found.high * factor
                total = None if found.total is None else found.total * abs(factor)
                return Number(min(ends), max(ends), total, found.null)
            case Aggregate():
                check_row(self.proof, _argument_alone(expr, self.source), self.source)
                return self._aggregate(expr)
        return self.proof.refuse("an unknown kind of number", expr)

    def _fitting(self, expr: Cast, found: Number) -> Number:
        """Return the number if the conversion never fails, which would make nothing of it."""
        value = self.proof.value(expr.operand, self.query)
        if not exact(value.type):
            self.proof.refuse("a number that a conversion may round", expr)
        if expr.type.name == "HUGEINT":
            return found
        most = 1 << (expr.type.bits - (1 if expr.type.signed else 0))
        if not (-most if expr.type.signed else 0) <= value.low <= value.high < most and not self._of_rows(
            expr
        ):
            self.proof.refuse("a number that may not fit its type", expr)
        return found

    def _of_rows(self, expr: Cast) -> bool:
        """Return whether a number adds up numbers of rows, or less, of each unit.

        Then it is at most the number of all rows, which fits. Weights of counts are never more than the
        count.
        """
        total = strip_casts(expr.operand)
        if expr.type.bits < 64 or not (
            isinstance(total, Aggregate) and total.name.upper() == "SUM" and len(total.arguments) == 1
        ):
            return False
        x = strip_casts(total.arguments[0])
        while isinstance(x, Call) and x.name.upper() == "LEAST":
            x = strip_casts(x.arguments[0])
        if isinstance(x, Case) and share_of(self.proof, x, self.query, self.source).total is not None:
            x = strip_casts(x.branches[0][1])
        mark = self.source.marks.get(name_of(x)) if isinstance(x, Column) else None
        return isinstance(mark, FirstCount) or (isinstance(mark, Sums) and mark.count() is not None)

    def _rows(self, expr: Expr) -> Number | None:
        """Return the change of a sum of terms of single rows."""
        if not self.single or self.source.merged or self.source.strays or self.source.shared:
            return None
        found = sums_of(self.proof, expr, self.query, self.source)
        if found is None:
            return None
        ends = ends_of_row(self.proof, found[0])
        if ends is None or INFINITY in (-ends[0], ends[1]):
            return None
        self.proof.note("single rows", f"the only row of a unit adds from {ends[0]} to {ends[1]}")
        return Number(_floor(min(ends[0], 0)), -_floor(-max(ends[1], 0)), self._total(found[0]))

    def _total(self, sums: Sums) -> int | None:
        """Return what a unit changes a weighted sum of shares by in all groups: the sum of what each may."""
        total = 0
        for (kind, x), factor in sums.terms:
            if kind != "sum" or x is None or sums.of is not self.query:
                return None
            found = share_of(self.proof, x, self.query, self.source).total
            if found is None:
                return None
            total += abs(factor) * found
        return total

    def _aggregate(self, expr: Aggregate) -> Number:
        name = expr.name.upper()
        if expr.filter is not None or expr.order or len(expr.arguments) > 1:
            return self.proof.refuse("an aggregate with FILTER or ORDER BY", expr)
        if name == "COUNT" and expr.distinct and expr.arguments:
            return self._different(expr, expr.arguments[0])
        if name == "COUNT" and not expr.distinct:
            return self._count(expr)
        if name == "SUM" and not expr.distinct and expr.arguments:
            return self._sum(expr, expr.arguments[0])
        return self.proof.refuse("an aggregate of rows of many units", expr)

    def _different(self, expr: Aggregate, x: Expr) -> Number:
        source = self.source
        if not source.by_row and _unit_where(x) in source.unit:
            self.proof.note("units", "a unit is counted once in each group")
            return Number(0, 1)
        mark = source.marks.get(name_of(x)) if isinstance(x, Column) else None
        if type(mark) is Kept and mark.within <= source.closure(self.keys):
            self.proof.note("different values", f"a unit has at most {mark.most} values in each group")
            return Number(0, mark.most)
        if self.single and not source.merged and self._of_units(x):
            self.proof.note("single rows", "a unit has one value in each group")
            return Number(0, 1)
        return self.proof.refuse("different values of which a unit may have any number", expr)

    def _of_units(self, x: Expr | None) -> bool:
        """Return whether a value is NULL in all rows without a unit that may depend on units."""
        if not self.source.strays:
            return True
        if x is None:
            return False
        if _unit_where(x) in self.source.unit:
            return True
        return isinstance(x, Column) and isinstance(self.source.marks.get(name_of(x)), (OfUnit, Kept))

    def _count(self, expr: Aggregate) -> Number:
        x = expr.arguments[0] if expr.arguments else None
        if self.source.merged or not self._of_units(x):
            return self.proof.refuse("a count of rows without a unit", expr)
        if self.single:
            self.proof.note("single rows", "a unit has at most one row in each group")
            return Number(0, 1, self._where_positive(x))
        return self.proof.refuse("a count of rows of which a unit may have any number", expr)

    def _where_positive(self, x: Expr | None) -> int | None:
        """Return in how many groups a unit is counted at most by COUNT(CASE WHEN v > 0 THEN .. END).

        v is a whole number from 0 on, so that it is at least 1 in each of them.
        """
        case = None if x is None else strip_parens(x)
        if not isinstance(case, Case) or len(case.branches) != 1:
            return None
        condition = strip_parens(case.branches[0][0])
        if not (
            isinstance(condition, Binary) and condition.operator == ">" and whole_number(condition.right) == 0
        ):
            return None
        share = share_of(self.proof, condition.left, self.query, self.source)
        return share.total if share.low >= 0 else None

    def _sum(self, expr: Aggregate, x: Expr) -> Number:
        source = self.source
        mark = source.marks.get(name_of(x)) if isinstance(x, Column) else None
        if isinstance(mark, FirstCount):
            if mark.within != self.keys or len(self.keys) != len(set(self.query.group)):
                self.proof.refuse("first values of other groups", expr)
            self.proof.note("first values", f"a unit has at most {mark.most} values in each group")
            return Number(0, mark.most, null=True)
        if not self.single:
            return self.proof.refuse("a sum of rows of which a unit may have any number", expr)
        if not exact(self.proof.value(x, self.query).type):
            return self.proof.refuse("a sum of what is no whole number", expr)
        share = share_of(self.proof, x, self.query, source)
        if source.merged:
            if source.merged.get(share.column) != share.most or share.total is None:
                return self.proof.refuse("units that share a row, and are weighed otherwise", expr)
        elif source.strays:
            return self.proof.refuse("a sum of rows without a unit", expr)
        return self._bounded(expr, share)

    def _bounded(self, expr: Aggregate, share: Share) -> Number:
        if INFINITY in (-share.low, share.high):
            return self.proof.refuse("a sum of values without bounds", expr)
        low, high = _floor(min(share.low, 0)), -_floor(-max(share.high, 0))
        self.proof.sum_fits(expr, self.query, low, high)
        self.proof.note("sum of single rows", f"a unit adds from {low} to {high} in each group")
        return Number(low, high, share.total, null=True)


def _floor(x: Real) -> int:
    """Return the greatest whole number that is at most x."""
    return int(x // 1)


def _with(number: Number, *, null: bool) -> Number:
    return Number(number.low, number.high, number.total, null, number.rungs)


def _sum(one: Number, other: Number, operator: str, counted: _Counted, expr: Expr) -> Number:
    if one.null or other.null:
        return counted.proof.refuse("a difference of numbers that may be missing", expr)
    low, high = (other.low, other.high) if operator == "+" else (-other.high, -other.low)
    total = None if one.total is None or other.total is None else one.total + other.total
    return Number(one.low + low, one.high + high, total)


def _unit_where(expr: Expr) -> Expr:
    """Return u of CASE WHEN .. THEN u END, or the expression."""
    expr = strip_parens(expr)
    while isinstance(expr, Case) and len(expr.branches) == 1 and expr.default is None:
        expr = strip_parens(expr.branches[0][1])
    return expr


def _argument_alone(expr: Aggregate, source: Relation) -> Expr:
    """Return an aggregate for `check_row`: a column that FirstCount marks may be added up."""
    x = expr.arguments[0] if len(expr.arguments) == 1 else None
    if isinstance(x, Column) and isinstance(source.marks.get(name_of(x)), FirstCount):
        return Aggregate("COUNT")
    return expr
