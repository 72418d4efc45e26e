"""What PostgreSQL's catalog says of a table: its columns, its partitions and its unique indexes."""

from __future__ import annotations

import json
from collections.abc import Callable

from dpsql.engines.postgres.forms import string_literal
from dpsql.errors import PolicyError
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import DatabaseSource, Table

CatalogQuery = Callable[[str], list[tuple[object, ...]]]
"""Runs a query on the catalog and returns its rows."""

# A NOT NULL that was never validated (PostgreSQL 18) does not hold for older rows. Of the indexes, those
# are listed that enforce uniqueness of plain columns under their types' own equality on every write. A
# DEFERRABLE one does not: its check comes later, or never (session_replication_role).
_CATALOG_QUERY = """
SELECT json_build_object(
  'schema', n.nspname, 'name', c.relname, 'oid', c.oid::bigint, 'kind', c.relkind::text,
  'rows_hidden', c.relrowsecurity,
  'columns', (SELECT json_agg(json_build_array(a.attnum, a.attname,
      CASE WHEN a.attgenerated = 'v' THEN 'virtual' WHEN m.nspname = 'pg_catalog' THEN t.typname::text
        ELSE m.nspname || '.' || t.typname END,
      a.atttypmod, m.nspname = 'pg_catalog', a.attnotnull AND NOT EXISTS (SELECT FROM pg_constraint k
        WHERE k.conrelid = c.oid AND k.contype = 'n' AND NOT k.convalidated AND a.attnum = ANY (k.conkey)))
      ORDER BY a.attnum)
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace m ON m.oid = t.typnamespace
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
  'children', (WITH RECURSIVE below(oid) AS (
      SELECT h.inhrelid FROM pg_inherits h WHERE h.inhparent = c.oid
      UNION SELECT h.inhrelid FROM pg_inherits h JOIN below b ON h.inhparent = b.oid)
    SELECT json_agg(DISTINCT k.relkind::text) FROM below b JOIN pg_class k ON k.oid = b.oid),
  'indexes', (SELECT json_agg(json_build_array((SELECT json_agg(p.number)
        FROM unnest(i.indkey::int2[]) WITH ORDINALITY p(number, place) WHERE p.place <= i.indnkeyatts),
        coalesce(to_jsonb(i) ->> 'indnullsnotdistinct', 'false') = 'true'))
    FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indimmediate AND i.indisvalid
      AND i.indisready AND i.indislive AND NOT i.indisexclusion AND i.indpred IS NULL AND i.indexprs IS NULL
      AND NOT EXISTS (SELECT FROM pg_opclass o JOIN pg_namespace m ON m.oid = o.opcnamespace
        WHERE o.oid = ANY (i.indclass::oid[]) AND NOT (o.opcdefault AND m.nspname = 'pg_catalog')))
)::text AS seen FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE """


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    """A column of the catalog: number, name, type (with its schema if not built in), and nullability.

    The type is `virtual` where the column is calculated whenever it is read (PostgreSQL 18).
    """

    number: int
    name: str
    type_name: str
    modifier: int
    builtin: bool
    never_null: bool


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table of the catalog; `indexes` are its unique sets of columns, and whether NULLs are equal there."""

    oid: int
    text: str
    relation_kind: str
    columns: tuple[CatalogColumn, ...]
    children: bool
    indexes: tuple[tuple[frozenset[int], bool], ...]


def find_table(ask: CatalogQuery, table: Table, source: DatabaseSource) -> CatalogTable:
    """Find an ordinary or partitioned table by its name; raises `PolicyError`."""
    schema = source.schema or "public"
    rows = ask(
        f"{_CATALOG_QUERY} c.relkind IN ('r', 'p') AND lower(n.nspname) = lower({string_literal(schema)}) "
        f"AND lower(c.relname) = lower({string_literal(source.table)})"
    )
    key = f"tables.{table.name}.source"
    if len(rows) != 1:
        raise PolicyError(
            f"{key}: the database has no table {schema}.{source.table}",
            hint="views are not read: a view could mix the rows of several units",
        )
    seen = json.loads(str(rows[0][0]))
    if seen["rows_hidden"]:
        raise PolicyError(
            f"{key}: the table has row-level security, which could choose rows by those of other units",
            hint="use a table without it: ALTER TABLE .. DISABLE ROW LEVEL SECURITY",
        )
    if not set(seen["children"] or ()) <= {"r", "p"}:
        raise PolicyError(f"{key}: a partition is a foreign table, which may be a view on its server")
    return CatalogTable(
        seen["oid"],
        ".".join('"' + str(part).replace('"', '""') + '"' for part in (seen["schema"], seen["name"])),
        seen["kind"],
        tuple(CatalogColumn(*column) for column in seen["columns"] or ()),
        bool(seen["children"]) or seen["kind"] == "p",
        tuple((frozenset(numbers), equal) for numbers, equal in seen["indexes"] or ()),
    )
