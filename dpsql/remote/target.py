"""Which server, as whom, and how its certificate is checked: read from a URL."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import field
from urllib.parse import parse_qsl, unquote, urlsplit

from dpsql.errors import InterfaceError
from dpsql.lazy_dataclass import dataclass

SCHEME = "dpsql://"
PORT = 5433

_SETTING = re.compile(r"dp_[a-z_]{1,40}")
_PLAIN = re.compile(r"[0-9A-Za-z_.+-]{1,60}")


@dataclass(frozen=True, slots=True)
class Target:
    """A server, the user and the database; `host` is a folder where the server listens on a Unix socket."""

    host: str
    port: int = PORT
    user: str = ""
    database: str = ""
    sslrootcert: str | None = None
    """The file of the certificates that are trusted; None: the system's, or for this machine, see `tls`."""
    connect_timeout: float = 10.0
    settings: tuple[tuple[str, str], ...] = ()
    """Settings of the session, such as `dp_epsilon`, from its beginning."""
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.user:
            raise InterfaceError(
                "who logs in?\nHint: dpsql://USER@host, or dpsql -h host -U USER; "
                "a policy's file is named after three slashes, dpsql:///dpsql.toml"
            )
        for what, text in (("host", self.host), ("user", self.user), ("database", self.database)):
            if any(ord(c) < 32 or c == "\x7f" for c in text):
                raise InterfaceError(f"the {what} has a control character")
        if not 0 < self.port < 65536:
            raise InterfaceError("a port is a number from 1 to 65535")

    @property
    def is_socket(self) -> bool:
        """Whether it is a Unix socket."""
        return self.host.startswith("/")

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine, by its name or address."""
        if self.is_socket or self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def label(self) -> str:
        """The server as messages name it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @classmethod
    def of(cls, url: str, password: str | None = None) -> Target:
        """Read `dpsql://user@host:port/database?sslrootcert=FILE`; raises `InterfaceError`.

        Other parameters are `host` (a folder with a Unix socket), `connect_timeout` (seconds), and settings
        of the session, such as `dp_epsilon`.

        >>> Target.of("dpsql://alice@db.example/shop").label
        'db.example:5433'
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
            query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError:
            raise InterfaceError(
                "the URL cannot be read\nHint: dpsql://alice@host:5433/shop?sslrootcert=FILE"
            ) from None
        given = dict(query)
        if len(given) < len(query):
            raise InterfaceError("a parameter of the URL is given twice")
        if {"password", "passwd", "pwd"} & {name.lower() for name in given}:
            raise InterfaceError(
                "a URL's parameters hold no password: they end up in logs\n"
                "Hint: DPSQL_PASSWORD, ~/.pgpass, or connect(url, password=...)"
            )
        host = given.pop("host", host)
        if not host:
            raise InterfaceError(
                "the URL names no host\n"
                "Hint: dpsql://alice@host:5433/shop; a policy on this machine is opened by its path"
            )
        timeout = given.pop("connect_timeout", "10")
        if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,3})?", timeout) or not float(timeout):
            raise InterfaceError("connect_timeout is a number of seconds")
        rootcert = given.pop("sslrootcert", None)
        for name, value in given.items():
            if not _SETTING.fullmatch(name):
                known = "sslrootcert, connect_timeout, host, and settings such as dp_epsilon"
                raise InterfaceError(f"the URL has no parameter {name[:40]}\nHint: there are {known}")
            if not _PLAIN.fullmatch(value):
                raise InterfaceError(f"{name} takes a number or a word")
        written = None if parts.password is None else unquote(parts.password)
        return cls(
            host=host,
            port=PORT if port is None else port,
            user=unquote(parts.username or ""),
            database=unquote(parts.path.removeprefix("/")),
            sslrootcert=rootcert,
            connect_timeout=float(timeout),
            settings=tuple(given.items()),
            password=written if password is None else password,
        )
