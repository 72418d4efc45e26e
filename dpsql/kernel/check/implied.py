"""What follows from conditions: columns that they equate, and values that are there only where others are.

``COUNT(CASE WHEN c THEN u END)`` counts the rows where c holds, and ``COUNT(x)`` those where x is not NULL.
If x is computed so that it is NULL wherever e is, and c says that e is not NULL, then x is there only where
c holds. Both are followed through queries that pass them on to the query that computes them.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpsql.kernel.check.derive import unwrap
from dpsql.kernel.check.orders import conjuncts
from dpsql.kernel.check.proof import Proof, equalities, reads_of, subqueries
from dpsql.kernel.check.relation import Names, name_of
from dpsql.kernel.check.types_of import exact, fits, whole
from dpsql.kernel.tree import (
    Binary,
    Case,
    Cast,
    Column,
    Cut,
    Derived,
    Expr,
    IsNull,
    Join,
    Paren,
    Query,
    Select,
    Steps,
    Try,
    Unscaled,
    plain,
)

_STRICT = frozenset(("+", "-", "*", "//", "%", "=", "<>", "<", "<=", ">", ">="))


def implies(x: Expr, y: Expr, query: Select, unit: frozenset[Expr]) -> bool:
    """Return whether, in each row of a unit that a query reads, x is not NULL only if y is not NULL."""
    case = unwrap(y)
    if x == y:
        return True
    if not isinstance(case, Case) or len(case.branches) != 1 or case.default is not None:
        return False
    condition, value = case.branches[0]
    if value not in unit:
        return False
    known = [*_definitions(unwrap(condition), query)]
    return any(
        all(_follows(made, each) for each in conjuncts(said))
        for made, here in _definitions(unwrap(x), query)
        for said, where in known
        if where is here
    )


def _follows(made: Expr, condition: Expr) -> bool:
    """Return whether a condition holds wherever a value is not NULL."""
    made = unwrap(made)
    if isinstance(made, Case) and len(made.branches) == 1 and made.default is None:
        guard, value = made.branches[0]
        if any(each == condition for each in conjuncts(guard)):
            return True
        return _follows(value, condition)
    return isinstance(condition, IsNull) and condition.negated and _null_with(made, unwrap(condition.operand))


def _null_with(made: Expr, e: Expr) -> bool:
    """Return whether an expression is NULL wherever `e` is."""
    made = unwrap(made)
    if made == e:
        return True
    match made:
        case Paren(inner):
            return _null_with(inner, e)
        case Cast(operand) | Try(operand) | Steps(operand) | Unscaled(operand) | Cut(_, operand):
            return _null_with(operand, e)
        case Binary(operator, left, right) if operator in _STRICT:
            return _null_with(left, e) or _null_with(right, e)
        case Case(branches, default):
            never = all(_null_with(condition, e) or _null_with(value, e) for condition, value in branches)
            return never and (default is None or _null_with(default, e))
    return False


def _definitions(expr: Expr, query: Select) -> Iterator[tuple[Expr, Query]]:
    """Yield what a column is computed as, with the query that computes it, from the outermost query on."""
    yield expr, query
    while isinstance(expr, Column):
        below = _derived(query, expr.table)
        if below is None:
            break
        items = {i.column: i.expr for i in below.items}
        if expr.name not in items or below.group or below.distinct:
            break
        expr, query = unwrap(items[expr.name]), below
        yield expr, query


def _derived(query: Select, alias: str) -> Select | None:
    """Return the SELECT whose rows an alias names; None if they may be NULL, or are of something else."""
    source = query.source
    while isinstance(source, Join):
        if source.kind in ("RIGHT", "FULL"):
            return None
        source = source.left
    below = plain(source.query) if isinstance(source, Derived) and source.alias == alias else None
    return below if isinstance(below, Select) else None


def as_stored(expr: Expr) -> Expr:
    """Return a column of whole numbers without a conversion to a type that has all of them."""
    if isinstance(expr, Cast) and exact(expr.type):
        x = unwrap(expr.operand)
        if isinstance(x, Column) and x.type is not None and exact(x.type) and fits(whole(x.type), expr.type):
            return x
    return expr


def equal_columns(proof: Proof, conditions: list[Expr]) -> list[tuple[Names, Names]]:
    """Return which columns follow from others, or from nothing, because conditions equate them."""
    found = []
    for x, each, _ in equalities(conditions):
        y = as_stored(each)
        if not isinstance(y, Column):
            continue
        if (isinstance(x, Column) or not reads_of(x)) and not subqueries(x) and proof.keeps(each, x):
            found.append((reads_of(x), frozenset((name_of(y),))))
    return found
