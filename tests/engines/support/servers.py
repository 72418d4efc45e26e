"""A PostgreSQL server of the system's packages, started on a free port in a temporary folder."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USERS = ("postgres", "nobody")
"""Whom the server runs as when the tests run as root, which it refuses."""


class MissingError(Exception):
    """Something of the system is not there; the text says what."""


def binaries() -> Path:
    """Find initdb and pg_ctl."""
    found = [Path(p).parent for p in (shutil.which("initdb"),) if p]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in found:
        if (folder / "initdb").exists() and (folder / "pg_ctl").exists():
            return folder
    raise MissingError("PostgreSQL's initdb and pg_ctl are not on this machine")


def _as() -> list[str]:
    if os.geteuid() != 0:
        return []
    known = {entry.pw_name for entry in pwd.getpwall()}
    runner = shutil.which("runuser")
    name = next((u for u in USERS if u in known), None)
    if runner is None or name is None:
        raise MissingError("PostgreSQL does not run as root, and there is no other user for it")
    return [runner, "-u", name, "--"]


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def postgres() -> Iterator[str]:
    """Start a server, yield its address, stop it and remove it."""
    folder, before = binaries(), _as()
    base = Path(tempfile.mkdtemp(prefix="dpsql-pg-"))
    try:
        if before:
            shutil.chown(base, before[2])
        base.chmod(0o700)
        port = _free_port()
        _run(
            [
                *before,
                str(folder / "initdb"),
                "-D",
                str(base / "data"),
                "-U",
                "owner",
                "--auth=trust",
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
            ]
        )
        options = f"-p {port} -k {base} -c listen_addresses=127.0.0.1 -c fsync=off -c log_statement=none"
        control = [*before, str(folder / "pg_ctl"), "-D", str(base / "data")]
        _run([*control, "-o", options, "-l", str(base / "log"), "-w", "-t", "60", "start"])
        try:
            yield f"postgresql://owner@127.0.0.1:{port}/postgres"
        finally:
            _run([*control, "-m", "immediate", "-w", "stop"])
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        check=False,
        cwd="/",
    )
    if done.returncode:
        raise MissingError(
            f"{Path(command[-1] if len(command) == 1 else command[0]).name} failed: {' '.join(command)}"
        )
