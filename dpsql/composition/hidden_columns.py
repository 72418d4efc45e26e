"""Trace columns of an outer query to released measures by hidden columns, and read what these hold.

An outer column has the error bar of a measure if it is a bare reference to it, through SELECTs that map rows:
projections, joins, filters, windows, LIMIT. Such a SELECT gets hidden columns: the numbers of the released
rows that its rows come from. Grouping, DISTINCT and set operations end a trace. Only copies are changed, and
a column that is not understood has no error bar.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.analysis import function_name
from dpsql.composition.released_terms import (
    NULLED,
    CallTerm,
    Fold,
    Known,
    LinearTerm,
    NoIntervalError,
    Term,
    forms_of,
    inside,
)
from dpsql.language import copy_tree, find_nodes, walk_tree
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold

HIDDEN = "dpsql_row_"
"""With this begin the names of hidden columns."""

Columns = Callable[[str], "tuple[str, ...] | None"]
"""The columns of a released or public relation, by its name; None if it is neither."""

_MAPS_ROWS = frozenset(
    {"expressions", "from_", "joins", "where", "order", "limit", "offset", "qualify", "windows", "with_"}
)
"""The clauses of a SELECT whose rows are combinations of rows of its FROM clause, none of them merged."""


class UnknownColumnsError(Exception):
    """The columns of a SELECT cannot be traced."""


@dataclass(eq=False, slots=True)
class FromItem:
    """One item of a FROM clause: a relation, or a SELECT that is traced."""

    alias: str
    names: tuple[str, ...] | None
    """Its columns; None: they are not known."""
    relation: str = ""
    own: tuple[str, ...] = ()
    """The columns of the relation by its own names."""
    traced: Traced | None = None
    merged: frozenset[str] = frozenset()
    """Folded names of the columns that USING merges with those of earlier items."""


Reference = tuple[FromItem, int]
"""A column of an item of the FROM clause, by its place."""


@dataclass(eq=False, slots=True)
class Traced:
    """A SELECT that maps rows, and what its columns refer to."""

    select: exp.Select
    columns: list[tuple[str, Reference | None]]
    """The name of each column ("" if it is computed), and what it is a bare reference to."""
    numbers: Iterator[int]
    _made: dict[tuple[int, str], str] = field(default_factory=dict)

    def origin(self, place: int) -> tuple[str, str] | None:
        """Return the relation and the column of which a column is the bare value."""
        reference = self.columns[place][1]
        if reference is None:
            return None
        item, inner = reference
        if item.traced is not None:
            return item.traced.origin(inner)
        return (item.relation, item.own[inner]) if item.relation else None

    def row(self, place: int) -> str:
        """Return the hidden column with the number of the row that a column comes from; add it if new."""
        reference = self.columns[place][1]
        assert reference is not None  # noqa: S101  the caller knows its origin
        item, inner = reference
        column = "rowid" if item.traced is None else item.traced.row(inner)
        made = self._made.get((id(item), column))
        if made is None:
            made = self._made[id(item), column] = f"{HIDDEN}{next(self.numbers)}"
            value = exp.column(column, table=item.alias or None, quoted=True)
            self.select.append("expressions", exp.alias_(value, made, quoted=True))
        return made


def trace(query: exp.Expr, columns: Columns) -> Traced | None:
    """Trace the columns of a query, in a copy that `Traced.row` changes; None if they cannot be traced."""
    made = copy_tree(query)
    drawn = any(str(function_name(node)).lower() == "random" for node in find_nodes(made, exp.Anonymous))
    if not isinstance(made, exp.Select) or drawn:
        return None
    try:
        return Tracer(columns, itertools.count()).select(made, {})
    except UnknownColumnsError:
        return None


@dataclass(slots=True)
class Tracer:
    """Traces the SELECTs of a query."""

    columns: Columns
    numbers: Iterator[int]

    def select(self, select: exp.Select, ctes: Mapping[str, exp.CTE | None]) -> Traced:
        """Trace one SELECT; `ctes` has the common table expressions around it, None for untraceable ones."""
        if any(value for name, value in select.args.items() if name not in _MAPS_ROWS):
            raise UnknownColumnsError
        own = self._ctes(select)
        if own.keys() & ctes.keys():
            raise UnknownColumnsError
        items = self._items(select, {**ctes, **own})
        check_stars(select, items)
        found: list[tuple[str, Reference | None]] = []
        for node in select.expressions:
            bare = node.this if isinstance(node, exp.Alias) else node
            if isinstance(node, exp.Star) or (
                isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
            ):
                found += self._star(node, items)
            elif isinstance(bare, exp.Column):
                found.append((node.alias_or_name, _resolved(bare, items)))
            else:
                found.append((node.alias_or_name if isinstance(node, exp.Alias) else "", None))
        return Traced(select, found, self.numbers)

    def _ctes(self, select: exp.Select) -> dict[str, exp.CTE | None]:
        """Return the SELECT's own common table expressions; None for one that may not be copied."""
        clause = select.args.get("with_") or exp.With(expressions=[])
        listed = clause.expressions
        names = [fold(cte.alias) for cte in listed]
        found: dict[str, exp.CTE | None] = {}
        for i, cte in enumerate(listed):
            # In the FROM clause, where the copy stands, these names mean other relations than here.
            later = {fold(table.name) for table in find_nodes(cte.this, exp.Table)} & set(names[i:])
            found[names[i]] = None if later or clause.args.get("recursive") else cte
        return found

    def _items(self, select: exp.Select, ctes: Mapping[str, exp.CTE | None]) -> list[FromItem]:
        clause = select.args.get("from_")
        if clause is None:
            raise UnknownColumnsError
        items = [self._item(clause.this, ctes)]
        for join in select.args.get("joins") or []:
            if join.args.get("method") not in (None, "", "ASOF") or join.args.get("pivots"):
                raise UnknownColumnsError
            item = self._item(join.this, ctes)
            if join.kind in ("SEMI", "ANTI"):
                continue
            item.merged = frozenset(fold(node.name) for node in join.args.get("using") or [])
            items.append(item)
        return items

    def _item(self, node: exp.Expr, ctes: Mapping[str, exp.CTE | None]) -> FromItem:
        alias, renamed = node.alias_or_name, node.alias_column_names
        plain = all(not value or name in ("this", "alias") for name, value in node.args.items())
        if isinstance(node, exp.Table) and plain and isinstance(node.this, exp.Identifier):
            if fold(node.name) not in ctes:
                names = self.columns(node.name)
                known = names is not None
                return FromItem(alias, with_names(names, renamed), node.name if known else "", names or ())
            cte = ctes[fold(node.name)]
            renamed = [] if cte is None else list(with_names(tuple(cte.alias_column_names), renamed) or ())
            made = None if cte is None else exp.Subquery(this=copy_tree(cte.this))
            item = self._derived(alias, made, renamed, ctes)
            if made is not None and item.traced is not None:
                columns = [exp.to_identifier(name, quoted=True) for name in renamed]
                identifier = exp.to_identifier(alias, quoted=True)
                made.set("alias", exp.TableAlias(this=identifier, columns=columns))
                node.replace(made)
            return item
        return self._derived(alias, node if plain else None, renamed, ctes)

    def _derived(
        self, alias: str, node: exp.Expr | None, renamed: list[str], ctes: Mapping[str, exp.CTE | None]
    ) -> FromItem:
        """Trace a SELECT in parentheses; the columns of anything else are not known."""
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
            with suppress(UnknownColumnsError):
                traced = self.select(node.this, ctes)
                names = with_names(tuple(name for name, _ in traced.columns), renamed)
                return FromItem(alias, names, traced=traced)
        return FromItem(alias, None)

    def _star(self, node: exp.Expr, items: list[FromItem]) -> list[tuple[str, Reference | None]]:
        star = node.this if isinstance(node, exp.Column) else node
        if any(star.args.values()):
            raise UnknownColumnsError
        found: list[tuple[str, Reference | None]] = []
        for item in items:
            if isinstance(node, exp.Column) and fold(item.alias) != fold(node.table):
                continue
            if item.names is None:
                raise UnknownColumnsError
            skipped = item.merged if isinstance(node, exp.Star) else ()
            found += [(name, (item, i)) for i, name in enumerate(item.names) if fold(name) not in skipped]
        return found


def with_names(names: tuple[str, ...] | None, new: list[str]) -> tuple[str, ...] | None:
    """Return the names of columns with the first ones replaced; None if the names are unknown."""
    return None if names is None else (*new, *names[len(new) :])


def _resolved(node: exp.Column, items: list[FromItem]) -> Reference | None:
    """Return what a column means; None if that is not certain."""
    if node.args.get("db") is not None:
        return None
    places = []
    for item in items:
        if node.table and fold(node.table) != fold(item.alias):
            continue
        if item.names is None:
            return None
        places += [(item, i) for i, name in enumerate(item.names) if fold(name) == fold(node.name)]
    return places[0] if len(places) == 1 else None


def check_stars(select: exp.Select, items: Sequence[FromItem]) -> None:
    """Raise if hidden columns of traced items could be seen: in a whole row, or in a star elsewhere.

    A name that a column has, too, is the column's, as in `WITH m AS (SELECT .. AS m) SELECT m FROM m`.
    """
    changed, nodes = [item.alias for item in items if item.traced is not None], walk_tree(select)
    for star in nodes:
        if not isinstance(star, exp.Star):
            continue
        around = star.parent
        if isinstance(around, exp.Column) and around.parent is not select and around.table in changed:
            raise UnknownColumnsError
        counted = isinstance(around, exp.Anonymous) and str(function_name(around)).lower() == "count"
        if not (isinstance(around, (exp.Select, exp.Column, exp.Count)) or counted):
            raise UnknownColumnsError
    columns = {fold(name) for item in items for name in item.names or ()}
    whole = {fold(alias) for alias in changed} - columns
    named = [node for node in nodes if isinstance(node, exp.Column)] if whole else []
    if any(not node.table and fold(node.name) in whole for node in named):
        raise UnknownColumnsError


FloatArray = NDArray[np.float64]
_Lists = tuple[list[int], NDArray[np.int64], FloatArray]


@dataclass(slots=True, eq=False)
class SumOfNumbers:
    """A sum of released numbers in one row."""

    value: float
    weights: dict[int, float]
    """By the names of the numbers."""
    nulled: bool = False
    """Whether it is NULL because of noise."""

    @property
    def key(self) -> tuple[object, ...]:
        """What equal sums of released numbers have in common."""
        return self.value, self.nulled, *self.weights.items()


@dataclass(slots=True, eq=False)
class Hidden:
    """The rows of a query with its hidden columns."""

    found: pa.Table
    _read: dict[str, _Lists] = field(default_factory=dict)
    _last: dict[str, tuple[int, Any]] = field(default_factory=dict)
    """Of each column the cell that was read last, with its row: a list is read once for its elements."""

    def shown(self, place: int) -> FloatArray:
        """Return the values of a column that is shown, NaN for NULL."""
        names = [i for i, name in enumerate(self.found.column_names) if not name.startswith(HIDDEN)]
        return floats(self.found.column(names[place]))

    def numbers(self, term: Term) -> NDArray[np.int64]:
        """Return the names of the released numbers that the values of a column are made of, row by row."""
        lists = [self._lists(form)[1] for leaf in forms_of(term) for _, form in leaf.parts]
        return np.concatenate([np.zeros(0, dtype=np.int64), *lists])

    def values(self, term: Term, row: int) -> dict[str, object]:
        """Return the values without noise that a term reads in a row."""
        return {name: self._cell(name, row) for name in _known_of(term)}

    def scalar(self, term: Term, row: int) -> float:
        """Return a value without noise; raise if it is NULL."""
        found = self.end(term, row)
        if found is None:
            raise NoIntervalError
        return found

    def end(self, term: Term, row: int) -> float | None:
        """Return the value of a noiseless term in a row; None for NULL."""
        assert isinstance(term, Known)  # noqa: S101  the caller has looked
        found = self._cell(term.sql, row)
        return None if found is None else float(found)

    def size(self, leaf: LinearTerm, row: int) -> int:
        """Return how many elements a list of forms has."""
        values = self._cell(leaf.value, row)
        return 0 if values is None else len(values)

    def leaf(self, term: Term, row: int, at: int | None = None) -> SumOfNumbers:
        """Return a form, one of a list of forms, or a value without noise; raise if it is NULL."""
        if isinstance(term, Known):
            return SumOfNumbers(self.scalar(term, row), {})
        assert isinstance(term, LinearTerm)  # noqa: S101  the caller has looked
        found = self._cell(term.value, row)
        found = found if at is None or found is None else found[at]
        if found is None:
            value = self._cell(term.parts[0][1], row) if at is not None else None
            made = self.form(term, row, math.nan).weights if at is None else value and value[at]
            raise NoIntervalError(*([NULLED] if made else []))
        if at is None:
            return self.form(term, row, float(found))
        listed = self._cell(term.parts[0][1], row)[at] or []
        weights: dict[int, float] = {}
        for each in listed:
            weights[each["p"]] = weights.get(each["p"], 0.0) + each["w"]
        return SumOfNumbers(float(found), _known_weights(weights))

    def form(self, term: LinearTerm, row: int, value: float) -> SumOfNumbers:
        """Return a form of which the value is known."""
        weights: dict[int, float] = {}
        for factor, form in term.parts:
            by = 1.0 if factor == "1" else self._cell(factor, row)
            if by is None:
                raise NoIntervalError
            ends, names, own = self._lists(form)
            for at in range(ends[row], ends[row + 1]):
                name = int(names[at])
                weights[name] = weights.get(name, 0.0) + float(by) * float(own[at])
        return SumOfNumbers(value, _known_weights(weights))

    def ratio(self, term: Term, row: int) -> tuple[SumOfNumbers, SumOfNumbers, float, float] | None:
        """Return numerator, denominator, factor and what is added of a ratio of sums; None: it is none."""
        if not isinstance(term, CallTerm):
            return None
        first, second = term.args[0], term.args[-1]
        if term.op == "div" and isinstance(first, (LinearTerm, Known)) and isinstance(second, LinearTerm):
            return self.leaf(first, row), self.leaf(second, row), 1.0, 0.0
        if term.op == "neg":
            inner = self.ratio(term.args[0], row)
            return None if inner is None else (*inner[:2], -inner[2], -inner[3])
        if len(term.args) != 2:
            return None
        if isinstance(second, Known) and term.op in ("mul", "div", "add", "sub"):
            inner, other = self.ratio(first, row), self.scalar(second, row)
        elif isinstance(first, Known) and term.op in ("mul", "add", "sub"):
            inner, other = self.ratio(second, row), self.scalar(first, row)
            if inner is not None and term.op == "sub":
                return (*inner[:2], -inner[2], other - inner[3])
        else:
            return None
        if inner is None:
            return None
        above, below, factor, more = inner
        if term.op in ("add", "sub"):
            return above, below, factor, more + (other if term.op == "add" else -other)
        if term.op == "div" and not other:
            raise NoIntervalError
        by = other if term.op == "mul" else 1 / other
        return above, below, factor * by, more * by

    def _cell(self, name: str, row: int) -> Any:  # noqa: ANN401  a value of the engine
        known = self._last.get(name)
        if known is None or known[0] != row:
            known = self._last[name] = row, self.found.column(name)[row].as_py()
        return known[1]

    def _lists(self, name: str) -> _Lists:
        """Return where the lists of a hidden column begin and end, and what they hold."""
        if name not in self._read:
            column = self.found.column(name).combine_chunks()
            if pa.types.is_list(column.type.value_type):
                self._read[name] = [], column.flatten().flatten().field("p").to_numpy(), np.zeros(0)
            else:
                lengths = [0 if length is None else length for length in column.value_lengths().to_pylist()]
                flat = column.flatten()
                ends = np.concatenate([[0], np.cumsum(lengths)]).tolist()
                self._read[name] = (ends, flat.field("p").to_numpy(), flat.field("w").to_numpy())
        return self._read[name]


def _known_weights(weights: Mapping[int, float]) -> dict[int, float]:
    """Return the weights that are not 0; raise if noise made one of the numbers NULL."""
    if any(map(math.isnan, weights.values())):
        raise NoIntervalError(NULLED)
    return {name: weight for name, weight in weights.items() if weight}


def floats(column: pa.ChunkedArray) -> FloatArray:
    """Return a column of numbers, NaN for NULL."""
    found: FloatArray = np.array(
        [math.nan if value is None else float(value) for value in column.to_pylist()], dtype=np.float64
    )
    return found


def leaves_of(term: Term, *, folded: bool = False) -> Iterator[tuple[LinearTerm, bool]]:
    """Yield the forms in a term, in order, and whether they are lists of forms."""
    if isinstance(term, LinearTerm):
        yield term, folded
    for each in inside(term):
        yield from leaves_of(each, folded=folded or isinstance(term, Fold))


def _known_of(term: Term) -> Iterator[str]:
    if isinstance(term, Known):
        yield term.sql
    for each in inside(term):
        yield from _known_of(each)
