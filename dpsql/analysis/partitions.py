"""The partitions of a compiled block whose selection is the largest groups of each of them.

A partition is a combination of values of some keys. All partitions come from the public domain of these
keys, and a selection runs in each of them, also in those without rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.domains import Candidates
from dpsql.analysis.outer_query import OuterQuery
from dpsql.analysis.plan import Partitions
from dpsql.analysis.ranked import ranked_partitions
from dpsql.language import Options, Query, TopPerPartition

if TYPE_CHECKING:
    import pyarrow as pa

MAX_PARTITIONS = 10_000


def partitions_of(
    compiler: StatementCompiler, query: Query, block: OuterQuery, options: Options
) -> Partitions | None:
    """Return the partitions of a compiled block; None for another selection.

    Partitions whose keys have no public domain are refused: which of them exist would be private.
    """
    selection = block.selection
    if not isinstance(selection, TopPerPartition):
        return None
    known = {key for candidates in block.domains for key in candidates.keys}
    at = query.tree.args["qualify"]
    ranked = ranked_partitions(at.this)
    for i, place in enumerate(selection.keys):
        if place not in known:
            name = next((o.name for o in block.outputs if o.kind == "key" and o.of == place), "the key")
            raise query.source.refuse(
                f"the values of {name} are not declared, so it is not public which partitions there are",
                ranked.keys[i] if ranked is not None else at,
                f"the owner declares {name} in [tables.NAME.domain], or list them: "
                f"WHERE {name} IN ('a', 'b')",
            )
    number = size = 1
    for candidates in block.domains:
        parts, largest = _parts(compiler, candidates, selection.keys)
        number, size = number * parts, size * largest
    if number == 0:
        raise query.source.refuse("no value in the public domain of the keys meets WHERE", at)
    if number > MAX_PARTITIONS:
        raise query.source.refuse(f"there are more than {MAX_PARTITIONS:,} partitions", at)
    fact = all(block.facts[place] for place in selection.keys)
    most = 1 if fact else min(options.max_groups_contributed or number, number)
    if len(known) == len(block.keys):
        return Partitions(number, size, fact, most)
    return Partitions(number, None, fact, most, _listed(compiler, block.domains, selection.keys))


def _parts(compiler: StatementCompiler, candidates: Candidates, keys: tuple[int, ...]) -> tuple[int, int]:
    """Return how many partitions some keys' candidates have, and how many candidates the largest one has."""
    sql, columns = candidates.domain.sql, candidates.listed.columns("d")
    by = [f"d.{columns[key].name}" for key in candidates.keys if key in keys]
    if not by:
        return 1, compiler.catalog.count(sql)
    counted = f"SELECT COUNT(*) AS n FROM ({sql}) AS d GROUP BY {', '.join(by)}"
    largest = compiler.catalog.evaluate(f"(SELECT COALESCE(MAX(n), 0) FROM ({counted}) AS c)")
    return compiler.catalog.count(counted), int(str(largest))


def _listed(compiler: StatementCompiler, domains: Sequence[Candidates], keys: tuple[int, ...]) -> pa.Table:
    """Return the values of the keys in all partitions: a column for each key, in their order."""
    own = [each for each in domains if {*each.keys} & {*keys}]
    columns = {k: v.name for i, each in enumerate(own) for k, v in each.listed.columns(f"d{i}").items()}
    tables = {k: f"d{i}" for i, each in enumerate(own) for k in each.keys}
    items = ", ".join(f"{tables[key]}.{columns[key]} AS k{i}" for i, key in enumerate(keys))
    sources = " CROSS JOIN ".join(f"({each.domain.sql}) AS d{i}" for i, each in enumerate(own))
    return compiler.catalog.run(f"SELECT DISTINCT {items} FROM {sources}")
