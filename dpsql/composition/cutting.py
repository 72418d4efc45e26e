"""Cut release blocks out of a statement's tree: the block as a statement, and the tree without it."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dpsql.composition.kinds import Kind, Kinds
from dpsql.language import all_of, copied
from dpsql.policy import fold

_RELEASED = (Kind.RELEASE, Kind.POST)


def everything(name: str, at: int) -> exp.Select:
    """Return the SELECT of all columns of a released relation, whose block stands at a position."""
    table = exp.Table(this=exp.to_identifier(name, quoted=True))
    table.meta["start"] = at
    return exp.select("*").from_(table)


def put(made: exp.Select, select: exp.Select, tree: exp.Query) -> exp.Query:
    """Put the SELECT over its released rows in the place of a release block; return the tree."""
    clause = select.args.get("with_")
    if clause is not None:
        made.set("with_", copied(clause))
    if select is tree:
        return made
    select.replace(made)
    return tree


def standalone(select: exp.Select, kinds: Kinds, changed: exp.Select | None = None) -> exp.Select:
    """Return a release block with the common table expressions that it needs, as a statement of its own.

    `changed` is the block with other clauses, if it gets them.
    """
    needed = sorted(_needed(select, kinds, set()))
    made = copied(select, "with_") if changed is None else changed
    made.set("with_", None)
    names: dict[str, exp.Expr] = {fold(c.alias): c for c in all_of(made, exp.CTE)}
    listed = []
    for place in needed:
        cte = kinds.ctes[place].query.parent
        assert cte is not None  # noqa: S101  the query of a common table expression stands in it
        for name in (fold(cte.alias), *(fold(c.alias) for c in all_of(cte.this, exp.CTE))):
            if name in names:
                raise kinds.query.source.refuse(
                    f"two common table expressions are called {cte.alias}",
                    cte,
                    "give one of them another name",
                )
            names[name] = cte
        listed.append(copied(cte))
    if listed:
        made.set("with_", exp.With(expressions=listed))
    return made


def released_alone(select: exp.Select, tree: exp.Query, kinds: Kinds) -> exp.Select:
    """Return a SELECT over released rows with the common table expressions of the tree that it needs."""
    made = copied(select)
    there = {cte.meta["cte"]: cte for cte in all_of(tree, exp.CTE) if "cte" in cte.meta}
    own = {id(cte) for cte in all_of(select, exp.CTE)}
    needed, waiting = dict[int, exp.CTE](), all_of(select, exp.Table)
    while waiting:
        place = waiting.pop().meta.get("cte")
        cte = None if place is None else there.get(place)
        if place is None or cte is None or id(cte) in own or place in needed:
            continue
        needed[place] = cte
        waiting += all_of(cte, exp.Table)
    if needed:
        listed = [copied(needed[place]) for place in sorted(needed)]
        with_ = made.args.get("with_")
        listed += [] if with_ is None else with_.expressions
        made.set("with_", exp.With(expressions=listed))
    return made


def _needed(node: exp.Expr, kinds: Kinds, seen: set[int], *, whole: bool = False) -> Iterator[int]:
    """Yield the places of the private and public common table expressions that a query names, each once.

    Without `whole` the query is taken without its own WITH, so that those defined there are needed as well.
    """
    for table in all_of(node, exp.Table):
        place = table.meta.get("cte")
        if place is None or place in seen or kinds.of_cte[place] in _RELEASED:
            continue
        cte = kinds.ctes[place].query
        if not _within(cte, node, whole=whole):
            seen.add(place)
            yield place
            yield from _needed(cte, kinds, seen, whole=True)


def _within(cte: exp.Expr, node: exp.Expr, *, whole: bool) -> bool:
    """Return whether a common table expression is defined inside a query; in its own WITH only if `whole`."""
    with_ = cte.parent.parent if cte.parent is not None else None
    owner = with_.parent if with_ is not None else None
    if owner is node:
        return whole
    while owner is not None and owner is not node:
        owner = owner.parent
    return owner is node


def without_private(tree: exp.Query, kinds: Kinds) -> exp.Query:
    """Remove the common table expressions that are private, or that nothing in the tree names."""
    changed = True
    while changed:
        changed = False
        named = {t.meta.get("cte") for t in all_of(tree, exp.Table) if t.name}
        for clause in all_of(tree, exp.With):
            kept = [c for c in clause.expressions if _kept(c, named, kinds)]
            if len(kept) == len(clause.expressions):
                continue
            changed = True
            if kept:
                clause.set("expressions", kept)
            else:
                clause.pop()
    return tree


def _kept(cte: exp.Expr, named: set[object], kinds: Kinds) -> bool:
    place = cte.meta.get("cte")
    return place in named and place is not None and kinds.of_cte[place] is not Kind.OWNED
