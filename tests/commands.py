"""Commands of `dpsql`, and Python's, in forks of one process that has loaded dpsql.

Each is a process of its own, but loads nothing.
Loading Python and dpsql takes longer than most commands do. What depends on the start (which modules are
loaded, signals, a terminal) is tested with processes that load all. A command ends with its client.

    python -m tests.commands SOCKET
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib
import marshal
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import Any, NoReturn

from tests.support import noise_of_tests

ROOT = Path(__file__).parents[1]
CLIENT = """
import marshal, os, socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
asked = marshal.dumps((sys.argv[2:], os.getcwd(), dict(os.environ)))
socket.send_fds(link, [len(asked).to_bytes(4, "big")], [0, 1, 2])
link.sendall(asked)
sys.exit(int.from_bytes(link.recv(1), "big") if link.recv(1) else 70)
"""
"""Sends its arguments, folder, environment and streams; ends with the exit code of the command."""
LOADED = [
    "cli.batch",
    "cli.budget",
    "cli.check_and_audit",
    "cli.demo",
    "cli.init",
    "cli.narrate",
    "cli.output",
    "session",
]


class Commands:
    """The process that is forked, and the command line of its clients."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="dpsql")  # an address has a hundred characters
        folder = Path(self._folder.name)
        address, client = folder / "commands", folder / "client.py"
        client.write_text(CLIENT, "utf-8")
        self.command = [sys.executable, "-I", "-S", str(client), str(address)]
        """What stands in the place of `dpsql`; with `python` behind it, in that of `python -c`."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.commands", str(address)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
        while not address.exists():
            if self._process.poll() is not None:
                raise RuntimeError("the process of the commands has ended")
            time.sleep(0.02)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._folder.cleanup()


def serve(address: str) -> None:
    """Load dpsql, and run every command that is sent in a fork, until the input ends."""
    from dpsql.cli import __main__ as started

    noise_of_tests.take_over()
    sys.meta_path.insert(0, started._WithoutPandas())
    for name in (*LOADED, "engines.duckdb.duckdb_engine"):
        importlib.import_module(f"dpsql.{name}")
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{address}.new")
        listening.listen()
        Path(f"{address}.new").rename(address)
        while sys.stdin not in select.select([sys.stdin, listening], [], [])[0]:
            link, _ = listening.accept()
            _wait_for_ended()
            if not _fork():
                listening.close()
                _answer(link, started.start, address)
            link.close()
    _wait_for_ended()


def _seed_noise(test: str, address: str) -> None:
    """Let a command draw noise by the name of its test, and how many commands this test had before."""
    name, _, _ = test.rpartition(" ")  # without what the test is doing
    kept = hashlib.sha256(name.encode()).hexdigest()[:32]
    with open(f"{address}.{kept}", "ab") as file:
        file.write(b".")
        file.flush()
        noise_of_tests.seed_noise(name and f"{name} command {file.tell()}")


def _wait_for_ended() -> None:
    """Wait for the forks that have ended: so their processor time is counted as that of the tests."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # numpy has threads, which do nothing here
        return os.fork()


def _answer(link: socket.socket, start: Any, address: str) -> NoReturn:
    """Run one command in a fork, and tell its exit code."""
    size, streams, _, _ = socket.recv_fds(link, 4, 3)
    with link.makefile("rb") as sent:
        arguments, folder, environment = marshal.loads(sent.read(int.from_bytes(size, "big")))
    child = _fork()
    if not child:
        link.close()
        for place, stream in enumerate(streams):
            os.dup2(stream, place)
            os.close(stream)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None
        _seed_noise(environment.get("PYTEST_CURRENT_TEST", ""), address)
        encoding = environment.get("PYTHONIOENCODING", "utf-8")
        sys.stdin = open(0, encoding=encoding, closefd=False)  # noqa: SIM115  it stays open
        sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", 1, encoding, "backslashreplace", closefd=False)  # noqa: SIM115
        if arguments[:1] == ["python"]:
            del sys.meta_path[0]
            sys.argv = ["-c", *arguments[2:]]
            exec(arguments[1], {"__name__": "__main__"})
            sys.exit()
        sys.argv = ["dpsql", *arguments]
        sys.exit(start())
    threading.Thread(target=_kill_without_client, args=(link, child), daemon=True).start()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    with contextlib.suppress(OSError):  # nobody waits for it
        link.sendall(bytes([1, code % 256]))
    os._exit(0)


def _kill_without_client(link: socket.socket, child: int) -> None:
    """Kill a command when its client ends before it."""
    if not link.recv(1):
        with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
            os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    serve(sys.argv[1])
