"""Which rows an order leaves tied: unique sets of columns, what windows depend on, what aggregates may read.

The rules of `totality` for windows and LIMIT rest on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from itertools import islice, product
from typing import NamedTuple

from dpsql.kernel.check.certificate import NotCertified
from dpsql.kernel.check.derive import INFINITY, Around, Number, Rows, Value, derive, ends, exact, unwrap
from dpsql.kernel.facts import fold
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Call,
    Cast,
    Column,
    Constant,
    Derived,
    Expr,
    IsNull,
    Node,
    Query,
    Select,
    Window,
    parts,
    walk,
)
from dpsql.types import DATE, SqlType

Key = tuple[str, str]
"""A column: the alias of its item of FROM, and its name."""
MILLISECONDS = 8 * 10**15
"""Times of so many milliseconds from 1970 on are in the range of a TIMESTAMP."""
_KEYS = 8
"""So many unique sets of a relation are kept."""


class From(NamedTuple):
    """What is known of the rows that a SELECT reads."""

    items: dict[str, Rows]
    unique: frozenset[frozenset[Key]] = frozenset()
    padded: frozenset[str] = frozenset()
    single: bool = False

    def key(self, column: Column) -> object:
        """Return what stands for a column of the rows in sets of columns, also without a name in FROM."""
        alias = column.table or (next(iter(self.items)) if len(self.items) == 1 else "")
        return token(Column(alias, column.name, stored=column.stored))


def token(expr: Expr) -> object:
    """Return what stands for an expression in sets: of a column its alias and name."""
    expr = unwrap(expr)
    return (expr.table, fold(expr.name) if expr.stored else expr.name) if isinstance(expr, Column) else expr


def conjuncts(expr: Expr | None) -> list[Expr]:
    """Return the conditions that a condition joins by AND: it is true where all of them are."""
    if expr is None:
        return []
    expr = unwrap(expr)
    if isinstance(expr, Binary) and expr.operator == "AND":
        return conjuncts(expr.left) + conjuncts(expr.right)
    return [expr]


def present_columns(where: Expr) -> frozenset[Key]:
    """Return the columns that a condition says are not NULL."""
    return frozenset(
        token(node.operand)  # type: ignore[misc]  # of a column it is a key
        for node in conjuncts(where)
        if isinstance(node, IsNull) and node.negated and isinstance(unwrap(node.operand), Column)
    )


def unique_in_join(
    left: From, right: From, kind: str, on: Expr | None
) -> tuple[frozenset[frozenset[Key]], bool]:
    """Return the unique sets of a join, and whether it has one row at most.

    Rows that each meet at most one row of the other side stay unique. Else a pair of rows comes once, and a
    row of one side that meets none once with NULLs; both cannot have one row of that side. With FULL a row of
    each side, with NULLs for the other, can be equal.
    """
    met_right: set[object] = set()
    met_left: set[object] = set()
    for node in conjuncts(on):
        if isinstance(node, Binary) and node.operator in ("=", "IS NOT DISTINCT FROM"):
            for x, y in ((token(node.left), token(node.right)), (token(node.right), token(node.left))):
                one, other = _type_in(left, x), _type_in(right, y)
                if one is not None and other is not None and (one == other or (exact(one) and exact(other))):
                    met_right.add(y)
                    met_left.add(x)
    one_right = right.single or any(columns <= met_right for columns in right.unique)
    one_left = left.single or any(columns <= met_left for columns in left.unique)
    made: set[frozenset[Key]] = set()
    if one_right and kind in ("INNER", "LEFT", "CROSS"):
        made |= left.unique
    if one_left and kind in ("INNER", "RIGHT", "CROSS"):
        made |= right.unique
    if kind != "FULL":
        made |= {
            x | y
            for x in islice(sorted(left.unique, key=_size_and_names), _KEYS)
            for y in islice(sorted(right.unique, key=_size_and_names), _KEYS)
        }
    single = kind != "FULL" and left.single and right.single
    return frozenset(islice(sorted(made, key=_size_and_names), 2 * _KEYS)), single or (
        left.single and one_right and kind == "LEFT"
    )


def unique_in_both(left: Rows, right: Rows, columns: dict[str, Value]) -> frozenset[frozenset[str]]:
    """Return the unique sets of rows, and of one more at most, which differs from all in a column of the set.

    There it is NULL and they never are, or they lie between two whole numbers and it does not. Conversions to
    the types of the result keep what differs apart.
    """
    apart, kept = set[str](), set[str]()
    for (name, x), y in zip(left.columns.items(), right.columns.values(), strict=True):
        if x.type == columns[name].type or (exact(x.type) and exact(columns[name].type)):
            kept.add(name)
            beyond = exact(x.type) and exact(y.type) and (x.high < y.low or y.high < x.low)
            if (not x.nullable and y.low > y.high) or (beyond and not (x.nullable and y.nullable)):
                apart.add(name)
    made = {s | {name} for s in left.unique for name in apart if right.single and s <= kept}
    return frozenset(s for s in made if not any(other < s for other in made))


def _size_and_names(names: frozenset[Key]) -> tuple[int, list[str]]:
    """Return what sets of columns are sorted by: the same in every process."""
    return len(names), sorted(map(str, names))


def _type_in(side: From, key: object) -> SqlType | None:
    """Return the type of a column of one side of a join; None of anything else."""
    rows = side.items.get(key[0]) if isinstance(key, tuple) else None
    found = rows.columns.get(key[1]) if rows is not None and isinstance(key, tuple) else None
    return None if found is None else found.type


def same_column(expr: Expr, at: Around, there: set[Expr]) -> Column | None:
    """Return the column of which an expression has a different value for each value, and never NULL.

    These are conversions of whole numbers that fit, or of which WHERE leaves out those that do not (`there`);
    a day moved by a number of days; and a time from milliseconds.
    """
    expr = unwrap(expr)
    low: Number = -INFINITY
    high: Number = INFINITY
    match expr:
        case Column():
            return expr
        case Cast(x) if exact(expr.type):
            low, high = (low, high) if expr in there else ends(expr.type)
        case Cast(Binary("+", Constant(date() as first), x)) if type(first) is date and expr.type == DATE:
            low, high = (day.toordinal() - first.toordinal() for day in (date.min, date.max))
        case Call("epoch_ms", (x,)):
            low, high = -MILLISECONDS, MILLISECONDS
        case _:
            return None
    column = same_column(x, at, there)
    value = None if column is None else derive(x, at)
    fitting = value is not None and exact(value.type) and low <= value.low <= value.high <= high
    return column if fitting else None


def unique_kept(
    query: Select, source: From, at: Around, columns: Iterable[str], names: dict[object, str]
) -> frozenset[frozenset[str]]:
    """Return the unique sets of rows of FROM as columns of the result, and those with a ROW_NUMBER."""
    there = {unwrap(c.operand) for c in conjuncts(query.where) if isinstance(c, IsNull) and c.negated}
    spelled: dict[object, list[str]] = {}
    for name, item in zip(columns, query.items, strict=True):
        column = same_column(item.expr, at, there)
        if column is not None:
            spelled.setdefault(source.key(column), []).append(name)
    made: set[frozenset[str]] = set()
    for columns_ in source.unique:
        ways = product(*(spelled.get(key, ()) for key in columns_))
        made |= {frozenset(way) for way in islice(ways, _KEYS)}
    for item in query.items:
        window = unwrap(item.expr)
        if (
            isinstance(window, Window)
            and isinstance(window.function, Call)
            and window.function.name.upper() == "ROW_NUMBER"
        ):
            keys = [token(part) for part in window.partition]
            if all(key in names for key in keys):
                made.add(frozenset((names[token(window)], *(names[key] for key in keys))))
    return frozenset(made)


_RANKED = frozenset(("RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST"))


def loose_items(
    windows: list[Window], query: Select, source: From, columns: dict[str, Value], names: dict[object, str]
) -> dict[str, frozenset[str]]:
    """Return the items that the order of rows that tie decides; refused if the others depend on it, too."""
    tied = []
    for window in windows:
        known = {*map(token, window.partition), *(token(term.expr) for term in window.order)}
        if not _is_same_for_peers(window) and not any(columns <= known for columns in source.unique):
            tied.append((window, _add_dependent(known, source)))
    orders = {(window.partition, window.order) for window, _ in tied}  # rows are sorted once for each
    if not tied or (len(orders) == 1 and columns_read(*query.items, source=source) <= tied[0][1]):
        return {}
    made = {}
    for name, item in zip(columns, query.items, strict=True):
        own = [known for window, known in tied if window in walk(item)]
        if own and not (len(own) == 1 and columns_read(item, source=source) <= own[0]):
            raise NotCertified("a window in an order that is not total", item)
        if own:
            beside = (other for key, other in names.items() if key in own[0] and isinstance(key, tuple))
            made[name] = frozenset(beside)
    return made


def _add_dependent(known: set[object], source: From) -> set[object]:
    """Return columns, and those that follow from them: all of an item of FROM whose rows they tell apart."""
    made = set(known)
    for alias, rows in source.items.items():
        if alias not in source.padded and any(
            {(alias, name) for name in columns} <= known for columns in rows.unique
        ):
            made |= {(alias, name) for name in rows.columns}
    return made


def reads_loose(query: Select, alias: str, rows: Rows, source: From) -> bool:
    """Return whether a query groups by, and each of its items reads, no others beside one that is loose."""
    if not isinstance(query.source, Derived):
        return False
    shared: frozenset[object] = frozenset.intersection(*rows.loose.values()) - frozenset(rows.loose)
    places = [e for e in query.group if isinstance(e, Constant)]
    grouping = [*query.group, *([query.where] if query.where else [])]
    if places or not _names_of(alias, columns_read(*grouping, source=source)) <= shared:
        return False
    for item in query.items:
        for part in [n for n in walk(item) if isinstance(n, Aggregate)] or (item,):
            read = _names_of(alias, columns_read(part, source=source))
            decided = [name for name in rows.loose if name in read]
            if len(decided) > 1 or any(not read - {name} <= rows.loose[name] for name in decided):
                return False
    return True


def _names_of(alias: str, keys: set[object]) -> frozenset[object]:
    """Return the names of columns of one item of FROM; what is no such column stands for itself."""
    return frozenset(key[1] if isinstance(key, tuple) and key[0] in (alias, "") else key for key in keys)


def _is_same_for_peers(window: Window) -> bool:
    """Return whether a window gives the same to all rows that tie, whatever their order is."""
    function, frame = window.function, window.frame
    if isinstance(function, Call):
        return function.name.upper() in _RANKED
    if frame is None or frame.unit in ("RANGE", "GROUPS"):
        return True
    sides = [frame.start, frame.end]
    return all(bound is not None and bound.offset is None and bound.side != "CURRENT ROW" for bound in sides)


def columns_read(*nodes: Node, source: From) -> set[object]:
    """Return the columns that nodes read, also in queries in them, which read columns of their own, too."""
    read: set[object] = set()
    waiting = [*nodes]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Query):
            inner = {token(part) for part in walk(node) if isinstance(part, Column)}
            read |= {
                key for key in inner if isinstance(key, tuple) and (not key[0] or key[0] in source.items)
            }
        elif isinstance(node, Column):
            read.add(token(node))
        else:
            waiting += parts(node)
    return read


def unsettle_lists(
    windows: list[Window], query: Select, source: From, columns: dict[str, Value], at: Around
) -> None:
    """Let no function read lists of DOUBLEs by which windows order rows: rows that tie may differ in zeros.

    A list that the result has as it is may be of either row, which is the same up to these.
    """
    inner = at._replace(found=None)
    ordered = [part for w in windows for part in (*w.partition, *(term.expr for term in w.order))]
    named = [part for part in ordered if isinstance(unwrap(part), Column)]
    lists = {token(part) for part in named if not derive(part, inner).canonical}
    for name, item in zip(columns, query.items, strict=True) if lists else ():
        expr = unwrap(item.expr)
        if isinstance(expr, Column):
            if token(expr) in lists:
                columns[name] = columns[name]._replace(settled=False)
            continue
        if columns_read(*_beside_orders(expr), source=source) & lists:
            raise NotCertified("a list of DOUBLEs that is read where rows that tie may differ in it", item)


def _beside_orders(expr: Expr) -> Iterator[Node]:
    """Yield the columns and queries of an expression, without the keys and orders of windows."""
    waiting: list[Node] = [expr]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Window):
            waiting.append(node.function)
        elif isinstance(node, (Column, Query)):
            yield node
        else:
            waiting += parts(node)
