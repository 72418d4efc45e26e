"""Addresses in a policy: where the server listens, and the engine (its name, or where it is reached)."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from dpsql.lazy_dataclass import dataclass
from dpsql.policy.names import suggest, wrong

PORT = 5433
EXAMPLES = 'write "127.0.0.1:5433", "[::1]:5433", or "/run/dpsql/.s.PGSQL.5433" for a Unix socket'
"""A hint about addresses where the server listens."""
_SOCKET = re.compile(r"\.s\.PGSQL\.([0-9]{1,5})")
_TCP = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})")

ENGINES = ("duckdb", "spark", "postgresql://user@host/database", "sc://host:15002")
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


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server listens: a host and a port, or the path of a Unix socket."""

    host: str = ""
    port: int = PORT
    socket: Path | None = None

    @classmethod
    def parse(cls, text: object, key: str) -> Self:
        """Read `HOST:PORT`, or the path of a socket that is named as PostgreSQL's clients expect."""
        if not isinstance(text, str) or not text:
            raise wrong(key, "expected an address as text", EXAMPLES)
        if text.startswith("/"):
            path = Path(text)
            named = _SOCKET.fullmatch(path.name)
            if not named or len(text.encode()) > 107:
                raise wrong(key, "is no path of a socket that clients find (or is too long)", EXAMPLES)
            return cls("", int(named[1]), path)
        found = _TCP.fullmatch(text)
        if not found or int(found[3]) > 65_535:
            raise wrong(key, f"{text[:80]!r} is no address", EXAMPLES)
        if found[1] is not None:
            try:
                ipaddress.IPv6Address(found[1])
            except ValueError:
                raise wrong(key, f"{text[:80]!r} is no address", EXAMPLES) from None
        return cls(found[1] or found[2], int(found[3]))

    @property
    def local(self) -> bool:
        """Whether only programs on the same machine reach it. A name other than `localhost` counts as not."""
        if self.socket is not None or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        if self.socket is not None:
            return str(self.socket)
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


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
            raise wrong(_KEY, "unknown kind of address", "one of " + ", ".join(ENGINES))
        raise wrong(_KEY, f"unknown engine {engine!r}", suggest(engine, ENGINES))
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
