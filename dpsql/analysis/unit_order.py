"""Which dates of a row are never before others of it: of each unit, the first one is the least of all.

Each row of FROM is of one unit. Where one column is the least of a unit's dates, as in `SELECT member_id,
MIN(at) .. GROUP BY member_id` or `MIN(at) OVER (PARTITION BY member_id)`, and another holds one of the dates
from which it was chosen, no row has the second before the first: no group has a number of months below 0.
Both are followed to the columns of the declared table; what is cut to days, months or longer periods on the
way is compared after it was cut so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from dpsql.analysis.row_conditions import split_conjuncts, substitute_columns
from dpsql.kernel.tree import (
    Aggregate,
    Apply,
    Binary,
    Call,
    Cast,
    Column,
    Constant,
    Derived,
    Expr,
    IsTruth,
    Join,
    Not,
    OrderTerm,
    Paren,
    Query,
    Scan,
    Select,
    Source,
    Try,
    Window,
    facts,
    map_parts,
    walk,
)
from dpsql.kernel.tree.forms import listed_forms
from dpsql.kernel.tree.period_units import LONGER, TRUNCATIONS
from dpsql.lazy_dataclass import dataclass
from dpsql.types import DATE, NULL, TIMESTAMP, VARCHAR

_BETWEEN = ("date_diff", "datediff")


@dataclass(frozen=True, slots=True)
class OrderedColumns:
    """Two dates of a row, cut to a period: the first is never after the second, if neither is NULL."""

    low: Expr
    high: Expr
    length: str

    @property
    def ends(self) -> tuple[Expr, Expr]:
        """The two dates."""
        return self.low, self.high

    @property
    def reads(self) -> frozenset[str]:
        """The columns of the two dates, by their generated names."""
        return facts(self.low).reads | facts(self.high).reads

    def find_length(self, parts: Callable[[str], Mapping[str, Expr]]) -> str:
        """Return the period by which the dates are compared, where `parts` of columns are read; or "".

        Where the days of a column are not read, that is a month or longer.
        """
        days = [
            any((date := read_date(part)) is not None and date[-1] == "day" for part in parts(name).values())
            for name in self.reads
        ]
        if all(days) or self.length in LONGER["month"]:
            return self.length
        return "month" if self.length == "day" else ""

    def replace_columns(self, columns: Mapping[str, Expr]) -> OrderedColumns:
        """Return the order of what columns are made of."""
        low, high = (substitute_columns(end, columns) for end in self.ends)
        return OrderedColumns(low, high, self.length)

    def write(self, length: str) -> Expr:
        """Return the condition that the first date is not in a later period than the second."""
        low, high = (_truncate_date(length, Cast(end, TIMESTAMP), "TIMESTAMP") for end in self.ends)
        return Not(IsTruth(Paren(Binary(">", low, high)), True))


def read_order(condition: Expr) -> OrderedColumns | None:
    """Return the order of two dates that a comparison says; None for another condition."""
    match condition:
        case Paren(inner):
            return read_order(inner)
        case Binary("<" | "<=" | ">" | ">=" as operator, left, right):
            low, high = (left, right) if operator in ("<", "<=") else (right, left)
            if read_date(left) is not None and read_date(right) is not None:
                return OrderedColumns(low, high, "day")
    return None


def write_boundaries(node: Expr) -> Expr:
    """Return an expression in which numbers of months, quarters and years are those between their starts."""
    match node:
        case Apply(form, (Constant(length) as unit, start, end)) if form.name in _BETWEEN:
            if length in LONGER["month"]:
                cut = (_truncate_date(str(length), each, form.arguments[1]) for each in (start, end))
                return Apply(form, (unit, *map(write_boundaries, cut)))
    return map_parts(node, write_boundaries)


def _truncate_date(length: str, date: Expr, kind: str) -> Expr:
    """Return a DATE or TIMESTAMP cut to a period."""
    forms = listed_forms()["date_trunc"]
    form = next(each for each in forms if each.arguments == (f"={length}", kind))
    return Apply(form, (Constant(length, VARCHAR), date))


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a query: each is a row of a declared table, or of the rows of one unit.

    A column is an expression over the table's. `MIN(x)` stands for the least x of the unit.
    """

    table: Scan
    columns: Mapping[str, Expr]
    kept: frozenset[Expr]
    """The conditions that the rows meet."""
    chosen: Mapping[str, frozenset[Expr]]
    """Columns with a value that was chosen from several rows -> the conditions that these rows meet."""


def find_ordered(source: Source, conditions: Sequence[Expr] = ()) -> tuple[OrderedColumns, ...]:
    """Return which columns of the items of a FROM clause are in order on each row that meets conditions."""
    items = list[tuple[str, _Rows]]()
    for alias, query in _list_items(source):
        rows = _follow(query)
        if rows is not None:
            own = {f"{alias}.{name}": expr for name, expr in rows.columns.items()}
            for condition in conditions:
                if facts(condition).reads <= own.keys():
                    rows = _keep_first(rows, condition, own, rows.chosen)
            items.append((alias, rows))
    dates = [
        (Column(alias, name), rows.table, rows.chosen.get(name, rows.kept), read)
        for alias, rows in items
        for name, expr in rows.columns.items()
        if (read := read_date(expr)) is not None
    ]
    ordered = dict[OrderedColumns, None]()
    for one, table, among, (which, date, cut) in dates:
        for other, of, within, (end, same, other_cut) in dates:
            length = _find_longer(cut, other_cut)
            # What was chosen from some rows is in order with what is of one of these.
            if which and which != end and length and (table, date) == (of, same) and among <= within:
                low, high = (one, other) if which == "MIN" else (other, one)
                ordered[OrderedColumns(low, high, length)] = None
    return tuple(ordered)


def _list_items(source: Source | None) -> Iterator[tuple[str, Query]]:
    """Yield the items of FROM of which each row has one row, also those within others."""
    match source:
        case Join(left, _, right):
            yield from _list_items(left)
            yield from _list_items(right)
        case Derived(query, alias):
            yield alias, query
            if isinstance(query, Select) and not query.group:
                yield from _list_items(query.source)


def _follow(query: Query) -> _Rows | None:
    """Return the rows of a query, followed to one declared table; None if they are not of one."""
    if not isinstance(query, Select) or query.limit is not None:
        return None
    match query.source:
        case Scan() as table:
            below, places = _Rows(table, {}, frozenset(), {}), dict[str, Expr]()
        case Derived(inner, alias) if (found := _follow(inner)) is not None:
            below, places = found, {f"{alias}.{name}": expr for name, expr in found.columns.items()}
        case _:
            return None
    kept = below.kept | {_expand(each, places) for each in split_conjuncts(query.where)}
    made = {item.column: _expand(item.expr, places) for item in query.items}
    unit = made.get("u")
    alone = all(made[item.column] == unit for item in query.items[: len(query.group)])
    columns, chosen = dict[str, Expr](), dict[str, frozenset[Expr]]()
    for item in query.items:
        columns[item.column] = _settle(made[item.column], unit, alone=alone)
        among = [below.chosen[name] for name in _list_names(item.expr) if name in below.chosen]
        if any(isinstance(each, Aggregate | Window) for each in walk(item.expr)):
            among.append(kept)
        if among:
            chosen[item.column] = frozenset[Expr]().union(*among)
    rows = _Rows(below.table, columns, kept, chosen)
    for condition in split_conjuncts(query.where):
        rows = _keep_first(rows, condition, places, below.chosen)
    return rows


def _keep_first(
    rows: _Rows, condition: Expr, places: Mapping[str, Expr], chosen: Mapping[str, frozenset[Expr]]
) -> _Rows:
    """Return rows that meet a condition: those with `ROW_NUMBER() OVER (..) = 1` have the first date."""
    first = _read_first(_expand(condition, places), rows.columns.get("u"))
    if first is None:
        return rows
    names = [name for name, expr in rows.columns.items() if expr == first.arguments[0]]
    among = frozenset[Expr]().union(*(chosen.get(name, ()) for name in _list_names(condition)))
    columns = {**rows.columns, **dict.fromkeys(names, first)}
    return _Rows(rows.table, columns, rows.kept, {**rows.chosen, **dict.fromkeys(names, among)})


def _expand(node: Expr, places: Mapping[str, Expr]) -> Expr:
    """Return an expression with what columns are made of, also in what windows are over."""
    if isinstance(node, Column):
        return places.get(f"{node.table}.{node.name}", node)
    return map_parts(node, lambda part: _expand(part, places))


def _list_names(node: Expr) -> list[str]:
    return [each.name for each in walk(node) if isinstance(each, Column)]


def _settle(node: Expr, unit: Expr | None, *, alone: bool) -> Expr:
    """Return an expression with `MIN(x)` and `MAX(x)` for windows over a unit's rows that are these.

    What else is chosen from rows tells nothing here; `alone` says that groups are units.
    """
    match node:
        case Window(function, partition, order, None) if all(each == unit for each in partition):
            match function:
                case Aggregate("MIN" | "MAX") if not order:
                    return function
                case Call("FIRST_VALUE", (x,)) if order and order[0].expr == x:
                    return _find_first(order)
        case Aggregate("MIN" | "MAX", filter=None) if alone:
            return node
        case Window() | Aggregate():
            return node if isinstance(node, Window) else Constant(None, NULL)
    return map_parts(node, lambda part: _settle(part, unit, alone=alone))


def _find_first(order: tuple[OrderTerm, ...]) -> Aggregate:
    """Return what the first row in an order has of its first term."""
    return Aggregate("MAX" if order[0].direction == "DESC" else "MIN", (order[0].expr,))


def _read_first(condition: Expr, unit: Expr | None) -> Aggregate | None:
    """Return the date that a row has of all of its unit, of a condition `ROW_NUMBER() OVER (..) = 1`."""
    match condition:
        case Paren(Binary("=", Paren(left), right)) | Binary("=", Paren(left), right):
            match left, right:
                case Window(Call("ROW_NUMBER"), partition, order), Constant(1) | Cast(Constant(1)):
                    return _find_first(order) if order and all(each == unit for each in partition) else None
    return None


def _find_longer(one: str, other: str) -> str | None:
    """Return the longer of two periods in which the shorter one lies; None if none lies in the other."""
    return other if other in LONGER[one] else one if one in LONGER[other] else None


def read_date(node: Expr) -> tuple[str, Column, str] | None:
    """Return which date of the unit's an expression is (MIN, MAX or any), of which column, cut to what."""
    match node:
        case Column():
            return "", node, "day"
        case Aggregate("MIN" | "MAX" as which, (x,)):
            read = read_date(x)
            return None if read is None or read[0] else (which, *read[1:])
        case Paren(inner) | Try(inner):
            return read_date(inner)
        case Cast(operand, kind) if kind in (DATE, TIMESTAMP):
            return read_date(operand)
        case Apply(form, (Constant(str() as length), operand)) if (
            form.name in TRUNCATIONS and length in LONGER
        ):
            read = read_date(operand)
            longer = None if read is None else _find_longer(read[2], length)
            return None if read is None or longer is None else (*read[:2], longer)
    return None
