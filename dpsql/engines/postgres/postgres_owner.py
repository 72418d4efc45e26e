"""What the owner is told of a PostgreSQL database: its tables, grants, statistics and version.

It is for the owner alone, so errors hold the server's own words. The catalog is read, and no row.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from dpsql.engines.duckdb.source_schemas import (
    Found,
    FoundColumn,
    Skipped,
    declarable_type,
    make_table_name,
    qualified_name,
)
from dpsql.engines.duckdb.table_readers import declared_columns
from dpsql.engines.postgres.postgres_sql import string_literal
from dpsql.engines.postgres.postgres_tables import (
    CATALOG_QUERY,
    CatalogTable,
    PostgresGuard,
    catalog_table,
    columns_of,
    find_table,
    index_distinguishes,
    is_readable_as,
    write_scan,
)
from dpsql.errors import InternalError, PolicyError
from dpsql.policy import DatabaseSource, Policy, Table
from dpsql.types import TIMESTAMPTZ, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from adbc_driver_manager.dbapi import Cursor

OLDEST, NEWEST = 13, 18
"""The major versions of PostgreSQL that dpsql supports."""
_STALE = 0.2
"""The share of a table's rows from which changes since its last ANALYZE are worth a note."""

_SYSTEM = "n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'"
_KEYS = f"""
SELECT n.nspname::text AS schema, c.relname::text AS name, a.attname::text AS column,
  pn.nspname::text AS parent_schema, p.relname::text AS parent, b.attname::text AS theirs
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_class p ON p.oid = k.confrelid JOIN pg_namespace pn ON pn.oid = p.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.conkey[1]
JOIN pg_attribute b ON b.attrelid = p.oid AND b.attnum = k.confkey[1]
WHERE k.contype = 'f' AND array_length(k.conkey, 1) = 1 AND k.convalidated AND {_SYSTEM}
ORDER BY 1, 2, a.attnum
"""
_TYPES = f"""
SELECT n.nspname::text AS schema, c.relname::text AS name, a.attname::text AS column,
  CASE WHEN t.typtype = 'e' THEN 'ENUM ' ELSE '' END || format_type(a.atttypid, a.atttypmod) AS type
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'v', 'm') AND {_SYSTEM}
"""


class PostgresOwner:
    """What the owner's commands ask of PostgreSQL: schemas, facts, tests of a policy."""

    verified = "exists, may be read, types are as declared"

    def __init__(self, address: str) -> None:
        self._address = address

    def introspect(self, wanted: Callable[[str, str], bool | None]) -> tuple[list[Found], list[Skipped]]:
        """Return the tables that a policy may declare, and those left out."""
        return introspect_postgres(self._address, wanted)

    def adapt_file(self, table: Found) -> Found:
        """Return a file's table as it is: files are public tables here."""
        return table

    @contextmanager
    def open_catalog(self) -> Iterator[OwnerConnection]:
        """Connect as the policy says; raises `PolicyError` with the server's own words."""
        with owner_connection(self._address) as connection:
            yield connection

    def check_policy(self, policy: Policy) -> None:
        """Find no fault in a policy: PostgreSQL asks for nothing beyond what all engines do."""

    def describe_error(self, problem: BaseException) -> str:
        """Return the server's own words, in one line."""
        return postgres_words(problem)


class OwnerConnection:
    """A read-only session of the owner's, with the server's own words in errors: an `OwnerCatalog`."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query and return its rows; raises `PolicyError`."""
        try:
            self._cursor.execute(sql)
            rows = self._cursor.fetch_arrow_table()
        except Exception as problem:  # noqa: BLE001  the driver's errors have no common class
            words = postgres_words(problem)
        else:
            return list(zip(*(c.to_pylist() for c in rows.columns), strict=True))
        raise PolicyError(f"PostgreSQL: {words}")

    def has(self, table: Table) -> bool:
        """Whether a declared table is one of the database."""
        return isinstance(table.source, DatabaseSource)

    def describe(self) -> tuple[str, str]:
        """Return the level of a finding and what the server is."""
        ((number, text, role),) = self.ask(
            "SELECT current_setting('server_version_num')::int AS n, current_setting('server_version') AS v, "
            "current_user::text AS r"
        )
        major = number // 10000
        said = f"PostgreSQL {text.split()[0]}, as {role}"
        if major < OLDEST:
            return "wrong", f"{said}: versions from {OLDEST} on are supported"
        if major > NEWEST:
            return "note", f"{said}: tested are versions up to {NEWEST}"
        return "ok", f"{said}: a supported version"

    def check_table(self, table: Table, longest: int) -> None:
        """Raise `PolicyError` if a declared table is not as the policy says; no row is read."""
        source = _source_of(table)
        found = find_table(self.ask, table, source)
        columns = declared_columns(table, [(name, word) for name, _, word in columns_of(found)])
        write_scan(table, found, columns, longest)
        if not table.public:
            PostgresGuard(table, source, columns, found).check_facts(found)

    def describe_statistics(self, table: Table) -> str:
        """Say that statistics are missing or stale, with the statement that mends it; empty if not."""
        source = _source_of(table)
        rows = self.ask(
            "SELECT c.oid::regclass::text AS t, c.reltuples::float8 AS n, "
            "coalesce(s.n_mod_since_analyze, 0)::float8 AS m FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid "
            "WHERE c.relkind IN ('r', 'p', 'm') "
            f"AND lower(n.nspname) = lower({string_literal(source.schema or 'public')}) "
            f"AND lower(c.relname) = lower({string_literal(source.table)})"
        )
        for name, rows_then, changes in rows:
            if rows_then < 0:
                return f"PostgreSQL has no statistics of it, so its plans may be slow: ANALYZE {name}"
            if changes > _STALE * max(rows_then, 100):
                return f"its statistics are stale, so plans may be slow: ANALYZE {name}"
        return ""


def _source_of(table: Table) -> DatabaseSource:
    if not isinstance(table.source, DatabaseSource):
        raise InternalError("the table is not one of the database")
    return table.source


def postgres_words(problem: BaseException) -> str:
    r"""Return the server's own words, in one line: for the owner alone.

    >>> postgres_words(ValueError("INTERNAL: [libpq] Failed to connect: no such host\n\n"))
    'no such host'
    """
    text = " ".join(str(problem).split())
    text = re.sub(r"^[A-Z_]+: \[libpq\] (Failed to [a-z ]+: )?", "", text)
    return re.sub(r"( Query:.*| Query was:.*)$", "", text)[:500]


@contextmanager
def owner_connection(address: str) -> Iterator[OwnerConnection]:
    """Connect as the policy says; raises `PolicyError` with the server's own words."""
    try:
        from adbc_driver_postgresql import dbapi  # noqa: PLC0415  an extra
    except ImportError:
        raise PolicyError(
            "database.engine: the PostgreSQL driver is not installed", hint="pip install dpsql[postgres]"
        ) from None
    try:
        connection = dbapi.connect(address, autocommit=True)
    except Exception as problem:  # noqa: BLE001  the driver's errors have no common class
        words = postgres_words(problem)
    else:
        try:
            with connection.cursor() as cursor:
                for sql in ("BEGIN READ ONLY", "SET LOCAL search_path = pg_catalog, pg_temp"):
                    cursor.execute(sql)
                yield OwnerConnection(cursor)
                with suppress(Exception):
                    cursor.execute("ROLLBACK")
        finally:
            with suppress(Exception):
                connection.close()
        return
    raise PolicyError(
        f"database.engine: PostgreSQL cannot be reached: {words}",
        hint="libpq reads the password from ~/.pgpass or PGPASSWORD, the host also from PGHOST",
    )


def introspect_postgres(
    address: str, wanted: Callable[[str, str], bool | None]
) -> tuple[list[Found], list[Skipped]]:
    """Return the tables of a database that a policy may declare, and those left out.

    `wanted` says of a schema and a name whether the owner wants it: True if it was named, None if nothing was
    said. A view is taken only where it was named, which is the owner's word that it is stable.
    """
    found, skipped = [], []
    with owner_connection(address) as connection:
        engine = _full_address(address, connection)
        rows = connection.ask(
            f"{CATALOG_QUERY} c.relkind IN ('r', 'p', 'v', 'm') AND NOT c.relispartition AND {_SYSTEM} "
            "ORDER BY n.nspname <> 'public', n.nspname, c.relname"
        )
        parents = connection.ask(_KEYS)
        types = {(s, t, c): kind for s, t, c, kind in connection.ask(_TYPES)}
        ((role,),) = connection.ask("SELECT quote_ident(current_user) AS r")
    for row in rows:
        seen = json.loads(row[0])
        schema, name = seen["schema"], seen["name"]
        chosen = wanted(schema, name)
        if chosen is False:
            continue
        table, shown = catalog_table(seen), _qualify(schema, name)
        if reason := _find_obstacle(seen, table, role, chosen=chosen is True):
            skipped.append(Skipped(shown, *reason))
            continue
        found.append(
            Found(
                name=make_table_name(name if schema == "public" else f"{schema}_{name}"),
                source=shown,
                database=None,
                columns=_found_columns(
                    table,
                    {c: kind for (s, t, c), kind in types.items() if (s, t) == (schema, name)},
                    set(seen["denied"]),
                ),
                unique=_unique_sets(table),
                not_null=tuple(c.name for c in table.columns if c.never_null),
                parents=tuple(
                    (c, _qualify(ps, p), b) for s, t, c, ps, p, b in parents if (s, t) == (schema, name)
                ),
                engine=engine,
                stable=table.view,
            )
        )
    return found, skipped


def _qualify(schema: str, name: str) -> str:
    """Write the name of a table as a policy does: without the schema where that is `public`."""
    return qualified_name("main" if schema == "public" else schema, name)


def _find_obstacle(seen: dict[str, Any], table: CatalogTable, role: str, *, chosen: bool) -> tuple[str, ...]:
    """Return why a table cannot be declared and what mends it; empty if it can."""
    denied = len(seen["denied"]) == len(table.columns)
    if not seen["usage"] or denied:
        grants = [] if seen["usage"] else [f'GRANT USAGE ON SCHEMA "{seen["schema"]}" TO {role}']
        grants += [f"GRANT SELECT ON {table.text} TO {role}"] if denied else []
        return f"{role} may not read it", "; ".join(grants)
    if seen["rows_hidden"]:
        return "it has row-level security", f"ALTER TABLE {table.text} DISABLE ROW LEVEL SECURITY"
    if not set(seen["children"] or ()) <= {"r", "p"}:
        return "a partition is a foreign table", ""
    if table.view and not chosen:
        name = _qualify(seen["schema"], seen["name"])
        return "it is a view", f"--table {name}, if each of its rows comes from rows of one unit"
    return ()


def _found_columns(table: CatalogTable, types: dict[str, str], denied: set[str]) -> tuple[FoundColumn, ...]:
    made = []
    for (name, _, word), column in zip(columns_of(table), table.columns, strict=True):
        kind = None if name in denied else _declarable_kind(column.type_name, column.modifier, word)
        if kind is not None and not is_readable_as(table, name, kind):
            kind = None
        same = kind is not None and (word == str(kind) or kind == TIMESTAMPTZ)
        made.append(FoundColumn(name, kind, word if same and column.type_name != "enum" else types[name]))
    return tuple(made)


def _declarable_kind(physical: str, modifier: int, word: str) -> SqlType | None:
    if physical == "numeric" and modifier < 4:
        return SqlType("DECIMAL", 18, 4)  # it states no decimals
    return declarable_type(word)


def _unique_sets(table: CatalogTable) -> tuple[tuple[str, ...], ...]:
    """Return the sets of columns that an index keeps unique in the sense of a policy."""
    if table.children:
        return ()
    declared = {
        n: _declarable_kind(c.type_name, c.modifier, w)
        for (n, _, w), c in zip(columns_of(table), table.columns, strict=True)
    }
    by_number = {c.number: c for c in table.columns}
    facts = []
    for numbers, equal in table.indexes:
        columns = [by_number[number] for number in sorted(numbers)]
        if all(
            (kind := declared[c.name]) is not None
            and index_distinguishes(c, kind, unit=False)
            and (equal or c.never_null)
            for c in columns
        ):
            facts.append(tuple(c.name for c in columns))
    return tuple(dict.fromkeys(facts))


def _full_address(address: str, connection: OwnerConnection) -> str:
    """Return an address with the role and the database that libpq's environment stood for."""
    ((role, database),) = connection.ask("SELECT session_user::text AS u, current_database()::text AS d")
    parts = urlsplit(address)
    host, _, port = parts.netloc.rpartition("@")[2].partition(":")
    host, port = host or os.environ.get("PGHOST", ""), port or os.environ.get("PGPORT", "")
    query = parts.query
    if host.startswith("/"):
        query, host = "&".join(filter(None, (query, f"host={quote(host, safe='/')}"))), ""
    place = f"{quote(role)}@{host}{f':{port}' if port else ''}/{quote(database)}"
    return f"postgresql://{place}{f'?{query}' if query else ''}"
