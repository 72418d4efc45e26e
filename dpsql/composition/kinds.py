"""Decide for each block of a statement what its rows are: public, private, released, or computed from those.

The kind follows from where the rows come from. A mistake here can only refuse a statement: the analysis
proves each release, and the outer query may not name a private table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from enum import Enum

from sqlglot import exp

from dpsql.analysis.aggregate_functions import (
    aggregate_name,
    contains_aggregate,
    is_in_aggregate,
)
from dpsql.analysis.compiled_relation import Cte, find_cte
from dpsql.analysis.compiler import read_item, read_whole_number
from dpsql.analysis.statement_shapes import Provenance
from dpsql.analysis.typed_expression import UnitRole
from dpsql.analysis.unit_periods import refuse_person
from dpsql.composition.equivalent_blocks import BY_KEY, has_one_row, relation, with_scalars
from dpsql.composition.grouping_sets import has_several_groupings
from dpsql.composition.joined_keys import with_lists_of_keys
from dpsql.errors import QueryRefused
from dpsql.language import MARK, Query, StatementText, copy_tree, find_nodes, list_from_items, walk_tree
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy
from dpsql.types import DATE, VARCHAR


class BlockKind(Enum):
    """What one row of a SELECT block stands for."""

    PUBLIC = "public"
    """Rows of public tables and constants."""
    OWNED = "owned"
    """Rows that belong to privacy units."""
    RELEASE = "release"
    """Aggregates over owned rows, which are released."""
    POST = "post-processing"
    """Rows computed from released and public ones."""
    TIED = "tied"
    """An aggregate over owned rows for each row of the block around it."""


CENTRE = "centre"
"""The meta of a SELECT whose numbers are constants of the answer, whatever the exact ones are."""
EPSILON = "epsilon"
"""The meta of a release block's tree: its own part of the statement's epsilon."""
VALUE_MARK = "\x00"
"""The beginning of a release's name until it is known which ones are equal; no statement can spell it."""
_RELEASED = frozenset({BlockKind.RELEASE, BlockKind.POST})
_OUTSIDE = ("where", "group")
"""The clauses that are read before the groups are counted."""
_CLAUSES = ("expressions", *_OUTSIDE, "having", "qualify", "order", "limit", "offset", "distinct", "windows")


@dataclass(frozen=True, slots=True)
class ReleaseBlock:
    """A release block, and the common table expressions that it may name."""

    select: exp.Select
    ctes: tuple[Cte, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class ReadValue:
    """A subquery over released rows that a release reads as a constant, once known: one value, or a list."""

    subquery: exp.Expr
    after: int
    """How many of the release blocks come before it; it reads no others."""
    listed: bool = False
    """Whether it is the list of IN."""


@dataclass(slots=True)
class Kinds:
    """The kinds of all blocks of one statement. Nodes of the tree are marked with what they mean."""

    query: Query
    policy: Policy
    provenance: Provenance
    of_select: dict[int, BlockKind] = field(default_factory=dict)
    """The kind of each SELECT, by the `id` of its node."""
    releases: list[ReleaseBlock] = field(default_factory=list)
    """The release blocks; one inside another comes first."""
    ctes: list[Cte] = field(default_factory=list)
    """The common table expressions that are named; a table that names one has its place as meta `cte`."""
    uses: list[int] = field(default_factory=list)
    """How often each of them is named."""
    of_cte: list[BlockKind] = field(default_factory=list)
    values: list[ReadValue] = field(default_factory=list)
    """The subqueries over released rows that expressions over private rows use."""
    unused: list[ReleaseBlock] = field(default_factory=list)
    """The release blocks in common table expressions that nothing refers to."""
    _known: list[Cte] = field(default_factory=list)
    _run: bool = True
    """Whether the blocks that are looked at now are run; what nothing refers to is only checked."""
    _doubts: list[QueryRefused] = field(default_factory=list)
    """Refusals of blocks whose kind they leave open; such a block is taken for owned."""

    @classmethod
    def of(cls, query: Query, provenance: Provenance) -> Kinds:
        """Return the kinds of the blocks of a statement; its tree gets marks."""
        found = cls(query, provenance.policy, provenance)
        found.relation(query.tree, (), root=True)
        found._unused()
        if found._doubts and (found.unused or [r.select for r in found.releases] != [query.tree]):
            raise found._doubts[0]
        return found

    def _unused(self) -> None:
        """Find the kinds of common table expressions that nothing names: they are checked but not run."""
        releases, uses = self.releases, list(self.uses)
        self.releases, self._run = self.unused, False
        for cte in self._known:
            if not any(cte.query is named.query for named in self.ctes):
                kind = self.relation(cte.query, cte.visible)
                if kind is BlockKind.OWNED:
                    self.provenance.make_compiler().query(cte.query, cte.visible, 1)
        self.releases, self.uses = releases, [*uses, *(0 for _ in self.ctes[len(uses) :])]

    def _ctes(self, node: exp.Expr, outer: tuple[Cte, ...]) -> tuple[Cte, ...]:
        found = self.provenance.list_ctes(node, outer)
        self._known += found[len(outer) :]
        return found

    def relation(self, node: exp.Expr, ctes: tuple[Cte, ...], *, root: bool = False) -> BlockKind:
        """Return the kind of a query or of an item of FROM."""
        match node:
            case exp.Select():
                return self._select(node, ctes, root=root)
            case exp.SetOperation():
                inner = self._ctes(node, ctes)
                sides = [(side, self.relation(side, inner)) for side in (node.this, node.expression)]
                found = self._together(sides)
                return BlockKind.POST if found is BlockKind.RELEASE else found
            case exp.Subquery():
                inner = self._ctes(node, ctes)
                return self._with_joins(node, self.relation(node.this, inner, root=root), ctes)
            case exp.Table():
                return self._with_joins(node, self._table(node, ctes), ctes)
        return self._together([(n, self.relation(n, ctes)) for n in _queries(node)])

    def _with_joins(self, node: exp.Expr, kind: BlockKind, ctes: tuple[Cte, ...]) -> BlockKind:
        joins = node.args.get("joins") or ()
        return self._together([(node, kind), *((j.this, self.relation(j.this, ctes)) for j in joins)])

    def _table(self, node: exp.Table, ctes: tuple[Cte, ...]) -> BlockKind:
        cte = find_cte(node.name, ctes) if node.args.get("db") is None else None
        if cte is not None:
            return self._cte(node, cte)
        table = self.policy.table(node.name) if node.name.isascii() else None
        return BlockKind.PUBLIC if table is None or table.public else BlockKind.OWNED

    def _cte(self, node: exp.Table, cte: Cte) -> BlockKind:
        place = next((i for i, known in enumerate(self.ctes) if known.query is cte.query), len(self.ctes))
        if place == len(self.ctes):
            kind = self.relation(cte.query, cte.visible)
            place = len(self.ctes)
            self.ctes.append(cte)
            self.uses.append(0)
            self.of_cte.append(kind)
        self.uses[place] += 1
        node.meta["cte"] = place
        if cte.query.parent is not None:
            cte.query.parent.meta["cte"] = place
        return self.of_cte[place]

    def _together(self, parts: list[tuple[exp.Expr, BlockKind]]) -> BlockKind:
        """Return the kind of rows that are joined or united."""
        kinds = {kind for _, kind in parts}
        owned = next((node for node, kind in parts if kind is BlockKind.OWNED), None)
        if owned is not None and kinds & _RELEASED:
            if self._doubts:
                raise self._doubts[0]
            raise self.query.source.refuse(
                "released and private rows do not meet",
                owned,
                f"count {_name(owned)} in a release of its own, and join the two",
            )
        if owned is not None:
            return BlockKind.OWNED
        if len(parts) == 1:
            return parts[0][1]
        return BlockKind.POST if kinds & _RELEASED else BlockKind.PUBLIC

    # -- one SELECT

    def _select(
        self, node: exp.Select, outer: tuple[Cte, ...], *, root: bool = False, tied: bool = False
    ) -> BlockKind:
        """Return the kind of a block; `tied` says that it stands in an expression."""
        ctes = self._ctes(node, outer)
        of_items = {
            "released": lambda item: self._apart(item, ctes) in _RELEASED,
            "private": lambda item: self._apart(item, ctes) is BlockKind.OWNED,
            "known": lambda name: self._has(node, ctes, name),
        }
        with_scalars(node, ctes, **of_items)
        with_lists_of_keys(
            node,
            ctes,
            **of_items,
            same=lambda groups, other: self._is_alike(node, ctes, groups, other),
        )
        if node.args.get("where") is None:
            self._refuse_bare_join(node.args.get("joins") or ())
        items = [*list_from_items(node), *(node.args.get("laterals") or [])]
        rows = (
            self._together([(item, self.relation(item, ctes)) for item in items])
            if items
            else BlockKind.PUBLIC
        )
        if rows is BlockKind.OWNED:
            kind = self._owned(node, ctes, root=root, tied=tied)
        else:
            kind = self._computed(node, ctes, BlockKind.POST if rows in _RELEASED else rows)
        self.of_select[id(node)] = kind
        return kind

    def _refuse_bare_join(self, joins: Iterable[exp.Expr]) -> None:
        """Refuse `a JOIN b` without any condition: each row would be joined with every row of the other."""
        for join in joins:
            if any(join.args.get(name) for name in ("on", "using", "method", "side")):
                continue
            if str(join.args.get("kind") or "") not in ("", "INNER") or not isinstance(join.this, exp.Table):
                continue
            start = join.this.parts[0].meta.get("start", 0)
            before = self.query.source.text[:start].split()
            if self.query.source.position(join.this.parts[0]) != start:
                continue  # it stands in a view
            if before and before[-1].upper() == "JOIN":
                name = join.this.name
                raise self.query.source.refuse(
                    "this JOIN has no condition: it would join each row with every row",
                    join,
                    f"ON .. = .., or CROSS JOIN {name} where that is meant",
                )

    def _computed(self, node: exp.Select, ctes: tuple[Cte, ...], rows: BlockKind) -> BlockKind:
        """Return the kind of a block over public or released rows."""
        found = [(sub, self._value(sub, ctes)) for sub, _ in _subqueries(node)]
        for sub, kind in found:
            if kind is BlockKind.TIED:
                raise self.query.source.refuse(
                    "this would be a release for each row of the block around it",
                    sub,
                    "count in a release of its own, with GROUP BY, and join it",
                )
        kinds = {rows, *(kind for _, kind in found)}
        if BlockKind.OWNED in kinds and kinds & _RELEASED:
            self._together([*found, (node, rows)])
        return (
            BlockKind.OWNED
            if BlockKind.OWNED in kinds
            else BlockKind.POST
            if kinds & _RELEASED
            else BlockKind.PUBLIC
        )

    def _value(self, node: exp.Expr, ctes: tuple[Cte, ...]) -> BlockKind:
        """Return the kind of a subquery in an expression."""
        inner = node.unnest() if isinstance(node, exp.Subquery) else node
        if isinstance(inner, exp.Select):
            return self._select(inner, ctes, tied=True)
        return self.relation(inner, ctes)

    def _owned(self, node: exp.Select, ctes: tuple[Cte, ...], *, root: bool, tied: bool) -> BlockKind:
        """Return the kind of a block over private rows."""
        group = node.args.get("group")
        having = node.args.get("having")
        judged = [*node.expressions, *([] if having is None else [having])]
        releasing = group is not None or any(contains_aggregate(part) for part in judged)
        note = str(node.meta.get("note", ""))
        if releasing and tied and self.provenance.find_outer_column(node, ctes) is not None:
            releasing, kind = False, BlockKind.TIED
        elif releasing and group is not None and not root and not has_several_groupings(node):
            roles, computed = {UnitRole.EXACT}, False
            try:
                roles, computed = self.provenance.find_roles(node, ctes)
            except QueryRefused as refused:
                self._doubts.append(refused)
            releasing, kind = UnitRole.EXACT not in roles, BlockKind.OWNED
            if releasing and UnitRole.PARTIAL in roles:
                from dpsql.analysis.set_operations import refuse_partial_unit  # noqa: PLC0415  few statements are refused

                raise refuse_partial_unit(self.query.source, group)
            if releasing and UnitRole.PERSON in roles:
                raise refuse_person(self.query.source, group)
            if releasing and UnitRole.NULLABLE in roles:
                raise self.query.source.refuse(
                    "a key is the privacy unit or, by an outer join, NULL: its groups are neither",
                    group,
                    "group by the unit of the other table, which every row has",
                )
            note = "grouped by a function of the privacy unit, not by it" if computed else note
        else:
            kind = BlockKind.OWNED
        for sub, after in _subqueries(node, skipped=("limit", "offset")):
            self._below(sub, ctes, allowed=releasing and after, key=_within(sub, group))
        if releasing:
            self.releases.append(ReleaseBlock(node, ctes, note or _say_distinct(node)))
            return BlockKind.RELEASE
        return kind

    def _below(self, sub: exp.Expr, ctes: tuple[Cte, ...], *, allowed: bool, key: bool) -> None:
        """Judge a subquery in an expression over private rows.

        If it reads released rows and the expression is not one of released rows itself, it must be one value,
        or the list of IN, which is then a constant there: the losses add up, whatever it is (adaptive
        composition). What is counted, among which groups and with which noise, does not depend on it.
        So it is no key.
        """
        if self._value(sub, ctes) not in _RELEASED or allowed:
            return
        items = [] if not isinstance(sub, exp.Subquery) else find_nodes(sub, exp.Subquery)
        by_key = next((item for item in items if item.meta.get(BY_KEY)), None)
        if by_key is not None and not key and self._run:
            self.values.append(ReadValue(by_key, len(self.releases), listed=True))
            return
        inner, above = sub.unnest(), (exp.In, exp.Exists, exp.All, exp.Any)
        listed = isinstance(sub.parent, exp.In) and sub.parent.args.get("query") is sub
        scalar = isinstance(sub, exp.Subquery) and not isinstance(sub.parent, above)
        usable = isinstance(inner, exp.Select) and len(inner.expressions) == 1
        usable &= listed or (scalar and self._has_one_row(inner, ctes))
        if not usable or key or not self._run:
            raise below(self.query.source, sub)
        self.values.append(ReadValue(sub, len(self.releases), listed))

    def _has_one_row(self, node: exp.Expr, ctes: tuple[Cte, ...]) -> bool:
        """Return whether a query over released rows has one row, or at most one by its LIMIT."""
        limit = node.args.get("limit")
        first = None if limit is None else read_whole_number(limit.args.get("expression"))
        inside = self.provenance.list_ctes(node, ctes)
        if first == 1 or has_one_row(node, inside):
            return True
        source = node.args.get("from_")
        inner = None if source is None or node.args.get("joins") else relation(source.this, inside)
        plain = inner is not None and node.args.get("group") is None and isinstance(inner[0], exp.Select)
        return plain and inner is not None and self._has_one_row(inner[0], inner[1])

    def _apart(self, item: exp.Expr, ctes: tuple[Cte, ...]) -> BlockKind | None:
        """Return the kind of an item of FROM, without adding its blocks; None if it is refused."""
        apart = Kinds(self.query, self.policy, self.provenance)
        try:
            return apart.relation(copy_tree(item), ctes)
        except QueryRefused:
            return None

    def _is_alike(self, node: exp.Select, ctes: tuple[Cte, ...], groups: exp.Select, other: exp.Expr) -> bool:
        """Return whether an expression has the type of the key of groups, whose equal values are one text."""
        inside = self.provenance.list_ctes(groups, ctes)
        key = read_item(groups, groups.args["group"].expressions[0])
        try:
            found = {
                self.provenance.make_compiler().expression(each, self.provenance.find_scope(select, of)).type
                for each, select, of in ((key, groups, inside), (other, node, ctes))
            }
        except QueryRefused:
            return False
        return all(each.integer for each in found) or found in ({DATE}, {VARCHAR})

    def _has(self, node: exp.Select, ctes: tuple[Cte, ...], name: str) -> bool:
        """Return whether the items of FROM have a column."""
        try:
            return self.provenance.has_column(node, ctes, name)
        except QueryRefused:
            return True


def below(source: StatementText, sub: exp.Expr) -> QueryRefused:
    """Return the refusal of a release within a private query, whose rows would depend on noise."""
    return source.refuse(
        "a release cannot choose private rows: what is counted would depend on its noise",
        sub,
        f"write {_with_value(sub)}, and give it what this returns as a statement of its own",
    )


def _name(node: exp.Expr) -> str:
    return node.name if isinstance(node, exp.Table) else node.alias_or_name or "the private rows"


def _with_value(sub: exp.Expr) -> str:
    """Return the text of the condition or call around a subquery, with `$value` in its place."""
    around = sub.parent if sub.parent is not None else sub
    places = [n is sub for n in walk_tree(around)]
    made, value = copy_tree(around), exp.Var(this="$value")
    if isinstance(made, exp.In):
        made.set("query", None)
        made.set("expressions", [value])
    else:
        walk_tree(made)[places.index(True)].replace(value)
    return re.sub(f"(?i){MARK}", "", made.sql("duckdb", comments=False))


def _queries(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the outermost queries in an expression, or the expression itself if it is one."""
    for found in walk_tree(node, lambda n: isinstance(n, exp.Query) and not isinstance(n, exp.Table)):
        if isinstance(found, exp.Query) and not isinstance(found, exp.Table):
            yield found


def _subqueries(select: exp.Select, skipped: tuple[str, ...] = ()) -> Iterator[tuple[exp.Expr, bool]]:
    """Yield the subqueries in a block's expressions, and whether each is read after the rows are counted."""
    parts: list[tuple[str, exp.Expr]] = []
    for clause in _CLAUSES:
        value = select.args.get(clause) if clause not in skipped else None
        parts += [(clause, v) for v in (value if isinstance(value, list) else [value]) if v is not None]
    for join in select.args.get("joins") or ():
        parts += [("where", join.args["on"])] if join.args.get("on") is not None else []
    for clause, part in parts:
        if isinstance(part, exp.Expr):
            for found in _queries(part):
                yield found, clause not in _OUTSIDE and not is_in_aggregate(found, select)


def _within(node: exp.Expr, around: exp.Expr | None) -> bool:
    """Return whether a node stands inside another."""
    found: exp.Expr | None = node
    while found is not None and found is not around:
        found = found.parent
    return around is not None and found is around


def _say_distinct(select: exp.Select) -> str:
    """Return what is said of DISTINCT before a count of the rows that have a value, which is hardly meant."""
    first = select.expressions[0].unalias()
    counts = aggregate_name(first) == "count" and select.args.get("distinct") is not None
    column = None if first.find(exp.Distinct) else first.find(exp.Column)
    if not counts or column is None:
        return ""
    name = column.sql("duckdb")
    return f"SELECT DISTINCT is of rows of the answer: COUNT(DISTINCT {name}) counts different {name}"
