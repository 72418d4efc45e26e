"""Decide which groups a block has: how many there are in the domain of its keys, and in which partitions.

A partition is a combination of values of some keys. All partitions come from the public domain of these
keys, and a selection runs in each of them, also in those without rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.groups_of_units import is_shown_by_units, may_search_groups
from dpsql.analysis.large_domains import MAX_SPARSE, count_values, is_selection_of_few
from dpsql.analysis.outer_query import OuterQuery
from dpsql.analysis.output_columns import read_ranked_partitions
from dpsql.analysis.public_domains import Candidates, is_public, read_range
from dpsql.analysis.released import bound_groups, name_unit
from dpsql.analysis.statement_plan import Partitions
from dpsql.analysis.stepped_values import has_steps
from dpsql.analysis.typed_expression import Typed
from dpsql.analysis.whole_tables import name_groups_measure
from dpsql.errors import Fix, InternalError, with_article
from dpsql.language import AboveThreshold, AllGroups, Options, Query, TopK, TopPerPartition, find_nodes
from dpsql.policy import fold
from dpsql.types import SqlType

if TYPE_CHECKING:
    import pyarrow as pa

NO_CANDIDATES = "no value in the public domain of the keys meets WHERE"
"""The refusal of a statement that can have no groups, as public values alone tell."""
MAX_DOMAIN = 10_000_000
"""The most groups that are counted all, also the empty ones."""
MOST_BYTES = 500_000_000
"""The largest answer that is begun, by a rough size: SQLite holds values of up to 10**9 bytes."""
MAX_LIST = 10_000_000
"""The most candidates of keys that are a list and no range of integers."""
_NAMELESS = "the key"
"""What a key is called that is no column and is not shown."""
GROUPS = 16
"""The bound on the groups of a unit that a refusal offers: a number that nobody said."""


def find_undeclared_keys(block: OuterQuery) -> list[int]:
    """Return the places of the keys without a public domain."""
    known = {key for candidates in block.domains for key in candidates.keys}
    return [i for i in range(len(block.keys)) if i not in known]


def check_domain(
    compiler: StatementCompiler, query: Query, block: OuterQuery, options: Options
) -> int | None:
    """Return the number of groups in the domain of the keys, or None if a key has no domain.

    A selection that needs a domain is refused without one. All groups of a key without one need a delta and a
    bound on the groups of a unit.
    """
    selection = block.selection
    if isinstance(selection, TopPerPartition):
        selection = selection.best
    unknown = find_undeclared_keys(block)
    _refuse_single_units(query, block, unknown)
    _refuse_strategy(query, block, options, unknown)
    if unknown and isinstance(selection, TopK) and not selection.lowest:
        count = block.counts[selection.count]
        if count.monotone or is_shown_by_units(compiler, query, block, selection, options):
            return None
    if unknown:
        key = _name_key(block, unknown[0])
        at, every = query.tree.args.get("group"), isinstance(selection, AllGroups)
        if every and options.delta is not None:
            most = bound_groups(compiler, block.source, selection, options, one_group=block.one_group)
            if most is not None or may_search_groups(compiler, query, block, options):
                return None
            unit, tree, found = name_unit(block.source), query.tree, None
            if isinstance(tree, exp.Select):
                found = name_groups_measure(compiler, tree, block.own_keys)
            once = "" if found is None else f', or the owner finds it once: dpsql bounds "{found}"'
            raise query.source.refuse(
                f"the values of {key} are not declared: say in how many groups {with_article(unit)} may "
                "count",
                at,
                f"OPTIONS (max_groups_contributed = {GROUPS}), or "
                f"{_offer_list(block, unknown[0], key)}{once}",
                Fix(str(GROUPS), option="max_groups_contributed", guess=str(GROUPS)),
            )
        _refuse_whole_time(query, block, unknown[0], key)
        what = {AboveThreshold: "a threshold", AllGroups: "releasing all groups"}.get(type(selection), "this")
        reads = block.keys[unknown[0]].reads
        read = _name_column(block, lambda column: column.reads == reads and len(reads) == 1)
        raise query.source.refuse(
            f"the values of {key} are not declared, and {what} needs a public domain",
            at,
            f"the owner declares {read or key} in {_name_domain(compiler, query, read or key)}, or "
            f"{_offer_list(block, unknown[0], key)}, "
            "or take the key from a public table"
            f"{', or OPTIONS (delta = 1e-6)' * every}",
            Fix("1e-6", option="delta", guess="1e-6") if every else None,
        )
    if not all(is_public(compiler.policy, candidates.domain.query) for candidates in block.domains):
        raise InternalError("this is a bug of dpsql, nothing was run or charged: candidates of private rows")
    few = is_selection_of_few(block.selection)
    size, limit = 1, MAX_SPARSE if few else MAX_DOMAIN
    for candidates in block.domains:
        own = count_values(compiler.catalog, candidates.domain)
        if own > MAX_LIST and read_range(candidates.domain.query) is None:
            raise query.source.refuse(
                f"a key has more than {MAX_LIST:,} values in its domain, which is a list",
                query.tree.args.get("group"),
            )
        size *= own
        if size > limit:
            raise query.source.refuse(
                f"the keys have more than {limit:,} groups in their domains together",
                query.tree.args.get("group"),
                None if few else f"ORDER BY n DESC LIMIT 10, which selects among up to {MAX_SPARSE:,}",
            )
    if block.keys and size == 0:
        raise query.source.refuse(NO_CANDIDATES, query.tree.args.get("group"))
    if isinstance(block.selection, AllGroups):
        width = 8 * (len(block.keys) + 4 * len(block.counts))  # a number has its ends and its noise beside it
        if size * width > MOST_BYTES:
            raise query.source.refuse(
                f"an answer of {size:,} groups is larger than the ledger holds",
                query.tree.args.get("group"),
                "leave a key out, or say in WHERE which values of the keys there are",
            )
    return size


def is_too_large(size: int | None) -> bool:
    """Return whether a domain of a given number of groups is too large to count the empty ones."""
    return size is not None and size > MAX_DOMAIN


def _offer_list(block: OuterQuery, place: int, key: str) -> str:
    """Return the words that offer a condition by which the values of a key are known."""
    typed = block.keys[place]
    counted = has_steps(typed.node)
    name = counted and _name_column(block, lambda c: c.reads == typed.reads and c.type.numeric)
    if name:
        return f"say between which numbers it counts steps: WHERE {name} BETWEEN 0 AND 99"
    return (
        "list them in WHERE" if key == _NAMELESS else f"list them: WHERE {key} {_write_example(typed.type)}"
    )


def _name_key(block: OuterQuery, place: int) -> str:
    """Return the name under which a key is shown, or else that of the column that it is."""
    shown = (o.name for o in block.outputs if o.kind == "key" and o.of == place)
    node = block.keys[place].node
    return next(shown, _name_column(block, lambda column: column.node == node) or _NAMELESS)


def _name_column(block: OuterQuery, wanted: Callable[[Typed], bool]) -> str | None:
    """Return the name of the first column of the FROM clause that is wanted, if one is."""
    columns = (pair for of in block.source.scope.origins for pair in zip(of.names, of.columns, strict=True))
    return next((name for name, column in columns if wanted(column)), None)


def _name_domain(compiler: StatementCompiler, query: Query, column: str) -> str:
    """Return the section of the policy that declares a column; for one of several tables, any of them."""
    read = {node.name for node in find_nodes(query.tree, exp.Table) if node.name.isascii()}
    tables = {table.name: table for name in read if (table := compiler.policy.table(name)) is not None}
    own = [name for name in tables if any(fold(c) == fold(column) for c, _ in compiler.catalog.columns(name))]
    return f"[tables.{own[0] if len(own) == 1 else 'NAME'}.domain]"


def _write_example(sql_type: SqlType) -> str:
    """Return an example of a condition that lists the values of a key."""
    if sql_type.integer:
        return "BETWEEN 0 AND 99"
    if sql_type.numeric:
        return "IN (0, 10)"
    return "BETWEEN '2024-01-01' AND '2024-12-31'" if sql_type.name == "DATE" else "IN ('a', 'b')"


def _refuse_single_units(query: Query, block: OuterQuery, unknown: list[int]) -> None:
    """Refuse undeclared keys with a value that is one unit's: no group of them is ever shown."""
    place = next((i for i in unknown if block.keys[i].link), None)
    if place is None:
        return
    key = _name_key(block, place)
    unit = name_unit(block.source)
    raise query.source.refuse(
        f"each value of {key} belongs to one {unit}, so no group has enough of them to be shown",
        query.tree.args.get("group"),
        f"leave {key} out of GROUP BY",
    )


def _refuse_strategy(query: Query, block: OuterQuery, options: Options, unknown: list[int]) -> None:
    """Refuse the option `group_selection_strategy` if it does not apply to the statement's keys."""
    strategy, at = options.group_selection_strategy, options.at.get("group_selection_strategy")
    if strategy == "PUBLIC_GROUPS" and unknown:
        key = _name_key(block, unknown[0])
        raise query.source.refuse(
            f"PUBLIC_GROUPS shows declared groups, and the values of {key} are not declared",
            at,
            f"join a list of them, as in RIGHT JOIN (VALUES ('a'), ('b')) AS t({key}) USING ({key})",
        )
    if strategy == "LAPLACE_THRESHOLD" and not unknown:
        raise query.source.refuse(
            "the values of all keys are declared, so all groups are shown: no threshold is needed",
            at,
            "leave group_selection_strategy out",
        )


def _refuse_whole_time(query: Query, block: OuterQuery, place: int, key: str) -> None:
    """Refuse a key over a column whose values in the declared range are too many for a list."""
    for origin in block.source.scope.origins:
        for name, column in zip(origin.names, origin.columns, strict=True):
            if column.span is not None and column.reads == block.keys[place].reads:
                days = not column.type.integer
                what = "days" if days else "integers"
                raise query.source.refuse(
                    f"{name} has a declared range of {what}, and {key} has too many values in it",
                    query.tree.args.get("group"),
                    f"GROUP BY date_trunc('day', {name})" if days else f"GROUP BY {name}",
                )


MAX_PARTITIONS = 10_000


def make_partitions(
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
    ranked = read_ranked_partitions(at.this)
    for i, place in enumerate(selection.keys):
        if place not in known:
            name = _name_key(block, place)
            raise query.source.refuse(
                f"the values of {name} are not declared, so it is not public which partitions there are",
                ranked.keys[i] if ranked is not None else at,
                f"the owner declares {name} in {_name_domain(compiler, query, name)}, or list them: "
                f"WHERE {name} IN ('a', 'b')",
            )
    number = size = 1
    for candidates in block.domains:
        parts, largest = _count_partitions(compiler, candidates, selection.keys)
        number, size = number * parts, size * largest
    if number == 0:
        raise query.source.refuse(NO_CANDIDATES, at)
    if number > MAX_PARTITIONS:
        raise query.source.refuse(f"there are more than {MAX_PARTITIONS:,} partitions", at)
    fact = all(block.facts[place] for place in selection.keys)
    most = 1 if fact else min(options.max_groups_contributed or number, number)
    if len(known) == len(block.keys):
        return Partitions(number, size, fact, most)
    return Partitions(number, None, fact, most, _list_partitions(compiler, block.domains, selection.keys))


def _count_partitions(
    compiler: StatementCompiler, candidates: Candidates, keys: tuple[int, ...]
) -> tuple[int, int]:
    """Return how many partitions some keys' candidates have, and how many candidates the largest one has."""
    sql, columns = candidates.domain.sql, candidates.listed.columns("d")
    by = [f"d.{columns[key].name}" for key in candidates.keys if key in keys]
    if not by:
        return 1, compiler.catalog.count(sql)
    counted = f"SELECT COUNT(*) AS n FROM ({sql}) AS d GROUP BY {', '.join(by)}"
    largest = compiler.catalog.evaluate(f"(SELECT COALESCE(MAX(n), 0) FROM ({counted}) AS c)")
    return compiler.catalog.count(counted), int(str(largest))


def _list_partitions(
    compiler: StatementCompiler, domains: Sequence[Candidates], keys: tuple[int, ...]
) -> pa.Table:
    """Return the values of the keys in all partitions: a column for each key, in their order."""
    own = [each for each in domains if {*each.keys} & {*keys}]
    columns = {k: v.name for i, each in enumerate(own) for k, v in each.listed.columns(f"d{i}").items()}
    tables = {k: f"d{i}" for i, each in enumerate(own) for k in each.keys}
    items = ", ".join(f"{tables[key]}.{columns[key]} AS k{i}" for i, key in enumerate(keys))
    sources = " CROSS JOIN ".join(f"({each.domain.sql}) AS d{i}" for i, each in enumerate(own))
    return compiler.catalog.run(f"SELECT DISTINCT {items} FROM {sources}")
