"""The rows of the catalogue about a policy's tables and views, and about the session that asks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy, Table, UnitColumn, UnitVia, describe_protected, fold
from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.facts import Facts
from dpsql.serve.catalog.postgres_data import Row, data
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


@dataclass(frozen=True, slots=True)
class Place:
    """Where a session asks: the database's name and the policy's relations."""

    name: str
    relations: Sequence[PolicyRelation]


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


def policy_tables(place: Place) -> dict[str, pa.Table]:
    """Return the tables that `policy.sql` reads."""
    found = place.relations
    columns = [
        (own.oid, number, name, pg_types.column_oid(kind), pg_types.type_modifier(kind), own.comments)
        for own in found
        for number, (name, kind) in enumerate(own.columns, start=1)
    ]
    integers, texts = ("oid", "row_type", "array_type"), ("name", "kind", "comment")
    given = {name: pa.array([getattr(own, name) for own in found], pa.int64()) for name in integers}
    given |= {name: pa.array([getattr(own, name) for own in found], pa.string()) for name in texts}
    told = [*zip(*columns, strict=True)] or [()] * 6
    return {
        "given_database": pa.table({"name": [place.name]}),
        "given_relations": pa.table(given | {"width": [len(own.columns) for own in found]}),
        "given_columns": pa.table(
            {
                **{name: pa.array(told[i], pa.int64()) for i, name in ((0, "relation"), (1, "number"))},
                "name": pa.array(told[2], pa.string()),
                **{name: pa.array(told[i], pa.int64()) for i, name in ((3, "type"), (4, "modifier"))},
                "comment": pa.array([row[5].get(fold(row[2])) for row in columns], pa.string()),
            }
        ),
    }


# The relations whose rows are made at each question.


def _roles(facts: Facts, place: Place) -> list[Row]:
    rights = ["rolsuper", "rolcreaterole", "rolcreatedb", "rolreplication", "rolbypassrls"]
    common: Row = {"rolinherit": True, "rolconnlimit": -1, "rolpassword": "********"}
    return [
        common | dict.fromkeys(rights, True) | {"rolname": "dpsql", "rolcanlogin": False, "oid": OWNER},
        common | dict.fromkeys(rights, False) | {"rolname": facts.user, "rolcanlogin": True, "oid": ANALYST},
    ]


def _users(facts: Facts, place: Place) -> list[Row]:
    rights = ["usecreatedb", "usesuper", "userepl", "usebypassrls"]
    return [dict.fromkeys(rights, False) | {"usename": facts.user, "usesysid": ANALYST, "passwd": "********"}]


def _activity(facts: Facts, place: Place) -> list[Row]:
    common: Row = {"datid": DATABASE, "datname": place.name, "usesysid": ANALYST, "query": ""}
    return [
        common
        | {"pid": one.pid, "usename": one.user, "application_name": one.application_name, "state": one.state}
        | {"client_addr": one.address, "client_port": one.port, "backend_start": one.started}
        | {"backend_type": "client backend"}
        for one in facts.connections
    ]


def _encryption(facts: Facts, place: Place) -> list[Row]:
    return [
        {"pid": one.pid, "ssl": used.version is not None, "version": used.version}
        | {"cipher": used.cipher, "bits": used.bits}
        for one in facts.connections
        if (used := one.encryption) is not None
    ]


def _settings(facts: Facts, place: Place) -> list[Row]:
    own = {name.lower(): (name, value) for name, value in facts.settings.items()}
    found: list[Row] = []
    for known in data().settings:
        _, value = own.pop(known["name"].lower(), ("", None))
        # A number with a unit is shown as `4MB` by `SHOW`, and as 4096 here.
        found.append(known if value is None or known["unit"] is not None else {**known, "setting": value})
    common: Row = {"category": "dpsql", "context": "user", "vartype": "string", "source": "session"}
    common["pending_restart"] = False
    found += [common | {"name": name, "setting": value, "reset_val": value} for name, value in own.values()]
    return sorted(found, key=lambda row: str(row["name"]).lower())


def _prepared(facts: Facts, place: Place) -> list[Row]:
    return [
        {"name": one.name, "statement": one.statement, "prepare_time": one.prepared, "from_sql": one.from_sql}
        | {"parameter_types": [data().type_oids.get(name, 25) for name in one.parameters]}
        | {"generic_plans": 0, "custom_plans": 0}
        for one in facts.prepared
    ]


def _cursors(facts: Facts, place: Place) -> list[Row]:
    return [
        {"name": one.name, "statement": one.statement, "creation_time": one.created}
        | {"is_holdable": one.hold, "is_binary": one.binary, "is_scrollable": one.scroll}
        for one in facts.cursors
    ]


def _table_grants(facts: Facts, place: Place) -> list[Row]:
    common: Row = {
        "grantor": "dpsql",
        "grantee": facts.user,
        "privilege_type": "SELECT",
        "is_grantable": "NO",
    }
    common |= {"table_catalog": place.name, "table_schema": "public", "with_hierarchy": "YES"}
    return [common | {"table_name": relation.name} for relation in place.relations]


def _column_grants(facts: Facts, place: Place) -> list[Row]:
    grants = zip(_table_grants(facts, place), place.relations, strict=True)
    return [{**row, "column_name": name} for row, relation in grants for name, _ in relation.columns]


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
    ("information_schema", "enabled_roles"): lambda facts, place: [{"role_name": facts.user}],
}
"""The relations whose rows are made at each question."""


def all_settings(facts: Facts) -> dict[str, str]:
    """Return the values of all settings as `SHOW` writes them, by their names in lower case."""
    found = {row["name"].lower(): _with_unit(str(row["setting"]), row["unit"]) for row in data().settings}
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
