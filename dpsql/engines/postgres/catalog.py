"""What PostgreSQL's catalog says of a table: its columns, its partitions and its unique indexes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from dpsql.engines.postgres.forms import quoted_name, string_literal
from dpsql.errors import PolicyError
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import DatabaseSource, Table

CatalogQuery = Callable[[str], list[tuple[object, ...]]]
"""Runs a query on the catalog and returns its rows."""

# A NOT NULL that was never validated (PostgreSQL 18) does not hold for older rows. Of the indexes, those
# are listed that enforce uniqueness of plain columns under their types' own equality on every write. A
# DEFERRABLE one does not: its check comes later, or never (session_replication_role). The type of a column of
# a domain is that below the domain. An enum, and a type that is stored as a text (citext: its cast to text
# calls no function), are read as text.
CATALOG_QUERY = """
SELECT json_build_object(
  'schema', n.nspname, 'name', c.relname, 'oid', c.oid::bigint, 'kind', c.relkind::text,
  'rows_hidden', c.relrowsecurity,
  'definition', CASE WHEN c.relkind IN ('v', 'm') THEN md5(pg_get_viewdef(c.oid)) ELSE '' END,
  'usage', has_schema_privilege(n.oid, 'USAGE'),
  'denied', (SELECT coalesce(json_agg(a.attname ORDER BY a.attnum), '[]') FROM pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      AND NOT has_column_privilege(c.oid, a.attnum, 'SELECT')),
  'columns', (SELECT json_agg(json_build_array(a.attnum, a.attname,
      CASE WHEN a.attgenerated = 'v' THEN 'virtual' WHEN r.text <> '' THEN r.text
        WHEN m.nspname = 'pg_catalog' THEN t.typname::text ELSE m.nspname || '.' || t.typname END,
      b.modifier, m.nspname = 'pg_catalog' OR r.text <> '',
      a.attnotnull AND NOT EXISTS (SELECT FROM pg_constraint k
        WHERE k.conrelid = c.oid AND k.contype = 'n' AND NOT k.convalidated AND a.attnum = ANY (k.conkey)))
      ORDER BY a.attnum)
    FROM pg_attribute a CROSS JOIN LATERAL (WITH RECURSIVE below(oid, modifier) AS (
        SELECT a.atttypid, a.atttypmod
        UNION ALL SELECT d.typbasetype, d.typtypmod FROM below JOIN pg_type d ON d.oid = below.oid
          AND d.typtype = 'd') SELECT oid, modifier FROM below) b
      JOIN pg_type t ON t.oid = b.oid AND t.typtype <> 'd' JOIN pg_namespace m ON m.oid = t.typnamespace
      CROSS JOIN LATERAL (SELECT CASE WHEN t.typtype = 'e' AND t.oid = a.atttypid THEN 'enum'
        WHEN t.typtype = 'b' AND m.nspname <> 'pg_catalog' AND EXISTS (SELECT FROM pg_cast s
          WHERE s.castsource = t.oid AND s.casttarget = 'text'::regtype AND s.castmethod = 'b')
        THEN 'citext' ELSE '' END AS text) r
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
    definition: str = ""
    """A hash of the query of a view."""

    @property
    def view(self) -> bool:
        """Whether it is a view, or a materialized one."""
        return self.relation_kind in ("v", "m")


def find_table(ask: CatalogQuery, table: Table, source: DatabaseSource) -> CatalogTable:
    """Find a table by its name, or a view that the owner calls stable; raises `PolicyError`."""
    schema = source.schema or "public"
    named = (
        f"lower(n.nspname) = lower({string_literal(schema)}) AND lower(c.relname) = "
        f"lower({string_literal(source.table)})"
    )
    rows = ask(f"{CATALOG_QUERY} c.relkind IN ('r', 'p', 'v', 'm') AND {named}")
    key = f"tables.{table.name}.source"
    if len(rows) != 1:
        raise PolicyError(
            f"{key}: the database has no table {schema}.{source.table}",
            hint="`dpsql init` lists the tables that the role may read",
        )
    seen = json.loads(str(rows[0][0]))
    found = catalog_table(seen)
    if found.view and not table.stable:
        raise PolicyError(
            f"{key}: {schema}.{source.table} is a view, which could mix the rows of several units",
            hint="if each of its rows comes from rows of one unit, and reading it never fails: stable = true",
        )
    if table.stable and not found.view:
        raise PolicyError(
            f"tables.{table.name}.stable: {schema}.{source.table} is no view", hint="leave it out"
        )
    _check_grants(ask, table, seen, found)
    if seen["rows_hidden"]:
        raise PolicyError(
            f"{key}: the table has row-level security, which could choose rows by those of other units",
            hint=f"use a table without it: ALTER TABLE {found.text} DISABLE ROW LEVEL SECURITY",
        )
    if not set(seen["children"] or ()) <= {"r", "p"}:
        raise PolicyError(f"{key}: a partition is a foreign table, which may be a view on its server")
    return found


def catalog_table(seen: dict[str, Any]) -> CatalogTable:
    """Return a table as the query of the catalog describes it."""
    return CatalogTable(
        seen["oid"],
        quoted_name(seen["schema"], seen["name"]),
        seen["kind"],
        tuple(CatalogColumn(*column) for column in seen["columns"] or ()),
        bool(seen["children"]) or seen["kind"] == "p",
        tuple((frozenset(numbers), equal) for numbers, equal in seen["indexes"] or ()),
        seen["definition"],
    )


def _check_grants(ask: CatalogQuery, table: Table, seen: dict[str, Any], found: CatalogTable) -> None:
    """Raise `PolicyError`, with the GRANT to give, if dpsql's role may not read the declared columns."""
    declared = None if table.columns is None else {name.lower() for name in table.columns}
    denied = [name for name in seen["denied"] if declared is None or name.lower() in declared]
    if seen["usage"] and not denied:
        return
    ((role,),) = ask("SELECT quote_ident(current_user) AS r")
    whole = len(denied) == len(found.columns) or declared is None or len(denied) == len(declared)
    listed = ", ".join(quoted_name(name) for name in denied)
    grants = [] if seen["usage"] else [f"GRANT USAGE ON SCHEMA {quoted_name(seen['schema'])} TO {role}"]
    if denied:
        grants.append(f"GRANT SELECT{'' if whole else f' ({listed})'} ON {found.text} TO {role}")
    what = f"the table {found.text}" if whole or not denied else f"{listed} of {found.text}"
    raise PolicyError(
        f"tables.{table.name}.source: the role {role} may not read {what}", hint="; ".join(grants)
    )
