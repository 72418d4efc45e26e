"""A server as a process on a copy of the shipped clinic, and many raw clients of it: for measurements."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from dpsql.serve.users import User
from tests.serve import frontend as f
from tests.serve.frontend import Frontend
from tests.serve.process import DPSQL
from tests.served import ROOT, clinic, let_in

_T = TypeVar("_T")
PASSWORD = "correct horse battery"
LONG = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}) COUNT(*) AS n FROM visits v
    JOIN visits w USING (patient_id) JOIN visits x USING (patient_id) JOIN visits y USING (patient_id)
    JOIN visits z USING (patient_id)"""
"""A statement that runs for many seconds."""
COUNT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}) COUNT(*) AS n FROM patients"
STORED = (
    COUNT.format(epsilon="0.25"),
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25) clinic, COUNT(DISTINCT patient_id) AS n "
    "FROM visits GROUP BY clinic",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25) sex, COUNT(*) AS n FROM patients GROUP BY sex",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25) COUNT(*) AS n FROM patients "
    "WHERE birth_year > 1980",
)
"""Statements whose answers are stored once they were asked."""
_OPTION = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25)"
COMPOSED = (
    f"SELECT {_OPTION} a.n - b.n AS d FROM (SELECT COUNT(*) AS n FROM patients) a, "
    "(SELECT COUNT(*) AS n FROM patients WHERE birth_year > 1980) b",
    f"SELECT {_OPTION} sex, n FROM (SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex) t "
    "WHERE n > 10 ORDER BY n DESC",
    "WITH a AS (SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic) "
    f"SELECT {_OPTION} clinic, n / (SELECT SUM(n) FROM a) AS share FROM a ORDER BY 2 DESC",
)
"""Statements that compute from several releases, or from one."""


class ServerError(Exception):
    """An ErrorResponse, with its fields."""

    def __init__(self, found: dict[str, str]) -> None:
        super().__init__(f"{found['C']} {found['M']}")
        self.fields = found
        self.sqlstate = found["C"]


@dataclass
class Answer:
    """What a simple query gave."""

    rows: list[tuple[bytes | None, ...]] = field(default_factory=list)
    notices: list[dict[str, str]] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)


def answer_of(messages: Sequence[f.Message]) -> Answer:
    """Return the rows and notices of messages; raises `ServerError` for the first error among them."""
    found = Answer()
    for tag, body in messages:
        if tag == b"E":
            raise ServerError(f.fields(body))
        if tag == b"D":
            found.rows.append(f.row(body))
        elif tag == b"N":
            found.notices.append(f.fields(body))
        elif tag == b"C":
            found.tags.append(body.rstrip(b"\0").decode())
    return found


async def ask(client: Frontend, sql: str) -> Answer:
    """Send a simple query and return its answer; raises `ServerError`."""
    return answer_of(await client.ask(f.query(sql)))


@dataclass
class Served:
    """A running server: where it listens, and what its process takes."""

    policy: Path
    process: subprocess.Popen[str]
    port: int
    log: Path
    context: ssl.SSLContext
    metrics: int = 0
    opened: list[asyncio.StreamWriter] | None = None
    """The connections that `run` closes at its end."""

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run something in an event loop of its own, and close the connections that it opened."""

        async def whole() -> _T:
            self.opened = []
            try:
                return await work
            finally:
                for writer in self.opened:
                    writer.close()
                await asyncio.gather(*(each.wait_closed() for each in self.opened), return_exceptions=True)
                self.opened = None

        return asyncio.run(whole())

    async def connect(self, user: str = "alice", **parameters: str) -> Frontend:
        """Log in over TLS with channel binding; further arguments are parameters of the startup message."""
        client = await self.raw()
        await client.start_tls(self.context)
        return await client.log_in(user, PASSWORD, parameters=parameters)

    async def raw(self) -> Frontend:
        """Open a connection that has sent nothing."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        if self.opened is not None:
            self.opened.append(writer)
        return Frontend(reader, writer)

    async def cancel(self, client: Frontend) -> None:
        """Send the cancel request of a connection and wait until it is taken."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f.cancel_request(client.number, client.secret))
        await writer.drain()
        await reader.read()
        writer.close()
        await writer.wait_closed()

    def status(self) -> tuple[float, int]:
        """Return the process's resident memory in MB and its number of threads."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        memory, threads = (re.search(rf"{name}:\s+(\d+)", text) for name in ("VmRSS", "Threads"))
        assert memory is not None
        assert threads is not None
        return int(memory[1]) / 1024, int(threads[1])

    def processor_seconds(self) -> float:
        """Return the processor time that the process has taken."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def events(self) -> list[dict[str, Any]]:
        """Return the lines of the log that are whole."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.endswith("}")]

    async def wait_for(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until the log has so many lines of an event."""
        async with asyncio.timeout(60):
            while len(found := [line for line in self.events() if line["event"] == event]) < count:
                await asyncio.sleep(0.05)
        return found

    def stop(self) -> int:
        """Tell the server to end; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=90)

    def dpsql(self, *arguments: str) -> str:
        """Run a command of the owner on the policy and return what it prints."""
        done = self._dpsql(*arguments)
        done.check_returncode()
        return done.stdout

    def succeeds(self, *arguments: str) -> bool:
        """Run a command of the owner and return whether it ended well."""
        return self._dpsql(*arguments).returncode == 0

    def _dpsql(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*DPSQL, "-p", str(self.policy), *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def trusting(policy: Path) -> ssl.SSLContext:
    """Return what trusts the certificate that a server made beside its policy."""
    return ssl.create_default_context(cafile=str(policy.with_name("dpsql-server.pem")))


def prepare(
    folder: Path,
    users: Sequence[User],
    *,
    epsilon: str = "1000000",
    serve: str = "",
    failures: int = 1_000_000,
    data: Path = ROOT / "data",
) -> Path:
    """Make a copy of the clinic with these users and this budget; return the path of the policy."""
    folder.mkdir(parents=True, exist_ok=True)
    policy = clinic(folder, epsilon, data)
    text = policy.read_text().replace("delta = 1e-5", "delta = 0.01")
    text = text.replace("[budget]\n", f"[budget]\nmax_failures = {failures}\n", 1)
    policy.write_text(
        f'{text}\n[serve]\nname = "shop"\nlisten = ["127.0.0.1:0"]\nmetrics = "127.0.0.1:0"\n{serve}\n'
    )
    let_in(folder, PASSWORD, *users)
    return policy


def await_event(
    path: Path, began: int, event: str, process: subprocess.Popen[str]
) -> tuple[str, re.Match[str] | None]:
    """Return the log's text with an event's port; a thread of the server writes it after what it prints."""
    deadline = time.monotonic() + 30
    while True:
        ended = process.poll() is not None
        text = path.read_text()[began:]
        found = re.search(rf'"event":\s*"{event}".*?:(\d+)".*\n', text)
        if found or ended or time.monotonic() > deadline:
            return text, found
        time.sleep(0.01)


@contextmanager
def serving(policy: Path, *, log: str = "server.log", prefix: Sequence[str] = ()) -> Iterator[Served]:
    """Run a server on a policy; it is killed at the block's end if it has not ended. Its log is a file."""
    path = policy.with_name(log)
    with path.open("a") as errors:
        began = errors.tell()
        process = subprocess.Popen(
            [*prefix, *DPSQL, "-p", str(policy), "serve"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("ready"):
                break
        text, ready = await_event(path, began, "ready", process)
        if ready is None:
            raise RuntimeError(f"the server did not start: {text}")
        metrics = re.search(r'"event":\s*"metrics".*?:(\d+)"', text)
        port = int(metrics[1]) if metrics else 0
        yield Served(policy, process, int(ready[1]), path, trusting(policy), port)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()


async def page(served: Served, path: str = "/metrics") -> str:
    """Return the body of a page of the port of metrics."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.metrics)
    writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return text.partition("\r\n\r\n")[2]


@dataclass
class Times:
    """Seconds that something took, many times."""

    seconds: list[float] = field(default_factory=list)

    async def of(self, work: Coroutine[Any, Any, Any]) -> None:
        """Await something and note how long it took."""
        began = time.perf_counter()
        await work
        self.seconds.append(time.perf_counter() - began)

    def at(self, share: float) -> float:
        """Return a quantile, in milliseconds."""
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")

    def __str__(self) -> str:
        shown = f"p50 {self.at(0.5):.1f} p95 {self.at(0.95):.1f} p99 {self.at(0.99):.1f}"
        return f"{shown} max {self.at(1):.1f} ms of {len(self.seconds)}"


async def until(stop: float, work: Callable[[], Coroutine[Any, Any, Any]]) -> int:
    """Do something again and again until a time of the monotonic clock; return how often."""
    count = 0
    while time.monotonic() < stop:
        await work()
        count += 1
    return count


def show(what: str, seen: str, goal: str) -> None:
    """Print a figure beside its goal."""
    sys.stdout.write(f"{what:<46} {seen:<58} goal {goal}\n")
    sys.stdout.flush()
