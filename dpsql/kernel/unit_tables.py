"""Faster texts of certified queries that group all rows of a table by unit: what units have is kept.

A search of bounds, and a number that is weighed by what units have, group the rows of each unit first. What
is aggregated of each unit is the same for every statement that aggregates the same values of all rows of a
table. It is private: it is for speed alone, and so it is sealed, as in `unweighted`.

*Claim:* a number that the text returns is that of the certified query. *Proof.* A `Weighted` is written by
the lemma of `tree.bounding` on listed units, where all that are large are listed by the SELECT of the query
itself, or as it is. Then each SELECT that has a group for each unit, and shows what is computed of aggregates
of its rows, reads these from a table. That was counted by a SELECT of the same groups of the same rows, whose
items are these aggregates (`_table_of`): it has their values, and they are read in their types. The rows were
the same: the table has the version that was told before it was counted, and the text has numbers only if it
is the version afterwards, as in `unweighted`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dpsql.kernel.sealed import Sealed, seal, unseal, without_frames
from dpsql.kernel.tree import (
    Aggregate,
    Cast,
    Column,
    Decided,
    Derived,
    Expr,
    IsNull,
    Item,
    Node,
    OfDomain,
    OnDomain,
    Query,
    Scan,
    Scores,
    Select,
    Source,
    Units,
    Weighted,
    duckdb_sql,
    items,
    parts,
    replace_nodes,
    walk,
)
from dpsql.kernel.tree.bounding import LINEAR
from dpsql.kernel.unweighted import UnweightedText, Version
from dpsql.lazy_dataclass import dataclass
from dpsql.types import HUGEINT

if TYPE_CHECKING:
    import pyarrow as pa

AskTypes = Callable[[str], tuple[Sequence[str], "pa.Table"]]
"""Returns the rows of a query, and the types of its columns."""
FEWEST_UNITS = 10_000
"""How many units a table has at least: below, an engine takes longer to plan the text than it saves."""

UNIT = Column("s", "u")


@dataclass(frozen=True, slots=True)
class _Kept:
    version: object
    table: pa.Table
    wide: tuple[bool, ...]
    """For each column after the unit, whether it is a HUGEINT, which a table has as DECIMAL."""


class UnitTable(Sealed):
    """What is aggregated of the rows of each unit; private, and of one version of the table."""

    __slots__ = ()

    @classmethod
    def count(cls, sql: str, ask: AskTypes, version: Version, most: int) -> UnitTable | None:
        """Aggregate the rows; None if they may have changed meanwhile, or take more than so many bytes."""

        def work() -> UnitTable | None:
            before = version()
            if before is None:
                return None
            types, table = ask(sql)
            if version() != before or table.nbytes > most:
                return None
            return seal(cls(), _Kept(before, table, tuple(kind == HUGEINT.name for kind in types[1:])))

        return without_frames(work)

    @property
    def serves(self) -> bool:
        """Whether the table has so many units that a faster text is worth while."""
        return int(unseal(self).table.num_rows) >= FEWEST_UNITS

    @property
    def size(self) -> int:
        """The bytes that the table of units takes, for the limit of the process alone."""
        return int(unseal(self).table.nbytes)


class NoTableError(Exception):
    """There is no table for a text, or it would not be faster."""


def text_of_tables(query: Query, find: Callable[[str], UnitTable | None]) -> UnweightedText | None:
    """Write faster SQL of a query from kept tables of what units have; None if there is none.

    `find` gets the SELECT of a table, and returns it as it is kept.
    """

    def write() -> UnweightedText | None:
        tables: dict[str, pa.Table] = {}
        versions = list[object]()

        def read(select: Select) -> tuple[Source, Sequence[bool]]:
            found = find(duckdb_sql(select))
            if found is None or not found.serves:
                raise NoTableError
            kept: _Kept = unseal(found)
            name = f"§units{len(tables)}"
            tables[name] = kept.table
            versions.append(kept.version)
            return Scan(name, "s"), kept.wide

        try:
            made = with_tables(query, read)
        except NoTableError:
            return None
        if made is None or any(each != versions[0] for each in versions):
            return None
        return seal(UnweightedText(), (duckdb_sql(made), tables, versions[0]))

    return without_frames(write)


def form_of_tables(query: Query) -> tuple[str, str] | None:
    """Return the text of a query with the SELECTs in the place of their tables, and the declared table.

    None: it reads no such tables, or those of several.
    """
    scanned = set[str]()

    def read(select: Select) -> tuple[Source, Sequence[bool]]:
        scanned.update(node.table for node in walk(select) if isinstance(node, Scan))
        return Derived(select, "s"), ()

    made = with_tables(query, read)
    return None if made is None or len(scanned) != 1 else (duckdb_sql(made), scanned.pop())


def with_tables(query: Query, read: Callable[[Select], tuple[Source, Sequence[bool]]]) -> Query | None:
    """Return a query that reads what it aggregates of units from tables; None if it aggregates nothing so.

    `read` gets the SELECT of a table, and returns the table as `s`, and which of its columns to widen.
    """
    written = _written(query)
    if written is None:
        return None
    found = 0

    def change(node: Node) -> Node:
        nonlocal found
        made = _table_of(node) if isinstance(node, Select) else None
        if made is None or not isinstance(node, Select):
            return node
        found += 1
        select, aggregates = made
        source, wide = read(select)
        read_of: dict[Expr, Expr] = {}
        for i, aggregate in enumerate(aggregates):
            column = Column("s", f"t{i}")
            read_of[aggregate] = Cast(column, HUGEINT) if i < len(wide) and wide[i] else column

        def put(part: Node) -> Node:
            return read_of.get(part, part) if isinstance(part, Expr) else part

        return Select(tuple(replace_nodes(item, put) for item in node.items), source)

    made = change(written)
    made = replace_nodes(written, change) if made is written else made
    return made if found and isinstance(made, Query) else None


def _written(query: Query) -> Query | None:
    """Return the SELECTs of a query, in which units alone are grouped; None if none are."""
    if isinstance(query, Scores):
        return query
    node = query.counts if isinstance(query, (OnDomain, OfDomain, Decided)) else query
    if not isinstance(node, Weighted) or node.by_rows or node.alone is None:
        return None
    if not node.keys or node.by_shares:
        made = node.lowered
    else:
        summed = [part for part in node.parts if isinstance(part, LINEAR) and part.in_full is not None]
        if not summed or len(summed) + sum(isinstance(p, Units) and not p.weighs for p in node.parts) < len(
            node.parts
        ):
            return None
        made = node.weigh_listed(Derived(node.large_units(), "l"))
    return replace(query, counts=made) if isinstance(query, (OnDomain, OfDomain, Decided)) else made


def _table_of(node: Select) -> tuple[Select, tuple[Aggregate, ...]] | None:
    """Return the SELECT of what another one aggregates of each unit, as `u`, `t0`, .., and the aggregates.

    None: it does not group all rows of a table by unit alone.
    """
    there = IsNull(UNIT, negated=True)
    if node.group != (UNIT,) or node.where != there or not isinstance(node.source, Derived):
        return None
    rows = node.source.query
    if node.source.alias != "s" or not isinstance(rows, Select) or not _is_whole_table(rows):
        return None
    found: list[Aggregate] = []
    for item in node.items:
        _list_aggregates(item.expr, found)
    own = {item.column: item.expr for item in rows.items}
    names: dict[str, str] = {}
    for aggregate in found:
        for part in walk(aggregate):
            if isinstance(part, Column) and part != UNIT:
                names.setdefault(part.name, f"c{len(names)}")
    if "u" not in own or not names.keys() <= own.keys():
        return None

    def rename(part: Node) -> Node:
        known = isinstance(part, Column) and part.table == "s" and part.name in names
        return Column("s", names[part.name]) if known and isinstance(part, Column) else part

    shown = (Item(own["u"], "u"), *(Item(own[name], short) for name, short in names.items()))
    projected = Derived(replace(rows, items=shown), "s")
    aggregates = (replace_nodes(aggregate, rename) for aggregate in found)
    return Select((Item(UNIT, "u"), *items("t", aggregates)), projected, there, group=(UNIT,)), tuple(found)


def _list_aggregates(expr: Node, found: list[Aggregate]) -> None:
    """List the outermost aggregates of an expression, each once."""
    if isinstance(expr, Aggregate):
        if expr not in found:
            found.append(expr)
        return
    for part in parts(expr):
        _list_aggregates(part, found)


def _is_whole_table(rows: Select) -> bool:
    """Whether a SELECT has all rows of a table that have a unit, each once."""
    source = rows.source
    if rows.where is not None or rows.group or rows.distinct or rows.limit is not None:
        return False
    if not isinstance(source, Derived) or not isinstance(source.query, Select):
        return False
    base = source.query
    plain = not base.group and not base.distinct and base.limit is None and isinstance(base.source, Scan)
    return plain and (base.where is None or (isinstance(base.where, IsNull) and base.where.negated))
