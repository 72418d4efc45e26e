"""Assemble a server of its parts and run it in this process."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.errors import PolicyError
from dpsql.policy import Address, HttpConfig
from dpsql.serve import garbage, health, metrics
from dpsql.serve import state as states
from dpsql.serve.log import Log
from dpsql.serve.server import Server
from dpsql.serve.service import Service
from dpsql.serve.state import State
from dpsql.serve.wire.protocol import Wire
from dpsql.serve.wire.registry import Connections, WireContext

if TYPE_CHECKING:
    from dpsql.serve.http import HttpFront
    from dpsql.serve.metrics import StatementRecord

HANDSHAKES = 100
"""How many clients may be logging in at the same time."""
FILES = 65_536
"""How many files and connections the process may have open, if the system permits so many."""
SWITCH = 0.0005
"""Seconds that a thread which parses may keep the interpreter while others want it. A stored answer changes
threads several times, so with Python's 5 ms a long statement of one analyst slows those of all others."""


def serve(
    path: Path,
    on_ready: Callable[[State, list[str]], None],
    http: HttpConfig | None = None,
) -> None:
    """Serve a policy until told to stop; `on_ready` is given what was read and the addresses.

    `http` has addresses for pages, which the command line gives in place of the policy's. Raises `Error` if
    it cannot start.
    """
    os.umask(0o077)
    allow_files()
    sys.setswitchinterval(SWITCH)
    state = states.read(path)
    asyncio.run(_serve(path, state, on_ready, http or HttpConfig()))


def allow_files() -> None:
    """Let the process have as many files open as the system permits, up to `FILES`.

    Connections are among them. Without a free one the engine cannot open its files, or even ends the process.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


async def _serve(
    path: Path,
    state: State,
    on_ready: Callable[[State, list[str]], None],
    http: HttpConfig,
) -> None:
    log = Log(state.users.secret, state.users.accounts.__contains__)
    logins = metrics.LoginCounts()

    def event(name: str, fields: Mapping[str, object]) -> None:
        logins.event(name, fields)
        if name != metrics.REFUSED:
            log(name, fields)

    def ready(addresses: list[str]) -> None:
        garbage.begin()
        on_ready(state, addresses)

    def is_idle() -> bool:
        running = any(each.running for each in wire.connections.live.values())
        return not running and not service.figures().running

    service = Service(state.config, state.policy, state.users)
    try:
        service.on_statement = lambda record: log("statement", _fields(record, log))
        wire = Wire(
            WireContext(
                name=state.config.name,
                service=service,
                tls=state.tls,
                connections=Connections(
                    maximum=state.config.max_connections - health.CONNECTIONS, handshakes=HANDSHAKES
                ),
                log=event,
            )
        )
        wire.assign(state)
        server = Server(
            path,
            state,
            service,
            wire,
            log,
            logins,
            fronts=[
                *_mcp(state, service),
                *_pages(state, service, http, event),
            ],
            on_ready=ready,
        )
    except BaseException:
        service.close()
        raise
    collecting = asyncio.create_task(garbage.collect_when_idle(is_idle))
    try:
        await server.run()
    finally:
        collecting.cancel()
        await asyncio.to_thread(log.flush)


def _fields(record: StatementRecord, log: Log) -> dict[str, object]:
    """Return what the log says about a statement: not its text."""
    price = record.price
    return {
        "user": record.user,
        "analyst": record.analyst,
        "number": record.number,
        "protocol": record.protocol,
        "statement": log.hash_text(record.text),
        "kind": record.kind,
        "price": None if price is None else f"{float(price.epsilon):.6g}, {float(price.delta):.6g}",
        "outcome": record.outcome,
        "waited": record.waited,
        "shape": record.shape,
    }


def _mcp(state: State, service: Service) -> list[HttpFront]:
    """Return the server of programs that speak MCP, if the policy has an address for it."""
    address = state.config.mcp.listen
    if address is None:
        return []
    try:
        from dpsql.serve.http import HttpFront  # noqa: PLC0415  of the extra `dpsql[mcp]`
        from dpsql.serve.mcp import http_app  # noqa: PLC0415  as above
    except ImportError:
        raise PolicyError("mcp.listen: needs the package mcp", hint="pip install 'dpsql[mcp]'") from None

    def application(bound: Address) -> object:
        return http_app(service, bound, state.config.mcp)

    return [HttpFront(application, address, state.tls)]


def _pages(
    state: State,
    service: Service,
    given: HttpConfig,
    log: Callable[[str, Mapping[str, object]], None],
) -> list[HttpFront]:
    """Return the servers of pages; an address that is given goes before that of the policy."""
    own = state.config.http
    http = replace(own, listen=given.listen or own.listen, owner=given.owner or own.owner)
    config = replace(state.config, http=http)  # which refuses addresses that need a certificate
    if http.listen is None and http.owner is None:
        return []
    try:
        from dpsql.serve.http import HttpFront  # noqa: PLC0415  of the extra `dpsql[http]`
        from dpsql.serve.page.application import http_app  # noqa: PLC0415  as above
        from dpsql.serve.page.owner import OwnerFront, link_file  # noqa: PLC0415  as above
    except ImportError:
        hint = "pip install 'dpsql[http]'"
        raise PolicyError("http: needs the packages starlette and uvicorn", hint=hint) from None

    def analysts(bound: Address) -> object:
        return http_app(service, bound, http, log)

    fronts: list[HttpFront] = []
    if http.listen is not None:
        fronts.append(HttpFront(analysts, http.listen, state.tls, "/"))
    if http.owner is not None:
        fronts.append(OwnerFront(service, http.owner, link_file(config.users)))
    return fronts
