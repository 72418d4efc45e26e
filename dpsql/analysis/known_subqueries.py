"""Compile equal subqueries of one statement once: for several places, blocks and copies of its tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from sqlglot import exp

from dpsql.analysis.compiled_relation import Cte, Relation, find_cte
from dpsql.analysis.compiler import QueryCompiler, StatementCompiler
from dpsql.language import find_nodes, read_nodes

if TYPE_CHECKING:
    from dpsql.analysis.typed_expression import Typed
    from dpsql.policy import Assumed


class _Compiled(NamedTuple):
    """A relation, where its nodes stand in the text, and what its compilation added to the compiler."""

    positions: object
    relation: Relation
    levels: int
    """How many levels of subqueries are in it."""
    tables: int
    nodes: int
    columns: dict[str, Typed]
    used: set[str]
    intervals: dict[str, str]
    assumed: dict[Assumed, None]


class KnownSubqueries:
    """The relations of subqueries of one statement, with one policy, public data and time.

    What a subquery compiles to is a function of its nodes, of the common table expressions that it names,
    of the number of table names and the intervals before it, and of the time: nothing else of a compiler is
    read within FROM. A refusal is not kept.
    """

    def __init__(self, compile_query: QueryCompiler) -> None:
        self.compile_query = compile_query
        self.now = datetime.now(UTC).replace(tzinfo=None)
        """The present time for all of the statement."""
        self._known = defaultdict[object, list[_Compiled]](list)

    def __call__(
        self, compiler: StatementCompiler, node: exp.Expr, ctes: tuple[Cte, ...], depth: int
    ) -> Relation:
        """Compile a subquery, or take the relation of an equal one; the compiler changes alike."""
        held, positions = read_with_ctes([node], ctes)
        known = self._known[held, compiler.tables, tuple(compiler.intervals), compiler.now]
        for one in known:
            if one.positions == positions and compiler.has_room(one.nodes, depth + one.levels):
                compiler.tables += one.tables
                compiler.nodes += one.nodes
                compiler.columns.update(one.columns)
                compiler.used |= one.used
                compiler.intervals.update(one.intervals)
                compiler.assumed.update(one.assumed)
                return one.relation
        before = compiler.tables, compiler.nodes, len(compiler.columns), compiler.deepest
        used, assumed, others = compiler.used, compiler.assumed, _count_others(compiler)
        compiler.used, compiler.assumed, compiler.deepest = set(), {}, depth
        try:
            relation = self.compile_query(compiler, node, ctes, depth)
            if _count_others(compiler) == others:
                made = _Compiled(
                    positions,
                    relation,
                    compiler.deepest - depth,
                    compiler.tables - before[0],
                    compiler.nodes - before[1],
                    dict([*compiler.columns.items()][before[2] :]),
                    compiler.used,
                    dict(compiler.intervals),
                    compiler.assumed,
                )
                known.append(made)
        finally:
            compiler.used = used | compiler.used
            compiler.assumed = assumed | compiler.assumed
            compiler.deepest = max(before[3], compiler.deepest)
        return relation


def _count_others(compiler: StatementCompiler) -> tuple[int, int]:
    """Return the sizes of what only the outermost block adds to."""
    return len(compiler.ladders), len(compiler.rows_per_unit)


def read_with_ctes(
    nodes: Sequence[exp.Expr], ctes: tuple[Cte, ...]
) -> tuple[tuple[object, ...], list[list[tuple[object, dict[str, object] | None]]]]:
    """Return what nodes hold, with the common table expressions that they name; beside it their positions."""
    held, places = list[object](), dict[int, int]()
    positions = list[list[tuple[object, dict[str, object] | None]]]()
    waiting = [(node, ctes) for node in nodes]
    for node, visible in waiting:
        own, at = read_nodes(node)
        held.append(own)
        positions.append(at)
        for table in find_nodes(node, exp.Table) if visible else ():
            cte = find_cte(table.name, visible) if table.args.get("db") is None else None
            if cte is not None:
                known = places.get(id(cte))
                if known is None:
                    known = places[id(cte)] = len(places)
                    waiting.append((cte.query, cte.visible))
                held.append((known, cte.name, cte.columns))
    return tuple(held), positions
