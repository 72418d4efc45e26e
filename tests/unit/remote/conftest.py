"""What answers remote sessions in place of a server: statements come as texts, answers leave as bytes."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from dpsql import remote as remote_session
from dpsql.errors import Error, error_to_json
from dpsql.lazy_dataclass import replace
from dpsql.release import to_arrow
from dpsql.remote import RemoteSession
from dpsql.remote.outgoing_statement import SentText, error_of
from dpsql.remote.server_target import Target
from dpsql.remote.server_wire import Reply
from dpsql.session import Session
from tests.support.world import write_world

POLICY = """
[budget]
epsilon = 10
default_delta = 1e-6
delta = 1e-5
max_epsilon_per_query = 3
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page.values = ["home", "news", "shop"]
page.complete = true
"""

_COPY = re.compile(r"COPY \((.*)\n\) TO STDOUT \(FORMAT arrow, RELEASE\)", re.DOTALL)


class LocalWire:
    """Answers in place of `ServerWire`, as the server does, from a session in this process."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.lost = False
        self.texts: list[str] = []
        self.cancelled = threading.Event()
        self.during: Callable[[], None] = lambda: None
        """Called while a statement runs."""

    def ask(self, sent: SentText) -> Reply:
        self.texts.append(sent.text)
        self.during()
        try:
            return self._reply(sent)
        except Error as error:
            return Reply(error=error_of({"C": "XXXXX", "M": str(error), "J": error_to_json(error)}, sent))

    def _reply(self, sent: SentText) -> Reply:
        copied = _COPY.fullmatch(sent.text)
        if copied is None:
            if sent.text.startswith("RESET dp_"):
                name = sent.text.removeprefix("RESET dp_")
                before = Session(self.session.database, "other").defaults
                self.session.defaults = replace(self.session.defaults, **{name: getattr(before, name)})
            elif sent.text == "SHOW timezone":
                return Reply(columns=["TimeZone"], rows=[["UTC"]])
            else:
                self.session.run(sent.text)
            return Reply(notices=["noted"])
        shown = re.fullmatch("SHOW RELEASE ([0-9]+)", copied[1])
        if shown is not None:
            release = self.session.release(int(shown[1]))
            return Reply(bytearray(to_arrow(pa.table({"release": ["{}"]}), release)))
        result = self.session.run(copied[1])
        return Reply(bytearray(to_arrow(result.table, result.release)), notices=["epsilon 1 charged"])

    def cancel(self) -> None:
        self.cancelled.set()

    def abort(self) -> None:
        self.lost = True

    def close(self) -> None:
        self.lost = True


VISITS = """
SELECT u AS user_id, ['home', 'news', 'shop'][1 + (u + i) % 3] AS page FROM range(100) a(u), range(3) b(i)
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A small policy with 300 visits of 100 users."""
    return write_world(tmp_path, POLICY, visits=VISITS)


@pytest.fixture
def local(policy: Path) -> Iterator[Session]:
    """The session on the server."""
    session = Session(policy, "alice")
    yield session
    session.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session on the server that those tests share that are refused."""
    path = write_world(tmp_path_factory.mktemp("shared"), POLICY, visits=VISITS)
    with closing(Session(path, "alice")) as made:
        yield made


@pytest.fixture
def wire(local: Session, monkeypatch: pytest.MonkeyPatch) -> LocalWire:
    """The connection that every remote session of the test gets."""
    return wire_to(local, monkeypatch)


def wire_to(local: Session, monkeypatch: pytest.MonkeyPatch) -> LocalWire:
    made = LocalWire(local)
    monkeypatch.setattr(remote_session, "ServerWire", lambda target, password: made)
    monkeypatch.setenv("DPSQL_PASSWORD", "a password of the test")
    return made


@pytest.fixture
def remote(wire: LocalWire) -> RemoteSession:
    """A session of alice on the server."""
    return remote_of(wire)


@pytest.fixture
def remote_of_shared(shared: Session, monkeypatch: pytest.MonkeyPatch) -> RemoteSession:
    """A session of alice on the shared one."""
    return remote_of(wire_to(shared, monkeypatch))


def remote_of(wire: LocalWire) -> RemoteSession:
    return RemoteSession(Target("localhost", user="alice"), "a password of the test")
