"""Sessions on a folder with a policy file, which are closed together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dpsql.policy import load
from dpsql.session import Session

Open = Callable[..., Session]


@contextmanager
def sessions_in(folder: Path, policy: str) -> Iterator[Open]:
    """Yield a function that opens a session of an analyst, under the policy or another one."""
    made = []

    def open_one(analyst: str = "alice", toml: str = policy) -> Session:
        (folder / "dpsql.toml").write_text(toml)
        made.append(Session(load(folder / "dpsql.toml"), analyst))
        return made[-1]

    yield open_one
    for session in made:
        session.close()
