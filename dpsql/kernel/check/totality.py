"""Whole queries: that they fail on no rows, and that their result is the same in every order of rows.

A query is walked once, innermost first. Of each relation the walk keeps what is known of its columns, and
sets of columns in which no two rows are equal. These show that an order is total where a result needs one:

* ROW_NUMBER, NTILE, LAG, LEAD, the values of a frame, and frames of ROWS depend on the order of rows that
  tie. If a unique set of columns is among those of PARTITION BY and ORDER BY, none tie. If every column that
  the query reads is among them, or follows from them, rows that tie are the same rows, and it does not matter
  which comes first, as long as there is no other order. Else the result is `loose`: an aggregate may read it
  beside those columns alone, grouped by such.
* LIMIT keeps the first rows: a unique set of columns, or all of them, must be among those of ORDER BY.
* DISTINCT, GROUP BY and set operations keep one of equal values, so DOUBLEs in them must have one zero.

Columns of DOUBLEs of declared tables have one zero and one NaN each, as the readers of tables make them;
lists of them are as they are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import NamedTuple

from dpsql.kernel.check.certificate import NotCertified
from dpsql.kernel.check.derive import (
    ROWS,
    Around,
    Rows,
    Scope,
    Value,
    check_decided,
    derive,
    exact,
    unify_values,
    unwrap,
    whole,
)
from dpsql.kernel.check.orders import (
    From,
    columns_read,
    loose_items,
    present_columns,
    reads_loose,
    token,
    unique_in_both,
    unique_in_join,
    unique_kept,
    unsettle_lists,
)
from dpsql.kernel.check.values import condition
from dpsql.kernel.facts import Facts
from dpsql.kernel.tree import (
    Aggregate,
    Column,
    Constant,
    Derived,
    DomainScan,
    Expr,
    Item,
    Join,
    Node,
    Query,
    Range,
    Scan,
    Select,
    SetOperation,
    Source,
    Unnest,
    Values,
    Window,
    list_tables,
    plain,
    walk,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BIGINT, BOOLEAN, DOUBLE


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """A query that was proved total: it fails on no rows, and depends on no order of rows."""

    rows: Rows
    """What is known of its result."""
    scopes: dict[int, tuple[Select, Scope]]
    """Each SELECT in it, by its identity, with the scope of its items; of one that is in several subqueries,
    that of the last."""
    large: tuple[tuple[Scope, Node], ...] = ()
    """Sums of whole numbers, with their scopes, of which only what they count of one unit can show that they
    do not overflow."""
    found: dict[int, Rows] = field(default_factory=dict)
    """What is known of the result of each query in it, as it is written."""

    def scope_of(self, select: Select) -> Scope:
        """Return the scope of the items of a SELECT of the query, or of an equal one."""
        found = self.scopes.get(id(select))
        return (found or next(each for each in self.scopes.values() if each[0] == select))[1]


def check_total(query: Query, facts: Facts, known: Known | None = None) -> Checked:
    """Prove that a query fails on no rows and that no order of rows changes its result, or refuse it.

    `known` has what was found from these facts before.
    """
    checking = Walk(facts, known)
    rows = checking.check_whole(query, None)
    checking.gather()
    return Checked(rows, checking.scopes, tuple(checking.large), checking.found)


class Walked(NamedTuple):
    """What was found of a query that is in no expression: it is the same wherever the query stands.

    What was found of queries that it reads from stands in `below` alone.
    """

    query: Query
    rows: Rows
    scopes: tuple[tuple[Select, Scope], ...]
    large: tuple[tuple[Scope, Node], ...]
    found: dict[int, Rows]
    below: tuple[Walked, ...]


class Known(NamedTuple):
    """What was found from some facts: of tables, and of queries that are in no expression, by identity."""

    tables: dict[str, Rows]
    queries: dict[int, Walked]


_ONE_ROW = From({}, single=True)


def _around(query: Select, scope: Scope) -> dict[str, dict[str, Value]]:
    """Return the columns, by alias, that a query may read of the queries around it."""
    read = {node.table for node in walk(query) if isinstance(node, Column)} - scope.items.keys()
    found: dict[str, dict[str, Value]] = {}
    outer = scope.outer
    while outer is not None:
        for alias in read & outer.items.keys():
            found.setdefault(alias, outer.items[alias].columns)
        outer = outer.outer
    return found


class Walk:
    """Walks a query; queries that occur twice are checked once, unless they are in an expression.

    Each of these has a walk of its own, of which `known` has the result.
    """

    def __init__(self, facts: Facts, known: Known | None = None) -> None:
        self.facts = facts
        self.known = Known({}, {}) if known is None else known
        self.scopes: dict[int, tuple[Select, Scope]] = {}
        self.large: list[tuple[Scope, Node]] = []
        self.found: dict[int, Rows] = {}
        self.below: list[Walked] = []

    def rows(self, query: Query, outer: Scope | None) -> Rows:
        """Check a query and return what is known of its rows; `outer` is the scope of the query around it."""
        query = plain(query)
        if outer is not None:
            return self._derive(query, outer)
        known = self.known.queries.get(id(query))
        if known is None:
            walk = Walk(self.facts, self.known)
            rows = walk._derive(query, None)
            own = (*walk.scopes.values(),), (*walk.large,), walk.found
            known = self.known.queries[id(query)] = Walked(query, rows, *own, (*walk.below,))
        self.below.append(known)
        return known.rows

    def gather(self) -> None:
        """Write down what was found of the queries below, of each once."""
        seen = set[int]()

        def add(below: Iterable[Walked]) -> None:
            for each in below:
                if id(each) not in seen:
                    seen.add(id(each))
                    add(each.below)
                    for place in each.scopes:
                        self._place(*place)
                    self.large += each.large
                    self.found.update(each.found)

        add(self.below)

    def _derive(self, query: Query, outer: Scope | None) -> Rows:
        if isinstance(query, Select):
            found = self._select(query, outer)
        elif isinstance(query, SetOperation):
            found = self._set_operation(query, outer)
        else:
            raise NotCertified("a query of an unknown kind", query)
        self.found[id(query)] = found
        return found

    def _place(self, query: Select, scope: Scope) -> None:
        """Write down the scope of a SELECT, which has the same columns around it wherever it stands."""
        _, known = self.scopes.get(id(query), (query, scope))
        if known.outer is not scope.outer and _around(query, known) != _around(query, scope):
            raise NotCertified("one query at two places, among other columns", query)
        self.scopes[id(query)] = query, scope

    def check_whole(self, query: Query, outer: Scope | None) -> Rows:
        """Check a query that is read as a whole, so that no order of rows may decide a column."""
        found = self.rows(query, outer)
        if found.loose:
            raise NotCertified("a window in an order that is not total", query)
        return found

    # items of FROM

    def _from(self, source: Source | None, outer: Scope | None) -> From:
        match source:
            case None:
                return _ONE_ROW
            case Join():
                return self._join(source, outer)
            case Derived(query, alias):
                return _alone(alias, self.rows(query, outer))
            case Scan(table, alias):
                return _alone(alias, self._table(table, source))
            case DomainScan(name):
                kind = self.facts.domain(name)
                if kind is None:
                    raise NotCertified("a domain that is not declared", source)
                places = self.facts.places_of(name)
                most = ROWS if places is None else places - 1
                columns = {"v": whole(kind, nullable=False), "o": Value(BIGINT, 0, most, False)}
                return _alone("", Rows(columns, frozenset((frozenset("v"), frozenset("o")))))
            case Range(start, stop, step, alias, column):
                low, high = (start, stop - 1) if (step or 1) > 0 else (stop + 1, start)
                return _alone(
                    alias, Rows({column: Value(BIGINT, low, high, False)}, frozenset((frozenset((column,)),)))
                )
            case Values(listed, alias, names):
                at, columns, unique = Around(Scope({}, self, outer)), {}, set()
                for i, name in enumerate(names):
                    cells = [derive(row[i], at) for row in listed]
                    columns[name] = unify_values(cells, source)
                    if _differ([row[i] for row in listed], cells):
                        unique.add(frozenset((name,)))
                return _alone(alias, Rows(columns, frozenset(unique)))
        raise NotCertified("an item of FROM of an unknown kind", source)

    def _table(self, table: str, source: Source) -> Rows:
        found = self.known.tables.get(table)
        if found is None:
            facts = self.facts.table(table)
            if facts is None:
                raise NotCertified("a table that is not declared", source)
            kinds = [(name, kind if facts.public else kind.held) for name, kind in facts.columns]
            columns = {name: whole(kind, canonical=kind == DOUBLE) for name, kind in kinds}
            found = self.known.tables[table] = Rows(columns, facts.unique)
        return found

    def _join(self, join: Join, outer: Scope | None) -> From:
        left = self._from(join.left, outer)
        if isinstance(join.right, Unnest):
            x = derive(join.right.items, Around(Scope(left.items, self, outer, left.padded)))
            check_decided((x,), join)
            if x.type.item is None or join.kind != "CROSS":
                raise NotCertified("the items of what is no list", join)
            listed = Rows({"c0": whole(x.type.item, canonical=x.canonical)})
            return From(_together(left.items, {join.right.alias: listed}, join), padded=left.padded)
        right, kind = self._from(join.right, outer), join.kind or "INNER"
        items = _together(left.items, right.items, join)
        padded = left.padded | right.padded
        if join.on is not None:
            condition(join.on, Around(Scope(items, self, outer, padded)))
        if kind in ("SEMI", "ANTI"):
            return left
        if kind in ("LEFT", "FULL"):
            padded |= frozenset(right.items)
        if kind in ("RIGHT", "FULL"):
            padded |= frozenset(left.items)
        if kind not in ("CROSS", "INNER", "LEFT", "RIGHT", "FULL"):
            raise NotCertified("a join of an unknown kind", join)
        unique, single = unique_in_join(left, right, kind, join.on)
        return From(items, unique, padded, single)

    # queries

    def _set_operation(self, query: SetOperation, outer: Scope | None) -> Rows:
        left, right = self.check_whole(query.left, outer), self.check_whole(query.right, outer)
        if len(left.columns) != len(right.columns):
            raise NotCertified("a set operation of different numbers of columns", query)
        pairs = zip(left.columns.items(), right.columns.values(), strict=True)
        columns = {name: unify_values((x, y), query) for (name, x), y in pairs}
        word = query.word.upper()
        if word == "UNION ALL":
            return Rows(columns, unique_in_both(left, right, columns))
        if word not in ("UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"):
            raise NotCertified("a set operation of an unknown kind", query)
        if not all(x.canonical for x in columns.values()):
            raise NotCertified("a set operation of DOUBLEs that have several zeros", query)
        return Rows(columns, frozenset() if word.endswith("ALL") else frozenset((frozenset(columns),)))

    def _select(self, query: Select, outer: Scope | None) -> Rows:
        source = self._from(query.source, outer)
        scope = Scope(source.items, self, outer, source.padded)
        if query.where is not None:
            condition(query.where, Around(scope))
            present = present_columns(query.where)
            if present:
                scope = Scope(source.items, self, outer, source.padded, present)
        self._place(query, scope)
        found: list[Expr] = []
        at = Around(scope, found=found)
        columns: dict[str, Value] = {}
        loose: dict[str, frozenset[str]] = {}
        for item in query.items:
            value = derive(item.expr, at)
            name = _name(item, columns)
            columns[name] = value._replace(literal=False) if value.literal else value
        names: dict[object, str] = {}
        windows = [*dict.fromkeys([node for node in found if isinstance(node, Window)])]
        every = windows or query.group or query.order or query.limit is not None
        for name, item in zip(columns, query.items, strict=True):
            if every or isinstance(item.expr, Column):
                names.setdefault(token(item.expr), name)
        aggregated = bool(query.group) or any(isinstance(node, Aggregate) for node in found)
        for alias, rows in source.items.items():
            if rows.loose and not (aggregated and reads_loose(query, alias, rows, source)):
                raise NotCertified("a window in an order that is not total", query)
        if windows:
            if aggregated:
                raise NotCertified("a window among aggregates", query)
            loose = loose_items(windows, query, source, columns, names)
            unsettle_lists(windows, query, source, columns, at)
        if aggregated:
            unique = self._check_groups(query, at, names, source, columns)
        else:
            unique = unique_kept(query, source, at._replace(found=None), columns, names)
        if query.distinct:
            self._check_distinct(query, columns, source, outer)
            unique |= {frozenset(columns)}
        if query.order or query.limit is not None:
            self._check_limit(query, at, unique, names)
        single = query.limit in (0, 1) or (not query.group if aggregated else source.single)
        if loose and (query.distinct or query.limit is not None):
            raise NotCertified("a window in an order that is not total", query)
        return Rows(columns, unique, single, loose)

    def _check_distinct(
        self, query: Select, columns: dict[str, Value], source: From, outer: Scope | None
    ) -> None:
        """Refuse DISTINCT of DOUBLEs with several zeros, unless columns beside them decide these.

        Of public rows they may be there, but no function may read them: which one it is, is no secret.
        """
        values = [*zip(columns, query.items, columns.values(), strict=True)]
        settled = {token(item.expr) for _, item, value in values if value.canonical}
        for name, item, value in values:
            if not value.canonical and not columns_read(item, source=source) <= settled:
                tables = map(self.facts.table, list_tables(query))
                if outer is not None or not all(table is not None and table.public for table in tables):
                    raise NotCertified("DISTINCT of DOUBLEs that have several zeros", item)
                columns[name] = value._replace(settled=False)

    def _check_groups(
        self, query: Select, at: Around, names: dict[object, str], source: From, columns: dict[str, Value]
    ) -> frozenset[frozenset[str]]:
        """Check GROUP BY; return the set of its columns, if all of them are in the result, and others."""
        keys = set()
        for expr in query.group:
            place = expr.value if isinstance(expr, Constant) else None
            key = (
                query.items[place - 1].expr
                if isinstance(place, int) and 0 < place <= len(query.items)
                else expr
            )
            if not derive(key, at).canonical:
                raise NotCertified("GROUP BY of a DOUBLE that has several zeros", key)
            keys.add(names.get(token(key)))
        made = {frozenset(filter(None, keys))} if keys and None not in keys else set()
        for name, item in zip([*columns], query.items, strict=True):
            match item.expr:  # a group has rows, and those of no other: of what is unique other values
                case Aggregate("MIN" | "MAX", (x,), False, (), None) if query.group:
                    columns[name] = columns[name]._replace(nullable=derive(x, at).nullable)
                    if isinstance(x, Column) and frozenset((source.key(x),)) in source.unique:
                        made.add(frozenset((name,)))
        return frozenset(made)

    def _check_limit(
        self, query: Select, at: Around, unique: frozenset[frozenset[str]], names: dict[object, str]
    ) -> None:
        """Refuse a LIMIT in an order in which different rows of the result tie."""
        named = {item.name: item.expr for item in query.items if item.name}
        for term in query.order:
            read = [n for n in walk(term.expr) if isinstance(n, Column) and not n.table]
            if any(named.get(column.name, column) != column for column in read):
                raise NotCertified("an order by a name that the result has for something else", term)
            if not derive(term.expr, at).canonical and query.limit is not None:
                raise NotCertified("an order by a DOUBLE that has several zeros", term)
        ordered = {token(term.expr) for term in query.order}
        known = {name for key, name in names.items() if key in ordered}
        listed = {token(item.expr) for item in query.items if not isinstance(unwrap(item.expr), Constant)}
        limited = query.limit is not None and query.limit > 0
        if limited and not (listed <= ordered or any(columns <= known for columns in unique)):
            raise NotCertified("a LIMIT in an order that is not total", query)


def _differ(cells: Sequence[Expr], known: Sequence[Value]) -> bool:
    """Return whether cells of a list are whole numbers that are known, or all texts, and no two are equal.

    TRUE and FALSE are 1 and 0 beside whole numbers, and any of these stay apart in the type of all of them.
    """
    texts = [cell.value for cell in cells if isinstance(cell, Constant) and isinstance(cell.value, str)]
    whole_numbers = (x for x in known if exact(x.type) or x.type == BOOLEAN)
    numbers = [x.low for x in whole_numbers if x.low == x.high and not x.nullable]
    return len(cells) in (len({*texts}), len({*numbers}))


def _name(item: Item, columns: dict[str, Value]) -> str:
    """Return the name of an item; of several of one name all but the first cannot be read."""
    name = item.column
    return name if name and name not in columns else f"#{len(columns)}"


def _alone(alias: str, rows: Rows) -> From:
    unique = frozenset(frozenset((alias, name) for name in columns) for columns in rows.unique)
    return From({alias: rows}, unique, single=rows.single)


def _together(left: dict[str, Rows], right: dict[str, Rows], join: Join) -> dict[str, Rows]:
    made = {**left, **right}
    if any(rows.loose for rows in made.values()):
        raise NotCertified("a window in an order that is not total", join)
    if len(made) < len(left) + len(right):
        raise NotCertified("two items of FROM with one alias", join)
    return made
