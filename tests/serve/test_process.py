"""`dpsql serve` as a process: from nothing to an answer in psql, reload, shutdown, systemd, its log."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
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

import pytest

from dpsql.serve import account_file, changes
from dpsql.serve.user import Account, User

ROOT = Path(__file__).parents[2]
PASSWORDS = {"alice": "correct horse battery", "bob": "another long password"}
pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed"),
]


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


DPSQL = [sys.executable, "-m", "dpsql.cli"]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A copy of the shipped clinic, with two users."""
    for name in ("clinic.toml", "patients.parquet", "visits.parquet", "diagnoses.parquet"):
        shutil.copy(ROOT / "data" / name, tmp_path)
    path = tmp_path / "clinic.toml"
    with path.open("a") as file:
        file.write('\n[serve]\nlisten = ["127.0.0.1:0"]\nmetrics = "127.0.0.1:0"\n')
    with account_file.changed(tmp_path / "dpsql-users.toml") as accounts:
        for name, password in PASSWORDS.items():
            accounts[name] = changes.with_password(Account(User(name, name)), password)
    return path


def test_from_nothing_to_an_answer_in_psql() -> None:
    with running([*DPSQL, "demo", "--serve"]) as server:
        passwords = dict(re.findall(r"user (\w+), password (\S+)", "\n".join(server.said)))
        assert set(passwords) == {"alice", "bob"}
        assert passwords["alice"] != passwords["bob"]
        # The line to copy, as a shell runs it.
        line = next(text for text in server.said if "PGPASSWORD=" in text).strip()
        done = subprocess.run(
            f"{line} -X -A -t -c 'SELECT COUNT(*) FROM diagnoses'",
            shell=True,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.stdout.strip(), done.returncode) == ("300", 0), done.stderr
        assert server.stop() == 0


def test_a_private_count_over_the_wire_is_in_the_ledger(policy: Path) -> None:
    ask = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(*) AS n FROM patients"
    with running([*DPSQL, "-p", str(policy), "serve"]) as server:
        first, again = (server.ask("alice", ask) for _ in range(2))
        assert first.returncode == 0, first.stderr
        assert abs(float(first.stdout) - 50_000) < 1000
        assert again.stdout == first.stdout
        assert server.ask("bob", "SHOW PRIVACY BUDGET").returncode == 0
        lines = [line for line in server.wait_for("statement", 3) if line["analyst"] == "alice"]
        assert lines[0]["statement"] == lines[1]["statement"]
        assert server.stop() == 0
    budget = subprocess.run(
        [*DPSQL, "-p", str(policy), "--analyst", "alice", "budget", "--json"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(budget.stdout)["spent"]["epsilon"] in ("0.5", 0.5, "1/2")
    text = json.dumps(server.log)
    assert "patients" not in text
    assert first.stdout.strip() not in text


def test_a_wrong_password_and_an_unknown_user_look_alike(policy: Path) -> None:
    with running([*DPSQL, "-p", str(policy), "serve"]) as server:
        wrong = server.ask("alice", "SELECT 1", password="wrong horse battery")
        unknown = server.ask("mallory", "SELECT 1", password="wrong horse battery")
        assert wrong.returncode == unknown.returncode == 2
        assert wrong.stderr.replace("alice", "X") == unknown.stderr.replace("mallory", "X")
        assert 'password authentication failed for user "alice"' in wrong.stderr
        server.wait_for("handshake failed", 2)
        assert "mallory" not in json.dumps(server.log)
        assert server.stop() == 0


def test_a_removed_user_is_gone_after_a_reload(policy: Path) -> None:
    with running([*DPSQL, "-p", str(policy), "serve"]) as server:
        assert server.ask("bob", "SELECT 1").returncode == 0
        with account_file.changed(policy.with_name("dpsql-users.toml")) as accounts:
            del accounts["bob"]
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("reloaded")
        assert "password authentication failed" in server.ask("bob", "SELECT 1").stderr
        assert server.ask("alice", "SELECT 1").returncode == 0
        policy.write_text("no policy")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("reload refused")
        assert server.ask("alice", "SELECT 1").returncode == 0
        assert server.stop() == 0


def test_the_command_of_the_shipped_unit_starts(policy: Path) -> None:
    unit = (ROOT / "examples" / "serve" / "dpsql.service").read_text()
    assert "Type=notify" in unit
    (command,) = re.findall(r"^ExecStart=/opt/dpsql/bin/dpsql (.+)$", unit, re.MULTILINE)
    arguments = shlex.split(command.replace("/etc/dpsql/dpsql.toml", str(policy)))
    (signal_name,) = re.findall(r"^ExecReload=/bin/kill -(\w+) ", unit, re.MULTILINE)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(policy.with_name("notify")))
        manager.settimeout(60)
        with running([*DPSQL, *arguments], NOTIFY_SOCKET=str(policy.with_name("notify"))) as server:
            assert manager.recv(1000).startswith(b"READY=1\n")
            server.process.send_signal(getattr(signal, f"SIG{signal_name}"))
            assert manager.recv(1000).startswith(b"RELOADING=1\n")
            assert manager.recv(1000) == b"READY=1"
            assert server.stop() == 0
            assert manager.recv(1000) == b"STOPPING=1"
