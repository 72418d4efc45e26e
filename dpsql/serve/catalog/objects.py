"""What the catalogue shows of one policy: its tables and views with their columns, types and comments."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy, Table, UnitColumn, UnitVia, fold, protected
from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.data import Rows
from dpsql.types import SqlType

OWNER, ANALYST, DATABASE = 10, 16385, 16384
"""The OIDs of the role that owns everything, of the analyst who asks, and of the database."""
_FIRST = 16400

Columns = Sequence[tuple[str, SqlType]]
Row = dict[str, object]


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
    policy: Policy, columns: Mapping[str, Columns], views: Mapping[str, Columns], oids: Mapping[str, int]
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
            return f"private, protects {protected(policy.tables, table)}"
    return "private, the privacy unit is the row"


def _column_comments(table: Table) -> dict[str, str]:
    if table.public:
        return {}
    found = dict.fromkeys(table.domain, "has a public domain")
    if isinstance(table.unit, UnitColumn):
        found[table.unit.column] = f"the privacy unit ({table.unit.kind})"
    return {fold(name): text for name, text in found.items()}


def records(rows: Rows) -> list[Row]:
    """Return rows as mappings from columns to values."""
    return [dict(zip(rows.columns, row, strict=True)) for row in rows.rows]


def given_rows(relations: Sequence[PolicyRelation], name: str) -> dict[str, list[Row]]:
    """Return the rows that `policy.sql` reads, about these relations and the database of this name."""
    return {
        "given_database": [{"name": name}],
        "given_relations": [
            {
                "oid": relation.oid,
                "name": relation.name,
                "kind": relation.kind,
                "row_type": relation.row_type,
                "array_type": relation.array_type,
                "width": len(relation.columns),
                "comment": relation.comment,
            }
            for relation in relations
        ],
        "given_columns": [
            {
                "relation": relation.oid,
                "number": number,
                "name": column,
                "type": pg_types.column_oid(kind),
                "modifier": pg_types.type_modifier(kind),
                "comment": relation.comments.get(fold(column)),
            }
            for relation in relations
            for number, (column, kind) in enumerate(relation.columns, start=1)
        ],
    }
