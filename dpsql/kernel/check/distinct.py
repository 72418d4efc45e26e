"""Which columns of public rows are unique, so that no group of a domain is there twice.

A column of a projection is as unique as the one it is computed from if different values stay different and
none becomes NULL: conversions of whole numbers that fit, a day moved by a number of days, a time from
milliseconds, and 1 or 0 for a truth value. In a UNION ALL, a set of columns that is unique in both sides is
unique if one of them has no value in common: NULL on one side and never on the other, different constants,
or intervals that do not meet.
"""

from __future__ import annotations

from datetime import date
from itertools import islice, product

from dpsql.kernel.check.proof import (
    Proof,
    conjuncts,
    is_null,
    is_whole,
    strip_parens,
    whole_number,
)
from dpsql.kernel.check.relation import NONE, Names, Relation, name_of
from dpsql.kernel.check.types_of import exact, fits
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Call,
    Case,
    Cast,
    Column,
    Constant,
    Derived,
    DomainScan,
    Expr,
    IsNull,
    Join,
    Query,
    Range,
    Select,
    SetOperation,
    Source,
    Values,
    plain,
)

MILLISECONDS = 8 * 10**15
"""Times of so many milliseconds from 1970 on are in the range of a TIMESTAMP."""


MOST_SPELLINGS = 8
"""So many ways are kept to name the columns of one unique set."""


def same_column(proof: Proof, expr: Expr, query: Select) -> Column | None:
    """Return the column of which an expression has a different value for each value, and never NULL."""
    expr = strip_parens(expr)
    match expr:
        case Column():
            return expr
        case Cast(x) if is_whole(expr):
            value = proof.value(x, query)
            if not exact(value.type):
                return None
            if not fits(value, expr.type) and not _kept(query, expr):
                return None
            return same_column(proof, x, query)
        case Cast(x) if expr.type.name == "DATE" and proof.value(x, query).type.name == "DATE":
            return _moved_day(proof, x, query)
        case Call(name, (x,)) if name == "epoch_ms":
            value = proof.value(x, query)
            if not exact(value.type):
                return None
            there = -MILLISECONDS <= value.low <= value.high <= MILLISECONDS
            return same_column(proof, x, query) if there else None
        case Case(((condition, one),), default) if default is not None:
            if isinstance(strip_parens(condition), IsNull):
                return _place_or(proof, strip_parens(condition), one, default, query)
            if (whole_number(one), whole_number(default)) == (1, 0):
                found = same_column(proof, condition, query)
                never = found is not None and never_null(proof, query, found)
                return found if never else None
    return None


def _place_or(proof: Proof, condition: Expr, one: Expr, default: Expr, query: Select) -> Column | None:
    """Return the column o of CASE WHEN v IS NULL THEN c ELSE o END, if o is never c where v is not NULL.

    That is as unique as o if there is one row at most where v is NULL, since v is unique.
    """
    v, o, end = (
        strip_parens(e)
        for e in (condition.operand if isinstance(condition, IsNull) else condition, default, one)
    )
    source, place = query.source, whole_number(end)
    if not (isinstance(v, Column) and isinstance(o, Column) and isinstance(source, Derived)) or place is None:
        return None
    if isinstance(condition, IsNull) and condition.negated:
        return None
    if v.table != source.alias or o.table != source.alias:
        return None
    unique = proof.query(source.query, "source.query").unique
    if frozenset((v.name,)) not in unique or frozenset((o.name,)) not in unique:
        return None
    found = leaves(source.query, o.name, frozenset((v.name,)))
    values = [proof.value(expr, select) for select, expr in found]
    apart = all(value.high < place or value.low > place for value in values)
    never = all(never_null(proof, select, expr) for select, expr in found)
    return o if found and apart and never else None


def _kept(query: Select, expr: Expr) -> bool:
    """Return whether WHERE leaves out the rows where an expression is NULL."""
    return any(
        isinstance(c, IsNull) and c.negated and strip_parens(c.operand) == expr
        for c in conjuncts(query.where)
    )


def _moved_day(proof: Proof, expr: Expr, query: Select) -> Column | None:
    """Return the column of the days in `day + column`."""
    expr = strip_parens(expr)
    if not (isinstance(expr, Binary) and expr.operator == "+" and isinstance(expr.left, Constant)):
        return None
    first = expr.left.value
    value = proof.value(expr.right, query)
    if type(first) is not date or not isinstance(value.low, int) or not isinstance(value.high, int):
        return None
    low, high = first.toordinal() + value.low, first.toordinal() + value.high
    if not date.min.toordinal() <= low <= high <= date.max.toordinal():
        return None
    return same_column(proof, expr.right, query)


def never_null(proof: Proof, query: Query, expr: Expr) -> bool:
    """Return whether an expression of a query is never NULL."""
    expr = strip_parens(expr)
    if not isinstance(query, Select):
        return False
    if _kept(query, expr):
        return True
    if isinstance(expr, Aggregate) and expr.name.upper() in ("MIN", "MAX") and query.group:
        return expr.filter is None and never_null(proof, query, expr.arguments[0])
    if not isinstance(expr, Column):
        return not proof.value(expr, query).nullable
    source = query.source
    if isinstance(source, (DomainScan, Range)):
        return True
    if isinstance(source, Values):
        place = source.columns.index(expr.name) if expr.name in source.columns else -1
        return place >= 0 and not proof.value(expr, query).nullable
    if isinstance(source, Derived) and expr.table in ("", source.alias):
        return column_never_null(proof, source.query, expr.name)
    return not proof.value(expr, query).nullable


def column_never_null(proof: Proof, query: Query, name: str) -> bool:
    """Return whether a column of the result of a query is never NULL."""
    place = place_of(query, name)
    found = [] if place is None else items_at(query, place)
    return bool(found) and all(never_null(proof, select, expr) for select, expr in found)


def items_at(query: Query, place: int) -> list[tuple[Select, Expr]]:
    """Return the expressions of a column of a query, of all SELECTs that its set operations join."""
    query = plain(query)
    if isinstance(query, SetOperation):
        left, right = items_at(query.left, place), items_at(query.right, place)
        return left + right if left and right else []
    return [(query, query.items[place].expr)] if isinstance(query, Select) else []


def place_of(query: Query, name: str) -> int | None:
    """Return the place of a column in the result of a query."""
    names = _names_of(query)
    return names.index(name) if name in names else None


def unique_of_union(proof: Proof, query: SetOperation, a: Relation, b: Relation) -> frozenset[Names]:
    """Return sets of columns that are unique in the rows of both sides of a UNION ALL together."""
    here = dict(zip(b.columns, a.columns, strict=True))
    other = frozenset(frozenset(here[name] for name in names) for names in b.unique)
    lone = isinstance(query.right, Select) and query.right.source is None and not query.right.group
    apart = [n for place, n in enumerate(a.columns) if _apart(proof, query, place)]
    found = {names | {name} for names in a.unique if lone or any(o <= names for o in other) for name in apart}
    smallest = [s for s in found if not any(o < s for o in found)]
    return frozenset(smallest)


def _apart(proof: Proof, query: SetOperation, place: int) -> bool:
    """Return whether a column has no value in common in the two sides."""
    left, right = _leaves_at(query.left, place), _leaves_at(query.right, place)
    if right and all(is_null(expr) for _, expr in right):
        names = _names_of(query.left)
        if place < len(names) and column_never_null(proof, query.left, names[place]):
            return True
    return bool(left) and bool(right) and all(_differ(proof, x, y) for x in left for y in right)


def _leaves_at(query: Query, place: int) -> list[tuple[Select, Expr]]:
    names = _names_of(query)
    return leaves(query, names[place], NONE) if names else []


def leaves(query: Query, name: str, present: Names) -> list[tuple[Select, Expr]]:
    """Return what a column of a query is computed as in the SELECTs from which its rows come.

    Rows in which a column of `present` is NULL are none of them. Nothing is returned if that is not known.
    """
    query = plain(query)
    if isinstance(query, SetOperation):
        place = place_of(query, name)
        kept = {p for n in present if (p := place_of(query, n)) is not None}
        if place is None or query.word != "UNION ALL":
            return []
        found = []
        for side in (query.left, query.right):
            here = _names_of(side)
            made = leaves(side, here[place], frozenset(here[p] for p in kept))
            if not made and not _is_left_out(side, kept):
                return []
            found += made
        return found
    if not isinstance(query, Select):
        return []
    items = dict(zip(_names_of(query), (strip_parens(item.expr) for item in query.items), strict=True))
    if any(is_null(items[n]) for n in present if n in items):
        return []
    expr = items[name]
    source = _rows_of(query.source, expr.table) if isinstance(expr, Column) else None
    if not isinstance(expr, Column) or source is None or query.group:
        return [(query, expr)]
    there = [c.operand for c in conjuncts(query.where) if isinstance(c, IsNull) and c.negated]
    there += [items[n] for n in present if n in items]
    own = frozenset(e.name for e in there if isinstance(e, Column) and e.table == expr.table)
    return leaves(source.query, expr.name, own)


def _rows_of(source: Source | None, alias: str) -> Derived | None:
    """Return the query of whose rows each value of a table is, in joins without missing rows."""
    if isinstance(source, Join) and source.kind in ("", "INNER", "CROSS") and alias:
        return _rows_of(source.left, alias) or _rows_of(source.right, alias)
    return source if isinstance(source, Derived) and alias in ("", source.alias) else None


def _names_of(query: Query) -> list[str]:
    query = plain(query)
    while isinstance(query, SetOperation):
        query = plain(query.left)
    return [item.column for item in query.items] if isinstance(query, Select) else []


def _is_left_out(query: Query, kept: set[int]) -> bool:
    """Return whether all rows of a SELECT have NULL in one of some places."""
    return isinstance(query, Select) and any(is_null(query.items[place].expr) for place in kept)


def _differ(proof: Proof, one: tuple[Select, Expr], other: tuple[Select, Expr]) -> bool:
    x, y = strip_parens(one[1]), strip_parens(other[1])
    if is_null(x):
        return never_null(proof, *other)
    if is_null(y):
        return never_null(proof, *one)
    if isinstance(x, Constant) and isinstance(y, Constant) and type(x.value) is type(y.value):
        return x.value != y.value
    first, second = proof.value(x, one[0]), proof.value(y, other[0])
    if not (first.low <= first.high < second.low or second.low <= second.high < first.low):
        return False
    return never_null(proof, *one) or never_null(proof, *other)


def places_of(proof: Proof, query: Select, names: tuple[str, ...], *, public: bool) -> dict[str, list[str]]:
    """Return the names of the columns that a projection passes on, or others that are as unique."""
    found: dict[str, list[str]] = {}
    for name, item in zip(names, query.items, strict=True):
        column = item.expr if isinstance(item.expr, Column) else None
        if column is None and public:
            column = same_column(proof, item.expr, query)
        if column is not None:
            found.setdefault(name_of(column), []).append(name)
    return found


def unique_after(unique: frozenset[Names], places: dict[str, list[str]], fixed: Names) -> frozenset[Names]:
    """Return the unique sets in the names of a projection; columns that never differ may be missing."""
    found: set[Names] = set()
    for names in unique:
        needed = [places.get(name, []) for name in names if name in places or name not in fixed]
        if all(needed):
            found.update(frozenset(each) for each in islice(product(*needed), MOST_SPELLINGS))
    return frozenset(found)
