"""The portals of a connection, by name: statements with their parameters, and the rows still to be sent."""

from __future__ import annotations

from dpsql.lazy_dataclass import dataclass
from dpsql.serve.wire.errors import WireError
from dpsql.serve.wire.kept import Kept
from dpsql.serve.wire.prepared import Prepared
from dpsql.serve.wire.sending import Rows
from dpsql.serve.wire.statement import Result

MOST_PORTALS = 100
MOST_HELD = 64 << 20
"""Bytes of the results of all portals of a connection together that have rows to send."""


@dataclass(slots=True)
class Portal:
    """A statement with its parameters, which is run once and gives its rows in parts."""

    prepared: Prepared
    parameters: tuple[object, ...]
    size: int
    """Bytes of the parameters, as they are decoded."""
    codes: tuple[int, ...]
    """The formats of the columns as the client gave them: none, one for all, or one each."""
    result: Result | None = None
    """What it gave; without a table when all rows were sent."""
    rows: Rows | None = None
    """The rows, while some are left."""


class Portals(Kept[Portal]):
    """Portals by name; the one without a name is replaced each time."""

    most = 8 << 20
    """Bytes of the parameters of all of them together, as they are decoded."""
    too_long = "the parameters of the portals are too long together"

    def check(self, name: str, size: int) -> None:
        """Raise if there is no room for another portal with parameters of this size, or its name is taken."""
        if not name:
            self.pop("", None)
        elif name in self:
            raise WireError("42P03", f'there is already a portal "{name}"')
        if len(self) >= MOST_PORTALS:
            raise WireError("54000", f"a connection has at most {MOST_PORTALS:,} portals")
        self.check_room(size)

    def keep(self, name: str, portal: Portal) -> None:
        """Take in a portal that `check` had room for, if there is room for its decoded parameters."""
        self.check_room(portal.size)
        self[name] = portal

    def named(self, name: str) -> Portal:
        """Return a portal; raise if there is none."""
        if name not in self:
            raise WireError("34000", f'there is no portal "{name}"')
        return self[name]

    @property
    def held(self) -> int:
        """Bytes of the results that have rows to send."""
        tables = (portal.result.table for portal in self.values() if portal.result is not None)
        return sum(table.nbytes for table in tables if table is not None)

    def check_held(self, name: str) -> None:
        """Raise if the portals hold too many rows, and let go of those of the one that was read last."""
        if self.held > MOST_HELD:
            del self[name]
            raise WireError(
                "54000", "the portals of the connection hold too many rows", "read or close the others first"
            )
