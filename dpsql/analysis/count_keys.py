"""Candidates of keys that are a number of a unit's rows: the whole numbers up to the policy's bound on them.

How many units have 1, 2, .. rows is a release of keys that nobody declares, but where the policy bounds the
rows of a unit, their number is one of few. With candidates the groups need no delta, and a smaller number of
units is enough to be shown: all candidates are measured, and the answer has those of which a number is above
0 for sure, with intervals that hold for all of them at once (`planning.shown_groups`). That reads noisy
numbers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from dpsql.analysis.compiled_relation import From
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.large_domains import count_values
from dpsql.analysis.public_domains import Candidates
from dpsql.analysis.released import name_unit
from dpsql.analysis.released.released_numbers import ReleasedAggregate
from dpsql.analysis.row_conditions import KnownRows
from dpsql.analysis.typed_expression import KeyDomain, Typed
from dpsql.errors import with_article
from dpsql.kernel.tree import Cast, Column, Item, Range, Select
from dpsql.language import AllGroups, Options, Selection
from dpsql.policy import Assumed
from dpsql.types import BIGINT

MOST_LISTED = 10_001
"""The most candidates of all keys together: so many are measured, although few are shown."""


def list_count_keys(
    compiler: StatementCompiler,
    made: From,
    keys: Sequence[Typed],
    domains: Sequence[Candidates],
    counts: Sequence[ReleasedAggregate],
    selection: Selection,
    known: KnownRows,
    options: Options,
) -> tuple[Candidates, ...]:
    """Return the candidates of all keys; those given if a key has none, or no count tells which exist."""
    declared = {place for each in domains for place in each.keys}
    rest = [place for place in range(len(keys)) if place not in declared]
    most = {place: found for place in rest if (found := _find_most(keys[place], known)) is not None}
    every = isinstance(selection, AllGroups) and selection.limit is None and options.mechanism is None
    if not rest or len(most) < len(rest) or not every or not list_tellers(counts):
        return tuple(domains)
    sizes = [count_values(compiler.catalog, each.domain) for each in domains]
    sizes += [found + 1 for found in most.values()]
    if prod(sizes) > MOST_LISTED:
        return tuple(domains)
    made_of = []
    for place, found in most.items():
        i, unit = Column("", "i"), name_unit(made)
        query = Select((Item(Cast(i, BIGINT), "v"), Item(i, "o")), Range(0, found + 1))
        origin = f"0 to {found:,} (rows_per_unit)"
        made_of.append(Candidates((place,), KeyDomain(query, True, origin, complete=True, clear=True)))
        left = f"rows of {with_article(unit)}, one with more is in no group"
        compiler.assume(Assumed(left, f"at most {found:,}", "policy"))
    return tuple(sorted((*domains, *made_of), key=lambda each: each.keys))


def _find_most(key: Typed, known: KnownRows) -> int | None:
    """Return the greatest value of a key that is a number of rows; None where it may be NULL, or is none."""
    node = key.node
    missing = isinstance(node, Column) and node.table in known.weak and node not in known.sure
    return None if missing else key.most


def list_tellers(counts: Sequence[ReleasedAggregate]) -> list[int]:
    """Return the places of the counts: above 0, they tell that a group has rows, as sums do not."""
    return [place for place, count in enumerate(counts) if _is_count(count)]


def _is_count(count: ReleasedAggregate) -> bool:
    return len(count.parts) == 1 and count.noise_group is None and count.unit_change[0] >= 0
