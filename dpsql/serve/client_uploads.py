"""The uploads of a connection: the policy that all connections share, with its own public tables."""

from __future__ import annotations

import threading
import weakref
from copy import copy
from typing import TYPE_CHECKING, Final

from dpsql.errors import OperationalError
from dpsql.serve.answers import DESCRIPTIONS, PLANS, DataCache, StoredAnswers
from dpsql.uploads import Uploads

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.serve.shared import Generation

MOST_CLIENTS: Final = 8
"""How many connections of a server have uploads at a time: each has engines of its own."""
_LOCK: Final = threading.Lock()
_OPEN: Final = weakref.WeakSet["ClientUploads"]()


class ClientUploads:
    """The uploads of one connection; they end with it, and when the policy is read again."""

    def __init__(self, analyst: str) -> None:
        self._analyst = analyst
        self._uploads: Uploads | None = None
        self._base: Generation | None = None
        self._own: Generation | None = None

    def of(self, base: Generation) -> Generation:
        """Return what is open for the policy, with the uploads of the connection."""
        if self._own is None:
            return base
        if self._base is not base:
            self.close()
            return base
        self._own.retired = base.retired
        return self._own

    def add(self, base: Generation, name: str, rows: pa.Table, key: str | None) -> None:
        """Upload a table under a name, for this connection alone, with caches of its own."""
        if self._base is not base:
            self.close()
        with _LOCK:
            if self not in _OPEN and len(_OPEN) >= MOST_CLIENTS:
                raise OperationalError(f"{MOST_CLIENTS} connections have uploads: ask again later")
            _OPEN.add(self)
        self._base, self._uploads = base, self._uploads or Uploads(base.database, self._analyst)
        database = self._uploads.add(name, rows, key)
        own = copy(base)
        own.database, own.policy = database, database.policy
        own.plans, own.descriptions, own.stored = DataCache(PLANS), DataCache(DESCRIPTIONS), StoredAnswers()
        self._own = own

    def close(self) -> None:
        """Forget all uploads of the connection, and close their engines in the background."""
        if self._uploads is not None:
            threading.Thread(target=self._uploads.close, name="dpsql closing uploads").start()
        self._uploads = self._base = self._own = None
        with _LOCK:
            _OPEN.discard(self)
