"""Which server, as whom, with which password, and the socket to it: encrypted, its certificate checked.

A password comes from the caller, DPSQL_PASSWORD, `~/.pgpass`, or a prompt.

A server elsewhere is checked against the system's certificates, or those of `sslrootcert`, with its name. For
a server on this machine, whose certificate made itself, the fingerprint is remembered at the first use in
`~/.dpsql_known_hosts`; when it changes, nothing is sent. Without encryption only servers on this machine are
spoken to.
"""

from __future__ import annotations

import getpass
import ipaddress
import os
import re
import socket
import ssl
import stat
import struct
import sys
from dataclasses import field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from dpsql.errors import InterfaceError, OperationalError
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern
from dpsql.login import TLS, hash_certificate, message

PORT = 5433
VARIABLE = "DPSQL_PASSWORD"
"""The variable of the environment that has the password."""

_SETTING = lazy_pattern(r"dp_[a-z_]{1,40}")
_PLAIN = lazy_pattern(r"[0-9A-Za-z_.+-]{1,60}")


@dataclass(frozen=True, slots=True)
class Target:
    """A server, the user and the database; `host` is a folder where the server listens on a Unix socket."""

    host: str
    port: int = PORT
    user: str = ""
    database: str = ""
    sslrootcert: str | None = None
    """The file of the certificates that are trusted; None: the system's.

    A server on this machine is then checked by the fingerprint that is remembered of it.
    """
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
        """Whether the server listens on a Unix socket."""
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


def find_password(target: Target) -> str:
    """Return the password or token of a target's user; raises `OperationalError` if there is none."""
    for found in (target.password, os.environ.get(VARIABLE), _read_password_file(target)):
        if found:
            return found
    if sys.stdin is not None and sys.stdin.isatty():
        return getpass.getpass(f"Password of {target.user} on {target.label}: ")
    raise OperationalError(
        f"no password for {target.user} on {target.label}\n"
        f"Hint: set {VARIABLE}, or write a line HOST:PORT:DATABASE:USER:PASSWORD into ~/.pgpass (mode 0600)"
    )


def _read_password_file(target: Target) -> str | None:
    """Look a password up as libpq does: the first line whose fields all match."""
    file = Path(os.environ.get("PGPASSFILE") or Path.home() / ".pgpass")
    try:
        if os.name == "posix" and stat.S_IMODE(file.stat().st_mode) & 0o077:
            return None  # as libpq: a file that others can read is not used
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError, RuntimeError):
        return None
    host = "localhost" if target.is_socket else target.host
    wanted = (host, str(target.port), target.database, target.user)
    for line in lines:
        fields = _split_fields(line)
        if line.startswith("#") or len(fields) != 5:
            continue
        if all(field in ("*", value) for field, value in zip(fields, wanted, strict=False)):
            return fields[4]
    return None


def _split_fields(line: str) -> list[str]:
    r"""Split a line at its colons; `\:` and `\\` stand for the characters themselves.

    >>> _split_fields(r"host:*:shop:alice:a\:b")
    ['host', '*', 'shop', 'alice', 'a:b']
    """
    fields, escaped = [""], False
    for character in line:
        if escaped or character not in "\\:":
            fields[-1] += character
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            fields.append("")
    return fields


_TLS_REQUEST = message(b"", struct.pack("!i", TLS))


def known_hosts() -> Path:
    """Return the file of remembered fingerprints."""
    return Path.home() / ".dpsql_known_hosts"


def open_socket(target: Target) -> socket.socket:
    """Connect, encrypt and check the certificate; raises `OperationalError`."""
    try:
        plain = _connect(target)
    except OSError as problem:
        raise OperationalError(f"cannot reach {target.label}: {_failure_reason(problem)}") from None
    try:
        if target.is_socket:
            return plain
        return _encrypt(plain, target)
    except ssl.SSLCertVerificationError as problem:
        plain.close()
        raise OperationalError(
            f"the certificate of {target.label} is not accepted: {problem.verify_message}\n"
            "Hint: sslrootcert=FILE names the certificate to trust"
        ) from None
    except OSError as problem:
        plain.close()
        raise OperationalError(
            f"no encrypted connection to {target.label}: {_failure_reason(problem)}"
        ) from None
    except BaseException:
        plain.close()
        raise


def _connect(target: Target) -> socket.socket:
    if target.is_socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(target.connect_timeout)
            made.connect(f"{target.host}/.s.PGSQL.{target.port}")
        except BaseException:
            made.close()
            raise
        return made
    made = socket.create_connection((target.host, target.port), timeout=target.connect_timeout)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return made


def _encrypt(plain: socket.socket, target: Target) -> socket.socket:
    plain.sendall(_TLS_REQUEST)
    answer = plain.recv(1)  # no more: what came in plain text with it must not be read as encrypted
    if answer == b"S":
        trusts = not (target.is_local and target.sslrootcert is None)
        encrypted = _make_context(target, trusts=trusts).wrap_socket(plain, server_hostname=target.host)
        if not trusts:
            _check_remembered(encrypted, target)
        return encrypted
    if answer != b"N":
        raise OperationalError(f"{target.label} is no dpsql server")
    if target.is_local and target.sslrootcert is None and _read_remembered(target) is None:
        return plain
    raise OperationalError(f"{target.label} offers no encryption, so nothing was sent to it")


def _make_context(target: Target, *, trusts: bool) -> ssl.SSLContext:
    """Return the context; with `trusts` a certificate must be signed by one that is trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not trusts:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # its fingerprint is compared instead
    elif target.sslrootcert in (None, "system"):
        context.load_default_certs()
    else:
        file = Path(str(target.sslrootcert)).expanduser()
        try:
            context.load_verify_locations(file)
        except (OSError, ssl.SSLError) as problem:
            raise OperationalError(f"sslrootcert: cannot read {file}: {_failure_reason(problem)}") from None
    return context


def _check_remembered(encrypted: ssl.SSLSocket, target: Target) -> None:
    found = hash_certificate(encrypted.getpeercert(binary_form=True) or b"")
    remembered = _read_remembered(target)
    if remembered is None:
        file = known_hosts()
        try:
            with os.fdopen(os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "a") as lines:
                lines.write(f"{target.label} {found}\n")
        except OSError as problem:
            raise OperationalError(
                f"cannot remember the certificate of {target.label} in {file}: {_failure_reason(problem)}\n"
                "Hint: sslrootcert=FILE names the certificate to trust"
            ) from None
    elif remembered != found:
        encrypted.close()
        raise OperationalError(
            f"the certificate of {target.label} has changed, so nothing was sent to it\n"
            f"  remembered {remembered}\n  now        {found}\n"
            f"Hint: if the server's owner says so, remove its line from {known_hosts()}"
        )


def _read_remembered(target: Target) -> str | None:
    """Return the fingerprint remembered for a server, the first one that was written."""
    try:
        lines = known_hosts().read_text("ascii").splitlines()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        raise OperationalError(f"cannot read {known_hosts()}") from None
    return next((line.split()[1] for line in lines if line.split()[:1] == [target.label]), None)


def _failure_reason(problem: OSError) -> str:
    if isinstance(problem, TimeoutError):
        return "no answer in time"
    return problem.strerror or type(problem).__name__
