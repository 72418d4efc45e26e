"""Follow the columns of an outer query to terms of released numbers; what depends on whose noise.

A copy of the query gets hidden columns, of which the engine computes which released numbers a value is made
of: an inner SELECT hands them on to the one around it. Rows that noise chose are followed row by row, but
what is aggregated over them has no error that is known. What is not understood is opaque: it has no interval.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace

from sqlglot import exp

from dpsql.analysis import function_name
from dpsql.composition.expressions import ExpressionReader
from dpsql.composition.hidden_columns import (
    HIDDEN,
    Columns,
    FromItem,
    Tracer,
    UnknownColumnsError,
    check_stars,
    with_names,
)
from dpsql.composition.released_terms import (
    CallTerm,
    Known,
    LinearTerm,
    Opaque,
    Term,
    first_opaque,
    is_linear,
    listed,
    map_sql_apart,
    named,
)
from dpsql.language import find_nodes, walk_tree
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold

ReleaseNames = frozenset[str]
"""Names of released relations."""

NONE: ReleaseNames = frozenset()


@dataclass(frozen=True, slots=True)
class Dependence:
    """What the value of a column, or of an expression, depends on."""

    noise: ReleaseNames = NONE
    ends: ReleaseNames = NONE
    """The releases of which it is, or holds, an end of an interval."""
    chosen: ReleaseNames = NONE
    """Those of which it is one that noise chose."""


CLEAN = Dependence()


@dataclass(frozen=True, slots=True)
class RelationRows:
    """The rows of a relation: their columns, and the released numbers that these depend on."""

    columns: tuple[tuple[str, Dependence], ...] | None
    """The folded names of its columns and their values; None: they are not known."""
    others: Dependence = CLEAN
    """The value of a column whose name is not known."""
    present: ReleaseNames = NONE
    order: ReleaseNames = NONE

    @property
    def values(self) -> tuple[Dependence, ...]:
        """What the values of all columns depend on, together."""
        return (self.others,) if self.columns is None else tuple(value for _, value in self.columns)

    def value(self, name: str) -> Dependence | None:
        """Return the value of a column by its folded name; None: it has no such column."""
        if self.columns is None:
            return self.others
        found = [value for own, value in self.columns if own == name]
        return merge_dependences(found) if found else None


@dataclass(eq=False, slots=True)
class SelectScope:
    """The items of the FROM clause of a SELECT, and the names that its list gives."""

    items: list[tuple[str, RelationRows]] = field(default_factory=list)
    aliases: dict[str, list[Dependence]] = field(default_factory=dict)
    windows: ReleaseNames = NONE
    """The noise in named windows."""

    def found(self, table: str, name: str) -> tuple[list[Dependence], bool]:
        """Return what a column can mean here, and whether it is certain that it means one of these."""
        items = [(alias, rows) for alias, rows in self.items if not table or alias == table]
        found = [rows.value(name) for _, rows in items]
        own = self.aliases.get(name, []) if not table else []
        whole = [value for alias, rows in items if not table and alias == name for value in rows.values]
        named = any(value is not None for value in found) and all(r.columns is not None for _, r in items)
        certain = bool(table and items) or bool(own) or named
        return [*(value for value in found if value is not None), *own, *whole], certain

    @property
    def values(self) -> list[Dependence]:
        """What the values of all columns depend on, together."""
        return [value for _, rows in self.items for value in rows.values]

    @property
    def order(self) -> ReleaseNames:
        """What the order of the rows depends on."""
        return frozenset[str]().union(*(rows.order for _, rows in self.items))

    @property
    def present(self) -> ReleaseNames:
        """The released relations on which it depends which rows the SELECT has."""
        return frozenset[str]().union(*(rows.present for _, rows in self.items))


@dataclass(frozen=True, slots=True)
class QueryContext:
    """What is around a query: common table expressions, and the SELECTs that it may refer to."""

    ctes: Mapping[str, RelationRows] = field(default_factory=dict)
    scopes: tuple[SelectScope, ...] = ()
    parameters: ReleaseNames = NONE
    """The names of the parameters of functions that are arguments."""

    def inside(self, scope: SelectScope) -> QueryContext:
        """Return the context with a SELECT's scope added, for the expressions within that SELECT."""
        return replace(self, scopes=(scope, *self.scopes))


def merge_dependences(values: Iterable[Dependence]) -> Dependence:
    """Return what several values depend on together."""
    noise, ends, chosen = NONE, NONE, NONE
    for value in values:
        noise, ends, chosen = noise | value.noise, ends | value.ends, chosen | value.chosen
    return Dependence(noise, ends, chosen)


PREFIX = f"{HIDDEN}f"
"""With this begin the names of the hidden columns of this module."""

_KNOWN = frozenset(
    {
        *(
            "expressions",
            "from_",
            "joins",
            "where",
            "order",
            "limit",
            "offset",
            "qualify",
            "windows",
            "with_",
        ),
        *("group", "having"),
    }
)


@dataclass(eq=False, slots=True)
class FollowedSelect:
    """A query whose columns are followed."""

    node: exp.Expr
    columns: list[tuple[str, Term]]
    """The names of its columns, and what each is a term of, in SQL of the expressions of its select list."""
    filtered: bool
    """Whether noise decides which rows there are."""
    numbers: Iterator[int]
    soft: bool = False
    """Whether groups that do not exist are left out, by their released numbers."""
    _made: dict[str, str] = field(default_factory=dict)

    def hidden(self, sql: str) -> str:
        """Return the name of a hidden column with the value of an SQL expression; add it if it is new."""
        if sql not in self._made:
            assert isinstance(self.node, exp.Select)  # noqa: S101  a set operation hands on its own columns
            name = self._made[sql] = f"{PREFIX}{next(self.numbers)}"
            self.node.append("expressions", exp.alias_(exp.Var(this=sql), name, quoted=True))
        return self._made[sql]

    def handed(self, place: int, alias: str, name: str) -> Term:
        """Return a column as the query around it sees it, under an alias and a name."""
        term = self.columns[place][1]
        shown = named(alias, name)

        def own(sql: str) -> str:
            return named(alias, self.hidden(sql))

        if isinstance(term, Known):
            return Known(shown)
        made = map_sql_apart(term, own) if not isinstance(term, LinearTerm) else term
        if isinstance(term, LinearTerm):
            parts = tuple((f if f == "1" else own(f), own(form)) for f, form in term.parts)
            made = LinearTerm(shown, parts)
        return made


@dataclass(eq=False, slots=True)
class FollowedUnion(FollowedSelect):
    """The rows of several queries, one after the other."""

    branches: list[FollowedSelect] = field(default_factory=list)
    expressions: list[list[str]] = field(default_factory=list)
    """What its terms are made of, in the SQL of each branch; the terms have the places of these instead."""

    def hidden(self, sql: str) -> str:
        """Return the name of a hidden column of all branches: `sql` is the place of its expressions."""
        if sql not in self._made:
            name = self._made[sql] = f"{PREFIX}{next(self.numbers)}"
            for branch, own in zip(self.branches, self.expressions[int(sql)], strict=True):
                assert isinstance(branch.node, exp.Select)  # noqa: S101  others are not followed
                branch.node.append("expressions", exp.alias_(exp.Var(this=own), name, quoted=True))
        return self._made[sql]

    def unite(self, terms: Sequence[Term]) -> Term:
        """Return a column of the rows of all branches, in each of which it is a term of the same form."""
        if is_linear(*terms):
            value = self._place([term.sql if isinstance(term, Known) else term.value for term in terms])  # type: ignore[union-attr]
            if all(isinstance(term, Known) for term in terms):
                return Known(value)
            return LinearTerm(value, (("1", self._place([listed(term) for term in terms])),))
        calls = {(term.op, len(term.args)) for term in terms if isinstance(term, CallTerm)}
        same = all(isinstance(term, CallTerm) for term in terms)
        if len(calls) != 1 or not (same or calls == {("div", 2)}):
            return Opaque("a union")
        split = [term.args if isinstance(term, CallTerm) else (term, Known("1")) for term in terms]
        args = tuple(self.unite(each) for each in zip(*split, strict=True))
        return first_opaque(*args) or CallTerm(next(iter(calls))[0], args)

    def _place(self, expressions: list[str]) -> str:
        self.expressions.append(expressions)
        return str(len(self.expressions) - 1)


@dataclass(slots=True)
class TermTracer(Tracer):
    """Follows the columns of the SELECTs of a query to terms of released numbers."""

    released: Mapping[str, Mapping[int, int | str]] = field(default_factory=dict)
    """By their folded names the columns of released relations: the number of a released number among all of
    them, "" for a value without noise, else what a column without a known error is."""
    width: int = 1
    """How many released columns there are."""
    barred: bool = False
    """Whether groups of a release may be below its bar: which there are is not known."""
    whole: list[bool] = field(default_factory=list)
    """For each aggregate and window over released numbers whether it is of the groups that exist alone."""
    aggregating: list[exp.Select | None] = field(default_factory=list)
    """For each aggregate over released numbers the SELECT that it is of, None for one of a window."""
    around: tuple[Callable[[exp.Column], Term | None], ...] = ()
    """What the names of the queries around a subquery mean."""

    def query(self, node: exp.Expr, ctes: Mapping[str, exp.CTE | None]) -> FollowedSelect:
        """Follow the columns of a query, and of those in its FROM, to released numbers."""
        if isinstance(node, exp.Select):
            return self.rows(node, ctes)
        if isinstance(node, exp.Union) and not node.args.get("distinct") and not node.args.get("by_name"):
            return self._united(node, ctes)
        raise UnknownColumnsError

    def _united(self, node: exp.Union, ctes: Mapping[str, exp.CTE | None]) -> FollowedSelect:
        known = {"this", "expression", "distinct", "order", "limit", "offset", "with_"}
        if any(value for name, value in node.args.items() if name not in known):
            raise UnknownColumnsError
        own = self._ctes(node)  # type: ignore[arg-type]  # it has the same clause
        if own.keys() & ctes.keys():
            raise UnknownColumnsError
        inner = {**ctes, **own}
        branches: list[FollowedSelect] = []
        for side in (node.this, node.expression):
            each = self.query(side.unnest(), inner)
            branches += each.branches if isinstance(each, FollowedUnion) else [each]
            if isinstance(each.node, exp.Select):
                _check_union_branch(each.node, inner)
        if len({len(branch.columns) for branch in branches}) > 1:
            raise UnknownColumnsError
        soft = any(branch.soft for branch in branches)
        made = FollowedUnion(node, [], False, self.numbers, soft, branches=branches)
        for place, (name, _) in enumerate(branches[0].columns):
            made.columns.append((name, made.unite([branch.columns[place][1] for branch in branches])))
        chosen = bool(node.args.get("limit")) and not all(isinstance(t, Known) for _, t in made.columns)
        made.filtered = chosen or any(branch.filtered for branch in branches)
        return made

    def rows(self, select: exp.Select, ctes: Mapping[str, exp.CTE | None]) -> FollowedSelect:
        """Follow the columns of one SELECT to released numbers."""
        if any(value for name, value in select.args.items() if name not in _KNOWN):
            raise UnknownColumnsError
        own = self._ctes(select)
        if own.keys() & ctes.keys():
            raise UnknownColumnsError
        inner = {**ctes, **own}
        items = self._items(select, inner)
        check_stars(select, items)
        reader = ExpressionReader(self, items, inner, select)
        if not reader.grouped_by_known():  # hidden columns could divide the groups of GROUP BY ALL
            raise UnknownColumnsError
        found: list[tuple[str, Term]] = []
        for node in list(select.expressions):
            bare = node.this if isinstance(node, exp.Alias) else node
            if isinstance(node, exp.Star) or (
                isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
            ):
                starred = ((name, ref) for name, ref in self._star(node, items) if ref is not None)
                found += [(name, reader.handed(*ref)) for name, ref in starred]
                continue
            name = node.alias_or_name
            term = reader.term(bare)
            found.append((name, term))
            if isinstance(node, exp.Alias):
                reader.aliases.setdefault(fold(name), term)
        return FollowedSelect(select, found, reader.chosen_by_noise(), self.numbers, reader.soft)

    def _derived(
        self, alias: str, node: exp.Expr | None, new: list[str], ctes: Mapping[str, exp.CTE | None]
    ) -> FromItem:
        """Follow a query in parentheses; the columns of anything else are not known."""
        if isinstance(node, exp.Subquery):
            with suppress(UnknownColumnsError):
                rows = self.query(node.this, ctes)
                names = with_names(tuple(name for name, _ in rows.columns), new)
                return FromItem(alias, names, traced=rows)  # type: ignore[arg-type]  # read by `ExpressionReader` alone
        return FromItem(alias, None, relation="" if node is None or self.reads(node, ctes) else "-")

    def outer_term(self, node: exp.Column) -> Term | None:
        """Return what a name means in the queries around; None if none has it."""
        found = (lookup(node) for lookup in reversed(self.around))
        return next((term for term in found if term is not None), None)

    def subquery(
        self,
        select: exp.Select,
        ctes: Mapping[str, exp.CTE | None],
        lookup: Callable[[exp.Column], Term | None],
    ) -> FollowedSelect:
        """Follow a subquery, in which names of the query around may stand."""
        return replace(self, around=(*self.around, lookup)).rows(select, ctes)

    def reads(self, node: exp.Expr, ctes: Mapping[str, exp.CTE | None]) -> bool:
        """Whether a query names a released relation, or a common table expression."""
        names = {fold(table.name) for table in find_nodes(node, exp.Table)}
        return bool(names & (self.released.keys() | ctes.keys()))


def _check_union_branch(select: exp.Select, ctes: Mapping[str, exp.CTE | None]) -> None:
    """Raise if hidden columns could make a union's branches unequal: a star would show those of a query."""
    items = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or [])]
    if all(isinstance(item, exp.Table) and fold(item.name) not in ctes for item in items):
        return
    if any(isinstance(each, exp.Star) for node in select.expressions for each in walk_tree(node)):
        raise UnknownColumnsError


def trace_rows(
    tree: exp.Expr,
    columns: Columns,
    released: Mapping[str, Mapping[int, int | str]],
    width: int,
    *,
    barred: bool = False,
) -> tuple[FollowedSelect, bool, bool] | None:
    """Follow a query, whose tree is changed; None if its columns are not known.

    Beside it stands whether something is aggregated of which groups that do not exist were left out, and
    whether each row may be made of all released rows.
    """
    drawn = any(str(function_name(node)).lower() in _DRAWN for node in find_nodes(tree, exp.Anonymous))
    if drawn:
        return None
    try:
        tracer = TermTracer(columns, itertools.count(), released, width, barred)
        rows = tracer.query(tree, {})
        return rows, any(tracer.whole), any(select is not rows.node for select in tracer.aggregating)
    except (UnknownColumnsError, *_NOT_FOLLOWED):
        return None


_NOT_FOLLOWED = (RecursionError, ValueError, TypeError, AttributeError, LookupError)
"""What following a query raises where its tree is another one than is expected."""
_DRAWN = frozenset({"random", "uuid", "gen_random_uuid", "nextval", "setseed"})
