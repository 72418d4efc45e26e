"""Check the engine of a policy (`[database] engine`): a known name, or an address without a password."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from dpsql.policy.names import suggest, wrong

ADDRESSES = ("duckdb", "spark", "postgresql://user@host/database", "sc://host:15002")
"""The engines that a policy may name, for messages and documents."""
_KINDS = {
    "duckdb": "duckdb",
    "postgresql://": "postgresql",
    "postgres://": "postgresql",
    "spark": "spark",
    "sc://": "spark",
}
"""Name, or scheme of an address -> kind of the engine."""
_KEY = "database.engine"
_LIBPQ = frozenset(
    {"host", "port", "service", "passfile", "connect_timeout", "keepalives", "target_session_attrs"}
    | {"sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "channel_binding", "gssencmode"}
    | {"krbsrvname", "require_auth"}
)
"""The allowed parameters of a PostgreSQL address: the server and the connection, not the session."""
_CONNECT = frozenset({"use_ssl", "user_id"})
_PASSWORD = "an address in a policy has no password: analysts may read the policy"  # noqa: S105  it is none


def engine_kind(engine: str) -> str:
    """Return the kind of an engine: `duckdb`, `postgresql` or `spark`; "" if it is unknown.

    >>> [engine_kind(e) for e in ("duckdb", "postgresql://alice@db/shop", "spark", "sc://host:15002")]
    ['duckdb', 'postgresql', 'spark', 'spark']
    """
    scheme, slashes, _ = engine.partition("://")
    return _KINDS.get(scheme.lower() + slashes if slashes else engine, "")


def check_engine(engine: str, database: Path | None, timeout: object) -> None:
    """Raise `PolicyError` for an unknown engine, an address with a password, or a conflicting setting."""
    kind = engine_kind(engine)
    if not kind:
        if "://" in engine or "@" in engine:  # it may hold a password
            raise wrong(_KEY, "unknown kind of address", "one of " + ", ".join(ADDRESSES))
        raise wrong(_KEY, f"unknown engine {engine!r}", suggest(engine, ADDRESSES))
    if "#" in engine:  # what follows it is a part of the address to one reader, not to another
        raise wrong(_KEY, "an address has no '#'", "write %23 where a name has one")
    if kind != "duckdb" and database is not None:
        raise wrong("database.path", "a DuckDB file does not go with another engine", "leave out one of them")
    if isinstance(timeout, bool) or not isinstance(timeout, int) or timeout < 1:
        raise wrong("database.timeout", "expected a number of seconds, at least 1")
    if kind == "postgresql":
        _check_postgres(engine)
    elif "://" in engine:
        _check_connect(engine)


def _check_postgres(address: str) -> None:
    hint = "libpq reads it from ~/.pgpass, PGPASSWORD or a service file"
    try:
        parts = urlsplit(address)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        secret = parts.password is not None
    except ValueError:
        raise wrong(_KEY, "cannot be read", "postgresql://user@host:5432/database") from None
    if secret or any("password" in name.lower() for name in options):
        raise wrong(_KEY, _PASSWORD, hint)
    for name in options:
        if name not in _LIBPQ:
            raise wrong(
                _KEY,
                "the address has a parameter that is not allowed",
                "allowed: " + ", ".join(sorted(_LIBPQ)),
            )


def _check_connect(address: str) -> None:
    _, _, parameters = address.partition("/;")
    for part in filter(None, parameters.split(";")):
        if part.partition("=")[0] not in _CONNECT:
            raise wrong(
                _KEY,
                "the address has a parameter that is not allowed; a policy must not contain secrets",
                "the token is read from SPARK_CONNECT_AUTHENTICATE_TOKEN",
            )
    if "@" in address:
        raise wrong(_KEY, _PASSWORD, "the token is read from SPARK_CONNECT_AUTHENTICATE_TOKEN")
