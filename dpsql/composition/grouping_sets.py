"""ROLLUP, CUBE and GROUPING SETS as one release for each set; columns in GROUP BY that its keys fix.

The outer SELECT computes the select list, HAVING, windows and ORDER BY over the rows of all sets. GROUPING of
a key is a constant of the set. Epsilon is divided among the sets as among all releases of a statement.

`GROUP BY d.code` of a public table with unique codes has one label in each group, so `d.label` is a key
beside it, and MIN, MAX and ANY_VALUE of it are the label itself. The groups stay the same, and so do the
candidates, which are computed from the rows of the public table. A label of a private table is such a key,
too, if the owner declares it (`determines`): the groups are those of both, whether that is true or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product

from sqlglot import exp

from dpsql.analysis.aggregate_functions import aggregate_calls, is_aggregate
from dpsql.analysis.compiled_relation import Cte, Scope
from dpsql.analysis.compiler import function_name, read_item, read_whole_number
from dpsql.analysis.released.released_calls import is_released
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition.existence import BESIDE_TOTALS
from dpsql.language import (
    copy_tree,
    find_nodes,
    list_conjuncts,
    list_from_items,
    name_query,
    read_clause,
    set_where,
    title_of,
    walk_tree,
)
from dpsql.lazy_pattern import lazy_pattern
from dpsql.policy import Policy, Table, fold

_SEVERAL = (exp.Rollup, exp.Cube, exp.GroupingSets)
_ROWS = ("from_", "joins", "laterals", "where")
_BEHIND = ("qualify", "order", "limit", "offset", "distinct", "windows", "with_")
_RELATION = "dpsql_sets"
_PLACE = lazy_pattern(r"[kag]\d+")
"""The names of keys, aggregates and constants of GROUPING that have no other."""
MOST_SETS = 16


def has_several_groupings(select: exp.Select) -> bool:
    """Return whether GROUP BY of a block has ROLLUP, CUBE or GROUPING SETS."""
    group = select.args.get("group")
    if group is None:
        return False
    named = any(group.args.get(name) for name in ("rollup", "cube", "grouping_sets"))
    return named or any(isinstance(term, _SEVERAL) for term in group.expressions)


def divide_grouping_sets(select: exp.Select, ctes: tuple[Cte, ...], of: Provenance) -> exp.Select | None:
    """Return the SELECT over the united releases of a block's sets; None for a block with one grouping."""
    has_column = partial(of.has_column, select, ctes)
    sets = _list_sets(select, select.args["group"], has_column) if has_several_groupings(select) else None
    if sets is None or not 0 < len(sets) <= MOST_SETS:
        return None
    keys = list(dict.fromkeys(key for keys in sets for key in keys))
    names = _Names(keys, sets)
    items = [_name_item(item, names.replace_columns(item)) for item in select.expressions]
    made = exp.Select(expressions=items)
    having = read_clause(select, "having")
    set_where(made, None if having is None else names.replace_columns(having))
    for name in _BEHIND:
        part = select.args.get(name)
        if part is not None and name != "with_":
            parts = part if isinstance(part, list) else [part]
            found = [names.replace_columns(each) for each in parts]
            made.set(name, found if isinstance(part, list) else found[0])
    made.set("with_", select.args.get("with_"))
    if names.left(made):
        return None
    branches = [names.branch(select, i) for i in range(len(sets))]
    united: exp.Expr = branches[0]
    for branch in branches[1:]:
        united = exp.Union(this=united, expression=branch, distinct=False)
    made.set("from_", exp.From(this=name_query(united, _RELATION)))
    made.meta.update(select.meta)
    return made


def leave_out_sets(branches: Sequence[exp.Select]) -> None:
    """Take releases of sets that can have no groups out of the unions in which they stand.

    Of each union at least one release is left, which says so.
    """
    for branch in branches:
        union = branch.parent
        if not isinstance(union, exp.Union):
            continue
        other = union.expression if union.this is branch else union.this
        for rest in find_nodes(other, exp.Select):
            rest.meta.setdefault("note", "of GROUP BY the sets whose keys no public value meets have no rows")
        union.replace(other)


def is_of_public_rows(select: exp.Select, ctes: tuple[Cte, ...], of: Provenance) -> bool:
    """Return whether all keys of a block are columns of public rows that are there for each row of it.

    If no public row has values of such keys that meet WHERE, no row meets WHERE.
    """
    group, joins = select.args.get("group"), select.args.get("joins") or ()
    if group is None or any(join.args.get("side") for join in joins):
        return False
    public = {
        fold(item.alias_or_name)
        for item in list_from_items(select)
        if _find_public(item, of.policy) is not None
    }
    origins = of.find_scope(select, ctes).origins
    held = [(fold(o.alias), {fold(name) for name in o.names}) for o in origins]

    def is_public(key: exp.Expr) -> bool:
        if not isinstance(key, exp.Column):
            return False
        having = [alias for alias, names in held if fold(key.name) in names]
        return {fold(key.table)} <= public if key.table else len(having) == 1 and having[0] in public

    return all(map(is_public, group.expressions))


def list_rows(select: exp.Select) -> list[exp.Expr | None] | None:
    """Return the clauses that make the rows of a block with GROUP BY; None for a block without."""
    return [select.args.get(name) for name in _ROWS] if select.args.get("group") is not None else None


def _name_item(item: exp.Expr, made: exp.Expr) -> exp.Expr:
    name = item.alias if isinstance(item, exp.Alias) else title_of(item)
    return exp.alias_(made.unalias(), name, quoted=True, copy=False)


def _list_sets(
    select: exp.Select, group: exp.Expr, has_column: Callable[[str], bool]
) -> list[tuple[exp.Expr, ...]] | None:
    """Return the keys of each set of GROUP BY, in order; None if a place or name is unclear."""
    terms = [*group.expressions]
    for name in ("rollup", "cube", "grouping_sets"):
        found = group.args.get(name) or []
        if any(not each.expressions for each in found):  # GROUP BY a, b WITH ROLLUP
            terms = [type(found[0])(expressions=terms)]
        else:
            terms += found
    parts: list[list[tuple[exp.Expr, ...]]] = []
    for term in terms:
        listed = [
            _read_keys(select, each, has_column)
            for each in (term.expressions if isinstance(term, _SEVERAL) else [term])
        ]
        if any(each is None for each in listed):
            return None
        sets = [each for each in listed if each is not None]
        if isinstance(term, exp.Rollup):
            parts.append([_join(sets[:n]) for n in range(len(sets), -1, -1)])
        elif isinstance(term, exp.Cube):
            chosen = product((True, False), repeat=len(sets))
            parts.append([_join([s for s, there in zip(sets, c, strict=True) if there]) for c in chosen])
        else:
            parts.append(sets)
    return [_join(chosen) for chosen in product(*parts)]


def _join(sets: Sequence[tuple[exp.Expr, ...]]) -> tuple[exp.Expr, ...]:
    return tuple(dict.fromkeys(key for keys in sets for key in keys))


def _read_keys(
    select: exp.Select, node: exp.Expr, has_column: Callable[[str], bool]
) -> tuple[exp.Expr, ...] | None:
    """Return the keys of a term: one, or those in parentheses; None for a place or name that is none.

    A name is that of a column of FROM, if there is one, else the alias of an item.
    """
    terms = node.expressions if isinstance(node, exp.Tuple) else [node.unnest()]
    found = tuple(read_item(select, each, has_column) for each in terms)
    places = (read_whole_number(each) for item, each in zip(found, terms, strict=True) if item is each)
    return None if any(place is not None for place in places) else found


class _Names:
    """The columns of the united releases: keys, aggregates, and what GROUPING is in each set."""

    def __init__(self, keys: list[exp.Expr], sets: Sequence[tuple[exp.Expr, ...]]) -> None:
        self.keys, self.sets = keys, sets
        self.measures: list[exp.Expr] = []
        self.groupings: list[tuple[exp.Expr, ...]] = []
        self._given: dict[str, str] = {}

    def _name(self, place: str, node: exp.Expr) -> str:
        """Return the name of a key or aggregate, as lines show it: its text, if no other has it."""
        if place not in self._given:
            title = title_of(node)
            taken = {fold(name) for name in self._given.values()}
            unclear = fold(title) in taken or _PLACE.fullmatch(fold(title)) is not None
            self._given[place] = place if unclear else title
        return self._given[place]

    def replace_columns(self, node: exp.Expr) -> exp.Expr:
        """Return an expression of the statement, written over the united releases."""
        whole = exp.Paren(this=copy_tree(node))
        self._replace(whole.this)
        found: exp.Expr = whole.this
        found.pop()
        return found

    def _replace(self, node: exp.Expr) -> None:
        made = self._column_of(node)
        if made is not None:
            node.replace(made)
            return
        for child in [*node.iter_expressions()]:
            self._replace(child)

    def _column_of(self, node: exp.Expr) -> exp.Column | None:
        if isinstance(node, exp.Query):
            return None
        if node in self.keys:
            return self._key(self.keys.index(node))
        if isinstance(node, exp.Column) and node.table:
            bare = exp.column(copy_tree(node.this))
            if bare in self.keys:
                return self._key(self.keys.index(bare))
        elif isinstance(node, exp.Column):
            same = [i for i, k in enumerate(self.keys) if isinstance(k, exp.Column) and k.this == node.this]
            if len(same) == 1:
                return self._key(same[0])
        name = (function_name(node) or "").lower()
        if name in ("grouping", "grouping_id"):
            arguments = tuple(node.expressions)
            if all(argument in self.keys for argument in arguments):
                return _column(f"g{_place(self.groupings, arguments)}")
        if is_released(node) or node in [*aggregate_calls(node)]:
            return _column(self._name(f"a{_place(self.measures, node)}", node))
        return None

    def _key(self, place: int) -> exp.Column:
        return _column(self._name(f"k{place}", self.keys[place]))

    def left(self, made: exp.Select) -> bool:
        """Return whether a SELECT names a column that the united releases do not have.

        Behind the select list its aliases may be named.
        """
        aliases = {fold(item.alias) for item in made.expressions}
        for name, part in made.args.items():
            known = set() if name in ("expressions", "where") else aliases
            nodes = [] if name == "with_" else part if isinstance(part, list) else [part]
            for node in nodes:
                for column in walk_tree(node) if isinstance(node, exp.Expr) else ():
                    own = isinstance(column, exp.Column) and column.table == _RELATION
                    if isinstance(column, exp.Column) and not own and fold(column.name) not in known:
                        return True
        return False

    def branch(self, select: exp.Select, place: int) -> exp.Select:
        """Return the release that answers one set of keys of GROUPING SETS."""
        there = self.sets[place]
        items: list[exp.Expr] = []
        for i, key in enumerate(self.keys):
            value = copy_tree(key) if key in there else exp.Null()
            items.append(exp.alias_(value, self._name(f"k{i}", key), quoted=True, copy=False))
        items += [
            exp.alias_(copy_tree(measure), self._name(f"a{i}", measure), quoted=True, copy=False)
            for i, measure in enumerate(self.measures)
        ]
        for i, arguments in enumerate(self.groupings):
            bits = sum(1 << n for n, key in enumerate(reversed(arguments)) if key not in there)
            items.append(exp.alias_(exp.Literal.number(bits), f"g{i}", quoted=True, copy=False))
        made = exp.Select(expressions=items)
        for name in _ROWS:
            part = select.args.get(name)
            if part:
                made.set(
                    name, [copy_tree(each) for each in part] if isinstance(part, list) else copy_tree(part)
                )
        if there:
            made.set("group", exp.Group(expressions=[copy_tree(key) for key in there]))
        made.meta.update(select.meta)
        made.meta[BESIDE_TOTALS] = any(key not in other for other in self.sets for key in there)
        return made


def _place(listed: list, one: object) -> int:  # type: ignore[type-arg]  # of nodes, or of tuples of them
    if one not in listed:
        listed.append(one)
    return listed.index(one)


def _column(name: str) -> exp.Column:
    return exp.column(name, table=_RELATION, quoted=True)


_OF_ONE_VALUE = frozenset({"min", "max", "any_value"})
_BEHIND_COLUMNS = ("having", "order", "qualify")

_Name = tuple[str, str]
"""The folded alias of an item of FROM, and the folded name of a column of it."""


def may_fix_columns(select: exp.Select, policy: Policy) -> bool:
    """Return whether a block groups rows of a public table with a declared-unique set."""
    return select.args.get("group") is not None and any(
        _find_public(item, policy) is not None or _find_determined(item, policy)
        for item in list_from_items(select)
    )


def _find_public(item: exp.Expr, policy: Policy) -> Table | None:
    """Return the public table with a declared-unique set that an item of FROM is; None for other items."""
    known = isinstance(item, exp.Table) and item.name.isascii() and "cte" not in item.meta
    table = policy.table(item.name) if known else None
    return table if table is not None and table.public and table.unique else None


def _find_determined(item: exp.Expr, policy: Policy) -> Mapping[str, tuple[str, ...]]:
    """Return the columns of an item of FROM that determine others, as the owner declares."""
    known = isinstance(item, exp.Table) and item.name.isascii() and "cte" not in item.meta
    table = policy.table(item.name) if known else None
    return table.determines if table is not None else {}


def add_fixed_columns(select: exp.Select, scope: Scope, policy: Policy) -> None:
    """Add to GROUP BY of a block the columns of public tables that it uses and its keys fix."""
    group = select.args.get("group")
    if group is None or has_several_groupings(select) or group.args.get("all"):
        return
    found = _Columns(select, scope, policy)
    keys = {name for term in group.expressions if (name := found.name_of(_key(select, term))) is not None}
    fixed = found.fixed_by(keys)
    wanted: dict[_Name, exp.Column] = {}
    parts = [*select.expressions, *(p for n in _BEHIND_COLUMNS if (p := select.args.get(n)) is not None)]
    for part in parts:
        for column, call in _free_columns(part):
            name = found.name_of(column)
            if name is None or name not in fixed or (name in keys and call is None):
                continue
            if name not in keys:
                wanted.setdefault(name, column)
            if call is not None:
                call.replace(copy_tree(column))
    for added in wanted.values():
        group.append("expressions", copy_tree(added))


def _key(select: exp.Select, term: exp.Expr) -> exp.Expr:
    """Return the expression of a key, of which a place or an alias may be written."""
    place = read_whole_number(term)
    if place is not None and 1 <= place <= len(select.expressions):
        item: exp.Expr = select.expressions[place - 1].unalias()
        return item
    return term


def _free_columns(part: exp.Expr) -> Iterator[tuple[exp.Column, exp.Expr | None]]:
    """Yield the columns outside of aggregates, and those of a MIN, MAX or ANY_VALUE with its call."""
    calls = [n for n in walk_tree(part, is_aggregate) if is_aggregate(n)]
    for node in walk_tree(part, lambda n: is_aggregate(n) or isinstance(n, exp.Query)):
        if isinstance(node, exp.Column):
            yield node, None
    for call in calls:
        one = call.expressions[0] if isinstance(call, exp.Anonymous) and len(call.expressions) == 1 else None
        if isinstance(one, exp.Column) and (function_name(call) or "").lower() in _OF_ONE_VALUE:
            yield one, call


class _Columns:
    """The columns of the items of FROM of a block, and which of them others fix."""

    def __init__(self, select: exp.Select, scope: Scope, policy: Policy) -> None:
        self.select = select
        self.named = {fold(o.alias): [fold(name) for name in o.names] for o in scope.origins}
        self.unique: dict[str, list[frozenset[str]]] = {}
        for item in list_from_items(select):
            table, alias = _find_public(item, policy), fold(item.alias_or_name)
            if table is not None and alias in self.named:
                self.unique[alias] = [frozenset(map(fold, names)) for names in table.unique]
        self.links = [*self._links()]
        self.labels = dict[_Name, set[_Name]]()
        """Columns of private items with those that they determine, which are then keys beside them."""
        for item in list_from_items(select):
            alias = fold(item.alias_or_name)
            for column, others in _find_determined(item, policy).items():
                self.labels[(alias, fold(column))] = {(alias, fold(name)) for name in others}

    def name_of(self, node: object) -> _Name | None:
        """Return which column of which item a node names; None for what is no column, or one of several."""
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return None
        name = fold(node.name)
        if node.table:
            return (fold(node.table), name) if name in self.named.get(fold(node.table), ()) else None
        items = [alias for alias, names in self.named.items() if name in names]
        return (items[0], name) if items else None

    def fixed_by(self, keys: set[_Name]) -> set[_Name]:
        """Return the columns of public items that have one value in each group."""
        known, before = set(keys), -1
        while len(known) > before:
            before = len(known)
            known |= {b for a, b in self.links if a in known}
            known |= {label for a in known & self.labels.keys() for label in self.labels[a]}
            for alias, sets in self.unique.items():
                if any(all((alias, name) in known for name in names) for names in sets):
                    known |= {(alias, name) for name in self.named[alias]}
        labels = set[_Name]().union(*self.labels.values())
        return {each for each in known if each[0] in self.unique or each in labels}

    def _links(self) -> Iterator[tuple[_Name, _Name]]:
        """Yield pairs of columns of which the first, where it is known, fixes the second."""
        for left, right in self._equal(read_clause(self.select))[0]:
            yield from ((left, right), (right, left))
        earlier = [fold(self.select.args["from_"].this.alias_or_name)]
        for join in self.select.args.get("joins") or ():
            alias = fold(join.this.alias_or_name)
            side = str(join.args.get("side") or "").upper()
            pairs, only = self._equal(join.args.get("on"))
            for each in join.args.get("using") or ():
                name = fold(each.name)
                pairs += [((a, name), (alias, name)) for a in earlier if name in self.named.get(a, ())]
            for left, right in pairs:
                inner, outer = (left, right) if right[0] == alias else (right, left)
                if not side:
                    yield from ((left, right), (right, left))
                elif side == "LEFT" and only and outer[0] == alias:
                    yield inner, outer
            earlier.append(alias)

    def _equal(self, condition: exp.Expr | None) -> tuple[list[tuple[_Name, _Name]], bool]:
        """Return the pairs of columns that a condition equates, and whether it does nothing else."""
        pairs, parts = [], list_conjuncts(condition)
        for part in parts:
            names = (
                (self.name_of(part.this), self.name_of(part.expression)) if isinstance(part, exp.EQ) else ()
            )
            if len(names) == 2 and names[0] is not None and names[1] is not None:
                pairs.append((names[0], names[1]))
        return pairs, len(pairs) == len(parts)
