"""Open the sockets that the server listens on."""

from __future__ import annotations

import asyncio
import errno
import socket
import stat
from collections.abc import Callable
from pathlib import Path

from dpsql.errors import OperationalError
from dpsql.policy import Address

_BACKLOG = 512

Factory = Callable[[], asyncio.BaseProtocol]


async def listen(address: Address, factory: Factory) -> asyncio.Server:
    """Listen on an address; `factory` makes the protocol of each connection."""
    loop = asyncio.get_running_loop()
    try:
        if address.socket is None:
            return await loop.create_server(factory, address.host, address.port, backlog=_BACKLOG)
        _remove_left(address.socket)
        server = await loop.create_unix_server(factory, address.socket, backlog=_BACKLOG)
        address.socket.chmod(0o777)  # who may connect, the folder says; who may log in, the password
    except OSError as problem:
        raise cannot_listen(address, problem) from None
    return server


def cannot_listen(address: Address, problem: OSError) -> OperationalError:
    """Return the error for an address that cannot be listened on."""
    words = {
        errno.EADDRINUSE: "another program listens there",
        errno.EACCES: "the system does not permit it",
    }
    text = words.get(problem.errno or 0) or problem.strerror or "it is no address of this machine"
    return OperationalError(f"cannot listen on {address}: {text}")


def _remove_left(path: Path) -> None:
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


def addresses(server: asyncio.Server) -> list[str]:
    """Return the addresses that a server listens on, with the ports that the system chose."""
    found = []
    for each in server.sockets:
        name = each.getsockname()
        found.append(name if isinstance(name, str) else str(Address(name[0], name[1])))
    return found
