"""`KeyFile`: the key beside a ledger, for the thresholds of lasting streams and the hashes of units.

It is as private as the data: who has it and the ledger can find out the noise of thresholds. So it is no part
of a backup that others may read, and nobody but its user may read the file.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from pathlib import Path

from dpsql.errors import OperationalError
from dpsql.kernel.ledger.schema import sync_folder


class KeyFile:
    """The file `LEDGER.key`: 32 random bytes in hexadecimal digits."""

    def __init__(self, ledger: Path) -> None:
        self.path = ledger.with_name(f"{ledger.name}.key")

    def exists(self) -> bool:
        """Return whether there is one."""
        return self.path.exists()

    def make(self, key: str) -> None:
        """Write a key, complete and at once, unless another process or thread was first."""
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}-{threading.get_ident()}.new")
        draft.unlink(missing_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(key)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(draft, self.path)
            except FileExistsError:
                return
            sync_folder(self.path.parent)
        finally:
            draft.unlink(missing_ok=True)

    def read(self) -> str:
        """Return the key; `OSError` if there is none, `OperationalError` for one that others may know."""
        mode = self.path.stat().st_mode
        if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise OperationalError(
                f"other users may read {self.path.name}: run chmod 600, and if one has, close the streams"
            )
        text = self.path.read_text("ascii", errors="replace").strip()
        if not re.fullmatch("[0-9a-f]{64}", text):
            raise OperationalError(
                f"{self.path.name} has no key, which is 64 hexadecimal digits: bring it back"
            )
        return text
