"""The socket to a server: encrypted, with the server's certificate checked.

A server elsewhere is checked against the system's certificates, or those of `sslrootcert`, with its name. For
a server on this machine, whose certificate made itself, the fingerprint is remembered at the first use in
`~/.dpsql_known_hosts`; when it changes, nothing is sent. Without encryption only servers on this machine are
spoken to.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.errors import OperationalError
from dpsql.login.certificate import hash_certificate
from dpsql.login.messages import TLS, message

if TYPE_CHECKING:
    from dpsql.remote.target import Target

_TLS_REQUEST = message(b"", struct.pack("!i", TLS))


def known_hosts() -> Path:
    """Return the file of remembered fingerprints."""
    return Path.home() / ".dpsql_known_hosts"


def open_socket(target: Target) -> socket.socket:
    """Connect, encrypt and check the certificate; raises `OperationalError`."""
    try:
        plain = _connect(target)
    except OSError as problem:
        raise OperationalError(f"cannot reach {target.label}: {_reason(problem)}") from None
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
        raise OperationalError(f"no encrypted connection to {target.label}: {_reason(problem)}") from None
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
        encrypted = _context(target, trusts=trusts).wrap_socket(plain, server_hostname=target.host)
        if not trusts:
            _check_remembered(encrypted, target)
        return encrypted
    if answer != b"N":
        raise OperationalError(f"{target.label} is no dpsql server")
    if target.is_local and target.sslrootcert is None and _read_remembered(target) is None:
        return plain
    raise OperationalError(f"{target.label} offers no encryption, so nothing was sent to it")


def _context(target: Target, *, trusts: bool) -> ssl.SSLContext:
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
            raise OperationalError(f"sslrootcert: cannot read {file}: {_reason(problem)}") from None
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
                f"cannot remember the certificate of {target.label} in {file}: {_reason(problem)}\n"
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


def _reason(problem: OSError) -> str:
    if isinstance(problem, TimeoutError):
        return "no answer in time"
    return problem.strerror or type(problem).__name__
