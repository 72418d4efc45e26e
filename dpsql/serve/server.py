"""The server as a process: it is assembled of its parts, listens, reloads on SIGHUP and ends on SIGTERM.

End: on SIGTERM it ends when what runs has ended. systemd is told of its state (`Type=notify`).

Garbage: the collector makes short searches while the server serves, and a whole one when it is idle. A search
keeps the interpreter, and so the event loop, for about a millisecond for every 1,000 objects. With Python's
thresholds one goes through all modules and all plans that are kept: for a tenth of a second or more.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql import __version__
from dpsql.engines import engine_notice
from dpsql.errors import Error, PolicyError
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import HttpConfig
from dpsql.serve import monitoring
from dpsql.serve import state as states
from dpsql.serve.monitoring import Health, Log
from dpsql.serve.service import Service
from dpsql.serve.state import State, addresses_of, listen
from dpsql.serve.wire import WireProtocol
from dpsql.serve.wire.startup import Connections, WireContext

if TYPE_CHECKING:
    from dpsql.serve.http import HttpFront
    from dpsql.serve.monitoring import StatementRecord

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
        wire: WireProtocol,
        log: Log,
        logins: monitoring.LoginCounts,
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
        """Listen and serve until a signal or `stop` ends it; return when all has ended."""
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
        """Ask the server to end; a second call ends it without waiting."""
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
            found += addresses_of(self._sockets[-1])
            if address.socket is not None:
                self._paths.append(address.socket)
        if config.metrics is not None:
            health = Health({"/health": self._health, "/ready": self._ready, "/metrics": self._metrics})
            self._sockets.append(await listen(config.metrics, health.protocol))
            self._log("metrics", {"listen": ", ".join(addresses_of(self._sockets[-1]))})
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
        await asyncio.gather(self._wire.connections.wait_closed(), *(front.stop() for front in self._fronts))

    async def reload(self) -> None:
        """Read policy, users and certificate again; if anything is wrong, go on with those read before."""
        async with self._reloading:
            if self._told.is_set():
                return
            # `READY=1` ends it.
            notify("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")
            try:
                state = await asyncio.to_thread(states.read_state, self._path)
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
        if old.addresses != new.addresses:
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
        ready = not self._told.is_set() and await asyncio.to_thread(self._service.is_ready)
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
        return monitoring.render_metrics(
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


THRESHOLDS = (10_000, 5, 1_000_000)
"""New objects before a search of these, and such searches before one of what they left; never of all."""
EVERY = 600.0
"""Seconds between two searches of all that was made since the server was ready."""
LONGEST = 3_000
"""Seconds that such a search waits for a moment in which no statement runs."""


def shorten_collections() -> None:
    """Let the garbage collector leave out the present objects, and make short searches from now on."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


async def collect_when_idle(is_idle: Callable[[], bool]) -> None:
    """Collect garbage every ten minutes, when the server is idle, among all objects made since it was ready.

    If statements always run, it is searched every hour.
    """
    while True:
        await asyncio.sleep(EVERY)
        for _ in range(LONGEST):
            if is_idle():
                break
            await asyncio.sleep(1)
        gc.collect()


HANDSHAKES = 100
"""How many clients may be logging in at the same time."""
FILES = 65_536
"""How many files and connections the process may have open, if the system permits so many."""
SWITCH = 0.0005
"""Seconds that a thread which parses may keep the interpreter while others want it. A stored answer changes
threads several times, so with Python's 5 ms a long statement of one analyst slows those of all others."""


def serve(path: Path, on_ready: Callable[[State, list[str]], None], http: HttpConfig | None = None) -> None:
    """Serve a policy until told to stop; `on_ready` is given what was read and the addresses.

    `http` has addresses for pages, which the command line gives in place of the policy's. Raises `Error` if
    it cannot start.
    """
    os.umask(0o077)
    allow_files()
    sys.setswitchinterval(SWITCH)
    state = states.read_state(path)
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
    path: Path, state: State, on_ready: Callable[[State, list[str]], None], http: HttpConfig
) -> None:
    log = Log(state.users.secret, state.users.accounts.__contains__)
    logins = monitoring.LoginCounts()

    def event(name: str, fields: Mapping[str, object]) -> None:
        logins.count_event(name, fields)
        if name != monitoring.REFUSED:
            log(name, fields)

    def ready(addresses: list[str]) -> None:
        shorten_collections()
        on_ready(state, addresses)

    def is_idle() -> bool:
        running = any(each.is_running for each in wire.connections.live.values())
        return not running and not service.figures().running

    service = Service(state.config, state.policy, state.users)
    try:
        service.on_statement = lambda record: log("statement", _statement_fields(record, log))
        wire = WireProtocol(
            WireContext(
                name=state.config.name,
                service=service,
                tls=state.tls,
                connections=Connections(
                    maximum=state.config.max_connections - monitoring.CONNECTIONS, handshakes=HANDSHAKES
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
            fronts=_make_fronts(state, service, http, event),
            on_ready=ready,
        )
    except BaseException:
        service.close()
        raise
    collecting = asyncio.create_task(collect_when_idle(is_idle))
    try:
        await server.run()
    finally:
        collecting.cancel()
        await asyncio.to_thread(log.flush)


def _statement_fields(record: StatementRecord, log: Log) -> dict[str, object]:
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


@dataclass(frozen=True, slots=True)
class FrontPackage:
    """A package with a front end: its `make_fronts` returns the servers at the addresses of its section."""

    module: str
    missing: str
    """What is said where the packages that it needs are not installed."""
    hint: str


FRONT_PACKAGES = {
    "mcp": FrontPackage("dpsql.serve.mcp", "mcp.listen: needs the package mcp", "pip install 'dpsql[mcp]'"),
    "http": FrontPackage(
        "dpsql.serve.page", "http: needs the packages starlette and uvicorn", "pip install 'dpsql[http]'"
    ),
}
"""The front ends beside PostgreSQL's protocol, by their sections of the policy; `policy.serving.FRONTS` has
the classes of these sections. A package is imported where its section has an address."""


def _make_fronts(
    state: State, service: Service, given: HttpConfig, log: Callable[[str, Mapping[str, object]], None]
) -> list[HttpFront]:
    """Return the front ends that have an address; one that is given goes before that of the policy."""
    own = state.config.http
    http = replace(own, listen=given.listen or own.listen, owner=given.owner or own.owner)
    # The configuration refuses addresses that need a certificate.
    state = replace(state, config=replace(state.config, http=http))
    fronts: list[HttpFront] = []
    for section, front in FRONT_PACKAGES.items():
        if not state.config.fronts[section].addresses:
            continue
        try:
            module = import_module(front.module)
        except ImportError:
            raise PolicyError(front.missing, hint=front.hint) from None
        fronts += module.make_fronts(state, service, log)
    return fronts
