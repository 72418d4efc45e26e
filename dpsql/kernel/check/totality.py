"""Whole queries: that they fail on no rows, and that their result is the same in every order of the rows.

A query is walked once, innermost first. Of each relation the walk keeps what is known of its columns, and sets
of columns in which no two rows are equal. These show that an order is total where a result depends on one:

* ROW_NUMBER, NTILE, LAG, LEAD, the values of a frame, and frames of ROWS depend on the order of rows that tie.
  If a unique set of columns is among those of PARTITION BY and ORDER BY, none tie. If every column that the
  query reads is among them, or follows from them, rows that tie are the same rows, and it does not matter which
  comes first, as long as no second such window has other ties. Else the result is `loose`: an aggregate may
  read it beside those columns alone, grouped by such.
* LIMIT keeps the first rows: a unique set of columns, or all of them, must be among those of ORDER BY.
* DISTINCT, GROUP BY and set operations keep one of equal values, so DOUBLEs in them must have one zero.

Columns of declared tables have one zero and one NaN each, as the readers of tables make them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from dpsql.kernel.check.certificate import NotCertified
from dpsql.kernel.check.derive import ROWS, Around, Rows, Scope, bare, derive, unified
from dpsql.kernel.check.types_of import Value, whole
from dpsql.kernel.check.values import condition
from dpsql.kernel.facts import Facts, fold
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Call,
    Column,
    Constant,
    Derived,
    DomainScan,
    Expr,
    IsNull,
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
    parts,
    walk,
)
from dpsql.types import BIGINT

Key = tuple[str, str]
"""A column: the alias of its item of FROM, and its name."""
_KEYS = 8
"""So many unique sets of a relation are kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """A query that fails on no rows and depends on no order of them.

    Attributes
    ----------
    rows
        What is known of its result.
    scopes
        The scope of the items of each SELECT in it, by node; of a SELECT that is in several subqueries, that
        of the last.
    large
        Sums of whole numbers, with their scopes, of which only what they count of one unit can show that they
        do not overflow.
    """

    rows: Rows
    scopes: dict[Select, Scope]
    large: tuple[tuple[Scope, Node], ...] = ()


def check_total(query: Query, facts: Facts) -> Checked:
    """Prove that a query fails on no rows and that its result depends on no order of them; refuse it if not."""
    checking = Walk(facts)
    rows = checking.rows(query, None)
    return Checked(rows, checking.scopes, tuple(checking.large))


@dataclass(frozen=True, slots=True, eq=False)
class _From:
    """What is known of the rows that a SELECT reads."""

    items: dict[str, Rows]
    unique: frozenset[frozenset[Key]] = frozenset()
    padded: frozenset[str] = frozenset()
    single: bool = False


_ONE_ROW = _From({}, single=True)


class Walk:
    """Walks a query; queries that occur twice are checked once, unless they are in an expression."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.scopes: dict[Select, Scope] = {}
        self.large: list[tuple[Scope, Node]] = []
        self._rows: dict[Query, Rows] = {}
        self._tables: dict[str, Rows] = {}

    def rows(self, query: Query, outer: Scope | None) -> Rows:
        """Check a query and return what is known of its rows; `outer` is the scope of the query around it."""
        found = self._rows.get(query) if outer is None else None
        if found is None:
            if isinstance(query, Select):
                found = self._select(query, outer)
            elif isinstance(query, SetOperation):
                found = self._set_operation(query, outer)
            else:
                raise NotCertified("a query of an unknown kind", query)
            if outer is None:
                self._rows[query] = found
        return found

    # items of FROM

    def _from(self, source: Source | None, outer: Scope | None) -> _From:
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
                at = Around(Scope({}, self, outer))
                columns = {
                    name: unified([derive(row[i], at) for row in listed], source)
                    for i, name in enumerate(names)
                }
                return _alone(alias, Rows(columns))
        raise NotCertified("an item of FROM of an unknown kind", source)

    def _table(self, table: str, source: Source) -> Rows:
        found = self._tables.get(table)
        if found is None:
            facts = self.facts.table(table)
            if facts is None:
                raise NotCertified("a table that is not declared", source)
            columns = {name: whole(kind if facts.public else kind.held) for name, kind in facts.columns}
            found = self._tables[table] = Rows(columns, facts.unique)
        return found

    def _join(self, join: Join, outer: Scope | None) -> _From:
        left = self._from(join.left, outer)
        if isinstance(join.right, Unnest):
            x = derive(join.right.items, Around(Scope(left.items, self, outer, left.padded)))
            if x.type.item is None or join.kind != "CROSS":
                raise NotCertified("the items of what is no list", join)
            return _From(
                _together(
                    left.items,
                    {join.right.alias: Rows({"c0": whole(x.type.item, canonical=x.canonical)})},
                    join,
                )
            )
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
        unique, single = _unique_in_join(left, right, kind, join.on)
        return _From(items, unique, padded, single)

    # queries

    def _set_operation(self, query: SetOperation, outer: Scope | None) -> Rows:
        left, right = self.rows(query.left, outer), self.rows(query.right, outer)
        if len(left.columns) != len(right.columns):
            raise NotCertified("a set operation of different numbers of columns", query)
        columns = {}
        for (name, x), y in zip(left.columns.items(), right.columns.values(), strict=True):
            columns[name] = unified((x, y), query)
        word = query.word.upper()
        if word == "UNION ALL":
            return Rows(columns)
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
            present = _present(query.where)
            scope = replace(scope, present=present) if present else scope
        self.scopes[query] = scope
        found: list[Expr] = []
        at = Around(scope, found=found)
        columns: dict[str, Value] = {}
        names: dict[object, str] = {}
        loose: dict[str, frozenset[str]] = {}
        for item in query.items:
            value = derive(item.expr, at)
            name = item.name or getattr(item.expr, "name", "")
            columns[name] = value._replace(literal=False) if value.literal else value
            names.setdefault(token(item.expr), name)
        windows = [*dict.fromkeys(node for node in found if isinstance(node, Window))]
        aggregated = bool(query.group) or any(isinstance(node, Aggregate) for node in found)
        for alias, rows in source.items.items():
            if rows.loose and not (aggregated and _reads_loose(query, alias, rows, source)):
                raise NotCertified("a window in an order that is not total", query)
        if windows:
            if aggregated:
                raise NotCertified("a window among aggregates", query)
            loose = _loose(windows, query, source, names)
        unique = self._grouped(query, at, names) if aggregated else _kept(query, source, names)
        if query.distinct:
            self._check_distinct(query, columns, source)
            unique |= {frozenset(columns)}
        if query.limit is not None:
            self._check_limit(query, at, unique, names)
        single = query.limit in (0, 1) or (not query.group if aggregated else source.single)
        if loose and (query.distinct or query.limit is not None):
            raise NotCertified("a window in an order that is not total", query)
        return Rows(columns, unique, single, loose)

    def _check_distinct(self, query: Select, columns: dict[str, Value], source: _From) -> None:
        """Refuse DISTINCT of DOUBLEs with several zeros, unless they are computed from columns beside them.

        Of public rows either zero may be kept: that says nothing of private ones.
        """
        settled = {
            token(item.expr)
            for item in query.items
            if columns[item.name or getattr(item.expr, "name", "")].canonical
        }
        for item in query.items:
            name = item.name or getattr(item.expr, "name", "")
            if columns[name].canonical or _read(item, source=source) <= settled:
                continue
            if not self._is_public(query):
                raise NotCertified("DISTINCT of DOUBLEs that have several zeros", item)

    def _is_public(self, query: Query) -> bool:
        """Return whether a query reads public rows alone."""
        tables = [self.facts.table(node.table) for node in walk(query) if isinstance(node, Scan)]
        return all(table is not None and table.public for table in tables)

    def _grouped(self, query: Select, at: Around, names: dict[object, str]) -> frozenset[frozenset[str]]:
        """Check GROUP BY; return the set of its columns, if all of them are in the result."""
        keys = set()
        for expr in query.group:
            place = expr.value if isinstance(expr, Constant) else None
            key = (
                query.items[place - 1].expr
                if isinstance(place, int) and 0 < place <= len(query.items)
                else expr
            )
            if not derive(key, at._replace(found=None)).canonical:
                raise NotCertified("GROUP BY of a DOUBLE that has several zeros", key)
            keys.add(names.get(token(key)))
        return frozenset() if None in keys or not keys else frozenset((frozenset(filter(None, keys)),))

    def _check_limit(
        self, query: Select, at: Around, unique: frozenset[frozenset[str]], names: dict[object, str]
    ) -> None:
        """Refuse a LIMIT in an order in which different rows of the result tie."""
        for term in query.order:
            if not derive(term.expr, at).canonical:
                raise NotCertified("an order by a DOUBLE that has several zeros", term)
        ordered = {token(term.expr) for term in query.order}
        known = {name for key, name in names.items() if key in ordered}
        listed = {token(item.expr) for item in query.items if not isinstance(bare(item.expr), Constant)}
        if query.limit and not (listed <= ordered or any(columns <= known for columns in unique)):
            raise NotCertified("a LIMIT in an order that is not total", query)


def token(expr: Expr) -> object:
    """Return what stands for an expression in sets: of a column its alias and name."""
    expr = bare(expr)
    return (expr.table, fold(expr.name) if expr.stored else expr.name) if isinstance(expr, Column) else expr


def _alone(alias: str, rows: Rows) -> _From:
    unique = frozenset(frozenset((alias, name) for name in columns) for columns in rows.unique)
    return _From({alias: rows}, unique, single=rows.single)


def _together(left: dict[str, Rows], right: dict[str, Rows], join: Join) -> dict[str, Rows]:
    made = {**left, **right}
    if len(made) < len(left) + len(right):
        raise NotCertified("two items of FROM with one alias", join)
    return made


def conjuncts(node: Expr | None) -> Iterator[Expr]:
    """Return the conditions that AND joins."""
    if node is None:
        return
    node = bare(node)
    if isinstance(node, Binary) and node.operator == "AND":
        yield from conjuncts(node.left)
        yield from conjuncts(node.right)
    else:
        yield node


def _present(where: Expr) -> frozenset[Key]:
    """Return the columns that a condition says are not NULL."""
    return frozenset(
        token(node.operand)  # type: ignore[misc]  # of a column it is a key
        for node in conjuncts(where)
        if isinstance(node, IsNull) and node.negated and isinstance(bare(node.operand), Column)
    )


def _unique_in_join(
    left: _From, right: _From, kind: str, on: Expr | None
) -> tuple[frozenset[frozenset[Key]], bool]:
    """Return the unique sets of a join, and whether it has one row at most.

    A row that meets at most one row of the other side is repeated by none. A pair of rows comes once; a row of
    one side that meets none comes once with NULLs, and no pair has NULLs in a unique set where it has them: the
    row of the other side with these NULLs would be one that it meets. With FULL two such rows can be equal.
    """
    equal = set()
    for node in conjuncts(on):
        if isinstance(node, Binary) and node.operator in ("=", "IS NOT DISTINCT FROM"):
            equal |= {(token(node.left), token(node.right)), (token(node.right), token(node.left))}
    met_right = {y for x, y in equal if _of(x, left)}
    met_left = {y for x, y in equal if _of(x, right)}
    one_right = right.single or any(columns <= met_right for columns in right.unique)
    one_left = left.single or any(columns <= met_left for columns in left.unique)
    made: set[frozenset[Key]] = set()
    if one_right and kind in ("INNER", "LEFT", "CROSS"):
        made |= left.unique
    if one_left and kind in ("INNER", "RIGHT", "CROSS"):
        made |= right.unique
    if kind != "FULL":
        made |= {x | y for x in islice(left.unique, _KEYS) for y in islice(right.unique, _KEYS)}
    single = kind != "FULL" and left.single and right.single
    return frozenset(islice(sorted(made, key=len), 2 * _KEYS)), single or (
        left.single and one_right and kind == "LEFT"
    )


def _of(key: object, side: _From) -> bool:
    return isinstance(key, tuple) and key[0] in side.items


def _kept(query: Select, source: _From, names: dict[object, str]) -> frozenset[frozenset[str]]:
    """Return the unique sets of rows of FROM that are columns of the result, and those with a ROW_NUMBER."""
    made = {
        frozenset(names[key] for key in columns)
        for columns in source.unique
        if all(k in names for k in columns)
    }
    for item in query.items:
        window = bare(item.expr)
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


def _loose(
    windows: list[Window], query: Select, source: _From, names: dict[object, str]
) -> dict[str, frozenset[str]]:
    """Return the items that the order of rows that tie decides; refused if the others depend on it, too."""
    tied = []
    for window in windows:
        known = {*map(token, window.partition), *(token(term.expr) for term in window.order)}
        if not _of_peers(window) and not any(columns <= known for columns in source.unique):
            tied.append((window, _following(known, source)))
    if not tied or (
        len({frozenset(known) for _, known in tied}) == 1 and _read(*query.items, source=source) <= tied[0][1]
    ):
        return {}
    made = {}
    for item in query.items:
        own = [known for window, known in tied if window in walk(item)]
        if own and not (len(own) == 1 and _read(item, source=source) <= own[0]):
            raise NotCertified("a window in an order that is not total", item)
        if own:
            made[item.name] = frozenset(name for key, name in names.items() if key in own[0])
    return made


def _following(known: set[object], source: _From) -> set[object]:
    """Return columns, and those that follow from them: of an item of FROM of which they tell rows apart, all."""
    made = set(known)
    for alias, rows in source.items.items():
        if alias not in source.padded and any(
            {(alias, name) for name in columns} <= known for columns in rows.unique
        ):
            made |= {(alias, name) for name in rows.columns}
    return made


def _reads_loose(query: Select, alias: str, rows: Rows, source: _From) -> bool:
    """Return whether a query groups by, and each of its items reads, no other columns beside one that is loose."""
    if not isinstance(query.source, Derived):
        return False
    shared = frozenset.intersection(*rows.loose.values()) - frozenset(rows.loose)
    places = [e for e in query.group if isinstance(e, Constant)]
    grouping = [*query.group, *([query.where] if query.where else [])]
    if places or not _named(alias, _read(*grouping, source=source)) <= shared:
        return False
    for part in aggregates_of(query):
        read = _named(alias, _read(part, source=source))
        decided = read & frozenset(rows.loose)
        if len(decided) > 1 or any(not read - decided <= rows.loose[name] for name in decided):
            return False
    return True


def _named(alias: str, keys: set[object]) -> frozenset[object]:
    """Return the names of columns of one item of FROM; what is no such column stands for itself."""
    return frozenset(key[1] if isinstance(key, tuple) and key[0] in (alias, "") else key for key in keys)


def aggregates_of(query: Select) -> Iterator[Node]:
    """Return the aggregates of a query, and its items that have none."""
    for item in query.items:
        found = [node for node in walk(item) if isinstance(node, Aggregate)]
        yield from found or [item]


def _of_peers(window: Window) -> bool:
    """Return whether a window gives the same to all rows that tie, whatever their order is."""
    function, frame = window.function, window.frame
    if isinstance(function, Call):
        return function.name.upper() in _RANKED
    if frame is None or frame.unit in ("RANGE", "GROUPS"):
        return True
    sides = [frame.start, frame.end]
    return all(bound is not None and bound.offset is None and bound.side != "CURRENT ROW" for bound in sides)


def _read(*nodes: Node, source: _From) -> set[object]:
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
