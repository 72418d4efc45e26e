"""The server as a process: it listens, reloads on SIGHUP, and ends on SIGTERM when what runs has ended.

systemd is told of its state (`Type=notify`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql import __version__
from dpsql.engines import engine_notice
from dpsql.errors import Error
from dpsql.serve import metrics
from dpsql.serve import state as states
from dpsql.serve.health import Health
from dpsql.serve.listening import addresses, listen

if TYPE_CHECKING:
    from dpsql.serve.http import HttpFront
    from dpsql.serve.log import Log
    from dpsql.serve.service import Service
    from dpsql.serve.state import State
    from dpsql.serve.wire.protocol import Wire

DRAIN = 30.0
"""Seconds that statements have to end by themselves when the server is told to stop."""
LAST = 10.0
"""Seconds for the answers to those that were stopped then."""


class Server:
    """One server. `run` returns when it was told to stop and has ended.

    All of it runs in the thread of the event loop but what reads files or asks the service, which blocks.
    """

    def __init__(
        self,
        path: Path,
        state: State,
        service: Service,
        wire: Wire,
        log: Log,
        logins: metrics.LoginCounts,
        *,
        fronts: Sequence[HttpFront] = (),
        on_ready: Callable[[list[str]], None] = lambda _: None,
        drain: float = DRAIN,
    ) -> None:
        self._path = path
        self._state = state
        self._service = service
        self._wire = wire
        self._log = log
        self._logins = logins
        self._fronts = fronts
        self._on_ready = on_ready
        self._drain = drain
        self._sockets: list[asyncio.Server] = []
        self._paths: list[Path] = []
        self._told = asyncio.Event()
        self._hurried = asyncio.Event()
        self._reloading = asyncio.Lock()

    async def run(self) -> None:
        """Serve until told to stop."""
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, self.stop)
        tasks: set[asyncio.Task[None]] = set()

        def hang_up() -> None:
            task = loop.create_task(self.reload())
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        loop.add_signal_handler(signal.SIGHUP, hang_up)
        try:
            await self._open()
            await self._told.wait()
        finally:
            await self._end()

    def stop(self) -> None:
        """Begin to end; told a second time, wait for nothing."""
        if self._told.is_set():
            self._hurried.set()
        self._told.set()

    async def _open(self) -> None:
        config, found = self._state.config, []
        count = len(self._state.users)
        self._log("started", {"version": __version__, "database": config.name, "count": count})
        self._log.warnings(filter(None, (engine_notice(), *self._state.warnings, *self._service.messages)))
        for address in config.listen:
            self._sockets.append(await listen(address, self._wire.factory(tls_required=not address.local)))
            found += addresses(self._sockets[-1])
            if address.socket is not None:
                self._paths.append(address.socket)
        if config.metrics is not None:
            health = Health({"/health": self._health, "/ready": self._ready, "/metrics": self._metrics})
            self._sockets.append(await listen(config.metrics, health.protocol))
            self._log("metrics", {"listen": ", ".join(addresses(self._sockets[-1]))})
        for front in self._fronts:
            found += await front.start()
        secured = self._state.tls
        shown = (
            {}
            if secured is None
            else {"certificate": secured.certificate, "fingerprint": secured.fingerprint}
        )
        self._log("ready", {"listen": ", ".join(found), **shown})
        notify("READY=1", f"STATUS=serving {config.name} at {', '.join(found)}")
        self._on_ready(found)

    async def _end(self) -> None:
        """Let nobody in, let what runs end, stop it after a while, and close."""
        self._log("stopping")
        notify("STOPPING=1")
        for each in self._sockets:
            each.close()
        self._service.shut_down()
        self._wire.connections.shutdown()
        closed = asyncio.ensure_future(self._wait_closed())
        hurried = asyncio.ensure_future(self._hurried.wait())
        await asyncio.wait({closed, hurried}, timeout=self._drain, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not closed.done():
            self._service.cancel_all()
            self._wire.connections.cancel()
            await asyncio.wait({closed}, timeout=LAST)
        closed.cancel()
        for path in self._paths:
            path.unlink(missing_ok=True)
        async with self._reloading:
            ended = await asyncio.to_thread(self._service.close, LAST)
        if not ended:
            self._log(
                "abandoned", {"text": "a statement did not end when it was cancelled: it stays charged"}
            )
        self._log("stopped", {"count": len(self._wire.connections)})

    async def _wait_closed(self) -> None:
        await asyncio.gather(self._wire.connections.closed(), *(front.stop() for front in self._fronts))

    async def reload(self) -> None:
        """Read policy, users and certificate again; if anything is wrong, go on with what is known."""
        async with self._reloading:
            if self._told.is_set():
                return
            # `READY=1` ends it.
            notify("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")
            try:
                state = await asyncio.to_thread(states.read, self._path)
                await asyncio.to_thread(self._service.reload, state.policy, state.config, state.users)
            except Error as problem:
                self._log("reload refused", {"text": str(problem)})
            except Exception as problem:  # noqa: BLE001  a bug there must not end the server
                self._log("reload refused", {"text": "a bug of dpsql", "class": type(problem).__name__})
            else:
                self._take(state)
            finally:
                notify("READY=1")

    def _take(self, state: State) -> None:
        old, new = self._state.config, state.config
        places = [
            (each.listen, each.metrics, each.mcp.listen, each.http.listen, each.http.owner)
            for each in (old, new)
        ]
        if places[0] != places[1]:
            self._log.warnings(["other addresses to listen on are used from the next start on"])
        if old.max_connections != new.max_connections:
            self._log.warnings(["max_connections has its new value from the next start on"])
        self._log.secret, self._log.is_user = state.users.secret, state.users.accounts.__contains__
        self._wire.assign(state)
        self._state = state
        self._log("reloaded", {"count": len(state.users)})
        self._log.warnings((*state.warnings, *self._service.messages))

    async def _health(self) -> tuple[int, str]:
        return 200, "ok\n"

    async def _ready(self) -> tuple[int, str]:
        ready = not self._told.is_set() and await asyncio.to_thread(self._service.ready)
        return (200, "ready\n") if ready else (503, "not ready\n")

    async def _metrics(self) -> tuple[int, str]:
        connections = self._wire.connections
        return 200, await asyncio.to_thread(self._figures, len(connections), connections.handshakes)

    def _figures(self, connections: int, handshakes: int) -> str:
        state, remaining = self._state, {}
        names: list[str | None] = [None]
        if state.config.metrics_analysts:
            names += sorted({user.analyst for user in state.users})
        for name in names:
            with suppress(Error):  # the figures beside it are still right
                remaining[name] = self._service.budget(name).remaining.epsilon
        return metrics.render(
            self._logins,
            self._service.figures(),
            connections=connections,
            handshakes=handshakes,
            remaining=remaining,
        )


def notify(*lines: str) -> bool:
    """Send lines such as `READY=1` to the service manager; False if there is none."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    if address.startswith("@"):  # an abstract socket
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.sendto("\n".join(lines).encode(), address)
    except OSError:
        return False
    return True
