"""A server on the shipped clinic, its ledger with the cookbook answered once, locally, and its users."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import dpsql
from dpsql.release import reuse
from dpsql.serve.users import User
from tests.serve.clients.cookbook import STATEMENTS, Answered
from tests.serve.clients.questions import PARAMETERS, written
from tests.serve.process import DPSQL, Running, free_port, running, token_of
from tests.served import clinic, let_in

PASSWORD = "correct horse battery"
SERVE = """
[serve]
listen = ["127.0.0.1:{wire}"]
name = "shop"
[mcp]
listen = "127.0.0.1:{http}"
"""


@dataclass
class Shop:
    """The running server. `alice` has the cookbook's releases, `bob` pays, `agent7` has a token."""

    folder: Path
    wire: int
    http: int
    token: str
    expected: list[Answered]
    """The cookbook's answers to `alice`, as local dpsql gave them."""
    with_parameters: list[Answered]
    """The answers to PARAMETERS, whose values were written as literals."""
    process: Running

    @property
    def policy(self) -> Path:
        return self.folder / "clinic.toml"

    @property
    def certificate(self) -> Path:
        return self.folder / "dpsql-server.pem"

    def outcomes(self, user: str, sqlstate: str) -> list[dict[str, object]]:
        """Return what the log says of a user's statements that ended so."""
        lines = [line for line in self.process.log if line["event"] == "statement"]
        return [line for line in lines if (line["user"], line["outcome"]) == (user, sqlstate)]

    def spent(self) -> str:
        """Return a hash of all that the ledger holds."""
        ledger = sqlite3.connect(f"file:{self.folder / 'clinic-ledger.sqlite'}?mode=ro", uri=True)
        try:
            return hashlib.sha256("\n".join(ledger.iterdump()).encode()).hexdigest()
        finally:
            ledger.close()


_SETTLED = 2.0
"""After so many seconds a file that was written is no longer new."""


@contextmanager
def opened(folder: Path) -> Iterator[Shop]:
    """Answer the cookbook locally, then serve the same policy and ledger."""
    policy = clinic(folder, epsilon=2000)
    # A hash of a file is kept in the ledger only then: at its first use here, not by the server later.
    time.sleep(_SETTLED + 0.1)
    wire, http = free_port(), free_port()
    # What `bob` spends must not change what is left to `alice`: her own cap is the smaller one.
    before, name, caps = policy.read_text().partition('[analysts."*"]')
    caps = caps.replace("epsilon = 2000", "epsilon = 1000", 1)
    policy.write_text(before + name + caps + SERVE.format(wire=wire, http=http))
    let_in(folder, PASSWORD, User("alice", "alice"), User("bob", "bob"))
    token = token_of(policy, "agent7", "--analyst", "alice")
    with (
        mock.patch.object(reuse, "_SETTLED_SECONDS", _SETTLED),  # as the server has it
        dpsql.connect(policy, analyst="alice") as local,
    ):
        with_parameters = [
            _answered(local.execute(written(text, values))) for text, asked in PARAMETERS for values in asked
        ]
        expected = [_answered(local.execute(statement)) for statement in STATEMENTS]
    with running([*DPSQL, "-p", str(policy), "serve"]) as process:
        shop = Shop(folder, wire, http, token, expected, with_parameters, process)
        yield shop
        assert process.stop() == 0


def _answered(cursor: dpsql.Cursor) -> Answered:
    assert cursor.description is not None
    return Answered(
        tuple(column[0] for column in cursor.description), [tuple(row) for row in cursor.fetchall()]
    )
