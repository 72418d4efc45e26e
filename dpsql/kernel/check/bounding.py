"""What one unit adds to the numbers of its groups: sums of its rows, weighted so that they are bounded.

Let a unit have the rows R in all groups and R_g in the group g, and let each row r add p(r), a polynomial of
degree 2 in one value whose interval is known: p(r) is from L to H. A column with `Sums` has X_g, the sum of
p(r) over R_g, and one with `Whole` has a, at least the number of rows in R that X adds up.

*Ratio.* ``CASE WHEN a <= C THEN X ELSE X * C // a END``. Let c_g be the number of rows that X_g adds up, so
that c_g L <= X_g <= c_g H and the c_g add up to at most a. If a <= C the absolute values of X_g add up to
at most a max(|L|, |H|). Otherwise each is multiplied by C/a and rounded towards zero. So in each case the
value of a group is from C min(L, 0) to C max(H, 0), and their absolute values add up to at most C max(|L|,
|H|).

*Cap.* The same with a at least the sum of |X_g|, of any column X: the values add up to at most C.

*First groups.* ``CASE WHEN b <= C THEN x ELSE 0 END``, where x is a sum that is never negative and b the
sum of x up to this group: the last group that counts has as b the sum of all that count, so that is at most
C.

*Telescoping.* ``CASE WHEN a <= C THEN x ELSE f(b) - f(b - x) END``, where x counts rows, b is the sum of x
up to this group, and f(t) = (min(a, C) t + o) // a with one o from 0 to a - 1 for the unit. f does not
decrease, is 0 at 0, and at most C at a or less. The intervals from b - x to b do not overlap, so the
differences are from 0 on and add up to at most C.

*Difference.* first - second - .., each by the ratio with equal a and C, where no p of the others is
negative and neither is p(first) - p(second) - ..: rounding down the first and the others leaves the
difference from 0 to the first, which is at most C H and adds up to that.

A value that is cut by LEAST and GREATEST to an interval that has 0 keeps its sign and does not grow, so all
of this holds for it, too. For units that share a row, see `units`: the values must add up there, so only
ratio, difference and telescoping are used, whose first branch is the sum itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations

from dpsql.kernel.check.implied import implies
from dpsql.kernel.check.intervals import ends_of
from dpsql.kernel.check.marks import Sums, Term, UpTo, Whole
from dpsql.kernel.check.proof import (
    NONE,
    Proof,
    is_whole,
    nodes_of_row,
    reads_of,
    strip_casts,
    strip_parens,
    whole_number,
)
from dpsql.kernel.check.relation import Relation, name_of
from dpsql.kernel.check.types_of import INFINITY, Number, exact, fits
from dpsql.kernel.tree import Aggregate, Between, Binary, Call, Case, Cast, Column, Expr, Select, Unscaled
from dpsql.types import HUGEINT

Terms = dict[Term, int]


@dataclass(frozen=True, slots=True)
class Share:
    """What a row of a unit in a group adds: from `low` to `high`, in all groups together at most `total`.

    `column` and `most` are the count that weighs it and the C of the weights, `terms` what each row adds.
    """

    low: Number
    high: Number
    total: int | None = None
    column: str = ""
    most: int = 0
    terms: Sums | None = None


def sums_of(proof: Proof, expr: Expr, query: Select, source: Relation) -> tuple[Sums, bool] | None:
    """Return an expression as a sum of terms over a unit's rows in a group, and whether it may be NULL."""
    match expr:
        case Aggregate():
            term = _term(proof, expr, query, source)
            if term is None:
                return None
            return Sums(query, ((term, 1),), unit=source.unit), term[0] != "count"
        case Column():
            mark = source.marks.get(name_of(expr))
            if not isinstance(mark, Sums):
                return None
            return mark, mark.count() is None
        case Call(name, (x, y)) if name.upper() == "COALESCE":
            found = sums_of(proof, x, query, source)
            return (found[0], False) if found is not None and whole_number(y) == 0 else None
        case Call(name, (x, y)) if name.upper() in ("LEAST", "GREATEST"):
            found, end = sums_of(proof, x, query, source), whole_number(y)
            if found is None or end is None or found[1] or (end < 0) != (name.upper() == "GREATEST"):
                return None
            return replace(found[0], cut=True), False
        case Unscaled(x, kind) if not isinstance(x, Cast):
            found = sums_of(proof, x, query, source)
            if found is None or found[0].cut or kind.scale != proof.value(x, query).type.scale:
                return None
            return _scaled(found[0], 10**kind.scale), found[1]
        case Case(((Between(x, low, high), then),), Expr() as rest):
            found, few = sums_of(proof, rest, query, source), sums_of(proof, x, query, source)
            steps = steps_of_few(proof, then, Between(x, low, high), query)
            if found is None or few is None or few[0].cut or steps is None:
                return None
            same = replace(found[0], cut=False) == _scaled(few[0], 10**steps)
            return (replace(found[0], cut=True), found[1]) if same else None
        case Binary("*", x, y):
            found, factor = sums_of(proof, x, query, source), whole_number(y)
            if found is None or factor is None or found[0].cut:
                return None
            return _scaled(found[0], factor), found[1]
        case Binary("+" | "-" as operator, x, y):
            one, other = sums_of(proof, x, query, source), sums_of(proof, y, query, source)
            if one is None or other is None or one[1] or other[1]:
                return None
            made = _added(one[0], _scaled(other[0], 1 if operator == "+" else -1))
            return None if made is None else (made, False)
    if isinstance(expr, Cast):
        value = proof.value(expr.operand, query)
        if not (exact(value.type) and fits(value, expr.type.held)):
            return None
    inner = expr.operand if isinstance(expr, Cast) and is_whole(expr) else strip_parens(expr)
    return None if inner is expr else sums_of(proof, inner, query, source)


def steps_of_few(proof: Proof, expr: Expr, near: Between, query: Select) -> int | None:
    """Return the scale of a DECIMAL between two ends of which an expression is the steps, or these cut.

    Both ends fit the DECIMAL to which it is converted, whose scale is its own: the conversion keeps it.
    """
    match strip_parens(expr):
        case Cast(x, kind) if kind == HUGEINT:
            return steps_of_few(proof, x, near, query)
        case Call(name, (x, end)) if name.upper() in ("LEAST", "GREATEST"):
            limit = whole_number(end)
            if limit is None or (limit < 0) != (name.upper() == "GREATEST"):
                return None
            return steps_of_few(proof, x, near, query)
        case Unscaled(Cast(x, kind), unscaled) if x == near.operand and kind == unscaled:
            of = proof.value(x, query).type
            ends = proof.value(near.low, query).low, proof.value(near.high, query).high
            most = 10 ** (kind.precision - kind.scale) if kind.name == "DECIMAL" else 0
            fit = of.name == "DECIMAL" and of.scale == kind.scale and -most < ends[0] and ends[1] < most
            return kind.scale if fit else None
    return None


def _term(proof: Proof, expr: Aggregate, query: Select, source: Relation) -> Term | None:
    if expr.distinct or expr.filter is not None or expr.order:
        return None
    name = expr.name.upper()
    if name == "COUNT":
        if not expr.arguments:
            return "count", None
        x = expr.arguments[0]
        every = x in source.unit or not proof.value(x, query).nullable
        return "count", None if every else x
    if name == "SUM" and len(expr.arguments) == 1:
        x = strip_parens(expr.arguments[0])
        kind = proof.value(x, query).type
        if kind.name == "DECIMAL":
            return "sum", x
        if not exact(kind):
            return None
        if isinstance(x, Binary) and x.operator == "*" and x.left == x.right:
            return "square", strip_parens(x.left)
        return "sum", x
    return None


def _scaled(sums: Sums, factor: int) -> Sums:
    return replace(sums, terms=tuple((term, n * factor) for term, n in sums.terms))


def _added(one: Sums, other: Sums) -> Sums | None:
    if one.of != other.of or one.cut or other.cut:
        return None
    terms = dict(one.terms)
    for term, n in other.terms:
        terms[term] = terms.get(term, 0) + n
    return replace(one, terms=tuple(terms.items()))


def ends_of_row(proof: Proof, sums: Sums, only: Expr | None = None) -> tuple[Number, Number] | None:
    """Return the least and the most that one row adds.

    With `only`, of the rows where that value is not NULL; None if other rows add something.
    """
    low: Number = 0
    high: Number = 0
    by_value: dict[Expr, list[int]] = {}
    for (kind, x), n in sums.terms:
        if x is None:
            if only is not None and n:
                return None
            low, high = low + n, high + n
            continue
        if only is not None and x != only and n and not implies(x, only, sums.of, sums.unit):
            return None
        by_value.setdefault(x, [0, 0, 0])[("count", "sum", "square").index(kind)] += n
    if only is None or isinstance(only, Case):
        joint = _joint(proof, sums, by_value, low)
        if joint is not None:
            return joint
    for x, (c0, c1, c2) in by_value.items():
        value = proof.value(x, sums.of) if c1 or c2 else None
        ends = (0, 0) if value is None else (value.low, value.high)
        least, most = _polynomial(c0, c1, c2, *ends)
        if only is None or x != only:  # the value may be NULL, then nothing is added
            least, most = min(least, 0), max(most, 0)
        low, high = low + least, high + most
    return low, high


def _joint(
    proof: Proof, sums: Sums, by_value: dict[Expr, list[int]], alone: Number
) -> tuple[Number, Number] | None:
    """Return the ends of what a row adds if one value is counted and another is there only where it is.

    A row has neither, the first alone, or both.
    """
    if len(by_value) != 2:
        return None
    for y, x in permutations(by_value):
        (c0, c1, c2), (d0, d1, d2) = by_value[y], by_value[x]
        if c1 or c2 or not implies(x, y, sums.of, sums.unit):
            continue
        value = proof.value(x, sums.of) if d1 or d2 else None
        ends = (0, 0) if value is None else (value.low, value.high)
        least, most = _polynomial(c0 + d0, d1, d2, *ends)
        return alone + min(0, c0, least), alone + max(0, c0, most)
    return None


def _polynomial(c0: int, c1: int, c2: int, low: Number, high: Number) -> tuple[Number, Number]:
    """Return the ends of c0 + c1 x + c2 x x for x in an interval."""
    if not c1 and not c2:
        return c0, c0
    if INFINITY in (-low, high):
        return -INFINITY, INFINITY
    at: list[Number] = [low, high]
    if c2:
        middle = Fraction(-c1, 2 * c2)
        at += [middle] if low <= middle <= high else []
    values = [c0 + c1 * x + c2 * x * x for x in at]
    return min(values), max(values)


def share_of(proof: Proof, expr: Expr, query: Select, source: Relation) -> Share:
    """Return what an expression of a unit's row in a group adds to the number of the group."""
    whole, expr = expr, strip_casts(expr)
    if isinstance(expr, Call) and expr.name.upper() in ("LEAST", "GREATEST") and len(expr.arguments) == 2:
        found, end = share_of(proof, expr.arguments[0], query, source), whole_number(expr.arguments[1])
        least = expr.name.upper() == "LEAST"
        never = _never_null(proof, expr.arguments[0], query)  # LEAST and GREATEST leave NULL out
        if never and found.total is not None and end is not None and (end >= 0 if least else end <= 0):
            low = found.low if least else max(found.low, end)
            return replace(found, low=low, high=min(found.high, end) if least else found.high, terms=None)
    if isinstance(expr, Case):
        weighted = _weighted(proof, expr, query, source)
        if weighted is not None:
            return weighted
    if isinstance(expr, Binary) and expr.operator == "-":
        difference = _difference(proof, expr, query, source)
        if difference is not None:
            return difference
    return Share(*ends_of(proof, whole, query))


def _never_null(proof: Proof, expr: Expr, query: Select) -> bool:
    """Return whether a share of a number is never NULL.

    Its parts are the number, of this row and of those before it, and constants. So it is NULL only where the
    number is, or a conversion makes NULL of a part; the last one, of the share itself, does not.
    """
    if not proof.value(expr, query).nullable:
        return True
    case = strip_casts(expr)
    if not isinstance(case, Case) or case.default is None or len(case.branches) != 1:
        return False
    return not proof.value(case.branches[0][1], query).nullable and all(
        fits(proof.value(part.operand, query), part.type.held)
        for part in nodes_of_row(strip_casts(case.default))
        if isinstance(part, Cast)
    )


def _weighted(proof: Proof, expr: Case, query: Select, source: Relation) -> Share | None:
    if len(expr.branches) != 1 or expr.default is None:
        return None
    condition, x = expr.branches[0]
    if not (isinstance(condition, Binary) and condition.operator == "<="):
        return None
    a, most = condition.left, whole_number(condition.right)
    if not isinstance(a, Column) or most is None or most < 1:
        return None
    whole = source.marks.get(name_of(a))
    y = strip_casts(expr.default)
    if isinstance(whole, UpTo) and whole_number(y) == 0 and _is_column(x, whole.column):
        proof.note("first groups", f"the first groups of one unit count, {most} in all")
        terms = source.marks.get(whole.column)
        high = 1 if isinstance(terms, Sums) and proof.value(x, query).high <= 1 else most
        return Share(0, high, most)
    if not isinstance(whole, Whole):
        return None
    if isinstance(y, Binary) and y.operator == "//" and strip_casts(y.right) == a:
        return _ratio(proof, x, y.left, a, most, whole, query, source)
    if isinstance(y, Binary) and y.operator == "-" and not whole.absolute:
        return _telescoped(x, y, a, most, whole, source)
    return None


def _ratio(
    proof: Proof, x: Expr, scaled: Expr, a: Column, most: int, whole: Whole, query: Select, source: Relation
) -> Share | None:
    product = strip_casts(scaled)
    if not (isinstance(product, Binary) and product.operator == "*"):
        return None
    if whole_number(product.right) != most or strip_casts(product.left) != strip_casts(x):
        return None
    if whole.absolute:
        y = strip_casts(x)
        if not isinstance(y, Column) or name_of(y) != whole.column:
            return None
        value = proof.value(y, query)
        if not exact(value.type):
            return None
        proof.note("cap", f"absolute values of one unit add up to at most {most}")
        low, high = -most if value.low < 0 else 0, most if value.high > 0 else 0
        return Share(low, high, most, whole.column, most)
    found = sums_of(proof, x, query, source)
    counted = source.marks.get(whole.column)
    if found is None or not isinstance(counted, Sums) or counted.of != found[0].of:
        return None
    term = counted.count()
    ends = None if term is None else ends_of_row(proof, found[0], term[1])
    if ends is None or INFINITY in (-ends[0], ends[1]):
        return None
    low, high = _down(ends[0]), -_down(-ends[1])
    proof.note("ratio", f"{most} rows of one unit count, each from {low} to {high}")
    share = Share(most * min(low, 0), most * max(high, 0), most * max(abs(low), abs(high)))
    return replace(share, column=whole.column, most=most, terms=found[0])


def _down(x: Number) -> int:
    """Return the greatest whole number that is at most x."""
    return x // 1 if isinstance(x, Fraction) else int(x)


def _telescoped(x: Expr, y: Binary, a: Column, most: int, whole: Whole, source: Relation) -> Share | None:
    fixed = source.closure(NONE)
    name = whole.column
    if name_of(a) not in fixed or not _is_column(x, name):
        return None
    up, before = _scaled_up(y.left, a, most), _scaled_up(y.right, a, most)
    if up is None or before is None or up[1] != before[1]:
        return None
    offset = up[1]
    if not reads_of(offset) <= fixed or not _below(offset, a):
        return None
    b, less = strip_casts(up[0]), strip_casts(before[0])
    if not isinstance(b, Column) or source.marks.get(name_of(b)) != UpTo(name):
        return None
    if not (isinstance(less, Binary) and less.operator == "-" and strip_casts(less.left) == b):
        return None
    if not _is_column(less.right, name):
        return None
    terms = source.marks.get(name)
    return Share(0, most, most, name, most, terms if isinstance(terms, Sums) else None)


def _is_column(expr: Expr, name: str) -> bool:
    expr = strip_casts(expr)
    return isinstance(expr, Column) and name_of(expr) == name


def _scaled_up(expr: Expr, a: Column, most: int) -> tuple[Expr, Expr] | None:
    """Return t and o of (LEAST(a, most) * t + o) // a."""
    quotient = strip_casts(expr)
    if not (isinstance(quotient, Binary) and quotient.operator == "//" and strip_casts(quotient.right) == a):
        return None
    added = strip_casts(quotient.left)
    if not (isinstance(added, Binary) and added.operator == "+"):
        return None
    product = strip_casts(added.left)
    if not (isinstance(product, Binary) and product.operator == "*"):
        return None
    least = strip_casts(product.left)
    if not (isinstance(least, Call) and least.name.upper() == "LEAST" and len(least.arguments) == 2):
        return None
    if least.arguments[0] != a or whole_number(least.arguments[1]) != most:
        return None
    return product.right, strip_casts(added.right)


def _below(offset: Expr, a: Column) -> bool:
    """Return whether an expression is ((h % a) + a) % a, so from 0 to a - 1 if a is at least 1."""
    if not (isinstance(offset, Binary) and offset.operator == "%" and strip_casts(offset.right) == a):
        return False
    added = strip_casts(offset.left)
    if not (isinstance(added, Binary) and added.operator == "+" and strip_casts(added.right) == a):
        return False
    rest = strip_casts(added.left)
    return isinstance(rest, Binary) and rest.operator == "%" and strip_casts(rest.right) == a


def _difference(proof: Proof, expr: Binary, query: Select, source: Relation) -> Share | None:
    listed: list[Expr] = []
    rest: Expr = expr
    while isinstance(rest, Binary) and rest.operator == "-":
        listed.append(rest.right)
        rest = strip_parens(rest.left)
    shares = [share_of(proof, e, query, source) for e in (rest, *listed)]
    first = shares[0]
    if first.terms is None or not first.column or first.total is None:
        return None
    sums: Sums | None = first.terms
    for other in shares[1:]:
        if other.terms is None or (other.column, other.most) != (first.column, first.most):
            return None
        if other.low < 0 or sums is None:
            return None
        sums = _added(sums, _scaled(other.terms, -1))
    counted = source.marks.get(first.column)
    term = counted.count() if isinstance(counted, Sums) else None
    if sums is None or term is None:
        return None
    ends = ends_of_row(proof, sums, term[1])
    if ends is None or ends[0] < 0 or first.low < 0:
        return None
    proof.note("difference", "what is subtracted is never more")
    return replace(first, low=0, terms=sums)
