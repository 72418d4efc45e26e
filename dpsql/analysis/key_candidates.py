"""Public candidates of group keys: the combinations of values that the keys can take together.

A key is evaluated on public rows: on those of the public items of FROM that it reads, and on the values of
each private column that it reads, declared or listed in WHERE, with NULL. Keys that share an item or a column
are evaluated on the same rows, with the conditions on them: only combinations that can occur are candidates.
The counting query combines keys that share nothing. No candidate depends on private rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from dpsql.analysis.public_domains import BOOLEANS, Candidates, add_null, connect_names, equal_condition
from dpsql.analysis.public_rows import ConditionUse, PublicRows
from dpsql.analysis.row_conditions import Condition, KnownRows, find_not_null, substitute_columns
from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.stepped_values import find_stepped_values, join_steps
from dpsql.analysis.typed_expression import MAX_LISTED, KeyDomain, Span, Typed, join_spans, make_column
from dpsql.analysis.where_ranges import (
    ColumnValues,
    find_integers,
    find_list,
    find_span,
    find_values_of_key,
    is_list_alone,
    list_comparisons,
)
from dpsql.kernel.tree import (
    Binary,
    Call,
    Case,
    Cast,
    Column,
    Constant,
    Derived,
    Expr,
    InQuery,
    IsNull,
    Item,
    Join,
    Paren,
    ScalarQuery,
    Select,
    Try,
    conjunction,
    facts,
    map_parts,
)
from dpsql.kernel.tree.relations import in_range
from dpsql.lazy_dataclass import replace
from dpsql.types import BOOLEAN, DATE, INTEGER, VARCHAR, SqlType


def find_candidates(catalog: Catalog, keys: Sequence[Typed], known: KnownRows) -> tuple[Candidates, ...]:
    """Return the candidates of keys, in the order of their first keys; keys without a domain are left out.

    NULL is a value of a key as any other: it is a candidate if the key can be NULL on public rows and on NULL
    in the private columns that can be NULL. Rows from which an item is missing have NULL in its columns.
    """
    nodes = [substitute_columns(key.guarded_node, known.made_of) for key in keys]
    return _Finder(catalog, keys, known, nodes).find()


def add_domain(catalog: Catalog, value: Typed, known: KnownRows) -> Typed:
    """Return an expression with its public domain, if it has one, or the range of a TIMESTAMP.

    The domain lists NULL if the expression can be NULL.
    """
    node = value.node
    if isinstance(node, Column) and node.table not in known.items:
        name = f"{node.table}.{node.name}"
        if not any(name in facts(c.expr).reads for c in known.conditions):
            return replace(
                value, nulls=not (known.has_value(name) or node in known.sure)
            )  # nothing narrows it
    found = find_candidates(catalog, [value], known)
    compared = list_comparisons(known.conditions)
    span = find_integers(catalog, value, compared)
    value = replace(value, nulls=not known.never_null(substitute_columns(value.guarded_node, known.made_of)))
    if found and span is not None and span.last - span.first >= MAX_LISTED:
        return replace(value, span=span)
    if found:
        return replace(value, domain=found[0].domain, nulls=False)
    if isinstance(node, ScalarQuery):
        return value
    columns = [value] if value.is_column else _list_columns(node, known)
    spans = [None if each is None else find_span(catalog, each, compared) for each in columns]
    return replace(value, span=join_spans(spans))


def _list_columns(node: Expr, known: KnownRows) -> list[Typed | None]:
    """Return the columns of which an expression is one, or NULL; None stands for anything else."""
    match node:
        case Paren(inner) | Try(inner):
            return _list_columns(inner, known)
        case Case(branches, default):
            results = [then for _, then in branches] + ([] if default is None else [default])
            return [column for each in results for column in _list_columns(each, known)]
        case Call("coalesce" | "greatest" | "least", arguments):
            return [column for each in arguments for column in _list_columns(each, known)]
        case Constant(None) | Cast(Constant(None)):
            return []
    return [known.columns.get(f"{node.table}.{node.name}") if isinstance(node, Column) else None]


@dataclasses.dataclass
class _Finder(PublicRows):
    """Finds the candidates of keys."""

    def __post_init__(self) -> None:
        self._name_compared_days()
        always = [c.expr for c in self.known.conditions if not c.unless]
        self.values = ColumnValues(self.catalog, self.known, list_comparisons(self.known.conditions))
        one = _find_equal_columns(self.known, always, lambda name: self.values.exact(name) is not None)
        self.reached = self._find_reached(one)
        self.same = one
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

    def _name_compared_days(self) -> None:
        """Read the days that private texts are converted to as columns, where conditions compare them.

        Of `WHERE ordered::DATE BETWEEN ..` the values are those between both ends, and NULL is none of them.
        """
        found: dict[Expr, Expr] = {}
        for one in list_comparisons(self.known.conditions):
            day = one.operand.operand if isinstance(one.operand, Try) else one.operand
            read = [self.known.columns.get(name) for name in facts(day).reads]
            texts = all(each is not None and each.type == VARCHAR for each in read)
            if isinstance(day, Cast) and day.type == DATE and texts and day not in found:
                column = make_column("day", f"c{len(found)}", DATE)
                found |= {day: column.node, Try(day): column.node}
                known = self.known.columns.new_child({f"day.c{len(found) - 2}": column})
                self.known = replace(self.known, columns=known)
        if found:

            def put_names(part: Expr) -> Expr:
                return found.get(part) or map_parts(part, put_names)

            self.nodes = [put_names(node) for node in self.nodes]
            conditions = tuple(replace(c, expr=put_names(c.expr)) for c in self.known.conditions)
            self.known = replace(self.known, conditions=conditions)

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
        if any(self.known.never_null(node, self.sure) for node in nodes):
            return values.without_null()
        made = add_null(values)
        # A part of a time that is infinite is NULL.
        parts = not self.keys[place].is_column and values.origin.startswith("the ")
        return replace(made, complete=made.complete or (parts and self.keys[place].domain is values))

    def _is_ready(self, place: int, node: Expr) -> bool:
        """Return whether a key can be evaluated on public rows."""
        grains = self.keys[place].grains
        bases = self.values.bases
        whole = (n for n in facts(node).reads if isinstance(bases.get(n), Span) and n not in grains)
        return self._find_atoms(node) is not None and not any(True for _ in whole)

    def _choose_results(self, node: Expr, place: int) -> Expr:
        """Replace each CASE whose conditions are not public by a free choice among its results."""
        if not isinstance(node, Case) or all(self._is_ready(place, when) for when, _ in node.branches):
            return map_parts(node, lambda part: self._choose_results(part, place))
        alias = f"b{len(self.choices)}"
        self.choices[alias] = len(node.branches) + 1
        results = [self._choose_results(then, place) for _, then in node.branches]
        default = self._choose_results(node.default, place) if node.default is not None else None
        which = [Binary("=", Column(alias, "i"), Constant(i, INTEGER)) for i in range(len(results))]
        return Case(tuple(zip(which, results, strict=True)), default)

    def _group_keys(self, ready: Sequence[int]) -> list[tuple[list[int], frozenset[str]]]:
        """Return the keys that share public rows, with all items and columns that these are joined with."""
        read = {i: self._find_atoms_of_keys(i) for i in ready}
        used = frozenset[str]().union(*read.values(), self.known.items)
        linked = [use.atoms for use in self._usable_conditions]
        linked += [self._find_atoms_of(each) for each in self._date_orders] if len(ready) > 1 else []
        links = [*read.values(), *(atoms for atoms in linked if atoms <= used)]
        groups = [([i for i in ready if read[i] & atoms], atoms) for atoms in connect_names(links)]
        found = [(places, atoms) for places, atoms in groups if places]
        return found + [([i], read[i]) for i in ready if not read[i]]

    def _evaluate_together(self, places: list[int], atoms: frozenset[str]) -> list[Candidates]:
        """Return the candidates of keys over the same public rows; one by one if the rows are too many."""
        if len(places) == 1:
            own = self._evaluate_alone(places[0], atoms)
            return [Candidates((places[0],), own)] if own is not None else []
        nodes = [self.nodes[i] for i in places]
        rows = self._choose_rows(atoms, self._find_atoms_of_keys(*places), nodes)
        if rows is not None:
            return [Candidates(tuple(places), self._describe(nodes, rows))]
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
        rows = self._choose_rows(atoms, self._find_atoms_of_keys(place), [node])
        if rows is None:
            return self._add_null_of_key(place, own)
        image = self._describe([node], rows)
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
        self, base: KeyDomain, sql_type: SqlType, column: Column, filters: Sequence[ConditionUse]
    ) -> KeyDomain:
        """Return the values of a column that meet the conditions on it."""
        said = next((u for u in filters if is_list_alone(u.compared, column, sql_type)), None)
        if len(filters) == (said is not None):
            return base
        replaced = {f"{column.table}.{column.name}": Column("d", "v")}
        kept = conjunction(substitute_columns(u.condition.expr, replaced) for u in filters)
        return replace(base, query=Select(base.cells, Derived(base.query, "d"), kept))

    def _describe(self, nodes: Sequence[Expr], query: Select) -> KeyDomain:
        """Return the distinct values of keys on public rows, or combinations of values, as a domain."""
        null = not all(self.known.never_null(node, self.sure) for node in nodes)
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


def _find_equal_columns(
    known: KnownRows, conditions: Iterable[Expr], listed: Callable[[str], bool]
) -> Mapping[str, Expr]:
    """Return a column for each private column that conditions equate with it.

    It is one of a public item, else one whose values are public, as `listed` says.
    """
    found: dict[str, Expr] = {}
    for names in _find_classes(known, conditions):
        public = [n for n in names if n.partition(".")[0] in known.items]
        sure = public or [n for n in names if not known.columns[n].type.moment and listed(n)]
        for name in names if sure else ():
            chosen, wanted = known.columns[sure[0]], known.columns[name]
            if name in public or name == sure[0]:
                continue
            if chosen.type == wanted.type:
                found[name] = chosen.node
            elif public and chosen.type.integer and wanted.type.integer:
                found[name] = Cast(chosen.node, wanted.type, bounded=True)
    return found


def _find_classes(known: KnownRows, conditions: Iterable[Expr]) -> list[list[str]]:
    """Return the names of columns that are equal to each other, in order."""
    found: list[set[str]] = []
    for condition in conditions:
        pair = _read_pair(known, condition)
        if pair is not None:
            touched = [s for s in found if s & pair]
            found = [s for s in found if s not in touched]
            found.append(pair.union(*touched))
    return [sorted(names) for names in found]


def _read_pair(known: KnownRows, condition: Expr) -> set[str] | None:
    while isinstance(condition, Paren):
        condition = condition.inner
    if not isinstance(condition, Binary) or condition.operator != "=":
        return None
    names = [_find_name(known, side) for side in (condition.left, condition.right)]
    if names[0] is None or names[1] is None:
        return None
    a, b = known.columns[names[0]].type, known.columns[names[1]].type
    return {names[0], names[1]} if a == b or (a.integer and b.integer) else None


def _find_name(known: KnownRows, node: Expr) -> str | None:
    """Return the name of a column, also of an integer that is converted to a wider one."""
    if isinstance(node, Cast) and node.type.integer and not node.safe:
        node = node.operand
    name = f"{node.table}.{node.name}" if isinstance(node, Column) else ""
    return name if name in known.columns else None
