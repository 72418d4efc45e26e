"""Analyse the release blocks of one statement, each once, however often it is asked about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TypeVar

from sqlglot import exp

from dpsql.analysis import Catalog, Draft, Plan, build_plan, check_statement, complete_options
from dpsql.analysis.statement_shapes import Provenance
from dpsql.engines import running_statement
from dpsql.errors import QueryRefused
from dpsql.language import Clause, Clauses, Options, Query, StatementText, read_nodes
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy

_Found = TypeVar("_Found", Draft, Plan)


@dataclass(slots=True)
class _Analysed:
    """What is known of one block with its options."""

    metas: list[tuple[object, dict[str, object] | None]]
    clause: Clause
    inner: dict[int, Clauses]
    options: Options
    found: Draft | Plan | QueryRefused | None = None
    """Its draft once it has passed the checks, its plan once that is made, or why it is refused."""
    quotients: Sequence[tuple[exp.Expr, bool, bool]] = ()
    """The averages that are closer in another form, as in `StatementCompiler`."""
    searched_sums: Sequence[exp.Expr] = ()
    """The sums whose bounds are found by search, as in `StatementCompiler`."""


@dataclass(slots=True)
class AnalysedBlocks:
    """Analyses release blocks of one statement with one policy, schema database and defaults.

    Blocks are equal if no node of their trees differs in anything that it holds, positions included, and if
    their clauses and options are equal: nothing else of a `Query` is read by the analysis.
    """

    policy: Policy
    catalog: Catalog
    defaults: Options
    total: Options = field(default_factory=Options, init=False)
    """The options of the whole statement, of which blocks that are not divided yet have no part."""
    _known: defaultdict[tuple[object, ...], list[_Analysed]] = field(
        default_factory=lambda: defaultdict(list), init=False
    )
    _provenance: Provenance | None = field(default=None, init=False)

    def find_provenance(self, source: StatementText) -> Provenance:
        """Return what compiles parts of the statement, with what it has compiled so far."""
        if self._provenance is None or self._provenance.source is not source:
            self._provenance = Provenance(source, self.policy, self.catalog)
        return self._provenance

    def plan(self, query: Query) -> Plan:
        """Return the plan of a block; raise the refusal of one that is refused."""
        block, found = self._check(query)
        if isinstance(found, Draft):
            block.found = None  # a draft becomes one plan
            block.found = found = _keep_refusal(block, partial(build_plan, found))
        return found if found.query is query else replace(found, query=query)

    def check(self, query: Query) -> None:
        """Raise the refusal of a block that the checks of the analysis refuse."""
        self._check(query)

    def find_first(self, queries: Sequence[Query]) -> list[int]:
        """Return for each block the place of the first equal one."""
        found = [self._find(query) for query in queries]
        return [next(i for i, each in enumerate(found) if each is block) for block in found]

    def find_quotients(self, query: Query) -> Sequence[tuple[exp.Expr, bool, bool]]:
        """Return `StatementCompiler.quotients` of a block; none of one that is refused."""
        try:
            return self._check(query)[0].quotients
        except QueryRefused:
            return ()  # it is refused where it is analysed

    def find_searched_sums(self, query: Query) -> Sequence[exp.Expr]:
        """Return `StatementCompiler.searched_sums` of a block; none of one that is refused."""
        try:
            return self._check(query)[0].searched_sums
        except QueryRefused:
            return ()  # it is refused where it is analysed

    def is_declared(self, query: Query) -> bool:
        """Return whether a block releases the groups of declared keys; one that is refused does not."""
        try:
            _, found = self._check(query)
        except QueryRefused:
            return False  # it is refused where it is analysed
        return (found.size if isinstance(found, Draft) else found.domain_size) is not None

    def is_found_by_units(self, query: Query) -> bool:
        """Return whether units decide which groups a block releases; one that is refused releases none."""
        own, total = query.options, self.total
        known = replace(own, epsilon=own.epsilon or total.epsilon, delta=own.delta or total.delta)
        try:
            _, found = self._check(replace(query, options=known))
        except QueryRefused:
            return False  # it is refused where it is analysed
        return (found.block if isinstance(found, Draft) else found).existence is not None

    def _check(self, query: Query) -> tuple[_Analysed, Draft | Plan]:
        with running_statement() as running:
            running.check()
        block = self._find(query)
        if isinstance(block.found, QueryRefused):
            raise block.found
        if block.found is None:
            known = self.find_provenance(query.source).subqueries
            check = partial(check_statement, query, self.policy, self.catalog, block.options, (), known)
            block.found = found = _keep_refusal(block, check)
            block.quotients = tuple(found.compiler.quotients)
            block.searched_sums = tuple(found.compiler.searched_sums)
        return block, block.found

    def _find(self, query: Query) -> _Analysed:
        options = complete_options(query.options, self.defaults)
        held, metas = read_nodes(query.tree)
        for block in self._known[held]:
            same = block.metas == metas and block.clause == query.clause
            if same and block.options == options and block.inner == query.inner:
                return block
        made = _Analysed(metas, query.clause, dict(query.inner), options)
        self._known[held].append(made)
        return made


def _keep_refusal(block: _Analysed, analyse: Callable[[], _Found]) -> _Found:
    try:
        return analyse()
    except QueryRefused as refused:
        block.found = refused
        raise
