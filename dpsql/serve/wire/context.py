"""`WireContext`: what the connections of a listener use of the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from dpsql.lazy_dataclass import dataclass
from dpsql.serve.limits import Accounts
from dpsql.serve.wire.pace import Pace

if TYPE_CHECKING:
    from dpsql.serve.gate import Gate
    from dpsql.serve.service import Service
    from dpsql.serve.tls import Tls
    from dpsql.serve.wire.registry import Connections


@dataclass(slots=True)
class WireContext:
    """What the connections use of the server; the server assigns other values when it is reloaded."""

    name: str
    """The name of the database that clients use."""
    gate: Gate
    service: Service
    tls: Tls | None
    connections: Connections
    log: Callable[[str, Mapping[str, object]], None]
    """Takes an event and its fields; never a text of a statement."""
    pace: Pace = field(default_factory=Pace)
    """How fast each analyst may send."""
    accounts: Accounts = field(default_factory=Accounts)
    """Count what is decoded for each connection and analyst, and for all."""
    statement_timeout: int = 300_000
    """Milliseconds that a statement may run; a client may choose fewer."""
    max_statement: int = 65_536
    """Characters of what a client sends as one query."""
