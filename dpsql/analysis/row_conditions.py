"""What is known of the counted rows of a block: public items, conditions that hold, facts of the unit.

Only rows with a unit are counted. A row to which an outer join has no partner holds NULL in all columns of
the items that are missing; `Condition.unless` and `KnownRows.missing` say which can be missing together.

If all keys of a GROUP BY are facts, each unit is in one group. Columns of a unit that has at most one row
are facts, and so are constants. A deterministic function of facts is one; an expression that contains a
subquery or a window is not taken for one. Rows without a unit have no part in this: they are never counted.

What keeps facts through a step: it only leaves rows out or repeats them (WHERE, DISTINCT, QUALIFY, SEMI,
ANTI, INNER and CROSS JOIN, UNNEST), or the side of an outer join is preserved. A column of the nullable side
has a value in some rows and NULL in others, unless all rows of a unit meet the same rows there: the
condition beside the equality of units may read facts only. After a FULL JOIN each side is nullable, so the
condition must hold for any two rows of a unit. A public row that facts determine, as the only one with equal
values, has facts. Other steps keep no fact.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeVar

from sqlglot import exp

from dpsql.analysis.compiled_relation import From, Origin, Owner, Relation, Scope
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.facts_of_values import never_null
from dpsql.analysis.public_domains import find_public_lists, is_public
from dpsql.analysis.typed_expression import Typed, UnitRole
from dpsql.errors import QueryRefused
from dpsql.kernel.tree import (
    OPAQUE,
    Aggregate,
    Between,
    Binary,
    Cast,
    Column,
    Derived,
    Expr,
    InList,
    InQuery,
    IsNull,
    Join,
    Not,
    Paren,
    Query,
    Saturated,
    Select,
    Source,
    Try,
    Unnest,
    facts,
    map_parts,
    walk,
)
from dpsql.lazy_dataclass import dataclass, replace
from dpsql.policy import Policy
from dpsql.types import DOUBLE

Missing = frozenset[frozenset[str]]
"""Sets of items that an outer join leaves out together."""

_NEVER: Missing = frozenset()


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that holds on each counted row, unless a set of items is missing from the row."""

    expr: Expr
    unless: Missing = _NEVER


@dataclass(frozen=True, slots=True)
class KnownRows:
    """The columns of a block, its public items by alias, and the conditions that its counted rows meet."""

    columns: ChainMap[str, Typed]
    """The columns by their generated names (`t1.c0`), also of what is named later."""
    items: Mapping[str, Query] = field(default_factory=dict)
    missing: Missing = _NEVER
    conditions: tuple[Condition, ...] = ()
    made_of: Mapping[str, Expr] = field(default_factory=dict)
    """Columns of private subqueries that are made of public values -> the expressions inside."""
    matched: Mapping[str, tuple[Expr, ...]] = field(default_factory=dict)
    """Items after LEFT JOIN -> its conditions: an item is missing exactly where no row of it meets them."""
    weak: frozenset[str] = frozenset()
    """Private items, also within subqueries, that an outer join leaves out of some rows."""
    tied: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Public items -> the private items that are missing wherever they are missing."""
    sure: frozenset[Expr] = frozenset()
    """Expressions that are not NULL on any counted row."""
    source: Source | None = None
    """The FROM clause; None: nobody asks for it."""
    lists: tuple[InQuery, ...] = ()
    """Conditions that an expression is among the values of public tables."""

    def keep_present(self, aliases: Iterable[str]) -> KnownRows:
        """Return what is known of the rows from which these items are not missing."""
        there = frozenset(aliases)

        def kept(missing: Missing) -> Missing:
            return frozenset(items for items in missing if not items & there)

        conditions = tuple(Condition(c.expr, kept(c.unless)) for c in self.conditions)
        return replace(self, missing=kept(self.missing), conditions=conditions)

    def is_public(self, node: Expr) -> bool:
        """Return whether an expression reads public items and columns with declared values only."""
        for name in facts(node).reads:
            column = self.columns.get(name)
            declared = column is not None and column.domain is not None and not column.type.moment
            if name.partition(".")[0] not in self.items and not declared:
                return False
        return True

    def missing_columns(self, atoms: Collection[str]) -> Iterator[Expr]:
        """Yield the conditions that private columns are NULL where an item is missing with them."""
        for item in sorted(self.tied.keys() & set(atoms)):
            for name in sorted(atoms):
                table, _, column = name.partition(".")
                if column and table in self.tied[item]:
                    null = IsNull(Column(table, column))
                    yield Paren(Binary("OR", Paren(Not(Column(item, "m"))), Paren(null)))

    def has_value(self, name: str) -> bool:
        """Return whether a private column is never NULL, beside a NULL that its domain lists."""
        return self.is_whole(name) and name.partition(".")[0] not in self.weak

    def is_whole(self, name: str) -> bool:
        """Return whether a private column is never NULL in the rows of its item."""
        column = self.columns.get(name)
        return column is not None and not column.nulls and name.partition(".")[0] not in self.items

    def never_null(self, node: Expr, sure: Collection[Expr] = ()) -> bool:
        """Return whether an expression is not NULL on any counted row, nor is any that is `sure`."""
        sure = sure or self.sure
        return never_null(node, lambda n: self.has_value(n) and not self.columns[n].lists_null, sure)

    def find_item(self, node: Expr) -> str | None:
        """Return the public item that a bare column belongs to; None for other expressions."""
        node = _strip_casts(node)
        return node.table if isinstance(node, Column) and node.table in self.items else None


def find_known_rows(compiler: StatementCompiler, made: From, where: Expr | None) -> KnownRows:
    """Return what is known of the counted rows of FROM and WHERE."""
    side = _read_side(compiler.policy, made.source)
    columns = ChainMap({name: c for c in made.scope.columns for name in c.reads}, compiler.columns)
    found = KnownRows(columns, side.items, frozenset(side.missing))
    made_of = {name: expr for name, expr in side.made_of.items() if found.is_public(expr)}
    kept = [*side.conditions, *map(Condition, split_conjuncts(where))]
    conditions = tuple(Condition(substitute_columns(c.expr, made_of), c.unless) for c in kept)
    matched = {item: tuple(substitute_columns(e, made_of) for e in on) for item, on in side.matched.items()}
    sure = frozenset(node for c in conditions if not c.unless for node in find_not_null(c.expr))
    found = replace(
        found,
        conditions=conditions,
        made_of=made_of,
        matched=matched,
        weak=frozenset(side.weak),
        tied=side.tied,
        sure=sure,
        source=made.source,
        lists=find_public_lists(compiler.policy, (c.expr for c in conditions if not c.unless)),
    )
    return found.keep_present(alias for node in sure if (alias := found.find_item(node)))


def substitute_columns(node: Expr, columns: Mapping[str, Expr]) -> Expr:
    """Return an expression with other ones in the place of columns."""
    if isinstance(node, Column):
        return columns.get(f"{node.table}.{node.name}", node)
    if not facts(node).reads & columns.keys():
        return node
    return map_parts(node, lambda part: substitute_columns(part, columns))


def split_conjuncts(condition: Expr | None) -> list[Expr]:
    """Return the conjuncts of a compiled condition."""
    if isinstance(condition, Paren):
        return split_conjuncts(condition.inner)
    if isinstance(condition, Binary) and condition.operator == "AND":
        return [*split_conjuncts(condition.left), *split_conjuncts(condition.right)]
    return [] if condition is None else [condition]


@dataclass(slots=True)
class _Side:
    """A part of FROM; `owned` says that its rows have units."""

    owned: bool = False
    private: set[str] = field(default_factory=set)
    """The aliases of its private items, also within subqueries."""
    weak: set[str] = field(default_factory=set)
    """Those of them that an outer join leaves out of some rows."""
    tied: dict[str, frozenset[str]] = field(default_factory=dict)
    """Its public items that can be missing -> the private ones that are missing with each.

    What leaves an item out further outside leaves out the same ones, too.
    """
    items: dict[str, Query] = field(default_factory=dict)
    missing: set[frozenset[str]] = field(default_factory=set)
    conditions: list[Condition] = field(default_factory=list)
    made_of: dict[str, Expr] = field(default_factory=dict)
    matched: dict[str, list[Expr]] = field(default_factory=dict)


def _read_side(policy: Policy, source: Source) -> _Side:
    match source:
        case Join(left, kind, right, on):
            return _join_sides(_read_side(policy, left), kind, _read_side(policy, right), split_conjuncts(on))
        case Derived(query, alias):
            return (
                _Side(items={alias: query})
                if is_public(policy, query)
                else _read_subquery(policy, query, alias)
            )
    return _Side()


def _read_subquery(policy: Policy, query: Query, alias: str) -> _Side:
    """Return what is known of a private subquery: each of its rows comes from a row of its FROM."""
    if not isinstance(query, Select) or query.source is None or not _has_generated_names(query.source):
        return _Side(owned=True, private={alias})
    found = _read_side(policy, query.source)
    found.owned = True
    found.private.add(alias)
    found.conditions += map(Condition, split_conjuncts(query.where))
    for item in query.items:
        if item.expr != Column(alias, item.name) and _is_of_one_row(item.expr):
            found.made_of[f"{alias}.{item.name}"] = substitute_columns(item.expr, found.made_of)
    return found


def _has_generated_names(source: Source) -> bool:
    """Return whether all items of a FROM have generated names, which no other item of the statement has."""
    if isinstance(source, Join):
        return _has_generated_names(source.left) and _has_generated_names(source.right)
    return isinstance(source, (Derived, Unnest)) and source.alias[0] == "t" and source.alias[1:].isdecimal()


def _is_of_one_row(node: Expr) -> bool:
    """Return whether an expression is one of a single row."""
    return OPAQUE not in facts(node).reads and not any(isinstance(n, Aggregate) for n in walk(node))


def _join_sides(left: _Side, kind: str, right: _Side, on: list[Expr]) -> _Side:
    if kind in ("SEMI", "ANTI"):
        return left
    # Where the only owned side is missing, the row has no unit and is not counted.
    without_left = kind in ("RIGHT", "FULL") and not (left.owned and not right.owned)
    without_right = kind in ("LEFT", "FULL") and not (right.owned and not left.owned)
    absent: list[_Side] = [side for side, gone in ((left, without_left), (right, without_right)) if gone]
    conditions = _limit_conditions(left.conditions, [left] if without_left else [])
    conditions += _limit_conditions(right.conditions, [right] if without_right else [])
    conditions += _limit_conditions(map(Condition, on), absent)
    missing = left.missing | right.missing | {frozenset(side.items) for side in absent if side.items}
    made_of = {**_keep_nullable(left, gone=without_left), **_keep_nullable(right, gone=without_right)}
    matched = {**({} if without_left else left.matched), **({} if without_right else right.matched)}
    if kind == "LEFT" and len(right.items) == 1 and not right.owned:
        matched |= dict.fromkeys(right.items, on)
    owned, items = left.owned or right.owned, {**left.items, **right.items}
    private, weak = left.private | right.private, left.weak | right.weak
    weak |= {alias for side in absent for alias in side.private}
    tied = left.tied | right.tied
    tied |= {item: frozenset(side.private) for side in absent for item in side.items if item not in tied}
    return _Side(owned, private, weak, tied, items, missing, conditions, made_of, matched)


def _keep_nullable(side: _Side, *, gone: bool) -> Mapping[str, Expr]:
    """Return what columns are made of; where the side can be missing, only what is NULL without it."""
    return {name: e for name, e in side.made_of.items() if not gone or isinstance(e, Column)}


def _limit_conditions(conditions: Iterable[Condition], absent: list[_Side]) -> list[Condition]:
    """Return conditions that hold unless one of some sides is missing, which only its items can show."""
    if not all(side.items for side in absent):
        return []
    sets = frozenset(frozenset(side.items) for side in absent)
    return [Condition(c.expr, c.unless | sets) for c in conditions]


def _strip_casts(node: Expr) -> Expr:
    while isinstance(node, (Paren, Cast)):
        node = node.inner if isinstance(node, Paren) else node.operand
    return node


def find_not_null(condition: Expr) -> tuple[Expr, ...]:
    """Return what is not NULL where a condition holds: its operands, and what these are conversions of."""
    return tuple(node for operand in _find_operands(condition) for node in _unwrap_conversions(operand))


def _unwrap_conversions(node: Expr) -> Iterator[Expr]:
    """Yield an expression, and what it is a conversion of."""
    yield node
    if isinstance(node, (Paren, Cast, Try, Saturated)):
        yield from _unwrap_conversions(node.inner if isinstance(node, Paren) else node.operand)


def _find_operands(condition: Expr) -> tuple[Expr, ...]:
    """Return operands that are not NULL where a condition holds."""
    match condition:
        case Paren(inner):
            return _find_operands(inner)
        case Not(Paren(IsNull(operand, negated=False)) | IsNull(operand, negated=False)):
            return (operand,)
        case Binary("=" | "<" | "<=" | ">" | ">=" | "<>", left, right):
            return left, right
        case InList(operand) | InQuery(operand) | IsNull(operand, negated=True) | Between(operand):
            return (operand,)
        case Binary("OR"):
            first, *others = _list_alternatives(condition)
            common = _find_operands(first)
            for other in others:
                shared = _find_operands(other)
                common = tuple(operand for operand in common if operand in shared)
            return common
    return ()


def _list_alternatives(condition: Expr) -> list[Expr]:
    """Return the conditions of which one holds, of a chain of OR of any length."""
    found, waiting = list[Expr](), [condition]
    while waiting:
        match waiting.pop():
            case Binary("OR", left, right):
                waiting += [left, right]
            case other:
                found.append(other)
    return found


Names = frozenset[str]
"""Generated columns, such as `t1.c0`."""

_NONE: Names = frozenset()
T = TypeVar("T")


def find_fact_places(relation: Relation) -> frozenset[int]:
    """Return the places of a relation's columns that are facts."""
    if relation.owner is None:
        return frozenset()
    every = frozenset(range(len(relation.columns)))
    found = frozenset(i for i in every if relation.columns[i].fact or _is_exact(relation.columns[i].unit))
    return every if _has_one_row(relation.owner, relation.unique, found) else found


def find_fact_names(made: From, fixed: Iterable[Typed] = ()) -> Names:
    """Return the facts among the columns of FROM; `fixed` are those that WHERE equates with a constant."""
    if made.owner is None:
        return _NONE
    columns = (*made.scope.columns, *made.scope.merged.values())
    found = _list_names(c for c in columns if c.fact) | _list_names(c for c in fixed if c.is_column)
    unique = [frozenset().union(*(facts(node).reads for node in each)) for each in made.unique]
    return _list_names(columns) if _has_one_row(made.owner, unique, found) else found


def find_fixed_values(compiler: StatementCompiler, filters: Iterable[exp.Expr], scope: Scope) -> list[Typed]:
    """Return what conjuncts of WHERE equate with a literal, without a conversion that merges values.

    A DOUBLE is none of it: 0.0 equals -0.0, and functions tell them apart.
    """
    found = []
    for part in filters:
        sides = (part.this, part.expression) if isinstance(part, exp.EQ) else ()
        for a, b in (sides, sides[::-1]) if sides else ():
            if isinstance(a, exp.Column) and isinstance(b, exp.Literal):
                try:
                    value, literal = scope.resolve(a), compiler.expression(b, scope)
                except QueryRefused:  # it may be an alias of the select list
                    continue
                if _is_same_type(value, literal) and value.type != DOUBLE:
                    found.append(value)
    return found


def find_facts_of_join(
    kind: str,
    left: From,
    right: Relation,
    origin: Origin,
    conditions: Sequence[Typed],
    pairs: Sequence[tuple[Typed, Typed]],
    parts: int,
) -> Names:
    """Return the columns of a join's result that have the same value in all rows of a unit.

    `pairs` are the equated columns, for INNER and CROSS those of WHERE too; `parts` is the number of
    conjuncts of the join's own condition.
    """
    before, after = find_fact_names(left), _list_names(c for c in origin.columns if c.fact)
    if kind in ("SEMI", "ANTI"):
        return before
    # An equality of columns with different types may compare values that were merged by a conversion.
    pairs = [(a, b) for a, b in pairs if _is_same_type(a, b)]
    if kind == "FULL":
        units = [1 for a, b in pairs if _is_exact(a.unit) and _is_exact(b.unit)]
        return before | after if len(units) == parts else _NONE
    if right.owner is None and left.owner is not None:
        equated = {b.node for a, b in pairs if a.reads <= before}
        unique = [{origin.columns[i].node for i in places} for places in right.unique]
        after = _list_names(origin.columns) if any(each <= equated for each in unique) else _NONE
    elif left.owner is None and right.owner is not None:
        equated = {a.node for a, b in pairs if b.reads <= after}
        before = _list_names(left.scope.columns) if any(each <= equated for each in left.unique) else _NONE
    both, preserved = before | after, {"LEFT": left.owner, "RIGHT": right.owner}
    # Where the preserved side is public, rows without a match have no unit: of the others it is INNER.
    if preserved.get(kind) is None or all(c.reads <= both for c in conditions):
        return both
    return before if kind == "LEFT" else after


def is_fact(value: Typed, names: Names) -> bool:
    """Return whether an expression has the same value in all rows of a unit."""
    return value.reads <= names or value.unit in (UnitRole.PERIOD, UnitRole.LONGER)


def mark_facts(scope: Scope, names: Names) -> Scope:
    """Mark the columns of FROM that are facts, and no others."""

    def marked(column: Typed) -> Typed:
        fact = facts(column.node).reads <= names
        return column if column.fact is fact else replace(column, fact=fact)

    origins = tuple(origin.map_columns(marked) for origin in scope.origins)
    return replace(scope, origins=origins, merged={n: marked(c) for n, c in scope.merged.items()})


def _list_names(columns: Iterable[Typed]) -> Names:
    return _NONE.union(*(c.reads for c in columns))


def _is_same_type(a: Typed, b: Typed) -> bool:
    return a.type == b.type or (a.type.integer and b.type.integer)


def _is_exact(role: UnitRole) -> bool:
    return role.fixed


def _has_one_row(owner: Owner, unique: Iterable[frozenset[T]], found: frozenset[T]) -> bool:
    """Return whether a unit has at most one row: a set of columns that is unique in it has facts only."""
    return owner.row or any(each <= found for each in unique)
