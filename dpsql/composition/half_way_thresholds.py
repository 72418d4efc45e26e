"""Compare released numbers with thresholds half way between the values that the exact numbers can have.

Counts are whole, and sums are multiples of a public step. `n > 40` means 41 and more, so a noisy count is
compared with 40.5: it lies as far from 40, which must not pass, as from 41, which must. Compared with 40, the
least noise would let every other group of 40 pass. Likewise `n >= 40` is compared with 39.5, and `n = 40` is
between 39.5 and 40.5. The selections of releases do the same (see `analysis.outer_query`). `n // 7` of counts
is truncated, as it is of integers.

*Privacy.* What is changed is SQL over released numbers, by public steps and constants.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from fractions import Fraction
from math import ceil, floor, gcd, lcm

from sqlglot import exp

from dpsql.analysis import Output, Plan
from dpsql.analysis.aggregate_functions import is_row_count
from dpsql.analysis.compiler import function_name
from dpsql.estimates import SumOfRows
from dpsql.language import MARK, find_nodes, list_from_items, walk_tree
from dpsql.lazy_dataclass import dataclass
from dpsql.places import make_distinct
from dpsql.policy import fold

ColumnSteps = Mapping[str, Mapping[str, Fraction]]
"""What `steps_of` returns, by the folded names of the relations."""
ColumnFinder = tuple[str, str]
"""A relation and its column, by their folded names."""
_DEEPEST = 32
_DIGITS = 10**12
"""Thresholds are written with at most so many parts of 1: finer steps make no difference."""
_KEEP = frozenset({"sum", "min", "max", "any_value", "first"})
"""Aggregates whose value is a multiple of what those of their argument are multiples of."""


def steps_of(plan: Plan) -> dict[str, Fraction]:
    """Return the steps of the columns of a release by their folded names, in order; 0 where there is none."""
    return {name: plan.step(output) for name, output in _named(plan)}


OF_NO_VALUES = "a sum of no values is a number near 0 here, where SQL has NULL: COUNT beside it tells"
"""What is told where a query tests a released sum for NULL."""


def counts_of(plans: Mapping[str, Plan]) -> frozenset[ColumnFinder]:
    """Return the relations and columns that hold counts, by their folded names."""
    return frozenset(
        (name, column)
        for name, plan in plans.items()
        for column, output in _named(plan)
        if plan.is_count(output)
    )


OF_GROUPS = "COUNT(*) OVER () is how many groups there are: SUM(COUNT(*)) OVER () has all their rows"


def tell_absent_sums(outer: exp.Query, plans: Mapping[str, Plan]) -> tuple[str, ...]:
    """Return what is told of a query that tests released sums for NULL, or counts groups by a window.

    The sum of no values is a number near 0.
    """
    sums = {
        column
        for plan in plans.values()
        for column, output in _named(plan)
        if output.kind == "count" and not plan.is_count(output)
        if output.formula is None or isinstance(output.formula, SumOfRows)
    }
    tested = [n.this for n in find_nodes(outer, exp.Is) if isinstance(n.expression, exp.Null)]
    names = ("coalesce", "ifnull")
    calls = [n for n in find_nodes(outer, exp.Anonymous) if (function_name(n) or "").lower() in names]
    tested += [call.expressions[0] for call in calls if call.expressions]
    columns = {fold(c.name) for each in tested for c in find_nodes(each, exp.Column)}
    counted = any(
        is_row_count(n.this) and not n.args.get("partition_by") for n in find_nodes(outer, exp.Window)
    )
    return (*((OF_NO_VALUES,) if sums & columns else ()), *((OF_GROUPS,) if counted else ()))


def _named(plan: Plan) -> Iterator[tuple[str, Output]]:
    """Yield the outputs of a release with their folded names, of which the second `n` is `n_1`."""
    names = make_distinct([output.name for output in plan.outputs], fold=True)
    yield from zip(map(fold, names), plan.outputs, strict=True)


def compare_half_way(tree: exp.Query, steps: ColumnSteps) -> None:
    """Change the comparisons of a query over released relations; the tree is changed."""
    for select in find_nodes(tree, exp.Select):
        for node in _comparisons(select):
            if isinstance(node, exp.Between):
                _between(node, select, steps)
            else:
                _compare(node, select, steps)


def guard_divisors(
    tree: exp.Query, steps: ColumnSteps, counts: Collection[ColumnFinder]
) -> list[ColumnFinder]:
    """Let quotients be NULL where the released count that they are divided by rounds to 0.

    `counts` has the relations and columns of the counts; those that are divided by are returned.
    """
    found = dict[ColumnFinder, None]()
    for select in find_nodes(tree, exp.Select):
        for node in _nodes(select):
            column = _divisor(node.expression) if isinstance(node, (exp.Div, exp.IntDiv, exp.Mod)) else None
            known = None if column is None else _column(column, select, steps, _DEEPEST)
            if column is None or known is None or known[0] not in counts:
                continue
            there = exp.GTE(this=column.copy(), expression=exp.Literal.number("0.5"))
            column.replace(exp.Case(ifs=[exp.If(this=there, true=column.copy())]))
            found[known[0]] = None
    return [*found]


def find_quotients(tree: exp.Query, steps: ColumnSteps) -> list[tuple[exp.IntDiv, tuple[_Lattice, ...]]]:
    """Return the divisions by `//` of released numbers, with their sides if these are known."""
    found = list[tuple[exp.IntDiv, tuple[_Lattice, ...]]]()
    for select in find_nodes(tree, exp.Select):
        for node in _nodes(select):
            if isinstance(node, exp.IntDiv) and any(
                _column(column, select, steps, _DEEPEST) for column in find_nodes(node, exp.Column)
            ):
                sides = (_lattice(side, select, steps) for side in (node.this, node.expression))
                found.append((node, tuple(side for side in sides if side is not None)))
    return found


def truncate_quotients(
    found: list[tuple[exp.IntDiv, tuple[_Lattice, ...]]], counts: Collection[ColumnFinder]
) -> str:
    """Let `//` of counts be whole, as it is of integers; return what the answer says of other numbers.

    Released numbers are DOUBLE, whose `//` keeps the fraction. Sums may be those of DOUBLE columns.
    """
    said = ""
    for node, sides in found:
        whole = all(part.denominator == 1 for side in sides for part in (side.constant, side.step))
        if len(sides) < 2 or not whole or any(not side.of <= frozenset(counts) for side in sides):
            said = "// of released numbers keeps its fraction, as they are DOUBLE: TRUNC(x / y) is whole"
            continue
        left, right = (
            exp.Anonymous(this=f"{MARK}ROUND", expressions=[side.copy()])
            if lattice.of
            else exp.paren(side.copy(), copy=False)
            for side, lattice in zip((node.this, node.expression), sides, strict=True)
        )
        node.replace(exp.Anonymous(this=f"{MARK}TRUNC", expressions=[exp.Div(this=left, expression=right)]))
    return said


def _divisor(node: exp.Expr) -> exp.Column | None:
    """Return the column whose sign and zero a divisor has."""
    node = node.unnest()
    match node:
        case exp.Column():
            return node
        case exp.Cast():
            return _divisor(node.this)
        case exp.Mul():
            sides = [each for each in (node.this, node.expression) if _constant(each) is None]
            return _divisor(sides[0]) if len(sides) == 1 else None
    if (function_name(node) or "").lower() == "nullif" and len(node.expressions) == 2:
        return _divisor(node.expressions[0]) if _constant(node.expressions[1]) == 0 else None
    return None


@dataclass(frozen=True, slots=True)
class _Lattice:
    """An expression: a constant, and multiples of a step for each released number in it."""

    constant: Fraction = Fraction(0)
    step: Fraction = Fraction(0)
    of: frozenset[ColumnFinder] = frozenset()
    """The relations and columns of the numbers."""
    merged: bool = False
    """Whether it aggregates numbers of several groups."""

    def plus(self, other: _Lattice, sign: int = 1) -> _Lattice:
        """Return the lattice of sums or differences of values of two lattices."""
        step = _common(self.step, other.step)
        merged = self.merged or other.merged
        return _Lattice(self.constant + sign * other.constant, step, self.of | other.of, merged)

    def times(self, factor: Fraction) -> _Lattice:
        """Return the lattice of multiples of the values by a constant."""
        return _Lattice(self.constant * factor, abs(self.step * factor), self.of, self.merged)


def _common(a: Fraction, b: Fraction) -> Fraction:
    """Return the largest number of which both are multiples."""
    whole = lcm(a.denominator, b.denominator)
    return Fraction(gcd(int(a * whole), int(b * whole)), whole)


_STRICT: dict[type[exp.Expr], tuple[bool, int]] = {
    exp.GT: (True, 1),
    exp.GTE: (False, 1),
    exp.LT: (True, -1),
    exp.LTE: (False, -1),
}
"""Whether a comparison is strict, and the sign of left less right where it holds."""


def _comparisons(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the comparisons of a SELECT, outside subqueries."""
    kinds = (*_STRICT, exp.EQ, exp.NEQ, exp.Between)
    yield from (node for node in _nodes(select) if isinstance(node, kinds))


def _nodes(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the nodes of a SELECT outside subqueries."""
    for name, part in select.args.items():
        for item in part if isinstance(part, list) else [part]:
            if isinstance(item, exp.Expr) and name not in ("with_", "from_"):
                yield from walk_tree(item, lambda node: isinstance(node, (exp.Query, exp.Subquery)))


def _compare(node: exp.Expr, select: exp.Select, steps: ColumnSteps) -> None:
    """Move the threshold of a comparison; `=` becomes BETWEEN."""
    left, right = (_lattice(side, select, steps) for side in (node.this, node.expression))
    both = _difference(left, right)
    if both is None:
        return
    if type(node) in _STRICT:
        strict, sign = _STRICT[type(node)]
        by = sign * _half_way(both, sign, strict=strict)
        constant = _constant(node.expression) is None and _constant(node.this) is not None
        _add(node, "this" if constant else "expression", -by if constant else by)
        return
    constants = [key for key in ("this", "expression") if _constant(node.args[key]) is not None]
    if both.constant % both.step or len(constants) != 1:
        return
    other = node.this if constants == ["expression"] else node.expression
    value, half = node.args[constants[0]], both.step / 2
    between = exp.Between(this=other.copy(), low=value.copy(), high=value.copy())
    _add(between, "low", -half)
    _add(between, "high", half)
    made = exp.Not(this=exp.paren(between, copy=False)) if isinstance(node, exp.NEQ) else between
    node.replace(exp.paren(made, copy=False))


def _between(node: exp.Between, select: exp.Select, steps: ColumnSteps) -> None:
    value = _lattice(node.this, select, steps)
    for key, sign in (("low", 1), ("high", -1)):
        both = _difference(value, _lattice(node.args[key], select, steps))
        if both is not None:
            _add(node, key, sign * _half_way(both, sign, strict=False))


def _difference(left: _Lattice | None, right: _Lattice | None) -> _Lattice | None:
    """Return the difference of two sides whose threshold moves; None of others.

    A number is not compared half way with itself in another group, as ranks do, nor with an aggregate of
    such numbers: equal ones are then the same release.
    """
    if left is None or right is None or not (left.of or right.of):
        return None
    if left.of and right.of and (left.of & right.of or left.merged or right.merged):
        return None
    both = left.plus(right, -1)
    return both if both.step else None


def _half_way(both: _Lattice, sign: int, *, strict: bool) -> Fraction:
    """Return the threshold for a difference times its sign: half a step below the least value that passes."""
    constant, step = sign * both.constant, both.step
    first = floor(-constant / step) + 1 if strict else ceil(-constant / step)
    return constant + step * first - step / 2


def _add(node: exp.Expr, key: str, by: Fraction) -> None:
    """Add a number to a side of a comparison."""
    side = node.args[key]
    value = _constant(side)
    number = _number(by if value is None else value + by)
    if number is not None and value is not None:
        side.replace(number)
    elif number is not None:
        side.replace(
            exp.paren(exp.Add(this=exp.paren(side.copy(), copy=False), expression=number), copy=False)
        )


def _constant(node: exp.Expr) -> Fraction | None:
    """Return the value of a number that is written; None of other expressions."""
    inner = node.unnest()
    if isinstance(inner, exp.Neg):
        value = _constant(inner.this)
        return None if value is None else -value
    if not isinstance(inner, exp.Literal) or inner.is_string:
        return None
    try:
        return Fraction(str(inner.this))
    except ValueError:
        return None


def _number(value: Fraction) -> exp.Expr | None:
    """Return a number as SQL; None of one with too many digits."""
    if _DIGITS % value.denominator:
        return None
    whole, part = divmod(abs(value), 1)
    digits = str(int(part * _DIGITS)).rjust(12, "0").rstrip("0")
    literal = exp.Literal.number(f"{int(whole)}.{digits}" if digits else str(int(whole)))
    return literal if value >= 0 else exp.paren(exp.Neg(this=literal), copy=False)


def _lattice(node: exp.Expr, select: exp.Select, steps: ColumnSteps) -> _Lattice | None:
    """Return the values that an expression can have; None where nothing is known."""
    node = node.unnest()
    value = _constant(node)
    if value is not None:
        return _Lattice(value)
    match node:
        case exp.Column():
            found = _column(node, select, steps, _DEEPEST)
            return None if found is None else _Lattice(step=found[1], of=frozenset({found[0]}))
        case exp.Neg():
            inner = _lattice(node.this, select, steps)
            return None if inner is None else inner.times(Fraction(-1))
        case exp.Add() | exp.Sub() | exp.Mul():
            left, right = (_lattice(side, select, steps) for side in (node.this, node.expression))
            if left is None or right is None:
                return None
            if not isinstance(node, exp.Mul):
                return left.plus(right, 1 if isinstance(node, exp.Add) else -1)
            factor, other = (left, right) if not left.of else (right, left)
            return None if factor.of or not factor.constant else other.times(factor.constant)
    if (function_name(node) or "").lower() in _KEEP and len(node.expressions) == 1:
        inner = None if isinstance(node.parent, exp.Window) else _lattice(node.expressions[0], select, steps)
        return None if inner is None else _Lattice(inner.constant, inner.step, inner.of, merged=True)
    return None


_Found = tuple[ColumnFinder, Fraction]


def _column(column: exp.Column, select: exp.Select, steps: ColumnSteps, depth: int) -> _Found | None:
    """Return the released number that a column of a SELECT bears, with its step; None of other columns."""
    found = []
    for item in list_from_items(select):
        if column.table and fold(item.alias_or_name) != fold(column.table):
            continue
        inner = _of_item(item, steps, depth - 1)
        here = None if inner is None else inner(fold(column.name))
        if here is not None:
            found.append(here)
    return found[0] if len(found) == 1 else None


def _of_item(item: exp.Expr, steps: ColumnSteps, depth: int) -> Callable[[str], _Found | None] | None:
    """Return what finds the released number of a column of an item of FROM by its folded name."""
    alias = item.args.get("alias")
    titles = [fold(each.name) for each in alias.args.get("columns") or ()] if alias is not None else []
    if depth < 0:
        return None
    if isinstance(item, exp.Table):
        name = fold(item.name)
        own = steps.get(name)
        if own is not None:
            places = dict(zip(titles, own, strict=False)) if titles else {title: title for title in own}
            return lambda title: _numbered(name, own, places.get(title))
        query, titles = _cte(item)
        return None if query is None or titles else _of_query(query, steps, depth)
    if isinstance(item, exp.Subquery) and not titles and not item.args.get("joins"):
        return _of_query(item.this, steps, depth)
    return None


def _numbered(name: str, own: Mapping[str, Fraction], column: str | None) -> _Found | None:
    return ((name, column), own[column]) if column is not None and own[column] else None


def _cte(item: exp.Table) -> tuple[exp.Expr | None, list[str]]:
    """Return the query of the common table expression that a table names, and the names of its columns."""
    node: exp.Expr | None = item
    while node is not None:
        with_ = node.args.get("with_")
        for cte in with_.expressions if with_ is not None else ():
            if fold(cte.alias) == fold(item.name) and not _within(item, cte):
                return cte.this, [c.name for c in cte.args["alias"].args.get("columns") or ()]
        node = node.parent
    return None, []


def _within(node: exp.Expr, other: exp.Expr) -> bool:
    above: exp.Expr | None = node
    while above is not None and above is not other:
        above = above.parent
    return above is other


def _of_query(query: exp.Expr, steps: ColumnSteps, depth: int) -> Callable[[str], _Found | None] | None:
    """Return what finds the released number that a column of a SELECT shows as it is."""
    inner = query.unnest()
    if not isinstance(inner, exp.Select):
        return None

    def find(title: str) -> _Found | None:
        names = [item.alias_or_name for item in inner.expressions]
        for name, item in zip(make_distinct(names, fold=True), inner.expressions, strict=True):
            bare = item.unalias().unnest()
            if fold(name) == title and not isinstance(bare, exp.Star):
                return _column(bare, inner, steps, depth) if isinstance(bare, exp.Column) else None
        star = any(isinstance(item, exp.Star) for item in inner.expressions)
        return _column(exp.column(title), inner, steps, depth) if star else None

    return find
