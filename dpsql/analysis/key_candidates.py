"""Public candidates of group keys: the combinations of values that the keys can take together.

A key is evaluated on public rows: on those of the public items of FROM that it reads, and on the values of
each private column that it reads, declared or listed in WHERE, with NULL. Keys that share an item or a column
are evaluated on the same rows, with the conditions on them: only combinations that can occur are candidates.
The counting query combines keys that share nothing. No candidate depends on private rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from math import prod

from dpsql.analysis.facts_of_values import never_null
from dpsql.analysis.public_domains import (
    BOOLEANS,
    Candidates,
    add_null,
    connect_names,
    cross_join,
    equal_condition,
    list_names,
)
from dpsql.analysis.row_conditions import Condition, KnownRows, find_not_null, substitute_columns
from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.stepped_values import find_stepped_values, join_steps
from dpsql.analysis.typed_expression import GRAINS, MAX_LISTED, KeyDomain, Span, Typed
from dpsql.analysis.where_ranges import (
    ColumnValues,
    Comparison,
    find_equal_columns,
    find_integers,
    find_list,
    find_span,
    find_values_of_key,
    is_list_alone,
    list_comparisons,
    list_day_casts,
    read_comparison,
)
from dpsql.kernel.tree import (
    Binary,
    Case,
    Column,
    Constant,
    Derived,
    Exists,
    Expr,
    InQuery,
    IsNull,
    Item,
    Join,
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
    mapped,
)
from dpsql.kernel.tree.relations import in_range
from dpsql.lazy_dataclass import dataclass, replace
from dpsql.types import BOOLEAN, INTEGER, NULL, SqlType


def find_candidates(catalog: Catalog, keys: Sequence[Typed], known: KnownRows) -> tuple[Candidates, ...]:
    """Return the candidates of keys, in the order of their first keys; keys without a domain are left out.

    NULL is a value of a key as any other: it is a candidate if the key can be NULL on public rows and on NULL
    in the private columns that can be NULL. Rows from which an item is missing have NULL in its columns.
    """
    nodes = [substitute_columns(key.guarded_node, known.made_of) for key in keys]
    return _Finder(catalog, keys, known, nodes).find()


def add_domain(catalog: Catalog, value: Typed, known: KnownRows) -> Typed:
    """Return an expression with its public domain, if it has one, or the range of a TIMESTAMP column.

    The domain lists NULL if the expression can be NULL.
    """
    node = value.node
    if isinstance(node, Column) and node.table not in known.items:
        name = f"{node.table}.{node.name}"
        if not any(name in facts(c.expr).reads for c in known.conditions):
            return replace(value, nulls=not known.never_null(node))  # nothing narrows it
    found = find_candidates(catalog, [value], known)
    span = find_integers(catalog, value, list_comparisons(known.conditions))
    value = replace(value, nulls=not known.never_null(substitute_columns(value.guarded_node, known.made_of)))
    if found and span is not None and span.last - span.first >= MAX_LISTED:
        return replace(value, span=span)
    if found:
        return replace(value, domain=found[0].domain, nulls=False)
    if not value.is_column:
        return value
    return replace(value, span=find_span(catalog, value, list_comparisons(known.conditions)))


@dataclass(frozen=True, slots=True)
class _Use:
    """A condition over public rows: the items, columns and choices that it reads, and its comparison."""

    condition: Condition
    atoms: frozenset[str]
    compared: Comparison | None


@dataclasses.dataclass
class _Finder:
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
    values: ColumnValues = field(init=False)
    sure: frozenset[Expr] = field(init=False)
    """Expressions that are not NULL on any counted row, with the same columns in the place of others."""
    reached: list[Expr] = field(default_factory=list)
    """Conditions on columns of public items that stand for private ones: they have one of their values."""
    partly: bool = False
    """Whether such a private column may have other values: rows with one are in no group."""

    def __post_init__(self) -> None:
        always = [c.expr for c in self.known.conditions if not c.unless]
        self.values = ColumnValues(self.catalog, self.known, list_comparisons(self.known.conditions))
        one = find_equal_columns(self.known, always, lambda name: self.values.exact(name) is not None)
        self.reached = self._find_reached(one)
        self.nodes = [substitute_columns(node, one) for node in self.nodes]
        self.conditions = [replace(c, expr=substitute_columns(c.expr, one)) for c in self.known.conditions]
        self.compared = list_comparisons(self.conditions)
        there = [(c, node) for c in self.conditions for node in find_not_null(c.expr)]
        self.sure = self.known.sure.union(node for c, node in there if not c.unless)
        self.conditions += [
            Condition(IsNull(node, negated=True), c.unless)
            for c, node in there
            if c.unless and isinstance(node, Column) and node.table in self.known.items
        ]
        self.matched = {
            item: [substitute_columns(e, one) for e in on] for item, on in self.known.matched.items()
        }
        self.values = ColumnValues(self.catalog, self.known, self.compared)

    def _find_reached(self, same: Mapping[str, Expr]) -> list[Expr]:
        """Return which public rows a join reaches by a private column; its other values are in no group."""
        found: list[Expr] = []
        for name, node in same.items():
            if not any(each.partition(".")[0] in self.known.items for each in facts(node).reads):
                continue
            exact, base = self.values.exact(name), self.values.base(name)
            self.partly |= base is not None and not base.complete
            if exact is not None:
                found.append(InQuery(node, Select((Item(Column("", "v")),), Derived(exact.query, "i"))))
            elif isinstance(base, Span) and self.known.columns[name].type.integer:
                found += in_range(node, (base.first, base.last), null=False)
        return found

    def find(self) -> tuple[Candidates, ...]:
        """Return the candidates of all keys that have a domain."""
        places = range(len(self.keys))
        for i in places:
            if not self._is_ready(i, self.nodes[i]) and self._find_own_domain(i) is None:
                chosen = self._choose_results(self.nodes[i], i)
                if self._is_ready(i, chosen):
                    self.nodes[i] = chosen
        ready = [i for i in places if self._is_ready(i, self.nodes[i])]
        found = [c for group in self._group_keys(ready) for c in self._evaluate_together(*group)]
        done = {i for c in found for i in c.keys}
        own = {i: one for i in places if i not in done and (one := self._find_own_domain(i)) is not None}
        found += join_steps(self.catalog, self.nodes, own, self.known, self.compared)
        return tuple(sorted(found, key=lambda c: c.keys))

    def _find_base(self, name: str) -> KeyDomain | None:
        """Return the values of a private column, of a TIMESTAMP with a range at the grain of all keys."""
        base = self.values.base(name)
        if not isinstance(base, Span):
            return base
        grains = [GRAINS.index(key.grains[name]) for key in self.keys if name in key.grains]
        return base.grid(GRAINS[max(grains)]) if grains else None

    def _add_null(self, name: str, base: KeyDomain) -> KeyDomain:
        """Return the values of a private column with NULL, if it can be NULL."""
        column = self.known.columns[name]
        if column.node in self.sure:
            return base.without_null()
        return base if self.known.has_value(name) else add_null(base)

    def _add_null_of_key(self, place: int, values: KeyDomain | None) -> KeyDomain | None:
        """Return the values of a key with NULL, if it can be NULL; None if it has no domain."""
        if values is None:
            return None
        nodes = self.keys[place].guarded_node, self.nodes[place]
        if any(never_null(node, self.known.has_value, self.sure) for node in nodes):
            return values.without_null()
        made = add_null(values)
        # A part of a time that is infinite is NULL.
        parts = not self.keys[place].is_column and values.origin.startswith("the ")
        return replace(made, complete=made.complete or (parts and self.keys[place].domain is values))

    def _find_atom(self, name: str) -> str | None:
        """Return the item, column or choice that a generated name belongs to; None if it is not public."""
        table = name.partition(".")[0]
        if table in self.known.items or table in self.choices:
            return table
        return name if name in self.known.columns and self._find_base(name) is not None else None

    def _find_atoms(self, node: Expr) -> frozenset[str] | None:
        found = frozenset(self._find_atom(name) for name in facts(node).reads)
        return None if None in found else frozenset(a for a in found if a is not None)

    def _is_ready(self, place: int, node: Expr) -> bool:
        """Return whether a key can be evaluated on public rows."""
        grains = self.keys[place].grains
        bases = self.values.bases
        whole = (n for n in facts(node).reads if isinstance(bases.get(n), Span) and n not in grains)
        return self._find_atoms(node) is not None and not any(True for _ in whole)

    def _choose_results(self, node: Expr, place: int) -> Expr:
        """Replace each CASE whose conditions are not public by a free choice among its results."""
        if not isinstance(node, Case) or all(self._is_ready(place, when) for when, _ in node.branches):
            return mapped(node, lambda part: self._choose_results(part, place))
        alias = f"b{len(self.choices)}"
        self.choices[alias] = len(node.branches) + 1
        results = [self._choose_results(then, place) for _, then in node.branches]
        default = self._choose_results(node.default, place) if node.default is not None else None
        which = [Binary("=", Column(alias, "i"), Constant(i, INTEGER)) for i in range(len(results))]
        return Case(tuple(zip(which, results, strict=True)), default)

    @cached_property
    def _usable_conditions(self) -> list[_Use]:
        """The conditions that can be evaluated on public rows."""
        found = []
        for condition in self.conditions:
            atoms = self._find_atoms(condition.expr)
            if atoms and self._is_usable(condition.expr):
                found.append(_Use(condition, atoms, read_comparison(condition.expr)))
        for expr in self.reached:
            operand = expr.operand if isinstance(expr, InQuery) else expr
            found.append(_Use(Condition(expr), self._find_atoms(operand) or frozenset(), None))
        return found

    def _is_usable(self, expr: Expr) -> bool:
        """Return whether a condition means the same on the starts of hours as on all times within them."""
        spans = [n for n in facts(expr).reads if isinstance(self.values.bases.get(n), Span)]
        if not spans:
            return True
        form = read_comparison(expr)
        return form is not None and form.operand in list_day_casts(self.known.columns[spans[0]].node)

    def _group_keys(self, ready: Sequence[int]) -> list[tuple[list[int], frozenset[str]]]:
        """Return the keys that share public rows, with all items and columns that these are joined with."""
        read = {i: self._find_atoms_of_keys(i) for i in ready}
        used = frozenset[str]().union(*read.values(), self.known.items)
        links = [*read.values(), *(use.atoms for use in self._usable_conditions if use.atoms <= used)]
        groups = [([i for i in ready if read[i] & atoms], atoms) for atoms in connect_names(links)]
        found = [(places, atoms) for places, atoms in groups if places]
        return found + [([i], read[i]) for i in ready if not read[i]]

    def _evaluate_together(self, places: list[int], atoms: frozenset[str]) -> list[Candidates]:
        """Return the candidates of keys over the same public rows; one by one if the rows are too many."""
        if len(places) == 1:
            own = self._evaluate_alone(places[0], atoms)
            return [Candidates((places[0],), own)] if own is not None else []
        rows = self._choose_rows(atoms, self._find_atoms_of_keys(*places))
        if rows is not None:
            return [Candidates(tuple(places), self._evaluate_keys(places, rows))]
        return [c for i in places for c in self._evaluate_together([i], self._find_atoms_of_keys(i))]

    def _find_atoms_of_keys(self, *places: int) -> frozenset[str]:
        return frozenset[str]().union(*(self._find_atoms(self.nodes[i]) or () for i in places))

    def _evaluate_alone(self, place: int, atoms: frozenset[str]) -> KeyDomain | None:
        key, node = self.keys[place], self.nodes[place]
        filters = [use for use in self._usable_conditions if use.atoms <= atoms and not use.condition.unless]
        if atoms and not atoms & self.known.items.keys():
            name = f"{node.table}.{node.name}" if isinstance(node, Column) else ""
            if isinstance(node, Column) and (base := self._find_base(name)) is not None:
                return self._narrow_values(self._add_null(name, base), key.type, node, filters)
            listed = find_list(node, key.type, self.compared)
            if listed is not None:
                return listed
        own = BOOLEANS if key.type == BOOLEAN else None if key.is_column else key.domain
        rows = self._choose_rows(atoms, self._find_atoms_of_keys(place))
        if rows is None:
            return self._add_null_of_key(place, own)
        image = self._evaluate_keys([place], rows)
        if own is None or not own.ordered:
            return image
        if key.type == BOOLEAN and not image.complete and not filters:
            return self._add_null_of_key(place, own)  # whatever is read, there is no third value
        own = add_null(own) if image.null else own.without_null()
        there = equal_condition(Column("d", "v"), Column("i", "v"), null=image.null)
        found = Join(Derived(own.query, "d"), "", Derived(image.query, "i"), there)
        return replace(own, query=Select(own.cells, found), complete=image.complete)

    def _find_own_domain(self, place: int) -> KeyDomain | None:
        """Return the domain of a key that cannot be evaluated on public rows."""
        node = self.nodes[place]
        values = find_values_of_key(self.catalog, self.keys[place], node, self.compared)
        if values is None:
            return find_stepped_values(self.catalog, node, self.known, self.compared)
        return self._add_null_of_key(place, values)

    def _narrow_values(
        self, base: KeyDomain, sql_type: SqlType, column: Column, filters: Sequence[_Use]
    ) -> KeyDomain:
        """Return the values of a column that meet the conditions on it."""
        said = next((u for u in filters if is_list_alone(u.compared, column, sql_type)), None)
        if len(filters) == (said is not None):
            return base
        replaced = {f"{column.table}.{column.name}": Column("d", "v")}
        kept = conjunction(substitute_columns(u.condition.expr, replaced) for u in filters)
        return replace(base, query=Select(base.cells, Derived(base.query, "d"), kept))

    def _choose_rows(self, joined: frozenset[str], read: frozenset[str]) -> Select | None:
        """Return the public rows of all joined items, or only of those that keys read; None if too many."""
        if len(joined) < 2 or prod(map(self._count_rows, sorted(joined))) <= MAX_LISTED:
            return self._join_rows(joined)
        linked = any(len(use.atoms) > 1 and use.atoms <= read for use in self._usable_conditions)
        rows = self._join_rows(read)
        if len(read) < 2 or prod(map(self._count_rows, sorted(read))) <= MAX_LISTED:
            return rows
        few = duckdb_sql(replace(rows, limit=MAX_LISTED + 1))
        return rows if linked and self.catalog.count(few) <= MAX_LISTED else None

    def _join_rows(self, atoms: frozenset[str]) -> Select:
        filters = [self._make_filter(use, atoms) for use in self._usable_conditions if use.atoms <= atoms]
        filters += [self._find_missing_condition(item, atoms) for item in sorted(atoms & self.matched.keys())]
        filters += self.known.missing_columns(atoms)
        where = conjunction(f for f in filters if f is not None)
        return Select((Item(Constant(1, INTEGER), "x"),), self._make_source(atoms), where)

    def _count_rows(self, atom: str) -> int:
        if atom in self.choices or atom in self.known.items:
            return self.choices.get(atom) or self.catalog.count(duckdb_sql(self.known.items[atom]))
        base = self._find_base(atom)
        return self.catalog.count(duckdb_sql(base.query)) + 1 if base is not None else 1

    def _make_filter(self, use: _Use, atoms: Collection[str]) -> Expr | None:
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

    def _make_source(self, atoms: frozenset[str]) -> Source | None:
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
            ranges = [Derived(self._read_values(f"{table}.{name}", name), f"d_{name}") for name in names]
            cells = tuple(Item(Column(f"d_{name}", name)) for name in names)
            rows: Query = Select(cells, cross_join(ranges))
            if table in self.known.weak and not any(Column(table, name) in self.sure for name in names):
                null = Select(tuple(Item(Constant(None, NULL)) for _ in names))
                rows = SetOperation(rows, "UNION ALL", null)
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

    def _read_values(self, column: str, name: str) -> Query:
        """Return the values of a private column in the rows of its item, with NULL if it can be NULL."""
        base = self._find_base(column)
        assert base is not None  # noqa: S101  it is among the atoms
        nulls = not self.known.is_whole(column) and self.known.columns[column].node not in self.sure
        own = base.without_null() if nulls else base
        values = Select((Item(Column("", "v"), name),), Derived(own.query, "d"))
        return SetOperation(values, "UNION ALL", Select((Item(Constant(None, NULL)),))) if nulls else values

    def _evaluate_keys(self, places: Sequence[int], rows: Select) -> KeyDomain:
        """Return the distinct values of keys, or combinations of values, on public rows."""
        nodes = [self.nodes[i] for i in places]
        names = ["v"] if len(places) == 1 else [f"v{i}" for i in range(len(places))]
        items = tuple(Item(n, name) for n, name in zip(nodes, names, strict=True))
        query = Select(items, rows.source, rows.where, distinct=True)
        null = not all(never_null(node, self.known.has_value, self.sure) for node in nodes)
        return KeyDomain(query, origin=self._name_origin(nodes), null=null, complete=self._is_complete(nodes))

    def _is_complete(self, nodes: Iterable[Expr]) -> bool:
        """Return whether the private columns that keys read have no other values; public items have none."""
        names = [name for node in nodes for name in facts(node).reads if name in self.known.columns]
        private = [name for name in names if name.partition(".")[0] not in self.known.items]
        partly = self.partly and len(private) < len(names)
        bases = map(self._find_base, private)
        return not partly and all(base is not None and base.complete for base in bases)

    def _name_origin(self, nodes: Sequence[Expr]) -> str:
        found: dict[str, None] = {}
        for name in sorted(n for node in nodes for n in facts(node).reads):
            if name not in self.known.columns:
                continue
            base = None if name.partition(".")[0] in self.known.items else self._find_base(name)
            domain = base or self.known.columns[name].domain
            found[domain.origin if domain is not None else "public rows"] = None
        listed = " and ".join(found) or "constants"
        if len(nodes) > 1:
            return f"combinations of {listed}"
        return listed if isinstance(nodes[0], Column) else f"computed from {listed}"
