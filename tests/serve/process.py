"""`dpsql serve` as a process of its own: its lines, its log, psql, and the token of a program."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.served import ROOT

DPSQL = [sys.executable, "-m", "dpsql.cli"]
PASSWORDS = {"alice": "correct horse battery", "bob": "another long password"}


@dataclass
class Running:
    """A server's process, its lines of standard output until it is ready, and its log."""

    process: subprocess.Popen[str]
    said: list[str] = field(default_factory=list)
    log: list[dict[str, Any]] = field(default_factory=list)
    news: threading.Condition = field(default_factory=threading.Condition)
    psql: str = ""

    def read_log(self, stream: IO[str]) -> None:
        for line in stream:
            with self.news:
                if line.startswith("{"):
                    self.log.append(json.loads(line))
                self.news.notify_all()

    def wait_for(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        def found() -> list[dict[str, Any]]:
            return [line for line in self.log if line["event"] == event]

        with self.news:
            assert self.news.wait_for(lambda: len(found()) >= count, timeout=60), (event, self.log)
            return found()

    def ask(
        self, user: str, *statements: str, password: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        commands = [part for text in statements for part in ("-c", text)]
        return subprocess.run(
            [*shlex.split(self.psql.replace("user=NAME", f"user={user}")), "-X", "-A", "-t", *commands],
            env={**os.environ, "PGPASSWORD": PASSWORDS.get(user, "") if password is None else password},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


@contextmanager
def running(command: list[str], **environment: str) -> Iterator[Running]:
    """Start a server; it is killed at the block's end if it has not ended."""
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    server = Running(process)
    reader = threading.Thread(target=server.read_log, args=(process.stderr,))
    reader.start()
    try:
        for line in process.stdout:
            server.said.append(line.rstrip("\n"))
            if 'psql "' in line and not server.psql:
                server.psql = line[line.index('psql "') :]
            if line.startswith("ready"):
                break
        yield server
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        reader.join()
        process.stdout.close()
        process.stderr.close()


def free_port() -> int:
    """Return a port of this machine on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def token_of(policy: Path, name: str, *options: str) -> str:
    """Add a program to the users of a policy and return its token."""
    added = subprocess.run(
        [*DPSQL, "-p", str(policy), "user", "add", name, *options, "--token"],
        capture_output=True,
        text=True,
        check=True,
    )
    (token,) = re.findall(r"dpsql_\S+", added.stdout + added.stderr)
    return str(token)
