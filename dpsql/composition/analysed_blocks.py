"""Analyse the release blocks of one statement, each once, however often it is asked about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TypeVar

from sqlglot import exp

from dpsql.analysis import Catalog, Draft, Plan, build_plan, check_statement, complete_options
from dpsql.engines import running_statement
from dpsql.errors import QueryRefused
from dpsql.language import Clause, Clauses, Options, Query, walk_tree
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy

_Found = TypeVar("_Found", Draft, Plan)


@dataclass(slots=True)
class _Analysed:
    """What is known of one block with its options."""

    metas: list[object]
    clause: Clause
    inner: dict[int, Clauses]
    options: Options
    found: Draft | Plan | QueryRefused | None = None
    """Its draft once it has passed the checks, its plan once that is made, or why it is refused."""


@dataclass(slots=True)
class AnalysedBlocks:
    """Analyses release blocks of one statement with one policy, schema database and defaults.

    Blocks are equal if no node of their trees differs in anything that it holds, positions included, and if
    their clauses and options are equal: nothing else of a `Query` is read by the analysis.
    """

    policy: Policy
    catalog: Catalog
    defaults: Options
    _known: defaultdict[tuple[object, ...], list[_Analysed]] = field(
        default_factory=lambda: defaultdict(list), init=False
    )

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

    def is_declared(self, query: Query) -> bool:
        """Return whether a block releases the groups of declared keys; one that is refused does not."""
        try:
            _, found = self._check(query)
        except QueryRefused:
            return False  # it is refused where it is analysed
        return (found.size if isinstance(found, Draft) else found.domain_size) is not None

    def _check(self, query: Query) -> tuple[_Analysed, Draft | Plan]:
        with running_statement() as running:
            running.check()
        block = self._find(query)
        if isinstance(block.found, QueryRefused):
            raise block.found
        if block.found is None:
            check = partial(check_statement, query, self.policy, self.catalog, block.options)
            block.found = _keep_refusal(block, check)
        return block, block.found

    def _find(self, query: Query) -> _Analysed:
        options = complete_options(query.options, self.defaults)
        held, metas = _read_nodes(query.tree)
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


def _read_nodes(tree: exp.Query) -> tuple[tuple[object, ...], list[object]]:
    """Return what the nodes of a tree hold in their places, and beside it their comments and positions.

    It stays as it is when the tree changes. What the answer says of a block ("note") is not analysed.
    """
    held, metas = list[object](), list[object]()
    for node in walk_tree(tree):
        held.append(type(node))
        for key, value in node.args.items():
            if isinstance(value, list):
                held.append((key, *(None if isinstance(each, exp.Expr) else each for each in value)))
            elif value is not None and value is not False:
                held.append((key,) if isinstance(value, exp.Expr) else (key, value))
        meta = node._meta  # noqa: SLF001  the property makes a dictionary for every node
        own = meta and {key: value for key, value in meta.items() if key != "note"}
        metas.append((node.comments and tuple(node.comments), own or None))
    return tuple(held), metas
