"""A policy's tables and views as the catalogue has them, and the tables that `policy.sql` reads."""

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


def given_tables(name: str, relations: Sequence[PolicyRelation]) -> dict[str, pa.Table]:
    """Return the tables that `policy.sql` reads, by name: PostgreSQL's own rows, and those of the policy."""
    known = data()
    columns = [
        (own.oid, number, name, pg_types.column_oid(kind), pg_types.type_modifier(kind), comment)
        for own in relations
        for number, (name, kind) in enumerate(own.columns, start=1)
        for comment in [own.comments.get(fold(name))]
    ]
    own_relations = [
        (own.oid, own.name, own.kind, own.row_type, own.array_type, len(own.columns), own.comment)
        for own in relations
    ]
    objects = [(one.schema, one.name, one.oid) for one in known.relations.values()]
    return {
        **{name: pa.Table.from_pylist(rows) for name, rows in known.tables.items()},
        "given_database": _table("name", [(name,)]),
        "given_relations": _table("oid name kind row_type array_type width comment", own_relations),
        "given_columns": _table("relation number name type modifier comment", columns),
        "given_objects": _table("schema name oid", objects),
        "given_types": _table("oid shown", list(known.type_names.items())),
        "given_settings": pa.Table.from_pylist(known.settings),
        "given_functions": _table("oid result arguments definition signature", known.functions),
        "given_keywords": _table("word catcode barelabel catdesc baredesc", known.keywords),
    }


def _table(names: str, rows: Sequence[Sequence[object]]) -> pa.Table:
    """Return rows as a table, whose columns have these names."""
    columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * len(names.split())
    return pa.table(columns, names.split())
