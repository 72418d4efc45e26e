"""Compare the catalogue with a real PostgreSQL 15, statement by statement.

    python -m tests.serve.catalog_oracle FILE --postgres "host=127.0.0.1 dbname=clinic user=dpsql"

FILE has blocks of a line `-- [n] origin`, a statement, and a line `;`. The database has the tables
`visits` (patient_id bigint, clinic text, diagnosis_code text, visit_date date) and `diagnoses` (code text
primary key, diagnosis text) in schema `public`, and the role `alice`, who is the analyst. In an empty
PostgreSQL made by `initdb --locale=C -E UTF8 -U dpsql` they are made in this order, so that their OIDs are
those of `catalog_cases.OIDS`: the database, the role, `visits`, `diagnoses`.

A statement is compared in three ways: whether it runs, the names and types of its columns, and its rows.
PostgreSQL has objects of its own that the catalogue does not show on purpose, so the rows are compared with
those of a second run, in which every relation of `pg_catalog` is replaced by a view of what the catalogue
shows: see `_RESTRICTED`. The schema `_oracle` with these views is made in the database.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import psycopg
from sqlglot.dialects.postgres import Postgres
from sqlglot.tokenizer_core import TokenType

from dpsql.kernel.tree import quote
from dpsql.serve.catalog import ConnectionRow, Route, SessionFacts
from dpsql.serve.catalog.catalog import PgCatalog
from dpsql.serve.catalog.postgres import load_data
from tests.serve.catalog_cases import TABLES, Declared, Result, Statement, ours, plain, policy, statements

COMMENTS = {
    "visits": "private, the privacy unit is patient_id",
    "visits.patient_id": "the privacy unit (unit)",
    "diagnoses": "public",
}
"""The comments that the catalogue gives the tables and columns."""
_OWN_TYPES = "typname IN ('visits', '_visits', 'diagnoses', '_diagnoses')"


def _ids(rows: Sequence[Sequence[object]], place: int = 0) -> str:
    return ", ".join(str(row[place]) for row in rows)


def _shipped(table: str) -> str:
    return _ids([list(row.values()) for row in load_data().tables[table]])


_NONE = "false"
_RESTRICTED: dict[str, str] = {
    "pg_class": "relname IN ('visits', 'diagnoses') AND relkind = 'r'",
    "pg_attribute": "attrelid IN ('public.visits'::regclass, 'public.diagnoses'::regclass) AND attnum > 0",
    "pg_type": f"oid IN ({_shipped('pg_type')}) OR {_OWN_TYPES}",
    "pg_proc": f"oid IN ({_shipped('pg_proc')})",
    "pg_namespace": "nspname IN ('pg_catalog', 'public', 'information_schema')",
    "pg_database": "datname = current_database()",
    "pg_roles": "rolname IN ('dpsql', 'alice')",
    "pg_user": "usename = 'alice'",
    "pg_language": "lanname <> 'plpgsql'",
    "pg_collation": "oid < 1000",
    "pg_tables": "schemaname = 'public'",
    "pg_stat_activity": "usename = 'alice'",
    "pg_settings": "true",
    "pg_cast": "true",
    "pg_am": "true",
    "pg_range": "true",
    "pg_tablespace": "true",
}
"""What the catalogue shows of PostgreSQL's relations; of those not named here it shows nothing."""
_CHANGED: dict[str, dict[str, str]] = {
    "pg_class": {
        "relhasindex": "false",
        "reltoastrelid": "0::oid",
        "relacl": "NULL::aclitem[]",
        "relfrozenxid": "'0'::xid",
        "relminmxid": "'0'::xid",
    },
    "pg_attribute": {"attnotnull": "false"},
    "pg_database": {"datfrozenxid": "'0'::xid", "datminmxid": "'0'::xid"},
    "pg_roles": {"rolcanlogin": "rolname = 'alice'"},
    "pg_tables": {"hasindexes": "false"},
    "pg_namespace": {"nspacl": "NULL::aclitem[]"},
    "pg_language": {"lanacl": "NULL::aclitem[]"},
    "pg_type": {"typdefaultbin": "NULL::pg_node_tree"},
    "pg_proc": {
        "proargdefaults": "NULL::pg_node_tree",
        "prosqlbody": "NULL::pg_node_tree",
        "proacl": "NULL::aclitem[]",
    },
}
"""Columns that differ on purpose: the catalogue knows no indexes, rights, toast tables or transactions."""
_STANDARD = {
    "tables": ("table_schema = 'public'", {"is_insertable_into": "'NO'::information_schema.yes_or_no"}),
    "columns": (
        "table_schema = 'public'",
        {
            "is_nullable": "'YES'::information_schema.yes_or_no",
            "is_updatable": "'NO'::information_schema.yes_or_no",
        },
    ),
    "schemata": ("schema_name IN ('public', 'pg_catalog', 'information_schema')", {}),
    "character_sets": ("true", {}),
    "enabled_roles": ("true", {}),
    "information_schema_catalog_name": ("true", {}),
    "table_privileges": ("table_schema = 'public'", {}),
    "role_table_grants": ("table_schema = 'public'", {}),
    "column_privileges": ("table_schema = 'public'", {}),
}


class Oracle:
    """A real PostgreSQL, asked as `alice`; `restricted` reads the views of what the catalogue shows."""

    def __init__(self, dsn: str) -> None:
        self._owner = psycopg.connect(dsn, autocommit=True)
        self._prepare()
        self._alice = psycopg.connect(dsn, user="alice", autocommit=True)
        self._alice.execute("SET statement_timeout = '20s'")

    def close(self) -> None:
        """Close the connections."""
        self._owner.close()
        self._alice.close()

    def oids(self) -> dict[str, int]:
        """Return the OIDs of the two tables."""
        rows = self._owner.execute(
            "SELECT relname, oid FROM pg_class WHERE relname = ANY(%s)", [list(TABLES)]
        )
        return {name: int(oid) for name, oid in rows.fetchall()}

    def comment(self, comments: dict[str, str]) -> None:
        """Write the comments that the catalogue gives the tables and columns."""
        for place, text in comments.items():
            kind = "COLUMN" if "." in place else "TABLE"
            self._owner.execute(f"COMMENT ON {kind} public.{place} IS '{text}'")

    def _prepare(self) -> None:
        execute = self._owner.execute
        execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO alice")
        execute("ALTER SCHEMA public OWNER TO dpsql")
        for schema in ("_oracle", "_oracle_oid", "_oracle_standard"):
            execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
            execute(f"CREATE SCHEMA {schema}")
            execute(f"GRANT USAGE ON SCHEMA {schema} TO alice")
        described = " UNION ALL ".join(
            f"SELECT {row['objoid']}::oid, {row['classoid']}::oid, {row['objsubid']}"
            for row in load_data().tables["pg_description"]
        )
        own = "SELECT oid FROM pg_class WHERE relname IN ('visits', 'diagnoses')"
        shown = f"(objoid, classoid, objsubid) IN (SELECT * FROM ({described}) k) OR objoid IN ({own})"
        rules = _RESTRICTED | {"pg_description": shown}
        for (schema, name), relation in load_data().relations.items():
            if schema == "information_schema":
                rule, changed = _STANDARD.get(name, (_NONE, {}))
                forms = [("_oracle_standard", "")]
            else:
                rule, changed = rules.get(name, _NONE), _CHANGED.get(name, {})
                forms = [("_oracle", ""), ("_oracle_oid", "" if relation.kind == "v" else ", tableoid")]
            # A view cannot have columns of these types: anyarray, and arrays of rows that have one.
            changed = changed | {c: "NULL::text[]" for c, oid in relation.columns if oid in (2277, 10028)}
            cells = ", ".join(f'{changed.get(c, quote(c))} AS "{c}"' for c, _ in relation.columns)
            for place, more in forms:
                source = f'SELECT {cells}{more} FROM {schema}."{name}" WHERE {rule}'
                execute(f'CREATE VIEW {place}."{name}" AS {source}')
                execute(f'GRANT SELECT ON {place}."{name}" TO alice')

    def ask(self, text: str) -> Result:
        """Ask a statement as it is."""
        try:
            with self._alice.cursor() as cursor:
                cursor.execute("RESET ALL")
                cursor.execute(text.encode())
                if cursor.description is None:
                    return Result()
                names = tuple(column.name for column in cursor.description)
                oids = tuple(column.type_code for column in cursor.description)
                return Result(names, oids, tuple(cursor.fetchall()))
        except psycopg.Error as problem:
            return Result(error=str(problem).partition("\n")[0])

    def restricted(self, text: str) -> Result:
        """Ask a statement over the views."""
        return self.ask(restricted(text))


def restricted(text: str) -> str:
    """Return a statement whose relations of the catalogue are replaced by the views."""
    tokens = Postgres().tokenize(text)
    known = load_data().relations
    edits: list[tuple[int, int, str]] = []
    for i, token in enumerate(tokens):
        if token.token_type == TokenType.STRING:
            continue
        word, before = token.text.lower(), tokens[i - 1] if i else None
        dotted = before is not None and before.token_type == TokenType.DOT and i > 1
        schema = tokens[i - 2].text.lower() if dotted else ""
        if dotted and schema not in ("pg_catalog", "information_schema"):
            continue
        key = (schema or "pg_catalog", word)
        if key not in known or (i + 1 < len(tokens) and tokens[i + 1].token_type == TokenType.L_PAREN):
            continue
        if not dotted and i + 1 < len(tokens) and tokens[i + 1].token_type == TokenType.DOT:
            continue  # the name of a source before a column
        target = "_oracle_oid" if "tableoid" in text else "_oracle"
        target = "_oracle_standard" if key[0] == "information_schema" else target
        start = tokens[i - 2].start if dotted else token.start
        edits.append((start, token.end + 1, f'{target}."{word}"'))
    for start, end, new in reversed(edits):
        text = text[:start] + new + text[end:]
    return text


MAX_ROWS = 40


def expectations(oracle: Oracle, asked: Sequence[Statement]) -> str:
    """Return what PostgreSQL answers, restricted, as JSON: columns, number of rows, and at most 40 rows."""
    lines = []
    for statement in asked:
        real, limited = oracle.ask(statement.text), oracle.restricted(statement.text)
        if real.error or limited.error:
            raise ValueError(f"[{statement.number}] {real.error or limited.error}")
        found = {
            "columns": list(zip(real.names, real.oids, strict=True)),
            "count": len(limited.rows),
            "rows": sorted((plain(row) for row in limited.rows), key=str)
            if len(limited.rows) <= 40
            else None,
        }
        lines.append(f'"{statement.number}": {json.dumps(found, default=str, ensure_ascii=False)}')
    return "{" + ",\n".join(lines) + "}\n"


def _same(first: Result, second: Result) -> bool:
    return Counter(map(plain, first.rows)) == Counter(map(plain, second.rows))


def main() -> int:
    """Compare all statements of a file and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--postgres", required=True, help="connection string of a superuser named dpsql")
    parser.add_argument("--expect", type=Path, help="write what PostgreSQL answers to this JSON file")
    parser.add_argument("--show", type=int, nargs="*", help="print both answers to these statements")
    options = parser.parse_args()
    oracle = Oracle(options.postgres)
    catalog = PgCatalog(policy(), Declared(), "clinic", oids=oracle.oids())
    pid = int(str(oracle.ask("SELECT pg_backend_pid()").rows[0][0]))
    facts = SessionFacts("alice", pid, {}, (ConnectionRow(pid, "alice"),))
    oracle.comment(COMMENTS)
    if options.expect:
        options.expect.write_text(expectations(oracle, statements(options.file)), encoding="utf-8")
        return 0
    figures: Counter[str] = Counter()
    times: list[float] = []
    for statement in statements(options.file):
        if catalog.route(statement.text) is not Route.CATALOG:
            figures["not of the catalogue"] += 1
            continue
        if catalog.signal(statement.text) is not None:
            figures["a signal"] += 1
            continue
        expected, limited = oracle.ask(statement.text), oracle.restricted(statement.text)
        found = ours(catalog, facts, statement.text)
        begun = time.perf_counter()
        ours(catalog, facts, statement.text)
        times.append(time.perf_counter() - begun)
        _judge(figures, statement, expected, limited, found)
        if options.show and statement.number in options.show:
            for kind, result in (("real", expected), ("restricted", limited), ("ours", found)):
                print(kind, result.names, result.oids, result.error, *result.rows[:20], sep="\n   ")
    times.sort()
    median, slow = (times[len(times) * part // 100] * 1000 for part in (50, 95))
    print(f"second answer: median {median:.1f} ms, p95 {slow:.1f} ms")
    for name, count in sorted(figures.items()):
        print(f"{count:5d}  {name}")
    return 0


def _judge(
    figures: Counter[str], statement: Statement, expected: Result, limited: Result, found: Result
) -> None:
    figures["asked"] += 1
    if expected.error:
        figures["PostgreSQL refuses" + (", so do we" if found.error else ", we answer")] += 1
        return
    figures["PostgreSQL answers"] += 1
    if found.error:
        print(f"[{statement.number}] {statement.origin[:40]}: {found.error}")
        return
    figures["we answer too"] += 1
    if found.names == expected.names:
        figures["same names"] += 1
    else:
        print(f"[{statement.number}] names {expected.names} not {found.names}")
    if found.oids == expected.oids:
        figures["same types"] += 1
    else:
        differ = [
            (n, a, b) for n, a, b in zip(expected.names, expected.oids, found.oids, strict=False) if a != b
        ]
        print(f"[{statement.number}] types {differ[:6]}")
    if _same(found, expected):
        figures["very same rows"] += 1
    if limited.error:
        print(f"[{statement.number}] restricted: {limited.error}")
        figures["same rows, restricted"] += _same(found, expected)
    elif _same(found, limited):
        figures["same rows, restricted"] += 1
    else:
        first = Counter(map(plain, limited.rows)) - Counter(map(plain, found.rows))
        second = Counter(map(plain, found.rows)) - Counter(map(plain, limited.rows))
        print(f"[{statement.number}] {statement.origin[:30]} rows {len(limited.rows)} not {len(found.rows)}")
        print("    missing", str(list(first)[:2])[:400])
        print("    more   ", str(list(second)[:2])[:400])


if __name__ == "__main__":
    sys.exit(main())
