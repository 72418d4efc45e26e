"""The public rows on which keys are evaluated: rows of public items, and the values of private columns.

Items and columns that conditions link are joined. Of a column that is joined with others only what the keys
and conditions compute from it alone is read, as the months of its days: there are fewer of these than days,
and what several columns decide together is evaluated on all combinations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from math import prod
from typing import TYPE_CHECKING

from dpsql.analysis.facts_of_values import find_part_grain
from dpsql.analysis.public_domains import cross_join, list_names
from dpsql.analysis.row_conditions import Condition, KnownRows, substitute_columns
from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.typed_expression import GRAINS, KeyDomain, Span, Typed
from dpsql.analysis.where_ranges import ColumnValues, Comparison, read_comparison
from dpsql.kernel.tree import (
    Apply,
    Binary,
    Cast,
    Column,
    Constant,
    Derived,
    Exists,
    Expr,
    InQuery,
    Item,
    Not,
    Paren,
    Query,
    Range,
    Select,
    SetOperation,
    Source,
    conjunction,
    duckdb_sql,
    facts,
    guarded,
    map_parts,
    walk,
)
from dpsql.lazy_dataclass import dataclass, replace
from dpsql.lazy_property import lazy_property
from dpsql.types import BOOLEAN, DATE, INTEGER, NULL

if TYPE_CHECKING:
    from dpsql.analysis.unit_order import OrderedColumns

MAX_COMBINED = 4_000_000
"""The largest number of combinations of values on which keys are evaluated: days of five years in pairs."""


@dataclass(frozen=True, slots=True)
class ConditionUse:
    """A condition over public rows: the items, columns and choices that it reads, and its comparison."""

    condition: Condition
    atoms: frozenset[str]
    compared: Comparison | None


class ColumnParts:
    """What keys and conditions compute from single columns: the largest such parts, each with a name."""

    def __init__(self, columns: frozenset[str]) -> None:
        self.columns = columns if len(columns) > 1 else frozenset[str]()
        """The columns that are joined with others, by their generated names."""
        self._named: dict[str, dict[Expr, str]] = {name: {} for name in self.columns}

    def of(self, column: str) -> dict[str, Expr]:
        """Return what is read of a column, by name; what fails on a value is NULL."""
        table, _, name = column.partition(".")
        found = self._named.get(column)
        return {each: guarded(part) for part, each in found.items()} if found else {name: Column(table, name)}

    def collect(self, nodes: Iterable[Expr]) -> None:
        """Add the parts of expressions."""
        for node in nodes:
            self._collect(node)
            for query in (each for each in walk(node) if isinstance(each, Query)):
                for each in walk(query):
                    if isinstance(each, Column):
                        self._collect(each)

    def _collect(self, node: Expr) -> Expr:
        reads = facts(node).reads
        (name, *others) = reads if reads else ("",)
        if name in self.columns and not others:
            named = self._named[name]
            own = name.partition(".")[2]
            named.setdefault(node, own if isinstance(node, Column) else f"{own}p{len(named)}")
        elif not reads.isdisjoint(self.columns):
            map_parts(node, self._collect)
        return node

    def rewrite(self, node: Expr) -> Expr:
        """Return an expression that reads the parts of columns."""
        reads = facts(node).reads
        name = next(iter(reads), "")
        part = self._named.get(name, {}).get(node) if len(reads) == 1 else None
        if part is not None:
            return Column(name.partition(".")[0], part)
        return node if reads.isdisjoint(self.columns) else map_parts(node, self.rewrite)


@dataclasses.dataclass
class PublicRows:
    """The public rows on which keys are evaluated: of the public items of FROM, and of columns' values."""

    catalog: Catalog
    keys: Sequence[Typed]
    known: KnownRows
    nodes: list[Expr]
    """The keys, with one column in the place of all that are equal to it on each row."""
    conditions: list[Condition] = field(init=False)
    compared: list[Comparison] = field(init=False)
    matched: dict[str, list[Expr]] = field(init=False)
    choices: dict[str, int] = field(default_factory=dict)
    """The alias of each choice among the results of a CASE, with their number."""
    same: Mapping[str, Expr] = field(default_factory=dict)
    """Columns that are equal to others on each row -> these, or what they are computed from."""
    values: ColumnValues = field(init=False)
    sure: frozenset[Expr] = field(init=False)
    """Expressions that are not NULL on any counted row, with the same columns in the place of others."""
    reached: list[Expr] = field(default_factory=list)
    """Conditions on columns of public items that stand for private ones: they have one of their values."""
    partly: bool = False
    """Whether such a private column may have other values: rows with one are in no group."""

    def _find_base(self, name: str) -> KeyDomain | None:
        """Return the values of a private column, of a TIMESTAMP with a range at the grain of all keys."""
        base = self.values.base(name)
        if not isinstance(base, Span):
            return base
        grain = self._find_grain(name)
        return base.grid(grain) if grain is not None else None

    def _find_grain(self, name: str) -> str | None:
        """Return the finest grain at which keys read a column of times; None if none reads a grain of it."""
        grains = [GRAINS.index(key.grains[name]) for key in self.keys if name in key.grains]
        return GRAINS[max(grains)] if grains else None

    def _find_atom(self, name: str) -> str | None:
        """Return the item, column or choice that a generated name belongs to; None if it is not public."""
        table = name.partition(".")[0]
        if table in self.known.items or table in self.choices:
            return table
        return name if name in self.known.columns and self._find_base(name) is not None else None

    def _find_atoms(self, node: Expr) -> frozenset[str] | None:
        found = frozenset(self._find_atom(name) for name in facts(node).reads)
        return None if None in found else frozenset(a for a in found if a is not None)

    @lazy_property
    def _usable_conditions(self) -> list[ConditionUse]:
        """The conditions that can be evaluated on public rows."""
        found = []
        for condition in self.conditions:
            atoms = self._find_atoms(condition.expr)
            if atoms and self._is_usable(condition.expr):
                found.append(ConditionUse(condition, atoms, read_comparison(condition.expr)))
        for expr in self.reached:
            operand = expr.operand if isinstance(expr, InQuery) else expr
            found.append(ConditionUse(Condition(expr), self._find_atoms(operand) or frozenset(), None))
        return found

    def _is_usable(self, expr: Expr) -> bool:
        """Return whether a condition means the same on the starts of hours as on all times within them."""
        spans = {n for n in facts(expr).reads if isinstance(self.values.bases.get(n), Span)}
        return all(n not in facts(_without_parts(expr, self._find_grain(n) or "day")).reads for n in spans)

    def _choose_rows(
        self, joined: frozenset[str], read: frozenset[str], nodes: Sequence[Expr]
    ) -> Select | None:
        """Return keys on public rows: of all joined items, or of those that they read; None if too many."""
        rows, number = self._join_rows(joined, nodes)
        if len(joined) < 2 or number <= MAX_COMBINED:
            return rows
        shared = (use.atoms for use in self._usable_conditions if use.atoms <= read)
        linked = any(len(atoms) > 1 and atoms & self.known.items.keys() for atoms in shared)
        rows, number = self._join_rows(read, nodes)
        if len(read) < 2 or number <= MAX_COMBINED:
            return rows
        few = duckdb_sql(replace(rows, limit=MAX_COMBINED + 1))
        return rows if linked and self.catalog.count(few) <= MAX_COMBINED else None

    def _join_rows(self, atoms: frozenset[str], nodes: Sequence[Expr]) -> tuple[Select, int]:
        """Return keys on the public rows of items and columns, and how many rows there are before WHERE."""
        filters = [self._make_filter(use, atoms) for use in self._usable_conditions if use.atoms <= atoms]
        filters += [self._find_missing_condition(item, atoms) for item in sorted(atoms & self.matched.keys())]
        filters += self.known.missing_columns(atoms)
        read = [f for f in filters if f is not None]
        parts = ColumnParts(frozenset(a for a in atoms if a in self.known.columns and "." in a))
        if parts.columns:
            from dpsql.analysis.unit_order import write_boundaries  # noqa: PLC0415  few keys read two columns

            nodes = [write_boundaries(node) for node in nodes]
            parts.collect([*nodes, *read])
            for each in self._date_orders:
                length = each.find_length(parts.of)
                if length and self._find_atoms_of(each) <= atoms:
                    read.append(each.write(length))
                    parts.collect(read[-1:])
        names = ["v"] if len(nodes) == 1 else [f"v{i}" for i in range(len(nodes))]
        items = tuple(Item(parts.rewrite(node), name) for node, name in zip(nodes, names, strict=True))
        where = conjunction(map(parts.rewrite, read))
        number = prod(self._count_rows(a, parts) for a in sorted(atoms)) if len(atoms) > 1 else 1
        return Select(items, self._make_source(atoms, parts), where, distinct=True), number

    @lazy_property
    def _date_orders(self) -> list[OrderedColumns]:
        """The dates of a row that are never after others of it, where keys read several dates."""
        read = frozenset[str]().union(*(facts(node).reads for node in self.nodes))
        if self.known.source is None or sum(map(self._is_date, read)) < 2:
            return []
        from dpsql.analysis.unit_order import find_ordered, read_order  # noqa: PLC0415  as above

        always = [c.expr for c in self.known.conditions if not c.unless]
        found = find_ordered(self.known.source, always)
        own = [each.replace_columns(self.known.made_of).replace_columns(self.same) for each in found]
        said = [read_order(c.expr) for c in self.conditions if not c.unless and not self._is_usable(c.expr)]
        return own + [each for each in said if each is not None and all(map(self._is_date, each.reads))]

    def _is_date(self, name: str) -> bool:
        """Return whether a private column has dates or times."""
        column = self.known.columns.get(name)
        return column is not None and (column.type.moment or column.type == DATE)

    def _find_atoms_of(self, ordered: OrderedColumns) -> frozenset[str]:
        return frozenset[str]().union(*(self._find_atoms(each) or {""} for each in ordered.ends))

    def _count_rows(self, atom: str, parts: ColumnParts) -> int:
        if atom in self.choices or atom in self.known.items:
            return self.choices.get(atom) or self.catalog.count(duckdb_sql(self.known.items[atom]))
        return self.catalog.count(duckdb_sql(self._read_values(atom, parts)))

    def _make_filter(self, use: ConditionUse, atoms: Collection[str]) -> Expr | None:
        """Return a condition that leaves out rows, also those from which an item is missing."""
        absent: list[Expr] = []
        for items in sorted(use.condition.unless, key=sorted):
            seen = sorted(items & set(atoms))
            if not seen:
                return None
            absent.append(Column(seen[0], "m"))
        result = use.condition.expr
        for there in absent:
            result = Paren(Binary("OR", there, result))
        return result

    def _find_missing_condition(self, item: str, atoms: Collection[str]) -> Expr | None:
        """Return the condition that `item` is its row of NULLs (`m`) only where LEFT JOIN finds no row of it.

        In SQL: `m` is FALSE, or no public row of the item fulfils ON. None if the item can be missing in
        several ways or together with others, or if ON reads more than `atoms`.
        """
        events = [items for items in self.known.missing if item in items]
        on = self.matched[item]
        known = all((self._find_atoms(e) or {""}) <= set(atoms) and self._is_usable(e) for e in on)
        if len(events) != 1 or len(events[0]) > 1 or not known:
            return None
        other = f"x{item}"
        names = (n for e in on for n in facts(e).reads if n.partition(".")[0] == item)
        renamed = {n: Column(other, n.partition(".")[2]) for n in names}
        where = conjunction(substitute_columns(e, renamed) for e in on)
        rows = Select((Item(Constant(1, INTEGER)),), Derived(self.known.items[item], other), where)
        return Paren(Binary("OR", Not(Column(item, "m")), Not(Exists(rows))))

    def _make_source(self, atoms: frozenset[str], parts: ColumnParts) -> Source | None:
        sources: list[Source] = []
        tables: dict[str, list[str]] = {}
        for atom in sorted(atoms):
            table, _, name = atom.partition(".")
            if atom in self.choices:
                sources.append(Range(0, self.choices[atom], alias=atom))
            elif atom in self.known.items:
                sources.append(Derived(self._read_item(atom), atom))
            else:
                tables.setdefault(table, []).append(name)
        for table, names in tables.items():
            ranges = [Derived(self._read_values(f"{table}.{name}", parts), f"d_{name}") for name in names]
            listed = {name: parts.of(f"{table}.{name}") for name in names}
            cells = tuple(Item(Column(f"d_{name}", part)) for name, own in listed.items() for part in own)
            rows: Query = Select(cells, cross_join(ranges))
            if table in self.known.weak and not any(Column(table, name) in self.sure for name in names):
                nothing = {each: self._write_null(each, parts) for each in (f"{table}.{n}" for n in names)}
                null = (substitute_columns(e, nothing) for own in listed.values() for e in own.values())
                rows = SetOperation(rows, "UNION ALL", Select(tuple(map(Item, null))))
            sources.append(Derived(rows, table))
        return cross_join(sources) if sources else None

    def _read_item(self, alias: str) -> Query:
        """Return a public item's rows; if it can be missing, with `m`, TRUE in an added row of NULLs."""
        query = self.known.items[alias]
        if not any(alias in items for items in self.known.missing):
            return query
        names = list_names(query)
        there = (*(Item(Column("r", n)) for n in names), Item(Constant(False, BOOLEAN), "m"))
        null = (*(Item(Constant(None, NULL), n) for n in names), Item(Constant(True, BOOLEAN), "m"))
        return SetOperation(Select(there, Derived(query, "r")), "UNION ALL", Select(null))

    def _write_null(self, column: str, parts: ColumnParts) -> Expr:
        """Return NULL in the place of a column: of its type where something is computed from it."""
        null, bare = Constant(None, NULL), all(isinstance(each, Column) for each in parts.of(column).values())
        return null if bare else Cast(null, self.known.columns[column].type)

    def _read_values(self, column: str, parts: ColumnParts) -> Query:
        """Return what keys read of a private column in the rows of its item, with NULL if it can be NULL."""
        base = self._find_base(column)
        assert base is not None  # noqa: S101  it is among the atoms
        nulls = not self.known.is_whole(column) and self.known.columns[column].node not in self.sure
        own = base.without_null() if nulls else base
        table, _, name = column.partition(".")
        values: Query = Select((Item(Column("", "v"), name),), Derived(own.query, "d"))
        if nulls:
            values = SetOperation(values, "UNION ALL", Select((Item(Constant(None, NULL)),)))
        listed = parts.of(column)
        if list(listed) == [name]:
            return values
        return Select(tuple(Item(e, n) for n, e in listed.items()), Derived(values, table), distinct=True)


def _without_parts(node: Expr, grain: str) -> Expr:
    """Return an expression with NULL in the place of what is the same for all times of one grain.

    These are the days of columns, and parts that are read as finely as the grain or less.
    """
    match node:
        case Cast(Column(), kind) if kind == DATE:
            return Constant(None, NULL)
        case Apply(form, arguments) if sum(isinstance(a, Column) for a in arguments) == 1:
            texts = [a.value for a in arguments if isinstance(a, Constant) and isinstance(a.value, str)]
            own = find_part_grain(form.name, texts) if len(texts) == len(arguments) - 1 else None
            if own is not None and GRAINS.index(own) <= GRAINS.index(grain):
                return Constant(None, NULL)
    return map_parts(node, lambda each: _without_parts(each, grain))
