"""Write `dpsql/serve/catalog/postgresql15.json` from an empty PostgreSQL 15: by hand, once a version.

    initdb --no-locale -E UTF8 -A trust -U dpsql ..; createdb clinic; CREATE ROLE alice LOGIN
    python -m tests.serve.make_catalog_data --postgres "host=127.0.0.1 port=5499 dbname=clinic"

The file has the columns of every relation of `pg_catalog` and `information_schema`; the rows of the types, of
the functions that types and casts use or that the catalogue implements, of casts, access methods, languages
and key words; and the settings that an analyst (the role `alice`, without rights) is shown.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

from dpsql.serve.catalog.expressions import NAMES

TARGET = Path(__file__).parents[2] / "dpsql/serve/catalog/postgresql15.json"

_RELATIONS = """
SELECT n.nspname, c.relname, c.oid::int8, c.relkind, (
  SELECT json_agg(json_build_array(a.attname,
                  (CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END)::int8) ORDER BY a.attnum)
  FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = c.oid AND a.attnum > 0)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'v') ORDER BY 1, 2
"""
_TYPES = "typrelid = 0 AND typelem NOT IN (SELECT oid FROM pg_type WHERE typrelid <> 0)"
_TYPE_NAMES = f"SELECT oid::int8, format_type(oid, NULL) FROM pg_type WHERE {_TYPES} ORDER BY oid"
_SETTINGS = "SELECT attname FROM pg_attribute WHERE attrelid = 'pg_settings'::regclass AND attnum > 0"
_USED = f"""
SELECT unnest(ARRAY[typinput, typoutput, typreceive, typsend,
                    typmodin, typmodout, typanalyze, typsubscript])::oid
FROM pg_type WHERE {_TYPES}
UNION SELECT castfunc FROM pg_cast UNION SELECT amhandler::oid FROM pg_am
UNION SELECT unnest(ARRAY[rngcanonical, rngsubdiff])::oid FROM pg_range
UNION SELECT unnest(ARRAY[lanplcallfoid, laninline, lanvalidator]) FROM pg_language WHERE lanname <> 'plpgsql'
"""
_SHOWN = {"format_type", "obj_description", "col_description", "version", "current_setting", "to_regclass"}
"""Functions of the catalogue that are listed in `pg_proc`, beside those of its prefixes."""
_HIDDEN = {"typdefaultbin", "typacl", "proargdefaults", "proacl", "prosqlbody", "nspacl", "lanacl", "spcacl"}
"""Columns that are left NULL: trees of expressions, and rights."""


class Source:
    """A PostgreSQL that psql asks."""

    def __init__(self, dsn: str, user: str) -> None:
        self._dsn = f"{dsn} user={user}"

    def rows(self, query: str) -> list[list[object]]:
        """Return the rows of a query, their values as JSON has them."""
        whole = f"SELECT coalesce(json_agg(to_json(q)), '[]') FROM ({query.strip()}) q"
        command = ["psql", "-X", "-At", "-v", "ON_ERROR_STOP=1", "-d", self._dsn, "-c", whole]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return [list(row.values()) for row in json.loads(text)]


def table(source: Source, name: str, where: str) -> dict[str, object]:
    """Return the columns and rows of a table of pg_catalog: OIDs as numbers, vectors as lists."""
    columns = source.rows(
        "SELECT a.attname, t.typname FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
        f"WHERE a.attrelid = 'pg_catalog.{name}'::regclass AND a.attnum > 0 ORDER BY a.attnum"
    )
    cells = []
    for column, kind in columns:
        if column in _HIDDEN:
            cells.append(f"NULL AS {column}")
        elif kind in ("oid", "regproc", "xid"):
            cells.append(f"{column}::oid::int8")
        elif kind in ("oidvector", "int2vector"):
            cells.append(f"string_to_array({column}::text, ' ')::int8[] AS {column}")
        elif kind == "_oid":
            cells.append(f"{column}::int8[]")
        else:
            cells.append(str(column))
    rows = source.rows(f"SELECT {', '.join(cells)} FROM pg_catalog.{name} WHERE {where} ORDER BY 1, 2")
    return {"columns": [column for column, _ in columns], "rows": rows}


def settings(analyst: Source) -> list[list[object]]:
    """Return the settings with PostgreSQL's own values, not those of the server that is asked."""
    columns = [str(row[0]) for row in analyst.rows(f"{_SETTINGS} ORDER BY attnum")]
    found = []
    listed = "SELECT *, current_setting(name) FROM pg_settings"
    for *row, current in analyst.rows(f"{listed} WHERE name !~ '^shared_memory_size' ORDER BY name"):
        one = dict(zip(columns, row, strict=True))
        own = one["setting"]
        if one["source"] == "command line" or str(one["name"]).startswith("log"):
            one |= {"setting": one["boot_val"], "reset_val": one["boot_val"]}
        if one["name"] in _OWN:
            one |= dict.fromkeys(("setting", "reset_val", "boot_val"), _OWN[str(one["name"])])
        shown = current if one["setting"] == own else show_setting(str(one["setting"]), one["unit"])
        one |= {"source": "default", "pending_restart": False, "shown": shown}
        found.append(list(one.values()))
    return found


_OWN = {"server_version": "15.0", "server_version_num": "150000", "TimeZone": "UTC"}


_LARGER = {
    "kB": (("GB", 1 << 20), ("MB", 1 << 10), ("kB", 1)),
    "8kB": (("GB", 1 << 17), ("MB", 1 << 7)),
    "MB": (("GB", 1 << 10), ("MB", 1)),
    "B": (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10), ("B", 1)),
    "ms": (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)),
    "s": (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)),
    "min": (("d", 1440), ("h", 60), ("min", 1)),
}


def show_setting(value: str, unit: object) -> str:
    """Return a number with the largest unit that keeps it whole, as PostgreSQL shows settings."""
    number = int(value) if value.lstrip("-").isdigit() else 0
    if number > 0:
        for larger, factor in _LARGER.get(str(unit), ()):
            if number % factor == 0:
                return f"{number // factor}{larger}"
        if unit == "8kB":
            return f"{number * 8}kB"
    return value


def collect(owner: Source, analyst: Source) -> dict[str, object]:
    """Return the content of the data file."""
    shown = [name for name in sorted(NAMES) if name.startswith(("pg_", "has_")) or name in _SHOWN]
    named = ", ".join(f"'{name}'" for name in shown)
    schemas = "11, 'information_schema'::regnamespace"
    functions = f"oid IN ({_USED}) OR proname IN ({named}) AND pronamespace IN ({schemas})"
    described = f"""
        classoid = 'pg_type'::regclass AND objoid IN (SELECT oid FROM pg_type WHERE {_TYPES})
        OR classoid = 'pg_proc'::regclass AND objoid IN (SELECT oid FROM pg_proc WHERE {functions})
        OR classoid IN ('pg_am'::regclass, 'pg_namespace'::regclass)
        OR classoid = 'pg_language'::regclass
        AND objoid IN (SELECT oid FROM pg_language WHERE lanname <> 'plpgsql')"""
    tables = {
        "pg_type": table(owner, "pg_type", _TYPES),
        "pg_proc": table(owner, "pg_proc", functions),
        "pg_cast": table(owner, "pg_cast", "true"),
        "pg_am": table(owner, "pg_am", "true"),
        "pg_range": table(owner, "pg_range", "true"),
        "pg_language": table(owner, "pg_language", "lanname <> 'plpgsql'"),
        "pg_tablespace": table(owner, "pg_tablespace", "true"),
        "pg_namespace": table(owner, "pg_namespace", "nspname !~ '^(pg_toast|_)'"),
        "pg_collation": table(owner, "pg_collation", "oid < 1000"),
        "pg_description": table(owner, "pg_description", f"({described})"),
    }  # fmt: skip
    return {
        "relations": owner.rows(_RELATIONS),
        "tables": tables,
        "type_names": owner.rows(_TYPE_NAMES),
        "functions": owner.rows(
            "SELECT oid::int8, pg_get_function_result(oid), pg_get_function_arguments(oid), "
            "CASE WHEN prokind <> 'a' THEN pg_get_functiondef(oid) END, oid::regprocedure::text AS signature "
            f"FROM pg_proc WHERE {functions} ORDER BY oid"
        ),
        "keywords": owner.rows("SELECT * FROM pg_get_keywords() ORDER BY 1"),
        "settings": {
            "columns": [row[0] for row in owner.rows(f"{_SETTINGS} ORDER BY attnum")] + ["shown"],
            "rows": settings(analyst),
        },
    }  # fmt: skip


def write(content: dict[str, object]) -> str:
    """Return the file's text: one row a line, so that two versions can be compared."""

    def line(value: object) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    def block(value: object) -> str:
        if isinstance(value, dict):
            return "{" + ",\n".join(f"{line(key)}:{block(part)}" for key, part in value.items()) + "}"
        if isinstance(value, list) and value and isinstance(value[0], list):
            return "[\n" + ",\n".join(line(row) for row in value) + "]"
        return line(value)

    return block(content) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--postgres", required=True, help="connection string without a user")
    dsn = parser.parse_args().postgres
    TARGET.write_text(write(collect(Source(dsn, "dpsql"), Source(dsn, "alice"))), encoding="utf-8")
