"""The private clauses of a statement's blocks, and the division of epsilon and delta among its releases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis import wished_way
from dpsql.composition.kinds import Kind, Kinds
from dpsql.epsilon_division import lay_out
from dpsql.errors import Fix, QueryRefused
from dpsql.kernel.loss import Filter
from dpsql.language import Clause, Clauses, Options, Outline, Query, all_of
from dpsql.lazy_dataclass import dataclass

_SHARED = ("epsilon", "delta")
_NAMES = tuple(n for n in Options.__dataclass_fields__ if n != "at")


@dataclass(frozen=True, slots=True)
class Written:
    """The private clauses of a statement: those of its releases, and the options of all of them together."""

    query: Query
    own: dict[int, Clauses] = field(default_factory=dict)
    """The clauses of a release, by the `id` of its SELECT."""
    total: Options = field(default_factory=Options)

    @classmethod
    def of(cls, query: Query, kinds: Kinds) -> Written:
        """Return the clauses of a statement; refuse those that stand in a block which is no release."""
        root = query.tree if isinstance(query.tree, exp.Select) else None
        inner, own = dict(query.inner), dict[int, Clauses]()
        if root is not None:
            inner[root.meta["select"]] = Clauses(
                query.options, query.clause, query.has_options, min(query.options.at.values(), default=0)
            )
        total: Clauses | None = None
        for select in all_of(query.tree, exp.Select):
            clauses = inner.pop(select.meta["select"], None)
            kind = kinds.of_select.get(id(select))
            if clauses is None or kind is None or clauses == Clauses():
                continue
            if kind is Kind.RELEASE:
                own[id(select)] = clauses
                continue
            if clauses.clause.spelling:
                raise query.source.refuse(
                    f"{clauses.clause.spelling} selects groups: it belongs into the SELECT that counts",
                    clauses.clause.at,
                    "ORDER BY n DESC LIMIT 10" if kind is Kind.POST else None,
                )
            if kind is not Kind.POST or not _all_inside(select, kinds):
                raise _misplaced(query, clauses)
            if total is not None and clauses.has_options:
                raise query.source.refuse("the options of the statement are given twice", clauses.at)
            total = clauses if clauses.has_options else total
        if inner:
            raise query.source.refuse("this clause stands in no SELECT that is read", min(inner))
        return cls(query, own, total.options if total is not None else Options()).shared(kinds)

    def shared(self, kinds: Kinds) -> Written:
        """Return the clauses with those of a release that uses others as scalars read as the statement's.

        What it says then holds for all of them together, unless each of them has an epsilon of its own.
        """
        root = self.query.tree
        others = [r.select for r in kinds.releases if r.select is not root]
        mine = self.own.get(id(root))
        if mine is None or not others:
            return self
        if all(id(o) in self.own and self.own[id(o)].options.epsilon is not None for o in others):
            return self
        left = Clauses(Options(), mine.clause)
        return replace(self, own={**self.own, id(root): left}, total=mine.options)

    def options(self, select: exp.Select) -> Options:
        """Return the options of a release, its own before those of the statement, without their shares."""
        own = self.own.get(id(select), Clauses()).options
        for name in _SHARED:
            if getattr(own, name) is not None and getattr(self.total, name) is not None:
                raise self.query.source.refuse(
                    f"{name} is said twice: for the statement, and for a release in it",
                    own.at.get(name),
                    f"leave {name} out here, or in the outermost SELECT",
                )
        if own.error is not None and self.total.epsilon is not None:
            raise self.query.source.refuse(
                "the statement has an epsilon, and this release an error that epsilon would follow from",
                own.at.get("error"),
                "leave error out here, or epsilon in the outermost SELECT",
            )
        skipped = {*_SHARED, *(("error",) if own.epsilon is not None else ())}
        values = {n: getattr(self.total, n) for n in _NAMES if n not in skipped and getattr(own, n) is None}
        return replace(own, **values, at={**self.total.at, **own.at})

    def clause(self, select: exp.Select) -> Clause:
        """Return the selection clauses of a release."""
        return self.own.get(id(select), Clauses()).clause


def divided(
    total: Options, defaults: Options, releases: Sequence[Options], filters: tuple[Filter, ...] = ()
) -> list[Options]:
    """Give each release that has no epsilon or delta of its own an equal part of the statement's.

    The parts are exact: they add up to the statement's epsilon. A default error comes before a default
    epsilon. Where the statement's cost is divided, with these filters of the scopes that are charged, the
    releases have equal parts of that; then equal parts of epsilon are their prices.
    """
    out = list(releases)
    if defaults.error is not None:
        defaults = replace(defaults, epsilon=None)
    for name in _SHARED:
        whole: Fraction | None = getattr(total, name)
        if whole is None:
            whole = getattr(defaults, name)
        sharing = [i for i, o in enumerate(out) if getattr(o, name) is None]
        if name == "epsilon":
            sharing = [i for i in sharing if out[i].error is None]
        for i in sharing if whole is not None else ():
            out[i] = replace(out[i], **{name: whole / len(sharing)})  # type: ignore[arg-type]  # a Fraction
        if name == "epsilon" and whole is not None and filters and len(sharing) > 1:
            _divide_cost(out, sharing, whole, filters)
    return out


def _divide_cost(
    out: list[Options], sharing: Sequence[int], whole: Fraction, filters: tuple[Filter, ...]
) -> None:
    """Give releases equal parts of the cost of an epsilon, if that is what the statement's layout divides."""
    ways = {wished_way(out[i]) for i in sharing}
    if "basic" in ways or any(each.order_way is None for each in filters):
        return
    layout = lay_out(whole, *filters, way="order" if "order" in ways else None)
    if layout.order is None:
        return
    part = layout.part(Fraction(1, len(sharing)))
    for i in sharing:
        out[i] = replace(out[i], epsilon=part, layout="ORDER", price=whole / len(sharing))


def _all_inside(select: exp.Select, kinds: Kinds) -> bool:
    """Return whether all releases of the statement stand inside a block, or it is the outermost one."""
    return select.parent is None or all(_inside(r.select, select) for r in kinds.releases)


def _inside(node: exp.Expr | None, around: exp.Expr) -> bool:
    while node is not None and node is not around:
        node = node.parent
    return node is around


def _misplaced(query: Query, clauses: Clauses) -> QueryRefused:
    """Return the refusal of options where nothing is released, which moves them to the outermost SELECT."""
    at, text = clauses.at, query.source.text
    written = Outline.of(text).options(at)
    behind = at + len(written)
    first = query.tree.meta.get("select", -1) + len("SELECT")
    if query.has_options and at == min(query.options.at.values(), default=-1):  # it stands there
        return query.source.refuse("no private table reaches the outermost SELECT, which has this clause", at)
    moved = () if query.has_options else (Fix(f" {written}", first, first),)
    return query.source.refuse(
        "WITH DIFFERENTIAL_PRIVACY belongs right after the outermost SELECT, or after one that counts: "
        "this one releases nothing",
        at,
        "write it right after the outermost SELECT",
        Fix("", at, behind + (text[behind : behind + 1] == " "), also=moved) if written else None,
    )
