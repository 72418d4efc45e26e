"""Relations whose rows are made at each question, from the facts of the session that asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dpsql.lazy_dataclass import dataclass
from dpsql.serve.catalog.data import data
from dpsql.serve.catalog.facts import Facts
from dpsql.serve.catalog.objects import ANALYST, DATABASE, OWNER, PolicyRelation, Row, records


@dataclass(frozen=True, slots=True)
class Place:
    """Where a session asks: the database's name and the policy's relations."""

    name: str
    relations: Sequence[PolicyRelation]


def _roles(facts: Facts, place: Place) -> list[Row]:
    rights = ["rolsuper", "rolcreaterole", "rolcreatedb", "rolreplication", "rolbypassrls"]
    common: Row = {"rolinherit": True, "rolconnlimit": -1, "rolpassword": "********"}
    return [
        common | dict.fromkeys(rights, True) | {"rolname": "dpsql", "rolcanlogin": False, "oid": OWNER},
        common | dict.fromkeys(rights, False) | {"rolname": facts.user, "rolcanlogin": True, "oid": ANALYST},
    ]


def _users(facts: Facts, place: Place) -> list[Row]:
    rights = ["usecreatedb", "usesuper", "userepl", "usebypassrls"]
    own = {"usename": facts.user, "usesysid": ANALYST, "passwd": "********"}
    return [{**dict.fromkeys(rights, False), **own}]


def _activity(facts: Facts, place: Place) -> list[Row]:
    return [
        {
            "datid": DATABASE,
            "datname": place.name,
            "pid": one.pid,
            "usesysid": ANALYST,
            "usename": one.user,
            "application_name": one.application_name,
            "client_addr": one.address,
            "client_port": one.port,
            "backend_start": one.started,
            "state": one.state,
            "query": "",
            "backend_type": "client backend",
        }
        for one in facts.connections
    ]


def _encryption(facts: Facts, place: Place) -> list[Row]:
    return [
        {
            "pid": one.pid,
            "ssl": one.encryption.version is not None,
            "version": one.encryption.version,
            "cipher": one.encryption.cipher,
            "bits": one.encryption.bits,
        }
        for one in facts.connections
        if one.encryption is not None
    ]


def _settings(facts: Facts, place: Place) -> list[Row]:
    own = {name.lower(): (name, value) for name, value in facts.settings.items()}
    found: list[Row] = []
    for row in records(data().settings):
        _, value = own.pop(str(row["name"]).lower(), ("", None))
        if value is not None and _is_plain(row):
            row |= {"setting": value}
        found.append(row)
    own_row: Row = {"category": "dpsql", "context": "user", "vartype": "string", "source": "session"}
    found += [
        {**own_row, "name": name, "setting": value, "reset_val": value, "pending_restart": False}
        for name, value in own.values()
    ]
    return sorted(found, key=lambda row: str(row["name"]).lower())


def _is_plain(row: Row) -> bool:
    """Return whether the setting's value is shown without a unit: `SHOW` writes `4MB`, `pg_settings` 4096."""
    return row["unit"] is None


def _prepared(facts: Facts, place: Place) -> list[Row]:
    return [
        {
            "name": one.name,
            "statement": one.statement,
            "prepare_time": one.prepared,
            "parameter_types": [data().type_oids.get(name, 25) for name in one.parameters],
            "from_sql": one.from_sql,
            "generic_plans": 0,
            "custom_plans": 0,
        }
        for one in facts.prepared
    ]


def _cursors(facts: Facts, place: Place) -> list[Row]:
    return [
        {
            "name": one.name,
            "statement": one.statement,
            "is_holdable": one.hold,
            "is_binary": one.binary,
            "is_scrollable": one.scroll,
            "creation_time": one.created,
        }
        for one in facts.cursors
    ]


def _table_grants(facts: Facts, place: Place) -> list[Row]:
    return [
        {
            "grantor": "dpsql",
            "grantee": facts.user,
            "table_catalog": place.name,
            "table_schema": "public",
            "table_name": relation.name,
            "privilege_type": "SELECT",
            "is_grantable": "NO",
            "with_hierarchy": "YES",
        }
        for relation in place.relations
    ]


def _column_grants(facts: Facts, place: Place) -> list[Row]:
    grants = zip(_table_grants(facts, place), place.relations, strict=True)
    return [{**row, "column_name": name} for row, relation in grants for name, _ in relation.columns]


def _enabled_roles(facts: Facts, place: Place) -> list[Row]:
    return [{"role_name": facts.user}]


LIVE: Mapping[tuple[str, str], Callable[[Facts, Place], list[Row]]] = {
    ("pg_catalog", "pg_roles"): _roles,
    ("pg_catalog", "pg_user"): _users,
    ("pg_catalog", "pg_stat_activity"): _activity,
    ("pg_catalog", "pg_stat_ssl"): _encryption,
    ("pg_catalog", "pg_settings"): _settings,
    ("pg_catalog", "pg_prepared_statements"): _prepared,
    ("pg_catalog", "pg_cursors"): _cursors,
    ("information_schema", "table_privileges"): _table_grants,
    ("information_schema", "role_table_grants"): _table_grants,
    ("information_schema", "column_privileges"): _column_grants,
    ("information_schema", "role_column_grants"): _column_grants,
    ("information_schema", "enabled_roles"): _enabled_roles,
}
"""The relations that are made at each question."""


def setting(facts: Facts, name: str) -> str | None:
    """Return the value of a setting as `SHOW` writes it; None if there is none of this name."""
    return all_settings(facts).get(name.lower())


def all_settings(facts: Facts) -> dict[str, str]:
    """Return the values of all settings as `SHOW` writes them, by their names in lower case."""
    found = {
        str(row["name"]).lower(): _with_unit(str(row["setting"]), row["unit"])
        for row in records(data().settings)
    }
    return found | {name.lower(): value for name, value in facts.settings.items()}


_LARGER = {
    "kB": (("GB", 1 << 20), ("MB", 1 << 10), ("kB", 1)),
    "8kB": (("GB", 1 << 17), ("MB", 1 << 7)),
    "MB": (("GB", 1 << 10), ("MB", 1)),
    "B": (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10), ("B", 1)),
    "ms": (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)),
    "s": (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)),
    "min": (("d", 1440), ("h", 60), ("min", 1)),
}


def _with_unit(value: str, unit: object) -> str:
    """Return a number with the largest unit that keeps it whole, as PostgreSQL shows settings."""
    number = int(value) if value.lstrip("-").isdigit() else 0
    if number > 0:
        for larger, factor in _LARGER.get(str(unit), ()):
            if number % factor == 0:
                return f"{number // factor}{larger}"
        if unit == "8kB":
            return f"{number * 8}kB"
    return value
