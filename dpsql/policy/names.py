"""Names in a policy: of tables and columns, compared without case; addresses of server and engine; errors.

An error of a policy begins with the key that is wrong, as a path in TOML (`key_path`); `wrong` makes one, and
`suggest` its hint for a name that is not known.
"""

from __future__ import annotations

import difflib
import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self, TypeVar
from urllib.parse import parse_qsl, urlsplit

from dpsql.errors import PolicyError
from dpsql.kernel.facts import fold
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern

V = TypeVar("V")


def same_name(one: str, other: str) -> bool:
    """Return whether two names are equal without regard to case."""
    return fold(one) == fold(other)


def name_problem(name: str) -> str | None:
    """Return what is wrong with the name of a table or column; None for a valid name."""
    if not name:
        return "a name may not be empty"
    if len(name) > 200:
        return "a name may have at most 200 characters"
    if not all(" " <= character <= "~" for character in name):
        return "a name may hold printable ASCII characters only"
    return None


class Names(Mapping[str, V]):
    """An immutable mapping with names as keys, in declared order, looked up without regard to case.

    Iterating yields the names as they were spelled. Two names that differ only in case raise `ValueError`.

    >>> columns = Names({"User_Id": 1, "page": 2})
    >>> columns["USER_ID"], "Page" in columns, list(columns)
    (1, True, ['User_Id', 'page'])
    """

    __slots__ = ("_items", "_spelled")

    def __init__(self, items: Mapping[str, V] | Iterable[tuple[str, V]] = ()) -> None:
        self._items: dict[str, V] = {}
        self._spelled: dict[str, str] = {}
        for name, item in items.items() if isinstance(items, Mapping) else items:
            first = self._spelled.setdefault(fold(name), name)
            if first in self._items:
                raise ValueError(f"{first!r} and {name!r} are the same name")
            self._items[name] = item

    def __getitem__(self, name: str) -> V:
        return self._items[self._spelled[fold(name)]]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and fold(name) in self._spelled

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items))

    def __repr__(self) -> str:
        return f"Names({self._items!r})"

    def __reduce__(self) -> tuple[type[Names[V]], tuple[dict[str, V]]]:
        return type(self), (self._items,)


def check_names(
    items: Mapping[str, V], place: str, hint: Callable[[str], str | None] = lambda name: None
) -> Names[V]:
    """Return a mapping as `Names`; raise `PolicyError` for names that are not valid or not distinct.

    `hint` says what to write in the place of a name that is not valid.
    """
    for name in items:
        if problem := name_problem(name):
            raise wrong(f"{place}.{key_path(name)}", problem, hint(name))
    try:
        return Names(items)
    except ValueError as problem:
        raise wrong(place, str(problem), "names are compared without regard to case") from None


def key_path(*parts: str) -> str:
    """Join names into a dotted TOML key, with quotes around names that need them.

    >>> key_path("tables", "my visits", "unit")
    'tables."my visits".unit'
    """
    return ".".join(p if re.fullmatch(r"[A-Za-z0-9_-]+", p) else json.dumps(p[:200]) for p in parts)


def wrong(key: str, text: str, hint: str | None = None) -> PolicyError:
    """Return the error for a key of the policy: the key, what is wrong with it, and a hint."""
    return PolicyError(f"{key}: {text}" if key else text, hint=hint)


def suggest(word: str, known: Iterable[str], what: str = "known here") -> str:
    """Return a hint for an unknown name: the nearest known name, or a list of the known names."""
    folded = {fold(name): name for name in known}
    near = difflib.get_close_matches(fold(word), folded, n=1)
    if near:
        return f"did you mean {folded[near[0]]}?"
    shown = list(folded.values())
    return (
        f"{what}: {', '.join(shown[:12])}{', ...' if len(shown) > 12 else ''}" if shown else f"{what}: none"
    )


PORT = 5433
EXAMPLES = 'write "127.0.0.1:5433", "[::1]:5433", or "/run/dpsql/.s.PGSQL.5433" for a Unix socket'
"""A hint about addresses where the server listens."""
_SOCKET = lazy_pattern(r"\.s\.PGSQL\.([0-9]{1,5})")
_TCP = lazy_pattern(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})")

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
