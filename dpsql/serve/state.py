"""What the server reads at its start and at each reload: policy, users, certificate; the sockets it opens.

Certificate: a server that only programs on the same machine reach can make a self-signed one.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import ssl
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dpsql.errors import OperationalError, PolicyError
from dpsql.lazy_dataclass import dataclass
from dpsql.login import hash_certificate, hash_for_binding
from dpsql.policy import Address, Policy, ServeConfig, load
from dpsql.policy.serving import USERS, default_name
from dpsql.serve.users import Users, check_private, replace_private

CERTIFICATE = "dpsql-server.pem"
KEY = "dpsql-server.key"
_VALID = timedelta(days=3650)
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class Tls:
    """How the server speaks TLS."""

    context: ssl.SSLContext
    binding: bytes
    """The `tls-server-end-point` data of the certificate (RFC 5929); empty if its signature defines none."""
    certificate: Path
    key: Path
    fingerprint: str
    """SHA-256 of the certificate, as browsers show it."""
    authorities: Path | None
    """Certificates of those who sign clients' certificates; None if clients need none."""

    @property
    def clients(self) -> bool:
        """Whether a client needs a certificate, with the name of the user as its common name."""
        return self.authorities is not None


CLIENT = "dpsql_client"
"""Where an application finds, in the state of a request, the common name of the client's certificate."""


def common_name(connection: ssl.SSLObject) -> str | None:
    """Return the common name in the certificate that the client of a connection has shown, if any."""
    certificate = connection.getpeercert() or {}
    names = [part for name in certificate.get("subject", ()) for part in name]
    return next((str(part[1]) for part in names if part[0] == "commonName"), None)


def load_tls(certificate: Path, key: Path, clientcert: Path | None = None) -> Tls:
    """Read a certificate with its chain and its key.

    Raises `PolicyError`, also if others than the server's account can read the key.
    """
    der = _read_certificate(certificate)
    try:
        with key.open("rb") as file:
            check_private(key, os.fstat(file.fileno()))
    except OSError as problem:
        raise PolicyError(f"{key.name}: cannot be read: {problem.strerror}") from None
    except PolicyError as problem:
        raise PolicyError(f"{key.name}: {problem.message}", hint=problem.hint) from None
    context = _make_context()
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, OSError, ValueError):
        raise PolicyError(
            f"{key.name}: is not the key of {certificate.name}, or is encrypted",
            hint="a key in PEM without a password, readable by the server's account alone",
        ) from None
    if clientcert is not None:
        try:
            context.load_verify_locations(clientcert)
        except (ssl.SSLError, OSError):
            raise PolicyError(f"{clientcert.name}: holds no certificates in PEM") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return Tls(context, hash_for_binding(der), certificate, key, hash_certificate(der), clientcert)


def _make_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    # A resumed session would skip the certificate that logins are bound to; connections of pools are few.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    context.set_alpn_protocols(["postgresql"])
    return context


def _no_password() -> str:
    raise ValueError("the key is encrypted")  # without this OpenSSL would ask on the terminal


def _read_certificate(certificate: Path) -> bytes:
    """Return the first certificate of a file: the server's own, in DER."""
    try:
        text = certificate.read_text("ascii")
        start = text.index(_BEGIN)
        return ssl.PEM_cert_to_DER_cert(text[start : text.index(_END, start) + len(_END)])
    except OSError as problem:
        raise PolicyError(f"{certificate.name}: cannot be read: {problem.strerror}") from None
    except ValueError:
        raise PolicyError(f"{certificate.name}: holds no certificate in PEM") from None


def make_self_signed(folder: Path) -> tuple[Path, Path]:
    """Return the paths of certificate and key in a folder, and make both if they are not there.

    Raises `ImportError` where the package `cryptography` is not installed.
    """
    certificate, key = folder / CERTIFICATE, folder / KEY
    if not (certificate.exists() and key.exists()):
        signed, private = _make_pair()
        replace_private(key, private)
        replace_private(certificate, signed)
        certificate.chmod(0o644)  # clients read it
    return certificate, key


def _make_pair() -> tuple[bytes, bytes]:
    """Return a new certificate for this machine's names, and its key, in PEM."""
    from cryptography import x509  # noqa: PLC0415  of the extra `dpsql[serve]`
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    host = socket.gethostname()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dpsql server")])
    names: list[x509.GeneralName] = [
        x509.DNSName(each) for each in dict.fromkeys(["localhost", host]) if each.isascii() and each
    ]
    names += [x509.IPAddress(ipaddress.ip_address(each)) for each in ("127.0.0.1", "::1")]
    now = datetime.now(UTC)
    absent = dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment"), False)
    absent |= dict.fromkeys(("key_agreement", "key_cert_sign", "crl_sign"), False)
    usage = x509.KeyUsage(digital_signature=True, encipher_only=False, decipher_only=False, **absent)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return signed.public_bytes(serialization.Encoding.PEM), private


@dataclass(frozen=True, slots=True)
class State:
    """The policy, its `[serve]`, the users and the certificate."""

    policy: Policy
    config: ServeConfig
    users: Users
    tls: Tls | None
    warnings: tuple[str, ...]

    @property
    def is_trusted(self) -> bool:
        """Whether the certificate was named by the owner, not made by the server."""
        return self.config.certificate is not None


def read_state(path: Path) -> State:
    """Read a policy's file, and the users and the certificate that it names; raises `PolicyError`."""
    policy = load(path)
    config = config_of(policy)
    users = Users.load(config.users)
    if not len(users):
        raise PolicyError(
            f"{config.users.name}: lists no user, so nobody could log in", hint="`dpsql user add NAME`"
        )
    found = warn_of_users(policy, users)
    if config.certificate is not None and config.key is not None:
        secured: Tls | None = load_tls(config.certificate, config.key, config.clientcert)
    else:
        secured = _load_own(config, found)
    if secured is not None and not secured.binding:
        found.append("the certificate's signature has no channel binding: SCRAM-SHA-256-PLUS is not offered")
    return State(policy, config, users, secured, tuple(found))


def _load_own(config: ServeConfig, found: list[str]) -> Tls | None:
    """Return TLS with a certificate of the server's own; None if it cannot make one."""
    try:
        certificate, key = make_self_signed(config.users.parent)
    except ImportError:
        found.append("no TLS: to have a certificate made, install dpsql[serve]; or name one in [serve]")
        return None
    return load_tls(certificate, key, config.clientcert)


def config_of(policy: Policy) -> ServeConfig:
    """Return the policy's `[serve]`, or the defaults beside the policy's file if it has none."""
    if policy.serve is not None:
        return policy.serve
    file = policy.path or Path("dpsql.toml")
    return ServeConfig(name=default_name(file), users=file.parent / USERS)


def users_path(policy: Policy) -> Path:
    """Return the path of the users file."""
    return config_of(policy).users


def warn_of_users(policy: Policy, users: Users) -> list[str]:
    """Return a sentence for each user whose statements would all be refused, or who has no cap alone."""
    found, listed = [], policy.analysts
    for user in users:
        grouped = any(user.analyst in group.members for group in policy.groups.values())
        if user.analyst in listed or "*" in listed:
            continue
        if listed:
            found.append(
                f"user {user.name}: the policy lists its analysts, and {user.analyst} is none of them, so "
                "every statement is refused"
            )
        elif not grouped:
            found.append(
                f"user {user.name}: analyst {user.analyst} has no cap under [analysts] and may spend the "
                "policy's whole budget"
            )
    return found


_BACKLOG = 512

Factory = Callable[[], asyncio.BaseProtocol]


async def listen(address: Address, factory: Factory) -> asyncio.Server:
    """Listen on an address; `factory` makes the protocol of each connection."""
    loop = asyncio.get_running_loop()
    try:
        if address.socket is None:
            return await loop.create_server(factory, address.host, address.port, backlog=_BACKLOG)
        _remove_stale_socket(address.socket)
        server = await loop.create_unix_server(factory, address.socket, backlog=_BACKLOG)
        address.socket.chmod(0o777)  # who may connect, the folder says; who may log in, the password
    except OSError as problem:
        raise cannot_listen(address, problem) from None
    return server


def cannot_listen(address: Address, problem: OSError) -> OperationalError:
    """Return the error for an address that cannot be listened on."""
    words = {errno.EADDRINUSE: "another program listens there", errno.EACCES: "the system does not permit it"}
    text = words.get(problem.errno or 0) or problem.strerror or "it is no address of this machine"
    return OperationalError(f"cannot listen on {address}: {text}")


def _remove_stale_socket(path: Path) -> None:
    """Remove the socket that a server left which is gone; asyncio would remove a living one's as well."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise OSError(errno.EEXIST, "a file is there")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(5)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise OSError(errno.EADDRINUSE, "in use")


def addresses_of(server: asyncio.Server) -> list[str]:
    """Return the addresses that a server listens on, with the ports that the system chose."""
    found = []
    for each in server.sockets:
        name = each.getsockname()
        found.append(name if isinstance(name, str) else str(Address(name[0], name[1])))
    return found
