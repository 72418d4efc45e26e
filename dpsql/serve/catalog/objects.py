"""The rows of `pg_catalog` about one policy: its tables and views with their columns, types and comments.

There is nothing in them that depends on rows of a table: no counts, sizes or statistics.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache

from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy, Table, UnitColumn, UnitVia, fold, protected
from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.data import Rows, data
from dpsql.types import SqlType

OWNER, ANALYST, DATABASE, PUBLIC = 10, 16385, 16384, 2200
"""The OIDs of the role that owns everything, of the analyst who asks, of the database, of schema `public`."""
_FIRST = 16400
_CLASS = 1259

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


def rows_of(relations: Sequence[PolicyRelation], name: str) -> dict[str, list[Row]]:
    """Return the rows of tables of `pg_catalog` about these relations and the database of this name."""
    return {
        "pg_class": [_class(relation) for relation in relations],
        "pg_attribute": [
            row for relation in relations for row in _attributes(relation)
        ],
        "pg_type": [row for relation in relations for row in _types(relation)],
        "pg_description": [row for relation in relations for row in _descriptions(relation)],
        "pg_database": [_database(name)],
        "pg_tables": [_table(relation) for relation in relations if relation.kind == "r"],
        "pg_views": [
            {"schemaname": "public", "viewname": relation.name, "viewowner": "dpsql"}
            for relation in relations
            if relation.kind == "v"
        ],
        "pg_group": [],
    }  # fmt: skip


def _class(relation: PolicyRelation) -> Row:
    table = relation.kind == "r"
    false = ["relhasindex", "relisshared", "relhasrules", "relhastriggers", "relhassubclass"]
    false += ["relrowsecurity", "relforcerowsecurity", "relispartition"]
    zero = ["reloftype", "reltablespace", "relpages", "relallvisible", "reltoastrelid", "relchecks"]
    zero += ["relrewrite", "relfrozenxid", "relminmxid"]
    return {
        **dict.fromkeys(false, False),
        **dict.fromkeys(zero, 0),
        "oid": relation.oid,
        "relname": relation.name,
        "relnamespace": PUBLIC,
        "reltype": relation.row_type,
        "relowner": OWNER,
        "relam": 2 if table else 0,
        "relfilenode": relation.oid if table else 0,
        "reltuples": -1.0,
        "relhasrules": not table,
        "relpersistence": "p",
        "relkind": relation.kind,
        "relnatts": len(relation.columns),
        "relispopulated": True,
        "relreplident": "d" if table else "n",
    }


@lru_cache(maxsize=1)
def type_rows() -> Mapping[int, Row]:
    """Return the rows of `pg_type` that every catalogue has, by OID; computed once a process."""
    return {int(str(row["oid"])): row for row in records(data().tables["pg_type"])}


def records(rows: Rows) -> list[Row]:
    """Return rows as mappings from columns to values."""
    return [dict(zip(rows.columns, row, strict=True)) for row in rows.rows]


def _attributes(relation: PolicyRelation) -> list[Row]:
    types = type_rows()
    found = []
    for number, (name, kind) in enumerate(relation.columns, start=1):
        oid = pg_types.column_oid(kind)
        of = types[oid]
        false = ["attnotnull", "atthasdef", "atthasmissing", "attisdropped"]
        found.append(
            {
                **dict.fromkeys(false, False),
                "attrelid": relation.oid,
                "attname": name,
                "atttypid": oid,
                "attstattarget": -1,
                "attlen": of["typlen"],
                "attnum": number,
                "attndims": int(pg_types.element(oid) is not None),
                "attcacheoff": -1,
                "atttypmod": pg_types.type_modifier(kind),
                "attbyval": of["typbyval"],
                "attalign": of["typalign"],
                "attstorage": of["typstorage"],
                "attcompression": "",
                "attidentity": "",
                "attgenerated": "",
                "attislocal": True,
                "attinhcount": 0,
                "attcollation": of["typcollation"],
            }
        )
    return found


def _types(relation: PolicyRelation) -> list[Row]:
    types = type_rows()
    own = {"typnamespace": PUBLIC, "typowner": OWNER, "typispreferred": False}
    row: Row = {
        **types[pg_types.RECORD],
        **own,
        "oid": relation.row_type,
        "typname": relation.name,
        "typtype": "c",
        "typcategory": "C",
        "typrelid": relation.oid,
        "typarray": relation.array_type,
    }
    array: Row = {
        **types[pg_types.array_of(pg_types.TEXT)],
        **own,
        "oid": relation.array_type,
        "typname": f"_{relation.name}",
        "typelem": relation.row_type,
        "typalign": "d",
        "typcollation": 0,
    }
    return [row, array]


def _descriptions(relation: PolicyRelation) -> list[Row]:
    found: list[Row] = [
        {"objoid": relation.oid, "classoid": _CLASS, "objsubid": 0, "description": relation.comment}
    ]
    for number, (name, _) in enumerate(relation.columns, start=1):
        text = relation.comments.get(fold(name))
        if text is not None:
            found.append(
                {"objoid": relation.oid, "classoid": _CLASS, "objsubid": number, "description": text}
            )
    return found


def _database(name: str) -> Row:
    return {
        "oid": DATABASE,
        "datname": name,
        "datdba": OWNER,
        "encoding": 6,
        "datlocprovider": "c",
        "datistemplate": False,
        "datallowconn": True,
        "datconnlimit": -1,
        "datfrozenxid": 0,
        "datminmxid": 0,
        "dattablespace": 1663,
        "datcollate": "C",
        "datctype": "C",
    }


def _table(relation: PolicyRelation) -> Row:
    return {
        **dict.fromkeys(["hasindexes", "hasrules", "hastriggers", "rowsecurity"], False),
        "schemaname": "public",
        "tablename": relation.name,
        "tableowner": "dpsql",
    }
