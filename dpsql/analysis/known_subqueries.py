"""Compile equal subqueries of one statement once: for several places, blocks and copies of its tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from sqlglot import exp

from dpsql.analysis.compiled_relation import Cte, Relation, find_cte
from dpsql.analysis.compiler import QueryCompiler, Rule, StatementCompiler, read_clock
from dpsql.analysis.scalar_rules import RULES
from dpsql.kernel.check import Proofs
from dpsql.language import find_nodes, read_nodes

if TYPE_CHECKING:
    from dpsql.analysis.typed_expression import Typed
    from dpsql.policy import Assumed


EARLY_RULES = {rule.node: rule for rule in RULES}


def find_rule(node: type[exp.Expr]) -> Rule | None:
    """Return the rule that compiles a type of nodes; those of calls are imported when one is asked for.

    None: such nodes are refused.
    """
    if node in EARLY_RULES:
        return EARLY_RULES[node]
    from dpsql.analysis.call_rules import RULES_BY_NODE  # noqa: PLC0415  many statements only name columns

    return RULES_BY_NODE.get(node)


class _Compiled(NamedTuple):
    """A relation, and what its compilation added to the compiler."""

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
        self.now = read_clock()
        """The present time for all of the statement."""
        self.proofs = Proofs()
        """What the kernel has proved of the statement's queries."""
        self._known: dict[object, _Compiled] = {}
        self._numbers = defaultdict[object, list[tuple[object, int]]](list)
        """The numbers of trees, by what their nodes hold; trees of other positions have other numbers."""
        self._read: dict[int, tuple[exp.Expr, int, list[exp.Table]]] = {}
        """The trees that `read_trees_once` keeps, by their identity, with their numbers and tables."""
        self._blocks = 0

    def __call__(
        self, compiler: StatementCompiler, node: exp.Expr, ctes: tuple[Cte, ...], depth: int
    ) -> Relation:
        """Compile a subquery, or take the relation of an equal one; the compiler changes alike."""
        with self.read_trees_once():
            named = self.identify([node], ctes)
            key = named, compiler.tables, tuple(compiler.intervals), compiler.now
            known = self._known.get(key)
            if known is not None and compiler.has_room(known.nodes, depth + known.levels):
                compiler.tables += known.tables
                compiler.nodes += known.nodes
                compiler.columns.update(known.columns)
                compiler.used |= known.used
                compiler.intervals.update(known.intervals)
                compiler.assumed.update(known.assumed)
                return known.relation
            others = _count_others(compiler)
            made = self._compile(compiler, node, ctes, depth)
            if _count_others(compiler) == others:
                self._known[key] = made
            return made.relation

    def _compile(
        self, compiler: StatementCompiler, node: exp.Expr, ctes: tuple[Cte, ...], depth: int
    ) -> _Compiled:
        tables, nodes, columns = compiler.tables, compiler.nodes, len(compiler.columns)
        deepest, used, assumed = compiler.deepest, compiler.used, compiler.assumed
        compiler.used, compiler.assumed, compiler.deepest = set(), {}, depth
        try:
            relation = self.compile_query(compiler, node, ctes, depth)
            return _Compiled(
                relation,
                compiler.deepest - depth,
                compiler.tables - tables,
                compiler.nodes - nodes,
                dict([*compiler.columns.items()][columns:]),
                compiler.used,
                dict(compiler.intervals),
                compiler.assumed,
            )
        finally:
            compiler.used = used | compiler.used
            compiler.assumed = assumed | compiler.assumed
            compiler.deepest = max(deepest, compiler.deepest)

    @contextmanager
    def read_trees_once(self) -> Iterator[None]:
        """Read each tree once in this block, in which none is changed."""
        self._blocks += 1
        try:
            yield
        finally:
            self._blocks -= 1
            if not self._blocks:
                self._read.clear()

    def identify(self, trees: Sequence[exp.Expr], ctes: tuple[Cte, ...]) -> tuple[object, ...]:
        """Return what is equal for equal trees at one place that name equal common table expressions."""
        found, places = list[object](), dict[int, int]()
        waiting = [(tree, ctes) for tree in trees]
        for tree, visible in waiting:
            _, number, tables = self._number(tree)
            found.append(number)
            for table in tables if visible else ():
                cte = find_cte(table.name, visible)
                if cte is None:
                    continue
                place = places.setdefault(id(cte), len(places))
                if place == len(waiting) - len(trees):
                    waiting.append((cte.query, cte.visible))
                found.append((place, cte.name, cte.columns))
        return tuple(found)

    def _number(self, tree: exp.Expr) -> tuple[exp.Expr, int, list[exp.Table]]:
        """Return a tree with its number, and the tables that it names without a database."""
        known = self._read.get(id(tree))
        if known is not None:
            return known
        held, positions = read_nodes(tree)
        alike = self._numbers[held]
        number = next((number for at, number in alike if at == positions), None)
        if number is None:
            number = sum(map(len, self._numbers.values()))
            alike.append((positions, number))
        tables = [each for each in find_nodes(tree, exp.Table) if each.args.get("db") is None]
        made = tree, number, tables
        if self._blocks:
            self._read[id(tree)] = made
        return made


def _count_others(compiler: StatementCompiler) -> tuple[int, int]:
    """Return the sizes of what only the outermost block adds to."""
    return len(compiler.ladders), len(compiler.rows_per_unit)
