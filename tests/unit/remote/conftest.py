"""What answers remote sessions in place of a server: statements come as texts, answers leave as bytes."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from dpsql.errors import Error, error_to_json
from dpsql.release import to_arrow
from dpsql.remote import RemoteSession, Target
from dpsql.remote import session as remote_session
from dpsql.remote.sent_statement import SentText, error_of
from dpsql.remote.wire import Reply
from dpsql.session import Session

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
                self.session.defaults = type(before)(
                    **{
                        each: getattr(before if each == name else self.session.defaults, each)
                        for each in before.__dataclass_fields__
                    }
                )
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


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A small policy with 300 visits of 100 users."""
    import pyarrow.parquet as pq

    pages = ["home", "news", "shop"]
    users, seen = zip(*((user, pages[(user + i) % 3]) for user in range(100) for i in range(3)), strict=True)
    pq.write_table(pa.table({"user_id": users, "page": seen}), tmp_path / "visits.parquet")
    (tmp_path / "dpsql.toml").write_text(POLICY)
    return tmp_path / "dpsql.toml"


@pytest.fixture
def local(policy: Path) -> Iterator[Session]:
    """The session on the server."""
    session = Session(policy, "alice")
    yield session
    session.close()


@pytest.fixture
def wire(local: Session, monkeypatch: pytest.MonkeyPatch) -> LocalWire:
    """The connection that every remote session of the test gets."""
    made = LocalWire(local)
    monkeypatch.setattr(remote_session, "ServerWire", lambda target, password: made)
    monkeypatch.setenv("DPSQL_PASSWORD", "a password of the test")
    return made


@pytest.fixture
def remote(wire: LocalWire) -> RemoteSession:
    """A session of alice on the server."""
    return RemoteSession(Target("localhost", user="alice"), "a password of the test")
