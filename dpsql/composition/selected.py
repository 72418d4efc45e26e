"""Find the releases of which an outer query shows rows, or ends of intervals, because of their noise.

An interval covers the noise of one number with a probability. Where a query shows numbers because they are
large, the probability is another one: of many numbers, those with much noise are shown. The intervals of
such a release must hold for all its numbers at once; then they hold for whatever is shown of them.

What a query does is followed through its tree, and not recognised by its form. Of the rows of each relation
it is known by which releases' noise they are there (`present`) and in which order they come (`order`), of
each column by which its value depends on (`noise`), and of which release it shows ends of intervals that
noise chose (`chosen`). Conditions, join conditions, LIMIT, DISTINCT ON, set operations and whatever else
keeps or drops rows add the noise of what they read to `present`; an order that noise makes becomes that by a
LIMIT. Keys of declared domains and public tables have none. Every number has, and what is not understood has
that of all releases. So an interval is never narrower than it must be, and sometimes wider.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis import Plan
from dpsql.composition.selecting import DependenceReader, NotFollowedError
from dpsql.composition.statement_parts import Parts
from dpsql.composition.tracing import (
    CLEAN,
    NONE,
    Dependence,
    QueryContext,
    RelationRows,
    ReleaseNames,
    merge_dependences,
)
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.language import AllGroups, Scalar, find_nodes
from dpsql.lazy_dataclass import dataclass
from dpsql.places import make_distinct
from dpsql.policy import fold

_NOT_FOLLOWED = (RecursionError, ValueError, TypeError, AttributeError, LookupError)
"""What following a query raises where its tree is another one than is expected."""


@dataclass(frozen=True, slots=True)
class ReleasedRelation:
    """A released relation, as the outer query sees it."""

    name: str
    columns: tuple[tuple[str, str], ...]
    """The names and kinds of its columns (see `analysis.Output`)."""
    ordered: bool
    """Whether noise orders its rows."""
    reads: ReleaseNames = NONE
    """The released relations whose numbers it reads as constants."""


@dataclass(frozen=True, slots=True)
class SelectedByNoise:
    """What an outer query shows because noise decided it."""

    releases: ReleaseNames = NONE
    """The released relations of which noise decides what is shown of their intervals."""
    mixed: ReleaseNames = NONE
    """Those of which one column shows ends of intervals, of the one or the other, that noise chose."""


def selected_parts(parts: Parts, plans: Sequence[Plan], catalog: SchemaDatabase) -> tuple[Plan, ...]:
    """Return the plans of the releases of a statement, with what noise selects of their numbers.

    Where noise chooses among the numbers of several releases, what all may miss is divided among these.
    """
    if parts.outer is None:
        return tuple(plans)
    reads = _reads(parts)
    released = [
        ReleasedRelation(
            part.name,
            tuple(
                (name, output.kind)
                for name, output in zip(
                    make_distinct([output.name for output in plan.outputs], fold=True),
                    plan.outputs,
                    strict=True,
                )
            ),
            not isinstance(plan.selection, (AllGroups, Scalar)),
            reads[part.name],
        )
        for part, plan in zip(parts.releases, plans, strict=True)
    ]
    found = find_selected(parts.outer, released, catalog.public_columns)
    return tuple(
        replace(
            plan,
            selected=part.name in found.releases,
            apart=len(found.mixed) if part.name in found.mixed else 1,
        )
        for part, plan in zip(parts.releases, plans, strict=True)
    )


def _reads(parts: Parts) -> dict[str, ReleaseNames]:
    """Return for each released relation those whose numbers it reads as constants, through others too."""
    own = {fold(part.name): part.name for part in parts.releases}
    read = [
        frozenset(own[name] for t in find_nodes(tree, exp.Table) if (name := fold(t.name)) in own)
        for tree in (value.query for value in parts.values)
    ]
    found = {part.name: NONE.union(*(read[place] for place in part.values)) for part in parts.releases}
    for _ in found:
        found = {name: names.union(*(found[each] for each in names)) for name, names in found.items()}
    return found


def find_selected(
    outer: exp.Query, released: Sequence[ReleasedRelation], public: Callable[[str], tuple[str, ...] | None]
) -> SelectedByNoise:
    """Return the released relations of which noise decides what is shown of their intervals.

    `public` returns the columns of a public table by its name, None for others.
    """
    try:
        return _find_selected(outer, released, public)
    except (*_NOT_FOLLOWED, NotFollowedError):
        names = _named(outer, released)
        return SelectedByNoise(
            names, _find_mixed([merge_dependences(rows.values) for rows in map(_released, released)], names)
        )


def _find_selected(
    outer: exp.Query, released: Sequence[ReleasedRelation], public: Callable[[str], tuple[str, ...] | None]
) -> SelectedByNoise:
    names = _named(outer, released)
    rows = DependenceReader({fold(r.name): _released(r) for r in released}, public, names).query(
        outer, QueryContext()
    )
    found = (rows.present | merge_dependences(rows.values).chosen) & names
    mixed = (_find_mixed([value], names) for value in rows.values if rows.present or value.chosen)
    return SelectedByNoise(found, NONE.union(*mixed))


def _find_mixed(values: Sequence[Dependence], names: ReleaseNames) -> ReleaseNames:
    """Return the relations of which values hold ends of intervals, if there are several."""
    found = merge_dependences(values).ends & names
    return found if len(found) > 1 else NONE


def _named(outer: exp.Query, released: Sequence[ReleasedRelation]) -> ReleaseNames:
    """Return the released relations that a query names."""
    used = {fold(table.name) for table in find_nodes(outer, exp.Table)}
    return frozenset(each.name for each in released if fold(each.name) in used)


def _released(relation: ReleasedRelation) -> RelationRows:
    noise = relation.reads | {relation.name}
    number, end = Dependence(noise), Dependence(noise, frozenset({relation.name}))
    columns = tuple(
        (fold(name), CLEAN if kind == "key" else end if kind in ("low", "high") else number)
        for name, kind in relation.columns
    )
    # Its own selection is in the intervals that it is released with; constants that it reads are not.
    return RelationRows(columns, number, relation.reads, noise if relation.ordered else relation.reads)
