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
from pathlib import Path

import pytest

from dpsql.serve import users
from dpsql.serve.users import User
from tests.serve.process import DPSQL, PASSWORDS, running
from tests.served import ROOT, clinic, let_in

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed"),
]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A copy of the shipped clinic, with two users."""
    path = clinic(tmp_path, epsilon=10)
    with path.open("a") as file:
        file.write('\n[serve]\nlisten = ["127.0.0.1:0"]\nmetrics = "127.0.0.1:0"\n')
    for name, password in PASSWORDS.items():
        let_in(tmp_path, password, User(name, name))
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
        with users.change_accounts(policy.with_name("dpsql-users.toml")) as accounts:
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
