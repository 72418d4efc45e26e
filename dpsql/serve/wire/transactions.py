"""The state of a connection's transaction. There is nothing to write, so a transaction holds no data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.lazy_dataclass import dataclass
from dpsql.serve.wire.command_types import Transaction
from dpsql.serve.wire.errors import WireError

if TYPE_CHECKING:
    from dpsql.serve.settings import Changes, Settings, Values

_NONE = ("25P01", "there is no transaction in progress")
_ALREADY = ("25001", "there is already a transaction in progress")
ABORTED = "the transaction has failed: statements are ignored until ROLLBACK or COMMIT"
_MOST_SAVEPOINTS = 1_000


@dataclass(frozen=True, slots=True)
class Change:
    """What a command of transactions did."""

    tag: str
    ended: bool | None = None
    """None: no transaction ended; True: it was committed; False: it was rolled back."""
    changes: Changes = ()
    """The reported settings that changed."""
    warning: tuple[str, str] | None = None
    """SQLSTATE and text."""


class Transactions:
    """Whether a transaction is open, whether it has failed, and the settings at its savepoints."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._savepoints: list[tuple[str, Values]] = []
        self.status = "I"
        """As ReadyForQuery says it: I (none), T (open), E (failed)."""

    @property
    def open(self) -> bool:
        """Whether a transaction is open, even if it has failed."""
        return self.status != "I"

    def failed(self) -> None:
        """Note that a statement failed."""
        if self.status == "T":
            self.status = "E"

    def check(self, command: object) -> None:
        """Raise if the transaction has failed and the command does not end it."""
        if self.status == "E" and not (
            isinstance(command, Transaction) and command.kind in ("COMMIT", "ROLLBACK", "ROLLBACK TO")
        ):
            raise WireError("25P02", ABORTED)

    def run(self, command: Transaction) -> Change:
        """Run a command of transactions."""
        match command.kind:
            case "BEGIN" | "START TRANSACTION":
                if self.open:
                    return Change(command.tag, warning=_ALREADY)
                self.status = "T"
                self._settings.begin()
                return Change(command.tag)
            case "COMMIT":
                committed = self.status != "E"
                return self._end(command.tag if committed else "ROLLBACK", command.chain, committed)
            case "ROLLBACK":
                return self._end(command.tag, command.chain, committed=False)
        if not self.open:
            raise WireError("25P01", "savepoints need a transaction", "begin one with BEGIN")
        match command.kind:
            case "SAVEPOINT":
                if len(self._savepoints) >= _MOST_SAVEPOINTS:
                    raise WireError("54000", f"a transaction has at most {_MOST_SAVEPOINTS:,} savepoints")
                self._savepoints.append((command.name, self._settings.values))
            case "RELEASE":
                del self._savepoints[self._place(command.name) :]
            case _:
                del self._savepoints[self._place(command.name) + 1 :]
                self.status = "T"
                return Change(command.tag, changes=self._settings.restore(self._savepoints[-1][1]))
        return Change(command.tag)

    def _end(self, tag: str, chain: bool, committed: bool) -> Change:
        if not self.open:
            if chain:
                raise WireError(*_NONE)
            return Change(tag, warning=_NONE)
        self._savepoints.clear()
        self.status = "T" if chain else "I"
        changes = self._settings.end(committed=committed)
        if chain:
            self._settings.begin()
        return Change(tag, committed, changes)

    def _place(self, name: str) -> int:
        for place in reversed(range(len(self._savepoints))):
            if self._savepoints[place][0] == name:
                return place
        raise WireError("3B001", f'there is no savepoint "{name}"')
