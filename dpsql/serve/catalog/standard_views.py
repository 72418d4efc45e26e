"""The rows of `information_schema` about one policy."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.data import ALL_SCHEMAS, data
from dpsql.serve.catalog.objects import PolicyRelation, Row
from dpsql.types import SqlType

_PRECISIONS = {pg_types.INT2: 16, pg_types.INT4: 32, pg_types.INT8: 64, pg_types.FLOAT8: 53}
_INTEGERS = (pg_types.INT2, pg_types.INT4, pg_types.INT8)
_SECONDS = {
    pg_types.DATE: 0,
    pg_types.TIME: 6,
    pg_types.TIMESTAMP: 6,
    pg_types.TIMESTAMPTZ: 6,
    pg_types.INTERVAL: 6,
}
_OCTETS = 1 << 30


def rows_of(relations: Sequence[PolicyRelation], name: str) -> dict[str, list[Row]]:
    """Return the rows of views of `information_schema`, in the database of this name."""
    return {
        "information_schema_catalog_name": [{"catalog_name": name}],
        "schemata": [
            {"catalog_name": name, "schema_name": schema, "schema_owner": "dpsql"} for schema in ALL_SCHEMAS
        ],
        "character_sets": [
            {
                "character_set_name": "UTF8",
                "character_repertoire": "UCS",
                "form_of_use": "UTF8",
                "default_collate_catalog": name,
                "default_collate_schema": "pg_catalog",
                "default_collate_name": "ucs_basic",
            }
        ],
        "tables": [_table(relation, name) for relation in relations],
        "views": [_view(relation, name) for relation in relations if relation.kind == "v"],
        "columns": [
            _column(relation, name, number, *column)
            for relation in relations
            for number, column in enumerate(relation.columns, start=1)
        ],
    }


def _table(relation: PolicyRelation, name: str) -> Row:
    return {
        "table_catalog": name,
        "table_schema": "public",
        "table_name": relation.name,
        "table_type": "BASE TABLE" if relation.kind == "r" else "VIEW",
        "is_insertable_into": "NO",
        "is_typed": "NO",
    }


def _view(relation: PolicyRelation, name: str) -> Row:
    no = ["is_updatable", "is_insertable_into", "is_trigger_updatable", "is_trigger_deletable"]
    return {
        **dict.fromkeys([*no, "is_trigger_insertable_into"], "NO"),
        "table_catalog": name,
        "table_schema": "public",
        "table_name": relation.name,
        "check_option": "NONE",
    }


def _column(relation: PolicyRelation, database: str, number: int, name: str, kind: SqlType) -> Row:
    oid = pg_types.column_oid(kind)
    array = pg_types.element(oid) is not None
    exact = oid in _INTEGERS
    decimal = oid == pg_types.NUMERIC and kind.name == "DECIMAL"
    no = ["is_self_referencing", "is_identity", "identity_cycle", "is_updatable"]
    return {
        **dict.fromkeys(no, "NO"),
        "table_catalog": database,
        "table_schema": "public",
        "table_name": relation.name,
        "column_name": name,
        "ordinal_position": number,
        "is_nullable": "YES",
        "data_type": "ARRAY" if array else data().type_names[oid],
        "character_octet_length": _OCTETS if oid == pg_types.TEXT else None,
        "numeric_precision": kind.precision if decimal else _PRECISIONS.get(oid),
        "numeric_precision_radix": 10 if oid == pg_types.NUMERIC else 2 if oid in _PRECISIONS else None,
        "numeric_scale": kind.scale if decimal else 0 if exact else None,
        "datetime_precision": _SECONDS.get(oid),
        "udt_catalog": database,
        "udt_schema": "pg_catalog",
        "udt_name": pg_types.name_of(oid),
        "dtd_identifier": str(number),
        "is_generated": "NEVER",
    }
