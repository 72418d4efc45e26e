"""The measure of in how many groups a unit has a row: of the keys that statements over the whole table have.

Values outside of the declared ones of a column are one group together, and NULL is a value as any other, as
where statements release all groups. Of keys without declared values each value is a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.analysis import blocks
from dpsql.analysis.catalog import Catalog
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.kept_bounds import UNDECLARED_GROUPS, groups_by
from dpsql.analysis.key_domains import undeclared
from dpsql.analysis.outer_query import outer_query
from dpsql.analysis.released.auto import HIGHEST_ROWS
from dpsql.analysis.rules import RULES_BY_NODE
from dpsql.analysis.sparse import number_of_groups
from dpsql.analysis.unit_measures import UnitMeasure
from dpsql.errors import ProgrammingError, QueryRefused
from dpsql.kernel.tree import quote
from dpsql.language import Query, parse
from dpsql.policy import Policy, Table


def group_measure(policy: Policy, catalog: Catalog, table: Table, columns: Sequence[str]) -> UnitMeasure:
    """Compile the measure of in how many groups of some columns a unit of a table has a row.

    Raises `ProgrammingError` if the table has no such measure: it is public, its columns are no keys, or each
    of its units is in one group or has a group of its own.
    """
    keys = ", ".join(map(quote, columns))
    query = parse(f"SELECT {keys}, COUNT(*) FROM {quote(table.name)} GROUP BY {keys}")
    assert isinstance(query, Query)  # noqa: S101  as written above
    try:
        with query.source.limited_depth():
            return _compile(policy, catalog, table, columns, query)
    except QueryRefused as refused:
        raise ProgrammingError(f"{', '.join(columns)} of {table.name}: {refused.message}") from None


def _compile(
    policy: Policy, catalog: Catalog, table: Table, columns: Sequence[str], query: Query
) -> UnitMeasure:
    if table.public:
        raise ProgrammingError(f"{table.name} is public: nothing in it is bounded")
    compiler = StatementCompiler(query.source, policy, catalog, RULES_BY_NODE, blocks.query)
    block = outer_query(compiler, query)
    owner, listed = block.source.owner, ", ".join(columns)
    assert owner is not None  # noqa: S101  the table is private
    if owner.row:
        raise ProgrammingError(f"each row of {table.name} is a unit: it is in one group")
    if block.one_group:
        raise ProgrammingError(f"a {owner.kind} is in one group by {listed}: no statement needs a bound")
    if any(key.link for key in block.keys):
        raise ProgrammingError(f"each value of {listed} belongs to one {owner.kind}, so no group is shown")
    declared = not undeclared(block)
    rows = block.rows.with_outside(block.domains) if declared else block.rows
    size = number_of_groups(catalog, block.domains) + 1 if declared else None
    top = HIGHEST_ROWS if size is None else min(HIGHEST_ROWS, max(size - 1, 1).bit_length())
    return UnitMeasure(
        table.name,
        groups_by(columns),
        owner.kind,
        Fraction(1),
        top,
        False,
        rows.groups_of_units("a"),
        tuple(sorted(compiler.used)),
        catalog,
        policy,
        UNDECLARED_GROUPS if size is None else max(size - 1, 1),
        declared,
    )
