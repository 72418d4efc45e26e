"""The rows of the catalogue about a policy's tables and views, and about the session that asks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import pyarrow as pa

from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy, Table, UnitColumn, UnitVia, describe_protected, fold
from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.postgres_data import data
from dpsql.types import SqlType

OWNER, ANALYST, DATABASE = 10, 16385, 16384
"""The OIDs of the role that owns everything, of the analyst who asks, and of the database."""
_FIRST = 16400

ColumnTypes = Sequence[tuple[str, SqlType]]


@dataclass(frozen=True, slots=True)
class PolicyRelation:
    """A table or view of the policy, as the catalogue shows it."""

    name: str
    oid: int
    columns: tuple[tuple[str, SqlType], ...]
    kind: str
    """`r` for a table, `v` for a view."""
    comment: str
    comments: Mapping[str, str]
    """Comments of columns."""

    @property
    def row_type(self) -> int:
        """The OID of the type of the relation's rows."""
        return self.oid + 2

    @property
    def array_type(self) -> int:
        """The OID of the type of arrays of the relation's rows."""
        return self.oid + 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a session asks: the database's name and the policy's relations."""

    name: str
    relations: Sequence[PolicyRelation]


def relations(
    policy: Policy,
    columns: Mapping[str, ColumnTypes],
    views: Mapping[str, ColumnTypes],
    oids: Mapping[str, int],
) -> tuple[PolicyRelation, ...]:
    """Return the tables and views of a policy. OIDs depend on names alone, so they survive restarts."""
    taken = set(oids.values())
    found = []
    for name in sorted([*policy.tables, *policy.views], key=fold):
        table = policy.table(name)
        shown = name if table is None else table.name
        oid = oids.get(shown) or _free_oid(fold(shown), taken)
        taken.add(oid)
        if table is None:
            found.append(PolicyRelation(shown, oid, tuple(views.get(name, ())), "v", "a view", {}))
        else:
            comments = _column_comments(table)
            said = _comment(policy, table)
            found.append(PolicyRelation(shown, oid, tuple(columns[name]), "r", said, comments))
    return tuple(found)


def _free_oid(name: str, taken: set[int]) -> int:
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % (1 << 28)
    while (oid := _FIRST + 4 * number) in taken:
        number += 1
    return oid


def _comment(policy: Policy, table: Table) -> str:
    if table.public:
        return "public"
    match table.unit:
        case UnitColumn(column):
            return f"private, the privacy unit is {column}"
        case UnitVia():
            return f"private, protects {describe_protected(policy.tables, table)}"
    return "private, the privacy unit is the row"


def _column_comments(table: Table) -> dict[str, str]:
    if table.public:
        return {}
    found = dict.fromkeys(table.domain, "has a public domain")
    if isinstance(table.unit, UnitColumn):
        found[table.unit.column] = f"the privacy unit ({table.unit.kind})"
    return {fold(name): text for name, text in found.items()}


def given_tables(place: Place) -> dict[str, pa.Table]:
    """Return the tables that `policy.sql` reads, by name: PostgreSQL's own rows, and those of the policy."""
    known = data()
    columns = [
        (
            own.oid,
            number,
            name,
            pg_types.column_oid(kind),
            pg_types.type_modifier(kind),
            own.comments.get(fold(name)),
        )
        for own in place.relations
        for number, (name, kind) in enumerate(own.columns, start=1)
    ]
    relations = [
        (own.oid, own.name, own.kind, own.row_type, own.array_type, len(own.columns), own.comment)
        for own in place.relations
    ]
    objects = [(one.schema, one.name, one.oid) for one in known.relations.values()]
    return {
        **{name: pa.Table.from_pylist(rows) for name, rows in known.tables.items()},
        "given_database": _table("name:string", [(place.name,)]),
        "given_relations": _table(
            "oid:int64 name:string kind:string row_type:int64 array_type:int64 width:int64 comment:string",
            relations,
        ),
        "given_columns": _table(
            "relation:int64 number:int64 name:string type:int64 modifier:int64 comment:string", columns
        ),
        "given_objects": _table("schema:string name:string oid:int64", objects),
        "given_types": _table("oid:int64 shown:string", list(known.type_names.items())),
        "given_settings": pa.Table.from_pylist(known.settings),
        "given_functions": _table(
            "oid:int64 result:string arguments:string definition:string signature:string", known.functions
        ),
        "given_keywords": _table(
            "word:string catcode:string barelabel:bool catdesc:string baredesc:string", known.keywords
        ),
    }


def _table(columns: str, rows: Sequence[Sequence[object]]) -> pa.Table:
    """Return rows as a table; `columns` has `name:type` of each, with Arrow's names of types."""
    named = [column.split(":") for column in columns.split()]
    cells = [list(column) for column in zip(*rows, strict=True)] or [[]] * len(named)
    arrays = [pa.array(each, pa.type_for_alias(kind)) for each, (_, kind) in zip(cells, named, strict=True)]
    return pa.table(arrays, [name for name, _ in named])
