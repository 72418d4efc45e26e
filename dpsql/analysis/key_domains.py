"""The size of the keys' public domain, and the refusal of keys without one."""

from __future__ import annotations

from sqlglot import exp

from dpsql.analysis.bounds import groups_of_unit, unit_name
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.domains import integers
from dpsql.analysis.joined import is_public
from dpsql.analysis.outer_query import OuterQuery
from dpsql.analysis.sparse import MAX_SPARSE, selects_few, size_of
from dpsql.analysis.whole_tables import groups_measured
from dpsql.errors import Fix, InternalError
from dpsql.language import AboveThreshold, AllGroups, Options, Query, TopK, TopPerPartition
from dpsql.types import SqlType

MAX_DOMAIN = 10_000_000
"""The most groups that are counted all, also the empty ones."""
MAX_LIST = 10_000_000
"""The most candidates of keys that are a list and no range of integers."""
GROUPS = 16
"""The bound on the groups of a unit that a refusal offers: a number that nobody said."""


def undeclared(block: OuterQuery) -> list[int]:
    """Return the places of the keys without a public domain."""
    known = {key for candidates in block.domains for key in candidates.keys}
    return [i for i in range(len(block.keys)) if i not in known]


def domain_size(compiler: StatementCompiler, query: Query, block: OuterQuery, options: Options) -> int | None:
    """Return the number of groups in the domain of the keys, or None if a key has no domain.

    A selection that needs a domain is refused without one. All groups of a key without one need a delta and a
    bound on the groups of a unit.
    """
    selection = block.selection
    if isinstance(selection, TopPerPartition):
        selection = selection.best
    unknown = undeclared(block)
    _refuse_single_units(query, block, unknown)
    _refuse_strategy(query, block, options, unknown)
    if (
        unknown
        and isinstance(selection, TopK)
        and not selection.lowest
        and block.counts[selection.count].monotone
    ):
        return None
    if unknown:
        key = next((o.name for o in block.outputs if o.kind == "key" and o.of == unknown[0]), "the key")
        at, every = query.tree.args.get("group"), isinstance(selection, AllGroups)
        if every and options.delta is not None:
            if (
                groups_of_unit(compiler, block.source, selection, options, one_group=block.one_group)
                is not None
            ):
                return None
            unit = unit_name(block.source)
            found = None
            if isinstance(query.tree, exp.Select):
                found = groups_measured(compiler, query.tree, block.own_keys)
            once = "" if found is None else f', or the owner finds it once: dpsql bounds "{found}"'
            raise query.source.refuse(
                f"the values of {key} are not declared: say in how many groups a {unit} may count",
                at,
                f"OPTIONS (max_groups_contributed = {GROUPS}), or list them: "
                f"WHERE {key} {_listed(block.keys[unknown[0]].type)}{once}",
                Fix(str(GROUPS), option="max_groups_contributed", guess=str(GROUPS)),
            )
        _refuse_whole_time(query, block, unknown[0], key)
        what = {AboveThreshold: "a threshold", AllGroups: "releasing all groups"}.get(type(selection), "this")
        raise query.source.refuse(
            f"the values of {key} are not declared, and {what} needs a public domain",
            at,
            f"the owner declares {key} in [tables.NAME.domain], or list them: "
            f"WHERE {key} {_listed(block.keys[unknown[0]].type)}, or take the key from a public table"
            f"{', or OPTIONS (delta = 1e-6)' * every}",
            Fix("1e-6", option="delta", guess="1e-6") if every else None,
        )
    if not all(is_public(compiler.policy, candidates.domain.query) for candidates in block.domains):
        raise InternalError("this is a bug of dpsql, nothing was run or charged: candidates of private rows")
    few = selects_few(block.selection)
    size, most = 1, MAX_SPARSE if few else MAX_DOMAIN
    for candidates in block.domains:
        own = size_of(compiler.catalog, candidates.domain)
        if own > MAX_LIST and integers(candidates.domain.query) is None:
            raise query.source.refuse(
                f"a key has more than {MAX_LIST:,} values in its domain, which is a list",
                query.tree.args.get("group"),
            )
        size *= own
        if size > most:
            raise query.source.refuse(
                f"the keys have more than {most:,} groups in their domains together",
                query.tree.args.get("group"),
                None if few else f"ORDER BY n DESC LIMIT 10, which selects among up to {MAX_SPARSE:,}",
            )
    if block.keys and size == 0:
        raise query.source.refuse(
            "no value in the public domain of the keys meets WHERE", query.tree.args.get("group")
        )
    return size


def is_sparse(size: int | None) -> bool:
    """Return whether a domain of so many groups is too large to count the empty ones."""
    return size is not None and size > MAX_DOMAIN


def _listed(sql_type: SqlType) -> str:
    """Return an example of a condition that lists the values of a key."""
    if sql_type.integer:
        return "BETWEEN 0 AND 99"
    return "BETWEEN '2024-01-01' AND '2024-12-31'" if sql_type.name == "DATE" else "IN ('a', 'b')"


def _refuse_single_units(query: Query, block: OuterQuery, unknown: list[int]) -> None:
    """Refuse undeclared keys with a value that is one unit's: no group of them is ever shown."""
    place = next((i for i in unknown if block.keys[i].link), None)
    if place is None:
        return
    key = next((o.name for o in block.outputs if o.kind == "key" and o.of == place), "the key")
    unit = unit_name(block.source)
    raise query.source.refuse(
        f"each value of {key} belongs to one {unit}, so no group has enough of them to be shown",
        query.tree.args.get("group"),
        f"leave {key} out of GROUP BY",
    )


def _refuse_strategy(query: Query, block: OuterQuery, options: Options, unknown: list[int]) -> None:
    """Refuse the option `group_selection_strategy` if it does not apply to the statement's keys."""
    strategy, at = options.group_selection_strategy, options.at.get("group_selection_strategy")
    if strategy == "PUBLIC_GROUPS" and unknown:
        key = next((o.name for o in block.outputs if o.kind == "key" and o.of == unknown[0]), "the key")
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
            if column.span is not None and column.reads <= block.keys[place].reads:
                days = not column.type.integer
                what = "days" if days else "integers"
                raise query.source.refuse(
                    f"{name} has a declared range of {what}, and {key} has too many values in it",
                    query.tree.args.get("group"),
                    f"GROUP BY date_trunc('day', {name})" if days else f"GROUP BY {name}",
                )
